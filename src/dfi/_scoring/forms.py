r"""The forms of a score: the loss of rows when a coordinate or a feature is averaged out.

With the prediction :math:`\eta`, its mean ``m`` over what replaces a coordinate (or the prediction
of a regression without a feature), one or two models ``a``, ``b`` and a loss :math:`\ell` of
:mod:`dfi.losses`, the influence value of a row is

========== =====================================================================================
LOCO       :math:`u = \ell(y, m) - \ell(y, \eta)`
cross      :math:`u = \ell(y; m^a, m^b) - \ell(y; \eta^a, \eta^b)`
calibrated :math:`u = \lambda (w^a + w^b) - \lambda^2 \Delta^a\Delta^b`
CPI        :math:`u = (y - m)\Delta`, :math:`\Delta = \eta - m`
========== =====================================================================================

The cross form takes the losses of two models fitted on disjoint rows, so its second-order bias is
the product of two independent errors, where LOCO's is a square. For squared error it expands to
:math:`(y-\eta^a)\Delta^b + (y-\eta^b)\Delta^a + \Delta^a\Delta^b`, :math:`\Delta = \eta - m`.

**The CPI form** is half of what is lost where a coordinate is replaced by another draw of it,
:math:`\frac12 E\{\ell(y, \eta(t)) - \ell(y, \eta)\}`. For squared error the squares of both
predictions have the same mean, and :math:`E\{y\,\Delta\} = E\{(y - m)\Delta\}` is left: the draw is
integrated out, and no second moment is needed. With :math:`\mu` the regression it is
:math:`E\,\Delta_\mu\Delta`: noise of the model that :math:`\mu` knows nothing of drops out, where
LOCO has its square, with a minus. A score of an overfitted model is that of the regression still,
and a null's is 0. An error along :math:`\Delta_\mu`, as a model has that shrinks, is of first order
here and of second in LOCO. It is LOCO with the outcome :math:`\frac12(y + \eta)`, so what is
derived for LOCO where :math:`\eta = \mu`, the transport's own error above all, holds here too.

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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dfi.losses import SQUARED_ERROR, Loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._types import Advance, Floats

AskedForm = Literal["auto", "extrapolated", "cross", "calibrated", "loco", "cpi"]
"""Forms that can be asked for: the extrapolated one is the cross form at two sizes."""

ScoreForm = Literal["cross", "calibrated", "loco", "cpi"]
CROSSED: tuple[ScoreForm, ...] = ("cross", "calibrated")
"""Forms of two models fitted on disjoint rows."""

CLEAR_ERRORS = 2.0
"""Standard errors by which :math:`B` must exceed 0 for the two models to agree on a signal."""

FACTORS = 0.5, 3.0
"""Least and largest factor. A model that finds less than a third of what it points at is not
calibrated but replaced by its residuals."""


@dataclass(frozen=True)
class Measure:
    """How changes of predictions become influence values; ``memory`` is what this may take."""

    form: ScoreForm
    loss: Loss
    memory: int
    advance: Advance | None = None

    def __getstate__(self) -> dict[str, object]:
        # A progress bar stays with its terminal.
        return {**self.__dict__, "advance": None}


Pair: TypeAlias = tuple[tuple["Floats", "Floats"], tuple["Floats", "Floats"]]


def loco(y: Floats, value: Floats, mean: Floats, loss: Loss = SQUARED_ERROR) -> Floats:
    """Return the loss from predicting ``mean`` instead of ``value``; the arrays broadcast."""
    return np.asarray(loss.of(y, mean) - loss.of(y, value))


def influence(
    form: ScoreForm,
    y: Floats,
    values: Sequence[Floats] | Floats,
    means: Sequence[Floats] | Floats,
    loss: Loss = SQUARED_ERROR,
) -> Floats:
    """Return influence values in any form; the arrays broadcast."""
    if form == "cpi":
        first, last = values[0] - means[0], values[-1] - means[-1]
        return np.asarray(0.5 * ((y - means[-1]) * first + (y - means[0]) * last))
    if form == "loco":
        return loco(y, values[0], means[0], loss)
    return np.asarray(loss.of_two(y, means[0], means[1]) - loss.of_two(y, values[0], values[1]))


def explained_rows(
    form: ScoreForm, y: Floats, values: Sequence[Floats], mean: float, mass: Floats, loss: Loss
) -> Floats:
    r"""Return the loss from predicting the mean for all rows, in the form of the scores.

    In the CPI form it is :math:`(y - \bar y)(\eta - \bar\eta)`, by the weights ``mass``.
    """
    if form == "cpi":
        level = np.average(values[0], weights=mass if mass.any() else None)
        return np.asarray((y - mean) * (values[0] - level))
    crossed = form in CROSSED and len(values) > 1
    lost = loss.of_two(y, values[0], values[1]) if crossed else loss.of(y, values[0])
    return np.asarray(loss.of(y, np.broadcast_to(mean, len(y))) - lost)


@dataclass(frozen=True)
class Stretch:
    r"""The factor :math:`\lambda = \max(1, b)` of the scores of a fitted model.

    :math:`b = Cov(y, \eta) / Var(\eta)` is the ``slope`` of the outcome on the predictions. Those
    of a model that shrinks lie too close together, :math:`b > 1`, and stretched by :math:`b` they
    lose least. The CPI form then finds :math:`Cov(y, \eta)^2/Var(\eta)` of an additive model in
    all: what the stretched model explains, never more than there is. A slope below 1 is that of an
    overfitted model, whose noise the CPI form leaves out by itself. ``influence`` (n,) is that of
    rows on the factor.
    """

    slope: float
    factor: float
    influence: Floats

    @classmethod
    def of(cls, y: Floats, prediction: Floats, weights: Weights) -> Stretch:
        apart, left = prediction - weights.mean(prediction), y - weights.mean(y)
        variance = float(weights.mean(apart**2)[0])
        slope = float(weights.mean(apart * left)[0]) / variance if variance > 0 else 1.0
        factor = float(np.clip(slope, 1.0, FACTORS[1]))
        if factor != slope or variance == 0.0:
            return cls(slope, factor, np.zeros(len(y)))
        return cls(slope, factor, apart * (left - slope * apart) / variance)

    def of_scores(self, influence: Floats, weights: Weights) -> Floats:
        r"""Return influence values :math:`\lambda u_i + \phi\,\psi_i` of scores times the factor.

        Their mean is :math:`\lambda\phi`: the influence :math:`\psi_i` on the factor has mean 0.
        """
        own = np.outer(self.influence, weights.mean(influence)).reshape(influence.shape)
        return np.asarray(self.factor * influence + own)

    def as_dict(self) -> dict[str, object]:
        """Return the factor for a result's diagnostics, in words too."""
        words = (
            f"the outcome rises by {self.slope:.2f} per unit of the prediction: the model "
            f"shrinks, and scores are multiplied by {self.factor:.2f}"
            if self.factor > 1.0
            else "the model does not shrink its predictions: scores are not stretched"
        )
        return {"slope": self.slope, "factor": self.factor, "words": words}


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


def affine_parts(
    form: ScoreForm, whole: tuple[Floats, Floats], pairs: Sequence[Pair]
) -> tuple[Floats, Floats]:
    r"""Return ``p`` and ``q`` of influence values :math:`y p + q` under squared error.

    .. math:: u = (y - \eta^a_F)\Delta^b + (y - \eta^b_F)\Delta^a + \Delta^a\Delta^b

    for the cross form (twice the same model for LOCO), with residuals from other predictions
    :math:`\eta_F` (``whole``) than those that lines average; ``p`` and ``q`` average over
    ``pairs``: :math:`\eta` and ``m`` of both models. The CPI-type form has half of the residuals.
    """
    p, q = np.zeros((2, *pairs[0][1][0].shape))
    times = 0.5 if form == "cpi" else 1.0
    for values, means in pairs:
        change = values[0] - means[0], values[1] - means[1]
        p += times * (change[0] + change[1])
        q += change[0] * change[1] - times * (whole[0] * change[1] + whole[1] * change[0])
    return p / len(pairs), q / len(pairs)


def calibrated_parts(
    parts: tuple[Floats, Floats], product: Floats, factor: Floats
) -> tuple[Floats, Floats]:
    r"""Return ``p`` and ``q`` of :func:`affine_parts` after :func:`calibrated`, which is linear."""
    p, q = parts
    return factor * p, calibrated(q, product, factor)
