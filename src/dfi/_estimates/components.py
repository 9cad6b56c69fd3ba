r"""Dependence components: which columns depend on each other, as far as a sample shows.

The sample correlation of independent columns is of order :math:`n^{-1/2}`, and a whitening that
takes it at its word moves every column along the latent line of every other. For a step function
that leak is as large as a standard error, so columns of noise are found to matter, the more
often the more rows there are. Columns are therefore sorted into components first, and the
correlation between components is 0 exactly. Within a component the sample correlation stays,
so the matrix stays positive.

A *unit* is a column of the table or a group; the columns of a category are one unit. Each is
rotated to an orthonormal basis of its range, so neither units of measurement nor the coding of a
category matter.

1. Units that are exactly collinear belong together (the null space of the correlation matrix says
   which).
2. Every pair of units is tested: Wilks' :math:`\Lambda = \prod_k (1 - \rho_k^2)` of their canonical
   correlations in Rao's F approximation, which for two single columns is the test of a
   correlation. Pairs that Holm's adjustment at 5 % rejects join their components.
3. Pairs miss dependence that is weak and dense, so each component :math:`A` is tested against all
   the rest :math:`B`, by the likelihood ratio with Bartlett's factor,

   .. math:: -\Big(n - 1 - \frac{p + 1}2\Big)\,
             \{\log|R| - \log|R_{AA}| - \log|R_{BB}|\} \sim \chi^2_{r_A r_B},

   :math:`p` the rank of :math:`R` and determinants those on the range. While the smallest
   p-value is rejected by Benjamini and Hochberg's step-up at 10 %, which counts the components
   joined already, that component is joined with the one that it depends on most clearly, by
   the same ratio of the two. Where dependence is dense, nearly every p-value below 10 % is
   rejected; where there is none, anything is joined in 10 % of samples, however many columns of
   noise there are (each tested at 10 % by itself, one of twenty was in 82 %).

Where ranks are not small against the rows (together above ``n / 5``), both tests use
:math:`T = \|R_{AB}\|_F^2` instead, with a Pearson III law: mean and variance are those of :math:`T`
over all permutations of the rows (Kazi-Aoual, Hitier, Sabatier and Lebreton, 1995), the skewness is
that over all rotations, the exact law of normal rows. Nothing is drawn at random.

Tests that find nothing do not prove that there is nothing. Each component's test against the rest
also bounds what it may have missed: the squared multiple correlation :math:`\rho^2` of the
component with the rest is at most (one-sided, 95 %, from the noncentral law's mean and variance)

.. math:: \theta = \hat\theta + 2 z^2/n + z \sqrt{v + 4\,\hat\theta^+/n + 4 z^2/n^2},

:math:`\hat\theta` the statistic less its mean under independence, :math:`v` its variance there. To
second order, and for a regression that is linear along latent lines, dependence of that
size gives an unread unit a score of about :math:`\rho^2/2` of the total at most, which is the
upper end of its interval.

The tests see the weighted correlation matrix and the number of rows: the sum of frequency
weights, :math:`(\sum w)^2/\sum w^2` for sampling weights.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import betainc, chdtrc, fdtrc, gammainc, gammaincc, ndtr

from dfi._parameters import TABLE

if TYPE_CHECKING:
    from dfi._data.columns import Column
    from dfi._estimates.covariance import Coordinates
    from dfi._types import Bools, Floats, Ints

Components = Literal["auto"] | tuple[tuple[str, ...], ...] | None

PAIR_LEVEL = 0.05
"""Level of the tests of pairs, Holm's adjustment over all of them."""

JOINT_LEVEL = 0.10
"""Level of the step-up over all components, each tested against the rest."""

RANK_SHARE = 0.2
"""Ranks above this share of the rows are not small: permutation moments replace the likelihood."""

FEWEST_ROWS = 5.0
"""With fewer (effective) rows, tests say nothing: all columns are one component."""

RELATIVE_FLOOR = 1e-10
"""Eigenvalues below this share of the largest are zero, as in the transport itself."""

COLLINEAR = 1e-6
"""Entries of the null space's projector above this connect two units."""

MISSED_QUANTILE = 1.6448536269514722
"""Normal quantile of the bound on dependence that was missed: 95 %, one-sided."""

TOLERANCE = 1e-9
"""p-values and shares that differ relatively by less are equal: rounding must not decide."""


def check_components(components: object) -> Components:
    """Return the option with lists as tuples, or raise if its form is unknown."""
    if components is None:
        return None
    wanted = "components must be 'auto', None or a list of lists of column names"
    if isinstance(components, str):
        if components == "auto":
            return "auto"
        raise ValueError(f"{wanted}, got {components!r}")
    if isinstance(components, Mapping) or not isinstance(components, Iterable):
        raise TypeError(f"{wanted}, got {components!r}")
    found = []
    for group in components:
        if isinstance(group, str):
            raise TypeError(
                f"{wanted}: {group!r} stands alone in the outer list; write [[{group!r}, ...], ...]"
            )
        if isinstance(group, Mapping) or not isinstance(group, Iterable):
            raise TypeError(f"{wanted}, got {group!r} in it")
        names = tuple(group)
        if not names:
            raise ValueError(f"{wanted}: one of the inner lists is empty")
        found.append(names)
    everything = [name for group in found for name in group]
    for name in everything:
        if everything.count(name) > 1:
            raise ValueError(f"components names {name!r} more than once")
    return tuple(found)


def named_labels(components: tuple[tuple[str, ...], ...], names: Sequence[str]) -> Ints:
    """Return the label of every unit; columns that are not named are components of their own."""
    place = {name: k for k, name in enumerate(names)}
    labels = len(components) + np.arange(len(names))
    for label, group in enumerate(components):
        for name in group:
            if name not in place:
                close = difflib.get_close_matches(str(name), names, n=3)
                known, lead = (close, "did you mean") if close else (names[:10], "the columns are")
                raise ValueError(
                    f"components names {name!r}, which is not a column of {TABLE}; {lead} "
                    f"{', '.join(map(repr, known))}"
                )
            labels[place[name]] = label
    return labels


def column_labels(
    components: Literal["auto"] | tuple[tuple[str, ...], ...],
    coordinates: Coordinates,
    active: Ints,
    columns: Sequence[Column] | None,
    width: int,
) -> tuple[Ints, Floats]:
    """Return the component of each active column, numbered in the order of their first columns.

    And the bound on the squared multiple correlation of each column's component with the rest, 0
    where the caller says what belongs together. ``coordinates`` are the ``active`` columns, centred
    and of unit variance, ``width`` the number of all; by default every one of them is a unit,
    ``x0``, ...
    """
    owner = np.arange(width)
    names = [f"x{k}" for k in range(width)]
    if columns is not None:
        names = [column.name for column in columns]
        for place, column in enumerate(columns):
            owner[list(column.positions)] = place
    owner = owner[active]
    if components == "auto":
        unit = np.searchsorted(np.unique(owner), owner)
        labels, bounds = dependence_components(coordinates, unit)
        found, missed = labels[unit], bounds[unit]
    else:
        found, missed = named_labels(components, names)[owner], np.zeros(len(owner))
    _, first = np.unique(found, return_index=True)
    rank = {int(found[k]): number for number, k in enumerate(np.sort(first))}  # by first column
    return np.array([rank[int(label)] for label in found], dtype=np.intp), missed


def dependence_components(coordinates: Coordinates, unit: Ints) -> tuple[Ints, Floats]:
    """Return the component of every unit, and the bound on the dependence that it may have."""
    count = int(unit.max()) + 1
    size = coordinates.size
    if count == 1 or size < FEWEST_ROWS:
        return np.zeros(count, dtype=np.intp), np.zeros(count)
    sample = _Sample.of(coordinates, unit)
    links = sample.pair_links()
    if not sample.wide:
        links |= sample.collinear_links()
    _, labels = connected_components(links, directed=False)
    return sample.merged(labels.astype(np.intp))


@dataclass(frozen=True)
class _Sample:
    """Units in orthonormal bases of their ranges, and what the tests need to know of them.

    ``size`` is the number of rows; ``correlation`` (r, r) that of all basis columns, identities
    within units; ``unit`` (r,) the unit of each basis column; ``shared`` the squared Frobenius
    norms of the correlation's blocks; ``squares`` (n, units) the squared norm of every row in each
    unit's basis; ``share`` the rows' weights; ``inverse`` the pseudo-inverse of the correlation,
    None where there are too many columns for likelihoods, and ``null`` an orthonormal basis of its
    null space; ``root`` rows whose cross products the correlation is, where these are fewer.
    """

    size: float
    correlation: Floats
    unit: Ints
    rank: Ints
    shared: Floats
    squares: Floats
    share: Floats
    inverse: Floats | None
    null: Floats
    root: Floats | None = None

    @classmethod
    def of(cls, coordinates: Coordinates, unit: Ints) -> _Sample:
        """Rotate every unit to an orthonormal basis of its range."""
        size, covariance = coordinates.size, coordinates.second_moments(slice(None))
        if np.array_equal(unit, np.arange(len(unit))):
            return cls._of_columns(coordinates, covariance)
        bases, owner = [], []
        for k, width in enumerate(np.bincount(unit)):
            place = np.flatnonzero(unit == k)
            if width == 1:
                basis = np.zeros((len(unit), 1))
                basis[place] = 1.0 / np.sqrt(covariance[place, place])
                bases.append(basis)
                owner.append(k)
                continue
            values, vectors = np.linalg.eigh(covariance[np.ix_(place, place)])
            kept = values > RELATIVE_FLOOR * values[-1]
            basis = np.zeros((len(unit), int(kept.sum())))
            basis[place] = vectors[:, kept] / np.sqrt(values[kept])
            bases.append(basis)
            owner += [k] * basis.shape[1]
        basis = np.concatenate(bases, axis=1)
        place = np.array(owner, dtype=np.intp)
        correlation = basis.T @ covariance @ basis
        own = place[:, None] == place[None, :]
        correlation[own] = np.eye(len(place))[own]
        member = np.eye(int(unit.max()) + 1)[place]
        inverse, null = _inverse(correlation, size)
        rank = member.sum(axis=0).astype(np.intp)
        # only permutation moments ask for rows
        pairs = rank[:, None] + rank[None, :] > RANK_SHARE * size
        squares, share = np.zeros((0, len(rank))), np.zeros(0)
        if inverse is None or pairs.any():
            rows, share = coordinates.some_rows()
            squares = (rows @ basis) ** 2 @ member
        root = coordinates.root(slice(None))
        return cls(
            size, correlation, place, rank, member.T @ correlation**2 @ member, squares, share,
            inverse, null, root @ basis if len(root) < len(place) else None,
        )  # fmt: skip

    @classmethod
    def _of_columns(cls, coordinates: Coordinates, covariance: Floats) -> _Sample:
        """Do the same where every unit is a column: the bases are scales, not matrices."""
        size, d = coordinates.size, len(covariance)
        scale = 1.0 / np.sqrt(np.diag(covariance))
        correlation = scale[:, None] * covariance * scale
        np.fill_diagonal(correlation, 1.0)
        inverse, null = _inverse(correlation, size)
        squares, share = np.zeros((0, d)), np.zeros(0)
        if inverse is None or (d > 1 and RANK_SHARE * size < 2):
            rows, share = coordinates.some_rows()
            squares = (rows * scale) ** 2
        unit, rank = np.arange(d), np.ones(d, dtype=np.intp)
        root = coordinates.root(slice(None))
        return cls(
            size, correlation, unit, rank, correlation**2, squares, share, inverse, null,
            root * scale if len(root) < d else None,
        )  # fmt: skip

    @property
    def wide(self) -> bool:
        """Whether there are too many columns for a likelihood of all of them."""
        return self.inverse is None

    def collinear_links(self) -> Bools:
        """Connect units that take part in the same exact linear relation."""
        entries = np.abs(self.null @ self.null.T) > COLLINEAR
        member = np.eye(len(self.rank))[self.unit]
        return np.asarray(member.T @ entries @ member > 0)

    def pair_links(self) -> Bools:
        """Connect the pairs of units that Holm's adjustment rejects."""
        first, second = np.triu_indices(len(self.rank), k=1)
        p = self._pair_p_values(first, second)
        order = np.argsort(p, kind="stable")
        adjusted = p[order] * np.arange(len(p), 0, -1)
        accepted = np.flatnonzero(adjusted > PAIR_LEVEL * (1.0 + TOLERANCE))
        rejected = order[: accepted[0] if len(accepted) else len(order)]
        links = np.zeros((len(self.rank), len(self.rank)), dtype=np.bool_)
        links[first[rejected], second[rejected]] = True
        return links | links.T

    def _pair_p_values(self, first: Ints, second: Ints) -> Floats:
        low = np.minimum(self.rank[first], self.rank[second])
        high = np.maximum(self.rank[first], self.rank[second])
        single = high == 1
        classical = single | (low + high <= RANK_SHARE * self.size)
        p = np.ones(len(first))
        # one column against a block: the F test of a regression, by the incomplete beta function
        plain = classical & (low == 1)
        unexplained = np.clip(1.0 - self.shared[first[plain], second[plain]], 0.0, 1.0)
        p[plain] = betainc(0.5 * (self.size - 1.0 - high[plain]), 0.5 * high[plain], unexplained)
        for k in np.flatnonzero(classical & (low > 1)):
            block = self.correlation[np.ix_(self.unit == first[k], self.unit == second[k])]
            p[k] = _wilks_p_value(block, self.size)
        for k in np.flatnonzero(~classical):
            shared = float(self.shared[first[k], second[k]])
            p[k] = self._permutation_p_value(shared, self._own(first[k]), self._own(second[k]))
        return p

    def _own(self, unit: int) -> _Block:
        rank = float(self.rank[unit])
        return _Block(rank, rank, rank, self._fourth(self.squares[:, unit]))

    def merged(self, labels: Ints) -> tuple[Ints, Floats]:
        """Join components while one depends on the rest; return labels and missed dependence."""
        if np.array_equal(labels, np.arange(len(labels))):
            groups = list(np.arange(len(labels))[:, None])
            shared, ranks = self.shared.copy(), self.rank.astype(np.float64)
        else:
            order = np.argsort(labels, kind="stable")
            first = np.flatnonzero(np.diff(labels[order], prepend=-1))
            groups = np.split(order, first[1:])
            shared = np.add.reduceat(self.shared[order], first)
            shared = np.add.reduceat(shared[:, order], first, axis=1)
            ranks = np.add.reduceat(self.rank[order], first).astype(np.float64)
        tests = [self.joint_test(group) for group in groups]
        p = np.array([test.p for test in tests])
        alive = np.ones(len(groups), dtype=np.bool_)
        while alive.sum() > 1 and step_up(p[alive], len(p)) <= JOINT_LEVEL * (1.0 + TOLERANCE):
            # a component's test does not change while others are joined
            least = np.flatnonzero(p <= p.min() * (1.0 + TOLERANCE))
            evidence = [self._evidence(int(k), groups, alive, shared, ranks) for k in least]
            for joined in _partners(least, evidence):
                kept, *gone = joined
                groups[kept] = np.concatenate([groups[k] for k in joined])
                shared[kept] = shared[joined].sum(axis=0)
                shared[:, kept] = shared[:, joined].sum(axis=1)
                ranks[kept] = ranks[joined].sum()
                tests[kept] = self.joint_test(groups[kept])
                p[kept] = tests[kept].p
                p[gone], alive[gone] = np.inf, False
        found, missed = np.empty_like(labels), np.zeros(len(labels))
        for label in np.flatnonzero(alive):
            found[groups[label]] = label
            if alive.sum() > 1:
                missed[groups[label]] = tests[label].missed
        return found, missed

    def _evidence(
        self, k: int, groups: list[Ints], alive: Bools, shared: Floats, ranks: Floats
    ) -> Floats:
        """Return how clearly component ``k`` depends on each other one, as normal deviates."""
        others = np.flatnonzero(alive & (np.arange(len(alive)) != k))
        found = np.full(len(alive), -np.inf)
        if self.wide:
            spread = np.sqrt(2.0 * shared[k, k] * shared[others, others])
            chance = ranks[k] * ranks[others]
            found[others] = ((self.size - 1.0) * shared[k, others] - chance) / spread
            return found
        own, own_rank = self._log_determinant(groups[k])
        for other in others:
            apart, rank = self._log_determinant(groups[other])
            together, _ = self._log_determinant(np.concatenate([groups[k], groups[other]]))
            factor = self.size - 1.0 - 0.5 * (own_rank + rank + 1.0)
            degrees = own_rank * rank
            ratio = factor * max(0.0, own + apart - together)
            correction = 2.0 / (9.0 * degrees)
            found[other] = (np.cbrt(ratio / degrees) - 1.0 + correction) / np.sqrt(correction)
        return found

    def _log_determinant(self, group: Ints) -> tuple[float, int]:
        """Return the log determinant of some units' correlation on its range, and its rank."""
        inside = np.isin(self.unit, group)
        values = np.linalg.eigvalsh(self.correlation[np.ix_(inside, inside)])
        kept = values > RELATIVE_FLOOR * values[-1]
        return float(np.sum(np.log(values[kept]))), int(kept.sum())

    @cached_property
    def _square(self) -> Floats:
        return np.asarray(self.correlation @ self.correlation)

    @cached_property
    def _gram(self) -> Floats:
        return np.asarray(self.root @ self.root.T) if self.root is not None else np.zeros((0, 0))

    @cached_property
    def _image(self) -> Floats:
        return self._gram if self.root is None else np.asarray(self._gram @ self.root)

    @cached_property
    def _cubes(self) -> Floats:
        """The diagonal of the correlation's third power."""
        if self.root is not None:
            return np.asarray(np.sum(self._image**2, axis=0))
        return np.asarray(np.sum(self.correlation * self._square, axis=1))

    @cached_property
    def _all(self) -> _Block:
        return _Block(
            float(len(self.unit)), float(self.shared.sum()), float(self._cubes.sum()), 0.0
        )

    @cached_property
    def _shared_with_all(self) -> Floats:
        return np.asarray(self.shared.sum(axis=1))

    def _powers(self, inside: Bools) -> tuple[float, float, float]:
        """Return :math:`tr(R_{AA}^2)`, :math:`tr(R_{AA}^3)` and :math:`tr(R_{AA} (R^2)_{AA})`."""
        place = np.flatnonzero(inside)
        if self.root is None:
            block = self.correlation[np.ix_(place, place)]
            square = self._square[np.ix_(place, place)]
        elif len(place) < len(self.root):
            part = self.root[:, place]
            block, square = part.T @ part, part.T @ self._image[:, place]
        else:
            part = self.root[:, place]
            block = part @ part.T
            own = block @ block
            return float(np.trace(own)), float(np.sum(block * own)), float(np.sum(self._gram * own))
        own = block @ block
        return float(np.trace(own)), float(np.sum(block * own)), float(np.sum(block * square))

    @cached_property
    def _row_squares(self) -> Floats:
        return np.asarray(self.squares.sum(axis=1))

    def joint_test(self, group: Ints) -> JointTest:
        inside = np.isin(self.unit, group)
        if self.inverse is not None:
            return self._likelihood_test(inside, self.inverse)
        within, cube, mixed = self._powers(inside)
        across = float(self._shared_with_all[group].sum()) - within
        norms = self.squares[:, group].sum(axis=1)
        own = _Block(float(inside.sum()), within, cube, self._fourth(norms))
        # traces of the rest by inclusion and exclusion: it is never looked at itself
        rest = _Block(
            self._all.trace - own.trace,
            self._all.square - own.square - 2.0 * across,
            self._all.cube - 3.0 * float(self._cubes[inside].sum()) + 3.0 * mixed - own.cube,
            self._fourth(self._row_squares - norms),
        )
        mean, variance = permutation_moments(self.size, own, rest)
        return JointTest(
            self._permutation_p_value(across, own, rest),
            missed_dependence(across - mean, max(0.0, variance), self.size),
        )

    def _likelihood_test(self, inside: Bools, inverse: Floats) -> JointTest:
        r"""Test a component by the likelihood ratio.

        With :math:`P` the (pseudo-)inverse of :math:`R`, :math:`|R_{BB}| = |R|\,|P_{AA}|`, so the
        ratio is :math:`\log|R_{AA}| + \log|P_{AA}|` and the rest need not be looked at.
        """
        block = np.ix_(inside, inside)
        values = np.linalg.eigvalsh(self.correlation[block])
        kept = values > RELATIVE_FLOOR * values[-1]
        rank = int(kept.sum())
        precision = np.linalg.eigvalsh(inverse[block])[len(values) - rank :]
        total = len(self.unit) - self.null.shape[1]
        if total <= rank:
            return JointTest(1.0, 0.0)
        # rounding may leave a value that is not positive where the ratio is beyond all bounds
        information = np.sum(np.log(values[kept])) + np.sum(np.log(np.maximum(precision, 1e-300)))
        factor = self.size - 1.0 - 0.5 * (total + 1.0)
        ratio = factor * max(0.0, float(information))
        degrees = rank * (total - rank)
        excess = missed_dependence((ratio - degrees) / factor, 2.0 * degrees / factor**2, factor)
        # the likelihood ratio adds up -log(1 - rho^2)
        return JointTest(float(chdtrc(degrees, ratio)), -float(np.expm1(-excess)))

    def _fourth(self, squares: Floats) -> float:
        return float(self.share @ squares**2) / self.size

    def _permutation_p_value(self, statistic: float, first: _Block, second: _Block) -> float:
        """Return the p-value of a squared norm by three moments of its permutation law."""
        mean, variance = permutation_moments(self.size, first, second)
        skewness = rotation_skewness(self.size, first, second)
        if not variance > TOLERANCE * mean**2 / self.size:
            return 1.0  # as many columns as rows fit anything: there is nothing to test
        return pearson_tail((statistic - mean) / np.sqrt(variance), skewness)


def _inverse(correlation: Floats, size: float) -> tuple[Floats | None, Floats]:
    """Return the pseudo-inverse, None for too many columns, and a basis of the null space."""
    if len(correlation) > RANK_SHARE * size:
        return None, np.zeros((len(correlation), 0))
    values, vectors = np.linalg.eigh(correlation)
    kept = values > RELATIVE_FLOOR * values[-1]
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return inverse, vectors[:, ~kept]


@dataclass(frozen=True)
class JointTest:
    """A component's test against the rest: p-value, and bound on what it may have missed."""

    p: float
    missed: float


def missed_dependence(excess: float, variance: float, n: float) -> float:
    """Return the upper limit of a sum of squared correlations (see the module's description)."""
    z = MISSED_QUANTILE
    width = np.sqrt(variance + 4.0 * max(0.0, excess) / n + 4.0 * z**2 / n**2)
    return max(0.0, float(excess + 2.0 * z**2 / n + z * width))


def _partners(least: Ints, evidence: list[Floats]) -> list[list[int]]:
    """Return what to join: the least p-value's, with what they depend on most, and all ties."""
    sets: list[set[int]] = []
    for k, deviates in zip(least, evidence, strict=True):
        best = deviates.max()
        tied = np.flatnonzero(deviates >= best - TOLERANCE * max(1.0, abs(best)))
        fresh = {int(k), *map(int, tied)}
        apart = [known for known in sets if not known & fresh]
        sets = [*apart, fresh.union(*(known for known in sets if known & fresh))]
    return [sorted(known) for known in sets]


@dataclass(frozen=True)
class _Block:
    """Traces of the first three powers of a Gram matrix, and its squared diagonal's sum."""

    trace: float
    square: float
    cube: float
    fourth: float


def permutation_moments(n: float, first: _Block, second: _Block) -> tuple[float, float]:
    r"""Return mean and variance of :math:`tr(W_1 P W_2 P')` over all permutations ``P`` of rows.

    ``W`` are Gram matrices of centred columns. With :math:`t_k = tr W^k` and
    :math:`s = \sum_i W_{ii}^2`,

    .. math::

        E = \frac{t_1 t_1'}{n - 1}, \qquad
        V = \frac{2\,a\,a'}{(n-1)^2 (n+1)(n-2)} + \frac{c\,c'}{(n+1)\,n\,(n-1)(n-2)(n-3)},

    :math:`a = (n-1) t_2 - t_1^2` and :math:`c = n(n+1) s - (n-1)(t_1^2 + 2 t_2)`.
    """
    mean = first.trace * second.trace / (n - 1.0)
    spread, corner = 2.0 / ((n - 1.0) ** 2 * (n + 1.0) * (n - 2.0)), 1.0
    for block in (first, second):
        spread *= (n - 1.0) * block.square - block.trace**2
        corner *= n * (n + 1.0) * block.fourth - (n - 1.0) * (block.trace**2 + 2.0 * block.square)
    return mean, spread + corner / ((n + 1.0) * n * (n - 1.0) * (n - 2.0) * (n - 3.0))


def rotation_skewness(n: float, first: _Block, second: _Block) -> float:
    r"""Return the skewness of :math:`tr(W_1 H W_2 H')` over rotations ``H`` of ``n - 1`` axes.

    By zonal polynomials, :math:`E\,tr(W_1 H W_2 H')^k = \sum_\kappa C_\kappa(W_1) C_\kappa(W_2) /
    C_\kappa(I)` over the partitions of ``k`` (A. T. James, 1964).
    """
    m = n - 1.0
    one = _Block(m, m, m, 0.0)
    moments = []
    for zonal in (_zonal_2, _zonal_3):
        terms = zip(zonal(first), zonal(second), zonal(one), strict=True)
        moments.append(sum(a * b / c for a, b, c in terms if c > 0))
    mean = first.trace * second.trace / m
    variance = moments[0] - mean**2
    third = moments[1] - 3.0 * mean * moments[0] + 2.0 * mean**3
    if not variance > TOLERANCE * mean**2 / n:
        return 0.0
    return float(third / variance**1.5)


def _zonal_2(block: _Block) -> tuple[float, float]:
    t1, t2 = block.trace**2, block.square
    return (t1 + 2.0 * t2) / 3.0, 2.0 * (t1 - t2) / 3.0


def _zonal_3(block: _Block) -> tuple[float, float, float]:
    t1, t2, t3 = block.trace**3, block.trace * block.square, block.cube
    return (
        (t1 + 6.0 * t2 + 8.0 * t3) / 15.0,
        3.0 * (t1 + t2 - 2.0 * t3) / 5.0,
        (t1 - 3.0 * t2 + 2.0 * t3) / 3.0,
    )


def pearson_tail(z: float, skewness: float) -> float:
    """Return the upper tail of a standardised gamma (Pearson III) law of this skewness."""
    if abs(skewness) < 1e-4:
        return float(ndtr(-z))
    shape = 4.0 / skewness**2
    point = max(0.0, shape + np.sign(skewness) * z * np.sqrt(shape))
    return float(gammaincc(shape, point) if skewness > 0 else gammainc(shape, point))


def step_up(p: Floats, total: int) -> float:
    r"""Return the level at which Benjamini and Hochberg's step-up joins a further component.

    Of ``total`` components :math:`r` are joined already: :math:`\min_k p_{(k)} K / (r + k)`.
    """
    joined = total - len(p)
    return float(np.min(np.sort(p) * total / (joined + np.arange(1.0, len(p) + 1.0))))


def _wilks_p_value(block: Floats, n: float) -> float:
    """Return the p-value of Wilks' lambda of two orthonormal blocks, by Rao's F."""
    p, q = block.shape
    correlations = np.clip(np.linalg.svd(block, compute_uv=False), 0.0, 1.0)
    root = np.sqrt((p**2 * q**2 - 4.0) / (p**2 + q**2 - 5.0)) if p * q > 2 else 1.0
    unexplained = float(np.exp(np.sum(np.log1p(-np.minimum(correlations**2, 1.0 - 1e-15))) / root))
    below = (n - 1.0 - 0.5 * (p + q + 1.0)) * root - 0.5 * p * q + 1.0
    return float(fdtrc(p * q, below, (1.0 - unexplained) / unexplained * below / (p * q)))
