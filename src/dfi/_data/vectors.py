"""One value per row, from a list, an array, a Series of any library or a one-column table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._data.columns import Reading, read_column, read_objects
from dfi._data.frames import as_series, is_series, is_table, open_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi._types import Floats


@dataclass(frozen=True)
class Vector:
    """A column that was given on its own.

    Attributes
    ----------
    what : str
        The parameter it came by, for messages.
    name : str
        The name of the Series or column, else ``what``.
    reading : Reading
        Its values.
    """

    what: str
    name: str
    reading: Reading

    def numbers(self) -> Floats:
        """Return the values as float64, NaN where they are missing; refuse classes."""
        if self.reading.numbers is None:
            raise TypeError(f"{self.what} holds strings or classes; it must be numbers.")
        return self.reading.numbers

    def labels(self) -> list[object]:
        """Return the values as objects, None where they are missing."""
        if self.reading.numbers is not None:
            return [None if np.isnan(value) else value for value in self.reading.numbers]
        missing = self.reading.missing
        values = list(self.reading.values)
        if missing is None:
            return values
        return [None if gap else value for value, gap in zip(values, missing, strict=True)]


def read_vector(values: Any, what: str) -> Vector:
    """Read one value per row.

    Raises
    ------
    TypeError
        For complex numbers, dates, nested or mixed values.
    ValueError
        For anything that is not one-dimensional or a single column.
    """
    try:
        return _read(values, what)
    except TypeError as error:
        # the readers speak of columns; this one is known by its parameter
        message = str(error)
        if message.startswith("Column "):
            raise TypeError(
                f"{what}{message[message.index(repr(what)) + len(repr(what)) :]}"
            ) from None
        raise


def _read(values: Any, what: str) -> Vector:
    if is_series(values):
        series = as_series(values)
        name = getattr(values, "name", None)
        return Vector(what, what if name in (None, "") else str(name), read_column(what, series))
    array_like = isinstance(values, (list, tuple, np.ndarray, range))
    if not array_like and is_table(values):
        opened = open_frame(values, what)
        if opened is not None:
            _, labels, columns, _ = opened
            if len(columns) != 1:
                raise ValueError(_not_one_column(what, len(columns)))
            return Vector(what, str(labels[0]), read_column(what, columns[0]))
    if isinstance(values, (str, bytes, dict, set)) or not (
        array_like or hasattr(values, "__array__") or hasattr(values, "__len__")
    ):
        raise TypeError(f"{what} is a {type(values).__name__}; pass a list, an array or a Series.")
    try:
        # asanyarray: a masked value must not come through as the number under its mask
        array: NDArray[Any] = np.asanyarray(values)
    except ValueError as error:
        raise ValueError(
            f"{what} has elements of different lengths; pass one value each."
        ) from error
    if isinstance(values, (list, tuple)) and array.dtype.kind in "US":
        array = np.asarray(values, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        raise ValueError(_not_one_column(what, array.shape[1]))
    if array.ndim != 1:
        raise ValueError(f"{what} has {array.ndim} dimensions; it must have one value per row.")
    return Vector(what, what, read_array_column(what, array))


def _not_one_column(what: str, n_columns: int) -> str:
    return f"{what} has {n_columns} columns; it must be one. Explain them one at a time."


def read_array_column(label: str, values: NDArray[Any]) -> Reading:
    """Read one column of a numpy array."""
    code = values.dtype.kind
    if code in "fiub":
        kind = {"f": "real", "b": "boolean"}.get(code, "integer")
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        with np.errstate(over="ignore"):
            numbers = values.astype(np.float64)
        return Reading(label, kind, values.dtype, numbers=numbers)  # type: ignore[arg-type]
    # tolist() would turn nanosecond dates into plain integers
    cells = values.tolist() if code == "U" else list(values)
    missing = np.array([_is_missing(cell) for cell in cells], dtype=bool)
    if missing.all():
        return Reading(label, "real", values.dtype, numbers=np.full(len(cells), np.nan))
    return read_objects(label, cells, missing, np.dtype(object))


def _is_missing(cell: object) -> bool:
    if cell is None or type(cell).__name__ == "NAType":
        return True
    return isinstance(cell, (float, np.floating)) and bool(np.isnan(cell))
