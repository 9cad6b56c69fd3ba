r"""A convex potential fitted by maximum likelihood: the map whose gradient makes rows normal.

On white rows ``x`` the map is :math:`z = \nabla\psi(x)` with

.. math:: \psi(x) = \tfrac{a}{2}|x|^2 + b'x + \sum_m s_m(r_m'x), \qquad
          s_m'' = \sum_k c_{mk}\, h_k \ge 0,

:math:`h_k` hat functions on evenly spaced knots, constant beyond the outermost. The Jacobian
:math:`H = \nabla^2\psi` is symmetric and positive definite, so coordinate ``j`` stays the one of
column ``j`` and the map is the optimal transport map between the law of the rows and that of
:math:`z` (Brenier). The loss

.. math:: E\big[\tfrac12|\nabla\psi|^2 - \log\det\nabla^2\psi\big]
          + \lambda \sum_{mk} (c_{m,k+1} - c_{mk})^2

is convex in :math:`(b, c)`, with one optimum; :math:`\lambda \to \infty` leaves quadratic
potentials alone, of which the identity is best on white rows: the map of :class:`Gaussian`. Any
order of the columns gives the same map: the directions :math:`r_m` are the axes and evenly spaced
angles in the planes of pairs of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._types import Floats

    Integers = NDArray[np.int32]

KNOTS, SPAN = 11, 2.6
"""Knots of each ridge function, and how far the outermost are from 0."""

FLOOR = 0.1
"""Least eigenvalue of the Jacobian: ``a``."""

ANGLES = {2: 8, 5: 4}
"""Angles of a quarter turn, for at most so many columns; 2 for more."""

MOST_OF_TRIPLES = 5
"""Columns of which any three have directions of their own."""

SPATIAL = np.array([(a, b * u, c * v) for a, b, c in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2))
                    for u in (1, -1) for v in (1, -1)], dtype=float)  # fmt: skip
SPATIAL /= np.linalg.norm(SPATIAL, axis=1, keepdims=True)

MOST_PAIRS = 45
"""Pairs of columns with directions of their own, all of 10; of more the most dependent."""

PENALTIES = (1.0, 0.1, 0.01, 0.001, 0.0001)

RIDGE = 1e-6
"""Penalty of coefficients away from the identity's: which of equal potentials is taken."""

ITERATIONS, AGAIN = 400, 20
"""Most iterations of a fit, and of one that starts from a fit to nearly the same rows."""


@dataclass(frozen=True)
class Ridges:
    """Directions: the ``weight`` (m, 3) of the coordinates ``place``, 0 for what is not needed."""

    place: Integers
    weight: Floats
    width: int

    @classmethod
    def of(cls, rows: Floats) -> Ridges:
        """Return the axes, angles in the planes of pairs, and of few columns those of triples."""
        d = rows.shape[1]
        one, other = np.triu_indices(d, 1)
        if len(one) > MOST_PAIRS:
            # the most dependent ones of many
            dependence = pair_dependence(rows)[one, other]
            kept = np.sort(np.argsort(-dependence, kind="stable")[:MOST_PAIRS])
            one, other = one[kept], other[kept]
        count = next((n for most, n in ANGLES.items() if d <= most), 2)
        angle = np.pi / (2 * count) * np.delete(np.arange(2 * count), [0, count])
        flat = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(len(angle))])
        places = [(k, k, k) for k in range(d)]
        weights = [np.array([[1.0, 0.0, 0.0]])] * d
        for a, b in zip(one.tolist(), other.tolist(), strict=True):
            places += [(a, b, b)] * len(flat)
            weights.append(flat)
        for triple in combinations(range(d), 3) if d <= MOST_OF_TRIPLES else ():
            places += [triple] * len(SPATIAL)
            weights.append(SPATIAL)
        return cls(
            np.array(places, dtype=np.int32).reshape(-1, 3),
            np.vstack([np.empty((0, 3)), *weights]),
            d,
        )

    @property
    def directions(self) -> Floats:
        """The directions as rows, (m, d)."""
        found = np.zeros((len(self.place), self.width))
        for k in range(3):
            np.add.at(found, (np.arange(len(found)), self.place[:, k]), self.weight[:, k])
        return found

    def identity(self) -> Floats:
        """Return coefficients (m, knots) under which the map is the identity."""
        d, square = self.width, self.directions**2
        load = square[d:].sum(axis=0)
        each = 0.5 * (1.0 - FLOOR) / max(1.0, float(load.max(initial=0.0)))
        weight = np.full(len(square), each)
        weight[:d] = 1.0 - FLOOR - each * load
        return np.repeat(weight[:, None], KNOTS, axis=1)


def pair_dependence(rows: Floats) -> Floats:
    """Return how strongly squares and values of white columns are correlated, (d, d)."""
    d = rows.shape[1]
    both = np.hstack([rows, rows**2])
    spread = both.std(axis=0)
    both = (both - both.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    correlation = np.abs(both.T @ both) / len(rows)
    mixed = correlation[:d, d:]
    return np.asarray(correlation[d:, d:] + mixed + mixed.T)


@dataclass(frozen=True)
class Potential:
    """A fitted potential: ``bend`` (m, knots) and ``shift`` (d,) are ``c`` and ``b``."""

    ridges: Ridges
    bend: Floats
    shift: Floats

    @property
    def _parameters(self) -> tuple[Integers, Floats, float, float, Floats, Floats, Floats, float]:
        from dfi._compiled import kernel_array

        return (
            self.ridges.place, self.ridges.weight, -SPAN, _step(),
            kernel_array(self.bend, np.float64), _levels(self.bend),
            kernel_array(self.shift, np.float64), FLOOR,
        )  # fmt: skip

    def gradient(self, rows: Floats) -> tuple[Floats, Floats]:
        r"""Return ``z`` of white rows, and :math:`|z|^2/2 - \log\det H` of each."""
        from dfi._compiled import kernel_array
        from dfi.transports.kernels_potential import potential_likelihood

        rows = kernel_array(rows, np.float64)
        latent, loss, none = np.empty_like(rows), np.empty(len(rows)), np.empty((0, KNOTS))
        mass = np.empty(0)
        potential_likelihood(rows, mass, *self._parameters, latent, loss, none, none)
        return latent, loss

    def inverse(self, latent: Floats) -> Floats:
        """Return the white rows that belong to latent rows."""
        from dfi._compiled import kernel_array
        from dfi.transports.kernels_potential import potential_inverse

        latent = kernel_array(latent, np.float64)
        rows = np.empty_like(latent)
        potential_inverse(latent, *self._parameters, rows)
        return rows

    def hessian(self, rows: Floats) -> Floats:
        """Return the Jacobian of the map at white rows, (n, d, d)."""
        directions, d = self.ridges.directions, rows.shape[1]
        knots = np.linspace(-SPAN, SPAN, KNOTS)
        along = rows @ directions.T
        curve = np.stack(
            [np.interp(along[:, m], knots, self.bend[m]) for m in range(len(directions))], axis=1
        )
        found = np.einsum("nm,ma,mb->nab", curve, directions, directions, optimize=True)
        return np.asarray(found + FLOOR * np.eye(d))


def _step() -> float:
    return 2.0 * SPAN / (KNOTS - 1)


def _levels(bend: Floats) -> Floats:
    """Return the first derivative of each ridge function at its knots, 0 at the middle one."""
    area = np.cumsum(0.5 * _step() * (bend[:, 1:] + bend[:, :-1]), axis=1)
    level = np.concatenate([np.zeros((len(bend), 1)), area], axis=1)
    return np.ascontiguousarray(level - level[:, [KNOTS // 2]])


def penalized_loss(
    rows: Floats, share: Floats, ridges: Ridges, penalty: float, shift: Floats, bend: Floats
) -> tuple[float, Floats, Floats]:
    """Return the penalized loss of weighted rows, and its derivatives by ``shift`` and ``bend``."""
    from dfi.transports.kernels_potential import potential_likelihood

    potential = Potential(ridges, bend, shift)
    latent, loss = np.empty_like(rows), np.empty(len(rows))
    on_bend, on_level = np.zeros((2, *bend.shape))
    potential_likelihood(rows, share, *potential._parameters, latent, loss, on_bend, on_level)
    # levels are integrals of the bends from the middle knot
    middle, half = KNOTS // 2, 0.5 * _step()
    above = np.cumsum(on_level[:, ::-1], axis=1)[:, ::-1][:, 1:]
    below = np.cumsum(on_level, axis=1)[:, :-1]
    cell = half * np.where(np.arange(KNOTS - 1) >= middle, above, -below)
    on_bend[:, :-1] += cell
    on_bend[:, 1:] += cell
    change, away = np.diff(bend, axis=1), bend - ridges.identity()
    on_bend[:, 1:] += 2.0 * penalty * change
    on_bend[:, :-1] -= 2.0 * penalty * change
    on_bend += 2.0 * RIDGE * away
    total = float(share @ loss + penalty * np.sum(change**2) + RIDGE * np.sum(away**2))
    return total, share @ latent, on_bend


def fit_potential(
    rows: Floats,
    mass: Floats,
    penalty: float,
    like: Potential | None = None,
    *,
    iterations: int = ITERATIONS,
) -> Potential:
    """Fit a potential to white rows, in the directions and from the coefficients of another."""
    from dfi._compiled import kernel_array

    rows, share = kernel_array(rows, np.float64), kernel_array(mass / mass.sum(), np.float64)
    if like is None:
        ridges = Ridges.of(rows)
        like = Potential(ridges, ridges.identity(), np.zeros(rows.shape[1]))
    ridges, d, shape = like.ridges, rows.shape[1], like.bend.shape
    if d == 0:
        return like

    def loss(values: Floats) -> tuple[float, Floats]:
        total, on_shift, on_bend = penalized_loss(
            rows, share, ridges, penalty, values[:d], np.maximum(values[d:], 0.0).reshape(shape)
        )
        return total, np.concatenate([on_shift, on_bend.ravel()])

    found = minimize(
        loss,
        np.concatenate([like.shift, like.bend.ravel()]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * d + [(0.0, None)] * like.bend.size,
        options={"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 20,
                 "ftol": 1e-10, "gtol": 1e-6},
    )  # fmt: skip
    return Potential(ridges, np.maximum(found.x[d:], 0.0).reshape(shape), found.x[:d])
