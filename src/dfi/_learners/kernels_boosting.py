r"""Boosting of small trees by least squares, compiled.

Columns are cut into bins beforehand. A tree grows leaf by leaf: the leaf whose best split lowers
the squared error most is split next, where a split into sums :math:`G_l, G_r` of the weighted
residuals and :math:`W_l, W_r` of the weights gains

.. math:: \frac{G_l^2}{W_l} + \frac{G_r^2}{W_r} - \frac{(G_l + G_r)^2}{W_l + W_r}.

The histogram of the smaller child is summed, that of its sibling is what is left of the parent's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._compiled import SOURCES, Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._types import Floats, Ints

# What is left of a gain of nothing but rounding.
ROUNDING = 1e-10


class Trees(NamedTuple):
    """Nodes of all trees, one tree after the other; ``bins`` say how far a node's left bins go."""

    feature: Ints
    bins: Ints
    left: Ints
    right: Ints
    value: Floats
    roots: Ints


class Work(NamedTuple):
    """Memory of a tree that grows, by leaf: histograms, rows and best splits."""

    sums: Floats
    masses: Floats
    counts: Ints
    order: Ints
    aside: Ints
    start: Ints
    stop: Ints
    node: Ints
    gain: Floats
    feature: Ints
    bin: Ints

    @classmethod
    def for_rows(cls, n: int, d: int, bins: int, leaves: int) -> Work:
        def whole() -> Ints:
            return np.zeros(leaves, dtype=np.intp)

        cells = leaves * d * bins
        return cls(
            np.zeros(cells), np.zeros(cells), np.zeros(cells, dtype=np.intp),
            np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp),
            whole(), whole(), whole(), np.zeros(leaves), whole(), whole(),
        )  # fmt: skip


@Kernel
def grow(
    codes: NDArray[np.uint8],
    residual: Floats,
    weight: Floats,
    n_bins: Ints,
    rate: float,
    fewest: int,
    trees: Trees,
    work: Work,
    gains: Floats,
    _sources: int = SOURCES,
) -> None:
    # One function of plain arrays: numba compiles anew whatever is called, and for every use of a
    # tuple all that is in it. In parts it took 1.2 CPU seconds, so 0.7.
    feature, bins, left, right, value, roots = trees
    sums, masses, counts, order, aside, start, stop, nodes, gain, split, cuts = work
    n, leaves, count = len(codes), gain.size, 0
    # Unsigned indices are not checked for being negative.
    d, cells = np.uint64(codes.shape[1]), np.uint64(sums.size // leaves)
    width = cells // d
    for t in range(roots.size - 1):
        for i in range(n):
            order[i] = i
        start[0], stop[0], nodes[0] = 0, n, count
        roots[t] = count
        count += 1
        leaf, new = 0, 0
        while new + 1 < leaves:
            first, sibling = np.uint64(new) * cells, np.uint64(leaf) * cells
            for k in range(cells):
                sums[first + k], masses[first + k], counts[first + k] = 0.0, 0.0, 0
            for place in range(start[new], stop[new]):
                row = np.uint64(order[place])
                mass = weight[row]
                pull = residual[row] * mass
                for f in range(d):
                    at = first + f * width + codes[row, f]
                    sums[at] += pull
                    masses[at] += mass
                    counts[at] += 1
            if new > leaf:
                for k in range(cells):
                    sums[sibling + k] -= sums[first + k]
                    masses[sibling + k] -= masses[first + k]
                    counts[sibling + k] -= counts[first + k]

            # What the best split of each gains; 0 where there is none.
            for k in range(leaf, new + 1, new - leaf if new > leaf else 1):
                first, size = np.uint64(k) * cells, stop[k] - start[k]
                pull, mass, gain[k] = 0.0, 0.0, 0.0
                for c in range(np.uint64(n_bins[0])):
                    pull += sums[first + c]
                    mass += masses[first + c]
                if size < 2 * fewest or mass <= 0.0:
                    continue
                whole = pull * pull / mass
                best = ROUNDING * whole
                for f in range(d):
                    below, mass_below, size_below = 0.0, 0.0, 0
                    for c in range(np.uint64(n_bins[f] - 1)):
                        at = first + f * width + c
                        below += sums[at]
                        mass_below += masses[at]
                        size_below += counts[at]
                        if size_below < fewest:
                            continue
                        if size - size_below < fewest:
                            break
                        above, mass_above = pull - below, mass - mass_below
                        if mass_below <= 0.0 or mass_above <= 0.0:
                            continue
                        whole_split = below * below / mass_below + above * above / mass_above
                        if whole_split - whole > best:
                            best = whole_split - whole
                            gain[k], split[k], cuts[k] = best, f, c

            leaf = 0
            for k in range(1, new + 1):
                if gain[k] > gain[leaf]:
                    leaf = k
            if gain[leaf] <= 0.0:
                break
            f, c, node = split[leaf], cuts[leaf], nodes[leaf]
            gains[f] += gain[leaf]
            feature[node], bins[node], left[node], right[node] = f, c, count, count + 1

            # Rows that go left come first. The smaller child becomes the new leaf.
            begin, end = start[leaf], stop[leaf]
            middle, others = begin, 0
            for place in range(begin, end):
                i = order[place]
                if codes[i, f] <= c:
                    order[middle] = i
                    middle += 1
                else:
                    aside[others] = i
                    others += 1
            for k in range(others):
                order[middle + k] = aside[k]
            new += 1
            if middle - begin <= end - middle:
                start[new], stop[new], nodes[new] = begin, middle, count
                start[leaf], nodes[leaf] = middle, count + 1
            else:
                start[new], stop[new], nodes[new] = middle, end, count + 1
                stop[leaf], nodes[leaf] = middle, count
            count += 2

        for k in range(new + 1):
            pull, mass = 0.0, 0.0
            for place in range(start[k], stop[k]):
                i = order[place]
                pull += residual[i] * weight[i]
                mass += weight[i]
            step = rate * pull / mass if mass > 0.0 else 0.0
            value[nodes[k]] = step
            for place in range(start[k], stop[k]):
                residual[order[place]] -= step
    roots[roots.size - 1] = count


@Kernel
def walk(
    points: Floats,
    feature: Ints,
    threshold: Floats,
    left: Ints,
    right: Ints,
    value: Floats,
    roots: Ints,
    out: Floats,
    _sources: int = SOURCES,
) -> None:
    for i in range(points.shape[0]):
        total = 0.0
        for t in range(roots.shape[0] - 1):
            node = roots[t]
            while feature[node] >= 0:
                node = left[node] if points[i, feature[node]] <= threshold[node] else right[node]
            total += value[node]
        out[i] += total
