"""Split a table by the roles of its columns: target, weights, time, clusters, features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from sklearn.model_selection import TimeSeriesSplit

from dfi._data.everyday import NAMES_ROWS, counters
from dfi._data.frames import is_stored_index
from dfi._data.text import spelling
from dfi.cli.columns import (
    days,
    is_time,
    meant_lazily,
    require_column,
    text_features,
    with_dates,
    with_fewer_levels,
    with_numbers,
)
from dfi.cli.console import Refused
from dfi.cli.options import split_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi.cli.console import Console
    from dfi.cli.options import Request


@dataclass(frozen=True)
class Selection:
    features: pl.DataFrame
    target: pl.Series
    others: dict[str, pl.Series]
    """Events, weights and clusters, by the option that names their column."""
    cv: int | TimeSeriesSplit
    blocks: dict[str, list[str]]
    """The columns of the parts of each date that is one unit."""


def select(frame: pl.DataFrame, request: Request, console: Console) -> Selection:
    """Split a table: columns that are neither dropped nor named by a role are features."""
    target, time = request.target, request.time
    drop = _check_names(frame.columns, request)
    named = list(dict.fromkeys(filter(None, request.roles.values())))
    left_out = {*drop, *named, *filter(is_stored_index, frame.columns)}
    features = [name for name in frame.columns if name not in left_out]
    if not features:
        raise Refused("no feature is left: every column is the target or left out")
    frame = with_numbers(frame.select([*features, *named]), features, request, console)
    _check_roles(frame, request)
    floats = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    frame = frame.with_columns(pl.col(floats).fill_nan(None)) if floats else frame
    if request.missing == "error":
        _refuse_missing(frame, frame.columns)
    unnamed = [name for name in features if not NAMES_ROWS.search(name)]
    if frame[target].null_count() and (counts_rows := counters(frame.select(unnamed))):
        # they count all rows, those without an outcome too; a name says it later as well
        features = [name for name in features if name not in counts_rows]
        if not features:
            raise Refused("no feature is left: every column counts the rows")
        told = ", ".join(f"{name} ({why})" for name, why in counts_rows.items())
        console.say(f"left out: {told}")
        frame = frame.drop(list(counts_rows))
    # what has no outcome cannot be explained; a row's weight, time or label may not be guessed
    frame = _without(frame, [target] if request.missing == "indicator" else named, console)
    _refuse_missing(frame, named)
    if time is not None:
        frame = frame.sort(time, maintain_order=True)
    table, blocks = with_dates(
        text_features(frame.select(features), request), features, request, console
    )
    if not table.width:
        raise Refused("no feature is left: every column holds dates, and they are dropped")
    return Selection(
        features=with_fewer_levels(table, table.columns, request, console),
        target=_explainable(frame[target]),
        others={
            role: frame[name]
            for role, name in request.roles.items()
            if name is not None and role not in ("target", "time")
        },
        cv=request.folds if time is None else TimeSeriesSplit(n_splits=request.folds),
        blocks=blocks,
    )


def select_lazily(frame: pl.LazyFrame, request: Request, console: Console) -> pl.LazyFrame:
    """Leave out columns and rows of a table that is not in memory, as :func:`select` does."""
    for option, name in (
        ("--time", request.time), ("--clusters", request.clusters), ("--event", request.event)
    ):  # fmt: skip
        if name is not None:
            raise Refused(
                f"{option} needs all rows at once, but {request.data} is read in parts: give one "
                "file of some of the rows"
            )
    for option, asked in (
        ("--dates parts", request.dates == "parts"),
        ("--numbers marked", request.numbers == "marked"),
        ("--max-levels", request.max_levels is not None),
    ):
        if asked:
            raise Refused(
                f"{option} looks at all values first, but {request.data} is read in parts: give "
                "one file of some of the rows, or write the column as you want it"
            )
    schema = frame.collect_schema()
    named = [request.target, request.weights, request.frequency_weights]
    drop = _check_names(schema.names(), request)
    classes, na_values = split_names(request.categorical), set(split_names(request.na_values))
    for name in classes:
        require_column(schema.names(), name, "--categorical")
    frame = frame.with_columns(
        meant_lazily(name, schema[name], na_values, classes=name in classes)
        for name in schema.names()
    )
    kept = [name for name in schema.names() if name not in drop]
    if not set(kept) - set(named):
        raise Refused("no feature is left: every column is the target or left out")
    floats = [name for name in kept if schema[name].is_float()]
    frame = frame.select(kept).with_columns(pl.col(floats).fill_nan(None))
    times = [name for name in kept if is_time(schema[name]) and name not in named]
    if request.dates == "drop":
        frame = frame.drop(times)
    elif request.dates == "days":
        frame = frame.with_columns([days(name, schema[name]) for name in times])
    target = pl.col(request.target)
    absent = int(frame.select(target.null_count()).collect().item())
    if absent and request.missing == "error":
        raise Refused(
            f"column {request.target!r} has {absent} missing values: leave such rows out with "
            "--missing drop, or fill them first"
        )
    if absent:
        console.warn(f"{absent} row{'s' * (absent > 1)} without {request.target!r} left out")
        frame = frame.filter(target.is_not_null())
    return frame


def _check_names(columns: Sequence[str], request: Request) -> list[str]:
    drop = split_names(request.drop)
    for option, name in request.roles.items():
        if name is not None:
            require_column(columns, name, f"--{option}")
    for name in drop:
        require_column(columns, name, "--drop")
    if request.target in drop:
        raise Refused(f"the target {request.target!r} is also named by --drop")
    for option, name in request.roles.items():
        if option != "target" and name == request.target:
            raise Refused(
                f"--{option} names the target {name!r}, which is explained: name another column"
            )
    return drop


def _check_roles(frame: pl.DataFrame, request: Request) -> None:
    for option in ("weights", "frequency-weights"):
        name = request.roles[option]
        if name is not None and not frame[name].dtype.is_numeric():
            raise Refused(
                f"--{option}: column {name!r} is not a column of numbers (for instance "
                f"{_first_odd(frame[name])!r})"
            )
    if request.time is None:
        return
    time = frame[request.time]
    if not (time.dtype.is_numeric() or time.dtype.is_temporal()):
        raise Refused(
            f"--time: column {request.time!r} is not a column of numbers or dates (for instance "
            f"{_first_odd(time)!r}), and text has no order in time: "
            "write dates as 2024-01-31, or number the rows"
        )
    if time.drop_nulls().n_unique() < 2:
        raise Refused(f"--time: column {request.time!r} has one value only")


def _first_odd(column: pl.Series) -> str:
    texts = map(str, column.drop_nulls().to_list())
    return next((text for text in texts if spelling(text) != ""), "")[:30]


def _explainable(target: pl.Series) -> pl.Series:
    labels = (pl.String, pl.Categorical, pl.Enum)
    if target.dtype == pl.Boolean or target.dtype.is_numeric() or target.dtype in labels:
        return target
    example = target.drop_nulls().head(1).to_list()
    shown = f" (for instance {str(example[0])[:30]!r})" if example else ""
    raise Refused(
        f"the target {target.name!r} is of type {target.dtype}{shown}: it must be a quantity, or "
        "labels of classes"
    )


def _without(frame: pl.DataFrame, names: list[str], console: Console) -> pl.DataFrame:
    for name in names:
        absent = frame[name].null_count()
        if absent == frame.height:
            raise Refused(f"column {name!r} is missing in every row")
        if absent:
            console.warn(f"{absent} row{'s' * (absent > 1)} without {name!r} left out")
            frame = frame.filter(pl.col(name).is_not_null())
    return frame


def _refuse_missing(frame: pl.DataFrame, columns: list[str]) -> None:
    counts = frame.select(columns).null_count().row(0, named=True)
    holes = {name: count for name, count in counts.items() if count}
    if not holes:
        return
    worst, *others = sorted(holes, key=lambda name: -holes[name])
    named = [f"{name!r} has {holes[name]}" for name in others[:3]]
    if len(others) > 3:
        named.append(f"{len(others) - 3} more columns have some")
    more = f" ({', '.join(named)})" if named else ""
    values = "value" if holes[worst] == 1 else "values"
    raise Refused(
        f"column {worst!r} has {holes[worst]} missing {values}{more}: "
        "leave such rows out with --missing drop, columns with --drop, or fill them first"
    )
