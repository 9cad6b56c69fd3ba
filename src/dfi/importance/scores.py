"""From fitted folds to the influence matrices of both spaces, column by column of the matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from joblib import delayed

from dfi.importance.latent import LatentScores, ScoreForm, latent_scores
from dfi.importance.tilt import tilt_sensitivity
from dfi.lines.choose import LineOptions, line_model
from dfi.parallel import in_parallel
from dfi.transport.copula import CopulaTransport
from dfi.transport.score_space import through_margins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dfi.data.weights import Weights
    from dfi.nuisance.crossfit import FoldModels
    from dfi.transport.gaussian import LinearTransport

    Floats = NDArray[np.float64]

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
    """

    rows: NDArray[np.intp]
    scores: LatentScores
    by_repeat: Floats
    predictions: tuple[tuple[NDArray[np.intp], Floats], ...]
    rule: str


def pooled_scores(
    folds: Sequence[FoldModels],
    matrix: Floats,
    y: Floats,
    weights: Weights,
    transport: LinearTransport | CopulaTransport,
    *,
    form: ScoreForm,
    options: LineOptions,
    tilt: bool = False,
    n_draws: int = 1,
    n_smoothing: int = 1,
    n_jobs: int | None = None,
    advance: Callable[[int], object] | None = None,
) -> PooledScores:
    """Score the held-out rows of every fold and average over repeats."""
    tasks = (
        delayed(_score_fold)(
            fold, matrix, y, weights.values, transport, form, options, tilt,
            n_draws, n_smoothing, advance,
        )
        for fold in folds
    )  # fmt: skip
    # Prediction releases the interpreter's lock.
    results = list(in_parallel(tasks, n_jobs, threads=True))
    d = transport.n_latent
    n_repeats = 1 + max(fold.repeat for fold in folds)
    total, count = np.zeros((len(y), d)), np.zeros(len(y))
    sums, masses = np.zeros((n_repeats, d)), np.zeros(n_repeats)
    prediction = np.zeros(len(y))
    pooled = dict.fromkeys(("sensitivity", "gradient", "curvature"), 0.0)
    for fold, (scores, _) in zip(folds, results, strict=True):
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
    return PooledScores(
        rows=rows,
        scores=LatentScores(
            influence=total[rows] / count[rows, None],
            prediction=prediction[rows] / count[rows],
            **means,
        ),
        by_repeat=sums / masses[:, None],
        predictions=tuple(
            (fold.test, scores.prediction) for fold, (scores, _) in zip(folds, results, strict=True)
        ),
        rule=" + ".join(dict.fromkeys(rule for _, rule in results)),
    )


def _score_fold(
    fold: FoldModels,
    matrix: Floats,
    y: Floats,
    mass: Floats,
    transport: LinearTransport | CopulaTransport,
    form: ScoreForm,
    options: LineOptions,
    tilt: bool,
    n_draws: int,
    n_smoothing: int,
    advance: Callable[[int], object] | None,
) -> tuple[LatentScores, str]:
    """Score one fold; the second value says how line means were taken."""
    held_out = matrix[fold.test]
    kernel_seed, *draw_seeds = fold.seed.spawn(1 + len(fold.predictors))
    sample = held_out[:: max(1, len(held_out) // SAMPLE_ROWS)]
    models = [
        line_model(predictor, sample, options, square=form == "cpi", seed=seed)
        for predictor, seed in zip(fold.predictors, draw_seeds, strict=True)
    ]
    if isinstance(transport, CopulaTransport):
        # lines are straight in the space of normal scores: move rows and models there
        models = [through_margins(model, transport) for model in models]
        held_out, transport = transport.scores(held_out), transport.linear
    scores = latent_scores(
        models,
        held_out,
        y[fold.test],
        mass[fold.test],
        transport,
        form=form,
        n_draws=n_draws,
        n_smoothing=n_smoothing,
        rows_at_once=ROWS_AT_ONCE,
        seed=kernel_seed,
        advance=advance,
    )
    if tilt:
        sensitivity = tilt_sensitivity(
            models, held_out, y[fold.test], mass[fold.test], transport, rows_at_once=ROWS_AT_ONCE
        )
        np.fill_diagonal(sensitivity, np.diag(scores.sensitivity))
        scores = replace(scores, sensitivity=sensitivity)
    return scores, models[0].rule
