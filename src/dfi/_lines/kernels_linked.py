r"""Margins along lines at the nodes of a rule, compiled: networks of bent hinges, and trees.

A hinge's argument is :math:`\alpha + \beta t`, so a network at a node is a sum over its units. A
tree along a line is constant between the places where the line crosses its splits: it is walked
once a line with the range of nodes that reach each branch, not once a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfi._compiled import SOURCES, Kernel

if TYPE_CHECKING:
    from dfi._types import Floats, Ints

BEND = 2.0
"""Where a unit's parabola ends, as in :mod:`dfi._models.network`: a constant once compiled."""


@Kernel
def hinge_margins(
    base: Floats,
    change: Floats,
    slopes: Floats,
    back: Floats,
    nodes: Floats,
    out: Floats,
    _sources: int = SOURCES,
) -> None:
    """Add the network at each row and node to ``out`` (n, nodes).

    ``base`` (n, units) are the units' arguments at the rows, ``change`` (units,) what they change
    by along the line, ``back`` (n,) the rows' own places on it.
    """
    for i in range(base.shape[0]):
        for k in range(slopes.shape[0]):
            step, slope = change[k], slopes[k]
            start = base[i, k] - step * back[i]
            # nodes innermost: their sums are independent, so that processors take several at once
            for m in range(nodes.shape[0]):
                a = start + step * nodes[m]
                curved = a if a > 0.0 else 0.0
                curved = curved if curved < BEND else BEND
                out[i, m] += slope * (curved * (2.0 * a - curved))


@Kernel
def tree_margins(
    points: Floats,
    direction: Floats,
    back: Floats,
    nodes: Floats,
    feature: Ints,
    threshold: Floats,
    left: Ints,
    right: Ints,
    value: Floats,
    roots: Ints,
    stack: Ints,
    out: Floats,
    _sources: int = SOURCES,
) -> None:
    """Add the trees at each row and node to ``out`` (n, nodes); nodes ascend.

    ``stack`` (depth, 3) holds branches to come with the first and last node that reach them.
    """
    count = nodes.shape[0]
    for i in range(points.shape[0]):
        for tree in range(roots.shape[0]):
            stack[0, 0], stack[0, 1], stack[0, 2] = roots[tree], 0, count
            height = 1
            while height > 0:
                height -= 1
                node, first, last = stack[height, 0], stack[height, 1], stack[height, 2]
                while feature[node] >= 0:
                    f = feature[node]
                    x, step = points[i, f], direction[f]
                    # the number of nodes from ``first`` on that are sent to the near side
                    low, high = first, last
                    rises = step > 0.0
                    while low < high:
                        middle = (low + high) // 2
                        goes_left = x + (nodes[middle] - back[i]) * step <= threshold[node]
                        if step == 0.0:
                            low = last if goes_left else first
                            rises = True
                            break
                        if goes_left == rises:
                            low = middle + 1
                        else:
                            high = middle
                    near, far = left[node], right[node]
                    if not rises:
                        near, far = far, near
                    if low <= first:
                        node = far
                    elif low >= last:
                        node = near
                    else:
                        stack[height, 0], stack[height, 1], stack[height, 2] = far, low, last
                        height += 1
                        node, last = near, low
                # differences first: they are summed along the line in the end
                out[i, first] += value[node]
                if last < count:
                    out[i, last] -= value[node]
        for m in range(1, count):
            out[i, m] += out[i, m - 1]
