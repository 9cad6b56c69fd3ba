r"""Influence values: the output of every method, and all that inference needs.

A method turns a table into uncentred influence values :math:`u_{il}`, one row per row of the table
and one column per unit. The score of unit :math:`l` is the (weighted) mean :math:`\bar u_l`, its
standard error the standard deviation of the column over :math:`\sqrt n`, a group the sum of
columns, a difference of results the difference of columns. :class:`InfluenceRows` keeps the values
with the index of their rows; :class:`InfluenceMoments` keeps what the statistics need of them, in
space that does not grow with the rows.

Where rows depend on each other (:mod:`dfi._data.dependence`) their weights say so, and all errors
are of sums over clusters or over windows in time: the scores are the same, standard errors,
skewness and bands are those of the sums, and quantiles are of a t distribution.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._data.dependence import Clusters, Dependence, Ordered, joined
from dfi._data.weights import Weights
from dfi._parameters import argument, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from dfi._types import Bools, Floats, Ints

# A model that never uses a feature leaves a column of rounding errors behind, and their mean
# over their own tiny standard error can look significant. Errors below these fractions of the
# largest standard error and of the largest score are rounding.
_OF_LARGEST_ERROR = 1e-10
_OF_LARGEST_SCORE = 1e-14

MOST_THIRD = 32
"""Units up to which all third moments are kept (p^3 numbers); beyond, those of each unit alone."""


def read_only(values: ArrayLike, dtype: DTypeLike) -> NDArray:  # type: ignore[type-arg]
    """Return a read-only copy, or the array itself if it is one already."""
    if (
        isinstance(values, np.ndarray)
        and values.dtype == dtype
        and not values.flags.writeable
        and values.base is None
    ):
        return values
    array = np.array(values, dtype=dtype, order="C")
    array.flags.writeable = False
    return array


def _without_rounding(errors: Floats, scores: Floats) -> Floats:
    """Return standard errors with those that are rounding set to exactly 0, in place."""
    floor = max(
        _OF_LARGEST_ERROR * float(np.max(errors, initial=0.0, where=~np.isnan(errors))),
        _OF_LARGEST_SCORE * float(np.max(np.abs(scores), initial=0.0)),
    )
    errors[errors <= floor] = 0.0
    return errors


def standard_errors(
    influence: Floats, weights: Weights, *, degenerate: Bools | None = None
) -> Floats:
    """Return the standard error of each column mean; exactly 0 if it varies by rounding only."""
    errors = np.array(weights.standard_error(influence), dtype=np.float64)
    errors = _without_rounding(errors, weights.mean(influence))
    if degenerate is not None:
        errors[degenerate] = np.nan
    return errors


def skewness_of_mean(influence: Floats, weights: Weights) -> Floats:
    r"""Return the skewness :math:`c = \gamma/\sqrt n` of each column's (weighted) mean.

    With :math:`p_i = w_i/\sum w`, :math:`c_i = u_i - \bar u` and sampling weights,

    .. math:: \frac{\sum_i p_i^3 c_i^3}{\big(\sum_i p_i^2 c_i^2\big)^{3/2}} ,

    and the same of the sums of :math:`p_i c_i` over clusters, or over windows in time, where rows
    depend on each other.

    Exactly 0 where the standard error is: the mean of equal numbers is off by a last digit on some
    processors and not on others, and the shape of such remainders is not skewness.
    """
    varies = standard_errors(influence, weights) > 0.0
    if weights.dependence is not None:
        steps, third_factor = _dependent_steps(influence, weights)
        variance = np.where(varies, np.sum(steps**2, axis=0), 1.0)
        third = third_factor * np.sum(steps**3, axis=0)
        return np.asarray(np.where(varies, third / variance**1.5, 0.0))
    centred, power2, power3 = _cumulant_weights(influence, weights)
    variance = np.where(varies, power2 @ centred**2, 1.0)
    third = power3 @ centred**3
    return np.asarray(np.where(varies, third / variance**1.5, 0.0))


def _dependent_steps(influence: Floats, weights: Weights) -> tuple[Floats, float]:
    """Return steps, and the factor of the sum of their cubes in the mean's third cumulant.

    A row is in as many windows as they are wide: their squares are divided by the width, and their
    cubes are to be divided by it once too.
    """
    weights = weights.settled(influence)
    overlap = 1 if weights.dependence is None else weights.dependence.overlap
    return weights.steps(influence), float(np.sqrt(overlap))


def _cumulant_weights(influence: Floats, weights: Weights) -> tuple[Floats, Floats, Floats]:
    """Return centred values, and factors of their squares and cubes in the mean's cumulants."""
    values = weights.values
    share = values / values.sum()
    centred = influence - share @ influence
    power2, power3 = (share**2, share**3)
    if weights.kind == "frequency":
        # a row of weight w stands for w rows: cumulants of the mean add, they do not cube
        power2, power3 = share / values.sum(), share / values.sum() ** 2
    return centred, power2, power3


class Influence(ABC):
    """Influence values of p units: by row (:class:`InfluenceRows`) or as their moments.

    Scores are their ``mean``; ``se`` is exactly 0 for units that do not vary beyond rounding, and
    ``skewness`` too. ``size`` is the effective number of observations, that of the union of rows
    for a sum of two. ``total`` is the sum over all units as one. ``degrees`` of freedom are
    infinite for independent rows, whose quantiles are normal; ``words`` say which errors these are:
    ``"independent rows"``, ``"cluster-robust, 50 clusters"``, ``"HAC, bandwidth 6"``.
    """

    if TYPE_CHECKING:  # fields of one class, properties of the other; described above

        @property
        def n_units(self) -> int: ...
        @property
        def n_rows(self) -> int: ...
        @property
        def size(self) -> float: ...
        @property
        def mean(self) -> Floats: ...
        @property
        def se(self) -> Floats: ...
        @property
        def covariance(self) -> Floats: ...
        @property
        def skewness(self) -> Floats: ...
        @property
        def total(self) -> Influence: ...
        @property
        def degrees(self) -> float: ...
        @property
        def words(self) -> str: ...

    @abstractmethod
    def summed(self, membership: ArrayLike) -> Influence:
        """Return sums of units: row g of ``membership`` (g, p) holds their coefficients."""

    @abstractmethod
    def zeroed(self, units: Bools) -> Influence:
        """Return the same with some units exactly 0."""

    @abstractmethod
    def combined(
        self, other: Influence, sign: float = 1.0, *, independent: bool = False
    ) -> Influence:
        r"""Return the influence values of sums of scores, with ``sign=-1`` of differences.

        With :math:`a_i` the factor of a centred row whose squares sum to the variance of a mean
        (:meth:`dfi._data.weights.Weights.mean_variances`), 0 for a row that one of the two has not,

        .. math:: \operatorname{Var}(\bar u - \bar v)
                  = \sum_{i \in A \cup B} \{a_i (u_i - \bar u) - b_i (v_i - \bar v)\}^2 :

        columns are subtracted row by row where the rows are the same, variances add where no row is
        shared, and shared rows alone carry the covariance in between. ``independent`` rows are
        those of another table, whatever their index.

        Rows that depend on each other in one of the two do so in both, and squares are of sums
        over clusters or windows. Variances of independent ones add, with the fewer degrees of
        freedom; of these moments are kept.
        """

    @abstractmethod
    def moments(self, sample: int = 0, *, random_state: int = 0) -> InfluenceMoments:
        """Return the moments that statistics need, with no rows except a random ``sample``."""

    @abstractmethod
    def __reduce__(self) -> tuple[object, ...]:
        """Pickle through the constructor: arrays come back read-only."""

    def __add__(self, other: Influence) -> Influence:
        return self.combined(other)

    def __sub__(self, other: Influence) -> Influence:
        return self.combined(other, -1.0)

    def _check_units(self, other: Influence) -> None:
        if self.n_units != other.n_units:
            raise ValueError(
                f"influence values of {self.n_units} and of {other.n_units} units do not add up"
            )


@dataclass(frozen=True, eq=False)
class InfluenceRows(Influence):
    """Uncentred influence values (n, p) with their weights and rows.

    ``rows`` tells where they stand in the caller's table; None where that is not known. The
    ``weights`` say how rows depend on each other; a bandwidth in time that they leave open is
    chosen here, once for all that follows from the values.
    """

    values: Floats
    weights: Weights
    rows: Ints | None = None

    def __post_init__(self) -> None:
        n = len(self.weights.values)
        if np.ndim(self.values) != 2:
            raise ValueError(f"influence must have two dimensions, got shape {self.values.shape}")
        if len(self.values) != n:
            raise ValueError(f"got {n} weights for {len(self.values)} rows")
        object.__setattr__(self, "values", read_only(self.values, np.float64))
        weights = Weights(
            read_only(self.weights.values, np.float64),
            self.weights.kind,
            _checked(self.weights.dependence, n),
        )
        object.__setattr__(self, "weights", weights.settled(self.values))
        if self.rows is not None:
            if np.shape(self.rows) != (n,) or len(np.unique(self.rows)) != n:
                raise ValueError(f"rows must be the {n} different places of the influence values")
            object.__setattr__(self, "rows", read_only(self.rows, np.intp))

    def __reduce__(self) -> tuple[object, ...]:
        return InfluenceRows, (self.values, self.weights, self.rows)

    @property
    def n_units(self) -> int:
        return int(self.values.shape[1])

    @property
    def n_rows(self) -> int:
        return len(self.values)

    @property
    def size(self) -> float:
        return self.weights.total

    @property
    def mean(self) -> Floats:
        return np.asarray(self.weights.mean(self.values), dtype=np.float64)

    @property
    def se(self) -> Floats:
        return standard_errors(self.values, self.weights)

    @property
    def covariance(self) -> Floats:
        return np.array(self.weights.covariance_of_mean(self.values), dtype=np.float64)

    @property
    def skewness(self) -> Floats:
        return skewness_of_mean(self.values, self.weights)

    @property
    def degrees(self) -> float:
        return self.weights.degrees

    @property
    def words(self) -> str:
        return self.weights.words

    @property
    def total(self) -> InfluenceRows:
        return InfluenceRows(self.values.sum(axis=1)[:, None], self.weights, self.rows)

    def summed(self, membership: ArrayLike) -> InfluenceRows:
        coefficients = np.asarray(membership, dtype=np.float64)
        return InfluenceRows(self.values @ coefficients.T, self.weights, self.rows)

    def zeroed(self, units: Bools) -> InfluenceRows:
        if not self.values[:, units].any():
            return self
        values = self.values.copy()
        values[:, units] = 0.0
        return InfluenceRows(values, self.weights, self.rows)

    def combined(
        self, other: Influence, sign: float = 1.0, *, independent: bool = False
    ) -> Influence:
        self._check_units(other)
        if not isinstance(other, InfluenceRows):
            return self.moments().combined(other, sign, independent=independent)
        dependent = self.weights.dependence is not None or other.weights.dependence is not None
        if independent and dependent:
            return self.moments().combined(other, sign, independent=True)
        if independent:
            ours, theirs = np.arange(self.n_rows), self.n_rows + np.arange(other.n_rows)
        elif self.rows is None or other.rows is None:
            raise ValueError(
                "influence values without row indices do not show which rows they share"
            )
        else:
            ours, theirs = self.rows, other.rows
        rows, place = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
        here, there = place[: len(ours)], place[len(ours) :]
        dependence = joined(
            self.weights.dependence, other.weights.dependence, here, there, len(rows)
        )
        if len(rows) == len(ours) == len(theirs) and self._weighs_like(other, here, there):
            found = self._plus(other, sign, here, there)
            if dependence is None:
                return found
            weights = replace(found.weights, dependence=dependence.take(here))
            return InfluenceRows(found.values, weights, found.rows)
        kinds = {u.weights.kind for u in (self, other) if not u.weights.uniform}
        if len(kinds) > 1 and len(rows) == len(ours) + len(theirs):
            # counts and sampling weights have no common scale of rows; their variances add
            return self.moments().combined(other, sign, independent=True)
        union = self._over_union(other, sign, dependence, len(rows), here, there)
        return InfluenceRows(*union, None if independent else rows)

    def _weighs_like(self, other: InfluenceRows, here: Ints, there: Ints) -> bool:
        """Return whether rows that both have count alike in both."""
        n = int(max(here.max(initial=-1), there.max(initial=-1))) + 1
        ours, theirs = np.full(n, np.nan), np.full(n, np.nan)
        ours[here], theirs[there] = self.weights.values, other.weights.values
        shared = ~np.isnan(ours) & ~np.isnan(theirs)
        kinds = self.weights.kind == other.weights.kind or (
            self.weights.uniform and other.weights.uniform
        )
        return kinds and bool(np.array_equal(ours[shared], theirs[shared]))

    def _plus(self, other: InfluenceRows, sign: float, here: Ints, there: Ints) -> InfluenceRows:
        """Add or subtract columns of the same rows, in the order of this one's."""
        aligned = np.empty_like(self.values)
        aligned[there] = other.values
        aligned = aligned[here]
        values = self.values - aligned if sign == -1.0 else self.values + sign * aligned
        return InfluenceRows(values, self.weights, self.rows)

    def _over_union(
        self,
        other: InfluenceRows,
        sign: float,
        dependence: Dependence | None,
        n: int,
        here: Ints,
        there: Ints,
    ) -> tuple[Floats, Weights]:
        r"""Return values over the union whose weighted mean and its variance are the combined ones.

        With :math:`f_i` the factor of a centred row of the union, the value of row i is
        :math:`\bar u \pm \bar v + \{a_i(u_i - \bar u) \pm b_i(v_i - \bar v)\}/f_i`.
        """
        ours, theirs = self.weights, other.weights
        if ours.kind != theirs.kind:
            # rows that count once each are both kinds
            ours = replace(ours, kind="sampling") if ours.uniform else ours
            theirs = replace(theirs, kind="sampling") if theirs.uniform else theirs
        weight = np.ones(n)
        if ours.kind == "frequency" == theirs.kind and self._weighs_like(other, here, there):
            weight[here], weight[there] = ours.values, theirs.values
        elif ours.kind == "frequency" or theirs.kind == "frequency":
            raise ValueError(
                "counts of repeated rows do not combine with other weights of the same rows: give "
                "both results the same weights"
            )
        union = Weights(weight, ours.kind, dependence)
        if dependence is not None:
            # a row that only one of the two has is a step of neither's alone
            ours = replace(ours, dependence=dependence.take(here))
            theirs = replace(theirs, dependence=dependence.take(there))
        steps = np.zeros((n, self.n_units))
        for influence, weights, factor, place in (
            (self, ours, 1.0, here), (other, theirs, sign, there),
        ):  # fmt: skip
            root = np.sqrt(weights.mean_variances())[:, None]
            steps[place] += factor * root * (influence.values - influence.mean)
        spread = np.sqrt(union.mean_variances())[:, None]
        steps = np.divide(steps, spread, out=np.zeros_like(steps), where=spread > 0.0)
        return self.mean + sign * other.mean + steps, union

    def moments(self, sample: int = 0, *, random_state: int = 0) -> InfluenceMoments:
        sample = min(whole("sample", sample, 0), self.n_rows)
        dependence, n = self.weights.dependence, self.size
        if dependence is not None:
            centred, factor = _dependent_steps(self.values, self.weights)
            power3 = np.full(len(centred), factor)
        else:
            centred, _, power3 = _cumulant_weights(self.values, self.weights)
        if self.n_units <= MOST_THIRD:
            third = np.stack([(centred * (power3 * c)[:, None]).T @ centred for c in centred.T])
        else:
            third = power3 @ centred**3
        if dependence is None:
            # covariance is unbiased, third moments are put on its scale: skewness = third / se^3
            third = third * (n / (n - 1.0)) ** 1.5 if n > 1.0 else np.full_like(third, np.nan)
        kept = None
        if sample:
            generator = np.random.default_rng(random_state)
            if dependence is None:
                chosen = np.sort(generator.choice(self.n_rows, sample, replace=False))
            else:  # rows that depend on each other stay together
                chosen = dependence.sample(sample, generator)
            kept = InfluenceRows(
                self.values[chosen],
                self.weights.take(chosen),
                None if self.rows is None else self.rows[chosen],
            )
        return InfluenceMoments(
            self.mean, self.covariance, third, n, self.n_rows, kept, self.degrees, self.words
        )


def _checked(dependence: Dependence | None, n: int) -> Dependence | None:
    if dependence is None:
        return None
    if np.shape(dependence.places) != (n,):
        what = "clusters" if isinstance(dependence, Clusters) else "times"
        raise ValueError(f"got {np.size(dependence.places)} {what} for {n} rows")
    places = read_only(dependence.places, np.intp)
    if isinstance(dependence, Ordered):
        return replace(dependence, positions=places)
    return Clusters(places)


@dataclass(frozen=True, eq=False)
class InfluenceMoments(Influence):
    """The moments of the scores, and maybe some rows: all that the statistics need.

    ``third`` holds the third cumulants of all triples of units, (p, p, p), up to :data:`MOST_THIRD`
    of them, of each unit alone, (p,), beyond; NaN where they are not known. ``size`` is the
    effective number of observations. ``covariance`` and ``third`` are those of clusters, or of rows
    in time, where ``words`` say so; ``degrees`` are the degrees of freedom.
    """

    mean: Floats
    covariance: Floats
    third: Floats
    size: float
    n_rows: int
    sample: InfluenceRows | None = None
    degrees: float = math.inf
    words: str = "independent rows"

    def __post_init__(self) -> None:
        p = np.size(self.mean)
        for name, shapes in (
            ("mean", [(p,)]), ("covariance", [(p, p)]), ("third", [(p, p, p), (p,)]),
        ):  # fmt: skip
            if np.shape(getattr(self, name)) not in shapes:
                raise ValueError(
                    f"{name} must have shape {shapes[0]}, got {np.shape(getattr(self, name))}"
                )
            object.__setattr__(self, name, read_only(getattr(self, name), np.float64))

    def __reduce__(self) -> tuple[object, ...]:
        moments = (self.mean, self.covariance, self.third, self.size, self.n_rows, self.sample)
        return InfluenceMoments, (*moments, self.degrees, self.words)

    @property
    def n_units(self) -> int:
        return len(self.mean)

    @property
    def se(self) -> Floats:
        return _without_rounding(np.sqrt(np.diag(self.covariance)), self.mean)

    @property
    def _own_third(self) -> Floats:
        return self.third if self.third.ndim == 1 else np.einsum("jjj->j", self.third)

    @property
    def skewness(self) -> Floats:
        """Skewness of each score; ValueError for sums of more units than third moments are of."""
        varies = self.se > 0.0
        if np.isnan(self._own_third[varies]).any():
            raise ValueError(
                f"moments of more than {MOST_THIRD} units do not have the skewness of their sums: "
                "use skewness=False, or keep some rows with moments(sample=...)"
            )
        variance = np.where(varies, np.diag(self.covariance), 1.0)
        return np.asarray(np.where(varies, self._own_third / variance**1.5, 0.0))

    @property
    def total(self) -> InfluenceMoments:
        return self.summed(np.ones((1, self.n_units)))

    def summed(self, membership: ArrayLike) -> InfluenceMoments:
        m = np.asarray(membership, dtype=np.float64)
        covariance = m @ self.covariance @ m.T
        sample = None if self.sample is None else self.sample.summed(m)
        if self.third.ndim == 3:
            third = np.einsum("abc,ga,hb,ic->ghi", self.third, m, m, m, optimize=True)
        else:
            alone = np.count_nonzero(m, axis=1) <= 1
            third = m**3 @ np.where(np.isnan(self.third), 0.0, self.third)
            unknown = ~alone | ((m != 0.0) & np.isnan(self.third)).any(axis=1)
            estimate = np.full(len(m), np.nan)
            if sample is not None:
                # the skewness of a mean falls with the root of the number of observations
                share = sample.size / self.size
                if math.isfinite(self.degrees):  # of clusters, or of times
                    share = (sample.degrees + 1.0) / (self.degrees + 1.0)
                estimate = sample.skewness * np.sqrt(share) * np.diag(covariance) ** 1.5
            third = np.where(unknown, estimate, third)
        return replace(self, mean=m @ self.mean, covariance=covariance, third=third, sample=sample)

    def zeroed(self, units: Bools) -> InfluenceMoments:
        if not (self.mean[units].any() or self.covariance[units].any()):
            return self
        return self.summed(np.diag(np.where(units, 0.0, 1.0)))

    def combined(
        self, other: Influence, sign: float = 1.0, *, independent: bool = False
    ) -> InfluenceMoments:
        self._check_units(other)
        if not independent:
            raise ValueError(
                "moments do not show how two results on the same rows depend on each other: "
                "combine results with rows, which large tables keep with "
                f"{argument('keep_rows', True)}"
            )
        theirs = other if isinstance(other, InfluenceMoments) else other.moments()
        first, second = self.third, theirs.third
        if first.ndim != second.ndim:
            first, second = self._own_third, theirs._own_third
        return InfluenceMoments(
            self.mean + sign * theirs.mean,
            self.covariance + sign**2 * theirs.covariance,
            first + sign**3 * second,
            self.size + theirs.size,
            self.n_rows + theirs.n_rows,
            degrees=min(self.degrees, theirs.degrees),
            words=" and ".join(dict.fromkeys((self.words, theirs.words))),
        )

    def moments(self, sample: int = 0, *, random_state: int = 0) -> InfluenceMoments:
        sample = whole("sample", sample, 0)
        kept = self.sample
        if kept is not None and kept.n_rows > sample:
            kept = kept.moments(sample, random_state=random_state).sample
        return replace(self, sample=kept)
