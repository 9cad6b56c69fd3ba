r"""Margins along lines at the nodes of a rule, compiled: networks of bent hinges, and trees.

A hinge's argument is :math:`\alpha + \beta t`, so a network at a node is a sum over its units. A
tree along a line is constant between the places where the line crosses its splits: it is walked
once a line with the range of nodes that reach each branch, not once a node. Where nodes stand for
cells of a law, a cell that a split falls into has the mean of both sides: with jumps :math:`\delta`
of the margin and cells of mass ``p`` that errs by :math:`p\,\delta^2 g''/8` at most, the value at
the node by :math:`p\,\delta\,g'/2`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfi._compiled import SOURCES, Kernel, inlined

if TYPE_CHECKING:
    from dfi._types import Floats, Ints

BEND = 2.0
"""Where a unit's parabola ends, as in :mod:`dfi._models.network`: a constant once compiled."""


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
            # nodes innermost: their sums are independent, so that processors take several at once
            for m in range(nodes.shape[0]):
                a = start + step * nodes[m]
                a = a if a > low else low
                a = a if a < high else high
                curved = a if a > 0.0 else 0.0
                curved = curved if curved < BEND else BEND
                out[i, m] += slope * (curved * (2.0 * a - curved))


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
    points: Floats,
    direction: Floats,
    back: Floats,
    nodes: Floats,
    ends: Floats,
    feature: Ints,
    threshold: Floats,
    left: Ints,
    right: Ints,
    value: Floats,
    roots: Ints,
    branches: Ints,
    places: Floats,
    out: Floats,
    _sources: int = SOURCES,
) -> None:
    """Add the trees at each row and node to ``out`` (n, nodes), zeros; nodes ascend.

    With the ``ends`` (nodes + 1,) of the cells that nodes stand for, their mean over each cell.
    ``branches`` (depth,) and ``places`` (depth, 2) hold branches to come and between which places
    they are reached.
    """
    count = nodes.shape[0]
    for i in range(points.shape[0]):
        for tree in range(roots.shape[0]):
            branches[0], places[0, 0], places[0, 1] = roots[tree], 0.0, count
            height = 1
            while height > 0:
                height -= 1
                node, first, last = branches[height], places[height, 0], places[height, 1]
                while feature[node] >= 0:
                    f = feature[node]
                    x, step = points[i, f], direction[f]
                    near, far = left[node], right[node]
                    if step == 0.0:
                        node = near if x <= threshold[node] else far
                        continue
                    if step < 0.0:
                        near, far = far, near
                    cut = _place(x, step, back[i], threshold[node], nodes, ends)
                    if cut <= first:
                        node = far
                    elif cut >= last:
                        node = near
                    else:
                        branches[height], places[height, 0], places[height, 1] = far, cut, last
                        height += 1
                        node, last = near, cut
                # differences first: they are summed along the line in the end
                _rise(value[node], first, out[i])
                _rise(-value[node], last, out[i])
        for m in range(1, count):
            out[i, m] += out[i, m - 1]
