r"""Scores along straight lines, in feature or in score space: exact for trees, errors derived.

What linear transports and the copula share: line means in a space where latent lines are straight
(:func:`dfi._scoring.scores.pooled_scores`), the influence of every row on the whitening there
(:mod:`dfi._scoring.map_error`), the second-order bias that it leaves, and the choice of the
sensitivity ``G`` that the influence is multiplied by: the Hermite short cut, unless differences
contradict it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from joblib import delayed

from dfi._models.parallel import in_parallel
from dfi._scoring.error import unspent
from dfi._scoring.jackknife import kept_factors, thin
from dfi._scoring.lines import LineScores, unread_coordinates
from dfi._scoring.map_error import (
    FIXED,
    MapInfluence,
    SecondOrderBias,
    SquaredInfluence,
    gradient_step,
    refuse_derived,
    squared_influence,
    why_left_in,
)
from dfi._scoring.sampling import of_share
from dfi._scoring.scores import Scores, pooled_scores, rows_at_once
from dfi._scoring.sensitivity_choice import settled_sensitivity
from dfi._scoring.swapped import Changes, Corrected, changes_along
from dfi._scoring.task import FoldLines, Task, fold_lines
from dfi.transports.base import STRAIGHT_ONLY, FittedTransport, jackknifed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._lines.base import LineModel, Reference
    from dfi._lines.choose import Quadrature
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.geometry import Geometry
    from dfi._types import Floats, Ints, Plain
    from dfi.losses import Loss

LINE_JACKKNIFE_ROWS = 150
"""Rows on which refits are compared where the short cut was refuted, in tables of many columns."""


@dataclass(frozen=True)
class Attributed:
    """Influence values of both spaces, mean squared Jacobian, second-order bias if requested."""

    latent: Floats
    attributed: Floats
    jacobian: Floats
    bias: Floats | None = None


class StraightTransport(FittedTransport):
    """A fitted transport whose latent lines are straight, in feature or in score space."""

    refits_for_error: ClassVar[bool] = False
    bends_models: ClassVar[bool] = False
    """Whether models are other functions where lines are straight, and move with a refit."""

    if TYPE_CHECKING:

        @property
        def geometry(self) -> Geometry:
            """The space where lines are straight."""

    @property
    def active(self) -> Ints:
        """The columns that vary."""
        return self.geometry.active

    @property
    def reference(self) -> Reference:
        return self.geometry.reference

    @property
    def labels(self) -> Ints | None:
        return self.geometry.labels

    @property
    def shares_variance(self) -> bool:
        """Whether attributed scores are shares of the variance: not of a smoothed regression."""
        return self.geometry.smoothing == 1.0 and not self.by_slopes

    def points(self, matrix: Floats) -> Floats:
        """Return rows in the space where lines are straight."""
        return matrix

    def line_model(self, model: LineModel, options: Quadrature | None = None) -> LineModel:
        """Return a model as a function of that space."""
        del options
        return model

    def line_models(
        self, models: Sequence[LineModel], options: Quadrature | None = None
    ) -> list[LineModel]:
        """Return models as functions of that space."""
        if not self.bends_models:
            return list(models)
        return [self.line_model(model, options) for model in models]

    def points_of(self, task: Task) -> Floats:
        """Return the rows of a task's matrix in that space, those that are scored."""
        return task.matrix

    def lines_of(self, folds: Sequence[FoldModels], task: Task) -> list[FoldLines]:
        """Read the models of folds as functions of that space."""
        # Prediction releases the interpreter's lock.
        read = (delayed(fold_lines)(fold, task) for fold in folds)
        lines = list(in_parallel(read, task.fits.workers.n_jobs, here=True))
        if not self.bends_models:
            return lines
        return [it.with_models(self.line_models(it.models, task.options)) for it in lines]

    def margin_slopes(self, latent: Floats, coordinates: Ints, weights: Weights) -> Floats:
        """Return the mean squared slope of margins from that space to features, (coordinates,)."""
        del latent, weights
        return np.ones(len(coordinates))

    def even_shares(self) -> Floats:
        return np.asarray(self.geometry.attribution**2)

    def why_unprobed(self, n_rows: int) -> str | None:
        if self.geometry.smoothing < 1.0:
            return "the entropic bridge averages many lines for every row"
        return super().why_unprobed(n_rows)

    def map_influence(self, matrix: Floats) -> MapInfluence | None:
        return self.influence(matrix) if self.correlations.of_sample else None

    def influence(self, matrix: Floats) -> MapInfluence:
        """Return the rows' influence on the whitening."""
        return MapInfluence(self.geometry, self.geometry.standardize(self.points(matrix)))

    @abstractmethod
    def attributed(
        self,
        scores: LineScores,
        matrix: Floats,
        weights: Weights,
        *,
        influence: MapInfluence | None = None,
        squares: SquaredInfluence | None = None,
    ) -> Attributed:
        """Attribute latent influence values of rows, which are given as features."""

    def both_means(self, scores: LineScores, matrix: Floats, weights: Weights) -> Floats:
        """Return the latent and the attributed scores, one after the other."""
        values = self.attributed(scores, matrix, weights)
        return np.concatenate([weights.mean(values.latent), weights.mean(values.attributed)])

    def finished(self, scores: Scores, task: Task) -> Scores:
        """Add the own error; rows of components that no model reads score exactly 0."""
        found = super().finished(scores, task)
        if task.fixed:
            found = SecondOrderBias.left_in(FIXED).subtracted_from(found, ())
        labels = self.geometry.labels
        if labels is None:
            return found
        lines, y = found.straight, task.y[found.rows]
        return found.silenced(
            unread_coordinates(lines.influence, lines.prediction, y, labels, task.fits.loss)
        )

    def plain_scores(self, task: Task) -> Scores:
        """Score along straight lines."""
        pooled = self._pooled(task)
        weights, overlap = task.weights.take(pooled.rows), pooled.straight.overlap
        if overlap is not None:
            names = task.names_at(self.geometry.active)
            told = overlap.as_dict(names, weights.mean(pooled.latent))
            pooled = replace(pooled, diagnostics={**pooled.diagnostics, "orthogonality": told})
        if not self.bends_models:
            return pooled
        plain = self.attributed(pooled.straight, task.matrix[pooled.rows], weights)
        return replace(
            pooled,
            latent=plain.latent,
            attributed=plain.attributed,
            attributed_by_repeat=pooled.latent_by_repeat @ plain.jacobian.T,
            attribution=plain.jacobian,
        )

    def own_error(self, scores: Scores, task: Task) -> Scores | None:
        """Add the derived terms, or refits if no sensitivity can be trusted."""
        lines, names = scores.straight, task.names_at(self.geometry.active)
        if not self.correlations.of_sample or self._only_refits(task.fits.loss):
            found = self.jackknife(scores, task)
            told: Plain = {"sensitivity": {"used": "jackknife"}}
            found = replace(found, diagnostics={**found.diagnostics, **told})
            reason = why_left_in(self.geometry, task.n_fitted) or "not derived for this loss"
            return SecondOrderBias.left_in(reason).subtracted_from(found, names)
        matrix, weights = task.matrix[scores.rows], task.weights.take(scores.rows)
        influence = self.influence(matrix)
        settled = settled_sensitivity(lines, influence, weights, task, names)
        reason = why_left_in(self.geometry, task.n_fitted)
        squares = None
        if not reason and lines.gradients is not None:
            factor = None if scores.calibration is None else scores.calibration.factor
            squares = squared_influence(influence, lines.gradients.mean(), weights, factor)
            # variances of a transport that was fitted on more rows than are explained
            squares = replace(
                squares,
                latent=task.share * squares.latent,
                decoder=task.share * squares.decoder,
                rough=lines.gradients.rough,
            )
        trusted = None if settled.jackknife else influence
        aware = self.attributed(settled.scores, matrix, weights, influence=trusted, squares=squares)
        if settled.jackknife:
            found = self.jackknife(scores, task)
        else:
            found = scores.with_error(
                of_share(scores.latent, aware.latent, weights, task),
                of_share(scores.attributed, aware.attributed, weights, task),
                settled.words,
            )
        found = replace(found, diagnostics={**found.diagnostics, **settled.diagnostics})
        bias = SecondOrderBias.left_in(reason or "no row has a weight")
        if squares is not None and aware.bias is not None:
            bias = squares.bias(aware.bias)
        return bias.subtracted_from(found, names)

    def _only_refits(self, loss: Loss) -> bool:
        """Return whether the own error is not derived for a loss."""
        random = not self.shares_variance or bool(self.geometry.kernel_variance.any())
        return not loss.has_generator or (random and not loss.is_square)

    def changes(
        self, fold: FoldModels, task: Task, points: Floats, seed: np.random.SeedSequence
    ) -> Changes:
        """Return the changes in rows of any table when each coordinate is replaced."""
        del seed
        models = self.lines_of([fold], task)[0].models
        at_once = rows_at_once(self.geometry)
        return changes_along(models, self.points(points), self.geometry, at_once)

    def rescored(self, scores: Scores, found: Corrected, task: Task) -> Scores:
        """Return scores with other influence values of the same rows."""
        lines = replace(scores.straight, influence=found.law)
        weights = task.weights.take(scores.rows)
        plain = self.attributed(lines, task.matrix[scores.rows], weights)
        return replace(scores, latent=plain.latent, attributed=plain.attributed, lines=lines)

    def jackknife(self, scores: Scores, task: Task) -> Scores:
        """Compare refits on some of the rows, with as many nodes as proved enough."""
        folds = thin(task.folds, LINE_JACKKNIFE_ROWS, task.weights)
        matrix = task.matrix
        nodes = task.options.nodes if scores.n_nodes is None else scores.n_nodes
        options = replace(task.options, nodes=nodes)
        thinned = replace(
            task,
            folds=folds,
            options=options,
            transport_error="ignore",
            advance=None,
            factors=kept_factors(scores, task),
            readings=task.readings.keeping_no_scores(),
        )
        # models are functions of rows, whatever the map; those behind margins move with them, and
        # those with draws of their own are to draw the same in every refit
        kept: list[FoldLines] | None = None
        if not self.bends_models and options.rule != "draws":
            kept = self.lines_of(folds, thinned)

        def rescore(refit: StraightTransport | None, rows: Ints | None) -> Floats:
            del rows
            fitted = self if refit is None else refit
            if kept is None:
                lines = fitted.lines_of(folds, thinned)
            else:
                lines = [replace(it, kernel_seed=unspent(it.kernel_seed)) for it in kept]
            found = pooled_scores(
                thinned,
                fitted.geometry,
                lines,
                fitted.points_of(thinned),
                check=False,
                n_draws=self.design.n_draws,
                n_smoothing=self.design.n_smoothing,
            )
            weights = task.weights.take(found.rows)
            return fitted.both_means(found.straight, matrix[found.rows], weights)

        return jackknifed(scores, task, task.child(0), self.design, self, rescore)

    def _pooled(self, task: Task) -> Scores:
        """Score lines, with what the chosen treatment of the transport's error asks for."""
        geometry, error = self.geometry, task.transport_error
        if not self.correlations.of_sample:
            refuse_derived(error)
        loss = task.fits.loss
        if self._only_refits(loss):
            if error in STRAIGHT_ONLY:
                raise ValueError(
                    f"transport_error={error!r} is not derived for the loss {loss.name!r} "
                    "under this transport: leave it at 'auto' (here 'jackknife'), or use 'ignore'"
                )
            error = "ignore"
        points, lines = self.points_of(task), self.lines_of(task.folds, task)
        if error == "auto" and (
            geometry.smoothing < 1.0
            or not self.correlations.of_sample
            or task.options.rule == "draws"
            or task.n_fitted < max(geometry.n_latent, 2 * max(map(len, geometry.blocks)))
        ):
            # a smoothed regression, which single lines do not show; refits instead of terms; line
            # means whose own noise differences would show; or too small errors in any case, and
            # too few rows to tell, at 16 matrices of all columns a fold
            error = "derived"
        step = None
        if error != "ignore" and not task.fixed and not why_left_in(geometry, task.n_fitted):
            step = gradient_step(task.total)
        return pooled_scores(
            replace(task, transport_error=error),
            geometry,
            lines,
            points,
            gradient_step=None if task.settled else step,
            check=not task.settled,
            n_draws=self.design.n_draws,
            n_smoothing=self.design.n_smoothing,
        )
