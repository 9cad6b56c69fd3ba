"""Row weights: counts of repeated rows, or sampling weights, and the error of a weighted mean."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._data.columns import EXACT_WHOLE, check_rows, read_vector
from dfi._parameters import InvalidParameterError, argument

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dfi._data.dependence import Dependence
    from dfi._types import Bools, Floats, VectorLike

WeightKind = Literal["frequency", "sampling"]

LARGEST_WEIGHT = 1e100
"""Weights enter as squares of sums, and their ratios as squares."""


@dataclass(frozen=True, eq=False)
class Weights:
    """How much each row counts, as frequency or sampling weight (mean 1), and ``dependence``."""

    values: Floats
    kind: WeightKind
    dependence: Dependence | None = None

    @cached_property
    def total(self) -> float:
        """The sum of frequency weights, or the number of rows of positive sampling weight."""
        return float(
            self.values.sum() if self.kind == "frequency" else np.count_nonzero(self.values)
        )

    @property
    def effective(self) -> float:
        r"""The number of unweighted rows that say as much about quantiles as the weighted ones.

        The sum of frequency weights, as if rows were repeated; of sampling weights
        :math:`(\sum_i w_i)^2 / \sum_i w_i^2`, since a row that stands for many was seen once.
        """
        if self.kind == "frequency":
            return self.total
        return float(self.values.sum() ** 2 / np.sum(self.values**2))

    @property
    def uniform(self) -> bool:
        return bool(np.all(self.values == 1.0))

    def take(self, rows: ArrayLike) -> Weights:
        rows = np.asarray(rows)
        dependence = None if self.dependence is None else self.dependence.take(rows)
        return Weights(self.values[rows], self.kind, dependence)

    @property
    def counted(self) -> Bools:
        return np.asarray(self.values > 0)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the variance of a mean; infinite for independent rows."""
        return math.inf if self.dependence is None else self.dependence.degrees(self.counted)

    @property
    def words(self) -> str:
        if self.dependence is None:
            return "independent rows"
        return self.dependence.words(self.counted)

    def settled(self, matrix: ArrayLike) -> Weights:
        if self.dependence is None:
            return self
        matrix = self._columns(matrix)
        parts = self.shares[:, None] * (matrix - self.mean(matrix))
        return replace(self, dependence=self.dependence.settled(parts, self.counted))

    def mean(self, matrix: ArrayLike) -> Floats:
        matrix = self._columns(matrix)
        total = self.values.sum()
        if total <= 0:
            raise ValueError("All rows chosen here have weight 0, so they have no mean.")
        return np.asarray(self.values @ matrix / total)

    def covariance_of_mean(self, matrix: ArrayLike) -> Floats:
        r"""Return the covariance matrix of the weighted column means.

        With :math:`N` the ``total`` and :math:`c_i = u_i - \bar u`,

        .. math::

            \frac{1}{N (N - 1)} \sum_i w_i\, c_i c_i^T \quad\text{(frequency)}, \qquad
            \frac{N}{N - 1}\, \frac{\sum_i w_i^2\, c_i c_i^T}{(\sum_i w_i)^2}
            \quad\text{(sampling)}.

        The first is what repeated rows would give; the second is robust to the choice of weights.
        Both are the usual covariance over :math:`n` when all weights are 1. NaN for one
        observation. Rows that depend on each other enter by :math:`w_i c_i/\sum_j w_j`, summed
        over clusters or windows (:mod:`dfi._data.dependence`).
        """
        steps = self.steps(matrix)
        return np.asarray(steps.T @ steps)

    def standard_error(self, matrix: ArrayLike) -> Floats:
        steps = self.steps(matrix)
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", steps, steps)))

    def steps(self, matrix: ArrayLike) -> Floats:
        """Return rows (or clusters, windows) whose cross products sum to the covariance."""
        matrix = self._columns(matrix)
        return self.sums(matrix - self.mean(matrix))

    def sums(self, centred: Floats) -> Floats:
        if self.dependence is None:
            return np.asarray(centred * self._root()[:, None])
        counted = self.counted
        parts = self.shares[:, None] * centred
        dependence = self.dependence.settled(parts, counted)
        steps = dependence.sums(parts, counted)
        return np.asarray(steps * np.sqrt(dependence.factor(counted)))

    def mean_variances(self) -> Floats:
        """Return the factors of centred squares in the variance of a weighted mean."""
        return np.asarray(self._root() ** 2)

    @property
    def shares(self) -> Floats:
        return np.asarray(self.values / self.values.sum())

    def _root(self) -> Floats:
        """Return the factor of each centred row; squares, or those of sums, are the covariance."""
        if self.dependence is not None:
            return np.asarray(self.shares * np.sqrt(self.dependence.factor(self.counted)))
        total = self.total
        if total <= 1:
            return np.full(len(self.values), np.nan)
        if self.kind == "frequency":
            return np.sqrt(self.values / (total * (total - 1)))
        return np.asarray(np.sqrt(total / (total - 1)) * self.values / self.values.sum())

    @staticmethod
    def _columns(matrix: ArrayLike) -> Floats:
        array = np.asarray(matrix, dtype=np.float64)
        return array[:, None] if array.ndim == 1 else array


def read_weights(
    sample_weight: VectorLike,
    n_rows: int,
    frequency_weight: VectorLike = None,
    kept: Bools | None = None,
) -> Weights:
    refuse_both(sample_weight, frequency_weight)
    if frequency_weight is not None:
        values = _read("frequency_weight", frequency_weight, n_rows, kept)
        split, most = values != np.floor(values), int(values.argmax())
        row = int(split.argmax()) if split.any() else None
        refuse_uncountable(
            row,
            "" if row is None else f"{values[row]:.6g}",
            values.sum(),
            f" (row {most} has {values[most]:.3g})",
        )
        return Weights(values, "frequency")
    if sample_weight is None:
        return Weights(np.ones(n_rows if kept is None else int(kept.sum())), "frequency")
    values = _within_range(_read("sample_weight", sample_weight, n_rows, kept))
    return Weights(values * (np.count_nonzero(values) / values.sum()), "sampling")


def _within_range(values: Floats) -> Floats:
    """Rescale extreme weights by a power of two, exactly: only ratios matter."""
    largest, least = values.max(), values[values > 0].min()
    if largest < LARGEST_WEIGHT and least > 1.0 / LARGEST_WEIGHT:
        return values
    scaled = np.ldexp(values, -int(np.frexp(largest)[1]))
    if scaled[values > 0].min() < 1.0 / LARGEST_WEIGHT:
        raise ValueError(
            f"{argument('sample_weight')} goes from {least:.3g} to {largest:.3g}: squares of such "
            "ratios are beyond double precision; give rows that hardly count weight 0"
        )
    return scaled


def _read(name: str, weights: VectorLike, n_rows: int, kept: Bools | None) -> Floats:
    values = read_vector(weights, name).numbers()
    check_rows(name, len(values), n_rows)
    values = values if kept is None else values[kept]
    bad, below = ~np.isfinite(values), values < 0
    first_negative = int(below.argmax()) if below.any() else None
    first_bad, counts = int(bad.argmax()), bool(values.any())
    refuse_impossible(name, bad.sum(), first_bad, first_negative, values.min(), counts)
    return values


def refuse_uncountable(row: int | None, value: str, total: float, most: str = "") -> None:
    """Raise if counts have a fraction, the first in a ``row``, or are more than can be added."""
    remedy = f"sampling weights as {argument('sample_weight')}."
    if row is not None:
        raise ValueError(
            f"{argument('frequency_weight')} counts repeated rows and must be whole numbers, but "
            f"row {row} has {value}; pass {remedy}"
        )
    if total > EXACT_WHOLE:
        raise ValueError(
            f"{argument('frequency_weight')} adds up to {total:.3g} rows{most}, more than double "
            f"precision can count: pass counts, or {remedy}"
        )


def refuse_impossible(
    name: str, n_bad: int, first_bad: int, first_negative: int | None, least: float, counts: bool
) -> None:
    if n_bad:
        raise InvalidParameterError(
            f"{argument(name)} has {n_bad} missing or infinite values, the first in row "
            f"{first_bad}.",
            name,
            "Give those rows weight 0 or drop them.",
        )
    if first_negative is not None:
        raise InvalidParameterError(
            f"{argument(name)} is negative in row {first_negative} ({least:.4g} at the least); "
            "weights must be 0 or more.",
            name,
        )
    if not counts:
        zero = f"{argument(name)} is 0 in every row; at least two rows must count."
        raise InvalidParameterError(zero, name)


def refuse_both(sample_weight: object, frequency_weight: object) -> None:
    if sample_weight is not None and frequency_weight is not None:
        raise InvalidParameterError(
            f"Pass {argument('sample_weight')} or {argument('frequency_weight')}, not both",
            "frequency_weight",
            "multiply sampling weights by the counts if each row stands for several weighted ones.",
        )
