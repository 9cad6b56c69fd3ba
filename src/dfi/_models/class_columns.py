"""Which numbers of a classifier that was fitted elsewhere are of which class of the outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._models.learners import predicts_classes
from dfi._models.temperature import classes_in_order
from dfi._parameters import TARGET, argument
from dfi.warnings import OutcomeWarning, warn

if TYPE_CHECKING:
    from dfi._data.outcome import Outcome
    from dfi._data.problem import Data
    from dfi._models.predictor import Predictor
    from dfi._types import EstimatorLike

NO_PROBABILITY = (-0.5, 1.5)
"""Where a function does not predict a probability, not even as a straight line that overshoots."""


def class_column(model: EstimatorLike, label: object, place: int = 1) -> int:
    """Return where the probabilities of a model fitted elsewhere have a class."""
    known = getattr(model, "classes_", None)
    if known is None:
        return place
    classes = classes_in_order(model) if predicts_classes(model) else np.asarray(known).tolist()
    for column, name in enumerate(classes or ()):
        if name == label or str(name) == str(label):
            return column
    shown = ", ".join(map(repr, (classes or [])[:5]))
    raise ValueError(
        f"this {type(model).__name__} tells {shown} apart, but {TARGET} has the class {label!r}: "
        "pass the labels that the model was fitted on"
    )


def of_one_class(predictor: Predictor, data: Data) -> Predictor:
    """Return a fitted model of classes as the probability of the explained one, never guessed."""
    outcome, model = data.outcome, predictor.model
    label, unnamed = outcome.labels[-1], not outcome.named and outcome.place == 1
    if predicts_classes(model):
        # scikit-learn numbers 0 and 1 alike, whatever it calls them
        return predictor if unnamed else replace(predictor, column=class_column(model, label))
    try:
        answer = predictor.answer(data.matrix[:32])
    except Exception:
        # what cannot be predicted is reported where it is, with its reason
        return predictor
    shape = (1, *answer.shape[1:])
    if shape in ((1,), (1, 1)):
        least, most = NO_PROBABILITY
        beyond = answer[(answer < least) | (answer > most)]
        if len(beyond) and not hasattr(model, "predict"):
            raise ValueError(
                f"{predictor.name} predicts {float(beyond[0]):.4g}, but {TARGET} holds classes: "
                f"one number is the probability of {label!r}, neither its log-odds nor a percentage"
            )
        if unnamed:
            return predictor
        raise ValueError(
            f"{predictor.name} gives one number for each row, but the explained class of {TARGET} "
            f"is {label!r}: pass y as 0 and 1, 1 for the class that the number is the probability "
            f"of, and no {argument('pos_label')}; or a function that gives a column for each class"
        )
    if shape != (1, outcome.among):
        raise ValueError(
            f"{predictor.name} gives an array of shape {shape} for one row, but {TARGET} has "
            f"{outcome.among} classes: a column for each class is needed"
        )
    column = class_column(model, label, outcome.place)
    return replace(predictor, column=column, of_classes=True)


def check_class_order(predictor: Predictor, outcome: Outcome) -> None:
    """Raise if nothing says which column of a function is of which class."""
    model = predictor.model
    if outcome.sorted or predicts_classes(model) or hasattr(model, "classes_"):
        return
    raise ValueError(
        f"{predictor.name} does not say which of its columns is of which class, but the categories "
        f"of {TARGET} are not in alphabetical order: pass labels in place of categories, e.g. "
        "y.astype(str), and columns in the order of sorted(set(y))"
    )


def on_margin(predictor: Predictor, data: Data) -> tuple[Predictor, Outcome]:
    r"""Return a classifier as its log-odds, with the working response for an outcome.

    :math:`\tilde y = f + (y - p)/\{p (1 - p)\}`, ``p`` the probability and ``f`` its log-odds, has
    the mean ``f`` where the model is right: squared errors of it are scores on this scale.
    """
    outcome = data.outcome
    if outcome.kind != "binary" or not predicts_classes(predictor.model):
        raise ValueError(
            "scale='margin' explains the log-odds of a classifier of two classes: pass such a "
            "model, or leave scale at 'response'"
        )
    known = outcome.named or outcome.place != 1
    column = class_column(predictor.model, outcome.labels[-1]) if known else 1
    on_margin = replace(predictor, scale="margin", column=column)
    margin = on_margin(data.matrix)
    chance = 1.0 / (1.0 + np.exp(-margin))
    spread = np.maximum(chance * (1.0 - chance), 1e-12)
    response = margin + (outcome.values - chance) / spread
    return on_margin, replace(outcome, values=response, kind="real")


def warn_of_classes(model: EstimatorLike) -> None:
    """Say which class a probability is of, where the classes are not 0 and 1 themselves."""
    classes = classes_in_order(model)
    if classes is None or len(classes) != 2 or not predicts_classes(model):
        return
    if classes not in ([0, 1], [False, True]):
        first, second = map(repr, classes)
        warn(
            f"this {type(model).__name__} tells {first} from {second}: the probability of {second} "
            f"is explained, so {TARGET} must be 1 for {second} and 0 for {first}",
            OutcomeWarning,
        )
