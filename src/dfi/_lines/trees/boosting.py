"""Read LightGBM, XGBoost and CatBoost from the text that each library itself saves.

The text formats are public, complete and quick to parse, and nothing has to be imported: a model
that is at hand has already imported its library. treelite 4.8 reads the same models except
CatBoost. It imports in 0.04 s, but reads a scikit-learn forest of 500 trees in 0.11 s where the
forest's own arrays take 0.05 s (two shared cores), and would be a dependency for everyone.

LightGBM compares ``x <= c`` in float64, XGBoost ``float32(x) < c``, CatBoost ``float32(x) <= c``.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit

from dfi._lines.trees.ensemble import (
    Link,
    TreeEnsemble,
    Unreadable,
    add_ensembles,
    fold_float32_at_most,
    fold_float32_below,
    require,
    single_tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._lines.trees.ensemble import Integers
    from dfi._types import Floats

IDENTITY: Link = "identity"
LOGISTIC: Link = "logistic"
EXP: Link = "exp"
LIGHTGBM_IDENTITY = {
    "",
    "custom",
    "regression",
    "regression_l1",
    "huber",
    "fair",
    "quantile",
    "mape",
}
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
SINGLE_PRECISION = 1e-6


def read_boosting(model: object, column: int) -> TreeEnsemble | None:
    """Read a boosting library's model; return None for any other."""
    for base in type(model).__mro__:
        reader = READERS.get(base.__module__.split(".")[0])
        if reader is not None:
            return reader(model, column)
    return None


def _finish(ensemble: TreeEnsemble, link: Link, column: int) -> TreeEnsemble:
    if link == "logistic" and column == 0:
        ensemble = ensemble.scaled(-1.0)
    return replace(ensemble, link=link)


def _lightgbm(model: Any, column: int) -> TreeEnsemble:
    text = getattr(model, "booster_", model).model_to_string().split("\nend of trees")[0]
    header, *blocks = text.split("\nTree=")
    lines = header.splitlines()
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    require(fields["num_tree_per_iteration"] == "1", "LightGBM with more than two classes")
    n_features = int(fields["max_feature_idx"]) + 1
    ensemble = add_ensembles([_lightgbm_tree(block, n_features) for block in blocks])
    if "average_output" in lines:
        ensemble = ensemble.scaled(1.0 / ensemble.n_trees)
    objective, *options = fields.get("objective", "").split(" ")
    if objective in LIGHTGBM_IDENTITY and "sqrt" not in options:
        return ensemble
    if objective in LIGHTGBM_EXP:
        return _finish(ensemble, "exp", column)
    if objective == "binary":
        slope = float(options[0].removeprefix("sigmoid:"))
        return _finish(ensemble.scaled(slope), "logistic", column)
    if objective == "cross_entropy":
        return _finish(ensemble, "logistic", column)
    raise Unreadable(f"the LightGBM objective {' '.join([objective, *options])!r} is not followed")


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
    require(not np.any(decision & 1), "categorical splits are not followed")
    default_left = (decision & 2) > 0
    zero_is_missing = (decision >> 2) & 3 == 1
    require(
        not np.any(zero_is_missing & (default_left != (threshold >= 0))),
        "zero is treated as missing and sent to the other side",
    )

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
    require(int(parameters["num_class"]) <= 1, "XGBoost with more than two classes")
    require(int(parameters.get("num_target", 1)) == 1, "XGBoost with several outputs")
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
    require(objective in XGBOOST_LINKS, f"the XGBoost objective {objective!r} is not followed")
    link = XGBOOST_LINKS[objective]
    base = float(np.float32(parameters["base_score"].strip("[]")))
    # only the link's own function: a mean below 0 has no logarithm
    to_margin = {"identity": float, "logistic": logit, "exp": np.log}[link]
    joined = add_ensembles(parts).shifted(float(to_margin(base)))
    # XGBoost adds its trees up in single precision: rounding walks with the root of their number
    walk = 4.0 * float(np.sqrt(len(parts))) * 2.0**-24
    return _finish(replace(joined, tolerance=max(SINGLE_PRECISION, walk)), link, column)


def _xgboost_tree(tree: dict[str, Any], n_features: int) -> TreeEnsemble:
    require(not any(tree["split_type"]), "categorical splits are not followed")
    condition = np.array(tree["split_conditions"], dtype=np.float32)
    return single_tree(
        tree["split_indices"],
        fold_float32_below(condition),
        tree["left_children"],
        tree["right_children"],
        condition.astype(np.float64),
        n_features=n_features,
        tolerance=SINGLE_PRECISION,
    )


def _catboost(model: Any, column: int) -> TreeEnsemble:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        saved = json.loads(path.read_text())
    require("oblivious_trees" in saved, "CatBoost trees that are not symmetric are not read")
    floats = saved["features_info"].get("float_features", [])
    columns = {f["feature_index"]: f["flat_feature_index"] for f in floats}
    scale, (bias,) = saved["scale_and_bias"]
    n_features = 1 + max(columns.values())
    parts = [_catboost_tree(tree, columns, n_features) for tree in saved["oblivious_trees"]]
    loss = saved["model_info"]["params"]["loss_function"]["type"]
    require(loss in CATBOOST_LINKS, f"the CatBoost loss {loss!r} is not followed")
    ensemble = add_ensembles(parts).scaled(scale).shifted(bias)
    return _finish(ensemble, CATBOOST_LINKS[loss], column)


def _catboost_tree(tree: dict[str, Any], columns: dict[int, int], n_features: int) -> TreeEnsemble:
    """Unfold a symmetric tree: bit ``k`` of a leaf's number is the outcome of split ``k``."""
    splits = tree.get("splits") or []
    require(
        all(split["split_type"] == "FloatFeature" for split in splits),
        "categorical splits are not followed",
    )
    value = np.array(tree["leaf_values"], dtype=np.float64)
    require(len(value) == 2 ** len(splits), "CatBoost with several outputs")
    n_inner = len(value) - 1
    number = np.arange(2 * n_inner + 1)
    level = np.floor(np.log2(number + 1)).astype(int)[:n_inner]
    # The root tests the highest bit, so that leaves come in the order of their numbers.
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
