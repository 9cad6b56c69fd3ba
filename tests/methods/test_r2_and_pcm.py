"""Decompositions of R2 against jackknife and definition; the projected covariance measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LassoCV

import dfi
from dfi.methods import NLOCO, PCM, R2
from dfi.methods.pcm import variance_floor
from dfi.methods.r2 import genizi_influence


def genizi(X: np.ndarray, y: np.ndarray, mass: np.ndarray) -> np.ndarray:
    mass = mass / mass.sum()
    x = X - mass @ X
    x = x / np.sqrt(mass @ x**2)
    values, vectors = np.linalg.eigh((x * mass[:, None]).T @ x)
    root = (vectors * np.sqrt(values)) @ vectors.T
    zeta = np.linalg.solve(root, x.T @ (mass * (y - mass @ y)))
    return np.asarray(root**2 @ zeta**2)


def test_genizi_influence_is_the_infinitesimal_jackknife() -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((40, 4)) @ generator.standard_normal((4, 4))
    X[:, 3] = np.exp(0.3 * X[:, 3])
    y = X @ [1.0, 0.5, 0.0, 2.0] + generator.standard_normal(40)
    mass = np.full(40, 1 / 40)
    found = genizi_influence(X, y, mass)
    centre = genizi(X, y, mass)
    np.testing.assert_allclose(mass @ found, centre, rtol=1e-10)
    for i in (0, 7, 39):
        step = 1e-6
        tilted = (1 - step) * mass
        tilted[i] += step
        derivative = (genizi(X, y, tilted) - centre) / step
        np.testing.assert_allclose(found[i] - centre, derivative, rtol=1e-3, atol=1e-4)


def test_conditional_dominance_averages_to_lmg() -> None:
    sample = dfi.datasets.m1(200, d=4)
    found = dfi.compare(sample.X, sample.y, "r2", estimator="linear")
    profile = np.array(found["r2_dominance"].diagnostics["conditional"])
    assert profile.shape == (4, 4)
    np.testing.assert_allclose(profile.mean(axis=1), found["r2_lmg"].scores, rtol=1e-10)
    # alone in the model: the squared correlation
    expected = np.corrcoef(sample.X[:, 0], sample.y)[0, 1] ** 2 * sample.y.var()
    assert profile[0, 0] == pytest.approx(expected)


def test_repeated_rows_are_frequency_weights() -> None:
    sample = dfi.datasets.m1(120, d=3)
    counts = np.random.default_rng(0).integers(1, 4, 120)
    weighted = dfi.compare(sample.X, sample.y, "r2", estimator="linear", frequency_weight=counts)
    rows = np.repeat(np.arange(120), counts)
    repeated = dfi.compare(sample.X[rows], sample.y[rows], "r2", estimator="linear")
    for key in ("r2_genizi", "r2_lmg", "r2_dominance"):
        np.testing.assert_allclose(weighted[key].scores, repeated[key].scores, rtol=1e-9)
        np.testing.assert_allclose(weighted[key].se, repeated[key].se, rtol=1e-9)


def test_pcm_floor_makes_squared_residuals_average_one() -> None:
    generator = np.random.default_rng(0)
    square = generator.chisquare(1, 500)
    rough = np.full(500, 0.3)
    share = np.full(500, 1 / 500)
    floor = variance_floor(square, rough, share)
    assert share @ (square / (rough + floor)) == pytest.approx(1.0)
    assert variance_floor(square, np.full(500, 10.0), share) == pytest.approx(0.1 * square.mean())
    assert variance_floor(np.zeros(5), np.zeros(5), np.full(5, 0.2)) == 1.0


def test_pcm_reports_its_statistic_on_one_half_of_the_rows() -> None:
    sample = dfi.datasets.m1(400, rho=0.5, d=4, random_state=3)
    found = dfi.compare(sample.X, sample.y, "pcm", estimator="linear")["pcm"]
    assert found.influence.shape == (200, 4)
    np.testing.assert_allclose(found.se, 1.0)
    assert found.scores[0] > 5
    assert np.all(np.abs(found.scores[1:]) < 3.5)
    assert not found.nonnegative


def test_pcm_finds_an_effect_that_is_not_linear() -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((600, 3))
    y = X[:, 0] ** 2 + X[:, 1] + 0.5 * generator.standard_normal(600)
    forest = RandomForestRegressor(50, min_samples_leaf=5)
    found = dfi.compare(X, y, "pcm", estimator=forest, cv=2)["pcm"]
    assert found.scores[0] > 3
    assert abs(found.scores[2]) < 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PCM(n_folds=1), "n_folds must be a whole number of 2"),
        (lambda: R2(decompositions=("shapley",)), "some of 'genizi', 'lmg', 'dominance'"),  # type: ignore[arg-type]
        (lambda: R2(decompositions=()), "some of 'genizi'"),
        (lambda: NLOCO(normalize="x"), "normalize must be"),  # type: ignore[arg-type]
    ],
)
def test_parameters_are_checked(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_pcm_with_a_model_that_shrinks_leaves_nulls_alone() -> None:
    """A lasso that regressed predictions too kept part of the signal, and rejected most nulls."""
    rejected = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = (
            rng.standard_normal((400, 20))
            @ np.linalg.cholesky(0.6 ** np.abs(np.subtract.outer(np.arange(20), np.arange(20)))).T
        )
        y = X[:, ::4].sum(axis=1) + rng.standard_normal(400)
        learner = LassoCV(alphas=np.logspace(-3, 3, 10), cv=5)
        found = dfi.compare(X, y, "pcm", estimator=learner, random_state=seed)["pcm"]
        p = np.asarray(found.test(adjust="none")["p"])
        assert np.all(p[::4] < 0.05)
        rejected.append(np.delete(p, np.arange(0, 20, 4)) < 0.05)
    assert np.mean(rejected) < 0.15
