"""explain, compare and sensitivity read the data once and fit each model once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import TimeSeriesSplit

import dfi
from dfi.methods import LOCO, Disentangled, prepare


class Counting(RegressorMixin, BaseEstimator):
    """Least squares that counts its fits."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        Counting.fits += 1
        self.model_ = LinearRegression().fit(X, y, sample_weight)
        return self

    def predict(self, X):
        return self.model_.predict(X)


def table(seed: int, n: int = 80, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d)) @ generator.standard_normal((d, d))
    return X, X[:, 0] + generator.standard_normal(n)


def counted(call) -> int:
    Counting.fits = 0
    call()
    return Counting.fits


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    estimator=st.sampled_from(["linear", "ridge"]),
    weighted=st.booleans(),
    random_state=st.integers(0, 3),
    n_folds=st.integers(2, 4),
)
def test_explain_is_compare_with_one_method(seed, estimator, weighted, random_state, n_folds):
    X, y = table(seed)
    shared = {
        "estimator": estimator, "cv": n_folds, "random_state": random_state,
        "sample_weight": np.random.default_rng(seed).uniform(0.5, 2, len(y)) if weighted else None,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
        alone = dfi.explain(X, y, diagnose=False, **shared)
        among = dfi.compare(X, y, ["loco", Disentangled(diagnose=False)], **shared)["dfi"]
    for first, second in ((alone, among), (alone.latent, among.latent)):
        assert np.array_equal(first.influence, second.influence)
        assert np.array_equal(first.scores, second.scores)
        assert np.array_equal(first.se, second.se)
        assert first.spec == second.spec
    assert alone.quality == among.quality


def test_one_method_is_explain_to_the_last_bit_with_its_diagnostics():
    X, y = table(1)
    alone = dfi.explain(X, y, "linear")
    among = dfi.compare(X, y, ["dfi"], estimator="linear")["dfi"]
    assert np.array_equal(alone.influence, among.influence)
    assert dict(alone.diagnostics) == dict(among.diagnostics)


# a blur of epsilon = 1 leaves less than half of what is explained, and says so
@pytest.mark.filterwarnings("ignore:the scores add up to only:dfi.warnings.ImplausibleScoreWarning")
def test_nothing_is_fitted_twice():
    X, y = table(2)
    learner = Counting()
    alone = counted(lambda: dfi.explain(X, y, learner))
    assert alone == 10
    assert counted(lambda: dfi.explain(X, y, learner, form="loco")) == 5
    assert counted(lambda: dfi.compare(X, y, ["dfi"], estimator=learner)) == alone
    # 5 full models and 5 for each of 3 columns
    loco = counted(lambda: dfi.compare(X, y, ["loco"], estimator=learner))
    assert loco == 20
    both = counted(lambda: dfi.compare(X, y, ["dfi", "loco"], estimator=learner))
    assert both == alone + loco
    shared = counted(
        lambda: dfi.compare(X, y, [Disentangled(form="loco"), "loco"], estimator=learner)
    )
    assert shared == loco
    grid = counted(lambda: dfi.sensitivity(X, y, learner, epsilons=[0.0, 0.5, 1.0]))
    assert grid == alone


def test_settings_do_not_depend_on_those_before_them():
    X, y = table(3, n=60)
    pair = dfi.sensitivity(
        X, y, "linear", transports=["copula", dfi.transports.Gaussian(epsilon=0.5)]
    )
    alone = dfi.explain(X, y, "linear", transport=dfi.transports.Gaussian(epsilon=0.5))
    assert np.array_equal(list(pair.values())[1].scores, alone.scores)


def test_methods_can_be_computed_from_prepared_fits():
    X, y = table(4)
    fits = prepare(X, y, estimator="linear", cv=3)
    part = LOCO().compute(fits)["loco"]
    expected = dfi.compare(X, y, ["loco"], estimator="linear", cv=3)["loco"]
    assert np.array_equal(part.influence, expected.influence)


@pytest.mark.parametrize("methods", [["dfi"], ["loco"], ["dfi", "loco", "pfi"]])
def test_a_constant_column_warns_once(methods):
    X, y = table(5)
    X = np.column_stack([X, np.ones(len(y))])
    with pytest.warns(dfi.warnings.ConstantColumnWarning) as found:
        dfi.compare(X, y, methods, estimator="linear")
    assert len([w for w in found if w.category is dfi.warnings.ConstantColumnWarning]) == 1


@pytest.mark.parametrize("methods", [["dfi"], ["loco"], ["pfi", "dfi"]])
def test_a_column_constant_among_the_explained_rows_scores_0_in_every_method(methods):
    X, y = table(6, n=100)
    late = np.where(np.arange(100) < 15, np.random.default_rng(0).standard_normal(100), 0.0)
    X = np.column_stack([X, late])
    with pytest.warns(
        dfi.warnings.ConstantColumnWarning, match="among the rows that are explained"
    ):
        found = dfi.compare(X, y, methods, estimator="linear", cv=TimeSeriesSplit(4))
    for result in found.values():
        assert result.scores[3] == 0
        assert np.isnan(result.se[3])
