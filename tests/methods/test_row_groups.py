"""Where rows come in groups, no group is on both sides of a split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor

import dfi
from dfi._data.dependence import Clusters, Ordered
from dfi._data.folds import in_time_order, read_folds
from dfi._data.weights import Weights
from dfi._scoring.jackknife import dealt, group_influence, with_transport_error
from dfi.methods import LOCO, PCM, Fits, prepare
from dfi.methods.pcm import testing_folds as folds_of_testing_half

SIZE = 3
LABELS = np.repeat([f"patient {k}" for k in range(40)], SIZE)


def grouped_context(estimator: object = "linear") -> Fits:
    sample = dfi.datasets.m1(len(LABELS), d=3)
    return prepare(sample.X, sample.y, estimator=estimator, cv=4, clusters=LABELS)


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
        found = dfi.compare(X, y, "pcm", estimator=learner, cv=4, clusters=groups)["pcm"]
    leaked = dfi.compare(X, y, "pcm", estimator=learner, cv=4)["pcm"]
    # four copies double the standard deviation of the statistic: 6 is three of them
    assert leaked.scores[0] > 6
    assert found.scores[0] < 6


@pytest.mark.filterwarnings("ignore:clusters has 4 clusters:dfi.warnings.InferenceWarning")
def test_pcm_says_where_there_are_too_few_groups() -> None:
    sample = dfi.datasets.m1(80, d=2)
    groups = np.arange(80) % 4
    options = {"estimator": KNeighborsRegressor(5), "cv": 2, "clusters": groups}
    with pytest.raises(ValueError, match=r"has only 2.*PCM\(n_folds=2\)"):
        dfi.compare(sample.X, sample.y, "pcm", **options)
    assert dfi.compare(sample.X, sample.y, PCM(n_folds=2), **options)["pcm"].scores.max() > 0


def dependent_sample(seed: int = 0, *, clusters: int = 40, size: int = 5) -> tuple[np.ndarray, ...]:
    """Features and errors share cluster effects, half of their variance."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(clusters), size)
    shared, own = rng.standard_normal((clusters, 4))[labels], rng.standard_normal((len(labels), 4))
    values = np.sqrt(0.5) * (shared + own)
    return values[:, :3], 2 * values[:, 0] + values[:, 1] + values[:, 3], labels


def by_hand(result: dfi.Importance, labels: np.ndarray) -> np.ndarray:
    """Cluster-robust standard errors of the influence values, cluster by cluster."""
    n, names = len(result.influence), np.unique(labels)
    centred = result.influence - result.influence.mean(axis=0)
    sums = np.array([centred[labels == name].sum(axis=0) for name in names])
    return np.sqrt(len(names) / (len(names) - 1) * (sums**2).sum(axis=0)) / n


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_every_method_has_cluster_robust_errors() -> None:
    X, y, labels = dependent_sample()
    found = dfi.compare(X, y, estimator="linear", cv=4, clusters=labels)
    assert {"dfi", "loco", "shapley", "sobol_total", "pcm", "r2_lmg"} <= set(found)
    for name, result in found.items():
        assert result.rows is not None
        held = labels[result.rows]
        assert result.spec["dependence"] == f"cluster-robust, {len(np.unique(held))} clusters", name
        expected = by_hand(result, held)
        known = expected > 0
        np.testing.assert_allclose(result.se[known], expected[known], rtol=1e-9, err_msg=name)


def test_what_follows_from_a_result_has_the_errors_of_clusters(tmp_path) -> None:
    X, y, labels = dependent_sample()
    result = dfi.explain(X, y, "linear", cv=4, clusters=labels)
    words = "cluster-robust, 40 clusters"
    assert f"standard errors: {words}" in repr(result)
    group = result.group({"a": ["x0", "x1"], "b": ["x2"]})
    assert group.basis.words == words
    assert result.latent is not None
    assert result.latent.basis.words == words
    assert group.se[0] == pytest.approx(by_hand(group, labels)[0])
    names = np.array([f"s{label}" for label in labels])
    np.testing.assert_array_equal(dfi.explain(X, y, "linear", cv=4, clusters=names).se, result.se)
    for kept in (result, result.moments()):
        loaded = dfi.load(kept.save(tmp_path / "r.dfi", overwrite=True))
        assert loaded.basis.words == words
        assert loaded.basis.degrees == 39
        np.testing.assert_array_equal(loaded.se, kept.se)
        assert loaded.total == kept.total
        assert loaded.contrast("x0", "x1") == kept.contrast("x0", "x1")
    assert words in result.report(tmp_path / "r.html").read_text(encoding="utf-8")
    other = dfi.explain(X, y, "ridge", cv=4, clusters=labels)
    assert (result - other).basis.words == words
    with pytest.raises(ValueError, match="same rows into different clusters"):
        result - dfi.explain(X, y, "linear", cv=4, clusters=np.arange(200) % 40)


def test_a_fitted_model_has_errors_of_clusters() -> None:
    X, y, labels = dependent_sample()
    result = dfi.explain(
        X, y, lambda rows: rows @ [2.0, 1.0, 0.0], cv="prefit", clusters=labels, diagnose=False
    )
    np.testing.assert_allclose(result.se, by_hand(result, labels))


def test_rows_in_time_have_errors_of_newey_and_west(tmp_path) -> None:
    X, y, labels = dependent_sample()
    splits = TimeSeriesSplit(4)
    result = dfi.explain(X, y, "linear", cv=splits)
    assert result.spec["dependence"] == result.basis.words
    assert result.basis.words.startswith("HAC, bandwidth ")
    assert dfi.load(result.save(tmp_path / "r.dfi")).basis.words == result.basis.words
    assert f"standard errors: {result.basis.words}" in repr(result)
    same = dfi.explain(X, y, "linear", cv=list(splits.split(X)))
    np.testing.assert_array_equal(same.se, result.se)
    # groups of rows come first
    grouped = dfi.explain(X, y, "linear", cv=list(splits.split(X)), clusters=labels)
    assert str(grouped.spec["dependence"]).startswith("cluster-robust, ")


def test_only_splits_along_time_are_in_time_order() -> None:
    assert in_time_order(read_folds(TimeSeriesSplit(3), 60))
    assert in_time_order(read_folds(TimeSeriesSplit(3, gap=2, max_train_size=10), 60))
    assert not in_time_order(read_folds(5, 60))
    assert not in_time_order(read_folds(KFold(3), 60))
    assert not in_time_order(read_folds([(np.arange(40), np.arange(40, 60))], 60))


def test_too_few_clusters_are_refused_or_said() -> None:
    X, y, labels = dependent_sample()
    with pytest.raises(ValueError, match="clusters has the same label for all rows: one cluster"):
        dfi.explain(X, y, "linear", clusters=np.zeros(200))
    last = [(np.arange(190), np.arange(195, 200))]
    with pytest.raises(ValueError, match="explained are all of one label in clusters"):
        dfi.explain(X, y, "linear", cv=last, clusters=labels)
    rough = dfi.explain(X, y, "linear", cv=4, clusters=labels % 8, diagnose=False).trust.reasons[0]
    assert "so few clusters are rough (cluster-robust, 8 clusters)" in rough.what
    assert "with 7 degrees of freedom" in rough.remedy
    with pytest.raises(ValueError, match="the testing half has only one"):
        dfi.compare(X, y, "pcm", estimator="linear", cv=2, clusters=labels % 2)


def test_the_groups_of_the_jackknife_keep_clusters_whole() -> None:
    labels = np.repeat(np.arange(30), 4)
    weights = Weights(np.ones(120), "frequency", Clusters(labels))
    groups = dealt(weights, np.random.SeedSequence(0))
    assert len(np.unique(groups)) == 20
    assert all(len(np.unique(groups[labels == label])) == 1 for label in range(30))
    # every group has some of the rows that are scored
    scored = np.flatnonzero(labels < 12)
    assert set(dealt(weights, np.random.SeedSequence(0), scored)[scored]) == set(range(12))
    ordered = dealt(
        Weights(np.ones(120), "frequency", Ordered(np.arange(120))), np.random.SeedSequence(0)
    )
    np.testing.assert_array_equal(ordered, np.arange(120) // 6)


@pytest.mark.parametrize("kind", ["clusters", "time"])
def test_the_jackknife_adds_the_variance_of_refits_to_that_of_dependent_rows(kind: str) -> None:
    # a transport with an error of its own, independent of the scores: variances add
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(400), 3)
    dependence = Clusters(labels) if kind == "clusters" else Ordered(np.arange(1200), 4)
    weights = Weights(np.ones(1200), "frequency", dependence)
    influence = rng.standard_normal((400, 1))[labels] + rng.standard_normal((1200, 1))
    own = rng.standard_normal((400, 1))[labels] + 0.5 * rng.standard_normal((1200, 1))
    groups = dealt(weights, np.random.SeedSequence(1))
    psi = group_influence(groups, lambda keep: own[keep].mean(axis=0), own.mean(axis=0))
    aware = with_transport_error(influence, weights, groups, psi)
    expected = weights.standard_error(influence) ** 2 + weights.standard_error(own) ** 2
    # 20 groups: their variance has a relative error of a third, on half of the sum
    np.testing.assert_allclose(weights.standard_error(aware) ** 2, expected, rtol=0.35)


def test_errors_of_clusters_are_near_the_spread_of_scores() -> None:
    # true regression, no fits; the spread of 40 samples has an error of 11 %
    scores, errors, unaware = [], [], []
    for seed in range(40):
        X, y, labels = dependent_sample(seed, clusters=50, size=10)
        options = {"cv": "prefit", "diagnose": False}
        result = dfi.explain(X, y, lambda x: x @ [2.0, 1.0, 0.0], clusters=labels, **options)
        plain = replace(result.weights, dependence=None)
        scores.append(result.scores[:2])
        errors.append(result.se[:2])
        unaware.append(plain.standard_error(result.influence)[:2])
    spread = np.std(scores, axis=0, ddof=1)
    np.testing.assert_allclose(np.mean(errors, axis=0) / spread, 1.0, atol=0.35)
    assert np.all(np.mean(unaware, axis=0) < 0.75 * np.mean(errors, axis=0))
