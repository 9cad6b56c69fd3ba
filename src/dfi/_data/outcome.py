"""The outcome: one finite number per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._data.columns import read_vector
from dfi._data.levels import constant_columns
from dfi.warnings import OutcomeWarning, warn

if TYPE_CHECKING:
    from dfi._types import Bools, Floats

OutcomeKind = Literal["real", "binary", "count"]

# Integers with so few different values are classes more often than quantities.
_FEW_CLASSES = 10


@dataclass(frozen=True, eq=False)
class Outcome:
    """The values to be explained, finite and not all equal, under the name that they came by.

    Binary: only 0 and 1. Count: non-negative integers, given as integers.
    """

    values: Floats
    name: str
    kind: OutcomeKind


def read_outcome(y: object, n_rows: int, kept: Bools | None = None) -> Outcome:
    """Read the outcome of the ``kept`` rows (None: all).

    Booleans are explained as the probability of True, with a warning.
    """
    vector = read_vector(y, "y")
    reading = vector.reading
    if reading.kind == "categorical":
        levels = [repr(level) for level in sorted(reading.observed(), key=str)]
        shown = ", ".join(levels[:5]) + (", ..." if len(levels) > 5 else "")
        raise TypeError(
            f"y holds classes or strings ({shown}) and dfi explains a quantity. Encode two classes "
            f"as 0 and 1, e.g. (y == {levels[-1]}).astype(float), to explain a probability; "
            "explain more classes one against the rest."
        )
    values = vector.numbers()
    if len(values) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows and y has {len(values)} values; they must be the same rows."
        )
    if n_rows == 0:
        raise ValueError("y has no values.")
    used = np.ones(n_rows, dtype=bool) if kept is None else kept
    bad = ~np.isfinite(values) & used
    if bad.any():
        raise ValueError(
            f"y has {int(bad.sum())} missing (NaN, null) or infinite values, the first in row "
            f"{int(bad.argmax())}. Drop those rows from X and y: what has no outcome cannot be "
            "explained."
        )
    values = values if kept is None else values[kept]
    distinct = np.unique(values)
    if constant_columns(distinct[:, None])[0]:
        raise ValueError(
            f"y is constant (every value is {distinct[0]:.6g}): there is nothing to explain."
        )
    if reading.kind == "boolean":
        warn(
            "y is boolean; it is explained as the probability of True. "
            "Pass y.astype(float) to say that this is meant.",
            OutcomeWarning,
        )
        return Outcome(values, vector.name, "binary")
    if len(distinct) == 2 and distinct[0] == 0 and distinct[1] == 1:
        return Outcome(values, vector.name, "binary")
    if reading.kind != "integer":
        return Outcome(values, vector.name, "real")
    if 3 <= len(distinct) <= _FEW_CLASSES:
        shown = ", ".join(f"{value:.0f}" for value in distinct)
        warn(
            f"y holds integers with only {len(distinct)} different values ({shown}): they look "
            "like classes, and are explained as a quantity. If they are classes, explain one "
            f"against the rest, e.g. (y == {distinct[-1]:.0f}).astype(float); if they are a "
            "quantity, pass y.astype(float).",
            OutcomeWarning,
        )
    return Outcome(values, vector.name, "count" if distinct[0] >= 0 else "real")
