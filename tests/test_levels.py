"""No model is ever asked for a value that a column cannot take, whichever way it is explained."""

from __future__ import annotations

import functools

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi import plots
from dfi._data.table import read_table
from dfi.transports import Copula, EntropicOT, Gaussian, KnotheRosenblatt, Semicontinuous

RNG = np.random.default_rng(0)
N = 100
REAL = RNG.normal(size=N)
FRAME = pd.DataFrame(
    {
        "real": REAL,
        "hour": RNG.integers(0, 7, N) * 3,
        "flag": REAL + RNG.normal(size=N) > 0,
        "dose": np.round(REAL + RNG.normal(size=N)) / 4,
        "sex": RNG.choice(["f", "m"], N),
        "ward": pd.Categorical(RNG.choice(["a", "b", "c", "d"], N), list("abcdz")),
    }
)
LEVELS = {name: set(FRAME[name]) for name in FRAME.columns if name != "real"}
Y = (
    REAL * FRAME["flag"]
    + np.sin(FRAME["hour"])
    + FRAME["dose"]
    + (FRAME["ward"] == "b")
    + 0.2 * RNG.normal(size=N)
).to_numpy(float)
QUIET = {"progress": False, "diagnose": False, "random_state": 0}


def check(rows):
    """Refuse a table that is not like the caller's, or holds a value that was not observed."""
    for name, observed in LEVELS.items():
        if name not in rows:
            continue
        assert rows[name].dtype == FRAME[name].dtype
        assert set(rows[name]) <= observed, name


def watched(rows):
    check(rows)
    return (
        rows["real"] * rows["flag"]
        + np.sin(rows["hour"])
        + rows["dose"] * (rows["sex"] == "m")
        + (rows["ward"] == "b" if "ward" in rows else 0.0)
    ).to_numpy(float)


MATRIX_LEVELS = [np.unique(column) for column in read_table(FRAME).matrix.T[1:]]


class Watched(RegressorMixin, BaseEstimator):
    """A model of some columns of the numeric matrix that refuses all but observed levels."""

    def fit(self, X, y):
        self.levels_ = [self.whose(column) for column in X.T]
        self.model_ = LinearRegression().fit(X, y)
        return self

    def whose(self, column):
        """Return the smallest set of levels that has the column's values; None for a real one."""
        sets = [levels for levels in MATRIX_LEVELS if np.isin(column, levels).all()]
        return min(sets, key=len, default=None)

    def predict(self, X):
        for column, levels in zip(X.T, self.levels_, strict=True):
            assert levels is None or np.isin(column, levels).all()
        return self.model_.predict(X) + 0.1 * X[:, 0] * X[:, -1]


class Shear:
    """A transport of one's own: every column takes a part of the one before."""

    def fit(self, X):
        d = X.shape[1]
        self.map = np.eye(d) + 0.3 * np.eye(d, k=1)
        return self

    def encode(self, X, generator):
        return np.linalg.solve(self.map.T, X.T).T

    def decode(self, Z):
        return Z @ self.map


TRANSPORTS = {
    "gaussian": Gaussian(),
    "bridge": Gaussian(epsilon=0.5, n_smoothing=4),
    "semicontinuous": Semicontinuous(epsilon=0.5),
    "copula": Copula(),
    "entropic": EntropicOT(epsilon=8.0),
    "knothe": KnotheRosenblatt(),
    "custom": Shear(),
}


def suited(name):
    """Return the columns that a transport takes: categories have no order for Knothe's."""
    return FRAME.drop(columns="ward") if name == "knothe" else FRAME


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
@pytest.mark.parametrize("form", ["loco", "cpi"])
@pytest.mark.parametrize("name", TRANSPORTS)
def test_a_function_is_asked_for_observed_levels_only(name, form):
    explainer = dfi.DFI(
        estimator=watched, cv="prefit", transport=TRANSPORTS[name], form=form, **QUIET
    ).fit(suited(name), Y)
    assert np.isfinite(explainer.result_.scores).all()
    if name != "entropic":
        plots.line_profile_data(explainer, "real")
        plots.line_profile_data(explainer, "hour")


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
@pytest.mark.parametrize("name", ["gaussian", "copula", "knothe"])
def test_fitted_models_are_asked_for_observed_levels_only(name):
    explainer = dfi.DFI(estimator=Watched(), cv=2, transport=TRANSPORTS[name], **QUIET)
    assert np.isfinite(explainer.fit(suited(name), Y).result_.scores).all()
    plots.line_profile_data(explainer, "hour")
    if name != "knothe":
        plots.line_profile_data(explainer, "ward", level="b")


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_comparators_ask_for_observed_levels_only():
    found = dfi.compare(FRAME, Y, "all", estimator=Watched(), cv=2, random_state=0, progress=False)
    assert {"cpi", "pfi", "sobol_total"} <= set(found.results)


def coded(coding):
    """Return a table with one column of two values and one of levels, coded in some way."""
    two, hours = FRAME["flag"].to_numpy(), FRAME["hour"].to_numpy()
    values = {
        "booleans": (two, hours),
        "numbers": (two.astype(int), hours),
        "reals": (two.astype(float), hours.astype(float)),
        "words": (np.where(two, "yes", "no"), hours),
        "rescaled": (two.astype(int) * 2 + 1, 2 * hours + 1),
        "quarters": (two / 4, hours / 4 + 0.25),
    }[coding]
    return pd.DataFrame({"real": REAL, "two": values[0], "hours": values[1]})


def tree_models():
    return {
        "forest": RandomForestRegressor(20, min_samples_leaf=3, random_state=0),
        "boosting": GradientBoostingRegressor(n_estimators=20, random_state=0),
        "lightgbm": lightgbm.LGBMRegressor(
            n_estimators=20, min_child_samples=3, verbose=-1, n_jobs=1
        ),
        "xgboost": xgboost.XGBRegressor(n_estimators=20, n_jobs=1),
    }


@functools.cache
def of_booleans(name):
    return dfi.explain(coded("booleans"), Y, tree_models()[name], cv=2, **QUIET)


@pytest.mark.filterwarnings("ignore::dfi.warnings.TransportWarning")
@pytest.mark.parametrize("coding", ["numbers", "reals", "words", "rescaled", "quarters"])
@pytest.mark.parametrize("name", tree_models())
def test_the_coding_of_levels_does_not_matter(name, coding):
    expected = of_booleans(name)
    found = dfi.explain(coded(coding), Y, tree_models()[name], cv=2, **QUIET)
    scale = np.abs(expected.scores).max()
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-6 * scale)
    errors, others = (r.table()["se"] for r in (expected, found))
    np.testing.assert_allclose(others, errors, rtol=0, atol=1e-6 * scale)
