r"""CPI: conditional permutation, with the factor 1/2 that makes it equal LOCO.

With :math:`X^{(j)}`, the row with feature ``j`` drawn anew given the others,

.. math:: \psi_j = \tfrac12 E[(Y - \mu(X^{(j)}))^2 - (Y - \mu(X))^2]
          = E\operatorname{Var}(\mu(X)\mid X_{-j}),

LOCO's parameter (the paper's lemma on equivalence). A numeric feature is drawn as its regression
on the others plus another row's residual (valid where that residual is independent of the others,
as for Gaussian features); a categorical feature is classified, and its levels are enumerated with
their probabilities rather than drawn.

**Influence.** With :math:`\delta_i = \hat\mu(x_i) - \bar m_i`, where :math:`\bar m_i, v_i` are mean
and variance of :math:`\hat\mu(x_i^{(j)})` over the draws and :math:`e_i = y_i - \hat\mu(x_i)`, the
plain estimate is the mean of :math:`\frac12\{(e+\delta)^2 + v - e^2\} = e\delta + \frac12\delta^2 +
\frac12 v`. It moves to *first* order with the error of :math:`\hat\mu`: its derivative in direction
:math:`h` is :math:`E[(\mu - \mu_{-j})h]`, which the residual term :math:`e\delta` corrects (as
Reyero Lobo et al. 2025 do by another route). The default adds it, so the score is the mean of
:math:`2e\delta + \frac12\delta^2 + \frac12 v`. Permutation t-tests leave this and the sampling of
rows out. The parameter is LOCO's, so the influence function is too: the deviations of
:math:`2e\delta + \delta^2` from their mean give the standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dfi._learners.stack import SuperLearner
from dfi._learners.weighted import weight_arguments
from dfi._lines.closed_form import LINEAR_MODELS
from dfi._lines.quadrature import DEFAULT_MEMORY
from dfi._models.crossfit import seed_estimator
from dfi._models.fits import Fits, once
from dfi._models.learners import predicts_classes
from dfi._models.submodels import (
    fit_on_columns,
    held_out,
    is_least_squares,
    least_squares_submodels,
    positions_of,
)
from dfi._parameters import argument, validated_fields
from dfi.methods.base import CONSERVATIVE, MethodResult, OneStep, full_lines
from dfi.methods.permutation import (
    choose_shifts,
    donor_rows,
    donor_shares,
    replaced_points,
    score_units,
    shift_error,
    units_and_folds,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._data.folds import Fold
    from dfi._data.table import Table
    from dfi._data.weights import Weights
    from dfi._types import Estimator, Floats, Ints, Learner


@validated_fields
@dataclass(frozen=True, kw_only=True)
class CPI(OneStep):
    """Conditional permutation importance.

    Parameters
    ----------
    n_permutations : int, default=50
        Residuals of other rows that each row is given; capped at the rows of its fold.
    debias : bool, default=True
        Add the residual term that removes the first-order error of the regression. False gives
        the plain mean, as other packages report it (the standard error is the same).
    covariate_estimator : estimator, optional
        Regression of a feature on the others; by default in the spirit of the outcome's.
    covariate_classifier : estimator, optional
        Classifier of a categorical feature given the others.

    Examples
    --------
    >>> found = dfi.compare(sample.X, sample.y, dfi.methods.CPI(), estimator="linear", cv=2)
    >>> int(found["cpi"].scores.argmax())
    0
    """

    n_permutations: int = 50
    debias: bool = True
    covariate_estimator: Learner | None = None
    covariate_classifier: Learner | None = None

    any_loss = False
    name = "cpi"
    question = (
        "Incremental value: how much prediction is lost when the feature is replaced by a draw "
        "given the other features, without refitting?"
    )
    corrected = (
        "Residual term against the regression's error; the conditional law must hold "
        f"(residuals independent of the other features). {CONSERVATIVE}"
    )
    plain = (
        "The plain mean depends to first order on the regression's error: its intervals are "
        "valid for least squares and off centre for learners that shrink."
    )

    def __post_init__(self) -> None:
        _check_learner("covariate_estimator", self.covariate_estimator, "predict")
        _check_learner("covariate_classifier", self.covariate_classifier, "predict_proba")

    def refuses(self, fits: Fits) -> str | None:
        if not fits.table.gaps:
            return None
        names = ", ".join(repr(column.name) for column in fits.table.gaps[:5])
        return (
            f"cpi needs residuals, which missing values ({names}) do not have: use pfi or loco, "
            f"or {argument('missing', 'drop')}"
        )

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        learner = self.covariate_estimator or _covariate_learner(fits.learner)
        classifier = self.covariate_classifier or _covariate_classifier(fits.learner)
        tasks = [
            (
                fits.table,
                fits.units.columns[unit],
                fits.others(unit),
                learner,
                classifier,
                fits.data.fit_weights,
                fits.folds[f].train,
                fits.child("conditional law", unit, f),
            )
            for unit, f in units_and_folds(fits)
        ]
        laws = fits.workers.run(_fit_law, tasks, "fitting conditional laws")
        (product, square, variance), noise = score_units(
            fits, _score, [(law, self.n_permutations) for law in laws], "conditional draws"
        )
        mass = fits.mass(fits.rows)
        plain = product * (2.0 if self.debias else 1.0) + 0.5 * square + 0.5 * variance
        efficient = 2.0 * product + square
        influence = efficient - mass @ efficient + mass @ plain
        influence[:, fits.units.constant] = 0.0
        return {self.name: MethodResult(influence, fits.rows, monte_carlo_se=noise)}


def _check_learner(name: str, learner: Learner | None, method: str) -> None:
    """Raise if an object cannot be cloned and fitted as the regression of a feature."""
    if learner is None:
        return
    if isinstance(learner, type) or not all(
        hasattr(learner, wanted) for wanted in ("fit", "get_params", method)
    ):
        raise TypeError(
            f"{name} must be an unfitted estimator with fit and {method}, got {learner!r}"
        )


def _score(fits: Fits, f: int, unit: int, law: ConditionalLaw, count: int) -> tuple[Floats, float]:
    """Return e*delta, delta^2 (free of the draws' noise) and v, (3, n); Monte-Carlo error."""
    test, predict = fits.folds[f].test, full_lines(fits)[f].predict
    rows = fits.table.matrix[test]
    value = fits.predictions[test]
    residual = fits.outcome.values[test] - value
    if law.single_class:
        column, probabilities = law.categorical[0]
        chance = probabilities(rows)
        drawn = _levels(fits.table, column, rows, chance.shape[1], predict)
        mean = np.sum(chance * drawn, axis=1)
        variance = np.sum(chance * (drawn - mean[:, None]) ** 2, axis=1)
        delta = value - mean
        return np.stack([residual * delta, delta**2, variance]), 0.0
    generator = np.random.default_rng(fits.child("conditional draws", unit, f))
    donors = donor_rows(*choose_shifts(len(rows), count, generator))
    drawn = _draws(law, rows, donors, predict, DEFAULT_MEMORY, generator)
    k = donors.shape[1]
    mass = fits.weights.values[test]
    share = donor_shares(mass, donors)
    mean = np.sum(share * drawn, axis=1)
    variance = np.sum(share * (drawn - mean[:, None]) ** 2, axis=1) * k / max(1, k - 1)
    delta = value - mean
    loss = 0.5 * (drawn - value[:, None] - residual[:, None]) ** 2
    error = shift_error(loss, mass, 1.0 - k / max(k, len(rows) - 1))
    return np.stack([residual * delta, delta**2 - variance / k, variance]), error


def _levels(
    table: Table, column: int, rows: Floats, n_levels: int, predict: Callable[[Floats], Floats]
) -> Floats:
    values = np.empty((len(rows), n_levels))
    for level in range(n_levels):
        points = rows.copy()
        _set_levels(points, table, column, np.full(len(rows), level, dtype=np.intp))
        values[:, level] = predict(points)
    return values


def _set_levels(points: Floats, table: Table, column: int, codes: Ints) -> None:
    points[:, list(table.columns[column].positions)] = table.columns[column].encode(codes)


def _draws(
    law: ConditionalLaw,
    rows: Floats,
    donors: Ints,
    predict: Callable[[Floats], Floats],
    memory: int,
    generator: np.random.Generator,
) -> Floats:
    """Return the predictions of every row under every draw, (n, n_draws), in bounded memory."""
    residuals = law.residuals(rows) if law.numeric else None
    if residuals is not None and not law.categorical:
        centre = law.means(rows)
        return replaced_points(
            rows,
            np.array(positions_of(law.table, law.numeric), dtype=np.intp),
            lambda block: centre[:, None, :] + residuals[donors[:, block]],
            donors.shape[1],
            predict,
            memory,
        )
    values = np.empty(donors.shape)
    for s in range(donors.shape[1]):
        lent = None if residuals is None else residuals[donors[:, s]]
        values[:, s] = predict(law.draw(rows, lent, generator))
    return values


@dataclass(frozen=True)
class ConditionalLaw:
    r"""The law of one unit given the other columns, fitted on the training rows of a fold.

    Numeric columns: :math:`X_j = \nu_j(X_{-j}) + \epsilon_j` with the residual independent of the
    others, so a conditional draw is :math:`\hat\nu_j(X_{-j})` plus another row's residual.
    Categorical columns: class probabilities. In a group the categorical columns come first, each
    given the outside and the earlier ones, then the numeric columns jointly given all of these.
    Fitted classifiers and regressions are functions of full rows.
    """

    table: Table
    categorical: tuple[tuple[int, Callable[[Floats], Floats]], ...]
    numeric: tuple[int, ...]
    regressions: tuple[Callable[[Floats], Floats], ...]

    @property
    def single_class(self) -> bool:
        return not self.numeric and len(self.categorical) == 1

    def means(self, rows: Floats) -> Floats:
        return np.column_stack([regression(rows) for regression in self.regressions])

    def residuals(self, rows: Floats) -> Floats:
        return rows[:, positions_of(self.table, self.numeric)] - self.means(rows)

    def draw(
        self, rows: Floats, residuals: Floats | None, generator: np.random.Generator
    ) -> Floats:
        """Return rows with the unit redrawn, given their other columns.

        ``residuals`` are those of another row each, for the numeric columns.
        """
        drawn = rows.copy()
        for column, probabilities in self.categorical:
            chance = np.cumsum(probabilities(drawn), axis=1)
            codes = (generator.random(len(rows))[:, None] > chance[:, :-1]).sum(axis=1)
            _set_levels(drawn, self.table, column, codes.astype(np.intp))
        if residuals is not None:
            drawn[:, positions_of(self.table, self.numeric)] = self.means(drawn) + residuals
        return drawn


def _fit_law(
    table: Table,
    unit: tuple[int, ...],
    others: tuple[int, ...],
    learner: Estimator,
    classifier: Estimator,
    weights: Weights | None,
    rows: Ints,
    seed: np.random.SeedSequence,
) -> ConditionalLaw:
    classes = tuple(c for c in unit if table.columns[c].kind in ("categorical", "boolean"))
    numeric = tuple(c for c in unit if c not in classes)
    seeds = iter(seed.spawn(len(unit)))
    known = others
    classified = []
    for column in classes:
        law = _probabilities(table, column, known, classifier, weights, rows, next(seeds))
        classified.append((column, law))
        known = (*known, column)
    regressions = tuple(
        fit_on_columns(
            learner,
            table,
            sorted(known),
            table.matrix[:, table.columns[column].positions[0]],
            weights,
            rows,
            next(seeds),
        )
        for column in numeric
    )
    return ConditionalLaw(table, tuple(classified), numeric, regressions)


def _probabilities(
    table: Table,
    column: int,
    known: tuple[int, ...],
    classifier: Estimator,
    weights: Weights | None,
    rows: Ints,
    seed: np.random.SeedSequence,
) -> Callable[[Floats], Floats]:
    described = table.columns[column]
    codes = described.decode(table.matrix[:, list(described.positions)])[rows]
    n_levels = max(2, described.width, len(described.levels))
    mass = np.ones(len(rows)) if weights is None else weights.values[rows]
    if not known or len(np.unique(codes)) == 1:
        return _Frequencies(np.bincount(codes, mass, minlength=n_levels) / mass.sum())
    model = clone(classifier)
    seed_estimator(model, seed)
    positions = positions_of(table, sorted(known))
    parameters = {} if weights is None else weight_arguments(model, mass)
    with config_context(enable_metadata_routing=False):
        model.fit(table.matrix[rows][:, np.array(positions)], codes, **parameters)
    return _ClassProbabilities(model, positions, n_levels)


@dataclass(frozen=True)
class _ClassProbabilities:
    model: Estimator
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


def _covariate_learner(learner: Estimator) -> Estimator:
    """Return the regression of one feature on the others, in the spirit of the outcome's.

    A linear regression of the outcome brings a linear one; anything else a stack of ridge and a
    small boosting, which holds for linear and curved dependence alike.
    """
    if is_linear(learner):
        own = isinstance(learner, LINEAR_MODELS)
        linear: Estimator = learner if own else LinearRegression()
        return linear
    ridge = make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-3, 5, 9)))
    boosting = HistGradientBoostingRegressor(
        learning_rate=0.1, max_iter=80, max_leaf_nodes=8, min_samples_leaf=10
    )
    return SuperLearner(members=[("ridge", ridge), ("boosting", boosting)], n_folds=2)


def _covariate_classifier(learner: Estimator) -> Estimator:
    classifier: Estimator = HistGradientBoostingClassifier(
        learning_rate=0.1, max_iter=60, max_leaf_nodes=8, min_samples_leaf=10
    )
    if is_linear(learner) or predicts_classes(learner):
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return classifier


def is_linear(learner: Estimator) -> bool:
    """Return whether a learner is linear: itself, the end of a pipeline, or all of a stack."""
    if isinstance(learner, SuperLearner) and learner.members is not None:
        return all(is_linear(member) for _, member in learner.members)
    final = learner.steps[-1][1] if hasattr(learner, "steps") else learner
    return isinstance(final, LINEAR_MODELS)


@once
def covariate_residuals(fits: Fits) -> dict[int, Floats]:
    """Return the residuals of each varying unit's matrix columns given the others.

    Out of fold, one array of shape (n, width of the unit) per unit, fitted once. Indicator columns
    of a categorical column are regressed too: this is a variance, not a draw.
    """
    learner = _covariate_learner(fits.learner)
    units, table, weights = fits.units, fits.table, fits.data.fit_weights
    places = [
        (unit, k, f)
        for unit in units.active
        for k in range(len(units.positions[unit]))
        for f in range(len(fits.folds))
    ]
    tasks = [
        (
            learner,
            table,
            fits.others(unit),
            units.positions[unit][k],
            weights,
            fits.folds[f],
            fits.child("covariate residuals", unit, k, f),
        )
        for unit, k, f in places
    ]
    residuals = {
        unit: np.zeros((table.n_rows, len(units.positions[unit]))) for unit in units.active
    }
    by_task = fits.workers.run(_residual, tasks, "regressing each feature on the others")
    for (unit, k, f), values in zip(places, by_task, strict=True):
        residuals[unit][fits.folds[f].test, k] = values
    return {unit: values[fits.rows] for unit, values in residuals.items()}


def _residual(
    learner: Estimator,
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
        positions = [positions_of(table, others)]
        fitted = least_squares_submodels(table.matrix, target, mass, fold, positions)[:, 0]
    else:
        fitted = held_out(learner, table, others, target, weights, fold, seed)
    return np.asarray(target[fold.test] - fitted)
