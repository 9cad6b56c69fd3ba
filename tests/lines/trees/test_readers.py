"""Composed models stay exact, and a model that is not supported says why."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from dfi._lines.trees import read_trees, tree_lines, verify
from dfi.warnings import ExactnessWarning

from .conftest import make_lines, twin


def forest(**options):
    return RandomForestRegressor(5, min_samples_leaf=8, random_state=0, **options)


def tree(depth):
    return DecisionTreeRegressor(max_depth=depth, random_state=0)


def columns():
    return ColumnTransformer(
        [
            ("late", StandardScaler(), [3, 0]),
            ("bool", "passthrough", np.array([False, False, True, False, False])),
            ("early", make_pipeline(SimpleImputer(), MinMaxScaler()), slice(0, 2)),
            ("none", "drop", [4]),
        ],
        remainder=MaxAbsScaler(),
    )


COMPOSED = {
    "standard": lambda: make_pipeline(StandardScaler(), forest()),
    "min max": lambda: make_pipeline(MinMaxScaler((-2, 5)), forest()),
    "clipped": lambda: make_pipeline(MinMaxScaler(clip=True), forest()),
    "max abs": lambda: make_pipeline(MaxAbsScaler(), HistGradientBoostingRegressor(max_iter=5)),
    "robust": lambda: make_pipeline(SimpleImputer(), RobustScaler(), forest()),
    "selected": lambda: make_pipeline(SelectKBest(f_regression, k=3), StandardScaler(), forest()),
    "variance": lambda: make_pipeline(VarianceThreshold(1e-3), forest()),
    "columns": lambda: make_pipeline(columns(), forest()),
    "search": lambda: GridSearchCV(forest(), {"max_depth": [2, 3]}, cv=2),
    "voting": lambda: VotingRegressor(
        [("a", forest()), ("b", make_pipeline(RobustScaler(), tree(3)))], weights=[3, 1]
    ),
    "stacking": lambda: StackingRegressor(
        [("a", forest()), ("b", tree(3))], final_estimator=RidgeCV(), cv=2
    ),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_models_stay_exact(name, data):
    x, y = data
    model = COMPOSED[name]().fit(x, y)
    read = tree_lines(model, model.predict, x)
    lines = make_lines(x[:4], kind="empirical", q=2)
    truth = twin(model.predict, (), lines)
    moments = read.moments(lines)
    np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=1e-9)


def test_thresholds_behind_scalers_decide_like_the_pipeline_to_the_last_bit(data):
    x, y = data
    model = make_pipeline(StandardScaler(), RobustScaler(), tree(6)).fit(x, y)
    ensemble, reason = read_trees(model)
    assert reason == ""
    split = np.flatnonzero(ensemble.feature >= 0)
    rows = np.repeat(x[:1], 3 * len(split), axis=0)
    for k, node in enumerate(split):
        c = ensemble.threshold[node]
        rows[3 * k : 3 * k + 3, ensemble.feature[node]] = (
            np.nextafter(c, -np.inf),
            c,
            np.nextafter(c, np.inf),
        )
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))


def test_pipelines_on_named_columns_are_followed(data):
    x, y = data
    frame = pd.DataFrame(x, columns=list("abcde"))
    scaler = ColumnTransformer([("s", StandardScaler(), ["d", "a"])], remainder="passthrough")
    model = make_pipeline(scaler, forest()).fit(frame, y)

    def predict(points):
        return model.predict(pd.DataFrame(points, columns=list("abcde")))

    assert tree_lines(model, predict, x) is not None


@pytest.mark.parametrize("column", [0, 2])
def test_any_class_probability_of_a_forest_is_a_sum(data, column):
    x, y = data
    label = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    members = [
        RandomForestClassifier(4, max_depth=3, random_state=0),
        BaggingClassifier(DecisionTreeClassifier(max_depth=3), 4, max_features=3, random_state=0),
    ]
    model = VotingClassifier(
        [("a", members[0]), ("b", members[1])], voting="soft", weights=[1, 2]
    ).fit(x, label)

    def predict(points):
        return model.predict_proba(points)[:, column]

    read = tree_lines(model, predict, x, column=column)
    np.testing.assert_allclose(read.predict(x), predict(x), rtol=0, atol=1e-12)


def lightgbm_model(x, y, **options):
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1, **options).fit(x, y)


def test_early_stopping_is_respected(data):
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    x, y = data
    noise = np.random.default_rng(0).standard_normal(len(y))
    held_out = [(x[:100], noise[:100])]
    first = lightgbm.LGBMRegressor(n_estimators=40, verbose=-1, n_jobs=1)
    with warnings.catch_warnings():
        # Its newer releases rename eval_set; both names do not exist in all of them.
        warnings.simplefilter("ignore")
        first.fit(x, y, eval_set=held_out, callbacks=[lightgbm.early_stopping(3, verbose=False)])
    second = xgboost.XGBRegressor(n_estimators=40, early_stopping_rounds=3, n_jobs=1)
    second.fit(x, y, eval_set=held_out, verbose=False)
    for model in (first, second):
        assert tree_lines(model, model.predict, x).ensemble.n_trees < 40


UNFOLLOWED = {
    "categorical": (
        lambda x, y: HistGradientBoostingRegressor(categorical_features=[2]).fit(x, y),
        "a column of numbers without levels is split by level",
    ),
    "lightgbm categorical": (
        lambda x, y: _lightgbm_categorical(x, y),
        "a column of numbers without levels is split by level",
    ),
    "linear trees": (lambda x, y: lightgbm_model(x, y, linear_tree=True), "linear trees"),
    "square root": (lambda x, y: lightgbm_model(x, y, reg_sqrt=True), "sqrt"),
    "zero missing": (
        lambda x, y: _lightgbm_zero(x),
        "zero is treated as missing",
    ),
    "start": (
        lambda x, y: GradientBoostingRegressor(init=LinearRegression(), n_estimators=3).fit(x, y),
        "starts from another model",
    ),
    "outputs": (lambda x, y: forest().fit(x, np.stack([y, y], 1)), "several outputs"),
    "median": (lambda x, y: AdaBoostRegressor(n_estimators=3).fit(x, y), "not read"),
    "rotation": (lambda x, y: make_pipeline(PCA(2), forest()).fit(x, y), "PCA does not act"),
    "products": (
        lambda x, y: make_pipeline(PolynomialFeatures(), forest()).fit(x, y),
        "PolynomialFeatures does not act",
    ),
    "function": (
        lambda x, y: make_pipeline(FunctionTransformer(np.abs), forest()).fit(x, y),
        "FunctionTransformer does not",
    ),
    "passthrough": (
        lambda x, y: StackingRegressor([("a", tree(2))], passthrough=True, cv=2).fit(x, y),
        "passes the columns on",
    ),
    "nonlinear stack": (
        lambda x, y: StackingRegressor([("a", tree(2))], SVR(), cv=2).fit(x, y),
        "final estimator of the stack is not linear",
    ),
    "sum of links": (
        lambda x, y: VotingRegressor(
            [("a", HistGradientBoostingRegressor(loss="poisson", max_iter=2)), ("b", tree(2))]
        ).fit(x, np.abs(y)),
        "nonlinear link",
    ),
    "xgboost missing": (lambda x, y: _xgboost(x, y, missing=0.0), "treats 0.0 as missing"),
    "xgboost linear": (lambda x, y: _xgboost(x, y, booster="gblinear"), "linear booster"),
}


def _xgboost(x, y, **options):
    xgboost = pytest.importorskip("xgboost")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xgboost.XGBRegressor(n_estimators=3, n_jobs=1, **options).fit(x, y)


def _lightgbm_zero(x):
    centred = np.where(np.abs(x[:, :1]) < 0.5, 0.0, x[:, :1])
    # Zeros lie with the large values although zero is below every threshold that splits them off.
    outcome = np.where((centred > 1) | (centred == 0), 9.0, 0.0).ravel()
    return lightgbm_model(np.column_stack([centred, x[:, 1:]]), outcome, zero_as_missing=True)


def _lightgbm_categorical(x, y):
    lightgbm = pytest.importorskip("lightgbm")
    level = np.random.default_rng(0).integers(0, 6, len(y))
    table = np.column_stack([x, level])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lightgbm.LGBMRegressor(
            n_estimators=3, verbose=-1, n_jobs=1, min_data_per_group=1, cat_smooth=0
        ).fit(table, 20.0 * np.isin(level, [1, 3]), categorical_feature=[5])


@pytest.mark.parametrize("name", UNFOLLOWED)
def test_a_model_that_is_not_followed_says_why(name, data):
    x, y = data
    make, reason = UNFOLLOWED[name]
    model = make(x, y)
    with pytest.warns(ExactnessWarning, match=reason):
        assert tree_lines(model, model.predict, x) is None


def test_another_function_than_the_trees_is_noticed(data):
    x, y = data
    model = RandomForestClassifier(4, random_state=0).fit(x, y > 0)
    with pytest.warns(ExactnessWarning, match="differ from the model's own predictions"):
        assert tree_lines(model, model.predict, x) is None


def test_a_forest_is_compared_with_its_own_trees_only_where_they_are_its_predict(data):
    x, y = data
    model = RandomForestRegressor(4, random_state=0).fit(x, y)
    assert tree_lines(model, model.predict, x) is not None
    with pytest.warns(ExactnessWarning, match="differ from the model's own predictions"):
        assert tree_lines(model, lambda rows: model.predict(rows) + 1.0, x) is None

    class Shifted(RandomForestRegressor):
        def predict(self, rows):
            return super().predict(rows) + 1.0

    shifted = Shifted(4, random_state=0).fit(x, y)
    with pytest.warns(ExactnessWarning, match="differ from the model's own predictions"):
        assert tree_lines(shifted, shifted.predict, x) is None


def test_a_wrong_threshold_is_noticed(data):
    x, y = data
    model = tree(3).fit(x, y)
    ensemble, _ = read_trees(model)
    assert verify(ensemble, model.predict, x) <= ensemble.tolerance
    threshold = ensemble.threshold.copy()
    threshold[0] += 0.3 * x[:, ensemble.feature[0]].std()
    assert verify(replace(ensemble, threshold=threshold), model.predict, x) > 1e-3


@pytest.mark.parametrize("model", [LinearRegression(), MLPRegressor(max_iter=1)])
def test_models_without_trees_are_left_in_silence(data, model):
    x, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, y)
    assert read_trees(model) == (None, "")
    assert tree_lines(model, model.predict, x) is None


def test_scale_and_bias_of_catboost_are_followed():
    catboost = pytest.importorskip("catboost")
    x = np.random.default_rng(0).standard_normal((80, 3))
    model = catboost.CatBoostRegressor(
        iterations=5, depth=3, verbose=0, allow_writing_files=False, thread_count=1
    ).fit(x, x[:, 0] + x[:, 1] ** 2)
    model.set_scale_and_bias(3.0, -7.0)
    ensemble, reason = read_trees(model)
    assert ensemble is not None, reason
    assert verify(ensemble, model.predict, x) < 1e-9


def test_hundreds_of_trees_in_single_precision_are_still_followed():
    """XGBoost's own sum of 1500 trees is off by more than a millionth of its scale."""
    xgboost = pytest.importorskip("xgboost")
    generator = np.random.default_rng(0)
    x = generator.standard_normal((400, 4))
    y = 100.0 + x[:, 0] + np.sin(3 * x[:, 1]) + 0.3 * generator.standard_normal(400)
    model = xgboost.XGBRegressor(n_estimators=1500, learning_rate=0.02, n_jobs=1).fit(x, y)
    ensemble, reason = read_trees(model)
    assert ensemble is not None, reason
    assert verify(ensemble, model.predict, x) <= ensemble.tolerance < 1e-5
