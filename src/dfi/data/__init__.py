"""The front door: any table in, one numeric table out."""

from __future__ import annotations

from dfi.data.columns import Column
from dfi.data.folds import Fold, read_folds, read_row_groups, split_halves
from dfi.data.frames import as_frame
from dfi.data.groups import Groups, read_groups
from dfi.data.outcome import Outcome, read_outcome
from dfi.data.table import Table, read_table
from dfi.data.weights import Weights, read_weights

__all__ = [
    "Column",
    "Fold",
    "Groups",
    "Outcome",
    "Table",
    "Weights",
    "as_frame",
    "read_folds",
    "read_groups",
    "read_outcome",
    "read_row_groups",
    "read_table",
    "read_weights",
    "split_halves",
]
