"""One call from a table to a result: learners, pipelines, splitters, scores and their options."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVR

import dfi
from dfi._models.prepare import prepare
from dfi.datasets import m1
from dfi.methods import Disentangled


def explain(table, y, estimator="linear", **options):
    return dfi.explain(table, y, estimator, **{"diagnose": False, **options})


@pytest.fixture(scope="module")
def sample():
    return m1(400, rho=0.8, d=4)


@pytest.fixture(scope="module")
def mixed():
    """Return a table with every kind of column, and an outcome of all of them."""
    generator = np.random.default_rng(0)
    n = 200
    table = pd.DataFrame(
        {
            "real": generator.standard_normal(n),
            "whole": generator.integers(0, 4, n),
            "flag": generator.random(n) > 0.5,
            "level": pd.Categorical(generator.choice(["u", "v", "w"], n)),
            "word": generator.choice(["p", "q"], n),
        }
    )
    y = table["real"] + table["whole"] + 2 * table["flag"] + 3.0 * (table["level"] == "v")
    return table, (y + generator.standard_normal(n)).to_numpy()


# --- what the scores are -----------------------------------------------------------------------


def test_least_squares_in_sample_is_genizis_decomposition():
    """Same rows, same moments: residuals are orthogonal to X, so LOCO scores are exact."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 5)) @ generator.standard_normal((5, 5)) * [1, 9, 1, 0.1, 3]
    y = X @ generator.standard_normal(5) + generator.standard_normal(300)
    result = explain(
        X + 100.0, y, LinearRegression().fit(X + 100.0, y), cv="prefit", transport_error="ignore"
    )

    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    correlation = standard.T @ standard / len(X)
    values, vectors = np.linalg.eigh(correlation)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    # Genizi (1993): regress y on the orthonormal columns closest to X, then share out
    orthogonal = standard @ np.linalg.inv(root)
    with_outcome = orthogonal.T @ (y - y.mean()) / len(y)
    genizi = (root**2) @ with_outcome**2

    assert np.allclose(result.latent.scores, with_outcome**2, rtol=1e-10)
    assert np.allclose(result.scores, genizi, rtol=1e-10)
    assert result.total.value == pytest.approx(result.quality.r2 * y.var(), rel=1e-10)


def test_influence_values_equal_the_definition(sample):
    """u by loops over rows, coordinates and nodes, for each form of the score."""
    X, y = sample.X[:40], sample.y[:40]

    def function(rows):
        return 5 * rows[:, 0] + np.sin(rows[:, 3]) * rows[:, 1]

    mean, deviation = X.mean(axis=0), X.std(axis=0)
    standard = (X - mean) / deviation
    values, vectors = np.linalg.eigh(standard.T @ standard / 40)
    L = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    Z = standard @ np.linalg.inv(L)
    slow = {"loco": np.zeros((40, 4)), "cpi": np.zeros((40, 4))}
    for i in range(40):
        error = (y[i] - function(X[i][None])[0]) ** 2
        for j in range(4):
            along = []
            for t in Z[:, j]:
                moved = Z[i].copy()
                moved[j] = t
                along.append(function((mean + (L @ moved) * deviation)[None])[0])
            slow["loco"][i, j] = (y[i] - np.mean(along)) ** 2 - error
            own = function(X[i][None])[0]
            slow["cpi"][i, j] = (y[i] - np.mean(along)) * (own - np.mean(along))
    for form, latent in slow.items():
        # as many Gauss nodes as atoms: the empirical law itself
        result = explain(
            X, y, function, cv="prefit", form=form, integration=dfi.Quadrature("gauss", nodes=40),
            transport_error="ignore", transport=dfi.transports.Gaussian(components=None),
        )  # fmt: skip
        assert np.allclose(result.latent.influence, latent, atol=1e-10)
        assert np.allclose(result.influence, latent @ (L**2).T, atol=1e-10)


@pytest.mark.parametrize("form", ["cross", "loco", "cpi"])
def test_every_form_estimates_the_same_scores(sample, form):
    big = m1(3000, rho=0.8, d=4)
    result = explain(big.X, big.y, form=form)
    assert np.all(np.abs(result.scores[:2] - [17, 8]) < 4 * result.se[:2])
    assert result.spec["form"] == form


def test_fixed_transport_leaves_the_second_order_bias_in(sample):
    aware = explain(sample.X, sample.y)
    plain = explain(sample.X, sample.y, transport_error="ignore")
    for space, found, known in (
        ("attributed", aware, plain),
        ("latent", aware.latent, plain.latent),
    ):
        bias = list(aware.diagnostics["second_order"][space].values())
        assert np.allclose(found.scores + bias, known.scores, rtol=1e-12)
        assert np.all(np.array(bias) >= 0)
        assert np.any(np.array(bias) > 0)
    assert not plain.diagnostics["second_order"]["subtracted"]
    assert not np.allclose(aware.se[:2], plain.se[:2], rtol=0.05)
    assert plain.diagnostics["standard_errors"] == "fixed transport"


def test_both_ways_to_the_sensitivity_agree_on_a_linear_model(sample):
    covariance = explain(sample.X, sample.y)
    tilt = explain(sample.X, sample.y, transport_error="finite-difference")
    assert np.allclose(covariance.scores, tilt.scores, rtol=1e-12)
    assert np.allclose(covariance.se, tilt.se, rtol=0.03)


@pytest.mark.filterwarnings("ignore::dfi.warnings.QuadratureWarning")  # of ten draws, rightly
def test_random_draws_are_seeded_and_biased_upwards(sample):
    big = m1(2000, rho=0.8, d=4)
    options = {"estimator": big.regression, "cv": "prefit"}
    options["integration"] = dfi.Quadrature("draws", nodes=10)
    first = explain(big.X, big.y, **options)
    assert np.array_equal(first.scores, explain(big.X, big.y, **options).scores)
    other = explain(big.X, big.y, **options, random_state=1)
    assert not np.array_equal(first.scores, other.scores)
    exact = explain(big.X, big.y, big.regression, cv="prefit")
    # Var/m = 20/10 and 5/10 on top of the latent scores
    assert np.allclose(first.latent.scores[:2] - exact.latent.scores[:2], [2.0, 0.5], rtol=0.2)


# --- the result --------------------------------------------------------------------------------


def test_result_carries_its_specification_and_quality(sample):
    result = explain(sample.X, sample.y, cv=4, diagnose=True)
    assert result.spec["transport"] == "gaussian"
    assert result.spec["transport_form"] == "bures-wasserstein"
    assert result.spec["reference"] == "empirical"
    assert result.spec["form"] == "cross"
    assert result.spec["n_folds"] == 4
    assert result.spec["estimator"] == "linear"
    assert result.quality.r2 == pytest.approx(0.96, abs=0.02)
    assert len(result.quality.r2_by_fold) == 4
    assert result.quality.n_rows == 400
    assert result.diagnostics["lines"] == "closed form (linear)"
    assert result.diagnostics["rank"] == 4
    # within components none, between them what is not significant in 400 rows
    assert result.diagnostics["latent"]["max_correlation"] < 0.2
    assert result.spec["components"] == "auto"
    assert result.diagnostics["n_components"] == len(result.components)
    table = result.table()
    assert list(table.columns) == [
        "feature", "share", "share_low", "share_high", "score", "se", "ci_low", "ci_high",
        "z", "p", "p_adj",
    ]  # fmt: skip
    assert table["feature"].iloc[0] == "x0"


def test_groups_are_sums_in_both_spaces(sample):
    result = explain(sample.X, sample.y, feature_groups={"first": [0, 1], "rest": [1, 2, 3]})
    grouped = result.group()
    assert np.allclose(grouped.influence[:, 0], result.influence[:, :2].sum(axis=1))
    assert np.allclose(grouped.latent.scores[1], result.latent.scores[1:].sum())


def test_progress_bar_moves(capsys):
    big = m1(4000, d=2)

    def slow(rows):
        # the bar is drawn again after a tenth of a second at the earliest
        time.sleep(0.12)
        return 5.0 * rows[:, 0]

    explain(big.X, big.y, slow, cv="prefit", progress=True)
    explain(big.X, big.y, cv=2, progress=True)
    shown = capsys.readouterr().err
    assert "fitting models" in shown
    counts = {part.split("/4000")[0].split()[-1] for part in shown.split("\r") if "/4000" in part}
    assert len(counts) >= 3, shown
    explain(big.X, big.y, cv=2, progress=False)
    assert capsys.readouterr().err == ""


# --- splitters ---------------------------------------------------------------------------------


def test_group_splitter_keeps_groups_apart(sample):
    labels = np.repeat(np.arange(40), 10)
    explainer = dfi.DFI(estimator="linear", cv=GroupKFold(4), diagnose=False)
    explainer.fit(sample.X, sample.y, clusters=labels)
    assert len(explainer.models_) == 4
    for fold in explainer.models_:
        held_out = np.isin(labels, labels[fold.test])
        assert held_out.sum() == len(fold.test)


def test_time_splitter_leaves_out_rows_that_are_never_held_out(sample):
    explainer = dfi.DFI(estimator="linear", cv=TimeSeriesSplit(3), diagnose=False)
    result = explainer.fit(sample.X, sample.y).result_
    assert result.influence.shape == (300, 4)
    assert result.quality.n_rows == 300
    assert np.array_equal(explainer.pooled_.rows, np.arange(100, 400))
    held_out = sample.X[100:]
    assert np.allclose(explainer.transport_.geometry.center, held_out.mean(axis=0))


def test_repeats_are_averaged_and_their_spread_reported(sample):
    result = explain(sample.X, sample.y, n_repeats=3)
    again = [explain(sample.X, sample.y, cv=KFold(5, shuffle=True, random_state=s)) for s in (0, 1)]
    assert result.spread.shape == (4,)
    assert np.all(result.spread > 0)
    assert result.spread[0] < result.se[0]
    assert again[0].spread is None
    assert again[0].scores[0] != again[1].scores[0]
    splitter = RepeatedKFold(n_splits=5, n_repeats=2, random_state=0)
    repeated = explain(sample.X, sample.y, cv=splitter)
    assert repeated.spread is not None
    assert repeated.spec["n_folds"] == 10


def test_the_spread_over_splits_is_in_the_standard_errors(sample):
    """se^2 = sd(ubar)^2 / n + s_B^2 / R, for columns as for groups."""
    fits = prepare(sample.X, sample.y, estimator="linear", n_repeats=3)
    explained = Disentangled(diagnose=False).explain(fits)
    result, scores = explain(sample.X, sample.y, n_repeats=3), explained.scores
    for part, by_row, by_repeat in (
        (result, scores.attributed, scores.attributed_by_repeat),
        (result.latent, scores.latent, scores.latent_by_repeat),
    ):
        within = by_row.var(axis=0, ddof=1) / len(by_row)
        expected = np.sqrt(within + by_repeat.var(axis=0, ddof=1) / 3)
        np.testing.assert_allclose(part.se, expected, rtol=1e-10)
        np.testing.assert_allclose(part.scores, by_row.mean(axis=0), rtol=1e-10, atol=1e-12)


def test_repeats_average_influence_values(sample):
    splits = [list(KFold(4, shuffle=True, random_state=s).split(sample.X)) for s in (0, 1)]
    both = explain(sample.X, sample.y, cv=splits[0] + splits[1], form="loco")
    single = [explain(sample.X, sample.y, cv=split, form="loco") for split in splits]
    assert np.allclose(both.latent.scores, np.mean([s.latent.scores for s in single], axis=0))


# --- learners ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear", "ridge", "boosting", "auto"])
def test_learners_by_name_find_the_signal(name):
    big = m1(500, rho=0.5, d=3)
    result = explain(big.X, big.y, name, cv=2)
    assert result.scores.argmax() == 0
    assert result.quality.r2 > 0.85
    assert result.scores[0] == pytest.approx(23.2, rel=0.2)


def test_binary_outcome_explains_the_probability(sample):
    y = (sample.y > 0).astype(float)
    for classifier in (LogisticRegression(), RandomForestClassifier(50, min_samples_leaf=5)):
        result = explain(sample.X, y, classifier, cv=3)
        assert result.scores[0] > result.scores[1] > 5 * abs(result.scores[2])
        assert 0.5 < result.quality.r2 < 1
        # a probability cannot explain more than Var(Y)
        assert result.total.value < 0.25
    fitted = LogisticRegression().fit(sample.X, y)
    direct = explain(sample.X, y, lambda rows: fitted.predict_proba(rows)[:, 1], cv="prefit")
    prefit = explain(sample.X, y, fitted, cv="prefit")
    assert np.allclose(prefit.scores, direct.scores, rtol=0.01, atol=1e-4)


def test_weights_reach_the_regression(sample):
    weights = np.random.default_rng(0).uniform(0.1, 3.0, 400)
    y = sample.y * np.where(np.arange(400) < 200, 1.0, -1.0)
    weights[200:] = 1e-6
    weighted = explain(sample.X, y, sample_weight=weights)
    clean = explain(sample.X[:200], y[:200], sample_weight=weights[:200])
    assert weighted.quality.r2 > 0.9
    assert np.allclose(weighted.scores[:2], clean.scores[:2], rtol=0.1)


def test_same_seed_same_result_and_another_seed_another(sample):
    first = explain(sample.X, sample.y)
    assert np.array_equal(first.influence, explain(sample.X, sample.y).influence)
    assert not np.array_equal(first.scores, explain(sample.X, sample.y, random_state=1).scores)


# --- pipelines on raw columns ------------------------------------------------------------------


def raw_pipeline(final=None):
    transformer = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["real"]),
        (OneHotEncoder(), ["level", "word"]),
        (OrdinalEncoder(), ["whole", "flag"]),
    )
    return make_pipeline(transformer, Ridge(1e-6) if final is None else final)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_pipeline_on_raw_columns_of_any_library(mixed, library):
    table, y = mixed
    given = {
        "pandas": lambda: table,
        "polars": lambda: pl.from_pandas(table),
        "pyarrow": lambda: pa.Table.from_pandas(table, preserve_index=False),
    }[library]()
    result = explain(given, y, raw_pipeline())
    assert result.names == ("real", "whole", "flag", "level", "word")
    # flag: 4/4, level: 9 * 2/9, whole: 15/12 on average
    assert np.allclose(result.scores[:4], [1.0, 1.25, 1.0, 2.0], rtol=0.4)
    assert abs(result.scores[4]) < 0.1
    assert type(result.table()).__module__.split(".")[0] == library


@pytest.mark.full
@pytest.mark.parametrize(
    "wrap",
    [
        lambda pipe: GridSearchCV(pipe, {"ridge__alpha": [1e-6, 1.0]}, cv=2),
        lambda pipe: TransformedTargetRegressor(pipe, transformer=StandardScaler()),
        pytest.param(
            lambda pipe: VotingRegressor([("a", pipe), ("b", pipe)]), marks=pytest.mark.slow
        ),
        pytest.param(lambda pipe: StackingRegressor([("a", pipe)], cv=2), marks=pytest.mark.slow),
    ],
    ids=["search", "transformed target", "vote", "stack"],
)
def test_wrappers_around_a_pipeline_get_the_raw_columns(mixed, wrap):
    table, y = mixed
    plain = explain(table, y, raw_pipeline(), cv=2)
    wrapped = explain(table, y, wrap(raw_pipeline()), cv=2)
    assert np.allclose(wrapped.scores, plain.scores, rtol=0.1, atol=0.05)
    prefit = wrap(raw_pipeline()).fit(table, y)
    assert np.allclose(
        explain(table, y, prefit, cv="prefit").scores,
        explain(table, y, raw_pipeline().fit(table, y), cv="prefit").scores,
        rtol=0.1,
        atol=0.05,
    )


@pytest.mark.parametrize("name", ["linear", "ridge", "auto"])
def test_named_learners_take_mixed_tables(mixed, name):
    table, y = mixed
    result = explain(table, y, name, cv=2)
    assert result.quality.r2 > 0.6
    assert result.scores[3] > 1.0


def test_perturbed_rows_look_like_the_callers_data(mixed):
    """Levels stay levels; encoded integers and booleans stay what was observed; others are real."""
    table, y = mixed
    seen = []

    def look(rows):
        seen.append(rows)
        return rows

    watch = FunctionTransformer(look, feature_names_out="one-to-one")
    pipe = make_pipeline(watch, *[step for _, step in raw_pipeline().steps])
    pipe.fit(table, y)
    seen.clear()
    explain(table, y, pipe, cv="prefit")
    for rows in seen:
        assert list(rows.columns) == list(table.columns)
        assert rows["level"].dtype == table["level"].dtype
        assert set(rows["word"]) <= {"p", "q"}
        assert rows["real"].dtype == float

    seen.clear()
    # what is linear behind encoders is averaged in closed form, and asked about no other rows
    direct = raw_pipeline(SVR()).fit(table, y)
    inner = direct.predict

    def spy(rows):
        seen.append(rows)
        return inner(rows)

    direct.predict = spy
    explain(table, y, direct, cv="prefit", transport=dfi.transports.Gaussian(components=None))
    perturbed = pd.concat(seen)
    assert set(perturbed["whole"]) == {0, 1, 2, 3}
    assert perturbed["whole"].dtype == table["whole"].dtype
    assert perturbed["flag"].dtype == bool
    # nodes of its own line are its values; lines of others move it between them
    assert perturbed["real"].nunique() > 2 * table["real"].nunique()


def test_functions_get_a_table_like_the_callers(mixed):
    table, y = mixed

    def rule(rows):
        return rows["real"] + 3.0 * (rows["level"] == "v") + rows["whole"]

    result = explain(table, y, rule, cv="prefit")
    assert result.scores[3] == pytest.approx(2.0, rel=0.4)
    given = pl.from_pandas(table)

    def polars_rule(rows):
        return (rows["real"] + 3.0 * (rows["level"] == "v") + rows["whole"]).to_numpy()

    assert np.allclose(explain(given, y, polars_rule, cv="prefit").scores, result.scores)


def test_native_categories_of_boosting_under_prefit(mixed):
    table, y = mixed
    table = table.drop(columns="word")
    model = HistGradientBoostingRegressor(max_iter=60, categorical_features="from_dtype")
    result = explain(table, y, model.fit(table, y), cv="prefit")
    assert result.diagnostics["lines"].startswith("exact: 60 trees")
    assert result.quality.r2 > 0.8
    assert result.scores[3] > 1.0


def test_pipeline_fitted_on_an_array_explains_a_frame(mixed):
    table, y = mixed
    numbers = table[["real", "whole"]].astype(float)
    model = make_pipeline(StandardScaler(), Ridge()).fit(numbers.to_numpy(), y)
    on_frame = explain(numbers, y, model, cv="prefit")
    on_array = explain(numbers.to_numpy(), y, model, cv="prefit")
    assert np.array_equal(on_frame.scores, on_array.scores)


def test_encoder_on_an_integer_array():
    generator = np.random.default_rng(0)
    X = generator.integers(0, 3, (200, 2))
    y = np.array([0.0, 3.0, -1.0])[X[:, 0]] + 0.5 * generator.standard_normal(200)
    result = explain(X, y, make_pipeline(OneHotEncoder(), Ridge(1e-6)))
    assert result.quality.r2 > 0.85
    assert result.scores[0] > 1.0
    assert abs(result.scores[1]) < 0.1


def test_objects_in_an_array_are_raw_columns_too():
    generator = np.random.default_rng(0)
    X = np.empty((200, 2), dtype=object)
    X[:, 0] = generator.choice(["u", "v", "w"], 200)
    X[:, 1] = generator.standard_normal(200)
    y = 3.0 * (X[:, 0] == "v") + X[:, 1].astype(float)
    encoder = make_column_transformer((OneHotEncoder(), [0]), ("passthrough", [1]))
    result = explain(X, y, make_pipeline(encoder, Ridge(1e-6)))
    # scored level by level on decoded rows, a category of three need not reach its variance of 2
    assert np.allclose(result.scores, [2.0, 1.0], rtol=0.35)


def test_attribution_adds_over_the_columns_that_receive_and_averages_over_those_that_give():
    generator = np.random.default_rng(0)
    colour = generator.choice(["r", "g", "b"], 120)
    table = pd.DataFrame({"a": generator.standard_normal(120), "colour": colour})
    y = table["a"].to_numpy() + (colour == "r") + generator.standard_normal(120)
    blocks = dfi.DFI(estimator="linear", cv=2, diagnose=False).fit(table, y).result_.attribution
    np.testing.assert_allclose(blocks.sum(axis=0), 1.0)
    # the published form has a coordinate for each column of a category
    explainer = dfi.DFI(estimator="linear", transport="semicontinuous", cv=2, diagnose=False)
    explainer.fit(table, y)
    squared = explainer.transport_.geometry.attribution**2
    found = explainer.result_.attribution
    assert squared.shape == (4, 4)
    assert found[0, 0] == pytest.approx(squared[0, 0])
    assert found[1, 0] == pytest.approx(squared[1:, 0].sum())
    assert found[0, 1] == pytest.approx(squared[0, 1:].mean())
    assert found[1, 1] == pytest.approx(squared[1:, 1:].sum() / 3)
