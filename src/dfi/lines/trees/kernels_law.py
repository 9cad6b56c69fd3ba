"""The law of the replacement value, evaluated inside the kernels.

Both laws are given by two functions of one argument: the distribution function ``F(t)`` and the
partial first moment ``H(t) = E[T 1(T <= t)]``. A piece ``(a, b]`` on which the model equals ``v``
adds ``v (F(b) - F(a))`` to the line mean and ``v (H(b) - H(a))`` to the first Hermite moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from scipy.special import ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi.lines.base import Reference

    Floats = NDArray[np.float64]

# Phi(-7.5) = 3e-14: what is cut off stays far below the 1e-10 promised for the law.
TAIL = 7.5
PER_UNIT = 64
GAUSSIAN, EMPIRICAL = 0, 1
# A power of two would round to itself; this is just above half a unit in the last place.
HALF_ULP = 1.1102230246251568e-16


class Law(NamedTuple):
    """Tables of the law, one row per coordinate (a single row where they are all the same)."""

    kind: int
    first: Floats
    second: Floats
    values: Floats
    start: NDArray[np.int32]
    origin: Floats
    scale: Floats
    lower: Floats
    upper: Floats
    total: Floats


def tabulate(reference: Reference) -> Law:
    """Tabulate a reference law for the kernels."""
    if reference.kind == "gaussian":
        grid = np.arange(-int(TAIL * PER_UNIT), int(TAIL * PER_UNIT) + 1) / PER_UNIT
        density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
        one = np.ones(1)
        return Law(
            GAUSSIAN,
            ndtr(grid)[None],
            density[None],
            np.zeros((1, 1)),
            np.zeros((1, 1), dtype=np.int32),
            0 * one,
            one,
            -TAIL * one,
            TAIL * one,
            0 * one,
        )
    if reference.values is None or reference.cumulative is None:
        raise TypeError("an empirical reference law needs values and cumulative probabilities")
    values = np.ascontiguousarray(reference.values.T, dtype=np.float64)
    cumulative = np.ascontiguousarray(reference.cumulative.T, dtype=np.float64)
    mass = np.diff(cumulative, axis=1, prepend=0.0)
    zero = np.zeros((len(values), 1))
    first = np.concatenate([zero, cumulative], axis=1)
    second = np.concatenate([zero, np.cumsum(mass * values, axis=1)], axis=1)
    n_cells = min(2 * values.shape[1], 1 << 15)
    lower, upper = values[:, 0].copy(), values[:, -1].copy()
    width = np.maximum(upper - lower, np.finfo(float).tiny * n_cells)
    scale = n_cells / width
    cell = np.minimum(((values - lower[:, None]) * scale[:, None]).astype(np.int64), n_cells - 1)
    start = np.stack(
        [np.searchsorted(row, np.arange(n_cells + 1)).astype(np.int32) for row in cell]
    )
    return Law(
        EMPIRICAL, first, second, values, start, lower, scale, lower, upper, second[:, -1].copy()
    )


@njit(nogil=True, cache=True)
def evaluate_law(law: Law, j: int, t: float) -> tuple[float, float]:
    """Return ``F(t)`` and ``H(t)`` of coordinate ``j``.

    The normal law is expanded around the nearest of the grid points 1/64 apart, to the fourth
    order: density and distribution share the tabulated density, and the error is below 1e-12.
    The empirical law is looked up in cells that hold half a value on average.
    """
    if law.kind == GAUSSIAN:
        if t <= -TAIL:
            return 0.0, 0.0
        if t >= TAIL:
            return 1.0, 0.0
        k = int((t + TAIL) * PER_UNIT + 0.5)
        a = k / PER_UNIT - TAIL
        e = t - a
        density = law.second[0, k]
        a2 = a * a
        third = a * (a2 - 3.0)
        cdf = law.first[0, k] + density * e * (
            1.0 - e * (0.5 * a - e * ((a2 - 1.0) / 6.0 - e * third / 24.0))
        )
        pdf = density * (
            1.0
            - e
            * (
                a
                - e
                * (
                    0.5 * (a2 - 1.0)
                    - e * (third / 6.0 - e * ((a2 - 6.0) * a2 + 3.0) / 24.0)
                )
            )
        )
        return cdf, -pdf
    if t < law.lower[j]:
        return 0.0, 0.0
    if t >= law.upper[j]:
        return 1.0, law.total[j]
    cell = int((t - law.origin[j]) * law.scale[j])
    cell = min(cell, law.start.shape[1] - 2)
    low = law.start[j, cell]
    high = law.start[j, cell + 1]
    while low < high:
        middle = (low + high) >> 1
        if law.values[j, middle] <= t:
            low = middle + 1
        else:
            high = middle
    return law.first[j, low], law.second[j, low]
