r"""Scores along straight lines, in feature or in score space: exact for trees, errors derived.

What linear transports and the copula share: line means in a space where latent lines are straight
(:func:`dfi._scoring.scores.pooled_scores`), the influence of every row on the whitening there
(:mod:`dfi.transports.linear_error`), the second-order bias that it leaves, and the choice of the
sensitivity ``G`` that the influence is multiplied by: the Hermite short cut, unless differences
contradict it.

The short cut (:mod:`dfi._scoring.sensitivity`) replaces :math:`h_j` by its linear part and
integrates by parts. Differences on a sample of the rows (same module) measure
what each of the two steps costs:

- *curved*: :math:`E[(h_j - \bar h_j - q_j)\,\partial_k m_j]`, left out by the short cut; large for
  structure of third order and for few large steps;
- *parts*: :math:`E[(\bar h_j + q_j)\,\partial_k m_j]` less the short cut; large where latent rows
  are not normal.

Let :math:`v = u + T(G)` be the influence values of latent score ``j``, :math:`T` linear, and let a
part :math:`\delta` be measured in groups ``g`` of the sampled rows. It changes the variance of
``v`` and stands against the variance of :math:`T(G)` itself by

.. math:: \theta = 2\,\overline{Cov(v, T(\delta_g))} + \kappa, \qquad
          \kappa = \overline{Cov(T(\delta_g), T(\delta_{g'}))}_{g \ne g'},

both free of the bias that the noise of :math:`\delta` would have if it were squared. It enters
column ``j`` of ``G``

- where it matters: :math:`\theta` changes the standard error by more than ``CHANGE``, or
  :math:`\sqrt\kappa` is more than ``SHARE`` of the standard deviation of :math:`T(G)`;
- and the noise of the sample does not decide: what matters is more than ``ERRORS`` of its own
  standard errors (jackknife over the groups) away from 0, or the noise of :math:`T(\delta)` is less
  than ``HARMLESS`` of the variance of ``v``, so entering by mistake changes nothing.

Of a wide table too few rows are differenced to say what ``G`` is. There the parts only tell whether
the short cut is wrong, tested over all columns together at ``FAMILY_LEVEL``; if it is, the
transport is fitted again without groups of rows.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from joblib import delayed
from scipy import stats

from dfi._models.parallel import in_parallel
from dfi._scoring.error import unspent
from dfi._scoring.lines import LineScores, row_sample, unread_coordinates
from dfi._scoring.sampling import of_sample
from dfi._scoring.scores import FoldLines, Scores, Task, fold_lines, pooled_scores, rows_at_once
from dfi._scoring.swapped import Changes, Corrected, changes_along
from dfi.transports.base import STRAIGHT_ONLY, FittedTransport, jackknifed, kept_factors, thin
from dfi.transports.linear_error import (
    FIXED,
    MapInfluence,
    SecondOrderBias,
    SquaredInfluence,
    gradient_step,
    latent_terms,
    refuse_derived,
    squared_influence,
    why_left_in,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._lines.base import LineModel, Reference
    from dfi._lines.choose import Quadrature
    from dfi._models.crossfit import FoldModels
    from dfi._scoring.geometry import Geometry
    from dfi._scoring.sensitivity import Differences
    from dfi._types import Bools, Floats, Ints, Plain
    from dfi.losses import Loss
    from dfi.transports.gaussian import LinearTransport

LINE_JACKKNIFE_ROWS = 150
"""Rows on which refits are compared where the short cut was refuted, in tables of many columns."""

CHANGE = 0.05
SHARE = 0.25
ERRORS = 2.5
HARMLESS = 0.05
FAMILY_LEVEL = 0.05
FEWEST_GROUPS = 4
ROUNDING = 1e-12
_MOST_ROWS, _LEAST_ROWS, _WORK = 1000, 100, 1e7


@dataclass(frozen=True)
class Attributed:
    """Influence values of both spaces, mean squared Jacobian, second-order bias where asked for."""

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
    @abstractmethod
    def whitening(self) -> LinearTransport:
        """The linear transport of that space."""

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

    def points_of(self, task: Task) -> Floats:
        """Return the rows of a task's matrix in that space, those that are scored."""
        return task.matrix

    def lines_of(self, folds: Sequence[FoldModels], task: Task) -> list[FoldLines]:
        """Read the models of folds as functions of that space."""
        # Prediction releases the interpreter's lock.
        read = (delayed(fold_lines)(fold, task) for fold in folds)
        return [
            replace(it, models=tuple(self.line_model(m, task.options) for m in it.models))
            for it in in_parallel(read, task.n_jobs, here=True)
        ]

    def margin_slopes(self, latent: Floats, coordinates: Ints, weights: Weights) -> Floats:
        """Return the mean squared slope of margins from that space to features, (coordinates,)."""
        del latent, weights
        return np.ones(len(coordinates))

    def influence(self, matrix: Floats) -> MapInfluence:
        """Return the rows' influence on the whitening."""
        return MapInfluence(self.whitening, self.geometry.standardize(self.points(matrix)))

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
        """Attribute latent influence values of rows, which are given as features.

        ``influence`` is theirs on the whitening (:meth:`influence`); None takes it as known.
        ``squares`` asks for the second-order bias that it causes.
        """

    def both_means(self, scores: LineScores, matrix: Floats, weights: Weights) -> Floats:
        """Return the latent and the attributed scores, one after the other."""
        values = self.attributed(scores, matrix, weights)
        return np.concatenate([weights.mean(values.latent), weights.mean(values.attributed)])

    def finished(self, scores: Scores, task: Task) -> Scores:
        """Add the own error; rows of components that no model reads score exactly 0."""
        found = super().finished(scores, task)
        if task.fixed:
            found = SecondOrderBias.left_in(FIXED).subtracted_from(found, self._names(task))
        if self.labels is None:
            return found
        lines, y = found.straight, task.y[found.rows]
        return found.silenced(
            unread_coordinates(lines.influence, lines.prediction, y, self.labels, task.loss)
        )

    def plain_scores(self, task: Task) -> Scores:
        """Score along straight lines."""
        pooled = self._pooled(task)
        matrix, weights = task.matrix[pooled.rows], task.weights.take(pooled.rows)
        plain = self.attributed(pooled.straight, matrix, weights)
        diagnostics, overlap = pooled.diagnostics, pooled.straight.overlap
        if overlap is not None:
            told = overlap.as_dict(self._names(task), weights.mean(pooled.latent))
            diagnostics = {**diagnostics, "orthogonality": told}
        return replace(
            pooled,
            latent=plain.latent,
            attributed=plain.attributed,
            attributed_by_repeat=pooled.latent_by_repeat @ plain.jacobian.T,
            attribution=plain.jacobian,
            diagnostics=diagnostics,
        )

    def own_error(self, scores: Scores, task: Task) -> Scores | None:
        """Add the derived terms, or refits where no sensitivity is to be trusted."""
        lines, names = scores.straight, self._names(task)
        if not self.correlations.of_sample or self._only_refits(task.loss):
            found = self.jackknife(scores, task)
            told: Plain = {"sensitivity": {"used": "jackknife"}}
            found = replace(found, diagnostics={**found.diagnostics, **told})
            reason = why_left_in(self.whitening, task.n_fitted) or "not derived for this loss"
            return SecondOrderBias.left_in(reason).subtracted_from(found, names)
        matrix, weights = task.matrix[scores.rows], task.weights.take(scores.rows)
        influence = self.influence(matrix)
        settled = _settled(lines, influence, weights, task, names)
        reason = why_left_in(self.whitening, task.n_fitted)
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
                _of_share(scores.latent, aware.latent, weights, task),
                _of_share(scores.attributed, aware.attributed, weights, task),
                settled.words,
            )
        found = replace(found, diagnostics={**found.diagnostics, **settled.diagnostics})
        bias = SecondOrderBias.left_in(reason or "no row has a weight")
        if squares is not None and aware.bias is not None:
            bias = squares.bias(aware.bias)
        return bias.subtracted_from(found, names)

    def _only_refits(self, loss: Loss) -> bool:
        """Return whether the own error is not derived for a loss.

        Terms of the smoothed regression, and of the random part of collinear columns, are those of
        squared error; a loss without a generator has no terms at all.
        """
        random = not self.shares_variance or bool(self.geometry.kernel_variance.any())
        return not loss.has_generator or (random and not loss.is_square)

    def changes(
        self, fold: FoldModels, task: Task, points: Floats, seed: np.random.SeedSequence
    ) -> Changes:
        """Return what replacing each coordinate changes in rows of any table."""
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
        """Compare refits on some of the rows, with the nodes that were found to be enough."""
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

    def _names(self, task: Task) -> list[str]:
        names = task.table.matrix_names
        return [names[k] for k in self.active]

    def _pooled(self, task: Task) -> Scores:
        """Score lines, with what the chosen treatment of the transport's error asks for."""
        linear, error = self.whitening, task.transport_error
        if not linear.correlations.of_sample:
            refuse_derived(error)
        if self._only_refits(task.loss):
            if error in STRAIGHT_ONLY:
                raise ValueError(
                    f"transport_error={error!r} is not derived for the loss {task.loss.name!r} "
                    "under this transport: leave it at 'auto' (here 'jackknife'), or use 'ignore'"
                )
            error = "ignore"
        if error == "auto" and (
            linear.geometry.smoothing < 1.0
            or not linear.correlations.of_sample
            or task.options.rule == "draws"
            or task.n_fitted < max(linear.n_latent, 2 * max(map(len, linear.geometry.blocks)))
        ):
            # a smoothed regression, which single lines do not show; refits instead of terms; line
            # means whose own noise differences would show; or too small errors in any case, and
            # too few rows to tell, at 16 matrices of all columns a fold
            error = "derived"
        step = None
        if error != "ignore" and not task.fixed and not why_left_in(linear, task.n_fitted):
            step = gradient_step(task.total)
        return pooled_scores(
            replace(task, transport_error=error),
            self.geometry,
            self.lines_of(task.folds, task),
            self.points_of(task),
            gradient_step=None if task.settled else step,
            check=not task.settled,
            n_draws=self.design.n_draws,
            n_smoothing=self.design.n_smoothing,
        )


def _of_share(plain: Floats, aware: Floats, weights: Weights, task: Task) -> Floats:
    """Return influence values with the transport's terms, which are of all rows it was fitted on.

    Without a sample they are what they are.
    """
    if task.share >= 1.0:
        return aware
    return of_sample(plain, aware - plain, weights, task.share, task.child(7))


@dataclass(frozen=True)
class _Settled:
    """The sensitivity that standard errors use, or ``jackknife`` where none is to be trusted."""

    scores: LineScores
    words: str
    diagnostics: Plain
    jackknife: bool = False


def _settled(
    scores: LineScores, influence: MapInfluence, weights: Weights, task: Task, names: list[str]
) -> _Settled:
    """Take the sensitivity that was asked for; ``"auto"`` is checked on a sample of the rows."""
    used: str
    if scores.differences is None:
        used = "derived" if task.transport_error == "auto" else task.transport_error
        return _Settled(
            scores,
            f"transport-aware ({used})",
            {"sensitivity": {"used": used}},
            jackknife=used == "jackknife",
        )
    choice = choose_sensitivity(influence, scores, scores.differences, weights)
    count = int(choice.changed.sum())
    used = "derived"
    if count:
        used = f"differences for {count} of {len(names)} coordinates, derived for the rest"
        if not choice.enough:
            used = "jackknife"
    return _Settled(
        replace(scores, sensitivity=choice.sensitivity),
        f"transport-aware ({used})",
        {"sensitivity": {"used": used, **choice.as_dict(names)}},
        jackknife=bool(count) and not choice.enough,
    )


@dataclass(frozen=True)
class SensitivityChoice:
    """The sensitivity ``G`` that was settled on, and why.

    ``changed`` are the coordinates where differences contradict the short cut; ``change`` is the
    largest relative change of the latent standard error that a part would make; ``rows`` were
    differenced, ``enough`` of them or not to use the differences themselves.
    """

    sensitivity: Floats
    changed: Bools
    change: Floats
    rows: int
    enough: bool

    def as_dict(self, names: list[str]) -> Plain:
        """Return what a result keeps."""
        return {
            "rows": self.rows,
            "changed": [name for name, is_so in zip(names, self.changed, strict=True) if is_so],
            "largest_change": float(np.max(np.abs(self.change), initial=0.0)),
        }


def choose_sensitivity(
    influence: MapInfluence, scores: LineScores, differences: Differences, weights: Weights
) -> SensitivityChoice:
    """Return ``G`` by the short cut, corrected where differences show that it matters."""
    d = scores.influence.shape[1]
    count = int(max(_LEAST_ROWS, min(_MOST_ROWS, _WORK / d**2)))
    chosen = row_sample(influence.rows, weights.values, count)
    sample, share = chosen.rows, chosen.mass / chosen.mass.sum()
    on_sample = MapInfluence(influence.transport, influence.rows[sample])
    terms = latent_terms(on_sample, scores)
    values = scores.influence[sample] + terms
    values, terms = values - share @ values, terms - share @ terms
    # in units in which fourth powers of outcomes stay within double precision
    unit = float(np.sqrt(np.max(share @ values**2))) or 1.0
    values, terms = values / unit, terms / unit
    base, of_terms = share @ values**2, share @ terms**2
    # columns of rounding errors have nothing to change
    known = base > ROUNDING * base.max()
    short_cut = scores.sensitivity * (1.0 - np.eye(d))
    curved, linear = differences.groups()
    sensitivity = scores.sensitivity.copy()
    changed, change = np.zeros(d, dtype=bool), np.zeros(d)
    for part in (curved, linear - short_cut):
        found = _excess(on_sample, part / unit, values, share)
        relative = np.divide(found.variance, base, out=np.zeros(d), where=known)
        moved = np.sqrt(np.maximum(1.0 + relative, 0.0)) - 1.0
        # without enough rows the part is not used: it only tells, for all columns at once
        errors = ERRORS if differences.enough else _family_errors(d, len(part))
        harmless = (found.noise < HARMLESS * base) & differences.enough
        on_error = (np.abs(moved) > CHANGE) & (
            harmless | (np.abs(found.variance) > errors * found.variance_error)
        )
        on_terms = (found.square > np.maximum(SHARE**2 * of_terms, ROUNDING * base)) & (
            harmless | (found.square > errors * found.square_error)
        )
        matters = known & (on_error | on_terms)
        sensitivity[:, matters] += part.mean(axis=0)[:, matters]
        changed |= matters
        change = np.where(np.abs(moved) > np.abs(change), moved, change)
    if not differences.enough:
        sensitivity = scores.sensitivity
    return SensitivityChoice(sensitivity, changed, change, differences.rows, differences.enough)


def _family_errors(d: int, count: int) -> float:
    """Return how many errors away from 0 one of all columns' quantities is by chance, rarely."""
    return float(stats.t.ppf(1.0 - FAMILY_LEVEL / (4 * d), max(count - 1, 1)))


@dataclass(frozen=True)
class _Excess:
    r"""What a part of ``G`` does to each latent score: :math:`\theta`, :math:`\kappa` and errors.

    ``noise`` is the variance that the sampling error of the part adds.
    """

    variance: Floats
    square: Floats
    variance_error: Floats
    square_error: Floats
    noise: Floats


def _excess(influence: MapInfluence, part: Floats, values: Floats, share: Floats) -> _Excess:
    """Return the change of the variance through a part of ``G``, and its standard error."""
    count, d, _ = part.shape
    if count < FEWEST_GROUPS:
        none, unknown = np.zeros(d), np.full(d, np.inf)
        return _Excess(none, none, unknown, unknown, unknown)
    terms = np.stack([2.0 * influence.on_map(group, np.eye(d)) for group in part])
    terms -= np.einsum("i,gij->gj", share, terms)[:, None, :]
    linear = 2.0 * np.einsum("i,ij,gij->gj", share, values, terms)
    own = np.einsum("i,gij->gj", share, terms**2)

    def both(kept: Ints) -> tuple[Floats, Floats]:
        k = len(kept)
        square = (share @ terms[kept].sum(axis=0) ** 2 - own[kept].sum(axis=0)) / (k * (k - 1))
        return linear[kept].mean(axis=0) + square, square

    everyone = np.arange(count)
    without = np.array([both(np.delete(everyone, g)) for g in everyone])
    spread = (count - 1) / count * np.sum((without - without.mean(axis=0)) ** 2, axis=0)
    variance, square = both(everyone)
    noise = (own.mean(axis=0) - square) / count
    variance_error, square_error = np.sqrt(spread)
    return _Excess(variance, square, variance_error, square_error, noise)
