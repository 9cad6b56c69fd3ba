r"""The forms of a score, written once: what rows lose when a coordinate, or a feature, is averaged.

With the prediction :math:`\eta`, its mean ``m`` over what replaces a coordinate (or the prediction
of a regression without a feature), one or two models ``a``, ``b`` and a loss :math:`\ell` of
:mod:`dfi._scoring.loss`, the influence value of a row is

======== =======================================================================================
LOCO     :math:`u = \ell(y, m) - \ell(y, \eta)`
cross    :math:`u = \ell(y; m^a, m^b) - \ell(y; \eta^a, \eta^b)`
CPI      :math:`u = \frac12 \{E_t\,\ell(y, \eta(t)) - \ell(y, \eta)\}`
======== =======================================================================================

The cross form takes the losses of two models fitted on disjoint rows, so its second-order bias is
the product of two independent errors, where LOCO's is a square. For squared error it expands to
:math:`(y-\eta^a)\Delta^b + (y-\eta^b)\Delta^a + \Delta^a\Delta^b`, :math:`\Delta = \eta - m`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dfi._scoring.loss import SQUARED_ERROR, Loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Floats

ScoreForm = Literal["cross", "loco", "cpi"]
Pair: TypeAlias = tuple[tuple["Floats", "Floats"], tuple["Floats", "Floats"], "Floats"]


def loco(y: Floats, value: Floats, mean: Floats, loss: Loss = SQUARED_ERROR) -> Floats:
    """Return what is lost by ``mean`` in place of ``value``; the arrays broadcast."""
    return np.asarray(loss.of(y, mean) - loss.of(y, value))


def influence(
    form: ScoreForm,
    y: Floats,
    values: Sequence[Floats] | Floats,
    means: Sequence[Floats] | Floats,
    perturbed: Floats | None = None,
    loss: Loss = SQUARED_ERROR,
) -> Floats:
    """Return influence values in any form; the arrays broadcast.

    ``values`` and ``means`` are those of two models for the cross form, of one otherwise;
    ``perturbed`` the mean loss of the first where the coordinate is replaced, for the CPI-type
    form.
    """
    if form == "cpi":
        if perturbed is None:
            raise TypeError("the CPI-type score needs the second moment along each line")
        return np.asarray(0.5 * (perturbed - loss.of(y, values[0])))
    if form == "loco":
        return loco(y, values[0], means[0], loss)
    return np.asarray(loss.of_two(y, means[0], means[1]) - loss.of_two(y, values[0], values[1]))


def perturbed_error(y: Floats, mean: Floats, square: Floats) -> Floats:
    """Return the mean squared error of predictions that have a mean and a mean square."""
    return np.asarray(y**2 - 2 * y * mean + square)


def affine_parts(
    form: ScoreForm, whole: tuple[Floats, Floats], pairs: Sequence[Pair]
) -> tuple[Floats, Floats]:
    r"""Return ``p`` and ``q`` of influence values :math:`y p + q` under squared error.

    .. math:: u = (y - \eta^a_F)\Delta^b + (y - \eta^b_F)\Delta^a + \Delta^a\Delta^b

    for the cross form (twice the same model for LOCO), with residuals from other predictions
    :math:`\eta_F` (``whole``) than those that lines average; ``p`` and ``q`` average over
    ``pairs``: :math:`\eta` and ``m`` of both models, and their mean product along the line for the
    CPI-type form.
    """
    p, q = np.zeros((2, *pairs[0][1][0].shape))
    for values, means, square in pairs:
        change = values[0] - means[0], values[1] - means[1]
        if form == "cpi":
            p += 0.5 * (change[0] + change[1])
            q -= 0.5 * whole[0] * (change[0] + change[1])
            cross = values[0] * values[1] - values[0] * means[1] - values[1] * means[0]
            q += 0.5 * (cross + square)
        else:
            p += change[0] + change[1]
            q += change[0] * change[1] - whole[0] * change[1] - whole[1] * change[0]
    return p / len(pairs), q / len(pairs)
