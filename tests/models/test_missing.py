"""What models see of missing values: NaN where they take it, else a mean and an indicator."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import dfi
from dfi._data.table import read_table
from dfi._lines.choose import Quadrature, line_model
from dfi._models.encoders import takes_missing
from dfi._models.predictor import learner_view, predictor_for
from dfi._models.submodels import subtable
from dfi.methods import prepare

N = 150
RNG = np.random.default_rng(0)
FULL = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "c"]).assign(
    count=RNG.integers(0, 4, N).astype(float), word=RNG.choice(["u", "v", "w"], N)
)
Y = np.asarray(3 * FULL["a"] + 2 * FULL["b"] + (FULL["word"] == "u") + RNG.normal(size=N))
HOLES = FULL.mask(np.random.default_rng(1).random(FULL.shape) < 0.3)
NUMBERS = HOLES[["a", "b", "c", "count"]]

IMPUTED = make_column_transformer(
    (SimpleImputer(), ["a", "b", "c", "count"]),
    (
        make_pipeline(
            SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
        ),
        ["word"],
    ),
)


def lightgbm(**options):
    return pytest.importorskip("lightgbm").LGBMRegressor(n_estimators=8, verbose=-1, **options)


def xgboost(**options):
    return pytest.importorskip("xgboost").XGBRegressor(
        n_estimators=8, enable_categorical=False, **options
    )


def catboost():
    return pytest.importorskip("catboost").CatBoostRegressor(
        n_estimators=8, verbose=0, allow_writing_files=False
    )


NATIVE = {
    "boosting": lambda: HistGradientBoostingRegressor(max_iter=8),
    "tree": lambda: DecisionTreeRegressor(max_depth=3),
    "forest": lambda: RandomForestRegressor(5, max_depth=4),
    "extra trees": lambda: ExtraTreesRegressor(5, max_depth=4),
    "bagging": lambda: BaggingRegressor(DecisionTreeRegressor(max_depth=3), 3),
    "vote": lambda: VotingRegressor([("a", HistGradientBoostingRegressor(max_iter=4))]),
    "target": lambda: TransformedTargetRegressor(HistGradientBoostingRegressor(max_iter=8)),
    "search": lambda: GridSearchCV(HistGradientBoostingRegressor(max_iter=4), {}, cv=2),
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "catboost": catboost,
}
FILLED = {
    "linear": LinearRegression,
    "ridge": Ridge,
    "boosting": lambda: GradientBoostingRegressor(n_estimators=5),
    "bagging": lambda: BaggingRegressor(LinearRegression(), 3),
    "target": lambda: TransformedTargetRegressor(LinearRegression()),
    "search": lambda: GridSearchCV(Ridge(), {}, cv=2),
}


@pytest.mark.parametrize("name", NATIVE)
def test_learners_that_take_missing_values_get_them(name):
    learner, table = NATIVE[name](), read_table(HOLES)
    assert takes_missing(learner)
    assert learner_view(learner, table) == "values"
    # the caller's columns, words one-hot with a level of their own for what is missing
    seen = np.column_stack([NUMBERS, table.matrix[:, -4:]])
    np.testing.assert_array_equal(table.seen(table.matrix), seen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = prepare(HOLES, Y, estimator=learner, cv=2)
        predictor = fits.full[0].predictors[0]
    assert predictor.view == "values"
    assert predictor.model.n_features_in_ == seen.shape[1]
    np.testing.assert_allclose(predictor(table.matrix), predictor.model.predict(seen), rtol=1e-6)
    assert fits.missing["model"] == "values missing"


@pytest.mark.parametrize("name", FILLED)
def test_learners_that_take_none_get_means_and_indicators(name):
    learner, table = FILLED[name](), read_table(HOLES)
    assert not takes_missing(learner)
    fits = prepare(HOLES, Y, estimator=learner, cv=2)
    predictor = fits.full[0].predictors[0]
    assert predictor.view == "matrix"
    np.testing.assert_array_equal(predictor(table.matrix), predictor.model.predict(table.matrix))
    assert fits.missing == {
        "how": "indicator",
        "share": {name: pytest.approx(HOLES[name].isna().mean()) for name in HOLES},
        "model": "mean and indicator",
    }


@pytest.mark.parametrize("name", ["auto", "linear", "ridge"])
def test_named_learners_get_means_and_indicators(name):
    fits = prepare(HOLES, Y, estimator=name, cv=2)
    assert fits.missing["model"] == "mean and indicator"


@pytest.mark.parametrize("name", ["boosting", "forest", "extra_trees"])
def test_named_trees_get_missing_values(name):
    assert prepare(HOLES, Y, estimator=name, cv=2).missing["model"] == "values missing"


def test_categories_alone_are_no_numbers_to_fill():
    fits = prepare(HOLES[["word"]].assign(x=FULL["a"]), Y, estimator="linear", cv=2)
    assert fits.missing["model"] == "values missing"
    assert fits.table.gaps == ()


@pytest.mark.parametrize("frame", [HOLES, pl.from_pandas(HOLES)], ids=["pandas", "polars"])
def test_pipelines_see_the_frame_that_was_given(frame):
    seen = []

    def spy(rows):
        seen.append(rows)
        return np.zeros(len(rows)) + 0.5

    table = read_table(frame)
    predictor = predictor_for(spy, table, prefit=True)
    seen.clear()
    predictor(table.matrix)
    if isinstance(frame, pd.DataFrame):
        pd.testing.assert_frame_equal(seen[0], frame)
    else:
        assert seen[0].equals(frame)


@pytest.mark.full
def test_a_pipeline_with_imputers():
    model = make_pipeline(IMPUTED, Ridge())
    result = dfi.explain(HOLES, Y, model, cv=3)
    assert result.spec["missing"]["model"] == "values missing"
    assert result.scores[0] > result.scores[2]
    # the same model, fitted elsewhere: on the frame
    fitted = make_pipeline(IMPUTED, Ridge()).fit(HOLES, Y)
    predictor = predictor_for(fitted, read_table(HOLES), prefit=True)
    np.testing.assert_allclose(predictor(read_table(HOLES).matrix), fitted.predict(HOLES))


def test_models_fitted_elsewhere_on_an_array():
    X = NUMBERS.to_numpy()
    model = HistGradientBoostingRegressor(max_iter=5).fit(X, Y)
    predictor = predictor_for(model, read_table(X), prefit=True)
    np.testing.assert_array_equal(predictor(read_table(X).matrix), model.predict(X))
    result = dfi.explain(X, Y, model, cv="prefit")
    assert result.spec["missing"]["model"] == "values missing"
    wrong = HistGradientBoostingRegressor(max_iter=5).fit(X[:, :3], Y)
    with pytest.raises(ValueError, match="fitted on 3 columns, but X has 4"):
        dfi.explain(X, Y, wrong, cv="prefit")


@pytest.mark.parametrize("kind", ["array", "frame", "pipeline", "function"])
def test_a_fitted_model_that_takes_none_is_told_apart_at_once(kind):
    X = FULL[["a", "b", "c"]]
    holes = X.assign(b=HOLES["b"])
    model = LinearRegression()
    if kind == "array":
        X, holes = X.to_numpy(), holes.to_numpy()
    elif kind == "pipeline":
        model = make_pipeline(StandardScaler(), Ridge())
    model = model.fit(X, Y)
    given = (lambda rows: rows["a"] + rows["b"]) if kind == "function" else model
    name = "x1" if kind == "array" else "b"
    with pytest.raises(
        ValueError,
        match=rf"cannot predict rows in which '{name}' is missing \(.*NaN.*Put an imputer before",
    ):
        dfi.explain(holes, Y, given, cv="prefit")


def test_a_fitted_model_that_fails_anyway_is_not_blamed_on_missing_values():
    def broken(rows):
        raise RuntimeError("out of order")

    with pytest.raises(ValueError, match=r"perturbed rows \(RuntimeError: out of order\)"):
        dfi.explain(FULL[["a", "c"]].assign(b=HOLES["b"]), Y, broken, cv="prefit")


def test_a_pipeline_without_an_imputer_is_told_to_have_one():
    model = make_pipeline(StandardScaler(), Ridge())
    with pytest.raises(
        ValueError, match=r"could not be fitted .*'a', 'b', 'c', 'count' have missing.*an imputer"
    ):
        dfi.explain(NUMBERS, Y, model, cv=2)


def test_a_subtable_keeps_its_gaps():
    table = read_table(HOLES)
    small = subtable(table, (1, 4))
    assert small.matrix_names == ("b", "b missing", "word=u", "word=v", "word=w", "word=missing")
    pd.testing.assert_frame_equal(small.frame(small.matrix), HOLES[["b", "word"]])


def test_the_closed_form_stays_and_trees_agree_with_their_model():
    """Linear models are closed forms of value and indicator; any other equals its predictions."""
    table = read_table(HOLES)
    for name, view in {"linear": "matrix", "boosting": "values"}.items():
        learner = LinearRegression() if name == "linear" else NATIVE[name]()
        predictor = prepare(HOLES, Y, estimator=learner, cv=2).full[0].predictors[0]
        assert predictor.view == view
        lines = line_model(predictor, table.matrix, Quadrature())
        np.testing.assert_allclose(lines.predict(table.matrix), predictor(table.matrix))
        assert lines.rule.startswith("closed form" if name == "linear" else "exact")


@pytest.mark.parametrize("learner", ["linear", "forest", "auto"])
def test_a_level_and_a_gap_of_one_row(learner):
    """A category, or a gap, that only one fold has seen."""
    frame = FULL.assign(word=["rare", *FULL["word"][1:]])
    frame.loc[1, "a"] = np.nan
    frame.loc[2, "word"] = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
        result = dfi.explain(frame, Y, learner, cv=3, diagnose=False)
    assert np.isfinite(result.scores).all()


@pytest.mark.parametrize("name", ["boosting", "extra trees", "lightgbm", "xgboost", "catboost"])
def test_a_column_of_nothing(name):
    """Wholly missing, or missing in all rows of a fold."""
    frame = NUMBERS.assign(empty=np.nan, rare=np.where(np.arange(N) < 50, FULL["a"], np.nan))
    splits = [(np.arange(50, N), np.arange(50)), (np.arange(50), np.arange(50, N))]
    with pytest.warns(dfi.warnings.ConstantColumnWarning, match=r"'empty' \(wholly missing\)"):
        fits = prepare(frame, Y, estimator=NATIVE[name](), cv=splits)
    for models in fits.full:
        assert np.isfinite(models.predictors[0](fits.table.matrix[models.test])).all()


@pytest.mark.filterwarnings("ignore:.* rows are few:dfi.warnings.InferenceWarning")
def test_dropping_is_explaining_the_complete_rows():
    holes = HOLES[["a", "b", "word"]]
    complete = holes.dropna()
    weight = np.linspace(1, 2, N)
    kept = complete.index.to_numpy()
    with pytest.warns(dfi.warnings.MissingValuesWarning, match=f"{N - len(kept)} of {N} rows"):
        dropped = dfi.explain(holes, Y, "linear", missing="drop", sample_weight=weight, cv=3)
    own = dfi.explain(complete, Y[kept], "linear", sample_weight=weight[kept], cv=3)
    np.testing.assert_array_equal(dropped.scores, own.scores)
    np.testing.assert_array_equal(dropped.se, own.se)
    assert dropped.spec["missing"] == {"how": "drop", "rows": N - len(kept)}
    assert "missing" not in own.spec


def test_dropping_refuses_row_numbers():
    splits = [(np.arange(100), np.arange(100, N))]
    with (
        pytest.warns(dfi.warnings.MissingValuesWarning),
        pytest.raises(ValueError, match="the row numbers in cv are no longer those of X"),
    ):
        dfi.explain(HOLES, Y, "linear", missing="drop", cv=splits)
    dfi.explain(FULL, Y, "linear", missing="drop", cv=[*splits, (splits[0][1], splits[0][0])])


def test_every_front_door_takes_the_word():
    for call in (
        lambda: dfi.explain(HOLES, Y, "linear", missing="error"),
        lambda: dfi.compare(HOLES, Y, "loco", estimator="linear", missing="error"),
        lambda: dfi.sensitivity(HOLES, Y, "linear", epsilons=[0.0], missing="error"),
        lambda: dfi.DFI(estimator="linear", missing="error").fit(HOLES, Y),
        lambda: prepare(HOLES, Y, missing="error"),
    ):
        with pytest.raises(ValueError, match=r"X has missing \(NaN, null\)"):
            call()


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
@pytest.mark.parametrize(
    "learner", ["linear", "native", "filled", pytest.param("pipeline", marks=pytest.mark.full)]
)
def test_methods_of_a_comparison(learner):
    """Each method moves or leaves out value and indicator as one, or refuses by name."""
    model = {
        "linear": "linear",
        "native": DecisionTreeRegressor(max_depth=3, random_state=0),
        "pipeline": make_pipeline(IMPUTED, Ridge()),
        "filled": GradientBoostingRegressor(n_estimators=5, random_state=0),
    }[learner]
    methods = ["dfi", "loco", "nloco", "dloco", "pfi", "shapley", "sobol", "pcm", "r2"]
    found = dfi.compare(HOLES, Y, methods, estimator=model, cv=2)
    for name, result in found.items():
        assert result.names == tuple(HOLES)
        assert np.isfinite(result.scores).all()
        assert name == "pcm" or result.scores[0] > result.scores[2]


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_cpi_refuses_by_name():
    with pytest.raises(
        ValueError, match=r"cpi needs residuals, which missing values \('a', 'b', 'c', 'count'\)"
    ):
        dfi.compare(HOLES, Y, "cpi", estimator="linear", cv=2)
    everything = dfi.compare(HOLES, Y, estimator="linear", cv=2)
    assert set(everything.skipped) == {"cpi"}


def test_cpi_draws_a_missing_level():
    frame = FULL[["a", "b"]].assign(word=HOLES["word"])
    found = dfi.compare(frame, Y, "cpi", estimator="linear", cv=2)
    assert np.isfinite(found["cpi"].scores).all()


@pytest.mark.parametrize("as_function", [False, True])
def test_fitted_models_of_several_classes_take_missing_values(as_function):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(150, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    X[generator.random(X.shape) < 0.1] = np.nan
    model = HistGradientBoostingClassifier(max_iter=3).fit(X, y)
    result = dfi.explain(
        X,
        y,
        model.predict_proba if as_function else model,
        cv="prefit",
        task="classification",
        diagnose=False,
    )
    assert set(result.by_outcome) == {"0", "1", "2"}
    assert result.scores[0] > result.scores[1]
