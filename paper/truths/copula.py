r"""Features with a Gaussian copula and any margins.

:math:`X_l = Q_l(\Phi(G_l))` with :math:`G \sim N(0, R)` and :math:`Q_l` the quantile function of
margin ``l``. Where the regression is :math:`\beta'G`, linear in the normal scores, the scores of
the copula and Knothe-Rosenblatt transports follow from the Gaussian linear model:

.. math:: \phi_Z = (B'\beta)^2, \qquad
          \phi_{X_l} = \frac{E\,q_l'(G)^2}{\operatorname{Var} X_l}\sum_j B_{lj}^2\,\phi_{Z_j},
          \qquad q_l = Q_l \circ \Phi .
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

from dfi.datasets import Linear
from paper.truths.gaussian import GaussianPopulation
from paper.truths.roots import symmetric_root
from paper.truths.simulations import Simulation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

ALIASES = {"normal": "norm", "exponential": "expon"}
FARTHEST = 37.0
"""Normal scores beyond it have no probability in double precision."""
PANELS, NODES = 148, 12


@dataclass(frozen=True, eq=False)
class NormalScores:
    """The regression that is linear in the normal scores of the features."""

    margins: tuple[Any, ...]
    beta: Floats

    def __call__(self, X: Floats) -> Floats:
        """Return the regression of each row."""
        result = np.zeros(len(X))
        for k in np.flatnonzero(self.beta):
            result += self.beta[k] * normal_score(self.margins[k], X[:, k])
        return result


def normal_score(margin: Any, values: Floats) -> Floats:
    """Return the normal scores of values, from the nearer tail so that neither is lost."""
    below, above = margin.cdf(values), margin.sf(values)
    return np.asarray(np.where(below < above, ndtri(below), -ndtri(above)))


def quantile(margin: Any, scores: Floats) -> Floats:
    """Return the values that belong to normal scores."""
    tail = ndtr(-np.abs(scores))
    return np.asarray(np.where(scores < 0, margin.ppf(tail), margin.isf(tail)))


def mean_squared_slope(margin: Any) -> float:
    r"""Return :math:`E\,q'(G)^2 / \operatorname{Var} X`, where :math:`q' = \phi / f(q)`.

    By Gauss-Legendre panels over the normal scores; 1 for a normal margin.

    Examples
    --------
    >>> from scipy import stats
    >>> f"{mean_squared_slope(stats.uniform()):.6f}"
    '1.102658'
    """
    if margin.dist.name == "norm":
        return 1.0
    variance = float(margin.var())
    if not 0 < variance < np.inf:
        raise ValueError(
            f"margin {margin.dist.name!r} has variance {variance}: attributed scores are in units "
            "of the features' standard deviations and need a finite one"
        )
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    edges = np.linspace(-FARTHEST, FARTHEST, PANELS + 1)
    half = (edges[1] - edges[0]) / 2
    points = ((edges[:-1] + half)[:, None] + half * nodes).ravel()
    mass = np.tile(half * weights, PANELS)
    log_normal = stats.norm.logpdf(points)
    with np.errstate(all="ignore"):
        log_density = margin.logpdf(quantile(margin, points))
        # phi (phi / f)^2, in logarithms since both densities underflow in the tails
        integrand = np.exp(3.0 * log_normal - 2.0 * log_density)
    usable = np.isfinite(integrand)
    return float(mass[usable] @ integrand[usable] / variance)


def gaussian_copula(
    n: int = 2000,
    *,
    correlation: ArrayLike,
    regression: ArrayLike | Callable[[Floats], Floats],
    margins: Any = "normal",
    noise: float = 1.0,
    random_state: int = 0,
) -> Simulation:
    """Sample features with a Gaussian copula, and an outcome.

    Parameters
    ----------
    n : int, default=2000
        Rows.
    correlation : array-like of shape (d, d)
        Correlation matrix of the normal scores.
    regression : array-like of shape (d,) or callable
        Coefficients of the normal scores, for which the population scores are known (margins must
        be continuous); or a function of the features, for which they are not.
    margins : name, frozen distribution of scipy.stats, or sequence of these, default="normal"
        One for all columns or one for each. Names are those of ``scipy.stats`` distributions that
        need no shape parameter, and ``"normal"``, ``"exponential"``.
    noise : float, default=1.0
        Variance of the noise.
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> from scipy import stats
    >>> from paper.truths import gaussian_copula
    >>> sample = gaussian_copula(
    ...     200,
    ...     correlation=[[1.0, 0.8], [0.8, 1.0]],
    ...     margins=["normal", stats.lognorm(0.5)],
    ...     regression=[5.0, 0.0],
    ... )
    >>> sample.truth(space="latent", transport="copula").round(6)
    array([20.,  5.])
    >>> sample.truth(transport="copula").round(4)
    array([17.    ,  9.0416])
    """
    matrix = _checked(correlation)
    laws = _margins(margins, len(matrix))
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a variance of at least 0, got {noise!r}")
    generator = np.random.default_rng(random_state)
    scores = generator.standard_normal((n, len(matrix))) @ symmetric_root(matrix)
    X = np.column_stack([quantile(law, scores[:, k]) for k, law in enumerate(laws)])
    function, population = _regression(regression, matrix, laws, float(noise))
    y = np.asarray(function(X)) + np.sqrt(noise) * generator.standard_normal(n)
    return Simulation(X, y, function, population)


def _regression(
    regression: ArrayLike | Callable[[Floats], Floats],
    correlation: Floats,
    margins: tuple[Any, ...],
    noise: float,
) -> tuple[Callable[[Floats], Floats], GaussianPopulation | None]:
    if callable(regression):
        return regression, None
    beta = np.asarray(regression, dtype=np.float64)
    if beta.shape != (len(margins),):
        raise ValueError(
            f"regression has shape {beta.shape}: give one coefficient for each of the "
            f"{len(margins)} columns, or a function of X"
        )
    for k, law in enumerate(margins):
        if not hasattr(law.dist, "pdf"):
            raise ValueError(
                f"margin {k} ({law.dist.name!r}) is discrete: its normal score is no function of "
                "the feature, so a regression of the scores is not one of X; "
                "pass regression as a function of X"
            )
    normal = all(law.dist.name == "norm" for law in margins)
    slopes = None if normal else np.array([mean_squared_slope(law) for law in margins])
    population = GaussianPopulation(correlation, Linear(beta), noise, slopes)
    return NormalScores(margins, beta), population


def _checked(correlation: ArrayLike) -> Floats:
    matrix = np.asarray(correlation, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"correlation must be a square matrix, got the shape {matrix.shape}")
    if not (np.allclose(matrix, matrix.T) and np.allclose(np.diag(matrix), 1.0)):
        raise ValueError("correlation must be symmetric with ones on its diagonal")
    smallest = float(np.linalg.eigvalsh(matrix).min())
    if smallest < -1e-8:
        raise ValueError(f"correlation has the negative eigenvalue {smallest:.3g}: no such law")
    return matrix


def _margins(margins: Any, d: int) -> tuple[Any, ...]:
    if isinstance(margins, str) or not isinstance(margins, Sequence):
        return (_margin(margins),) * d
    if len(margins) != d:
        raise ValueError(f"{len(margins)} margins for {d} columns: give one, or one for each")
    return tuple(_margin(margin) for margin in margins)


def _margin(margin: Any) -> Any:
    if not isinstance(margin, str):
        if not all(hasattr(margin, part) for part in ("dist", "ppf", "isf", "cdf", "sf")):
            raise TypeError(
                "a margin must be a name or a frozen distribution of scipy.stats such as "
                f"stats.lognorm(0.5), got {type(margin).__name__}"
            )
        return margin
    family = getattr(stats, ALIASES.get(margin, margin), None)
    known = isinstance(family, stats.rv_continuous | stats.rv_discrete)
    if family is None or not known:
        raise ValueError(
            f"unknown margin {margin!r}: use the name of a distribution of scipy.stats, "
            "such as 'normal', 'exponential', 'uniform', 'laplace', or pass a frozen one"
        )
    if family.numargs:
        raise ValueError(
            f"margin {margin!r} needs the parameter {family.shapes}: pass it frozen, "
            f"stats.{margin}(...)"
        )
    return family()
