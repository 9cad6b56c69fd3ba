"""Parallel tasks, with workers that leave Ctrl-C to their caller.

Where tasks run is joblib's business, and so the caller's: ``joblib.parallel_config`` may send them
to a cluster. Threads share what they are given, and joblib's own processes map large arrays from a
file. Every other backend is a far one, of which nothing is known: tasks are pickled here, what
several of them share once, and their results there (:class:`_Parcel`). Arrays that engines hand out
of buffers of their own may be neither aligned nor writable, which compiled kernels and models mind;
those from a parcel always are.
"""

from __future__ import annotations

import importlib
import io
import pickle
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from multiprocessing import resource_tracker
from types import BuiltinFunctionType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import numpy as np
from joblib import Parallel, cpu_count, delayed
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.parallel import BACKENDS, get_active_backend

from dfi._parameters import InvalidParameterError, argument, check
from dfi._progress import progress_bar
from dfi._threads import threads_allowed

try:
    import cloudpickle
except ImportError:  # joblib before 1.6 brings its own
    from joblib.externals import cloudpickle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfi._types import Advance

    AnyArray: TypeAlias = NDArray[Any]

Answer = TypeVar("Answer")
Call: TypeAlias = "tuple[Callable[..., object], tuple[object, ...], dict[str, object]]"
"""The value of ``joblib.delayed``: a function, its arguments and its keywords."""

LARGE_ARRAY = 1 << 14
"""Larger arrays that several tasks need are sent only once."""

MOST_JOBS = 4096
"""More workers than this are surely a mistake; a cluster may have thousands."""

FEW_STEPS = 2000
"""Tables with fewer rows are explained faster than sent:
Ray takes seconds to start workers for every round."""

SMALL_PARCEL = 1 << 16
"""Smaller arrays go along with every task: sending them to a cluster first would take longer."""

ATOMS = (int, float, complex, str, bytes, type, type(None), FunctionType, BuiltinFunctionType)
"""Kinds of objects that a reference would not make smaller."""


@dataclass(frozen=True)
class Workers:
    """How work is run: the number of parallel tasks, and whether to show progress."""

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
        jobs = (delayed(function)(*task) for task in tasks)
        with progress_bar(self.progress, label, len(tasks), self.started) as advance:
            return gathered(jobs, self.n_jobs, advance, threads=threads)


def gathered(
    tasks: Iterable[object], n_jobs: int | None, advance: Advance | None, *, threads: bool = False
) -> list[Any]:
    results = []
    for result in in_parallel(tasks, n_jobs, threads=threads):
        results.append(result)
        if advance is not None:
            advance(1)
    return results


def in_parallel(
    tasks: Iterable[Any],
    n_jobs: int | None,
    *,
    threads: bool = False,
    here: bool = False,
    advance: Advance | None = None,
    steps: Iterable[int] = (),
) -> Iterator[Any]:
    """Run delayed calls through joblib and return their results one by one.

    ``threads`` where tasks only predict, ``here`` where they must stay in this process. ``advance``
    is told the ``steps`` of results from elsewhere; tasks that stay tell it themselves.
    """
    check("in_parallel", {"n_jobs": n_jobs}, optional=["n_jobs"])
    if n_jobs is not None and n_jobs > MOST_JOBS:
        raise InvalidParameterError(
            f"{argument('n_jobs')} is {n_jobs}, more workers than a machine can start",
            "n_jobs",
            f"pass -1 for one on each of its {cpu_count()} processors",
        )
    steps = list(steps)
    here = here or 0 < sum(steps) <= FEW_STEPS
    prefer = "threads" if threads or here else None
    require = "sharedmem" if here else None
    backend, given = get_active_backend(prefer=prefer, require=require)
    n_workers = backend.effective_n_jobs(
        next((n for n in (n_jobs, given) if n is not None), backend.default_n_jobs)
    )
    lists = not backend.supports_return_generator and not isinstance(
        backend, BACKENDS["sequential"]
    )
    kind = "list" if lists else "generator"
    parallel = Parallel(n_jobs=n_jobs, prefer=prefer, require=require, return_as=kind)
    # joblib runs the tasks of a single worker in its caller
    shares = n_workers == 1 or getattr(backend, "supports_sharedmem", False)
    results: Iterator[Any]
    if not shares and not isinstance(backend, BACKENDS.get("loky", ())):
        results = chain.from_iterable(
            map(pickle.loads, parallel(_packed(list(tasks), backend, n_workers)))
        )
    else:
        # where threads are preferred, joblib says 1 itself: what its caller said comes without
        if n_jobs is not None or n_workers > 1 or get_active_backend()[1] is not None:
            tasks = _with_threads(tasks, n_workers)
        if lists:
            results = iter(parallel(tasks))
        else:
            with _interrupts_held(processes=not threads and n_workers > 1):
                # A generator starts its workers in the call; it runs nothing here until it is read.
                results = parallel(tasks)
    return results if shares or advance is None else _told(results, advance, steps)


def _with_threads(tasks: Iterable[Any], n_workers: int) -> Iterator[object]:
    """Yield tasks with a thread for each worker; a single task has all of them for its kernels."""
    waiting = iter(tasks)
    first = list(islice(waiting, 2))
    count = n_workers if len(first) == 1 else 1
    for call in chain(first, waiting):
        yield delayed(_run_with_threads)(count, call)


def _run_with_threads(count: int, call: Call) -> object:
    function, arguments, named = call
    with threads_allowed(count):
        return function(*arguments, **named)


def _told(results: Iterator[Answer], advance: Advance, steps: Iterable[int]) -> Iterator[Answer]:
    for result, step in zip(results, steps, strict=True):
        advance(step)
        yield result


class _Packer(cloudpickle.CloudPickler):  # type: ignore[misc]
    """Pickles numbers in place of shared objects and large arrays, sent once."""

    def __init__(
        self, file: io.BytesIO, objects: Mapping[int, int], arrays: dict[int, AnyArray]
    ) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.objects, self.arrays, self.used = objects, arrays, set[int]()

    def persistent_id(self, thing: object) -> tuple[str, int] | None:
        if type(thing) is np.ndarray and thing.nbytes >= LARGE_ARRAY and not thing.dtype.hasobject:
            # kept, so no array that is made for the pickle gets the identity of another
            self.arrays[id(thing)] = thing
            self.used.add(id(thing))
            return "array", id(thing)
        place = self.objects.get(id(thing))
        return None if place is None else ("object", place)

    @classmethod
    def pack(
        cls, thing: object, objects: Mapping[int, int], arrays: dict[int, AnyArray]
    ) -> _Packed:
        file = io.BytesIO()
        packer = cls(file, objects, arrays)
        packer.dump(thing)
        return _Packed(file.getvalue(), frozenset(packer.used))


@dataclass(frozen=True)
class _Packed:
    content: bytes
    used: frozenset[int]

    def open(self, objects: Sequence[object], arrays: Mapping[int, AnyArray]) -> object:
        return _Unpacker(io.BytesIO(self.content), objects, arrays).load()


class _Unpacker(pickle.Unpickler):
    def __init__(
        self, file: io.BytesIO, objects: Sequence[object], arrays: Mapping[int, AnyArray]
    ) -> None:
        super().__init__(file)
        self.found: dict[str, Any] = {"object": objects, "array": arrays}

    def persistent_load(self, key: tuple[str, int]) -> object:
        kind, number = key
        return self.found[kind][number]


class _Parcel:
    """What tasks share, pickled once as bytes: it comes out aligned and writable anywhere."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    @cached_property
    def opened(self) -> tuple[Sequence[object], Mapping[int, AnyArray]]:
        packed: _Packed
        packed, arrays = pickle.loads(self.content)  # noqa: S301
        return cast("Sequence[object]", packed.open((), arrays)), arrays

    def __reduce__(self) -> tuple[type[_Parcel], tuple[bytes]]:
        return _Parcel, (self.content,)


@dataclass(frozen=True)
class _InRay:
    reference: object

    @property
    def opened(self) -> tuple[Sequence[object], Mapping[int, AnyArray]]:
        parcel: _Parcel = importlib.import_module("ray").get(self.reference)
        return parcel.opened


@runtime_checkable
class _InDask(Protocol):
    def result(self) -> _Parcel: ...


def _packed(calls: Sequence[Call], backend: object, n_workers: int) -> Iterator[object]:
    """Return the tasks as they are sent to a far backend, with what they share on its way."""
    arrays: dict[int, AnyArray] = {}
    objects = _shared(calls)
    places = {id(thing): place for place, thing in enumerate(objects)}
    core = _Packer.pack(objects, {}, arrays)
    tasks = [_Packer.pack(call, places, arrays) for call in calls]
    often = Counter(chain(core.used, core.used, *(task.used for task in tasks)))
    parcel = _Parcel(_pickled((core, {k: arrays[k] for k, n in often.items() if n > 1})))
    sent, count = _sent(parcel, backend), len(calls)
    if sent is parcel and len(parcel.content) > SMALL_PARCEL:
        # the parcel goes with the tasks: with as few as keep all workers busy
        count = min(count, n_workers)
    for k in range(count):
        part = tasks[k * len(tasks) // count : (k + 1) * len(tasks) // count]
        own = {key for task in part for key in task.used if often[key] == 1}
        content = _pickled((part, {key: arrays[key] for key in own}))
        yield delayed(_run_packed)(sent, content)


def _shared(calls: Sequence[Call]) -> list[object]:
    found: dict[int, object] = {}
    often: Counter[int] = Counter()
    for function, arguments, named in calls:
        things = (getattr(function, "__self__", None), *arguments, *named.values())
        own = {id(thing): thing for thing in things if not isinstance(thing, ATOMS)}
        found |= own
        often.update(own.keys())
    return [thing for key, thing in found.items() if often[key] > 1]


def _sent(parcel: _Parcel, backend: object) -> object:
    """Put a large parcel on Dask (every worker: one might be lost) or Ray; return its stand-in."""
    if len(parcel.content) <= SMALL_PARCEL:
        return parcel
    scatter: Callable[..., object] | None
    scatter = getattr(getattr(backend, "client", None), "scatter", None)
    if scatter is not None:
        return scatter(parcel, broadcast=True, hash=False)
    if type(backend).__module__.startswith("ray."):
        return _InRay(importlib.import_module("ray").put(parcel))
    return parcel


def _run_packed(parcel: _Parcel | _InRay | _InDask, content: bytes) -> bytes:
    # Dask gives its workers what a future stands for. If all but one of them are gone since it was
    # sent, joblib runs the task in its caller, which does not.
    here = parcel.result() if isinstance(parcel, _InDask) else parcel
    objects, shared = here.opened
    tasks: Sequence[_Packed]
    tasks, own = pickle.loads(content)  # noqa: S301
    arrays, results = {**shared, **own}, []
    for task in tasks:
        function, arguments, named = cast("Call", task.open(objects, arrays))
        results.append(function(*arguments, **named))
    return _pickled(results)


def _pickled(thing: object) -> bytes:
    found: bytes = cloudpickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
    return found


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt after Ctrl-C, which compiled code and some models swallow."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    except Exception as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


@contextmanager
def _interrupts_held(*, processes: bool) -> Iterator[None]:
    """Start workers deaf to Ctrl-C, which a terminal sends to all: the caller alone acts on it."""
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
