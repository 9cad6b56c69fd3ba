"""From fitted folds to influence matrices of both spaces, column by column of the matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add, mul
from typing import TYPE_CHECKING

import numpy as np
from joblib import delayed

from dfi._models.parallel import in_parallel
from dfi._scoring.error import (
    CheckedRows,
    LineError,
    most_nodes,
    settle_nodes,
    unspent,
    with_nodes,
    worth_saying,
)
from dfi._scoring.forms import ScoreForm, Stretch, calibration_factor
from dfi._scoring.lines import LineScores, Passes, latent_scores, row_sample, tilt_sensitivity
from dfi._scoring.sensitivity import checked_rows, differenced_sensitivity, gradient_products

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dfi._data.weights import Weights
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.error import Nodes
    from dfi._scoring.geometry import Geometry
    from dfi._scoring.task import FoldLines, LineModels, Task, TransportError
    from dfi._types import Bools, Floats, Ints
    from dfi.losses import Loss

ROWS_AT_ONCE = 1024
MOST_ROWS_AT_ONCE = 16_384
CELLS_AT_ONCE = 1 << 19
"""Lines whose moments are held at once where columns are few: 4 MB for each of their moments."""
CLEAR_TOTAL = 2.0
"""Standard errors by which the sum of all scores must exceed 0 for shares of it."""


@dataclass(frozen=True)
class Calibration:
    """The calibrated form's ``factors`` of every fold and score, and their mean.

    ``cross`` are the scores without it, in the cross form, the transport taken as known.
    """

    factors: Floats
    factor: Floats
    cross: Floats


@dataclass(frozen=True)
class Scores:
    """The folds' influence values in both spaces, put together over rows and repeats.

    ``rows`` were held out at least once; ``latent`` and ``attributed`` (n, d) are uncentred and
    averaged over repeats, the scores of each of which are in ``*_by_repeat``. ``attribution`` (d,
    d) is the mean squared Jacobian, feature by latent coordinate. ``rule`` is how line means were
    taken, ``standard_errors`` what the influence values account for; ``n_nodes`` were found to be
    enough, where quadrature was used and checked. ``lines`` is None where latent lines are curves.
    ``unread`` coordinates, of a dependence component that no model reads, score 0 exactly.
    ``plain`` is the same with the transport taken as known, where these account for its error.
    ``calibration`` is None but for the calibrated form; ``stretch`` is the factor of
    :meth:`stretched` scores, ``gain`` what :meth:`extrapolated` ones have more, in both spaces.
    """

    rows: Ints
    latent: Floats
    attributed: Floats
    latent_by_repeat: Floats
    attributed_by_repeat: Floats
    predictions: tuple[tuple[Ints, Floats], ...]
    attribution: Floats
    rule: str
    standard_errors: str = "fixed transport"
    diagnostics: dict[str, object] = field(default_factory=dict)
    n_nodes: int | None = None
    lines: LineScores | None = None
    unread: Bools | None = None
    plain: Scores | None = None
    calibration: Calibration | None = None
    stretch: float = 1.0
    gain: tuple[Floats, Floats] | None = None

    @property
    def known(self) -> Scores:
        return self if self.plain is None else self.plain

    @property
    def straight(self) -> LineScores:
        if self.lines is None:
            raise TypeError("latent lines are curves under this transport")
        return self.lines

    def with_error(self, latent: Floats, attributed: Floats, words: str) -> Scores:
        return replace(
            self, latent=latent, attributed=attributed, standard_errors=words, plain=self.known
        )

    def extrapolated(self, smaller: Scores, weights: Weights) -> Scores:
        r"""Return the scores extrapolated to more training rows.

        These scores :math:`\phi(m)` come from models of ``m`` rows, the ``smaller`` ones
        :math:`\phi(m/2)` from models of half as many. What the cross form misses is the squared
        bias of the regression; where that falls like :math:`1/m`, the second half of the rows has
        brought half of what is missing. What it brought to a unit is mostly noise, and what it
        brought to all of them, :math:`\gamma = 1 - \sum_k \phi_k(m/2) / \sum_k \phi_k(m)`, within 0
        and 1, is not that of each, so both count by half:

        .. math::
            \phi_j = \phi_j(m) + \tfrac12\{\phi_j(m) - \phi_j(m/2)\} + \tfrac12 \gamma \phi_j(m),

        row by row, with the influence of :math:`\gamma`, so the error of the extrapolation is
        part of the influence values. Where the sum is not clear of 0, :math:`\gamma` is 0. The
        transport's own error and second-order bias are those of the models of ``m`` rows.
        """
        loud = 1.0 if self.unread is None else np.where(self.unread, 0.0, 1.0)
        known = self.known
        rate, (influence,) = common_gain([(known.latent * loud, smaller.latent * loud, weights)])
        repeats = partners(len(self.latent_by_repeat), len(smaller.latent_by_repeat))

        def gained(aware: Floats, larger: Floats, before: Floats) -> Floats:
            mean = weights.mean(aware)
            return gained_rows(aware, larger, before, rate, influence, mean) * loud

        def moved(larger: Floats, before: Floats) -> Floats:
            both = rate * larger + larger - before[repeats]
            return np.asarray((larger + 0.5 * both) * loud)

        latent = gained(self.latent, known.latent, smaller.latent)
        attributed = gained(self.attributed, known.attributed, smaller.attributed)
        found = replace(
            self,
            latent=self.latent + latent,
            attributed=self.attributed + attributed,
            latent_by_repeat=moved(self.latent_by_repeat, smaller.latent_by_repeat),
            attributed_by_repeat=moved(self.attributed_by_repeat, smaller.attributed_by_repeat),
            gain=(weights.mean(latent), weights.mean(attributed)),
        )
        if self.plain is None:
            return found
        plain = replace(
            known, latent=known.latent + latent, attributed=known.attributed + attributed
        )
        return replace(found, plain=plain)

    def stretched(self, stretch: Stretch, weights: Weights) -> Scores:
        """Return the scores times a factor, whose own error is part of the influence values."""
        return replace(
            self,
            latent=stretch.of_scores(self.latent, weights),
            attributed=stretch.of_scores(self.attributed, weights),
            latent_by_repeat=stretch.factor * self.latent_by_repeat,
            attributed_by_repeat=stretch.factor * self.attributed_by_repeat,
            plain=None if self.plain is None else self.plain.stretched(stretch, weights),
            stretch=stretch.factor,
        )

    def silenced(self, unread: Bools) -> Scores:
        """Return the scores with those of unread coordinates at exactly 0."""
        return replace(
            self,
            latent=np.where(unread, 0.0, self.latent),
            attributed=np.where(unread, 0.0, self.attributed),
            latent_by_repeat=np.where(unread, 0.0, self.latent_by_repeat),
            attributed_by_repeat=np.where(unread, 0.0, self.attributed_by_repeat),
            unread=unread,
        )


def common_gain(parts: Sequence[tuple[Floats, Floats, Weights]]) -> tuple[float, list[Floats]]:
    """Return the relative gain of larger models in the sum of all scores, and its influence."""
    both = [
        np.column_stack([larger.sum(axis=1), smaller.sum(axis=1)]) for larger, smaller, _ in parts
    ]
    masses = [weights for *_, weights in parts]
    means = [weights.mean(sums) for sums, weights in zip(both, masses, strict=True)]
    errors = [weights.standard_error(sums)[0] for sums, weights in zip(both, masses, strict=True)]
    total, before = np.sum(means, axis=0).tolist()
    if not total > CLEAR_TOTAL * float(np.linalg.norm(errors)):
        return 0.0, [np.zeros(len(sums)) for sums in both]
    slope = np.array([before / total, -1.0]) / total
    influence = [(sums - mean) @ slope for sums, mean in zip(both, means, strict=True)]
    return min(max(1.0 - before / total, 0.0), 1.0), influence


def gained_rows(
    aware: Floats, larger: Floats, smaller: Floats, rate: float, influence: Floats, mean: Floats
) -> Floats:
    """Return the row-by-row term for influence values that include the transport's error."""
    return np.asarray(0.5 * (larger - smaller + rate * aware + influence[:, None] * mean))


def partners(count: int, of: int) -> Ints:
    """Return the repeat of smaller models for each repeat of larger ones, of the same split."""
    return np.arange(count) * of // count


def pool(
    folds: Sequence[FoldModels], by_fold: Iterable[Floats], mass: Floats
) -> tuple[Ints, Floats, Floats]:
    """Average the folds' values (n_test, ...) over repeats, row by row."""
    parts, masses = list(by_fold), _masses(folds, mass)
    shape = parts[0].shape[1:]
    total, count = np.zeros((len(mass), *shape)), np.zeros(len(mass))
    sums = np.zeros((len(masses), *shape))
    for fold, values in zip(folds, parts, strict=True):
        total[fold.test] += values
        count[fold.test] += 1
        sums[fold.repeat] += mass[fold.test] @ values
    rows = np.flatnonzero(count)
    each = (-1,) + (1,) * len(shape)
    return rows, total[rows] / count[rows].reshape(each), sums / masses.reshape(each)


def _masses(folds: Sequence[FoldModels], mass: Floats) -> Floats:
    masses = np.zeros(1 + max(fold.repeat for fold in folds))
    for fold in folds:
        masses[fold.repeat] += mass[fold.test].sum()
    return masses


def calibrate(
    task: Task, cross: Sequence[Floats], products: Sequence[Floats | None]
) -> Calibration | None:
    """Return the factors of the calibrated form; None for another one."""
    if task.form != "calibrated":
        return None
    folds, found = task.folds, [product for product in products if product is not None]
    mass = task.weights.values
    if task.factors is not None:
        factors = task.factors
    else:
        rows = []
        for number, fold in enumerate(folds):
            others = [k for k, it in enumerate(folds) if it.repeat == fold.repeat and k != number]
            rows.append(
                calibration_factor(
                    np.concatenate([cross[k] for k in others]),
                    np.concatenate([found[k] for k in others]),
                    task.weights.take(np.concatenate([folds[k].test for k in others])),
                )
            )
        factors = np.stack(rows)
    held = np.array([mass[fold.test].sum() for fold in folds])
    rows_of, values, _ = pool(folds, cross, mass)
    scores = task.weights.take(rows_of).mean(values)
    return Calibration(factors, held @ factors / held.sum(), scores)


@dataclass(frozen=True)
class FoldScores:
    """Influence values and mean predictions of the held-out rows of one fold."""

    latent: Floats
    attributed: Floats
    prediction: Floats


def put_together(
    task: Task,
    scores: Sequence[FoldScores],
    *,
    attribution: Floats,
    rule: str,
    diagnostics: dict[str, object],
    n_nodes: int | None = None,
    calibration: Calibration | None = None,
) -> Scores:
    """Pool the scores of each fold by curves or kernels."""
    mass = task.weights.values
    rows, latent, latent_by_repeat = pool(task.folds, [s.latent for s in scores], mass)
    _, attributed, by_repeat = pool(task.folds, [s.attributed for s in scores], mass)
    # how rows lie in memory decides the last bits of their weighted means: both side by side
    latent, attributed = np.hsplit(np.hstack([latent, attributed]), 2)
    return Scores(
        rows=rows,
        latent=latent,
        attributed=attributed,
        latent_by_repeat=latent_by_repeat,
        attributed_by_repeat=by_repeat,
        predictions=tuple(
            (fold.test, score.prediction) for fold, score in zip(task.folds, scores, strict=True)
        ),
        attribution=attribution,
        rule=rule,
        diagnostics=diagnostics,
        n_nodes=n_nodes,
        calibration=calibration,
    )


def pooled_scores(
    task: Task,
    geometry: Geometry,
    prepared: list[FoldLines],
    points: Floats,
    *,
    gradient_step: float | None = None,
    check: bool = True,
    n_draws: int = 1,
    n_smoothing: int = 1,
) -> Scores:
    """Score the held-out rows of every fold along straight lines and average over repeats.

    ``points`` are the rows of the task's matrix in the space of the ``geometry``, ``prepared`` the
    folds' models as functions of it, and scores are attributed to its columns: features, or under
    a copula their normal scores. ``gradient_step`` asks for the mean product of the regression's
    latent gradients by differences of this step; ``check`` measures the error of quadrature, and
    takes more nodes where it is large.
    """
    # A model that is asked for every node may be slow, and the progress bar moves by blocks.
    asked = _most_nodes(prepared) > 0
    together = ROWS_AT_ONCE if asked else rows_at_once(geometry)
    passes = Passes(together, n_draws, n_smoothing, advance=task.advance)
    error: LineError | None = None
    if check:
        prepared, error = _settled(prepared, task, geometry, points, passes)
    sizes = sample_sizes(task.folds, task.weights, geometry.n_latent)
    mass = task.weights.values
    jobs = (
        delayed(_score_fold)(
            lines, points[lines.fold.test], task.y[lines.fold.test], mass[lines.fold.test], size,
            geometry, passes, task.readings, form=task.form, loss=task.fits.loss,
            error=task.transport_error, gradient_step=gradient_step,
        )
        for lines, size in zip(prepared, sizes, strict=True)
    )  # fmt: skip
    steps, n_jobs = rows_held_out(task.folds), task.fits.workers.n_jobs
    results = list(in_parallel(jobs, n_jobs, threads=True, advance=task.advance, steps=steps))
    calibration = calibrate(
        task, [result.influence for result in results], [result.product for result in results]
    )
    if calibration is not None:
        tilted = task.transport_error == "finite-difference"
        results = [
            result.calibrated(factor, tilted=tilted)
            for result, factor in zip(results, calibration.factors, strict=True)
        ]
    rows, lines, by_repeat = _pooled_lines(task, results)
    squared = geometry.attribution**2
    nodes = None if error is None else _most_nodes(prepared)
    return Scores(
        rows=rows,
        latent=lines.influence,
        attributed=lines.influence @ squared.T,
        latent_by_repeat=by_repeat,
        attributed_by_repeat=by_repeat @ squared.T,
        predictions=tuple(
            (fold.test, result.prediction) for fold, result in zip(task.folds, results, strict=True)
        ),
        attribution=squared,
        rule=_joint_rule(prepared),
        diagnostics={} if error is None or nodes is None else {"quadrature": error.as_dict(nodes)},
        n_nodes=nodes,
        lines=lines,
        calibration=calibration,
    )


def rows_at_once(geometry: Geometry) -> int:
    """Return how many rows are scored together."""
    if geometry.smoothing < 1.0:
        return ROWS_AT_ONCE
    lines = geometry.n_latent * len(geometry.offsets[0])
    return int(np.clip(CELLS_AT_ONCE // max(1, lines), ROWS_AT_ONCE, MOST_ROWS_AT_ONCE))


def _pooled_lines(task: Task, results: Sequence[LineScores]) -> tuple[Ints, LineScores, Floats]:
    """Return the rows, what their lines tell together, and the latent scores of each repeat."""
    folds, mass = task.folds, task.weights.values
    rows, influence, by_repeat = pool(folds, [r.influence for r in results], mass)
    _, prediction, _ = pool(folds, [r.prediction for r in results], mass)
    total = _masses(folds, mass).sum()
    held = [mass[fold.test].sum() for fold in folds]

    def mean(parts: Iterable[Floats]) -> Floats:
        return np.asarray(reduce(add, map(mul, held, parts)) / total)

    overlaps = [r.overlap for r in results if r.overlap is not None]
    differences = [r.differences for r in results if r.differences is not None]
    gradients = [r.gradients for r in results if r.gradients is not None]
    residuals = [r.residual for r in results if r.residual is not None]
    lines = LineScores(
        influence,
        prediction,
        mean(r.sensitivity for r in results),
        mean(r.gradient for r in results),
        mean(r.curvature for r in results),
        overlap=reduce(add, overlaps) if overlaps else None,
        differences=reduce(add, differences) if differences else None,
        gradients=reduce(add, gradients) if gradients else None,
        residual=mean(residuals) if residuals else None,
    )
    return rows, lines, by_repeat


def sample_sizes(folds: Sequence[FoldModels], weights: Weights, d: int) -> list[int]:
    """Return how many rows of each fold are differenced, in proportion to their number."""
    held = [weights.take(fold.test).total for fold in folds]
    share = checked_rows(sum(held), d) / max(1.0, sum(held))
    return [int(np.ceil(share * count)) for count in held]


def rows_held_out(folds: Sequence[FoldModels]) -> list[int]:
    return [len(fold.test) for fold in folds]


def _joint_rule(prepared: Sequence[FoldLines]) -> str:
    return " + ".join(dict.fromkeys(lines.rule for lines in prepared))


def _most_nodes(prepared: Sequence[FoldLines]) -> int:
    return max(most_nodes(model) for lines in prepared for model in lines.models)


def _settled(
    prepared: list[FoldLines], task: Task, geometry: Geometry, points: Floats, passes: Passes
) -> tuple[list[FoldLines], LineError | None]:
    """Return the folds with as many nodes as their scores need, and the error that is left."""
    if not _most_nodes(prepared):
        return prepared, None
    matrix, weights, options = task.matrix, task.weights, task.options
    folds = [lines.fold for lines in prepared]
    predictions = [
        np.asarray(
            np.mean([model.predict(points[lines.fold.test]) for model in lines.models], axis=0)
        )
        for lines in prepared
    ]
    checked = CheckedRows.of(folds, predictions, matrix, task.y, weights, geometry.n_latent)

    def taken(nodes: Nodes) -> list[FoldLines]:
        return [
            lines.with_models(with_nodes(model, nodes) for model in lines.models)
            for lines in prepared
        ]

    def evaluate(nodes: Nodes) -> Floats:
        tasks = (
            delayed(latent_scores)(
                lines.models, points[which], prediction, weights.values[which], geometry,
                form=task.form, loss=task.fits.loss,
                passes=replace(passes, seed=unspent(lines.kernel_seed), advance=None),
            )
            for lines, prediction, which in zip(
                taken(nodes), checked.prediction, checked.rows, strict=True
            )
        )  # fmt: skip
        steps = [len(rows) for rows in checked.rows]
        found = in_parallel(tasks, task.fits.workers.n_jobs, threads=True, steps=steps)
        return np.concatenate([scores.influence for scores in found])

    nodes, error = settle_nodes(
        evaluate,
        lambda nodes: _joint_rule(taken(nodes)),
        checked,
        asked=options.nodes is not None or options.rule == "draws",
        draws=options.rule == "draws",
    )
    error.say(worth_saying(options))
    return taken(nodes), error


def _score_fold(
    lines: FoldLines,
    points: Floats,
    y: Floats,
    mass: Floats,
    size: int,
    geometry: Geometry,
    passes: Passes,
    kept: LineModels,
    *,
    form: ScoreForm,
    loss: Loss,
    error: TransportError,
    gradient_step: float | None,
) -> LineScores:
    """Score the rows of one fold; ``size`` of them are differenced, where asked for."""
    models, seeded = lines.models, replace(passes, seed=lines.kernel_seed)
    scores = kept.scores(
        lines,
        geometry,
        (form, loss.name, passes),
        lambda: latent_scores(
            models, points, y, mass, geometry, form=form, loss=loss, passes=seeded
        ),
    )
    if error == "finite-difference":
        # the CPI form is LOCO with outcomes half way to the predictions
        against = 0.5 * (y + models[0].predict(points)) if form == "cpi" else y
        tilted = tilt_sensitivity(
            models, points, against, mass, geometry, loss=loss, rows_at_once=ROWS_AT_ONCE
        )
        np.fill_diagonal(tilted, np.diag(scores.sensitivity))
        scores = replace(scores, sensitivity=tilted)
    if not size or (error != "auto" and gradient_step is None):
        return scores
    sample = row_sample(geometry.standardize(points), mass, size)
    rows = points[sample.rows]
    if error == "auto":
        differences = differenced_sensitivity(
            models, scores.regressions, rows, sample.mass, geometry, loss
        )
        scores = replace(scores, differences=differences)
    if gradient_step is not None:
        gradients = gradient_products(
            models, rows, sample.mass, geometry, step=gradient_step, loss=loss
        )
        scores = replace(scores, gradients=gradients)
    return scores
