r"""Columns that take levels, and the level nearest to a numeric row.

A latent line moves every column, also one that cannot move: a boolean, a category, an integer, a
number that takes few values. A model must not be asked about what lies between their values, so
rows are decoded: a number to the nearest value :math:`l_k` observed in the table,

.. math:: x \mapsto l_k \quad\text{where}\quad
          \tfrac12(l_{k-1} + l_k) < x \le \tfrac12(l_k + l_{k+1}),

and the one-hot block of a category to the observed level with the largest entry. Where values are
missing, the pair (value, indicator) is decoded to (fill, 1) where the indicator exceeds 1/2, and
to (value, 0) elsewhere, the value to its nearest level if it has any: the fill is none.

A midpoint belongs to the lower level, as in a tree's ``x <= c``: a split of a column with levels
may therefore be moved to the midpoint between the levels that it separates, which decodes the
column for free.

Which columns have levels does not depend on the order of the rows, on the units or on how often
rows are repeated (a row of weight 0 is not there): categories, booleans, integers, numbers that
are all whole whatever their dtype (an array has one dtype for all of its columns), and numbers of
at most 10 different values, or of at most one value per five different rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._data import source as rows_in_blocks
from dfi._data.source import BLOCK_ROWS, splitmix

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from dfi._data.columns import Column
    from dfi._types import Bools, Floats, Ints

FEW_VALUES = 10
ROWS_PER_VALUE = 5
LARGEST_WHOLE = 2.0**40
"""Every number from 2**52 on is whole: what is this large says nothing about being counted."""

TIE = 1e-9
"""What a level gives way to the one before it: levels that are equally frequent tie along whole
lines, where rounding must not decide."""

BEYOND = 1e50
"""A threshold that no row reaches; finite, because kernels multiply it."""


@dataclass(frozen=True, eq=False)
class Grid:
    """The levels of one column of the numeric matrix, ascending."""

    position: int
    values: Floats

    @cached_property
    def midpoints(self) -> Floats:
        """The largest number that belongs to each level but the last."""
        low, high = self.values[:-1], self.values[1:]
        middle = np.maximum(low / 2 + high / 2, low)
        # between neighbouring floats there is nothing: the midpoint is one of the two
        return np.where(middle >= high, low, middle)

    def nearest(self, numbers: Floats) -> Floats:
        return self.values[np.searchsorted(self.midpoints, numbers)]

    def move(self, thresholds: Floats) -> Floats:
        r"""Return thresholds at midpoints that decide ``level <= threshold`` for ``nearest`` alike.

        .. math:: l_k \le c < l_{k+1} \mapsto \tfrac12 (l_k + l_{k+1}) .
        """
        ends = np.concatenate([[-BEYOND], self.midpoints, [BEYOND]])
        return np.asarray(ends[np.searchsorted(self.values, thresholds, side="right")])


@dataclass(frozen=True, eq=False)
class Block:
    """The one-hot columns of a category of more than two levels, and those whose level occurs."""

    positions: Ints
    observed: Ints

    def nearest(self, rows: Floats) -> Floats:
        """Return the one-hot rows of the observed levels with the largest entries."""
        one_hot: Floats = (self.positions == self.observed[:, None]).astype(np.float64)
        return one_hot[largest(rows[:, self.observed])]


def largest(entries: Floats) -> Ints:
    return np.asarray(np.argmax(entries - TIE * np.arange(entries.shape[1]), axis=1))


class Gap(NamedTuple):
    """The pair of matrix columns of numbers some of which are missing."""

    value: int
    indicator: int
    fill: float


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a table's columns.

    ``grids`` are columns of one number: booleans, integers, categories of two levels, numbers of
    few values, indicators of missing values; ``blocks`` are categories of more levels; ``gaps`` are
    the pairs of columns with missing values.
    """

    grids: tuple[Grid, ...]
    blocks: tuple[Block, ...]
    gaps: tuple[Gap, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.grids or self.blocks)

    @cached_property
    def positions(self) -> frozenset[int]:
        blocks = [int(position) for block in self.blocks for position in block.positions]
        return frozenset([*(grid.position for grid in self.grids), *blocks])

    def nearest(self, rows: Floats) -> Floats:
        if not self:
            return rows
        decoded = rows.copy()
        for grid in self.grids:
            decoded[:, grid.position] = grid.nearest(rows[:, grid.position])
        for block in self.blocks:
            decoded[:, block.positions] = block.nearest(rows)
        for gap in self.gaps:
            decoded[decoded[:, gap.indicator] > 0.5, gap.value] = gap.fill
        return decoded


def constant_columns(matrix: Floats, rows: Ints | None = None) -> Bools:
    """Return which columns do not vary, up to rounding relative to their magnitude."""
    low, high = extremes(matrix, rows)
    largest = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(over="ignore"):
        spread = high - low
    return np.asarray(spread <= 16 * np.finfo(np.float64).eps * largest)


def extremes(matrix: Floats, rows: Ints | None = None) -> tuple[Floats, Floats]:
    """Return the least and the largest value of each column among some rows, by default all."""
    count = len(matrix) if rows is None else len(rows)
    low, high = np.full(matrix.shape[1], np.inf), np.full(matrix.shape[1], -np.inf)
    for start in range(0, max(count, 1), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        block = matrix[part] if rows is None else matrix[rows[part]]
        np.minimum(low, block.min(axis=0), out=low)
        np.maximum(high, block.max(axis=0), out=high)
    return low, high


def read_levels(
    matrix: Floats, columns: Sequence[Column], *, always: Collection[str] = ()
) -> Levels:
    """Find the levels of a table's columns; the values of ``always`` are levels however many."""
    grids, blocks, gaps = [], [], []
    rows = _Rows(matrix)
    for column in columns:
        if column.kind == "categorical" and column.width > 1:
            positions = np.array(column.positions, dtype=np.intp)
            observed = positions[matrix[:, positions].any(axis=0)]
            blocks.append(Block(positions, observed))
            continue
        position, values = column.positions[0], matrix[:, column.positions[0]]
        if column.fill is not None:
            indicator = column.positions[1]
            grids.append(Grid(indicator, np.unique(matrix[:, indicator])))
            gaps.append(Gap(position, indicator, column.fill))
            values = values[matrix[:, indicator] == 0.0]
            if not len(values):
                continue
        if column.kind != "real" or column.name in always or rows.takes_levels(values):
            # adding 0 makes one number of 0.0 and -0.0
            grids.append(Grid(position, np.unique(values + 0.0)))
    return Levels(tuple(grids), tuple(blocks), tuple(gaps))


class _Rows:
    """The rows of a table, counted where a column's values are few."""

    def __init__(self, matrix: Floats) -> None:
        self.matrix = matrix

    @cached_property
    def n_different(self) -> int:
        if len(self.matrix) > rows_in_blocks.LARGE_ROWS:
            return len(np.unique(_row_hashes(self.matrix)))
        rows = np.ascontiguousarray(self.matrix + 0.0)
        width = rows.dtype.itemsize * rows.shape[1]
        return len(np.unique(rows.view(np.dtype((np.void, width)))))

    def takes_levels(self, values: Floats) -> bool:
        """Return whether the numbers of a column are whole, or take few values."""
        if np.all(np.rint(values) == values) and np.abs(values).max() < LARGEST_WHOLE:
            return True
        most = max(FEW_VALUES, len(values) // ROWS_PER_VALUE)
        # Some of the rows may do to see that values are many.
        if len(np.unique(values[: most + 1])) > most:
            return False
        count = len(np.unique(values))
        return count <= FEW_VALUES or (
            count <= most and count <= self.n_different // ROWS_PER_VALUE
        )


def _row_hashes(matrix: Floats) -> NDArray[np.uint64]:
    """Return a number of 64 bits for each row: equal rows share it, others do so by chance.

    By SplitMix64 of every value and its column. Of a million different rows two share one in 1 of
    37 million tables, and then one row less is counted.
    """
    found = np.empty(len(matrix), dtype=np.uint64)
    keys = np.random.SeedSequence(0).generate_state(matrix.shape[1], np.uint64)
    for start in range(0, len(matrix), BLOCK_ROWS):
        # adding 0 makes one number of 0.0 and -0.0
        block = np.ascontiguousarray(matrix[start : start + BLOCK_ROWS] + 0.0).view(np.uint64)
        found[start : start + len(block)] = splitmix(block + keys).sum(axis=1, dtype=np.uint64)
    return found
