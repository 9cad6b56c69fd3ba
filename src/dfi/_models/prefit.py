"""A model that was fitted elsewhere, in the place of models that are fitted here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._models.crossfit import FoldModels
from dfi._models.learners import check_learner_suits_outcome, predicts_classes
from dfi._models.predictor import predictor_for
from dfi.warnings import OutcomeWarning, warn

if TYPE_CHECKING:
    from dfi._data import Outcome, Table


def prefit_models(
    estimator: Any,
    cv: str,
    table: Table,
    outcome: Outcome,
    seed: np.random.SeedSequence,
    *,
    n_repeats: int = 1,
) -> tuple[FoldModels, ...]:
    """Return a fitted model as the only fold, all rows held out.

    Raises
    ------
    ValueError, TypeError
        ``cv`` is another word than "prefit", the estimator is the name of a learner, or repeats
        are asked for where nothing is split.
    """
    if cv != "prefit":
        raise ValueError(f"unknown cv {cv!r}: pass a number of folds, a splitter or 'prefit'")
    if isinstance(estimator, str):
        raise TypeError(
            "cv='prefit' explains a fitted model: pass it (or a function of X) as "
            f"estimator, not the name {estimator!r}"
        )
    if n_repeats != 1:
        raise ValueError(
            f"n_repeats={n_repeats!r} repeats the split of the rows, and cv='prefit' splits none: "
            "leave n_repeats at 1"
        )
    _warn_of_classes(estimator)
    predictor = predictor_for(estimator, table, prefit=True)
    check_learner_suits_outcome(estimator, outcome.kind)
    return (FoldModels(0, np.arange(table.n_rows), (predictor,), seed),)


def _warn_of_classes(model: Any) -> None:
    """Say which class a probability is of, where the classes are not 0 and 1 themselves."""
    classes = getattr(model, "classes_", None)
    if classes is None or len(classes) != 2 or not predicts_classes(model):
        return
    if list(classes) not in ([0, 1], [False, True]):
        first, second = (repr(getattr(name, "item", lambda name=name: name)()) for name in classes)
        warn(
            f"this {type(model).__name__} tells {first} from {second}: the probability of {second} "
            f"is explained, so y must be 1 for {second} and 0 for {first}",
            OutcomeWarning,
        )
