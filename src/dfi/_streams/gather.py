"""Some rows of a table in parts, as a frame in memory, for code that needs frames."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from dfi._data import source as sources
from dfi._data.source import sampled_places
from dfi._parameters import TABLE
from dfi._streams.keys import CHANGED, duplicate, rows_at
from dfi._streams.parts import open_part, unwatched
from dfi._streams.read import check_named, facts_of_rows, open_parts
from dfi._streams.schema import Roles, check_names, starts_of
from dfi._streams.streamed import DrawWork

if TYPE_CHECKING:
    from dfi._streams.parts import Partitions, Watch
    from dfi._types import Frame, Ints, TableLike


@dataclass(frozen=True)
class Counts:
    counts: tuple[int, ...]

    def merge(self, other: Counts) -> Counts:
        return Counts((*self.counts, *other.counts))

    @property
    def part(self) -> Counts:
        return Counts((sum(self.counts),))


@dataclass(frozen=True)
class CountWork:
    def __call__(self, part: Frame, first: int, name: str) -> tuple[int, Counts]:
        del first, name
        count = open_part(part).n_rows
        return count, Counts((count,))


@dataclass(frozen=True, eq=False)
class Pieces:
    count: int
    pieces: tuple[tuple[Ints, Frame], ...]

    def merge(self, other: Pieces) -> Pieces:
        return Pieces(self.count + other.count, (*self.pieces, *other.pieces))


@dataclass(frozen=True, eq=False)
class TakeWork:
    roles: Roles
    places: Ints | None

    def __call__(self, part: Frame, first: int, name: str) -> tuple[int, Pieces]:
        opened = open_part(part)
        check_names(opened, self.roles, name)
        here = self.roles.keys(opened)
        if here is None:
            here = np.arange(first, first + opened.n_rows, dtype=np.intp)
        if self.places is None:
            return opened.n_rows, Pieces(opened.n_rows, ((here, part),))
        rows = np.flatnonzero(np.isin(here, self.places))
        return opened.n_rows, Pieces(opened.n_rows, ((here[rows], rows_at(part, rows)),))


def gather_frame(
    X: TableLike,
    seed: np.random.SeedSequence,
    *,
    row_id: str | None = None,
    together: str | None = None,
    watch: Watch = unwatched,
) -> tuple[Frame, dict[str, object]]:
    """Return at most 20,000 rows as a frame, clusters of ``together`` whole, and its facts."""
    given = {"row_id": row_id, "clusters": together}
    partitions, names = open_parts(X, {k: v for k, v in given.items() if v is not None})
    check_named(partitions.labels, names)
    key = together or row_id
    others = [name for name in partitions.labels if name != key]
    if not others:
        raise ValueError(f"{TABLE} has no columns.")
    roles = Roles(tuple(others[1:]), others[0], row_id=key, keyed=key is not None)
    # rows are counted by what is read again: only so can they be compared
    counts = partitions.reduce(CountWork(), roles.columns, partial(watch, "counting rows"))
    if counts is None or not sum(counts.counts):
        raise ValueError(f"{TABLE} has no rows.")
    found = None
    if roles.keyed or partitions.ordered:
        found = _taken(partitions, roles, counts, seed, together, watch)
    if not roles.keyed and not partitions.ordered:
        roles = Roles(roles.features, roles.target, keyed=True)
        found = _taken(partitions, roles, counts, seed, together, watch)
    if found is None:
        raise ValueError(f"{TABLE} {CHANGED}")
    n, places = sum(counts.counts), np.concatenate([own for own, _ in found.pieces])
    if row_id is not None and together is None and len(np.unique(places)) < len(places):
        raise duplicate(row_id)
    frame = rows_at(
        _joined([piece for _, piece in found.pieces], partitions), np.argsort(places, kind="stable")
    )
    facts: dict[str, object] = dict(facts_of_rows(row_id, keyed=roles.keyed and together is None))
    if len(places) < n:
        facts |= {"gathered_rows": len(places), "gathered_of": n}
    return frame, facts


def _taken(
    partitions: Partitions,
    roles: Roles,
    counts: Counts,
    seed: np.random.SeedSequence,
    together: str | None,
    watch: Watch,
) -> Pieces | None:
    n, most = sum(counts.counts), sources.LARGE_ROWS
    places = None
    if n > most and roles.keyed:
        work = DrawWork(roles, ((most, seed),), (1.0,))
        draws = partitions.reduce(work, roles.columns, partial(watch, "drawing rows"))
        if draws is None:
            return None
        (drawn,) = draws.drawn
        if together is None:
            drawn.check(roles.row_id)
        places = np.sort(drawn.keys)
    elif n > most:
        places = sampled_places(n, most, seed)
    starts = None if roles.keyed else starts_of(counts.counts)
    shown = partial(watch, "gathering rows")
    found = partitions.reduce(TakeWork(roles, places), roles.columns, shown, starts)
    return found if found is not None and found.count == n else None


def _joined(frames: list[Frame], partitions: Partitions) -> Frame:
    first, labels = frames[0], list(partitions.labels.values())
    if nw.dependencies.is_pandas_dataframe(first):
        return importlib.import_module("pandas").concat(frames)[labels]
    if nw.dependencies.is_polars_dataframe(first):
        joined = importlib.import_module("polars").concat(frames, how="vertical_relaxed")
        return joined.select(labels)
    table = importlib.import_module("pyarrow").concat_tables(frames, promote_options="permissive")
    table = table.select(labels)
    return table.to_pandas() if partitions.library == "pandas" else table
