"""Read the trees of scikit-learn's models from their public arrays.

Decision trees, forests and ``GradientBoosting*`` compare ``float32(x) <= c``;
``HistGradientBoosting*`` compares ``x <= c`` in float64. Missing-value branches never act on finite
rows, so they are left aside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    Ridge,
    RidgeCV,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from dfi._lines.trees.ensemble import (
    TreeEnsemble,
    add_ensembles,
    fold_float32_at_most,
    joined_trees,
    single_tree,
)
from dfi._lines.trees.reading import require

if TYPE_CHECKING:
    from collections.abc import Callable

    Reader = Callable[[Any, int], TreeEnsemble]

TREES = (DecisionTreeRegressor, DecisionTreeClassifier)
FORESTS = (
    RandomForestRegressor,
    RandomForestClassifier,
    ExtraTreesRegressor,
    ExtraTreesClassifier,
)
LINEAR = (LinearRegression, Ridge, RidgeCV, Lasso, LassoCV, ElasticNet, ElasticNetCV)


def read_sklearn(model: Any, column: int, read: Reader) -> TreeEnsemble | None:
    """Read a scikit-learn model; None where it is none of the known ones.

    Parameters
    ----------
    model : object
        The fitted model.
    column : int
        Class whose probability is wanted, for classifiers.
    read : callable
        Reader of the parts of a composed model.
    """
    if isinstance(model, TREES):
        return _decision_trees([model], column)
    if isinstance(model, FORESTS):
        return _decision_trees(model.estimators_, column).scaled(1.0 / len(model.estimators_))
    if isinstance(model, (GradientBoostingRegressor, GradientBoostingClassifier)):
        return _gradient_boosting(model, column)
    if isinstance(model, (HistGradientBoostingRegressor, HistGradientBoostingClassifier)):
        return _histogram_boosting(model, column)
    if isinstance(model, (BaggingRegressor, BaggingClassifier)):
        return _bagging(model, column, read)
    if isinstance(model, (VotingRegressor, VotingClassifier)):
        return _voting(model, column, read)
    if isinstance(model, StackingRegressor):
        return _stacking(model, column, read)
    if isinstance(model, (GridSearchCV, RandomizedSearchCV)):
        require(hasattr(model, "best_estimator_"), "the search was not refitted on all rows")
        return read(model.best_estimator_, column)
    if isinstance(model, Pipeline):
        from dfi._lines.trees.pipelines import read_pipeline

        return read_pipeline(model, column, read)
    return None


def _decision_trees(models: Any, column: int) -> TreeEnsemble:
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


def _gradient_boosting(model: Any, column: int) -> TreeEnsemble:
    require(model.estimators_.shape[1] == 1, "boosted classifiers of more than two classes")
    ensemble = _decision_trees(model.estimators_[:, 0], 0).scaled(model.learning_rate)
    init = model.init_
    if isinstance(model, GradientBoostingRegressor):
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


def _histogram_boosting(model: Any, column: int) -> TreeEnsemble:
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
    if isinstance(model, HistGradientBoostingClassifier):
        return _as_probability(ensemble, column)
    if model.loss in ("poisson", "gamma"):
        return replace(ensemble, link="exp")
    return ensemble


def _as_probability(ensemble: TreeEnsemble, column: int) -> TreeEnsemble:
    require(column in (0, 1), f"there is no class number {column}")
    return replace(ensemble if column == 1 else ensemble.scaled(-1.0), link="logistic")


def _sum(parts: list[TreeEnsemble], weights: Any) -> TreeEnsemble:
    require(
        all(part.link == "identity" for part in parts),
        "a sum of models that have a nonlinear link is not a sum of trees",
    )
    return add_ensembles([part.scaled(float(w)) for part, w in zip(parts, weights, strict=True)])


def _bagging(model: Any, column: int, read: Reader) -> TreeEnsemble:
    parts = []
    for member, features in zip(model.estimators_, model.estimators_features_, strict=True):
        require(
            isinstance(model, BaggingRegressor) or len(member.classes_) == len(model.classes_),
            "a bagged classifier that has not seen every class",
        )
        parts.append(read(member, column).with_columns(features, model.n_features_in_))
    return _sum(parts, np.full(len(parts), 1.0 / len(parts)))


def _voting(model: Any, column: int, read: Reader) -> TreeEnsemble:
    require(getattr(model, "voting", "soft") == "soft", "a majority vote is not a sum")
    parts = [read(member, column) for member in model.estimators_]
    weights = model._weights_not_none
    share = np.ones(len(parts)) if weights is None else np.asarray(weights, dtype=float)
    return _sum(parts, share / share.sum())


def _stacking(model: Any, column: int, read: Reader) -> TreeEnsemble:
    final = model.final_estimator_
    require(isinstance(final, LINEAR), "the final estimator of the stack is not linear")
    require(not model.passthrough, "the stack passes the columns on to a linear model")
    parts = [read(member, column) for member in model.estimators_]
    total = _sum(parts, np.ravel(final.coef_))
    return total.shifted(float(np.ravel(final.intercept_)[0]))
