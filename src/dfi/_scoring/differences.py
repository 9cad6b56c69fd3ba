r"""What a few rows can tell by differences: the sensitivity ``G``, and the regression's gradients.

**Sensitivity.** A row moved by a small step along latent direction ``c`` has other line means, so

.. math:: G_{kj} = E\Big[h_j\,c_k\,
          \frac{m_j(z + \delta c) - m_j(z - \delta c)}{2 \delta}\Big]

for directions ``c`` with :math:`E[cc'] = I`, one for every row: two passes over the lines whatever
the number of columns. It assumes nothing about the regression, where the short cuts of
:mod:`dfi._scoring.sensitivity` integrate by parts; it is what tilting the lines measures
(:mod:`dfi._scoring.tilt`), with the average over :math:`z_j` and the outcome's noise taken out:
where line ``j`` does not move, :math:`h_j` is 0 and so is every term.

A row's direction is the latent row of another one, brought to length :math:`\sqrt d`: unlike random
signs it turns with the columns when these are renamed. What the directions' second moments lack of
the identity is divided out, so only the variation of gradients between rows is left as noise.

**Gradients.** :math:`\Gamma = E[\nabla\eta\,\nabla\eta']` in latent coordinates by central
differences of the model's values, ``2 d`` predictions a row; with two models the gradients of one
times those of the other, symmetrised, so that the models' own roughness does not enter squared. A
regression that jumps (trees, or any whose squared gradients grow as the step gets smaller) is
differenced across a quarter of a standard deviation instead: its trend, not its jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.base import LineModel, Lines
from dfi._lines.closed_form import SumLines
from dfi._lines.trees.model import TreeLines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._scoring.sensitivity import LatentRegression
    from dfi._types import Floats
    from dfi.transports.gaussian import LinearTransport

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


def checked_rows(total: float, d: int) -> float:
    """Return how many of a table's rows are differenced, for ``d`` columns."""
    usable = ROWS_A_COLUMN * d if ROWS_A_COLUMN * d <= MOST_ROWS else 0
    return min(total, MOST_ROWS, max(FEWEST_ROWS, usable, total / SHARE))


@dataclass(frozen=True)
class Differences:
    r"""Sums over differenced rows, group by group, of the two parts of ``G``.

    Attributes
    ----------
    curved, linear : ndarray of shape (N_GROUPS, d, d)
        Weighted sums of the terms with :math:`h_j` less its linear part, and of those with the
        linear part. The Hermite short cut leaves out the first and takes the second by parts.
    directions : ndarray of shape (d, d)
        Weighted sum of the directions' products.
    mass : ndarray of shape (N_GROUPS,)
        Sums of the weights.
    rows : int
        How many rows there are.
    """

    curved: Floats
    linear: Floats
    directions: Floats
    mass: Floats
    rows: int

    @property
    def enough(self) -> bool:
        """Whether the rows are enough to say what ``G`` is, not only whether it is another."""
        return self.rows >= ROWS_A_COLUMN * len(self.directions)

    def __add__(self, other: Differences) -> Differences:
        """Pool two sets of rows."""
        return Differences(
            self.curved + other.curved,
            self.linear + other.linear,
            self.directions + other.directions,
            self.mass + other.mass,
            self.rows + other.rows,
        )

    def groups(self) -> tuple[Floats, Floats]:
        """Return both parts of every group that has rows, (groups, d, d); the diagonals are 0.

        Where rows are enough, column ``j`` is a regression on the directions without their
        coordinate ``j``, along which line mean ``j`` does not change.
        """
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
    transport: LinearTransport,
) -> Differences:
    """Return the parts of ``G`` of some rows, in groups.

    Parameters
    ----------
    models : sequence of LineModel
        One or two.
    regressions : sequence of LatentRegression
        The linear part of each model's ``h``.
    matrix, mass : ndarray
        The rows and their weights.
    transport : LinearTransport
        The fitted transport, deterministic or with the random part of a collinear table.
    """
    d = transport.n_latent
    offsets, weights = transport.offsets()
    directions = transport.directions
    n = len(matrix)
    latent = transport.encode(matrix)
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
        transport.reference,
        offsets,
    )
    straight = [regression(latent, offsets) for regression in regressions]
    bent, slopes = [], []
    for model, own in zip(models, straight, strict=True):
        moments = model.moments(lines)
        # both ends of the step have a share in h: one pass less, and even errors only
        bent.append(0.5 * (moments.hermite[:, :n] + moments.hermite[:, n:]) - own)
        slopes.append((moments.mean[:, :n] - moments.mean[:, n:]) / (2.0 * step))
    sums = []
    for part in (bent, straight):
        product = 0.5 * (part[0] * slopes[-1] + part[-1] * slopes[0])
        terms = mass[:, None] * np.tensordot(weights, product, axes=1)
        sums.append(np.stack([steps[group == g].T @ terms[group == g] for g in range(N_GROUPS)]))
    masses = np.asarray(np.bincount(group, mass, minlength=N_GROUPS), dtype=np.float64)
    products = (steps * mass[:, None]).T @ steps
    return Differences(sums[0], sums[1], products, masses, n)


@dataclass(frozen=True)
class Gradients:
    r"""Weighted sums over rows of :math:`\nabla\eta\,\nabla\eta'` by a fine and a coarse step.

    Attributes
    ----------
    fine, coarse : ndarray of shape (d, d)
        The sums.
    mass : float
        The sum of the weights.
    stepwise : bool
        Whether a model is one of trees, which has no gradients.
    """

    fine: Floats
    coarse: Floats
    mass: float
    stepwise: bool

    def __add__(self, other: Gradients) -> Gradients:
        """Pool two sets of rows."""
        return Gradients(
            self.fine + other.fine,
            self.coarse + other.coarse,
            self.mass + other.mass,
            self.stepwise or other.stepwise,
        )

    @property
    def rough(self) -> bool:
        """Whether the regression jumps: its gradients grow as the step gets smaller."""
        return self.stepwise or bool(np.trace(self.fine) > ROUGH * np.trace(self.coarse))

    def mean(self) -> Floats:
        r"""Return :math:`\Gamma`: of a regression that jumps the trend across the coarse step."""
        return np.asarray((self.coarse if self.rough else self.fine) / self.mass)


def gradient_products(
    models: Sequence[LineModel],
    matrix: Floats,
    mass: Floats,
    transport: LinearTransport,
    *,
    step: float,
) -> Gradients:
    r"""Return the weighted sums of :math:`\nabla\eta\,\nabla\eta'` over rows.

    Parameters
    ----------
    models : sequence of LineModel
        One or two.
    matrix, mass : ndarray
        The rows and their weights.
    transport : LinearTransport
        The fitted transport.
    step : float
        The fine step.
    """
    fine, coarse = (
        _products([_gradients(model, matrix, transport, width) for model in models], mass)
        for width in (step, COARSE_STEP)
    )
    stepwise = any(has_trees(model) for model in models)
    return Gradients(fine, coarse, float(mass.sum()), stepwise)


def _gradients(model: LineModel, matrix: Floats, transport: LinearTransport, step: float) -> Floats:
    """Return a model's derivative along each latent direction, (n, d), by central differences."""
    n, p = matrix.shape
    directions = transport.directions
    gradient = np.empty((n, transport.n_latent))
    # a model pays for every call: many directions share one
    together = max(1, BLOCK_BYTES // (8 * 2 * n * p))
    for start in range(0, transport.n_latent, together):
        part = slice(start, min(start + together, transport.n_latent))
        moves = step * directions[:, part].T[:, None, :]
        rows = np.concatenate([matrix + moves, matrix - moves])
        high, low = np.split(model.predict(rows.reshape(-1, p)).reshape(-1, n), 2)
        gradient[:, part] = (high - low).T / (2.0 * step)
    return gradient


def _products(gradients: list[Floats], mass: Floats) -> Floats:
    product = (gradients[0] * mass[:, None]).T @ gradients[-1]
    return np.asarray(0.5 * (product + product.T))


def has_trees(model: LineModel) -> bool:
    """Tell whether a model is one of trees, or a sum with trees in it."""
    if isinstance(model, SumLines):
        return any(has_trees(part) for part in model.parts)
    return isinstance(model, TreeLines)
