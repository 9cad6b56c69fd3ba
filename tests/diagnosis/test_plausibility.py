"""Totals against the variance, and fidelity: right where theory knows them, alarms where not."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import dfi
from dfi._data.weights import Weights
from dfi._diagnosis.fidelity import Fidelity, _orders, model_fidelity
from dfi._diagnosis.totals import Totals, above_variance, score_totals, sum_of_scores
from dfi.warnings import DFIWarning, ImplausibleScoreWarning, TransportWarning

SEED = np.random.SeedSequence(1)


def ones(n):
    return Weights(np.ones(n), "frequency")


def totals(**changes):
    plain = {
        "total": 1.0, "total_se": 0.05, "explained": 1.0, "explained_se": 0.05, "variance": 1.5,
        "of_variance": 2 / 3, "of_explained": 1.0, "latent_total": 1.0, "latent_total_se": 0.05,
        "order": 1.0, "n_latent": 4, "above_variance": (),
    }  # fmt: skip
    return Totals(**{**plain, **changes})


@pytest.mark.parametrize("order", [1, 2, 3])
def test_sum_of_latent_scores_over_the_variance_is_the_order_of_interaction(order):
    """A product of ``order`` independent columns is one interaction of that order."""
    generator = np.random.default_rng(0)
    X = generator.choice([-1.0, 1.0], size=(4000, 4)) * generator.uniform(0.5, 1.5, (4000, 4))

    def product(rows):
        return np.prod(rows[:, :order], axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
        result = dfi.explain(X, product(X), product, cv="prefit")
    found = result.diagnostics["totals"]
    assert found["order"] == pytest.approx(order, abs=0.1)
    assert found["of_explained"] == pytest.approx(order, abs=0.1)
    assert found["doubtful"] is (order == 3)
    assert not found["impossible"]
    assert found["above_variance"] == ()
    assert any(reason.kind == "sum" for reason in result.trust.reasons) is (order == 3)


def test_totals_are_those_of_the_result():
    sample = dfi.datasets.m1(300, d=3)
    result = dfi.explain(sample.X, sample.y, estimator="linear", cv=3)
    found = result.diagnostics["totals"]
    assert found["total"] == pytest.approx(result.total.value)
    assert found["total_se"] == pytest.approx(result.total.se)
    assert found["variance"] == pytest.approx(result.quality.outcome_variance)
    assert found["of_explained"] == pytest.approx(found["total"] / found["explained"])
    assert found["of_explained"] == pytest.approx(result.total.value / result.explained.value)


def test_bounds_are_missed_by_two_errors_before_it_is_said():
    assert not totals().doubtful
    assert not totals(latent_total=2.1).doubtful
    assert totals(latent_total=2.4).doubtful
    assert not totals(latent_total=2.4).impossible
    assert totals(latent_total=5.0).impossible
    assert not totals(latent_total=5.0, latent_total_se=1.0).impossible
    assert not totals(latent_total=5.0, explained=-0.1).impossible
    assert totals(total=0.2).low
    assert not totals(total=0.45).low
    assert not totals(total=-2.0, explained=-2.0).low  # worse than the mean: nothing is explained


def test_score_above_the_variance_is_named():
    generator = np.random.default_rng(0)
    y = generator.standard_normal(400)
    influence = np.column_stack([2.0 + 0.1 * y, 1.05 + y, 0.3 + y])
    found = score_totals(
        influence, influence, np.column_stack([y**2, 0.8 * y**2]), "abc", ones(400), n_latent=3
    )
    assert found.above_variance == ("a",)


@pytest.mark.parametrize(
    ("changes", "severity", "words"),
    [
        ({}, "note", "the scores add up to 1.00 times the variance that the regression explains"),
        (
            {"latent_total": 9.0, "order": 9.0},
            "distrust",
            "9 times the variance that the regression explains, more than interactions of all 4",
        ),
        ({"latent_total": 2.6, "order": 2.6}, "distrust", "interactions of more than 2 of them"),
        (
            {"total": 0.02},
            "distrust",
            "add up to only 2 % of the variance that the regression explains. The models disagree",
        ),
        ({"interaction": 0.0, "latent_total": 1.4}, "distrust", "Without interactions they must"),
        ({"square": False, "total": 9.0}, "care", "counted several times"),
    ],
)
def test_words_of_the_sum(changes, severity, words):
    found = sum_of_scores(totals(**changes), dfi.transports.Gaussian(), "cross", straight=True)
    assert words in found.text
    assert found.severity == severity


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("mnth",), "'mnth' scores more than the outcome's variance. No feature can carry that"),
        (("a", "b"), "'a' and 'b' score more than the outcome's variance"),
    ],
)
def test_words_of_scores_above_the_variance(names, words):
    found = above_variance(totals(above_variance=names), dfi.transports.Gaussian(), straight=True)
    assert found.text.startswith(words)
    assert found.about == names
    assert above_variance(totals(), dfi.transports.Gaussian(), straight=True) is None


def test_curved_and_blurred_transports_are_told_apart():
    curved = above_variance(
        totals(above_variance=("x",)), dfi.transports.KnotheRosenblatt(), straight=False
    )
    assert "weighs scores by the slopes" in curved.text
    entropic = dfi.transports.EntropicOT(epsilon=5.0)
    blurred = sum_of_scores(totals(total=0.1), entropic, "cross", straight=False)
    assert "epsilon = 5 blurs the rows" in blurred.text
    assert blurred.severity == "care"


def test_curves_that_stretch_scores_are_said():
    """Latent scores add up; attributed ones, weighed by slopes, do not."""
    knothe = dfi.transports.KnotheRosenblatt()
    said = sum_of_scores(totals(total=20.0, of_explained=20.0), knothe, "cross", straight=False)
    assert said.severity == "distrust"
    assert "20 times the variance that the regression explains, because transport=" in said.text


def test_gross_sums_are_said_whatever_their_errors():
    wide = {"total_se": 3.0, "latent_total_se": 3.0}
    assert totals(total=4.5, latent_total=4.5, **wide).doubtful
    assert totals(total=0.2, latent_total=0.2, **wide).low
    assert not totals(total=3.0, latent_total=3.0, **wide).doubtful
    # where nothing is explained for sure the outcome's variance is the bound
    assert totals(total=4.0, explained=0.05, **wide).doubtful
    assert not totals(total=1.4, explained=0.05, **wide).doubtful


def test_errors_that_sum_and_explained_share_do_not_hide_a_sum():
    """A sum of a third of what is explained, with half an error each, that go together."""
    apart = totals(total=0.33, total_se=0.1, explained_se=0.3)
    assert not apart.low
    assert replace(apart, covariance=0.03).low


@pytest.mark.parametrize(
    ("order", "interaction", "grade"),
    [(1.14, 0.0, "note"), (1.16, 0.0, "care"), (0.84, 0.0, "care"), (1.16, 0.05, "note"),
     (1.35, 0.05, "care")],
)  # fmt: skip
def test_a_sum_that_is_far_off_limits_a_result_by_its_size_though_it_is_not_sure(
    order, interaction, grade
):
    """Interactions of the model account for 3 times what the probe sees of them."""
    found = totals(
        total=order, latent_total=order, order=order, interaction=interaction,
        latent_total_se=0.5, total_se=0.5,
    )  # fmt: skip
    assert not found.unaccounted
    said = sum_of_scores(found, dfi.transports.Gaussian(), "cross", straight=True)
    assert said.severity == grade
    # where the model's interactions are not known, or hardly anything is explained, nothing is said
    assert not replace(found, interaction=None).astray
    assert not replace(found, explained_se=0.6).astray


def correlated(n, d, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d)) + generator.standard_normal((n, 1))
    return X, X[:, 0] - X[:, 1] + 0.5 * generator.standard_normal(n)


def wrong(share):
    """Return a transport whose correlations are shrunken towards 0."""
    return dfi.transports.Gaussian(shrinkage=share)


@pytest.mark.parametrize("learner", ["linear", "ridge", Ridge(1.0)])
def test_additive_models_on_wrong_correlations_are_not_blamed_for_interactions(learner):
    X, y = correlated(300, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = dfi.explain(X, y, learner, transport=wrong(0.6), cv=2)
    (text,) = [str(w.message) for w in caught if w.category is ImplausibleScoreWarning]
    assert "Without interactions they must add up to all" in text
    assert "takes interactions" not in text
    found = result.diagnostics["totals"]
    assert found["additive"]
    assert found["unaccounted"]


def test_margin_of_a_logistic_regression_is_additive():
    X, y = correlated(400, 4)
    model = LogisticRegression().fit(X, y > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ImplausibleScoreWarning)
        right = dfi.explain(X, y > 0, model, cv="prefit", scale="margin")
    assert right.diagnostics["totals"]["additive"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DFIWarning)
        off = dfi.explain(X, y > 0, model, cv="prefit", scale="margin", transport=wrong(0.6))
    (reason,) = [reason for reason in off.trust.reasons if reason.kind == "sum"]
    assert reason.remedy.startswith("Without interactions they must add up to all of it")


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_curves_of_correlated_columns_are_interactions_of_latents(rho):
    """A sum of curves is additive in features; in latents only where these are the features."""
    generator = np.random.default_rng(1)
    X = generator.standard_normal((600, 3)) @ np.linalg.cholesky(
        (1 - rho) * np.eye(3) + rho * np.ones((3, 3))
    ).T  # fmt: skip
    y = X[:, 0] ** 2 + np.sin(X[:, 1]) + 0.3 * generator.standard_normal(600)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ImplausibleScoreWarning)
        found = dfi.explain(
            X, y, make_pipeline(SplineTransformer(), Ridge(1e-3)), cv=2
        ).diagnostics["totals"]
    assert 1.0 - 0.15 < found["order"] < 1.15 + 3 * found["interaction"] / found["explained"]
    assert (found["interaction"] > 0.05 * found["explained"]) is (rho > 0)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_interaction_of_mixed_draws_is_that_of_the_analysis_of_variance(order):
    """A product of ``order`` independent columns has V_S for all of them alone."""
    X = np.random.default_rng(0).standard_normal((4000, 3))
    folds = [(np.arange(4000), lambda rows: np.prod(rows[:, :order], axis=1))]
    seen = [
        model_fidelity(
            folds, X, ones(4000), X, np.ones(4000), lambda z: z, np.random.SeedSequence(seed)
        ).interaction
        for seed in range(20)
    ]
    variance = 1.0 - 2.0 ** (1 - order)
    error = np.std(seen, ddof=1) / np.sqrt(20)
    assert abs(np.mean(seen) - variance) <= 4 * error + 1e-12


def test_overfitted_model_in_the_loco_form_is_said():
    """Two thirds of what a tree tells are noise of its rows: the sum is far below."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((1200, 6)) + generator.standard_normal((1200, 1))
    y = X[:, 0] + X[:, 1] + 2.0 * generator.standard_normal(1200)
    model = GradientBoostingRegressor(n_estimators=150, max_depth=4).fit(X[:600], y[:600])
    result = dfi.explain(X[600:], y[600:], model, cv="prefit", form="loco")
    (reason,) = [reason for reason in result.trust.reasons if reason.kind == "sum"]
    assert "In form='loco' the noise that a model has learned" in reason.remedy


def test_rare_levels_that_the_transport_pools_are_said_or_right():
    """A category of many levels beside what it determines, with a linear model."""
    generator = np.random.default_rng(0)
    share = 1 / np.arange(1, 61)
    city = generator.choice(60, 1500, p=share / share.sum())
    far = generator.uniform(1, 10, 60)[city] + generator.choice([0, 0.05], 1500)
    near = far + 0.3 * generator.standard_normal(1500)
    X = pd.DataFrame({"city": [f"c{k}" for k in city], "far": far, "near": near})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = dfi.explain(
            X, near - far + 0.3 * generator.standard_normal(1500), "linear", cv=2
        ).diagnostics["totals"]
    said = [w for w in caught if w.category is ImplausibleScoreWarning]
    assert abs(found["order"] - 1.0) < 0.15 or said


def test_overlapping_groups_are_counted_as_often_as_they_hold_a_column():
    X, y = correlated(300, 4)
    groups = {"a": [0, 1, 2], "b": [1, 2, 3], "c": [0, 1]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ImplausibleScoreWarning)
        found = dfi.explain(
            X, y, "linear", feature_groups=groups, units="groups", cv=2, n_repeats=1
        )
    assert found.diagnostics["totals"]["times_counted"] == 3


def test_fidelity_of_a_linear_gaussian_model_is_one():
    sample = dfi.datasets.m1(2000, rho=0.8, d=4)
    result = dfi.explain(sample.X, sample.y, estimator="linear", cv=2)
    found = result.diagnostics["fidelity"]
    assert abs(np.log(found["variance_ratio"])) < 3 * found["log_ratio_se"] < 0.3
    assert abs(found["mean_shift"]) < 3 * found["mean_shift_se"] < 0.2
    assert not found["far"]


@pytest.mark.full
def test_fidelity_does_not_shrink_with_the_number_of_columns_or_rows():
    """Unlike pairs, it is a property of the model: the standard error is honest."""
    errors = []
    for seed in range(30):
        sample = dfi.datasets.m1(300, rho=0.8, d=4, random_state=seed)
        result = dfi.explain(sample.X, sample.y, estimator="linear", cv=2)
        found = result.diagnostics["fidelity"]
        errors.append(np.log(found["variance_ratio"]) / found["log_ratio_se"])
    # rows and draws share their margins, so the error is at most the one stated
    assert np.abs(errors).max() < 3.0
    assert np.std(errors) < 1.3


def test_wrong_transport_is_far():
    """Columns on a circle are uncorrelated; drawn apart they fill a square."""
    generator = np.random.default_rng(0)
    angle = generator.uniform(0, 2 * np.pi, 1500)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X += 0.05 * generator.standard_normal(X.shape)

    def radius(rows):
        return rows[:, 0] ** 2 + rows[:, 1] ** 2

    said = r"transport='gaussian' evaluates the model far from the data, .*times their variance"
    with pytest.warns(TransportWarning, match=said), pytest.warns(ImplausibleScoreWarning):
        result = dfi.explain(X, radius(X), radius, cv="prefit")
    found = result.diagnostics["fidelity"]
    assert found["far"]
    assert found["variance_ratio"] > 10
    assert any("far from the data" in reason.what for reason in result.trust.reasons)


@pytest.mark.parametrize(
    ("ratio", "error", "shift", "far"),
    [
        (1.0, 0.1, 0.0, False),
        (0.75, 0.01, 0.0, False),
        (0.6, 0.1, 0.0, True),
        (0.6, 0.4, 0.0, False),
        (1.5, 0.1, 0.0, True),
        (1.0, 0.1, -0.4, True),
    ],
)
def test_limits_of_fidelity(ratio, error, shift, far):
    fidelity = Fidelity(ratio, error, shift, 0.05, 200, 1000)
    assert fidelity.far is far
    # an uncertain ratio is no proof of closeness
    close = "close to the data" in fidelity.finding(dfi.transports.Gaussian()).what
    assert close is (not far and 0.7 <= ratio <= 1.4)


def test_model_that_predicts_one_number_has_no_fidelity():
    X = np.random.default_rng(0).standard_normal((50, 2))
    folds = [(np.arange(50), lambda rows: np.full(len(rows), 3.0))]
    assert model_fidelity(folds, X, ones(50), X, np.ones(50), lambda z: z, SEED) is None


@given(n=st.integers(2, 40), d=st.integers(1, 4), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_columns_drawn_apart_are_permutations(n, d, seed):
    drawn = _orders(np.ones(n), n, np.random.default_rng(seed), d)
    assert (np.sort(drawn, axis=0) == np.arange(n)[:, None]).all()
    assert drawn.shape == (n, d)


def test_rows_are_drawn_as_often_as_they_count():
    drawn = _orders(np.array([0.0, 1.0, 2.0, 5.0]), 800, np.random.default_rng(0), 1)
    np.testing.assert_allclose(np.bincount(drawn[:, 0]), [0, 100, 200, 500], atol=1)


def test_few_rows_blame_the_scores():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 10)) + generator.standard_normal((60, 1))
    options = {"estimator": "linear", "cv": 2, "diagnose": False}
    (few,) = dfi.explain(X, X[:, 0], **options).trust.reasons
    assert few.severity == "care"
    assert few.what.startswith("60 rows for 10 columns that may depend on each other: scores are b")
    assert "Gaussian(covariance=" in few.remedy
    shrunk = dfi.transports.Gaussian(shrinkage="ledoit-wolf")
    (few,) = dfi.explain(X, X[:, 0], transport=shrunk, **options).trust.reasons
    assert few.remedy.endswith("more rows")
    assert dfi.explain(X[:, :9], X[:, 0], **options).trust == "sound"
    with pytest.warns(dfi.warnings.InferenceWarning, match="20 rows for 20 columns"):
        dfi.explain(np.tile(X[:20], 2), X[:20, 0], **options)


def test_shrinking_columns_without_any_correlation_is_no_error():
    X = np.random.default_rng(0).standard_normal((60, 4))
    X -= X.mean(axis=0)
    X = X @ np.linalg.inv(np.linalg.cholesky(X.T @ X / 60)).T
    y = X[:, 0] + np.random.default_rng(1).standard_normal(60)
    shrunk = dfi.transports.Gaussian(shrinkage="ledoit-wolf")
    result = dfi.explain(X, y, "linear", transport=shrunk, cv=2, diagnose=False)
    assert np.isfinite(result.scores).all()
