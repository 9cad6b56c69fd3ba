"""Disentangled Feature Importance: transport, scores and their errors."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfi._data import source
from dfi._data.members import unit_members
from dfi._data.problem import covering, group_blocks
from dfi._data.source import sampled_places
from dfi._diagnosis.checks import explain_diagnostics, joined_checks
from dfi._diagnosis.fidelity import keeping_variance
from dfi._diagnosis.learning import calibration, calibration_of, learned
from dfi._diagnosis.rows import limits_of_rows
from dfi._findings import warn_of
from dfi._latent.walks import Parts, explained_parts
from dfi._lines.choose import Quadrature
from dfi._models.crossfit import split_variance
from dfi._models.predictor import UnpredictedError
from dfi._models.quality import averaged, judged
from dfi._parameters import argument, validated_fields, worded
from dfi._progress import telling_bar
from dfi._scoring.forms import CROSSED, Stretch
from dfi._scoring.sampling import restricted
from dfi._scoring.task import LineModels, Task
from dfi.losses import SQUARED_ERROR
from dfi.methods.base import Method, MethodResult, joined_diagnostics, loss_totals
from dfi.methods.stages import ExplainRows, RowPlan, row_plan, sampled_scores, seconds_ahead
from dfi.transports import Gaussian, resolve_transport
from dfi.transports.base import Layout, TransportChoice, UnsuitableTransportError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi._data.groups import Groups
    from dfi._data.problem import Blocks
    from dfi._data.source import RowSource
    from dfi._data.weights import Weights
    from dfi._models.crossfit import FoldModels
    from dfi._models.fits import Fits
    from dfi._progress import Bar
    from dfi._scoring.forms import AskedForm, ScoreForm
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import TransportError
    from dfi._types import Advance, Bools, Floats, TransportLike
    from dfi.losses import Loss
    from dfi.methods.stages import Running, Sampled, Told
    from dfi.transports.base import FittedTransport, Transport


LEADING = 3
"""Scores that are shown as they settle."""

CURVE_ERROR = 0.9
"""Relative error of the extrapolation: of 1/(2^r - 1) about 1, for r of 1/2, 1 and 2.

What is missing falls like m^-r, and r is not known; 1 is taken (:meth:`Scores.extrapolated`).
"""

SPLIT_SHARE, COUNTED = 0.2, 0.01
"""Variance by the split, of all other, above which rows are split more often (a fifth: a deviation
of .4 standard errors), and the share of the sum above which a score decides on it."""


@dataclass(frozen=True)
class Explained:
    """A table explained under one transport: the part that becomes a result, and its origin.

    Attributes
    ----------
    part : MethodResult
        Attributed scores of the units, with the latent ones in ``part.latent``.
    models : tuple of FoldModels
        The models that were explained.
    transport : FittedTransport
        Fitted on the explained rows.
    scores : Scores
        Scores of the matrix columns.
    membership : ndarray of shape (latent coordinates, units)
        Which coordinates a unit owns, as 0 and 1.
    """

    part: MethodResult
    models: tuple[FoldModels, ...]
    transport: FittedTransport
    scores: Scores
    membership: Floats


@dataclass(frozen=True)
class Plan:
    """The plan for a table, decided or refused before anything is fitted.

    Attributes
    ----------
    choice : TransportChoice
        The transport, and why it, where it is chosen by the data.
    form : str
        The form of the scores.
    extrapolates : bool
        Whether they are extrapolated to more training rows.
    blocks : Blocks
        What is disentangled.
    groups : Groups, optional
        The groups that are scored, those of Shapley values with the columns of none.
    rows : RowPlan, optional
        Which rows are explained; None for all of them at once.
    source : RowSource, optional
        All rows, where sums over them stand for them.
    """

    choice: TransportChoice
    form: ScoreForm
    extrapolates: bool
    blocks: Blocks
    groups: Groups | None
    rows: RowPlan | None
    source: RowSource | None

    def explained(self, fits: Fits) -> int:
        """Return how many rows are explained at most."""
        return len(fits.rows if self.rows is None else self.rows.order)


@dataclass(frozen=True)
class Begun:
    """How the first splits of a small table were scored, for further ones beside them."""

    ahead: Plan
    transport: FittedTransport
    task: Task
    instead: str


@validated_fields
@dataclass(frozen=True, kw_only=True)
class Disentangled(Method):
    """Disentangled Feature Importance: shared signal, attributed through independent coordinates.

    Parameters
    ----------
    additive : bool, default=False
        Where groups are units: Shapley values in place of joint scores
        (:mod:`dfi._latent.walks`), which add up to R2 times the variance. What several groups
        share is divided evenly between them; columns of no group are one more unit.

    Examples
    --------
    >>> from dfi.methods import Disentangled
    >>> found = dfi.compare(sample.X, sample.y, Disentangled(transport="copula"),
    ...                     estimator="linear", cv=2)
    >>> bool(found["dfi"].scores[0] > found["dfi"].scores[1] > 4)
    True
    """

    transport: TransportLike = "gaussian"
    form: AskedForm = "auto"
    transport_error: TransportError = "auto"
    integration: Quadrature | Literal["auto"] = "auto"
    diagnose: bool = True
    additive: bool = False
    explain_rows: ExplainRows = "default"
    max_seconds: float | None = None

    name = "dfi"
    question = (
        "Shared-signal attribution: how much of the signal does the feature carry, alone and "
        "shared with correlated features?"
    )
    valid_intervals = True
    inference = (
        "Influence values include the transport's error; products of two independent models keep "
        "scores of null features from falling below 0."
    )

    @property
    def quadrature(self) -> Quadrature:
        """How averages along lines are taken."""
        return self.integration if isinstance(self.integration, Quadrature) else Quadrature()

    def check(self, *, prefit: bool) -> None:
        """Raise if parameters contradict each other, before any data are read.

        Parameters
        ----------
        prefit : bool
            Whether the model was fitted elsewhere.
        """
        self._form(self.transport, prefit=prefit)

    def _form(
        self, transport: TransportLike, loss: Loss = SQUARED_ERROR, *, prefit: bool
    ) -> ScoreForm:
        """Return the form that rows are scored in: the cross form where models are fitted here.

        That of a fitted model is the CPI form, for scores of single coordinates under a square of
        errors, and else LOCO.
        """
        form = self.form
        if prefit and form in (*CROSSED, "extrapolated"):
            raise ValueError(
                f"{argument('form', form)} needs two models fitted on disjoint rows, but "
                f"{argument('cv', 'prefit')} has one: use {argument('form', 'loco', 'cpi')}, or "
                "pass an unfitted model"
            )
        integration = self.quadrature
        design = resolve_transport(transport)
        design.check(transport_error=self.transport_error, integration=integration)
        if form == "auto" and prefit:
            return "cpi" if loss.is_square and not self.additive else "loco"
        return "cross" if form == "auto" or form == "extrapolated" else form

    def form_for(self, design: Transport, fits: Fits) -> ScoreForm:
        """Return the form for the loss of these fits, or raise if there is none."""
        loss = fits.loss
        reason = self.refuses(fits)
        if reason is not None:
            raise ValueError(reason)
        prefit = fits.prefit or not loss.has_generator
        if not loss.has_generator and self.form not in ("auto", "loco"):
            raise ValueError(
                f"{argument('loss', loss.name)} has no generator, so two models cannot be "
                f"scored together: use {argument('form', 'loco')} (the default here), not "
                f"{argument('form', self.form)}"
            )
        if not loss.is_square:
            if self.form in ("cpi", "calibrated"):
                raise ValueError(
                    f"{argument('form', self.form)} works with squared errors only, but "
                    f"{argument('loss', loss.name)} is not one: use 'cross' or 'loco', or "
                    f"{argument('loss', 'squared-error')} ('brier' for classes)"
                )
            if not design.any_loss:
                raise ValueError(
                    f"{argument('transport', design.name)} multiplies errors, which "
                    f"{argument('loss', loss.name)} does not have: use "
                    f"{argument('transport', 'gaussian')}, or {argument('loss', 'squared-error')} "
                    "('brier' for classes)"
                )
            if self.additive:
                raise ValueError(
                    "Shapley values of groups divide a variance, but "
                    f"{argument('loss', loss.name)} is none: use how='joint', or "
                    f"{argument('loss', 'squared-error')} ('brier' for classes)"
                )
        return self._form(design, loss, prefit=prefit)

    def refuses(self, fits: Fits) -> str | None:
        if fits.loss.quantile is None:
            return None
        return (
            f"{argument('loss', fits.loss.name)} targets a quantile, but DFI explains means: "
            "without a coordinate, the best prediction is the quantile of a mixture, not an "
            f"average of predictions. Use {argument('loss', 'squared-error')}, explain that part "
            f"of the distribution with the target dfi.Quantile({fits.loss.quantile:g}) and no "
            "loss, or compare with 'loco', this loss and a learner of the quantile"
        )

    def compute(self, fits: Fits) -> dict[str, MethodResult]:
        return {self.name: self.explain(fits).part}

    def join(self, diagnostics: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
        return {**joined_diagnostics(diagnostics), **joined_checks(diagnostics)}

    def plan(self, fits: Fits) -> Plan:
        """Return the plan for a table, or raise, before anything is fitted."""
        design = resolve_transport(self.transport)
        form = self.form_for(design, fits)
        blocks, groups = fits.data.blocks, fits.data.groups
        if self.additive:
            if groups is None or not fits.data.joint or form == "cpi":
                raise ValueError(
                    "additive=True gives Shapley values to groups that are units, in the cross "
                    f"or LOCO-type form: pass {argument('feature_groups', ...)} and "
                    f"{argument('units', 'groups')}, without {argument('form', 'cpi')}"
                )
            if form == "calibrated":
                raise ValueError(
                    f"{argument('form', 'calibrated')} has a factor for each unit, but Shapley "
                    f"values go along orders of several: use {argument('form', 'cross')} for them, "
                    "or joint scores"
                )
            groups = covering(groups)
            blocks = group_blocks(groups, fits.table.columns)
        columns = blocks.columns
        if form == "calibrated" and min(map(len, fits.repeats)) < 2:
            raise ValueError(
                f"{argument('form', 'calibrated')} takes the factor of a fold's rows from the "
                "other folds of the same split, but cv has a split of one fold: pass a number of "
                f"folds, {argument('cv', 5)}, or use {argument('form', 'cross')}"
            )
        extrapolates = self.form == "extrapolated" or (
            self.form == "auto" and fits.extrapolates and not self.additive and form in CROSSED
        )
        if form in CROSSED:
            fits.require_halves()
        population, large = fits.population, fits.is_large
        design.check_columns(columns)
        design.check_units(columns, fits.constant, self.transport_error)
        design.check_source(population)
        design.check_size(fits.constant, population.n_rows)
        choice = TransportChoice(design)
        if design.chooses:
            choice = design.choose(*_rows_of(population, fits), columns, fits.child("auto"))
        several = blocks.targets is not None or self.additive
        if choice.reasons:
            design = choice.design
            bends_sets = several and not design.straight
            if fits.data.joint and (bends_sets or not design.disentangles_units):
                why = f"groups are units, which {argument('transport', design.name)} does not take"
                choice = replace(choice, design=Gaussian(), reasons=(*choice.reasons, why))
                design = choice.design
            self.form_for(design, fits)
            design.check_units(columns, fits.constant, self.transport_error)
        if fits.data.joint and not design.disentangles_units:
            raise ValueError(
                f"{argument('units', 'groups')} needs a linear map between groups, which "
                f"{argument('transport', design.name)} is not: use "
                f"{argument('transport', 'gaussian')}, or leave {argument('units', 'columns')}, "
                f"which adds up columns{worded(' by result.group()', '')}"
            )
        if several and not design.straight:
            raise ValueError(
                f"{argument('transport', design.name)} does not support overlapping groups or "
                f"Shapley values of groups: use {argument('transport', 'gaussian')}, or disjoint "
                "groups with joint scores"
            )
        source = population if large and design.straight else None
        rows = row_plan(fits, design, self.explain_rows, self.max_seconds)
        return Plan(choice, form, extrapolates, blocks, groups, rows, source)

    def prepared(
        self, fits: Fits, ahead: Plan, models: tuple[FoldModels, ...], advance: Advance | None
    ) -> tuple[FittedTransport, Task, str]:
        """Return the transport, its scoring task, and why it is not the planned one."""
        design, blocks, population = ahead.choice.design, ahead.blocks, fits.population

        def fit(chosen: Transport) -> FittedTransport:
            every = blocks.targets is not None or self.additive
            # an outcome has no part in it: classes share one, with all that is kept of its law
            kept: dict[object, FittedTransport] = fits.cache.shared if fits.member else {}
            units = tuple((column.name, column.positions) for column in blocks.columns)
            key = repr(chosen), units, every
            if key not in kept:
                layout = Layout(fits.constant, blocks.columns, single=every)
                kept[key] = chosen.fit_source(population, layout)
            return kept[key]

        task = Task(
            fits,
            models,
            blocks,
            ahead.form,
            self.quadrature,
            self.transport_error,
            advance,
            additive=self.additive,
            readings=_readings(fits),
            population=ahead.source,
        )
        transport, instead = keeping_variance(fit(design), task, fit)
        return transport, task, instead

    def explain(self, fits: Fits, begun: Begun | None = None) -> Explained:
        """Fit the transport on the explained rows and score them.

        The algorithm of the paper: transport, line means of the held-out rows' models along latent
        lines, latent influence values, their attribution, the transport's own error. Folds that
        have been scored (``begun``) are not scored again.
        """
        weights = fits.weights
        ahead = self.plan(fits) if begun is None else begun.ahead
        choice, form, extrapolates = ahead.choice, ahead.form, ahead.extrapolates
        design, blocks, groups, plan = choice.design, ahead.blocks, ahead.groups, ahead.rows
        models = fits.halves if form in CROSSED else fits.full
        smaller = fits.quarters if extrapolates else ()
        total = sum(len(fold.test) for fold in (*models, *smaller))
        sampled: Sampled | None = None
        watched = fits.workers.progress, "explaining rows", total, fits.workers.started
        with telling_bar(*watched) as bar:
            if begun is None:
                transport, task, instead = self.prepared(fits, ahead, models, bar.advance)
            else:
                transport, instead = begun.transport, begun.instead
                task = replace(begun.task, fits=fits, folds=models, advance=bar.advance)
            if plan is None:
                if bar.bar is not None and not fits.member and form != "calibrated":
                    took = time.monotonic() - fits.workers.started
                    bar.foretell(took + seconds_ahead(transport, task, (*models, *smaller)))
                scores = _scored(transport, task)
            else:
                of_units = transport.score_membership(task)[:, : blocks.count]
                tell = _leading(task, bar, len(fits.repeats))
                scores, task, sampled = sampled_scores(transport, task, plan, of_units, tell)
                models = restricted(models, scores.rows)
                smaller = restricted(smaller, scores.rows)
            of_models = scores
            if extrapolates:
                lesser = replace(task, folds=smaller, transport_error="ignore")
                of_smaller = transport.score(lesser)
                scores = of_models.extrapolated(of_smaller, weights.take(of_models.rows))
            membership = transport.score_membership(task)[:, : blocks.count]
            paired = form in CROSSED and plan is None
            splits = splits_needed(fits, scores, membership) if paired else 0
            parts: Parts | None = None
            if not splits and task.by_unit and task.fits.loss.has_generator:
                parts = explained_parts(replace(task, folds=models), transport, of_models)
                if extrapolates:
                    smaller_parts = explained_parts(lesser, transport, of_smaller, of_models)
                    parts = parts.extrapolated(smaller_parts)
            if parts is not None:
                # that of the larger models, once: it does not depend on how much they have learned
                parts = parts.with_error(of_models, weights.take(of_models.rows))
        if splits:
            further = fits.grown(splits)
            return self.explain(further, Begun(ahead, transport, task, instead))
        if self.additive and parts is not None:
            scores = parts.as_scores(scores)
        totals = loss_totals(fits, models, form)
        if extrapolates:
            totals[:, 1] = 2.0 * totals[:, 1] - loss_totals(fits, smaller, form)[:, 1]
        stretch: Stretch | None = None
        if self.form == "auto" and form == "cpi":
            explained, predicted = scores.predictions[0]
            stretch = Stretch.of(task.y[explained], predicted, weights.take(explained))
            scores = scores.stretched(stretch, weights.take(scores.rows))
            totals[:, 1] = stretch.of_scores(totals[:, 1], weights.take(scores.rows))
            parts = None if parts is None else parts.stretched(stretch, weights.take(scores.rows))
        specification = {
            **design.specification(),
            "reference": transport.reference.kind,
            "form": "extrapolated" if extrapolates else form,
            "transport_error": self.transport_error,
            "unit_scores": _unit_scores(design, blocks, additive=self.additive),
        }
        if sampled is not None:
            specification |= sampled.as_dict()
        if fits.data.joint:
            specification["group_scores"] = "shapley" if self.additive else "joint"
        diagnostics, findings, checked = explain_diagnostics(
            transport,
            scores,
            totals,
            task,
            diagnose=self.diagnose,
            say=not choice.reasons,
            instead=instead,
        )
        if choice.reasons:
            diagnostics["auto"] = choice.as_dict()
            findings.append(choice.finding())
        members = unit_members(fits.data, groups if fits.data.joint else None)
        if members:
            diagnostics["units"] = members
        if extrapolates:
            curves, finding = learned(of_models, of_smaller, membership, task)
            diagnostics |= curves
            findings.append(finding)
        calibrated = calibration_of(scores, membership, task)
        if calibrated is not None:
            diagnostics["calibration"] = calibrated
            findings.append(calibration(calibrated))
        findings += fits.outcome.findings
        of_rows = None if parts is None else parts.attributed
        findings += limits_of_rows(transport, scores, membership, of_rows, task, checked)
        warn_of(findings)
        diagnostics["findings"] = [finding.as_dict() for finding in findings]
        if stretch is not None:
            diagnostics["stretch"] = stretch.as_dict()
        facts = {"diagnostics": diagnostics, "specification": specification, "totals": totals}
        part = _part(task, transport, scores, membership, parts, facts)
        return Explained(part, models, transport, scores, membership)


def _readings(fits: Fits) -> LineModels:
    """Return where line models are kept; scores of folds too where rows may be split again."""
    again = fits.most_splits > len(fits.halvings) and not fits.member
    return LineModels(_scored={}) if again else LineModels()


def _scored(transport: FittedTransport, task: Task) -> Scores:
    """Score rows; report a model that fails along latent lines but not at the rows."""
    try:
        return transport.score(task)
    except UnpredictedError as error:
        for fold in task.folds:
            for predictor in fold.predictors:
                predictor(task.matrix[fold.test])
        instead = (
            f"{argument('transport', 'copula')}, which keeps every column within the values that "
            "were seen, or "
        )
        raise UnsuitableTransportError(
            f"{argument('transport', transport.design.name)} evaluates the model at new rows, "
            f"where it returns no finite prediction ({error}). Use "
            f"{'' if transport.design.name == 'copula' else instead}a model that accepts any "
            "number (a logarithm does not)"
        ) from error


def _rows_of(population: RowSource, fits: Fits) -> tuple[Floats, Weights, Bools]:
    """Return rows of a population to choose a transport by: all of them, or of many a sample."""
    places = np.arange(population.n_rows)
    if fits.is_large:
        places = sampled_places(population.n_rows, source.LARGE_ROWS, fits.child("auto"))
    return *population.take(places), fits.constant


def _leading(task: Task, bar: Bar, repeats: int) -> Told:
    """Return a callback that shows the leading scores next to a progress bar."""

    def tell(running: Running, wanted: int) -> None:
        means, errors = running.mean[:-1], np.sqrt(running.variance[:-1])
        first = np.argsort(-means)[:LEADING]
        text = ", ".join(f"{task.names[k]} {means[k]:.3g} ± {errors[k]:.1g}" for k in first)
        bar.tell(text, wanted * repeats)

    return tell


def _part(
    task: Task,
    transport: FittedTransport,
    scores: Scores,
    membership: Floats,
    parts: Parts | None,
    facts: dict[str, Any],
) -> MethodResult:
    """Sum the columns of each unit, in both spaces."""
    fits = task.fits
    owned = membership.sum(axis=0)
    degenerate = owned == 0
    unrelated = np.zeros(len(owned), dtype=np.bool_)
    if scores.unread is not None:
        unrelated = ~degenerate & ((~scores.unread).astype(np.float64) @ membership == 0)
    shared: dict[str, Any] = {
        "rows": scores.rows,
        "names": task.names[: membership.shape[1]],
        "degenerate": degenerate,
        "unrelated": unrelated,
        "undetected": _undetected(transport, scores, task)[: len(owned)] * unrelated,
        "components": transport.unit_components(task.blocks.columns),
        "quality": judged(fits, averaged(scores.predictions)),
        **facts,
    }
    weights = fits.weights.take(scores.rows)
    of_units = None if parts is None else parts.of_units(membership, weights, fits.halvings)

    def spaces(influence: Floats, by_repeat: Floats, gain: Floats | None) -> dict[str, Any]:
        values, repeats = influence @ membership, by_repeat @ membership
        variance = split_variance(repeats, fits.halvings)
        spread = np.sqrt(len(repeats) * variance) if len(repeats) > 1 else None
        if gain is not None:
            variance = variance + (CURVE_ERROR * (gain @ membership)) ** 2
        return {"influence": widened(values, variance, weights), "spread": spread}

    gains = scores.gain or (None, None)
    latent = MethodResult(
        space="latent",
        **spaces(scores.latent, scores.latent_by_repeat, gains[0]),
        parts=None if of_units is None else of_units.latent,
        **shared,
    )
    return MethodResult(
        **spaces(scores.attributed, scores.attributed_by_repeat, gains[1]),
        latent=latent,
        parts=None if of_units is None else of_units.attributed,
        # scores of groups that share blocks stay in the latent space
        attribution=(
            membership.T @ scores.attribution @ membership / np.maximum(owned, 1)
            if task.by_unit
            else None
        ),
        **shared,
    )


def _undetected(transport: FittedTransport, scored: Scores, task: Task) -> Floats:
    """Return the score that each unit may have through dependence that the tests missed.

    Half of the bound on the squared multiple correlation of its component with the rest, times
    the sum of all scores (:mod:`dfi._estimates.components`).
    """
    columns, targets = task.blocks.columns, task.blocks.targets
    bound = np.zeros(len(columns))
    if transport.missed is not None:
        np.maximum.at(bound, transport.owner(columns), transport.missed)
    if targets is not None:
        bound = np.array([bound[list(target.units)].max(initial=0.0) for target in targets])
    total = max(0.0, float(scored.latent_by_repeat.mean(axis=0).sum()))
    return np.asarray(0.5 * total * bound)


def splits_needed(fits: Fits, scores: Scores, membership: Floats) -> int:
    """Return how often the rows are to be split, where more often than they are; else 0."""
    if fits.most_splits <= len(fits.halvings) or fits.member:
        return 0
    weights = fits.weights.take(scores.rows)
    values = scores.attributed @ membership
    gain = 0.0 if scores.gain is None else CURVE_ERROR * (scores.gain[1] @ membership)
    error = weights.standard_error(values) ** 2 + gain**2
    variance = split_variance(scores.attributed_by_repeat @ membership, fits.halvings)
    positive = np.maximum(weights.mean(values), 0.0)
    counted = (positive > COUNTED * positive.sum()) & (error > 0)
    here, most = len(fits.halvings), fits.most_splits
    return number_of_splits(variance[counted], error[counted], here, most)


def number_of_splits(variance: Floats, error: Floats, splits: int, most: int) -> int:
    r"""Return how many splits the scores need; 0 where so many are enough.

    With :math:`v` the variance that ``S`` splits add to a score
    (:func:`~dfi._models.crossfit.split_variance`) and :math:`e^2` what else its squared standard
    error holds, :math:`S v / (q e^2)` splits leave a variance of :math:`q e^2`, ``q`` =
    :data:`SPLIT_SHARE`. The score that needs most of them decides.
    """
    needed = splits * float(np.max(variance / error, initial=0.0)) / SPLIT_SHARE
    return 0 if needed <= splits else int(min(np.ceil(needed), most))


def widened(influence: Floats, variance: Floats, weights: Weights) -> Floats:
    r"""Return influence values stretched about their mean, to add this to :math:`se^2`.

    .. math:: se^2 = \frac{sd(u)^2}{n} + v.
    """
    mean, error = weights.mean(influence), weights.standard_error(influence)
    ratio = np.divide(variance, error**2, out=np.zeros_like(error), where=error > 0)
    return np.asarray(mean + (influence - mean) * np.sqrt(1.0 + ratio))


def _unit_scores(design: Transport, blocks: Blocks, *, additive: bool) -> str:
    """Say how a unit of several columns is scored."""
    if additive:
        return "Shapley values" + (
            "" if blocks.targets is None else ", shared columns divided evenly between groups"
        )
    if blocks.targets is not None:
        return "joint, groups overlap: latent scores, which are not attributed"
    if design.disentangles_units:
        return "joint"
    return "sum over columns"
