"""What a reader needs to judge a result: its units, its checks, its diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.checks import check_result
from dfi.warnings import InferenceWarning, warn

if TYPE_CHECKING:
    from dfi._data import Table
    from dfi._models.fits import Fits
    from dfi._scoring.transported import TransportedScores
    from dfi._types import Floats, Ints
    from dfi.inference.score_transport import Task

ROWS_PER_COLUMN = 6
"""Rows for each latent coordinate up to which scores are visibly biased."""


def explain_diagnostics(
    design: Any,
    transport: Any,
    scored: TransportedScores,
    fits: Fits,
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
    scored : TransportedScores
        The scores under it.
    fits : Fits
        The data and the models.
    task : Task
        What was scored.
    diagnose : bool
        Check the scores (noise floor, totals, fidelity) and the dependence that is left.
    say : bool
        Warn of dependence that is left.
    """
    n, d = len(fits.rows), transport.n_latent
    found: dict[str, Any] = {
        "lines": scored.rule,
        "n_latent": d,
        "standard_errors": scored.standard_errors,
        "asymptotics": warn_of_few_rows(n, dependent_columns(transport), design),
        **scored.diagnostics,
    }
    membership = unit_membership(fits.table, transport)
    linear = getattr(transport, "linear", transport)
    if hasattr(linear, "kernel_variance"):
        found |= {
            "rank": linear.rank,
            "condition": linear.condition,
            "random_kernel": bool(linear.kernel_variance.any()),
            "collinear_units": collinear_units(linear, np.argmax(membership, axis=1)),
        }
    components = unit_components(fits.table, transport)
    if components is not None:
        found["n_components"] = len(components)
        found["largest_component"] = max(map(len, components))
    if diagnose:
        found |= check_result(
            design,
            transport,
            scored,
            task,
            membership,
            seed=fits.child("diagnosis"),
            say=say,
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


def undetected_scores(transport: Any, scored: TransportedScores, membership: Floats) -> Floats:
    """Return the score that each unit may have through dependence that the tests missed.

    Half of the bound on the squared multiple correlation of its component with the rest, times
    the sum of all scores (:mod:`dfi.transports.components`).
    """
    missed = getattr(getattr(transport, "linear", transport), "missed", None)
    if missed is None:
        return np.zeros(membership.shape[1])
    total = max(0.0, float(scored.latent_by_repeat.mean(axis=0).sum()))
    return np.asarray(0.5 * total * np.max(membership * missed[:, None], axis=0, initial=0.0))
