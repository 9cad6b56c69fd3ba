"""Boosting that takes columns with levels by itself."""

import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import dfi
from dfi._models.encoders import reads_raw_columns, takes_levels
from dfi.warnings import ExactnessWarning

SETTINGS = {"diagnose": False, "progress": False}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 200
    X = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "size": rng.normal(size=n),
            "region": pd.Categorical(rng.choice(list("uvw"), n)),
        }
    )
    y = X["age"] + 2 * (X["region"] == "u") + 0.3 * rng.normal(size=n)
    return X, y.to_numpy()


TOLD = {
    "names": HistGradientBoostingRegressor(max_iter=10, categorical_features=["region"]),
    "places": HistGradientBoostingRegressor(max_iter=10, categorical_features=[2]),
    "xgboost": xgboost.XGBRegressor(n_estimators=10, enable_categorical=True),
}
NOT_TOLD = [
    HistGradientBoostingRegressor(),
    HistGradientBoostingRegressor(categorical_features="from_dtype"),
    xgboost.XGBRegressor(enable_categorical=False),
    lightgbm.LGBMRegressor(),
    RandomForestRegressor(),
    lambda X: X,
]


@pytest.mark.parametrize("kind", TOLD)
def test_it_is_given_the_columns_as_they_are_and_followed_exactly(kind, data):
    X, y = data
    assert takes_levels(TOLD[kind])
    found = dfi.DFI(estimator=TOLD[kind], cv=2, form="loco", **SETTINGS).fit(X, y)
    assert found.result_.diagnostics["lines"].startswith("exact: 10 trees")
    assert found.result_.table()["score"].idxmax() in (0, 2)


def test_a_fitted_model_is_the_function_that_it_is(data):
    X, y = data
    model = HistGradientBoostingRegressor(max_iter=10, categorical_features=["region"]).fit(X, y)
    named = dfi.explain(X, y, estimator=model, cv="prefit", **SETTINGS)
    every_atom = dfi.Quadrature("equal", nodes=len(X))
    function = dfi.explain(
        X, y, estimator=model.predict, cv="prefit", integration=every_atom, **SETTINGS
    )
    pd.testing.assert_frame_equal(named.table(), function.table())


@pytest.mark.parametrize("model", NOT_TOLD, ids=lambda model: type(model).__name__)
def test_others_are_given_numbers(model):
    assert not takes_levels(model)
    assert not reads_raw_columns(model)


class LevelsByDefault(xgboost.XGBRegressor):
    """XGBoost from 3.4 on."""

    def __init__(self, *, enable_categorical=True, **options):
        super().__init__(enable_categorical=enable_categorical, **options)


class NumbersByDefault(xgboost.XGBRegressor):
    """XGBoost before 3.4."""

    def __init__(self, *, enable_categorical=False, **options):
        super().__init__(enable_categorical=enable_categorical, **options)


@pytest.mark.parametrize("kind", [LevelsByDefault, NumbersByDefault])
def test_the_default_of_xgboost_is_followed_whichever_it_is(kind, data):
    X, y = data
    by_default = kind(n_estimators=10).get_params()["enable_categorical"]
    assert takes_levels(kind()) == by_default
    assert not takes_levels(kind(enable_categorical=False))
    told = xgboost.XGBRegressor(n_estimators=10, enable_categorical=by_default)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExactnessWarning)
        tables = [
            dfi.explain(X, y, estimator=model, cv=2, **SETTINGS).table()
            for model in (kind(n_estimators=10), told)
        ]
    pd.testing.assert_frame_equal(*tables)


def test_xgboost_that_takes_levels_refuses_strings_by_name(data):
    X, y = data
    words = X.assign(region=X["region"].astype(str))
    with pytest.raises(ValueError, match=r"LevelsByDefault.*category.*region"):
        dfi.explain(words, y, estimator=LevelsByDefault(n_estimators=10), cv=2, **SETTINGS)
    numbers = LevelsByDefault(n_estimators=10, enable_categorical=False)
    assert dfi.explain(words, y, estimator=numbers, cv=2, **SETTINGS).scores[2] > 0


def test_a_numeric_column_taken_by_level_is_met_with_its_own_values_only(data):
    X, y = data
    codes = np.column_stack([X["age"], X["size"], X["region"].cat.codes * 1.0])
    seen = []

    class Watched(HistGradientBoostingRegressor):
        def predict(self, rows):
            seen.append(np.unique(np.asarray(rows)[:, 2]))
            return super().predict(rows)

    model = Watched(max_iter=10, categorical_features=[2]).fit(codes, y)
    dfi.explain(codes, y, estimator=model, cv="prefit", **SETTINGS)
    assert seen
    assert set(np.concatenate(seen)) == {0.0, 1.0, 2.0}


def test_fitted_catboost_that_names_its_levels(data):
    X, y = data
    model = catboost.CatBoostRegressor(
        n_estimators=10, verbose=0, cat_features=["region"], allow_writing_files=False
    )
    message = r"CatBoostRegressor cannot be cloned for each fold.*cv='prefit'"
    with pytest.raises(TypeError, match=message):
        dfi.explain(X, y, estimator=model, **SETTINGS)
    with pytest.warns(ExactnessWarning, match="categorical splits are not followed"):
        dfi.explain(X, y, estimator=model.fit(X, y), cv="prefit", **SETTINGS)


def test_fitted_boosting_without_a_split_on_levels_is_exact_too(data):
    X, _ = data
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(X, X["age"])
    found = dfi.explain(X, X["age"], estimator=model, cv="prefit", **SETTINGS)
    assert found.diagnostics["lines"].startswith("exact: 5 trees")
