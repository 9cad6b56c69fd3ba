r"""Entropic optimal transport between rows and normal points, to a tight tolerance.

The coupling of the weighted rows :math:`\sum_i a_i \delta_{x_i}` with the points
:math:`\frac1M\sum_m \delta_{z_m}` under the cost :math:`\|x - z\|^2` and KL weight
:math:`\varepsilon` is :math:`a_i b_m K_{im} u_i v_m`, where

.. math:: K_{im} = \exp\{(f_i + g_m - \|x_i - z_m\|^2)/\varepsilon\}

absorbs potentials :math:`f, g` that are close to the solution, so that :math:`u, v` stay near 1
and each half-step is one product of a matrix with a vector. Potentials start from the exact
solution for Gaussian rows with the same covariance :math:`S`, with
:math:`C = (S + \varepsilon^2/16)^{1/2} - \varepsilon/4`:

.. math:: g(z) = z'(I - C)z, \qquad f(x) = x'(I - (C + \varepsilon/2)^{-1})x .

The fixed point in :math:`\log u` is accelerated by Anderson mixing; whenever the scalings leave
the safe range they are absorbed by one exact half-step in the log domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dfi._types import Floats

DEPTH = 6
SAFE = 25.0
"""Largest absolute logarithm of a scaling before it is absorbed into the kernel."""

RANGE = 80.0
"""Largest absolute logarithm of a kernel's entry; beyond it the entry stored is not the true one.

Scalings within ``SAFE`` see no difference: what is cut off from below weighs at most
``exp(2 * SAFE - RANGE)``, 1e-13, of a margin, and what is cut off from above breaks one.
"""

SINGLE_TOLERANCE = 5e-7
"""Smallest error that a kernel stored in single precision reaches reliably."""

BLOCK_ENTRIES = 2**19

MAX_ITERATIONS = 20_000


@dataclass(frozen=True)
class Solution:
    r"""Potentials of a solved problem, and how well it is solved.

    :math:`\gamma_{im} = a_i b_m \exp\{(f_i + g_m - \|x_i - z_m\|^2)/\varepsilon\}` with ``rows``
    :math:`f` and ``targets`` :math:`g`. ``error`` is :math:`\sum_i |\sum_m \gamma_{im} - a_i|`; the
    margin of the targets is exact. Each of the ``iterations`` is two products with the kernel.
    """

    rows: Floats
    targets: Floats
    error: float
    iterations: int


def normal_points(count: int, d: int, seed: np.random.SeedSequence) -> Floats:
    """Return scrambled-Sobol points of ``N(0, I_d)``; pseudo-random ones above its dimensions."""
    generator = np.random.default_rng(seed)
    if d > qmc.Sobol.MAXDIM:
        return generator.standard_normal((count, d))
    sobol = qmc.Sobol(d, scramble=True, rng=generator)
    uniform = sobol.random_base2(max(0, int(np.ceil(np.log2(count)))))[:count]
    return np.asarray(ndtri(np.clip(uniform, 1e-12, 1 - 1e-12)))


def gaussian_coupling(covariance: Floats, epsilon: float) -> Floats:
    r"""Return :math:`C = Cov(X, Z) = (S + \varepsilon^2/16)^{1/2} - \varepsilon/4`, (d, d)."""
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.clip(values, 0.0, None) + epsilon**2 / 16.0) - epsilon / 4.0
    return np.asarray((vectors * root) @ vectors.T)


def gaussian_potentials(
    rows: Floats, targets: Floats, mass: Floats, epsilon: float
) -> tuple[Floats, Floats]:
    """Return the potentials that would solve the problem for Gaussian rows."""
    d = rows.shape[1]
    center = mass @ rows
    covariance = (rows * mass[:, None]).T @ rows - np.outer(center, center)
    coupling = gaussian_coupling(covariance, epsilon)
    inverse = np.linalg.inv(coupling + 0.5 * epsilon * np.eye(d))
    f = np.einsum("ij,ij->i", rows @ (np.eye(d) - inverse), rows)
    g = np.einsum("ij,ij->i", targets @ (np.eye(d) - coupling), targets)
    return f, g


def solve(
    rows: Floats,
    targets: Floats,
    epsilon: float,
    *,
    mass: Floats | None = None,
    tol: float = 1e-6,
    start: tuple[Floats, Floats] | None = None,
    max_iterations: int = MAX_ITERATIONS,
) -> Solution:
    """Solve the entropic transport problem between rows (n, d) and equally weighted targets (m, d).

    ``mass`` are the rows' weights; ``tol`` is the largest accepted error of the row margin, summed
    over rows; ``start`` are potentials to start from instead of the Gaussian ones. It is an error
    not to reach the tolerance in ``max_iterations``.
    """
    n = len(rows)
    a = np.full(n, 1.0 / n) if mass is None else mass / mass.sum()
    f, g = gaussian_potentials(rows, targets, a, epsilon) if start is None else start
    # Entries are computed in double and stored in the shortest type that the tolerance allows:
    # each iteration reads the whole kernel twice, and that reading is its cost.
    kernel = np.empty((n, len(targets)), np.float32 if tol >= SINGLE_TOLERANCE else np.float64)
    _fill(kernel, rows, targets, f, g, epsilon)
    log_u = np.zeros(n)
    mixing = _Anderson()
    error = np.inf
    for iteration in range(1, max_iterations + 1):
        image, log_v = _step(kernel, a, log_u)
        residual = image - log_u
        error = float(a @ np.abs(np.expm1(np.clip(-residual, -RANGE, RANGE))))
        scalings = max(np.abs(log_u).max(), np.abs(log_v).max())
        solved = error <= 0.9 * tol
        if solved and scalings <= SAFE:
            return Solution(f + epsilon * log_u, g + epsilon * log_v, error, iteration)
        # not "larger than": no comparison with NaN is true
        if solved or not max(np.abs(residual).max(), scalings) <= RANGE / 2:
            # far from any use, or a solution for entries that were cut off: two exact half-steps
            # in the log domain
            f, g = _half_steps(rows, targets, a, f, epsilon)
            log_u, mixing = np.zeros(n), _Anderson()
            _fill(kernel, rows, targets, f, g, epsilon)
            continue
        log_u = mixing.step(log_u, residual)
        if max(np.abs(log_v).max(), np.abs(log_u).max()) > SAFE:
            f, g = f + epsilon * log_u, g + epsilon * log_v
            mixing.shift(log_u)
            log_u = np.zeros(n)
            _fill(kernel, rows, targets, f, g, epsilon)
    raise RuntimeError(
        f"entropic transport did not reach the tolerance {tol:g} in {max_iterations} iterations "
        f"(error {error:.2g}): raise epsilon (now {epsilon:g}) or tol"
    )


def _step(kernel: NDArray[np.floating[Any]], a: Floats, log_u: Floats) -> tuple[Floats, Floats]:
    """Return the logarithms of the row scaling after one iteration, and of the target scaling."""
    kind = kernel.dtype
    with np.errstate(all="ignore"):
        v = 1.0 / ((a * np.exp(log_u)).astype(kind) @ kernel).astype(float)
        product = (kernel @ (v / len(v)).astype(kind)).astype(float)
        return -np.log(product), np.log(v)


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


def _fill(
    kernel: NDArray[np.floating[Any]],
    rows: Floats,
    targets: Floats,
    f: Floats,
    g: Floats,
    epsilon: float,
) -> None:
    """Fill the kernel, potentials absorbed; entries are kept off overflow and denormal numbers."""
    for part in _blocks(len(rows), len(targets)):
        block = exponents(rows[part], targets, f[part], g, epsilon)
        np.clip(block, -RANGE, RANGE, out=block)
        target = kernel[part]
        target[:] = block
        np.exp(target, out=target)


def _half_steps(
    rows: Floats, targets: Floats, a: Floats, f: Floats, epsilon: float
) -> tuple[Floats, Floats]:
    """Return the potentials after exact half-steps for the targets, then for the rows."""
    # a row without weight takes no part in the sum, but has a potential of its own
    log_a = np.log(np.maximum(a, 1e-300))
    f_next, g = np.empty(len(rows)), np.empty(len(targets))
    for part in _blocks(len(targets), len(rows)):
        g[part] = -epsilon * logsumexp(
            exponents(targets[part], rows, np.zeros(len(targets[part])), f, epsilon) + log_a, axis=1
        )
    for part in _blocks(len(rows), len(targets)):
        value = exponents(rows[part], targets, np.zeros(len(rows[part])), g, epsilon)
        f_next[part] = -epsilon * (logsumexp(value, axis=1) - np.log(len(targets)))
    return f_next, g


def _blocks(count: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK_ENTRIES // width)
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


class _Anderson:
    """Anderson mixing of a fixed-point iteration, restarted where it stops helping."""

    def __init__(self) -> None:
        self.points: list[Floats] = []
        self.residuals: list[Floats] = []

    def shift(self, origin: Floats) -> None:
        """Move the origin of the points."""
        self.points = [point - origin for point in self.points]

    def step(self, point: Floats, residual: Floats) -> Floats:
        """Return the next point from the last few points and their residuals."""
        if self.residuals and np.abs(residual).max() > 4.0 * np.abs(self.residuals[-1]).max():
            self.points, self.residuals = [], []
        self.points.append(point)
        self.residuals.append(residual)
        del self.points[: -DEPTH - 1], self.residuals[: -DEPTH - 1]
        if len(self.points) == 1:
            return point + residual
        change = np.diff(np.array(self.residuals), axis=0)
        moves = np.diff(np.array(self.points), axis=0)
        gram = change @ change.T
        gram[np.diag_indices_from(gram)] += 1e-14 * np.trace(gram)
        weights = np.linalg.solve(gram, change @ residual)
        return np.asarray(point + residual - weights @ (moves + change))
