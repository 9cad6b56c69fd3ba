"""Trees in preorder, and kernels that walk down them with a whole block at a time.

**Rows** that reach a node are partitioned by its split without branches.

**Parallel lines**, where many directions cross: all lines of a block share one direction. At a node
the lines that reach it are kept in an arena as (line, upper end); the split partitions the arena
without branches, a line whose interval straddles the threshold going to both sides. Which child of
a split lies lower on the line is the same for all lines of the block. Visiting it first, every line
meets its leaves in the order of ``t``: its lower end is where its last leaf ended, and with
``v_1, ..., v_K`` the values met and ``t_k`` the crossing between ``v_k`` and ``v_{k+1}``,

``E[f; a < t <= b] = v_K F(b) - sum_k (v_{k+1} - v_k) F(t_k) - v_1 F(a)``,

so that the law is evaluated once for every crossing. The ends ``a`` and ``b`` are those of the law,
or of a piece of the line. Where most lines stay in the leaf of their own row, these are told apart
by one walk of the row's path for many directions (:func:`find_leaving`). What is no sum (a link)
needs the values of all trees at once: then the crossings of each line are collected
(:func:`collect_jumps`), and merged line by line (:mod:`dfi._lines.trees.kernels_lines`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._compiled import SOURCES, Kernel, inlined, kernel_array
from dfi._lines.trees.law import CoordinateLaw, evaluate_coordinate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfi._lines.trees.ensemble import Category, Integers, TreeEnsemble
    from dfi._types import Floats


class Nodes(NamedTuple):
    """Trees in preorder: the left child of node ``k`` is ``k + 1``.

    ``cut`` holds the threshold of a split and the value of a leaf (``feature < 0``), so a
    visit touches 16 bytes. A feature ``f`` beyond the ``w`` columns of the rows is decided by a
    level: it is ``seen[f - w, k]`` where column ``source[f - w]`` is ``k``.
    """

    feature: Integers
    right: NDArray[np.uint32]
    cut: Floats
    roots: NDArray[np.uint32]
    depth: int
    source: NDArray[np.uint32]
    seen: Floats


def lay_out(ensemble: TreeEnsemble, categories: Sequence[Category] = (), width: int = 0) -> Nodes:
    """Return the trees in preorder; levels of categories come after ``width`` columns of a row."""
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
    feature = feature[:filled]
    source, seen, number = _places(ensemble.n_features, categories, width)
    if categories:
        feature = np.where(feature >= 0, number[feature], np.int32(-1))
    # Infinite thresholds would make 0 * inf below; no row comes near these bounds.
    cut = np.clip(cut[:filled], -1e50, 1e50)
    return Nodes(feature, right[:filled], cut, roots, depth, source, seen)


def _places(
    n_features: int, categories: Sequence[Category], width: int
) -> tuple[NDArray[np.uint32], Floats, Integers]:
    """Return what :class:`Nodes` needs to look levels up, and the new number of each feature."""
    number = np.arange(n_features, dtype=np.int32)
    physical = width + len(categories)
    for category in categories:
        if category.source is not None:
            number[category.columns] = physical + np.arange(len(category.columns))
            physical += len(category.columns)
    looked_up = [(k, each) for k, each in enumerate(categories) if each.source is None]
    n_levels = max((len(category.values) for _, category in looked_up), default=0)
    seen = np.zeros((sum(len(category.columns) for _, category in looked_up), n_levels))
    source = np.empty(len(seen), np.uint32)
    first = 0
    for k, category in looked_up:
        own = slice(first, first + len(category.columns))
        seen[own, : len(category.values)] = category.values.T
        source[own] = width + k
        number[category.columns] = physical + np.arange(own.start, own.stop)
        first = own.stop
    return source, seen, number


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
        stack[0, 0], stack[0, 1], stack[0, 2] = roots[tree], -1, 0
        top = 1
        while top > 0:
            top -= 1
            node, parent, level = stack[top, 0], stack[top, 1], stack[top, 2]
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
                stack[top, 0], stack[top, 1], stack[top, 2] = right[node], filled, level + 1
                stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = left[node], -1, level + 1
                top += 2
            filled += 1
    filled_and_depth[0] = filled
    filled_and_depth[1] = deepest


class Places(NamedTuple):
    """Memory for a block of rows: those that reach each node of a path, and the nodes to visit."""

    row: NDArray[np.uint32]
    stack: NDArray[np.uint64]


def places_for(n_rows: int, depth: int) -> Places:
    return Places(np.empty((depth + 2) * n_rows, np.uint32), np.empty((depth + 2, 3), np.uint64))


@Kernel
def predict_sums(
    nodes: Nodes, columns: Floats, places: Places, sums: Floats, _sources: int = SOURCES
) -> None:
    """Add leaf values of each row, rows in columns: twice as quick as walking row by row."""
    one = np.uint64(1)
    n_rows = np.uint64(sums.size)
    width = len(columns)
    row, stack = places
    feature, right, cuts, roots, _, source, seen = nodes
    for tree in range(roots.size):
        for k in range(n_rows):
            row[k] = k
        stack[0, 0], stack[0, 1], stack[0, 2] = roots[tree], 0, n_rows
        top = 1
        while top > 0:
            top -= 1
            node, start, end = stack[top, 0], stack[top, 1], stack[top, 2]
            f = feature[node]
            cut = cuts[node]
            if f < 0:
                for k in range(start, end):
                    sums[row[k]] += cut
                continue
            n_right = start
            n_left = end
            if f < width:
                column = columns[np.uint32(f)]
                for k in range(start, end):
                    i = row[k]
                    goes_left = np.uint64(column[i] <= cut)
                    row[n_left] = i
                    row[n_right] = i
                    n_left += goes_left
                    n_right += one - goes_left
            else:
                column = columns[source[np.uint32(f - width)]]
                level = seen[np.uint32(f - width)]
                for k in range(start, end):
                    i = row[k]
                    goes_left = np.uint64(level[np.uint32(column[i])] <= cut)
                    row[n_left] = i
                    row[n_right] = i
                    n_left += goes_left
                    n_right += one - goes_left
            if n_right > start:
                stack[top, 0], stack[top, 1], stack[top, 2] = right[node], start, n_right
                top += 1
            if n_left > end:
                stack[top, 0], stack[top, 1], stack[top, 2] = node + one, end, n_left
                top += 1


class Arena(NamedTuple):
    """Memory for a block of lines."""

    line: NDArray[np.uint32]
    upper: Floats
    at: Floats
    left_value: Floats
    last: Floats
    stack: NDArray[np.uint64]


def arena_for(n_lines: int, depth: int) -> Arena:
    capacity = (depth + 2) * n_lines
    return Arena(
        np.empty(capacity, np.uint32),
        np.empty(capacity),
        np.empty(n_lines),
        np.empty(n_lines),
        np.empty(n_lines),
        np.empty((depth + 2, 3), np.uint64),
    )


@inlined
def split_lines(
    nodes: Nodes,
    node: np.uint64,
    columns: Floats,
    latent: Floats,
    steepness: Floats,
    slack: float,
    step: float,
    arena: Arena,
    start: np.uint64,
    end: np.uint64,
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Partition the lines ``start`` to ``end`` of the arena, which reach a node, by its split.

    Returns the child that lies lower on the lines and the higher one, and where the lines of
    either end. The higher side is compacted in place, the lower side written behind the segment.
    """
    one = np.uint64(1)
    width = len(columns)
    line, upper, at = arena[:3]
    feature, right, cuts, _, _, source, seen = nodes
    f = feature[node]
    cut = cuts[node]
    lower_child = node + one
    higher_child = np.uint64(right[node])
    n_higher = start
    n_lower = end
    if f < width:
        steep = steepness[np.uint32(f)]
        column = columns[np.uint32(f)]
    else:
        steep = 0.0
        column = columns[source[np.uint32(f - width)]]
    if f >= width:
        level = seen[np.uint32(f - width)]
        for k in range(start, end):
            i, b = line[k], upper[k]
            goes_left = np.uint64(level[np.uint32(column[i])] <= cut)
            line[n_lower], upper[n_lower] = i, b
            line[n_higher], upper[n_higher] = i, b
            n_lower += goes_left
            n_higher += one - goes_left
    elif steep == 0.0:
        for k in range(start, end):
            i, b = line[k], upper[k]
            goes_left = np.uint64(column[i] <= cut)
            line[n_lower], upper[n_lower] = i, b
            line[n_higher], upper[n_higher] = i, b
            n_lower += goes_left
            n_higher += one - goes_left
    elif steep > 0.0:
        for k in range(start, end):
            i, b = line[k], upper[k]
            t = latent[i] + (cut - column[i]) * steep
            line[n_lower], upper[n_lower] = i, b if b < t else t
            line[n_higher], upper[n_higher] = i, b
            n_lower += np.uint64(t > at[i])
            n_higher += np.uint64(t < b)
    else:
        lower_child, higher_child = higher_child, lower_child
        for k in range(start, end):
            i, b = line[k], upper[k]
            t = latent[i] + (cut - column[i]) * steep
            t -= abs(t) * slack + step
            line[n_lower], upper[n_lower] = i, b if b < t else t
            line[n_higher], upper[n_higher] = i, b
            n_lower += np.uint64(t > at[i])
            n_higher += np.uint64(t < b)
    return lower_child, higher_child, n_lower, n_higher


class Leaving(NamedTuple):
    """The lines of one direction that leave their row's leaf, tree by tree.

    Those of tree ``t`` are ``line[first[t]:end[t]]``; ``own`` (trees, n_lines) are the values of
    the rows' own leaves, which the other lines have throughout, or one row of zeros where all
    lines are walked; ``level`` (n_lines,) is their sum over the trees.
    """

    line: NDArray[np.uint32]
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    own: Floats
    level: Floats


def all_lines(n_lines: int, n_trees: int) -> Leaving:
    first, end = np.zeros(n_trees, np.int64), np.full(n_trees, n_lines)
    every = np.arange(n_lines, dtype=np.uint32)
    return Leaving(every, first, end, np.zeros((1, n_lines)), np.zeros(n_lines))


def lines_for(n_lines: int, d: int, n_trees: int) -> NDArray[np.uint32]:
    """Return room for the lines that leave; unwritten memory costs nothing."""
    return np.empty((d, n_trees * n_lines + 1), np.uint32)


def leaving_of(
    nodes: Nodes,
    trees: slice,
    columns: Floats,
    centred: Floats,
    half: Floats,
    steepness: Floats,
    line: NDArray[np.uint32],
) -> list[Leaving]:
    """Return what :func:`find_leaving` finds in some of the trees, by direction."""
    n, d = centred.shape
    count = trees.stop - trees.start
    own, end = np.empty((count, n)), np.zeros((d, count + 1), np.int64)
    memory = np.empty(d), np.empty(d, np.uint64)
    find_leaving(nodes, trees.start, columns, centred, half, steepness, *memory, line, end, own)
    level = own.sum(axis=0)
    return [Leaving(line[j], end[j, :-1], end[j, 1:], own, level) for j in range(d)]


@Kernel
def find_leaving(
    nodes: Nodes,
    first_tree: int,
    columns: Floats,
    centred: Floats,
    half: Floats,
    steepness: Floats,
    nearest: Floats,
    n_leaving: NDArray[np.uint64],
    line: NDArray[np.uint32],
    end: NDArray[np.int64],
    own: Floats,
    _sources: int = SOURCES,
) -> None:
    """Find the lines that cross a split on their own row's path where the law has mass.

    The path is walked once for all directions. Rows come in ``columns`` (p, n), of which a tree
    reads few: row by row takes half as long again. The law of direction ``j`` along row ``i`` lies
    within ``half`` of where ``t - z`` is ``-centred``, both (n, d); ``steepness`` (p, d) is huge
    where a direction does not move a feature. A line too many does no harm. ``nearest`` and
    ``n_leaving`` (d,) are memory; ``line`` (d, capacity), ``end`` (d, trees) and ``own`` (trees, n)
    are those of :class:`Leaving`.
    """
    one = np.uint64(1)
    n, d = centred.shape
    for j in range(d):
        n_leaving[j] = 0
    for tree in range(own.shape[0]):
        for i in range(np.uint64(n)):
            z = centred[i]
            for j in range(d):
                nearest[j] = np.inf
            node = np.uint64(nodes.roots[first_tree + tree])
            f = nodes.feature[node]
            while f >= 0:
                gap = nodes.cut[node] - columns[np.uint32(f), i]
                steep = steepness[np.uint32(f)]
                for j in range(d):
                    away = abs(z[j] + gap * steep[j])
                    nearest[j] = away if away < nearest[j] else nearest[j]
                node = node + one if gap >= 0.0 else np.uint64(nodes.right[node])
                f = nodes.feature[node]
            own[tree, i] = nodes.cut[node]
            within = half[i]
            for j in range(d):
                line[j, n_leaving[j]] = i
                n_leaving[j] += np.uint64(nearest[j] <= within[j])
        for j in range(d):
            end[j, tree + 1] = n_leaving[j]


@Kernel
def arena_moments(
    nodes: Nodes,
    first_tree: int,
    leaving: Leaving,
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

    Trees are those of ``leaving``, from ``first_tree`` on.
    Rows come transposed, in ``columns`` (p, n_lines), with their ``latent`` coordinates along this
    direction (n_lines,); ``steepness`` (p,) is ``1 / L_fj``, or 0 where ``L_fj`` counts as zero.
    The coordinate's law is evaluated at ``t + shift`` for each of the ``shifts`` (q,). ``low`` and
    ``high`` (n_lines,) end the piece of each line to be averaged over, beyond the law's ends for a
    whole line; ``step`` is that of :func:`dfi._lines.trees.law.step_below`. ``mean`` and
    ``hermite`` (q, n_lines) are added to.
    """
    one = np.uint64(1)
    n_lines = np.uint64(latent.size)
    n_shifts = np.uint64(shifts.size)
    line, upper, at, left_value, last, stack = arena
    leaver, firsts, ends, owns, level = leaving
    feature, cuts, roots = nodes.feature, nodes.cut, nodes.roots
    # Left of a split is closed: along a falling coordinate it is t >= b, which is t > b-.
    slack = law.below
    for k in range(n_lines):
        last[k] = level[k]
    for tree in range(ends.size):
        own = owns[tree if tree < len(owns) else 0]
        first = np.uint64(firsts[tree])
        n_here = np.uint64(ends[tree]) - first
        for k in range(n_here):
            i = leaver[first + k]
            line[k] = i
            upper[k] = high[i]
            at[i] = low[i]
            left_value[i] = own[i]
        stack[0, 0], stack[0, 1], stack[0, 2] = roots[first_tree + tree], 0, n_here
        top = 1
        while top > 0:
            top -= 1
            node, start, end = stack[top, 0], stack[top, 1], stack[top, 2]
            f = feature[node]
            cut = cuts[node]
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
            lower_child, higher_child, n_lower, n_higher = split_lines(
                nodes, node, columns, latent, steepness, slack, step, arena, start, end
            )
            if n_higher > start:
                stack[top, 0], stack[top, 1], stack[top, 2] = higher_child, start, n_higher
                top += 1
            if n_lower > end:
                stack[top, 0], stack[top, 1], stack[top, 2] = lower_child, end, n_lower
                top += 1
        for k in range(n_here):
            i = leaver[first + k]
            last[i] += left_value[i] - own[i]
    for s in range(n_shifts):
        for k in range(n_lines):
            f_t, h_t = evaluate_coordinate(law, high[k] + shifts[s])
            mean[s, k] += last[k] * f_t
            hermite[s, k] += last[k] * h_t


class Jumps(NamedTuple):
    """The jumps of the trees along a block of lines, as they come from the trees."""

    place: Floats
    change: Floats
    owner: NDArray[np.uint16]
    n_jumps: NDArray[np.uint32]


def jumps_for(n_lines: int, capacity: int) -> Jumps:
    size = (n_lines, capacity)
    n_jumps = np.empty(n_lines, np.uint32)
    return Jumps(np.empty(size), np.empty(size), np.empty(size, np.uint16), n_jumps)


@Kernel
def collect_jumps(
    nodes: Nodes,
    of_tree: NDArray[np.int32],
    columns: Floats,
    latent: Floats,
    steepness: Floats,
    slack: float,
    low: Floats,
    high: Floats,
    step: float,
    arena: Arena,
    jumps: Jumps,
    first: Floats,
    finished: NDArray[np.int64],
    _sources: int = SOURCES,
) -> None:
    """Write the jumps of all trees along a block of lines, and add up their first values.

    Parameters are those of :func:`arena_moments`, with the ``slack`` of the law and the class
    ``of_tree``. To ``first`` (classes, n_lines) the values where the lines begin are added.
    ``finished`` is 1 at the end, and 0 where ``jumps`` may have no room for those of the next tree.
    """
    n_lines = np.uint64(latent.size)
    line, upper, at, left_value, _, stack = arena
    place, change, owner, n_jumps = jumps
    capacity = place.shape[1]
    several = len(first) > 1
    finished[0] = 0
    for k in range(n_lines):
        n_jumps[k] = 0
    for tree in range(nodes.roots.size):
        most = np.int64(0)
        for k in range(n_lines):
            line[k] = k
            upper[k] = high[k]
            at[k] = low[k]
            left_value[k] = 0.0
            if n_jumps[k] > most:
                most = np.int64(n_jumps[k])
        # A line meets every leaf once at the most.
        is_last = tree + 1 == nodes.roots.size
        stop = np.int64(nodes.feature.size if is_last else nodes.roots[tree + 1])
        if most + (stop - np.int64(nodes.roots[tree]) + 1) // 2 >= capacity:
            return
        klass = of_tree[tree]
        begin = first[klass]
        stack[0, 0], stack[0, 1], stack[0, 2] = nodes.roots[tree], 0, n_lines
        top = 1
        while top > 0:
            top -= 1
            node, start, end = stack[top, 0], stack[top, 1], stack[top, 2]
            if nodes.feature[node] < 0:
                value = nodes.cut[node]
                for k in range(start, end):
                    i = line[k]
                    here = at[i]
                    jump = value - left_value[i]
                    m = np.uint64(n_jumps[i])
                    # Without a branch: what is no jump is written over by the next one.
                    place[i, m], change[i, m] = here, jump
                    if several:
                        owner[i, m] = klass
                    is_first = here <= low[i]
                    begin[i] += jump if is_first else 0.0
                    n_jumps[i] = m + np.uint64((not is_first) & (jump != 0.0))
                    left_value[i] = value
                    at[i] = upper[k]
                continue
            lower_child, higher_child, n_lower, n_higher = split_lines(
                nodes, node, columns, latent, steepness, slack, step, arena, start, end
            )
            if n_higher > start:
                stack[top, 0], stack[top, 1], stack[top, 2] = higher_child, start, n_higher
                top += 1
            if n_lower > end:
                stack[top, 0], stack[top, 1], stack[top, 2] = lower_child, end, n_lower
                top += 1
    finished[0] = 1
