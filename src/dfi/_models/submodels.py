"""Submodels: the regression refitted on some of the columns, scored on held-out rows.

A learner that names its columns cannot be refitted as it is: ``ColumnTransformer([("levels",
OneHotEncoder(), ["region"])])`` fails on a table without ``region``. It is narrowed first: what is
missing from the table is left out of the learner, and what remains is what its author would have
written for the smaller table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler

from dfi._data.columns import laid_out
from dfi._data.levels import constant_columns
from dfi._data.outcome import Outcome, Survival
from dfi._data.table import Table
from dfi._learners.stack import SuperLearner, fit_members, rows_for
from dfi._learners.temperature import TemperatureScaled
from dfi._models.crossfit import fit_model
from dfi._models.encoders import column_names, keeps_columns, reads_raw_columns, takes_levels
from dfi._models.fits import Fits, once
from dfi._models.predictor import (
    Predictor,
    forest_values,
    is_plain_forest,
    predict_once,
    predictor_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from dfi._data.folds import Fold
    from dfi._data.weights import Weights
    from dfi._types import Estimator, Floats, Ints, Native

Submodel: TypeAlias = tuple[int, frozenset[int]]
"""A fold and the columns of the table that its regression is fitted on."""

EIGENVALUE_FLOOR = 1e-11
"""Share of the largest eigenvalue of a Gram matrix below which columns count as collinear."""


@once
def submodels(fits: Fits) -> Submodels:
    """Return the submodels of a table, shared by all methods."""
    return Submodels(fits)


@dataclass(eq=False)
class Submodels:
    """Out-of-fold predictions of the regression on subsets of the columns, with the fold's seed."""

    fits: Fits
    _kept: dict[Submodel, Floats] = field(default_factory=dict)
    _classes: dict[Submodel, Floats] = field(default_factory=dict)

    @property
    def closed_form(self) -> bool:
        square = self.fits.loss.is_square or not self.fits.loss.has_generator
        return square and is_least_squares(self.fits.learner)

    def predictions(self, subsets: Sequence[Sequence[int]], label: str = "refitting") -> Floats:
        values = np.full((self.fits.table.n_rows, len(subsets)), np.nan)
        by_fold = self.by_fold([subsets] * len(self.fits.folds), label)
        for fold, predicted in zip(self.fits.folds, by_fold, strict=True):
            values[fold.test] = predicted
        return values

    def by_fold(
        self, subsets: Sequence[Sequence[Sequence[int]]], label: str = "refitting"
    ) -> list[Floats]:
        keys = [[(k, frozenset(s)) for s in of_fold] for k, of_fold in enumerate(subsets)]
        everything = frozenset(range(len(self.fits.table.columns)))
        for k, fold in enumerate(self.fits.folds):
            self._kept.setdefault((k, everything), self.fits.predictions[fold.test])
        wanted = dict.fromkeys(key for of_fold in keys for key in of_fold)
        missing = [key for key in wanted if key not in self._kept]
        if missing:
            self._kept |= self._fit(missing, label)
        return [np.column_stack([self._kept[key] for key in of_fold]) for of_fold in keys]

    def _fit(self, missing: list[Submodel], label: str) -> dict[Submodel, Floats]:
        if self.fits.whole is not None:
            # models that tell all classes at once are refitted once for all of them
            every = submodels(self.fits.whole).every_class(missing, label)
            return {key: self.fits.guarded(every[key][:, self.fits.place]) for key in missing}
        if self.closed_form:
            return self._solve(missing)
        found = self._refit(missing, label)
        return {key: self.fits.guarded(value) for key, value in found.items()}

    def every_class(self, wanted: list[Submodel], label: str) -> dict[Submodel, Floats]:
        missing = [key for key in wanted if key not in self._classes]
        if missing:
            self._classes |= self._refit(missing, label)
        return self._classes

    def _refit(self, missing: list[Submodel], label: str) -> dict[Submodel, Floats]:
        tasks = []
        for k, columns in missing:
            fold, models = self.fits.folds[k], self.fits.full[k]
            learner = submodel_learner(self.fits.learner, models.predictors[0].model)
            # the full model's own seed: the two differ by their columns alone
            seed = self.fits.child("fit", k, "full")
            y, weights = self.fits.outcome, self.fits.data.fit_weights
            tasks.append((learner, self.fits.table, sorted(columns), y, weights, fold, seed))
        return dict(zip(missing, self.fits.workers.run(held_out, tasks, label), strict=True))

    def _solve(self, missing: list[Submodel]) -> dict[Submodel, Floats]:
        solved: dict[Submodel, Floats] = {}
        for k, fold in enumerate(self.fits.folds):
            keys = [key for key in missing if key[0] == k]
            positions = [positions_of(self.fits.table, sorted(columns)) for _, columns in keys]
            values = least_squares_submodels(
                self.fits.data.matrix, self.fits.data.y, self.fits.weights.values, fold, positions
            )
            solved |= {key: values[:, m] for m, key in enumerate(keys)}
        return solved


def held_out(
    learner: Estimator,
    table: Table,
    columns: Sequence[int],
    target: Floats | Outcome,
    weights: Weights | None,
    fold: Fold,
    seed: np.random.SeedSequence,
) -> Floats:
    model = fit_on_columns(learner, table, columns, target, weights, fold.train, seed)
    return model(table.matrix[fold.test])


def fit_on_columns(
    learner: Estimator,
    table: Table,
    columns: Sequence[int],
    target: Floats | Outcome,
    weights: Weights | None,
    rows: Ints,
    seed: np.random.SeedSequence,
) -> Callable[[Floats], Floats]:
    """Fit a clone of the learner on some columns and rows; return it as a function of full rows."""
    if isinstance(target, Outcome):
        outcome, target = target, target.values
    else:
        kind: Literal["binary", "real"] = "binary" if np.isin(target, (0.0, 1.0)).all() else "real"
        outcome = Outcome(target, "target", kind)
    if not columns:
        mass = None if weights is None else weights.values[rows]
        several = [member.values[rows] for member in outcome.members]
        means = [np.average(values, weights=mass) for values in several or [target[rows]]]
        return _Constant(np.array(means) if several else np.asarray(means[0]))
    positions = positions_of(table, columns)
    if is_least_squares(learner) and not reads_raw_columns(learner):
        return least_squares(
            table.matrix[rows][:, positions],
            target[rows],
            np.ones(len(rows)) if weights is None else weights.values[rows],
            np.array(positions, dtype=np.intp),
        )
    reduced = subtable(table, columns)
    if reads_raw_columns(learner) and len(columns) < len(table.columns):
        try:
            learner = narrowed(learner, table.names, reduced.names)
        except NoColumns:
            return fit_on_columns(learner, table, (), outcome, weights, rows, seed)
    model = fit_model(learner, reduced, outcome, weights, rows, seed)
    predictor = predictor_for(model, reduced, prefit=False)
    if not outcome.members:
        return _OnColumns((predictor,), positions)
    classes = range(len(outcome.members))
    return _OnColumns(tuple(replace(predictor, column=k) for k in classes), positions)


@dataclass(frozen=True)
class _Constant:
    value: Floats

    def __call__(self, points: Floats) -> Floats:
        return np.broadcast_to(self.value, (len(points), *self.value.shape)).copy()


@dataclass(frozen=True)
class _Linear:
    coefficients: Floats
    intercept: float
    positions: Ints

    def __call__(self, points: Floats) -> Floats:
        return np.asarray(points[:, self.positions] @ self.coefficients + self.intercept)


@dataclass(frozen=True)
class _OnColumns:
    predictors: tuple[Predictor, ...]
    positions: list[int]

    @property
    def model(self) -> object:
        return self.predictors[0].model

    def __call__(self, points: Floats) -> Floats:
        rows = np.ascontiguousarray(points[:, self.positions])
        if len(self.predictors) == 1:
            return predict_once(self.predictors[0], rows)
        return np.column_stack([predictor(rows) for predictor in self.predictors])


def subtable(table: Table, columns: Sequence[int]) -> Table:
    header: Native = table.header
    return Table(
        np.ascontiguousarray(table.matrix[:, np.array(positions_of(table, columns))]),
        laid_out(table.columns[index] for index in columns),
        table.library,
        None if header is None else header[list(columns)],
        table.present,
    )


def positions_of(table: Table, columns: Sequence[int]) -> list[int]:
    return [p for index in columns for p in table.columns[index].positions]


def is_least_squares(learner: Estimator) -> bool:
    """Return whether a learner is least squares with an intercept, columns scaled or not."""
    if isinstance(learner, SuperLearner) and learner.members is not None:
        return len(learner.members) == 1 and is_least_squares(learner.members[0][1])
    if isinstance(learner, Pipeline):
        # scaling does not change the fit
        scaled = all(type(step) is StandardScaler for _, step in learner.steps[:-1])
        return scaled and is_least_squares(learner.steps[-1][1])
    if type(learner) is not LinearRegression:
        return False
    parameters = learner.get_params()
    return bool(parameters["fit_intercept"]) and not parameters["positive"]


def least_squares(
    matrix: Floats, target: Floats, mass: Floats, positions: Ints
) -> Callable[[Floats], Floats]:
    share, centre, scale, level = _moments(matrix, target, mass)
    root = np.sqrt(share)
    scaled = (matrix - centre) / scale * root[:, None]
    solved = np.linalg.lstsq(scaled, root * (target - level), rcond=1e-9)[0] / scale
    return _Linear(solved, level - float(centre @ solved), positions)


def least_squares_submodels(
    matrix: Floats, y: Floats, mass: Floats, fold: Fold, positions: Sequence[Sequence[int]]
) -> Floats:
    r"""Return held-out predictions of least squares on each set of matrix columns.

    With the centred and scaled Gram matrix :math:`G` and :math:`c = X'y` of the training rows,
    :math:`\hat\beta_S = G_{SS}^+ c_S`; sets of one size are solved together.
    """
    train = matrix[fold.train]
    share, centre, scale, level = _moments(train, y[fold.train], mass[fold.train])
    scaled = (train - centre) / scale
    gram = (scaled * share[:, None]).T @ scaled
    cross = scaled.T @ (share * (y[fold.train] - level))
    coefficients = np.zeros((len(positions), matrix.shape[1]))
    sizes = np.array([len(subset) for subset in positions])
    for size in np.unique(sizes[sizes > 0]):
        chosen = np.flatnonzero(sizes == size)
        index = np.array([positions[int(k)] for k in chosen], dtype=np.intp)
        blocks = gram[index[:, :, None], index[:, None, :]]
        inverse = np.linalg.pinv(blocks, rcond=EIGENVALUE_FLOOR, hermitian=True)
        solved = np.einsum("kab,kb->ka", inverse, cross[index])
        rows = coefficients[chosen]
        np.put_along_axis(rows, index, solved, axis=1)
        coefficients[chosen] = rows
    return np.asarray(level + ((matrix[fold.test] - centre) / scale) @ coefficients.T)


def _moments(matrix: Floats, target: Floats, mass: Floats) -> tuple[Floats, Floats, Floats, float]:
    """Return shares of rows, mean and scale (infinite if constant) of columns, mean of target."""
    share = mass / mass.sum()
    centre, level = share @ matrix, float(share @ target)
    scale = np.sqrt(share @ (matrix - centre) ** 2)
    # the spread of a constant is rounding, and a coefficient divided by it could be anything
    scale[constant_columns(matrix[mass > 0]) | (scale == 0.0)] = np.inf
    return share, centre, scale, level


class FixedStack(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A stack with the weights of its fold's full model: no inner folds are needed."""

    def __init__(self, *, members: list[tuple[str, Estimator]], weights: list[float]) -> None:
        self.members = members
        self.weights = weights

    def fit(
        self,
        X: Floats,
        y: Floats,
        sample_weight: Floats | None = None,
        survival: Survival | None = None,
    ) -> Self:
        self.n_features_in_ = np.shape(X)[1]
        every = [True] * len(self.members)
        self.estimators_ = fit_members(self.members, X, y, sample_weight, every, survival)
        return self

    def predict(self, X: Floats) -> Floats:
        parts = []
        for weight, member in zip(self.weights, self.estimators_, strict=True):
            plain = is_plain_forest(member)
            values = forest_values(member, X) if plain else member.predict(rows_for(member, X))
            parts.append(weight * values)
        return np.asarray(np.sum(parts, axis=0))


def submodel_learner(learner: Estimator, full: object) -> Estimator:
    if isinstance(learner, TemperatureScaled) and isinstance(full, TemperatureScaled):
        numbers = {"temperature": full.temperature_, "shrinkage": full.shrinkage_}
        scaled: Estimator = clone(learner).set_params(**numbers)
        return scaled
    if not isinstance(learner, SuperLearner) or not isinstance(full, SuperLearner):
        return learner
    seed = full.random_state if isinstance(full.random_state, int) else 0
    members = full.member_list(seed)
    used = [
        (member, float(weight))
        for member, weight in zip(members, full.weights_, strict=True)
        if weight > 0
    ]
    return FixedStack(members=[m for m, _ in used], weights=[w for _, w in used])


class NoColumns(Exception): ...


def narrowed(learner: Estimator, names: Sequence[str], kept: Collection[str]) -> Estimator:
    return _narrow(clone(learner), list(names), frozenset(kept))


def _narrow(model: Estimator, names: list[str], kept: frozenset[str]) -> Estimator:
    if isinstance(model, Pipeline):
        for k, (name, step) in enumerate(model.steps):
            model.steps[k] = (name, _narrow(step, names, kept))
            if not keeps_columns(step):
                break
    elif isinstance(model, FeatureUnion):
        model.transformer_list = _readable(model.transformer_list, names, kept)
    elif isinstance(model, ColumnTransformer):
        _narrow_transformer(model, names, kept)
    elif takes_levels(model):
        _narrow_levels(model, names, kept)
    elif hasattr(model, "get_params") and not isinstance(model, type):
        # A search, a vote, a stack, a transformed target: the models inside get the same table.
        for key, value in model.get_params(deep=False).items():
            if hasattr(value, "get_params"):
                model.set_params(**{key: _narrow(value, names, kept)})
            elif key == "estimators" and isinstance(value, list):
                model.set_params(estimators=_readable(value, names, kept))
    return model


def _readable(
    parts: list[tuple[str, Estimator]], names: list[str], kept: frozenset[str]
) -> list[tuple[str, Estimator]]:
    readable = []
    for name, part in parts:
        try:
            readable.append((name, _narrow(part, names, kept)))
        except NoColumns:
            continue
    if not readable:
        raise NoColumns
    return readable


def _narrow_transformer(
    transformer: ColumnTransformer, names: list[str], kept: frozenset[str]
) -> None:
    left = [name for name in names if name in kept]
    spoken_for: set[str] = set()
    parts = []
    chooses = False
    for name, part, columns in transformer.transformers:
        if callable(columns):
            # It chooses among the columns of the table that it is given.
            chooses = True
            parts.append((name, part, columns))
            continue
        read = column_names(columns, names)
        spoken_for.update(read)
        remaining = [column for column in read if column in kept]
        if remaining:
            narrow = part if isinstance(part, str) else _narrow(part, read, kept)
            parts.append((name, narrow, _as_written(columns, remaining, left)))
    rest = [name for name in names if name not in spoken_for]
    if transformer.remainder not in ("drop", "passthrough") and set(rest) & kept and not chooses:
        transformer.remainder = _narrow(transformer.remainder, rest, kept)
    if not parts and (transformer.remainder == "drop" or not set(rest) & kept):
        raise NoColumns
    transformer.transformers = parts


def _as_written(
    columns: str | int | slice | Iterable[object], remaining: list[str], left: list[str]
) -> str | int | list[str] | list[int]:
    if isinstance(columns, str):
        return columns
    if isinstance(columns, int | np.integer):
        return left.index(remaining[0])
    by_name = not isinstance(columns, slice) and all(isinstance(item, str) for item in columns)
    return remaining if by_name else [left.index(name) for name in remaining]


def _narrow_levels(model: Estimator, names: list[str], kept: frozenset[str]) -> None:
    columns = model.get_params().get("categorical_features")
    if columns is None:  # XGBoost goes by the columns' types
        return
    remaining = [column for column in column_names(columns, names) if column in kept]
    left = [name for name in names if name in kept]
    written = _as_written(columns, remaining, left) if remaining else None
    model.set_params(categorical_features=written)
