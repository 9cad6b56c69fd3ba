"""Classes, counts and several outcomes, end to end: what must not change a score, and what must."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from scipy import special
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
)

import dfi
from dfi.warnings import DFIWarning

N = 240
RNG = np.random.default_rng(15)
CORRELATION = np.array([[1.0, 0.7, 0.2], [0.7, 1.0, 0.0], [0.2, 0.0, 1.0]])
X = RNG.standard_normal((N, 3)) @ np.linalg.cholesky(CORRELATION).T
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
Y = (RNG.random(N) < special.expit(1.4 * X[:, 0] - X[:, 2])).astype(int)
MARGINS = np.column_stack([1.5 * X[:, 0], 1.2 * X[:, 2], np.zeros(N)])
CLASS = (RNG.random((N, 1)) > np.cumsum(special.softmax(MARGINS, axis=1), axis=1)).sum(axis=1)
SPECIES = np.array(["Adelie", "Chinstrap", "Gentoo"])[CLASS]
COUNTS = RNG.poisson(np.exp(0.3 + 0.6 * X[:, 0] + 0.3 * X[:, 2]))
POSITIVE = RNG.gamma(3.0, np.exp(0.4 * X[:, 0]) / 3.0)
LOSSES = ("brier", "log-loss")
QUIET = {"cv": 3, "diagnose": False, "progress": False}


def explain(table=FRAME, y=Y, estimator=None, **options):
    """Explain quietly by a logistic regression."""
    estimator = LogisticRegression() if estimator is None else estimator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DFIWarning)
        return dfi.explain(table, y, estimator, **{**QUIET, **options})


def assert_same(first, second):
    """The same bits: scores, errors, latent scores."""
    np.testing.assert_array_equal(first.scores, second.scores)
    np.testing.assert_array_equal(first.se, second.se)
    if first.latent is not None:
        np.testing.assert_array_equal(first.latent.scores, second.latent.scores)


def added_up(result):
    return np.sum([part.scores for part in result.by_outcome.values()], axis=0)


# two classes -------------------------------------------------------------------------------------

CODINGS = {
    "boolean": lambda: Y == 1,
    "float": lambda: Y.astype(float),
    "int8": lambda: Y.astype(np.int8),
    "list of booleans": lambda: [bool(value) for value in Y],
    "strings": lambda: np.where(Y == 1, "Yes", "No"),
    "objects": lambda: np.where(Y == 1, "Yes", "No").astype(object),
    "list of strings": lambda: np.where(Y == 1, "Yes", "No").tolist(),
    "pandas": lambda: pd.Series(np.where(Y == 1, "Yes", "No"), name="default"),
    "pandas string": lambda: pd.Series(np.where(Y == 1, "Yes", "No"), dtype="string"),
    "pandas category": lambda: pd.Series(np.where(Y == 1, "Yes", "No"), dtype="category"),
    "pandas ordered": lambda: pd.Series(
        pd.Categorical(np.where(Y == 1, "high", "low"), ["low", "high"], ordered=True)
    ),
    "pandas nullable boolean": lambda: pd.Series(Y == 1, dtype="boolean"),
    "pandas nullable integer": lambda: pd.Series(Y, dtype="Int64"),
    "polars": lambda: pl.Series("default", np.where(Y == 1, "Yes", "No")),
    "polars category": lambda: pl.Series(np.where(Y == 1, "Yes", "No")).cast(pl.Categorical),
    "polars boolean": lambda: pl.Series(Y == 1),
    "pyarrow": lambda: pa.chunked_array([pa.array(np.where(Y == 1, "Yes", "No").tolist())]),
    "pyarrow boolean": lambda: pa.array((Y == 1).tolist()),
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_two_classes_of_any_type_are_zeros_and_ones(coding, loss):
    assert_same(explain(y=CODINGS[coding](), loss=loss), explain(loss=loss))


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars", "pyarrow"])
def test_classes_in_tables_of_every_library(library):
    table = {
        "numpy": lambda: FRAME.to_numpy(),
        "pandas": lambda: FRAME,
        "polars": lambda: pl.from_pandas(FRAME),
        "pyarrow": lambda: pa.Table.from_pandas(FRAME),
    }[library]()
    assert_same(explain(table, SPECIES), explain(y=SPECIES))


@pytest.mark.parametrize(("low", "high"), [(1, 2), (-1, 1), (3.5, 7.25)])
def test_numbers_of_two_classes_need_a_word_and_then_are_the_same(low, high):
    y = np.where(Y == 1, high, low)
    assert_same(explain(y=y, task="classification", loss="log-loss"), explain(loss="log-loss"))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_other_class_has_the_same_scores(loss):
    """Of a learner for which the classes are alike: both losses are symmetric in them."""
    labels = np.where(Y == 1, "Yes", "No")
    yes, no = (
        explain(y=labels, pos_label=name, loss=loss, estimator=LogisticRegression(tol=1e-12))
        for name in ("Yes", "No")
    )
    assert yes.spec["outcome"]["positive"] == "Yes"
    assert no.spec["outcome"]["positive"] == "No"
    np.testing.assert_allclose(yes.scores, no.scores, rtol=0, atol=1e-8)
    np.testing.assert_allclose(yes.se, no.se, rtol=0, atol=1e-8)
    np.testing.assert_allclose(yes.latent.scores, no.latent.scores, rtol=0, atol=1e-8)


def test_positive_of_three_classes_is_one_against_the_rest():
    of_one = explain(y=SPECIES, pos_label="Gentoo", loss="log-loss")
    by_hand = explain(y=(SPECIES == "Gentoo").astype(int), loss="log-loss")
    assert_same(of_one, by_hand)
    assert of_one.spec["outcome"]["positive"] == "Gentoo"


# several classes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_new_names_of_classes_permute_them_and_leave_the_sum(loss):
    names = {"Adelie": "z", "Chinstrap": "a", "Gentoo": "m"}
    renamed = np.array([names[label] for label in SPECIES])
    first = explain(
        y=SPECIES, loss=loss, estimator=LogisticRegression(solver="newton-cg", tol=1e-13)
    )
    second = explain(
        y=renamed, loss=loss, estimator=LogisticRegression(solver="newton-cg", tol=1e-13)
    )
    assert list(second.by_outcome) == ["a", "m", "z"]
    np.testing.assert_allclose(first.scores, second.scores, rtol=0, atol=1e-10)
    np.testing.assert_allclose(first.se, second.se, rtol=0, atol=1e-10)
    for old, new in names.items():
        np.testing.assert_allclose(
            first.by_outcome[old].scores, second.by_outcome[new].scores, rtol=0, atol=1e-10
        )


@pytest.mark.parametrize(
    ("transport", "loss"),
    [
        ("gaussian", "brier"),
        ("gaussian", "log-loss"),
        ("copula", "brier"),
        ("copula", "log-loss"),
        ("knothe-rosenblatt", "log-loss"),
    ],
)
def test_class_scores_add_up_under_every_transport(transport, loss):
    """Scores, influence values of every row, totals and shares."""
    result = explain(y=SPECIES, loss=loss, transport=transport, cv=2)
    np.testing.assert_allclose(added_up(result), result.scores, rtol=0, atol=1e-12)
    each = np.sum([part.influence for part in result.by_outcome.values()], axis=0)
    np.testing.assert_allclose(each, result.influence, rtol=0, atol=1e-12)
    totals = np.sum([part.totals.values for part in result.by_outcome.values()], axis=0)
    np.testing.assert_allclose(totals, result.totals.values, rtol=0, atol=1e-12)


SMALL_FOREST = RandomForestClassifier(10, min_samples_leaf=5, random_state=0)


def mixed_table():
    """A category and missing values beside numbers."""
    generator = np.random.default_rng(4)
    table = FRAME.copy()
    table["kind"] = np.array(["u", "v", "w"])[generator.integers(0, 3, N)]
    table.loc[generator.random(N) < 0.2, "b"] = np.nan
    return table


@pytest.mark.parametrize(("estimator", "loss"), [("boosting", "log-loss"), (SMALL_FOREST, "brier")])
def test_class_scores_add_up_with_categories_and_missing_values(estimator, loss):
    result = explain(mixed_table(), SPECIES, estimator, loss=loss, cv=2, transport_error="ignore")
    assert set(result.names) == {"a", "b", "c", "kind"}
    np.testing.assert_allclose(added_up(result), result.scores, rtol=0, atol=1e-12)


def test_class_scores_of_the_default_learner_add_up():
    result = explain(y=SPECIES, estimator="auto", cv=2, n_repeats=1)
    np.testing.assert_allclose(added_up(result), result.scores, rtol=0, atol=1e-12)
    assert list(result.by_outcome) == ["Adelie", "Chinstrap", "Gentoo"]


@pytest.mark.parametrize("method", ["loco", "dloco", "pfi", "shapley"])
@pytest.mark.parametrize("loss", LOSSES)
def test_class_scores_of_comparators_add_up(method, loss):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DFIWarning)
        result = dfi.compare(
            FRAME, SPECIES, method, estimator=LogisticRegression(), loss=loss, cv=3
        )[method]
    np.testing.assert_allclose(added_up(result), result.scores, rtol=0, atol=1e-12)


def test_the_estimator_takes_classes():
    fitted = dfi.DFI(estimator=LogisticRegression(), cv=3, diagnose=False, loss="log-loss").fit(
        FRAME, SPECIES
    )
    assert_same(fitted.result_, explain(y=SPECIES, loss="log-loss"))


# several outcomes, counts, names -----------------------------------------------------------------


def test_several_outcomes_are_the_sum_of_single_ones():
    outcomes = pd.DataFrame({"one": X[:, 0] + RNG.standard_normal(N), "two": np.exp(X[:, 2])})
    both = explain(y=outcomes, estimator=LinearRegression())
    singles = {name: explain(y=outcomes[name], estimator=LinearRegression()) for name in outcomes}
    for name, single in singles.items():
        assert_same(both.by_outcome[name], single)
    added = singles["one"].influence + singles["two"].influence
    np.testing.assert_array_equal(both.influence, added)
    np.testing.assert_allclose(
        both.scores, singles["one"].scores + singles["two"].scores, rtol=1e-14
    )
    arrays = explain(y=outcomes.to_numpy(), estimator=LinearRegression())
    np.testing.assert_array_equal(arrays.scores, both.scores)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_outcome_is_a_column_of_the_table(library):
    whole = FRAME.assign(species=SPECIES)
    table = {
        "pandas": lambda: whole,
        "polars": lambda: pl.from_pandas(whole),
        "pyarrow": lambda: pa.Table.from_pandas(whole),
    }[library]()
    named = explain(table, "species")
    assert_same(named, explain(y=SPECIES))
    assert named.names == ("a", "b", "c")
    assert named.spec["outcome"]["name"] == "species"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DFIWarning)
        loco = dfi.compare(table, "species", "loco", estimator=LogisticRegression(), cv=3)
    assert loco["loco"].names == ("a", "b", "c")


def test_counts_by_the_poisson_deviance():
    """The same scores for counts of any type; larger for the columns that enter the rate."""
    result = explain(y=COUNTS, estimator=PoissonRegressor(alpha=0), loss="poisson")
    assert result.spec["unit"] == "half the Poisson deviance"
    for y in (COUNTS.astype(float), pd.Series(COUNTS, dtype="Int64"), pl.Series(COUNTS)):
        assert_same(result, explain(y=y, estimator=PoissonRegressor(alpha=0), loss="poisson"))
    assert result.scores[0] > result.scores[2] > 0
    assert explain(y=COUNTS, estimator="auto", loss="poisson", n_repeats=1).scores[0] > 0


def test_positive_quantities_by_the_gamma_deviance():
    """In other units of the outcome a deviance is the same."""
    one, other = (
        explain(y=unit * POSITIVE, estimator=GammaRegressor(alpha=0, tol=1e-10), loss="gamma")
        for unit in (1.0, 1000.0)
    )
    np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-5)
    assert one.scores[0] > 0


# files, groups, weights, workers -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "estimator", "loss"),
    [
        (SPECIES, LogisticRegression(), "log-loss"),
        (COUNTS, PoissonRegressor(), "poisson"),
        (X[:, :2] + 1.0, LinearRegression(), "auto"),
    ],
    ids=["classes", "counts", "several"],
)
def test_saved_results_keep_outcomes_totals_and_quality(y, estimator, loss, tmp_path):
    result = explain(y=y, estimator=estimator, loss=loss)
    result.save(tmp_path / "result.dfi")
    loaded = dfi.load(tmp_path / "result.dfi")
    assert_same(loaded, result)
    assert list(loaded.by_outcome) == list(result.by_outcome)
    for name, part in result.by_outcome.items():
        assert_same(loaded.by_outcome[name], part)
        assert loaded.by_outcome[name].quality == part.quality
    assert loaded.quality == result.quality
    assert loaded.spec == result.spec
    np.testing.assert_array_equal(loaded.totals.values, result.totals.values)
    pd.testing.assert_frame_equal(loaded.table(), result.table())


GROUPS = {"first two": ["a", "b"], "last": ["c"]}


@pytest.mark.parametrize("loss", LOSSES)
def test_groups_of_columns_with_classes(loss):
    summed = explain(y=SPECIES, loss=loss).group(GROUPS)
    columns = explain(y=SPECIES, loss=loss)
    expected = [columns.scores[:2].sum(), columns.scores[2]]
    np.testing.assert_allclose(summed.scores, expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(added_up(summed), summed.scores, rtol=0, atol=1e-12)
    joint = explain(y=SPECIES, loss=loss, feature_groups=GROUPS, units="groups", n_repeats=1)
    np.testing.assert_allclose(added_up(joint), joint.scores, rtol=0, atol=1e-12)
    assert joint.names == ("first two", "last")
    # what the two share counts once
    assert joint.scores[0] < summed.scores[0] + 2 * summed.se[0]


def logistic(table):
    values = np.asarray(table, dtype=float)
    return special.expit(0.2 + 1.4 * values[:, 0] - values[:, 2])


def soft(table):
    values = np.asarray(table, dtype=float)
    margins = np.column_stack([1.5 * values[:, 0], 1.2 * values[:, 2], 0 * values[:, 0]])
    return special.softmax(margins, axis=1)


@pytest.mark.parametrize("reference", ["gaussian", "empirical"])
@pytest.mark.parametrize(("y", "model"), [(Y, logistic), (SPECIES, soft)], ids=["two", "three"])
def test_weights_of_whole_numbers_are_repeated_rows(y, model, reference):
    count = np.random.default_rng(1).integers(1, 4, N)
    repeated = np.repeat(np.arange(N), count)
    options = {
        "estimator": model,
        "cv": "prefit",
        "loss": "log-loss",
        "transport": dfi.transports.Gaussian(reference=reference),
    }
    counted = explain(X, y, frequency_weight=count, transport_error="derived", **options)
    long = explain(X[repeated], y[repeated], transport_error="derived", **options)
    np.testing.assert_allclose(counted.scores, long.scores, rtol=0, atol=1e-12)
    np.testing.assert_allclose(counted.se, long.se, rtol=1e-9)


def test_sampling_weights_of_whole_numbers_give_the_scores_of_repeated_rows():
    """Under Brier's score; under log-loss the guard against 0 and 1 is of 1/(n + 1) rows."""
    count = np.random.default_rng(1).integers(1, 4, N)
    repeated = np.repeat(np.arange(N), count)
    options = {"estimator": logistic, "cv": "prefit", "transport_error": "ignore"}
    for loss, tolerance in (("brier", 1e-12), ("log-loss", 1e-3)):
        weighted = explain(X, Y, sample_weight=count, loss=loss, **options)
        plain = explain(X[repeated], Y[repeated], loss=loss, **options)
        np.testing.assert_allclose(weighted.scores, plain.scores, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("y", "estimator", "loss"),
    [
        (SPECIES, LGBMClassifier(n_estimators=10, num_leaves=5, verbose=-1, n_jobs=1), "log-loss"),
        (Y, RandomForestClassifier(10, min_samples_leaf=5, random_state=0), "brier"),
        (Y, "auto", "log-loss"),
    ],
    ids=["three classes", "forest", "default"],
)
def test_workers_give_the_same_bits(y, estimator, loss):
    one, two = (explain(y=y, estimator=estimator, loss=loss, cv=2, n_jobs=k) for k in (1, 2))
    assert_same(one, two)
    for name, part in one.by_outcome.items():
        assert_same(part, two.by_outcome[name])


# nulls and properties ----------------------------------------------------------------------------


def rate(table):
    return np.exp(0.3 + 0.6 * np.asarray(table, dtype=float)[:, 0])


@pytest.mark.parametrize(
    ("y", "model", "loss"),
    [
        (Y, logistic, "brier"),
        (Y, logistic, "log-loss"),
        (Y, logistic, "zero-one"),
        (SPECIES, soft, "brier"),
        (SPECIES, soft, "log-loss"),
        (COUNTS, rate, "poisson"),
        (COUNTS, rate, "squared-error"),
        (POSITIVE, rate, "gamma"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_column_that_no_model_reads_scores_exactly_nothing(y, model, loss):
    """Alone in its component, so no shared signal reaches it."""
    unread = np.random.default_rng(8).standard_normal(N)
    result = explain(np.column_stack([X, unread]), y, model, cv="prefit", loss=loss)
    assert result.scores[3] == 0.0
    assert result.latent.scores[3] == 0.0
    assert all(part.scores[3] == 0.0 for part in result.by_outcome.values())


@given(
    rows=st.permutations(range(N)).map(np.array),
    columns=st.permutations(range(3)),
    units=st.tuples(*[st.floats(0.01, 100.0)] * 3),
    shifts=st.tuples(*[st.floats(-5.0, 5.0)] * 3),
)
@settings(max_examples=6)
def test_order_of_rows_and_columns_and_units_do_not_matter(rows, columns, units, shifts):
    columns, units, shifts = list(columns), np.array(units), np.array(shifts)
    back = np.argsort(columns)

    def other(table):
        values = (np.asarray(table)[:, back] - shifts) / units
        return logistic(values)

    options = {"cv": "prefit", "loss": "log-loss", "transport_error": "derived"}
    first = explain(X, Y, logistic, **options)
    second = explain((X * units + shifts)[rows][:, columns], Y[rows], other, **options)
    np.testing.assert_allclose(second.scores[back], first.scores, rtol=0, atol=1e-9)
    np.testing.assert_allclose(second.se[back], first.se, rtol=0, atol=1e-9)


def test_a_copy_of_a_result_keeps_its_outcomes():
    result = explain(y=SPECIES)
    assert list(replace(result).by_outcome) == list(result.by_outcome)


def test_classes_share_one_transport(monkeypatch):
    """An outcome has no part in it: it is fitted once, and nothing of it is kept afterwards."""
    from dfi.transports.gaussian import Gaussian

    fitted = []
    fit_source = Gaussian.fit_source

    def told(self, *arguments, **options):
        fitted.append(self)
        return fit_source(self, *arguments, **options)

    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(150), [-0.5, 0.5])
    monkeypatch.setattr(Gaussian, "fit_source", told)
    whole = dfi.explain(X, y.astype(str), "linear", cv=2, diagnose=False)
    assert len(fitted) == 1
    assert whole.source.fits.cache.shared == {}
