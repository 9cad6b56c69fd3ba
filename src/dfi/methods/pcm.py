r"""PCM: the projected covariance measure, a test of E[Y | X] = E[Y | X_-j].

Lundborg, Kim, Shah and Samworth (*The projected covariance measure for assumption-lean variable
significance testing*, Annals of Statistics 2024), algorithm 1. The rows are split once, in half.

On the second half a direction is learned: regress y on all columns (:math:`\hat g`), regress
:math:`\hat g(X)` on the others (:math:`\tilde m`), take :math:`\tilde h = \hat g - \tilde m` with
the sign of the mean of :math:`(y - \tilde m)\tilde h`, and divide by an estimate of the conditional
variance, :math:`\hat v = \max(\tilde v, 0) + \hat c`, with :math:`\hat c` such that the squared
residuals over :math:`\hat v` average at most 1: :math:`\hat f = \hat h / \hat v`.

On the first half :math:`y` and :math:`\hat f` are regressed on the others, and

.. math:: L_i = (y_i - \hat m(x_{i,-j}))(\hat f_i - \hat m_{\hat f}(x_{i,-j})), \qquad
          T = \sqrt n\,\bar L / \operatorname{sd}(L),

rejects where :math:`T > z_{1-\alpha}`. Under the null :math:`T \to N(0, 1)` uniformly, where LOCO's
limit is degenerate. Linear regressions on the first half are fitted in sample, as in the algorithm
(their residuals are orthogonal to the others' columns, which keeps ``T`` at variance 1); other
learners are cross-fitted there, so those that interpolate cannot make residuals vanish.

**Linear models that shrink** (lasso, ridge) regress y, but :math:`\hat g` and :math:`\hat f` are
regressed on the others by least squares. Shrunken, both residuals keep a part of the others'
signal, the same part, and their product is not noise: with LassoCV 70 % of nulls were rejected.

**One split, not folds.** Summing :math:`L_i` over folds is not valid: the directions of different
folds share rows with each other's tests. With two folds and a linear model :math:`T` becomes
:math:`\pm(|W_1| + |W_2|)/\sqrt2` and a 5 % test rejects 9.5 % of nulls.

The influence values are scaled so that the score is ``T`` itself and its standard error 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler

from dfi._data.folds import read_folds
from dfi._learners.stack import SuperLearner
from dfi._models.learners import predicts_classes, resolve_learner
from dfi._models.submodels import (
    fit_on_columns,
    is_least_squares,
    positions_of,
    submodel_learner,
)
from dfi._parameters import argument, validated_fields
from dfi.methods.base import Method, MethodResult
from dfi.methods.conditional import is_linear

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._data.problem import Data
    from dfi._models.fits import Fits
    from dfi._types import Estimator, Floats, Ints

    Function = Callable[[Floats], Floats]


@validated_fields
@dataclass(frozen=True, kw_only=True)
class PCM(Method):
    """Projected covariance measure.

    Parameters
    ----------
    n_folds : int, default=3
        Cross-fitting folds of the regressions on the testing half, for learners that are not
        linear. Groups of rows (``clusters``) stay whole in the halves and in these folds.
    estimate_variance : bool, default=True
        Divide the direction by an estimate of the conditional variance.

    Examples
    --------
    >>> found = dfi.compare(sample.X, sample.y, dfi.methods.PCM(), estimator="linear", cv=2)
    >>> bool(found["pcm"].test()["p"][0] < 0.001)
    True
    """

    n_folds: int = 3
    estimate_variance: bool = True

    any_loss = False
    adds_up = False
    name = "pcm"
    question = (
        "Conditional significance: is there any evidence that the feature changes the regression "
        "once the others are known?"
    )
    valid_intervals = False
    inference = (
        "A test of the right size at the null (one split of the rows); its score is the statistic, "
        "N(0, 1) at the null, and not a parameter with an interval."
    )

    def refuses(self, fits: Fits) -> str | None:
        if len(fits.rows) < 8 * self.n_folds:
            return f"pcm splits the rows in half and into folds and needs {8 * self.n_folds} rows"
        labels = fits.data.row_groups
        if labels is None:
            return None
        n_groups = len(np.unique(labels[_halves(fits)[0]]))
        if n_groups < 2:
            return (
                "pcm splits the clusters in half, and the testing half has only one, which has "
                f"no standard error: use finer {argument('clusters')}"
            )
        if n_groups < self.n_folds and not is_linear(_regression(fits.learner)):
            return (
                f"pcm splits the clusters in half, one half into {self.n_folds} folds, "
                f"but it has only {n_groups} clusters: use finer {argument('clusters')}"
                + (" or PCM(n_folds=2)" if n_groups == 2 else "")
            )
        return None

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        first, second = _halves(fits)
        learner = _regression(fits.learner)
        n_folds = 1 if is_linear(learner) else self.n_folds
        direction = _fit_direction(fits, learner, second, variance=self.estimate_variance)
        # a stack keeps its weights in the further regressions
        learner = submodel_learner(learner, direction.model)
        tasks = [
            (learner, fits.data, fits.others(unit), (first, second), direction, n_folds, seed)
            for unit, seed in ((unit, fits.child("pcm", unit)) for unit in fits.units.active)
        ]
        influence = np.zeros((len(first), len(fits.units)))
        weights = fits.weights.take(first)
        products = fits.workers.run(_products, tasks, "projected covariances")
        for unit, values in zip(fits.units.active, products, strict=True):
            error = float(weights.standard_error(values)[0])
            if error > 1e-12 * np.abs(values).max():
                influence[:, unit] = values / error
        return {self.name: MethodResult(influence, first, nonnegative=False)}


def _halves(fits: Fits) -> tuple[Ints, Ints]:
    return fits.split_rows("pcm halves", stratify=True)


@dataclass(frozen=True)
class Direction:
    """Fits of the second half: the regression on all columns and the conditional variance."""

    predict: Function
    variance: Function
    model: object


def _regression(learner: Estimator) -> Estimator:
    """Return a learner that can regress predictions: one of classes is replaced by a stack."""
    final = learner.steps[-1][1] if hasattr(learner, "steps") else learner
    of_classes = isinstance(final, SuperLearner) and final.family != "gaussian"
    return resolve_learner("auto") if of_classes or predicts_classes(final) else learner


def _fit_direction(fits: Fits, learner: Estimator, rows: Ints, *, variance: bool) -> Direction:
    """Regress y, then its squared residuals, on all columns."""
    table, y, weights = fits.table, fits.outcome.values, fits.data.fit_weights
    seeds = fits.child("pcm direction").spawn(2)
    columns = tuple(range(table.n_columns))
    predict = fit_on_columns(learner, table, columns, y, weights, rows, seeds[0])
    model = getattr(predict, "model", None)
    if not variance:
        return Direction(predict, _ones, model)
    square = np.zeros(table.n_rows)
    square[rows] = (y[rows] - predict(table.matrix[rows])) ** 2
    rough = fit_on_columns(learner, table, columns, square, weights, rows, seeds[1])
    share = np.ones(len(rows)) if weights is None else weights.values[rows]
    floor = variance_floor(square[rows], rough(table.matrix[rows]), share / share.sum())
    return Direction(predict, _Floored(rough, floor), model)


def _ones(points: Floats) -> Floats:
    return np.ones(len(points))


@dataclass(frozen=True)
class _Floored:
    rough: Function
    floor: float

    def __call__(self, points: Floats) -> Floats:
        return np.maximum(self.rough(points), 0.0) + self.floor


def variance_floor(square: Floats, rough: Floats, share: Floats) -> float:
    r"""Return the smallest :math:`c \ge 0` with mean of ``square / (max(rough, 0) + c)`` <= 1."""
    positive = np.maximum(rough, 0.0)
    top = float(share @ square)
    if top <= 0:
        return 1.0

    def excess(c: float) -> float:
        return float(share @ (square / (positive + c))) - 1.0

    # at least a tenth of the mean: a rough variance near 0 would let single rows decide
    low = 0.1 * top
    if excess(low) <= 0:
        return low
    return float(brentq(excess, low, top + low))


def _products(
    learner: Estimator,
    data: Data,
    others: tuple[int, ...],
    halves: tuple[Ints, Ints],
    direction: Direction,
    n_folds: int,
    seed: np.random.SeedSequence,
) -> Floats:
    table, y, weights, mass = data.table, data.y, data.fit_weights, data.weights.values
    first, second = halves
    seeds = seed.spawn(2 + 2 * n_folds)
    fitted = direction.predict(table.matrix)
    exact = _projector(learner, len(positions_of(table, others)), min(len(first), len(second)))
    projected = fit_on_columns(exact, table, others, fitted, weights, second, seeds[0])
    gap = fitted - projected(table.matrix)
    sign = np.sign(
        np.sum(mass[second] * (y[second] - projected(table.matrix[second])) * gap[second])
    )
    f = (sign if sign != 0 else 1.0) * gap / direction.variance(table.matrix)
    products = np.zeros(table.n_rows)
    for k, (train, test) in enumerate(testing_folds(first, n_folds, data.row_groups, seeds[1])):
        residuals = [
            target[test]
            - fit_on_columns(model, table, others, target, weights, train, child)(
                table.matrix[test]
            )
            for target, model, child in zip(
                (y, f), (learner, exact), seeds[2 + 2 * k : 4 + 2 * k], strict=True
            )
        ]
        products[test] = residuals[0] * residuals[1]
    return products[first]


def _projector(learner: Estimator, n_columns: int, n_rows: int) -> Estimator:
    """Return a regression for predictions: least squares for linear models that shrink."""
    steps = getattr(learner, "steps", [])[:-1]
    linear = is_linear(learner) and all(type(step) is StandardScaler for _, step in steps)
    if linear and not is_least_squares(learner) and 2 * n_columns < n_rows:
        return LinearRegression()
    return learner


def testing_folds(
    rows: Ints, n_folds: int, labels: Ints | None, seed: np.random.SeedSequence
) -> list[tuple[Ints, Ints]]:
    """Return training and testing rows of each fold of the testing half; one fold is in sample."""
    if n_folds == 1:
        return [(rows, rows)]
    groups = None if labels is None else labels[rows]
    (folds,) = read_folds(n_folds, len(rows), groups=groups, random_state=seed)
    return [(rows[fold.train], rows[fold.test]) for fold in folds]
