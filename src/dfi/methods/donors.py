r"""Rows with some columns taken from other rows, and the model's predictions of them.

Every row takes the columns from ``m`` donors of its own fold: cyclic shifts of a random order, so
that no row is its own donor, every row gives exactly as often as it receives, and all pairs are
visited when ``m`` is the number of the other rows. This makes the averages (incomplete, balanced)
U-statistics without their diagonal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dfi._types import Floats, Ints

    Rows = Ints


def choose_shifts(n: int, count: int, generator: np.random.Generator) -> tuple[Rows, Rows]:
    """Return a random order of ``n`` rows and at most ``count`` different cyclic shifts of it."""
    if n < 2:
        raise ValueError(
            "a fold has one test row, which has no other row to be compared with: use fewer folds"
        )
    order = generator.permutation(n).astype(np.intp)
    shifts = generator.permutation(n - 1)[: min(count, n - 1)] + 1
    return order, np.sort(shifts).astype(np.intp)


def donor_rows(order: Rows, shifts: Rows) -> Rows:
    """Return the donors of each row, (n, m)."""
    n = len(order)
    place = np.empty(n, dtype=np.intp)
    place[order] = np.arange(n)
    return np.asarray(order[(place[:, None] + shifts[None, :]) % n])


def donor_shares(mass: Floats, donors: Rows) -> Floats:
    """Return the weight of each donor among those of its row, (n, m), rows summing to 1."""
    share = mass[donors]
    total = share.sum(axis=1, keepdims=True)
    even = np.full_like(share, 1.0 / donors.shape[1])
    return np.asarray(np.divide(share, total, out=even, where=total > 0))


def as_donors(values: Floats, mass: Floats, donors: Rows) -> Floats:
    """Return, for each row, the weighted mean of ``values[i, s]`` over the rows it gave to."""
    n = len(mass)
    weight = np.repeat(mass[:, None], donors.shape[1], axis=1).ravel()
    total = np.bincount(donors.ravel(), weight * values.ravel(), minlength=n)
    count = np.bincount(donors.ravel(), weight, minlength=n)
    mean = float(np.average(values, weights=np.broadcast_to(mass[:, None], values.shape)))
    return np.asarray(np.divide(total, count, out=np.full(n, mean), where=count > 0))


def shift_error(kernel: Floats, mass: Floats, missing: float) -> float:
    """Return the error of a mean over pairs that comes from the shifts that were left out."""
    by_shift = np.average(kernel, axis=0, weights=mass)
    k = len(by_shift)
    return float(np.sqrt(missing * by_shift.var(ddof=1) / k)) if k > 1 else 0.0


def replaced_points(
    rows: Floats,
    positions: Rows,
    replacement: Callable[[slice], Floats],
    n_replacements: int,
    predict: Callable[[Floats], Floats],
    memory: int,
) -> Floats:
    """Return the predictions of rows with some columns replaced, (n, n_replacements).

    ``replacement(block)`` gives the new columns for a block of replacements, (n, block, width).
    """
    n, p = rows.shape
    values = np.empty((n, n_replacements))
    for block in chunks(n_replacements, max(1, memory // (8 * n * p))):
        size = block.stop - block.start
        points = np.repeat(rows, size, axis=0)
        points[:, positions] = replacement(block).reshape(n * size, len(positions))
        values[:, block] = predict(points).reshape(n, size)
    return values


def chunks(total: int, size: int) -> Iterator[slice]:
    """Yield slices of at most ``size`` that cover ``total``."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def swapped_predictions(
    rows: Floats,
    positions: Rows,
    donors: Rows,
    predict: Callable[[Floats], Floats],
    memory: int,
) -> Floats:
    """Return the predictions of rows with columns from their donors, (n, m)."""
    source = rows[:, positions]
    return replaced_points(
        rows, positions, lambda block: source[donors[:, block]], donors.shape[1], predict, memory
    )
