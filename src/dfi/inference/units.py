"""Scores, intervals and tests of all units at once, from their influence matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dfi.inference.hypotheses import p_values, z_statistics
from dfi.inference.intervals import (
    Alternative,
    Expansion,
    check_alternative,
    check_level,
    expand_standard_errors,
    wald_interval,
)
from dfi.inference.multiplicity import Adjustment, adjust_p_values, check_adjustment
from dfi.inference.simultaneous import max_t_critical_value
from dfi.inference.skewness import skewness_of_mean
from dfi.inference.standard_errors import standard_errors

if TYPE_CHECKING:
    from dfi._data.weights import Weights
    from dfi._types import Bools, Floats


@dataclass(frozen=True, eq=False)
class UnitInference:
    """What an influence matrix says about its columns.

    Parameters
    ----------
    influence : ndarray of shape (n, p)
        Uncentred influence values.
    weights : Weights
        Weights of the rows.
    degenerate : ndarray of bool of shape (p,)
        Units without variation.
    outcome_variance : float
        Var(Y), the unit of the expansion near the null.
    nonnegative : bool
        Whether the parameters cannot be negative.
    unrelated : ndarray of bool of shape (p,), optional
        Units whose dependence component is not read by any model: their intervals begin at 0.
    undetected : ndarray of shape (p,), optional
        Where those intervals end: the score that tests of dependence may have missed.
    """

    influence: Floats
    weights: Weights
    degenerate: Bools
    outcome_variance: float
    nonnegative: bool
    unrelated: Bools | None = None
    undetected: Floats | None = None

    @property
    def known(self) -> Bools:
        """Units with a standard error; that of unrelated ones is 0, by construction."""
        known = self.errors > 0.0
        return np.asarray(known if self.unrelated is None else known | self.unrelated)

    @cached_property
    def scores(self) -> Floats:
        """Weighted means of the columns."""
        return np.asarray(self.weights.mean(self.influence), dtype=np.float64)

    @cached_property
    def errors(self) -> Floats:
        """Standard errors: NaN for degenerate units, 0 for columns that do not vary."""
        return standard_errors(self.influence, self.weights, degenerate=self.degenerate)

    @cached_property
    def skewness(self) -> Floats:
        """Skewness of the scores, for Hall's correction of their intervals."""
        return skewness_of_mean(self.influence, self.weights)

    @property
    def covariance(self) -> Floats:
        """Covariance of the scores, NaN where a unit has no standard error."""
        covariance = np.array(self.weights.covariance_of_mean(self.influence), dtype=np.float64)
        unknown = ~self.known
        covariance[unknown, :] = np.nan
        covariance[:, unknown] = np.nan
        return covariance

    def widened(self, expansion: Expansion | None, level: float) -> Floats:
        """Return the standard errors with the expansion near the null."""
        return expand_standard_errors(
            self.errors,
            expansion=expansion,
            n=self.weights.total,
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
        """Return ``ci_low`` and ``ci_high``, one unit at a time or for all at once."""
        level = check_level(level)
        alternative = check_alternative(alternative)
        errors = self.widened(expansion, level)
        critical = None
        # The expansion and the joint bands are defined by normal quantiles of their own.
        skewness = skewness and expansion is None and not simultaneous
        if simultaneous:
            critical = max_t_critical_value(
                self.influence,
                self.weights,
                level=level,
                alternative=alternative,
                random_state=random_state,
            )
        low, high = wald_interval(
            self.scores,
            errors,
            level=level,
            alternative=alternative,
            nonnegative=self.nonnegative,
            critical=critical,
            skewness=self.skewness if skewness else None,
        )
        if expansion is None and self.unrelated is not None:
            # no spread to go by: the end is what tests of dependence could not exclude. An
            # expansion near the null widens these units like all others.
            end = np.zeros_like(high) if self.undetected is None else self.undetected
            above = np.full_like(high, np.inf) if alternative == "greater" else end
            below = -np.inf if alternative == "less" and not self.nonnegative else 0.0
            low, high = np.where(self.unrelated, below, low), np.where(self.unrelated, above, high)
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
        p = p_values(self.scores, errors, alternative=alternative, null=null)
        z = z_statistics(self.scores, errors, null=null)
        return {"z": z, "p": p, "p_adj": adjust_p_values(p, adjust)}
