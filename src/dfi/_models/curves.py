"""Fitted models of times to an event, as models of restricted means or of chances to survive."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import logistic, norm
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor
from sklearn.tree._tree import Tree

from dfi._models.adapters import as_model
from dfi._parameters import argument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.outcome import SurvivalTarget
    from dfi._types import Estimator, Floats, Frame, Native

STEPS = 401
"""Times at which smooth survival curves are evaluated."""

LAWS: dict[str, Callable[[Floats], Floats]] = {
    "normal": norm.sf,
    "logistic": logistic.sf,
    "extreme": lambda z: np.exp(-np.exp(np.minimum(z, 50.0))),
}
"""Survival of the noise of XGBoost's accelerated failure times, on the scale of logarithms."""


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
            "XGBoost's objective survival:cox predicts ratios of hazards, not times: pass a "
            "function of rows that gives their mean time up to the horizon "
            f"({argument('target', 'rmst')}) or their chance to get beyond it "
            f"({argument('target', 'probability')}), by a baseline hazard of yours"
        )
    return SurvivalFunction(inner, under, _of_aft) if objective == "survival:aft" else model


@dataclass(frozen=True)
class Under:
    """What is taken of survival curves: areas up to horizons, or heights there."""

    horizons: tuple[float, ...]
    target: SurvivalTarget

    @property
    def grid(self) -> Floats:
        """Times from 0 to the last horizon, all horizons among them."""
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
        """Return it of smooth curves on the grid, areas by trapezoids."""
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
        """Return a number for each row, or one for each horizon."""
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
