"""The convex potential: twins of loss and gradient, inverse, one optimum."""

import numpy as np
import pytest

from dfi.transports.potential import (
    FLOOR,
    KNOTS,
    SPAN,
    Potential,
    Ridges,
    fit_potential,
    penalized_loss,
)


def white(n, d, seed=0, bend=True):
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((n, d))
    if bend:
        rows[:, 1 % d] += 0.7 * rows[:, 0] ** 2
    rows -= rows.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True).reshape(d, d))
    return rows @ (vectors / np.sqrt(values)) @ vectors.T


def drawn(rows, seed=1):
    generator = np.random.default_rng(seed)
    ridges = Ridges.of(rows)
    bend = ridges.identity() * np.exp(0.4 * generator.standard_normal(ridges.identity().shape))
    return Potential(ridges, bend, 0.2 * generator.standard_normal(rows.shape[1]))


def slow_gradient(potential, row):
    """Return the gradient and Hessian of the potential at a row, by numerical integration."""
    knots = np.linspace(-SPAN, SPAN, KNOTS)
    gradient = FLOOR * row + potential.shift
    hessian = FLOOR * np.eye(len(row))
    for direction, bend in zip(potential.ridges.directions, potential.bend, strict=True):
        u = direction @ row
        grid = np.linspace(0.0, u, 4001)
        gradient = gradient + direction * np.trapezoid(np.interp(grid, knots, bend), grid)
        hessian = hessian + np.outer(direction, direction) * np.interp(u, knots, bend)
    return gradient, hessian


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_gradient_and_likelihood_are_those_of_the_formula(d):
    rows = 2.0 * white(12, d)
    potential = drawn(rows)
    latent, loss = potential.gradient(rows)
    for i in range(12):
        gradient, hessian = slow_gradient(potential, rows[i])
        np.testing.assert_allclose(latent[i], gradient, atol=1e-5)
        expected = 0.5 * gradient @ gradient - np.linalg.slogdet(hessian)[1]
        assert loss[i] == pytest.approx(expected, abs=1e-4)
        np.testing.assert_allclose(potential.hessian(rows[[i]])[0], hessian, atol=1e-10)


def test_derivatives_of_the_loss_are_its_differences():
    rows = 1.5 * white(40, 3)
    potential = drawn(rows)
    share = np.random.default_rng(2).dirichlet(np.ones(40))
    given = rows, share, potential.ridges, 0.1

    def loss(shift, bend):
        return penalized_loss(*given, shift, bend)[0]

    shift, bend = potential.shift, potential.bend
    _, on_shift, on_bend = penalized_loss(*given, shift, bend)
    step = 1e-6
    for k in range(3):
        move = step * np.eye(3)[k]
        change = (loss(shift + move, bend) - loss(shift - move, bend)) / (2 * step)
        assert on_shift[k] == pytest.approx(change, abs=1e-7)
    for m in (0, 4, 11, 25, len(bend) - 1):
        for k in (0, 1, KNOTS // 2, KNOTS - 2, KNOTS - 1):
            move = np.zeros_like(bend)
            move[m, k] = step
            change = (loss(shift, bend + move) - loss(shift, bend - move)) / (2 * step)
            assert on_bend[m, k] == pytest.approx(change, abs=1e-7)


@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_rows_come_back_from_anywhere(d):
    rows = 4.0 * white(60, d)
    potential = drawn(rows)
    latent = potential.gradient(rows)[0]
    np.testing.assert_allclose(potential.inverse(latent), rows, atol=1e-8)
    alone = np.vstack([potential.inverse(latent[[i]]) for i in range(60)])
    np.testing.assert_allclose(potential.inverse(latent), alone, atol=1e-8)


@pytest.mark.parametrize("d", [1, 2, 4, 11])
def test_the_identity_is_a_potential_and_the_best_one_at_infinity(d):
    rows = white(200, d)
    ridges = Ridges.of(rows)
    same = Potential(ridges, ridges.identity(), np.zeros(d))
    np.testing.assert_allclose(same.gradient(rows)[0], rows, atol=1e-12)
    assert ridges.identity().min() > 0
    found = fit_potential(rows, np.ones(200), 1e9)
    np.testing.assert_allclose(found.gradient(rows)[0], rows, atol=1e-8)


def test_there_is_one_optimum():
    rows = white(300, 2)
    first = fit_potential(rows, np.ones(300), 0.01)
    second = fit_potential(rows, np.ones(300), 0.01, drawn(rows))
    np.testing.assert_allclose(first.gradient(rows)[0], second.gradient(rows)[0], atol=5e-3)


def test_weights_are_counts():
    rows, counts = white(150, 2), np.random.default_rng(3).integers(1, 4, 150)
    weighted = fit_potential(rows, counts.astype(float), 0.1)
    repeated = fit_potential(np.repeat(rows, counts, axis=0), np.ones(counts.sum()), 0.1)
    np.testing.assert_allclose(weighted.gradient(rows)[0], repeated.gradient(rows)[0], atol=1e-4)


def test_directions_do_not_depend_on_the_order_of_columns():
    for d in (2, 3, 4, 6, 12):
        rows = white(100, d)
        order = np.random.default_rng(d).permutation(d)
        first, second = Ridges.of(rows).directions[:, order], Ridges.of(rows[:, order]).directions
        both = []
        for found in (first, second):
            # a direction and its opposite are the same
            sign = np.sign(found[np.arange(len(found)), np.argmax(found != 0, axis=1)])
            both.append({tuple(row) for row in (found * sign[:, None]).round(9).tolist()})
        assert both[0] == both[1]
