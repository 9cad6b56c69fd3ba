"""Kernels that walk one row or one line at a time.

**Means where few directions cross** (:func:`path_moments`): a row and all its directions together.
In ``s = t - z_ij`` the crossing of a node is ``g / L_fj`` with ``g = c - x_if``, one number per
(row, node). The row's own path (``s = 0``) is walked once; only the directions with
``|L_fj| > |g| / (T + max_j |z_ij| + max |shift|)`` can leave it at a node, and these are a prefix
of the directions sorted by ``|L_fj|``. A direction that leaves walks the other side alone, in the
order of the line, so the law is evaluated once at every crossing, for all shifts together.

**Second moments and nonlinear links** (:func:`merged_moments`): each tree leaves its jumps along
the line (place, change of value; :func:`dfi._lines.trees.kernels_blocks.collect_jumps`). Sorted
together, they make the whole ensemble a step function, of which any function has an exact mean.

**Probabilities of K classes** (:func:`softmax_moments`): the jumps of the trees of all classes are
merged. On each piece ``p_k = e_k / S`` with ``e_k = exp(s_k)`` and ``S`` their sum. Along the line
``C(t) = int dF / S``, and likewise with ``dH`` and ``dF / S^2``; only one class's ``e_k`` changes
at a jump, so that class is credited ``e_k (C - C at its last jump)`` there: one step a jump for
all classes together, however many there are.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._compiled import SOURCES, Kernel, inlined
from dfi._lines.trees.law import CoordinateLaw, Law, evaluate_coordinate, evaluate_law

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._lines.trees.kernels_blocks import Jumps, Nodes
    from dfi._types import Bools, Floats

LOGISTIC, EXPONENTIAL = 1, 2

HIGHEST = 2.0
"""How far a class's margin rises above the largest one, before that is taken anew."""

LOWEST = 0.1
"""Sum of exponentials, of 1 for the largest margin, below which that is taken anew.

Between the two, ``1 / S`` keeps within a factor of a hundred: what its integral up to an earlier
jump loses to rounding stays below 1e-14 of what is added after.
"""

JUMPS_PER_SUM = 64
"""Jumps after which the sum of exponentials, kept up by differences, is added up anew."""


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
    """Memory for one row and all its directions."""

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
    own_low, own_high, first_low, first_high = np.empty((4, d))
    return Detours(
        own_low,
        own_high,
        first_low,
        first_high,
        np.empty((d, 4, n_shifts)),
        np.empty((4, n_shifts)),
        np.empty(d, np.uint64),
        np.zeros(d, np.bool_),
        *stack_for(depth),
    )


def stack_for(depth: int) -> tuple[NDArray[np.uint64], Floats]:
    """Return room for the nodes to visit in a tree of this depth, and the ends of their pieces."""
    return np.empty(depth + 2, np.uint64), np.empty(depth + 2)


@inlined
def next_leaf(
    nodes: Nodes,
    x: Floats,
    z: float,
    steepness: Floats,
    slack: float,
    step: float,
    at: float,
    stack_node: NDArray[np.uint64],
    stack_high: Floats,
    top: int,
) -> tuple[np.uint64, float, int]:
    """Follow the piece of a line on top of the stack to the leaf where it begins, at ``at``.

    Returns the leaf, where the line leaves it, and the height of the stack, onto which the other
    parts of the piece are put: the lowest of them is on top, so leaves come in the order of
    the line.
    """
    one = np.uint64(1)
    top -= 1
    here = stack_node[top]
    end = stack_high[top]
    f = nodes.feature[here]
    while f >= 0:
        if f < x.size:
            gap = nodes.cut[here] - x[np.uint32(f)]
            steep = steepness[np.uint32(f)]
        else:
            level = np.uint32(x[nodes.source[np.uint32(f - x.size)]])
            gap = nodes.cut[here] - nodes.seen[np.uint32(f - x.size), level]
            steep = 0.0
        right = np.uint64(nodes.right[here])
        if steep == 0.0:
            here = here + one if gap >= 0.0 else right
        else:
            t = z + gap * steep
            if steep > 0.0:
                first, second = here + one, right
            else:
                # Left of a split is closed: along a falling coordinate it is t >= b, which is
                # t > b-, the number below.
                t -= abs(t) * slack + step
                first, second = right, here + one
            if t >= end:
                here = first
            elif t <= at:
                here = second
            else:
                stack_node[top] = second
                stack_high[top] = end
                top += 1
                here = first
                end = t
        f = nodes.feature[here]
    return here, end, top


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

    Parameters are those of :func:`dfi._lines.trees.kernels_blocks.arena_moments` for all directions
    at once: ``shifts`` of shape (d, q), ``points`` (n, p), ``latent`` (n, d), ``mean`` and
    ``hermite`` (n, d, q), and the intervals ``lows`` to ``highs`` (d,) outside of which no shifted
    law has mass; ``reach`` bounds ``|t|`` within these.
    """
    one = np.uint64(1)
    n, d = latent.shape
    n_shifts = np.uint64(shifts.shape[1])
    slack = law.below
    own_low, own_high, first_low, first_high = detours[:4]
    ends, moving, touched, is_touched, stack_node, stack_high = detours[4:]
    for i in range(np.uint64(n)):
        x = points[i]
        z = latent[i]
        # No crossing farther than this from the row lies where any direction's law has mass.
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
                mean[i, coordinate, s], hermite[i, coordinate, s] = 0.0, 0.0
                ends[coordinate, 0, s], ends[coordinate, 1, s] = 0.0, 0.0
                ends[coordinate, 2, s], ends[coordinate, 3, s] = 1.0, law.total[coordinate]
        base = 0.0
        for tree in range(nodes.roots.size):
            # Most directions never leave the row's own path: what is reset after a tree, and added
            # beyond the row's own leaf, is remembered for those that do.
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
                    # Steepest first: nobody after this one reaches the threshold.
                    if slopes[k] <= bound:
                        break
                    j = np.uint64(order[k])
                    steep = steepness[k]
                    t = z[j] + gap * steep
                    if steep < 0.0:
                        t -= abs(t) * slack + step
                    # The other side begins at t and lies above it, or ends there and lies below.
                    # Beyond the direction's own interval a split higher up has decided already.
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
                    # The own interval is cut at t, and what is cut off is the detour. The law at
                    # its ends is known but for t: moving[0:2] where it stands, [2:4] where it ends.
                    for s in range(n_shifts):
                        f_t, h_t = evaluate_law(law, j, t + shifts[j, s])
                        if upwards:
                            moving[0, s], moving[1, s] = f_t, h_t
                            moving[2, s], moving[3, s] = ends[j, 2, s], ends[j, 3, s]
                            ends[j, 2, s], ends[j, 3, s] = f_t, h_t
                        else:
                            moving[0, s], moving[1, s] = ends[j, 0, s], ends[j, 1, s]
                            moving[2, s], moving[3, s] = f_t, h_t
                            ends[j, 0, s], ends[j, 1, s] = f_t, h_t
                    if upwards:
                        at, final = t, own_high[j]
                        own_high[j] = t
                    else:
                        at, final = own_low[j], t
                        own_low[j] = t
                    # Walk the other side along (at, final].
                    column = directions.by_direction[j]
                    stack_node[0] = other
                    stack_high[0] = final
                    top = 1
                    while top > 0:
                        leaf, high, top = next_leaf(
                            nodes, x, z[j], column, slack, step, at, stack_node, stack_high, top
                        )
                        value = nodes.cut[leaf]
                        # The last piece ends where the detour does.
                        if top == 0:
                            for s in range(n_shifts):
                                mean[i, j, s] += value * (moving[2, s] - moving[0, s])
                                hermite[i, j, s] += value * (moving[3, s] - moving[1, s])
                        else:
                            for s in range(n_shifts):
                                f_t, h_t = evaluate_law(law, j, high + shifts[j, s])
                                mean[i, j, s] += value * (f_t - moving[0, s])
                                hermite[i, j, s] += value * (h_t - moving[1, s])
                                moving[0, s], moving[1, s] = f_t, h_t
                        at = high
                node = own
                f = nodes.feature[node]
            value = nodes.cut[node]
            # All directions get the row's own leaf at the end, as if their lines never left it;
            # here those that did lose it outside of what is left of their own interval.
            base += value
            for k in range(n_touched):
                j = touched[k]
                is_touched[j] = False
                own_low[j] = first_low[j]
                own_high[j] = first_high[j]
                total = law.total[j]
                for s in range(n_shifts):
                    mean[i, j, s] += value * (ends[j, 2, s] - ends[j, 0, s] - 1.0)
                    hermite[i, j, s] += value * (ends[j, 3, s] - ends[j, 1, s] - total)
                    ends[j, 0, s], ends[j, 1, s] = 0.0, 0.0
                    ends[j, 2, s], ends[j, 3, s] = 1.0, total
        for coordinate in range(d):
            for s in range(n_shifts):
                mean[i, coordinate, s] += base
                hermite[i, coordinate, s] += base * law.total[coordinate]


CELLS_PER_JUMP = 2
"""Cells that jumps are sorted into, for each of them: few cells then hold more than one."""


class Sorting(NamedTuple):
    """Memory for sorting the jumps of one line."""

    place: Floats
    change: Floats
    counts: NDArray[np.uint32]


def sorting_for(capacity: int) -> Sorting:
    counts = np.empty(CELLS_PER_JUMP * capacity + 2, np.uint32)
    return Sorting(np.empty(capacity), np.empty(capacity), counts)


@inlined
def apply_link(link: int, margin: float) -> float:
    if link == LOGISTIC:
        if margin >= 0.0:
            return 1.0 / (1.0 + exp(-margin))
        odds = exp(margin)
        return odds / (1.0 + odds)
    if link == EXPONENTIAL:
        return exp(margin)
    return margin


@inlined
def sort_jumps(place: Floats, change: Floats, n: np.int64, sorting: Sorting) -> None:
    """Sort jumps by place: into equal cells first, then by insertion, which moves little."""
    other, other_change, counts = sorting
    low = high = place[0]
    for k in range(n):
        low = min(low, place[k])
        high = max(high, place[k])
    n_cells = CELLS_PER_JUMP * n
    scale = (n_cells - 0.5) / (high - low) if high > low else 0.0
    one = np.uint64(1)
    for k in range(n_cells + 1):
        counts[k] = 0
    for k in range(n):
        counts[np.uint64(np.int64((place[k] - low) * scale)) + one] += 1
    for k in range(n_cells):
        counts[k + 1] += counts[k]
    for k in range(n):
        cell = np.uint64(np.int64((place[k] - low) * scale))
        where = np.uint64(counts[cell])
        counts[cell] = where + one
        other[where] = place[k]
        other_change[where] = change[k]
    for k in range(n):
        t = other[k]
        v = other_change[k]
        m = k
        while m > 0 and place[m - 1] > t:
            place[m] = place[m - 1]
            change[m] = change[m - 1]
            m -= 1
        place[m] = t
        change[m] = v


@Kernel
def merged_moments(
    jumps: Jumps,
    first: Floats,
    link: int,
    law: CoordinateLaw,
    shifts: Floats,
    low: Floats,
    high: Floats,
    sorting: Sorting,
    mean: Floats,
    hermite: Floats,
    _sources: int = SOURCES,
) -> None:
    """Write mean and first Hermite moment of ``link(sum)`` along lines of one direction."""
    n_shifts = shifts.size
    values = sorting.place
    for i in range(np.uint64(first.size)):
        place, change = jumps.place[i], jumps.change[i]
        n = np.int64(jumps.n_jumps[i])
        sort_jumps(place, change, n, sorting)
        # What is sorted leaves its memory to the value of the model on each piece but the last.
        margin = first[i]
        last = apply_link(link, margin)
        for k in range(n):
            values[k] = last
            margin += change[k]
            last = apply_link(link, margin)
        for s in range(n_shifts):
            f_at, h_at = evaluate_coordinate(law, low[i] + shifts[s])
            f_end, h_end = evaluate_coordinate(law, high[i] + shifts[s])
            first_moment = 0.0
            hermite_moment = 0.0
            for k in range(n):
                f_t, h_t = evaluate_coordinate(law, place[k] + shifts[s])
                value = values[k]
                first_moment += value * (f_t - f_at)
                hermite_moment += value * (h_t - h_at)
                f_at = f_t
                h_at = h_t
            mean[s, i] = first_moment + last * (f_end - f_at)
            hermite[s, i] = hermite_moment + last * (h_end - h_at)


class ClassSums(NamedTuple):
    """Memory for the classes along one line.

    ``change`` (capacity,) are the jumps in the order of the trees; ``margin`` and ``odds`` (K,) the
    classes' sums and their exponentials; ``done`` (K, 2, q) both integrals at each class's
    last jump, ``now`` (2, q) where the line stands.
    """

    change: Floats
    margin: Floats
    odds: Floats
    done: Floats
    now: Floats


def class_sums_for(n_classes: int, n_shifts: int, capacity: int) -> ClassSums:
    return ClassSums(
        np.empty(capacity),
        np.empty(n_classes),
        np.empty(n_classes),
        np.empty((n_classes, 2, n_shifts)),
        np.empty((2, n_shifts)),
    )


@inlined
def credit(
    k: int | np.uint64, i: int, sums: ClassSums, n_shifts: int, mean: Floats, hermite: Floats
) -> None:
    """Add to class ``k`` its integral since its last jump, over which its margin was constant."""
    odds, done, now = sums.odds[k], sums.done, sums.now
    for s in range(n_shifts):
        mean[k, s, i] += odds * (now[0, s] - done[k, 0, s])
        hermite[k, s, i] += odds * (now[1, s] - done[k, 1, s])
        done[k, 0, s], done[k, 1, s] = now[0, s], now[1, s]


@inlined
def largest_anew(sums: ClassSums, n_shifts: int) -> tuple[float, float]:
    """Take exponentials relative to the largest margin, integrals from here; return it and S."""
    margin, odds, done, now = sums.margin, sums.odds, sums.done, sums.now
    largest = margin[0]
    for k in range(1, margin.size):
        largest = max(largest, margin[k])
    total = 0.0
    for k in range(margin.size):
        odds[k] = exp(margin[k] - largest)
        total += odds[k]
        for s in range(n_shifts):
            done[k, 0, s], done[k, 1, s] = 0.0, 0.0
    for s in range(n_shifts):
        now[0, s], now[1, s] = 0.0, 0.0
    return largest, total


@Kernel
def softmax_moments(
    jumps: Jumps,
    first: Floats,
    law: CoordinateLaw,
    shifts: Floats,
    low: Floats,
    high: Floats,
    sorting: Sorting,
    sums: ClassSums,
    ends: Floats,
    mean: Floats,
    hermite: Floats,
    _sources: int = SOURCES,
) -> None:
    """Write both moments of the probability of every class along lines of one direction.

    Parameters are those of :func:`merged_moments`, with ``first`` (K, n_lines) for each class.
    ``mean`` and ``hermite`` are (K, q, n_lines); ``ends`` (2, q) is memory for the law
    where the line stands.
    """
    n_shifts = shifts.size
    n_classes = len(first)
    change, margin, odds, _, now = sums
    for i in range(np.uint64(low.size)):
        for k in range(n_classes):
            margin[k] = first[k, i]
            for s in range(n_shifts):
                mean[k, s, i], hermite[k, s, i] = 0.0, 0.0
        place, number, owner = jumps.place[i], jumps.change[i], jumps.owner[i]
        n = np.int64(jumps.n_jumps[i])
        # Jumps are sorted with their numbers, by which their classes are found as well.
        for m in range(n):
            change[m] = number[m]
            number[m] = m
        sort_jumps(place, number, n, sorting)
        for s in range(n_shifts):
            ends[0, s], ends[1, s] = evaluate_coordinate(law, low[i] + shifts[s])
        largest, total = largest_anew(sums, n_shifts)
        until_sum = JUMPS_PER_SUM
        for m in range(n):
            share = 1.0 / total
            for s in range(n_shifts):
                f_t, h_t = evaluate_coordinate(law, place[m] + shifts[s])
                now[0, s] += share * (f_t - ends[0, s])
                now[1, s] += share * (h_t - ends[1, s])
                ends[0, s], ends[1, s] = f_t, h_t
            jump = np.uint64(np.int64(number[m]))
            own = np.uint64(owner[jump])
            credit(own, i, sums, n_shifts, mean, hermite)
            margin[own] += change[jump]
            if margin[own] - largest < HIGHEST:
                before = odds[own]
                odds[own] = exp(margin[own] - largest)
                total += odds[own] - before
                until_sum -= 1
                if until_sum == 0:
                    until_sum = JUMPS_PER_SUM
                    total = 0.0
                    for other in range(n_classes):
                        total += odds[other]
                if total > LOWEST:
                    continue
                # What was credited above stands at this jump: the new exponential owes nothing.
            for other in range(n_classes):
                if other != own:
                    credit(other, i, sums, n_shifts, mean, hermite)
            largest, total = largest_anew(sums, n_shifts)
            until_sum = JUMPS_PER_SUM
        share = 1.0 / total
        for s in range(n_shifts):
            f_end, h_end = evaluate_coordinate(law, high[i] + shifts[s])
            now[0, s] += share * (f_end - ends[0, s])
            now[1, s] += share * (h_end - ends[1, s])
        for k in range(n_classes):
            credit(k, i, sums, n_shifts, mean, hermite)
