"""What rare levels and rare missing values hold of other columns cancels as it does in the rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import dfi
from dfi._data.columns import Column
from dfi._data.moments import MomentsOf
from dfi._estimates import within_units

pytestmark = pytest.mark.filterwarnings("ignore::dfi.warnings.ManyLevelsWarning")


def trips(n=2000, levels=80, seed=0):
    """A distance that a city tells but for 50 m, and one measured: their difference matters."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, levels + 1)
    city = rng.choice(levels, n, p=share / share.sum())
    km = rng.uniform(1, 10, levels)[city] + rng.choice([0, 0.05], n)
    air = km + 0.3 * rng.normal(size=n)
    late = 3 * rng.normal(size=n)
    X = pd.DataFrame({"late": late, "city": [f"c{k}" for k in city], "km": km, "air": air})
    return X, late + air - km + rng.normal(size=n)


def shares(X, y, estimator, **options):
    found = dfi.explain(X, y, estimator, diagnose=False, transport_error="ignore", **options)
    return dict(zip(found.names, found.scores / np.var(y), strict=True))


@pytest.mark.parametrize("rare", [0.003, 0.01, 0.03, 0.1, 1.0])
@pytest.mark.parametrize("estimator", ["linear", "ridge"])
def test_a_city_that_tells_a_distance_has_no_score_of_its_own(monkeypatch, rare, estimator):
    monkeypatch.setattr(within_units, "RARE", rare)
    found = shares(*trips(), estimator, cv=3)
    assert abs(found["city"]) < 0.02
    assert abs(found["km"]) < 0.02
    assert found["late"] == pytest.approx(9 / 10.09, abs=0.1)


@pytest.mark.parametrize("codes", [False, True], ids=["text", "whole numbers"])
def test_a_pipeline_that_knows_rare_levels_agrees(codes):
    X, y = trips()
    if codes:
        X["city"] = X["city"].str[1:].astype(int).astype("category")
    columns = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    model = make_pipeline(columns, LinearRegression()).fit(X, y)
    found = shares(X, y, model, cv="prefit", form="loco")
    assert abs(found["city"]) < 0.02
    assert abs(found["km"]) < 0.02


@pytest.mark.parametrize("rare", [0.01, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_informative_levels_are_those_without_pooling(monkeypatch, rare, weighted):
    """Common and rare levels tell of a column, and have an effect beside it."""
    rng = np.random.default_rng(2)
    levels, n = 60, 3000
    share = 1 / np.arange(1, levels + 1)
    city = rng.choice(levels, n, p=share / share.sum())
    effect, place = rng.normal(size=(2, levels))
    km = place[city] + 0.5 * rng.normal(size=n)
    X = pd.DataFrame({"city": [f"c{k}" for k in city], "km": km, "a": rng.normal(size=n)})
    y = X["a"] + km + (effect + place)[city] + rng.normal(size=n)
    options = {"cv": 3, "sample_weight": rng.integers(1, 4, n) if weighted else None}
    monkeypatch.setattr(within_units, "RARE", 0.0)
    truth = shares(X, y, "linear", **options)
    monkeypatch.setattr(within_units, "RARE", rare)
    found = shares(X, y, "linear", **options)
    assert truth["city"] > 0.3
    assert list(found.values()) == pytest.approx(list(truth.values()), abs=0.02)


def test_levels_that_hold_nothing_of_others_stay_pooled():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(1500, 3)), columns=list("abc"))
    X["label"] = [f"L{k}" for k in rng.choice(120, 1500)]
    X["other"] = [f"M{k}" for k in rng.choice(120, 1500)]
    y = X["a"] + rng.normal(size=1500)
    fitted = dfi.explain(X, y, "ridge", cv=2, diagnose=False)
    assert fitted.diagnostics["pooled_levels"]["columns"] == ("label", "other")
    share = X["label"].value_counts(normalize=True)
    # two in a hundred of the 8 pairs are beyond chance
    assert fitted.diagnostics["blocks"]["label"] <= max(1, np.sum(share >= within_units.RARE)) + 1


def test_levels_of_two_categories_that_tell_each_other_cancel(monkeypatch):
    rng = np.random.default_rng(4)
    n, levels = 1000, 40
    share = 1 / np.arange(1, levels + 1)
    code = rng.choice(levels, n, p=share / share.sum())
    other = np.where(rng.random(n) < 0.03, rng.choice(levels, n), code)
    X = pd.DataFrame({"zip": [f"z{k}" for k in code], "city": [f"c{k}" for k in other]})
    X["a"] = rng.normal(size=n)
    size = dict(enumerate(rng.normal(size=levels)))

    def model(rows):
        of_zip = rows["zip"].astype(str).str[1:].astype(int).map(size)
        of_city = rows["city"].astype(str).str[1:].astype(int).map(size)
        return (rows["a"] + 2 * of_zip - 2 * of_city).to_numpy()

    y = model(X) + rng.normal(size=n)
    options = {"cv": "prefit", "form": "loco", "integration": dfi.Quadrature(donors=16)}
    monkeypatch.setattr(within_units, "RARE", 0.0)
    truth = shares(X, y, model, **options)
    monkeypatch.setattr(within_units, "RARE", 0.03)
    found = shares(X, y, model, **options)
    assert list(found.values()) == pytest.approx(list(truth.values()), abs=0.05)


def test_signal_of_rare_missing_values_is_scored():
    """Along a line nothing is missing: a unit whose donors give more than its line is theirs."""
    rng = np.random.default_rng(5)
    n = 2000
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    X.loc[X.index[:16], "b"] = np.nan
    y = X["a"] + np.where(X["b"].isna(), 15.0, 0.0) + 0.1 * rng.normal(size=n)
    order = rng.permutation(n)
    found = dfi.explain(X.iloc[order], y.iloc[order], "linear", cv=4, form="cross", diagnose=False)
    assert found.diagnostics["rare_missing"]["columns"] == ("b",)
    assert found.scores[1] == pytest.approx(15.0**2 * 0.008 * 0.992, rel=0.2)


def test_a_rare_indicator_that_tells_of_another_column_has_a_coordinate():
    rng = np.random.default_rng(6)
    n = 4000
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    X.loc[X["a"] > np.sort(X["a"])[-31], "b"] = np.nan
    y = X["a"] + X["b"].fillna(0) - 2 * X["b"].isna() + rng.normal(size=n)
    found = dfi.explain(X, y, "linear", cv=2, diagnose=False)
    assert found.diagnostics["blocks"] == {"b": 2}
    assert "rare_missing" not in found.diagnostics


def test_sums_over_rows_find_the_same_coordinates():
    X, _ = trips(1000)
    levels = sorted(set(X["city"]))
    one_hot = (X["city"].to_numpy()[:, None] == np.array(levels)).astype(float)
    matrix = np.column_stack([one_hot, X[["km", "air", "late"]]])
    count = len(levels)
    columns = (
        Column("city", "city", "categorical", tuple(levels), tuple(range(count))),
        *(Column(n, n, "real", (), (count + k,)) for k, n in enumerate(["km", "air", "late"])),
    )
    mass, constant = np.ones(1000), np.zeros(matrix.shape[1], dtype=bool)
    here = within_units.within_units(matrix, mass / 1000, constant, columns, 1000.0)
    moments = MomentsOf(matrix.mean(axis=0)).of(matrix, mass, np.arange(1000))
    there = within_units.units_of_moments(moments, constant, columns, 1000.0)
    ours, theirs = here.blocks[0], there.blocks[0]
    assert ours.held == theirs.held == ((1, 1), (2, 1))
    centred = one_hot - one_hot.mean(axis=0)
    np.testing.assert_allclose(
        centred @ ours.encoder @ ours.decoder, centred @ theirs.encoder @ theirs.decoder, atol=1e-8
    )
    # rows of fewer take the same directions
    kept = np.arange(1000) < 900
    refit = within_units.within_units(
        matrix[kept], mass[kept] / 900, constant, columns, 900.0, like=here
    )
    assert refit.blocks[0].held == ours.held
    assert refit.blocks[0].rare == ours.rare
