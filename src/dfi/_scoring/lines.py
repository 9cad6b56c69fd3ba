r"""Scores along straight lines: the influence values of :math:`\phi_Z` for held-out rows.

For row ``i`` and latent coordinate ``j`` the forms of :mod:`dfi._scoring.forms` take the latent
regression :math:`\eta` and its line mean :math:`m_{ij} = E_t[\eta(z_i^{(j)}(t))]`, of one model or
of two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dfi._data import source as rows_in_blocks
from dfi._lines.base import LineModel, LineMoments, Lines, blocks
from dfi._scoring.forms import ScoreForm, calibrated, change_product, influence
from dfi._scoring.sensitivity import (
    Differences,
    Gradients,
    HermiteCoefficients,
    LatentRegression,
    SensitivityMoments,
    Summed,
)
from dfi.losses import SQUARED_ERROR, Loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dfi._scoring.geometry import Geometry
    from dfi._types import Advance, Bools, Floats, Ints

TILT = 0.1
"""Step of a tilted line."""

SHRINKAGE = 0.1
"""How much a regression is shrunk to see what its errors do to scores."""

OF_SPREAD = 1e-9
"""Share of the prediction's standard deviation below which a line moves nothing."""

OF_SIZE = 1e-13
"""Share of the prediction's size that sums over trees and nodes may be off by rounding."""


@dataclass(frozen=True)
class Orthogonality(Summed):
    r"""How far an error of the regression moves scores at first order: sums over rows.

    The cross form and the LOCO-type one are built so that an error ``g`` of the regression enters a
    score by its square only. That holds where the latent coordinates are independent. In general

    .. math:: d\phi_j = -2\,E[\Delta_j\, m_g(Z_{-j})], \qquad \Delta_j = \eta - m_j,

    :math:`m_g` the line mean of ``g``: zero for every ``g`` only if
    :math:`E[\Delta_j \mid Z_{-j}] = 0`. One ``g`` can be told from the rows at no cost, a
    regression shrunk towards its mean, as penalties and small samples do:
    :math:`g = -\varepsilon(\eta - E\eta)` moves the score by
    :math:`2\varepsilon\,E[\Delta_j (m_j - E m_j)]`, beside :math:`-\varepsilon^2 \phi_j`.
    ``product`` and ``square`` are the weighted sums of :math:`\Delta_j m_j`, ``m`` centred, and of
    its square, ``mass`` and ``rows`` those of the weights and the number of rows.
    """

    product: Floats
    square: Floats
    mass: float
    rows: float

    @classmethod
    def of(cls, product: Floats, mass: Floats) -> Orthogonality:
        rows = float(np.count_nonzero(mass))
        return cls(mass @ product, mass @ product**2, float(mass.sum()), rows)

    def as_dict(self, names: Sequence[str], scores: Floats) -> dict[str, float | str]:
        """Return the largest change of a score, relative, if the regression shrank by a tenth."""
        largest = float(np.max(np.abs(scores), initial=0.0))
        if self.mass == 0 or largest == 0:
            return {}
        mean = self.product / self.mass
        variance = np.maximum(self.square / self.mass - mean**2, 0.0) / self.rows
        j = int(np.argmax(np.abs(mean)))
        return {
            "shrunk_by": SHRINKAGE,
            "coordinate": names[j],
            "change": float(2.0 * SHRINKAGE * mean[j] / largest),
            "error": float(2.0 * SHRINKAGE * np.sqrt(variance[j]) / largest),
        }


@dataclass(frozen=True)
class LineScores:
    r"""Line means of held-out rows, of one fold or of all.

    ``influence`` (n, d) takes the transport as known. ``sensitivity[k, j]`` is :math:`G_{kj} =
    E[h_j\,\partial m_j/\partial z_k]`, of line mean ``j`` to tilting its line towards ``k``; on the
    diagonal :math:`E[h_j^2]`, to stretching it. ``gradient`` and ``curvature`` are the first and
    second Hermite coefficients of :math:`\eta`, zero for a deterministic map, which does not need
    them; ``regressions`` the linear parts of each model's ``h``, of one fold. ``overlap`` is None
    for the bridge and the CPI form; ``differences`` and ``gradients`` are of a sample of the rows,
    where asked for. ``product`` (n, d) is :math:`\Delta^a\Delta^b`, for the calibrated form,
    ``influence`` the cross form until it is :meth:`calibrated`; ``residual[l, j]`` is then
    :math:`K_{lj} = E[(y - \eta)\,h_j z_l]`, what a coordinate's line takes for its own of what the
    model leaves of another one (None for the bridge, and for the other forms).
    """

    influence: Floats
    prediction: Floats
    sensitivity: Floats
    gradient: Floats
    curvature: Floats
    regressions: tuple[LatentRegression, ...] = ()
    overlap: Orthogonality | None = None
    differences: Differences | None = None
    gradients: Gradients | None = None
    product: Floats | None = None
    residual: Floats | None = None

    def calibrated(self, factor: Floats, *, tilted: bool = False) -> LineScores:
        r"""Return the scores of a fold in the calibrated form, each coordinate with its factor.

        With :math:`\mu` the regression, :math:`\eta` the model and :math:`D = \eta - m_j` the score
        of ``j`` is :math:`2\lambda E[(\mu - \eta) D] + (2\lambda - \lambda^2) E[D^2]`. An error
        ``A`` of the map tilts line ``j`` to :math:`l_j + \sum_k A_{kj} l_k` and its coordinate to
        :math:`z_j - \sum_l A_{jl} z_l`. Where :math:`h_j` of the regression is :math:`\lambda_j`
        times that of the model this adds

        .. math:: 2\lambda_j \sum_k A_{kj} G_{kj} - 2\lambda_j \sum_l A_{jl} K_{lj} .

        The second sum takes back what the rows' values have of the rest of the regression: latent
        rows are uncorrelated in the sample, whatever the model leaves of the other coordinates. For
        :math:`\eta = c\mu` both together are :math:`\lambda^2` times the cross form's term, as is
        taken for the bridge. ``tilted`` lines lose against outcomes: their ``G`` is of
        :math:`\mu` already.
        """
        if self.product is None:
            raise TypeError("the calibrated form needs the products of both models' changes")
        both = np.outer(factor, factor)
        times = both if self.residual is None else np.broadcast_to(factor, both.shape)
        own = np.where(np.eye(len(factor)) > 0, both, 1.0 if tilted else times)
        differences = self.differences
        if differences is not None:
            differences = replace(
                differences, curved=times * differences.curved, linear=times * differences.linear
            )
        return replace(
            self,
            influence=calibrated(self.influence, self.product, factor),
            sensitivity=own * self.sensitivity,
            gradient=factor * self.gradient,
            curvature=np.sqrt(both) * self.curvature,
            differences=differences,
            residual=None if self.residual is None else factor * self.residual,
        )


@dataclass(frozen=True)
class Passes:
    """How rows are processed: in blocks, with draws and smoothing points for a random kernel."""

    rows_at_once: int = 4096
    n_draws: int = 1
    n_smoothing: int = 1
    seed: np.random.SeedSequence | None = None
    advance: Advance | None = None

    def __getstate__(self) -> dict[str, object]:
        # A progress bar stays with its terminal.
        return {**self.__dict__, "advance": None}


def latent_scores(
    models: Sequence[LineModel],
    matrix: Floats,
    y: Floats,
    mass: Floats,
    geometry: Geometry,
    *,
    form: ScoreForm,
    loss: Loss = SQUARED_ERROR,
    passes: Passes | None = None,
) -> LineScores:
    """Return influence values of held-out rows under their fold's models, two if crossed."""
    passes = passes or Passes()
    n, d, step = len(matrix), geometry.n_latent, passes.rows_at_once
    values, prediction = np.empty((n, d)), np.empty(n)
    product = np.empty((n, d)) if form == "calibrated" else None
    sums = _Sums(SensitivityMoments(d), HermiteCoefficients(d))
    seeds = (passes.seed or np.random.SeedSequence(0)).spawn(max(1, -(-n // step)))
    for rows, seed in zip(blocks(n, step), seeds, strict=True):
        block = _Block(models, matrix[rows], y[rows], mass[rows], geometry, form, loss)
        if geometry.smoothing < 1.0:
            prediction[rows] = np.mean([model.predict(matrix[rows]) for model in models], axis=0)
            values[rows], both = block.under_bridge(passes, seed, sums)
        else:
            values[rows], both, prediction[rows] = block.under_map(sums)
        if product is not None:
            product[rows] = both
        if passes.advance is not None:
            passes.advance(rows.stop - rows.start)
    return LineScores(
        values,
        prediction,
        sums.sensitivity.sensitivity(),
        *sums.coefficients.both(),
        sums.sensitivity.regressions(),
        reduce(add, sums.overlaps) if sums.overlaps else None,
        product=product,
        residual=reduce(add, sums.residuals) / mass.sum() if sums.residuals else None,
    )


@dataclass(frozen=True)
class _Sums:
    """What the transport's own error asks of the rows, summed over blocks."""

    sensitivity: SensitivityMoments
    coefficients: HermiteCoefficients
    overlaps: list[Orthogonality] = field(default_factory=list)
    residuals: list[Floats] = field(default_factory=list)


@dataclass(frozen=True)
class _Evaluation:
    value: Floats
    moments: LineMoments


@dataclass(frozen=True)
class _Block:
    """Some held-out rows with their models, as in :func:`latent_scores`."""

    models: Sequence[LineModel]
    matrix: Floats
    y: Floats
    mass: Floats
    geometry: Geometry
    form: ScoreForm
    loss: Loss

    def under_map(self, sums: _Sums) -> tuple[Floats, Floats | float, Floats]:
        """Score rows under a deterministic map (with the one-dimensional random part, if any)."""
        geometry, latent = self.geometry, self.geometry.encode(self.matrix)
        offsets, weights = geometry.offsets
        lines = Lines(self.matrix, latent, geometry.directions, geometry.reference, offsets)
        evaluations = _evaluated(self.models, lines)
        for evaluation in evaluations:
            self.loss.check(evaluation.value, evaluation.moments.mean)
        pair = self._slopes(evaluations)
        sums.sensitivity.add(latent, self.mass, pair, weights, offsets, geometry.kernel_loadings)
        if self.loss.is_square and self.form != "cpi":
            sums.overlaps.append(_orthogonality(evaluations, weights, self.mass))
        if self.form == "calibrated":
            sums.residuals.append(self._residual(evaluations, latent, weights))
        values = np.tensordot(weights, _combine(self.form, self.y, evaluations, self.loss), axes=1)
        prediction = np.mean([evaluation.value for evaluation in evaluations], axis=0)
        return values, _products(self.form, evaluations, weights), prediction

    def _slopes(self, evaluations: list[_Evaluation]) -> tuple[LineMoments, LineMoments]:
        r"""Return ``h`` of the models beside half the slope of the loss at their line means.

        What tilting a line does to a score is :math:`E[h_j\, \partial f'(m_j)/\partial z_k]`:
        squared error, with :math:`f'(m)/2 = m`, is the only loss that needs the means themselves.
        """
        first, last = evaluations[0].moments, evaluations[-1].moments
        if self.loss.is_square or not self.loss.has_generator:
            return first, last
        one = LineMoments(self.loss.half_slope(first.mean), first.hermite)
        if last is first:
            return one, one
        return one, LineMoments(self.loss.half_slope(last.mean), last.hermite)

    def _residual(self, evaluations: list[_Evaluation], latent: Floats, weights: Floats) -> Floats:
        """Return sums for ``K``, ``h`` of one model with the residual of the other."""
        total = np.zeros((latent.shape[1], latent.shape[1]))
        for one, other in (evaluations, evaluations[::-1]):
            left = 0.5 * self.mass * (self.y - other.value)
            slope = np.tensordot(weights, one.moments.hermite, axes=1)
            total += latent.T @ (left[:, None] * slope)
        np.fill_diagonal(total, 0.0)
        return total

    def under_bridge(
        self, passes: Passes, seed: np.random.SeedSequence, sums: _Sums
    ) -> tuple[Floats, Floats | float]:
        r"""Score rows under the bridge, whose :math:`\eta` is a Gaussian smoothing of the model.

        :math:`\eta(z) = E\,\mu(L(s z + c\,\zeta))`, and since :math:`s t + c\,\zeta_j \sim N(0, 1)`
        its line mean is the smoothed line mean of :math:`\mu` itself, from the points
        :math:`w = s z + c\,\zeta` with coordinate ``j`` replaced by ``t``. The smoothing points are
        the same for every row (scrambled Sobol, in antithetic pairs), unless they are few for so
        many dimensions; the rows' own draws are independent.
        """
        geometry, count, n = self.geometry, passes.n_smoothing, len(self.matrix)
        s, d = geometry.smoothing, geometry.n_latent
        c = np.sqrt(1.0 - s**2)
        generator = np.random.default_rng(seed)
        points = smoothing_points(count, d)
        null = geometry.null
        total, products = np.zeros((n, d)), np.zeros((n, d))
        # too few points to match all second moments
        few = 4 * d > count >= 4 and self.loss.has_generator
        for _ in range(passes.n_draws):
            whitened = geometry.encode(self.matrix)
            if null.shape[1]:
                whitened = whitened + generator.standard_normal((n, null.shape[1])) @ null.T
            latent = s * whitened + c * generator.standard_normal((n, d))
            if few:
                evaluations = self._independently_smoothed(latent, count, generator)
            else:
                evaluations = [self._smoothed(model, latent, points) for model in self.models]
            pair = self._slopes(evaluations)
            sums.sensitivity.add(latent, self.mass, pair, np.ones(1), np.zeros((1, d)), np.eye(d))
            sums.coefficients.add(
                latent, self.mass, np.mean([e.value for e in evaluations], axis=0)
            )
            form: ScoreForm = "cross" if few and self.form == "loco" else self.form
            total += _combine(form, self.y, evaluations, self.loss)[0]
            products += _products(self.form, evaluations, np.ones(1))
        return total / passes.n_draws, products / passes.n_draws

    def _independently_smoothed(
        self, latent: Floats, count: int, generator: np.random.Generator
    ) -> list[_Evaluation]:
        """Smooth twice with errors that are independent, of each other and between rows.

        In many dimensions the error of a few points is noise, and its square lowers every score,
        which adds up. A product of two independent errors averages to nothing: two models take
        points of their own, a single one is smoothed by two sets of half as many and scored in the
        cross form. The points are drawn for each row: halves of one low-discrepancy set err against
        each other, and points that all rows share do not average out.
        """
        pairs = count // 2 if len(self.models) == 2 else count // 4
        return [
            self._smoothed(model, latent, _drawn_points(pairs, latent, generator))
            for model in (self.models[0], self.models[-1])
        ]

    def _smoothed(self, model: LineModel, latent: Floats, points: Iterable[Floats]) -> _Evaluation:
        """Average values and line moments over smoothing points, shared or the rows' own."""
        geometry = self.geometry
        s = geometry.smoothing
        c = np.sqrt(1.0 - s**2)
        offsets = np.zeros((1, geometry.n_latent))
        value = np.zeros(len(latent))
        mean, hermite = (np.zeros((1, *latent.shape)) for _ in range(2))
        k = 0
        for point in points:
            k += 1
            shifted = s * latent + c * point
            rows = geometry.decode(shifted)
            lines = Lines(rows, shifted, geometry.directions, geometry.reference, offsets)
            moments = model.moments(lines)
            value += model.predict(rows)
            mean += moments.mean
            hermite += moments.hermite
        return _Evaluation(value / k, LineMoments(mean / k, hermite / k))


def _evaluated(models: Sequence[LineModel], lines: Lines) -> list[_Evaluation]:
    return [_Evaluation(model.predict(lines.points), model.moments(lines)) for model in models]


def _orthogonality(evaluations: list[_Evaluation], weights: Floats, mass: Floats) -> Orthogonality:
    """Return the products of what leaves a line's mean and the mean itself, model by model."""
    first, last = evaluations[0], evaluations[-1]
    total = max(float(mass.sum()), np.finfo(float).tiny)
    level = [mass @ np.tensordot(weights, e.moments.mean, axes=1) / total for e in (first, last)]
    product = 0.5 * (
        (first.value[:, None] - first.moments.mean) * (last.moments.mean - level[1])
        + (last.value[:, None] - last.moments.mean) * (first.moments.mean - level[0])
    )
    return Orthogonality.of(np.tensordot(weights, product, axes=1), mass)


def _drawn_points(pairs: int, latent: Floats, generator: np.random.Generator) -> Iterator[Floats]:
    for _ in range(pairs):
        points = generator.standard_normal(latent.shape)
        yield points
        yield -points


def smoothing_points(count: int, d: int) -> Floats:
    r"""Return normal points in antithetic pairs: scrambled Sobol up to its limit of dimensions.

    Their second moments are those of the normal law: all of them where the points suffice, the
    variances otherwise. The error :math:`e` of a smoothed regression lowers a score by
    :math:`E e^2`, its level included: on M2 (epsilon = 2, d = 4) 32 points lose 5.6 % of the scores
    without matched moments (root mean square over scramblings), 0.6 % with them.
    """
    half = max(1, count // 2)
    if d <= stats.qmc.Sobol.MAXDIM:
        sobol = stats.qmc.Sobol(d, scramble=True, rng=np.random.default_rng(20240613))
        uniform = sobol.random_base2(max(0, int(np.ceil(np.log2(half)))))[:half]
        normal = stats.norm.ppf(np.clip(uniform, 1e-12, 1 - 1e-12))
    else:
        normal = np.random.default_rng(20240613).standard_normal((half, d))
    if 2 * d <= half:
        values, vectors = np.linalg.eigh(normal.T @ normal / half)
        normal = normal @ (vectors / np.sqrt(values)) @ vectors.T
    elif half > 1:
        normal = normal / np.sqrt(np.mean(normal**2, axis=0))
    return np.concatenate([normal, -normal])


def _combine(form: ScoreForm, y: Floats, evaluations: list[_Evaluation], loss: Loss) -> Floats:
    """Return the influence values, shape (q, n, d), before averaging over the random kernel."""
    values, means = [e.value[:, None] for e in evaluations], [e.moments.mean for e in evaluations]
    return influence(form, y[:, None], values, means, loss)


def _products(form: ScoreForm, evaluations: list[_Evaluation], weights: Floats) -> Floats | float:
    """Return the products of both models' changes, (n, d), averaged over the random kernel."""
    if form != "calibrated":
        return 0.0
    values = [e.value[:, None] for e in evaluations]
    means = [e.moments.mean for e in evaluations]
    return np.tensordot(weights, change_product(values, means), axes=1)


def scores_along(
    models: Sequence[LineModel],
    lines: Lines,
    y: Floats,
    weights: Floats,
    *,
    form: ScoreForm,
    loss: Loss = SQUARED_ERROR,
) -> tuple[Floats, Floats | float, list[LineMoments]]:
    """Return influence values (n, d) and moments of lines, averaged over the kernel."""
    evaluations = _evaluated(models, lines)
    moments = [
        LineMoments(
            np.tensordot(weights, evaluation.moments.mean, axes=1),
            np.tensordot(weights, evaluation.moments.hermite, axes=1),
        )
        for evaluation in evaluations
    ]
    found = np.tensordot(weights, _combine(form, y, evaluations, loss), axes=1)
    return found, _products(form, evaluations, weights), moments


def tilt_sensitivity(
    models: Sequence[LineModel],
    matrix: Floats,
    y: Floats,
    mass: Floats,
    geometry: Geometry,
    *,
    loss: Loss = SQUARED_ERROR,
    rows_at_once: int = 1024,
) -> Floats:
    r"""Return the sensitivity ``G`` (d, d) of held-out rows by tilting their lines.

    .. math::

        G_{kj} = \tfrac12 \frac{d}{d\delta} E\,\ell(Y, m_j^\delta) \Big|_{\delta = 0},
        \qquad m_j^\delta = E_t\,\eta(x + (t - z_j)(\ell_j + \delta\,\ell_k)),

    by central differences: it holds for every :math:`\eta`, at the price of ``2 d`` further passes
    over all lines.
    """
    d = geometry.n_latent
    directions = geometry.directions
    offsets, weights = geometry.offsets
    latent = geometry.encode(matrix)
    lines = Lines(matrix, latent, directions, geometry.reference, offsets)
    sensitivity = np.zeros((d, d))
    for k in range(d):
        for sign in (1.0, -1.0):
            tilted = replace(lines, directions=directions + sign * TILT * directions[:, [k]])
            total = np.zeros(d)
            for rows in blocks(len(matrix), rows_at_once):
                means = [model.moments(tilted.take(rows)).mean for model in models]
                lost = loss.of_two(y[rows, None], means[0], means[-1])
                total += mass[rows] @ np.tensordot(weights, lost, axes=1)
            sensitivity[k] += sign * total / (4.0 * TILT * mass.sum())
    np.fill_diagonal(sensitivity, 0.0)
    return sensitivity


def unread_coordinates(
    influence: Floats, prediction: Floats, y: Floats, labels: Ints, loss: Loss = SQUARED_ERROR
) -> Bools:
    r"""Return which coordinates belong to a component that no model reads: they score 0 exactly.

    A line of a coordinate moves the columns of its dependence component and no others. Where the
    model reads none of them, :math:`\Delta_{ij} = \eta_i - m_{ij}` is 0 in exact arithmetic and
    some multiple of the machine precision in floating point. A component all of whose coordinates
    are that quiet is taken as unread: a :math:`\Delta` below ``1e-9`` standard deviations of the
    prediction could not carry more than ``1e-18`` of its variance. With
    :math:`|u_{ij}| \le |\Delta_{ij}| (2 |y_i - \eta_i| + |\Delta_{ij}|)` the bound is put on the
    influence values with the transport taken as known, which are at hand. ``labels`` are the
    components of the coordinates.
    """
    size = float(np.max(np.abs(prediction)))
    moved = OF_SPREAD * float(np.std(prediction)) + OF_SIZE * size
    residual = np.ptp(y) + np.ptp(prediction) + abs(float(np.mean(y)) - float(np.mean(prediction)))
    bound = moved * float(residual)
    if loss.is_square:
        quiet = np.max(np.abs(influence), axis=0) <= bound
    else:
        quiet = np.all(np.abs(influence) <= _row_bounds(loss, y, prediction, moved), axis=0)
    loud = np.bincount(labels, weights=~quiet, minlength=int(labels.max()) + 1) > 0
    return np.asarray(~loud[labels])


def _row_bounds(loss: Loss, y: Floats, prediction: Floats, moved: float) -> Floats:
    """Return how much rounding of the prediction changes each row's loss, (n, 1).

    Its derivative is :math:`f''(p)(y - p)`; ten times that, because the two models of a row differ
    and the mean of their predictions stands for both.
    """
    size = OF_SIZE * (1.0 + np.abs(loss.of(y, prediction)))
    if loss.curvature is None:
        return np.asarray((size + moved * (1.0 + np.ptp(y)))[:, None])
    steep = np.abs(loss.curvature(prediction)) * (np.abs(y - prediction) + moved)
    return np.asarray((size + 10.0 * moved * steep)[:, None])


@dataclass(frozen=True)
class RowSample:
    """Distinct rows in a new order, each with the weight of all its copies."""

    rows: Ints
    mass: Floats


def row_sample(standardized: Floats, mass: Floats, count: int) -> RowSample:
    """Return at most ``count`` distinct rows of positive weight, evenly spread.

    What is found on a sample must not depend on the order of the rows or of the columns, on units
    of measurement, or on whether a row that counts twice is written twice. So equal rows are one
    row with the sum of their weights, and the rows are spread evenly over the order of a number
    that no renaming or rescaling of the ``standardized`` columns changes. In a large table rows of
    the same number are taken for equal: it is kept, not a sorted copy of all rows.
    """
    held = np.flatnonzero(mass > 0)
    if len(held) > rows_in_blocks.LARGE_ROWS:
        return _numbered_sample(standardized, mass, held, count)
    numbers = _numbers(standardized[held])
    order = np.argsort(numbers, kind="stable")
    if np.all(np.diff(numbers[order]) > 0):  # rows that are equal have the same number
        if len(order) > count:
            order = order[(np.arange(count) * len(order)) // count]
        return RowSample(held[order], np.asarray(mass[held[order]], dtype=np.float64))
    distinct, first, which = np.unique(
        standardized[held], axis=0, return_index=True, return_inverse=True
    )
    total = np.asarray(np.bincount(which.ravel(), mass[held]), dtype=np.float64)
    order = np.argsort(_numbers(distinct), kind="stable")
    if len(order) > count:
        order = order[(np.arange(count) * len(order)) // count]
    return RowSample(held[first[order]], total[order])


def _numbers(rows: Floats) -> Floats:
    """Return a number for each row; even powers: a column counted downwards is the same column."""
    squares = rows**2
    return np.asarray(np.sum(squares + squares**2, axis=1))


def _numbered_sample(standardized: Floats, mass: Floats, held: Ints, count: int) -> RowSample:
    numbers = np.empty(len(held))
    for part in blocks(len(held), rows_in_blocks.BLOCK_ROWS):
        squares = standardized[held[part]] ** 2
        numbers[part] = np.sum(squares + squares**2, axis=1)
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    total = np.asarray(np.bincount(which.ravel(), mass[held]), dtype=np.float64)
    order = np.arange(len(first))
    if len(order) > count:
        order = order[(np.arange(count) * len(order)) // count]
    return RowSample(held[first[order]], total[order])
