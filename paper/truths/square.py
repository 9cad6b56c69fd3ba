r"""A feature and its square: dependent, uncorrelated, the case that linear whitening cannot see.

With :math:`U, \delta \sim N(0, 1)` independent, :math:`X_f` is a multiple of :math:`U` and

.. math:: X_g \propto c\,(U^2 - 1) + \sigma\delta + \text{const}, \qquad
          \operatorname{sd} = \sqrt{2c^2 + \sigma^2},

all further columns are independent, and :math:`\mu(x) = \beta'x` in standardised units. M4 is
:math:`c = 3, \sigma = 1, \beta = (5, 0, \ldots)`; the paper's example
:math:`X_1 = (U^2-1)/\sqrt2, X_2 = U` is :math:`\sigma = 0`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paper.truths.coalitions import check_comparator, explained_share, shapley_values
from paper.truths.gaussian import smoothing
from paper.truths.roots import check_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from paper.truths.gaussian import Space

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SquarePopulation:
    """The scores of a linear regression on a feature and its (noisy) square.

    Attributes
    ----------
    beta : ndarray of shape (d,)
        Coefficients of the standardised features.
    factor, square : int
        Positions of ``U`` and of its square.
    curvature, spread : float
        ``c`` and ``sigma``.
    noise : float
        Variance of the outcome given the features.
    """

    beta: Floats
    factor: int
    square: int
    curvature: float
    spread: float
    noise: float

    @property
    def bent(self) -> float:
        """The share of the square's variance that ``U`` explains."""
        return 2.0 * self.curvature**2 / (2.0 * self.curvature**2 + self.spread**2)

    def truth(
        self,
        space: Space = "attributed",
        transport: str = "gaussian",
        epsilon: float = 0.0,
        order: Sequence[int] | None = None,
    ) -> Floats:
        r"""Return the population scores of every column.

        The correlation matrix is the identity, so linear whitening leaves the columns as they are
        and scores :math:`s^2\beta_j^2`, attributed :math:`s^4\beta_j^2`: an interpretable number,
        but the two latent coordinates still depend on each other. Knothe-Rosenblatt with ``U``
        before its square has :math:`Z_f = U, Z_g = \delta` and, with ``b`` the share of
        :math:`X_g` that ``U`` explains,

        .. math:: \phi_{Z_f} = \beta_f^2 + b\beta_g^2, \quad \phi_{Z_g} = (1-b)\beta_g^2, \quad
                  \phi_{X_f} = \phi_{Z_f}, \quad
                  \phi_{X_g} = 2b\,\phi_{Z_f} + (1-b)\,\phi_{Z_g},

        since :math:`E(\partial S_g/\partial z_f)^2 = E(2cU)^2/(2c^2+\sigma^2) = 2b`.
        """
        s, factor = smoothing(space, transport, epsilon, order)
        check_order(order, len(self.beta))
        squares = self.beta**2
        if transport == "knothe-rosenblatt":
            latent, attributed = self._triangular(order)
            return latent if space == "latent" else attributed
        if transport == "entropic" or (transport == "copula" and self.beta[self.square] != 0):
            raise ValueError(
                f"no closed form is known for transport={transport!r} of a feature and its square: "
                "known are 'gaussian', 'semicontinuous' and 'knothe-rosenblatt' with the feature "
                "before its square" + (", and 'copula'" if self.beta[self.square] == 0 else "")
            )
        # The normal score of the square is even in U, and uncorrelated with it: the copula
        # transport leaves U as it is too.
        return np.asarray(s**2 * squares * (1.0 if space == "latent" else factor**2))

    def _triangular(self, order: Sequence[int] | None) -> tuple[Floats, Floats]:
        places = list(range(len(self.beta))) if order is None else [int(k) for k in order]
        f, g, bent = self.factor, self.square, self.bent
        if places.index(f) > places.index(g):
            raise ValueError(
                f"no closed form is known for transport='knothe-rosenblatt' with column {g}, the "
                f"square, before column {f}: pass an order with column {f} first"
            )
        latent = self.beta**2
        latent[f] += bent * self.beta[g] ** 2
        latent[g] *= 1.0 - bent
        attributed = latent.copy()
        attributed[g] = 2.0 * bent * latent[f] + (1.0 - bent) * latent[g]
        return latent, attributed

    def comparator_truth(self, name: str) -> Floats:
        r"""Return the population scores of another method.

        :math:`E[U \mid X_g] = 0`, since the square does not tell the sign: ``X_f`` loses nothing of
        :math:`\beta_f^2` to its square under LOCO, and the square keeps the part that ``U`` does
        not explain.
        """
        check_comparator(name)
        f, g = self.factor, self.square
        whole = float(self.beta @ self.beta)
        scores = self.beta**2
        if name == "dloco":
            if self.spread == 0:
                raise ValueError(
                    "dloco asks for the regression where a feature and its exact square disagree: "
                    "the law of the data says nothing there, so it has no population value"
                )
            return scores
        if name == "shapley":
            players = sorted((f, g))
            worth = {
                (f,): scores[f] + self.bent * scores[g],
                (g,): scores[g],
                tuple(players): scores[f] + scores[g],
            }
            scores[players] = shapley_values(players, lambda members: float(worth[tuple(members)]))
            return scores
        scores[g] *= 1.0 - self.bent
        return explained_share(scores, whole, self.noise, name)
