"""A row that rules, columns that tell the outcome, few clusters, rows in order of time."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi._diagnosis.codes import is_code
from dfi.warnings import DFIWarning, InferenceWarning, LeakWarning


def table(n=120, seed=0):
    generator = np.random.default_rng(seed)
    X = pd.DataFrame(generator.standard_normal((n, 4)), columns=list("abcd"))
    return X, X["a"] + X["b"] + generator.standard_normal(n)


def said(call, category):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    return found, [str(w.message) for w in caught if issubclass(w.category, category)]


@pytest.mark.parametrize("labelled", [True, False])
def test_row_that_rules_a_score_is_named_as_its_table_names_it(labelled):
    X, y = table()
    X.loc[17, "b"], y[17] = 40.0, -30.0
    if labelled:
        X.index = y.index = [f"house {k}" for k in range(len(X))]
    found, texts = said(lambda: dfi.explain(X, y, "linear"), InferenceWarning)
    assert texts == []
    (finding,) = [finding for finding in found.findings if finding.kind == "ruling row"]
    assert ("row 'house 17' alone" if labelled else "row 17 alone") in finding.what
    assert "b" in finding.about
    assert found.trust.by_feature["b"] == "do not rely on it"
    assert found.trust != "sound"


def test_row_that_rules_how_signal_is_shared_is_named():
    """It breaks a correlation, and with it how the signal is divided; scores hardly move."""
    generator = np.random.default_rng(1)
    X = generator.standard_normal((300, 3))
    X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    y = X @ [1.0, 1.0, 0.5] + generator.standard_normal(300)
    assert not [f for f in dfi.explain(X, y, "linear").findings if f.kind == "ruling row"]
    X[7, :2] = 6.0, -6.0
    found = dfi.explain(X, y, "linear")
    (finding,) = [finding for finding in found.findings if finding.kind == "ruling row"]
    assert finding.severity == "care"
    assert finding.what.startswith("row 7 alone dominates the shares of 'x0' and 'x1' (most")
    assert finding.about == ("x0", "x1")
    assert found.trust.by_feature["x0"] == "with care"
    assert found.trust.by_feature["x2"] == "sound"


def test_a_cell_that_hides_its_column_is_named():
    """A gross error makes the column a near constant: near-copies get its score, silently."""
    generator = np.random.default_rng(0)
    a = generator.standard_normal(300)
    X = pd.DataFrame({"a": a, "b": a, "c": a, "d": 0.0}) + 0.05 * generator.standard_normal(
        (300, 4)
    )
    y = a + generator.standard_normal(300)
    assert dfi.explain(X, y).trust == "sound"
    right, X.loc[7, "b"] = X.loc[7, "b"], 1e9
    found = dfi.explain(X, y)
    (finding,) = [finding for finding in found.findings if finding.kind == "ruling row"]
    assert finding.what.startswith("row 7 alone holds 100 % of the variance of 'b'")
    assert found.trust.by_feature["b"] == "do not rely on it"
    assert found.trust == "with care"
    # a category of one row is no error
    X.loc[7, "b"], X["d"] = right, np.arange(300) == 7
    assert not [f for f in dfi.explain(X, y, "linear").findings if f.kind == "ruling row"]


def test_a_value_where_other_columns_have_gaps_rules_none():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(158, 5, (150, 3)), columns=list("abc"))
    X.loc[:5, ["a", "b"]] = np.nan
    X.loc[5, "b"] = 149.0  # present where all others with a gap in a have one in b
    y = X["c"] + rng.normal(size=150)
    assert not [f for f in dfi.explain(X, y, "linear").findings if f.kind == "ruling row"]


def test_row_is_named_by_its_place_in_the_table_before_rows_were_left_out():
    X, y = table()
    X.loc[17, "b"], y[17] = 40.0, -30.0
    X.loc[:4, "c"] = np.nan
    call = lambda: dfi.explain(X.to_numpy(), y.to_numpy(), "linear", missing="drop")  # noqa: E731
    found, _ = said(call, DFIWarning)
    assert any("row 17 alone" in reason.what for reason in found.trust.reasons)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.3])
def test_linear_combination_that_tells_the_outcome_is_named(noise):
    X, _ = table()
    y = X["a"] + 2.0 * X["c"] - X["d"] + noise * np.random.default_rng(1).standard_normal(len(X))
    _, texts = said(lambda: dfi.explain(X, y, "linear"), LeakWarning)
    if noise > 0.1:
        assert texts == []
    else:
        (text,) = texts
        assert text.startswith("'a', 'c' and 'd' determine the outcome by a linear combination")


def test_rounded_complement_is_a_leak_beside_many_columns():
    """Hours asleep and awake, beside more columns than a regression of them all could take."""
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.standard_normal((60, 30))).add_prefix("x")
    asleep = generator.uniform(2, 20, 60)
    X["awake"] = np.round(24.0 - asleep, 1)
    _, texts = said(lambda: dfi.explain(X, asleep, "ridge", cv=2), LeakWarning)
    (text,) = texts
    assert text.startswith("'awake' determines the outcome by a straight line")


@pytest.mark.parametrize(("copy", "leaks"), [
    (np.log, True),
    (lambda y: -np.sqrt(y), True),
    (lambda y: np.log(y).round(3), True),
    (lambda y: np.log(y) + 0.3 * np.random.default_rng(2).standard_normal(len(y)), False),
])  # fmt: skip
def test_monotone_copy_of_the_outcome_is_a_leak(copy, leaks):
    X, y = table()
    y = np.exp(y)
    X["copy"] = copy(y)
    _, texts = said(lambda: dfi.explain(X, y, "linear", cv=2), LeakWarning)
    assert [text[:38] for text in texts] == ["'copy' puts the rows in the order of t"] * leaks


def test_column_nearly_in_the_order_of_the_outcome_gets_a_note():
    X, y = table()
    X["copy"] = y + 0.15 * y.std() * np.random.default_rng(2).standard_normal(len(y))
    result = dfi.explain(X, y, "linear", cv=2)
    (note,) = (told for told in result.findings if told.kind == "leak")
    assert note.severity == "note"
    assert note.what == "'copy' puts the rows nearly in the order of the outcome"


@pytest.mark.parametrize(("values", "code"), [
    ([0, 1, 20, 31], True),
    ([8, 12, 14, 16, 18], False),
    ([0, 1, 2, 3, 4, 5], False),
    ([0, 1, 2], False),
    ([0.5, 1, 20, 31], False),
])  # fmt: skip
def test_leading_column_of_uneven_whole_numbers_may_be_a_code(values, code):
    generator = np.random.default_rng(0)
    place = generator.integers(0, len(values), 400)
    X = pd.DataFrame({"level": np.array(values)[place], "x": generator.standard_normal(400)})
    y = place + X["x"] + generator.standard_normal(400)
    said = [told.what for told in dfi.explain(X, y, "linear").findings if told.kind == "codes"]
    assert said == ["'level' is read as a number with few, unevenly spaced values"] * code


def test_rare_large_count_is_no_code():
    assert not is_code(np.repeat([0.0, 1.0, 2.0, 3.0, 40.0], [100, 80, 60, 50, 2]))


def test_feature_that_separates_two_classes_is_no_copy_of_the_outcome():
    X, y = table()
    _, texts = said(lambda: dfi.explain(X.assign(e=y), y > 0, "linear", cv=2), LeakWarning)
    assert texts == []


def test_single_gap_does_not_rule_its_column():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((60, 3)), columns=list("abc"))
    y = X["a"] + 0.5 * X["b"] + 0.3 * np.random.default_rng(1).standard_normal(60)
    X.loc[3, "b"] = np.nan
    result = dfi.explain(X, y, "linear", cv=2)
    assert not any("look alike" in finding.what for finding in result.findings)


@pytest.mark.parametrize(("clusters", "rough"), [(12, True), (15, False)])
def test_fewer_than_fifteen_clusters_are_few(clusters, rough):
    X, y = table()
    labels = np.arange(len(X)) % clusters
    found = dfi.explain(X, y, "linear", clusters=labels, diagnose=False)
    assert any(f"{clusters} clusters" in reason.what for reason in found.trust.reasons) is rough


def test_two_folds_of_a_rigid_model_are_said_in_the_result():
    X, y = table()
    (reason,) = dfi.explain(X, y, "linear", cv=2).trust.reasons
    assert reason.kind == "two folds"
    assert reason.remedy == "Use cv=5"
    assert dfi.explain(X, y, "linear").trust == "sound"


def walk(seed, rho, n=200):
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((n, 3))
    for t in range(1, n):
        values[t] += rho * values[t - 1]
    X = pd.DataFrame(values[:, :2], columns=["a", "b"])
    return X.assign(y=X["a"] + values[:, 2])


def in_days(frame):
    return frame.set_axis(pd.date_range("2021-01-01", periods=len(frame)), axis=0)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda seed: walk(seed, 0.0), None),
        (lambda seed: walk(seed, 0.85), "neighbouring rows are correlated"),
        (lambda seed: in_days(walk(seed, 0.0)), "dates name the rows, in order"),
        (lambda seed: walk(seed, 0.0).assign(t=np.arange(200) / 7), "rows are sorted by 't'"),
    ],
)
def test_change_of_rows_in_order_of_time_says_that_it_takes_them_as_independent(made, words):
    _, texts = said(lambda: dfi.change(made(0), made(1), "y", "linear", diagnose=False), DFIWarning)
    if words is None:
        assert texts == []
    else:
        (text,) = [text for text in texts if "treats rows as independent" in text]
        assert words in text


def schools(seed=0, n=300):
    generator = np.random.default_rng(seed)
    school = generator.integers(0, 40, n)
    X = pd.DataFrame(
        {
            "mean": generator.standard_normal(40)[school],
            "sector": generator.integers(0, 2, 40)[school].astype(float),
            "ses": generator.standard_normal(n),
        }
    )
    return X, X["mean"] + X["ses"] + generator.standard_normal(n), school


def grouped(X, y, **options):
    found = dfi.explain(X, y, "linear", **options).findings
    return [finding for finding in found if finding.kind == "groups of rows"]


def test_columns_that_belong_to_groups_of_rows_are_said_to():
    X, y, school = schools()
    (finding,) = grouped(X, y)
    assert finding.severity == "care"
    assert "'mean'" in finding.what
    assert "'sector'" in finding.what
    assert finding.numbers["groups"] == 40
    assert "clusters" in finding.remedy
    # who says so is not told again
    assert not grouped(X, y, clusters=school)


@pytest.mark.parametrize(
    "change", ["of rows", "a threshold", "no value is shared", "rare values of single rows"]
)
def test_columns_of_rows_are_not_taken_for_those_of_groups(change):
    X, y, _ = schools()
    generator = np.random.default_rng(1)
    if change == "of rows":
        X["sector"] = generator.integers(0, 2, len(X)).astype(float)
    elif change == "a threshold":
        X["sector"] = (X["mean"] > 0.3).astype(float)
    elif change == "rare values of single rows":
        # the rows of a rare level are the only ones with their value: no group says anything
        X["sector"], alone = 0.0, generator.permutation(len(X))[:30]
        X.loc[alone, "sector"] = 1.0
        X.loc[alone, "mean"] += 1e-3 * generator.standard_normal(30)
    else:
        X["mean"] += 1e-3 * generator.standard_normal(len(X))
    assert not grouped(X, y)
