"""Files of one table, read some rows at a time: Parquet, Arrow and CSV."""

from __future__ import annotations

import glob
import importlib
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dfi._data.frames import Library, refuse_duplicates
from dfi._files import is_pattern, refuse_other_letters
from dfi._streams.keys import CHANGED
from dfi._streams.parts import BATCH_ROWS, InOrder, plain_frame

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping, Sequence

    from dfi._types import Frame, Ints, Native

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
CSV = (".csv", ".tsv")
_KNOWN = "Parquet (.parquet, .pq), Arrow (.arrow, .feather, .ipc) or CSV (.csv, .tsv)"

# What pyarrow raises on files that make no sense: some ask for more memory than there is.
_DAMAGE = (OSError, ValueError, TypeError, LookupError, MemoryError, NotImplementedError)

SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([ !#-/:-@\[-`{-~\t])"?\r?\n', re.IGNORECASE)
"""The line before the header by which spreadsheets say what separates fields: ``sep=;``."""

CSV_BYTES = 1 << 24
"""Text of a CSV file that is read at once; what its columns hold is taken from the first part."""

BATCH_BYTES = 1 << 25
"""About what a batch of rows may take, where rows are wide."""


def is_path(X: object) -> bool:
    if isinstance(X, str | os.PathLike):
        return True
    return (
        isinstance(X, list | tuple)
        and bool(X)
        and all(isinstance(item, str | os.PathLike) for item in X)
    )


def find_files(given: object) -> tuple[Path, ...]:
    items: list[object] = list(given) if isinstance(given, list | tuple) else [given]
    found: list[Path] = []
    for item in items:
        found += _named(os.fsdecode(item) if isinstance(item, os.PathLike) else str(item))
    names: dict[tuple[int, int], Path] = {}
    for path in found:
        refuse_other_letters(str(path))
        # links lead to one file by several names, and its rows would count several times
        status = path.stat()
        before = names.setdefault((status.st_dev, status.st_ino), path)
        if before is not path:
            also = "" if before == path else f", also as {before}"
            raise ValueError(f"X names the file {path} twice{also}: name every file once")
    return tuple(found)


def _named(text: str) -> list[Path]:
    if not text:
        raise ValueError("X is an empty path: pass the path of a file or folder, or a frame")
    there = os.path.lexists(os.path.dirname(text) if is_pattern(text) else text)
    path = Path(text if there else os.path.expanduser(text))
    if path.is_file():
        return [path]
    if path.is_dir():
        files = sorted(
            p
            for p in path.rglob("*")
            # what is hidden is not part of the table, as in a pattern: leftovers, checkpoints
            if p.suffix.lower() in PARQUET
            and p.is_file()
            and not any(part.startswith(".") for part in p.relative_to(path).parts)
        )
        if not files:
            raise ValueError(f"{text!r} is a folder that holds no Parquet files (.parquet or .pq)")
        keyed = next((p for p in files if "=" in "".join(p.relative_to(path).parts[:-1])), None)
        if keyed is not None:
            raise ValueError(
                f"the folder {text!r} stores a column in folder names ({keyed.parent.name}):"
                " pass polars.scan_parquet(folder, hive_partitioning=True)"
            )
        return files
    if "://" in text:
        raise ValueError(
            f"X is {text!r}, but files are read from this machine: pass a LazyFrame, e.g. "
            f"polars.scan_parquet({text!r}), or a dask.dataframe that reads it"
        )
    if is_pattern(text):
        # folders that exist by their names are those folders
        start = next(folder for folder in path.parents if folder.exists())
        pattern = os.path.join(glob.escape(str(start)), path.relative_to(start))
        files = sorted(Path(p) for p in glob.glob(pattern, recursive=True))
        files = [p for p in files if p.is_file()]
        if not files:
            raise ValueError(
                f"the pattern {text!r} matches no file: check the folder it starts from"
            )
        return files
    raise ValueError(
        f"X is {text!r}, but there is no such file or folder: pass a path, a pattern such as "
        "'data/*.parquet', or a frame"
    )


def as_it_is(path: Path) -> str:
    """Return a path that no library mistakes for an address or expands to the home folder."""
    return os.path.join(".", path)


@dataclass(frozen=True, eq=False)
class Files(InOrder):
    """Files of the same columns, read in order as frames of polars, else pyarrow."""

    paths: tuple[Path, ...]
    labels: Mapping[str, object]
    library: Library
    stamps: tuple[tuple[int, int], ...] = ()
    what = "files"

    @classmethod
    def open(cls, given: object) -> Files:
        paths = find_files(given)
        for path in paths:
            if path.suffix.lower() not in (*PARQUET, *ARROW, *CSV):
                raise ValueError(f"{path} is not a table that is read in parts: pass {_KNOWN}")
        if importlib.util.find_spec("pyarrow") is None:
            raise ImportError(
                "files are read by pyarrow, which is not installed: pip install pyarrow"
            )
        schemas = [_schema(path) for path in paths]
        stamps = tuple(_stamp(path) for path in paths)
        for path, schema in zip(paths[1:], schemas[1:], strict=True):
            _compare(paths[0], schemas[0], path, schema)
        has_polars = importlib.util.find_spec("polars") is not None
        return cls(
            paths,
            {name: name for name in schemas[0]},
            "polars" if has_polars else "pyarrow",
            stamps,
        )

    def rows(self) -> int | None:
        if any(path.suffix.lower() not in PARQUET for path in self.paths):
            return None
        parquet = importlib.import_module("pyarrow.parquet")
        return sum(int(parquet.read_metadata(as_it_is(path)).num_rows) for path in self.paths)

    def total(self, starts: Ints | None) -> int:
        if starts is not None:
            return len(starts)
        rows = self.rows()
        return 0 if rows is None else -(-rows // self.batch_rows(len(self.labels)))

    @staticmethod
    def batch_rows(width: int) -> int:
        return max(256, min(BATCH_ROWS, BATCH_BYTES // (8 * max(width, 1))))

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[str, Frame]]:
        names = list(columns)
        for path, stamp in zip(self.paths, self.stamps, strict=True):
            for batch in _batches(path, names, self.batch_rows(len(names))):
                yield str(path), _frame(path, batch, names, self.library)
            if _stamp(path) != stamp:
                raise ValueError(f"{path} {CHANGED}")


def _frame(path: Path, batch: Native, names: list[str], library: Library) -> Frame:
    try:
        return plain_frame(batch, names, library)
    except BaseException as error:
        # a library in Rust that gives up raises what is no Exception
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{path} cannot be read: it is damaged ({error})") from error


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise ValueError(f"{path} {CHANGED}") from error
    return found.st_size, found.st_mtime_ns


_SIGNATURES = (
    (b"PAR1", "Parquet"),
    (b"ARROW1", "Arrow"),
    (b"\xff\xff\xff\xff", "Arrow stream"),
    (b"FEA1", "Feather version 1"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
)


def kind_told(content: bytes) -> str:
    """Return the format that the first bytes of a file reveal; empty if they reveal none."""
    for signature, kind in _SIGNATURES:
        if content.startswith(signature):
            return kind
    start = content[:512]
    return "text" if start and not any(byte < 9 or 13 < byte < 32 for byte in start) else ""


def _refuse_other_kinds(path: Path) -> None:
    suffix = path.suffix.lower()
    named = "Parquet" if suffix in PARQUET else "Arrow" if suffix in ARROW else "CSV"
    with path.open("rb") as stream:
        told = kind_told(stream.read(512))
    if told == named or (named == "CSV" and told in ("text", "")):
        return
    if told == "Arrow stream":
        raise ValueError(
            f"{path} is an Arrow stream, which cannot be read more than once: write it "
            "as an Arrow file, or pass polars.read_ipc_stream(path)"
        )
    if told in ("Parquet", "Arrow"):
        ending = (PARQUET if told == "Parquet" else ARROW)[0]
        raise ValueError(f"{path} is {told} and named as {named}: name it {path.stem}{ending}")
    remedy = f": name it {path.stem}.csv if it is CSV" if told == "text" else ""
    what = f", it is {told}" if told else ": it is something else, or damaged"
    raise ValueError(f"{path} cannot be read as {named}{what}{remedy}")


def _schema(path: Path) -> dict[str, str]:
    suffix = path.suffix.lower()
    try:
        _refuse_other_kinds(path)
        if suffix in PARQUET:
            schema = importlib.import_module("pyarrow.parquet").read_schema(as_it_is(path))
        elif suffix in ARROW:
            schema = importlib.import_module("pyarrow.ipc").open_file(as_it_is(path)).schema
        else:
            schema = _open_csv(path).schema
    except _DAMAGE as error:
        first = str(error).splitlines()[0]
        if first.startswith(str(path)):
            raise
        raise ValueError(f"{path} cannot be read: {first}") from error
    refuse_duplicates(schema.names, path)
    return {field.name: _words(field.type) for field in schema}


def _words(kind: Native) -> str:
    types = importlib.import_module("pyarrow").types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    return "nothing" if types.is_null(kind) else str(kind)


def _compare(one: Path, expected: dict[str, str], other: Path, found: dict[str, str]) -> None:
    for name in expected:
        if name not in found:
            raise ValueError(
                f"{other} has no column {name!r}, which {one} has: give all files the same columns"
            )
    extra = next((name for name in found if name not in expected), None)
    if extra is not None:
        raise ValueError(
            f"{other} has the column {extra!r}, which {one} does not have: give all files the "
            "same columns"
        )
    for name, kind in expected.items():
        if "nothing" not in (kind, found[name]) and kind != found[name]:
            raise ValueError(
                f"column {name!r} holds {kind} in {one} and {found[name]} in {other}: give all "
                "files one type"
            )


def _batches(path: Path, columns: list[str], rows: int) -> Iterator[Native]:
    suffix = path.suffix.lower()
    try:
        yield from _read(path, suffix, columns, rows)
    except _DAMAGE as error:
        first = str(error).splitlines()[0]
        if suffix in CSV and "conversion error" in first:
            raise ValueError(
                f"{path} cannot be read in parts, because a column changes its type ({first}): "
                "write it as Parquet first"
            ) from error
        raise ValueError(f"{path} cannot be read: {first}") from error


def _read(path: Path, suffix: str, columns: list[str], rows: int) -> Iterator[Native]:
    if suffix in PARQUET:
        yield from parquet_batches(as_it_is(path), rows, columns)
    elif suffix in ARROW:
        file = importlib.import_module("pyarrow.ipc").open_file(
            importlib.import_module("pyarrow").memory_map(as_it_is(path))
        )
        for number in range(file.num_record_batches):
            batch = file.get_batch(number).select(columns)
            # nobody else looks whether offsets of a damaged file lead out of it
            batch.validate(full=True)
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
    else:
        for batch in _open_csv(path):
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows).select(columns)


def parquet_batches(
    file: str | io.BytesIO, rows: int = BATCH_ROWS, columns: list[str] | None = None
) -> Iterator[Native]:
    """Yield batches of a Parquet file; raise if checksums or stated ranges contradict them."""
    parquet = importlib.import_module("pyarrow.parquet")
    compute = importlib.import_module("pyarrow.compute")
    # a small buffer: whole groups of rows, which may be large, are not held
    with parquet.ParquetFile(
        file, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True
    ) as opened:
        ranges = _ranges(opened, columns)
        for batch in opened.iter_batches(batch_size=rows, columns=columns):
            for name, (low, high) in ranges.items():
                found = compute.min_max(batch.column(name)).as_py()
                for value in found.values():
                    if value is not None and not (low <= value <= high or value != value):
                        raise ValueError(
                            f"column {name!r} has the value {value:g}, and the file says that it "
                            f"holds {low:g} to {high:g}: it is damaged, write it again"
                        )
            yield batch


def _ranges(opened: Native, columns: list[str] | None) -> dict[str, tuple[float, float]]:
    types, metadata = importlib.import_module("pyarrow").types, opened.metadata
    fields = list(opened.schema_arrow)
    if len(fields) != metadata.num_columns:  # some are nested, and no feature is
        return {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    found: dict[str, tuple[float, float]] = {}
    for place, field in enumerate(fields):
        kind = field.type
        number = types.is_signed_integer(kind) or types.is_float32(kind) or types.is_float64(kind)
        if not number or (columns is not None and field.name not in columns):
            continue
        told = [group.column(place).statistics for group in groups]
        told = [one for one in told if one is None or one.num_values]
        # some writers state NaN
        if told and all(one and one.has_min_max and one.min <= one.max for one in told):
            found[field.name] = min(one.min for one in told), max(one.max for one in told)
    return found


def _open_csv(path: Path) -> Native:
    csv = importlib.import_module("pyarrow.csv")
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as stream:
        told = SEPARATOR_LINE.match(stream.read(16))
    if told is not None:
        separator = told[1].decode()
    return csv.open_csv(
        as_it_is(path),
        read_options=csv.ReadOptions(block_size=CSV_BYTES, skip_rows=int(told is not None)),
        parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=csv.ConvertOptions(strings_can_be_null=True),
    )
