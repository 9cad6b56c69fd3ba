"""A single number with its uncertainty: a total, or the difference of two units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi.inference.hypotheses import p_values, z_statistics
from dfi.inference.intervals import wald_interval
from dfi.inference.standard_errors import standard_errors

if TYPE_CHECKING:
    from dfi._data.weights import Weights
    from dfi._types import Floats
    from dfi.inference.intervals import Alternative


@dataclass(frozen=True)
class Estimate:
    """A score with its standard error, interval and test.

    Attributes
    ----------
    value : float
        The estimate.
    se : float
        Its standard error; NaN where it cannot be estimated.
    ci_low, ci_high : float
        Two-sided interval at ``level``.
    z, p : float
        Statistic and p-value of the test against 0.
    level : float
        Confidence level of the interval.
    """

    value: float
    se: float
    ci_low: float
    ci_high: float
    z: float
    p: float
    level: float


@dataclass(frozen=True)
class Contrast:
    """The difference of two scores, with a two-sided interval and test.

    Attributes
    ----------
    difference : float
        Score of the first unit minus score of the second; either sign.
    se : float
        Its standard error, from the differences of the influence values of each row: the
        dependence between the two scores is accounted for.
    ci_low, ci_high : float
        Two-sided interval at ``level``.
    z, p : float
        Statistic and two-sided p-value of the test of no difference.
    level : float
        Confidence level of the interval.
    """

    difference: float
    se: float
    ci_low: float
    ci_high: float
    z: float
    p: float
    level: float

    def __repr__(self) -> str:
        return (
            f"Contrast(difference {self.difference:.4g}, se {self.se:.4g}, {self.level:.4g} "
            f"interval {self.ci_low:.4g} to {self.ci_high:.4g}, p {self.p:.4g})"
        )


def estimate_mean(
    column: Floats,
    weights: Weights,
    *,
    level: float,
    alternative: Alternative,
    nonnegative: bool,
) -> Estimate:
    """Return the mean of one column of influence values with its inference.

    The interval is two-sided; ``alternative`` is that of the test.
    """
    matrix = column[:, None]
    value = np.asarray(weights.mean(matrix))
    error = standard_errors(matrix, weights)
    low, high = wald_interval(value, error, level=level, nonnegative=nonnegative)
    z = z_statistics(value, error)
    p = p_values(value, error, alternative=alternative)
    reported = float(error[0]) if error[0] > 0.0 else float("nan")
    return Estimate(
        float(value[0]), reported, float(low[0]), float(high[0]), float(z[0]), float(p[0]), level
    )


def contrast_means(
    first: Floats, second: Floats, weights: Weights, *, level: float, known: bool = True
) -> Contrast:
    """Return the difference of the means of two columns of influence values.

    Parameters
    ----------
    first, second : ndarray of shape (n,)
        Influence values of the two units.
    weights : Weights
        Weights of the rows.
    level : float
        Confidence level.
    known : bool, default=True
        False when one of the units is degenerate: the difference then has no inference.
    """
    estimate = estimate_mean(
        first - second, weights, level=level, alternative="two-sided", nonnegative=False
    )
    if not known:
        nan = float("nan")
        return Contrast(estimate.value, nan, nan, nan, nan, nan, level)
    return Contrast(
        estimate.value,
        estimate.se,
        estimate.ci_low,
        estimate.ci_high,
        estimate.z,
        estimate.p,
        level,
    )
