"""How well the regression behind the scores predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi.warnings import WeakModelWarning, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._types import Floats, Ints


@dataclass(frozen=True)
class Quality:
    """Out-of-fold fit of the regression.

    Attributes
    ----------
    r2 : float
        Out-of-fold R2 over all rows (on the given rows for a fitted model).
    r2_by_fold : tuple of float
        R2 of each fold.
    r2_spread : float
        Standard deviation of ``r2_by_fold``; NaN for a fitted model.
    mse : float
        Out-of-fold mean squared error.
    outcome_variance : float
        Var(Y), the unit of the scores.
    n_rows : int
        Number of rows explained.
    """

    r2: float
    r2_by_fold: tuple[float, ...]
    r2_spread: float
    mse: float
    outcome_variance: float
    n_rows: int

    def __repr__(self) -> str:
        spread = f", spread over folds {self.r2_spread:.3f}" if np.isfinite(self.r2_spread) else ""
        return (
            f"Quality(R2 {self.r2:.3f}{spread}, mean squared error {self.mse:.4g} of variance "
            f"{self.outcome_variance:.4g}, {self.n_rows} rows)"
        )


def averaged(predictions: Sequence[tuple[Ints, Floats]]) -> list[tuple[Ints, Floats]]:
    """Return the mean prediction of held-out rows that several pairs of models explain."""
    rows: dict[bytes, Ints] = {}
    values: dict[bytes, list[Floats]] = {}
    for test, value in predictions:
        key = test.tobytes()
        rows[key] = test
        values.setdefault(key, []).append(value)
    return [(rows[key], np.asarray(np.mean(values[key], axis=0))) for key in rows]


def regression_quality(
    predictions: Sequence[tuple[Ints, Floats]],
    y: Floats,
    weights: Weights,
    *,
    prefit: bool = False,
) -> Quality:
    """Return the out-of-fold R2, overall and by fold, and warn where it is not positive.

    ``predictions`` are the held-out rows of each fold and their values; ``y`` and ``weights`` those
    of all rows. A ``prefit`` model has no folds to spread over.
    """
    rows = np.concatenate([test for test, _ in predictions])
    share = weights.values[rows] / weights.values[rows].sum()
    variance = float(share @ (y[rows] - share @ y[rows]) ** 2)
    errors = [(test, (y[test] - value) ** 2) for test, value in predictions]
    mse = float(share @ np.concatenate([error for _, error in errors]))
    by_fold = []
    for test, error in errors:
        mass = weights.values[test]
        centre = np.average(y[test], weights=mass) if mass.sum() > 0 else 0.0
        scale = mass @ (y[test] - centre) ** 2
        by_fold.append(float(1.0 - mass @ error / scale) if scale > 0 else float("nan"))
    quality = Quality(
        r2=1.0 - mse / variance,
        r2_by_fold=tuple(by_fold),
        r2_spread=float("nan") if prefit or len(by_fold) < 2 else float(np.nanstd(by_fold, ddof=1)),
        mse=mse,
        outcome_variance=variance,
        n_rows=len(np.unique(rows)),
    )
    _warn_where_weak(quality)
    return quality


def _warn_where_weak(quality: Quality) -> None:
    if quality.r2 <= 0:
        warn(
            f"the regression explains nothing on held-out rows (R2 = {quality.r2:.3f}): "
            "its importances describe noise; try another estimator or more rows",
            WeakModelWarning,
        )
