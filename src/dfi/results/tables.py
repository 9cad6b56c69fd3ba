"""The tables of a result: units in the rows, their inference in the columns."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._data import as_frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfi._types import Floats, Ints
    from dfi.inference.intervals import Alternative, Expansion
    from dfi.inference.multiplicity import Adjustment
    from dfi.inference.units import UnitInference


def unit_columns(
    units: UnitInference,
    default_level: float,
    *,
    level: float | None = None,
    alternative: Alternative = "greater",
    adjust: Adjustment | None = "holm",
    expansion: Expansion | None = None,
    simultaneous: bool = False,
) -> dict[str, Floats]:
    """Return score, se, ci_low, ci_high, z, p and p_adj of every unit.

    Parameters
    ----------
    units : UnitInference
        The units.
    default_level : float
        Confidence level where none is given.
    level, alternative, adjust, expansion, simultaneous
        As for :meth:`dfi.Importance.table`.
    """
    level = default_level if level is None else level
    intervals = units.intervals(level=level, expansion=expansion, simultaneous=simultaneous)
    tests = units.tests(level=level, alternative=alternative, adjust=adjust, expansion=expansion)
    return {"score": units.scores, "se": known_errors(units), **intervals, **tests}


def known_errors(units: UnitInference) -> Floats:
    """Return the standard errors: NaN where none can be estimated, 0 for unrelated units."""
    return np.where(units.known, units.errors, np.nan)


def unit_frame(
    names: Sequence[str],
    columns: Mapping[str, Floats],
    library: str,
    order: Ints | None = None,
) -> Any:
    """Return the columns beside the units' names as a dataframe, in an order of the rows."""
    full: dict[str, NDArray[Any]] = {"feature": np.array(names, dtype=object), **columns}
    rows = slice(None) if order is None else order
    return as_frame({key: np.array(values[rows]) for key, values in full.items()}, library)


def position_of(name: str, names: Sequence[str]) -> int:
    """Return the place of a unit; a name that is not there is refused with those like it."""
    if name in names:
        return names.index(name)
    close = difflib.get_close_matches(str(name), names)
    known = close or list(names[:10])
    lead = "did you mean" if close else "the first units are"
    raise ValueError(f"there is no unit {name!r}; {lead} {', '.join(map(repr, known))}")
