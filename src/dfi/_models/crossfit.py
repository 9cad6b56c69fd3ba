"""Cross-fitting: for every fold, models fitted on the other rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from joblib import delayed
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from dfi._data.splits import SHARED_FOLDS, is_small
from dfi._learners.stack import LossRisk, Risk, SuperLearner, risk_of, variance_share
from dfi._learners.temperature import VARIANCE_SHARE, ScaleRisk, TemperatureScaled
from dfi._learners.weighted import check_takes_weights, weight_arguments
from dfi._models.learners import predicts_classes
from dfi._models.parallel import gathered, interrupts_raised
from dfi._models.predictor import (
    Predictor,
    brief,
    learner_view,
    missing_remedy,
    predictor_for,
    rows_seen,
)
from dfi._parameters import TARGET, argument
from dfi._threads import blas_of_caller, openmp_limited, single_blas_thread
from dfi.warnings import ExtrapolationWarning, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfi._data.folds import Fold
    from dfi._data.outcome import Outcome, Survival
    from dfi._data.problem import Data
    from dfi._data.seeds import Seeds
    from dfi._data.splits import Training
    from dfi._data.table import Table
    from dfi._data.weights import Weights
    from dfi._types import Advance, Estimator, EstimatorLike, Floats, Ints, SplitsLike

FAR = 1.0
"""How far beyond its training predictions, in units of their range, a linear model may go."""

FAR_COLUMN = 0.5
"""How far outside a column must be for that, in units of its own reach."""

FEWEST_FAR = 20
"""Rows of a training set whose reach says something."""


@dataclass(frozen=True)
class FoldModels:
    """The held-out rows of one fold and the predictors fitted on the others."""

    repeat: int
    test: Ints
    predictors: tuple[Predictor, ...]
    seed: np.random.SeedSequence


@dataclass(frozen=True)
class CrossFit:
    """Models fitted for a :class:`Training`, and the weights of a stack's members."""

    folds: tuple[FoldModels, ...]
    weights: Mapping[tuple[int, int], Floats] = field(default_factory=dict)

    def __add__(self, further: CrossFit) -> CrossFit:
        """Return these models and those of further splits."""
        return CrossFit(self.folds + further.folds, {**self.weights, **further.weights})


def cross_fit(
    learner: Estimator,
    data: Data,
    training: Training,
    *,
    seeds: Seeds,
    n_jobs: int | None = None,
    advance: Advance | None = None,
    weights: Mapping[tuple[int, int], Floats] | None = None,
) -> CrossFit:
    """Fit a clone of the learner on every training set.

    Each set has a seed by name, so results do not depend on scheduling. The members of a
    stack are fitted once: a fold weighs them by their risk on the rows that the other folds of its
    split hold out, so neither its own rows nor further fits are needed. Classifiers that are scaled
    take their temperature from there as well. ``weights``, by split and fold, are taken where they
    are known.
    """
    if data.weighted:
        check_takes_weights(learner)
    several = len({(use.split, use.fold) for use in training.uses}) > len(
        {use.split for use in training.uses}
    )
    weigh = isinstance(learner, SuperLearner) and len(learner.members or ("default",) * 2) > 1
    weigh = weigh and (several or weights is not None)
    scale = isinstance(learner, TemperatureScaled) and (several or weights is not None)
    if scale:
        learner = clone(learner).set_params(fraction=0.0)
    if weigh:
        learner = clone(learner).set_params(n_folds=0)
        if weights is not None:
            used = np.any([found > 0 for found in weights.values()], axis=0)
            learner.set_params(only=tuple(np.flatnonzero(used).tolist()))
    jobs = (
        delayed(_fit_set)(learner, data, rows, seeds.child(*name).sequence())
        for rows, name in training.sets
    )
    # a predictor knows its table, which workers would send back with every model
    predictors = [
        predictor_for(model, data.table, prefit=False) for model in gathered(jobs, n_jobs, advance)
    ]
    if isinstance(learner, SuperLearner) and not weigh and learner.members is not None:
        _warn_of_far_rows(training, predictors, data)
    known: Mapping[tuple[int, int], Floats] = {}
    if scale:
        known = _temperatures(training, predictors, data) if weights is None else weights
        chosen = [
            tuple(_scaled(predictors[k], known[use.split, use.fold]) for k in use.sets)
            for use in training.uses
        ]
    elif not weigh:
        chosen = [tuple(predictors[k] for k in use.sets) for use in training.uses]
    else:
        with single_blas_thread():
            known = _weights(training, predictors, data) if weights is None else weights
        chosen = [
            tuple(_weighted(predictors[k], known[use.split, use.fold]) for k in use.sets)
            for use in training.uses
        ]
    folds = tuple(
        FoldModels(use.repeat, use.test, models, seeds.child(*use.name).sequence())
        for use, models in zip(training.uses, chosen, strict=True)
    )
    return CrossFit(folds, known)


def _warn_of_far_rows(training: Training, predictors: Sequence[Predictor], data: Data) -> None:
    """Say that a linear model predicts a row further outside its training rows than they reach."""
    farthest, row, rows = FAR, -1, np.empty(0, dtype=np.intp)
    for use, k in ((one, k) for one in training.uses for k in one.sets):
        if len(training.sets[k].rows) < FEWEST_FAR:
            continue
        inside = predictors[k](data.matrix[training.sets[k].rows])
        found = predictors[k](data.matrix[use.test])
        # rows of weight 0 decide nothing
        found = np.where(data.weights.values[use.test] > 0, found, inside[0])
        beyond = np.maximum(found - inside.max(), inside.min() - found)
        worst = int(np.argmax(beyond))
        if beyond[worst] > farthest * np.ptp(inside) > 0.0:
            farthest = float(beyond[worst] / np.ptp(inside))
            row, rows = int(use.test[worst]), training.sets[k].rows
    if row < 0:
        return
    trained = data.matrix[rows]
    outside = np.maximum(
        data.matrix[row] - trained.max(axis=0), trained.min(axis=0) - data.matrix[row]
    )
    reach = np.ptp(trained, axis=0)
    share = outside / np.where(reach > 0, reach, np.inf)
    if share.max() < FAR_COLUMN:
        return
    column = data.table.matrix_names[int(np.argmax(share))]
    times = f"{farthest:.1f}" if farthest < 1e4 else f"{farthest:.2g}"
    warn(
        f"a linear model extrapolates far at row {data.label_of(row)}, because of {column!r}: its "
        f"prediction lies {times} times their range outside those of its training rows. One such "
        "row can decide a score: leave it out, take the logarithm of a skewed column, "
        f"or pass {argument('estimator', 'auto')}, whose members stay within their training rows",
        ExtrapolationWarning,
    )


def _fit_set(learner: Estimator, data: Data, rows: Ints, seed: np.random.SeedSequence) -> Estimator:
    return fit_model(learner, data.table, data.outcome, data.fit_weights, rows, seed)


def _weights(
    training: Training, predictors: Sequence[Predictor], data: Data
) -> dict[tuple[int, int], Floats]:
    """Return the weights of the members for each fold of each split, by the risk of the others."""
    used = np.all([p.model.weights_ > 0 for p in predictors], axis=0)
    loss = predictors[0].model.loss
    risks: dict[tuple[int, int], Risk | LossRisk] = {}
    for use in training.uses:
        judged = data.fitting(use.test)
        rows = data.matrix[judged]
        found = [predictors[k].model.member_predictions(rows)[:, used] for k in use.sets]
        mass = data.weights.values[judged]
        share = variance_share(min(len(training.sets[k].rows) for k in use.sets))
        risk = risk_of(loss, data.y[judged], mass, found[0], found[-1], share)
        key = use.split, use.fold
        risks[key] = add(risks[key], risk) if key in risks else risk
    weights = {}
    for split, fold in risks:
        others = [risks[key] for key in risks if key[0] == split and key[1] != fold]
        weights[split, fold] = np.zeros(len(used))
        weights[split, fold][used] = reduce(add, others).weights()
    return weights


def _temperatures(
    training: Training, predictors: Sequence[Predictor], data: Data
) -> dict[tuple[int, int], Floats]:
    """Return the number that scales the classifiers of each fold, by the risk of the others."""
    risks: dict[tuple[int, int], ScaleRisk] = {}
    count = max(2, data.outcome.n_classes)
    for use in training.uses:
        model = predictors[use.sets[0]].model
        judged = data.fitting(use.test)
        codes = data.y[judged].astype(np.intp)
        found = [predictors[k].unscaled(data.matrix[judged]) for k in use.sets]
        risk = ScaleRisk(
            np.eye(count)[codes],
            data.weights.values[judged],
            found[0],
            found[-1],
            model.prevalence_,
            model.gives_shares,
            VARIANCE_SHARE,
        )
        key = use.split, use.fold
        risks[key] = risks[key] + risk if key in risks else risk
    numbers = {}
    for split, fold in risks:
        others = [risks[key] for key in risks if key[0] == split and key[1] != fold]
        numbers[split, fold] = np.array([reduce(add, others).number() if others else 1.0])
    return numbers


def _scaled(predictor: Predictor, number: Floats) -> Predictor:
    return replace(predictor, model=predictor.model.with_scale(float(number[0])))


def _weighted(predictor: Predictor, weights: Floats) -> Predictor:
    return replace(predictor, model=predictor.model.with_weights(weights))


def fit_model(
    learner: Estimator,
    table: Table,
    outcome: Outcome,
    weights: Weights | None,
    rows: Ints,
    seed: np.random.SeedSequence,
) -> Estimator:
    """Fit a clone of the learner on some rows, its unset random states seeded."""
    model = clone(learner)
    seed_estimator(model, seed)
    target: Floats | Ints = outcome.values[rows]
    if predicts_classes(model):
        target = target.astype(np.intp)
        _check_all_classes(target, outcome)
    view = learner_view(model, table)
    X = rows_seen(table, table.matrix[rows], view)
    if view == "values":
        # nothing can be learned from a column that is missing in all of these rows, and
        # scikit-learn's boosting fails on one: any number does
        X = np.where(np.isnan(X).all(axis=0), 0.0, X)
    given: dict[str, Floats | Survival] = {}
    if weights is not None:
        given |= weight_arguments(model, weights.values[rows])
    if outcome.survival is not None and has_fit_parameter(model, "survival"):
        given["survival"] = outcome.survival.take(rows)
    if weights is not None and not weights.values[rows].any():
        raise ValueError(
            f"the weights of all {len(rows)} rows that a model would be fitted on are 0: give "
            "more rows a weight, or use fewer folds"
        )
    try:
        with (
            interrupts_raised(),
            openmp_limited(len(rows) * table.matrix.shape[1]),
            blas_of_caller(),
            # weights are handed on by name, in workers as here, whatever the caller has set
            config_context(enable_metadata_routing=False),
        ):
            fitted = model.fit(X, target, **given)
    except Exception as error:
        gaps = [repr(c.name) for c in table.missing if table.where_missing(c)[rows].any()]
        hint = f". {', '.join(gaps[:5])} have missing values. {missing_remedy()}"
        raise ValueError(
            f"{type(model).__name__} could not be fitted on {len(rows)} rows ({brief(error)})"
            + hint * bool(gaps and view != "matrix")
        ) from error
    # people's own estimators forget to return themselves, and scikit-learn does not ask for it
    return model if fitted is None else fitted


def _check_all_classes(target: Floats | Ints, outcome: Outcome) -> None:
    """Raise if a class is missing from the rows that a classifier is fitted on."""
    count = max(2, outcome.n_classes)
    absent = np.flatnonzero(np.bincount(target.astype(np.intp), minlength=count) == 0)
    if len(absent):
        names = outcome.classes or tuple(map(str, range(count)))
        raise ValueError(
            f"class {names[absent[0]]!r} of {TARGET} has no row among the {len(target)} that a "
            "model is fitted on: leave its rows out, merge it with another, or use fewer folds"
        )


def seed_estimator(model: Estimator, seed: np.random.SeedSequence) -> None:
    """Give every unset ``random_state`` of an estimator, nested ones too, its own seed."""
    unset = sorted(
        key
        for key, value in model.get_params(deep=True).items()
        if (key == "random_state" or key.endswith("__random_state")) and value is None
    )
    states = seed.generate_state(max(1, len(unset)))
    if unset:
        model.set_params(
            **{key: int(state % (2**31 - 1)) for key, state in zip(unset, states, strict=True)}
        )


HALVINGS = 3
"""Halvings of four folds: two and two."""

MOST_ROWS = 5000
"""Rows up to which the default learner's scores are averaged over halvings and extrapolated.

Beyond, a split's spread and a learner's bias are small against what it costs to explain every row
by ten models more.
"""


FIRST_SPLITS, MOST_SPLITS = 2, 4
"""Splits of such a table at first, and at the most."""

SHARED_BY_HALVINGS = 0.5
"""Correlation of scores by halvings of the same split: .45 for scores and .37 for shares, means of
the features of seven tables, 6 splits each."""

ENOUGH_SPLITS = 4
"""With this many splits, their deviation is known as well as from halvings."""

FEWEST_ROWS = 200
"""Rows from which a fifth of them is enough to fit a model, so scores can be extrapolated."""


def is_default(learner: EstimatorLike) -> bool:
    return isinstance(learner, SuperLearner) and learner.members is None


def repeats_and_halvings(
    learner: EstimatorLike, data: Data, cv: SplitsLike, n_repeats: int | None, most_splits: int = 1
) -> tuple[int, tuple[int, ...]]:
    """Return how often rows are split, few of them twice, and the halvings that folds share."""
    shares = is_default(learner) and isinstance(cv, int | np.integer) and cv == SHARED_FOLDS
    if n_repeats is None:
        splits = (
            min(FIRST_SPLITS, most_splits) if is_small(data) and not data.outcome.is_classes else 1
        )
        n_repeats = splits * HALVINGS if shares and data.n_fit <= MOST_ROWS else 1
    counted = isinstance(n_repeats, int | np.integer) and not isinstance(n_repeats, bool)
    if not (shares and counted and n_repeats > 0):
        return n_repeats, ()
    whole, rest = divmod(int(n_repeats), HALVINGS)
    return n_repeats, (HALVINGS,) * whole + (rest,) * bool(rest)


def split_variance(by_repeat: Floats, halvings: Sequence[int]) -> Floats:
    r"""Return the variance that the split of the rows adds to scores averaged over repeats.

    :math:`s_B^2 / S` for ``S`` splits, :math:`s_B` the deviation of their scores. Where training
    rows are halved in several ways (``halvings``, for each split) and splits are few, halvings tell
    more of it: with :math:`w^2` the variance of the scores of ``R`` halvings within splits, and a
    correlation of :math:`\rho` (:data:`SHARED_BY_HALVINGS`) of those of the same split,

    .. math:: s_W^2 = w^2 \left(\frac{S}{R} + \frac{\rho}{1 - \rho}\right), \qquad
              \frac{1}{S} \cdot \frac{(R - S)\, s_W^2 + (S - 1)\, s_B^2}{R - 1}

    weighs both by their degrees of freedom. From :data:`ENOUGH_SPLITS` splits on their own
    deviation tells it alone.
    """
    count = len(by_repeat)
    if count < 2:
        return np.zeros(by_repeat.shape[1])
    if not halvings or count == len(halvings):
        return np.asarray(by_repeat.var(axis=0, ddof=1) / count)
    parts = np.split(by_repeat, np.cumsum(halvings)[:-1])
    splits = len(parts)
    means = np.stack([part.mean(axis=0) for part in parts])
    between = ((means - means.mean(axis=0)) ** 2).sum(axis=0)
    if splits >= ENOUGH_SPLITS:
        return np.asarray(between / (splits - 1) / splits)
    within = sum(((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in parts)
    within *= splits / count + SHARED_BY_HALVINGS / (1.0 - SHARED_BY_HALVINGS)
    return np.asarray((within + between) / (count - 1) / splits)


def can_extrapolate(
    learner: EstimatorLike, data: Data, repeats: tuple[tuple[Fold, ...], ...]
) -> bool:
    """Return whether scores can be extrapolated from models on halves and quarters of the rows."""
    middling = FEWEST_ROWS <= data.n_fit <= MOST_ROWS
    return is_default(learner) and middling and min(map(len, repeats)) > 1
