r"""The space in which rows are scored: straight latent lines, and the law along them.

A fitted transport hands it over, and scoring knows nothing else of the transport. With
standardised rows :math:`x` and a symmetric :math:`L`, latent rows are :math:`z = L^{-1} x`, line
``j`` goes along column ``j`` of :math:`L`, and :math:`z_j` is replaced by draws of the reference
law. Under the Gaussian bridge latent rows are blurred, by the correlation ``smoothing``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dfi._lines.base import Reference
    from dfi._types import Floats, Ints

KERNEL_NODES = 5
"""Gauss-Hermite nodes for the random part of a rank-deficient map."""

MANY_COLUMNS = 512
"""Columns from which on matrices are multiplied component by component."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """A linear map between rows of a numeric matrix and latent coordinates, with its law.

    Attributes
    ----------
    active : ndarray of int
        The columns that vary: the latent coordinates belong to these, in order.
    center, scale : ndarray of shape (p,)
        What standardises the columns of the matrix.
    encoder, decoder : ndarray of shape (d, d)
        From standardised rows to latent ones, and back; symmetric, 0 between components.
    null : ndarray of shape (d, k)
        A basis of the directions in which standardised rows do not vary.
    vectors, values : ndarray of shape (d, d) and (d,)
        The eigensystem of the (shrunken) correlation matrix; with components the k-th vector
        belongs to the component of the k-th coordinate, and is 0 outside of it.
    reference : Reference
        The law of a replacement coordinate.
    smoothing : float
        The bridge's correlation of latent and whitened rows, 1 for a deterministic map.
    weight_factor : float
        The attribution matrix over the decoder.
    labels : ndarray of int, optional
        The dependence component of each coordinate.
    standardized : bool
        Whether correlations were fitted, not covariances.
    shrinkage : float
        The share of the identity that was mixed in.
    underived : str
        Why no error of the map is derived; empty where it is.
    """

    active: Ints
    center: Floats
    scale: Floats
    encoder: Floats
    decoder: Floats
    null: Floats
    vectors: Floats
    values: Floats
    reference: Reference
    smoothing: float = 1.0
    weight_factor: float = 1.0
    labels: Ints | None = None
    standardized: bool = True
    shrinkage: float = 0.0
    underived: str = ""

    @property
    def raw_values(self) -> Floats:
        """The eigenvalues before shrinkage, which keeps their mean."""
        mean = self.values.mean()
        return np.asarray((self.values - self.shrinkage * mean) / (1.0 - self.shrinkage))

    @property
    def n_latent(self) -> int:
        return len(self.active)

    @property
    def attribution(self) -> Floats:
        """The matrix ``W`` with ``S_l(z) = sum_j W_lj z_j`` in standardised units."""
        return self.weight_factor * self.decoder

    @property
    def directions(self) -> Floats:
        """Change of a row of the matrix per unit of each latent coordinate, (p, d)."""
        directions = np.zeros((len(self.center), self.n_latent))
        directions[self.active] = self.scale[self.active, None] * self.decoder
        return directions

    @property
    def blocks(self) -> tuple[Ints, ...]:
        """The coordinates of each dependence component; all of them where there are none."""
        return components_of(self.labels, self.n_latent)

    def times(self, matrix: Floats, columns: Floats) -> Floats:
        if self.labels is None or len(matrix) < MANY_COLUMNS:
            return np.asarray(matrix @ columns)
        found = np.diag(matrix)[:, None] * columns
        for block in self.blocks:
            if len(block) > 1:
                found[block] = matrix[np.ix_(block, block)] @ columns[block]
        return np.asarray(found)

    @property
    def kernel_variance(self) -> Floats:
        """Variance of the random part of each latent coordinate: the diagonal of ``I - P``."""
        variance = np.sum(self.null**2, axis=1)
        # Rounding leaves 1e-16 where the coordinate is fully determined.
        return np.where(variance > 1e-12, variance, 0.0)

    @property
    def kernel_loadings(self) -> Floats:
        """Mean of the random part of coordinate ``k`` per unit of that of ``j``, entry (k, j)."""
        null, variance = self.null, self.kernel_variance
        return np.divide(
            null @ null.T, variance, out=np.zeros_like(self.decoder), where=variance > 0
        )

    @cached_property
    def offsets(self) -> tuple[Floats, Floats]:
        """Nodes (q, d) and weights (q,) of the random part of each coordinate."""
        deviation = np.sqrt(self.kernel_variance)
        if not deviation.any():
            return np.zeros((1, self.n_latent)), np.ones(1)
        nodes, weights = np.polynomial.hermite_e.hermegauss(KERNEL_NODES)
        return nodes[:, None] * deviation, weights / weights.sum()

    def standardize(self, matrix: Floats) -> Floats:
        return np.asarray(
            (matrix[:, self.active] - self.center[self.active]) / self.scale[self.active]
        )

    def encode(self, matrix: Floats) -> Floats:
        return np.asarray(self.standardize(matrix) @ self.encoder)

    def decode(self, latent: Floats) -> Floats:
        moved = np.asarray(latent @ self.decoder)
        moved *= self.scale[self.active]
        moved += self.center[self.active]
        if moved.shape[1] == len(self.center):
            return moved
        rows = np.broadcast_to(self.center, (len(latent), len(self.center))).copy()
        rows[:, self.active] = moved
        return rows

    def with_random_part(self, latent: Floats, generator: np.random.Generator) -> Floats:
        """Draw the part that collinear columns leave open, without which latents are dependent."""
        null = self.null
        if null.shape[1]:
            return latent + generator.standard_normal((len(latent), null.shape[1])) @ null.T
        return latent

    def filled(self, latent: Floats, generator: np.random.Generator) -> Floats:
        """Draw the same in a way that does not depend on the basis of the null space."""
        null = self.null
        if null.shape[1]:
            return latent + generator.standard_normal(latent.shape) @ (null @ null.T)
        return latent

    def couple(self, matrix: Floats, generator: np.random.Generator) -> Floats:
        latent = self.filled(self.encode(matrix), generator)
        if self.smoothing == 1.0:
            return latent
        noise = generator.standard_normal(latent.shape)
        return self.smoothing * latent + math.sqrt(1.0 - self.smoothing**2) * noise


def components_of(labels: Ints | None, count: int) -> tuple[Ints, ...]:
    """Return the coordinates of each dependence component."""
    if labels is None:
        return (np.arange(count),)
    order = np.argsort(labels, kind="stable")
    return tuple(np.split(order, np.cumsum(np.bincount(labels))[:-1]))
