"""Groups of features, in the several ways people write them down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

import narwhals as nw
import numpy as np

from dfi._checks import did_you_mean
from dfi._data.columns import is_missing, read_vector
from dfi._data.frames import is_series, is_table, open_frame
from dfi._parameters import InvalidParameterError, argument, worded

if TYPE_CHECKING:
    from dfi._types import Array, Bools


@dataclass(frozen=True, eq=False)
class Groups:
    """Named sets of units, which may overlap; ``membership`` has the shape (n_groups, n_units)."""

    names: tuple[str, ...]
    membership: Bools
    units: tuple[str, ...] | None = None
    """The names of the units, where they are known: membership goes by their order."""


class _Units:
    """The names of the units, and how a member is looked up among them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.place = {name: position for position, name in enumerate(self.names)}
        self.positional = self.names == tuple(f"x{j}" for j in range(len(self.names)))

    def find(self, member: object) -> int | None:
        if _text(member) in self.place:
            return self.place[_text(member)]
        whole = isinstance(member, (int, np.integer)) and not isinstance(member, bool)
        if self.positional and whole:
            position = int(str(member))
            return position if 0 <= position < len(self.names) else None
        return None

    def require(self, member: object, where: str) -> int:
        position = self.find(member)
        if position is None:
            hint = did_you_mean(member, self.names, 3).replace("; did", ". Did")
            end = ", ..." if len(self.names) > 10 else "."
            hint = hint or f". The features are {', '.join(map(repr, self.names[:10]))}{end}"
            raise ValueError(f"{where} names {member!r}, which is not a feature{hint}")
        return position


def read_groups(groups: object, names: Sequence[str]) -> Groups:
    """Read groups of features called ``names``; those of an array may be given by position.

    Groups are one of

    - ``{group: [columns]}``: groups may overlap, repeated members count once;
    - ``{column: group}``: recognised by values that are not lists and keys that are features
      (``{group: column}`` with one column each is understood when the keys are no features and the
      values are);
    - a 0/1 table. If every column, a leading column of strings aside, is called like a feature, its
      rows are groups; otherwise its columns are groups and its rows are features. The rows are
      named by the leading column of strings, else by a pandas index; rows that are only numbered
      are taken in order (features) or called ``group 0``, ``group 1``, ...;
    - a 0/1 array of shape (n_groups, n_units);
    - one group label per feature: a sequence in the order of the features, or a pandas Series
      indexed by them. A feature whose label is missing belongs to no group.

    An index that numbers its rows from 0 names nothing, unless its numbers are features.
    """
    units = _Units(names)
    if isinstance(groups, Groups):
        return _of_units(groups, units)
    if isinstance(groups, Mapping):
        return _build(_from_mapping(groups, units), units)
    if isinstance(groups, str):
        raise InvalidParameterError("groups is a string;", "groups", _remedy())
    if is_series(groups):
        index = _row_names(groups, units)
        if index is not None:
            labels = read_vector(groups, "groups").labels()
            return _build(_by_label(zip(index, labels, strict=True), units), units)
        return _build(_from_labels(read_vector(groups, "groups").labels(), units), units)
    if isinstance(groups, np.ndarray) and groups.ndim == 2:
        if groups.shape[1] != len(units.names):
            raise ValueError(
                f"groups has shape {groups.shape}; a 0/1 array needs one row per group and one "
                f"column for each of the {len(units.names)} features."
            )
        flags = _flags(groups)
        members = {f"group {row}": np.flatnonzero(own).tolist() for row, own in enumerate(flags)}
        return _build(members, units)
    if is_table(groups):
        return _build(_from_table(groups, units), units)
    if isinstance(groups, Iterable) and not isinstance(groups, (set, frozenset, bytes)):
        return _build(_from_labels(list(groups), units), units)
    raise InvalidParameterError(f"groups is a {type(groups).__name__};", "groups", _remedy())


def _remedy() -> str:
    return worded(
        "pass a dict of group names to lists of columns, a dict of columns to group names, a 0/1 "
        "table or one label per feature.",
        "give a table of features and groups, or a JSON object of groups and their features.",
    )


def _build(members: Mapping[str, Sequence[int]], units: _Units) -> Groups:
    if not members:
        raise ValueError("groups is empty; name at least one group.")
    membership = np.zeros((len(members), len(units.names)), dtype=bool)
    for row, (group, positions) in enumerate(members.items()):
        if len(positions) == 0:
            raise ValueError(f"Group {group!r} is empty; give it a feature or leave it out.")
        membership[row, list(positions)] = True
    return Groups(tuple(members), membership, units.names)


def _of_units(groups: Groups, units: _Units) -> Groups:
    if groups.units == units.names:
        return groups
    if groups.units is None:
        if groups.membership.shape[1] != len(units.names):
            raise ValueError(
                f"the groups cover {groups.membership.shape[1]} units, but there are "
                f"{len(units.names)} here: pass a dict of group names to lists of columns"
            )
        return replace(groups, units=units.names)
    members: dict[object, object] = {
        name: [groups.units[j] for j in np.flatnonzero(row)]
        for name, row in zip(groups.names, groups.membership, strict=True)
    }
    return _build(_from_mapping(members, units), units)


def _is_list(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def _from_mapping(groups: Mapping[object, object], units: _Units) -> dict[str, list[int]]:
    lists = [_is_list(value) for value in groups.values()]
    if groups and not any(lists):
        one_column_each = all(units.find(key) is None for key in groups) and all(
            units.find(value) is not None for value in groups.values()
        )
        if not one_column_each:
            return _by_label(groups.items(), units)
    members: dict[str, list[int]] = {}
    for group, value in groups.items():
        name = str(group)
        if name in members:
            raise ValueError(f"Two groups are called {name!r}; rename one.")
        listed = value if _is_list(value) else [value]
        members[name] = [units.require(member, f"Group {name!r}") for member in listed]
    return members


def _by_label(pairs: Iterable[tuple[object, object]], units: _Units) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for column, label in pairs:
        position = units.require(column, "groups")
        if not is_missing(label):
            members.setdefault(_text(label), []).append(position)
    return members


def _from_labels(labels: Sequence[object], units: _Units) -> dict[str, list[int]]:
    if any(_is_list(label) for label in labels):
        raise InvalidParameterError("groups is a list of lists;", "groups", _remedy())
    if len(labels) != len(units.names):
        raise InvalidParameterError(
            f"groups has {len(labels)} labels for {len(units.names)} features (labels of rows are "
            f"{argument('clusters')})",
            "groups",
            _remedy(),
        )
    return _by_label(zip(units.names, labels, strict=True), units)


def _row_names(groups: object, units: _Units) -> list[object] | None:
    """Return the row names of a pandas object; numbers from 0 that are no features name nothing."""
    if not (
        nw.dependencies.is_pandas_series(groups) or nw.dependencies.is_pandas_dataframe(groups)
    ):
        return None
    index = list(groups.index)
    if index != list(range(len(index))):
        return index
    names = len(index) == len(units.names) and not units.positional
    return index if names and any(units.find(label) is not None for label in index) else None


def _text(label: object) -> str:
    if isinstance(label, (float, np.floating)) and float(label).is_integer():
        return str(int(label))
    return str(label)


def _from_table(groups: object, units: _Units) -> dict[str, list[int]]:
    opened = open_frame(groups, "groups")
    if opened is None:
        raise TypeError(f"groups is a {type(groups).__name__}, which is not a known table.")
    _, labels, columns, _ = opened
    rows = _row_names(groups, units)
    if columns and any(isinstance(value, str) for value in columns[0].to_list()):
        rows = list(columns[0].to_list())
        labels, columns = labels[1:], columns[1:]
    if not columns:
        raise ValueError("groups has no column of 0 and 1.")
    flags = _flags(
        np.column_stack([read_vector(column.to_native(), "groups").numbers() for column in columns])
    )
    if _rows_are_groups(labels, rows, units):
        positions = np.array([units.require(label, "groups") for label in labels])
        numbered = rows is None or rows == list(range(len(rows)))
        names = [
            f"group {k}" if numbered else _text(row)
            for k, row in enumerate(flags if rows is None else rows)
        ]
        _refuse_repeated(names)
        return {name: positions[chosen].tolist() for name, chosen in zip(names, flags, strict=True)}
    if rows is None:
        if len(flags) != len(units.names):
            raise ValueError(
                f"groups has {len(flags)} rows for {len(units.names)} features; name the rows in "
                "a first column of strings, or name the columns like the features."
            )
        rows = list(units.names)
    _refuse_repeated(rows)
    positions = np.array([units.require(name, "groups") for name in rows])
    return {str(label): positions[flags[:, j]].tolist() for j, label in enumerate(labels)}


def _rows_are_groups(
    labels: Sequence[object], rows: Sequence[object] | None, units: _Units
) -> bool:
    """Return whether the columns of a table are features; raise if its rows may be as well."""
    columns = {units.find(label) for label in labels}
    if None in columns:
        return False
    found = {units.find(row) for row in rows or ()}
    numbered = rows is None or list(rows) == list(range(len(rows)))
    if numbered or found != set(range(len(units.names))):
        return True
    if columns == found:
        raise ValueError(
            "groups has the features as its rows and as its columns, but nothing says which are "
            "the groups: rename the groups."
        )
    return False


def _refuse_repeated(rows: Sequence[object]) -> None:
    repeated = [name for name in rows if rows.count(name) > 1]
    if repeated:
        raise ValueError(f"groups has more than one row called {repeated[0]!r}.")


def _flags(array: Array) -> Bools:
    if not np.isin(array, (0, 1)).all():
        raise ValueError("groups is a table with values other than 0 and 1.")
    return array.astype(bool)
