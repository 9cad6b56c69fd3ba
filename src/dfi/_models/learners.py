"""Learners by name, and what a learner must be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, LogisticRegressionCV, RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from dfi._checks import did_you_mean
from dfi._learners.glm import LinkedRidge
from dfi._learners.stack import SuperLearner
from dfi._learners.temperature import TemperatureScaled, final_step
from dfi._parameters import LEARNERS, TARGET, argument
from dfi.losses import BRIER, GAMMA, POISSON, SQUARED_ERROR, Loss
from dfi.warnings import RefitWarning, warn

if TYPE_CHECKING:
    from dfi._data.outcome import Outcome
    from dfi._learners.families import Family
    from dfi._types import Estimator, EstimatorLike

LEAST_PENALTY = 1e-3
"""Of a logistic regression that is hardly penalised: where classes can be separated by a plane, it
keeps the coefficients finite."""

BOOSTING = {
    "learning_rate": 0.05,
    "max_iter": 400,
    "max_leaf_nodes": 15,
    "min_samples_leaf": 10,
    "early_stopping": True,
    "validation_fraction": 0.15,
    "n_iter_no_change": 20,
}


def resolve_learner(
    estimator: Estimator, family: Family = "gaussian", loss: Loss | None = None
) -> Estimator:
    if isinstance(estimator, str):
        if family == "gaussian":
            return _by_name(estimator)
        return _of_family(estimator, family, loss)
    if isinstance(estimator, type):
        raise TypeError(
            f"{argument('estimator')} is the class {estimator.__name__}, not an instance: pass "
            f"{estimator.__name__}()"
        )
    # A stacking model has no predict before it is fitted: what it says of itself counts too.
    regression = hasattr(estimator, "predict") or (
        hasattr(estimator, "__sklearn_tags__")
        and (is_regressor(estimator) or is_classifier(estimator))
    )
    if not hasattr(estimator, "fit") or not regression:
        raise TypeError(
            f"{argument('estimator')} must have fit and predict, got {type(estimator).__name__}; "
            f"to explain a function or a fitted model as it is, pass {argument('cv', 'prefit')}"
        )
    try:
        return clone(estimator)
    except (RuntimeError, TypeError) as error:
        raise TypeError(
            f"{type(estimator).__name__} cannot be cloned for each fold ({error}): fit it, and "
            f"pass {argument('cv', 'prefit')}"
        ) from error


def _by_name(name: str) -> Estimator:
    if name == "auto":
        return SuperLearner()
    if name == "linear":
        return _standardized("linear", LinearRegression())
    if name == "ridge":
        return _standardized("ridge", RidgeCV(alphas=[10.0**k for k in range(-3, 6)]))
    if name == "boosting":
        return HistGradientBoostingRegressor(**BOOSTING)
    if name == "forest":
        return RandomForestRegressor(n_estimators=500, min_samples_leaf=5)
    if name == "extra_trees":
        return ExtraTreesRegressor(n_estimators=500, min_samples_leaf=3)
    raise _unknown(name)


def _of_family(name: str, family: Family, loss: Loss | None) -> Estimator:
    classes = family == "bernoulli"
    if name == "auto":
        return SuperLearner(family=family, loss=loss)
    if name in ("linear", "ridge"):
        # not a bare pipeline, which would get the raw columns
        penalty = LEAST_PENALTY if name == "linear" else None
        members = [(name, LinkedRidge(family=family, penalty=penalty))]
        return SuperLearner(members=members, family=family, loss=loss)
    if name == "boosting":
        if classes:
            return HistGradientBoostingClassifier(**BOOSTING)
        return HistGradientBoostingRegressor(loss=family, **BOOSTING)
    if name == "forest" and classes:
        return RandomForestClassifier(n_estimators=500, min_samples_leaf=5)
    if name == "extra_trees" and classes:
        return ExtraTreesClassifier(n_estimators=500, min_samples_leaf=3)
    if name in LEARNERS:
        return _by_name(name)
    raise _unknown(name)


def _unknown(name: str) -> ValueError:
    hint, known = did_you_mean(name, LEARNERS) or ".", ", ".join(map(repr, LEARNERS))
    return ValueError(f"unknown estimator {name!r}{hint} Known names: {known}")


def _standardized(name: str, model: Estimator) -> SuperLearner:
    """Return a linear model of standardised columns; least squares too, whose cut-off needs it."""
    return SuperLearner(members=[(name, make_pipeline(StandardScaler(), model))])


def predicts_classes(model: Estimator) -> bool:
    if not hasattr(model, "__sklearn_tags__"):
        return hasattr(model, "predict_proba") and not isinstance(model, type)
    return bool(is_classifier(model))


def warn_of_refits(estimator: Estimator, cv: object) -> None:
    """Warn that a fitted model is refitted on each fold, unless the caller asked for that."""
    if isinstance(cv, str) or isinstance(estimator, str | type) or not hasattr(estimator, "fit"):
        return
    if not hasattr(estimator, "__sklearn_tags__") or not get_tags(estimator).requires_fit:
        return
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return
    name = type(estimator).__name__
    warn(
        f"this {name} is already fitted, and is refitted on each fold: pass "
        f"{argument('cv', 'prefit')} to explain it unchanged, on rows it has not seen, or pass "
        "sklearn.base.clone(model) to refit it without this warning",
        RefitWarning,
    )


def check_learner_suits_outcome(model: Estimator, outcome: Outcome) -> None:
    name = type(model).__name__
    if not predicts_classes(model):
        if outcome.named and is_plain_regressor(model):
            raise ValueError(
                f"{name} is a regressor, but {TARGET} holds classes "
                f"({', '.join(outcome.classes[:5])}): pass a classifier with predict_proba, or a "
                f"name such as {argument('estimator', 'boosting')}"
            )
        return
    if not outcome.is_classes:
        raise ValueError(
            f"{name} is a classifier, but {TARGET} is a quantity: pass "
            f"{argument('task', 'classification')} if its numbers are classes, or a regressor"
        )
    # where a final step decides whether there are probabilities, only the fitted model knows
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{name} has no predict_proba: the scores explain probabilities of classes; "
            "pass a classifier that has them"
        )


def is_plain_regressor(model: Estimator) -> bool:
    """Return whether a model is a regressor, other than ours that also fit classes."""
    if isinstance(model, SuperLearner) or not hasattr(model, "__sklearn_tags__"):
        return False
    return bool(is_regressor(model))


def no_learner_of(loss: Loss, learner: object) -> str | None:
    """Return why a learner's predictions do not suit a loss, or None; unknown ones are trusted."""
    if loss.quantile is None:
        return None
    found = predicted_quantile(learner)
    if found is None or np.isclose(found, loss.quantile):
        return None
    what = "a mean" if np.isnan(found) else f"the {found:g} quantile"
    name = repr(learner) if isinstance(learner, str) else type(_innermost(learner)).__name__
    return (
        f"{argument('loss', loss.name)} is about the {loss.quantile:g} quantile, and {name} "
        f"predicts {what}: to explain that end of the distribution, pass the target "
        f"dfi.Quantile({loss.quantile:g}) and no loss; for this loss pass a learner of the "
        f"quantile, such as QuantileRegressor(quantile={loss.quantile:g}), or use "
        f"{argument('loss', 'squared-error')}"
    )


WRAPPERS = ("regressor", "estimator")
"""Parameters of scikit-learn's models around another one, which decides what is predicted."""

MEDIANS = {"absolute_error", "mae", "l1", "regression_l1", "mean_absolute_error",
           "reg:absoluteerror", "epsilon_insensitive"}  # fmt: skip
QUANTILES = {"quantile", "reg:quantileerror"}
KNOWN = ("sklearn", "lightgbm", "xgboost", "catboost", "dfi")
"""Packages whose learners predict means unless a parameter says otherwise."""


def _innermost(learner: object) -> object:
    """Return the model that decides, within pipelines, searches, bags and transformed outcomes."""
    while isinstance(learner, BaseEstimator):
        own = learner.get_params(deep=False)
        inner = own["steps"][-1][1] if isinstance(learner, Pipeline) else None
        for name in WRAPPERS:
            inner = own.get(name) if inner is None else inner
        if not isinstance(inner, BaseEstimator):
            break
        learner = inner
    return learner


def predicted_quantile(learner: object) -> float | None:
    """Return which quantile a learner predicts, NaN for a mean, None if unknown."""
    if isinstance(learner, str):
        return float("nan")
    learner = _innermost(learner)
    kinds = type(learner).__mro__
    if not any(kind.__module__.partition(".")[0] in KNOWN for kind in kinds):
        return None
    named = {kind.__name__ for kind in kinds}
    if named & {"LinearSVR", "SVR", "NuSVR"}:
        return 0.5
    parameters = learner.get_params(deep=False) if hasattr(learner, "get_params") else {}
    if "QuantileRegressor" in named:
        return float(parameters["quantile"])
    for key in ("objective", "loss_function", "loss", "criterion"):
        goal, _, options = str(parameters.get(key, "")).lower().partition(":")
        goal = f"{goal}:{options}" if goal == "reg" else goal
        if goal in MEDIANS:
            return 0.5
        if goal in QUANTILES:
            stated = dict(part.split("=") for part in options.split(";") if "=" in part).get(
                "alpha"
            )
            default = 0.9 if "LGBMModel" in named else 0.5
            for name in ("quantile", "quantile_alpha", "alpha"):
                given = parameters.get(name)
                if stated is None and given is not None:
                    stated = given
            level = np.ravel(np.asarray(default if stated is None else stated, dtype=float))
            return float(level[0]) if len(level) == 1 else float("nan")
    return float("nan")


def loss_for(outcome: Outcome, loss: Loss | None) -> Loss:
    """Return the loss of an outcome; Brier's for classes, which tolerates overconfident models."""
    if loss is None:
        return BRIER if outcome.is_classes else SQUARED_ERROR
    if loss.domain == "probability" and not outcome.is_classes:
        raise ValueError(
            f"{argument('loss', loss.name)} is about classes, but {TARGET} is a quantity: pass "
            f"{argument('task', 'classification')}, or {argument('loss', 'squared-error')}"
        )
    if outcome.is_classes and loss.domain == "positive":
        raise ValueError(
            f"{argument('loss', loss.name)} is for counts or positive quantities, but {TARGET} "
            "holds classes: use 'brier' or 'log-loss'"
        )
    if outcome.kind == "classes" and not loss.has_generator:
        raise ValueError(
            f"{argument('loss', loss.name)} is about one number, but {TARGET} has "
            f"{len(outcome.classes)} classes: use 'brier' or 'log-loss', or "
            f"{argument('pos_label', ...)} for one class against the rest"
        )
    if outcome.kind == "several" and not (loss.is_square and loss.domain == "real"):
        raise ValueError(
            "several outcomes are explained by their summed squared error, not by "
            f"{argument('loss', loss.name)}: leave {argument('loss')} at 'auto', or explain one "
            "outcome at a time"
        )
    if outcome.is_classes and loss.is_square:
        return BRIER
    if loss.domain == "positive":
        least = float(outcome.values.min())
        if least < 0 or (least == 0 and loss.name == GAMMA.name):
            need = "positive" if loss.name == GAMMA.name else "non-negative"
            raise ValueError(
                f"{argument('loss', loss.name)} needs {need} outcomes, but the smallest value of "
                f"{TARGET} is {least:g}: use 'squared-error'"
            )
    return loss


def family_of(outcome: Outcome, loss: Loss) -> Family:
    if outcome.is_classes:
        return "bernoulli"
    if loss.name == POISSON.name:
        return "poisson"
    return "gamma" if loss.name == GAMMA.name else "gaussian"


def needs_scaling(learner: EstimatorLike) -> bool:
    """Return whether a learner may be too sure of its probabilities for the log-loss."""
    if not predicts_classes(learner) or isinstance(learner, TemperatureScaled):
        return False
    return not isinstance(final_step(learner), LogisticRegression | LogisticRegressionCV)
