"""CSV and TSV as people write them: separators, headers, ragged lines, codes, dates.

polars reads the fields; what it would read silently as something else is found or refused here.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from dfi._streams.files import SEPARATOR_LINE, kind_told
from dfi.cli.columns import MISSING, read_dates
from dfi.cli.console import Failure, Unreadable
from dfi.cli.options import Decimal, Request, split_names
from dfi.warnings import IdentifierWarning, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


SEPARATORS = ",;\t|"
ROWS_OF_CODES = 1000
"""Rows that are looked at for leading zeros."""

_CODE = re.compile(r"\s*0\d")
_MISTAKEN = re.compile(r"could not parse `.*` as dtype `.*` at column '(.*)' \(column number \d+\)")


@dataclass(frozen=True)
class Spelling:
    """How texts are written: their encoding, and what stands before a fraction."""

    encoding: str = "utf-8"
    decimal: Decimal = "."
    without: tuple[str, ...] = ()
    levels: bool = False
    named: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: Request) -> Spelling:
        without = tuple(split_names(request.drop))
        levels = request.numbers == "text"
        roles = filter(None, request.roles.values())
        named = {*without, *split_names(request.categorical), *roles}
        return cls(request.encoding, request.decimal, without, levels, tuple(named))


def decoded(content: bytes, label: str, encoding: str) -> bytes:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) and encoding == "utf-8":
        encoding = "utf-16"
    try:
        text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        if not kind_told(content):
            raise Unreadable(
                f"{label} is neither text nor a format that dfi reads: write it as CSV or Parquet"
            ) from None
        raise Unreadable(
            f"{label} is not {encoding.upper()} (line {line}); say what it is with --encoding, "
            "for instance --encoding latin-1 (Excel in Western Europe)"
        ) from None
    except LookupError:
        raise Unreadable(f"there is no encoding called {encoding!r}") from None
    if encoding == "utf-8":
        return content.removeprefix(b"\xef\xbb\xbf")
    return text.encode("utf-8")


def read_delimited(own: str, content: bytes, label: str, written: Spelling) -> pl.DataFrame:
    text = decoded(content, label, written.encoding)
    if b"\0" in text:
        line = text[: text.index(b"\0")].count(b"\n") + 1
        raise Unreadable(
            f"{label} is not text (line {line} has NUL bytes): say how it is encoded with "
            "--encoding, for instance --encoding utf-16, or what it is with --format"
        )
    if b"\r" in text and b"\n" not in text:
        # lines of old spreadsheets end in CR alone
        text = text.replace(b"\r", b"\n")
    separator = _separator(text, own, label)
    lines, header = next(_rows(text, separator, label), (0, []))
    if (named := _distinct_names(header)) != header:
        text = _with_header(text, lines, named, separator)
        header = named
    try:
        frame = _read_csv(text, separator)
        if written.decimal == ",":
            # a point would have been read as a decimal one: what it is, is decided later
            fractions = [name for name, dtype in frame.schema.items() if dtype.is_float()]
            frame = _read_csv(text, separator, dict.fromkeys(fractions, pl.String()))
        frame = _with_sure_dates(frame, text, separator, written.without)
    except pl.exceptions.PolarsError:
        _refuse_ragged(text, separator, len(header), label)
        raise
    # polars fills short lines with missing values: they would show in the last column
    if frame.height and frame[:, -1].null_count():
        _refuse_ragged(text, separator, len(header), label)
    if spelt := _codes(frame, text, separator, label, written.named):
        name, code = next(iter(spelt.items()))
        codes = _read_csv(text, separator, dict.fromkeys(spelt, pl.String())).select(list(spelt))
        frame = frame.with_columns(codes.select(pl.all().cast(pl.Categorical)))
        warn(
            f"column {name!r} has leading zeros ({code!r}), as codes have: it is a category",
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
    """Infer the types of fields; read them as text where inference fails."""
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
    """Return the separator that gives the header most fields, and the first lines as many."""
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
        raise Unreadable(
            f"{label}: line {reader.line_num + 1} cannot be read ({error}): are names and values "
            "separated, and quotes closed?"
        ) from None


def _distinct_names(header: list[str]) -> list[str]:
    """Return names with empty and repeated ones numbered, and warn; row labels come nameless."""
    counts = Counter(header)
    named: list[str] = []
    for position, name in enumerate(header):
        base, number = name if name.strip() else f"Unnamed: {position}", 0
        new, twice = base, base == name and counts[name] > 1
        while (twice and new == name) or (new != name and new in (*header, *named)):
            number += 1
            new = f"{base}.{number}"
        named.append(new)
    told = [
        f"column {k + 1} is {new!r}"
        for k, new in enumerate(named)
        if new != header[k] and header[k].strip()
    ]
    if told:
        warn(f"names that appear more than once are numbered: {', '.join(told)}", IdentifierWarning)
    return named


def _with_header(text: bytes, lines: int, names: Sequence[str], separator: str) -> bytes:
    before = 1 if SEPARATOR_LINE.match(text) else 0
    parts = text.split(b"\n", lines)
    header = io.StringIO()
    csv.writer(header, delimiter=separator, lineterminator="\n").writerow(names)
    return b"\n".join([*parts[:before], header.getvalue()[:-1].encode(), *parts[lines:]])


def _refuse_ragged(text: bytes, separator: str, width: int, label: str) -> None:
    before = 0
    for line, row in _rows(text, separator, label):
        if row and len(row) != width:
            found = f"{len(row)} field{'s' * (len(row) != 1)} where the header has {width}"
            if line > before + 1:
                raise Unreadable(
                    f"{label}: lines {before + 1} to {line} are one row in quotes, with {found}: "
                    f"close the quote that opens in line {before + 1}"
                )
            above = ": delete what stands above the names of the columns" * (width == 1)
            raise Unreadable(f"{label}: line {line} has {found}{above}")
        before = line
