r"""Shapley values along random orders, where every submodel has to be refitted.

Refits are dear, so few submodels must do. Four things make the most of them.

- *An order and its reverse* give the Shapley value where players interact in pairs only.
- *Orders are drawn anew in every fold.* Submodels are refitted in every fold anyway, so K folds
  walk along K times as many orders at no cost.
- *Least squares is a control variate.* Its submodels are solved, all :math:`2^d` of them, so its
  game :math:`v^\ell` is known with its Shapley values, and only the difference is sampled:
  :math:`\hat\phi = A v^\ell + \hat A (v - v^\ell)`. What correlated features share is mostly
  there already.
- *Increments average values and never extrapolate*, unlike weighted least squares over about as
  many coalitions as players.

Nine features, the first four correlated by 0.9 and with Shapley values of 3.7, the others null,
500 rows, eight seeds: 20 coalitions by weighted least squares gave the nulls -14.5 to 7.3.

**The Monte-Carlo error** comes from pairs within a fold, which share its rows: with
:math:`P_k` pairs in fold k, their means :math:`m_{kp}` and the folds' shares :math:`w_k` of the
rows,

.. math:: \sigma_j^2 = \frac{\sum_{kp} (m_{kpj} - \bar m_{kj})^2}{\sum_k (P_k - 1)}, \qquad
          \mathrm{MC}_j^2 = \sigma_j^2 \sum_k w_k^2 / P_k .

Two folds with a second pair are enough for a rough estimate. (Means of different folds differ by
their rows too. Taking that part off, as it is known from the rows, left a third of the true error
in one of four settings: folds are not independent.) Rows are told of it: those of such a fold get
a share of their pair's deviation, so that a column's standard error counts it, while the sum over
units, which has no such error, stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi.methods.base import Part
from dfi.methods.coalitions import order_and_reverse
from dfi.methods.game import numbers
from dfi.methods.refit import submodels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Floats
    from dfi.methods.coalitions import Coalitions
    from dfi.methods.game import Game


def walked_part(game: Game, n_pairs: Sequence[int], seed: np.random.SeedSequence) -> Part:
    """Return Shapley values from so many pairs of orders in each fold."""
    fits = game.fits
    designs = [
        [order_and_reverse(game.d, np.random.default_rng(child)) for child in each.spawn(count)]
        for count, each in zip(n_pairs, seed.spawn(len(fits.folds)), strict=True)
    ]
    masks = [np.concatenate([design.masks for design in chosen]) for chosen in designs]
    values = game.values(masks)
    known = np.zeros((fits.table.n_rows, game.d))
    sampled = []
    # Where the regression is solved itself, its own game is what the user asked to sample.
    controlled = not submodels(fits).closed_form
    for k, fold in enumerate(fits.folds):
        linear = game.linear(k) if controlled else None
        controlled = linear is not None
        differences = values[k]
        if linear is not None:
            known[fold.test] = linear[0]
            differences = differences - linear[1][:, numbers(masks[k])]
        sampled.append(_along(designs[k], differences))
    noise, added = _monte_carlo(game, sampled)
    for fold, walks in zip(fits.folds, sampled, strict=True):
        known[fold.test] += walks.mean(axis=0)
    n_units, active = len(fits.units), list(fits.units.active)
    influence = np.zeros((len(fits.rows), n_units))
    influence[:, active] = (known + added)[fits.rows, : len(active)]
    error = np.zeros(n_units)
    error[active] = noise[: len(active)]
    return Part(
        influence,
        fits.rows,
        monte_carlo_se=error,
        diagnostics={
            "submodels": max(len(np.unique(chosen, axis=0)) for chosen in masks),
            "of": float(2**game.d),
            "approximation": "sampled submodels",
            "orders": 2 * sum(n_pairs),
            "control": "least squares" if controlled else "none",
        },
    )


def _along(designs: list[Coalitions], values: Floats) -> Floats:
    """Return the increments of rows along each pair of orders, (pairs, rows, d)."""
    parts = np.split(values, len(designs), axis=1)
    return np.stack([part @ design.operator.T for part, design in zip(parts, designs, strict=True)])


def _monte_carlo(game: Game, sampled: list[Floats]) -> tuple[Floats, Floats]:
    """Return the Monte-Carlo error of each player, and what tells the rows of it."""
    fits = game.fits
    folds = [fold.test for fold in fits.folds]
    mass = np.array([fits.weights.values[rows].sum() for rows in folds])
    share = mass / mass.sum()
    pairs = np.array([len(walks) for walks in sampled])
    added = np.zeros((fits.table.n_rows, game.d))
    freedom = int(np.sum(pairs - 1))
    if freedom == 0:
        return np.full(game.d, np.nan), added
    means = [fits.mass(rows) @ walks for rows, walks in zip(folds, sampled, strict=True)]
    away = [found - found.mean(axis=0) for found in means]
    of_one = sum(np.sum(found**2, axis=0) for found in away) / freedom
    factor = float(np.sum(share**2 / pairs))
    # Rows with deviations e of share c each add size^2 c sum(e^2) / n to the variance of a mean.
    total = fits.weights.take(fits.rows).total
    several = pairs > 1
    size = np.sqrt(total * factor / (freedom * np.mean(share[several] / pairs[several])))
    for rows, deviation in zip(folds, away, strict=True):
        added[rows] = size * deviation[np.arange(len(rows)) % len(deviation)]
    added[fits.rows] -= fits.mass(fits.rows) @ added[fits.rows]
    return np.sqrt(of_one * factor), added
