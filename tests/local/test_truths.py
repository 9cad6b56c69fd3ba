"""Contributions of single rows with known truths, on rows whose moments are exact.

The rows are the nodes of a product of Gauss rules, weighted, and mixed by L: their coordinates are
independent under the weights, and polynomials have the means of the normal law.
"""

import itertools
from math import factorial

import numpy as np
import pytest

import dfi

EXACT = dfi.transports.Gaussian(components=None, covariance="sample")


def grid(d, nodes=5):
    """Return independent latent rows and their weights."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    latent = np.array(list(itertools.product(points, repeat=d)))
    mass = np.prod(np.array(list(itertools.product(weights, repeat=d))), axis=1)
    return latent, mass / mass.mean()


def root(correlation):
    values, vectors = np.linalg.eigh(correlation)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def explained(X, weights, regression, **options):
    def predict(rows):
        return regression(np.asarray(rows))

    result = dfi.explain(
        X, predict(X), predict, cv="prefit", transport=EXACT, sample_weight=weights,
        transport_error="ignore", diagnose=False,
    )  # fmt: skip
    return result, result.local(background=len(X), **options)


def correlations(d, seed=0):
    rows = np.random.default_rng(seed).standard_normal((2 * d, d))
    return np.corrcoef(rows.T)


@pytest.mark.parametrize("d", [3, 4])
def test_a_linear_regression_is_shared_by_the_squares_of_the_root(d):
    latent, weights = grid(d, 3)
    L = root(correlations(d))
    beta = np.arange(1.0, d + 1.0)
    _, local = explained(latent @ L, weights, lambda X: X @ beta)
    truth = (latent * (L @ beta)) @ (L**2).T
    np.testing.assert_allclose(local.values, truth, atol=1e-11)
    np.testing.assert_allclose(local.total, truth, atol=1e-11)
    np.testing.assert_allclose(local.higher_order, 0.0, atol=1e-11)


@pytest.mark.parametrize("rho", [-0.7, 0.3, 0.9])
def test_two_features_have_conditional_shapley_values(rho):
    """SHAP of conditional expectations: v({1}) = E[f | x1] = (b1 + b2 rho) x1, and so on."""
    latent, weights = grid(2, 4)
    X = latent @ root(np.array([[1.0, rho], [rho, 1.0]]))
    first, second = 1.5, -0.4
    _, local = explained(X, weights, lambda X: first * X[:, 0] + second * X[:, 1] + 7.0)
    alone = (first + second * rho) * X[:, 0]
    after = first * X[:, 0] + second * X[:, 1] - (second + first * rho) * X[:, 1]
    np.testing.assert_allclose(local.values[:, 0], 0.5 * (alone + after), atol=1e-12)
    formula = first * X[:, 0] + 0.5 * rho * (second * X[:, 0] - first * X[:, 1])
    np.testing.assert_allclose(local.values[:, 0], formula, atol=1e-12)
    np.testing.assert_allclose(local.base, 7.0, atol=1e-12)


def test_duplicates_share_whatever_the_model_reads():
    latent, weights = grid(2)
    X = np.column_stack([latent[:, 0], latent[:, 0], latent[:, 1]])
    _, local = explained(X, weights, lambda X: 3.0 * X[:, 0] - X[:, 1] + X[:, 2])
    half = 0.5 * (3.0 - 1.0) * latent[:, 0]
    np.testing.assert_allclose(local.values, np.column_stack([half, half, latent[:, 1]]), atol=1e-9)


def test_the_square_of_one_of_two_correlated_features():
    p, q = np.cos(0.4), np.sin(0.4)
    latent, weights = grid(2)
    one, two = latent.T
    _, local = explained(latent @ np.array([[p, q], [q, p]]), weights, lambda X: X[:, 0] ** 2)
    truth = p**2 * q**2 * (one**2 + two**2 - 2.0) + p * q * one * two
    np.testing.assert_allclose(local.values[:, 1], truth, atol=1e-10)


def test_an_interaction_of_two_is_halved_and_of_three_divided_by_three():
    latent, weights = grid(4, 4)
    one, two, three, four = latent.T
    _, local = explained(latent, weights, lambda Z: Z[:, 0] * Z[:, 1] + Z[:, 3])
    pair = 0.5 * one * two
    truth = np.column_stack([pair, pair, 0 * one, four])
    np.testing.assert_allclose(local.values, truth, atol=1e-10)
    assert np.all(local.values[:, 2] == 0.0)
    _, local = explained(latent, weights, lambda Z: Z[:, 0] * Z[:, 1] * Z[:, 2])
    third = one * two * three / 3.0
    truth = np.column_stack([third, third, third, 0 * one])
    np.testing.assert_allclose(local.values, truth, atol=1e-10)
    assert np.all(local.values[:, 3] == 0.0)


def test_an_interaction_with_a_correlated_feature():
    """y = 2 x1 + x1 x3 + x4 and x2 correlated with x1, nothing else."""
    p, q = np.cos(0.3), np.sin(0.3)
    latent, weights = grid(4, 3)
    L = np.eye(4)
    L[:2, :2] = [[p, q], [q, p]]
    X = latent @ L
    one, two, three, four = latent.T
    _, local = explained(X, weights, lambda X: 2.0 * X[:, 0] + X[:, 0] * X[:, 2] + X[:, 3])
    psi = np.column_stack([
        2.0 * p * one + 0.5 * p * one * three,
        2.0 * q * two + 0.5 * q * two * three,
        0.5 * X[:, 0] * three,
        four,
    ])  # fmt: skip
    np.testing.assert_allclose(local.values, psi @ (L**2).T, atol=1e-10)


@pytest.mark.parametrize("seed", [0, 1])
def test_total_effects_covary_with_the_regression_as_features_score(seed):
    latent, weights = grid(3)
    L = root(correlations(3, seed))
    result, local = explained(
        latent @ L, weights, lambda X: X[:, 0] * X[:, 1] + X[:, 1] ** 2 - 2.0 * X[:, 2]
    )
    share = weights / weights.sum()
    covariance = share @ (local.total * (local.prediction - share @ local.prediction)[:, None])
    np.testing.assert_allclose(covariance, result.scores, atol=1e-9)


def test_unrelated_columns_contribute_exactly_nothing():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    X[:, 1] += X[:, 0]
    y = X[:, 0] ** 2 + X[:, 1]
    result = dfi.explain(X, y, lambda X: np.asarray(X)[:, 0] ** 2 + np.asarray(X)[:, 1],
                         cv="prefit", diagnose=False)  # fmt: skip
    local = result.local()
    assert np.all(local.values[:, 2:] == 0.0)
    assert np.all(local.total[:, 2:] == 0.0)


def shapley(value, latent, others, mass):
    """Return exact Shapley values by all coalitions, others independent of each other in law."""
    n, d = latent.shape
    sizes = [bin(k).count("1") for k in range(1 << d)]
    worth = np.empty((n, 1 << d))
    for k in range(1 << d):
        own = np.array([bool(k >> j & 1) for j in range(d)])
        points = np.where(own, latent[:, None, :], others).reshape(-1, d)
        worth[:, k] = value(points).reshape(n, -1) @ mass
    psi = np.zeros((n, d))
    for j in range(d):
        for k in range(1 << d):
            if not k >> j & 1:
                weight = factorial(sizes[k]) * factorial(d - sizes[k] - 1) / factorial(d)
                psi[:, j] += weight * (worth[:, k | 1 << j] - worth[:, k])
    return psi


@pytest.mark.parametrize(
    ("name", "regression", "stated"),
    [
        ("product of three", lambda X: X[:, 0] * X[:, 1] * X[:, 2], 0.12),
        ("exponential", lambda X: np.exp(0.5 * X.sum(axis=1)), 0.06),
        ("logistic", lambda X: 1.0 / (1.0 + np.exp(-X[:, 0] - 2.0 * X[:, 1] + X[:, 2])), 0.03),
    ],
)
def test_exact_shapley_values_within_the_stated_error(name, regression, stated):
    """What docs/local.md says of four features and interactions of every order."""
    latent, weights = grid(4, 4)
    L = root(0.5 * np.eye(4) + 0.5 * correlations(4))
    _, local = explained(latent @ L, weights, regression)
    mass = weights / weights.sum()
    psi = shapley(lambda z: regression(z @ L), latent, latent, mass)
    truth = psi @ (L**2).T
    error = np.sqrt(mass @ (local.values - truth) ** 2).sum() / np.sqrt(mass @ truth**2).sum()
    assert error < stated, (name, error)


def test_simpsons_rule_is_exact_to_fourth_order_up_to_its_noise():
    latent, weights = grid(4, 3)

    def regression(X):
        return X[:, 0] * X[:, 1] * X[:, 2] + X[:, 0] * X[:, 3] + X[:, 1] * X[:, 2] * X[:, 3]

    _, plain = explained(latent, weights, regression)
    errors = []
    psi = shapley(regression, latent, latent, weights / weights.sum())
    for refine in (16, 1024):
        _, local = explained(latent, weights, regression, refine=refine)
        np.testing.assert_allclose(
            local.values.sum(axis=1), local.prediction - local.base, atol=1e-10
        )
        errors.append(np.sqrt(np.mean((local.values - psi) ** 2)))
    # the noise falls with the root of the designs, and no bias is left below it
    assert errors[1] < errors[0] / 4.0
    assert errors[1] < np.sqrt(np.mean((plain.values - psi) ** 2))
