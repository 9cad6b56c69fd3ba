"""Losses of a quantile: refused where scores would be of a mean, right where models refit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dfi
from dfi._models.learners import predicted_quantile
from dfi.losses import SQUARED_ERROR, absolute, pinball

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 2))
Y = X[:, 0] + RNG.standard_normal(400)
NINTH = QuantileRegressor(quantile=0.9, alpha=0.0)


@pytest.mark.parametrize("loss", ["absolute", "pinball", pinball(0.9)])
@pytest.mark.parametrize("learner", ["linear", NINTH])
def test_dfi_refuses_every_learner(loss, learner):
    with pytest.raises(ValueError, match=r"targets a quantile, but DFI explains means.*'loco'"):
        dfi.explain(X, Y, learner, loss=loss)
    with pytest.raises(ValueError, match="quantile of a mixture"):
        dfi.explain(X, Y, lambda rows: np.asarray(rows)[:, 0], cv="prefit", loss=loss)


@pytest.mark.parametrize(
    ("learner", "loss", "words"),
    [
        ("linear", "absolute", r"0.5 quantile, and 'linear' predicts a mean.*QuantileRegressor"),
        (Ridge(), pinball(0.9), "0.9 quantile, and Ridge predicts a mean"),
        (NINTH, pinball(0.2), "predicts the 0.9 quantile"),
        (make_pipeline(StandardScaler(), Ridge()), "absolute", "predicts a mean"),
    ],
)
def test_refits_need_a_learner_of_the_quantile(learner, loss, words):
    with pytest.raises(ValueError, match=words):
        dfi.compare(X, Y, "loco", estimator=learner, loss=loss, cv=2)


def test_shapley_and_single_columns_are_compared_with_a_mean():
    with pytest.raises(ValueError, match="shapley compares with a regression on no column"):
        dfi.compare(X, Y, "shapley", estimator=NINTH, loss=pinball(0.9), cv=2)
    with pytest.raises(ValueError, match="loco compares with a regression on no column"):
        dfi.compare(X[:, :1], Y, "loco", estimator=NINTH, loss=pinball(0.9), cv=2)


def test_loco_of_a_quantile_learner_is_the_pinball_loss_of_two_linear_quantiles():
    """With y = x0 + e both quantiles are those of normal laws, linear in what is known."""
    found = dfi.compare(X, Y, "loco", estimator=NINTH, loss=pinball(0.9), cv=2)["loco"]
    density = np.exp(-(1.2815515655446004**2) / 2) / np.sqrt(2 * np.pi)
    # E pinball of a normal variable at its own quantile is its deviation times the density there
    truth = density * (np.sqrt(2.0) - 1.0)
    assert abs(found.scores[0] - truth) < 3 * found.se[0] + 0.02
    assert abs(found.scores[1]) < 0.02
    assert found.null_loss.value == pytest.approx(density * np.sqrt(2.0), rel=0.15)


class OfOnesOwn(QuantileRegressor):
    pass


@pytest.mark.parametrize(
    ("learner", "level"),
    [
        (Ridge(), np.nan),
        (LogisticRegression(), np.nan),
        (NINTH, 0.9),
        (OfOnesOwn(quantile=0.3), 0.3),
        (make_pipeline(StandardScaler(), NINTH), 0.9),
        (TransformedTargetRegressor(NINTH), 0.9),
        (TransformedTargetRegressor(), np.nan),
        (GridSearchCV(NINTH, {"alpha": [0.0, 1.0]}), 0.9),
        (BaggingRegressor(NINTH), 0.9),
        (GradientBoostingRegressor(loss="quantile", alpha=0.8), 0.8),
        (GradientBoostingRegressor(loss="absolute_error"), 0.5),
        (GradientBoostingRegressor(loss="huber"), np.nan),
        (HistGradientBoostingRegressor(loss="quantile", quantile=0.7), 0.7),
        (HistGradientBoostingRegressor(loss="absolute_error"), 0.5),
        (HistGradientBoostingRegressor(), np.nan),
        (RandomForestRegressor(criterion="absolute_error"), 0.5),
        (RandomForestRegressor(), np.nan),
    ],
)
def test_what_scikit_learn_predicts(learner, level):
    np.testing.assert_equal(predicted_quantile(learner), level)


@pytest.mark.parametrize(
    ("package", "name", "parameters", "level"),
    [
        ("lightgbm", "LGBMRegressor", {"objective": "quantile", "alpha": 0.6}, 0.6),
        ("lightgbm", "LGBMRegressor", {"objective": "quantile"}, 0.9),
        ("lightgbm", "LGBMRegressor", {"objective": "l1"}, 0.5),
        ("lightgbm", "LGBMRegressor", {}, np.nan),
        (
            "xgboost", "XGBRegressor",
            {"objective": "reg:quantileerror", "quantile_alpha": 0.3}, 0.3,
        ),
        ("xgboost", "XGBRegressor", {"objective": "reg:absoluteerror"}, 0.5),
        ("xgboost", "XGBRegressor", {}, np.nan),
        ("catboost", "CatBoostRegressor", {"loss_function": "Quantile:alpha=0.9"}, 0.9),
        ("catboost", "CatBoostRegressor", {"loss_function": "Quantile"}, 0.5),
        ("catboost", "CatBoostRegressor", {"loss_function": "MAE"}, 0.5),
        ("catboost", "CatBoostRegressor", {}, np.nan),
    ],
)  # fmt: skip
def test_what_boosting_predicts(package, name, parameters, level):
    learner = getattr(pytest.importorskip(package), name)(**parameters)
    np.testing.assert_equal(predicted_quantile(learner), level)


def test_an_unknown_learner_is_taken_at_its_word():
    assert predicted_quantile(lambda rows: rows) is None


def test_the_best_constant():
    y, mass = np.array([3.0, 1.0, 2.0, 10.0]), np.array([1.0, 1.0, 1.0, 5.0])
    assert SQUARED_ERROR.best_constant(y, mass) == pytest.approx(np.average(y, weights=mass))
    assert absolute().best_constant(y, mass) == 10.0
    assert absolute().best_constant(y, np.ones(4)) in (2.0, 3.0)
    assert pinball(0.2).best_constant(y, mass) == 2.0
