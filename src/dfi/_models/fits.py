"""The regressions of one table: fitted when a method first asks for them, then kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from dfi._data import source
from dfi._data.dependence import FEW_CLUSTERS, Clusters, Ordered
from dfi._data.folds import Fold, in_time_order, read_folds, split_halves, widened
from dfi._data.problem import read_data, warn_constant
from dfi._data.source import MatrixSource, tickets
from dfi._data.streams.read import is_stream
from dfi._models.cluster import (
    Split,
    check_cluster,
    cluster_fit,
    is_cluster_learner,
    local_twin,
)
from dfi._models.crossfit import (
    SHARED_FOLDS,
    CrossFit,
    FoldModels,
    Training,
    cross_fit,
    full_training,
    half_training,
    quarter_training,
    shared_training,
)
from dfi._models.foreign import as_model
from dfi._models.learners import check_learner_suits_outcome, predicts_classes, resolve_learner
from dfi._models.parallel import Workers, progress_bar
from dfi._models.predictor import learner_view, predict_once, predictor_for
from dfi._models.quality import combined_quality, regression_quality
from dfi._models.samples import Wanted, check_streamed, read_streamed, with_fit_rows
from dfi._models.seeds import Seeds
from dfi._models.stack import SuperLearner
from dfi._models.steady import refuse_unsteady
from dfi._models.temperature import TemperatureScaled, classes_in_order, final_step
from dfi._parameters import TABLE, TARGET, InvalidParameterError, argument, validated, worded
from dfi.losses import BRIER, GAMMA, LOG_LOSS, POISSON, SQUARED_ERROR, resolve_loss
from dfi.warnings import InferenceWarning, OutcomeWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from dfi._data.outcome import Outcome, Task
    from dfi._data.problem import Data, Units, UnitsKind
    from dfi._data.source import RowSource
    from dfi._data.table import Missing, Table
    from dfi._data.weights import Weights
    from dfi._models.families import Family
    from dfi._models.predictor import Predictor
    from dfi._models.quality import Quality
    from dfi._types import (
        Bools,
        Estimator,
        EstimatorLike,
        Floats,
        GroupsLike,
        Ints,
        Plain,
        SplitsLike,
        TableLike,
        VectorLike,
    )
    from dfi.losses import Loss, LossLike

Scale = Literal["response", "margin"]

NO_PROBABILITY = (-0.5, 1.5)
"""Where a function does not predict a probability, not even as a straight line that overshoots."""

GROUP_REPEATS = 5
"""Splits of the rows where groups are units: scores of weak models differ between splits."""

HALVINGS = 3
"""Halvings of four folds: two and two."""

MOST_ROWS = 5000
"""Rows up to which the default learner's scores are averaged over halvings and extrapolated.

Beyond, a split's spread and a learner's bias are small against what it costs to explain every row
by ten models more.
"""

FEWEST_ROWS = 200
"""Rows from which a fifth of them is enough to fit a model, so that scores can be extrapolated."""

Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False)
class Fits:
    """Cross-fitted regressions of one table, or a model that was fitted elsewhere.

    Made by :meth:`cross` or :meth:`prefit`. Every method of a call reads from the same object, so
    that nothing is fitted twice: a method costs only what no method before it has asked for.

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
    given : bool
        Whether the model was fitted elsewhere: there is one fold, all rows held out.
    halvings : tuple of int
        For each split in how many ways its training rows are halved, where folds share models
        (:func:`~dfi._models.crossfit.shared_training`); empty where they do not.
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
    given: bool = False
    halvings: tuple[int, ...] = ()
    loss: Loss = SQUARED_ERROR
    scale: Scale = "response"
    described: Outcome | None = None
    whole: Fits | None = field(default=None, repr=False)
    member: bool = False
    place: int = 0
    cluster: tuple[EstimatorLike, Split] | None = None
    _kept: dict[Hashable, Any] = field(default_factory=dict, repr=False)

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
    ) -> Self:
        """Split the rows and prepare to fit the learner for every fold.

        Parameters
        ----------
        data : Data
            What was read.
        estimator : str or estimator
            The regression.
        cv : int, splitter or iterable of splits
            The folds (:func:`~dfi._data.folds.read_folds`).
        n_repeats : int, optional
            How often rows are split anew. With the default learner and five folds every third
            time: in between the training rows of each fold are only halved in another way, which
            costs no further fit. By default three times there, up to ``MOST_ROWS`` rows, and
            once elsewhere.
        loss : Loss, optional
            What scores are differences of; by default Brier's score for classes, squared error
            otherwise.
        random_state, workers
            The root of all seeds, and who does the work.
        seeds : Seeds, optional
            The seeds themselves, where they are in use already.
        """
        seeds = Seeds.of(random_state) if seeds is None else seeds
        loss = loss_for(data.outcome, loss)
        asked, split = estimator, None
        if is_cluster_learner(estimator):
            split = _cluster_split(estimator, data, cv, n_repeats, loss, seeds)
            estimator = local_twin(estimator)
        learner = resolve_learner(estimator, family_of(data.outcome, loss), loss)
        check_learner_suits_outcome(learner, data.outcome)
        if loss.name == LOG_LOSS.name and needs_scaling(learner):
            learner = TemperatureScaled(estimator=learner)
        _check_sizes(data, cv)
        shares = is_default(learner) and isinstance(cv, int | np.integer) and cv == SHARED_FOLDS
        if n_repeats is None:
            n_repeats = HALVINGS if shares and data.n_fit <= MOST_ROWS else 1
        halvings: tuple[int, ...] = ()
        counted = isinstance(n_repeats, int | np.integer) and not isinstance(n_repeats, bool)
        if shares and counted and n_repeats > 0:
            whole, rest = divmod(int(n_repeats), HALVINGS)
            halvings = (HALVINGS,) * whole + (rest,) * bool(rest)
        fit: slice | Ints = slice(None) if data.fit is None else data.fit
        repeats = (
            (split.folds(data.places_of(np.arange(data.table.n_rows))),)
            if split is not None
            else read_folds(
                cv,
                data.n_fit,
                matrix=data.matrix[fit],
                y=data.y[fit],
                groups=data.row_groups,
                n_classes=max(2, data.outcome.n_classes),
                n_repeats=len(halvings) or n_repeats,
                random_state=seeds.child("split").sequence(),
            )
        )
        if data.fit is not None:
            repeats = _of_all_rows(repeats, data, seeds)
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
            loss=loss,
            cluster=None if split is None else (asked, split),
        )
        fits.warn_constant()
        fits.check_clusters()
        return fits

    @classmethod
    def prefit(
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
        """Take a model that was fitted elsewhere, all rows of the table held out from it.

        Raises
        ------
        ValueError, TypeError
            The model is the name of a learner, is not fitted or knows other columns; or repeats
            are asked for where nothing is split.
        """
        if isinstance(model, str):
            raise TypeError(
                f"{argument('cv', 'prefit')} explains a fitted model: pass it (or a function of "
                f"{TABLE}) as estimator, not the name {model!r}"
            )
        given, model = model, as_model(model)
        if n_repeats not in (None, 1):
            raise ValueError(
                f"{argument('n_repeats', n_repeats)} repeats the split of the rows, and "
                f"{argument('cv', 'prefit')} splits none: leave {argument('n_repeats')} at 1"
            )
        seeds = Seeds.of(random_state) if seeds is None else seeds
        loss = loss_for(data.outcome, loss)
        if not data.outcome.named:
            _warn_of_classes(model)
        fold = Fold(np.empty(0, dtype=np.intp), np.arange(data.table.n_rows))
        settings = _settings(given, "prefit", 1, random_state)
        fits = cls(
            data,
            model,
            ((fold,),),
            seeds,
            settings,
            workers or Workers(),
            given=True,
            loss=loss,
            scale=scale,
        )
        predictor = predictor_for(model, data.table, prefit=True)
        refuse_unsteady(predictor, data.matrix)
        check_learner_suits_outcome(model, data.outcome)
        fits.warn_constant()
        fits.check_clusters()
        if scale == "margin":
            predictor, response = _on_margin(predictor, fits)
            data, classes = replace(data, outcome=response), data.outcome
            fits = replace(fits, data=data, loss=SQUARED_ERROR, described=classes)
        elif data.outcome.is_classes:
            _check_class_order(predictor, data.outcome)
            if data.outcome.kind == "binary":
                predictor = _of_one_class(predictor, data)
        fits.keep(
            "fitted full",
            lambda: (
                FoldModels(0, fold.test, (predictor,), seeds.child("fit", 0, "score").sequence()),
            ),
        )
        return fits

    def keep(self, key: Hashable, build: Callable[[], Kept]) -> Kept:
        """Return what was built for a key, and build it where nothing was."""
        if key not in self._kept:
            self._kept[key] = build()
        found: Kept = self._kept[key]
        return found

    @property
    def table(self) -> Table:
        """The table."""
        return self.data.table

    @property
    def outcome(self) -> Outcome:
        """The outcome."""
        return self.data.outcome

    @property
    def weights(self) -> Weights:
        """The weights of the rows."""
        return self.data.weights

    @cached_property
    def missing(self) -> dict[str, object]:
        """What was done about missing values, for the specification; empty where there are none.

        The columns' shares of them, and whether the model gets the values as missing or the mean
        of the observed beside an indicator; or how many rows were left out.
        """
        if self.data.dropped:
            return {"how": "drop", "rows": self.data.dropped}
        if not self.table.missing:
            return {}
        view = (
            self.full[0].predictors[0].view
            if self.given
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
        """What is given a score; constant are those that do not vary among the explained rows."""
        units = self.data.units
        constant = [bool(self.constant[positions].all()) for positions in units.positions]
        return replace(units, constant=np.array(constant))

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The folds of all repeats."""
        return tuple(fold for folds in self.repeats for fold in folds)

    @cached_property
    def rows(self) -> Ints:
        """The rows that are held out at least once, ascending: those that are explained."""
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
        """How many rows the whole table has, of which not all may be here."""
        return self.table.n_rows if self.data.source is None else self.data.source.n_rows

    @cached_property
    def constant(self) -> Bools:
        """The matrix columns that do not vary among the explained rows."""
        return self.data.constant_among(self.rows)

    def warn_constant(self) -> None:
        """Warn of columns that vary in the table, but not among the explained rows."""
        new = self.constant & ~self.table.constant
        warn_constant(self.table, new, " among the rows that are explained")

    def check_clusters(self) -> None:
        """Raise or warn where the explained rows are of too few clusters for standard errors."""
        weights = self.weights.take(self.rows)
        if not isinstance(weights.dependence, Clusters):
            return
        count = weights.dependence.count(weights.counted)
        if count < 2:
            raise ValueError(
                f"the rows that are explained are all of one label in {argument('clusters')}, and "
                "one cluster has no standard errors: choose folds that hold out several"
            )
        if count < FEW_CLUSTERS:
            warn(
                f"{argument('clusters')} has {count} clusters: standard errors of so few are "
                f"rough, and intervals and tests use a t distribution with {count - 1} degrees of "
                "freedom; they may be too short all the same",
                InferenceWarning,
            )

    @cached_property
    def members(self) -> tuple[Fits, ...]:
        """The fits of each of three or more classes, or of each of several outcomes.

        A model that predicts all of them at once is fitted once; the default learner and others of
        one number are fitted for each. Members of copies of these fits share what was fitted.
        """
        outcome = self.outcome
        classes = outcome.kind == "classes"
        together = self.given or (classes and predicts_classes(self.learner))
        return tuple(
            replace(
                self,
                data=replace(self.data, outcome=member),
                loss=self.loss.each_class if classes else self.loss,
                whole=self if together else None,
                member=True,
                place=place,
                _kept=self.keep(("member", place), dict),
            )
            for place, member in enumerate(outcome.members)
        )

    @cached_property
    def _shrink(self) -> tuple[float, float] | None:
        r"""A share :math:`1/(n + 1)` and the outcome's mean, for losses that grow without bound.

        An affine shrink and not a clip: it commutes with averages along lines. ``n`` counts what
        rows stand for, so that one of frequency weight ``w`` is ``w`` equal rows here too.
        """
        if self.loss.domain == "real" or self.loss.is_square or not self.loss.has_generator:
            return None
        return 1.0 / (self.data.total + 1.0), self.data.mean_outcome

    @property
    def calibration(self) -> dict[str, float]:
        """What was done to probabilities or rates so that the loss can take them.

        The share of the outcome's mean in every prediction, and the mean of the numbers that
        margins of classifiers were multiplied by (their inverse temperatures).
        """
        found = {} if self._shrink is None else {"prediction_shrinkage": self._shrink[0]}
        source = self.whole or self
        models: list[FoldModels] = []
        if "fitted full" in source._kept:
            models += source._fitted_full
        if "fitted halves" in source._kept:
            models += source._halves[1].folds
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
        if not self.given or self.outcome.kind != "binary":
            return self.place
        return class_column(predictor.model, self.outcome.labels[-1], self.place)

    @property
    def full(self) -> tuple[FoldModels, ...]:
        """For each fold the model fitted on all of its training rows."""
        return self.keep("full", lambda: self._of_place((self.whole or self)._fitted_full))

    @property
    def halves(self) -> tuple[FoldModels, ...]:
        """For each fold two models fitted on disjoint halves of its training rows."""
        return self.keep("halves", lambda: self._of_place((self.whole or self)._halves[1].folds))

    @property
    def quarters(self) -> tuple[FoldModels, ...]:
        """For each fold pairs of models fitted on halves of those halves, twice."""
        return self.keep("quarters", lambda: self._of_place((self.whole or self)._fitted_quarters))

    @property
    def _fitted_full(self) -> tuple[FoldModels, ...]:
        return self.keep(
            "fitted full", lambda: self._fit(full_training(self.repeats), "fitting models").folds
        )

    @property
    def _fitted_quarters(self) -> tuple[FoldModels, ...]:
        return self.keep("fitted quarters", self._fit_quarters)

    @property
    def extrapolates(self) -> bool:
        """Whether scores are extrapolated to more training rows unless something else is asked."""
        return (
            not self.given
            and is_default(self.learner)
            and FEWEST_ROWS <= self.data.n_fit <= MOST_ROWS
            and min(map(len, self.repeats)) > 1
        )

    @property
    def _halves(self) -> tuple[Training, CrossFit]:
        if self.given:
            raise ValueError(
                f"two models fitted on disjoint rows are needed; {argument('cv', 'prefit')} has "
                "one: let the models be fitted here"
            )
        self.require_halves()
        return self.keep("fitted halves", self._fit_halves)

    def trained_on(self, *, halves: bool) -> tuple[tuple[Ints, ...], ...]:
        """Return the rows that each model of :attr:`halves`, or of :attr:`full`, was fitted on.

        A model that was fitted elsewhere has seen other rows: those here stand for them.
        """
        if self.given:
            return ((self.rows,),)
        if not halves:
            return tuple((fold.train,) for fold in self.folds)
        training, _ = (self.whole or self)._halves
        return tuple(tuple(training.sets[k].rows for k in use.sets) for use in training.uses)

    def require_halves(self) -> None:
        """Raise if halves of training rows are too small to learn anything from."""
        fewest = min(len(fold.train) for fold in self.folds)
        if fewest < 4:
            raise ValueError(
                f"{TABLE} has {self.data.n_fit} rows, too few for two models in each of "
                f"{len(self.repeats[0])} folds: they learn from halves of {fewest} training rows, "
                "and a half needs two rows or more. Use more rows (eight do for "
                f"{argument('cv', 2)}), or one model a fold with {argument('form', 'loco')}"
            )

    def half_training(self) -> Training:
        """Return what is fitted on halves of the training rows."""
        if self.halvings:
            return shared_training(self.repeats, self.halvings, self.data.fit)[0]
        return half_training(self.repeats, self.data, self.seeds.child("fit"))

    def quarter_training(self, halves: Training) -> Training:
        """Return what is fitted on halves of those halves."""
        if self.halvings:
            return shared_training(self.repeats, self.halvings, self.data.fit)[1]
        return quarter_training(halves, self.data, self.seeds.child("fit"))

    def training_sizes(self, *, halves: bool, quarters: bool) -> list[int]:
        """Return the rows of each model that will be fitted, those of all classes; none if given.

        Parameters
        ----------
        halves : bool
            Whether models are fitted on halves of the training rows; else on all of them.
        quarters : bool
            Whether models are also fitted on halves of the halves.
        """
        if self.given:
            return []
        training = self.half_training() if halves else full_training(self.repeats)
        sets = list(training.sets)
        if quarters:
            sets += self.quarter_training(training).sets
        alone = self.outcome.members and not (
            self.outcome.kind == "classes" and predicts_classes(self.learner)
        )
        return [len(one.rows) for one in sets] * (len(self.outcome.members) if alone else 1)

    def _fit_halves(self) -> tuple[Training, CrossFit]:
        training = self.half_training()
        return training, self._fit(training, "fitting models on halves")

    def _fit_quarters(self) -> tuple[FoldModels, ...]:
        halves, fitted = self._halves
        training = self.quarter_training(halves)
        label = "fitting models on quarters"
        return self._fit(training, label, weights=fitted.weights or None).folds

    def _fit(
        self,
        training: Training,
        label: str,
        weights: Mapping[tuple[int, int], Floats] | None = None,
    ) -> CrossFit:
        start = time.perf_counter()
        workers = self.workers
        sets = len(training.sets)
        with progress_bar(workers.progress, label, sets, workers.started) as advance:
            if self.cluster is not None:
                estimator, split = self.cluster
                found = cluster_fit(
                    estimator,
                    self.data,
                    training,
                    split,
                    seeds=self.seeds.child("fit"),
                    advance=advance,
                )
                self._kept["seconds"] = self.seconds + time.perf_counter() - start
                return found
            models = cross_fit(
                self.learner,
                self.data,
                training,
                seeds=self.seeds.child("fit"),
                n_jobs=self.workers.n_jobs,
                advance=advance,
                weights=weights,
            )
        self._kept["seconds"] = self.seconds + time.perf_counter() - start
        if not isinstance(self.learner, SuperLearner):
            first = models.folds[0]
            refuse_unsteady(first.predictors[0], self.data.matrix[first.test])
        return models

    @property
    def seconds(self) -> float:
        """Wall-clock seconds spent on fitting full and half models so far."""
        return float(self._kept.get("seconds", 0.0))

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
        """Outcome minus out-of-fold prediction, for the explained rows only."""
        return np.asarray((self.data.y - self.predictions)[self.rows])

    @cached_property
    def quality(self) -> Quality:
        """Out-of-fold fit of the full models."""
        if self.outcome.members:
            names = [member.name for member in self.outcome.members]
            parts = [member.quality for member in self.members]
            return combined_quality(dict(zip(names, parts, strict=True)))
        return self.judged([(fold.test, self.predictions[fold.test]) for fold in self.folds])

    def judged(self, predictions: Sequence[tuple[Ints, Floats]]) -> Quality:
        """Return how well held-out rows are predicted, in the words of the loss.

        A warning that this is not at all is given for all classes together, not for each.
        """
        if self.described is not None:
            # a working response says nothing of how well classes are told apart
            chances = [(rows, 1.0 / (1.0 + np.exp(-margin))) for rows, margin in predictions]
            y = self.described.values
            return regression_quality(chances, y, self.weights, prefit=True, loss=BRIER)
        return regression_quality(
            predictions,
            self.data.y,
            self.weights,
            prefit=self.given,
            loss=self.loss,
            warns=not self.member,
        )

    def require_one_split(self) -> None:
        """Raise if the rows are split several times."""
        if len(self.repeats) > 1:
            raise InvalidParameterError(
                f"{argument('cv')} splits the rows several times; a comparison uses one split, "
                "which all methods share",
                "cv",
                f"pass a number of folds{worded(' or a splitter without repeats', '')}",
            )

    def others(self, unit: int) -> tuple[int, ...]:
        """Return the columns of the table outside of a unit."""
        inside = set(self.units.columns[unit])
        return tuple(c for c in range(len(self.table.columns)) if c not in inside)

    def child(self, *names: str | int) -> np.random.SeedSequence:
        """Return the seed that belongs to some names, whatever else is run."""
        return self.seeds.child(*names).sequence()

    def split_rows(self, *names: str | int, stratify: bool = False) -> tuple[Ints, Ints]:
        """Split the explained rows in two, groups of rows whole, by the seed of some names.

        ``stratify`` shares a binary outcome out equally, where rows are not grouped.
        """
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
        """Return the weights of some rows as shares."""
        values = self.weights.values[rows]
        return np.asarray(values / values.sum())


def loss_for(outcome: Outcome, loss: Loss | None) -> Loss:
    """Return the loss of an outcome, by default Brier's score for classes.

    Brier's score and not the log-loss: it survives models that are too sure of themselves.
    """
    if loss is None:
        return BRIER if outcome.is_classes else SQUARED_ERROR
    if loss.domain == "probability" and not outcome.is_classes:
        raise ValueError(
            f"{argument('loss', loss.name)} is about classes, and {TARGET} is a quantity: pass "
            f"{argument('task', 'classification')}, or {argument('loss', 'squared-error')}"
        )
    if outcome.is_classes and loss.domain == "positive":
        raise ValueError(
            f"{argument('loss', loss.name)} is about counts or positive quantities, and {TARGET} "
            "holds classes: use 'brier' or 'log-loss'"
        )
    if outcome.kind == "classes" and not loss.has_generator:
        raise ValueError(
            f"{argument('loss', loss.name)} is about one number, and {TARGET} has "
            f"{len(outcome.classes)} classes: use 'brier' or 'log-loss', or "
            f"{argument('pos_label', ...)} for one class against the rest"
        )
    if outcome.kind == "several" and not (loss.is_square and loss.domain == "real"):
        raise ValueError(
            "several outcomes are explained by their summed squared error, not by "
            f"{argument('loss', loss.name)}: leave {argument('loss')} at 'auto', or explain one "
            "outcome at a time"
        )
    if outcome.is_classes and loss.is_square:
        return BRIER
    if loss.domain == "positive":
        least = float(outcome.values.min())
        if least < 0 or (least == 0 and loss.name == GAMMA.name):
            need = "positive" if loss.name == GAMMA.name else "non-negative"
            raise ValueError(
                f"{argument('loss', loss.name)} needs {need} outcomes, and the smallest value of "
                f"{TARGET} is {least:g}: use 'squared-error'"
            )
    return loss


def family_of(outcome: Outcome, loss: Loss) -> Family:
    """Return the law whose likelihood the default learner is fitted by."""
    if outcome.is_classes:
        return "bernoulli"
    if loss.name == POISSON.name:
        return "poisson"
    return "gamma" if loss.name == GAMMA.name else "gaussian"


def needs_scaling(learner: EstimatorLike) -> bool:
    """Return whether a learner may be too sure of its probabilities for the log-loss."""
    if not predicts_classes(learner) or isinstance(learner, TemperatureScaled):
        return False
    return not isinstance(final_step(learner), LogisticRegression | LogisticRegressionCV)


def class_column(model: EstimatorLike, label: object, place: int = 1) -> int:
    """Return where the probabilities of a model fitted elsewhere have a class."""
    known = getattr(model, "classes_", None)
    if known is None:
        return place
    classes = classes_in_order(model) if predicts_classes(model) else np.asarray(known).tolist()
    for column, name in enumerate(classes or ()):
        if name == label or str(name) == str(label):
            return column
    shown = ", ".join(map(repr, (classes or [])[:5]))
    raise ValueError(
        f"this {type(model).__name__} tells {shown} apart, and {TARGET} has the class {label!r}: "
        "pass the labels that the model was fitted on"
    )


def _of_one_class(predictor: Predictor, data: Data) -> Predictor:
    """Return a fitted model of classes as what gives the probability of the explained one.

    Functions, networks and sessions give a column for each class, in the order of the classes, or
    the probability of one, which is known for 0 and 1 and must not be guessed elsewhere.
    """
    outcome, model = data.outcome, predictor.model
    label, unnamed = outcome.labels[-1], not outcome.named and outcome.place == 1
    if predicts_classes(model):
        # scikit-learn numbers 0 and 1 alike, whatever it calls them
        return predictor if unnamed else replace(predictor, column=class_column(model, label))
    try:
        answer = predictor.answer(data.matrix[:32])
    except Exception:
        # what cannot be predicted is reported where it is, with its reason
        return predictor
    shape = (1, *answer.shape[1:])
    if shape in ((1,), (1, 1)):
        least, most = NO_PROBABILITY
        beyond = answer[(answer < least) | (answer > most)]
        if len(beyond) and not hasattr(model, "predict"):
            raise ValueError(
                f"{predictor.name} predicts {float(beyond[0]):.4g}, and {TARGET} holds classes: "
                f"one number is the probability of {label!r}, neither its log-odds nor a percentage"
            )
        if unnamed:
            return predictor
        raise ValueError(
            f"{predictor.name} gives one number for each row, and the explained class of {TARGET} "
            f"is {label!r}: pass y as 0 and 1, 1 for the class that the number is the probability "
            f"of, and no {argument('pos_label')}; or a function that gives a column for each class"
        )
    if shape != (1, outcome.among):
        raise ValueError(
            f"{predictor.name} gives an array of shape {shape} for one row, and {TARGET} has "
            f"{outcome.among} classes: a column for each class is needed"
        )
    column = class_column(model, label, outcome.place)
    return replace(predictor, column=column, of_classes=True)


def _check_class_order(predictor: Predictor, outcome: Outcome) -> None:
    """Raise if nothing says which column of a function is of which class."""
    model = predictor.model
    if outcome.sorted or predicts_classes(model) or hasattr(model, "classes_"):
        return
    raise ValueError(
        f"{predictor.name} does not say which of its columns is of which class, and the categories "
        f"of {TARGET} are not in alphabetical order: pass labels in place of categories, e.g. "
        "y.astype(str), and columns in the order of sorted(set(y))"
    )


def _check_sizes(data: Data, cv: SplitsLike) -> None:
    """Raise if there are too few rows that count, or of a class, for the folds."""
    if not isinstance(cv, int | np.integer) or isinstance(cv, bool):
        return
    fit = np.arange(data.table.n_rows) if data.fit is None else data.fit
    counted = fit[data.weights.values[fit] > 0]
    weighted = " of positive weight" if len(counted) < len(fit) else ""
    if weighted and len(counted) < 2 * cv:
        raise ValueError(
            f"{TABLE} has {len(counted)} rows{weighted}, too few for {cv} folds: each fold needs "
            "two or more. Give more rows a weight, or use fewer folds"
        )
    outcome = data.outcome
    if not outcome.is_classes:
        return
    counts = np.bincount(outcome.values[counted].astype(np.intp), minlength=outcome.n_classes)
    rare = int(counts.argmin())
    if counts[rare] < cv:
        n = int(counts[rare])
        name = outcome.classes[rare] if outcome.classes else str(rare)
        fewer = f"use {argument('cv', n)}{' or less' * (n > 2)}, " if n > 1 else ""
        raise ValueError(
            f"class {name!r} of {TARGET} has {n} row{'s' * (n != 1)}{weighted}, fewer than the "
            f"{cv} folds: {fewer}leave its rows out, or join it with another class"
        )


def _of_all_rows(
    repeats: tuple[tuple[Fold, ...], ...], data: Data, seeds: Seeds
) -> tuple[tuple[Fold, ...], ...]:
    """Return folds of the rows that models are fitted on with those that are only held out."""
    if data.fit is None:
        return repeats
    if in_time_order(repeats):
        raise ValueError(
            f"{argument('cv')} splits along time, and {argument('fit_rows')} takes a random sample "
            f"of the rows: leave {argument('fit_rows')} out, or pass a number of folds"
        )
    others = np.setdiff1d(np.arange(data.table.n_rows), data.fit)
    numbers = tickets(data.places_of(others), seeds.child("folds of other rows").sequence())
    return widened(repeats, data.fit, others, numbers)


def _cluster_split(
    estimator: EstimatorLike,
    data: Data,
    cv: SplitsLike,
    n_repeats: int | None,
    loss: Loss,
    seeds: Seeds,
) -> Split:
    """Return the folds of a learner of Dask, or raise for options that it does not honour."""
    check_cluster(estimator, data)
    name = type(estimator).__name__
    if not isinstance(cv, int | np.integer) or isinstance(cv, bool) or cv < 2:
        raise ValueError(
            f"{argument('cv')} is {cv!r}, and folds of {name} are dealt on the workers: pass a "
            "number of folds of 2 or more"
        )
    if n_repeats not in (None, 1):
        raise ValueError(
            f"{argument('n_repeats', n_repeats)} fits {name} that many times on all rows: leave it "
            "at 1"
        )
    if loss.name == LOG_LOSS.name and predicts_classes(local_twin(estimator)):
        raise ValueError(
            f"{argument('loss', 'log-loss')} scales the margins of a classifier on further rows, "
            f"and {name} is fitted on the workers: use {argument('loss', 'brier')}"
        )
    return Split.of(seeds, int(cv))


def _on_margin(predictor: Predictor, fits: Fits) -> tuple[Predictor, Outcome]:
    r"""Return a classifier as its log-odds, with the working response for an outcome.

    :math:`\tilde y = f + (y - p)/\{p (1 - p)\}`, ``p`` the probability and ``f`` its log-odds, has
    the mean ``f`` where the model is right: squared errors of it are scores on this scale.
    """
    outcome = fits.outcome
    if outcome.kind != "binary" or not predicts_classes(predictor.model):
        raise ValueError(
            "scale='margin' explains the log-odds of a classifier of two classes: pass such a "
            "model, or leave scale at 'response'"
        )
    known = outcome.named or outcome.place != 1
    column = class_column(predictor.model, outcome.labels[-1]) if known else 1
    on_margin = replace(predictor, scale="margin", column=column)
    margin = on_margin(fits.table.matrix)
    chance = 1.0 / (1.0 + np.exp(-margin))
    spread = np.maximum(chance * (1.0 - chance), 1e-12)
    response = margin + (outcome.values - chance) / spread
    return on_margin, replace(outcome, values=response, kind="real")


def is_default(learner: EstimatorLike) -> bool:
    """Return whether a learner is the default stack."""
    return isinstance(learner, SuperLearner) and learner.members is None


def _settings(
    estimator: EstimatorLike, cv: SplitsLike, n_repeats: int, random_state: int | None
) -> dict[str, object]:
    return {
        "estimator": estimator, "cv": cv, "n_repeats": n_repeats, "random_state": random_state
    }  # fmt: skip


def _warn_of_classes(model: EstimatorLike) -> None:
    """Say which class a probability is of, where the classes are not 0 and 1 themselves."""
    classes = classes_in_order(model)
    if classes is None or len(classes) != 2 or not predicts_classes(model):
        return
    if classes not in ([0, 1], [False, True]):
        first, second = map(repr, classes)
        warn(
            f"this {type(model).__name__} tells {first} from {second}: the probability of {second} "
            f"is explained, so {TARGET} must be 1 for {second} and 0 for {first}",
            OutcomeWarning,
        )


@validated
def prepare(
    X: TableLike,
    y: VectorLike,
    *,
    estimator: EstimatorLike = "auto",
    cv: SplitsLike = 5,
    n_repeats: int | None = None,
    feature_groups: GroupsLike = None,
    units: UnitsKind = "columns",
    sample_weight: VectorLike = None,
    frequency_weight: VectorLike = None,
    clusters: VectorLike = None,
    missing: Missing = "indicator",
    loss: LossLike = "auto",
    task: Task = "auto",
    pos_label: object = None,
    scale: Scale = "response",
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
    fit_rows: int | None = None,
    explain_rows: int | str | None = None,
    samples: bool = False,
) -> Fits:
    """Read the data and split them once; models are fitted when a method asks for them.

    What comes back is what every method of :mod:`dfi.methods` computes from:
    ``LOCO().compute(prepare(X, y))``. Of a large table that is not in memory some rows are
    gathered, for methods that are about such ``samples``. :func:`dfi.explain` says more of the
    parameters.

    Parameters
    ----------
    samples : bool, default=False
        Whether the methods that will be asked take a sample of the rows of such a table.

    Returns
    -------
    Fits
        What ``compute`` of a method takes.

    Examples
    --------
    >>> import dfi
    >>> sample = dfi.datasets.m1(200, d=3)
    >>> fits = dfi.methods.prepare(sample.X, sample.y, estimator="linear", cv=2)
    >>> dfi.methods.LOCO().compute(fits)["loco"].influence.shape
    (200, 3)
    """
    chosen = resolve_loss(loss)
    given = isinstance(cv, str) and cv == "prefit"
    if scale == "margin" and not (given and chosen is None):
        raise ValueError(
            "scale='margin' describes a fitted classifier by squared errors of its log-odds: pass "
            f"{argument('cv', 'prefit')} and leave {argument('loss')} at 'auto'"
        )
    seeds = Seeds.of(random_state)
    reading: Plain = {
        "groups": feature_groups,
        "units": units,
        "sample_weight": sample_weight,
        "frequency_weight": frequency_weight,
        "missing": missing,
        "task": task,
        "positive": pos_label,
        "counted": chosen is not None and chosen.domain == "positive",
    }
    if is_stream(X):
        cluster = is_cluster_learner(estimator) and not given
        wanted = Wanted(fit_rows, explain_rows, given=given, samples=samples, cluster=cluster)
        check_streamed(cv, clusters)
        data = read_streamed(X, y, wanted, seeds, partial(progress_bar, progress), **reading)
    else:
        data = read_data(X, y, clusters=clusters, **reading)
        data = with_fit_rows(data, fit_rows, seeds, cv=cv, given=given)
    return fits_of(
        data,
        estimator=estimator,
        cv=cv,
        n_repeats=n_repeats,
        loss=chosen,
        scale=scale,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
        seeds=seeds,
    )


def fits_of(
    data: Data,
    *,
    estimator: EstimatorLike = "auto",
    cv: SplitsLike = 5,
    n_repeats: int | None = None,
    loss: Loss | None = None,
    scale: Scale = "response",
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: bool | None = None,
    seeds: Seeds | None = None,
) -> Fits:
    """Split data that were read already, or take a fitted model for them, as ``cv`` says."""
    if data.dropped and not (isinstance(cv, int | np.integer | str) or hasattr(cv, "split")):
        raise ValueError(
            f"{argument('missing', 'drop')} leaves out {data.dropped} rows, so that the row "
            f"numbers in cv are no longer those of {TABLE}: pass a number of folds or a splitter, "
            "or drop the rows first"
        )
    if isinstance(cv, str) and cv != "prefit":
        raise ValueError(f"unknown cv {cv!r}: pass a number of folds, a splitter or 'prefit'")
    if n_repeats is None:
        n_repeats = GROUP_REPEATS if data.joint and isinstance(cv, int) else None
    fit = partial(Fits.cross, cv=cv)
    if isinstance(cv, str):
        fit = partial(Fits.prefit, scale=scale)
    return fit(
        data,
        estimator,
        n_repeats=n_repeats,
        loss=loss,
        random_state=random_state,
        workers=Workers(n_jobs, progress),
        seeds=seeds,
    )
