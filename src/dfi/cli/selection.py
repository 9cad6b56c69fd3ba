"""The roles of columns: outcome, weights, time, groups of rows, and the features that remain."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl
from sklearn.model_selection import TimeSeriesSplit

from dfi.cli.failures import REFUSED, Failure

if TYPE_CHECKING:
    from dfi.cli.console import Console


@dataclass(frozen=True)
class Selection:
    """A table taken apart by the roles of its columns.

    Attributes
    ----------
    features : polars.DataFrame
        The columns to explain by.
    target : polars.Series
        The outcome.
    weights, row_groups : polars.Series or None
        Weights, and labels of rows that stay together in one fold.
    cv : int or splitter
        How rows are split.
    """

    features: pl.DataFrame
    target: pl.Series
    weights: pl.Series | None
    row_groups: pl.Series | None
    cv: Any


def split_names(names: list[str] | None) -> list[str]:
    """Return the names of options that may be repeated or separated by commas."""
    return [part.strip() for entry in names or [] for part in entry.split(",") if part.strip()]


def select(
    frame: pl.DataFrame,
    *,
    target: str,
    drop: list[str],
    weights: str | None,
    time: str | None,
    row_groups: str | None,
    folds: int,
    missing: str,
    console: Console,
) -> Selection:
    """Take a table apart.

    Parameters
    ----------
    frame : polars.DataFrame
        The table.
    target, weights, time, row_groups : str
        Names of columns; those of special use are no features.
    drop : list of str
        Columns to leave out.
    folds : int
        Number of folds.
    missing : {"error", "drop"}
        What happens to rows with missing values.
    console : Console
        Where it is said how many rows were left out.
    """
    roles = {"target": target, "weights": weights, "time": time, "cv-groups": row_groups}
    for role, name in roles.items():
        if name is not None:
            _require(frame, name, f"--{role}")
    for name in drop:
        _require(frame, name, "--drop")
    if target in drop:
        raise Failure(f"the target {target!r} is also named by --drop", REFUSED)
    special = {name for name in roles.values() if name is not None}
    kept = [name for name in frame.columns if name not in {*drop, *special}]
    if not kept:
        raise Failure("no feature is left: every column is the target or left out", REFUSED)
    frame = frame.select([*kept, *special])
    frame = _without_missing(frame, missing, console)
    if time is not None:
        frame = frame.sort(time, maintain_order=True)
    cv: Any = TimeSeriesSplit(n_splits=folds) if time is not None else folds
    return Selection(
        features=frame.select(kept),
        target=_numeric(frame[target]),
        weights=None if weights is None else frame[weights],
        row_groups=None if row_groups is None else frame[row_groups],
        cv=cv,
    )


def _require(frame: pl.DataFrame, name: str, option: str) -> None:
    if name in frame.columns:
        return
    by_case = [column for column in frame.columns if column.lower() == name.lower()]
    close = by_case or difflib.get_close_matches(name, frame.columns, n=3)
    listed = close or frame.columns[:10]
    lead = "did you mean" if close else "the columns are"
    end = "?" if close else ", ..." if len(frame.columns) > len(listed) else ""
    raise Failure(
        f"{option}: there is no column {name!r}; {lead} {', '.join(map(repr, listed))}{end}",
        REFUSED,
    )


def _numeric(target: pl.Series) -> pl.Series:
    if target.dtype == pl.Boolean or target.dtype.is_numeric():
        return target
    example = target.drop_nulls().head(1).to_list()
    shown = f" (for instance {str(example[0])[:30]!r})" if example else ""
    raise Failure(
        f"the target {target.name!r} is not numeric{shown}: it must be a quantity or 0/1", REFUSED
    )


def _without_missing(frame: pl.DataFrame, missing: str, console: Console) -> pl.DataFrame:
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    frame = frame.with_columns(pl.col(floats).fill_nan(None)) if floats else frame
    counts = frame.null_count().row(0, named=True)
    holes = {name: count for name, count in counts.items() if count}
    if not holes:
        return frame
    if missing == "drop":
        whole = frame.drop_nulls()
        if whole.height == 0:
            raise Failure("every row has a missing value; drop columns with --drop", REFUSED)
        console.warn(
            f"{frame.height - whole.height} of {frame.height} rows with missing values left out"
        )
        return whole
    worst, *others = sorted(holes, key=lambda name: -holes[name])
    named = [f"{name!r} has {holes[name]}" for name in others[:3]]
    if len(others) > 3:
        named.append(f"{len(others) - 3} more columns have some")
    more = f" ({', '.join(named)})" if named else ""
    values = "value" if holes[worst] == 1 else "values"
    raise Failure(
        f"column {worst!r} has {holes[worst]} missing {values}{more}: "
        "leave such rows out with --missing drop, columns with --drop, or fill them first",
        REFUSED,
    )
