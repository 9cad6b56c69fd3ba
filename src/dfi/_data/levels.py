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
at most 10 different values, or of at most one value per five different rows. Both are counted as
far as they matter, as sums over rows that are the same however the table is cut: a column of more
than :data:`MOST_VALUES` different numbers (:data:`MOST_WHOLE` where all are whole) has no levels,
and more than :data:`MOST_ROWS` different rows are enough for any column that has fewer values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._data.source import BLOCK_ROWS, splitmix

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfi._data.columns import Column
    from dfi._types import Bools, Floats, Ints

    Hashes = NDArray[np.uint64]

FEW_VALUES = 10
ROWS_PER_VALUE = 5
LARGEST_WHOLE = 2.0**40
"""Every number from 2**52 on is whole, so a large value does not show that a column is a count."""

TIE = 1e-9
"""What a level gives way to the one before it: levels that are equally frequent tie along whole
lines, where rounding must not decide."""

BEYOND = 1e50
"""A threshold that no row reaches; finite, because kernels multiply it."""

MOST_VALUES = 4096
"""With more different numbers, a column of a large table has no levels: its law has no more."""

MOST_WHOLE = 65_536
"""The same for whole numbers, which are levels whether or not rows repeat them."""

MOST_ROWS = ROWS_PER_VALUE * MOST_VALUES
"""Number of different rows that suffice for a column of :data:`MOST_VALUES` values."""


@dataclass(frozen=True, eq=False)
class Grid:
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
        r"""Move thresholds to midpoints between levels, where nearest levels decide alike."""
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
    """The two matrix columns of a numeric column with missing values."""

    value: int
    indicator: int
    fill: float


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels of ``grids`` (one number), ``blocks`` (categories) and ``gaps`` (missing values)."""

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
    return spans_nothing(*extremes(matrix, rows))


def spans_nothing(low: Floats, high: Floats) -> Bools:
    """Return where two ends are the same number, up to rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = high - low
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.asarray(spread <= 16 * np.finfo(np.float64).eps * largest)


def extremes(matrix: Floats, rows: Ints | None = None) -> tuple[Floats, Floats]:
    count = len(matrix) if rows is None else len(rows)
    low, high = np.full(matrix.shape[1], np.inf), np.full(matrix.shape[1], -np.inf)
    for start in range(0, max(count, 1), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        block = matrix[part] if rows is None else matrix[rows[part]]
        np.minimum(low, block.min(axis=0), out=low)
        np.maximum(high, block.max(axis=0), out=high)
    return low, high


@dataclass(frozen=True, eq=False)
class Values:
    found: Floats | None
    whole: bool
    count: int

    @classmethod
    def of(cls, numbers: Floats) -> Values:
        whole = bool(np.all(np.rint(numbers) == numbers))
        most = MOST_WHOLE if whole else MOST_VALUES
        # some of the rows may do to see that values are many
        if len(numbers) > 2 * most and len(np.unique(numbers[: most + 1])) > most:
            return cls(None, whole, len(numbers))
        # adding 0 makes one number of 0.0 and -0.0
        return cls(np.unique(numbers + 0.0), whole, len(numbers))._bounded()

    def merge(self, other: Values) -> Values:
        whole, count = self.whole and other.whole, self.count + other.count
        if self.found is None or other.found is None:
            return Values(None, whole, count)
        if len(self.found) == len(other.found) and np.array_equal(self.found, other.found):
            return Values(self.found, whole, count)
        return Values(np.union1d(self.found, other.found), whole, count)._bounded()

    def _bounded(self) -> Values:
        most = MOST_WHOLE if self.whole else MOST_VALUES
        if self.found is not None and len(self.found) > most:
            return Values(None, self.whole, self.count)
        return self

    def levels(self, rows: Callable[[], int], *, always: bool) -> Floats | None:
        if self.found is None or not len(self.found):
            return None
        if always or (self.whole and np.abs(self.found).max() < LARGEST_WHOLE):
            return self.found
        count = len(self.found)
        most = max(FEW_VALUES, self.count // ROWS_PER_VALUE)
        few = count <= FEW_VALUES or (count <= most and count <= rows() // ROWS_PER_VALUE)
        return self.found if few else None


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """The different rows of a table, by numbers made of them; None where they are enough."""

    found: Hashes | None

    @classmethod
    def of(cls, hashes: Hashes) -> DistinctRows:
        if len(hashes) > 2 * MOST_ROWS and len(np.unique(hashes[: MOST_ROWS + 1])) > MOST_ROWS:
            return cls(None)
        return cls(np.unique(hashes))._bounded()

    def merge(self, other: DistinctRows) -> DistinctRows:
        if self.found is None or other.found is None:
            return DistinctRows(None)
        return DistinctRows(np.union1d(self.found, other.found))._bounded()

    def _bounded(self) -> DistinctRows:
        return (
            DistinctRows(None) if self.found is not None and len(self.found) > MOST_ROWS else self
        )

    @property
    def count(self) -> int:
        return MOST_ROWS if self.found is None else len(self.found)


class ColumnValues(NamedTuple):
    """The values of a column in rows that count: different numbers, or codes of levels."""

    values: Values | None = None
    codes: Ints | None = None
    n_missing: int = 0

    def merge(self, other: ColumnValues) -> ColumnValues:
        values = self.values
        if values is not None and other.values is not None:
            values = values.merge(other.values)
        codes = self.codes
        if codes is not None and other.codes is not None:
            codes = np.union1d(codes, other.codes)
        return ColumnValues(values, codes, self.n_missing + other.n_missing)


def hashed(columns: Iterable[Hashes], n_rows: int) -> Hashes:
    """Return one number for each row of some columns, different for rows that differ."""
    total = np.zeros(n_rows, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for number, column in enumerate(columns):
            total += splitmix(column + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15))
        return splitmix(total)


def number_bits(numbers: Floats) -> Hashes:
    """Return the bits of numbers, those of 0 and of NaN always the same."""
    return np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.uint64)


def levels_of(
    columns: Sequence[Column],
    found: Sequence[ColumnValues],
    rows: Callable[[], int],
    always: Collection[str] = (),
) -> Levels:
    grids: list[Grid] = []
    blocks: list[Block] = []
    gaps: list[Gap] = []
    for column, own in zip(columns, found, strict=True):
        position = column.positions[0]
        if own.codes is not None:
            if column.width > 1:
                positions = np.array(column.positions, dtype=np.intp)
                blocks.append(Block(positions, positions[own.codes]))
            else:
                grids.append(Grid(position, own.codes.astype(np.float64)))
            continue
        values = own.values or Values(None, False, 0)
        if column.fill is not None:
            here = [0.0] * (values.count > 0) + [1.0] * (own.n_missing > 0)
            grids.append(Grid(column.positions[1], np.array(here)))
            gaps.append(Gap(position, column.positions[1], column.fill))
        known = values.levels(rows, always=column.kind != "real" or column.name in always)
        if known is not None:
            grids.append(Grid(position, known))
    return Levels(tuple(grids), tuple(blocks), tuple(gaps))


def read_levels(
    matrix: Floats,
    columns: Sequence[Column],
    *,
    always: Collection[str] = (),
    present: Bools | None = None,
) -> Levels:
    """Find the levels of columns, in blocks of the ``present`` rows; those of ``always`` all."""
    found = [ColumnValues() for _ in columns]
    for number, block in enumerate(_blocks(matrix, present)):
        here = [_found(block, column) for column in columns]
        found = [a.merge(b) for a, b in zip(found, here, strict=True)] if number else here
    for k, column in enumerate(columns):
        if column.name in always and found[k].values is not None:
            own = [_seen(block, column)[0] for block in _blocks(matrix, present)]
            every = np.unique(np.concatenate(own) + 0.0)
            found[k] = found[k]._replace(values=Values(every, False, sum(map(len, own))))
    return levels_of(columns, found, cache(lambda: different_rows(matrix, present)), always)


def different_rows(matrix: Floats, present: Bools | None = None) -> int:
    rows = DistinctRows(np.empty(0, dtype=np.uint64))
    for block in _blocks(matrix, present):
        if rows.found is not None:
            bits = (number_bits(block[:, j]) for j in range(block.shape[1]))
            rows = rows.merge(DistinctRows.of(hashed(bits, len(block))))
    return rows.count


def _blocks(matrix: Floats, present: Bools | None) -> Iterator[Floats]:
    for start in range(0, len(matrix), BLOCK_ROWS):
        block = matrix[start : start + BLOCK_ROWS]
        yield block if present is None else block[present[start : start + BLOCK_ROWS]]


def _seen(block: Floats, column: Column) -> tuple[Floats, int]:
    numbers = block[:, column.positions[0]]
    if column.fill is None:
        return numbers, 0
    seen = block[:, column.positions[1]] == 0.0
    return numbers[seen], int(np.count_nonzero(~seen))


def _found(block: Floats, column: Column) -> ColumnValues:
    if column.kind == "categorical":
        if column.width > 1:
            return ColumnValues(codes=np.flatnonzero(block[:, list(column.positions)].any(axis=0)))
        return ColumnValues(codes=np.unique(block[:, column.positions[0]]).astype(np.intp))
    numbers, missing = _seen(block, column)
    return ColumnValues(Values.of(numbers), n_missing=missing)
