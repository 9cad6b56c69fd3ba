"""Row identity in a table without an order: numbers computed from its values or its key.

Rows that come in the same order at every read are known by their places, as in memory. Others are
known by a *key*: a whole number that a column holds, else 63 bits of a hash of the column
``row_id``, else of all columns. Samples are drawn by tickets of keys, as they are by tickets of
places, so they depend neither on the order of the rows nor on how the table is cut.
"""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from dfi._data.frames import as_series, split_column
from dfi._data.levels import hashed, number_bits
from dfi._data.source import splitmix, tickets
from dfi._parameters import TABLE, argument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfi._data.levels import Hashes
    from dfi._streams.parts import Opened
    from dfi._types import Frame, Ints, Native

CHANGED = "changed after it was first read: do not change the data before the call returns"
"""The message for data that change between two passes."""

STEP = np.uint64(0x9E3779B97F4A7C15)

MOST_COPIES = 1.1
"""How often the row of a drawn row may occur on average: copies are drawn together, and errors
that count them as independent are too small by the root of this."""


def content(opened: Opened, names: Sequence[str]) -> Hashes:
    """Return a number for each row, computed from some of its values; equal rows agree."""
    return hashed((_bits(_arrow(opened.columns[name])) for name in names), opened.n_rows)


def keys_of(opened: Opened, names: Sequence[str], row_id: str | None) -> Ints:
    if row_id is None:
        return (content(opened, names) >> np.uint64(1)).astype(np.intp)
    return column_keys(opened.columns[row_id], row_id)


def column_keys(column: Native, row_id: str) -> Ints:
    values = _arrow(column)
    if values.null_count:
        raise ValueError(
            f"{argument('row_id', row_id)} has missing values, but it must identify every row: "
            "name a column without missing values"
        )
    types = importlib.import_module("pyarrow").types
    if types.is_integer(values.type) and not types.is_uint64(values.type):
        return np.asarray(values.cast("int64").to_numpy(zero_copy_only=False), dtype=np.intp)
    return (splitmix(_bits(values)) >> np.uint64(1)).astype(np.intp)


def _arrow(column: Native) -> Native:
    pa = importlib.import_module("pyarrow")
    found = pa.array(column) if isinstance(column, np.ndarray) else column.to_arrow()
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if isinstance(found, pa.ChunkedArray):  # of no chunk, in older versions
        found = pa.concat_arrays(found.chunks) if found.chunks else pa.array([], found.type)
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def _bits(values: Native) -> Hashes:
    types = importlib.import_module("pyarrow").types
    kind = values.type
    if types.is_boolean(kind):
        values, kind = values.cast("int8"), None
    if kind is None or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        # as float64, whatever width a library gives to whole numbers
        return number_bits(values.cast("float64", safe=False).to_numpy(zero_copy_only=False))
    coded = values.dictionary_encode()
    made = [
        int.from_bytes(hashlib.blake2b(_bytes(value), digest_size=8).digest())
        for value in coded.dictionary.to_pylist()
    ]
    table = np.array([*made, 0], dtype=np.uint64)
    places = coded.indices.fill_null(len(made)).to_numpy(zero_copy_only=False)
    return np.asarray(table[places.astype(np.intp)])


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Digest:
    """A digest of one read of a table: its rows, and sums of their content and order."""

    rows: int = 0
    content: int = 0
    order: int = 0

    @classmethod
    def of(cls, opened: Opened, names: Sequence[str], first: int, number: int = 0) -> Digest:
        bits = content(opened, names)
        with np.errstate(over="ignore"):
            places = np.arange(first + 1, first + 1 + len(bits), dtype=np.uint64) * STEP
            placed = splitmix(bits + places + splitmix(np.array([number + 1], dtype=np.uint64)))
            sums = int(np.sum(bits)), int(np.sum(placed))
        return cls(opened.n_rows, *sums)

    def merge(self, other: Digest) -> Digest:
        return Digest(
            self.rows + other.rows,
            (self.content + other.content) % 2**64,
            (self.order + other.order) % 2**64,
        )


@dataclass
class Witness:
    """Remembers the digests of the first reads of a table, and compares later ones."""

    first: dict[tuple[str, ...], Digest] = field(default_factory=dict)
    moved: bool = False

    def compare(self, columns: Sequence[str], seen: Digest) -> None:
        known = self.first.setdefault(tuple(columns), seen)
        if known.rows and not seen.rows:
            raise ValueError(
                f"{TABLE} can be read only once, but it is read several times: pass what it is "
                "read from (a relation, a query, files), or a table in memory"
            )
        if (known.rows, known.content) != (seen.rows, seen.content):
            raise ValueError(f"{TABLE} {CHANGED}")
        self.moved |= known.order != seen.order


@dataclass(frozen=True, eq=False)
class Drawn:
    """The keys of smallest tickets, ascending, with row counts; any order of merges agrees."""

    count: int
    keys: Ints
    copies: Ints
    tickets: NDArray[np.uint64]

    @classmethod
    def of(cls, keys: Ints, count: int, seed: np.random.SeedSequence, share: float) -> Drawn:
        """Draw among the keys of some rows, only tickets below a share of all."""
        found, copies = np.unique(keys, return_counts=True)
        dealt = tickets(found, seed)
        if share < 1.0:
            low = dealt < np.uint64(share * 2.0**64)
            found, copies, dealt = found[low], copies[low], dealt[low]
        return cls(count, found, copies, dealt)._trimmed()

    def merge(self, other: Drawn) -> Drawn:
        found, first, back = np.unique(
            np.concatenate([self.keys, other.keys]), return_index=True, return_inverse=True
        )
        copies = np.bincount(back, np.concatenate([self.copies, other.copies]), len(found))
        dealt = np.concatenate([self.tickets, other.tickets])[first]
        return Drawn(self.count, found, copies.astype(np.intp), dealt)._trimmed()

    def _trimmed(self) -> Drawn:
        order = np.argsort(self.tickets)
        enough = int(np.searchsorted(np.cumsum(self.copies[order]), self.count)) + 1
        kept = order[:enough]
        return Drawn(self.count, self.keys[kept], self.copies[kept], self.tickets[kept])

    @property
    def rows(self) -> int:
        return int(self.copies.sum())

    def check(self, row_id: str | None) -> None:
        if row_id is not None and self.copies.max(initial=1) > 1:
            raise duplicate(row_id)
        if self.rows and float(self.copies @ self.copies) > MOST_COPIES * self.rows:
            raise ValueError(
                f"rows of {TABLE} change their order at each read and are too similar to identify "
                f"by their values ({len(self.keys):,} different among {self.rows:,}): name a "
                f"column of ids, {argument('row_id', ...)}, or pass counts of identical rows, "
                f"{argument('frequency_weight', ...)}"
            )


def duplicate(row_id: str) -> ValueError:
    return ValueError(
        f"{argument('row_id', row_id)} has the same value in several rows, but it must identify "
        "rows: name a column whose values are all different"
    )


def unique_keys(keys: Ints) -> Ints:
    """Return sorted keys, those of copies counted on."""
    if len(keys) < 2 or (np.diff(keys) > 0).all():
        return keys
    # cumulative maximum of keys - place: each at least one above the one before
    places = np.arange(len(keys))
    return np.asarray(np.maximum.accumulate(keys - places) + places)


def sorted_by_key(X: Frame, row_id: str, given: Mapping[str, object]) -> Frame:
    for role in ("y", "sample_weight", "frequency_weight", "clusters"):
        if given.get(role) is not None and not isinstance(given[role], str):
            raise TypeError(
                f"{argument('row_id', row_id)} puts the rows of {TABLE} in order, but {role} is a "
                f"{type(given[role]).__name__} beside it: name a column of {TABLE}, "
                f"{argument(role, ...)}"
            )
    rest, column = split_column(X, row_id, "row_id", "the rows")
    keys = column_keys(as_series(column), row_id)
    order = np.argsort(keys, kind="stable")
    if (np.diff(keys[order]) == 0).any():
        raise duplicate(row_id)
    return rows_at(rest, order)


def rows_at(frame: Frame, rows: Ints) -> Frame:
    if nw.dependencies.is_pandas_dataframe(frame):
        return frame.iloc[rows]
    return frame[rows] if nw.dependencies.is_polars_dataframe(frame) else frame.take(rows)
