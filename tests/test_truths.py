"""Known truths: 20,000 rows, the true regression function given, every score within 3 SE and 3 %.

A sample of independent rows must come within 3 of its standard errors. Its own noise can exceed
3 % of a score (the standard error of M3's smallest scores is 3.4 % of them), so the 3 % are asked
of as many rows of a scrambled Sobol sequence, which has the same law and less noise.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import dfi
from dfi.datasets import linear_truth, m1, m2, m3

N = 20_000
KINDS = ["independent", "sobol"]


def normal_rows(kind, d):
    """Return N rows of independent normal columns."""
    if kind == "independent":
        return np.random.default_rng(0).standard_normal((N, d))
    points = stats.qmc.Sobol(d, scramble=True, rng=np.random.default_rng(0)).random_base2(15)[:N]
    return stats.norm.ppf(np.clip(points, 1e-12, 1 - 1e-12))


def gaussian_sample(kind, correlation, regression, noise=1.0):
    """Return rows of N(0, correlation) and outcomes."""
    rows = normal_rows(kind, len(correlation) + 1)
    values, vectors = np.linalg.eigh(correlation)
    X = rows[:, :-1] @ (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    return X, regression(X) + noise * rows[:, -1]


def pairs(d, rho, *where):
    correlation = np.eye(d)
    for j, k in where:
        correlation[j, k] = correlation[k, j] = rho
    return correlation


def explain_truth(X, y, regression, **options):
    return dfi.explain(X, y, estimator=regression, cv="prefit", diagnose=False, **options)


def assert_truth(result, truth, kind):
    """Check non-null scores; null ones must be within 3 SE of 0, or at rounding level.

    The squared noise in L leaves about (sum of scores)/(4 n) in null attributed scores.
    """
    truth = np.asarray(truth)
    for name, score, se, value in zip(result.names, result.scores, result.se, truth, strict=True):
        error = abs(score - value)
        if value > 0:
            assert error < 3 * se, (name, score, se, value)
            assert kind == "independent" or error < 0.03 * value, (name, score, se, value)
        else:
            assert error < 3 * (0.0 if np.isnan(se) else se) + truth.sum() / N, (name, score, se)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rho", [0.0, 0.4, 0.8])
def test_m1(rho, kind):
    regression = m1(10).regression
    X, y = gaussian_sample(kind, pairs(10, rho, (0, 1)), regression)
    result = explain_truth(X, y, regression, integration=dfi.Quadrature("gauss", nodes=3))
    known = {
        0.0: ((25, 0), (25, 0)),
        0.4: ((23.95644, 1.04356), (23, 2)),
        0.8: ((20, 5), (17, 8)),
    }[rho]
    assert_truth(result.latent, [*known[0], *[0.0] * 8], kind)
    assert_truth(result, [*known[1], *[0.0] * 8], kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rho", "score"), [(0.0, 4.9947), (0.2, 5.3798), (0.4, 6.5478), (0.8, 11.4170)]
)
def test_m2(rho, score, kind):
    regression = m2(10).regression
    X, y = gaussian_sample(kind, pairs(10, rho, (0, 1)), regression)
    rule = "auto" if kind == "sobol" else "gauss"
    result = explain_truth(X, y, regression, integration=dfi.Quadrature(rule))
    assert_truth(result.latent, [score, score, *[0.0] * 8], kind)
    assert_truth(result, [score, score, *[0.0] * 8], kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rho", [0.2, 0.8])
def test_m3_with_the_erratum(rho, kind):
    """X4 and X5 have (rho^2 + 2)/4 in both spaces, not the half of it that was published."""
    regression = m3(10).regression
    X, y = gaussian_sample(kind, pairs(5, rho, (0, 1), (3, 4)), regression, np.sqrt(0.4))
    result = explain_truth(X, y, regression)
    first, third, last = 9 / 16 * (rho**2 + 2), (14 * rho**2 + 13) / 16, (rho**2 + 2) / 4
    truth = [first, first, third, last, last]
    assert_truth(result.latent, truth, kind)
    assert_truth(result, truth, kind)
    for position in (3, 4):
        assert result.scores[position] - last / 2 > 10 * result.se[position]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [(1.0, 1.0), (1e-4, 1e5)])
def test_duplicated_column_halves_the_signal_and_loses_none(scale, kind):
    """X1 = X2 = U, beta = (2, 1): (2 + 1)^2 / 2 each, whatever the units of the two copies."""
    rows = normal_rows(kind, 3)
    X = np.column_stack([rows[:, 0] * scale[0], rows[:, 0] * scale[1], rows[:, 1]])
    y = 3 * rows[:, 0] + rows[:, 2]

    def regression(rows):
        return 2 * rows[:, 0] / scale[0] + rows[:, 1] / scale[1]

    result = explain_truth(X, y, regression)
    assert_truth(result, [4.5, 4.5, 0.0], kind)
    assert_truth(result.latent, [4.5, 4.5, 0.0], kind)
    assert result.diagnostics["random_kernel"] is True
    assert result.total.value == pytest.approx(9.0, rel=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_linear_model_with_twenty_equicorrelated_features(kind):
    d, rho = 20, 0.5
    correlation = np.full((d, d), rho) + (1 - rho) * np.eye(d)
    beta = np.linspace(-1.0, 3.0, d)

    def regression(rows):
        return rows @ beta

    X, y = gaussian_sample(kind, correlation, regression)
    result = explain_truth(X, y, regression, integration=dfi.Quadrature("gauss", nodes=3))
    values, vectors = np.linalg.eigh(correlation)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    latent = (root @ beta) ** 2
    assert_truth(result.latent, latent, kind)
    assert_truth(result, (root**2) @ latent, kind)
    assert result.total.value == pytest.approx(beta @ correlation @ beta, rel=0.03)


def test_linear_truth_is_the_decomposition_of_the_explained_variance():
    correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    latent, attributed = linear_truth(correlation, np.array([5.0, 0.0]))
    assert np.allclose(latent, [20, 5])
    assert np.allclose(attributed, [17, 8])


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.7, -0.7])
def test_copies_score_alike_and_draw_from_what_they_correlate_with(rho):
    """They divide the score of an independent feature, and mostly have more of a correlated one."""
    correlation = np.array([[1.0, rho], [rho, 1.0]])
    places = [0, 0, 1]
    _, alone = linear_truth(correlation, np.array([1.0, 1.0]))
    copied = correlation[np.ix_(places, places)]
    _, found = linear_truth(copied, np.array([0.5, 0.5, 1.0]))
    assert found[0] == pytest.approx(found[1])
    assert found.sum() == pytest.approx(alone.sum())
    if rho == 0.0:
        assert found[0] + found[1] == pytest.approx(alone[0])
    elif rho > 0.0:
        assert found[0] + found[1] > alone[0] * 1.01
    X = normal_rows("independent", 2)[:2000] @ np.linalg.cholesky(correlation).T
    result = dfi.explain(X[:, places], X.sum(axis=1), "linear", cv=2, diagnose=False)
    np.testing.assert_allclose(result.scores / result.scores.sum(), found / found.sum(), atol=0.05)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_gaussian_bridge_of_a_linear_model(epsilon):
    """phi_Z = s^2 (L beta)^2 and phi_X = s^4 (L*L)(L beta)^2."""
    sample = m1(N, rho=0.8, d=4)
    s = np.sqrt(1 + epsilon**2 / 16) - epsilon / 4
    # a linear model is smoothed exactly by one antithetic pair
    transport = dfi.transports.Gaussian(epsilon=epsilon, n_draws=16, n_smoothing=2)
    result = explain_truth(sample.X, sample.y, sample.regression, transport=transport)
    for found, truth in (
        (result.latent, s**2 * np.array([20, 5, 0, 0])),
        (result, s**4 * np.array([17, 8, 0, 0])),
    ):
        assert np.all(np.abs(found.scores - truth) < 3 * found.se + 25 / N)
        assert np.allclose(found.scores[:2], truth[:2], rtol=0.03)


def test_bridge_tends_to_the_map_as_epsilon_vanishes():
    sample = m2(4000, rho=0.8, d=3)
    still = explain_truth(
        sample.X,
        sample.y,
        sample.regression,
        transport=dfi.transports.Gaussian(reference="gaussian"),
    )
    bridge = explain_truth(
        sample.X, sample.y, sample.regression, transport=dfi.transports.Gaussian(epsilon=1e-3)
    )
    assert np.allclose(bridge.scores, still.scores, rtol=0.01, atol=0.02)
    assert np.allclose(bridge.se, still.se, rtol=0.05, atol=0.02)


def test_published_form_is_close_to_the_map_at_its_small_epsilon():
    sample = m1(2000, rho=0.8)
    # the published form knows nothing of the second-order bias
    still = explain_truth(
        sample.X, sample.y, sample.regression, transport=dfi.transports.Gaussian(components=None),
        transport_error="ignore",
    )  # fmt: skip
    published = explain_truth(
        sample.X, sample.y, sample.regression, transport=dfi.transports.Semicontinuous(epsilon=1e-3)
    )
    assert np.allclose(published.latent.scores, still.latent.scores, rtol=1e-12)
    assert np.allclose(published.scores, still.scores, rtol=3e-3)
