r"""Intervals that respect the parameter space, one unit at a time or for all units at once.

For a score :math:`\hat\phi` with standard error :math:`\hat\sigma` and level
:math:`1-\alpha` the two-sided interval is
:math:`\hat\phi \pm z_{1-\alpha/2}\,\hat\sigma`. Importance scores are non-negative, so the
endpoints (never the score) are projected on :math:`[0, \infty)`; the interval of a negative score
begins at the score.

**Skewness.** Influence values of squared signals are skewed, and so are their means: the Wald
interval of a mean of positively skewed values misses almost always on one side. With the true
regression of model M3, n = 500 and 90 % nominal, the truth lies above the interval in 13 % and
below it in 2 % of samples, although the standard error itself is right. Hall's monotone
transformation of the t statistic (P. Hall, "On the removal of skewness by transformation", JRSS B
54, 1992) removes the first-order effect. With :math:`c = \gamma/\sqrt n`, :math:`\gamma` the
skewness of the influence values,

.. math:: g(T) = T + \tfrac13 c T^2 + \tfrac1{27} c^2 T^3 + \tfrac16 c
          \quad\text{is closer to normal than } T,

and its inverse :math:`g^{-1}(x) = 3 c^{-1}\{(1 + c\,(x - c/6))^{1/3} - 1\}` takes the place of the
normal quantile. Measured against 1000 studentised bootstrap samples of the influence values it
covers as well (M3: 0.86 for both, Wald 0.85; M1: 0.89, Wald 0.87), in no time and without a seed.

**Heavy tails.** Where rare rows carry the variance most samples have too small a standard error.
It has :math:`\nu = 2n/(\kappa - 1)` degrees of freedom, :math:`\kappa` the kurtosis of the
influence values. A gamma law has :math:`\kappa = 3 + \tfrac32\gamma^2`, and influence values of
squared signals nearly do. What that adds to the kurtosis of normal values leaves
:math:`\nu = \tfrac43 c^{-2}`, and standard errors are stretched (:func:`stretched`) by the quantile
of that t distribution over the normal one. Fewer than four degrees make intervals wider without
covering more, and are not used.

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

**Simultaneous bands** :math:`\hat\phi_l \pm c\,\hat\sigma_l` hold for all units at once when
:math:`c` is the quantile of :math:`\max_l |\hat\phi_l - \phi_l| / \hat\sigma_l`. That law is
approximated by

.. math::

    T^*_l = \frac{\sum_i g_i\, a_i (u_{il} - \bar u_l)}
                 {\bigl(\sum_i a_i^2 (u_{il} - \bar u_l)^2\bigr)^{1/2}},

with independent multipliers :math:`g_i` of mean 0 and variance 1: the same multiplier for all
units of a row, so the dependence between units is kept and correlated units cost little. Given the
rows, normal multipliers make :math:`T^*` normal with the correlations of the scores, so the
covariance alone gives the same law where rows are not kept; only the draws differ.

**Rows that depend on each other** (:mod:`dfi._data.dependence`) have a multiplier per cluster, or
per window in time, and quantiles of a t distribution take the place of normal ones everywhere, with
the degrees of freedom of their standard errors: the draws of bands are divided by
:math:`(\chi^2_\nu/\nu)^{1/2}`.

Heavy tails stretch the errors of bands as well, and their critical value is corrected for skewness.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from dfi._parameters import LEVEL, argument, check_one, one_of, validated
from dfi.inference.influence import Influence, InfluenceRows, standard_errors

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dfi._data.weights import Weights
    from dfi._types import Floats

Alternative = Literal["greater", "less", "two-sided"]
Expansion = Literal["standard_error", "variance"]
Multipliers = Literal["gaussian", "rademacher"]

DRAWS_BEYOND = 10
"""Draws that a critical value must leave beyond it to be an estimate of a quantile."""

FEWEST_DEGREES = 4.0
"""Degrees of freedom that skewness leaves a standard error at least.

On three simulated laws with heavy tails (docs/coverage.md) 3 and 4/3 cover no more."""

# Below this Hall's transformation is the identity to rounding, and its inverse is 0/0.
_NEGLIGIBLE = 1e-6


def check_level(level: float) -> float:
    """Return a confidence level, or raise if it does not lie strictly between 0 and 1."""
    check_one("level", level, (LEVEL,))
    return float(level)


def check_alternative(alternative: str) -> Alternative:
    """Return the alternative, or raise with the list of those that exist."""
    choice: Alternative = one_of("alternative", alternative, get_args(Alternative))
    return choice


def stretched(
    errors: Floats, skewness: Floats, critical: float, degrees: float = math.inf
) -> Floats:
    r"""Return standard errors for intervals of skewed means, for a ``critical`` value.

    They are multiplied by :math:`t_\nu` over the critical value, both quantiles of the same tail,
    with :math:`\nu = \tfrac43 c^{-2}` where these are fewer ``degrees`` of freedom than given.
    """
    c = np.abs(np.asarray(skewness, dtype=float))
    own = np.maximum(FEWEST_DEGREES, 4.0 / (3.0 * np.maximum(c, _NEGLIGIBLE) ** 2))
    fewer = (c > _NEGLIGIBLE) & (own < degrees)
    if critical == 0.0 or not fewer.any():
        return errors
    tail = norm.sf(critical) if degrees == math.inf else student.sf(critical, degrees)
    farther = student.isf(tail, np.where(fewer, own, FEWEST_DEGREES))
    return np.asarray(errors * np.where(fewer, farther / critical, 1.0))


def hall_quantile(x: float, skewness: Floats) -> Floats:
    """Return ``g^{-1}(x)``, the skewness-corrected quantile of the t statistic, per unit."""
    c = np.asarray(skewness, dtype=float)
    small = np.abs(c) < _NEGLIGIBLE
    safe = np.where(small, 1.0, c)
    corrected = 3.0 / safe * (np.cbrt(1.0 + safe * (x - safe / 6.0)) - 1.0)
    return np.asarray(np.where(small, x, corrected))


@validated
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

    Examples
    --------
    >>> from dfi.inference import expand_standard_errors
    >>> wide = expand_standard_errors([0.1, 0.0], expansion="variance", n=100, outcome_variance=1.0,
    ...                               level=0.95)
    >>> bool(wide[0] > 0.1 and wide[1] > 0.0)
    True
    """
    plain = np.asarray(standard_errors, dtype=np.float64)
    if expansion is None:
        return plain.copy()
    one_of("expansion", expansion, (None, *get_args(Expansion)))
    level = check_level(level)
    if level <= 0.5:
        raise ValueError(
            f"the expansion divides by the normal quantile of the level, which must exceed 0.5, "
            f"got {level!r}"
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


def quantile(level: float, alternative: Alternative, degrees: float = math.inf) -> float:
    """Return the quantile of an interval, that of a t distribution if ``degrees`` are finite."""
    tail = (1.0 - level) / (2.0 if alternative == "two-sided" else 1.0)
    return float(norm.isf(tail) if degrees == math.inf else student.isf(tail, degrees))


@validated
def wald_interval(
    scores: ArrayLike,
    standard_errors: ArrayLike,
    *,
    level: float = 0.95,
    alternative: Alternative = "two-sided",
    nonnegative: bool = True,
    critical: float | None = None,
    skewness: Floats | None = None,
    degrees: float = math.inf,
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
        :math:`[0, \infty)`, but for a lower end that would leave a negative estimate outside of its
        own interval: it is the estimate.
    critical : float, optional
        Critical value to use in place of the normal quantile (simultaneous bands).
    skewness : ndarray, optional
        Skewness of each estimate: Hall's transformation corrects the quantiles, and errors are
        stretched by the quantiles of a t distribution.
    degrees : float, default=inf
        Degrees of freedom of the standard errors: quantiles of a t distribution take the place of
        normal ones.

    Returns
    -------
    low, high : ndarray
        Endpoints.

    Examples
    --------
    >>> from dfi.inference import wald_interval
    >>> low, high = wald_interval([2.0, 0.1], [0.5, 0.1])
    >>> low.round(2), high.round(2)
    (array([1.02, 0.  ]), array([2.98, 0.3 ]))
    """
    level = check_level(level)
    alternative = check_alternative(alternative)
    estimate = np.asarray(scores, dtype=np.float64)
    error = np.asarray(standard_errors, dtype=np.float64)
    if critical is None:
        critical = quantile(level, alternative, degrees)
    below = above = np.full(error.shape, critical)
    if skewness is not None:
        below, above = hall_quantile(critical, skewness), -hall_quantile(-critical, skewness)
        error = stretched(error, skewness, critical, degrees)
    known = error > 0.0
    error = np.where(known, error, np.nan)
    low = estimate - below * error
    high = estimate + above * error
    if alternative == "less":
        low = np.where(known, -np.inf, np.nan)
    if alternative == "greater":
        high = np.where(known, np.inf, np.nan)
    if nonnegative:
        low, high = np.maximum(low, np.minimum(estimate, 0.0)), np.maximum(high, 0.0)
    return np.asarray(low), np.asarray(high)


def max_t_statistics(
    influence: Floats,
    weights: Weights,
    *,
    alternative: Alternative = "two-sided",
    multipliers: Multipliers = "gaussian",
    n_draws: int = 4000,
    random_state: int | np.random.Generator = 0,
    memory: int = 2**26,
) -> Floats:
    r"""Draw the maximum over units of the bootstrapped t statistics; NaN when no column varies.

    Sampling weights enter with :math:`a_i = w_i`, frequency weights with :math:`a_i = \sqrt{w_i}`:
    the sum of :math:`w_i` independent multipliers of equal rows has standard deviation
    :math:`\sqrt{w_i}`. The maximum is that of :math:`|T^*_l|`, of :math:`T^*_l` (``"greater"``,
    lower bounds) or of :math:`-T^*_l` (``"less"``, upper bounds); :math:`g_i` is N(0, 1), or -1 and
    1 with probability 1/2. ``memory`` bounds the bytes of multipliers held at a time, and changes
    the result by rounding only: the multipliers are one stream, however it is cut.
    """
    alternative = check_alternative(alternative)
    multipliers = one_of("multipliers", multipliers, get_args(Multipliers))
    if n_draws < 1:
        raise ValueError(f"n_draws must be at least 1, got {n_draws!r}")
    values = np.asarray(weights.values, dtype=np.float64)
    if weights.dependence is None:
        scale = np.sqrt(values) if weights.kind == "frequency" else values
        centred = scale[:, None] * (influence - weights.mean(influence))
    else:  # a multiplier for each cluster or window
        weights = weights.settled(influence)
        centred = weights.steps(influence)
    kept = standard_errors(influence, weights) > 0.0
    if not kept.any():
        return np.full(n_draws, np.nan)
    standardised = centred[:, kept]
    standardised /= np.sqrt(np.einsum("ij,ij->j", standardised, standardised))

    generator = np.random.default_rng(random_state)
    n = len(standardised)
    chunk = int(np.clip(memory // (8 * max(n, standardised.shape[1])), 1, n_draws))
    maxima = np.empty(n_draws)
    for start in range(0, n_draws, chunk):
        stop = min(start + chunk, n_draws)
        if multipliers == "gaussian":
            g = generator.standard_normal((stop - start, n))
        else:
            # integers() draws several bits from one word and drops the rest at the end of a
            # call, so the stream would depend on the chunks; random() does not.
            g = np.where(generator.random((stop - start, n)) < 0.5, -1.0, 1.0)
        maxima[start:stop] = _largest(g @ standardised, alternative)
    return studentised(maxima, weights.degrees, generator)


def studentised(maxima: Floats, degrees: float, generator: np.random.Generator) -> Floats:
    """Return maxima of t statistics, whose standard errors are estimates too."""
    if degrees == math.inf:
        return maxima
    return np.asarray(maxima / np.sqrt(generator.chisquare(degrees, len(maxima)) / degrees))


def _largest(t: Floats, alternative: Alternative) -> Floats:
    """Return the largest statistic of each draw in the direction of the alternative."""
    if alternative == "two-sided":
        np.abs(t, out=t)
    elif alternative == "less":
        np.negative(t, out=t)
    return np.asarray(t.max(axis=1))


def max_t_from_covariance(
    covariance: Floats,
    se: Floats,
    *,
    alternative: Alternative = "two-sided",
    n_draws: int = 4000,
    random_state: int | np.random.Generator = 0,
    degrees: float = math.inf,
) -> Floats:
    r"""Draw the maximum of normal statistics with the correlations of the scores.

    What :func:`max_t_statistics` draws with normal multipliers, in law: given the rows,
    :math:`T^* \sim N(0, R)` with :math:`R` the correlations, drawn as :math:`R^{1/2} g`. Units with
    a standard error of 0 or NaN are left out. With finite ``degrees`` of freedom draws are of t
    statistics.
    """
    alternative = check_alternative(alternative)
    kept = se > 0.0
    if not kept.any():
        return np.full(n_draws, np.nan)
    correlation = covariance[np.ix_(kept, kept)] / np.outer(se[kept], se[kept])
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    generator = np.random.default_rng(random_state)
    g = generator.standard_normal((n_draws, len(root)))
    return studentised(_largest(g @ root.T, alternative), degrees, generator)


def highest_level(n_draws: int) -> float:
    """Return the level whose quantile leaves :data:`DRAWS_BEYOND` of some draws beyond it."""
    return 1.0 - DRAWS_BEYOND / n_draws


def critical_value(maxima: Floats, level: float = 0.95) -> float:
    """Return the ``level`` quantile of drawn maxima, rounded up to one of them; NaN for NaN."""
    level, highest = check_level(level), highest_level(len(maxima))
    if level > highest:
        raise ValueError(
            f"{argument('level', level)} needs more than {len(maxima)} draws for simultaneous "
            f"intervals: pass a level of {highest:.4g} or less, or use simultaneous=False"
        )
    return float(np.quantile(maxima, level, method="higher"))


def simultaneous_critical_value(
    influence: Influence, *, level: float, alternative: Alternative, random_state: int = 0
) -> float:
    """Return the critical value of simultaneous bands, by rows or from moments: one law."""
    if isinstance(influence, InfluenceRows):
        maxima = max_t_statistics(
            influence.values, influence.weights, alternative=alternative, random_state=random_state
        )
    else:
        maxima = max_t_from_covariance(
            influence.covariance,
            influence.se,
            alternative=alternative,
            random_state=random_state,
            degrees=influence.degrees,
        )
    return critical_value(maxima, level)
