"""How a fitted model is asked: matrix or table, encoders found, errors kept short."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import RandomForestRegressor, VotingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

from dfi._data.table import read_table
from dfi._models.encoders import encoded_columns, reads_raw_columns, unseen_levels
from dfi._models.learners import LEARNERS, resolve_learner
from dfi._models.predictor import predictor_for

GENERATOR = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "real": GENERATOR.standard_normal(50),
        "whole": GENERATOR.integers(0, 3, 50),
        "flag": GENERATOR.random(50) > 0.5,
        "word": np.resize(["u", "v", "w"], 50),
    }
)
NUMERIC = FRAME[["real", "whole", "flag"]]
Y = GENERATOR.standard_normal(50)


def pipeline(*parts):
    return make_pipeline(make_column_transformer(*parts, remainder="drop"), Ridge())


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (pipeline((StandardScaler(), ["real"])), set()),
        (pipeline((OneHotEncoder(), ["whole", "word"])), {"whole"}),
        (pipeline((OrdinalEncoder(), [1, 2])), {"whole", "flag"}),
        (pipeline((TargetEncoder(cv=2, target_type="continuous"), slice(1, 3))), {"whole", "flag"}),
        (pipeline((OneHotEncoder(), [False, True, False, False])), {"whole"}),
        (pipeline((make_pipeline(SimpleImputer(), OneHotEncoder()), ["whole"])), {"whole"}),
        (
            make_pipeline(
                ColumnTransformer(
                    [
                        (
                            "u",
                            FeatureUnion([("a", OneHotEncoder()), ("b", OrdinalEncoder())]),
                            ["flag"],
                        )
                    ]
                ),
                Ridge(),
            ),
            {"flag"},
        ),
        (VotingRegressor([("a", pipeline((OneHotEncoder(), ["whole"])))]), {"whole"}),
        (
            GridSearchCV(pipeline((OneHotEncoder(), ["flag"])), {"ridge__alpha": [1, 2]}, cv=2),
            {"flag"},
        ),
    ],
)
def test_columns_that_are_encoded_by_value(model, columns):
    assert reads_raw_columns(model)
    assert encoded_columns(model.fit(FRAME, Y), read_table(FRAME)) == columns


def test_views():
    numbers = read_table(NUMERIC)

    def view(model, table=numbers):
        return predictor_for(model, table, prefit=True).view

    assert view(LinearRegression().fit(NUMERIC, Y)) == "frame"
    assert view(LinearRegression().fit(NUMERIC.to_numpy(float), Y)) == "matrix"
    assert view(RandomForestRegressor(2).fit(NUMERIC.to_numpy(float), Y)) == "matrix"
    assert view(lambda rows: rows["real"]) == "frame"
    assert (
        view(make_pipeline(StandardScaler(), Ridge()).fit(NUMERIC.to_numpy(float), Y)) == "matrix"
    )
    mixed = pipeline((OneHotEncoder(), ["word"]))
    assert view(mixed.fit(FRAME, Y), read_table(FRAME)) == "frame"


def test_linear_closed_form_needs_the_columns_one_for_one():
    table = read_table(FRAME)
    assert not predictor_for(lambda rows: rows["real"], table, prefit=True).reads_matrix
    numbers = read_table(NUMERIC)
    assert predictor_for(LinearRegression().fit(NUMERIC, Y), numbers, prefit=True).reads_matrix
    encoded = pipeline((OneHotEncoder(), ["whole"])).fit(NUMERIC, Y)
    assert not predictor_for(encoded, numbers, prefit=True).reads_matrix


def test_probabilities_of_class_one():
    y = (Y > 0).astype(int)
    matrix = NUMERIC.to_numpy(float)
    model = LogisticRegression().fit(matrix, y)
    predictor = predictor_for(model, read_table(matrix), prefit=True)
    assert np.array_equal(predictor(matrix), model.predict_proba(matrix)[:, 1])


def test_column_vectors_of_predictions_are_accepted():
    matrix = NUMERIC.to_numpy(float)
    model = LinearRegression().fit(matrix, Y[:, None])
    predictor = predictor_for(model, read_table(matrix), prefit=True)
    assert predictor(matrix).shape == (50,)


def test_errors_of_the_model_are_kept_short():
    def failing(rows):
        raise RuntimeError("x" * 5000)

    predictor = predictor_for(failing, read_table(NUMERIC), prefit=True)
    with pytest.raises(ValueError, match="failing could not predict 2 rows") as caught:
        predictor(np.zeros((2, 3)))
    assert len(str(caught.value)) < 600
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_unseen_levels_are_found_by_value_too():
    model = pipeline((OneHotEncoder(), ["whole"]), (OrdinalEncoder(), ["word"])).fit(FRAME, Y)
    assert unseen_levels(model, read_table(FRAME)) is None
    other = FRAME.assign(whole=np.resize([0, 1, 7], 50))
    assert "column 'whole' has 7.0" in unseen_levels(model, read_table(other))
    other = FRAME.assign(word=np.resize(["u", "x"], 50))
    assert "column 'word' has 'x', which its OrdinalEncoder" in unseen_levels(
        model, read_table(other)
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_by_name_take_numbers_and_weights(name):
    learner = resolve_learner(name)
    assert not reads_raw_columns(learner)
    params = {k: 5 for k in ("n_estimators", "max_iter") if k in learner.get_params()}
    learner.set_params(**params)
    X = NUMERIC.to_numpy(float)
    learner.fit(X, Y, sample_weight=np.ones(50))
    assert learner.predict(X).shape == (50,)
