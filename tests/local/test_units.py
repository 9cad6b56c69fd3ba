"""Units of several columns as players, and what contributions must not depend on."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfi

QUIET = {"diagnose": False, "transport_error": "ignore", "progress": False}


def factorial(copies=4):
    """Return a table in which a number and a category are independent."""
    cells = list(itertools.product([-1.0, 0.0, 2.0], ["red", "green", "blue"])) * copies
    return pd.DataFrame(cells, columns=["x", "k"])


def regression(X):
    own = X["k"].map({"red": 1.0, "green": -2.0, "blue": 0.5}).to_numpy(dtype=float)
    x = X["x"].to_numpy(dtype=float)
    return x + own + x * own


def test_a_category_that_depends_on_nothing_has_its_shapley_value():
    X = factorial()
    y = regression(X)
    result = dfi.explain(X, y, regression, cv="prefit", **QUIET)
    local = result.local()
    by_cell = X.assign(y=y).groupby("k").y.transform("mean").to_numpy()
    along_x = X.assign(y=y).groupby("x").y.transform("mean").to_numpy()
    interaction = y - by_cell - along_x + y.mean()
    np.testing.assert_allclose(local.values[:, 1], by_cell - y.mean() + interaction / 2, atol=1e-9)
    np.testing.assert_allclose(local.values[:, 0], along_x - y.mean() + interaction / 2, atol=1e-9)
    np.testing.assert_allclose(local.higher_order, 0.0, atol=1e-9)
    assert list(local.features["k"][:3]) == ["red", "green", "blue"]


def mixed(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.standard_normal(n), "b": rng.standard_normal(n)})
    X["b"] += 0.8 * X.a
    X["k"] = np.array(["u", "v", "w"])[np.digitize(X.a + rng.standard_normal(n), [-0.5, 0.6])]
    own = X.k.map({"u": 0.0, "v": 1.0, "w": -1.0})
    y = X.a + own + X.b * own + 0.3 * rng.standard_normal(n)
    return X, y.to_numpy()


def test_names_and_order_of_levels_do_not_matter():
    X, y = mixed()
    names = {"u": "zz", "v": "aa", "w": "mm"}
    recoded = X.assign(k=X.k.map(names))

    def predict(X):
        own = X["k"].map({"u": 0.0, "v": 1.0, "w": -1.0}).to_numpy(dtype=float)
        return X["a"].to_numpy() + own + X["b"].to_numpy() * own

    def renamed(X):
        back = {new: old for old, new in names.items()}
        return predict(X.assign(k=X["k"].astype(object).map(back)))

    first = dfi.explain(X, y, predict, cv="prefit", **QUIET).local(slice(0, 60))
    second = dfi.explain(recoded, y, renamed, cv="prefit", **QUIET).local(slice(0, 60))
    np.testing.assert_allclose(first.values, second.values, atol=1e-9)


def test_what_a_linear_unit_carries_goes_along_its_direction():
    """Cov(total, eta) = sum_b gamma_b' M_ab gamma_b: the scores of a linear regression."""
    X, y = mixed(400)
    explainer = dfi.DFI(estimator="linear", cv=2, **QUIET).fit(X, y)
    model = explainer.models_[0].predictors[0].model
    given_ = dfi.DFI(estimator=model, cv="prefit", **QUIET).fit(X, y)
    local = given_.result_.local()
    transport = given_.transport_
    latent = transport.encode(given_.models_[0].predictors[0].table.matrix)
    centred = local.prediction - local.prediction.mean()
    gamma = latent.T @ centred / len(X)
    root, places = transport.geometry.attribution, transport.inner.places
    truth = [
        sum(float(np.sum((root[np.ix_(a, b)] @ gamma[b]) ** 2)) for b in places) for a in places
    ]
    np.testing.assert_allclose(local.total.T @ centred / len(X), truth, atol=1e-8)


def test_groups_are_players_and_columns_of_no_group_stay():
    X, y = mixed()
    options = {"feature_groups": {"numbers": ["a", "b"]}, "units": "groups"}
    result = dfi.explain(X, y, "linear", cv=2, n_repeats=1, **options, **QUIET)
    local = result.local([0, 9])
    assert local.names == ("numbers", "k")
    np.testing.assert_allclose(local.values.sum(axis=1), local.prediction - local.base, atol=1e-10)
    plain = dfi.explain(X, y, "linear", cv=2, **QUIET)
    regrouped = plain.group({"all": ["a", "b", "k"]}, how="joint").local([0, 9])
    np.testing.assert_allclose(
        regrouped.values[:, 0], regrouped.prediction - regrouped.base, atol=1e-10
    )
    overlapping = {"one": ["a", "b"], "two": ["b", "k"]}
    with pytest.raises(ValueError, match="disjoint groups"):
        plain.group(overlapping, how="joint").local()
    with pytest.raises(ValueError, match="need the fitted models"):
        plain.group({"all": ["a", "b"]}).local()


def test_rare_levels_are_replaced_as_they_are():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.standard_normal(400)})
    X["k"] = np.where(np.arange(400) % 2, "x", "y").astype(object)
    X.loc[[3, 5], "k"] = "rare"
    X.loc[[8, 9], "k"] = "other"

    def predict(X):
        own = X["k"].astype(object).map({"x": 0.0, "y": 1.0, "rare": 5.0, "other": -5.0})
        return X["a"].to_numpy() + own.to_numpy(dtype=float)

    local = dfi.explain(X, predict(X), predict, cv="prefit", **QUIET).local([3, 8, 20])
    np.testing.assert_allclose(local.values.sum(axis=1), local.prediction - local.base, atol=1e-10)
    assert local.values[0, 1] > 4.0
    assert local.values[1, 1] < -4.0


@given(order=st.permutations([0, 1, 2]), scale=st.sampled_from([1.0, 0.01, 1000.0]))
def test_neither_the_order_of_columns_nor_their_units_matter(order, scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.2, 0.0, 1.0]])
    y = X[:, 0] + X[:, 1] * X[:, 2]

    def predict(rows):
        rows = np.asarray(rows)
        return rows[:, 0] + rows[:, 1] * rows[:, 2]

    first = dfi.explain(X, y, predict, cv="prefit", **QUIET).local(slice(0, 10))
    back = np.argsort(order)

    def scaled(rows):
        return predict((np.asarray(rows)[:, back] - 3.0) / scale)

    changed = scale * X[:, order] + 3.0
    second = dfi.explain(changed, y, scaled, cv="prefit", **QUIET).local(slice(0, 10))
    np.testing.assert_allclose(second.values[:, back], first.values, atol=1e-8)


@pytest.mark.full
def test_workers_and_libraries_do_not_matter():
    X, y = mixed()
    first = dfi.explain(X, y, "boosting", cv=2, n_jobs=1, **QUIET).local([0, 5])
    second = dfi.explain(pl.from_pandas(X), y, "boosting", cv=2, n_jobs=2, **QUIET).local([0, 5])
    np.testing.assert_array_equal(first.values, second.values)
    assert isinstance(first.table(), pd.DataFrame)
    assert isinstance(second.table(), pl.DataFrame)
    np.testing.assert_array_equal(second.table()["contribution"].to_numpy(), first.values.ravel())


def test_a_row_does_not_depend_on_the_rows_beside_it():
    X, y = mixed()
    result = dfi.explain(X, y, "auto", cv=2, **QUIET)
    together = result.local(slice(90, 110), refine=2)
    alone = result.local([100], refine=2)
    np.testing.assert_allclose(alone.values[0], together.values[10], atol=1e-12)
    np.testing.assert_allclose(alone.spread[0], together.spread[10], atol=1e-12)


def test_scores_in_normal_space_share_like_features():
    X, _ = mixed()
    bent = np.exp(X[["a", "b"]])

    def predict(rows):
        return np.log(rows["a"].to_numpy()) + 2.0 * np.log(rows["b"].to_numpy())

    result = dfi.explain(bent, predict(bent), predict, cv="prefit", transport="copula", **QUIET)
    local = result.local(slice(0, 50))
    plain = X[["a", "b"]]
    straight = dfi.explain(
        plain, predict(bent), lambda rows: rows["a"].to_numpy() + 2.0 * rows["b"].to_numpy(),
        cv="prefit", transport="copula", **QUIET,
    ).local(slice(0, 50))  # fmt: skip
    np.testing.assert_allclose(local.values.sum(axis=1), local.prediction - local.base, atol=1e-10)
    # normal scores are ranks: a monotone margin changes their interpolation alone
    assert np.corrcoef(local.values[:, 0], straight.values[:, 0])[0, 1] > 0.99


@pytest.mark.parametrize("transport", ["gaussian", "copula"])
@pytest.mark.parametrize("with_category", [False, True])
def test_what_does_not_vary_among_the_rows_of_a_model(transport, with_category):
    """A flag of one row, and levels of two: half models have seen nothing of them."""
    X, y = mixed(120)
    X["flag"] = 0.0
    X.loc[9, "flag"] = 1.0
    X["k"] = "u"
    X.loc[[3, 50], "k"] = "v"
    X.loc[7, "k"] = "w"
    columns = ["a", "b", "flag", *["k"] * with_category]
    result = dfi.explain(X[columns], y, "linear", cv=3, transport=transport, **QUIET)
    local = result.local()
    np.testing.assert_allclose(local.values.sum(axis=1), local.prediction - local.base, atol=1e-10)
