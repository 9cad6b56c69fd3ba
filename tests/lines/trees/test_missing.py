"""Trees on tables with missing values: exact means along lines, twin: the sum over all atoms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

from dfi._data.table import read_table
from dfi._lines.base import Lines, Reference
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.quadrature import QuadratureLines
from dfi._lines.trees.ensemble import Unreadable, follow_gaps
from dfi._lines.trees.readers import read_trees
from dfi._models.predictor import learner_view, predictor_for, rows_seen

N = 160
RNG = np.random.default_rng(4)
FULL = pd.DataFrame(RNG.normal(size=(N, 3)) @ (np.eye(3) + 0.5), columns=["a", "b", "c"]).assign(
    count=RNG.integers(0, 4, N).astype(float),
    word=RNG.choice(["u", "v", "w"], N),
    flag=pd.array(RNG.random(N) < 0.5, dtype="boolean"),
)
Y = np.asarray(FULL["a"] * FULL["b"] + FULL["c"] + (FULL["word"] == "u") + RNG.normal(size=N) / 4)
# what is missing depends on the rest, and is seen by the outcome
GAPS = np.random.default_rng(5).random(FULL.shape) < 0.3
HOLES = FULL.mask(GAPS).assign(whole=FULL["a"])
Y = Y + 2.0 * GAPS[:, 0]


def lightgbm(**options):
    return pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=12, verbose=-1, **options)


def xgboost():
    return pytest.importorskip("xgboost").XGBRegressor(n_estimators=12, enable_categorical=False)


def catboost(**options):
    return pytest.importorskip("catboost").CatBoostRegressor(
        n_estimators=12, depth=4, verbose=0, allow_writing_files=False, **options
    )


MODELS = {
    "tree": lambda: DecisionTreeRegressor(min_samples_leaf=3),
    "forest": lambda: RandomForestRegressor(6),
    "extra trees": lambda: ExtraTreesRegressor(6),
    "boosting": lambda: HistGradientBoostingRegressor(max_iter=12, min_samples_leaf=4),
    "counts": lambda: HistGradientBoostingRegressor(max_iter=12, loss="poisson"),
    "bagging": lambda: BaggingRegressor(DecisionTreeRegressor(max_depth=4), 4, max_features=0.7),
    "lightgbm": lightgbm,
    "lightgbm without": lambda: lightgbm(use_missing=False),
    "xgboost": xgboost,
    "catboost": catboost,
    "catboost last": lambda: catboost(nan_mode="Max"),
    "mean and indicator": lambda: GradientBoostingRegressor(n_estimators=12),
}


def lines_of(matrix, n_rows=40):
    """Return lines along which indicators move with values: a full factor of the second moments."""
    factor = np.linalg.cholesky(np.cov(matrix.T) + 1e-3 * np.eye(matrix.shape[1]))
    latent = np.linalg.solve(factor, (matrix - matrix.mean(axis=0)).T).T
    offsets = np.zeros((1, matrix.shape[1]))
    law = Reference.empirical(latent)
    return Lines(matrix[:n_rows], latent[:n_rows], factor, law, offsets)


def fitted(name, table, y=Y):
    model = MODELS[name]()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model.fit(rows_seen(table, table.matrix, learner_view(model, table)), y)


@pytest.mark.parametrize("name", MODELS)
def test_means_are_exact(name):
    table = read_table(HOLES)
    predictor = predictor_for(
        fitted(name, table, np.exp(Y / 4) if name == "counts" else Y), table, prefit=False
    )
    assert predictor.view == ("matrix" if name == "mean and indicator" else "values")
    lines = lines_of(table.matrix)
    exact = line_model(predictor, table.matrix, Quadrature())
    assert exact.rule.startswith("exact: ")
    found = exact.moments(lines)
    twin = QuadratureLines(predictor, "equal", N).moments(lines)
    tolerance = 4e-6 if name == "xgboost" else 1e-9
    np.testing.assert_allclose(found.mean, twin.mean, atol=tolerance)
    np.testing.assert_allclose(found.hermite, twin.hermite, atol=tolerance)
    # a row whose value is taken away is another row
    moved = table.matrix.copy()
    moved[:, table.columns[0].positions[1]] = 1.0
    np.testing.assert_allclose(exact.predict(moved), predictor(moved), atol=tolerance)
    assert np.abs(exact.predict(moved) - exact.predict(table.matrix)).max() > 0.05


def test_a_model_that_was_fitted_on_a_frame_of_numbers():
    frame = HOLES[["a", "b", "c", "whole"]]
    table = read_table(frame)
    model = HistGradientBoostingRegressor(max_iter=8).fit(frame, Y)
    predictor = predictor_for(model, table, prefit=True)
    assert predictor.view == "frame"
    lines = lines_of(table.matrix)
    exact = line_model(predictor, table.matrix, Quadrature())
    assert exact.rule == "exact: 8 trees"
    np.testing.assert_allclose(
        exact.moments(lines).mean, QuadratureLines(predictor, "equal", N).moments(lines).mean
    )


def test_probabilities():
    table = read_table(HOLES)
    seen = table.seen(table.matrix)
    model = HistGradientBoostingClassifier(max_iter=6).fit(seen, np.median(Y) < Y)
    predictor = predictor_for(model, table, prefit=False)
    lines = lines_of(table.matrix, 10)
    exact = line_model(predictor, table.matrix, Quadrature())
    assert exact.rule.startswith("exact")
    np.testing.assert_allclose(
        exact.moments(lines).mean, QuadratureLines(predictor, "equal", N).moments(lines).mean
    )


def test_what_a_pipeline_does_to_missing_values_is_not_followed():
    frame = HOLES[["a", "b", "c"]]
    model = make_pipeline(SimpleImputer(), RandomForestRegressor(3)).fit(frame, Y)
    predictor = predictor_for(model, read_table(frame), prefit=True)
    lines = line_model(predictor, read_table(frame).matrix, Quadrature())
    assert lines.rule.startswith("quadrature")


def test_a_column_that_is_missing_nowhere_or_everywhere_among_the_rows_that_count():
    table = read_table(HOLES)
    absent = table.where_missing(table.columns[0])
    for rows in (absent, ~absent):
        thinned = table.without(rows)
        predictor = predictor_for(fitted("boosting", table), thinned, prefit=False)
        exact = line_model(predictor, table.matrix, Quadrature())
        assert exact.rule.startswith("exact")
        np.testing.assert_allclose(exact.predict(table.matrix), predictor(table.matrix))


def test_trees_must_say_where_missing_values_go():
    table = read_table(HOLES)
    ensemble, _ = read_trees(fitted("tree", table))
    with pytest.raises(Unreadable, match="does not say where missing values go"):
        follow_gaps(replace(ensemble, default_left=None), table.levels)
