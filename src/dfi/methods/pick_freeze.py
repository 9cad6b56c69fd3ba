"""Sobol indices of one model over one set of rows: pick-freeze, and closed form for linear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfi._types import Floats, Ints
    from dfi.methods.model_error import RieszSpan

    Blocks = list[NDArray[Any]]


@dataclass(frozen=True)
class Indices:
    """Total (first entry) and first-order effects (second entry) of d blocks of coordinates.

    Attributes
    ----------
    influence : ndarray of shape (2, n, d)
        Influence values.
    noise : ndarray of shape (2, d)
        Monte-Carlo error of the scores.
    sensitivity : ndarray of shape (2, d, d)
        ``[:, k, j]``, of effect j to tilting coordinate j towards k, for the transport's error;
        only where every block is one coordinate.
    """

    influence: Floats
    noise: Floats
    sensitivity: Floats


def linear_indices(
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
    both = np.stack([influence, influence])
    return (
        Indices(both, np.zeros((2, d)), np.stack([sensitivity, sensitivity])),
        [derivative, derivative],
    )


def pick_freeze(
    predict: Callable[[Floats], Floats],
    coordinates: Floats,
    decode: Callable[[Floats], Floats] | None,
    blocks: Blocks,
    mass: Floats,
    span: RieszSpan,
    n_compositions: int,
    generator: np.random.Generator,
) -> tuple[Indices, list[Floats]]:
    """Return total and first-order effects from composed rows (see :mod:`dfi.methods.sobol`).

    The second value holds the derivatives of both scores in the direction of the span's functions
    and, in the last row, of a constant.
    """
    n, d = len(coordinates), len(blocks)
    compositions = []
    for _ in range(n_compositions):
        first, second = _lenders(mass, d, generator)
        a, b = _compose(coordinates, blocks, first), _compose(coordinates, blocks, second)
        compositions.append(
            (first, second, predict(_points(a, decode)), predict(_points(b, decode)))
        )
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

    def add(
        self,
        total: Floats,
        first_order: Floats,
        first: Ints,
        second: Ints,
    ) -> None:
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
            kept = np.divide(
                np.maximum(observed - chance, 0.0),
                observed,
                out=np.zeros(self.d),
                where=observed > 0,
            )
            values[kind] = score[kind] + 2.0 * (np.sqrt(kept) @ deviation)
        return values, noise
