"""Fitted models of other libraries, as objects with ``predict`` or functions of rows.

A model is known by what it can do, and nothing is imported for it: whoever has one at hand has
imported its library. Models of times to an event become those of restricted means, or of chances to
survive (:func:`survival_model`).
"""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np
from scipy.stats import logistic, norm
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor
from sklearn.tree._tree import Tree

from dfi._parameters import TABLE, argument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.outcome import SurvivalTarget
    from dfi._types import Array, Estimator, Floats, Frame, Native

STEPS = 401
"""Times at which smooth survival curves are evaluated."""

LAWS: dict[str, Callable[[Floats], Floats]] = {
    "normal": norm.sf,
    "logistic": logistic.sf,
    "extreme": lambda z: np.exp(-np.exp(np.minimum(z, 50.0))),
}
"""Survival of the noise of XGBoost's accelerated failure times, on the scale of logarithms."""


def as_model(model: Estimator) -> Estimator:
    """Return a model of XGBoost, ONNX, PyTorch, Keras or statsmodels as one that predicts rows."""
    if _made_by(model, "xgboost", "Booster"):
        return _xgboost_estimator(model)
    if all(hasattr(model, name) for name in ("run", "get_inputs", "get_outputs")):
        return OnnxFunction(model)
    if _made_by(model, "torch", "Module"):
        return TorchFunction(model)
    if hasattr(getattr(model, "model", None), "formula") and hasattr(model, "params"):
        return FormulaFunction(model)
    if not hasattr(model, "__sklearn_tags__") and _has_verbose(getattr(model, "predict", None)):
        return QuietModel(model)
    return model


def _made_by(model: object, library: str, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.split(".")[0] == library
        for base in type(model).__mro__
    )


def _has_verbose(predict: object) -> bool:
    try:
        return callable(predict) and "verbose" in inspect.signature(predict).parameters
    except (TypeError, ValueError):
        # functions of compiled code do not tell their parameters
        return False


def _xgboost_estimator(booster: Native) -> Estimator:
    library: Native = sys.modules["xgboost"]
    booster = booster.copy()
    # a Booster predicts with all of its trees, an estimator with the best of them
    booster.set_attr(best_iteration=None, best_score=None)
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    classes = objective in ("binary:logistic", "multi:softprob", "multi:softmax")
    kind = library.XGBClassifier if classes else library.XGBRegressor
    with_levels = "c" in (booster.feature_types or [])
    model = kind(enable_categorical=True) if with_levels else kind()
    model.load_model(bytearray(booster.save_raw("ubj")))
    return model


def off_device(answer: Native) -> Native:
    """Return a tensor, of PyTorch or like those, as an array; anything else as it is."""
    if not all(hasattr(answer, name) for name in ("detach", "cpu", "numpy")):
        return answer
    torch: Native = sys.modules["torch"]
    return answer.detach().cpu().to(torch.float64).numpy()


def _table_of_floats(rows: Floats | Frame, dtype: type[np.floating]) -> Array:
    """Return rows as an array of numbers; columns of text have none."""
    values = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
    return np.ascontiguousarray(np.asarray(values), dtype=dtype)


@dataclass(frozen=True, eq=False)
class QuietModel:
    model: Estimator

    @property
    def __name__(self) -> str:
        return type(self.model).__name__

    def predict(self, rows: Floats | Frame) -> Native:
        return self.model.predict(rows, verbose=0)


@dataclass(frozen=True, eq=False)
class FormulaFunction:
    results: Native

    @property
    def __name__(self) -> str:
        return f"the statsmodels formula {self.results.model.formula!r}"

    def __call__(self, rows: Floats | Frame) -> Array:
        if isinstance(rows, np.ndarray):
            raise TypeError("its formula names columns: pass X as a dataframe")
        frame = nw.from_native(rows, eager_only=True).to_pandas()
        return np.asarray(self.results.predict(frame), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class OnnxFunction:
    session: Native

    @property
    def __name__(self) -> str:
        return "the ONNX session"

    def __call__(self, rows: Floats | Frame) -> Native:
        inputs = list(self.session.get_inputs())
        if len(inputs) == 1:
            dtype = np.float64 if "double" in str(inputs[0].type) else np.float32
            given = {inputs[0].name: _table_of_floats(rows, dtype)}
        else:
            _check_columns(rows, [one.name for one in inputs])
            given = {one.name: _onnx_column(rows, one, k) for k, one in enumerate(inputs)}
        answers = [_onnx_answer(answer) for answer in self.session.run(None, given)]
        numbers = [answer for answer in answers if answer is not None]
        if not numbers:
            raise TypeError("the ONNX session has no numeric output")
        return numbers[-1]


def _check_columns(rows: Floats | Frame, names: list[str]) -> None:
    if isinstance(rows, np.ndarray):
        if rows.shape[1] != len(names):
            raise ValueError(f"it has {len(names)} inputs, but {TABLE} has {rows.shape[1]} columns")
        return
    known = nw.from_native(rows, eager_only=True).columns
    absent = [name for name in names if name not in known]
    if absent:
        raise ValueError(f"it asks for the column {absent[0]!r}, which X does not have")


def _onnx_column(rows: Floats | Frame, one: Native, place: int) -> Array:
    values = rows[:, place] if isinstance(rows, np.ndarray) else np.asarray(rows[one.name])
    kind = str(one.type)
    dtype = "float64" if "double" in kind else "float32"
    dtype = "object" if "string" in kind else "int64" if "int64" in kind else dtype
    return np.asarray(values).astype(dtype).reshape(-1, 1)


def _onnx_answer(answer: Native) -> Array | None:
    """Return an output as numbers; None for labels. Probabilities may come as one dict a row."""
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return np.array([list(row.values()) for row in answer], dtype=np.float64)
    array = np.asarray(answer)
    return array if array.dtype.kind in "fiub" else None


@dataclass(frozen=True, eq=False)
class TorchFunction:
    """A module of PyTorch as a function of rows, without gradients, dropout or batch statistics."""

    module: Native

    @property
    def __name__(self) -> str:
        return type(self.module).__name__

    def __call__(self, rows: Floats | Frame) -> Array:
        """Return the module's output in evaluation mode; it is left in the mode that it was in."""
        torch: Native = sys.modules["torch"]
        first = next(iter(self.module.parameters()), None)
        options = {} if first is None else {"dtype": first.dtype, "device": first.device}
        training = bool(getattr(self.module, "training", False))
        self.module.eval()
        try:
            with torch.no_grad():
                answer = self.module(torch.as_tensor(_table_of_floats(rows, np.float64), **options))
        finally:
            self.module.train(training)
        if isinstance(answer, tuple | list | dict):
            raise TypeError(
                f"the module returns a {type(answer).__name__}, not predictions: pass a function "
                "of rows that picks them"
            )
        return np.asarray(off_device(answer), dtype=np.float64)


def survival_model(
    model: Estimator, horizons: Sequence[float], target: SurvivalTarget
) -> Estimator:
    """Return a fitted model of times as one of each horizon; unknown ones predict it already."""
    if isinstance(model, str | type):
        return model
    under = Under(tuple(horizons), target)
    if hasattr(model, "predict_survival_function"):
        if _is_forest(model) and len(horizons) == 1:
            return _area_forest(model, under)
        smooth = "times" in inspect.signature(model.predict_survival_function).parameters
        return SurvivalFunction(model, under, _of_lifelines if smooth else _of_steps)
    inner = as_model(model)
    objective = str(getattr(inner, "objective", ""))
    if objective == "survival:cox":
        raise TypeError(
            "XGBoost's objective survival:cox predicts hazard ratios, not times: pass a "
            "function that returns the mean time of each row up to the horizon "
            f"({argument('target', 'rmst')}) or their chance to get beyond it "
            f"({argument('target', 'probability')}), from your own baseline hazard"
        )
    return SurvivalFunction(inner, under, _of_aft) if objective == "survival:aft" else model


@dataclass(frozen=True)
class Under:
    """The part of survival curves that is used: areas up to horizons, or heights there."""

    horizons: tuple[float, ...]
    target: SurvivalTarget

    @property
    def grid(self) -> Floats:
        even = np.linspace(0.0, max(self.horizons), STEPS)
        return np.unique(np.concatenate([even, self.horizons]))

    def steps(self, times: Floats, curves: Floats) -> Floats:
        """Return the same for step curves, (n, times), that are 1 before the first time."""
        start = np.concatenate([[0.0], times])
        heights = np.concatenate([np.ones((len(curves), 1)), curves], axis=1)
        if self.target == "probability":
            return heights[:, np.searchsorted(start, self.horizons, side="right") - 1]
        ends = np.append(start, np.inf)[:, None]
        return np.asarray(heights @ np.diff(np.minimum(ends, self.horizons), axis=0))

    def smooth(self, curves: Floats) -> Floats:
        """Return the same for smooth curves on the grid, areas by trapezoids."""
        at = np.searchsorted(self.grid, self.horizons)
        if self.target == "probability":
            return curves[:, at]
        areas = np.cumsum(0.5 * (curves[:, 1:] + curves[:, :-1]) * np.diff(self.grid), axis=1)
        return np.asarray(areas[:, at - 1])


@dataclass(frozen=True, eq=False)
class SurvivalFunction:
    """A model of times as a function of rows, which reads its curves."""

    model: Estimator
    under: Under
    read: Callable[[Estimator, Under, Floats | Frame], Floats]

    @property
    def __name__(self) -> str:
        return type(self.model).__name__

    def __repr__(self) -> str:
        return f"{self.__name__}, {self.under.target} by its survival curves"

    def __call__(self, rows: Floats | Frame) -> Floats:
        found = self.read(self.model, self.under, rows)
        return found[:, 0] if found.shape[1] == 1 else found


def _of_lifelines(model: Estimator, under: Under, rows: Floats | Frame) -> Floats:
    curves = model.predict_survival_function(rows, times=under.grid)
    return under.smooth(np.asarray(curves, dtype=np.float64).T)


def _of_steps(model: Estimator, under: Under, rows: Floats | Frame) -> Floats:
    if not hasattr(model, "feature_names_in_") and hasattr(rows, "to_numpy"):
        rows = rows.to_numpy()
    curves = np.asarray(model.predict_survival_function(rows, return_array=True))
    return under.steps(np.asarray(model.unique_times_), curves)


def _of_aft(model: Estimator, under: Under, rows: Floats | Frame) -> Floats:
    config = json.loads(model.get_booster().save_config())
    law = config["learner"]["objective"]["aft_loss_param"]
    place = np.log(np.asarray(model.predict(rows), dtype=np.float64))[:, None]
    with np.errstate(divide="ignore"):
        ahead = (np.log(under.grid) - place) / float(law["aft_loss_distribution_scale"])
    return under.smooth(LAWS[law["aft_loss_distribution"]](ahead))


def _is_forest(model: Estimator) -> bool:
    """Return whether a model averages survival curves of the leaves of trees, and has kept them."""
    trees = getattr(model, "estimators_", None)
    if trees is None or not hasattr(model, "unique_times_"):
        return False
    values = [getattr(getattr(tree, "tree_", None), "value", None) for tree in np.ravel(trees)]
    return all(
        value is not None and value.shape[1:] == (len(model.unique_times_), 2) for value in values
    )


def _area_forest(model: Estimator, under: Under) -> RandomForestRegressor:
    """Return a survival forest as a regression forest whose leaves hold areas under curves."""
    forest = RandomForestRegressor(n_estimators=len(model.estimators_))
    times = np.asarray(model.unique_times_)
    count = int(model.n_features_in_)
    trees = []
    for one in model.estimators_:
        inner: Native = one.tree_
        values = under.steps(times, inner.value[:, :, 1])
        tree = Tree(count, np.ones(1, dtype=np.intp), 1)
        state = inner.__getstate__()
        tree.__setstate__({**state, "values": np.ascontiguousarray(values[:, :, None])})
        found = DecisionTreeRegressor()
        found.tree_, found.n_features_in_, found.n_outputs_ = tree, count, 1
        trees.append(found)
    forest.estimators_, forest.n_features_in_, forest.n_outputs_ = trees, count, 1
    forest.estimator_ = DecisionTreeRegressor()
    if hasattr(model, "feature_names_in_"):
        forest.feature_names_in_ = model.feature_names_in_
    return forest
