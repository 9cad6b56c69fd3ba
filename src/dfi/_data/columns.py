"""One column, of a table or by itself: its kind, its numbers, and the way back to its dtype."""

from __future__ import annotations

import datetime as dt
import decimal
import numbers
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import narwhals as nw
import numpy as np
from scipy import sparse

from dfi._data.frames import as_series, is_series, is_table, objects, open_frame, refuse_dataset
from dfi._parameters import DROP, TABLE, InvalidParameterError, argument, worded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from dfi._types import Array, Bools, Floats, Ints, Native

    Codes = Ints

Kind = Literal["real", "integer", "boolean", "categorical"]

_ENCODE_TIME = "Encode it as a number, e.g. days since a date"
_TIME_LINES = {
    ("pandas", "dates"): "X[{name}] = (X[{name}] - X[{name}].min()) / pd.Timedelta(days=1)",
    ("pandas", "durations"): "X[{name}] = X[{name}] / pd.Timedelta(days=1)",
    ("pandas", "periods"): (
        "X[{name}] = (X[{name}].dt.start_time - X[{name}].dt.start_time.min())"
        " / pd.Timedelta(days=1)"
    ),
    ("pandas", "date objects"): (
        "X[{name}] = (pd.to_datetime(X[{name}]) - pd.to_datetime(X[{name}]).min())"
        " / pd.Timedelta(days=1)"
    ),
    ("pandas", "duration objects"): "X[{name}] = pd.to_timedelta(X[{name}]) / pd.Timedelta(days=1)",
    ("pandas", "time objects"): (
        "X[{name}] = X[{name}].map(lambda t: t.hour + t.minute / 60, na_action='ignore')"
    ),
    ("polars", "dates"): (
        "X = X.with_columns((pl.col({name}) - pl.col({name}).min()).dt.total_seconds() / 86400)"
    ),
    ("polars", "durations"): ("X = X.with_columns(pl.col({name}).dt.total_seconds() / 86400)"),
    ("polars", "times"): (
        "X = X.with_columns(pl.col({name}).dt.hour() + pl.col({name}).dt.minute() / 60)"
    ),
}
"""The line that makes numbers of times, by library and what they are: days, or hours of a day."""

_SPREAD = "Spread its elements over columns of numbers"
_SPLIT_COMPLEX = "Split it into its real and imaginary parts"
_ONE_TYPE = "Make it all numbers or all strings"
_ENCODE = "Encode it as a number or as strings"

EXACT_WHOLE = 2.0**53
"""From here on, double precision does not hold every whole number."""

_TIMES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)
_NESTED = (list, tuple, set, frozenset, dict, np.ndarray)


@dataclass(frozen=True)
class Column:
    """One column of the user's table: the unit that is given a score.

    ``label`` is its name as the table spells it, ``name`` the same as text. ``levels`` of a
    categorical column come in the declared order of a Categorical or Enum, else sorted.
    ``positions`` are its columns in the numeric matrix: one, or one per level beyond two levels.
    Decoded rows are given back in ``dtype``.

    **Missing values** count as a value: the last level ``None`` of a category; for numbers an
    indicator beside the value, which then is ``fill``, the mean of the observed. Columns of objects
    are given back with ``gap`` there. ``levels`` occur; a dtype may have ``declared`` more.
    """

    name: str
    label: object
    kind: Kind
    levels: tuple[object, ...]
    positions: tuple[int, ...] = ()
    dtype: object = None
    fill: float | None = None
    gap: object = None
    declared: tuple[object, ...] | None = None

    @property
    def missing(self) -> bool:
        return self.fill is not None or self.levels[-1:] == (None,)

    @property
    def width(self) -> int:
        return len(self.positions)

    def matrix_names(self) -> tuple[str, ...]:
        """Return the name of each of its matrix columns (``"colour=red"`` for a level)."""
        if self.kind != "categorical":
            return (self.name,) if self.fill is None else (self.name, f"{self.name} missing")
        gap = "(missing)" if "missing" in self.levels else "missing"
        names = tuple(f"{self.name}={gap if level is None else level}" for level in self.levels)
        return names if self.width > 1 else names[-1:]

    def encode(self, codes: Codes) -> Floats:
        """Return level numbers as 0/1 for two levels, one-hot for more, zeros for one."""
        if self.width == 1:
            return codes.astype(np.float64)[:, None]
        block = np.zeros((len(codes), self.width))
        block[np.arange(len(codes)), codes] = 1.0
        return block

    def decode(self, block: Floats) -> Codes:
        """Return the level numbers nearest to numeric rows."""
        if len(self.levels) == 1:
            return np.zeros(len(block), dtype=np.intp)
        if self.width == 1:
            return (block[:, 0] > 0.5).astype(np.intp)
        return np.asarray(np.argmax(block, axis=1), dtype=np.intp)


def laid_out(columns: Iterable[Column]) -> tuple[Column, ...]:
    placed, width = [], 0
    for column in columns:
        levels = len(column.levels)
        size = levels if levels > 2 else 1 if column.fill is None else 2
        placed.append(replace(column, positions=tuple(range(width, width + size))))
        width += size
    return tuple(placed)


@dataclass(frozen=True)
class Reading:
    label: object
    kind: Kind
    dtype: object
    numbers: Floats | None = None
    values: Sequence[object] = ()
    missing: Bools | None = None
    declared: tuple[object, ...] | None = None
    finite: bool = False
    """Whether all numbers are known to be finite, so the check can be skipped."""
    text: bool = False
    """Whether its categories are plain strings that were never declared as levels."""

    @property
    def name(self) -> str:
        return str(self.label)

    def __len__(self) -> int:
        return len(self.values) if self.numbers is None else len(self.numbers)

    @cached_property
    def gaps(self) -> Bools:
        if self.finite:
            return np.broadcast_to(np.False_, len(self))
        if self.numbers is not None:
            return np.isnan(self.numbers)
        return np.zeros(len(self.values), dtype=bool) if self.missing is None else self.missing

    @property
    def gap(self) -> object:
        """The missing value of a column of objects: None, NaN or pandas' NA."""
        places = np.flatnonzero(self.gaps)
        return self.values[int(places[0])] if len(places) and len(self.values) else None

    def take(self, rows: Ints) -> Reading:
        return replace(
            self,
            numbers=None if self.numbers is None else self.numbers[rows],
            values=[self.values[row] for row in rows.tolist()] if len(self.values) else (),
            missing=None if self.missing is None else self.missing[rows],
        )

    def as_levels(self) -> Reading:
        """Return an entirely missing column as one of levels: its dtype does not say what it is."""
        if not self.gaps.all():
            return self
        gaps, nothing = self.gaps, [None] * len(self)
        return replace(self, kind="categorical", numbers=None, values=nothing, missing=gaps)

    def fill(self) -> float | None:
        if self.numbers is None or not self.gaps.any():
            return None
        observed = self.numbers[~self.gaps]
        # divided first: the sum of the largest numbers is infinite
        return float(np.sum(observed / max(len(observed), 1)))

    def levels(self) -> tuple[object, ...]:
        known = levels_that_occur(self.declared, self.observed())
        return (*known, None) if self.gaps.any() else known

    def observed(self) -> set[Native]:
        if not self.gaps.any():
            return set(self.values)
        return {value for value, gap in zip(self.values, self.gaps, strict=True) if not gap}

    def codes(self, levels: tuple[object, ...]) -> Codes:
        """Return the position of each value among ``levels``; raise for unknown values."""
        place = {level: code for code, level in enumerate(levels)}
        unseen = [value for value in self.observed() if value not in place]
        if unseen:
            shown = ", ".join(sorted(repr(value) for value in unseen)[:3])
            known = ", ".join(repr(level) for level in levels[:5])
            more = ", ..." if len(levels) > 5 else ""
            raise ValueError(
                f"Column {self.name!r} has the unseen level{'s' * (len(unseen) > 1)} {shown}; "
                f"the known levels are {known}{more}. Drop those rows, or explain again with "
                f"{'them' if len(unseen) > 1 else 'it'} in the data."
            )
        cells = self.values
        if self.gaps.any():
            cells = [None if gap else cell for cell, gap in zip(cells, self.gaps, strict=True)]
        return np.fromiter(map(place.__getitem__, cells), dtype=np.intp, count=len(cells))


def levels_that_occur(
    declared: tuple[object, ...] | None, observed: Collection[Native]
) -> tuple[object, ...]:
    if declared is None:
        return tuple(sorted(observed))
    return tuple(level for level in declared if level in observed)


def _refuse(label: object, what: str, remedy: str) -> InvalidParameterError:
    message = f"Column {str(label)!r} {what}, which is not a quantity or a class."
    return InvalidParameterError(message, "X", f"{remedy}, or {worded(*DROP)}.")


def _time_remedy(label: object, library: str, what: str) -> str:
    """Return how times become numbers, as a line for the caller's library where one is known."""
    line = _TIME_LINES.get((library, what))
    if line is None:
        python = _ENCODE_TIME
    else:
        kind = "hours" if "time" in what else "days"
        python = f"Make {kind} of it, e.g. {line.format(name=repr(label))}"
    return worded(python, "Make a number of it with --dates days, several with --dates parts")


def read_column(label: object, series: nw.Series[Native]) -> Reading:
    native: Native = series.to_native()
    dtype = getattr(native, "type", None) if series.implementation.is_pyarrow() else native.dtype
    kind = series.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        what: Kind = "real" if kind.is_numeric() else "boolean"
        what = "integer" if kind.is_integer() else what
        found = _numbers(series)
        if kind.is_integer():
            refuse_rounded(label, found, series)
        return Reading(label, what, dtype, numbers=found)
    missing = _nulls(series)
    cells = series.to_list() if kind in (nw.Categorical, nw.Enum, nw.String, nw.Object) else ()
    if missing.all():
        return Reading(label, "real", dtype, np.full(len(missing), np.nan), cells)
    if kind in (nw.Categorical, nw.Enum, nw.String):
        declared = None if kind == nw.String else _declared_levels(series)
        if declared is not None and None in declared:
            # pyarrow's dictionaries may hold the missing value themselves
            declared = tuple(level for level in declared if level is not None)
            missing = np.array([cell is None for cell in cells], dtype=bool)
        plain = kind == nw.String
        return Reading(label, "categorical", dtype, None, cells, missing, declared, text=plain)
    if kind == nw.Object:
        return read_objects(label, cells, missing, dtype, series.implementation.name.lower())
    if kind in (nw.Datetime, nw.Date, nw.Time, nw.Duration) or "period" in str(dtype):
        what_time = {nw.Time: "times", nw.Duration: "durations"}.get(type(kind), "dates")
        what_time = "periods" if "period" in str(dtype) else what_time
        library = series.implementation.name.lower()
        remedy = _time_remedy(label, library, what_time)
        raise _refuse(label, f"holds dates or times ({dtype})", remedy)
    if kind in (nw.List, nw.Array, nw.Struct):
        raise _refuse(label, f"holds nested values ({dtype})", _SPREAD)
    if "complex" in str(dtype):
        raise _refuse(label, f"holds complex numbers ({dtype})", _SPLIT_COMPLEX)
    raise _refuse(label, f"has dtype {dtype}", _ENCODE)


def read_objects(
    label: object, values: Sequence[object], missing: Bools, dtype: object, library: str = "numpy"
) -> Reading:
    kinds = {type(value) for value, gap in zip(values, missing, strict=True) if not gap}
    if all(issubclass(kind, str) for kind in kinds) and kinds:
        return Reading(label, "categorical", dtype, values=values, missing=missing, text=True)
    found = " and ".join(sorted(kind.__name__ for kind in kinds)[:3])
    if any(issubclass(kind, _TIMES) for kind in kinds):
        of_day = all(issubclass(kind, dt.time) for kind in kinds)
        spans = all(issubclass(kind, dt.timedelta | np.timedelta64) for kind in kinds)
        what_time = "time objects" if of_day else "duration objects" if spans else "date objects"
        remedy = _time_remedy(label, library, what_time)
        raise _refuse(label, f"holds dates or times ({found})", remedy)
    if any(issubclass(kind, _NESTED) for kind in kinds):
        raise _refuse(label, f"holds nested values ({found})", _SPREAD)
    boolean = all(issubclass(kind, (bool, np.bool_)) for kind in kinds)
    integer = all(issubclass(kind, numbers.Integral) for kind in kinds)
    real = all(issubclass(kind, (numbers.Real, decimal.Decimal)) for kind in kinds)
    if not (boolean or real):
        if all(issubclass(kind, numbers.Number) for kind in kinds):
            raise _refuse(label, f"holds complex numbers ({found})", _SPLIT_COMPLEX)
        mixed = f"mixes objects of type {found}" if len(kinds) > 1 else f"holds objects ({found})"
        raise _refuse(label, mixed, _ONE_TYPE)
    cells = [
        np.nan if gap else _float(label, row, value)
        for row, (value, gap) in enumerate(zip(values, missing, strict=True))
    ]
    what: Kind = "boolean" if boolean else "integer" if integer else "real"
    read = np.array(cells, dtype=np.float64)
    if what == "integer":
        refuse_rounded(label, read, values)
    return Reading(label, what, dtype, read, values)


def _float(label: object, row: int, value: Native) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(
            f"Column {str(label)!r} has a number in row {row} that is larger than double precision "
            "can hold: give it other units, or drop it"
        ) from None


def refuse_rounded(
    label: object, numbers: Floats, given: Sequence[Native] | nw.Series[Native] | Array
) -> None:
    """Raise for whole numbers beyond 2**53, where doubles cannot distinguish neighbours."""
    with np.errstate(invalid="ignore"):
        large = np.flatnonzero(np.abs(numbers) >= EXACT_WHOLE)
    if not len(large):
        return
    cells = given.to_list() if isinstance(given, nw.Series) else given
    for row in large.tolist():
        value = int(cells[row])
        if value != int(numbers[row]):
            raise ValueError(
                f"Column {str(label)!r} has whole numbers beyond 2**53, which double precision "
                f"cannot tell apart ({value} in row {row}): subtract a constant, e.g. its least "
                "value, or drop it if it is an identifier"
            )


def _nulls(series: nw.Series[Native]) -> Bools:
    try:
        return np.asarray(series.is_null().to_numpy()).astype(bool)
    except decimal.InvalidOperation:
        # a signalling NaN refuses even the question whether it equals itself
        return np.array([is_missing(cell) for cell in series.to_list()], dtype=bool)


def _numbers(series: nw.Series[Native]) -> Floats:
    if series.implementation.is_pandas():
        return np.array(series.to_native().to_numpy(dtype=np.float64, na_value=np.nan))
    return np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _declared_levels(series: nw.Series[Native]) -> tuple[object, ...] | None:
    native: Native = series.to_native()
    if series.implementation.is_pandas() and hasattr(native.dtype, "categories"):
        return tuple(native.dtype.categories.tolist())
    if series.implementation.is_polars() and hasattr(native.dtype, "categories"):
        categories = native.dtype.categories
        # polars 1 and 2 give a plain Categorical an object here that is not a list of strings
        return tuple(categories.to_list()) if hasattr(categories, "to_list") else None
    if series.implementation.is_pyarrow():
        unified = native.unify_dictionaries()
        return tuple(unified.chunk(0).dictionary.to_pylist())
    return None


@dataclass(frozen=True)
class Vector:
    """A column passed by itself as the parameter ``what``; ``name`` is its own, else ``what``."""

    what: str
    name: str
    reading: Reading

    def numbers(self) -> Floats:
        if self.reading.numbers is None:
            named = "" if self.name == self.what else f" (column {self.name!r})"
            first = next((value for value in self.reading.values if not is_missing(value)), "")
            raise TypeError(
                f"{self.what}{named} holds strings or classes, such as {first!r}; it must be "
                "numbers."
            )
        return self.reading.numbers

    def labels(self) -> list[object]:
        if self.reading.numbers is not None:
            return [None if np.isnan(value) else value for value in self.reading.numbers]
        missing = self.reading.missing
        values = list(self.reading.values)
        if missing is None:
            return values
        return [None if gap else value for value, gap in zip(values, missing, strict=True)]


def read_vector(values: object, what: str, *, labels: bool = False) -> Vector:
    """Read one value per row; of ``labels`` only equality matters."""
    try:
        return _read(values, what, labels=labels)
    except (TypeError, ValueError) as error:
        # the readers speak of columns; this one is known by its parameter
        message = str(error)
        if message.startswith("Column ") and repr(what) in message:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            text = message[message.index(repr(what)) + len(repr(what)) :]
            if "with_columns" in text:
                text = f"{text[: text.index(' Make ')]} {_ENCODE_TIME}, or drop it."
            raise kind(argument(what) + text.replace(f"X[{what!r}]", what)) from None
        raise


def _read_series(series: nw.Series[Native], what: str, *, labels: bool) -> Reading:
    plain = series.dtype.is_float() or series.dtype in (nw.Boolean, nw.List, nw.Array, nw.Struct)
    if labels and not plain:
        return _labels(what, series.to_list())
    return read_column(what, series)


def _labels(what: str, cells: Sequence[object]) -> Reading:
    """Read labels of which only matters which are the same: dates, tuples and words alike."""
    for row, cell in enumerate(cells):
        try:
            hash(cell)
        except TypeError:
            raise TypeError(
                f"{what} holds a {type(cell).__name__} in row {row}, and labels must be numbers, "
                "strings, dates or tuples of them"
            ) from None
    absent = np.array([is_missing(cell) for cell in cells], dtype=bool)
    return Reading(what, "categorical", None, None, cells, absent)


def _read(values: object, what: str, *, labels: bool) -> Vector:
    if sparse.issparse(values):
        raise TypeError(f"{argument(what)} is a sparse matrix; pass {what}.toarray().ravel()")
    refuse_dataset(values, what)
    if is_series(values):
        series = as_series(values)
        name = getattr(values, "name", None)
        read = _read_series(series, what, labels=labels)
        return Vector(what, what if name in (None, "") else str(name), read)
    array_like = isinstance(values, (list, tuple, np.ndarray, range))
    if not array_like and is_table(values):
        opened = open_frame(values, what)
        if opened is not None:
            _, names, columns, _ = opened
            if len(columns) != 1:
                raise ValueError(_not_one_column(what, len(columns)))
            read = _read_series(columns[0], what, labels=labels)
            return Vector(what, str(names[0]), read)
    if isinstance(values, (str, bytes, dict, set)) or not (
        array_like or hasattr(values, "__array__") or hasattr(values, "__len__")
    ):
        raise TypeError(
            f"{argument(what)} is of type {type(values).__name__}: pass a list, an array or a "
            "Series, or the name of a column"
        )
    try:
        # asanyarray: a masked value must not come through as the number under its mask
        array: Array = np.asanyarray(values)
        if labels and isinstance(values, (list, tuple)) and array.dtype.kind not in "iubf":
            array = objects(values)
        if isinstance(array, np.matrix):
            # which never has one dimension
            array = np.asarray(array)
    except ValueError as error:
        raise ValueError(
            f"{argument(what)} has elements of different lengths; pass one value each."
        ) from error
    if isinstance(values, (list, tuple)) and array.dtype.kind in "US":
        array = np.asarray(values, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        raise ValueError(_not_one_column(what, array.shape[1]))
    if array.ndim != 1:
        raise ValueError(
            f"{argument(what)} has {array.ndim} dimensions; it must have one value per row."
        )
    if array.dtype.names is not None:
        raise TypeError(
            f"{argument(what)} is a structured array: pass one of its fields, e.g. {what}['a']."
        )
    if labels and array.dtype.kind not in "bf":
        # what a mask covers comes out as None; tolist() makes integers of nanoseconds
        cells = list(array) if array.dtype.kind in "mM" else array.tolist()
        return Vector(what, what, _labels(what, cells))
    return Vector(what, what, read_array_column(what, array))


def refuse_gaps(name: str, gaps: Bools, what: str, remedy: str) -> None:
    if gaps.any():
        raise ValueError(
            f"{name} has {int(gaps.sum())} {what}, the first in row {int(gaps.argmax())}: {remedy}"
        )


def check_rows(what: str, count: int, n_rows: int, hint: str = "") -> None:
    if count != n_rows:
        raise ValueError(
            f"{TABLE} has {n_rows} rows and {argument(what)} has {count} values; they must be the "
            f"same rows.{hint}"
        )


def _not_one_column(what: str, n_columns: int) -> str:
    end = " Explain them one at a time." if what == "y" else ""
    return f"{argument(what)} has {n_columns} columns; it must have one.{end}"


def read_array_column(label: str, values: Array) -> Reading:
    code = values.dtype.kind
    if code in "fiub":
        kind = {"f": "real", "b": "boolean"}.get(code, "integer")
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        with np.errstate(over="ignore"):
            numbers = values.astype(np.float64)
        if code in "iu":
            refuse_rounded(label, numbers, values)
        return Reading(label, kind, values.dtype, numbers=numbers)  # type: ignore[arg-type]
    # tolist() would turn nanosecond dates into plain integers
    cells = values.tolist() if code == "U" else list(values)
    missing = np.array([is_missing(cell) for cell in cells], dtype=bool)
    if missing.all():
        return Reading(label, "real", np.dtype(object), np.full(len(cells), np.nan), cells)
    return read_objects(label, cells, missing, np.dtype(object))


def is_missing(cell: object) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, decimal.Decimal):
        return cell.is_nan()
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    return isinstance(cell, (float, np.floating)) and bool(np.isnan(cell))
