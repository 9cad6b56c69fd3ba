"""scikit-learn's forests without the overhead of their ``predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

if TYPE_CHECKING:
    from dfi._types import Floats


def is_plain_forest(model: Any) -> bool:
    """Tell whether a fitted model is scikit-learn's forest of one outcome."""
    return type(model) in (RandomForestRegressor, ExtraTreesRegressor) and model.n_outputs_ == 1


def forest_values(model: Any, points: Floats) -> Floats:
    """Return the mean of a forest's trees, as its own ``predict`` does.

    That sets up a job and checks the rows for every tree, which for a thousand rows takes longer
    than to walk down the tree: 0.12 of 0.15 seconds for 600 rows and 500 trees.
    """
    rows = np.ascontiguousarray(points, dtype=np.float32)
    total = np.zeros(len(rows))
    for tree in model.estimators_:
        total += tree.tree_.predict(rows)[:, 0]
    return np.asarray(total / len(model.estimators_))
