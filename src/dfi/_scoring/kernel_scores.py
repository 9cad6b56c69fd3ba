r"""Scores under a solved entropic transport: matrix products with its kernel.

With :math:`\eta(z) = \sum_i \alpha_i(z)\mu(X_i)` the model is asked about observed rows only.
Changing one coordinate of ``z`` multiplies the kernel by a factor per row,

.. math:: \alpha_i(z^{(j)}(t)) \propto
    \Big[a_i e^{(f_i - \sum_{k \ne j}(\tilde x_{ik} - z_k)^2)/\varepsilon}\Big]
    \, e^{-(\tilde x_{ij} - t)^2/\varepsilon},

so numerators and denominators for every replacement value are one matrix product per coordinate.
The influence values average over the law of ``Z`` given the row rather than over a draw:
:math:`u_{ij} = E[(y_i - m_j(Z))^2 - (y_i - \eta(Z))^2 \mid X_i]`, and the attributed ones weigh
that by :math:`w_{jl}(Z_{-j}) = E_t[(\partial S_l/\partial z_j)^2]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._scoring.transported import FoldScores, TransportedScores, put_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.latent import ScoreForm
    from dfi._types import Floats, Ints
    from dfi.transports.entropic import EntropicTransport

N_NODES = 32
NEGLIGIBLE_WEIGHT = 1e-9
UNDERFLOW = 1e-250
BLOCK_ENTRIES = 2**21


@dataclass(frozen=True)
class LineAverages:
    """Averages of one kernel, or of two across halves, at the latent points.

    Attributes
    ----------
    eta : ndarray of shape (h, m, k)
        Latent regression of each kernel (half) and model at the points.
    mean, square : ndarray of shape (h, d, m, k)
        Its mean, and the mean of its square (the product of the halves), along each line.
    jacobian : ndarray of shape (d, m, d)
        ``w[j, z, l]``, the mean squared Jacobian along line ``j``.
    """

    eta: Floats
    mean: Floats
    square: Floats
    jacobian: Floats


def nodes_and_weights() -> tuple[Floats, Floats]:
    """Return the Gauss-Hermite nodes that carry weight."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    weights = weights / weights.sum()
    keep = weights > NEGLIGIBLE_WEIGHT
    return nodes[keep], weights[keep] / weights[keep].sum()


def latent_regression(kernel: EntropicTransport, values: Floats, points: Floats) -> Floats:
    r"""Return :math:`\eta(z) = \sum_i \alpha_i(z) \mu(X_i)` of each model at points, (m, k)."""
    eta = np.empty((len(points), values.shape[1]))
    for part in _blocks(len(points), len(kernel.atoms)):
        eta[part] = kernel.backward(points[part]) @ values
    return eta


def line_averages(
    kernels: Sequence[EntropicTransport], values: Sequence[Floats], points: Floats
) -> LineAverages:
    """Average the latent regressions and the Jacobian along every line through latent points.

    Parameters
    ----------
    kernels : sequence of EntropicTransport
        One, or two halves whose products are taken.
    values : sequence of ndarray of shape (n, k)
        The models' values at the atoms of each kernel.
    points : ndarray of shape (m, d)
        Latent points.
    """
    m, d = points.shape
    h, k = len(kernels), values[0].shape[1]
    nodes, weights = nodes_and_weights()
    eta = np.empty((h, m, k))
    mean, square = np.empty((h, d, m, k)), np.empty((h, d, m, k))
    jacobian = np.empty((d, m, d))
    for a, (kernel, value) in enumerate(zip(kernels, values, strict=True)):
        eta[a] = latent_regression(kernel, value, points)
    for j in range(d):
        lines = [
            _Line(kernel, value, j, nodes) for kernel, value in zip(kernels, values, strict=True)
        ]
        for part in _blocks(m, max(len(kernel.atoms) for kernel in kernels)):
            found = [line.at(points[part]) for line in lines]
            for a, (curve, _) in enumerate(found):
                mean[a, j, part] = np.tensordot(curve, weights, axes=(1, 0))
                square[a, j, part] = np.tensordot(curve * found[-1 - a][0], weights, axes=(1, 0))
            product = found[0][1] * found[-1][1]
            jacobian[j, part] = np.tensordot(product, weights, axes=(1, 0))
    return LineAverages(eta, mean, square, jacobian)


def _blocks(count: int, width: int) -> list[slice]:
    step = max(1, BLOCK_ENTRIES // width)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


class _Line:
    """One coordinate of one kernel: everything that a replacement value changes."""

    def __init__(self, kernel: EntropicTransport, value: Floats, j: int, nodes: Floats) -> None:
        self.kernel, self.j, self.nodes = kernel, j, nodes
        self.others = np.delete(np.arange(kernel.n_latent), j)
        own = kernel.atoms[:, j]
        features = kernel.atoms @ kernel.linear.decoder
        self.columns = np.column_stack(
            [np.ones(len(own)), own, features, features * own[:, None], value]
        )
        factor = np.exp(-((own[:, None] - nodes) ** 2) / kernel.epsilon)
        self.moved = (factor[:, :, None] * self.columns[:, None, :]).reshape(len(own), -1)

    def at(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the regressions (m, t, k) and the Jacobian (m, t, d) at all replacement values."""
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
        covariance = sums[:, :, 2 + d : 2 + 2 * d] - own * features
        return sums[:, :, 2 + 2 * d :], (2.0 / kernel.epsilon) * covariance


def entropic_scores(
    folds: Sequence[FoldModels],
    matrix: Floats,
    y: Floats,
    weights: Weights,
    transport: EntropicTransport,
    *,
    atom_rows: Ints,
    halves: Sequence[tuple[EntropicTransport, Ints]] = (),
    form: ScoreForm,
) -> TransportedScores:
    """Score the held-out rows of every fold.

    Parameters
    ----------
    folds : sequence of FoldModels
        The fitted models.
    matrix, y, weights
        All rows.
    transport : EntropicTransport
        The solved transport.
    atom_rows : ndarray of int
        The rows of ``matrix`` that are its atoms.
    halves : sequence of (EntropicTransport, ndarray of int)
        The kernels of two halves of the rows and those rows, where products are to be taken
        across them.
    form : {"cross", "loco", "cpi"}
        The estimator of the latent scores.
    """
    predictors = [predictor for fold in folds for predictor in fold.predictors]
    predicted = np.column_stack([predictor(matrix) for predictor in predictors])
    parts = halves or ((transport, atom_rows),)
    averages = line_averages(
        [kernel for kernel, _ in parts], [predicted[rows] for _, rows in parts], transport.targets
    )
    whole = averages.eta[0]
    if halves:
        whole = latent_regression(transport, predicted[atom_rows], transport.targets)
    scores, position = [], 0
    for fold in folds:
        chosen = np.arange(position, position + len(fold.predictors))
        position += len(chosen)
        pieces = _score_functions(averages, whole, chosen, form)
        scores.append(
            _held_out_scores(
                transport,
                matrix[fold.test],
                y[fold.test],
                pieces,
                averages.jacobian,
                predicted[np.ix_(fold.test, chosen)].mean(axis=1),
            )
        )
    return put_together(
        folds,
        scores,
        weights,
        averages.jacobian.mean(axis=1).T,
        f"entropic kernel ({len(nodes_and_weights()[0])} Gauss nodes per line)",
        {"top_1_percent_share": top_share(averages)},
    )


def _score_functions(
    averages: LineAverages, whole: Floats, chosen: Ints, form: ScoreForm
) -> tuple[Floats, Floats]:
    r"""Return ``p`` and ``q`` (m, d) with influence value :math:`y\,p_j(z) + q_j(z)`.

    For models ``a``, ``b`` and kernels ``A``, ``B`` (the halves, or twice the whole one ``F``),
    with :math:`\Delta = \eta - m`,

    .. math:: u = (y - \eta^a_F)\Delta^b_B + (y - \eta^b_F)\Delta^a_A + \Delta^a_A\Delta^b_B ,

    averaged over both assignments of the halves. Residuals are from the whole kernel, whose
    :math:`\eta_F` is the mean of the rows' values under the coupling: from a half's they would
    bring its noise back.
    """
    first, last = chosen[0], chosen[-1]
    pairs = ((0, -1), (-1, 0)) if len(averages.eta) > 1 else ((0, 0),)
    shape = averages.mean.shape[1:3]
    p, q = np.zeros(shape), np.zeros(shape)
    for one, other in pairs:
        eta = averages.eta[one, :, first], averages.eta[other, :, last]
        mean = averages.mean[one, :, :, first], averages.mean[other, :, :, last]
        change = eta[0] - mean[0], eta[1] - mean[1]
        if form == "cpi":
            p += 0.5 * (change[0] + change[1])
            q -= 0.5 * whole[:, first] * (change[0] + change[1])
            spread = averages.square[one, :, :, first]
            q += 0.5 * (eta[0] * eta[1] - eta[0] * mean[1] - eta[1] * mean[0] + spread)
        else:
            p += change[0] + change[1]
            q += change[0] * change[1] - whole[:, first] * change[1] - whole[:, last] * change[0]
    return (p / len(pairs)).T, (q / len(pairs)).T


def _held_out_scores(
    transport: EntropicTransport,
    rows: Floats,
    y: Floats,
    pieces: tuple[Floats, Floats],
    jacobian: Floats,
    prediction: Floats,
) -> FoldScores:
    """Average the score functions over the law of ``Z`` given each held-out row."""
    p, q = pieces
    d = p.shape[1]
    weighted = (np.einsum("mj,jml->ml", piece, jacobian) for piece in (p, q))
    functions = np.hstack([p, q, *weighted])
    mean = np.empty((len(rows), 4 * d))
    for part in _blocks(len(rows), len(transport.targets)):
        mean[part] = transport.forward(rows[part]) @ functions
    outcome = y[:, None]
    return FoldScores(
        latent=outcome * mean[:, :d] + mean[:, d : 2 * d],
        attributed=outcome * mean[:, 2 * d : 3 * d] + mean[:, 3 * d :],
        prediction=prediction,
    )


def top_share(averages: LineAverages) -> float:
    """Return the largest share, over features, of the attributed score from 1 % of the points."""
    variance = np.clip(
        (averages.square - averages.mean * averages.mean[::-1]).mean(axis=(0, 3)), 0.0, None
    )
    term = np.einsum("jm,jml->ml", variance, np.abs(averages.jacobian))
    ordered = np.sort(term, axis=0)[::-1]
    top = ordered[: max(1, len(ordered) // 100)].sum(axis=0)
    total = ordered.sum(axis=0)
    return float(np.max(np.divide(top, total, out=np.zeros_like(top), where=total > 0)))
