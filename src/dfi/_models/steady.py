"""Whether a model's predictions are functions of single rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dfi._models.predictor import Predictor
    from dfi._types import Floats

ROWS_ASKED = 32
UNSTEADY = 1e-3
"""Of the spread of predictions, beyond which a difference is none of rounding."""

SINGLE = 64 * 2.0**-24
"""Of the largest prediction: rounding of models that work in single precision."""


def refuse_unsteady(predictor: Predictor, matrix: Floats) -> None:
    r"""Raise if a model predicts the same rows differently in another order or batch.

    Scores are averages of :math:`f(x)` over rows that are moved one coordinate at a time. A model
    that draws random numbers, keeps a state or standardises the batch that it is given has no
    :math:`f`, and its scores mean nothing. Up to 32 rows are predicted together, and once more
    backwards in two batches of different size; differences above a thousandth of the predictions'
    spread, and above what single precision rounds, are refused.

    Parameters
    ----------
    predictor : Predictor
        The model.
    matrix : ndarray of shape (n, p)
        Rows of the numeric matrix.
    """
    places = np.unique(np.linspace(0, len(matrix) - 1, ROWS_ASKED).astype(np.intp))
    rows = matrix[places]
    back = np.arange(len(rows))[::-1]
    cut = max(1, len(rows) // 3)
    try:
        first = predictor.answer(rows)
        parts = [predictor.answer(rows[part]) for part in (back[:cut], back[cut:])]
        second = np.concatenate(parts)[back]
    except Exception:
        # what cannot be predicted is reported where it is, with its reason
        return
    if first.shape != second.shape or len(first) != len(rows):
        return
    with np.errstate(all="ignore"):
        spread = np.ptp(first, axis=0)
        room = UNSTEADY * spread + SINGLE * np.abs(first).max(axis=0)
        apart = np.abs(first - second)
        beyond = apart > room
    if not beyond.any():
        return
    row = int(np.argmax(np.max(apart.reshape(len(rows), -1), axis=1)))
    one, other = (float(np.ravel(found[row])[0]) for found in (first, second))
    raise ValueError(
        f"{predictor.name} does not predict by the row alone: row {places[row]} is given {one:.6g} "
        f"among {len(rows)} rows and {other:.6g} in another order and batch. Scores need a "
        "function of the row: give the model a fixed state, and switch off random draws, dropout "
        "and statistics of the batch"
    )
