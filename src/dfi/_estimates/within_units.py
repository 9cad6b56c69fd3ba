r"""Rows whitened within units: coordinates of a category, of a value with its gaps, of a group.

**Rare levels.** Levels of a category with less than one row in a hundred are one level for the
transport, never for the model: a replaced row takes its donor's own level. Where all are rare, the
most frequent one stays; where a single one is, it is pooled with the next in frequency. What the
rare ones hold of another unit has coordinates of its own: the directions among them whose
correlation with that unit is beyond chance. What is left of them is correlated with nothing, and so
it does no harm that a replaced row takes it from its donor while nothing else moves.

**Rare missing values.** An indicator of missingness with less than one row in a hundred has no
coordinate of its own: two rows of thousands that lack a value are tens of standard deviations from
the rest, and the chance correlation of their indicator would move other columns by as much. A
replaced row takes its donor's own missingness, so the model is asked about it all the same.
Where the indicator is correlated with another unit beyond chance, it has a coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dfi._data.columns import Column
from dfi._data.levels import constant_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.moments import Moments
    from dfi._types import Bools, Floats, Ints

RARE = 0.01
"""Share of the rows below which levels of a category are pooled for the transport."""

RELATIVE_FLOOR = 1e-10
"""Eigenvalues within a unit below this share of its largest are 0."""

BEYOND_CHANCE = 2.0
r"""How far a correlation of rare levels is beyond chance where they hold something of a unit.

The largest singular value of :math:`\sqrt n` times the correlations of ``r`` and ``q`` independent
white coordinates is near :math:`\sqrt r + \sqrt q`, with a deviation below 1."""

TOLD_APART = 1e-4
"""Share of a column's deviation, given those before it, from which on it has a coordinate."""


@dataclass(frozen=True)
class UnitBlock:
    """A unit that varies, whitened.

    ``unit`` is its place among the units, ``positions`` its columns of the matrix that vary,
    ``encoder`` (positions, rank) and ``decoder`` (rank, positions) take their centred values to
    uncorrelated coordinates of unit variance and back. Levels in ``rare`` are pooled, an indicator
    of missingness in it (``missingness``) is left out, so the way back is not complete. Of
    what is left out, ``held`` are the other units that it holds something of, and how many
    coordinates this takes.
    """

    unit: int
    name: str
    positions: Ints
    encoder: Floats
    decoder: Floats
    rare: tuple[int, ...] = ()
    missingness: bool = False
    held: tuple[tuple[int, int], ...] = ()

    def with_coordinates(
        self, encoder: Floats, values: _UnitValues, held: tuple[tuple[int, int], ...]
    ) -> UnitBlock:
        encoder, decoder = _white(np.hstack([self.encoder, encoder]), values)
        rare = () if self.missingness else self.rare  # an indicator is all there was to add
        return replace(self, encoder=encoder, decoder=decoder, rare=rare, held=held)

    @property
    def pooled(self) -> bool:
        """Whether levels are pooled, or missingness is left out."""
        return bool(self.rare)

    @property
    def rank(self) -> int:
        """How many coordinates the unit has."""
        return int(self.encoder.shape[1])


@dataclass(frozen=True)
class WithinUnits:
    """Rows whitened within units, ``w = D^-1/2 x``: a list of blocks and the columns' means."""

    blocks: tuple[UnitBlock, ...]
    center: Floats

    @property
    def owner(self) -> Ints:
        return np.repeat(np.arange(len(self.blocks)), [block.rank for block in self.blocks])

    @property
    def units(self) -> tuple[Column, ...]:
        """The blocks as units of the whitened coordinates, for tests of their dependence."""
        places = self.places
        return tuple(
            Column(block.name, block.name, "real", (), tuple(int(k) for k in place))
            for block, place in zip(self.blocks, places, strict=True)
        )

    @property
    def places(self) -> list[Ints]:
        ends = np.cumsum([block.rank for block in self.blocks])
        return [
            np.arange(end - block.rank, end) for end, block in zip(ends, self.blocks, strict=True)
        ]

    def encode(self, matrix: Floats) -> Floats:
        return np.hstack(
            [
                (matrix[:, block.positions] - self.center[block.positions]) @ block.encoder
                for block in self.blocks
            ]
        )

    def decode(self, whitened: Floats) -> Floats:
        rows = np.broadcast_to(self.center, (len(whitened), len(self.center))).copy()
        for block, place in zip(self.blocks, self.places, strict=True):
            rows[:, block.positions] += whitened[:, place] @ block.decoder
        return rows

    def directions(self, decoder: Floats) -> Floats:
        """Return the change of a row of the matrix for each latent coordinate, (p, d)."""
        found = np.zeros((len(self.center), decoder.shape[1]))
        for block, place in zip(self.blocks, self.places, strict=True):
            found[block.positions] = block.decoder.T @ decoder[place]
        return found


def within_units(
    matrix: Floats,
    share: Floats,
    constant: Bools,
    columns: Sequence[Column],
    size: float,
    *,
    single: bool = False,
    like: WithinUnits | None = None,
) -> WithinUnits | None:
    """Whiten each unit; None if all are single columns, unless requested."""
    center = share @ matrix
    # among fewer rows than decided on it, a column may not vary
    still = constant_columns(matrix[share > 0])

    def values(positions: Ints) -> _UnitValues:
        centred = np.where(still[positions], 0.0, matrix[:, positions] - center[positions])
        return _ValuesOfRows(centred, share)

    blocks = _whitened(values, constant, columns, size, single=single, like=like)
    return WithinUnits(tuple(blocks), center) if blocks else None


def units_of_moments(
    moments: Moments,
    constant: Bools,
    columns: Sequence[Column],
    size: float,
    *,
    single: bool = False,
    like: WithinUnits | None = None,
) -> WithinUnits | None:
    """Whiten each unit as :func:`within_units` does, from moments of all rows."""
    still = moments.constant

    def values(positions: Ints) -> _UnitValues:
        return _ValuesOfMoments(
            np.where(still[positions], 0.0, moments.deviations[:, positions]),
            moments.mean[positions],
            moments.first[positions],
        )

    blocks = _whitened(values, constant, columns, size, single=single, like=like)
    return WithinUnits(tuple(blocks), moments.mean) if blocks else None


def _whitened(
    values: Callable[[Ints], _UnitValues],
    constant: Bools,
    columns: Sequence[Column],
    size: float,
    *,
    single: bool,
    like: WithinUnits | None,
) -> list[UnitBlock]:
    """Return the units that vary; none if all are single columns, unless requested.

    What the rare levels of a unit hold of another one gets coordinates, or else what a model takes
    from the one and gives back through the other would no longer cancel.
    """
    varying = {
        unit: np.array([p for p in column.positions if not constant[p]], dtype=np.intp)
        for unit, column in enumerate(columns)
    }
    if not single and all(len(positions) <= 1 for positions in varying.values()):
        return []
    known = {} if like is None else {block.unit: block for block in like.blocks}
    found = {
        unit: _block(unit, columns[unit], positions, values(positions), known.get(unit))
        for unit, positions in varying.items()
        if len(positions)
    }
    pooled = {unit: values(block.positions) for unit, block in found.items() if block.pooled}
    rest = {unit: _Rest.of(found[unit], own) for unit, own in pooled.items()}
    for unit, own in pooled.items():
        remaining = own.root(rest[unit].encoder)
        added, held = [], []
        for other, block in found.items():
            kept = dict(known[unit].held).get(other, 0) if unit in known else None
            if other == unit or kept == 0:
                continue
            # of a unit that is pooled itself all that is there, whitened
            encoder, rank = block.encoder, block.rank
            if other in rest:
                encoder, rank = rest[other].whole, rank + rest[other].rank
            cross = remaining.T @ values(block.positions).root(encoder)
            left, singular, _ = np.linalg.svd(cross, full_matrices=False)
            edge = np.sqrt(rest[unit].rank) + np.sqrt(rank) + BEYOND_CHANCE
            beyond = int(np.count_nonzero(singular * np.sqrt(size) > edge))
            count = beyond if kept is None else kept
            if count:
                added.append(rest[unit].encoder @ left[:, :count])
                held.append((other, count))
        if added:
            found[unit] = found[unit].with_coordinates(np.hstack(added), own, tuple(held))
    return [_in_order(block) for block in found.values()]


@dataclass(frozen=True)
class _Rest:
    """What pooling leaves out of a unit, and all of the unit, as maps to white coordinates.

    The columns of ``encoder`` and ``whole`` are more than these: the coordinates have a projection
    as their covariance, of ``rank`` the former.
    """

    encoder: Floats
    whole: Floats
    rank: int

    @classmethod
    def of(cls, block: UnitBlock, values: _UnitValues) -> _Rest:
        rare = np.array(block.rare)
        if block.missingness:
            deviation = values.deviation()
            scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
            return cls(np.diag(scale)[:, rare], np.diag(scale), 1)
        root = np.sqrt(values.frequency())
        whole = np.diag(np.divide(1.0, root, out=np.zeros_like(root), where=root > 0))
        pool = root[rare] / max(float(np.linalg.norm(root[rare])), np.finfo(float).tiny)
        apart = np.eye(len(rare)) - np.outer(pool, pool)
        return cls(whole[:, rare] @ apart, whole, len(rare) - 1)


def whitened_by(
    correlation: Floats, center: Floats, deviation: Floats, active: Ints, columns: Sequence[Column]
) -> tuple[WithinUnits, Floats]:
    """Return units whitened by a correlation matrix of the ``active`` columns, and ``C``."""
    place = {int(position): k for k, position in enumerate(active)}
    blocks, roots = [], []
    for unit, column in enumerate(columns):
        inside = np.array([place[p] for p in column.positions if p in place], dtype=np.intp)
        if len(inside) == 0:
            continue
        values, vectors = np.linalg.eigh(correlation[np.ix_(inside, inside)])
        kept = values > RELATIVE_FLOOR * values[-1]
        vectors, singular = vectors[:, kept], np.sqrt(values[kept])
        scale = deviation[active[inside]][:, None]
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        roots.append((inside, vectors / singular))
        blocks.append(
            UnitBlock(
                unit,
                column.name,
                active[inside],
                vectors / singular * inverse,
                (vectors * singular * scale).T,
            )
        )
    inner = WithinUnits(tuple(blocks), center)
    whole = np.zeros((len(active), int(sum(block.rank for block in blocks))))
    for (inside, root), own in zip(roots, inner.places, strict=True):
        whole[np.ix_(inside, own)] = root
    return inner, whole.T @ correlation @ whole


def _in_order(block: UnitBlock) -> UnitBlock:
    """Return a unit whose first coordinate is that of its first column, and so on."""
    lengths = np.linalg.norm(block.decoder, axis=0)
    rotation = np.zeros((block.rank, 0))
    for column, length in zip(block.decoder.T, lengths, strict=True):
        rest = column - rotation @ (rotation.T @ column)
        if np.linalg.norm(rest) > TOLD_APART * length > 0 and rotation.shape[1] < block.rank:
            rest -= rotation @ (rotation.T @ rest)
            rotation = np.hstack([rotation, (rest / np.linalg.norm(rest))[:, None]])
    if rotation.shape[1] < block.rank:
        return block  # columns that are nearly collinear have no order
    return replace(block, encoder=block.encoder @ rotation, decoder=rotation.T @ block.decoder)


class _UnitValues(Protocol):
    """The values of a unit's columns, centred: what whitening asks of them."""

    def deviation(self) -> Floats:
        """Return the standard deviation of each column."""

    def frequency(self) -> Floats:
        """Return the share of the rows in which each 0/1 column is 1."""

    def first(self) -> Ints:
        """Return the place of the first row in which each 0/1 column is 1."""

    def root(self, merge: Floats) -> Floats:
        """Return rows whose cross products are the covariance of the columns times a matrix."""


@dataclass(frozen=True)
class _ValuesOfRows:
    centred: Floats
    share: Floats

    def deviation(self) -> Floats:
        return np.asarray(np.sqrt(self.share @ self.centred**2))

    def frequency(self) -> Floats:
        # the share of a 0/1 column is its mean, and p (1 - p) its variance
        count = self.centred.shape[1]
        return np.array([self.share @ (self.centred[:, k] > 0) for k in range(count)])

    def first(self) -> Ints:
        return np.asarray(np.argmax(self.centred > 0, axis=0))

    def root(self, merge: Floats) -> Floats:
        return np.asarray((self.centred @ merge) * np.sqrt(self.share)[:, None])


@dataclass(frozen=True)
class _ValuesOfMoments:
    deviations: Floats
    mean: Floats
    places: Ints

    def deviation(self) -> Floats:
        return np.asarray(np.sqrt(np.sum(self.deviations**2, axis=0)))

    def frequency(self) -> Floats:
        return self.mean

    def first(self) -> Ints:
        return self.places

    def root(self, merge: Floats) -> Floats:
        return np.asarray(self.deviations @ merge)


def _block(
    unit: int, column: Column, positions: Ints, values: _UnitValues, like: UnitBlock | None
) -> UnitBlock:
    deviation = values.deviation()
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    if len(positions) == 1 or not deviation.any():
        # a unit that does not vary keeps one coordinate, at which nothing moves
        return UnitBlock(unit, column.name, positions, inverse[:, None], deviation[None])
    rare, encoder = () if like is None else like.rare, np.diag(inverse)
    if column.kind == "categorical":
        if like is None:
            rare = rare_levels(values.frequency(), values.first)
        if rare:
            encoder = _pooling(len(positions), np.array(rare))
    elif column.fill is not None:
        if like is None and deviation[0] > 0 and values.frequency()[1] < RARE:
            rare = (1,)
        if rare:
            encoder = encoder[:, :1]
    encoder, decoder = _white(encoder, values)
    return UnitBlock(
        unit, column.name, positions, encoder, decoder, rare, missingness=column.fill is not None
    )


def _white(encoder: Floats, values: _UnitValues) -> tuple[Floats, Floats]:
    """Return the map to white coordinates that span those of ``encoder``, and the way back."""
    left, singular, right = np.linalg.svd(values.root(encoder), full_matrices=False)
    kept = singular**2 > RELATIVE_FLOOR * singular[0] ** 2
    decoder = left[:, kept].T @ values.root(np.eye(len(encoder)))
    return encoder @ (right[kept].T / singular[kept]), decoder


def rare_levels(frequency: Floats, first: Callable[[], Ints]) -> tuple[int, ...]:
    """Return the levels to pool: the rare ones, and with a single one the next in frequency."""
    # sums over parts of a table round: exactly one row in a hundred is never rare
    rare = np.flatnonzero(frequency < RARE * (1.0 - 1e-9))
    if len(rare) == len(frequency):
        most = np.flatnonzero(frequency > frequency.max() * (1.0 - 1e-9))
        rare = np.delete(rare, most[np.argmin(first()[most])])
    elif len(rare) == 1 and len(frequency) > 2:
        others = np.delete(np.arange(len(frequency)), rare)
        least = others[frequency[others] < frequency[others].min() * (1.0 + 1e-9)]
        rare = np.sort(np.append(rare, least[np.argmin(first()[least])]))
    return tuple(int(level) for level in rare) if len(rare) > 1 else ()


def _pooling(count: int, rare: Ints) -> Floats:
    """Return the map from levels to levels with the rare ones pooled."""
    kept = np.setdiff1d(np.arange(count), rare)
    merge = np.zeros((count, len(kept) + 1))
    merge[kept, np.arange(len(kept))] = 1.0
    merge[rare, -1] = 1.0
    return merge
