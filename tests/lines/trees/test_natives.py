"""Trees that take categories themselves: exact line means, twin: the model's own predict."""

from __future__ import annotations

import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import dfi
from dfi._data.table import read_table
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.trees.ensemble import LevelRule, add_ensembles, single_tree
from dfi._lines.trees.model import TreeLines
from dfi._models.predictor import predictor_for
from dfi.warnings import ExactnessWarning

from .conftest import make_lines

HISTOGRAM = {"max_iter": 12, "min_samples_leaf": 4}
XGBOOST = {"n_estimators": 12, "max_depth": 4, "enable_categorical": True, "n_jobs": 1}
LIGHTGBM = {"n_estimators": 12, "verbose": -1, "n_jobs": 1, "min_child_samples": 4}
# LightGBM regularises categories away in tables as small as these.
LIGHTGBM |= {"cat_smooth": 0.1, "cat_l2": 0.1, "min_data_per_group": 1}
MODELS = {
    "histogram": lambda: HistGradientBoostingRegressor(
        **HISTOGRAM, categorical_features="from_dtype"
    ),
    "histogram by name": lambda: HistGradientBoostingRegressor(
        **HISTOGRAM, categorical_features=["many", "hour", "two", "one", "ordered", "coded"]
    ),
    "lightgbm": lambda: lightgbm.LGBMRegressor(**LIGHTGBM),
    "lightgbm one against all": lambda: lightgbm.LGBMRegressor(**LIGHTGBM, max_cat_to_onehot=40),
    "xgboost in sets": lambda: xgboost.XGBRegressor(**XGBOOST, max_cat_to_onehot=1),
    "xgboost one against all": lambda: xgboost.XGBRegressor(**XGBOOST, max_cat_to_onehot=40),
}


def table_of_categories(seed, n=180, *, holes=0.0):
    """Return a frame with categories of many kinds beside numbers, and an outcome of them."""
    rng = np.random.default_rng(seed)
    names = [f"l{k}" for k in rng.permutation(int(rng.integers(3, 40)))]
    frame = pd.DataFrame(
        {
            "real": rng.normal(size=n),
            # the last level is declared and has no row
            "many": pd.Categorical(rng.choice(names, n), categories=[*names, "never"]),
            "hour": rng.integers(0, 7, n) * 2,
            "two": pd.Categorical(rng.choice(["yes", "no"], n), categories=["yes", "no"]),
            "flag": rng.random(n) < 0.4,
            "one": pd.Categorical(["same"] * n),
            "ordered": pd.Categorical(
                rng.choice(list("lmh"), n), categories=list("lmh"), ordered=True
            ),
            "coded": pd.Categorical(rng.choice([30, 10, 20], n)),
        }
    )
    codes = {name: frame[name].cat.codes for name in ("many", "two", "ordered", "coded")}
    y = frame["real"] * codes["two"] + np.sin(2.0 * codes["many"]) + (codes["ordered"] == 1)
    y += np.cos(frame["hour"]) + 0.5 * codes["coded"] * frame["flag"] + 0.1 * rng.normal(size=n)
    if holes:
        for name in ("real", "many", "two", "ordered", "coded", "hour"):
            gaps = rng.random(n) < holes
            frame[name] = frame[name].mask(gaps)
            y += gaps
    return frame, y.to_numpy(dtype=float)


def read(model, frame):
    """Return a fitted model as a function of the matrix, and its lines, which must be exact."""
    table = read_table(frame)
    predictor = predictor_for(model, table, prefit=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = line_model(predictor, table.matrix, Quadrature())
    assert isinstance(found, TreeLines)
    return predictor, found


def mean_over_atoms(predict, lines, power):
    """Return the mean and the first Hermite moment of predictions at all atoms, (2, q, n, d)."""
    t, mass = lines.reference.values, lines.reference.masses()
    shift = t[:, None, None] - lines.latent - lines.offsets[:, None]
    rows = lines.points[:, None] + shift[..., None] * lines.directions.T
    value = predict(rows.reshape(-1, rows.shape[-1])).reshape(shift.shape) ** power
    return np.stack(
        [np.einsum("aj,aqij->qij", mass, value), np.einsum("aj,aqij->qij", t * mass, value)]
    )


def assert_exact(predictor, found, *, seed=0, q=1, rows=3):
    """Compare the moments with means of the model's own predictions over all atoms of the law."""
    lines = make_lines(predictor.table.matrix[:rows], kind="empirical", q=q, seed=seed)
    truth = mean_over_atoms(predictor, lines, 1)
    tolerance = 10.0 * found.ensemble.tolerance
    moments = found.moments(lines)
    np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=tolerance)
    np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("name", MODELS)
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**6), q=st.integers(1, 2))
def test_line_means_are_those_of_decoded_rows(name, seed, q):
    frame, y = table_of_categories(seed)
    predictor, found = read(MODELS[name]().fit(frame, y), frame)
    assert found.categories
    assert_exact(predictor, found, seed=seed, q=q)


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"histogram by name"}))
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**6))
def test_missing_categories_and_numbers_go_where_the_model_sends_them(name, seed):
    frame, y = table_of_categories(seed, holes=0.2)
    predictor, found = read(MODELS[name]().fit(frame, y), frame)
    assert any(category.source is not None for category in found.categories)
    assert_exact(predictor, found, seed=seed)


@pytest.mark.parametrize("name", ["histogram", "lightgbm", "lightgbm one against all"])
def test_levels_that_the_model_does_not_know_go_where_it_sends_them(name):
    frame, y = table_of_categories(3, n=300)
    known = ~frame["many"].isin(["l0", "l1"]) & (frame["coded"] != 20)
    seen = frame[known].assign(
        many=frame["many"][known].cat.remove_unused_categories(),
        coded=frame["coded"][known].cat.remove_unused_categories(),
    )
    predictor, found = read(MODELS[name]().fit(seen, y[known]), frame)
    assert_exact(predictor, found, rows=8)


def test_levels_that_a_model_refuses_are_named_by_its_own_error():
    frame, y = table_of_categories(3, n=300)
    known = ~frame["many"].isin(["l0", "l1"])
    seen = frame[known].assign(many=frame["many"][known].cat.remove_unused_categories())
    model = MODELS["xgboost in sets"]().fit(seen, y[known])
    predictor = predictor_for(model, read_table(frame), prefit=True)
    with pytest.warns(ExactnessWarning, match="could not predict.*not in the training set"):
        line_model(predictor, read_table(frame).matrix, Quadrature())


def test_the_order_of_levels_in_the_type_does_not_matter_to_a_fitted_model():
    frame, y = table_of_categories(5)
    for name in ("histogram", "lightgbm"):
        model = MODELS[name]().fit(frame, y)
        turned = frame.assign(
            many=frame["many"].cat.reorder_categories(frame["many"].cat.categories[::-1])
        )
        assert_exact(*read(model, turned))


def test_probabilities():
    frame, y = table_of_categories(6)
    model = HistGradientBoostingClassifier(**HISTOGRAM, categorical_features="from_dtype")
    assert_exact(*read(model.fit(frame, y > np.median(y)), frame))
    model = lightgbm.LGBMClassifier(**LIGHTGBM)
    assert_exact(*read(model.fit(frame, y > np.median(y)), frame))


@pytest.mark.parametrize("as_array", [True, False])
def test_numbers_that_a_model_was_told_to_take_by_value(as_array):
    frame, y = table_of_categories(7)
    numbers = frame[["real", "hour", "flag"]].assign(hour=frame["hour"] * 5 - 20).astype(float)
    numbers["coded"] = frame["many"].cat.codes.astype(float)
    given = numbers.to_numpy() if as_array else numbers
    for model in (
        HistGradientBoostingRegressor(**HISTOGRAM, categorical_features=[1, 3]),
        xgboost.XGBRegressor(**XGBOOST, feature_types=["float", "float", "float", "c"]),
    ):
        predictor, found = read(model.fit(given, y), given)
        assert any(category.grid is not None for category in found.categories)
        assert_exact(predictor, found)
    model = lightgbm.LGBMRegressor(**LIGHTGBM).fit(given, y, categorical_feature=[3])
    assert_exact(*read(model, given))


def test_codes_made_by_steps_before_the_model():
    frame, y = table_of_categories(8)
    model = make_pipeline(
        make_column_transformer((OrdinalEncoder(), ["many", "two", "hour"]), remainder="drop"),
        HistGradientBoostingRegressor(**HISTOGRAM, categorical_features=[0, 1]),
    )
    assert_exact(*read(model.fit(frame, y), frame))


def test_too_many_levels_of_a_number_are_refused_in_words():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=900), rng.integers(0, 100, 900) ** 2.0])
    y = X[:, 0] + 2 * (np.sqrt(X[:, 1]) % 2)
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features=[1]).fit(X, y)
    predictor = predictor_for(model, read_table(X), prefit=True)
    with pytest.warns(ExactnessWarning, match="a column of numbers split by level has too many"):
        line_model(predictor, X, Quadrature())


def test_statistics_of_the_outcome_are_refused_in_words():
    frame, y = table_of_categories(9)
    model = catboost.CatBoostRegressor(
        n_estimators=5, verbose=0, cat_features=["many"], allow_writing_files=False
    )
    frame = frame[["real", "many"]]
    with pytest.warns(ExactnessWarning, match="CatBoostRegressor: categorical splits are not"):
        dfi.explain(frame, y, model.fit(frame, y), cv="prefit", diagnose=False)


def test_an_explanation_is_that_of_the_function():
    frame, y = table_of_categories(10, n=200)
    frame = frame.drop(columns="one")
    model = MODELS["lightgbm"]().fit(frame, y)
    exact = dfi.explain(frame, y, model, cv="prefit", diagnose=False)
    assert exact.diagnostics["lines"].startswith("exact: 12 trees")
    by_nodes = dfi.explain(
        frame, y, model, cv="prefit", diagnose=False, integration=dfi.Quadrature("equal", nodes=200)
    )
    np.testing.assert_allclose(exact.scores, by_nodes.scores, atol=1e-9)


def test_equal_splits_by_level_share_a_rule():
    rule = LevelRule(1, frozenset({0, 2}), left=True)
    trees = [
        single_tree([0] * 3, [0.0] * 3, [1, -1, -1], [2, -1, -1], [0, a, -a], n_features=p,
                    rules={0: rule})
        for a, p in ((1.0, 2), (2.0, 3))
    ]  # fmt: skip
    total = add_ensembles(trees).with_columns([4, 5, 6], 9)
    assert total.rules == (LevelRule(5, frozenset({0, 2}), left=True),)
    np.testing.assert_array_equal(total.feature, [9, -1, -1, 9, -1, -1])
    codes = np.array([0.0, 1.0, 2.0, 7.0, np.nan])
    np.testing.assert_array_equal(rule.goes_left(codes), [1, 0, 1, 0, 0])
    away = LevelRule(1, frozenset({1}), left=False, missing_left=False)
    np.testing.assert_array_equal(away.goes_left(codes), [1, 0, 1, 1, 0])
