r"""Latent Shapley values of single rows, exact to second order.

Latent units are independent, so a regression :math:`\eta` is a sum of interactions
:math:`\eta_S` over sets of them, and the Shapley value of unit ``j`` at a row is
:math:`\psi_j = \sum_{S \ni j} \eta_S / |S|`. By Owen's multilinear extension it is an integral,

.. math:: \psi_j = \int_0^1 e_j(q)\, dq, \qquad e_j(0) = \eta_{\{j\}} = a_j, \qquad
          e_j(1) = \sum_{S \ni j} \eta_S = \Delta_j = \eta - m_j,

:math:`e_j` a polynomial whose degree is the order of the interactions less one: the main effect at
one end, what replacing the unit takes away at the other. The trapezoid rule is exact up to second
order. What it leaves, ``rest``, is third order and higher, and is divided by
:math:`w_j \propto |\Delta_j - a_j|^{1/2}`, so units without interactions keep what they have:

.. math:: \psi_j = \tfrac12 (a_j + \Delta_j) + w_j \Big\{\eta - E\eta
          - \tfrac12 \sum_k (a_k + \Delta_k)\Big\} .

The values add up to :math:`\eta - E\eta` whatever is approximated. Simpson's rule asks for the
middle as well, :math:`e_j(1/2)`, and is exact up to fourth order. The middle is the main effect and
the Banzhaf value of the interactions, a mean over random coalitions, which is measured by folded
Hadamard designs: every unit is in and out equally often, with every other unit in and out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.linalg import hadamard

from dfi._lines.base import blocks
from dfi._scoring.lines import OF_SIZE, OF_SPREAD

if TYPE_CHECKING:
    from dfi._types import Bools, Floats, Ints

POINTS_AT_ONCE = 1 << 22
"""Numbers in the rows that a model predicts at once: 32 MB."""


@dataclass(frozen=True)
class LatentRows:
    """A model's values needed for single rows, by latent unit.

    ``value`` (n,) is the prediction, ``change`` (n, units) what it has more than its mean with the
    unit replaced, ``main`` (n, units) the main effect, centred.
    """

    value: Floats
    change: Floats
    main: Floats


@dataclass(frozen=True)
class LatentShapley:
    """Latent Shapley values (n, units) and the remainder of the rule (n,), before division."""

    values: Floats
    rest: Floats


class LatentGame(Protocol):
    """A model at rows some of whose latent units are those of a background row."""

    @property
    def n_units(self) -> int:
        """The number of units."""

    def mixed(self, rows: slice, others: Ints, given: Bools) -> Floats:
        """Return the model at rows with the units in each of ``given`` (k, units) from others."""


def rounding_floor(predictions: Floats) -> float:
    """Return the change of predictions below which it is rounding."""
    size = float(np.max(np.abs(predictions), initial=0.0))
    return OF_SPREAD * float(np.std(predictions)) + OF_SIZE * size


def quiet(rows: LatentRows, floor: float) -> LatentRows:
    """Return the same with rounding set to 0, because its square root is not small."""
    change = np.where(np.abs(rows.change) <= floor, 0.0, rows.change)
    return LatentRows(rows.value, change, np.where(np.abs(rows.main) <= floor, 0.0, rows.main))


def order_two(rows: LatentRows, base: float, floor: float) -> LatentShapley:
    """Return the Shapley values by the trapezoid rule; ``floor`` is what rounding leaves."""
    rows = quiet(rows, floor)
    return _divided(rows, 0.5 * (rows.main + rows.change), base, floor)


def order_four(rows: LatentRows, middle: Floats, base: float, floor: float) -> LatentShapley:
    """Return the Shapley values by Simpson's rule; ``middle`` are the interactions' own."""
    rows = quiet(rows, floor)
    middle = np.where((rows.main == 0.0) & (rows.change == 0.0), 0.0, middle)
    return _divided(rows, (5.0 * rows.main + 4.0 * middle + rows.change) / 6.0, base, floor)


def _divided(rows: LatentRows, found: Floats, base: float, floor: float) -> LatentShapley:
    rest = rows.value - base - found.sum(axis=1)
    size = np.abs(rows.change - rows.main)
    weight = np.sqrt(np.where(size <= floor, 0.0, size))
    total = weight.sum(axis=1, keepdims=True)
    # without interactions nothing is left but rounding, and the error of the mean
    plain = np.abs(found) + np.where(np.any(found != 0.0, axis=1, keepdims=True), 0.0, 1.0)
    weight = np.where(total > 0, weight, plain)
    weight = weight / weight.sum(axis=1, keepdims=True)
    return LatentShapley(found + weight * rest[:, None], rest)


def middle_effects(
    game: LatentGame,
    rows: LatentRows,
    background: LatentRows,
    share: Floats,
    count: int,
    base: float,
    seed: np.random.SeedSequence,
) -> Floats:
    r"""Return the Banzhaf values of the interactions, :math:`e_j(1/2) - a_j`, (n, units).

    Each of ``count`` designs is a Hadamard matrix, its columns and their signs at random, and its
    reflection: a line of it says whose units are taken, and has, with its reflection, a row of the
    background of its own. (One row for a whole design errs by a quarter to a half more at the same
    cost.) All rows meet the same designs: what a row gets does not depend on the rows beside it.
    ``share`` are the weights of the background.
    """
    units = game.n_units
    width = 1 << int(np.ceil(np.log2(units + 1)))
    generator = np.random.default_rng(seed)
    whole = hadamard(width)[:, 1:]
    total = np.zeros((len(rows.value), units))
    for _ in range(count):
        signs = whole[:, generator.permutation(width - 1)[:units]]
        signs = signs * generator.choice([-1, 1], size=units)
        signs = np.concatenate([signs, -signs]).astype(np.float64)
        others = np.tile(generator.choice(len(share), size=width, p=share), 2)
        own = signs > 0
        given = np.sum(background.main[others] * ~own, axis=1)
        for part in blocks(len(total), POINTS_AT_ONCE // (len(own) * units)):
            # the main effects of a mixed row are those of the rows that its units are of
            alone = rows.main[part] @ own.T + given
            value = game.mixed(part, others, ~own)
            total[part] += 2.0 * ((value - base - alone) @ signs) / len(signs)
    return total / count
