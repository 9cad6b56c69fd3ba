"""Square roots of correlation matrices: the linear maps from latent coordinates to features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RELATIVE_FLOOR = 1e-12
"""Pivots below this count as zero: the column is a function of those before it."""


def symmetric_root(correlation: Floats) -> Floats:
    """Return the symmetric positive square root."""
    values, vectors = np.linalg.eigh(correlation)
    return np.asarray((vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T)


def triangular_root(correlation: Floats, order: Sequence[int] | None = None) -> Floats:
    """Return the Cholesky root in an order of the columns; a singular matrix has one too.

    Rows and columns of the result are in the features' own order: entry ``(l, j)`` is what latent
    coordinate ``j`` does to feature ``l``, zero unless ``j`` comes no later than ``l``. A column
    that those before it determine has a zero column: its latent coordinate moves nothing.

    Examples
    --------
    >>> triangular_root(np.array([[1.0, 0.6], [0.6, 1.0]]), order=(1, 0))
    array([[0.8, 0.6],
           [0. , 1. ]])
    """
    d = len(correlation)
    places = np.arange(d) if order is None else np.asarray(order)
    rest = np.array(correlation, dtype=float)[np.ix_(places, places)]
    root = np.zeros((d, d))
    for j in range(d):
        if rest[j, j] > RELATIVE_FLOOR:
            column = rest[:, j] / np.sqrt(rest[j, j])
            column[:j] = 0.0
            root[np.ix_(places, places[[j]])] = column[:, None]
            rest -= np.outer(column, column)
    return root


def check_order(order: Sequence[int] | None, d: int) -> None:
    """Refuse an order that does not name every column once."""
    if order is None:
        return
    whole = all(isinstance(k, int | np.integer) for k in order)
    if not whole or sorted(int(k) for k in order) != list(range(d)):
        raise ValueError(
            f"order must name each of the columns 0 to {d - 1} once, got {list(order)!r}"
        )
