"""Columns of a raw frame with one sensible reading: dates, numbers as text, identifiers.

Such a column is read that way, and the result says so in one line. What could be read in two ways
stays as it is: :mod:`dfi._data.table` refuses it, with the way out.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import narwhals as nw
import numpy as np

from dfi._data.columns import is_missing
from dfi._data.frames import is_stored_index, is_table, open_frame
from dfi._data.text import MISSING_MARKS, find_dates, find_numbers, is_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dfi._types import Floats, Frame, Native

Identifiers = Literal["drop", "error"]
"""What becomes of columns that name the rows."""

FEWEST_IDENTIFIED = 21
"""Rows from which whole numbers, another in each, look like a count of them."""

NAMES_ROWS = re.compile(r"(?:^|[\W_])(?:id|ids|uid|uuid|guid|rowid|row|index|idx|nr)$", re.I)
"""Names of columns that name the rows."""

_IDENTIFIER_LEVELS = 20
_DAY = dt.timedelta(days=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TEXT_DATES = tuple(
    day + time
    for day in ("%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y")
    for time in ("", " %H:%M", " %H:%M:%S")
)
_GAPS = frozenset(
    mark
    for mark in MISSING_MARKS
    if not mark.lstrip("+-#").startswith(("inf", "value", "div", "ref"))
)
_PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:(?:,\d{3})+\.\d+|(?:,\d{3}){2,})")
_CURRENCY = "$€£¥₹"


@dataclass(frozen=True)
class Everyday:
    """What was done to the columns of a raw frame, by name, and to rows without an outcome."""

    days: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0

    def read(self, X: Frame) -> Frame:
        """Return another frame with the same columns read in the same way."""
        opened = open_frame(X) if is_table(X) and (self.days or self.numbers) else None
        if opened is None and not (self.left_out and is_table(X)):
            return X
        _, labels, columns, _ = opened or open_frame(X) or ("", [], [], None)
        new: dict[int, Floats] = {}
        for place, label in enumerate(labels):
            reader = _days if str(label) in self.days else read_numbers
            if str(label) in (*self.days, *self.numbers):
                values = reader(columns[place])
                if values is not None:
                    new[place] = values
        gone = {place for place, label in enumerate(labels) if str(label) in self.left_out}
        return _rebuilt(X, new, gone)

    def spec(self) -> dict[str, object]:
        """Return the facts for a result's specification; empty where nothing was done."""
        facts = {
            "days": list(self.days),
            "numbers": list(self.numbers),
            "left_out": dict(self.left_out),
            "rows_without_outcome": self.rows,
        }
        return {name: fact for name, fact in facts.items() if fact}


NOTHING = Everyday()
"""Of a table that is read as it stands."""


def names_rows(n_observed: int, n_rows: int) -> bool:
    """Return whether a category of so many values names the rows, or is free text."""
    return n_observed > max(_IDENTIFIER_LEVELS, n_rows / 2)


def read_everyday(X: Frame, identifiers: Identifiers) -> tuple[Frame, Everyday]:
    """Return a frame without its identifiers, dates as days and text as the numbers that it is."""
    opened = open_frame(X) if is_table(X) else None
    if opened is None:
        return X, Everyday()
    _, labels, columns, _ = opened
    new: dict[int, Floats] = {}
    days: list[str] = []
    numbers: list[str] = []
    left_out: dict[str, str] = {}
    for place, (label, column) in enumerate(zip(labels, columns, strict=True)):
        name = str(label)
        values, names = _days(column), days
        if values is None:
            values, names = read_numbers(column), numbers
        if values is not None:
            new[place] = values
            names.append(name)
        elif identifiers == "drop" and (why := _why_identifier(name, column)):
            left_out[name] = why
    if len(left_out) == len(labels):  # nothing would be left: reading them says what is wrong
        left_out = {}
    gone = {place for place, label in enumerate(labels) if str(label) in left_out}
    return _rebuilt(X, new, gone), Everyday(tuple(days), tuple(numbers), left_out)


def missing_rows(column: Native) -> np.ndarray:
    """Return which rows of a column lack a value."""
    series = nw.from_native(column, series_only=True)
    gaps = series.is_null()
    if series.dtype.is_float():
        gaps = gaps | series.is_nan()
    return np.asarray(gaps.fill_null(value=True).to_numpy(), dtype=bool)


def without_rows(X: Frame, gone: np.ndarray) -> Frame:
    """Return a frame without some of its rows."""
    if nw.dependencies.is_pandas_dataframe(X):
        return X.iloc[~gone]
    return nw.from_native(X, eager_only=True).filter((~gone).tolist()).to_native()


def _why_identifier(name: str, column: nw.Series[Native]) -> str:
    """Return why a column is an identifier, empty where it is none or may mean something."""
    kind, n = column.dtype, len(column)
    if kind in (nw.String, nw.Categorical, nw.Enum, nw.Object):
        texts = [cell for cell in _distinct(column) if isinstance(cell, str)]
        if not names_rows(len(texts), n) or find_numbers(texts) or find_dates(texts):
            return ""  # what was meant as numbers or dates is refused, with the way out
        return f"{len(texts)} different texts in {n} rows"
    if not kind.is_integer() or n < FEWEST_IDENTIFIED or column.null_count():
        return ""
    least, most = int(column.min()), int(column.max())
    counts = most - least == n - 1 and least in (0, 1)
    if (counts or NAMES_ROWS.search(name)) and column.n_unique() == n:
        return "another whole number in each row"
    return ""


def _days(column: nw.Series[Native]) -> Floats | None:
    """Return dates as days since 1970 and durations as days; None for what is neither."""
    kind = column.dtype
    if kind == nw.Duration:
        return _each(column, lambda cell: cell / _DAY)
    if kind in (nw.Datetime, nw.Date):
        return _each(column, _since_epoch)
    if kind not in (nw.String, nw.Object):
        return None
    cells = _distinct(column)
    if cells and all(isinstance(cell, dt.date) for cell in cells):
        return _each(column, _since_epoch)
    if any(not isinstance(cell, str) for cell in cells):
        return None
    reader = _reader_of_dates(cells)
    return None if reader is None else _each(column, lambda cell: reader(cell.strip()))


def _distinct(column: nw.Series[Native]) -> set[Native]:
    """Return the values of a column of objects or text; empty where they cannot be compared."""
    try:
        return {cell for cell in set(column.to_list()) if not is_missing(cell)}
    except TypeError:  # lists and the like, which reading the column refuses
        return set()


def _each(column: nw.Series[Native], reader: Callable[[Native], float | None]) -> Floats:
    """Return what each cell reads as, missing where there is none."""
    read = {cell: reader(cell) for cell in _distinct(column)}
    found = [read.get(cell) for cell in column.to_list()]
    return np.array([np.nan if value is None else value for value in found])


def _since_epoch(moment: dt.date) -> float:
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day, tzinfo=dt.UTC)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return float((aware - _EPOCH) / _DAY)


def _reader_of_dates(texts: set[str]) -> Callable[[str], float | None] | None:
    """Return how texts are read as dates where exactly one way reads them all."""
    texts = {text for text in texts if text.strip().lower() not in _GAPS}
    if len(texts) < 3:
        return None
    first = next(iter(texts)).strip()
    if not re.match(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}", first):
        return None
    ways = [_instant, *(_strict(form) for form in _TEXT_DATES)]
    found = [way for way in ways if all(way(text.strip()) is not None for text in texts)]
    answers = {tuple(way(text.strip()) for text in sorted(texts)) for way in found}
    return found[0] if len(answers) == 1 else None


def _instant(text: str) -> float | None:
    if not re.match(r"[12]\d{3}-\d{2}-\d{2}", text):
        return None
    try:
        return _since_epoch(dt.datetime.fromisoformat(text))
    except ValueError:
        return None


def _strict(form: str) -> Callable[[str], float | None]:
    def read(text: str) -> float | None:
        try:
            return _since_epoch(dt.datetime.strptime(text, form).replace(tzinfo=dt.UTC))
        except ValueError:
            return None

    return read


def read_numbers(column: nw.Series[Native]) -> Floats | None:
    """Return text as numbers where every value is one, or is missing, in one way only."""
    cells = _distinct(column) if column.dtype in (nw.String, nw.Object) else set()
    if not cells or any(not isinstance(cell, str) for cell in cells):
        return None
    texts = [text.strip() for text in cells if text.strip().lower() not in _GAPS]
    read = [_number(text) for text in texts]
    numbers = [value for value in read if value is not None]
    if len(numbers) < len(texts) or any(map(is_code, texts)):
        return None
    # a few whole numbers may be classes, and two marks are two scales
    few = len(texts) <= _IDENTIFIER_LEVELS and all(value.is_integer() for value in numbers)
    marks = {text.strip("+-.0123456789, eE") for text in texts}
    if few or len(marks - {""}) > 1 or ("%" in marks and "" in marks):
        return None
    return _each(column, _number)


def _number(text: str) -> float | None:
    bare = text.strip().rstrip("%").strip().strip(_CURRENCY).strip()
    if _PLAIN.fullmatch(bare):
        return float(bare)
    return float(bare.replace(",", "")) if _THOUSANDS.fullmatch(bare) else None


def _rebuilt(X: Frame, new: Mapping[int, Floats], gone: set[int]) -> Frame:
    """Return a frame with some columns replaced and others gone, by their places."""
    if not new and not gone:
        return X
    opened = open_frame(X)
    if opened is None:
        return X
    library, labels, _, _ = opened
    kept = [place for place in range(len(labels)) if place not in gone]
    if library == "pandas":
        places = [j for j, label in enumerate(X.columns) if not is_stored_index(label)]
        frame = X.iloc[:, [places[place] for place in kept]].copy(deep=False)
        for position, place in enumerate(kept):
            if place in new:
                frame.isetitem(position, new[place])
        return frame
    frame = nw.from_native(X, eager_only=True)
    made = {
        str(labels[place]): nw.new_series(
            str(labels[place]), new[place], backend=frame.implementation
        )
        if place in new
        else frame[str(labels[place])]
        for place in kept
    }
    return nw.from_dict(made, backend=frame.implementation).to_native()
