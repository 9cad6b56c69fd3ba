"""Partitions of Dask: the work goes to the data, and sums come back.

Dask does everything that has to do with workers: where a task runs, what is repeated when a worker
is lost, and progress. Here only a graph is built: one task for each partition and a tree of merges,
so that the caller receives one state, whatever the number of partitions.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dfi._data.frames import Library, refuse_duplicates
from dfi._data.source import Mergeable
from dfi._streams.parts import ArrayPart, Partitions, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dfi._streams.parts import Pass, Work
    from dfi._types import Advance, Array, Frame, Ints, Native

State = TypeVar("State", bound=Mergeable)

MERGED_AT_ONCE = 4
"""States that one task merges, and that a worker holds meanwhile."""


CLOSED = (
    "the Dask Client that holds the partitions of X is closed or lost them: open a Client and "
    "load the table again"
)


def is_dask(X: object) -> bool:
    kind = type(X)
    names = {base.__module__.split(".")[0] for base in kind.__mro__}
    return bool({"dask", "dask_expr"} & names) and hasattr(X, "__dask_graph__")


def is_dask_array(X: object) -> bool:
    # of the type: what Dask delays has every attribute that it is asked for
    return is_dask(X) and hasattr(type(X), "chunks") and hasattr(type(X), "rechunk")


def open_dask(X: Native, roles: Mapping[str, Native]) -> tuple[DaskParts, dict[str, str]]:
    """Return a Dask table in parts, and the columns for the vectors passed with it."""
    if is_dask_array(X):
        return _open_array(X, roles)
    if not hasattr(type(X), "columns") or not hasattr(type(X), "divisions"):
        raise TypeError(
            f"X is a {type(X).__name__} of Dask, not a table: pass a dask.dataframe or a "
            "dask array, e.g. dask.dataframe.from_delayed([...])"
        )
    names: dict[str, str] = {}
    for role, given in roles.items():
        if isinstance(given, str):
            names[role] = given
            continue
        column = f"dfi {role}"
        if not is_dask(given) or not hasattr(given, "to_frame"):
            raise TypeError(
                f"X is a Dask table, but {role} is a {type(given).__name__}: pass the name of a "
                "column, or a dask Series with the same partitions"
            )
        if given.npartitions != X.npartitions:
            raise ValueError(
                f"{role} has {given.npartitions} partitions and X has {X.npartitions}: give them "
                "the same, or make it a column of X"
            )
        if given.known_divisions != X.known_divisions:
            unknown = "X" if given.known_divisions else role
            raise ValueError(
                f"{role} cannot be aligned with X, because the divisions of {unknown} are not "
                f"known and the other's are: make {role} a column of X"
            )
        names[role] = column
        X = X.assign(**{column: given})
    refuse_duplicates([str(label) for label in X.columns])
    return DaskParts(X, {str(label): label for label in X.columns}, "pandas"), names


def _open_array(X: Native, roles: Mapping[str, Native]) -> tuple[DaskParts, dict[str, str]]:
    if X.ndim != 2:
        raise ValueError(
            f"X must have two dimensions and has {X.ndim}: reshape it to one row per observation."
        )
    if np.isnan(X.shape[1]):
        raise ValueError("X is a dask array without a known number of columns: set its chunks")
    others: dict[str, Native] = {}
    for role, given in roles.items():
        if not is_dask_array(given) or given.ndim != 1:
            raise TypeError(
                f"X is a dask array, but {role} is a {type(given).__name__}: pass a dask "
                "array of one dimension"
            )
        _check_chunks(X, role, given)
        others[role] = given
    labels = {f"x{j}": f"x{j}" for j in range(int(X.shape[1]))}
    table = DaskParts(X, {**labels, **dict(zip(others, others, strict=True))}, "numpy", others)
    return table, {role: role for role in roles}


def _check_chunks(X: Native, role: str, given: Native) -> None:
    known = [not np.isnan(array.shape[0]) for array in (X, given)]
    # chunks of unknown lengths that both have, as after one selection, are the same objects
    if not all(known) and given.chunks[0] != X.chunks[0]:
        raise ValueError(
            f"{'X' if known[1] else role} is a dask array whose chunks have unknown lengths, so "
            f"{role} cannot be aligned with X: call compute_chunk_sizes() on both first"
        )
    if all(known) and given.shape[0] != X.shape[0]:
        raise ValueError(
            f"{role} has {given.shape[0]} rows and X has {X.shape[0]}: pass one value per row"
        )


@dataclass(frozen=True, eq=False)
class DaskParts(Partitions):
    table: Native
    labels: Mapping[str, object]
    library: Library
    others: Mapping[str, Native] | None = None
    what = "a table of Dask"

    def header(self, features: Sequence[str]) -> object:
        if self.library != "pandas":
            return None
        return self.table._meta[[self.labels[name] for name in features]].columns

    def reduce(
        self, work: Work[State], columns: Sequence[str], watch: Pass, starts: Ints | None = None
    ) -> State | None:
        dask = importlib.import_module("dask")
        parts = self.delayed(columns)
        firsts = [0] * len(parts) if starts is None else starts.tolist()
        # one node of the graph, so it goes to each worker once and not with every task
        shared = dask.delayed(work, pure=False, traverse=False)
        leaves = [
            dask.delayed(_work, pure=False)(shared, part, first, f"partition {number}")
            for number, (part, first) in enumerate(zip(parts, firsts, strict=True))
        ]
        level = leaves
        while len(level) > 1:
            level = [
                dask.delayed(_merge, pure=False)(level[k : k + MERGED_AT_ONCE])
                for k in range(0, len(level), MERGED_AT_ONCE)
            ]
        found: State | None = _computed(level[0], leaves, watch)
        return found

    def delayed(self, columns: Sequence[str]) -> list[Native]:
        if self.others is None:
            chosen = self.table[[self.labels[name] for name in columns]]
            return list(chosen.to_delayed())
        dask = importlib.import_module("dask")
        rows = self.table.rechunk({1: -1})
        blocks = rows.to_delayed().ravel().tolist()
        beside = {}
        for name, values in self.others.items():
            own = (
                values if values.chunks[0] == rows.chunks[0] else values.rechunk((rows.chunks[0],))
            )
            beside[name] = own.to_delayed().ravel().tolist()
        return [
            dask.delayed(_array_part, pure=False)(
                block, list(beside), [beside[name][k] for name in beside]
            )
            for k, block in enumerate(blocks)
        ]


def _array_part(matrix: Array, names: list[str], others: list[Array]) -> ArrayPart:
    for name, values in zip(names, others, strict=True):
        if len(values) != len(matrix):
            raise ValueError(
                f"{name} has {len(values)} rows beside {len(matrix)} of X in one chunk: give both "
                "the same chunks, e.g. after compute_chunk_sizes()"
            )
    return ArrayPart(matrix, dict(zip(names, others, strict=True)))


def _work(work: Work[State], part: Frame, first: int, name: str) -> State | None:
    return work(part, first, name)[1]


def _merge(states: Iterable[State | None]) -> State | None:
    total: State | None = None
    for state in states:
        total = merged(total, state)
    return total


def current_client() -> Native | None:
    if "distributed" not in sys.modules:
        return None
    distributed = importlib.import_module("distributed")
    try:
        client = distributed.get_client()
    except ValueError:
        return None
    if client.status not in ("running", "connecting"):
        raise ValueError(
            f"the Client of Dask is {client.status}: open a new one, or leave the block that makes "
            "it current, and pass a table that does not live on it"
        )
    return client


def _computed(root: Native, leaves: list[Native], watch: Pass) -> Native:
    cancelled = importlib.import_module("concurrent.futures").CancelledError
    client = current_client()
    try:
        with watch(len(leaves)) as advance:
            return (
                _run_here(root, leaves, advance)
                if client is None
                else _run_there(client, root, leaves, advance)
            )
    except (ValueError, TypeError, ImportError, MemoryError):
        raise
    except cancelled as error:
        raise ValueError(CLOSED) from error
    except Exception as error:
        # what a partition is made of runs only now, and may fail with anything
        lines = str(error).splitlines() or [""]
        raise ValueError(
            f"a partition of X cannot be computed ({type(error).__name__}: {lines[0]}): check "
            "that X.compute() works"
        ) from error


def _run_here(root: Native, leaves: list[Native], advance: Advance | None) -> Native:
    dask = importlib.import_module("dask")
    callbacks = importlib.import_module("dask.callbacks")
    keys = {leaf.key for leaf in leaves}

    def tell(key: object, *_others: object) -> None:
        if advance is not None and key in keys:
            advance(1)

    try:
        with callbacks.Callback(posttask=tell):
            return dask.compute(root)[0]
    except ValueError as error:
        if "Missing dependency" not in str(error):
            raise
        raise ValueError(CLOSED) from error


def _run_there(
    client: Native, root: Native, leaves: list[Native], advance: Advance | None
) -> Native:
    distributed = importlib.import_module("distributed")
    # of one partition the leaf is the root, which must not be released
    watched = leaves if len(leaves) > 1 else []
    with warnings.catch_warnings():
        # edges of laws go out with the graph, so they survive the loss of any worker
        warnings.filterwarnings("ignore", "Sending large graph")
        found, *pieces = client.compute([root, *watched])
    for done in distributed.as_completed(pieces):
        if done.status == "finished" and advance is not None:
            advance(1)
        done.release()
    return found.result()
