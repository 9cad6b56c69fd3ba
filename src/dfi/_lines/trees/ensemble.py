"""A tree ensemble as flat arrays, whatever library grew it.

Every supported library decides a split by its own rule (``float32(x) <= c``, ``float32(x) < c``,
``x <= c``). All of them are monotone in the float64 number ``x``, so each is the same as
``x <= threshold`` for exactly one float64 threshold; the readers fold the rule into it here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfi._types import Floats

    Integers = NDArray[np.int32]

Link = Literal["identity", "logistic", "exp"]


@dataclass(frozen=True)
class TreeEnsemble:
    """The function ``link(intercept + sum over trees of the value of the leaf reached)``.

    Parameters
    ----------
    feature : ndarray of int32, shape (n_nodes,)
        Column that a node splits on; -1 at a leaf.
    threshold : ndarray, shape (n_nodes,)
        A row goes left where ``x[feature] <= threshold`` in float64 arithmetic.
    left, right : ndarray of int32, shape (n_nodes,)
        Children; -1 at a leaf.
    value : ndarray, shape (n_nodes,)
        Leaf value, with learning rate, averaging and class column already applied; 0 elsewhere.
    roots : ndarray of int32, shape (n_trees,)
        Root of each tree.
    intercept : float
        What the sum starts from.
    link : {"identity", "logistic", "exp"}
        Applied to the sum.
    n_features : int
        Number of columns that the model takes.
    tolerance : float
        Relative error up to which the library's own predict reproduces the sum: its rounding.
    """

    feature: Integers
    threshold: Floats
    left: Integers
    right: Integers
    value: Floats
    roots: Integers
    intercept: float = 0.0
    link: Link = "identity"
    n_features: int = 0
    tolerance: float = 1e-9

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    def scaled(self, factor: float) -> TreeEnsemble:
        """Return the ensemble times a number."""
        self._require_sum("scaled")
        return replace(self, value=self.value * factor, intercept=self.intercept * factor)

    def shifted(self, constant: float) -> TreeEnsemble:
        """Return the ensemble plus a number, before the link."""
        return replace(self, intercept=self.intercept + constant)

    def with_columns(self, columns: ArrayLike, n_features: int) -> TreeEnsemble:
        """Return the same function of a wider row: column ``k`` is now ``columns[k]``."""
        lookup = np.asarray(columns, dtype=np.int32)
        feature = np.where(self.feature >= 0, lookup[self.feature], np.int32(-1)).astype(np.int32)
        return replace(self, feature=feature, n_features=n_features)

    def predict(self, points: Floats, *, n_threads: int | None = None) -> Floats:
        """Return the ensemble's value at each row."""
        from dfi._lines.trees.engine import predict

        return predict(self, points, n_threads=n_threads)

    def _require_sum(self, what: str) -> None:
        if self.link != "identity":
            raise ValueError(f"an ensemble with a {self.link} link cannot be {what}")


def add_ensembles(parts: Sequence[TreeEnsemble]) -> TreeEnsemble:
    """Return the sum of several ensembles over the same columns."""
    for part in parts:
        part._require_sum("added to another")
    starts = np.cumsum([0] + [len(part.feature) for part in parts[:-1]])

    def children(part: TreeEnsemble, name: str, start: int) -> Integers:
        child: Integers = getattr(part, name)
        return np.where(child >= 0, child + np.int32(start), np.int32(-1)).astype(np.int32)

    pairs = list(zip(parts, starts, strict=True))
    return TreeEnsemble(
        feature=np.concatenate([part.feature for part in parts]),
        threshold=np.concatenate([part.threshold for part in parts]),
        left=np.concatenate([children(part, "left", start) for part, start in pairs]),
        right=np.concatenate([children(part, "right", start) for part, start in pairs]),
        value=np.concatenate([part.value for part in parts]),
        roots=np.concatenate([part.roots + np.int32(start) for part, start in pairs]),
        intercept=float(sum(part.intercept for part in parts)),
        n_features=max(part.n_features for part in parts),
        tolerance=max(part.tolerance for part in parts),
    )


def joined_trees(
    sizes: Sequence[int],
    feature: ArrayLike,
    threshold: ArrayLike,
    left: ArrayLike,
    right: ArrayLike,
    value: ArrayLike,
    *,
    n_features: int,
    tolerance: float = 1e-9,
) -> TreeEnsemble:
    """Return the sum of trees whose node arrays were joined.

    Tree ``k`` has ``sizes[k]`` nodes, its root first; children are numbered within their own tree,
    and leaves have ``left < 0``.
    """
    left_child = np.asarray(left, dtype=np.int32)
    leaf = left_child < 0
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    start = np.repeat(roots, sizes)
    return TreeEnsemble(
        feature=np.where(leaf, -1, np.asarray(feature)).astype(np.int32),
        threshold=np.where(leaf, 0.0, np.asarray(threshold, dtype=np.float64)),
        left=np.where(leaf, -1, left_child + start).astype(np.int32),
        right=np.where(leaf, -1, np.asarray(right) + start).astype(np.int32),
        value=np.where(leaf, np.asarray(value, dtype=np.float64), 0.0),
        roots=roots,
        n_features=n_features,
        tolerance=tolerance,
    )


def single_tree(
    feature: ArrayLike,
    threshold: ArrayLike,
    left: ArrayLike,
    right: ArrayLike,
    value: ArrayLike,
    *,
    n_features: int,
    tolerance: float = 1e-9,
) -> TreeEnsemble:
    """Return one tree, given by node arrays whose root is node 0 (leaves have ``left < 0``)."""
    size = len(np.asarray(left))
    return joined_trees(
        [size], feature, threshold, left, right, value, n_features=n_features, tolerance=tolerance
    )


def fold_float32_at_most(threshold: ArrayLike) -> Floats:
    """Return ``c`` such that ``x <= c`` equals ``float32(x) <= threshold`` for every float64 ``x``.

    With ``a`` the largest float32 at most the threshold and ``b`` the next one, ``float32(x) <= a``
    holds below the midpoint of ``a`` and ``b``; the midpoint itself rounds to the even neighbour.
    """
    exact = np.asarray(threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        below = exact.astype(np.float32)
        below = np.where(
            below.astype(np.float64) > exact, np.nextafter(below, np.float32(-np.inf)), below
        )
        above = np.nextafter(below, np.float32(np.inf))
    middle = below.astype(np.float64) / 2 + above.astype(np.float64) / 2
    even = (below.view(np.int32) & 1) == 0
    return np.where(even, middle, np.nextafter(middle, -np.inf))


def fold_float32_below(threshold: ArrayLike) -> Floats:
    """Return ``c`` such that ``x <= c`` equals ``float32(x) < threshold``, a float32 number."""
    return fold_float32_at_most(
        np.nextafter(np.asarray(threshold, dtype=np.float32), np.float32(-np.inf))
    )
