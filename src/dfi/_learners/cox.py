r"""Cox regression: the hazards behind censored outcomes.

The hazard of a row is :math:`\lambda_0(t) \exp(x'\beta)`. Tied times are treated as Breslow does,
so that a row of frequency weight ``w`` is ``w`` equal rows. The coefficients of standardised
columns have a ridge penalty :math:`\tfrac{\lambda}{2} |\beta|^2`, whose :math:`\lambda` is the
one of a few that Laplace's approximation of the marginal likelihood,

.. math:: \ell(\hat\beta) - \tfrac{\lambda}{2} |\hat\beta|^2 + \tfrac{p}{2} \log \lambda
          - \tfrac12 \log \det(H + \lambda I),

prefers: few events and many columns need one, many events hardly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dfi._learners.network import BEND, BentHingeNetwork, bent_hinge, training_range

if TYPE_CHECKING:
    from dfi._data.outcome import Survival
    from dfi._types import Bools, Floats, Ints

PENALTIES = tuple(float(10.0**k) for k in range(3, -2, -1))
"""Penalties that are compared, the largest first: each starts from the coefficients before."""

MOST_STEPS = 25
STILL = 1e-9
"""Newton steps, and the change of every coefficient at which they end."""

LARGEST_LOG_RISK = 20.0
"""Bound of a row's logarithm of risk: a new row far from the others has no infinite hazard."""


@dataclass(frozen=True, eq=False)
class Cox:
    """Coefficients of raw columns, and the cumulative baseline ``hazard`` after each time."""

    centre: Floats
    coef: Floats
    times: Floats
    hazard: Floats
    penalty: float

    @classmethod
    def fit(
        cls,
        X: Floats,
        time: Floats,
        event: Bools,
        weight: Floats | None = None,
        *,
        penalty: float | None = None,
    ) -> Cox:
        weight = np.ones(len(time)) if weight is None else weight
        order = np.argsort(-time, kind="stable")
        X, time, event, weight = X[order], time[order], event[order], weight[order]
        mass = weight / weight.sum()
        centre = mass @ X
        spread = np.sqrt(np.maximum(mass @ np.square(X - centre), 0.0))
        varies = spread > 1e-12 * np.maximum(1.0, np.abs(centre))
        scaled = (X[:, varies] - centre[varies]) / spread[varies]
        likelihood = _Likelihood.of(scaled, time, event, weight)
        beta, chosen = np.zeros(scaled.shape[1]), 0.0
        if scaled.shape[1] and event.any():
            if penalty is not None:
                beta, chosen = likelihood.maximum(beta, penalty)[0], penalty
            else:
                found = []
                for one in PENALTIES:
                    beta, evidence = likelihood.maximum(beta, one)
                    found.append((evidence, -one, beta))
                _, negative, beta = max(found, key=lambda one: one[:2])
                chosen = -negative
        coef = np.zeros(len(centre))
        coef[varies] = beta / spread[varies]
        times, jumps = likelihood.jumps(beta)
        return cls(centre, coef, times, np.cumsum(jumps), chosen)

    def risk(self, X: Floats) -> Floats:
        log = (X - self.centre) @ self.coef
        return np.asarray(np.exp(np.clip(log, -LARGEST_LOG_RISK, LARGEST_LOG_RISK)))

    def expected(self, index: Floats, horizon: float, survives: bool) -> Floats:
        """Return restricted means, or chances to survive a horizon, for logarithms of risk."""
        inside = self.times < horizon
        risk = np.exp(np.clip(index, -LARGEST_LOG_RISK, LARGEST_LOG_RISK))
        if survives:
            return np.asarray(np.exp(-risk * self.baseline(np.array([horizon]))))
        curves = np.exp(-np.outer(risk, np.concatenate([[0.0], self.hazard[inside]])))
        widths = np.diff(np.concatenate([[0.0], self.times[inside], [horizon]]))
        return np.asarray(curves @ widths)

    def baseline(self, times: Floats, *, before: bool = False) -> Floats:
        at = np.searchsorted(self.times, times, side="left" if before else "right")
        return np.concatenate([[0.0], self.hazard])[at]


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """The partial likelihood of rows by descending time; ``last`` is each row's last tie."""

    X: Floats
    time: Floats
    events: Floats
    weight: Floats
    last: Ints

    @classmethod
    def of(cls, X: Floats, time: Floats, event: Bools, weight: Floats) -> _Likelihood:
        _, first, place = np.unique(-time, return_index=True, return_inverse=True)
        last = (np.append(first[1:], len(time)) - 1)[place]
        return cls(X, time, weight * event, weight, last)

    def parts(self, beta: Floats) -> tuple[Floats, Floats]:
        """Return each row's weight in the sums over rows at risk, and that sum at its time."""
        log = self.X @ beta
        risk = self.weight * np.exp(np.clip(log, -50.0, 50.0))
        return risk, np.cumsum(risk)[self.last]

    def value(self, beta: Floats) -> float:
        _, at_risk = self.parts(beta)
        counted = self.events > 0
        log = (self.X @ beta)[counted] - np.log(at_risk[counted])
        return float(self.events[counted] @ log)

    def slope_and_curvature(self, beta: Floats) -> tuple[Floats, Floats]:
        risk, at_risk = self.parts(beta)
        counted = np.flatnonzero(self.events > 0)
        events = self.events[counted]
        means = np.cumsum(risk[:, None] * self.X, axis=0)[self.last[counted]]
        means /= at_risk[counted, None]
        slope = events @ (self.X[counted] - means)
        # what all events that a row was at risk for weigh: those of its time and of earlier ones
        reached = np.zeros(len(risk))
        np.add.at(reached, self.last[counted], events / at_risk[counted])
        reached = np.cumsum(reached[::-1])[::-1]
        curvature = (self.X * (risk * reached)[:, None]).T @ self.X
        curvature -= (means * events[:, None]).T @ means
        return slope, curvature

    def maximum(self, beta: Floats, penalty: float) -> tuple[Floats, float]:
        """Return the coefficients by Newton's steps, halved where they go too far; the evidence."""
        identity = np.eye(len(beta))
        value = self.value(beta) - 0.5 * penalty * float(beta @ beta)
        for _ in range(MOST_STEPS):
            slope, curvature = self.slope_and_curvature(beta)
            # columns that repeat others have no curvature of their own
            ridge = penalty + 1e-10 * (1.0 + float(np.trace(curvature)))
            factor = cho_factor(curvature + ridge * identity)
            step = cho_solve(factor, slope - penalty * beta)
            for _ in range(20):
                found = beta + step
                new = self.value(found) - 0.5 * penalty * float(found @ found)
                if new >= value - 1e-12 * abs(value):
                    break
                step *= 0.5
            beta, value = found, new
            if np.abs(step).max() < STILL:
                break
        determinant = 2.0 * float(np.log(np.diag(factor[0])).sum())
        return beta, value + 0.5 * len(beta) * np.log(max(penalty, 1e-300)) - 0.5 * determinant

    def jumps(self, beta: Floats) -> tuple[Floats, Floats]:
        """Return the times of events, ascending, and Breslow's jumps of the hazard there."""
        _, at_risk = self.parts(beta)
        counted = self.events > 0
        times, place = np.unique(self.time[counted], return_inverse=True)
        found = np.bincount(place, self.events[counted] / at_risk[counted], minlength=len(times))
        return times, found.astype(np.float64)


class CoxMean(BentHingeNetwork):
    r"""A Cox regression's prediction up to a horizon, as a member of the default stack.

    The restricted mean :math:`\int_0^\tau \exp\{-\Lambda_0(t) e^{\eta}\} dt`, or the chance to get
    beyond :math:`\tau`, is a function of :math:`\eta = x'\beta` alone: bent hinges come near it (to
    some thousandths), and their line means are known.
    """

    def __init__(self, *, n_units: int = 12) -> None:
        super().__init__(n_units=n_units)

    def suits(self, n_rows: int, n_columns: int) -> bool:
        return n_columns <= n_rows // 2

    def fit_times(self, X: Floats, known: Survival, weight: Floats | None = None) -> Self:
        counted = np.ones(len(X), dtype=np.bool_) if weight is None else weight > 0
        X, times, horizon = X[counted], known.times.take(counted), known.horizon
        model = Cox.fit(X, times.time, times.event, None if weight is None else weight[counted])
        index = (X - model.centre) @ model.coef
        low, high = training_range(index)
        width = max(float(high - low), 1e-9) / (self.n_units - 2)
        starts = low + width * (np.arange(self.n_units) - 2)
        grid = np.linspace(low, high, GRID)
        expected = model.expected(grid, horizon, known.facts["target"] == "probability")
        # a bend is as long as two steps
        scale = BEND / (2.0 * width)
        design = np.column_stack([bent_hinge(scale * (grid[:, None] - starts)), np.ones(GRID)])
        found: Floats = np.asarray(np.linalg.lstsq(design, expected, rcond=1e-10)[0], dtype=float)
        self.slopes_, self.intercept_ = found[:-1], float(found[-1])
        self.directions_ = np.repeat(scale * model.coef[:, None], self.n_units, axis=1)
        self.offsets_ = -scale * (starts + model.centre @ model.coef)
        self.reach_ = training_range(X @ self.directions_ + self.offsets_)
        self.n_features_in_ = X.shape[1]
        return self


GRID = 200
"""Points at which hinges are compared with what is expected."""
