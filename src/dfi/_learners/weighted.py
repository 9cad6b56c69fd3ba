"""Whether row weights reach a nested regression, and by which arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from dfi._parameters import argument

if TYPE_CHECKING:
    from dfi._types import Estimator, Floats

SEVERAL = VotingRegressor, VotingClassifier, StackingRegressor, StackingClassifier
"""Passes the same weights to every nested estimator."""


def weight_arguments(model: Estimator, weights: Floats) -> dict[str, Floats]:
    """Return the arguments of ``fit`` that take the weights of the rows."""
    check_takes_weights(model)
    return {name: np.array(weights) for name in weight_names(model)}


def weight_names(model: Estimator) -> tuple[str, ...]:
    if isinstance(model, Pipeline):
        *others, (name, final) = model.steps
        inside = tuple(f"{name}__{own}" for own in weight_names(final))
        asking = (name for name, step in others if _asks(step))
        return (*(f"{name}__sample_weight" for name in asking), *inside) if inside else ()
    if isinstance(model, BaseSearchCV | TransformedTargetRegressor):
        return weight_names(_inside(model)[0]) if _inside(model) else ("sample_weight",)
    if isinstance(model, SEVERAL):
        plain = all(weight_names(part) == ("sample_weight",) for part in _inside(model))
        return ("sample_weight",) if plain else ()
    takes = hasattr(model, "fit") and has_fit_parameter(model, "sample_weight")
    return ("sample_weight",) if takes and _asks(model) is not False else ()


def check_takes_weights(learner: Estimator) -> None:
    if weight_names(learner):
        return
    outer, part = None, learner
    while inner := [one for one in _inside(part) if weight_names(one) != ("sample_weight",)]:
        outer, part = part, inner[0]
    name = type(part).__name__
    if outer is not None and weight_names(part):
        why = f"{type(outer).__name__} does not pass {argument('sample_weight')} on to {name}"
    elif _asks(part) is False:
        why = f"{name} was told by set_fit_request to take no {argument('sample_weight')}"
    else:
        why = f"{name}.fit takes no {argument('sample_weight')}"
    raise ValueError(
        f"{why}, so the weights could not reach the regression: choose a learner that takes them, "
        f"or drop {argument('sample_weight')}"
    )


def _inside(model: Estimator) -> list[Estimator]:
    if isinstance(model, Pipeline):
        return [model.steps[-1][1]]
    if isinstance(model, BaseSearchCV):
        return [model.estimator]
    if isinstance(model, TransformedTargetRegressor):
        return [] if model.regressor is None else [model.regressor]
    if isinstance(model, SEVERAL):
        final = getattr(model, "final_estimator", None)
        parts = [part for _, part in model.estimators if not isinstance(part, str)]
        return parts if final is None else [*parts, final]
    return []


def _asks(step: Estimator) -> bool | None:
    # set_fit_request keeps it there; get_metadata_routing of RidgeCV did not come to an end
    request = getattr(getattr(step, "_metadata_request", None), "fit", None)
    asked = getattr(request, "requests", {})
    found = asked.get("sample_weight")
    return found if isinstance(found, bool) else None
