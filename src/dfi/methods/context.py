"""What all comparators share: the data, the folds, the fitted full models, seeds and workers."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import delayed

from dfi._data import (
    read_folds,
    read_groups,
    read_outcome,
    read_row_groups,
    read_table,
    read_weights,
    split_halves,
)
from dfi._data.magnitude import refuse_extreme
from dfi._lines.choose import LineOptions, line_model
from dfi._lines.linear import LinearLines
from dfi._lines.quadrature import DEFAULT_MEMORY
from dfi._lines.sums import SumLines
from dfi._models.crossfit import FoldModels, cross_fit
from dfi._models.learners import check_learner_suits_outcome, resolve_learner
from dfi._models.parallel import in_parallel
from dfi._models.progress import progress_bar
from dfi._models.quality import regression_quality
from dfi._models.seeds import seed_sequence
from dfi.methods.refit import Submodels, predict_once
from dfi.warnings import ConstantColumnWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data import Fold, Outcome, Table, Weights
    from dfi._data.groups import Groups
    from dfi._lines.base import LineModel
    from dfi._models.quality import Quality
    from dfi._types import Bools, Floats, Ints

SAMPLE_ROWS = 200


@dataclass(frozen=True, eq=False)
class Units:
    """What is given a score: the columns of the table, or groups of them.

    Attributes
    ----------
    names : tuple of str
        Their names.
    columns : tuple of tuple of int
        The columns of the table in each unit.
    positions : tuple of int ndarray
        The matrix columns of each unit.
    constant : ndarray of bool
        Units that do not vary: they score 0, without a standard error.
    grouped : bool
        Whether the units are groups.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    positions: tuple[Ints, ...]
    constant: Bools
    grouped: bool

    def __len__(self) -> int:
        return len(self.names)

    @property
    def active(self) -> tuple[int, ...]:
        """The units that vary."""
        return tuple(int(unit) for unit in np.flatnonzero(~self.constant))

    def overlap(self) -> tuple[str, str] | None:
        """Return the names of two units with a column in common, or None."""
        owner: dict[int, str] = {}
        for name, columns in zip(self.names, self.columns, strict=True):
            for column in columns:
                if column in owner:
                    return owner[column], name
                owner[column] = name
        return None


@dataclass(frozen=True, eq=False)
class Context:
    """The data, folds and fitted models that all comparators of one comparison share.

    Attributes
    ----------
    table, outcome, weights
        The data.
    weighted : bool
        Whether the weights reach the regressions (they were given).
    learner : estimator
        The regression, unfitted.
    folds : tuple of Fold
        One split; every row is scored by models that did not see it.
    models : tuple of FoldModels
        The full model of each fold, fitted on all of its training rows.
    units : Units
        What is given a score.
    seed : SeedSequence
        Where every method's own seeds come from, by name.
    row_groups : int ndarray, optional
        A label per row of the table; rows with one label stay together wherever rows are split.
    """

    table: Table
    outcome: Outcome
    weights: Weights
    weighted: bool
    learner: Any
    folds: tuple[Fold, ...]
    models: tuple[FoldModels, ...]
    units: Units
    seed: np.random.SeedSequence
    n_jobs: int | None = None
    memory: int = DEFAULT_MEMORY
    progress: bool | None = None
    row_groups: Ints | None = None
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def fit_weights(self) -> Weights | None:
        """The weights that regressions are fitted with."""
        return self.weights if self.weighted else None

    @cached_property
    def rows(self) -> Ints:
        """The rows that are held out in some fold, ascending."""
        return np.sort(np.concatenate([fold.test for fold in self.folds]))

    @cached_property
    def line_models(self) -> tuple[LineModel, ...]:
        """The full model of each fold, read into closed form or trees where it can be."""
        found = []
        for fold, models in zip(self.folds, self.models, strict=True):
            rows = self.table.matrix[fold.test]
            sample = rows[:: max(1, len(rows) // SAMPLE_ROWS)]
            found.append(merged(line_model(models.predictors[0], sample, LineOptions())))
        return tuple(found)

    @cached_property
    def predictors(self) -> tuple[Callable[[Floats], Floats], ...]:
        """The full model of each fold as the quickest function of numeric rows."""
        return tuple(model.predict for model in self.line_models)

    @cached_property
    def predictions(self) -> Floats:
        """Out-of-fold predictions of the full models, NaN for rows that are never held out."""
        values = np.full(self.table.n_rows, np.nan)
        # by the models themselves: reading them costs more than to predict every row once
        for fold, models in zip(self.folds, self.models, strict=True):
            values[fold.test] = predict_once(models.predictors[0], self.table.matrix[fold.test])
        return values

    @cached_property
    def residuals(self) -> Floats:
        """Outcome minus out-of-fold prediction, for the tested rows only."""
        return np.asarray((self.outcome.values - self.predictions)[self.rows])

    @cached_property
    def submodels(self) -> Submodels:
        """Out-of-fold predictions of refitted submodels; those asked for twice are kept."""
        return Submodels(
            learner=self.learner,
            table=self.table,
            outcome=self.outcome,
            weights=self.fit_weights,
            folds=self.folds,
            models=self.models,
            full=self.predictions,
            run=self.run,
        )

    @cached_property
    def quality(self) -> Quality:
        """Out-of-fold fit of the full models."""
        found = [(fold.test, self.predictions[fold.test]) for fold in self.folds]
        return regression_quality(found, self.outcome.values, self.weights)

    def others(self, unit: int) -> tuple[int, ...]:
        """Return the columns of the table outside of a unit."""
        inside = set(self.units.columns[unit])
        return tuple(c for c in range(len(self.table.columns)) if c not in inside)

    def child(self, *names: str | int) -> np.random.SeedSequence:
        """Return the seed that belongs to some names, whatever else is run."""
        key = tuple(zlib.crc32(str(name).encode()) for name in names)
        return np.random.SeedSequence(self.seed.entropy, spawn_key=(*self.seed.spawn_key, *key))

    def halves(self, *names: str | int, stratify: bool = False) -> tuple[Ints, Ints]:
        """Split the tested rows in two, groups of rows whole, by the seed of some names.

        ``stratify`` shares a binary outcome out equally, where rows are not grouped.
        """
        y = self.outcome.values if stratify and self.outcome.kind == "binary" else None
        return split_halves(self.rows, self.child(*names), y=y, groups=self.row_groups)

    def run(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        label: str,
        *,
        threads: bool = False,
    ) -> list[Any]:
        """Call a function on every task, in parallel, with a progress bar; results in order."""
        jobs = (delayed(function)(*task) for task in tasks)
        results = []
        with progress_bar(self.progress, label, len(tasks)) as advance:
            for result in in_parallel(jobs, self.n_jobs, threads=threads):
                results.append(result)
                if advance is not None:
                    advance(1)
        return results

    def mass(self, rows: Ints) -> Floats:
        """Return the weights of some rows as shares."""
        values = self.weights.values[rows]
        return np.asarray(values / values.sum())


def merged(model: LineModel) -> LineModel:
    """Return a sum of linear models (a stack of one) as the linear model that it is."""
    if not isinstance(model, SumLines):
        return model
    parts = [part for part in model.parts if isinstance(part, LinearLines)]
    if len(parts) < len(model.parts):
        return model
    pairs = list(zip(model.weights, parts, strict=True))
    return LinearLines(
        np.sum([weight * part.coefficients for weight, part in pairs], axis=0),
        model.intercept + sum(weight * part.intercept for weight, part in pairs),
    )


def prepare(
    X: Any,
    y: Any,
    *,
    estimator: Any = "auto",
    cv: Any = 5,
    groups: Any = None,
    sample_weight: Any = None,
    weight_kind: Any = "auto",
    cv_groups: Any = None,
    n_jobs: int | None = None,
    memory: int = DEFAULT_MEMORY,
    random_state: int = 0,
    progress: bool | None = None,
) -> Context:
    """Read the data, split them once and fit the full model of every fold."""
    if isinstance(cv, str):
        raise TypeError(
            f"cv is {cv!r}: comparators refit the regression without features, so a fitted model "
            "cannot be compared; pass a number of folds or a splitter, and an unfitted estimator"
        )
    table = read_table(X)
    outcome = read_outcome(y, table.n_rows)
    refuse_extreme(table, outcome)
    weights = read_weights(sample_weight, table.n_rows, kind=weight_kind)
    table = table.without(weights.values == 0)
    learner = resolve_learner(estimator)
    check_learner_suits_outcome(learner, outcome.kind)
    units = read_units(table, None if groups is None else read_groups(groups, table.names))
    labels = None if cv_groups is None else read_row_groups(cv_groups, table.n_rows)
    split_seed, fit_seed, method_seed = seed_sequence(random_state).spawn(3)
    repeats = read_folds(
        cv,
        table.n_rows,
        matrix=table.matrix,
        y=outcome.values,
        groups=labels,
        random_state=split_seed,
    )
    if len(repeats) > 1:
        raise ValueError(
            "cv splits the rows several times; a comparison uses one split, which all methods "
            "share: pass a number of folds or a splitter without repeats"
        )
    with progress_bar(progress, "fitting full models", len(repeats[0])) as advance:
        models = cross_fit(
            learner,
            table,
            outcome,
            None if sample_weight is None else weights,
            repeats,
            halves=False,
            seed=fit_seed,
            n_jobs=n_jobs,
            advance=advance,
        )
    return Context(
        table=table,
        outcome=outcome,
        weights=weights,
        weighted=sample_weight is not None,
        learner=learner,
        folds=repeats[0],
        models=models,
        units=units,
        seed=method_seed,
        n_jobs=n_jobs,
        memory=memory,
        progress=progress,
        row_groups=labels,
    )


def read_units(table: Table, groups: Groups | None) -> Units:
    """Return the units that are given scores, and say which of them are constant."""
    columns: tuple[tuple[int, ...], ...]
    if groups is None:
        names, columns = table.names, tuple((j,) for j in range(len(table.columns)))
    else:
        names = groups.names
        columns = tuple(
            tuple(int(j) for j in np.flatnonzero(members)) for members in groups.membership
        )
    positions = tuple(
        np.array([p for c in unit for p in table.columns[c].positions], dtype=np.intp)
        for unit in columns
    )
    constant = np.array([bool(table.constant[unit].all()) for unit in positions])
    if table.constant.all():
        raise ValueError("every column of X is constant: there is nothing to explain")
    if constant.any():
        shown = ", ".join(repr(names[k]) for k in np.flatnonzero(constant)[:5])
        warn(
            f"constant column(s) {shown}: kept, with score 0 and no standard error",
            ConstantColumnWarning,
        )
    return Units(names, columns, positions, constant, groups is not None)
