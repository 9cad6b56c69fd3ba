r"""Trees on columns with levels: rows are decoded to levels without leaving the exact walk.

**One number per column.** Libraries put thresholds anywhere between two neighbouring levels, and
some put them *at* a level, where the smallest move of a row crosses it. At the midpoint the trees
decide every row as the model decides the row with the nearest levels, at no cost.

**Categories of more than two levels** are decoded from a one-hot block by its largest entry. Along
a line the entries are straight, :math:`a_l + b_l t`, so the level is that of their upper envelope:
it is constant on pieces of the line, each level having at most one. On a piece everything that the
trees see of the category is constant, and the line mean is the sum over pieces

.. math:: m = \sum_k E[f(x^{(k)}(t));\; t_{k-1} < t \le t_k],

with :math:`x^{(k)}` the row at the level of piece ``k``. Most lines have one to three pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.levels import TIE, largest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.levels import Block, Levels
    from dfi._lines.trees.ensemble import TreeEnsemble
    from dfi._types import Floats, Ints

    Indices = Ints


def at_midpoints(ensemble: TreeEnsemble, levels: Levels) -> TreeEnsemble:
    """Return trees with every split of a column with levels between those that it separates."""
    threshold = ensemble.threshold.copy()
    for grid in levels.grids:
        nodes = ensemble.feature == grid.position
        threshold[nodes] = grid.move(threshold[nodes])
    return replace(ensemble, threshold=threshold)


@dataclass(frozen=True, eq=False)
class Category:
    """A category of more than two levels, and what trees see of it.

    Attributes
    ----------
    positions : ndarray of int, shape (k,)
        The columns of a row that decide between its ``k`` observed levels.
    shift, scale : ndarray of shape (k,)
        A level's one-hot entry is ``shift + scale * column``.
    columns : ndarray of int, shape (c,)
        The columns of the trees that depend on the level alone.
    values : ndarray of shape (k, c)
        What these are at each level.
    """

    positions: Indices
    shift: Floats
    scale: Floats
    columns: Indices
    values: Floats

    def levels(self, rows: Floats) -> Indices:
        """Return the level of each row."""
        return largest(self.shift + self.scale * rows[:, self.positions])


def one_hot_category(block: Block, columns: Indices, values: Floats) -> Category:
    """Return a category that rows of the numeric matrix hold as a one-hot block."""
    k = len(block.observed)
    return Category(block.observed, np.zeros(k), np.ones(k), columns, values)


def categories_in(ensemble: TreeEnsemble, levels: Levels) -> tuple[Category, ...]:
    """Return the categories whose one-hot columns the trees split on."""
    found = []
    for block in levels.blocks:
        used = block.positions[np.isin(block.positions, ensemble.feature)]
        if len(used):
            one_hot = (used == block.observed[:, None]).astype(np.float64)
            found.append(one_hot_category(block, used, one_hot))
    return tuple(found)


def tree_rows(
    rows: Floats, categories: Sequence[Category], levels: Sequence[Indices], width: int
) -> Floats:
    """Return rows as trees of ``width`` columns see them, each category at the level given."""
    seen = np.zeros((len(rows), width))
    seen[:, : rows.shape[1]] = rows
    for category, level in zip(categories, levels, strict=True):
        seen[:, category.columns] = category.values[level]
    return seen


@dataclass(frozen=True)
class Pieces:
    """Pieces of parallel lines on which every category keeps its level, in the order of the lines.

    Attributes
    ----------
    line : ndarray of int
        The line that each is a piece of.
    low, high : ndarray
        Its ends.
    levels : tuple of ndarray of int
        The level of each category on it.
    """

    line: Indices
    low: Floats
    high: Floats
    levels: tuple[Indices, ...]

    def sums(self, values: Floats) -> Floats:
        """Return the sum over the pieces of each line, along the last axis."""
        starts = np.flatnonzero(np.diff(self.line, prepend=-1))
        return np.asarray(np.add.reduceat(values, starts, axis=-1))


def pieces_of(
    points: Floats,
    latent: Floats,
    direction: Floats,
    categories: Sequence[Category],
    low: float,
    high: float,
) -> Pieces:
    """Cut the lines ``points + (t - latent) direction`` where a category changes its level."""
    n = len(points)
    pieces = Pieces(np.arange(n), np.full(n, low), np.full(n, high), ())
    for category in categories:
        slope = category.scale * direction[category.positions]
        entry = category.shift + category.scale * points[:, category.positions]
        origin = entry - latent[:, None] * slope - TIE * np.arange(len(slope))
        piece, start, end, level = _envelope(origin[pieces.line], slope, pieces.low, pieces.high)
        pieces = Pieces(
            pieces.line[piece],
            start,
            end,
            (*(known[piece] for known in pieces.levels), level),
        )
    return pieces


def _envelope(
    origin: Floats, slope: Floats, low: Floats, high: Floats
) -> tuple[Indices, Floats, Floats, Indices]:
    """Follow the largest of ``origin + slope t`` from ``low`` to ``high``, line by line.

    Returns the line, start, end and place of the largest of each piece, lines in order.
    """
    line = np.arange(len(origin))
    at, place = low, np.argmax(origin + slope * low[:, None], axis=1)
    found = []
    while len(line):
        rise = slope - slope[place][:, None]
        lead = origin[line, place][:, None] - origin[line]
        # What rises faster overtakes where its lag is made up; rounding must not step back.
        crossing = np.divide(lead, rise, out=np.full(rise.shape, np.inf), where=rise > 0)
        following = np.argmin(crossing, axis=1)
        overtaken = np.maximum(np.take_along_axis(crossing, following[:, None], axis=1)[:, 0], at)
        end = np.minimum(overtaken, high[line])
        found.append((line, at, end, place))
        ongoing = overtaken < high[line]
        line, at, place = line[ongoing], end[ongoing], following[ongoing]
    lines, starts, ends, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(lines, kind="stable")
    # A level that is met at a single point has no piece; a line keeps its first in any case.
    order = order[(ends > starts)[order] | (np.diff(lines[order], prepend=-1) > 0)]
    return lines[order], starts[order], ends[order], places[order]
