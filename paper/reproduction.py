"""Reproductions: studies made of small tasks that survive an interruption.

A study of the paper is a list of tasks (one replication of one cell each) and a writer that turns
their records into a table of numbers, a figure and a page. Every task leaves its record on disk
when it ends, so a run that was interrupted goes on where it stopped, and one with more
replications begins with those that are there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

import dfi

if TYPE_CHECKING:
    from pathlib import Path

Record = dict[str, Any]
"""What a task found: numbers, strings and lists of them."""

Records = Mapping[str, Record]
"""Records by the key of their task."""


@dataclass(frozen=True)
class Size:
    """How much of a study is run.

    Attributes
    ----------
    full : bool
        The paper's sample sizes and forests; otherwise a reduced version of everything.
    seeds : int, optional
        Replications, where not the study's own number.
    refit_seeds : int, optional
        Replications of the methods that refit a model for every feature or subset, or that draw.
    refit_trees : int, optional
        Trees of the forests that are refitted.
    data : str, optional
        Folder of the HIV-1 data, where not ``DFI_DATA``.
    """

    full: bool = False
    seeds: int | None = None
    refit_seeds: int | None = None
    refit_trees: int | None = None
    data: str | None = None

    def __post_init__(self) -> None:
        for name in ("seeds", "refit_seeds", "refit_trees"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    def replications(self, *, quick: int, full: int) -> int:
        """Return the number of replications of a cheap method."""
        return self.seeds or (full if self.full else quick)

    def refits(self, *, quick: int, full: int) -> int:
        """Return the number of replications of a method that refits or draws."""
        wanted = self.refit_seeds or (full if self.full else quick)
        return wanted if self.seeds is None else min(wanted, self.seeds)

    def trees(self, *, quick: int, full: int, refit: bool = False) -> int:
        """Return the number of trees of a forest."""
        default = full if self.full else quick
        return (self.refit_trees or default) if refit else default

    @property
    def words(self) -> str:
        """How a page names it."""
        return "the paper's sizes" if self.full else "reduced sizes (`--quick`)"


@dataclass(frozen=True)
class Task:
    """One replication of one cell: a function of plain arguments that returns a record.

    Attributes
    ----------
    key : str
        Name of the record within its study; letters, digits, dots and hyphens.
    function : callable
        A function of a module, called with ``arguments``.
    arguments : mapping
        Strings, numbers and lists of them.
    measured : bool
        Whether the record holds timings, which no second run repeats to the byte.
    """

    key: str
    function: Callable[..., Record]
    arguments: Mapping[str, object] = field(default_factory=dict)
    measured: bool = False

    @property
    def identity(self) -> str:
        """A digest of what is computed: records of another version or setting do not count."""
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        text = json.dumps([dfi.__version__, name, dict(self.arguments)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Study:
    """A figure or a table of the paper.

    Attributes
    ----------
    name : str
        What ``dfi reproduce`` calls it.
    title : str
        What it shows, in one line.
    tasks : callable
        :class:`Size` to the tasks.
    write : callable
        ``(records, folder, size)``: writes :attr:`files` into the folder.
    figures : tuple of str
        Endings of the figures beyond ``NAME.png``.
    shared : str, optional
        Name under which records are kept, where studies have tasks in common.
    """

    name: str
    title: str
    tasks: Callable[[Size], Sequence[Task]]
    write: Callable[[Records, Path, Size], None]
    figures: tuple[str, ...] = ()
    shared: str | None = None

    @property
    def kept_in(self) -> str:
        """The folder of its records."""
        return self.shared or self.name

    @property
    def files(self) -> tuple[str, ...]:
        """The names of everything it writes."""
        further = [f"{self.name}-{ending}.png" for ending in self.figures]
        return (f"{self.name}.csv", f"{self.name}.png", f"{self.name}.md", *further)


@dataclass(frozen=True)
class Checkpoints:
    """The records of a study's tasks on disk, one file each.

    Attributes
    ----------
    folder : Path
        Where they are.
    """

    folder: Path

    def path(self, task: Task) -> Path:
        """Return the file of a task's record."""
        return self.folder / f"{task.key}.json"

    def read(self, task: Task) -> Record | None:
        """Return the record of a task, or None where there is none of these settings."""
        try:
            found = json.loads(self.path(task).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(found, dict) or found.get("identity") != task.identity:
            return None
        record = found.get("record")
        return record if isinstance(record, dict) else None

    def write(self, task: Task, record: Record) -> None:
        """Write a record whole or not at all."""
        text = json.dumps({"identity": task.identity, "record": _plain(record)}, sort_keys=True)
        stage = self.folder / f"{task.key}.{os.getpid()}.tmp"
        try:
            with stage.open("w", encoding="utf-8") as stream:
                stream.write(text + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            stage.replace(self.path(task))
        except OSError as error:  # under the name that the caller knows
            raise OSError(error.errno, error.strerror, str(self.path(task))) from error
        finally:
            with contextlib.suppress(OSError):
                stage.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove what processes that were killed left half-written."""
        for stage in self.folder.glob("*.tmp"):
            number = stage.suffixes[-2].lstrip(".") if len(stage.suffixes) > 1 else ""
            if number.isdecimal() and not _is_running(int(number)):
                stage.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":  # there the question would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def run_tasks(
    study: Study,
    size: Size,
    folder: Path,
    *,
    n_jobs: int | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> Records:
    """Run a study's tasks and return their records.

    Parameters
    ----------
    study : Study
        What to run.
    size : Size
        How much of it.
    folder : Path
        Where the records are kept, in a folder of the study's name.
    n_jobs : int, optional
        Parallel tasks; the records do not depend on it.
    resume : bool, default=False
        Whether records that are there count.
    progress : bool, optional
        Show a bar; by default at a terminal only.
    """
    checkpoints = Checkpoints(folder / study.kept_in)
    checkpoints.folder.mkdir(parents=True, exist_ok=True)
    checkpoints.tidy()
    tasks = list(study.tasks(size))
    pending = [task for task in tasks if not resume or checkpoints.read(task) is None]
    # Timings need the machine for themselves: they come last, one at a time.
    quiet = [task for task in pending if task.measured]
    others = [task for task in pending if not task.measured]
    hidden = None if progress is None else not progress  # None: tqdm shows it at a terminal only
    with tqdm(total=len(pending), desc=study.name, leave=False, disable=hidden) as bar:
        for part, jobs in ((others, n_jobs), (quiet, 1)):
            for _ in _results([delayed(_run)(task, checkpoints) for task in part], jobs):
                bar.update()
    records = {task.key: checkpoints.read(task) for task in tasks}
    missing = [key for key, record in records.items() if record is None]
    if missing:
        raise RuntimeError(f"{study.name}: no record of {', '.join(missing[:3])}")
    return {key: record for key, record in records.items() if record is not None}


def _results(calls: list[Any], n_jobs: int | None) -> Iterator[Any]:
    """Run calls and return their results as they come; Ctrl-C reaches this process alone."""
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    # A terminal sends Ctrl-C to the workers too, which would die with tracebacks of their own. They
    # inherit the signals that are held back while the generator starts them.
    held = effective_n_jobs(n_jobs) > 1 and hasattr(signal, "pthread_sigmask")
    if held:
        resource_tracker.ensure_running()  # Python 3.11 lets signals through after its start
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        results: Iterator[Any] = parallel(calls)
    finally:
        if held:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return results


def _run(task: Task, checkpoints: Checkpoints) -> None:
    # One thread: matrix products round differently when they are split, and a run that is resumed
    # must give the bytes of one that was not.
    with threadpool_limits(1), warnings.catch_warnings():
        # Simulations know what their warnings would say; pages state what matters of it.
        warnings.simplefilter("ignore")
        checkpoints.write(task, task.function(**task.arguments))


def _plain(value: object) -> object:
    """Return numbers and lists that JSON knows; what is not a number becomes None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def reproduce(
    study: Study,
    folder: Path,
    *,
    size: Size | None = None,
    records_folder: Path | None = None,
    n_jobs: int | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> None:
    """Run a study and write its table, figure and page into a folder.

    Parameters
    ----------
    study : Study
        See :mod:`paper.catalogue`.
    folder : Path
        Where the files go.
    size : Size, optional
        How much of the study; the quick version by default.
    records_folder : Path, optional
        Where records of tasks are kept; ``folder/records`` by default.
    n_jobs, resume, progress
        As for :func:`run_tasks`.
    """
    size = size or Size()
    folder.mkdir(parents=True, exist_ok=True)
    kept = records_folder or folder / "records"
    records = run_tasks(study, size, kept, n_jobs=n_jobs, resume=resume, progress=progress)
    study.write(records, folder, size)
