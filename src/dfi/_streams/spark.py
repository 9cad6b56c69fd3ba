"""Tables of Spark: the work goes to the partitions, and sums come back.

``mapInArrow`` runs the same work on each partition as Dask's tasks do; Spark repeats what a lost
worker did. States of many partitions are merged by the workers, in groups, before they come here.
"""

from __future__ import annotations

import importlib
import pickle
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from dfi._data.frames import Library, refuse_duplicates
from dfi._data.source import Mergeable
from dfi._parameters import TABLE
from dfi._streams.keys import CHANGED, Digest, Witness
from dfi._streams.parts import Partitions, merged, open_part, tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dfi._data.columns import Column
    from dfi._streams.parts import Pass, Work
    from dfi._types import Ints, Native

State = TypeVar("State", bound=Mergeable)

MERGED_AT_ONCE = 16
"""States of partitions that one task merges; as many and fewer come here as they are."""

ANSWER = "part long, failed boolean, state binary"

# a broadcast leaves rows where they are
_SHUFFLE = re.compile(r"(?<!Broadcast)Exchange\b")


def is_spark(X: object) -> bool:
    bases = [(base.__module__, base.__name__) for base in type(_native(X)).__mro__]
    return any(m.startswith("pyspark.") and name == "DataFrame" for m, name in bases)


def _native(X: Native) -> Native:
    wrapped = type(X).__module__.startswith("narwhals") and hasattr(X, "to_native")
    return X.to_native() if wrapped else X


def open_spark(X: Native) -> SparkParts:
    frame = _native(X)
    if type(frame).__module__.startswith("pyspark.pandas"):
        raise TypeError(f"{TABLE} is a frame of pandas on Spark: pass X.to_spark()")
    names = list(frame.columns)
    refuse_duplicates(names)
    with readable():
        plan = _plan(frame)
    return SparkParts(frame, {name: name for name in names}, shuffled=bool(_SHUFFLE.search(plan)))


def _plan(frame: Native) -> str:
    if hasattr(frame, "_jdf"):
        return str(frame._jdf.queryExecution().executedPlan().toString())
    return str(frame._explain_string())  # of Spark Connect


@dataclass(frozen=True, eq=False)
class SparkParts(Partitions):
    """A table of Spark; ``shuffled`` if its plan moves rows, which then have no order."""

    frame: Native
    labels: Mapping[str, object]
    shuffled: bool
    witness: Witness = field(default_factory=Witness)
    library: Library = "pandas"
    what = "a table of Spark"

    @property
    def ordered(self) -> bool:
        return not self.shuffled and not self.witness.moved

    def header(self, features: Sequence[str]) -> object:
        return importlib.import_module("pandas").Index(list(features))

    def dtype(self, column: Column) -> object:
        pandas = importlib.import_module("pandas")
        if column.kind == "categorical":
            return pandas.Series([level for level in column.levels if level is not None]).dtype
        if column.missing:
            return np.dtype(object if column.kind == "boolean" else np.float64)
        kinds = {"boolean": np.bool_, "integer": np.int64}
        return np.dtype(kinds.get(column.kind, np.float64))

    def reduce(
        self, work: Work[State], columns: Sequence[str], watch: Pass, starts: Ints | None = None
    ) -> State | None:
        quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
        task = SparkTask(work, tuple(columns), None if starts is None else starts.tolist())
        with watch(1) as advance, readable():
            answers = self.frame.select(*quoted).mapInArrow(task, ANSWER)
            if not self._few(starts):
                groups = answers.groupBy((answers["part"] / MERGED_AT_ONCE).cast("long"))
                answers = groups.applyInArrow(merge_answers, ANSWER)
            found = sorted(answers.collect(), key=lambda row: row["part"])
            if advance is not None:
                advance(1)
        total: State | None = None
        seen = Digest()
        for row in found:
            answer = _answered(row["state"])
            if row["failed"]:
                raise answer
            total, seen = merged(total, answer.state), seen.merge(answer.seen)
        self.witness.compare(columns, seen)
        return total

    def _few(self, starts: Ints | None) -> bool:
        if starts is not None:
            return len(starts) <= MERGED_AT_ONCE
        known = not self.shuffled and hasattr(self.frame, "_jdf")
        return known and int(self.frame.rdd.getNumPartitions()) <= MERGED_AT_ONCE


@dataclass(frozen=True, eq=False)
class Answer(Generic[State]):
    """The state of some partitions, and a digest of their rows."""

    state: State | None
    seen: Digest

    def merge(self, other: Answer[State]) -> Answer[State]:
        return Answer(merged(self.state, other.state), self.seen.merge(other.seen))


@dataclass(frozen=True, eq=False)
class SparkTask(Generic[State]):
    """What a Python worker of Spark does with a partition: one row with its state comes back."""

    work: Work[State]
    columns: tuple[str, ...]
    starts: Sequence[int] | None

    def __call__(self, batches: Iterator[Native]) -> Iterator[Native]:
        context = importlib.import_module("pyspark").TaskContext.get()
        part = int(context.partitionId())
        try:
            yield _row(part, self.answer(part, batches))
        except (ValueError, TypeError, ImportError) as error:
            for _ in batches:  # Spark waits until all of them are read
                pass
            yield _row(part, error)

    def answer(self, part: int, batches: Iterator[Native]) -> Answer[State]:
        first = 0
        if self.starts is not None:
            if part >= len(self.starts):
                raise ValueError(f"{TABLE} {CHANGED}")
            first = self.starts[part]
        total: State | None = None
        seen = Digest()
        for table in tables(batches, self.columns):
            used, state = self.work(table, first, f"partition {part}")
            first += used
            total = merged(total, state)
            seen = seen.merge(Digest.of(open_part(table), self.columns, seen.rows, part))
        # batches of a partition are no parts
        return Answer(getattr(total, "part", total), seen)


def merge_answers(rows: Native) -> Native:
    found = sorted(rows.to_pylist(), key=lambda row: row["part"])
    total: Native = None
    for row in found:
        answer = _answered(row["state"])
        if row["failed"]:
            total = answer
            break
        total = merged(total, answer)
    batch = _row(found[0]["part"], total)
    return importlib.import_module("pyarrow").Table.from_batches([batch])


def _answered(state: bytes) -> Native:
    return pickle.loads(bytes(state))  # noqa: S301 (a state that our own task wrote)


def _row(part: int, answer: object) -> Native:
    pa = importlib.import_module("pyarrow")
    failed = isinstance(answer, Exception)
    return pa.record_batch(
        {
            "part": pa.array([part], pa.int64()),
            "failed": pa.array([failed]),
            "state": pa.array([pickle.dumps(answer)], pa.binary()),
        }
    )


@contextmanager
def readable() -> Iterator[None]:
    """Put an error of Spark into one sentence."""
    try:
        with warnings.catch_warnings():
            # Spark speaks of versions of pandas, which has no part in this
            warnings.filterwarnings("ignore", ".*pandas", FutureWarning)
            yield
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        if any("No module named 'dfi'" in line for line in lines):
            raise ImportError(
                "the Python workers of Spark have no dfi: install it on the cluster too, from the "
                "same wheel"
            ) from error
        told = next((line for line in reversed(lines) if "Error" in line), lines[0])
        raise ValueError(
            f"{TABLE} is a table of Spark that cannot be read ({type(error).__name__}: "
            f"{told[:300]}): check that X.count() works, and that PYSPARK_PYTHON names this Python"
        ) from error
