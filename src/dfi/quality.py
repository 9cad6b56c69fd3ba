"""How well the regression behind the scores predicts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from dfi.warnings import WeakModelWarning


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


def warn_where_weak(quality: Quality) -> None:
    """Warn where the regression explains nothing: there is nothing to attribute."""
    if quality.r2 <= 0:
        warnings.warn(
            f"the regression explains nothing on held-out rows (R2 = {quality.r2:.3f}): "
            "its importances describe noise; try another estimator or more rows",
            WeakModelWarning,
            stacklevel=4,
        )
