"""Few features: tree by tree over a block of parallel lines.

All lines of a block share one direction. At a node the lines that reach it are kept in an arena
as (line, lower end, upper end); the split partitions the arena without branches, a line whose
interval straddles the threshold going to both sides. The lines at a leaf add its value times
the probability of their intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from dfi.lines.trees.kernels_law import evaluate_law

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi.lines.trees.kernels_law import Law
    from dfi.lines.trees.kernels_walk import Nodes

    Floats = NDArray[np.float64]


@njit(nogil=True, cache=True)
def arena_moments(
    nodes: Nodes,
    columns: Floats,
    latent: Floats,
    steepness: Floats,
    law: Law,
    j: int,
    shifts: Floats,
    low: float,
    high: float,
    mean: Floats,
    hermite: Floats,
) -> None:
    """Add line means and first Hermite moments of a block of lines along one direction.

    Parameters
    ----------
    nodes : Nodes
        The trees.
    columns : ndarray of shape (p, n_lines)
        The rows, transposed.
    latent : ndarray of shape (n_lines,)
        Latent coordinate of each row along this direction.
    steepness : ndarray of shape (p,)
        ``1 / L_fj``, or 0 where ``L_fj`` counts as zero.
    law : Law
        Reference law; coordinate ``j`` of it is used.
    shifts : ndarray of shape (q,)
        Offsets of the latent coordinate: the law is evaluated at ``t + shift``.
    low, high : float
        Interval outside of which no shifted law has mass.
    mean, hermite : ndarray of shape (q, n_lines)
        Accumulators.
    """
    one = np.uint64(1)
    n_lines = np.uint64(latent.size)
    n_shifts = np.uint64(shifts.size)
    capacity = (nodes.depth + 2) * latent.size
    line = np.empty(capacity, np.uint32)
    lower = np.empty(capacity, np.float64)
    upper = np.empty(capacity, np.float64)
    stack = np.empty((nodes.depth + 2, 3), np.uint64)
    # Left of a split is closed: along a falling coordinate it is t >= b, which is t > b-.
    slack = law.below
    # Adding the largest shift rounds: the step must survive it.
    step = slack * (1e-284 + 2.1 * np.abs(shifts).max())
    for tree in range(nodes.roots.size):
        for k in range(n_lines):
            line[k] = k
            lower[k] = low
            upper[k] = high
        stack[0, 0] = nodes.roots[tree]
        stack[0, 1] = 0
        stack[0, 2] = n_lines
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
                    i = line[k]
                    for s in range(n_shifts):
                        f_low, h_low = evaluate_law(law, j, lower[k] + shifts[s])
                        f_high, h_high = evaluate_law(law, j, upper[k] + shifts[s])
                        mean[s, i] += cut * (f_high - f_low)
                        hermite[s, i] += cut * (h_high - h_low)
                continue
            # The right side is compacted in place, the left side written behind the segment.
            steep = steepness[f]
            column = columns[f]
            n_right = start
            n_left = end
            if steep == 0.0:
                for k in range(start, end):
                    i = line[k]
                    a = lower[k]
                    b = upper[k]
                    goes_left = np.uint64(column[i] <= cut)
                    line[n_left] = i
                    lower[n_left] = a
                    upper[n_left] = b
                    line[n_right] = i
                    lower[n_right] = a
                    upper[n_right] = b
                    n_left += goes_left
                    n_right += one - goes_left
            elif steep > 0.0:
                for k in range(start, end):
                    i = line[k]
                    a = lower[k]
                    b = upper[k]
                    t = latent[i] + (cut - column[i]) * steep
                    line[n_left] = i
                    lower[n_left] = a
                    upper[n_left] = b if b < t else t
                    line[n_right] = i
                    lower[n_right] = a if a > t else t
                    upper[n_right] = b
                    n_left += np.uint64(t > a)
                    n_right += np.uint64(t < b)
            else:
                for k in range(start, end):
                    i = line[k]
                    a = lower[k]
                    b = upper[k]
                    t = latent[i] + (cut - column[i]) * steep
                    t -= abs(t) * slack + step
                    line[n_left] = i
                    lower[n_left] = a if a > t else t
                    upper[n_left] = b
                    line[n_right] = i
                    lower[n_right] = a
                    upper[n_right] = b if b < t else t
                    n_left += np.uint64(t < b)
                    n_right += np.uint64(t > a)
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
