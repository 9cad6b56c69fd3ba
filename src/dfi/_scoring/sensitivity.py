r"""How scores respond to errors of the transport: the matrix ``G``, and gradients.

Tilting line ``j`` towards ``k`` changes the score of ``j`` by twice

.. math:: G_{kj} = E\Big[h_j\, \frac{\partial m_j}{\partial z_k}\Big], \qquad
          h_j = E_t[t\,\eta(z^{(j)}(t))].

**A short cut** takes it from the rows' line moments alone, without further model calls. With
:math:`\bar h_j = E h_j`, :math:`a_{lj} = E[z_l (h_j - \bar h_j)]` (:math:`a_{jj} = 0`),
:math:`q = z a`, the regression of :math:`h` on :math:`z`, and :math:`m_j` centred, it is

.. math:: \bar h_j E[z_k m_j] + E[z_k q_j m_j],

by parts, for normal latent rows; exact where :math:`h_j` is linear in :math:`z`. With two models
``h`` of one is paired with ``m`` of the other: the models' own noise does not enter squared.

**Differences** on a few rows assume nothing about the regression. A row moved by a small step along
latent direction ``c`` has other line means, so

.. math:: G_{kj} = E\Big[h_j\,c_k\,
          \frac{m_j(z + \delta c) - m_j(z - \delta c)}{2 \delta}\Big]

for directions ``c`` with :math:`E[cc'] = I`, one for every row: two passes over the lines whatever
the number of columns. It is what tilting the lines measures
(:func:`dfi._scoring.lines.tilt_sensitivity`), with the average over :math:`z_j` and the outcome's
noise taken out: where line ``j`` does not move, :math:`h_j` is 0 and so is every term.

A row's direction is the latent row of another one, brought to length :math:`\sqrt d`: unlike random
signs it turns with the columns when these are renamed. What the directions' second moments lack of
the identity is divided out, so only the variation of gradients between rows is left as noise.

**Gradients.** :math:`\Gamma = E[\nabla\eta\,\nabla\eta']` in latent coordinates by central
differences of the model's values, ``2 d`` predictions a row; with two models the gradients of one
times those of the other, symmetrised, so the models' own roughness does not enter squared. A
regression that jumps (trees, or any whose squared gradients grow as the step gets smaller) is
differenced across a quarter of a standard deviation instead: its trend, not its jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from dfi._lines.base import LineModel, LineMoments, Lines, blocks
from dfi._lines.closed_form import SumLines
from dfi._lines.trees.model import TreeLines
from dfi.losses import SQUARED_ERROR, Loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._scoring.geometry import Geometry
    from dfi._types import Floats, Ints


STEP = 0.2
"""Length of the step along a row's direction."""

COARSE_STEP = 0.25
ROUGH = 1.25
"""Ratio of the squared gradients by the fine step to those by the coarse one that a smooth
regression does not reach; a jump makes it the ratio of the steps."""

BLOCK_BYTES = 32 * 2**20
ROWS_A_COLUMN = 8
N_GROUPS = 8
"""Groups of rows with an average each, for the sampling error of the whole."""

MOST_ROWS, FEWEST_ROWS, SHARE = 384, 128, 4
"""Rows that are differenced: one in ``SHARE``, within these bounds, and ``ROWS_A_COLUMN`` to a
column where that is no more than ``MOST_ROWS``. Of 2000 rows the two passes over 384 of them cost
less than half of the scores themselves."""


@dataclass(frozen=True)
class Summed:
    """Sums over rows: two sets of rows are pooled by adding up field by field."""

    def __add__(self, other: Self) -> Self:
        mine, theirs = vars(self), vars(other)
        return type(self)(**{name: value + theirs[name] for name, value in mine.items()})


@dataclass(frozen=True)
class LatentRegression:
    r"""The linear part :math:`\bar h_j + \sum_l a_{lj} z_l` of a model's ``h``.

    The diagonal of the slopes ``a`` is 0; ``drift`` is the change of part ``j`` per unit of the
    random part of coordinate ``j``, which the random parts of the others go with.
    """

    level: Floats
    slopes: Floats
    drift: Floats

    def __call__(self, latent: Floats, offsets: Floats) -> Floats:
        """Return the linear part at each node of the random kernel and row, (q, n, d)."""
        return np.asarray(
            (self.level + latent @ self.slopes)[None] + (offsets * self.drift)[:, None]
        )


@dataclass(frozen=True)
class _Block:
    r"""A block of rows; ``powers[p][b]`` is the mean of :math:`\nu^p m` for model ``b``."""

    latent: Floats
    mass: Floats
    powers: tuple[tuple[Floats, ...], ...]


class SensitivityMoments:
    """Sums over the rows of a fold, block by block, for ``G``.

    The Hermite short cut keeps the line means of all rows: it needs the regression of ``h`` on the
    latent rows before it can weigh them.
    """

    def __init__(self, d: int) -> None:
        self.mass = 0.0
        self.latent = np.zeros(d)
        self.stretched = np.zeros(d)
        self.n_models = 1
        self.hermite = np.zeros((2, d))
        self.tilted = np.zeros((2, d, d))
        self.mean = np.zeros((2, d))
        self.variance = np.zeros(d)
        self.loadings = np.zeros((d, d))
        self.blocks: list[_Block] = []

    def add(
        self,
        latent: Floats,
        mass: Floats,
        moments: tuple[LineMoments, LineMoments],
        weights: Floats,
        offsets: Floats,
        loadings: Floats,
    ) -> None:
        """Take in a block of rows; ``weights`` average over the nodes of the random kernel."""
        first, last = moments
        weighted = latent * mass[:, None]
        shifts = weights[:, None] * offsets

        def with_latent(values: Floats) -> Floats:
            found = weighted.T @ np.tensordot(weights, values, axes=1)
            return np.asarray(found + loadings * np.einsum("qj,i,qij->j", shifts, mass, values))

        self.mass += mass.sum()
        self.latent += mass @ latent
        self.stretched += mass @ np.tensordot(weights, first.hermite * last.hermite, axes=1)
        distinct = (first,) if first is last else (first, last)
        self.n_models = len(distinct)
        for b, model in enumerate(distinct):
            self.hermite[b] += mass @ np.tensordot(weights, model.hermite, axes=1)
            self.tilted[b] += with_latent(model.hermite)
            self.mean[b] += mass @ np.tensordot(weights, model.mean, axes=1)
        self.loadings = loadings
        self.variance = weights @ offsets**2
        orders = range(3 if self.variance.any() else 1)
        powers = tuple(
            tuple(
                np.einsum("qj,qij->ij", weights[:, None] * offsets**p, model.mean)
                for model in distinct
            )
            for p in orders
        )
        self.blocks.append(_Block(latent, mass, powers))

    def sensitivity(self) -> Floats:
        models = self.n_models
        if models == 1:
            found = self._hermite(0, 0)
        else:
            found = 0.5 * (self._hermite(0, 1) + self._hermite(1, 0))
        np.fill_diagonal(found, self.stretched / self.mass)
        return np.asarray(found)

    def regressions(self) -> tuple[LatentRegression, ...]:
        return tuple(self._regression(b) for b in range(self.n_models))

    def _regression(self, b: int) -> LatentRegression:
        level = self.hermite[b] / self.mass
        slopes = self.tilted[b] / self.mass - np.outer(self.latent / self.mass, level)
        np.fill_diagonal(slopes, 0.0)
        return LatentRegression(level, slopes, np.sum(self.loadings * slopes, axis=0))

    def _hermite(self, h: int, m: int) -> Floats:
        """Return the Hermite short cut from ``h`` of one model and ``m`` of the other."""
        linear = self._regression(h)
        mean = self.mean[m] / self.mass
        # Given the random part nu of coordinate j, z_k is its own part plus loadings[k, j] nu, and
        # so is the regression of h_j: products of the three are polynomials in nu, whose
        # coefficients the blocks hold. What else is random in z is unrelated to m_j, which is
        # centred.
        found = np.zeros_like(linear.slopes)
        for block in self.blocks:
            regression = linear.level + block.latent @ linear.slopes
            centred = [block.powers[0][m] - mean]
            own = centred[0] * regression
            if len(block.powers) > 1:
                centred += [block.powers[1][m], block.powers[2][m] - mean * self.variance]
                own += centred[1] * linear.drift
                shifted = block.mass @ (centred[1] * regression + centred[2] * linear.drift)
                found += self.loadings * shifted
            found += (block.latent * block.mass[:, None]).T @ own
        return np.asarray(found / self.mass)


def hermite_sensitivity(
    latent: Floats, share: Floats, coordinates: Ints, hermite: Floats, mean: Floats
) -> Floats:
    """Return ``G`` of some lines by the Hermite short cut, (d, lines), 0 in a line's own place."""
    own = np.arange(len(coordinates))
    level = share @ hermite
    weighted = latent * share[:, None]
    tilt = weighted.T @ (hermite - level)
    tilt[coordinates, own] = 0.0
    centred = mean - share @ mean
    found = level * (weighted.T @ centred) + weighted.T @ (centred * (latent @ tilt))
    found[coordinates, own] = 0.0
    return np.asarray(found)


class HermiteCoefficients:
    """First and second Hermite coefficients of the latent regression, for the bridge's terms."""

    def __init__(self, d: int) -> None:
        self.mass = 0.0
        self.level = 0.0
        self.first = np.zeros(d)
        self.second = np.zeros((d, d))
        self.latent_first = np.zeros(d)
        self.latent_second = np.zeros((d, d))

    def add(self, latent: Floats, mass: Floats, value: Floats) -> None:
        weighted = mass * value
        self.mass += mass.sum()
        self.level += weighted.sum()
        self.first += weighted @ latent
        self.second += (latent * weighted[:, None]).T @ latent
        self.latent_first += mass @ latent
        self.latent_second += (latent * mass[:, None]).T @ latent

    def both(self) -> tuple[Floats, Floats]:
        if self.mass == 0:
            return self.first, self.second
        # Covariances with the level taken out: an intercept must not enter through sampling noise.
        level = self.level / self.mass
        first = (self.first - level * self.latent_first) / self.mass
        return first, (self.second - level * self.latent_second) / self.mass


def checked_rows(total: float, d: int) -> float:
    """Return how many of a table's rows are differenced, for ``d`` columns."""
    usable = ROWS_A_COLUMN * d if ROWS_A_COLUMN * d <= MOST_ROWS else 0
    return min(total, MOST_ROWS, max(FEWEST_ROWS, usable, total / SHARE))


@dataclass(frozen=True)
class Differences(Summed):
    """Sums over differenced rows, group by group, of the two parts of ``G``, (N_GROUPS, d, d).

    The terms with :math:`h_j` less its linear part (``curved``) and those with the linear part: the
    Hermite short cut leaves out the first and takes the second by parts. ``directions`` (d, d) is
    the weighted sum of the directions' products.
    """

    curved: Floats
    linear: Floats
    directions: Floats
    mass: Floats
    rows: int

    @property
    def enough(self) -> bool:
        """Whether the rows suffice to estimate ``G``, not only to reject the short cut."""
        return self.rows >= ROWS_A_COLUMN * len(self.directions)

    def groups(self) -> tuple[Floats, Floats]:
        """Return both parts of every group that has rows, (groups, d, d); the diagonals are 0."""
        held = self.mass > 0
        d = len(self.directions)
        products = self.directions / self.mass.sum()
        parts = []
        for total in (self.curved, self.linear):
            part = total[held] / self.mass[held, None, None]
            part[:, np.arange(d), np.arange(d)] = 0.0
            parts.append(part)
        for j in range(d) if self.enough else ():
            others = np.arange(d) != j
            # The directions of a collinear table leave out what does not move its rows, and so
            # do the transport's errors that G is contracted with.
            weigh = np.linalg.pinv(products[np.ix_(others, others)], rcond=1e-6, hermitian=True)
            for part in parts:
                part[:, others, j] = part[:, others, j] @ weigh
        return parts[0], parts[1]


def differenced_sensitivity(
    models: Sequence[LineModel],
    regressions: Sequence[LatentRegression],
    matrix: Floats,
    mass: Floats,
    geometry: Geometry,
    loss: Loss = SQUARED_ERROR,
) -> Differences:
    """Return the parts of ``G`` of some rows, given the linear parts of the models' ``h``."""
    d = geometry.n_latent
    offsets, weights = geometry.offsets
    directions = geometry.directions
    n = len(matrix)
    latent = geometry.encode(matrix)
    # a row and its direction must be unrelated, and so must rows and groups; the sample is in an
    # order of its own
    shuffled = np.random.default_rng(20240613).permutation(n)
    group, steps = np.empty(n, dtype=np.intp), np.empty_like(latent)
    group[shuffled] = np.arange(n) % N_GROUPS
    steps[shuffled] = latent[np.roll(shuffled, 1)]
    length = np.sqrt(np.sum(steps**2, axis=1, keepdims=True))
    steps = np.sqrt(d) * np.divide(steps, length, out=np.zeros_like(steps), where=length > 0)
    step = STEP / np.sqrt(d)
    move = step * np.concatenate([steps, -steps])
    # coordinate j moves a row along its own line j, which leaves m_j as it is
    lines = Lines(
        np.tile(matrix, (2, 1)) + move @ directions.T,
        np.tile(latent, (2, 1)) + move,
        directions,
        geometry.reference,
        offsets,
    )
    straight = [regression(latent, offsets) for regression in regressions]
    bent, slopes = [], []
    for model, own in zip(models, straight, strict=True):
        moments = model.moments(lines)
        # both ends of the step have a share in h: one pass less, and even errors only
        bent.append(0.5 * (moments.hermite[:, :n] + moments.hermite[:, n:]) - own)
        levels = loss.half_slope(moments.mean)
        slopes.append((levels[:, :n] - levels[:, n:]) / (2.0 * step))
    sums = []
    for part in (bent, straight):
        product = 0.5 * (part[0] * slopes[-1] + part[-1] * slopes[0])
        terms = mass[:, None] * np.tensordot(weights, product, axes=1)
        sums.append(np.stack([steps[group == g].T @ terms[group == g] for g in range(N_GROUPS)]))
    masses = np.asarray(np.bincount(group, mass, minlength=N_GROUPS), dtype=np.float64)
    products = (steps * mass[:, None]).T @ steps
    return Differences(sums[0], sums[1], products, masses, n)


@dataclass(frozen=True)
class Gradients(Summed):
    r"""Sums of :math:`\nabla\eta\,\nabla\eta'` by two steps; ``stepwise`` models are trees."""

    fine: Floats
    coarse: Floats
    mass: float
    stepwise: int

    @property
    def rough(self) -> bool:
        """Whether the regression jumps: its gradients grow as the step gets smaller."""
        return self.stepwise > 0 or bool(np.trace(self.fine) > ROUGH * np.trace(self.coarse))

    def mean(self) -> Floats:
        r"""Return :math:`\Gamma`: of a regression that jumps the trend across the coarse step."""
        return np.asarray((self.coarse if self.rough else self.fine) / self.mass)


def gradient_products(
    models: Sequence[LineModel],
    matrix: Floats,
    mass: Floats,
    geometry: Geometry,
    *,
    step: float,
    loss: Loss = SQUARED_ERROR,
) -> Gradients:
    r"""Return the weighted sums of :math:`\nabla\eta\,\nabla\eta'` over rows; ``step`` is fine.

    A small change :math:`\Delta` of a prediction loses :math:`\tfrac12 f''(\eta)\Delta^2`, so rows
    count :math:`\tfrac12 f''(\eta)` times: once for squared error.
    """
    total = float(mass.sum())
    if not loss.is_square:
        if loss.curvature is None:
            raise TypeError(f"the loss {loss.name!r} has no curvature")
        value = np.mean([model.predict(matrix) for model in models], axis=0)
        mass = mass * loss.half_curvature(value)
    stepwise = sum(has_trees(model) for model in models)
    # trees jump, whatever the fine step would show
    fine, coarse = (
        _products([_gradients(model, matrix, geometry, width) for model in models], mass)
        if width is not None
        else np.zeros((geometry.n_latent, geometry.n_latent))
        for width in (None if stepwise else step, COARSE_STEP)
    )
    return Gradients(fine, coarse, total, stepwise)


def _gradients(model: LineModel, matrix: Floats, geometry: Geometry, step: float) -> Floats:
    """Return a model's derivative along each latent direction, (n, d), by central differences."""
    n, p = matrix.shape
    directions, labels = geometry.directions, geometry.labels
    gradient = np.zeros((n, geometry.n_latent))
    joined = np.arange(geometry.n_latent)
    if labels is not None:
        joined = np.flatnonzero(np.bincount(labels)[labels] > 1)
    # a model pays for every call: many directions share one
    for part in blocks(len(joined), BLOCK_BYTES // (8 * 2 * n * p)):
        moves = step * directions[:, joined[part]].T[:, None, :]
        rows = np.concatenate([matrix + moves, matrix - moves])
        high, low = np.split(model.predict(rows.reshape(-1, p)).reshape(-1, n), 2)
        gradient[:, joined[part]] = (high - low).T / (2.0 * step)
    return gradient


def _products(gradients: list[Floats], mass: Floats) -> Floats:
    product = (gradients[0] * mass[:, None]).T @ gradients[-1]
    return np.asarray(0.5 * (product + product.T))


def has_trees(model: LineModel) -> bool:
    if isinstance(model, SumLines):
        return any(has_trees(part) for part in model.parts)
    return isinstance(model, TreeLines)
