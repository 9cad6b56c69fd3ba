"""Pairs of features with known scores: closed forms, properties, and what is refused."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import dfi
from dfi._learners.quadratic import QuadraticRidge
from dfi.warnings import InferenceWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi import Interactions
    from dfi._types import Floats

RHO = 0.6

# outcomes without noise, constant columns and strong correlation are meant here
pytestmark = pytest.mark.filterwarnings(
    "ignore::dfi.warnings.LeakWarning",
    "ignore::dfi.warnings.ImplausibleScoreWarning",
    "ignore::dfi.warnings.ConstantColumnWarning",
    "ignore::dfi.warnings.WeakModelWarning",
)


def _columns(n: int, rho: float = RHO, d: int = 3, seed: int = 0) -> Floats:
    correlation = np.eye(d)
    correlation[0, 1] = correlation[1, 0] = rho
    generator = np.random.default_rng(seed)
    return generator.standard_normal((n, d)) @ np.linalg.cholesky(correlation).T


def _found(
    function: Callable[[Floats], Floats], n: int = 2000, rho: float = RHO, **options: object
) -> Interactions:
    X = _columns(n, rho)
    y = function(X) + 0.5 * np.random.default_rng(1).standard_normal(n)
    return dfi.explain(X, y, QuadraticRidge(), diagnose=False, **options).interactions()


def _near(found: Interactions, pair: tuple[str, str], truth: float, most: float = 3.5) -> None:
    estimate = found[pair]
    assert abs(estimate.value - truth) < most * estimate.se, (estimate, truth)


def test_a_product_is_a_pair_and_its_curves_are_not() -> None:
    found = _found(lambda X: X[:, 0] * X[:, 1])
    beyond = ((1 - RHO**2) / (1 + RHO**2)) ** 2
    _near(found.latent, ("x0", "x1"), beyond)
    _near(found, ("x0", "x1"), beyond * (1 - RHO**2 / 2))
    assert found.whole[found.place_of(("x0", "x1"))] == pytest.approx(1 - RHO**2 / 2, abs=0.08)
    np.testing.assert_allclose(found.own[:2], beyond * RHO**2 / 4, atol=0.005)
    # attributed pairs and what features have with themselves add up to the latent pairs
    np.testing.assert_allclose(found.scores.sum() + found.own.sum(), found.latent.scores.sum())
    table = found.table()
    assert table.loc[0, "p_adj"] < 1e-6
    assert (table.loc[1:, "p_adj"] > 0.05).all()


def test_a_curve_seen_through_correlation_is_no_pair() -> None:
    found = _found(lambda X: X[:, 0] ** 2)
    at = found.latent.place_of(("x0", "x1"))
    assert found.latent.whole[at] == pytest.approx(RHO**2, abs=0.06)
    _near(found, ("x0", "x1"), 0.0)
    assert (found.table()["p_adj"] > 0.05).all()


def test_three_features_that_act_together_count_for_each_of_their_pairs() -> None:
    X = _columns(1000, rho=0.0)
    y = X[:, 0] * X[:, 1] * X[:, 2]

    def model(rows: Floats) -> Floats:
        return np.asarray(rows)[:, 0] * np.asarray(rows)[:, 1] * np.asarray(rows)[:, 2]

    found = dfi.explain(X, y, model, cv="prefit", diagnose=False).interactions()
    assert len(found) == 3
    for pair in found:
        _near(found, pair, 1.0)
    assert found.table()["share"].to_numpy() == pytest.approx([1.0, 1.0, 1.0], abs=0.15)


def test_additive_models_have_no_pairs_at_all() -> None:
    X = _columns(300)
    found = dfi.explain(X, X[:, 0] + X[:, 2], "linear", cv=2).interactions()
    np.testing.assert_array_equal(found.scores, 0.0)
    np.testing.assert_array_equal(found.table()["p_adj"], 1.0)
    np.testing.assert_array_equal(found.latent.whole, 0.0)


def test_neither_order_nor_units_of_columns_matter() -> None:
    X = pd.DataFrame(_columns(400, d=4), columns=list("abcd"))
    y = X.a * X.c + X.b + 0.5 * np.random.default_rng(1).standard_normal(400)
    options = {"estimator": QuadraticRidge(), "cv": 2, "diagnose": False}
    first = dfi.explain(X, y, **options).interactions()
    turned = X[["c", "d", "a", "b"]] * [10.0, 1.0, 0.01, 3.0] + [5.0, 0.0, 1.0, -2.0]
    again = dfi.explain(turned, y, **options).interactions()
    for pair in first:
        assert again[pair].value == pytest.approx(first[pair].value, rel=1e-5, abs=1e-7)
        assert again[pair].se == pytest.approx(first[pair].se, rel=1e-4, abs=1e-7)


def test_duplicated_columns_share_evenly() -> None:
    X = _columns(400, rho=0.0)
    X = np.column_stack([X, X[:, 0]])
    y = X[:, 0] * X[:, 1] + 0.5 * np.random.default_rng(1).standard_normal(400)
    found = dfi.explain(X, y, QuadraticRidge(), cv=2, diagnose=False).interactions()
    assert found["x0", "x1"].value == pytest.approx(found["x3", "x1"].value)
    assert found["x0", "x1"].p < 1e-4


def test_a_category_is_one_unit_whatever_its_coding() -> None:
    generator = np.random.default_rng(2)
    X = pd.DataFrame({"a": generator.standard_normal(500), "b": generator.standard_normal(500)})
    X["kind"] = pd.Categorical(generator.choice(list("uvw"), 500))
    y = X.a * (X.kind == "u") * 2 + X.b + 0.3 * generator.standard_normal(500)
    found = dfi.explain(X, y, QuadraticRidge(), cv=2, diagnose=False).interactions()
    assert found.pairs[0] == ("a", "kind")
    # Var of 2 a (1{u} - 1/3)
    _near(found, ("a", "kind"), 4 * 2 / 9)
    coded = X.assign(kind=X.kind.cat.reorder_categories(list("wuv")))
    again = dfi.explain(coded, y, QuadraticRidge(), cv=2, diagnose=False).interactions()
    assert abs(again["a", "kind"].value - found["a", "kind"].value) < found["a", "kind"].se
    assert "several columns" in str(found.spec["standard_errors"])


def test_constant_columns_and_named_pairs() -> None:
    X = np.column_stack([_columns(300), np.ones(300)])
    y = X[:, 0] * X[:, 2]
    result = dfi.explain(X, y, QuadraticRidge(), cv=2, diagnose=False)
    found = result.interactions([("x2", "x0"), ("x0", "x3"), ("x0", "x2")])
    assert set(found) == {("x0", "x2"), ("x0", "x3")}
    assert found["x3", "x0"].value == 0.0
    assert found.n_tested == 6
    every = result.interactions()
    assert found["x0", "x2"].value == pytest.approx(every["x0", "x2"].value)
    # Holm over all pairs of the table, whichever were asked about
    p = found["x0", "x2"].p
    assert found.table()["p_adj"].iloc[0] == pytest.approx(6 * p)


def test_many_features_are_screened() -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 16))
    y = X[:, 14] * X[:, 15] * 2 + X[:, :10].sum(axis=1) + generator.standard_normal(300)
    result = dfi.explain(X, y, QuadraticRidge(), cv=2, diagnose=False)
    found = result.interactions(top=5)
    assert 45 <= len(found) <= 50
    assert found.n_tested == 120
    assert found.pairs[0] == ("x14", "x15")
    assert found.table()["p_adj"].iloc[0] < 0.001
    assert "screened out" in repr(found)


def test_probabilities_and_several_classes_are_scored_by_brier() -> None:
    X = _columns(600, rho=0.0)
    score = 2.0 * X[:, 0] * X[:, 1] + 0.5 * np.random.default_rng(1).standard_normal(600)
    binary = dfi.explain(X, score > 0, "boosting", cv=2, diagnose=False)
    with pytest.warns(InferenceWarning, match="boosted trees learn interactions slowly"):
        found = binary.interactions()
    assert found.pairs[0] == ("x0", "x1")
    assert found["x0", "x1"].p < 1e-4
    labels = np.where(score > 1, "high", np.where(score < -1, "low", "middle"))
    three = dfi.explain(X, labels, LogisticRegression(), cv=2, diagnose=False).interactions()
    assert len(three) == 3


def test_an_additive_model_is_told_in_a_line() -> None:
    X = np.random.default_rng(0).standard_normal((80, 3))
    found = dfi.explain(X, X[:, 0] + np.random.default_rng(1).standard_normal(80), "linear", cv=2)
    assert repr(found.interactions()) == (
        "Interactions: 3 of 3 pairs of 3 features; beyond any sum of single effects; all are 0: "
        "the model adds up functions of single features"
    )


def test_copies_are_equal_and_mappings_are_keyed_by_tuples() -> None:
    found = _found(lambda X: X[:, 0] * X[:, 2], n=300, rho=0.0, cv=2)
    again = pickle.loads(pickle.dumps(found))  # noqa: S301 - our own
    pd.testing.assert_frame_equal(again.table(), found.table())
    assert ("x2", "x0") in found
    assert ("x0", "x0") not in found
    assert "x0" not in found
    assert found.to_shapiq()[0, 2] == pytest.approx(found["x0", "x2"].value)
    assert list(found) == list(found.pairs)
    assert repr(found).startswith("Interactions: 3 of 3")
    assert found.rows()[0]["name"] == "x0 × x2"
    assert found.latent.spec["space"] == "latent"


def test_weights_count_rows_twice() -> None:
    X = _columns(200, rho=0.3)
    y = X[:, 0] * X[:, 2]
    weights = np.random.default_rng(0).integers(1, 3, 200)
    found = dfi.explain(
        X, y, QuadraticRidge(), cv=2, diagnose=False, frequency_weight=weights
    ).interactions()
    assert found.pairs[0] == ("x0", "x2")
    assert found.basis.size == weights.sum()


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ([("x0", "x9")], ValueError, "no unit 'x9'"),
        ([("x0", "x0")], ValueError, "with itself is not a pair"),
        ([], ValueError, "pairs is empty"),
        (("x0", "x1"), TypeError, r"pass pairs=\[\('x0', 'x1'\)\]"),
        ([("x0", "x1", "x2")], TypeError, "a tuple of two names"),
        (["x0"], TypeError, "a tuple of two names"),
    ],
)
def test_pairs_that_are_none_are_refused(
    pairs: object, error: type[Exception], message: str
) -> None:
    result = dfi.explain(_columns(100), _columns(100)[:, 0], "linear", cv=2)
    with pytest.raises(error, match=message):
        result.interactions(pairs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transport": dfi.transports.Gaussian(epsilon=0.5)}, r"blurs rows \(epsilon > 0\)"),
        ({"transport": "knothe-rosenblatt"}, "along straight latent lines"),
        ({"loss": "log-loss", "estimator": LogisticRegression()}, "parts of a variance"),
    ],
)
def test_settings_without_pairs_are_refused(options: dict[str, object], message: str) -> None:
    X = _columns(120)
    result = dfi.explain(X, X[:, 0] > 0, **{"cv": 2, "estimator": "linear"} | options)
    with pytest.raises(ValueError, match=message):
        result.interactions()


def test_results_without_pairs_say_why(tmp_path: object) -> None:
    X = _columns(100)
    result = dfi.explain(X, X[:, 0], "linear", cv=2)
    path = result.save(f"{tmp_path}/result.dfi")
    with pytest.raises(ValueError, match="interactions need the fitted models"):
        dfi.load(path).interactions()
    with pytest.raises(ValueError, match="about latent coordinates"):
        result.latent.interactions()
    with pytest.raises(KeyError, match="was not scored"):
        result.interactions([("x0", "x1")])["x0", "x2"]
    other = dfi.compare(X, X[:, 0], "loco", estimator="linear", cv=2)["loco"]
    with pytest.raises(ValueError, match="of method 'dfi'"):
        other.interactions()
    with pytest.raises(ValueError, match="pairs are of two or more units"):
        dfi.explain(X[:, :1], X[:, 0], "linear", cv=2).interactions()


def test_groups_are_units_of_pairs_unless_they_overlap() -> None:
    X = _columns(300, rho=0.0, d=4)
    y = X[:, 0] * X[:, 2] + 0.5 * np.random.default_rng(0).standard_normal(300)
    result = dfi.explain(X, y, QuadraticRidge(), cv=2, diagnose=False)
    groups = {"first": ["x0", "x1"], "second": ["x2", "x3"]}
    found = result.group(groups, how="joint").interactions()
    assert found.pairs == (("first", "second"),)
    assert found["first", "second"].p < 1e-4
    overlapping = result.group({"one": ["x0", "x1"], "two": ["x1", "x2"]}, how="joint")
    with pytest.raises(ValueError, match="of groups without common columns"):
        overlapping.interactions()
