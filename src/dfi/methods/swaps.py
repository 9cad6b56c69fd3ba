"""Predictions with one unit swapped between held-out rows, shared by ``pfi`` and ``dloco``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi.methods.base import Part
from dfi.methods.by_unit import score_units, units_and_folds
from dfi.methods.donors import choose_shifts, donor_rows, donor_shares, swapped_predictions
from dfi.methods.model_error import RieszSpan

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._types import Floats, Ints
    from dfi.methods.context import Context

KEPT_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Swap:
    """The held-out rows of one fold with one unit taken from other rows.

    Attributes
    ----------
    values : ndarray of shape (n, m)
        Predictions of row i with the unit of its s-th donor.
    donors : ndarray of shape (n, m)
        The donors.
    share : ndarray of shape (n, m)
        Weight of each donor among those of its row.
    complete : float
        The share of all pairs that is missing: 0 when every row met every other.
    """

    values: Floats
    donors: Ints
    share: Floats
    complete: float


def swap(context: Context, f: int, unit: int, count: int) -> Swap:
    """Return the swapped predictions of a fold; small ones are kept for the next method."""
    key = ("swap", f, unit, count)
    if key in context.memo:
        found: Swap = context.memo[key]
        return found
    fold = context.folds[f]
    rows = context.table.matrix[fold.test]
    generator = np.random.default_rng(context.child("swaps", f))
    donors = donor_rows(*choose_shifts(len(rows), count, generator))
    values = swapped_predictions(
        rows, context.units.positions[unit], donors, context.predictors[f], context.memory
    )
    share = donor_shares(context.weights.values[fold.test], donors)
    missing = 1.0 - donors.shape[1] / (len(rows) - 1)
    result = Swap(values, donors, share, missing)
    if 24 * len(context.rows) * count * len(context.units) <= KEPT_BYTES:
        context.memo[key] = result
    return result


def swapped_part(
    context: Context,
    score: Callable[..., tuple[Floats, float]],
    count: int,
    debias: bool,
    name: str,
) -> Part:
    """Score every unit of every fold from ``count`` swaps per row and pool the rows."""
    arguments = [(count, debias)] * len(units_and_folds(context))
    influence, noise = score_units(context, score, arguments, f"{name}: swapping rows")
    return Part(influence, context.rows, monte_carlo_se=noise)


def riesz_span(context: Context, f: int) -> RieszSpan:
    """Return the span of a fold, made once."""
    key = ("span", f)
    if key not in context.memo:
        fold = context.folds[f]
        context.memo[key] = RieszSpan(
            context.table.matrix[fold.train],
            context.weights.values[fold.train],
            context.predictors[f],
        )
    span: RieszSpan = context.memo[key]
    return span


def model_term(context: Context, f: int, unit: int, swapped: Swap, factor: Floats) -> Floats:
    r"""Return what the regression's error adds to each held-out row, (n,).

    The derivative of the score is :math:`h \mapsto E[c(X, X')\,h(X')]` over swapped rows, with
    ``factor[i, s]`` the value of :math:`c` at row i with its s-th donor.
    """
    fold = context.folds[f]
    rows, value = context.table.matrix[fold.test], context.predictions[fold.test]
    span = riesz_span(context, f)
    mass = context.mass(fold.test)
    weight = mass[:, None] * swapped.share * factor
    received = weight.sum(axis=1)
    positions = context.units.positions[unit]
    derivative = np.empty(rows.shape[1] + 1)
    derivative[:-1] = received @ rows
    derivative[positions] = np.einsum("is,isk->k", weight, rows[:, positions][swapped.donors])
    derivative[-1] = np.sum(weight * swapped.values)
    total = float(received.sum())
    mean = np.sum(swapped.share * swapped.values, axis=1)
    return span.correction(
        rows,
        value,
        context.outcome.values[fold.test] - value,
        ((derivative - total * span.centre) / span.scale)[:, None],
        np.array([total]),
        (value - mean)[:, None],
        np.array([np.sum(weight * (swapped.values - mean[:, None]))]),
        mass,
    )[:, 0]
