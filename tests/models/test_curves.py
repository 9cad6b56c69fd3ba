"""Fitted models of times to an event are read as what is explained."""

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi._models.adapters import Under, survival_model

GRID = np.linspace(0.0, 2.0, 200_001)


def sample(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    time = rng.exponential(np.exp(0.6 * X["a"].to_numpy()))
    censored = rng.exponential(2.0, n)
    return X, np.minimum(time, censored), time <= censored


def structured(time, event):
    return np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])


def test_steps_are_areas_and_heights():
    curves = np.array([[0.8, 0.5, 0.1], [1.0, 1.0, 0.0]])
    times = np.array([1.0, 2.0, 4.0])
    areas = Under((0.5, 3.0, 9.0), "rmst").steps(times, curves)
    assert np.allclose(areas, [[0.5, 1 + 0.8 + 0.5, 1 + 0.8 + 1.0 + 0.5], [0.5, 3.0, 4.0]])
    heights = Under((0.5, 2.0, 3.0), "probability").steps(times, curves)
    assert np.allclose(heights, [[1.0, 0.5, 0.5], [1.0, 1.0, 1.0]])


def test_smooth_curves_are_exponential_ones():
    under = Under((1.0, 2.0), "rmst")
    curves = np.exp(-np.outer([0.5, 3.0], under.grid))
    expected = [(1 - np.exp(-rate * np.array([1.0, 2.0]))) / rate for rate in (0.5, 3.0)]
    assert np.allclose(under.smooth(curves), expected, atol=1e-4)


def test_other_models_and_functions_are_taken_at_their_word():
    def function(rows):
        return rows["a"]

    assert survival_model(function, [1.0], "rmst") is function
    assert survival_model("auto", [1.0], "rmst") == "auto"


@pytest.mark.parametrize("law", ["normal", "logistic", "extreme"])
def test_accelerated_failure_times_of_xgboost(law):
    xgboost = pytest.importorskip("xgboost")
    X, time, event = sample()
    matrix = xgboost.DMatrix(X)
    matrix.set_float_info("label_lower_bound", time)
    matrix.set_float_info("label_upper_bound", np.where(event, time, np.inf))
    options = {"objective": "survival:aft", "aft_loss_distribution": law,
               "aft_loss_distribution_scale": 0.7, "max_depth": 2}  # fmt: skip
    booster = xgboost.train(options, matrix, num_boost_round=10)
    mean = survival_model(booster, [2.0], "rmst")(X[:3])
    place = np.log(booster.predict(matrix)[:3].astype(float))
    noise = {
        "normal": np.random.default_rng(0).normal(size=400_000),
        "logistic": np.random.default_rng(0).logistic(size=400_000),
        "extreme": np.log(np.random.default_rng(0).exponential(size=400_000)),
    }[law]
    drawn = [np.minimum(np.exp(one + 0.7 * noise), 2.0).mean() for one in place]
    assert np.allclose(mean, drawn, atol=0.006)
    if law == "normal":
        y = structured(time, event)[:80]
        quick = {"diagnose": False, "transport_error": "ignore"}
        result = dfi.explain(X[:80], y, booster, cv="prefit", horizon=1.0, **quick)
        assert result.names[int(result.scores.argmax())] == "a"


def test_ratios_of_hazards_are_no_times():
    xgboost = pytest.importorskip("xgboost")
    X, time, event = sample(60)
    model = xgboost.XGBRegressor(objective="survival:cox", n_estimators=3)
    model.fit(X, np.where(event, time, -time))
    with pytest.raises(TypeError, match=r"hazard ratios.*pass a function that returns"):
        dfi.explain(X, structured(time, event), model, cv="prefit", horizon=1.0)


@pytest.mark.parametrize("target", ["rmst", "probability"])
def test_a_forest_of_scikit_survival_is_a_regression_forest(target):
    ensemble = pytest.importorskip("sksurv.ensemble")
    X, time, event = sample()
    model = ensemble.RandomSurvivalForest(20, min_samples_leaf=10, random_state=0)
    model.fit(X, structured(time, event))
    forest = survival_model(model, [1.0], target)
    curves = model.predict_survival_function(X, return_array=True)
    areas = Under((1.0,), target).steps(model.unique_times_, curves)[:, 0]
    assert np.allclose(forest.predict(X), areas, atol=1e-12)
    result = dfi.explain(X, structured(time, event), model, cv="prefit", horizon=1.0, target=target)
    assert result.names[int(result.scores.argmax())] == "a"


def test_other_curves_of_scikit_survival():
    linear = pytest.importorskip("sksurv.linear_model")
    X, time, event = sample()
    model = linear.CoxPHSurvivalAnalysis().fit(X, structured(time, event))
    both = survival_model(model, [0.5, 1.0], "rmst")(X[:4])
    steps = model.predict_survival_function(X[:4])
    for row, curve in zip(both, steps, strict=True):
        heights = curve(np.clip(GRID, *curve.domain))
        for value, horizon in zip(row, (0.5, 1.0), strict=True):
            inside = horizon >= GRID
            assert np.isclose(value, np.trapezoid(heights[inside], GRID[inside]), atol=1e-3)


def test_curves_of_lifelines():
    lifelines = pytest.importorskip("lifelines")
    X, time, event = sample()
    table = X.assign(time=time, event=event)
    cox = lifelines.CoxPHFitter().fit(table, "time", "event")
    weibull = lifelines.WeibullAFTFitter().fit(table, "time", "event")
    for model in (cox, weibull):
        mean = survival_model(model, [1.0], "rmst")(X[:3])
        curve = model.predict_survival_function(X[:3], times=np.linspace(0, 1, 5001))
        assert np.allclose(mean, np.trapezoid(curve.to_numpy(), curve.index, axis=0), atol=2e-3)
        result = dfi.explain(X, structured(time, event), model, cv="prefit", horizon=1.0)
        assert result.names[int(result.scores.argmax())] == "a"
