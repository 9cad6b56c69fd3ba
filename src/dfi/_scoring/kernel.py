r"""Scores under a solved entropic transport: matrix products with its kernel.

With :math:`\eta(z) = \sum_i \alpha_i(z)\mu(X_i)` the model is asked about observed rows only.
Changing one coordinate of ``z`` multiplies the kernel by a factor per row,

.. math:: \alpha_i(z^{(j)}(t)) \propto
    \Big[a_i e^{(f_i - \sum_{k \ne j}(\tilde x_{ik} - z_k)^2)/\varepsilon}\Big]
    \, e^{-(\tilde x_{ij} - t)^2/\varepsilon},

so numerators and denominators for every replacement value are one matrix product per coordinate.
The influence values average over the law of ``Z`` given the row rather than over a draw:
:math:`u_{ij} = E[(y_i - m_j(Z))^2 - (y_i - \eta(Z))^2 \mid X_i]`, and the attributed ones weigh
that by the shares :math:`\omega_{jl}(Z_{-j})` of the line (:mod:`dfi._scoring.line_shares`), or by
:math:`E_t[(\partial S_l/\partial z_j)^2]` for ``attribution="slopes"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.base import blocks
from dfi._scoring.forms import Pair, ScoreForm, affine_parts, calibrated_parts, change_product
from dfi._scoring.line_shares import line_shares
from dfi._scoring.scores import FoldScores, Scores, calibrate, put_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._scoring.geometry import Geometry
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints

N_NODES = 32
NEGLIGIBLE_WEIGHT = 1e-9
UNDERFLOW = 1e-250
BLOCK_ENTRIES = 2**21


@dataclass(frozen=True)
class CouplingKernel:
    """A solved coupling of rows with normal points.

    ``atoms`` (n, d) are the encoded rows, of shares ``mass``, ``targets`` (m, d) the points;
    ``rows`` and ``columns`` the potentials of both.
    """

    geometry: Geometry
    epsilon: float
    atoms: Floats
    mass: Floats
    targets: Floats
    rows: Floats
    columns: Floats

    @property
    def n_latent(self) -> int:
        return self.geometry.n_latent

    @cached_property
    def log_weights(self) -> Floats:
        """The part of the logarithm of ``alpha_i(z)`` that does not depend on ``z``."""
        with np.errstate(divide="ignore"):
            return self.rows / self.epsilon + np.log(self.mass)

    def backward(self, latent: Floats) -> Floats:
        """Return the weights of the rows given each latent row, shape (k, n), rows summing to 1."""
        value = exponents(
            latent, self.atoms, np.zeros(len(latent)), self.epsilon * self.log_weights, self.epsilon
        )
        return _softmax(value)

    def log_kernel(self, latent: Floats, coordinates: Ints) -> Floats:
        """Return the logarithm of the rows' weights in some coordinates alone, up to a constant."""
        return exponents(
            latent[:, coordinates],
            np.ascontiguousarray(self.atoms[:, coordinates]),
            np.zeros(len(latent)),
            self.epsilon * self.log_weights,
            self.epsilon,
        )

    def forward(self, matrix: Floats) -> Floats:
        """Return the weights of the normal points given rows (new ones too), shape (k, m)."""
        rows = self.geometry.encode(matrix)
        value = exponents(rows, self.targets, np.zeros(len(rows)), self.columns, self.epsilon)
        return _softmax(value)


def exponents(
    rows: Floats, targets: Floats, f: Floats, g: Floats | float, epsilon: float
) -> Floats:
    r"""Return :math:`(f_i + g_m - \|x_i - z_m\|^2)/\varepsilon`, (n, m), by one matrix product."""
    d = rows.shape[1]
    left, right = np.empty((len(rows), d + 2)), np.empty((d + 2, len(targets)))
    left[:, :d], right[:d] = rows * (2.0 / epsilon), targets.T
    left[:, d], right[d] = (f - np.einsum("ij,ij->i", rows, rows)) / epsilon, 1.0
    left[:, d + 1] = 1.0
    right[d + 1] = (g - np.einsum("ij,ij->i", targets, targets)) / epsilon
    return np.asarray(left @ right)


def _softmax(value: Floats) -> Floats:
    value -= value.max(axis=1, keepdims=True)
    np.exp(value, out=value)
    value /= value.sum(axis=1, keepdims=True)
    return value


@dataclass(frozen=True)
class LineAverages:
    """Averages of one kernel, or of two across halves (h), at the latent points (m).

    ``eta`` (h, m, k) is the latent regression of each kernel and model, ``mean`` and ``square``
    (h, d, m, k) its mean and that of its square (the product of the halves) along each line,
    ``received[j, z, l]`` what feature ``l`` receives along line ``j``.
    """

    eta: Floats
    mean: Floats
    square: Floats
    received: Floats


def nodes_and_weights() -> tuple[Floats, Floats]:
    """Return the Gauss-Hermite nodes that carry weight."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    weights = weights / weights.sum()
    keep = weights > NEGLIGIBLE_WEIGHT
    return nodes[keep], weights[keep] / weights[keep].sum()


def latent_regression(kernel: CouplingKernel, values: Floats, points: Floats) -> Floats:
    r"""Return :math:`\eta(z) = \sum_i \alpha_i(z) \mu(X_i)` of each model at points, (m, k)."""
    eta = np.empty((len(points), values.shape[1]))
    for part in blocks(len(points), BLOCK_ENTRIES // len(kernel.atoms)):
        eta[part] = kernel.backward(points[part]) @ values
    return eta


def line_averages(
    kernels: Sequence[CouplingKernel],
    values: Sequence[Floats],
    points: Floats,
    *,
    slopes: bool = False,
) -> LineAverages:
    """Average the latent regressions along every line through latent points."""
    m, d = points.shape
    h, k = len(kernels), values[0].shape[1]
    nodes, weights = nodes_and_weights()
    eta = np.empty((h, m, k))
    mean, square = np.empty((h, d, m, k)), np.empty((h, d, m, k))
    received = np.empty((d, m, d))
    for a, (kernel, value) in enumerate(zip(kernels, values, strict=True)):
        eta[a] = latent_regression(kernel, value, points)
    for j in range(d):
        lines = [
            _Line(kernel, value, j, nodes, slopes=slopes)
            for kernel, value in zip(kernels, values, strict=True)
        ]
        for part in blocks(m, BLOCK_ENTRIES // max(len(kernel.atoms) for kernel in kernels)):
            found = [line.at(points[part]) for line in lines]
            for a, (curve, _) in enumerate(found):
                mean[a, j, part] = np.tensordot(curve, weights, axes=(1, 0))
                square[a, j, part] = np.tensordot(curve * found[-1 - a][0], weights, axes=(1, 0))
            first, last = found[0][1], found[-1][1]
            if not slopes:
                first = first - np.tensordot(first, weights, axes=(1, 0))[:, None]
            received[j, part] = np.tensordot(first * last, weights, axes=(1, 0))
            if not slopes:
                variance = np.maximum(received[j, part], 0.0)
                received[j, part] = line_shares(variance, np.eye(d)[j])
    return LineAverages(eta, mean, square, received)


class _Line:
    """One coordinate of one kernel: everything that a replacement value changes."""

    def __init__(
        self, kernel: CouplingKernel, value: Floats, j: int, nodes: Floats, *, slopes: bool
    ) -> None:
        self.kernel, self.j, self.nodes, self.slopes = kernel, j, nodes, slopes
        self.others = np.delete(np.arange(kernel.n_latent), j)
        own = kernel.atoms[:, j]
        features = kernel.atoms @ kernel.geometry.decoder
        products = features * own[:, None] if slopes else features[:, :0]
        self.columns = np.column_stack([np.ones(len(own)), own, features, products, value])
        factor = np.exp(-((own[:, None] - nodes) ** 2) / kernel.epsilon)
        self.moved = (factor[:, :, None] * self.columns[:, None, :]).reshape(len(own), -1)

    def at(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the regressions (m, t, k) and features (m, t, d) at all replacement values."""
        kernel = self.kernel
        base = kernel.log_kernel(points, self.others)
        base -= base.max(axis=1, keepdims=True)
        np.exp(base, out=base)
        sums = (base @ self.moved).reshape(len(points), len(self.nodes), -1)
        tiny = sums[:, :, 0] < UNDERFLOW
        sums[tiny, 0] = 1.0
        sums /= sums[:, :, :1].copy()
        if tiny.any():
            # no row is near both the line's position and the new value: in the log domain
            where, which = np.nonzero(tiny)
            replaced = points[where].copy()
            replaced[:, self.j] = self.nodes[which]
            sums[where, which] = kernel.backward(replaced) @ self.columns
        d = kernel.n_latent
        own, features = sums[:, :, 1:2], sums[:, :, 2 : 2 + d]
        if not self.slopes:
            return sums[:, :, 2 + d :], features
        covariance = sums[:, :, 2 + d : 2 + 2 * d] - own * features
        return sums[:, :, 2 + 2 * d :], (2.0 / kernel.epsilon) * covariance


def entropic_scores(
    task: Task,
    kernel: CouplingKernel,
    *,
    atom_rows: Ints,
    halves: Sequence[tuple[CouplingKernel, Ints]] = (),
    slopes: bool = False,
) -> Scores:
    """Score held-out rows under a kernel with atoms ``atom_rows``, or across two ``halves``."""
    matrix = task.matrix
    predictors = [predictor for fold in task.folds for predictor in fold.predictors]
    predicted = np.column_stack([predictor(matrix) for predictor in predictors])
    parts = halves or ((kernel, atom_rows),)
    averages = line_averages(
        [part for part, _ in parts],
        [predicted[rows] for _, rows in parts],
        kernel.targets,
        slopes=slopes,
    )
    whole = averages.eta[0]
    if halves:
        whole = latent_regression(kernel, predicted[atom_rows], kernel.targets)
    scores, products, position = [], [], 0
    places: list[Ints] = []
    for fold in task.folds:
        models = np.arange(position, position + len(fold.predictors))
        position += len(models)
        places.append(models)
        latent, attributed = _held_out(
            kernel,
            matrix[fold.test],
            task.y[fold.test],
            _score_functions(averages, whole, models, task.form),
            averages.received,
        )
        prediction = predicted[np.ix_(fold.test, models)].mean(axis=1)
        scores.append(FoldScores(latent, attributed, prediction))
        if task.form == "calibrated":
            product = _product_function(averages, models)
            nothing = np.zeros_like(product)
            of_rows = np.zeros(len(fold.test))
            pieces = (nothing, product)
            products.append(
                _held_out(kernel, matrix[fold.test], of_rows, pieces, averages.received)[0]
            )
    calibration = calibrate(task, [score.latent for score in scores], products)
    if calibration is not None:
        # attribution weighs coordinates at latent points: the factors must be known before
        for k, (fold, models) in enumerate(zip(task.folds, places, strict=True)):
            pieces = calibrated_parts(
                _score_functions(averages, whole, models, task.form),
                _product_function(averages, models),
                calibration.factors[k],
            )
            rows, y = matrix[fold.test], task.y[fold.test]
            both = _held_out(kernel, rows, y, pieces, averages.received)
            scores[k] = FoldScores(*both, scores[k].prediction)
    return put_together(
        task,
        scores,
        attribution=averages.received.mean(axis=1).T,
        rule=f"entropic kernel ({len(nodes_and_weights()[0])} Gauss nodes per line)",
        diagnostics={"top_1_percent_share": top_share(averages)},
        calibration=calibration,
    )


def _score_functions(
    averages: LineAverages, whole: Floats, models: Ints, form: ScoreForm
) -> tuple[Floats, Floats]:
    r"""Return ``p`` and ``q`` (m, d) with influence value :math:`y\,p_j(z) + q_j(z)`.

    :func:`dfi._scoring.forms.affine_parts` for models ``a``, ``b`` under kernels ``A``, ``B`` (the
    halves, or twice the whole one ``F``), averaged over both assignments of the halves. Residuals
    are from the whole kernel, whose :math:`\eta_F` is the mean of the rows' values under the
    coupling: from a half's they would bring its noise back.
    """
    pairs = _pairs(averages, models)
    p, q = affine_parts(form, (whole[:, models[0]], whole[:, models[-1]]), pairs)
    return p.T, q.T


def _product_function(averages: LineAverages, models: Ints) -> Floats:
    r"""Return :math:`\Delta^a\Delta^b` at the latent points, (m, d), over both assignments."""
    pairs = _pairs(averages, models)
    return np.asarray(np.mean([change_product(v, m) for v, m in pairs], axis=0).T)


def _pairs(averages: LineAverages, models: Ints) -> list[Pair]:
    first, last = models[0], models[-1]
    return [
        (
            (averages.eta[one, :, first], averages.eta[other, :, last]),
            (averages.mean[one, :, :, first], averages.mean[other, :, :, last]),
        )
        for one, other in (((0, -1), (-1, 0)) if len(averages.eta) > 1 else ((0, 0),))
    ]


def _held_out(
    kernel: CouplingKernel, rows: Floats, y: Floats, pieces: tuple[Floats, Floats], received: Floats
) -> tuple[Floats, Floats]:
    """Average the score functions over the law of ``Z`` given each held-out row."""
    p, q = pieces
    d = p.shape[1]
    weighted = (np.einsum("mj,jml->ml", piece, received) for piece in (p, q))
    functions = np.hstack([p, q, *weighted])
    mean = np.empty((len(rows), 4 * d))
    for part in blocks(len(rows), BLOCK_ENTRIES // len(kernel.targets)):
        mean[part] = kernel.forward(rows[part]) @ functions
    p, q, attributed_p, attributed_q = np.hsplit(mean, 4)
    outcome = y[:, None]
    return outcome * p + q, outcome * attributed_p + attributed_q


def top_share(averages: LineAverages) -> float:
    """Return the largest share of an attributed score that comes from 1 % of the points."""
    variance = np.clip(
        (averages.square - averages.mean * averages.mean[::-1]).mean(axis=(0, 3)), 0.0, None
    )
    term = np.einsum("jm,jml->ml", variance, np.abs(averages.received))
    ordered = np.sort(term, axis=0)[::-1]
    top = ordered[: max(1, len(ordered) // 100)].sum(axis=0)
    total = ordered.sum(axis=0)
    return float(np.max(np.divide(top, total, out=np.zeros_like(top), where=total > 0)))
