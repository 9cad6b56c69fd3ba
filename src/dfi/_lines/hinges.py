r"""Networks of bent hinges: line moments in closed form.

Along line ``j`` a unit's argument is :math:`a(t) = \alpha + \beta t`. It is curved where
:math:`0 < a < 2` and straight where :math:`a > 2`, so with the moments :math:`Q_p = E[t^p;\,
0 < a < 2]` and :math:`T_p = E[t^p;\, a > 2]` of those two pieces

.. math::

    E[h(a)] &= \alpha^2 Q_0 + 2\alpha\beta Q_1 + \beta^2 Q_2 + 4(\alpha - 1) T_0 + 4\beta T_1, \\
    E[t\,h(a)] &= \alpha^2 Q_1 + 2\alpha\beta Q_2 + \beta^2 Q_3 + 4(\alpha - 1) T_1 + 4\beta T_2.

The pieces are intervals of ``t``; their moments are differences of the partial moments
:math:`S_p(s) = E[t^p;\, t \le s]` of the law, cumulative sums for an empirical one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from dfi._lines.base import LineMoments, Lines, Reference
from dfi._models.network import BEND, BentHingeNetwork, bent_hinge

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._types import Floats

ROWS_AT_ONCE = 2048
FAR = 40.0
"""Beyond this many deviations a normal law has no mass left in double precision."""


def partial_moments(reference: Reference, j: int) -> Callable[[Floats], Floats]:
    r"""Return the function :math:`s \mapsto (S_0, S_1, S_2, S_3)(s)` of coordinate ``j``.

    The four moments are along the last axis of its result.
    """
    if reference.values is None or reference.cumulative is None:
        return _normal_partial_moments
    values = np.ascontiguousarray(reference.values[:, j])
    mass = np.diff(reference.cumulative[:, j], prepend=0.0)
    sums = np.zeros((len(values) + 1, 4))
    np.cumsum(mass[:, None] * values[:, None] ** np.arange(4), axis=0, out=sums[1:])

    def empirical(s: Floats) -> Floats:
        return np.asarray(sums[np.searchsorted(values, s)])

    return empirical


def _normal_partial_moments(s: Floats) -> Floats:
    s = np.clip(s, -FAR, FAR)
    density = np.exp(-0.5 * s**2) / np.sqrt(2.0 * np.pi)
    below = ndtr(s)
    return np.stack([below, -density, below - s * density, -(s**2 + 2.0) * density], axis=-1)


@dataclass(frozen=True)
class HingeLines:
    """The model ``intercept + sum_k slopes[k] * h(directions[:, k] @ x + offsets[k])``."""

    directions: Floats
    offsets: Floats
    slopes: Floats
    intercept: float

    @property
    def rule(self) -> str:
        """Say how the averages are taken."""
        return f"closed form ({len(self.slopes)} hinges)"

    def predict(self, points: Floats) -> Floats:
        """Return the model's value at each row."""
        hidden = bent_hinge(points @ self.directions + self.offsets)
        return np.asarray(hidden @ self.slopes + self.intercept)

    def moments(self, lines: Lines, *, square: bool = False) -> LineMoments:
        """Return the moments along each line."""
        if square:
            raise TypeError("a network's second moment has no closed form here: use quadrature")
        n, d = lines.latent.shape
        shape = (len(lines.offsets), n, d)
        mean, hermite = np.empty(shape), np.empty(shape)
        change = self.directions.T @ lines.directions
        laws = [partial_moments(lines.reference, j) for j in range(d)]
        for start in range(0, n, ROWS_AT_ONCE):
            part = slice(start, min(start + ROWS_AT_ONCE, n))
            base = lines.points[part] @ self.directions + self.offsets
            for q, j in np.ndindex(shape[0], d):
                if q > 0 and lines.offsets[q, j] == lines.offsets[0, j]:
                    mean[q, part, j], hermite[q, part, j] = mean[0, part, j], hermite[0, part, j]
                    continue
                shift = lines.latent[part, j] + lines.offsets[q, j]
                alpha = base - shift[:, None] * change[:, j]
                first, second = _unit_moments(alpha, change[:, j], laws[j])
                mean[q, part, j] = first @ self.slopes
                hermite[q, part, j] = second @ self.slopes
        reference_mean, _ = lines.reference.moments(d)
        return LineMoments(mean + self.intercept, hermite + self.intercept * reference_mean)


def _unit_moments(
    alpha: Floats, beta: Floats, law: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Return ``E[h(alpha + beta t)]`` and ``E[t h(alpha + beta t)]`` for rows and units."""
    still = beta == 0
    slope = np.where(still, 1.0, beta)
    whole = law(np.array(np.inf))
    to_curve, to_straight = law(-alpha / slope), law((BEND - alpha) / slope)
    rising = (slope > 0)[:, None]
    curved = np.where(rising, to_straight - to_curve, to_curve - to_straight)
    straight = np.where(rising, whole - to_straight, to_straight)
    if still.any():
        value = alpha[:, still]
        inside = (value > 0) & (value < BEND)
        curved[:, still] = inside[..., None] * whole
        straight[:, still] = (value >= BEND)[..., None] * whole
    square, cross, bent = alpha**2, 2.0 * alpha * beta, beta**2
    level, rise = 2.0 * BEND * alpha - BEND**2, 2.0 * BEND * beta
    first, second = (
        square * curved[..., p]
        + cross * curved[..., p + 1]
        + bent * curved[..., p + 2]
        + level * straight[..., p]
        + rise * straight[..., p + 1]
        for p in (0, 1)
    )
    return first, second


def hinge_lines(model: Any) -> HingeLines | None:
    """Return the closed form of a fitted network of bent hinges, None for any other model."""
    if not isinstance(model, BentHingeNetwork):
        return None
    return HingeLines(model.directions_, model.offsets_, model.slopes_, model.intercept_)
