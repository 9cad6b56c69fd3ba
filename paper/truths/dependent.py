r"""The paper's two perfectly dependent examples, with :math:`U \sim N(0, 1)`.

Both have one factor behind two features. The paper disentangles them by :math:`Z_1 = U` and an
independent :math:`Z_2`: that is the Knothe-Rosenblatt transport with the feature that is ``U``
first. Optimal transport is another disentangling and another estimand, with scores of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi.datasets import Linear
from paper.truths.gaussian import GaussianPopulation
from paper.truths.simulations import Simulation
from paper.truths.square import SquarePopulation

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def equal_features(
    n: int = 2000,
    *,
    beta: tuple[float, float] = (2.0, 1.0),
    noise: float = 1.0,
    random_state: int = 0,
) -> Simulation:
    r"""Sample two copies of one feature, :math:`X_1 = X_2 = U`.

    With :math:`Y = \beta_1X_1 + \beta_2X_2 + e`, under the Gaussian (optimal) transport each has
    half of :math:`(\beta_1+\beta_2)^2`, the limit of the correlation tending to 1. Under
    Knothe-Rosenblatt, the paper's disentangling, both have the whole:
    :math:`\phi_{X_1} = \phi_{X_2} = \phi_{Z_1} = (\beta_1+\beta_2)^2`, :math:`\phi_{Z_2} = 0`. LOCO
    and CPI have 0 for both.

    Parameters
    ----------
    n : int, default=2000
        Rows.
    beta : tuple of two floats
        Coefficients.
    noise : float, default=1.0
        Variance of the noise.
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> from paper.truths import equal_features
    >>> sample = equal_features(100)
    >>> sample.truth().round(6)
    array([4.5, 4.5])
    >>> sample.truth(transport="knothe-rosenblatt").round(6)
    array([9., 9.])
    """
    regression = Linear(_two(beta))
    population = GaussianPopulation(np.ones((2, 2)), regression, noise)
    return _simulate(n, (_same, _same), regression, population, random_state)


def square_and_factor(
    n: int = 2000,
    *,
    beta: tuple[float, float] = (1.0, 1.0),
    noise: float = 1.0,
    random_state: int = 0,
) -> Simulation:
    r"""Sample a factor and its square, :math:`X_1 = (U^2-1)/\sqrt{m_4-1}`, :math:`X_2 = U`.

    Here :math:`m_4 = E U^4 = 3`. With :math:`Z = U`, which is Knothe-Rosenblatt with column 1
    before column 0, :math:`\phi_X = (\frac{4}{m_4-1}, 1)(\beta_1^2+\beta_2^2)` as in the paper.
    Latent scores are in the order of the features: :math:`\beta_1^2+\beta_2^2` for the coordinate
    of :math:`X_2`, 0 for that of :math:`X_1` (the paper numbers them the other way). Linear
    whitening sees nothing of the dependence and scores :math:`(\beta_1^2, \beta_2^2)`.

    Parameters
    ----------
    n, beta, noise, random_state
        As for :func:`equal_features`.

    Examples
    --------
    >>> from paper.truths import square_and_factor
    >>> sample = square_and_factor(100)
    >>> sample.truth(transport="knothe-rosenblatt", order=(1, 0)).round(6)
    array([4., 2.])
    """
    regression = Linear(_two(beta))
    population = SquarePopulation(
        regression.beta, factor=1, square=0, curvature=1.0 / np.sqrt(2.0), spread=0.0, noise=noise
    )
    return _simulate(n, (_standardised_square, _same), regression, population, random_state)


def _simulate(
    n: int,
    features: tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]],
    regression: Linear,
    population: GaussianPopulation | SquarePopulation,
    random_state: int,
) -> Simulation:
    generator = np.random.default_rng(random_state)
    factor = generator.standard_normal(n)
    X = np.column_stack([feature(factor) for feature in features])
    y = regression(X) + np.sqrt(population.noise) * generator.standard_normal(n)
    return Simulation(X, y, regression, population)


def _same(factor: Floats) -> Floats:
    return factor


def _standardised_square(factor: Floats) -> Floats:
    return np.asarray((factor**2 - 1.0) / np.sqrt(2.0))


def _two(beta: tuple[float, float]) -> Floats:
    coefficients = np.asarray(beta, dtype=np.float64)
    if coefficients.shape != (2,):
        raise ValueError(f"beta must be two numbers, got {beta!r}")
    return coefficients
