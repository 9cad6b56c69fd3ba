r"""Any model: deterministic quadrature along the lines, batched to a memory bound.

Three rules replace the law of ``t`` by ``m`` nodes:

``"equal"``
    Equal-probability nodes :math:`F^{-1}((k + 1/2)/m)` with the law's own mean and variance.
    Robust where the model jumps (trees, thresholds) and exact where it is quadratic. A normal law's
    nodes are stretched to its variance. Those of an empirical law stay at its values, since a model
    may jump there, and are weighted for it; a law of at most ``m`` values is summed exactly.
``"gauss"``
    The Gauss rule of the law itself (Gauss-Hermite for a normal law, the Gauss rule of the
    empirical measure otherwise): spectral accuracy where the model is smooth.
``"draws"``
    Independent draws, the paper's ``m = 50``. Averaging draws before squaring adds ``Var/m`` to a
    LOCO-type score, so this rule is for reproducing published numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import linalg, stats
from scipy.special import roots_hermitenorm

from dfi._lines.base import ROUNDING, LineMoments, Lines, Reference, blocks
from dfi._models.predictor import refuse_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._types import Floats

QuadratureRule = Literal["equal", "gauss", "draws"]
DEFAULT_NODES: dict[QuadratureRule, int] = {"equal": 32, "gauss": 16, "draws": 50}
DEFAULT_MEMORY = 256 * 2**20
MIN_WEIGHTED = 6
MIN_FACTOR = 0.25
"""Nodes of an empirical law whose weights would change by more are stretched instead."""


def equal_nodes(reference: Reference, j: int, m: int) -> tuple[Floats, Floats]:
    """Return ``m`` equal-probability nodes of coordinate ``j`` with its mean and variance."""
    levels = (np.arange(m) + 0.5) / m
    if reference.values is None:
        return _stretched(stats.norm.ppf(levels), 0.0, 1.0), np.full(m, 1.0 / m)
    atoms, mass = reference.atoms(j)
    if len(atoms) <= m:
        return atoms, mass
    nodes, counts = np.unique(_quantiles(atoms, mass, levels), return_counts=True)
    weights = _weighted(nodes, counts / m, *_moments(atoms, mass))
    return (
        (spread_nodes(reference, j, m), np.full(m, 1 / m)) if weights is None else (nodes, weights)
    )


def spread_nodes(reference: Reference, j: int, m: int) -> Floats:
    """Return ``m`` nodes of equal weight between an empirical law's values, moments kept."""
    atoms, mass = reference.atoms(j)
    nodes = _quantiles(atoms, mass, (np.arange(m) + 0.5) / m)
    return _stretched(nodes, *_moments(atoms, mass))


def _quantiles(atoms: Floats, mass: Floats, levels: Floats) -> Floats:
    # a level that equals a cumulative probability up to rounding belongs to the value below
    place = np.searchsorted(np.cumsum(mass), levels - ROUNDING)
    return np.asarray(atoms[np.minimum(place, len(atoms) - 1)])


def _moments(atoms: Floats, mass: Floats) -> tuple[float, float]:
    mean = float(mass @ atoms)
    return mean, float(np.sqrt(mass @ (atoms - mean) ** 2))


def _stretched(nodes: Floats, mean: float, deviation: float) -> Floats:
    """Move nodes of equal weight to a mean and a standard deviation."""
    spread = nodes.std()
    nodes = nodes - nodes.mean()
    if spread > 0:
        nodes = nodes * (deviation / spread)
    return np.asarray(nodes + mean)


def _weighted(nodes: Floats, shares: Floats, mean: float, deviation: float) -> Floats | None:
    """Return shares times the quadratic that gives them a mean and variance, None if far from 1."""
    if len(nodes) < MIN_WEIGHTED:
        return None
    powers = np.vander((nodes - mean) / deviation, 3, increasing=True)
    factor = powers @ np.linalg.solve((powers * shares[:, None]).T @ powers, [1.0, 0.0, 1.0])
    return shares * factor if factor.min() >= MIN_FACTOR else None


MOST_BY_NUMPY = 256
"""Nodes of a Gauss rule of the normal law by numpy, whose weights overflow above 370."""


def gauss_nodes(reference: Reference, j: int, m: int) -> tuple[Floats, Floats]:
    """Return the ``m``-point Gauss rule of coordinate ``j``."""
    if reference.values is None:
        rule = np.polynomial.hermite_e.hermegauss if m <= MOST_BY_NUMPY else roots_hermitenorm
        nodes, weights = rule(m)
        return nodes, weights / weights.sum()
    atoms, mass = reference.atoms(j)
    return (atoms, mass) if len(atoms) <= m else Lanczos(atoms, mass).rule(m)


class Lanczos:
    """The Gauss rules of a law of atoms.

    By the Lanczos process on the atoms and the eigenvalues of the Jacobi matrix (Golub and Welsch).
    A larger rule goes on where a smaller one ended. Vectors are not orthogonalised again: what
    rounding leaves are rules of the same law with some nodes twice and nearly equal, which are as
    accurate (Greenbaum).
    """

    def __init__(self, atoms: Floats, mass: Floats) -> None:
        self.atoms = atoms
        self.before, self.vector = np.zeros_like(mass), np.sqrt(mass)
        self.diagonal: list[float] = []
        self.off_diagonal: list[float] = []

    def rule(self, m: int) -> tuple[Floats, Floats]:
        """Return nodes and weights of the ``m``-point rule, of fewer points than the law has."""
        while len(self.diagonal) < m:
            self._extend()
        nodes, vectors = linalg.eigh_tridiagonal(self.diagonal[:m], self.off_diagonal[: m - 1])
        return nodes, vectors[0] ** 2

    def _extend(self) -> None:
        step = self.atoms * self.vector
        if self.off_diagonal:
            step -= self.off_diagonal[-1] * self.before
        middle = float(step @ self.vector)
        step -= middle * self.vector
        size = float(np.linalg.norm(step))
        self.diagonal.append(middle)
        self.off_diagonal.append(size)
        self.before, self.vector = self.vector, step / size if size > 0 else step


@dataclass(frozen=True)
class QuadratureLines:
    """A model known only by its predictions; ``seed`` is for ``"draws"`` only."""

    function: Callable[[Floats], Floats]
    quadrature: QuadratureRule = "equal"
    n_nodes: int | None = None
    memory: int = DEFAULT_MEMORY
    seed: np.random.SeedSequence | None = None

    @property
    def nodes(self) -> int:
        return DEFAULT_NODES[self.quadrature] if self.n_nodes is None else self.n_nodes

    @property
    def rule(self) -> str:
        names = {
            "equal": "equal-probability nodes",
            "gauss": "Gauss nodes",
            "draws": "random draws",
        }
        return f"quadrature ({self.nodes} {names[self.quadrature]})"

    def predict(self, points: Floats) -> Floats:
        step = self._rows_at_once(points.shape[1])
        values = self.function(points[:step])
        refuse_batches(self.function, points[:step], values)
        if len(points) <= step:
            return values
        rest = [self.function(points[step:][part]) for part in blocks(len(points) - step, step)]
        return np.concatenate([values, *rest])

    def _rows_at_once(self, n_columns: int) -> int:
        # The rows, the model's copy of them (it may write into it) and what it makes of that.
        return max(1, int(self.memory / (3 * 8 * max(n_columns, 1))))

    def moments(self, lines: Lines) -> LineMoments:
        n, d = lines.latent.shape
        q = len(lines.offsets)
        mean, hermite = np.empty((q, n, d)), np.empty((q, n, d))
        rows = max(1, self._rows_at_once(lines.points.shape[1]) // self.nodes)
        # A model pays for every call: where rows are few, many directions share one.
        together = max(1, rows // max(n, 1))
        # Most coordinates have no random part: their lines are the same at every offset.
        repeats = lines.offsets == lines.offsets[0]
        repeats[0] = False
        directions = [(j, k) for j in range(d) for k in range(q) if not repeats[k, j]]
        rules = self._rules(lines.reference, d)
        for first in range(0, len(directions), together):
            chosen = directions[first : first + together]
            for part in blocks(n, rows):
                nodes = [rules[j](part.stop - part.start) for j, _ in chosen]
                batch = np.concatenate(
                    [
                        _along(lines.take(part), j, k, t)
                        for (j, k), (t, _) in zip(chosen, nodes, strict=True)
                    ]
                )
                found = self.function(batch)
                if first == part.start == 0:
                    refuse_batches(self.function, batch, found)
                values = np.split(found, np.cumsum([t.size for t, _ in nodes])[:-1])
                for (j, k), (t, weight), value in zip(chosen, nodes, values, strict=True):
                    weighted = value.reshape(t.shape) * weight
                    mean[k, part, j] = weighted.sum(axis=1)
                    hermite[k, part, j] = (weighted * t).sum(axis=1)
        for k, j in np.argwhere(repeats):
            for moment in (mean, hermite):
                moment[k, :, j] = moment[0, :, j]
        return LineMoments(mean, hermite)

    def _rules(self, reference: Reference, d: int) -> list[Callable[[int], tuple[Floats, Floats]]]:
        """Return for each coordinate a function for nodes and weights, both (n_rows, nodes)."""
        if self.quadrature == "draws":
            seeds = [None] * d if self.seed is None else self.seed.spawn(d)
            return [
                partial(_draws, reference, j, self.nodes, np.random.default_rng(seed))
                for j, seed in enumerate(seeds)
            ]
        rule = gauss_nodes if self.quadrature == "gauss" else equal_nodes
        return [partial(_repeated, *reference.kept(rule, j, self.nodes)) for j in range(d)]


def _along(lines: Lines, j: int, k: int, t: Floats) -> Floats:
    """Return the rows with latent coordinate ``j`` replaced by each of ``t``, (rows * nodes, p)."""
    shift = t - (lines.latent[:, j] + lines.offsets[k, j])[:, None]
    # A row's own value is a node of an empirical law: rounding must not move the row from there.
    shift = np.where(np.abs(shift) <= ROUNDING * np.abs(t).max(), 0.0, shift)
    moved = lines.points[:, None, :] + shift[:, :, None] * lines.directions[:, j]
    return np.asarray(moved.reshape(-1, lines.points.shape[1]))


def _repeated(nodes: Floats, weights: Floats, n_rows: int) -> tuple[Floats, Floats]:
    return np.broadcast_to(nodes, (n_rows, len(nodes))), weights[None, :]


def _draws(
    reference: Reference, j: int, m: int, generator: np.random.Generator, n_rows: int
) -> tuple[Floats, Floats]:
    shape = (n_rows, m)
    if reference.values is None or reference.cumulative is None:
        t = generator.standard_normal(shape)
    else:
        # searchsorted on the cumulative law draws atoms with their (weighted) mass
        atom = np.searchsorted(reference.cumulative[:, j], generator.random(shape))
        t = reference.values[np.minimum(atom, len(reference.values) - 1), j]
    return t, np.full((1, m), 1.0 / m)
