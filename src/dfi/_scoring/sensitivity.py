r"""How a line mean answers to a tilt of its line: the matrix ``G``, without further model calls.

Tilting line ``j`` towards ``k`` changes the score of ``j`` by twice

.. math:: G_{kj} = E\Big[h_j\, \frac{\partial m_j}{\partial z_k}\Big], \qquad
          h_j = E_t[t\,\eta(z^{(j)}(t))].

Two short cuts take it from the rows' line moments alone. With :math:`\bar h_j = E h_j`,
:math:`a_{lj} = E[z_l (h_j - \bar h_j)]` (:math:`a_{jj} = 0`) and :math:`q = z a`, the regression of
:math:`h` on :math:`z`:

========== ==================================================================== ====================
hermite    :math:`\bar h_j E[z_k m_j] + E[z_k q_j m_j]`, :math:`m_j` centred    exact where
                                                                                :math:`h_j` is
                                                                                linear in :math:`z`
covariance :math:`Cov(z_k h_j, m_j)`                                            exact for additive
                                                                                and bilinear
                                                                                :math:`\eta`
========== ==================================================================== ====================

Both integrate by parts, for normal latent rows. The first replaces :math:`h_j` by its linear part
before it does, the second drops :math:`Cov(m_j, \partial_k h_j)`. With two models ``h`` of one is
paired with ``m`` of the other, so that the models' own noise does not enter squared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from dfi._lines.base import LineMoments
    from dfi._types import Floats

Shortcut = Literal["hermite", "covariance"]


@dataclass(frozen=True)
class LatentRegression:
    r"""The linear part :math:`\bar h_j + \sum_l a_{lj} z_l` of a model's ``h``.

    Attributes
    ----------
    level : ndarray of shape (d,)
        :math:`\bar h`.
    slopes : ndarray of shape (d, d)
        ``a``, its diagonal 0.
    drift : ndarray of shape (d,)
        Change of part ``j`` per unit of the random part of coordinate ``j``, which the random
        parts of the others go with.
    """

    level: Floats
    slopes: Floats
    drift: Floats

    def __call__(self, latent: Floats, offsets: Floats) -> Floats:
        """Return the linear part at each node of the random kernel and row, (q, n, d)."""
        return np.asarray(
            (self.level + latent @ self.slopes)[None] + (offsets * self.drift)[:, None]
        )


@dataclass(frozen=True)
class _Block:
    r"""What the second pass of the Hermite short cut needs of a block of rows.

    ``powers[p][b]`` is the mean of :math:`\nu^p m` over the random kernel for model ``b``, (n, d).
    """

    latent: Floats
    mass: Floats
    powers: tuple[tuple[Floats, ...], ...]


class SensitivityMoments:
    """Sums over the rows of a fold, block by block, for ``G``.

    The Hermite short cut keeps the line means of all rows: it needs the regression of ``h`` on the
    latent rows before it can weigh them.
    """

    def __init__(self, d: int, shortcut: Shortcut) -> None:
        self.shortcut = shortcut
        self.mass = 0.0
        self.latent = np.zeros(d)
        self.stretched = np.zeros(d)
        self.n_models = 1
        self.hermite = np.zeros((2, d))
        self.tilted = np.zeros((2, d, d))
        self.mean = np.zeros((2, d))
        self.product = np.zeros((d, d))
        self.variance = np.zeros(d)
        self.loadings = np.zeros((d, d))
        self.blocks: list[_Block] = []

    def add(
        self,
        latent: Floats,
        mass: Floats,
        moments: tuple[LineMoments, LineMoments],
        weights: Floats,
        offsets: Floats,
        loadings: Floats,
    ) -> None:
        """Take in a block of rows; ``weights`` average over the nodes of the random kernel.

        At a node the random part of coordinate ``j`` is ``offsets[:, j]``, and that of ``k`` is
        on average ``loadings[k, j]`` times as large: both belong to ``z_k``.

        Parameters
        ----------
        moments : pair of LineMoments
            Of the two models, twice the same where there is one.
        """
        first, last = moments
        weighted = latent * mass[:, None]
        shifts = weights[:, None] * offsets

        def with_latent(values: Floats) -> Floats:
            found = weighted.T @ np.tensordot(weights, values, axes=1)
            return np.asarray(found + loadings * np.einsum("qj,i,qij->j", shifts, mass, values))

        self.mass += mass.sum()
        self.latent += mass @ latent
        self.stretched += mass @ np.tensordot(weights, first.hermite * last.hermite, axes=1)
        distinct = (first,) if first is last else (first, last)
        self.n_models = len(distinct)
        for b, model in enumerate(distinct):
            self.hermite[b] += mass @ np.tensordot(weights, model.hermite, axes=1)
            self.tilted[b] += with_latent(model.hermite)
            self.mean[b] += mass @ np.tensordot(weights, model.mean, axes=1)
        self.loadings = loadings
        if self.shortcut == "covariance":
            self.product += with_latent(
                0.5 * (first.hermite * last.mean + last.hermite * first.mean)
            )
            return
        self.variance = weights @ offsets**2
        orders = range(3 if self.variance.any() else 1)
        powers = tuple(
            tuple(
                np.einsum("qj,qij->ij", weights[:, None] * offsets**p, model.mean)
                for model in distinct
            )
            for p in orders
        )
        self.blocks.append(_Block(latent, mass, powers))

    def sensitivity(self) -> Floats:
        """Return ``G``."""
        models = self.n_models
        if self.shortcut == "covariance":
            tilted = self.tilted[:models].mean(axis=0) / self.mass
            level = self.mean[:models].mean(axis=0) / self.mass
            found = self.product / self.mass - tilted * level
        elif models == 1:
            found = self._hermite(0, 0)
        else:
            found = 0.5 * (self._hermite(0, 1) + self._hermite(1, 0))
        np.fill_diagonal(found, self.stretched / self.mass)
        return np.asarray(found)

    def regressions(self) -> tuple[LatentRegression, ...]:
        """Return the regression of each model's ``h`` on the latent rows."""
        return tuple(self._regression(b) for b in range(self.n_models))

    def _regression(self, b: int) -> LatentRegression:
        level = self.hermite[b] / self.mass
        slopes = self.tilted[b] / self.mass - np.outer(self.latent / self.mass, level)
        np.fill_diagonal(slopes, 0.0)
        return LatentRegression(level, slopes, np.sum(self.loadings * slopes, axis=0))

    def _hermite(self, h: int, m: int) -> Floats:
        """Return the Hermite short cut from ``h`` of one model and ``m`` of the other."""
        linear = self._regression(h)
        mean = self.mean[m] / self.mass
        # Given the random part nu of coordinate j, z_k is its own part plus loadings[k, j] nu, and
        # so is the regression of h_j: products of the three are polynomials in nu, whose
        # coefficients the blocks hold. What else is random in z is unrelated to m_j, which is
        # centred.
        found = np.zeros_like(linear.slopes)
        for block in self.blocks:
            regression = linear.level + block.latent @ linear.slopes
            centred = [block.powers[0][m] - mean]
            own = centred[0] * regression
            if len(block.powers) > 1:
                centred += [block.powers[1][m], block.powers[2][m] - mean * self.variance]
                own += centred[1] * linear.drift
                shifted = block.mass @ (centred[1] * regression + centred[2] * linear.drift)
                found += self.loadings * shifted
            found += (block.latent * block.mass[:, None]).T @ own
        return np.asarray(found / self.mass)


class HermiteCoefficients:
    """First and second Hermite coefficients of the latent regression, for the bridge's terms."""

    def __init__(self, d: int) -> None:
        self.mass = 0.0
        self.level = 0.0
        self.first = np.zeros(d)
        self.second = np.zeros((d, d))
        self.latent_first = np.zeros(d)
        self.latent_second = np.zeros((d, d))

    def add(self, latent: Floats, mass: Floats, value: Floats) -> None:
        """Take in values of the latent regression at latent rows."""
        weighted = mass * value
        self.mass += mass.sum()
        self.level += weighted.sum()
        self.first += weighted @ latent
        self.second += (latent * weighted[:, None]).T @ latent
        self.latent_first += mass @ latent
        self.latent_second += (latent * mass[:, None]).T @ latent

    def gradient(self) -> Floats:
        """Return the first coefficients; zero where nothing was taken in."""
        if self.mass == 0:
            return self.first
        # Covariances with the level taken out: an intercept must not enter through sampling noise.
        return (self.first - self.level / self.mass * self.latent_first) / self.mass

    def curvature(self) -> Floats:
        """Return the second coefficients; zero where nothing was taken in."""
        if self.mass == 0:
            return self.second
        return (self.second - self.level / self.mass * self.latent_second) / self.mass
