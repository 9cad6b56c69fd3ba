r"""Entropic optimal transport, solved: the coupling kernel itself, not a linear stand-in.

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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dfi._lines.base import Reference
from dfi._lines.choose import LineOptions
from dfi._scoring.kernel import entropic_scores
from dfi.transports.base import (
    FittedTransport,
    Transport,
    UnsuitableTransportError,
    both_means,
    jackknifed,
)
from dfi.transports.gaussian import Gaussian, LinearTransport
from dfi.transports.sinkhorn import Solution, exponents, normal_points, solve
from dfi.warnings import TransportWarning, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dfi._data.columns import Column
    from dfi._data.weights import Weights
    from dfi._scoring.scores import Scores, Task
    from dfi._types import Bools, Floats, Ints

KAPPA = ((0.1, 0.19), (0.5, 0.40), (1.0, 0.54), (2.0, 0.70), (5.0, 0.89))
"""The median effective sample size is at least about ``n kappa(epsilon)^d`` (measured)."""

REFUSED, DOUBTFUL = 30.0, 100.0
JACKKNIFE_TARGETS = 1024
BLOCK_ENTRIES = 2**22


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

    ``linear`` standardises and, unless switched off, whitens the rows: the ``atoms``, of shares
    ``mass``. ``targets`` (m, d) are the normal points of the problem.
    """

    design: EntropicOT
    linear: LinearTransport
    epsilon: float
    atoms: Floats
    mass: Floats
    targets: Floats
    solution: Solution

    returns_rows: ClassVar[bool] = False

    @property
    def active(self) -> Ints:
        """The columns that vary."""
        return self.linear.active

    @property
    def reference(self) -> Reference:
        """The law of a replacement latent coordinate."""
        return Reference.gaussian()

    @cached_property
    def log_weights(self) -> Floats:
        """The part of the logarithm of ``alpha_i(z)`` that does not depend on ``z``."""
        with np.errstate(divide="ignore"):
            return self.solution.rows / self.epsilon + np.log(self.mass)

    def _blocks(self, count: int, width: int) -> Iterator[slice]:
        step = max(1, BLOCK_ENTRIES // width)
        for start in range(0, count, step):
            yield slice(start, min(start + step, count))

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
        rows = self.linear.encode(matrix)
        value = exponents(
            rows, self.targets, np.zeros(len(rows)), self.solution.targets, self.epsilon
        )
        return _softmax(value)

    def encode(self, matrix: Floats, generator: np.random.Generator | None = None) -> Floats:
        """Return one draw of the latent row given each row."""
        generator = np.random.default_rng(0) if generator is None else generator
        drawn = np.empty((len(matrix), self.n_latent))
        for part in self._blocks(len(matrix), len(self.targets)):
            cumulative = np.cumsum(self.forward(matrix[part]), axis=1)
            level = generator.random((len(cumulative), 1)) * cumulative[:, -1:]
            drawn[part] = self.targets[np.sum(cumulative < level, axis=1)]
        return drawn

    def decode(self, latent: Floats) -> Floats:
        """Return the barycentric projection ``E[X | Z = z]`` as rows of the numeric matrix."""
        mean = np.empty((len(latent), self.n_latent))
        for part in self._blocks(len(latent), len(self.atoms)):
            mean[part] = self.backward(latent[part]) @ self.atoms
        return self.linear.decode(mean)

    def jacobian(self, latent: Floats) -> Floats:
        """Return the decoder's Jacobian (k, d, d): standardised feature ``l`` by latent ``j``."""
        d = self.n_latent
        products = (self.atoms[:, :, None] * self.atoms[:, None, :]).reshape(-1, d * d)
        result = np.empty((len(latent), d, d))
        for part in self._blocks(len(latent), len(self.atoms)):
            alpha = self.backward(latent[part])
            mean = alpha @ self.atoms
            second = (alpha @ products).reshape(-1, d, d)
            covariance = second - mean[:, :, None] * mean[:, None, :]
            result[part] = (2.0 / self.epsilon) * (self.linear.decoder @ covariance)
        return result

    def effective_sizes(self, latent: Floats, counts: Floats | None = None) -> Floats:
        r"""Return the kernel's effective sample size :math:`1/\sum_i \alpha_i(z)^2 / c_i`.

        A row that counts ``c`` times (once by default) is ``c`` rows of a ``c``-th of its weight.
        """
        counts = np.ones(len(self.atoms)) if counts is None else np.maximum(counts, 1.0)
        sizes = np.empty(len(latent))
        for part in self._blocks(len(latent), len(self.atoms)):
            sizes[part] = 1.0 / (self.backward(latent[part]) ** 2 @ (1.0 / counts))
        return sizes

    def fresh_error(self, count: int = 4096, seed: int = 20250101) -> float:
        """Return the summed error of the row margin against normal points not solved for."""
        points = normal_points(count, self.n_latent, np.random.SeedSequence(seed))
        total = np.zeros(len(self.atoms))
        for part in self._blocks(len(points), len(self.atoms)):
            total += self.backward(points[part]).sum(axis=0)
        return float(np.abs(total / count - self.mass).sum())

    def without(self, keep: Ints, tol: float) -> EntropicTransport:
        """Return the transport solved again on some of the rows, from these potentials."""
        mass = self.mass[keep] / self.mass[keep].sum()
        start = self.solution.rows[keep].copy(), self.solution.targets
        solution = solve(
            self.atoms[keep], self.targets, self.epsilon, mass=mass, tol=tol, start=start
        )
        return replace(self, atoms=self.atoms[keep], mass=mass, solution=solution)

    def diagnostics(self, owner: Ints) -> dict[str, Any]:
        """Return what there is to say of the whitening."""
        return self.linear.diagnostics(owner)

    def plain_scores(self, task: Task) -> Scores:
        """Score by kernel averages; refused where the kernel sees too few rows."""
        n, d = self.atoms.shape
        weights = task.weights.take(task.rows)
        counts = weights.values if weights.kind == "frequency" else None
        size = float(np.median(self.effective_sizes(self.targets, counts)))
        if self.design.split:
            size /= 2.0
        if size < self.design.min_size:
            raise UnsuitableTransportError(
                too_small_message(size, self.design.min_size, n, d, self.epsilon)
            )
        if size < DOUBTFUL:
            warn(
                too_small_message(size, DOUBTFUL, n, d, self.epsilon)
                + ". Attributed scores may be off by more than a tenth",
                TransportWarning,
            )
        scores = self._by_kernel(task, task.rows)
        told = {
            **scores.diagnostics,
            "effective_sample_size": size,
            "marginal_error": self.solution.error,
            "marginal_error_fresh": self.fresh_error(),
            "iterations": self.solution.iterations,
        }
        return replace(scores, diagnostics=told)

    def jackknife(self, scores: Scores, task: Task) -> Scores:
        """Compare refits against fewer points."""
        design = self.design
        coarse = replace(design, n_targets=min(design.n_targets, JACKKNIFE_TARGETS))
        base = task.fit(coarse, np.arange(len(task.rows)))

        def rescore(keep: Ints | None) -> Floats:
            rows = task.rows if keep is None else task.rows[keep]
            fitted = base if keep is None else task.fit(coarse, keep)
            return both_means(fitted._by_kernel(task, rows), task)

        return jackknifed(scores, task, task.child(0), rescore)

    def _by_kernel(self, task: Task, rows: Ints) -> Scores:
        """Score under the kernel whose atoms are these rows."""
        halves = [
            (self.without(part, self.design.tol), rows[part])
            for part in self.design.halves(len(rows))
        ]
        return entropic_scores(task, self, atom_rows=rows, halves=halves)


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
        Whiten the rows first, so that the cost is in the geometry of the linear transports; False
        standardises them only.
    split : bool, default=False
        Take products across the kernels of two halves of the rows, which removes what the noise
        of one kernel adds when it is squared. Needs twice the rows.
    min_size : float, default=30
        Refuse to score where the kernel's median effective sample size is below it.
    random_state : int, default=0
        Scrambling of the points, the halves, and the draws of ``transform``.
    """

    epsilon: float = 1.0
    n_targets: int = 4096
    tol: float = 1e-6
    whiten: bool = True
    split: bool = False
    min_size: float = REFUSED
    random_state: int = 0

    name: ClassVar[str] = "entropic"
    straight: ClassVar[bool] = False

    def check_parameters(self) -> None:
        """Refuse parameters that no transport can have."""
        if not _positive(self.epsilon):
            raise ValueError(
                f"EntropicOT needs epsilon > 0, got {self.epsilon!r}; "
                "for epsilon = 0 use transport='gaussian'"
            )
        if not isinstance(self.n_targets, int | np.integer) or self.n_targets < 2:
            raise ValueError(
                f"n_targets must be a whole number of 2 or more, got {self.n_targets!r}"
            )
        if not _positive(self.tol):
            raise ValueError(f"tol must be positive, got {self.tol!r}")
        if not _positive(self.min_size):
            raise ValueError(f"min_size must be a positive number of rows, got {self.min_size!r}")
        if not isinstance(self.random_state, int | np.integer) or self.random_state < 0:
            raise ValueError(
                f"random_state must be a whole number of 0 or more, got {self.random_state!r}"
            )

    def check(self, *, G: str, options: LineOptions, fixed: bool) -> None:
        """Refuse all that is about lines, beside what any transport refuses."""
        super().check(G=G, options=LineOptions(), fixed=fixed)
        default = LineOptions()
        for name, value, unset in (
            ("lines", options.rule, default.rule),
            ("n_nodes", options.n_nodes, default.n_nodes),
            ("memory", options.memory, default.memory),
        ):
            if value != unset:
                raise ValueError(
                    f"{name}={value!r} is about models along latent lines; transport='entropic' "
                    f"averages them over observed rows instead: leave {name} at its default"
                )

    def fit_matrix(
        self,
        matrix: Floats,
        weights: Weights,
        constant: Bools,
        *,
        columns: Sequence[Column] | None = None,
        like: FittedTransport | None = None,
    ) -> EntropicTransport:
        """Solve the problem for the rows of a numeric matrix."""
        del columns, like
        whitening = Gaussian(reference="gaussian", components=None)
        linear = whitening.fit_matrix(matrix, weights, constant)
        if not self.whiten:
            d = linear.n_latent
            linear = replace(linear, eigenvectors=np.eye(d), eigenvalues=np.ones(d))
        atoms = linear.encode(matrix)
        mass = weights.values / weights.values.sum()
        seed = np.random.SeedSequence(self.random_state)
        targets = normal_points(self.n_targets, linear.n_latent, seed)
        try:
            solution = solve(atoms, targets, self.epsilon, mass=mass, tol=self.tol)
        except RuntimeError as error:
            raise UnsuitableTransportError(str(error)) from None
        return EntropicTransport(self, linear, self.epsilon, atoms, mass, targets, solution)

    def halves(self, n: int) -> tuple[Ints, ...]:
        """Return the rows of the halves across which products are taken, if they are."""
        if not self.split:
            return ()
        order = np.random.default_rng([self.random_state, 1]).permutation(n)
        return np.sort(order[: n // 2]), np.sort(order[n // 2 :])

    def specification(self) -> dict[str, Any]:
        """Return what the estimand depends on."""
        return {
            "transport": "entropic",
            "form": "solved by Sinkhorn's algorithm" + (", split halves" if self.split else ""),
            "epsilon": self.epsilon,
            "cost": "squared euclidean on "
            + ("whitened" if self.whiten else "standardised")
            + " features",
            "standardize": True,
            "n_targets": self.n_targets,
            "tol": self.tol,
        }


def too_small_message(size: float, limit: float, n: int, d: int, epsilon: float) -> str:
    """Say that the kernel sees too few rows, and what would work."""
    enough = epsilon_for(n, d, limit)
    if enough is not None and enough > epsilon:
        remedy = f"epsilon = {enough:g} or more would do for {n} rows of {d} columns"
    else:
        remedy = f"no epsilon up to 5 would do for {n} rows of {d} columns"
    return (
        f"at epsilon = {epsilon:g} the entropic kernel averages over {size:.0f} rows in the "
        f"median, and needs {limit:.0f}: {remedy}; or use transport='copula', "
        "'knothe-rosenblatt' or 'gaussian', which have no kernel to fill"
    )


def _positive(value: object) -> bool:
    return isinstance(value, int | float | np.number) and bool(0 < value < np.inf)


def _softmax(value: Floats) -> Floats:
    value -= value.max(axis=1, keepdims=True)
    np.exp(value, out=value)
    value /= value.sum(axis=1, keepdims=True)
    return value
