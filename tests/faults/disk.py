"""A disk that fails at a chosen step, as SQLite's tests have one.

Every step that changes something below a folder (a file opened for writing, a write, a flush to
disk, a rename, a folder made, a file removed) has a number. One of them fails: by a signal that
arrives there, an error of the disk, or the end of the process.
"""

import builtins
import errno
import io
import os
import signal
from pathlib import Path

import dfi._files

SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
KINDS = ("SIGINT", "SIGTERM", "SIGKILL", "ENOSPC", "EROFS")
ROOM = ("open", "write", "fsync", "mkdir", "link", "symlink")
"""Steps that need room: they fail on a full disk, renaming and removing does not."""


class Killed(BaseException):
    """The process is gone: nothing that it does from here on reaches the disk."""


class Disk:
    """Counts the steps below a folder, and fails at one of them.

    Parameters
    ----------
    root : Path
        The folder.
    at : int, optional
        The number of the step, from 0; none fails by default.
    kind : str
        One of ``KINDS``.
    """

    def __init__(self, root: Path, at: int | None = None, kind: str = "") -> None:
        self.root, self.at, self.kind = str(root), at, kind
        self.steps: list[str] = []
        self.failed = False
        self._open: list[int] = []

    def step(self, name: str, path: object) -> None:
        if self.failed and self.kind == "SIGKILL":
            raise Killed
        if isinstance(path, int) or not os.path.abspath(os.fsdecode(path)).startswith(self.root):
            return
        self.steps.append(f"{name} {os.path.basename(os.fsdecode(path))}")
        if len(self.steps) - 1 == self.at:
            self.failed = True
            if self.kind in SIGNALS:
                signal.raise_signal(SIGNALS[self.kind])
        if not self.failed:
            return
        if self.kind == "SIGKILL":
            raise Killed
        if self.kind == "EROFS" or (self.kind == "ENOSPC" and name in ROOM):
            number = getattr(errno, self.kind)
            # a write does not know its file's name
            where = () if name in ("write", "fsync") else (os.fsdecode(path),)
            raise OSError(number, os.strerror(number), *where)

    def install(self, monkeypatch) -> None:
        disk, real = self, {name: getattr(os, name) for name in PATHS}

        def stepping(name):
            def run(path, *rest, dir_fd=None, **options):
                where = path
                if dir_fd is not None:
                    options["dir_fd"] = dir_fd
                    if not os.path.isabs(path):
                        where = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), path)
                disk.step(name, where)
                return real[name](path, *rest, **options)

            return run

        for name in PATHS:
            monkeypatch.setattr(os, name, stepping(name))
        fsync = os.fsync

        def flushing(descriptor):
            disk.step("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))
            return fsync(descriptor)

        monkeypatch.setattr(os, "fsync", flushing)
        os_open, flock = os.open, dfi._files._locked

        def opening(path, flags, *rest, **options):
            if flags & (os.O_WRONLY | os.O_RDWR):
                disk.step("open", path)
            return os_open(path, flags, *rest, **options)

        def locking(what):
            found = flock(what)
            if found is not None:
                disk._open.append(found)
            return found

        def releasing(owner):
            if owner in disk._open and not (disk.failed and disk.kind == "SIGKILL"):
                disk._open.remove(owner)
                os.close(owner)

        monkeypatch.setattr(os, "open", opening)
        monkeypatch.setattr(dfi._files, "_locked", locking)
        monkeypatch.setattr(dfi._files, "_release", releasing)
        swap = dfi._files.swap_folders

        def swapping(one, other):
            disk.step("swap", other)
            return swap(one, other)

        monkeypatch.setattr(dfi._files, "swap_folders", swapping)
        plain = io.open

        class Raw(io.FileIO):
            def write(self, content):
                disk.step("write", self.name)
                return super().write(content)

        def open_file(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None,
                      closefd=True, opener=None):  # fmt: skip
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return plain(file, mode, buffering, encoding, errors, newline, closefd, opener)
            disk.step("open", file)
            raw = Raw(os.fspath(file), mode.replace("b", "").replace("t", ""))
            stream = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            if "b" in mode:
                return stream
            return io.TextIOWrapper(stream, encoding=encoding, errors=errors, newline=newline)

        monkeypatch.setattr(io, "open", open_file)
        monkeypatch.setattr(builtins, "open", open_file)

    def restart(self) -> None:
        """Let the kernel take back what a process that was killed held."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()


PATHS = ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link", "symlink")
