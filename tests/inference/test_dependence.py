"""Rows that depend on each other: clusters, and rows in time, against slow twins."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dfi._data.dependence import Clusters, Ordered
from dfi._data.weights import Weights
from dfi.inference.influence import InfluenceRows
from dfi.inference.intervals import max_t_from_covariance, max_t_statistics, wald_interval
from dfi.inference.tests import UnitInference, estimate_one, p_values

RNG = np.random.default_rng(0)
VALUES = RNG.gamma(1.0, size=(60, 3)) + RNG.normal(size=(12, 3))[np.repeat(np.arange(12), 5)]
LABELS = np.repeat(np.arange(12), 5)
ROWS = np.arange(60)


def clustered(values=VALUES, labels=LABELS, weights=None, kind="frequency", rows=ROWS):
    weights = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=float)
    return InfluenceRows(values, Weights(weights, kind, Clusters(np.asarray(labels))), rows)


def in_time(values=VALUES, bandwidth=None, rows=ROWS):
    order = Ordered(np.arange(len(values)), bandwidth)
    return InfluenceRows(values, Weights(np.ones(len(values)), "frequency", order), rows)


def slow_clusters(values, labels, weights):
    """The covariance of a weighted mean, cluster by cluster and row by row."""
    mean = sum(w * u for w, u in zip(weights, values, strict=True)) / sum(weights)
    present = sorted({label for label, w in zip(labels, weights, strict=True) if w > 0})
    total = np.zeros((values.shape[1],) * 2)
    for label in present:
        s = np.zeros(values.shape[1])
        for w, u, own in zip(weights, values, labels, strict=True):
            if own == label:
                s += w * (u - mean)
        total += np.outer(s, s)
    g = len(present)
    return g / (g - 1) * total / sum(weights) ** 2


def slow_hac(values, times, lag):
    """Newey and West's sum over pairs of rows."""
    n = len(values)
    centred = values - values.mean(axis=0)
    total, kappa = np.zeros((values.shape[1],) * 2), 0.0
    for i in range(n):
        for j in range(n):
            kernel = max(0.0, 1.0 - abs(times[i] - times[j]) / (lag + 1))
            total += kernel * np.outer(centred[i], centred[j]) / n**2
            kappa += kernel / n**2
    return total / (1.0 - kappa)


@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_clusters_are_what_their_definition_says(kind):
    weights = RNG.integers(0, 4, 60).astype(float)
    weights[LABELS == 3] = 0.0  # a cluster that does not count
    u = clustered(weights=weights, kind=kind)
    expected = slow_clusters(VALUES, LABELS, weights)
    np.testing.assert_allclose(u.covariance, expected, rtol=1e-12)
    np.testing.assert_allclose(u.se, np.sqrt(np.diag(expected)), rtol=1e-12)
    assert u.degrees == 10
    assert u.words == "cluster-robust, 11 clusters"


def test_counts_are_rows_of_the_cluster():
    counts = RNG.integers(1, 4, 60)
    spelled = clustered(np.repeat(VALUES, counts, axis=0), np.repeat(LABELS, counts), rows=None)
    u = clustered(weights=counts)
    np.testing.assert_allclose(u.mean, spelled.mean)
    np.testing.assert_allclose(u.covariance, spelled.covariance)
    np.testing.assert_allclose(u.skewness, spelled.skewness)


@given(
    st.integers(2, 25), st.integers(1, 3), st.sampled_from(["one", "sampling"]), st.integers(0, 999)
)
@settings(max_examples=40, deadline=None)
def test_one_row_per_cluster_is_independent_rows(n, p, kind, seed):
    rng = np.random.default_rng(seed)
    values = rng.gamma(1.0, size=(n, p))
    w = np.ones(n) if kind == "one" else rng.uniform(0.5, 2.0, n)
    weights = Weights(w, "frequency" if kind == "one" else "sampling")
    plain = InfluenceRows(values, weights)
    alone = InfluenceRows(values, replace(weights, dependence=Clusters(rng.permutation(n))))
    order = Ordered(np.arange(n), 0)
    timed = InfluenceRows(values, replace(weights, dependence=order))
    for found in (alone, timed):
        np.testing.assert_allclose(found.se, plain.se, rtol=1e-9)
        np.testing.assert_allclose(found.covariance, plain.covariance, rtol=1e-7, atol=1e-15)
        np.testing.assert_allclose(found.skewness, plain.skewness, rtol=1e-7, atol=1e-9)
        third, expected = found.moments().third, plain.moments().third
        np.testing.assert_allclose(third, expected, rtol=1e-6, atol=1e-12)


@given(st.lists(st.integers(0, 5), min_size=6, max_size=40), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_names_and_order_of_clusters_do_not_matter(labels, seed):
    rng = np.random.default_rng(seed)
    labels = np.array([0, 1, *labels])
    values, shuffled = rng.gamma(1.0, size=(len(labels), 2)), rng.permutation(len(labels))
    names = rng.permutation(100)[:6]
    u = clustered(values, labels, rows=None)
    moved = clustered(values[shuffled], names[labels][shuffled], rows=None)
    np.testing.assert_allclose(moved.covariance, u.covariance, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(moved.skewness, u.skewness, rtol=1e-6, atol=1e-9)
    assert moved.degrees == u.degrees


@pytest.mark.parametrize("lag", [0, 1, 4, 15])
def test_rows_in_time_are_newey_and_wests(lag):
    np.testing.assert_allclose(in_time(bandwidth=lag).covariance, slow_hac(VALUES, ROWS, lag))


def test_gaps_in_time_count():
    times = np.sort(RNG.choice(200, 60, replace=False))
    weights = Weights(np.ones(200), "frequency", Ordered(np.arange(200), 6)).take(times)
    shuffled = RNG.permutation(60)
    u = InfluenceRows(VALUES[shuffled], weights.take(shuffled))
    np.testing.assert_allclose(u.covariance, slow_hac(VALUES, times, 6))


@given(st.integers(8, 60), st.integers(0, 14), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_variances_in_time_are_never_negative(n, lag, seed):
    values = np.random.default_rng(seed).normal(size=(n, 2)) * (-1.0) ** np.arange(n)[:, None]
    u = in_time(values, min(lag, n // 4), rows=None)
    assert np.linalg.eigvalsh(u.covariance).min() >= -1e-15
    assert np.isfinite(u.skewness).all()


def test_the_bandwidth_is_andrews_and_the_same_for_all_that_follows():
    series = np.zeros((400, 2))
    noise = np.random.default_rng(3).normal(size=(400, 2))
    for t in range(1, 400):
        series[t] = 0.6 * series[t - 1] + noise[t]
    u = in_time(series, rows=None)
    centred = series - series.mean(axis=0)
    rho = (centred[1:] * centred[:-1]).sum(axis=0) / (centred[:-1] ** 2).sum(axis=0)
    alpha = (4 * rho**2 / ((1 - rho) ** 6 * (1 + rho) ** 2)).sum() / ((1 - rho) ** -4).sum()
    lag = int(1.1447 * (400 * alpha) ** (1 / 3))
    assert u.words == u.total.words == u.summed([[1, -1]]).words == f"HAC, bandwidth {lag}"
    assert u.degrees == 1.5 * 400 / (lag + 1)
    assert in_time(1e6 * series, rows=None).words == u.words
    # a variance of rows as if independent is about (1 + .6)/(1 - .6) = 4 times too small
    plain = InfluenceRows(series, Weights(np.ones(400), "frequency"))
    assert np.all((u.se / plain.se) ** 2 > 2.0)


def test_few_rows_have_no_bandwidth():
    assert in_time(VALUES[:7], rows=None).words == "HAC, bandwidth 0"
    assert in_time(np.ones((20, 2)), rows=None).words == "HAC, bandwidth 0"


@pytest.mark.parametrize("u", [clustered(), in_time(bandwidth=3)], ids=["clusters", "time"])
def test_what_follows_keeps_the_dependence(u):
    for found in (
        u.total,
        u.summed(np.eye(3)),
        u.zeroed(np.array([True, False, False])),
        copy.copy(u),
    ):
        assert (found.words, found.degrees) == (u.words, u.degrees)
    moments = copy.copy(u.moments(20))
    assert (moments.words, moments.degrees) == (u.words, u.degrees)
    np.testing.assert_allclose(moments.se, u.se)
    np.testing.assert_allclose(moments.skewness, u.skewness)
    signs = np.array([[1.0, -1.0, 0.5]])
    np.testing.assert_allclose(moments.summed(signs).se, u.summed(signs).se)
    np.testing.assert_allclose(moments.summed(signs).skewness, u.summed(signs).skewness)
    assert moments.summed(signs).degrees == u.degrees
    assert moments.sample is not None
    assert moments.sample.n_rows <= 20


def test_samples_of_moments_keep_clusters_whole():
    chosen = clustered().moments(23).sample.rows
    assert len(chosen) == 20
    assert set(np.bincount(LABELS[chosen], minlength=12)) == {0, 5}


def test_a_difference_of_the_same_rows_is_of_cluster_sums():
    u, v = clustered(), clustered(VALUES[:, ::-1] ** 2, rows=ROWS)
    difference = u - v
    expected = slow_clusters(VALUES - VALUES[:, ::-1] ** 2, LABELS, np.ones(60))
    np.testing.assert_allclose(difference.covariance, expected)
    assert difference.words == u.words
    # other names of the same clusters, rows in another order
    order = RNG.permutation(60)
    moved = clustered((VALUES[:, ::-1] ** 2)[order], 7 * (11 - LABELS[order]), rows=order)
    np.testing.assert_allclose((u - moved).covariance, expected)
    # one that knows of no clusters has the same rows
    unaware = InfluenceRows(v.values, Weights(np.ones(60), "frequency"), ROWS)
    np.testing.assert_allclose((u - unaware).covariance, expected)
    np.testing.assert_allclose((unaware - u).covariance, expected)


def test_a_difference_of_overlapping_rows_is_of_cluster_sums():
    first, second = clustered().rows[:40], clustered().rows[20:]
    u = clustered(VALUES[first], LABELS[first], rows=first)
    v = clustered(VALUES[second] ** 2, LABELS[second], rows=second)
    steps = np.zeros((12, 3))
    for part, sign in ((u, 1.0), (v, -1.0)):
        g = part.degrees + 1
        centred = (part.values - part.mean) / len(part.values) * np.sqrt(g / (g - 1))
        np.add.at(steps, LABELS[part.rows], sign * centred)
    difference = u - v
    np.testing.assert_allclose(difference.mean, u.mean - v.mean)
    np.testing.assert_allclose(difference.covariance, steps.T @ steps)


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match="same rows into different clusters: explain both with"):
        clustered() - clustered(labels=ROWS % 12)
    with pytest.raises(ValueError, match="rows into clusters, the other in time"):
        clustered() - in_time()
    late = Weights(np.ones(60), "frequency", Ordered(ROWS[::-1].copy(), 2))
    with pytest.raises(ValueError, match="the same rows different times"):
        in_time() - InfluenceRows(VALUES, late, ROWS)
    some = Weights(np.ones(30), "frequency", Ordered(ROWS[:30], 2))
    part = InfluenceRows(VALUES[:30], some, ROWS[:30])
    whole = InfluenceRows(VALUES, Weights(np.ones(60), "frequency"), ROWS)
    with pytest.raises(ValueError, match="rows in time, the other treats them as independent"):
        whole - part
    with pytest.raises(ValueError, match="got 59 clusters for 60 rows"):
        clustered(labels=LABELS[1:])


@pytest.mark.parametrize("other", [clustered(), in_time(bandwidth=3)], ids=["clusters", "time"])
def test_variances_of_independent_tables_add(other):
    u = clustered(VALUES**2)
    both = u.combined(other, -1.0, independent=True)
    np.testing.assert_allclose(both.mean, u.mean - other.mean)
    np.testing.assert_allclose(both.covariance, u.covariance + other.covariance)
    assert both.degrees == min(u.degrees, other.degrees)


def test_quantiles_are_of_a_t_distribution():
    u = clustered()
    t = u.mean / u.se
    np.testing.assert_allclose(
        p_values(u.mean, u.se, degrees=u.degrees), stats.t.sf(t, 11), rtol=1e-12
    )
    low, high = wald_interval(u.mean, u.se, level=0.9, nonnegative=False, degrees=11.0)
    np.testing.assert_allclose(high - low, 2 * stats.t.isf(0.05, 11) * u.se)
    alone = u.summed([[1.0, 0.0, 0.0]])
    found = estimate_one(alone, level=0.9, alternative="two-sided", nonnegative=False)
    assert found.ci_high - found.ci_low == pytest.approx(high[0] - low[0])
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t[0]), 11))
    none = np.zeros(3, dtype=bool)
    units = UnitInference(u, none, 1.0, nonnegative=False, unrelated=none)
    np.testing.assert_allclose(units.tests(level=0.9)["p"], stats.t.sf(t, 11))
    plain = units.intervals(level=0.9, skewness=False)
    np.testing.assert_allclose([plain["ci_low"], plain["ci_high"]], [low, high])
    corrected = units.intervals(level=0.9)
    assert np.all(corrected["ci_low"] < u.mean)
    assert np.all(corrected["ci_high"] > u.mean)


@pytest.mark.parametrize("u", [clustered(), in_time(bandwidth=3)], ids=["clusters", "time"])
def test_bands_are_of_a_multivariate_t(u):
    by_row = max_t_statistics(u.values, u.weights, n_draws=20_000)
    by_moments = max_t_from_covariance(
        u.covariance, u.se, n_draws=20_000, degrees=u.degrees, random_state=1
    )
    # the .9 quantile of 20,000 draws errs by about 1 %
    np.testing.assert_allclose(np.quantile(by_row, 0.9), np.quantile(by_moments, 0.9), rtol=0.04)
    one = max_t_statistics(u.values[:, :1], u.weights, n_draws=20_000)
    np.testing.assert_allclose(np.quantile(one, 0.9), stats.t.isf(0.05, u.degrees), rtol=0.04)
