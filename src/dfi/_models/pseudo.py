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

from dfi._data.folds import Fold
from dfi._models.fits import Fits
from dfi._models.learners import (
    check_learner_suits_outcome,
    is_plain_regressor,
    resolve_learner,
)
from dfi._models.loss_choice import family_of, loss_for
from dfi._models.predictor import predict_once

if TYPE_CHECKING:
    from dfi._data.outcome import Outcome
    from dfi._data.problem import Data
    from dfi._data.weights import Weights
    from dfi._types import Bools, Estimator, EstimatorLike, Floats

FEWEST_OF_ARM = 10
"""Rows of an arm that a model of its outcomes is fitted on at the least."""

MOST_CLIPPED = 0.05
"""Share of clipped propensities above which overlap is poor."""

LEAST_EFFECTIVE = 0.5
"""Share of an arm's rows that its inverse propensities make of it, below which overlap is poor."""


@dataclass(frozen=True, eq=False)
class Nuisances:
    """What pseudo-outcomes are made of, by split and row: NaN where a split does not hold it out.

    ``treated``, ``control``: shape (splits, n), the expected outcome in either arm; ``propensity``:
    shape (splits, n): The probability to be treated, as it was fitted or given.
    """

    treated: Floats
    control: Floats
    propensity: Floats

    def pseudo_outcomes(self, y: Floats, treatment: Floats, clip: float) -> Floats:
        """Return the pseudo-outcome of each row, the mean over splits that hold it out."""
        chance = np.clip(self.propensity, clip, 1.0 - clip)
        values = (
            self.treated
            - self.control
            + treatment * (y - self.treated) / chance
            - (1.0 - treatment) * (y - self.control) / (1.0 - chance)
        )
        return np.asarray(np.nanmean(values, axis=0))


@dataclass(frozen=True)
class Overlap:
    r"""How far treated and untreated rows can be compared.

    ``clip``: propensities are kept between ``clip`` and ``1 - clip``; ``clipped``: share of the
    rows whose propensity was beyond; ``least``, ``most``: range of the propensities before that;
    ``rows``: rows of the control arm and of the treated; ``effective``: how many equally weighted
    rows their inverse propensities make of them, :math:`(\sum_i w_i)^2 / \sum_i w_i^2`; ``left``:
    the same as a share, of what there were without the propensities.
    """

    clip: float
    clipped: float
    least: float
    most: float
    rows: tuple[float, float]
    effective: tuple[float, float]
    left: tuple[float, float]

    @classmethod
    def of(cls, propensity: Floats, treatment: Floats, weights: Weights, clip: float) -> Overlap:
        """Measure the overlap by propensities of shape (splits, n)."""
        counted = weights.values > 0
        chance, arm = propensity[:, counted], treatment[counted] == 1.0
        known = ~np.isnan(chance)
        mass = np.broadcast_to(weights.values[counted], chance.shape)
        outside = (chance < clip) | (chance > 1.0 - clip)
        own = np.where(arm, chance, 1.0 - chance)
        inverse = 1.0 / np.clip(own, clip, 1.0 - clip)
        sizes = []
        for chosen in (~arm, arm):
            of_arm = weights.take(np.flatnonzero(counted)[chosen])
            plain = _effective(np.ones(int(chosen.sum())), of_arm)
            found = np.nanmean([_effective(row[chosen], of_arm) for row in inverse])
            sizes.append((of_arm.total, float(found), float(found) / plain))
        (n0, m0, s0), (n1, m1, s1) = sizes
        return cls(
            clip=clip,
            clipped=float(mass[known & outside].sum() / mass[known].sum()),
            least=float(np.nanmin(chance)),
            most=float(np.nanmax(chance)),
            rows=(n0, n1),
            effective=(m0, m1),
            left=(s0, s1),
        )

    @property
    def poor(self) -> bool:
        """Whether effects rest on few rows, or on a bound."""
        return self.clipped > MOST_CLIPPED or min(self.left) < LEAST_EFFECTIVE

    @property
    def words(self) -> str:
        """What was found, in words."""
        (n0, n1), (m0, m1) = self.rows, self.effective
        return (
            f"propensities lie between {self.least:.3f} and {self.most:.3f}, "
            f"{100.0 * self.clipped:.1f} % of the rows are clipped to [{self.clip:g}, "
            f"{1.0 - self.clip:g}], and weighted by them the {n1:,.0f} treated rows count as "
            f"{m1:,.0f}, the {n0:,.0f} others as {m0:,.0f}"
        )

    def as_dict(self) -> dict[str, object]:
        """Return what a result tells."""
        return {
            "clip": self.clip,
            "clipped": self.clipped,
            "least": self.least,
            "most": self.most,
            "treated": {"rows": self.rows[1], "effective": self.effective[1]},
            "control": {"rows": self.rows[0], "effective": self.effective[0]},
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
    treatment: Outcome,
    *,
    outcome_model: EstimatorLike = "auto",
    propensity: EstimatorLike | Floats = "auto",
) -> Nuisances:
    """Fit outcome regressions of both arms and the propensity on the folds of ``fits``."""
    arm = treatment.values == 1.0
    require_every_row(fits, "effects")
    data = replace(fits.data, outcome=outcome)
    learner = _learner("outcome_model", outcome_model, outcome)
    _require_arms(fits, arm, outcome, treatment)
    means = [
        _predicted(fits, _of_arm(data, chosen), learner, name, chosen)
        for chosen, name in ((arm, "treated"), (~arm, "control"))
    ]
    if isinstance(propensity, np.ndarray):
        known = np.where(np.isnan(means[0]), np.nan, propensity)
        return Nuisances(means[0], means[1], known)
    chooser = _learner("propensity_model", propensity, treatment)
    chance = _predicted(fits, replace(data, outcome=treatment), chooser, "propensity")
    return Nuisances(means[0], means[1], chance)


def _learner(parameter: str, estimator: EstimatorLike, outcome: Outcome) -> Estimator:
    """Return the learner that a parameter stands for; messages name the parameter."""
    loss = loss_for(outcome, None)
    try:
        learner = resolve_learner(estimator, family_of(outcome, loss), loss)
        if parameter == "propensity_model" and is_plain_regressor(learner):
            name = type(learner).__name__
            raise ValueError(  # noqa: TRY301
                f"{name} is a regressor, and the treatment has two arms: pass a classifier with "
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
    models = Fits(
        data,
        learner,
        repeats,
        fits.seeds.child("nuisance", name),
        workers=fits.workers,
        loss=loss_for(data.outcome, None),
    )
    values = np.full((len(repeats), data.table.n_rows), np.nan)
    for fold in models.full:
        values[fold.repeat, fold.test] = predict_once(fold.predictors[0], data.matrix[fold.test])
    return values


def require_every_row(fits: Fits, what: str) -> None:
    """Raise if a row is never held out: it has no pseudo-outcome that a model could learn from."""
    absent = np.setdiff1d(np.arange(fits.table.n_rows), fits.rows)
    if len(absent):
        raise ValueError(
            f"cv never holds out {len(absent)} of {fits.table.n_rows} rows (the first is row "
            f"{absent[0]}), and {what} needs a pseudo-outcome of every row: pass a number of "
            "folds, or a splitter that holds out every row once"
        )


def _require_arms(fits: Fits, arm: Bools, outcome: Outcome, treatment: Outcome) -> None:
    """Raise if a fold has too few rows of an arm, or only one class of its outcomes."""
    counted = fits.weights.values > 0
    for fold in fits.folds:
        for label, chosen in zip(treatment.classes, (~arm & counted, arm & counted), strict=True):
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
                    "on, and a classifier needs both classes: use fewer folds, or "
                    "task='regression', which takes y as numbers"
                )
