"""Correlations of many columns: factors, their number, what they are exact for, what is refused."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfi
from dfi._data.weights import Weights
from dfi.transports import Copula, Gaussian, Semicontinuous
from dfi.transports import gaussian as linear
from dfi.transports.components import _Sample
from dfi.transports.covariance import (
    RowCoordinates,
    correlation,
    noise_edge,
    principal_factors,
)

SHARED = ["auto", "factor", "ledoit-wolf"]


def factor_model(d, rank, seed=0):
    """Return the correlation matrix of columns with 30 to 70 % of their variance in common."""
    generator = np.random.default_rng(seed)
    loadings = generator.standard_normal((d, rank))
    common = generator.uniform(0.3, 0.7, d)
    loadings *= np.sqrt(common / np.sum(loadings**2, axis=1))[:, None]
    matrix = loadings @ loadings.T
    np.fill_diagonal(matrix, 1.0)
    return matrix


def sample(matrix, n, seed=1):
    return (
        np.random.default_rng(seed).standard_normal((n, len(matrix))) @ np.linalg.cholesky(matrix).T
    )


def standardized(rows, mass=None):
    share = np.full(len(rows), 1 / len(rows)) if mass is None else mass / mass.sum()
    rows = rows - share @ rows
    return rows / np.sqrt(share @ rows**2)


def whitened(rows, blocks):
    """Return rows whitened within blocks."""
    rows = standardized(rows).copy()
    for block in np.unique(blocks):
        left, _, right = np.linalg.svd(rows[:, blocks == block], full_matrices=False)
        rows[:, blocks == block] = np.sqrt(len(rows)) * left @ right
    return rows


def counts(n):
    return Weights(np.ones(n), "frequency")


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_factors_of_many_rows_are_the_true_ones(rank):
    truth = factor_model(30, rank)
    found = correlation(
        RowCoordinates(standardized(sample(truth, 50_000)), counts(50_000)), "factor"
    )
    assert found.ranks == (rank,)
    assert np.max(np.abs(found.matrix - truth)) < 0.03  # sampling error: 4.5 / sqrt(n)


def test_a_factor_model_returns_to_itself():
    truth = factor_model(40, 3)
    assert np.max(np.abs(principal_factors(truth, 3) - truth)) < 1e-6


def test_columns_that_share_nothing_have_no_factor():
    rows = standardized(np.random.default_rng(0).standard_normal((200, 80)))
    found = correlation(RowCoordinates(rows, counts(200)), "factor")
    assert found.ranks == (0,)
    assert np.array_equal(found.matrix, np.eye(80))


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(10, 60),
    d=st.integers(2, 40),
    kind=st.sampled_from(["factor", "ledoit-wolf"]),
    seed=st.integers(0, 99),
)
def test_matrices_are_correlations_and_positive_definite(n, d, kind, seed):
    rows = standardized(sample(factor_model(d, 2, seed), n, seed))
    matrix = correlation(RowCoordinates(rows, counts(n)), kind).matrix
    assert np.array_equal(np.diag(matrix), np.ones(d))
    assert np.allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix)[0] > 1e-9


@pytest.mark.parametrize("kind", SHARED)
def test_the_order_of_columns_does_not_matter(kind):
    rows = standardized(sample(factor_model(30, 2), 60))
    order = np.random.default_rng(3).permutation(30)
    given_order = correlation(RowCoordinates(rows, counts(60)), kind).matrix
    permuted = correlation(RowCoordinates(rows[:, order], counts(60)), kind).matrix
    assert np.allclose(permuted, given_order[np.ix_(order, order)], atol=1e-10)


@pytest.mark.parametrize("kind", SHARED)
def test_counts_are_repeated_rows(kind):
    rows = sample(factor_model(20, 2), 40)
    often = np.random.default_rng(0).integers(0, 4, 40)
    repeated = standardized(np.repeat(rows, often, axis=0))
    weights = Weights(often.astype(float), "frequency")
    weighted = correlation(RowCoordinates(standardized(rows, often), weights), kind)
    expected = correlation(RowCoordinates(repeated, counts(len(repeated))), kind)
    assert weighted.ranks == expected.ranks
    assert np.allclose(weighted.matrix, expected.matrix, atol=1e-10)


def test_components_have_factors_of_their_own_and_small_ones_none():
    labels = np.array([0] * 20 + [1] * 3)
    rows = standardized(sample(factor_model(23, 2), 60))
    found = correlation(RowCoordinates(rows, counts(60)), "auto", labels=labels)
    assert found.kind == "factor"
    assert found.ranks[0] is not None
    assert found.ranks[1] is None
    assert not found.matrix[:20, 20:].any()
    assert np.allclose(found.matrix[20:, 20:], np.corrcoef(rows[:, 20:].T))
    alone = correlation(RowCoordinates(rows[:, :20], counts(60)), "factor")
    assert np.allclose(found.matrix[:20, :20], alone.matrix)


BLOCKS = np.array([0] * 6 + [1] * 4 + [2, 3, 4, 5] + [6] * 6)


@pytest.mark.parametrize("kind", ["sample", *SHARED])
def test_blocks_are_the_identity_and_their_coding_does_not_matter(kind):
    n = 70
    rows = whitened(sample(factor_model(20, 2), n), BLOCKS)
    found = correlation(RowCoordinates(rows, counts(n)), kind, blocks=BLOCKS)
    same = BLOCKS[:, None] == BLOCKS
    assert np.array_equal(found.matrix[same], np.eye(20)[same])
    assert np.linalg.eigvalsh(found.matrix)[0] > 1e-3
    turn = np.eye(20)
    generator = np.random.default_rng(5)
    for block in np.unique(BLOCKS):
        inside = np.flatnonzero(block == BLOCKS)
        normal = generator.standard_normal((len(inside), len(inside)))
        turn[np.ix_(inside, inside)] = np.linalg.qr(normal)[0]
    turned = correlation(RowCoordinates(rows @ turn, counts(n)), kind, blocks=BLOCKS)
    assert turned.ranks == found.ranks
    assert turned.shrinkage == pytest.approx(found.shrinkage, rel=1e-9)
    assert np.allclose(turned.matrix, turn.T @ found.matrix @ turn, atol=1e-9)


@pytest.mark.parametrize("kind", ["sample", *SHARED])
def test_blocks_of_one_column_are_columns(kind):
    rows = standardized(sample(factor_model(20, 2), 70))
    plain = correlation(RowCoordinates(rows, counts(70)), kind)
    blocks = correlation(RowCoordinates(rows, counts(70)), kind, blocks=np.arange(20)[::-1])
    assert np.allclose(plain.matrix, blocks.matrix, atol=1e-12)
    assert plain.ranks == blocks.ranks


@pytest.mark.parametrize(
    "sizes", [[1] * 100, [20, 20], [40, 30], [5] * 20, [60, 60, 60], [40, 10, 1, 1, 5, 5]]
)
def test_independent_blocks_stay_near_the_edge(sizes):
    n, generator = 400, np.random.default_rng(0)
    edge, largest = noise_edge(np.array(sizes), n), []
    for _ in range(5):
        parts = [np.linalg.qr(generator.standard_normal((n, size)))[0] for size in sizes]
        largest.append(np.linalg.norm(np.concatenate(parts, axis=1), 2) ** 2)
    assert np.mean(largest) == pytest.approx(edge, rel=0.06)


def test_the_edge_of_two_blocks_is_wachters():
    first, second = 0.2, 0.15
    canonical = np.sqrt(first * (1 - second)) + np.sqrt(second * (1 - first))
    assert noise_edge(np.array([40, 30]), 200) == pytest.approx(1 + canonical, abs=1e-6)
    assert noise_edge(np.ones(50), 200) == 2.25


@pytest.mark.parametrize("design", [Gaussian(components=None), Copula(components=None)])
def test_fewer_rows_than_columns_need_no_random_kernel(design):
    X = sample(factor_model(60, 2), 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = design.fit(X).fitted_
    linear = fitted.straight.whitening
    assert linear.factors in (1, 2, 3)
    assert linear.rank == 60
    assert not linear.kernel_variance.any()
    assert np.allclose(fitted.decode(fitted.encode(X)), X)


def test_raw_columns_have_the_correlations_of_standardised_ones():
    X = sample(factor_model(30, 2), 60)
    scale = np.random.default_rng(0).uniform(0.5, 5.0, 30)
    raw = Gaussian(components=None, standardize=False).fit(X * scale).fitted_
    unit = Gaussian(components=None).fit(X).fitted_
    deviation = (X * scale).std(axis=0)
    expected = unit.decoder @ unit.decoder * np.outer(deviation, deviation)
    assert np.allclose(raw.decoder @ raw.decoder, expected)


def test_a_refit_keeps_the_number_of_factors():
    X = sample(factor_model(60, 3), 100)
    constant = np.zeros(60, dtype=bool)
    for design in (Gaussian(components=None), Copula(components=None)):
        whole = design.fit_matrix(X, counts(100), constant)
        linear = whole.straight.whitening
        pretend = linear.ranks[0] + 4
        object.__setattr__(linear, "ranks", (pretend,))
        part = design.fit_matrix(X[:80], counts(80), constant, like=whole)
        assert part.straight.whitening.ranks == (pretend,)


def linear_truth(X, **options):
    return dfi.explain(
        X, X[:, 0] + X[:, 1], lambda rows: rows[:, 0] + rows[:, 1], cv="prefit", **options
    )


def test_a_result_says_what_was_used():
    X = sample(factor_model(50, 2), 120)
    with pytest.warns(dfi.warnings.InferenceWarning, match="120 rows for 50 .* common factors"):
        result = linear_truth(X, transport=Gaussian(components=None), diagnose=False)
    assert result.spec["covariance"] == "auto"
    told = result.diagnostics["covariance"]
    assert told["used"] == "factor"
    assert told["factors"] == 2
    assert result.diagnostics["standard_errors"].startswith("transport jackknife")
    assert "not derived for factors" in result.diagnostics["second_order"]["reason"]
    few = linear_truth(X[:, :10], transport=Gaussian(components=None), diagnose=False)
    assert few.diagnostics["covariance"]["used"] == "sample"
    assert few.diagnostics["standard_errors"].startswith("transport-aware")


@pytest.mark.parametrize("error", ["derived", "covariance", "finite-difference"])
@pytest.mark.parametrize("design", [Gaussian(covariance="factor"), Gaussian(components=None)])
def test_derived_errors_of_factors_are_refused(error, design):
    X = sample(factor_model(30, 2), 60)
    with pytest.raises(ValueError, match="this one is of factors: use 'auto' or 'jackknife'"):
        linear_truth(X, transport=design, transport_error=error, diagnose=False)


@pytest.mark.parametrize("kind", ["factor", "ledoit-wolf"])
@pytest.mark.parametrize("transport", [Gaussian, Copula])
def test_a_number_is_of_the_sample_correlation(kind, transport):
    with pytest.raises(ValueError, match=r"shrinkage=0.2 is of the sample correlation, not for"):
        transport(covariance=kind, shrinkage=0.2)
    assert transport(covariance="sample", shrinkage=0.2).estimator == "sample"
    assert transport(shrinkage=0.2).estimator == "sample"
    assert transport(shrinkage="ledoit-wolf").estimator == "ledoit-wolf"
    assert Semicontinuous().estimator == "sample"


def test_ledoit_wolf_has_two_names():
    X = sample(factor_model(10, 2), 60)
    one = Gaussian(covariance="ledoit-wolf").fit(X).fitted_
    other = Gaussian(shrinkage="ledoit-wolf").fit(X).fitted_
    assert 0 < one.shrinkage == other.shrinkage
    assert np.array_equal(one.decoder, other.decoder)


def test_an_unknown_covariance_is_refused():
    with pytest.raises(ValueError, match="covariance must be 'auto', 'sample', 'factor' or"):
        Gaussian(covariance="factors")


@pytest.mark.parametrize(("d", "n"), [(50, 200), (120, 90)])
def test_scores_of_few_shared_directions_come_out(d, n):
    r"""The claim for factors: closed-form scores of a linear regression, sample beside them."""
    truth = factor_model(d, 5)
    slope = np.zeros(d)
    slope[:4] = [1.0, 0.8, 0.6, 0.4]

    def scores(matrix, rows):
        values, vectors = np.linalg.eigh(matrix)
        roots = np.sqrt(np.maximum(values, 0.0))
        inverse = np.divide(1.0, roots, out=np.zeros(d), where=roots > 1e-5)
        decoder = (vectors * roots) @ vectors.T
        latent = (decoder @ slope) ** 2 * np.var(rows @ (vectors * inverse) @ vectors.T, axis=0)
        return decoder**2 @ latent

    exact = scores(truth, sample(truth, 100_000))
    bias = {"sample": np.zeros(d), "factor": np.zeros(d)}
    for seed in range(5):
        rows = standardized(sample(truth, n, seed))
        for kind, total in bias.items():
            total += scores(correlation(RowCoordinates(rows, counts(n)), kind).matrix, rows) - exact
    size = {kind: np.abs(total).sum() / 5 for kind, total in bias.items()}
    assert size["factor"] < 0.1 * exact.sum()
    assert size["factor"] < 0.6 * size["sample"]


def test_more_columns_than_a_transport_can_hold_are_refused_before_anything_is_fitted():
    X = np.random.default_rng(0).standard_normal((3, 12_000))
    message = (
        r"X has 12000 columns \(levels of categories counted\), and a transport of so many takes "
        r"several matrices of 1.07 GiB, more than the 1 GiB allowed for each: explain at most "
        r"11585 columns, e.g. those that sklearn.feature_selection.SelectKBest keeps, or the "
        r"components of sklearn.decomposition.PCA"
    )
    for transport in (Gaussian(), Copula()):
        with pytest.raises(ValueError, match=message):
            transport.fit(X)


def test_wide_tables_go_through_their_rows():
    rows = standardized(sample(factor_model(60, 2), 12))
    found = _Sample.of(RowCoordinates(rows, counts(12)), np.arange(60))
    assert found.root is not None
    np.testing.assert_allclose(
        found._square, found.correlation @ found.correlation, rtol=1e-10, atol=1e-12
    )


def test_many_columns_are_multiplied_component_by_component(monkeypatch):
    X = sample(factor_model(12, 2), 200)
    design = Gaussian(components=[["x0", "x3", "x4"], ["x1", "x11"]])
    arguments = X, counts(200), np.zeros(12, bool)
    dense = design.fit_matrix(*arguments)
    monkeypatch.setattr(linear, "MANY_COLUMNS", 5)
    apart = design.fit_matrix(*arguments)
    np.testing.assert_allclose(apart.decoder, dense.decoder, atol=1e-14)
    np.testing.assert_allclose(apart.encoder, dense.encoder, atol=1e-14)
