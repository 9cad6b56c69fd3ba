"""The outcome: a quantity, classes, counts, or several quantities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._checks import did_you_mean
from dfi._data.columns import Kind, Reading, Vector, check_rows, read_vector
from dfi._data.frames import is_series, is_table, open_frame
from dfi._data.levels import constant_columns
from dfi._data.text import find_numbers
from dfi._parameters import (
    TABLE,
    TARGET,
    InvalidParameterError,
    argument,
    validated_fields,
    worded,
)
from dfi.warnings import OutcomeWarning, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfi._data.survival import Times
    from dfi._findings import Finding
    from dfi._types import Bools, Floats, Ints, Native

OutcomeKind = Literal["real", "binary", "count", "classes", "several"]
SurvivalTarget = Literal["rmst", "probability"]
Task = Literal["auto", "classification", "regression", "survival"]

# Integers with so few different values are classes more often than quantities.
_FEW_CLASSES = 10


@validated_fields
@dataclass(frozen=True)
class Quantile:
    """The explained target: whether an outcome lies below one of its quantiles.

    ``dfi.explain(X, y, target=dfi.Quantile(0.9))`` explains whether ``y`` lies at or below its
    marginal 0.9 quantile, by the Brier score: which features move the upper tail.

    Parameters
    ----------
    level : float
        Between 0 and 1.

    Examples
    --------
    >>> import dfi
    >>> sample = dfi.datasets.m1(200, d=3)
    >>> result = dfi.explain(sample.X, sample.y, "linear", target=dfi.Quantile(0.9), cv=2)
    >>> result.spec["outcome"]["distribution"]["levels"]
    (0.9,)
    """

    level: float


@dataclass(frozen=True, eq=False)
class Survival:
    """The horizon of an outcome, and the ``brier`` score of the survival curves behind it."""

    times: Times
    horizon: float
    facts: Mapping[str, object]
    brier: float

    def take(self, rows: Bools | Ints) -> Survival:
        return replace(self, times=self.times.take(rows))


@dataclass(frozen=True, eq=False)
class QuantileLevels:
    """Explained levels of a distribution, their quantiles, and two ``beside`` a single level."""

    levels: tuple[float, ...]
    thresholds: tuple[float, ...]
    ranks: Floats
    beside: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    @property
    def single(self) -> bool:
        return self.beside is not None


@dataclass(frozen=True, eq=False)
class Outcome:
    """The values to explain, finite and not all equal, with the name they came with.

    ``values``: the quantity; 1 for the explained class of two; the number of the class for more.
    ``kind``: ``"binary"`` also for 0 and 1, ``"count"`` where the loss says so. ``classes`` and
    ``labels``: as text and as they came, of two the explained one last; ``named``: whether they
    came as labels. ``members``: the outcome of each class or column, whose sum explains the whole.
    ``strata``: different values up to which folds share them out equally. ``place``, ``among``: of
    a class its number among all classes, and how many there are; ``sorted``: whether these are in
    their natural order.
    """

    values: Floats
    name: str
    kind: OutcomeKind
    classes: tuple[str, ...] = ()
    labels: tuple[object, ...] = ()
    named: bool = False
    members: tuple[Outcome, ...] = field(default=(), repr=False)
    effect: Mapping[str, object] = field(default_factory=dict, repr=False)
    survival: Survival | None = field(default=None, repr=False)
    distribution: QuantileLevels | None = field(default=None, repr=False)
    diagnostics: Mapping[str, object] = field(default_factory=dict, repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    strata: int = field(default=2, repr=False)
    place: int = field(default=1, repr=False)
    among: int = field(default=2, repr=False)
    sorted: bool = field(default=True, repr=False)

    @property
    def n_classes(self) -> int:
        return {"binary": 2, "classes": len(self.classes)}.get(self.kind, 0)

    @property
    def is_classes(self) -> bool:
        return self.kind in ("binary", "classes")

    def as_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"name": self.name, "kind": self.kind}
        if self.classes:
            found["classes"] = list(self.classes)
        if self.kind == "binary":
            found["positive"] = self.classes[-1] if self.classes else "1"
        if self.kind == "several":
            found["outcomes"] = [member.name for member in self.members]
        if self.effect:
            found["effect"] = dict(self.effect)
        if self.survival is not None:
            found["survival"] = dict(self.survival.facts)
        if self.distribution is not None:
            levels = self.distribution
            found["distribution"] = {
                "levels": list(levels.levels), "thresholds": list(levels.thresholds)
            }  # fmt: skip
        return found


def read_outcome(
    y: object,
    n_rows: int,
    kept: Bools | None = None,
    *,
    task: Task = "auto",
    positive: object = None,
    counted: bool = False,
    classified: bool = False,
) -> Outcome:
    several = _several(y)
    if several is not None:
        return _read_several(several, n_rows, kept, task, positive)
    vector = read_vector(y, "y")
    check_rows("y", len(vector.reading), n_rows, _names_meant(y))
    if n_rows == 0:
        raise ValueError(f"{TARGET} has no values.")
    shown = _shown(vector, kept)
    rule = outcome_rule(shown, task=task, positive=positive, counted=counted, classified=classified)
    rows = vector.reading if kept is None else vector.reading.take(np.flatnonzero(kept))
    return rule.outcome(rule.values(rows))


@dataclass(frozen=True, eq=False)
class OutcomeStats:
    name: str
    kind: Kind
    n_gaps: int
    first_gap: int
    labels: tuple[object, ...] = ()
    low: float = 0.0
    high: float = 0.0
    distinct: Floats | None = None


@dataclass(frozen=True, eq=False)
class OutcomeRule:
    """How the values of a column become an outcome, decided once for all rows."""

    name: str
    kind: Literal["labels", "numbered", "count", "real"]
    labels: tuple[object, ...] = ()
    distinct: Floats | None = None
    positive: object = None
    named: bool = False

    def values(self, reading: Reading) -> Floats:
        if reading.numbers is None:
            return np.asarray(reading.codes(self.labels), dtype=np.float64)
        if self.distinct is not None:
            return np.searchsorted(self.distinct, reading.numbers).astype(np.float64)
        return reading.numbers

    def outcome(self, values: Floats) -> Outcome:
        if self.kind in ("count", "real"):
            return Outcome(values, self.name, "count" if self.kind == "count" else "real")
        return class_outcome(self.name, self.labels, values, self.positive, named=self.named)


def outcome_rule(
    shown: OutcomeStats,
    *,
    task: Task = "auto",
    positive: object = None,
    counted: bool = False,
    classified: bool = False,
) -> OutcomeRule:
    """Decide whether a column holds classes, counts or a quantity; parameters as read_outcome."""
    if shown.kind == "categorical":
        return _label_rule(shown, task, positive)
    if counted and task == "auto":
        task = "regression"
    if shown.n_gaps:
        raise ValueError(
            f"{TARGET} has {shown.n_gaps} missing (NaN, null) or infinite values, the first in row "
            f"{shown.first_gap}. Drop those rows from {TABLE} and {TARGET}: what has no outcome "
            "cannot be explained."
        )
    if constant_columns(np.array([[shown.low], [shown.high]]))[0]:
        raise ValueError(
            f"{TARGET} is constant (every value is {shown.low:.6g}): there is nothing to explain."
        )
    distinct = shown.distinct
    count = None if distinct is None else len(distinct)
    two = count == 2 and shown.low == 0 and shown.high == 1
    integer = shown.kind == "integer"
    # those who pass a classifier mean classes
    most = _FEW_CLASSES if integer or classified else 2
    few = distinct is not None and len(distinct) <= most and np.all(distinct == np.rint(distinct))
    if task == "auto" and classified and few:
        task = "classification"
    if task == "classification" or (task == "auto" and (two or shown.kind == "boolean")):
        if distinct is None:
            raise ValueError(
                f"{argument('task', 'classification')} makes every number of {TARGET} a class, but "
                f"{TARGET} has too many different ones: bin them, or leave {argument('task')} at "
                "'auto'"
            )
        return _number_rule(shown, distinct, positive)
    if positive is not None:
        raise ValueError(
            f"{argument('pos_label', positive)} names the class that is explained, but {TARGET} is "
            f"a quantity: leave it out, or pass {argument('task', 'classification')}"
        )
    if task == "auto" and distinct is not None and few:
        listed = ", ".join(f"{value:g}" for value in distinct)
        what = "integers with only" if integer else "only"
        warn(
            f"{TARGET} holds {what} {len(distinct)} different values ({listed}): they look like "
            f"classes, and are explained as a quantity. Pass {argument('task', 'classification')} "
            f"if they are classes, {argument('task', 'regression')} if they are a quantity.",
            OutcomeWarning,
        )
    counts = counted and integer and shown.low >= 0
    return OutcomeRule(shown.name, "count" if counts else "real")


def _shown(vector: Vector, kept: Bools | None) -> OutcomeStats:
    reading = vector.reading
    used = np.ones(len(reading), dtype=bool) if kept is None else kept
    if reading.numbers is None:
        gaps = reading.gaps & used
        present = reading.take(np.flatnonzero(used)).observed()
        labels = tuple(
            level for level in reading.levels() if level is not None and level in present
        )
        return OutcomeStats(vector.name, reading.kind, int(gaps.sum()), int(gaps.argmax()), labels)
    bad = ~np.isfinite(reading.numbers) & used
    if bad.any():
        return OutcomeStats(vector.name, reading.kind, int(bad.sum()), int(bad.argmax()))
    distinct = np.unique(reading.numbers[used])
    low, high = float(distinct[0]), float(distinct[-1])
    return OutcomeStats(vector.name, reading.kind, 0, 0, (), low, high, distinct)


def _names_meant(y: object) -> str:
    """Say how columns are named, to those who passed a list of names as values."""
    if not (isinstance(y, list | tuple) and y and all(isinstance(name, str) for name in y)):
        return ""
    return (
        f" If these are names of columns of {TABLE}: a time and its event need "
        f"{argument('task', 'survival')}; one outcome is named by a string, and several are passed "
        "as a table of their own."
    )


def _several(y: object) -> list[tuple[str, object]] | None:
    if is_series(y) or isinstance(y, list | tuple | range):
        return None
    if isinstance(y, np.ndarray):
        y = np.asarray(y)
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
    columns: list[tuple[str, Native]], n_rows: int, kept: Bools | None, task: Task, positive: object
) -> Outcome:
    if task == "classification" or positive is not None:
        raise ValueError(
            f"{TARGET} has {len(columns)} columns, but several outcomes are explained as "
            f"quantities: leave {argument('task')} and {argument('pos_label')} out, or explain one "
            "column of classes at a time"
        )
    members = []
    for name, column in columns:
        if read_vector(column, "y").reading.kind == "categorical":
            raise TypeError(
                f"{TARGET} has {len(columns)} columns and {name!r} holds classes or strings: "
                "several outcomes are explained as quantities; explain this one by itself"
            )
        found = read_outcome(column, n_rows, kept, task="regression")
        members.append(replace(found, name=name))
    names = [member.name for member in members]
    if len(set(names)) < len(names):
        raise ValueError(f"{TARGET} has two columns of the same name; rename one of them.")
    return Outcome(members[0].values, " + ".join(names), "several", members=tuple(members))


def _label_rule(shown: OutcomeStats, task: Task, positive: object) -> OutcomeRule:
    if task == "regression":
        levels = [repr(level) for level in sorted(shown.labels, key=str)]
        listed = ", ".join(levels[:5]) + (", ..." if len(levels) > 5 else "")
        raise TypeError(
            f"{TARGET} holds classes or strings ({listed}) and {argument('task', 'regression')} "
            f"explains a quantity: encode them as numbers, or leave {argument('task')} at 'auto'"
        )
    found = find_numbers(map(str, shown.labels)) if len(shown.labels) > _FEW_CLASSES else None
    if task == "auto" and found is not None:
        one_odd = found.odd is not None and not found.how
        typed = f"call {found.odd!r} missing with --na-values" if one_odd else "write it as numbers"
        raise InvalidParameterError(
            f"{TARGET} {found.words()}",
            "y",
            f"{worded('make it numbers, e.g. ' + found.remedy('y'), typed)}, or pass "
            f"{argument('task', 'classification')} if its numbers are names of classes",
        )
    if shown.n_gaps:
        raise ValueError(
            f"{TARGET} has {shown.n_gaps} missing labels, the first in row {shown.first_gap}. Drop "
            f"those rows from {TABLE} and {TARGET}: what has no outcome cannot be explained."
        )
    return OutcomeRule(shown.name, "labels", shown.labels, None, positive, named=True)


def _number_rule(shown: OutcomeStats, distinct: Floats, positive: object) -> OutcomeRule:
    labels: tuple[object, ...]
    if shown.kind == "boolean":
        labels = tuple(bool(value) for value in distinct)
    else:
        labels = tuple(int(v) if float(v).is_integer() else float(v) for v in distinct)
    two = labels in ((0, 1), (False, True))
    return OutcomeRule(shown.name, "numbered", labels, distinct, positive, named=not two)


def _is_sorted(labels: Sequence[object]) -> bool:
    try:
        return list(labels) == sorted(labels)  # type: ignore[type-var]
    except TypeError:
        return False


def class_outcome(
    name: str,
    labels: Sequence[object],
    codes: Floats,
    positive: object = None,
    *,
    named: bool = True,
) -> Outcome:
    texts = [str(label) for label in labels]
    if len(labels) < 2:
        raise ValueError(
            f"{TARGET} has one class only ({labels[0]!r} in every row): there is nothing to "
            "explain."
        )

    def against(rest: object, k: int, name: str, *, in_order: bool = True) -> Outcome:
        return Outcome(
            np.asarray(codes == k, dtype=np.float64),
            name,
            "binary",
            (str(rest), texts[k]),
            (rest, labels[k]),
            named,
            place=k,
            among=len(labels),
            sorted=in_order,
        )

    chosen = position_of(positive, labels)
    in_order = texts == sorted(texts) or _is_sorted(labels)
    if len(labels) == 2:
        chosen = 1 if chosen is None else chosen
        return against(labels[1 - chosen], chosen, name, in_order=in_order)
    if chosen is not None:
        return against(f"not {texts[chosen]}", chosen, name, in_order=in_order)
    members = tuple(against(f"not {text}", k, text) for k, text in enumerate(texts))
    return Outcome(
        codes, name, "classes", tuple(texts), tuple(labels), named, members, sorted=in_order
    )


def _is_typed(label: object, text: object) -> bool:
    """Return whether a text, as of a command line, means a number or a truth value."""
    if isinstance(label, bool) or not isinstance(text, str):
        return isinstance(label, bool) and str(text).lower() == str(label).lower()
    try:
        return isinstance(label, int | float) and float(text) == label
    except ValueError:
        return False


def position_of(
    chosen: object,
    labels: Sequence[object],
    *,
    parameter: str = "pos_label",
    whose: str | None = None,
) -> int | None:
    """Return which label a parameter names, None if it names none; raise for unknown labels."""
    if chosen is None:
        return None
    texts = [str(label) for label in labels]
    for k, label in enumerate(labels):
        if label == chosen or texts[k] == str(chosen) or _is_typed(label, chosen):
            return k
    hint = did_you_mean(chosen, texts)
    shown = ", ".join(map(repr, labels[:5])) + (", ..." if len(labels) > 5 else "")
    raise InvalidParameterError(
        f"{argument(parameter, chosen)} is not a {whose or f'class of {TARGET}'}, which has "
        f"{shown}{hint}",
        parameter,
    )
