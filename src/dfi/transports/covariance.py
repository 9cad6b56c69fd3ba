r"""Correlation matrices of many columns: the sample's, low rank and diagonal, or shrunken.

A *coordinate* is a standardised column, or one of several that are whitened within a block (a
group, a category). Only correlations between blocks are estimated: within a block the result is
the identity, and a column is a block of its own. With :math:`S` the weighted sample correlation:

- ``"sample"``: :math:`S` itself, singular where there are fewer rows than coordinates.
- ``"factor"``: principal factors,

  .. math:: R = \Lambda\Lambda' + \mathrm{blockdiag}(I - H_b), \qquad
            H_b = (\Lambda\Lambda')_{bb} \le (1 - f)\,I ,

  :math:`\Lambda\Lambda'` the leading part of rank ``k`` of :math:`S` with its blocks replaced by
  the communalities :math:`H_b`, a fixed number of times. ``R`` is positive definite
  for any number of rows (its eigenvalues are at least the floor ``f``), so no latent coordinate is
  random with fewer rows than columns; columns that are collinear are not taken to be.

  The rank is the number of eigenvalues of :math:`S` above the edge that independent blocks reach,
  :math:`(1 + \sqrt{d/n})^2` for single columns (Marchenko and Pastur). A block of :math:`d_b`
  coordinates is, in the space of the rows, a projection of relative rank :math:`t_b = d_b/n`, and
  the edge of a sum of free projections is

  .. math:: \min_{z > 0}\; \frac1z + \sum_b \frac{z - 1 + \sqrt{(1 - z)^2 + 4 t_b z}}{2z}.

- ``"ledoit-wolf"``: :math:`(1 - a) S + a I` with Ledoit and Wolf's share ``a``.

Which is better depends on what correlations are like, not on their number alone. With the true
linear regression on five columns, in one component, means of 20 samples: the five largest scores
as a share of the truth, and the sum of the bias of all, :math:`\sum_l |E\hat\phi_{X_l} -
\phi_{X_l}|`, in shares of the variance explained.

=========================  ============  ============  ============
columns, rows              sample        ledoit-wolf   factor
=========================  ============  ============  ============
5 factors, 50, 300         0.95, 0.07    0.92, 0.09    0.99, 0.03
5 factors, 50, 200         0.93, 0.09    0.89, 0.13    0.99, 0.03
5 factors, 200, 400        0.81, 0.14    0.80, 0.16    0.99, 0.03
5 factors, 200, 150        0.35, 0.41    0.50, 0.46    0.96, 0.06
AR(.5), 50, 300            0.96, 0.10    0.92, 0.15    1.00, 0.23
AR(.5), 50, 200            0.92, 0.15    0.88, 0.20    0.98, 0.25
AR(.5), 200, 400           0.79, 0.37    0.81, 0.32    0.98, 0.34
AR(.5), 200, 150           0.33, 0.99    0.73, 0.41    0.97, 0.38
pairs of .9, 50, 200       0.95, 0.11    0.70, 0.34    0.99, 0.76
pairs of .9, 200, 150      0.46, 0.83    0.57, 0.51    0.79, 0.73
=========================  ============  ============  ============

Factors are right where few directions are shared by many columns: every score is near its truth
even with fewer rows than columns. Where correlations are local, most of them are below the edge and
left out: the large scores have the right sum, but between neighbours they are divided wrongly
(AR(.5), 200 columns, 150 rows: 1.1 for a column whose neighbours say nothing, 0.7 for one of two
neighbours that both matter; of a pair of .9 the column that the regression does not read gets 0.1).
There the sample correlation is better down to four rows a column or so, and below two
none is good. Components (:mod:`dfi.transports.components`) take such pairs apart where nothing else
joins them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from dfi.transports.margins import count_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.moments import RowGroups
    from dfi._data.source import RowBlock
    from dfi._data.weights import Weights
    from dfi._types import Floats, Ints
    from dfi.transports.cells import Encoder

CovarianceKind = Literal["auto", "sample", "factor", "ledoit-wolf"]

WIDE = 0.2
"""More coordinates than this share of the rows are many: ``"auto"`` takes factors for them."""

ITERATIONS = 30
"""Rounds of communalities: a fixed number, so that the result changes smoothly with the rows."""

STEPS = 2
"""Steps of subspace iteration in each round."""

FLOOR = 0.01
"""Least share of a coordinate that is its own."""

MOST_SHRINKAGE = 1.0 - 1e-9


class Coordinates(Protocol):
    """Coordinates of weighted rows, centred: what estimates of their correlations ask of them."""

    @property
    def width(self) -> int:
        """How many coordinates there are."""

    @property
    def size(self) -> float:
        """The effective number of rows (:func:`~dfi.transports.margins.count_rows`)."""

    @property
    def total(self) -> float:
        """The number of observations (:attr:`~dfi._data.weights.Weights.total`)."""

    def second_moments(self, place: slice | Ints) -> Floats:
        """Return the mean products of some coordinates."""

    def root(self, place: slice | Ints) -> Floats:
        """Return rows whose cross products are the second moments of some coordinates."""

    def fourth_moments(self, some: Sequence[slice | Ints]) -> list[float]:
        r"""Return :math:`E\|x\|^4` for each set of coordinates."""

    def some_rows(self) -> tuple[Floats, Floats]:
        """Return rows (m, width) that stand for all, and their shares."""


@dataclass(frozen=True, eq=False)
class RowCoordinates:
    """The coordinates of rows in memory, (n, d)."""

    rows: Floats
    weights: Weights

    @property
    def width(self) -> int:
        """How many coordinates there are."""
        return int(self.rows.shape[1])

    @property
    def size(self) -> float:
        """The effective number of rows."""
        return count_rows(self.weights)

    @property
    def total(self) -> float:
        """The number of observations."""
        return self.weights.total

    @cached_property
    def share(self) -> Floats:
        """The rows' weights, of sum 1."""
        return np.asarray(self.weights.values / self.weights.values.sum())

    @cached_property
    def _root(self) -> Floats:
        return np.asarray(self.rows * np.sqrt(self.share)[:, None])

    def second_moments(self, place: slice | Ints) -> Floats:
        """Return the mean products of some coordinates."""
        rows = self.rows[:, place]
        return np.asarray((self.share[:, None] * rows).T @ rows)

    def root(self, place: slice | Ints) -> Floats:
        """Return rows whose cross products are the second moments of some coordinates."""
        return np.asarray(self._root[:, place])

    def fourth_moments(self, some: Sequence[slice | Ints]) -> list[float]:
        r"""Return :math:`E\|x\|^4` for each set of coordinates."""
        return [float(self.share @ np.sum(self.rows[:, place] ** 2, axis=1) ** 2) for place in some]

    def some_rows(self) -> tuple[Floats, Floats]:
        """Return all rows and their shares."""
        return self.rows, self.share


@dataclass(frozen=True, eq=False)
class SummedCoordinates:
    """Coordinates of rows that only sums are known of, and a sample.

    ``deviations`` (k, d) is a root of their second moments (:class:`dfi._data.moments.Moments`),
    ``sample`` some of the rows, and ``fourth`` goes through all of them again.
    """

    deviations: Floats
    size: float
    total: float
    sample: Callable[[], tuple[Floats, Floats]]
    fourth: Callable[[Sequence[slice | Ints]], list[float]]

    @property
    def width(self) -> int:
        """How many coordinates there are."""
        return int(self.deviations.shape[1])

    def second_moments(self, place: slice | Ints) -> Floats:
        """Return the mean products of some coordinates."""
        return np.asarray(self.deviations[:, place].T @ self.deviations[:, place])

    def root(self, place: slice | Ints) -> Floats:
        """Return rows whose cross products are the second moments of some coordinates."""
        return np.asarray(self.deviations[:, place])

    def fourth_moments(self, some: Sequence[slice | Ints]) -> list[float]:
        r"""Return :math:`E\|x\|^4` for each set of coordinates."""
        return self.fourth(some)

    def some_rows(self) -> tuple[Floats, Floats]:
        """Return the sample and its shares."""
        return self.sample()


@dataclass(frozen=True, eq=False)
class FourthPowers:
    """The sum of the weights of some rows, and of their fourth powers for sets of coordinates."""

    mass: float
    values: Floats

    def merge(self, other: FourthPowers) -> FourthPowers:
        """Return the sums over the rows of both."""
        return FourthPowers(self.mass + other.mass, self.values + other.values)


@dataclass(frozen=True, eq=False)
class FourthPowersOf:
    """What makes the sums of a block's rows, those of one group left out where it is given."""

    encoder: Encoder
    some: tuple[slice | Ints, ...]
    without: tuple[RowGroups, int] | None = None

    def __call__(self, block: RowBlock) -> FourthPowers:
        """Return the sums of a block's rows."""
        mass = block.mass
        if self.without is not None:
            groups, left_out = self.without
            mass = np.where(groups(np.arange(len(mass)) + block.first) == left_out, 0.0, mass)
        squares = self.encoder.encode(block.matrix) ** 2
        powers = [mass @ np.sum(squares[:, place], axis=1) ** 2 for place in self.some]
        return FourthPowers(float(mass.sum()), np.array(powers))


@dataclass(frozen=True)
class Correlation:
    """A correlation matrix (d, d) and how it was found.

    ``ranks`` are the numbers of factors of each component in the order of labels, None for one
    whose matrix is the sample's (shrunken by ``shrinkage`` under Ledoit and Wolf).
    """

    matrix: Floats
    kind: Literal["sample", "factor", "ledoit-wolf"]
    ranks: tuple[int | None, ...]
    shrinkage: float = 0.0


def correlation(
    coordinates: Coordinates,
    kind: CovarianceKind = "auto",
    *,
    labels: Ints | None = None,
    blocks: Ints | None = None,
    ranks: Sequence[int | None] | None = None,
) -> Correlation:
    """Estimate the correlation matrix of coordinates.

    Parameters
    ----------
    coordinates : Coordinates
        Centred and of unit (weighted) variance; whitened within blocks.
    kind : {"auto", "sample", "factor", "ledoit-wolf"}, default="auto"
        ``"auto"`` takes factors for components of more than ``n / 5`` coordinates, ``n`` the
        effective number of rows, and the sample correlation for the others.
    labels : ndarray of shape (d,), optional
        Dependence component of each coordinate, 0, 1, ...: correlations between them are 0.
    blocks : ndarray of shape (d,), optional
        Block of each coordinate; by default every one is its own.
    ranks : sequence of int or None, optional
        Those of an earlier fit, to be kept: which components have factors, and how many.
    """
    d = coordinates.width
    own = np.arange(d) if blocks is None else blocks
    if ranks is None:
        ranks = component_ranks(coordinates, kind, labels, blocks)
    matrix, amount = np.zeros((d, d)), 0.0
    for at, rank in zip(places(labels), ranks, strict=True):
        inside = np.arange(d)[at]
        sample = coordinates.second_moments(at)
        part = sample if rank is None else principal_factors(sample, rank, own[at])
        matrix[np.ix_(inside, inside)] = part
    if kind == "ledoit-wolf":
        amount = ledoit_wolf(coordinates, labels, blocks)
        matrix = (1.0 - amount) * matrix + amount * np.eye(d)
    factors = any(rank is not None for rank in ranks)
    same = own[:, None] == own[None, :]
    matrix[same] = np.eye(d)[same]  # up to rounding they are so already
    return Correlation(
        matrix,
        "ledoit-wolf" if kind == "ledoit-wolf" else "factor" if factors else "sample",
        tuple(ranks),
        amount,
    )


def component_ranks(
    coordinates: Coordinates,
    kind: CovarianceKind,
    labels: Ints | None = None,
    blocks: Ints | None = None,
) -> tuple[int | None, ...]:
    """Return the number of factors of each component; None for those that are to have none."""
    size = coordinates.size
    ranks: list[int | None] = []
    for at in places(labels):
        d = coordinates.width if isinstance(at, slice) else len(at)
        if kind in ("sample", "ledoit-wolf") or (kind == "auto" and d <= WIDE * size):
            ranks.append(None)
            continue
        values = np.linalg.svd(coordinates.root(at), compute_uv=False) ** 2
        sizes = np.ones(d) if blocks is None else np.unique(blocks[at], return_counts=True)[1]
        ranks.append(min(int(np.sum(values > noise_edge(sizes, size))), d - 1))
    return tuple(ranks)


def noise_edge(sizes: Floats | Ints, n: float) -> float:
    """Return the largest eigenvalue that independent blocks of these sizes reach by chance."""
    sizes = np.asarray(sizes, dtype=float)
    if np.all(sizes == 1.0):
        return float((1.0 + np.sqrt(len(sizes) / n)) ** 2)
    ratios, counts = np.unique(np.minimum(sizes / n, 1.0), return_counts=True)

    def inverse(log_z: float) -> float:
        z = np.exp(log_z)
        root = np.sqrt((1.0 - z) ** 2 + 4.0 * ratios * z)
        # z - 1 + root, without cancellation for small z
        numerator = np.where(z < 1.0, 4.0 * ratios * z / (1.0 - z + root), z - 1.0 + root)
        return float(1.0 / z + counts @ numerator / (2.0 * z))

    grid = np.linspace(-8.0, 8.0, 161)
    best = grid[int(np.argmin([inverse(point) for point in grid]))]
    found = minimize_scalar(inverse, bounds=(best - 0.1, best + 0.1), method="bounded")
    return float(min(found.fun, inverse(best)))


def principal_factors(sample: Floats, rank: int, blocks: Ints | None = None) -> Floats:
    """Return the matrix of ``rank`` factors with the identity within blocks."""
    d = len(sample)
    own = np.arange(d) if blocks is None else blocks
    members = [np.flatnonzero(own == block) for block in np.unique(own)]
    single = np.concatenate([m for m in members if len(m) == 1] or [np.empty(0, dtype=np.intp)])
    several = [m for m in members if len(m) > 1]
    target, loadings = sample, np.zeros((d, 0))
    vectors: Floats | None = None
    for _ in range(ITERATIONS if rank else 0):
        values, vectors = _leading(target, rank, vectors)
        loadings = vectors * np.sqrt(np.maximum(values, 0.0))
        communality = np.sum(loadings[single] ** 2, axis=1)
        loadings[single] *= np.sqrt((1.0 - FLOOR) / np.maximum(communality, 1.0 - FLOOR))[:, None]
        target = sample.copy()
        target[single, single] = np.minimum(communality, 1.0 - FLOOR)
        for block in several:
            left, singular, right = np.linalg.svd(loadings[block], full_matrices=False)
            loadings[block] = (left * np.minimum(singular, np.sqrt(1.0 - FLOOR))) @ right
            target[np.ix_(block, block)] = loadings[block] @ loadings[block].T
    result = loadings @ loadings.T
    same = own[:, None] == own[None, :]
    result[same] = np.eye(d)[same]
    return np.asarray(result)


def _leading(matrix: Floats, rank: int, near: Floats | None) -> tuple[Floats, Floats]:
    """Return the leading eigenvalues and vectors, from those of a matrix that is near.

    Communalities change little from round to round, and two steps of subspace iteration follow
    them at a fortieth of the cost of the whole spectrum for 28 factors of 832 columns.
    """
    d = len(matrix)
    if near is None or 8 * rank > d:
        values, vectors = eigh(matrix, subset_by_index=[d - rank, d - 1])
        return values, vectors
    for _ in range(STEPS):
        near, _ = np.linalg.qr(matrix @ near)
    values, rotation = np.linalg.eigh(near.T @ matrix @ near)
    return values, near @ rotation


def ledoit_wolf(
    coordinates: Coordinates, labels: Ints | None = None, blocks: Ints | None = None
) -> float:
    r"""Return Ledoit and Wolf's share of the identity, with weighted moments.

    scikit-learn's takes no weights, and is the same where they are equal (tested).

    .. math:: \frac{\min(b, d)}{d}, \qquad d = \|S - \bar\lambda I\|_F^2, \qquad
              b = \frac1N \sum_c \Big(\sum_i p_i \|x_{ic}\|^4 - \|S_{cc}\|_F^2\Big),

    over the components ``c``: entries of ``S`` between them are known to be 0. Those within a block
    of several coordinates are known too, and their part of ``b`` is taken off.
    """
    square = trace = error = 0.0
    components = places(labels)
    several: list[Ints] = []
    if blocks is not None:
        inside = (np.flatnonzero(blocks == block) for block in np.unique(blocks))
        several = [place for place in inside if len(place) > 1]
    fourth = coordinates.fourth_moments([*components, *several])
    for place, power in zip(components, fourth, strict=False):
        covariance = coordinates.second_moments(place)
        square += float(np.sum(covariance**2))
        trace += float(np.trace(covariance))
        error += power
    error -= square
    for place, power in zip(several, fourth[len(components) :], strict=True):
        error -= power
        error += float(np.sum(coordinates.second_moments(place) ** 2))
    spread = square - trace**2 / coordinates.width
    error /= coordinates.total
    # single columns of unit variance are the identity already, up to rounding
    if spread <= 1e-12 * square or error <= 0:
        return 0.0
    # All of it would leave nothing of the correlations, nor of their influence on the scores: 0/0.
    return min(float(min(error, spread) / spread), MOST_SHRINKAGE)


def places(labels: Ints | None) -> list[slice | Ints]:
    """Return the columns of each component; without components, a view of all of them."""
    if labels is None or not labels.any():
        return [slice(None)]
    return [np.flatnonzero(labels == k) for k in range(int(labels.max()) + 1)]
