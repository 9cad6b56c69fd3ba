r"""Doubly robust pseudo-outcomes of a treatment, fitted on the folds that explain them.

With outcome regressions :math:`\mu_1, \mu_0` of the two arms and the propensity
:math:`e(x) = P(T = 1 \mid x)`,

.. math:: \psi = \mu_1(x) - \mu_0(x) + \frac{T\,\{y - \mu_1(x)\}}{e(x)}
                 - \frac{(1 - T)\,\{y - \mu_0(x)\}}{1 - e(x)}

has :math:`E[\psi \mid x] = \tau(x) + b(x)`, where :math:`\tau` is the effect and :math:`b` the
product of the errors of :math:`e` and of :math:`\mu`: none where either of them is right. All of
them are fitted on the training rows of a fold and evaluated on the rows that it holds out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler

from dfi._data.folds import Fold
from dfi._data.outcome import Outcome
from dfi._models.fits import Fits
from dfi._models.learners import (
    check_learner_suits_outcome,
    family_of,
    is_plain_regressor,
    loss_for,
    resolve_learner,
)
from dfi._models.predictor import predict_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.problem import Data
    from dfi._data.treatment import Arms
    from dfi._data.weights import Weights
    from dfi._types import Bools, Estimator, EstimatorLike, Floats

FEWEST_OF_ARM = 10
"""Fewest rows of an arm to fit a model of its outcomes on."""

MOST_CLIPPED = 0.05
"""Share of clipped propensities above which overlap is poor."""

LEAST_EFFECTIVE = 0.5
"""If inverse propensities cut an arm's effective size below this share, overlap is poor."""


@dataclass(frozen=True, eq=False)
class Nuisances:
    """Means and chances by arm, split and row, shape (arms, splits, n); NaN if not held out."""

    means: Floats
    chances: Floats

    def pseudo_outcomes(
        self, y: Floats, codes: Floats, pair: tuple[int, int], clip: float
    ) -> Floats:
        """Return the pseudo-outcome of a pair of arms, the mean over splits that hold a row out."""
        treated, control = (
            self.means[arm]
            + (codes == arm) * (y - self.means[arm]) / np.clip(self.chances[arm], clip, 1.0 - clip)
            for arm in pair
        )
        return np.asarray(np.nanmean(treated - control, axis=0))


@dataclass(frozen=True)
class Overlap:
    r"""How comparable the rows of the arms are.

    ``clipped``: share of rows with a propensity outside of ``clip`` and ``1 - clip``; ``least``,
    ``most``: their range before, of two arms that of the treated; ``effective``: rows that inverse
    propensities make of an arm, :math:`(\sum_i w_i)^2 / \sum_i w_i^2`; ``left``: the same as a
    share.
    """

    clip: float
    clipped: float
    least: float
    most: float
    labels: tuple[str, ...]
    rows: tuple[float, ...]
    effective: tuple[float, ...]
    left: tuple[float, ...]

    @classmethod
    def of(
        cls, chances: Floats, codes: Floats, labels: Sequence[str], weights: Weights, clip: float
    ) -> Overlap:
        counted = weights.values > 0
        chances, arm = chances[:, :, counted], codes[counted]
        known = ~np.isnan(chances[0])
        mass = np.broadcast_to(weights.values[counted], known.shape)
        outside = chances.min(axis=0) < clip
        inverse = 1.0 / np.clip(chances, clip, 1.0 - clip)
        sizes = []
        for code in range(len(chances)):
            chosen = arm == code
            of_arm = weights.take(np.flatnonzero(counted)[chosen])
            plain = _effective(np.ones(int(chosen.sum())), of_arm)
            found = np.nanmean([_effective(row[chosen], of_arm) for row in inverse[code]])
            sizes.append((of_arm.total, float(found), float(found) / plain))
        rows, effective, left = zip(*sizes, strict=True)
        shown = chances[1:] if len(chances) == 2 else chances
        return cls(
            clip=clip,
            clipped=float(mass[known & outside].sum() / mass[known].sum()),
            least=float(np.nanmin(shown)),
            most=float(np.nanmax(shown)),
            labels=tuple(labels),
            rows=rows,
            effective=effective,
            left=left,
        )

    @property
    def poor(self) -> bool:
        return self.clipped > MOST_CLIPPED or min(self.left) < LEAST_EFFECTIVE

    @property
    def words(self) -> str:
        sizes = list(zip(self.labels, self.rows, self.effective, strict=True))
        if len(sizes) == 2:
            (_, n0, m0), (_, n1, m1) = sizes
            counts = (
                f"the {n1:,.0f} treated rows count as {m1:,.0f}, the {n0:,.0f} others as {m0:,.0f}"
            )
        else:
            counts = ", ".join(f"the {n:,.0f} of {name} count as {m:,.0f}" for name, n, m in sizes)
        return (
            f"propensities lie between {self.least:.3f} and {self.most:.3f}, "
            f"{100.0 * self.clipped:.1f} % of the rows are clipped to [{self.clip:g}, "
            f"{1.0 - self.clip:g}], and weighted by them {counts}"
        )

    def as_dict(self) -> dict[str, object]:
        names = ("control", "treated") if len(self.labels) == 2 else self.labels
        return {
            "clip": self.clip,
            "clipped": self.clipped,
            "least": self.least,
            "most": self.most,
            **{
                name: {"rows": rows, "effective": effective}
                for name, rows, effective in zip(names, self.rows, self.effective, strict=True)
            },
            "poor": self.poor,
            "words": self.words,
        }


def _effective(inverse: Floats, weights: Weights) -> float:
    """Return how many equal rows weighted ones are worth; a row of count ``w`` is ``w`` rows."""
    known = ~np.isnan(inverse)
    inverse, mass = inverse[known], weights.values[known]
    squares = mass if weights.kind == "frequency" else mass**2
    below = float(squares @ inverse**2)
    return float(mass @ inverse) ** 2 / below if below > 0 else float("nan")


def fit_nuisances(
    fits: Fits,
    outcome: Outcome,
    arms: Arms,
    *,
    outcome_model: EstimatorLike = "auto",
    propensity: EstimatorLike | Floats = "auto",
) -> Nuisances:
    """Fit outcome regressions and propensities of all arms; known ones have the shape (arms, n)."""
    treatment = arms.outcome
    two = len(arms.labels) == 2
    require_every_row(fits, "effects")
    data = replace(fits.data, outcome=outcome)
    learner = _learner("outcome_model", outcome_model, outcome)
    chosen = [treatment.values == code for code in range(len(arms.labels))]
    _require_arms(fits, chosen, outcome, treatment)
    names = ("control", "treated") if two else tuple(f"arm {name}" for name in treatment.classes)
    # the treated first: seeds go by name, and bars of progress by order
    means = np.stack(
        [
            _predicted(fits, _of_arm(data, rows), learner, name, rows)
            for rows, name in zip(chosen[::-1], names[::-1], strict=True)
        ][::-1]
    )
    if isinstance(propensity, np.ndarray):
        known = np.broadcast_to(propensity[:, None, :], means.shape)
        return Nuisances(means, np.where(np.isnan(means[0]), np.nan, known))
    chooser = _learner("propensity_model", propensity, treatment)
    whole = replace(data, outcome=treatment)
    if two:
        chance = _predicted(fits, whole, chooser, "propensity")
        return Nuisances(means, np.stack([1.0 - chance, chance]))
    chances = _of_classes(fits, whole, chooser)
    return Nuisances(means, chances / chances.sum(axis=0))


@dataclass(frozen=True, eq=False)
class DoseNuisances:
    """Means of outcome and dose, (splits, n), the dose's variance, a first slope."""

    outcome: Floats
    dose: Floats
    variance: Floats
    slope: Floats

    def pseudo_outcomes(self, y: Floats, dose: Floats) -> Floats:
        r"""Return :math:`\theta + (t - e)(y - m - \theta (t - e))/v`, the mean over splits."""
        beyond = dose - self.dose
        error = y - self.outcome - self.slope * beyond
        return np.asarray(np.nanmean(self.slope + beyond * error / self.variance, axis=0))


def fit_dose(
    fits: Fits,
    outcome: Outcome,
    dose: Outcome,
    *,
    clip: float,
    outcome_model: EstimatorLike = "auto",
    propensity: EstimatorLike = "auto",
) -> DoseNuisances:
    """Fit outcome and dose, then the dose's variance and its effect, linear in the columns."""
    require_every_row(fits, "effects")
    data = replace(fits.data, outcome=outcome)
    mean = _predicted(fits, data, _learner("outcome_model", outcome_model, outcome), "outcome")
    chooser = _learner("propensity_model", propensity, dose)
    found = _predicted(fits, replace(data, outcome=dose), chooser, "dose")
    beyond = dose.values - np.nanmean(found, axis=0)
    squared = Outcome(beyond**2, "variance", "real")
    variance = _predicted(fits, replace(data, outcome=squared), chooser, "variance")
    average = float(fits.weights.mean(squared.values)[0])
    if not average > clip * float(np.var(dose.values)):
        raise ValueError(
            f"the columns of X determine the dose {dose.name!r} up to "
            f"{average / np.var(dose.values):.2g} of its variance: similar rows have the same "
            "dose, so there is nothing to compare; leave out columns that only predict the dose"
        )
    rest = outcome.values - np.nanmean(mean, axis=0)
    slope = np.full(mean.shape, np.nan)
    matrix = fits.data.matrix
    for split, folds in enumerate(fits.repeats):
        for fold in folds:
            train = fold.train[fits.weights.values[fold.train] > 0]
            scaled = StandardScaler().fit(matrix[train])
            both = [
                np.column_stack([np.ones(len(rows)), scaled.transform(matrix[rows])])
                for rows in (train, fold.test)
            ]
            ridge = RidgeCV(alphas=SLOPE_PENALTIES, fit_intercept=False)
            ridge.fit(both[0] * beyond[train, None], rest[train], fits.weights.values[train])
            slope[split, fold.test] = both[1] @ ridge.coef_
    return DoseNuisances(mean, found, np.maximum(variance, clip * average), slope)


SLOPE_PENALTIES = tuple(10.0**k for k in range(-2, 6))
"""Ridge penalties of the first guess of a dose's effect."""


def _learner(parameter: str, estimator: EstimatorLike, outcome: Outcome) -> Estimator:
    """Return the learner that a parameter stands for; messages name the parameter."""
    loss = loss_for(outcome, None)
    try:
        learner = resolve_learner(estimator, family_of(outcome, loss), loss)
        if parameter == "propensity_model" and outcome.is_classes and is_plain_regressor(learner):
            name = type(learner).__name__
            raise ValueError(  # noqa: TRY301
                f"{name} is a regressor, but the treatment has arms: pass a classifier with "
                "predict_proba, a name such as 'boosting', or known probabilities"
            )
        check_learner_suits_outcome(learner, outcome)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{parameter}: {error}") from None
    return learner


def _of_arm(data: Data, chosen: Bools) -> Data:
    """Return data in which only one arm counts: members of a stack are weighed by its rows."""
    values = np.where(chosen, data.weights.values, 0.0)
    return replace(data, weights=replace(data.weights, values=values))


def _predicted(
    fits: Fits, data: Data, learner: Estimator, name: str, chosen: Bools | None = None
) -> Floats:
    """Return the predictions of held-out rows by models of (chosen) training rows, by split."""
    repeats = fits.repeats
    if chosen is not None:
        repeats = tuple(
            tuple(Fold(fold.train[chosen[fold.train]], fold.test) for fold in folds)
            for folds in repeats
        )
    values = np.full((len(repeats), data.table.n_rows), np.nan)
    for fold in _fits(fits, data, learner, name, repeats).full:
        values[fold.repeat, fold.test] = predict_once(fold.predictors[0], data.matrix[fold.test])
    return values


def _fits(
    fits: Fits, data: Data, learner: Estimator, name: str, repeats: tuple[tuple[Fold, ...], ...]
) -> Fits:
    seeds, loss = fits.seeds.child("nuisance", name), loss_for(data.outcome, None)
    return Fits(data, learner, repeats, seeds, workers=fits.workers, loss=loss)


def require_every_row(fits: Fits, what: str) -> None:
    """Raise if a row is never held out, because it would have no pseudo-outcome."""
    absent = np.setdiff1d(np.arange(fits.table.n_rows), fits.rows)
    if len(absent):
        raise ValueError(
            f"cv never holds out {len(absent)} of {fits.table.n_rows} rows (the first is row "
            f"{absent[0]}), but {what} needs a pseudo-outcome of every row: pass a number of "
            "folds, or a splitter that holds out every row once"
        )


def _of_classes(fits: Fits, data: Data, learner: Estimator) -> Floats:
    models = _fits(fits, data, learner, "propensity", fits.repeats)
    shape = (len(data.outcome.classes), len(fits.repeats), data.table.n_rows)
    values = np.full(shape, np.nan)
    for arm, member in enumerate(models.members):
        for fold in member.full:
            found = predict_once(fold.predictors[0], data.matrix[fold.test])
            values[arm, fold.repeat, fold.test] = np.maximum(found, 1e-12)
    return values


def _require_arms(fits: Fits, arms: Sequence[Bools], outcome: Outcome, treatment: Outcome) -> None:
    counted = fits.weights.values > 0
    for fold in fits.folds:
        for label, rows in zip(treatment.classes, arms, strict=True):
            chosen = rows & counted
            train = fold.train[chosen[fold.train]]
            where = f"{treatment.name} = {label}"
            if len(train) < FEWEST_OF_ARM or not chosen[fold.test].any():
                raise ValueError(
                    f"the arm {where} has {int(chosen.sum())} rows, of which a fold trains on "
                    f"{len(train)} and holds out {int(chosen[fold.test].sum())}: at least "
                    f"{FEWEST_OF_ARM} to train on and 1 to hold out are needed; use fewer folds, "
                    "or more rows of this arm"
                )
            if outcome.kind == "binary" and len(np.unique(outcome.values[train])) < 2:
                only = outcome.classes[int(outcome.values[train[0]])]
                raise ValueError(
                    f"y is {only!r} in all {len(train)} rows of the arm {where} that a fold trains "
                    "on, but a classifier needs both classes: use fewer folds, or "
                    "task='regression', which takes y as numbers"
                )
