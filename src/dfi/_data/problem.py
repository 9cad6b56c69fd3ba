"""The front door: everything a caller passes is read, checked and named once."""

from __future__ import annotations

import hashlib
import numbers
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._data.columns import Column
from dfi._data.dependence import Clusters
from dfi._data.everyday import (
    FEWEST_IDENTIFIED,
    NAMES_ROWS,
    NOTHING,
    missing_rows,
    read_everyday,
    read_everyday_outcome,
    with_distinct_names,
    without_rows,
)
from dfi._data.folds import read_row_groups
from dfi._data.frames import check_same_order, column_named, is_table, row_labels, split_column
from dfi._data.groups import Groups, read_groups
from dfi._data.levels import constant_columns, extremes
from dfi._data.outcome import read_outcome
from dfi._data.table import listed_holes, read_complete
from dfi._data.weights import read_weights
from dfi._parameters import TABLE, TARGET, InvalidParameterError, argument, name_groups
from dfi.warnings import ConstantColumnWarning, IdentifierWarning, MissingValuesWarning, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfi._data.everyday import Identifiers
    from dfi._data.outcome import Outcome, Task
    from dfi._data.source import RowSource
    from dfi._data.table import Missing, Table
    from dfi._data.weights import Weights
    from dfi._types import Bools, Floats, GroupsLike, Ints, Native, TableLike, VectorLike

UnitsKind = Literal["columns", "groups"]

ROLES = {
    "sample_weight": "the weights' column",
    "frequency_weight": "the column of counts",
    "clusters": "the column of clusters",
}
"""The roles of a column other than feature and outcome, by parameter."""

LARGEST_COLUMN = 1e140
"""A column enters by its variance: the square of its spread, and the inverse of that."""

LARGEST_OUTCOME = 1e45
"""A score is a square of the outcome, and the skewness of its estimate a sixth power."""


@dataclass(frozen=True, eq=False)
class Units:
    names: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    positions: tuple[Ints, ...]
    constant: Bools
    grouped: bool

    def __len__(self) -> int:
        return len(self.names)

    @property
    def active(self) -> tuple[int, ...]:
        return tuple(int(unit) for unit in np.flatnonzero(~self.constant))

    def spread(self, players: Floats) -> Floats:
        values = np.zeros((*players.shape[:-1], len(self)))
        values[..., list(self.active)] = players[..., : len(self.active)]
        return values

    def members(self, positions: Ints) -> list[list[int]]:
        place = {int(p): k for k, p in enumerate(positions)}
        return [[place[int(p)] for p in unit if int(p) in place] for unit in self.positions]

    def overlap(self) -> tuple[str, str] | None:
        owner: dict[int, str] = {}
        for name, columns in zip(self.names, self.columns, strict=True):
            for column in columns:
                if column in owner:
                    return owner[column], name
                owner[column] = name
        return None


@dataclass(frozen=True)
class Target:
    """Positions of blocks that are scored as one: a group that shares blocks with others."""

    name: str
    units: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Blocks:
    """What a transport disentangles: columns, or groups of them.

    ``columns``: the blocks: a group is one column with many positions. Groups that overlap are
    unions of *atoms*, sets of columns with the same memberships; columns of no group stand alone;
    ``targets``: the groups as sets of atoms; None where every block has its own score;
    ``count``: how many blocks, of the first, are reported: columns of no group are not.
    """

    columns: tuple[Column, ...]
    targets: tuple[Target, ...] | None
    count: int


@dataclass(frozen=True, eq=False)
class Data:
    """What was observed: made by :func:`read_data`, never changed.

    ``weighted``: whether weights were passed, which only then reach the regressions;
    ``row_groups``: clusters, which stay together wherever rows are split; ``joint``: whether groups
    are the units; ``dropped``: rows left out for missing values, ``kept`` the others, ``labels``
    the names of all. Of a table that is not in memory, ``source`` has all rows, ``places`` says
    where those here stand, ``means`` has the outcome's mean, or that of each class. ``fit``: rows
    that models are fitted on (None: all), others are only held out; ``facts``: what a specification
    says of the rows.
    """

    table: Table
    outcome: Outcome
    weights: Weights
    weighted: bool = False
    groups: Groups | None = None
    row_groups: Ints | None = None
    joint: bool = False
    dropped: int = 0
    source: RowSource | None = None
    places: Ints | None = None
    means: Mapping[str, float] = field(default_factory=dict)
    fit: Ints | None = None
    kept: Bools | None = None
    labels: Native | None = None
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def matrix(self) -> Floats:
        return self.table.matrix

    @property
    def y(self) -> Floats:
        return self.outcome.values

    @property
    def n_fit(self) -> int:
        return len(self.matrix if self.fit is None else self.fit)

    @property
    def fit_weights(self) -> Weights | None:
        return self.weights if self.weighted else None

    @property
    def blocks(self) -> Blocks:
        columns = self.table.columns
        if self.groups is not None and self.joint:
            return group_blocks(self.groups, columns)
        return Blocks(columns, None, len(columns))

    def fitting(self, rows: Ints) -> Ints:
        return rows if self.fit is None else np.intersect1d(rows, self.fit)

    def places_of(self, rows: Ints) -> Ints:
        return rows if self.places is None else self.places[rows]

    def label_of(self, row: int) -> str:
        """Return the caller's name for a row: its label, else its position, counted from 0."""
        place = int(self.places_of(np.array([row]))[0])
        if self.kept is not None:
            place = int(np.flatnonzero(self.kept)[place])
        if self.labels is None:
            return str(place)
        label = self.labels[place]
        return str(label) if isinstance(label, numbers.Number) else repr(str(label))

    @cached_property
    def units(self) -> Units:
        table, groups = self.table, self.groups
        names = table.names
        columns: tuple[tuple[int, ...], ...] = tuple((j,) for j in range(len(names)))
        if groups is not None:
            names = groups.names
            columns = tuple(tuple(np.flatnonzero(row).tolist()) for row in groups.membership)
        positions = tuple(
            np.array([p for c in unit for p in table.columns[c].positions], dtype=np.intp)
            for unit in columns
        )
        constant = np.array([bool(table.constant[unit].all()) for unit in positions])
        return Units(names, columns, positions, constant, groups is not None)

    @property
    def missing_shares(self) -> dict[str, float]:
        table = self.table
        shares = ((c.name, self.weights.mean(table.where_missing(c))) for c in table.missing)
        return {name: float(share[0]) for name, share in shares}

    @property
    def mean_outcome(self) -> float:
        known = self.means.get(self.outcome.name)
        return float(self.weights.mean(self.y)[0]) if known is None else known

    @property
    def total(self) -> float:
        return self.weights.total if self.source is None else self.source.total

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the numbers, so a result can be matched to its data."""
        y = self.y
        if self.outcome.kind == "several":
            y = np.column_stack([member.values for member in self.outcome.members])
        return fingerprint(self.matrix, y, self.weights.values)


def group_blocks(groups: Groups, columns: tuple[Column, ...]) -> Blocks:
    """Return groups as blocks, or where they overlap as unions of atoms, in sorted order."""
    patterns = [tuple(np.flatnonzero(column).tolist()) for column in groups.membership.T]
    disjoint = all(len(pattern) <= 1 for pattern in patterns)
    keys = [(g,) for g in range(len(groups.names))] if disjoint else sorted({*patterns} - {()})
    found = [
        _joined(
            " & ".join(groups.names[g] for g in key),
            [column for column, own in zip(columns, patterns, strict=True) if own == key],
        )
        for key in keys
    ]
    alone = [column for column, own in zip(columns, patterns, strict=True) if not own]
    targets = None
    if not disjoint:
        targets = tuple(
            Target(name, tuple(k for k, key in enumerate(keys) if g in key))
            for g, name in enumerate(groups.names)
        )
    return Blocks((*found, *alone), targets, len(groups.names))


def covering(groups: Groups) -> Groups:
    """Return groups plus one for the columns that are in none, if any."""
    outside = ~groups.membership.any(axis=0)
    if not outside.any():
        return groups
    name = "other columns"
    while name in groups.names:
        name = f"all {name}"
    return replace(
        groups,
        names=(*groups.names, name),
        membership=np.vstack([groups.membership, outside]),
    )


def _joined(name: str, columns: Sequence[Column]) -> Column:
    if len(columns) == 1:
        return replace(columns[0], name=name)
    positions = tuple(position for column in columns for position in column.positions)
    return Column(name, name, "real", (), positions)


def read_data(
    X: TableLike,
    y: VectorLike,
    *,
    feature_groups: GroupsLike = None,
    sample_weight: VectorLike = None,
    frequency_weight: VectorLike = None,
    clusters: VectorLike = None,
    units: UnitsKind = "columns",
    missing: Missing = "indicator",
    task: Task = "auto",
    pos_label: object = None,
    counted: bool = False,
    classified: bool = False,
    identifiers: Identifiers = "drop",
    prefit: bool = False,
    beside: Mapping[str, object] | None = None,
) -> Data:
    if y is None:
        raise ValueError("DFI requires y to be passed, but the target y is None")
    require_groups(units, feature_groups)
    vectors: dict[str, VectorLike] = {
        "y": y,
        "sample_weight": sample_weight,
        "frequency_weight": frequency_weight,
        "clusters": clusters,
    }
    check_same_order(X, {**vectors, **(beside or {})})
    target = column_named(X, y)
    renamed: dict[str, str] = {}
    named = [name for v in vectors.values() if (name := column_named(X, v)) is not None]
    if not prefit and is_table(X):
        X, renamed = with_distinct_names(X, named)
    for role, what in ROLES.items():
        name = column_named(X, vectors[role])
        if name is None:
            continue
        if name == target:
            raise ValueError(
                f"{TARGET} and {argument(role)} both name the column {target!r}: name another"
            )
        X, vectors[role] = split_column(X, name, role, what)
    sample_weight, frequency_weight, clusters = (vectors[role] for role in ROLES)
    if target is not None:
        X, y = split_column(X, target)
    labels, everyday, reader = row_labels(X), NOTHING, None
    if not prefit:
        y, reader = read_everyday_outcome(y, classes=task == "classification")
    gone = missing_rows(y) if target is not None else np.zeros(0, dtype=bool)
    if gone.all():
        gone = gone[:0]
    if prefit:  # a fitted model knows the columns as they are
        X = without_rows(X, gone) if gone.any() else X
    else:
        X, everyday = read_everyday(X, identifiers, gone)
        if reader is not None:
            name = "the outcome" if target is None else target
            everyday = replace(everyday, readers={**everyday.readers, name: reader})
    if named and is_table(X) and getattr(X, "shape", (0, 1))[1] == 0:
        raise ValueError(f"{TABLE} has no column besides {', '.join(map(repr, named))}")
    everyday = replace(everyday, renamed=renamed, rows=int(gone.sum()), roles=tuple(named))
    table, kept = read_complete(X, missing=missing)
    table = replace(table, everyday=everyday)
    incomplete = 0 if kept is None else int((~kept).sum())
    if everyday.rows:
        complete, kept = kept, ~gone
        kept[kept] = True if complete is None else complete
    n_rows = table.n_rows if kept is None else len(kept)
    outcome = read_outcome(
        y, n_rows, kept, task=task, positive=pos_label, counted=counted, classified=classified
    )
    if target is not None:
        # columns of pyarrow do not know their names
        outcome = replace(outcome, name=target)
    weights = read_weights(sample_weight, n_rows, frequency_weight, kept)
    if incomplete:
        warn_left_out(incomplete, n_rows)
    table = table.without(weights.values == 0)
    _refuse_constant_outcome(outcome, weights)
    row_groups = None
    if clusters is not None:
        row_groups = read_row_groups(clusters, n_rows, kept)
        weights = replace(weights, dependence=Clusters(row_groups))
        if len(np.unique(row_groups[weights.counted])) < 2:
            raise ValueError(
                f"{argument('clusters')} has the same label for all rows: one cluster gives no "
                "standard errors; label at least two clusters, or leave "
                f"{argument('clusters')} out"
            )
    data = Data(
        table,
        outcome,
        weights,
        weighted=sample_weight is not None or frequency_weight is not None,
        groups=None if feature_groups is None else read_groups(feature_groups, table.names),
        row_groups=row_groups,
        dropped=n_rows - table.n_rows,
        joint=units == "groups",
        kept=kept,
        labels=labels,
    )
    wides = [float(np.ptp(one.values)) for one in outcome.members or (outcome,)]
    refuse_spans(data, *extremes(data.matrix), wides)
    warn_constant(table, table.constant)
    warn_identifiers(table)
    return data


def require_groups(units: UnitsKind, groups: GroupsLike) -> None:
    if units == "groups" and groups is None:
        raise InvalidParameterError(
            f"{argument('units', 'groups')} makes groups the units", "feature_groups", name_groups()
        )


def _refuse_constant_outcome(outcome: Outcome, weights: Weights) -> None:
    counted = weights.values > 0
    if counted.all():
        return
    for one in outcome.members or (outcome,):
        if constant_columns(one.values[counted][:, None])[0]:
            raise ValueError(
                f"{TARGET} is constant among the {int(counted.sum())} rows of positive weight: "
                "there is nothing to explain. Give rows with other values a weight"
            )


def refuse_spans(data: Data, low: Floats, high: Floats, wides: Sequence[float]) -> None:
    with np.errstate(over="ignore"):
        spread = high - low
    for position in np.flatnonzero(~data.table.constant):
        if not 1.0 / LARGEST_COLUMN < spread[position] < LARGEST_COLUMN:
            raise ValueError(
                f"column {data.table.matrix_names[position]!r} spans {spread[position]:.3g}, and "
                "the square of that is beyond double precision: give it other units"
            )
    for wide in wides:
        if not 1.0 / LARGEST_OUTCOME < wide < LARGEST_OUTCOME:
            raise ValueError(
                f"{TARGET} spans {wide:.3g}, and powers of that are beyond double precision: give "
                "it other units"
            )


def warn_left_out(count: int, n_rows: int) -> None:
    warn(f"{count} of {n_rows} rows with missing values left out", MissingValuesWarning)


def warn_constant(table: Table, constant: Bools, where: str = "") -> None:
    names = [column.name for column in table.columns if constant[list(column.positions)].all()]
    if len(names) == len(table.columns):
        raise ValueError(f"every column of {TABLE} is constant{where}: there is nothing to explain")
    if names:
        wholly = {column.name for column in table.gaps if table.where_missing(column).all()}
        listed = [f"{name!r}{' (wholly missing)' * (name in wholly)}" for name in names]
        shown = listed_holes(listed)
        verbs = "is constant{}: it scores 0" if len(names) == 1 else "are constant{}: they score 0"
        warn(f"{shown} {verbs.format(where)}", ConstantColumnWarning)


def warn_identifiers(table: Table) -> None:
    """Warn about distinct whole numbers that fill half of their range or are named like ids."""
    n = table.n_rows
    if n < FEWEST_IDENTIFIED:
        return
    found = []
    for column in table.columns:
        if column.kind not in ("integer", "real") or column.width > 1:
            continue
        if column.name in table.everyday.days:
            continue
        values = table.matrix[:, column.positions[0]]
        named = column.kind == "integer" and NAMES_ROWS.search(column.name) is not None
        wide = float(values.max()) - float(values.min())
        if not named and not n - 1 <= wide <= 2 * n:
            continue
        if np.all(values == np.rint(values)) and len(np.unique(values)) == n:
            found.append(column.name)
    if found:
        shown = ", ".join(map(repr, found[:5])) + (", ..." if len(found) > 5 else "")
        few = len(found) == 1
        warn(
            f"column{'s' * (not few)} {shown} {'has' if few else 'have'} a different whole number "
            f"in each of the {n} rows: {'it looks' if few else 'they look'} like an identifier or "
            f"a count of the rows. Drop {'it' if few else 'them'}, unless the order of the rows "
            "means something.",
            IdentifierWarning,
        )


def fingerprint(*arrays: Floats) -> str:
    """Return the SHA-256 of arrays: their shapes and their float64 values, little-endian."""
    digest = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array, dtype="<f8")
        digest.update(repr(values.shape).encode())
        # adding zero turns -0.0 into 0.0; in blocks of rows, so no second copy is made
        for start in range(0, len(values), 65536):
            digest.update((values[start : start + 65536] + 0.0).tobytes())
    return digest.hexdigest()
