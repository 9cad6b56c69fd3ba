"""How the rows of a table are divided into folds, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._data.folds import in_time_order, read_folds, widened
from dfi._data.source import tickets
from dfi._models.crossfit import SHARED_FOLDS
from dfi._models.stack import SuperLearner
from dfi._parameters import TABLE, TARGET, argument

if TYPE_CHECKING:
    from dfi._data.folds import Fold
    from dfi._data.problem import Data
    from dfi._models.seeds import Seeds
    from dfi._types import EstimatorLike, Ints, SplitsLike

HALVINGS = 3
"""Halvings of four folds: two and two."""

MOST_ROWS = 5000
"""Rows up to which the default learner's scores are averaged over halvings and extrapolated.

Beyond, a split's spread and a learner's bias are small against what it costs to explain every row
by ten models more.
"""


FEWEST_ROWS = 200
"""Rows from which a fifth of them is enough to fit a model, so that scores can be extrapolated."""


def is_default(learner: EstimatorLike) -> bool:
    return isinstance(learner, SuperLearner) and learner.members is None


def repeats_and_halvings(
    learner: EstimatorLike, data: Data, cv: SplitsLike, n_repeats: int | None
) -> tuple[int, tuple[int, ...]]:
    """Return how often scores are computed, and the halvings of each split that folds share."""
    shares = is_default(learner) and isinstance(cv, int | np.integer) and cv == SHARED_FOLDS
    if n_repeats is None:
        n_repeats = HALVINGS if shares and data.n_fit <= MOST_ROWS else 1
    counted = isinstance(n_repeats, int | np.integer) and not isinstance(n_repeats, bool)
    if not (shares and counted and n_repeats > 0):
        return n_repeats, ()
    whole, rest = divmod(int(n_repeats), HALVINGS)
    return n_repeats, (HALVINGS,) * whole + (rest,) * bool(rest)


def can_extrapolate(
    learner: EstimatorLike, data: Data, repeats: tuple[tuple[Fold, ...], ...]
) -> bool:
    """Return whether scores of models on halves and quarters of the rows tell those on more."""
    middling = FEWEST_ROWS <= data.n_fit <= MOST_ROWS
    return is_default(learner) and middling and min(map(len, repeats)) > 1


def split_data(
    data: Data, cv: SplitsLike, n_splits: int, seeds: Seeds
) -> tuple[tuple[Fold, ...], ...]:
    fit: slice | Ints = slice(None) if data.fit is None else data.fit
    return read_folds(
        cv,
        data.n_fit,
        matrix=data.matrix[fit],
        y=data.y[fit],
        groups=data.row_groups,
        n_classes=max(data.outcome.strata, data.outcome.n_classes),
        n_repeats=n_splits,
        random_state=seeds.child("split").sequence(),
    )


def of_all_rows(
    repeats: tuple[tuple[Fold, ...], ...], data: Data, seeds: Seeds
) -> tuple[tuple[Fold, ...], ...]:
    """Return folds of the rows that models are fitted on with those that are only held out."""
    if data.fit is None:
        return repeats
    if in_time_order(repeats):
        raise ValueError(
            f"{argument('cv')} splits along time, and {argument('fit_rows')} takes a random sample "
            f"of the rows: leave {argument('fit_rows')} out, or pass a number of folds"
        )
    others = np.setdiff1d(np.arange(data.table.n_rows), data.fit)
    numbers = tickets(data.places_of(others), seeds.child("folds of other rows").sequence())
    return widened(repeats, data.fit, others, numbers)


def check_sizes(data: Data, cv: SplitsLike) -> None:
    """Raise if there are too few rows that count, or of a class, for the folds."""
    if not isinstance(cv, int | np.integer) or isinstance(cv, bool):
        return
    fit = np.arange(data.table.n_rows) if data.fit is None else data.fit
    counted = fit[data.weights.values[fit] > 0]
    weighted = " of positive weight" if len(counted) < len(fit) else ""
    if weighted and len(counted) < 2 * cv:
        raise ValueError(
            f"{TABLE} has {len(counted)} rows{weighted}, too few for {cv} folds: each fold needs "
            "two or more. Give more rows a weight, or use fewer folds"
        )
    outcome = data.outcome
    if not outcome.is_classes:
        return
    counts = np.bincount(outcome.values[counted].astype(np.intp), minlength=outcome.n_classes)
    rare = int(counts.argmin())
    if counts[rare] < cv:
        n = int(counts[rare])
        name = outcome.classes[rare] if outcome.classes else str(rare)
        fewer = f"use {argument('cv', n)}{' or less' * (n > 2)}, " if n > 1 else ""
        raise ValueError(
            f"class {name!r} of {TARGET} has {n} row{'s' * (n != 1)}{weighted}, fewer than the "
            f"{cv} folds: {fewer}leave its rows out, or join it with another class"
        )
