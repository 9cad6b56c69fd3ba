"""Scores of every unit in every fold, pooled over the folds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._types import Floats
    from dfi.methods.context import Context


def units_and_folds(context: Context) -> list[tuple[int, int]]:
    """Return the tasks of a method: each unit that varies, in each fold."""
    return [(unit, f) for unit in context.units.active for f in range(len(context.folds))]


def score_units(
    context: Context,
    score: Callable[..., tuple[Floats, float]],
    arguments: Sequence[tuple[Any, ...]],
    label: str,
) -> tuple[Floats, Floats]:
    """Score every unit in every fold and pool the rows.

    Parameters
    ----------
    context : Context
        The data, folds and models.
    score : callable
        ``score(context, f, unit, *arguments)`` returns values of the held-out rows of fold f,
        (..., n), and the Monte-Carlo error of their mean.
    arguments : sequence of tuple
        Further arguments, in the order of :func:`units_and_folds`.
    label : str
        For the progress bar.

    Returns
    -------
    values : ndarray of shape (..., n, n_units)
        In the order of ``context.rows``; 0 for constant units.
    noise : ndarray of shape (n_units,)
        Monte-Carlo error of each unit's mean: folds draw independently of each other.
    """
    tasks = units_and_folds(context)
    found = context.run(
        score,
        [(context, f, unit, *more) for (unit, f), more in zip(tasks, arguments, strict=True)],
        label,
        threads=True,
    )
    n_units = len(context.units)
    values = np.zeros((*found[0][0].shape[:-1], context.table.n_rows, n_units))
    variance = np.zeros(n_units)
    total = context.weights.values[context.rows].sum()
    for (unit, f), (part, error) in zip(tasks, found, strict=True):
        test = context.folds[f].test
        values[..., test, unit] = part
        variance[unit] += (context.weights.values[test].sum() / total * error) ** 2
    return values[..., context.rows, :], np.sqrt(variance)
