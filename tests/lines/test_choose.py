"""Which average is taken for which model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import RandomForestRegressor, StackingRegressor, VotingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVR

import dfi
from dfi._data.table import read_table
from dfi._learners.stack import SuperLearner
from dfi._lines.base import Lines, Reference
from dfi._lines.choose import Quadrature, is_smooth, line_model
from dfi._lines.quadrature import QuadratureLines
from dfi._models.predictor import predictor_for
from dfi.warnings import ExactnessWarning

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((60, 3))
Y = X[:, 0] + np.sin(X[:, 1]) + 0.1 * GENERATOR.standard_normal(60)


def lines_of():
    latent = GENERATOR.standard_normal((5, 3))
    return Lines(
        X[:5], latent, GENERATOR.standard_normal((3, 3)), Reference.gaussian(), np.zeros((1, 3))
    )


def chosen(model, options=None, table=X, **keywords):
    predictor = predictor_for(model, read_table(table), prefit=True)
    return line_model(predictor, X[:20], options or Quadrature(), **keywords)


def test_rules_by_model():
    assert chosen(LinearRegression().fit(X, Y)).rule == "closed form (linear)"
    assert chosen(make_pipeline(StandardScaler(), Ridge()).fit(X, Y)).rule == "closed form (linear)"
    assert chosen(SVR().fit(X, Y)).rule == "quadrature (16 Gauss nodes)"
    assert chosen(KNeighborsRegressor().fit(X, Y)).rule == (
        "quadrature (32 equal-probability nodes)"
    )
    assert chosen(lambda rows: rows[:, 0]).rule == "quadrature (32 equal-probability nodes)"
    forced = Quadrature("draws", 7)
    assert chosen(LinearRegression().fit(X, Y), forced).rule == "quadrature (7 random draws)"


def test_smoothness():
    assert is_smooth(SVR())
    assert is_smooth(make_pipeline(StandardScaler(), MLPRegressor(activation="tanh")))
    assert not is_smooth(MLPRegressor())
    assert not is_smooth(KNeighborsRegressor())


SUMS = {
    "vote": VotingRegressor([("a", Ridge()), ("b", SVR())], weights=[1, 3]),
    "vote without a member": VotingRegressor([("a", "drop"), ("b", Ridge())], weights=[1, 3]),
    "stack": StackingRegressor([("a", Ridge()), ("b", SVR())], final_estimator=Ridge(), cv=2),
    "super learner": SuperLearner(members=[("a", Ridge()), ("b", SVR())], random_state=0),
    "nested": VotingRegressor(
        [("a", VotingRegressor([("c", Ridge()), ("d", SVR())])), ("b", SVR())]
    ),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("framed", [False, True])
def test_sums_are_sums_of_line_means(name, framed):
    table = pd.DataFrame(X, columns=["a", "b", "c"]) if framed else X
    model = SUMS[name].fit(table, Y)
    found = chosen(model, table=table)
    assert found.rule.startswith("closed form (linear)")
    lines = lines_of()
    whole = predictor_for(model, read_table(table), prefit=True)
    twin = QuadratureLines(whole, "gauss", 16).moments(lines)
    exact = found.moments(lines)
    assert np.allclose(found.predict(X), whole(X))
    assert np.allclose(exact.mean, twin.mean, rtol=1e-8, atol=1e-8)
    assert np.allclose(exact.hermite, twin.hermite, rtol=1e-8, atol=1e-8)


def test_nonlinear_stack_is_not_a_sum():
    model = StackingRegressor([("a", Ridge())], final_estimator=KNeighborsRegressor(), cv=2)
    with pytest.warns(ExactnessWarning, match="final estimator of the stack is not linear"):
        assert chosen(model.fit(X, Y)).rule.startswith("quadrature")


def test_model_that_only_looks_linear_is_not_believed():
    class Clipped(LinearRegression):
        def predict(self, rows):
            return np.clip(super().predict(rows), -0.5, 0.5)

    assert chosen(Clipped().fit(X, Y)).rule.startswith("quadrature")


FOREST = RandomForestRegressor(5, random_state=0)
SCALERS = [None, StandardScaler(), MinMaxScaler((2, 5)), MaxAbsScaler(), RobustScaler()]


def test_a_search_is_read_as_what_it_found():
    """Behind encoders too, where predictions of rows decoded to levels would be less exact."""
    table = pd.DataFrame({"x": X[:, 0], "level": np.where(X[:, 0] + X[:, 1] > 0, "u", "v")})
    pipe = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["level"]), remainder="passthrough"), Ridge()
    )
    search = GridSearchCV(pipe, {"ridge__alpha": [0.1, 1.0]}).fit(table, Y)
    alone = dfi.explain(table, Y, search.best_estimator_, cv="prefit", diagnose=False)
    found = dfi.explain(table, Y, search, cv="prefit", diagnose=False)
    assert found.diagnostics["lines"] == "closed form (linear)"
    np.testing.assert_array_equal(found.scores, alone.scores)
    plain = GridSearchCV(Ridge(), {"alpha": [1.0]}).fit(X, Y)
    assert chosen(plain).rule == "closed form (linear)"


@pytest.mark.parametrize("scaler", SCALERS, ids=lambda scaler: type(scaler).__name__)
def test_a_rescaled_outcome_is_followed_exactly(scaler):
    linear = TransformedTargetRegressor(Ridge(), transformer=scaler).fit(X, 7 + 3 * Y)
    found = chosen(linear)
    assert found.rule == "closed form (linear)"
    np.testing.assert_allclose(found.predict(X), linear.predict(X))
    twin = QuadratureLines(predictor_for(linear, read_table(X), prefit=True), "gauss", 16)
    lines = lines_of()
    np.testing.assert_allclose(found.moments(lines).mean, twin.moments(lines).mean, atol=1e-9)
    forest = TransformedTargetRegressor(FOREST, transformer=scaler).fit(X, 7 + 3 * Y)
    followed = chosen(forest)
    assert "quadrature" not in followed.rule
    np.testing.assert_allclose(followed.predict(X), forest.predict(X))


@pytest.mark.parametrize("model", [FOREST, make_pipeline(StandardScaler(), FOREST)])
def test_trees_of_a_bent_outcome_are_said_to_be_integrated(model):
    bent = TransformedTargetRegressor(model, func=np.cbrt, inverse_func=lambda value: value**3)
    powers = TransformedTargetRegressor(model, transformer=PowerTransformer())
    for transformed in (bent, powers):
        with pytest.warns(ExactnessWarning, match=r"Regressor\(RandomForest.*outcome is transf"):
            assert chosen(transformed.fit(X, Y)).rule.startswith("quadrature")
    # nothing to say where the regression is not made of trees
    smooth = TransformedTargetRegressor(SVR(), func=np.cbrt, inverse_func=lambda value: value**3)
    assert chosen(smooth.fit(X, Y)).rule.startswith("quadrature")


@pytest.mark.parametrize("integration", ["gauss", "exact", 32, None])
def test_integration_is_auto_or_a_quadrature(integration):
    """The name of a rule alone is refused before any model is asked, with what to write."""

    def never(rows):
        raise AssertionError("a model was asked")

    message = (
        r"integration must be 'auto' or a dfi\.Quadrature, got .*: pass e\.g\. "
        r"dfi\.Quadrature\('gauss', nodes=64\)"
    )
    with pytest.raises(TypeError, match=message):
        dfi.explain(X, Y, never, cv="prefit", integration=integration)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "exact"}, "rule must be 'auto', 'equal', 'gauss' or 'draws', got 'exact'"),
        ({"nodes": 0}, "nodes must be a whole number of 1 or more, got 0"),
        ({"nodes": 8.0}, "nodes must be a whole number of 1 or more, got 8.0"),
        ({"memory": 0}, "memory must be a whole number of 1 or more, got 0"),
    ],
)
def test_quadrature_names_what_it_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        dfi.Quadrature(**options)
