"""Learners that name their columns are refitted without some of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, VotingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import dfi
from dfi._models.submodels import NoColumns, narrowed

NAMES = ["age", "size", "region", "shape"]
LEVELS = ["region", "shape"]
NUMBERS = ["age", "size"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 240
    X = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "size": rng.normal(size=n),
            "region": pd.Categorical(rng.choice(list("uvw"), n)),
            "shape": pd.Categorical(rng.choice(list("xy"), n)),
        }
    )
    y = X["age"] + 0.5 * X["size"] + (X["region"] == "u") + 0.3 * rng.normal(size=n)
    return X, y.to_numpy()


def by(levels, numbers, **more):
    """Ridge on one-hot levels and scaled numbers; what is not named is not there."""
    parts = [("levels", OneHotEncoder(), levels), ("numbers", StandardScaler(), numbers)]
    return make_pipeline(ColumnTransformer([p for p in parts if p[2] != []], **more), Ridge())


FULL = {
    "names": by(LEVELS, NUMBERS),
    "places": by([2, 3], [0, 1]),
    "places from the end": by([-2, -1], [0, 1]),
    "masks": by([False, False, True, True], [True, True, False, False]),
    "slices": by(slice(2, None), slice(0, 2)),
    "slices of names": by(slice("region", "shape"), slice("age", "size")),
    "transformed target": TransformedTargetRegressor(by(LEVELS, NUMBERS)),
    "search": GridSearchCV(by(LEVELS, NUMBERS), {"ridge__alpha": [1.0]}, cv=2),
    "vote": VotingRegressor([("one", by(LEVELS, NUMBERS))]),
}


@pytest.mark.parametrize("gone", NAMES)
@pytest.mark.parametrize("kind", FULL)
def test_what_is_left_is_what_its_author_would_have_written(kind, gone, data):
    X, y = data
    left = X.drop(columns=gone)
    own = by([c for c in LEVELS if c != gone], [c for c in NUMBERS if c != gone])
    found = narrowed(FULL[kind], NAMES, list(left.columns)).fit(left, y).predict(left)
    np.testing.assert_allclose(found, own.fit(left, y).predict(left), rtol=1e-12, atol=1e-12)


def test_the_learner_itself_stays_as_it_is(data):
    X, y = data
    learner = FULL["names"]
    before = str(learner.get_params())
    narrowed(learner, NAMES, ["age", "shape"])
    assert str(learner.get_params()) == before
    learner.fit(X, y)


def test_columns_chosen_by_type_and_the_rest_follow_the_table(data):
    X, y = data
    left = X.drop(columns="region")
    chosen = by(make_column_selector(dtype_include="category"), NUMBERS)
    rest = by(LEVELS, [], remainder=StandardScaler())
    own = by(["shape"], NUMBERS).fit(left, y).predict(left)
    for learner in (chosen, rest):
        found = narrowed(learner, NAMES, list(left.columns)).fit(left, y).predict(left)
        np.testing.assert_allclose(found, own, rtol=1e-12, atol=1e-12)


def test_a_transformer_inside_counts_in_its_own_columns(data):
    X, y = data
    inner = ColumnTransformer([("a", StandardScaler(), [1]), ("b", "passthrough", [0])])
    outer = ColumnTransformer([("numbers", inner, ["size", "age"]), ("l", OneHotEncoder(), [2, 3])])
    left = X.drop(columns="age")
    found = narrowed(make_pipeline(outer, Ridge()), NAMES, list(left.columns))
    own = make_pipeline(
        ColumnTransformer([("n", "passthrough", ["size"]), ("l", OneHotEncoder(), LEVELS)]), Ridge()
    )
    np.testing.assert_allclose(
        found.fit(left, y).predict(left), own.fit(left, y).predict(left), rtol=1e-12
    )


def test_steps_that_keep_columns_are_looked_through_and_others_end_it(data):
    X, y = data
    numbers = X[NUMBERS].to_numpy()
    keeps = make_pipeline(
        SimpleImputer(), ColumnTransformer([("a", "passthrough", [0]), ("b", "drop", [1])]), Ridge()
    )
    small = narrowed(keeps, NUMBERS, ["age"]).fit(numbers[:, :1], y)
    np.testing.assert_allclose(
        small.predict(numbers[:, :1]), Ridge().fit(numbers[:, :1], y).predict(numbers[:, :1])
    )
    mixes = make_pipeline(
        PolynomialFeatures(2, include_bias=False),
        ColumnTransformer([("a", "passthrough", [0, 1])]),
        Ridge(),
    )
    small = narrowed(mixes, NUMBERS, ["age"]).fit(numbers[:, :1], y)
    assert small[-1].n_features_in_ == 2  # age and its square: places after a mix mean other things


def test_one_column_given_flat(data):
    X, y = data
    text = ColumnTransformer([("size", "passthrough", ["size"]), ("age", "passthrough", [0])])
    learner = narrowed(make_pipeline(text, LinearRegression()), NAMES, ["size", "region"])
    assert [columns for _, _, columns in learner[0].transformers] == [["size"]]
    learner.fit(X[["size", "region"]], y)


def test_parts_of_a_union_or_a_vote_with_nothing_to_read_are_left_out(data):
    X, y = data
    only = {c: ColumnTransformer([("it", "passthrough", [c])]) for c in NUMBERS}
    union = make_pipeline(FeatureUnion(list(only.items())), LinearRegression())
    left = X.drop(columns="age")
    found = narrowed(union, NAMES, list(left.columns)).fit(left, y).predict(left)
    own = LinearRegression().fit(left[["size"]], y).predict(left[["size"]])
    np.testing.assert_allclose(found, own)
    vote = VotingRegressor([(c, make_pipeline(only[c], LinearRegression())) for c in NUMBERS])
    np.testing.assert_allclose(
        narrowed(vote, NAMES, list(left.columns)).fit(left, y).predict(left), own
    )
    with pytest.raises(NoColumns):
        narrowed(vote, NAMES, LEVELS)


@pytest.mark.parametrize("columns", [["region", "shape"], [2, 3], [False, False, True, True]])
def test_boosting_that_names_its_levels(columns, data):
    X, y = data
    left = X.drop(columns="region")
    learner = HistGradientBoostingRegressor(max_iter=10, categorical_features=columns)
    own = HistGradientBoostingRegressor(max_iter=10, categorical_features=["shape"])
    found = narrowed(learner, NAMES, list(left.columns)).fit(left, y)
    np.testing.assert_array_equal(found.predict(left), own.fit(left, y).predict(left))
    none = narrowed(learner, NAMES, NUMBERS)
    assert none.categorical_features is None
    none.fit(X[NUMBERS], y)


def test_a_learner_that_reads_nothing_more_is_the_mean(data):
    X, y = data
    learner = make_pipeline(
        ColumnTransformer([("age", "passthrough", ["age"])]), LinearRegression()
    )
    found = dfi.compare(X, y, estimator=learner, cv=2, methods=["loco"], progress=False)
    scores = found.results["loco"].table().set_index("feature")["score"]
    assert scores["age"] > 0.5
    assert (scores.drop("age") == 0).all()


def test_loco_of_a_named_pipeline_is_the_difference_by_hand(data):
    X, y = data
    folds = KFold(2, shuffle=True, random_state=0)
    found = dfi.compare(
        X, y, estimator=by(LEVELS, NUMBERS), cv=folds, methods=["loco"], progress=False
    )
    scores = found.results["loco"].table().set_index("feature")["score"]
    for gone in NAMES:
        left = [c for c in NAMES if c != gone]
        small = by([c for c in LEVELS if c != gone], [c for c in NUMBERS if c != gone])
        loss = np.empty((2, len(y)))
        for train, test in folds.split(X):
            full = by(LEVELS, NUMBERS).fit(X.iloc[train], y[train]).predict(X.iloc[test])
            less = small.fit(X[left].iloc[train], y[train]).predict(X[left].iloc[test])
            loss[:, test] = (y[test] - full) ** 2, (y[test] - less) ** 2
        assert scores[gone] == pytest.approx(np.mean(loss[1] - loss[0]), rel=1e-9)


def test_a_forest_has_nothing_to_narrow():
    forest = RandomForestRegressor(3)
    assert narrowed(forest, NAMES, ["age"]).get_params() == forest.get_params()
