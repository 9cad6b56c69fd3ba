"""Which loss an outcome is explained by, and the likelihood that models are fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from dfi._models.learners import predicts_classes
from dfi._models.temperature import TemperatureScaled, final_step
from dfi._parameters import TARGET, argument
from dfi.losses import BRIER, GAMMA, POISSON, SQUARED_ERROR

if TYPE_CHECKING:
    from dfi._data.outcome import Outcome
    from dfi._models.families import Family
    from dfi._types import EstimatorLike
    from dfi.losses import Loss


def loss_for(outcome: Outcome, loss: Loss | None) -> Loss:
    """Return the loss of an outcome, by default Brier's score for classes.

    Brier's score and not the log-loss: it survives models that are too sure of themselves.
    """
    if loss is None:
        return BRIER if outcome.is_classes else SQUARED_ERROR
    if loss.domain == "probability" and not outcome.is_classes:
        raise ValueError(
            f"{argument('loss', loss.name)} is about classes, and {TARGET} is a quantity: pass "
            f"{argument('task', 'classification')}, or {argument('loss', 'squared-error')}"
        )
    if outcome.is_classes and loss.domain == "positive":
        raise ValueError(
            f"{argument('loss', loss.name)} is about counts or positive quantities, and {TARGET} "
            "holds classes: use 'brier' or 'log-loss'"
        )
    if outcome.kind == "classes" and not loss.has_generator:
        raise ValueError(
            f"{argument('loss', loss.name)} is about one number, and {TARGET} has "
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
                f"{argument('loss', loss.name)} needs {need} outcomes, and the smallest value of "
                f"{TARGET} is {least:g}: use 'squared-error'"
            )
    return loss


def family_of(outcome: Outcome, loss: Loss) -> Family:
    """Return the law whose likelihood the default learner is fitted by."""
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
