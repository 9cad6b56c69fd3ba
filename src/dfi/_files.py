"""Write files and folders atomically: a reader finds the old or the new, never a mixture.

A file is written under a temporary name beside its place, flushed to disk and renamed. A folder is
filled beside its place; what else the old one holds is linked into it, and the two change places in
one step. Signals wait while things change places, and errors name the place, not the temporary one.

A process that is killed cannot tidy up. What it leaves behind has a name that says what it is and
loses the lock that its owner held, so the next run with the same place removes it, or
finishes what was begun.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import shutil
import signal
import stat
import sys
import threading
import uuid
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

_HELD = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_DISK = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EFBIG, errno.EDQUOT)
# A folder that something is mounted on, that is not ours to rename, or on a system of files
# without links: its files are replaced one by one.
_NOT_AS_A_WHOLE = (errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES, errno.ENOTSUP)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2

_noted: ContextVar[list[Path] | None] = ContextVar("_noted", default=None)
_unfinished: set[Path] = set()


def named(path: str | os.PathLike[str]) -> Path:
    if "\0" in os.fspath(path):
        raise ValueError(f"{os.fspath(path)!r} contains a NUL character, which no file name may")
    return Path(path)


def file_named(path: str | os.PathLike[str]) -> Path:
    found = named(path)
    if found.is_dir():
        raise IsADirectoryError(f"{found} is a folder; give the name of a file")
    return found


def is_pattern(text: str) -> bool:
    """Return whether a text names files by a pattern: a name that exists is that file."""
    return glob.has_magic(text) and not os.path.lexists(text)


def refuse_other_letters(text: str) -> None:
    """Raise for a name that is not UTF-8, which libraries that read and write tables refuse."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "backslashreplace").decode()
        raise ValueError(f"the name {shown} is not UTF-8: rename it") from None


def writable(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    target = file_named(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    if target.exists() and not target.is_file():
        raise OSError(f"{target} is a pipe or a device; give the name of a file")
    # a link that leads nowhere would be lost too
    if os.path.lexists(target) and not overwrite:
        raise FileExistsError(f"{target} exists already; pass overwrite=True to replace it")
    return target


def cache_folder() -> Path:
    """Return the user's cache folder: ``$XDG_CACHE_HOME/dfi``, else ``~/.cache/dfi``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says that a relative path is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "dfi"


@contextmanager
def signals_held() -> Iterator[None]:
    """Let Ctrl-C and ``kill`` wait; by handlers, as a masked signal would reach another thread."""
    heard: list[int] = []
    before = {}

    def remember(number: int, _frame: FrameType | None) -> None:
        heard.append(number)

    try:
        if threading.current_thread() is threading.main_thread():
            for number in _HELD:
                # None: installed by another language, which Python could not put back
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    before[number] = signal.signal(number, remember)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in heard:
            signal.raise_signal(number)


@contextmanager
def outputs_noted() -> Iterator[list[Path]]:
    """Yield a list that collects the path of every file and folder written from here on."""
    noted: list[Path] = []
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def is_busy(*, importing: bool) -> bool:
    """Return whether exiting now would leave files behind or messages unprinted."""
    noted = _noted.get()
    return noted is not None and not (importing and not noted and not _unfinished)


def _note(place: Path) -> None:
    noted = _noted.get()
    if noted is not None:
        noted.append(place)


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a stream whose content replaces a file once all of it is on disk, or not at all."""
    target = Path(path)
    remove_leftovers(target.parent, target.name)
    temporary = _beside(target.parent, target.name)
    owner: int | None = None
    _unfinished.add(temporary)
    try:
        with _naming(temporary, target):
            with temporary.open("xb") as stream:
                owner = _locked(stream.fileno())
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            with signals_held():
                os.replace(temporary, target)
                _note(target)
                _flush_folder(target.parent)
    finally:
        with signals_held():
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            _release(owner)
            _unfinished.discard(temporary)


@contextmanager
def folder_filled(
    path: Path, accept: Callable[[Sequence[str]], object] | None = None
) -> Iterator[Path]:
    """Yield a folder to write into, whose files are in their place at the end, all or none.

    What else is in the place stays there. Folders change places as a whole; where they cannot,
    files are replaced one by one, put back after an error, or by the next call after a kill.
    """
    target = path.resolve()
    finish_interrupted(target)
    as_a_whole = _can_change_places(target)
    stage = _beside(target.parent if as_a_whole else target, target.name)
    owner: int | None = None
    _unfinished.add(stage)
    try:
        with _naming(stage, path):
            stage.mkdir()
            owner = _locked(stage)
            with outputs_noted():  # files in here are not outputs yet
                yield stage
            names = sorted(entry.name for entry in stage.iterdir())
            for name in names:
                if (target / name).exists() and not (target / name).is_file():
                    # it would be removed with all it holds
                    why = "is where a file would be written"
                    raise OSError(errno.EISDIR, why, str(target / name))
            if accept is not None:
                accept(names)
            for name in names:
                _flush(stage / name)
            as_a_whole = as_a_whole and _link_others(target, stage, names)
            with signals_held():
                if not target.exists():
                    os.rename(stage, target)
                elif not (as_a_whole and _change_places(stage, target, names)):
                    _replace_each(stage, target, names)
                _note(path)
                _flush_folder(target.parent)
    finally:
        with signals_held():
            for suffix in (".tmp", ".old", ".ready"):
                shutil.rmtree(stage.with_suffix(suffix), ignore_errors=True)
            _release(owner)
            _unfinished.discard(stage)


def _beside(folder: Path, name: str) -> Path:
    return folder / f".{name}.{uuid.uuid4().hex[:12]}.tmp"


@contextmanager
def _naming(temporary: Path, place: Path) -> Iterator[None]:
    """Make errors of the disk name the destination, not a temporary file."""
    try:
        yield
    except OSError as error:
        named = "" if error.filename is None else os.fsdecode(error.filename)
        inside = named.startswith(str(temporary))
        if not inside and (named or error.errno not in _DISK):
            raise
        where = f"{place}{named.removeprefix(str(temporary))}" if inside else str(place)
        raise OSError(error.errno, error.strerror, where) from error


def _can_change_places(target: Path) -> bool:
    """Return whether a folder may be renamed: not the working folder, a mount or another user's."""
    if not os.access(target.parent, os.W_OK | os.X_OK):
        return False
    if not target.exists():
        return True
    here = Path.cwd().resolve()
    if target == here or target in here.parents or os.path.ismount(target):
        return False
    ours = (os.geteuid(), os.getegid()) if hasattr(os, "geteuid") else None
    status = target.stat()
    return ours is None or ours == (status.st_uid, status.st_gid)


def _change_places(stage: Path, target: Path, names: Sequence[str]) -> bool:
    """Put a folder in the place of another, which is then the temporary one."""
    before = stage
    try:
        if not swap_folders(stage, target):
            before, owner = stage.with_suffix(".old"), _locked(target)
            try:
                os.rename(target, before)
                try:
                    os.rename(stage, target)
                except OSError:
                    os.rename(before, target)
                    raise
            finally:
                _release(owner)
    except OSError as error:
        if error.errno in _NOT_AS_A_WHOLE:
            return False
        raise
    with contextlib.suppress(OSError):
        _fetch_latecomers(before, target, names)
    return True


def swap_folders(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False if the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange is None:
        return False
    paths = os.fsencode(one), os.fsencode(other)
    if exchange(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _link_others(source: Path, folder: Path, names: Sequence[str]) -> bool:
    if not source.exists():
        return True
    try:
        _link_all(source, folder, names)
    except OSError as error:
        if error.errno not in _NOT_AS_A_WHOLE:
            raise
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name not in names:
                entry.unlink()
        return False
    return True


def _link_all(source: Path, folder: Path, names: Sequence[str] = ()) -> None:
    for entry in sorted(source.iterdir()):
        place = folder / entry.name
        if entry.name in names:
            continue
        if entry.is_symlink():
            place.symlink_to(os.readlink(entry))
        elif entry.is_dir():
            place.mkdir()
            _link_all(entry, place)
            shutil.copystat(entry, place)
        else:
            os.link(entry, place)
    shutil.copymode(source, folder)


def _fetch_latecomers(source: Path, folder: Path, names: Sequence[str]) -> None:
    """Move what another process wrote into the old folder after its files were linked."""
    for entry in sorted(source.iterdir()):
        place = folder / entry.name
        if entry.name in names:
            continue
        if not os.path.lexists(place):
            os.rename(entry, place)
        elif entry.is_dir() and not entry.is_symlink():
            _fetch_latecomers(entry, place, ())
        elif not os.path.samestat(entry.lstat(), place.lstat()):
            os.replace(entry, place)


def _replace_each(stage: Path, target: Path, names: Sequence[str]) -> None:
    kept, ready, moved = stage.with_suffix(".old"), stage.with_suffix(".ready"), []
    kept.mkdir()
    for name in names:
        if (target / name).exists():
            _link_or_copy(target / name, kept / name)
    # from here on the next run finishes what is interrupted
    os.rename(stage, ready)
    try:
        for name in names:
            os.replace(ready / name, target / name)
            moved.append(name)
    except OSError:
        for name in moved:
            if (kept / name).exists():
                os.replace(kept / name, target / name)
            else:
                (target / name).unlink()
        raise


def _link_or_copy(source: Path, place: Path) -> None:
    try:
        os.link(source, place)
    except OSError as error:
        if error.errno not in (*_NOT_AS_A_WHOLE, errno.EMLINK):
            raise
        shutil.copy2(source, place)


def finish_interrupted(target: Path) -> None:
    """Finish or undo a folder swap that a killed process began, and remove its leftovers."""
    for folder in (target.parent, target):
        for rest in _leftovers(folder, target.name):
            owner = _locked(rest)
            try:
                if rest.suffix == ".ready" and target.is_dir():
                    for entry in sorted(rest.iterdir()):
                        os.replace(entry, target / entry.name)
                if rest.suffix == ".old" and not target.exists():
                    os.rename(rest, target)
            finally:
                _release(owner)
    remove_leftovers(target.parent, target.name)
    remove_leftovers(target, target.name)


def remove_leftovers(folder: Path, name: str) -> None:
    """Remove the temporary files that killed processes left for a path."""
    for rest in _leftovers(folder, name):
        if rest.is_dir():
            shutil.rmtree(rest, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                rest.unlink()


def _leftovers(folder: Path, name: str) -> list[Path]:
    """Return what nobody holds any more; nothing where locks are not known."""
    if sys.platform == "win32":
        return []
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{12,32}}\.(tmp|old|ready)")
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        found = sorted(Path(entry.path) for entry in entries if pattern.fullmatch(entry.name))
    return [path for path in found if _is_abandoned(path)]


def _is_abandoned(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    ours = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    # in a folder for all, such as /tmp, others may have laid it out for us
    if not ours or status.st_uid != os.geteuid():
        return False
    owner = _locked(path)
    _release(owner)
    return owner is not None


def _locked(what: Path | int) -> int | None:
    """Lock a file or folder until :func:`_release` or the end of the process."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        owner = os.dup(what) if isinstance(what, int) else os.open(what, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(owner)
        return None
    return owner


def _release(owner: int | None) -> None:
    if owner is not None:
        os.close(owner)


def _flush(path: Path) -> None:
    if path.is_dir():
        for entry in path.iterdir():
            _flush(entry)
        return
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _flush_folder(folder: Path) -> None:
    """Wait until names are on disk, where folders can be asked to; they are in place anyway."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
