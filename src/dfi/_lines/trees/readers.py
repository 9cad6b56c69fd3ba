"""Read any supported model into flat arrays, and check that it is the same function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._lines.trees.readers_boosting import read_boosting
from dfi._lines.trees.readers_sklearn import read_sklearn
from dfi._lines.trees.reading import NotTrees, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._lines.trees.ensemble import TreeEnsemble
    from dfi._types import Floats


def read_trees(model: Any, *, column: int = 1) -> tuple[TreeEnsemble | None, str]:
    """Return a model's trees, or None and the reason.

    Parameters
    ----------
    model : object
        A fitted model.
    column : int, default=1
        Class whose probability is wanted, for classifiers.

    Returns
    -------
    ensemble : TreeEnsemble or None
        The flattened model.
    reason : str
        Why there is none; empty where the model is not made of trees.
    """
    try:
        return _read(model, column), ""
    except NotTrees:
        return None, ""
    except Unreadable as reason:
        return None, f"{type(model).__name__}: {reason}"


def _read(model: Any, column: int) -> TreeEnsemble:
    ensemble = read_sklearn(model, column, _read)
    if ensemble is None:
        ensemble = read_boosting(model, column)
    if ensemble is None:
        if hasattr(model, "estimators_"):
            raise Unreadable("this ensemble is not read")
        raise NotTrees
    return ensemble


def verify(
    ensemble: TreeEnsemble,
    predict: Callable[[Floats], Floats],
    points: Floats,
    *,
    read: Callable[[Floats], Floats] | None = None,
    n_probes: int = 400,
) -> float:
    """Return the largest relative difference between the trees and the model's own predict.

    Lines leave the cloud of rows, so the two are compared at rows and at points on the straight
    lines through pairs of rows, between them and beyond. ``read`` is what makes predictions of the
    trees, where rows are not what they take.
    """
    probes = _probes(np.asarray(points, dtype=np.float64), n_probes)
    own = np.asarray(predict(probes), dtype=np.float64).reshape(len(probes))
    found = (read or ensemble.predict)(probes)
    scale = max(float(np.abs(own).max()), float(np.abs(ensemble.value).max()))
    return float(np.abs(own - found).max() / (scale or 1.0))


def _probes(points: Floats, n_probes: int) -> Floats:
    # A fixed seed: the same model is always checked at the same points.
    rng = np.random.default_rng(0)
    rows = points[np.linspace(0, len(points) - 1, min(len(points), n_probes)).astype(int)]
    first = points[rng.integers(len(points), size=n_probes)]
    second = points[rng.integers(len(points), size=n_probes)]
    step = rng.uniform(-0.5, 1.5, size=(n_probes, 1))
    return np.concatenate([rows, first + step * (second - first)])
