"""Where rows come in groups, no group is on both sides of a split."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

import dfi
from dfi.methods import LOCO, PCM, Fits, prepare
from dfi.methods.pcm import testing_folds as folds_of_testing_half

SIZE = 3
LABELS = np.repeat([f"patient {k}" for k in range(40)], SIZE)


def grouped_context(estimator: object = "linear") -> Fits:
    sample = dfi.datasets.m1(len(LABELS), d=3)
    return prepare(sample.X, sample.y, estimator=estimator, cv=4, cv_groups=LABELS)


def whole(side: np.ndarray) -> bool:
    """Tell whether every group is on one side."""
    return all(len(set(side[label == LABELS].tolist())) == 1 for label in set(LABELS))


def test_the_halves_of_pcm_keep_groups_whole() -> None:
    context = grouped_context()
    rows = PCM().compute(context)["pcm"].rows
    assert whole(np.isin(np.arange(len(LABELS)), rows))
    assert abs(len(rows) - len(LABELS) / 2) <= SIZE


def test_the_halves_of_loco_keep_groups_whole() -> None:
    influence = LOCO(sample_split=True).compute(grouped_context())["loco"].influence
    centred = influence - influence.mean(axis=0)
    # only the full model's loss enters on the first half: the same for every unit
    first = np.abs(centred - centred[:, :1]).max(axis=1) < 1e-9
    assert abs(first.sum() - len(LABELS) / 2) <= SIZE
    assert whole(first)


@pytest.mark.parametrize("grouped", [True, False])
def test_the_folds_of_the_testing_half_are_a_partition_that_keeps_groups_whole(
    grouped: bool,
) -> None:
    labels = np.repeat(np.arange(40), SIZE)
    rows = np.flatnonzero(labels % 2)
    folds = folds_of_testing_half(rows, 3, labels if grouped else None, np.random.SeedSequence(1))
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), rows)
    for train, test in folds:
        np.testing.assert_array_equal(np.union1d(train, test), rows)
        assert not np.intersect1d(train, test).size
        assert bool(np.intersect1d(labels[train], labels[test]).size) is not grouped


def test_what_groups_have_in_common_is_no_evidence_for_pcm() -> None:
    # x0 tells groups apart, no more: a nearest neighbour knows the outcome of those it has seen
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(300), 4)
    marker, y = generator.standard_normal((2, 300))[:, groups]
    X = np.column_stack([marker, 1e-4 * generator.standard_normal(1200)])
    learner = KNeighborsRegressor(1)
    with pytest.warns(dfi.warnings.WeakModelWarning):
        found = dfi.compare(X, y, "pcm", estimator=learner, cv=4, cv_groups=groups)["pcm"]
    leaked = dfi.compare(X, y, "pcm", estimator=learner, cv=4)["pcm"]
    # four copies double the standard deviation of the statistic: 6 is three of them
    assert leaked.scores[0] > 6
    assert found.scores[0] < 6


def test_pcm_says_where_there_are_too_few_groups() -> None:
    sample = dfi.datasets.m1(80, d=2)
    groups = np.arange(80) % 4
    options = {"estimator": KNeighborsRegressor(5), "cv": 2, "cv_groups": groups}
    with pytest.raises(ValueError, match=r"has 2 of the groups.*PCM\(n_folds=2\)"):
        dfi.compare(sample.X, sample.y, "pcm", **options)
    assert dfi.compare(sample.X, sample.y, PCM(n_folds=2), **options)["pcm"].scores.max() > 0
