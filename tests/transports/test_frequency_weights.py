"""A row of frequency weight ``w`` is ``w`` equal rows: the same scores under every transport."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf_shrinkage

import dfi
from dfi._data.table import read_table
from dfi._data.weights import Weights
from dfi._estimates.covariance import RowCoordinates, ledoit_wolf
from dfi._estimates.margins import fit_margin
from dfi._models.crossfit import FoldModels
from dfi.datasets.simulations import correlated_gaussian, m4
from dfi.transports import Copula, EntropicOT, Gaussian, KnotheRosenblatt, base
from dfi.transports.curved import RowCopies, curve_scores
from tests.scoring.tasks import task_of

WITHOUT_VINE = importlib.util.find_spec("pyvinecopulib") is None
needs_vine = pytest.mark.skipif(WITHOUT_VINE, reason="pyvinecopulib is not installed")
R = 0.6 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
KINDS = ("normal", "skewed", "rounded", "levels")


def regression(X):
    return X[:, 0] + np.sin(X[:, 1]) + 0.5 * X[:, 0] * X[:, 2]


def draw(kind, seed, n=90):
    """Return rows, outcomes and counts, some of them zero."""
    generator = np.random.default_rng([seed, 5])
    X = correlated_gaussian(R, n, generator)
    if kind == "skewed":
        X = np.exp(0.7 * X)
    elif kind == "rounded":
        X = np.round(2 * X) / 2
    elif kind == "levels":
        X[:, 1] = np.digitize(X[:, 1], [-0.5, 0.6])
    counts = generator.integers(0, 4, n)
    # the outermost rows too may count nothing
    counts[np.argmax(X[:, 0])] = 0
    return X, regression(X) + generator.standard_normal(n), counts


def both(X, y, counts, transport, function=regression, **options):
    """Return the results of weighted and of repeated rows."""
    options = {
        "estimator": function, "cv": "prefit", "transport": transport, "transport_error": "ignore",
        "diagnose": False, "progress": False, "random_state": 3, **options,
    }  # fmt: skip
    weighted = dfi.explain(X, y, frequency_weight=counts, **options)
    return weighted, dfi.explain(np.repeat(X, counts, axis=0), np.repeat(y, counts), **options)


def same(weighted, repeated, rtol):
    for space in ("latent", "feature"):
        first, second = (r.latent if space == "latent" else r for r in (weighted, repeated))
        scale = np.abs(second.scores).max()
        np.testing.assert_allclose(first.scores, second.scores, rtol=rtol, atol=rtol * scale)
    assert weighted.quality.r2 == pytest.approx(repeated.quality.r2)


TRANSPORTS = [
    pytest.param(Copula(), 1e-9, id="copula"),
    pytest.param(Copula(reference="empirical"), 1e-9, id="copula-empirical"),
    pytest.param(Copula(shrinkage=0.3), 1e-9, id="copula-shrunken"),
    pytest.param(KnotheRosenblatt(), 1e-7, id="knothe", marks=needs_vine),
    pytest.param(KnotheRosenblatt(latent="uniform"), 1e-6, id="knothe-uniform", marks=needs_vine),
    pytest.param(KnotheRosenblatt(order=[2, 0, 1]), 1e-7, id="knothe-order", marks=needs_vine),
    # to the solver's tolerance
    pytest.param(EntropicOT(epsilon=5.0, n_targets=256, tol=1e-9, min_size=1), 1e-5, id="entropic"),
]


@pytest.mark.filterwarnings("ignore:at epsilon:dfi.warnings.TransportWarning")
@pytest.mark.parametrize(("transport", "rtol"), TRANSPORTS)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 10**6))
@settings(max_examples=6)
def test_scores_of_counts_are_those_of_repeated_rows(transport, rtol, kind, seed):
    same(*both(*draw(kind, seed), transport), rtol)


@pytest.mark.parametrize("kind", KINDS)
def test_derived_standard_errors_of_counts_are_those_of_repeated_rows(kind):
    """The copula's influence is derived; a jackknife deals rows, not counts, into groups."""
    weighted, repeated = both(*draw(kind, 8), Copula(), transport_error="auto")
    np.testing.assert_allclose(weighted.se, repeated.se, rtol=1e-8)
    np.testing.assert_allclose(weighted.latent.se, repeated.latent.se, rtol=1e-8)


@pytest.mark.parametrize("transport", [Copula(), KnotheRosenblatt()], ids=["copula", "knothe"])
def test_whole_numbers_are_counts_only_where_they_are_said_to_be(transport):
    if WITHOUT_VINE and transport.name != "copula":
        pytest.skip("pyvinecopulib is not installed")
    X, y, counts = draw("skewed", 1)
    options = {"cv": "prefit", "transport": transport, "transport_error": "ignore"}
    options |= {"diagnose": False, "random_state": 3}
    counted, sampling, scaled = (
        dfi.explain(X, y, regression, **weights, **options).scores
        for weights in (
            {"frequency_weight": counts},
            {"sample_weight": counts},
            {"sample_weight": 0.3 * counts},
        )
    )
    np.testing.assert_allclose(sampling, scaled, rtol=1e-9)
    # rows that stand for others were seen once: their quantile slopes have more error
    assert np.abs(sampling / counted - 1).max() > 0.003


@pytest.mark.parametrize("kind", ["normal", "skewed", "curved"])
def test_scores_under_the_transport_that_is_chosen(kind):
    if kind == "curved":
        X = m4(300, d=2).X
        generator = np.random.default_rng(0)
        y, counts = X[:, 0] + generator.standard_normal(300), generator.integers(0, 4, 300)
        weighted, repeated = both(X, y, counts, "auto", lambda X: X[:, 0])
    else:
        weighted, repeated = both(*draw(kind, 2, n=300), "auto")
    chosen = "gaussian" if kind == "normal" else "brenier"
    for result in (weighted, repeated):
        assert result.diagnostics["auto"]["chosen"] == chosen
    same(weighted, repeated, 1e-5)


@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 10**6), column=st.integers(0, 2))
def test_margins_of_counts_are_those_of_repeated_rows(kind, seed, column):
    X, _, counts = draw(kind, seed)
    weights = Weights(counts.astype(float), "frequency")
    weighted = fit_margin(X[:, column], weights.values, weights.effective)
    repeated = fit_margin(np.repeat(X[:, column], counts), np.ones(counts.sum()))
    for name in ("scores", "values", "rows"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-8)
    assert weighted.open_ends == repeated.open_ends
    assert weighted.discrete == repeated.discrete


@needs_vine
def test_rows_are_not_repeated_without_end(monkeypatch):
    """Then the package's own weights have to do: another fit, near that of the repeated rows."""
    X, _, counts = draw("skewed", 4, n=300)
    weights = Weights(counts.astype(float), "frequency")
    rows = base.repeated_rows(weights)
    np.testing.assert_array_equal(rows, np.repeat(np.arange(300), counts))
    assert base.repeated_rows(Weights(weights.values + 0.5, "sampling")) is None
    constant = np.zeros(3, bool)
    exact = KnotheRosenblatt().fit_matrix(X, weights, constant).encode(X)
    monkeypatch.setattr(base, "MOST_REPEATED", 100)
    # twice the rows that count are always allowed
    few = Weights(np.minimum(weights.values, 2.0), "frequency")
    assert len(base.repeated_rows(few)) == few.total
    many = Weights(5 * weights.values, "frequency")
    assert base.repeated_rows(many) is None
    rough = KnotheRosenblatt().fit_matrix(X, many, constant).encode(X)
    alone = KnotheRosenblatt().fit_matrix(X, Weights(np.ones(300), "frequency"), constant).encode(X)
    difference = np.sqrt(np.mean((rough - exact)[counts > 0] ** 2))
    assert 0 < difference < np.sqrt(np.mean((alone - exact)[counts > 0] ** 2))


@needs_vine
@pytest.mark.parametrize("form", ["loco", "cpi"])
def test_draws_of_a_row_are_averaged_fold_by_fold(form):
    """Two repeats of two folds, each with its own model and its rows in its own order."""
    X, y, counts = draw("levels", 6, n=40)
    weights = Weights(counts.astype(float), "frequency")
    transport = KnotheRosenblatt().fit_matrix(X, weights, np.zeros(3, bool))
    assert transport.draws_latents
    order = np.random.default_rng(0).permutation(40)
    folds = [
        FoldModels(repeat, order[part::2], (model,), np.random.SeedSequence(0))
        for repeat, part, model in (
            (0, 0, regression), (0, 1, lambda X: X[:, 0]),
            (1, 0, lambda X: X @ [1.0, 2.0, 3.0]), (1, 1, lambda X: X[:, 1] * X[:, 2]),
        )
    ]  # fmt: skip
    copies = RowCopies.of(transport, weights, np.arange(40))
    told = []
    task = task_of(folds, X, y, weights, form=form, advance=told.append)
    found = copies.scores(task, transport, generator=np.random.default_rng(7))
    assert told == [80]
    np.testing.assert_array_equal(found.rows, np.arange(40))
    generator = np.random.default_rng(7)
    drawn = transport.encode(np.repeat(X, counts, axis=0), generator)
    idle = transport.encode(X[counts == 0], generator)
    of_row = np.repeat(np.arange(40), counts)
    sums = np.zeros((2, 3))
    for row in range(40):
        # the draws of one row, one after the other, under the two models that held it out
        latents = drawn[of_row == row]
        if counts[row] == 0:
            latents = idle[[np.sum(counts[:row] == 0)]]
        held = [(fold.repeat, fold.predictors) for fold in folds if row in fold.test]
        expected, attributed = [], []
        for repeat, predictors in held:
            for latent in latents:
                single = FoldModels(0, np.arange(1), predictors, np.random.SeedSequence(0))
                alone = task_of(
                    [single], X, y[[row]], Weights(np.ones(1), "frequency"), form=form,
                    table=replace(read_table(X), matrix=X[[row]]),
                )  # fmt: skip
                one = curve_scores(alone, transport, latent=latent[None])
                expected.append(one.latent[0])
                attributed.append(one.attributed[0])
                sums[repeat] += (counts[row] > 0) * one.latent[0]
        np.testing.assert_allclose(found.latent[row], np.mean(expected, axis=0), atol=1e-9)
        np.testing.assert_allclose(found.attributed[row], np.mean(attributed, axis=0), atol=1e-9)
    np.testing.assert_allclose(found.latent_by_repeat, sums / counts.sum(), atol=1e-9)
    for fold, (rows, values) in zip(folds, found.predictions, strict=True):
        np.testing.assert_array_equal(rows, np.sort(fold.test))
        np.testing.assert_allclose(values, fold.predictors[0](X[rows]))


def test_copies_are_made_only_of_draws_that_count_more_or_less_than_once():
    drawn = type("Drawn", (), {"draws_latents": True})()
    rows, counts = np.arange(3), Weights(np.array([2.0, 0.0, 1.0]), "frequency")
    copies = RowCopies.of(drawn, counts, rows)
    np.testing.assert_array_equal(copies.rows, [0, 0, 2, 1])
    np.testing.assert_array_equal(copies.weights.values, [1, 1, 1, 0])
    mapped = type("Mapped", (), {"draws_latents": False})()
    assert RowCopies.of(mapped, counts, rows) is None
    assert RowCopies.of(drawn, Weights(np.ones(3), "frequency"), rows) is None
    assert RowCopies.of(drawn, Weights(counts.values, "sampling"), rows) is None


@given(kind=st.sampled_from(("normal", "skewed", "rounded")), seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_estimated_shrinkage_of_counts_is_that_of_repeated_rows(kind, seed):
    X, y, counts = draw(kind, seed)
    weighted, repeated = both(X, y, counts, Gaussian(shrinkage="ledoit-wolf"))
    same(weighted, repeated, 1e-9)


def test_estimated_shrinkage_is_scikit_learns_where_rows_count_alike():
    X, _, _ = draw("skewed", 0)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    found = ledoit_wolf(RowCoordinates(scaled, Weights(np.ones(len(X)), "frequency")))
    assert found == pytest.approx(ledoit_wolf_shrinkage(scaled), rel=1e-12)
    assert 0.0 < found < 1.0


def test_rows_that_the_kernel_sees_go_by_counts():
    X, _, counts = draw("normal", 1)
    repeated = np.repeat(X, counts, axis=0)
    design = EntropicOT(epsilon=1.0, n_targets=256)
    sizes = []
    for rows, mass in ((X, counts.astype(float)), (repeated, np.ones(len(repeated)))):
        fitted = design.fit_matrix(rows, Weights(mass, "frequency"), np.zeros(3, dtype=bool))
        sizes.append(np.median(fitted.effective_sizes(fitted.kernel.targets, mass)))
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-4)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::dfi.warnings.TransportWarning")
def test_the_choice_of_a_transport_goes_by_counts():
    generator = np.random.default_rng(4)
    chosen = []
    for kind in range(8):
        # on the verge: margins whose distance from normal is near the limit
        X = (
            correlated_gaussian(R, 150, generator)
            if kind % 2
            else generator.gamma(8.0, size=(150, 3))
        )
        y = X[:, 0] + generator.standard_normal(150)
        counts = generator.integers(0, 4, 150)
        weighted, repeated = both(X, y, counts, "auto", lambda rows: rows[:, 0])
        chosen.append((weighted.spec["transport"], repeated.spec["transport"]))
    assert all(first == second for first, second in chosen), chosen
