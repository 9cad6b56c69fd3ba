"""Moments of rows in blocks against numpy, for any partition of the rows."""

import pickle
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfi._data.levels import constant_columns
from dfi._data.moments import (
    GroupedMomentsOf,
    MomentsOf,
    TicketGroups,
)
from dfi._data.source import MatrixSource, RowBlock
from dfi._data.weights import Weights


@dataclass(frozen=True, eq=False)
class KnownGroups:
    """Groups that are given for every place."""

    groups: object

    @property
    def count(self):
        return int(self.groups.max()) + 1

    def __call__(self, places):
        return self.groups[places]


def blocks_of(matrix, mass, cuts):
    edges = [0, *sorted(cuts), len(matrix)]
    return [RowBlock(matrix[a:b], mass[a:b], a) for a, b in pairwise(edges)]


def merged(partial, blocks):
    found, *rest = map(partial, blocks)
    for other in rest:
        found = found.merge(other)
    return found


def shipped(partial):
    return pickle.loads(pickle.dumps(partial))  # noqa: S301


def covariance(matrix, mass):
    centred = matrix - np.average(matrix, axis=0, weights=mass)
    return (centred * mass[:, None]).T @ centred / mass.sum()


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 60), max_size=8),
    st.sampled_from(["ones", "counts", "shares"]),
)
@settings(max_examples=40, deadline=None)
def test_moments_are_those_of_all_rows_however_they_are_cut(seed, cuts, kind):
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((60, 5)) @ generator.standard_normal((5, 5)) + 3.0
    matrix[:, 1] = generator.integers(0, 2, 60)
    mass = {
        "ones": np.ones(60),
        "counts": generator.integers(0, 4, 60) * 1.0,
        "shares": generator.exponential(size=60),
    }[kind]
    mass[7] = 1.0
    found = merged(MomentsOf(matrix[0]), blocks_of(matrix, mass, cuts))
    counted = mass > 0
    np.testing.assert_allclose(found.mean, np.average(matrix, axis=0, weights=mass), rtol=1e-12)
    np.testing.assert_allclose(found.covariance, covariance(matrix, mass), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(found.low, matrix[counted].min(axis=0))
    np.testing.assert_array_equal(found.high, matrix[counted].max(axis=0))
    np.testing.assert_array_equal(found.constant, constant_columns(matrix[counted]))
    assert found.first[1] == np.argmax(matrix[:, 1] > 0)
    for meaning in ("frequency", "sampling"):
        weights = Weights(mass, meaning)
        assert found.total(meaning) == pytest.approx(weights.total)
        assert found.size(meaning) == pytest.approx(weights.effective)


def test_a_mean_far_from_0_costs_no_digits():
    generator = np.random.default_rng(0)
    plain = generator.standard_normal((5000, 3))
    # multiples of 1/1024, so the shifted table is the same up to the shift, exactly
    plain = np.rint(plain * 1024) / 1024
    shifted = plain + np.array([1e9, 0.0, -1e12])
    mass = np.ones(5000)
    cuts = [17, 1800, 3333]
    found = merged(MomentsOf(shifted[:100].mean(axis=0)), blocks_of(shifted, mass, cuts))
    np.testing.assert_allclose(found.covariance, covariance(plain, mass), rtol=1e-10, atol=1e-12)


def test_roots_keep_small_eigenvalues_that_cross_products_lose():
    generator = np.random.default_rng(1)
    matrix = generator.standard_normal((4000, 3))
    matrix[:, 2] = matrix[:, 0] + 1e-7 * matrix[:, 2]
    mass = np.ones(4000)
    found = merged(MomentsOf(np.zeros(3)), blocks_of(matrix, mass, [1000, 1007, 2500]))
    exact = np.linalg.svd((matrix - matrix.mean(axis=0)) / np.sqrt(4000), compute_uv=False)
    values = np.linalg.svd(found.deviations, compute_uv=False)
    np.testing.assert_allclose(values, exact, rtol=1e-8)


def test_all_groups_but_one_are_the_moments_of_their_rows():
    generator = np.random.default_rng(2)
    matrix = generator.standard_normal((400, 4)) * [1, 10, 100, 1] + [0, 0, 1e4, 0]
    mass = generator.exponential(size=400)
    groups = TicketGroups(np.random.SeedSequence(3), 20)
    pivot = matrix[:50].mean(axis=0)
    of = GroupedMomentsOf(pivot, groups)
    each = merged(shipped(of), blocks_of(matrix, mass, [30, 31, 200]))
    group = groups(np.arange(400))
    assert set(group) == set(range(20))
    for g, found in enumerate(each.without_each()):
        kept = group != g
        np.testing.assert_allclose(
            found.mean, np.average(matrix[kept], axis=0, weights=mass[kept]), rtol=1e-12, atol=1e-13
        )
        np.testing.assert_allclose(
            found.covariance, covariance(matrix[kept], mass[kept]), rtol=1e-10, atol=1e-10
        )


def test_two_groups_are_each_others_rest():
    matrix = np.random.default_rng(0).standard_normal((50, 2))
    groups = KnownGroups(np.arange(50) % 2)
    source = MatrixSource(matrix, Weights(np.ones(50), "frequency"))
    first, second = source.reduce(GroupedMomentsOf(np.zeros(2), groups)).without_each()
    np.testing.assert_allclose(first.mean, matrix[1::2].mean(axis=0))
    np.testing.assert_allclose(second.mean, matrix[::2].mean(axis=0))


def test_rows_without_weight_have_no_moments_but_a_place():
    of = MomentsOf(np.zeros(2))
    empty = of(RowBlock(np.array([[1.0, 0.0]]), np.zeros(1), 4))
    some = of(RowBlock(np.array([[2.0, -1.0], [3.0, -2.0]]), np.ones(2), 5))
    for found in (empty.merge(some), some.merge(empty)):
        assert found.mass == 2.0
        np.testing.assert_allclose(found.mean, [2.5, -1.5])
        assert found.first[0] == 4
        assert found.first[1] > 100
