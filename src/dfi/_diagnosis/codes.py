"""Numbers that may be names: a column of few whole numbers with uneven gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._findings import Finding, listed

if TYPE_CHECKING:
    from dfi._scoring.task import Task
    from dfi._types import Floats

FEWEST_CODES, MOST_CODES = 4, 12
"""Values of a code."""

UNEVEN = 5.0
"""Times that the largest gap between values is the smallest one, at least."""

HELD = 0.01
"""Share of the rows that every value has at least: a rare large count is not a code."""

MATTERS = 0.1
"""Share of the scores from which it matters how a column is read."""


def codes(task: Task, scores: Floats) -> Finding | None:
    """Report leading columns such as 0, 1, 20, 31, between whose values models are asked too."""
    found = np.maximum(scores, 0.0)
    leading = {task.names[k] for k in np.flatnonzero(found >= MATTERS * max(found.sum(), 1e-300))}
    names = [
        column.name
        for column in task.fits.table.columns
        if column.kind != "categorical"
        and column.width == 1
        and column.name in leading
        and is_code(task.matrix[:, column.positions[0]])
    ]
    if not names:
        return None
    each = "each of them is" if len(names) > 1 else "it is"
    return Finding(
        "codes",
        "note",
        f"{listed(names)} {'are' if len(names) > 1 else 'is'} read as a number with few, unevenly "
        "spaced values",
        remedy=f"If {each} a code, pass it as a category (text)",
    )


def is_code(values: Floats) -> bool:
    """Return whether values are few whole numbers with gaps that differ by much."""
    distinct, counts = np.unique(values, return_counts=True)
    if not FEWEST_CODES <= len(distinct) <= MOST_CODES or np.any(distinct != np.round(distinct)):
        return False
    gaps = np.diff(distinct)
    return bool(gaps.max() >= UNEVEN * gaps.min() and counts.min() >= HELD * len(values))
