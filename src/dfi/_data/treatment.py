"""The treatment: two arms or more, one of them the control, or a dose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._data.columns import Vector, check_rows, read_vector, refuse_gaps
from dfi._data.outcome import Outcome, class_outcome, position_of
from dfi._parameters import InvalidParameterError, argument

if TYPE_CHECKING:
    from dfi._data.table import Table
    from dfi._types import Bools, Floats, VectorLike

MOST_ARMS = 10
"""Up to this many different whole numbers are arms of a trial; more are doses."""


@dataclass(frozen=True, eq=False)
class Arms:
    """``outcome`` is the number of each row's arm (or dose), ``pairs`` are treated and control."""

    outcome: Outcome
    labels: tuple[object, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()


COPY = 1e-10
"""How far the correlation of a dose with a copy of itself may be from 1."""


def read_treatment(
    treatment: VectorLike,
    n_rows: int,
    kept: Bools | None = None,
    *,
    treated: object = None,
    control: object = None,
    contrasts: Literal["control", "pairwise"] = "control",
) -> Arms:
    vector = read_vector(treatment, "treatment")
    check_rows("treatment", len(vector.reading), n_rows)
    used = np.ones(n_rows, dtype=bool) if kept is None else kept
    gaps = vector.reading.gaps & used
    if vector.reading.numbers is not None:
        gaps = ~np.isfinite(vector.reading.numbers) & used
    remedy = "drop those rows, whose arm is not known"
    refuse_gaps("treatment", gaps, "missing or infinite values", remedy)
    labels, codes = _labelled(vector, used)
    if len(labels) < 2:
        raise ValueError(
            f"treatment has one level only ({labels[0]!r} in every row): an effect compares two "
            "arms; pass the rows of both"
        )
    if _is_dose(vector, labels):
        for parameter, given in (("treated", treated), ("control", control)):
            if given is not None:
                raise InvalidParameterError(
                    f"treatment is a dose ({len(labels)} different numbers), but "
                    f"{argument(parameter, given)} names an arm",
                    parameter,
                    "leave it out",
                )
        return Arms(Outcome(vector.numbers()[used], vector.name, "real"))
    chosen, base = (
        position_of(given, labels, parameter=parameter, whose="level of treatment")
        for parameter, given in (("treated", treated), ("control", control))
    )
    if chosen is not None and chosen == base:
        raise InvalidParameterError(
            f"{argument('treated', treated)} is {argument('control', control)} too",
            "control",
            "name another",
        )
    if len(labels) > 2:
        return _several(vector, labels, codes, chosen, base, contrasts)
    if chosen is None:
        chosen = 1 if base is None else 1 - base
    outcome = class_outcome(vector.name, labels, codes, labels[chosen])
    return Arms(outcome, outcome.labels, ((1, 0),))


def _several(
    vector: Vector,
    labels: tuple[object, ...],
    codes: Floats,
    chosen: int | None,
    base: int | None,
    contrasts: str,
) -> Arms:
    if len(labels) > MOST_ARMS:
        raise ValueError(
            f"treatment has {len(labels)} arms, more than the {MOST_ARMS} that are compared: join "
            "some of them, or keep the rows of those that matter"
        )
    outcome = class_outcome(vector.name, labels, codes)
    count = range(len(labels))
    if contrasts == "pairwise":
        if chosen is not None or base is not None:
            raise InvalidParameterError(
                f"{argument('contrasts', 'pairwise')} compares all arms",
                "contrasts",
                "leave treated and control out",
            )
        return Arms(outcome, labels, tuple((b, a) for a in count for b in count if a < b))
    if base is None:
        base = 1 if chosen == 0 else 0
    pairs = tuple((k, base) for k in count if k != base and chosen in (None, k))
    return Arms(outcome, labels, pairs)


def refuse_copies(table: Table, arms: Arms) -> None:
    """Raise if a column of the table is the treatment itself, under whatever labels or units."""
    treatment = arms.outcome
    codes, first, code = np.unique(treatment.values, return_index=True, return_inverse=True)
    for column in table.columns:
        block = table.matrix[:, list(column.positions)]
        if arms.labels:
            same = bool((block == block[first][code]).all())
            copied = same and len(np.unique(block[first], axis=0)) == len(codes)
        else:
            spread = float(np.ptp(block[:, 0]))
            fitted = np.corrcoef(block[:, 0], treatment.values)[0, 1] if spread > 0 else 0.0
            copied = block.shape[1] == 1 and abs(fitted) > 1.0 - COPY
        if copied:
            raise ValueError(
                f"column {column.name!r} of X says who was treated, which is {treatment.name!r} "
                "itself: leave it out of X, or pass its name as treatment"
            )


def _labelled(vector: Vector, used: Bools) -> tuple[tuple[object, ...], Floats]:
    reading = vector.reading
    if reading.kind == "categorical":
        rows = reading.take(np.flatnonzero(used))
        present = rows.observed()
        labels = tuple(level for level in rows.levels() if level is not None and level in present)
        return labels, np.asarray(rows.codes(labels), dtype=np.float64)
    values = vector.numbers()[used]
    distinct = np.unique(values)
    kinds = bool if reading.kind == "boolean" else float
    whole = reading.kind != "boolean" and bool(np.all(distinct == np.floor(distinct)))
    labels = tuple((int if whole else kinds)(value) for value in distinct.tolist())
    return labels, np.searchsorted(distinct, values).astype(np.float64)


def _is_dose(vector: Vector, labels: tuple[object, ...]) -> bool:
    if vector.reading.kind in ("categorical", "boolean") or len(labels) < 3:
        return False
    return len(labels) > MOST_ARMS or any(isinstance(label, float) for label in labels)
