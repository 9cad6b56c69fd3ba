"""Properties that hold for every table: order, units, weights, groups, libraries, workers."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi.datasets import m1
from dfi.warnings import InferenceWarning, WeakModelWarning

SEEDS = st.integers(0, 10_000)


def explain(table, y, estimator="linear", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakModelWarning)
        return dfi.explain(table, y, estimator, **{"cv": 2, "diagnose": False, **options})


def draw_sample(seed, n=60, d=4):
    """Return correlated rows and an outcome with an interaction."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d)) @ generator.standard_normal((d, d))
    y = X[:, 0] * X[:, -1] + X @ generator.standard_normal(d) + generator.standard_normal(n)
    return X, y


def bent(rows):
    """Return a regression that is neither linear nor additive."""
    return rows[:, 0] * rows[:, -1] + np.sin(rows[:, 1]) + rows[:, 0]


def same(first, second, rtol=1e-8):
    scale = np.abs(first.scores).max()
    assert np.allclose(first.scores, second.scores, rtol=rtol, atol=rtol * scale)
    assert np.allclose(first.latent.scores, second.latent.scores, rtol=rtol, atol=rtol * scale)
    assert np.allclose(first.se, second.se, rtol=1e-6, atol=1e-6 * np.nanmax(first.se))


@given(seed=SEEDS, order=st.permutations(range(4)))
def test_column_order_does_not_matter(seed, order):
    X, y = draw_sample(seed)
    inverse = np.argsort(order)
    plain = explain(X, y, bent, cv="prefit")
    moved = explain(X[:, order], y, lambda rows: bent(rows[:, inverse]), cv="prefit")
    assert np.allclose(moved.scores, plain.scores[list(order)], rtol=1e-8, atol=1e-9)
    assert np.allclose(moved.se, plain.se[list(order)], rtol=1e-8, atol=1e-9)
    fitted = explain(X[:, order], y)
    assert np.allclose(fitted.scores, explain(X, y).scores[list(order)], rtol=1e-8, atol=1e-9)


@given(seed=SEEDS, column=st.integers(0, 3), factor=st.sampled_from([1e6, 1e-6, -3.0]))
def test_units_of_a_column_do_not_matter(seed, column, factor):
    X, y = draw_sample(seed)
    units = np.ones(4)
    units[column] = factor
    same(
        explain(X, y, bent, cv="prefit"),
        explain(X * units, y, lambda rows: bent(rows / units), cv="prefit"),
    )
    same(explain(X, y), explain(X * units, y))


@given(seed=SEEDS, factor=st.sampled_from([1e-4, 1e5]), shift=st.sampled_from([0.0, 1e3]))
def test_units_of_all_columns_and_their_origin_do_not_matter(seed, factor, shift):
    X, y = draw_sample(seed)
    same(
        explain(X, y, bent, cv="prefit"),
        explain(X * factor + shift, y, lambda r: bent((r - shift) / factor), cv="prefit"),
        rtol=1e-6,
    )


@given(seed=SEEDS, factor=st.sampled_from([1e-3, 7.0, -1e4]))
def test_scores_scale_with_the_square_of_the_outcome(seed, factor):
    X, y = draw_sample(seed)
    plain, scaled = explain(X, y), explain(X, factor * y)
    assert np.allclose(scaled.scores, factor**2 * plain.scores, rtol=1e-8, atol=1e-9 * factor**2)
    assert np.allclose(scaled.se, factor**2 * plain.se, rtol=1e-8, atol=1e-9 * factor**2)


@given(seed=SEEDS, level=st.sampled_from([1e3, -1e5]))
def test_level_of_the_outcome_does_not_matter(seed, level):
    X, y = draw_sample(seed)
    shifted = explain(X, y + level, lambda rows: bent(rows) + level, cv="prefit")
    same(explain(X, y, bent, cv="prefit"), shifted, rtol=1e-6)


@given(seed=SEEDS)
def test_integer_weights_equal_repeated_rows(seed):
    X, y = draw_sample(seed, n=50)
    counts = np.random.default_rng(seed).integers(0, 4, 50)
    counts[:10] = 1
    repeated = explain(np.repeat(X, counts, axis=0), np.repeat(y, counts), bent, cv="prefit")
    same(explain(X, y, bent, cv="prefit", frequency_weight=counts), repeated)


@given(seed=SEEDS, factor=st.sampled_from([0.37, 12.5]))
def test_scale_of_sampling_weights_does_not_matter(seed, factor):
    X, y = draw_sample(seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(X))
    same(explain(X, y, sample_weight=weights), explain(X, y, sample_weight=factor * weights))


@given(seed=SEEDS)
def test_null_blocks_score_zero_within_noise(seed):
    """Columns that the regression ignores, independent of the rest, but correlated among them."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((800, 4))
    X[:, 1] += X[:, 0]
    X[:, 3] += X[:, 2]
    y = 3 * X[:, 0] + generator.standard_normal(800)
    result = explain(X, y, lambda rows: 3 * rows[:, 0], cv="prefit")
    # sampling correlation of the blocks is of order n^-1/2, its square moves the score
    assert np.all(np.abs(result.scores[2:]) < 4.5 * result.se[2:] + 9 * 4 / 800)
    assert np.all(np.abs(result.scores[2:]) < 0.1 * result.scores[0])


@given(
    seed=SEEDS,
    members=st.lists(
        st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), min_size=1, max_size=3
    ),
)
def test_groups_are_sums(seed, members):
    X, y = draw_sample(seed)
    result = explain(X, y)
    grouped = result.group({f"g{k}": [f"x{j}" for j in m] for k, m in enumerate(members)})
    for k, m in enumerate(members):
        assert np.allclose(grouped.influence[:, k], result.influence[:, m].sum(axis=1))
        assert grouped.scores[k] == pytest.approx(result.scores[m].sum(), abs=1e-12)
        assert grouped.latent.scores[k] == pytest.approx(result.latent.scores[m].sum(), abs=1e-12)


@given(seed=SEEDS)
def test_libraries_agree(seed):
    X, y = draw_sample(seed)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    results = [
        explain(X, y),
        explain(frame, pd.Series(y)),
        explain(pl.from_pandas(frame), pl.Series(y)),
        explain(pa.Table.from_pandas(frame, preserve_index=False), pa.array(y)),
    ]
    for other in results[1:]:
        assert np.array_equal(results[0].influence, other.influence)
        assert other.names == ("a", "b", "c", "d")
    kinds = [type(result.table()).__module__.split(".")[0] for result in results[1:]]
    assert kinds == ["pandas", "polars", "pyarrow"]


@pytest.mark.parametrize("estimator", ["linear", RandomForestRegressor(8, min_samples_leaf=5)])
def test_number_of_workers_does_not_matter(estimator):
    sample = m1(200, d=4)
    alone = explain(sample.X, sample.y, estimator, cv=3, n_repeats=2)
    together = explain(sample.X, sample.y, estimator, cv=3, n_repeats=2, n_jobs=2)
    assert np.array_equal(alone.influence, together.influence)
    assert np.array_equal(alone.latent.influence, together.latent.influence)
    assert np.array_equal(alone.spread, together.spread)


def test_number_of_workers_does_not_matter_to_random_draws():
    sample = m1(120, d=3)
    draws, bridge = dfi.Quadrature("draws"), dfi.transports.Gaussian(epsilon=0.5)
    for options in ({"integration": draws}, {"transport": bridge}):
        alone = explain(sample.X, sample.y, **options)
        together = explain(sample.X, sample.y, n_jobs=2, **options)
        assert np.array_equal(alone.influence, together.influence)


@given(seed=SEEDS, memory=st.sampled_from([2_000, 100_000]))
def test_memory_bound_does_not_matter_to_the_result(seed, memory):
    X, y = draw_sample(seed)
    largest = 0

    def watched(rows):
        nonlocal largest
        largest = max(largest, rows.nbytes)
        return bent(rows)

    bounded = explain(X, y, watched, cv="prefit", integration=dfi.Quadrature(memory=memory))
    assert np.allclose(bounded.influence, explain(X, y, bent, cv="prefit").influence, rtol=1e-12)
    # one line of 32 nodes in 4 columns is the least that can be asked
    assert largest <= max(memory, 32 * 4 * 8)


@pytest.mark.parametrize("n_levels", [2, 3, 5])
def test_categorical_column_is_one_unit(n_levels):
    generator = np.random.default_rng(n_levels)
    n = 600
    code = generator.integers(0, n_levels, n)
    effect = np.linspace(-1, 1, n_levels)[code] * 2
    x = generator.standard_normal(n)
    y = effect + x + 0.3 * generator.standard_normal(n)
    words = pd.DataFrame({"level": np.array(list("abcde"))[code], "x": x})
    result = explain(words, y)
    assert result.names == ("level", "x")
    assert result.influence.shape == (n, 2)
    assert result.latent.names == ("level", "x")
    # levels carry Var(effect), nothing is lost to the one-hot block's collinearity
    assert result.scores[0] == pytest.approx(effect.var(), rel=0.1)
    assert result.scores[1] == pytest.approx(1.0, rel=0.2)


def test_names_of_levels_do_not_matter():
    generator = np.random.default_rng(0)
    code = generator.integers(0, 3, 200)
    y = 2.0 * (code == 1) + generator.standard_normal(200)
    x = generator.standard_normal(200)
    first = pd.DataFrame({"level": np.array(list("abc"))[code], "x": x})
    second = pd.DataFrame({"level": np.array(list("zyx"))[code], "x": x})
    same(explain(first, y), explain(second, y))


def test_boolean_columns_count_as_numbers():
    generator = np.random.default_rng(0)
    flag = generator.random(300) > 0.3
    x = generator.standard_normal(300)
    y = 2.0 * flag + x + 0.1 * generator.standard_normal(300)
    as_flag = explain(pd.DataFrame({"flag": flag, "x": x}), y)
    as_number = explain(pd.DataFrame({"flag": flag.astype(float), "x": x}), y)
    assert np.array_equal(as_flag.influence, as_number.influence)
    assert as_flag.scores[0] == pytest.approx(4 * flag.var(), rel=0.15)


def test_one_column():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((400, 1))
    y = 2 * x[:, 0] + 0.5 * generator.standard_normal(400)
    result = explain(x, y, diagnose=True)
    assert abs(result.scores[0] - 4) < 4 * result.se[0]
    assert result.latent.scores[0] == pytest.approx(result.scores[0])


def test_more_columns_than_rows():
    """d > n: every latent coordinate has a random part, and the signal is not lost."""
    generator = np.random.default_rng(0)
    n, d = 40, 60
    X = generator.standard_normal((n, d))
    y = 3 * X[:, 0] + 0.1 * generator.standard_normal(n)
    model = LinearRegression().fit(X, y)
    # components would take the columns apart, and none would have a random part
    whole = dfi.transports.Gaussian(components=None, covariance="sample")
    with pytest.warns(InferenceWarning, match="40 rows for 60 columns"):
        result = explain(X, y, lambda rows: 3 * rows[:, 0], cv="prefit", transport=whole)
    assert result.diagnostics["rank"] == n - 1
    assert result.scores.argmax() == 0
    assert result.total.value == pytest.approx(9 * X[:, 0].var(), rel=0.1)
    with pytest.warns(InferenceWarning):
        fitted = explain(X, y, model, cv="prefit", transport=whole)
    # least squares interpolates: all of Var(Y) is shared out, exactly
    assert fitted.total.value == pytest.approx(y.var(), rel=1e-8)


def in_sample(result):
    """Return the sum of the scores before the second-order bias was subtracted."""
    return result.total.value + sum(result.diagnostics["second_order"]["attributed"].values())


@given(seed=SEEDS)
def test_duplicated_column_shares_and_keeps_the_total(seed):
    X, y = draw_sample(seed, d=3)
    single = explain(X, y, LinearRegression().fit(X, y), cv="prefit")
    doubled = np.column_stack([X, X[:, 0] * 1e3 + 5])
    both = explain(doubled, y, LinearRegression().fit(doubled, y), cv="prefit")
    assert both.scores[0] == pytest.approx(both.scores[3], rel=1e-6)
    # in sample; what is subtracted for the transport's error is that of another table
    assert in_sample(both) == pytest.approx(in_sample(single), rel=1e-6)
