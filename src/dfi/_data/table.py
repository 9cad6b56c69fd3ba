"""Read any table into a numeric Table, and return its rows in the caller's dtypes."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy import sparse

from dfi._checks import did_you_mean
from dfi._data.columns import (
    Column,
    Kind,
    Reading,
    laid_out,
    read_array_column,
    read_column,
    refuse_rounded,
)
from dfi._data.everyday import NOTHING, Everyday, names_rows
from dfi._data.frames import (
    Library,
    build_frame,
    level_column,
    matrix_frame,
    number_column,
    open_frame,
    real_column,
    refuse_duplicates,
    sparse_bytes,
)
from dfi._data.levels import Levels, constant_columns, read_levels
from dfi._data.source import BLOCK_ROWS
from dfi._data.text import find_dates, find_numbers
from dfi._parameters import DROP, TABLE, InvalidParameterError, argument, worded
from dfi.warnings import ManyLevelsWarning, warn

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dfi._types import Array, Bools, Floats, Frame, Native

GIB = 2**30
_MANY_LEVELS = 50
# More levels than this are not worth a 0/1 column each where the rows are many: 4,000 of them at
# 20,000 rows take a quarter of an hour and 3 GiB.
_MOST_LEVELS = 500
_MOST_LEVEL_BYTES = 2**28

Missing = Literal["indicator", "error", "drop"]
"""What to do with missing values."""


def missing_remedy() -> str:
    away = worded(
        "Impute them, e.g. with sklearn.impute.SimpleImputer, or drop those rows or columns",
        "Leave such rows out with --missing drop, columns with --drop",
    )
    unit = argument("missing", "indicator")
    return f"{away}; {unit} scores a column's value and missingness together."


@dataclass(frozen=True, eq=False)
class Known:
    constant: Bools
    counted_constant: Bools
    levels: Levels


@dataclass(frozen=True, eq=False)
class Table:
    """A table of numbers that remembers the table it was read from.

    ``matrix`` is finite: numbers and booleans as they were, with an indicator beside those that
    have missing values; a category is one 0/1 column for two levels, else a one-hot block.
    ``header`` is the column index of a pandas frame, ``present`` marks rows whose values count as
    observed (None: all), ``known`` is what all rows showed of which these are a sample, ``gaps``
    are columns of numbers with missing values.
    """

    matrix: Floats
    columns: tuple[Column, ...]
    library: Library
    header: object = None
    present: Bools | None = None
    known: Known | None = None
    everyday: Everyday = NOTHING

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def gaps(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.fill is not None)

    @property
    def n_rows(self) -> int:
        return len(self.matrix)

    @property
    def n_columns(self) -> int:
        return len(self.columns)

    @property
    def matrix_names(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.matrix_names())

    @property
    def units(self) -> tuple[tuple[int, ...], ...]:
        return tuple(column.positions for column in self.columns)

    @cached_property
    def constant(self) -> Bools:
        return constant_columns(self.matrix) if self.known is None else self.known.constant

    @property
    def constant_units(self) -> Bools:
        return np.array([bool(self.constant[list(unit)].all()) for unit in self.units])

    @property
    def missing(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.missing)

    def where_missing(self, column: Column) -> Bools:
        if not column.missing:
            return np.zeros(self.n_rows, dtype=bool)
        # the indicator, and the last level, is the last of its matrix columns
        return np.asarray(self.matrix[:, column.positions[-1]] > 0.5)

    def seen(self, matrix: Floats) -> Floats:
        """Return decoded rows for models that take missing values: NaN, no indicators."""
        if not self.gaps:
            return matrix
        indicators = [column.positions[1] for column in self.gaps]
        kept = np.setdiff1d(np.arange(matrix.shape[1]), indicators)
        rows = np.ascontiguousarray(matrix[:, kept])
        for column in self.gaps:
            value, indicator = column.positions
            rows[matrix[:, indicator] > 0.5, np.searchsorted(kept, value)] = np.nan
        return rows

    @cached_property
    def levels(self) -> Levels:
        if self.known is not None:
            return self.known.levels
        return read_levels(self.matrix, self.columns, present=self.present)

    def without(self, absent: Bools) -> Table:
        """Return the table without levels that only some rows have, such as those of weight 0."""
        return dataclasses.replace(self, present=~absent) if absent.any() else self

    def without_rows(self) -> Table:
        return dataclasses.replace(self, matrix=self.matrix[:0], present=None, known=None)

    def levels_with(self, names: Collection[str]) -> Levels:
        """Return the levels; some columns have them whatever their number of values."""
        taken = [column for column in self.columns if column.name in names]
        if all(column.positions[0] in self.levels.positions for column in taken):
            return self.levels
        return read_levels(self.matrix, self.columns, always=names, present=self.present)

    def frame(self, matrix: Floats, *, levels: Levels | None = None) -> Frame:
        """Return numeric rows as the caller's kind of table, levels decoded and dtypes kept."""
        levels = self.levels if levels is None else levels
        matrix = levels.nearest(matrix)
        numeric = all(column.kind != "categorical" for column in self.columns)
        if self.library == "numpy" and numeric:
            # an array has one dtype: it comes back only when every column has levels
            dtype: Native = self.columns[0].dtype
            whole = all(column.positions[0] in levels.positions for column in self.columns)
            return self.seen(matrix).astype(dtype) if whole else self.seen(matrix)
        if self.library == "pandas" and numeric and not levels:
            return matrix_frame(matrix, self.header)
        return build_frame(
            [column.label for column in self.columns],
            [self._native(column, matrix, levels) for column in self.columns],
            self.library,
            self.header,
        )

    def like(self, X: Frame) -> Table:
        _, labels, readings, _ = _open(self.everyday.read(X), max_dense_bytes=GIB, min_rows=1)
        found = dict(zip(map(str, labels), readings, strict=True))
        _require_same_names(self.names, tuple(found))
        _refuse_infinite(readings)
        known = {column.name for column in self.missing}
        new = [reading for reading in readings if reading.name not in known]
        _refuse_missing(new, "They had none before: impute them, or drop those rows.")
        blocks = []
        for column in self.columns:
            reading = found[column.name]
            if column.kind == "categorical":
                reading = reading.as_levels()
            if (reading.kind == "categorical") != (column.kind == "categorical"):
                raise TypeError(
                    f"Column {column.name!r} was {column.kind} and is {reading.kind} here; "
                    f"convert it to dtype {column.dtype}."
                )
            blocks.append(encoded(column, reading))
        return dataclasses.replace(self, matrix=np.hstack(blocks), present=None, known=None)

    def _native(self, column: Column, matrix: Floats, levels: Levels) -> Native:
        if column.kind == "categorical":
            codes = column.decode(matrix[:, list(column.positions)])
            return level_column(column, codes, self.library)
        values = np.ascontiguousarray(matrix[:, column.positions[0]])
        if column.fill is not None:
            values[matrix[:, column.positions[1]] > 0.5] = np.nan
        if column.positions[0] in levels.positions:
            return number_column(column, values, self.library)
        return real_column(column, values, self.library)


def read_table(X: Frame, *, missing: Missing = "indicator", max_dense_bytes: int = GIB) -> Table:
    """Read features from an array, frame, sparse matrix or list; its dense size is bounded."""
    return read_complete(X, missing=missing, max_dense_bytes=max_dense_bytes)[0]


def read_complete(
    X: Frame, *, missing: Missing = "indicator", max_dense_bytes: int = GIB
) -> tuple[Table, Bools | None]:
    library, _, readings, header = _open(X, max_dense_bytes=max_dense_bytes, min_rows=2)
    if missing == "error":
        _refuse_missing(readings, missing_remedy(), infinite=True)
    _refuse_infinite(readings)
    kept = None
    if missing == "drop":
        kept = ~functools.reduce(np.logical_or, (reading.gaps for reading in readings))
        readings = readings if kept.all() else _complete(readings, kept)
    columns = laid_out(
        Column(
            name=reading.name,
            label=reading.label,
            kind=reading.kind,
            levels=_checked_levels(reading) if reading.kind == "categorical" else (),
            dtype=reading.dtype,
            fill=reading.fill(),
            gap=reading.gap,
            declared=reading.declared,
        )
        for reading in readings
    )
    warn_many_levels({column.name: len(column.levels) for column in columns})
    if any(len(column.levels) > 2 for column in columns):
        _require_fits(len(readings[0]), columns, max_dense_bytes)
    table = Table(_stacked(columns, readings), columns, library, header)
    return table, None if kept is None or kept.all() else kept


def refused_columns(X: Frame) -> dict[str, str]:
    """Return why single columns of a data frame would be refused, by name, without warnings."""
    opened = open_frame(X)
    if opened is None:
        return {}
    found = {}
    for label, series in zip(opened[1], opened[2], strict=True):
        try:
            reading = read_column(label, series)
            _refuse_infinite([reading])
            if reading.kind == "categorical":
                _refuse_meant(reading)
                refuse_levels(reading.name, reading.levels(), _counted(reading))
        except (TypeError, ValueError) as error:
            found[str(label)] = str(error)
    return found


def _open(
    X: Frame, *, max_dense_bytes: int, min_rows: int
) -> tuple[Library, list[object], list[Reading], object]:
    needed = sparse_bytes(X)
    if sparse.issparse(X):
        needed = 8 * int(np.prod(X.shape, dtype=object))
    if needed > max_dense_bytes:
        raise ValueError(
            f"{TABLE} is sparse with shape {X.shape[0]} x {X.shape[1]} and would take "
            f"{needed / GIB:.3g} GiB as a dense table, more than the {max_dense_bytes / GIB:.3g} "
            "GiB allowed. Drop or combine columns."
        )
    X = X.toarray() if sparse.issparse(X) else X
    opened = open_frame(X)
    if opened is not None:
        library, labels, series, header = opened
        _require_size(len(series[0]) if series else 0, len(series), min_rows)
        refuse_duplicates([str(label) for label in labels])
        readings = [
            read_column(label, column) for label, column in zip(labels, series, strict=True)
        ]
        return library, labels, readings, header
    readings = _read_array(X, min_rows)
    return "numpy", [reading.label for reading in readings], readings, None


def _read_array(X: Frame, min_rows: int) -> list[Reading]:
    try:
        array: Array = np.ma.asarray(X) if np.ma.isMaskedArray(X) else np.asarray(X)
        if not hasattr(X, "dtype") and array.dtype.kind in "USO":
            # a list of rows with words in it: the numbers beside them stay numbers
            array = np.asarray(X, dtype=object)
    except ValueError as error:
        raise ValueError(f"{TABLE} is a list of rows of different lengths.") from error
    if array.dtype.names is not None:
        raise TypeError(
            f"{TABLE} is a structured array: pass a data frame, or one column per field."
        )
    if array.ndim == 1 and len(array) and isinstance(array[0], dict):
        raise TypeError(f"{TABLE} is a list of dicts: pass a data frame, e.g. pandas.DataFrame(X).")
    if array.ndim != 2:
        remedy = (
            "reshape it with X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is a row"
            if array.ndim == 1
            else "reshape it to one row per observation"
        )
        raise ValueError(f"{TABLE} must have two dimensions and has {array.ndim}: {remedy}.")
    _require_size(array.shape[0], array.shape[1], min_rows)
    labels = [f"x{j}" for j in range(array.shape[1])]
    if array.dtype.kind in "fiub" and not np.ma.isMaskedArray(array):
        return _read_numbers(array, labels)
    return [read_array_column(label, array[:, j]) for j, label in enumerate(labels)]


def _read_numbers(array: Array, labels: Sequence[str]) -> list[Reading]:
    """Read an array of numbers: columns are views of one float64 copy, the later matrix."""
    kinds: dict[str, Kind] = {"f": "real", "b": "boolean", "i": "integer", "u": "integer"}
    with np.errstate(over="ignore"):
        matrix = np.array(array, dtype=np.float64, order="C")
    if array.dtype.kind in "iu":
        for j, label in enumerate(labels):
            refuse_rounded(label, matrix[:, j], array[:, j])
    finite = np.ones(len(labels), dtype=np.bool_)
    for start in range(0, len(matrix), BLOCK_ROWS):
        finite &= np.isfinite(matrix[start : start + BLOCK_ROWS]).all(axis=0)
    return [
        Reading(label, kinds[array.dtype.kind], array.dtype, matrix[:, j], finite=bool(finite[j]))
        for j, label in enumerate(labels)
    ]


def _stacked(columns: Sequence[Column], readings: Sequence[Reading]) -> Floats:
    """Return the matrix of all columns: the one they are views of, where there is one."""
    whole = _common_base(readings)
    if whole is not None and whole.shape[1] == sum(column.width for column in columns):
        return whole
    return np.ascontiguousarray(
        np.hstack([encoded(c, r) for c, r in zip(columns, readings, strict=True)])
    )


def _common_base(readings: Sequence[Reading]) -> Floats | None:
    first = readings[0].numbers
    base = None if first is None else first.base
    if not isinstance(base, np.ndarray) or base.ndim != 2 or base.shape[1] != len(readings):
        return None
    if not all(reading.finite for reading in readings):
        return None
    return base if all(r.numbers is not None and r.numbers.base is base for r in readings) else None


def _complete(readings: Sequence[Reading], kept: Bools) -> list[Reading]:
    if kept.sum() < 2:
        worst = max(readings, key=lambda reading: int(reading.gaps.sum()))
        raise InvalidParameterError(
            f"{argument('missing', 'drop')} leaves {int(kept.sum())} of {len(kept)} rows of "
            f"{TABLE}: every other row has a missing value ({worst.name!r} has "
            f"{int(worst.gaps.sum())}).",
            "missing",
            f"{worded('Drop such columns', 'Leave such columns out with --drop')}, or use "
            f"{argument('missing', 'indicator')}.",
        )
    rows = np.flatnonzero(kept)
    return [reading.take(rows) for reading in readings]


def encoded(column: Column, reading: Reading) -> Floats:
    if reading.numbers is None:
        return column.encode(reading.codes(column.levels))
    if column.fill is None:
        return reading.numbers[:, None]
    return np.column_stack([np.where(reading.gaps, column.fill, reading.numbers), reading.gaps])


def _require_size(n_rows: int, n_columns: int, min_rows: int) -> None:
    if n_columns == 0:
        raise ValueError(f"{TABLE} has no columns.")
    if n_rows == 0:
        raise ValueError(f"{TABLE} has no rows.")
    if n_rows < min_rows:
        raise InvalidParameterError(
            f"{TABLE} has one row; an importance needs many.",
            "X",
            worded("If it is a column, pass X.T.", "Give a line for each observation."),
        )


def _refuse_missing(readings: Sequence[Reading], remedy: str, *, infinite: bool = False) -> None:
    """Raise for missing values, naming columns, counts and first rows (of infinite ones too)."""
    if not any(reading.gaps.any() for reading in readings):
        return
    found = [text for reading in readings for text in _holes(reading, infinite=infinite)]
    what = f"missing (NaN, null){' or infinite' * infinite} values"
    message = f"{TABLE} has {what} in {listed_holes(found)}."
    raise InvalidParameterError(message, "X", remedy)


def _refuse_infinite(readings: Sequence[Reading]) -> None:
    refuse_infinite(
        [text for reading in readings for text in _holes(reading, missing=False, infinite=True)]
    )


def refuse_infinite(found: Sequence[str]) -> None:
    if found:
        raise ValueError(
            f"{TABLE} has infinite values in {listed_holes(found)}. Give them finite numbers, or "
            "drop those rows or columns."
        )


def _holes(reading: Reading, *, missing: bool = True, infinite: bool = False) -> list[str]:
    places: dict[str, Bools] = {"missing": reading.gaps} if missing else {}
    if infinite and reading.numbers is not None and not reading.finite:
        places["infinite"] = np.isinf(reading.numbers)
    return [
        f"{reading.name!r} ({int(where.sum())} {what}, first in row {int(where.argmax())})"
        for what, where in places.items()
        if where.any()
    ]


def listed_holes(found: Sequence[str]) -> str:
    return ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")


def _checked_levels(reading: Reading) -> tuple[object, ...]:
    levels = reading.levels()
    _refuse_meant(reading)
    refuse_levels(reading.name, levels, _counted(reading))
    return levels


class Counted(NamedTuple):
    """Different values of a column, rows that have one, and all rows."""

    different: int
    filled: int
    all: int


def _counted(reading: Reading) -> Counted:
    n = len(reading)
    return Counted(len(reading.observed()), n - int(np.count_nonzero(reading.gaps)), n)


def _refuse_meant(reading: Reading) -> None:
    if reading.text:
        cells = zip(reading.values, reading.gaps, strict=True)
        refuse_text(reading.name, [value for value, gap in cells if not gap])


def refuse_text(name: str, values: Sequence[object]) -> None:
    """Raise if a column of text was meant as numbers or dates, and name the remedies."""
    dates = find_dates(values)
    if dates is not None:
        here = dates.in_pandas(f"X[{name!r}]")
        raise _text_error(name, dates.words(), worded(here, dates.remedy()))
    found = find_numbers(values)
    if found is not None:
        plain = f"make it numbers, e.g. {found.remedy(f'X[{name!r}]')}"
        raise _text_error(name, found.words(), worded(plain, "write it as numbers"))


def _text_error(name: str, what: str, remedy: str) -> InvalidParameterError:
    classes = worded(
        f"declare its values to be classes, e.g. X[{name!r}].astype('category')",
        "name the column with --categorical if its values are classes",
    )
    return InvalidParameterError(f"Column {name!r} {what}", "X", f"{remedy}, or {classes}.")


def warn_many_levels(counts: Mapping[str, int]) -> None:
    """Warn once of all columns with many levels."""
    many = {name: count for name, count in counts.items() if count > _MANY_LEVELS}
    if not many:
        return
    listed = listed_holes([f"{name!r} ({count})" for name, count in many.items()])
    what = f"Columns with many levels: {listed}"
    if len(many) == 1:
        ((name, count),) = many.items()
        what = f"Column {name!r} has {count} levels"
    warn(
        f"{what}. The model sees them all; the transport merges those below 1 % of the rows. Merge "
        f"rare ones{worded('', ' with --max-levels')} if the run is slow or the model poor.",
        ManyLevelsWarning,
    )


def refuse_levels(name: str, levels: Sequence[object], rows: Counted) -> None:
    if names_rows(rows.different, rows.filled):
        raise identifier_error(name, str(rows.different), f" in {rows.filled} rows")
    if len(levels) > _MOST_LEVELS and 8 * rows.all * len(levels) > _MOST_LEVEL_BYTES:
        few = max(2, rows.all // 200)
        pool = worded(
            f", e.g. rare = X[{name!r}].map(X[{name!r}].value_counts()) < {few}; "
            f"X[{name!r}] = X[{name!r}].mask(rare, 'other')",
            " with --max-levels 50",
        )
        raise InvalidParameterError(
            f"Column {name!r} has {len(levels)} levels in {rows.all} rows, too many to move rows "
            "between them.",
            "X",
            f"Put the rare ones into one level{pool}, or {worded(*DROP)}.",
        )


def identifier_error(name: str, count: str, where: str = "") -> InvalidParameterError:
    return InvalidParameterError(
        f"Column {name!r} has {count} different values{where}: it looks like an identifier.",
        "X",
        worded(
            "Drop it, or group its values into fewer levels, such as the first letters of a code: "
            f"X[{name!r}] = X[{name!r}].str[:2].",
            "Leave it out with --drop, or keep its most frequent values with --max-levels.",
        ),
    )


def _require_fits(n_rows: int, columns: Sequence[Column], limit: int) -> None:
    needed = 8 * n_rows * sum(column.width for column in columns)
    if needed > limit:
        widest = max(columns, key=lambda column: column.width)
        raise ValueError(
            f"The one-hot columns of {TABLE} would take {needed / GIB:.3g} GiB, more than the "
            f"{limit / GIB:.3g} GiB allowed; column {widest.name!r} alone has {widest.width} "
            "levels. Group its values into fewer levels."
        )


def _require_same_names(expected: tuple[str, ...], found: tuple[str, ...]) -> None:
    absent = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    if not absent and not extra:
        return
    parts = []
    if absent:
        hint = did_you_mean(absent[0], extra).replace("; ", " (")
        parts.append(f"lacks {', '.join(map(repr, absent[:5]))}{hint and hint + ')'}")
    if extra:
        parts.append(f"has the unknown {', '.join(map(repr, extra[:5]))}")
    more = len(expected) - 10
    names = ", ".join(expected[:10]) + (f" and {more} more" if more > 0 else "")
    raise ValueError(f"{TABLE} {' and '.join(parts)}; its columns must be {names}.")
