"""Losses by their generators: divided differences, remainders, and scores of known truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import dfi
from dfi._data.table import read_table
from dfi._lines.base import Lines, Reference
from dfi._lines.choose import Quadrature, line_model
from dfi._models.predictor import predictor_for
from dfi._scoring.forms import influence, loco
from dfi.losses import (
    BRIER,
    GAMMA,
    LOG_LOSS,
    POISSON,
    SQUARED_ERROR,
    Loss,
    absolute,
    custom,
    pinball,
    resolve_loss,
    zero_one,
)

WITH_GENERATOR = [SQUARED_ERROR, BRIER, LOG_LOSS, LOG_LOSS.each_class, POISSON, GAMMA]
IDS = ["squared-error", "brier", "log-loss", "log-loss of a class", "poisson", "gamma"]

probability = st.floats(1e-6, 1.0 - 1e-6)


@pytest.mark.parametrize("loss", WITH_GENERATOR, ids=IDS)
@given(a=probability, b=probability)
def test_the_secant_is_the_divided_difference(loss: Loss, a: float, b: float) -> None:
    first, second = np.array([a]), np.array([b])
    found = loss.secant(first, second)[0]
    if abs(a - b) > 1e-3:
        expected = (loss.generator(first) - loss.generator(second))[0] / (a - b)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    else:
        low, high = sorted([loss.slope(first)[0], loss.slope(second)[0]])
        assert low - 1e-9 * abs(low) - 1e-9 <= found <= high + 1e-9 * abs(high) + 1e-9
    assert loss.secant(first, first)[0] == pytest.approx(loss.slope(first)[0], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("loss", WITH_GENERATOR, ids=IDS)
def test_slope_and_curvature_are_derivatives(loss: Loss) -> None:
    p = np.linspace(0.05, 0.95, 19)
    step = 1e-5
    slope = (loss.generator(p + step) - loss.generator(p - step)) / (2 * step)
    np.testing.assert_allclose(loss.slope(p), slope, rtol=1e-7, atol=1e-8)
    bend = (loss.slope(p + step) - loss.slope(p - step)) / (2 * step)
    np.testing.assert_allclose(loss.curvature(p), bend, rtol=1e-6)


@pytest.mark.parametrize("loss", WITH_GENERATOR, ids=IDS)
@given(a=probability, b=probability, mean=st.floats(0.01, 0.99))
def test_newtons_remainder(loss: Loss, a: float, b: float, mean: float) -> None:
    """Two models lose the product of their errors, times a second divided difference >= 0."""
    one, two, eta = np.array([a]), np.array([b]), np.array([mean])
    # the loss is linear in the outcome, so its mean is the loss at the mean
    excess = (loss.of_two(eta, one, two) - loss.of(eta, eta))[0]
    if min(abs(a - mean), abs(b - mean)) < 1e-3:
        return
    second = (loss.secant(one, eta)[0] - loss.secant(two, eta)[0]) / (a - b) if a != b else None
    if second is None or abs(a - b) < 1e-3:
        return
    assert second >= -1e-12
    assert excess == pytest.approx(second * (a - mean) * (b - mean), rel=1e-6, abs=1e-9)


def test_the_secant_of_squared_error_is_the_cross_form_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    y, *others = rng.standard_normal((5, 50))
    values, means = others[:2], others[2:]
    u = influence("cross", y, values, means, loss=SQUARED_ERROR)
    expected = (y - means[0]) * (y - means[1]) - (y - values[0]) * (y - values[1])
    np.testing.assert_array_equal(u, expected)
    np.testing.assert_array_equal(influence("cross", y, values, means, loss=BRIER), expected)


@pytest.mark.parametrize("loss", [SQUARED_ERROR, BRIER, LOG_LOSS, POISSON], ids=lambda x: x.name)
def test_one_model_with_an_error_never_scores_too_high(loss: Loss) -> None:
    """1/f'' is concave: E D(m, m^) <= E D(eta, eta^) along every line."""
    rng = np.random.default_rng(1)
    for _ in range(2000):
        eta, error = rng.uniform(0.02, 0.98, (2, 6))
        m, wrong = eta.mean(), error.mean()

        def divergence(p, q, loss=loss):
            return loss.of(p, q) - loss.of(p, p)

        remainder = divergence(np.array([m]), np.array([wrong]))[0] - divergence(eta, error).mean()
        assert remainder <= 1e-12


def test_losses_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    y, p = (rng.random(200) < 0.3).astype(float), rng.uniform(0.01, 0.99, 200)
    assert LOG_LOSS.of(y, p).mean() == pytest.approx(metrics.log_loss(y, p))
    assert BRIER.of(y, p).mean() == pytest.approx(metrics.brier_score_loss(y, p))
    counts, rate = rng.poisson(3.0, 200).astype(float), rng.uniform(0.5, 6.0, 200)
    half = (POISSON.of(counts, rate) - POISSON.least(counts)).mean()
    assert 2 * half == pytest.approx(metrics.mean_poisson_deviance(counts, rate))
    positive = rng.gamma(2.0, 1.0, 200)
    half = (GAMMA.of(positive, rate) - GAMMA.least(positive)).mean()
    assert 2 * half == pytest.approx(metrics.mean_gamma_deviance(positive, rate))
    classes = rng.integers(0, 3, 200)
    table = rng.dirichlet([1.0, 1.0, 1.0], 200)
    each = LOG_LOSS.each_class
    lost = sum(each.of((classes == k).astype(float), table[:, k]) for k in range(3))
    assert lost.mean() == pytest.approx(metrics.log_loss(classes, table))
    assert (each.least(y) == 0).all()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_losses_stay_finite_where_one_model_is_sure(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = (rng.random(20) < 0.5).astype(float)
    sure, other = np.full(20, 1e-300), rng.uniform(0.1, 0.9, 20)
    assert np.isfinite(LOG_LOSS.of_two(y, sure, other)).all()
    assert np.abs(LOG_LOSS.of_two(y, sure, other)).max() < 5.0


# known truths, by the library's own lines


def gaussian_rows(n: int, rho: float, d: int) -> np.ndarray:
    """Normal rows of low discrepancy with corr(x1, x2) = rho, whitened exactly."""
    z = special.ndtri(np.clip(stats.qmc.Sobol(d, rng=0).random(n), 1e-9, 1 - 1e-9))
    z -= z.mean(axis=0)
    z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / n)).T
    correlation = np.eye(d)
    correlation[0, 1] = correlation[1, 0] = rho
    return z @ np.linalg.cholesky(correlation).T


def root(rho: float, d: int) -> np.ndarray:
    correlation = np.eye(d)
    correlation[0, 1] = correlation[1, 0] = rho
    values, vectors = np.linalg.eigh(correlation)
    return vectors @ np.diag(np.sqrt(values)) @ vectors.T


def scores(model, X, y, **options):
    """Scores of a true regression: with the outcome's mean for outcomes nothing is random."""
    return dfi.explain(
        X,
        y,
        estimator=model,
        cv="prefit",
        transport=dfi.transports.Gaussian(reference="gaussian", components=None),
        transport_error="ignore",
        diagnose=False,
        **options,
    )


def logit_a(X):
    X = np.asarray(X)
    return special.expit(1.5 * X[:, 0] + X[:, 2])


def logit_b(X):
    X = np.asarray(X)
    return special.expit(X[:, 0] + 1.5 * X[:, 0] * X[:, 2])


def expected_scores(model, X, loss, **options):
    """Mean over both outcomes of each row, weighted by the true probability."""
    p = model(X)
    rows, y = np.vstack([X, X]), np.repeat([1.0, 0.0], len(X))
    return scores(model, rows, y, loss=loss, sample_weight=np.concatenate([p, 1.0 - p]), **options)


@pytest.mark.parametrize(
    ("model", "loss", "latent", "attributed"),
    [
        (logit_a, "log-loss", (0.125187, 0.034710, 0.073724), (0.107092, 0.052805, 0.073724)),
        (logit_a, "brier", (0.051331, 0.013684, 0.029494), None),
        (logit_b, "log-loss", (0.126107, 0.037941, 0.109123), None),
    ],
)
def test_logits(model, loss, latent, attributed) -> None:
    X = gaussian_rows(4096, 0.8, 5)
    result = expected_scores(model, X, loss)
    np.testing.assert_allclose(result.latent.scores[:3], latent, rtol=0.02)
    np.testing.assert_allclose(result.scores[3:], 0.0, atol=1e-4)
    if attributed is not None:
        np.testing.assert_allclose(result.scores[:3], attributed, rtol=0.02)


def test_poisson_and_gamma_in_closed_form() -> None:
    """phi_Zj = (L beta)_j^2 / 2 times E mu for Poisson, and alone for gamma."""
    X, beta, level = gaussian_rows(8192, 0.6, 4), np.array([0.5, -0.2, 0.3, 0.0]), 0.4

    def rate(rows):
        return np.exp(level + np.asarray(rows) @ beta)

    through = root(0.6, 4) @ beta
    mean = np.exp(level + through @ through / 2)
    y = rate(X)
    # the loss is linear in the outcome: that of the mean is the mean loss
    poisson = scores(rate, X, y, loss="poisson")
    np.testing.assert_allclose(poisson.latent.scores, through**2 / 2 * mean, rtol=0.03, atol=1e-4)
    total = (POISSON.of(y, np.full(len(y), y.mean())) - POISSON.of(y, y)).mean()
    assert poisson.latent.scores.sum() == pytest.approx(total, rel=0.02)
    gamma = scores(rate, X, y, loss="gamma")
    np.testing.assert_allclose(gamma.latent.scores, through**2 / 2, rtol=0.03, atol=1e-4)


MARGINS = np.array([[1.5, 0.0, 0.0], [0.0, 0.0, 1.5], [0.0, 0.0, 0.0]])


def three_classes(X):
    return special.softmax(np.asarray(X)[:, :3] @ MARGINS.T, axis=1)


def test_three_classes_add_up() -> None:
    """By class and latent coordinate, of a logistic regression with margins 1.5 x1, 1.5 x3, 0."""
    X = gaussian_rows(2048, 0.8, 3)
    p = three_classes(X)
    rows, labels = np.vstack([X] * 3), np.repeat(["a", "b", "c"], len(X))
    result = scores(three_classes, rows, labels, loss="log-loss", sample_weight=p.T.ravel())
    found = np.array([result.by_outcome[name].latent.scores for name in "abc"])
    truth = [[0.073, 0.020, 0.024], [0.020, 0.006, 0.089], [0.028, 0.008, 0.034]]
    np.testing.assert_allclose(found, truth, rtol=0.04, atol=0.001)
    each = np.sum([part.scores for part in result.by_outcome.values()], axis=0)
    np.testing.assert_allclose(each, result.scores, rtol=0, atol=1e-12)
    brier = scores(three_classes, rows, labels, sample_weight=p.T.ravel())
    each = np.sum([part.scores for part in brier.by_outcome.values()], axis=0)
    np.testing.assert_allclose(each, brier.scores, rtol=0, atol=1e-12)
    assert brier.spec["loss"] == "brier"


def test_shrinking_commutes_with_line_means() -> None:
    """The affine shrink of the log-loss: averages of shrunk predictions are shrunk averages."""

    X = gaussian_rows(64, 0.8, 3)
    plain = predictor_for(logit_a, read_table(X), prefit=True)
    shrunk = replace(plain, shrink=(0.1, 0.3), domain="probability")
    lines = Lines(X, X, np.eye(3), Reference.gaussian(), np.zeros((1, 3)))
    one, two = (line_model(p, X, Quadrature()) for p in (plain, shrunk))
    np.testing.assert_allclose(
        two.moments(lines).mean, 0.9 * one.moments(lines).mean + 0.03, rtol=1e-13
    )
    np.testing.assert_allclose(shrunk(X), 0.9 * plain(X) + 0.03, rtol=1e-13)


# what has no generator


def test_losses_without_a_generator() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 2))
    y = X[:, 0] + rng.standard_normal(300)

    def model(rows):
        return np.asarray(rows)[:, 0]

    def near(y, p):
        return np.abs(y - p) ** 1.5

    found = dfi.explain(X, y, model, cv="prefit", loss=near, diagnose=False)
    assert found.spec["form"] == "loco"
    assert found.scores[0] > 0.2
    assert abs(found.scores[1]) < 1e-12
    with pytest.raises(ValueError, match="no generator, so two models cannot be scored"):
        dfi.explain(X, y, "linear", loss=near, form="cross")
    with pytest.raises(TypeError, match="has no generator, and so no cross form"):
        absolute().of_two(y, y, y)
    named = custom(lambda y, p: np.abs(y - p) ** 1.5, "three halves")
    assert named.name == "three halves"
    assert pinball(0.9).of(np.array([1.0]), np.array([0.0]))[0] == pytest.approx(0.9)
    assert zero_one().of(np.array([1.0, 0.0]), np.array([0.4, 0.4])).tolist() == [1.0, 0.0]


def test_a_loss_of_ones_own() -> None:
    """f(p) = p^4 with its derivatives is as good as a named one."""
    quartic = Loss(
        "quartic",
        "fourth powers",
        generator=lambda p: p**4,
        slope=lambda p: 4 * p**3,
        curvature=lambda p: 12 * p**2,
        secant=lambda a, b: a**3 + a**2 * b + a * b**2 + b**3,
    )
    y, p, m = np.random.default_rng(4).standard_normal((3, 50))
    expected = (p**4 + 4 * p**3 * (y - p)) - (m**4 + 4 * m**3 * (y - m))
    np.testing.assert_allclose(loco(y, p, m, quartic), expected, rtol=1e-12)
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 3))
    outcome = X[:, 0] + 0.5 * rng.standard_normal(200)
    result = dfi.explain(X, outcome, "linear", loss=quartic, diagnose=False)
    assert result.spec["loss"] == "quartic"
    assert result.scores.argmax() == 0


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("log_loss", "unknown loss 'log_loss'; did you mean 'log-loss'"),
        (3, "a loss must be a function of outcomes and predictions, got 3"),
    ],
)
def test_unknown_losses(loss, message) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        resolve_loss(loss)
    for quantile in (1.0, "0.5", True):
        with pytest.raises(ValueError, match="quantile must be a number strictly between 0 and 1"):
            pinball(quantile)
    with pytest.raises(TypeError, match="slope must be a function, got 2"):
        Loss("half", "none", slope=2)
    with pytest.raises(TypeError, match="domain must be 'real', 'probability' or 'positive', got"):
        Loss("half", "none", domain="reals", function=np.hypot)
    with pytest.raises(TypeError, match="needs generator, slope and secant"):
        Loss("half", "none", generator=np.square)
