"""Turn everyday columns into numbers and levels: marked numbers, dates, many levels.

Nothing is guessed: what could be read in two ways is refused with the options that decide.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from typing import TYPE_CHECKING

import narwhals as nw
import polars as pl

from dfi._data.everyday import are_classes, forms_of_dates, read_number, read_numbers
from dfi._data.text import find_dates, find_numbers, spelling
from dfi.cli.console import ColumnsRefused, Refusals, Refused
from dfi.cli.options import Decimal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfi.cli.console import Console
    from dfi.cli.options import Request

MISSING = [
    *("NA", "N/A", "n/a", "null", "NULL", "nan", "NaN", "NAN", "-nan", "-NaN"),
    *("#N/A", "#NA", "<NA>", "#N/A N/A"),
]
"""Marks of a missing value in every column."""

MISSING_NUMBERS = {"", "none", "?", "-", "--", ".", "..", "*"}
"""Further marks in otherwise numeric columns, in lower case; elsewhere they are levels."""

POOLED = "(other)"

_EXPONENT = r"(?:[eE][+-]?\d+)?"


def _plain(decimal: Decimal) -> re.Pattern[str]:
    mark = r"\." if decimal == "." else ","
    return re.compile(rf"[+\-−]?(?:\d+(?:{mark}\d*)?|{mark}\d+){_EXPONENT}")


_THOUSANDS = re.compile(r"[+\-−]?(?:\d{1,3}(?:,\d{3})*|\d+)")


def _values(column: pl.Series) -> list[str]:
    return [str(value) for value in column.drop_nulls().unique().to_list()]


def _converted(column: pl.Series, decimal: Decimal) -> pl.Series | None:
    numbers = {value: read_number(value, decimal) for value in _values(column)}
    if not numbers or any(number is None for number in numbers.values()):
        return None
    return column.replace_strict(numbers, return_dtype=pl.Float64)


def _holds(values: Sequence[str], pattern: re.Pattern[str]) -> bool:
    return bool(values) and all(pattern.fullmatch(value.strip()) for value in values)


def with_numbers(
    frame: pl.DataFrame, features: Sequence[str], request: Request, console: Console
) -> pl.DataFrame:
    """Read texts that are numbers, or refuse those with marks, as ``--numbers`` says."""
    if request.numbers == "text":
        return frame
    read: list[pl.Series] = []
    refusals = Refusals()
    for name in frame.columns:
        with refusals.of(name):
            found = _with_numbers(frame[name], request, feature=name in features)
            if found is not None:
                read.append(found)
    refusals.raise_any()
    if read:
        console.say(f"read as numbers: {', '.join(column.name for column in read)}")
    return frame.with_columns(read) if read else frame


def _with_numbers(column: pl.Series, request: Request, *, feature: bool) -> pl.Series | None:
    if column.dtype != pl.String:
        return None
    name, values = column.name, _values(column)
    if _holds(values, _plain(request.decimal)):  # with spaces around them, or decimal commas
        return _converted(column, request.decimal)
    if request.numbers == "marked":
        _refuse_two_scales(name, values, request.decimal)
        return _converted(column, request.decimal)
    if request.decimal == ".":
        numbers = read_numbers(nw.from_native(column, series_only=True), feature=feature)
        if numbers is not None:
            return pl.Series(name, numbers, nan_to_null=True)
    _refuse_marks(name, values, request.decimal)
    return None


def _refuse_two_scales(name: str, values: Sequence[str], decimal: Decimal) -> None:
    if any(read_number(value, decimal) is None for value in values):
        return
    percent = [value for value in values if "%" in value]
    plain = [value for value in values if "%" not in value]
    if percent and [value for value in plain if read_number(value, decimal)]:
        raise Refused(
            f"column {name!r} has {percent[0]!r} and {plain[0]!r}: numbers with and without a "
            "percent sign have different scales; write them alike, or leave the column out with "
            "--drop"
        )


def _refuse_marks(name: str, values: Sequence[str], decimal: Decimal) -> None:
    other: Decimal = "," if decimal == "." else "."
    text = "keep them as levels with --numbers text"
    if _holds(values, _THOUSANDS) and decimal == ".":
        example = min(value for value in values if "," in value)
        raise Refused(
            f"column {name!r} has texts such as {example!r}: thousands are read with "
            f"--numbers marked, decimal commas with --decimal ','; or {text}"
        )
    if _holds(values, _plain(other)):
        marks = "commas" if other == "," else "points"
        raise Refused(
            f"column {name!r} has decimal {marks} ({min(values)!r}): read them with "
            f"--decimal '{other}', or {text}"
        )
    for mark in (decimal, other):
        if values and all(read_number(value, mark) is not None for value in values):
            more = "" if mark == decimal else f" --decimal {mark}"
            marked = min(value for value in values if not _holds([value], _plain(mark)))
            raise Refused(
                f"column {name!r} has numbers with marks ({marked!r}): read them with "
                f"--numbers marked{more}, or {text}"
            )


def is_time(dtype: pl.DataType) -> bool:
    return dtype.is_temporal()


def days(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return dates as days since 1970, durations as days, times as hours since midnight."""
    column = pl.col(name)
    if dtype == pl.Date:
        return column.cast(pl.Int32).alias(name)
    if dtype == pl.Time:
        return (column.cast(pl.Int64) / 3.6e12).alias(name)
    if dtype == pl.Duration:
        return (column.dt.total_microseconds() / 8.64e10).alias(name)
    return (column.dt.epoch("us") / 8.64e10).alias(name)


def _parts(name: str, column: pl.Series) -> dict[str, pl.Series]:
    """Return the parts of dates that vary; of durations and times, which have none, the number."""
    if column.dtype in (pl.Time, pl.Duration):
        number = column.to_frame().select(days(name, column.dtype))[name]
        return {name: number}
    kinds = ["year", "month", "day", "weekday"]
    if column.dtype != pl.Date:
        kinds += ["hour", "minute"]
    found = {f"{name} {kind}": getattr(column.dt, kind)().cast(pl.Int32) for kind in kinds}
    varying = {key: part for key, part in found.items() if part.drop_nulls().n_unique() > 1}
    return {key: part.alias(key) for key, part in (varying or dict([*found.items()][:1])).items()}


def with_dates(
    frame: pl.DataFrame, names: Sequence[str], request: Request, console: Console
) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Turn dates into numbers as ``--dates`` says; return the parts of each."""
    blocks: dict[str, list[str]] = {}
    if request.dates is None:
        return frame, blocks
    refusals, read = Refusals(), []
    for name in names:
        with refusals.of(name):
            found = read_dates(frame[name])
            if found is not None:
                read.append(found)
            elif frame.schema[name] == pl.String:
                _refuse_mixed_dates(frame[name])
    refusals.raise_any()
    frame = frame.with_columns(read)
    times = [name for name in names if is_time(frame.schema[name])]
    if not times:
        console.warn(f"--dates {request.dates}: no column holds dates or times")
        return frame, blocks
    if request.dates == "drop":
        console.say(f"left out: {', '.join(map(repr, times))}")
        return frame.drop(times), blocks
    if request.dates == "days":
        frame = frame.with_columns([days(name, frame.schema[name]) for name in times])
        console.say(f"as days since 1970-01-01: {', '.join(map(repr, times))}")
        return frame, blocks
    columns: list[pl.Series] = []
    for name in frame.columns:
        if name not in times:
            columns.append(frame[name])
            continue
        parts = _parts(name, frame[name])
        taken = [part for part in parts if part in frame.columns and part != name]
        if taken:
            raise Refused(
                f"--dates parts would make a column {taken[0]!r} of {name!r}, but that name "
                "exists already: rename it, or use --dates days"
            )
        columns += parts.values()
        blocks[name] = list(parts)
        console.say(f"{name!r} by its parts, one unit: {', '.join(parts)}")
    return pl.DataFrame(columns), blocks


def read_dates(column: pl.Series) -> pl.Series | None:
    """Return texts as dates in UTC, None if they are none; raise if two ways read them."""
    if column.dtype != pl.String or column.null_count() == len(column):
        return None
    texts = _values(column)
    found = forms_of_dates(texts)
    if len(found) > 1:
        forms = ", ".join(re.sub(r"%(.)", lambda m: _LETTERS[m[1]], form) for form in found)
        example = column.drop_nulls()[0]
        raise Refused(
            f"column {column.name!r} has dates such as {example!r}, which may be read as {forms}: "
            "write them as YYYY-MM-DD, or leave the column out with --drop"
        )
    for moments in found.values():
        plain = [moment.astimezone(dt.UTC).replace(tzinfo=None) for moment in moments]
        read = dict(zip(texts, plain, strict=True))
        instants = column.replace_strict(read, return_dtype=pl.Datetime)
        return instants if any(re.search("[T:]", text) for text in texts) else instants.dt.date()
    return None


def _refuse_mixed_dates(column: pl.Series) -> None:
    """Raise for texts that are dates, each in some way, and that no one way reads."""
    dates = find_dates(column.drop_nulls().to_list())
    if dates is not None and dates.odd is None:
        raise Refused(
            f"column {column.name!r} has dates in different formats, such as {dates.example!r}: "
            "write them as YYYY-MM-DD, or leave the column out with --drop"
        )


_LETTERS = {
    "Y": "YYYY", "y": "YY", "m": "MM", "d": "DD", "H": "hh", "I": "hh", "M": "mm", "S": "ss",
    "p": "AM",
}  # fmt: skip


def with_fewer_levels(
    frame: pl.DataFrame, names: Sequence[str], request: Request, console: Console
) -> pl.DataFrame:
    limit = request.max_levels
    if limit is None:
        return frame
    pooled: list[pl.Series] = []
    for name in names:
        column = frame[name]
        if column.dtype not in (pl.String, pl.Categorical, pl.Enum):
            continue
        texts = column.cast(pl.String)
        counts = texts.drop_nulls().value_counts().sort(["count", name], descending=[True, False])
        if counts.height <= limit:
            continue
        kept = counts[name].head(limit - 1)
        if POOLED in kept:
            raise Refused(
                f"--max-levels would make a level {POOLED!r} of {name!r}, which has one of that "
                "name already: rename it"
            )
        common = texts.is_null() | texts.is_in(kept.implode())
        often = [int(count) for count in counts["count"].to_list()]
        share = sum(often[limit - 1 :]) / sum(often)
        console.warn(
            f"{name!r}: of {counts.height:,} levels, the {limit - 1:,} most frequent are kept; "
            f"the others ({100 * share:.2g} % of the rows) are merged into {POOLED!r}"
        )
        other = pl.Series([POOLED]).new_from_index(0, len(texts))
        pooled.append(texts.zip_with(common, other).alias(name))
    return frame.with_columns(pooled) if pooled else frame


def block_groups(
    features: Sequence[str], blocks: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    owner = {part: name for name, parts in blocks.items() for part in parts}
    groups: dict[str, list[str]] = {}
    for feature in features:
        groups.setdefault(owner.get(feature, feature), []).append(feature)
    return groups


def as_classes(column: pl.Series, na_values: set[str]) -> pl.Series:
    return _with_gaps(column.cast(pl.String), na_values).cast(pl.Categorical)


def as_meant(column: pl.Series, na_values: set[str], *, decided: bool, comma: bool) -> pl.Series:
    """Return a column with blanks stripped, missing values marked, and numbers as numbers."""
    if column.dtype != pl.String:
        if not na_values or not column.dtype.is_numeric():
            return column
        absent = [number for number in map(_number, na_values) if number is not None]
        return column.set(column.is_in(absent), None) if absent else column
    column = _with_gaps(column, na_values)
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
    return numbers if spelt and all(spelling(text) is not None for text in spelt) else bare


def meant_lazily(name: str, dtype: pl.DataType, na_values: set[str], *, classes: bool) -> pl.Expr:
    """Return a column of a table in parts as :func:`as_meant` does one with a type."""
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


def _with_gaps(column: pl.Series, na_values: set[str]) -> pl.Series:
    bare = column.str.strip_chars()
    return column.set(bare.is_in(sorted({*MISSING, *na_values})), None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def text_features(features: pl.DataFrame, request: Request) -> pl.DataFrame:
    """Return features with text that is not a number or should be levels; raise for other text."""
    levels: list[pl.Series] = []
    reasons: dict[str, str] = {}
    for column in features.get_columns():
        if column.dtype != pl.String:
            continue
        texts = column.drop_nulls().to_list()
        found = find_numbers(texts)
        if found is None or are_classes(texts):
            continue
        if request.numbers == "text":
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


def require_column(columns: Sequence[str], name: str, option: str) -> None:
    if name in columns:
        return
    if len(columns) == 1 and name.lower() in columns[0].lower():
        raise Refused(
            f"{option}: there is no column {name!r}; the only column is {columns[0]!r}: separate "
            "fields by commas, semicolons, tabs or |"
        )
    bare = name.strip().lower()
    by_case = [column for column in columns if column.strip().lower() == bare]
    close = by_case or difflib.get_close_matches(name, columns, n=3)
    listed = close or columns[:10]
    lead = "did you mean" if close else "the columns are"
    end = "?" if close else ", ..." if len(columns) > len(listed) else ""
    raise Refused(
        f"{option}: there is no column {name!r}; {lead} {', '.join(map(repr, listed))}{end}"
    )
