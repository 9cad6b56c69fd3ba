"""Columns of a raw frame with one sensible reading: dates, numbers as text, labels, identifiers.

Such a column is read that way, and the result says so in one line. What could be read in two ways
stays as it is: :mod:`dfi._data.table` refuses it, with the way out.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import narwhals as nw
import numpy as np

from dfi._data.columns import is_missing
from dfi._data.frames import as_series, is_series, is_stored_index, is_table, open_frame
from dfi._data.text import (
    CLOCK,
    DATE_FORMS,
    LONGEST_SPAN,
    MISSING_MARKS,
    find_dates,
    find_numbers,
    in_digits,
    is_code,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from dfi._types import Floats, Frame, Native

Identifiers = Literal["drop", "error"]
"""What to do with columns that identify the rows."""

Decimal = Literal[".", ","]
"""What stands before a fraction."""

FEWEST_IDENTIFIED = 21
"""With this many rows, whole numbers that are all different look like a row count."""

NAMES_ROWS = re.compile(
    r"(?:^|[\W_])(?:id|ids|pid|uid|uuid|guid|rowid|row|rownames|index|idx|nr|no|number|key)$", re.I
)
"""Names of columns that identify the rows."""

_IDENTIFIER_LEVELS = 20
_DAY = dt.timedelta(days=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ISO = "ISO 8601"
_ISO_DAY = re.compile(r"[12]\d{3}-\d{2}-\d{2}|[12]\d{7}T")
_GAPS = frozenset(
    mark
    for mark in MISSING_MARKS
    if not mark.lstrip("+-#").startswith(("inf", "value", "div", "ref"))
)
_SPACES = "\u00a0\u202f "
_CURRENCY = r"(?:[$€£¥₹]|USD|EUR|GBP|CHF|JPY)"
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_UNIT = re.compile(r"(.*?[\d)])\s*([a-zA-Zµ°][^\s,;]{0,9})")
_ANSWERS = ({"yes", "no"}, {"y", "n"}, {"true", "false"}, {"t", "f"}, {"on", "off"})


@dataclass(frozen=True)
class Reader:
    """How cells of a column are read: ``form`` of dates or decimal mark, ``unit``, ``labels``."""

    kind: Literal["days", "numbers", "labels", "classes"]
    form: str = ""
    unit: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def values(self, column: nw.Series[Native]) -> Floats | list[str | None]:
        if self.kind == "days":
            return _each(column, _reader_of_dates(self.form))
        if self.kind == "numbers":
            return _each(column, lambda cell: _number(cell, self.form, self.unit))
        return [None if is_missing(cell) else self._label(str(cell)) for cell in column.to_list()]

    def _label(self, text: str) -> str | None:
        bare = text.strip()
        return self.labels.get(bare.lower(), bare) or None


@dataclass(frozen=True)
class Everyday:
    """What was done to the columns of a raw frame, by name, and to rows without an outcome.

    ``roles`` are columns of the frame that are no features: outcome, weights, clusters.
    """

    readers: Mapping[str, Reader] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    apart: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    roles: tuple[str, ...] = ()

    @property
    def days(self) -> tuple[str, ...]:
        return self._of("days")

    def _of(self, kind: str) -> tuple[str, ...]:
        return tuple(name for name, reader in self.readers.items() if reader.kind == kind)

    def read(self, X: Frame) -> Frame:
        """Return another frame with the same columns read in the same way."""
        if not is_table(X) or not (self.readers or self.left_out or self.renamed or self.roles):
            return X
        if self.renamed:
            X, _ = with_distinct_names(X, ())
        opened = open_frame(X)
        if opened is None:
            return X
        _, labels, columns, _ = opened
        found = {place: self.readers.get(str(label)) for place, label in enumerate(labels)}
        new = {
            place: (reader, reader.values(columns[place]))
            for place, reader in found.items()
            if reader is not None
        }
        absent = {*self.left_out, *self.roles}
        gone = {place for place, label in enumerate(labels) if str(label) in absent}
        return _rebuilt(X, new, gone)

    def spec(self) -> dict[str, object]:
        facts = {
            "days": list(self.days),
            "numbers": list(self._of("numbers")),
            "labels": list(self._of("labels")),
            "classes": list(self._of("classes")),
            "labels_apart": dict(self.apart),
            "renamed": dict(self.renamed),
            "left_out": dict(self.left_out),
            "rows_without_outcome": self.rows,
        }
        return {name: fact for name, fact in facts.items() if fact}


NOTHING = Everyday()
"""Of a table that is read as it stands."""


def names_rows(n_different: int, n_filled: int) -> bool:
    """Return whether a category of so many values in so many rows names them, or is free text."""
    return n_different > max(_IDENTIFIER_LEVELS, n_filled / 2)


def read_everyday(
    X: Frame, identifiers: Identifiers, gone: np.ndarray | None = None
) -> tuple[Frame, Everyday]:
    """Return a frame without identifiers and rows that are ``gone``; dates as days, text read."""
    whole = None
    if gone is not None and gone.any():
        whole = open_frame(X)
        X = without_rows(X, gone)
    opened = open_frame(X) if is_table(X) else None
    if opened is None:
        return X, NOTHING
    _, labels, columns, _ = opened
    new: dict[int, tuple[Reader, Floats | list[str | None]]] = {}
    readers: dict[str, Reader] = {}
    left_out: dict[str, str] = {}
    apart: dict[str, str] = {}
    for place, (label, column) in enumerate(zip(labels, columns, strict=True)):
        name = str(label)
        reader = _reader(column)
        values = None if reader is None else reader.values(column)
        every = column if whole is None else whole[2][place]
        if identifiers == "drop" and (why := _why_identifier(name, column, every, reader)):
            left_out[name] = why
            continue
        if reader is not None and values is not None:
            new[place] = (reader, values)
            readers[name] = reader
        if twins := _spelt_alike(column):
            apart[name] = twins
    if len(left_out) == len(labels):  # nothing would be left: reading them says what is wrong
        left_out = {}
    dropped = {place for place, label in enumerate(labels) if str(label) in left_out}
    return _rebuilt(X, new, dropped), Everyday(readers, left_out, apart=apart)


def counters(X: Frame) -> dict[str, str]:
    """Return the columns of whole numbers that count or identify the rows, and why."""
    opened = open_frame(X)
    _, labels, columns, _ = opened or ("", [], [], None)
    found = {
        str(label): _why_identifier(str(label), column, column, None)
        for label, column in zip(labels, columns, strict=True)
        if column.dtype.is_integer()
    }
    return {name: why for name, why in found.items() if why}


def read_everyday_outcome(y: Native, *, classes: bool) -> tuple[Native, Reader | None]:
    """Return a column of text as the numbers or tidy labels that it holds, and how it was read."""
    if not is_series(y):
        return y, None
    column = as_series(y)
    if column.dtype not in (nw.String, nw.Object):
        return y, None
    cells = _distinct(column)
    if any(not isinstance(cell, str) for cell in cells):
        return y, None
    reader = _number_reader(cells, feature=False)
    few = len({*map(_bare, cells)} - _GAPS) <= _IDENTIFIER_LEVELS
    if reader is None or classes or few:
        reader = _label_reader(column)
    if reader is None:
        return y, None
    return _series_like(y, column.name, reader, reader.values(column)), reader


def with_distinct_names(X: Frame, roles: Collection[str]) -> tuple[Frame, dict[str, str]]:
    """Return a frame with repeated names numbered; a name in use by a role stays ambiguous."""
    pandas = nw.dependencies.is_pandas_dataframe(X)
    if pandas and X.columns.nlevels > 1:
        return X, {}
    labels = list(X.columns if pandas else getattr(X, "column_names", ()))
    counts = Counter(label for label in labels if isinstance(label, str) and label not in roles)
    taken, renamed, new = set(labels), {}, []
    for label in labels:
        made, number = label, 0
        while counts[label] > 1 and made in taken:
            number += 1
            made = f"{label}.{number}"
        if made is not label:
            renamed[made] = label
            taken.add(made)
        new.append(made)
    if not renamed:
        return X, {}
    return (X.set_axis(new, axis=1) if pandas else X.rename_columns(new)), renamed


def missing_rows(column: Native) -> np.ndarray:
    series = nw.from_native(column, series_only=True)
    gaps = series.is_null()
    if series.dtype.is_float():
        gaps = gaps | series.is_nan()
    return np.asarray(gaps.fill_null(value=True).to_numpy(), dtype=bool)


def without_rows(X: Frame, gone: np.ndarray) -> Frame:
    if nw.dependencies.is_pandas_dataframe(X):
        return X.iloc[~gone]
    return nw.from_native(X, eager_only=True).filter((~gone).tolist()).to_native()


def _reader(column: nw.Series[Native]) -> Reader | None:
    kind = column.dtype
    # periods of pandas have no type of their own in narwhals, and neither have gaps of pyarrow
    period = kind == nw.Unknown and "period" in str(getattr(column.to_native(), "dtype", ""))
    if period or kind in (nw.Duration, nw.Datetime, nw.Date, nw.Time):
        return Reader("days")
    if kind not in (nw.String, nw.Object):
        return None
    cells = _distinct(column)
    if cells and any(all(isinstance(cell, of) for cell in cells) for of in (dt.date, dt.time)):
        return Reader("days")
    if not cells or any(not isinstance(cell, str) for cell in cells):
        return None
    if (form := _form_of_dates(cells)) is not None:
        return Reader("days", form)
    numbers = _number_reader(cells, feature=True)
    if numbers is not None:
        return numbers
    return (
        Reader("classes") if are_classes(column.drop_nulls().to_list()) else _label_reader(column)
    )


def are_classes(texts: Sequence[str]) -> bool:
    """Return whether texts are few numbers and a word or two, such as 4, 6, 8 and rotary."""
    few = len({*map(_bare, texts)}) <= _IDENTIFIER_LEVELS
    return few and (found := find_numbers(texts)) is not None and not found.how


def _why_identifier(
    name: str, column: nw.Series[Native], every: nw.Series[Native], reader: Reader | None
) -> str:
    """Return why a column is an identifier, or "": texts name rows, integers count ``every``."""
    kind, n = column.dtype, len(every)
    if reader is None or reader.kind in ("labels", "classes"):
        if kind in (nw.String, nw.Categorical, nw.Enum, nw.Object):
            texts = [cell for cell in _distinct(column) if isinstance(cell, str)]
            filled = _filled(column)
            if not names_rows(len(texts), filled) or find_numbers(texts) or find_dates(texts):
                return ""  # what was meant as numbers or dates is refused, with the way out
            return f"{len(texts)} different texts in {filled} rows"
        if not kind.is_integer() or every.null_count():
            return ""
        values = every.to_numpy()
    else:
        values = np.asarray(reader.values(every)) if reader.kind == "numbers" else np.array([0.5])
        if not np.all(values == np.rint(values)):
            return ""
    if n < FEWEST_IDENTIFIED or len(np.unique(values)) < n:
        return ""
    least, most = int(values.min()), int(values.max())
    counts = most - least == n - 1 and least in (0, 1)
    return "a different whole number in each row" if counts or NAMES_ROWS.search(name) else ""


def _distinct(column: nw.Series[Native]) -> set[Native]:
    """Return the values of a column of objects or text; empty where they cannot be compared."""
    try:
        return {cell for cell in set(column.to_list()) if not is_missing(cell)}
    except TypeError:  # lists and the like, which reading the column refuses
        return set()


def _filled(column: nw.Series[Native]) -> int:
    return sum(not is_missing(cell) for cell in column.to_list())


def _each(column: nw.Series[Native], reader: Callable[[Native], float | None]) -> Floats:
    read = {cell: reader(cell) for cell in _distinct(column)}
    found = [read.get(cell) for cell in column.to_list()]
    return np.array([np.nan if value is None else value for value in found])


def _bare(text: str) -> str:
    return text.strip().lower()


def _since_epoch(moment: dt.date) -> float:
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day, tzinfo=dt.UTC)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return float((aware - _EPOCH) / _DAY)


def _form_of_dates(texts: set[str]) -> str | None:
    """Return how dates are written where exactly one way reads all of some texts."""
    texts = {text for text in texts if _bare(text) not in _GAPS}
    if len(texts) < 3:
        return None
    clocks = [CLOCK.fullmatch(text.strip()) for text in texts]
    if all(clocks):
        return "clock" if len({found[3] is None for found in clocks if found}) == 1 else None
    if not re.match(r"\d{1,4}[-/.]m?\d{1,2}[-/.]\d{1,4}", in_digits(next(iter(texts)).strip())):
        return None
    read = forms_of_dates(texts)
    return next(iter(read)) if len({tuple(moments) for moments in read.values()}) == 1 else None


def forms_of_dates(texts: Collection[str]) -> dict[str, list[dt.datetime]]:
    """Return the ways to write dates that read all of some texts, and what they read."""
    found: dict[str, list[dt.datetime]] = {}
    bare = [text.strip() for text in texts]
    if read := _moments(bare, _ISO):
        return {_ISO: read}
    bare = [in_digits(text) for text in bare]
    for form in DATE_FORMS:
        read = _moments(bare, form)
        if read and ("%Y" in form or (max(read) - min(read)) / _DAY <= LONGEST_SPAN):
            found[form] = read
    return found


def _moments(texts: Sequence[str], form: str) -> list[dt.datetime]:
    """Return what a form reads; nothing, and soon, where it does not read all texts."""
    found: list[dt.datetime] = []
    for text in texts:
        moment = _moment(text, form)
        if moment is None:
            return []
        found.append(moment)
    return found


def _moment(text: str, form: str) -> dt.datetime | None:
    iso = form == _ISO
    if iso and not _ISO_DAY.match(text):
        return None
    try:
        read = dt.datetime.fromisoformat(text) if iso else dt.datetime.strptime(text, form)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=dt.UTC)


def _reader_of_dates(form: str) -> Callable[[Native], float | None]:
    """Return how dates of a form, or those that are not text, become days; so do times of day."""

    def read(cell: Native) -> float | None:
        # a period of pandas counts as its first moment
        cell = getattr(cell, "start_time", cell)
        if isinstance(cell, dt.time):
            cell = cell.isoformat()
        if not isinstance(cell, str):
            return float(cell / _DAY) if isinstance(cell, dt.timedelta) else _since_epoch(cell)
        text = cell.strip()
        if clock := CLOCK.fullmatch(text):
            hours, minutes, seconds = (float(part or 0) for part in clock.groups())
            return (hours + minutes / 60 + seconds / 3600) / 24
        moment = _moment(text if form == _ISO else in_digits(text), form)
        return None if moment is None else _since_epoch(moment)

    return read


def read_numbers(column: nw.Series[Native], *, feature: bool) -> Floats | None:
    cells = _distinct(column) if column.dtype in (nw.String, nw.Object) else set()
    reader = _number_reader(cells, feature=feature)
    return None if reader is None else _each(column, lambda c: _number(c, reader.form, reader.unit))


def _number_reader(cells: set[Native], *, feature: bool) -> Reader | None:
    """Return how texts are read as numbers where they all are, or are missing, in one way only.

    Two ways that differ by a factor alone are one for a ``feature``: its unit changes no score.
    """
    if any(not isinstance(cell, str) for cell in cells):
        return None
    texts = [text.strip() for text in cells if _bare(text) not in _GAPS]
    if not texts or any(map(is_code, texts)):
        return None
    decimal = _decimal_of(texts, feature=feature)
    if decimal is not None:
        marks = {re.sub(r"[-+−().,'eE\d\s]", "", text) for text in texts}
        if len(marks - {""}) > 1 or ("%" in marks and "" in marks):
            return None  # two marks are two scales
        return Reader("numbers", decimal)
    split = [_UNIT.fullmatch(text) for text in texts]
    units = {found[2] if found else None for found in split}
    unit = units.pop()
    if unit is None or units:
        return None
    decimal = _decimal_of([text.removesuffix(unit) for text in texts], feature=feature)
    return None if decimal is None else Reader("numbers", decimal, unit)


def _decimal_of(texts: Sequence[str], *, feature: bool) -> Decimal | None:
    """Return the decimal mark that makes every text a number; None if neither or both do."""
    read = {
        mark: [read_number(text, mark) for text in texts]
        for mark in DECIMALS
        if all(read_number(text, mark) is not None for text in texts)
    }
    if len(read) < 2:
        return next(iter(read), None)
    with_comma = [text for text in texts if "," in text]
    if not with_comma or read["."] == read[","]:
        return "."
    if any(re.search(r"(?<!\d)0,", text) for text in with_comma):
        return ","
    # 1,500 beside 950 counts thousands, and so does a sum of money; alone it may be 1.5
    small = [abs(value or 0.0) < 1000 for text, value in zip(texts, read["."], strict=True)
             if "," not in text]  # fmt: skip
    money = all(re.search(_CURRENCY, text) for text in texts)
    alone = feature and len(with_comma) == len(texts)
    return "." if money or alone or (small and all(small)) else None


DECIMALS: tuple[Decimal, ...] = (".", ",")


def _marked(decimal: Decimal) -> re.Pattern[str]:
    """Return the pattern of a number with marks: ``-$17,000.50``, ``(17)``, ``17 %``."""
    mark, thousands = (r"\.", ",") if decimal == "." else (",", r"\.")
    digits = rf"(?:\d{{1,3}}(?:[{thousands}'{_SPACES}]\d{{3}})+|\d+)(?:{mark}\d*)?|{mark}\d+"
    return re.compile(
        rf"(?P<open>\()?(?P<sign>[+\-−])?\s*{_CURRENCY}?\s*(?P<inner>[+\-−])?"
        rf"(?P<digits>{digits})(?P<exponent>{_EXPONENT})\s*(?P<percent>%)?\s*{_CURRENCY}?\)?"
    )


_MARKED = {mark: _marked(mark) for mark in DECIMALS}


def read_number(text: str, decimal: Decimal) -> float | None:
    """Return the number in a text with marks, None if there is none; 17 % is 17."""
    found = _MARKED[decimal].fullmatch(text.strip())
    if found is None or bool(found["open"]) != text.strip().endswith(")"):
        return None
    digits = re.sub(rf"['{_SPACES}]", "", found["digits"])
    if decimal == ".":
        digits = digits.replace(",", "")
    else:
        digits = digits.replace(".", "").replace(",", ".")
    value = float(digits + found["exponent"])
    minus = sum(found[part] in ("-", "−") for part in ("sign", "inner")) + bool(found["open"])
    return -value if minus % 2 else value


def _number(text: str, form: str, unit: str) -> float | None:
    return read_number(text.strip().removesuffix(unit), "," if form == "," else ".")


def _label_reader(column: nw.Series[Native]) -> Reader | None:
    """Return how labels are tidied (blanks around them, YES for yes); None if they are tidy."""
    cells = _distinct(column)
    if not cells or any(not isinstance(cell, str) for cell in cells):
        return None
    bare = {cell.strip() for cell in cells} - {""}
    words = {word.lower() for word in bare}
    mixed = [word.lower() for word in sorted(bare)] != sorted(words)
    if mixed and any(words <= answers for answers in _ANSWERS):
        # in small letters, so yes is the second class and not, as Yes, before no
        return Reader("labels", labels={word: word for word in words})
    return None if bare == cells else Reader("labels")


def _spelt_alike(column: nw.Series[Native]) -> str:
    """Return labels that differ in case alone and are not yes and no: they may mean two things."""
    if column.dtype not in (nw.String, nw.Object):
        return ""
    bare = {cell.strip() for cell in _distinct(column) if isinstance(cell, str)}
    if names_rows(len(bare), _filled(column)):
        return ""
    words = {word.lower() for word in bare}
    if len(words) == len(bare) or any(words <= answers for answers in _ANSWERS):
        return ""
    first = next(word for word in sorted(bare) if sum(w.lower() == word.lower() for w in bare) > 1)
    return ", ".join(sorted(word for word in bare if word.lower() == first.lower()))


def _series_like(
    y: Native, name: str, reader: Reader, values: Floats | Iterable[str | None]
) -> Native:
    column = as_series(y)
    made = nw.new_series(name, values, backend=column.implementation)
    if reader.kind == "classes":
        made = made.cast(nw.Categorical)
    native = made.to_native()
    return native.set_axis(y.index) if nw.dependencies.is_pandas_series(y) else native


def _rebuilt(
    X: Frame,
    new: Mapping[int, tuple[Reader, Floats | list[str | None]]],
    gone: set[int],
) -> Frame:
    if not new and not gone:
        return X
    opened = open_frame(X)
    if opened is None:
        return X
    library, labels, columns, _ = opened
    kept = [place for place in range(len(labels)) if place not in gone]
    made = {
        place: _series_like(columns[place].to_native(), str(labels[place]), *new[place])
        for place in kept
        if place in new
    }
    if library == "pandas":
        places = [j for j, label in enumerate(X.columns) if not is_stored_index(label)]
        frame = X.iloc[:, [places[place] for place in kept]].copy(deep=False)
        for position, place in enumerate(kept):
            if place in made:
                frame.isetitem(position, made[place])
        return frame
    series = [
        nw.from_native(made[place], series_only=True).alias(str(labels[place])) for place in made
    ]
    frame = nw.from_native(X, eager_only=True).with_columns(*series)
    return frame.select([str(labels[place]) for place in kept]).to_native()
