"""The relation of one table under the law of another: scores that no single table has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, cast

import numpy as np

from dfi._data import source
from dfi._diagnosis.fidelity import keeping_variance
from dfi._parameters import argument
from dfi._scoring.forms import CROSSED, ScoreForm
from dfi._scoring.scores import common_gain, gained_rows, pool
from dfi._scoring.swapped import Corrected, Side, corrected
from dfi._scoring.task import Task
from dfi.transports import resolve_transport
from dfi.transports.base import Transport, TransportChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.columns import Column
    from dfi._data.table import Table
    from dfi._data.weights import Weights
    from dfi._models.crossfit import FoldModels
    from dfi._models.fits import Fits
    from dfi._types import Floats, Ints
    from dfi.methods.disentangled import Disentangled
    from dfi.transports.blocks import BlockTransport
    from dfi.transports.straight import StraightTransport

TRANSPORTS = ("gaussian",)
"""Transports whose law and lines are those of a table alone, whatever rows are moved along them."""


@dataclass(frozen=True)
class Both:
    """Influence values of some rows by unit, in both spaces, (n, units)."""

    latent: Floats
    attributed: Floats

    def __add__(self, other: Both) -> Both:
        return Both(self.latent + other.latent, self.attributed + other.attributed)

    def __sub__(self, other: Both) -> Both:
        return Both(self.latent - other.latent, self.attributed - other.attributed)

    def __rmul__(self, factor: float) -> Both:
        return Both(factor * self.latent, factor * self.attributed)


@dataclass(frozen=True)
class Swapped:
    r"""Influence values of :math:`\Phi(a, b)`, the law of table ``a`` with the relation of ``b``.

    Their mean over the rows of ``a`` is the score; that over the rows of ``b`` is 0.
    """

    law: Both
    relation: Both

    def __add__(self, other: Swapped) -> Swapped:
        return Swapped(self.law + other.law, self.relation + other.relation)


def why_not(method: Disentangled, before: Fits, after: Fits) -> str | None:
    """Return why this method cannot separate two tables' covariates and concepts, or None.

    It is about settings, sizes and columns; :mod:`dfi._change` asks whether rows overlap.
    """
    design = resolve_transport(method.transport)
    if design.name not in TRANSPORTS or design.epsilon > 0:
        return (
            "covariates and concept can be separated only under "
            f"{argument('transport', 'gaussian')}, and this is {design.label()!r}"
        )
    if method.additive:
        return "Shapley values of groups do not separate covariates and concept: use joint scores"
    for fits in (before, after):
        form = method.form_for(design, fits)
        if form not in ("cross", "loco"):
            return (
                f"{argument('form', form)} does not separate covariates and concept: use "
                f"{argument('form', 'cross')}, or 'loco' for a fitted model"
            )
        loss = fits.members[0].loss if fits.outcome.members else fits.loss
        if not loss.is_square:
            return (
                "covariates and concept are parts of squared errors, but "
                f"{argument('loss', fits.loss.name)} is another: use "
                f"{argument('loss', 'squared-error')} ('brier' for classes)"
            )
        if fits.scale == "margin":
            return "scale='margin' explains a working response, not the outcome"
        if fits.data.blocks.targets is not None:
            return "groups overlap, so covariates and concept cannot be separated"
        if fits.data.source is not None or fits.n_rows > source.LARGE_ROWS:
            return (
                f"one of the tables has {fits.n_rows} rows, but covariates and concept can be "
                f"separated for up to {source.LARGE_ROWS}: pass a random sample of the rows"
            )
        if fits.cluster is not None:
            return "these models are fitted on a cluster: use a local learner"
    if method.explain_rows not in ("default", None) or method.max_seconds is not None:
        names = f"{argument('explain_rows')} and {argument('max_seconds')}"
        return f"{names} excludes rows that covariates and concept need"
    return _unlike(before, after)


def _unlike(before: Fits, after: Fits) -> str | None:
    """Return which column is not the same thing in both tables, or None.

    Raise for numbers in one that are classes in the other: their scores have no difference.
    """
    first = dict(zip(before.table.names, before.table.columns, strict=True))
    for column in after.table.columns:
        other = first[column.name]
        kinds = [it.kind == "categorical" for it in (other, column)]
        if kinds[0] != kinds[1]:
            varies = [
                not fits.table.constant[list(it.positions)].all()
                for fits, it in ((before, other), (after, column))
            ]
            told = f"column {column.name!r} is {other.kind} before and {column.kind} after"
            if all(varies):
                raise ValueError(
                    f"{told}: its two scores mean different things. Give it the same dtype in "
                    "both tables"
                )
            return f"{told}: give it the same dtype in both tables"
        seen = [_seen(fits, it) for fits, it in ((before, other), (after, column))]
        for name, one, rest in (("before", seen[0], seen[1]), ("after", seen[1], seen[0])):
            new = [level for level in one if level not in rest]
            if new and column.kind == "categorical":
                what = "missing values" if new[0] is None else f"the level {new[0]!r}"
                return (
                    f"column {column.name!r} has {what} {name} alone, and models of the other "
                    "table have never seen it: pool rare levels, or drop those rows"
                )
            if new:
                return (
                    f"column {column.name!r} {new[0]} {name} alone, and models of the other table "
                    "have never seen that: leave it out, or drop those rows"
                )
    return None


def _seen(fits: Fits, column: Column) -> tuple[object, ...]:
    """Return what rows that count show of a column: its levels, or whether it varies, or misses."""
    rows = fits.rows[fits.weights.values[fits.rows] > 0]
    block = fits.table.matrix[rows][:, list(column.positions)]
    if column.kind == "categorical":
        codes = np.unique(column.decode(block))
        return tuple(column.levels[code] for code in codes)
    found: list[str] = []
    if np.ptp(block[:, 0]) > 0:
        found.append("varies")
    if column.fill is not None and block[:, 1].any():
        found.append("has missing values")
    return tuple(found)


def recoded(table: Table, like: Table) -> Floats:
    """Return the rows of a table as numbers in the columns and levels of another."""
    ours = [(c.name, c.kind, c.levels, c.positions, c.fill) for c in table.columns]
    theirs = [(c.name, c.kind, c.levels, c.positions, c.fill) for c in like.columns]
    if ours == theirs:
        return table.matrix
    return like.like(table.frame(table.matrix)).matrix


def swapped(
    method: Disentangled, law: Fits, relation: Fits, *, shared: Ints | None = None
) -> Swapped:
    r"""Return the influence values of :math:`\Phi(a, b)` for the units of two tables."""
    if relation.outcome.members:
        parts = [
            swapped(method, one, other, shared=shared)
            for one, other in zip(law.members, relation.members, strict=True)
        ]
        return sum(parts[1:], start=parts[0])
    return _Walk.of(method, law, relation, shared).swapped()


def _fitted(
    design: Transport, law: Fits, columns: Sequence[Column]
) -> StraightTransport | BlockTransport:
    rows = law.rows
    fitted = design.fit_matrix(
        law.table.matrix[rows], law.weights.take(rows), law.constant, columns=columns
    )
    return cast("StraightTransport | BlockTransport", fitted)


@dataclass(frozen=True)
class _Walk:
    """What is the same for models of every size: the law in the relation's columns, transport."""

    method: Disentangled
    law: Fits
    relation: Fits
    shared: Ints | None
    transport: StraightTransport | BlockTransport
    form: ScoreForm

    @classmethod
    def of(cls, method: Disentangled, law: Fits, relation: Fits, shared: Ints | None) -> _Walk:
        design = resolve_transport(method.transport)
        matrix = recoded(law.table, relation.table)
        table = replace(relation.table, matrix=matrix, present=None, known=None)
        law, rows = replace(law, data=replace(law.data, table=table)), law.rows
        columns = relation.data.blocks.columns
        choice = TransportChoice(design)
        if design.chooses:
            choice = design.choose(
                matrix[rows], law.weights.take(rows), law.constant, columns, law.child("auto")
            )
        transport = _fitted(choice.design, law, columns)
        form = method.form_for(choice.design, relation)
        return cls(method, law, relation, shared, transport, form)

    def _keeping_variance(self, models: Sequence[FoldModels]) -> _Walk:
        """Return the same where the other table's predictions keep their variance, as for one."""
        columns = self.relation.data.blocks.columns
        found, _ = keeping_variance(
            self.transport,
            self._task(self._asked(models), aware=False),
            lambda design: _fitted(design, self.law, columns),
        )
        return replace(self, transport=found)

    def swapped(self) -> Swapped:
        fits, method = self.relation, self.method
        crossed = self.form in CROSSED
        models = fits.halves if crossed else fits.full
        kept = self._keeping_variance(models)
        found = kept._of_models(models, aware=True)
        extrapolates = method.form == "extrapolated" or (
            method.form == "auto" and fits.extrapolates and crossed
        )
        if not extrapolates:
            return found[0]
        smaller = kept._of_models(fits.quarters, aware=False)[0]
        return _extrapolated(
            *found, smaller, self.law.weights.take(self.law.rows), fits.weights.take(fits.rows)
        )

    def _of_models(self, models: Sequence[FoldModels], *, aware: bool) -> tuple[Swapped, Swapped]:
        """Return the influence values by models of one size, and with the transport as known."""
        law, relation, transport = self.law, self.relation, self.transport
        folds = self._asked(models)
        task = self._task(folds, aware=aware)
        scores = transport.plain_scores(task)
        if scores.n_nodes is not None:
            task = replace(task, options=replace(task.options, nodes=scores.n_nodes))
        by_fold = self._corrected(task, models)
        mass = law.weights.values
        _, on_own, _ = pool(models, [part.relation for part in by_fold], relation.weights.values)
        pooled = Corrected(
            pool(folds, [part.law for part in by_fold], mass)[1],
            on_own,
            _pooled(folds, [part.moved for part in by_fold], mass),
            _pooled(folds, [part.gaps for part in by_fold], mass),
        )
        known = transport.rescored(scores, pooled, task)
        found = transport.finished(known, task)
        membership = transport.score_membership(task)[:, : relation.data.blocks.count]
        noise = Both(on_own @ membership, on_own @ found.attribution.T @ membership)
        return (
            Swapped(Both(found.latent @ membership, found.attributed @ membership), noise),
            Swapped(Both(known.latent @ membership, known.attributed @ membership), noise),
        )

    def _task(self, folds: Sequence[FoldModels], *, aware: bool) -> Task:
        law, relation, method = self.law, self.relation, self.method
        # no outcome of these rows belongs to the relation; quadrature is checked by it alone
        outcome = replace(law.outcome, values=_mean_prediction(folds, law.table))
        return Task(
            replace(law, data=replace(law.data, outcome=outcome), loss=relation.loss),
            folds,
            replace(relation.data.blocks, targets=None),
            self.form,
            method.quadrature,
            method.transport_error if aware else "ignore",
        )

    def _asked(self, models: Sequence[FoldModels]) -> list[FoldModels]:
        dealt = self._dealt(models)
        return [replace(fold, test=test) for fold, test in zip(models, dealt, strict=True)]

    def _dealt(self, models: Sequence[FoldModels]) -> list[Ints]:
        """Return the rows of ``a`` that each fold's models predict: in a split, each once."""
        rows = self.law.rows
        found: list[Ints] = [rows[:0]] * len(models)
        for repeat in sorted({fold.repeat for fold in models}):
            numbers = [k for k, fold in enumerate(models) if fold.repeat == repeat]
            size = np.array([len(models[k].test) for k in numbers], dtype=np.float64)
            ends = np.round(np.cumsum(size / size.sum()) * len(rows)).astype(np.intp)
            generator = np.random.default_rng(self.law.child("change", repeat))
            which = np.empty(len(rows), dtype=np.intp)
            which[generator.permutation(len(rows))] = np.searchsorted(
                ends, np.arange(len(rows)), side="right"
            )
            if self.shared is not None:
                held = np.full(self.relation.table.n_rows, -1, dtype=np.intp)
                for place, k in enumerate(numbers):
                    held[models[k].test] = place
                own = np.where(self.shared >= 0, held[self.shared], -1)
                which = np.where(own >= 0, own, which)
            for place, k in enumerate(numbers):
                found[k] = rows[which == place]
        return found

    def _corrected(self, task: Task, models: Sequence[FoldModels]) -> list[Corrected]:
        relation = self.relation
        center, scale = self._scale()
        sides: list[list[Side]] = []
        for fold, own in zip(task.folds, models, strict=True):
            pair: list[Side] = []
            for matrix, rows, weights in (
                (task.matrix, fold.test, self.law.weights),
                (relation.table.matrix, own.test, relation.weights),
            ):
                seed = relation.child("change", len(sides), len(pair))
                changes = self.transport.changes(fold, task, matrix[rows], seed)
                points = (matrix[rows] - center) * scale
                pair.append(Side(points, weights.values[rows], changes))
            sides.append(pair)
        found: dict[int, Corrected] = {}
        for repeat in sorted({fold.repeat for fold in models}):
            numbers = [k for k, fold in enumerate(models) if fold.repeat == repeat]
            parts = corrected(
                [sides[k][0] for k in numbers],
                [sides[k][1] for k in numbers],
                [relation.data.y[models[k].test] for k in numbers],
            )
            found.update(zip(numbers, parts, strict=True))
        return [found[k] for k in range(len(models))]

    def _scale(self) -> tuple[Floats, Floats]:
        matrix = self.relation.table.matrix[self.relation.rows]
        deviation = matrix.std(axis=0)
        return matrix.mean(axis=0), np.divide(
            1.0, deviation, out=np.zeros_like(deviation), where=~self.relation.constant
        )


def _extrapolated(
    aware: Swapped, known: Swapped, smaller: Swapped, of_law: Weights, of_relation: Weights
) -> Swapped:
    """Extrapolate as for one table; the transport's terms are those of the larger models."""
    sides = (
        (aware.law, known.law, smaller.law, of_law),
        (aware.relation, known.relation, smaller.relation, of_relation),
    )
    rate, influence = common_gain(
        [(larger.latent, before.latent, weights) for _, larger, before, weights in sides]
    )

    def moved(space: Callable[[Both], Floats]) -> list[Floats]:
        mean = np.sum([weights.mean(space(it)) for it, _, _, weights in sides], axis=0)
        return [
            space(it) + gained_rows(space(it), space(larger), space(before), rate, own, mean)
            for (it, larger, before, _), own in zip(sides, influence, strict=True)
        ]

    latent, attributed = moved(attrgetter("latent")), moved(attrgetter("attributed"))
    return Swapped(Both(latent[0], attributed[0]), Both(latent[1], attributed[1]))


def _pooled(folds: Sequence[FoldModels], parts: Sequence[Floats], mass: Floats) -> Floats:
    """Return values of two models (2, n, units), averaged over repeats row by row."""
    return np.stack([pool(folds, [part[k] for part in parts], mass)[1] for k in (0, 1)])


def _mean_prediction(folds: Sequence[FoldModels], table: Table) -> Floats:
    total, count = np.zeros(table.n_rows), np.zeros(table.n_rows)
    for fold in folds:
        for predictor in fold.predictors:
            total[fold.test] += predictor(table.matrix[fold.test])
            count[fold.test] += 1
    return np.divide(total, count, out=np.zeros_like(total), where=count > 0)
