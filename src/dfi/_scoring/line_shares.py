r"""Attribution by line shares: how much each feature varies as a latent coordinate moves.

Along the line of latent coordinate ``j`` through :math:`z_{-j}` feature ``l`` has the variance
:math:`v_{jl}(z_{-j}) = Var_t[S_l(z^{(j)}(t))]`, in units of its own variance, and

.. math:: \omega_{jl} = \frac{v_{jl}}{\sum_m v_{jm}}, \qquad
          \phi_{X_l} = \sum_j E[\omega_{jl}(Z_{-j})\, u_j] .

The shares of a line add up to 1, so attributed scores add up to the latent ones whatever the
decoder, and a decoder that bends sharply weighs no more than one that does not. Under a linear map
:math:`\omega_{jl} = L_{lj}^2`, the squared slope, which is what the paper attributes by
(``attribution="slopes"``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

if TYPE_CHECKING:
    from collections.abc import Callable

    from scipy.interpolate import PPoly

    from dfi._types import Floats

Attribution = Literal["shares", "slopes"]

OUTER = 100.0
"""Scores that stand for infinity: the last edges of levels and of open ends are beyond it."""

FINEST = 0.005
"""Shorter lines use the local slope."""

MOST_TABLES = 2048
"""Splines that are kept, some 60 MB: variances and means of all pairs of 32 columns."""

NEGLIGIBLE = 1e-24
"""Variance, in that of the features, below which a line moves nothing."""


def line_shares(variance: Floats, instead: Floats) -> Floats:
    """Return variances (n, d) over their sums; lines that move nothing have the shares instead."""
    total = variance.sum(axis=1, keepdims=True)
    moves = total > NEGLIGIBLE
    return np.where(moves, variance / np.where(moves, total, 1.0), instead)


def node_variance(values: Floats, weights: Floats) -> Floats:
    """Return the variance of values (n, nodes, d) over weighted nodes, (n, d)."""
    centred = values - np.einsum("itl,t->il", values, weights)[:, None]
    return np.asarray(np.einsum("itl,itl,t->il", centred, centred, weights))


class Curve(Protocol):
    """Arrays that make a curve, whose average over a normal of some width a spline tabulates."""

    def spline(self, width: float) -> PPoly: ...


class Tables:
    """Tabulated averages, computed once for all explained rows, stage by stage."""

    def __init__(self) -> None:
        self._made = lru_cache(MOST_TABLES)(_spline)

    def of(self, curve: Curve, width: float) -> PPoly:
        """Return the average at normal points of some width, as a function of their mean."""
        return self._made(type(curve), width, *(array.tobytes() for array in vars(curve).values()))

    def __reduce__(self) -> tuple[type[Tables], tuple[()]]:
        # Workers make those that they need.
        return Tables, ()


def _spline(kind: Callable[..., Curve], width: float, *arrays: bytes) -> PPoly:
    return kind(*map(np.frombuffer, arrays)).spline(width)


@dataclass(frozen=True)
class Path:
    """A feature as a function of its score: straight between knots, constant beyond them."""

    knots: Floats
    values: Floats

    def squared_slope(
        self, start: Floats, tilt: float, nodes: Floats | None, tables: Tables
    ) -> Floats:
        """Return the variance at ``start + tilt t`` over :math:`tilt^2`."""
        slopes = np.diff(self.values) / np.diff(self.knots)
        if np.ptp(slopes) == 0 and abs(self.knots[0]) > OUTER:
            return np.full(len(start), slopes[0] ** 2)
        if abs(tilt) < FINEST:
            padded = np.concatenate([[0.0], slopes**2, [0.0]])
            return np.asarray(padded[np.searchsorted(self.knots, start)])
        if nodes is not None:
            moved = np.interp(start[:, None] + tilt * nodes, self.knots, self.values)
            return np.asarray(moved.var(axis=1) / tilt**2)
        grid = self.grid(abs(tilt))
        if len(start) <= len(grid):
            return self.normal_variance(start, abs(tilt)) / tilt**2
        # The table's ends are those of the knots, not of the rows: rows do not depend on others.
        table = tables.of(self, abs(tilt))
        variance = np.maximum(table(np.clip(start, grid[0], grid[-1])), 0.0)
        return np.asarray(variance / tilt**2)

    def spline(self, width: float) -> CubicSpline:
        grid = self.grid(width)
        return CubicSpline(grid, self.normal_variance(grid, width))

    def grid(self, width: float) -> Floats:
        """Return points close enough to interpolate a normal variance, constant beyond them."""
        inner = self.knots[np.abs(self.knots) < OUTER]
        low, high = inner[0] - 8.0 * width, inner[-1] + 8.0 * width
        return np.linspace(low, high, 2 + int((high - low) / max(width / 8.0, FINEST)))

    def normal_variance(self, points: Floats, width: float) -> Floats:
        r"""Return the variance at ``N(point, width^2)``, by moments of the straight pieces."""
        edge = (self.knots - points[:, None]) / width
        below, density = ndtr(edge), np.exp(-0.5 * edge**2) / np.sqrt(2.0 * np.pi)
        slope = width * np.diff(self.values) / np.diff(self.knots)
        # values are taken from that at the point: what varies little is not lost in rounding
        value = self.values - np.interp(points, self.knots, self.values)[:, None]
        level = value[:, :-1] - slope * edge[:, :-1]
        mass, first = np.diff(below, axis=1), -np.diff(density, axis=1)
        second = mass - np.diff(np.clip(edge, -OUTER, OUTER) * density, axis=1)
        ends = np.stack([below[:, 0], 1.0 - below[:, -1]], axis=1)
        outer = value[:, [0, -1]]
        mean = np.sum(level * mass + slope * first, axis=1) + np.sum(ends * outer, axis=1)
        square = np.sum(
            level**2 * mass + 2.0 * level * slope * first + slope**2 * second, axis=1
        ) + np.sum(ends * outer**2, axis=1)
        return np.asarray(np.maximum(square - mean**2, 0.0))
