r"""The paper's simulation models with their known truths.

==== ===================================================================================
M1   ``Y = 5 X1 + e``; ten Gaussian features, ``corr(X1, X2) = rho``
M2   ``Y = 5 cos X1 + 5 cos X2 + e``; the features of M1
M3   ``Y = 1.5 X1 X2 1{X3 > 0} + X4 X5 1{X3 < 0} + e``; ``corr(X1, X2) = corr(X4, X5) = rho``
M4   ``Y = 5 X1 + e``, ``X2 = 3 X1^2 + d``; dependent, but uncorrelated
exp  ``Y = exp(b (X1 + X2 + X3)) + e``; equicorrelated, every order of interaction
==== ===================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi.datasets.regressions import Exponential, Linear, PiecewiseProducts, TwoCosines
from dfi.datasets.roots import symmetric_root
from dfi.datasets.square import SquarePopulation
from dfi.datasets.truths import GaussianPopulation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dfi.datasets.regressions import Regression
    from dfi.datasets.truths import Population, Space

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Simulation:
    """A sample with its regression function and its true scores.

    Attributes
    ----------
    X, y : ndarray
        The sample.
    regression : callable
        The true regression function of ``X``.
    population : Population or None
        The law of the sample, which knows its scores; None where nothing is known.

    Examples
    --------
    >>> from dfi.datasets import m1
    >>> sample = m1(500, rho=0.8, d=3)
    >>> sample.truth().round(6)
    array([17.,  8.,  0.])
    >>> sample.truth(transport="knothe-rosenblatt").round(6)
    array([25., 16.,  0.])
    >>> sample.comparator_truth("loco").round(6)
    array([9., 0., 0.])
    """

    X: Floats
    y: Floats
    regression: Callable[[Floats], Floats]
    population: Population | None = None

    @property
    def latent(self) -> Floats | None:
        """Latent scores under the Gaussian (Bures-Wasserstein) transport, where known."""
        return None if self.population is None else self.population.truth("latent")

    @property
    def attributed(self) -> Floats | None:
        """Attributed scores under the Gaussian (Bures-Wasserstein) transport, where known."""
        return None if self.population is None else self.population.truth("attributed")

    def truth(
        self,
        *,
        space: Space = "attributed",
        transport: str = "gaussian",
        epsilon: float = 0.0,
        order: Sequence[int] | None = None,
    ) -> Floats:
        """Return the population scores of every column, in closed form.

        Parameters
        ----------
        space : {"attributed", "latent"}, default="attributed"
            Of the features, or of the latent coordinates that belong to them.
        transport : str, default="gaussian"
            A transport's name: ``"gaussian"``, ``"entropic"``, ``"semicontinuous"``, ``"copula"``
            or ``"knothe-rosenblatt"``.
        epsilon : float, default=0.0
            Weight of the entropy: the exact bridge for ``"gaussian"`` and ``"entropic"``, the
            published form for ``"semicontinuous"``.
        order : sequence of int, optional
            Knothe-Rosenblatt only: the columns in the order of the map; their own by default.

        Returns
        -------
        ndarray of shape (d,)

        Raises
        ------
        ValueError
            Where no closed form is known; the message says for what one is.
        """
        return self._known().truth(space, transport, epsilon, order)

    def comparator_truth(self, name: str) -> Floats:
        """Return the population scores of another method.

        Parameters
        ----------
        name : {"loco", "cpi", "nloco", "dloco", "shapley"}
            As in :mod:`dfi.comparators`; ``nloco`` is LOCO as a share of the outcome's variance.
        """
        return self._known().comparator_truth(name)

    def _known(self) -> Population:
        if self.population is None:
            raise ValueError(
                "the population scores of this simulation are not known: its regression is not "
                "one of those with a closed form"
            )
        return self.population


def check_rows(n: object) -> None:
    """Refuse a number of rows that is none."""
    if not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n must be a whole number of rows, 1 or more, got {n!r}")


def correlated_gaussian(correlation: Floats, n: int, generator: np.random.Generator) -> Floats:
    """Return ``n`` rows of ``N(0, correlation)``."""
    root = symmetric_root(correlation)
    return np.asarray(generator.standard_normal((n, len(correlation))) @ root)


def linear_truth(correlation: Floats, beta: Floats) -> tuple[Floats, Floats]:
    r"""Return latent and attributed scores of a Gaussian linear model (Genizi's decomposition).

    :math:`\phi_Z = (L\beta)^2` and :math:`\phi_X = (L \circ L)\,\phi_Z` with :math:`L = R^{1/2}`.
    """
    root = symmetric_root(correlation)
    latent = (root @ beta) ** 2
    return latent, (root**2) @ latent


def pair_correlation(d: int, rho: float, *pairs: tuple[int, int]) -> Floats:
    """Return the identity with ``rho`` between the named pairs."""
    least = 1 + max(max(pair) for pair in pairs)
    if d < least:
        raise ValueError(f"d must be at least {least}, the columns that the model names, got {d!r}")
    correlation = np.eye(d)
    for j, k in pairs:
        correlation[j, k] = correlation[k, j] = rho
    return correlation


def gaussian_simulation(
    n: int, correlation: Floats, regression: Regression, noise: float, random_state: int
) -> Simulation:
    """Return rows of ``N(0, correlation)``, outcomes with a noise variance, and the population."""
    check_rows(n)
    smallest = float(np.linalg.eigvalsh(correlation).min())
    if not smallest >= -1e-8:
        raise ValueError(
            f"rho = {correlation[0, 1]:g} makes no correlation matrix of {len(correlation)} "
            f"columns (its smallest eigenvalue is {smallest:.3g}): bring it closer to 0"
        )
    generator = np.random.default_rng(random_state)
    X = correlated_gaussian(correlation, n, generator)
    y = regression(X) + np.sqrt(noise) * generator.standard_normal(n)
    return Simulation(X, y, regression, GaussianPopulation(correlation, regression, noise))


def first_times_five(d: int) -> Linear:
    """Return the regression ``5 x1``."""
    beta = np.zeros(d)
    beta[0] = 5.0
    return Linear(beta)


def m1(n: int = 2000, *, rho: float = 0.8, d: int = 10, random_state: int = 0) -> Simulation:
    """Linear Gaussian model."""
    correlation = pair_correlation(d, rho, (0, 1))
    return gaussian_simulation(n, correlation, first_times_five(d), 1.0, random_state)


def m2(n: int = 2000, *, rho: float = 0.8, d: int = 10, random_state: int = 0) -> Simulation:
    """Nonlinear additive model; its latent regression is not additive once ``rho`` is not 0."""
    correlation = pair_correlation(d, rho, (0, 1))
    return gaussian_simulation(n, correlation, TwoCosines(), 1.0, random_state)


def m3(n: int = 2000, *, rho: float = 0.8, random_state: int = 0) -> Simulation:
    r"""Piecewise interaction.

    Under the Gaussian transport :math:`\phi_1 = \phi_2 = \frac{9}{16}(\rho^2+2)`,
    :math:`\phi_3 = \frac{1}{16}(14\rho^2+13)`, :math:`\phi_4 = \phi_5 = \frac14(\rho^2+2)`, in both
    spaces. The paper's text and the attributed row of its table give half of that for the last
    two: an erratum.
    """
    correlation = pair_correlation(5, rho, (0, 1), (3, 4))
    return gaussian_simulation(n, correlation, PiecewiseProducts(), 0.4, random_state)


def m4(n: int = 2000, *, d: int = 10, random_state: int = 0) -> Simulation:
    r"""Dependent, uncorrelated features: linear whitening leaves ``X2 = 3 X1^2 + d`` dependent.

    Its scores are :math:`(25, 0, \ldots)` under linear whitening, and
    :math:`(25, \frac{36}{19} 25, 0, \ldots)` attributed under Knothe-Rosenblatt in column order.
    """
    check_rows(n)
    if d < 2:
        raise ValueError(f"d must be at least 2, a feature and its square, got {d!r}")
    generator = np.random.default_rng(random_state)
    X = generator.standard_normal((n, d))
    X[:, 1] += 3.0 * X[:, 0] ** 2
    regression = first_times_five(d)
    y = regression(X) + generator.standard_normal(n)
    # beta is 0 but for X1, whose standard deviation is 1: the same in standardised units
    population = SquarePopulation(
        regression.beta, factor=0, square=1, curvature=3.0, spread=1.0, noise=1.0
    )
    return Simulation(X, y, regression, population)


def exponential(
    n: int = 2000, *, rho: float = 0.5, strength: float = 0.3, random_state: int = 0
) -> Simulation:
    r"""Exponential interaction of three equicorrelated features.

    :math:`\eta(z) = e^{a'z}` with :math:`a = L b`, so
    :math:`\phi_{Z_j} = e^{2\sum_{k \ne j} a_k^2}\, e^{a_j^2} (e^{a_j^2} - 1)` in closed form. It is
    neither additive nor bilinear: the hardest case for the transport's sensitivity ``G``.
    """
    correlation = np.full((3, 3), rho)
    np.fill_diagonal(correlation, 1.0)
    return gaussian_simulation(n, correlation, Exponential(strength), 0.25, random_state)
