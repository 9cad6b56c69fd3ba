r"""Scores under any deterministic decoder: replacing a latent coordinate moves a row on a curve.

.. math:: m_{ij} = E_t[\mu(S(z_i^{(j)}(t)))], \qquad
          w_{jl}(z_i) = E_t\big[(\partial S_l/\partial z_j)^2(z_i^{(j)}(t))\big],

both by the same nodes of the reference law; the attributed influence value is
:math:`u^X_{il} = \sum_j w_{jl}(z_i)\,u^Z_{ij}`, since :math:`u^Z_{ij}` has the conditional mean
:math:`Var(\eta(Z) \mid Z_{-j})` given :math:`Z_{-j}`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import delayed

from dfi._lines.choose import is_smooth
from dfi._lines.quadrature import DEFAULT_NODES, equal_nodes, gauss_nodes
from dfi._models.parallel import in_parallel
from dfi._scoring.line_error import CheckedRows, LineError, same, settle_nodes
from dfi._scoring.transported import FoldScores, TransportedScores, put_together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.weights import Weights
    from dfi._lines.base import Reference
    from dfi._lines.choose import LineOptions
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.latent import ScoreForm
    from dfi._scoring.line_error import Nodes
    from dfi._types import Advance, Floats
    from dfi.transports.base import FittedTransport

FEW_ATOMS = 64
STEP_NODES = 128
"""Nodes for a coordinate whose decoder is a step: each probability is then right to 0.4 %."""


def curve_nodes(reference: Reference, j: int, rule: str, count: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of coordinate ``j``; a law of few atoms is summed exactly."""
    if reference.values is not None and len(np.unique(reference.values[:, j])) <= FEW_ATOMS:
        return gauss_nodes(reference, j, FEW_ATOMS)
    return (gauss_nodes if rule == "gauss" else equal_nodes)(reference, j, count)


def curve_scores(
    folds: Sequence[FoldModels],
    matrix: Floats,
    y: Floats,
    weights: Weights,
    transport: FittedTransport,
    *,
    latent: Floats,
    form: ScoreForm,
    options: LineOptions,
    check: bool = True,
    n_jobs: int | None = None,
    advance: Advance | None = None,
) -> TransportedScores:
    """Score the held-out rows of every fold along the transport's curves.

    Parameters
    ----------
    folds : sequence of FoldModels
        The fitted models.
    matrix, y, weights
        All rows.
    transport : FittedTransport
        The fitted transport.
    latent : ndarray of shape (n, d)
        The latent row of every row.
    form : {"cross", "loco", "cpi"}
        The estimator of the latent scores.
    options : LineOptions
        Nodes and memory.
    check : bool
        Compare with more nodes on a few rows, and take more where the scores change.
    """
    smooth = all(
        is_smooth(p.model) and not p.levels
        for fold in folds
        for p in fold.predictors
        if hasattr(p, "model")
    )
    rule = options.rule if options.rule != "auto" else ("gauss" if smooth else "equal")
    base = options.n_nodes or DEFAULT_NODES["gauss" if rule == "gauss" else "equal"]

    def laws(nodes: Nodes) -> list[tuple[Floats, Floats]]:
        return _laws(transport, rule, base, nodes)

    def score(chosen: Sequence[FoldModels], outcome: Floats, nodes: Nodes, step: Any) -> list[Any]:
        tasks = (
            delayed(_score_fold)(
                fold, matrix, outcome, transport, latent, laws(nodes), form, options.memory, step
            )
            for fold in chosen
        )
        return list(in_parallel(tasks, n_jobs, threads=True))

    def describe(nodes: Nodes) -> str:
        return f"curves ({max(len(at) for at, _ in laws(nodes))} {rule} nodes)"

    nodes: Nodes = same
    error: LineError | None = None
    if check:
        nodes, error = _settled(folds, matrix, y, weights, score, describe, options, len(latent[0]))
    results = score(folds, y, nodes, advance)
    mass = np.concatenate([weights.values[fold.test] for fold in folds])
    squared = np.concatenate([square for _, square in results], axis=0)
    return put_together(
        folds,
        [scores for scores, _ in results],
        weights,
        np.average(squared, axis=0, weights=mass),
        describe(nodes),
        {} if error is None else {"quadrature": error.as_dict(nodes(base))},
    )


def _laws(
    transport: FittedTransport, rule: str, base: int, nodes: Nodes
) -> list[tuple[Floats, Floats]]:
    """Return nodes and weights of every coordinate; steps of the decoder take more nodes."""
    return [
        curve_nodes(transport.reference, j, "equal", nodes(max(base, STEP_NODES)))
        if is_step
        else curve_nodes(transport.reference, j, rule, nodes(base))
        for j, is_step in enumerate(transport.steps)
    ]


def _settled(
    folds: Sequence[FoldModels],
    matrix: Floats,
    y: Floats,
    weights: Weights,
    score: Callable[[Sequence[FoldModels], Floats, Nodes, Any], list[Any]],
    describe: Callable[[Nodes], str],
    options: LineOptions,
    d: int,
) -> tuple[Nodes, LineError]:
    """Return the nodes that the scores need, and the error that is left."""
    predictions = [
        np.mean([predictor(matrix[fold.test]) for predictor in fold.predictors], axis=0)
        for fold in folds
    ]
    checked = CheckedRows.of(folds, predictions, matrix, y, weights, d)
    thinned = [replace(fold, test=rows) for fold, rows in zip(folds, checked.rows, strict=True)]

    def evaluate(nodes: Nodes) -> Floats:
        found = []
        for fold, prediction in zip(thinned, checked.prediction, strict=True):
            # a row may be held out in several repeats, with a prediction in each
            outcome = np.zeros(len(y))
            outcome[fold.test] = prediction
            found += [scores.latent for scores, _ in score([fold], outcome, nodes, None)]
        return np.concatenate(found)

    nodes, error = settle_nodes(
        evaluate,
        describe,
        checked,
        asked=options.n_nodes is not None,
    )
    error.say()
    return nodes, error


def _score_fold(
    fold: FoldModels,
    matrix: Floats,
    y: Floats,
    transport: FittedTransport,
    latent: Floats,
    laws: list[tuple[Floats, Floats]],
    form: ScoreForm,
    memory: int,
    advance: Advance | None,
) -> tuple[FoldScores, Floats]:
    """Return the fold's scores and the mean squared Jacobian (n, l, j) of its rows."""
    n, d = len(fold.test), transport.n_latent
    values = np.stack([predictor(matrix[fold.test]) for predictor in fold.predictors])
    influence, squared = np.empty((n, d)), np.empty((n, d, d))
    outcome = y[fold.test]
    for j, (nodes, node_weights) in enumerate(laws):
        step = max(1, int(memory / (4 * 8 * len(nodes) * matrix.shape[1])))
        for start in range(0, n, step):
            part = slice(start, min(start + step, n))
            rows = np.repeat(latent[fold.test[part]], len(nodes), axis=0)
            rows[:, j] = np.tile(nodes, part.stop - part.start)
            decoded = transport.decode(rows)
            along = np.stack([p(decoded) for p in fold.predictors])
            along = along.reshape(len(fold.predictors), -1, len(nodes))
            influence[part, j] = _influence(
                form, outcome[part], values[:, part], along, node_weights
            )
            squared[part, :, j] = transport.mean_squared_slopes(rows, j, nodes, node_weights)
    if advance is not None:
        advance(n)
    attributed = np.einsum("ilj,ij->il", squared, influence)
    return FoldScores(influence, attributed, values.mean(axis=0)), squared


def _influence(
    form: ScoreForm, y: Floats, values: Floats, along: Floats, weights: Floats
) -> Floats:
    """Return the influence values of one coordinate; see :mod:`dfi._scoring.latent`."""
    if form == "cpi":
        loss = ((y[:, None] - along[0]) ** 2) @ weights
        return np.asarray(0.5 * (loss - (y - values[0]) ** 2))
    mean = along @ weights
    return np.asarray((y - mean[0]) * (y - mean[-1]) - (y - values[0]) * (y - values[-1]))
