"""Estimators of xgboost.dask and lightgbm.dask: fitted on all rows, on the workers."""

from __future__ import annotations

import dask.dataframe as dd
import lightgbm
import numpy as np
import pytest
import xgboost
import xgboost.dask
from distributed import Client, LocalCluster

import dfi
from dfi._data.seeds import Seeds
from dfi._models.cluster import TicketSplit
from tests.streams.slices import Slices

from .conftest import N

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

OPTIONS = {"explain_rows": 400, "diagnose": False, "cv": 2}
SMALL = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local,
        Client(local) as opened,
    ):
        yield opened


@pytest.fixture
def table(frame):
    return frame.drop(columns=["k", "few"])


@pytest.mark.parametrize("module", ["xgboost", "lightgbm"])
def test_models_are_those_of_all_training_rows(module, client, table):
    """One worker fits what the local estimator fits on the same rows."""
    if module == "xgboost":
        far = xgboost.dask.DaskXGBRegressor(tree_method="hist", **SMALL)
        near = xgboost.XGBRegressor(tree_method="hist", **SMALL)
    else:
        far = lightgbm.DaskLGBMRegressor(verbose=-1, **SMALL)
        near = lightgbm.LGBMRegressor(verbose=-1, **SMALL)
    options = {**OPTIONS, "form": "loco", "sample_weight": "w"}
    found = dfi.explain(dd.from_pandas(table, npartitions=1), "y", far, **options)
    folds = TicketSplit.of(Seeds.of(0), 2).folds(np.arange(N))
    splits = [(fold.train, fold.test) for fold in folds]
    local = dfi.explain(table, "y", near, **{**options, "cv": splits})
    assert found.scores == pytest.approx(local.scores, rel=0.02, abs=0.02 * local.scores.max())
    assert found.spec["estimator"].startswith("Dask")
    assert "fit_rows" not in found.spec


def test_halves_and_classes(client, table):
    far = xgboost.dask.DaskXGBClassifier(tree_method="hist", **SMALL)
    found = dfi.explain(dd.from_pandas(table, npartitions=3), "flag", far, **OPTIONS)
    assert found.spec["form"] == "cross"
    assert dict(zip(found.names, found.scores, strict=True))["a"] > 3 * found.se[0]
    several = lightgbm.DaskLGBMClassifier(verbose=-1, **SMALL)
    assert dfi.explain(dd.from_pandas(table, npartitions=3), "c", several, **OPTIONS).by_outcome


def test_halves_have_no_row_in_common():
    split, places = TicketSplit.of(Seeds.of(3), 4), np.arange(999)
    for k, fold in enumerate(split.folds(places)):
        one, other = (split.trains(places, k, half) for half in range(2))
        assert not (one & other).any()
        assert np.array_equal(np.flatnonzero(one | other), fold.train)
        assert len(np.intersect1d(fold.train, fold.test)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": [([0, 1], [2, 3])]}, "cv is a list of row numbers, but the rows of X are not"),
        ({"cv": 1}, "cv is 1, but the workers make the folds of DaskXGBClassifier"),
        ({"n_repeats": 3}, "n_repeats=3 fits DaskXGBClassifier that many times on all rows"),
        ({"loss": "log-loss"}, "loss='log-loss' scales the margins of a classifier"),
    ],
)
def test_options_that_are_not_honoured(options, message, client, table):
    with pytest.raises(ValueError, match=message):
        dfi.explain(
            dd.from_pandas(table, npartitions=2),
            "flag",
            xgboost.dask.DaskXGBClassifier(),
            **{**OPTIONS, **options},
        )


def test_tables_of_others(table):
    message = "DaskXGBRegressor is fitted on Dask tables of more than 20,000 rows, and X is not one"
    for X in (table, Slices(table, (700,))):
        with pytest.raises(TypeError, match=message):
            dfi.explain(X, "y", xgboost.dask.DaskXGBRegressor(), **OPTIONS)
