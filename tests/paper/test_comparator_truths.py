"""Truths of LOCO, CPI, nLOCO, dLOCO and Shapley values against draws of their definitions."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from math import comb

import numpy as np
import pytest

from paper.truths import equal_features, exponential, m1, m2, m3, m4, square_and_factor

GAUSSIAN = [partial(m1, d=3), partial(m2, d=3), m3, exponential]
DRAWS = 60_000


def conditional_copy(X, known, correlation, generator):
    """Draw all columns anew given the known ones."""
    rest = [k for k in range(len(correlation)) if k not in known]
    copy = X.copy()
    if not rest:
        return copy
    load = np.zeros((len(rest), 0))
    covariance = correlation[np.ix_(rest, rest)]
    mean = np.zeros((len(X), len(rest)))
    if known:
        load = np.linalg.solve(
            correlation[np.ix_(known, known)], correlation[np.ix_(known, rest)]
        ).T
        mean = X[:, known] @ load.T
        covariance = covariance - load @ correlation[np.ix_(known, rest)]
    copy[:, rest] = mean + generator.multivariate_normal(np.zeros(len(rest)), covariance, len(X))
    return copy


def drawn_worth(sample, known, draws, seed):
    """Var E[mu | X_S] by copies that share X_S, and its standard error."""
    generator = np.random.default_rng(seed)
    correlation = sample.population.correlation
    X = generator.multivariate_normal(np.zeros(len(correlation)), correlation, draws)
    copy = conditional_copy(X, list(known), correlation, generator)
    first, second = sample.regression(X), sample.regression(copy)
    product = (first - first.mean()) * (second - second.mean())
    return product.mean(), product.std() / np.sqrt(draws)


@pytest.mark.parametrize("make", GAUSSIAN)
def test_loco_and_its_kin(make):
    sample = make(5, rho=0.6)
    correlation = sample.population.correlation
    generator = np.random.default_rng(0)
    d = len(correlation)
    X = generator.multivariate_normal(np.zeros(d), correlation, DRAWS)
    value = sample.regression(X)
    truth = sample.comparator_truth("loco")
    variance = value.var() + sample.population.noise
    for j in range(d):
        others = [k for k in range(d) if k != j]
        copy = conditional_copy(X, others, correlation, generator)
        half = (value - sample.regression(copy)) ** 2 / 2
        assert abs(half.mean() - truth[j]) < 4 * half.std() / np.sqrt(DRAWS) + 1e-9, j
    np.testing.assert_allclose(sample.comparator_truth("cpi"), truth)
    np.testing.assert_allclose(sample.comparator_truth("nloco"), truth / variance, rtol=0.05)


@pytest.mark.parametrize("make", GAUSSIAN)
def test_decorrelated_loco(make):
    sample = make(5, rho=0.6)
    correlation = sample.population.correlation
    generator = np.random.default_rng(0)
    d = len(correlation)
    X = generator.multivariate_normal(np.zeros(d), correlation, DRAWS)
    truth = sample.comparator_truth("dloco")
    for j in range(d):
        one, two = X.copy(), X.copy()
        one[:, j] = generator.standard_normal(DRAWS)
        two[:, j] = generator.standard_normal(DRAWS)
        half = (sample.regression(one) - sample.regression(two)) ** 2 / 2
        assert abs(half.mean() - truth[j]) < 4 * half.std() / np.sqrt(DRAWS) + 1e-9, j


@pytest.mark.parametrize(
    ("make", "players"), [(m1, (0, 1)), (m2, (0, 1)), (m3, range(5)), (exponential, range(3))]
)
def test_shapley_values(make, players):
    """Every submodel by draws; the value's error is at most that of its submodels, weighted."""
    sample = make(5, rho=0.6)
    players = tuple(players)
    p = len(players)
    worth = {(): (0.0, 0.0)}
    for size in range(1, p + 1):
        for members in combinations(players, size):
            worth[members] = drawn_worth(sample, members, 100_000, len(worth))
    truth = sample.comparator_truth("shapley")
    for j in players:
        value, error = 0.0, 0.0
        for members in worth:
            if j not in members:
                share = 1 / (p * comb(p - 1, len(members)))
                more, less = worth[tuple(sorted((*members, j)))], worth[members]
                value += share * (more[0] - less[0])
                error += share * (more[1] + less[1])
        assert abs(value - truth[j]) < 2 * error, j
        assert error < 0.1 * truth.max()
    assert truth.sum() == pytest.approx(sample.population.explained(players))
    assert np.all(np.delete(truth, players) == 0)


def test_m1_by_hand():
    sample = m1(5, rho=0.8, d=4)
    np.testing.assert_allclose(sample.comparator_truth("loco"), [9, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(sample.comparator_truth("nloco"), [9 / 26, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(sample.comparator_truth("dloco"), [25, 0, 0, 0], atol=1e-12)
    # Lindeman, Merenda and Gold: (v(1) + v(12) - v(2))/2 with v = 25, 25, 16
    np.testing.assert_allclose(sample.comparator_truth("shapley"), [17, 8, 0, 0], atol=1e-12)


def test_m4_and_the_perfectly_dependent_examples():
    for name in ("loco", "cpi", "dloco", "shapley"):
        np.testing.assert_allclose(m4(5, d=3).comparator_truth(name), [25, 0, 0], atol=1e-12)
    np.testing.assert_allclose(m4(5, d=3).comparator_truth("nloco"), [25 / 26, 0, 0])
    equal = equal_features(5)
    np.testing.assert_allclose(equal.comparator_truth("loco"), [0, 0], atol=1e-12)
    np.testing.assert_allclose(equal.comparator_truth("shapley"), [4.5, 4.5])
    square = square_and_factor(5, beta=(1.5, -2.0))
    # the square is a function of the factor, whose sign it does not tell
    np.testing.assert_allclose(square.comparator_truth("cpi"), [0, 4], atol=1e-12)
    # v(1) = 2.25, v(2) = v(12) = 6.25
    np.testing.assert_allclose(square.comparator_truth("shapley"), [1.125, 5.125])
    for sample in (equal, square):
        with pytest.raises(ValueError, match="has no population value"):
            sample.comparator_truth("dloco")


def test_unknown_methods_and_too_many_columns():
    with pytest.raises(ValueError, match="'lco' is not known; did you mean 'loco'"):
        m1(5).comparator_truth("lco")
    with pytest.raises(ValueError, match="'pcm' is not known"):
        m4(5).comparator_truth("pcm")
