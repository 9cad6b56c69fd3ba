"""Tests of single scores: z statistics and p-values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from dfi.inference.intervals import Alternative, check_alternative

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dfi._types import Floats


def z_statistics(scores: ArrayLike, standard_errors: ArrayLike, *, null: float = 0.0) -> Floats:
    r"""Return :math:`z = (\hat\phi - \phi_0) / \hat\sigma`, NaN where the error is NaN or 0.

    Parameters
    ----------
    scores, standard_errors : array_like
        Estimates and their standard errors.
    null : float, default=0.0
        Value :math:`\phi_0` under the null hypothesis.
    """
    estimate = np.asarray(scores, dtype=np.float64)
    error = np.asarray(standard_errors, dtype=np.float64)
    usable = np.where(error > 0.0, error, np.nan)
    return np.asarray((estimate - null) / usable)


def p_values(
    scores: ArrayLike,
    standard_errors: ArrayLike,
    *,
    alternative: Alternative = "greater",
    null: float = 0.0,
) -> Floats:
    r"""Return the p-values of the z tests.

    With :math:`z` as in :func:`z_statistics`: ``"greater"`` :math:`1-\Phi(z)`, ``"less"``
    :math:`\Phi(z)`, ``"two-sided"`` :math:`2(1-\Phi(|z|))`.

    Parameters
    ----------
    scores, standard_errors : array_like
        Estimates and their standard errors. NaN: no hypothesis is tested, p is NaN. 0: the
        influence values do not vary (a model that never uses the feature); p is then 1, no
        evidence. Leaving such a unit out would let the model choose the number of
        hypotheses, and multiplicity corrections would be too lenient.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Direction of the alternative.
    null : float, default=0.0
        Value under the null hypothesis.
    """
    alternative = check_alternative(alternative)
    error = np.asarray(standard_errors, dtype=np.float64)
    z = z_statistics(scores, error, null=null)
    if alternative == "greater":
        p = norm.sf(z)
    elif alternative == "less":
        p = norm.cdf(z)
    else:
        p = 2.0 * norm.sf(np.abs(z))
    return np.asarray(np.where(error == 0.0, 1.0, p))
