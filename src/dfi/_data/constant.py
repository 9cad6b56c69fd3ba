"""Columns that do not vary: kept, scored 0, and said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dfi.warnings import ConstantColumnWarning, warn

if TYPE_CHECKING:
    from dfi._data.table import Table
    from dfi._types import Bools, Ints


def constant_among(table: Table, rows: Ints) -> Bools:
    """Return which matrix columns do not vary among some rows.

    A time splitter never holds out the first rows, and a weight of 0 leaves rows out: a column may
    vary in the table and not among the rows that are explained.
    """
    return replace(table, matrix=table.matrix[rows]).constant


def warn_constant(table: Table, constant: Bools, where: str) -> None:
    """Warn of units without variation; refuse a table that has no other."""
    names = [column.name for column in table.columns if constant[list(column.positions)].all()]
    if len(names) == len(table.columns):
        raise ValueError(f"every column of X is constant{where}: there is nothing to explain")
    if names:
        shown = ", ".join(repr(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
        warn(
            f"constant column(s) {shown}{where}: kept, with score 0 and no standard error",
            ConstantColumnWarning,
        )
