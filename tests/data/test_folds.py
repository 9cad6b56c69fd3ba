"""Cross-fitting splits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from dfi._data.folds import Fold, read_folds, read_row_groups, split_halves

N = 40
RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(N, 2))
Y = RNG.normal(size=N)
LABELS = np.repeat(np.arange(10), 4)


def folds_of(cv: Any, **options: Any) -> tuple[tuple[Fold, ...], ...]:
    return read_folds(cv, N, **({"matrix": MATRIX, "y": Y} | options))


def rows_tested(folds: tuple[Fold, ...]) -> list[list[int]]:
    return [fold.test.tolist() for fold in folds]


@settings(max_examples=40, deadline=None)
@given(
    n_rows=st.integers(4, 80),
    data=st.data(),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**31),
)
def test_numbers_of_folds_are_balanced_partitions(
    n_rows: int, data: st.DataObject, share: float, seed: int
) -> None:
    n_folds = data.draw(st.integers(2, n_rows // 2))
    y = (np.arange(n_rows) < share * n_rows).astype(float)
    (folds,) = read_folds(n_folds, n_rows, matrix=np.zeros((n_rows, 1)), y=y, random_state=seed)
    assert len(folds) == n_folds
    assert sorted(row for fold in folds for row in fold.test) == list(range(n_rows))
    sizes = [len(fold.test) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    positives = [int(y[fold.test].sum()) for fold in folds]
    assert max(positives) - min(positives) <= 1
    for fold in folds:
        assert sorted([*fold.train, *fold.test]) == list(range(n_rows))


@pytest.mark.parametrize("n_rows", [10, 23, 100])
def test_folds_by_outcome_have_one_of_each_run_of_values(n_rows: int) -> None:
    y = np.random.default_rng(n_rows).standard_cauchy(n_rows)
    first, second = read_folds(5, n_rows, y=y, n_repeats=2, by_outcome=True)
    fold_of = np.empty(n_rows, dtype=int)
    for number, fold in enumerate(first):
        fold_of[fold.test] = number
    in_order = fold_of[np.argsort(y)]
    for start in range(0, n_rows, 5):
        run = in_order[start : start + 5].tolist()
        assert len(set(run)) == len(run)
    assert rows_tested(first) != rows_tested(second)
    (scaled,) = read_folds(5, n_rows, y=3.0 * y - 1.0, by_outcome=True)
    assert rows_tested(scaled) == rows_tested(first)
    # classes are shared out as always
    classes = (y > 0).astype(float)
    (plain,), (dealt,) = (read_folds(5, n_rows, y=classes, by_outcome=by) for by in (False, True))
    assert rows_tested(plain) == rows_tested(dealt)


def test_repeats_differ_and_seeds_repeat() -> None:
    once = folds_of(5, n_repeats=3, random_state=7)
    again = folds_of(5, n_repeats=3, random_state=np.random.SeedSequence(7))
    assert len(once) == 3
    assert [rows_tested(folds) for folds in once] == [rows_tested(folds) for folds in again]
    assert rows_tested(once[0]) != rows_tested(once[1])
    assert rows_tested(folds_of(5, random_state=8)[0]) != rows_tested(once[0])
    assert rows_tested(folds_of(5, random_state=7)[0]) == rows_tested(once[0])


def test_reading_leaves_the_seed_sequence_alone() -> None:
    sequence = np.random.SeedSequence(1)
    first, second = folds_of(4, random_state=sequence), folds_of(4, random_state=sequence)
    assert rows_tested(first[0]) == rows_tested(second[0])
    assert sequence.n_children_spawned == 0


def test_groups_of_rows_stay_together() -> None:
    (folds,) = folds_of(5, groups=[f"g{label}" for label in LABELS])
    for fold in folds:
        assert not set(LABELS[fold.train]) & set(LABELS[fold.test])
    assert len(folds_of(5, groups=LABELS, n_repeats=2)) == 2


def test_splitters() -> None:
    assert rows_tested(folds_of(KFold(4))[0]) == [
        test.tolist() for _, test in KFold(4).split(MATRIX)
    ]
    own = KFold(4, shuffle=True, random_state=3)
    assert rows_tested(folds_of(own)[0]) == [test.tolist() for _, test in own.split(MATRIX)]
    assert len(folds_of(own, n_repeats=2)) == 2
    assert own.random_state == 3
    open_seed = KFold(4, shuffle=True)
    assert rows_tested(folds_of(open_seed)[0]) == rows_tested(folds_of(open_seed)[0])
    assert len(folds_of(GroupKFold(5), groups=LABELS)[0]) == 5
    assert len(folds_of(LeaveOneGroupOut(), groups=pl.Series(LABELS))[0]) == 10
    (folds,) = folds_of(TimeSeriesSplit(4))
    assert all(fold.train.max() < fold.test.min() for fold in folds)
    (folds,) = folds_of(StratifiedKFold(4), y=np.repeat([0, 1], N // 2))
    assert len(folds) == 4


def test_repeated_splitters_are_told_apart() -> None:
    repeats = folds_of(RepeatedKFold(n_splits=4, n_repeats=3, random_state=0))
    assert [len(folds) for folds in repeats] == [4, 4, 4]
    for folds in repeats:
        assert sorted(row for fold in folds for row in fold.test) == list(range(N))


def test_pairs_of_rows_and_masks() -> None:
    pairs = list(KFold(4).split(MATRIX))
    assert rows_tested(folds_of(pairs)[0]) == [test.tolist() for _, test in pairs]
    assert rows_tested(folds_of(iter(pairs))[0]) == [test.tolist() for _, test in pairs]
    mask = np.arange(N) < 10
    (folds,) = folds_of([(mask, ~mask), (~mask, mask)])
    assert folds[1].test.tolist() == list(range(10))
    (folds,) = folds_of([([3, 1], [2, 0])])
    assert folds[0].train.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("cv", "options", "text"),
    [
        (1, {}, "cv=1: at least 2 folds are needed"),
        (0, {}, "cv=0: at least 2 folds are needed"),
        (21, {}, "X has 40 rows, too few for 21 folds: each fold needs two rows or more."),
        (21, {}, "Use cv=20 or fewer folds, or more data."),
        (LeaveOneOut(), {}, "X has 40 rows, too few for 40 folds"),
        (5, {"n_repeats": 0}, "n_repeats must be a whole number of 1 or more, got 0"),
        (5, {"n_repeats": 1.5}, "n_repeats must be a whole number of 1 or more, got 1.5"),
        (KFold(5), {"n_repeats": 2}, "cv (KFold) gives the same one each time: use n_repeats=1"),
        (TimeSeriesSplit(5), {"n_repeats": 2}, "cv (TimeSeriesSplit) gives the same one each time"),
        ([([0, 1], [2, 3])], {"n_repeats": 2}, "cv (list) gives the same one each time"),
        (GroupKFold(5), {}, "GroupKFold splits by groups of rows, but none were given"),
        (LeaveOneGroupOut(), {}, "LeaveOneGroupOut splits by groups of rows, but none were given"),
        (StratifiedKFold(5), {}, "StratifiedKFold cannot split these rows: Supported target types"),
        (
            11,
            {"groups": LABELS},
            "cv=11 needs as many clusters, but clusters has only 10 different",
        ),
        (5, {"groups": LABELS[:5]}, "X has 40 rows and clusters has 5 values"),
        (5, {"groups": [None] + [1] * 39}, "clusters has a missing label in row 0"),
        ([], {}, "cv gives no folds."),
        ([([0, 1, 2], [2, 3])], {}, "Fold 0 tests 1 of its training rows (row 2 is the first)"),
        ([([0, 1], [40])], {}, "The test rows of fold 0 include 40; rows go from 0 to 39."),
        ([([-1, 1], [3])], {}, "The train rows of fold 0 include -1; rows go from 0 to 39."),
        ([([0, 0], [3])], {}, "The train rows of fold 0 name a row more than once."),
        ([([0, 1], [])], {}, "The test rows of fold 0 must be row numbers, at least one of them."),
        ([([0.5, 1], [2])], {}, "The train rows of fold 0 must be row numbers"),
        ([1, 2], {}, "Fold 0 of cv is not a pair (train, test)."),
    ],
)
def test_bad_schemes(cv: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        folds_of(cv, **options)


@pytest.mark.parametrize(
    "cv",
    [
        KFold(4, shuffle=True, random_state=0),
        ShuffleSplit(3, random_state=0),
        TimeSeriesSplit(3),
        [(np.arange(6), np.arange(6, 12))],
        list(KFold(3).split(MATRIX)),
        iter(list(KFold(3).split(MATRIX))),
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_folds_that_split_a_cluster_are_refused(cv: Any) -> None:
    text = (
        r"^cv splits what clusters keeps together: fold \d tests row (\d+) and trains on row (\d+)"
    )
    with pytest.raises(ValueError, match=text) as caught:
        folds_of(cv, groups=LABELS)
    one, two = map(int, re.match(text, str(caught.value)).groups())
    assert LABELS[one] == LABELS[two]


@pytest.mark.parametrize(
    "cv",
    [
        3,
        GroupKFold(3),
        LeaveOneGroupOut(),
        KFold(5),  # as it happens
        [(np.arange(8), np.arange(8, 16)), (np.arange(8, 16), np.arange(8))],
    ],
    ids=lambda cv: type(cv).__name__,
)
def test_folds_that_keep_clusters_whole_are_taken(cv: Any) -> None:
    for fold in folds_of(cv, groups=LABELS)[0]:
        assert not set(LABELS[fold.train]) & set(LABELS[fold.test])


@pytest.mark.parametrize("cv", ["five", 2.5, None, True])
def test_schemes_of_the_wrong_type(cv: Any) -> None:
    with pytest.raises(TypeError, match="pass a number of folds, a scikit-learn splitter or"):
        folds_of(cv)


def test_halves() -> None:
    train = np.array([9, 3, 5, 1, 7])
    a, b = split_halves(train, 0)
    assert sorted([*a, *b]) == [1, 3, 5, 7, 9]
    assert (len(a), len(b)) == (3, 2)
    assert a.tolist() == split_halves(train, 0)[0].tolist()
    halves = {tuple(split_halves(train, seed)[0]) for seed in range(20)}
    assert len(halves) > 3


def test_halves_are_stratified() -> None:
    y = np.zeros(N)
    y[[1, 5, 20, 33]] = 1
    for seed in range(10):
        a, b = split_halves(np.arange(N), seed, y=y)
        assert y[a].sum() == y[b].sum() == 2


def test_halves_keep_groups() -> None:
    for seed in range(10):
        a, b = split_halves(np.arange(4, N), seed, groups=LABELS)
        assert not set(LABELS[a]) & set(LABELS[b])
        assert abs(len(a) - len(b)) <= 4


def test_halves_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="1 training row cannot be split into halves"):
        split_halves([3], 0)
    with pytest.raises(ValueError, match="are all of one label in clusters, which cannot"):
        split_halves([0, 1, 2], 0, groups=LABELS)


def test_row_groups_become_numbers() -> None:
    assert read_row_groups(["b", "a", "b"], 3).tolist() == [0, 1, 0]


def test_overlapping_splits_are_repeats_of_their_own():
    splits = folds_of(ShuffleSplit(4, test_size=0.6, random_state=0))
    assert [len(repeat) for repeat in splits] == [1, 1, 1, 1]
