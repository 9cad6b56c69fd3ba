"""Leftover dependence: found where there is some, and not where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dfi.transport import diagnostics
from dfi.transport.diagnostics import (
    distance_correlations,
    kolmogorov_distances,
    latent_diagnostics,
)

SEED = np.random.SeedSequence(0)


def slow_distance_correlation(x, y):
    """Return Szekely's distance correlation by its definition."""
    a, b = (np.abs(v[:, None] - v[None, :]) for v in (x, y))
    a, b = (m - m.mean(axis=0) - m.mean(axis=1)[:, None] + m.mean() for m in (a, b))
    return np.sqrt((a * b).mean() / np.sqrt((a * a).mean() * (b * b).mean()))


def test_distance_correlation_equals_its_definition():
    sample = np.random.default_rng(0).standard_normal((80, 3))
    sample[:, 1] = sample[:, 0] ** 2
    found = distance_correlations(sample)
    for j in range(3):
        for k in range(3):
            truth = slow_distance_correlation(sample[:, j], sample[:, k]) if j != k else 0.0
            assert found[j, k] == pytest.approx(truth, abs=1e-5)


def test_constant_column_has_no_dependence():
    sample = np.random.default_rng(0).standard_normal((50, 2))
    sample[:, 1] = 3.0
    assert distance_correlations(sample).max() == 0.0


def test_independent_normal_columns_pass():
    clean = latent_diagnostics(np.random.default_rng(0).standard_normal((600, 5)), SEED)
    assert clean.max_correlation < 0.15
    assert clean.max_distance_correlation < 1.3 * clean.null_distance_correlation
    assert clean.max_marginal_distance < 1.5 * clean.null_marginal_distance


def test_dependence_without_correlation_is_found_and_named():
    latent = np.random.default_rng(0).standard_normal((600, 4))
    latent[:, 3] = (latent[:, 1] ** 2 - 1) / np.sqrt(2)
    found = latent_diagnostics(latent, SEED)
    assert found.dependent
    assert set(found.most_dependent) == {1, 3}
    assert found.max_distance_correlation > 3 * found.null_distance_correlation
    assert found.max_marginal_distance > 3 * found.null_marginal_distance


def test_subsamples_and_the_single_column():
    latent = np.random.default_rng(0).standard_normal((3000, 3))
    assert latent_diagnostics(latent, SEED).n_rows <= diagnostics.MAX_ROWS
    alone = latent_diagnostics(latent[:, :1], SEED)
    assert alone.max_distance_correlation == 0.0
    assert not alone.dependent
    assert isinstance(alone.as_dict()["most_dependent"], list)


def test_kolmogorov_distances_are_scipys():
    sample = np.random.default_rng(5).gamma(2.0, size=(80, 3))
    expected = [stats.kstest(column, "norm").statistic for column in sample.T]
    np.testing.assert_allclose(kolmogorov_distances(sample), expected)
