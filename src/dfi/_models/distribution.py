r"""The whole distribution of an outcome, from its location and spread.

.. math:: y = m(x) + s(x)\, e, \qquad P(y \le t \mid x) = F_e\{(t - m(x))/s(x)\},

:math:`m` a regression of the outcome, :math:`\log s` one of the residuals' size, and :math:`F_e`
the distribution function of the standardised residuals: two regressions for all thresholds.

Residuals :math:`r` are of rows that their regression has not seen. A first :math:`\log s_0`, the
regression of :math:`\log |r|`, weighs the rows of :math:`m` by :math:`1/s_0^2`, and then has one
step of Fisher scoring for mean absolute residuals, the regression of

.. math:: \log s_0 + |r| / s_0 - 1,

:math:`s_0` scaled so that the ratio has the mean 1. The logarithm alone wastes half of the rows:
for normal noise its variance is 1.23, that of the ratio .57, and .5 the least possible.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from dfi._data.outcome import Outcome, QuantileLevels
from dfi._learners.stack import SuperLearner
from dfi._learners.weighted import weight_arguments, weight_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._types import Estimator, Floats, Frame

LEVELS = 9
"""Levels of a distribution that are explained: 199 give the same scores to three digits."""

SMALLEST = 0.02
"""Added to absolute residuals before their logarithm, of their median: a residual of 0 has none."""

WIDEST = 3.0
"""Bound of the logarithm of the spread about its mean: e^3 times the usual one, or less by that."""

MOST_WEIGHED = 1.0
"""The same bound for the weights of the location: rows count e^2 times as much as usual, or less by
that."""

MOST_RATIO = 5.0
"""Bound of a residual in units of the spread, of the median: one of normal noise in 1,300 is
larger."""

HELD_OUT = 3
"""Parts of the rows, each predicted by a regression of the others; as many as the default
learner's own."""

BESIDE = 0.05
"""How far beside a level the score is taken too, for how it changes with the level."""

MOST_KEPT = 4_000_000
"""Numbers cached for rows that are predicted once for each level."""


@dataclass(kw_only=True, eq=False, repr=False)
class LocationScale(RegressorMixin, BaseEstimator):
    """The distribution function of an outcome at some thresholds, each times ``share``."""

    estimator: Estimator
    thresholds: tuple[float, ...]
    share: float = 1.0
    random_state: int | None = None

    location_: Estimator = field(init=False)
    spread_: Estimator = field(init=False)
    residuals_: Floats = field(init=False)
    levels_: Floats = field(init=False)

    def fit(self, X: Floats | Frame, y: Floats, sample_weight: Floats | None = None) -> Self:
        """Fit the location, then the spread to residuals, then both once more."""
        n, everything = len(y), np.arange(len(y))
        mass = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        part = np.random.default_rng(self.random_state).permutation(n) % min(HELD_OUT, n)

        def fitted(rows: Any, outcome: Floats, weight: Floats | None) -> Estimator:
            model = clone(self.estimator)
            given = {} if weight is None else weight_arguments(model, weight[rows])
            return model.fit(_safe_indexing(X, rows), outcome[rows], **given)

        def held_out(outcome: Floats, weight: Floats | None) -> tuple[Floats, Estimator]:
            """Return predictions by models that have not seen the row, and one of all rows."""
            if isinstance(self.estimator, SuperLearner):
                whole = fitted(everything, outcome, weight)
                if whole.held_out_ is not None:
                    return whole.held_out_, whole
            found = np.empty(n)
            for one in range(part.max() + 1):
                rows = np.flatnonzero(part == one)
                model = fitted(np.flatnonzero(part != one), outcome, weight)
                found[rows] = model.predict(_safe_indexing(X, rows))
            return found, None

        weight = sample_weight
        predicted, location = held_out(y, weight)
        rest = y - predicted
        floor = max(SMALLEST * float(np.median(np.abs(rest))), np.finfo(float).tiny)
        first, _ = held_out(np.log(np.abs(rest) + floor), weight)
        centre = float(np.average(first, weights=mass))
        first = centre + np.clip(first - centre, -WIDEST, WIDEST)
        if weight_names(self.estimator):
            weight = mass * np.exp(-2.0 * np.clip(first - centre, -MOST_WEIGHED, MOST_WEIGHED))
            predicted, location = held_out(y, weight)
            rest = y - predicted
        self.location_ = fitted(everything, y, weight) if location is None else location
        ratio = np.abs(rest) / np.exp(first)
        ratio = np.minimum(ratio, MOST_RATIO * np.median(ratio))
        usual = float(np.average(ratio, weights=mass))
        size = first + (ratio / usual - 1.0 if usual > 0.0 else 0.0)
        self.spread_ = fitted(everything, size, sample_weight)
        self.centre_ = float(np.average(size, weights=mass))
        self.n_features_in_ = int(np.shape(X)[1])
        scaled = rest / self._spread(X)
        order = np.argsort(scaled, kind="stable")
        mass = mass[order]
        self.residuals_ = scaled[order]
        self.levels_ = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
        self._kept: dict[tuple[int, int], Floats] = {}
        return self

    def _spread(self, X: Floats | Frame) -> Floats:
        size = np.asarray(self.spread_.predict(X), dtype=np.float64) - self.centre_
        return np.asarray(np.exp(np.clip(size, -WIDEST, WIDEST) + self.centre_))

    def predict(self, X: Floats | Frame) -> Floats:
        """Return the probability of each threshold, times ``share``: (n, thresholds)."""
        check_is_fitted(self, "residuals_")
        return np.column_stack([self.predict_column(X, k) for k in range(len(self.thresholds))])

    def predict_column(self, X: Floats | Frame, column: int) -> Floats:
        place, spread = self._place_and_spread(X)
        ahead = (self.thresholds[column] - place) / spread
        found = np.interp(ahead, self.residuals_, self.levels_, left=0.0, right=1.0)
        return np.asarray(self.share * found)

    def _place_and_spread(self, X: Floats | Frame) -> Floats:
        """Return location and spread of rows; those of a second level are the first one's."""
        key = None
        if isinstance(X, np.ndarray):
            key = len(X), hash(np.ascontiguousarray(X).tobytes())
            if key in self._kept:
                return self._kept[key]
        place = np.asarray(self.location_.predict(X), dtype=np.float64)
        found = np.stack([place, self._spread(X)])
        if key is not None and len(self.thresholds) > 1:
            held = sum(values.size for values in self._kept.values())
            if held + found.size <= MOST_KEPT:
                self._kept[key] = found
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_kept": {}}


def _cut(
    y: Floats, weights: Weights, levels: Sequence[float], *, every: bool = False
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return levels and their quantiles, by default different ones below the largest value."""
    order = np.argsort(y, kind="stable")
    mass = weights.values[order]
    places = np.cumsum(mass) / mass.sum()
    at = np.minimum(np.searchsorted(places, np.asarray(levels) - 1e-12), len(y) - 1)
    found = y[order][at]
    if every:
        return tuple(levels), tuple(map(float, found))
    # levels that fall on the same value are one threshold
    thresholds, first = np.unique(found, return_index=True)
    inside = thresholds < y[order][-1]
    kept = first[inside]
    return tuple(float(levels[k]) for k in kept), tuple(map(float, thresholds[inside]))


def distribution_outcome(
    outcome: Outcome, weights: Weights, level: float | None
) -> tuple[Outcome, tuple[float, ...], float]:
    """Return indicators of an outcome's levels times the root of their share, and thresholds."""
    y, name = outcome.values, outcome.name
    asked = [level] if level is not None else [(k + 0.5) / LEVELS for k in range(LEVELS)]
    levels, thresholds = _cut(y, weights, asked)
    if not thresholds:
        raise ValueError(
            f"{name!r} has so few different values that every level of its distribution is its "
            "largest value: explain it as a quantity, or as classes"
        )
    share = 1.0 / np.sqrt(len(thresholds))
    order = np.argsort(y, kind="stable")
    mass = weights.values[order]
    distinct, first = np.unique(y[order], return_index=True)
    held = np.add.reduceat(mass, first)
    middles = (np.cumsum(held) - 0.5 * held) / mass.sum()
    known = QuantileLevels(levels, thresholds, middles[np.searchsorted(distinct, y)])
    members = tuple(
        Outcome((y <= threshold) * share, f"{name} ≤ {threshold:.4g} (quantile {at:.2g})", "real")
        for at, threshold in zip(levels, thresholds, strict=True)
    )
    if level is not None:
        apart = min(BESIDE, level / 2.0, (1.0 - level) / 2.0)
        ends = _cut(y, weights, [level - apart, level + apart], every=True)
        known = replace(known, beside=ends)
        whole = Outcome(members[0].values, members[0].name, "real", distribution=known)
        return whole, (*thresholds, *ends[1]), 1.0
    whole = Outcome(
        y, f"the distribution of {name}", "several", members=members, distribution=known
    )
    return whole, thresholds, float(share)
