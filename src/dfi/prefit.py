"""A model that was fitted elsewhere, in the place of models that are fitted here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.nuisance.crossfit import FoldModels
from dfi.nuisance.learners import check_learner_suits_outcome
from dfi.nuisance.predictor import predictor_for

if TYPE_CHECKING:
    from dfi.data import Outcome, Table


def prefit_models(
    estimator: Any, cv: str, table: Table, outcome: Outcome, seed: np.random.SeedSequence
) -> tuple[FoldModels, ...]:
    """Return a fitted model as the only fold, all rows held out.

    Raises
    ------
    ValueError, TypeError
        ``cv`` is another word than "prefit", or the estimator is the name of a learner.
    """
    if cv != "prefit":
        raise ValueError(f"unknown cv {cv!r}: pass a number of folds, a splitter or 'prefit'")
    if isinstance(estimator, str):
        raise TypeError(
            "cv='prefit' explains a fitted model: pass it (or a function of X) as "
            f"estimator, not the name {estimator!r}"
        )
    predictor = predictor_for(estimator, table, prefit=True)
    check_learner_suits_outcome(estimator, outcome.kind)
    return (FoldModels(0, np.arange(table.n_rows), (predictor,), seed),)
