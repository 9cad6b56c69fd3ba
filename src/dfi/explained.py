"""From scored rows to a result of the caller's columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.methods.diagnosis import undetected_scores, unit_components, unit_membership
from dfi.results.importance import Importance

if TYPE_CHECKING:
    from dfi._data import Outcome, Table, Weights
    from dfi._lines.choose import LineOptions
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.forms import ScoreForm
    from dfi._scoring.scores import Scores
    from dfi._types import Bools, Floats, Ints
    from dfi.transports.base import FittedTransport


@dataclass(frozen=True)
class FittedModels:
    """Everything that does not depend on the transport: the data, the folds and their models.

    Attributes
    ----------
    folds : tuple of FoldModels
        The fitted models and their held-out rows.
    table, outcome, weights, groups
        The data as read.
    rows : ndarray of int
        The rows that are held out at least once: those that are explained.
    constant : ndarray of bool
        The matrix columns that do not vary among them.
    form, options
        How latent scores and line means are taken.
    diagnosis_seed, transport_seed : SeedSequence
        For the diagnostics, and for what is random in a transport.
    """

    folds: tuple[FoldModels, ...]
    table: Table
    outcome: Outcome
    weights: Weights
    groups: Any
    rows: Ints
    constant: Bools
    form: ScoreForm
    options: LineOptions
    diagnosis_seed: np.random.SeedSequence
    transport_seed: np.random.SeedSequence


def assemble(
    table: Table, transport: FittedTransport, scored: Scores, context: dict[str, Any]
) -> Importance:
    """Sum the columns of each unit and put both spaces into one result."""
    membership = unit_membership(table, transport)
    degenerate = membership.sum(axis=0) == 0
    columns = np.maximum(membership.sum(axis=0), 1)
    unrelated = np.zeros(len(table.names), dtype=np.bool_)
    if scored.unread is not None:
        unrelated = ~degenerate & ((~scored.unread).astype(np.float64) @ membership == 0)
    context = {
        **context, "unrelated": unrelated,
        "undetected": undetected_scores(transport, scored, membership) * unrelated,
        "components": unit_components(table, transport),
    }  # fmt: skip
    latent_result = Importance(
        influence=scored.latent @ membership,
        names=table.names,
        space="latent",
        degenerate=degenerate,
        spread=_spread(scored.latent_by_repeat @ membership),
        **context,
    )
    return Importance(
        influence=scored.attributed @ membership,
        names=table.names,
        space="attributed",
        degenerate=degenerate,
        spread=_spread(scored.attributed_by_repeat @ membership),
        latent=latent_result,
        attribution=membership.T @ scored.attribution @ membership / columns,
        **context,
    )


def _spread(by_repeat: Floats) -> Floats | None:
    return by_repeat.std(axis=0, ddof=1) if len(by_repeat) > 1 else None
