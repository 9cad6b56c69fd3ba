"""Lazy frames of polars, relations of DuckDB, and what narwhals wraps of these."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals as nw

from dfi._data.streams.parts import BATCH_ROWS, InOrder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dfi._data.frames import Library
    from dfi._types import Frame, Native


def is_lazy(X: object) -> bool:
    """Return whether a table is a lazy frame or a relation."""
    return bool(
        isinstance(X, nw.LazyFrame) or nw.dependencies.is_polars_lazyframe(X) or _is_relation(X)
    )


def _is_relation(X: object) -> bool:
    return type(X).__name__ == "DuckDBPyRelation"


def open_lazy(X: Native) -> LazyPolars | Relation:
    """Return a lazy table as parts that follow each other."""
    native = X.to_native() if isinstance(X, nw.LazyFrame) else X
    if nw.dependencies.is_polars_lazyframe(native):
        names = native.collect_schema().names()
        return LazyPolars(native, {name: name for name in names})
    if _is_relation(native):
        return Relation(native, {name: name for name in native.columns})
    raise TypeError(
        f"X is a lazy frame of {type(native).__module__.split('.')[0]}, which is not read in "
        "parts: pass a polars LazyFrame, a DuckDB relation, a dask.dataframe or Parquet files"
    )


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
        if hasattr(chosen, "collect_batches"):
            batches = chosen.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
        else:
            batches = _collected(chosen)
        for number, batch in enumerate(batches):
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
        chosen = self.relation.project(quoted)
        read = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_record_batch
        pa = importlib.import_module("pyarrow")
        for number, batch in enumerate(read(BATCH_ROWS)):
            table = pa.Table.from_batches([batch])
            yield f"batch {number}", table
