"""Scores of a sample of the rows, under a transport fitted on all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.weights import Weights
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.lines import LineScores
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import Task
    from dfi._types import Floats, Ints


def restricted(folds: Sequence[FoldModels], rows: Ints) -> tuple[FoldModels, ...]:
    """Return folds with those of their held-out rows that are among some, ascending."""
    last = int(max((fold.test.max(initial=-1) for fold in folds), default=-1))
    chosen = np.zeros(max(last, int(rows.max(initial=-1))) + 1, dtype=np.bool_)
    chosen[rows] = True
    return tuple(replace(fold, test=fold.test[chosen[fold.test]]) for fold in folds)


def merged_scores(stages: Sequence[Scores], task: Task) -> Scores:
    """Combine the scores of stages, which hold different rows of one sample."""
    first = stages[0]
    if len(stages) == 1:
        return first
    rows = np.concatenate([stage.rows for stage in stages])
    order = np.argsort(rows)
    mass = np.array([float(task.weights.values[stage.rows].sum()) for stage in stages])
    share = mass / mass.sum()

    def mean(parts: Sequence[Floats]) -> Floats:
        return np.asarray(np.tensordot(share, np.stack(parts), axes=1))

    def stacked(parts: Sequence[Floats]) -> Floats:
        return np.concatenate(parts)[order]

    lines = [stage.lines for stage in stages if stage.lines is not None]
    predictions = tuple(
        (np.concatenate([rows for rows, _ in parts]), np.concatenate([own for _, own in parts]))
        for parts in zip(*(stage.predictions for stage in stages), strict=True)
    )
    unread = [stage.unread for stage in stages if stage.unread is not None]
    return replace(
        first,
        rows=rows[order],
        latent=stacked([stage.latent for stage in stages]),
        attributed=stacked([stage.attributed for stage in stages]),
        latent_by_repeat=mean([stage.latent_by_repeat for stage in stages]),
        attributed_by_repeat=mean([stage.attributed_by_repeat for stage in stages]),
        predictions=predictions,
        attribution=mean([stage.attribution for stage in stages]),
        lines=_merged_lines(lines, order, mean) if lines else None,
        unread=np.logical_and.reduce(unread) if unread else None,
    )


def _merged_lines(
    parts: Sequence[LineScores], order: Ints, mean: Callable[[Sequence[Floats]], Floats]
) -> LineScores:
    residuals = [part.residual for part in parts if part.residual is not None]
    return replace(
        parts[0],
        influence=np.concatenate([part.influence for part in parts])[order],
        prediction=np.concatenate([part.prediction for part in parts])[order],
        sensitivity=mean([part.sensitivity for part in parts]),
        gradient=mean([part.gradient for part in parts]),
        curvature=mean([part.curvature for part in parts]),
        residual=mean(residuals) if residuals else None,
    )


def of_sample(
    influence: Floats, own: Floats, weights: Weights, share: float, seed: np.random.SeedSequence
) -> Floats:
    r"""Return influence values of ``m`` rows with the covariance of a transport fitted on ``n``.

    ``influence`` are :math:`u_i`, ``own`` are :math:`T_i`, both (m, columns), and ``share`` is
    :math:`r = m/n`. A row of the sample enters both means, every other row that of ``T`` alone, so

    .. math:: v_i = u_i + r\,(T_i - \bar T) + \sqrt{r (1 - r)}\; W_i

    with :math:`W` uncorrelated with ``u`` and ``T`` and of the covariance of ``T`` stands for all
    ``n``: :math:`\bar v = \bar u` and
    :math:`Cov(v)/m = Cov(u)/m + \{Cov(u + T) - Cov(u)\}/n`, exactly and for all columns together.
    ``W`` is the ``T`` of other rows of the sample, from which what goes along with ``u`` and ``T``
    by chance is taken out. Rows that are fewer than about three times the columns leave no room
    for that: then every column has its own variance exactly, and covariances up to chance.
    """
    if share >= 1.0 or not own.any():
        return np.asarray(influence + own if share >= 1.0 else influence)
    root = np.sqrt(weights.mean_variances())
    held = root > 0
    centre = weights.mean(influence)
    first, second = (
        (values - weights.mean(values))[held] * root[held, None] for values in (influence, own)
    )
    # sums of the rows weighted by this are their weighted means, which must not move
    level = (weights.values[held] / root[held])[:, None]
    gram = second.T @ second
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-10 * values[-1]
    vectors, lengths = vectors[:, kept], np.sqrt(values[kept])
    basis = np.linalg.qr(np.hstack([level, first, second]))[0]
    order = np.random.default_rng(seed).permutation(len(first))
    if len(first) < basis.shape[1] + len(lengths):
        rest = _column_by_column(second[order], level, first, second)
    else:
        other = second[order] @ (vectors / lengths)
        other -= basis @ (basis.T @ other)
        inner, turn = np.linalg.eigh(other.T @ other)
        other = other @ (turn / np.sqrt(np.maximum(inner, np.finfo(float).tiny))) @ turn.T
        rest = other @ (lengths[:, None] * vectors.T)
    steps = first + share * second + np.sqrt(share * (1.0 - share)) * rest
    found = np.broadcast_to(centre, influence.shape).copy()
    found[held] += steps / root[held, None]
    return found


def of_share(plain: Floats, aware: Floats, weights: Weights, task: Task) -> Floats:
    """Return influence values with the transport's terms, which are of all rows it was fitted on.

    Without a sample they are what they are.
    """
    if task.share >= 1.0:
        return aware
    return of_sample(plain, aware - plain, weights, task.share, task.child(7))


def _column_by_column(other: Floats, level: Floats, first: Floats, second: Floats) -> Floats:
    """Return columns as long as those of ``second``, at right angles to both of their own."""
    found = np.zeros_like(other)
    for j, values in enumerate(other.T):
        basis = np.linalg.qr(np.column_stack([level, first[:, j], second[:, j]]))[0]
        left = values - basis @ (basis.T @ values)
        length, wanted = np.linalg.norm(left), np.linalg.norm(second[:, j])
        if length > 1e-8 * wanted:
            found[:, j] = left * (wanted / length)
    return found
