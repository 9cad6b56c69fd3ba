r"""PFI: marginal permutation, many permutations averaged inside, loss differences.

With :math:`X'` the row whose feature ``j`` comes from another row,

.. math:: \psi_j = E[(Y - \mu(X'))^2 - (Y - \mu(X))^2] = E[(\mu(X) - \mu(X'))^2]

(Breiman 2001, Hooker et al. 2021); :math:`2\beta_j^2\operatorname{Var}(X_j)` for a linear one.
Rows that the data never show enter wherever features are dependent: the question is about the
model's reliance, not about what the feature adds.

**Influence.** :math:`\psi` is a mean over pairs (receiver, donor), so a row contributes as both
(Hoeffding projection), :math:`\ell(i, \cdot) + \ell(\cdot, i) - \bar\ell`; a third term carries the
first-order error of the regression, whose derivative is
:math:`\dot\psi(h) = -2E[(\mu(X) - \mu(X'))h(X')]` (see :mod:`dfi.methods.model_error`). The
spread of the score over permutations measures the permutations alone; it is reported apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._scoring.forms import loco
from dfi.methods.base import CONSERVATIVE, Part, check_at_least_two, if_debiased
from dfi.methods.donors import as_donors, shift_error
from dfi.methods.swaps import model_term, swap, swapped_part

if TYPE_CHECKING:
    from dfi._types import Floats
    from dfi.methods.context import Context


@dataclass(frozen=True, kw_only=True)
class PFI:
    """Marginal permutation importance.

    Parameters
    ----------
    n_permutations : int, default=50
        Permutations averaged inside each fold; capped at the rows of the fold.
    debias : bool, default=True
        Add the one-step correction for the regression's error; False gives the classic mean, a
        statement about the fitted models as they are.
    """

    n_permutations: int = 50
    debias: bool = True

    name = "pfi"
    question = (
        "Marginal reliance: how much does the regression lean on the feature when its link to the "
        "other features is broken?"
    )
    valid_intervals = if_debiased(True, False)
    inference = if_debiased(
        "Both roles of a row and the regression's error to first order, the latter on the span of "
        "the columns and the fit: exact for linear regressions, approximate for others. "
        f"{CONSERVATIVE}",
        "For the fitted models as they are; the regression's own error is left out.",
    )

    def __post_init__(self) -> None:
        check_at_least_two("n_permutations", self.n_permutations)

    def refuses(self, context: Context) -> str | None:
        """Every table has a PFI."""
        del context
        return None

    def compute(self, context: Context) -> dict[str, Part]:
        """Permute each unit within the held-out rows of each fold."""
        return {
            self.name: swapped_part(context, _score, self.n_permutations, self.debias, self.name)
        }


def _score(context: Context, f: int, unit: int, count: int, debias: bool) -> tuple[Floats, float]:
    """Return the influence values of a fold's rows and the Monte-Carlo error of their mean."""
    fold = context.folds[f]
    y, value = context.outcome.values[fold.test], context.predictions[fold.test]
    mass = context.weights.values[fold.test]
    swapped = swap(context, f, unit, count)
    # the row's own loss is taken off first: at the null the kernel then vanishes with the score
    kernel = loco(y[:, None], value[:, None], swapped.values)
    given = as_donors(kernel, mass, swapped.donors)
    influence = np.sum(swapped.share * kernel, axis=1) + given - np.average(given, weights=mass)
    factor = -2.0 * (value[:, None] - swapped.values)
    term = model_term(context, f, unit, swapped, factor)
    influence += term if debias else term - np.average(term, weights=mass)
    return influence, shift_error(kernel, mass, swapped.complete)
