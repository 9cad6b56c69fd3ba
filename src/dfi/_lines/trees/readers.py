"""Read fitted models into flat arrays, and check that they are the same function.

scikit-learn's models are read from their public arrays here, the boosting libraries' in
:mod:`dfi._lines.trees.boosting`. Decision trees, forests and ``GradientBoosting*`` compare
``float32(x) <= c``; ``HistGradientBoosting*`` compares ``x <= c`` in float64. Missing-value
branches never act on finite rows, so they are left aside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit
from sklearn import ensemble as sk
from sklearn import linear_model as lm
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from dfi._lines.trees.boosting import read_boosting
from dfi._lines.trees.ensemble import (
    NotTrees,
    TreeEnsemble,
    Unreadable,
    add_ensembles,
    fold_float32_at_most,
    joined_trees,
    require,
    single_tree,
)
from dfi._lines.trees.pipelines import read_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dfi._types import Floats

FORESTS = (
    sk.RandomForestRegressor,
    sk.RandomForestClassifier,
    sk.ExtraTreesRegressor,
    sk.ExtraTreesClassifier,
)
LINEAR = (
    *(lm.LinearRegression, lm.Ridge, lm.RidgeCV, lm.Lasso),
    *(lm.LassoCV, lm.ElasticNet, lm.ElasticNetCV),
)
SEARCHES = (GridSearchCV, RandomizedSearchCV)


def read_trees(model: object, *, column: int = 1) -> tuple[TreeEnsemble | None, str]:
    """Return a fitted model's trees, or None and the reason, empty where it is not made of trees.

    Of a classifier, the trees are those of the probability of class ``column``.
    """
    try:
        return _read(model, column), ""
    except NotTrees:
        return None, ""
    except Unreadable as reason:
        return None, f"{type(model).__name__}: {reason}"


def _read(model: object, column: int) -> TreeEnsemble:
    ensemble = _read_sklearn(model, column)
    if ensemble is None:
        ensemble = read_boosting(model, column)
    if ensemble is None:
        if hasattr(model, "estimators_"):
            raise Unreadable("this ensemble is not read")
        raise NotTrees
    return ensemble


def _read_sklearn(model: object, column: int) -> TreeEnsemble | None:
    if isinstance(model, (DecisionTreeRegressor, DecisionTreeClassifier)):
        return _decision_trees([model], column)
    if isinstance(model, FORESTS):
        return _decision_trees(model.estimators_, column).scaled(1.0 / len(model.estimators_))
    if isinstance(model, (sk.GradientBoostingRegressor, sk.GradientBoostingClassifier)):
        return _gradient_boosting(model, column)
    if isinstance(model, (sk.HistGradientBoostingRegressor, sk.HistGradientBoostingClassifier)):
        return _histogram_boosting(model, column)
    return _read_composed(model, column)


def _read_composed(model: object, column: int) -> TreeEnsemble | None:
    if isinstance(model, (sk.BaggingRegressor, sk.BaggingClassifier)):
        return _bagging(model, column)
    if isinstance(model, (sk.VotingRegressor, sk.VotingClassifier)):
        return _voting(model, column)
    if isinstance(model, sk.StackingRegressor):
        return _stacking(model, column)
    if isinstance(model, SEARCHES):
        require(hasattr(model, "best_estimator_"), "the search was not refitted on all rows")
        return _read(model.best_estimator_, column)
    if isinstance(model, Pipeline):
        return read_pipeline(model, _read(model.steps[-1][1], column))
    return None


def verify(
    ensemble: TreeEnsemble,
    predict: Callable[[Floats], Floats],
    points: Floats,
    *,
    read: Callable[[Floats], Floats] | None = None,
    n_probes: int = 400,
) -> float:
    """Return the largest relative difference between the trees and the model's own predict.

    Lines leave the cloud of rows, so the two are compared at rows and at points on the straight
    lines through pairs of rows, between them and beyond.
    """
    probes = _probes(np.asarray(points, dtype=np.float64), n_probes)
    own = np.asarray(predict(probes), dtype=np.float64).reshape(len(probes))
    ours = (read or ensemble.predict)(probes)
    scale = max(float(np.abs(own).max()), float(np.abs(ensemble.value).max()))
    return float(np.abs(own - ours).max() / (scale or 1.0))


def _probes(points: Floats, n_probes: int) -> Floats:
    # A fixed seed: the same model is always checked at the same points.
    rng = np.random.default_rng(0)
    rows = points[np.linspace(0, len(points) - 1, min(len(points), n_probes)).astype(int)]
    first = points[rng.integers(len(points), size=n_probes)]
    second = points[rng.integers(len(points), size=n_probes)]
    step = rng.uniform(-0.5, 1.5, size=(n_probes, 1))
    return np.concatenate([rows, first + step * (second - first)])


def _decision_trees(models: Sequence[DecisionTreeRegressor], column: int) -> TreeEnsemble:
    """Return the sum of decision trees, their arrays joined first: one call instead of hundreds."""
    require(
        all(model.n_outputs_ == 1 for model in models), "trees with several outputs are not read"
    )
    trees = [model.tree_ for model in models]
    values = [tree.value[:, 0, :] for tree in trees]
    if isinstance(models[0], DecisionTreeClassifier):
        require(
            all(column < value.shape[1] for value in values), f"there is no class number {column}"
        )
        value = np.concatenate([value[:, column] / value.sum(axis=1) for value in values])
    else:
        value = np.concatenate([value[:, 0] for value in values])
    return joined_trees(
        [tree.node_count for tree in trees],
        np.concatenate([tree.feature for tree in trees]),
        fold_float32_at_most(np.concatenate([tree.threshold for tree in trees])),
        np.concatenate([tree.children_left for tree in trees]),
        np.concatenate([tree.children_right for tree in trees]),
        value,
        n_features=trees[0].n_features,
    )


def _gradient_boosting(model: sk.GradientBoostingRegressor, column: int) -> TreeEnsemble:
    require(model.estimators_.shape[1] == 1, "boosted classifiers of more than two classes")
    ensemble = _decision_trees(model.estimators_[:, 0], 0).scaled(model.learning_rate)
    init = model.init_
    if isinstance(model, sk.GradientBoostingRegressor):
        if isinstance(init, str):
            return ensemble
        require(isinstance(init, DummyRegressor), "boosting starts from another model (init)")
        return ensemble.shifted(float(np.ravel(init.constant_)[0]))
    start = 0.0
    # The exponential loss reads its margin on half the scale of log-odds.
    scale = 2.0 if model.loss == "exponential" else 1.0
    if not isinstance(init, str):
        require(isinstance(init, DummyClassifier), "boosting starts from another model (init)")
        start = float(logit(init.class_prior_[1])) / scale
    return _as_probability(ensemble.shifted(start).scaled(scale), column)


def _histogram_boosting(model: sk.HistGradientBoostingRegressor, column: int) -> TreeEnsemble:
    require(model.n_trees_per_iteration_ == 1, "boosted classifiers of more than two classes")
    require(getattr(model, "_preprocessor", None) is None, "categorical splits are not followed")
    parts = []
    for (predictor,) in model._predictors:
        nodes = predictor.nodes
        inner = nodes["is_leaf"] == 0
        require(not nodes["is_categorical"][inner].any(), "categorical splits are not followed")
        parts.append(
            single_tree(
                nodes["feature_idx"],
                nodes["num_threshold"],
                np.where(inner, nodes["left"], -1),
                np.where(inner, nodes["right"], -1),
                nodes["value"],
                n_features=model.n_features_in_,
            )
        )
    ensemble = add_ensembles(parts).shifted(float(np.ravel(model._baseline_prediction)[0]))
    if isinstance(model, sk.HistGradientBoostingClassifier):
        return _as_probability(ensemble, column)
    if model.loss in ("poisson", "gamma"):
        return replace(ensemble, link="exp")
    return ensemble


def _as_probability(ensemble: TreeEnsemble, column: int) -> TreeEnsemble:
    require(column in (0, 1), f"there is no class number {column}")
    return replace(ensemble if column == 1 else ensemble.scaled(-1.0), link="logistic")


def _sum(parts: list[TreeEnsemble], weights: Iterable[float]) -> TreeEnsemble:
    require(
        all(part.link == "identity" for part in parts),
        "a sum of models that have a nonlinear link is not a sum of trees",
    )
    return add_ensembles([part.scaled(float(w)) for part, w in zip(parts, weights, strict=True)])


def _bagging(model: sk.BaggingRegressor, column: int) -> TreeEnsemble:
    parts = []
    for member, features in zip(model.estimators_, model.estimators_features_, strict=True):
        require(
            isinstance(model, sk.BaggingRegressor) or len(member.classes_) == len(model.classes_),
            "a bagged classifier that has not seen every class",
        )
        parts.append(_read(member, column).with_columns(features, model.n_features_in_))
    return _sum(parts, np.full(len(parts), 1.0 / len(parts)))


def _voting(model: sk.VotingRegressor, column: int) -> TreeEnsemble:
    require(getattr(model, "voting", "soft") == "soft", "a majority vote is not a sum")
    parts = [_read(member, column) for member in model.estimators_]
    weights = model._weights_not_none
    share = np.ones(len(parts)) if weights is None else np.asarray(weights, dtype=float)
    return _sum(parts, share / share.sum())


def _stacking(model: sk.StackingRegressor, column: int) -> TreeEnsemble:
    final = model.final_estimator_
    require(isinstance(final, LINEAR), "the final estimator of the stack is not linear")
    require(not model.passthrough, "the stack passes the columns on to a linear model")
    parts = [_read(member, column) for member in model.estimators_]
    total = _sum(parts, np.ravel(final.coef_))
    return total.shifted(float(np.ravel(final.intercept_)[0]))
