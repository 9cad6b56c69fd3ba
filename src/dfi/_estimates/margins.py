r"""One feature and its normal score: a strictly increasing, piecewise linear pair of maps.

The mid-rank of a value, :math:`\hat F(x-) + \frac12 \hat p(x)` (weighted), gives its normal score
:math:`s = \Phi^{-1}(\cdot)`. The quantile function :math:`x = Q(s)` is interpolated between knots,
and the score of a row is :math:`Q^{-1}(x)`, so a row returns to itself exactly.

Attribution needs the mean *square* of the slope of ``Q``. Between knots that hold ``m`` rows a
spacing of quantiles is a sum of ``m`` nearly exponential ones, so its square is too large by the
factor :math:`(m + 1)/m` in the mean; squared slopes are divided by it. The knots can then stand
closer, :math:`n^{-1/3}`, than is best for the slope itself (:math:`n^{-1/5}`), whose smoothing bias
would not vanish next to the standard error. Mean squared slopes at n = 500, in percent of the
truth: normal -1, gamma(3) -1, exponential -1, uniform 0, t(5) 0; without the factor, and knots
:math:`n^{-1/5}` apart, 3, 4, 5, 1 and 7.

Knots stand at quantile levels that depend on the number of rows only, never at rows picked by the
data: refits without some of the rows then differ by what the rows say, not by where knots fell.
The number of rows is ``Weights.effective``: a row of frequency weight ``w`` is ``w`` rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

if TYPE_CHECKING:
    from dfi._types import Bools, Floats

HEAVY = 0.02
"""A value with a larger share of the rows than this is a level, with its own knot."""

ROWS_PER_CELL = 3
WIDTH_POWER = -1.0 / 3.0
"""Knots are ``n ** WIDTH_POWER`` normal standard deviations apart, and three rows at least."""

FAR = 1e3
"""Score up to which levels are extended on a straight line; nothing comes near it."""


@dataclass(frozen=True)
class Margin:
    """The monotone map between one feature and its normal score, by strictly increasing knots.

    Where most rows sit on a few levels (``discrete``), these are joined by straight lines and
    extended beyond the outermost ones, as linear whitening does; a continuous margin ends at the
    outermost values observed, so no model is asked about values it cannot have seen. ``rows``
    (k - 1,) lie between neighbouring knots: infinite where the gap is one of levels, without error.
    Beyond ``open_ends``, which are single rows, the slope goes on.
    """

    scores: Floats
    values: Floats
    discrete: bool
    rows: Floats
    open_ends: tuple[bool, bool]

    def score(self, x: Floats) -> Floats:
        return np.interp(x, self.values, self.scores)

    def value(self, scores: Floats) -> Floats:
        return np.interp(scores, self.scores, self.values)

    def slopes(self) -> Floats:
        return np.asarray(np.diff(self.values) / np.diff(self.scores))

    def slope(self, scores: Floats) -> Floats:
        """Return the slope of the value in the score; zero beyond the outermost knots."""
        padded = np.concatenate([[0.0], self.slopes(), [0.0]])
        return np.asarray(padded[np.searchsorted(self.scores, scores, side="left")])

    def squared_slopes(self) -> tuple[Floats, Floats]:
        r"""Return cells of scores and the squared slope in each, minus its squared error.

        .. math:: \widehat{g_k^2} = \frac{m_k}{m_k + 1}
                  \Big(\frac{x_{k+1} - x_k}{s_{k+1} - s_k}\Big)^2.

        Beyond an outermost row the square of the last cell goes on: the law does not end there,
        though the decoder does.
        """
        edges = self.scores.copy()
        for end, is_open in zip((0, -1), self.open_ends, strict=True):
            if is_open:
                edges[end] = np.copysign(np.inf, edges[end])
        return edges, np.asarray(self.slopes() ** 2 * self.shrink())

    def mean_squares(self, first: Floats, second: Floats) -> Floats:
        """Return the mean squared slope between pairs of scores, exactly, in either order."""
        edges, squares = self.squared_slopes()
        edges = np.clip(edges, -FAR, FAR)
        integral = np.concatenate([[0.0], np.cumsum(squares * np.diff(edges))])
        low, high = np.minimum(first, second), np.maximum(first, second)
        # a pair that does not move has the slope of where it is
        high = np.maximum(high, low + 1e-6)
        rise = np.interp(high, edges, integral) - np.interp(low, edges, integral)
        return np.asarray(rise / (high - low))

    def shrink(self) -> Floats:
        """Return ``m/(m + 1)`` for the ``m`` rows of each cell."""
        return np.asarray(1.0 / (1.0 + 1.0 / np.maximum(self.rows, 1.0)))

    def threshold(self, c: Floats) -> Floats:
        """Return ``s`` such that ``value(score) <= c`` holds exactly where ``score <= s``."""
        mapped = self.score(c)
        return np.where(c >= self.values[-1], np.inf, np.where(c < self.values[0], -np.inf, mapped))


def fit_margin(column: Floats, mass: Floats, n: float | None = None) -> Margin:
    """Fit the margin of one column that varies, weighted by ``mass``, from ``n`` rows."""
    n = float(mass.sum()) if n is None else n
    values, inverse = np.unique(column, return_inverse=True)
    share = np.bincount(inverse, mass)
    values, share = values[share > 0], share[share > 0] / share.sum()
    below = np.cumsum(share) - share
    scores = ndtri(below + 0.5 * share)
    heavy = share > HEAVY
    discrete = bool(len(values) <= 2 or share[heavy].sum() > 0.5)
    positions = _knots(scores, heavy, n)
    at = np.arange(len(values))
    low, high = np.floor(positions).astype(int), np.ceil(positions).astype(int)
    rows = n * np.diff(ndtr(np.interp(positions, at, scores)))
    rows[discrete | heavy[high[:-1]] | heavy[low[1:]]] = np.inf
    open_ends = (not (discrete or heavy[0]), not (discrete or heavy[-1]))
    values, scores = np.interp(positions, at, values), np.interp(positions, at, scores)
    if discrete:
        slope_low, slope_high = (
            (values[a] - values[a - 1]) / (scores[a] - scores[a - 1]) for a in (1, -1)
        )
        values = np.concatenate(
            [
                [values[0] - slope_low * (FAR + scores[0])],
                values,
                [values[-1] + slope_high * (FAR - scores[-1])],
            ]
        )
        scores = np.concatenate([[-FAR], scores, [FAR]])
        rows = np.full(len(scores) - 1, np.inf)
    return Margin(scores, values, discrete, rows, open_ends)


def _knots(scores: Floats, heavy: Bools, n: float) -> Floats:
    """Choose the knots, as positions among the sorted values; whole ones are values."""
    count = len(scores)
    kept = heavy.copy()
    kept[0] = kept[-1] = True
    kept[:-1] |= heavy[1:]
    kept[1:] |= heavy[:-1]
    grid = knot_scores(n)
    grid = grid[(grid > scores[0]) & (grid < scores[-1])]
    positions = np.interp(grid, scores, np.arange(count))
    low = np.floor(positions).astype(int)
    near = kept[low] | kept[np.minimum(low + 1, count - 1)]
    return np.union1d(np.flatnonzero(kept).astype(float), positions[~near])


def knot_scores(n: float) -> Floats:
    """Return the scores at which ``n`` rows have knots, without the outermost rows."""
    width, rows = n**WIDTH_POWER, ROWS_PER_CELL / n
    level, upper = 1.0 - 0.5 / n, []
    while True:
        level = min(ndtr(ndtri(level) - width), level - rows)
        if level <= ndtr(0.5 * width):
            break
        upper.append(ndtri(level))
    centre = [0.0] if n > 2 * ROWS_PER_CELL else []
    return np.concatenate([-np.array(upper), centre, upper[::-1]])
