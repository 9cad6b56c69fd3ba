"""Dependence that the transport leaves between latent coordinates, and the alternative."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._findings import Finding
from dfi._parameters import argument, worded
from dfi.transports.auto import Auto

if TYPE_CHECKING:
    from dfi._diagnosis.independence import Independence
    from dfi._diagnosis.totals import Totals
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import Task
    from dfi._types import Bools, Floats
    from dfi.transports.base import Transport

CARE = 0.85
"""Area under the curve that lowers the verdict; below it, the result only has a note.

On 14 real tables a better map moved rankings no more than halving the rows does, but for four.
"""

UPPER = 1.645
"""Standard errors up to which dependence may have moved the sum of the scores. The area under the
curve alone grows with the rows: at 1,000 of them it is above :data:`CARE` in most real tables, and
intervals cover where the sum is right."""

TRIED = 50_000
"""Rows times squared columns up to which another transport is tried in order to say what it is: a
potential for 442 x 10 takes .8 CPU seconds, for 569 x 30 nine, more than the scores themselves."""

WORTH_NAMING = 0.05
"""Dependence matters where one of the two has at least this share of the latent scores."""


def dependence(
    design: Transport,
    left: Independence,
    pairs: list[list[str]],
    totals: Totals,
    *,
    tried: str = "",
) -> Finding:
    """Report how dependent latent coordinates remain; ``tried`` describes another transport.

    It limits a result whose sum (``totals``) it may have moved: without interactions that is right.
    """
    measured = f"AUC {left.auc:.2f}, chance reaches {left.chance_auc:.2f}"
    numbers = {"auc": left.auc, "chance": left.chance_auc}
    silent = totals.interaction is None or totals.additive
    moves = silent or totals.astray_by(UPPER)
    if left.dependent:
        about = dict.fromkeys(name for pair in pairs for name in pair)
        named = ", ".join(f"{first!r} and {second!r}" for first, second in pairs)
        return Finding(
            "dependence",
            "care" if left.auc >= CARE and moves else "note",
            f"{argument('transport', design.name)} leaves dependence between features "
            f"({measured}), mostly between {named}",
            numbers,
            f"The split between these is unreliable; trust their sum. {tried}",
            tuple(about),
        )
    much = "little" if left.auc > left.chance_auc else "no"
    beyond = "" if left.auc > left.chance_auc else " beyond chance"
    return Finding(
        "dependence",
        "note",
        f"the transport leaves {much} dependence{beyond} ({measured})",
        numbers,
    )


def other_transport(
    design: Transport, scored: Scores, task: Task, seed: np.random.SeedSequence
) -> str:
    """Say what ``transport="auto"`` would do with the same rows."""
    if task.blocks.columns != task.fits.table.columns:
        return "No other transport takes groups as units"
    auto = argument("transport", "auto")
    call = worded("dfi.sensitivity(X, y)", "dfi sensitivity")
    compare = f"{call} shows what depends on the transport"
    if len(scored.rows) * np.count_nonzero(~task.fits.constant) ** 2 > TRIED:
        return f"{auto} chooses a map by the data. {compare}"
    matrix, weights = task.matrix[scored.rows], task.weights.take(scored.rows)
    choice = Auto().choose(matrix, weights, task.fits.constant, task.fits.table.columns, seed)
    if choice.design.name == design.name:
        return f"{auto} would choose the same transport: {choice.reasons[-1]}. {compare}"
    return f"{auto} would choose {choice.design.name!r}: {'; '.join(choice.reasons)}. {compare}"


def carrying(scores: Floats) -> Bools:
    """Return which features have a notable latent score."""
    positive = np.maximum(scores, 0.0)
    return np.asarray(positive >= WORTH_NAMING * positive.sum())
