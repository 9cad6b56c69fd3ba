"""Cross-fitting: for every fold, models fitted on the other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from joblib import delayed
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from dfi._data.folds import Fold, split_halves
from dfi._models.encoders import reads_raw_columns
from dfi._models.learners import predicts_classes
from dfi._models.parallel import in_parallel
from dfi._models.predictor import Predictor, brief, predictor_for
from dfi._models.threads import thread_pools

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from dfi._data.outcome import Outcome
    from dfi._data.table import Table
    from dfi._data.weights import Weights
    from dfi._types import Advance, Ints

SMALL_FIT = 200_000
"""Cells below which a fit runs on one thread."""


@dataclass(frozen=True)
class FoldModels:
    """The models of one fold: its held-out rows and the predictors fitted on the others.

    One predictor, fitted on all training rows; or two, fitted on disjoint halves of them, for the
    cross form.
    """

    repeat: int
    test: Ints
    predictors: tuple[Predictor, ...]
    seed: np.random.SeedSequence


def cross_fit(
    learner: Any,
    table: Table,
    outcome: Outcome,
    weights: Weights | None,
    repeats: Sequence[Sequence[Fold]],
    *,
    halves: bool,
    seed: np.random.SeedSequence,
    labels: NDArray[Any] | None = None,
    n_jobs: int | None = None,
    advance: Advance | None = None,
) -> tuple[FoldModels, ...]:
    """Fit the learner for every fold of every repeat.

    Parameters
    ----------
    learner : estimator
        Unfitted; cloned for each fit.
    table, outcome, weights
        The data; ``weights`` None fits without weights.
    repeats : sequence of sequences of Fold
        The folds of each repeat.
    halves : bool
        Fit two models on disjoint halves of each fold's training rows.
    seed : SeedSequence
        One child per fold, so that results do not depend on scheduling.
    labels : ndarray, optional
        Group labels of the rows, kept together when training rows are halved.
    """
    tasks = [(r, fold) for r, folds in enumerate(repeats) for fold in folds]
    seeds = seed.spawn(len(tasks))
    if weights is not None:
        check_takes_weights(learner)
    jobs = (
        delayed(_fit_fold)(learner, table, outcome, weights, r, fold, halves, child, labels)
        for (r, fold), child in zip(tasks, seeds, strict=True)
    )
    fitted = []
    for models in in_parallel(jobs, n_jobs):
        fitted.append(models)
        if advance is not None:
            advance(1)
    return tuple(fitted)


def _fit_fold(
    learner: Any,
    table: Table,
    outcome: Outcome,
    weights: Weights | None,
    repeat: int,
    fold: Fold,
    halves: bool,
    seed: np.random.SeedSequence,
    labels: NDArray[Any] | None,
) -> FoldModels:
    split_seed, score_seed, *fit_seeds = seed.spawn(4)
    parts = [fold.train]
    if halves:
        stratify = outcome.values if outcome.kind == "binary" else None
        parts = list(split_halves(fold.train, split_seed, y=stratify, groups=labels))
    predictors = tuple(
        predictor_for(fit_model(learner, table, outcome, weights, rows, child), table, prefit=False)
        for rows, child in zip(parts, fit_seeds, strict=False)
    )
    return FoldModels(repeat, fold.test, predictors, score_seed)


def fit_model(
    learner: Any,
    table: Table,
    outcome: Outcome,
    weights: Weights | None,
    rows: Ints,
    seed: np.random.SeedSequence,
) -> Any:
    """Fit a clone of the learner on some rows, its unset random states seeded."""
    model = clone(learner)
    seed_estimator(model, seed)
    target = outcome.values[rows]
    if predicts_classes(model):
        target = target.astype(int)
    X: Any = table.matrix[rows]
    if reads_raw_columns(model):
        X = table.frame(X)
    fit_parameters = {}
    if weights is not None:
        key = "sample_weight"
        if isinstance(model, Pipeline):
            key = f"{model.steps[-1][0]}__sample_weight"
        fit_parameters[key] = weights.values[rows]
    # On little data OpenMP's threads wait for each other more than they work: boosting on 400
    # rows takes 0.07 CPU seconds with one thread and 0.19 with two.
    threads = 1 if len(rows) * table.matrix.shape[1] < SMALL_FIT else None
    try:
        with thread_pools().limit(limits=threads, user_api="openmp"):
            return model.fit(X, target, **fit_parameters)
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} could not be fitted on {len(rows)} rows ({brief(error)})"
        ) from error


def seed_estimator(model: Any, seed: np.random.SeedSequence) -> None:
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


def check_takes_weights(learner: Any) -> None:
    """Refuse a learner that would silently ignore the weights."""
    final = learner.steps[-1][1] if isinstance(learner, Pipeline) else learner
    if not has_fit_parameter(final, "sample_weight"):
        raise ValueError(
            f"{type(final).__name__}.fit takes no sample_weight, so the weights could not reach "
            "the regression: choose a learner that takes them, or drop sample_weight"
        )
