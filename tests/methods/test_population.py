"""Population equalities: every method against its closed form."""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest

import dfi
from dfi.methods import CPI, LOCO, NLOCO


def submodel_variance(correlation: np.ndarray, beta: np.ndarray, subset: tuple[int, ...]) -> float:
    if not subset:
        return 0.0
    cross = (correlation @ beta)[list(subset)]
    return float(cross @ np.linalg.solve(correlation[np.ix_(subset, subset)], cross))


def shapley_truth(correlation: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """The definition, over all subsets, from population covariances."""
    d = len(beta)
    value = np.zeros(d)
    for j in range(d):
        others = [k for k in range(d) if k != j]
        for size in range(d):
            weight = factorial(size) * factorial(d - 1 - size) / factorial(d)
            for subset in combinations(others, size):
                with_j = submodel_variance(correlation, beta, tuple(sorted((*subset, j))))
                value[j] += weight * (with_j - submodel_variance(correlation, beta, subset))
    return value


def truths(rho: float) -> dict[str, np.ndarray]:
    """X1 and X2 of model M1: Y = 5 X1 + e, corr(X1, X2) = rho."""
    correlation = np.array([[1.0, rho], [rho, 1.0]])
    beta = np.array([5.0, 0.0])
    latent, attributed = dfi.datasets.simulations.linear_truth(correlation, beta)
    loco = beta**2 / np.diag(np.linalg.inv(correlation))
    shapley = shapley_truth(correlation, beta)
    return {
        "dfi": attributed,
        "loco": loco,
        "nloco": loco / 26.0,
        "dloco": beta**2,
        "pfi": 2 * beta**2,
        "cpi": loco,
        "shapley": shapley,
        "sobol_total": beta**2,
        "sobol_first": beta**2,
        "sobol_latent_total": latent,
        "sobol_latent_first": latent,
        "r2_genizi": attributed,
        "r2_lmg": shapley,
        "r2_dominance": shapley,
    }


@pytest.mark.parametrize("rho", [0.2, 0.8])
def test_every_method_finds_its_closed_form_on_m1(rho: float) -> None:
    sample = dfi.datasets.m1(2000, rho=rho, random_state=0)
    comparison = dfi.compare(sample.X, sample.y, estimator="linear")
    expected = truths(rho)
    assert set(comparison.results) == {*expected, "pcm"}
    for name, truth in expected.items():
        result = comparison[name]
        assert np.all(np.abs(result.scores[:2] - truth) < 3 * result.se[:2]), name
    assert comparison["pcm"].scores[0] > 5
    assert abs(comparison["pcm"].scores[1]) < 3


def test_loco_and_cpi_are_the_conditional_variance(linear_sample: dict[str, Any]) -> None:
    truth = linear_sample["beta"] ** 2 / np.diag(np.linalg.inv(linear_sample["correlation"]))
    # every other held-out row lends its residual: nothing is left to Monte Carlo
    found = dfi.compare(
        linear_sample["X"],
        linear_sample["y"],
        ["loco", CPI(n_permutations=10_000)],
        estimator="linear",
    )
    loco, cpi = found["loco"], found["cpi"]
    assert np.all(np.abs(loco.scores - truth) < 3 * loco.se)
    assert np.all(np.abs(cpi.scores - truth) < 3 * cpi.se)
    # the same parameter and the same influence function: they agree row by row, to second order
    gap = loco.influence - cpi.influence
    assert np.all(np.abs(gap.mean(axis=0)) < 0.02 * loco.scores)
    for j in range(3):
        assert np.corrcoef(loco.influence[:, j], cpi.influence[:, j])[0, 1] > 0.995


def test_plain_cpi_has_the_same_mean_without_the_residual_term(
    linear_sample: dict[str, Any],
) -> None:
    X, y = linear_sample["X"], linear_sample["y"]
    plain = dfi.compare(X, y, CPI(debias=False), estimator="linear")["cpi"]
    corrected = dfi.compare(X, y, CPI(), estimator="linear")["cpi"]
    np.testing.assert_allclose(plain.se, corrected.se)
    assert np.all(np.abs(plain.scores - corrected.scores) < 2 * plain.se)
    assert not plain.spec["valid_intervals"]


def test_normalised_loco_of_a_linear_model_is_the_squared_coefficient(
    linear_sample: dict[str, Any],
) -> None:
    X, y, beta = (linear_sample[key] for key in ("X", "y", "beta"))
    residual = dfi.compare(X, y, NLOCO(normalize="residual"), estimator="linear")["nloco"]
    assert np.all(np.abs(residual.scores - beta**2) < 3 * residual.se)
    share = dfi.compare(X, y, [NLOCO(), "loco"], estimator="linear")
    np.testing.assert_allclose(share["nloco"].scores, share["loco"].scores / y.var(), rtol=1e-10)


def test_shapley_is_efficient_and_equals_lmg(linear_sample: dict[str, Any]) -> None:
    X, y, correlation, beta = (linear_sample[key] for key in ("X", "y", "correlation", "beta"))
    found = dfi.compare(X, y, ["shapley", "r2"], estimator="linear")
    shapley, lmg = found["shapley"], found["r2_lmg"]
    truth = shapley_truth(correlation, beta)
    assert np.all(np.abs(shapley.scores - truth) < 3 * shapley.se)
    assert np.all(np.abs(lmg.scores - truth) < 3 * lmg.se)
    np.testing.assert_allclose(shapley.scores, lmg.scores, atol=0.05)
    # efficiency: the values sum to the explained variance, exactly, and to Var(mu) in population
    quality = shapley.quality
    assert shapley.scores.sum() == pytest.approx(quality.outcome_variance - quality.mse, rel=2e-3)
    explained = beta @ correlation @ beta
    assert abs(shapley.total.value - explained) < 3 * shapley.total.se
    np.testing.assert_allclose(lmg.scores.sum(), found["r2_genizi"].scores.sum(), rtol=1e-10)


def test_sample_split_loco_has_the_same_parameter_and_an_honest_error() -> None:
    sample = dfi.datasets.m1(2000, rho=0.8, random_state=1)
    found = dfi.compare(sample.X, sample.y, LOCO(sample_split=True), estimator="linear")["loco"]
    assert abs(found.scores[0] - 9.0) < 3 * found.se[0]
    # sd of a loss over sqrt of half the rows, for both models: the null has a variance of its own
    expected = np.sqrt(2 * (2 + 2) / 2000)
    np.testing.assert_allclose(found.se[2:], expected, rtol=0.25)


def test_sign_of_power_on_m1() -> None:
    for seed in range(5):
        sample = dfi.datasets.m1(300, rho=0.8, random_state=seed)
        loco = dfi.compare(sample.X, sample.y, "loco", estimator="linear")["loco"]
        assert loco.scores[0] / loco.se[0] > 5
