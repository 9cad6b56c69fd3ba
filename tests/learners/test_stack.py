"""The default learner."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.tree import DecisionTreeRegressor

from dfi._data.table import read_table
from dfi._learners import stack
from dfi._learners.boosting import LeastSquaresBoosting
from dfi._learners.quadratic import QuadraticRidge
from dfi._learners.stack import (
    BoostedResiduals,
    MeanOutcome,
    Risk,
    SuperLearner,
    default_members,
    fit_members,
    variance_share,
)
from dfi._lines.choose import Quadrature, line_model
from dfi._models.predictor import predictor_for
from dfi._models.prepare import prepare
from dfi._models.quality import judged
from dfi.datasets import m3

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((150, 3))
Y = X[:, 0] + (X[:, 1] > 0) + 0.3 * GENERATOR.standard_normal(150)
MEMBERS = [
    ("line", LinearRegression()),
    ("tree", DecisionTreeRegressor(max_depth=2, random_state=0)),
]


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_minimise_the_out_of_fold_error_on_the_simplex(weighted):
    weight = GENERATOR.uniform(0.2, 3.0, 150) if weighted else None
    model = SuperLearner(members=MEMBERS, random_state=0).fit(X, Y, sample_weight=weight)
    assert model.weights_.sum() == pytest.approx(1)
    assert np.all(model.weights_ >= 0)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    folds = KFold(3, shuffle=True, random_state=seed)
    params = {} if weight is None else {"sample_weight": weight}
    held_out = np.column_stack(
        [cross_val_predict(member, X, Y, cv=folds, params=params) for _, member in MEMBERS]
    )
    mass = np.ones(150) if weight is None else weight

    def loss(share):
        return mass @ (Y - held_out @ np.array([share, 1 - share])) ** 2

    best = minimize(lambda s: loss(s[0]), [0.5], bounds=[(0, 1)]).x[0]
    assert model.weights_[0] == pytest.approx(best, abs=1e-3)


def test_prediction_is_the_weighted_sum_of_refitted_members():
    model = SuperLearner(members=MEMBERS, random_state=0).fit(X, Y)
    expected = sum(
        share * member.fit(X, Y).predict(X)
        for share, (_, member) in zip(model.weights_, MEMBERS, strict=True)
    )
    assert np.allclose(model.predict(X), expected)


def test_useless_member_is_dropped_and_costs_nothing():
    members = [("line", LinearRegression()), ("flat", Ridge(1e12))]
    model = SuperLearner(members=members, random_state=0).fit(X, 5 * X[:, 0])
    assert model.weights_[0] == pytest.approx(1)
    assert model.estimators_[1] is None
    assert np.allclose(model.predict(X), 5 * X[:, 0])


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_weight_of_rounding_size_is_none(scale, monkeypatch):
    # 0 on some processors, and the last digit of a weight on others
    for left, expected in ((1e-12, 0.0), (1e-6, 1e-6)):
        found = scale * np.array([1.0 - left, left])
        monkeypatch.setattr(stack, "nnls", lambda *_, found=found: (found, 0.0))
        model = SuperLearner(members=MEMBERS, random_state=0).fit(X, Y)
        assert model.weights_.sum() == pytest.approx(1.0, abs=1e-15)
        assert model.weights_[1] == pytest.approx(expected, rel=1e-9, abs=0.0)
        assert (model.estimators_[1] is None) == (expected == 0.0)
        predictor = predictor_for(model, read_table(X), prefit=True)
        rule = line_model(predictor, X[:20], Quadrature()).rule
        assert ("tree" in rule) == (expected > 0.0)


def test_single_member_needs_no_inner_folds():
    model = SuperLearner(members=[("line", LinearRegression())]).fit(X, Y)
    assert np.array_equal(model.weights_, [1.0])
    assert np.allclose(model.predict(X), LinearRegression().fit(X, Y).predict(X))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_weights_do_not_depend_on_the_unit_of_the_outcome(scale):
    plain = SuperLearner(members=MEMBERS, random_state=0).fit(X, Y)
    scaled = SuperLearner(members=MEMBERS, random_state=0).fit(X, scale * Y)
    assert np.allclose(plain.weights_, scaled.weights_, atol=1e-3)


def test_network_beats_boosting_and_boosting_a_forest_on_m3():
    """Of an attainable R2 of 0.81 a forest reaches 0.42, slow boosting 0.53, a network 0.68."""
    sample, fresh = m3(1000, rho=0.2, random_state=1), m3(4000, rho=0.2, random_state=2)
    members = dict(default_members(0))
    boosting = members["boosting"].fit(sample.X, sample.y)
    network = members["network"].fit(sample.X, sample.y)
    forest = RandomForestRegressor(100, min_samples_leaf=5, random_state=0).fit(sample.X, sample.y)
    assert network.score(fresh.X, fresh.y) > 0.65
    assert boosting.score(fresh.X, fresh.y) > 0.5
    assert boosting.score(fresh.X, fresh.y) > forest.score(fresh.X, fresh.y) + 0.05


def test_wide_table_has_no_network_and_keeps_the_other_members():
    wide = GENERATOR.standard_normal((40, 60))
    model = SuperLearner(random_state=0).fit(wide, wide[:, 0])
    names = [name for name, _ in default_members(0)]
    shares = dict(zip(names, model.weights_, strict=True))
    assert shares["network"] == shares["stiff network"] == 0
    assert sum(shares.values()) == pytest.approx(1)


def test_default_stack_finds_the_interactions_of_m3():
    """Of an attainable R2 of 0.81; without the networks the stack reaches 0.52."""
    sample, fresh = m3(800, rho=0.2, random_state=1), m3(4000, rho=0.2, random_state=2)
    assert SuperLearner(random_state=0).fit(sample.X, sample.y).score(fresh.X, fresh.y) > 0.62


def test_small_samples_are_stacked_too():
    model = SuperLearner(random_state=0).fit(X[:12], Y[:12])
    assert np.isfinite(model.predict(X)).all()


def brute_force(first, second, y, mass, step=0.005):
    """Return the weights of three members of least risk on a grid of the simplex."""
    grid = [
        (a, b, 1.0 - a - b)
        for a in np.arange(0.0, 1.0 + step / 2, step)
        for b in np.arange(0.0, 1.0 - a + step / 2, step)
    ]
    W = np.array(grid).T
    a, b = y[:, None] - first @ W, y[:, None] - second @ W
    return grid[int(np.argmin(mass @ (0.5 * a * b + 0.25 * (a**2 + b**2))))]


def two_halves(seed, n=300):
    generator = np.random.default_rng(seed)
    y = generator.standard_normal(n)
    truth = np.column_stack([0.8 * y, 0.5 * y + 0.3, y**2 / 3])
    first, second = (truth + 0.6 * generator.standard_normal((n, 3)) for _ in range(2))
    return y + 0.3 * generator.standard_normal(n), generator.uniform(0.2, 2.0, n), first, second


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_weights_of_three_members_are_those_of_a_search_of_the_simplex(seed):
    y, mass, first, second = two_halves(seed)
    found = Risk.of(y, mass, first, second).weights()
    coarse = brute_force(first, second, y, mass)
    assert np.abs(found - coarse).max() < 0.006  # a step of the grid

    def risk(w):
        a, b = y - first @ w, y - second @ w
        return mass @ (0.5 * a * b + 0.25 * (a**2 + b**2))

    fine = minimize(
        lambda w: risk(np.array([*w, 1 - w.sum()])), coarse[:2], method="SLSQP", tol=1e-12,
        bounds=[(0, 1)] * 2, constraints={"type": "ineq", "fun": lambda w: 1 - w.sum()},
    ).x  # fmt: skip
    assert found[:2] == pytest.approx(fine, abs=1e-3)


def test_risks_of_different_rows_add_up_and_shifts_of_all_do_not_matter():
    y, mass, first, second = two_halves(5)
    whole = Risk.of(y, mass, first, second).weights()
    shifted = Risk.of(y + 1e4, mass, first + 1e4, second + 1e4).weights()
    assert shifted == pytest.approx(whole, abs=1e-6)
    halves = [Risk.of(*(part[k::2] for part in (y, mass, first, second))) for k in range(2)]
    together = halves[0] + halves[1]
    # every part is centred at its own mean, which weights that sum to 1 do not see
    assert together.weights() == pytest.approx(whole, abs=1e-3)


def test_cross_risk_prefers_what_is_not_biased():
    """A member that shrinks beside one that is right on average, and varies."""
    generator = np.random.default_rng(3)
    y = generator.standard_normal(2000)
    halves = [
        np.column_stack([0.6 * y, y + 0.8 * generator.standard_normal(2000)]) for _ in range(2)
    ]
    mass = np.ones(2000)
    cross = Risk.of(y, mass, *halves).weights()
    squared = Risk.of(y, mass, halves[0], halves[0]).weights()
    assert cross[1] > squared[1] + 0.1


def test_useless_risks_weigh_all_alike():
    flat = Risk(np.zeros(3), np.zeros((3, 3)))
    assert flat.weights() == pytest.approx([1 / 3] * 3)
    assert Risk(np.zeros(2), np.full((2, 2), np.nan)).weights() == pytest.approx([0.5, 0.5])
    same = Risk.of(Y, np.ones(150), X[:, [0, 0]], X[:, [0, 0]]).weights()
    assert same.sum() == pytest.approx(1.0)
    assert (same >= 0).all()


class Counted(QuadraticRidge):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        Counted.fits += 1
        return super().fit(X, y, sample_weight)


def shared_members():
    base, boosting = Counted(), LeastSquaresBoosting(n_trees=5)
    return [
        ("base", base),
        ("boosting", boosting),
        ("after", BoostedResiduals(base=base, boosting=boosting)),
    ]


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 150)])
def test_a_base_that_members_share_is_fitted_once(monkeypatch, weight):
    monkeypatch.setattr(Counted, "fits", 0)
    members = shared_members()
    fitted = fit_members(members, X, Y, weight, [True] * 3)
    assert Counted.fits == 1
    assert fitted[2].base_ is fitted[0]
    alone = BoostedResiduals(base=QuadraticRidge(), boosting=LeastSquaresBoosting(n_trees=5))
    expected = alone.fit(X, Y, weight).predict(X)
    np.testing.assert_allclose(fitted[2].predict(X), expected, rtol=0, atol=1e-12)
    assert fit_members(members, X, Y, weight, [False, True, False])[::2] == [None, None]


def test_parts_are_merged_and_predictions_are_the_weighted_sum():
    members = shared_members()
    model = SuperLearner(members=members, n_folds=0).fit(X, Y)
    assert model.weights_ == pytest.approx([1 / 3] * 3)
    weighted = model.with_weights(np.array([0.2, 0.3, 0.5]))
    each = weighted.member_predictions(X)
    np.testing.assert_allclose(weighted.predict(X), each @ [0.2, 0.3, 0.5], atol=1e-12)
    parts = weighted.parts()
    assert sorted(share for share, _ in parts) == pytest.approx([0.3, 0.5, 0.7])
    assert parts[0][1] is model.estimators_[0]
    total = sum(share * part.predict(X) for share, part in parts)
    np.testing.assert_allclose(weighted.predict(X), total, atol=1e-12)
    fewer = model.with_weights(np.array([0.0, 0.0, 1.0]))
    assert fewer.estimators_[0] is fewer.estimators_[1] is None
    assert np.isnan(fewer.member_predictions(X)[:, :2]).all()
    np.testing.assert_allclose(fewer.predict(X), each[:, 2], atol=1e-12)
    # the one that was weighed is left as it was
    assert model.weights_ == pytest.approx([1 / 3] * 3)
    assert all(member is not None for member in model.estimators_)


def test_only_some_members_are_fitted():
    model = SuperLearner(members=MEMBERS, n_folds=0, only=(1,)).fit(X, Y)
    assert model.weights_.tolist() == [0.0, 1.0]
    assert model.estimators_[0] is None


def test_boosting_goes_on_from_held_out_residuals():
    model = BoostedResiduals(base=QuadraticRidge(), boosting=LeastSquaresBoosting()).fit(X, Y)
    left = model.base_.held_out_residuals_
    expected = model.base_.predict(X) + LeastSquaresBoosting().fit(X, left).predict(X)
    np.testing.assert_allclose(model.predict(X), expected, rtol=0, atol=1e-12)
    assert model.suits(200, 6)
    assert not model.suits(200, 61)


def test_where_nothing_can_be_learned_the_mean_is_what_is_left():
    generator = np.random.default_rng(3)
    rows, y = generator.standard_normal((400, 4)), 5.0 + generator.standard_normal(400)
    model = SuperLearner(random_state=0).fit(rows, y)
    assert np.std(model.predict(generator.standard_normal((1000, 4)))) < 0.2
    mean = MeanOutcome().fit(rows, y, np.arange(400.0))
    np.testing.assert_allclose(mean.predict(rows[:3]), np.average(y, weights=np.arange(400.0)))
    rate = MeanOutcome(family="poisson").fit(rows, np.zeros(400))
    assert 0.0 < rate.predict(rows[:1])[0] < 0.01


def test_variance_counts_for_more_where_rows_are_few():
    assert [variance_share(rows) for rows in (0, 20, 40, 50, 80, 5000)] == [1, 1, 1, 0.8, 0.5, 0.5]
    generator = np.random.default_rng(4)
    signal, mass = generator.standard_normal(2000), np.ones(2000)
    y = signal + generator.standard_normal(2000)
    # one member is biased and steady, the other unbiased and noisy, anew in each half
    first, second = (
        np.column_stack([0.5 * signal, signal + generator.standard_normal(2000)]) for _ in range(2)
    )
    noisy = [Risk.of(y, mass, first, second, share).weights()[1] for share in (0.0, 0.5, 1.0)]
    assert noisy[0] > 0.9
    assert noisy[0] > noisy[1] + 0.1 > noisy[2] + 0.2
    # the mean loss of weight v on the noisy one is (1 - v)^2 / 4 + share v^2 and the noise
    np.testing.assert_allclose(noisy, [1.0, 1 / 3, 1 / 5], atol=0.08)


def test_a_category_of_noise_does_not_cost_a_small_table_its_fit():
    generator = np.random.default_rng(5)
    X = pd.DataFrame({"a": generator.standard_normal(90), "b": generator.standard_normal(90)})
    y = X["a"] + 0.7 * X["b"] + generator.standard_normal(90)
    X["noise"] = pd.Categorical(generator.integers(20, size=90).astype(str))
    fits = prepare(X, y, random_state=0)
    found = [
        (fold.test, np.mean([p(fits.data.matrix[fold.test]) for p in fold.predictors], axis=0))
        for fold in fits.halves
    ]
    # of an attainable .6
    assert judged(fits, found).r2 > 0.35
