"""Cross-fitting: who sees which rows, with which seeds and weights."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dfi._data.folds import read_folds
from dfi._data.outcome import read_outcome
from dfi._data.problem import Data
from dfi._data.seeds import Seeds
from dfi._data.splits import (
    full_training,
    half_training,
    quarter_training,
    shared_training,
)
from dfi._data.table import read_table
from dfi._data.weights import read_weights
from dfi._learners.stack import SuperLearner
from dfi._models.crossfit import (
    cross_fit,
    seed_estimator,
)
from dfi._models.prepare import prepare

GENERATOR = np.random.default_rng(0)
# the first column is the row number: a model can say which rows it saw
X = np.column_stack([np.arange(40.0), GENERATOR.standard_normal(40)])
Y = GENERATOR.standard_normal(40)


class Recorder(RegressorMixin, BaseEstimator):
    def fit(self, X, y, sample_weight=None):
        self.rows_ = np.asarray(X)[:, 0].astype(int)
        self.y_, self.weight_ = y, sample_weight
        self.n_features_in_ = 2
        return self

    def predict(self, X):
        return np.zeros(len(X))


def fit(learner, *, halves, labels=None, weights=None, y=Y, seed=1):
    repeats = read_folds(4, 40, n_repeats=2, groups=labels, random_state=0)
    data = Data(
        read_table(X),
        read_outcome(y, 40),
        read_weights(None, 40) if weights is None else weights,
        weighted=weights is not None,
        row_groups=labels,
    )
    seeds = Seeds(seed)
    training = half_training(repeats, data, seeds) if halves else full_training(repeats)
    return repeats, cross_fit(learner, data, training, seeds=seeds).folds


def test_models_never_see_the_rows_they_are_held_against():
    repeats, folds = fit(Recorder(), halves=False)
    assert [fold.repeat for fold in folds] == [0] * 4 + [1] * 4
    for fold, split in zip(folds, [f for repeat in repeats for f in repeat], strict=True):
        (predictor,) = fold.predictors
        assert np.array_equal(np.sort(predictor.model.rows_), split.train)
        assert np.array_equal(predictor.model.y_, Y[predictor.model.rows_])
        assert not set(predictor.model.rows_) & set(fold.test)


def test_halves_are_disjoint_and_together_the_training_rows():
    _, folds = fit(Recorder(), halves=True)
    for fold in folds:
        a, b = (set(p.model.rows_) for p in fold.predictors)
        assert not a & b
        assert a | b == set(range(40)) - set(fold.test)
        assert abs(len(a) - len(b)) <= 1


def test_groups_stay_in_one_half():
    labels = np.repeat(np.arange(10), 4)
    _, folds = fit(Recorder(), halves=True, labels=labels)
    for fold in folds:
        a, b = (set(labels[p.model.rows_]) for p in fold.predictors)
        assert not a & b
        assert not (a | b) & set(labels[fold.test])


def test_weights_follow_their_rows():
    weights = read_weights(GENERATOR.uniform(0.1, 2, 40), 40)
    _, folds = fit(Recorder(), halves=True, weights=weights)
    for fold in folds:
        for predictor in fold.predictors:
            assert np.array_equal(predictor.model.weight_, weights.values[predictor.model.rows_])


def test_weights_reach_the_last_step_of_a_pipeline():
    weights = read_weights(GENERATOR.uniform(0.1, 2, 40), 40)
    _, folds = fit(make_pipeline(StandardScaler(), Recorder()), halves=False, weights=weights)
    assert folds[0].predictors[0].model.steps[-1][1].weight_ is not None


def test_unset_random_states_are_seeded_and_set_ones_kept():
    seed = np.random.SeedSequence(3)
    model = BaggingRegressor(RandomForestRegressor(random_state=5))
    seed_estimator(model, seed)
    assert isinstance(model.random_state, int)
    assert model.estimator.random_state == 5
    again = BaggingRegressor(RandomForestRegressor(random_state=5))
    seed_estimator(again, np.random.SeedSequence(3))
    assert again.random_state == model.random_state
    seed_estimator(Ridge(random_state=None), seed)


def test_folds_have_seeds_of_their_own():
    forest = RandomForestRegressor(2)
    _, folds = fit(forest, halves=True)
    states = {p.model.random_state for fold in folds for p in fold.predictors}
    assert len(states) == 16
    _, again = fit(forest, halves=True)
    assert states == {p.model.random_state for fold in again for p in fold.predictors}
    assert forest.random_state is None


def test_progress_is_told_of_every_fold():
    steps = []
    repeats = read_folds(4, 40, random_state=0)
    data = Data(read_table(X), read_outcome(Y, 40), read_weights(None, 40))
    cross_fit(Ridge(), data, full_training(repeats), seeds=Seeds(0), advance=steps.append)
    assert steps == [1, 1, 1, 1]


def test_learner_without_weights_is_refused_by_name():
    class Plain(Recorder):
        def fit(self, X, y):
            return self

    with pytest.raises(ValueError, match=r"Plain.fit takes no sample_weight"):
        fit(Plain(), halves=False, weights=read_weights(np.ones(40), 40))


def test_halves_of_a_binary_outcome_share_its_rare_class():
    rare = np.zeros(40)
    rare[GENERATOR.permutation(40)[:8]] = 1.0
    _, folds = fit(Recorder(), halves=True, y=rare)
    for fold in folds:
        first, second = (predictor.model.y_.sum() for predictor in fold.predictors)
        assert abs(first - second) <= 1


def test_quarters_are_halves_of_halves():
    labels = np.repeat(np.arange(20), 2)
    repeats = read_folds(4, 40, groups=labels, random_state=0)
    data = Data(read_table(X), read_outcome(Y, 40), read_weights(None, 40), row_groups=labels)
    halves = half_training(repeats, data, Seeds(1))
    quarters = quarter_training(halves, data, Seeds(1))
    assert len(quarters.sets) == 2 * len(halves.sets)
    assert len(quarters.uses) == 2 * len(halves.uses)
    for number, use in enumerate(quarters.uses):
        of = halves.uses[number // 2]
        assert use.fold == of.fold
        assert np.array_equal(use.test, of.test)
        for part, half in zip(use.sets, of.sets, strict=True):
            assert set(quarters.sets[part].rows) < set(halves.sets[half].rows)
    for number, half in enumerate(halves.sets):
        first, second = (quarters.sets[2 * number + q].rows for q in range(2))
        assert not set(labels[first]) & set(labels[second])
        assert np.array_equal(np.sort(np.r_[first, second]), np.sort(half.rows))
    assert len({one.name for one in quarters.sets}) == len(quarters.sets)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("halvings", [(3,), (1,), (3, 2)])
def test_five_folds_share_their_training_sets(halvings, grouped):
    labels = np.repeat(np.arange(20), 2) if grouped else None
    splits = read_folds(5, 40, groups=labels, n_repeats=len(halvings), random_state=0)
    halves, quarters = shared_training(splits, halvings)
    assert len(halves.sets) == 10 * len(splits)
    assert len(quarters.sets) == 5 * len(splits)
    assert len(halves.uses) == 5 * sum(halvings)
    assert len(quarters.uses) == 10 * len(splits)
    for training, size in ((halves, 2), (quarters, 1)):
        names = [one.name for one in training.sets] + [use.name for use in training.uses]
        assert len(set(names)) == len(names)
        assert [use.repeat for use in training.uses] == sorted(use.repeat for use in training.uses)
        for use in training.uses:
            folds = splits[use.split]
            assert np.array_equal(use.test, folds[use.fold].test)
            held_out = {int(row): k for k, fold in enumerate(folds) for row in fold.test}
            first, second = (training.sets[k].rows for k in use.sets)
            of_folds = [{held_out[int(row)] for row in rows} for rows in (first, second)]
            assert [len(found) for found in of_folds] == [size, size]
            assert not of_folds[0] & of_folds[1]
            assert use.fold not in of_folds[0] | of_folds[1]
            together = set(first) | set(second)
            if size == 2:
                assert together == set(folds[use.fold].train)
            if labels is not None:
                assert not set(labels[first]) & set(labels[second])
                assert not set(labels[list(together)]) & set(labels[use.test])
    # no halving of a fold is used twice, and every repeat explains every row once
    pairs = [(use.split, use.fold, frozenset(use.sets)) for use in halves.uses]
    assert len(set(pairs)) == len(pairs)
    for training in (halves, quarters):
        for repeat in {use.repeat for use in training.uses}:
            rows = np.concatenate([use.test for use in training.uses if use.repeat == repeat])
            assert np.array_equal(np.sort(rows), np.arange(40))


def test_three_halvings_use_all_ten_models_alike():
    halves, quarters = shared_training(read_folds(5, 40, random_state=0), (3,))
    assert np.bincount([k for use in halves.uses for k in use.sets]).tolist() == [3] * 10
    assert np.bincount([k for use in quarters.uses for k in use.sets]).tolist() == [4] * 5


class Fixed(RegressorMixin, BaseEstimator):
    """Knows its function whatever it is fitted to."""

    def __init__(self, slope=0.0):
        self.slope = slope

    def fit(self, X, y, sample_weight=None):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return self.slope * X[:, 1] + 0.1 * np.sin(self.slope + X[:, 0])


FIXED = [(f"by {slope}", Fixed(slope)) for slope in (0.0, 1.0, 2.0)]


def weights_of(y, *, shared=True, cv=5):
    """Return the weights by split and fold of members that never change."""
    data = Data(read_table(X), read_outcome(y, 40), read_weights(None, 40))
    splits = read_folds(cv, 40, matrix=X, random_state=0)
    of_halves = half_training(splits, data, Seeds(0))
    training = shared_training(splits, (3,))[0] if shared else of_halves
    learner = SuperLearner(members=FIXED)
    return splits, cross_fit(learner, data, training, seeds=Seeds(0))


@pytest.mark.parametrize("shared", [True, False])
def test_outcomes_of_a_fold_do_not_weigh_its_members(shared):
    y = 0.7 * X[:, 1] + 0.1 * Y
    splits, before = weights_of(y, shared=shared)
    for k, fold in enumerate(splits[0]):
        changed = y.copy()
        changed[fold.test] = 5.0 * X[fold.test, 1]
        after = weights_of(changed, shared=shared)[1].weights
        np.testing.assert_allclose(after[0, k], before.weights[0, k], rtol=0, atol=1e-12)
        others = [j for j in range(5) if j != k]
        assert all(np.abs(after[0, j] - before.weights[0, j]).max() > 0.05 for j in others)


def test_models_of_a_fold_have_its_weights():
    splits, found = weights_of(0.7 * X[:, 1] + 0.1 * Y)
    assert len(found.weights) == 5
    place = {int(fold.test[0]): k for k, fold in enumerate(splits[0])}
    for models in found.folds:
        for predictor in models.predictors:
            expected = found.weights[0, place[int(models.test[0])]]
            np.testing.assert_array_equal(predictor.model.weights_, expected)
            assert expected.sum() == pytest.approx(1.0)
            assert (expected >= 0).all()


def test_known_weights_are_taken_and_only_their_members_fitted():
    data = Data(read_table(X), read_outcome(Y, 40), read_weights(None, 40))
    _, quarters = shared_training(read_folds(5, 40, random_state=0), (3,))
    known = {(0, k): np.array([0.25, 0.0, 0.75]) for k in range(5)}
    found = cross_fit(SuperLearner(members=FIXED), data, quarters, seeds=Seeds(0), weights=known)
    for models in found.folds:
        for predictor in models.predictors:
            np.testing.assert_array_equal(predictor.model.weights_, known[0, 0])
            assert predictor.model.estimators_[1] is None


@pytest.mark.parametrize("jobs", [2])
def test_any_number_of_jobs_gives_the_same_bits(jobs):
    members = [("line", LinearRegression()), ("ridge", Ridge(10.0))]
    data = Data(read_table(X), read_outcome(Y, 40), read_weights(None, 40))
    training = shared_training(read_folds(5, 40, random_state=0), (3,))[0]
    alone, together = (
        cross_fit(SuperLearner(members=members), data, training, seeds=Seeds(0), n_jobs=n)
        for n in (None, jobs)
    )
    for key, weights in alone.weights.items():
        np.testing.assert_array_equal(weights, together.weights[key])
    for one, other in zip(alone.folds, together.folds, strict=True):
        for first, second in zip(one.predictors, other.predictors, strict=True):
            np.testing.assert_array_equal(first(X), second(X))


def test_a_single_fold_is_weighed_inside():
    y = 0.7 * X[:, 1] + 0.1 * Y
    _, found = weights_of(y, shared=False, cv=ShuffleSplit(1, test_size=0.3, random_state=0))
    assert not found.weights
    for predictor in found.folds[0].predictors:
        assert predictor.model.n_folds == 3
        assert len(set(predictor.model.weights_.tolist())) > 1


@pytest.mark.filterwarnings("ignore::dfi.warnings.IdentifierWarning")
def test_a_splitter_of_five_folds_goes_the_general_way(monkeypatch):
    monkeypatch.setattr("dfi._models.crossfit.is_default", lambda learner: True)
    learner = SuperLearner(members=FIXED)
    general = prepare(X, Y, estimator=learner, cv=KFold(5))
    assert general.halvings == ()
    assert len(general.halves) == 5
    assert len(general.quarters) == 10
    shared = prepare(X, Y, estimator=learner, cv=5)
    assert shared.halvings == (3,)
    assert len(shared.repeats) == 1
    assert len(shared.halves) == 15
    assert len(shared.quarters) == 10
    assert prepare(X, Y, estimator=learner, cv=5, n_repeats=4).halvings == (3, 1)
    assert prepare(X, Y, estimator=learner, cv=4).halvings == ()
    assert prepare(X, Y, estimator=learner, cv=5, n_repeats=np.int64(2)).halvings == (2,)
    with pytest.raises(ValueError, match="n_repeats must be a whole number of 1 or more, got True"):
        prepare(X, Y, estimator=learner, cv=5, n_repeats=True)


def test_extrapolation_is_for_the_default_learner_and_middling_tables(monkeypatch):
    rows = GENERATOR.standard_normal((200, 2))
    assert prepare(rows, rows[:, 0]).extrapolates
    assert not prepare(rows[:199], rows[:199, 0]).extrapolates
    assert not prepare(rows, rows[:, 0], estimator="linear").extrapolates
    assert not prepare(rows, rows[:, 0], cv=ShuffleSplit(1, random_state=0)).extrapolates
    monkeypatch.setattr("dfi._models.crossfit.MOST_ROWS", 150)
    assert not prepare(rows, rows[:, 0]).extrapolates
    assert prepare(rows, rows[:, 0]).halvings == (1,)
