"""Scores and standard errors under any transport: lines, copula, curves and kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._scoring.curves import curve_scores
from dfi._scoring.kernel_scores import entropic_scores
from dfi._scoring.scores import fold_lines, pooled_scores
from dfi._scoring.transported import TransportedScores
from dfi._scoring.unread import unread_coordinates
from dfi.inference.copula_terms import copula_influence, score_influence
from dfi.inference.row_copies import RowCopies
from dfi.inference.second_order import (
    FIXED,
    SecondOrderBias,
    SquaredInfluence,
    gradient_step,
    squared_influence,
    why_left_in,
)
from dfi.inference.sensitivity_choice import choose_sensitivity
from dfi.inference.transport_jackknife import (
    N_GROUPS,
    deal_groups,
    group_influence,
    with_transport_error,
)
from dfi.inference.transport_terms import MapInfluence, attributed_influence, latent_terms
from dfi.transports.base import UnsuitableTransportError, fit_transport
from dfi.transports.copula import CopulaTransport
from dfi.transports.entropic import DOUBTFUL, EntropicOT, EntropicTransport, too_small_message
from dfi.transports.gaussian import LinearTransport
from dfi.warnings import TransportWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.table import Table
    from dfi._data.weights import Weights
    from dfi._lines.choose import LineOptions
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.latent import LatentScores, ScoreForm
    from dfi._scoring.scores import PooledScores, SensitivityMethod
    from dfi._types import Advance, Bools, Floats, Ints

JACKKNIFE_ROWS = 400
"""Rows on which the scores of refitted transports are compared."""

LINE_JACKKNIFE_ROWS = 150
"""The same where lines are straight and the short cut was refuted, in tables of many columns."""

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
    form, options, sensitivity
        How latent scores, line means and the sensitivity to the transport's error are taken.
    fixed : bool
        Take the transport as known in the standard errors.
    seed : SeedSequence
        For random encoders and the jackknife's groups.
    """

    folds: Sequence[FoldModels]
    table: Table
    y: Floats
    weights: Weights
    rows: Ints
    constant: Bools
    form: ScoreForm
    options: LineOptions
    sensitivity: SensitivityMethod
    fixed: bool
    seed: np.random.SeedSequence
    n_jobs: int | None = None
    advance: Advance | None = None


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
        return _with_exact_zeros(_linear(design, transport, task), transport.labels, task)
    if isinstance(transport, CopulaTransport):
        return _with_exact_zeros(_copula(design, transport, task), transport.linear.labels, task)
    if isinstance(transport, EntropicTransport):
        return _entropic(design, transport, task)
    return _curves(design, transport, task)


def _linear(design: Any, transport: LinearTransport, task: Task) -> TransportedScores:
    """Straight lines: exact for trees, the transport's influence derived."""
    pooled = _straight_scores(design, transport, transport, task)
    names = _names(task, transport)
    squared = transport.attribution**2
    plain = pooled.scores.influence
    found = TransportedScores(
        rows=pooled.rows,
        latent=plain,
        attributed=plain @ squared.T,
        latent_by_repeat=pooled.by_repeat,
        attributed_by_repeat=pooled.by_repeat @ squared.T,
        predictions=pooled.predictions,
        attribution=squared,
        rule=pooled.rule,
        diagnostics=_reported(pooled, task, names),
        pooled=pooled,
    )
    if task.fixed:
        return SecondOrderBias.left_in(FIXED).subtracted_from(found, names)
    influence = MapInfluence(transport, transport.standardize(task.table.matrix[pooled.rows]))
    weights = task.weights.take(pooled.rows)
    phi = weights.mean(plain)
    settled = _settled(pooled, influence, weights, task, names)
    if settled.jackknife:
        found = _line_jackknife(design, transport, task, found)
    else:
        latent = plain + latent_terms(influence, settled.scores)
        attributed = attributed_influence(latent, phi, transport, influence)
        found = replace(found, latent=latent, attributed=attributed, standard_errors=settled.words)
    found = replace(found, diagnostics={**found.diagnostics, **settled.diagnostics})
    squares, reason = _squares(design, transport, pooled, influence, weights)
    if squares is None:
        return SecondOrderBias.left_in(reason).subtracted_from(found, names)
    bias = squared @ squares.latent + squares.decoder @ phi
    return squares.bias(bias).subtracted_from(found, names)


def _copula(design: Any, transport: CopulaTransport, task: Task) -> TransportedScores:
    """Straight lines in score space: exact for trees, the transport's influence derived."""
    pooled = _straight_scores(design, transport, transport.linear, task)
    names = _names(task, transport)
    matrix, weights = task.table.matrix[pooled.rows], task.weights.take(pooled.rows)
    plain = copula_influence(pooled.scores, matrix, weights, transport, influence=None)
    found = TransportedScores(
        rows=pooled.rows,
        latent=plain.latent,
        attributed=plain.attributed,
        latent_by_repeat=pooled.by_repeat,
        attributed_by_repeat=pooled.by_repeat @ plain.jacobian.T,
        predictions=pooled.predictions,
        attribution=plain.jacobian,
        rule=pooled.rule,
        diagnostics=_reported(pooled, task, names),
        pooled=pooled,
    )
    if task.fixed:
        return SecondOrderBias.left_in(FIXED).subtracted_from(found, names)
    influence = score_influence(matrix, transport)
    settled = _settled(pooled, influence, weights, task, names)
    squares, reason = _squares(design, transport.linear, pooled, influence, weights)
    aware = copula_influence(
        settled.scores, matrix, weights, transport, influence=influence, squares=squares
    )
    if settled.jackknife:
        found = _line_jackknife(design, transport, task, found)
    else:
        found = replace(
            found,
            latent=aware.latent,
            attributed=aware.attributed,
            standard_errors=settled.words,
        )
    found = replace(found, diagnostics={**found.diagnostics, **settled.diagnostics})
    if squares is None or aware.bias is None:
        return SecondOrderBias.left_in(reason).subtracted_from(found, names)
    return squares.bias(aware.bias).subtracted_from(found, names)


def _names(task: Task, transport: Any) -> list[str]:
    return [task.table.matrix_names[k] for k in transport.active]


def _reported(pooled: PooledScores, task: Task, names: list[str]) -> dict[str, Any]:
    """Return what the scores say of themselves, whatever is made of the transport's error."""
    overlap = pooled.scores.overlap
    if overlap is None:
        return pooled.diagnostics
    phi = task.weights.take(pooled.rows).mean(pooled.scores.influence)
    return {**pooled.diagnostics, "orthogonality": overlap.as_dict(names, phi)}


def _straight_scores(
    design: Any, transport: Any, linear: LinearTransport, task: Task
) -> PooledScores:
    """Score along straight lines, with what the chosen treatment of the transport's error asks."""
    method: SensitivityMethod = task.sensitivity
    if method == "auto" and (
        task.fixed
        or linear.smoothing < 1.0
        or task.options.rule == "draws"
        or len(task.rows) < 2 * max(map(len, linear.blocks))
    ):
        # no use for it; a smoothed regression, which single lines do not show; line means whose
        # own noise differences would show; or standard errors that are too small in any case
        method = "hermite"
    step = None
    if not task.fixed and not why_left_in(design, linear, len(task.rows)):
        step = gradient_step(task.weights.take(task.rows).total)
    return pooled_scores(
        task.folds,
        task.table.matrix,
        task.y,
        task.weights,
        transport,
        form=task.form,
        options=task.options,
        sensitivity=method,
        gradient_step=step,
        n_draws=getattr(design, "n_draws", 1),
        n_smoothing=getattr(design, "n_smoothing", 1),
        n_jobs=task.n_jobs,
        advance=task.advance,
    )


@dataclass(frozen=True)
class _Settled:
    """The sensitivity that standard errors use, in numbers and in words.

    ``jackknife`` tells that no sensitivity is to be trusted.
    """

    scores: LatentScores
    words: str
    diagnostics: dict[str, Any]
    jackknife: bool = False


def _settled(
    pooled: PooledScores, influence: MapInfluence, weights: Weights, task: Task, names: list[str]
) -> _Settled:
    """Take the sensitivity that was asked for; ``"auto"`` is checked on a sample of the rows."""
    scores = pooled.scores
    used: str
    if pooled.differences is None:
        used = "hermite" if task.sensitivity == "auto" else task.sensitivity
        return _Settled(scores, f"transport-aware (G: {used})", {"sensitivity": {"used": used}})
    choice = choose_sensitivity(influence, scores, pooled.differences, weights)
    count = int(choice.changed.sum())
    used = "hermite"
    if count:
        used = f"differences for {count} of {len(names)} coordinates, hermite for the rest"
        if not choice.enough:
            used = "jackknife"
    return _Settled(
        replace(scores, sensitivity=choice.sensitivity),
        f"transport-aware (G: {used})",
        {"sensitivity": {"used": used, **choice.as_dict(names)}},
        jackknife=bool(count) and not choice.enough,
    )


def _squares(
    design: Any,
    linear: LinearTransport,
    pooled: PooledScores,
    influence: MapInfluence,
    weights: Weights,
) -> tuple[SquaredInfluence | None, str]:
    """Return what the second-order bias is made of, or why it is left in."""
    reason = why_left_in(design, linear, len(pooled.rows))
    if reason or pooled.gradients is None:
        return None, reason or "no row has a weight"
    found = squared_influence(influence, pooled.gradients.mean(), weights)
    return replace(found, rough=pooled.gradients.rough), ""


def _line_jackknife(
    design: Any, transport: Any, task: Task, scores: TransportedScores
) -> TransportedScores:
    """Add the transport's own error by fitting it again without groups of rows."""
    folds = thin(task.folds, LINE_JACKKNIFE_ROWS, task.weights)
    # what is compared takes the nodes that were found to be enough
    nodes = scores.diagnostics.get("quadrature", {}).get("n_nodes", task.options.n_nodes)
    options = replace(task.options, n_nodes=nodes)
    # models are functions of rows, whatever the map; those behind margins move with them
    prepared = None
    if not isinstance(transport, CopulaTransport):
        matrix = task.table.matrix
        prepared = [fold_lines(fold, matrix, transport, task.form, options) for fold in folds]

    def rescore(keep: Ints | None) -> Floats:
        fitted = transport if keep is None else _refit(design, task, keep, transport)
        found = pooled_scores(
            folds,
            task.table.matrix,
            task.y,
            task.weights,
            fitted,
            form=task.form,
            options=options,
            check=False,
            prepared=prepared,
            n_jobs=task.n_jobs,
        )
        weights = task.weights.take(found.rows)
        if isinstance(fitted, CopulaTransport):
            matrix = task.table.matrix[found.rows]
            values = copula_influence(found.scores, matrix, weights, fitted, influence=None)
            return np.concatenate([weights.mean(values.latent), weights.mean(values.attributed)])
        phi = weights.mean(found.scores.influence)
        return np.concatenate([phi, fitted.attribution**2 @ phi])

    return _with_jackknife(scores, task, task.seed.spawn(1)[0], rescore)


def _with_exact_zeros(
    found: TransportedScores, labels: Ints | None, task: Task
) -> TransportedScores:
    """Put the scores of components that no model reads at exactly 0."""
    if labels is None or found.pooled is None:
        return found
    scores = found.pooled.scores
    return found.silenced(
        unread_coordinates(
            scores.influence, scores.prediction, task.y[found.rows], labels, task.form
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

    def rescore(keep: Ints | None) -> Floats:
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

    def rescore(keep: Ints | None) -> Floats:
        rows = task.rows if keep is None else task.rows[keep]
        fitted = base if keep is None else _refit(coarse, task, keep)
        result = _kernel_scores(coarse, fitted, task, rows)
        weights = task.weights.take(result.rows)
        return np.concatenate([weights.mean(result.latent), weights.mean(result.attributed)])

    return _with_jackknife(scores, task, task.seed.spawn(1)[0], rescore)


def _kernel_scores(
    design: EntropicOT, transport: EntropicTransport, task: Task, rows: Ints
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


def _refit(design: Any, task: Task, keep: Ints, like: Any = None) -> Any:
    rows = task.rows[keep]
    matrix, weights = task.table.matrix[rows], task.weights.take(rows)
    return fit_transport(design, matrix, weights, task.constant, task.table, like=like)


def _with_jackknife(
    scores: TransportedScores,
    task: Task,
    seed: np.random.SeedSequence,
    rescore: Callable[[Ints | None], Floats],
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
