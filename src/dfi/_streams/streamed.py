"""The rows of a table in parts, as numbers: blocks, sums and samples."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from dfi._data.columns import Column, Reading, laid_out
from dfi._data.source import (
    BLOCK_ROWS,
    SAMPLE_ROWS,
    SAMPLE_SEED,
    Mergeable,
    Partial,
    RowBlock,
    RowSource,
    sampled_places,
)
from dfi._data.table import encoded
from dfi._data.weights import WeightKind, Weights
from dfi._parameters import TABLE
from dfi._streams.keys import CHANGED, Drawn, duplicate, unique_keys
from dfi._streams.parts import merged, open_part, unwatched
from dfi._streams.schema import Roles, SchemaState, check_names, kept_rows, read_mass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfi._data.outcome import OutcomeRule
    from dfi._streams.parts import Partitions, Watch, Work
    from dfi._types import Floats, Frame, Ints

State = TypeVar("State", bound=Mergeable)
Seen = TypeVar("Seen", bound="Counted[Any] | Draws")


def columns_of(state: SchemaState) -> tuple[Column, ...]:
    return laid_out(
        Column(
            name=own.name,
            label=own.label,
            kind=own.kind or "real",
            levels=own.ordered_levels() if own.kind == "categorical" else (),
            dtype=own.dtype,
            fill=None if own.kind == "categorical" else own.fill(),
            gap=own.gap,
        )
        for own in state.columns
    )


@dataclass(frozen=True, eq=False)
class OutcomeBlock(RowBlock):
    y: Floats
    keys: Ints | None = None

    @property
    def places(self) -> Ints:
        return super().places if self.keys is None else self.keys


@dataclass(frozen=True, eq=False)
class Encoder:
    """How the rows of a part become numbers; sent to where the part is."""

    columns: tuple[Column, ...]
    roles: Roles
    rule: OutcomeRule
    scale: float = 1.0

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)

    def blocks(self, part: Frame, first: int, name: str) -> Iterator[OutcomeBlock]:
        opened, roles = open_part(part), self.roles
        check_names(opened, roles, name)
        every = roles.keys(opened)
        for start in range(0, opened.n_rows, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, opened.n_rows)
            readings = [opened.read(column, start, stop) for column in roles.features]
            kept = kept_rows(readings, roles)
            target = opened.read(roles.target, start, stop)
            mass = read_mass(opened, roles, start, stop)
            places = None if kept is None else np.flatnonzero(kept)
            keys = None
            if every is not None:
                keys = every[start:stop] if places is None else every[start:stop][places]
                order = np.argsort(keys, kind="stable")
                keys, places = keys[order], order if places is None else places[order]
            if places is not None:
                readings = [reading.take(places) for reading in readings]
                target, mass = target.take(places), mass[places]
            matrix = np.empty((len(mass), self.width))
            for column, reading in zip(self.columns, readings, strict=True):
                matrix[:, list(column.positions)] = _numbers(column, reading, name)
            y = self.rule.values(target)
            yield OutcomeBlock(matrix, mass * self.scale, first, y, keys)
            first += len(mass)


def _numbers(column: Column, reading: Reading, part: str) -> Floats:
    if column.kind == "categorical":
        reading = reading.as_levels()
    changed = (column.kind == "categorical") != (reading.numbers is None)
    if changed or (not column.missing and reading.gaps.any()):
        raise ValueError(f"column {column.name!r} of {part} {CHANGED}")
    return encoded(column, reading)


@dataclass(frozen=True, eq=False)
class Counted(Generic[State]):
    """A state and its number of rows: all passes must see the same rows."""

    count: int
    state: State

    def merge(self, other: Counted[State]) -> Counted[State]:
        return Counted(self.count + other.count, self.state.merge(other.state))


@dataclass(frozen=True, eq=False)
class BlockWork(Generic[State]):
    encoder: Encoder
    partial: Partial[State]

    def __call__(self, part: Frame, first: int, name: str) -> tuple[int, Counted[State] | None]:
        total: State | None = None
        used = 0
        for block in self.encoder.blocks(part, first, name):
            if len(block.mass):
                total = merged(total, self.partial(block))
                used += len(block.mass)
        return used, None if total is None else Counted(used, total)


class GatheredRows(NamedTuple):
    places: Ints
    matrix: Floats
    mass: Floats
    y: Floats

    def at(self, places: Ints) -> GatheredRows:
        rows = np.flatnonzero(np.isin(self.places, places))
        rows = rows[np.argsort(self.places[rows], kind="stable")]
        return GatheredRows(
            unique_keys(self.places[rows]), self.matrix[rows], self.mass[rows], self.y[rows]
        )


@dataclass(frozen=True)
class Gathered:
    """Rows in pieces, so many are put together only once."""

    pieces: tuple[GatheredRows, ...]

    def merge(self, other: Gathered) -> Gathered:
        return Gathered((*self.pieces, *other.pieces))

    def rows(self) -> GatheredRows:
        return GatheredRows(*(np.concatenate(arrays) for arrays in zip(*self.pieces, strict=True)))


@dataclass(frozen=True, eq=False)
class Gather:
    places: Ints | None

    def __call__(self, block: RowBlock) -> Gathered:
        if not isinstance(block, OutcomeBlock):
            raise TypeError("rows are gathered with their outcome")
        here = block.places
        rows: slice | Ints = slice(None)
        if self.places is not None:
            rows = np.flatnonzero(np.isin(here, self.places))
        found = GatheredRows(here[rows], block.matrix[rows], block.mass[rows], block.y[rows])
        return Gathered((found,))


@dataclass(frozen=True, eq=False)
class DrawWork:
    roles: Roles
    draws: tuple[tuple[int, np.random.SeedSequence], ...]
    shares: tuple[float, ...]

    def __call__(self, part: Frame, first: int, name: str) -> tuple[int, Draws | None]:
        del first
        opened = open_part(part)
        check_names(opened, self.roles, name)
        keys = self.roles.keys(opened)
        if keys is None:
            raise TypeError("rows without keys are drawn by their places")
        if self.roles.missing == "drop":
            kept = kept_rows([opened.read(column) for column in self.roles.features], self.roles)
            keys = keys if kept is None else keys[kept]
        found = zip(self.draws, self.shares, strict=True)
        drawn = tuple(Drawn.of(keys, count, seed, share) for (count, seed), share in found)
        return len(keys), Draws(len(keys), drawn)


@dataclass(frozen=True, eq=False)
class Draws:
    count: int
    drawn: tuple[Drawn, ...]

    def merge(self, other: Draws) -> Draws:
        pairs = zip(self.drawn, other.drawn, strict=True)
        return Draws(self.count + other.count, tuple(a.merge(b) for a, b in pairs))


SAMPLE = (SAMPLE_ROWS, np.random.SeedSequence(SAMPLE_SEED))


@dataclass(frozen=True, eq=False)
class StreamedSource(RowSource):
    partitions: Partitions
    encoder: Encoder
    starts: Ints
    n_rows: int
    total: float
    watch: Watch = field(default=unwatched)
    _kept: list[tuple[Ints, GatheredRows]] = field(default_factory=list, repr=False)

    @property
    def width(self) -> int:
        return self.encoder.width

    @property
    def kind(self) -> WeightKind:
        return self.encoder.roles.kind

    @property
    def moved(self) -> bool:
        """Whether rows that are identified by position came in another order than before."""
        return not self.encoder.roles.keyed and not self.partitions.ordered

    def by_content(self) -> StreamedSource:
        encoder = replace(self.encoder, roles=replace(self.encoder.roles, keyed=True))
        return replace(self, encoder=encoder, _kept=[])

    def blocks(self) -> Iterator[RowBlock]:
        raise TypeError(f"{self.partitions.what} cannot be loaded into memory")

    def reduce(self, partial: Partial[State], label: str = "") -> State:
        found = self._reduce(BlockWork(self.encoder, partial), label or "reading rows")
        return found.state

    def _reduce(self, work: Work[Seen], label: str) -> Seen:
        roles, shown = self.encoder.roles, functools.partial(self.watch, label)
        starts = None if roles.keyed else self.starts
        found = self.partitions.reduce(work, roles.columns, shown, starts)
        if found is None or found.count != self.n_rows:
            raise ValueError(f"{TABLE} {CHANGED}")
        return found

    def drawn(self, *draws: tuple[int, np.random.SeedSequence]) -> list[Ints]:
        roles = self.encoder.roles
        if not roles.keyed:
            return [sampled_places(self.n_rows, *draw) for draw in draws]
        shares = tuple(_ample(count, self.n_rows) for count, _ in draws)
        found = self._reduce(DrawWork(roles, draws, shares), "drawing rows").drawn
        if any(own.rows < min(own.count, self.n_rows) for own in found):
            found = self._reduce(DrawWork(roles, draws, (1.0,) * len(draws)), "drawing rows").drawn
        for own in found:
            own.check(roles.row_id)
        return [np.sort(own.keys) for own in found]

    def gather(self, draw: tuple[int, np.random.SeedSequence] | None) -> GatheredRows:
        row_id = self.encoder.roles.row_id
        if draw is None:
            found = self.reduce(Gather(None), "gathering rows").rows()
            if row_id is not None and len(np.unique(found.places)) < len(found.places):
                raise duplicate(row_id)
            return found.at(found.places)
        places, sample = self.drawn(draw, SAMPLE)
        found = self.reduce(Gather(np.union1d(places, sample)), "gathering rows").rows()
        self._kept.append((sample, found.at(sample)))
        return found.at(places)

    def sample(self, count: int, seed: np.random.SeedSequence) -> tuple[Ints, Floats, Weights]:
        if (count, seed.entropy) == (SAMPLE_ROWS, SAMPLE_SEED) and self._kept:
            rows = self._kept[0][1]
            return rows.places, rows.matrix, Weights(rows.mass, self.kind)
        (places,) = self.drawn((count, seed))
        rows = self._at(places)
        return rows.places, rows.matrix, Weights(rows.mass, self.kind)

    def take(self, places: Ints) -> tuple[Floats, Weights]:
        rows = self._at(places)
        return rows.matrix, Weights(rows.mass, self.kind)

    def _at(self, places: Ints) -> GatheredRows:
        for known, rows in self._kept:
            if np.isin(places, known, assume_unique=True).all():
                return rows.at(places)
        found = self.reduce(Gather(places), "gathering rows").rows().at(places)
        # asked for again by every refit; anything larger would not be a sample
        if len(places) <= SAMPLE_ROWS:
            self._kept.append((places, found))
        return found


def _ample(count: int, n_rows: int) -> float:
    """Return a share of all tickets among which as many rows as asked for are, but for luck."""
    share = count / n_rows
    return float(share + 8.0 * np.sqrt(share / n_rows))
