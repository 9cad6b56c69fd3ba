"""Quadrature along lines: its nodes, its moments against loops, its memory bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dfi._lines.base import Lines, Reference
from dfi._lines.quadrature import QuadratureLines, equal_nodes, gauss_nodes


def skewed_reference(weighted=True):
    generator = np.random.default_rng(0)
    values = generator.exponential(size=(60, 2)) - 1
    return values, generator.uniform(0.1, 2.0, 60) if weighted else None


@pytest.mark.parametrize("m", [1, 2, 8, 32])
def test_equal_nodes_have_the_mean_and_variance_of_the_law(m):
    nodes, weights = equal_nodes(Reference.gaussian(), 0, m)
    assert weights.sum() == pytest.approx(1)
    assert weights @ nodes == pytest.approx(0, abs=1e-12)
    assert np.allclose(nodes, -nodes[::-1])
    if m > 1:
        assert weights @ nodes**2 == pytest.approx(1)
    values, mass = skewed_reference()
    nodes, weights = equal_nodes(Reference.empirical(values, mass), 1, m)
    mean = np.average(values[:, 1], weights=mass)
    assert weights @ nodes == pytest.approx(mean)
    if m > 1:
        variance = np.average((values[:, 1] - mean) ** 2, weights=mass)
        assert weights @ (nodes - mean) ** 2 == pytest.approx(variance)


@pytest.mark.parametrize("m", [1, 3, 8])
def test_gauss_nodes_integrate_polynomials_of_degree_2m_minus_1(m):
    values, mass = skewed_reference()
    for reference, moments in (
        (Reference.gaussian(), [stats.norm.moment(p) for p in range(2 * m)]),
        (
            Reference.empirical(values, mass),
            [np.average(values[:, 0] ** p, weights=mass) for p in range(2 * m)],
        ),
    ):
        nodes, weights = gauss_nodes(reference, 0, m)
        found = [weights @ nodes**p for p in range(2 * m)]
        assert np.allclose(found, moments, rtol=1e-8, atol=1e-9)


def test_gauss_nodes_of_few_atoms_are_the_atoms():
    reference = Reference.empirical(np.array([[0.0], [1.0], [1.0], [0.0], [0.0]]))
    nodes, weights = gauss_nodes(reference, 0, 16)
    assert np.array_equal(nodes, [0, 1])
    assert np.allclose(weights, [0.6, 0.4])


def test_rows_without_weight_are_no_atoms():
    reference = Reference.empirical(np.array([[5.0], [0.0], [1.0]]), np.array([0.0, 1.0, 1.0]))
    nodes, _ = gauss_nodes(reference, 0, 16)
    assert np.array_equal(nodes, [0, 1])
    first, second = reference.moments(1)
    assert (first[0], second[0]) == pytest.approx((0.5, 0.5))


def lines_and_function(offsets):
    generator = np.random.default_rng(1)
    lines = Lines(
        points=generator.standard_normal((7, 3)),
        latent=generator.standard_normal((7, 2)),
        directions=generator.standard_normal((3, 2)),
        reference=Reference.empirical(generator.standard_normal((20, 2))),
        offsets=np.asarray(offsets, dtype=float),
    )
    return lines, lambda rows: rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2])


@pytest.mark.parametrize("offsets", [[[0, 0]], [[-1, 0], [0, 0], [1, 0]]])
@pytest.mark.parametrize("quadrature", ["equal", "gauss"])
@pytest.mark.parametrize("memory", [1, 2000, 2**28])
def test_moments_equal_loops(quadrature, memory, offsets):
    """One row, one direction, one node at a time; a coordinate without offsets included."""
    lines, function = lines_and_function(offsets)
    model = QuadratureLines(function, quadrature, 6, memory)
    found = model.moments(lines)
    rule = gauss_nodes if quadrature == "gauss" else equal_nodes
    for k, i, j in np.ndindex(len(lines.offsets), 7, 2):
        nodes, weights = rule(lines.reference, j, 6)
        mean = hermite = 0.0
        for t, weight in zip(nodes, weights, strict=True):
            shift = t - lines.latent[i, j] - lines.offsets[k, j]
            value = function((lines.points[i] + shift * lines.directions[:, j])[None])[0]
            mean += weight * value
            hermite += weight * t * value
        assert found.mean[k, i, j] == pytest.approx(mean)
        assert found.hermite[k, i, j] == pytest.approx(hermite)


def test_few_rows_share_a_call_and_equal_lines_are_asked_once():
    lines, function = lines_and_function([[-1, 0], [0, 0], [1, 0]])
    calls = []

    def counted(rows):
        calls.append(len(rows))
        return function(rows)

    QuadratureLines(counted, "equal", 8).moments(lines)
    # three offsets for the first coordinate, one for the second
    assert calls[:1] == [7 * 8 * 4]
    # and some of them once more, alone
    assert calls[1:] == [32]


def test_draws_follow_the_law_and_the_seed():
    generator = np.random.default_rng(2)
    values = generator.exponential(size=(500, 1))
    weights = np.where(values[:, 0] > 1, 3.0, 1.0)
    lines = Lines(
        np.zeros((2000, 1)), np.zeros((2000, 1)), np.ones((1, 1)),
        Reference.empirical(values, weights), np.zeros((1, 1)),
    )  # fmt: skip

    def run(seed):
        model = QuadratureLines(
            lambda rows: rows[:, 0], "draws", 50, seed=np.random.SeedSequence(seed)
        )
        return model.moments(lines).mean

    assert np.array_equal(run(0), run(0))
    assert not np.array_equal(run(0), run(1))
    assert run(0).mean() == pytest.approx(np.average(values[:, 0], weights=weights), rel=0.02)
    assert run(0).std() > 0.05


def test_predict_is_batched_to_the_memory_bound():
    sizes = []

    def function(rows):
        sizes.append(len(rows))
        return rows[:, 0]

    points = np.arange(30.0).reshape(10, 3)
    model = QuadratureLines(function, memory=3 * 8 * 3 * 4)
    assert np.array_equal(model.predict(points), points[:, 0])
    assert sizes == [4, 4, 2]


def test_every_coordinate_has_draws_of_its_own():
    latent = np.zeros((6, 2))
    lines = Lines(latent, latent, np.eye(2), Reference.gaussian(), np.zeros((1, 2)))
    model = QuadratureLines(
        lambda rows: rows.sum(axis=1), "draws", 20, seed=np.random.SeedSequence(0)
    )
    drawn = model.moments(lines).mean[0]
    assert len(np.unique(drawn)) == 12
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.99


@pytest.mark.parametrize("rule", ["gauss", "equal"])
def test_nodes_of_a_law_are_found_once_for_all_blocks_of_rows(rule, monkeypatch):
    generator = np.random.default_rng(0)
    latent = generator.standard_normal((60, 2))
    lines = Lines(latent, latent, np.eye(2), Reference.empirical(latent), np.zeros((1, 2)))
    model = QuadratureLines(lambda rows: np.sin(rows).sum(axis=1), rule)
    whole = model.moments(lines).mean
    monkeypatch.setattr(Reference, "atoms", None)
    np.testing.assert_array_equal(model.moments(lines.take(slice(0, 9))).mean, whole[:, :9])


@pytest.mark.parametrize("m", [255, 257, 509])
def test_gauss_rules_of_many_nodes_integrate_moments(m):
    """numpy's own weights overflow from about 370 nodes on; checks of a rule double its nodes."""
    nodes, weights = gauss_nodes(Reference.gaussian(), 0, m)
    moments = [weights @ nodes**power for power in (0, 1, 2, 4, 6)]
    np.testing.assert_allclose(moments, [1.0, 0.0, 1.0, 3.0, 15.0], rtol=1e-10, atol=1e-12)
