"""Where few directions cross: one row at a time, all its directions together.

In ``s = t - z_ij`` the crossing of a node is ``g / L_fj`` with ``g = c - x_if``, one number per
(row, node). The row's own path (``s = 0``) is walked once; only the directions with
``|L_fj| > |g| / (T + max_j |z_ij| + max |shift|)`` can leave it at a node, and these are a prefix
of the directions sorted by ``|L_fj|``. A direction that leaves walks the other side alone, in the
order of the line, so that the law is evaluated once at every crossing, for all shifts together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._lines.trees.compiled import SOURCES, Kernel
from dfi._lines.trees.kernels_law import evaluate_law

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._lines.trees.kernels_law import Law
    from dfi._lines.trees.kernels_walk import Nodes
    from dfi._types import Bools, Floats


class SortedDirections(NamedTuple):
    """Directions by feature, steepest first.

    ``order[f, k]`` is the direction with the ``k``-th largest ``|L_fj|``, ``steepness[f, k]`` its
    ``1 / L_fj``, ``reach[f, k]`` its ``|L_fj|``, ``crossing[f]`` how many are not zero, and
    ``by_direction[j, f]`` is ``1 / L_fj`` again (0 where ``L_fj`` counts as zero).
    """

    order: NDArray[np.uint32]
    steepness: Floats
    reach: Floats
    crossing: NDArray[np.int32]
    by_direction: Floats


class Detours(NamedTuple):
    """Memory for one row and all its directions.

    ``own`` and ``first`` hold the two ends of every direction's own interval, now and at the root;
    ``ends`` the law at the ends of the own interval (distribution and partial moment), ``moving``
    that of a detour under way.
    """

    own_low: Floats
    own_high: Floats
    first_low: Floats
    first_high: Floats
    ends: Floats
    moving: Floats
    touched: NDArray[np.uint64]
    is_touched: Bools
    stack_node: NDArray[np.uint64]
    stack_high: Floats


def detours_for(d: int, n_shifts: int, depth: int) -> Detours:
    """Return memory for so many directions and shifts and trees of this depth."""
    return Detours(
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty((d, 4, n_shifts)),
        np.empty((4, n_shifts)),
        np.empty(d, np.uint64),
        np.zeros(d, np.bool_),
        np.empty(depth + 2, np.uint64),
        np.empty(depth + 2),
    )


@Kernel
def path_moments(
    nodes: Nodes,
    directions: SortedDirections,
    law: Law,
    shifts: Floats,
    lows: Floats,
    highs: Floats,
    reach: float,
    step: float,
    points: Floats,
    latent: Floats,
    detours: Detours,
    mean: Floats,
    hermite: Floats,
    _sources: int = SOURCES,
) -> None:
    """Write line means and first Hermite moments of every direction through each row.

    Parameters
    ----------
    nodes : Nodes
        The trees.
    directions : SortedDirections
        The directions.
    law : Law
        Reference law.
    shifts : ndarray of shape (d, q)
        Offsets of the latent coordinates: the law is evaluated at ``t + shift``.
    lows, highs : ndarray of shape (d,)
        Intervals outside of which no shifted law has mass.
    reach : float
        Bound on ``|t|`` within those intervals.
    step : float
        From :func:`dfi._lines.trees.kernels_law.step_below`.
    points : ndarray of shape (n, p)
        The rows.
    latent : ndarray of shape (n, d)
        Their latent coordinates.
    detours : Detours
        Memory.
    mean, hermite : ndarray of shape (n, d, q)
        Results.
    """
    one = np.uint64(1)
    n, d = latent.shape
    n_shifts = np.uint64(shifts.shape[1])
    slack = law.below
    own_low = detours.own_low
    own_high = detours.own_high
    first_low = detours.first_low
    first_high = detours.first_high
    ends = detours.ends
    moving = detours.moving
    touched = detours.touched
    is_touched = detours.is_touched
    stack_node = detours.stack_node
    stack_high = detours.stack_high
    for i in range(np.uint64(n)):
        x = points[i]
        z = latent[i]
        window = reach
        for coordinate in range(d):
            here_z = z[coordinate]
            window = max(window, reach + abs(here_z))
            # s = 0 must lie inside, even where z is beyond the law's own support.
            first_low[coordinate] = min(lows[coordinate], here_z - 1e-9 * (1.0 + abs(here_z)))
            first_high[coordinate] = max(highs[coordinate], here_z)
            own_low[coordinate] = first_low[coordinate]
            own_high[coordinate] = first_high[coordinate]
            for s in range(n_shifts):
                mean[i, coordinate, s] = 0.0
                hermite[i, coordinate, s] = 0.0
                ends[coordinate, 0, s] = 0.0
                ends[coordinate, 1, s] = 0.0
                ends[coordinate, 2, s] = 1.0
                ends[coordinate, 3, s] = law.total[coordinate]
        base = 0.0
        for tree in range(nodes.roots.size):
            n_touched = 0
            node = np.uint64(nodes.roots[tree])
            f = nodes.feature[node]
            while f >= 0:
                gap = nodes.cut[node] - x[np.uint32(f)]
                goes_left = gap >= 0.0
                right = np.uint64(nodes.right[node])
                own = node + one if goes_left else right
                other = right if goes_left else node + one
                order = directions.order[np.uint32(f)]
                steepness = directions.steepness[np.uint32(f)]
                slopes = directions.reach[np.uint32(f)]
                bound = abs(gap) / window
                for k in range(np.uint64(directions.crossing[np.uint32(f)])):
                    if slopes[k] <= bound:
                        break
                    j = np.uint64(order[k])
                    steep = steepness[k]
                    t = z[j] + gap * steep
                    if steep < 0.0:
                        t -= abs(t) * slack + step
                    upwards = goes_left == (steep > 0.0)
                    if upwards:
                        if t >= own_high[j]:
                            continue
                    elif t <= own_low[j]:
                        continue
                    if not is_touched[j]:
                        is_touched[j] = True
                        touched[n_touched] = j
                        n_touched += 1
                    # moving[0:2]: the law where the detour stands; moving[2:4]: where it ends.
                    for s in range(n_shifts):
                        f_t, h_t = evaluate_law(law, j, t + shifts[j, s])
                        if upwards:
                            moving[0, s] = f_t
                            moving[1, s] = h_t
                            moving[2, s] = ends[j, 2, s]
                            moving[3, s] = ends[j, 3, s]
                            ends[j, 2, s] = f_t
                            ends[j, 3, s] = h_t
                        else:
                            moving[0, s] = ends[j, 0, s]
                            moving[1, s] = ends[j, 1, s]
                            moving[2, s] = f_t
                            moving[3, s] = h_t
                            ends[j, 0, s] = f_t
                            ends[j, 1, s] = h_t
                    if upwards:
                        at = t
                        final = own_high[j]
                        own_high[j] = t
                    else:
                        at = own_low[j]
                        final = t
                        own_low[j] = t
                    # Walk the other side along (at, final], low parts first.
                    column = directions.by_direction[j]
                    stack_node[0] = other
                    stack_high[0] = final
                    top = 1
                    while top > 0:
                        top -= 1
                        here = stack_node[top]
                        high = stack_high[top]
                        split = nodes.feature[here]
                        while split >= 0:
                            gap_here = nodes.cut[here] - x[np.uint32(split)]
                            steep_here = column[np.uint32(split)]
                            right = np.uint64(nodes.right[here])
                            if steep_here == 0.0:
                                here = here + one if gap_here >= 0.0 else right
                            else:
                                b = z[j] + gap_here * steep_here
                                if steep_here > 0.0:
                                    first = here + one
                                    second = right
                                else:
                                    b -= abs(b) * slack + step
                                    first = right
                                    second = here + one
                                if b >= high:
                                    here = first
                                elif b <= at:
                                    here = second
                                else:
                                    stack_node[top] = second
                                    stack_high[top] = high
                                    top += 1
                                    here = first
                                    high = b
                            split = nodes.feature[here]
                        value = nodes.cut[here]
                        if top == 0:
                            for s in range(n_shifts):
                                mean[i, j, s] += value * (moving[2, s] - moving[0, s])
                                hermite[i, j, s] += value * (moving[3, s] - moving[1, s])
                        else:
                            for s in range(n_shifts):
                                f_t, h_t = evaluate_law(law, j, high + shifts[j, s])
                                mean[i, j, s] += value * (f_t - moving[0, s])
                                hermite[i, j, s] += value * (h_t - moving[1, s])
                                moving[0, s] = f_t
                                moving[1, s] = h_t
                        at = high
                node = own
                f = nodes.feature[node]
            value = nodes.cut[node]
            base += value
            # Only what differs from the row's own leaf is added per direction.
            for k in range(n_touched):
                j = touched[k]
                is_touched[j] = False
                own_low[j] = first_low[j]
                own_high[j] = first_high[j]
                total = law.total[j]
                for s in range(n_shifts):
                    mean[i, j, s] += value * (ends[j, 2, s] - ends[j, 0, s] - 1.0)
                    hermite[i, j, s] += value * (ends[j, 3, s] - ends[j, 1, s] - total)
                    ends[j, 0, s] = 0.0
                    ends[j, 1, s] = 0.0
                    ends[j, 2, s] = 1.0
                    ends[j, 3, s] = total
        for coordinate in range(d):
            for s in range(n_shifts):
                mean[i, coordinate, s] += base
                hermite[i, coordinate, s] += base * law.total[coordinate]
