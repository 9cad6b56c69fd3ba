"""Where many directions cross: tree by tree over a block of parallel lines.

All lines of a block share one direction. At a node the lines that reach it are kept in an arena
as (line, upper end); the split partitions the arena without branches, a line whose interval
straddles the threshold going to both sides.

Which child of a split lies lower on the line is the same for all lines of the block. Visiting it
first, every line meets its leaves in the order of ``t``: its lower end is where its last leaf
ended, and with ``v_1, ..., v_K`` the values met and ``t_k`` the crossing between ``v_k`` and
``v_{k+1}``,

``E[f; a < t <= b] = v_K F(b) - sum_k (v_{k+1} - v_k) F(t_k) - v_1 F(a)``,

so that the law is evaluated once for every crossing. The ends ``a`` and ``b`` are those of the law,
or of a piece of the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._lines.trees.compiled import SOURCES, Kernel
from dfi._lines.trees.kernels_law import evaluate_coordinate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._lines.trees.kernels_law import CoordinateLaw
    from dfi._lines.trees.kernels_walk import Nodes
    from dfi._types import Floats


class Arena(NamedTuple):
    """Memory for a block of lines.

    ``line`` and ``upper`` are the arena; ``at``, ``left_value`` and ``last`` are where each line
    has come to, the value of the leaf that it has left, and the sum of its last leaves.
    """

    line: NDArray[np.uint32]
    upper: Floats
    at: Floats
    left_value: Floats
    last: Floats
    stack: NDArray[np.uint64]


def arena_for(n_lines: int, depth: int) -> Arena:
    """Return memory for so many lines and trees of this depth."""
    capacity = (depth + 2) * n_lines
    return Arena(
        np.empty(capacity, np.uint32),
        np.empty(capacity),
        np.empty(n_lines),
        np.empty(n_lines),
        np.empty(n_lines),
        np.empty((depth + 2, 3), np.uint64),
    )


@Kernel
def arena_moments(
    nodes: Nodes,
    columns: Floats,
    latent: Floats,
    steepness: Floats,
    law: CoordinateLaw,
    shifts: Floats,
    low: Floats,
    high: Floats,
    step: float,
    arena: Arena,
    mean: Floats,
    hermite: Floats,
    _sources: int = SOURCES,
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
    law : CoordinateLaw
        Reference law of the coordinate.
    shifts : ndarray of shape (q,)
        Offsets of the latent coordinate: the law is evaluated at ``t + shift``.
    low, high : ndarray of shape (n_lines,)
        The piece of each line to be averaged over; beyond the law's ends for a whole line.
    step : float
        From :func:`dfi._lines.trees.kernels_law.step_below`.
    arena : Arena
        Memory.
    mean, hermite : ndarray of shape (q, n_lines)
        Accumulators.
    """
    one = np.uint64(1)
    n_lines = np.uint64(latent.size)
    n_shifts = np.uint64(shifts.size)
    line = arena.line
    upper = arena.upper
    at = arena.at
    left_value = arena.left_value
    last = arena.last
    stack = arena.stack
    # Left of a split is closed: along a falling coordinate it is t >= b, which is t > b-.
    slack = law.below
    for k in range(n_lines):
        last[k] = 0.0
    for tree in range(nodes.roots.size):
        for k in range(n_lines):
            line[k] = k
            upper[k] = high[k]
            at[k] = low[k]
            left_value[k] = 0.0
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
                # Below the law both are 0, so the first leaf of a whole line adds nothing.
                for s in range(n_shifts):
                    shift = shifts[s]
                    is_last = s == n_shifts - one
                    for k in range(start, end):
                        i = line[k]
                        f_t, h_t = evaluate_coordinate(law, at[i] + shift)
                        jump = cut - left_value[i]
                        mean[s, i] -= jump * f_t
                        hermite[s, i] -= jump * h_t
                        if is_last:
                            left_value[i] = cut
                            at[i] = upper[k]
                continue
            # The higher side is compacted in place, the lower side written behind the segment.
            steep = steepness[np.uint32(f)]
            column = columns[np.uint32(f)]
            lower_child = node + one
            higher_child = np.uint64(nodes.right[node])
            n_higher = start
            n_lower = end
            if steep == 0.0:
                for k in range(start, end):
                    i = line[k]
                    b = upper[k]
                    goes_left = np.uint64(column[i] <= cut)
                    line[n_lower] = i
                    upper[n_lower] = b
                    line[n_higher] = i
                    upper[n_higher] = b
                    n_lower += goes_left
                    n_higher += one - goes_left
            elif steep > 0.0:
                for k in range(start, end):
                    i = line[k]
                    b = upper[k]
                    t = latent[i] + (cut - column[i]) * steep
                    line[n_lower] = i
                    upper[n_lower] = b if b < t else t
                    line[n_higher] = i
                    upper[n_higher] = b
                    n_lower += np.uint64(t > at[i])
                    n_higher += np.uint64(t < b)
            else:
                lower_child, higher_child = higher_child, lower_child
                for k in range(start, end):
                    i = line[k]
                    b = upper[k]
                    t = latent[i] + (cut - column[i]) * steep
                    t -= abs(t) * slack + step
                    line[n_lower] = i
                    upper[n_lower] = b if b < t else t
                    line[n_higher] = i
                    upper[n_higher] = b
                    n_lower += np.uint64(t > at[i])
                    n_higher += np.uint64(t < b)
            if n_higher > start:
                stack[top, 0] = higher_child
                stack[top, 1] = start
                stack[top, 2] = n_higher
                top += 1
            if n_lower > end:
                stack[top, 0] = lower_child
                stack[top, 1] = end
                stack[top, 2] = n_lower
                top += 1
        for k in range(n_lines):
            last[k] += left_value[k]
    for s in range(n_shifts):
        for k in range(n_lines):
            f_t, h_t = evaluate_coordinate(law, high[k] + shifts[s])
            mean[s, k] += last[k] * f_t
            hermite[s, k] += last[k] * h_t
