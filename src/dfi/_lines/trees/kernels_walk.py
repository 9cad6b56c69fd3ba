"""Node layout for the kernels, and the plain walk of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._lines.trees.compiled import SOURCES, Kernel, kernel_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._lines.trees.ensemble import TreeEnsemble
    from dfi._types import Floats

    Integers = NDArray[np.int32]


class Nodes(NamedTuple):
    """Trees in preorder: the left child of node ``k`` is ``k + 1``.

    ``cut`` holds the threshold of a split and the value of a leaf (``feature < 0``), so that a
    visit touches 16 bytes.
    """

    feature: Integers
    right: NDArray[np.uint32]
    cut: Floats
    roots: NDArray[np.uint32]
    depth: int


def lay_out(ensemble: TreeEnsemble) -> Nodes:
    """Return the ensemble's nodes in preorder."""
    n = len(ensemble.feature)
    feature = np.empty(n, np.int32)
    right = np.empty(n, np.uint32)
    cut = np.empty(n)
    roots = np.empty(len(ensemble.roots), np.uint32)
    filled_and_depth = np.zeros(2, np.int64)
    preorder(
        kernel_array(ensemble.feature, np.int32),
        kernel_array(ensemble.threshold, np.float64),
        kernel_array(ensemble.left, np.int32),
        kernel_array(ensemble.right, np.int32),
        kernel_array(ensemble.value, np.float64),
        kernel_array(ensemble.roots, np.int32),
        np.empty((n + 1, 3), np.int32),
        feature,
        right,
        cut,
        roots,
        filled_and_depth,
    )
    filled, depth = filled_and_depth.tolist()
    # Infinite thresholds would make 0 * inf below; no row comes near these bounds.
    return Nodes(feature[:filled], right[:filled], np.clip(cut[:filled], -1e50, 1e50), roots, depth)


@Kernel
def preorder(
    feature: Integers,
    threshold: Floats,
    left: Integers,
    right: Integers,
    value: Floats,
    roots: Integers,
    stack: Integers,
    new_feature: Integers,
    new_right: NDArray[np.uint32],
    cut: Floats,
    new_roots: NDArray[np.uint32],
    filled_and_depth: NDArray[np.int64],
    _sources: int = SOURCES,
) -> None:
    """Write the trees of a :class:`~dfi._lines.trees.ensemble.TreeEnsemble` in preorder."""
    filled = 0
    deepest = 0
    for tree in range(roots.size):
        new_roots[tree] = filled
        stack[0, 0] = roots[tree]
        stack[0, 1] = -1
        stack[0, 2] = 0
        top = 1
        while top > 0:
            top -= 1
            node = stack[top, 0]
            parent = stack[top, 1]
            level = stack[top, 2]
            deepest = max(deepest, level)
            if parent >= 0:
                new_right[parent] = filled
            if feature[node] < 0:
                new_feature[filled] = -1
                new_right[filled] = 0
                cut[filled] = value[node]
            else:
                new_feature[filled] = feature[node]
                cut[filled] = threshold[node]
                stack[top, 0] = right[node]
                stack[top, 1] = filled
                stack[top, 2] = level + 1
                stack[top + 1, 0] = left[node]
                stack[top + 1, 1] = -1
                stack[top + 1, 2] = level + 1
                top += 2
            filled += 1
    filled_and_depth[0] = filled
    filled_and_depth[1] = deepest


class Places(NamedTuple):
    """Memory for a block of rows: those that reach each node of a path, and the nodes to visit."""

    row: NDArray[np.uint32]
    stack: NDArray[np.uint64]


def places_for(n_rows: int, depth: int) -> Places:
    """Return memory for so many rows and trees of this depth."""
    return Places(
        np.empty((depth + 2) * n_rows, np.uint32),
        np.empty((depth + 2, 3), np.uint64),
    )


@Kernel
def predict_sums(
    nodes: Nodes,
    columns: Floats,
    places: Places,
    sums: Floats,
    _sources: int = SOURCES,
) -> None:
    """Add the sum of leaf values of each row to ``sums``, tree by tree.

    The rows (``columns``, transposed) that reach a node are partitioned without branches, as the
    lines are in :mod:`dfi._lines.trees.kernels_arena`: twice as quick as walking row by row.
    """
    one = np.uint64(1)
    n_rows = np.uint64(sums.size)
    row = places.row
    stack = places.stack
    for tree in range(nodes.roots.size):
        for k in range(n_rows):
            row[k] = k
        stack[0, 0] = nodes.roots[tree]
        stack[0, 1] = 0
        stack[0, 2] = n_rows
        top = 1
        while top > 0:
            top -= 1
            node = stack[top, 0]
            start = stack[top, 1]
            end = stack[top, 2]
            f = nodes.feature[node]
            cut = nodes.cut[node]
            if f < 0:
                for k in range(start, end):
                    sums[row[k]] += cut
                continue
            column = columns[np.uint32(f)]
            n_right = start
            n_left = end
            for k in range(start, end):
                i = row[k]
                goes_left = np.uint64(column[i] <= cut)
                row[n_left] = i
                row[n_right] = i
                n_left += goes_left
                n_right += one - goes_left
            if n_right > start:
                stack[top, 0] = nodes.right[node]
                stack[top, 1] = start
                stack[top, 2] = n_right
                top += 1
            if n_left > end:
                stack[top, 0] = node + one
                stack[top, 1] = end
                stack[top, 2] = n_left
                top += 1
