r"""Correlation matrices of many columns: the sample's, shrunken, or low rank and diagonal.

With :math:`S` the weighted sample correlation of the columns:

- ``"sample"``: :math:`S` itself, singular where there are fewer rows than coordinates.
- ``"qis"``: Ledoit and Wolf's quadratic-inverse shrinkage (*Bernoulli* 28, 2022). Eigenvectors of
  :math:`S` are kept and eigenvalues :math:`\lambda_i` replaced: with :math:`c = d/n` and
  :math:`\theta_i + i H_i` the smoothed Stieltjes transform of the inverse eigenvalues,

  .. math:: \delta_i = \lambda_i \big/ \{(1 - c)^2 + 2 c (1 - c) \theta_i
            + c^2 (\theta_i^2 + H_i^2)\} \quad (c \le 1), \qquad
            \delta_i = \lambda_i / (\theta_i^2 + H_i^2) \quad (c > 1),

  and :math:`1/\{(c - 1)\,\overline{1/\lambda}\}` for directions that fewer rows than columns do not
  show, all times a number that keeps the trace. Smoothing is relative to each eigenvalue: those of
  nearly collinear columns stay as small as they are. Columns that are collinear in any rows stay
  so. Rows are nearer to the middle of such a law than those it was not estimated from (the
  variance of :math:`R^{-1/2}x` is 1/3 to 1 among them), so latent coordinates are divided by their
  deviation.
- ``"factor"``: principal factors,

  .. math:: R = \Lambda\Lambda' + \mathrm{diag}(1 - h), \qquad
            h_l = (\Lambda\Lambda')_{ll} \le 1 - f ,

  :math:`\Lambda\Lambda'` the leading part of rank ``k`` of :math:`S` with its diagonal replaced by
  the communalities :math:`h`, a fixed number of times. ``R`` is positive definite
  for any number of rows (its eigenvalues are at least the floor ``f``), so no latent coordinate is
  random with fewer rows than columns; columns that are collinear are not taken to be. The rank is
  the number of eigenvalues of :math:`S` above the edge that independent columns reach,
  :math:`(1 + \sqrt{d/n})^2` (Marchenko and Pastur).
- ``"ledoit-wolf"``: :math:`(1 - a) S + a I` with Ledoit and Wolf's share ``a``.

Which is better depends on what correlations are like, not on their number alone. With the true
linear regression on five columns, in one component, means of 20 samples: the five largest scores
as a share of the truth, and the sum of the bias of all, :math:`\sum_l |E\hat\phi_{X_l} -
\phi_{X_l}|`, in shares of the variance explained. The column of ``"qis"`` is by closed form and
for another draw of the five columns and of the factors, for which the sample has the values in
brackets.

=========================  ============  ============  ============  ==========================
columns, rows              sample        ledoit-wolf   factor        qis (sample)
=========================  ============  ============  ============  ==========================
5 factors, 50, 300         0.95, 0.07    0.92, 0.09    0.99, 0.03    1.07, 0.11 (0.95, 0.05)
5 factors, 50, 200         0.93, 0.09    0.89, 0.13    0.99, 0.03    1.10, 0.14 (0.92, 0.07)
5 factors, 200, 400        0.81, 0.14    0.80, 0.16    0.99, 0.03    1.11, 0.13 (0.86, 0.09)
5 factors, 200, 150        0.35, 0.41    0.50, 0.46    0.96, 0.06    1.18, 0.18 (0.58, 0.23)
AR(.5), 50, 300            0.96, 0.10    0.92, 0.15    1.00, 0.23    0.97, 0.12 (0.92, 0.12)
AR(.5), 50, 200            0.92, 0.15    0.88, 0.20    0.98, 0.25    0.96, 0.16 (0.89, 0.17)
AR(.5), 200, 400           0.79, 0.37    0.81, 0.32    0.98, 0.34    1.13, 0.30 (0.79, 0.36)
AR(.5), 200, 150           0.33, 0.99    0.73, 0.41    0.97, 0.38    1.20, 0.41 (0.43, 0.97)
pairs of .9, 50, 200       0.95, 0.11    0.70, 0.34    0.99, 0.76    0.97, 0.05 (0.93, 0.15)
pairs of .9, 200, 150      0.46, 0.83    0.57, 0.51    0.79, 0.73    0.95, 0.44 (0.59, 0.79)
AR(.999), 100, 215                                                   1.00, 0.00 (1.00, 0.00)
=========================  ============  ============  ============  ==========================

Factors are right where few directions are shared by many columns: every score is near its truth
even with fewer rows than columns. Where correlations are local, most of them are below the edge and
left out, and of columns that are nearly equal the floor makes columns that are not: opposite
coefficients no longer cancel. QIS has neither fault and is better than the sample below two rows a
column; above that it is about as good, and between few factors somewhat worse. Components
(:mod:`dfi._estimates.components`) take pairs apart where nothing else joins them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from scipy.linalg import eigh, solve_triangular

from dfi._estimates.components import RELATIVE_FLOOR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.moments import RowGroups
    from dfi._data.source import RowBlock
    from dfi._data.weights import Weights
    from dfi._estimates.cells import Encoder
    from dfi._types import Floats, Ints

CovarianceKind = Literal["auto", "sample", "qis", "factor", "ledoit-wolf"]
Rank = int | Literal["qis"] | None
"""How a component is estimated: a number of factors, ``"qis"``, or the sample correlation."""

WIDE = 0.2
"""Up to this many coordinates for each row ``"auto"`` takes the sample correlation."""

FOLDS, ERRORS = 5, 2.0
"""Folds that choose between factors and QIS, and standard errors that are clear."""

VARIES = 1e-9
"""A column with a smaller deviation among some rows, relative to all rows, does not vary there."""

ITERATIONS = 30
"""Rounds of communalities: a fixed number, so the result changes smoothly with the rows."""

STEPS = 2
"""Steps of subspace iteration in each round."""

FLOOR = 0.01
"""Smallest unique share of a coordinate."""

MOST_SHRINKAGE = 1.0 - 1e-9


class Coordinates(Protocol):
    """Centred coordinates of weighted rows, with the sums that estimates of correlations need."""

    @property
    def width(self) -> int:
        """The number of coordinates."""

    @property
    def size(self) -> float:
        """The effective number of rows (``Weights.effective``)."""

    @property
    def total(self) -> float:
        """The number of observations (:attr:`~dfi._data.weights.Weights.total`)."""

    @property
    def distinct(self) -> int:
        """How many rows with a weight differ from each other."""

    def second_moments(self, place: slice | Ints) -> Floats:
        """Return the mean products of some coordinates."""

    def root(self, place: slice | Ints) -> Floats:
        """Return rows whose cross products are the second moments of some coordinates."""

    def fourth_moments(self, some: Sequence[slice | Ints]) -> list[float]:
        r"""Return :math:`E\|x\|^4` for each set of coordinates."""

    def some_rows(self) -> tuple[Floats, Floats]:
        """Return rows (m, width) that represent all rows, and their shares."""


@dataclass(frozen=True, eq=False)
class RowCoordinates:
    """The coordinates of rows in memory, (n, d)."""

    rows: Floats
    weights: Weights

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    @property
    def size(self) -> float:
        return self.weights.effective

    @property
    def total(self) -> float:
        return self.weights.total

    @cached_property
    def distinct(self) -> int:
        """How many rows with a weight differ from each other."""
        return int(np.unique(row_keys(self.rows[self.weights.values > 0])).size)

    @cached_property
    def share(self) -> Floats:
        return self.weights.shares

    @cached_property
    def _root(self) -> Floats:
        return np.asarray(self.rows * np.sqrt(self.share)[:, None])

    def second_moments(self, place: slice | Ints) -> Floats:
        rows = self.rows[:, place]
        return np.asarray((self.share[:, None] * rows).T @ rows)

    def root(self, place: slice | Ints) -> Floats:
        return np.asarray(self._root[:, place])

    def fourth_moments(self, some: Sequence[slice | Ints]) -> list[float]:
        r"""Return :math:`E\|x\|^4` for each set of coordinates."""
        return [float(self.share @ np.sum(self.rows[:, place] ** 2, axis=1) ** 2) for place in some]

    def some_rows(self) -> tuple[Floats, Floats]:
        return self.rows, self.share


@dataclass(frozen=True, eq=False)
class SummedCoordinates:
    """Coordinates of rows that are known by sums and a sample.

    ``deviations`` (k, d) is a root of their second moments (:class:`dfi._data.moments.Moments`),
    ``sample`` some of the rows, of which ``distinct`` differ, and ``fourth`` goes through all of
    them again.
    """

    deviations: Floats
    size: float
    total: float
    sample: Callable[[], tuple[Floats, Floats]]
    fourth: Callable[[Sequence[slice | Ints]], list[float]]
    distinct: int

    @property
    def width(self) -> int:
        return int(self.deviations.shape[1])

    def second_moments(self, place: slice | Ints) -> Floats:
        return np.asarray(self.deviations[:, place].T @ self.deviations[:, place])

    def root(self, place: slice | Ints) -> Floats:
        return np.asarray(self.deviations[:, place])

    def fourth_moments(self, some: Sequence[slice | Ints]) -> list[float]:
        r"""Return :math:`E\|x\|^4` for each set of coordinates."""
        return self.fourth(some)

    def some_rows(self) -> tuple[Floats, Floats]:
        return self.sample()


@dataclass(frozen=True, eq=False)
class FourthPowers:
    """The sum of the weights of some rows, and of their fourth powers for sets of coordinates."""

    mass: float
    values: Floats

    def merge(self, other: FourthPowers) -> FourthPowers:
        return FourthPowers(self.mass + other.mass, self.values + other.values)


@dataclass(frozen=True, eq=False)
class FourthPowersOf:
    """Sums over a block's rows, leaving out one group if given."""

    encoder: Encoder
    some: tuple[slice | Ints, ...]
    without: tuple[RowGroups, int] | None = None

    def __call__(self, block: RowBlock) -> FourthPowers:
        """Return the sums of a block's rows."""
        mass = block.mass
        if self.without is not None:
            groups, left_out = self.without
            mass = np.where(groups(block.places) == left_out, 0.0, mass)
        squares = self.encoder.encode(block.matrix) ** 2
        powers = [mass @ np.sum(squares[:, place], axis=1) ** 2 for place in self.some]
        return FourthPowers(float(mass.sum()), np.array(powers))


@dataclass(frozen=True)
class Estimated:
    """How the correlations of a transport were estimated: ``ranks`` (:data:`Rank`), shrinkage."""

    ranks: tuple[Rank, ...] = ()
    shrinkage: float = 0.0
    sample: Literal["sample", "ledoit-wolf"] = "sample"

    @property
    def of_sample(self) -> bool:
        """Whether all correlations are the sample's, the only ones with derived errors."""
        return all(rank is None for rank in self.ranks)

    @property
    def factors(self) -> int | None:
        """The number of factors of all components; None without a factor covariance."""
        found = [rank for rank in self.ranks if isinstance(rank, int)]
        return sum(found) if found else None

    @property
    def used(self) -> str:
        """The ``covariance`` that was used, of any component that is not the sample's."""
        if self.of_sample:
            return self.sample
        return "qis" if self.factors is None else "factor"


@dataclass(frozen=True)
class Correlation:
    """A correlation matrix (d, d) and how it was found.

    ``ranks`` say how each component was estimated, in the order of labels: by that many factors, by
    ``"qis"``, or None where its matrix is the sample's (shrunken by ``shrinkage`` under Ledoit and
    Wolf). Variances of ``"qis"`` are estimated with the rest, and only near 1.
    """

    matrix: Floats
    ranks: tuple[Rank, ...]
    shrinkage: float = 0.0


def correlation(
    coordinates: Coordinates,
    kind: CovarianceKind = "auto",
    *,
    labels: Ints | None = None,
    ranks: Sequence[Rank] | None = None,
) -> Correlation:
    d = coordinates.width
    if ranks is None:
        ranks = component_ranks(coordinates, kind, labels)
    matrix, amount = np.zeros((d, d)), 0.0
    for at, rank in zip(places(labels), ranks, strict=True):
        inside = np.arange(d)[at]
        matrix[np.ix_(inside, inside)] = estimated(coordinates, at, rank)
    if kind == "ledoit-wolf":
        amount = ledoit_wolf(coordinates, labels)
        matrix = (1.0 - amount) * matrix + amount * np.eye(d)
        np.fill_diagonal(matrix, 1.0)  # up to rounding they are so already
    return Correlation(matrix, tuple(ranks), amount)


def estimated(coordinates: Coordinates, at: slice | Ints, rank: Rank) -> Floats:
    """Return the matrix of one component's coordinates, each in units of its deviation."""
    root = coordinates.root(at)
    deviation = np.sqrt(np.sum(root**2, axis=0))
    varies = deviation > 0
    root = root[:, varies] / deviation[varies]
    if rank == "qis":
        part = quadratic_inverse(root, coordinates.size, coordinates.distinct)
    else:
        if rank is not None:
            root = principal_factors(root, min(rank, max(root.shape[1] - 1, 0))).T
        part = root.T @ root
        np.fill_diagonal(part, 1.0)
    matrix = np.eye(len(varies))
    matrix[np.ix_(varies, varies)] = part
    return matrix


def component_ranks(
    coordinates: Coordinates, kind: CovarianceKind, labels: Ints | None = None
) -> tuple[Rank, ...]:
    ranks: list[Rank] = []
    for at in places(labels):
        d = coordinates.width if isinstance(at, slice) else len(at)
        if kind in ("sample", "ledoit-wolf") or (kind == "auto" and d <= WIDE * coordinates.size):
            ranks.append(None)
        elif kind == "factor" or (kind == "auto" and prefers_factors(coordinates, at)):
            ranks.append(n_factors(coordinates.root(at), coordinates.size))
        else:
            ranks.append("qis")
    return tuple(ranks)


def n_factors(root: Floats, size: float) -> int:
    """Return the number of eigenvalues that independent columns do not reach by chance."""
    d = root.shape[1]
    values = np.linalg.eigvalsh(root @ root.T if len(root) < d else root.T @ root)
    edge = (1.0 + float(d / size) ** 0.5) ** 2
    return int(min(np.sum(values > edge), d - 1))


def prefers_factors(coordinates: Coordinates, at: slice | Ints) -> bool:
    """Return whether held-out rows are clearly likelier under factors than under QIS.

    By the mean difference of normal log-likelihoods over :data:`FOLDS` folds, clearly being above
    :data:`ERRORS` of its standard errors. The identity times ``FLOOR^2`` is added to both matrices:
    what is collinear has no density. Folds go by the values of rows, so equal rows are in
    the same one, and the order of rows and columns does not matter.
    """
    rows, share = coordinates.some_rows()
    rows = rows[share > 0][:, at]
    share = share[share > 0]
    _, first, which = np.unique(row_keys(rows), return_index=True, return_inverse=True)
    sizes = row_keys(np.sort(rows[first], axis=1))
    fold = np.argsort(np.argsort(sizes, kind="stable"))[which] % FOLDS
    difference = np.zeros(len(rows))
    for k in np.unique(fold):
        held, part = fold == k, share[fold != k].sum()
        if part == 0.0:
            return False
        root = rows[~held] * np.sqrt(share[~held] / part)[:, None]
        deviation = np.sqrt(np.sum(root**2, axis=0))
        varies = deviation > VARIES
        root, tested = root[:, varies] / deviation[varies], rows[held][:, varies]
        size, distinct = part * coordinates.size, len(np.unique(row_keys(rows[~held])))
        if not varies.any():
            return False
        tested /= deviation[varies]
        loadings = principal_factors(root, n_factors(root, size))
        difference[held] = _factor_likelihood(tested, loadings)
        difference[held] -= _likelihood(tested, shrunken(root, size, distinct))
    mean = share @ difference
    error = np.sqrt(share @ (difference - mean) ** 2 / coordinates.size)
    return bool(mean > ERRORS * error)


def _factor_likelihood(rows: Floats, loadings: Floats) -> Floats:
    r"""Return the normal log-likelihood of rows under factors, but for a constant.

    By Woodbury's identity, with :math:`D` the parts of their own and
    :math:`A = I + \Lambda' D^{-1} \Lambda`, of as many rows as there are factors.
    """
    own = 1.0 - np.sum(loadings**2, axis=1) + FLOOR**2
    inner = np.eye(loadings.shape[1]) + (loadings.T / own) @ loadings
    lower = np.linalg.cholesky(inner)
    white = solve_triangular(lower, (rows / own @ loadings).T, lower=True)
    square = np.sum(rows**2 / own, axis=1) - np.sum(white**2, axis=0)
    return np.asarray(-0.5 * (square + np.sum(np.log(own))) - np.sum(np.log(np.diag(lower))))


def _likelihood(rows: Floats, law: Spectrum) -> Floats:
    """Return the normal log-likelihood of rows under an eigensystem, but for a constant."""
    values, rest = law.values + FLOOR**2, law.rest + FLOOR**2
    inside = (rows @ law.vectors) ** 2
    others = rows.shape[1] - len(values)
    square = np.sum(inside / values, axis=1)
    if others:
        square += np.maximum(np.sum(rows**2, axis=1) - np.sum(inside, axis=1), 0.0) / rest
    return np.asarray(-0.5 * (square + np.sum(np.log(values)) + others * np.log(rest)))


def row_keys(rows: Floats) -> Floats:
    """Return a number for each row, equal exactly for equal rows."""
    weights = np.random.default_rng(0).uniform(1.0, 2.0, rows.shape[1])
    # no product of matrices: BLAS may round equal rows differently
    return np.asarray(np.sum(rows * weights, axis=1))


class Spectrum(NamedTuple):
    """Eigenvectors (d, k) and eigenvalues of a matrix, and the eigenvalue of all other ones."""

    vectors: Floats
    values: Floats
    rest: float


def quadratic_inverse(root: Floats, size: float, distinct: int) -> Floats:
    """Return the matrix of :func:`shrunken`."""
    vectors, values, rest = shrunken(root, size, distinct)
    found = (vectors * (values - rest)) @ vectors.T
    found[np.diag_indices(len(found))] += rest
    return np.asarray(found)


def shrunken(root: Floats, size: float, distinct: int) -> Spectrum:
    r"""Return Ledoit and Wolf's quadratic-inverse shrinkage of ``root.T @ root``."""
    d = root.shape[1]
    short = len(root) < d
    values, vectors = np.linalg.eigh(root @ root.T if short else root.T @ root)
    kept = values > RELATIVE_FLOOR * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    if short:
        vectors = root.T @ vectors / np.sqrt(values)
    rank = len(values)
    # columns that are collinear whatever the rows stay so, and are no dimension of the problem
    width = d if rank >= min(d, distinct - 1) else rank
    n = rank if rank < width else max(size - 1.0, width)
    ratio = width / n
    bandwidth = min(ratio, 1.0 / ratio) ** 0.7 * width**-0.35
    inverse = 1.0 / values
    apart = inverse[:, None] - inverse
    kernel = inverse[:, None] / (apart**2 + (bandwidth * inverse[:, None]) ** 2)
    real = np.mean(kernel * apart, axis=0)
    square = real**2 + np.mean(kernel * inverse[:, None] * bandwidth, axis=0) ** 2
    unseen = 0.0
    if width <= n:
        shrunk = values / (
            (1.0 - ratio) ** 2 + 2.0 * ratio * (1.0 - ratio) * real + ratio**2 * square
        )
    else:
        shrunk = values / square
        unseen = 1.0 / ((ratio - 1.0) * np.mean(inverse))
    total = values.sum() / (shrunk.sum() + (width - rank) * unseen)
    return Spectrum(vectors, total * shrunk, total * unseen)


def principal_factors(root: Floats, rank: int) -> Floats:
    """Return loadings (d, rank) of factors; the rest of the unit variance is a column's own."""
    d = root.shape[1]
    if rank == 0:
        return np.zeros((d, 0))
    sample = None if len(root) < d else root.T @ root
    if sample is None:
        values, rows = eigh(
            root @ root.T, subset_by_index=[max(len(root) - rank, 0), len(root) - 1]
        )
        vectors = root.T @ (rows / np.sqrt(np.maximum(values, RELATIVE_FLOOR * values[-1])))
    else:
        values, vectors = eigh(sample, subset_by_index=[d - rank, d - 1])
    own = np.zeros((d, 1))

    def times(columns: Floats) -> Floats:
        """Multiply by the sample correlation with communalities in its diagonal."""
        product = root.T @ (root @ columns) if sample is None else sample @ columns
        return np.asarray(product - own * columns)

    for k in range(ITERATIONS):
        if k and sample is not None and 8 * rank > d:
            values, vectors = eigh(sample - np.diag(own[:, 0]), subset_by_index=[d - rank, d - 1])
        elif k:
            # communalities change little from round to round, and two steps follow them at a
            # fortieth of the cost of the whole spectrum for 28 factors of 832 columns
            for _ in range(STEPS):
                vectors, _ = np.linalg.qr(times(vectors))
            values, rotation = np.linalg.eigh(vectors.T @ times(vectors))
            vectors = vectors @ rotation
        loadings = vectors * np.sqrt(np.maximum(values, 0.0))
        communality = np.sum(loadings**2, axis=1)
        loadings *= np.sqrt((1.0 - FLOOR) / np.maximum(communality, 1.0 - FLOOR))[:, None]
        own = 1.0 - np.minimum(communality, 1.0 - FLOOR)[:, None]
    return np.asarray(loadings)


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


class System(NamedTuple):
    """An eigensystem, what its columns are multiplied by, and the deviation of the rows in it."""

    vectors: Floats
    values: Floats
    stretch: Floats | float = 1.0
    spread: Floats | float = 1.0


def block_eigensystem(
    rows: Coordinates, labels: Ints | None, ranks: Sequence[Rank], *, standardize: bool
) -> System:
    """Return the eigensystem of second moments, component by component, collinear ones at 0."""
    d = rows.width
    vectors, values, stretch, spread = np.zeros((d, d)), np.zeros(d), np.ones(d), np.ones(d)
    for place, rank in zip(places(labels), ranks, strict=True):
        if rank is None:
            found = System(*_eigensystem(rows.root(place)))
        else:
            found = _modelled_system(rows, place, rank, standardize=standardize)
        spectrum = np.where(found.values > RELATIVE_FLOOR * found.values.max(), found.values, 0.0)
        found = found._replace(values=spectrum)
        if rank == "qis":
            root = rows.root(place) / found.stretch
            found = found._replace(spread=latent_spread(root, found.vectors, spectrum))
        if isinstance(place, slice):
            return found
        vectors[np.ix_(place, place)], values[place] = found.vectors, found.values
        stretch[place], spread[place] = found.stretch, found.spread
    return System(vectors, values, stretch, spread)


def _modelled_system(
    rows: Coordinates, place: slice | Ints, rank: Rank, *, standardize: bool
) -> System:
    """Return the eigensystem where correlations are not the sample's."""
    matrix = estimated(rows, place, rank)
    stretch: Floats | float = 1.0
    if standardize:
        stretch = np.sqrt(np.diag(matrix))
        matrix /= np.outer(stretch, stretch)
    else:
        deviation = np.sqrt(np.sum(rows.root(place) ** 2, axis=0))
        matrix *= np.outer(deviation, deviation)
    spectrum, vectors = np.linalg.eigh(matrix)
    return System(vectors, spectrum, stretch)


def latent_spread(root: Floats, vectors: Floats, values: Floats) -> Floats:
    """Return the deviation of the rows' latent coordinates, over that of their part in the range.

    QIS has smaller directions larger than the rows show them, and rows lie nearer to the middle
    than they would by chance: by up to 2/3 of the variance for as many columns as rows.
    """
    kept = values > 0
    white = (root @ vectors[:, kept] / np.sqrt(values[kept])) @ vectors[:, kept].T
    squares, part = np.sum(white**2, axis=0), np.sum(vectors[:, kept] ** 2, axis=1)
    # a coordinate that does not vary, or of which all is random, stays as it is
    ratio = np.divide(squares, part, out=np.ones_like(part), where=(squares > 0) & (part > 0))
    return np.asarray(np.sqrt(ratio))


def _eigensystem(root: Floats) -> tuple[Floats, Floats]:
    """Return eigenvectors (d, d) and eigenvalues (d,) of ``root.T @ root``."""
    if root.shape[0] > root.shape[1]:
        # the triangle has the same ones, and no left vectors of all rows are found
        root = np.asarray(np.linalg.qr(root, mode="r"), dtype=np.float64)
    _, singular, right = np.linalg.svd(root, full_matrices=root.shape[0] < root.shape[1])
    eigenvalues = np.zeros(root.shape[1])
    eigenvalues[: len(singular)] = singular**2
    return np.ascontiguousarray(right.T), eigenvalues
