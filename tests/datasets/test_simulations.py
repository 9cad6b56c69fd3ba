"""The simulations have the law and the truths they say."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from dfi.datasets import exponential, m1, m2, m3, m4, simulations


@pytest.mark.parametrize(("make", "noise"), [(m1, 1.0), (m2, 1.0), (m3, 0.4), (m4, 1.0)])
def test_outcome_is_regression_plus_noise(make, noise):
    sample = make(20_000)
    residual = sample.y - sample.regression(sample.X)
    assert residual.var() == pytest.approx(noise, rel=0.05)
    assert abs(np.corrcoef(residual, sample.regression(sample.X))[0, 1]) < 0.03
    assert np.array_equal(make(50).X, make(50).X)
    assert not np.array_equal(make(50).X, make(50, random_state=1).X)


@pytest.mark.parametrize(
    ("make", "pairs"), [(m1, [(0, 1)]), (m2, [(0, 1)]), (m3, [(0, 1), (3, 4)])]
)
def test_correlations(make, pairs):
    correlation = np.corrcoef(make(20_000, rho=0.6).X.T)
    expected = np.eye(len(correlation))
    for j, k in pairs:
        expected[j, k] = expected[k, j] = 0.6
    assert np.allclose(correlation, expected, atol=0.04)


@pytest.mark.parametrize(
    ("rho", "score"), [(0.0, 4.9947), (0.2, 5.3798), (0.4, 6.5478), (0.8, 11.4170)]
)
def test_m2_truth_is_the_published_integral(rho, score):
    sample = m2(10, rho=rho)
    assert sample.latent[:2] == pytest.approx([score, score], abs=1e-4)
    assert np.all(sample.latent[2:] == 0)


def test_m1_truth_adds_up_to_the_explained_variance():
    for rho in (0.0, 0.4, 0.8):
        sample = m1(10, rho=rho)
        assert sample.latent.sum() == pytest.approx(25)
        assert sample.attributed.sum() == pytest.approx(25)
    assert m1(10, rho=0.8).attributed[:2] == pytest.approx([17, 8])


def test_m3_truth_by_simulation():
    """Var(eta | Z_-j) by replacing one latent coordinate, twice."""
    rho, n = 0.8, 400_000
    generator = np.random.default_rng(0)
    block = np.array([[1, rho], [rho, 1]])
    values, vectors = np.linalg.eigh(block)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    L = np.eye(5)
    L[:2, :2] = L[3:, 3:] = root
    sample = m3(10, rho=rho)
    Z = generator.standard_normal((n, 5))
    value = sample.regression(Z @ L)
    for j in range(5):
        other = Z.copy()
        other[:, j] = generator.standard_normal(n)
        found = 0.5 * np.mean((value - sample.regression(other @ L)) ** 2)
        assert found == pytest.approx(sample.latent[j], rel=0.03)


def test_m4_is_dependent_but_uncorrelated():
    X = m4(20_000).X
    assert abs(np.corrcoef(X[:, 0], X[:, 1])[0, 1]) < 0.05
    assert np.corrcoef(X[:, 0] ** 2, X[:, 1])[0, 1] > 0.9


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (m1, {"rho": 2.0}, "rho must be a number from -1 to 1, got 2.0"),
        (m3, {"rho": -1.1}, "rho must be a number from -1 to 1, got -1.1"),
        (exponential, {"rho": -0.9}, "rho = -0.9 makes no correlation matrix of 3 columns"),
        (m1, {"rho": float("nan")}, "rho must be a number from -1 to 1, got nan"),
        (m1, {"d": 1}, "d must be a whole number of 2 or more, got 1"),
        (m4, {"d": 2.0}, "d must be a whole number of 2 or more, got 2.0"),
        (m2, {"n": 0}, "n must be a whole number of 1 or more, got 0"),
        (m4, {"n": "50"}, "n must be a whole number of 1 or more, got '50'"),
        (m3, {"random_state": "0"}, "random_state must be a whole number of 0 or more, got '0'"),
        (exponential, {"strength": None}, "strength must be a number, got None"),
    ],
)
def test_samples_that_cannot_be(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**{"n": 50, **options})


def test_docstring_examples():
    outcome = doctest.testmod(simulations)
    assert outcome.attempted > 0
    assert outcome.failed == 0
