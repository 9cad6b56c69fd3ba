"""Shares taken apart: closed forms, what adds up, suppressors, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi._learners.quadratic import QuadraticRidge

pytestmark = pytest.mark.filterwarnings(
    "ignore::dfi.warnings.LeakWarning",
    "ignore::dfi.warnings.ImplausibleScoreWarning",
    "ignore::dfi.warnings.ConstantColumnWarning",
    "ignore::dfi.warnings.WeakModelWarning",
)


def _columns(n, rho, d=3, seed=0):
    correlation = np.eye(d)
    correlation[0, 1] = correlation[1, 0] = rho
    rows = np.random.default_rng(seed).standard_normal((n, d))
    # whitened, so closed forms hold for the rows themselves
    rows = (rows - rows.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(rows.T))).T
    return rows @ np.linalg.cholesky(correlation).T


def _by_name(split):
    return split.table().set_index("feature")


def test_one_of_two_correlated_features_has_all_that_is_unique():
    X = _columns(1000, 0.8)
    y = X[:, 0] + 0.5 * np.random.default_rng(1).standard_normal(1000)
    result = dfi.explain(X, y, "linear", diagnose=False)
    split = result.split()
    table = _by_name(split)
    np.testing.assert_allclose(table.loc["x0", ["unique", "shared"]].astype(float), [0.36, 0.32],
                               atol=0.03)  # fmt: skip
    np.testing.assert_allclose(table.loc["x1", ["unique", "shared"]].astype(float), [0.0, 0.32],
                               atol=0.03)  # fmt: skip
    np.testing.assert_allclose(table["interaction"], 0.0, atol=0.01)
    assert table.loc["x0", "partner_1"] == "x1"
    assert table.loc["x0", "amount_1"] == pytest.approx(table.loc["x0", "shared"])
    shares = result.shares().set_index("feature")["share"]
    np.testing.assert_allclose(table["share"], shares[table.index])
    np.testing.assert_allclose(table[["unique", "shared", "interaction"]].sum(axis=1),
                               table["share"])  # fmt: skip
    assert (table["unique_low"] <= table["unique"].clip(0)).all()


def test_a_product_of_independent_features_is_interaction():
    X = _columns(1500, 0.0)
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * np.random.default_rng(1).standard_normal(1500)
    table = _by_name(dfi.explain(X, y, QuadraticRidge(), diagnose=False).split())
    np.testing.assert_allclose(table.loc[["x0", "x1"], "interaction"], 0.25, atol=0.06)
    np.testing.assert_allclose(table.loc["x2", "unique"], 0.5, atol=0.07)
    assert abs(table.loc["x2", "interaction"]) < 0.05
    assert (table.loc[["x0", "x1"], "interaction_low"] > 0).all()


def test_a_curve_under_correlation_is_no_interaction():
    X = _columns(1500, 0.6)
    y = X[:, 0] ** 2 + 0.5 * np.random.default_rng(1).standard_normal(1500)
    table = _by_name(dfi.explain(X, y, QuadraticRidge(), diagnose=False).split())
    np.testing.assert_allclose(table["interaction"], 0.0, atol=0.03)
    # E Var(x0^2 | x1) over Var(x0^2) is 1 - rho^4
    assert table.loc["x0", "unique"] == pytest.approx(1 - 0.6**4, abs=0.06)


def test_suppressors_share_less_than_nothing_and_are_told():
    X = _columns(1000, 0.7)
    y = X[:, 0] - 0.7 * X[:, 1] + 0.2 * np.random.default_rng(1).standard_normal(1000)
    split = dfi.explain(X, y, "linear", diagnose=False).split()
    rows = {row["name"]: row for row in split.rows()}
    # unique: (1 - rho^2) and .49 (1 - rho^2) of a variance of 1 - rho^2
    assert rows["x0"]["unique"] == pytest.approx(1.0, abs=0.03)
    assert rows["x1"]["unique"] == pytest.approx(0.49, abs=0.03)
    assert rows["x1"]["shared_high"] < 0
    assert "a suppressor, worth more with the others" in rows["x1"]["text"]
    assert "suppressor" in repr(split)


def test_duplicated_columns_share_evenly_and_know_nothing_alone():
    X = _columns(400, 0.0)
    X = np.column_stack([X, X[:, 0]])
    y = X[:, 0] + 0.5 * np.random.default_rng(1).standard_normal(400)
    table = _by_name(dfi.explain(X, y, "linear", cv=2, diagnose=False).split())
    np.testing.assert_allclose(table.loc[["x0", "x3"], "unique"], 0.0, atol=1e-9)
    np.testing.assert_allclose(table.loc["x0", "shared"], table.loc["x3", "shared"])
    assert table.loc["x0", "partner_1"] == "x3"


def test_neither_order_nor_units_of_columns_matter():
    X = pd.DataFrame(_columns(400, 0.5, d=4), columns=list("abcd"))
    y = X.a * X.c + X.b + 0.5 * np.random.default_rng(1).standard_normal(400)
    options = {"estimator": QuadraticRidge(), "cv": 2, "diagnose": False}
    first = _by_name(dfi.explain(X, y, **options).split())
    turned = X[["c", "d", "a", "b"]] * [10.0, 1.0, 0.01, 3.0] + [5.0, 0.0, 1.0, -2.0]
    again = _by_name(dfi.explain(turned, y, **options).split()).loc[first.index]
    for key in ("unique", "shared", "interaction", "unique_high"):
        np.testing.assert_allclose(again[key], first[key], rtol=1e-4, atol=2e-6)


def test_categories_missing_values_constants_and_classes():
    generator = np.random.default_rng(2)
    X = pd.DataFrame(generator.standard_normal((400, 3)), columns=["a", "b", "c"])
    X["kind"] = pd.Categorical(generator.choice(list("uvw"), 400))
    X["still"] = 1.0
    X.loc[::9, "c"] = np.nan
    y = X.a + 2 * (X.kind == "u") + 0.5 * generator.standard_normal(400)
    table = _by_name(dfi.explain(X, y, QuadraticRidge(), cv=2, diagnose=False).split())
    assert table.loc["kind", "unique"] == pytest.approx(table.loc["kind", "share"], abs=0.08)
    assert table.loc["still", "share"] == 0.0
    labels = np.where(y > 1, "high", np.where(y < 0, "low", "middle"))
    parted = dfi.explain(X, labels, "boosting", cv=2, diagnose=False).split()
    assert parted.table()["share"].sum() == pytest.approx(1.0)
    again = pickle.loads(pickle.dumps(parted))  # noqa: S301 - our own
    pd.testing.assert_frame_equal(again.table(), parted.table())


def test_a_fitted_model_is_split_too():
    X = _columns(600, 0.8)
    y = X[:, 0] + 0.5 * np.random.default_rng(1).standard_normal(600)

    def model(rows):
        return np.asarray(rows)[:, 0]

    table = _by_name(dfi.explain(X, y, model, cv="prefit", diagnose=False).split())
    assert table.loc["x0", "unique"] == pytest.approx(0.36, abs=0.06)


def test_without_signal_there_are_no_parts():
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((200, 3)), generator.standard_normal(200)
    split = dfi.explain(X, y, "linear", cv=2, diagnose=False).split()
    assert split.table()["unique"].isna().all()
    assert "not clearly above 0" in split.rows()[0]["text"]


def test_results_without_a_split_say_why(tmp_path):
    X = _columns(200, 0.5)
    result = dfi.explain(X, X[:, 0], "linear", cv=2)
    with pytest.raises(ValueError, match="splits need the fitted models"):
        dfi.load(result.save(tmp_path / "result.dfi")).split()
    with pytest.raises(ValueError, match="blurs rows"):
        dfi.explain(X, X[:, 0], "linear", cv=2, transport=dfi.transports.Gaussian(epsilon=0.5)
                    ).split()  # fmt: skip
    with pytest.raises(ValueError, match="splits are of two or more units"):
        dfi.explain(X[:, :1], X[:, 0], "linear", cv=2).split()
    overlapping = result.group({"one": ["x0", "x1"], "two": ["x1", "x2"]}, how="joint")
    with pytest.raises(ValueError, match="groups that share no columns"):
        overlapping.split()


def test_groups_are_units_of_a_split():
    X = _columns(400, 0.6, d=4)
    y = X[:, 0] + X[:, 2] + 0.5 * np.random.default_rng(0).standard_normal(400)
    result = dfi.explain(X, y, "linear", cv=2, diagnose=False)
    groups = {"first": ["x0", "x1"], "second": ["x2", "x3"]}
    table = _by_name(result.group(groups, how="joint").split())
    np.testing.assert_allclose(table["unique"], table["share"], atol=0.06)


def test_rounding_of_an_additive_model_is_no_interaction():
    X = _columns(60, 0.5)
    y = X[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(60)
    split = dfi.explain(X, y, "linear", cv=2, diagnose=False).split()
    table = _by_name(split)
    assert (table[["interaction", "interaction_low", "interaction_high"]] == 0.0).all(axis=None)
    assert "e-1" not in repr(split)
    assert "comes from interactions" not in repr(split)


def test_without_signal_the_split_says_so():
    X = _columns(100, 0.0)
    y = np.random.default_rng(3).standard_normal(100)
    split = dfi.explain(X, y, "linear", cv=2, diagnose=False).split()
    assert "the explained variance: it is not clearly above 0" in repr(split)
    assert repr(split).count("\n") == 0
