"""Run the kernels: scale the lines, choose the kernel, share the work among threads.

Every line is summed by one task in the order of the trees: the bits are the same for any number of
threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import expit, softmax

from dfi._compiled import kernel_array, run_tasks
from dfi._lines.base import LineMoments, Lines, blocks
from dfi._lines.trees.kernels_blocks import (
    Arena,
    Jumps,
    Leaving,
    Nodes,
    all_lines,
    arena_for,
    arena_moments,
    collect_jumps,
    jumps_for,
    lay_out,
    leaving_of,
    lines_for,
    places_for,
    predict_sums,
)
from dfi._lines.trees.kernels_lines import (
    SortedDirections,
    class_sums_for,
    detours_for,
    merged_moments,
    path_moments,
    softmax_moments,
    sorting_for,
)
from dfi._lines.trees.kernels_pieces import cuts_of, levels_at, pieces_of, seen_by_trees
from dfi._lines.trees.law import CoordinateLaw, Law, coordinate_law, step_below, tabulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfi._lines.trees.ensemble import Category, TreeEnsemble
    from dfi._types import Floats, Ints

    # Parallel lines: latent values, steepness, law, shifts, lower and upper ends, step.
    Block = tuple[Floats, Floats, CoordinateLaw, Floats, Floats, Floats, float]

Kernel = Literal["arena", "shared", "path", "merged"]

LINKS = {"identity": 0, "logistic": 1, "exp": 2}
# Rounding of a matrix square root leaves entries of about 1e-16 of a feature's own scale.
NEGLIGIBLE = 1e-12
ROWS_PER_BLOCK = 1024
ROWS_PER_PATH_TASK = 16
# Rows and trees whose lines that leave are found together: enough for the tables of a law, which
# are read from memory for each direction; what is found then takes at most 1 MB a direction.
ROWS_TOGETHER = 2048
TREES_AT_ONCE = 128
# Directions that share the walk of a row's own path; from how many on it is worth one.
MOST_DIRECTIONS = 128
FEWEST_DIRECTIONS = 16
# Part of the lines that leave their row's leaf in a tree, below which those are found first.
MANY = 0.5
# Stands for an infinite steepness: a direction that does not move a feature crosses nowhere.
UNMOVED = 1e100
# Room for the jumps along a line, to begin with.
JUMPS_PER_TREE = 8
FEWEST_JUMPS = 256
# Lines whose jumps are kept at once: those of a few hundred trees then stay in the cache.
LINES_AT_ONCE = 128
# Part of the directions that cross at a split, below which the path kernel is quicker.
SPARSE = 0.02


@dataclass(frozen=True)
class KernelLines:
    """Lines as the kernels want them.

    ``steepness`` (d, p) is ``1 / L_fj``, or 0 where ``L_fj`` counts as zero; outside of ``lows`` to
    ``highs`` (d,) no shifted law has mass.
    """

    steepness: Floats
    law: Law
    lows: Floats
    highs: Floats

    @property
    def reach(self) -> float:
        """Bound on ``|t|`` within those intervals."""
        return float(max(np.abs(self.lows).max(), np.abs(self.highs).max()))


def predict(
    ensemble: TreeEnsemble,
    points: Floats,
    *,
    categories: Sequence[Category] = (),
    n_threads: int | None = None,
    nodes: Nodes | None = None,
) -> Floats:
    """Return the value of an ensemble at each row; ``nodes`` are its trees, if laid out before."""
    rows = np.asarray(points, dtype=np.float64)
    nodes = nodes or lay_out(ensemble, categories, rows.shape[1])
    sums = np.zeros((ensemble.n_sums, len(rows)))
    of_sum = [nodes]
    if ensemble.classes is not None:
        chosen = [ensemble.classes.of_tree == k for k in range(ensemble.classes.count)]
        of_sum = [nodes._replace(roots=nodes.roots[trees]) for trees in chosen]

    cuts = cuts_of(tuple(categories))

    def task(block: slice) -> None:
        places = places_for(block.stop - block.start, nodes.depth)
        part = rows[block]
        if categories:
            part = kernel_array(part, np.float64)
            columns = seen_by_trees(part, np.arange(len(part)), levels_at(part, cuts), cuts)
        else:
            columns = kernel_array(part.T, np.float64)
        for trees, total in zip(of_sum, sums, strict=True):
            predict_sums(trees, columns, places, total[block])

    run_tasks(task, blocks(len(rows), ROWS_PER_BLOCK), n_threads, work=len(rows) * ensemble.n_trees)
    if ensemble.classes is not None:
        sums += ensemble.classes.intercepts[:, None]
        return np.asarray(softmax(sums, axis=0)[ensemble.classes.explained])
    margin: Floats = sums[0] + ensemble.intercept
    if ensemble.link == "logistic":
        return np.asarray(expit(margin), dtype=np.float64)
    return np.exp(margin) if ensemble.link == "exp" else margin


def line_moments(
    ensemble: TreeEnsemble,
    lines: Lines,
    *,
    categories: Sequence[Category] = (),
    kernel: Kernel | None = None,
    n_threads: int | None = None,
    nodes: Nodes | None = None,
) -> LineMoments:
    """Return exact moments along each line, by the fastest kernel that applies."""
    needs_merging = ensemble.link != "identity"
    nodes = nodes or lay_out(ensemble, categories, lines.points.shape[1])
    if kernel is None and categories:
        kernel = "merged" if needs_merging else "arena"
    elif kernel is None:
        kernel = "merged" if needs_merging else choose_kernel(ensemble, lines, nodes)
    elif kernel in ("path", "shared") and categories:
        raise ValueError(f"the {kernel} kernel does not cut lines")
    elif needs_merging and kernel != "merged":
        raise ValueError(f"the {kernel} kernel has no nonlinear link")
    geometry = _geometry(lines)
    if kernel == "path":
        return _path(ensemble, nodes, lines, geometry, n_threads)
    if kernel == "shared":
        return _shared(ensemble, nodes, lines, geometry, n_threads)
    return _by_direction(
        ensemble, nodes, lines, geometry, categories, n_threads, merged=kernel == "merged"
    )


def choose_kernel(ensemble: TreeEnsemble, lines: Lines, nodes: Nodes) -> Kernel:
    """Return the quicker kernel for a sum of trees along these lines.

    The path kernel pays for every direction that leaves a row's own path at a node, the arena
    kernel for every direction, the shared one for every direction that leaves the row's leaf and a
    little for the others. Measured on forests of 30 trees, arena over path against the part
    of the directions that cross at a split: 0.5 at 0.05, 0.7 at 0.03, 1.1 at 0.019 (300 independent
    columns), 1.1 to 1.4 at 0.01 (832 correlated binary columns), 3.7 at 0.001 (832 rare ones).
    Arena over shared: 1.2 to 1.3 (LightGBM, 200 columns, 0.37 of the lines leave), 1.2 (forest, 100
    independent columns), 0.9 to 1.0 (LightGBM, 10 columns, 0.55 of the lines leave).
    """
    if _part_that_crosses(ensemble, lines) < SPARSE:
        return "path"
    if lines.latent.shape[1] < FEWEST_DIRECTIONS:
        return "arena"
    return "shared" if _part_that_leaves(nodes, lines) < MANY else "arena"


def _part_that_leaves(nodes: Nodes, lines: Lines) -> float:
    """Return the part of the lines that leave the leaf of their row in a tree, from a few rows."""
    rows = _spread(np.arange(len(lines.points)), 16)
    few = replace(lines, points=lines.points[rows], latent=lines.latent[rows])
    n, d = few.latent.shape
    n_trees = min(len(nodes.roots), TREES_AT_ONCE)
    trees, every = slice(0, n_trees), (slice(0, n), slice(0, d))
    columns, line = kernel_array(few.points.T, np.float64), lines_for(n, d, n_trees)
    found = _leaving(nodes, trees, few, _geometry(few), *every, columns, line)
    return float(sum(int(each.end[-1]) for each in found) / (n * d * n_trees))


def _part_that_crosses(ensemble: TreeEnsemble, lines: Lines) -> float:
    """Return the part of (row, split, direction) that cross where the law has mass, from a few."""
    splits = _spread(np.flatnonzero(ensemble.feature >= 0), 128)
    rows = _spread(np.arange(len(lines.points)), 16)
    if not len(splits) or not len(rows):
        return 1.0
    geometry = _geometry(lines)
    feature = ensemble.feature[splits]
    gap = ensemble.threshold[splits] - lines.points[rows][:, feature]
    steepness = geometry.steepness[:, feature].T
    leaving = 0
    for z, row_gap in zip(lines.latent[rows], gap, strict=True):
        t = z + row_gap[:, None] * steepness
        crosses = (t > geometry.lows) & (t < geometry.highs) & (steepness != 0)
        leaving += int(np.count_nonzero(crosses))
    return leaving / (len(rows) * steepness.size)


def _spread(items: Ints, count: int) -> Ints:
    return items[np.linspace(0, len(items) - 1, min(count, len(items))).astype(np.intp)]


def _geometry(lines: Lines) -> KernelLines:
    slopes = np.asarray(lines.directions, dtype=np.float64)
    magnitude = np.abs(slopes)
    scale = magnitude.max(axis=1, keepdims=True, initial=0.0)
    # Relative to the feature's own row, so a feature in small units is not lost.
    crosses = (magnitude > NEGLIGIBLE * scale) & (magnitude > 1e-200)
    steepness = np.divide(1.0, slopes, out=np.zeros_like(slopes), where=crosses)
    law, lower, upper = tabulate(lines.reference, lines.latent.shape[1])
    lows = lower - lines.offsets.max(axis=0)
    highs = upper - lines.offsets.min(axis=0)
    # Adding the shift back rounds; the outermost atoms must stay inside.
    padding = 1e-9 * (1.0 + np.maximum(np.abs(lows), np.abs(highs)))
    return KernelLines(np.ascontiguousarray(steepness.T), law, lows - padding, highs + padding)


def _by_direction(
    ensemble: TreeEnsemble,
    nodes: Nodes,
    lines: Lines,
    geometry: KernelLines,
    categories: Sequence[Category],
    n_threads: int | None,
    *,
    merged: bool,
) -> LineMoments:
    n, d = lines.latent.shape
    q = len(lines.offsets)
    size = (ensemble.n_sums * q, n, d)
    mean, hermite = np.empty(size), np.empty(size)
    points = kernel_array(lines.points, np.float64)
    columns = np.ascontiguousarray(points.T)
    latent = kernel_array(lines.latent.T, np.float64)
    shifts = kernel_array(lines.offsets.T, np.float64)
    laws = [coordinate_law(geometry.law, j) for j in range(d)]
    # Along a piece no level changes; copies of a column move with it.
    steepness = np.hstack(
        [
            geometry.steepness,
            np.zeros((d, len(categories))),
            *_copies(geometry.steepness, categories),
        ]
    )

    merging = Merging(ensemble, nodes, q)
    cuts = cuts_of(tuple(categories))

    def task(where: tuple[int, slice]) -> None:
        j, block = where
        low, high = geometry.lows[j], geometry.highs[j]
        pieces = None
        if categories:
            pieces = pieces_of(
                points[block], latent[j, block], lines.directions[:, j], cuts, low, high
            )
            ends = (pieces.low, pieces.high)
            at = latent[j, block][pieces.line]
            part = seen_by_trees(points[block], pieces.line, pieces.levels, cuts)
        else:
            n_lines = block.stop - block.start
            ends = (np.full(n_lines, low), np.full(n_lines, high))
            at, part = latent[j, block], columns[:, block]
        step = step_below(laws[j], shifts[j])
        common = (at, steepness[j], laws[j], shifts[j], *ends, step)
        moments: tuple[Floats, ...]
        if merged:
            moments = merging.moments(part, common)
        else:
            sums = (np.zeros((q, len(at))), np.zeros((q, len(at))))
            arena = arena_for(len(at), nodes.depth)
            every = all_lines(len(at), ensemble.n_trees)
            arena_moments(nodes, 0, every, np.ascontiguousarray(part), *common, arena, *sums)
            moments = sums
        if pieces is not None:
            moments = tuple(pieces.sums(values) for values in moments)
        if merged:
            mean[:, block, j] = moments[0]
            hermite[:, block, j] = moments[1]
        else:
            mean[:, block, j] = moments[0] + ensemble.intercept
            hermite[:, block, j] = moments[1] + ensemble.intercept * laws[j].total

    places = ((j, block) for j in range(d) for block in blocks(n, ROWS_PER_BLOCK))
    run_tasks(task, places, n_threads, work=n * d * ensemble.n_trees)
    return LineMoments(mean, hermite)


def _shared(
    ensemble: TreeEnsemble, nodes: Nodes, lines: Lines, geometry: KernelLines, n_threads: int | None
) -> LineMoments:
    """Walk the own path of each row once for many directions, then the lines that leave it."""
    n, d = lines.latent.shape
    q, n_trees = len(lines.offsets), ensemble.n_trees
    mean, hermite = np.empty((q, n, d)), np.empty((q, n, d))
    points = kernel_array(lines.points, np.float64)
    columns = np.ascontiguousarray(points.T)
    latent = kernel_array(lines.latent.T, np.float64)
    shifts = kernel_array(lines.offsets.T, np.float64)
    # Four tasks or more: few threads then all have something to do.
    width = -(-d * -(-n // ROWS_TOGETHER) // 4)
    width = min(MOST_DIRECTIONS, max(FEWEST_DIRECTIONS // 2, width), d)
    most = min(n, ROWS_TOGETHER), width, min(n_trees, TREES_AT_ONCE)
    free: list[NDArray[np.uint32]] = []

    def task(where: tuple[slice, slice]) -> None:
        group, block = where
        size = block.stop - block.start
        part = np.ascontiguousarray(columns[:, block])
        arena = arena_for(size, nodes.depth)
        # Tasks hand this to each other: new pages would cost a tenth of what is done in them.
        line = free.pop() if free else lines_for(*most)
        sums = [np.zeros((2, q, size)) for _ in range(group.start, group.stop)]
        for trees in blocks(n_trees, TREES_AT_ONCE):
            leaving = _leaving(nodes, trees, lines, geometry, block, group, part, line)
            # One direction after the other: the tables of its law stay in the cache.
            for own, own_sums, j in zip(leaving, sums, range(group.start, group.stop), strict=True):
                law = coordinate_law(geometry.law, j)
                common = (latent[j, block], geometry.steepness[j], law, shifts[j])
                ends = np.full(size, geometry.lows[j]), np.full(size, geometry.highs[j])
                step = step_below(law, shifts[j])
                arena_moments(nodes, trees.start, own, part, *common, *ends, step, arena, *own_sums)
        free.append(line)
        total = geometry.law.total[group]
        for k, j in enumerate(range(group.start, group.stop)):
            mean[:, block, j] = sums[k][0] + ensemble.intercept
            hermite[:, block, j] = sums[k][1] + ensemble.intercept * total[k]

    places = ((group, block) for group in blocks(d, width) for block in blocks(n, ROWS_TOGETHER))
    run_tasks(task, places, n_threads, work=n * d * n_trees)
    return LineMoments(mean, hermite)


def _leaving(
    nodes: Nodes,
    trees: slice,
    lines: Lines,
    geometry: KernelLines,
    rows: slice,
    group: slice,
    columns: Floats,
    line: NDArray[np.uint32],
) -> list[Leaving]:
    """Return the lines that leave their row's leaf in some trees, by direction."""
    z = lines.latent[rows, group]
    # The row itself may lie where the law has no mass.
    low, high = np.minimum(geometry.lows[group], z), np.maximum(geometry.highs[group], z)
    steepness = geometry.steepness[group].T
    return leaving_of(
        nodes,
        trees,
        columns,
        kernel_array(z - (low + high) / 2.0, np.float64),
        kernel_array((high - low) * (0.5 + 1e-9), np.float64),
        kernel_array(np.where(steepness == 0.0, UNMOVED, steepness), np.float64),
        line,
    )


@dataclass
class Merging:
    """Merges the jumps of an ensemble, in memory that tasks reuse.

    A task that takes memory of its own pays as much for its pages as for what it does in them.
    """

    ensemble: TreeEnsemble
    nodes: Nodes
    q: int

    def __post_init__(self) -> None:
        classes = self.ensemble.classes
        sizes = np.diff([*self.nodes.roots.tolist(), len(self.nodes.feature)])
        self._capacity = FEWEST_JUMPS + JUMPS_PER_TREE * len(sizes) + int(sizes.max(initial=0))
        self._free: list[tuple[Jumps, Arena]] = []
        if classes is None:
            of_tree: ArrayLike = np.zeros(len(sizes))
            intercepts: ArrayLike = [self.ensemble.intercept]
        else:
            of_tree, intercepts = classes.of_tree, classes.intercepts
        self._of_tree = kernel_array(of_tree, np.int32)
        self._intercepts = kernel_array(intercepts, np.float64)

    def moments(self, columns: Floats, common: Block) -> tuple[Floats, Floats]:
        """Return both moments along lines of one direction, class by class; rows in columns."""
        n = columns.shape[1]
        mean, hermite = np.empty((2, len(self._intercepts) * self.q, n))
        latent, steepness, law, shifts, low, high, step = common
        jumps, arena = self._free.pop() if self._free else self._memory()
        for part in blocks(n, LINES_AT_ONCE):
            size = part.stop - part.start
            own = np.ascontiguousarray(columns[:, part])
            ends = low[part], high[part]
            place = latent[part], steepness, law.below, *ends, step
            finished = np.zeros(1, np.int64)
            while True:
                first = np.repeat(self._intercepts[:, None], size, axis=1)
                memory = arena, jumps, first, finished
                collect_jumps(self.nodes, self._of_tree, own, *place, *memory)
                if finished[0]:
                    break
                jumps = jumps_for(LINES_AT_ONCE, 2 * jumps.place.shape[1])
            found = self._merge(jumps, first, law, shifts, ends)
            mean[:, part], hermite[:, part] = found
        self._free.append((jumps, arena))
        return mean, hermite

    def _memory(self) -> tuple[Jumps, Arena]:
        arena = arena_for(LINES_AT_ONCE, self.nodes.depth)
        return jumps_for(LINES_AT_ONCE, self._capacity), arena

    def _merge(
        self,
        jumps: Jumps,
        first: Floats,
        law: CoordinateLaw,
        shifts: Floats,
        ends: tuple[Floats, Floats],
    ) -> Floats:
        n_sums, size = first.shape
        capacity = int(jumps.n_jumps[:size].max(initial=0)) + 1
        sorting = sorting_for(capacity)
        if self.ensemble.classes is None:
            found = np.empty((2, self.q, size))
            link = LINKS[self.ensemble.link]
            merged_moments(jumps, first[0], link, law, shifts, *ends, sorting, *found)
            return found
        by_class = np.empty((2, n_sums, self.q, size))
        sums, at = class_sums_for(n_sums, self.q, capacity), np.empty((2, self.q))
        softmax_moments(jumps, first, law, shifts, *ends, sorting, sums, at, *by_class)
        return by_class.reshape(2, n_sums * self.q, size)


def _copies(steepness: Floats, categories: Sequence[Category]) -> list[Floats]:
    """Return the steepness (d, c) of the columns of each category that move with another column."""
    return [
        np.repeat(steepness[:, [category.source]], len(category.columns), axis=1)
        for category in categories
        if category.source is not None
    ]


def _path(
    ensemble: TreeEnsemble, nodes: Nodes, lines: Lines, geometry: KernelLines, n_threads: int | None
) -> LineMoments:
    n, d = lines.latent.shape
    q = len(lines.offsets)
    mean, hermite = np.empty((q, n, d)), np.empty((q, n, d))
    points = kernel_array(lines.points, np.float64)
    latent = kernel_array(lines.latent, np.float64)
    shifts = kernel_array(lines.offsets.T, np.float64)
    directions = _sort_directions(geometry.steepness)
    total = geometry.law.total * ensemble.intercept
    ends = (geometry.lows, geometry.highs, geometry.reach)
    step = step_below(geometry.law, shifts)
    common = (nodes, directions, geometry.law, shifts, *ends, step)

    def task(block: slice) -> None:
        size = (block.stop - block.start, d, q)
        part = (np.empty(size), np.empty(size))
        memory = detours_for(d, q, nodes.depth)
        path_moments(*common, points[block], latent[block], memory, *part)
        mean[:, block] = np.moveaxis(part[0], 2, 0) + ensemble.intercept
        hermite[:, block] = np.moveaxis(part[1], 2, 0) + total

    run_tasks(task, blocks(n, ROWS_PER_PATH_TASK), n_threads, work=n * d * ensemble.n_trees)
    return LineMoments(mean, hermite)


def _sort_directions(steepness: Floats) -> SortedDirections:
    by_feature = steepness.T
    crosses = by_feature != 0
    slopes = np.divide(1.0, np.abs(by_feature), out=np.zeros(by_feature.shape), where=crosses)
    order = np.argsort(-slopes, axis=1, kind="stable").astype(np.uint32)
    return SortedDirections(
        order,
        np.ascontiguousarray(np.take_along_axis(by_feature, order, axis=1)),
        np.ascontiguousarray(np.take_along_axis(slopes, order, axis=1)),
        crosses.sum(axis=1).astype(np.int32),
        steepness,
    )
