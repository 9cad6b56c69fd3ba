"""The best way to average a given model along lines: closed form, exact trees, or quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import VotingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.svm import SVR, NuSVR

from dfi.lines.linear import linear_lines
from dfi.lines.quadrature import DEFAULT_MEMORY, QuadratureLines, QuadratureRule
from dfi.lines.sums import SumLines
from dfi.nuisance.stack import SuperLearner

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfi.lines.base import LineModel
    from dfi.nuisance.predictor import Predictor

    Floats = NDArray[np.float64]

SMOOTH_MODELS = (
    GammaRegressor,
    GaussianProcessRegressor,
    KernelRidge,
    LogisticRegression,
    NuSVR,
    PoissonRegressor,
    SVR,
)


@dataclass(frozen=True)
class LineOptions:
    """How lines are integrated.

    Parameters
    ----------
    rule : {"auto", "equal", "gauss", "draws"}
        ``"auto"`` takes the exact way where there is one, and quadrature fitted to the model
        otherwise; any other forces that quadrature.
    n_nodes : int, optional
        Nodes (or draws) per line.
    memory : int
        Bound in bytes on the rows that a model is asked to predict at once.
    """

    rule: QuadratureRule | str = "auto"
    n_nodes: int | None = None
    memory: int = DEFAULT_MEMORY


def line_model(
    predictor: Predictor,
    sample: Floats,
    options: LineOptions,
    *,
    square: bool = False,
    seed: np.random.SeedSequence | None = None,
) -> LineModel:
    """Return the line averages of a fitted model.

    Parameters
    ----------
    predictor : Predictor
        The fitted model.
    sample : ndarray of shape (k, p)
        Rows on which a model that was read into closed form is compared with its own predictions.
    options : LineOptions
        What the user asked for.
    square : bool
        Whether second moments will be needed (CPI-type scores), which sums do not have.
    seed : SeedSequence, optional
        For random draws.
    """
    if options.rule == "auto" and predictor.reads_matrix:
        found = _read(predictor.model, predictor, sample, options, square)
        if found is not None:
            return found
    rule: QuadratureRule
    if options.rule == "auto":
        rule = "gauss" if is_smooth(predictor.model) else "equal"
    elif options.rule in ("equal", "gauss", "draws"):
        rule = options.rule  # type: ignore[assignment]
    else:
        raise ValueError(
            f"unknown line rule {options.rule!r}: choose 'auto', 'equal', 'gauss' or 'draws'"
        )
    return QuadratureLines(predictor, rule, options.n_nodes, options.memory, seed)


def is_smooth(model: Any) -> bool:
    """Tell whether a model is smooth along lines, so that a Gauss rule converges quickly."""
    if isinstance(model, Pipeline):
        model = model.steps[-1][1]
    if isinstance(model, MLPRegressor):
        return model.activation in ("tanh", "logistic", "identity")
    return isinstance(model, SMOOTH_MODELS)


def _read(
    model: Any,
    predict: Callable[[Floats], Floats],
    sample: Floats,
    options: LineOptions,
    square: bool,
) -> LineModel | None:
    """Return an exact or closed form of the model, or None where it has none."""
    linear = linear_lines(model, sample.shape[1])
    if linear is not None and _agrees(linear.predict(sample), predict(sample)):
        return linear
    if not square:
        members = _members(model)
        if members is not None:
            return SumLines(
                tuple(_part(member, sample, options) for member, _ in members),
                tuple(weight for _, weight in members),
            )
    return None


def _members(model: Any) -> list[tuple[Any, float]] | None:
    """Return the members and weights of a model that is a weighted sum."""
    if isinstance(model, SuperLearner):
        return [
            (member, float(weight))
            for member, weight in zip(model.estimators_, model.weights_, strict=True)
            if member is not None
        ]
    if isinstance(model, VotingRegressor):
        weights = np.ones(len(model.estimators_))
        if model.weights is not None:
            kept = [e != "drop" for _, e in model.estimators]
            weights = np.asarray(model.weights, dtype=float)[kept]
        weights = weights / weights.sum()
        return list(zip(model.estimators_, weights.tolist(), strict=True))
    return None


def _part(member: Any, sample: Floats, options: LineOptions) -> LineModel:
    """Return the line averages of one member of a sum."""

    def predict(points: Floats) -> Floats:
        return np.asarray(member.predict(points), dtype=float)

    found = _read(member, predict, sample, options, square=False)
    if found is not None:
        return found
    rule: QuadratureRule = "gauss" if is_smooth(member) else "equal"
    return QuadratureLines(predict, rule, options.n_nodes, options.memory)


def _agrees(read: Floats, own: Floats) -> bool:
    """Compare a model that was read with its own predictions, up to rounding."""
    return bool(np.allclose(read, own, rtol=1e-8, atol=1e-8 * (np.ptp(own) + 1e-300)))
