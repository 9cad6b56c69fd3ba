r"""Families of outcomes: classes, counts and positive quantities, by their likelihood and link.

A model of a family is a function, the *margin* :math:`\eta(x)`, behind a link :math:`g`:

========= ======================= ============================== ================ ==================
family    mean :math:`\mu`        loss :math:`\ell(y, \eta)`     :math:`-\ell'`   :math:`h`
========= ======================= ============================== ================ ==================
bernoulli :math:`1/(1+e^{-\eta})` :math:`\log(1+e^\eta) - y\eta` :math:`y - \mu`  :math:`\mu(1-\mu)`
poisson   :math:`e^\eta`          :math:`e^\eta - y\eta`         :math:`y - \mu`  :math:`\mu`
gamma     :math:`e^\eta`          :math:`\eta + y e^{-\eta}`     :math:`y/\mu-1`  1
========= ======================= ============================== ================ ==================

with :math:`h` the expected second derivative. Margins are kept within bounds that no sensible model
reaches (:meth:`Link.bounds`), so every prediction is finite and strictly inside its domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import expit

from dfi.losses import GAMMA, LOG_LOSS, POISSON, Loss

if TYPE_CHECKING:
    from dfi._types import Floats

Family = Literal["gaussian", "bernoulli", "poisson", "gamma"]

MOST_LOG_ODDS = 30.0
"""Probabilities stay 1e-13 away from 0 and 1: 1 - 1e-16 would be 1."""

FURTHER = 1.0
"""A rate is at most e times the largest outcome: the exponential of a parabola has no mean along a
line otherwise."""

LOWEST = 20.0
"""How far below the mean's logarithm that of a rate may lie."""


@dataclass(frozen=True)
class Link:
    """Base of all families: the mean of a margin, the likelihood and its derivatives."""

    family: Family

    @property
    def kind(self) -> Literal["logistic", "exp"]:
        return "logistic" if self.family == "bernoulli" else "exp"

    @property
    def loss(self) -> Loss:
        return {"bernoulli": LOG_LOSS, "poisson": POISSON, "gamma": GAMMA}[self.family]

    def mean(self, margin: Floats) -> Floats:
        return mean_of(self.kind, margin)

    def loss_of(self, y: Floats, margin: Floats) -> Floats:
        """Return the negative log-likelihood; infinite where an exponential is."""
        if self.family == "bernoulli":
            return np.asarray(np.logaddexp(0.0, margin) - y * margin)
        with np.errstate(over="ignore"):
            if self.family == "poisson":
                return np.asarray(np.exp(margin) - y * margin)
            return np.asarray(margin + y * np.exp(-margin))

    def pull(self, y: Floats, mean: Floats) -> Floats:
        return np.asarray(y / mean - 1.0 if self.family == "gamma" else y - mean)

    def curvature(self, mean: Floats) -> Floats:
        if self.family == "bernoulli":
            return np.asarray(mean * (1.0 - mean))
        return mean if self.family == "poisson" else np.ones_like(mean)

    def null(self, y: Floats, weight: Floats) -> tuple[float, bool]:
        """Return the margin of the mean, off the edge, and whether the outcome is constant."""
        total, mean = float(weight.sum()), float(np.average(y, weights=weight))
        constant = bool(np.all(y == y[0]))
        top = 1.0 if self.family == "bernoulli" else np.inf
        if mean <= 0.0 or mean >= top:
            mean = (mean * total + 0.5) / (total + 1.0)
        margin = np.log(mean) - np.log1p(-mean) if self.family == "bernoulli" else np.log(mean)
        return float(margin), constant

    def bounds(self, y: Floats, null: float) -> tuple[float, float]:
        if self.family == "bernoulli":
            return -MOST_LOG_ODDS, MOST_LOG_ODDS
        highest = float(np.max(y, initial=0.0))
        return null - LOWEST, max(null, np.log(highest) if highest > 0 else null) + FURTHER


def mean_of(kind: Literal["logistic", "exp"], margin: Floats) -> Floats:
    return np.asarray(expit(margin) if kind == "logistic" else np.exp(margin))
