"""Lazy frames of polars, relations of DuckDB, what narwhals wraps of these; Arrow datasets."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals as nw

from dfi._data.streams.parts import BATCH_ROWS, InOrder, plain_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dfi._data.frames import Library
    from dfi._types import Frame, Native


def is_lazy(X: object) -> bool:
    """Return whether a table is a lazy frame or a relation."""
    return bool(
        isinstance(X, nw.LazyFrame)
        or nw.dependencies.is_polars_lazyframe(X)
        or _is_relation(X)
        or _is_dataset(X)
    )


def _is_relation(X: object) -> bool:
    return type(X).__name__ == "DuckDBPyRelation"


def _is_dataset(X: object) -> bool:
    bases = [(base.__module__.split(".")[0], base.__name__) for base in type(X).__mro__]
    return ("pyarrow", "Dataset") in bases


def open_lazy(X: Native) -> LazyPolars | Relation | Dataset:
    """Return a lazy table as parts that follow each other."""
    native = X.to_native() if isinstance(X, nw.LazyFrame) else X
    if nw.dependencies.is_polars_lazyframe(native):
        with _readable(LazyPolars.what):
            names = native.collect_schema().names()
        return LazyPolars(native, {name: name for name in names})
    if _is_relation(native):
        with _readable(Relation.what):
            names = list(native.columns)
        return Relation(native, {name: name for name in names})
    if _is_dataset(native):
        names = list(native.schema.names)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"X has more than one column called {twice!r}; rename them.")
        return Dataset(native, {name: name for name in names})
    raise TypeError(
        f"X is a lazy frame of {type(native).__module__.split('.')[0]}, which is not read in "
        "parts: pass a polars LazyFrame, a DuckDB relation, a dask.dataframe or Parquet files"
    )


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Tell in one sentence what a lazy table fails with: whatever is in it runs only now."""
    try:
        yield
    except Exception as error:
        lines = str(error).splitlines() or [""]
        raise ValueError(
            f"X is {what} that cannot be read ({type(error).__name__}: {lines[0]}): see that it "
            "can be collected, and that what it reads is still open"
        ) from error


def _read_from(batches: Callable[[], Iterable[Native]], what: str) -> Iterator[Native]:
    """Yield batches, each read so that failures are told."""
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
    """A LazyFrame, collected some rows at a time by polars' streaming engine."""

    frame: Native
    labels: Mapping[str, object]
    library: Library = "polars"
    what = "a LazyFrame"

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[str, Frame]]:
        """Yield batches in the order of the rows."""
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
class Relation(InOrder):
    """A relation of DuckDB, read as batches of Arrow."""

    relation: Native
    labels: Mapping[str, object]
    library: Library = "pyarrow"
    what = "a DuckDB relation"

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[str, Frame]]:
        """Yield batches; their order is that in which DuckDB gives them."""
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)

        def batches() -> Iterable[Native]:
            chosen = self.relation.project(quoted)
            read = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_arrow_reader
            found: Iterable[Native] = read(BATCH_ROWS)
            return found

        pa = importlib.import_module("pyarrow")
        for number, batch in enumerate(_read_from(batches, self.what)):
            table = pa.Table.from_batches([batch])
            yield f"batch {number}", table


@dataclass(frozen=True, eq=False)
class Dataset(InOrder):
    """A dataset of pyarrow, scanned in the order of its fragments."""

    dataset: Native
    labels: Mapping[str, object]
    library: Library = "pyarrow"
    what = "a pyarrow Dataset"

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[str, Frame]]:
        """Yield batches in the order of the rows."""
        names = list(columns)

        def batches() -> Iterable[Native]:
            # what is read ahead is held in memory
            found: Iterable[Native] = self.dataset.to_batches(
                columns=names, batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1
            )
            return found

        for number, batch in enumerate(_read_from(batches, self.what)):
            yield f"batch {number}", plain_frame(batch, names, self.library)
