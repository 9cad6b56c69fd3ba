"""A table in parts, and sums over its rows, part by part."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import narwhals as nw
import numpy as np

from dfi._data.columns import Column, Reading, read_array_column, read_column
from dfi._data.frames import Library, open_frame, refuse_duplicates
from dfi._data.source import Mergeable
from dfi._streams.keys import Digest, Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dfi._types import Advance, Array, Frame, Ints, Native

    Watch: TypeAlias = Callable[[str, int], AbstractContextManager[Advance | None]]
    """Shows a label and how many parts are done, if someone watches."""

    Pass: TypeAlias = Callable[[int], AbstractContextManager[Advance | None]]
    """The same of one pass over the rows, whose label is known."""

BATCH_ROWS = 65_536
"""Rows of files, lazy frames and relations that are read at a time."""

State = TypeVar("State", bound=Mergeable)
Answer = TypeVar("Answer", bound=Mergeable, covariant=True)


def unwatched(label: str, total: int) -> AbstractContextManager[None]:
    del label, total
    return nullcontext()


@dataclass(frozen=True, eq=False)
class ArrayPart:
    matrix: Array
    others: Mapping[str, Array] = field(default_factory=dict)


class Work(Protocol[Answer]):
    """A picklable function of a part, without callbacks."""

    def __call__(self, part: Frame, first: int, name: str) -> tuple[int, Answer | None]: ...


@dataclass(frozen=True, eq=False)
class Opened:
    labels: Mapping[str, object]
    columns: Mapping[str, Native]
    n_rows: int

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Reading:
        column, rows = self.columns[name], slice(start, self.n_rows if stop is None else stop)
        if isinstance(column, np.ndarray):
            return read_array_column(name, column[rows])
        return read_column(self.labels[name], column[rows])

    def holds_numbers(self, name: str) -> bool:
        column = self.columns[name]
        if isinstance(column, np.ndarray):
            return column.dtype.kind in "fiub"
        kind = column.dtype
        return bool(kind.is_numeric() or kind == nw.Boolean)


def open_part(part: Frame) -> Opened:
    if isinstance(part, ArrayPart):
        columns = {f"x{j}": part.matrix[:, j] for j in range(part.matrix.shape[1])}
        found: dict[str, Native] = {**columns, **part.others}
        return Opened(dict(zip(found, found, strict=True)), found, len(part.matrix))
    opened = open_frame(part)
    if opened is None:
        raise TypeError(f"a part of X is a {type(part).__name__}, not a frame.")
    _, labels, series, _ = opened
    names = [str(label) for label in labels]
    refuse_duplicates(names)
    count = len(series[0]) if series else 0
    return Opened(
        dict(zip(names, labels, strict=True)), dict(zip(names, series, strict=True)), count
    )


def plain_frame(batch: Native, names: list[str], library: Library) -> Frame:
    table = plain_table(importlib.import_module("pyarrow").Table.from_batches([batch]), names)
    return importlib.import_module("polars").from_arrow(table) if library == "polars" else table


def plain_table(table: Native, names: list[str]) -> Native:
    types = importlib.import_module("pyarrow").types
    table = table.select(names)
    for place, column in enumerate(table.schema):
        if types.is_dictionary(column.type):
            plain = table.column(place).cast(column.type.value_type)
            table = table.set_column(place, column.name, plain)
    return table


def tables(batches: Iterable[Native], names: Sequence[str]) -> Iterator[Native]:
    """Yield batches of Arrow regrouped into tables of some size, at least one."""
    pa = importlib.import_module("pyarrow")
    held: list[Native] = []
    count, yielded = 0, False
    for batch in batches:
        held.append(batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch]))
        count += batch.num_rows
        if count >= BATCH_ROWS:
            table = plain_table(pa.concat_tables(held), list(names))
            for start in range(0, count, BATCH_ROWS):
                yield table.slice(start, BATCH_ROWS)
            held, count, yielded = [], 0, True
    if held:
        yield plain_table(pa.concat_tables(held), list(names))
    elif not yielded:
        yield pa.table({name: pa.nulls(0) for name in names})


class Partitions(ABC):
    """A table in parts, each of them a frame, in an order."""

    what: str
    library: Library
    labels: Mapping[str, object]

    @property
    def ordered(self) -> bool:
        return True

    @abstractmethod
    def reduce(
        self, work: Work[State], columns: Sequence[str], watch: Pass, starts: Ints | None = None
    ) -> State | None: ...

    def header(self, features: Sequence[str]) -> object:
        del features
        return None

    def dtype(self, column: Column) -> object:
        return column.dtype


class InOrder(Partitions):
    @property
    def witness(self) -> Witness | None:
        """Compares each read with the first, if rows may come in another order."""
        return None

    @property
    def ordered(self) -> bool:
        return self.witness is None or not self.witness.moved

    @abstractmethod
    def frames(self, columns: Sequence[str]) -> Iterator[tuple[str, Frame]]: ...

    def reduce(
        self, work: Work[State], columns: Sequence[str], watch: Pass, starts: Ints | None = None
    ) -> State | None:
        total: State | None = None
        first, witness = 0, self.witness
        seen = Digest()
        with watch(self.total(starts)) as advance:
            for name, frame in self.frames(columns):
                used, state = work(frame, first, name)
                if witness is not None:
                    seen = seen.merge(Digest.of(open_part(frame), columns, seen.rows))
                first += used
                total = merged(total, state)
                if advance is not None:
                    advance(1)
        if witness is not None:
            witness.compare(columns, seen)
        return total

    def total(self, starts: Ints | None) -> int:
        return 0 if starts is None else len(starts)


def merged(one: State | None, other: State | None) -> State | None:
    if one is None or other is None:
        return other if one is None else one
    return one.merge(other)
