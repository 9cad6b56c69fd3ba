"""Columns of text with numbers or dates, and why they cannot be read as such.

A column of which all but a few values are numbers was meant as one, and one-hot levels of its
values answer another question. It is refused, with the first value that is not a number. So is one
of dates.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NUMERIC_SHARE = 0.9
"""If this share of the values that are not gaps are numbers, text is meant as numbers."""

HARMLESS_LEVELS = 2
"""Two levels are one column of 0 and 1, whatever they are called: as numbers they give the same."""

LONGEST_SHOWN = 40
"""Characters of a value that a message quotes."""

MISSING_MARKS = frozenset(
    {"", "na", "n/a", "nan", "-nan", "#n/a", "#na", "null", "none", "<na>", "nat", "?", "-", "--"}
    | {".", "..", "*", "missing", "#value!", "#div/0!", "#ref!", "inf", "-inf", "+inf"}
    | {"infinity", "-infinity", "unknown", "not available"}
)
"""What people write for a missing number, in lower case."""

_PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_FORTRAN = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)[dD][+-]?\d+")
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
_GROUPED = re.compile(
    r"[+-]?[1-9]\d{0,2}([,'\u2019_\u00a0\u202f\u2009 ])\d{3}(?:\1\d{3})*(?:\.\d*)?"
)
_COMMA = re.compile(r"[+-]?\d+,\d*(?:[eE][+-]?\d+)?")
_DOTTED = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d*")
_CURRENCY = "$€£¥₹"
_MINUS = "\u2212\u2012\u2013\u2014\ufe63\uff0d"


def spelling(text: str) -> str | None:
    """Return how a text writes a number, ``""`` if plainly; None if it is not a number."""
    bare = text.strip()
    if _PLAIN.fullmatch(bare):
        return ""
    if _HEX.fullmatch(bare):
        return "a hexadecimal number"
    if _FORTRAN.fullmatch(bare):
        return "an exponent after D"
    if bare and bare[0] in _MINUS and spelling(bare[1:]) is not None:
        return "a minus sign that is not a hyphen"
    if bare.endswith(("%", "‰")) and spelling(bare[:-1]) is not None:
        return "a per-cent sign"
    inner = bare.strip(_CURRENCY)
    if inner != bare and spelling(inner) is not None:
        return "a currency sign"
    if bare[:1] in "+-" and bare[1:2] in _CURRENCY and bare[1:2] and spelling(bare[2:]) is not None:
        return "a currency sign"
    if bare.startswith("(") and bare.endswith(")") and spelling(bare[1:-1]) is not None:
        return "brackets"
    if _GROUPED.fullmatch(bare):
        return "a separator of thousands"
    if _COMMA.fullmatch(bare) or _DOTTED.fullmatch(bare):
        return "a decimal comma"
    if not bare.isascii() and bare.isnumeric():
        return "digits that are not ASCII"
    return None


def is_code(text: str) -> bool:
    """Return whether a text is a code of digits, such as the postal code 00501, and no quantity."""
    return re.match(r"[+-]?0\d", text.strip()) is not None


_REMEDIES = {
    "a hexadecimal number": "{}.map(lambda text: int(text, 16))",
    "an exponent after D": "{}.str.replace('D', 'E').astype(float)",
    "a minus sign that is not a hyphen": "{}.str.replace('\u2212', '-').astype(float)",
    "a per-cent sign": "{}.str.rstrip(' %').astype(float)",
    "a currency sign": "{}.str.strip(' $€£¥₹').astype(float)",
    "brackets": "{}.str.replace('(', '-').str.rstrip(')').astype(float)",
    "a separator of thousands": "{}.str.replace(r'[^0-9.-]', '', regex=True).astype(float)",
    "a decimal comma": "{}.str.replace(',', '.').astype(float)",
}


@dataclass(frozen=True)
class TextNumbers:
    n_numbers: int
    n_values: int
    odd: str | None
    how: str

    def remedy(self, column: str) -> str:
        if self.odd is None:
            return f"{column}.astype(float)"
        if not self.how:
            return f"pandas.to_numeric({column}, errors='coerce') for missing ones in their place"
        return _REMEDIES.get(self.how, "{}.map(...)").format(column)

    def words(self) -> str:
        if self.odd is None:
            return "holds numbers as text"
        if self.how:
            return f"holds numbers as text with {self.how} ({_quoted(self.odd)})"
        return (
            f"is text, but {self.n_numbers} of its {self.n_values} values are numbers and "
            f"{_quoted(self.odd)} is not"
        )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}...")


def find_numbers(values: Iterable[object] | Mapping[str, int]) -> TextNumbers | None:
    counts = Counter(values)
    if len(counts) <= HARMLESS_LEVELS or any(is_code(str(text)) for text in counts):
        return None
    spelt = {text: spelling(str(text)) for text in counts}
    n_numbers = _most(counts, {text for text in counts if spelt[text] is not None})
    if n_numbers is None:
        return None
    odd = next((str(text) for text in counts if spelt[text] != ""), None)
    how = "" if odd is None else spelt[odd] or ""
    return TextNumbers(n_numbers, counts.total(), odd, how)


def _most(counts: Counter[object], found: set[object]) -> int | None:
    """Return how many values are among some; None if too few of those that are no missing mark."""
    n_found = sum(counts[text] for text in found)
    n_marks = sum(
        count
        for text, count in counts.items()
        if text not in found and str(text).strip().lower() in MISSING_MARKS
    )
    few = n_found < NUMERIC_SHARE * (counts.total() - n_marks)
    return None if n_found == 0 or few else n_found


CLOCK = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
"""A time of day, or a duration, in hours and minutes."""

DATE_FORMS = tuple(
    day + time
    for day in (
        "%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y",
        "%m/%d/%y", "%d/%m/%y", "%d-m%m-%Y", "%d-m%m-%y",
    )
    for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
)  # fmt: skip
"""How people write dates, apart from ISO 8601; ``m06`` is June (:func:`in_digits`)."""

LONGEST_SPAN = 50 * 365.25
"""Days beyond which years of two digits may be of either century."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH_OF = {name[:k]: n for n, name in enumerate(_MONTHS, 1) for k in (3, 4, len(name))}
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? +)?"
_MONTH_DAY_YEAR = (
    r"(?P<month>[a-z]{3,9})\.?(?: +(?P<day>\d{1,2})(?:st|nd|rd|th)?,?)? *(?P<year>[12]\d{3})"
)
_DAY_MONTH_YEAR = (
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?P<mark>[ -])(?P<month>[a-z]{3,9})\.?,?(?P=mark)"
    r"(?P<year>[12]\d{3}|(?<=-)\d\d)"
)
_NAMED_MONTHS = tuple(
    re.compile(rf"{_WEEKDAY}{form}(?=$|[ ,T])", re.IGNORECASE)
    for form in (_MONTH_DAY_YEAR, _DAY_MONTH_YEAR)
)
_IN_DIGITS = re.compile(r"(\d\d)-m(\d\d)-(\d\d|\d{4})(?: \d.*)?")


def in_digits(text: str) -> str:
    """Return a date with the name of a month, ``June 2, 2018``, as ``02-m06-2018``; others as is.

    The names are English ones, whatever the locale.
    """
    found = next(filter(None, (form.match(text) for form in _NAMED_MONTHS)), None)
    month = _MONTH_OF.get(found["month"].lower()) if found else None
    if found is None or month is None:
        return text
    rest = text[found.end() :].replace(",", "", 1)
    return f"{int(found['day'] or 1):02d}-m{month:02d}-{found['year']}{rest}"


_DATE = re.compile(
    r"(?:(?P<year>[12]\d{3})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})"
    r"|(?P<one>\d{1,2})([-/.])(?P<two>\d{1,2})\6(?P<last>[12]\d{3}|(?<=/)\d{2}))"
    r"(?:[T ]\d{1,2}(?::?\d{2}.*)?)?"
)
_COMPACT = re.compile(r"([12]\d{3})(\d{2})(\d{2})T\d{2}(?:\d{2}.*)?")


def is_date(text: str) -> bool:
    return _ways(text.strip()) > 0


def _ways(text: str) -> int:
    """Return in how many ways a text reads as a day: the day or the month may come first."""
    if named := _IN_DIGITS.fullmatch(in_digits(text)):
        day, month, year = named.groups()
        return int(_on_calendar(year if len(year) == 4 else f"20{year}", month, day))
    found = _DATE.fullmatch(text)
    if found is None:
        compact = _COMPACT.fullmatch(text)
        return int(compact is not None and _on_calendar(*compact.groups()))
    if found["year"]:
        return int(_on_calendar(found["year"], found["month"], found["day"]))
    one, two = found["one"], found["two"]
    year = found["last"] if len(found["last"]) == 4 else f"20{found['last']}"
    return sum(_on_calendar(year, *pair) for pair in ((one, two), (two, one)))


def _on_calendar(year: str, month: str, day: str) -> bool:
    try:
        dt.date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class TextDates:
    n_dates: int
    n_values: int
    example: str
    odd: str | None
    why: str = ""
    what: Literal["dates", "times of day"] = "dates"
    several_formats: bool = False

    def in_pandas(self, column: str) -> str:
        if self.what == "times of day":
            return f"correct it, or make it missing: {column}.replace({self.odd!r}, None)"
        if self.several_formats:
            return "write all of them like 2024-01-31"
        # 'coerce' would lose, unsaid, what pandas reads otherwise than the first row
        how = ", errors='coerce'" if self.odd is not None else ""
        how += ", dayfirst=True" if "day or" in self.why else ""
        return (
            f"turn it into days, e.g. (pd.to_datetime({column}{how}, utc=True) - "
            "pd.Timestamp(0, tz='UTC')) / pd.Timedelta(days=1)"
        )

    def remedy(self) -> str:
        if self.odd is None:
            return "write all of them like 2024-01-31, leave it out with --drop"
        return f"call {_quoted(self.odd)} missing with --na-values, leave it out with --drop"

    def words(self) -> str:
        if self.several_formats:
            return f"holds dates in different formats, such as {self.example!r}"
        if self.odd is None:
            return f"holds dates as text, such as {self.example!r}{self.why}"
        return (
            f"is text, but {self.n_dates} of its {self.n_values} values are {self.what} "
            f"and {_quoted(self.odd)} is not"
        )


def find_dates(values: Iterable[object] | Mapping[str, int]) -> TextDates | None:
    counts = Counter(values)
    if len(counts) <= HARMLESS_LEVELS:
        return None
    found = {text for text in counts if is_date(str(text))}
    what: Literal["dates", "times of day"] = "dates"
    if not found:
        found, what = (
            {text for text in counts if CLOCK.fullmatch(str(text).strip())},
            "times of day",
        )
    n_dates = _most(counts, found)
    if n_dates is None or (what == "times of day" and len(found) == len(counts)):
        return None
    texts = [str(text).strip() for text in counts if text in found]
    why = ""
    if all(_ways(text) > 1 for text in texts):
        why = ", where the day or the month may come first"
    elif all(re.match(r"\d+(?:/\d+/|-m\d+-)\d\d\b", in_digits(text)) for text in texts):
        why = ", where years of two digits may be of either century"
    others = sorted(
        (str(text) for text in counts if text not in found),
        key=lambda text: text.strip().lower() in MISSING_MARKS,
    )
    shapes = {re.sub(r"\d+", "0", in_digits(text)) for text in texts}
    odd = next(iter(others), None)
    several = odd is None and len(shapes) > 1 and not why
    return TextDates(n_dates, counts.total(), texts[0], odd, why, what, several)
