"""Influence values by row and as moments: sums, differences, and what each form can say."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfi._data.weights import Weights
from dfi.inference.influence import (
    MOST_THIRD,
    InfluenceMoments,
    InfluenceRows,
    skewness_of_mean,
    standard_errors,
)
from dfi.inference.intervals import max_t_from_covariance, max_t_statistics


def build(n=40, p=3, seed=0, kind="frequency", rows=None, weights=None):
    rng = np.random.default_rng(seed)
    values = rng.exponential(size=(n, p)) @ rng.uniform(0.2, 1.0, (p, p))
    if weights is None:
        weights = rng.integers(1, 4, n) if kind == "frequency" else rng.uniform(0.5, 2.0, n)
    rows = np.arange(n) if rows is None else rows
    return InfluenceRows(values, Weights(np.asarray(weights, dtype=float), kind), rows)


def ones(values, rows):
    return InfluenceRows(values, Weights(np.ones(len(values)), "frequency"), rows)


@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_rows_have_the_statistics_of_their_columns(kind):
    u = build(kind=kind)
    np.testing.assert_array_equal(u.mean, u.weights.mean(u.values))
    np.testing.assert_array_equal(u.se, standard_errors(u.values, u.weights))
    np.testing.assert_array_equal(u.covariance, u.weights.covariance_of_mean(u.values))
    np.testing.assert_array_equal(u.skewness, skewness_of_mean(u.values, u.weights))
    np.testing.assert_array_equal(u.total.values[:, 0], u.values.sum(axis=1))
    assert (u.n_rows, u.n_units, u.size) == (40, 3, u.weights.total)


def assert_same_statistics(one, other, rtol=1e-10):
    for name in ("mean", "se", "covariance", "skewness"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-13, err_msg=name
        )
    assert one.size == other.size
    assert one.n_rows == other.n_rows


@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_moments_keep_the_statistics_of_the_rows(kind):
    u = build(kind=kind)
    m = u.moments()
    assert_same_statistics(m, u)
    assert_same_statistics(m.total, u.total)
    groups = np.array([[1, 1, 0], [0, 1, 1], [1, -1, 0]])
    assert_same_statistics(m.summed(groups), u.summed(groups))
    left_out = np.array([False, True, False])
    assert_same_statistics(m.zeroed(left_out), u.zeroed(left_out))
    assert m.zeroed(left_out).mean[1] == 0.0
    assert m.zeroed(left_out).se[1] == 0.0


def test_moments_of_many_units_estimate_the_skewness_of_sums_from_a_sample_or_refuse():
    u = build(n=500, p=MOST_THIRD + 1)
    assert u.moments().third.shape == (MOST_THIRD + 1,)
    assert_same_statistics(u.moments(), u)
    alone = np.eye(MOST_THIRD + 1)[[4, 2]]
    assert_same_statistics(u.moments().summed(alone), u.summed(alone))
    pairs = alone + np.eye(MOST_THIRD + 1)[[0, 1]]
    summed = u.moments().summed(pairs)
    np.testing.assert_allclose(summed.se, u.summed(pairs).se)
    with pytest.raises(ValueError, match=r"skewness=False, or keep some rows with moments\(sample"):
        _ = summed.skewness
    np.testing.assert_allclose(
        u.moments(sample=500).summed(pairs).skewness, u.summed(pairs).skewness, rtol=0.01
    )
    near = u.moments(sample=250).summed(pairs).skewness
    np.testing.assert_allclose(near, u.summed(pairs).skewness, rtol=0.5)


def test_a_sample_holds_rows_of_the_table():
    u = build(rows=np.arange(100, 140))
    m = u.moments(sample=7, random_state=3)
    assert m.sample.n_rows == 7
    place = m.sample.rows - 100
    np.testing.assert_array_equal(m.sample.values, u.values[place])
    np.testing.assert_array_equal(m.sample.weights.values, u.weights.values[place])
    assert u.moments(sample=999).sample.n_rows == 40
    assert m.moments(sample=3).sample.n_rows == 3
    assert m.moments().sample is None
    with pytest.raises(ValueError, match="sample must be a whole number of 0 or more, got -1"):
        u.moments(sample=-1)


def test_the_same_rows_are_subtracted_one_by_one():
    first, second = build(seed=1), build(seed=2, weights=build(seed=1).weights.values)
    difference = first - second
    np.testing.assert_array_equal(difference.values, first.values - second.values)
    np.testing.assert_array_equal((first + second).values, first.values + second.values)
    shuffled = np.random.default_rng(0).permutation(40)
    moved = InfluenceRows(
        second.values[shuffled], second.weights.take(shuffled), second.rows[shuffled]
    )
    np.testing.assert_array_equal((first - moved).values, difference.values)
    np.testing.assert_array_equal((first - moved).rows, first.rows)
    nothing = first - first
    assert not nothing.mean.any()
    assert not nothing.se.any()


def variance_by_loops(first, second, sign):
    """Var of the combined mean by its definition, row by row over the union."""
    parts = []
    for u in (first, second):
        mean, factor = u.mean, np.sqrt(u.weights.mean_variances())
        parts.append({r: f * (v - mean) for r, f, v in zip(u.rows, factor, u.values, strict=True)})
    p = first.n_units
    total = np.zeros((p, p))
    for row in set(first.rows) | set(second.rows):
        step = parts[0].get(row, np.zeros(p)) + sign * parts[1].get(row, np.zeros(p))
        total += np.outer(step, step)
    return total


@settings(deadline=None, max_examples=40)
@given(
    shared=st.integers(0, 25),
    kind=st.sampled_from(["frequency", "sampling"]),
    sign=st.sampled_from([1.0, -1.0]),
    seed=st.integers(0, 100),
)
def test_partly_shared_rows_against_the_definition(shared, kind, sign, seed):
    counts = np.random.default_rng(seed).integers(1, 4, 60).astype(float)
    first = build(30, seed=seed, kind=kind, weights=counts[:30] if kind == "frequency" else None)
    rows = np.arange(30 - shared, 60 - shared)
    second = build(
        30, seed=seed + 1, kind=kind, rows=rows,
        weights=counts[rows] if kind == "frequency" else None,
    )  # fmt: skip
    combined = first.combined(second, sign)
    assert combined.n_rows == 60 - shared
    np.testing.assert_allclose(combined.mean, first.mean + sign * second.mean, atol=1e-12)
    expected = variance_by_loops(first, second, sign)
    np.testing.assert_allclose(combined.covariance, expected, rtol=1e-9, atol=1e-14)
    if not shared:
        np.testing.assert_allclose(combined.covariance, first.covariance + second.covariance)


def test_shared_rows_are_seen_in_simulations():
    # means over rows 0 to 79 and over rows 40 to 119 of the same numbers: their difference has
    # variance 2 * 40 / 80^2; a thousand samples know it to 5 % (standard error 4.5 %)
    rng = np.random.default_rng(5)
    spread, errors = [], []
    for _ in range(1000):
        values = rng.standard_normal((120, 1))
        difference = ones(values[:80], np.arange(80)) - ones(values[40:], np.arange(40, 120))
        spread.append(difference.mean[0])
        errors.append(difference.se[0])
    assert np.std(spread) == pytest.approx(np.sqrt(2 * 40) / 80, rel=0.1)
    assert np.mean(errors) == pytest.approx(np.sqrt(2 * 40) / 80, rel=0.03)


def test_independent_tables_add_variances_by_rows_and_by_moments():
    first, second = build(30, seed=1), build(50, seed=2, kind="sampling")
    second = InfluenceRows(second.values, Weights(np.ones(50), "sampling"), second.rows)
    first = InfluenceRows(first.values, Weights(np.ones(30), "frequency"), first.rows)
    by_row = first.combined(second, -1.0, independent=True)
    np.testing.assert_allclose(by_row.covariance, first.covariance + second.covariance)
    assert by_row.rows is None
    for one, other in (
        (first.moments(), second.moments()),
        (first, second.moments()),
        (first.moments(), second),
    ):
        assert_same_statistics(one.combined(other, -1.0, independent=True), by_row)


def test_counts_and_sampling_weights_of_different_tables_add_as_moments():
    counts, sampled = build(30, seed=1), build(50, seed=2, kind="sampling")
    for one, other in ((counts, sampled), (sampled, counts)):
        combined = one.combined(other, -1.0, independent=True)
        np.testing.assert_allclose(combined.mean, one.mean - other.mean)
        np.testing.assert_allclose(combined.covariance, one.covariance + other.covariance)
        assert isinstance(combined, InfluenceMoments)


def test_what_cannot_be_combined_is_refused():
    u = build()
    with pytest.raises(ValueError, match="of 3 and of 2 units"):
        u - build(p=2)
    with pytest.raises(ValueError, match="without row indices"):
        u - InfluenceRows(u.values, u.weights)
    with pytest.raises(ValueError, match="moments do not show how two results on the same rows"):
        u.moments() - u.moments()
    with pytest.raises(ValueError, match="moments do not show"):
        u - u.moments()
    other = InfluenceRows(u.values, Weights(u.weights.values + 1, "frequency"), u.rows)
    with pytest.raises(ValueError, match="give both results the same weights"):
        u - other
    with pytest.raises(ValueError, match="give both results the same weights"):
        u - build(kind="sampling")
    with pytest.raises(ValueError, match="rows must be the 40 different places"):
        InfluenceRows(u.values, u.weights, np.zeros(40, dtype=int))
    with pytest.raises(ValueError, match=r"covariance must have shape \(3, 3\), got \(2, 2\)"):
        InfluenceMoments(np.zeros(3), np.eye(2), np.zeros(3), 10.0, 10)


def test_bands_from_the_covariance_have_the_law_of_row_multipliers():
    # quantiles of 40,000 draws of a maximum of five: Monte-Carlo errors of about 0.01
    u = build(n=200, p=5, kind="sampling")
    options = {"n_draws": 40_000}
    for alternative in ("two-sided", "greater", "less"):
        by_rows = max_t_statistics(u.values, u.weights, alternative=alternative, **options)
        drawn = max_t_from_covariance(u.covariance, u.se, alternative=alternative, **options)
        for level in (0.5, 0.9, 0.95):
            assert np.quantile(drawn, level) == pytest.approx(np.quantile(by_rows, level), abs=0.05)
    assert np.isnan(max_t_from_covariance(np.zeros((2, 2)), np.zeros(2))).all()


@pytest.mark.parametrize("make", [build, lambda: build().moments(sample=4)])
def test_frozen_in_copies_too(make):
    u = make()
    for again in (pickle.loads(pickle.dumps(u)), copy.deepcopy(u)):  # noqa: S301
        np.testing.assert_array_equal(again.mean, u.mean)
        array = again.values if isinstance(again, InfluenceRows) else again.covariance
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0
