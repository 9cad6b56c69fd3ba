r"""Regression functions whose every truth follows from one closed form.

Let :math:`X` and :math:`X'` be jointly Gaussian, each with correlation matrix :math:`R`, and
:math:`\operatorname{Cov}(X, X') = C`. Each function here knows

.. math:: K(R, C) = \operatorname{Cov}\{\mu(X), \mu(X')\} .

For two copies that are independent given what they share, this is the variance that the shared
part explains. Sharing features ``S`` gives :math:`C = R_{\cdot S} R_{SS}^{-1} R_{S \cdot}` and
:math:`K = \operatorname{Var} E[\mu \mid X_S]`. Sharing latent coordinates ``S``, with
:math:`x = B z`, gives :math:`C = s^2 B_{\cdot S} B_{\cdot S}'` and
:math:`K = \operatorname{Var} E[\mu \mid Z_S]`, where ``s`` is the correlation of an entropic bridge
(1 for a map).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from dfi._types import Floats


class Regression(Protocol):
    """A regression function with its covariance over pairs of Gaussian rows."""

    @property
    def active(self) -> tuple[int, ...]:
        """The columns that it depends on."""

    def __call__(self, X: Floats) -> Floats:
        """Return the regression of each row."""

    def covariance(self, correlation: Floats, cross: Floats) -> float:
        """Return ``K(R, C)``; both matrices are of the active columns only."""


@dataclass(frozen=True, eq=False)
class Linear:
    r""":math:`\mu(x) = \beta'x`, with :math:`K(R, C) = \beta' C \beta`."""

    beta: Floats

    @property
    def active(self) -> tuple[int, ...]:
        """The columns with a coefficient."""
        return tuple(int(k) for k in np.flatnonzero(self.beta))

    def __call__(self, X: Floats) -> Floats:
        """Return the regression of each row."""
        active = list(self.active)
        return np.asarray(np.asarray(X)[:, active] @ self.beta[active])

    def covariance(self, correlation: Floats, cross: Floats) -> float:
        """Return ``K(R, C)``."""
        del correlation
        beta = self.beta[list(self.active)]
        return float(beta @ cross @ beta)


@dataclass(frozen=True)
class TwoCosines:
    r""":math:`\mu(x) = 5\cos x_1 + 5\cos x_2`.

    :math:`E \cos U \cos V = e^{-1}\cosh\operatorname{Cov}(U, V)` for standard normal ``U``, ``V``,
    so :math:`K(R, C) = \frac{25}{e}\sum_{ik}\{\cosh C_{ik} - 1\}`.
    """

    active = (0, 1)

    def __call__(self, X: Floats) -> Floats:
        """Return the regression of each row."""
        return np.asarray(5.0 * np.cos(X[:, 0]) + 5.0 * np.cos(X[:, 1]))

    def covariance(self, correlation: Floats, cross: Floats) -> float:
        """Return ``K(R, C)``."""
        del correlation
        return float(25.0 / np.e * np.sum(np.cosh(cross) - 1.0))


@dataclass(frozen=True)
class PiecewiseProducts:
    r""":math:`\mu(x) = 1.5\,x_1 x_2 1\{x_3 > 0\} + x_4 x_5 1\{x_3 \le 0\}`.

    The blocks (1, 2), 3 and (4, 5) are independent.

    With :math:`p = P(X_3 > 0, X_3' > 0) = \frac14 + \frac{\arcsin C_{33}}{2\pi}` and
    :math:`q_{12} = E[X_1 X_2 X_1' X_2'] = R_{12}^2 + C_{11}C_{22} + C_{12}C_{21}`,

    .. math:: K = 2.25\,p\,q_{12} + p\,q_{45} + 3(\tfrac12 - p) R_{12} R_{45}
                  - (0.75 R_{12} + 0.5 R_{45})^2 .
    """

    active = (0, 1, 2, 3, 4)

    def __call__(self, X: Floats) -> Floats:
        """Return the regression of each row."""
        upper = X[:, 2] > 0
        return np.asarray(np.where(upper, 1.5 * X[:, 0] * X[:, 1], X[:, 3] * X[:, 4]))

    def covariance(self, correlation: Floats, cross: Floats) -> float:
        """Return ``K(R, C)``."""
        both = 0.25 + np.arcsin(np.clip(cross[2, 2], -1.0, 1.0)) / (2.0 * np.pi)
        first, last = correlation[0, 1], correlation[3, 4]

        def fourth(j: int, k: int) -> float:
            pairs = cross[j, j] * cross[k, k] + cross[j, k] * cross[k, j]
            return float(correlation[j, k] ** 2 + pairs)

        second_moment = (
            2.25 * both * fourth(0, 1) + both * fourth(3, 4) + 3.0 * (0.5 - both) * first * last
        )
        return float(second_moment - (0.75 * first + 0.5 * last) ** 2)


@dataclass(frozen=True)
class Exponential:
    r""":math:`\mu(x) = e^{b(x_1 + x_2 + x_3)}`, with
    :math:`K(R, C) = e^{b^2 1'R1}(e^{b^2 1'C1} - 1)`.
    """  # noqa: D205

    strength: float
    active = (0, 1, 2)

    def __call__(self, X: Floats) -> Floats:
        """Return the regression of each row."""
        return np.asarray(np.exp(self.strength * X[:, :3].sum(axis=1)))

    def covariance(self, correlation: Floats, cross: Floats) -> float:
        """Return ``K(R, C)``."""
        square = self.strength**2
        return float(np.exp(square * correlation.sum()) * np.expm1(square * cross.sum()))
