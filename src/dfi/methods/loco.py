r"""LOCO, the loss from leaving a feature out and refitting; and nLOCO.

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

**nLOCO** divides LOCO by a scale. The paper compares with "nLOCO (normalized LOCO)" and refers to
Verdinelli and Wasserman, *Feature importance: a closer look at Shapley values and LOCO*
(Statistical Science 2024, arXiv:2303.05981), without a formula. Of the source only the abstract was
found, which ends by recommending "a slightly modified version of LOCO"; secondary summaries speak
of normalised and decorrelated LOCO as extensions against collinearity; no public implementation was
found. It therefore comes in two readings.

``normalize="outcome"`` (default)
    :math:`\psi_j / \operatorname{Var}(Y)`, the share of the outcome's variance that only this
    feature explains. It falls with the correlation exactly as LOCO does, which is what the paper's
    simulations report of nLOCO.
``normalize="residual"``
    :math:`\psi_j / E\operatorname{Var}(X_j \mid X_{-j})`, which is :math:`\beta_j^2` for a
    (partially) linear model, free of the correlation: the reading that fits "modified to address
    correlation". For a categorical column or a group the denominator is the sum over its numeric
    columns.

With numerator influence :math:`u`, denominator :math:`D` with influence :math:`v`, the delta method
gives :math:`\hat\psi/\hat D + \{(u_i - \hat\psi) - (\hat\psi/\hat D)(v_i - \hat D)\}/\hat D`. For
the residual variance :math:`v_i = \|x_{ij} - \hat\nu_j(x_{i,-j})\|^2`, out of fold: the error of
the regression enters squared only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._models.submodels import submodels
from dfi._parameters import validated_fields
from dfi.methods.base import CONSERVATIVE, Method, MethodResult
from dfi.methods.conditional import covariate_residuals

if TYPE_CHECKING:
    from dfi._models.fits import Fits
    from dfi._types import Floats

EXPLAINED = 1e-6
"""Below this share of a feature's variance, only rounding and penalties remain."""


@validated_fields
@dataclass(frozen=True, kw_only=True)
class LOCO(Method):
    """Leave-one-covariate-out importance.

    Parameters
    ----------
    sample_split : bool, default=False
        Take the two losses on disjoint halves of the rows (groups of rows stay whole): a test of
        the right size at the null, at the price of wider intervals.

    Examples
    --------
    >>> found = dfi.compare(sample.X, sample.y, dfi.methods.LOCO(), estimator="linear", cv=2)
    >>> bool(found["loco"].scores[0] > 5 > found["loco"].scores[1])  # x0 stands in for x1
    True
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
        if self.sample_split:
            return "Losses on disjoint halves of the rows: intervals and test hold at the null too."
        return f"Loss differences of the same rows. {CONSERVATIVE}"

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        full, reduced = _losses(fits)
        influence = reduced - full[:, None]
        if self.sample_split:
            influence = _split_influence(fits, full, reduced)
        influence[:, fits.units.constant] = 0.0
        return {self.name: MethodResult(influence, fits.rows)}


def _losses(fits: Fits) -> tuple[Floats, Floats]:
    """Return the losses of the full model, (n,), and without each unit, (n, n_units)."""
    y = fits.outcome.values[fits.rows]
    subsets = [fits.others(unit) for unit in range(len(fits.units))]
    for unit in np.flatnonzero(fits.units.constant):
        subsets[unit] = tuple(range(len(fits.table.columns)))
    reduced = submodels(fits).predictions(subsets, "refitting without each unit")[fits.rows]
    full = fits.loss.of(y, fits.predictions[fits.rows])
    return full, fits.loss.of(y[:, None], reduced)


def _split_influence(fits: Fits, full: Floats, reduced: Floats) -> Floats:
    r"""Return influence values of losses on disjoint halves A (full model) and B (reduced).

    :math:`u_i = \hat\psi + \frac{1\{i\in B\}}{\pi_B}(\ell^-_i - \bar\ell^-_B)
    - \frac{1\{i\in A\}}{\pi_A}(\ell_i - \bar\ell_A)`, whose mean is
    :math:`\hat\psi = \bar\ell^-_B - \bar\ell_A` and whose variance is that of the difference.
    """
    in_first = np.isin(fits.rows, fits.split_rows("loco", "halves")[0])
    mass = fits.mass(fits.rows)
    first, second = mass * in_first, mass * ~in_first
    share = first.sum(), second.sum()
    mean_full = first @ full / share[0]
    mean_reduced = second @ reduced / share[1]
    centred_full = np.where(in_first, full - mean_full, 0.0) / share[0]
    centred_reduced = np.where(in_first[:, None], 0.0, reduced - mean_reduced) / share[1]
    return np.asarray(mean_reduced - mean_full + centred_reduced - centred_full[:, None])


@validated_fields
@dataclass(frozen=True, kw_only=True)
class NLOCO(Method):
    """Normalised leave-one-covariate-out importance.

    Parameters
    ----------
    normalize : {"outcome", "residual"}, default="outcome"
        Divide by Var(Y), or by the variance of the feature that the others do not explain.
    sample_split : bool, default=False
        As for :class:`~dfi.methods.loco.LOCO`.

    Examples
    --------
    >>> found = dfi.compare(sample.X, sample.y, dfi.methods.NLOCO(), estimator="linear", cv=2)
    >>> bool(0 < found["nloco"].scores[0] < 1)
    True
    """

    normalize: Literal["outcome", "residual"] = "outcome"
    sample_split: bool = False

    adds_up = False
    name = "nloco"
    valid_intervals = True

    @property
    def question(self) -> str:
        if self.normalize == "outcome":
            return (
                "Incremental value as a share: what part of Var(Y) does only this feature explain?"
            )
        return (
            "Incremental value per unit of the feature's own variation: how steep is the regression"
            " in the part of the feature that the others do not explain?"
        )

    @property
    def inference(self) -> str:
        return "Delta method for the ratio. " + (
            LOCO(sample_split=True).inference if self.sample_split else CONSERVATIVE
        )

    def refuses(self, fits: Fits) -> str | None:
        """Return which unit the others explain entirely, or None.

        This needs the regressions of the denominator, which are fitted once for both.
        """
        if self.normalize == "outcome":
            return None
        mass = fits.mass(fits.rows)
        means = mass @ self._denominator(fits)
        for unit in fits.units.active:
            columns = fits.table.matrix[np.ix_(fits.rows, fits.units.positions[unit])]
            variance = float(np.sum(mass @ (columns - mass @ columns) ** 2))
            if means[unit] <= EXPLAINED * variance:
                return (
                    "nloco with normalize='residual' divides by the variance of "
                    f"{fits.units.names[unit]!r} given the other features, which is 0: drop the "
                    "feature, group it with those that determine it, or use normalize='outcome'"
                )
        return None

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        reason = self.refuses(fits)
        if reason is not None:
            raise ValueError(reason)
        numerator = LOCO(sample_split=self.sample_split).compute(fits)["loco"].influence
        denominator = self._denominator(fits)
        influence = ratio_influence(numerator, denominator, fits.mass(fits.rows))
        influence[:, fits.units.constant] = 0.0
        return {self.name: MethodResult(influence, fits.rows)}

    def _denominator(self, fits: Fits) -> Floats:
        n_units = len(fits.units)
        if self.normalize == "outcome":
            y = fits.outcome.values[fits.rows]
            level = np.full(len(y), fits.loss.best_constant(y, fits.mass(fits.rows)))
            null = fits.loss.of(y, level) - fits.loss.least(y)
            return np.repeat(null[:, None], n_units, axis=1)
        denominator = np.ones((len(fits.rows), n_units))
        for unit, residual in covariate_residuals(fits).items():
            denominator[:, unit] = np.sum(residual**2, axis=1)
        return denominator


def ratio_influence(numerator: Floats, denominator: Floats, mass: Floats) -> Floats:
    """Return the influence values of the ratio of two column means."""
    top, bottom = mass @ numerator, mass @ denominator
    ratio = top / bottom
    return np.asarray(ratio + ((numerator - top) - ratio * (denominator - bottom)) / bottom)
