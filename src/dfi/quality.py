"""How well the regression behind the scores predicts."""

from __future__ import annotations

from dataclasses import dataclass


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
