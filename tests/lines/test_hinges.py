"""Networks of bent hinges in closed form, against sums over the atoms and fine quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dfi
from dfi._data.table import read_table
from dfi._learners.network import BEND, BentHingeNetwork, bent_hinge
from dfi._learners.stack import SuperLearner
from dfi._lines import kernels_hinges
from dfi._lines.base import LineModel, Lines, Reference
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.closed_form import HingeLines, hinge_lines
from dfi._models.predictor import predictor_for

GENERATOR = np.random.default_rng(0)
DIRECTIONS = GENERATOR.standard_normal((3, 8))
DIRECTIONS[:, 0] = [0.0, 1.0, 1.0]
LINES = GENERATOR.standard_normal((3, 3))
LINES[:, 0] = [1.0, 0.0, 0.0]  # along it the first unit stands still
# ends that are not reached, on the parabola, on the straight line, where all is flat
REACH = (
    np.array([-1e3, -1e3, -0.5, 0.3, 2.5, -2.0, 0.5, -1.0]),
    np.array([1e3, 1.5, 3.0, 1.0, 4.0, -1.0, 5.0, 0.8]),
)
MODEL = HingeLines(
    DIRECTIONS, GENERATOR.standard_normal(8), REACH, GENERATOR.standard_normal(8), intercept=0.7
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
        assert found.mean[q, i, j] == pytest.approx(density @ along, rel=1e-6, abs=1e-6)
        assert found.hermite[q, i, j] == pytest.approx((t * density) @ along, rel=1e-6, abs=1e-6)


def slow_twin(model, lines):
    """The closed form by numpy, all moments of a law at every place by one search."""
    reference, change = lines.reference, model.directions.T @ lines.directions
    shape = (len(lines.offsets), *lines.latent.shape)
    mean, hermite = np.empty(shape), np.empty(shape)
    for q, i, j in np.ndindex(shape):
        law = slow_law(reference, j)
        beta = change[:, j]
        alpha = lines.points[i] @ model.directions + model.offsets
        alpha = alpha - (lines.latent[i, j] + lines.offsets[q, j]) * beta
        slope = np.where(beta == 0, 1.0, beta)
        low = np.maximum(model.reach[0], 0.0)
        high = np.maximum(model.reach[1], low)
        bend = np.clip(2.0, low, high)
        whole = law(np.inf)
        to_curve, to_straight, to_end = (law((s - alpha) / slope) for s in (low, bend, high))
        rising, still = (slope > 0)[:, None], (beta == 0)[:, None]
        curved = np.where(rising, to_straight - to_curve, to_curve - to_straight)
        straight = np.where(rising, to_end - to_straight, to_straight - to_end)
        below = np.where(rising, to_curve, whole - to_curve)
        above = np.where(rising, whole - to_end, to_end)
        curved = np.where(still, ((alpha > low) & (alpha < bend))[:, None] * whole, curved)
        straight = np.where(still, ((alpha >= bend) & (alpha < high))[:, None] * whole, straight)
        below = np.where(still, (alpha <= low)[:, None] * whole, below)
        above = np.where(still, ((alpha >= high) & (alpha > low))[:, None] * whole, above)
        first, second = (
            bent_hinge(low) * below[:, p]
            + bent_hinge(high) * above[:, p]
            + alpha**2 * curved[:, p]
            + 2 * alpha * beta * curved[:, p + 1]
            + beta**2 * curved[:, p + 2]
            + 4 * (alpha - 1) * straight[:, p]
            + 4 * beta * straight[:, p + 1]
            for p in (0, 1)
        )
        mean[q, i, j] = first @ model.slopes + model.intercept
        hermite[q, i, j] = second @ model.slopes + model.intercept * whole[1]
    return mean, hermite


def slow_law(reference, j):
    if reference.values is None:

        def normal(s):
            s = np.clip(s, -40, 40)
            density, below = stats.norm.pdf(s), stats.norm.cdf(s)
            parts = [below, -density, below - s * density, -(s**2 + 2) * density]
            return np.stack(parts, axis=-1)

        return normal
    values = reference.values[:, j]
    mass = np.diff(reference.cumulative[:, j], prepend=0.0)
    sums = np.zeros((len(values) + 1, 4))
    np.cumsum(mass[:, None] * values[:, None] ** np.arange(4), axis=0, out=sums[1:])
    return lambda s: sums[np.searchsorted(values, s)]


def laws(generator):
    plain = generator.standard_normal((500, 3))
    far = plain.copy()
    far[7] = 1e6
    mixed = plain.copy()
    mixed[:, 1] = generator.integers(0, 2, 500)
    mixed[:, 2] = 0.25
    return {
        "normal": Reference.gaussian(),
        "plain": Reference.empirical(plain),
        "weighted": Reference.empirical(plain, generator.integers(0, 4, 500)),
        "ties": Reference.empirical(np.round(plain, 1), generator.random(500)),
        "a far value": Reference.empirical(far),
        "binary and constant": Reference.empirical(mixed),
        "one value": Reference.empirical(plain[:1]),
    }


@pytest.mark.parametrize("name", list(laws(np.random.default_rng(0))))
def test_compiled_means_are_those_of_the_slow_twin(name):
    generator = np.random.default_rng(3)
    reference = laws(generator)[name]
    points, latent = generator.standard_normal((2, 20, 3))
    directions = generator.standard_normal((3, 12))
    directions[:, :4] = [[0, 0, 1e-17, 0], [1, -1, 1, 1], [0, 2, 0, 1e-200]]
    reach = -3.0 * generator.random(12) + 1.0, 4.0 * generator.random(12) + 1.0
    model = HingeLines(directions, generator.standard_normal(12), reach, generator.random(12), 0.4)
    lines = Lines(3 * points, latent, np.eye(3), reference, np.vstack([np.zeros(3), OFFSETS]))
    assert np.count_nonzero(model.directions.T @ lines.directions == 0) > 2
    found = model.moments(lines)
    mean, hermite = slow_twin(model, lines)
    scale = 1.0 if reference.values is None else 1.0 + np.abs(reference.values).max() ** 3
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_allclose(found.hermite, hermite, rtol=1e-12, atol=1e-12 * scale)


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=60), st.integers(-5, 5))
def test_atoms_below_a_number_are_counted_as_a_search_of_all_counts_them(whole, power):
    values = np.sort(np.array(whole) * 10.0**power)
    law = kernels_hinges.tabulated_atoms(values, np.full(len(values), 1 / len(values)))
    atoms = np.unique(values)
    near = [np.nextafter(atoms, -np.inf), atoms, np.nextafter(atoms, np.inf)]
    at = np.concatenate([*near, [-np.inf, np.inf, np.nan, 0.0]])
    places = np.empty(len(at), np.uint32)
    kernels_hinges.find_places(law, at, places)
    known = ~np.isnan(at)
    np.testing.assert_array_equal(places[known], np.searchsorted(atoms, at[known]))
    assert places.max() <= len(atoms)


def test_tabulated_normal_moments_are_good_to_rounding():
    law = kernels_hinges.bends_of(Reference.gaussian(), 1)[0]
    at = np.concatenate([np.linspace(-12, 12, 4001), [-1e300, 1e300]])
    found = np.array([kernels_hinges.moments_below(law, np.uint32(0), t) for t in at])
    np.testing.assert_allclose(found, slow_law(Reference.gaussian(), 0)(at), rtol=0, atol=2e-15)


def test_the_body_of_the_kernel_runs_outside_numba(monkeypatch):
    for reference in (Reference.gaussian(), Reference.empirical(np.arange(12.0).reshape(4, 3))):
        lines = lines_of(reference)
        native = MODEL.moments(lines)
        with monkeypatch.context() as patch:
            used = kernels_hinges.hinge_moments
            patch.setattr(used, "dispatcher", used.function)
            bare = MODEL.moments(lines)
        np.testing.assert_allclose(bare.mean, native.mean, rtol=1e-13)
        np.testing.assert_allclose(bare.hermite, native.hermite, rtol=1e-12, atol=1e-12)


def test_kernel_bends_where_the_network_does():
    assert kernels_hinges.BEND == BEND


def test_tables_are_made_once_a_law(monkeypatch):
    lines = lines_of(Reference.empirical(GENERATOR.standard_normal((30, 3))))
    whole = MODEL.moments(lines)
    monkeypatch.setattr(kernels_hinges, "tabulated_atoms", None)
    again = MODEL.moments(lines.take(slice(0, 4)))
    np.testing.assert_allclose(again.mean, whole.mean[:, :4], rtol=1e-12)


def test_threads_give_the_same_bits(monkeypatch):
    lines = lines_of(Reference.empirical(GENERATOR.standard_normal((30, 3))))
    alone = MODEL.moments(lines)
    monkeypatch.setattr("dfi._compiled.WORTH_THREADS", 0)
    monkeypatch.setattr("dfi._compiled.allowed_threads", lambda: 3)
    together = MODEL.moments(lines)
    np.testing.assert_array_equal(together.mean, alone.mean)
    np.testing.assert_array_equal(together.hermite, alone.hermite)


def test_many_rows_are_taken_in_parts(monkeypatch):
    lines = lines_of(Reference.gaussian())
    whole = MODEL.moments(lines)
    monkeypatch.setattr("dfi._lines.closed_form.ARGUMENTS_AT_ONCE", 32)
    assert np.allclose(MODEL.moments(lines).mean, whole.mean, rtol=1e-12)


def test_network_is_read():
    sample = dfi.datasets.m2(100, d=3)
    model = BentHingeNetwork(n_units=6, random_state=0).fit(sample.X, sample.y)
    predictor = predictor_for(model, read_table(sample.X), prefit=False)
    read = line_model(predictor, sample.X, Quadrature())
    assert isinstance(read, HingeLines)
    assert read.rule == "closed form (6 hinges)"
    assert hinge_lines(sample) is None


def test_default_stack_is_averaged_without_quadrature():
    sample = dfi.datasets.m3(300, rho=0.2)
    model = SuperLearner(random_state=0).fit(sample.X, sample.y)
    predictor = predictor_for(model, read_table(sample.X), prefit=False)
    read = line_model(predictor, sample.X, Quadrature())
    assert "hinges" in read.rule
    assert "quadrature" not in read.rule
    # The sum itself is not compared when it is read, only its members are.
    fresh = dfi.datasets.m3(50, rho=0.2, random_state=1).X
    np.testing.assert_allclose(read.predict(fresh), model.predict(fresh), rtol=1e-8)
