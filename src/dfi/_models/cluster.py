"""Learners that Dask fits on all rows of a table, in place, then used as local models.

Which fold a row belongs to, and which half of the training rows, is told by tickets of its place:
nothing but these two numbers is needed to know on which rows a model is fitted, on any worker.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone

from dfi._data.folds import Fold
from dfi._data.source import tickets
from dfi._models.crossfit import CrossFit, FoldModels, seed_estimator
from dfi._models.learners import predicts_classes
from dfi._models.predictor import Predictor, View, learner_view, predictor_for, rows_seen
from dfi._parameters import argument
from dfi._streams.cluster import DaskParts, current_client
from dfi._streams.streamed import Encoder, StreamedSource
from dfi.losses import LOG_LOSS, Loss

if TYPE_CHECKING:
    from dfi._data.problem import Data
    from dfi._data.seeds import Seeds
    from dfi._data.splits import Training
    from dfi._data.table import Table
    from dfi._types import (
        Advance,
        Array,
        Bools,
        Estimator,
        EstimatorLike,
        Floats,
        Frame,
        Ints,
        Native,
        SplitsLike,
    )


def is_cluster_learner(estimator: object) -> bool:
    return type(estimator).__module__.startswith(("xgboost.dask", "lightgbm.dask"))


def local_twin(estimator: Estimator) -> Estimator:
    """Return the unfitted in-memory estimator with the same parameters."""
    module, name = type(estimator).__module__.split(".")[0], type(estimator).__name__
    kind = getattr(importlib.import_module(module), name.removeprefix("Dask"), None)
    if kind is None or not name.endswith(("Regressor", "Classifier")):
        raise TypeError(
            f"{name} is neither a regressor nor a classifier: pass Dask...Regressor "
            "or ...Classifier"
        )
    parameters = {k: v for k, v in estimator.get_params().items() if k != "client"}
    return kind(**parameters)


@dataclass(frozen=True)
class TicketSplit:
    """The folds of a table, and the halves of what they are trained on, by tickets."""

    fold_seed: np.random.SeedSequence
    half_seed: np.random.SeedSequence
    n_folds: int

    @classmethod
    def of(cls, seeds: Seeds, n_folds: int) -> TicketSplit:
        fold, half = seeds.child("split"), seeds.child("halves")
        return cls(fold.sequence(), half.sequence(), n_folds)

    def folds(self, places: Ints) -> tuple[Fold, ...]:
        own = tickets(places, self.fold_seed) % np.uint64(self.n_folds)
        return tuple(
            Fold(np.flatnonzero(own != k), np.flatnonzero(own == k)) for k in range(self.n_folds)
        )

    def trains(self, places: Ints, fold: int, half: int | None) -> Bools:
        """Return which rows the model of a fold, or of a half of its training rows, learns from."""
        used = tickets(places, self.fold_seed) % np.uint64(self.n_folds) != np.uint64(fold)
        if half is not None:
            used &= tickets(places, self.half_seed) % np.uint64(2) == np.uint64(half)
        return np.asarray(used)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What is taken of a partition: the rows of a training set as a model sees them."""

    encoder: Encoder
    table: Table
    view: View
    split: TicketSplit
    fold: int
    half: int | None

    def __call__(self, part: Frame, first: int, name: str) -> tuple[Floats, Floats, Floats]:
        found: list[tuple[Array, Floats, Floats]] = []
        for block in self.encoder.blocks(part, first, name):
            used = self.split.trains(block.places, self.fold, self.half)
            rows = rows_seen(self.table, block.matrix[used], self.view)
            found.append((np.asarray(rows, dtype=np.float64), block.y[used], block.mass[used]))
        matrices, outcomes, masses = zip(*found, strict=True)
        return np.concatenate(matrices), np.concatenate(outcomes), np.concatenate(masses)


def check_cluster(estimator: Estimator, data: Data) -> StreamedSource:
    name = type(estimator).__name__
    source = data.source
    if not isinstance(source, StreamedSource) or not isinstance(source.partitions, DaskParts):
        raise TypeError(
            f"{name} is fitted on Dask tables of more than 20,000 rows, and X is not one: pass "
            f"{name.removeprefix('Dask')}, or a dask.dataframe"
        )
    if current_client() is None:
        raise ValueError(
            f"{name} is fitted on the workers of dask.distributed, but there is no Client: open "
            f"one, or pass {name.removeprefix('Dask')}"
        )
    return source


def cluster_fit(
    estimator: Estimator,
    data: Data,
    training: Training,
    split: TicketSplit,
    *,
    seeds: Seeds,
    advance: Advance | None = None,
) -> CrossFit:
    source = check_cluster(estimator, data)
    halves = len(training.sets) > len(training.uses)
    predictors = []
    for number, (_, name) in enumerate(training.sets):
        fold, half = divmod(number, 2) if halves else (number, None)
        rows = _arrays(source, data.table, local_twin(estimator), split, fold, half)
        predictors.append(_fitted(estimator, data, rows, seeds.child(*name).sequence()))
        if advance is not None:
            advance(1)
    folds = tuple(
        FoldModels(
            use.repeat,
            use.test,
            tuple(predictors[k] for k in use.sets),
            seeds.child(*use.name).sequence(),
        )
        for use in training.uses
    )
    return CrossFit(folds)


def _arrays(
    source: StreamedSource,
    table: Table,
    learner: Estimator,
    split: TicketSplit,
    fold: int,
    half: int | None,
) -> tuple[Native, Native, Native]:
    dask, da = importlib.import_module("dask"), importlib.import_module("dask.array")
    view = learner_view(learner, table)
    # a table of no rows: what workers need of it are its columns
    like = table.without_rows()
    work = _Rows(source.encoder, like, view, split, fold, half)
    width = rows_seen(like, like.matrix, view).shape[1]
    shared = dask.delayed(work, pure=False, traverse=False)
    parts = source.partitions.delayed(source.encoder.roles.columns)  # type: ignore[attr-defined]
    ends = [*source.starts[1:].tolist(), source.n_rows]
    arrays: list[list[Native]] = [[], [], []]
    for number, (part, first, end) in enumerate(zip(parts, source.starts, ends, strict=True)):
        count = int(split.trains(np.arange(first, end, dtype=np.intp), fold, half).sum())
        if not count:
            continue
        rows = shared(part, int(first), f"partition {number}")
        for k, shape in enumerate([(count, width), (count,), (count,)]):
            arrays[k].append(da.from_delayed(rows[k], shape, dtype=np.float64))
    X, y, mass = (da.concatenate(own, axis=0) for own in arrays)
    return X, y, mass


def _fitted(
    estimator: Estimator,
    data: Data,
    rows: tuple[Native, Native, Native],
    seed: np.random.SeedSequence,
) -> Predictor:
    X, y, mass = rows
    model = _unfitted(estimator)
    seed_estimator(model, seed)
    if predicts_classes(model):
        y = y.astype(np.intp)
    weights = {"sample_weight": mass} if data.weighted else {}
    # the same rows for all passes of the fit, and gone from the workers afterwards
    dask = importlib.import_module("dask")
    X, y, *others = dask.persist(X, y, *weights.values())
    model.fit(X, y, **dict(zip(weights, others, strict=True)))
    return predictor_for(_local(model), data.table, prefit=False)


def _unfitted(estimator: Estimator) -> Estimator:
    """Return a copy that belongs to no Client: the one that is current is used."""
    if "client" in estimator.get_params():
        parameters = {**estimator.get_params(), "client": None}
        return type(estimator)(**parameters)
    return clone(estimator)


def _local(model: Estimator) -> Estimator:
    if hasattr(model, "to_local"):
        return model.to_local()
    local = local_twin(model)
    local.load_model(bytearray(model.get_booster().save_raw("ubj")))
    return local


def cluster_split(
    estimator: EstimatorLike,
    data: Data,
    cv: SplitsLike,
    n_repeats: int | None,
    loss: Loss,
    seeds: Seeds,
) -> TicketSplit:
    check_cluster(estimator, data)
    name = type(estimator).__name__
    if not isinstance(cv, int | np.integer) or isinstance(cv, bool) or cv < 2:
        raise ValueError(
            f"{argument('cv')} is {cv!r}, but the workers make the folds of {name}: pass a number "
            "of folds, 2 or more"
        )
    if n_repeats not in (None, 1):
        raise ValueError(
            f"{argument('n_repeats', n_repeats)} fits {name} that many times on all rows: leave it "
            "at 1"
        )
    if loss.name == LOG_LOSS.name and predicts_classes(local_twin(estimator)):
        raise ValueError(
            f"{argument('loss', 'log-loss')} scales the margins of a classifier on extra rows, "
            f"but {name} is fitted on the workers: use {argument('loss', 'brier')}"
        )
    return TicketSplit.of(seeds, int(cv))
