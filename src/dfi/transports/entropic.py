r"""Entropic optimal transport, solved: the coupling kernel, not a linear approximation.

The rows, whitened to :math:`\tilde x = L^{-1}(x - \text{mean})/\text{sd}` (or standardised only),
are coupled with :math:`N(0, I)` under the cost :math:`\|\tilde x - z\|^2 + \varepsilon KL`. Given
``Z = z`` the law of ``X`` sits on the rows, with weights

.. math:: \alpha_i(z) \propto a_i \exp\{(f_i - \|\tilde x_i - z\|^2)/\varepsilon\},

so that :math:`\eta(z) = \sum_i \alpha_i(z)\,\mu(X_i)`, the decoder is
:math:`S(z) = L \sum_i \alpha_i(z)\,\tilde x_i` and its Jacobian
:math:`\frac{2}{\varepsilon} L\,Cov(\tilde X \mid Z = z)`. Given ``X = x`` the law of ``Z`` sits,
up to the quality of the points, on the normal points that the problem was solved against. Only
draws of ``Z`` are independent coordinates; conditional means are not.

Whitening first makes the geometry that of the linear transports: for Gaussian rows the solution
is the Gaussian bridge, :math:`E[\tilde X \mid Z = z] = c z` with
:math:`c = \sqrt{1 + \varepsilon^2/16} - \varepsilon/4`, and the attribution is :math:`W = c L`.

**Sinkhorn's algorithm**, to a tight tolerance. The coupling of the weighted rows
:math:`\sum_i a_i \delta_{x_i}` with the points :math:`\frac1M\sum_m \delta_{z_m}` is
:math:`a_i b_m K_{im} u_i v_m`, where

.. math:: K_{im} = \exp\{(f_i + g_m - \|x_i - z_m\|^2)/\varepsilon\}

absorbs potentials :math:`f, g` that are close to the solution, so :math:`u, v` stay near 1
and each half-step is one product of a matrix with a vector. Potentials start from the exact
solution for Gaussian rows with the same covariance :math:`S`, with
:math:`C = (S + \varepsilon^2/16)^{1/2} - \varepsilon/4`:

.. math:: g(z) = z'(I - C)z, \qquad f(x) = x'(I - (C + \varepsilon/2)^{-1})x .

The fixed point in :math:`\log u` is accelerated by Anderson mixing; whenever the scalings leave
the safe range they are absorbed by one exact half-step in the log domain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

from dfi._lines.base import Reference, blocks
from dfi._lines.choose import Quadrature
from dfi._parameters import argument, check, validated_fields
from dfi._scoring.jackknife import both_means
from dfi._scoring.kernel import CouplingKernel, entropic_scores, exponents
from dfi.transports.base import (
    FittedTransport,
    Layout,
    Transport,
    UnsuitableTransportError,
    jackknifed,
    refitted,
)
from dfi.transports.gaussian import Gaussian, LinearTransport
from dfi.warnings import TransportWarning, warn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._data.weights import Weights
    from dfi._scoring.line_shares import Attribution
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints, Plain

Real = TypeVar("Real", np.float32, np.float64)

KAPPA = ((0.1, 0.19), (0.5, 0.40), (1.0, 0.54), (2.0, 0.70), (5.0, 0.89))
"""The median effective sample size is at least about ``n kappa(epsilon)^d`` (measured)."""

REFUSED, DOUBTFUL = 30.0, 100.0
JACKKNIFE_TARGETS = 1024
BLOCK_ENTRIES = 2**22

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

SOLVER_ENTRIES = 2**19
MAX_ITERATIONS = 20_000


def kappa(epsilon: float) -> float:
    """Return the factor per dimension of the kernel's effective sample size."""
    grid, values = np.array(KAPPA).T
    return float(np.exp(np.interp(np.log(epsilon), np.log(grid), np.log(values))))


def epsilon_for(n: int, d: int, size: float) -> float | None:
    """Return the smallest epsilon (up to 5) with ``n kappa^d >= size``, rounded up, or None."""
    for epsilon in np.round(
        np.concatenate([np.arange(0.1, 2.0, 0.1), np.arange(2.0, 5.01, 0.5)]), 1
    ):
        if n * kappa(float(epsilon)) ** d >= size:
            return float(epsilon)
    return None


@dataclass(frozen=True)
class EntropicTransport(FittedTransport):
    """A solved entropic transport.

    ``linear`` standardises and, unless switched off, whitens the rows.
    """

    design: EntropicOT
    linear: LinearTransport
    kernel: CouplingKernel
    solution: Solution

    returns_rows: ClassVar[bool] = False

    @property
    def active(self) -> Ints:
        return self.linear.active

    @property
    def reference(self) -> Reference:
        return Reference.gaussian()

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        generator = np.random.default_rng(0) if generator is None else generator
        drawn = np.empty((len(matrix), self.n_latent))
        for part in blocks(len(matrix), BLOCK_ENTRIES // len(self.kernel.targets)):
            cumulative = np.cumsum(self.kernel.forward(matrix[part]), axis=1)
            level = generator.random((len(cumulative), 1)) * cumulative[:, -1:]
            drawn[part] = self.kernel.targets[np.sum(cumulative < level, axis=1)]
        return drawn

    def decode(self, latent: Floats) -> Floats:
        mean = np.empty((len(latent), self.n_latent))
        for part in blocks(len(latent), BLOCK_ENTRIES // len(self.kernel.atoms)):
            mean[part] = self.kernel.backward(latent[part]) @ self.kernel.atoms
        return self.linear.decode(mean)

    def jacobian(self, latent: Floats) -> Floats:
        """Return the decoder's Jacobian (k, d, d): standardised feature ``l`` by latent ``j``."""
        d = self.n_latent
        products = (self.kernel.atoms[:, :, None] * self.kernel.atoms[:, None, :]).reshape(
            -1, d * d
        )
        result = np.empty((len(latent), d, d))
        for part in blocks(len(latent), BLOCK_ENTRIES // len(self.kernel.atoms)):
            alpha = self.kernel.backward(latent[part])
            mean = alpha @ self.kernel.atoms
            second = (alpha @ products).reshape(-1, d, d)
            covariance = second - mean[:, :, None] * mean[:, None, :]
            result[part] = (2.0 / self.kernel.epsilon) * (self.kernel.geometry.decoder @ covariance)
        return result

    def effective_sizes(self, latent: Floats, counts: Floats | None = None) -> Floats:
        r"""Return the kernel's effective sample size :math:`1/\sum_i \alpha_i(z)^2 / c_i`."""
        counts = np.ones(len(self.kernel.atoms)) if counts is None else np.maximum(counts, 1.0)
        sizes = np.empty(len(latent))
        for part in blocks(len(latent), BLOCK_ENTRIES // len(self.kernel.atoms)):
            sizes[part] = 1.0 / (self.kernel.backward(latent[part]) ** 2 @ (1.0 / counts))
        return sizes

    def fresh_error(self, count: int = 4096, seed: int = 20250101) -> float:
        """Return the summed error of the row margin against normal points not solved for."""
        points = normal_points(count, self.n_latent, np.random.SeedSequence(seed))
        total = np.zeros(len(self.kernel.atoms))
        for part in blocks(len(points), BLOCK_ENTRIES // len(self.kernel.atoms)):
            total += self.kernel.backward(points[part]).sum(axis=0)
        return float(np.abs(total / count - self.kernel.mass).sum())

    def without(self, keep: Ints, tol: float) -> EntropicTransport:
        """Return the transport solved again on some of the rows, from these potentials."""
        kernel = self.kernel
        mass = kernel.mass[keep] / kernel.mass[keep].sum()
        start = self.solution.rows[keep].copy(), self.solution.targets
        solution = solve(
            kernel.atoms[keep], kernel.targets, kernel.epsilon, mass=mass, tol=tol, start=start
        )
        rows, targets = solution.rows, solution.targets
        kept = replace(kernel, atoms=kernel.atoms[keep], mass=mass, rows=rows, columns=targets)
        return replace(self, kernel=kept, solution=solution)

    def diagnostics(self, owner: Ints) -> Plain:
        return self.linear.diagnostics(owner)

    def plain_scores(self, task: Task) -> Scores:
        n, d = self.kernel.atoms.shape
        weights = task.weights.take(task.fits.rows)
        counts = weights.values if weights.kind == "frequency" else None
        size = float(np.median(self.effective_sizes(self.kernel.targets, counts)))
        if self.design.split:
            size /= 2.0
        if size < self.design.min_size:
            raise UnsuitableTransportError(
                too_small_message(size, self.design.min_size, n, d, self.kernel.epsilon)
            )
        if size < DOUBTFUL:
            warn(
                too_small_message(size, DOUBTFUL, n, d, self.kernel.epsilon)
                + ". Attributed scores may be off by more than a tenth",
                TransportWarning,
            )
        scores = self._by_kernel(task, task.fits.rows)
        told = {
            **scores.diagnostics,
            "effective_sample_size": size,
            "marginal_error": self.solution.error,
            "marginal_error_fresh": self.fresh_error(),
            "iterations": self.solution.iterations,
        }
        return replace(scores, diagnostics=told)

    def jackknife(self, scores: Scores, task: Task) -> Scores:
        design = self.design
        coarse = replace(design, n_targets=min(design.n_targets, JACKKNIFE_TARGETS))
        base = refitted(coarse, task, np.arange(len(task.fits.rows)), self)
        factors = None if scores.calibration is None else scores.calibration.factors
        task = replace(task, factors=factors)

        def rescore(refit: EntropicTransport | None, keep: Ints | None) -> Floats:
            rows = task.fits.rows if keep is None else task.fits.rows[keep]
            fitted = base if refit is None else refit
            return both_means(fitted._by_kernel(task, rows), task)

        return jackknifed(scores, task, task.child(0), coarse, self, rescore)

    def _by_kernel(self, task: Task, rows: Ints) -> Scores:
        """Score under the kernel whose atoms are these rows."""
        halves = [
            (self.without(part, self.design.tol).kernel, rows[part])
            for part in self.design.halves(len(rows))
        ]
        return entropic_scores(
            task, self.kernel, atom_rows=rows, halves=halves, slopes=self.by_slopes
        )


@validated_fields
@dataclass(kw_only=True)
class EntropicOT(Transport):
    """Entropic optimal transport with ``N(0, I)``, solved by Sinkhorn's algorithm.

    Parameters
    ----------
    epsilon : float, default=1.0
        Weight of the entropy in the cost ``||x - z||^2 + epsilon KL``. It is part of the estimand.
    n_targets : int, default=4096
        Scrambled-Sobol normal points that stand for ``N(0, I)``.
    tol : float, default=1e-6
        Error of the row margin at which the solver stops.
    whiten : bool, default=True
        Whiten the rows first, so the cost is in the geometry of the linear transports; False
        standardises them only.
    split : bool, default=False
        Take products across the kernels of two halves of the rows, which removes what the noise
        of one kernel adds when it is squared. Needs twice the rows.
    min_size : float, default=30
        Refuse to score where the kernel's median effective sample size is below it.
    attribution : {"shares", "slopes"}, default="shares"
        What features receive of a latent score, as for :class:`Copula`.
    random_state : int, default=0
        Scrambling of the points, the halves, and the draws of ``transform``.

    Examples
    --------
    >>> X = dfi.datasets.m1(100, d=2).X
    >>> dfi.transports.EntropicOT(epsilon=1.0).fit(X).transform(X).shape
    (100, 2)
    """

    epsilon: float = 1.0
    n_targets: int = 4096
    tol: float = 1e-6
    whiten: bool = True
    split: bool = False
    min_size: float = REFUSED
    attribution: Attribution = "shares"
    random_state: int = 0

    any_loss: ClassVar[bool] = False
    name: ClassVar[str] = "entropic"
    straight: ClassVar[bool] = False

    def check_parameters(self) -> None:
        if not _positive(self.epsilon):
            raise ValueError(
                f"EntropicOT needs epsilon > 0, got {self.epsilon!r}; for epsilon = 0 use "
                f"{argument('transport', 'gaussian')}"
            )
        super().check_parameters()
        names = ("n_targets", "tol", "min_size", "random_state")
        check("EntropicOT", {name: getattr(self, name) for name in names})

    def check(self, *, transport_error: str, integration: Quadrature) -> None:
        super().check(transport_error=transport_error, integration=Quadrature())
        default = Quadrature()
        for name, value, unset in (
            ("rule", integration.rule, default.rule),
            ("nodes", integration.nodes, default.nodes),
            ("memory", integration.memory, default.memory),
        ):
            if value != unset:
                raise ValueError(
                    f"Quadrature({name}={value!r}) averages models along latent lines; "
                    f"transport='entropic' takes observed rows "
                    "instead: leave integration='auto'"
                )

    def fit_rows(self, matrix: Floats, weights: Weights, layout: Layout) -> EntropicTransport:
        whitening = Gaussian(reference="gaussian", components=None, covariance="sample")
        linear = whitening.by_column(matrix, weights, Layout(layout.constant))
        if not self.whiten:
            d = linear.n_latent
            identity = replace(
                linear.geometry,
                encoder=np.eye(d),
                decoder=np.eye(d),
                null=np.zeros((d, 0)),
                vectors=np.eye(d),
                values=np.ones(d),
            )
            linear = replace(linear, geometry=identity)
        atoms = linear.encode(matrix)
        mass = weights.shares
        seed = np.random.SeedSequence(self.random_state)
        targets = normal_points(self.n_targets, linear.n_latent, seed)
        try:
            solution = solve(atoms, targets, self.epsilon, mass=mass, tol=self.tol)
        except RuntimeError as error:
            raise UnsuitableTransportError(str(error)) from None
        kernel = CouplingKernel(
            linear.geometry, self.epsilon, atoms, mass, targets, solution.rows, solution.targets
        )
        return EntropicTransport(self, linear, kernel, solution)

    def halves(self, n: int) -> tuple[Ints, ...]:
        """Return the rows of the halves across which products are taken, if they are."""
        if not self.split:
            return ()
        order = np.random.default_rng([self.random_state, 1]).permutation(n)
        return np.sort(order[: n // 2]), np.sort(order[n // 2 :])

    def specification(self) -> Plain:
        return {
            "transport": "entropic",
            "transport_form": "solved by Sinkhorn's algorithm"
            + (", split halves" if self.split else ""),
            "epsilon": self.epsilon,
            "cost": "squared euclidean on "
            + ("whitened" if self.whiten else "standardised")
            + " features",
            "standardize": True,
            "attribution": self.attribution,
            "n_targets": self.n_targets,
            "tol": self.tol,
        }


def too_small_message(size: float, limit: float, n: int, d: int, epsilon: float) -> str:
    """Report that the kernel averages over too few rows, and what would work."""
    enough = epsilon_for(n, d, limit)
    if enough is not None and enough > epsilon:
        remedy = f"epsilon = {enough:g} or more would do for {n} rows of {d} columns"
    else:
        remedy = f"no epsilon up to 5 would do for {n} rows of {d} columns"
    return (
        f"at epsilon = {epsilon:g} the entropic kernel averages over {size:.0f} rows in the "
        f"median, and needs {limit:.0f}: {remedy}; or use "
        f"{argument('transport', 'copula', 'knothe-rosenblatt', 'gaussian')}, which have no kernel "
        "to fill"
    )


def _positive(value: object) -> bool:
    return isinstance(value, int | float | np.number) and bool(0 < value < np.inf)


@dataclass(frozen=True)
class Solution:
    r"""Potentials of a solved problem, and the accuracy of the solution.

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


def _step(kernel: NDArray[Real], a: Floats, log_u: Floats) -> tuple[Floats, Floats]:
    """Return the logarithms of the row scaling after one iteration, and of the target scaling."""
    kind = kernel.dtype
    with np.errstate(all="ignore"):
        v = 1.0 / ((a * np.exp(log_u)).astype(kind) @ kernel).astype(float)
        product = (kernel @ (v / len(v)).astype(kind)).astype(float)
        return -np.log(product), np.log(v)


def _fill(
    kernel: NDArray[Real], rows: Floats, targets: Floats, f: Floats, g: Floats, epsilon: float
) -> None:
    """Fill the kernel, potentials absorbed; entries are kept off overflow and denormal numbers."""
    for part in blocks(len(rows), SOLVER_ENTRIES // len(targets)):
        block = exponents(rows[part], targets, f[part], g, epsilon)
        np.clip(block, -RANGE, RANGE, out=block)
        target = kernel[part]
        target[:] = block
        np.exp(target, out=target)


def _half_steps(
    rows: Floats, targets: Floats, a: Floats, f: Floats, epsilon: float
) -> tuple[Floats, Floats]:
    """Return the potentials after exact half-steps for the targets, then for the rows."""
    # a row without weight takes no part in the sum, but has its own potential
    log_a = np.log(np.maximum(a, 1e-300))
    f_next, g = np.empty(len(rows)), np.empty(len(targets))
    for part in blocks(len(targets), SOLVER_ENTRIES // len(rows)):
        g[part] = -epsilon * logsumexp(
            exponents(targets[part], rows, np.zeros(len(targets[part])), f, epsilon) + log_a, axis=1
        )
    for part in blocks(len(rows), SOLVER_ENTRIES // len(targets)):
        value = exponents(rows[part], targets, np.zeros(len(rows[part])), g, epsilon)
        f_next[part] = -epsilon * (logsumexp(value, axis=1) - np.log(len(targets)))
    return f_next, g


class _Anderson:
    """Anderson mixing of a fixed-point iteration, restarted where it stops helping."""

    def __init__(self) -> None:
        self.points: list[Floats] = []
        self.residuals: list[Floats] = []

    def shift(self, origin: Floats) -> None:
        self.points = [point - origin for point in self.points]

    def step(self, point: Floats, residual: Floats) -> Floats:
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
