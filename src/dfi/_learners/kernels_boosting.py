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

from dfi._compiled import SOURCES, Kernel, inlined

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

        shape = (leaves, d, bins)
        return cls(
            np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.intp),
            np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp),
            whole(), whole(), whole(), np.zeros(leaves), whole(), whole(),
        )  # fmt: skip


@inlined
def _fill(
    codes: NDArray[np.uint8], residual: Floats, weight: Floats, work: Work, leaf: int
) -> None:
    work.sums[leaf] = 0.0
    work.masses[leaf] = 0.0
    work.counts[leaf] = 0
    for place in range(work.start[leaf], work.stop[leaf]):
        i = work.order[place]
        mass = weight[i]
        pull = residual[i] * mass
        for f in range(codes.shape[1]):
            c = codes[i, f]
            work.sums[leaf, f, c] += pull
            work.masses[leaf, f, c] += mass
            work.counts[leaf, f, c] += 1


@inlined
def _best_split(work: Work, n_bins: Ints, fewest: int, leaf: int) -> None:
    """Find the split of a leaf that gains most; a gain of 0 where there is none."""
    pull, mass, count = 0.0, 0.0, work.stop[leaf] - work.start[leaf]
    for c in range(n_bins[0]):
        pull += work.sums[leaf, 0, c]
        mass += work.masses[leaf, 0, c]
    work.gain[leaf] = 0.0
    if count < 2 * fewest or mass <= 0.0:
        return
    whole = pull * pull / mass
    best = ROUNDING * whole
    for f in range(n_bins.shape[0]):
        left, left_mass, left_count = 0.0, 0.0, 0
        for c in range(n_bins[f] - 1):
            left += work.sums[leaf, f, c]
            left_mass += work.masses[leaf, f, c]
            left_count += work.counts[leaf, f, c]
            if left_count < fewest:
                continue
            if count - left_count < fewest:
                break
            right, right_mass = pull - left, mass - left_mass
            if left_mass <= 0.0 or right_mass <= 0.0:
                continue
            gain = left * left / left_mass + right * right / right_mass - whole
            if gain > best:
                best = gain
                work.gain[leaf] = gain
                work.feature[leaf] = f
                work.bin[leaf] = c


@inlined
def _part(
    codes: NDArray[np.uint8], work: Work, leaf: int, new: int, count: int, trees: Trees
) -> None:
    """Move the rows of a leaf to its two children, the smaller of which becomes ``new``."""
    f, c = work.feature[leaf], work.bin[leaf]
    cut, aside = work.start[leaf], 0
    for place in range(work.start[leaf], work.stop[leaf]):
        i = work.order[place]
        if codes[i, f] <= c:
            work.order[cut] = i
            cut += 1
        else:
            work.aside[aside] = i
            aside += 1
    for k in range(aside):
        work.order[cut + k] = work.aside[k]
    node = work.node[leaf]
    trees.feature[node], trees.bins[node] = f, c
    trees.left[node], trees.right[node] = count, count + 1
    if cut - work.start[leaf] <= work.stop[leaf] - cut:
        work.start[new], work.stop[new], work.node[new] = work.start[leaf], cut, count
        work.start[leaf], work.node[leaf] = cut, count + 1
    else:
        work.start[new], work.stop[new], work.node[new] = cut, work.stop[leaf], count + 1
        work.stop[leaf], work.node[leaf] = cut, count


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
    n, d = codes.shape
    leaves, count = work.gain.shape[0], 0
    for t in range(trees.roots.shape[0] - 1):
        for i in range(n):
            work.order[i] = i
        work.start[0], work.stop[0], work.node[0] = 0, n, count
        trees.roots[t] = count
        count += 1
        _fill(codes, residual, weight, work, 0)
        _best_split(work, n_bins, fewest, 0)
        grown = 1
        while grown < leaves:
            leaf = 0
            for k in range(1, grown):
                if work.gain[k] > work.gain[leaf]:
                    leaf = k
            if work.gain[leaf] <= 0.0:
                break
            gains[work.feature[leaf]] += work.gain[leaf]
            _part(codes, work, leaf, grown, count, trees)
            count += 2
            _fill(codes, residual, weight, work, grown)
            for f in range(d):
                for c in range(n_bins[f]):
                    work.sums[leaf, f, c] -= work.sums[grown, f, c]
                    work.masses[leaf, f, c] -= work.masses[grown, f, c]
                    work.counts[leaf, f, c] -= work.counts[grown, f, c]
            grown += 1
            if grown < leaves:
                _best_split(work, n_bins, fewest, leaf)
                _best_split(work, n_bins, fewest, grown - 1)
        for k in range(grown):
            pull, mass = 0.0, 0.0
            for place in range(work.start[k], work.stop[k]):
                i = work.order[place]
                pull += residual[i] * weight[i]
                mass += weight[i]
            step = rate * pull / mass if mass > 0.0 else 0.0
            trees.value[work.node[k]] = step
            for place in range(work.start[k], work.stop[k]):
                residual[work.order[place]] -= step
    trees.roots[trees.roots.shape[0] - 1] = count


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
