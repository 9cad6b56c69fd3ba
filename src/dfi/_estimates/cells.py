r"""The empirical law of latent coordinates in cells: a sum over rows, of fixed size.

Each coordinate has up to 4096 cells. The rows of a cell are one atom of the law: their mass, at
their mean, so the mean of the law is exact, and a value that many rows share (a coordinate of
few levels) stays what it is. Seven edges of eight are quantiles of a sample of the rows, each moved
to the widest gap nearby: they resolve the law wherever its mass is. The others are equally spaced
in :math:`asinh(z)`, and resolve the tails that a sample does not reach: the values of a cell differ
by 5 % there, and the second moment that its atom leaves out is a 5,000th of its own.

What scores move by, in standard errors, against the law with all rows as atoms; the largest of all
scores, latent and attributed, of six columns with 20,000 rows explained, boosting of 100
iterations, edges from all rows and from a sample of 6,000: normal 0.0001, 0.0003; lognormal (sigma
1) 0.0002, 0.0001; lognormal (sigma 2) 0.0003, 0.0002; t(2) 0.0001, 0.0002; correlated integers up
to 200 0.0023, 0.0027; up to 5 0.0021, 0.0025; independent integers 0, 0. Standard errors change by
less than a thousandth.

Edges are fixed before the rows are counted, and counts merge: the law does not depend on how the
table is cut. No edge lies where a value is likely to lie, in the middle between two others or at 0:
there rounding would decide which cell a row is in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dfi._lines.base import ROUNDING, Reference

if TYPE_CHECKING:
    from dfi._data.moments import RowGroups
    from dfi._data.source import RowBlock
    from dfi._types import Floats

CELLS = 4096
"""Cells of each coordinate."""

SPACED = 511
"""Edges of each coordinate that are equally spaced; the others are at quantiles."""

FARTHEST = 13.0
"""The asinh of the farthest edge: 200,000 standard deviations."""

EQUAL = 1e-9
"""Gaps that differ by less than this share of themselves are equal."""

UNEVEN = 0.3819660112501051
"""Where an edge lies between two values: not at a simple fraction of the way."""


def cell_edges(latent: Floats) -> Floats:
    """Return the edges (d, CELLS - 1), ascending, from the latent rows (m, d) of a sample."""
    step = 2.0 * FARTHEST / SPACED
    grid = np.sinh(-FARTHEST + step * (np.arange(SPACED) + UNEVEN))
    edges = np.empty((latent.shape[1], CELLS - 1))
    for j, values in enumerate(np.sort(latent.T, axis=1)):
        own = _between_quantiles(values, CELLS - 1 - SPACED)
        # where there is less to cut than there are edges, some cut nothing
        spare = np.full(CELLS - 1 - SPACED - len(own), grid[-1])
        edges[j] = np.sort(np.concatenate([grid, own, spare]))
    return edges


def _between_quantiles(values: Floats, count: int) -> Floats:
    """Return up to ``count`` edges: in the widest gap of each of as many sets of equal numbers."""
    gaps = np.diff(values)
    wide = gaps > ROUNDING * np.abs(values).max(initial=0.0)
    chosen = np.flatnonzero(wide)
    if len(chosen) > count:
        starts = (np.arange(count) * len(gaps)) // count
        widest = np.maximum.reduceat(gaps, starts)
        part = np.repeat(np.arange(count), np.diff(starts, append=len(gaps)))
        # of gaps that differ by rounding, as those of a lattice, the first
        tied = np.flatnonzero((gaps >= (1.0 - EQUAL) * widest[part]) & wide)
        chosen = tied[np.unique(part[tied], return_index=True)[1]]
    return np.asarray(values[chosen] + UNEVEN * gaps[chosen])


TIE = 1e-11
"""What an atom lies below its place: trees split at values that rows take (``x <= c``), and which
side an atom at such a split is on must not be decided by the rounding of sums."""


def lowered(law: Reference) -> Reference:
    """Return a law whose atoms lie below their places by as much as rounding may move them."""
    if law.values is None:
        return law
    return replace(law, values=law.values - TIE * (1.0 + np.abs(law.values)))


class Encoder(Protocol):
    """Maps rows to latent coordinates; can be sent to where the rows are."""

    def encode(self, matrix: Floats) -> Floats:
        """Return latent rows."""


@dataclass(frozen=True, eq=False)
class LawCells:
    """The rows of each cell: their ``mass`` (d, CELLS), and the sum of their ``moment``.

    The moment is of the distance from the lower edge of a cell (the upper one of the first), so
    that the mean of equal values is that value up to one rounding.
    """

    mass: Floats
    moment: Floats

    def merge(self, other: LawCells) -> LawCells:
        return LawCells(self.mass + other.mass, self.moment + other.moment)

    def reference(self, edges: Floats, offsets: Floats, offset_weights: Floats) -> Reference:
        """Return the law; ``offsets`` (q, d) are nodes of the random part of each coordinate."""
        filled = self.mass > 0.0
        most = int(filled.sum(axis=1).max()) * len(offsets)
        d = len(self.mass)
        values, cumulative = np.empty((most, d)), np.ones((most, d))
        start = edges[:, np.concatenate([[0], np.arange(edges.shape[1])])]
        for j in range(d):
            own = filled[j]
            mass = self.mass[j, own]
            atoms = start[j, own] + self.moment[j, own] / mass
            atoms = (atoms[None] + offsets[:, j, None]).ravel()
            mass = np.outer(offset_weights, mass).ravel()
            # means of neighbouring cells may be equal up to rounding, and in either order
            order = np.argsort(atoms, kind="stable")
            below = np.cumsum(mass[order])
            values[: len(atoms), j], values[len(atoms) :, j] = atoms[order], atoms[order[-1]]
            cumulative[: len(atoms), j] = below / below[-1]
        return Reference("empirical", values, cumulative)


@dataclass(frozen=True, eq=False)
class LawCellsOf:
    """Counts a block's rows into cells."""

    encoder: Encoder
    edges: Floats

    def __call__(self, block: RowBlock) -> LawCells:
        return self.of(block.matrix, block.mass)

    def of(self, matrix: Floats, mass: Floats) -> LawCells:
        d, count = self.edges.shape
        found = np.zeros((2, d, count + 1))
        if len(matrix):
            latent = np.ascontiguousarray(self.encoder.encode(matrix).T)
            for j in range(d):
                cell = np.searchsorted(self.edges[j], latent[j], side="right")
                found[0, j] = np.bincount(cell, mass, count + 1)
                distance = latent[j] - self.edges[j, np.maximum(cell - 1, 0)]
                found[1, j] = np.bincount(cell, mass * distance, count + 1)
        return LawCells(found[0], found[1])


@dataclass(frozen=True, eq=False)
class CellsWithoutOf:
    """Counts all rows of a block except those of one group."""

    encoder: Encoder
    edges: Floats
    groups: RowGroups
    left_out: int

    def __call__(self, block: RowBlock) -> LawCells:
        kept = self.groups(block.places) != self.left_out
        return LawCellsOf(self.encoder, self.edges).of(block.matrix[kept], block.mass[kept])
