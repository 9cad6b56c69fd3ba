r"""Population scores of Gaussian models, for every transport of the library that has a closed form.

With :math:`x = B z`, the bridge's correlation ``s`` and the regression's :math:`K(R, C)` (see
:class:`dfi.datasets.Regression`),

.. math:: \phi_{Z_j} = E\operatorname{Var}(\eta(Z) \mid Z_{-j})
            = K(R, s^2 R) - K(R, s^2 (R - B_{\cdot j} B_{\cdot j}')), \qquad
          \phi_X = (W \circ W)\,\phi_Z .

================== ============================== ============================== =================
transport          ``B``                          ``s``                          ``W``
================== ============================== ============================== =================
gaussian           symmetric root of ``R``        sqrt(1 + eps^2/16) - eps/4     ``s B``
entropic           the same; needs eps > 0        the same                       ``s B``
semicontinuous     symmetric root of ``R``        1                              ``c B``, see below
copula             of the normal scores           1                              slopes times ``B``
knothe-rosenblatt  Cholesky root, in an order     1                              slopes times ``B``
================== ============================== ============================== =================

Attribution is the paper's, by squared slopes (``attribution="slopes"`` for curved transports).
The published semicontinuous form has :math:`c = \sigma/(\tau + \sigma^2)`,
:math:`\sigma = 2/(2 + \varepsilon)`, :math:`\tau = \varepsilon/(2 + \varepsilon)`.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from paper.truths.coalitions import check_comparator, explained_share, shapley_values
from paper.truths.roots import check_order, symmetric_root, triangular_root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfi.datasets import Regression

    Floats = NDArray[np.float64]

Space = Literal["latent", "attributed"]

TRANSPORTS = ("gaussian", "copula", "entropic", "knothe-rosenblatt", "semicontinuous", "auto")
MOST_PLAYERS = 12


class Population(Protocol):
    """A law of features and outcome with known scores."""

    def truth(
        self,
        space: Space = "attributed",
        transport: str = "gaussian",
        epsilon: float = 0.0,
        order: Sequence[int] | None = None,
    ) -> Floats:
        """Return the population scores of every column."""

    def comparator_truth(self, name: str) -> Floats:
        """Return the population scores of another method."""


def bridge_correlation(epsilon: float) -> float:
    r"""Return :math:`s = \sqrt{1 + \varepsilon^2/16} - \varepsilon/4` of the Gaussian bridge."""
    return math.sqrt(1.0 + epsilon**2 / 16.0) - epsilon / 4.0


def smoothing(
    space: str, transport: str, epsilon: float, order: Sequence[int] | None
) -> tuple[float, float]:
    """Check a specification; return the bridge's correlation and the factor of the attribution."""
    if space not in ("latent", "attributed"):
        raise ValueError(f"space must be 'latent' or 'attributed', got {space!r}")
    if not isinstance(transport, str):
        raise TypeError(f"transport must be a transport's name, got {type(transport).__name__}")
    if transport not in TRANSPORTS:
        close = difflib.get_close_matches(transport, TRANSPORTS, n=1)
        hint = f", did you mean {close[0]!r}?" if close else "."
        known = ", ".join(map(repr, TRANSPORTS))
        raise ValueError(f"unknown transport {transport!r}{hint} Known names: {known}")
    if transport == "auto":
        raise ValueError(
            "transport='auto' chooses by the sample and has no truth of its own: "
            "name the transport that it chose"
        )
    if not isinstance(epsilon, int | float | np.number) or not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be a number of at least 0, got {epsilon!r}")
    if order is not None and transport != "knothe-rosenblatt":
        raise ValueError(f"order belongs to transport='knothe-rosenblatt', not to {transport!r}")
    if transport == "entropic" and epsilon == 0:
        raise ValueError(
            "the entropic transport needs epsilon > 0 (the library's default is 1.0); "
            "for epsilon = 0 ask for transport='gaussian'"
        )
    if transport in ("copula", "knothe-rosenblatt") and epsilon > 0:
        raise ValueError(f"transport={transport!r} is a map: it has no epsilon, got {epsilon!r}")
    if transport == "semicontinuous":
        share, tau = 2.0 / (2.0 + epsilon), epsilon / (2.0 + epsilon)
        return 1.0, share / (tau + share**2)
    s = bridge_correlation(epsilon)
    return s, s


@dataclass(frozen=True, eq=False)
class GaussianPopulation:
    """Gaussian features, or features with a Gaussian copula, and a regression of known covariance.

    Attributes
    ----------
    correlation : ndarray of shape (d, d)
        Correlation matrix of the features (of their normal scores).
    regression : Regression
        Of the normal scores.
    noise : float
        Variance of the outcome given the features.
    slopes : ndarray of shape (d,) or None
        Mean squared slope of each standardised feature in its normal score; None where every
        margin is normal, and the slopes are 1.
    """

    correlation: Floats
    regression: Regression
    noise: float
    slopes: Floats | None = None

    def truth(
        self,
        space: Space = "attributed",
        transport: str = "gaussian",
        epsilon: float = 0.0,
        order: Sequence[int] | None = None,
    ) -> Floats:
        """Return the population scores of every column."""
        s, factor = smoothing(space, transport, epsilon, order)
        if self.slopes is not None and transport not in ("copula", "knothe-rosenblatt"):
            raise ValueError(
                f"no closed form is known for transport={transport!r} with margins that are not "
                "normal: known are 'copula' and 'knothe-rosenblatt'"
            )
        check_order(order, len(self.correlation))
        triangular = transport == "knothe-rosenblatt"
        root = (
            triangular_root(self.correlation, order)
            if triangular
            else symmetric_root(self.correlation)
        )
        latent = self.latent(root, s)
        if space == "latent":
            return latent
        attributed = (factor * root) ** 2 @ latent
        return np.asarray(attributed if self.slopes is None else self.slopes * attributed)

    def latent(self, root: Floats, s: float = 1.0) -> Floats:
        """Return the latent scores of a linear decoder, smoothed by a bridge of correlation s."""
        active = list(self.regression.active)
        R = self.correlation[np.ix_(active, active)]
        whole = self.regression.covariance(R, s**2 * R)
        columns = root[active].T
        return np.array(
            [
                whole - self.regression.covariance(R, s**2 * (R - np.outer(column, column)))
                for column in columns
            ]
        )

    def explained(self, members: Sequence[int]) -> float:
        r"""Return :math:`\operatorname{Var} E[\mu(X) \mid X_S]`."""
        active, known = list(self.regression.active), list(members)
        R = self.correlation
        load = R[np.ix_(active, known)]
        cross = load @ np.linalg.pinv(R[np.ix_(known, known)], hermitian=True) @ load.T
        return self.regression.covariance(R[np.ix_(active, active)], cross)

    def comparator_truth(self, name: str) -> Floats:
        r"""Return the population scores of another method.

        ``loco``, ``cpi``: :math:`E\operatorname{Var}(\mu \mid X_{-j})`; ``nloco`` divides by
        :math:`\operatorname{Var} Y`; ``shapley`` shares :math:`\operatorname{Var} E[\mu \mid X_S]`;
        ``dloco`` is the variance of the regression along ``X_j`` drawn apart from the others.
        """
        check_comparator(name)
        scores = np.zeros(len(self.correlation))
        players = self.players()
        if name == "dloco":
            scores[list(self.regression.active)] = self._decorrelated()
            return scores
        if name == "shapley":
            if len(players) > MOST_PLAYERS:
                raise ValueError(
                    f"Shapley values of {len(players)} dependent columns would need "
                    f"2^{len(players)} submodels; at most {MOST_PLAYERS} columns are computed"
                )
            scores[players] = shapley_values(players, self.explained)
            return scores
        whole = self.explained(players)
        for j in self.regression.active:
            scores[j] = whole - self.explained([k for k in players if k != j])
        return explained_share(scores, whole, self.noise, name)

    def players(self) -> list[int]:
        """Return the columns that the regression depends on, or that depend on these."""
        linked = self.correlation != 0
        found = np.zeros(len(linked), dtype=bool)
        found[list(self.regression.active)] = True
        while True:
            wider = found | linked[found].any(axis=0)
            if np.array_equal(wider, found):
                return [int(k) for k in np.flatnonzero(found)]
            found = wider

    def _decorrelated(self) -> list[float]:
        active = list(self.regression.active)
        R = self.correlation[np.ix_(active, active)]
        players = self.players()
        if np.linalg.matrix_rank(self.correlation[np.ix_(players, players)]) < len(players):
            raise ValueError(
                "dloco asks for the regression where features that determine each other differ: "
                "the law of the data says nothing there, so it has no population value"
            )
        found = []
        for j in range(len(active)):
            apart = R.copy()
            apart[j] = apart[:, j] = 0.0
            without = apart.copy()
            apart[j, j] = R[j, j]
            found.append(
                self.regression.covariance(apart, apart)
                - self.regression.covariance(apart, without)
            )
        return found
