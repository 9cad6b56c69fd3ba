"""Weights: repeated rows, sampling weights and the error of a weighted mean."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfi._data.weights import Weights, read_weights

RNG = np.random.default_rng(0)
U = RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 3)) + 5.0


def test_no_weights_is_the_usual_standard_error() -> None:
    weights = read_weights(None, 40)
    assert weights.kind == "frequency"
    assert weights.total == 40
    assert weights.uniform
    np.testing.assert_allclose(weights.mean(U), U.mean(axis=0))
    np.testing.assert_allclose(weights.covariance_of_mean(U), np.cov(U, rowvar=False) / 40)
    np.testing.assert_allclose(weights.standard_error(U), U.std(axis=0, ddof=1) / np.sqrt(40))


@settings(max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(0, 6), min_size=40, max_size=40).filter(lambda c: sum(c) > 1))
def test_frequency_weights_equal_repeated_rows(counts: list[int]) -> None:
    weights = read_weights(None, 40, counts)
    repeated = np.repeat(U, counts, axis=0)
    plain = read_weights(None, len(repeated))
    assert weights.kind == "frequency"
    assert weights.total == plain.total
    np.testing.assert_allclose(weights.mean(U), plain.mean(repeated), rtol=1e-12)
    np.testing.assert_allclose(
        weights.covariance_of_mean(U), plain.covariance_of_mean(repeated), atol=1e-14
    )
    np.testing.assert_allclose(
        weights.standard_error(U), plain.standard_error(repeated), atol=1e-7, rtol=1e-9
    )


def test_sampling_weights_against_the_written_out_sandwich() -> None:
    given_weights = RNG.uniform(0.1, 3.0, 40)
    weights = read_weights(given_weights, 40)
    assert weights.kind == "sampling"
    assert weights.total == 40
    np.testing.assert_allclose(weights.values.mean(), 1.0)
    mean = np.average(U, axis=0, weights=given_weights)
    np.testing.assert_allclose(weights.mean(U), mean)
    for j in range(3):
        total = sum(w**2 * (u - mean[j]) ** 2 for w, u in zip(given_weights, U[:, j], strict=True))
        expected = np.sqrt(total * 40 / 39) / given_weights.sum()
        np.testing.assert_allclose(weights.standard_error(U)[j], expected)
    covariance = weights.covariance_of_mean(U)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), weights.standard_error(U))
    np.testing.assert_allclose(covariance, covariance.T)


def test_the_scale_of_sampling_weights_does_not_matter() -> None:
    given_weights = RNG.uniform(0.1, 3.0, 40)
    one, other = read_weights(given_weights, 40), read_weights(given_weights * 1e6, 40)
    np.testing.assert_allclose(one.values, other.values)
    np.testing.assert_allclose(one.standard_error(U), other.standard_error(U))


def test_a_zero_sampling_weight_leaves_the_row_out() -> None:
    given_weights = RNG.uniform(0.1, 3.0, 40)
    given_weights[:5] = 0.0
    weights, fewer = read_weights(given_weights, 40), read_weights(given_weights[5:], 35)
    assert weights.total == fewer.total == 35
    np.testing.assert_allclose(weights.values[5:], fewer.values)
    np.testing.assert_allclose(weights.standard_error(U), fewer.standard_error(U[5:]))


def test_sampling_standard_error_by_simulation() -> None:
    # The sandwich is right in large samples. With weights this skewed it is still 7 % low at
    # n = 100 and 2 % low at n = 400 (3,000 replications), so its claim is tested at n = 1,600.
    rng = np.random.default_rng(3)
    n, replications = 1600, 600
    means, errors, as_counts = [], [], []
    for _ in range(replications):
        x = rng.exponential(size=n)
        u = x + rng.normal(size=n)
        weights = read_weights(0.5 + x, n)
        means.append(weights.mean(u)[0])
        errors.append(weights.standard_error(u)[0])
        as_counts.append(Weights(weights.values, "frequency").standard_error(u)[0])
    # three Monte-Carlo errors of a standard deviation from 600 replications
    tolerance = 3 / np.sqrt(2 * replications)
    assert np.mean(errors) / np.std(means) == pytest.approx(1.0, abs=tolerance)
    assert np.mean(as_counts) / np.std(means) < 1 - 2 * tolerance


def test_take_keeps_the_scale() -> None:
    weights = read_weights(None, 4, [0, 1, 2, 3])
    some = weights.take([1, 3])
    np.testing.assert_array_equal(some.values, [1, 3])
    assert some.total == 4
    assert some.kind == "frequency"


def test_each_parameter_has_its_kind() -> None:
    assert read_weights([0.5, 2.0, 3.0], 3).kind == "sampling"
    assert read_weights(None, 3, [1, 2, 3]).kind == "frequency"
    assert read_weights(None, 3, [1.0, 2.0, 3.0]).kind == "frequency"
    assert read_weights(None, 3).kind == "frequency"


def test_counts_are_whole_numbers() -> None:
    message = (
        "frequency_weight counts repeated rows and must be whole numbers, but row 1 has 0.5; pass "
        "sampling weights as sample_weight."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        read_weights(None, 3, [1.0, 0.5, 0.25])


def test_both_kinds_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match="Pass sample_weight or frequency_weight, not both"):
        read_weights([0.5, 1.0], 2, [1, 2])


def test_series_of_any_library() -> None:
    for values in (pd.Series([1, 2]), pl.Series([1, 2]), [1, 2], np.array([[1], [2]])):
        np.testing.assert_array_equal(read_weights(None, 2, values).values, [1.0, 2.0])
        np.testing.assert_allclose(read_weights(values, 2).values, [2 / 3, 4 / 3])


@pytest.mark.parametrize("name", ["sample_weight", "frequency_weight"])
@pytest.mark.parametrize(
    ("given_weights", "text"),
    [
        ([1.0, -0.5, 1.0], "{} is negative in row 1 (-0.5 at the least)"),
        ([1.0, np.nan, 1.0], "{} has 1 missing or infinite values, the first in row 1"),
        ([1.0, np.inf, np.inf], "{} has 2 missing or infinite values"),
        ([0, 0, 0], "{} is 0 in every row"),
        ([1, 2], "X has 3 rows and {} has 2 values"),
        (np.ones((3, 2)), "{} has 2 columns; it must have one."),
    ],
)
def test_bad_weights(given_weights: object, text: str, name: str) -> None:
    both = {"sample_weight": None, name: given_weights}
    with pytest.raises(ValueError, match=re.escape(text.format(name))):
        read_weights(n_rows=3, **both)


def test_weights_of_strings() -> None:
    with pytest.raises(TypeError, match="sample_weight holds strings or classes"):
        read_weights(["a", "b"], 2)
    with pytest.raises(TypeError, match="frequency_weight holds strings or classes"):
        read_weights(None, 2, ["a", "b"])


def test_misaligned_and_degenerate_use() -> None:
    weights = read_weights(None, 3, [0, 1, 1])
    with pytest.raises(ValueError, match="weight 0, so they have no mean"):
        weights.take([0]).mean([[1.0]])
    assert np.isnan(weights.take([1]).standard_error([[1.0]])).all()


def test_survey_weights_of_whole_numbers_are_no_counts() -> None:
    """Survey weights are often whole numbers; 1000 as a count makes errors 31.6 times smaller."""
    found = read_weights(np.full(40, 1000), 40)
    assert found.kind == "sampling"
    assert found.total == 40
    np.testing.assert_allclose(found.standard_error(U), read_weights(None, 40).standard_error(U))
    counts = read_weights(None, 40, np.full(40, 1000))
    assert counts.total == 40_000
    ratio = found.standard_error(U) / counts.standard_error(U)
    np.testing.assert_allclose(ratio, np.sqrt(1000), rtol=0.02)


def test_rows_of_weight_zero_are_no_observations_of_either_kind() -> None:
    given_weights = np.zeros(40)
    given_weights[:4] = 20
    assert read_weights(given_weights, 40).total == 4
    assert read_weights(None, 40, given_weights).total == 80


def test_whole_numbers_scale_as_any_sampling_weights() -> None:
    whole = np.arange(40) % 4
    one, other = read_weights(whole, 40), read_weights(0.3 * whole, 40)
    assert one.kind == other.kind == "sampling"
    assert one.total == other.total == 30
    np.testing.assert_allclose(one.values, other.values)
    np.testing.assert_allclose(one.standard_error(U), other.standard_error(U))


@pytest.mark.parametrize(
    "values",
    [np.full(40, 3), np.arange(40) % 4, np.full(40, 1000), np.full(40, 1000.5), None],
    ids=["three each", "a few", "large", "fractions", "none"],
)
@pytest.mark.parametrize("counts", [False, True])
def test_no_weights_are_doubted(values, counts) -> None:
    if counts and values is not None and values[0] % 1:
        values = np.floor(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_weights(*((None, 40, values) if counts else (values, 40)))
