"""Results as plain columns, and columns as tables of the caller's library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from dfi._data import as_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dfi._types import Floats, Ints
    from dfi.inference.tests import Adjustment
    from dfi.results.importance import Importance

    Column = NDArray[Any]


def read_columns(frame: Any) -> dict[str, Column]:
    """Return the columns of a native table as arrays."""
    if isinstance(frame, dict):
        return {name: np.asarray(values) for name, values in frame.items()}
    table = nw.from_native(frame, eager_only=True)
    return {name: table[name].to_numpy() for name in table.columns}


def result_columns(
    result: Importance,
    *,
    level: float | None = None,
    adjust: Adjustment | None = "holm",
    simultaneous: bool = False,
) -> dict[str, Column]:
    """Return the table of a result in the order of its names, with a column ``significant``."""
    columns = read_columns(
        result.table(level=level, adjust=adjust, simultaneous=simultaneous, sort=False)
    )
    used = result.level if level is None else level
    # NaN (no standard error) compares as not significant
    columns["significant"] = columns["p_adj"] <= 1.0 - used
    return columns


def take(columns: Mapping[str, Column], rows: Ints) -> dict[str, Column]:
    """Return some rows of columns."""
    return {name: values[rows] for name, values in columns.items()}


def ranking(scores: Floats) -> Ints:
    """Return the units from the largest score to the smallest."""
    return np.argsort(-scores, kind="stable")


def frame_like(result: Importance, columns: Mapping[str, Any]) -> Any:
    """Return columns as a table of the library that the result answers in."""
    return as_frame(columns, result.library)
