r"""Latent importance of one set of held-out rows: the influence values of :math:`\phi_Z`.

For row ``i`` and latent coordinate ``j``, with the latent regression :math:`\eta`, its line mean
:math:`m_{ij} = E_t[\eta(z_i^{(j)}(t))]` and one or two models ``a``, ``b`` of :math:`\eta`:

======== =======================================================================================
LOCO     :math:`u_{ij} = (y_i - m_{ij})^2 - (y_i - \eta_i)^2`
cross    :math:`u_{ij} = (y_i - m^a_{ij})(y_i - m^b_{ij}) - (y_i - \eta^a_i)(y_i - \eta^b_i)`
CPI      :math:`u_{ij} = \frac12 \{E_t (y_i - \eta(z_i^{(j)}(t)))^2 - (y_i - \eta_i)^2\}`
======== =======================================================================================

The cross form multiplies the errors of two models fitted on disjoint rows, so its second-order
bias is the product of two independent errors, where LOCO's is a square. It expands to
:math:`(y-\eta^a)\Delta^b + (y-\eta^b)\Delta^a + \Delta^a\Delta^b`, :math:`\Delta = \eta - m`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import stats

from dfi._lines.base import LineModel, LineMoments, Lines
from dfi._scoring.orthogonality import Overlap
from dfi._scoring.sensitivity import (
    HermiteCoefficients,
    LatentRegression,
    SensitivityMoments,
    Shortcut,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dfi._types import Advance, Floats
    from dfi.transports.gaussian import LinearTransport

ScoreForm = Literal["cross", "loco", "cpi"]


@dataclass(frozen=True)
class LatentScores:
    r"""What the held-out rows of one fold contribute.

    Attributes
    ----------
    influence : ndarray of shape (n, d)
        Uncentred influence values of the latent scores, the transport taken as known.
    prediction : ndarray of shape (n,)
        The models' mean prediction of each row.
    sensitivity : ndarray of shape (d, d)
        ``G[k, j]``, the sensitivity :math:`E[h_j\,\partial m_j/\partial z_k]` of line mean ``j``
        to tilting its line towards ``k``; on the diagonal :math:`E[h_j^2]`, to stretching it.
    gradient, curvature : ndarray of shape (d,) and (d, d)
        First and second Hermite coefficients of :math:`\eta`; zero for a deterministic map,
        which does not need them.
    regressions : tuple of LatentRegression
        The linear part of each model's ``h``.
    overlap : Overlap or None
        What is left of the condition under which errors of the regression enter squared; None
        for the bridge.
    """

    influence: Floats
    prediction: Floats
    sensitivity: Floats
    gradient: Floats
    curvature: Floats
    regressions: tuple[LatentRegression, ...] = ()
    overlap: Overlap | None = None


@dataclass(frozen=True)
class _Evaluation:
    """Values and line moments of one model on one set of lines."""

    value: Floats
    moments: LineMoments


@dataclass(frozen=True)
class _Accumulated:
    """What the transport's own error asks of the rows, summed over blocks."""

    sensitivity: SensitivityMoments
    coefficients: HermiteCoefficients
    overlaps: list[Overlap] = field(default_factory=list)


def latent_scores(
    models: Sequence[LineModel],
    matrix: Floats,
    y: Floats,
    mass: Floats,
    transport: LinearTransport,
    *,
    form: ScoreForm,
    shortcut: Shortcut = "hermite",
    n_draws: int = 1,
    n_smoothing: int = 1,
    rows_at_once: int = 4096,
    seed: np.random.SeedSequence | None = None,
    advance: Advance | None = None,
) -> LatentScores:
    """Return the latent influence values of held-out rows under their fold's models.

    Parameters
    ----------
    models : sequence of LineModel
        Two models fitted on disjoint rows for the cross form, one otherwise.
    matrix, y, mass : ndarray
        The held-out rows, their outcomes and their weights.
    transport : LinearTransport
        The fitted transport.
    form : {"cross", "loco", "cpi"}
        See the module's description.
    shortcut : {"hermite", "covariance"}
        How the sensitivity ``G`` is taken, see :mod:`dfi._scoring.sensitivity`.
    n_draws, n_smoothing : int
        Draws of the latent row and smoothing points, for a random kernel (the bridge).
    rows_at_once : int
        Rows per block; bounds the memory.
    seed : numpy.random.SeedSequence
        For the random kernel.
    advance : callable, optional
        Told the number of rows done, for a progress bar.
    """
    n, d = len(matrix), transport.n_latent
    influence, prediction = np.empty((n, d)), np.empty(n)
    found = _Accumulated(SensitivityMoments(d, shortcut), HermiteCoefficients(d))
    seeds = (seed or np.random.SeedSequence(0)).spawn(max(1, -(-n // rows_at_once)))
    for start, block_seed in zip(range(0, n, rows_at_once), seeds, strict=True):
        rows = slice(start, min(start + rows_at_once, n))
        share = mass[rows]
        prediction[rows] = np.mean([model.predict(matrix[rows]) for model in models], axis=0)
        if transport.smoothing < 1.0:
            influence[rows] = _bridge_block(
                models, matrix[rows], y[rows], share, transport, form,
                n_draws, n_smoothing, block_seed, found,
            )  # fmt: skip
        else:
            influence[rows] = _map_block(
                models, matrix[rows], y[rows], share, transport, form, found
            )
        if advance is not None:
            advance(rows.stop - rows.start)
    return LatentScores(
        influence,
        prediction,
        found.sensitivity.sensitivity(),
        found.coefficients.gradient(),
        found.coefficients.curvature(),
        found.sensitivity.regressions(),
        reduce(add, found.overlaps) if found.overlaps else None,
    )


def _map_block(
    models: Sequence[LineModel],
    matrix: Floats,
    y: Floats,
    mass: Floats,
    transport: LinearTransport,
    form: ScoreForm,
    found: _Accumulated,
) -> Floats:
    """Score rows under a deterministic map (with the one-dimensional random part, if any)."""
    latent = transport.encode(matrix)
    offsets, weights = transport.offsets()
    lines = Lines(matrix, latent, transport.directions, transport.reference, offsets)
    evaluations = [
        _Evaluation(model.predict(matrix), model.moments(lines, square=form == "cpi"))
        for model in models
    ]
    pair = evaluations[0].moments, evaluations[-1].moments
    found.sensitivity.add(latent, mass, pair, weights, offsets, transport.kernel_loadings)
    found.overlaps.append(_overlap(evaluations, weights, mass))
    return np.tensordot(weights, _combine(form, y, evaluations), axes=1)


def _overlap(evaluations: list[_Evaluation], weights: Floats, mass: Floats) -> Overlap:
    """Return the products of what leaves a line's mean and the mean itself, model by model."""
    first, last = evaluations[0], evaluations[-1]
    total = max(float(mass.sum()), np.finfo(float).tiny)
    level = [mass @ np.tensordot(weights, e.moments.mean, axes=1) / total for e in (first, last)]
    product = 0.5 * (
        (first.value[:, None] - first.moments.mean) * (last.moments.mean - level[1])
        + (last.value[:, None] - last.moments.mean) * (first.moments.mean - level[0])
    )
    return Overlap.of(np.tensordot(weights, product, axes=1), mass)


def _bridge_block(
    models: Sequence[LineModel],
    matrix: Floats,
    y: Floats,
    mass: Floats,
    transport: LinearTransport,
    form: ScoreForm,
    n_draws: int,
    n_smoothing: int,
    seed: np.random.SeedSequence,
    found: _Accumulated,
) -> Floats:
    r"""Score rows under the bridge, whose :math:`\eta` is a Gaussian smoothing of the model.

    :math:`\eta(z) = E\,\mu(L(s z + c\,\zeta))`, and since :math:`s t + c\,\zeta_j \sim N(0, 1)` its
    line mean is the smoothed line mean of :math:`\mu` itself, from the points
    :math:`w = s z + c\,\zeta` with coordinate ``j`` replaced by ``t``. The smoothing points are the
    same for every row (scrambled Sobol, in antithetic pairs), unless they are few for so many
    dimensions; the rows' own draws are independent.
    """
    s = transport.smoothing
    c = np.sqrt(1.0 - s**2)
    d = transport.n_latent
    generator = np.random.default_rng(seed)
    points = smoothing_points(n_smoothing, d)
    null = transport.eigenvectors[:, transport.eigenvalues <= 0]
    total = np.zeros((len(matrix), d))
    for _ in range(n_draws):
        whitened = transport.encode(matrix)
        if null.shape[1]:
            whitened = whitened + (generator.standard_normal((len(matrix), null.shape[1])) @ null.T)
        latent = s * whitened + c * generator.standard_normal((len(matrix), d))
        if form != "cpi" and _points_are_few(n_smoothing, d):
            evaluations, pairing = _independently_smoothed(
                models, latent, n_smoothing, transport, form, generator
            )
        else:
            evaluations = [_smoothed(model, latent, points, transport, form) for model in models]
            pairing = form
        pair = evaluations[0].moments, evaluations[-1].moments
        found.sensitivity.add(latent, mass, pair, np.ones(1), np.zeros((1, d)), np.eye(d))
        found.coefficients.add(latent, mass, np.mean([e.value for e in evaluations], axis=0))
        total += _combine(pairing, y, evaluations)[0]
    return total / n_draws


def _points_are_few(n_smoothing: int, d: int) -> bool:
    """Tell whether smoothing points are too few to match all second moments."""
    return 4 * d > n_smoothing and n_smoothing >= 4


def _independently_smoothed(
    models: Sequence[LineModel],
    latent: Floats,
    n_smoothing: int,
    transport: LinearTransport,
    form: ScoreForm,
    generator: np.random.Generator,
) -> tuple[list[_Evaluation], ScoreForm]:
    """Smooth twice with errors that are independent, of each other and between rows.

    In many dimensions the error of a few points is noise, and squared it lowers every score, by
    much in sum. A product of two independent errors averages to nothing: two models take points
    of their own, a single one is smoothed by two sets of half as many and scored in the cross
    form. The points are drawn for each row: halves of one low-discrepancy set err against each
    other, and points that all rows share do not average out.
    """
    pairs = n_smoothing // 2 if len(models) == 2 else n_smoothing // 4
    evaluations = [
        _smoothed(model, latent, _drawn_points(pairs, latent, generator), transport, form)
        for model in (models[0], models[-1])
    ]
    return evaluations, "cross"


def _drawn_points(pairs: int, latent: Floats, generator: np.random.Generator) -> Iterator[Floats]:
    """Draw antithetic pairs of normal points for every row."""
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


def _smoothed(
    model: LineModel,
    latent: Floats,
    points: Iterable[Floats],
    transport: LinearTransport,
    form: ScoreForm,
) -> _Evaluation:
    """Average a model's values and line moments over smoothing points, shared or the rows' own."""
    s = transport.smoothing
    c = np.sqrt(1.0 - s**2)
    offsets = np.zeros((1, transport.n_latent))
    value = np.zeros(len(latent))
    mean, hermite, square = (np.zeros((1, *latent.shape)) for _ in range(3))
    k = 0
    for point in points:
        k += 1
        shifted = s * latent + c * point
        rows = transport.decode(shifted)
        lines = Lines(rows, shifted, transport.directions, transport.reference, offsets)
        moments = model.moments(lines, square=form == "cpi")
        value += model.predict(rows)
        mean += moments.mean
        hermite += moments.hermite
        if moments.square is not None:
            square += moments.square
    return _Evaluation(
        value / k, LineMoments(mean / k, hermite / k, square / k if form == "cpi" else None)
    )


def _combine(form: ScoreForm, y: Floats, evaluations: list[_Evaluation]) -> Floats:
    """Return the influence values, shape (q, n, d), before averaging over the random kernel."""
    first = evaluations[0]
    outcome = y[:, None]
    if form == "cpi":
        if first.moments.square is None:
            raise TypeError("the CPI-type score needs the second moment along each line")
        perturbed = outcome**2 - 2 * outcome * first.moments.mean + first.moments.square
        return np.asarray(0.5 * (perturbed - (outcome - first.value[:, None]) ** 2))
    second = evaluations[1] if form == "cross" else first
    return np.asarray(
        (outcome - first.moments.mean) * (outcome - second.moments.mean)
        - (outcome - first.value[:, None]) * (outcome - second.value[:, None])
    )


def scores_along(
    models: Sequence[LineModel], lines: Lines, y: Floats, weights: Floats, *, form: ScoreForm
) -> tuple[Floats, list[LineMoments]]:
    """Return the influence values of rows along given lines, (n, d), and the models' moments.

    Parameters
    ----------
    models : sequence of LineModel
        Two models fitted on disjoint rows for the cross form, one otherwise.
    lines : Lines
        Any lines, not necessarily those of all coordinates of a transport.
    y : ndarray of shape (n,)
        The rows' outcomes.
    weights : ndarray of shape (q,)
        Weights of the nodes of the random kernel (``lines.offsets``).
    form : {"cross", "loco", "cpi"}
        See the module's description.

    Returns
    -------
    tuple
        The influence values, and line means and first Hermite moments of each model, both (n, d)
        and averaged over the random kernel.
    """
    evaluations = [
        _Evaluation(model.predict(lines.points), model.moments(lines, square=form == "cpi"))
        for model in models
    ]
    moments = [
        LineMoments(
            np.tensordot(weights, evaluation.moments.mean, axes=1),
            np.tensordot(weights, evaluation.moments.hermite, axes=1),
        )
        for evaluation in evaluations
    ]
    return np.tensordot(weights, _combine(form, y, evaluations), axes=1), moments
