"""Kernels compiled by numba, cached where only their user can write.

They are kept in ``DFI_CACHE``, in ``NUMBA_CACHE_DIR``, or in the user's cache folder
(``~/.cache/dfi/kernels``), whichever is named first; relative paths are ignored, and
``DFI_CACHE=off`` keeps nothing. numba's own choice, ``__pycache__`` beside the source, would leave
files there when dfi is uninstalled, and with them something that can be imported. What numba finds
is unpickled and run, and it asks neither who owns a file nor who else may write to it: a folder
that anyone else could have put a file in, or a file of someone else, is not used
(:func:`only_ours`). Where there is no folder, where its files are damaged and where the disk is
full, kernels are compiled in memory.

With a fitted forest the first call of a later process costs 0.5 CPU seconds more than the second,
the first call ever 1.7; 0.6 and 3.3 with the default learner (``benchmarks/startup.py``, the least
of four runs on a busy machine). Linking object code without numba took 0.04 and 1.7 (of then 0.35
and 2.0), and 440 lines on private interfaces of numba and LLVM.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar

import numba
import numpy as np
from numba.core import event
from numba.extending import overload, register_jitable

from dfi._files import cache_folder
from dfi._loading import uncollected
from dfi._progress import told_meanwhile
from dfi._threads import allowed_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import ArrayLike, NDArray

logger = logging.getLogger(__name__)

_SETTINGS: Any = numba.config

P = ParamSpec("P")
Scalar = TypeVar("Scalar", bound=np.generic)
Job = TypeVar("Job")

HERE = Path(__file__).parent
KERNEL_FILES = (
    "_compiled.py",
    "_lines/kernels_*.py",
    "_lines/trees/law.py",
    "_lines/trees/kernels_*.py",
    "_learners/kernels_*.py",
    "transports/kernels_*.py",
)

OFF = ("off", "no", "0", "false")
"""Values of ``DFI_CACHE`` that turn the cache off."""

WORTH_THREADS = 200_000
"""Visits of trees or units below which threads cost more than they save: a few milliseconds."""


def _checksum(folder: Path) -> int:
    """Return a number that changes with any source that kernels are compiled from."""
    sources = [path.read_bytes() for name in KERNEL_FILES for path in sorted(folder.glob(name))]
    return int.from_bytes(hashlib.sha256(b"\0".join(sources)).digest()[:7], "little")


SOURCES = _checksum(HERE)
"""Default of every kernel's last parameter, and so a part of numba's key of what it keeps.

numba itself looks at the kernel's own file alone: after an update of the law, which lies in another
one, it would go on running the old code.
"""

# Inlined by LLVM: inlining by numba makes the same code in twice the time.
_INLINED: Any = {"forceinline": True, "no_cfunc_wrapper": True}
inlined = register_jitable(**_INLINED)
chosen_by_type = functools.partial(overload, strict=False, jit_options=_INLINED)


class TupleType(Protocol):
    """The numba type of a named tuple."""

    instance_class: type


class Kernel(Generic[P]):
    functions: ClassVar[set[Callable[..., None]]] = set()
    # Where nothing is allocated, nobody need count references to arrays: a tenth less to compile.
    allocates: ClassVar[bool] = False

    def __init__(self, function: Callable[P, None]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.dispatcher = _cached(function, self.allocates) or _uncached(function, self.allocates)
        self.functions.add(function)
        self.loaded = False

    def __call__(self, *arguments: P.args, **others: P.kwargs) -> None:
        if self.loaded:
            self._run(*arguments, **others)
            return
        with uncollected():
            self._run(*arguments, **others)
        self.loaded = True

    def _run(self, *arguments: P.args, **others: P.kwargs) -> None:
        try:
            self.dispatcher(*arguments, **others)
        # Kernels raise nothing, so this one has not begun: its files are damaged, and unpickling
        # may raise anything, or the disk is full.
        except Exception as error:
            logger.info("%s is compiled in memory: %r", self.function.__name__, error)
            self.dispatcher = _uncached(self.function, self.allocates)
            self.dispatcher(*arguments, **others)


class AllocatingKernel(Kernel[P]):
    allocates = True


def _uncached(
    function: Callable[P, None], allocates: bool = False, *, cache: bool = False
) -> Callable[P, None]:
    options: Any = {"nogil": True, "error_model": "numpy", "cache": cache, "_nrt": allocates}
    compiled: Callable[P, None] = numba.njit(**options)(function)
    return compiled


def _cached(function: Callable[P, None], allocates: bool) -> Callable[P, None] | None:
    """Return a kernel that is kept on disk, None where there is no folder that is safe."""
    told = _SETTINGS.CACHE_DIR
    try:
        folder = kernels_folder()
        if folder is None:
            return None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _SETTINGS.CACHE_DIR = str(folder)  # which numba reads once, here
        kernel = _uncached(function, allocates, cache=True)
    except (RuntimeError, OSError) as error:
        # No folder can be written to, or the user has no home.
        logger.info("compiled kernels are not kept: %s", error)
        return None
    finally:
        _SETTINGS.CACHE_DIR = told
    # Without compilation (NUMBA_DISABLE_JIT) the kernel is the function itself.
    stats = getattr(kernel, "stats", None)
    if stats is None or only_ours(Path(stats.cache_path)):
        return kernel
    logger.info("compiled kernels are not kept in %s: others may write there", stats.cache_path)
    return None


def kernels_folder() -> Path | None:
    """Return where kernels are kept: ``DFI_CACHE``, ``NUMBA_CACHE_DIR`` or the user's cache.

    None where ``DFI_CACHE`` is ``off``. Relative paths are ignored: they would lead into whatever
    folder a program happens to be run from.
    """
    wish = os.environ.get("DFI_CACHE", "").strip()
    if wish.lower() in OFF:
        return None
    named = (Path(path) for path in (wish, _SETTINGS.CACHE_DIR) if path)
    return next((path for path in named if path.is_absolute()), cache_folder() / "kernels")


def only_ours(folder: Path) -> bool:
    """Return whether only this user and root can write into a folder.

    The files in the folder, itself and all above it must belong to the user or root and be
    writable by no others. The group may write where it is the user's private one, as is the custom
    where the umask is 002. A folder above may be writable by all if it is sticky, as ``/tmp`` is:
    others cannot replace what is not theirs there. Symbolic links must belong to the user or root,
    too. Windows, which keeps its permissions elsewhere, is trusted: its folders are the user's by
    default.
    """
    if sys.platform == "win32":
        return True
    try:
        chains = {
            path: path in (folder.absolute(), folder.resolve())
            for end in (folder.resolve(), folder.absolute())
            for path in (end, *end.parents)
        }
        return all(_is_ours(path.lstat(), last=last) for path, last in chains.items()) and all(
            map(_is_file_of_ours, folder.iterdir())
        )
    except OSError:
        return False


def _is_file_of_ours(path: Path) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:  # another process has renamed it
        return True
    return _is_ours(status, last=True) and not stat.S_ISLNK(status.st_mode)


def _is_ours(status: os.stat_result, *, last: bool) -> bool:
    if status.st_uid not in (os.geteuid(), 0):
        return False
    if stat.S_ISLNK(status.st_mode):
        return True
    if not last and status.st_mode & stat.S_ISVTX:
        return True
    shared = status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid)
    return not (shared or status.st_mode & stat.S_IWOTH)


@functools.cache
def _is_private_group(number: int) -> bool:
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    same = user.pw_gid == number and user.pw_name == group.gr_name
    return same and set(group.gr_mem) <= {user.pw_name}


def kernel_array(values: ArrayLike, dtype: type[Scalar]) -> NDArray[Scalar]:
    """Return an array in the layout that kernels take, copied only if necessary.

    An array that is not contiguous or not aligned, or that cannot be written to (memory-mapped rows
    of a parallel worker, a buffer of a cluster's own, a column of pandas), would be another kind of
    argument, for which numba compiles anew.
    """
    return np.require(values, dtype, ["C", "A", "W"])


def run_tasks(
    task: Callable[[Job], None],
    jobs: Iterable[Job],
    n_threads: int | None = None,
    *,
    work: float = np.inf,
) -> None:
    """Run kernels on all jobs, in parallel if there is enough ``work``.

    Kernels release the interpreter's lock, so plain threads do, and nothing is asked of numba's own
    thread pool, which other libraries and forked workers share badly. There are as many as the
    caller has left (:mod:`dfi._threads`), or ``n_threads``. ``work`` counts what takes
    some ten nanoseconds: starting threads takes as long as thousands of them.
    """
    todo = list(jobs)
    if n_threads is not None:
        workers = n_threads
    else:
        workers = 1 if work < WORTH_THREADS else allowed_threads()
    if workers <= 1 or len(todo) <= 1:
        for job in todo:
            task(job)
        return
    with ThreadPoolExecutor(min(workers, len(todo))) as pool:
        for _ in pool.map(task, todo):
            pass


class _Announcer(event.Listener):
    """Tell that kernels are compiled: beside the progress bar, else once at a terminal."""

    def __init__(self) -> None:
        self.text = ExitStack()

    def on_start(self, event: event.Event) -> None:
        if event.data["dispatcher"].py_func in Kernel.functions:
            shown = self.text.enter_context(told_meanwhile("compiling, once"))
            announce_compilation(shown=shown)

    def on_end(self, event: event.Event) -> None:
        if event.data["dispatcher"].py_func in Kernel.functions:
            self.text.close()


@functools.cache
def announce_compilation(*, shown: bool) -> None:
    """Log once that kernels are being compiled; print it in a terminal without a progress bar."""
    message = "dfi: compiling kernels, once; later runs load them from disk"
    logger.info(message)
    if not shown and sys.stderr.isatty():
        sys.stderr.write(message + "\n")


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]
