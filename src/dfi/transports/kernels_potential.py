"""A convex potential of ridge functions, its gradient and its inverse, compiled.

Direction ``m`` has the weights ``weight[m]`` of the three coordinates ``place[m]``, the last of
them 0 where it lies in a plane or on an axis. The second derivative of its ridge function is
straight between the knots ``start + k * step``, where it is ``bend[m, k]``, and constant beyond
them; ``level[m, k]`` is the first derivative at the knots, 0 in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._compiled import SOURCES, Kernel, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._types import Floats

    Integers = NDArray[np.int32]


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
) -> None:  # fmt: skip
    d = x.shape[0]
    for a in range(d):
        gradient[a] = floor * x[a] + shift[a]
        for b in range(d):
            hessian[a, b] = 0.0
        hessian[a, a] = floor
    for m in range(place.shape[0]):
        a, b, c = place[m, 0], place[m, 1], place[m, 2]
        p, q, r = weight[m, 0], weight[m, 1], weight[m, 2]
        u = p * x[a] + q * x[b] + r * x[c]
        _, _, slope, curve = _slope_and_bend(u, m, start, step, bend, level)
        gradient[a] += p * slope
        hessian[a, a] += p * p * curve
        if q != 0.0:
            gradient[b] += q * slope
            hessian[b, b] += q * q * curve
            hessian[a, b] += p * q * curve
            hessian[b, a] += p * q * curve
        if r != 0.0:
            gradient[c] += r * slope
            hessian[c, c] += r * r * curve
            hessian[a, c] += p * r * curve
            hessian[c, a] += p * r * curve
            hessian[b, c] += q * r * curve
            hessian[c, b] += q * r * curve


@inlined
def _factor(matrix: Floats) -> None:
    """Replace the lower half of a positive definite matrix by its Cholesky factor."""
    d = matrix.shape[0]
    for a in range(d):
        for b in range(a + 1):
            total = matrix[a, b]
            for k in range(b):
                total -= matrix[a, k] * matrix[b, k]
            if a == b:
                matrix[a, a] = np.sqrt(total)
            else:
                matrix[a, b] = total / matrix[b, b]


@inlined
def _solve(factor: Floats, values: Floats) -> None:
    """Replace values by the solution of the factored system."""
    d = factor.shape[0]
    for a in range(d):
        total = values[a]
        for k in range(a):
            total -= factor[a, k] * values[k]
        values[a] = total / factor[a, a]
    for a in range(d - 1, -1, -1):
        total = values[a]
        for k in range(a + 1, d):
            total -= factor[k, a] * values[k]
        values[a] = total / factor[a, a]


@Kernel
def potential_likelihood(
    rows: Floats, mass: Floats, place: Integers, weight: Floats, start: float, step: float,
    bend: Floats, level: Floats, shift: Floats, floor: float,
    latent: Floats, loss: Floats, on_bend: Floats, on_level: Floats,
    _sources: int = SOURCES,
) -> None:  # fmt: skip
    """Write the gradient of the potential at rows, and ``|z|^2 / 2 - log det`` of its Hessian.

    Where ``on_bend`` has rows, the derivatives of the weighted sum are added to it, and those by
    the levels at the knots to ``on_level``.
    """
    n, d = rows.shape
    last = bend.shape[1] - 1
    hessian, inverse = np.empty((d, d)), np.empty((d, d))
    gradient, column = np.empty(d), np.empty(d)
    for i in range(n):
        _gradient_and_hessian(
            rows[i], place, weight, start, step, bend, level, shift, floor, gradient,
            hessian,
        )  # fmt: skip
        _factor(hessian)
        total = 0.0
        for a in range(d):
            latent[i, a] = gradient[a]
            total += 0.5 * gradient[a] * gradient[a] - 2.0 * np.log(hessian[a, a])
        loss[i] = total
        if on_bend.shape[0] == 0:
            continue
        for b in range(d):
            for a in range(d):
                column[a] = 0.0
            column[b] = 1.0
            _solve(hessian, column)
            for a in range(d):
                inverse[a, b] = column[a]
        for m in range(place.shape[0]):
            a, b, c = place[m, 0], place[m, 1], place[m, 2]
            p, q, r = weight[m, 0], weight[m, 1], weight[m, 2]
            u = p * rows[i, a] + q * rows[i, b] + r * rows[i, c]
            k, f, _, _ = _slope_and_bend(u, m, start, step, bend, level)
            on_slope = mass[i] * (p * gradient[a] + q * gradient[b] + r * gradient[c])
            on_curve = p * (p * inverse[a, a] + 2.0 * q * inverse[a, b])
            on_curve += q * (q * inverse[b, b] + 2.0 * r * inverse[b, c])
            on_curve += r * (r * inverse[c, c] + 2.0 * p * inverse[a, c])
            on_curve *= -mass[i]
            on_level[m, k] += on_slope
            if f <= 0.0 or k == last:
                on_bend[m, k] += on_slope * step * f + on_curve
            else:
                half = 0.5 * f * f
                on_bend[m, k] += on_slope * step * (f - half) + on_curve * (1.0 - f)
                on_bend[m, k + 1] += on_slope * step * half + on_curve * f


@Kernel
def potential_inverse(
    latent: Floats, place: Integers, weight: Floats, start: float, step: float, bend: Floats,
    level: Floats, shift: Floats, floor: float, tolerance: float, rows: Floats,
    _sources: int = SOURCES,
) -> None:  # fmt: skip
    """Write the rows whose gradient is given, by Newton's method.

    It starts from the row before where its latent row is nearer than 0: along a curve neighbours
    are.
    """
    n, d = latent.shape
    hessian, gradient = np.empty((d, d)), np.empty(d)
    move, tried = np.empty(d), np.empty(d)
    for i in range(n):
        near, size = 0.0, 0.0
        for a in range(d):
            size += latent[i, a] ** 2
            near += (latent[i, a] - latent[i - 1, a]) ** 2 if i > 0 else 1e300
        for a in range(d):
            rows[i, a] = rows[i - 1, a] if near < size else latent[i, a]
        length, left_over = 1.0, 1e300
        for a in range(d):
            tried[a], move[a] = rows[i, a], 0.0
        for _ in range(200):
            for a in range(d):
                tried[a] = rows[i, a] + length * move[a]
            _gradient_and_hessian(
                tried, place, weight, start, step, bend, level, shift, floor,
                gradient, hessian,
            )  # fmt: skip
            found = 0.0
            for a in range(d):
                found += (latent[i, a] - gradient[a]) ** 2
            if found < left_over:
                left_over = found
                _factor(hessian)
                for a in range(d):
                    rows[i, a] = tried[a]
                    move[a] = latent[i, a] - gradient[a]
                if left_over <= tolerance * tolerance:
                    break
                _solve(hessian, move)
                length = 1.0
            else:
                length *= 0.5
                if length < 1e-9:
                    break
