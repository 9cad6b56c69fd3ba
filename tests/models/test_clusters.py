"""The same bits from the workers of Dask, Ray and Spark, where these are installed.

What they have in common is tested without them, in ``test_backends.py``: these are for
``make test-full``.
"""

import os
import sys
import threading

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi import _progress
from dfi._models import parallel

# Starting a cluster takes as long as it takes; sockets are closed when it ends, not before.
pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Spark:UserWarning"),
    # in small tables one row may rule a score of noise
    pytest.mark.filterwarnings("ignore:row .* alone:dfi.warnings.InferenceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def data(n=500):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 4))
    X[:, 1] += X[:, 0]
    y = X[:, 0] + X[:, 2] ** 2 + generator.normal(size=n)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["e"] = pd.Categorical(np.array(["p", "q", "r"])[np.arange(n) % 3])
    return frame, y


def boosting(**how):
    X, y = data()
    return dfi.explain(X[list("abcd")], y, HistGradientBoostingRegressor(max_iter=10), **how)


def default(**how):
    X, y = data()
    return dfi.explain(X[list("abcd")], y, **how)


def categories(**how):
    return dfi.explain(*data(), HistGradientBoostingRegressor(max_iter=10), **how)


def assert_same(one, other):
    for found, same in ((one, other), (one.latent, other.latent)):
        np.testing.assert_array_equal(found.influence, same.influence)
        np.testing.assert_array_equal(found.se, same.se)


class Bar:
    """A progress bar that remembers what it was told, and cannot be shipped."""

    shown: list["Bar"] = []  # noqa: RUF012
    delay = 0
    postfix = None

    def __init__(self, total, desc, leave, postfix=None):
        self.total, self.told, self.lock = total, [], threading.Lock()
        self.shown.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def update(self, step):
        self.told.append(step)

    def set_postfix_str(self, text, refresh=True):
        pass


def check(call, monkeypatch):
    """Compare with the caller's own process; the bar is moved by the caller."""
    with joblib.parallel_config(backend="sequential"):
        here = call(progress=False)
    monkeypatch.setattr(_progress, "tqdm", Bar)
    monkeypatch.setattr(Bar, "shown", [])
    monkeypatch.setattr(parallel, "FEW_STEPS", FEW)
    assert_same(here, call(n_jobs=2, progress=True))
    assert len(Bar.shown) >= 2
    assert [sum(bar.told) for bar in Bar.shown] == [bar.total for bar in Bar.shown]


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    register_ray()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark")
    joblibspark = pytest.importorskip("joblibspark")
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # else workers are another Python's
        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = session.getOrCreate()
        joblibspark.register_spark()
        yield session
        session.stop()


FEW = 400
"""Rows that stay here: those of a jackknife's refits, not those of the tables."""

CALLS = [boosting, default, categories]


@pytest.mark.parametrize(
    ("call", "small"), [*((call, parallel.SMALL_PARCEL) for call in CALLS), (categories, 0)]
)
def test_dask(call, small, dask, monkeypatch):
    monkeypatch.setattr(parallel, "SMALL_PARCEL", small)
    with joblib.parallel_config(backend="dask"):
        check(call, monkeypatch)


class Deadly(LinearRegression):
    """Ends the process of the first worker that fits it."""

    def __init__(self, place=None):
        super().__init__()
        self.place = place

    def fit(self, X, y):
        try:
            os.close(os.open(self.place, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().fit(X, y)
        os._exit(1)


def test_dask_when_a_worker_dies(dask, monkeypatch, tmp_path):
    monkeypatch.setattr(parallel, "SMALL_PARCEL", 0)
    X, y = data()
    place = tmp_path / "died"
    place.touch()
    here = dfi.explain(X[list("abcd")], y, Deadly(place), progress=False)
    place.unlink()
    with joblib.parallel_config(backend="dask"):
        there = dfi.explain(X[list("abcd")], y, Deadly(place), progress=False)
    assert place.exists()
    assert_same(here, there)
    dask.wait_for_workers(2)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("small", [parallel.SMALL_PARCEL, 0])
def test_ray(call, small, ray, monkeypatch):
    monkeypatch.setattr(parallel, "SMALL_PARCEL", small)
    with joblib.parallel_config(backend="ray"):
        check(call, monkeypatch)


@pytest.mark.parametrize("call", CALLS)
def test_spark(call, spark, monkeypatch):
    with joblib.parallel_config(backend="spark"):
        check(call, monkeypatch)
