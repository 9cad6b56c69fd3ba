"""The law of the replacement value, evaluated inside the kernels.

Both laws are given by two functions of one argument: the distribution function ``F(t)`` and the
partial first moment ``H(t) = E[T 1(T <= t)]``. A piece ``(a, b]`` on which the model equals ``v``
adds ``v (F(b) - F(a))`` to the line mean and ``v (H(b) - H(a))`` to the first Hermite moment.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from scipy.special import ndtr

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfi.lines.base import Reference

    Floats = NDArray[np.float64]

# Phi(-7.5) = 3e-14: what is cut off stays far below the 1e-10 promised for the law.
TAIL = 7.5
PER_UNIT = 128
# Just above half a unit in the last place: subtracting this part of a number steps below it.
HALF_ULP = 1.1102230246251568e-16


class NormalLaw(NamedTuple):
    """The normal law, the same for every coordinate.

    ``cubics`` holds the coefficients of a cubic for ``F`` and of one for ``H`` in each cell.
    """

    cubics: Floats
    total: Floats
    below: float


class EmpiricalLaw(NamedTuple):
    """The empirical law of each coordinate, one row each.

    ``values`` are the sorted atoms, ``steps[j, k]`` is the pair ``(F, H)`` below atom ``k``, and
    ``start`` the first atom of each of the equal cells between ``lower`` and ``upper``.
    """

    values: Floats
    steps: Floats
    start: NDArray[np.int32]
    scale: Floats
    lower: Floats
    upper: Floats
    total: Floats
    below: float


Law = NormalLaw | EmpiricalLaw


def tabulate(reference: Reference, d: int) -> tuple[Law, Floats, Floats]:
    """Tabulate a reference law of ``d`` coordinates; return it with the ends of its support.

    ``total`` is the mean of each coordinate. ``below`` is the part of a number to be subtracted in
    order to step below it, which matters for atoms only.
    """
    if reference.kind == "gaussian":
        ends = np.full(d, TAIL)
        return NormalLaw(_normal_cubics(), np.zeros(d), 0.0), -ends, ends
    if reference.values is None or reference.cumulative is None:
        raise TypeError("an empirical reference law needs values and cumulative probabilities")
    values = np.ascontiguousarray(reference.values.T, dtype=np.float64)
    cumulative = np.ascontiguousarray(reference.cumulative.T, dtype=np.float64)
    mass = np.diff(cumulative, axis=1, prepend=0.0)
    steps = np.zeros((*np.add(values.shape, (0, 1)), 2))
    steps[:, 1:, 0] = cumulative
    steps[:, 1:, 1] = np.cumsum(mass * values, axis=1)
    n_cells = min(8 * values.shape[1], 1 << 16)
    lower, upper = values[:, 0].copy(), values[:, -1].copy()
    width = np.where(upper > lower, upper - lower, 1.0)
    scale = n_cells / width
    cell = np.minimum(((values - lower[:, None]) * scale[:, None]).astype(np.int64), n_cells - 1)
    edges = np.arange(n_cells + 1)
    start = np.stack([np.searchsorted(row, edges).astype(np.int32) for row in cell])
    total = steps[:, -1, 1].copy()
    return EmpiricalLaw(values, steps, start, scale, lower, upper, total, HALF_ULP), lower, upper


@functools.cache
def _normal_cubics() -> Floats:
    """Interpolate ``Phi`` and ``-phi`` at the Chebyshev points of each cell: error below 2e-12.

    ``Phi`` is that of the law truncated to the tabulated range, so that masses add up to 1.
    """
    n_cells = int(2 * TAIL * PER_UNIT)
    within = 0.5 + np.cos((2 * np.arange(4) + 1) * np.pi / 8) / 2
    to_coefficients = np.linalg.inv(np.vander(within, increasing=True)).T
    t = (np.arange(n_cells)[:, None] + within) / PER_UNIT - TAIL
    outside = ndtr(-TAIL)
    cubics = np.zeros((n_cells + 1, 8))
    cubics[:-1, :4] = (ndtr(t) - outside) / (1 - 2 * outside) @ to_coefficients
    cubics[:-1, 4:] = -np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi) @ to_coefficients
    cubics[-1, 0] = 1.0
    return cubics


def evaluate_law(law: Law, j: int | np.uint64, t: float) -> tuple[float, float]:
    """Return ``F(t)`` and ``H(t)`` of coordinate ``j``, inside a kernel.

    The kernels are compiled once per kind of law: deciding between them at every evaluation made
    the kernels six times slower. Indices are unsigned throughout the kernels: numba then leaves out
    the check for negative ones, which halves the time of a visit.
    """
    raise NotImplementedError("compiled by numba")


@overload(evaluate_law, strict=False)
def _evaluate_law(law: Any, j: Any, t: Any) -> Callable[..., Any] | None:  # noqa: ARG001
    if not isinstance(law, types.NamedTuple):
        return None
    return _evaluate_normal if law.instance_class is NormalLaw else _evaluate_empirical


def _evaluate_normal(law: NormalLaw, j: int, t: float) -> tuple[float, float]:  # noqa: ARG001
    t = t if t > -TAIL else -TAIL
    t = t if t < TAIL else TAIL
    u = (t + TAIL) * PER_UNIT
    whole = np.int64(u)
    k = np.uint64(whole)
    e = u - np.float64(whole)
    c = law.cubics
    below = c[k, 0] + e * (c[k, 1] + e * (c[k, 2] + e * c[k, 3]))
    moment = c[k, 4] + e * (c[k, 5] + e * (c[k, 6] + e * c[k, 7]))
    return below, moment


def _evaluate_empirical(law: EmpiricalLaw, j: int, t: float) -> tuple[float, float]:
    i = np.uint64(j)
    upper = law.upper[i]
    t = t if t < upper else upper
    lower = law.lower[i]
    if t < lower:
        return 0.0, 0.0
    last = law.start.shape[1] - 2
    whole = np.int64((t - lower) * law.scale[i])
    cell = np.uint64(whole if whole < last else last)
    low = np.uint64(law.start[i, cell])
    high = np.uint64(law.start[i, cell + np.uint64(1)])
    while low < high:
        middle = (low + high) >> np.uint64(1)
        if law.values[i, middle] <= t:
            low = middle + np.uint64(1)
        else:
            high = middle
    return law.steps[i, low, 0], law.steps[i, low, 1]
