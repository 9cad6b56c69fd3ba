r"""Intervals that respect the parameter space, with the expansion near the null.

For a score :math:`\hat\phi` with standard error :math:`\hat\sigma` and level
:math:`1-\alpha` the two-sided interval is
:math:`\hat\phi \pm z_{1-\alpha/2}\,\hat\sigma`. Importance scores are non-negative, so the
endpoints (never the score) are projected on :math:`[0, \infty)`.

**Near the null** the influence function vanishes, the limit is degenerate and the plain
interval is too short. The paper's remedy is to expand the interval by
:math:`O(n^{-1/2})` (its remark "Confidence intervals near the null"); its data analysis says
"we inflate the estimated variance by :math:`n^{-1/2}/z_{1-\alpha}`". That sentence can be
read in two ways, and both are offered. The paper standardises the outcome, so its unit is
:math:`\operatorname{Var}(Y)`, which is restored here to keep the result free of units:

``"standard_error"``
    :math:`\hat\sigma + \operatorname{Var}(Y)\, n^{-1/2} / z_{1-\alpha}`. A one-sided bound
    then moves by exactly :math:`\operatorname{Var}(Y)\, n^{-1/2}`: the expansion of the
    remark.
``"variance"``
    :math:`\sqrt{\hat\sigma^2 + \operatorname{Var}(Y)^2\, n^{-1/2} / z_{1-\alpha}}`. The
    sentence taken to the letter. It shrinks like :math:`n^{-1/4}` only, and is far wider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.stats import norm

from dfi.inference.skewness import hall_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dfi._types import Floats

Alternative = Literal["greater", "less", "two-sided"]
Expansion = Literal["standard_error", "variance"]


def check_level(level: float) -> float:
    """Return a confidence level, or raise if it does not lie strictly between 0 and 1."""
    try:
        value = float(level)
    except (TypeError, ValueError):
        raise TypeError(f"level must be a number between 0 and 1, got {level!r}") from None
    if not 0.0 < value < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}")
    return value


def check_alternative(alternative: str) -> Alternative:
    """Return the alternative, or raise with the list of those that exist."""
    for known in get_args(Alternative):
        if alternative == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"alternative must be 'greater', 'less' or 'two-sided', got {alternative!r}")


def expand_standard_errors(
    standard_errors: ArrayLike,
    *,
    expansion: Expansion | None,
    n: float,
    outcome_variance: float,
    level: float,
) -> Floats:
    r"""Widen standard errors by the expansion near the null.

    Parameters
    ----------
    standard_errors : array_like
        Standard errors :math:`\hat\sigma`; NaN stays NaN, 0 is widened like the others.
    expansion : {None, "standard_error", "variance"}
        Reading of the paper's expansion (see the module's description); None changes nothing.
    n : float
        Number of rows behind the standard errors.
    outcome_variance : float
        :math:`\operatorname{Var}(Y)`, the unit of the scores.
    level : float
        Confidence level :math:`1-\alpha`; must exceed 1/2, where :math:`z_{1-\alpha} > 0`.

    Returns
    -------
    ndarray
        The widened standard errors.
    """
    plain = np.asarray(standard_errors, dtype=np.float64)
    if expansion is None:
        return plain.copy()
    if expansion not in get_args(Expansion):
        raise ValueError(
            f"expansion must be None, 'standard_error' or 'variance', got {expansion!r}"
        )
    level = check_level(level)
    if level <= 0.5:
        raise ValueError(
            f"the expansion divides by the normal quantile of the level, which must exceed 0.5: "
            f"got level={level!r}"
        )
    if not np.isfinite(outcome_variance):
        raise ValueError(
            f"the expansion is measured in units of Var(Y), which is not known here: "
            f"got outcome_variance={outcome_variance!r}"
        )
    width = n**-0.5 / norm.ppf(level)
    if expansion == "standard_error":
        return np.asarray(plain + outcome_variance * width)
    return np.asarray(np.sqrt(plain**2 + outcome_variance**2 * width))


def wald_interval(
    scores: ArrayLike,
    standard_errors: ArrayLike,
    *,
    level: float = 0.95,
    alternative: Alternative = "two-sided",
    nonnegative: bool = True,
    critical: float | None = None,
    skewness: Floats | None = None,
) -> tuple[Floats, Floats]:
    r"""Return the lower and upper endpoints of Wald intervals.

    Parameters
    ----------
    scores, standard_errors : array_like
        Estimates and their (possibly widened) standard errors. A standard error of NaN or 0
        says that the uncertainty could not be estimated: both endpoints are NaN there.
    level : float, default=0.95
        Confidence level :math:`1-\alpha`.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        ``"two-sided"``: :math:`\hat\phi \pm z_{1-\alpha/2}\hat\sigma`; ``"greater"``: the lower
        bound :math:`[\hat\phi - z_{1-\alpha}\hat\sigma, \infty)`; ``"less"``: the upper bound
        :math:`(-\infty, \hat\phi + z_{1-\alpha}\hat\sigma]`.
    nonnegative : bool, default=True
        Whether the parameter cannot be negative: endpoints are then projected on
        :math:`[0, \infty)`.
    critical : float, optional
        Critical value to use in place of the normal quantile (simultaneous bands).
    skewness : ndarray, optional
        Skewness of each estimate, for Hall's correction of the quantiles
        (:mod:`dfi.inference.skewness`); not with ``critical``.

    Returns
    -------
    low, high : ndarray
        Endpoints.
    """
    level = check_level(level)
    alternative = check_alternative(alternative)
    estimate = np.asarray(scores, dtype=np.float64)
    error = np.asarray(standard_errors, dtype=np.float64)
    if critical is None:
        tail = (1.0 - level) / (2.0 if alternative == "two-sided" else 1.0)
        critical = float(norm.isf(tail))
        below = above = np.full(error.shape, critical)
        if skewness is not None:
            below, above = hall_quantile(critical, skewness), -hall_quantile(-critical, skewness)
    else:
        below = above = np.full(error.shape, critical)
    known = error > 0.0
    error = np.where(known, error, np.nan)
    low = estimate - below * error
    high = estimate + above * error
    if alternative == "less":
        low = np.where(known, -np.inf, np.nan)
    if alternative == "greater":
        high = np.where(known, np.inf, np.nan)
    if nonnegative:
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    return np.asarray(low), np.asarray(high)
