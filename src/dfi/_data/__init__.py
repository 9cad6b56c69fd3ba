"""The front door: any table in, one numeric table out."""

from __future__ import annotations

from dfi._data.columns import Column
from dfi._data.folds import Fold, read_folds, read_row_groups, split_halves
from dfi._data.frames import as_frame
from dfi._data.groups import Groups, read_groups
from dfi._data.outcome import Outcome, read_outcome
from dfi._data.problem import Data, Units, read_data
from dfi._data.table import Table, read_table
from dfi._data.weights import Weights, read_weights

__all__ = [
    "Column",
    "Data",
    "Fold",
    "Groups",
    "Outcome",
    "Table",
    "Units",
    "Weights",
    "as_frame",
    "read_data",
    "read_folds",
    "read_groups",
    "read_outcome",
    "read_row_groups",
    "read_table",
    "read_weights",
    "split_halves",
]
