"""Treatment effects: known truths, an independent twin, labels, and every refusal by its words."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import expit
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import KFold, RepeatedKFold, TimeSeriesSplit

import dfi
from dfi._data import source
from dfi.results.call import call_text
from dfi.results.file import thaw
from dfi.warnings import InferenceWarning, MissingValuesWarning, OverlapWarning

D = 4
CORRELATION = 0.5 ** np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
SLOPES = np.array([1.0, 0.6, 0.0, 0.0])
BACKWARDS = pd.CategoricalDtype(["b", "a", "c"])
QUICK = {"outcome_model": "linear", "propensity_model": "linear", "diagnose": False}


def sample(n=600, seed=0, slopes=SLOPES, base=1.0, confounding=0.5, curved=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) @ np.linalg.cholesky(CORRELATION).T
    chance = expit(confounding * (X[:, 0] - X[:, 2]))
    arm = (rng.random(n) < chance).astype(int)
    mean = X[:, 0] + 0.5 * X[:, 2] + curved * X[:, 0] ** 2
    y = mean + arm * (base + X @ slopes) + rng.standard_normal(n)
    return X, y, arm, chance


def truth(slopes=SLOPES):
    """Latent and attributed scores of a linear effect of Gaussian features."""
    values, vectors = np.linalg.eigh(CORRELATION)
    root = (vectors * np.sqrt(values)) @ vectors.T
    latent = (root @ slopes) ** 2
    return latent, root**2 @ latent


def splits_of(n, k=5, seed=3):
    fold = np.random.default_rng(seed).permutation(n) % k
    return [(np.flatnonzero(fold != j), np.flatnonzero(fold == j)) for j in range(k)]


def twin(X, y, arm, splits, chance=None, clip=0.05):
    """Pseudo-outcomes, written once more: least squares in each arm, one fold after the other."""
    psi = np.full(len(y), np.nan)
    for train, test in splits:
        mu = {
            a: LinearRegression().fit(X[train][arm[train] == a], y[train][arm[train] == a])
            for a in (0, 1)
        }
        for i in test:
            m1, m0 = (float(mu[a].predict(X[[i]])[0]) for a in (1, 0))
            e = min(max(chance[i], clip), 1 - clip)
            correction = (y[i] - m1) / e if arm[i] == 1 else -(y[i] - m0) / (1 - e)
            psi[i] = m1 - m0 + correction
    return psi


def near(result, expected, errors=4.0):
    return bool(np.all(np.abs(result.scores - expected) <= errors * result.se))


def test_scores_of_a_linear_effect_are_those_of_the_closed_form():
    X, y, arm, _ = sample(4000, 1)
    result = dfi.effects(X, y, arm, "linear", **QUICK)
    latent, attributed = truth()
    assert near(result, attributed)
    assert near(result.latent, latent)
    assert result.se.max() < 0.1
    average = result.diagnostics["average effect"]
    assert abs(average["value"] - 1.0) < 4 * average["se"]
    assert average["ci_low"] < average["value"] < average["ci_high"]
    assert result.spec["form"] == "cross"


@pytest.mark.filterwarnings("ignore::dfi.warnings.OverlapWarning")
def test_pseudo_outcomes_are_those_of_an_independent_twin():
    X, y, arm, chance = sample(150, 2)
    splits = splits_of(150)
    known = np.clip(chance, 0.2, 0.7)
    own = dfi.effects(
        X, y, arm, "linear", cv=splits, outcome_model="linear", propensity_model=known, clip=0.3,
        diagnose=False,
    )  # fmt: skip
    psi = twin(X, y, arm, splits, known, clip=0.3)
    explained = dfi.explain(X, psi, "linear", cv=splits, form="cross", diagnose=False)
    np.testing.assert_allclose(own.scores, explained.scores, atol=1e-9)
    np.testing.assert_allclose(own.se, explained.se, atol=1e-9)
    assert own.diagnostics["average effect"]["value"] == pytest.approx(psi.mean(), abs=1e-9)
    error = psi.std(ddof=1) / np.sqrt(150)
    assert own.diagnostics["average effect"]["se"] == pytest.approx(error, abs=1e-9)
    overlap = own.diagnostics["overlap of treatment"]
    assert overlap["clipped"] == pytest.approx(np.mean((known < 0.3) | (known > 0.7)))
    inverse = 1.0 / np.clip(known, 0.3, 0.7)[arm == 1]
    assert overlap["treated"]["effective"] == pytest.approx(inverse.sum() ** 2 / (inverse**2).sum())
    assert overlap["treated"]["rows"] == (arm == 1).sum()
    assert (overlap["least"], overlap["most"]) == (known.min(), known.max())


def test_given_pseudo_outcomes_give_what_own_ones_give():
    X, y, arm, chance = sample(150, 2)
    splits = splits_of(150)
    own = dfi.effects(
        X, y, arm, "linear", cv=splits, outcome_model="linear", propensity_model=chance,
        diagnose=False,
    )  # fmt: skip
    psi = pd.Series(twin(X, y, arm, splits, chance), name="psi")
    given = dfi.effects(X, pseudo_outcome=psi, estimator="linear", cv=splits, diagnose=False)
    np.testing.assert_allclose(given.influence, own.influence, atol=1e-9)
    assert given.spec["outcome"]["name"] == "psi"
    value = given.diagnostics["average effect"]["value"]
    assert value == pytest.approx(own.diagnostics["average effect"]["value"], abs=1e-9)
    assert "overlap of treatment" not in given.diagnostics
    frame = pl.DataFrame(X, schema=list("abcd")).with_columns(psi=pl.Series(psi.to_numpy()))
    named = dfi.effects(frame, pseudo_outcome="psi", estimator="linear", cv=splits, diagnose=False)
    assert np.array_equal(named.scores, given.scores)
    assert named.names == ("a", "b", "c", "d")


def test_a_wrong_outcome_model_does_no_harm_where_the_propensity_is_right():
    X, y, arm, _ = sample(4000, 3)
    result = dfi.effects(
        X, y, arm, "linear", outcome_model=DummyRegressor(), propensity_model="linear",
        diagnose=False,
    )  # fmt: skip
    average = result.diagnostics["average effect"]
    assert abs(average["value"] - 1.0) < 4 * average["se"]
    assert near(result, truth()[1])


def test_a_wrong_propensity_does_no_harm_where_the_outcome_model_is_right():
    X, y, arm, _ = sample(4000, 4)
    result = dfi.effects(
        X, y, arm, "linear", outcome_model="linear", propensity_model=DummyClassifier(),
        diagnose=False,
    )  # fmt: skip
    average = result.diagnostics["average effect"]
    assert abs(average["value"] - 1.0) < 4 * average["se"]
    assert near(result, truth()[1])


def test_both_wrong_is_biased():
    """What the two before rest on: without either model the average effect is far off."""
    X, y, arm, _ = sample(4000, 4)
    result = dfi.effects(
        X, y, arm, "linear", outcome_model=DummyRegressor(), propensity_model=DummyClassifier(),
        diagnose=False,
    )  # fmt: skip
    average = result.diagnostics["average effect"]
    assert abs(average["value"] - 1.0) > 4 * average["se"]


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_an_effect_that_is_the_same_for_all_has_no_significant_score():
    """Ten trials of four scores, each at a family-wise level of 1 %."""
    for seed in range(10):
        X, y, arm, _ = sample(400, [5, seed], slopes=np.zeros(D), base=3.0)
        result = dfi.effects(X, y, arm, "linear", **QUICK)
        assert np.min(result.table()["p_adj"]) > 0.01
        assert result.diagnostics["average effect"]["ci_low"] > 2.0


@pytest.mark.parametrize(
    "labels",
    [
        lambda arm: arm.astype(bool),
        lambda arm: arm.astype(float),
        lambda arm: arm + 1,
        lambda arm: arm - 0.5,
        lambda arm: list(np.where(arm == 1, "placebo-not", "placebo")),
        lambda arm: pd.Series(np.where(arm == 1, "a", "b")).astype(BACKWARDS),
        lambda arm: pl.Series("T", np.where(arm == 1, "new", "control")),
        lambda arm: pa.array(arm == 1),
    ],
)
def test_labels_of_the_arms_do_not_matter(labels):
    X, y, arm, _ = sample(200, 6)
    plain = dfi.effects(X, y, arm, "linear", **QUICK)
    other = dfi.effects(X, y, labels(arm), "linear", **QUICK)
    assert np.array_equal(plain.influence, other.influence)


def test_which_arm_is_called_treated_changes_the_sign_of_the_effect_only():
    X, y, arm, _ = sample(300, 7)
    text = np.where(arm == 1, "drug", "placebo")
    plain = dfi.effects(X, y, arm, "linear", **QUICK)
    last = dfi.effects(X, y, text, "linear", **QUICK)
    named = dfi.effects(X, y, text, "linear", treated="drug", **QUICK)
    assert np.array_equal(plain.influence, named.influence)
    np.testing.assert_allclose(last.scores, plain.scores, atol=1e-7)
    value = plain.diagnostics["average effect"]["value"]
    assert last.diagnostics["average effect"]["value"] == pytest.approx(-value, abs=1e-7)
    assert last.spec["outcome"]["effect"]["treated"] == "placebo"
    assert named.spec["outcome"]["effect"]["control"] == "placebo"


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_outcome_and_treatment_are_named_columns(library):
    X, y, arm, _ = sample(200, 6)
    columns = {name: X[:, k] for k, name in enumerate("abcd")} | {"pain": y, "drug": arm}
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library](columns)
    named = dfi.effects(frame, "pain", "drug", "linear", **QUICK)
    plain = dfi.effects(X, y, arm, "linear", **QUICK)
    assert np.array_equal(named.influence, plain.influence)
    assert named.names == ("a", "b", "c", "d")
    assert named.spec["outcome"]["name"] == "effect of drug on pain"
    assert named.spec["outcome"]["effect"]["contrast"] == "difference of means"


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_classes_have_a_difference_of_risks():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((3000, 3))
    arm = rng.random(3000) < 0.5
    sick = rng.random(3000) < 0.5 - 0.2 * arm * (X[:, 0] > 0)
    y = np.where(sick, "sick", "well")
    result = dfi.effects(
        X, y, arm, "ridge", outcome_model="ridge", propensity_model=0.5, pos_label="sick",
        diagnose=False,
    )  # fmt: skip
    average = result.diagnostics["average effect"]
    assert abs(average["value"] + 0.1) < 4 * average["se"]
    assert int(result.scores.argmax()) == 0
    assert result.spec["outcome"]["effect"]["contrast"] == "difference of risks of y = sick"
    three = np.where(X[:, 1] > 1, "dead", y)
    one = dfi.effects(
        X, three, arm, "ridge", outcome_model="ridge", propensity_model=0.5, pos_label="dead",
        diagnose=False,
    )  # fmt: skip
    assert one.spec["outcome"]["effect"]["contrast"] == "difference of risks of y = dead"


@pytest.mark.full
def test_the_default_learners_find_a_bent_effect():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((700, 3))
    arm = rng.random(700) < expit(X[:, 1])
    y = X[:, 1] + arm * (1.5 * X[:, 0] ** 2) + 0.5 * rng.standard_normal(700)
    result = dfi.effects(X, y, arm)
    assert int(result.scores.argmax()) == 0
    assert result.table()["p_adj"][0] < 0.01
    assert result.spec["form"] == "cross"
    assert result.spec["outcome"]["effect"]["propensity_model"] == "auto"


def test_weights_reach_models_propensity_and_average():
    X, y, arm, _ = sample(400, 10)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 400)
    splits = splits_of(400)
    plain = dfi.effects(X, y, arm, "linear", cv=splits, **QUICK)
    weighted = dfi.effects(X, y, arm, "linear", cv=splits, sample_weight=weight, **QUICK)
    ones = dfi.effects(X, y, arm, "linear", cv=splits, sample_weight=np.full(400, 7.0), **QUICK)
    np.testing.assert_allclose(ones.scores, plain.scores, rtol=1e-6)
    assert not np.allclose(weighted.scores, plain.scores, rtol=1e-3)
    learner = LogisticRegression(C=1e6)
    found = dfi.effects(
        X, y, arm, "linear", cv=splits, sample_weight=weight, outcome_model=LinearRegression(),
        propensity_model=learner, diagnose=False,
    )  # fmt: skip
    psi = np.zeros(400)
    for train, test in splits:
        e = learner.fit(X[train], arm[train], weight[train]).predict_proba(X[test])[:, 1]
        e = np.clip(e, 0.05, 0.95)
        m = [
            LinearRegression().fit(X[t], y[t], weight[t]).predict(X[test])
            for t in (train[arm[train] == 0], train[arm[train] == 1])
        ]
        psi[test] = np.where(
            arm[test] == 1, m[1] - m[0] + (y[test] - m[1]) / e,
            m[1] - m[0] - (y[test] - m[0]) / (1 - e),
        )  # fmt: skip
    average = np.average(psi, weights=weight)
    assert found.diagnostics["average effect"]["value"] == pytest.approx(average, abs=1e-8)


def test_rows_of_weight_zero_do_not_count():
    X, y, arm, _ = sample(300, 11)
    absent = np.zeros(300, dtype=bool)
    absent[:40] = True
    spoiled = np.where(absent, 1e3, y)
    splits = splits_of(300)
    shared = {"cv": splits, "sample_weight": np.where(absent, 0.0, 1.0), **QUICK}
    one = dfi.effects(X, y, arm, "linear", **shared)
    other = dfi.effects(X, spoiled, arm, "linear", **shared)
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6)


def test_categories_missing_values_and_groups_are_units():
    X, y, arm, _ = sample(400, 12)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["a"] = np.where(rng.random(400) < 0.2, np.nan, frame["a"])
    frame["town"] = rng.choice(["x", "y", "z"], 400)
    result = dfi.effects(frame, y, arm, "ridge", **QUICK)
    assert result.names == ("a", "b", "c", "d", "town")
    assert int(result.scores.argmax()) in (0, 1)
    groups = {"left": ["a", "b"], "right": ["c", "d"]}
    joint = result.group(groups, how="joint")
    assert joint.names == ("left", "right")
    assert joint.diagnostics["average effect"] == result.diagnostics["average effect"]
    assert "overlap of treatment" in joint.diagnostics
    units = dfi.effects(
        frame, y, arm, "ridge", feature_groups=groups, units="groups", n_repeats=1, **QUICK
    )
    assert units.names == ("left", "right")


def test_rows_that_are_dropped_are_dropped_from_the_treatment_too():
    X, y, arm, chance = sample(300, 13)
    gaps = np.zeros(300, dtype=bool)
    gaps[::7] = True
    holes = np.where(gaps[:, None] & (np.arange(D) == 1), np.nan, X)
    with pytest.warns(MissingValuesWarning):
        dropped = dfi.effects(
            holes, y, arm, "linear", missing="drop", outcome_model="linear",
            propensity_model=chance, diagnose=False,
        )  # fmt: skip
    kept = dfi.effects(
        X[~gaps], y[~gaps], arm[~gaps], "linear", outcome_model="linear",
        propensity_model=chance[~gaps], diagnose=False,
    )  # fmt: skip
    assert np.array_equal(dropped.influence, kept.influence)


def test_several_splits_average_their_pseudo_outcomes():
    X, y, arm, chance = sample(200, 14)
    cv = RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)
    splits = list(cv.split(X))
    psi = [twin(X, y, arm, splits[4 * r : 4 * r + 4], chance) for r in range(2)]
    result = dfi.effects(
        X, y, arm, "linear", cv=cv, outcome_model="linear", propensity_model=chance,
        diagnose=False,
    )  # fmt: skip
    average = result.diagnostics["average effect"]["value"]
    assert average == pytest.approx(np.mean(psi), abs=1e-9)
    explained = dfi.explain(
        X, np.mean(psi, axis=0), "linear", cv=splits, form="cross", diagnose=False
    )
    np.testing.assert_allclose(result.scores, explained.scores, atol=1e-8)


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_clusters_make_the_error_of_the_average_effect_too():
    X, y, arm, _ = sample(300, 15)
    label = np.repeat(np.arange(60), 5)
    y = y + np.repeat(np.random.default_rng(0).standard_normal(60) * 3, 5) * arm
    plain = dfi.effects(X, y, arm, "linear", **QUICK)
    grouped = dfi.effects(X, y, arm, "linear", clusters=label, **QUICK)
    ratio = grouped.diagnostics["average effect"]["se"] / plain.diagnostics["average effect"]["se"]
    assert ratio > 1.15
    assert "clusters" in grouped.spec["dependence"]


def test_large_tables_go_by_samples_as_others_do(monkeypatch):
    X, y, arm, _ = sample(3000, 16)
    whole = dfi.effects(X, y, arm, "linear", **QUICK)
    monkeypatch.setattr(source, "LARGE_ROWS", 1000)
    result = dfi.effects(X, y, arm, "linear", explain_rows=1500, **QUICK)
    assert result.spec["explained_rows"] == 1500
    assert near(result, whole.scores)
    assert result.diagnostics["average effect"] == whole.diagnostics["average effect"]


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
def test_poor_overlap_is_said_and_good_overlap_is_not(tmp_path):
    X, y, arm, _ = sample(500, 17, confounding=4.0)
    with pytest.warns(OverlapWarning, match="'treatment' overlap poorly: propensities lie between"):
        result = dfi.effects(X, y, arm, "linear", **QUICK)
    overlap = result.diagnostics["overlap of treatment"]
    assert overlap["poor"]
    assert overlap["clipped"] > 0.05
    page = result.report(tmp_path / "page.html").read_text()
    assert "Overlap is poor: propensities lie between" in page
    good = dfi.effects(X, y, np.arange(500) % 2, "linear", **QUICK)
    assert not good.diagnostics["overlap of treatment"]["poor"]


def test_a_result_tells_of_its_effect_in_text_page_and_file(tmp_path):
    X, y, arm, _ = sample(300, 18)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(pain=y, drug=arm)
    result = dfi.effects(frame, "pain", "drug", "linear", **QUICK)
    page = result.report(tmp_path / "page.html").read_text()
    assert "What explains effect of drug on pain?" in page
    assert "This explains how an effect differs from row to row." in page
    assert "Average effect: " in page
    assert "Average effect: " in str(result)
    assert "variance of effect of" not in page
    assert "dfi.effects(X, y, treatment, outcome_model=" in page
    result.save(tmp_path / "effect.dfi")
    again = dfi.load(tmp_path / "effect.dfi")
    assert dict(again.diagnostics) == dict(result.diagnostics)
    assert dict(again.spec) == dict(result.spec)
    assert again.spec["outcome"]["effect"]["treatment"] == "drug"
    assert result.latent.diagnostics["average effect"] == result.diagnostics["average effect"]


def test_the_call_is_told_as_it_could_be_written():
    X, y, arm, chance = sample(200, 21)
    shared = {"outcome_model": LinearRegression(), "diagnose": False}
    for propensity, text in ((0.5, "0.5"), (chance, "e"), ("linear", "'linear'")):
        result = dfi.effects(X, y, arm, "linear", propensity_model=propensity, **shared)
        call = call_text(thaw(result.spec))
        assert call.startswith(
            f"dfi.effects(X, y, treatment, outcome_model=LinearRegression(), "
            f"propensity_model={text}, clip=0.05, estimator='linear', "
        )
    psi = y + np.random.default_rng(0).standard_normal(200) * 3
    given = dfi.effects(X, pseudo_outcome=psi, estimator="linear", diagnose=False)
    assert call_text(thaw(given.spec)).startswith("dfi.effects(X, pseudo_outcome=psi, estimator=")


def test_a_page_of_no_differences_does_not_deny_the_effect(tmp_path):
    X, y, arm, _ = sample(400, [5, 1], slopes=np.zeros(D), base=3.0)
    with pytest.warns(dfi.warnings.WeakModelWarning, match="^no differences between effects are"):
        result = dfi.effects(X, y, arm, "linear", **QUICK)
    assert result.quality.r2 <= 0
    page = result.report(tmp_path / "page.html").read_text()
    assert "No differences between effects are found on held-out rows" in page


def test_the_result_does_not_depend_on_workers_and_repeats_itself():
    X, y, arm, _ = sample(200, 19)
    one = dfi.effects(X, y, arm, "linear", n_jobs=1, **QUICK)
    two = dfi.effects(X, y, arm, "linear", n_jobs=2, **QUICK)
    assert np.array_equal(one.influence, two.influence)


X, Y, ARM, CHANCE = sample(200, 20)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(pain=Y, drug=ARM)
LINE = 1.0 + X @ SLOPES

REFUSED = {
    "form": (
        lambda: dfi.effects(X, Y, ARM, form="loco"),
        ValueError,
        "form='loco' is not for effects.*leave form at 'cross'",
    ),
    "prefit": (
        lambda: dfi.effects(X, Y, ARM, LinearRegression().fit(X, Y), cv="prefit"),
        ValueError,
        "cv='prefit' explains a model that was fitted elsewhere.*pass a number of folds",
    ),
    "classifier": (
        lambda: dfi.effects(X, Y > 0, ARM, LogisticRegression()),
        ValueError,
        "estimator=LogisticRegression is a classifier, but an effect is a quantity",
    ),
    "clip": (
        lambda: dfi.effects(X, Y, ARM, clip=0.5),
        ValueError,
        "clip must be a number strictly between 0 and 0.5, got 0.5",
    ),
    "clip of text": (
        lambda: dfi.effects(X, Y, ARM, clip="a"),
        ValueError,
        "clip must be a number strictly between 0 and 0.5, got 'a'",
    ),
    "no treatment": (
        lambda: dfi.effects(X, Y),
        TypeError,
        "effects needs treatment: pass the outcome as y",
    ),
    "no outcome": (lambda: dfi.effects(X, None, ARM), TypeError, "effects needs y: pass"),
    "nothing": (lambda: dfi.effects(X), TypeError, "effects needs y and treatment: pass"),
    "both": (
        lambda: dfi.effects(X, Y, ARM, pseudo_outcome=Y),
        TypeError,
        "pseudo_outcome takes the place of y and treatment",
    ),
    "one column": (
        lambda: dfi.effects(FRAME, "drug", "drug"),
        ValueError,
        "y and treatment both name the column 'drug'",
    ),
    "no such column": (
        lambda: dfi.effects(FRAME, "pain", "drugs"),
        ValueError,
        "treatment='drugs' names the treatment's column, but X has no such column; did you mean",
    ),
    "name without names": (
        lambda: dfi.effects(X, Y, "drug"),
        TypeError,
        "treatment='drug' names a column of X, but X is a ndarray without names",
    ),
    "file": (
        lambda: dfi.effects("trial.parquet", "pain", "drug"),
        ValueError,
        "X is 'trial.parquet', but there is no such file or folder",
    ),
    "lazy frame": (
        lambda: dfi.effects(pl.DataFrame(FRAME).lazy(), FRAME["pain"], "drug"),
        TypeError,
        "y is a Series, but X is a table that is not in memory: name the column of X that",
    ),
    "one level": (
        lambda: dfi.effects(X, Y, np.ones(200)),
        ValueError,
        r"treatment has one level only \(1 in every row\): an effect compares two arms",
    ),
    "gaps": (
        lambda: dfi.effects(X, Y, np.where(np.arange(200) == 3, np.nan, ARM)),
        ValueError,
        "treatment has 1 missing or infinite values, the first in row 3: drop those rows",
    ),
    "length": (
        lambda: dfi.effects(X, Y, ARM[:-1]),
        ValueError,
        "X has 200 rows and treatment has 199 values",
    ),
    "treated": (
        lambda: dfi.effects(X, Y, np.where(ARM, "drug", "placebo"), treated="durg"),
        ValueError,
        "treated='durg' is not a level of treatment, which has 'drug', 'placebo'; did you mean",
    ),
    "copy": (
        lambda: dfi.effects(FRAME.drop(columns="pain"), Y, 1 - ARM),
        ValueError,
        "column 'drug' of X says who was treated, which is 'treatment' itself: leave it out",
    ),
    "classes": (
        lambda: dfi.effects(X, np.array(["a", "b", "c"])[np.arange(200) % 3], ARM),
        ValueError,
        r"y has 3 classes \('a', 'b', 'c'\).*pass pos_label='c' for one class against the rest",
    ),
    "several": (
        lambda: dfi.effects(X, np.column_stack([Y, Y**2]), ARM),
        ValueError,
        r"y has 2 columns, but effects explains the effect on one: pass y\['y0'\]",
    ),
    "small arm": (
        lambda: dfi.effects(X, Y, np.arange(200) < 8, **QUICK),
        ValueError,
        "the arm treatment = True has 8 rows, of which a fold trains on .*use fewer folds",
    ),
    "one class in an arm": (
        lambda: dfi.effects(X, np.where(ARM == 1, "yes", np.where(X[:, 0] > 0, "yes", "no")), ARM),
        ValueError,
        "y is 'yes' in all .* rows of the arm treatment = 1 that a fold trains on.*task='regress",
    ),
    "time": (
        lambda: dfi.effects(X, Y, ARM, "linear", cv=TimeSeriesSplit(4), **QUICK),
        ValueError,
        r"cv never holds out 40 of 200 rows \(the first is row 0\)",
    ),
    "outcome model": (
        lambda: dfi.effects(X, Y, ARM, "linear", outcome_model="foo"),
        ValueError,
        "outcome_model: unknown estimator 'foo'",
    ),
    "outcome classifier": (
        lambda: dfi.effects(X, Y, ARM, "linear", outcome_model=LogisticRegression()),
        ValueError,
        "outcome_model: LogisticRegression is a classifier, but y is a quantity",
    ),
    "propensity regressor": (
        lambda: dfi.effects(X, Y, ARM, "linear", outcome_model="linear", propensity_model=Ridge()),
        ValueError,
        "propensity_model: Ridge is a regressor, but the treatment has arms: pass a classifier",
    ),
    "propensity of 1": (
        lambda: dfi.effects(X, Y, ARM, "linear", outcome_model="linear", propensity_model=1),
        ValueError,
        "propensity_model has the probability 1, but each must lie strictly between 0 and 1",
    ),
    "propensity of other rows": (
        lambda: dfi.effects(
            X, Y, ARM, "linear", outcome_model="linear", propensity_model=CHANCE[:-1]
        ),
        ValueError,
        "X has 200 rows and propensity_model has 199 values",
    ),
    "no noise": (
        lambda: dfi.effects(X, X[:, 0] + 2.0 * ARM, ARM, "linear", **QUICK),
        ValueError,
        "the effect of 'treatment' is 2 in every row, without noise",
    ),
    "plug-in": (
        lambda: dfi.effects(X, pseudo_outcome=LINE, estimator="linear"),
        ValueError,
        r"pseudo_outcome is a function of X \(held-out rows are predicted with R2 = 1.000\). Effec",
    ),
    "pseudo-outcomes of other rows": (
        lambda: dfi.effects(X, pseudo_outcome=Y[1:]),
        ValueError,
        "X has 200 rows and pseudo_outcome has 199 values",
    ),
    "pseudo-outcomes with gaps": (
        lambda: dfi.effects(X, pseudo_outcome=np.where(np.arange(200) == 5, np.inf, Y)),
        ValueError,
        "pseudo_outcome has 1 missing or infinite values, the first in row 5: drop those rows",
    ),
    "pseudo-outcomes that are all the same": (
        lambda: dfi.effects(X, pseudo_outcome=np.full(200, 2.5)),
        ValueError,
        "pseudo_outcome is 2.5 in every row: there are no differences to explain",
    ),
    "treated of nothing": (
        lambda: dfi.effects(X, pseudo_outcome=Y, treated=1),
        TypeError,
        "treated needs y and treatment, but pseudo_outcome replaces them: leave it out",
    ),
    "models of nothing": (
        lambda: dfi.effects(X, pseudo_outcome=Y, propensity_model=0.5),
        TypeError,
        "propensity_model needs y and treatment, but pseudo_outcome replaces them",
    ),
    "pseudo-outcomes of text": (
        lambda: dfi.effects(X, pseudo_outcome=["a", "b"] * 100),
        TypeError,
        "pseudo_outcome holds strings or classes, such as .*; it must be numbers",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_by_name(name):
    call, kind, message = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
        with pytest.raises(kind, match=f"(?s){message}"):
            call()


def test_a_plug_in_of_another_shape_than_the_estimator_is_refused_too():
    """Squares have no straight part: least squares predict nothing of them."""
    with pytest.raises(ValueError, match="pseudo_outcome is a function of X"):
        dfi.effects(X, pseudo_outcome=X[:, 0] ** 2, estimator="linear")


def test_pseudo_outcomes_with_little_noise_are_doubted():
    noisy = LINE + 0.5 * LINE.std() * np.random.default_rng(0).standard_normal(200)
    with pytest.warns(InferenceWarning, match="pseudo_outcome has little noise"):
        dfi.effects(X, pseudo_outcome=noisy, estimator="linear", diagnose=False)


def test_a_splitter_is_taken_as_it_is():
    splits = list(KFold(4).split(X))
    one = dfi.effects(X, Y, ARM, "linear", cv=KFold(4), **QUICK)
    other = dfi.effects(X, Y, ARM, "linear", cv=splits, **QUICK)
    assert np.array_equal(one.influence, other.influence)
    assert one.spec["n_folds"] == 4
