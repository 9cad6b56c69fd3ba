"""The samples of :mod:`dfi.datasets` with the population scores of every transport and method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dfi import datasets
from paper.truths.gaussian import GaussianPopulation
from paper.truths.square import SquarePopulation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from paper.truths.gaussian import Population, Space

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
    >>> from paper.truths import m1
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
            As in :mod:`dfi.methods`; ``nloco`` is LOCO as a share of the outcome's variance.
        """
        return self._known().comparator_truth(name)

    def _known(self) -> Population:
        if self.population is None:
            raise ValueError(
                "the population scores of this simulation are not known: its regression is not "
                "one of those with a closed form"
            )
        return self.population


def m1(n: int = 2000, **options: Any) -> Simulation:
    """Return a sample of :func:`dfi.datasets.m1`."""
    return _gaussian(datasets.m1(n, **options))


def m2(n: int = 2000, **options: Any) -> Simulation:
    """Return a sample of :func:`dfi.datasets.m2`."""
    return _gaussian(datasets.m2(n, **options))


def m3(n: int = 2000, **options: Any) -> Simulation:
    """Return a sample of :func:`dfi.datasets.m3`."""
    return _gaussian(datasets.m3(n, **options))


def exponential(n: int = 2000, **options: Any) -> Simulation:
    """Return a sample of :func:`dfi.datasets.exponential`."""
    return _gaussian(datasets.exponential(n, **options))


def m4(n: int = 2000, **options: Any) -> Simulation:
    """Return a sample of :func:`dfi.datasets.m4`."""
    sample = datasets.m4(n, **options)
    # beta is 0 but for X1, whose standard deviation is 1: the same in standardised units
    population = SquarePopulation(
        sample.regression.beta,  # type: ignore[attr-defined]
        factor=0,
        square=1,
        curvature=3.0,
        spread=1.0,
        noise=sample.noise,
    )
    return Simulation(sample.X, sample.y, sample.regression, population)


def _gaussian(sample: datasets.Simulation) -> Simulation:
    if sample.correlation is None:
        raise RuntimeError("the features are not Gaussian")
    population = GaussianPopulation(sample.correlation, sample.regression, sample.noise)
    return Simulation(sample.X, sample.y, sample.regression, population)
