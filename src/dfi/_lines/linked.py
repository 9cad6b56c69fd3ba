r"""Line means through a link: probabilities and rates whose margin is known along a line.

A linear margin is :math:`\alpha + \beta t` along a line, a polynomial's a parabola in ``t``, a
network's a sum of bent hinges of :math:`\alpha_k + \beta_k t`. What is averaged is
:math:`g(\eta(t))`, at nodes of ``t`` and without predicting a single row:

.. math:: m = \sum_k \omega_k\, g(\eta(t_k)), \qquad h = \sum_k \omega_k t_k\, g(\eta(t_k)).

**Normal law.** The trapezoidal rule with step .6 on [-8.4, 8.4] and its refinements by halves. A
logistic function of slope :math:`\beta` has poles at the distance :math:`\pi/\beta` from the line,
and the rule errs by :math:`e^{-2\pi^2/(\beta s)}` with the step ``s``: 57 nodes have an error below
1e-8 up to :math:`\beta = 3`, where the Gauss-Hermite rule of as many has 1e-6 and gains slowly.

**Empirical law.** The Gauss rules of the law itself with 8, 16, ... 256 nodes, and the law's own
values where that is not more than twice as many. A law of more than :data:`MOST_ATOMS` values is
first put into cells of equal width, each replaced by the two nodes that keep its moments up to the
third.

A line whose means change by more than :data:`TOLERANCE` of its range from one rule to the next is
averaged by the one after that; a network's bends make rules gain more slowly, and ten times the
change is allowed. Trees that go on from a smooth margin jump: they take the law's own values up to
:data:`MOST_EXACT`, and otherwise :data:`STEP_NODES` cells, with the trees' mean over each: their
root mean square error is below 2 thousandths of the means' spread.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor

from dfi._learners.families import Link, mean_of
from dfi._learners.glm import LinkedQuadratic, LinkedRidge
from dfi._learners.linked import LinkedNetwork
from dfi._lines.base import ROUNDING, LineModel, LineMoments, Lines, Reference, blocks
from dfi._lines.closed_form import (
    BoundedLines,
    HingeLines,
    LinearLines,
    QuadraticLines,
    SumLines,
    scaled_linear,
)
from dfi._lines.quadrature import Lanczos

if TYPE_CHECKING:
    from dfi._lines.kernels_linked import Hinges
    from dfi._lines.trees.model import TreeLines
    from dfi._types import Bools, Floats, Ints

    Rule = tuple[Floats, Floats]

TOLERANCE = 1e-5
"""Change of a line's mean between two rules, as a share of its range, that is small enough: the
finer of the two, which is taken, errs by much less where the margin is smooth."""

BENT = 1e-4
"""The same for networks, whose margins bend: halving a rule's step divides its error by eight."""

WIDEST, REACH = 0.6, 14
"""Step of the coarsest trapezoidal rule, and how many steps it goes to either side."""

HALVINGS = 4
GAUSS = (8, 16, 32, 64, 128, 256)
MOST_ATOMS = 4096
CELLS = 2048

STEP_NODES, MOST_EXACT = 256, 512
"""Nodes where a margin jumps, and how many values a law may have to be summed exactly there."""

VALUES_AT_ONCE = 1 << 21

TOGETHER = 32
"""Coordinates whose lines one call of the kernel averages."""

PER_VISIT = 8
"""Units of a network at nodes that take as long as one visit of a tree."""


class MarginLines(Protocol):
    """A margin that is known along lines."""

    def predict(self, points: Floats) -> Floats:
        """Return the margin at each row."""

    def along(self, lines: Lines, j: int, back: Floats, nodes: Floats) -> Floats:
        """Return the margin of each row at each node of line ``j``, (n, nodes)."""


@dataclass(frozen=True)
class TreeMargin:
    """A smooth margin, continued by trees."""

    smooth: MarginLines
    trees: TreeLines

    def predict(self, points: Floats) -> Floats:
        return self.smooth.predict(points) + self.trees.predict(points)

    def along(self, lines: Lines, j: int, back: Floats, nodes: Floats) -> Floats:
        from dfi._compiled import kernel_array
        from dfi._lines.kernels_linked import tree_margins
        from dfi._lines.trees.kernels_pieces import cuts_of, pieces_of, seen_by_trees

        points, width = kernel_array(lines.points, np.float64), lines.points.shape[1]
        trees, direction = self.trees.nodes(width), lines.directions[:, j]
        low, high = float(nodes[0]) - 1.0, float(nodes[-1]) + 1.0
        cuts = cuts_of(self.trees.categories)
        pieces = pieces_of(points, kernel_array(back, np.float64), direction, cuts, low, high)
        copied = np.repeat(direction[cuts.source], np.diff(cuts.copies))
        out = np.zeros((len(back), len(nodes)))
        tree_margins(
            trees,
            seen_by_trees(points, pieces.line, pieces.levels, cuts),
            np.concatenate([direction, np.zeros(len(cuts.source)), copied]),
            kernel_array(back, np.float64),
            pieces.line,
            pieces.low,
            pieces.high,
            kernel_array(nodes, np.float64),
            kernel_array(lines.reference.kept(_cells, j)[2], np.float64),
            np.empty(trees.depth + 2, dtype=np.int64),
            np.empty((trees.depth + 2, 2)),
            out,
        )
        out += self.smooth.along(lines, j, back, nodes)
        out += self.trees.ensemble.intercept
        return out


@dataclass(frozen=True)
class LinkedLines:
    """The model ``link(margin)``, the margin kept within bounds."""

    margin: MarginLines
    link: Literal["logistic", "exp"]
    bounds: tuple[float, float] = (-np.inf, np.inf)

    @property
    def rule(self) -> str:
        name = {LinearLines: "linear", QuadraticLines: "quadratic", HingeLines: "hinges"}
        kind = name.get(type(self.margin))
        behind = "a logistic link" if self.link == "logistic" else "an exponential link"
        return f"nodes ({kind or 'trees after a smooth margin'} behind {behind})"

    def predict(self, points: Floats) -> Floats:
        return mean_of(self.link, np.clip(self.margin.predict(points), *self.bounds))

    def moments(self, lines: Lines) -> LineMoments:
        n, d = lines.latent.shape
        found = np.empty((2, len(lines.offsets), n, d))
        # most coordinates have no random part: their lines are those of offset 0
        same = lines.offsets == lines.offsets[0]
        same[0] = False
        if isinstance(self.margin, TreeMargin):
            for part in blocks(n, VALUES_AT_ONCE // STEP_NODES):
                some = lines.take(part)
                for k, j in np.argwhere(~same):
                    found[:, k, part, j] = self._jumping(some, j, float(lines.offsets[k, j]))
        else:
            smooth = _Smooth.of(self.margin, lines)
            for k, offset in enumerate(lines.offsets):
                chosen = np.flatnonzero(~same[k])
                found[:, k, :, chosen] = smooth.moments(self, lines, offset, chosen)
        for k, j in np.argwhere(same):
            found[:, k, :, j] = found[:, 0, :, j]
        return LineMoments(*found)

    def _jumping(self, lines: Lines, j: int, offset: float) -> Floats:
        """Return the moments of all rows along one line, (2, n), by cells of the law."""
        nodes, weights, _ = lines.reference.kept(_cells, j)
        margin = self.margin.along(lines, j, lines.latent[:, j] + offset, nodes)
        value = mean_of(self.link, np.clip(margin, *self.bounds, out=margin))
        return np.stack([value @ weights, value @ (weights * nodes)])


@dataclass(frozen=True)
class _Smooth:
    """A smooth margin along lines as kernels take it: a parabola, or bent hinges."""

    value: Floats
    tilt: Floats
    bend: Floats
    hinges: Hinges
    tolerance: float

    @classmethod
    def of(cls, margin: MarginLines, lines: Lines) -> _Smooth:
        from dfi._compiled import kernel_array
        from dfi._lines.kernels_linked import Hinges

        n, d = lines.latent.shape
        if isinstance(margin, HingeLines):
            hinges = Hinges(
                kernel_array(lines.points @ margin.directions + margin.offsets, np.float64),
                kernel_array((margin.directions.T @ lines.directions).T, np.float64),
                kernel_array(margin.reach[0], np.float64),
                kernel_array(margin.reach[1], np.float64),
                kernel_array(margin.slopes, np.float64),
            )
            return cls(np.full(n, margin.intercept), np.zeros((d, n)), np.zeros(d), hinges, BENT)
        if not isinstance(margin, LinearLines | QuadraticLines):
            raise TypeError(f"{type(margin).__name__} is no smooth margin")
        slope, bend = margin.parabolas(lines)
        none = np.empty(0)
        return cls(
            kernel_array(margin.predict(lines.points), np.float64),
            kernel_array(slope.T, np.float64),
            kernel_array(bend, np.float64),
            Hinges(np.empty((n, 0)), np.empty((d, 0)), none, none, none),
            TOLERANCE,
        )

    def moments(self, model: LinkedLines, lines: Lines, offset: Floats, going: Ints) -> Floats:
        """Return the moments along lines of some coordinates, (coordinates, 2, n)."""
        from dfi._compiled import kernel_array, run_tasks
        from dfi._lines.kernels_linked import linked_moments

        n, d = lines.latent.shape
        latent, shift = kernel_array(lines.latent.T, np.float64), kernel_array(offset, np.float64)
        ladders = {j: lines.reference.kept(_Ladder, j) for j in going.tolist()}
        sums, moving = np.empty((d, 2, n)), np.ones((d, n), dtype=np.bool_)
        level, open_ones = 0, going.tolist()
        logistic, (least, most) = model.link == "logistic", map(float, model.bounds)
        while open_ones:
            rules = {j: rule for j in open_ones if (rule := ladders[j].at(level)) is not None}
            size = sum(len(nodes) for nodes, _ in rules.values())

            def along(which: Ints, level: int = level, rules: dict[int, Rule] = rules) -> None:
                nodes, weights = (np.concatenate([rules[j][k] for j in which]) for k in range(2))
                starts = np.cumsum([0, *(len(rules[j][0]) for j in which)])
                linked_moments(
                    which, self.value, self.tilt, self.bend, self.hinges, latent, shift, starts,
                    nodes, weights, logistic, least, most,
                    self.tolerance, level > 0, moving, sums,
                )  # fmt: skip

            parts = [np.array(list(rules)[part]) for part in blocks(len(rules), TOGETHER)]
            run_tasks(along, parts, work=n * size * (1 + len(self.hinges.slopes)) / PER_VISIT)
            open_ones = [j for j in rules if moving[j].any()]
            level += 1
        return sums[going]


class _Ladder:
    """Rules of one coordinate of a law, each made when it is first asked for.

    Folds are scored by threads that share the law: one of them makes a rule, and the others wait.
    """

    def __init__(self, reference: Reference, j: int) -> None:
        self.making = threading.Lock()
        self.made: list[Rule | None] = []
        self.process: Lanczos | None = None
        self.atoms: Rule | None = None
        if reference.values is not None:
            self.atoms = _compressed(*reference.atoms(j))
            self.process = Lanczos(*self.atoms)

    def at(self, level: int) -> Rule | None:
        """Return a rule, None after the last one."""
        with self.making:
            while level >= len(self.made):
                self.made.append(self._rule(len(self.made)))
        return self.made[level]

    def _rule(self, level: int) -> Rule | None:
        if self.atoms is None or self.process is None:
            if level > HALVINGS:
                return None
            reach = REACH * 2**level
            nodes = np.arange(-reach, reach + 1) * (WIDEST / 2**level)
            weights = np.exp(-0.5 * nodes**2)
            return nodes, weights / weights.sum()
        before = self.made[-1] if self.made else None
        if level == len(GAUSS) or (before is not None and len(before[0]) == len(self.atoms[0])):
            return None
        if len(self.atoms[0]) <= 2 * GAUSS[level]:
            return self.atoms
        return self.process.rule(GAUSS[level])


def _cells(reference: Reference, j: int) -> tuple[Floats, Floats, Floats]:
    """Return means, masses and ends of cells of a law; no ends where a law is short, for itself.

    Cells of a normal law have equal probability under N(0, 2). They are narrow in the middle, where
    jumps count, and reach further than its own, for the exponential. An empirical law is cut at
    quantiles and, for its tails, at places of equal distance.
    """
    if reference.values is None:
        ends = np.sqrt(2.0) * ndtri(np.arange(STEP_NODES + 1) / STEP_NODES)
        density = np.exp(-0.5 * ends**2) / np.sqrt(2.0 * np.pi)
        mass = np.diff(ndtr(ends))
        nodes = -np.diff(density) / mass
        # the outermost are as wide as their means are far from their inner ends, twice
        ends[0], ends[-1] = 2.0 * nodes[0] - ends[1], 2.0 * nodes[-1] - ends[-2]
        return nodes, mass, ends
    atoms, mass = reference.atoms(j)
    if len(atoms) <= MOST_EXACT:
        return atoms, mass, np.empty(0)
    far = STEP_NODES // 4
    by_mass = (np.cumsum(mass) - 0.5 * mass) * (STEP_NODES - far)
    by_place = (atoms - atoms[0]) * (far / (atoms[-1] - atoms[0]))
    # both numbers rise along the law, and a cell ends where one of them does
    cell = np.floor(by_mass) + np.floor(by_place)
    starts = np.flatnonzero(np.diff(cell, prepend=-1.0) > 0)
    total = np.add.reduceat(mass, starts)
    between = 0.5 * (atoms[starts[1:] - 1] + atoms[starts[1:]])
    ends = np.concatenate([atoms[:1], between, atoms[-1:]])
    return np.add.reduceat(mass * atoms, starts) / total, total, ends


def _compressed(atoms: Floats, mass: Floats) -> Rule:
    r"""Return a law of many values with fewer: the two-point Gauss rule of each cell.

    With a cell's mean :math:`\mu`, deviation :math:`\sigma` and skewness :math:`\gamma` its nodes
    are :math:`\mu + \sigma(\gamma/2 \mp \sqrt{1 + \gamma^2/4})`.
    """
    if len(atoms) <= MOST_ATOMS:
        return atoms, mass
    width = float(atoms[-1] - atoms[0])
    cell = np.minimum((atoms - atoms[0]) * (CELLS / width), CELLS - 1.0).astype(np.intp)
    starts: Bools = np.diff(cell, prepend=-1) > 0
    place = np.cumsum(starts) - 1
    total = np.bincount(place, mass)
    mean = np.bincount(place, mass * atoms) / total
    away = atoms - mean[place]
    deviation = np.sqrt(np.bincount(place, mass * away**2) / total)
    third = np.bincount(place, mass * away**3) / total
    one = deviation <= ROUNDING * width
    skewness = third / np.where(one, 1.0, deviation) ** 3
    root = np.sqrt(1.0 + 0.25 * skewness**2)
    low, high = 0.5 * skewness - root, 0.5 * skewness + root
    share = high / (high - low)
    nodes = np.concatenate([mean + deviation * low, (mean + deviation * high)[~one]])
    weights = np.concatenate([np.where(one, total, total * share), (total * (1.0 - share))[~one]])
    nodes[: len(mean)][one] = mean[one]
    order = np.argsort(nodes, kind="stable")
    return nodes[order], weights[order] / weights.sum()


def linked_lines(model: object, n_columns: int) -> LinkedLines | None:
    """Read a fitted model with a margin that is known along lines; None for any other."""
    if isinstance(model, LinkedRidge | LinkedNetwork):
        return LinkedLines(smooth_margin(model), Link(model.family).kind, model.bounds_)
    linear = scaled_linear(model, n_columns, (LogisticRegression, PoissonRegressor, GammaRegressor))
    if linear is None:
        return None
    final = model.steps[-1][1] if hasattr(model, "steps") else model
    kind: Literal["logistic", "exp"] = (
        "logistic" if isinstance(final, LogisticRegression) else "exp"
    )
    return LinkedLines(linear, kind)


def before_map(
    model: LineModel | MarginLines, origin: Floats, directions: Floats
) -> LineModel | None:
    """Return a closed form of ``x`` as one of ``z``, ``x = origin + directions @ z``, or None.

    What a model does with so many columns, or few, is then the same: rows need not be made.
    """
    if isinstance(model, LinearLines):
        slopes = model.coefficients @ directions
        return LinearLines(slopes, float(origin @ model.coefficients) + model.intercept)
    if isinstance(model, HingeLines):
        offsets = model.offsets + origin @ model.directions
        return replace(model, directions=directions.T @ model.directions, offsets=offsets)
    if isinstance(model, LinkedLines):
        margin = before_map(model.margin, origin, directions)
        if not isinstance(margin, LinearLines | HingeLines):
            return None
        return replace(model, margin=margin)
    if isinstance(model, BoundedLines):
        inner = before_map(model.model, origin, directions)
        return replace(model, model=inner) if isinstance(inner, LinearLines) else None
    if not isinstance(model, SumLines):
        return None
    parts = [before_map(part, origin, directions) for part in model.parts]
    found = tuple(part for part in parts if part is not None)
    return replace(model, parts=found) if len(found) == len(parts) else None


def smooth_margin(model: LinkedRidge | LinkedNetwork) -> LinearLines | QuadraticLines | HingeLines:
    """Return the margin of one of our own models along lines, before it is kept within bounds."""
    if isinstance(model, LinkedNetwork):
        return HingeLines(
            model.directions_, model.offsets_, model.reach_, model.slopes_, model.intercept_
        )
    if isinstance(model, LinkedQuadratic):
        return QuadraticLines(model.center_, model.linear_, model.quadratic_, model.intercept_)
    return LinearLines(model.coefficients_, model.intercept_)
