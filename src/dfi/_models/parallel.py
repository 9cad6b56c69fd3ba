"""Parallel tasks: results as they come, and workers that leave Ctrl-C to their caller."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from joblib import Parallel, effective_n_jobs
from joblib.externals.loky.backend import resource_tracker as loky_tracker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def in_parallel(
    tasks: Iterable[Any], n_jobs: int | None, *, threads: bool = False, ordered: bool = True
) -> Iterator[Any]:
    """Run delayed calls through joblib and return their results one by one.

    Parameters
    ----------
    tasks : iterable
        Calls made by :func:`joblib.delayed`.
    n_jobs : int, optional
        How many at a time, in joblib's counting.
    threads : bool, default=False
        Prefer threads: where tasks only predict, the models stay where they are.
    ordered : bool, default=True
        Results in the order of the tasks, or else in the order in which they are done.

    Notes
    -----
    A terminal sends Ctrl-C to every process of the foreground job. The caller alone should act
    on it, and joblib then ends its workers; a worker that hears it too dies with a traceback of
    its own. Workers, and the threads that start new ones, inherit the mask of the thread that
    starts them, so they are started while the signal is held back. One that arrives meanwhile is
    delivered to the caller right after.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be 1 or more, or -1 for all processors, got 0")
    parallel = Parallel(
        n_jobs=n_jobs,
        prefer="threads" if threads else None,
        return_as="generator" if ordered else "generator_unordered",
    )
    with _interrupts_held(processes=not threads and effective_n_jobs(n_jobs) > 1):
        # A generator starts its workers in the call, and runs nothing here until it is read.
        results: Iterator[Any] = parallel(tasks)
    return results


@contextmanager
def _interrupts_held(*, processes: bool) -> Iterator[None]:
    can_hold = hasattr(signal, "pthread_sigmask")  # not on Windows
    if not can_hold or threading.current_thread() is not threading.main_thread():
        yield
        return
    if processes:
        # Python 3.11, and joblib before 1.6, let the signal through after they have started these
        # processes: so they go first.
        resource_tracker.ensure_running()
        loky_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
