"""Every supported model against the slow twin, on both laws, with every kernel."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy.special import expit
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

from dfi._lines.trees import TreeLines, tree_lines

from .conftest import make_lines, neighbours_in_float32, twin


def sklearn_splits(model):
    trees = [model] if hasattr(model, "tree_") else np.ravel(model.estimators_)
    splits = set()
    for k, estimator in enumerate(trees):
        columns = model.estimators_features_[k] if hasattr(model, "estimators_features_") else None
        tree = estimator.tree_
        for f, c in zip(tree.feature, tree.threshold, strict=True):
            if f >= 0:
                f = f if columns is None else columns[f]
                splits.update((int(f), place) for place in neighbours_in_float32(c))
    return splits


def histogram_splits(model):
    nodes = np.concatenate([predictor.nodes for (predictor,) in model._predictors])
    nodes = nodes[nodes["is_leaf"] == 0]
    return {(int(f), c) for f, c in zip(nodes["feature_idx"], nodes["num_threshold"], strict=True)}


def probability(model):
    return lambda points: model.predict_proba(points)[:, 1]


def lightgbm_case(x, y, estimator):
    model = estimator.fit(x, y)
    table = model.booster_.trees_to_dataframe().dropna(subset=["threshold"])
    names = table["split_feature"].str.removeprefix("Column_").astype(int)
    return model, set(zip(names, table["threshold"], strict=True))


def xgboost_case(x, y, estimator, link=lambda margin: margin, start=lambda base: base):
    """XGBoost adds up in float32: its own leaves are added up in float64 instead."""
    import xgboost

    model = estimator.fit(x, y)
    booster = model.get_booster()
    table = booster.trees_to_dataframe()
    # The table holds the decimals of a dump; the model holds the float32 numbers they stand for.
    leaf_rows = table[table.Feature == "Leaf"]
    leaves = {(r.Tree, r.Node): float(np.float32(r.Gain)) for r in leaf_rows.itertuples()}
    inner = table[table.Feature != "Leaf"]
    config = json.loads(booster.save_config())["learner"]["learner_model_param"]
    base = start(float(np.float32(re.sub(r"[\[\]]", "", config["base_score"]))))

    def predict(points):
        reached = booster.predict(xgboost.DMatrix(points), pred_leaf=True)
        reached = reached.reshape(len(points), -1)
        rows = [[leaves[k, int(node)] for k, node in enumerate(row)] for row in reached]
        return link(base + np.sum(rows, axis=1))

    splits = set()
    for name, c in zip(inner.Feature, inner.Split, strict=True):
        splits.update((int(name[1:]), place) for place in neighbours_in_float32(c))
    return model, splits, predict


def catboost_case(x, y, estimator):
    model = estimator.fit(x, y)
    splits = set()
    for f, borders in model.get_borders().items():
        for c in borders:
            splits.update((int(f), place) for place in neighbours_in_float32(c))
    return model, splits


def build(name, x, y):
    """Return model, splits, the function to average, and the function to verify against."""
    label = (y > np.median(y)).astype(int)
    count = np.round(np.exp(np.clip(y / 4, -2, 2)))
    fixed = {"random_state": 0}
    if name == "tree":
        model = DecisionTreeRegressor(max_depth=5, **fixed).fit(x, y)
    elif name == "forest":
        model = RandomForestRegressor(8, min_samples_leaf=8, **fixed).fit(x, y)
    elif name == "extra trees":
        model = ExtraTreesRegressor(8, max_leaf_nodes=15, **fixed).fit(x, y)
    elif name == "boosting":
        model = GradientBoostingRegressor(n_estimators=15, **fixed).fit(x, y)
    elif name == "bagging":
        model = BaggingRegressor(
            DecisionTreeRegressor(max_depth=4), n_estimators=6, max_features=3, **fixed
        ).fit(x, y)
    elif name == "forest probability":
        model = RandomForestClassifier(6, max_depth=4, **fixed).fit(x, label)
        return model, sklearn_splits(model), probability(model), probability(model)
    elif name == "extra trees probability":
        model = ExtraTreesClassifier(6, max_depth=4, **fixed).fit(x, label)
        return model, sklearn_splits(model), probability(model), probability(model)
    elif name == "boosted probability":
        model = GradientBoostingClassifier(n_estimators=10, max_depth=2, **fixed).fit(x, label)
        return model, sklearn_splits(model), probability(model), probability(model)
    elif name == "exponential loss":
        model = GradientBoostingClassifier(
            n_estimators=10, max_depth=2, loss="exponential", **fixed
        ).fit(x, label)
        return model, sklearn_splits(model), probability(model), probability(model)
    elif name == "histogram":
        model = HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=8, **fixed).fit(x, y)
        return model, histogram_splits(model), model.predict, model.predict
    elif name == "histogram poisson":
        model = HistGradientBoostingRegressor(
            loss="poisson", max_iter=6, max_leaf_nodes=6, **fixed
        ).fit(x, count)
        return model, histogram_splits(model), model.predict, model.predict
    elif name == "histogram probability":
        model = HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=6, **fixed).fit(x, label)
        return model, histogram_splits(model), probability(model), probability(model)
    elif name.startswith("lightgbm"):
        lightgbm = pytest.importorskip("lightgbm")
        few = {"n_estimators": 8, "num_leaves": 8, "verbose": -1, "n_jobs": 1}
        if name == "lightgbm probability":
            model, splits = lightgbm_case(x, label, lightgbm.LGBMClassifier(**few))
            own = probability(model)
        elif name == "lightgbm poisson":
            model, splits = lightgbm_case(
                x, count, lightgbm.LGBMRegressor(objective="poisson", **few)
            )
            own = model.predict
        elif name == "lightgbm forest":
            model, splits = lightgbm_case(
                x,
                y,
                lightgbm.LGBMRegressor(boosting_type="rf", subsample=0.6, subsample_freq=1, **few),
            )
            own = model.predict
        else:
            model, splits = lightgbm_case(x, y, lightgbm.LGBMRegressor(**few))
            own = model.predict
            model = model.booster_ if name == "lightgbm booster" else model
        return model, splits, own, own
    elif name.startswith("xgboost"):
        xgboost = pytest.importorskip("xgboost")
        few = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}
        if name == "xgboost probability":
            model, splits, exact = xgboost_case(
                x,
                label,
                xgboost.XGBClassifier(**few),
                expit,
                lambda base: np.log(base / (1 - base)),
            )
            return model, splits, exact, probability(model)
        if name == "xgboost poisson":
            model, splits, exact = xgboost_case(
                x, count, xgboost.XGBRegressor(objective="count:poisson", **few), np.exp, np.log
            )
            return model, splits, exact, model.predict
        model, splits, exact = xgboost_case(x, y, xgboost.XGBRegressor(**few))
        return model, splits, exact, model.predict
    elif name == "catboost":
        catboost = pytest.importorskip("catboost")
        model, splits = catboost_case(
            x,
            y,
            catboost.CatBoostRegressor(
                iterations=8, depth=3, verbose=False, allow_writing_files=False, thread_count=1
            ),
        )
        return model, splits, model.predict, model.predict
    return model, sklearn_splits(model), model.predict, model.predict


NAMES = [
    "tree",
    "forest",
    "extra trees",
    "boosting",
    "bagging",
    "forest probability",
    "extra trees probability",
    "boosted probability",
    "exponential loss",
    "histogram",
    "histogram poisson",
    "histogram probability",
    "lightgbm",
    "lightgbm booster",
    "lightgbm forest",
    "lightgbm poisson",
    "lightgbm probability",
    "xgboost",
    "xgboost poisson",
    "xgboost probability",
    "catboost",
]


@pytest.fixture(scope="module", params=NAMES)
def case(request, data):
    return build(request.param, *data)


@pytest.mark.parametrize("q", [1, 3])
def test_every_model_agrees_with_its_own_predictions(case, data, kind, q):
    model, splits, exact, own = case
    lines = make_lines(data[0][:3], kind=kind, q=q, p_constant=0)
    lines.directions[:, 3] = 0.0
    read = tree_lines(model, own, data[0])
    assert read is not None
    assert read.rule.startswith("exact: ")
    truth = twin(exact, splits, lines)
    kernels = ["merged"]
    if read.ensemble.link == "identity":
        kernels += ["arena", "shared", "path"]
    for kernel in kernels:
        moments = TreeLines(read.ensemble, kernel=kernel).moments(lines)
        np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=1e-9)


def test_predictions_are_the_models_own(case, data):
    model, _, exact, own = case
    read = tree_lines(model, own, data[0])
    np.testing.assert_allclose(read.predict(data[0]), exact(data[0]), rtol=0, atol=1e-9)
