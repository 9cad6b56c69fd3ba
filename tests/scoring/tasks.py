"""What scoring is given, for tests that score rows of their own."""

from __future__ import annotations

import numpy as np

from dfi._data.table import read_table
from dfi._lines.choose import Quadrature
from dfi._scoring.scores import Task


def task_of(folds, X, y, weights, *, table=None, **changed):
    """Return a task of all rows that the folds hold out."""
    given = {
        "rows": np.unique(np.concatenate([fold.test for fold in folds])),
        "constant": np.zeros(X.shape[1], bool),
        "form": "loco",
        "options": Quadrature(),
        "transport_error": "derived",
        "seed": np.random.SeedSequence(0),
        **changed,
    }
    return Task(folds, read_table(X) if table is None else table, y, weights, **given)
