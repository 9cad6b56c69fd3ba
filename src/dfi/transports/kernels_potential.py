"""A convex potential of ridge functions, its gradient and its inverse, compiled.

Direction ``m`` has the weights ``weight[m]`` of the three coordinates ``place[m]``, the last of
them 0 where it lies in a plane or on an axis. The second derivative of its ridge function is
straight between the knots ``start + k * step``, where it is ``bend[m, k]``, and constant beyond
them; ``level[m, k]`` is the first derivative at the knots, 0 in the middle.

Sixteen rows are worked on at a time, the last axis of every scratch array: small matrices are
factored in the vector units of the processor, four times as fast as one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._compiled import SOURCES, AllocatingKernel, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._types import Floats

    Integers = NDArray[np.int32]

LANES = 16

NEAR = 1e-7
"""Error of the latent row from which one step of Newton's method is right to rounding."""


@inlined
def _slope_and_bend(
    u: float, m: int, start: float, step: float, bend: Floats, level: Floats
) -> tuple[int, float, float, float]:
    """Return the cell, the place in it, and both derivatives of a ridge function."""
    last = bend.shape[1] - 1
    at = (u - start) / step
    if at <= 0.0:
        return 0, at, level[m, 0] + step * at * bend[m, 0], bend[m, 0]
    if at >= last:
        beyond = at - last
        return last, beyond, level[m, last] + step * beyond * bend[m, last], bend[m, last]
    k = int(at)
    f = at - k
    rise = bend[m, k + 1] - bend[m, k]
    return k, f, level[m, k] + step * f * (bend[m, k] + 0.5 * f * rise), bend[m, k] + f * rise


@inlined
def _gradient_and_hessian(
    x: Floats, place: Integers, weight: Floats, start: float, step: float, bend: Floats,
    level: Floats, shift: Floats, floor: float, gradient: Floats, hessian: Floats,
    cell: NDArray[np.int64], inside: Floats,
) -> None:  # fmt: skip
    """Write gradients (d, lanes), the lower halves of Hessians, and the cells of the ridges."""
    d = x.shape[0]
    slope, curve = np.empty(LANES), np.empty(LANES)
    for a in range(d):
        for i in range(LANES):
            gradient[a, i] = floor * x[a, i] + shift[a]
            hessian[a, a, i] = floor
        for b in range(a):
            for i in range(LANES):
                hessian[a, b, i] = 0.0
    for m in range(place.shape[0]):
        a, b, c = place[m, 0], place[m, 1], place[m, 2]
        p, q, r = weight[m, 0], weight[m, 1], weight[m, 2]
        for i in range(LANES):
            slope[i] = p * x[a, i] + q * x[b, i] + r * x[c, i]
        for i in range(LANES):
            cell[m, i], inside[m, i], slope[i], curve[i] = _slope_and_bend(
                slope[i], m, start, step, bend, level
            )
        for i in range(LANES):
            gradient[a, i] += p * slope[i]
            hessian[a, a, i] += p * p * curve[i]
        if q != 0.0:
            high, low = max(a, b), min(a, b)
            for i in range(LANES):
                gradient[b, i] += q * slope[i]
                hessian[b, b, i] += q * q * curve[i]
                hessian[high, low, i] += p * q * curve[i]
        if r != 0.0:
            high, low = max(a, c), min(a, c)
            for i in range(LANES):
                gradient[c, i] += r * slope[i]
                hessian[c, c, i] += r * r * curve[i]
                hessian[high, low, i] += p * r * curve[i]
            high, low = max(b, c), min(b, c)
            for i in range(LANES):
                hessian[high, low, i] += q * r * curve[i]


@inlined
def _factor(matrix: Floats) -> None:
    """Replace lower halves by Cholesky factors with the reciprocals of their diagonals."""
    d = matrix.shape[0]
    total = np.empty(LANES)
    for a in range(d):
        for b in range(a + 1):
            for i in range(LANES):
                total[i] = matrix[a, b, i]
            for k in range(b):
                for i in range(LANES):
                    total[i] -= matrix[a, k, i] * matrix[b, k, i]
            if a == b:
                for i in range(LANES):
                    matrix[a, a, i] = 1.0 / np.sqrt(total[i])
            else:
                for i in range(LANES):
                    matrix[a, b, i] = total[i] * matrix[b, b, i]


@inlined
def _solve(factor: Floats, values: Floats) -> None:
    """Replace values (d, lanes) by the solutions of the factored systems."""
    d = factor.shape[0]
    for a in range(d):
        for k in range(a):
            for i in range(LANES):
                values[a, i] -= factor[a, k, i] * values[k, i]
        for i in range(LANES):
            values[a, i] *= factor[a, a, i]
    for a in range(d - 1, -1, -1):
        for k in range(a + 1, d):
            for i in range(LANES):
                values[a, i] -= factor[k, a, i] * values[k, i]
        for i in range(LANES):
            values[a, i] *= factor[a, a, i]


@inlined
def _invert(factor: Floats, column: Floats) -> None:
    """Replace factors by the lower halves of the inverses; ``column`` (d, d, lanes) is scratch."""
    d = factor.shape[0]
    total = np.empty(LANES)
    for b in range(d):
        for i in range(LANES):
            column[b, b, i] = factor[b, b, i]
        for a in range(b + 1, d):
            for i in range(LANES):
                total[i] = 0.0
            for k in range(b, a):
                for i in range(LANES):
                    total[i] -= factor[a, k, i] * column[b, k, i]
            for i in range(LANES):
                column[b, a, i] = total[i] * factor[a, a, i]
    for a in range(d):
        for b in range(a + 1):
            for i in range(LANES):
                total[i] = 0.0
            for k in range(a, d):
                for i in range(LANES):
                    total[i] += column[a, k, i] * column[b, k, i]
            for i in range(LANES):
                factor[a, b, i] = total[i]


@AllocatingKernel
def potential_likelihood(
    rows: Floats, mass: Floats, place: Integers, weight: Floats, start: float, step: float,
    bend: Floats, level: Floats, shift: Floats, floor: float,
    latent: Floats, loss: Floats, on_bend: Floats, on_level: Floats,
    _sources: int = SOURCES,
) -> None:  # fmt: skip
    """Write the gradient of the potential at rows, and ``|z|^2 / 2 - log det`` of its Hessian."""
    n, d = rows.shape
    count, last = bend.shape[0], bend.shape[1] - 1
    hessian, column = np.empty((d, d, LANES)), np.empty((d, d, LANES))
    x, gradient = np.zeros((d, LANES)), np.empty((d, LANES))
    cell, inside = np.empty((count, LANES), np.int64), np.empty((count, LANES))
    slope, curve = np.empty(LANES), np.empty(LANES)
    for first in range(0, n, LANES):
        here = min(LANES, n - first)
        for i in range(here):
            for a in range(d):
                x[a, i] = rows[first + i, a]
        _gradient_and_hessian(
            x, place, weight, start, step, bend, level, shift, floor, gradient,
            hessian, cell, inside,
        )  # fmt: skip
        _factor(hessian)
        for i in range(here):
            total = 0.0
            for a in range(d):
                latent[first + i, a] = gradient[a, i]
                total += 0.5 * gradient[a, i] * gradient[a, i] + 2.0 * np.log(hessian[a, a, i])
            loss[first + i] = total
        if on_bend.shape[0] == 0:
            continue
        _invert(hessian, column)
        for m in range(count):
            a, b, c = place[m, 0], place[m, 1], place[m, 2]
            p, q, r = weight[m, 0], weight[m, 1], weight[m, 2]
            for i in range(LANES):
                slope[i] = p * gradient[a, i] + q * gradient[b, i] + r * gradient[c, i]
                curve[i] = p * p * hessian[a, a, i]
            if q != 0.0:
                high, low = max(a, b), min(a, b)
                for i in range(LANES):
                    curve[i] += q * (q * hessian[b, b, i] + 2.0 * p * hessian[high, low, i])
            if r != 0.0:
                high, low = max(a, c), min(a, c)
                for i in range(LANES):
                    curve[i] += r * (r * hessian[c, c, i] + 2.0 * p * hessian[high, low, i])
                high, low = max(b, c), min(b, c)
                for i in range(LANES):
                    curve[i] += 2.0 * q * r * hessian[high, low, i]
            for i in range(here):
                k, f = cell[m, i], inside[m, i]
                on_slope, on_curve = mass[first + i] * slope[i], -mass[first + i] * curve[i]
                on_level[m, k] += on_slope
                if f <= 0.0 or k == last:
                    on_bend[m, k] += on_slope * step * f + on_curve
                else:
                    half = 0.5 * f * f
                    on_bend[m, k] += on_slope * step * (f - half) + on_curve * (1.0 - f)
                    on_bend[m, k + 1] += on_slope * step * half + on_curve * f


@AllocatingKernel
def potential_inverse(
    latent: Floats, place: Integers, weight: Floats, start: float, step: float, bend: Floats,
    level: Floats, shift: Floats, floor: float, rows: Floats,
    _sources: int = SOURCES,
) -> None:  # fmt: skip
    """Write the rows whose gradient is given, by Newton's method."""
    n, d = latent.shape
    stretch = (n + LANES - 1) // LANES
    hessian, gradient = np.empty((d, d, LANES)), np.empty((d, LANES))
    shape = (bend.shape[0], LANES)
    cell, inside = np.empty(shape, np.int64), np.empty(shape)
    best, tried = np.zeros((d, LANES)), np.zeros((d, LANES))
    move, change = np.zeros((d, LANES)), np.zeros((d, LANES))
    length, steps = np.zeros(LANES), np.zeros(LANES)
    found, left_over = np.empty(LANES), np.empty(LANES)
    at, end = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    working = 0
    for i in range(LANES):
        at[i], end[i] = min(n, i * stretch), min(n, (i + 1) * stretch)
        left_over[i] = 1e300
        if at[i] < end[i]:
            working += 1
            for a in range(d):
                best[a, i] = latent[at[i], a]
    while working > 0:
        for a in range(d):
            for i in range(LANES):
                tried[a, i] = best[a, i] + length[i] * move[a, i]
        _gradient_and_hessian(
            tried, place, weight, start, step, bend, level, shift, floor,
            gradient, hessian, cell, inside,
        )  # fmt: skip
        for i in range(LANES):
            found[i] = 0.0
            if at[i] < end[i]:
                for a in range(d):
                    change[a, i] = latent[at[i], a] - gradient[a, i]
                    found[i] += change[a, i] ** 2
        _factor(hessian)
        _solve(hessian, change)
        for i in range(LANES):
            if at[i] == end[i]:
                continue
            steps[i] += 1
            if found[i] < left_over[i]:
                left_over[i], length[i] = found[i], 1.0
                for a in range(d):
                    best[a, i], move[a, i] = tried[a, i], change[a, i]
            else:
                length[i] *= 0.5
            near = left_over[i] <= NEAR * NEAR
            if not near and length[i] >= 1e-9 and steps[i] < 200:
                continue
            distance, size = 0.0, 0.0
            following = min(at[i] + 1, n - 1)
            for a in range(d):
                if near:
                    best[a, i] += move[a, i]
                rows[at[i], a] = best[a, i]
                size += latent[following, a] ** 2
                distance += (latent[following, a] - latent[at[i], a]) ** 2
            at[i] += 1
            if at[i] == end[i]:
                working -= 1
                continue
            left_over[i], length[i], steps[i] = 1e300, 0.0, 0.0
            if distance >= size:
                for a in range(d):
                    best[a, i] = latent[at[i], a]
