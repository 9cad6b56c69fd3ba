r"""nLOCO: LOCO on a scale of its own.

The paper compares with "nLOCO (normalized LOCO)" and refers to Verdinelli and Wasserman,
*Feature importance: a closer look at Shapley values and LOCO* (Statistical Science 2024,
arXiv:2303.05981), without a formula. What could be found of the source is its abstract, which ends
by recommending "a slightly modified version of LOCO"; secondary summaries speak of normalised and
decorrelated LOCO as extensions against collinearity; no public implementation was found. Two
readings are therefore offered.

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

from dfi.methods.base import CONSERVATIVE, Part
from dfi.methods.covariates import covariate_residuals
from dfi.methods.loco import LOCO

if TYPE_CHECKING:
    from dfi._models.fits import Fits
    from dfi._types import Floats

EXPLAINED = 1e-6
"""Share of a feature's variance below which nothing but rounding and penalties is left of it."""


@dataclass(frozen=True, kw_only=True)
class NLOCO:
    """Normalised leave-one-covariate-out importance.

    Parameters
    ----------
    normalize : {"outcome", "residual"}, default="outcome"
        Divide by Var(Y), or by the variance of the feature that the others do not explain.
    sample_split : bool, default=False
        As for :class:`~dfi.methods.loco.LOCO`.
    """

    normalize: Literal["outcome", "residual"] = "outcome"
    sample_split: bool = False

    name = "nloco"
    valid_intervals = True

    def __post_init__(self) -> None:
        if self.normalize not in ("outcome", "residual"):
            raise ValueError(f"normalize must be 'outcome' or 'residual', got {self.normalize!r}")

    @property
    def question(self) -> str:
        """The question that the method answers."""
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
        """Why the intervals hold, and how the test behaves at the null."""
        return "Delta method for the ratio. " + (
            LOCO(sample_split=True).inference if self.sample_split else CONSERVATIVE
        )

    def refuses(self, fits: Fits) -> str | None:
        """Every table has an nLOCO."""
        del fits
        return None

    def compute(self, fits: Fits) -> dict[str, Part]:
        """Divide the LOCO scores and carry the denominator's error along."""
        numerator = LOCO(sample_split=self.sample_split).compute(fits)["loco"].influence
        denominator = self._denominator(fits)
        influence = ratio_influence(numerator, denominator, fits.mass(fits.rows))
        influence[:, fits.units.constant] = 0.0
        return {self.name: Part(influence, fits.rows)}

    def _denominator(self, fits: Fits) -> Floats:
        n_units = len(fits.units)
        if self.normalize == "outcome":
            y = fits.outcome.values[fits.rows]
            square = (y - fits.mass(fits.rows) @ y) ** 2
            return np.repeat(square[:, None], n_units, axis=1)
        denominator = np.ones((len(fits.rows), n_units))
        mass = fits.mass(fits.rows)
        for unit, residual in covariate_residuals(fits).items():
            denominator[:, unit] = np.sum(residual**2, axis=1)
            columns = fits.table.matrix[np.ix_(fits.rows, fits.units.positions[unit])]
            variance = float(np.sum(mass @ (columns - mass @ columns) ** 2))
            if mass @ denominator[:, unit] <= EXPLAINED * variance:
                raise ValueError(
                    f"nloco with normalize='residual' divides by what the other features leave of "
                    f"{fits.units.names[unit]!r}, and they explain it entirely: drop the "
                    "feature, put it into one group with those that repeat it, or use "
                    "normalize='outcome'"
                )
        return denominator


def ratio_influence(numerator: Floats, denominator: Floats, mass: Floats) -> Floats:
    """Return the influence values of the ratio of two column means."""
    top, bottom = mass @ numerator, mass @ denominator
    ratio = top / bottom
    return np.asarray(ratio + ((numerator - top) - ratio * (denominator - bottom)) / bottom)
