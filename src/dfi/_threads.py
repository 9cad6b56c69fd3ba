"""How many threads a task may use, within ``n_jobs`` and the machine.

Compiled kernels and tasks that run side by side share one number. Told nothing, kernels use the
cores that this process may run on, or fewer where OpenMP is limited: by ``OMP_NUM_THREADS``, by
threadpoolctl, or by joblib in its own workers. Linear algebra has one thread: on a busy machine two
threads of OpenBLAS wait for each other (:math:`X^T X` of 10,000 x 20 takes 50 times as long), and
results do not depend on their number.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = 200_000
"""Cells below which a model's OpenMP has one thread: several wait for each other more than they
work. Boosting is fitted on 400 rows in 0.07 CPU seconds with one and in 0.19 with two; on a busy
machine it predicts 1,000 rows in a tenth of the time."""

_ALLOWED: ContextVar[int | None] = ContextVar("threads", default=None)
_LIMIT: ContextVar[Any] = ContextVar("limit", default=None)


@contextmanager
def threads_allowed(count: int) -> Iterator[None]:
    """Let kernels called meanwhile in this thread use a number of threads."""
    token = _ALLOWED.set(count)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def allowed_threads() -> int:
    return _ALLOWED.get() or machine_threads()


def openmp_limited(cells: int, predicting: object = None) -> Any:
    """Limit OpenMP while a model is fitted or predicts: on few cells, and to ``n_jobs``.

    How long a model of another library than scikit-learn predicts is not known from the cells.
    """
    limit = None
    if predicting is None or type(predicting).__module__.startswith(("sklearn.", "dfi.")):
        limit = 1 if cells < SMALL else min(allowed_threads(), machine_threads())
    return _pools("openmp").limit(limits=limit)


def machine_threads() -> int:
    """Return how many threads this process may use by default."""
    own = (pool.num_threads for pool in thread_pools().lib_controllers if pool.user_api == "openmp")
    return int(max(1, min([available_cores(), *filter(None, own)])))


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Let linear algebra called meanwhile use one thread."""
    with _one_blas_thread() as limit:
        token = None if _LIMIT.get() else _LIMIT.set(limit)
        try:
            yield
        finally:
            if token:
                _LIMIT.reset(token)


@contextmanager
def blas_of_caller() -> Iterator[None]:
    """Let linear algebra use its own number of threads again, for the fit of a caller's model."""
    limit = _LIMIT.get()
    if limit is None:
        yield
        return
    limit.restore_original_limits()
    try:
        yield
    finally:
        _one_blas_thread()


def _one_blas_thread() -> Any:
    return _pools("blas").limit(limits=1)


@cache
def thread_pools() -> ThreadpoolController:
    """Return the process's thread pools; looking them up takes longer than a small fit."""
    return ThreadpoolController()


@cache
def _pools(kind: str) -> ThreadpoolController:
    # a limit that ends restores all pools: OpenMP's belong to single threads, others to the process
    return thread_pools().select(user_api=kind)


def available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
