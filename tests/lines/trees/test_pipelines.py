"""Trees behind encoders are exact where a column is decoded from one number, and say so if not."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeRegressor

import dfi
from dfi._data.table import read_table
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.trees.model import TreeLines, largest_error
from dfi._models.predictor import predictor_for
from dfi.warnings import ExactnessWarning

from .conftest import make_lines, neighbours_in_float32, twin

ONE_HOT, ORDINAL = OneHotEncoder, OrdinalEncoder
LEVELS = ["sex", "smoker"]


@pytest.fixture(scope="module")
def people():
    """Two numbers, a string of two levels and a boolean, with interactions."""
    rng = np.random.default_rng(3)
    age, dose = 40 + 12 * rng.standard_normal(160), rng.standard_normal(160)
    male, smoker = rng.random(160) < 0.4, dose + rng.standard_normal(160) > 0
    frame = pd.DataFrame(
        {"age": age, "sex": np.where(male, "m", "f"), "smoker": smoker, "dose": dose}
    )
    y = 0.05 * age + np.where(male, dose, -2.0) + 1.5 * smoker + 0.1 * rng.standard_normal(160)
    return frame, y


def encoded(encoder, columns=LEVELS, **options):
    scaler = make_pipeline(SimpleImputer(), StandardScaler())
    return ColumnTransformer(
        [("number", scaler, ["dose"]), ("level", encoder, columns)],
        remainder="passthrough",
        **options,
    )


def forest():
    return RandomForestRegressor(4, min_samples_leaf=6, random_state=0)


def boosting():
    return GradientBoostingRegressor(n_estimators=6, random_state=0)


def histogram():
    return HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=8)


def chosen(model, frame):
    table = read_table(frame)
    predictor = predictor_for(model, table, prefit=True)
    return predictor, line_model(predictor, table.matrix, Quadrature())


def where_it_switches(model, table):
    """Every place at which a prediction may change: found without the code under test."""
    scaler = model[0].named_transformers_["number"][-1]
    centre, scale = float(scaler.mean_[0]), float(scaler.scale_[0])
    final = model[-1]
    if isinstance(final, HistGradientBoostingRegressor):
        nodes = np.concatenate([p.nodes for (p,) in final._predictors])
        cuts = nodes["num_threshold"][nodes["is_leaf"] == 0]
    else:
        trees = np.ravel(final.estimators_)
        cuts = np.concatenate([t.tree_.threshold[t.tree_.feature >= 0] for t in trees])
    age, sex, smoker, dose = (table.names.index(n) for n in ("age", "sex", "smoker", "dose"))
    splits = [(sex, 0.5), (smoker, 0.5)]
    for cut in np.unique(cuts):
        for place in neighbours_in_float32(cut):
            splits += [(age, place), (dose, centre + scale * place)]
    return splits


ENCODERS = {
    "one hot": lambda: ONE_HOT(),
    "one hot dense": lambda: ONE_HOT(sparse_output=False),
    "drop first": lambda: ONE_HOT(drop="first"),
    "drop if binary": lambda: ONE_HOT(drop="if_binary", sparse_output=False),
    "drop a level": lambda: ONE_HOT(drop=["m", False]),
    "other order": lambda: ONE_HOT(categories=[["m", "f"], [False, True]]),
    "more levels": lambda: ONE_HOT(
        categories=[["x", "m", "f"], [False, True]], handle_unknown="ignore"
    ),
    "rare": lambda: ONE_HOT(min_frequency=70, handle_unknown="infrequent_if_exist"),
    "ordinal": lambda: ORDINAL(),
    "ordinal reversed": lambda: ORDINAL(categories=[["m", "f"], [False, True]]),
    "ordinal unknown": lambda: ORDINAL(handle_unknown="use_encoded_value", unknown_value=-1),
    "imputed": lambda: make_pipeline(SimpleImputer(strategy="most_frequent"), ONE_HOT()),
    "scaled": lambda: make_pipeline(ONE_HOT(sparse_output=False), StandardScaler()),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_of_two_levels_stay_exact(name, people):
    """The law along lines is the engine's: one is enough to see what an encoder is read as."""
    frame, y = people
    model = make_pipeline(encoded(ENCODERS[name]()), forest()).fit(frame, y)
    assert_exact(model, frame, "empirical")


@pytest.mark.parametrize("learner", [boosting, histogram])
@pytest.mark.parametrize("encoder", [ONE_HOT, ORDINAL])
def test_boosting_behind_encoders_stays_exact(learner, encoder, people, kind):
    frame, y = people
    dense = encoded(encoder(), sparse_threshold=0)
    assert_exact(make_pipeline(dense, learner()).fit(frame, y), frame, kind)


def assert_exact(model, frame, kind):
    predictor, found = chosen(model, frame)
    assert isinstance(found, TreeLines)
    table = predictor.table
    # Some rows off the levels, where lines pass.
    points = table.matrix[:3].copy()
    points[1, 1], points[2, 2] = 0.3, 1.7
    lines = make_lines(points, kind=kind, q=1)
    truth = twin(predictor, where_it_switches(model, table), lines)
    moments = found.moments(lines)
    np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["one hot", "ordinal reversed"])
def test_levels_switch_where_the_table_decodes_them_to_the_last_bit(name, people):
    frame, y = people
    model = make_pipeline(encoded(ENCODERS[name]()), forest()).fit(frame, y)
    predictor, found = chosen(model, frame)
    rows = predictor.table.matrix
    for position in (1, 2):
        for value in (-1.5, 0.2, np.nextafter(0.5, 0), 0.5, np.nextafter(0.5, 1), 0.7, 9.0):
            moved = rows.copy()
            moved[:, position] = value
            np.testing.assert_allclose(found.predict(moved), predictor(moved), rtol=1e-12)
    assert not np.allclose(predictor(moved), predictor(rows))


def test_columns_in_another_order_are_found_by_name(people):
    frame, y = people
    model = make_pipeline(encoded(ONE_HOT()), forest()).fit(frame, y)
    assert_exact(model, frame[["sex", "dose", "smoker", "age"]].iloc[:, [1, 0, 2, 3]], "empirical")


def test_an_array_of_objects_is_followed_by_position(people):
    frame, y = people
    rows = frame.to_numpy(dtype=object)
    transformer = ColumnTransformer([("level", ONE_HOT(), [1, 2])], remainder="passthrough")
    model = make_pipeline(transformer, forest()).fit(rows, y)
    predictor, found = chosen(model, rows)
    assert isinstance(found, TreeLines)
    np.testing.assert_allclose(found.predict(predictor.table.matrix), model.predict(rows))


def test_categories_search_probabilities_and_votes(people):
    frame, y = people
    typed = frame.assign(sex=pd.Categorical(frame["sex"], categories=["m", "f"]))
    plain = make_pipeline(encoded(ONE_HOT()), forest())
    lines = make_lines(read_table(typed).matrix[:3], kind="empirical", q=1)
    models = {
        "typed": plain.fit(typed, y),
        "search": GridSearchCV(plain, {"randomforestregressor__max_depth": [2, 3]}, cv=2),
        "class": make_pipeline(encoded(ORDINAL()), GradientBoostingClassifier(n_estimators=4)),
    }
    for name, model in models.items():
        model.fit(typed, y > 1 if name == "class" else y)
        predictor, found = chosen(model, typed)
        assert isinstance(found, TreeLines), name
        moments = found.moments(lines)
        np.testing.assert_allclose(moments.mean, twin(predictor, (), lines)[0], atol=1e-9)
    vote = VotingRegressor([("a", plain), ("b", make_pipeline(encoded(ORDINAL()), boosting()))])
    predictor, found = chosen(vote.fit(typed, y), typed)
    assert found.rule == "exact: 4 trees + exact: 6 trees"
    moments = found.moments(lines)
    np.testing.assert_allclose(moments.mean, twin(predictor, (), lines)[0], atol=1e-9)


def test_integers_encoded_in_order_are_thresholds(people):
    frame, y = people
    ward = np.random.default_rng(0).choice([1, 2, 5, 9], size=len(frame))
    frame = frame.assign(ward=ward)
    columns = [*LEVELS, "ward"]
    model = make_pipeline(encoded(ORDINAL(), columns), forest()).fit(frame, y + (ward > 2))
    predictor, found = chosen(model, frame)
    assert isinstance(found, TreeLines)
    lines = make_lines(predictor.table.matrix[:3], kind="empirical", q=2)
    np.testing.assert_allclose(
        found.moments(lines).mean, twin(predictor, (), lines)[0], rtol=0, atol=1e-9
    )
    model = make_pipeline(encoded(ONE_HOT(), columns), forest()).fit(frame, y + 3 * (ward == 5))
    assert_quadrature(model, frame, r"column 'ward' is encoded by value.*its 4 values")


def assert_quadrature(model, frame, reason):
    with pytest.warns(ExactnessWarning, match=reason):
        _, found = chosen(model, frame)
    assert found.rule == "quadrature (32 equal-probability nodes)"


@pytest.fixture(scope="module")
def regions(people):
    frame, y = people
    region = np.random.default_rng(1).choice(["east", "north", "west"], size=len(frame))
    return frame.assign(region=region), y + 2.0 * (region == "north")


@pytest.mark.parametrize("learner", [forest, boosting, histogram])
@pytest.mark.parametrize("encoder", [ONE_HOT, ORDINAL])
def test_three_levels_are_followed_piece_by_piece(encoder, learner, regions):
    frame, y = regions
    dense = encoded(encoder(), [*LEVELS, "region"], sparse_threshold=0)
    model = make_pipeline(dense, learner()).fit(frame, y)
    predictor, found = chosen(model, frame)
    assert isinstance(found, TreeLines)
    assert len(found.categories) == 1
    for q in (1, 2):
        lines = make_lines(predictor.table.matrix[:4], kind="empirical", q=q)
        truth = twin(predictor, (), lines)
        moments = found.moments(lines)
        np.testing.assert_allclose(moments.mean, truth[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(moments.hermite, truth[1], rtol=0, atol=1e-9)


def test_three_levels_that_no_split_asks_for_do_no_harm(regions):
    frame, y = regions
    transformer = ColumnTransformer(
        [("number", "passthrough", ["dose"]), ("level", ONE_HOT(), LEVELS)]
    )
    model = make_pipeline(transformer, forest()).fit(frame, y)
    predictor, found = chosen(model, frame)
    assert isinstance(found, TreeLines)
    lines = make_lines(predictor.table.matrix[:3], kind="empirical", q=1)
    np.testing.assert_allclose(
        found.moments(lines).mean, twin(predictor, (), lines)[0], rtol=0, atol=1e-9
    )


def flipped(rows):
    return rows.replace({"f": "m", "m": "f"})


UNFOLLOWED = {
    "products": (
        lambda: make_pipeline(
            encoded(ONE_HOT(), sparse_threshold=0), PolynomialFeatures(), forest()
        ),
        "PolynomialFeatures does not act",
    ),
    "function": (
        lambda: make_pipeline(
            encoded(make_pipeline(FunctionTransformer(flipped), ONE_HOT())), forest()
        ),
        "FunctionTransformer does not act",
    ),
    "target": (
        lambda: make_pipeline(encoded(TargetEncoder(cv=2)), forest()),
        "TargetEncoder does not act",
    ),
    "encoded numbers": (
        lambda: make_pipeline(
            encoded(ONE_HOT()),
            ORDINAL(handle_unknown="use_encoded_value", unknown_value=-1),
            forest(),
        ),
        "OrdinalEncoder does not act",
    ),
}


@pytest.mark.parametrize("name", UNFOLLOWED)
def test_other_steps_keep_quadrature_and_say_why(name, people):
    frame, y = people
    make, reason = UNFOLLOWED[name]
    assert_quadrature(make().fit(frame, y), frame, reason)


def test_a_declared_level_that_no_row_has_is_never_met(people):
    frame, y = people
    model = make_pipeline(encoded(ONE_HOT()), forest()).fit(frame, y)
    women = frame[frame["sex"] == "f"]
    for declared in (["f", "x"], ["f", "m"], ["f"]):
        typed = women.assign(sex=pd.Categorical(women["sex"], declared))
        assert isinstance(chosen(model, typed)[1], TreeLines)


def test_a_pipeline_that_is_not_its_steps_is_noticed(people):
    class Shifted(DecisionTreeRegressor):
        def predict(self, rows):
            return super().predict(rows) + 0.01 * (np.asarray(rows)[:, 1] > 0)

    frame, y = people
    dense = encoded(ONE_HOT(), sparse_threshold=0)
    model = make_pipeline(dense, Shifted(max_depth=3)).fit(frame, y)
    assert_quadrature(model, frame, "differ from the model's own predictions")


@pytest.mark.parametrize(
    ("learner", "rule"),
    [(LinearRegression(), "closed form (linear)"), (KNeighborsRegressor(), "quadrature")],
)
def test_other_models_behind_encoders_are_left_in_silence(learner, rule, people):
    frame, y = people
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, found = chosen(make_pipeline(encoded(ONE_HOT()), learner).fit(frame, y), frame)
    assert found.rule.startswith(rule)


@pytest.mark.filterwarnings("ignore::dfi.warnings.TransportWarning")
@pytest.mark.parametrize("encoder", [ONE_HOT, ORDINAL])
def test_explained_scores_are_those_of_many_nodes(encoder, people):
    frame, y = people
    model = make_pipeline(encoded(encoder()), forest()).fit(frame, y)
    frame, y = frame[:60], y[:60]
    exact = dfi.explain(frame, y, model, cv="prefit", random_state=0)
    many = dfi.explain(
        frame,
        y,
        model,
        cv="prefit",
        random_state=0,
        integration=dfi.Quadrature("equal", nodes=3000),
    )
    scale = np.abs(np.asarray(many.scores)).max()
    np.testing.assert_allclose(exact.scores, many.scores, rtol=0, atol=1e-3 * scale)


def test_a_wrong_place_between_two_levels_is_noticed(people):
    frame, y = people
    model = make_pipeline(encoded(ONE_HOT()), forest()).fit(frame, y)
    predictor, found = chosen(model, frame)
    rows = predictor.table.matrix
    wrong = np.where(found.ensemble.feature == 1, 0.6, found.ensemble.threshold)
    shifted = replace(found, ensemble=replace(found.ensemble, threshold=wrong))
    np.testing.assert_allclose(shifted.predict(rows), predictor(rows))
    assert largest_error(found, predictor, rows) <= found.ensemble.tolerance
    assert largest_error(shifted, predictor, rows) > 1e-3
