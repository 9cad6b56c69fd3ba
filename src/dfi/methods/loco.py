r"""LOCO: what is lost when a feature is left out and the regression is refitted.

.. math:: \psi_j = E[(Y - \mu_{-j}(X_{-j}))^2 - (Y - \mu(X))^2] = E\operatorname{Var}(\mu(X)
          \mid X_{-j}),

(Lei et al. 2018, Rinaldo et al. 2019, Williamson et al. 2021). Both regressions minimise the risk
that they are plugged into, so their errors enter squared only, and the loss difference itself is
the influence value,

.. math:: u_{ij} = (y_i - \hat\mu_{-j})^2 - (y_i - \hat\mu)^2 ,

which for the true regressions is :math:`2\varepsilon\delta + \delta^2` with
:math:`\delta = \mu - \mu_{-j}`, the efficient influence function.

**At the null** :math:`\delta = 0` and this vanishes. With least squares the z statistic over K
folds tends to :math:`|W|/2 - 1/|W|`, W standard normal (K large), so a one-sided 5 % test rejects
about once in 7000: it is conservative, never too liberal. ``sample_split=True`` restores the level
as Williamson et al. (2023) do: the full model's loss is taken on one half of the rows and the
reduced model's on the other, so the variance does not vanish; it costs precision (both losses keep
their own noise). The projected covariance measure (``pcm``) is the more powerful test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._scoring.loss import SQUARED_ERROR
from dfi.methods.base import CONSERVATIVE, Part

if TYPE_CHECKING:
    from dfi._types import Floats
    from dfi.methods.context import Context


@dataclass(frozen=True, kw_only=True)
class LOCO:
    """Leave-one-covariate-out importance.

    Parameters
    ----------
    sample_split : bool, default=False
        Take the two losses on disjoint halves of the rows (groups of rows stay whole): a test of
        the right size at the null, at the price of wider intervals.
    """

    sample_split: bool = False

    name = "loco"
    question = (
        "Incremental value: how much prediction is lost when the feature is dropped and the "
        "regression is refitted on the others?"
    )
    valid_intervals = True

    @property
    def inference(self) -> str:
        """Why the intervals hold, and how the test behaves at the null."""
        if self.sample_split:
            return "Losses on disjoint halves of the rows: intervals and test hold at the null too."
        return f"Loss differences of the same rows. {CONSERVATIVE}"

    def refuses(self, context: Context) -> str | None:
        """Every table has a LOCO."""
        del context
        return None

    def compute(self, context: Context) -> dict[str, Part]:
        """Refit without each unit and compare the losses."""
        full, reduced = losses(context)
        influence = reduced - full[:, None]
        if self.sample_split:
            influence = split_influence(context, full, reduced)
        influence[:, context.units.constant] = 0.0
        return {self.name: Part(influence, context.rows)}


def losses(context: Context) -> tuple[Floats, Floats]:
    """Return the squared errors of the full model, (n,), and without each unit, (n, n_units)."""
    y = context.outcome.values[context.rows]
    subsets = [context.others(unit) for unit in range(len(context.units))]
    for unit in np.flatnonzero(context.units.constant):
        subsets[unit] = tuple(range(len(context.table.columns)))
    reduced = context.submodels.predictions(subsets, "refitting without each unit")[context.rows]
    full = SQUARED_ERROR.of(y, context.predictions[context.rows])
    return full, SQUARED_ERROR.of(y[:, None], reduced)


def split_influence(context: Context, full: Floats, reduced: Floats) -> Floats:
    r"""Return influence values of losses on disjoint halves A (full model) and B (reduced).

    :math:`u_i = \hat\psi + \frac{1\{i\in B\}}{\pi_B}(\ell^-_i - \bar\ell^-_B)
    - \frac{1\{i\in A\}}{\pi_A}(\ell_i - \bar\ell_A)`, whose mean is
    :math:`\hat\psi = \bar\ell^-_B - \bar\ell_A` and whose variance is that of the difference.
    """
    in_first = np.isin(context.rows, context.halves("loco", "halves")[0])
    mass = context.mass(context.rows)
    first, second = mass * in_first, mass * ~in_first
    share = first.sum(), second.sum()
    mean_full = first @ full / share[0]
    mean_reduced = second @ reduced / share[1]
    centred_full = np.where(in_first, full - mean_full, 0.0) / share[0]
    centred_reduced = np.where(in_first[:, None], 0.0, reduced - mean_reduced) / share[1]
    return np.asarray(mean_reduced - mean_full + centred_reduced - centred_full[:, None])
