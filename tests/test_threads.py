"""Kernel threads follow ``n_jobs``, joblib's configuration and limits of OpenMP."""

import joblib
import numpy as np
import pytest
from joblib import delayed
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

import dfi
from dfi._models.parallel import in_parallel
from dfi._threads import (
    allowed_threads,
    blas_of_caller,
    machine_threads,
    openmp_limited,
    single_blas_thread,
    thread_pools,
    threads_allowed,
)


def seen(n_tasks, n_jobs, **options):
    return list(
        in_parallel((delayed(allowed_threads)() for _ in range(n_tasks)), n_jobs, **options)
    )


@pytest.mark.parametrize(
    ("n_tasks", "n_jobs", "expected"), [(1, 1, 1), (3, 1, 1), (1, 3, 3), (3, 3, 1), (2, 3, 1)]
)
def test_tasks_and_kernels_share_the_workers(n_tasks, n_jobs, expected):
    assert seen(n_tasks, n_jobs, threads=True) == [expected] * n_tasks


def test_joblib_configures_kernels_too():
    with joblib.parallel_config(backend="threading", n_jobs=3):
        assert seen(1, None) == [3]
        assert seen(2, None) == [1, 1]
    with joblib.parallel_config(n_jobs=1):
        assert seen(2, None, threads=True) == [1, 1]


def test_without_a_number_openmp_decides(monkeypatch):
    monkeypatch.setattr("dfi._threads.available_cores", lambda: 8)
    with threadpool_limits(limits=5, user_api="openmp"):
        assert machine_threads() == allowed_threads() == 5
        for options in ({}, {"threads": True}, {"here": True}):
            assert seen(2, None, **options) == [5, 5]
        assert seen(1, 1) == [1]


def test_limits_end_with_their_block():
    before = allowed_threads()
    with threads_allowed(7):
        assert allowed_threads() == 7
    assert allowed_threads() == before


def test_threads_of_a_fitted_model_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr("dfi._compiled.WORTH_THREADS", 0)
    sample = dfi.datasets.m1(120, d=4)
    model = HistGradientBoostingRegressor(max_iter=5).fit(sample.X, sample.y)
    alone, together = (
        dfi.explain(sample.X, sample.y, model, cv="prefit", n_jobs=n_jobs) for n_jobs in (1, 3)
    )
    np.testing.assert_array_equal(alone.influence, together.influence)


def threads_of(kind):
    pools = thread_pools().lib_controllers
    return {pool.num_threads for pool in pools if pool.user_api == kind}


def blas_threads():
    return threads_of("blas")


@pytest.mark.parametrize(
    ("cells", "model", "expected"),
    [
        (100, None, 1),
        (100, HistGradientBoostingRegressor(), 1),
        (100, object(), 3),
        (10**6, None, 2),
        (10**6, HistGradientBoostingRegressor(), 2),
    ],
)
def test_openmp_works_alone_on_few_cells_and_within_the_allowed_threads(
    monkeypatch, cells, model, expected
):
    monkeypatch.setattr("dfi._threads.available_cores", lambda: 8)
    with threadpool_limits(limits=3, user_api="openmp"), threads_allowed(2):
        with openmp_limited(cells, model):
            assert threads_of("openmp") == {expected}
        assert threads_of("openmp") == {3}


def test_models_are_fitted_and_predict_few_rows_with_one_openmp_thread(monkeypatch):
    seen = []
    for name in ("fit", "predict"):
        plain = getattr(HistGradientBoostingRegressor, name)

        def noting(self, *given, _plain=plain, **named):
            seen.append(threads_of("openmp"))
            return _plain(self, *given, **named)

        monkeypatch.setattr(HistGradientBoostingRegressor, name, noting)
    sample = dfi.datasets.m1(300, d=4)
    with threadpool_limits(limits=3, user_api="openmp"):
        dfi.explain(sample.X, sample.y, HistGradientBoostingRegressor(max_iter=30), cv=2)
    assert len(seen) > 4
    assert seen == [{1}] * len(seen)


@pytest.fixture
def three_blas_threads():
    with threadpool_limits(limits=3, user_api="blas"):
        if blas_threads() != {3}:
            pytest.skip("this BLAS has no number of threads")
        yield


class Noting(LinearRegression):
    """A model that notes how many threads linear algebra has."""

    def fit(self, X, y):
        self.fitting_ = blas_threads()
        return super().fit(X, y)

    def predict(self, X):
        self.predicting_ = blas_threads()
        return super().predict(X)


@pytest.mark.usefixtures("three_blas_threads")
def test_linear_algebra_has_one_thread_but_not_where_a_model_is_fitted():
    sample = dfi.datasets.m1(120, d=4)
    model = Noting().fit(sample.X, sample.y)
    dfi.explain(sample.X, sample.y, model, cv="prefit", n_jobs=1)
    assert model.predicting_ == {1}
    assert blas_threads() == {3}
    fitted = []
    Noting.fit, plain = lambda self, X, y: fitted.append(plain(self, X, y)) or self, Noting.fit
    try:
        dfi.explain(sample.X, sample.y, Noting(), cv=2, n_jobs=1)
    finally:
        Noting.fit = plain
    assert fitted
    assert all(one.fitting_ == {3} for one in fitted)
    assert blas_threads() == {3}


@pytest.mark.usefixtures("three_blas_threads")
def test_limits_of_linear_algebra_nest():
    with single_blas_thread():
        with single_blas_thread(), blas_of_caller():
            assert blas_threads() == {3}
        assert blas_threads() == {1}
        with blas_of_caller():
            assert blas_threads() == {3}
        assert blas_threads() == {1}
    assert blas_threads() == {3}
    with blas_of_caller():
        assert blas_threads() == {3}
