r"""The forms of a score, written once: what rows lose when a coordinate, or a feature, is averaged.

With the prediction :math:`\eta`, its mean ``m`` over what replaces a coordinate (or the prediction
of a regression without a feature), one or two models ``a``, ``b`` and a loss :math:`\ell` of
:mod:`dfi.losses`, the influence value of a row is

========== =====================================================================================
LOCO       :math:`u = \ell(y, m) - \ell(y, \eta)`
cross      :math:`u = \ell(y; m^a, m^b) - \ell(y; \eta^a, \eta^b)`
calibrated :math:`u = \lambda (w^a + w^b) - \lambda^2 \Delta^a\Delta^b`
CPI        :math:`u = \frac12 \{E_t\,\ell(y, \eta(t)) - \ell(y, \eta)\}`
========== =====================================================================================

The cross form takes the losses of two models fitted on disjoint rows, so its second-order bias is
the product of two independent errors, where LOCO's is a square. For squared error it expands to
:math:`(y-\eta^a)\Delta^b + (y-\eta^b)\Delta^a + \Delta^a\Delta^b`, :math:`\Delta = \eta - m`.

**The calibrated form** is the cross form of models whose change :math:`\Delta` is stretched by a
factor of its own for each coordinate, :math:`\eta \to m + \lambda\Delta`. With
:math:`w^a = (y - m^b)\Delta^a`, :math:`w^b = (y - m^a)\Delta^b` the cross form is
:math:`w^a + w^b - \Delta^a\Delta^b`, and

.. math:: \lambda = A / B, \qquad A = \tfrac12 E(w^a + w^b), \quad B = E\,\Delta^a\Delta^b

makes the score the largest that it can be, :math:`A^2/B`. A learner that shrinks,
:math:`\Delta = c\,\Delta_\mu`, loses :math:`(1 - c)^2` of a score in the cross form; here
:math:`\lambda = 1/c` and nothing is lost. The limit is :math:`|\Delta_\mu|^2` times the squared
cosine between :math:`\Delta_\mu` and the learner's mean :math:`\Delta`: never above the truth, and
never below the cross form. As :math:`\lambda` is where the score is largest, its own error is of
second order. The factor of a row comes from other rows than those that it is applied to
(:func:`dfi._scoring.scores.calibrate`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dfi.losses import SQUARED_ERROR, Loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._types import Floats

AskedForm = Literal["auto", "extrapolated", "cross", "calibrated", "loco", "cpi"]
"""Forms that can be asked for: the extrapolated one is the cross form at two sizes."""

ScoreForm = Literal["cross", "calibrated", "loco", "cpi"]
CROSSED: tuple[ScoreForm, ...] = ("cross", "calibrated")
"""Forms of two models fitted on disjoint rows."""

CLEAR_ERRORS = 2.0
"""Standard errors that :math:`B` must be above 0 for the two models to agree about something."""

FACTORS = 0.5, 3.0
"""Least and largest factor. A model that finds less than a third of what it points at is not
calibrated but replaced by its residuals."""

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
    form. The calibrated form starts from the cross form's values, see :func:`calibrated`.
    """
    if form == "cpi":
        if perturbed is None:
            raise TypeError("the CPI-type score needs the second moment along each line")
        return np.asarray(0.5 * (perturbed - loss.of(y, values[0])))
    if form == "loco":
        return loco(y, values[0], means[0], loss)
    return np.asarray(loss.of_two(y, means[0], means[1]) - loss.of_two(y, values[0], values[1]))


def change_product(values: Sequence[Floats] | Floats, means: Sequence[Floats] | Floats) -> Floats:
    r"""Return :math:`\Delta^a\Delta^b` of two models; the arrays broadcast."""
    return np.asarray((values[0] - means[0]) * (values[-1] - means[-1]))


def calibrated(cross: Floats, product: Floats, factor: Floats) -> Floats:
    r"""Return :math:`\lambda (w^a + w^b) - \lambda^2 \Delta^a\Delta^b`; the arrays broadcast.

    ``cross`` is the cross form :math:`w^a + w^b - \Delta^a\Delta^b`, ``product``
    :math:`\Delta^a\Delta^b`, each without bias where line means are averages over draws.
    """
    return np.asarray(factor * (cross + product) - factor**2 * product)


def calibration_factor(cross: Floats, product: Floats, weights: Weights) -> Floats:
    r"""Return :math:`\lambda = A/B` of each column, from rows that it is not applied to.

    It is 1, which is the cross form, where :math:`B` is not :data:`CLEAR_ERRORS` of its standard
    errors above 0: the models agree about nothing there, and a ratio of two noises would be the
    largest of many. Else it lies within :data:`FACTORS`.
    """
    found = np.ones(product.shape[1])
    if weights.total <= 1:
        return found
    half, square = 0.5 * weights.mean(cross + product), weights.mean(product)
    clear = square > CLEAR_ERRORS * weights.standard_error(product)
    np.divide(half, square, out=found, where=clear)
    return np.clip(found, *FACTORS)


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


def calibrated_parts(
    parts: tuple[Floats, Floats], product: Floats, factor: Floats
) -> tuple[Floats, Floats]:
    r"""Return ``p`` and ``q`` of :func:`affine_parts` after :func:`calibrated`, which is linear."""
    p, q = parts
    return factor * p, calibrated(q, product, factor)
