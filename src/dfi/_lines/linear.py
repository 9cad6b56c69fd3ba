"""Linear models: every line moment in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    HuberRegressor,
    Lars,
    LarsCV,
    Lasso,
    LassoCV,
    LassoLars,
    LassoLarsCV,
    LassoLarsIC,
    LinearRegression,
    OrthogonalMatchingPursuit,
    QuantileRegressor,
    Ridge,
    RidgeCV,
    SGDRegressor,
    TheilSenRegressor,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVR

from dfi._lines.base import LineMoments, Lines

if TYPE_CHECKING:
    from dfi._types import Floats

LINEAR_MODELS = (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    HuberRegressor,
    Lars,
    LarsCV,
    Lasso,
    LassoCV,
    LassoLars,
    LassoLarsCV,
    LassoLarsIC,
    LinearRegression,
    LinearSVR,
    OrthogonalMatchingPursuit,
    QuantileRegressor,
    Ridge,
    RidgeCV,
    SGDRegressor,
    TheilSenRegressor,
)


@dataclass(frozen=True)
class LinearLines:
    r"""A linear model ``f(x) = intercept + coefficients @ x``.

    With the slope :math:`b_j = \ell_j'\beta` along line ``j`` and the value :math:`a` of the model
    where :math:`t = 0`,

    .. math:: m = a + b_j E[t], \quad h = a E[t] + b_j E[t^2], \quad
              E[f^2] = a^2 + 2 a b_j E[t] + b_j^2 E[t^2].
    """

    coefficients: Floats
    intercept: float

    @property
    def rule(self) -> str:
        """Say how the averages are taken."""
        return "closed form (linear)"

    def predict(self, points: Floats) -> Floats:
        """Return the model's value at each row."""
        return np.asarray(points @ self.coefficients + self.intercept)

    def moments(self, lines: Lines, *, square: bool = False) -> LineMoments:
        """Return the moments along each line."""
        slope = self.coefficients @ lines.directions
        first, second = lines.reference.moments(len(slope))
        value = self.predict(lines.points)
        origin = value[:, None] - slope * lines.latent
        origin = origin[None] - (slope * lines.offsets)[:, None, :]
        return LineMoments(
            mean=origin + slope * first,
            hermite=origin * first + slope * second,
            square=origin**2 + 2 * slope * first * origin + slope**2 * second if square else None,
        )


def linear_lines(model: Any, n_columns: int) -> LinearLines | None:
    """Read a fitted linear model, or a pipeline of scalers that ends in one.

    Returns None where the model is of another kind. A scaler ``(x - a) / s`` in front of the
    model is folded into its coefficients.
    """
    scale, shift = np.ones(n_columns), np.zeros(n_columns)
    if isinstance(model, Pipeline):
        *steps, final = [step for _, step in model.steps]
        for step in steps:
            affine = _affine(step, n_columns)
            if affine is None:
                return None
            step_scale, step_shift = affine
            scale, shift = scale * step_scale, shift * step_scale + step_shift
        model = final
    if not isinstance(model, LINEAR_MODELS):
        return None
    coefficients = np.asarray(model.coef_, dtype=float).ravel()
    if coefficients.shape != (n_columns,):
        return None
    intercept = float(np.asarray(model.intercept_, dtype=float).ravel()[0])
    return LinearLines(coefficients * scale, intercept + float(coefficients @ shift))


def _affine(step: Any, n_columns: int) -> tuple[Floats, Floats] | None:
    """Return ``(a, b)`` with ``step(x) = a x + b``, or None if the step is not of that form."""
    zero, one = np.zeros(n_columns), np.ones(n_columns)
    if step is None or step == "passthrough":
        return one, zero
    if type(step) is StandardScaler or type(step) is RobustScaler:
        center = step.mean_ if type(step) is StandardScaler else step.center_
        center = zero if center is None else np.asarray(center)
        scale = one if step.scale_ is None else 1.0 / np.asarray(step.scale_)
        if type(step) is StandardScaler and not step.with_mean:
            center = zero
        return scale, -center * scale
    if type(step) is MinMaxScaler and not step.clip:
        return np.asarray(step.scale_), np.asarray(step.min_)
    if type(step) is MaxAbsScaler and not getattr(step, "clip", False):
        return 1.0 / np.asarray(step.scale_), zero
    return None
