r"""Latent lines, the law along them, and what a model must offer to be averaged over them.

Replacing the latent coordinate ``z_ij`` of row ``i`` by ``t`` moves the row along a straight
line of the feature space. The one-dimensional integrals along those lines

.. math::

    m_{ij} = E_t[f(x_i + (t - z_{ij} - \\nu)\\,\\ell_j)], \\qquad
    h_{ij} = E_t[t\\, f(x_i + (t - z_{ij} - \\nu)\\,\\ell_j)], \\qquad t \\sim P_{Z_j},

are all that the importance scores and their influence functions ask of a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from dfi._types import Floats, Ints

ReferenceKind = Literal["gaussian", "empirical"]

ROUNDING = 1e-12
"""Difference of latent values, as a share of the largest, that is rounding."""


@dataclass(frozen=True)
class Reference:
    """The law ``P_Zj`` of the replacement value of each latent coordinate.

    Parameters
    ----------
    kind : {"gaussian", "empirical"}
        ``N(0, 1)`` for every coordinate, or the (weighted) empirical law of each latent column.
    values : ndarray of shape (n_values, d), optional
        Empirical law: each column ascending.
    cumulative : ndarray of shape (n_values, d), optional
        Empirical law: probability of a value at most ``values[k, j]``; the last row is 1.
    """

    kind: ReferenceKind
    values: Floats | None = None
    cumulative: Floats | None = None

    @classmethod
    def gaussian(cls) -> Reference:
        """Return the standard normal law for every coordinate."""
        return cls("gaussian")

    @classmethod
    def empirical(cls, latent: Floats, weights: Floats | None = None) -> Reference:
        """Return the weighted empirical law of each column of ``latent``."""
        order = np.argsort(latent, axis=0, kind="stable")
        values = np.ascontiguousarray(np.take_along_axis(latent, order, axis=0))
        mass = np.ones(len(latent)) if weights is None else np.asarray(weights, dtype=float)
        cumulative = np.cumsum(mass[order], axis=0)
        cumulative /= cumulative[-1]
        return cls("empirical", values, np.ascontiguousarray(cumulative))

    def only(self, coordinates: Ints) -> Reference:
        """Return the law of some of the coordinates, in the order given."""
        if self.values is None or self.cumulative is None:
            return self
        return Reference(
            self.kind,
            np.ascontiguousarray(self.values[:, coordinates]),
            np.ascontiguousarray(self.cumulative[:, coordinates]),
        )

    def moments(self, d: int) -> tuple[Floats, Floats]:
        """Return the first and the second moment of each of ``d`` coordinates."""
        if self.values is None:
            return np.zeros(d), np.ones(d)
        mass = self.masses()
        return np.sum(mass * self.values, axis=0), np.sum(mass * self.values**2, axis=0)

    def atoms(self, j: int) -> tuple[Floats, Floats]:
        """Return the distinct values of coordinate ``j`` and their probabilities.

        Values that differ by rounding alone are one: equal rows may be encoded differently in
        their last digit. Values without weight are left out.
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
        """Return the probability of each empirical value, shape (n_values, d)."""
        if self.cumulative is None:
            raise TypeError("a Gaussian reference law has no atoms")
        return np.diff(self.cumulative, axis=0, prepend=0.0)


@dataclass(frozen=True)
class Lines:
    """The lines through ``n`` rows along ``d`` latent directions.

    Parameters
    ----------
    points : ndarray of shape (n, p)
        The rows, in the units the model was fitted in.
    latent : ndarray of shape (n, d)
        Their latent coordinates.
    directions : ndarray of shape (p, d)
        Column ``j`` is the change of a row per unit of latent coordinate ``j``.
    reference : Reference
        The law of the replacement value.
    offsets : ndarray of shape (q, d)
        Shifts of the latent coordinate, one set per node of the transport's random kernel;
        a single row of zeros where the kernel is deterministic.
    """

    points: Floats
    latent: Floats
    directions: Floats
    reference: Reference
    offsets: Floats

    def take(self, rows: slice) -> Lines:
        """Return the lines through some of the rows."""
        return Lines(
            self.points[rows], self.latent[rows], self.directions, self.reference, self.offsets
        )


@dataclass(frozen=True)
class LineMoments:
    """Moments of a model along lines, each of shape (q, n, d).

    Attributes
    ----------
    mean : ndarray
        ``E_t[f]``, the line mean ``m``.
    hermite : ndarray
        ``E_t[t f]``, the first Hermite moment ``h``.
    square : ndarray or None
        ``E_t[f^2]``, where it was asked for (CPI-type scores).
    """

    mean: Floats
    hermite: Floats
    square: Floats | None = None


@runtime_checkable
class LineModel(Protocol):
    """A fitted regression that can be evaluated at rows and averaged along lines."""

    @property
    def rule(self) -> str:
        """How the averages are taken, in a few words (``"exact: 500 trees"``)."""

    def predict(self, points: Floats) -> Floats:
        """Return the model's value at each row."""

    def moments(self, lines: Lines, *, square: bool = False) -> LineMoments:
        """Return the moments of the model along each line."""
