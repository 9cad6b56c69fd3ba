"""Sensitivities by differences: against derivatives taken one coordinate at a time."""

from __future__ import annotations

import numpy as np
import pytest

import dfi
from dfi._data import source
from dfi._data.weights import Weights
from dfi._lines.base import Lines
from dfi._lines.quadrature import QuadratureLines
from dfi._scoring.lines import latent_scores, row_sample
from dfi._scoring.sensitivity import N_GROUPS, STEP, checked_rows, differenced_sensitivity

GENERATOR = np.random.default_rng(0)
ROOT = np.array([[1.0, 0.5, 0.2], [0.0, 0.8, 0.3], [0.0, 0.0, 0.9]])
X = GENERATOR.standard_normal((200, 3)) @ ROOT
MASS = GENERATOR.uniform(0.5, 2.0, 200)


def fitted(matrix, mass, **options):
    design = dfi.transports.Gaussian(reference="gaussian", components=None, **options)
    return design.fit_matrix(
        matrix, Weights(mass, "sampling"), np.zeros(matrix.shape[1], dtype=bool)
    )


def first(rows):
    return rows[:, 0] * rows[:, 1] * rows[:, 2] + rows[:, 0]


def second(rows):
    return rows[:, 0] * rows[:, 1] ** 2 + 0.5 * rows[:, 2]


def quadratic(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2] ** 2 - rows[:, 0]


MODELS = [QuadratureLines(function, "gauss", 8) for function in (first, second)]


def one_coordinate_at_a_time(models, transport, matrix, mass):
    """Return E[h_j d m_j / d z_k], h of one model and m of the other, by steps of 1e-4."""
    d = transport.n_latent
    latent = transport.encode(matrix)

    def moments(model, shift):
        points = matrix + shift @ transport.geometry.directions.T
        lines = Lines(
            points,
            latent + shift,
            transport.geometry.directions,
            transport.reference,
            np.zeros((1, d)),
        )
        return model.moments(lines)

    share = mass / mass.sum()
    found = np.zeros((d, d))
    for k in range(d):
        step = np.zeros(d)
        step[k] = 1e-4
        for one, other in ((models[0], models[-1]), (models[-1], models[0])):
            h = moments(one, 0.0 * step).hermite[0]
            slope = (moments(other, step).mean[0] - moments(other, -step).mean[0]) / 2e-4
            found[k] += 0.5 * share @ (h * slope)
    np.fill_diagonal(found, 0.0)
    return found


def differences(models, transport, matrix, mass):
    scores = latent_scores(models, matrix, matrix[:, 0], mass, transport.geometry, form="loco")
    return differenced_sensitivity(models, scores.regressions, matrix, mass, transport.geometry)


def test_differences_are_the_derivative_within_their_noise():
    generator = np.random.default_rng(1)
    X, MASS = generator.standard_normal((8000, 3)) @ ROOT, generator.uniform(0.5, 2.0, 8000)
    transport = fitted(X, MASS)
    found = differences(MODELS, transport, X, MASS)
    curved, linear = found.groups()
    groups = curved + linear
    expected = one_coordinate_at_a_time(MODELS, transport, X, MASS)
    error = groups.std(axis=0, ddof=1) / np.sqrt(N_GROUPS)
    off = ~np.eye(3, dtype=bool)
    assert found.rows == 8000
    assert np.all(error < 0.1 * np.abs(expected).max())
    assert found.enough
    assert np.all(np.abs(groups.mean(axis=0) - expected)[off] < 4 * error[off])
    assert np.all(groups.mean(axis=0)[~off] == 0)


def test_quadratic_regressions_have_no_curved_part():
    """There h is linear, and the short cut leaves nothing out."""
    transport = fitted(X, np.ones(200))
    model = [QuadratureLines(quadratic, "gauss", 8)]
    # the linear part is a regression on the sample: exact where latent rows are exactly white
    curved, linear = differences(model, transport, X, np.ones(200)).groups()
    assert np.abs(curved).max() < 1e-9 * np.abs(linear).max()


def test_collinear_columns():
    """The directions do not span all coordinates: a column is regressed on those it can have."""
    rows = np.random.default_rng(2).standard_normal((4000, 2)) @ ROOT[:2, :2]
    matrix, mass = np.column_stack([rows, 2.0 * rows[:, 0] + 1.0]), np.ones(4000)
    transport = fitted(matrix, mass)
    assert transport.rank == 2

    def regression(rows):
        return rows[:, 0] * rows[:, 1] + rows[:, 2]

    model = [QuadratureLines(regression, "gauss", 8)]
    curved, linear = differences(model, transport, matrix, mass).groups()
    scores = latent_scores(model, matrix, rows[:, 0], mass, transport.geometry, form="loco")
    groups = curved + linear
    error = groups.std(axis=0, ddof=1) / np.sqrt(N_GROUPS)
    off = ~np.eye(3, dtype=bool)
    # a quadratic: the short cut is right up to the noise of its own moments
    scale = np.abs(scores.sensitivity[off]).max()
    gap = np.abs(groups.mean(axis=0) - scores.sensitivity)[off]
    assert np.all(gap < 4 * error[off] + 0.05 * scale)


def test_number_of_differenced_rows():
    assert [checked_rows(n, 3) for n in (50, 300, 1000, 5000)] == [50, 128, 250, 384]
    assert [checked_rows(500, d) for d in (10, 23, 48, 200)] == [128, 184, 384, 128]
    assert 0 < STEP < 1


@pytest.mark.parametrize("large", [20_000, 10])
def test_sample_does_not_depend_on_order_units_or_repetition(large, monkeypatch):
    monkeypatch.setattr(source, "LARGE_ROWS", large)
    generator = np.random.default_rng(1)
    rows, mass = generator.standard_normal((90, 4)), generator.integers(0, 3, 90).astype(float)
    plain = row_sample(rows, mass, 30)
    assert len(plain.rows) == 30
    assert np.all(mass[plain.rows] > 0)
    order, columns = generator.permutation(90), generator.permutation(4)
    moved = row_sample(-rows[order][:, columns], mass[order], 30)
    assert np.array_equal(order[moved.rows], plain.rows)
    copies = np.repeat(np.arange(90), mass.astype(int))
    repeated = row_sample(rows[copies], np.ones(len(copies)), 30)
    assert np.array_equal(copies[repeated.rows], plain.rows)
    assert np.array_equal(repeated.mass, plain.mass)


@pytest.mark.parametrize("large", [20_000, 10])
def test_all_distinct_rows_where_there_are_no_more(large, monkeypatch):
    monkeypatch.setattr(source, "LARGE_ROWS", large)
    rows = np.repeat(np.arange(5.0)[:, None], 3, axis=0)
    sample = row_sample(rows, np.ones(15), 10)
    assert sorted(rows[sample.rows, 0]) == [0, 1, 2, 3, 4]
    assert np.all(sample.mass == 3)


@pytest.mark.parametrize("count", [1, 7])
def test_sample_of_a_few_rows(count):
    assert len(row_sample(X, MASS, count).rows) == count
