"""Tests of scores: z statistics, p-values, multiplicity; and all inference on units at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from dfi.inference.intervals import (
    Alternative,
    Expansion,
    check_alternative,
    check_level,
    expand_standard_errors,
    simultaneous_critical_value,
    wald_interval,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dfi._types import Bools, Floats
    from dfi.inference.influence import Influence

Adjustment = Literal["none", "bonferroni", "holm", "bh", "by"]


def z_statistics(scores: ArrayLike, standard_errors: ArrayLike, *, null: float = 0.0) -> Floats:
    r"""Return :math:`z = (\hat\phi - \phi_0) / \hat\sigma`, NaN where the error is NaN or 0."""
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
    degrees: float = math.inf,
) -> Floats:
    r"""Return the p-values of the z tests, of t tests where ``degrees`` of freedom are finite.

    With :math:`z` as in :func:`z_statistics`: ``"greater"`` :math:`1-\Phi(z)`, ``"less"``
    :math:`\Phi(z)`, ``"two-sided"`` :math:`2(1-\Phi(|z|))`. Where the error is NaN no hypothesis is
    tested, and p is NaN. Where it is 0 the influence values do not vary (a model that never uses
    the feature); p is then 1, no evidence. Leaving such a unit out would let the model choose the
    number of hypotheses, and multiplicity corrections would be too lenient.
    """
    alternative = check_alternative(alternative)
    error = np.asarray(standard_errors, dtype=np.float64)
    z = z_statistics(scores, error, null=null)
    law = norm if degrees == math.inf else student(degrees)
    if alternative == "greater":
        p = law.sf(z)
    elif alternative == "less":
        p = law.cdf(z)
    else:
        p = 2.0 * law.sf(np.abs(z))
    return np.asarray(np.where(error == 0.0, 1.0, p))


def check_adjustment(method: str | None) -> Adjustment:
    """Return the name of an adjustment, or raise with the list of those that exist."""
    if method is None:
        return "none"
    if method not in get_args(Adjustment):
        known = ", ".join(map(repr, get_args(Adjustment)))
        raise ValueError(f"unknown adjustment {method!r}; choose one of {known}")
    return cast("Adjustment", method)


def adjust_p_values(p: ArrayLike, method: Adjustment | None = "holm") -> Floats:
    r"""Adjust p-values: a value of at most alpha then rejects with the error rate held at alpha.

    With :math:`p_{(1)} \le \dots \le p_{(m)}` the adjusted values are

    * ``"bonferroni"``: :math:`m\,p_{(k)}`, family-wise error, any dependence;
    * ``"holm"``: :math:`\max_{i \le k} (m-i+1)\,p_{(i)}`, family-wise error, any dependence;
    * ``"bh"``: :math:`\min_{i \ge k} m\,p_{(i)}/i`, false discovery rate, independence or
      positive dependence;
    * ``"by"``: ``"bh"`` times :math:`\sum_{i=1}^m 1/i`, false discovery rate, any dependence;

    each capped at 1, in the order given. NaN stays NaN and does not count as a hypothesis.
    """
    method = check_adjustment(method)
    raw = np.array(p, dtype=np.float64)
    if raw.ndim != 1:
        raise ValueError(f"p must be one-dimensional, got shape {raw.shape}")
    if np.any((raw < 0.0) | (raw > 1.0)):
        wrong = raw[(raw < 0.0) | (raw > 1.0)][0]
        raise ValueError(f"p-values must lie between 0 and 1, got {wrong}")
    tested = ~np.isnan(raw)
    m = int(tested.sum())
    if method == "none" or m == 0:
        return raw
    order = np.argsort(raw[tested], kind="stable")
    ascending = raw[tested][order]
    rank = np.arange(1, m + 1)
    if method == "bonferroni":
        stepped = m * ascending
    elif method == "holm":
        stepped = np.maximum.accumulate((m - rank + 1) * ascending)
    else:
        dependence = float(np.sum(1.0 / rank)) if method == "by" else 1.0
        stepped = np.minimum.accumulate((dependence * m * ascending / rank)[::-1])[::-1]
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(stepped, 1.0)
    raw[tested] = adjusted
    return raw


@dataclass(frozen=True, repr=False)
class Estimate:
    """A number with its uncertainty: a total, or the difference of two units.

    Attributes
    ----------
    value : float
        The estimate.
    se : float
        Its standard error; NaN where it cannot be estimated. That of a difference is of the
        differences row by row: the dependence between the two scores is accounted for.
    ci_low, ci_high : float
        Two-sided interval at ``level``.
    z, p : float
        Statistic and p-value of the test against 0.
    level : float
        Confidence level of the interval.
    contrast : bool, default=False
        Whether it is a difference: of either sign, with a two-sided test.
    """

    value: float
    se: float
    ci_low: float
    ci_high: float
    z: float
    p: float
    level: float
    contrast: bool = False

    @property
    def difference(self) -> float:
        """The value of a contrast: score of the first unit minus score of the second."""
        return self.value

    def __repr__(self) -> str:
        name = "Contrast(difference " if self.contrast else "Estimate("
        p = "<0.001" if self.p < 0.001 else f"{self.p:.3f}"
        return (
            f"{name}{_digits(self.value)}, se {_digits(self.se)}, {100 * self.level:.4g} % "
            f"interval {_digits(self.ci_low)} to {_digits(self.ci_high)}, p {p})"
        )


def _digits(value: float) -> str:
    """Return four digits, or all before the point of numbers of readable size."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.4g}"


def estimate_one(
    influence: Influence, *, level: float, alternative: Alternative, nonnegative: bool
) -> Estimate:
    """Return the only unit's score: a two-sided interval, a test of the ``alternative``."""
    value, error, degrees = influence.mean, influence.se, influence.degrees
    return estimate_of(
        value, error, degrees, level=level, alternative=alternative, nonnegative=nonnegative
    )


def estimate_of(
    value: Floats,
    error: Floats,
    degrees: float,
    *,
    level: float,
    alternative: Alternative,
    nonnegative: bool,
) -> Estimate:
    """Return a number with its inference, given its standard error."""
    low, high = wald_interval(value, error, level=level, nonnegative=nonnegative, degrees=degrees)
    z = z_statistics(value, error)
    p = p_values(value, error, alternative=alternative, degrees=degrees)
    reported = float(error[0]) if error[0] > 0.0 else float("nan")
    return Estimate(
        float(value[0]), reported, float(low[0]), float(high[0]), float(z[0]), float(p[0]), level
    )


@dataclass(frozen=True, eq=False)
class UnitInference:
    """Inference on the units of influence values.

    ``degenerate`` units do not vary; ``unrelated`` ones belong to a dependence component that no
    model reads, and their intervals go from 0 to ``undetected``, the score that tests of dependence
    may have missed. ``outcome_variance`` is the unit of the expansion near the null. Of a
    ``difference`` of two results a unit that does not differ in any row has a standard error of 0,
    not none, and unrelated ones an interval on both sides of 0. Models that are still learning may
    miss ``unlearned`` of a score.
    """

    influence: Influence
    degenerate: Bools
    outcome_variance: float
    nonnegative: bool
    unrelated: Bools
    undetected: Floats | None = None
    difference: bool = False
    unlearned: float = 0.0

    @property
    def _equal(self) -> Bools:
        return np.asarray((self.errors == 0.0) & self.difference & ~self.unrelated)

    @property
    def known(self) -> Bools:
        """Units with a standard error; that of unrelated and of equal ones is 0."""
        return np.asarray((self.errors > 0.0) | self.unrelated | self._equal)

    @cached_property
    def scores(self) -> Floats:
        return self.influence.mean

    @cached_property
    def errors(self) -> Floats:
        return np.where(self.degenerate, np.nan, self.influence.se)

    @property
    def reported_errors(self) -> Floats:
        return np.where(self.known, self.errors, np.nan)

    @property
    def covariance(self) -> Floats:
        """Covariance of the scores, NaN where a unit has no standard error."""
        covariance = np.array(self.influence.covariance)
        unknown = ~self.known
        covariance[unknown, :] = np.nan
        covariance[:, unknown] = np.nan
        return covariance

    def widened(self, expansion: Expansion | None, level: float) -> Floats:
        """Return the standard errors with the expansion near the null."""
        if self.difference and expansion is not None:
            raise ValueError(
                f"expansion={expansion!r} is for scores near 0, where they cannot be negative; "
                "differences of two results can be"
            )
        return expand_standard_errors(
            self.errors,
            expansion=expansion,
            n=self.influence.size,
            outcome_variance=self.outcome_variance,
            level=level,
        )

    def intervals(
        self,
        *,
        level: float,
        alternative: Alternative = "two-sided",
        expansion: Expansion | None = None,
        simultaneous: bool = False,
        skewness: bool = True,
        random_state: int = 0,
    ) -> dict[str, Floats]:
        """Return ``ci_low`` and ``ci_high``, one unit at a time or for all at once.

        An upper end leaves room for what models have yet to learn, ``unlearned`` times the normal
        quantile: scores of a model that learns late are too low, never too high.
        """
        level = check_level(level)
        alternative = check_alternative(alternative)
        errors = self.widened(expansion, level)
        critical = skew = None
        if simultaneous:
            critical = simultaneous_critical_value(
                self.influence, level=level, alternative=alternative, random_state=random_state
            )
        if skewness and expansion is None:  # the expansion is defined by normal quantiles
            try:
                skew = self.influence.skewness
            except ValueError:  # bands do without that of sums of many units
                if not simultaneous:
                    raise
        low, high = wald_interval(
            self.scores,
            errors,
            level=level,
            alternative=alternative,
            nonnegative=self.nonnegative,
            critical=critical,
            skewness=skew,
            degrees=self.influence.degrees,
        )
        if alternative != "greater":
            high = high + self.unlearned * norm.ppf(
                level if alternative == "less" else 0.5 + 0.5 * level
            )
        if expansion is None:
            # no spread to go by: the end is what tests of dependence could not exclude. An
            # expansion near the null widens these units like all others.
            end = np.zeros_like(high) if self.undetected is None else self.undetected
            exact = self.unrelated | self._equal
            above = np.where(self._equal, self.scores, end)
            below = np.where(self._equal, self.scores, -end if self.difference else 0.0)
            if alternative == "greater":
                above = np.full_like(high, np.inf)
            if alternative == "less" and not self.nonnegative:
                below = np.full_like(low, -np.inf)
            low, high = np.where(exact, below, low), np.where(exact, above, high)
        return {"ci_low": low, "ci_high": high}

    def tests(
        self,
        *,
        level: float,
        alternative: Alternative = "greater",
        adjust: Adjustment | None = "holm",
        null: float = 0.0,
        expansion: Expansion | None = None,
    ) -> dict[str, Floats]:
        """Return ``z``, ``p`` and ``p_adj``; ``level`` matters to the expansion only."""
        alternative, adjust = check_alternative(alternative), check_adjustment(adjust)
        errors = self.widened(expansion, level)
        p = p_values(
            self.scores, errors, alternative=alternative, null=null, degrees=self.influence.degrees
        )
        z = z_statistics(self.scores, errors, null=null)
        return {"z": z, "p": p, "p_adj": adjust_p_values(p, adjust)}

    def columns(
        self,
        *,
        level: float,
        alternative: Alternative,
        adjust: Adjustment | None = "holm",
        expansion: Expansion | None = None,
        simultaneous: bool = False,
    ) -> dict[str, Floats]:
        """Return score, se, ci_low, ci_high, z, p and p_adj of every unit."""
        return {
            "score": self.scores,
            "se": self.reported_errors,
            **self.intervals(level=level, expansion=expansion, simultaneous=simultaneous),
            **self.tests(level=level, alternative=alternative, adjust=adjust, expansion=expansion),
        }
