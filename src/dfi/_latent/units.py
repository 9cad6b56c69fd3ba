"""Which scores are added up for a unit, and which units belong together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.problem import Blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.columns import Column
    from dfi._scoring.scores import Scores, Task
    from dfi._types import Floats
    from dfi.transports.base import FittedTransport


def score_membership(transport: FittedTransport, task: Task) -> Floats:
    """Return the matrix (scores, units): which scores are added up for a unit, as 0 and 1.

    Of Shapley values, units that several targets hold are divided evenly between them.
    """
    varying = transport.membership(task.blocks.columns)
    if task.blocks.targets is None:
        return varying
    if task.by_unit:
        holds = np.zeros((varying.shape[1], len(task.blocks.targets)))
        for place, target in enumerate(task.blocks.targets):
            holds[list(target.units), place] = 1.0
        return np.asarray(varying @ (holds / np.maximum(holds.sum(axis=1, keepdims=True), 1.0)))
    units = set(np.flatnonzero(varying.any(axis=0)).tolist())
    kept = [bool(units.intersection(target.units)) for target in task.blocks.targets]
    return np.eye(len(kept))[kept]


def unit_components(
    columns: Sequence[Column], transport: FittedTransport
) -> tuple[tuple[str, ...], ...] | None:
    """Return the dependence components as names of units; None for a transport without them.

    Units that do not vary belong to none.
    """
    labels = transport.labels
    if labels is None:
        return None
    owner = transport.owner(columns)
    found: dict[int, list[str]] = {}
    for unit, column in enumerate(columns):
        places = np.flatnonzero(owner == unit)
        if len(places):
            found.setdefault(int(labels[places[0]]), []).append(column.name)
    return tuple(map(tuple, found.values()))


def group_overlap(transport: FittedTransport, scored: Scores, task: Task) -> dict[str, object]:
    r"""Compare the scores of overlapping groups with those of their atoms, on the first split.

    For independent atoms :math:`\max_a \psi_a \le \psi_G \le \sum_a \psi_a`: a ratio above 1 shows
    dependence that is left between atoms, one below 1 interactions between them.
    """
    columns, targets = task.blocks.columns, task.blocks.targets or ()
    folds = [fold for fold in task.folds if fold.repeat == 0]
    blocks = Blocks(columns, None, len(columns))
    apart = replace(task, folds=folds, blocks=blocks, transport_error="ignore", advance=None)
    atoms = transport.plain_scores(apart).latent_by_repeat[0] @ transport.membership(columns)
    joint = scored.known.latent_by_repeat[0] @ score_membership(transport, task)
    ratios = {}
    for target, score in zip(targets, joint, strict=True):
        total = float(atoms[list(target.units)].sum())
        if len(target.units) > 1 and total > 0:
            ratios[target.name] = float(score) / total
    held = sorted({unit for target in targets for unit in target.units})
    return {
        "atoms": {columns[unit].name: float(atoms[unit]) for unit in held},
        "of_atoms": ratios,
    }


def undetected_scores(transport: FittedTransport, scored: Scores, task: Task) -> Floats:
    """Return the score that each unit may have through dependence that the tests missed.

    Half of the bound on the squared multiple correlation of its component with the rest, times
    the sum of all scores (:mod:`dfi._estimates.components`).
    """
    columns, targets = task.blocks.columns, task.blocks.targets
    bound = np.zeros(len(columns))
    if transport.missed is not None:
        np.maximum.at(bound, transport.owner(columns), transport.missed)
    if targets is not None:
        bound = np.array([bound[list(target.units)].max(initial=0.0) for target in targets])
    total = max(0.0, float(scored.latent_by_repeat.mean(axis=0).sum()))
    return np.asarray(0.5 * total * bound)
