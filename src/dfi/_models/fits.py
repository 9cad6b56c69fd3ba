"""The regressions of one table: fitted when a method first needs them, then kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

import numpy as np

from dfi._data import source
from dfi._data.dependence import Clusters, Ordered
from dfi._data.folds import Fold, in_time_order, split_halves
from dfi._data.levels import constant_columns
from dfi._data.problem import warn_constant
from dfi._data.seeds import Seeds
from dfi._data.source import MatrixSource
from dfi._data.splits import (
    beyond,
    check_sizes,
    full_training,
    half_training,
    of_all_rows,
    quarter_training,
    shared_training,
    split_data,
)
from dfi._learners.stack import SuperLearner
from dfi._learners.temperature import TemperatureScaled
from dfi._models.adapters import as_model
from dfi._models.cluster import cluster_fit, cluster_split, is_cluster_learner, local_twin
from dfi._models.crossfit import (
    HALVINGS,
    CrossFit,
    FoldModels,
    can_extrapolate,
    cross_fit,
    repeats_and_halvings,
)
from dfi._models.learners import (
    check_learner_suits_outcome,
    family_of,
    loss_for,
    needs_scaling,
    predicts_classes,
    resolve_learner,
)
from dfi._models.parallel import Workers
from dfi._models.predictor import (
    check_class_order,
    class_column,
    learner_view,
    of_one_class,
    on_margin,
    predict_once,
    predictor_for,
    refuse_nondeterministic,
    warn_of_classes,
)
from dfi._models.quality import combined_quality, judged
from dfi._parameters import TABLE, InvalidParameterError, argument, worded
from dfi._progress import progress_bar
from dfi.losses import LOG_LOSS, SQUARED_ERROR

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from dfi._data.outcome import Outcome
    from dfi._data.problem import Data, Units
    from dfi._data.source import RowSource
    from dfi._data.splits import Training
    from dfi._data.table import Table
    from dfi._data.weights import Weights
    from dfi._models.cluster import TicketSplit
    from dfi._models.predictor import Predictor
    from dfi._models.quality import Quality
    from dfi._types import Bools, Estimator, EstimatorLike, Floats, Ints, SplitsLike
    from dfi.losses import Loss

Scale = Literal["response", "margin"]

Found = TypeVar("Found")
P = ParamSpec("P")


@dataclass
class Cache:
    """Everything fitted for a table; classes or outcomes have ``shared`` in common."""

    full: tuple[FoldModels, ...] | None = None
    before: Fits | None = None
    grown: Fits | None = None
    halves: tuple[Training, CrossFit] | None = None
    seconds: float = 0.0
    members: dict[int, Cache] = field(default_factory=dict)
    computed: dict[Hashable, Any] = field(default_factory=dict)
    shared: dict[Hashable, Any] = field(default_factory=dict)


def once(compute: Callable[Concatenate[Fits, P], Found]) -> Callable[Concatenate[Fits, P], Found]:
    """Compute a function of fits once for each of its arguments, for all methods."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def look_up(fits: Fits, /, *arguments: P.args, **options: P.kwargs) -> Found:
        key = name, arguments, tuple(options.items())
        if key not in fits.cache.computed:
            fits.cache.computed[key] = compute(fits, *arguments, **options)
        found: Found = fits.cache.computed[key]
        return found

    return look_up


@dataclass(frozen=True, eq=False)
class Fits:
    """Cross-fitted regressions of one table, or a model that was fitted elsewhere.

    Made by :meth:`cross` or :meth:`of_fitted`. Every method of a call reads from the same object:
    nothing is fitted twice, and a method costs only what no method before it has asked for.

    Attributes
    ----------
    data : Data
        The table, its outcome and weights. Where splits go along time (and no groups of rows are
        given, which come first) the weights say that rows are in order of time.
    learner : estimator
        The regression, unfitted; the fitted model itself for a fitted one.
    repeats : tuple of tuple of Fold
        The splits. In each, every row is held out at most once.
    seeds : Seeds
        Where all seeds come from, by name.
    settings : mapping
        Estimator, cv, n_repeats and random_state as they were passed, for the specification.
    workers : Workers
        Parallel tasks and progress bars.
    prefit : bool
        Whether the model was fitted elsewhere: there is one fold, all rows held out.
    halvings : tuple of int
        For each split in how many ways its training rows are halved, where folds share models
        (:func:`~dfi._data.splits.shared_training`); empty where they do not.
    most_splits : int
        Splits that a method may ask for (:meth:`grown`), at the most; 0 where it may not.
    loss : Loss
        What scores are differences of.
    scale : {"response", "margin"}
        Whether a classifier is explained by its probability or by its log-odds.
    described : Outcome, optional
        The classes themselves, where the outcome is a working response on the scale of margins.
    whole : Fits, optional
        Fits of all classes (or of several outcomes), of which this is one, where their models
        predict all of them at once.
    member : bool
        Whether this is one of several classes or outcomes.
    place : int
        Which of them.
    cluster : tuple, optional
        An estimator of Dask that is fitted on all rows of a table on its workers, and how they are
        split; the ``learner`` is what it becomes here.
    cache : Cache
        What was fitted so far.

    Examples
    --------
    >>> import dfi
    >>> sample = dfi.datasets.m1(200, d=3)
    >>> fits = dfi.methods.prepare(sample.X, sample.y, estimator="linear", cv=2)
    >>> fits.n_rows, len(fits.folds)
    (200, 2)
    >>> len(fits.full)  # fitted now, and once
    2
    """

    data: Data
    learner: Estimator
    repeats: tuple[tuple[Fold, ...], ...]
    seeds: Seeds
    settings: Mapping[str, object] = field(default_factory=dict)
    workers: Workers = field(default_factory=Workers)
    prefit: bool = False
    halvings: tuple[int, ...] = ()
    most_splits: int = 0
    loss: Loss = SQUARED_ERROR
    scale: Scale = "response"
    described: Outcome | None = None
    whole: Fits | None = field(default=None, repr=False)
    member: bool = False
    place: int = 0
    cluster: tuple[EstimatorLike, TicketSplit] | None = None
    cache: Cache = field(default_factory=Cache, repr=False)

    @property
    def table(self) -> Table:
        return self.data.table

    @property
    def outcome(self) -> Outcome:
        return self.data.outcome

    @property
    def weights(self) -> Weights:
        return self.data.weights

    @classmethod
    def cross(
        cls,
        data: Data,
        estimator: EstimatorLike,
        cv: SplitsLike = 5,
        *,
        n_repeats: int | None = None,
        loss: Loss | None = None,
        random_state: int | None = 0,
        workers: Workers | None = None,
        seeds: Seeds | None = None,
        most_splits: int = 1,
    ) -> Self:
        """Split the rows ``n_repeats`` times; the default depends on the learner and the rows."""
        seeds = Seeds.of(random_state) if seeds is None else seeds
        loss = loss_for(data.outcome, loss)
        asked, split = estimator, None
        if is_cluster_learner(estimator):
            split = cluster_split(estimator, data, cv, n_repeats, loss, seeds)
            estimator = local_twin(estimator)
        learner = resolve_learner(estimator, family_of(data.outcome, loss), loss)
        check_learner_suits_outcome(learner, data.outcome)
        if loss.name == LOG_LOSS.name and needs_scaling(learner):
            learner = TemperatureScaled(estimator=learner)
        given = n_repeats
        n_repeats, halvings = repeats_and_halvings(learner, data, cv, n_repeats, most_splits)
        check_sizes(data, cv)
        repeats = (
            (split.folds(data.places_of(np.arange(data.table.n_rows))),)
            if split is not None
            else split_data(data, cv, len(halvings) or n_repeats, seeds, shared=bool(halvings))
        )
        if data.fit is not None:
            repeats = of_all_rows(repeats, data, seeds)
        elif data.row_groups is None and in_time_order(repeats):
            order = Ordered(np.arange(data.table.n_rows))
            data = replace(data, weights=replace(data.weights, dependence=order))
        settings = _settings(asked, cv, n_repeats, random_state)
        fits = cls(
            data,
            learner,
            repeats,
            seeds,
            settings,
            workers or Workers(),
            halvings=halvings,
            most_splits=most_splits if given is None and len(halvings) > 1 else 0,
            loss=loss,
            cluster=None if split is None else (asked, split),
        )
        fits.check_clusters()
        fits.warn_constant()
        return fits

    @classmethod
    def of_fitted(
        cls,
        data: Data,
        model: EstimatorLike,
        *,
        n_repeats: int | None = None,
        loss: Loss | None = None,
        scale: Scale = "response",
        random_state: int | None = 0,
        workers: Workers | None = None,
        seeds: Seeds | None = None,
    ) -> Self:
        """Take a model that was fitted elsewhere, all rows of the table held out from it."""
        if isinstance(model, str):
            raise TypeError(
                f"{argument('cv', 'prefit')} explains a fitted model: pass it (or a function of "
                f"{TABLE}) as estimator, not the name {model!r}"
            )
        asked, model = model, as_model(model)
        if n_repeats not in (None, 1):
            raise ValueError(
                f"{argument('n_repeats', n_repeats)} repeats the split of the rows, but "
                f"{argument('cv', 'prefit')} splits none: leave {argument('n_repeats')} at 1"
            )
        seeds = Seeds.of(random_state) if seeds is None else seeds
        loss = loss_for(data.outcome, loss)
        if not data.outcome.named:
            warn_of_classes(model)
        fold = Fold(np.empty(0, dtype=np.intp), np.arange(data.table.n_rows))
        settings = _settings(asked, "prefit", 1, random_state)
        fits = cls(
            data,
            model,
            ((fold,),),
            seeds,
            settings,
            workers or Workers(),
            prefit=True,
            loss=loss,
            scale=scale,
        )
        predictor = predictor_for(model, data.table, prefit=True)
        refuse_nondeterministic(predictor, data.matrix)
        check_learner_suits_outcome(model, data.outcome)
        fits.check_clusters()
        fits.warn_constant()
        if scale == "margin":
            predictor, response = on_margin(predictor, data)
            data, classes = replace(data, outcome=response), data.outcome
            fits = replace(fits, data=data, loss=SQUARED_ERROR, described=classes)
        elif data.outcome.is_classes:
            check_class_order(predictor, data.outcome)
            if data.outcome.kind == "binary":
                predictor = of_one_class(predictor, data)
        fits.cache.full = (
            FoldModels(0, fold.test, (predictor,), seeds.child("fit", 0, "score").sequence()),
        )
        return fits

    @cached_property
    def missing(self) -> dict[str, object]:
        """Shares of missing values and how the model gets them, or how many rows were dropped."""
        incomplete = self.data.dropped - self.table.everyday.rows
        if incomplete:
            return {"how": "drop", "rows": incomplete}
        if not self.table.missing:
            return {}
        view = (
            self.full[0].predictors[0].view
            if self.prefit
            else learner_view(self.learner, self.table)
        )
        filled = view == "matrix" and self.table.gaps
        return {
            "how": "indicator",
            "share": self.data.missing_shares,
            "model": "mean and indicator" if filled else "values missing",
        }

    @cached_property
    def units(self) -> Units:
        """The units that get a score; constant ones do not vary among the explained rows."""
        units = self.data.units
        constant = [bool(self.constant[positions].all()) for positions in units.positions]
        return replace(units, constant=np.array(constant))

    @property
    def folds(self) -> tuple[Fold, ...]:
        return tuple(fold for folds in self.repeats for fold in folds)

    @cached_property
    def rows(self) -> Ints:
        """The rows that are held out at least once, and so explained, ascending."""
        return np.unique(np.concatenate([fold.test for fold in self.folds]))

    @cached_property
    def population(self) -> RowSource:
        """The rows that the transport is fitted on: those that are explained, or may be."""
        if self.data.source is not None:
            return self.data.source
        rows = None if len(self.rows) == self.table.n_rows else self.rows
        return MatrixSource(self.data.matrix, self.weights, rows)

    @property
    def is_large(self) -> bool:
        """Whether moments and samples of the rows stand for all of them."""
        return self.population.n_rows > source.LARGE_ROWS and self.weights.dependence is None

    @property
    def n_rows(self) -> int:
        return self.table.n_rows if self.data.source is None else self.data.source.n_rows

    @cached_property
    def constant(self) -> Bools:
        """The matrix columns that do not vary among the explained rows."""
        if self.table.known is not None:
            return self.table.known.counted_constant
        counted = self.rows[self.weights.values[self.rows] > 0]
        return constant_columns(self.data.matrix, counted)

    def warn_constant(self) -> None:
        """Warn about columns that vary in the table, but not among the explained rows."""
        new = self.constant & ~self.table.constant
        warn_constant(self.table, new, " among the rows that are explained")

    def check_clusters(self) -> None:
        """Raise if all explained rows belong to one cluster, which has no standard errors."""
        if not isinstance(self.weights.dependence, Clusters):
            return
        weights = self.weights.take(self.rows)
        if not isinstance(weights.dependence, Clusters):
            return
        count = weights.dependence.count(weights.counted)
        if count < 2:
            raise ValueError(
                f"the rows that are explained are all of one label in {argument('clusters')}, and "
                "one cluster has no standard errors: choose folds that hold out several"
            )

    @cached_property
    def members(self) -> tuple[Fits, ...]:
        """The fits of each class or outcome, from one model where it predicts all of them."""
        outcome = self.outcome
        classes = outcome.kind == "classes"
        together = self.prefit or (classes and predicts_classes(self.learner))
        together = together or outcome.distribution is not None
        return tuple(
            replace(
                self,
                data=replace(self.data, outcome=member),
                loss=self.loss.each_class if classes else self.loss,
                whole=self if together else None,
                member=True,
                place=place,
                cache=self.cache.members.setdefault(place, Cache(shared=self.cache.shared)),
            )
            for place, member in enumerate(outcome.members)
        )

    @cached_property
    def _shrink(self) -> tuple[float, float] | None:
        r"""A share 1/(n + 1) of the mean, for unbounded losses; it commutes with line means."""
        if self.loss.domain == "real" or self.loss.is_square or not self.loss.has_generator:
            return None
        return 1.0 / (self.data.total + 1.0), self.data.mean_outcome

    @property
    def calibration(self) -> dict[str, float]:
        """The mean's share in predictions, and the mean inverse temperature of classifiers."""
        found = {} if self._shrink is None else {"prediction_shrinkage": self._shrink[0]}
        source = self.whole or self
        models = list(source.cache.full or ())
        if source.cache.halves is not None:
            models += source.cache.halves[1].folds
        scaled = [
            predictor.model.temperature_
            for fold in models
            for predictor in fold.predictors
            if isinstance(predictor.model, TemperatureScaled)
        ]
        return {**found, "temperature": float(np.mean(scaled))} if scaled else found

    def guarded(self, value: Floats) -> Floats:
        """Return predictions within the domain of the loss, as those of the models are."""
        if self._shrink is None:
            return value
        share, level = self._shrink
        return np.asarray((1.0 - share) * value + share * level)

    def _of_place(self, models: tuple[FoldModels, ...]) -> tuple[FoldModels, ...]:
        """Return fitted models as what predicts this outcome, within the domain of the loss."""
        if self.whole is None and self._shrink is None:
            return models

        def own(predictor: Predictor) -> Predictor:
            column = predictor.column if self.whole is None else self._column(predictor)
            domain = self.loss.domain if self._shrink is not None else "real"
            return replace(
                predictor,
                column=column,
                shrink=self._shrink,
                domain=domain,
                of_classes=predictor.of_classes
                or (self.whole is not None and self.outcome.kind == "binary"),
            )

        return tuple(
            replace(fold, predictors=tuple(own(predictor) for predictor in fold.predictors))
            for fold in models
        )

    def _column(self, predictor: Predictor) -> int:
        """Return where a model that predicts all outcomes has this one."""
        if not self.prefit or self.outcome.kind != "binary":
            return self.place
        return class_column(predictor.model, self.outcome.labels[-1], self.place)

    def grown(self, n_splits: int) -> Fits:
        """Return the fits of so many splits of the rows: those here, and further ones."""
        repeats = split_data(self.data, len(self.repeats[0]), n_splits, self.seeds, shared=True)
        self.cache.grown = replace(
            self,
            repeats=of_all_rows(repeats, self.data, self.seeds),
            halvings=(HALVINGS,) * n_splits,
            most_splits=0,
            settings={**self.settings, "n_repeats": HALVINGS * n_splits},
            cache=Cache(before=self, seconds=self.cache.seconds, shared=self.cache.shared),
        )
        return self.cache.grown

    @property
    def settled(self) -> Fits:
        """The fits with the splits that were asked for, for good."""
        found = self.cache.grown or self
        return replace(found, most_splits=0) if found.most_splits else found

    @property
    @once
    def full(self) -> tuple[FoldModels, ...]:
        return self._of_place((self.whole or self)._fitted_full)

    @property
    @once
    def halves(self) -> tuple[FoldModels, ...]:
        """For each fold two models fitted on disjoint halves of its training rows."""
        return self._of_place((self.whole or self)._halves[1].folds)

    @property
    @once
    def quarters(self) -> tuple[FoldModels, ...]:
        """For each fold pairs of models fitted on halves of those halves, twice."""
        return self._of_place((self.whole or self)._fitted_quarters)

    @property
    def _fitted_full(self) -> tuple[FoldModels, ...]:
        if self.cache.full is None:
            self.cache.full = self._fit(full_training(self.repeats), "fitting models").folds
        return self.cache.full

    @property
    @once
    def _fitted_quarters(self) -> tuple[FoldModels, ...]:
        halves, fitted = self._halves
        label, weights = "fitting models on quarters", fitted.weights or None
        before = self.cache.before
        known = None if before is None else CrossFit(before._fitted_quarters)
        return self._fit(self.quarter_training(halves), label, known, weights).folds

    @property
    def extrapolates(self) -> bool:
        """Whether scores are extrapolated to more training rows by default."""
        return not self.prefit and can_extrapolate(self.learner, self.data, self.repeats)

    @property
    def _halves(self) -> tuple[Training, CrossFit]:
        if self.prefit:
            raise ValueError(
                f"two models fitted on disjoint rows are needed; {argument('cv', 'prefit')} has "
                "one: let the models be fitted here"
            )
        self.require_halves()
        if self.cache.halves is None:
            training, before = self.half_training(), self.cache.before
            known = None if before is None else before._halves[1]
            self.cache.halves = training, self._fit(training, "fitting models on halves", known)
        return self.cache.halves

    def trained_on(self, *, halves: bool) -> tuple[tuple[Ints, ...], ...]:
        """Return the rows behind each model; for a prefit model, these rows replace its own."""
        if self.prefit:
            return ((self.rows,),)
        if not halves:
            return tuple((fold.train,) for fold in self.folds)
        training, _ = (self.whole or self)._halves
        return tuple(tuple(training.sets[k].rows for k in use.sets) for use in training.uses)

    def require_halves(self) -> None:
        fewest = min(len(fold.train) for fold in self.folds)
        if fewest < 4:
            raise ValueError(
                f"{TABLE} has {self.data.n_fit} rows, too few for two models in each of "
                f"{len(self.repeats[0])} folds: they learn from halves of {fewest} training rows, "
                "and a half needs two rows or more. Use more rows (eight do for "
                f"{argument('cv', 2)}), or one model a fold with {argument('form', 'loco')}"
            )

    def half_training(self) -> Training:
        if self.halvings:
            return shared_training(self.repeats, self.halvings, self.data.fit)[0]
        return half_training(self.repeats, self.data, self.seeds.child("fit"))

    def quarter_training(self, halves: Training) -> Training:
        if self.halvings:
            return shared_training(self.repeats, self.halvings, self.data.fit)[1]
        return quarter_training(halves, self.data, self.seeds.child("fit"))

    def training_sizes(self, *, halves: bool, quarters: bool) -> list[int]:
        """Return the rows of each model that will be fitted, for all classes; none if prefit."""
        if self.prefit:
            return []
        training = self.half_training() if halves else full_training(self.repeats)
        sets = list(training.sets)
        if quarters:
            sets += self.quarter_training(training).sets
        alone = self.outcome.members and not (
            self.outcome.kind == "classes" and predicts_classes(self.learner)
        )
        return [len(one.rows) for one in sets] * (len(self.outcome.members) if alone else 1)

    def _fit(
        self,
        training: Training,
        label: str,
        known: CrossFit | None = None,
        weights: Mapping[tuple[int, int], Floats] | None = None,
    ) -> CrossFit:
        if known is not None and self.cache.before is not None:
            training = beyond(training, len(self.cache.before.repeats))
        start, workers, seeds = time.perf_counter(), self.workers, self.seeds.child("fit")
        sets = len(training.sets)
        with progress_bar(workers.progress, label, sets, workers.started) as advance:
            if self.cluster is not None:
                estimator, split = self.cluster
                models = cluster_fit(
                    estimator, self.data, training, split, seeds=seeds, advance=advance
                )
            else:
                models = cross_fit(
                    self.learner,
                    self.data,
                    training,
                    seeds=seeds,
                    n_jobs=workers.n_jobs,
                    advance=advance,
                    weights=weights,
                )
        self.cache.seconds += time.perf_counter() - start
        if self.cluster is None and not isinstance(self.learner, SuperLearner):
            first = models.folds[0]
            refuse_nondeterministic(first.predictors[0], self.data.matrix[first.test])
        return models if known is None else known + models

    @property
    def seconds(self) -> float:
        return self.cache.seconds

    @cached_property
    def predictions(self) -> Floats:
        """Predictions of held-out rows by the full models, NaN for rows that are never held out."""
        self.require_one_split()
        values = np.full(self.table.n_rows, np.nan)
        # by the models themselves: reading them costs more than to predict every row once
        for models in self.full:
            rows = self.data.matrix[models.test]
            values[models.test] = predict_once(models.predictors[0], rows)
        return values

    @cached_property
    def residuals(self) -> Floats:
        return np.asarray((self.data.y - self.predictions)[self.rows])

    @cached_property
    def quality(self) -> Quality:
        if self.outcome.members:
            names = [member.name for member in self.outcome.members]
            parts = [member.quality for member in self.members]
            return combined_quality(dict(zip(names, parts, strict=True)))
        return judged(self, [(fold.test, self.predictions[fold.test]) for fold in self.folds])

    def require_one_split(self) -> None:
        if len(self.repeats) > 1:
            raise InvalidParameterError(
                f"{argument('cv')} splits the rows several times; a comparison uses one split, "
                "which all methods share",
                "cv",
                f"pass a number of folds{worded(' or a splitter without repeats', '')}",
            )

    def others(self, unit: int) -> tuple[int, ...]:
        inside = set(self.units.columns[unit])
        return tuple(c for c in range(len(self.table.columns)) if c not in inside)

    def child(self, *names: str | int) -> np.random.SeedSequence:
        return self.seeds.child(*names).sequence()

    def split_rows(self, *names: str | int, stratify: bool = False) -> tuple[Ints, Ints]:
        """Split the explained rows in two, clusters whole; ``stratify`` a binary outcome."""
        classes = self.outcome.n_classes
        y = self.data.y if stratify and classes else None
        return split_halves(
            self.rows,
            self.child(*names),
            y=y,
            groups=self.data.row_groups,
            n_classes=max(2, classes),
        )

    def pooled(self, by_fold: Iterable[Floats], n_columns: int) -> Floats:
        """Return the rows of the folds' matrices in the order of :attr:`rows`."""
        full = np.zeros((self.table.n_rows, n_columns))
        for fold, part in zip(self.folds, by_fold, strict=True):
            full[fold.test] = part
        return full[self.rows]

    def mass(self, rows: Ints) -> Floats:
        values = self.weights.values[rows]
        return np.asarray(values / values.sum())


def _settings(
    estimator: EstimatorLike, cv: SplitsLike, n_repeats: int, random_state: int | None
) -> dict[str, object]:
    return {
        "estimator": estimator, "cv": cv, "n_repeats": n_repeats, "random_state": random_state
    }  # fmt: skip
