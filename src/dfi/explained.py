"""From scored rows to a result: its units, its checks, its diagnostics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.checks import check_result
from dfi.results.importance import Importance
from dfi.warnings import InferenceWarning, warn

if TYPE_CHECKING:
    from dfi._data import Outcome, Table, Weights
    from dfi._lines.choose import LineOptions
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.forms import ScoreForm
    from dfi._scoring.scores import Scores, Task
    from dfi._types import Bools, Floats, Ints

ROWS_PER_COLUMN = 6
"""Rows for each latent coordinate up to which scores are visibly biased."""


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


def explain_diagnostics(
    design: Any,
    transport: Any,
    scored: Scores,
    fitted: FittedModels,
    task: Task,
    *,
    diagnose: bool,
    say: bool,
) -> dict[str, Any]:
    """Return what a reader needs to judge the transport, the scores and the asymptotics.

    Parameters
    ----------
    design, transport : transport
        The specification and the fitted transport.
    scored : Scores
        The scores under it.
    fitted : FittedModels
        The data.
    task : Task
        What was scored.
    diagnose : bool
        Check the scores (noise floor, totals, fidelity) and the dependence that is left.
    say : bool
        Warn of dependence that is left.
    """
    n, d = len(fitted.rows), transport.n_latent
    found: dict[str, Any] = {
        "lines": scored.rule,
        "n_latent": d,
        "standard_errors": scored.standard_errors,
        "asymptotics": warn_of_few_rows(n, dependent_columns(transport), design),
        **scored.diagnostics,
    }
    membership = unit_membership(fitted.table, transport)
    linear = getattr(transport, "linear", transport)
    if hasattr(linear, "kernel_variance"):
        found |= {
            "rank": linear.rank,
            "condition": linear.condition,
            "random_kernel": bool(linear.kernel_variance.any()),
            "collinear_units": collinear_units(linear, np.argmax(membership, axis=1)),
        }
    components = unit_components(fitted.table, transport)
    if components is not None:
        found["n_components"] = len(components)
        found["largest_component"] = max(map(len, components))
    if diagnose:
        found |= check_result(
            design, transport, scored, task, membership, seed=fitted.diagnosis_seed, say=say
        )
    return found


def dependent_columns(transport: Any) -> int:
    """Return the largest number of latent coordinates that the transport mixes with each other."""
    labels = getattr(getattr(transport, "linear", transport), "labels", None)
    return transport.n_latent if labels is None else int(np.bincount(labels).max())


def warn_of_few_rows(n: int, d: int, design: Any) -> str:
    """Say whether there are rows enough for as many columns, and warn where there are not.

    With the true regression (AR(.6) columns, five signals) the five largest scores come out at
    .91, .73 and .49 of the truth where there are 6, 1.5 and .75 rows for each column, small ones
    at 1.5, 4.7 and 8.9 times it; standard errors are near the spread all along.
    """
    if n > ROWS_PER_COLUMN * d:
        return f"more than {ROWS_PER_COLUMN} rows for each column"
    shrinks = getattr(design, "shrinkage", None) == 0.0
    warn(
        f"{n} rows for {d} columns that may depend on each other: with {ROWS_PER_COLUMN} rows or "
        "fewer for each column the scores themselves are biased, large ones towards 0 and small "
        "ones upwards, because chance correlations spread signal over the columns; standard errors "
        "do not show it. Use fewer columns or more rows"
        + (
            f"; transport=dfi.transports.{type(design).__name__}(shrinkage='ledoit-wolf') "
            "lessens the bias of the transport, not that of the regression"
            if shrinks
            else ""
        ),
        InferenceWarning,
    )
    return f"at most {ROWS_PER_COLUMN} rows for each column: scores are biased"


def assemble(table: Table, transport: Any, scored: Scores, context: dict[str, Any]) -> Importance:
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


def collinear_units(linear: Any, owner: Ints) -> bool:
    """Tell whether columns of different units are collinear.

    The one-hot columns of a category always are among themselves. A unit's own null directions are
    those in the span of the null vectors N that lie in its coordinates u: as many as N[u] has
    singular values of 1. Whatever the units do not account for is between them.

    Parameters
    ----------
    linear : transport
        A fitted linear transport.
    owner : ndarray of int, shape (n_latent,)
        The unit of each coordinate.
    """
    null = linear.eigenvectors[:, linear.eigenvalues <= 0]
    if null.shape[1] == 0:
        return False
    units, sizes = np.unique(owner, return_counts=True)
    own = sum(
        int(np.sum(np.linalg.svd(null[owner == unit], compute_uv=False) > 1.0 - 1e-6))
        for unit in units[sizes > 1]
    )
    return bool(own < null.shape[1])


def unit_membership(table: Table, transport: Any) -> Floats:
    """Return the 0/1 matrix (latent coordinates, units): which coordinates a column owns."""
    owner = np.zeros((table.matrix.shape[1], len(table.columns)))
    for unit, positions in enumerate(table.units):
        owner[list(positions), unit] = 1.0
    return np.asarray(owner[transport.active])


def unit_components(table: Table, transport: Any) -> tuple[tuple[str, ...], ...] | None:
    """Return the dependence components as names of units; None for a transport without them.

    Units that do not vary belong to none.
    """
    labels = getattr(getattr(transport, "linear", transport), "labels", None)
    if labels is None:
        return None
    membership = unit_membership(table, transport)
    found: dict[int, list[str]] = {}
    for unit, name in enumerate(table.names):
        places = np.flatnonzero(membership[:, unit])
        if len(places):
            found.setdefault(int(labels[places[0]]), []).append(name)
    return tuple(map(tuple, found.values()))


def undetected_scores(transport: Any, scored: Scores, membership: Floats) -> Floats:
    """Return the score that each unit may have through dependence that the tests missed.

    Half of the bound on the squared multiple correlation of its component with the rest, times
    the sum of all scores (:mod:`dfi.transports.components`).
    """
    missed = getattr(getattr(transport, "linear", transport), "missed", None)
    if missed is None:
        return np.zeros(membership.shape[1])
    total = max(0.0, float(scored.latent_by_repeat.mean(axis=0).sum()))
    return np.asarray(0.5 * total * np.max(membership * missed[:, None], axis=0, initial=0.0))


def _spread(by_repeat: Floats) -> Floats | None:
    return by_repeat.std(axis=0, ddof=1) if len(by_repeat) > 1 else None
