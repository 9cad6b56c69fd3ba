"""Columns that hold the outcome: their scores are not findings about other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from dfi._findings import Finding, listed

if TYPE_CHECKING:
    from dfi._data.columns import Column
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints

LEAKED_SHARE = 0.999
"""Share of the variance of the outcome, or of its ranks, above which a sum of columns, or the order
of one, determines it."""

NEARLY = 0.95
"""Share of the variance of the outcome's ranks that a column may have before a note says so."""

MOST_LEAKED = 300
"""Columns up to which sums of them are looked at."""

MOST_ROWS = 2000
"""Rows on which they are."""

FEWEST_LEAKED = 21
"""With this many rows, a column that determines the outcome in each is no accident."""

COMPUTED = "Leave {0} out if the outcome was computed from {0}, or the other way round"

LEAKED_ROWS = 10
"""With this many rows per level, one outcome in each level is no accident."""


def leaks(task: Task) -> Finding | None:
    """Report columns that hold the outcome: their scores are not findings about other rows."""
    counted = np.flatnonzero(task.weights.values > 0)
    if len(counted) < FEWEST_LEAKED:
        return None
    y = task.y[counted]
    names = [column.name for column in task.fits.table.columns if _tells(task, column, counted, y)]
    if not names:
        rows = counted[np.unique(np.linspace(0, len(counted) - 1, MOST_ROWS).astype(np.intp))]
        return _leaked_sum(task, rows) or _leaked_order(task, rows)
    few = len(names) == 1
    what = (
        f"{listed(names)} {'holds' if few else 'hold'} the outcome itself, or "
        f"{'determines' if few else 'determine'} it in every row"
    )
    they, are = ("it", "it is") if few else ("them", "they are")
    return Finding(
        "leak", "distrust", what, remedy=f"Leave {they} out, unless {are} known before the outcome"
    )


def _leaked_order(task: Task, rows: Ints) -> Finding | None:
    """Say which columns put the rows in the outcome's order, as its logarithm does."""
    y = task.y[rows]
    # classes and small counts can be put in order by a feature that predicts them well
    if len(np.unique(y)) < FEWEST_LEAKED:
        return None
    ranks = _centred(rankdata(y))
    left = {
        column.name: _left(
            _centred(rankdata(task.matrix[rows, column.positions[0]]))[:, None], ranks
        )
        for column in task.fits.table.columns
        if column.width == 1 and not task.fits.constant[column.positions[0]]
    }
    ordered = [name for name, part in left.items() if part <= 1.0 - LEAKED_SHARE]
    names = ordered or [name for name, part in left.items() if part <= 1.0 - NEARLY]
    if not names:
        return None
    few = len(names) == 1
    they, so = ("it", "puts") if few else ("them", "put")
    return Finding(
        "leak",
        "distrust" if ordered else "note",
        f"{listed(names)} {so} the rows in the order of the outcome, as a transformed copy would"
        if ordered
        else f"{listed(names)} {so} the rows nearly in the order of the outcome",
        {"share": LEAKED_SHARE if ordered else NEARLY},
        COMPUTED.format(they),
    )


def _centred(values: Floats) -> Floats:
    return np.asarray(values - values.mean())


def _leaked_sum(task: Task, rows: Ints) -> Finding | None:
    """Say which columns tell the outcome by a linear combination, all but a thousandth of it."""
    varying = np.flatnonzero(~task.fits.constant)
    if len(varying) > MOST_LEAKED:
        return None
    X = task.matrix[np.ix_(rows, varying)]
    X = X - X.mean(axis=0)
    X /= np.maximum(np.sqrt(np.mean(X**2, axis=0)), 1e-300)
    y = _centred(task.y[rows])
    most, told_apart = min(len(varying), len(rows) // 8), 3 * len(varying) <= len(rows)
    if told_apart and _left(X, y) > 1.0 - LEAKED_SHARE:
        return None
    chosen: list[int] = []
    residual = y
    while _left(X[:, chosen], y) > 1.0 - LEAKED_SHARE:
        if len(chosen) == most:
            return None
        gain = np.abs(X.T @ residual)
        gain[chosen] = -1.0
        chosen.append(int(gain.argmax()))
        part = X[:, chosen]
        residual = y - part @ np.linalg.lstsq(part, y, rcond=None)[0]
    for place in tuple(chosen):
        fewer = [other for other in chosen if other != place]
        if _left(X[:, fewer], y) <= 1.0 - LEAKED_SHARE:
            chosen = fewer
    told = {int(varying[place]) for place in chosen}
    names = [c.name for c in task.fits.table.columns if told.intersection(c.positions)]
    few = len(names) == 1
    they, how = ("it", "straight line") if few else ("them", "linear combination")
    return Finding(
        "leak",
        "distrust",
        f"{listed(names)} {'determines' if few else 'determine'} the outcome by a {how}, all but "
        f"{100 * (1 - LEAKED_SHARE):.1f} % of its variance",
        {"share": LEAKED_SHARE},
        COMPUTED.format(they),
    )


def _left(X: Floats, y: Floats) -> float:
    """Return the share of a centred outcome's variance that least squares leave, adjusted."""
    n, d = X.shape
    residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0] if d else y
    return float((residual @ residual) / (y @ y) * (n - 1) / (n - 1 - d))


def _tells(task: Task, column: Column, rows: Ints, y: Floats) -> bool:
    r"""Return whether a column determines the outcome in every row, up to rounding.

    Numbers do that are on one straight line with it, :math:`x = a + b y`; a category does with an
    outcome of two values, 0 and 1, that is the same in all rows of a level.
    """
    if column.kind == "categorical":
        if column.width * LEAKED_ROWS > len(rows) or not np.all((y == 0.0) | (y == 1.0)):
            return False
        codes = column.decode(task.matrix[:, list(column.positions)][rows])
        return len(np.unique(codes)) == len(np.unique(2 * codes + y))
    if column.width > 1:
        return False
    values = task.matrix[rows, column.positions[0]]
    low, high = int(y.argmin()), int(y.argmax())
    wide = y[high] - y[low]
    slope = (values[high] - values[low]) / wide
    room = 1e-9 * abs(values[high] - values[low])
    # a few rows tell of almost every column that it is none
    for part in (slice(0, 64), slice(None)):
        line = values[low] + slope * (y[part] - y[low])
        if room == 0.0 or not np.all(np.abs(values[part] - line) <= room):
            return False
    return True
