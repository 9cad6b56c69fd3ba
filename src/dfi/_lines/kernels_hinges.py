r"""Compiled line means of a network of bent hinges, and of a parabola beyond its bounds.

Along line ``j`` the unit ``k`` of row ``i`` has the argument :math:`a = \alpha + \beta t` with
:math:`\beta = w_k'\ell_j` and :math:`\alpha = w_k'x_i + b_k - (z_{ij} + \nu)\beta`. It bends where
``a`` is :math:`s_0, s_1, s_2`, at :math:`t_k = (s_k - \alpha)/\beta`, and its mean is a
polynomial in :math:`\alpha`, :math:`\beta` and the partial moments
:math:`S_p(t) = E[T^p;\, T < t]`, :math:`p = 0, \ldots, 3`, there
(:mod:`dfi._lines.closed_form`).

**Empirical law.** The atoms below ``t`` are counted from the first atom of the cell, of many equal
ones, that ``t`` lies in: no cell holds more than :math:`2^s - 1` of them, so ``s`` halvings without
a branch end at the number that a search of all atoms would find. The places of all units of a row
are looked up together, step by step: a look-up waits for memory, and those of other units need not
wait for it.

**Normal law.** :math:`\Phi` by its Taylor polynomial of degree 7 at the centre of one of 64 cells
per unit, and :math:`\varphi` by the derivative of that: their errors are below 1e-15.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr

from dfi._compiled import SOURCES, Kernel, TupleType, chosen_by_type, inlined

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfi._lines.base import Reference
    from dfi._types import Floats

    Find = Callable[..., None]
    Read = Callable[..., tuple[float, float, float, float]]

BEND = 2.0
"""Where a unit's parabola ends, as in :mod:`dfi._learners.network`: a constant once compiled."""

# Phi(-9) = 1e-19, and with it all partial moments below -9, are less than the rounding of 1.
TAIL = 9.0
PER_UNIT = 64
DEGREE = 7
# More cells need fewer halvings but more memory, which large laws wait for: 1/2 was the quickest.
ATOMS_PER_CELL = 2
# A smaller change of a unit's argument along a line has no inverse, and none that matters.
STILL = 1e-150


class NormalBends(NamedTuple):
    """The normal law: coefficients of the polynomial of each cell (cells, 8), and all moments."""

    coefficients: Floats
    whole: tuple[float, float, float, float]


class EmpiricalBends(NamedTuple):
    """The empirical law of one coordinate.

    ``values`` holds the distinct atoms, ascending, then infinity; ``sums[k]`` the partial moments
    ``(S_0, ..., S_3)`` below atom ``k``; ``start`` the first atom of each cell, of which there are
    ``scale`` per unit from ``lower`` on, ``last`` the number of the last one.
    """

    values: Floats
    sums: Floats
    start: NDArray[np.uint32]
    halvings: int
    scale: float
    lower: float
    last: float
    whole: tuple[float, float, float, float]


Bends = NormalBends | EmpiricalBends


def bends_of(reference: Reference, d: int) -> tuple[Bends, ...]:
    """Return the partial moments of each coordinate of a law, tabulated once."""
    if reference.values is None or reference.cumulative is None:
        return (NormalBends(_taylor(), (1.0, 0.0, 1.0, 0.0)),) * d
    return reference.kept(_tabulated)


def _tabulated(reference: Reference) -> tuple[Bends, ...]:
    if reference.values is None or reference.cumulative is None:
        raise TypeError("an empirical reference law needs values and cumulative probabilities")
    return tuple(
        tabulated_atoms(np.ascontiguousarray(values), np.diff(cumulative, prepend=0.0))
        for values, cumulative in zip(reference.values.T, reference.cumulative.T, strict=True)
    )


def tabulated_atoms(values: Floats, mass: Floats) -> EmpiricalBends:
    """Tabulate the law of one coordinate from ascending values and their probabilities."""
    is_last = np.diff(values, append=np.inf) > 0
    atoms = values[is_last]
    sums = np.zeros((len(atoms) + 1, 4))
    power = mass.copy()
    for p in range(4):
        sums[1:, p] = np.cumsum(power)[is_last]
        power *= values
    n_cells = 1 + len(atoms) // ATOMS_PER_CELL
    lower, width = float(atoms[0]), float(atoms[-1] - atoms[0])
    scale = n_cells / width if width > STILL else 1.0
    # The kernel computes the cell of a number in the same way: no atom below one is in a later
    # cell, and none at or above it in an earlier one.
    cell = np.minimum((atoms - lower) * scale, n_cells - 1.0).astype(np.int64)
    counts = np.bincount(cell, minlength=n_cells)
    start = np.zeros(n_cells, np.uint32)
    np.cumsum(counts[:-1], out=start[1:])
    halvings = int(counts.max()).bit_length()
    padded = np.concatenate([atoms, np.full(1 << halvings, np.inf)])
    whole: tuple[float, float, float, float] = tuple(sums[-1].tolist())
    return EmpiricalBends(padded, sums, start, halvings, scale, lower, n_cells - 1.0, whole)


@functools.cache
def _taylor() -> Floats:
    r"""Return :math:`\Phi^{(m)}(c)/m!` at the centre of each cell, for a distance in cells.

    :math:`\Phi^{(m)} = (-1)^{m-1} He_{m-1} \varphi` by the recursion of Hermite's polynomials.
    """
    centre = (np.arange(int(2 * TAIL * PER_UNIT) + 1) + 0.5) / PER_UNIT - TAIL
    coefficients = np.empty((len(centre), DEGREE + 1))
    coefficients[:, 0] = ndtr(centre)
    before, derivative = np.zeros_like(centre), np.exp(-0.5 * centre**2) / np.sqrt(2.0 * np.pi)
    factor = 1.0
    for m in range(1, DEGREE + 1):
        factor /= m * PER_UNIT
        coefficients[:, m] = factor * derivative
        before, derivative = derivative, -centre * derivative - (m - 1) * before
    return coefficients


def find_places(law: Bends, at: Floats, places: NDArray[np.uint32]) -> None:
    """Write how many atoms lie below each of ``at``; a normal law has none."""
    if isinstance(law, EmpiricalBends):
        _find_atoms(law, at, places)


def moments_below(law: Bends, place: np.uint32, t: float) -> tuple[float, float, float, float]:
    """Return the partial moments below ``t``, which has ``place`` atoms below it."""
    if isinstance(law, EmpiricalBends):
        return _sums_below(law, place, t)
    return _normal_below(law, place, t)


@chosen_by_type(find_places)
def _find_places(law: TupleType, at: object, places: object) -> Find:  # noqa: ARG001
    return _find_nothing if law.instance_class is NormalBends else _find_atoms


@chosen_by_type(moments_below)
def _moments_below(law: TupleType, place: object, t: object) -> Read:  # noqa: ARG001
    return _normal_below if law.instance_class is NormalBends else _sums_below


def _find_nothing(law: NormalBends, at: Floats, places: NDArray[np.uint32]) -> None:
    pass


def _find_atoms(law: EmpiricalBends, at: Floats, places: NDArray[np.uint32]) -> None:
    one = np.uint64(1)
    count = np.uint64(at.size)
    for k in range(count):
        place = (at[k] - law.lower) * law.scale
        place = place if place > 0.0 else 0.0
        place = place if place < law.last else law.last
        places[k] = law.start[np.uint64(np.int64(place))]
    half = one << np.uint64(law.halvings)
    for _ in range(law.halvings):
        half = half >> one
        middle = half - one
        for k in range(count):
            first = np.uint64(places[k])
            places[k] = np.uint32(first + half * np.uint64(law.values[first + middle] < at[k]))


def _sums_below(
    law: EmpiricalBends,
    place: np.uint32,
    t: float,  # noqa: ARG001
) -> tuple[float, float, float, float]:
    k = np.uint64(place)
    return law.sums[k, 0], law.sums[k, 1], law.sums[k, 2], law.sums[k, 3]


def _normal_below(
    law: NormalBends,
    place: np.uint32,  # noqa: ARG001
    t: float,
) -> tuple[float, float, float, float]:
    t = t if t > -TAIL else -TAIL
    t = t if t < TAIL else TAIL
    u = (t + TAIL) * PER_UNIT
    whole = np.int64(u)
    k = np.uint64(whole)
    e = u - np.float64(whole) - 0.5
    c = law.coefficients
    c1, c2, c3, c4, c5, c6, c7 = c[k, 1], c[k, 2], c[k, 3], c[k, 4], c[k, 5], c[k, 6], c[k, 7]
    below = c[k, 0] + e * (c1 + e * (c2 + e * (c3 + e * (c4 + e * (c5 + e * (c6 + e * c7))))))
    upper = 4.0 * c4 + e * (5.0 * c5 + e * (6.0 * c6 + e * (7.0 * c7)))
    density = (c1 + e * (2.0 * c2 + e * (3.0 * c3 + e * upper))) * PER_UNIT
    return below, -density, below - t * density, -(t * t + 2.0) * density


@inlined
def standing(a: float) -> float:
    """Return the value of a unit whose argument does not change along the line."""
    if a >= BEND:
        return 2.0 * BEND * a - BEND * BEND
    return a * a if a > 0.0 else 0.0


@Kernel
def exceeding_moments(
    law: Bends,
    value: Floats,
    slope: Floats,
    bend: float,
    latent: Floats,
    shifts: Floats,
    lowest: float,
    highest: float,
    at: Floats,
    places: NDArray[np.uint32],
    out: Floats,
    _sources: int = SOURCES,
) -> None:
    """Write the mean of what a parabola has above bounds less below them, and that times ``t``.

    Along the line of row ``i`` it is ``value[i] + slope[i] s + bend s^2``, ``s`` the distance from
    the row, which is at ``latent[i]`` and one of the ``shifts`` (q,); ``at`` and ``places`` (2,)
    are memory for the roots and the atoms below them; ``out`` (2, q, n) is written.
    """
    w0, w1, w2, w3 = law.whole
    for i in range(np.uint64(latent.size)):
        for q in range(np.uint64(shifts.size)):
            if q > np.uint64(0) and shifts[q] == shifts[0]:
                out[0, q, i], out[1, q, i] = out[0, 0, i], out[1, 0, i]
                continue
            z = latent[i] + shifts[q]
            level = value[i] - z * (slope[i] - z * bend)
            rise = slope[i] - 2.0 * z * bend
            out[0, q, i], out[1, q, i] = 0.0, 0.0
            for sign in (1.0, -1.0):
                # the mean of the positive part of a + b t + c t^2
                a = sign * (level - (highest if sign > 0.0 else lowest))
                b, c = sign * rise, sign * bend
                root = b * b - 4.0 * a * c
                if root <= 0.0 or (b == 0.0 and c == 0.0):
                    # no roots: on one side of 0 everywhere
                    if c > 0.0 or (c == 0.0 and a > 0.0):
                        out[0, q, i] += sign * (a * w0 + b * w1 + c * w2)
                        out[1, q, i] += sign * (a * w1 + b * w2 + c * w3)
                    continue
                far = -0.5 * (b + np.sqrt(root)) if b > 0.0 else -0.5 * (b - np.sqrt(root))
                if c == 0.0:
                    at[0] = at[1] = -a / b
                else:
                    one, other = far / c, a / far
                    at[0], at[1] = (one, other) if one < other else (other, one)
                find_places(law, at, places)
                c0, c1, c2, c3 = moments_below(law, places[0], at[0])
                e0, e1, e2, e3 = moments_below(law, places[1], at[1])
                if c > 0.0:
                    p0, p1, p2, p3 = w0 - (e0 - c0), w1 - (e1 - c1), w2 - (e2 - c2), w3 - (e3 - c3)
                elif c < 0.0:
                    p0, p1, p2, p3 = e0 - c0, e1 - c1, e2 - c2, e3 - c3
                elif b > 0.0:
                    p0, p1, p2, p3 = w0 - c0, w1 - c1, w2 - c2, w3 - c3
                else:
                    p0, p1, p2, p3 = c0, c1, c2, c3
                out[0, q, i] += sign * (a * p0 + b * p1 + c * p2)
                out[1, q, i] += sign * (a * p1 + b * p2 + c * p3)


@Kernel
def hinge_moments(
    law: Bends,
    base: Floats,
    beta: Floats,
    inverse: Floats,
    bends: Floats,
    slopes: Floats,
    latent: Floats,
    shifts: Floats,
    at: Floats,
    places: NDArray[np.uint32],
    mean: Floats,
    hermite: Floats,
    _sources: int = SOURCES,
) -> None:
    """Write the means of a network along lines of one direction, and those times ``t``.

    ``base`` (n, K) are the arguments of the units at the rows, ``beta`` (K,) their changes along
    the lines and ``inverse`` 1 over them, 0 where a unit stands still; ``bends`` (3, K) the
    arguments where a unit's parabola begins and ends and where its straight line ends; ``latent``
    (n,) and ``shifts`` (q,) where the rows are on their lines; ``at`` and ``places`` (3 K,) memory;
    ``mean`` and ``hermite`` (q, n) what is written.
    """
    n_units, two = np.uint64(beta.size), np.uint64(2)
    w0, w1, _, _ = law.whole
    for i in range(np.uint64(latent.size)):
        for q in range(np.uint64(shifts.size)):
            if q > np.uint64(0) and shifts[q] == shifts[0]:
                mean[q, i], hermite[q, i] = mean[0, i], hermite[0, i]
                continue
            z = latent[i] + shifts[q]
            for k in range(n_units):
                zero = z - base[i, k] * inverse[k]
                at[k] = zero + bends[0, k] * inverse[k]
                at[k + n_units] = zero + bends[1, k] * inverse[k]
                at[k + two * n_units] = zero + bends[2, k] * inverse[k]
            find_places(law, at, places)
            first, second = 0.0, 0.0
            for k in range(n_units):
                b = beta[k]
                a = base[i, k] - z * b
                low, high = bends[0, k], bends[2, k]
                if inverse[k] == 0.0:
                    a = a if a > low else low
                    value = slopes[k] * standing(a if a < high else high)
                    first += value * w0
                    second += value * w1
                    continue
                c0, c1, c2, c3 = moments_below(law, places[k], at[k])
                e0, e1, e2, e3 = moments_below(law, places[k + n_units], at[k + n_units])
                end = k + two * n_units
                g0, g1, g2, _ = moments_below(law, places[end], at[end])
                # If the argument rises along the line, the parabola, the straight line and the flat
                # end follow upon each other; if it falls, they precede each other.
                up = 1.0 if b > 0.0 else 0.0
                sign = 2.0 * up - 1.0
                q0, q1 = sign * (e0 - c0), sign * (e1 - c1)
                q2, q3 = sign * (e2 - c2), sign * (e3 - c3)
                t0, t1, t2 = sign * (g0 - e0), sign * (g1 - e1), sign * (g2 - e2)
                floor, roof = standing(low), standing(high)
                ends = roof * (up * w0 - sign * g0) + floor * ((1.0 - up) * w0 + sign * c0)
                tilt = roof * (up * w1 - sign * g1) + floor * ((1.0 - up) * w1 + sign * c1)
                square, cross, bent = a * a, 2.0 * a * b, b * b
                level, rise = 2.0 * BEND * a - BEND * BEND, 2.0 * BEND * b
                slope = slopes[k]
                first += slope * (
                    square * q0 + cross * q1 + bent * q2 + level * t0 + rise * t1 + ends
                )
                second += slope * (
                    square * q1 + cross * q2 + bent * q3 + level * t1 + rise * t2 + tilt
                )
            mean[q, i] = first
            hermite[q, i] = second
