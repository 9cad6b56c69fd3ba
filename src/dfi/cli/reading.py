"""From a file or standard input to a frame: formats, packing, damage.

CSV, TSV, Parquet, Arrow, Feather and JSON lines, also packed by gzip, bzip2, xz or zstd.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import json
import lzma
import os
import stat
import sys
import warnings
import zlib
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from dfi._data import source
from dfi._files import is_pattern
from dfi._streams.files import Files, as_it_is, find_files, kind_told, parquet_batches
from dfi.cli.columns import as_classes, as_meant, require_column
from dfi.cli.console import Failure, Terminated, Unreadable, is_panic
from dfi.cli.delimited import Spelling, decoded, read_delimited
from dfi.warnings import DFIWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dfi._types import Native

ENDINGS = {
    "csv": ("csv", "txt"),
    "tsv": ("tsv", "tab"),
    "parquet": ("parquet", "pq"),
    "arrow": ("arrow", "feather", "ipc"),
    "jsonl": ("jsonl", "ndjson"),
}
FORMATS = {ending: kind for kind, endings in ENDINGS.items() for ending in endings}
TYPED = ("parquet", "arrow")
"""Formats whose columns have types: text is text in them."""

STREAMED_BYTES = 2**28
"""The size of a Parquet file on disk beyond which it is read in parts."""

FREE_BYTES = 1 << 24
"""Bytes that a compressed file of any size may hold, unless ``--max-unpacked`` says otherwise."""

RATIO = 20
"""Further bytes for each byte of the file: tables of numbers shrink to a fifth or a tenth."""

_NAMES = {
    "csv": "CSV", "tsv": "TSV", "jsonl": "JSON lines", "parquet": "Parquet", "arrow": "Arrow"
}  # fmt: skip
_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


def read_file(
    path: str,
    *,
    file_format: str | None = None,
    spelling: Spelling | None = None,
    max_unpacked: int | None = None,
    na_values: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> pl.DataFrame:
    label = "standard input" if path == "-" else path
    content = _content(path, label, max_unpacked)
    if not content.strip():
        raise Unreadable(f"{label} is empty")
    kind = _format(path, file_format, content, label)
    _refuse_other_kinds(kind, content, label)
    with (
        _readable(f"{label} cannot be read as {_NAMES[kind]}: "),
        _quietly(),
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always", DFIWarning)
        frame = _READERS[kind](content, label, spelling or Spelling())
    # nobody would have seen them there
    for warning in said:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if frame.width == 0 or frame.height == 0:
        raise Unreadable(f"{label} has no {'columns' if frame.width == 0 else 'rows'}")
    for name in categorical:
        require_column(frame.columns, name, "--categorical")
    decided = kind in TYPED or (spelling is not None and spelling.levels)
    comma = spelling is not None and spelling.decimal == ","
    return frame.with_columns(
        as_classes(column, set(na_values))
        if column.name in categorical
        else as_meant(column, set(na_values), decided=decided, comma=comma)
        for column in frame.get_columns()
    )


def scan_files(path: str, *, file_format: str | None = None) -> pl.LazyFrame | None:
    """Return large Parquet files, folders and patterns as parts; None if read whole."""
    several = is_pattern(path) or Path(path).is_dir()
    parquet = Path(path).suffix.lower() in (".parquet", ".pq")
    if not several and (not parquet or file_format is not None or not Path(path).is_file()):
        return None
    if not several and Path(path).stat().st_size <= STREAMED_BYTES:
        return None
    with _readable("", f"{path} cannot be read: "):
        files = find_files(path)
        other = next((f for f in files if f.suffix.lower() not in (".parquet", ".pq")), None)
        if other is not None:
            raise Unreadable(f"{other} is not a Parquet file: several inputs must all be Parquet")
        with _quietly():
            Files.open(files)
            # one pass more over the bytes, a twentieth of what the others take
            for file in files:
                try:
                    _require_sound_parquet(as_it_is(file))
                except (OSError, ValueError, MemoryError) as error:
                    told = str(error).strip().split("\n")[0]
                    raise Unreadable(f"{file} is damaged: {told}") from error
            names = [as_it_is(file) for file in files]
            frame = pl.scan_parquet(names, glob=False, hive_partitioning=False)
            rows = int(frame.select(pl.len()).collect().item())
    if rows == 0:
        raise Unreadable(f"{path} has no rows")
    return None if not several and rows <= source.LARGE_ROWS else frame


@contextmanager
def _readable(what: str, damaged: str = "") -> Iterator[None]:
    """Make readers fail in one sentence that begins with ``what``, or ``damaged`` for a panic."""
    try:
        yield
    except (Failure, KeyboardInterrupt, Terminated, SystemExit):
        raise
    # damaged files make readers raise almost anything, and those in Rust what is no Exception
    except BaseException as error:
        reason = str(error).strip().split("\n")[0].strip().rstrip(".") or type(error).__name__
        if is_panic(error):
            what, reason = damaged or what, f"it is damaged ({reason})"
        raise Unreadable(f"{what}{reason}") from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep a Rust panic, printed past Python, off standard error."""
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
                raise Unreadable(
                    f"{path} is a pipe or a device, not a file: read it as standard input, "
                    f"dfi ... - < {path}"
                )
            content = Path(path).read_bytes()
        except FileNotFoundError:
            raise Unreadable(f"there is no file {path}") from None
        except IsADirectoryError:
            raise Unreadable(f"{path} is a folder; give the name of a file") from None
        except PermissionError:
            raise Unreadable(f"{path} may not be read: permission denied") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise Unreadable(f"{path} cannot be read: {reason}") from None
    packed = kind_told(content)
    return _unpacked(content, packed, label, max_unpacked) if packed in _UNPACKERS else content


def _open_zstd(stream: io.BytesIO) -> Native:
    return importlib.import_module("pyarrow").CompressedInputStream(stream, "zstd")


_UNPACKERS: dict[str, Callable[[io.BytesIO], Native]] = {
    "gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open, "zstd": _open_zstd
}  # fmt: skip


def _unpacked(content: bytes, packed: str, label: str, max_unpacked: int | None) -> bytes:
    most = FREE_BYTES + RATIO * len(content) if max_unpacked is None else max_unpacked * 10**6
    try:
        with _UNPACKERS[packed](io.BytesIO(content)) as stream:
            unpacked: bytes = stream.read(most + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        raise Unreadable(f"{label} is a damaged {packed} file") from None
    if len(unpacked) > most:
        raise Unreadable(
            f"{label} has {len(content):,} bytes and unpacks to more than {most:,}: if you trust "
            "whoever made it, say how many megabytes it may take with --max-unpacked"
        )
    return unpacked


def _format(path: str, file_format: str | None, content: bytes, label: str) -> str:
    if file_format is not None:
        if file_format.lower() not in FORMATS:
            known = ", ".join(sorted(set(FORMATS)))
            raise Unreadable(f"unknown format {file_format!r}; known are {known}")
        return FORMATS[file_format.lower()]
    suffixes = [suffix.lstrip(".").lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in ("gz", "bz2", "xz", "zst", "zstd"):
        suffixes.pop()
    if suffixes and suffixes[-1] in FORMATS:
        return FORMATS[suffixes[-1]]
    if suffixes and suffixes[-1] in ("xls", "xlsx", "ods"):
        raise Unreadable(f"{label} is a spreadsheet; save it as CSV first")
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
        raise Unreadable(
            f"{label} is a zip archive, as spreadsheets (.xlsx) are: save it as CSV first"
        )
    told = kind_told(content)
    fits = {"Parquet": "parquet", "Arrow": "arrow", "Arrow stream": "arrow"}.get(told)
    if told == "text" and kind in TYPED:
        remedy = "say what it is with --format, for instance --format csv"
        raise Unreadable(f"{label} cannot be read as {_NAMES[kind]}, it is text: {remedy}")
    if fits is not None and fits != kind:
        remedy = f"say so with --format {fits}"
        raise Unreadable(f"{label} is {told} and read as {_NAMES[kind]}: {remedy}")


def _read_parquet(content: bytes, _label: str, _spelling: Spelling) -> pl.DataFrame:
    _require_sound_parquet(io.BytesIO(content))
    return pl.read_parquet(io.BytesIO(content))


def _read_arrow(content: bytes, label: str, _spelling: Spelling) -> pl.DataFrame:
    if content.startswith(b"FEA1"):
        raise Unreadable(f"{label} is Feather version 1; write it as version 2")
    _require_sound(content)
    if content.startswith(_ARROW):
        return pl.read_ipc(io.BytesIO(content))
    return pl.read_ipc_stream(io.BytesIO(content))


def _require_sound_parquet(file: io.BytesIO | str) -> None:
    try:
        for _ in parquet_batches(file):
            pass
    except NotImplementedError:  # an encoding that pyarrow does not have
        pass


def _require_sound(content: bytes) -> None:
    """Raise where an Arrow file contradicts itself: polars would allocate what it claims."""
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
    text = decoded(content, label, written.encoding)
    if text.lstrip().startswith(b"["):
        raise Unreadable(
            f"{label} is a JSON array: write one object per line (JSON lines), for instance with "
            "jq -c '.[]'"
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
        raise Unreadable(
            f"{label}: the column name {error.args[0]!r} appears more than once"
        ) from None
    except (ValueError, RecursionError):
        return  # the reader says what is wrong


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise KeyError(key)
        found[key] = value
    return found


def _refuse_lines(text: bytes, label: str) -> None:
    """Raise for the first line that is not a JSON object, and say why."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON: write null for a missing value")

    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line, parse_constant=refuse)
            reason = "" if isinstance(found, dict) else "it is not an object {...}"
        except (ValueError, RecursionError) as error:
            reason = str(error)
        if reason:
            raise Unreadable(
                f"{label}: line {number} is not JSON lines, one object per line: {reason}"
            )


_READERS: dict[str, Callable[[bytes, str, Spelling], pl.DataFrame]] = {
    "csv": partial(read_delimited, ","),
    "tsv": partial(read_delimited, "\t"),
    "parquet": _read_parquet,
    "arrow": _read_arrow,
    "jsonl": _read_jsonl,
}


def read_groups_file(path: str) -> pl.DataFrame | dict[str, list[str]]:
    if path.lower().endswith(".json"):
        try:
            members = json.loads(_content(path, path, None), object_pairs_hook=_unique)
        except KeyError as error:
            raise Unreadable(f"{path} has the group {error.args[0]!r} twice; rename one") from None
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"{path} is not JSON: {error}") from None
        if not isinstance(members, dict):
            raise Unreadable(f"{path} must be a JSON object of groups and their features")
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
