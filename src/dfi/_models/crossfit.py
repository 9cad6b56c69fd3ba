"""Cross-fitting: for every fold, models fitted on the other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from joblib import delayed
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from dfi._data.folds import Fold, split_halves
from dfi._models.learners import predicts_classes
from dfi._models.parallel import gathered, thread_pools
from dfi._models.predictor import (
    REMEDY,
    Predictor,
    brief,
    learner_view,
    predictor_for,
    rows_seen,
)
from dfi._models.stack import weight_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.outcome import Outcome
    from dfi._data.problem import Data
    from dfi._data.table import Table
    from dfi._data.weights import Weights
    from dfi._models.seeds import Seeds
    from dfi._types import Advance, Estimator, Ints

SMALL_FIT = 200_000
"""Cells below which a fit runs on one thread."""


@dataclass(frozen=True)
class FoldModels:
    """The held-out rows of one fold and the predictors fitted on the others.

    One of all training rows; or two, of disjoint halves of them, for the cross form.
    """

    repeat: int
    test: Ints
    predictors: tuple[Predictor, ...]
    seed: np.random.SeedSequence


def cross_fit(
    learner: Estimator,
    data: Data,
    repeats: Sequence[Sequence[Fold]],
    *,
    halves: bool,
    seeds: Seeds,
    n_jobs: int | None = None,
    advance: Advance | None = None,
) -> tuple[FoldModels, ...]:
    """Fit a clone of the learner for every fold of every repeat, or two on halves of its rows.

    Groups of rows are kept together when training rows are halved. Each fold has a child of the
    seeds, so that results do not depend on scheduling.
    """
    tasks = [(r, fold) for r, folds in enumerate(repeats) for fold in folds]
    if data.weighted:
        check_takes_weights(learner)
    jobs = (
        delayed(_fit_fold)(learner, data, r, fold, halves, seeds.child(place))
        for place, (r, fold) in enumerate(tasks)
    )
    return tuple(gathered(jobs, n_jobs, advance))


def _fit_fold(
    learner: Estimator, data: Data, repeat: int, fold: Fold, halves: bool, seeds: Seeds
) -> FoldModels:
    parts: tuple[Ints, ...] = (fold.train,)
    if halves:
        stratify = data.y if data.outcome.kind == "binary" else None
        split = seeds.child("halves").sequence()
        parts = split_halves(fold.train, split, y=stratify, groups=data.row_groups)
    predictors = []
    for place, rows in enumerate(parts):
        seed = (seeds.child("half", place) if halves else seeds.child("full")).sequence()
        model = fit_model(learner, data.table, data.outcome, data.fit_weights, rows, seed)
        predictors.append(predictor_for(model, data.table, prefit=False))
    return FoldModels(repeat, fold.test, tuple(predictors), seeds.child("score").sequence())


def fit_model(
    learner: Estimator,
    table: Table,
    outcome: Outcome,
    weights: Weights | None,
    rows: Ints,
    seed: np.random.SeedSequence,
) -> Estimator:
    """Fit a clone of the learner on some rows, its unset random states seeded."""
    model = clone(learner)
    seed_estimator(model, seed)
    target = outcome.values[rows]
    if predicts_classes(model):
        target = target.astype(int)
    view = learner_view(model, table)
    X = rows_seen(table, table.matrix[rows], view)
    if view == "values":
        # nothing can be learned from a column that is missing in all of these rows, and
        # scikit-learn's boosting fails on one: any number does
        X = np.where(np.isnan(X).all(axis=0), 0.0, X)
    given = weight_arguments(model, None if weights is None else weights.values[rows])
    # On little data OpenMP's threads wait for each other more than they work: boosting on 400
    # rows takes 0.07 CPU seconds with one thread and 0.19 with two.
    threads = 1 if len(rows) * table.matrix.shape[1] < SMALL_FIT else None
    try:
        with thread_pools().limit(limits=threads, user_api="openmp"):
            return model.fit(X, target, **given)
    except Exception as error:
        gaps = [repr(c.name) for c in table.missing if table.where_missing(c)[rows].any()]
        hint = f". {', '.join(gaps[:5])} have missing values. {REMEDY}"
        raise ValueError(
            f"{type(model).__name__} could not be fitted on {len(rows)} rows ({brief(error)})"
            + hint * bool(gaps and view != "matrix")
        ) from error


def seed_estimator(model: Estimator, seed: np.random.SeedSequence) -> None:
    """Give every unset ``random_state`` of an estimator, nested ones too, a seed of its own."""
    unset = sorted(
        key
        for key, value in model.get_params(deep=True).items()
        if (key == "random_state" or key.endswith("__random_state")) and value is None
    )
    states = seed.generate_state(max(1, len(unset)))
    if unset:
        model.set_params(
            **{key: int(state % (2**31 - 1)) for key, state in zip(unset, states, strict=True)}
        )


def check_takes_weights(learner: Estimator) -> None:
    """Raise if a learner would silently ignore the weights."""
    final = learner.steps[-1][1] if isinstance(learner, Pipeline) else learner
    if not has_fit_parameter(final, "sample_weight"):
        raise ValueError(
            f"{type(final).__name__}.fit takes no sample_weight, so the weights could not reach "
            "the regression: choose a learner that takes them, or drop sample_weight"
        )
