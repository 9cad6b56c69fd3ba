"""The default learner for classes, counts and positive quantities: members, weights, edges."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
)
from sklearn.preprocessing import StandardScaler

from dfi._learners.families import Link
from dfi._learners.glm import LinkedQuadratic, LinkedRidge
from dfi._learners.linked import BoostedMargins, LinkedBoosting, LinkedNetwork
from dfi._learners.stack import (
    VARIANCE_SHARE,
    LossRisk,
    Risk,
    SuperLearner,
    default_members,
    family_members,
    risk_of,
)
from dfi._models.crossfit import is_default
from dfi._models.learners import resolve_learner
from dfi._threads import thread_pools
from dfi.losses import BRIER, GAMMA, LOG_LOSS, POISSON

FAMILIES = ("bernoulli", "poisson", "gamma")
LOSSES = {"bernoulli": LOG_LOSS, "poisson": POISSON, "gamma": GAMMA}


def table(n=250, p=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)), rng


def outcome(family, margin, rng):
    if family == "bernoulli":
        return (rng.random(len(margin)) < 1.0 / (1.0 + np.exp(-margin))).astype(float)
    if family == "poisson":
        return rng.poisson(np.exp(margin)).astype(float)
    return np.exp(margin) * rng.gamma(3.0, 1.0 / 3.0, len(margin))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_ridge_is_that_of_scikit_learn_at_the_same_penalty(family, weighted):
    X, rng = table()
    X = StandardScaler().fit_transform(X)
    y = outcome(family, X[:, 0] - 0.5 * X[:, 1], rng)
    weight = rng.random(len(y)) + 0.5 if weighted else np.ones(len(y))
    weight /= weight.mean()
    ours = LinkedRidge(family=family, penalty=4.0).fit(X, y, weight)
    if family == "bernoulli":
        theirs = LogisticRegression(C=0.25, tol=1e-12, max_iter=10_000)
    else:
        kind = PoissonRegressor if family == "poisson" else GammaRegressor
        theirs = kind(alpha=4.0 / len(y), tol=1e-12, max_iter=10_000)
    theirs.fit(X, y, sample_weight=weight)
    # ours penalises standardised columns, so with weights the two differ by their deviations
    if weighted:
        deviation = np.sqrt(np.average((X - np.average(X, axis=0, weights=weight)) ** 2, axis=0,
                                       weights=weight))  # fmt: skip
        theirs = clone(theirs).fit(X / deviation, y, sample_weight=weight)
        assert np.allclose(ours.coefficients_ * deviation, theirs.coef_.ravel(), atol=1e-6)
    else:
        assert np.allclose(ours.coefficients_, theirs.coef_.ravel(), atol=1e-6)
    assert np.isclose(ours.intercept_, np.ravel(theirs.intercept_)[0], atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_margins_of_rows_left_out_are_nearly_those_of_a_refit(family):
    X, rng = table(80, 3)
    y = outcome(family, X[:, 0], rng)
    model = LinkedRidge(family=family, penalty=2.0).fit(X, y)
    for i in range(0, 80, 8):
        rest = np.arange(80) != i
        # standardised alike, and the scale of weights with 79 rows is theirs
        alone = LinkedRidge(family=family, penalty=2.0).fit(X, y, rest.astype(float))
        kept = model.margin(X[[i]])[0]
        moved = alone.margin(X[[i]])[0] - kept
        assert abs(model.held_out_margins_[i] - kept - moved) < 0.35 * abs(moved) + 0.01


def test_the_quadratic_margin_is_the_ridge_of_all_terms():
    X, rng = table(300, 3)
    y = outcome("bernoulli", X[:, 0] + X[:, 1] * X[:, 2], rng)
    model = LinkedQuadratic(penalty=3.0).fit(X, y)
    Z = StandardScaler().fit_transform(X)
    first, second = np.triu_indices(3)
    products = Z[:, first] * Z[:, second]
    size = np.where(first == second, products.std(axis=0), np.maximum(1.0, products.std(axis=0)))
    products = products - LinearRegression().fit(Z, products).predict(Z)
    terms = np.hstack([2.0 * Z, products / size])
    theirs = LogisticRegression(C=1.0 / 3.0, tol=1e-12, max_iter=10_000).fit(terms, y)
    assert np.allclose(model.predict(X), theirs.predict_proba(terms)[:, 1], atol=1e-6)


def test_more_terms_than_rows_are_fitted_through_their_principal_directions():
    X, rng = table(40, 60)
    y = outcome("bernoulli", X[:, 0], rng)
    Z = StandardScaler().fit_transform(X)
    ours = LinkedRidge(penalty=5.0).fit(X, y)
    theirs = LogisticRegression(C=0.2, tol=1e-12, max_iter=10_000).fit(Z, y)
    assert np.allclose(ours.predict(X), theirs.predict_proba(Z)[:, 1], atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_boosting_makes_the_newton_steps_of_a_slow_twin(family):
    X, rng = table(120, 1)
    y = outcome(family, np.where(X[:, 0] > 0.3, 1.0, -0.5), rng)
    model = LinkedBoosting(family=family, n_trees=3, max_leaves=2).fit(X, y)
    link = Link(family)
    margin = np.full(len(y), link.null(y, np.ones(len(y)))[0])
    for _ in range(3):
        mean = link.mean(margin)
        pull, curvature = link.pull(y, mean), link.curvature(mean)
        best = -np.inf
        for cut in np.sort(X[:, 0])[5:-5]:
            left = X[:, 0] <= cut
            if left.sum() < 5 or (~left).sum() < 5:
                continue
            parts = [(pull[side].sum(), curvature[side].sum(), side) for side in (left, ~left)]
            gain = sum(g**2 / h for g, h, _ in parts)
            if gain > best:
                best, chosen = gain, parts
        for g, h, side in chosen:
            margin[side] += 0.1 * np.clip(g / h, -2.5, 2.5)
    # bins are coarser than values: the twin's cut is among ours only if its bin ends there
    assert np.abs(model.margin(X) - margin).mean() < 0.03


def test_boosting_goes_on_from_margins_of_rows_left_out():
    X, rng = table(300, 3)
    y = outcome("bernoulli", X[:, 0] * X[:, 1] + 2.0 * (X[:, 2] > 0), rng)
    model = BoostedMargins(base=LinkedQuadratic(), boosting=LinkedBoosting()).fit(X, y)
    both = model.base_.margin(X) + model.boosting_.margin(X)
    assert np.allclose(model.predict(X), 1.0 / (1.0 + np.exp(-both)))
    assert model.boosting_.intercept_ == 0.0
    held_out = LOG_LOSS.of(y, 1.0 / (1.0 + np.exp(-model.base_.held_out_margins_))).mean()
    assert held_out > LOG_LOSS.of(y, model.base_.predict(X)).mean()


EDGES = {
    "separable": ("bernoulli", lambda X, rng: (X[:, 0] > 0).astype(float)),
    "all 0": ("bernoulli", lambda X, rng: np.zeros(len(X))),
    "all 1": ("bernoulli", lambda X, rng: np.ones(len(X))),
    "one of them": ("bernoulli", lambda X, rng: np.eye(len(X))[3]),
    "rare": ("bernoulli", lambda X, rng: (rng.random(len(X)) < 0.03).astype(float)),
    "no counts": ("poisson", lambda X, rng: np.zeros(len(X))),
    "large counts": ("poisson", lambda X, rng: rng.poisson(1e5 * np.exp(X[:, 0])).astype(float)),
    "few counts": ("poisson", lambda X, rng: rng.poisson(0.02, len(X)).astype(float)),
    "steep counts": ("poisson", lambda X, rng: rng.poisson(np.exp(3 * X[:, 0])).astype(float)),
    "heavy tails": ("gamma", lambda X, rng: np.exp(5.0 * rng.standard_normal(len(X)))),
    "small unit": ("gamma", lambda X, rng: 1e-8 * rng.gamma(2.0, 1.0, len(X))),
    "constant": ("gamma", lambda X, rng: np.full(len(X), 3.0)),
}


@pytest.mark.parametrize("name", EDGES)
def test_predictions_stay_inside_their_domain_at_the_edges(name):
    family, make = EDGES[name]
    X, rng = table(150, 4)
    y = make(X, rng)
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        model = SuperLearner(family=family, loss=LOSSES[family], random_state=0).fit(X, y)
        for rows in (X, 30.0 * X, -1e4 * X):
            for member in model.estimators_:
                if member is not None:
                    check_domain(family, member.predict(rows))
            check_domain(family, model.predict(rows))
    assert np.isclose(model.weights_.sum(), 1.0)


def check_domain(family, values):
    assert np.isfinite(values).all()
    assert values.min() > 0.0
    if family == "bernoulli":
        assert values.max() < 1.0


def test_many_columns_and_few_rows():
    X, rng = table(300, 64)
    y = outcome("bernoulli", 2.0 * X[:, 0], rng)
    model = SuperLearner(family="bernoulli", loss=LOG_LOSS, random_state=0).fit(X, y)
    # polynomials of 64 columns sit out
    assert [member is None for member in model.estimators_][1]
    new, rng = table(1000, 64, seed=1)
    target = outcome("bernoulli", 2.0 * new[:, 0], rng)
    assert LOG_LOSS.of(target, model.predict(new)).mean() < 0.55


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_of_weight_two_is_a_row_given_twice_and_one_of_weight_0_is_none(family):
    X, rng = table(90, 3)
    y = outcome(family, X[:, 0], rng)
    weight = rng.integers(0, 3, len(y)).astype(float)
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    for member in (
        LinkedRidge(family=family, penalty=3.0),
        LinkedQuadratic(family=family, penalty=3.0),
        LinkedBoosting(family=family, min_rows=1, n_trees=10),
    ):
        by_weight = clone(member).fit(X, y, sample_weight=weight)
        by_rows = clone(member).fit(X[repeated], y[repeated])
        if isinstance(member, LinkedBoosting):
            # leaves count rows, not weights
            assert np.corrcoef(by_weight.predict(X), by_rows.predict(X))[0, 1] > 0.98
            continue
        # the penalty is in units of the mean weight
        scaled = clone(member).set_params(penalty=3.0 * (weight > 0).sum() / weight.sum())
        by_weight = scaled.fit(X, y, sample_weight=weight)
        assert np.allclose(by_weight.predict(X), by_rows.predict(X), rtol=1e-6)


@pytest.mark.parametrize("loss", [LOG_LOSS, BRIER])
def test_the_best_member_gets_the_weight(loss):
    rng = np.random.default_rng(0)
    truth = rng.random(4000)
    y = (rng.random(4000) < truth).astype(float)
    noise = rng.standard_normal((2, 4000))
    margin = np.log(truth / (1.0 - truth))
    first, second = (
        np.column_stack(
            [
                truth,
                1.0 / (1.0 + np.exp(-0.3 * margin)),
                np.full(4000, 0.5),
                1.0 / (1.0 + np.exp(-margin - 2.0 * shift)),
            ]
        )
        for shift in noise
    )
    weights = risk_of(loss, y, np.ones(4000), first, second).weights()
    assert weights[0] > 0.85
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_minimise_the_risk_that_they_are_said_to(family):
    X, rng = table(600, 3)
    margin = X[:, 0] + 0.7 * X[:, 1] * X[:, 2]
    y, loss = outcome(family, margin, rng), LOSSES[family]
    members = [LinkedRidge(family=family), LinkedQuadratic(family=family),
               LinkedBoosting(family=family)]  # fmt: skip
    first, second = (
        np.column_stack([clone(m).fit(X[part], y[part]).predict(X[400:]) for m in members])
        for part in (slice(0, 200), slice(200, 400))
    )
    mass = rng.random(200) + 0.5
    risk = LossRisk(loss, y[400:], mass, first, second)

    def by_hand(weights):
        a, b = first @ weights, second @ weights
        each = (1.0 - VARIANCE_SHARE) * loss.of_two(y[400:], a, b)
        each = each + 0.5 * VARIANCE_SHARE * (loss.of(y[400:], a) + loss.of(y[400:], b))
        return float(mass @ each)

    weights = risk.weights()
    assert np.isclose(risk.at(weights), by_hand(weights))
    other = minimize(
        lambda w: by_hand(w) / mass.sum(), np.full(3, 1 / 3), method="SLSQP", bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0}, options={"ftol": 1e-12},
    )  # fmt: skip
    assert by_hand(weights) <= by_hand(other.x / other.x.sum()) + 1e-6 * mass.sum()
    parts = [LossRisk(loss, y[400:][s], mass[s], first[s], second[s])
             for s in (slice(0, 80), slice(80, None))]  # fmt: skip
    assert np.allclose((parts[0] + parts[1]).weights(), weights, atol=1e-6)


def test_a_square_is_weighed_by_its_quadratic_form():
    rng = np.random.default_rng(0)
    y = (rng.random(100) < 0.5).astype(float)
    members = rng.random((100, 3))
    found = risk_of(BRIER, y, np.ones(100), members, members)
    assert isinstance(found, Risk)
    assert np.array_equal(
        found.weights(), risk_of(None, y, np.ones(100), members, members).weights()
    )


def test_the_same_bits_for_any_number_of_threads_and_again():
    X, rng = table(200, 4)
    y = outcome("bernoulli", X[:, 0] + X[:, 1] * X[:, 2], rng)
    learner = SuperLearner(family="bernoulli", loss=LOG_LOSS, random_state=3)
    one = clone(learner).fit(X, y).predict(X)
    with thread_pools().limit(limits=1):
        again = clone(learner).fit(X, y).predict(X)
    assert np.array_equal(one, again)
    other = clone(learner).set_params(random_state=4).fit(X, y).predict(X)
    assert not np.array_equal(one, other)


def test_the_gaussian_family_is_the_learner_without_families():
    X, rng = table(150, 4)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(150)
    named = SuperLearner(family="gaussian", random_state=0).fit(X, y)
    plain = SuperLearner(random_state=0).fit(X, y)
    assert np.array_equal(named.predict(X), plain.predict(X))
    by_hand = SuperLearner(
        members=default_members(int(np.random.RandomState(0).randint(2**31 - 1))), random_state=0
    ).fit(X, y)
    assert np.array_equal(by_hand.predict(X), plain.predict(X))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_stack_predicts_better_than_the_mean_and_finds_products(family):
    X, rng = table(500, 4)
    new, _ = table(2000, 4, seed=9)
    margins = [0.8 * rows[:, 0] + 0.8 * rows[:, 1] * rows[:, 2] for rows in (X, new)]
    y, target = (outcome(family, margin, rng) for margin in margins)
    loss = LOSSES[family]
    model = SuperLearner(family=family, loss=loss, random_state=0).fit(X, y)
    null = loss.of(target, np.full(2000, y.mean())).mean()
    best = loss.of(target, Link(family).mean(margins[1])).mean()
    own = loss.of(target, model.predict(new)).mean()
    straight = loss.of(target, LinkedRidge(family=family).fit(X, y).predict(new)).mean()
    assert best < own < null
    assert own < straight
    assert (null - own) / (null - best) > 0.6


def test_names_stand_for_learners_of_the_family():
    auto = resolve_learner("auto", "bernoulli", LOG_LOSS)
    assert is_default(auto)
    assert (auto.family, auto.loss) == ("bernoulli", LOG_LOSS)
    assert isinstance(resolve_learner("boosting", "bernoulli"), HistGradientBoostingClassifier)
    assert isinstance(resolve_learner("forest", "bernoulli"), RandomForestClassifier)
    assert isinstance(resolve_learner("extra_trees", "bernoulli"), ExtraTreesClassifier)
    assert isinstance(resolve_learner("forest", "poisson"), RandomForestRegressor)
    boosting = resolve_learner("boosting", "gamma")
    assert isinstance(boosting, HistGradientBoostingRegressor)
    assert boosting.loss == "gamma"
    for family in FAMILIES:
        for name in ("linear", "ridge"):
            learner = resolve_learner(name, family)
            assert [member for member, _ in learner.members] == [name]
            assert isinstance(learner.members[0][1], LinkedRidge)
        with pytest.raises(ValueError, match=r"unknown estimator 'ridges'"):
            resolve_learner("ridges", family)
    assert is_default(resolve_learner("auto"))


def test_a_hardly_penalised_logistic_regression_is_that_of_scikit_learn():
    X, rng = table()
    y = outcome("bernoulli", X[:, 0], rng)
    ours = resolve_learner("linear", "bernoulli").fit(X, y)
    theirs = LogisticRegression(C=1e6, tol=1e-10, max_iter=10_000).fit(X, y)
    assert np.allclose(ours.predict(X), theirs.predict_proba(X)[:, 1], atol=1e-4)


def test_networks_of_a_likelihood_follow_their_gradient():
    X, rng = table(60, 2)
    for family in FAMILIES:
        y = outcome(family, X[:, 0], rng)
        model = LinkedNetwork(family=family, n_units=8, random_state=0).fit(X, y)
        null = LOSSES[family].of(y, np.full(60, y.mean())).mean()
        assert LOSSES[family].of(y, model.predict(X)).mean() < null


def test_members_have_the_same_places_in_every_family():
    names = [name for name, _ in family_members("bernoulli", 0)]
    assert names == [name for name, _ in family_members("gamma", 0)]
    assert set(names) <= {name for name, _ in default_members(0)}
