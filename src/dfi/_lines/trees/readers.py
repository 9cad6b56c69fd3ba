"""Read fitted models into flat arrays, and check that both predict the same.

scikit-learn's models are read from their public arrays. Decision trees, forests and
``GradientBoosting*`` compare ``float32(x) <= c``; ``HistGradientBoosting*`` compares ``x <= c`` in
float64. Where a missing value goes at a split is read beside it.

LightGBM, XGBoost and CatBoost are read from the text that each library itself saves. The text
formats are public, complete and quick to parse, and nothing has to be imported: a model
that is at hand has already imported its library. treelite 4.8 reads the same models except
CatBoost. It imports in 0.04 s, but reads a scikit-learn forest of 500 trees in 0.11 s where the
forest's own arrays take 0.05 s (two shared cores), and would be a dependency for everyone.
LightGBM compares ``x <= c`` in float64, XGBoost ``float32(x) < c``, CatBoost ``float32(x) <= c``.

Categories that a model takes itself are whole numbers to its trees, the places of levels among
those that it knows (:func:`known_levels`). A split names some of them: LightGBM sends these left,
XGBoost right, and both send all others, also levels that they do not know, the other way.
scikit-learn sends what it does not know where missing values go. CatBoost splits by statistics
of the outcome, which are not followed.
"""

from __future__ import annotations

import functools
import json
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit
from sklearn import ensemble as sk
from sklearn import linear_model as lm
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from dfi._learners.boosting import LeastSquaresBoosting
from dfi._learners.temperature import TemperatureScaled
from dfi._lines.trees.ensemble import (
    LevelRule,
    Link,
    NotTrees,
    TreeEnsemble,
    Unreadable,
    add_ensembles,
    fold_float32_at_most,
    fold_float32_below,
    joined_trees,
    require,
    single_tree,
    softmax_of,
)
from dfi._lines.trees.pipelines import read_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from dfi._data.columns import Column
    from dfi._lines.trees.ensemble import Integers
    from dfi._types import Floats, Plain

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
IDENTITY: Link = "identity"
LOGISTIC: Link = "logistic"
EXP: Link = "exp"
LIGHTGBM_IDENTITY = (
    *("", "custom", "regression", "regression_l1"),
    *("huber", "fair", "quantile", "mape"),
)
LIGHTGBM_EXP = {"poisson", "gamma", "tweedie"}
XGBOOST_LINKS: dict[str, Link] = {
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror"), IDENTITY),
    **dict.fromkeys(("reg:pseudohubererror", "reg:quantileerror"), IDENTITY),
    **dict.fromkeys(("reg:logistic", "binary:logistic"), LOGISTIC),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), EXP),
}
CATBOOST_LINKS: dict[str, Link] = {
    **dict.fromkeys(["RMSE", "MAE", "Quantile", "Huber", "MAPE", "Expectile", "LogCosh"], IDENTITY),
    **dict.fromkeys(("Logloss", "CrossEntropy"), LOGISTIC),
    **dict.fromkeys(("Poisson", "Tweedie"), EXP),
}
XGBOOST_SOFTMAX = ("multi:softprob", "multi:softmax")
SINGLE_PRECISION = 1e-6
TREES = "oblivious_trees"


def read_trees(
    model: object, *, column: int = 1, margin: bool = False
) -> tuple[TreeEnsemble | None, str]:
    """Return a model's trees, or None and the reason, empty where it is not made of trees."""
    try:
        ensemble = _read(model, column)
        _require_trees(ensemble)
        return ensemble.margin() if margin else ensemble, ""
    except NotTrees:
        return None, ""
    except Unreadable as reason:
        return None, f"{type(model).__name__}: {reason}"
    # what a library wrote about a damaged model, or will write in its next version
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        return None, f"{type(model).__name__}: its trees make no sense ({error!r})"


def _require_trees(ensemble: TreeEnsemble) -> None:
    """Require what kernels rely on: they follow nodes without looking whether these exist.

    Where no node has two parents and no root has one, a walk that begins at a root ends.
    """
    size = len(ensemble.feature)
    inner = np.flatnonzero(ensemble.feature >= 0)
    children = np.concatenate([ensemble.left[inner], ensemble.right[inner]])
    features = ensemble.feature[inner]
    sane = (
        size > 0
        and all(len(column) == size for column in (ensemble.threshold, ensemble.left))
        and all(len(column) == size for column in (ensemble.right, ensemble.value))
        and np.all((children >= 0) & (children < size))
        and np.all(features < ensemble.n_features + len(ensemble.rules))
        and np.all((ensemble.roots >= 0) & (ensemble.roots < size))
        and all(0 <= rule.column < ensemble.n_features for rule in ensemble.rules)
    )
    require(sane, "its trees refer to nodes or columns that are not there")
    parents = np.bincount(children, minlength=size)
    require(
        not np.any(parents > 1) and not np.any(parents[ensemble.roots]),
        "its trees have nodes that lead back to themselves",
    )
    require(np.isfinite(ensemble.value).all(), "its trees have leaves that are not numbers")


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
    if isinstance(model, LeastSquaresBoosting):
        return _least_squares_boosting(model)
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
    if isinstance(model, TemperatureScaled):
        return scaled_trees(_read(model.model_, column), model, column)
    return None


def scaled_trees(
    ensemble: TreeEnsemble, model: TemperatureScaled, column: int, *, margin: bool = False
) -> TreeEnsemble:
    """Return a classifier's trees with its probabilities scaled: still trees, exactly."""
    shrinkage, factor = model.shrinkage_, model.temperature_
    if not shrinkage and factor == 1.0:
        return ensemble
    if not shrinkage:
        require(margin or ensemble.link != "identity", "a sum without a link cannot be tempered")
        return ensemble.tempered(factor)
    require(ensemble.link == "identity" and not margin, "only a sum of shares can be shrunk")
    return ensemble.scaled(1.0 - shrinkage).shifted(shrinkage * float(model.prevalence_[column]))


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
        default_left=np.concatenate([tree.missing_go_to_left for tree in trees]),
    )


def _gradient_boosting(model: sk.GradientBoostingRegressor, column: int) -> TreeEnsemble:
    sums = [_decision_trees(grown, 0).scaled(model.learning_rate) for grown in model.estimators_.T]
    ensemble, init = sums[0], model.init_
    if isinstance(model, sk.GradientBoostingRegressor):
        if isinstance(init, str):
            return ensemble
        require(isinstance(init, DummyRegressor), "boosting starts from another model (init)")
        return ensemble.shifted(float(np.ravel(init.constant_)[0]))
    if len(sums) > 1:
        if not isinstance(init, str):
            require(isinstance(init, DummyClassifier), "boosting starts from another model (init)")
            starts = np.log(init.class_prior_)
            sums = [part.shifted(float(at)) for part, at in zip(sums, starts, strict=True)]
        return softmax_of(sums, column)
    start = 0.0
    # The exponential loss reads its margin on half the scale of log-odds.
    scale = 2.0 if model.loss == "exponential" else 1.0
    if not isinstance(init, str):
        require(isinstance(init, DummyClassifier), "boosting starts from another model (init)")
        start = float(logit(init.class_prior_[1])) / scale
    return _as_probability(ensemble.shifted(start).scaled(scale), column)


def _histogram_boosting(model: sk.HistGradientBoostingRegressor, column: int) -> TreeEnsemble:
    marked = model.is_categorical_
    read = _histogram_plain if marked is None else _histogram_levelled
    starts = np.ravel(model._baseline_prediction)
    sums = [
        read(model, grown).shifted(float(start))
        for grown, start in zip(zip(*model._predictors, strict=True), starts, strict=True)
    ]
    ensemble = sums[0] if len(sums) == 1 else softmax_of(sums, column)
    if marked is not None:
        # The trees are given columns with levels first.
        order = np.concatenate([np.flatnonzero(marked), np.flatnonzero(~marked)])
        ensemble = ensemble.with_columns(order, model.n_features_in_)
    if len(sums) > 1:
        return ensemble
    if isinstance(model, sk.HistGradientBoostingClassifier):
        return _as_probability(ensemble, column)
    if model.loss in ("poisson", "gamma"):
        return replace(ensemble, link="exp")
    return ensemble


def _histogram_plain(model: sk.HistGradientBoostingRegressor, grown: Sequence[Any]) -> TreeEnsemble:
    """Return the sum of trees that split by numbers, their arrays joined first."""
    nodes = np.concatenate([predictor.nodes for predictor in grown])
    inner = nodes["is_leaf"] == 0
    return joined_trees(
        [len(predictor.nodes) for predictor in grown],
        nodes["feature_idx"],
        nodes["num_threshold"],
        np.where(inner, nodes["left"].astype(np.int32), -1),
        np.where(inner, nodes["right"].astype(np.int32), -1),
        nodes["value"],
        n_features=model.n_features_in_,
        default_left=nodes["missing_go_to_left"],
    )


def _histogram_levelled(
    model: sk.HistGradientBoostingRegressor, grown: Sequence[Any]
) -> TreeEnsemble:
    """Return the sum of trees some of whose splits are by level."""
    levels = _histogram_levels(model)
    parts = []
    for predictor in grown:
        nodes = predictor.nodes
        inner = nodes["is_leaf"] == 0
        rules = {}
        for node in np.flatnonzero(inner & (nodes["is_categorical"] > 0)):
            column = int(nodes["feature_idx"][node])
            members = _bits(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
            unknown_left = bool(nodes["missing_go_to_left"][node])
            if unknown_left:
                members = frozenset(range(len(levels[column]))) - members
            rules[int(node)] = LevelRule(column, members, left=not unknown_left)
        parts.append(
            single_tree(
                nodes["feature_idx"],
                nodes["num_threshold"],
                np.where(inner, nodes["left"], -1),
                np.where(inner, nodes["right"], -1),
                nodes["value"],
                n_features=model.n_features_in_,
                rules=rules,
                default_left=nodes["missing_go_to_left"],
            )
        )
    return add_ensembles(parts)


def _least_squares_boosting(model: LeastSquaresBoosting) -> TreeEnsemble:
    feature, left, right, roots = (
        nodes.astype(np.int32)
        for nodes in (model.feature_, model.left_, model.right_, model.roots_[:-1])
    )
    return TreeEnsemble(
        feature, model.threshold_, left, right, np.where(feature < 0, model.value_, 0.0), roots,
        intercept=model.intercept_, n_features=model.n_features_in_,
    )  # fmt: skip


def _bits(words: NDArray[np.uint32]) -> frozenset[int]:
    """Return the bits that are set in words of 32."""
    on = np.unpackbits(np.asarray(words, dtype="<u4").view(np.uint8), bitorder="little")
    return frozenset(np.flatnonzero(on).tolist())


def _histogram_levels(model: sk.HistGradientBoostingRegressor) -> list[list[object]]:
    """Return the levels that histogram boosting knows, of each column that has some."""
    if model.is_categorical_ is None:
        return []
    encoder = model._preprocessor.named_transformers_["encoder"]
    return [
        [level for level in levels if level is not None and level == level]
        for levels in encoder.categories_
    ]


def known_levels(model: Any, columns: Sequence[Column]) -> dict[int, Sequence[object]]:
    """Return the levels whose places the trees of a model are given, by place of the column."""
    if isinstance(model, (sk.HistGradientBoostingRegressor, sk.HistGradientBoostingClassifier)):
        levels = _histogram_levels(model)
        return (
            dict(zip(np.flatnonzero(model.is_categorical_), levels, strict=True)) if levels else {}
        )
    library = _library(model)
    if library == "lightgbm":
        known = getattr(model, "booster_", model).pandas_categorical or []
        named = [place for place, column in enumerate(columns) if column.kind == "categorical"]
        require(len(known) in (0, len(named)), "its categorical columns are not those of the table")
        return dict(zip(named, known, strict=False))
    if library == "xgboost":
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        learner = json.loads(bytes(booster.save_raw("json")))["learner"]
        # Versions before 3.1 go by the type of the column that they are given.
        saved = learner["gradient_booster"].get("model", {}).get("cats", {}).get("enc", [])
        return {
            place: _xgboost_levels(levels) for place, levels in enumerate(saved) if levels["values"]
        }
    return {}


def _xgboost_levels(saved: Plain) -> Sequence[object]:
    if "offsets" not in saved:
        return list(saved["values"])
    text = bytes(value % 256 for value in saved["values"])
    return [text[start:end].decode() for start, end in pairwise(saved["offsets"])]


def _library(model: object) -> str:
    """Return the boosting library that a model, or what it is derived from, comes from."""
    names = (base.__module__.split(".")[0] for base in type(model).__mro__)
    return next((name for name in names if name in READERS), "")


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


def read_boosting(model: object, column: int) -> TreeEnsemble | None:
    """Read a boosting library's model; return None for any other."""
    library = _library(model)
    return READERS[library](model, column) if library else None


def _finish(ensemble: TreeEnsemble, link: Link, column: int) -> TreeEnsemble:
    if link == "logistic" and column == 0:
        ensemble = ensemble.scaled(-1.0)
    return replace(ensemble, link=link)


def _lightgbm(model: Any, column: int) -> TreeEnsemble:
    text = getattr(model, "booster_", model).model_to_string().split("\nend of trees")[0]
    header, *blocks = text.split("\nTree=")
    lines = header.splitlines()
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    n_sums = int(fields["num_tree_per_iteration"])
    n_features = int(fields["max_feature_idx"]) + 1
    # All classes are read for each of them: they come one after the other.
    read = _lightgbm_sums if n_sums == 1 else _lightgbm_sums_kept
    sums = list(read(tuple(blocks), n_sums, n_features))
    if "average_output" in lines:
        sums = [part.scaled(1.0 / part.n_trees) for part in sums]
    ensemble = sums[0]
    objective, *options = fields.get("objective", "").split(" ")
    if objective == "multiclass":
        return softmax_of(sums, column)
    if objective == "multiclassova":
        require(0 <= column < n_sums, f"there is no class number {column}")
        slope = float(options[-1].removeprefix("sigmoid:"))
        return replace(sums[column].scaled(slope), link="logistic")
    require(n_sums == 1, "LightGBM with more than two classes and a custom objective")
    if objective in LIGHTGBM_IDENTITY and "sqrt" not in options:
        return ensemble
    if objective in LIGHTGBM_EXP:
        return _finish(ensemble, "exp", column)
    if objective == "binary":
        slope = float(options[0].removeprefix("sigmoid:"))
        return _finish(ensemble.scaled(slope), "logistic", column)
    if objective == "cross_entropy":
        return _finish(ensemble, "logistic", column)
    raise Unreadable(f"the LightGBM objective {' '.join([objective, *options])!r} is not supported")


def _lightgbm_sums(
    blocks: tuple[str, ...], n_sums: int, n_features: int
) -> tuple[TreeEnsemble, ...]:
    """Return the sum of trees of each class; each round of boosting adds a tree to every one."""
    trees = [_lightgbm_tree(block, n_features) for block in blocks]
    return tuple(add_ensembles(trees[k::n_sums]) for k in range(n_sums))


_lightgbm_sums_kept = functools.lru_cache(maxsize=1)(_lightgbm_sums)


def _lightgbm_tree(block: str, n_features: int) -> TreeEnsemble:
    fields = dict(line.split("=", 1) for line in block.splitlines()[1:] if "=" in line)
    require(fields.get("is_linear", "0") == "0", "LightGBM with linear trees")
    value = np.array(fields["leaf_value"].split(), dtype=np.float64)
    n_inner = len(value) - 1
    feature = np.array(fields.get("split_feature", "").split(), dtype=np.int32)
    threshold = np.array(fields.get("threshold", "").split(), dtype=np.float64)
    decision = np.array(fields.get("decision_type", "").split(), dtype=np.int64)
    left = np.array(fields.get("left_child", "").split(), dtype=np.int32)
    right = np.array(fields.get("right_child", "").split(), dtype=np.int32)
    by_level = (decision & 1) > 0
    default_left = (decision & 2) > 0
    zero_is_missing = ~by_level & ((decision >> 2) & 3 == 1)
    require(
        not np.any(zero_is_missing & (default_left != (threshold >= 0))),
        "zero is treated as missing and sent to the other side",
    )
    # where none was missing in training, and where zero counts as missing, NaN is taken for zero
    default_left = np.where((decision >> 2) & 3 == 2, default_left, threshold >= 0)

    bounds = np.array(fields.get("cat_boundaries", "").split(), dtype=np.int64)
    words = np.array(fields.get("cat_threshold", "").split(), dtype=np.uint32)
    rules = {}
    for node in np.flatnonzero(by_level):
        place = int(threshold[node])
        members = _bits(words[bounds[place] : bounds[place + 1]])
        rules[int(node)] = LevelRule(int(feature[node]), members, left=True)

    # Leaf k is written as child -(k + 1): here it follows the inner nodes.
    def children(child: Integers) -> Floats:
        return np.concatenate([np.where(child >= 0, child, n_inner - child - 1), -(value**0)])

    pad = np.zeros(len(value))
    return single_tree(
        np.concatenate([feature, pad]),
        np.concatenate([threshold, pad]),
        children(left),
        children(right),
        np.concatenate([np.zeros(n_inner), value]),
        n_features=n_features,
        rules=rules,
        default_left=np.concatenate([default_left, pad]),
    )


def _xgboost(model: Any, column: int) -> TreeEnsemble:
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    missing = getattr(model, "missing", np.nan)
    require(missing is None or np.isnan(missing), f"XGBoost treats {missing} as missing")
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    gradient_booster = learner["gradient_booster"]
    weights = None
    if gradient_booster["name"] == "dart":
        weights = gradient_booster["weight_drop"]
        gradient_booster = gradient_booster["gbtree"]
    require(gradient_booster["name"] == "gbtree", "XGBoost with a linear booster")
    trees = gradient_booster["model"]["trees"]
    parameters = learner["learner_model_param"]
    n_classes = int(parameters["num_class"])
    require(int(parameters.get("num_target", 1)) == 1, "XGBoost with several outputs")
    sizes = {int(tree["tree_param"].get("size_leaf_vector", 1)) for tree in trees}
    require(max(sizes, default=1) <= 1, "XGBoost with several outputs in a tree")
    best = getattr(model, "best_iteration", None) if booster is not model else None
    if best is not None:
        trees = trees[: gradient_booster["model"]["iteration_indptr"][int(best) + 1]]
    if weights is None:
        weights = np.ones(len(trees))
    n_features = int(parameters["num_feature"])
    parts = [
        _xgboost_tree(tree, n_features).scaled(w) for tree, w in zip(trees, weights, strict=False)
    ]
    objective = learner["objective"]["name"]
    # XGBoost adds its trees up in single precision: rounding walks with the root of their number
    walk = 4.0 * float(np.sqrt(len(parts))) * 2.0**-24
    tolerance = max(SINGLE_PRECISION, walk)
    bases = np.array(parameters["base_score"].strip("[]").split(","), dtype=np.float32)
    if objective in XGBOOST_SOFTMAX:
        classes = np.array(gradient_booster["model"]["tree_info"])[: len(parts)]
        starts = np.broadcast_to(bases, n_classes)
        sums = [
            add_ensembles([parts[tree] for tree in np.flatnonzero(classes == k)]).shifted(float(at))
            for k, at in enumerate(starts)
        ]
        return replace(softmax_of(sums, column), tolerance=tolerance)
    require(n_classes <= 1, "XGBoost with more than two classes and another objective")
    require(objective in XGBOOST_LINKS, f"the XGBoost objective {objective!r} is not supported")
    link = XGBOOST_LINKS[objective]
    base = float(bases[0])
    # only the link's own function: a mean below 0 has no logarithm
    to_margin = {"identity": float, "logistic": logit, "exp": np.log}[link]
    joined = add_ensembles(parts).shifted(float(to_margin(base)))
    return _finish(replace(joined, tolerance=tolerance), link, column)


def _xgboost_tree(tree: Plain, n_features: int) -> TreeEnsemble:
    members = np.array(tree["categories"], dtype=np.int64)
    rules = {
        node: LevelRule(
            int(tree["split_indices"][node]),
            frozenset(members[start : start + size].tolist()),
            left=False,
            missing_left=bool(tree["default_left"][node]),
        )
        for node, start, size in zip(
            tree["categories_nodes"],
            tree["categories_segments"],
            tree["categories_sizes"],
            strict=True,
        )
    }
    condition = np.array(tree["split_conditions"], dtype=np.float32)
    return single_tree(
        tree["split_indices"],
        fold_float32_below(condition),
        tree["left_children"],
        tree["right_children"],
        condition.astype(np.float64),
        n_features=n_features,
        tolerance=SINGLE_PRECISION,
        rules=rules,
        default_left=tree["default_left"],
    )


def _catboost(model: Any, column: int) -> TreeEnsemble:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        saved = json.loads(path.read_text())
    require(TREES in saved, "CatBoost trees that are not symmetric are not read")
    floats = saved["features_info"].get("float_features", [])
    columns = {f["feature_index"]: f["flat_feature_index"] for f in floats}
    last = {f["flat_feature_index"] for f in floats if f["nan_value_treatment"] == "AsTrue"}
    scale, biases = saved["scale_and_bias"]
    n_features = 1 + max(columns.values())
    loss = saved["model_info"]["params"]["loss_function"]["type"]
    several = loss == "MultiClass"
    require(several or loss in CATBOOST_LINKS, f"the CatBoost loss {loss!r} is not supported")
    require(several or len(biases) == 1, "CatBoost with several outputs")
    sums = []
    for k, bias in enumerate(biases):
        place = slice(k, None, len(biases))
        parts = [_catboost_tree(tree, columns, n_features, place) for tree in saved[TREES]]
        ensemble = add_ensembles(parts).scaled(scale).shifted(bias)
        # a missing value is below every border, unless it was declared to be above
        ensemble = replace(ensemble, default_left=~np.isin(ensemble.feature, list(last)))
        sums.append(ensemble)
    if several:
        return softmax_of(sums, column)
    return _finish(sums[0], CATBOOST_LINKS[loss], column)


def _catboost_tree(
    tree: Plain, columns: dict[int, int], n_features: int, outputs: slice
) -> TreeEnsemble:
    """Unfold a symmetric tree: bit ``k`` of a leaf's number is the outcome of split ``k``."""
    splits = tree.get("splits") or []
    require(
        all(split["split_type"] == "FloatFeature" for split in splits),
        "categorical splits are not followed",
    )
    value = np.array(tree["leaf_values"], dtype=np.float64)[outputs]
    require(len(value) == 2 ** len(splits), "CatBoost with several outputs")
    n_inner = len(value) - 1
    number = np.arange(2 * n_inner + 1)
    level = np.floor(np.log2(number + 1)).astype(int)[:n_inner]
    # The root tests the highest bit, so leaves come in the order of their numbers.
    at_level = splits[::-1]
    pad = np.zeros(len(value))
    feature = np.array([columns[split["float_feature_index"]] for split in at_level], dtype=int)
    border = np.array([split["border"] for split in at_level], dtype=np.float64)
    left = np.where(number < n_inner, 2 * number + 1, -1)
    return single_tree(
        np.concatenate([feature[level], pad]),
        np.concatenate([fold_float32_at_most(border)[level], pad]),
        left,
        np.where(number < n_inner, left + 1, -1),
        np.concatenate([np.zeros(n_inner), value]),
        n_features=n_features,
    )


# Their models are theirs: nothing of these libraries is imported.
READERS: dict[str, Callable[[Any, int], TreeEnsemble]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "catboost": _catboost,
}
