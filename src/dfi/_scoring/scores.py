"""From fitted folds to the influence matrices of both spaces, column by column of the matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from joblib import delayed

from dfi._lines.choose import LineOptions, line_model
from dfi._models.parallel import in_parallel
from dfi._scoring.differences import (
    Differences,
    Gradients,
    checked_rows,
    differenced_sensitivity,
    gradient_products,
)
from dfi._scoring.latent import LatentScores, ScoreForm, latent_scores
from dfi._scoring.line_error import (
    CheckedRows,
    LineError,
    most_nodes,
    settle_nodes,
    unspent,
    with_nodes,
    worth_saying,
)
from dfi._scoring.sample import row_sample
from dfi._scoring.tilt import tilt_sensitivity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._lines.base import LineModel
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.line_error import Nodes
    from dfi._types import Advance, Floats, Ints
    from dfi.transports.straight import StraightTransport

SensitivityMethod = Literal["auto", "hermite", "covariance", "tilt"]
"""How the sensitivity to the transport's error is found; ``"auto"`` checks the short cut."""

ROWS_AT_ONCE = 1024
SAMPLE_ROWS = 200


@dataclass(frozen=True)
class PooledScores:
    """The folds' latent scores put together over rows and repeats.

    Attributes
    ----------
    rows : ndarray of int
        The rows that were held out at least once, in the table's order.
    scores : LatentScores
        Influence values (averaged over repeats), predictions and pooled sensitivities.
    by_repeat : ndarray of shape (n_repeats, d)
        Latent scores of each repeat.
    predictions : tuple of (test rows, predictions)
        Of each fold, for the quality of the regression.
    rule : str
        How line means were taken.
    diagnostics : dict
        The error of quadrature along lines, where it was used.
    differences : Differences or None
        The sensitivity by differences on a sample of the rows, where it was asked for.
    gradients : Gradients or None
        Products of the regression's latent gradients on a sample of the rows, likewise.
    """

    rows: Ints
    scores: LatentScores
    by_repeat: Floats
    predictions: tuple[tuple[Ints, Floats], ...]
    rule: str
    diagnostics: dict[str, Any] = field(default_factory=dict)
    differences: Differences | None = None
    gradients: Gradients | None = None


@dataclass(frozen=True)
class FoldLines:
    """A fold with its models averaged along lines, in the space where lines are straight."""

    fold: FoldModels
    models: tuple[LineModel, ...]
    kernel_seed: np.random.SeedSequence


@dataclass(frozen=True)
class _FoldResult:
    """What one fold contributes; sums over its sampled rows beside its scores."""

    scores: LatentScores
    differences: Differences | None
    gradients: Gradients | None


def pooled_scores(
    folds: Sequence[FoldModels],
    matrix: Floats,
    y: Floats,
    weights: Weights,
    transport: StraightTransport,
    *,
    form: ScoreForm,
    options: LineOptions,
    sensitivity: SensitivityMethod = "hermite",
    gradient_step: float | None = None,
    check: bool = True,
    prepared: list[FoldLines] | None = None,
    n_draws: int = 1,
    n_smoothing: int = 1,
    n_jobs: int | None = None,
    advance: Advance | None = None,
) -> PooledScores:
    """Score the held-out rows of every fold and average over repeats.

    Parameters
    ----------
    sensitivity : {"auto", "hermite", "covariance", "tilt"}
        How ``G`` is found; ``"auto"`` is the Hermite short cut, with differences on a sample of
        the rows beside it.
    gradient_step : float, optional
        Take the mean product of the regression's latent gradients too, by differences of this
        step.
    check : bool
        Measure the error of quadrature, and take more nodes where it is large.
    prepared : list of FoldLines, optional
        The folds' models, where they have been read before.
    """
    if prepared is None:
        # Prediction releases the interpreter's lock.
        prepared = list(
            in_parallel(
                (delayed(fold_lines)(fold, matrix, transport, form, options) for fold in folds),
                n_jobs,
                threads=True,
            )
        )
    error = None
    if check:
        prepared, error = _settled(
            prepared, matrix, y, weights, transport, form, options, n_draws, n_smoothing, n_jobs
        )
    sizes = sample_sizes(folds, weights, transport.n_latent)
    tasks = (
        delayed(_score_fold)(
            lines, size, matrix, y, weights.values, transport, form, sensitivity, gradient_step,
            n_draws, n_smoothing, advance,
        )
        for lines, size in zip(prepared, sizes, strict=True)
    )  # fmt: skip
    results = list(in_parallel(tasks, n_jobs, threads=True))
    d = transport.n_latent
    n_repeats = 1 + max(fold.repeat for fold in folds)
    total, count = np.zeros((len(y), d)), np.zeros(len(y))
    sums, masses = np.zeros((n_repeats, d)), np.zeros(n_repeats)
    prediction = np.zeros(len(y))
    pooled = dict.fromkeys(("sensitivity", "gradient", "curvature"), 0.0)
    for fold, scores in zip(folds, (result.scores for result in results), strict=True):
        mass = weights.values[fold.test]
        total[fold.test] += scores.influence
        prediction[fold.test] += scores.prediction
        count[fold.test] += 1
        sums[fold.repeat] += mass @ scores.influence
        masses[fold.repeat] += mass.sum()
        for key in pooled:
            pooled[key] = pooled[key] + mass.sum() * getattr(scores, key)
    rows = np.flatnonzero(count)
    means = {key: np.asarray(value) / masses.sum() for key, value in pooled.items()}
    overlaps = [r.scores.overlap for r in results if r.scores.overlap is not None]
    differences = [r.differences for r in results if r.differences is not None]
    gradients = [r.gradients for r in results if r.gradients is not None]
    return PooledScores(
        rows=rows,
        scores=LatentScores(
            influence=total[rows] / count[rows, None],
            prediction=prediction[rows] / count[rows],
            overlap=reduce(add, overlaps) if overlaps else None,
            **means,
        ),
        by_repeat=sums / masses[:, None],
        predictions=tuple(
            (fold.test, result.scores.prediction)
            for fold, result in zip(folds, results, strict=True)
        ),
        rule=_joint_rule(prepared),
        diagnostics={} if error is None else {"quadrature": error.as_dict(_most_nodes(prepared))},
        differences=reduce(add, differences) if differences else None,
        gradients=reduce(add, gradients) if gradients else None,
    )


def sample_sizes(folds: Sequence[FoldModels], weights: Weights, d: int) -> list[int]:
    """Return how many rows of each fold are differenced, in proportion to their number."""
    held = [weights.take(fold.test).total for fold in folds]
    share = checked_rows(sum(held), d) / max(1.0, sum(held))
    return [int(np.ceil(share * count)) for count in held]


def _joint_rule(prepared: Sequence[FoldLines]) -> str:
    return " + ".join(dict.fromkeys(lines.models[0].rule for lines in prepared))


def _most_nodes(prepared: Sequence[FoldLines]) -> int:
    return max(most_nodes(model) for lines in prepared for model in lines.models)


def fold_lines(
    fold: FoldModels,
    matrix: Floats,
    transport: StraightTransport,
    form: ScoreForm,
    options: LineOptions,
) -> FoldLines:
    """Read the models of one fold."""
    held_out = matrix[fold.test]
    kernel_seed, *draw_seeds = fold.seed.spawn(1 + len(fold.predictors))
    sample = held_out[:: max(1, len(held_out) // SAMPLE_ROWS)]
    models = [
        line_model(predictor, sample, options, square=form == "cpi", seed=seed)
        for predictor, seed in zip(fold.predictors, draw_seeds, strict=True)
    ]
    # rows and models in the space where lines are straight
    straight = tuple(transport.line_model(model, options) for model in models)
    return FoldLines(fold, straight, kernel_seed)


def _predictions(lines: FoldLines, rows: Floats, transport: StraightTransport) -> Floats:
    points = transport.points(rows)
    return np.asarray(np.mean([model.predict(points) for model in lines.models], axis=0))


def _settled(
    prepared: list[FoldLines],
    matrix: Floats,
    y: Floats,
    weights: Weights,
    transport: StraightTransport,
    form: ScoreForm,
    options: LineOptions,
    n_draws: int,
    n_smoothing: int,
    n_jobs: int | None,
) -> tuple[list[FoldLines], LineError | None]:
    """Return the folds with as many nodes as their scores need, and the error that is left."""
    if not _most_nodes(prepared):
        return prepared, None
    checked = CheckedRows.of(
        [lines.fold for lines in prepared],
        [_predictions(lines, matrix[lines.fold.test], transport) for lines in prepared],
        matrix,
        y,
        weights,
        transport.n_latent,
    )
    points = [transport.points(matrix[rows]) for rows in checked.rows]
    straight = transport.whitening

    def taken(nodes: Nodes) -> list[FoldLines]:
        return [
            replace(lines, models=tuple(with_nodes(model, nodes) for model in lines.models))
            for lines in prepared
        ]

    def evaluate(nodes: Nodes) -> Floats:
        tasks = (
            delayed(latent_scores)(
                lines.models,
                rows,
                prediction,
                weights.values[which],
                straight,
                form=form,
                n_draws=n_draws,
                n_smoothing=n_smoothing,
                rows_at_once=ROWS_AT_ONCE,
                seed=unspent(lines.kernel_seed),
            )
            for lines, rows, prediction, which in zip(
                taken(nodes), points, checked.prediction, checked.rows, strict=True
            )
        )
        found = in_parallel(tasks, n_jobs, threads=True)
        return np.concatenate([scores.influence for scores in found])

    nodes, error = settle_nodes(
        evaluate,
        lambda nodes: _joint_rule(taken(nodes)),
        checked,
        asked=options.n_nodes is not None or options.rule == "draws",
        draws=options.rule == "draws",
    )
    error.say(worth_saying(options))
    return taken(nodes), error


def _score_fold(
    lines: FoldLines,
    size: int,
    matrix: Floats,
    y: Floats,
    mass: Floats,
    transport: StraightTransport,
    form: ScoreForm,
    sensitivity: SensitivityMethod,
    gradient_step: float | None,
    n_draws: int,
    n_smoothing: int,
    advance: Advance | None,
) -> _FoldResult:
    """Score one fold; ``size`` of its rows are differenced, where that is asked for."""
    fold, models = lines.fold, lines.models
    held_out, linear = transport.points(matrix[fold.test]), transport.whitening
    scores = latent_scores(
        models,
        held_out,
        y[fold.test],
        mass[fold.test],
        linear,
        form=form,
        shortcut="covariance" if sensitivity == "covariance" else "hermite",
        n_draws=n_draws,
        n_smoothing=n_smoothing,
        rows_at_once=ROWS_AT_ONCE,
        seed=lines.kernel_seed,
        advance=advance,
    )
    if sensitivity == "tilt":
        tilted = tilt_sensitivity(
            models, held_out, y[fold.test], mass[fold.test], linear, rows_at_once=ROWS_AT_ONCE
        )
        np.fill_diagonal(tilted, np.diag(scores.sensitivity))
        scores = replace(scores, sensitivity=tilted)
    differences = gradients = None
    if size and (sensitivity == "auto" or gradient_step is not None):
        sample = row_sample(linear.standardize(held_out), mass[fold.test], size)
        rows = held_out[sample.rows]
        if sensitivity == "auto":
            differences = differenced_sensitivity(
                models, scores.regressions, rows, sample.mass, linear
            )
        if gradient_step is not None:
            gradients = gradient_products(models, rows, sample.mass, linear, step=gradient_step)
    return _FoldResult(scores, differences, gradients)
