r"""Networks and boosting behind a link: margins of classes, counts and positive quantities.

They are the members of :mod:`dfi._learners.stack` for outcomes that have a family
(:mod:`dfi._learners.families`), with the family's likelihood in the place of squared error:

- the network of bent hinges minimises the likelihood itself;
- trees are grown by Newton steps: least squares of the working response :math:`r_i / h_i` with the
  weights :math:`\omega_i h_i`, both anew for every tree;
- boosting after another model starts from that model's margins *without the row*, as boosting of
  residuals starts from residuals of rows left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, check_random_state

from dfi._learners.boosting import Boosted, LeastSquaresBoosting, ObliqueBoosting, bins_of
from dfi._learners.families import Family, Link
from dfi._learners.network import MOST_FITTED, HingeUnits, PenalisedSquares, column_moments

if TYPE_CHECKING:
    from dfi._types import Estimator, Floats

MOST_STEP = 2.5
"""How far a leaf may go before the learning rate: margins of 60 trees stay within 15 of the mean's.

A pure leaf of rare events would go 30 and more."""

LEAST_CURVATURE = 1e-6


@dataclass(kw_only=True, eq=False, repr=False)
class LinkedNetwork(HingeUnits):
    r"""A margin of bent hinges (:mod:`dfi._learners.network`), fitted by penalised likelihood.

    With columns standardised, L-BFGS minimises from a seeded random start

    .. math:: \frac{1}{h_0} \sum_i \omega_i \ell(y_i, f(x_i))
              + \tfrac{\lambda}{2} \sum_k (\lVert w_k \rVert^2 + v_k^2),

    :math:`h_0` the curvature of the loss at the mean outcome, the unit of the penalty. A class says
    less of its row than a quantity does: the penalty is three times that of squared error, and 60
    steps do as well as 200 (four models, 400 rows, on which the penalty was chosen too).
    """

    family: Family = "bernoulli"
    n_units: int = 50
    penalty: float = 10.0
    max_iter: int = 60
    most_rows: int | None = None
    random_state: int | np.random.RandomState | None = None

    bounds_: tuple[float, float] = field(init=False)

    def _fit_rows(self, X: Floats, y: Floats, weight: Floats) -> Self:
        random = check_random_state(self.random_state)
        link = Link(self.family)
        counts = np.flatnonzero(weight > 0)
        null, constant = link.null(y[counts], weight[counts])
        self.bounds_ = link.bounds(y[counts], null)
        if len(counts) > MOST_FITTED:
            counts = np.sort(random.permutation(counts)[:MOST_FITTED])
        X, y, weight = X[counts], y[counts], weight[counts]
        weight = weight / weight.mean()
        center, deviation = column_moments(X, weight)
        scale = np.where(deviation > 0, deviation, 1.0)
        start, units = self._start(X.shape[1], null, random), self.n_units
        Z = (X - center) / scale
        loss = _PenalisedLikelihood(Z, y, weight, units, self.penalty, link, null)
        if constant:
            start[-1 - units : -1] = 0.0
            found = start
        else:
            found = self._search(loss, start)
        directions, offsets, self.slopes_, self.intercept_ = loss.unpack(found)
        self._keep(directions, offsets, (X, center, scale))
        return self

    def _predicted(self, rows: Floats) -> Floats:
        return Link(self.family).mean(np.clip(self.margin(rows), *self.bounds_))


class _PenalisedLikelihood(PenalisedSquares):
    """The mean penalised loss and gradient, beyond the bounds of margins linear."""

    def __init__(
        self,
        X: Floats,
        y: Floats,
        weight: Floats,
        n_units: int,
        penalty: float,
        link: Link,
        null: float,
    ) -> None:
        super().__init__(X, y, weight, n_units, penalty)
        self.link = link
        self.scale = float(link.curvature(link.mean(np.full(1, null)))[0])
        self.bounds = link.bounds(y, null)

    def pulls(self, hidden: Floats, intercept: float) -> tuple[float, Floats]:
        margin = hidden + intercept
        inside = np.clip(margin, *self.bounds)
        pull = -self.link.pull(self.y, self.link.mean(inside)) * (self.weight / self.scale)
        lost = self.link.loss_of(self.y, inside) * (self.weight / self.scale)
        return 2.0 * float(lost.sum() + pull @ (margin - inside)), pull


@dataclass(kw_only=True, eq=False, repr=False)
class LinkedBoosting(LeastSquaresBoosting):
    r"""Boosting of a family's likelihood by Newton steps, with trees of few leaves.

    A leaf goes :math:`\sum r_i / \sum \omega_i h_i` times the learning rate, at most
    :data:`MOST_STEP`. Trees are as small as under squared error, and three quarters as many
    (:class:`~dfi._learners.boosting.LeastSquaresBoosting`, whose kernel grows them).
    """

    family: Family = "bernoulli"
    n_trees: int = 60

    def _fit_rows(self, X: Floats, y: Floats, weight: Floats) -> Self:
        counts = weight > 0
        return self.fit_margins(X[counts], y[counts], weight[counts], None)

    def fit_margins(self, X: Floats, y: Floats, weight: Floats, margins: Floats | None) -> Self:
        """Grow the trees on checked rows of positive weight, after given margins of the rows."""
        from dfi._compiled import kernel_array
        from dfi._learners.kernels_boosting import Trees, Work, grow

        link = Link(self.family)
        self.n_features_in_ = X.shape[1]
        (n, d), weight = X.shape, weight / weight.mean()
        null, constant = link.null(y, weight)
        self.intercept_ = null if margins is None else 0.0
        margin = np.full(n, null) if margins is None else margins.copy()
        cuts, codes, n_bins = bins_of(X, self.max_bins)
        self.gains_ = np.zeros(d)
        # of a constant nothing is left to be found: one leaf that adds 0
        count, size = 1 if constant else self.n_trees, 2 * self.max_leaves - 1
        feature, bins, left, right = np.full((4, count * size), -1, dtype=np.intp)
        value, roots = np.zeros(count * size), np.arange(count + 1)
        work = Work.for_rows(n, d, int(n_bins.max()), self.max_leaves)
        most, used = self.learning_rate * MOST_STEP, int(constant)
        for t in range(0 if constant else count):
            mean = link.mean(margin)
            curvature = np.maximum(link.curvature(mean), LEAST_CURVATURE)
            residual = link.pull(y, mean) / curvature
            before = residual.copy()
            part = slice(used, used + size)
            nodes = feature[part], bins[part], left[part], right[part], value[part]
            grown = Trees(*nodes, np.zeros(2, dtype=np.intp))
            grow(
                codes,
                residual,
                kernel_array(weight * curvature, np.float64),
                n_bins,
                float(self.learning_rate),
                int(self.min_rows),
                grown,
                work,
                self.gains_,
            )
            np.clip(grown.value, -most, most, out=grown.value)
            margin += np.clip(before - residual, -most, most)
            for child in (grown.left, grown.right):
                child[child >= 0] += used
            used += int(grown.roots[-1])
            roots[t + 1] = used
        return self._keep(Trees(feature, bins, left, right, value, roots), cuts)

    def margin(self, rows: Floats) -> Floats:
        return self.follow(rows)

    def _predicted(self, rows: Floats) -> Floats:
        return Link(self.family).mean(self.margin(rows))


class LinkedObliqueBoosting(ObliqueBoosting):
    """Boosting of a likelihood that may also split sums and differences of pairs of columns."""

    def __init__(self, *, family: Family = "bernoulli", n_columns: int = 6) -> None:
        super().__init__(n_columns=n_columns)
        self.family = family

    def _boosting(self) -> LinkedBoosting:
        return LinkedBoosting(family=self.family)

    def _predicted(self, rows: Floats) -> Floats:
        return Link(self.family).mean(self.margin(rows))


class BoostedMargins(Boosted):
    """A model, continued by boosting from its held-out margins."""

    bounds_: tuple[float, float]

    def fit_after(
        self, base: Estimator, X: Floats, y: Floats, sample_weight: Floats | None = None
    ) -> Self:
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        counts = weight > 0
        self.base_ = base
        self.boosting_ = clone(self.boosting).fit_margins(
            X[counts], y[counts], weight[counts], base.held_out_margins_[counts]
        )
        link = Link(self.boosting.family)
        self.bounds_ = link.bounds(y[counts], link.null(y[counts], weight[counts])[0])
        self.n_features_in_ = np.shape(X)[1]
        return self

    def margin(self, rows: Floats) -> Floats:
        smooth = np.clip(self.base_.margin(rows), *self.base_.bounds_)
        return np.asarray(smooth + self.boosting_.margin(rows))

    def predict(self, X: Floats) -> Floats:
        check_is_fitted(self, "boosting_")
        return Link(self.boosting_.family).mean(np.clip(self.margin(X), *self.bounds_))
