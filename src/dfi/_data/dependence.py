r"""How rows depend on each other, in clusters or along time, and the error of their mean.

The error of a weighted mean is a sum of contributions :math:`q_i = w_i (u_i - \bar u)/\sum_j w_j`,
one per row. Its variance is the sum of squares of *steps* that do not depend on each other:

* independent rows (no object of this module): every row is a step;
* :class:`Clusters`: the sums over the rows of a cluster,

  .. math:: V = \frac{G}{G-1} \sum_{g=1}^G s_g s_g^T, \qquad s_g = \sum_{i \in g} q_i ;

* :class:`Ordered`: the sums over windows of :math:`L + 1` neighbours, which run over both ends,

  .. math:: V = \frac{1}{1 - \kappa}\, \frac{1}{L + 1} \sum_t b_t b_t^T
              = \frac{1}{1 - \kappa} \sum_{i, j} \Bigl(1 - \frac{|t_i - t_j|}{L + 1}\Bigr)_+
                q_i q_j^T, \qquad b_t = \sum_{t - L \le t_i \le t} q_i :

  the estimate of Newey and West (Econometrica 55, 1987) with Bartlett's kernel, a sum of squares
  and so never negative. :math:`\kappa = N^{-2} \sum_{i,j} (1 - |t_i - t_j|/(L+1))_+` is what
  subtracting the mean takes off; for :math:`L = 0` the factor is :math:`N/(N-1)`.

Both need a t distribution in place of the normal one, with :math:`G - 1` degrees of freedom for
clusters and :math:`\tfrac32 T/(L+1)` for windows along :math:`T` points of time (what the
variance of Bartlett's estimate is that of; Y. Sun, J. Econometrics 178, 2014). With one row per
cluster, and with :math:`L = 0`, the variance is that of independent rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from dfi._types import Bools, Floats, Ints

FEW_CLUSTERS = 15
"""With fewer clusters even the t distribution is too optimistic, and a result warns: intervals of
90 % cover .82 with twelve."""

MOST_OF_ROWS = 4
"""The bandwidth is at most the number of rows over this: a variance needs enough windows."""

_LARGEST_CORRELATION = 0.97


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows of one label depend on each other, those of different labels do not."""

    labels: Ints

    @property
    def places(self) -> Ints:
        return self.labels

    def take(self, rows: Ints) -> Clusters:
        return Clusters(self.labels[rows])

    def count(self, counted: Bools) -> int:
        return len(np.unique(self.labels[counted]))

    def settled(self, parts: Floats, counted: Bools) -> Clusters:
        del parts, counted
        return self

    def sums(self, parts: Floats, counted: Bools) -> Floats:
        labels = self.labels[counted]
        order = np.argsort(labels, kind="stable")
        starts = np.flatnonzero(np.diff(labels[order], prepend=labels[order][:1] - 1))
        return np.asarray(np.add.reduceat(parts[counted][order], starts, axis=0))

    def factor(self, counted: Bools) -> float:
        """Return G / (G - 1), NaN for one cluster."""
        g = self.count(counted)
        return g / (g - 1.0) if g > 1 else float("nan")

    @property
    def overlap(self) -> int:
        return 1

    def degrees(self, counted: Bools) -> float:
        return float(self.count(counted) - 1)

    def words(self, counted: Bools) -> str:
        return f"cluster-robust, {self.count(counted)} clusters"

    def deal(self, n_groups: int, generator: np.random.Generator, first: Ints) -> Ints:
        """Deal whole clusters into groups, large ones first, each with some rows of ``first``."""
        _, code = np.unique(self.labels, return_inverse=True)
        sizes = np.bincount(code)
        leading = np.bincount(code[first], minlength=len(sizes)) > 0
        filled = np.zeros(min(n_groups, int(leading.sum())), dtype=np.intp)
        group = np.empty(len(sizes), dtype=np.intp)
        order = generator.permutation(len(sizes))
        order = order[np.lexsort((-sizes[order], ~leading[order]))]
        for cluster in order:
            group[cluster] = int(np.argmin(filled))
            filled[group[cluster]] += sizes[cluster]
        return group[code]

    def sample(self, count: int, generator: np.random.Generator) -> Ints:
        """Return the rows of random clusters, at most ``count`` of them and of two clusters."""
        _, code = np.unique(self.labels, return_inverse=True)
        order = generator.permutation(int(code.max()) + 1)
        taken = np.cumsum(np.bincount(code)[order]) <= count
        taken[:2] = True
        return np.flatnonzero(np.isin(code, order[taken]))


@dataclass(frozen=True, eq=False)
class Ordered:
    """Rows near in time depend on each other; without a ``bandwidth`` by :meth:`settled`."""

    positions: Ints
    bandwidth: int | None = None

    @property
    def places(self) -> Ints:
        return self.positions

    def take(self, rows: Ints) -> Ordered:
        return replace(self, positions=self.positions[rows])

    def settled(self, parts: Floats, counted: Bools) -> Ordered:
        r"""Return the same with a bandwidth: that of Andrews (Econometrica 59, 1991).

        .. math:: S = 1.1447\,(\alpha N)^{1/3}, \qquad
                  \alpha = \sum_a \frac{4 \rho_a^2}{(1-\rho_a)^6 (1+\rho_a)^2} \Big/
                           \sum_a \frac{1}{(1-\rho_a)^4},

        :math:`\rho_a` the first autocorrelation of the contributions of unit a, each unit in its
        own scale; :math:`L = \lfloor S \rfloor`, at most a quarter of the rows.
        """
        if self.bandwidth is not None:
            return self
        times = self.positions[counted]
        order = np.argsort(times, kind="stable")
        n = len(order)
        if n < 2 * MOST_OF_ROWS:
            return replace(self, bandwidth=0)
        # rows that were thinned out evenly are apart by more than one
        spacing = max(1, int(np.median(np.diff(times[order]))))
        values = parts[counted][order]
        square = np.sum(values[:-1] ** 2, axis=0)
        varies = square > 1e-20 * np.max(square, initial=0.0)
        if not varies.any():
            return replace(self, bandwidth=0)
        rho = np.sum(values[1:] * values[:-1], axis=0)[varies] / square[varies]
        rho = np.clip(rho, -_LARGEST_CORRELATION, _LARGEST_CORRELATION)
        alpha = np.sum(4.0 * rho**2 / ((1 - rho) ** 6 * (1 + rho) ** 2)) / np.sum((1 - rho) ** -4)
        lag = min(int(1.1447 * (alpha * n) ** (1 / 3)), n // MOST_OF_ROWS)
        return replace(self, bandwidth=lag * spacing)

    def sums(self, parts: Floats, counted: Bools) -> Floats:
        """Return the sums over windows, over the root of their width: (T + L, p)."""
        width = self._width
        times = self.positions[counted] - self.positions[counted].min()
        length = int(times.max()) + width
        padded = np.zeros((length + 1, parts.shape[1]))
        np.add.at(padded, times + 1, parts[counted])
        below = np.cumsum(padded, axis=0)
        first = np.maximum(np.arange(1, length + 1) - width, 0)
        return np.asarray((below[1:] - below[first]) / np.sqrt(width))

    def factor(self, counted: Bools) -> float:
        n = int(np.count_nonzero(counted))
        if n < 2:
            return float("nan")
        even = np.full((len(counted), 1), 1.0 / n)
        return 1.0 / (1.0 - float(np.sum(self.sums(even, counted) ** 2)))

    @property
    def overlap(self) -> int:
        return self._width

    @property
    def _width(self) -> int:
        if self.bandwidth is None:
            raise ValueError("the bandwidth depends on the values: call settled() first")
        return self.bandwidth + 1

    def degrees(self, counted: Bools) -> float:
        times = self.positions[counted]
        return 1.5 * float(np.ptp(times) + 1) / self._width

    def words(self, counted: Bools) -> str:
        del counted
        return f"HAC, bandwidth {self._width - 1}"

    def deal(self, n_groups: int, generator: np.random.Generator, first: Ints) -> Ints:
        """Cut time into blocks that have the same number of the rows ``first``."""
        del generator
        times = np.sort(self.positions[first])
        starts = times[(np.arange(1, n_groups) * len(times)) // n_groups]
        return np.searchsorted(starts, self.positions, side="right")

    def sample(self, count: int, generator: np.random.Generator) -> Ints:
        """Return ``count`` neighbouring rows, from a random time on."""
        order = np.argsort(self.positions, kind="stable")
        start = int(generator.integers(0, len(order) - count + 1))
        return np.sort(order[start : start + count])


Dependence: TypeAlias = Clusters | Ordered


def joined(
    first: Dependence | None, second: Dependence | None, here: Ints, there: Ints, n: int
) -> Dependence | None:
    if first is None or second is None:
        known, place = (second, there) if first is None else (first, here)
        if isinstance(known, Clusters):
            # rows that are in no cluster are clusters of their own
            labels = int(known.labels.max()) + 1 + np.arange(n)
            labels[place] = known.labels
            return Clusters(labels)
        if isinstance(known, Ordered):
            other = here if first is None else there
            if not np.isin(other, place).all():
                raise ValueError(
                    "one result orders its rows in time, the other treats them as independent, "
                    "and the rows differ: explain both with the same splits"
                )
            return replace(known, positions=_placed(known.positions, place, n))
        return None
    if isinstance(first, Ordered) and isinstance(second, Ordered):
        ours, theirs = _placed(first.positions, here, n), _placed(second.positions, there, n)
        shared = np.intersect1d(here, there)
        if not np.array_equal(ours[shared], theirs[shared]):
            raise ValueError("the results give the same rows different times")
        positions = _placed(first.positions, here, n)
        positions[there] = second.positions
        return Ordered(positions, max(first.bandwidth or 0, second.bandwidth or 0))
    if isinstance(first, Clusters) and isinstance(second, Clusters):
        return Clusters(_joined_labels(first.labels, second.labels, here, there, n))
    raise ValueError(
        "one result groups the rows into clusters, the other in time: explain both with "
        "the same clusters and splits"
    )


def _placed(values: Ints, place: Ints, n: int) -> Ints:
    placed = np.full(n, -1, dtype=np.intp)
    placed[place] = values
    return placed


def _joined_labels(first: Ints, second: Ints, here: Ints, there: Ints, n: int) -> Ints:
    """Return labels of the union; names that shared rows show to be one cluster are one."""
    _, both, theirs = np.intersect1d(here, there, return_indices=True)
    labels = np.full(n, -1, dtype=np.intp)
    labels[here] = first
    if not np.array_equal(first[both], second[theirs]):
        pairs = np.unique(np.stack([first[both], second[theirs]]), axis=1)
        if len(np.unique(pairs[0])) < pairs.shape[1] or len(np.unique(pairs[1])) < pairs.shape[1]:
            raise ValueError(
                "the results put the same rows into different clusters: explain both with the same "
                "clusters"
            )
        names = dict(zip(pairs[1].tolist(), pairs[0].tolist(), strict=True))
        fresh = int(max(first.max(), second.max())) + 1
        second = np.array([names.get(label, fresh + label) for label in second.tolist()])
    labels[there] = second
    return labels
