"""Second moments and nonlinear links: all breakpoints of the ensemble on a line, merged.

Each tree is walked in the order of the line and leaves its jumps (place, change of value). Sorted
together, they make the whole ensemble a step function, of which any function has an exact mean.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._lines.trees.compiled import SOURCES, Kernel, inlined
from dfi._lines.trees.kernels_law import evaluate_coordinate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._lines.trees.kernels_law import CoordinateLaw
    from dfi._lines.trees.kernels_walk import Nodes
    from dfi._types import Floats

IDENTITY, LOGISTIC, EXPONENTIAL = 0, 1, 2


class Jumps(NamedTuple):
    """Memory for the jumps along one line, twice, and for sorting them; the nodes to visit."""

    place: Floats
    jump: Floats
    other: Floats
    other_jump: Floats
    counts: NDArray[np.int64]
    stack_node: NDArray[np.uint64]
    stack_high: Floats


def jumps_for(capacity: int, depth: int) -> Jumps:
    """Return memory for so many jumps and trees of this depth."""
    return Jumps(
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity + 1, np.int64),
        np.empty(depth + 2, np.uint64),
        np.empty(depth + 2),
    )


@inlined
def apply_link(link: int, margin: float) -> float:
    """Return the model's value for a sum of leaf values."""
    if link == LOGISTIC:
        if margin >= 0.0:
            return 1.0 / (1.0 + exp(-margin))
        odds = exp(margin)
        return odds / (1.0 + odds)
    if link == EXPONENTIAL:
        return exp(margin)
    return margin


@inlined
def sort_jumps(jumps: Jumps, n: int, low: float, high: float) -> None:
    """Sort jumps by place: into equal cells first, then by insertion, which moves little."""
    place, jump, counts = jumps.place, jumps.jump, jumps.counts
    other, other_jump = jumps.other, jumps.other_jump
    n_cells = max(n, 1)
    scale = n_cells / (high - low)
    for cell in range(n_cells + 1):
        counts[cell] = 0
    for k in range(n):
        cell = min(max(int((place[k] - low) * scale), 0), n_cells - 1)
        counts[cell + 1] += 1
    for cell in range(n_cells):
        counts[cell + 1] += counts[cell]
    for k in range(n):
        cell = min(max(int((place[k] - low) * scale), 0), n_cells - 1)
        other[counts[cell]] = place[k]
        other_jump[counts[cell]] = jump[k]
        counts[cell] += 1
    for k in range(n):
        t = other[k]
        v = other_jump[k]
        m = k
        while m > 0 and place[m - 1] > t:
            place[m] = place[m - 1]
            jump[m] = jump[m - 1]
            m -= 1
        place[m] = t
        jump[m] = v


@Kernel
def merged_moments(
    nodes: Nodes,
    intercept: float,
    link: int,
    points: Floats,
    latent: Floats,
    steepness: Floats,
    law: CoordinateLaw,
    shifts: Floats,
    low: Floats,
    high: Floats,
    step: float,
    jumps: Jumps,
    done: NDArray[np.int64],
    mean: Floats,
    hermite: Floats,
    square: Floats,
    _sources: int = SOURCES,
) -> None:
    """Write mean, first Hermite and second moment of ``link(sum)`` along lines of one direction.

    Parameters are those of :func:`dfi._lines.trees.kernels_arena.arena_moments`, with rows instead
    of columns, the intercept and the link. ``done`` holds the number of lines done; the kernel ends
    early where ``jumps`` has no room for those of the next line.
    """
    one = np.uint64(1)
    n_shifts = shifts.size
    slack = law.below
    place = jumps.place
    jump = jumps.jump
    other = jumps.other
    stack_node = jumps.stack_node
    stack_high = jumps.stack_high
    for i in range(done[0], latent.size):
        x = points[i]
        z = latent[i]
        margin = intercept
        n = 0
        for tree in range(nodes.roots.size):
            at = low[i]
            previous = 0.0
            is_first = True
            stack_node[0] = nodes.roots[tree]
            stack_high[0] = high[i]
            top = 1
            while top > 0:
                top -= 1
                here = stack_node[top]
                end = stack_high[top]
                f = nodes.feature[here]
                while f >= 0:
                    gap = nodes.cut[here] - x[np.uint32(f)]
                    steep = steepness[np.uint32(f)]
                    right = np.uint64(nodes.right[here])
                    if steep == 0.0:
                        here = here + one if gap >= 0.0 else right
                    else:
                        b = z + gap * steep
                        if steep > 0.0:
                            first = here + one
                            second = right
                        else:
                            b -= abs(b) * slack + step
                            first = right
                            second = here + one
                        if b >= end:
                            here = first
                        elif b <= at:
                            here = second
                        else:
                            stack_node[top] = second
                            stack_high[top] = end
                            top += 1
                            here = first
                            end = b
                    f = nodes.feature[here]
                value = nodes.cut[here]
                if is_first:
                    margin += value
                    is_first = False
                elif value != previous:
                    if n == place.size:
                        return
                    place[n] = at
                    jump[n] = value - previous
                    n += 1
                previous = value
                at = end
        sort_jumps(jumps, n, low[i], high[i])
        # other: the value of the model on each piece.
        other[0] = apply_link(link, margin)
        if n >= 1:
            last = 0.0
            for k in range(n):
                margin += jump[k]
                value = apply_link(link, margin)
                if k + 1 < n:
                    other[k + 1] = value
                else:
                    last = value
        else:
            last = other[0]
        for s in range(n_shifts):
            f_at, h_at = evaluate_coordinate(law, low[i] + shifts[s])
            f_end, h_end = evaluate_coordinate(law, high[i] + shifts[s])
            first_moment = 0.0
            hermite_moment = 0.0
            second_moment = 0.0
            for k in range(n):
                f_t, h_t = evaluate_coordinate(law, place[k] + shifts[s])
                value = other[k]
                first_moment += value * (f_t - f_at)
                second_moment += value * value * (f_t - f_at)
                hermite_moment += value * (h_t - h_at)
                f_at = f_t
                h_at = h_t
            mean[s, i] = first_moment + last * (f_end - f_at)
            square[s, i] = second_moment + last * last * (f_end - f_at)
            hermite[s, i] = hermite_moment + last * (h_end - h_at)
        done[0] = i + 1
