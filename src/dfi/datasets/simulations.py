r"""The paper's simulation models with their known truths.

==== ===================================================================================
M1   ``Y = 5 X1 + e``; ten Gaussian features, ``corr(X1, X2) = rho``
M2   ``Y = 5 cos X1 + 5 cos X2 + e``; the features of M1
M3   ``Y = 1.5 X1 X2 1{X3 > 0} + X4 X5 1{X3 < 0} + e``; ``corr(X1, X2) = corr(X4, X5) = rho``
M4   ``Y = 5 X1 + e``, ``X2 = 3 X1^2 + d``; dependent, but uncorrelated
exp  ``Y = exp(b (X1 + X2 + X3)) + e``; equicorrelated, every order of interaction
==== ===================================================================================

Every truth of a regression function follows from one closed form. Let :math:`X` and :math:`X'` be
jointly Gaussian, each with correlation matrix :math:`R`, and
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

from dfi._parameters import validated

if TYPE_CHECKING:
    from dfi._types import Floats


class Regression(Protocol):
    """A regression function with its covariance over pairs of Gaussian rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dfi.datasets import m1
    >>> regression = m1(10, d=3).regression
    >>> regression.active
    (0,)
    >>> regression(np.array([[2.0, 0.0, 0.0]]))
    array([10.])
    """

    @property
    def active(self) -> tuple[int, ...]:
        """The columns that it depends on."""

    def __call__(self, X: Floats) -> Floats:
        """Return the regression of each row."""

    def covariance(self, correlation: Floats, cross: Floats) -> float:
        """Return ``K(R, C)``; both matrices are of the active columns only."""


@dataclass(frozen=True, eq=False)
class Linear:
    r""":math:`\mu(x) = \beta'x`, with :math:`K(R, C) = \beta' C \beta`.

    Parameters
    ----------
    beta : ndarray of shape (d,)
        The coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from dfi.datasets import Linear
    >>> Linear(np.array([1.0, 0.0, 2.0]))(np.array([[3.0, 9.0, 0.5]]))
    array([4.])
    """

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
        return np.asarray(np.exp(self.strength * X[:, :3].sum(axis=1)))

    def covariance(self, correlation: Floats, cross: Floats) -> float:
        """Return ``K(R, C)``."""
        square = self.strength**2
        return float(np.exp(square * correlation.sum()) * np.expm1(square * cross.sum()))


@dataclass(frozen=True)
class Simulation:
    """A sample with its regression function and its true scores.

    Attributes
    ----------
    X, y : ndarray
        The sample.
    regression : Regression
        The true regression function of ``X``.
    latent, attributed : ndarray of shape (d,)
        Population scores of every column under the default transport, in both spaces.
    noise : float
        Variance of the outcome given the features.
    correlation : ndarray of shape (d, d) or None
        Correlation matrix of the features; None where they are not Gaussian.

    Examples
    --------
    >>> from dfi.datasets import m1
    >>> sample = m1(500, rho=0.8, d=3)
    >>> sample.attributed.round(6)
    array([17.,  8.,  0.])
    >>> sample.latent.round(6)
    array([20.,  5.,  0.])
    """

    X: Floats
    y: Floats
    regression: Regression
    latent: Floats
    attributed: Floats
    noise: float
    correlation: Floats | None = None


def symmetric_root(correlation: Floats) -> Floats:
    """Return the symmetric positive square root."""
    values, vectors = np.linalg.eigh(correlation)
    return np.asarray((vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T)


def correlated_gaussian(correlation: Floats, n: int, generator: np.random.Generator) -> Floats:
    root = symmetric_root(correlation)
    return np.asarray(generator.standard_normal((n, len(correlation))) @ root)


@validated
def linear_truth(correlation: Floats, beta: Floats) -> tuple[Floats, Floats]:
    r"""Return latent and attributed scores of a Gaussian linear model (Genizi's decomposition).

    :math:`\phi_Z = (L\beta)^2` and :math:`\phi_X = (L \circ L)\,\phi_Z` with :math:`L = R^{1/2}`.

    Parameters
    ----------
    correlation : ndarray of shape (d, d)
        Correlations of the features.
    beta : ndarray of shape (d,)
        Coefficients of the standardised features.

    Returns
    -------
    latent, attributed : ndarray of shape (d,)
        The scores in both spaces.

    Examples
    --------
    >>> correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    >>> latent, attributed = dfi.datasets.linear_truth(correlation, np.array([5.0, 0.0]))
    >>> latent.round(6), attributed.round(6)
    (array([20.,  5.]), array([17.,  8.]))
    """
    root = symmetric_root(correlation)
    latent = (root @ beta) ** 2
    return latent, (root**2) @ latent


def gaussian_truth(correlation: Floats, regression: Regression) -> tuple[Floats, Floats]:
    r"""Return latent and attributed scores of Gaussian features under the default transport.

    With :math:`x = Lz` and :math:`K` of :mod:`dfi.datasets.simulations`,
    :math:`\phi_{Z_j} = K(R, R) - K(R, R - L_{\cdot j}L_{\cdot j}')` and
    :math:`\phi_X = (L \circ L)\,\phi_Z`.
    """
    root, active = symmetric_root(correlation), list(regression.active)
    R = correlation[np.ix_(active, active)]
    whole = regression.covariance(R, R)
    latent = np.array(
        [
            whole - regression.covariance(R, R - np.outer(column, column))
            for column in root[active].T
        ]
    )
    return latent, np.asarray(root**2 @ latent)


def pair_correlation(d: int, rho: float, *pairs: tuple[int, int]) -> Floats:
    """Return the identity with ``rho`` between the named pairs."""
    correlation = np.eye(d)
    for j, k in pairs:
        correlation[j, k] = correlation[k, j] = rho
    return correlation


def gaussian_simulation(
    n: int, correlation: Floats, regression: Regression, noise: float, random_state: int
) -> Simulation:
    """Return rows of ``N(0, correlation)``, outcomes with a noise variance, and their truth."""
    smallest = float(np.linalg.eigvalsh(correlation).min())
    if not smallest >= -1e-8:
        raise ValueError(
            f"rho = {correlation[0, 1]:g} makes no correlation matrix of {len(correlation)} "
            f"columns (its smallest eigenvalue is {smallest:.3g}): bring it closer to 0"
        )
    generator = np.random.default_rng(random_state)
    X = correlated_gaussian(correlation, n, generator)
    y = regression(X) + np.sqrt(noise) * generator.standard_normal(n)
    latent, attributed = gaussian_truth(correlation, regression)
    return Simulation(X, y, regression, latent, attributed, noise, correlation)


def first_times_five(d: int) -> Linear:
    """Return the regression ``5 x1``."""
    beta = np.zeros(d)
    beta[0] = 5.0
    return Linear(beta)


@validated
def m1(n: int = 2000, *, rho: float = 0.8, d: int = 10, random_state: int = 0) -> Simulation:
    """Linear Gaussian model, ``Y = 5 X1 + e``.

    Examples
    --------
    >>> sample = dfi.datasets.m1(100, rho=0.8, d=3)
    >>> sample.X.shape, sample.attributed.round(6)
    ((100, 3), array([17.,  8.,  0.]))
    """
    correlation = pair_correlation(d, rho, (0, 1))
    return gaussian_simulation(n, correlation, first_times_five(d), 1.0, random_state)


@validated
def m2(n: int = 2000, *, rho: float = 0.8, d: int = 10, random_state: int = 0) -> Simulation:
    """Nonlinear additive model; its latent regression is not additive once ``rho`` is not 0.

    Examples
    --------
    >>> dfi.datasets.m2(100, rho=0.0, d=3).attributed.round(2)
    array([4.99, 4.99, 0.  ])
    """
    correlation = pair_correlation(d, rho, (0, 1))
    return gaussian_simulation(n, correlation, TwoCosines(), 1.0, random_state)


@validated
def m3(n: int = 2000, *, rho: float = 0.8, random_state: int = 0) -> Simulation:
    r"""Piecewise interaction.

    Under the Gaussian transport :math:`\phi_1 = \phi_2 = \frac{9}{16}(\rho^2+2)`,
    :math:`\phi_3 = \frac{1}{16}(14\rho^2+13)`, :math:`\phi_4 = \phi_5 = \frac14(\rho^2+2)`, in both
    spaces. The paper's text and the attributed row of its table give half of that for the last
    two: an erratum.

    Parameters
    ----------
    rho : float, default=0.8
        Correlation of X1 and X2, and of X4 and X5.

    Examples
    --------
    >>> dfi.datasets.m3(100, rho=0.0).attributed.round(4)
    array([1.125 , 1.125 , 0.8125, 0.5   , 0.5   ])
    """
    correlation = pair_correlation(5, rho, (0, 1), (3, 4))
    return gaussian_simulation(n, correlation, PiecewiseProducts(), 0.4, random_state)


@validated
def m4(n: int = 2000, *, d: int = 10, random_state: int = 0) -> Simulation:
    r"""Dependent, uncorrelated features: linear whitening leaves ``X2 = 3 X1^2 + d`` dependent.

    Its scores are :math:`(25, 0, \ldots)` under linear whitening, and
    :math:`(25, \frac{36}{19} 25, 0, \ldots)` attributed under Knothe-Rosenblatt in column order.

    Returns
    -------
    Simulation
        The sample, its regression and its true scores under linear whitening.

    Examples
    --------
    >>> sample = dfi.datasets.m4(100, d=3)
    >>> sample.attributed, sample.correlation is None
    (array([25.,  0.,  0.]), True)
    """
    generator = np.random.default_rng(random_state)
    X = generator.standard_normal((n, d))
    X[:, 1] += 3.0 * X[:, 0] ** 2
    regression = first_times_five(d)
    y = regression(X) + generator.standard_normal(n)
    scores = regression.beta**2  # uncorrelated columns, and X1 has variance 1
    return Simulation(X, y, regression, scores, scores, 1.0)


@validated
def exponential(
    n: int = 2000, *, rho: float = 0.5, strength: float = 0.3, random_state: int = 0
) -> Simulation:
    r"""Exponential interaction of three equicorrelated features.

    :math:`\eta(z) = e^{a'z}` with :math:`a = L b`, so
    :math:`\phi_{Z_j} = e^{2\sum_{k \ne j} a_k^2}\, e^{a_j^2} (e^{a_j^2} - 1)` in closed form. It is
    neither additive nor bilinear: the hardest case for the transport's sensitivity ``G``.

    Parameters
    ----------
    rho : float, default=0.5
        Correlation of every pair.
    strength : float, default=0.3
        Coefficient of each feature in the exponent.

    Examples
    --------
    >>> dfi.datasets.exponential(100).attributed.round(3)
    array([0.485, 0.485, 0.485])
    """
    correlation = np.full((3, 3), rho)
    np.fill_diagonal(correlation, 1.0)
    return gaussian_simulation(n, correlation, Exponential(strength), 0.25, random_state)
