"""Parallel tasks and their progress bars; workers that leave Ctrl-C to their caller."""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from threadpoolctl import ThreadpoolController
from tqdm.auto import tqdm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dfi._types import Advance

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Workers:
    """Who does the work: how many tasks at a time, and whether somebody watches.

    Results do not depend on ``n_jobs``, in joblib's counting; progress bars are shown by default at
    a terminal only. ``started`` is the moment from which a time limit counts.
    """

    n_jobs: int | None = None
    progress: bool | None = None
    started: float = field(default_factory=time.monotonic, compare=False)

    def run(
        self,
        function: Callable[..., Answer],
        tasks: Sequence[tuple[object, ...]],
        label: str,
        *,
        threads: bool = False,
    ) -> list[Answer]:
        """Call a function on every task, in parallel, with a progress bar; results in order."""
        jobs = (delayed(function)(*task) for task in tasks)
        with progress_bar(self.progress, label, len(tasks)) as advance:
            return gathered(jobs, self.n_jobs, advance, threads=threads)


def gathered(
    tasks: Iterable[object], n_jobs: int | None, advance: Advance | None, *, threads: bool = False
) -> list[Any]:
    """Return the results of delayed calls, told one by one to a progress bar."""
    results = []
    for result in in_parallel(tasks, n_jobs, threads=threads):
        results.append(result)
        if advance is not None:
            advance(1)
    return results


@contextmanager
def progress_bar(progress: bool | None, label: str, total: int) -> Iterator[Advance | None]:
    """Yield the advance of a progress bar, or None where none is wanted."""
    shown = sys.stderr.isatty() if progress is None else progress
    if not shown:
        yield None
        return
    with tqdm(total=total, desc=label, leave=False) as bar:
        yield bar.update


@dataclass(frozen=True)
class Bar:
    """A progress bar that can say how far the answer has settled; none where nobody watches."""

    bar: tqdm | None

    @property
    def advance(self) -> Advance | None:
        """What moves it."""
        return None if self.bar is None else self.bar.update

    def tell(self, text: str, total: int) -> None:
        """Show a text beside it, and how much there is to do as far as that is known."""
        if self.bar is not None:
            self.bar.total = total
            self.bar.set_postfix_str(text)


@contextmanager
def telling_bar(progress: bool | None, label: str, total: int) -> Iterator[Bar]:
    """Yield a progress bar with a text that changes."""
    shown = sys.stderr.isatty() if progress is None else progress
    if not shown:
        yield Bar(None)
        return
    with tqdm(total=total, desc=label, leave=False) as bar:
        yield Bar(bar)


@cache
def thread_pools() -> ThreadpoolController:
    """Return the process's thread pools; looking them up takes longer than a small fit."""
    return ThreadpoolController()


def in_parallel(
    tasks: Iterable[object], n_jobs: int | None, *, threads: bool = False, ordered: bool = True
) -> Iterator[Any]:
    """Run delayed calls through joblib and return their results one by one.

    ``threads`` where tasks only predict: the models stay where they are. Unless ``ordered``,
    results come in the order in which they are done.

    A terminal sends Ctrl-C to every process of the foreground job. The caller alone should act on
    it, and joblib then ends its workers; a worker that hears it too dies with a traceback of its
    own. Workers, and the threads that start new ones, inherit the mask of the thread that starts
    them, so they are started while the signal is held back. One that arrives meanwhile is delivered
    to the caller right after.
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
