"""Scores and standard errors under any transport: lines, copula, curves and kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._scoring.curves import curve_scores
from dfi._scoring.kernel import entropic_scores
from dfi._scoring.lines import unread_coordinates
from dfi._scoring.scores import Scores, Task, fold_lines, pooled_scores
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

    from dfi._data.weights import Weights
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.lines import LineScores
    from dfi._scoring.scores import SensitivityMethod
    from dfi._types import Floats, Ints

JACKKNIFE_ROWS = 400
"""Rows on which the scores of refitted transports are compared."""

LINE_JACKKNIFE_ROWS = 150
"""The same where lines are straight and the short cut was refuted, in tables of many columns."""

JACKKNIFE_TARGETS = 1024
ROUND_TRIP = 0.05
"""Root mean square error of decode(encode(X)), in standard deviations, that is worth a warning."""


def score_transport(design: Any, transport: Any, task: Task) -> Scores:
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


def _linear(design: Any, transport: LinearTransport, task: Task) -> Scores:
    """Straight lines: exact for trees, the transport's influence derived."""
    found = _straight_scores(design, transport, transport, task)
    names = _names(task, transport)
    if task.fixed:
        return SecondOrderBias.left_in(FIXED).subtracted_from(found, names)
    influence = MapInfluence(transport, transport.standardize(task.matrix[found.rows]))
    weights = task.weights.take(found.rows)
    plain = found.latent
    phi = weights.mean(plain)
    settled = _settled(found.straight, influence, weights, task, names)
    if settled.jackknife:
        found = _line_jackknife(design, transport, task, found)
    else:
        latent = plain + latent_terms(influence, settled.scores)
        attributed = attributed_influence(latent, phi, transport, influence)
        found = found.with_error(latent, attributed, settled.words)
    found = replace(found, diagnostics={**found.diagnostics, **settled.diagnostics})
    squares, reason = _squares(design, transport, found.straight, influence, weights)
    if squares is None:
        return SecondOrderBias.left_in(reason).subtracted_from(found, names)
    bias = found.attribution @ squares.latent + squares.decoder @ phi
    return squares.bias(bias).subtracted_from(found, names)


def _copula(design: Any, transport: CopulaTransport, task: Task) -> Scores:
    """Straight lines in score space: exact for trees, the transport's influence derived."""
    found = _straight_scores(design, transport, transport.linear, task)
    names = _names(task, transport)
    matrix, weights = task.matrix[found.rows], task.weights.take(found.rows)
    plain = copula_influence(found.straight, matrix, weights, transport, influence=None)
    found = replace(
        found,
        latent=plain.latent,
        attributed=plain.attributed,
        attributed_by_repeat=found.latent_by_repeat @ plain.jacobian.T,
        attribution=plain.jacobian,
    )
    if task.fixed:
        return SecondOrderBias.left_in(FIXED).subtracted_from(found, names)
    influence = score_influence(matrix, transport)
    settled = _settled(found.straight, influence, weights, task, names)
    squares, reason = _squares(design, transport.linear, found.straight, influence, weights)
    aware = copula_influence(
        settled.scores, matrix, weights, transport, influence=influence, squares=squares
    )
    if settled.jackknife:
        found = _line_jackknife(design, transport, task, found)
    else:
        found = found.with_error(aware.latent, aware.attributed, settled.words)
    found = replace(found, diagnostics={**found.diagnostics, **settled.diagnostics})
    if squares is None or aware.bias is None:
        return SecondOrderBias.left_in(reason).subtracted_from(found, names)
    return squares.bias(aware.bias).subtracted_from(found, names)


def _names(task: Task, transport: Any) -> list[str]:
    return [task.table.matrix_names[k] for k in transport.active]


def _straight_scores(design: Any, transport: Any, linear: LinearTransport, task: Task) -> Scores:
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
    found = pooled_scores(
        replace(task, sensitivity=method),
        transport,
        gradient_step=step,
        n_draws=getattr(design, "n_draws", 1),
        n_smoothing=getattr(design, "n_smoothing", 1),
    )
    overlap = found.straight.overlap
    if overlap is None:
        return found
    phi = task.weights.take(found.rows).mean(found.latent)
    told = overlap.as_dict(_names(task, transport), phi)
    return replace(found, diagnostics={**found.diagnostics, "orthogonality": told})


@dataclass(frozen=True)
class _Settled:
    """The sensitivity that standard errors use, in numbers and in words.

    ``jackknife`` tells that no sensitivity is to be trusted.
    """

    scores: LineScores
    words: str
    diagnostics: dict[str, Any]
    jackknife: bool = False


def _settled(
    scores: LineScores, influence: MapInfluence, weights: Weights, task: Task, names: list[str]
) -> _Settled:
    """Take the sensitivity that was asked for; ``"auto"`` is checked on a sample of the rows."""
    used: str
    if scores.differences is None:
        used = "hermite" if task.sensitivity == "auto" else task.sensitivity
        return _Settled(scores, f"transport-aware (G: {used})", {"sensitivity": {"used": used}})
    choice = choose_sensitivity(influence, scores, scores.differences, weights)
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
    lines: LineScores,
    influence: MapInfluence,
    weights: Weights,
) -> tuple[SquaredInfluence | None, str]:
    """Return what the second-order bias is made of, or why it is left in."""
    reason = why_left_in(design, linear, len(lines.influence))
    if reason or lines.gradients is None:
        return None, reason or "no row has a weight"
    found = squared_influence(influence, lines.gradients.mean(), weights)
    return replace(found, rough=lines.gradients.rough), ""


def _line_jackknife(design: Any, transport: Any, task: Task, scores: Scores) -> Scores:
    """Add the transport's own error by fitting it again without groups of rows."""
    folds = thin(task.folds, LINE_JACKKNIFE_ROWS, task.weights)
    # what is compared takes the nodes that were found to be enough
    nodes = task.options.n_nodes if scores.n_nodes is None else scores.n_nodes
    options = replace(task.options, n_nodes=nodes)
    thinned = replace(task, folds=folds, options=options, sensitivity="hermite", advance=None)
    # models are functions of rows, whatever the map; those behind margins move with them
    prepared = None
    if not isinstance(transport, CopulaTransport):
        matrix = task.table.matrix
        prepared = [fold_lines(fold, matrix, transport, task.form, options) for fold in folds]

    def rescore(keep: Ints | None) -> Floats:
        fitted = transport if keep is None else _refit(design, task, keep, transport)
        found = pooled_scores(thinned, fitted, check=False, prepared=prepared)
        weights = task.weights.take(found.rows)
        if isinstance(fitted, CopulaTransport):
            matrix = task.matrix[found.rows]
            values = copula_influence(found.straight, matrix, weights, fitted, influence=None)
            return np.concatenate([weights.mean(values.latent), weights.mean(values.attributed)])
        phi = weights.mean(found.latent)
        return np.concatenate([phi, fitted.attribution**2 @ phi])

    return _with_jackknife(scores, task, task.seed.spawn(1)[0], rescore)


def _with_exact_zeros(found: Scores, labels: Ints | None, task: Task) -> Scores:
    """Put the scores of components that no model reads at exactly 0."""
    if labels is None or found.lines is None:
        return found
    lines, y = found.lines, task.y[found.rows]
    return found.silenced(
        unread_coordinates(lines.influence, lines.prediction, y, labels, task.form)
    )


def _curves(design: Any, transport: Any, task: Task) -> Scores:
    """Curves of any decoder; its error by refitting it without groups of rows."""
    matrix = task.matrix
    encoding, dealing = task.seed.spawn(2)
    copies = RowCopies.of(transport, task.weights, task.rows)

    def score(fitted: Any, task: Task, *, check: bool = True) -> Scores:
        # the same draws for every refit: only the transport differs
        generator = np.random.default_rng(encoding)
        if copies is not None:
            return copies.scores(task, fitted, generator=generator, check=check)
        latent = np.zeros((len(matrix), fitted.n_latent))
        latent[task.rows] = fitted.encode(matrix[task.rows], generator)
        return curve_scores(task, fitted, latent=latent, check=check)

    scores = score(transport, task)
    error = _round_trip(transport, matrix[task.rows], task.weights.take(task.rows), encoding)
    # what is compared by the jackknife takes the nodes that were found to be enough
    settled = replace(task.options, n_nodes=scores.n_nodes)
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
    thinned = replace(task, folds=folds, options=settled, advance=None)

    def rescore(keep: Ints | None) -> Floats:
        fitted = transport if keep is None else _refit(design, task, keep, transport)
        found = score(fitted, thinned, check=False)
        weights = task.weights.take(found.rows)
        return np.concatenate([weights.mean(found.latent), weights.mean(found.attributed)])

    return _with_jackknife(scores, task, dealing, rescore)


def _entropic(design: EntropicOT, transport: EntropicTransport, task: Task) -> Scores:
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
) -> Scores:
    halves = [
        (transport.without(part, design.tol), rows[part]) for part in design.halves(len(rows))
    ]
    return entropic_scores(task, transport, atom_rows=rows, halves=halves)


def _refit(design: Any, task: Task, keep: Ints, like: Any = None) -> Any:
    rows = task.rows[keep]
    matrix, weights = task.table.matrix[rows], task.weights.take(rows)
    return fit_transport(design, matrix, weights, task.constant, task.table, like=like)


def _with_jackknife(
    scores: Scores,
    task: Task,
    seed: np.random.SeedSequence,
    rescore: Callable[[Ints | None], Floats],
) -> Scores:
    """Add the transport's own error, by a grouped jackknife, to both influence matrices."""
    weights = task.weights.take(task.rows)
    # rows of weight 0 belong to no group: one of them alone would have no mean
    counted = np.flatnonzero(weights.values)
    n_groups = min(N_GROUPS, len(counted) // 2)
    groups = np.zeros(len(task.rows), dtype=np.intp)
    groups[counted] = deal_groups(len(counted), n_groups, seed)
    psi = group_influence(groups, rescore, rescore(None))
    d = scores.latent.shape[1]
    return scores.with_error(
        with_transport_error(scores.latent, weights, groups, psi[:, :d]),
        with_transport_error(scores.attributed, weights, groups, psi[:, d:]),
        f"transport jackknife ({n_groups} groups, models kept)",
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
