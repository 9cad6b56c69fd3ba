"""Dependence that the transport leaves between latent coordinates, and whether another does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._findings import Finding, in_percent
from dfi._parameters import argument, worded
from dfi.transports.auto import LatentDiagnostics, alternative_to, latent_diagnostics
from dfi.transports.base import thin

if TYPE_CHECKING:
    from dfi._scoring.scores import Scores, Task
    from dfi._types import Bools, Floats
    from dfi.methods.totals import Totals
    from dfi.transports.base import Transport

TRIAL_ROWS = 200
"""Rows on which another transport is tried before it is named."""

WORTH_CHANGING = 0.7
"""Another transport is worth naming where it leaves at most this share of the dependence."""

WORTH_NAMING = 0.05
"""Dependence matters where one of the two has at least this share of the latent scores."""


def dependence(
    design: Transport, left: LatentDiagnostics, pair: list[str], *, tried: str = ""
) -> Finding:
    """Say how dependent latent coordinates are left; ``tried`` is what another transport does."""
    value, chance = left.max_distance_correlation, left.null_distance_correlation
    measured = f"distance correlation {value:.2f}, chance reaches {chance:.2f}"
    numbers = {"distance_correlation": value, "chance": chance}
    if left.dependent:
        return Finding(
            "dependence",
            "care",
            f"the latent coordinates of {pair[0]!r} and {pair[1]!r} stay dependent under "
            f"{argument('transport', design.name)} ({measured})",
            numbers,
            f"Signal that the two share beyond correlation is not divided between them. {tried}",
            tuple(pair),
        )
    much = "little" if value > chance else "no"
    beyond = "" if value > chance else " beyond chance"
    return Finding(
        "dependence",
        "note",
        f"{much} dependence between latent coordinates is left{beyond} ({measured})",
        numbers,
    )


def other_transport(
    design: Transport,
    scored: Scores,
    task: Task,
    before: LatentDiagnostics,
    totals: Totals,
    carries: Bools,
    seed: np.random.SeedSequence,
) -> str:
    """Try normal scores in place of whitening, with the same models, and say what they change."""
    call = worded("dfi.sensitivity(X, y, transports=[...])", "dfi sensitivity")
    compare = f"{call} shows what depends on the transport"
    other = alternative_to(design)
    if task.columns != task.table.columns:
        return "No other transport takes groups as units"
    if other is None:
        return compare
    matrix, weights = task.table.matrix[scored.rows], task.weights.take(scored.rows)
    fitted = other.fit_matrix(matrix, weights, task.constant, columns=task.table.columns)
    draws = fitted.draw(matrix, np.random.default_rng(seed))
    left = latent_diagnostics(draws, seed, fitted.owner(task.columns), carries)
    leaves = f"distance correlation {left.max_distance_correlation:.2f}"
    if left.max_distance_correlation > WORTH_CHANGING * before.max_distance_correlation:
        return (
            f"{argument('transport', 'copula')} was tried and leaves as much ({leaves}). {compare}"
        )
    folds = thin([fold for fold in task.folds if fold.repeat == 0][:1], TRIAL_ROWS, task.weights)
    if not folds:
        return compare
    trial = replace(task, folds=folds, transport_error="ignore", advance=None)
    found = fitted.score(trial)
    chosen = task.weights.take(found.rows)
    same = scored.attributed[np.searchsorted(scored.rows, found.rows)]
    shares = [
        chosen.mean(part.sum(axis=1))[0] / totals.variance for part in (same, found.attributed)
    ]
    return (
        f"{argument('transport', 'copula')} was tried and leaves less ({leaves}): on "
        f"{len(found.rows)} rows the scores add up to {in_percent(shares[1])} of {totals.whole} "
        f"with it, and to {in_percent(shares[0])} with {design.name!r}. {compare}"
    )


def carrying(scores: Floats) -> Bools:
    """Return which features have a latent score worth speaking of."""
    positive = np.maximum(scores, 0.0)
    return np.asarray(positive >= WORTH_NAMING * positive.sum())
