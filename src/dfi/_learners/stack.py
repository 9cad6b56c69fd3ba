r"""The default learner: a stack of the mean, a ridge, a polynomial, networks and boosting.

It is made for the cross form of scores, in which a learner's variance cancels between two models
fitted on disjoint rows and its bias stays. So members follow the rows closely, and their weights
minimise the **cross risk** on held-out rows and a share :math:`\kappa` of what the squared error
adds to it,

.. math:: \min_w \; (1 - \kappa) \sum_i \omega_i (y_i - w'f^a(x_i)) (y_i - w'f^b(x_i))
          + \tfrac{\kappa}{2} \sum_i \omega_i \{(y_i - w'f^a(x_i))^2 + (y_i - w'f^b(x_i))^2\},
          \qquad w \ge 0, \; \textstyle\sum_k w_k = 1,

:math:`f^a, f^b` the members fitted on two halves. The mean of the first sum is the noise plus the
squared *bias* of the stack, that of the second has its variance too, which the cross risk alone
leaves to the intervals. :math:`\kappa` is a half, and more where halves have fewer than 80 rows
(:func:`variance_share`): there weights go to members that vary little, the mean and the ridge among
them. A stack that is fitted alone, without a partner,
takes the squared error of an inner cross-validation in its place.

Where times to an event are behind the outcome, what a Cox regression expects is one more member
(:class:`~dfi._learners.cox.CoxMean`).

Outcomes of a family (:mod:`dfi._learners.families`) have members that are probabilities or rates,
each fitted by the family's likelihood. Where the explained loss is not a square, the products and
squares of errors above are what two models lose together and each alone
(:class:`~dfi.losses.Loss`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from dfi._learners.boosting import Boosted, BoostedResiduals, LeastSquaresBoosting, ObliqueBoosting
from dfi._learners.cox import CoxMean
from dfi._learners.families import Link
from dfi._learners.glm import LinkedQuadratic, LinkedRidge
from dfi._learners.linked import (
    BoostedMargins,
    LinkedBoosting,
    LinkedNetwork,
    LinkedObliqueBoosting,
)
from dfi._learners.network import BentHingeNetwork
from dfi._learners.quadratic import BoundedRidge, QuadraticRidge
from dfi._learners.weighted import weight_arguments
from dfi._threads import single_blas_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from dfi._data.outcome import Survival
    from dfi._learners.families import Family
    from dfi._types import Bools, Estimator, Floats
    from dfi.losses import Loss

    Members = list[tuple[str, Estimator]]

VARIANCE_SHARE = 0.5
"""How much of the members' variance counts in their risk beside their squared bias.

Out-of-fold R2 of the stack with 0.25, 0.5, 0.75 and 1: .584, .598, .601 and .600, the mean of 21
tables of 47 to 442 rows (``benchmarks/members.py``), three splits each."""

STEADY_ROWS = 40
"""Training rows up to which the variance counts fully."""

# What non-negative least squares leaves of a useless member is 0 or a last digit, by processor.
_LEAST_WEIGHT = 1e-8

STIFF_ROWS = 2000
"""Training rows up to which a stiff network is worth its time: a signal that many rows find is not
weak."""

_LEAST_CURVATURE = 1e-3
"""Directions of the weights below this share of the largest variance count as noise."""

_FLAT = 1e-7
"""The same for a Newton step, which is halved where it goes too far."""

_MOST_STEPS = 50
_STILL = 1e-7
"""Change of all weights at which the search for those of a loss that is not a square ends."""

_NOTHING = 1e-12
"""Relative decrease of a risk that may be rounding, and differ by processor."""

_EQUAL = 1e-10
"""Relative difference of members that is rounding."""

_NEAR = 1e-5
"""Relative difference of two predictions below which they are one to a derivative."""

_LEAST_SHARE = 1e-5
"""Weight that such a search may leave for a useless member."""


class MeanOutcome(RegressorMixin, BaseEstimator):
    """The mean of the training rows: the fallback if nothing can be learned."""

    coef_: Floats
    intercept_: float

    def __init__(self, *, family: Family = "gaussian") -> None:
        self.family = family

    def fit(self, X: Floats, y: Floats, sample_weight: Floats | None = None) -> Self:
        self.n_features_in_ = np.shape(X)[1]
        self.coef_ = np.zeros(self.n_features_in_)
        self.intercept_ = float(np.average(y, weights=sample_weight))
        if self.family != "gaussian":
            link = Link(self.family)
            weight = np.ones(len(y)) if sample_weight is None else sample_weight
            self.intercept_ = float(link.mean(np.array(link.null(y, weight)[0])))
        return self

    def predict(self, X: Floats) -> Floats:
        check_is_fitted(self, "intercept_")
        return np.full(len(X), self.intercept_)


def default_members(random_state: int) -> Members:
    """Return the stack's members: none goes far beyond the range of its training rows.

    Six models of the kinds in ``benchmarks/coverage_models.py``, 500 rows, 11 samples each:
    intervals of nominal 90 % covered .79 on average without the stiff network, which is for weak
    signals, .83 with it, and .82 without the polynomial; extrapolated .88, all by the cross risk
    alone. Randomised trees gained nothing, at four times the cost of boosting.
    """
    quadratic = QuadraticRidge()
    network = BentHingeNetwork(random_state=random_state)
    boosting = LeastSquaresBoosting()
    return [
        ("mean", MeanOutcome()),
        ("ridge", BoundedRidge()),
        ("quadratic", quadratic),
        ("network", network),
        ("boosting", boosting),
        ("boosted quadratic", BoostedResiduals(base=quadratic, boosting=boosting)),
        ("boosted network", BoostedResiduals(base=network, boosting=boosting)),
        ("oblique boosting", ObliqueBoosting()),
        (
            "stiff network",
            BentHingeNetwork(penalty=15.0, most_rows=STIFF_ROWS, random_state=random_state),
        ),
    ]


def family_members(family: Family, random_state: int) -> Members:
    """Return the stack's members behind a link, for classes, counts or positive quantities.

    Judged by what two stacks of 400 rows lose together on six models of classes, 3 samples each:
    .019 nats in the place of .014 on a product with a step without boosting after the polynomial,
    .017 in the place of .013 on a cosine without oblique boosting. Boosting after the network
    changed nothing by more than .001, and its line means are the costliest. The same models chose
    the members, so these figures lean towards the stack; counts and positive quantities took the
    settings of classes over untuned.
    """
    quadratic = LinkedQuadratic(family=family, bounded=True)
    network = LinkedNetwork(family=family, random_state=random_state)
    boosting = LinkedBoosting(family=family)
    stiff = LinkedNetwork(
        family=family, penalty=50.0, most_rows=STIFF_ROWS, random_state=random_state
    )
    return [
        ("mean", MeanOutcome(family=family)),
        ("ridge", LinkedRidge(family=family, bounded=True)),
        ("quadratic", quadratic),
        ("network", network),
        ("boosting", boosting),
        ("boosted quadratic", BoostedMargins(base=quadratic, boosting=boosting)),
        ("oblique boosting", LinkedObliqueBoosting(family=family)),
        ("stiff network", stiff),
    ]


READERS = (
    BentHingeNetwork, BoundedRidge, BoostedMargins, BoostedResiduals, CoxMean,
    LeastSquaresBoosting, LinkedBoosting, LinkedNetwork, LinkedObliqueBoosting, LinkedQuadratic,
    LinkedRidge, MeanOutcome, ObliqueBoosting, QuadraticRidge,
)  # fmt: skip
"""The default members: none of them writes into the rows that it is given."""


@dataclass(kw_only=True, eq=False, repr=False)
class SuperLearner(RegressorMixin, BaseEstimator):
    """Average of learners, weighted by how they predict rows that they have not seen."""

    members: Members | None = None
    n_folds: int = 3
    only: Sequence[int] | None = None
    family: Family = "gaussian"
    loss: Loss | None = None
    random_state: int | np.random.RandomState | None = None

    weights_: Floats = field(init=False)
    estimators_: list[Estimator] = field(init=False)
    held_out_: Floats | None = field(init=False)
    """Predictions of the training rows by models of the others; None where none were made."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        survival: Survival | None = None,
    ) -> Self:
        """Fit the members and their weights; one member learns times to an event, if any."""
        self.with_times_ = survival is not None
        rows, target = validate_data(
            self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        # products of matrices may differ in their last digit with the number of threads
        with single_blas_thread():
            return self._fit_rows(rows, np.asarray(target, dtype=float), sample_weight, survival)

    def _fit_rows(
        self, X: Floats, y: Floats, sample_weight: ArrayLike | None, survival: Survival | None
    ) -> Self:
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        members = self.member_list(seed)
        fit = [not hasattr(m, "suits") or bool(m.suits(*X.shape)) for _, m in members]
        used = list(self.only or np.flatnonzero(fit).tolist() or range(len(members)))
        self.weights_ = np.zeros(len(members))
        self.weights_[used] = 1.0 / len(used)
        self.held_out_ = None
        if self.n_folds and len(used) > 1:
            self._weigh(members, used, X, y, weight, seed, survival)
        self.estimators_ = fit_members(members, X, y, weight, self.weights_ > 0, survival)
        return self

    def member_list(self, seed: int) -> Members:
        if self.members is not None:
            return self.members
        if self.family == "gaussian":
            of_times = [("cox", CoxMean())] if getattr(self, "with_times_", False) else []
            return [*default_members(seed), *of_times]
        return family_members(self.family, seed)

    def _weigh(
        self,
        members: Members,
        used: list[int],
        X: Floats,
        y: Floats,
        weight: Floats | None,
        seed: int,
        survival: Survival | None,
    ) -> None:
        mass = np.ones(len(y)) if weight is None else weight
        chosen = np.isin(np.arange(len(members)), used)
        held_out = np.zeros((len(y), len(used)))
        folds = KFold(min(self.n_folds, len(y)), shuffle=True, random_state=seed)
        for train, test in folds.split(X):
            part = None if weight is None else weight[train]
            times = None if survival is None else survival.take(train)
            fitted = fit_members(members, X[train], y[train], part, chosen, times)
            held_out[test] = np.column_stack([_predict(fitted[k], X[test]) for k in used])
        self.weights_[used] = risk_of(self.loss, y, mass, held_out, held_out).weights()
        self.held_out_ = held_out @ self.weights_[used]

    def with_weights(self, weights: Floats) -> SuperLearner:
        """Return the same fitted members with other weights; those without any are left out."""
        found = copy.copy(self)
        found.weights_ = np.asarray(weights, dtype=float)
        found.estimators_ = [
            member if share > 0 else None
            for member, share in zip(self.estimators_, found.weights_, strict=True)
        ]
        return found

    def member_predictions(self, X: Floats) -> Floats:
        columns = [
            np.full(len(X), np.nan) if member is None else _predict(member, X)
            for member in self.estimators_
        ]
        return np.column_stack(columns)

    def predict(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, reset=False, dtype=np.float64)
        value = np.zeros(len(rows))
        for share, member in self.parts():
            value += share * _predict(member, rows)
        return value

    def parts(self) -> list[tuple[float, Estimator]]:
        """Return the summed models, each once, and their factors."""
        found: dict[int, tuple[float, Estimator]] = {}
        for share, member in zip(self.weights_, self.estimators_, strict=True):
            if member is None:
                continue
            followed = isinstance(member, BoostedResiduals)
            for model in (member.base_, member.boosting_) if followed else (member,):
                before = found[id(model)][0] if id(model) in found else 0.0
                found[id(model)] = before + float(share), model
        return list(found.values())


def variance_share(n_rows: int) -> float:
    """Return how much the members' variance counts, given their number of training rows."""
    return min(1.0, max(VARIANCE_SHARE, STEADY_ROWS / max(n_rows, 1)))


def risk_of(
    loss: Loss | None,
    y: Floats,
    mass: Floats,
    first: Floats,
    second: Floats,
    share: float = VARIANCE_SHARE,
) -> Risk | LossRisk:
    if loss is None or loss.is_square or not loss.has_generator:
        return Risk.of(y, mass, first, second, share)
    return LossRisk(loss, y, mass, first, second, share)


class Risk:
    r"""The risk of every average of some members, a quadratic form in their weights.

    .. math:: R(w) = c - 2 w'b + w'Qw, \qquad
              b = \tfrac12 \sum_i \omega_i y_i (f^a_i + f^b_i), \quad
              Q = \sum_i \omega_i \{(1 - \kappa) f^a_i f^{b\prime}_i
                  + \tfrac{\kappa}{2} (f^a_i f^{a\prime}_i + f^b_i f^{b\prime}_i)\},

    of centred outcomes and predictions, :math:`\kappa` the :func:`variance_share`; the squared
    error where both sets of members are the same. Risks of different rows add up.
    """

    def __init__(self, linear: Floats, quadratic: Floats) -> None:
        self.linear, self.quadratic = linear, quadratic

    @classmethod
    def of(
        cls, y: Floats, mass: Floats, first: Floats, second: Floats, share: float = VARIANCE_SHARE
    ) -> Risk:
        """Return the risk on rows of a mass; weights sum to 1, so a shift does not matter."""
        # of a shift of all by the same number nothing is left but rounding
        level = float(mass @ y / mass.sum())
        y, first, second = y - level, first - level, second - level
        linear = 0.5 * (mass * y) @ (first + second)
        weighted = mass[:, None] * first
        cross = weighted.T @ second
        own = 0.5 * (weighted.T @ first + (mass[:, None] * second).T @ second)
        return cls(linear, (1.0 - share) * cross + share * own)

    def __add__(self, other: Risk) -> Risk:
        return Risk(self.linear + other.linear, self.quadratic + other.quadratic)

    def weights(self, least: float = _LEAST_CURVATURE) -> Floats:
        r"""Return the weights of least risk that are not negative and sum to 1.

        Eigenvalues are kept above ``least`` of the largest diagonal entry; with :math:`Q = C'C` the
        weights solve :math:`\min |C w - C^{-T} b|` by non-negative least squares.
        """
        Q = 0.5 * (self.quadratic + self.quadratic.T)
        scale = float(np.abs(np.diag(Q)).max())
        if not np.isfinite(scale) or scale <= 0.0:
            return np.full(len(Q), 1.0 / len(Q))
        values, vectors = np.linalg.eigh(Q / scale)
        root = np.sqrt(np.maximum(values, least))
        design = (vectors * root).T
        target = (vectors.T @ (self.linear / scale)) / root
        penalty = 1e3
        weights, _ = nnls(
            np.vstack([design, np.full((1, len(Q)), penalty)]), np.append(target, penalty)
        )
        weights[weights < _LEAST_WEIGHT * weights.sum()] = 0.0
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True, eq=False)
class LossRisk:
    r"""The risk of every average of some members under a loss that is not a square.

    .. math:: R(w) = \sum_i \omega_i \Big\{(1 - \kappa)\, \ell(y_i; w'f^a_i, w'f^b_i)
              + \tfrac{\kappa}{2} \big(\ell(y_i, w'f^a_i) + \ell(y_i, w'f^b_i)\big)\Big\},

    :math:`\kappa` the :func:`variance_share`. Risks of different rows add up: the rows are kept.
    """

    loss: Loss
    y: Floats
    mass: Floats
    first: Floats
    second: Floats
    share: float = VARIANCE_SHARE

    def __add__(self, other: LossRisk) -> LossRisk:
        return LossRisk(
            self.loss,
            np.concatenate([self.y, other.y]),
            np.concatenate([self.mass, other.mass]),
            np.vstack([self.first, other.first]),
            np.vstack([self.second, other.second]),
            self.share,
        )

    def weights(self) -> Floats:
        """Return the simplex weights of least risk, by Newton steps halved until it falls."""
        count = self.first.shape[1]
        weights = np.full(count, 1.0 / count)
        if self._all_agree():
            return weights
        risk = self.at(weights)
        for _ in range(_MOST_STEPS):
            gradient, quadratic = self._derivatives(weights)
            # of a gradient what is the same for all does not matter, where weights sum to 1
            gradient = gradient - gradient @ weights
            aim = Risk(quadratic @ weights - 0.5 * gradient, quadratic).weights(_FLAT)
            step = aim - weights
            while np.abs(step).max() > _STILL:
                moved = weights + step
                after = self.at(moved)
                if after < risk - _NOTHING * abs(risk):
                    break
                step *= 0.5
            else:
                break
            weights, risk = moved, after
        weights[weights < _LEAST_SHARE] = 0.0
        return np.asarray(weights / weights.sum())

    def _all_agree(self) -> bool:
        spread = max(float(np.ptp(f, axis=1).max()) for f in (self.first, self.second))
        return spread <= _EQUAL * float(np.abs(self.first).max())

    def at(self, weights: Floats) -> float:
        a, b = self.first @ weights, self.second @ weights
        alone = self.loss.of(self.y, a) + self.loss.of(self.y, b)
        both = self.loss.of_two(self.y, a, b)
        each = (1.0 - self.share) * both + 0.5 * self.share * alone
        return float(self.mass @ each)

    def _derivatives(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the gradient, and half of an approximate matrix of second derivatives."""
        a, b = self.first @ weights, self.second @ weights
        by_first = self._slopes(a, b)
        by_second = self._slopes(b, a)
        gradient = (self.mass * by_first) @ self.first + (self.mass * by_second) @ self.second
        middle = 0.5 * (a + b)
        curvature = self.mass * self._bend(middle)
        # weights sum to 1, so a shift of all members does not matter, but to the scale of the form
        level = float(curvature @ middle / curvature.sum())
        first, second = self.first - level, self.second - level
        weighted = curvature[:, None] * first
        cross = weighted.T @ second
        own = 0.5 * (weighted.T @ first + (curvature[:, None] * second).T @ second)
        quadratic = (1.0 - self.share) * 0.5 * (cross + cross.T) + self.share * own
        return np.asarray(gradient), np.asarray(quadratic)

    def _bend(self, p: Floats) -> Floats:
        if self.loss.curvature is not None:
            return self.loss.half_curvature(p)
        return np.ones_like(p)

    def _slopes(self, a: Floats, b: Floats) -> Floats:
        r"""Return the derivative of each row's risk by the first of two predictions.

        That of the secant's loss is :math:`-\tfrac12 f'(a) + \tfrac12 f[a, b] - f[a, a, b](y - c)`,
        where :math:`f[a, a, b] = (f'(a) - f[a, b]) / (a - b)` tends to half of :math:`f''`.
        """
        if self.loss.slope is None or self.loss.secant is None:
            raise TypeError(f"the loss {self.loss.name!r} has no generator, and so no cross form")
        slope, secant = self.loss.slope(a), self.loss.secant(a, b)
        middle, apart = 0.5 * (a + b), a - b
        near = np.abs(apart) <= _NEAR * np.minimum(np.abs(middle), np.abs(1.0 - middle))
        second = np.where(near, self._bend(middle), (slope - secant) / np.where(near, 1.0, apart))
        both = 0.5 * (secant - slope) - second * (self.y - middle)
        alone = -2.0 * self._bend(a) * (self.y - a)
        return np.asarray((1.0 - self.share) * both + 0.5 * self.share * alone)


def fit_members(
    members: Members,
    X: Floats,
    y: Floats,
    weight: Floats | None,
    chosen: Sequence[bool] | Bools,
    survival: Survival | None = None,
) -> list[Estimator]:
    """Fit the chosen members, None for the others; shared starting models are fitted once."""
    bases: dict[int, Estimator] = {}
    fitted: list[Estimator] = []
    for (_, member), wanted in zip(members, chosen, strict=True):
        if not wanted:
            fitted.append(None)
            continue
        if isinstance(member, CoxMean) and survival is not None:
            model = clone(member).fit_times(X, survival, weight)
        else:
            followed = isinstance(member, Boosted)
            first = member.base if followed else member
            if id(first) not in bases:
                given = {} if weight is None else weight_arguments(first, weight)
                bases[id(first)] = clone(first).fit(rows_for(first, X), y.copy(), **given)
            model = bases[id(first)]
            if followed:
                model = clone(member).fit_after(model, X, y, weight)
        fitted.append(model)
    return fitted


def _predict(model: Estimator, X: Floats) -> Floats:
    return np.asarray(model.predict(rows_for(model, X)))


def rows_for(model: Estimator, X: Floats) -> Floats:
    """Return a copy of the rows, or the rows for members that only read them."""
    return X if only_reads(model) else X.copy()


def only_reads(model: Estimator) -> bool:
    """Return whether a model, or every step of a pipeline, never writes into its rows."""
    if isinstance(model, Pipeline):
        return all(only_reads(step) for _, step in model.steps)
    if type(model) is StandardScaler:
        return bool(model.copy)
    return type(model) in READERS
