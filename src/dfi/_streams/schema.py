"""The first pass over a table in parts: what its columns hold, however it is split."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, cast

import numpy as np

from dfi._data.columns import Column, Kind, Reading, levels_that_occur
from dfi._data.levels import (
    MOST_ROWS,
    ColumnValues,
    DistinctRows,
    Values,
    hashed,
    levels_of,
    number_bits,
    spans_nothing,
)
from dfi._data.outcome import OutcomeStats
from dfi._data.table import (
    Counted,
    Known,
    Missing,
    identifier_error,
    listed_holes,
    missing_remedy,
    refuse_infinite,
    refuse_levels,
    refuse_text,
    warn_many_levels,
)
from dfi._data.weights import LARGEST_WEIGHT, WeightKind, refuse_impossible, refuse_uncountable
from dfi._parameters import TABLE, InvalidParameterError, argument
from dfi._streams.keys import keys_of
from dfi._streams.parts import BATCH_ROWS, Opened, open_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfi._types import Bools, Floats, Frame, Ints, Native

MOST_LEVELS = 6000
"""Levels beyond which a category is refused whatever the number of rows, so they are not kept."""


NO_VALUES = Values(np.empty(0), True, 0)


@dataclass(frozen=True)
class Roles:
    """The roles of columns; ``keyed`` if rows are identified by keys, not by position."""

    features: tuple[str, ...]
    target: str
    weight: str | None = None
    kind: WeightKind = "frequency"
    missing: Missing = "indicator"
    row_id: str | None = None
    keyed: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        others = (self.target, self.weight, self.row_id)
        return (*self.features, *(name for name in others if name is not None))

    def keys(self, opened: Opened) -> Ints | None:
        return keys_of(opened, self.columns, self.row_id) if self.keyed else None


@dataclass(frozen=True)
class Spot:
    """How many rows have something, and the first of them."""

    count: int = 0
    first: int = 0

    @classmethod
    def of(cls, where: Bools) -> Spot:
        return cls(int(np.count_nonzero(where)), int(where.argmax()) if len(where) else 0)

    def merge(self, other: Spot, before: int) -> Spot:
        first = self.first if self.count else before + other.first
        return Spot(self.count + other.count, first)


@dataclass(frozen=True, eq=False)
class ColumnState:
    """A column as seen in some rows; "counted" are rows of positive weight.

    ``kind`` is None where nothing observed tells it, ``where`` the part that told it; ``levels`` is
    None where they are too many; ``values`` are different numbers; ``gap`` stands for a missing
    value in a column of objects; ``text``: whether categories are plain strings in some part.
    """

    name: str
    label: object
    kind: Kind | None
    dtype: object
    where: str
    n_observed: int
    missing: Spot
    infinite: Spot
    mean: float = 0.0
    span: tuple[float, float] = (np.inf, -np.inf)
    counted_span: tuple[float, float] = (np.inf, -np.inf)
    declared: tuple[object, ...] | None = None
    levels: frozenset[object] | None = frozenset()
    counted_levels: frozenset[object] = frozenset()
    values: Values = NO_VALUES
    counted_missing: int = 0
    gap: object = None
    text: bool = False

    @classmethod
    def of(cls, reading: Reading, counted: Bools, where: str, *, numeric: bool) -> ColumnState:
        gaps = reading.gaps
        shared = {
            "name": reading.name,
            "label": reading.label,
            "dtype": reading.dtype,
            "where": where,
            "missing": Spot.of(gaps),
            "counted_missing": int(np.count_nonzero(gaps & counted)),
            "gap": reading.gap,
        }
        if reading.numbers is None:
            levels = frozenset(reading.observed())
            own = levels
            if not counted.all():
                own = frozenset(reading.take(np.flatnonzero(counted)).observed())
            return cls(
                **cast("dict[str, Native]", shared),
                kind="categorical",
                n_observed=int(len(reading) - np.count_nonzero(gaps)),
                infinite=Spot(),
                declared=reading.declared,
                text=reading.text,
                levels=levels if len(levels) <= MOST_LEVELS else None,
                counted_levels=own if len(levels) <= MOST_LEVELS else frozenset(),
            )
        infinite = np.isinf(reading.numbers)
        usual = ~(gaps | infinite)
        seen = reading.numbers if usual.all() else reading.numbers[usual]
        own_numbers = seen if counted.all() else reading.numbers[usual & counted]
        return cls(
            **cast("dict[str, Native]", shared),
            kind=reading.kind if len(reading) and (numeric or not gaps.all()) else None,
            n_observed=len(seen),
            infinite=Spot.of(infinite),
            mean=float(np.sum(seen / max(len(seen), 1))),
            span=_span(seen),
            counted_span=_span(own_numbers),
            values=Values.of(own_numbers),
        )

    def merge(self, other: ColumnState, before: int) -> ColumnState:
        first = self if self.kind is not None or other.kind is None else other
        kind = self._kind(other)
        n = self.n_observed + other.n_observed
        declared, dtype = first.declared, first.dtype
        if kind == "categorical" and self.kind == other.kind and self.declared != other.declared:
            # as where frames are put together: the dtype is given up, and levels are sorted
            declared, dtype = None, _text(self.dtype, other.dtype)
        elif kind == "real" and first.kind == "integer" and other.kind == "real":
            dtype = other.dtype
        many = self.levels is None or other.levels is None
        levels = None if many else (self.levels or frozenset()) | (other.levels or frozenset())
        if levels is not None and len(levels) > MOST_LEVELS:
            levels = None
        return replace(
            first,
            kind=kind,
            dtype=dtype,
            n_observed=n,
            missing=self.missing.merge(other.missing, before),
            infinite=self.infinite.merge(other.infinite, before),
            mean=self.mean + (other.mean - self.mean) * (other.n_observed / max(n, 1)),
            span=_joined(self.span, other.span),
            counted_span=_joined(self.counted_span, other.counted_span),
            declared=declared,
            levels=levels,
            counted_levels=frozenset() if many else self.counted_levels | other.counted_levels,
            values=self.values.merge(other.values),
            counted_missing=self.counted_missing + other.counted_missing,
            gap=self.gap if self.gap is not None else other.gap,
            text=self.text or other.text,
        )

    def _kind(self, other: ColumnState) -> Kind | None:
        if self.kind is None or other.kind is None or self.kind == other.kind:
            return other.kind if self.kind is None else self.kind
        if {self.kind, other.kind} == {"integer", "real"}:
            return "real"
        raise ValueError(
            f"column {self.name!r} is {self.kind} ({self.dtype}) in {self.where} and {other.kind} "
            f"({other.dtype}) in {other.where}: give all parts one type"
        )

    def ordered_levels(self) -> tuple[object, ...]:
        known = levels_that_occur(self.declared, self.levels or frozenset())
        return (*known, None) if self.missing.count else known

    def fill(self) -> float | None:
        return self.mean if self.missing.count else None


@dataclass(frozen=True, eq=False)
class WeightState:
    total: float = 0.0
    n_positive: int = 0
    bad: Spot = Spot()
    negative: Spot = Spot()
    split: Spot = Spot()
    least: float = np.inf

    @classmethod
    def of(cls, values: Floats) -> WeightState:
        finite = np.where(np.isfinite(values), values, 0.0)
        return cls(
            float(finite.sum()),
            int(np.count_nonzero(finite)),
            Spot.of(~np.isfinite(values)),
            Spot.of(finite < 0),
            Spot.of(finite != np.floor(finite)),
            float(finite.min(initial=np.inf)),
        )

    def merge(self, other: WeightState, before: int) -> WeightState:
        return WeightState(
            self.total + other.total,
            self.n_positive + other.n_positive,
            self.bad.merge(other.bad, before),
            self.negative.merge(other.negative, before),
            self.split.merge(other.split, before),
            min(self.least, other.least),
        )

    def check(self, name: str, kind: WeightKind) -> None:
        first_negative = self.negative.first if self.negative.count else None
        bad, counts = self.bad, self.n_positive > 0
        refuse_impossible(name, bad.count, bad.first, first_negative, self.least, counts)
        if not 1.0 / LARGEST_WEIGHT < self.total < LARGEST_WEIGHT:
            raise ValueError(
                f"{argument(name)} adds up to {self.total:.3g}, and squares of that are beyond "
                "double precision: give it other units"
            )
        if kind == "frequency":
            refuse_uncountable(
                self.split.first if self.split.count else None, "another", self.total
            )


@dataclass(frozen=True, eq=False)
class SchemaState:
    """All columns as seen in some rows: the sum that the first pass takes.

    ``counts``: the used rows of each part; ``n_rows``: with those that are left out; ``gaps`` of
    the features in all rows, ``target_gaps`` in used ones; ``masses``: the weight of each label, or
    of each of a few numbers, of the outcome.
    """

    counts: tuple[int, ...]
    n_rows: int
    columns: tuple[ColumnState, ...]
    gaps: tuple[Spot, ...]
    target: ColumnState
    target_gaps: Spot
    target_mean: float
    masses: Mapping[object, float] | None
    weights: WeightState
    rows: DistinctRows

    @property
    def used(self) -> int:
        return sum(self.counts)

    def merge(self, other: SchemaState) -> SchemaState:
        before = self.used
        mass = self.weights.total + other.weights.total
        share = other.weights.total / mass if mass else 0.0
        masses = None
        if self.masses is not None and other.masses is not None:
            masses = dict(self.masses)
            for label, weight in other.masses.items():
                masses[label] = masses.get(label, 0.0) + weight
            masses = masses if len(masses) <= MOST_LEVELS else None
        return SchemaState(
            (*self.counts, *other.counts),
            self.n_rows + other.n_rows,
            tuple(a.merge(b, before) for a, b in zip(self.columns, other.columns, strict=True)),
            tuple(a.merge(b, self.n_rows) for a, b in zip(self.gaps, other.gaps, strict=True)),
            self.target.merge(other.target, before),
            self.target_gaps.merge(other.target_gaps, self.n_rows),
            self.target_mean + (other.target_mean - self.target_mean) * share,
            masses,
            self.weights.merge(other.weights, before),
            self.rows.merge(other.rows),
        )

    @property
    def part(self) -> SchemaState:
        """The same as one part: slices of a part are no parts."""
        return replace(self, counts=(self.used,))

    def shown(self, name: str) -> OutcomeStats:
        column = self.target
        kind = column.kind or "real"
        gaps = self.target_gaps
        if kind == "categorical":
            present = column.levels or frozenset()
            labels = tuple(level for level in column.ordered_levels() if level in present)
            return OutcomeStats(name, kind, gaps.count, gaps.first, labels)
        low, high = column.span
        return OutcomeStats(name, kind, gaps.count, gaps.first, (), low, high, column.values.found)

    def known(self, columns: Sequence[Column]) -> Known:
        found = [_found(state, column) for state, column in zip(self.columns, columns, strict=True)]
        return Known(
            self.constant(columns, counted=False),
            self.constant(columns, counted=True),
            levels_of(columns, found, lambda: self.rows.count),
        )

    def constant(self, columns: Sequence[Column], *, counted: bool) -> Bools:
        return spans_nothing(*self.span(columns, counted=counted))

    def span(self, columns: Sequence[Column], *, counted: bool = False) -> tuple[Floats, Floats]:
        lows: list[float] = []
        highs: list[float] = []
        for state, column in zip(self.columns, columns, strict=True):
            missing = state.counted_missing if counted else state.missing.count
            if column.kind == "categorical":
                present = state.counted_levels if counted else state.levels or frozenset()
                here = np.array(
                    [missing > 0 if level is None else level in present for level in column.levels]
                )
                several = np.count_nonzero(here) > 1
                if column.width == 1:
                    lows.append(0.0)
                    highs.append(1.0 if several else 0.0)
                else:
                    lows += [0.0] * column.width
                    highs += [float(own and several) for own in here]
                continue
            low, high = state.counted_span if counted else state.span
            if column.fill is None:
                lows.append(low)
                highs.append(high)
                continue
            seen = low <= high
            if missing:
                low, high = min(low, column.fill), max(high, column.fill)
            lows += [low, 0.0]
            highs += [high, float(seen and missing > 0)]
        return np.array(lows), np.array(highs)


@dataclass(frozen=True, eq=False)
class SchemaWork:
    roles: Roles

    def __call__(self, part: Frame, first: int, name: str) -> tuple[int, SchemaState | None]:
        del first
        opened = open_part(part)
        check_names(opened, self.roles, name)
        # an empty part has a state too: it counts among the parts
        starts = range(0, max(opened.n_rows, 1), BATCH_ROWS)
        states = [self._state(opened, start, start + BATCH_ROWS, name) for start in starts]
        state = reduce(lambda one, other: one.merge(other), states).part
        return state.used, state

    def _state(self, opened: Opened, start: int, stop: int, name: str) -> SchemaState:
        roles = self.roles
        stop = min(stop, opened.n_rows)
        readings = [opened.read(column, start, stop) for column in roles.features]
        gaps = tuple(Spot.of(reading.gaps) for reading in readings)
        kept = kept_rows(readings, roles)
        target = opened.read(roles.target, start, stop)
        target_gaps = target.gaps if target.numbers is None else ~np.isfinite(target.numbers)
        target_spot = Spot.of(target_gaps if kept is None else target_gaps & kept)
        weights = read_mass(opened, roles, start, stop)
        n_rows = stop - start
        if kept is not None:
            places = np.flatnonzero(kept)
            readings = [reading.take(places) for reading in readings]
            target, weights = target.take(places), weights[places]
        counted = np.asarray(weights > 0)
        mass = np.where(np.isfinite(weights) & (weights > 0), weights, 0.0)
        numeric = [opened.holds_numbers(column) for column in roles.features]
        everything = np.ones(len(target), dtype=bool)
        return SchemaState(
            (len(target),),
            n_rows,
            tuple(
                ColumnState.of(reading, counted, name, numeric=number)
                for reading, number in zip(readings, numeric, strict=True)
            ),
            gaps,
            ColumnState.of(target, everything, name, numeric=opened.holds_numbers(roles.target)),
            target_spot,
            _mean(target, mass),
            _masses(target, mass),
            WeightState.of(weights),
            _different(readings, np.flatnonzero(counted)),
        )


def check_names(opened: Opened, roles: Roles, part: str) -> None:
    lacking = [name for name in roles.columns if name not in opened.columns]
    if lacking:
        raise ValueError(
            f"{part} has no column {lacking[0]!r}, which other parts of {TABLE} have: give all "
            "parts the same columns"
        )


def kept_rows(readings: Sequence[Reading], roles: Roles) -> Bools | None:
    if roles.missing != "drop":
        return None
    kept = ~np.any([reading.gaps for reading in readings], axis=0)
    return None if kept.all() else kept


def read_mass(opened: Opened, roles: Roles, start: int, stop: int) -> Floats:
    if roles.weight is None:
        return np.ones(stop - start)
    reading = opened.read(roles.weight, start, stop)
    if reading.numbers is None:
        what = "sample_weight" if roles.kind == "sampling" else "frequency_weight"
        raise TypeError(f"{argument(what)} holds strings or classes; it must be numbers.")
    return reading.numbers


def check_features(state: SchemaState, roles: Roles) -> None:
    if state.n_rows == 0:
        raise ValueError(f"{TABLE} has no rows.")
    holes = [
        f"{column.name!r} ({gap.count} missing, first in row {gap.first})"
        for column, gap in zip(state.columns, state.gaps, strict=True)
        if gap.count
    ]
    infinite = [
        f"{column.name!r} ({column.infinite.count} infinite, first in row {column.infinite.first})"
        for column in state.columns
        if column.infinite.count
    ]
    if roles.missing == "error" and holes:
        raise InvalidParameterError(
            f"{TABLE} has missing (NaN, null) values in {listed_holes(holes)}.",
            "missing",
            missing_remedy(),
        )
    refuse_infinite(infinite)
    if state.used < 2:
        left = (
            f"{argument('missing', 'drop')} leaves {state.used} of {state.n_rows} rows of {TABLE}"
        )
        raise ValueError(
            f"{left}: drop the columns that are missing, or pass "
            f"{argument('missing', 'indicator')}."
            if roles.missing == "drop"
            else f"{TABLE} has one row; an importance needs many."
        )
    for column in state.columns:
        if column.text and column.levels is not None:
            refuse_text(column.name, sorted(cast("frozenset[str]", column.levels)))
        if column.kind == "categorical" and column.levels is None:
            raise identifier_error(column.name, f"more than {MOST_LEVELS}")
        if column.kind == "categorical":
            filled = state.used - column.counted_missing
            rows = Counted(len(column.levels or ()), filled, state.used)
            refuse_levels(column.name, column.ordered_levels(), rows)
    warn_many_levels({column.name: len(column.levels or ()) for column in state.columns})


def _found(state: ColumnState, column: Column) -> ColumnValues:
    if column.kind != "categorical":
        return ColumnValues(state.values, n_missing=state.counted_missing)
    codes = [
        code
        for code, level in enumerate(column.levels)
        if (state.counted_missing > 0 if level is None else level in state.counted_levels)
    ]
    return ColumnValues(codes=np.array(codes, dtype=np.intp))


def _span(numbers: Floats) -> tuple[float, float]:
    return float(numbers.min(initial=np.inf)), float(numbers.max(initial=-np.inf))


def _joined(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return min(one[0], other[0]), max(one[1], other[1])


def _text(one: object, other: object) -> object:
    """Return the dtype that labels of two categorical dtypes have together: that of text."""
    library = type(one).__module__.split(".")[0]
    if library in ("polars", "pyarrow"):
        module: Native = importlib.import_module(library)
        return module.String() if library == "polars" else module.string()
    return one if one == other else np.dtype(object)


def _mean(target: Reading, mass: Floats) -> float:
    if target.numbers is None or not mass.any():
        return 0.0
    usual = np.isfinite(target.numbers)
    return float(mass[usual] @ target.numbers[usual] / mass.sum())


def _masses(target: Reading, mass: Floats) -> dict[object, float] | None:
    if target.numbers is not None:
        different, codes = np.unique(target.numbers, return_inverse=True)
        if len(different) > MOST_LEVELS:
            return None
        return dict(
            zip(different.tolist(), np.bincount(codes, mass, len(different)).tolist(), strict=True)
        )
    found: dict[object, float] = {}
    for label, own in zip(target.values, mass.tolist(), strict=True):
        found[label] = found.get(label, 0.0) + own
    return found


def _different(readings: Sequence[Reading], places: Ints) -> DistinctRows:
    for count in (MOST_ROWS + MOST_ROWS // 8, len(places)):
        some = places[:count]
        bits = (_hashes(reading.take(some)) for reading in readings)
        rows = DistinctRows.of(hashed(bits, len(some)))
        if rows.found is None or count >= len(places):
            return rows
    return rows


def _hashes(reading: Reading) -> NDArray[np.uint64]:
    if reading.numbers is not None:
        return number_bits(reading.numbers)
    number: dict[object, int] = {
        value: int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=8).digest())
        for value in reading.observed()
    }
    cells = zip(reading.values, reading.gaps, strict=True)
    return np.fromiter(
        (0 if gap else number[value] for value, gap in cells), dtype=np.uint64, count=len(reading)
    )


def starts_of(counts: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
