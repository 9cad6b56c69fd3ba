"""The error of quadrature along lines: measured, refined away where it can be, and said."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.neighbors import KNeighborsRegressor
from xgboost import XGBRegressor

import dfi
from dfi._data.weights import Weights
from dfi._lines.base import Reference
from dfi._lines.quadrature import equal_nodes
from dfi._models.crossfit import FoldModels
from dfi._scoring import scores as scoring
from dfi._scoring.error import AGREES, CheckedRows, doubled, more_than, same, settle_nodes
from dfi.warnings import QuadratureWarning

N = 300


def step_table(kind, n=N):
    """Return rows and a regression, for columns whose values trees split at."""
    rng = np.random.default_rng(4)
    real = rng.standard_normal(n)
    label = rng.integers(0, 3, n)
    if kind == "one-hot":
        X = np.column_stack([real, *(label == k for k in range(3))]).astype(float)
        mean = real + 1.2 * X[:, 2] - X[:, 3] + 0.7 * (real > 0) * X[:, 2]
    elif kind == "integers":
        hour = np.clip(np.round(6 + 3 * (0.6 * real + 0.8 * rng.standard_normal(n))), 0, 12)
        X = np.column_stack([real, hour, label == 1, rng.integers(0, 24, n)]).astype(float)
        mean = real + 0.5 * (hour > 5) + 0.3 * hour * X[:, 2]
    elif kind == "binary":
        Z = rng.standard_normal((n, 3))
        Z[:, 1] += 0.8 * Z[:, 0]
        X = (Z > 0).astype(float)
        mean = X[:, 0] + X[:, 1] + 2 * X[:, 2] * X[:, 1]
    else:
        X = rng.standard_normal((n, 3))
        X[:, 1] = 0.7 * X[:, 0] + 0.7 * X[:, 1]
        mean = X[:, 0] + (X[:, 1] > 0) + X[:, 1] * X[:, 2]
    return X, mean + 0.5 * rng.standard_normal(n)


def explain(X, y, model, **options):
    return dfi.explain(X, y, estimator=model, cv="prefit", diagnose=False, **options)


def wrapped(model):
    return lambda table: model.predict(np.asarray(table))


def told_error(function):
    """Return a result and the share of a score that a warning says it is off by, or None."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    said = [str(w.message) for w in caught if w.category is QuadratureWarning]
    assert len(said) <= 1
    if not said:
        return result, None
    return result, float(said[0].split("changes by ")[1].split("%")[0]) / 100


@pytest.mark.parametrize(
    ("reference", "rule"), [("empirical", "auto"), ("gaussian", "auto"), ("empirical", "gauss")]
)
@pytest.mark.parametrize("kind", ["one-hot", "integers", "binary", "continuous"])
def test_trees_as_a_function_score_as_the_trees_themselves(kind, reference, rule):
    """XGBoost splits at the values of the data; 32 nodes were off by 20 to 39 % here."""
    X, y = step_table(kind)
    model = XGBRegressor(n_estimators=20, max_depth=3).fit(X, y)
    transport = dfi.transports.Gaussian(reference=reference)
    exact = explain(X, y, model, transport=transport)
    found, said = told_error(
        lambda: explain(X, y, wrapped(model), transport=transport, integration=dfi.Quadrature(rule))
    )
    assert "exact" in exact.diagnostics["lines"]
    assert "quadrature" not in exact.diagnostics
    named = "Gauss" if rule == "gauss" else "equal-probability"
    assert f"{named} nodes" in found.diagnostics["lines"]
    for first, second in ((found.latent, exact.latent), (found, exact)):
        error = np.abs(first.scores - second.scores) / np.maximum(second.scores, 1e-9)
        if said is None:
            # 2 % of the score, or a tenth of its standard error for scores of a few errors
            off = np.minimum(error / 0.02, np.abs(first.scores - second.scores) / second.se / 0.1)
            assert off.max() <= 1.0
        else:
            assert 0.5 <= error.max() / said <= 2.0


def test_a_law_of_few_values_is_summed_exactly():
    X, y = step_table("binary")
    model = XGBRegressor(n_estimators=20, max_depth=3).fit(X, y)
    found = explain(X, y, wrapped(model), integration=dfi.Quadrature(nodes=8))
    exact = explain(X, y, model)
    np.testing.assert_allclose(found.latent.scores, exact.latent.scores, rtol=1e-6)


BIKESHARE = Path(os.environ.get("DFI_DATA", "/nowhere")) / "tables" / "Bikeshare.csv"


@pytest.mark.skipif(not BIKESHARE.exists(), reason="DFI_DATA has no tables/Bikeshare.csv")
def test_bikeshare_wrapped_in_a_function():
    frame = pd.read_csv(BIKESHARE).sample(400, random_state=1)
    X = frame[["season", "day", "hr", "workingday", "temp", "hum"]].to_numpy(float)
    y = frame["bikers"].to_numpy(float)
    model = XGBRegressor(n_estimators=30, max_depth=4).fit(X, y)
    found, said = told_error(lambda: explain(X, y, wrapped(model)))
    exact = explain(X, y, model)
    assert said is None
    np.testing.assert_allclose(found.latent.scores, exact.latent.scores, rtol=0.02)


def line_means_over_all_values(explainer, X, function):
    """Replace the latent coordinate by every observed value in turn: an independent slow twin."""
    transport = explainer.transport_
    latent = (X - transport.geometry.center) / transport.geometry.scale @ transport.geometry.encoder
    means = np.empty(latent.shape)
    for i, j in np.ndindex(*latent.shape):
        rows = X[i] + np.outer(latent[:, j] - latent[i, j], transport.geometry.directions[:, j])
        means[i, j] = function(rows).mean()
    return means


def test_a_step_is_scored_as_by_every_value_in_turn():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2)) @ [[1.0, 0.6], [0.0, 0.8]]

    def function(rows):
        return (rows[:, 0] > 0.3) + 0.5 * (rows[:, 1] > -0.2)

    y = function(X) + 0.1 * rng.standard_normal(200)
    explainer = dfi.DFI(estimator=function, cv="prefit", diagnose=False).fit(X, y)
    means = line_means_over_all_values(explainer, X, function)
    twin = np.mean((y[:, None] - means) ** 2 - (y - function(X))[:, None] ** 2, axis=0)
    np.testing.assert_allclose(explainer.result_.latent.scores, twin, rtol=0.02)


def test_smooth_models_keep_their_nodes():
    X, y = step_table("continuous", 120)
    model = GaussianProcessRegressor(alpha=1.0).fit(X, y)
    found = explain(X, y, model)
    assert found.diagnostics["lines"] == "quadrature (16 Gauss nodes)"
    assert found.diagnostics["quadrature"]["error"] < AGREES
    assert found.diagnostics["quadrature"]["compared_with"] == "quadrature (31 Gauss nodes)"


def test_a_number_of_nodes_is_kept_and_its_error_said():
    X, y = step_table("one-hot")
    model = XGBRegressor(n_estimators=20, max_depth=3).fit(X, y)
    exact = explain(X, y, model)
    four = dfi.Quadrature(nodes=4)
    found, said = told_error(lambda: explain(X, y, wrapped(model), integration=four))
    assert found.diagnostics["lines"] == "quadrature (4 equal-probability nodes)"
    assert found.diagnostics["quadrature"]["n_nodes"] == 4
    true = np.abs(found.latent.scores / exact.latent.scores - 1).max()
    assert said is not None
    assert 0.5 <= true / said <= 2.0
    with pytest.warns(QuadratureWarning, match="by quadrature .4 equal-probability nodes. are not"):
        explain(X, y, wrapped(model), integration=four)
    with pytest.warns(
        QuadratureWarning, match="raise the nodes of dfi.Quadrature, or leave integration='auto'"
    ):
        explain(X, y, wrapped(model), integration=four)


def test_draws_are_kept_and_only_their_bias_is_said():
    X, y = step_table("continuous")
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    found = explain(X, y, model, integration=dfi.Quadrature("draws"))
    assert found.diagnostics["lines"] == "quadrature (50 random draws)"
    three = dfi.Quadrature("draws", nodes=3)
    few, said = told_error(lambda: explain(X, y, model, integration=three))
    assert few.diagnostics["lines"] == "quadrature (3 random draws)"
    assert said == pytest.approx(few.diagnostics["quadrature"]["share_of_score"], abs=6e-4)
    # averaging m draws before squaring adds a score's own size over m; one set of draws tells it
    # to within 0.15
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuadratureWarning)
        found = [explain(X, y, model, integration=three, random_state=seed) for seed in range(8)]
    shares = [result.diagnostics["quadrature"]["share_of_score"] for result in found]
    assert np.mean(shares) == pytest.approx(1 / 3, rel=0.5)


@pytest.mark.parametrize(
    "options", [{"integration": dfi.Quadrature("draws")}, {"transport": "bridge"}]
)
def test_checking_does_not_spend_the_seeds(options, monkeypatch):
    if "transport" in options:
        options = {"transport": dfi.transports.Gaussian(epsilon=0.5, n_draws=1, n_smoothing=4)}
    X, _ = step_table("continuous", 60)

    def function(rows):
        return np.sin(rows[:, 0]) + rows[:, 1] ** 2

    y = function(X) + 0.1 * X[:, 2]
    checked = explain(X, y, function, **options)
    monkeypatch.setattr(scoring, "_settled", lambda prepared, *_: (prepared, None))
    unchecked = explain(X, y, function, **options)
    assert "quadrature" in checked.diagnostics
    assert "quadrature" not in unchecked.diagnostics
    assert checked.diagnostics["lines"] == unchecked.diagnostics["lines"]
    np.testing.assert_array_equal(checked.influence, unchecked.influence)


class Whitening:
    """The Gaussian transport as a user's own, so curves are lines."""

    reference = "gaussian"

    def fit(self, X):
        self.center, self.scale = X.mean(axis=0), X.std(axis=0)
        values, vectors = np.linalg.eigh(np.corrcoef(X.T))
        self.root = (vectors * np.sqrt(values)) @ vectors.T

    def encode(self, X):
        return (X - self.center) / self.scale @ np.linalg.inv(self.root)

    def decode(self, Z):
        return self.center + (Z @ self.root) * self.scale


def test_curves_take_as_many_nodes_as_lines():
    X, y = step_table("continuous")

    def function(rows):
        # a step of the sum: coarse nodes see it badly
        return 3.0 * (rows.sum(axis=1) > 0.8)

    straight, curved = (
        explain(X, y, function, transport=transport, transport_error="ignore")
        for transport in (
            dfi.transports.Gaussian(reference="gaussian", components=None),
            Whitening(),
        )
    )
    first, second = (result.diagnostics["quadrature"] for result in (straight, curved))
    assert first["n_nodes"] == second["n_nodes"]
    assert first["error"] == pytest.approx(second["error"], rel=1e-6, abs=1e-9)
    assert curved.diagnostics["lines"] == f"curves ({second['n_nodes']} equal nodes)"
    np.testing.assert_allclose(straight.latent.scores, curved.latent.scores, rtol=1e-8)
    # the jackknife of the transport goes on with them
    explain(X, y, function, transport=Whitening())


def test_order_of_rows_columns_and_workers_do_not_matter():
    X, y = step_table("integers")
    model = XGBRegressor(n_estimators=10, max_depth=3).fit(X, y)
    first = explain(X, y, wrapped(model))
    rows = np.random.default_rng(1).permutation(N)
    shuffled = explain(X[rows], y[rows], wrapped(model))
    assert shuffled.diagnostics["lines"] == first.diagnostics["lines"]
    np.testing.assert_allclose(shuffled.scores, first.scores, rtol=1e-8)
    columns = [2, 0, 3, 1]
    turned = explain(X[:, columns], y, lambda A: model.predict(A[:, np.argsort(columns)]))
    assert turned.diagnostics["lines"] == first.diagnostics["lines"]
    np.testing.assert_allclose(turned.scores, first.scores[columns], rtol=1e-6)

    learner = KNeighborsRegressor(3)
    one, two = (
        dfi.explain(X[:90], y[:90], estimator=learner, cv=3, diagnose=False, n_jobs=jobs)
        for jobs in (1, 2)
    )
    assert one.diagnostics["quadrature"] == two.diagnostics["quadrature"]
    np.testing.assert_array_equal(one.influence, two.influence)


def checked_rows(n=100):
    rng = np.random.default_rng(0)
    fold = FoldModels(0, np.arange(n), (), np.random.SeedSequence(0))
    y = rng.standard_normal(n)
    weights = Weights(np.ones(n), "frequency")
    return CheckedRows.of([fold], [y], rng.standard_normal((n, 2)), y, weights, 2)


def rule_of(nodes):
    return f"quadrature ({nodes(32)} nodes)"


def test_nodes_double_until_the_score_stands_still():
    checked = checked_rows()
    rng = np.random.default_rng(1)
    base = 1.0 + rng.standard_normal((len(checked.mass), 2))

    def evaluate(nodes):
        return base * [1.0, 1.0 + 3.0 / nodes(32)]

    # off by 3/m: a change of 1 % at 3 (1/m - 1/(2m - 1)) = .01 (or a tenth of a standard error)
    nodes, error = settle_nodes(evaluate, rule_of, checked, asked=False)
    assert nodes(32) == 249
    assert error.error <= AGREES
    assert error.rule == "quadrature (249 nodes)"
    assert error.finer_rule == "quadrature (497 nodes)"
    error.say()


def test_what_no_number_of_nodes_resolves_is_said():
    checked = checked_rows()
    base = np.ones((len(checked.mass), 1))

    def evaluate(nodes):
        return base * (1.0 + 30.0 / nodes(32))

    nodes, error = settle_nodes(evaluate, rule_of, checked, asked=False)
    assert nodes(32) == 497
    # what is left is 30/497 = 6.0 %, the last change 30/249 - 30/497 relative to 1.06
    assert error.share == pytest.approx(30 / 497, rel=0.1)
    message = (
        r"line means by quadrature \(497 nodes\) are not accurate: a score changes by 5\.7 % .* "
        "with half as many, on 100 rows: the model has steps that more nodes do not resolve"
    )
    with pytest.warns(QuadratureWarning, match=message):
        error.say()
    nodes, error = settle_nodes(evaluate, rule_of, checked, asked=True)
    assert nodes is same
    assert error.finer_rule == "quadrature (125 nodes)"


def test_a_score_of_nothing_is_not_refined_for_rounding():
    checked = checked_rows()
    rng = np.random.default_rng(2)

    def evaluate(nodes):
        return 1e-17 * rng.standard_normal((len(checked.mass), 3))

    nodes, error = settle_nodes(evaluate, rule_of, checked, asked=False)
    assert nodes is same
    assert error.error < 1e-6


def test_checked_rows_count_as_often_as_they_weigh():
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, 50)
    X, y = rng.standard_normal((50, 2)), rng.standard_normal(50)
    fold = FoldModels(0, np.arange(50), (), np.random.SeedSequence(0))
    counted = CheckedRows.of([fold], [y], X, y, Weights(counts.astype(float), "frequency"), 200)
    rows = np.repeat(np.arange(50), counts)
    fold = replace(fold, test=np.arange(len(rows)))
    ones = Weights(np.ones(len(rows)), "frequency")
    repeated = CheckedRows.of([fold], [y[rows]], X[rows], y[rows], ones, 200)
    share = np.bincount(counted.rows[0], counted.mass, minlength=50)
    np.testing.assert_allclose(
        share, np.bincount(rows[repeated.rows[0]], repeated.mass, minlength=50)
    )
    assert counted.total == repeated.total == counts.sum()
    assert not share[counts == 0].any()


def test_finer_nodes_are_others():
    for times in range(4):
        first, second = doubled(times)(32), doubled(times + 1)(32)
        reference = Reference.gaussian()
        nodes, finer = (equal_nodes(reference, 0, m)[0] for m in (first, second))
        shared = np.abs(nodes[:, None] - finer).min(axis=1) < 1e-9
        # two odd rules have the median in common, nothing else
        assert shared.sum() <= 1
    assert [doubled(k)(32) for k in range(6)] == [32, 63, 125, 249, 497, 512]
    assert doubled(3)(600) == 600
    assert more_than(8) == 125
    assert more_than(100) == 397


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(6, 70),
    kind=st.sampled_from(["normal", "skewed", "clusters", "tied"]),
    weighted=st.booleans(),
)
def test_nodes_of_an_empirical_law_are_its_values(seed, m, kind, weighted):
    """Mean and variance of the law; at its values, where models jump, unless tails are too far."""
    rng = np.random.default_rng(seed)
    values = {
        "normal": rng.standard_normal(120),
        "skewed": rng.exponential(size=120) ** 2,
        "clusters": rng.integers(0, 3, 120) + 0.01 * rng.standard_normal(120),
        "tied": rng.integers(0, 40, 120).astype(float),
    }[kind][:, None]
    mass = rng.uniform(0.2, 2.0, 120) if weighted else np.ones(120)
    nodes, weights = equal_nodes(Reference.empirical(values, mass), 0, m)
    mean = np.average(values[:, 0], weights=mass)
    variance = np.average((values[:, 0] - mean) ** 2, weights=mass)
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).all()
    assert weights @ nodes == pytest.approx(mean, abs=1e-9)
    assert weights @ (nodes - mean) ** 2 == pytest.approx(variance)
    assert len(nodes) <= m
    if kind in ("normal", "tied") and m >= 20:
        assert np.isin(nodes, values).all()


def test_values_that_differ_by_rounding_are_one():
    values = np.array([0.0, 1.0, 1.0 + 1e-15, 2.0, 0.0])[:, None]
    nodes, weights = equal_nodes(Reference.empirical(values), 0, 4)
    np.testing.assert_allclose(nodes, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(weights, [0.4, 0.4, 0.2])
