"""The rows of a table in parts, as numbers: blocks of them, sums over them, some of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from dfi._data.columns import Column
from dfi._data.source import (
    BLOCK_ROWS,
    SAMPLE_ROWS,
    SAMPLE_SEED,
    Mergeable,
    RowBlock,
    RowSource,
    sampled_places,
)
from dfi._data.streams.parts import CHANGED, merged, open_part, unwatched
from dfi._data.streams.schema import check_names, kept_rows, read_mass
from dfi._data.table import encoded
from dfi._data.weights import Weights
from dfi._parameters import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfi._data.columns import Reading
    from dfi._data.outcome import OutcomeRule
    from dfi._data.source import Partial
    from dfi._data.streams.parts import Partitions, Watch
    from dfi._data.streams.schema import Roles, SchemaState
    from dfi._data.weights import WeightKind
    from dfi._types import Floats, Frame, Ints

State = TypeVar("State", bound=Mergeable)


def columns_of(state: SchemaState) -> tuple[Column, ...]:
    """Return the columns that all rows together make."""
    columns: list[Column] = []
    width = 0
    for own in state.columns:
        kind = own.kind or "real"
        levels = own.ordered_levels() if kind == "categorical" else ()
        fill = None if kind == "categorical" else own.fill()
        size = len(levels) if len(levels) > 2 else 1 if fill is None else 2
        columns.append(
            Column(
                name=own.name,
                label=own.label,
                kind=kind,
                levels=levels,
                positions=tuple(range(width, width + size)),
                dtype=own.dtype,
                fill=fill,
                gap=own.gap,
            )
        )
        width += size
    return tuple(columns)


@dataclass(frozen=True, eq=False)
class OutcomeBlock(RowBlock):
    """Rows with their outcome: quantities, or the numbers of their classes."""

    y: Floats


@dataclass(frozen=True, eq=False)
class Encoder:
    """How the rows of a part become numbers; it goes to where the part is."""

    columns: tuple[Column, ...]
    roles: Roles
    rule: OutcomeRule
    scale: float = 1.0

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return sum(column.width for column in self.columns)

    def blocks(self, part: Frame, first: int, name: str) -> Iterator[OutcomeBlock]:
        """Yield the rows of a part, the first of them in a place of the table."""
        opened, roles = open_part(part), self.roles
        check_names(opened, roles, name)
        for start in range(0, opened.n_rows, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, opened.n_rows)
            readings = [opened.read(column, start, stop) for column in roles.features]
            kept = kept_rows(readings, roles)
            target = opened.read(roles.target, start, stop)
            mass = read_mass(opened, roles, start, stop)
            if kept is not None:
                places = np.flatnonzero(kept)
                readings = [reading.take(places) for reading in readings]
                target, mass = target.take(places), mass[places]
            matrix = np.empty((len(mass), self.width))
            for column, reading in zip(self.columns, readings, strict=True):
                matrix[:, list(column.positions)] = _numbers(column, reading, name)
            y = self.rule.values(target)
            yield OutcomeBlock(matrix, mass * self.scale, first, y)
            first += len(mass)


def _numbers(column: Column, reading: Reading, part: str) -> Floats:
    if column.kind == "categorical" and reading.gaps.all():
        # what is wholly missing in a part does not say what it would be
        reading = replace(
            reading,
            kind="categorical",
            numbers=None,
            values=[None] * len(reading),
            missing=reading.gaps,
        )
    changed = (column.kind == "categorical") != (reading.numbers is None)
    if changed or (not column.missing and reading.gaps.any()):
        raise ValueError(f"column {column.name!r} of {part} {CHANGED}")
    return encoded(column, reading)


@dataclass(frozen=True, eq=False)
class Counted(Generic[State]):
    """A state, and of how many rows: all passes must see the same ones."""

    count: int
    state: State

    def merge(self, other: Counted[State]) -> Counted[State]:
        """Return the state of the rows of both."""
        return Counted(self.count + other.count, self.state.merge(other.state))


@dataclass(frozen=True, eq=False)
class BlockWork(Generic[State]):
    """Take the state of a part's rows, block by block."""

    encoder: Encoder
    partial: Partial[State]

    def __call__(self, part: Frame, first: int, name: str) -> tuple[int, Counted[State] | None]:
        """Work on a part."""
        total: State | None = None
        used = 0
        for block in self.encoder.blocks(part, first, name):
            if len(block.mass):
                total = merged(total, self.partial(block))
                used += len(block.mass)
        return used, None if total is None else Counted(used, total)


class Rows(NamedTuple):
    """Some rows of a table: their places, numbers, weights and outcomes."""

    places: Ints
    matrix: Floats
    mass: Floats
    y: Floats

    def at(self, places: Ints) -> Rows:
        """Return those in some of the places, ascending."""
        rows = np.searchsorted(self.places, places)
        return Rows(places, self.matrix[rows], self.mass[rows], self.y[rows])


@dataclass(frozen=True)
class Gathered:
    """Rows in pieces, so that many are put together only once."""

    pieces: tuple[Rows, ...]

    def merge(self, other: Gathered) -> Gathered:
        """Return the rows of both; ``other`` comes after."""
        return Gathered((*self.pieces, *other.pieces))

    def rows(self) -> Rows:
        """Return all of them, in the order of the table."""
        return Rows(*(np.concatenate(arrays) for arrays in zip(*self.pieces, strict=True)))


@dataclass(frozen=True, eq=False)
class Gather:
    """Keep the rows of a block that stand in some places, ascending (None: all)."""

    places: Ints | None

    def __call__(self, block: RowBlock) -> Gathered:
        """Return those rows."""
        if not isinstance(block, OutcomeBlock):
            raise TypeError("rows are gathered with their outcome")
        here = np.arange(block.first, block.first + len(block.mass), dtype=np.intp)
        if self.places is not None:
            low, high = np.searchsorted(self.places, [block.first, block.first + len(block.mass)])
            here = self.places[low:high]
        rows = here - block.first
        return Gathered((Rows(here, block.matrix[rows], block.mass[rows], block.y[rows]),))


@dataclass(frozen=True, eq=False)
class StreamedSource(RowSource):
    """The rows of a table in parts."""

    partitions: Partitions
    encoder: Encoder
    starts: Ints
    n_rows: int
    total: float
    watch: Watch = field(default=unwatched)
    _kept: list[Rows] = field(default_factory=list, repr=False)

    @property
    def width(self) -> int:
        """How many numbers each row has."""
        return self.encoder.width

    @property
    def kind(self) -> WeightKind:
        """What the weights mean."""
        return self.encoder.roles.kind

    def blocks(self) -> Iterator[RowBlock]:
        """Refuse to bring all rows here."""
        raise TypeError(f"{self.partitions.what} cannot be loaded into memory")

    def reduce(self, partial: Partial[State], label: str = "") -> State:
        """Return the merged state of all rows."""
        work = BlockWork(self.encoder, partial)
        found = self.partitions.reduce(
            work,
            self.encoder.roles.columns,
            starts=self.starts,
            label=label or "reading rows",
            watch=self.watch,
        )
        if found is None or found.count != self.n_rows:
            raise ValueError(f"{TABLE} {CHANGED}")
        return found.state

    def gather(self, places: Ints | None) -> Rows:
        """Return the rows in some places, ascending (None: all), with weights and outcomes."""
        if places is None:
            return self.reduce(Gather(None), "gathering rows").rows()
        sample = sampled_places(self.n_rows, SAMPLE_ROWS, np.random.SeedSequence(SAMPLE_SEED))
        found = self.reduce(Gather(np.union1d(places, sample)), "gathering rows").rows()
        self._keep(found.at(sample))
        return found.at(places)

    def take(self, places: Ints) -> tuple[Floats, Weights]:
        """Return the rows in some places, ascending, and their weights."""
        for rows in self._kept:
            if np.isin(places, rows.places, assume_unique=True).all():
                found = rows.at(places)
                break
        else:
            found = self.reduce(Gather(places), "gathering rows").rows()
            self._keep(found)
        return found.matrix, Weights(found.mass, self.kind)

    def _keep(self, rows: Rows) -> None:
        # asked for again by every refit; anything larger would not be a sample
        if len(rows.places) <= SAMPLE_ROWS:
            self._kept.append(rows)
