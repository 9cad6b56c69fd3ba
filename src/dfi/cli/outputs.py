"""Outputs of commands: folders written atomically, tables for people and for programs."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dfi._checks import printable
from dfi._files import folder_filled, is_pattern
from dfi.cli.console import Unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

FORMULAS = tuple("=+-@\t\r\n＝＋－＠")
"""First characters of cells that a spreadsheet would run."""


class OutputFolder:
    """A folder that is filled next to its place and moved into it when complete."""

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        *,
        force: bool,
        perhaps: Sequence[str] = (),
        inputs: Sequence[str | Path | None] = (),
    ) -> None:
        self.path = path
        self.written: list[str] = []
        if path.exists() and not path.is_dir():
            raise Unwritable(f"{path} is a file, not a folder; choose another --out")
        places = [place for pattern in (*names, *perhaps) for place in path.glob(pattern)]
        for place in places:
            if place.exists() and not place.is_file():
                what = "a folder" if place.is_dir() else "a pipe or a device"
                raise Unwritable(
                    f"{place} is {what}, but a file of that name would be written: move it, or "
                    "choose another --out"
                )
        refuse_inputs(places, inputs)
        if not force:
            self._refuse_to_replace([name for name in names if (path / name).exists()])
        self._protected = set() if force or not path.exists() else {f.name for f in path.iterdir()}
        parent = path.parent
        if not parent.is_dir():
            raise Unwritable(f"the folder {parent} does not exist; create it first")
        if not os.access(path if path.is_dir() else parent, os.W_OK | os.X_OK):
            raise Unwritable(f"nothing may be written in {parent}: permission denied")

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """Yield a folder to write into; at the end its files are in their place, all or none."""
        names: list[str] = []

        def accept(found: Sequence[str]) -> None:
            # some names are known only when the files are there
            self._refuse_to_replace(sorted(self._protected.intersection(found)))
            names.extend(found)

        with folder_filled(self.path, accept) as stage:
            yield stage
        self.written += [name for name in names if name not in self.written]

    def outputs(self) -> dict[str, str]:
        return {name: str(self.path / name) for name in sorted(self.written)}

    def _refuse_to_replace(self, names: Sequence[str]) -> None:
        if names:
            raise Unwritable(
                f"{self.path} already has {', '.join(names)}; choose another --out, or replace "
                "them with --force"
            )


def refuse_inputs(places: Sequence[Path], given: Sequence[str | Path | None]) -> None:
    """Raise if a file that a command would write is one it reads, under whatever link."""
    outputs = {_identity(place): place for place in places if place.exists()}
    for name in given if outputs else ():
        for read in () if name is None else _files_of(str(name)):
            with suppress(OSError):
                place = outputs.get(_identity(read))
                if place is not None:
                    source = "standard input" if read == 0 else str(read)
                    also = "" if source == str(place) else f" (as {source})"
                    raise Unwritable(
                        f"{place} would be replaced, but is an input{also}: choose another --out"
                    )


def _identity(file: Path | int) -> tuple[int, int]:
    status = os.stat(file)
    return status.st_dev, status.st_ino


def _files_of(name: str) -> Sequence[Path | int]:
    """Return the files that an argument names, standard input as its descriptor."""
    if name == "-":
        return [0]
    if not is_pattern(name) and not Path(name).is_dir():
        return [Path(name)]
    from dfi._streams.files import find_files

    try:
        return find_files(name)
    except ValueError:  # who reads them says why
        return []


def write_tables(table: pl.DataFrame, folder: Path, stem: str) -> None:
    """Write CSV, safe for spreadsheets and terminals, and Parquet with names as they are."""
    import polars as pl

    texts = [name for name, kind in table.schema.items() if kind == pl.String]
    shown = table.with_columns(
        pl.Series(name, [None if v is None else plain_cell(v) for v in table[name]], pl.String)
        for name in texts
    ).rename({name: plain_cell(name) for name in table.columns})
    content = io.BytesIO()
    shown.write_csv(content)
    (folder / f"{stem}.csv").write_bytes(content.getvalue())
    content = io.BytesIO()
    table.write_parquet(content)
    (folder / f"{stem}.parquet").write_bytes(content.getvalue())


def plain_cell(text: str) -> str:
    """Return a text that no spreadsheet mistakes for a formula."""
    text = printable(text, keep="\t\r\n")
    return f"'{text}" if text.lstrip(" ").startswith(FORMULAS) else text
