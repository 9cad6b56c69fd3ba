r"""Mean curves: a model averaged over background rows while one latent coordinate is held.

.. math:: \bar f_j(t) = \sum_b p_b\, f(x_b + (t - z_{bj})\,\ell_j),

at the values ``t`` that rows have themselves, so nothing is interpolated: polynomials by their
coefficients, networks and trees compiled. A tree along the line of a background row is constant
between its splits, and is walked once for all values together. A model that is known by its
predictions alone is asked at :data:`GRID` quantiles of the background and between them interpolated
linearly; values beyond the background are asked for themselves. What a row gets never depends on
the rows that are asked about beside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, softmax

from dfi._learners.families import mean_of
from dfi._lines.base import ROUNDING, LineModel, Lines, blocks
from dfi._lines.closed_form import (
    BoundedLines,
    HingeLines,
    LinearLines,
    MappedLines,
    QuadraticLines,
    SumLines,
)
from dfi._lines.linked import LinkedLines, MarginLines, TreeMargin
from dfi._lines.quadrature import DEFAULT_MEMORY
from dfi._lines.trees.model import TreeLines

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._types import Floats, Ints

GRID = 64
"""Values at which models known only by their predictions are evaluated."""

VALUES_AT_ONCE = 1 << 21
CELLS_PER_NODE = 4
"""Cells of the table in which places among the values are looked up."""

TASKS = 8
"""Parts of a background that are walked side by side."""

STILL = 1e-12
"""Part of a column's largest step below which a line does not move it."""


def mean_curves(model: LineModel, lines: Lines, mass: Floats, values: Floats) -> Floats:
    r"""Return the mean curve of each coordinate at its own values, (n, d)."""
    still = np.abs(lines.directions) <= STILL * np.abs(lines.directions).max(
        axis=1, keepdims=True, initial=0.0
    )
    lines = replace(lines, directions=np.where(still, 0.0, lines.directions))
    found = np.empty(values.shape)
    for j in range(values.shape[1]):
        nodes, place = np.unique(values[:, j], return_inverse=True)
        for part in blocks(len(nodes), VALUES_AT_ONCE // max(1, len(mass))):
            nodes[part] = _mean_along(model, lines, mass, j, nodes[part])
        found[:, j] = nodes[place.reshape(-1)]
    return found


def _mean_along(model: LineModel, lines: Lines, mass: Floats, j: int, nodes: Floats) -> Floats:
    """Return the mean over the lines at ascending nodes of coordinate ``j``."""
    if isinstance(model, SumLines):
        total = np.full(len(nodes), model.intercept)
        for weight, part in zip(model.weights, model.parts, strict=True):
            total += weight * _mean_along(part, lines, mass, j, nodes)
        return total
    if isinstance(model, MappedLines):
        return _mean_along(model.model, model.images(lines), mass, j, nodes)
    if isinstance(model, LinearLines):
        slope = np.full(len(mass), float(model.coefficients @ lines.directions[:, j]))
        value, back = model.predict(lines.points), lines.latent[:, j]
        return _polynomial(value, 0.0, slope, back, mass, nodes)
    if isinstance(model, QuadraticLines):
        return _parabola(model, lines, mass, j, nodes)
    along = _known_along(model)
    if along is None:
        return _interpolated(model, lines, mass, j, nodes)
    return np.asarray(mass @ along(lines, j, nodes))


def _polynomial(
    value: Floats, bend: float, slope: Floats, back: Floats, mass: Floats, nodes: Floats
) -> Floats:
    """Return the mean of ``value + slope s + bend s^2`` over rows, ``s = node - back``."""
    middle = float(mass @ back)
    away = back - middle
    step = nodes - middle
    # about the middle of the rows: powers of what is far from 0 would round
    constant = float(mass @ (value - slope * away + bend * away**2))
    linear = float(mass @ (slope - 2.0 * bend * away))
    return np.asarray(constant + linear * step + bend * step**2)


def _parabola(model: QuadraticLines, lines: Lines, mass: Floats, j: int, nodes: Floats) -> Floats:
    direction = lines.directions[:, j]
    across = model.quadratic @ direction
    slope = model.linear @ direction + 2.0 * ((lines.points - model.center) @ across)
    bend = float(direction @ across)
    return _polynomial(model.predict(lines.points), bend, slope, lines.latent[:, j], mass, nodes)


def _known_along(model: LineModel) -> Callable[[Lines, int, Floats], Floats] | None:
    """Return a function for a model at each row and node, (B, nodes); None for predictions."""
    if isinstance(model, HingeLines | BoundedLines):
        known = model
        return lambda lines, j, nodes: known.along(lines, j, lines.latent[:, j], nodes)
    if isinstance(model, TreeLines) and not model.categories:
        return lambda lines, j, nodes: _trees(model, lines, j, nodes)
    if isinstance(model, LinkedLines):
        linked, margin_along = model, _margin_along(model.margin)
        if margin_along is None:
            return None
        return lambda lines, j, nodes: mean_of(
            linked.link, np.clip(margin_along(lines, j, nodes), *linked.bounds)
        )
    return None


def _margin_along(margin: MarginLines) -> Callable[[Lines, int, Floats], Floats] | None:
    """Return a function for the margin at each row and node."""
    if not isinstance(margin, TreeMargin):
        return lambda lines, j, nodes: margin.along(lines, j, lines.latent[:, j], nodes)
    smooth, trees = margin.smooth, margin.trees
    if trees.categories:
        return None
    return lambda lines, j, nodes: (
        smooth.along(lines, j, lines.latent[:, j], nodes) + _trees(trees, lines, j, nodes)
    )


def _trees(trees: TreeLines, lines: Lines, j: int, nodes: Floats) -> Floats:
    """Return an ensemble at each row and node, its link taken."""
    ensemble = trees.ensemble
    if ensemble.classes is None:
        margin = _walked(trees, lines, j, nodes, slice(None)) + ensemble.intercept
        if ensemble.link == "logistic":
            return np.asarray(expit(margin), dtype=np.float64)
        return np.exp(margin) if ensemble.link == "exp" else margin
    classes = ensemble.classes
    margins = [
        _walked(trees, lines, j, nodes, np.flatnonzero(classes.of_tree == k)) + intercept
        for k, intercept in enumerate(classes.intercepts)
    ]
    return np.asarray(softmax(np.stack(margins), axis=0)[classes.explained])


def _walked(trees: TreeLines, lines: Lines, j: int, nodes: Floats, chosen: slice | Ints) -> Floats:
    """Return the sum of some trees at each row and node."""
    # numba is loaded by the first ensemble that is walked, not with the package
    from dfi._compiled import kernel_array, run_tasks
    from dfi._lines.kernels_curves import tree_curves

    ensemble = trees.ensemble
    out = np.zeros((len(lines.points), len(nodes) + 1))
    points = kernel_array(lines.points, np.float64)
    step = np.ascontiguousarray(lines.directions[:, j])
    inverse = np.divide(1.0, step, out=np.zeros_like(step), where=step != 0.0)
    back = kernel_array(lines.latent[:, j], np.float64)
    least, width = float(nodes[0]), float(nodes[-1] - nodes[0])
    cells = max(1, CELLS_PER_NODE * len(nodes))
    per_unit = cells / width if width > 0 else 0.0
    first = np.searchsorted(nodes, least + np.arange(cells) * (width / cells))
    feature, left, right, starts, roots = (
        kernel_array(each, np.int32)
        for each in (
            ensemble.feature, ensemble.left, ensemble.right, first, ensemble.roots[chosen],
        )
    )  # fmt: skip
    threshold, value = (
        kernel_array(each, np.float64) for each in (ensemble.threshold, ensemble.value)
    )
    deepest = max(np.diff([*ensemble.roots.tolist(), len(ensemble.feature)]), default=0) + 1

    def task(part: slice) -> None:
        memory = np.empty(deepest, np.int32), np.empty((deepest, 2), np.int32)
        tree_curves(
            points[part], step, inverse, back[part], nodes, starts, least, per_unit,
            feature, threshold, left, right, value, roots, *memory, out[part],
        )  # fmt: skip

    size = max(1, -(-len(points) // TASKS))
    work = TASKS * len(points) * len(roots)
    run_tasks(task, blocks(len(points), size), trees.n_threads, work=work)
    return out[:, :-1]


def _interpolated(model: LineModel, lines: Lines, mass: Floats, j: int, nodes: Floats) -> Floats:
    """Ask a model at quantiles of the background, and beyond it at the nodes themselves."""
    back = lines.latent[:, j]
    held = back[mass > 0]
    grid = np.unique(np.quantile(held, np.linspace(0.0, 1.0, GRID), method="nearest"))
    outside = (nodes < grid[0]) | (nodes > grid[-1])
    asked = np.concatenate([grid, nodes[outside]])
    step = asked - back[:, None]
    # a row's own value may be asked for: rounding must not move the row from there
    step = np.where(np.abs(step) <= ROUNDING * np.abs(asked).max(), 0.0, step)
    width = lines.points.shape[1]
    total = np.zeros(len(asked))
    for part in blocks(len(back), DEFAULT_MEMORY // (24 * len(asked) * width)):
        moved = lines.points[part, None, :] + step[part, :, None] * lines.directions[:, j]
        predicted = model.predict(moved.reshape(-1, width)).reshape(-1, len(asked))
        total += mass[part] @ predicted
    found = np.interp(nodes, grid, total[: len(grid)])
    found[outside] = total[len(grid) :]
    return found
