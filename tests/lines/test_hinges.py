"""Networks of bent hinges in closed form, against sums over the atoms and fine quadrature."""

from __future__ import annotations

import numpy as np
import pytest

import dfi
from dfi._data.table import read_table
from dfi._lines.base import LineModel, Lines, Reference
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.closed_form import HingeLines, hinge_lines
from dfi._lines.quadrature import QuadratureLines
from dfi._models.network import BentHingeNetwork, bent_hinge
from dfi._models.predictor import predictor_for
from dfi._models.stack import SuperLearner

GENERATOR = np.random.default_rng(0)
DIRECTIONS = GENERATOR.standard_normal((3, 8))
DIRECTIONS[:, 0] = [0.0, 1.0, 1.0]
LINES = GENERATOR.standard_normal((3, 3))
LINES[:, 0] = [1.0, 0.0, 0.0]  # along it the first unit stands still
MODEL = HingeLines(
    DIRECTIONS, GENERATOR.standard_normal(8), GENERATOR.standard_normal(8), intercept=0.7
)
OFFSETS = np.array([[0.5, 0.0, 0.0], [-1.0, 0.0, 0.3]])


def lines_of(reference):
    points, latent = GENERATOR.standard_normal((2, 9, 3))
    return Lines(3 * points, latent, LINES, reference, OFFSETS)


def test_hinge_is_flat_then_curved_then_straight():
    assert bent_hinge(np.array([-3.0, 0.0, 1.0, 2.0, 3.0, 10.0])) == pytest.approx(
        [0, 0, 1, 4, 8, 36]
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_empirical_law_equals_the_sum_over_its_atoms(weighted):
    values = np.round(GENERATOR.exponential(size=(40, 3)), 1)
    mass = GENERATOR.integers(0, 4, 40) if weighted else np.ones(40)
    lines = lines_of(Reference.empirical(values, mass))
    found = MODEL.moments(lines)
    assert isinstance(MODEL, LineModel)
    for q, i, j in np.ndindex(2, 9, 3):
        shift = values[:, j] - lines.latent[i, j] - OFFSETS[q, j]
        along = MODEL.predict(lines.points[i] + shift[:, None] * LINES[:, j])
        assert found.mean[q, i, j] == pytest.approx(np.average(along, weights=mass))
        tilted = np.average(values[:, j] * along, weights=mass)
        assert found.hermite[q, i, j] == pytest.approx(tilted)


def test_normal_law_equals_fine_quadrature():
    lines = lines_of(Reference.gaussian())
    found = MODEL.moments(lines)
    t = np.linspace(-9, 9, 20_001)
    density = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi) * (t[1] - t[0])
    for q, i, j in np.ndindex(2, 9, 3):
        shift = t - lines.latent[i, j] - OFFSETS[q, j]
        along = MODEL.predict(lines.points[i] + shift[:, None] * LINES[:, j])
        assert found.mean[q, i, j] == pytest.approx(density @ along, rel=1e-6)
        assert found.hermite[q, i, j] == pytest.approx((t * density) @ along, rel=1e-6, abs=1e-6)


def test_many_rows_are_taken_in_parts(monkeypatch):
    lines = lines_of(Reference.gaussian())
    whole = MODEL.moments(lines)
    monkeypatch.setattr("dfi._lines.closed_form.ROWS_AT_ONCE", 4)
    assert np.allclose(MODEL.moments(lines).mean, whole.mean, rtol=1e-12)


def test_network_is_read_and_its_second_moment_left_to_quadrature():
    sample = dfi.datasets.m2(100, d=3)
    model = BentHingeNetwork(n_units=6, random_state=0).fit(sample.X, sample.y)
    predictor = predictor_for(model, read_table(sample.X), prefit=False)
    read = line_model(predictor, sample.X, Quadrature())
    assert isinstance(read, HingeLines)
    assert read.rule == "closed form (6 hinges)"
    squared = line_model(predictor, sample.X, Quadrature(), square=True)
    assert isinstance(squared, QuadratureLines)
    with pytest.raises(TypeError, match="second moment"):
        read.moments(lines_of(Reference.gaussian()), square=True)
    assert hinge_lines(sample) is None


def test_default_stack_is_averaged_without_quadrature():
    sample = dfi.datasets.m3(300, rho=0.2)
    model = SuperLearner(random_state=0).fit(sample.X, sample.y)
    predictor = predictor_for(model, read_table(sample.X), prefit=False)
    read = line_model(predictor, sample.X, Quadrature())
    assert "hinges" in read.rule
    assert "quadrature" not in read.rule
