"""Tables: read from files or standard input, taken apart by the roles of columns, written.

CSV, TSV, Parquet, Arrow, Feather and JSON lines, also packed by gzip, bzip2, xz or zstd.
"""

from __future__ import annotations

import bz2
import csv
import difflib
import gzip
import importlib
import io
import itertools
import json
import lzma
import os
import re
import stat
import sys
import warnings
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from sklearn.model_selection import TimeSeriesSplit

from dfi._checks import printable
from dfi._data import source
from dfi._data.frames import is_stored_index
from dfi._data.streams.files import (
    SEPARATOR_LINE,
    Files,
    as_it_is,
    find_files,
    kind_told,
    parquet_batches,
)
from dfi._data.text import find_numbers
from dfi._data.text import spelling as spelling_of
from dfi._files import is_pattern
from dfi.cli.columns import days, is_time, read_dates, with_dates, with_fewer_levels, with_numbers
from dfi.cli.console import INPUT, REFUSED, ColumnsRefused, Failure, Terminated, is_panic
from dfi.cli.options import Dates, Decimal, Missing, Numbers, Task, split_names
from dfi.warnings import DFIWarning, IdentifierWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dfi._types import Native
    from dfi.cli.console import Console
    from dfi.cli.options import Request

ENDINGS = {
    "csv": ("csv", "txt"),
    "tsv": ("tsv", "tab"),
    "parquet": ("parquet", "pq"),
    "arrow": ("arrow", "feather", "ipc"),
    "jsonl": ("jsonl", "ndjson"),
}
FORMATS = {ending: kind for kind, endings in ENDINGS.items() for ending in endings}
MISSING = [
    *("NA", "N/A", "n/a", "null", "NULL", "nan", "NaN", "NAN", "-nan", "-NaN"),
    *("#N/A", "#NA", "<NA>", "#N/A N/A"),
]
"""What stands for a missing value in every column."""

MISSING_NUMBERS = {"", "none", "?", "-", "--", ".", "..", "*"}
"""What does so where all other values are numbers, in small letters; words are levels elsewhere."""

FEW_CLASSES = 10
"""Different values up to which numbers that are written as text are names of classes."""

TYPED = ("parquet", "arrow")
"""Formats whose columns have types: text is text in them."""

SEPARATORS = ",;\t|"
FORMULAS = tuple("=+-@\t\r\n＝＋－＠")
"""What a cell that a spreadsheet runs begins with."""
STREAMED_BYTES = 2**28
"""The size of a Parquet file on disk beyond which it is read in parts."""

FREE_BYTES = 1 << 24
"""Bytes that a compressed file of any size may hold, unless ``--max-unpacked`` says otherwise."""
RATIO = 20
"""Bytes beyond those for each byte of the file: tables of numbers shrink to a fifth or a tenth."""

_NAMES = {
    "csv": "CSV", "tsv": "TSV", "jsonl": "JSON lines", "parquet": "Parquet", "arrow": "Arrow"
}  # fmt: skip
_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
ROWS_OF_CODES = 1000
"""Rows that are looked at for leading zeros."""
_CODE = re.compile(r"\s*0\d")
_MISTAKEN = re.compile(r"could not parse `.*` as dtype `.*` at column '(.*)' \(column number \d+\)")


@dataclass(frozen=True)
class Spelling:
    """How texts are written: their encoding, and what stands before a fraction."""

    encoding: str = "utf-8"
    decimal: Decimal = Decimal.point
    dates: bool = False
    without: tuple[str, ...] = ()
    levels: bool = False
    named: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: Request) -> Spelling:
        """Return what a request says."""
        dates = request.dates is not None or request.time is not None
        without = tuple(split_names(request.drop))
        levels = request.numbers is Numbers.text
        roles = (request.weights, request.frequency_weights, request.time, request.clusters)
        named = {*without, *split_names(request.categorical), *filter(None, roles)}
        return cls(request.encoding, request.decimal, dates, without, levels, tuple(named))


def read_file(
    path: str,
    *,
    file_format: str | None = None,
    spelling: Spelling | None = None,
    max_unpacked: int | None = None,
    na_values: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> pl.DataFrame:
    """Read a table from a file, or from standard input where the path is ``-``."""
    label = "standard input" if path == "-" else path
    content = _content(path, label, max_unpacked)
    if not content.strip():
        raise Failure(f"{label} is empty", INPUT)
    kind = _format(path, file_format, content, label)
    _refuse_other_kinds(kind, content, label)
    try:
        with _quietly(), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", DFIWarning)
            frame = _READERS[kind](content, label, spelling or Spelling())
    except (Failure, KeyboardInterrupt, Terminated, SystemExit):
        raise
    # damaged files make readers raise almost anything, and those in Rust what is no Exception
    except BaseException as error:
        name = _NAMES[kind]
        reason = str(error).strip().split("\n")[0].strip().rstrip(".") or type(error).__name__
        if is_panic(error):
            reason = f"it is damaged ({reason})"
        raise Failure(f"{label} cannot be read as {name}: {reason}", INPUT) from error
    # nobody would have seen them there
    for warning in said:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if frame.width == 0 or frame.height == 0:
        raise Failure(f"{label} has no {'columns' if frame.width == 0 else 'rows'}", INPUT)
    for name in categorical:
        _require(frame.columns, name, "--categorical")
    decided = kind in TYPED or (spelling is not None and spelling.levels)
    comma = spelling is not None and spelling.decimal is Decimal.comma
    return frame.with_columns(
        column_as_classes(column, set(na_values))
        if column.name in categorical
        else _as_meant(column, set(na_values), decided=decided, comma=comma)
        for column in frame.get_columns()
    )


def column_as_classes(column: pl.Series, na_values: set[str]) -> pl.Series:
    """Return a column whose values are classes, whatever they are."""
    return _marked(column.cast(pl.String), na_values).cast(pl.Categorical)


def _as_meant(column: pl.Series, na_values: set[str], *, decided: bool, comma: bool) -> pl.Series:
    """Return a column with blanks stripped, missing values marked, and numbers as numbers."""
    if column.dtype != pl.String:
        if not na_values or not column.dtype.is_numeric():
            return column
        absent = [number for number in map(_number, na_values) if number is not None]
        return column.set(column.is_in(absent), None) if absent else column
    column = _marked(column, na_values)
    if decided:
        return column
    bare = column.str.strip_chars()
    marks = bare.str.to_lowercase().is_in(sorted(MISSING_NUMBERS))
    numbers = bare.set(marks, None)
    for kind in () if comma else (pl.Int64, pl.Float64):
        found = numbers.cast(kind, strict=False)
        if found.null_count() == numbers.null_count() < len(numbers):
            return found
    spelt = numbers.drop_nulls().unique().to_list()
    return numbers if spelt and all(spelling_of(text) is not None for text in spelt) else bare


def _meant_lazily(name: str, dtype: pl.DataType, na_values: set[str], *, classes: bool) -> pl.Expr:
    """Return a column of a table in parts as :func:`_as_meant` does one with a type."""
    column = pl.col(name)
    if classes or dtype == pl.String:
        column = column.cast(pl.String)
        marks = column.str.strip_chars().is_in(sorted({*MISSING, *na_values}))
        column = pl.when(~marks).then(column)
        return (column.cast(pl.Categorical) if classes else column).alias(name)
    absent = [number for number in map(_number, na_values) if number is not None]
    if absent and dtype.is_numeric():
        column = pl.when(~column.is_in(absent)).then(column)
    return column.alias(name)


def _marked(column: pl.Series, na_values: set[str]) -> pl.Series:
    bare = column.str.strip_chars()
    return column.set(bare.is_in(sorted({*MISSING, *na_values})), None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text_features(features: pl.DataFrame, request: Request) -> pl.DataFrame:
    """Return features whose text is no number, or is to be levels; raise for other text."""
    levels: list[pl.Series] = []
    reasons: dict[str, str] = {}
    for column in features.get_columns():
        if column.dtype != pl.String:
            continue
        found = find_numbers(column.drop_nulls().to_list())
        if found is None:
            continue
        if request.numbers is Numbers.text:
            levels.append(column.cast(pl.Categorical))
            continue
        odd = f"call {(found.odd or '')[:40]!r} missing with --na-values, "
        first = "write all of it as numbers, " if found.odd is None or found.how else odd
        reasons[column.name] = (
            f"column {column.name!r} {found.words()}: {first}name the column with --categorical "
            "if its values are classes, or leave it out with --drop"
        )
    if reasons:
        raise ColumnsRefused(reasons)
    return features.with_columns(levels) if levels else features


def scan_files(path: str, *, file_format: str | None = None) -> pl.LazyFrame | None:
    """Return the rows of large Parquet files without reading them; None where they are read whole.

    A folder and a pattern are always read in parts; one file where it is larger than
    :data:`STREAMED_BYTES` and has more rows than a table that is explained whole.
    """
    several = is_pattern(path) or Path(path).is_dir()
    parquet = Path(path).suffix.lower() in (".parquet", ".pq")
    if not several and (not parquet or file_format is not None or not Path(path).is_file()):
        return None
    if not several and Path(path).stat().st_size <= STREAMED_BYTES:
        return None
    try:
        files = find_files(path)
        _require_parquet(files)
        with _quietly():
            Files.open(files)
            # one pass more over the bytes, a twentieth of what the others take
            for file in files:
                try:
                    _require_sound_parquet(as_it_is(file))
                except (OSError, ValueError, MemoryError) as error:
                    told = str(error).strip().split("\n")[0]
                    raise Failure(f"{file} is damaged: {told}", INPUT) from error
            names = [as_it_is(file) for file in files]
            frame = pl.scan_parquet(names, glob=False, hive_partitioning=False)
            rows = int(frame.select(pl.len()).collect().item())
    except (Failure, KeyboardInterrupt, Terminated, SystemExit):
        raise
    except BaseException as error:
        reason = str(error).strip().split("\n")[0]
        if is_panic(error):
            reason = f"{path} cannot be read: it is damaged ({reason})"
        raise Failure(reason, INPUT) from error
    if rows == 0:
        raise Failure(f"{path} has no rows", INPUT)
    return None if not several and rows <= source.LARGE_ROWS else frame


def _require_parquet(files: Sequence[Path]) -> None:
    other = next((f for f in files if f.suffix.lower() not in (".parquet", ".pq")), None)
    if other is not None:
        raise Failure(f"{other} is no Parquet file; several files are read of Parquet", INPUT)


def select_lazily(frame: pl.LazyFrame, request: Request, console: Console) -> pl.LazyFrame:
    """Leave out columns and rows of a table that is not in memory, as :func:`select` does."""
    for option, name in (("--time", request.time), ("--clusters", request.clusters)):
        if name is not None:
            raise Failure(
                f"{option} needs all rows at once, and {request.data} is read in parts: give one "
                "file of some of the rows",
                REFUSED,
            )
    for option, asked in (
        ("--dates parts", request.dates is Dates.parts),
        ("--numbers marked", request.numbers is Numbers.marked),
        ("--max-levels", request.max_levels is not None),
    ):
        if asked:
            raise Failure(
                f"{option} looks at all values first, and {request.data} is read in parts: give "
                "one file of some of the rows, or write the column as you want it",
                REFUSED,
            )
    schema = frame.collect_schema()
    named = [request.target, request.weights, request.frequency_weights]
    for option, name in zip(("target", "weights", "frequency-weights"), named, strict=True):
        if name is not None:
            _require(schema.names(), name, f"--{option}")
    drop = split_names(request.drop)
    for name in drop:
        _require(schema.names(), name, "--drop")
    if request.target in drop:
        raise Failure(f"the target {request.target!r} is also named by --drop", REFUSED)
    _refuse_target_roles(request)
    classes, na_values = split_names(request.categorical), set(split_names(request.na_values))
    for name in classes:
        _require(schema.names(), name, "--categorical")
    frame = frame.with_columns(
        _meant_lazily(name, schema[name], na_values, classes=name in classes)
        for name in schema.names()
    )
    kept = [name for name in schema.names() if name not in drop]
    if not set(kept) - set(named):
        raise Failure("no feature is left: every column is the target or left out", REFUSED)
    floats = [name for name in kept if schema[name].is_float()]
    frame = frame.select(kept).with_columns(pl.col(floats).fill_nan(None))
    times = [name for name in kept if is_time(schema[name]) and name not in named]
    if request.dates is Dates.drop:
        frame = frame.drop(times)
    elif request.dates is Dates.days:
        frame = frame.with_columns([days(name, schema[name]) for name in times])
    target = pl.col(request.target)
    absent = int(frame.select(target.null_count()).collect().item())
    if absent and request.missing is Missing.error:
        raise Failure(
            f"column {request.target!r} has {absent} missing values: leave such rows out with "
            "--missing drop, or fill them first",
            REFUSED,
        )
    if absent:
        console.warn(f"{absent} row{'s' * (absent > 1)} without {request.target!r} left out")
        frame = frame.filter(target.is_not_null())
    return frame


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep what a library in Rust prints when it gives up from standard error.

    It writes there past Python, many lines, before anyone can catch the error.
    """
    try:
        sys.stderr.flush()
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no standard error
        yield
        return
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _content(path: str, label: str, max_unpacked: int | None) -> bytes:
    if path == "-":
        content = sys.stdin.buffer.read()
    else:
        try:
            mode = Path(path).stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise Failure(
                    f"{path} is a pipe or a device, not a file: read it as standard input, "
                    f"dfi ... - < {path}",
                    INPUT,
                )
            content = Path(path).read_bytes()
        except FileNotFoundError:
            raise Failure(f"there is no file {path}", INPUT) from None
        except IsADirectoryError:
            raise Failure(f"{path} is a folder; give the name of a file", INPUT) from None
        except PermissionError:
            raise Failure(f"{path} may not be read: permission denied", INPUT) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise Failure(f"{path} cannot be read: {reason}", INPUT) from None
    packed = kind_told(content)
    return _unpacked(content, packed, label, max_unpacked) if packed in _UNPACKERS else content


def _open_zstd(stream: io.BytesIO) -> Native:
    return importlib.import_module("pyarrow").CompressedInputStream(stream, "zstd")


_UNPACKERS: dict[str, Callable[[io.BytesIO], Native]] = {
    "gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open, "zstd": _open_zstd
}  # fmt: skip


def _unpacked(content: bytes, packed: str, label: str, max_unpacked: int | None) -> bytes:
    """Return what a file holds, and stop where it is more than a file of its size may."""
    most = FREE_BYTES + RATIO * len(content) if max_unpacked is None else max_unpacked * 10**6
    try:
        with _UNPACKERS[packed](io.BytesIO(content)) as stream:
            unpacked: bytes = stream.read(most + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        raise Failure(f"{label} is a damaged {packed} file", INPUT) from None
    if len(unpacked) > most:
        raise Failure(
            f"{label} has {len(content):,} bytes and unpacks to more than {most:,}: if you trust "
            "whoever made it, say how many megabytes it may take with --max-unpacked",
            INPUT,
        )
    return unpacked


def _format(path: str, file_format: str | None, content: bytes, label: str) -> str:
    if file_format is not None:
        if file_format.lower() not in FORMATS:
            known = ", ".join(sorted(set(FORMATS)))
            raise Failure(f"unknown format {file_format!r}; known are {known}", INPUT)
        return FORMATS[file_format.lower()]
    suffixes = [suffix.lstrip(".").lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in ("gz", "bz2", "xz", "zst", "zstd"):
        suffixes.pop()
    if suffixes and suffixes[-1] in FORMATS:
        return FORMATS[suffixes[-1]]
    if suffixes and suffixes[-1] in ("xls", "xlsx", "ods"):
        raise Failure(f"{label} is a spreadsheet; save it as CSV first", INPUT)
    for magic, kind in ((_PARQUET, "parquet"), (_ARROW, "arrow"), (_STREAM, "arrow")):
        if content.startswith(magic):
            return kind
    start = content[:4096].lstrip()
    if start.startswith(b"{") or (suffixes and suffixes[-1] == "json"):
        return "jsonl"
    first = start.split(b"\n", 1)[0]
    return "tsv" if first.count(b"\t") > first.count(b",") else "csv"


def _refuse_other_kinds(kind: str, content: bytes, label: str) -> None:
    """Raise where the first bytes say that a table is of another format than its name does."""
    if content.startswith(b"PK\x03\x04"):
        raise Failure(
            f"{label} is a zip archive, as spreadsheets (.xlsx) are: save it as CSV first", INPUT
        )
    told = kind_told(content)
    fits = {"Parquet": "parquet", "Arrow": "arrow", "Arrow stream": "arrow"}.get(told)
    if told == "text" and kind in TYPED:
        remedy = "say what it is with --format, for instance --format csv"
        raise Failure(f"{label} cannot be read as {_NAMES[kind]}, it is text: {remedy}", INPUT)
    if fits is not None and fits != kind:
        remedy = f"say so with --format {fits}"
        raise Failure(f"{label} is {told} and read as {_NAMES[kind]}: {remedy}", INPUT)


def _decoded(content: bytes, label: str, encoding: str) -> bytes:
    """Return text as UTF-8 without a byte order mark."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) and encoding == "utf-8":
        encoding = "utf-16"
    try:
        text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        if not kind_told(content):
            raise Failure(
                f"{label} is no text, and of no format that is read: write it as CSV or Parquet",
                INPUT,
            ) from None
        raise Failure(
            f"{label} is not {encoding.upper()} (line {line}); say what it is with --encoding, "
            "for instance --encoding latin-1",
            INPUT,
        ) from None
    except LookupError:
        raise Failure(f"there is no encoding called {encoding!r}", INPUT) from None
    if encoding == "utf-8":
        return content.removeprefix(b"\xef\xbb\xbf")
    return text.encode("utf-8")


def _read_delimited(own: str, content: bytes, label: str, written: Spelling) -> pl.DataFrame:
    text = _decoded(content, label, written.encoding)
    if b"\0" in text:
        line = text[: text.index(b"\0")].count(b"\n") + 1
        raise Failure(
            f"{label} is no text (line {line} has NUL bytes): say how it is encoded with "
            "--encoding, for instance --encoding utf-16, or what it is with --format",
            INPUT,
        )
    if b"\r" in text and b"\n" not in text:
        # lines of old spreadsheets end in CR alone
        text = text.replace(b"\r", b"\n")
    separator = _separator(text, own, label)
    header = next(_rows(text, separator, label), (0, []))[1]
    _check_header(header, label)
    try:
        frame = _read_csv(text, separator)
        if written.decimal is Decimal.comma:
            # a point would have been read as a decimal one: what it is, is decided later
            fractions = [name for name, dtype in frame.schema.items() if dtype.is_float()]
            frame = _read_csv(text, separator, dict.fromkeys(fractions, pl.String()))
        if written.dates:
            frame = _with_sure_dates(frame, text, separator, written.without)
    except pl.exceptions.PolarsError:
        _refuse_ragged(text, separator, len(header), label)
        raise
    # polars fills short lines with missing values: they would show in the last column
    if frame.height and frame[:, -1].null_count():
        _refuse_ragged(text, separator, len(header), label)
    if spelt := _codes(frame, text, separator, label, written.named):
        name, code = next(iter(spelt.items()))
        warn(
            f"column {name!r} has leading zeros ({code!r}), as codes have, and is read as numbers: "
            "name it with --categorical if its values are classes",
            IdentifierWarning,
        )
    return frame


def _codes(
    frame: pl.DataFrame, text: bytes, separator: str, label: str, named: Sequence[str]
) -> dict[str, str]:
    """Return columns of whole numbers that have leading zeros in the first rows, with one each."""
    whole = {
        place: name
        for place, (name, dtype) in enumerate(frame.schema.items())
        if dtype.is_integer() and name not in named
    }
    found: dict[str, str] = {}
    rows = itertools.islice(_rows(text, separator, label), 1, ROWS_OF_CODES) if whole else ()
    try:
        for _, row in rows:
            for place, name in whole.items():
                if place < len(row) and _CODE.match(row[place]):
                    found.setdefault(name, row[place].strip())
    except Failure:  # a field larger than the module takes
        pass
    return found


def _read_csv(
    text: bytes, separator: str, kinds: Mapping[str, pl.DataType] | None = None
) -> pl.DataFrame:
    """Read fields as what they look like; as text where the reader trips over its own guess."""
    overrides = dict(kinds or {})
    told = SEPARATOR_LINE.match(text)
    while True:
        try:
            return pl.read_csv(
                text if told is None else text[told.end() :],
                separator=separator,
                infer_schema_length=None,
                null_values=MISSING,
                try_parse_dates=True,
                schema_overrides=overrides,
            )
        except pl.exceptions.ComputeError as error:
            found = _MISTAKEN.search(str(error))
            if found is None or found[1] in overrides:
                raise
            overrides[found[1]] = pl.String()


def _with_sure_dates(
    frame: pl.DataFrame, text: bytes, separator: str, without: Sequence[str]
) -> pl.DataFrame:
    """Read dates again that do not begin with the year: polars takes the day for the first."""
    times = [name for name, dtype in frame.schema.items() if dtype in (pl.Date, pl.Datetime)]
    times = [name for name in times if name not in without]
    if not times:
        return frame
    texts = _read_csv(text, separator, dict.fromkeys(times, pl.String())).select(times)
    other = [
        column for column in texts.get_columns() if not column.str.contains(r"^\s*\d{4}").all()
    ]
    return frame.with_columns(
        [found for column in other if (found := read_dates(column)) is not None]
    )


def _separator(text: bytes, own: str, label: str) -> str:
    """Return what separates the fields: what gives the header most, and the first lines as many."""
    told = SEPARATOR_LINE.match(text)
    if told is not None:
        return told[1].decode()
    chosen, most = own, 1
    for mark in (own, *SEPARATORS.replace(own, "")):
        try:
            widths = [len(row) for _, row in itertools.islice(_rows(text, mark, label), 20) if row]
        except Failure:  # a field larger than the module takes
            continue
        if widths and widths[0] > most and set(widths) == {widths[0]}:
            chosen, most = mark, widths[0]
    return chosen


def _rows(text: bytes, separator: str, label: str) -> Iterator[tuple[int, list[str]]]:
    stream = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", newline="")
    reader = csv.reader(stream, delimiter=separator)
    if SEPARATOR_LINE.match(text):
        next(reader)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise Failure(
            f"{label}: line {reader.line_num + 1} cannot be read ({error}): are names and values "
            "separated, and quotes closed?",
            INPUT,
        ) from None


def _check_header(header: list[str], label: str) -> None:
    seen: set[str] = set()
    for position, name in enumerate(header):
        if not name.strip():
            raise Failure(
                f"{label}: column {position + 1} has no name; the first line must name the columns",
                INPUT,
            )
        if name in seen:
            raise Failure(f"{label}: the column name {name!r} appears more than once", INPUT)
        seen.add(name)


def _refuse_ragged(text: bytes, separator: str, width: int, label: str) -> None:
    before = 0
    for line, row in _rows(text, separator, label):
        if row and len(row) != width:
            found = f"{len(row)} field{'s' * (len(row) != 1)} where the header has {width}"
            if line > before + 1:
                raise Failure(
                    f"{label}: lines {before + 1} to {line} are one row in quotes, with {found}: "
                    f"close the quote that opens in line {before + 1}",
                    INPUT,
                )
            raise Failure(f"{label}: line {line} has {found}", INPUT)
        before = line


def _read_parquet(content: bytes, _label: str, _spelling: Spelling) -> pl.DataFrame:
    _require_sound_parquet(io.BytesIO(content))
    return pl.read_parquet(io.BytesIO(content))


def _read_arrow(content: bytes, label: str, _spelling: Spelling) -> pl.DataFrame:
    if content.startswith(b"FEA1"):
        raise Failure(f"{label} is Feather version 1; write it as version 2", INPUT)
    _require_sound(content)
    if content.startswith(_ARROW):
        return pl.read_ipc(io.BytesIO(content))
    return pl.read_ipc_stream(io.BytesIO(content))


def _require_sound_parquet(file: io.BytesIO | str) -> None:
    """Raise where a Parquet file contradicts itself, as :func:`_require_sound` does."""
    try:
        for _ in parquet_batches(file):
            pass
    except NotImplementedError:  # an encoding that pyarrow does not have
        pass


def _require_sound(content: bytes) -> None:
    """Raise where an Arrow file contradicts itself, one part after the other.

    polars believes what such a file says of its sizes, and ends the process where there is not so
    much memory: that is no error which anyone could catch.
    """
    pyarrow = importlib.import_module("pyarrow")
    ipc = importlib.import_module("pyarrow.ipc")
    stream = pyarrow.BufferReader(content)
    try:
        if content.startswith(_ARROW):
            file = ipc.open_file(stream)
            parts = (file.get_batch(k) for k in range(file.num_record_batches))
        else:
            parts = iter(ipc.open_stream(stream))
        for part in parts:
            part.validate(full=True)
    except NotImplementedError:  # a type of polars' own
        pass


def _read_jsonl(content: bytes, label: str, written: Spelling) -> pl.DataFrame:
    text = _decoded(content, label, written.encoding)
    if text.lstrip().startswith(b"["):
        raise Failure(
            f"{label} is a JSON array: write one object a line (JSON lines), for instance with "
            "jq -c '.[]'",
            INPUT,
        )
    _refuse_repeated_keys(text, label)
    try:
        return pl.read_ndjson(text, infer_schema_length=None)
    except pl.exceptions.PolarsError:
        _refuse_lines(text, label)
        raise


def _refuse_repeated_keys(text: bytes, label: str) -> None:
    """Raise if the first object has a key twice: a reader would keep one of the two values."""
    line = text.lstrip().split(b"\n", 1)[0]
    try:
        json.loads(line, object_pairs_hook=_unique)
    except KeyError as error:
        raise Failure(
            f"{label}: the column name {error.args[0]!r} appears more than once", INPUT
        ) from None
    except (ValueError, RecursionError):
        return  # the reader says what is wrong


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; raise KeyError for a key that it has twice."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise KeyError(key)
        found[key] = value
    return found


def _refuse_lines(text: bytes, label: str) -> None:
    """Raise for the first line that is no JSON object, with what is wrong with it."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON: write null for a missing value")

    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line, parse_constant=refuse)
            reason = "" if isinstance(found, dict) else "it is no object {...}"
        except (ValueError, RecursionError) as error:
            reason = str(error)
        if reason:
            raise Failure(
                f"{label}: line {number} is not JSON lines, one object a line: {reason}", INPUT
            )


_READERS: dict[str, Callable[[bytes, str, Spelling], pl.DataFrame]] = {
    "csv": partial(_read_delimited, ","),
    "tsv": partial(_read_delimited, "\t"),
    "parquet": _read_parquet,
    "arrow": _read_arrow,
    "jsonl": _read_jsonl,
}


def read_groups_file(path: str) -> pl.DataFrame | dict[str, list[str]]:
    """Return groups from a table, or from a JSON object ``{group: [features]}``."""
    if path.lower().endswith(".json"):
        try:
            members = json.loads(_content(path, path, None), object_pairs_hook=_unique)
        except KeyError as error:
            raise Failure(
                f"{path} has the group {error.args[0]!r} twice; rename one", INPUT
            ) from None
        except (ValueError, RecursionError) as error:
            raise Failure(f"{path} is not JSON: {error}", INPUT) from None
        if not isinstance(members, dict):
            raise Failure(f"{path} must be a JSON object of groups and their features", INPUT)
        return members
    frame = read_file(path)
    if frame.width != 2 or any(dtype != pl.String for dtype in frame.dtypes):
        return frame
    # Two columns of text: features and their groups; a feature may be in several.
    if [name.strip().lower() for name in frame.columns] == ["group", "feature"]:
        frame = frame.select(frame.columns[::-1])
    members = {}
    for feature, group in frame.iter_rows():
        if feature is not None and group is not None:
            members.setdefault(group, []).append(feature)
    return members


@dataclass(frozen=True)
class Selection:
    """A table taken apart by the roles of its columns."""

    features: pl.DataFrame
    target: pl.Series
    weights: pl.Series | None
    frequency_weights: pl.Series | None
    row_groups: pl.Series | None
    cv: int | TimeSeriesSplit
    blocks: dict[str, list[str]]
    """The columns of the parts of each date that is one unit."""


def select(frame: pl.DataFrame, request: Request, console: Console) -> Selection:
    """Take a table apart: what is neither dropped nor named by a role is a feature."""
    target, weights, counts, time, row_groups = roles = (
        request.target, request.weights, request.frequency_weights, request.time,
        request.clusters,
    )  # fmt: skip
    options = ("target", "weights", "frequency-weights", "time", "clusters")
    for option, name in zip(options, roles, strict=True):
        if name is not None:
            _require(frame.columns, name, f"--{option}")
    drop = split_names(request.drop)
    for name in drop:
        _require(frame.columns, name, "--drop")
    if target in drop:
        raise Failure(f"the target {target!r} is also named by --drop", REFUSED)
    _refuse_target_roles(request)
    special = {name for name in roles if name is not None}
    left_out = {*drop, *special, *filter(is_stored_index, frame.columns)}
    features = [name for name in frame.columns if name not in left_out]
    if not features:
        raise Failure("no feature is left: every column is the target or left out", REFUSED)
    named = list(dict.fromkeys(name for name in roles if name is not None))
    frame = with_numbers(frame.select([*features, *named]), [*features, *named], request)
    _check_roles(frame, request)
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    frame = frame.with_columns(pl.col(floats).fill_nan(None)) if floats else frame
    if request.missing is Missing.error:
        _refuse_missing(frame, frame.columns)
    # what has no outcome cannot be explained; a row's weight, time or label may not be guessed
    frame = _without(frame, [target] if request.missing is Missing.indicator else named, console)
    _refuse_missing(frame, named)
    if time is not None:
        frame = frame.sort(time, maintain_order=True)
    table, blocks = with_dates(
        _text_features(frame.select(features), request), features, request, console
    )
    if not table.width:
        raise Failure("no feature is left: every column holds dates, and they are dropped", REFUSED)
    _refuse_text_target(frame[target], request)
    return Selection(
        features=with_fewer_levels(table, table.columns, request, console),
        target=_explainable(frame[target]),
        weights=None if weights is None else frame[weights],
        frequency_weights=None if counts is None else frame[counts],
        row_groups=None if row_groups is None else frame[row_groups],
        cv=request.folds if time is None else TimeSeriesSplit(n_splits=request.folds),
        blocks=blocks,
    )


def _refuse_target_roles(request: Request) -> dict[str, str | None]:
    """Return the roles of columns beside the target, or raise if one of them is the target's."""
    others = {
        "weights": request.weights,
        "frequency-weights": request.frequency_weights,
        "time": request.time,
        "clusters": request.clusters,
    }
    for option, name in others.items():
        if name == request.target:
            raise Failure(
                f"--{option} names the target {name!r}, which is what is explained: name another "
                "column",
                REFUSED,
            )
    return others


def _check_roles(frame: pl.DataFrame, request: Request) -> None:
    """Raise if a column has two roles that exclude each other, or no values for its role."""
    others = _refuse_target_roles(request)
    for option in ("weights", "frequency-weights"):
        name = others[option]
        if name is not None and not frame[name].dtype.is_numeric():
            raise Failure(
                f"--{option}: column {name!r} is no column of numbers (for instance "
                f"{_first_odd(frame[name])!r})",
                REFUSED,
            )
    if request.time is None:
        return
    time = frame[request.time]
    if not (time.dtype.is_numeric() or time.dtype.is_temporal()):
        raise Failure(
            f"--time: column {request.time!r} is no column of numbers or dates (for instance "
            f"{_first_odd(time)!r}), and text has no order in time: "
            "write dates as 2024-01-31, or number the rows",
            REFUSED,
        )
    if time.drop_nulls().n_unique() < 2:
        raise Failure(f"--time: column {request.time!r} has one value only", REFUSED)


def _first_odd(column: pl.Series) -> str:
    """Return the first value of a column that is no number, shortened."""
    texts = map(str, column.drop_nulls().to_list())
    return next((text for text in texts if spelling_of(text) != ""), "")[:30]


def _refuse_text_target(target: pl.Series, request: Request) -> None:
    """Raise if a target of text was meant as numbers."""
    if (
        target.dtype != pl.String
        or request.task is not Task.auto
        or target.n_unique() <= FEW_CLASSES
    ):
        return
    found = find_numbers(target.drop_nulls().to_list())
    if found is not None:
        first = (
            "write it as numbers"
            if found.odd is None or found.how
            else (f"call {found.odd!r} missing with --na-values")
        )
        raise Failure(
            f"the target {target.name!r} {found.words()}: {first}, or say --task classification "
            "if its values are classes",
            REFUSED,
        )


def _require(columns: list[str], name: str, option: str) -> None:
    if name in columns:
        return
    if len(columns) == 1 and name.lower() in columns[0].lower():
        raise Failure(
            f"{option}: there is no column {name!r}; the only column is {columns[0]!r}: separate "
            "fields by commas, semicolons, tabs or |",
            REFUSED,
        )
    bare = name.strip().lower()
    by_case = [column for column in columns if column.strip().lower() == bare]
    close = by_case or difflib.get_close_matches(name, columns, n=3)
    listed = close or columns[:10]
    lead = "did you mean" if close else "the columns are"
    end = "?" if close else ", ..." if len(columns) > len(listed) else ""
    raise Failure(
        f"{option}: there is no column {name!r}; {lead} {', '.join(map(repr, listed))}{end}",
        REFUSED,
    )


def _explainable(target: pl.Series) -> pl.Series:
    """Return a target of numbers or labels; dates, lists and the like are neither."""
    labels = (pl.String, pl.Categorical, pl.Enum)
    if target.dtype == pl.Boolean or target.dtype.is_numeric() or target.dtype in labels:
        return target
    example = target.drop_nulls().head(1).to_list()
    shown = f" (for instance {str(example[0])[:30]!r})" if example else ""
    raise Failure(
        f"the target {target.name!r} is of type {target.dtype}{shown}: it must be a quantity, or "
        "labels of classes",
        REFUSED,
    )


def label(target: pl.Series, text: str) -> object:
    """Return the value of a target that a text of the command line means."""
    values = target.drop_nulls().unique().to_list()
    for value in values:
        if str(value) == text or (isinstance(value, bool) and str(value).lower() == text.lower()):
            return value
    if target.dtype.is_numeric():
        try:
            return next(value for value in values if float(value) == float(text))
        except (ValueError, StopIteration):
            pass
    if target.dtype.is_float() and len(values) > FEW_CLASSES:
        raise Failure(
            f"--pos-label {text} names a class, and {target.name!r} is a quantity: leave it out",
            REFUSED,
        )
    shown = sorted(map(str, values))[:10]
    close = difflib.get_close_matches(text, map(str, values), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"its labels are {', '.join(shown)}"
    more = ", ..." if not close and len(values) > len(shown) else ""
    raise Failure(f"--pos-label: {target.name!r} has no label {text!r}; {hint}{more}", REFUSED)


def _without(frame: pl.DataFrame, names: list[str], console: Console) -> pl.DataFrame:
    """Return the rows in which none of some columns is missing, and say how many are not there."""
    for name in names:
        absent = frame[name].null_count()
        if absent == frame.height:
            raise Failure(f"column {name!r} is missing in every row", REFUSED)
        if absent:
            console.warn(f"{absent} row{'s' * (absent > 1)} without {name!r} left out")
            frame = frame.filter(pl.col(name).is_not_null())
    return frame


def _refuse_missing(frame: pl.DataFrame, columns: list[str]) -> None:
    """Raise if some columns have missing values, with their names and numbers."""
    counts = frame.select(columns).null_count().row(0, named=True)
    holes = {name: count for name, count in counts.items() if count}
    if not holes:
        return
    worst, *others = sorted(holes, key=lambda name: -holes[name])
    named = [f"{name!r} has {holes[name]}" for name in others[:3]]
    if len(others) > 3:
        named.append(f"{len(others) - 3} more columns have some")
    more = f" ({', '.join(named)})" if named else ""
    values = "value" if holes[worst] == 1 else "values"
    raise Failure(
        f"column {worst!r} has {holes[worst]} missing {values}{more}: "
        "leave such rows out with --missing drop, columns with --drop, or fill them first",
        REFUSED,
    )


def write_tables(table: pl.DataFrame, folder: Path, stem: str) -> None:
    """Write a table as CSV, for people, and as Parquet, for programs.

    A spreadsheet runs a cell that begins as a formula does: names in the CSV get an apostrophe
    before it, and lose what steers a terminal. Those in Parquet are as they are.
    """
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
    """Return a text that no spreadsheet takes for a formula."""
    text = printable(text, keep="\t\r\n")
    return f"'{text}" if text.lstrip(" ").startswith(FORMULAS) else text
