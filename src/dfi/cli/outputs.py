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
    """

    def __init__(self, path: Path, names: Sequence[str], *, force: bool) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise Failure(f"{path} is a file, not a folder; choose another --out", OUTPUT)
        there = [name for name in names if (path / name).exists()]
        if there and not force:
            raise Failure(
                f"{path} already has {', '.join(there)}; choose another --out, or replace them "
                "with --force",
                OUTPUT,
            )
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
            if self.path.exists():
                for file in sorted(stage.iterdir()):
                    os.replace(file, self.path / file.name)
            else:
                os.rename(stage, self.path)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
