"""The comparison: one table, the same folds, what it says of each method."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import RepeatedKFold
from sklearn.tree import ExtraTreeRegressor

import dfi
from dfi.methods import CPI, DLOCO, LOCO, METHODS, Disentangled, Method, Shapley
from dfi.warnings import WeakModelWarning


@pytest.fixture(scope="module")
def comparison() -> dfi.Results:
    sample = dfi.datasets.m1(300, d=4)
    X = pd.DataFrame(sample.X, columns=list("abcd"))
    return dfi.compare(X, sample.y, estimator="linear")


def test_table_is_long_with_the_columns_of_a_result(comparison: dfi.Results) -> None:
    table = comparison.table()
    assert list(table.columns) == [
        "method", "feature", "share", "share_low", "share_high", "score", "se", "ci_low", "ci_high",
        "z", "p", "p_adj", "monte_carlo_se",
    ]  # fmt: skip
    assert len(table) == 4 * len(comparison.results)
    loco = table[table.method == "loco"].set_index("feature")
    own = comparison["loco"].table().set_index("feature")
    np.testing.assert_allclose(loco.loc[own.index, "score"], own["score"])
    np.testing.assert_allclose(loco.loc[own.index, "p_adj"], own["p_adj"])


def test_monte_carlo_errors_are_kept_apart_from_sampling_errors() -> None:
    sample = dfi.datasets.m1(300, d=7)
    X = pd.DataFrame(sample.X)
    few, many = (
        dfi.compare(X, sample.y, ["loco", Shapley(n_coalitions=m)], estimator="linear")
        for m in (40, 2000)
    )
    table = few.table().set_index(["method", "feature"])
    assert (table.loc["loco", "monte_carlo_se"] == 0).all()
    noise = [np.array(found["shapley"].diagnostics["monte_carlo_se"]) for found in (few, many)]
    np.testing.assert_array_equal(table.loc["shapley", "monte_carlo_se"], noise[0])
    # fifty times the submodels: a seventh of the Monte-Carlo error, the same sampling error
    assert np.all(noise[1] < 0.35 * noise[0])
    assert many["shapley"].se[0] == pytest.approx(few["shapley"].se[0], rel=0.1)


def test_every_method_states_its_question_and_validity(comparison: dfi.Results) -> None:
    names = [record.name for record in comparison.methods]
    assert names == [*METHODS]
    questions = [record.question for record in comparison.methods]
    assert len(set(questions)) == len(questions)
    assert all(record.question.endswith("?") for record in comparison.methods)
    assert all(record.inference and record.seconds > 0 for record in comparison.methods)
    invalid = [record.name for record in comparison.methods if not record.valid_intervals]
    assert invalid == ["pcm"]
    for make in METHODS.values():
        assert isinstance(make(), Method)


def test_summary_is_plain_and_complete(comparison: dfi.Results) -> None:
    summary = json.loads(json.dumps(comparison.summary()))
    assert summary["units"] == list("abcd")
    assert [entry["name"] for entry in summary["methods"]] == [*METHODS]
    found = summary["methods"][1]["results"]["loco"]
    np.testing.assert_allclose(found["columns"]["score"], comparison["loco"].scores)
    assert summary["seconds"] > 0


def test_it_reads_well_and_survives_pickling(comparison: dfi.Results) -> None:
    text = repr(comparison)
    assert "loco" in text
    assert "pcm" in text
    assert "intervals not valid" in text
    # what each method cost, once per method
    assert text.count(" s  ") == len(comparison.methods)
    assert "s for the full models" in text
    again = pickle.loads(pickle.dumps(comparison))  # noqa: S301
    np.testing.assert_array_equal(again["cpi"].scores, comparison["cpi"].scores)
    with pytest.raises(KeyError, match="there is no result 'lime'"):
        comparison["lime"]


def test_results_can_be_saved(comparison: dfi.Results, tmp_path: Any) -> None:
    path = comparison["sobol_total"].save(tmp_path / "sobol.dfi")
    np.testing.assert_array_equal(dfi.load(path).scores, comparison["sobol_total"].scores)


def test_the_folds_are_shared_with_dfi() -> None:
    sample = dfi.datasets.m1(200, d=3)
    folds = [(np.arange(100, 200), np.arange(100)), (np.arange(100), np.arange(100, 200))]
    found = dfi.compare(sample.X, sample.y, ["dfi", "loco"], estimator="linear", cv=folds)
    alone = dfi.explain(sample.X, sample.y, estimator="linear", cv=folds)
    np.testing.assert_allclose(found["dfi"].scores, alone.scores)


def test_the_same_result_for_any_number_of_jobs() -> None:
    sample = dfi.datasets.m1(150, d=3)
    # trees that choose thresholds at random: without their own seeds the results would differ
    trees = ExtraTreeRegressor(min_samples_leaf=3)
    methods = ["loco", CPI(covariate_estimator=LinearRegression()), "shapley", "sobol", "pcm"]
    one = dfi.compare(sample.X, sample.y, methods, estimator=trees, cv=2, n_jobs=1)
    two = dfi.compare(sample.X, sample.y, methods, estimator=trees, cv=2, n_jobs=2)
    for key in one.results:
        np.testing.assert_allclose(one[key].scores, two[key].scores, rtol=1e-10)


def test_a_method_does_not_depend_on_the_company_it_keeps() -> None:
    sample = dfi.datasets.m1(90, d=3)
    alone = dfi.compare(sample.X, sample.y, "cpi", estimator="linear")
    among = dfi.compare(sample.X, sample.y, ["pfi", "dloco", "cpi"], estimator="linear")
    np.testing.assert_array_equal(alone["cpi"].scores, among["cpi"].scores)


@pytest.mark.filterwarnings("ignore::dfi.warnings.ApproximationWarning")
def test_numbers_of_draws_are_stated_with_the_method() -> None:
    sample = dfi.datasets.m1(120, d=4)
    methods = [
        Disentangled(form="loco"), "loco", "nloco", DLOCO(n_partners=30),
        Shapley(sampling="permutations", n_permutations=4), CPI(n_permutations=10),
    ]  # fmt: skip
    forest = RandomForestRegressor(10, min_samples_leaf=5, random_state=0)
    found = dfi.compare(sample.X, sample.y, methods, estimator=forest, cv=2)
    assert list(found.results) == ["dfi", "loco", "nloco", "dloco", "shapley", "cpi"]
    assert found["dfi"].spec["form"] == "loco"
    assert found["dloco"].spec["parameters"]["n_partners"] == 30
    assert found["shapley"].spec["parameters"]["n_permutations"] == 4
    assert found["cpi"].spec["parameters"]["n_permutations"] == 10
    for key in found.results:
        assert np.argmax(found[key].scores) == 0, key


def test_binary_outcomes_and_classifiers() -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 3))
    y = (generator.random(400) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(float)
    found = dfi.compare(X, y, ["loco", "cpi", "pfi"], estimator=LogisticRegression(), cv=3)
    for key in found.results:
        assert found[key].scores[0] > 4 * found[key].se[0], key


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"methods": "lime"}, ValueError, "unknown method 'lime'"),
        ({"methods": "loca"}, ValueError, "did you mean 'loco'"),
        ({"methods": "linear"}, ValueError, "it is a learner, pass estimator='linear'"),
        ({"methods": []}, ValueError, "methods is empty"),
        ({"methods": 3}, TypeError, "methods must be 'all'"),
        ({"methods": [3]}, TypeError, "a name or a comparator, got int"),
        ({"methods": ["loco", LOCO()]}, ValueError, "'loco' appears twice"),
        ({"cv": "prefit"}, TypeError, "comparators refit the regression"),
        ({"level": 1.5}, ValueError, "level must be a number strictly"),
        ({"estimator": "forrest"}, ValueError, "unknown estimator"),
        ({"feature_groups": {"a": ["nope"]}}, ValueError, "not a feature"),
        ({"sample_weight": [1.0]}, ValueError, "sample_weight has 1 values"),
    ],
)
def test_bad_input_is_refused_by_name(options: dict[str, Any], error: Any, message: str) -> None:
    sample = dfi.datasets.m1(60, d=3)
    with pytest.raises(error, match=message):
        dfi.compare(sample.X, sample.y, **{"methods": "loco", "estimator": "linear", **options})


def test_repeated_splits_are_refused() -> None:
    sample = dfi.datasets.m1(60, d=3)
    with pytest.raises(ValueError, match="a comparison uses one split"):
        dfi.compare(sample.X, sample.y, "loco", estimator="linear", cv=RepeatedKFold(n_repeats=2))


def test_a_regression_without_signal_is_said_so() -> None:
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((40, 10)), generator.standard_normal(40)
    with pytest.warns(WeakModelWarning, match="explains nothing"):
        dfi.compare(X, y, "loco", estimator="linear")


def test_plot_draws_every_result(comparison: dfi.Results) -> None:
    pytest.importorskip("dfi.plots.comparison")
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")

    comparison.plot()
    plt.close("all")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"random_state": -1}, ValueError, "random_state must be a whole number of 0 or more"),
        ({"random_state": 1.5}, ValueError, "random_state must be a whole number of 0 or more"),
        ({"methods": [LOCO]}, TypeError, r"the class LOCO, not an instance: pass LOCO\(\)"),
        ({"methods": LOCO}, TypeError, r"the class LOCO, not an instance: pass LOCO\(\)"),
        ({"methods": Disentangled}, TypeError, r"the class Disentangled, .* pass Disentangled\(\)"),
        ({"methods": Disentangled(transport="?")}, ValueError, "unknown transport '?'"),
        ({"sample_weight": 1, "frequency_weight": 1}, ValueError, "or frequency_weight, not both"),
    ],
)
def test_options_that_make_no_comparison(options, error, message):
    sample = dfi.datasets.m1(60, d=2)
    with pytest.raises(error, match=message):
        dfi.compare(sample.X, sample.y, **{"methods": "loco", "estimator": "linear", **options})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: dfi.methods.PFI(n_permutations=2.5), ValueError, "a whole number of 2 or more"),
        (lambda: dfi.methods.Shapley(exact="yes"), ValueError, "exact must be True, False or"),
        (
            lambda: dfi.methods.CPI(covariate_estimator="linear"),
            TypeError,
            "covariate_estimator must be an unfitted estimator with fit and predict, got 'linear'",
        ),
        (
            lambda: dfi.methods.CPI(covariate_classifier=LinearRegression()),
            TypeError,
            "covariate_classifier must be .* predict_proba",
        ),
    ],
)
def test_parameters_that_no_comparator_has(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("estimator", ["linear", RandomForestRegressor(5, random_state=0)])
def test_nothing_is_divided_by_what_a_repeated_feature_leaves(estimator):
    sample = dfi.datasets.m1(80, d=2)
    twice = np.column_stack([sample.X, sample.X[:, 0]])
    method = dfi.methods.NLOCO(normalize="residual")
    with pytest.raises(ValueError, match="variance of 'x0' given the other features, which is 0"):
        dfi.compare(twice, sample.y, method, estimator=estimator)
