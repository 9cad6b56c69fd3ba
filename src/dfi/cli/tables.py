"""Tables from files or standard input: CSV, TSV, Parquet, Arrow, Feather, JSON lines; gzip."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from dfi.cli.failures import INPUT, Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS = {
    "csv": "csv",
    "txt": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
}
MISSING = ["NA", "N/A", "null", "NULL"]
_GZIP, _PARQUET, _ARROW, _STREAM = b"\x1f\x8b", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


def read_file(
    path: str, *, file_format: str | None = None, encoding: str = "utf-8"
) -> pl.DataFrame:
    """Read a table.

    Parameters
    ----------
    path : str
        A file, or ``-`` for standard input.
    file_format : str, optional
        One of csv, tsv, parquet, arrow (feather), jsonl; by default told from the name, then from
        the first bytes.
    encoding : str
        Encoding of CSV and TSV.
    """
    label = "standard input" if path == "-" else path
    content = _content(path, label)
    if not content.strip():
        raise Failure(f"{label} is empty", INPUT)
    found = _format(path, file_format, content, label)
    try:
        frame: pl.DataFrame = _READERS[found](content, label, encoding)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        kind = "Arrow" if found == "arrow" else found.upper()
        raise Failure(f"{label} cannot be read as {kind}: {_first_line(error)}", INPUT) from error
    if frame.width == 0 or frame.height == 0:
        raise Failure(f"{label} has no {'columns' if frame.width == 0 else 'rows'}", INPUT)
    return frame


def _content(path: str, label: str) -> bytes:
    if path == "-":
        content = sys.stdin.buffer.read()
    else:
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError:
            raise Failure(f"there is no file {path}", INPUT) from None
        except IsADirectoryError:
            raise Failure(f"{path} is a folder; give the name of a file", INPUT) from None
        except PermissionError:
            raise Failure(f"{path} may not be read: permission denied", INPUT) from None
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror or error}", INPUT) from None
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            raise Failure(f"{label} is a damaged gzip file", INPUT) from None
    return content


def _format(path: str, file_format: str | None, content: bytes, label: str) -> str:
    if file_format is not None:
        if file_format.lower() not in FORMATS:
            known = ", ".join(sorted(set(FORMATS)))
            raise Failure(f"unknown format {file_format!r}; known are {known}", INPUT)
        return FORMATS[file_format.lower()]
    suffixes = [suffix.lstrip(".").lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] == "gz":
        suffixes.pop()
    if suffixes and suffixes[-1] in FORMATS:
        return FORMATS[suffixes[-1]]
    if suffixes and suffixes[-1] in ("xls", "xlsx", "ods"):
        raise Failure(f"{label} is a spreadsheet; save it as CSV first", INPUT)
    for magic, found in ((_PARQUET, "parquet"), (_ARROW, "arrow"), (_STREAM, "arrow")):
        if content.startswith(magic):
            return found
    start = content[:4096].lstrip()
    if start.startswith(b"{"):
        return "jsonl"
    first = start.split(b"\n", 1)[0]
    return "tsv" if first.count(b"\t") > first.count(b",") else "csv"


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0].strip().rstrip(".") or type(error).__name__


def _decoded(content: bytes, label: str, encoding: str) -> bytes:
    """Return text as UTF-8 without a byte order mark."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) and encoding == "utf-8":
        encoding = "utf-16"
    try:
        text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
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


def _read_delimited(separator: str) -> Any:
    def read(content: bytes, label: str, encoding: str) -> pl.DataFrame:
        text = _decoded(content, label, encoding)
        header = next(_rows(text, separator), (0, []))[1]
        _check_header(header, label)
        other = next((mark for mark in ";\t|" if len(header) == 1 and mark in header[0]), None)
        if other is not None and other != separator:
            raise Failure(
                f"{label} seems to be separated by {other!r}, not by {separator!r}: "
                + ("read it with --format tsv" if other == "\t" else "save it with commas first"),
                INPUT,
            )
        try:
            frame = pl.read_csv(
                text,
                separator=separator,
                infer_schema_length=None,
                null_values=MISSING,
                try_parse_dates=True,
            )
        except pl.exceptions.PolarsError:
            _refuse_ragged(text, separator, len(header), label)
            raise
        # polars fills short lines with missing values: they would show in the last column
        if frame.height and frame[:, -1].null_count():
            _refuse_ragged(text, separator, len(header), label)
        return frame

    return read


def _rows(text: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    stream = io.TextIOWrapper(io.BytesIO(text), encoding="utf-8", newline="")
    reader = csv.reader(stream, delimiter=separator)
    for row in reader:
        yield reader.line_num, row


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
    for line, row in _rows(text, separator):
        if row and len(row) != width:
            raise Failure(
                f"{label}: line {line} has {len(row)} fields where the header has {width}", INPUT
            )


def _read_parquet(content: bytes, _label: str, _encoding: str) -> pl.DataFrame:
    return pl.read_parquet(io.BytesIO(content))


def _read_arrow(content: bytes, label: str, _encoding: str) -> pl.DataFrame:
    if content.startswith(b"FEA1"):
        raise Failure(f"{label} is Feather version 1; write it as version 2", INPUT)
    if content.startswith(_ARROW):
        return pl.read_ipc(io.BytesIO(content))
    return pl.read_ipc_stream(io.BytesIO(content))


def _read_jsonl(content: bytes, label: str, encoding: str) -> pl.DataFrame:
    return pl.read_ndjson(_decoded(content, label, encoding), infer_schema_length=None)


_READERS: dict[str, Any] = {
    "csv": _read_delimited(","),
    "tsv": _read_delimited("\t"),
    "parquet": _read_parquet,
    "arrow": _read_arrow,
    "jsonl": _read_jsonl,
}
