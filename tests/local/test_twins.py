"""Contributions against an independent slow twin, for every family of models, and of two halves."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import dfi

PLAIN = dfi.transports.Gaussian(components=None, covariance="sample")
N = 120


def sample(d=3, n=N, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.eye(d) + 0.6 * rng.standard_normal((d, d))
    X = rng.standard_normal((n, d)) @ mixing
    y = X[:, 0] + X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + 0.3 * rng.standard_normal(n)
    return X, y


def twin(predict, X, rows):
    """Return contributions and total effects row by row, with loops over everything."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    values, vectors = np.linalg.eigh(np.corrcoef(X.T))
    L = (vectors * np.sqrt(values)) @ vectors.T
    Z = ((X - mean) / deviation) @ np.linalg.inv(L)

    def at(latent):
        return predict(mean + deviation * (latent @ L))

    base = predict(X).mean()
    n, d = Z.shape
    curves = np.empty((n, d))
    for j in range(d):
        for i in range(n):
            moved = Z.copy()
            moved[:, j] = Z[i, j]
            curves[i, j] = at(moved).mean()
    found, totals = [], []
    for i in rows:
        value = predict(X[[i]])[0]
        main, change = curves[i] - curves.mean(axis=0), np.empty(d)
        for j in range(d):
            moved = np.tile(Z[i], (n, 1))
            moved[:, j] = Z[:, j]
            change[j] = value - at(moved).mean()
        half = 0.5 * (main + change)
        weight = np.sqrt(np.abs(change - main))
        psi = half + weight / weight.sum() * (value - base - half.sum())
        found.append(L**2 @ psi)
        totals.append(L**2 @ change)
    return np.array(found), np.array(totals)


TREES = {
    "forest": RandomForestRegressor(8, max_depth=5, random_state=0, n_jobs=1),
    "boosting": HistGradientBoostingRegressor(max_iter=20, random_state=0),
    "gradient": GradientBoostingRegressor(n_estimators=20, random_state=0),
}


@pytest.mark.parametrize("name", TREES)
def test_trees_are_those_of_the_twin(name):
    X, y = sample()
    model = TREES[name].fit(X, y)
    result = dfi.explain(X, y, model, cv="prefit", transport=PLAIN, diagnose=False)
    rows = [0, 17, 63]
    local = result.local(rows, background=N)
    values, totals = twin(model.predict, X, rows)
    # a row of the background may be moved onto a split, where rounding decides
    scale = np.abs(values).max()
    np.testing.assert_allclose(local.total, totals, atol=0.01 * scale)
    np.testing.assert_allclose(local.values, values, atol=0.01 * scale)


@pytest.mark.parametrize(
    ("model", "nodes"),
    [
        (LinearRegression(), None),
        (SVR(C=3.0), None),
        (make_pipeline(StandardScaler(), LinearRegression()), None),
        (MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", max_iter=60, random_state=0), 60),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_smooth_models_are_those_of_the_twin(model, nodes):
    X, y = sample()
    model = model.fit(X, y)
    result = dfi.explain(X, y, model, cv="prefit", transport=PLAIN, diagnose=False)
    rows = [3, 40]
    local = result.local(rows, background=N)
    values, totals = twin(model.predict, X, rows)
    scale = np.abs(values).max()
    np.testing.assert_allclose(local.total, totals, atol=1e-3 * scale)
    # curves of models that are known by predictions are interpolated between 64 values
    np.testing.assert_allclose(local.values, values, atol=5e-3 * scale)


def frame(n=160, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.standard_normal(n)})
    X["b"] = 0.7 * X.a + 0.7 * rng.standard_normal(n)
    X["k"] = pd.Categorical(
        np.array(list("uvw"))[np.digitize(X.a + rng.standard_normal(n), [-0.5, 0.6])]
    )
    X["gap"] = np.where(rng.random(n) < 0.2, np.nan, rng.standard_normal(n) + X.b)
    X["flag"] = rng.random(n) < 0.4
    effect = X.k.map({"u": 0.0, "v": 1.0, "w": -1.0}).astype(float)
    y = X.a + effect + X.b * X.flag + X.gap.fillna(1.0) + 0.5 * rng.standard_normal(n)
    return X, y


def adds_up(local):
    np.testing.assert_allclose(local.values.sum(axis=1), local.prediction - local.base, atol=1e-10)
    assert np.isfinite(local.values).all()
    return local


@pytest.mark.parametrize(
    "estimator",
    [
        "linear",
        HistGradientBoostingRegressor(max_iter=10),
        pytest.param("auto", marks=pytest.mark.full),
    ],
)
def test_contributions_of_mixed_columns_add_up(estimator):
    X, y = frame()
    result = dfi.explain(X, y, estimator, cv=3, diagnose=False, transport_error="ignore")
    local = adds_up(result.local(slice(0, 40)))
    assert local.names == ("a", "b", "k", "gap", "flag")
    assert local.has_spread
    adds_up(result.local(rows=[0, 1], refine=2))


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        ("auto", {}),
        pytest.param("auto", {"loss": "log-loss"}, marks=pytest.mark.full),
        (LogisticRegression(), {}),
        (HistGradientBoostingClassifier(max_iter=10), {"loss": "log-loss"}),
    ],
)
def test_contributions_to_probabilities_add_up(estimator, options):
    X, y = frame()
    numbers = X[["a", "b", "flag"]]
    result = dfi.explain(
        numbers, y > y.median(), estimator, cv=3, diagnose=False, transport_error="ignore",
        **options,
    )  # fmt: skip
    local = adds_up(result.local(slice(0, 30)))
    assert np.all((local.prediction > 0) & (local.prediction < 1))
    assert local.spec["explains"] == "the probability of True"
    if estimator == "auto":
        with pytest.raises(ValueError, match="these models predict probabilities"):
            result.local(scale="margin")
        return
    margin = adds_up(result.local(slice(0, 30), scale="margin"))
    assert margin.spec["explains"] == "the log-odds of True"
    assert margin.prediction.min() < 0 < margin.prediction.max()


def test_counts_are_explained_on_the_scale_of_their_mean():
    X, _ = frame()
    counts = np.random.default_rng(1).poisson(np.exp(0.5 * X.a))
    for estimator in ("auto", PoissonRegressor()):
        result = dfi.explain(
            X[["a", "b"]], counts, estimator, loss="poisson", cv=3, diagnose=False,
            transport_error="ignore",
        )  # fmt: skip
        assert adds_up(result.local([0, 5])).prediction.min() > 0


def test_one_of_several_classes_is_chosen_by_name():
    X, y = frame()
    classes = np.array(["low", "middle", "high"])[np.digitize(y, [-1.0, 1.0])]
    result = dfi.explain(
        X[["a", "b"]], classes, HistGradientBoostingClassifier(max_iter=10), cv=3, diagnose=False,
        transport_error="ignore",
    )  # fmt: skip
    rows = slice(0, 20)
    found = {name: adds_up(result.local(rows, outcome=name)) for name in result.by_outcome}
    # probabilities add up to 1, and so contributions of a feature do to 0 up to interactions
    total = sum(local.prediction for local in found.values())
    np.testing.assert_allclose(total, 1.0, atol=1e-12)
    last = list(result.by_outcome)[-1]
    np.testing.assert_array_equal(result.local(rows).values, found[last].values)
    np.testing.assert_array_equal(result.by_outcome[last].local(rows).values, found[last].values)
    with pytest.raises(ValueError, match="outcome must be 'high', 'low' or 'middle'"):
        result.local(outcome="hihg")
    with pytest.raises(ValueError, match="one of several classes or outcomes"):
        result.local(outcome="high", scale="margin")


def test_effects_of_a_treatment_are_explained_row_by_row():
    X, y = frame(300)
    treated = np.random.default_rng(2).random(300) < 0.5
    outcome = y + treated * X.b
    result = dfi.effects(
        X[["a", "b"]], outcome, treated, estimator="linear", outcome_model="linear", cv=3,
        diagnose=False,
    )  # fmt: skip
    local = adds_up(result.local([0, 1, 2]))
    assert "effect" in local.spec["explains"]


def test_the_spread_is_that_of_models_of_disjoint_halves():
    X, y = sample(n=200)
    result = dfi.explain(
        X, y, LinearRegression(), cv=2, transport=PLAIN, transport_error="ignore", diagnose=False
    )
    local = result.local()
    fits = result.source.fits
    values, halves = np.empty_like(local.values), []
    for fold, trained in zip(fits.halves, fits.trained_on(halves=True), strict=True):
        pair = []
        for predictor, rows in zip(fold.predictors, trained, strict=True):
            own = dfi.explain(
                X[rows], y[rows], predictor.model, cv="prefit", transport=PLAIN,
                transport_error="ignore", diagnose=False,
            )  # fmt: skip
            pair.append(own.local(X=X[fold.test]).values)
        values[fold.test] = 0.5 * (pair[0] + pair[1])
        halves.append((fold.test, 0.5 * np.abs(pair[0] - pair[1]), pair))
    np.testing.assert_allclose(local.values, values, atol=1e-10)
    for test, spread, _ in halves:
        np.testing.assert_allclose(local.spread[test], spread, atol=1e-10)
    first, second = (np.concatenate([pair[k] for _, _, pair in halves]) for k in (0, 1))
    wanted = [np.corrcoef(first[:, j], second[:, j])[0, 1] for j in range(3)]
    np.testing.assert_allclose(local.reliability, wanted, atol=1e-10)


def test_one_model_has_no_spread():
    X, y = sample()
    given = dfi.explain(X, y, LinearRegression().fit(X, y), cv="prefit", diagnose=False).local()
    loco = dfi.explain(X, y, LinearRegression(), cv=3, form="loco", diagnose=False).local()
    for local in (given, loco):
        assert not local.has_spread
        assert np.isnan(local.spread).all()
        assert np.isnan(local.reliability).all()
        assert local.spec["spread"] == "none: one model explains a row"
        assert "no spread" in repr(local)


def test_new_rows_are_explained_by_all_models():
    X, y = sample(n=200)
    explainer = dfi.DFI(
        estimator=LinearRegression(), cv=3, diagnose=False, transport_error="ignore"
    )
    local = adds_up(explainer.fit(X, y).local(X[:4] + 0.1))
    predictions = [p(X[:4] + 0.1) for fold in explainer.models_ for p in fold.predictors]
    np.testing.assert_allclose(local.prediction, np.mean(predictions, axis=0), atol=1e-10)
    same = explainer.result_.local(X=X[:4] + 0.1)
    np.testing.assert_array_equal(same.values, local.values)
