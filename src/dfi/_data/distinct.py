"""How many different values columns take, and how many rows differ, as sums over rows.

Whether a column of numbers has levels (:mod:`dfi._data.levels`) depends on its different values and
on the number of different rows. In a large table, wherever it is, both are counted as far as they
matter: a column of more than :data:`MOST_VALUES` different numbers (:data:`MOST_WHOLE` where all
are whole) has no levels, and more than :data:`MOST_ROWS` different rows are enough for any column
that has fewer values. What is kept is the same however the table is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._data.levels import (
    FEW_VALUES,
    LARGEST_WHOLE,
    ROWS_PER_VALUE,
    Block,
    Gap,
    Grid,
    Levels,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from dfi._data.columns import Column
    from dfi._types import Bools, Floats, Ints

    Hashes = NDArray[np.uint64]

MOST_VALUES = 4096
"""Different numbers beyond which a column of a large table has no levels: its law has no more."""

MOST_WHOLE = 65_536
"""The same for whole numbers, which are levels whether or not rows repeat them."""

MOST_ROWS = ROWS_PER_VALUE * MOST_VALUES
"""Different rows that are enough for a column of :data:`MOST_VALUES` values."""

BLOCK_ROWS = 65_536


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

    def levels(self, rows: Rows, *, always: bool) -> Floats | None:
        if self.found is None or not len(self.found):
            return None
        if always or (self.whole and np.abs(self.found).max() < LARGEST_WHOLE):
            return self.found
        count = len(self.found)
        most = max(FEW_VALUES, self.count // ROWS_PER_VALUE)
        enough = count <= most and count <= rows.count // ROWS_PER_VALUE
        return self.found if count <= FEW_VALUES or enough else None


@dataclass(frozen=True, eq=False)
class Rows:
    """The different rows of a table, by numbers made of them; None where they are enough."""

    found: Hashes | None

    @classmethod
    def of(cls, hashes: Hashes) -> Rows:
        if len(hashes) > 2 * MOST_ROWS and len(np.unique(hashes[: MOST_ROWS + 1])) > MOST_ROWS:
            return cls(None)
        return cls(np.unique(hashes))._bounded()

    def merge(self, other: Rows) -> Rows:
        if self.found is None or other.found is None:
            return Rows(None)
        return Rows(np.union1d(self.found, other.found))._bounded()

    def _bounded(self) -> Rows:
        return Rows(None) if self.found is not None and len(self.found) > MOST_ROWS else self

    @property
    def count(self) -> int:
        """How many they are; :data:`MOST_ROWS` where they are more."""
        return MOST_ROWS if self.found is None else len(self.found)


class ColumnValues(NamedTuple):
    """What a column takes in the rows that count: different numbers, or codes of levels."""

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
            total += mixed(column + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15))
        return mixed(total)


def mixed(z: Hashes) -> Hashes:
    """Return numbers with their bits mixed, one to one (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def number_bits(numbers: Floats) -> Hashes:
    """Return the bits of numbers, those of 0 and of NaN always the same."""
    return np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.uint64)


def levels_of(
    columns: Sequence[Column],
    found: Sequence[ColumnValues],
    rows: Rows,
    *,
    always: Collection[str] = (),
) -> Levels:
    """Return the levels of a large table's columns, by the rules of :func:`read_levels`."""
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


def summed_levels(
    matrix: Floats, columns: Sequence[Column], present: Bools | None = None
) -> Levels:
    """Return the levels of a large table in memory, without a copy of it."""
    found: list[ColumnValues] | None = None
    rows = Rows(np.empty(0, dtype=np.uint64))
    for start in range(0, len(matrix), BLOCK_ROWS):
        block = matrix[start : start + BLOCK_ROWS]
        if present is not None:
            block = block[present[start : start + BLOCK_ROWS]]
        here = [_found(block, column) for column in columns]
        found = here if found is None else [a.merge(b) for a, b in zip(found, here, strict=True)]
        if rows.found is not None:
            bits = (number_bits(block[:, j]) for j in range(block.shape[1]))
            rows = rows.merge(Rows.of(hashed(bits, len(block))))
    return levels_of(columns, found or [], rows)


def _found(block: Floats, column: Column) -> ColumnValues:
    numbers = block[:, column.positions[0]]
    if column.kind == "categorical":
        if column.width > 1:
            return ColumnValues(codes=np.flatnonzero(block[:, list(column.positions)].any(axis=0)))
        return ColumnValues(codes=np.unique(numbers).astype(np.intp))
    if column.fill is None:
        return ColumnValues(Values.of(numbers))
    seen = block[:, column.positions[1]] == 0.0
    return ColumnValues(Values.of(numbers[seen]), n_missing=int(np.count_nonzero(~seen)))
