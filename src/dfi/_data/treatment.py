"""The treatment: two arms, of which one is called treated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._data.columns import read_vector
from dfi._data.outcome import Outcome, position_of

if TYPE_CHECKING:
    from dfi._data.columns import Vector
    from dfi._data.table import Table
    from dfi._types import Bools, Floats, VectorLike

MOST_ARMS = 10
"""Different numbers up to which whole ones are arms of a trial, and beyond which they are doses."""


def read_treatment(
    treatment: VectorLike, n_rows: int, kept: Bools | None = None, *, treated: object = None
) -> Outcome:
    vector = read_vector(treatment, "treatment")
    if len(vector.reading) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows and treatment has {len(vector.reading)} values; they must be the "
            "same rows."
        )
    used = np.ones(n_rows, dtype=bool) if kept is None else kept
    gaps = vector.reading.gaps & used
    if vector.reading.numbers is not None:
        gaps = ~np.isfinite(vector.reading.numbers) & used
    if gaps.any():
        raise ValueError(
            f"treatment has {int(gaps.sum())} missing or infinite values, the first in row "
            f"{int(gaps.argmax())}: drop those rows, whose arm is not known"
        )
    labels, codes = _labelled(vector, used)
    if len(labels) < 2:
        raise ValueError(
            f"treatment has one level only ({labels[0]!r} in every row): an effect compares two "
            "arms; pass the rows of both"
        )
    if len(labels) > 2:
        _refuse_more(vector, labels)
    chosen = position_of(treated, labels, parameter="treated", whose="level of treatment")
    chosen = 1 if chosen is None else chosen
    order = (1 - chosen, chosen)
    return Outcome(
        np.asarray(codes == chosen, dtype=np.float64),
        vector.name,
        "binary",
        tuple(str(labels[k]) for k in order),
        tuple(labels[k] for k in order),
        named=True,
    )


def refuse_copies(table: Table, treatment: Outcome) -> None:
    """Raise if a column of the table is the treatment itself, under whatever labels."""
    arm = treatment.values == 1.0
    for column in table.columns:
        block = table.matrix[:, list(column.positions)]
        first, second = block[arm], block[~arm]
        if (
            (first == first[0]).all()
            and (second == second[0]).all()
            and (first[0] != second[0]).any()
        ):
            raise ValueError(
                f"column {column.name!r} of X says who was treated, which is {treatment.name!r} "
                "itself: leave it out of X, or pass its name as treatment"
            )


def _labelled(vector: Vector, used: Bools) -> tuple[tuple[object, ...], Floats]:
    """Return the labels in their order, and of each used row the place among them."""
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


def _refuse_more(vector: Vector, labels: tuple[object, ...]) -> None:
    """Raise for doses and for three arms or more, each with what can be done."""
    fractions = any(isinstance(label, float) for label in labels)
    if vector.reading.kind != "categorical" and (fractions or len(labels) > MOST_ARMS):
        raise ValueError(
            f"treatment is continuous ({len(labels)} different values from {labels[0]:.4g} to "
            f"{labels[-1]:.4g}), and effects compares two arms: cut it in two, e.g. treatment > "
            f"{labels[len(labels) // 2]:.4g}, or pass pseudo-outcomes of an effect per unit"
        )
    shown = ", ".join(map(repr, labels[:5])) + (", ..." if len(labels) > 5 else "")
    raise ValueError(
        f"treatment has {len(labels)} arms ({shown}), and effects compares two: keep the rows of "
        f"two of them, e.g. {labels[0]!r} and {labels[1]!r}, or join arms"
    )
