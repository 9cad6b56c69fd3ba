r"""Sobol indices: first-order and total effects of the regression under independent inputs.

With inputs made independent (each unit keeps its own law),

.. math:: S_j = \operatorname{Var}(E[f \mid X_j]), \qquad T_j = E\operatorname{Var}(f \mid X_{-j}),

in the units of the outcome's variance, for two functions: the regression :math:`\hat\mu` of the
features under the product of their margins (``sobol_first``, ``sobol_total``), and the latent
regression :math:`\hat\eta(z) = \hat\mu(\text{decode}(z))` of the disentangled coordinates
(``sobol_latent_first``, ``sobol_latent_total``), whose total effect is DFI's latent score
:math:`\phi_Z`. Under independent features all of them are the ordinary Sobol indices.

**Pick-freeze**, symmetrised, over rows composed of two held-out rows' parts per unit (A and B; the
two never coincide, so there is no diagonal), with :math:`A^j` = A with unit j of B and vice versa:

.. math:: T_j = \tfrac14 E[(f(A) - f(A^j))^2 + (f(B) - f(B^j))^2], \qquad
          S_j = \tfrac12 E[(f(A) - c)(f(B^j) - f(B)) + (f(B) - c)(f(A^j) - f(A))].

Linear regressions are in closed form: :math:`S_j = T_j = b_j'\operatorname{Cov}(X_j) b_j`.

**Influence.** The score is a mean over compositions: a row contributes through every unit that it
lent, :math:`\sum_k 2(E[\kappa \mid \text{unit k from row i}] - \hat\theta)` (Hoeffding projection).
The conditional means come from finitely many compositions; their Monte-Carlo variance is known and
is taken out by shrinking each of them to its between-row part, so it does not count as
sampling error, and is reported apart. The regression's error enters through the Riesz term of
:mod:`dfi.methods.permutation`; the transport's as in DFI (:mod:`dfi._scoring.map_error`)
with a sensitivity for each kind of effect, that of the first-order effects being exact where the
latent regression is additive. Left out, the latent first-order effects of null features were found
to be rejected 11.5 % of the time at 5 %.

**Source.** Sobol (2001); the estimates are Jansen's (1999) for the total and Saltelli's (2010) for
the first-order effect, symmetrised. SALib, with which they agree on independent inputs, samples the
inputs from a law that is given, so its errors are Monte Carlo alone; here the law is the data's
own, and the rows that lend their values enter the standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfi._lines.closed_form import LinearLines
from dfi._lines.quadrature import DEFAULT_MEMORY
from dfi._models.submodels import positions_of
from dfi._parameters import validated_fields
from dfi._scoring.lines import LineScores
from dfi._scoring.map_error import latent_terms
from dfi.methods.base import CONSERVATIVE, Method, MethodResult, full_lines
from dfi.methods.permutation import (
    RieszSpan,
    choose_shifts,
    donor_rows,
    donor_shares,
    riesz_span,
    swapped_predictions,
)
from dfi.methods.shapley import players, refuse_overlap
from dfi.transports.base import Layout
from dfi.transports.gaussian import Gaussian, LinearTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._models.fits import Fits
    from dfi._types import Floats, Ints

    Blocks: TypeAlias = list[Ints]

N_DONORS = 32
KINDS = ("total", "first")


@validated_fields
@dataclass(frozen=True, kw_only=True)
class Sobol(Method):
    """First-order and total effects under independent margins and in the latent space.

    Parameters
    ----------
    n_compositions : int, default=10
        How often every held-out row is composed anew (not used for linear regressions).
    latent : bool, default=True
        Whether the latent regression is decomposed too.

    Examples
    --------
    >>> found = dfi.compare(sample.X, sample.y, dfi.methods.Sobol(), estimator="linear", cv=2)
    >>> found.labels
    ('sobol_total', 'sobol_first', 'sobol_latent_total', 'sobol_latent_first')
    """

    n_compositions: int = 10
    latent: bool = True

    any_loss = False
    name = "sobol"
    question = (
        "Variance of the regression under independent inputs: how much does the feature cause "
        "alone (first) and with interactions (total)?"
    )
    valid_intervals = True
    inference = (
        "Hoeffding projection over the replaced units, and the regression's error to first order, "
        "on the span of the columns and the fit: exact for linear regressions, approximate for "
        "others. Latent effects carry the transport's error too. " + CONSERVATIVE
    )

    def refuses(self, fits: Fits) -> str | None:
        if min(len(fold.test) for fold in fits.folds) < 3:
            return "sobol composes rows of at least three held-out ones: use fewer folds"
        return refuse_overlap(self.name, fits)

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        blocks = [
            np.array(positions_of(fits.table, group), dtype=np.intp) for group in players(fits)
        ]
        indices = self._pooled(fits, blocks, None)
        parts = {
            f"sobol_{kind}": MethodResult(
                fits.units.spread(indices.influence[k]),
                fits.rows,
                monte_carlo_se=fits.units.spread(indices.noise[k]),
            )
            for k, kind in enumerate(KINDS)
        }
        return parts | self._latent(fits) if self.latent else parts

    def _latent(self, fits: Fits) -> dict[str, MethodResult]:
        table, rows = fits.table, fits.rows
        # the rows' influence below is that on the sample correlation
        transport = Gaussian(covariance="sample").by_column(
            table.matrix[rows], fits.weights.take(rows), Layout(table.constant, table.columns)
        )
        if transport.geometry.kernel_variance.any():
            return {}  # collinear columns: latent rows are random, which DFI integrates
        d = transport.n_latent
        indices = self._pooled(fits, [np.array([j], dtype=np.intp) for j in range(d)], transport)
        carried = transport.influence(table.matrix[rows])
        owner = np.zeros((d, len(fits.units)))
        for unit, inside in enumerate(fits.units.members(transport.active)):
            owner[inside, unit] = 1.0
        parts = {}
        for k, kind in enumerate(KINDS):
            values, tilt = indices.influence[k], indices.sensitivity[k]
            scores = LineScores(values, np.zeros(len(rows)), tilt, np.zeros(d), np.zeros((d, d)))
            parts[f"sobol_latent_{kind}"] = MethodResult(
                (values + latent_terms(carried, scores)) @ owner,
                rows,
                monte_carlo_se=np.sqrt(indices.noise[k] ** 2 @ owner),
                diagnostics={"transport": "gaussian"},
                space="latent",
            )
        return parts

    def _pooled(self, fits: Fits, blocks: Blocks, transport: LinearTransport | None) -> Indices:
        """Decompose every fold and pool rows, Monte-Carlo errors and sensitivities."""
        tasks = [(fits, f, blocks, transport, self.n_compositions) for f in range(len(fits.folds))]
        by_fold = fits.workers.run(_decompose, tasks, "composing rows", threads=True)
        d = len(blocks)
        influence = np.zeros((2, fits.table.n_rows, d))
        noise, sensitivity = np.zeros((2, d)), np.zeros((2, d, d))
        total = fits.weights.values[fits.rows].sum()
        for fold, indices in zip(fits.folds, by_fold, strict=True):
            share = fits.weights.values[fold.test].sum() / total
            influence[:, fold.test] = indices.influence
            noise += (share * indices.noise) ** 2
            sensitivity += share * indices.sensitivity
        return Indices(influence[:, fits.rows], np.sqrt(noise), sensitivity)


@dataclass(frozen=True)
class Indices:
    """Total (first entry) and first-order effects (second entry) of d blocks of coordinates.

    ``sensitivity[:, k, j]`` is that of effect j to tilting coordinate j towards k, for the
    transport's error; only where every block is one coordinate.
    """

    influence: Floats  # (2, n, d)
    noise: Floats  # (2, d), Monte-Carlo error of the scores
    sensitivity: Floats  # (2, d, d)


def _decompose(
    fits: Fits, f: int, blocks: Blocks, transport: LinearTransport | None, n_compositions: int
) -> Indices:
    """Return the influence values of one fold's rows, the regression's error included."""
    fold, model = fits.folds[f], full_lines(fits)[f]
    rows = fits.table.matrix[fold.test]
    mass = fits.mass(fold.test)
    value = fits.predictions[fold.test]
    residual = fits.outcome.values[fold.test] - value
    span = riesz_span(fits, f)
    coordinates = rows if transport is None else transport.encode(rows)
    if isinstance(model, LinearLines):
        directions = np.eye(rows.shape[1]) if transport is None else transport.geometry.directions
        indices, derivative = _linear_indices(
            model.coefficients, coordinates, directions, blocks, mass, span
        )
    else:
        generator = np.random.default_rng(
            fits.child("compositions", f, "features" if transport is None else "latent")
        )
        decode = None if transport is None else transport.decode
        indices, derivative = _pick_freeze(
            model.predict, coordinates, decode, blocks, mass, span, n_compositions, generator
        )
    own = _own_functions(fits, f, coordinates, blocks, transport)
    influence = [
        part
        # two draws of a block differ by the model alone: the derivative along it is twice the score
        + span.correction(
            rows,
            value,
            residual,
            mass,
            derivative=slope[:-1],
            constant=slope[-1],
            own=own,
            own_derivative=2.0 * (mass @ part),
        )
        for part, slope in zip(indices.influence, derivative, strict=True)
    ]
    return Indices(np.array(influence), indices.noise, indices.sensitivity)


def _own_functions(
    fits: Fits, f: int, coordinates: Floats, blocks: Blocks, transport: LinearTransport | None
) -> Floats:
    """Return each block's effect on the model at held-out rows: value minus block mean."""
    model = full_lines(fits)[f]
    value = fits.predictions[fits.folds[f].test]
    if isinstance(model, LinearLines):
        return np.zeros((len(value), len(blocks)))  # within the span of the columns
    generator = np.random.default_rng(fits.child("own functions", f))
    donors = donor_rows(*choose_shifts(len(value), N_DONORS, generator))
    share = donor_shares(fits.weights.values[fits.folds[f].test], donors)

    def predict(points: Floats) -> Floats:
        return model.predict(points if transport is None else transport.decode(points))

    means = []
    for block in blocks:
        swapped = swapped_predictions(coordinates, block, donors, predict, DEFAULT_MEMORY)
        means.append(np.sum(share * swapped, axis=1))
    return np.asarray(value[:, None] - np.column_stack(means))


def _linear_indices(
    coefficients: Floats,
    coordinates: Floats,
    directions: Floats,
    blocks: Blocks,
    mass: Floats,
    span: RieszSpan,
) -> tuple[Indices, list[Floats]]:
    r"""Return the indices of :math:`f = b'x`, whose total and first-order effects agree.

    With the slope :math:`\zeta` in the coordinates, :math:`\theta_k = \zeta_k' C_k \zeta_k`,
    influence values :math:`\{\zeta_k'(z_i - \bar z)\}^2`, and derivative
    :math:`2\,\operatorname{Cov}(\zeta_k' z_k, h)` in the direction of a function h of the block.
    """
    slope = coefficients @ directions
    centred = coordinates - mass @ coordinates
    # the unbiased variance: the mean was fitted to the same rows
    correction = 1.0 / (1.0 - np.sum(mass**2))
    d = len(blocks)
    influence = np.empty((len(coordinates), d))
    derivative = np.zeros((len(span.scale) + 1, d))
    for k, block in enumerate(blocks):
        part = centred[:, block] @ slope[block]
        influence[:, k] = correction * part**2
        moved = centred[:, block] @ directions[:, block].T
        change = 2.0 * correction * ((mass * part) @ np.column_stack([moved, part]))
        derivative[:-1, k] = change / span.scale
    variance = mass @ centred**2
    sensitivity = np.outer(slope * variance, slope) if slope.shape == (d,) else np.zeros((d, d))
    both = np.stack([influence] * 2), np.zeros((2, d)), np.stack([sensitivity] * 2)
    return Indices(*both), [derivative, derivative]


def _pick_freeze(
    predict: Callable[[Floats], Floats],
    coordinates: Floats,
    decode: Callable[[Floats], Floats] | None,
    blocks: Blocks,
    mass: Floats,
    span: RieszSpan,
    n_compositions: int,
    generator: np.random.Generator,
) -> tuple[Indices, list[Floats]]:
    """Return total and first-order effects from composed rows.

    The second value holds the derivatives of both scores in the direction of the span's functions
    and, in the last row, of a constant.
    """
    n, d = len(coordinates), len(blocks)
    compositions = []
    for _ in range(n_compositions):
        first, second = _lenders(mass, d, generator)
        a, b = _compose(coordinates, blocks, first), _compose(coordinates, blocks, second)
        values = predict(_points(a, decode)), predict(_points(b, decode))
        compositions.append((first, second, *values))
    centre = float(np.mean([0.5 * (a.mean() + b.mean()) for _, _, a, b in compositions]))
    influence, noise = np.empty((2, n, d)), np.empty((2, d))
    derivative = np.zeros((2, len(span.scale) + 1, d))
    sensitivity = np.zeros((2, d, d))
    for j, block in enumerate(blocks):
        # one score at a time: what is kept is by lent unit and lending row
        sums = _Sums(n, d, len(span.scale), coordinates.shape[1])
        for first, second, value_a, value_b in compositions:
            a, b = _compose(coordinates, blocks, first), _compose(coordinates, blocks, second)
            swapped_a, swapped_b = a.copy(), b.copy()
            swapped_a[:, block], swapped_b[:, block] = b[:, block], a[:, block]
            points_a, points_b = _points(swapped_a, decode), _points(swapped_b, decode)
            value_aj, value_bj = predict(points_a), predict(points_b)
            step_a, step_b = value_a - value_aj, value_b - value_bj
            sums.add(
                0.25 * (step_a**2 + step_b**2),
                -0.5 * ((value_a - centre) * step_b + (value_b - centre) * step_a),
                first,
                second,
            )
            basis_a = span.basis(_points(a, decode), value_a)
            basis_b = span.basis(_points(b, decode), value_b)
            change_a = basis_a - span.basis(points_a, value_aj)
            change_b = basis_b - span.basis(points_b, value_bj)
            sums.derivative[0, :-1] += (step_a @ change_a + step_b @ change_b) / (2 * n)
            sums.derivative[1, :-1] -= (step_b @ basis_a + step_a @ basis_b) / n
            sums.derivative[1, -1] -= step_b.mean() + step_a.mean()
            if len(block) == 1:
                # A^j shares its line with A, B^j only coordinate j
                sums.tilt(block[0], a, value_a - centre, value_aj - centre, value_bj - centre)
                sums.tilt(block[0], b, value_b - centre, value_bj - centre, value_aj - centre)
        influence[:, :, j], noise[:, j] = sums.influence(mass)
        derivative[:, :, j] = sums.derivative / n_compositions
        if d == coordinates.shape[1]:
            sensitivity[:, :, j] = sums.sensitivity()
    return Indices(influence, noise, sensitivity), list(derivative)


def _lenders(mass: Floats, d: int, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the rows that lend each unit to the two composed rows, (d, n) each, never the same."""
    n = len(mass)
    first = np.array([_weighted_order(mass, generator) for _ in range(d)])
    shift = generator.integers(1, n, size=d)
    second = np.array([np.roll(order, s) for order, s in zip(first, shift, strict=True)])
    # weighted orders repeat rows: a row must not meet itself
    return first, np.where(second == first, (first + shift[:, None]) % n, second)


def _weighted_order(mass: Floats, generator: np.random.Generator) -> Ints:
    """Return a random order of the rows; with unequal weights, systematic draws by weight."""
    n = len(mass)
    if np.allclose(mass, 1.0 / n):
        return generator.permutation(n).astype(np.intp)
    points = (np.arange(n) + generator.random()) / n
    chosen = np.searchsorted(np.cumsum(mass), points * (1 - 1e-12))
    return generator.permutation(np.minimum(chosen, n - 1)).astype(np.intp)


def _compose(coordinates: Floats, blocks: Blocks, orders: Ints) -> Floats:
    composed = coordinates.copy()
    for block, order in zip(blocks, orders, strict=True):
        composed[:, block] = coordinates[np.ix_(order, block)]
    return composed


def _points(coordinates: Floats, decode: Callable[[Floats], Floats] | None) -> Floats:
    return coordinates if decode is None else decode(coordinates)


class _Sums:
    """Running sums of one score over compositions."""

    def __init__(self, n: int, d: int, q: int, p: int) -> None:
        self.n, self.d = n, d
        # [kind, lent unit, row]: sums and sums of squares of the kernel by lending row
        self.sums, self.squares = np.zeros((2, d, n)), np.zeros((2, d, n))
        self.count = np.zeros((d, n))
        self.means: list[tuple[float, float]] = []
        self.derivative = np.zeros((2, q + 1))
        self.product, self.alone, self.tilted = np.zeros(p), np.zeros(p), np.zeros(p)
        self.mean, self.tilts = 0.0, 0

    def add(self, total: Floats, first_order: Floats, first: Ints, second: Ints) -> None:
        """Take in the kernels of one composition, by the rows that lent each unit."""
        self.means.append((float(total.mean()), float(first_order.mean())))
        for k in range(self.d):
            for lenders in (first[k], second[k]):
                self.count[k] += np.bincount(lenders, minlength=self.n)
                for kind, kernel in enumerate((total, first_order)):
                    self.sums[kind, k] += np.bincount(lenders, kernel, self.n)
                    self.squares[kind, k] += np.bincount(lenders, kernel**2, self.n)

    def tilt(self, j: int, points: Floats, value: Floats, line: Floats, alone: Floats) -> None:
        """Take in values along line ``j``, and at points that share coordinate ``j`` alone."""
        tilted = points[:, j] * value
        self.product += points.T @ (tilted * line) / len(points)
        self.alone += points.T @ (tilted * alone) / len(points)
        self.tilted += points.T @ tilted / len(points)
        self.mean += float(line.mean())
        self.tilts += 1

    def sensitivity(self) -> Floats:
        r"""Return the columns of both sensitivities that belong to this score, (2, p).

        Total: :math:`G_{kj} = \operatorname{Cov}(z_k h_j, m_j)`. First order, with
        :math:`g_j(z_j) = E[f \mid z_j] - E f`: moving the decoder by ``A`` changes the score by
        :math:`2\sum_k A_{kj} E[g_j z_j\,\partial_k f]`, which is :math:`E[g_j z_j z_k f]` by
        Stein's identity; what else it changes is nil where f is additive.
        """
        level = self.tilted / self.tilts * (self.mean / self.tilts)
        return np.stack([self.product / self.tilts - level, self.alone / self.tilts])

    def influence(self, mass: Floats) -> tuple[Floats, Floats]:
        """Return influence values, (2, n), and the Monte-Carlo errors of the scores, (2,).

        A row's mean over its compositions varies between rows by their influence and by chance;
        the part that is chance is estimated from the spread within rows and shrunk away.
        """
        by_composition = np.array(self.means)
        score = by_composition.mean(axis=0)
        noise = by_composition.std(axis=0, ddof=1) / np.sqrt(len(self.means))
        values = np.empty((2, self.n))
        count = np.maximum(self.count, 1.0)
        for kind in range(2):
            mean = np.where(self.count > 0, self.sums[kind] / count, score[kind])
            within = np.maximum(self.squares[kind] / count - mean**2, 0.0)
            chance = (within / np.maximum(count - 1.0, 1.0)) @ mass
            deviation = mean - (mean @ mass)[:, None]
            observed = deviation**2 @ mass
            between = np.maximum(observed - chance, 0.0)
            kept = np.divide(between, observed, out=np.zeros(self.d), where=observed > 0)
            values[kind] = score[kind] + 2.0 * (np.sqrt(kept) @ deviation)
        return values, noise
