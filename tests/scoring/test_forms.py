"""Losses by their generators, and the forms of a score: identities that hold for every loss."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy

from dfi._data.weights import Weights
from dfi._scoring.forms import Stretch, affine_parts, explained_rows, influence, loco
from dfi.losses import SQUARED_ERROR, Loss

# by the generator alone: what squared error is without its closed form, and a loss without one
PLAIN = Loss("plain", "", np.square, lambda p: 2.0 * p, np.add)
ENTROPY = Loss(
    "entropy", "nats", lambda p: xlogy(p, p), lambda p: 1.0 + np.log(p),
    lambda a, b: (xlogy(a, a) - xlogy(b, b)) / (a - b),
)  # fmt: skip
number = st.floats(-5.0, 5.0)
positive = st.floats(0.1, 5.0)


@given(y=number, a=number, b=number)
def test_squared_error_is_the_secant_of_the_square(y, a, b):
    y, a, b = map(np.asarray, (y, a, b))
    assert SQUARED_ERROR.of(y, a) == (y - a) ** 2
    assert SQUARED_ERROR.of_two(y, a, b) == (y - a) * (y - b)
    assert PLAIN.of(y, a) + y**2 == pytest.approx((y - a) ** 2, abs=1e-12)
    assert PLAIN.of_two(y, a, b) + y**2 == pytest.approx((y - a) * (y - b), abs=1e-12)
    assert PLAIN.of_two(y, a, a) == pytest.approx(PLAIN.of(y, a), abs=1e-12)


@given(a=number, b=number, mu=number)
@settings(deadline=None)
def test_slope_and_secant_belong_to_the_generator(a, b, mu):
    f, step = SQUARED_ERROR.generator, 1e-4
    a, b = np.asarray(a), np.asarray(b)
    slope = (f(a + step) - f(a - step)) / (2 * step)
    assert SQUARED_ERROR.slope(a) == pytest.approx(slope, abs=1e-6)
    assert SQUARED_ERROR.secant(a, b) * (a - b) == pytest.approx(f(a) - f(b), abs=1e-12)
    assert SQUARED_ERROR.secant(a, a) == SQUARED_ERROR.slope(a)


@given(a=positive, b=positive, mu=positive, p=st.floats(0.05, 0.95))
@settings(deadline=None)
def test_two_models_lose_the_product_of_their_errors(a, b, mu, p):
    """Newton: E l(Y; a, b) - E l(Y, mu) = f[a, b, mu] (a - mu)(b - mu), exactly."""
    # far enough apart for divided differences by subtraction
    a, b = np.asarray(a), np.asarray(b + 6.0)
    mu = np.asarray(mu + 12.0)
    outcome, mass = np.array([0.0, mu / p]), np.array([1 - p, p])
    gap = mass @ (ENTROPY.of_two(outcome, a, b) - ENTROPY.of(outcome, mu))
    second = (ENTROPY.secant(a, b) - ENTROPY.secant(b, mu)) / (a - mu)
    assert gap == pytest.approx(second * (a - mu) * (b - mu), rel=1e-9, abs=1e-9)


def test_losses_can_be_sent_to_other_processes():
    assert pickle.loads(pickle.dumps(SQUARED_ERROR)) == SQUARED_ERROR  # noqa: S301


def drawn(seed=0, n=40):
    generator = np.random.default_rng(seed)
    y, a, b, ma, mb = generator.standard_normal((5, n))
    return y, (a, b), (ma, mb)


@pytest.mark.parametrize("loss", [SQUARED_ERROR, PLAIN])
def test_forms_row_by_row(loss):
    y, values, means = drawn()
    errors = [(y - m) * (y - k) for m, k in ((means[0], means[1]), (values[0], values[1]))]
    cross = influence("cross", y, values, means, loss=loss)
    np.testing.assert_allclose(cross, errors[0] - errors[1], atol=1e-12)
    expected = (y - means[0]) ** 2 - (y - values[0]) ** 2
    for found in (
        influence("loco", y, values, means, loss=loss),
        loco(y, values[0], means[0], loss),
        influence("cross", y, values[:1] * 2, means[:1] * 2, loss=loss),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_cpi_is_half_the_loss_of_draws():
    """Over the predictions of a line, each as likely as any other, the squares cancel."""
    rng = np.random.default_rng(1)
    line, y = rng.standard_normal((40, 7)), rng.standard_normal((40, 7))
    mean = line.mean(axis=1, keepdims=True)
    lost = np.mean((y[:, :, None] - line[:, None, :]) ** 2, axis=2)
    expected = 0.5 * (lost - (y - line) ** 2)
    found = influence("cpi", y, [line], [mean])
    np.testing.assert_allclose(found.mean(axis=1), expected.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(found, (y - mean) * (line - mean), atol=1e-12)


def test_noise_of_the_model_drops_out_of_cpi_and_lowers_loco():
    """A null coordinate of a model that makes something of it: mean 0 against minus its square."""
    rng = np.random.default_rng(2)
    y, noise = rng.standard_normal((2, 200_000))
    means = np.zeros_like(y)
    cpi = influence("cpi", y, [noise], [means])
    assert abs(cpi.mean()) < 4 * cpi.std() / np.sqrt(len(y))
    assert influence("loco", y, [noise], [means]).mean() < -0.9


def test_a_stretch_is_the_slope_of_a_model_that_shrinks():
    rng = np.random.default_rng(3)
    signal = rng.standard_normal(4000)
    y, weights = (
        2.0 + signal + rng.standard_normal(4000),
        Weights(rng.uniform(0.5, 2.0, 4000), "sampling"),
    )
    shrunk, wild = Stretch.of(y, 0.5 * signal, weights), Stretch.of(y, 3.0 * signal, weights)
    own = np.polyfit(0.5 * signal, y, 1, w=np.sqrt(weights.values))[0]
    assert shrunk.factor == shrunk.slope == pytest.approx(own)
    assert wild.factor == 1.0 > wild.slope
    assert not wild.influence.any()
    assert weights.mean(shrunk.influence)[0] == pytest.approx(0.0, abs=1e-12)
    # a row that weighs a little more moves the slope as its influence says
    step, moved = 1e-5 * weights.values.sum(), []
    for row in range(5):
        values = weights.values.copy()
        values[row] += step
        moved.append((Stretch.of(y, 0.5 * signal, Weights(values, "sampling")).slope - own) / 1e-5)
    np.testing.assert_allclose(moved, shrunk.influence[:5], rtol=1e-3, atol=1e-6)
    assert Stretch.of(y, np.ones(4000), weights).factor == 1.0


@pytest.mark.parametrize("form", ["cross", "loco", "cpi"])
def test_affine_parts_are_the_forms(form):
    """With residuals from the very predictions that lines average, u = y p + q."""
    y, values, means = drawn()
    if form != "cross":
        values, means = values[:1] * 2, means[:1] * 2
    p, q = affine_parts(form, values, [(values, means)] * 2)
    np.testing.assert_allclose(y * p + q, influence(form, y, values, means), atol=1e-12)


def test_what_a_fitted_model_explains_is_a_covariance_by_weights():
    y, values = np.array([1.0, 4.0, 2.0, 9.0]), np.array([0.5, 3.0, 3.0, 6.0])
    mass = np.array([1.0, 2.0, 0.0, 1.0])
    mean = np.average(y, weights=mass)
    found = explained_rows("cpi", y, [values], mean, mass, SQUARED_ERROR)
    centred = values - np.average(values, weights=mass)
    np.testing.assert_allclose(found, (y - mean) * centred)
    # what a model adds to every prediction explains nothing, of no row
    shifted = explained_rows("cpi", y, [values + 100.0], mean, mass, SQUARED_ERROR)
    np.testing.assert_allclose(shifted, found)
    unweighted = explained_rows("cpi", y, [values], mean, np.zeros(4), SQUARED_ERROR)
    np.testing.assert_allclose(unweighted, (y - mean) * (values - values.mean()))
