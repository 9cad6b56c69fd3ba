"""Times to an event that were not all observed: read, checked and named once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.columns import Vector, read_vector, refuse_gaps
from dfi._data.frames import (
    check_same_order,
    is_table,
    open_frame,
    split_column,
    split_columns,
)
from dfi._parameters import TABLE, TARGET, InvalidParameterError, argument, worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Bools, Floats, Ints, Native, TableLike

FEWEST_EVENTS = 10
"""With fewer events before the horizon, nothing can be learned about them."""

FEWEST_AT_RISK = 0.1
"""Share of the rows that a proposed horizon leaves under observation."""


@dataclass(frozen=True, eq=False)
class Times:
    """How long each row was observed (``time``), and whether that ended with the ``event``."""

    time: Floats
    event: Bools
    names: tuple[str, str] = ("time", "event")

    def take(self, rows: Bools | Ints | None) -> Times:
        return self if rows is None else Times(self.time[rows], self.event[rows], self.names)

    def before(self, horizon: float) -> Bools:
        return np.asarray(self.event & (self.time <= horizon))

    def known(self, horizon: float) -> Bools:
        return np.asarray(self.event | (self.time >= horizon))

    def proposed(self) -> float:
        """Return a horizon up to which enough rows are under observation, in two digits."""
        latest = float(np.quantile(self.time, 1.0 - FEWEST_AT_RISK, method="lower"))
        unit = 10.0 ** (np.floor(np.log10(latest)) - 1.0) if latest > 0 else 1.0
        return float(f"{np.floor(latest / unit * (1.0 + 1e-12)) * unit:.12g}")


def are_times(y: object) -> bool:
    """Return whether an outcome is a structured array, as scikit-survival's are, or was read."""
    return isinstance(y, Times) or (isinstance(y, np.ndarray) and y.dtype.names is not None)


def read_times(
    X: TableLike, y: object, time: str | None = None, event: str | None = None
) -> tuple[TableLike, Times]:
    if isinstance(y, Times):
        return X, y
    if time is not None or event is not None:
        if time is None or event is None:
            absent = "time" if time is None else "event"
            raise InvalidParameterError(
                f"{argument('time', ...)} and {argument('event', ...)} name two columns of "
                f"{TABLE}, and {argument(absent)} is missing",
                absent,
            )
        if y is not None:
            raise InvalidParameterError(
                f"{argument('time')} and {argument('event')} take the place of the outcome", "y",
                "leave y out",
            )  # fmt: skip
        if time == event:
            raise InvalidParameterError(
                f"{argument('time', time)} and {argument('event', event)} name the same column: "
                "one says how long a row was observed, the other whether that ended with the event",
                "event",
            )
        X, of_time = split_column(X, time, "time", "the column of times")
        X, of_event = split_column(X, event, "event", "the column of events")
        named = time, event
        return X, _times(_of_times(of_time, time, "time"), read_vector(of_event, "event"), named)
    if isinstance(y, list | tuple) and y and all(isinstance(name, str) for name in y):
        if len(y) != 2:
            raise ValueError(_three(len(y)) if len(y) > 2 else _two())
        X, y = split_columns(X, list(y), "y")
    check_same_order(X, {"y": y})
    pair = _columns(y)
    vectors = [_of_times(values, name) for name, values in pair]
    if len(pair) != 2:
        raise ValueError(_three(len(pair)) if len(pair) > 2 else _two())
    flags = [_is_flag(vector) for vector in vectors]
    sure = [vector.reading.kind == "boolean" for vector in vectors]
    chosen = sure if sum(sure) == 1 else flags
    if sum(chosen) != 1:
        names = " and ".join(repr(name) for name, _ in pair)
        why = "both columns hold only 0 and 1" if all(flags) else "neither holds only 0 and 1"
        raise ValueError(
            f"which of {names} says whether the event was observed? Of {TARGET} {why}: make that "
            "column boolean (True: the event was observed, False: censored), or name the columns "
            f"with {argument('time', ...)} and {argument('event', ...)}"
        )
    at = chosen.index(True)
    return X, _times(vectors[1 - at], vectors[at], (pair[1 - at][0], pair[at][0]))


def _of_times(values: Native, name: str, role: str = "y") -> Vector:
    """Read a column of times or events; refuse dates, with a remedy."""
    try:
        return read_vector(values, role)
    except TypeError as error:
        told = str(error).lower()
        if "holds dates" not in told or "delta64" in told or "duration" in told:
            raise
        raise TypeError(
            f"{name!r} holds dates, and a time to an event is how long its row was observed: "
            f"subtract the date at which the row began, e.g. {worded(_DAYS, 'in days')}"
        ) from None


_DAYS = "(end - start) / pd.Timedelta(days=1)"


def _two() -> str:
    remedy = worded(
        "pass a structured array such as scikit-survival's, a frame of two columns, or names of "
        "columns of X: time='days', event='died'",
        "name the second with --event",
    )
    return (
        f"{TARGET} has one column, and a time to an event needs two, the time and whether the "
        f"event was observed then: {remedy}"
    )


def _three(count: int) -> str:
    return (
        f"{TARGET} has {count} columns, and a time to an event has two: the time and whether the "
        "event was observed. Entry times (left truncation) and competing risks are not supported, "
        "and ignoring them would answer another question"
    )


def _columns(y: object) -> Sequence[tuple[str, Native]]:
    if isinstance(y, np.ndarray) and y.dtype.names is not None:
        return [(name, y[name]) for name in y.dtype.names]
    if isinstance(y, np.ndarray) and y.ndim == 2:
        return [(f"y{k}", y[:, k]) for k in range(y.shape[1])]
    opened = open_frame(y, "y") if is_table(y) else None
    if opened is None:
        raise TypeError(_two())
    _, labels, columns, _ = opened
    return [(str(label), column.to_native()) for label, column in zip(labels, columns, strict=True)]


def _is_flag(vector: Vector) -> bool:
    values = vector.reading.numbers
    return values is not None and bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all())


def _times(time: Vector, event: Vector, named: tuple[str, str]) -> Times:
    if len(time.reading) != len(event.reading):
        raise ValueError(
            f"{named[0]!r} has {len(time.reading)} values and {named[1]!r} {len(event.reading)}; "
            "they must be the same rows."
        )
    values = time.numbers()
    remedy = "a censored row has the time up to which it was observed, and False as event"
    refuse_gaps(repr(named[0]), ~np.isfinite(values), "missing or infinite times", remedy)
    if values.min() < 0:
        raise ValueError(
            f"{named[0]!r} has {int((values < 0).sum())} times below 0, the first in row "
            f"{int((values < 0).argmax())} ({values[values < 0][0]:g}): times count from the "
            "moment at which the columns were known; drop rows with an earlier event"
        )
    if not _is_flag(event):
        _refuse_events(event, named[1])
    flags = event.numbers()
    gaps = event.reading.gaps | ~np.isfinite(flags)
    refuse_gaps(repr(named[1]), gaps, "missing values", "drop rows whose ending is unknown")
    happened = np.asarray(flags == 1.0)
    if not happened.any():
        raise ValueError(
            f"no event was observed: {named[1]!r} is False (censored) in every row, so "
            "nothing can be learned about the time to it"
        )
    return Times(values, happened, named)


def _refuse_events(event: Vector, name: str) -> None:
    """Raise for events that are not True or False: competing risks, or codes of other programs."""
    labels = {value for value in event.labels() if value is not None}
    found = sorted(f"{one:g}" if isinstance(one, float) else repr(one) for one in labels)
    shown = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
    if len(found) > 2:
        raise ValueError(
            f"{name!r} has {len(found)} different values ({shown}), but an event was observed or "
            "not: competing risks are not taken into account. To explain the time to the first of "
            "them, pass whether there was any; treating the others as censored asks what would "
            "happen if they did not exist"
        )
    raise ValueError(
        f"{name!r} has the values {shown}: make it boolean, True where the event was observed, "
        f"e.g. {worded(f'X[{name!r}] == {found[-1]}', 'a column of 0 and 1')}"
    )


def check_horizons(horizon: object, times: Times) -> tuple[float, ...]:
    if horizon is None:
        raise InvalidParameterError(
            f"the answer depends on how far ahead it looks, but {argument('horizon')} is missing",
            "horizon",
            f"pass for instance {argument('horizon', times.proposed())}, when a tenth of the rows "
            f"is still under observation; the last time is {times.time.max():g}",
        )
    given = np.atleast_1d(np.asarray(horizon, dtype=object)).ravel().tolist()
    found: list[float] = []
    for one in given:
        try:
            value = float(one)
        except (TypeError, ValueError):
            value = float("nan")
        if not (np.isfinite(value) and value > 0) or isinstance(one, bool | str):
            raise InvalidParameterError(
                f"{argument('horizon')} must be a time above 0, or a list of such, got {one!r}",
                "horizon",
            )
        found.append(value)
    if not found or len(set(found)) < len(found):
        raise InvalidParameterError(
            f"{argument('horizon')} {'has a time twice' if found else 'is empty'}", "horizon"
        )
    for value in found:
        _check_reach(value, times)
    return tuple(sorted(found))


def _check_reach(horizon: float, times: Times) -> None:
    if horizon > times.time.max():
        raise InvalidParameterError(
            f"{argument('horizon', horizon)} lies beyond the last time, {times.time.max():g}",
            "horizon",
            f"pass at most that, for instance {argument('horizon', times.proposed())}",
        )
    count = int(times.before(horizon).sum())
    if count < FEWEST_EVENTS:
        raise InvalidParameterError(
            f"{count} event{'s' * (count != 1)} happened up to {argument('horizon', horizon)}, but "
            f"at least {FEWEST_EVENTS} are needed to learn from",
            "horizon",
            "choose a later horizon, or explain more rows",
        )
