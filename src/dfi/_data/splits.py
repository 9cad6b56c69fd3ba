"""Which rows are held out, and which rows each model is fitted on."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfi._data.everyday import names_rows
from dfi._data.folds import in_time_order, read_folds, split_halves, widened
from dfi._data.source import tickets
from dfi._data.table import listed_holes
from dfi._parameters import TABLE, TARGET, argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dfi._data.folds import Fold
    from dfi._data.problem import Data
    from dfi._data.seeds import Seeds
    from dfi._types import Ints, SplitsLike

SHARED_FOLDS = 5
"""Folds of which pairs are halves of what every other fold is trained on."""

SMALL_ROWS, SMALL_CELLS = 400, 6000
"""Rows, and numbers in them, up to which rows are split twice, as that takes a second or less.

Of so few rows a split decides more: on cpus (209 rows) the deviation of a score over splits was .9
of its standard error.
"""


class TrainingSet(NamedTuple):
    """Rows that a model is fitted on, and the name of its seed."""

    rows: Ints
    name: tuple[str | int, ...]


class Use(NamedTuple):
    """Held-out rows, the training sets of the models that explain them, and where they belong."""

    repeat: int
    split: int
    fold: int
    test: Ints
    sets: tuple[int, ...]
    name: tuple[str | int, ...]


class Training(NamedTuple):
    sets: tuple[TrainingSet, ...]
    uses: tuple[Use, ...]


def full_training(splits: Sequence[Sequence[Fold]]) -> Training:
    sets, uses = [], []
    for place, (r, k, fold) in enumerate(_numbered(splits)):
        sets.append(TrainingSet(fold.train, (place, "full")))
        uses.append(Use(r, r, k, fold.test, (place,), (place, "score")))
    return Training(tuple(sets), tuple(uses))


def half_training(splits: Sequence[Sequence[Fold]], data: Data, seeds: Seeds) -> Training:
    """Return two models for every fold, of disjoint halves of its training rows."""
    sets, uses = [], []
    for place, (r, k, fold) in enumerate(_numbered(splits)):
        for q, rows in enumerate(_halves(fold.train, data, seeds.child(place, "halves"))):
            sets.append(TrainingSet(rows, (place, "half", q)))
        uses.append(Use(r, r, k, fold.test, (2 * place, 2 * place + 1), (place, "score")))
    return Training(tuple(sets), tuple(uses))


def quarter_training(halves: Training, data: Data, seeds: Seeds) -> Training:
    """Return two pairs of models for every fold, each of a half of a half of its training rows."""
    sets: list[TrainingSet] = []
    uses: list[Use] = []
    for use in halves.uses:
        first = len(sets)
        for half in use.sets:
            rows, name = halves.sets[half]
            parts = _halves(rows, data, seeds.child(*name, "halves"))
            sets += [TrainingSet(part, (*name, "half", q)) for q, part in enumerate(parts)]
        for q in range(2):
            pair = first + q, first + 2 + q
            uses.append(Use(q, use.split, use.fold, use.test, pair, (*use.name, "quarter", q)))
    return Training(tuple(sets), tuple(uses))


def shared_training(
    splits: Sequence[Sequence[Fold]], halvings: Sequence[int], fit: Ints | None = None
) -> tuple[Training, Training]:
    """Return pairs of models for every fold whose training sets are shared between five folds.

    Four folds are held in by each fold. They are halved in three ways, two folds and two, and all
    halves together are the ten pairs of folds: three halvings of every fold cost the ten models
    of one. Models of single folds, five, are the quarters. ``halvings`` are those that are
    used of each split, ``fit`` the rows that models may be fitted on (None: all).
    """
    halves, quarters = [], []
    half_sets: list[TrainingSet] = []
    quarter_sets: list[TrainingSet] = []
    repeat = 0
    for r, (folds, count) in enumerate(zip(splits, halvings, strict=True)):
        pairs = list(combinations(range(SHARED_FOLDS), 2))
        at = {pair: len(half_sets) + k for k, pair in enumerate(pairs)}
        one = len(quarter_sets)
        for i, j in pairs:
            rows = _fitted(np.sort(np.concatenate([folds[i].test, folds[j].test])), fit)
            half_sets.append(TrainingSet(rows, ("split", r, "folds", i, j)))
        quarter_sets += [
            TrainingSet(_fitted(fold.test, fit), ("split", r, "fold", k))
            for k, fold in enumerate(folds)
        ]
        for k, fold in enumerate(folds):
            a, *others = [i for i in range(SHARED_FOLDS) if i != k]
            name = ("split", r, "score", k)
            for h, partner in enumerate(others[:count]):
                rest = tuple(i for i in others if i != partner)
                both = at[a, partner], at[rest[0], rest[1]]
                halves.append(Use(repeat + h, r, k, fold.test, both, (*name, h)))
            for q, (i, j) in enumerate(((a, others[0]), (others[1], others[2]))):
                both = one + i, one + j
                quarters.append(Use(2 * r + q, r, k, fold.test, both, (*name, "quarter", q)))
        repeat += count
    return (
        Training(tuple(half_sets), tuple(sorted(halves, key=lambda use: use.repeat))),
        Training(tuple(quarter_sets), tuple(sorted(quarters, key=lambda use: use.repeat))),
    )


def beyond(training: Training, n_splits: int) -> Training:
    """Return the remaining fits when the models of the first splits are known."""
    uses = [use for use in training.uses if use.split >= n_splits]
    first = min(min(use.sets) for use in uses)
    moved = (use._replace(sets=tuple(k - first for k in use.sets)) for use in uses)
    return Training(training.sets[first:], tuple(moved))


def _fitted(rows: Ints, fit: Ints | None) -> Ints:
    return rows if fit is None else np.intersect1d(rows, fit)


def _numbered(splits: Sequence[Sequence[Fold]]) -> Iterator[tuple[int, int, Fold]]:
    return ((r, k, fold) for r, folds in enumerate(splits) for k, fold in enumerate(folds))


def _halves(rows: Ints, data: Data, seeds: Seeds) -> tuple[Ints, Ints]:
    classes = data.outcome.n_classes
    stratify = data.y if classes else None
    return split_halves(
        rows, seeds.sequence(), y=stratify, groups=data.row_groups, n_classes=max(2, classes)
    )


def is_small(data: Data) -> bool:
    return data.n_fit <= SMALL_ROWS and data.n_fit * data.matrix.shape[1] <= SMALL_CELLS


def split_data(
    data: Data, cv: SplitsLike, n_splits: int, seeds: Seeds, *, shared: bool = False
) -> tuple[tuple[Fold, ...], ...]:
    """Split the rows; few of them by their outcome, where folds share models.

    A row more or less of the largest outcomes decides what a model of few rows learns: on cpus, the
    deviation of scores over splits by the outcome was half of that over random ones.
    """
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
        by_outcome=shared and is_small(data),
    )


def of_all_rows(
    repeats: tuple[tuple[Fold, ...], ...], data: Data, seeds: Seeds
) -> tuple[tuple[Fold, ...], ...]:
    """Return folds of the fitted rows, together with rows that are only held out."""
    if data.fit is None:
        return repeats
    if in_time_order(repeats):
        raise ValueError(
            f"{argument('cv')} splits along time, but {argument('fit_rows')} takes a random sample "
            f"of the rows: leave {argument('fit_rows')} out, or pass a number of folds"
        )
    others = np.setdiff1d(np.arange(data.table.n_rows), data.fit)
    numbers = tickets(data.places_of(others), seeds.child("folds of other rows").sequence())
    return widened(repeats, data.fit, others, numbers)


def check_sizes(data: Data, cv: SplitsLike) -> None:
    """Raise if too few rows with weight, or too few of a class, are left for the folds."""
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
    if (counts < cv).sum() > 1:
        few = [
            f"{outcome.classes[k] if outcome.classes else str(k)!r} ({counts[k]})"
            for k in np.flatnonzero(counts < cv)
        ]
        if names_rows(len(counts), len(counted)):
            raise ValueError(
                f"{TARGET} has {len(counts)} different labels in {len(counted)} rows: they name "
                "rows, not classes. Name another column, or group the labels into a few classes"
            )
        raise ValueError(
            f"{len(few)} classes of {TARGET} have fewer rows{weighted} than the {cv} folds: "
            f"{listed_holes(few)}. Leave these rows out, or merge the classes with others"
        )
    if counts[rare] < cv:
        n = int(counts[rare])
        name = outcome.classes[rare] if outcome.classes else str(rare)
        fewer = f"use {argument('cv', n)}{' or less' * (n > 2)}, " if n > 1 else ""
        raise ValueError(
            f"class {name!r} of {TARGET} has {n} row{'s' * (n != 1)}{weighted}, fewer than the "
            f"{cv} folds: {fewer}leave its rows out, or merge it with another class"
        )
