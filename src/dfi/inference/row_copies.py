"""Scores along curves where latent rows are drawn: a row that counts ``w`` times has ``w`` draws.

So frequency weights are repeated rows to the last draw, and a row's influence value is the mean
over its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._data.weights import Weights
from dfi._scoring.curves import curve_scores
from dfi.transports.vine import repeated_rows

if TYPE_CHECKING:
    from dfi._scoring.scores import Scores, Task
    from dfi._types import Floats, Ints


@dataclass(frozen=True)
class RowCopies:
    """The rows of a table, those that are explained as often as they count.

    Attributes
    ----------
    rows : ndarray of int
        The row of the table that each copy is of. Rows of weight 0 have one copy, at the end: the
        draws of the others are then the same as without them.
    weights : Weights
        1 for every copy, 0 for those of rows of weight 0.
    """

    rows: Ints
    weights: Weights

    @classmethod
    def of(cls, transport: Any, weights: Weights, rows: Ints) -> RowCopies | None:
        """Return the copies of some rows; None where one of each will do."""
        if weights.uniform or not getattr(transport, "draws_latents", False):
            return None
        found = repeated_rows(weights.take(rows))
        if found is None:
            return None
        idle = rows[weights.values[rows] == 0]
        mass = np.concatenate([np.ones(len(found)), np.zeros(len(idle))])
        return cls(np.concatenate([rows[found], idle]), Weights(mass, "frequency"))

    def scores(
        self,
        task: Task,
        transport: Any,
        *,
        generator: np.random.Generator,
        check: bool = True,
    ) -> Scores:
        """Return :func:`curve_scores` of the rows, from the mean over the draws of each."""
        drawn = self.weights.values > 0
        matrix, folds = task.matrix[self.rows], task.folds
        latent = np.concatenate(
            [transport.encode(matrix[part], generator) for part in (drawn, ~drawn)]
        )
        copied = [
            replace(fold, test=np.flatnonzero(np.isin(self.rows, fold.test))) for fold in folds
        ]
        of_copies = replace(
            task,
            folds=copied,
            table=replace(task.table, matrix=matrix, present=None),
            y=task.y[self.rows],
            weights=self.weights,
            advance=None,
        )
        found = curve_scores(of_copies, transport, latent=latent, check=check)
        if task.advance is not None:
            # a bar counts rows, not their copies
            task.advance(sum(len(fold.test) for fold in folds))
        rows, which, count = np.unique(
            self.rows[found.rows], return_inverse=True, return_counts=True
        )

        def mean(values: Floats) -> Floats:
            total = np.zeros((len(rows), values.shape[1]))
            np.add.at(total, which, values)
            return total / count[:, None]

        predictions = []
        for test, values in found.predictions:
            once, first = np.unique(self.rows[test], return_index=True)
            predictions.append((once, values[first]))
        return replace(
            found,
            rows=rows,
            latent=mean(found.latent),
            attributed=mean(found.attributed),
            predictions=tuple(predictions),
        )
