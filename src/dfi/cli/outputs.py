"""Outputs that appear whole or not at all, and never replace anything unasked."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dfi.cli.failures import OUTPUT, Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class OutputFolder:
    """A folder that is filled beside its place and moved into it when everything is there.

    Parameters
    ----------
    path : Path
        The folder.
    names : sequence of str
        The files that will be written.
    force : bool
        Whether files of these names may be replaced.

    Attributes
    ----------
    written : list of str
        The names of the files that are in their place.
    """

    def __init__(self, path: Path, names: Sequence[str], *, force: bool) -> None:
        self.path = path
        self.written: list[str] = []
        if path.exists() and not path.is_dir():
            raise Failure(f"{path} is a file, not a folder; choose another --out", OUTPUT)
        there = [name for name in names if (path / name).exists()]
        if there and not force:
            raise Failure(already(path, there), OUTPUT)
        self._kept = set() if force or not path.exists() else {f.name for f in path.iterdir()}
        parent = path.parent
        if not parent.is_dir():
            raise Failure(f"the folder {parent} does not exist; create it first", OUTPUT)
        if not os.access(path if path.is_dir() else parent, os.W_OK | os.X_OK):
            raise Failure(f"nothing may be written in {parent}: permission denied", OUTPUT)

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """Yield a folder to write into; at the end its files are moved into place.

        A run that ends in between (Ctrl-C, an error, a full disk) leaves nothing behind; one that
        is killed leaves a hidden folder ending in ``.tmp``. What was there before stays whole.
        """
        stage = self.path.parent / f".{self.path.name}.{uuid.uuid4().hex[:12]}.tmp"
        stage.mkdir()
        try:
            yield stage
            names = sorted(file.name for file in stage.iterdir())
            taken = sorted(self._kept.intersection(names))
            if taken:
                # some names are known only when the files are there
                raise Failure(already(self.path, taken), OUTPUT)
            if self.path.exists():
                for name in names:
                    os.replace(stage / name, self.path / name)
            else:
                os.rename(stage, self.path)
            self.written += [name for name in names if name not in self.written]
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def outputs(self) -> dict[str, str]:
        """Return the files that were written, by name; others in the folder are none of ours."""
        return {name: str(self.path / name) for name in sorted(self.written)}


def already(path: Path, names: Sequence[str]) -> str:
    """Say which files would be replaced."""
    return (
        f"{path} already has {', '.join(names)}; choose another --out, or replace them with --force"
    )
