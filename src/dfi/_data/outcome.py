"""The outcome: a quantity, classes, counts, or several quantities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from dfi._checks import did_you_mean, one_of
from dfi._data.columns import read_vector
from dfi._data.frames import is_series, is_table, open_frame
from dfi._data.levels import constant_columns
from dfi.warnings import OutcomeWarning, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.columns import Vector
    from dfi._types import Bools, Floats, Native

OutcomeKind = Literal["real", "binary", "count", "classes", "several"]
Task = Literal["auto", "classification", "regression"]

# Integers with so few different values are classes more often than quantities.
_FEW_CLASSES = 10


@dataclass(frozen=True, eq=False)
class Outcome:
    """The values to be explained, finite and not all equal, under the name that they came by.

    Attributes
    ----------
    values : ndarray of shape (n,)
        The quantity; 1 for the explained class of two and 0 for the other; the number of the class
        for more; the first of several outcomes.
    name : str
        Its name.
    kind : str
        ``"binary"``: two classes, or only 0 and 1; ``"count"``: non-negative integers, given as
        integers; ``"classes"``: three or more; ``"several"``: several quantities.
    classes : tuple of str
        The names of the classes, those of two with the explained one last.
    labels : tuple of object
        The classes as they came.
    named : bool
        Whether classes came as labels, not as numbers 0 and 1 or booleans.
    members : tuple of Outcome
        One for each class (of three or more), or for each of several outcomes: the whole is
        explained by the sum of them.
    """

    values: Floats
    name: str
    kind: OutcomeKind
    classes: tuple[str, ...] = ()
    labels: tuple[object, ...] = ()
    named: bool = False
    members: tuple[Outcome, ...] = field(default=(), repr=False)

    @property
    def is_classes(self) -> bool:
        """Whether the outcome is a class, of two or more."""
        return self.kind in ("binary", "classes")

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 for quantities."""
        return {"binary": 2, "classes": len(self.classes)}.get(self.kind, 0)

    def as_dict(self) -> dict[str, object]:
        """Return what a result tells of its outcome."""
        found: dict[str, object] = {"name": self.name, "kind": self.kind}
        if self.classes:
            found["classes"] = list(self.classes)
        if self.kind == "binary":
            found["positive"] = self.classes[-1] if self.classes else "1"
        if self.kind == "several":
            found["outcomes"] = [member.name for member in self.members]
        return found


def read_outcome(
    y: object,
    n_rows: int,
    kept: Bools | None = None,
    *,
    task: Task = "auto",
    positive: object = None,
    counted: bool = False,
) -> Outcome:
    """Read the outcome of the ``kept`` rows (None: all).

    Parameters
    ----------
    y : array-like or frame
        One value per row: numbers, booleans or labels of classes; or a frame or a two-dimensional
        array of several quantities.
    n_rows : int
        Rows of the table.
    kept : ndarray of bool, optional
        Rows that are used.
    task : {"auto", "classification", "regression"}
        Whether values are classes. ``"auto"``: labels, booleans and numbers that are only 0 and 1.
    positive : object, optional
        The class of two that is explained; by default the last in their order.
    counted : bool
        Whether the loss says that numbers are counts or amounts, no classes.
    """
    one_of("task", task, get_args(Task))
    several = _several(y)
    if several is not None:
        return _read_several(several, n_rows, kept, task, positive)
    vector = read_vector(y, "y")
    reading = vector.reading
    if len(reading) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows and y has {len(reading)} values; they must be the same rows."
        )
    if n_rows == 0:
        raise ValueError("y has no values.")
    if reading.kind == "categorical":
        return _read_labels(vector, kept, task, positive)
    if counted and task == "auto":
        task = "regression"
    values = _numbers(vector, kept)
    distinct = np.unique(values)
    if constant_columns(distinct[:, None])[0]:
        raise ValueError(
            f"y is constant (every value is {distinct[0]:.6g}): there is nothing to explain."
        )
    two = len(distinct) == 2 and distinct[0] == 0 and distinct[1] == 1
    if task == "classification" or (task == "auto" and (two or reading.kind == "boolean")):
        return _numbered_classes(vector, values, distinct, positive)
    if positive is not None:
        raise ValueError(
            f"positive={positive!r} names the class that is explained, and y is a quantity: leave "
            "it out, or pass task='classification'"
        )
    if reading.kind == "integer" and task == "auto" and 3 <= len(distinct) <= _FEW_CLASSES:
        shown = ", ".join(f"{value:.0f}" for value in distinct)
        warn(
            f"y holds integers with only {len(distinct)} different values ({shown}): they look "
            "like classes, and are explained as a quantity. Pass task='classification' if they "
            "are classes, task='regression' if they are a quantity.",
            OutcomeWarning,
        )
    counts = reading.kind == "integer" and distinct[0] >= 0
    return Outcome(values, vector.name, "count" if counts else "real")


def _several(y: object) -> list[tuple[str, object]] | None:
    """Return the columns of a frame or array that has two or more, else None."""
    if is_series(y) or isinstance(y, list | tuple | range):
        return None
    if isinstance(y, np.ndarray):
        if y.ndim != 2 or y.shape[1] < 2:
            return None
        return [(f"y{k}", y[:, k]) for k in range(y.shape[1])]
    if is_table(y):
        opened = open_frame(y, "y")
        if opened is not None and len(opened[2]) > 1:
            _, labels, columns, _ = opened
            return [
                (str(label), column.to_native())
                for label, column in zip(labels, columns, strict=True)
            ]
    return None


def _read_several(
    columns: list[tuple[str, Native]],
    n_rows: int,
    kept: Bools | None,
    task: Task,
    positive: object,
) -> Outcome:
    if task == "classification" or positive is not None:
        raise ValueError(
            f"y has {len(columns)} columns, and several outcomes are explained as quantities: "
            "leave task and positive out, or explain one column of classes at a time"
        )
    members = []
    for name, column in columns:
        if read_vector(column, "y").reading.kind == "categorical":
            raise TypeError(
                f"y has {len(columns)} columns and {name!r} holds classes or strings: several "
                "outcomes are explained as quantities; explain this one by itself"
            )
        found = read_outcome(column, n_rows, kept, task="regression")
        members.append(replace(found, name=name))
    names = [member.name for member in members]
    if len(set(names)) < len(names):
        raise ValueError("y has two columns of the same name; rename one of them.")
    return Outcome(members[0].values, " + ".join(names), "several", members=tuple(members))


def _numbers(vector: Vector, kept: Bools | None) -> Floats:
    values = vector.numbers()
    used = np.ones(len(values), dtype=bool) if kept is None else kept
    bad = ~np.isfinite(values) & used
    if bad.any():
        raise ValueError(
            f"y has {int(bad.sum())} missing (NaN, null) or infinite values, the first in row "
            f"{int(bad.argmax())}. Drop those rows from X and y: what has no outcome cannot be "
            "explained."
        )
    return values if kept is None else values[kept]


def _read_labels(vector: Vector, kept: Bools | None, task: Task, positive: object) -> Outcome:
    reading = vector.reading
    levels = [repr(level) for level in sorted(reading.observed(), key=str)]
    shown = ", ".join(levels[:5]) + (", ..." if len(levels) > 5 else "")
    if task == "regression":
        raise TypeError(
            f"y holds classes or strings ({shown}) and task='regression' explains a quantity: "
            "encode them as numbers, or leave task at 'auto'"
        )
    used = np.ones(len(reading), dtype=bool) if kept is None else kept
    gaps = reading.gaps & used
    if gaps.any():
        raise ValueError(
            f"y has {int(gaps.sum())} missing labels, the first in row {int(gaps.argmax())}. Drop "
            "those rows from X and y: what has no outcome cannot be explained."
        )
    rows = reading if kept is None else reading.take(np.flatnonzero(kept))
    present = rows.observed()
    labels = tuple(level for level in reading.levels() if level is not None and level in present)
    codes = np.asarray(rows.codes(labels), dtype=np.float64)
    return _classes(vector.name, labels, codes, positive, named=True)


def _numbered_classes(
    vector: Vector, values: Floats, distinct: Floats, positive: object
) -> Outcome:
    labels: tuple[object, ...]
    if vector.reading.kind == "boolean":
        labels = tuple(bool(value) for value in distinct)
    else:
        labels = tuple(int(v) if float(v).is_integer() else float(v) for v in distinct)
    codes = np.searchsorted(distinct, values).astype(np.float64)
    two = labels in ((0, 1), (False, True))
    return _classes(vector.name, labels, codes, positive, named=not two)


def _classes(
    name: str, labels: Sequence[object], codes: Floats, positive: object, *, named: bool
) -> Outcome:
    texts = [str(label) for label in labels]
    if len(labels) < 2:
        raise ValueError(
            f"y has one class only ({labels[0]!r} in every row): there is nothing to tell apart."
        )
    chosen = _position(positive, labels)
    if len(labels) == 2:
        chosen = 1 if chosen is None else chosen
        order = (1 - chosen, chosen)
        return Outcome(
            np.asarray(codes == chosen, dtype=np.float64),
            name,
            "binary",
            tuple(texts[k] for k in order),
            tuple(labels[k] for k in order),
            named,
        )
    if chosen is not None:
        rest = f"not {texts[chosen]}"
        return Outcome(
            np.asarray(codes == chosen, dtype=np.float64),
            name,
            "binary",
            (rest, texts[chosen]),
            (rest, labels[chosen]),
            named,
        )
    members = tuple(
        Outcome(
            np.asarray(codes == k, dtype=np.float64),
            text,
            "binary",
            (f"not {text}", text),
            (f"not {text}", labels[k]),
            named,
        )
        for k, text in enumerate(texts)
    )
    return Outcome(codes, name, "classes", tuple(texts), tuple(labels), named, members)


def _position(positive: object, labels: Sequence[object]) -> int | None:
    if positive is None:
        return None
    for k, label in enumerate(labels):
        if label == positive:
            return k
    texts = [str(label) for label in labels]
    if str(positive) in texts:
        # a label that came through a command line is text, whatever it was in the table
        return texts.index(str(positive))
    hint = did_you_mean(positive, texts)
    shown = ", ".join(map(repr, labels[:5])) + (", ..." if len(labels) > 5 else "")
    raise ValueError(f"positive={positive!r} is no class of y, which has {shown}{hint}")
