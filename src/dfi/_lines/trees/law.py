"""The law of the replacement value, evaluated inside the kernels.

Both laws are given by two functions of one argument: the distribution function ``F(t)`` and the
partial first moment ``H(t) = E[T 1(T <= t)]``. A piece ``(a, b]`` on which the model equals ``v``
adds ``v (F(b) - F(a))`` to the line mean and ``v (H(b) - H(a))`` to the first Hermite moment.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr

from dfi._compiled import TupleType, chosen_by_type, inlined

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfi._lines.base import Reference
    from dfi._types import Floats

    Body = Callable[..., tuple[float, float]]

# Phi(-7.5) = 3e-14: what is cut off stays far below the 1e-10 promised for the law.
TAIL = 7.5
PER_UNIT = 128
# A cell in the middle of normal atoms then holds three or more of them in 1 of 30 cases.
CELLS_PER_ATOM = 4
MOST_CELLS = 1 << 16
# Just above half a unit in the last place: subtracting this part of a number steps below it.
HALF_ULP = 1.1102230246251568e-16


class NormalLaw(NamedTuple):
    """The normal law: coefficients of a cubic for ``F`` and of one for ``H`` in each cell."""

    cubics: Floats
    total: Floats
    below: float


class EmpiricalLaw(NamedTuple):
    """The empirical law of each coordinate, one after the other.

    Of each coordinate, ``values`` holds the ``width`` distinct atoms, ascending and followed by
    infinity, ``steps`` the pair ``(F, H)`` below each atom, and ``start`` the first atom of each of
    ``n_cells`` equal cells, ``scale`` of them per unit from ``lower`` on, and one past the last.
    """

    values: Floats
    steps: Floats
    start: NDArray[np.uint32]
    width: int
    n_cells: int
    scale: Floats
    lower: Floats
    total: Floats
    below: float


class EmpiricalCoordinate(NamedTuple):
    """One coordinate of an :class:`EmpiricalLaw`."""

    values: Floats
    steps: Floats
    start: NDArray[np.uint32]
    n_cells: int
    scale: float
    lower: float
    total: float
    below: float


class NormalCoordinate(NamedTuple):
    """One coordinate of a :class:`NormalLaw`."""

    cubics: Floats
    total: float
    below: float


Law = NormalLaw | EmpiricalLaw
CoordinateLaw = NormalCoordinate | EmpiricalCoordinate


def coordinate_law(law: Law, j: int) -> CoordinateLaw:
    if isinstance(law, NormalLaw):
        return NormalCoordinate(law.cubics, float(law.total[j]), law.below)
    atoms = slice(j * law.width, (j + 1) * law.width)
    return EmpiricalCoordinate(
        law.values[atoms],
        law.steps[atoms],
        law.start[j * (law.n_cells + 1) : (j + 1) * (law.n_cells + 1)],
        law.n_cells,
        float(law.scale[j]),
        float(law.lower[j]),
        float(law.total[j]),
        law.below,
    )


def step_below(law: Law | CoordinateLaw, shifts: Floats) -> float:
    """Return the least step below small numbers that survives adding the largest shift."""
    return law.below * (1e-284 + 2.1 * float(np.abs(shifts).max()))


def tabulate(reference: Reference, d: int) -> tuple[Law, Floats, Floats]:
    """Tabulate a reference law of ``d`` coordinates; return it with the ends of its support.

    ``total`` is the mean of each coordinate. ``below`` is the part of a number to be subtracted in
    order to step below it, which matters for atoms only. The tables of a law live as long as the
    law does: rows come in blocks, and many columns take longer to tabulate than a block to walk.
    """
    if reference.kind == "gaussian":
        ends = np.full(d, TAIL)
        return NormalLaw(_normal_cubics(), np.zeros(d), 0.0), -ends, ends
    return reference.kept(_tabulate_atoms)


def _tabulate_atoms(reference: Reference) -> tuple[Law, Floats, Floats]:
    if reference.values is None or reference.cumulative is None:
        raise TypeError("an empirical reference law needs values and cumulative probabilities")
    values, steps = _distinct_atoms(reference.values.T, reference.cumulative.T)
    lower, upper = reference.values[0].copy(), reference.values[-1].copy()
    d = len(values)
    n_cells = min(CELLS_PER_ATOM * values.shape[1], MOST_CELLS)
    scale = n_cells / np.where(upper > lower, upper - lower, 1.0)
    # The kernels compute the cell of a number in the same way, so atoms are never missed.
    place = np.minimum((values - lower[:, None]) * scale[:, None], n_cells - 1)
    cell = np.where(np.isfinite(values), place, n_cells).astype(np.int64)
    start = np.zeros((d, n_cells + 1), dtype=np.uint32)
    for j in range(d):
        np.cumsum(np.bincount(cell[j], minlength=n_cells + 1)[:n_cells], out=start[j, 1:])
    total, width = steps[:, -1, 1].copy(), values.shape[1]
    tables = (values.ravel(), steps.reshape(-1, 2), start.ravel())
    law = EmpiricalLaw(*tables, width, n_cells, scale, lower, total, HALF_ULP)
    return law, lower, upper


def _distinct_atoms(values: Floats, cumulative: Floats) -> tuple[Floats, Floats]:
    """Return distinct atoms, padded with infinity, and the pairs ``(F, H)`` below each of them."""
    d = len(values)
    mass = np.diff(cumulative, axis=1, prepend=0.0)
    below = np.stack([cumulative, np.cumsum(mass * values, axis=1)], axis=2)
    # A tie is stepped over at once, at its last atom.
    is_last = np.diff(values, axis=1, append=np.inf) > 0
    if is_last.all():
        edge = np.full((d, 1), np.inf)
        return np.hstack([values, edge]), np.pad(below, ((0, 0), (1, 0), (0, 0)))
    rank = np.cumsum(is_last, axis=1) - 1
    width = int(rank[:, -1].max()) + 1
    atoms = np.full((d, width + 1), np.inf)
    steps = np.empty((d, width + 1, 2))
    steps[:, :1] = 0.0
    steps[:, 1:] = below[:, -1:]
    row, column = np.nonzero(is_last)
    atoms[row, rank[row, column]] = values[row, column]
    steps[row, rank[row, column] + 1] = below[row, column]
    return atoms, steps


@functools.cache
def _normal_cubics() -> Floats:
    """Interpolate ``Phi`` and ``-phi`` at the Chebyshev points of each cell: error below 2e-12.

    ``Phi`` is that of the law truncated to the tabulated range, so masses add up to 1.
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
    """Return ``F(t)`` and ``H(t)`` of coordinate ``j``.

    The kernels are compiled once per kind of law: deciding between them at every evaluation made
    the kernels six times slower. Indices are unsigned throughout the kernels: numba then leaves out
    the check for negative ones, which halves the time of a visit.
    """
    if isinstance(law, NormalLaw):
        return _law_is_normal(law, int(j), t)
    return _law_is_empirical(law, int(j), t)


def evaluate_coordinate(law: CoordinateLaw, t: float) -> tuple[float, float]:
    """Return ``F(t)`` and ``H(t)``, a third quicker: one coordinate's tables stay in registers."""
    if isinstance(law, NormalCoordinate):
        return _coordinate_is_normal(law, t)
    return _coordinate_is_empirical(law, t)


@chosen_by_type(evaluate_law)
def _evaluate_law(law: TupleType, j: object, t: object) -> Body:  # noqa: ARG001
    return _law_is_normal if law.instance_class is NormalLaw else _law_is_empirical


@chosen_by_type(evaluate_coordinate)
def _evaluate_coordinate(law: TupleType, t: object) -> Body:  # noqa: ARG001
    is_normal = law.instance_class is NormalCoordinate
    return _coordinate_is_normal if is_normal else _coordinate_is_empirical


def _law_is_normal(law: NormalLaw, j: int, t: float) -> tuple[float, float]:  # noqa: ARG001
    return _normal(law.cubics, t)


def _law_is_empirical(law: EmpiricalLaw, j: int, t: float) -> tuple[float, float]:
    i = np.uint64(j)
    width = np.uint64(law.width)
    n_cells = np.uint64(law.n_cells)
    low = _rank(
        law.values, law.start, i * width, i * n_cells + i, n_cells, law.scale[i], law.lower[i], t
    )
    return law.steps[low, 0], law.steps[low, 1]


def _coordinate_is_normal(law: NormalCoordinate, t: float) -> tuple[float, float]:
    return _normal(law.cubics, t)


def _coordinate_is_empirical(law: EmpiricalCoordinate, t: float) -> tuple[float, float]:
    zero = np.uint64(0)
    n_cells = np.uint64(law.n_cells)
    low = _rank(law.values, law.start, zero, zero, n_cells, law.scale, law.lower, t)
    return law.steps[low, 0], law.steps[low, 1]


@inlined
def _normal(c: Floats, t: float) -> tuple[float, float]:
    t = t if t > -TAIL else -TAIL
    t = t if t < TAIL else TAIL
    u = (t + TAIL) * PER_UNIT
    whole = np.int64(u)
    k = np.uint64(whole)
    e = u - np.float64(whole)
    below = c[k, 0] + e * (c[k, 1] + e * (c[k, 2] + e * c[k, 3]))
    moment = c[k, 4] + e * (c[k, 5] + e * (c[k, 6] + e * c[k, 7]))
    return below, moment


@inlined
def _rank(
    values: Floats,
    start: NDArray[np.uint32],
    first_atom: np.uint64,
    first_cell: np.uint64,
    n_cells: np.uint64,
    scale: float,
    lower: float,
    t: float,
) -> np.uint64:
    """Return ``first_atom`` plus the number of atoms at or below ``t``.

    Offsets into one array for all coordinates: a view of one row would count its references.
    """
    one = np.uint64(1)
    last = np.float64(n_cells - one)
    place = (t - lower) * scale
    place = place if place > 0.0 else 0.0
    place = place if place < last else last
    cell = first_cell + np.uint64(np.int64(place))
    # A cell rarely holds more than two atoms. Two steps without a branch spare a wrong guess,
    # which would be noticed late and cost more than all the rest.
    first = first_atom + np.uint64(start[cell])
    low = first + np.uint64(values[first] <= t)
    low += np.uint64(values[low] <= t)
    high = first_atom + np.uint64(start[cell + one])
    if high > first + np.uint64(2):
        while low < high:
            middle = (low + high) >> one
            if values[middle] <= t:
                low = middle + one
            else:
                high = middle
    return low
