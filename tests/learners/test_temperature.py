"""Classifiers that are too sure are pulled towards what held-out rows bear out."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import reduce
from operator import add

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.special import expit
from sklearn.base import clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dfi._data.table import read_table
from dfi._learners.temperature import (
    COOLEST,
    HOTTEST,
    VARIANCE_SHARE,
    ScaleRisk,
    TemperatureScaled,
    log_odds,
)
from dfi._learners.weighted import check_takes_weights
from dfi._lines.base import Lines, Reference
from dfi._lines.choose import Quadrature, is_smooth, line_model
from dfi._lines.quadrature import QuadratureLines
from dfi._lines.trees.model import TreeLines
from dfi._models.crossfit import seed_estimator
from dfi._models.encoders import encoded_columns, reads_raw_columns, takes_missing
from dfi._models.predictor import learner_view, predictor_for
from dfi._models.prepare import prepare
from dfi._models.submodels import submodel_learner

OVERFITTED = {"n_estimators": 150, "num_leaves": 31, "verbose": -1, "n_jobs": 1}


def sample(n, seed, n_classes=2):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4))
    margin = np.column_stack([np.zeros(n), 1.5 * x[:, 0], 1.5 * x[:, 2]])[:, :n_classes]
    y = np.argmax(margin + rng.gumbel(size=margin.shape), axis=1)
    return x, y


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_overfitted_boosting_is_cooled(n_classes):
    x, y = sample(600, 0, n_classes)
    new_x, new_y = sample(3000, 1, n_classes)
    plain = lightgbm.LGBMClassifier(**OVERFITTED)
    scaled = TemperatureScaled(plain, random_state=0).fit(x, y)
    assert scaled.temperature_ < 0.5
    assert scaled.shrinkage_ == 0.0
    own = log_loss(new_y, clone(plain).fit(x, y).predict_proba(new_x))
    better = log_loss(new_y, scaled.predict_proba(new_x))
    assert better < 0.7 * own
    # the order of the classes is that of the model inside
    p, inside = scaled.predict_proba(new_x), scaled.model_.predict_proba(new_x)
    np.testing.assert_array_equal(p.argmax(axis=1), inside.argmax(axis=1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(scaled.predict(new_x), scaled.classes_[p.argmax(axis=1)])


def test_a_right_model_is_left_about_as_it_is():
    x, y = sample(4000, 2)
    scaled = TemperatureScaled(LogisticRegression(), random_state=0).fit(x, y)
    assert scaled.temperature_ == pytest.approx(1.0, abs=0.2)
    margin = scaled.model_.decision_function(x)
    p = expit(scaled.temperature_ * margin)
    np.testing.assert_allclose(scaled.predict_proba(x)[:, 1], p, atol=1e-14)


def test_the_factor_is_the_best_on_the_rows_held_out():
    """A grid of factors, with the rows that were held out found by taking them from the model."""
    x, y = sample(400, 3)
    x = np.column_stack([x, np.arange(400.0)])
    seen = []

    class Keeps(GradientBoostingClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append(X[:, -1].astype(int))
            return super().fit(X[:, :-1], y, sample_weight)

        def predict_proba(self, X):
            return super().predict_proba(X[:, :-1])

        def decision_function(self, X):
            return super().decision_function(X[:, :-1])

    weight = np.random.default_rng(0).uniform(0.2, 3.0, 400)
    scaled = TemperatureScaled(Keeps(n_estimators=60), random_state=1).fit(x, y, weight)
    held = np.setdiff1d(np.arange(400), seen[0])
    assert len(held) == pytest.approx(80, abs=1)
    assert np.bincount(y[held])[1] == pytest.approx(0.2 * y.sum(), abs=1)
    margin = scaled.model_.decision_function(x[held])
    factors = np.geomspace(COOLEST, HOTTEST, 2001)
    signed = np.where(y[held] == 1, 1.0, -1.0) * margin
    mass = weight[held] * len(signed) / weight[held].sum()
    # a normal prior of deviation 1 for the factor's logarithm
    losses = [mass @ np.log1p(np.exp(-f * signed)) + np.log(f) ** 2 / 2 for f in factors]
    assert scaled.temperature_ == pytest.approx(factors[np.argmin(losses)], rel=2e-3)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(20, random_state=0),
        ExtraTreesClassifier(20, random_state=0),
        BaggingClassifier(DecisionTreeClassifier(), 10, random_state=0),
        DecisionTreeClassifier(random_state=0),
        KNeighborsClassifier(3),
        make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0)),
    ],
)
def test_shares_of_rows_are_shrunk(model):
    x, y = sample(400, 4, 3)
    new_x, new_y = sample(2000, 5, 3)
    scaled = TemperatureScaled(model, random_state=0).fit(x, y)
    assert scaled.temperature_ == 1.0
    assert 1 / 321 <= scaled.shrinkage_ <= 1.0
    p = scaled.predict_proba(new_x)
    assert p.min() > 0
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    inside = scaled.model_.predict_proba(new_x)
    mixed = (1 - scaled.shrinkage_) * inside + scaled.shrinkage_ * scaled.prevalence_
    np.testing.assert_allclose(p, mixed, atol=1e-15)
    assert log_loss(new_y, p) < log_loss(new_y, np.clip(inside, 1e-12, 1))


def test_a_class_that_is_too_small_is_not_held_out():
    x, y = sample(200, 6)
    y[:7], y[7:] = 2, np.where(y[7:] == 2, 0, y[7:])
    scaled = TemperatureScaled(HistGradientBoostingClassifier(max_iter=5)).fit(x, y)
    assert scaled.temperature_ == 1.0
    all_rows = HistGradientBoostingClassifier(max_iter=5).fit(x, y)
    np.testing.assert_allclose(scaled.predict_proba(x), all_rows.predict_proba(x), atol=1e-12)
    forest = TemperatureScaled(RandomForestClassifier(5)).fit(x, y)
    assert forest.shrinkage_ == pytest.approx(1 / 201)
    assert forest.predict_proba(x).min() > 0


def test_it_is_a_classifier_like_others():
    x, y = sample(150, 7)
    labels = np.array(["no", "yes"])[y]
    learner = TemperatureScaled(GradientBoostingClassifier(n_estimators=5, random_state=0))
    assert is_classifier(learner)
    copy = clone(learner.set_params(fraction=0.3, estimator__n_estimators=7))
    assert copy.get_params()["estimator__n_estimators"] == 7
    assert copy.fraction == 0.3
    seed_estimator(copy, np.random.SeedSequence(1))
    assert copy.random_state is not None
    first = copy.fit(x, labels)
    again = clone(copy).fit(x, labels)
    assert first.temperature_ == again.temperature_
    assert list(first.classes_) == ["no", "yes"]
    assert set(first.predict(x)) <= {"no", "yes"}
    assert first.n_features_in_ == 4
    check_takes_weights(copy)
    with pytest.raises(ValueError, match=r"KNeighborsClassifier\.fit takes no sample_weight"):
        TemperatureScaled(KNeighborsClassifier()).fit(x, y, np.ones(150))


def test_weights_reach_the_model_and_the_factor():
    x, y = sample(300, 8)
    weight = np.random.default_rng(2).uniform(0.1, 5.0, 300)
    for make in (
        lambda: LogisticRegression(),
        lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    ):
        even = TemperatureScaled(make(), random_state=0).fit(x, y)
        uneven = TemperatureScaled(make(), random_state=0).fit(x, y, weight)
        assert np.abs(even.model_.predict_proba(x) - uneven.model_.predict_proba(x)).max() > 1e-3
        assert even.temperature_ != uneven.temperature_
    # rows without weight are not there: what they say of the outcome does not matter
    double = np.r_[np.ones(300), np.zeros(300)]
    both = np.r_[y, 1 - y]
    learner = TemperatureScaled(LogisticRegression(tol=1e-10), random_state=0)
    with_ghosts = clone(learner).fit(np.r_[x, x], both, double)
    np.testing.assert_allclose(
        with_ghosts.temperature_,
        clone(learner).fit(np.r_[x, x], np.r_[y, y], double).temperature_,
        rtol=1e-3,
    )


def test_probabilities_of_zero_have_a_floor():
    x, y = sample(300, 9)
    model = GaussianNB().fit(np.column_stack([x, 1e3 * (y + 0.01 * x[:, 0])]), y)
    margins = log_odds(model, np.column_stack([x, np.zeros(300)]))
    assert np.isfinite(margins).all()
    assert margins.min() == pytest.approx(np.log(1e-12))


MARGINS = {
    "logistic": lambda: LogisticRegression(),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=8),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=8),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=8, n_jobs=1),
    "search": lambda: GridSearchCV(
        make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=4)),
        {"gradientboostingclassifier__max_depth": [1, 2]},
        cv=2,
    ),
    "scaled": lambda: TemperatureScaled(GradientBoostingClassifier(n_estimators=50)),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MARGINS)
def test_margins_are_logarithms_of_probabilities(name, n_classes):
    x, y = sample(200, 10, n_classes)
    model = MARGINS[name]().fit(x, y)
    margins = log_odds(model, x)
    assert margins.shape == (200, n_classes)
    log_p = np.log(model.predict_proba(x))
    apart = (margins - margins[:, [0]]) - (log_p - log_p[:, [0]])
    assert np.abs(apart).max() < 1e-5


LINES = {
    "histogram": (lambda: HistGradientBoostingClassifier(max_iter=30), 2),
    "histogram, three": (lambda: HistGradientBoostingClassifier(max_iter=30), 3),
    "lightgbm, three": (lambda: lightgbm.LGBMClassifier(n_estimators=40, verbose=-1, n_jobs=1), 3),
    "xgboost, three": (lambda: xgboost.XGBClassifier(n_estimators=20, n_jobs=1), 3),
    "forest, three": (lambda: RandomForestClassifier(5, random_state=0), 3),
    "pipeline": (
        lambda: make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)),
        2,
    ),
    "pipeline, three": (
        lambda: make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=60)),
        3,
    ),
}


def moments_of(predictor, lines):
    return QuadratureLines(predictor, "equal", 1000).moments(lines)


def some_lines(x):
    rng = np.random.default_rng(3)
    law = Reference.empirical(rng.normal(size=(80, x.shape[1])))
    directions = rng.normal(size=(x.shape[1],) * 2)
    return Lines(x[:5], x[:5], directions, law, np.zeros((1, x.shape[1])))


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("name", LINES)
def test_line_means_of_scaled_trees_are_exact(name, around):
    make, n_classes = LINES[name]
    x, y = sample(250, 11, n_classes)
    learner = TemperatureScaled(make(), random_state=0)
    learner = make_pipeline(StandardScaler(), learner) if around else learner
    model = learner.fit(x, y)
    inner = model.steps[-1][1] if around else model
    assert inner.temperature_ < 0.9 or inner.shrinkage_ > 0
    lines = some_lines(x)
    for k in range(n_classes):
        predictor = replace(predictor_for(model, read_table(x), prefit=True), column=k)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = line_model(predictor, x, Quadrature())
        assert isinstance(found, TreeLines)
        truth = moments_of(predictor, lines)
        tolerance = 20 * found.ensemble.tolerance
        np.testing.assert_allclose(found.moments(lines).mean, truth.mean, atol=tolerance)
        np.testing.assert_allclose(found.moments(lines).hermite, truth.hermite, atol=tolerance)


def test_line_means_of_scaled_margins_are_exact():
    x, y = sample(250, 12)
    model = TemperatureScaled(HistGradientBoostingClassifier(max_iter=30), random_state=0)
    model.fit(x, y)
    predictor = replace(predictor_for(model, read_table(x), prefit=True), scale="margin")
    found = line_model(predictor, x, Quadrature())
    assert found.ensemble.link == "identity"
    lines = some_lines(x)
    truth = moments_of(predictor, lines)
    np.testing.assert_allclose(found.moments(lines).mean, truth.mean, atol=1e-9)


def test_models_without_trees_keep_their_quadrature():
    x, y = sample(200, 13)
    model = TemperatureScaled(LogisticRegression(), random_state=0).fit(x, y)
    assert is_smooth(model)
    lines = line_model(predictor_for(model, read_table(x), prefit=True), x, Quadrature())
    assert isinstance(lines, QuadratureLines)
    assert lines.rule == "quadrature (16 Gauss nodes)"


def test_wrapped_pipelines_get_tables():
    rng = np.random.default_rng(14)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.choice(["u", "v", "w"], 200)})
    frame["c"] = rng.integers(0, 30, 200).astype(float)
    y = (frame["a"] + (frame["b"] == "u") + rng.normal(size=200) > 0).astype(int)
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["b", "c"]), remainder="passthrough"
    )
    learner = TemperatureScaled(
        make_pipeline(encoder, GradientBoostingClassifier(n_estimators=10)), random_state=0
    )
    table = read_table(frame)
    assert reads_raw_columns(learner)
    assert learner_view(learner, table) == "frame"
    model = learner.fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert encoded_columns(model, table) == {"c"}
    predictor = predictor_for(model, table, prefit=True)
    assert predictor.view == "frame"
    np.testing.assert_allclose(predictor(table.matrix), model.predict_proba(frame)[:, 1])
    with_missing = TemperatureScaled(HistGradientBoostingClassifier())
    assert takes_missing(with_missing)
    assert takes_missing(TemperatureScaled(GridSearchCV(HistGradientBoostingClassifier(), {})))
    assert not takes_missing(TemperatureScaled(GradientBoostingClassifier()))


def test_missing_values_and_categories_inside():
    rng = np.random.default_rng(15)
    frame = pd.DataFrame(
        {
            "a": np.where(rng.random(240) < 0.2, np.nan, rng.normal(size=240)),
            "b": pd.Categorical(rng.choice(["u", "v", "w"], 240)),
            "c": rng.normal(size=240),
        }
    )
    margin = frame["a"].fillna(1.0) + (frame["b"] == "u") + rng.normal(size=240)
    y = np.digitize(margin, [-0.3, 0.9])
    inside = HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype")
    model = TemperatureScaled(inside, random_state=0).fit(frame, y)
    table = read_table(frame)
    predictor = replace(predictor_for(model, table, prefit=True), column=0)
    lines = some_lines(table.matrix)
    total = 0.0
    for k in range(3):
        own = replace(predictor, column=k)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = line_model(own, table.matrix, Quadrature())
        truth = moments_of(own, lines)
        np.testing.assert_allclose(found.moments(lines).mean, truth.mean, atol=1e-9)
        total = total + found.moments(lines).mean
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


def test_folds_take_the_temperature_from_each_others_rows():
    """Nothing is held out of a half, a fold's own rows have no say, and two models decide."""
    random = np.random.default_rng(5)
    X = random.standard_normal((400, 3))
    y = (random.random(400) < 1.0 / (1.0 + np.exp(-1.5 * X[:, 0]))).astype(float)
    boosting = GradientBoostingClassifier(n_estimators=150, max_depth=4)
    fits = prepare(X, y, estimator=boosting, cv=4, loss="log-loss", random_state=0)
    folds = fits.halves
    models = [predictor.model for fold in folds for predictor in fold.predictors]
    assert all(model.temperature_ < 0.7 for model in models)
    for one, other in zip(models[::2], models[1::2], strict=True):
        assert one.temperature_ == other.temperature_
        assert one.model_ is not other.model_
    # another outcome of the fold's own rows: only the other folds' numbers may move
    first, count = folds[0], 2
    eye = np.eye(count)

    def risk(rows, pair, share):
        found = [predictor.unscaled(X[rows]) for predictor in pair]
        codes = y[rows].astype(int)
        prevalence = pair[0].model.prevalence_
        return ScaleRisk(eye[codes], np.ones(len(rows)), *found, prevalence, False, share)

    others = [risk(fold.test, fold.predictors, VARIANCE_SHARE) for fold in folds[1:]]
    joined = reduce(add, others)
    assert first.predictors[0].model.temperature_ == pytest.approx(joined.number(), rel=1e-9)
    # a single model is cooled for its noise too
    alone = reduce(add, [risk(fold.test, fold.predictors, 1.0) for fold in folds[1:]])
    assert alone.number() < joined.number()
    assert set(fits.calibration) == {"prediction_shrinkage", "temperature"}


def test_a_refit_without_a_column_keeps_the_temperature():
    random = np.random.default_rng(6)
    X = random.standard_normal((200, 2))
    y = (random.random(200) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(int)
    known = TemperatureScaled(GradientBoostingClassifier(random_state=0), temperature=0.5)
    fitted = known.fit(X, y)
    assert fitted.temperature_ == 0.5
    assert np.isclose(fitted.prevalence_[1], y.mean())
    plain = GradientBoostingClassifier(random_state=0).fit(X, y)
    margin = plain.decision_function(X)
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 1], 1.0 / (1.0 + np.exp(-0.5 * margin)))
    learner = submodel_learner(clone(known).set_params(temperature=None), fitted)
    assert (learner.temperature, learner.shrinkage) == (0.5, 0.0)
