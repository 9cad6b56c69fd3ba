"""Some of the folds with their models read for lines: what the checks of a result look at.

Checks need no more than a few hundred rows. Reading a model (following its trees, comparing it with
its own predictions) can take longer than its line means, so whole folds are taken, not a few rows
of each.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.choose import LineOptions, line_model
from dfi._scoring.scores import SAMPLE_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._lines.base import LineModel
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.latent import ScoreForm
    from dfi._types import Floats, Ints


@dataclass(frozen=True)
class ReadFold:
    """Rows that a fold holds out, and its models as functions that can be averaged along lines.

    Attributes
    ----------
    rows : ndarray of int
        Rows of the table.
    models : tuple of LineModel
        One, or two that were fitted on disjoint rows.
    """

    rows: Ints
    models: tuple[LineModel, ...]

    def predict(self, points: Floats) -> Floats:
        """Return the models' mean prediction."""
        return np.asarray(np.mean([model.predict(points) for model in self.models], axis=0))


def read_some_folds(
    folds: Sequence[FoldModels],
    matrix: Floats,
    mass: Floats,
    *,
    count: int,
    form: ScoreForm,
    options: LineOptions,
    seed: np.random.SeedSequence,
) -> tuple[ReadFold, ...]:
    """Read the first folds that hold out some number of rows together.

    Parameters
    ----------
    folds : sequence of FoldModels
        All folds, those of the first repeat first.
    matrix, mass : ndarray
        The numeric matrix of the table and the weights of its rows; rows of weight 0 are left out.
    count : int
        How many rows to take: evenly spaced ones of the last fold, where it has more than needed.
    form, options
        As for the scores.
    seed : SeedSequence
        For models whose line means are drawn.
    """
    found: list[ReadFold] = []
    missing = count
    for fold, child in zip(folds, seed.spawn(len(folds)), strict=True):
        if missing <= 0 or fold.repeat > 0:
            break
        rows = fold.test[mass[fold.test] > 0]
        if len(rows) == 0:
            continue
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, missing).astype(np.intp))]
        sample = matrix[fold.test][:: max(1, len(fold.test) // SAMPLE_ROWS)]
        with warnings.catch_warnings():
            # What there is to say about how a model is read was said when it was scored.
            warnings.simplefilter("ignore")
            models = tuple(
                line_model(predictor, sample, options, square=form == "cpi", seed=own)
                for predictor, own in zip(
                    fold.predictors, child.spawn(len(fold.predictors)), strict=True
                )
            )
        found.append(ReadFold(rows, models))
        missing -= len(rows)
    return tuple(found)
