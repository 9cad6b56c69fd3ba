"""The default learner: a non-negative stack of a linear model, networks, boosting and trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.optimize import nnls
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from dfi._models.network import BentHingeNetwork

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dfi._types import Estimator, Floats

# What non-negative least squares leaves of a useless member is 0 or a last digit, by processor.
_LEAST_WEIGHT = 1e-8


def default_members(random_state: int, n_rows: int) -> list[tuple[str, Estimator]]:
    """Return the stack's members: linear trend, two networks, slow boosting, randomised trees.

    The signal that a model finds is what the scores are made of. On model M3 (rho = .2, 800 rows)
    the share of the signal's variance that is found is 0.63 for boosting, 0.58 for trees grown
    almost to single rows, 0.64 for the stack of those two and ridge, and 0.82 with the networks,
    which see products and oblique directions. They take 0.1 CPU seconds each, less than either
    kind of tree. The flexible network suits a strong signal, the stiff one a weak one: on the
    diabetes data (220 rows) the flexible one gains almost no weight. Tables with more than
    200 columns, or with fewer than two rows a column, are left to the others.
    Below ``n_rows = 60`` there is too little to hold out for early stopping.

    Missing values reach all members as the mean of the observed and an indicator, which keeps the
    linear member and the networks in closed form. NaN for the two kinds of tree would gain .014 of
    R2 where values are missing at random and nothing where large ones are (400 rows, six
    correlated columns, 30 % missing, three samples): boosting takes either alike.
    """
    boosting = HistGradientBoostingRegressor(
        learning_rate=0.05,
        max_iter=400,
        max_leaf_nodes=15,
        min_samples_leaf=max(2, min(10, n_rows // 10)),
        l2_regularization=1.0,
        early_stopping=n_rows >= 60,
        validation_fraction=0.15,
        n_iter_no_change=20,
        random_state=random_state,
    )
    trees = ExtraTreesRegressor(
        n_estimators=200, min_samples_leaf=2, max_features=1.0, random_state=random_state
    )
    ridge = make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-3, 5, 17)))
    networks = [
        (name, BentHingeNetwork(penalty=penalty, random_state=random_state))
        for name, penalty in (("network", 3.0), ("stiff network", 15.0))
    ]
    return [("ridge", ridge), *networks, ("boosting", boosting), ("trees", trees)]


READERS = (BentHingeNetwork, ExtraTreesRegressor, HistGradientBoostingRegressor, RidgeCV)
"""The default members: none of them writes into the rows that it is given."""


class SuperLearner(RegressorMixin, BaseEstimator):
    """Non-negative least-squares combination of learners, weighted by inner cross-validation.

    Parameters
    ----------
    members : list of (name, estimator), optional
        Ridge, two networks of bent hinges, gradient boosting and extremely randomised trees by
        default. A member with a method ``suits(n_rows, n_columns)`` sits out where it says no.
    n_folds : int, default=3
        Inner folds for the out-of-fold predictions that decide the weights.
    random_state : int, RandomState or None, default=None
        Seeds the folds and the default members.

    Attributes
    ----------
    weights_ : ndarray
        Non-negative weights of the members, which sum to one. A weight below 1e-8 is 0.
    estimators_ : list
        The members refitted on all rows; those with weight 0 are None.

    Notes
    -----
    The prediction is a weighted sum, so its line means are the weighted sums of the members' line
    means: closed form for ridge and the networks, exact for the trees.
    """

    weights_: Floats
    estimators_: list[Estimator]

    def __init__(
        self,
        *,
        members: list[tuple[str, Estimator]] | None = None,
        n_folds: int = 3,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.members = members
        self.n_folds = n_folds
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the members, then their weights."""
        rows, target = validate_data(
            self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        return self._fit_rows(rows, np.asarray(target, dtype=float), sample_weight)

    def _fit_rows(self, X: Floats, y: Floats, sample_weight: ArrayLike | None) -> Self:
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        members = self.members
        if members is None:
            members = default_members(seed, len(y))
        self.weights_ = self._weigh(members, X, y, weight, sample_weight, seed)
        self.estimators_ = [
            _fit(clone(member), X, y, weight, sample_weight) if share > 0 else None
            for (_, member), share in zip(members, self.weights_, strict=True)
        ]
        return self

    def _weigh(
        self,
        members: list[tuple[str, Estimator]],
        X: Floats,
        y: Floats,
        weight: Floats,
        sample_weight: ArrayLike | None,
        seed: int,
    ) -> Floats:
        """Return the weights of the members by out-of-fold non-negative least squares."""
        if len(members) == 1:
            return np.ones(1)
        used = [k for k, (_, member) in enumerate(members) if _suits(member, X)]
        used = used or list(range(len(members)))
        held_out = np.zeros((len(y), len(used)))
        folds = KFold(min(self.n_folds, len(y)), shuffle=True, random_state=seed)
        for train, test in folds.split(X):
            for column, k in enumerate(used):
                member = clone(members[k][1])
                fitted = _fit(member, X[train], y[train], weight[train], sample_weight)
                held_out[test, column] = fitted.predict(X[test])
        root = np.sqrt(weight)
        # A penalised sum-to-one row keeps the stack an average, so it cannot shrink the signal.
        penalty = 1e3 * max(1e-12, float(root @ np.abs(y)))
        design = np.vstack([root[:, None] * held_out, np.full((1, len(used)), penalty)])
        weights = np.zeros(len(members))
        weights[used], _ = nnls(design, np.append(root * y, penalty))
        weights[weights < _LEAST_WEIGHT * weights.sum()] = 0.0
        return np.asarray(weights / weights.sum())

    def predict(self, X: ArrayLike) -> Floats:
        """Return the weighted sum of the members' predictions."""
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, reset=False, dtype=np.float64)
        value = np.zeros(len(rows))
        for share, member in zip(self.weights_, self.estimators_, strict=True):
            if member is not None:
                value += share * member.predict(rows_for(member, rows))
        return value


def _suits(member: Estimator, X: Floats) -> bool:
    """Ask a member that has a say in it whether the table is one for it."""
    return not hasattr(member, "suits") or bool(member.suits(*X.shape))


def _fit(
    model: Estimator, X: Floats, y: Floats, weight: Floats, given: ArrayLike | None
) -> Estimator:
    """Fit a member on rows of its own, handing on weights only where the caller gave some."""
    weights = weight_arguments(model, None if given is None else weight)
    return model.fit(rows_for(model, X), y.copy(), **weights)


def weight_arguments(model: Estimator, weights: Floats | None) -> dict[str, Floats]:
    """Return the argument of ``fit`` that takes the weights of the rows; none without weights."""
    prefix = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
    return {} if weights is None else {f"{prefix}sample_weight": np.array(weights)}


def rows_for(model: Estimator, X: Floats) -> Floats:
    """Return rows that a member may do with as it likes: the next one must find them unchanged.

    The rows themselves where the member is one that only reads them, which saves the largest
    fits a second copy of the table; a copy for any other.
    """
    return X if only_reads(model) else X.copy()


def only_reads(model: Estimator) -> bool:
    """Return whether a model, or every step of a pipeline, never writes into its rows."""
    if isinstance(model, Pipeline):
        return all(only_reads(step) for _, step in model.steps)
    if type(model) is StandardScaler:
        return bool(model.copy)
    return type(model) in READERS
