"""The scores of rows under a transport that is not linear, in both spaces."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.scores import PooledScores
    from dfi._types import Bools, Floats, Ints


@dataclass(frozen=True)
class FoldScores:
    """Influence values of the held-out rows of one fold, the transport taken as known.

    Attributes
    ----------
    latent, attributed : ndarray of shape (n, d)
        Uncentred influence values.
    prediction : ndarray of shape (n,)
        The models' mean prediction of each row.
    """

    latent: Floats
    attributed: Floats
    prediction: Floats


@dataclass(frozen=True)
class TransportedScores:
    """The folds' scores put together over rows and repeats.

    Attributes
    ----------
    rows : ndarray of int
        The rows that were held out at least once, in the table's order.
    latent, attributed : ndarray of shape (n, d)
        Uncentred influence values, averaged over repeats.
    latent_by_repeat, attributed_by_repeat : ndarray of shape (n_repeats, d)
        Scores of each repeat.
    predictions : tuple of (test rows, predictions)
        Of each fold, for the quality of the regression.
    attribution : ndarray of shape (d, d)
        Mean squared Jacobian, feature by latent coordinate.
    rule : str
        How line means were taken.
    standard_errors : str
        What the influence values account for.
    diagnostics : dict
        What else the transport reports.
    pooled : PooledScores or None
        The latent scores behind, where latent lines are straight.
    unread : ndarray of bool of shape (d,), or None
        Coordinates whose dependence component no model reads: their scores are 0 exactly. None
        where there are no components.
    """

    rows: Ints
    latent: Floats
    attributed: Floats
    latent_by_repeat: Floats
    attributed_by_repeat: Floats
    predictions: tuple[tuple[Ints, Floats], ...]
    attribution: Floats
    rule: str
    standard_errors: str = "fixed transport"
    diagnostics: dict[str, Any] = field(default_factory=dict)
    pooled: PooledScores | None = None
    unread: Bools | None = None

    def silenced(self, unread: Bools) -> TransportedScores:
        """Return the scores with those of unread coordinates at exactly 0, in both spaces.

        Attribution stays within components, so what an unread coordinate would give and receive
        is rounding too.
        """
        return replace(
            self,
            latent=np.where(unread, 0.0, self.latent),
            attributed=np.where(unread, 0.0, self.attributed),
            latent_by_repeat=np.where(unread, 0.0, self.latent_by_repeat),
            attributed_by_repeat=np.where(unread, 0.0, self.attributed_by_repeat),
            unread=unread,
        )


def put_together(
    folds: Sequence[FoldModels],
    scores: Sequence[FoldScores],
    weights: Weights,
    attribution: Floats,
    rule: str,
    diagnostics: dict[str, Any] | None = None,
) -> TransportedScores:
    """Average the folds' influence values over repeats, row by row."""
    n, d = len(weights.values), attribution.shape[1]
    n_repeats = 1 + max(fold.repeat for fold in folds)
    total, count = np.zeros((2, n, d)), np.zeros(n)
    sums, masses = np.zeros((2, n_repeats, d)), np.zeros(n_repeats)
    for fold, score in zip(folds, scores, strict=True):
        mass = weights.values[fold.test]
        both = np.stack([score.latent, score.attributed])
        total[:, fold.test] += both
        count[fold.test] += 1
        sums[:, fold.repeat] += mass @ both
        masses[fold.repeat] += mass.sum()
    rows = np.flatnonzero(count)
    latent, attributed = total[:, rows] / count[rows, None]
    by_repeat = sums / masses[:, None]
    return TransportedScores(
        rows=rows,
        latent=latent,
        attributed=attributed,
        latent_by_repeat=by_repeat[0],
        attributed_by_repeat=by_repeat[1],
        predictions=tuple(
            (fold.test, score.prediction) for fold, score in zip(folds, scores, strict=True)
        ),
        attribution=attribution,
        rule=rule,
        diagnostics=diagnostics or {},
    )
