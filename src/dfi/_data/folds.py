"""Cross-fitting splits: every row is predicted by models that never saw it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from sklearn.model_selection import GroupKFold

from dfi._data.columns import check_rows, read_vector
from dfi._parameters import TABLE, InvalidParameterError, argument, check, worded

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dfi._types import Array, Bools, Estimator, Ints, Native

    Rows = Ints


@dataclass(frozen=True, eq=False)
class Fold:
    """One split: models are fitted on ``train``, evaluated on ``test``; ascending row numbers."""

    train: Rows
    test: Rows


def read_folds(
    cv: object,
    n_rows: int,
    *,
    matrix: ArrayLike | None = None,
    y: ArrayLike | None = None,
    groups: object = None,
    n_classes: int = 2,
    n_repeats: int = 1,
    random_state: int | np.random.SeedSequence = 0,
    by_outcome: bool = False,
) -> tuple[tuple[Fold, ...], ...]:
    """Read ``cv`` into folds by repeat; a number stratifies few values, or more ``by_outcome``."""
    check("read_folds", {"n_repeats": n_repeats})
    labels = None if groups is None else read_row_groups(groups, n_rows)
    seeds = _seeds(random_state, int(n_repeats))
    outcome = None if y is None else np.asarray(y)
    features = np.zeros((n_rows, 1)) if matrix is None else np.asarray(matrix)
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        _require_folds(int(cv), n_rows, labels)
        options = n_classes, by_outcome
        return tuple(_shuffled(int(cv), n_rows, outcome, labels, seed, *options) for seed in seeds)
    if hasattr(cv, "split") and not isinstance(cv, str):
        repeats = []
        for number, seed in enumerate(seeds):
            splitter = _seeded(cv, seed, first=number == 0)
            pairs = _split(splitter, features, outcome, labels)
            repeats += _without_retests(_checked(pairs, n_rows), n_rows)
    elif isinstance(cv, Iterable) and not isinstance(cv, (str, bytes, dict)):
        repeats = _without_retests(_checked(list(cv), n_rows), n_rows)
        repeats *= int(n_repeats)
    else:
        raise InvalidParameterError(
            f"{argument('cv')} is {cv!r};",
            "cv",
            "pass a number of folds"
            + worded(", a scikit-learn splitter or a list of (train, test) row numbers", ""),
        )
    for folds in repeats:
        _require_enough(len(folds), n_rows)
        if labels is not None:
            _refuse_split_clusters(folds, labels, cv)
    if n_repeats > 1:
        _refuse_equal_repeats(repeats, cv)
    return tuple(repeats)


def widened(
    repeats: Sequence[Sequence[Fold]], fit: Rows, others: Rows, numbers: Array
) -> tuple[tuple[Fold, ...], ...]:
    found = []
    for folds in repeats:
        own = (numbers % np.uint64(len(folds))).astype(np.intp)
        found.append(
            tuple(
                Fold(fit[fold.train], np.sort(np.concatenate([fit[fold.test], others[own == k]])))
                for k, fold in enumerate(folds)
            )
        )
    return tuple(found)


def in_time_order(repeats: Sequence[Sequence[Fold]]) -> bool:
    """Return whether every fold trains on rows before those it predicts, fold after fold."""
    return all(
        len(folds) > 1
        and all(fold.train.max() < fold.test.min() for fold in folds)
        and all(one.test.max() < two.test.min() for one, two in pairwise(folds))
        for folds in repeats
    )


def split_halves(
    train: ArrayLike,
    seed: int | np.random.SeedSequence,
    *,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_classes: int = 2,
) -> tuple[Rows, Rows]:
    rows = np.sort(np.asarray(train, dtype=np.intp))
    if len(rows) < 2:
        raise ValueError(f"{len(rows)} training row cannot be split into halves.")
    generator = np.random.default_rng(seed)
    if groups is not None:
        side = _deal_groups(np.asarray(groups)[rows], generator)
    else:
        strata = None if y is None else np.asarray(y)[rows]
        side = _deal(len(rows), 2, strata, generator, n_classes)
    return rows[side == 0], rows[side == 1]


def read_row_groups(groups: object, n_rows: int, kept: Bools | None = None) -> Rows:
    """Return the labels of the ``kept`` rows (None: all) as numbers, one per different label."""
    labels = read_vector(groups, "clusters", labels=True).labels()
    check_rows("clusters", len(labels), n_rows)
    if kept is not None:
        labels = [labels[row] for row in np.flatnonzero(kept).tolist()]
    if any(label is None for label in labels):
        raise ValueError(
            f"{argument('clusters')} has a missing label in row {labels.index(None)}: give every "
            "row one, or drop those rows."
        )
    place = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return np.array([place[label] for label in labels], dtype=np.intp)


def _seeds(random_state: int | np.random.SeedSequence, n_repeats: int) -> list[int]:
    # children by explicit key: spawn() would make a second call with the same sequence differ
    if isinstance(random_state, np.random.SeedSequence):
        entropy, key = random_state.entropy, random_state.spawn_key
    else:
        entropy, key = random_state, ()
    return [
        int(np.random.SeedSequence(entropy, spawn_key=(*key, repeat)).generate_state(1)[0])
        for repeat in range(n_repeats)
    ]


def _require_folds(n_folds: int, n_rows: int, labels: Rows | None) -> None:
    if n_folds < 2:
        raise InvalidParameterError(
            f"{argument('cv', n_folds)}: at least 2 folds are needed, so that rows are predicted "
            "by models that did not see them.",
            "cv",
            f"To explain a fitted model as it is, use {argument('cv', 'prefit')}.",
        )
    _require_enough(n_folds, n_rows)
    if labels is not None and len(np.unique(labels)) < n_folds:
        raise ValueError(
            f"{argument('cv', n_folds)} needs as many clusters, but {argument('clusters')} "
            f"has only {len(np.unique(labels))} different labels: use fewer folds."
        )


def _require_enough(n_folds: int, n_rows: int) -> None:
    if n_rows < 2 * n_folds:
        most = n_rows // 2
        fewer = (
            f"Use {argument('cv', most)}{' or fewer folds' * (most > 2)}, or more data."
            if most > 1
            else "Use more data."
        )
        raise ValueError(
            f"{TABLE} has {n_rows} rows, too few for {n_folds} folds: each fold needs two rows or "
            "more. " + fewer
        )


def _shuffled(
    n_folds: int,
    n_rows: int,
    y: Array | None,
    labels: Rows | None,
    seed: int,
    n_classes: int,
    by_outcome: bool,
) -> tuple[Fold, ...]:
    rows = np.arange(n_rows)
    if labels is not None:
        splitter = GroupKFold(n_folds, shuffle=True, random_state=seed)
        return tuple(Fold(train, test) for train, test in splitter.split(rows, groups=labels))
    generator = np.random.default_rng(seed)
    if by_outcome and y is not None and len(np.unique(y)) > n_classes:
        number = _deal_in_order(n_folds, y, generator)
    else:
        number = _deal(n_rows, n_folds, y, generator, n_classes)
    return tuple(Fold(rows[number != fold], rows[number == fold]) for fold in range(n_folds))


def _deal(
    n_rows: int, n_parts: int, y: Array | None, generator: np.random.Generator, n_classes: int = 2
) -> Rows:
    """Deal rows out like cards, shuffled; class after class when ``y`` has so few values."""
    order = generator.permutation(n_rows)
    if y is not None:
        distinct, first, code = np.unique(y, return_index=True, return_inverse=True)
        if 2 <= len(distinct) <= n_classes:
            # by their first row: what classes are called, and which is explained, moves no row
            order = order[np.argsort(first[code][order], kind="stable")]
    number = np.empty(n_rows, dtype=np.intp)
    number[order] = np.arange(n_rows) % n_parts
    return number


def _deal_in_order(n_parts: int, y: Array, generator: np.random.Generator) -> Rows:
    """Deal rows out in the order of ``y``, those of a round to the parts at random."""
    order = generator.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    rounds = -(-len(y) // n_parts)
    parts = generator.permuted(np.tile(np.arange(n_parts), (rounds, 1)), axis=1)
    number = np.empty(len(y), dtype=np.intp)
    number[order] = parts.ravel()[: len(y)]
    return number


def _deal_groups(labels: Array, generator: np.random.Generator) -> Rows:
    """Put whole groups, in random order, where fewer rows are so far; large groups go first."""
    _, code, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise ValueError(
            f"The training rows of a fold are all of one label in {argument('clusters')}, which "
            "cannot be split into halves; use fewer folds or finer labels."
        )
    order = generator.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    filled = [0, 0]
    side = np.empty(len(sizes), dtype=np.intp)
    for group in order:
        side[group] = int(filled[1] < filled[0])
        filled[side[group]] += int(sizes[group])
    return side[code]


def _seeded(cv: Estimator, seed: int, *, first: bool) -> Estimator:
    if not hasattr(cv, "random_state") or not getattr(cv, "shuffle", True):
        return cv
    if cv.random_state is not None and (
        first or not isinstance(cv.random_state, (int, np.integer))
    ):
        return cv
    seeded = copy.copy(cv)
    seeded.random_state = seed
    return seeded


def _split(cv: Estimator, matrix: Array, y: Array | None, labels: Rows | None) -> list[object]:
    try:
        with warnings.catch_warnings():
            # what a splitter does to the groups is checked
            warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
            return list(cv.split(matrix, y, labels))
    except (ValueError, TypeError) as error:
        if labels is None and "groups" in str(error):
            raise ValueError(
                f"{type(cv).__name__} splits by groups of rows, but none were given: pass one "
                f"label per row as {argument('clusters')}, or use another splitter."
            ) from error
        raise ValueError(f"{type(cv).__name__} cannot split these rows: {error}") from error


def _checked(pairs: Sequence[object], n_rows: int) -> list[Fold]:
    if not pairs:
        raise ValueError("cv gives no folds.")
    return [_fold(number, pair, n_rows) for number, pair in enumerate(pairs)]


def _fold(number: int, pair: Native, n_rows: int) -> Fold:
    try:
        train, test = pair
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Fold {number} of {argument('cv')} is not a pair (train, test)."
        ) from error
    parts = []
    for what, given in (("train", train), ("test", test)):
        rows = np.asarray(given)
        if rows.dtype == bool and rows.shape == (n_rows,):
            rows = np.flatnonzero(rows)
        if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu":
            raise ValueError(
                f"The {what} rows of fold {number} must be row numbers, at least one of them."
            )
        if rows.min() < 0 or rows.max() >= n_rows:
            outside = rows[(rows < 0) | (rows >= n_rows)][0]
            raise ValueError(
                f"The {what} rows of fold {number} include {outside}; rows go from 0 to "
                f"{n_rows - 1}."
            )
        unique = np.unique(rows)
        if len(unique) < len(rows):
            raise ValueError(f"The {what} rows of fold {number} name a row more than once.")
        parts.append(unique.astype(np.intp))
    common = np.intersect1d(parts[0], parts[1])
    if len(common):
        raise ValueError(
            f"Fold {number} tests {len(common)} of its training rows (row {common[0]} is the "
            "first); a row must be predicted by a model that did not see it."
        )
    return Fold(parts[0], parts[1])


def _without_retests(folds: Sequence[Fold], n_rows: int) -> list[tuple[Fold, ...]]:
    """Assign folds to repeats of a splitter: a new repeat begins when a row recurs."""
    repeats: list[list[Fold]] = [[]]
    tested = [np.zeros(n_rows, dtype=bool)]
    for fold in folds:
        if tested[-1][fold.test].any():
            repeats.append([])
            tested.append(np.zeros(n_rows, dtype=bool))
        tested[-1][fold.test] = True
        repeats[-1].append(fold)
    return [tuple(repeat) for repeat in repeats]


def _refuse_split_clusters(folds: Sequence[Fold], labels: Rows, cv: object) -> None:
    for number, fold in enumerate(folds):
        split = np.isin(labels[fold.test], labels[fold.train])
        if split.any():
            row = fold.test[split.argmax()]
            other = fold.train[(labels[fold.train] == labels[row]).argmax()]
            remedy = "a splitter that keeps groups, e.g. GroupKFold(5)"
            if hasattr(cv, "split"):
                remedy += f", in place of {type(cv).__name__}"
            raise ValueError(
                f"{argument('cv')} splits what {argument('clusters')} keeps together: fold "
                f"{number} tests row {row} and trains on row {other}, which has the same label. "
                f"Pass a number of folds, or {remedy}; leave {argument('clusters')} out if the "
                "rows are independent"
            )


def _refuse_equal_repeats(repeats: Sequence[tuple[Fold, ...]], cv: object) -> None:
    seen = {tuple(sorted(fold.test.tobytes() for fold in folds)) for folds in repeats}
    if len(seen) < len(repeats):
        what = type(cv).__name__
        raise InvalidParameterError(
            f"{argument('n_repeats')} asks for several splits, but {argument('cv')} ({what}) gives "
            "the same one each time",
            "n_repeats",
            f"use {argument('n_repeats', 1)}, a number of folds or a splitter with shuffle=True.",
        )
