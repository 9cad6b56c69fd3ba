"""What scoring is given, for tests that score rows of their own."""

from __future__ import annotations

import numpy as np

from dfi._data.folds import Fold
from dfi._data.outcome import Outcome
from dfi._data.problem import Data
from dfi._data.seeds import Seeds
from dfi._data.table import read_table
from dfi._lines.choose import Quadrature
from dfi._models.fits import Fits
from dfi._scoring.task import Task


def task_of(folds, X, y, weights, *, table=None, seed=0, **changed):
    """Return a task of all rows that the folds hold out."""
    data = Data(read_table(X) if table is None else table, Outcome(y, "y", "real"), weights)
    split = tuple(Fold(np.empty(0, dtype=np.intp), fold.test) for fold in folds)
    given = {
        "form": "loco",
        "options": Quadrature(),
        "transport_error": "derived",
        **changed,
    }
    fits = Fits(data, None, (split,), Seeds(seed), prefit=True)
    return Task(fits, folds, data.blocks, **given)
