r"""A tree ensemble as flat arrays, from any library, and how it sees levels.

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

**Splits by level**, of models that take categories themselves, send some levels left and the others
right: they are splits at 1/2 of a column that is 0 at the former and 1 at the latter.

**Classifiers of K classes** have a sum of trees for each class, :math:`s_k`, and the probability of
class ``k`` is :math:`e^{s_k} / \sum_l e^{s_l}`: one ensemble holds the trees of all classes, since
each probability needs every one of them, and says which class is explained.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._data.levels import BEYOND, Block, Grid, Levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfi._types import Bools, Floats, Ints

    Integers = NDArray[np.int32]

Link = Literal["identity", "logistic", "exp", "softmax"]

OUTSIDE = 1e100
"""A value beyond every threshold, anywhere on a line: kernels keep thresholds within 1e50."""

TWO = 2
"""Classes of a binary outcome."""

BETWEEN = 0.5
"""Where splits by level are: 0 goes left, 1 right."""

SPREAD = 1000.0
"""How many smallest steps a column of numbers may span whose lines are cut at its levels."""


class Unreadable(Exception):
    """A model made of trees that cannot be read exactly; the message says why."""


class NotTrees(Exception):
    """A model without trees: nothing to warn about."""


def require(condition: object, reason: str) -> None:
    if not condition:
        raise Unreadable(reason)


@dataclass(frozen=True)
class LevelRule:
    """A split by level: ``members`` of a column go left where ``left``, right where not."""

    column: int
    members: frozenset[int]
    left: bool
    missing_left: bool | None = None

    def goes_left(self, codes: Floats) -> Bools:
        found = np.isin(codes, list(self.members)) == self.left
        if self.missing_left is not None:
            found = np.where(np.isnan(codes), self.missing_left, found)
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class Classes:
    """The class that each tree adds to, each class's intercept, and which class is explained."""

    of_tree: Integers
    intercepts: Floats
    explained: int

    @property
    def count(self) -> int:
        return len(self.intercepts)


@dataclass(frozen=True)
class TreeEnsemble:
    """The function ``link(intercept + sum over trees of the value of the leaf reached)``.

    With a softmax link there is such a sum for each of ``classes``, and ``intercept`` is 0.

    Nodes are given by arrays: a row goes left where ``x[feature] <= threshold`` in float64
    arithmetic, and where ``rules[feature - n_features]`` says so for features beyond the columns.
    At a leaf ``feature`` and both children are -1; elsewhere the ``value``, with learning rate,
    averaging and class column already applied, is 0. ``default_left`` tells where a missing value
    goes, in models that take some. ``tolerance`` is the relative error up to which the library's
    own predict reproduces the sum: its rounding.
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
    rules: tuple[LevelRule, ...] = ()
    default_left: Bools | None = None
    classes: Classes | None = None

    @property
    def n_trees(self) -> int:
        return len(self.roots)

    @property
    def n_sums(self) -> int:
        """The number of sums of trees: one for each class behind a softmax link."""
        return 1 if self.classes is None else self.classes.count

    def scaled(self, factor: float) -> TreeEnsemble:
        self._require_sum("scaled")
        return replace(self, value=self.value * factor, intercept=self.intercept * factor)

    def shifted(self, constant: float) -> TreeEnsemble:
        return replace(self, intercept=self.intercept + constant)

    def tempered(self, factor: float) -> TreeEnsemble:
        """Return the ensemble with its sums multiplied by a number, before the link."""
        classes = self.classes
        if classes is not None:
            classes = replace(classes, intercepts=classes.intercepts * factor)
        return replace(
            self, value=self.value * factor, intercept=self.intercept * factor, classes=classes
        )

    def margin(self) -> TreeEnsemble:
        """Return the log-odds of the explained one of two classes, a sum of trees."""
        if self.classes is None:
            require(self.link == "logistic", "its log-odds are not a sum of trees")
            return replace(self, link="identity")
        require(self.classes.count == TWO, "log-odds are those of two classes")
        sign = np.where(np.arange(TWO) == self.classes.explained, 1.0, -1.0)
        # Nodes of a tree come together, in the order of the roots.
        sizes = np.diff([*self.roots.tolist(), len(self.value)])
        value = self.value * np.repeat(sign[self.classes.of_tree], sizes)
        intercept = float(sign @ self.classes.intercepts)
        return replace(self, value=value, intercept=intercept, link="identity", classes=None)

    def with_columns(self, columns: ArrayLike, n_features: int) -> TreeEnsemble:
        """Return the same function of a wider row: column ``k`` is now ``columns[k]``."""
        lookup = np.asarray(columns, dtype=np.int32)
        rules = tuple(replace(rule, column=int(lookup[rule.column])) for rule in self.rules)
        lookup = np.concatenate([lookup, n_features + np.arange(len(rules), dtype=np.int32)])
        feature = np.where(self.feature >= 0, lookup[self.feature], np.int32(-1)).astype(np.int32)
        return replace(self, feature=feature, n_features=n_features, rules=rules)

    def numbered(self, rules: dict[LevelRule, int], n_features: int) -> Integers:
        """Return the features of the nodes where rules come after ``n_features`` columns."""
        if not self.rules:
            return self.feature
        place = np.array([rules[rule] for rule in self.rules], dtype=np.int32)
        feature = self.feature.copy()
        by_rule = feature >= self.n_features
        feature[by_rule] = n_features + place[feature[by_rule] - self.n_features]
        return feature

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
    n_features = max(part.n_features for part in parts)
    # Equal splits by level share a rule.
    rules = dict.fromkeys(rule for part in parts for rule in part.rules)
    numbers = {rule: k for k, rule in enumerate(rules)}
    defaults = [part.default_left for part in parts if part.default_left is not None]
    return TreeEnsemble(
        feature=np.concatenate([part.numbered(numbers, n_features) for part in parts]),
        threshold=np.concatenate([part.threshold for part in parts]),
        left=np.concatenate([children(part, "left", start) for part, start in pairs]),
        right=np.concatenate([children(part, "right", start) for part, start in pairs]),
        value=np.concatenate([part.value for part in parts]),
        roots=np.concatenate([part.roots + np.int32(start) for part, start in pairs]),
        intercept=float(sum(part.intercept for part in parts)),
        n_features=n_features,
        tolerance=max(part.tolerance for part in parts),
        rules=tuple(rules),
        default_left=np.concatenate(defaults) if len(defaults) == len(parts) else None,
    )


def softmax_of(sums: Sequence[TreeEnsemble], explained: int) -> TreeEnsemble:
    """Return the probability of one class, given the sum of trees of each class."""
    require(0 <= explained < len(sums), f"there is no class number {explained}")
    counts = [part.n_trees for part in sums]
    classes = Classes(
        np.repeat(np.arange(len(sums), dtype=np.int32), counts),
        np.array([part.intercept for part in sums]),
        explained,
    )
    return replace(add_ensembles(sums), intercept=0.0, link="softmax", classes=classes)


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
    rules: dict[int, LevelRule] | None = None,
    default_left: ArrayLike | None = None,
) -> TreeEnsemble:
    """Return one tree, given by node arrays whose root is node 0 (leaves have ``left < 0``)."""
    tree = joined_trees(
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
    if not rules:
        return tree
    nodes = list(rules)
    tree.feature[nodes] = n_features + np.arange(len(nodes))
    tree.threshold[nodes] = BETWEEN
    return replace(tree, rules=tuple(rules.values()))


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
    """A column decoded to levels where lines are cut, and how trees see it.

    The columns ``positions`` (k,) of a row decide between the ``k`` observed levels: the largest of
    the entries ``shift + scale * column`` does. The trees' ``columns`` (c,) depend on the level
    alone; ``values`` (k, c) is what they are at each level; at level 0 they move with the column
    ``source`` where there is one. ``grid`` are the levels of one number.
    """

    positions: Ints
    shift: Floats
    scale: Floats
    columns: Ints
    values: Floats
    source: int | None = None
    grid: Grid | None = None


def category_of(levels: Block | Grid, columns: Ints, values: Floats) -> Category:
    """Return a category that rows of the numeric matrix hold as a one-hot block or as a number."""
    if isinstance(levels, Block):
        k = len(levels.observed)
        return Category(levels.observed, np.zeros(k), np.ones(k), columns, values)
    # The nearest of v_k is that with the largest x v_k - v_k^2 / 2.
    first, step = levels.values[0], np.diff(levels.values).min()
    place = (levels.values - first) / step
    require(place[-1] <= SPREAD, "a column of numbers split by level has too many of them")
    positions = np.full(len(place), levels.position)
    shift = -(place**2) / 2.0 - place * (first / step)
    return Category(positions, shift, place / step, columns, values, grid=levels)


def follow_gaps(
    ensemble: TreeEnsemble, levels: Levels
) -> tuple[TreeEnsemble, tuple[Category, ...]]:
    """Return trees whose splits route missing values, and the rule that decides it on a line.

    Missing or not are two levels, by the indicator. A split on the value becomes one on either of
    two copies of it, which move with the value where it is there; where it is missing one of them
    is so small that every split sends it left, the other so large that every split sends it right.
    """
    require(ensemble.default_left is not None, "it does not say where missing values go")
    feature, width = ensemble.feature.copy(), ensemble.n_features
    grids = {grid.position: grid for grid in levels.grids}
    categories = []
    for gap in levels.gaps:
        nodes = ensemble.feature == gap.value
        known = grids[gap.indicator].values
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
                grids[gap.indicator] if len(known) > 1 else None,
            )
        )
        width += 2
    return replace(ensemble, feature=feature, n_features=width), tuple(categories)
