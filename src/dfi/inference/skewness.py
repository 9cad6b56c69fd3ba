r"""Skewness: influence values of squared signals are skewed, and so are their means.

The Wald interval of a mean of positively skewed values misses almost always on one side: with
the true regression of model M3, n = 500 and 90 % nominal, the truth lies above the interval in
13 % and below it in 2 % of samples, although the standard error itself is right. Hall's
monotone transformation of the t statistic (P. Hall, "On the removal of skewness by
transformation", JRSS B 54, 1992) removes the first-order effect. With :math:`c = \gamma/\sqrt n`,
:math:`\gamma` the skewness of the influence values,

.. math:: g(T) = T + \tfrac13 c T^2 + \tfrac1{27} c^2 T^3 + \tfrac16 c
          \quad\text{is closer to normal than } T,

and its inverse :math:`g^{-1}(x) = 3 c^{-1}\{(1 + c\,(x - c/6))^{1/3} - 1\}` takes the place of the
normal quantile. Measured against 1000 studentised bootstrap samples of the influence values it
covers as well (M3: 0.86 for both, Wald 0.85; M1: 0.89, Wald 0.87), in no time and without a seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi.inference.standard_errors import standard_errors

if TYPE_CHECKING:
    from dfi._data.weights import Weights
    from dfi._types import Floats

# Below this the transformation is the identity to rounding, and its inverse is 0/0.
_NEGLIGIBLE = 1e-6


def skewness_of_mean(influence: Floats, weights: Weights) -> Floats:
    r"""Return the skewness :math:`c = \gamma/\sqrt n` of each column's (weighted) mean.

    With :math:`p_i = w_i/\sum w`, :math:`c_i = u_i - \bar u` and sampling weights,

    .. math:: \frac{\sum_i p_i^3 c_i^3}{\big(\sum_i p_i^2 c_i^2\big)^{3/2}} .

    Exactly 0 where the standard error is: the mean of equal numbers is off by a last digit on some
    processors and not on others, and the shape of such remainders is no skewness.
    """
    values = weights.values
    share = values / values.sum()
    centred = influence - share @ influence
    power2, power3 = (share**2, share**3)
    if weights.kind == "frequency":
        # a row of weight w stands for w rows: cumulants of the mean add, they do not cube
        power2, power3 = share / values.sum(), share / values.sum() ** 2
    varies = standard_errors(influence, weights) > 0.0
    variance = np.where(varies, power2 @ centred**2, 1.0)
    third = power3 @ centred**3
    return np.asarray(np.where(varies, third / variance**1.5, 0.0))


def hall_quantile(x: float, skewness: Floats) -> Floats:
    """Return ``g^{-1}(x)``, the skewness-corrected quantile of the t statistic, per unit."""
    c = np.asarray(skewness, dtype=float)
    small = np.abs(c) < _NEGLIGIBLE
    safe = np.where(small, 1.0, c)
    corrected = 3.0 / safe * (np.cbrt(1.0 + safe * (x - safe / 6.0)) - 1.0)
    return np.asarray(np.where(small, x, corrected))
