"""Scores and standard errors under any transport: lines, copula, curves and kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.importance.curves import curve_scores
from dfi.importance.kernel_scores import entropic_scores
from dfi.importance.scores import pooled_scores
from dfi.importance.transported import TransportedScores
from dfi.importance.unread import unread_coordinates
from dfi.inference.copula_terms import copula_influence
from dfi.inference.row_copies import RowCopies
from dfi.inference.transport_jackknife import (
    N_GROUPS,
    deal_groups,
    group_influence,
    with_transport_error,
)
from dfi.inference.transport_terms import MapInfluence, attributed_influence, latent_terms
from dfi.transport.base import UnsuitableTransportError, fit_transport
from dfi.transport.copula import CopulaTransport
from dfi.transport.entropic import DOUBTFUL, EntropicOT, EntropicTransport, too_small_message
from dfi.transport.gaussian import LinearTransport
from dfi.warnings import TransportWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dfi.data.table import Table
    from dfi.data.weights import Weights
    from dfi.importance.latent import ScoreForm
    from dfi.importance.scores import PooledScores
    from dfi.lines.choose import LineOptions
    from dfi.nuisance.crossfit import FoldModels

    Floats = NDArray[np.float64]

JACKKNIFE_ROWS = 400
"""Rows on which the scores of refitted transports are compared."""

JACKKNIFE_TARGETS = 1024
ROUND_TRIP = 0.05
"""Root mean square error of decode(encode(X)), in standard deviations, that is worth a warning."""


@dataclass(frozen=True)
class Task:
    """Everything that scoring needs besides the transport.

    Attributes
    ----------
    folds : sequence of FoldModels
        The fitted models.
    table, y, weights
        All rows.
    rows : ndarray of int
        The rows that are explained, on which the transport was fitted.
    constant : ndarray of bool
        The columns that do not vary among them.
    form, options, tilt
        How latent scores and line means are taken.
    fixed : bool
        Take the transport as known in the standard errors.
    seed : SeedSequence
        For random encoders and the jackknife's groups.
    """

    folds: Sequence[FoldModels]
    table: Table
    y: Floats
    weights: Weights
    rows: NDArray[np.intp]
    constant: NDArray[np.bool_]
    form: ScoreForm
    options: LineOptions
    tilt: bool
    fixed: bool
    seed: np.random.SeedSequence
    n_jobs: int | None = None
    advance: Callable[[int], object] | None = None


def score_transport(design: Any, transport: Any, task: Task) -> TransportedScores:
    """Score the held-out rows of every fold under a fitted transport.

    Parameters
    ----------
    design : transport
        The specification, for fitting it again.
    transport : fitted transport
        Fitted on ``task.rows``.
    task : Task
        Models and data.
    """
    if isinstance(transport, LinearTransport):
        return _linear(design, transport, task)
    if isinstance(transport, CopulaTransport):
        return _copula(transport, task)
    if isinstance(transport, EntropicTransport):
        return _entropic(design, transport, task)
    return _curves(design, transport, task)


def _linear(design: Any, transport: LinearTransport, task: Task) -> TransportedScores:
    """Straight lines: exact for trees, the transport's influence derived."""
    pooled = pooled_scores(
        task.folds,
        task.table.matrix,
        task.y,
        task.weights,
        transport,
        form=task.form,
        options=task.options,
        tilt=task.tilt,
        n_draws=getattr(design, "n_draws", 1),
        n_smoothing=getattr(design, "n_smoothing", 1),
        n_jobs=task.n_jobs,
        advance=task.advance,
    )
    scores = pooled.scores
    phi = task.weights.take(pooled.rows).mean(scores.influence)
    influence, latent = None, scores.influence
    if not task.fixed:
        rows = transport.standardize(task.table.matrix[pooled.rows])
        influence = MapInfluence(transport, rows)
        latent = latent + latent_terms(influence, scores)
    squared = transport.attribution**2
    found = TransportedScores(
        rows=pooled.rows,
        latent=latent,
        attributed=attributed_influence(latent, phi, transport, influence),
        latent_by_repeat=pooled.by_repeat,
        attributed_by_repeat=pooled.by_repeat @ squared.T,
        predictions=pooled.predictions,
        attribution=squared,
        rule=pooled.rule,
        standard_errors="fixed transport" if task.fixed else "transport-aware",
        diagnostics=pooled.diagnostics,
        pooled=pooled,
    )
    return _with_exact_zeros(found, pooled, transport.labels, task)


def _copula(transport: CopulaTransport, task: Task) -> TransportedScores:
    """Straight lines in score space: exact for trees, the transport's influence derived."""
    pooled = pooled_scores(
        task.folds,
        task.table.matrix,
        task.y,
        task.weights,
        transport,
        form=task.form,
        options=task.options,
        tilt=task.tilt,
        n_jobs=task.n_jobs,
        advance=task.advance,
    )
    latent, attributed, squared = copula_influence(
        pooled.scores,
        task.table.matrix[pooled.rows],
        task.weights.take(pooled.rows),
        transport,
        fixed=task.fixed,
    )
    found = TransportedScores(
        rows=pooled.rows,
        latent=latent,
        attributed=attributed,
        latent_by_repeat=pooled.by_repeat,
        attributed_by_repeat=pooled.by_repeat @ squared.T,
        predictions=pooled.predictions,
        attribution=squared,
        rule=pooled.rule,
        standard_errors="fixed transport" if task.fixed else "transport-aware",
        diagnostics=pooled.diagnostics,
        pooled=pooled,
    )
    return _with_exact_zeros(found, pooled, transport.linear.labels, task)


def _with_exact_zeros(
    found: TransportedScores,
    pooled: PooledScores,
    labels: NDArray[np.intp] | None,
    task: Task,
) -> TransportedScores:
    """Put the scores of components that no model reads at exactly 0."""
    if labels is None:
        return found
    scores = pooled.scores
    return found.silenced(
        unread_coordinates(
            scores.influence, scores.prediction, task.y[pooled.rows], labels, task.form
        )
    )


def _curves(design: Any, transport: Any, task: Task) -> TransportedScores:
    """Curves of any decoder; its error by refitting it without groups of rows."""
    matrix = task.table.matrix
    encoding, dealing = task.seed.spawn(2)
    copies = RowCopies.of(transport, task.weights, task.rows)

    def score(fitted: Any, folds: Sequence[FoldModels], **more: Any) -> TransportedScores:
        more = {"form": task.form, "options": task.options, "n_jobs": task.n_jobs} | more
        # the same draws for every refit: only the transport differs
        generator = np.random.default_rng(encoding)
        if copies is not None:
            return copies.scores(folds, matrix, task.y, fitted, generator=generator, **more)
        latent = np.zeros((len(matrix), fitted.n_latent))
        latent[task.rows] = fitted.encode(matrix[task.rows], generator)
        return curve_scores(folds, matrix, task.y, task.weights, fitted, latent=latent, **more)

    scores = score(transport, task.folds, advance=task.advance)
    error = _round_trip(transport, matrix[task.rows], task.weights.take(task.rows), encoding)
    # what is compared by the jackknife takes the nodes that were found to be enough
    settled = replace(task.options, n_nodes=scores.diagnostics["quadrature"]["n_nodes"])
    scores = replace(scores, diagnostics={**scores.diagnostics, "round_trip_error": error})
    if error > ROUND_TRIP:
        warn(
            f"decode(encode(X)) differs from X by {error:.2g} standard deviations (root mean "
            "square): the curves do not pass through the rows, and scores are biased",
            TransportWarning,
        )
    if task.fixed:
        return scores
    folds = thin(task.folds, JACKKNIFE_ROWS, task.weights)

    def rescore(keep: NDArray[np.intp] | None) -> Floats:
        fitted = transport if keep is None else _refit(design, task, keep, transport)
        found = score(fitted, folds, check=False, options=settled)
        weights = task.weights.take(found.rows)
        return np.concatenate([weights.mean(found.latent), weights.mean(found.attributed)])

    return _with_jackknife(scores, task, dealing, rescore)


def _entropic(design: EntropicOT, transport: EntropicTransport, task: Task) -> TransportedScores:
    """Kernel averages; refused where the kernel sees too few rows."""
    n, d = transport.atoms.shape
    weights = task.weights.take(task.rows)
    counts = weights.values if weights.kind == "frequency" else None
    size = float(np.median(transport.effective_sizes(transport.targets, counts)))
    if design.split:
        size /= 2.0
    if size < design.min_size:
        raise UnsuitableTransportError(
            too_small_message(size, design.min_size, n, d, design.epsilon)
        )
    if size < DOUBTFUL:
        warn(
            too_small_message(size, DOUBTFUL, n, d, design.epsilon)
            + ". Attributed scores may be off by more than a tenth",
            TransportWarning,
        )
    scores = _kernel_scores(design, transport, task, task.rows)
    found = {
        **scores.diagnostics,
        "effective_sample_size": size,
        "marginal_error": transport.solution.error,
        "marginal_error_fresh": transport.fresh_error(),
        "iterations": transport.solution.iterations,
    }
    scores = replace(scores, diagnostics=found)
    if task.fixed:
        return scores
    coarse = replace(design, n_targets=min(design.n_targets, JACKKNIFE_TARGETS))
    base = _refit(coarse, task, np.arange(n))

    def rescore(keep: NDArray[np.intp] | None) -> Floats:
        rows = task.rows if keep is None else task.rows[keep]
        fitted = base if keep is None else _refit(coarse, task, keep)
        result = _kernel_scores(coarse, fitted, task, rows)
        weights = task.weights.take(result.rows)
        return np.concatenate([weights.mean(result.latent), weights.mean(result.attributed)])

    return _with_jackknife(scores, task, task.seed.spawn(1)[0], rescore)


def _kernel_scores(
    design: EntropicOT, transport: EntropicTransport, task: Task, rows: NDArray[np.intp]
) -> TransportedScores:
    halves = [
        (transport.without(part, design.tol), rows[part]) for part in design.halves(len(rows))
    ]
    return entropic_scores(
        task.folds,
        task.table.matrix,
        task.y,
        task.weights,
        transport,
        atom_rows=rows,
        halves=halves,
        form=task.form,
    )


def _refit(design: Any, task: Task, keep: NDArray[np.intp], like: Any = None) -> Any:
    rows = task.rows[keep]
    matrix, weights = task.table.matrix[rows], task.weights.take(rows)
    return fit_transport(design, matrix, weights, task.constant, task.table, like=like)


def _with_jackknife(
    scores: TransportedScores,
    task: Task,
    seed: np.random.SeedSequence,
    rescore: Callable[[NDArray[np.intp] | None], Floats],
) -> TransportedScores:
    """Add the transport's own error, by a grouped jackknife, to both influence matrices."""
    weights = task.weights.take(task.rows)
    # rows of weight 0 belong to no group: one of them alone would have no mean
    counted = np.flatnonzero(weights.values)
    n_groups = min(N_GROUPS, len(counted) // 2)
    groups = np.zeros(len(task.rows), dtype=np.intp)
    groups[counted] = deal_groups(len(counted), n_groups, seed)
    psi = group_influence(groups, rescore, rescore(None))
    d = scores.latent.shape[1]
    return replace(
        scores,
        latent=with_transport_error(scores.latent, weights, groups, psi[:, :d]),
        attributed=with_transport_error(scores.attributed, weights, groups, psi[:, d:]),
        standard_errors=f"transport jackknife ({n_groups} groups, models kept)",
    )


def thin(folds: Sequence[FoldModels], count: int, weights: Weights) -> list[FoldModels]:
    """Return the folds with evenly spaced held-out rows, at most about ``count`` in a repeat.

    Rows of weight 0 are left out first, and folds that have no others.
    """
    repeats = 1 + max(fold.repeat for fold in folds)
    tests = [fold.test[weights.values[fold.test] > 0] for fold in folds]
    step = max(1, int(np.ceil(sum(map(len, tests)) / repeats / count)))
    return [
        replace(fold, test=test[::step])
        for fold, test in zip(folds, tests, strict=True)
        if len(test)
    ]


def _round_trip(
    transport: Any, matrix: Floats, weights: Weights, seed: np.random.SeedSequence
) -> float:
    """Return the root mean square of decode(encode(X)) - X in standard deviations."""
    # weighted, since rows of weight 0 were not fitted and may lie beyond all that were
    back = transport.decode(transport.encode(matrix, np.random.default_rng(seed)))
    active = transport.active
    rows = matrix[:, active]
    variance = weights.mean((rows - weights.mean(rows)) ** 2)
    return float(np.sqrt(np.mean(weights.mean((back[:, active] - rows) ** 2) / variance)))
