"""Submodels: the regression refitted on some of the columns, scored on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from dfi._data.outcome import Outcome
from dfi._data.table import Table
from dfi._models.crossfit import fit_model
from dfi._models.encoders import reads_raw_columns
from dfi._models.predictor import forest_values, is_plain_forest, predict_once, predictor_for
from dfi._models.stack import SuperLearner, default_members, rows_for
from dfi.methods.narrowing import NoColumns, narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data import Fold, Weights
    from dfi._data.columns import Column
    from dfi._models.fits import Fits
    from dfi._models.predictor import Predictor
    from dfi._types import Floats, Ints

    Rows = Ints

EIGENVALUE_FLOOR = 1e-11
"""Share of the largest eigenvalue of a Gram matrix below which columns count as collinear."""


def subtable(table: Table, columns: Sequence[int]) -> Table:
    """Return the table with only some of its columns, in their order."""
    kept: list[Column] = []
    positions: list[int] = []
    width = 0
    for index in columns:
        column = table.columns[index]
        kept.append(replace(column, positions=tuple(range(width, width + column.width))))
        positions += column.positions
        width += column.width
    header: Any = table.header
    if header is not None:
        header = header[list(columns)]
    return Table(
        np.ascontiguousarray(table.matrix[:, np.array(positions)]),
        tuple(kept),
        table.library,
        header,
        table.present,
    )


def positions_of(table: Table, columns: Sequence[int]) -> list[int]:
    """Return the matrix columns of some columns of the table."""
    return [p for index in columns for p in table.columns[index].positions]


def fit_on_columns(
    learner: Any,
    table: Table,
    columns: Sequence[int],
    target: Floats,
    weights: Weights | None,
    rows: Rows,
    seed: np.random.SeedSequence,
) -> Callable[[Floats], Floats]:
    """Fit a clone of the learner on some columns and rows; return it as a function of full rows.

    Without columns the regression is the (weighted) mean of the target.
    """
    if not columns:
        mass = None if weights is None else weights.values[rows]
        return _Constant(float(np.average(target[rows], weights=mass)))
    if is_least_squares(learner) and not reads_raw_columns(learner):
        return least_squares(
            table.matrix[rows][:, positions_of(table, columns)],
            target[rows],
            np.ones(len(rows)) if weights is None else weights.values[rows],
            np.array(positions_of(table, columns), dtype=np.intp),
        )
    reduced = subtable(table, columns)
    if reads_raw_columns(learner) and len(columns) < len(table.columns):
        try:
            learner = narrowed(learner, table.names, reduced.names)
        except NoColumns:
            return fit_on_columns(learner, table, (), target, weights, rows, seed)
    kind: Any = "binary" if np.isin(target, (0.0, 1.0)).all() else "real"
    model = fit_model(learner, reduced, Outcome(target, "target", kind), weights, rows, seed)
    predictor = predictor_for(model, reduced, prefit=False)
    return _OnColumns(predictor, positions_of(table, columns))


def least_squares(
    matrix: Floats, target: Floats, mass: Floats, positions: Rows
) -> Callable[[Floats], Floats]:
    """Fit (weighted) least squares on scaled columns and return it as a function of full rows."""
    share = mass / mass.sum()
    centre, level = share @ matrix, float(share @ target)
    scale = np.sqrt(share @ (matrix - centre) ** 2)
    scale[scale == 0] = 1.0
    root = np.sqrt(share)
    scaled = (matrix - centre) / scale * root[:, None]
    solved = np.linalg.lstsq(scaled, root * (target - level), rcond=1e-9)[0] / scale
    return _Linear(solved, level - float(centre @ solved), positions)


@dataclass(frozen=True)
class _Linear:
    coefficients: Floats
    intercept: float
    positions: Rows

    def __call__(self, points: Floats) -> Floats:
        return np.asarray(points[:, self.positions] @ self.coefficients + self.intercept)


@dataclass(frozen=True)
class _Constant:
    value: float

    def __call__(self, points: Floats) -> Floats:
        return np.full(len(points), self.value)


@dataclass(frozen=True)
class _OnColumns:
    predictor: Predictor
    positions: list[int]

    def __call__(self, points: Floats) -> Floats:
        return predict_once(self.predictor, np.ascontiguousarray(points[:, self.positions]))


class FixedStack(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A stack whose weights are given: only its members are fitted.

    A submodel takes the weights that the full model of its fold found. They come from the same
    training rows, so held-out rows stay unseen; the inner cross-validation is saved (about four
    fits in five), and a submodel differs from the full model by its columns alone.
    """

    def __init__(self, *, members: list[tuple[str, Any]], weights: list[float]) -> None:
        self.members = members
        self.weights = weights

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit every member."""
        self.n_features_in_ = np.shape(X)[1]
        self.estimators_ = []
        for _, member in self.members:
            model = clone(member)
            given: dict[str, Any] = {}
            if sample_weight is not None:
                prefix = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
                given[f"{prefix}sample_weight"] = np.array(sample_weight)
            self.estimators_.append(model.fit(rows_for(model, X), np.array(y), **given))
        return self

    def predict(self, X: Any) -> Floats:
        """Return the weighted sum of the members' predictions."""
        parts = [
            w
            * (
                forest_values(member, X)
                if is_plain_forest(member)
                else member.predict(rows_for(member, X))
            )
            for w, member in zip(self.weights, self.estimators_, strict=True)
        ]
        return np.asarray(np.sum(parts, axis=0))


def submodel_learner(learner: Any, full: Any, n_rows: int) -> Any:
    """Return the learner of a fold's submodels: the same, stacks with their weights kept."""
    if not isinstance(learner, SuperLearner) or not isinstance(full, SuperLearner):
        return learner
    seed = full.random_state if isinstance(full.random_state, int) else 0
    members = full.members if full.members is not None else default_members(seed, n_rows)
    kept = [
        (member, float(weight))
        for member, weight in zip(members, full.weights_, strict=True)
        if weight > 0
    ]
    return FixedStack(members=[m for m, _ in kept], weights=[w for _, w in kept])


def is_least_squares(learner: Any) -> bool:
    """Tell whether a learner is plain least squares with an intercept, columns scaled or not."""
    if isinstance(learner, SuperLearner) and learner.members is not None:
        return len(learner.members) == 1 and is_least_squares(learner.members[0][1])
    if isinstance(learner, Pipeline):
        # scaling does not change the fit
        scaled = all(type(step) is StandardScaler for _, step in learner.steps[:-1])
        learner = learner.steps[-1][1]
        return scaled and is_least_squares(learner)
    return (
        type(learner) is LinearRegression
        and bool(learner.fit_intercept)
        and not bool(learner.positive)
    )


def submodels(fits: Fits) -> Submodels:
    """Return the submodels of a table; those asked for twice are kept."""
    return fits.keep("submodels", lambda: Submodels(fits))


@dataclass(eq=False)
class Submodels:
    """Out-of-fold predictions of the regression on subsets of the columns.

    Each is fitted with the fold's own seed, so that a submodel and the full model differ by their
    columns alone. Least squares is solved from the Gram matrix of each fold's training rows, for
    all subsets of one size at once; any other learner is refitted.
    """

    fits: Fits
    _kept: dict[tuple[int, frozenset[int]], Floats] = field(default_factory=dict)

    @property
    def closed_form(self) -> bool:
        """Whether submodels are solved rather than refitted."""
        return is_least_squares(self.fits.learner)

    def predictions(self, subsets: Sequence[Sequence[int]], label: str = "refitting") -> Floats:
        """Return the out-of-fold predictions of each subset of columns, (n_rows, n_subsets)."""
        found = np.full((self.fits.table.n_rows, len(subsets)), np.nan)
        parts = self.by_fold([subsets] * len(self.fits.folds), label)
        for fold, values in zip(self.fits.folds, parts, strict=True):
            found[fold.test] = values
        return found

    def by_fold(
        self, subsets: Sequence[Sequence[Sequence[int]]], label: str = "refitting"
    ) -> list[Floats]:
        """Return the predictions of each fold's held-out rows from subsets of its own."""
        keys = [[frozenset(subset) for subset in chosen] for chosen in subsets]
        everything = frozenset(range(len(self.fits.table.columns)))
        for k, fold in enumerate(self.fits.folds):
            self._kept.setdefault((k, everything), self.fits.predictions[fold.test])
        wanted = dict.fromkeys((k, key) for k, chosen in enumerate(keys) for key in chosen)
        missing = [place for place in wanted if place not in self._kept]
        if missing:
            self._kept |= self._fit(missing, label)
        return [
            np.column_stack([self._kept[k, key] for key in chosen]) for k, chosen in enumerate(keys)
        ]

    def _fit(
        self, missing: list[tuple[int, frozenset[int]]], label: str
    ) -> dict[tuple[int, frozenset[int]], Floats]:
        if self.closed_form:
            return self._solve(missing)
        tasks = []
        for k, key in missing:
            fold, models = self.fits.folds[k], self.fits.full[k]
            fitted = models.predictors[0].model
            learner = submodel_learner(self.fits.learner, fitted, len(fold.train))
            # the full model's own seed: the two differ by their columns alone
            seed = self.fits.child("fit", k, "full")
            tasks.append(
                (
                    learner,
                    self.fits.table,
                    sorted(key),
                    self.fits.data.y,
                    self.fits.data.fit_weights,
                    fold,
                    seed,
                )
            )
        return dict(zip(missing, self.fits.workers.run(held_out, tasks, label), strict=True))

    def _solve(
        self, missing: list[tuple[int, frozenset[int]]]
    ) -> dict[tuple[int, frozenset[int]], Floats]:
        mass = self.fits.weights.values
        found: dict[tuple[int, frozenset[int]], Floats] = {}
        for k, fold in enumerate(self.fits.folds):
            places = [place for place in missing if place[0] == k]
            positions = [positions_of(self.fits.table, sorted(key)) for _, key in places]
            solved = least_squares_submodels(
                self.fits.table.matrix, self.fits.data.y, mass, fold, positions
            )
            found |= {place: solved[:, m] for m, place in enumerate(places)}
        return found


def held_out(
    learner: Any,
    table: Table,
    columns: Sequence[int],
    target: Floats,
    weights: Weights | None,
    fold: Fold,
    seed: np.random.SeedSequence,
) -> Floats:
    """Return the predictions of a fold's held-out rows from some of the columns."""
    model = fit_on_columns(learner, table, columns, target, weights, fold.train, seed)
    return model(table.matrix[fold.test])


def least_squares_submodels(
    matrix: Floats, y: Floats, mass: Floats, fold: Fold, positions: Sequence[Sequence[int]]
) -> Floats:
    r"""Return held-out predictions of least squares on each set of matrix columns.

    With the centred and scaled Gram matrix :math:`G` and :math:`c = X'y` of the training rows,
    :math:`\hat\beta_S = G_{SS}^+ c_S`; sets of one size are solved together.
    """
    train = matrix[fold.train]
    share = mass[fold.train] / mass[fold.train].sum()
    centre, level = share @ train, float(share @ y[fold.train])
    scale = np.sqrt(share @ (train - centre) ** 2)
    scale[scale == 0] = 1.0
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
