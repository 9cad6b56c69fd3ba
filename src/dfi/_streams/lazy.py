"""Lazy frames of polars, and everything that gives its rows as a stream of Arrow."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import tempfile
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import narwhals as nw

from dfi._data.frames import Library, is_series, is_table, refuse_duplicates
from dfi._streams.keys import Witness
from dfi._streams.parts import BATCH_ROWS, InOrder, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dfi._types import Frame, Native


KNOWN = {
    "duckdb": "a DuckDB relation",
    "ibis": "an Ibis table",
    "daft": "a Daft frame",
    "pyarrow": "a pyarrow Dataset",
}
"""Names for the tables of some libraries."""


def is_lazy(X: object) -> bool:
    if isinstance(X, nw.LazyFrame) or nw.dependencies.is_polars_lazyframe(X):
        return True
    if _is_dataset(X) or _is_cursor(X):
        return True
    # frames and columns in memory give streams of Arrow too
    return hasattr(type(X), "__arrow_c_stream__") and not (
        isinstance(X, nw.DataFrame | nw.Series) or is_table(X) or is_series(X)
    )


def _is_dataset(X: object) -> bool:
    bases = [(base.__module__.split(".")[0], base.__name__) for base in type(X).__mro__]
    return ("pyarrow", "Dataset") in bases


def _is_cursor(X: object) -> bool:
    """Return whether a table is a cursor of a database that gives Arrow, as those of ADBC."""
    return hasattr(X, "arraysize") and hasattr(X, "fetch_record_batch")


def open_lazy(X: Native) -> LazyPolars | ArrowStream:
    native = X.to_native() if isinstance(X, nw.LazyFrame) else X
    if nw.dependencies.is_polars_lazyframe(native):
        with _readable(LazyPolars.what):
            names = native.collect_schema().names()
        return LazyPolars(native, {name: name for name in names})
    module = type(native).__module__.split(".")[0].lstrip("_")
    what = KNOWN.get(module, f"a {type(native).__name__} of {module}")
    if not is_lazy(native):
        raise TypeError(
            f"X is {what}, which is not read in parts: pass a polars LazyFrame, a frame that gives "
            "a stream of Arrow (DuckDB, Ibis, Daft), one of Spark or Dask, or Parquet files"
        )
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError(f"X is {what}, and pyarrow reads it: pip install pyarrow")
    spool = None
    with _readable(what):
        if _is_cursor(native):
            native = native.fetch_record_batch()
        if hasattr(native, "read_next_batch") or hasattr(native, "__next__"):
            spool = Spool(native)
            native = importlib.import_module("pyarrow.dataset").dataset(spool.path, format="ipc")
        names = _names(native)
    refuse_duplicates(names)
    return ArrowStream(native, {name: name for name in names}, what, spool)


class Spool:
    def __init__(self, stream: Native) -> None:
        pa = importlib.import_module("pyarrow")
        self.folder = tempfile.mkdtemp(prefix="dfi-")
        self.end = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        reader = pa.RecordBatchReader.from_stream(stream)
        self.path = os.path.join(self.folder, "rows.arrow")
        with pa.ipc.new_file(self.path, reader.schema) as file:
            for batch in reader:
                file.write_batch(batch)


def _names(X: Native) -> list[str]:
    if _is_dataset(X):
        return list(X.schema.names)
    for attribute in ("column_names", "columns"):
        found = getattr(X, attribute, None)
        if isinstance(found, list | tuple) and all(isinstance(name, str) for name in found):
            return list(found)
    return list(importlib.import_module("pyarrow").RecordBatchReader.from_stream(X).schema.names)


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        lines = str(error).splitlines() or [""]
        raise ValueError(
            f"X is {what} that cannot be read ({type(error).__name__}: {lines[0]}): check that it "
            "can be collected, and that what it reads is still open"
        ) from error


def _read_from(batches: Callable[[], Iterable[Native]], what: str) -> Iterator[Native]:
    with _readable(what):
        rest = iter(batches())
    while True:
        with _readable(what):
            batch = next(rest, None)
        if batch is None:
            return
        yield batch


@dataclass(frozen=True, eq=False)
class LazyPolars(InOrder):
    frame: Native
    labels: Mapping[str, object]
    library: Library = "polars"
    what = "a LazyFrame"

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[str, Frame]]:
        chosen = self.frame.select(list(columns))

        def batches() -> Iterable[Frame]:
            if hasattr(chosen, "collect_batches"):
                found: Iterable[Frame] = chosen.collect_batches(
                    chunk_size=BATCH_ROWS, maintain_order=True
                )
                return found
            return _collected(chosen)

        for number, batch in enumerate(_read_from(batches, self.what)):
            yield f"batch {number}", batch


def _collected(frame: Native) -> Iterator[Frame]:
    """Yield slices of a LazyFrame, for versions of polars that give no batches."""
    start = 0
    while True:
        batch = frame.slice(start, BATCH_ROWS).collect(engine="streaming")
        if batch.height:
            yield batch
        if batch.height < BATCH_ROWS:
            return
        start += BATCH_ROWS


@dataclass(frozen=True, eq=False)
class ArrowStream(InOrder):
    """Sources that return a stream of Arrow at every read: relations, queries, datasets."""

    table: Native
    labels: Mapping[str, object]
    what: str
    spool: Spool | None = None
    seen: Witness = field(default_factory=Witness)
    library: Library = "pyarrow"

    @property
    def witness(self) -> Witness:
        return self.seen

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[str, Frame]]:
        batches = _read_from(lambda: _batches(self.table, list(columns)), self.what)
        for number, table in enumerate(tables(batches, columns)):
            yield f"batch {number}", table


def _batches(X: Native, names: list[str]) -> Iterable[Native]:
    found: Iterable[Native]
    if _is_dataset(X):
        # what is read ahead is held in memory
        found = X.to_batches(
            columns=names, batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1
        )
        return found
    chosen = _chosen(X, names)
    for method in ("to_pyarrow_batches", "to_arrow_iter"):
        # of Ibis and Daft: their streams of Arrow hold all rows first
        if hasattr(chosen, method) and not _without_batches(chosen):
            found = getattr(chosen, method)()
            return found
    found = importlib.import_module("pyarrow").RecordBatchReader.from_stream(chosen)
    return found


def _without_batches(X: Native) -> bool:
    """Return whether Ibis asks DuckDB for batches by a name that version 2 no longer has."""
    if not hasattr(X, "get_backend"):
        return False
    backend = X.get_backend()
    return backend.name == "duckdb" and not hasattr(backend.con, "fetch_record_batch")


def _chosen(X: Native, names: list[str]) -> Native:
    try:
        return nw.from_native(X).select(names).to_native()
    except TypeError:  # narwhals does not know it
        return X.select(*names) if hasattr(X, "to_arrow_iter") else X
