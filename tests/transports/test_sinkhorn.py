"""The solver against POT, against the exact Gaussian solution, and on awkward rows."""

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfi.transports.entropic import exponents, gaussian_coupling, normal_points, solve


def coupling(rows, targets, epsilon, solution, mass=None):
    mass = np.full(len(rows), 1 / len(rows)) if mass is None else mass
    plan = np.exp(exponents(rows, targets, solution.rows, solution.targets, epsilon))
    return mass[:, None] * plan / len(targets)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("d", [1, 3])
def test_plan_is_that_of_pot(epsilon, d):
    generator = np.random.default_rng(d)
    rows = generator.standard_normal((60, d)) * 1.3 + 0.2
    mass = generator.random(60) + 0.1
    mass /= mass.sum()
    targets = normal_points(128, d, np.random.SeedSequence(0))
    solution = solve(rows, targets, epsilon, mass=mass, tol=1e-11)
    plan = coupling(rows, targets, epsilon, solution, mass)
    reference = ot.sinkhorn(
        mass, np.full(128, 1 / 128), ot.dist(rows, targets), epsilon,
        method="sinkhorn_log", stopThr=1e-13, numItermax=20_000,
    )  # fmt: skip
    # entries are of the size 1/(60 * 128) = 1.3e-4
    assert np.abs(plan - reference).max() < 1e-6 / (60 * 128)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.3, 2.0]), st.integers(1, 4))
def test_margins_are_met_on_skewed_and_tied_rows(seed, epsilon, d):
    generator = np.random.default_rng(seed)
    rows = np.exp(1.2 * generator.standard_normal((80, d)))
    rows[:10] = rows[0]
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    targets = normal_points(256, d, np.random.SeedSequence(seed))
    plan = coupling(rows, targets, epsilon, solve(rows, targets, epsilon))
    assert np.abs(plan.sum(axis=1) - 1 / 80).sum() <= 1e-6
    assert np.abs(plan.sum(axis=0) - 1 / 256).sum() <= 1e-6
    # equal rows have equal couplings
    np.testing.assert_allclose(plan[:10], np.repeat(plan[:1], 10, axis=0), rtol=1e-9)


@pytest.mark.parametrize("tol", [1e-6, 1e-8])
@pytest.mark.parametrize("offset", [-1e4, -60.0, -40.0, 40.0, 1e4])
@pytest.mark.parametrize("spread", [0.0, 10.0, 1e3])
def test_far_off_start_is_mended_in_the_log_domain(spread, offset, tol):
    """A kernel whose entries are all cut off has a solution too, and it is not the one wanted."""
    generator = np.random.default_rng(0)
    rows, targets = generator.standard_normal((50, 2)), generator.standard_normal((70, 2))
    start = (
        offset + spread * generator.standard_normal(50),
        spread * generator.standard_normal(70),
    )
    given = [part.copy() for part in start]
    plan = coupling(rows, targets, 0.5, solve(rows, targets, 0.5, start=start, tol=tol))
    expected = coupling(rows, targets, 0.5, solve(rows, targets, 0.5, tol=1e-10))
    # a summed margin error of 1e-6 bounds entries of the size 1/(50 * 70)
    np.testing.assert_allclose(plan, expected, rtol=0, atol=tol)
    for part, as_given in zip(start, given, strict=True):
        np.testing.assert_array_equal(part, as_given)


def test_gaussian_rows_give_the_gaussian_coupling():
    """Unwhitened X ~ N(0, S): Cov(X, Z) = (S + eps^2/16)^(1/2) - eps/4."""
    covariance = np.array([[1.5, 0.6], [0.6, 0.7]])
    epsilon = 0.8
    rows = normal_points(2048, 2, np.random.SeedSequence(5)) @ np.linalg.cholesky(covariance).T
    targets = normal_points(2048, 2, np.random.SeedSequence(6))
    plan = coupling(rows, targets, epsilon, solve(rows, targets, epsilon))
    np.testing.assert_allclose(
        rows.T @ plan @ targets, gaussian_coupling(covariance, epsilon), atol=5e-3
    )
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values + epsilon**2 / 16)) @ vectors.T
    np.testing.assert_allclose(
        gaussian_coupling(covariance, epsilon), root - epsilon / 4 * np.eye(2), atol=1e-12
    )


def test_acceleration_and_warm_start_save_iterations():
    """Plain Sinkhorn from zero needs hundreds of iterations here."""
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((300, 2))
    targets = normal_points(512, 2, np.random.SeedSequence(0))
    assert solve(rows, targets, 0.1).iterations < 60


def test_iterations_end_with_a_remedy():
    generator = np.random.default_rng(1)
    rows, targets = generator.standard_normal((50, 2)), generator.standard_normal((70, 2))
    with pytest.raises(RuntimeError, match=r"did not reach the tolerance.*raise epsilon"):
        solve(rows, targets, 0.1, max_iterations=2)


def test_normal_points_are_normal_and_seeded():
    points = normal_points(4096, 3, np.random.SeedSequence(1))
    np.testing.assert_allclose(points.T @ points / 4096, np.eye(3), atol=0.01)
    np.testing.assert_array_equal(points, normal_points(4096, 3, np.random.SeedSequence(1)))
    assert not np.array_equal(points, normal_points(4096, 3, np.random.SeedSequence(2)))
