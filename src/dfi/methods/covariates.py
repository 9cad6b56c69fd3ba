"""A feature given the others: regressions of covariates and the conditional laws made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dfi._lines.linear import LINEAR_MODELS
from dfi._models.crossfit import seed_estimator
from dfi._models.learners import predicts_classes
from dfi._models.stack import SuperLearner
from dfi.methods.refit import (
    fit_on_columns,
    is_least_squares,
    least_squares_submodels,
    positions_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfi._data import Fold, Table, Weights
    from dfi._models.fits import Fits
    from dfi._types import Floats, Ints

    Rows = Ints


def covariate_learner(learner: Any) -> Any:
    """Return the regression of one feature on the others, in the spirit of the outcome's.

    A linear regression of the outcome brings a linear one; anything else a stack of ridge and a
    small boosting, which holds for linear and curved dependence alike.
    """
    if is_linear(learner):
        return learner if isinstance(learner, LINEAR_MODELS) else LinearRegression()
    ridge = make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-3, 5, 9)))
    boosting = HistGradientBoostingRegressor(
        learning_rate=0.1, max_iter=80, max_leaf_nodes=8, min_samples_leaf=10
    )
    return SuperLearner(members=[("ridge", ridge), ("boosting", boosting)], n_folds=2)


def covariate_classifier(learner: Any) -> Any:
    """Return the classifier of a categorical feature given the others."""
    if is_linear(learner) or predicts_classes(learner):
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return HistGradientBoostingClassifier(
        learning_rate=0.1, max_iter=60, max_leaf_nodes=8, min_samples_leaf=10
    )


def check_learner(name: str, learner: Any, method: str) -> None:
    """Refuse what cannot be cloned and fitted as the regression of a feature; None is a default."""
    if learner is None:
        return
    if isinstance(learner, type) or not all(
        hasattr(learner, wanted) for wanted in ("fit", "get_params", method)
    ):
        raise TypeError(
            f"{name} must be an unfitted estimator with fit and {method}, got {learner!r}"
        )


def is_linear(learner: Any) -> bool:
    """Tell whether a learner is linear: itself, at the end of a pipeline, or all of a stack."""
    if isinstance(learner, SuperLearner) and learner.members is not None:
        return all(is_linear(member) for _, member in learner.members)
    final = learner.steps[-1][1] if hasattr(learner, "steps") else learner
    return isinstance(final, LINEAR_MODELS)


def is_categorical(table: Table, column: int) -> bool:
    """Tell whether a column's values are classes: it is then classified, not regressed."""
    return table.columns[column].kind in ("categorical", "boolean")


@dataclass(frozen=True)
class ConditionalLaw:
    r"""The law of one unit given the other columns, fitted on the training rows of a fold.

    Numeric columns: :math:`X_j = \nu_j(X_{-j}) + \epsilon_j` with the residual independent of the
    others, so that a conditional draw is :math:`\hat\nu_j(X_{-j})` plus another row's residual.
    Categorical columns: class probabilities. In a group the categorical columns come first, each
    given the outside and the earlier ones, then the numeric columns jointly given all of these.

    Attributes
    ----------
    table : Table
        The table.
    categorical : tuple of (column, probabilities)
        Fitted classifiers as functions of full rows, in order.
    numeric : tuple of int
        Numeric columns of the unit.
    regressions : tuple of callable
        Their fitted regressions, as functions of full rows.
    """

    table: Table
    categorical: tuple[tuple[int, Callable[[Floats], Floats]], ...]
    numeric: tuple[int, ...]
    regressions: tuple[Callable[[Floats], Floats], ...]

    @property
    def single_class(self) -> bool:
        """Whether the unit is one categorical column, whose levels can be enumerated."""
        return not self.numeric and len(self.categorical) == 1

    def means(self, rows: Floats) -> Floats:
        """Return the regressions of the numeric columns."""
        return np.column_stack([regression(rows) for regression in self.regressions])

    def residuals(self, rows: Floats) -> Floats:
        """Return what the other columns do not explain of the numeric columns."""
        return rows[:, positions_of(self.table, self.numeric)] - self.means(rows)

    def draw(
        self, rows: Floats, residuals: Floats | None, generator: np.random.Generator
    ) -> Floats:
        """Return rows with the unit drawn anew, given their other columns.

        ``residuals`` are those of another row each, for the numeric columns.
        """
        drawn = rows.copy()
        for column, probabilities in self.categorical:
            chance = np.cumsum(probabilities(drawn), axis=1)
            codes = (generator.random(len(rows))[:, None] > chance[:, :-1]).sum(axis=1)
            place = list(self.table.columns[column].positions)
            drawn[:, place] = encode(self.table, column, codes)
        if residuals is not None:
            place = positions_of(self.table, self.numeric)
            drawn[:, place] = self.means(drawn) + residuals
        return drawn


def encode(table: Table, column: int, codes: NDArray[Any]) -> Floats:
    """Return the matrix columns of level numbers."""
    return table.columns[column].encode(codes.astype(np.intp))


def observed_codes(table: Table, column: int) -> Ints:
    """Return the level numbers of a categorical (or boolean) column."""
    block = table.matrix[:, list(table.columns[column].positions)]
    if table.columns[column].kind == "boolean":
        return (block[:, 0] > 0.5).astype(np.intp)
    return table.columns[column].decode(block)


def fit_law(
    table: Table,
    unit: tuple[int, ...],
    others: tuple[int, ...],
    learner: Any,
    classifier: Any,
    weights: Weights | None,
    rows: Rows,
    seed: np.random.SeedSequence,
) -> ConditionalLaw:
    """Fit the conditional law of a unit on some rows."""
    classes = tuple(c for c in unit if is_categorical(table, c))
    numeric = tuple(c for c in unit if c not in classes)
    seeds = iter(seed.spawn(len(unit)))
    given = others
    fitted = []
    for column in classes:
        fitted.append(
            (
                column,
                _probabilities(table, column, given, classifier, weights, rows, next(seeds)),
            )
        )
        given = (*given, column)
    regressions = tuple(
        fit_on_columns(
            learner,
            table,
            sorted(given),
            table.matrix[:, table.columns[column].positions[0]],
            weights,
            rows,
            next(seeds),
        )
        for column in numeric
    )
    return ConditionalLaw(table, tuple(fitted), numeric, regressions)


@dataclass(frozen=True)
class _ClassProbabilities:
    model: Any
    positions: list[int]
    n_levels: int

    def __call__(self, rows: Floats) -> Floats:
        full = np.zeros((len(rows), self.n_levels))
        full[:, self.model.classes_] = self.model.predict_proba(rows[:, self.positions])
        return full


@dataclass(frozen=True)
class _Frequencies:
    frequencies: Floats

    def __call__(self, rows: Floats) -> Floats:
        return np.broadcast_to(self.frequencies, (len(rows), len(self.frequencies))).copy()


def _probabilities(
    table: Table,
    column: int,
    given: tuple[int, ...],
    classifier: Any,
    weights: Weights | None,
    rows: Rows,
    seed: np.random.SeedSequence,
) -> Callable[[Floats], Floats]:
    codes = observed_codes(table, column)[rows]
    n_levels = max(2, table.columns[column].width, len(table.columns[column].levels))
    mass = np.ones(len(rows)) if weights is None else weights.values[rows]
    if not given or len(np.unique(codes)) == 1:
        return _Frequencies(np.bincount(codes, mass, minlength=n_levels) / mass.sum())
    model = clone(classifier)
    seed_estimator(model, seed)
    positions = positions_of(table, sorted(given))
    train = table.matrix[rows][:, np.array(positions)]
    parameters = {}
    if weights is not None:
        key = f"{model.steps[-1][0]}__sample_weight" if hasattr(model, "steps") else "sample_weight"
        parameters[key] = mass
    model.fit(train, codes, **parameters)
    return _ClassProbabilities(model, positions, n_levels)


def covariate_residuals(fits: Fits, learner: Any = None) -> dict[int, Floats]:
    """Return, for each unit that varies, what the others do not explain of its matrix columns.

    Out of fold, one array of shape (n, width of the unit) per unit. Indicator columns of a
    categorical column are regressed too: this is a variance, not a draw.
    """
    chosen = covariate_learner(fits.learner) if learner is None else learner
    tasks, places = [], []
    for unit in fits.units.active:
        others = fits.others(unit)
        for k, position in enumerate(fits.units.positions[unit]):
            for f, fold in enumerate(fits.folds):
                seed = fits.child("covariate residuals", unit, k, f)
                tasks.append(
                    (chosen, fits.table, others, position, fits.data.fit_weights, fold, seed)
                )
                places.append((unit, k, fold))
    result = {
        unit: np.zeros((fits.table.n_rows, len(fits.units.positions[unit])))
        for unit in fits.units.active
    }
    found = fits.workers.run(_residual, tasks, "regressing each feature on the others")
    for (unit, k, fold), values in zip(places, found, strict=True):
        result[unit][fold.test, k] = values
    return {unit: values[fits.rows] for unit, values in result.items()}


def _residual(
    learner: Any,
    table: Table,
    others: tuple[int, ...],
    position: int,
    weights: Weights | None,
    fold: Fold,
    seed: np.random.SeedSequence,
) -> Floats:
    target = table.matrix[:, position]
    if others and is_least_squares(learner):
        mass = np.ones(table.n_rows) if weights is None else weights.values
        fitted = least_squares_submodels(
            table.matrix, target, mass, fold, [positions_of(table, others)]
        )[:, 0]
    else:
        fitted = fit_on_columns(learner, table, others, target, weights, fold.train, seed)(
            table.matrix[fold.test]
        )
    return np.asarray(target[fold.test] - fitted)
