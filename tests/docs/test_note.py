"""Formulas of the note for referees (docs/note), each against a way that does not use it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from dfi import losses


def square_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(values) @ vectors.T


@pytest.mark.parametrize("name", ["squared-error", "poisson", "gamma"])
def test_bias_of_two_models_is_newtons_remainder(name):
    """Section 1: what two models lose beyond the truth is a divided difference times two errors."""
    loss = losses.LOSSES[name]
    f, a, b, eta = loss.generator, 1.3, 0.6, 1.9
    y = np.array([0.4, 3.4])  # of mean eta

    def value(p):
        return float(f(np.array([p]))[0])

    def divided(p, q):
        return (value(p) - value(q)) / (p - q)

    third = (divided(a, b) - divided(b, eta)) / (a - eta)
    both = loss.of_two(y, np.full(2, a), np.full(2, b)).mean()
    truth = loss.of_two(y, np.full(2, eta), np.full(2, eta)).mean()
    assert both - truth == pytest.approx(third * (a - eta) * (b - eta))


def test_one_row_moves_latent_and_attributed_scores():
    """Section 3: the terms of the transport, against differences of scores under a moved map."""
    rng = np.random.default_rng(0)
    d = 3
    B = rng.standard_normal((d, d))
    R = B @ B.T + d * np.eye(d)
    R /= np.sqrt(np.outer(np.diag(R), np.diag(R)))
    L, b, Q = square_root(R), rng.standard_normal(d), rng.standard_normal((d, d))
    Q = (Q + Q.T) / 2
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)  # exact for these polynomials
    Z = np.array(list(itertools.product(nodes, repeat=d)))
    mass = np.prod(list(itertools.product(weights, repeat=d)), axis=1)
    X, mass = Z @ L, mass / mass.sum()

    def regression(points):
        return points @ b + 0.5 * np.einsum("ij,jk,ik->i", points, Q, points)

    def scores(moved):
        rows = np.linalg.solve(moved, X.T).T
        found = []
        for j in range(d):
            line = moved[:, j]
            mean = regression(X - np.outer(rows[:, j], line)) + 0.5 * line @ Q @ line
            found.append(mass @ (regression(X) - mean) ** 2)
        return np.array(found)

    x = L @ rng.standard_normal(d)
    square = np.diag(x**2)
    moves = np.outer(x, x) - 0.5 * (square @ R + R @ square)
    values, vectors = np.linalg.eigh(L)
    D = vectors @ (vectors.T @ moves @ vectors / (values[:, None] + values)) @ vectors.T
    A = np.linalg.solve(L, D) + 0.5 * np.linalg.solve(L, np.diag(x**2 - 1) @ L)

    def attributed(step):
        return (L + step * D) ** 2 @ scores(L @ (np.eye(d) + step * A))

    c, M = L @ b, L @ Q @ L
    latent = np.zeros(d)
    for j in range(d):
        others = Z.copy()
        others[:, j] = 0
        tilt = c[j] + others @ M[j]
        for k in set(range(d)) - {j}:
            latent[j] += 2 * A[k, j] * (mass @ (tilt * (c[k] + others @ M[k])))
    step = 1e-4
    up, down = (scores(L @ (np.eye(d) + sign * step * A)) for sign in (1, -1))
    np.testing.assert_allclose((up - down) / (2 * step), latent, atol=1e-6)
    whole = L**2 @ latent + 2 * (L * D) @ scores(L)
    np.testing.assert_allclose(
        (attributed(step) - attributed(-step)) / (2 * step), whole, atol=1e-6
    )


def test_a_step_leaks_into_a_noise_column_in_proportion_to_the_tilt():
    """Section 4: height squared, density, tilt over the root of pi."""
    tilt, at = 0.02, 0.5
    grid = np.linspace(at - 1, at + 1, 20_001)
    above = stats.norm.cdf((np.sqrt(1 - tilt**2) * grid - at) / tilt)
    found = np.trapezoid(above * (1 - above) * stats.norm.pdf(grid), grid)
    assert found == pytest.approx(stats.norm.pdf(at) * tilt / np.sqrt(np.pi), rel=0.01)


def test_bias_of_augmented_outcomes_is_a_product():
    """Section 8: exponential times and censoring, both working models wrong."""
    rng = np.random.default_rng(3)
    event, censoring, assumed, wrong, horizon, n = 0.5, 0.4, 0.2, 0.8, 2.0, 400_000
    V = np.minimum(rng.exponential(1 / event, n), horizon)
    C = rng.exponential(1 / censoring, n)
    U = np.minimum(V, C)
    grid = np.linspace(0, horizon, 2001)

    def remaining(s, rate):
        return s + (1 - np.exp(-rate * (horizon - s))) / rate

    def area(values):
        return np.concatenate([[0], np.cumsum((values[1:] + values[:-1]) / 2 * np.diff(grid))])

    past = area(remaining(grid, wrong) * assumed * np.exp(assumed * grid))
    seen = np.where(C >= V, V, remaining(U, wrong)) * np.exp(assumed * U)
    difference = seen - np.interp(U, grid, past) - V
    ratio = (assumed - censoring) * np.exp((assumed - censoring) * grid)  # d(G / assumed G)
    gap = remaining(grid, wrong) - remaining(grid, event)
    formula = -area(np.exp(-event * grid) * gap * ratio)[-1]
    error = difference.std() / np.sqrt(n)
    assert abs(formula) > 40 * error
    assert abs(difference.mean() - formula) < 4 * error
