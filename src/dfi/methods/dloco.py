r"""dLOCO: decorrelated LOCO, the importance of a feature made independent of the others.

Verdinelli and Wasserman (*Decorrelated Variable Importance*, JMLR 25(7), 2024, arXiv:2111.10853)
define

.. math:: \psi_j = \int\!\!\int \{\mu(x_j, x_{-j}) - \mu_0(x_{-j})\}^2\, p(x_j)\,p(x_{-j}),
          \qquad \mu_0(x_{-j}) = \int \mu(x_j, x_{-j})\,p(x_j),

which is :math:`\beta_j^2\operatorname{Var}(X_j)` for a linear regression. Their abstract calls it
"difficult to estimate nonparametrically" and turns to semiparametric models; no public
implementation was found, so this one is tested against closed forms, a slow twin over all pairs of
rows and simulation.

**Estimate.** :math:`\psi = E\,\tfrac12\{\mu(B_j, A_{-j}) - \mu(B'_j, A_{-j})\}^2` over three
different rows, a U-statistic: for each held-out row the (unbiased) variance of the prediction over
the feature of other rows of its fold, the row itself left out.

**Influence**, tested by simulation. Hoeffding's projection has one term for each role,

.. math:: g(x_{-j}) = \operatorname{Var}_{B}(\mu(B_j, x_{-j})), \qquad
          h(x_j) = E_A[\{\mu(x_j, A_{-j}) - \mu_0(A_{-j})\}^2],

so :math:`u_i = g_i + h_i - \hat\psi` plus the term for the estimated regression, with derivative
:math:`\dot\psi(h) = 2E_{B,A}[\{\mu - \mu_0\}h]` (see :mod:`dfi.methods.model_error`). The paper
calls this standard error intractable; it is three averages of the same predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi.methods.base import CONSERVATIVE, Part, check_at_least_two, if_debiased
from dfi.methods.donors import as_donors, shift_error
from dfi.methods.swaps import model_term, swap, swapped_part

if TYPE_CHECKING:
    from dfi._models.fits import Fits
    from dfi._types import Floats


@dataclass(frozen=True, kw_only=True)
class DLOCO:
    """Decorrelated leave-one-covariate-out importance.

    Parameters
    ----------
    n_partners : int, default=50
        Other rows whose feature each row is given, n times ``n_partners`` pairs in all; capped at
        the rows of its fold (then the U-statistic is complete).
    debias : bool, default=True
        Add the one-step correction for the regression's error.
    """

    n_partners: int = 50
    debias: bool = True

    name = "dloco"
    question = (
        "Direct effect: how much would the regression vary with the feature if it were "
        "independent of the others?"
    )
    valid_intervals = if_debiased(True, False)
    inference = if_debiased(
        "Hoeffding projection of the U-statistic and the regression's error to first order, the "
        "latter on the span of the columns and the fit: exact for linear regressions, "
        f"approximate for others. {CONSERVATIVE}",
        "For the fitted models as they are: a plain variance is positive for null features.",
    )

    def __post_init__(self) -> None:
        check_at_least_two("n_partners", self.n_partners)

    def refuses(self, fits: Fits) -> str | None:
        """Return why folds are too small, or None."""
        if min(len(fold.test) for fold in fits.folds) < 3:
            return "dloco compares at least three held-out rows: use fewer folds"
        return None

    def compute(self, fits: Fits) -> dict[str, Part]:
        """Give every held-out row the unit of others and take variances."""
        return {self.name: swapped_part(fits, _score, self.n_partners, self.debias, self.name)}


def _score(fits: Fits, f: int, unit: int, count: int, debias: bool) -> tuple[Floats, float]:
    """Return the influence values of a fold's rows and the Monte-Carlo error of their mean."""
    fold = fits.folds[f]
    mass = fits.weights.values[fold.test]
    swapped = swap(fits, f, unit, count)
    # sum of squared shares is 1/m for equal weights: the variance's degrees of freedom
    freedom = 1.0 - np.sum(swapped.share**2, axis=1, keepdims=True)
    deviation = swapped.values - np.sum(swapped.share * swapped.values, axis=1, keepdims=True)
    kernel = deviation**2 / np.maximum(freedom, 1e-12)
    received = np.sum(swapped.share * kernel, axis=1)
    given = as_donors(kernel, mass, swapped.donors)
    influence = received + given - np.average(given, weights=mass)
    factor = 2.0 * deviation / np.maximum(freedom, 1e-12)
    term = model_term(fits, f, unit, swapped, factor)
    influence += term if debias else term - np.average(term, weights=mass)
    return influence, shift_error(kernel, mass, swapped.complete)
