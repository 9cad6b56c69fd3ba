"""Predictions with one unit swapped between held-out rows, shared by ``pfi`` and ``dloco``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.quadrature import DEFAULT_MEMORY
from dfi.methods.base import Part, full_lines
from dfi.methods.by_unit import score_units, units_and_folds
from dfi.methods.donors import choose_shifts, donor_rows, donor_shares, swapped_predictions
from dfi.methods.model_error import RieszSpan

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._models.fits import Fits
    from dfi._types import Floats, Ints

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


def swap(fits: Fits, f: int, unit: int, count: int) -> Swap:
    """Return the swapped predictions of a fold; small ones are kept for the next method."""
    small = 24 * len(fits.rows) * count * len(fits.units) <= KEPT_BYTES
    if not small:
        return _swapped(fits, f, unit, count)
    return fits.keep(("swap", f, unit, count), lambda: _swapped(fits, f, unit, count))


def _swapped(fits: Fits, f: int, unit: int, count: int) -> Swap:
    fold = fits.folds[f]
    rows = fits.table.matrix[fold.test]
    generator = np.random.default_rng(fits.child("swaps", f))
    donors = donor_rows(*choose_shifts(len(rows), count, generator))
    values = swapped_predictions(
        rows, fits.units.positions[unit], donors, full_lines(fits)[f].predict, DEFAULT_MEMORY
    )
    share = donor_shares(fits.weights.values[fold.test], donors)
    missing = 1.0 - donors.shape[1] / (len(rows) - 1)
    return Swap(values, donors, share, missing)


def swapped_part(
    fits: Fits,
    score: Callable[..., tuple[Floats, float]],
    count: int,
    debias: bool,
    name: str,
) -> Part:
    """Score every unit of every fold from ``count`` swaps per row and pool the rows."""
    arguments = [(count, debias)] * len(units_and_folds(fits))
    influence, noise = score_units(fits, score, arguments, f"{name}: swapping rows")
    return Part(influence, fits.rows, monte_carlo_se=noise)


def riesz_span(fits: Fits, f: int) -> RieszSpan:
    """Return the span of a fold, made once."""
    fold = fits.folds[f]
    return fits.keep(
        ("span", f),
        lambda: RieszSpan(
            fits.table.matrix[fold.train],
            fits.weights.values[fold.train],
            full_lines(fits)[f].predict,
        ),
    )


def model_term(fits: Fits, f: int, unit: int, swapped: Swap, factor: Floats) -> Floats:
    r"""Return what the regression's error adds to each held-out row, (n,).

    The derivative of the score is :math:`h \mapsto E[c(X, X')\,h(X')]` over swapped rows, with
    ``factor[i, s]`` the value of :math:`c` at row i with its s-th donor.
    """
    fold = fits.folds[f]
    rows, value = fits.table.matrix[fold.test], fits.predictions[fold.test]
    span = riesz_span(fits, f)
    mass = fits.mass(fold.test)
    weight = mass[:, None] * swapped.share * factor
    received = weight.sum(axis=1)
    positions = fits.units.positions[unit]
    derivative = np.empty(rows.shape[1] + 1)
    derivative[:-1] = received @ rows
    derivative[positions] = np.einsum("is,isk->k", weight, rows[:, positions][swapped.donors])
    derivative[-1] = np.sum(weight * swapped.values)
    total = float(received.sum())
    mean = np.sum(swapped.share * swapped.values, axis=1)
    return span.correction(
        rows,
        value,
        fits.outcome.values[fold.test] - value,
        ((derivative - total * span.centre) / span.scale)[:, None],
        np.array([total]),
        (value - mean)[:, None],
        np.array([np.sum(weight * (swapped.values - mean[:, None]))]),
        mass,
    )[:, 0]
