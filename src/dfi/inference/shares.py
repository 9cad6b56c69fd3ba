r"""Shares of scores: of the explained loss, of the null loss, or of the sum of the scores.

A share :math:`r_l = \phi_l / D` of a positive total :math:`D` that is estimated from the same rows
has the influence values

.. math:: u^r_{il} = r_l + \frac{u_{il} - r_l\, u^D_i}{\bar u^D},

a linear combination of the columns, so what score and total share cancels. Where the total is
not clearly above 0 a share of it means nothing.

Their skewness stretches intervals (:func:`~dfi.inference.intervals.stretched`) but does not shift
them: a ratio is not linear, and the skewness of its error is another. Shifted, they are wider and
cover less (docs/coverage.md).

Parts of a whole are not negative, and estimates of parts that are nearly 0 may be. What is shown
is the nearest point of the simplex (:func:`on_simplex`). Tests, standard errors and contrasts are
those of the estimates themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi.inference.influence import Influence, InfluenceRows
from dfi.inference.intervals import (
    Alternative,
    Expansion,
    check_level,
    expand_standard_errors,
    quantile,
    simultaneous_critical_value,
    stretched,
    wald_interval,
)
from dfi.inference.tests import p_values, z_statistics

if TYPE_CHECKING:
    from dfi._types import Floats

CLEAR = 2.0
"""Standard errors by which a total must exceed 0 for shares of it."""

UNLEARNED = 0.25
"""What models learn late moves a share by about this over the root of the rows.

Chosen by coverage and width of parts of 300 rows of 34 real tables (``benchmarks/real_parts.py``).
"""

UNSEEN = 0.15
"""Scores of models that still learn may also miss so much of what is not explained.

Over the root of the rows too; chosen on development tables of that study, most hardly learned.
"""

EXACT = 1e-9
"""Standard errors of shares that are rounding: all features together have a share of 1."""

ADDS_UP = 1e-6
"""How far a sum of shares may be from 1 and still be one of all of them."""


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of a total, and influence values of their errors (mean 0; None if unknown)."""

    values: Floats
    influence: Influence | None
    learning: bool = False

    @property
    def errors(self) -> Floats:
        """Standard errors, NaN where they are not known."""
        if self.influence is None:
            return np.full(len(self.values), np.nan)
        errors = self.influence.se
        late = UNLEARNED / np.sqrt(self.influence.size) if self.learning else 0.0
        return np.where(errors > EXACT, np.hypot(errors, late), errors)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the standard errors."""
        return np.inf if self.influence is None else self.influence.degrees

    def columns(
        self,
        level: float,
        *,
        nonnegative: bool,
        simultaneous: bool = False,
        expansion: Expansion | None = None,
        null_share: float = 1.0,
    ) -> dict[str, Floats]:
        """Return share, se, ci_low, ci_high, z and p; ends are projected where shares are >= 0.

        ``simultaneous`` intervals hold for all shares at once. An ``expansion`` near the null
        widens them by what it widens scores, in units of ``null_share``, the outcome's variance
        over the total. Tests are of shares above 0, two-sided where they may be negative.
        """
        check_level(level)
        errors = widened = long = self.errors
        critical = None
        if self.influence is not None:
            if simultaneous and np.any(errors > 0.0):
                critical = simultaneous_critical_value(
                    self.influence, level=level, alternative="two-sided"
                )
            widened = long = expand_standard_errors(
                errors,
                expansion=expansion,
                n=self.influence.size,
                outcome_variance=null_share,
                level=level,
            )
            skewness = self._skewness(self.influence, errors)
            if expansion is None and skewness is not None:
                at = quantile(level, "two-sided", self.degrees) if critical is None else critical
                long = stretched(errors, skewness, at, self.degrees)
        low, high = wald_interval(
            self.values,
            long,
            level=level,
            nonnegative=nonnegative,
            critical=critical,
            degrees=self.degrees,
        )
        alternative: Alternative = "greater" if nonnegative else "two-sided"
        return {
            "share": self.values,
            "se": errors,
            "ci_low": low,
            "ci_high": high,
            "z": z_statistics(self.values, widened),
            "p": p_values(self.values, widened, alternative=alternative, degrees=self.degrees),
        }

    @staticmethod
    def _skewness(influence: Influence, errors: Floats) -> Floats | None:
        """Return the skewness of the shares; None where it is not known.

        Room for late learning is a number: it has no skewness, and leaves more degrees of freedom.
        """
        try:
            skewness = influence.skewness
        except ValueError:  # moments of many units do not tell that of combinations
            return None
        own = np.divide(influence.se, errors, out=np.zeros_like(errors), where=errors > 0.0)
        return np.asarray(skewness * own**2)


def on_simplex(values: Floats) -> Floats:
    r"""Return the nearest shares that are not negative and add up to 1.

    :math:`\max(r_l - \theta, 0)`: what negative estimates lack is taken from all others alike, so
    the order stays. Estimates that do not add up to 1 are cut off at 0 and 1.
    """
    if not np.any(values < 0.0) or abs(float(values.sum()) - 1.0) > ADDS_UP:
        return np.clip(values, 0.0, 1.0)
    largest = -np.sort(-values)
    excess = (np.cumsum(largest) - 1.0) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[largest > excess][-1], 0.0))


def bounded(columns: dict[str, Floats], shares: Floats) -> dict[str, Floats]:
    """Replace the shares among the columns; known intervals are in [0, 1] and contain them."""
    low, high = np.clip(columns["ci_low"], 0.0, 1.0), np.clip(columns["ci_high"], 0.0, 1.0)
    return columns | {
        "share": shares,
        "ci_low": np.minimum(low, shares),
        "ci_high": np.maximum(high, shares),
    }


def beside(first: InfluenceRows, second: InfluenceRows) -> InfluenceRows:
    """Return the columns of two side by side; they are of the same rows, in the same order."""
    if first.n_rows != second.n_rows:
        raise ValueError(
            f"influence values of {first.n_rows} and of {second.n_rows} rows do not line up"
        )
    values = np.concatenate([first.values, second.values], axis=1)
    return InfluenceRows(values, first.weights, first.rows)


def is_clear(total: Influence) -> bool:
    """Return whether the only unit is above 0 by more than :data:`CLEAR` standard errors."""
    return bool(total.mean[0] > CLEAR * total.se[0])


def shares_of(units: Influence, total: Floats, parts: Floats) -> Shares:
    """Return shares of a total, both combinations of the units."""
    size = float(total @ units.mean)
    values = parts @ units.mean / size
    return Shares(values, units.summed((parts - values[:, None] * total) / size))
