"""Lines cut into pieces on which every category keeps its level, and rows as trees see them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._compiled import SOURCES, Kernel, kernel_array
from dfi._data.levels import TIE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._lines.trees.ensemble import Category
    from dfi._types import Floats, Ints

    Levels = NDArray[np.int32]


class Cuts(NamedTuple):
    """Categories as kernels want them, one after the other.

    Category ``c`` has the entries ``first[c]`` to ``first[c + 1]`` of ``position``, ``shift`` and
    ``scale``, by which the largest decides; where it is one number of a grid, its midpoints
    ``middle[at[c]:at[c + 1]]`` do. ``source[c]`` is the column that its copies move with, -1 for
    none; they are ``copies[c]`` to ``copies[c + 1]``, and ``value[copy, level]`` at levels above 0.
    """

    first: NDArray[np.int64]
    position: NDArray[np.int64]
    shift: Floats
    scale: Floats
    at: NDArray[np.int64]
    middle: Floats
    source: NDArray[np.int64]
    copies: NDArray[np.int64]
    value: Floats

    @property
    def most_pieces(self) -> int:
        """How many pieces a line may have: each level leads on one at the most."""
        return 1 + len(self.position)

    def width(self, n_columns: int) -> int:
        """Return how many columns trees see in rows of a given width."""
        return n_columns + len(self.source) + len(self.value)


@lru_cache(maxsize=64)
def cuts_of(categories: tuple[Category, ...]) -> Cuts:
    """Return categories as kernels want them."""
    moving = [each if each.source is not None else None for each in categories]
    middles = [np.empty(0) if each.grid is None else each.grid.midpoints for each in categories]
    counts = [0 if each is None else len(each.columns) for each in moving]
    n_levels = max((len(each.values) for each in categories), default=0)
    value = np.zeros((sum(counts), n_levels))
    start = 0
    for each, count in zip(categories, counts, strict=True):
        if count:
            value[start : start + count, : len(each.values)] = each.values.T
            start += count

    def joined(parts: list[Floats]) -> Floats:
        return kernel_array(np.concatenate([np.empty(0), *parts]), np.float64)

    def ends(sizes: list[int]) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    return Cuts(
        ends([len(each.positions) for each in categories]),
        joined([each.positions.astype(np.float64) for each in categories]).astype(np.int64),
        joined([each.shift for each in categories]),
        joined([each.scale for each in categories]),
        ends([len(middle) for middle in middles]),
        joined(middles),
        np.array([-1 if each is None else each.source for each in moving], dtype=np.int64),
        ends(counts),
        value,
    )


class Pieces(NamedTuple):
    """Pieces of parallel lines on which every category keeps its level, in the lines' order.

    ``levels`` are (categories, pieces).
    """

    line: NDArray[np.int64]
    low: Floats
    high: Floats
    levels: Levels

    def sums(self, values: Floats) -> Floats:
        """Return the sum over the pieces of each line, along the last axis."""
        starts = np.flatnonzero(np.diff(self.line, prepend=-1))
        return np.asarray(np.add.reduceat(values, starts, axis=-1))


def pieces_of(
    points: Floats, latent: Floats, direction: Floats, cuts: Cuts, low: float, high: float
) -> Pieces:
    """Cut the lines ``points + (t - latent) direction`` where a category changes its level."""
    n, most, count = len(points), cuts.most_pieces, len(cuts.source)
    line = np.empty(n * most, np.int64)
    ends = np.empty((2, n * most))
    levels = np.empty((n * most, count), np.int32)
    slope = cuts.scale * direction[cuts.position]
    memory = np.empty((2, most)), np.empty((most, count), np.int32), np.empty(len(slope))
    filled = np.zeros(1, np.int64)
    envelopes(points, latent, slope, cuts, low, high, line, ends, levels, *memory, filled)
    size = int(filled[0])
    # copies: what was taken for the most pieces that there might be is given back
    return Pieces(
        line[:size].copy(), ends[0, :size].copy(), ends[1, :size].copy(),
        np.ascontiguousarray(levels[:size].T),
    )  # fmt: skip


def seen_by_trees(points: Floats, line: Ints, levels: Levels, cuts: Cuts) -> Floats:
    """Return the columns that trees see at rows in ``line``: those of the table, levels, copies."""
    columns = np.empty((cuts.width(points.shape[1]), len(line)))
    fill_columns(points, kernel_array(line, np.int64), levels, cuts, columns)
    return columns


def levels_at(points: Floats, cuts: Cuts) -> Levels:
    """Return the level of each category at each row, (categories, rows)."""
    levels = np.empty((len(cuts.source), len(points)), np.int32)
    look_up(points, cuts, levels)
    return levels


@Kernel
def envelopes(
    points: Floats,
    latent: Floats,
    slope: Floats,
    cuts: Cuts,
    low: float,
    high: float,
    line: NDArray[np.int64],
    ends: Floats,
    levels: Levels,
    before: Floats,
    known: Levels,
    entry: Floats,
    filled: NDArray[np.int64],
    _sources: int = SOURCES,
) -> None:
    """Write on which pieces of each line which entry of each category is the largest.

    Entries are straight, with a ``slope`` in ``t``. Pieces of one category are cut by the next one;
    ``before`` (2, most) and ``known`` hold those of a line meanwhile.
    """
    n_categories = cuts.source.size
    most = before.shape[1]
    total = 0
    for i in range(points.shape[0]):
        begin = total
        ends[0, total], ends[1, total] = low, high
        total += 1
        for c in range(n_categories):
            first, last = cuts.first[c], cuts.first[c + 1]
            for k in range(first, last):
                entry[k] = cuts.shift[k] + cuts.scale[k] * points[i, cuts.position[k]]
                entry[k] = entry[k] - latent[i] * slope[k] - TIE * (k - first)
            n_before = total - begin
            for m in range(n_before):
                before[0, m], before[1, m] = ends[0, begin + m], ends[1, begin + m]
                for other in range(c):
                    known[m, other] = levels[begin + m, other]
            total = begin
            for m in range(n_before):
                at, stop_at = before[0, m], before[1, m]
                place = first
                for k in range(first + 1, last):
                    if entry[k] + slope[k] * at > entry[place] + slope[place] * at:
                        place = k
                start = total
                while True:
                    following = first
                    overtaken = np.inf
                    for k in range(first, last):
                        # What rises faster overtakes where its lag is made up.
                        rise = slope[k] - slope[place]
                        if rise > 0.0:
                            overtaken_here = (entry[place] - entry[k]) / rise
                            if overtaken_here < overtaken:
                                overtaken = overtaken_here
                                following = k
                    # Rounding must not step back.
                    overtaken = max(overtaken, at)
                    stop = min(overtaken, stop_at)
                    # A level met at a single point has no piece; a line has one in any case.
                    is_piece = stop > at or (total == start and overtaken >= stop_at)
                    if is_piece and total - begin < most:
                        ends[0, total], ends[1, total] = at, stop
                        for other in range(c):
                            levels[total, other] = known[m, other]
                        levels[total, c] = place - first
                        total += 1
                    if overtaken >= stop_at:
                        break
                    at = stop
                    place = following
        for k in range(begin, total):
            line[k] = i
    filled[0] = total


@Kernel
def look_up(points: Floats, cuts: Cuts, levels: Levels, _sources: int = SOURCES) -> None:
    """Write the level of each category at each row."""
    for c in range(cuts.source.size):
        first, last = cuts.first[c], cuts.first[c + 1]
        start, end = cuts.at[c], cuts.at[c + 1]
        for i in range(points.shape[0]):
            place = 0
            if end > start:
                x = points[i, cuts.position[first]]
                low, high = start, end
                while low < high:
                    middle = (low + high) // 2
                    if cuts.middle[middle] < x:
                        low = middle + 1
                    else:
                        high = middle
                place = low - start
            else:
                best = -np.inf
                for k in range(first, last):
                    value = cuts.shift[k] + cuts.scale[k] * points[i, cuts.position[k]]
                    value -= TIE * (k - first)
                    if value > best:
                        best, place = value, k - first
            levels[c, i] = place


@Kernel
def fill_columns(
    points: Floats,
    line: NDArray[np.int64],
    levels: Levels,
    cuts: Cuts,
    columns: Floats,
    _sources: int = SOURCES,
) -> None:
    """Write rows of the table, transposed, with levels below and columns that move with another."""
    width = points.shape[1]
    n_categories = cuts.source.size
    for f in range(width):
        for k in range(line.size):
            columns[f, k] = points[line[k], f]
    for c in range(n_categories):
        for k in range(line.size):
            columns[width + c, k] = levels[c, k]
        for copy in range(cuts.copies[c], cuts.copies[c + 1]):
            moving = columns[cuts.source[c]]
            for k in range(line.size):
                level = levels[c, k]
                there = moving[k] if level == 0 else cuts.value[copy, level]
                columns[width + n_categories + copy, k] = there
