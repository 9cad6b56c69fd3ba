"""Leftover dependence: found where there is some, and not where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dfi.transports import auto as diagnostics
from dfi.transports.auto import (
    distance_correlations,
    kolmogorov_distances,
    latent_diagnostics,
)

SEED = np.random.SeedSequence(0)


def slow_distance_correlation(x, y):
    """Return the bias-corrected squared distance correlation by its definition, sum by sum."""

    def centred(v):
        n = len(v)
        a = [[float(np.linalg.norm(v[i] - v[j])) for j in range(n)] for i in range(n)]
        rows = [sum(line) for line in a]
        total = sum(rows)
        return np.array(
            [
                [
                    0.0
                    if i == j
                    else a[i][j] - (rows[i] + rows[j]) / (n - 2) + total / ((n - 1) * (n - 2))
                    for j in range(n)
                ]
                for i in range(n)
            ]
        )

    a, b = centred(x), centred(y)
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


def test_distance_correlation_equals_its_definition():
    sample = np.random.default_rng(0).standard_normal((60, 4))
    sample[:, 1] = sample[:, 0] ** 2
    blocks = [sample[:, [0]], sample[:, [1]], sample[:, 2:]]
    found = distance_correlations(blocks)
    for j in range(3):
        for k in range(3):
            if j != k:
                truth = slow_distance_correlation(blocks[j], blocks[k])
                assert found[j, k] == pytest.approx(truth, abs=1e-5)


def test_p_value_agrees_with_permutations():
    """For pairs of 0/1 columns the chi-square law is that of permutations, else conservative."""
    generator = np.random.default_rng(3)
    for make in (lambda: generator.random((60, 1)) < 0.4, lambda: generator.gamma(1, size=(60, 1))):
        x, y = (make().astype(float) for _ in range(2))
        null = [distance_correlations([x, generator.permutation(y)])[0, 1] for _ in range(2000)]
        for quantile in (0.95, 0.99):
            claimed = stats.chi2.sf(60 * np.quantile(null, quantile) + 1, 1)
            # 2000 permutations: 1 - quantile to within .005; .01 of slack for atoms of 0/1 columns
            assert claimed >= 1 - quantile - 0.015


def test_constant_column_has_no_dependence():
    sample = np.random.default_rng(0).standard_normal((50, 1))
    assert distance_correlations([sample, np.full((50, 1), 3.0)])[0, 1] == 0.0


def test_independent_normal_columns_pass():
    clean = latent_diagnostics(np.random.default_rng(0).standard_normal((600, 5)), SEED)
    assert clean.max_correlation < 0.15
    assert clean.max_distance_correlation < clean.null_distance_correlation
    assert not clean.dependent
    assert clean.max_marginal_distance < 1.5 * clean.null_marginal_distance


def test_dependence_without_correlation_is_found_and_named():
    latent = np.random.default_rng(0).standard_normal((600, 4))
    latent[:, 3] = (latent[:, 1] ** 2 - 1) / np.sqrt(2)
    found = latent_diagnostics(latent, SEED)
    assert found.dependent
    assert set(found.most_dependent) == {1, 3}
    assert found.max_distance_correlation > 2 * found.null_distance_correlation
    assert found.max_marginal_distance > 3 * found.null_marginal_distance


def test_columns_of_one_feature_are_one_variable():
    latent = np.random.default_rng(0).standard_normal((300, 4))
    latent[:, 1] = np.abs(latent[:, 0])
    apart = latent_diagnostics(latent, SEED)
    together = latent_diagnostics(latent, SEED, np.array([0, 0, 1, 2]))
    assert apart.dependent
    assert not together.dependent
    assert set(together.most_dependent) <= {0, 1, 2}


def test_pairs_without_signal_are_left_out():
    latent = np.random.default_rng(0).standard_normal((300, 4))
    latent[:, 1] = np.abs(latent[:, 0])
    carries = np.array([False, False, True, False])
    assert not latent_diagnostics(latent, SEED, None, carries).dependent
    assert latent_diagnostics(latent, SEED, None, carries | np.array([True, False] * 2)).dependent
    assert latent_diagnostics(latent, SEED, None, np.zeros(4, dtype=bool)).dependent


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
