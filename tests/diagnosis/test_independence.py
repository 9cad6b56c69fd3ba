"""Leftover dependence: found where there is some, and not where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dfi._diagnosis.independence import (
    MOST_ROWS,
    chance_auc,
    independence,
    kolmogorov_distances,
)

SEED = np.random.SeedSequence(0)


@pytest.mark.full
def test_independent_columns_of_any_law_pass():
    """Chance reaches its level in less than 1 table of 100: 3 of 60 have a probability of .02."""
    generator = np.random.default_rng(0)
    passed = 0
    for k in range(60):
        rows = generator.standard_normal((150, 3))
        rows = [rows, np.exp(rows), (rows > 0.5).astype(float)][k % 3]
        found = independence(rows, np.random.SeedSequence(k))
        passed += found.auc > found.chance_auc
        assert not found.dependent or found.auc < 0.62
    assert passed <= 2


def parabola(x, e):
    return x**2 + 0.5 * e


def product(x, e):
    return x * e


def scale(x, e):
    return np.exp(1.2 * x) * e


@pytest.mark.parametrize("law", [parabola, product, scale])
def test_dependence_without_correlation_is_found_and_named(law):
    latent = np.random.default_rng(0).standard_normal((600, 4))
    latent[:, 3] = law(latent[:, 1], latent[:, 3])
    latent[:, 3] -= latent[:, 1] * np.mean(latent[:, 1] * latent[:, 3])
    found = independence(latent, SEED)
    assert found.dependent
    assert found.pairs[0] == (1, 3)
    assert found.pair_auc[0] > chance_auc(600)


def test_a_ring_is_found():
    generator = np.random.default_rng(1)
    angle, radius = generator.uniform(0, 2 * np.pi, 500), 2 + 0.3 * generator.standard_normal(500)
    rows = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    assert independence(rows, SEED).dependent


def test_columns_of_one_feature_are_one_variable():
    latent = np.random.default_rng(0).standard_normal((300, 4))
    latent[:, 1] = np.abs(latent[:, 0])
    assert independence(latent, SEED).dependent
    together = independence(latent, SEED, np.array([0, 0, 1, 2]))
    assert not together.dependent
    assert together.max_correlation < 0.3


def test_pairs_without_signal_are_left_out():
    latent = np.random.default_rng(0).standard_normal((300, 4))
    latent[:, 1] = np.abs(latent[:, 0])
    carries = np.array([False, False, True, False])
    assert not independence(latent, SEED, None, carries).dependent
    assert independence(latent, SEED, None, carries | np.array([True, False] * 2)).dependent
    assert independence(latent, SEED, None, np.zeros(4, dtype=bool)).dependent


def test_subsamples_single_columns_and_few_rows():
    latent = np.random.default_rng(0).standard_normal((3000, 3))
    assert independence(latent, SEED).n_rows == MOST_ROWS
    for few in (latent[:, :1], latent[:20], np.column_stack([latent[:50, 0], np.zeros(50)])):
        alone = independence(few, SEED)
        assert (alone.auc, alone.pairs, alone.dependent) == (0.5, (), False)
    assert isinstance(alone.as_dict()["pairs"], list)


def test_many_columns_are_searched_for_the_dependent_pair():
    latent = np.random.default_rng(2).standard_normal((800, 30))
    latent[:, 20] = latent[:, 11] ** 2 + 0.3 * latent[:, 20]
    found = independence(latent, SEED)
    assert found.dependent
    assert found.pairs[0] == (11, 20)


def test_kolmogorov_distances_are_scipys():
    sample = np.random.default_rng(5).gamma(2.0, size=(80, 3))
    expected = [stats.kstest(column, "norm").statistic for column in sample.T]
    np.testing.assert_allclose(kolmogorov_distances(sample), expected)
