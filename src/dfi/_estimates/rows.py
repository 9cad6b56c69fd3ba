"""What a linear map needs of a table: rows in memory, or sums over rows that are not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfi._data.levels import constant_columns
from dfi._data.source import SAMPLE_ROWS, SAMPLE_SEED
from dfi._estimates.covariance import (
    Coordinates,
    FourthPowersOf,
    RowCoordinates,
    SummedCoordinates,
    row_keys,
)
from dfi._estimates.within_units import WithinUnits, units_of_moments, within_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.columns import Column
    from dfi._data.moments import Moments, RowGroups
    from dfi._data.source import RowSource
    from dfi._data.weights import Weights
    from dfi._estimates.cells import Encoder
    from dfi._types import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Sampled:
    """A random sample of a source's rows and their places, those without weight left out."""

    places: Ints
    rows: Floats
    share: Floats

    @classmethod
    def of(cls, source: RowSource) -> Sampled:
        places, rows, weights = source.sample(SAMPLE_ROWS, np.random.SeedSequence(SAMPLE_SEED))
        counted = weights.values > 0
        if not counted.any():
            # the few rows with weight may not be among them
            return cls(places, rows, np.full(len(rows), 1.0 / len(rows)))
        rows, mass = rows[counted], weights.values[counted]
        return cls(places[counted], rows, mass / mass.sum())

    def distinct(self, without: tuple[RowGroups, int] | None) -> int:
        """Return how many rows differ, those of one group left out where it is given."""
        rows = self.rows
        if without is not None:
            rows = rows[without[0](self.places) != without[1]]
        return int(np.unique(row_keys(rows)).size)

    @cached_property
    def pivot(self) -> Floats:
        return np.asarray(self.share @ self.rows)


@dataclass(frozen=True, eq=False)
class _Standardized:
    """Rows whitened within units, or some of their columns, centred and over a scale."""

    center: Floats
    scale: Floats
    active: Ints | None
    inner: WithinUnits | None = None

    def encode(self, matrix: Floats) -> Floats:
        rows = matrix if self.inner is None else self.inner.encode(matrix)
        rows = rows if self.active is None else rows[:, self.active]
        return np.asarray((rows - self.center) / self.scale)


Centred: TypeAlias = "tuple[Callable[[Floats], Coordinates], Floats, Floats]"
"""Centred columns over a scale, the mean of all columns, and the deviation of those."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in memory."""

    matrix: Floats
    weights: Weights

    @property
    def size(self) -> float:
        return self.weights.effective

    def within(
        self, constant: Bools, columns: Sequence[Column], like: WithinUnits | None, *, single: bool
    ) -> WithinUnits | None:
        share, size = self.weights.shares, self.weights.effective
        return within_units(self.matrix, share, constant, columns, size, single=single, like=like)

    def of_columns(self, active: Ints) -> Centred:
        share = self.weights.shares
        center = share @ self.matrix
        centred = self.matrix[:, active] - center[active]
        deviation = np.sqrt(share @ centred**2)
        return lambda scale: RowCoordinates(centred / scale, self.weights), center, deviation

    def of_units(self, inner: WithinUnits) -> Centred:
        whitened = Rows(inner.encode(self.matrix), self.weights)
        return whitened.of_columns(np.arange(len(inner.owner)))

    def standardized(self, active: Ints) -> tuple[Coordinates, Floats, Floats]:
        """Return the active columns at unit variance, the mean and the deviation of all."""
        share = self.weights.shares
        center = share @ self.matrix
        deviation = np.sqrt(share @ (self.matrix - center) ** 2)
        deviation[constant_columns(self.matrix[share > 0])] = 0.0
        rows = ((self.matrix - center) / np.where(deviation > 0, deviation, 1.0))[:, active]
        return RowCoordinates(rows, self.weights), center, deviation


@dataclass(frozen=True, eq=False)
class Sums:
    """The moments of a source's rows, or of those ``without`` a group, with a sample of them."""

    source: RowSource
    sample: Sampled
    moments: Moments
    without: tuple[RowGroups, int] | None = None

    @property
    def size(self) -> float:
        return self.moments.size(self.source.kind)

    def coordinates(self, deviations: Floats, encoder: Encoder) -> SummedCoordinates:
        source, sample, without = self.source, self.sample, self.without

        def fourth(some: Sequence[slice | Ints]) -> list[float]:
            found = source.reduce(FourthPowersOf(encoder, tuple(some), without), "fourth moments")
            return [float(each) for each in found.values / found.mass]

        return SummedCoordinates(
            deviations,
            self.size,
            self.moments.total(source.kind),
            lambda: (encoder.encode(sample.rows), sample.share),
            fourth,
            sample.distinct(without),
        )

    def within(
        self, constant: Bools, columns: Sequence[Column], like: WithinUnits | None, *, single: bool
    ) -> WithinUnits | None:
        return units_of_moments(
            self.moments, constant, columns, self.size, single=single, like=like
        )

    def of_columns(self, active: Ints) -> Centred:
        mean, deviations = self.moments.mean, self.moments.deviations[:, active]
        return (
            lambda scale: self.coordinates(
                deviations / scale, _Standardized(mean[active], scale, active)
            ),
            mean,
            np.sqrt(np.sum(deviations**2, axis=0)),
        )

    def of_units(self, inner: WithinUnits) -> Centred:
        deviations = np.hstack(
            [self.moments.deviations[:, b.positions] @ b.encoder for b in inner.blocks]
        )
        center = np.zeros(deviations.shape[1])
        return (
            lambda scale: self.coordinates(
                deviations / scale, _Standardized(center, scale, None, inner)
            ),
            center,
            np.sqrt(np.sum(deviations**2, axis=0)),
        )

    def standardized(self, active: Ints) -> tuple[Coordinates, Floats, Floats]:
        deviation = np.sqrt(np.sum(self.moments.deviations**2, axis=0))
        deviation[self.moments.constant] = 0.0
        scale, mean = np.where(deviation > 0, deviation, 1.0)[active], self.moments.mean
        rows = self.coordinates(
            self.moments.deviations[:, active] / scale, _Standardized(mean[active], scale, active)
        )
        return rows, mean, deviation
