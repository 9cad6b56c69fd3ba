"""Cross-fitting: who sees which rows, with which seeds and weights."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dfi._data import Data, read_folds, read_outcome, read_table, read_weights
from dfi._models.crossfit import cross_fit, seed_estimator
from dfi._models.seeds import Seeds

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
    return repeats, cross_fit(learner, data, repeats, halves=halves, seeds=Seeds(seed))


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
    cross_fit(Ridge(), data, repeats, halves=False, seeds=Seeds(0), advance=steps.append)
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
