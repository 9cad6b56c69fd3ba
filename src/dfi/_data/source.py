"""Rows in blocks, wherever they are: in memory, in files, on the workers of a cluster.

What needs every row of a table is a sum over rows: moments of the columns, and how many rows fall
into each cell of a law. Such a sum is a *state*: ``partial(block)`` makes one of some rows,
``merge`` puts two together, and neither the size of the blocks nor where they are computed matters
but for rounding. Everything else goes by a random sample of the rows, and which rows those are
depends on their places in the table and a seed, never on how the table is cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dfi._data.weights import WeightKind, Weights
    from dfi._types import Floats, Ints

LARGE_ROWS = 20_000
"""Beyond this many rows a table is large: its moments are summed in blocks, its laws are binned,
and tests use a sample of its rows."""

SAMPLE_ROWS = 32_768
"""Rows of a large table from which cells of its laws, and permutation moments, are taken."""

SAMPLE_SEED = 20_250_101
"""Which these are is no choice of the caller's: the same for every seed of a run."""

BLOCK_ROWS = 16_384
TICKETS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class RowBlock:
    matrix: Floats
    mass: Floats
    first: int

    @property
    def places(self) -> Ints:
        return np.arange(self.first, self.first + len(self.mass), dtype=np.intp)


class Mergeable(Protocol):
    def merge(self, other: Self) -> Self: ...


State = TypeVar("State", bound=Mergeable)
Answer = TypeVar("Answer", bound=Mergeable, covariant=True)


class Partial(Protocol[Answer]):
    """A function of a block that can be sent to its data: picklable, no callbacks."""

    def __call__(self, block: RowBlock) -> Answer: ...


class RowSource(ABC):
    if TYPE_CHECKING:  # fields or properties

        @property
        def n_rows(self) -> int: ...

        @property
        def width(self) -> int: ...

        @property
        def kind(self) -> WeightKind: ...

        @property
        def total(self) -> float: ...

    @abstractmethod
    def blocks(self) -> Iterator[RowBlock]: ...

    def reduce(self, partial: Partial[State], label: str = "") -> State:
        del label
        return reduce(lambda one, other: one.merge(other), map(partial, self.blocks()))

    @abstractmethod
    def take(self, places: Ints) -> tuple[Floats, Weights]: ...

    def sample(self, count: int, seed: np.random.SeedSequence) -> tuple[Ints, Floats, Weights]:
        places = sampled_places(self.n_rows, count, seed)
        return places, *self.take(places)


@dataclass(frozen=True, eq=False)
class MatrixSource(RowSource):
    """Some rows of a matrix in memory: those in ``rows``, ascending, or all."""

    matrix: Floats
    weights: Weights
    rows: Ints | None = None

    @property
    def n_rows(self) -> int:
        return len(self.matrix) if self.rows is None else len(self.rows)

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def kind(self) -> WeightKind:
        return self.weights.kind

    @property
    def total(self) -> float:
        if self.rows is None:
            return self.weights.total
        return self.weights.take(self.rows).total

    def blocks(self) -> Iterator[RowBlock]:
        for start in range(0, self.n_rows, BLOCK_ROWS):
            part: slice | Ints = slice(start, start + BLOCK_ROWS)
            if self.rows is not None:
                part = self.rows[part]
            yield RowBlock(self.matrix[part], self.weights.values[part], start)

    def take(self, places: Ints) -> tuple[Floats, Weights]:
        rows = places if self.rows is None else self.rows[places]
        return self.matrix[rows], self.weights.take(rows)


def tickets(places: Ints, seed: np.random.SeedSequence) -> NDArray[np.uint64]:
    """Return a random number for each position of a table, however the table is split."""
    key = seed.generate_state(1, np.uint64)[0]
    with np.errstate(over="ignore"):
        z = (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + key
    return splitmix(z)


def splitmix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of numbers, one to one: the last step of SplitMix64."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def sampled_order(n: int, count: int, seed: np.random.SeedSequence) -> Ints:
    """Return ``count`` of ``n`` positions in the order of their tickets, so a sample can grow."""
    places, drawn = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.uint64)
    for start in range(0, n, TICKETS_AT_ONCE):
        more = np.arange(start, min(n, start + TICKETS_AT_ONCE), dtype=np.intp)
        own = tickets(more, seed)
        if len(drawn) >= count:
            low = own < drawn.max(initial=0)
            more, own = more[low], own[low]
        places, drawn = np.concatenate([places, more]), np.concatenate([drawn, own])
        if len(drawn) > count:
            kept = (
                np.argpartition(drawn, count - 1)[:count] if count else np.empty(0, dtype=np.intp)
            )
            places, drawn = places[kept], drawn[kept]
    # two places never share a ticket: the mixing is one to one
    return np.asarray(places[np.argsort(drawn)])


def sampled_places(n: int, count: int, seed: np.random.SeedSequence) -> Ints:
    return np.sort(sampled_order(n, count, seed))
