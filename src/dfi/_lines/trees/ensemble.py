r"""A tree ensemble as flat arrays, whatever library grew it, and what it sees of levels.

Every supported library decides a split by its own rule (``float32(x) <= c``, ``float32(x) < c``,
``x <= c``). All of them are monotone in the float64 number ``x``, so each is the same as
``x <= threshold`` for exactly one float64 threshold; the readers fold the rule into it here.

Rows with levels are decoded without leaving the exact walk. **One number per column:** libraries
put thresholds anywhere between two neighbouring levels, and some put them *at* a level, where the
smallest move of a row crosses it. At the midpoint the trees decide every row as the model decides
the row with the nearest levels, at no cost. **Categories of more than two levels** are decoded from
a one-hot block by its largest entry. Along a line the entries are straight, :math:`a_l + b_l t`, so
the level is that of their upper envelope: it is constant on pieces of the line, each level having
at most one. On a piece everything that the trees see of the category is constant, and the line mean
is the sum over pieces

.. math:: m = \sum_k E[f(x^{(k)}(t));\; t_{k-1} < t \le t_k],

with :math:`x^{(k)}` the row at the level of piece ``k``. Most lines have one to three pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._data.levels import BEYOND, TIE, largest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfi._data.levels import Block, Levels
    from dfi._types import Bools, Floats, Ints

    Integers = NDArray[np.int32]

Link = Literal["identity", "logistic", "exp"]

OUTSIDE = 1e100
"""What lies beyond every threshold, wherever a line takes it: kernels keep those within 1e50."""


class Unreadable(Exception):
    """A model made of trees that is not followed exactly; the message says why."""


class NotTrees(Exception):
    """A model that is not made of trees at all: nothing to warn about."""


def require(condition: object, reason: str) -> None:
    if not condition:
        raise Unreadable(reason)


@dataclass(frozen=True)
class TreeEnsemble:
    """The function ``link(intercept + sum over trees of the value of the leaf reached)``.

    Nodes are given by arrays: a row goes left where ``x[feature] <= threshold`` in float64
    arithmetic. At a leaf ``feature`` and both children are -1; elsewhere the ``value``, with
    learning rate, averaging and class column already applied, is 0. ``default_left`` tells where a
    missing value goes, in models that take some. ``tolerance`` is the relative error up to which
    the library's own predict reproduces the sum: its rounding.
    """

    feature: Integers
    threshold: Floats
    left: Integers
    right: Integers
    value: Floats
    roots: Integers
    intercept: float = 0.0
    link: Link = "identity"
    n_features: int = 0
    tolerance: float = 1e-9
    default_left: Bools | None = None

    @property
    def n_trees(self) -> int:
        return len(self.roots)

    def scaled(self, factor: float) -> TreeEnsemble:
        self._require_sum("scaled")
        return replace(self, value=self.value * factor, intercept=self.intercept * factor)

    def shifted(self, constant: float) -> TreeEnsemble:
        """Return the ensemble plus a number, before the link."""
        return replace(self, intercept=self.intercept + constant)

    def with_columns(self, columns: ArrayLike, n_features: int) -> TreeEnsemble:
        """Return the same function of a wider row: column ``k`` is now ``columns[k]``."""
        lookup = np.asarray(columns, dtype=np.int32)
        feature = np.where(self.feature >= 0, lookup[self.feature], np.int32(-1)).astype(np.int32)
        return replace(self, feature=feature, n_features=n_features)

    def predict(self, points: Floats, *, n_threads: int | None = None) -> Floats:
        from dfi._lines.trees.engine import predict

        return predict(self, points, n_threads=n_threads)

    def _require_sum(self, what: str) -> None:
        if self.link != "identity":
            raise ValueError(f"an ensemble with a {self.link} link cannot be {what}")


def add_ensembles(parts: Sequence[TreeEnsemble]) -> TreeEnsemble:
    for part in parts:
        part._require_sum("added to another")
    starts = np.cumsum([0] + [len(part.feature) for part in parts[:-1]])

    def children(part: TreeEnsemble, name: str, start: int) -> Integers:
        child: Integers = getattr(part, name)
        return np.where(child >= 0, child + np.int32(start), np.int32(-1)).astype(np.int32)

    pairs = list(zip(parts, starts, strict=True))
    defaults = [part.default_left for part in parts if part.default_left is not None]
    return TreeEnsemble(
        feature=np.concatenate([part.feature for part in parts]),
        threshold=np.concatenate([part.threshold for part in parts]),
        left=np.concatenate([children(part, "left", start) for part, start in pairs]),
        right=np.concatenate([children(part, "right", start) for part, start in pairs]),
        value=np.concatenate([part.value for part in parts]),
        roots=np.concatenate([part.roots + np.int32(start) for part, start in pairs]),
        intercept=float(sum(part.intercept for part in parts)),
        n_features=max(part.n_features for part in parts),
        tolerance=max(part.tolerance for part in parts),
        default_left=np.concatenate(defaults) if len(defaults) == len(parts) else None,
    )


def joined_trees(
    sizes: Sequence[int],
    feature: ArrayLike,
    threshold: ArrayLike,
    left: ArrayLike,
    right: ArrayLike,
    value: ArrayLike,
    *,
    n_features: int,
    tolerance: float = 1e-9,
    default_left: ArrayLike | None = None,
) -> TreeEnsemble:
    """Return the sum of trees whose node arrays were joined, children numbered within each tree."""
    left_child = np.asarray(left, dtype=np.int32)
    leaf = left_child < 0
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    start = np.repeat(roots, sizes)
    return TreeEnsemble(
        feature=np.where(leaf, -1, np.asarray(feature)).astype(np.int32),
        threshold=np.where(leaf, 0.0, np.asarray(threshold, dtype=np.float64)),
        left=np.where(leaf, -1, left_child + start).astype(np.int32),
        right=np.where(leaf, -1, np.asarray(right) + start).astype(np.int32),
        value=np.where(leaf, np.asarray(value, dtype=np.float64), 0.0),
        roots=roots,
        n_features=n_features,
        tolerance=tolerance,
        default_left=None if default_left is None else np.asarray(default_left, dtype=bool),
    )


def single_tree(
    feature: ArrayLike,
    threshold: ArrayLike,
    left: ArrayLike,
    right: ArrayLike,
    value: ArrayLike,
    *,
    n_features: int,
    tolerance: float = 1e-9,
    default_left: ArrayLike | None = None,
) -> TreeEnsemble:
    """Return one tree, given by node arrays whose root is node 0 (leaves have ``left < 0``)."""
    return joined_trees(
        [len(np.asarray(left))],
        feature,
        threshold,
        left,
        right,
        value,
        n_features=n_features,
        tolerance=tolerance,
        default_left=default_left,
    )


def fold_float32_at_most(threshold: ArrayLike) -> Floats:
    """Return ``c`` such that ``x <= c`` equals ``float32(x) <= threshold`` for every float64 ``x``.

    With ``a`` the largest float32 at most the threshold and ``b`` the next one, ``float32(x) <= a``
    holds below the midpoint of ``a`` and ``b``; the midpoint itself rounds to the even neighbour.
    """
    exact = np.asarray(threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        below = exact.astype(np.float32)
        below = np.where(
            below.astype(np.float64) > exact, np.nextafter(below, np.float32(-np.inf)), below
        )
        above = np.nextafter(below, np.float32(np.inf))
    middle = below.astype(np.float64) / 2 + above.astype(np.float64) / 2
    even = (below.view(np.int32) & 1) == 0
    return np.where(even, middle, np.nextafter(middle, -np.inf))


def fold_float32_below(threshold: ArrayLike) -> Floats:
    """Return ``c`` such that ``x <= c`` equals ``float32(x) < threshold``, a float32 number."""
    return fold_float32_at_most(
        np.nextafter(np.asarray(threshold, dtype=np.float32), np.float32(-np.inf))
    )


def at_midpoints(ensemble: TreeEnsemble, levels: Levels) -> TreeEnsemble:
    """Return trees with every split of a column with levels between those that it separates."""
    threshold = ensemble.threshold.copy()
    for grid in levels.grids:
        nodes = ensemble.feature == grid.position
        threshold[nodes] = grid.move(threshold[nodes])
    return replace(ensemble, threshold=threshold)


@dataclass(frozen=True, eq=False)
class Category:
    """A category of more than two levels, and what trees see of it.

    The columns ``positions`` (k,) of a row decide between the ``k`` observed levels, whose one-hot
    entries are ``shift + scale * column``. The trees' ``columns`` (c,) depend on the level alone;
    ``values`` (k, c) is what they are at each level; at level 0 they move with the column
    ``source`` where there is one.
    """

    positions: Ints
    shift: Floats
    scale: Floats
    columns: Ints
    values: Floats
    source: int | None = None

    def levels(self, rows: Floats) -> Ints:
        return largest(self.shift + self.scale * rows[:, self.positions])


def one_hot_category(block: Block, columns: Ints, values: Floats) -> Category:
    """Return a category that rows of the numeric matrix hold as a one-hot block."""
    k = len(block.observed)
    return Category(block.observed, np.zeros(k), np.ones(k), columns, values)


def categories_in(ensemble: TreeEnsemble, levels: Levels) -> tuple[Category, ...]:
    """Return the categories whose one-hot columns the trees split on."""
    categories = []
    for block in levels.blocks:
        used = block.positions[np.isin(block.positions, ensemble.feature)]
        if len(used):
            one_hot = (used == block.observed[:, None]).astype(np.float64)
            categories.append(one_hot_category(block, used, one_hot))
    return tuple(categories)


def follow_gaps(
    ensemble: TreeEnsemble, levels: Levels
) -> tuple[TreeEnsemble, tuple[Category, ...]]:
    """Return trees whose splits send missing values where they go, and what decides it on a line.

    Missing or not are two levels, by the indicator. A split on the value becomes one on either of
    two copies of it, which move with the value where it is there; where it is missing one of them
    is so small that every split sends it left, the other so large that every split sends it right.
    """
    require(ensemble.default_left is not None, "it does not say where missing values go")
    feature, width = ensemble.feature.copy(), ensemble.n_features
    grids = {grid.position: grid.values for grid in levels.grids}
    categories = []
    for gap in levels.gaps:
        nodes = ensemble.feature == gap.value
        known = grids[gap.indicator]
        if not nodes.any() or known[-1] == 0.0:
            continue
        feature[nodes] = np.where(ensemble.default_left, width, width + 1)[nodes]  # type: ignore[arg-type]
        categories.append(
            Category(
                np.array([gap.indicator, gap.indicator]),
                np.array([0.5 if known[0] == 0.0 else -BEYOND, 0.0]),
                np.array([0.0, 1.0]),
                np.array([width, width + 1]),
                np.array([[0.0, 0.0], [-OUTSIDE, OUTSIDE]]),
                gap.value,
            )
        )
        width += 2
    return replace(ensemble, feature=feature, n_features=width), tuple(categories)


def tree_rows(
    rows: Floats, categories: Sequence[Category], levels: Sequence[Ints], width: int
) -> Floats:
    """Return rows as trees of ``width`` columns see them, each category at the level given."""
    seen = np.zeros((len(rows), width))
    seen[:, : rows.shape[1]] = rows
    for category, level in zip(categories, levels, strict=True):
        seen[:, category.columns] = category.values[level]
        if category.source is not None:
            there = np.flatnonzero(level == 0)
            seen[np.ix_(there, category.columns)] = rows[there, category.source][:, None]
    return seen


@dataclass(frozen=True)
class Pieces:
    """Pieces of parallel lines on which every category keeps its level, in the lines' order."""

    line: Ints
    low: Floats
    high: Floats
    levels: tuple[Ints, ...]

    def sums(self, values: Floats) -> Floats:
        """Return the sum over the pieces of each line, along the last axis."""
        starts = np.flatnonzero(np.diff(self.line, prepend=-1))
        return np.asarray(np.add.reduceat(values, starts, axis=-1))


def pieces_of(
    points: Floats,
    latent: Floats,
    direction: Floats,
    categories: Sequence[Category],
    low: float,
    high: float,
) -> Pieces:
    """Cut the lines ``points + (t - latent) direction`` where a category changes its level."""
    n = len(points)
    pieces = Pieces(np.arange(n), np.full(n, low), np.full(n, high), ())
    for category in categories:
        slope = category.scale * direction[category.positions]
        entry = category.shift + category.scale * points[:, category.positions]
        origin = entry - latent[:, None] * slope - TIE * np.arange(len(slope))
        piece, start, end, level = _envelope(origin[pieces.line], slope, pieces.low, pieces.high)
        pieces = Pieces(
            pieces.line[piece], start, end, (*(known[piece] for known in pieces.levels), level)
        )
    return pieces


def _envelope(
    origin: Floats, slope: Floats, low: Floats, high: Floats
) -> tuple[Ints, Floats, Floats, Ints]:
    """Return line, start, end and place of the largest of ``origin + slope t``, piece by piece."""
    line = np.arange(len(origin))
    at, place = low, np.argmax(origin + slope * low[:, None], axis=1)
    pieces = []
    while len(line):
        rise = slope - slope[place][:, None]
        lead = origin[line, place][:, None] - origin[line]
        # What rises faster overtakes where its lag is made up; rounding must not step back.
        crossing = np.divide(lead, rise, out=np.full(rise.shape, np.inf), where=rise > 0)
        following = np.argmin(crossing, axis=1)
        overtaken = np.maximum(np.take_along_axis(crossing, following[:, None], axis=1)[:, 0], at)
        end = np.minimum(overtaken, high[line])
        pieces.append((line, at, end, place))
        ongoing = overtaken < high[line]
        line, at, place = line[ongoing], end[ongoing], following[ongoing]
    lines, starts, ends, places = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    order = np.argsort(lines, kind="stable")
    # A level that is met at a single point has no piece; a line keeps its first in any case.
    order = order[(ends > starts)[order] | (np.diff(lines[order], prepend=-1) > 0)]
    return lines[order], starts[order], ends[order], places[order]
