r"""Margins along lines at the nodes of a rule, compiled: networks of bent hinges, and trees.

A hinge's argument is :math:`\alpha + \beta t`, so a network at a node is a sum over its units. A
tree along a line is constant between the places where the line crosses its splits: it is walked
once a line with the range of nodes that reach each branch, not once a node. Where nodes stand for
cells of a law, a cell that a split falls into has the mean of both sides: with jumps :math:`\delta`
of the margin and cells of mass ``p`` that errs by :math:`p\,\delta^2 g''/8` at most, the value at
the node by :math:`p\,\delta\,g'/2`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._compiled import SOURCES, AllocatingKernel, Kernel, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._lines.trees.kernels_blocks import Nodes
    from dfi._types import Floats

BEND = 2.0
"""Where a unit's parabola ends, as in :mod:`dfi._learners.network`: a constant once compiled."""


@Kernel
def hinge_margins(
    base: Floats,
    change: Floats,
    lowest: Floats,
    highest: Floats,
    slopes: Floats,
    back: Floats,
    nodes: Floats,
    out: Floats,
    _sources: int = SOURCES,
) -> None:
    """Add the network at each row and node to ``out`` (n, nodes).

    ``lowest`` and ``highest`` (units,) are what the units' arguments are kept between.
    """
    for i in range(base.shape[0]):
        for k in range(slopes.shape[0]):
            step, slope, low, high = change[k], slopes[k], lowest[k], highest[k]
            start = base[i, k] - step * back[i]
            # nodes innermost: their sums are independent, so processors take several at once
            for m in range(nodes.shape[0]):
                a = start + step * nodes[m]
                a = a if a > low else low
                a = a if a < high else high
                curved = a if a > 0.0 else 0.0
                curved = curved if curved < BEND else BEND
                out[i, m] += slope * (curved * (2.0 * a - curved))


class Hinges(NamedTuple):
    """A network along lines: arguments of rows (n, units), their change along each (d, units).

    ``lowest`` and ``highest`` (units,) are what arguments are kept between.
    """

    base: Floats
    change: Floats
    lowest: Floats
    highest: Floats
    slopes: Floats


@AllocatingKernel
def linked_moments(
    which: NDArray[np.int64],
    value: Floats,
    tilt: Floats,
    bend: Floats,
    hinges: Hinges,
    latent: Floats,
    shift: Floats,
    starts: NDArray[np.int64],
    nodes: Floats,
    weights: Floats,
    logistic: bool,
    least: float,
    most: float,
    tolerance: float,
    compared: bool,
    moving: NDArray[np.bool_],
    sums: Floats,
    _sources: int = SOURCES,
) -> None:
    """Average ``link(margin)`` along the lines of coordinates ``which`` that are still ``moving``.

    The margin is ``value[i] + (tilt[j, i] + bend[j] s) s`` at the step ``s`` from the row, and the
    hinges. ``starts`` are where the nodes of each coordinate begin. Means go to ``sums`` (d, 2, n);
    where those of a coarser rule are ``compared``, a line stays if they change by more than the
    ``tolerance`` of its range.
    """
    margin = np.empty(nodes.shape[0])
    for c in range(which.shape[0]):
        j, first, count = which[c], starts[c], starts[c + 1] - starts[c]
        for i in range(value.shape[0]):
            if not moving[j, i]:
                continue
            back = latent[j, i] + shift[j]
            for m in range(count):
                step = nodes[first + m] - back
                margin[m] = value[i] + (tilt[j, i] + bend[j] * step) * step
            for k in range(hinges.slopes.shape[0]):
                step, slope = hinges.change[j, k], hinges.slopes[k]
                low, high = hinges.lowest[k], hinges.highest[k]
                start = hinges.base[i, k] - step * back
                # nodes innermost: processors take several at once
                for m in range(count):
                    a = start + step * nodes[first + m]
                    a = a if a > low else low
                    a = a if a < high else high
                    curved = a if a > 0.0 else 0.0
                    curved = curved if curved < BEND else BEND
                    margin[m] += slope * (curved * (2.0 * a - curved))
            mean, hermite, lowest, highest = 0.0, 0.0, np.inf, -np.inf
            for m in range(count):
                inside = min(max(margin[m], least), most)
                found = 1.0 / (1.0 + np.exp(-inside)) if logistic else np.exp(inside)
                lowest, highest = min(lowest, found), max(highest, found)
                mean += weights[first + m] * found
                hermite += weights[first + m] * nodes[first + m] * found
            if compared:
                change = max(abs(mean - sums[j, 0, i]), abs(hermite - sums[j, 1, i]))
                moving[j, i] = change > tolerance * (highest - lowest)
            sums[j, 0, i], sums[j, 1, i] = mean, hermite


@inlined
def _place(
    x: float, step: float, back: float, threshold: float, nodes: Floats, ends: Floats
) -> float:
    """Return how many nodes lie below the place where a line crosses a split, in parts of cells."""
    low, high = 0, nodes.shape[0]
    if ends.shape[0] == 0:
        rises = step > 0.0
        while low < high:
            middle = (low + high) // 2
            if (x + (nodes[middle] - back) * step <= threshold) == rises:
                low = middle + 1
            else:
                high = middle
        return float(low)
    place = back + (threshold - x) / step
    if not place > ends[0]:
        return 0.0
    if not place < ends[high]:
        return float(high)
    while high - low > 1:
        middle = (low + high) // 2
        if ends[middle] <= place:
            low = middle
        else:
            high = middle
    return low + float((place - ends[low]) / (ends[low + 1] - ends[low]))


@inlined
def _rise(value: float, place: float, row: Floats) -> None:
    """Add a step at a place to the differences of a row: the cell there has a part of it."""
    cell = int(place)
    if cell < row.shape[0]:
        part = place - cell
        row[cell] += value * (1.0 - part)
        if part > 0.0 and cell + 1 < row.shape[0]:
            row[cell + 1] += value * part


@Kernel
def tree_margins(
    trees: Nodes,
    columns: Floats,
    direction: Floats,
    back: Floats,
    line: NDArray[np.int64],
    low: Floats,
    high: Floats,
    nodes: Floats,
    ends: Floats,
    branches: NDArray[np.int64],
    places: Floats,
    out: Floats,
    _sources: int = SOURCES,
) -> None:
    """Add the trees at each row and node to ``out`` (n, nodes), zeros; nodes ascend.

    Rows come transposed, in ``columns`` (p, pieces): the ``line`` of each piece, on which no level
    changes, between ``low`` and ``high``. With the ``ends`` (nodes + 1,) of the cells that nodes
    stand for, their mean over each cell. ``branches`` (depth,) and ``places`` (depth, 2) hold
    branches to come and between which places they are reached.
    """
    width = columns.shape[0]
    for k in range(line.shape[0]):
        i = line[k]
        begin = _place(0.0, 1.0, 0.0, low[k], nodes, ends)
        stop = _place(0.0, 1.0, 0.0, high[k], nodes, ends)
        for tree in range(trees.roots.shape[0]):
            branches[0], places[0, 0], places[0, 1] = trees.roots[tree], begin, stop
            height = 1
            while height > 0:
                height -= 1
                node, first, last = branches[height], places[height, 0], places[height, 1]
                while trees.feature[node] >= 0:
                    f = trees.feature[node]
                    threshold = trees.cut[node]
                    near, far = node + 1, np.int64(trees.right[node])
                    if f >= width:
                        level = int(columns[trees.source[f - width], k])
                        node = near if trees.seen[f - width, level] <= threshold else far
                        continue
                    x, step = columns[f, k], direction[f]
                    if step == 0.0:
                        node = near if x <= threshold else far
                        continue
                    if step < 0.0:
                        near, far = far, near
                    cut = _place(x, step, back[i], threshold, nodes, ends)
                    if cut <= first:
                        node = far
                    elif cut >= last:
                        node = near
                    else:
                        branches[height], places[height, 0], places[height, 1] = far, cut, last
                        height += 1
                        node, last = near, cut
                # differences first: they are summed along the line in the end
                _rise(trees.cut[node], first, out[i])
                _rise(-trees.cut[node], last, out[i])
    for i in range(out.shape[0]):
        for m in range(1, nodes.shape[0]):
            out[i, m] += out[i, m - 1]
