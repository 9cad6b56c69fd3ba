r"""A small network whose line means are known in closed form.

One hidden layer of ``K`` units,

.. math:: f(x) = c + \sum_k v_k\, h(w_k'x + b_k), \qquad h(a) = (a)_+^2 - (a - 2)_+^2,

where the bent hinge :math:`h` is flat, then a parabola, then a straight line. Along a line each
unit is a piecewise quadratic function of ``t``, so its average needs no more than partial moments
of the law of ``t``. The parabola finds products of features, which trees can only cut into
squares; the straight line keeps far rows from being extrapolated by squares. A unit is flat where
its argument leaves the range that it has on the training rows (:func:`training_range`): what lies
beyond it no row has shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    check_random_state,
    validate_data,
)

from dfi._threads import single_blas_thread

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dfi._types import Floats

BEND = 2.0
"""Where a unit's parabola ends and its straight line begins."""

MOST_EXACT = 1500
"""Rows up to which leverages are computed: a matrix of all of their products is solved."""

MOST_FITTED = 10_000
"""Rows that a network is fitted to, a random sample of more: it has some thousand parameters."""

MOST_LEVERAGE = 0.95
LOOSE = 0.1
"""The penalty of offsets in the leverages: none is put on them, but the search ends before they
have moved far."""

FURTHER = 0.25
"""How far beyond its range on the training rows a smooth member may go, as a share of that range.

Out-of-fold R2 of the stack over 21 tables of 47 to 442 rows, mean of one split: .556 without
bounds, .596 with 0, .595 with .1, .592 with .25, .586 with .5. A quarter is the most cautious that
keeps cpus, whose largest machines are worth more than any other: .857 without bounds, .821 with 0,
.836 with .1, .844 with .25 (two splits); hprice1 with its outlier .28, .64, .63, .60. Inputs kept
within the training range in their place: .594, with Clothing at .56 for .58."""

MAX_COLUMNS = 200
"""Columns above which a network costs more than all other members of the stack together."""


def bent_hinge(a: Floats) -> Floats:
    r"""Return :math:`h(a) = (a)_+^2 - (a - 2)_+^2`."""
    curved = np.clip(a, 0.0, BEND)
    return np.asarray(curved * (2.0 * a - curved))


def training_range(values: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and highest value of training rows, and a quarter of the range further."""
    low, high = values.min(axis=0), values.max(axis=0)
    further = FURTHER * (high - low)
    return low - further, high + further


class Member(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A learner of numeric rows that checks its input."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        rows, target = validate_data(
            self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        weight = _check_sample_weight(sample_weight, rows, dtype=np.float64)
        # products of matrices may differ in their last digit with the number of threads, and the
        # steps of a search would carry that digit forward
        with single_blas_thread():
            return self._fit_rows(rows, np.asarray(target, dtype=float), weight)

    def predict(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, reset=False, dtype=np.float64)
        return self._predicted(rows)

    def _fit_rows(self, X: Floats, y: Floats, weight: Floats) -> Self:
        raise NotImplementedError

    def _predicted(self, rows: Floats) -> Floats:
        raise NotImplementedError


class HingeUnits(Member):
    """Base of networks of bent hinges: their units, and how these are fitted."""

    n_units: int
    max_iter: int
    most_rows: int | None
    directions_: Floats
    offsets_: Floats
    reach_: tuple[Floats, Floats]
    slopes_: Floats
    intercept_: float

    def suits(self, n_rows: int, n_columns: int) -> bool:
        few = self.most_rows is None or n_rows <= self.most_rows
        return few and n_columns <= min(MAX_COLUMNS, n_rows // 2)

    def _start(self, p: int, level: float, random: np.random.RandomState) -> Floats:
        units = self.n_units
        return np.concatenate(
            [
                random.standard_normal(p * units) / np.sqrt(p),
                random.standard_normal(units) / 2.0,
                random.standard_normal(units) / (2.0 * np.sqrt(units)),
                [level],
            ]
        )

    def _search(self, loss: PenalisedSquares, start: Floats) -> Floats:
        options = {"maxiter": self.max_iter, "ftol": 1e-6, "gtol": 1e-5}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x)

    def _keep(self, directions: Floats, offsets: Floats, scaled: tuple[Floats, ...]) -> None:
        """Keep units of standardised columns as units of the ``scaled``: X, center and scale."""
        X, center, scale = scaled
        self.directions_ = directions / scale[:, None]
        self.offsets_ = offsets - center @ self.directions_
        self.reach_ = training_range(X @ self.directions_ + self.offsets_)

    def margin(self, rows: Floats) -> Floats:
        arguments = np.clip(rows @ self.directions_ + self.offsets_, *self.reach_)
        return np.asarray(bent_hinge(arguments) @ self.slopes_ + self.intercept_)


@dataclass(kw_only=True, eq=False, repr=False)
class BentHingeNetwork(HingeUnits):
    r"""One hidden layer of bent hinges, fitted by penalised least squares.

    With columns and outcome standardised, L-BFGS minimises from a seeded random start

    .. math:: \tfrac12 \sum_i \omega_i (y_i - f(x_i))^2
              + \tfrac{\lambda}{2} \sum_k (\lVert w_k \rVert^2 + v_k^2),

    weights :math:`\omega` scaled to average 1 over the rows that count. All rows enter every
    step, so a row of weight two is a row given twice, up to the penalty.
    """

    n_units: int = 50
    penalty: float = 3.0
    max_iter: int = 200
    most_rows: int | None = None
    random_state: int | np.random.RandomState | None = None

    held_out_residuals_: Floats = field(init=False)

    def _fit_rows(self, X: Floats, y: Floats, weight: Floats) -> Self:
        random = check_random_state(self.random_state)
        every, outcome = X, y
        counts = np.flatnonzero(weight > 0)
        if len(counts) > MOST_FITTED:
            counts = np.sort(random.permutation(counts)[:MOST_FITTED])
        X, y, weight = X[counts], y[counts], weight[counts]
        weight = weight / weight.mean()
        center, deviation = column_moments(X, weight)
        scale = np.where(deviation > 0, deviation, 1.0)
        y_center, y_deviation = (float(value[0]) for value in column_moments(y[:, None], weight))
        target = (y - y_center) / (y_deviation or 1.0)
        loss = PenalisedSquares((X - center) / scale, target, weight, self.n_units, self.penalty)
        found = self._search(loss, self._start(X.shape[1], 0.0, random))
        directions, offsets, slopes, intercept = loss.unpack(found)
        self._keep(directions, offsets, (X, center, scale))
        self.slopes_ = y_deviation * slopes
        self.intercept_ = y_center + y_deviation * intercept
        fitted = self.margin(every)
        self.held_out_residuals_ = outcome - fitted
        without = y - y_deviation * _held_out(loss, found)
        self.held_out_residuals_[counts] = y - np.clip(without, *training_range(fitted[counts]))
        return self

    def _predicted(self, rows: Floats) -> Floats:
        return self.margin(rows)


def _held_out(loss: PenalisedSquares, theta: Floats) -> Floats:
    r"""Return approximate leave-one-out residuals, in standard deviations of the outcome.

    To first order in its parameters the fitted network is a ridge regression on its gradients
    :math:`J` with the penalties :math:`\Lambda`, so a row's own part in its prediction is

    .. math:: h_{ii} = [K (K + W^{-1})^{-1}]_{ii}, \qquad K = J \Lambda^{-1} J',

    and what it would miss without the row is :math:`r_i / (1 - h_{ii})`; beyond :data:`MOST_EXACT`
    rows residuals are taken as they are.
    """
    directions, offsets, slopes, intercept = loss.unpack(theta)
    a = loss.X @ directions + offsets
    hidden = bent_hinge(a)
    residual = loss.y - hidden @ slopes - intercept
    n = len(residual)
    if n > MOST_EXACT:
        return np.asarray(residual)
    moved = 2.0 * np.clip(a, 0.0, BEND) * slopes
    # sum over units and columns of (moved_ik moved_jk) (x_il x_jl): two small products
    K = (moved @ moved.T) * (loss.X @ loss.X.T / loss.penalty + 1.0 / LOOSE)
    K += hidden @ hidden.T / loss.penalty
    K += n  # the intercept is free: its penalty is 1/n
    own = np.linalg.solve(K + np.diag(1.0 / loss.weight), K)
    return np.asarray(residual / (1.0 - np.clip(np.diag(own), 0.0, MOST_LEVERAGE)))


def column_moments(X: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column, 0 for one constant but for rounding."""
    center = np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average((X - center) ** 2, axis=0, weights=weight))
    varies = scale > 1e-10 * np.maximum(np.abs(center), 1e-290)
    return center, np.where(varies, scale, 0.0)


class PenalisedSquares:
    """The mean penalised loss and its gradient, as a function of all parameters in one row."""

    def __init__(self, X: Floats, y: Floats, weight: Floats, n_units: int, penalty: float) -> None:
        self.X, self.y, self.weight = X, y, weight
        self.n_units, self.penalty = n_units, penalty

    def unpack(self, theta: Floats) -> tuple[Floats, Floats, Floats, float]:
        units, cut = self.n_units, self.X.shape[1] * self.n_units
        directions = theta[:cut].reshape(-1, units)
        return directions, theta[cut : cut + units], theta[cut + units : -1], float(theta[-1])

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        directions, offsets, slopes, intercept = self.unpack(theta)
        a = self.X @ directions
        a += offsets
        curved = np.clip(a, 0.0, BEND)
        a *= 2.0
        a -= curved
        a *= curved
        lost, pull = self.pulls(a @ slopes, intercept)
        penalty = self.penalty * (np.vdot(directions, directions) + slopes @ slopes)
        by_slope = a.T @ pull + self.penalty * slopes
        # h' is twice the clipped value: what is left of each unit is its share of the gradient
        curved *= 2.0 * slopes
        curved *= pull[:, None]
        by_direction = self.X.T @ curved + self.penalty * directions
        gradient = [by_direction.ravel(), curved.sum(axis=0), by_slope, np.array([pull.sum()])]
        n = len(self.y)
        return 0.5 * float(lost + penalty) / n, np.concatenate(gradient) / n

    def pulls(self, hidden: Floats, intercept: float) -> tuple[float, Floats]:
        residual = hidden + (intercept - self.y)
        pull = self.weight * residual
        return float(pull @ residual), pull
