r"""Coordinates whose lines move no prediction: their scores are 0, not rounding.

A line of a coordinate moves the columns of its dependence component and no others. Where the
model reads none of them, :math:`\Delta_{ij} = \eta_i - m_{ij}` is 0 in exact arithmetic and some
multiple of the machine precision in floating point. A component all of whose coordinates
are that quiet is taken as unread: a :math:`\Delta` below ``1e-9`` standard deviations of the
prediction could not carry more than ``1e-18`` of its variance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dfi._scoring.latent import ScoreForm
    from dfi._types import Bools, Floats, Ints

OF_SPREAD = 1e-9
"""Share of the prediction's standard deviation below which a line moves nothing."""

OF_SIZE = 1e-13
"""Share of the prediction's size that sums over trees and nodes may be off by rounding."""

OF_SQUARES = 1e-14
"""The CPI-type form subtracts squares of the outcome, and is off by this share of them."""


def unread_coordinates(
    influence: Floats,
    prediction: Floats,
    y: Floats,
    labels: Ints,
    form: ScoreForm,
) -> Bools:
    r"""Return which coordinates belong to a component that no model reads.

    With :math:`|u_{ij}| \le |\Delta_{ij}| (2 |y_i - \eta_i| + |\Delta_{ij}|)` the bound is put on
    the influence values, which are at hand.

    Parameters
    ----------
    influence : ndarray of shape (n, d)
        Latent influence values, the transport taken as known.
    prediction, y : ndarray of shape (n,)
        Predictions and outcomes of the same rows.
    labels : ndarray of int, shape (d,)
        The component of each coordinate.
    form : {"cross", "loco", "cpi"}
        The form of the scores.
    """
    size = float(np.max(np.abs(prediction)))
    moved = OF_SPREAD * float(np.std(prediction)) + OF_SIZE * size
    residual = np.ptp(y) + np.ptp(prediction) + abs(float(np.mean(y)) - float(np.mean(prediction)))
    bound = moved * float(residual)
    if form == "cpi":
        bound += OF_SQUARES * (float(np.max(np.abs(y))) + size) ** 2
    quiet = np.max(np.abs(influence), axis=0) <= bound
    loud = np.bincount(labels, weights=~quiet, minlength=int(labels.max()) + 1) > 0
    return np.asarray(~loud[labels])
