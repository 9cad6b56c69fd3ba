"""Numbers whose powers leave double precision: any unit of measurement is fine but those."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dfi._data.outcome import Outcome
    from dfi._data.table import Table

LARGEST_COLUMN = 1e140
"""A column enters by its variance: the square of its spread, and the inverse of that."""

LARGEST_OUTCOME = 1e45
"""A score is a square of the outcome, and the skewness of its estimate a sixth power."""


def refuse_extreme(table: Table, outcome: Outcome) -> None:
    """Refuse columns and outcomes so large or so small that their powers are no numbers."""
    with np.errstate(over="ignore"):
        spread = table.matrix.max(axis=0) - table.matrix.min(axis=0)
        wide = float(np.ptp(outcome.values))
    for position in np.flatnonzero(~table.constant):
        if not 1.0 / LARGEST_COLUMN < spread[position] < LARGEST_COLUMN:
            raise ValueError(
                f"column {table.matrix_names[position]!r} spans {spread[position]:.3g}, and the "
                "square of that is beyond double precision: give it other units"
            )
    if not 1.0 / LARGEST_OUTCOME < wide < LARGEST_OUTCOME:
        raise ValueError(
            f"y spans {wide:.3g}, and powers of that are beyond double precision: give it other "
            "units"
        )
