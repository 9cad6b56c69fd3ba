"""Groups, categorical columns, weights, frames and degenerate tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi._data.folds import Fold
from dfi._data.table import read_table
from dfi._learners.stack import SuperLearner
from dfi._models.predictor import forest_values, is_plain_forest
from dfi._models.submodels import (
    FixedStack,
    least_squares,
    least_squares_submodels,
    submodel_learner,
    subtable,
)
from dfi.methods import CPI, DLOCO, LOCO, NLOCO, PFI, Shapley, Sobol
from dfi.warnings import ConstantColumnWarning


@pytest.fixture(scope="module")
def mixed() -> tuple[pd.DataFrame, np.ndarray]:
    """y = x + effect of colour (0, 1, 2) + noise; colour depends on x, z is null."""
    generator = np.random.default_rng(0)
    n = 1200
    x = generator.standard_normal(n)
    latent = 0.8 * x[:, None] * [-1, 0, 1] + generator.gumbel(size=(n, 3))
    code = latent.argmax(axis=1)
    frame = pd.DataFrame(
        {
            "x": x,
            "colour": pd.Categorical.from_codes(code, ["red", "green", "blue"]),
            "flag": generator.random(n) < 0.3,
            "z": generator.standard_normal(n),
        }
    )
    y = x + code + 0.5 * generator.standard_normal(n)
    return frame, y


def test_categorical_columns_are_units_of_every_method(mixed: Any) -> None:
    frame, y = mixed
    found = dfi.compare(frame, y, estimator="linear", cv=3)
    for key, result in found.results.items():
        assert result.names == ("x", "colour", "flag", "z"), key
        assert result.scores[1] > 5 * result.se[1], key
        assert abs(result.scores[3]) < 4 * result.se[3] + 1e-3, key
    # classified: the conditional variance, as LOCO finds it by refitting
    loco, cpi = found["loco"], found["cpi"]
    assert abs(loco.scores[1] - cpi.scores[1]) < 3 * np.hypot(loco.se[1], cpi.se[1])
    assert cpi.diagnostics["monte_carlo_se"][1] == 0.0
    assert found["nloco"].scores[1] == pytest.approx(loco.scores[1] / y.var())


def test_groups_are_left_out_and_moved_as_one(mixed: Any) -> None:
    frame, y = mixed
    groups = {"signal": ["x", "colour"], "noise": ["flag", "z"]}
    found = dfi.compare(frame, y, estimator="linear", cv=3, feature_groups=groups)
    for key, result in found.results.items():
        assert result.names == ("signal", "noise"), key
        assert result.scores[0] > 5 * result.se[0], key
    # the whole explained variance, whichever way the group is taken out
    explained = found["loco"].quality.outcome_variance - found["loco"].quality.mse
    for key in ("loco", "cpi", "shapley"):
        assert abs(found[key].scores[0] - explained) < 4 * found[key].se[0], key
    assert found["dfi"].space == "group"


def test_a_group_of_all_features_is_worth_the_explained_variance() -> None:
    sample = dfi.datasets.m1(400, d=3)
    found = dfi.compare(
        sample.X, sample.y, estimator="linear", feature_groups={"all": [0, 1, 2]}, cv=4
    )
    for key in ("loco", "cpi", "dloco", "shapley", "sobol_total", "r2_lmg", "r2_genizi"):
        result = found[key]
        assert abs(result.scores[0] - 25.0) < 4 * result.se[0], key
    assert found["pcm"].scores[0] > 5


def test_one_feature() -> None:
    sample = dfi.datasets.m1(400, d=2, rho=0.0)
    found = dfi.compare(sample.X[:, :1], sample.y, estimator="linear", cv=4)
    for key in ("dfi", "loco", "cpi", "dloco", "shapley", "sobol_total", "r2_lmg"):
        assert abs(found[key].scores[0] - 25.0) < 4 * found[key].se[0], key


def test_columns_outside_of_all_groups_keep_their_share() -> None:
    sample = dfi.datasets.m1(400, d=3, rho=0.8)
    whole = dfi.compare(sample.X, sample.y, ["shapley", "r2"], estimator="linear")
    part = dfi.compare(
        sample.X, sample.y, ["shapley", "r2"], estimator="linear", feature_groups={"a": ["x0"]}
    )
    for key in whole.results:
        assert part[key].scores[0] == pytest.approx(whole[key].scores[0])


def test_overlapping_groups_are_refused_by_methods_that_share() -> None:
    sample = dfi.datasets.m1(100, d=3)
    groups = {"a": ["x0", "x1"], "b": ["x1", "x2"]}
    with pytest.raises(ValueError, match="groups 'a' and 'b' have a feature in common"):
        dfi.compare(sample.X, sample.y, "shapley", estimator="linear", feature_groups=groups)
    found = dfi.compare(sample.X, sample.y, estimator="linear", feature_groups=groups)
    assert "loco" in found.results
    assert "shapley" not in found.results
    skipped = {record.name: record.skipped for record in found.methods}
    assert "feature in common" in (skipped["shapley"] or "")
    assert skipped["loco"] is None


def test_constant_columns_score_zero_without_error() -> None:
    sample = dfi.datasets.m1(200, d=3)
    X = np.column_stack([sample.X, np.ones(200)])
    with pytest.warns(ConstantColumnWarning, match="'x3'"):
        found = dfi.compare(X, sample.y, estimator="linear", cv=3)
    for key, result in found.results.items():
        assert result.scores[3] == 0.0, key
        assert np.isnan(result.se[3]), key


@pytest.mark.parametrize("learner", ["linear", "boosting"])
def test_a_constant_column_changes_no_other_score(learner: str) -> None:
    """The mean of equal numbers is off by a last digit, and nothing may be divided by that."""
    sample = dfi.datasets.m1(150, d=3)
    methods = [PFI(n_permutations=5), DLOCO(n_partners=5), Sobol(n_compositions=3), LOCO()]
    without = dfi.compare(sample.X, sample.y, methods, estimator=learner, cv=3)
    for value in (0.1, 1.0, 1e7 / 3):
        X = np.column_stack([sample.X, np.full(150, value)])
        with pytest.warns(ConstantColumnWarning):
            found = dfi.compare(X, sample.y, methods, estimator=learner, cv=3)
        for key, result in without.items():
            np.testing.assert_allclose(
                found[key].scores[:3], result.scores, rtol=1e-8, atol=1e-10, err_msg=key
            )


def test_a_column_that_is_constant_in_training_says_nothing_elsewhere() -> None:
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.standard_normal(90), np.full(90, 0.1)])
    y = X[:, 0] + generator.standard_normal(90)
    model = least_squares(X, y, np.ones(90), np.arange(2))
    row = np.array([[0.5, 0.1], [0.5, 3.1]])
    assert np.ptp(model(row)) == 0.0
    X[60:, 1] = 3.1
    fold = Fold(np.arange(60), np.arange(60, 90))
    both, alone = least_squares_submodels(X, y, np.ones(90), fold, [[0, 1], [0]]).T
    np.testing.assert_allclose(both, alone, rtol=1e-12)


def test_residual_normalisation_takes_categorical_columns(mixed: Any) -> None:
    frame, y = mixed
    found = dfi.compare(frame, y, NLOCO(normalize="residual"), estimator="linear", cv=3)["nloco"]
    assert found.scores[0] == pytest.approx(1.0, abs=4 * found.se[0])


def test_weights_reach_every_method() -> None:
    """Rows of weight 0 carry another model: they must not matter."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((600, 2))
    y = 2 * X[:, 0] + 0.5 * generator.standard_normal(600)
    y[400:] = 5 * X[400:, 1]
    weight = np.where(np.arange(600) < 400, 1.0, 0.0)
    found = dfi.compare(X, y, estimator="linear", sample_weight=weight, cv=3)
    for key in ("dfi", "loco", "cpi", "dloco", "shapley", "sobol_total", "r2_genizi", "pfi"):
        result = found[key]
        truth = 8.0 if key == "pfi" else 4.0
        assert abs(result.scores[0] - truth) < 4 * result.se[0], key
        assert abs(result.scores[1]) < 0.1, key


def test_submodels_keep_frames_and_levels(mixed: Any) -> None:
    frame, _ = mixed
    table = read_table(frame)
    small = subtable(table, (1, 3))
    assert small.names == ("colour", "z")
    back = small.frame(small.matrix[:5])
    pd.testing.assert_frame_equal(back, frame[["colour", "z"]].head(5))


def test_submodels_of_a_stack_keep_its_weights() -> None:
    sample = dfi.datasets.m1(80, d=3)
    full = SuperLearner(random_state=0).fit(sample.X, sample.y)
    learner = submodel_learner(SuperLearner(), full)
    assert isinstance(learner, FixedStack)
    assert sum(learner.weights) == pytest.approx(1.0)
    fitted = learner.fit(sample.X[:, :2], sample.y, sample_weight=np.ones(80))
    assert fitted.predict(sample.X[:, :2]).shape == (80,)
    other = LinearRegression()
    assert submodel_learner(other, other) is other


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
def test_forests_are_read_as_they_predict(kind: Any) -> None:
    sample = dfi.datasets.m1(150, d=3)
    forest = kind(20, random_state=0).fit(sample.X[:100], sample.y[:100])
    assert is_plain_forest(forest)
    np.testing.assert_array_equal(
        forest_values(forest, sample.X[100:]), forest.predict(sample.X[100:])
    )
    both = kind(5).fit(sample.X, np.column_stack([sample.y, sample.y]))
    assert not is_plain_forest(both)


def test_a_learner_of_its_own_for_the_conditional_law() -> None:
    sample = dfi.datasets.m1(300, d=3, rho=0.8)
    found = dfi.compare(
        sample.X,
        sample.y,
        CPI(covariate_estimator=LinearRegression(), n_permutations=20),
        estimator="boosting",
        cv=2,
    )["cpi"]
    assert found.scores[0] > 3 * found.se[0]


def test_tables_come_back_in_the_library_of_the_caller() -> None:
    sample = dfi.datasets.m1(100, d=2)
    frame = pl.DataFrame(sample.X, schema=["a", "b"])
    found = dfi.compare(frame, sample.y, ["loco", Shapley()], estimator="linear")
    assert isinstance(found.table(), pl.DataFrame)
    assert isinstance(found.questions(), pl.DataFrame)
