"""Whether a model's predictions are functions of single rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._data.source import LARGE_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._models.predictor import Predictor
    from dfi._types import Floats, Ints

ROWS_ASKED = 32
TOLERATED = 1e-3
"""Of the spread of predictions, beyond which a difference is none of rounding."""

SINGLE = 64 * 2.0**-24
"""Of the largest prediction: rounding of models that work in single precision."""


def refuse_nondeterministic(predictor: Predictor, matrix: Floats) -> None:
    r"""Raise if a model predicts the same rows differently in another order or batch.

    Scores are averages of :math:`f(x)` over rows that are moved one coordinate at a time. A model
    that draws random numbers, keeps a state or standardises the batch that it is given has no
    :math:`f`, and its scores mean nothing. Up to 32 rows are predicted together, once more
    backwards in two batches of different size, and among all rows; differences above a thousandth
    of the predictions' spread, and above what single precision rounds, are refused.
    """
    matrix = matrix[:LARGE_ROWS]
    places = _places(len(matrix))
    rows = matrix[places]
    back = np.arange(len(rows))[::-1]
    cut = max(1, len(rows) // 3)
    try:
        first = predictor.answer(rows)
        parts = [predictor.answer(rows[part]) for part in (back[:cut], back[cut:])]
        second = np.concatenate(parts)[back]
        whole = predictor.answer(matrix) if len(matrix) > len(rows) else first
    except Exception:
        # what cannot be predicted is reported where it is, with its reason
        return
    _refuse_apart(predictor.name, first, second, first, places, "in another order and batch")
    if len(whole) == len(matrix) > len(rows):
        _refuse_apart(predictor.name, first, whole[places], whole, places, f"among {len(matrix)}")


def refuse_batches(function: Callable[[Floats], Floats], points: Floats, values: Floats) -> None:
    """Raise if a model predicts rows of a batch, the largest that it is given, otherwise alone."""
    if len(points) > ROWS_ASKED:
        places = _places(len(points))
        name = getattr(function, "name", type(function).__name__)
        where = f"among {len(points)}, moved as scores need it"
        _refuse_apart(name, function(points[places]), values[places], values, places, where)


def _places(n_rows: int) -> Ints:
    return np.unique(np.linspace(0, n_rows - 1, ROWS_ASKED).astype(np.intp))


def _refuse_apart(
    name: str, first: Floats, second: Floats, known: Floats, places: Ints, where: str
) -> None:
    """Raise if predictions of rows differ by more than a share of the spread of ``known`` ones."""
    if first.shape != second.shape or len(first) != len(places):
        return
    with np.errstate(all="ignore"):
        spread = np.ptp(known, axis=0)
        room = TOLERATED * spread + SINGLE * np.abs(known).max(axis=0)
        apart = np.abs(first - second)
        beyond = apart > room
    if not beyond.any():
        return
    row = int(np.argmax(np.max(apart.reshape(len(places), -1), axis=1)))
    one, other = (float(np.ravel(found[row])[0]) for found in (first, second))
    raise ValueError(
        f"{name} does not predict by the row alone: row {places[row]} is given {one:.6g} among "
        f"{len(places)} rows and {other:.6g} {where}. Scores need a function of the row: give the "
        "model a fixed state, and switch off random draws, dropout and statistics of the batch"
    )
