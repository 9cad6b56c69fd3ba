"""Scores of every unit in every fold, pooled over the folds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._models.fits import Fits
    from dfi._types import Floats


def units_and_folds(fits: Fits) -> list[tuple[int, int]]:
    """Return the tasks of a method: each unit that varies, in each fold."""
    return [(unit, f) for unit in fits.units.active for f in range(len(fits.folds))]


def score_units(
    fits: Fits,
    score: Callable[..., tuple[Floats, float]],
    arguments: Sequence[tuple[Any, ...]],
    label: str,
) -> tuple[Floats, Floats]:
    """Score every unit in every fold and pool the rows.

    Parameters
    ----------
    fits : Fits
        The data, folds and models.
    score : callable
        ``score(fits, f, unit, *arguments)`` returns values of the held-out rows of fold f,
        (..., n), and the Monte-Carlo error of their mean.
    arguments : sequence of tuple
        Further arguments, in the order of :func:`units_and_folds`.
    label : str
        For the progress bar.

    Returns
    -------
    values : ndarray of shape (..., n, n_units)
        In the order of ``fits.rows``; 0 for constant units.
    noise : ndarray of shape (n_units,)
        Monte-Carlo error of each unit's mean: folds draw independently of each other.
    """
    tasks = units_and_folds(fits)
    found = fits.workers.run(
        score,
        [(fits, f, unit, *more) for (unit, f), more in zip(tasks, arguments, strict=True)],
        label,
        threads=True,
    )
    n_units = len(fits.units)
    values = np.zeros((*found[0][0].shape[:-1], fits.table.n_rows, n_units))
    variance = np.zeros(n_units)
    total = fits.weights.values[fits.rows].sum()
    for (unit, f), (part, error) in zip(tasks, found, strict=True):
        test = fits.folds[f].test
        values[..., test, unit] = part
        variance[unit] += (fits.weights.values[test].sum() / total * error) ** 2
    return values[..., fits.rows, :], np.sqrt(variance)
