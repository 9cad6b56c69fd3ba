r"""Shapley values of units: what each adds to the loss, averaged over orders of replacing them.

With :math:`m_S(z) = E_t\,\eta(z_{-S}, t_S)` the regression whose units ``S`` are replaced,

.. math:: \phi_a = \frac1{|\Pi|} \sum_{\pi \in \Pi} E(y - m_{S_\pi + a})^2 - E(y - m_{S_\pi})^2,

:math:`S_\pi` the units before ``a`` in the order. For independent units it is
:math:`\sum_{A \ni a} V_A/|A|` in the parts of the analysis of variance: an interaction is divided
evenly between those that take part, where joint scores count it for each. Whatever the units'
dependence, the values of an order telescope to :math:`E(y - \bar y)^2 - E(y - f)^2`, R2 times the
variance: before the first unit nothing is replaced, and with all of them replaced the mean of the
regression is that of the outcome.

Orders come in pairs of an order and its reverse, which together are exact where units interact in
pairs only, and are drawn anew for every few rows. Along an order a row has two donors, for all
units the same ones; their predictions :math:`p_1, p_2` are independent, so
:math:`(y - p_1)(y - p_2)` has the mean :math:`(y - m_S)^2` without correction (for two models ``a``
and ``b``, the mean of :math:`(y - p^a_1)(y - p^b_2)` and :math:`(y - p^a_2)(y - p^b_1)`). Linear
models need no donors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._lines.closed_form import as_linear
from dfi._scoring.donors import replaced, replaced_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._lines.base import LineModel
    from dfi._scoring.donors import Donors, Joint
    from dfi._types import Floats, Ints

ORDERS = 16
"""Orders of each row. Two leave half a standard error of Monte-Carlo error on the HIV-1 data."""

DONORS_OF_ORDER = 2

ROWS_OF_ORDERS = 64
"""Rows that walk along the same orders."""


def draw_orders(count: int, n_units: int, seed: np.random.SeedSequence) -> Ints:
    """Return ``count`` orders (an even number) of the units, each followed by its reverse."""
    generator = np.random.default_rng(seed)
    drawn = [generator.permutation(n_units) for _ in range(count // 2)]
    return np.stack([order for one in drawn for order in (one, one[::-1])])


def order_influence(
    models: Sequence[LineModel],
    points: Floats,
    latent: Floats,
    donors: Donors,
    joints: Sequence[Joint],
    y: Floats,
    values: tuple[Floats, Floats],
    orders: Ints,
    mean: float,
) -> Floats:
    """Return influence values (n, units) of the Shapley values."""
    walk = _walk_in_linear if all(map(as_linear, models)) else _walk
    lost = walk(models, points, latent, donors, joints, y, values, orders)
    lost[:, -1] = (y - mean) ** 2
    lost[:, 1:] -= lost[:, :-1].copy()
    lost[:, 0] -= (y - values[0]) * (y - values[1])
    influence = np.zeros((len(points), len(joints)))
    for order, gained in zip(orders, lost, strict=True):
        influence[:, order] += gained.T
    return influence / len(orders)


def _walk(
    models: Sequence[LineModel],
    points: Floats,
    latent: Floats,
    donors: Donors,
    joints: Sequence[Joint],
    y: Floats,
    values: tuple[Floats, Floats],
    orders: Ints,
) -> Floats:
    """Return the losses (orders, steps, n) after each step but the last; all orders at once."""
    del values
    n, (count, steps) = len(points), orders.shape
    each = n * DONORS_OF_ORDER
    rows = np.tile(np.repeat(points, DONORS_OF_ORDER, axis=0), (count, 1))
    own = np.repeat(latent, DONORS_OF_ORDER, axis=0)
    chosen = donors.chosen.reshape(n, count, DONORS_OF_ORDER)
    giving = [donors.of(chosen[:, k].reshape(-1, 1)) for k in range(count)]
    lost = np.empty((count, steps, n))
    for step in range(steps - 1):
        for k, order in enumerate(orders):
            part = slice(k * each, (k + 1) * each)
            rows[part] = replaced_rows(rows[part], own, giving[k], joints[order[step]])
        found = [model.predict(rows).reshape(count, n, DONORS_OF_ORDER) for model in models]
        first, last = y[:, None] - found[0], y[:, None] - found[-1]
        lost[:, step] = np.mean(first * last[:, :, ::-1], axis=2)
    return lost


def _walk_in_linear(
    models: Sequence[LineModel],
    points: Floats,
    latent: Floats,
    donors: Donors,
    joints: Sequence[Joint],
    y: Floats,
    values: tuple[Floats, Floats],
    orders: Ints,
) -> Floats:
    """Return the losses (orders, steps, n) of linear models, whose units' changes add up."""
    changes = []
    for joint in joints:
        means = replaced(models, points, latent, donors, joint, memory=0).means
        changes.append([mean - value for mean, value in zip(means, values, strict=True)])
    moved = np.asarray(changes)[orders].cumsum(axis=1)
    left = y - np.asarray(values) - moved
    return np.asarray(left[:, :, 0] * left[:, :, 1])
