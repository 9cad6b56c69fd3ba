"""The network of bent hinges."""

from __future__ import annotations

import numpy as np
import pytest

from dfi._learners import network
from dfi._learners.network import BentHingeNetwork, PenalisedSquares
from dfi.datasets import m2, m3

GENERATOR = np.random.default_rng(0)
SAMPLE = m2(300, d=4, rho=0.4, random_state=0)
FRESH = m2(2000, d=4, rho=0.4, random_state=1)


def fitted(X, y, weight=None, **options):
    return BentHingeNetwork(random_state=0, **options).fit(X, y, sample_weight=weight)


def test_gradient_is_the_derivative_of_the_loss():
    X, y = GENERATOR.standard_normal((30, 3)), GENERATOR.standard_normal(30)
    loss = PenalisedSquares(X, y, GENERATOR.uniform(0.5, 2.0, 30), n_units=4, penalty=2.0)
    theta = GENERATOR.standard_normal(3 * 4 + 4 + 4 + 1)
    slow = [
        (loss(theta + step)[0] - loss(theta - step)[0]) / 2e-5 for step in 1e-5 * np.eye(len(theta))
    ]
    assert loss(theta)[1] == pytest.approx(slow, abs=1e-7)


def test_loss_is_that_of_the_definition():
    model = fitted(SAMPLE.X, SAMPLE.y)
    y = (SAMPLE.y - SAMPLE.y.mean()) / SAMPLE.y.std()
    Z = (SAMPLE.X - SAMPLE.X.mean(axis=0)) / SAMPLE.X.std(axis=0)
    directions = model.directions_ * SAMPLE.X.std(axis=0)[:, None]
    slopes = model.slopes_ / SAMPLE.y.std()
    intercept = (model.intercept_ - SAMPLE.y.mean()) / SAMPLE.y.std()
    offsets = model.offsets_ + SAMPLE.X.mean(axis=0) @ model.directions_
    theta = np.concatenate([directions.ravel(), offsets, slopes, [intercept]])
    residual = (SAMPLE.y - model.predict(SAMPLE.X)) / SAMPLE.y.std()
    slow = residual @ residual / 2 + 1.5 * (np.sum(directions**2) + np.sum(slopes**2))
    assert PenalisedSquares(Z, y, np.ones(300), 50, 3.0)(theta)[0] == pytest.approx(slow / 300)


def test_it_finds_curves_and_products():
    """Of an attainable R2 of 0.94 on M2 and 0.81 on M3."""
    assert fitted(SAMPLE.X, SAMPLE.y).score(FRESH.X, FRESH.y) > 0.88
    sample, fresh = m3(800, rho=0.2, random_state=1), m3(3000, rho=0.2, random_state=2)
    assert fitted(sample.X, sample.y).score(fresh.X, fresh.y) > 0.62


def test_weights_are_repeated_rows():
    counts = GENERATOR.integers(0, 3, 300)
    X, y = np.repeat(SAMPLE.X, counts, axis=0), np.repeat(SAMPLE.y, counts)
    kept = np.count_nonzero(counts)
    weighted = fitted(SAMPLE.X, SAMPLE.y, counts, penalty=3.0 * kept / len(y), max_iter=10)
    repeated = fitted(X, y, max_iter=10)
    assert np.allclose(weighted.predict(FRESH.X), repeated.predict(FRESH.X), rtol=1e-6, atol=1e-6)


def test_scale_of_the_weights_does_not_matter():
    weight = GENERATOR.uniform(0.5, 2.0, 300)
    once = fitted(SAMPLE.X, SAMPLE.y, weight, max_iter=10)
    other = fitted(SAMPLE.X, SAMPLE.y, 1000 * weight, max_iter=10)
    assert np.allclose(once.predict(FRESH.X), other.predict(FRESH.X), rtol=1e-6, atol=1e-6)


def test_units_of_columns_and_outcome_do_not_matter():
    plain = fitted(SAMPLE.X, SAMPLE.y, max_iter=10).predict(FRESH.X)
    scale, shift = np.array([1e6, 1.0, 1e-6, 1.0]), np.array([1e6, 0.0, 0.0, -3.0])
    other = fitted(SAMPLE.X * scale + shift, 1e3 * SAMPLE.y, max_iter=10)
    assert np.allclose(other.predict(FRESH.X * scale + shift), 1e3 * plain, rtol=1e-5, atol=1e-2)


def test_constant_and_doubled_columns_and_a_constant_outcome():
    X = np.column_stack([SAMPLE.X, np.full(300, 1e8), SAMPLE.X[:, 0]])
    fresh = np.column_stack([FRESH.X, np.full(2000, 1e8), FRESH.X[:, 0]])
    assert fitted(X, SAMPLE.y).score(fresh, FRESH.y) > 0.85
    assert fitted(X, np.full(300, 5.0)).predict(fresh) == pytest.approx(np.full(2000, 5.0))


def test_same_seed_same_network():
    first, second = (fitted(SAMPLE.X, SAMPLE.y).predict(FRESH.X) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("shape", "suits"), [((100, 50), True), ((100, 51), False), ((5000, 201), False)]
)
def test_wide_tables_are_left_to_others(shape, suits):
    assert BentHingeNetwork().suits(*shape) is suits


def test_held_out_residuals_are_close_to_those_of_refits():
    """To first order: a network moves to another minimum now and then."""
    sample = m2(60, d=3, rho=0.4, random_state=3)
    rows = np.arange(0, 60, 3)
    options = {"n_units": 10, "max_iter": 100}
    model = fitted(sample.X, sample.y, **options)
    refits = []
    for i in rows:
        others = np.arange(60) != i
        left = fitted(sample.X[others], sample.y[others], **options)
        refits.append(float(sample.y[i] - left.predict(sample.X[[i]])[0]))
    found = model.held_out_residuals_[rows]
    assert np.corrcoef(found, refits)[0, 1] > 0.9
    own = sample.y - model.predict(sample.X)
    assert np.all(np.abs(model.held_out_residuals_) >= np.abs(own) - 1e-9)
    assert np.sum(found**2) > 1.1 * np.sum(own[rows] ** 2)


def test_leverages_are_those_of_a_ridge_regression_on_the_gradients():
    X, y = GENERATOR.standard_normal((12, 2)), GENERATOR.standard_normal(12)
    weight = GENERATOR.uniform(0.5, 2.0, 12)
    loss = PenalisedSquares(X, y, weight, n_units=3, penalty=2.0)
    theta = GENERATOR.standard_normal(2 * 3 + 3 + 3 + 1)

    def value(theta):
        directions, offsets, slopes, intercept = loss.unpack(theta)
        return network.bent_hinge(X @ directions + offsets) @ slopes + intercept

    J = np.column_stack(
        [(value(theta + step) - value(theta - step)) / 2e-6 for step in 1e-6 * np.eye(13)]
    )
    penalties = np.r_[np.full(6, 2.0), np.full(3, network.LOOSE), np.full(3, 2.0), 1.0 / 12]
    hat = J @ np.linalg.solve((J.T * weight) @ J + np.diag(penalties), J.T * weight)
    leverage = np.clip(np.diag(hat), 0.0, network.MOST_LEVERAGE)
    expected = (y - value(theta)) / (1.0 - leverage)
    np.testing.assert_allclose(network._held_out(loss, theta), expected, rtol=1e-5)


def test_many_rows_keep_their_residuals(monkeypatch):
    monkeypatch.setattr(network, "MOST_EXACT", 100)
    model = fitted(SAMPLE.X, SAMPLE.y, max_iter=10)
    own = SAMPLE.y - model.predict(SAMPLE.X)
    np.testing.assert_allclose(model.held_out_residuals_, own, rtol=1e-8, atol=1e-10)


def test_a_sample_of_many_rows_is_fitted(monkeypatch):
    whole = fitted(SAMPLE.X, SAMPLE.y, max_iter=20)
    monkeypatch.setattr(network, "MOST_FITTED", 120)
    part = fitted(SAMPLE.X, SAMPLE.y, max_iter=20)
    assert part.held_out_residuals_.shape == (300,)
    own = SAMPLE.y - part.predict(SAMPLE.X)
    outside = np.isclose(part.held_out_residuals_, own, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(~outside) <= 120
    assert np.count_nonzero(~outside) > 100
    assert np.abs(part.predict(FRESH.X) - whole.predict(FRESH.X)).max() > 0.01
    # rows of weight 0 are no part of the sample
    weight = (np.arange(300) % 3 == 0).astype(float)
    few = fitted(SAMPLE.X, SAMPLE.y, weight, max_iter=20)
    alone = fitted(SAMPLE.X[::3], SAMPLE.y[::3], max_iter=20)
    np.testing.assert_allclose(few.predict(FRESH.X), alone.predict(FRESH.X), rtol=1e-6, atol=1e-6)


def test_a_network_may_be_for_few_rows_only():
    stiff = BentHingeNetwork(most_rows=2000)
    assert stiff.suits(2000, 10)
    assert not stiff.suits(2001, 10)
    assert BentHingeNetwork().suits(2001, 10)
