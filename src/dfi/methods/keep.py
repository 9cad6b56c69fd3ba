r"""Which units are enough: the order of leaving them out, and the loss without them.

With :math:`\mu_S = E[Y \mid X_S]` and :math:`R` the risk, a set ``S`` of units loses

.. math:: \lambda_S = \frac{R(\mu_S) - R(\mu)}{R(\bar y) - R(\mu)}

of what all units explain together. The rows are split once. **On one half** units are left out one
by one, always the one whose loss is least among refitted models. **On the other half** the sets of
this order are measured, by models refitted on halves of all rows but those of the fold,

.. math:: u_i = \ell(y_i; a_S, b_S) - \ell(y_i; a, b),

with the loss of two models of disjoint rows, :math:`(y - a)(y - b)` for squared error: noise of the
fits, of which a larger model has more, has mean 0 in it, where a difference of single models'
losses would let small sets look better than they are.

**The level.** Losses grow along the order. Sets are tested from the largest down,
:math:`\lambda_S \ge 1 - \text{share}` at level ``1 - level`` each, and the first test that does not
reject ends it. To choose a set that loses more, the test of the largest such set must reject
falsely: no correction for many tests is needed, as the order is of other rows. A poor order makes
the set larger, never the statement false.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from joblib import delayed

from dfi._data.dependence import Clusters, Ordered
from dfi._data.folds import Fold, split_halves
from dfi._models.fits import Fits, once
from dfi._models.parallel import gathered
from dfi._models.predictor import predict_once
from dfi._models.submodels import fit_on_columns, held_out, submodel_learner
from dfi._parameters import argument
from dfi._progress import progress_bar
from dfi.inference.influence import InfluenceRows
from dfi.inference.intervals import wald_interval
from dfi.inference.shares import is_clear

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from dfi._types import Estimator, Floats, Ints

ORDER_ROWS = 5000
"""Most rows on which the order is chosen: it need not be the best."""

MOST_SETS = 30
"""Most sets that are measured: with more units, only some sizes."""


@dataclass(frozen=True)
class Measured:
    """A set of units, the share of the signal it loses, and an upper bound."""

    kept: tuple[int, ...]
    lost: float
    se: float
    at_most: float


@dataclass(frozen=True)
class KeepPath:
    """The sets that were measured, from the largest on, and how.

    ``order`` has the units that vary, those to go first last; ``chosen`` is the place of the
    smallest set that is enough, None where all units are needed, and ``clear`` whether there is any
    signal to express.
    """

    names: tuple[str, ...]
    order: tuple[int, ...]
    constant: tuple[int, ...]
    sets: tuple[Measured, ...]
    chosen: int | None
    clear: bool
    rows: str
    dependence: str


def refuse_keep(fits: Fits) -> None:
    """Raise if smaller models cannot be fitted, or their losses cannot be compared."""
    if fits.prefit:
        raise ValueError(
            f"keep refits the model on fewer features, but {argument('cv', 'prefit')} only has a "
            f"fitted one: explain with an unfitted learner and {argument('cv', 5)}"
        )
    if fits.cluster is not None:
        raise ValueError(
            "keep refits models locally, but this one is fitted on a cluster: explain a sample "
            "of the rows with a scikit-learn learner"
        )
    dependence = fits.weights.dependence
    if isinstance(dependence, Clusters) and dependence.count(fits.weights.counted) < 4:
        raise ValueError(
            "keep chooses on half of the clusters and measures on the others: it needs "
            f"four clusters or more ({argument('clusters')})"
        )
    if not fits.loss.has_generator:
        raise ValueError(
            f"keep needs the loss of two models, but {argument('loss', fits.loss.name)} has none: "
            f"explain with {argument('loss', 'squared-error')} ('brier' for classes)"
        )


def keep_path(fits: Fits, share: float, level: float) -> KeepPath:
    """Choose an order on half of the rows, and measure its sets on the others until one fails."""
    refuse_keep(fits)
    names, units = _units(fits)
    order = _order(fits, units)
    measure = _measure(fits)
    clear = is_clear(measure.influence().summed([[1.0, 0.0]]))
    sets: list[Measured] = []
    chosen = None
    sizes = _sizes(len(order), least=0 if units.base else 1) if clear else []
    workers = fits.workers
    with progress_bar(workers.progress, "measuring sets", len(sizes), workers.started) as advance:
        for size in sizes:
            kept = order[:size]
            sets.append(measure.set_of(kept, units.columns(kept), level))
            if sets[-1].at_most > 1.0 - share:
                break
            chosen = len(sets) - 1
            if advance is not None:
                advance(1)
    when = "earlier" if isinstance(fits.weights.dependence, Ordered) else "random"
    return KeepPath(
        names,
        tuple(order),
        tuple(k for k in range(len(names)) if k not in order),
        tuple(sets),
        chosen,
        clear,
        f"the order was chosen on {len(fits.rows) - len(measure.rows):,} {when} rows, the losses "
        f"measured on the other {len(measure.rows):,}",
        measure.influence().words,
    )


@dataclass(frozen=True)
class _Sets:
    """The columns of each unit, None where it does not vary, and those of no unit."""

    of: tuple[tuple[int, ...] | None, ...]
    base: tuple[int, ...]

    @property
    def varying(self) -> list[int]:
        return [k for k, columns in enumerate(self.of) if columns is not None]

    def columns(self, kept: Collection[int]) -> tuple[int, ...]:
        return tuple(sorted({*self.base, *(c for unit in kept for c in self.of[unit] or ())}))


def _units(fits: Fits) -> tuple[tuple[str, ...], _Sets]:
    """Return the names of the result's units, and the columns of those that vary."""
    table = fits.table
    names = table.names
    columns: Sequence[tuple[int, ...]] = [(j,) for j in range(len(names))]
    if fits.data.joint:
        names, columns = fits.units.names, fits.units.columns
    inside = {c for unit in columns for c in unit}
    varies = tuple(
        None if all(fits.constant[list(table.columns[c].positions)].all() for c in unit) else unit
        for unit in columns
    )
    return names, _Sets(varies, tuple(c for c in range(len(table.columns)) if c not in inside))


def _two_parts(fits: Fits) -> tuple[Ints, Ints]:
    """Return rows for the order and rows for the losses: along time the later ones."""
    if isinstance(fits.weights.dependence, Ordered):
        middle = len(fits.rows) // 2
        return fits.rows[:middle], fits.rows[middle:]
    return fits.split_rows("keep", stratify=True)


def _capped(rows: Ints, fits: Fits) -> Ints:
    rows = fits.data.fitting(rows)
    if len(rows) <= ORDER_ROWS or isinstance(fits.weights.dependence, Ordered):
        return rows
    generator = np.random.default_rng(fits.child("keep", "sample"))
    return np.sort(generator.choice(rows, ORDER_ROWS, replace=False))


def _sizes(count: int, least: int) -> list[int]:
    """Return the sizes of the sets that are measured, from the largest on."""
    sizes = np.arange(least, count)
    if len(sizes) > MOST_SETS:
        sizes = np.unique(np.round(np.geomspace(max(least, 1), count - 1, MOST_SETS)).astype(int))
    return [int(size) for size in sizes[::-1]]


@dataclass(frozen=True)
class _Task:
    """What is fitted at once: an outcome, or all classes of a learner that tells them together."""

    fits: Fits
    members: tuple[Fits, ...]

    def guarded(self, predictions: Floats) -> list[Floats]:
        """Return the predictions of each member within the domain of its loss."""
        columns = predictions.reshape(len(predictions), -1).T
        return [member.guarded(p) for member, p in zip(self.members, columns, strict=True)]


def _tasks(fits: Fits) -> list[_Task]:
    members = fits.members
    if not members:
        return [_Task(fits, (fits,))]
    if members[0].whole is not None:
        return [_Task(fits, members)]
    return [_Task(member, (member,)) for member in members]


@once
def _order(fits: Fits, units: _Sets) -> list[int]:
    """Return the units that vary, the last to be left out first.

    Losses of earlier, larger sets are taken for least ones of the present set, so only units
    that seem to lose least are refitted again: about two fits a unit and fold, where all would
    be as many as units. A copy of a unit that has just gone is found to matter now.
    """
    risk = _risk(fits, _capped(_two_parts(fits)[0], fits))
    left = units.varying
    last: list[int] = []
    gains: dict[int, float] = {}
    workers = fits.workers
    label = "choosing the order"
    with progress_bar(workers.progress, label, len(left), workers.started) as advance:
        least = 0 if units.base else 1
        whole, *without = risk(
            [units.columns(left), *(units.columns(_less(left, unit)) for unit in left)]
        )
        gains = {unit: lost - whole for unit, lost in zip(left, without, strict=True)}
        fresh, candidates = set(left), dict(zip(left, without, strict=True))
        while len(left) > least:
            unit = min(left, key=lambda u: (gains[u], u))
            if unit not in fresh:
                (candidates[unit],) = risk([units.columns(_less(left, unit))])
                gains[unit] = candidates[unit] - whole
                fresh.add(unit)
                continue
            left.remove(unit)
            last.append(unit)
            whole, fresh = candidates[unit], set()
            if advance is not None:
                advance(1)
    return [*left, *last[::-1]]


def _less(units: Sequence[int], unit: int) -> list[int]:
    return [other for other in units if other != unit]


def _risk(fits: Fits, rows: Ints) -> Callable[[Sequence[tuple[int, ...]]], list[float]]:
    """Return the mean held-out loss within some rows as a function of columns."""
    folds = _inner_folds(fits, rows)
    tasks = _tasks(fits)
    weights = fits.data.fit_weights
    learners = [
        [
            _submodel(task.fits, fold.train, fits.child("keep", "order", k))
            for k, fold in enumerate(folds)
        ]
        for task in tasks
    ]

    def risk(sets: Sequence[tuple[int, ...]]) -> list[float]:
        keys = list(product(range(len(sets)), range(len(tasks)), range(len(folds))))
        jobs = (
            delayed(held_out)(
                learners[t][k], fits.table, sets[s], tasks[t].fits.outcome, weights, folds[k],
                fits.child("keep", "order", k),
            )
            for s, t, k in keys
        )  # fmt: skip
        total = np.zeros(len(sets))
        found = gathered(jobs, fits.workers.n_jobs, None)
        for (s, t, k), predicted in zip(keys, found, strict=True):
            test = folds[k].test
            mass = fits.weights.values[test]
            for member, p in zip(tasks[t].members, tasks[t].guarded(predicted), strict=True):
                total[s] += mass @ member.loss.of(member.outcome.values[test], p)
        return [float(value) for value in total]

    return risk


def _submodel(fits: Fits, rows: Ints, seed: np.random.SeedSequence) -> Estimator:
    """Return the learner of smaller sets: a stack keeps the weights that it has with all."""
    every, weights = range(len(fits.table.columns)), fits.data.fit_weights
    full = fit_on_columns(fits.learner, fits.table, every, fits.outcome, weights, rows, seed)
    return submodel_learner(fits.learner, getattr(full, "model", None))


def _inner_folds(fits: Fits, rows: Ints) -> list[Fold]:
    """Return four folds of rows, groups whole; along time the earlier predict the later."""
    if isinstance(fits.weights.dependence, Ordered):
        middle = len(rows) // 2
        return [Fold(rows[:middle], rows[middle:])]
    classes = fits.outcome.n_classes

    def halved(part: Ints, name: str) -> tuple[Ints, Ints]:
        return split_halves(
            part, fits.child("keep", name), y=fits.data.y if classes else None,
            groups=fits.data.row_groups, n_classes=max(2, classes),
        )  # fmt: skip

    quarters = [q for k, half in enumerate(halved(rows, "halves")) for q in halved(half, f"{k}")]
    return [Fold(np.setdiff1d(rows, quarter), quarter) for quarter in quarters]


@dataclass(frozen=True, eq=False)
class _Measure:
    """Models of disjoint halves with all units, and what they lose on the rows that measure."""

    fits: Fits
    rows: Ints
    tasks: list[_Task]
    parts: list[_Part]
    explained: Floats
    full: Floats
    known: dict[tuple[int, ...], Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, fits: Fits, rows: Ints) -> _Measure:
        tasks = _tasks(fits)
        parts = [part for k, task in enumerate(tasks) for part in _parts(task, k, rows)]
        full, null = np.zeros((2, fits.table.n_rows))
        mass = fits.mass(rows)
        for part in parts:
            for member, values in zip(tasks[part.task].members, part.full, strict=True):
                y = member.outcome.values
                full[part.test] += member.loss.of_two(y[part.test], *values)
        for member in (member for task in tasks for member in task.members):
            y = member.outcome.values[rows]
            constant = np.full(len(y), member.loss.best_constant(y, mass))
            null[rows] += member.loss.of(y, constant)
        return cls(fits, rows, tasks, parts, (null - full)[rows], full[rows])

    def influence(self, lost: Floats | None = None) -> InfluenceRows:
        """Return the explained loss and the lost part as influence values."""
        values = np.column_stack([self.explained, self.explained * 0.0 if lost is None else lost])
        data = self.fits.data
        return InfluenceRows(values, self.fits.weights.take(self.rows), data.places_of(self.rows))

    def set_of(self, kept: Sequence[int], columns: tuple[int, ...], level: float) -> Measured:
        if columns not in self.known:
            self.known[columns] = self._losses(columns)
        influence = self.influence(self.known[columns] - self.full)
        explained, amount = influence.mean
        value = float(amount / explained)
        ratio = influence.summed([[-value / explained, 1.0 / explained]])
        error = float(ratio.se[0])
        _, high = wald_interval(
            [value], ratio.se, level=level, alternative="less", skewness=ratio.skewness,
            degrees=ratio.degrees,
        )  # fmt: skip
        # a copy that goes changes no prediction
        at_most = float(high[0]) if error > 0 else max(value, 0.0)
        return Measured(tuple(kept), value, error, at_most)

    def _losses(self, columns: tuple[int, ...]) -> Floats:
        """Refit on some columns, and return what the two models of each row lose."""
        fits = self.fits
        jobs = (
            delayed(held_out)(
                learner, fits.table, columns, self.tasks[part.task].fits.outcome,
                fits.data.fit_weights, Fold(train, part.test), seed,
            )
            for part in self.parts
            for learner, train, seed in zip(part.learners, part.trained, part.seeds, strict=True)
        )  # fmt: skip
        found = iter(gathered(jobs, fits.workers.n_jobs, None))
        losses = np.zeros(fits.table.n_rows)
        for part in self.parts:
            task = self.tasks[part.task]
            pair = [task.guarded(next(found)) for _ in part.learners]
            for member, a, b in zip(task.members, *pair, strict=True):
                losses[part.test] += member.loss.of_two(member.outcome.values[part.test], a, b)
        return np.asarray(losses[self.rows])


@once
def _measure(fits: Fits) -> _Measure:
    """Return how much all units explain of the measuring rows."""
    return _Measure.of(fits, _two_parts(fits)[1])


@dataclass(frozen=True, eq=False)
class _Part:
    """The measuring rows of a fold: predictions of two models with all units, learners of fewer."""

    task: int
    test: Ints
    full: list[list[Floats]]
    trained: list[Ints]
    learners: list[Estimator]
    seeds: list[np.random.SeedSequence]


def _parts(task: _Task, place: int, rows: Ints) -> list[_Part]:
    """Return the folds of the first split."""
    found = []
    halves = [member.halves for member in task.members]
    training = task.fits.half_training()
    for k, use in enumerate(training.uses):
        fold = halves[0][k]
        test = np.intersect1d(fold.test, rows)
        if fold.repeat or not len(test):
            continue
        matrix = task.fits.table.matrix[test]
        full = [[predict_once(p, matrix) for p in own[k].predictors] for own in halves]
        learners = [submodel_learner(task.fits.learner, p.model) for p in fold.predictors]
        sets = [training.sets[half] for half in use.sets]
        # the full models' own seeds: the two differ by their columns alone
        seeds = [task.fits.child("fit", *one.name) for one in sets]
        found.append(_Part(place, test, full, [one.rows for one in sets], learners, seeds))
    return found
