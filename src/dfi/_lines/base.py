r"""Latent lines, the law along them, and the interface of models averaged over them.

Replacing the latent coordinate ``z_ij`` of row ``i`` by ``t`` moves the row along a straight
line of the feature space. The one-dimensional integrals along those lines

.. math::

    m_{ij} = E_t[f(x_i + (t - z_{ij} - \\nu)\\,\\ell_j)], \\qquad
    h_{ij} = E_t[t\\, f(x_i + (t - z_{ij} - \\nu)\\,\\ell_j)], \\qquad t \\sim P_{Z_j},

are all that the importance scores and their influence functions ask of a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dfi._types import Floats, Ints

Made = TypeVar("Made")
ReferenceKind = Literal["gaussian", "empirical"]

ROUNDING = 1e-12
"""Relative difference of latent values that counts as rounding."""


def blocks(count: int, size: int) -> Iterator[slice]:
    """Cut ``count`` rows into blocks of at most ``size``, but no less than one."""
    size = max(1, size)
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


@dataclass(frozen=True)
class Reference:
    """The law ``P_Zj`` of the replacement value of each latent coordinate.

    ``N(0, 1)``, or the empirical law of each latent column: ``values`` ascending and ``cumulative``
    probabilities, 1 in the last row, both (n_values, d).
    """

    kind: ReferenceKind
    values: Floats | None = None
    cumulative: Floats | None = None

    @classmethod
    def gaussian(cls) -> Reference:
        return cls("gaussian")

    @classmethod
    def empirical(cls, latent: Floats, weights: Floats | None = None) -> Reference:
        mass = np.ones(len(latent)) if weights is None else np.asarray(weights, dtype=float)
        return cls("empirical", *_sorted(latent, mass))

    @staticmethod
    def of_rows(latent: Floats, weights: Floats, offsets: Floats, shares: Floats) -> Reference:
        """Return the law of rows, each moved by every one of the offsets (q, d) with its share.

        Coordinates are sorted when they are asked for: refits of units ask for few.
        """
        return _LawOfRows(latent, weights, offsets, shares)

    def only(self, coordinates: Ints) -> Reference:
        """Return the law of some of the coordinates, in the order given."""
        if self.values is None or self.cumulative is None:
            return self
        key = coordinates.tobytes()
        if key not in self._parts:
            self._parts[key] = Reference(
                self.kind,
                np.ascontiguousarray(self.values[:, coordinates]),
                np.ascontiguousarray(self.cumulative[:, coordinates]),
            )
        return self._parts[key]

    @cached_property
    def _parts(self) -> dict[bytes, Reference]:
        return {}

    def kept(self, make: Callable[..., Made], *arguments: object) -> Made:
        """Return a function of this law, computed once and kept as long as the law.

        Rows come in blocks and models in numbers: tables of the whole law made for each of them
        would make the cost quadratic in the number of rows.
        """
        key = make, *arguments
        if key not in self._kept:
            self._kept[key] = make(self, *arguments)
        made: Made = self._kept[key]
        return made

    @cached_property
    def _kept(self) -> dict[tuple[object, ...], Any]:
        return {}

    def __reduce__(self) -> tuple[type[Reference], tuple[object, ...]]:
        # Tables are larger than the law and quickly made again: workers are sent the law alone.
        return Reference, (self.kind, self.values, self.cumulative)

    def moments(self, d: int) -> tuple[Floats, Floats]:
        return self.three_moments(d)[:2]

    def three_moments(self, d: int) -> tuple[Floats, Floats, Floats]:
        """Return the mean of each coordinate, of its square and of its third power."""
        if self.values is None:
            return np.zeros(d), np.ones(d), np.zeros(d)
        return self.kept(_moments)

    def atoms(self, j: int) -> tuple[Floats, Floats]:
        """Return the distinct values of coordinate ``j`` that have weight, and their probabilities.

        Values that differ by rounding are one: equal rows may differ in their last digit once
        encoded.
        """
        if self.values is None or self.cumulative is None:
            raise TypeError("a Gaussian reference law has no atoms")
        values = self.values[:, j]
        mass = np.diff(self.cumulative[:, j], prepend=0.0)
        values, mass = values[mass > 0], mass[mass > 0]
        apart = np.diff(values) > ROUNDING * np.abs(values).max()
        starts = np.concatenate([[0], np.flatnonzero(apart) + 1])
        mass = np.add.reduceat(mass, starts)
        return values[starts], mass / mass.sum()

    def masses(self) -> Floats:
        if self.cumulative is None:
            raise TypeError("a Gaussian reference law has no atoms")
        return np.diff(self.cumulative, axis=0, prepend=0.0)


class _LawOfRows(Reference):
    """The empirical law of rows that are moved by offsets, sorted when its values are needed."""

    def __init__(self, latent: Floats, weights: Floats, offsets: Floats, shares: Floats) -> None:
        # a frozen dataclass, whose other fields are the properties below
        vars(self).update(kind="empirical", rows=(latent, weights, offsets, shares))

    if not TYPE_CHECKING:

        @cached_property
        def values(self) -> Floats:
            return self._law[0]

        @cached_property
        def cumulative(self) -> Floats:
            return self._law[1]

    @cached_property
    def _law(self) -> tuple[Floats, Floats]:
        latent, weights, offsets, shares = vars(self)["rows"]
        moved = latent[None] + offsets[:, None]
        return _sorted(moved.reshape(-1, latent.shape[1]), np.outer(shares, weights).ravel())

    def only(self, coordinates: Ints) -> Reference:
        latent, weights, offsets, shares = vars(self)["rows"]
        key = coordinates.tobytes()
        if key not in self._parts:
            self._parts[key] = _LawOfRows(
                latent[:, coordinates], weights, offsets[:, coordinates], shares
            )
        return self._parts[key]

    def three_moments(self, d: int) -> tuple[Floats, Floats, Floats]:
        del d
        return self.kept(_moments_of_rows)


def _moments_of_rows(law: _LawOfRows) -> tuple[Floats, Floats, Floats]:
    latent, weights, offsets, shares = vars(law)["rows"]
    mass = weights / weights.sum()
    found = np.zeros((3, latent.shape[1]))
    for offset, share in zip(offsets, shares / shares.sum(), strict=True):
        moved = latent + offset
        power = moved
        for k in range(3):
            found[k] += share * (mass @ power)
            power = power * moved
    found.flags.writeable = False  # everybody is handed the same array
    return found[0], found[1], found[2]


def _sorted(latent: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Return the values of each column ascending, and the share of the mass up to each."""
    if np.all(mass == mass[0]):
        # Which row a value comes from does not matter, and sorting is quicker than ordering.
        values = np.ascontiguousarray(np.sort(latent.T, axis=1).T)
        cumulative = np.repeat(np.cumsum(mass)[:, None], latent.shape[1], axis=1)
    else:
        order = np.argsort(latent, axis=0, kind="stable")
        values = np.ascontiguousarray(np.take_along_axis(latent, order, axis=0))
        cumulative = np.cumsum(mass[order], axis=0)
    cumulative /= cumulative[-1]
    return values, np.ascontiguousarray(cumulative)


def _moments(reference: Reference) -> tuple[Floats, Floats, Floats]:
    if reference.values is None:
        raise TypeError("a Gaussian reference law has no atoms")
    mass, values = reference.masses(), reference.values
    first, second, third = (np.sum(mass * values**k, axis=0) for k in (1, 2, 3))
    # Everybody is handed the same arrays.
    first.flags.writeable = second.flags.writeable = third.flags.writeable = False
    return first, second, third


@dataclass(frozen=True)
class Lines:
    """The lines through ``n`` rows along ``d`` latent directions.

    Column ``j`` of ``directions`` (p, d) is the change of a row of ``points`` (n, p) per unit of
    latent coordinate ``j``. ``offsets`` (q, d) shift the latent coordinate, one set per node of the
    transport's random kernel; a single row of zeros where the kernel is deterministic.
    """

    points: Floats
    latent: Floats
    directions: Floats
    reference: Reference
    offsets: Floats

    def take(self, rows: slice) -> Lines:
        return Lines(
            self.points[rows], self.latent[rows], self.directions, self.reference, self.offsets
        )


@dataclass(frozen=True)
class LineMoments:
    """``E_t[f]`` and ``E_t[t f]``, each of shape (q, n, d)."""

    mean: Floats
    hermite: Floats


@runtime_checkable
class LineModel(Protocol):
    """A fitted regression that can be evaluated at rows and averaged along lines."""

    @property
    def rule(self) -> str:
        """How the averages are taken, in a few words (``"exact: 500 trees"``)."""

    def predict(self, points: Floats) -> Floats:
        """Return the model's value at each row."""

    def moments(self, lines: Lines) -> LineMoments:
        """Return the moments of the model along each line."""
