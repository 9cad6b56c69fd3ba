"""Tree ensembles as line models, of numeric rows and of rows that are decoded to a table.

Steps before the trees may be given a table with levels. A column of two levels is one column of the
numeric matrix, decoded to its second level above 1/2; a numeric column with levels is decoded to
the nearest one. Both are step functions of one number, so a split on an indicator or on a code of
theirs is again a threshold, perhaps with the children changed. A column of more levels is decoded
from a one-hot block by its largest entry: what the steps make of it is a table by level, and lines
are cut where the level changes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from dfi._lines.trees.ensemble import (
    NotTrees,
    Unreadable,
    at_midpoints,
    categories_in,
    follow_gaps,
    one_hot_category,
    require,
    tree_rows,
)
from dfi._lines.trees.pipelines import active_steps, follow_columns, pull_back
from dfi._lines.trees.readers import read_trees, verify
from dfi._models.predictor import brief, forest_values, is_plain_forest
from dfi.warnings import ExactnessWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi._data.columns import Column
    from dfi._data.levels import Levels
    from dfi._data.table import Table
    from dfi._lines.base import LineMoments, Lines
    from dfi._lines.trees.engine import Kernel
    from dfi._lines.trees.ensemble import Category, TreeEnsemble
    from dfi._models.predictor import Predictor
    from dfi._types import Floats

# Places between and beyond a column's lowest (0) and highest (1) value.
OFF_LEVELS = (-1.5, 0.0, 0.2, 0.5, float(np.nextafter(0.5, 1.0)), 0.7, 1.0, 2.5)
N_MOVED = 200


@dataclass(frozen=True)
class TreeLines:
    """Exact moments of a tree ensemble along lines; ``categories`` are decoded for the trees."""

    ensemble: TreeEnsemble
    categories: tuple[Category, ...] = ()
    n_threads: int | None = None
    kernel: Kernel | None = None

    @property
    def rule(self) -> str:
        n_trees = self.ensemble.n_trees
        return f"exact: {n_trees} tree{'' if n_trees == 1 else 's'}"

    def predict(self, points: Floats) -> Floats:
        if self.categories:
            levels = [category.levels(points) for category in self.categories]
            points = tree_rows(points, self.categories, levels, self.ensemble.n_features)
        return self.ensemble.predict(points, n_threads=self.n_threads)

    def moments(self, lines: Lines, *, square: bool = False) -> LineMoments:
        from dfi._lines.trees.engine import line_moments

        return line_moments(
            self.ensemble,
            lines,
            categories=self.categories,
            square=square,
            kernel=self.kernel,
            n_threads=self.n_threads,
        )


def tree_lines(
    model: object,
    predict: Callable[[Floats], Floats],
    sample_points: Floats,
    *,
    levels: Levels | None = None,
    column: int = 1,
    n_threads: int | None = None,
) -> TreeLines | None:
    """Return a fitted model's exact line means, or None where it has none.

    ``predict`` is the function to be averaged: the model's own, or the probability of class
    ``column``. The trees are compared with it around the ``sample_points``. Splits are moved
    between the ``levels`` that it decodes rows to. A model of trees that cannot be followed exactly
    is warned of, with the reason.
    """
    ensemble, reason = read_trees(model, column=column)
    if ensemble is not None:
        trees = TreeLines(ensemble, n_threads=n_threads)
        if levels:
            ensemble = at_midpoints(ensemble, levels)
            trees = replace(trees, ensemble=ensemble, categories=categories_in(ensemble, levels))
        own = _quick(model, predict, levels)
        error = verify(ensemble, own, sample_points, read=trees.predict)
        if error <= ensemble.tolerance:
            return trees
        reason = (
            f"{type(model).__name__}: the trees as read differ from the model's own predictions "
            f"by {error:.1e} of their scale"
        )
    if reason:
        warn(f"{reason}; its line means use quadrature", ExactnessWarning)
    return None


def _quick(
    model: object, predict: Callable[[Floats], Floats], levels: Levels | None
) -> Callable[[Floats], Floats]:
    """Return a forest's own trees in place of its own ``predict``, which is slow for few rows."""
    owner = getattr(predict, "__self__", getattr(predict, "model", None))
    if owner is not model or not is_plain_forest(model):
        return predict
    return lambda rows: forest_values(model, levels.nearest(rows) if levels else rows)


def gap_tree_lines(
    predictor: Predictor, sample: Floats, *, n_threads: int | None = None
) -> TreeLines | None:
    """Return the exact line means of trees on a table with missing values, or None with a warning.

    A model that takes NaN says at every split where it goes; for one that is given the mean of the
    observed beside an indicator, that mean does.
    """
    model, table, levels = predictor.model, predictor.table, predictor.levels
    ensemble, reason = read_trees(model)
    if ensemble is not None and predictor.view == "matrix":
        fill = np.full(table.matrix.shape[1], np.nan)
        fill[[gap.value for gap in levels.gaps]] = [gap.fill for gap in levels.gaps]
        ensemble = replace(ensemble, default_left=fill[ensemble.feature] <= ensemble.threshold)
    elif ensemble is not None:
        indicators = {gap.indicator for gap in levels.gaps}
        width = table.matrix.shape[1]
        ensemble = ensemble.with_columns([p for p in range(width) if p not in indicators], width)
    try:
        require(ensemble is not None, reason)
        trees = _with_gaps(ensemble, levels, n_threads)  # type: ignore[arg-type]
        error = verify(trees.ensemble, predictor, sample, read=trees.predict)
        require(
            error <= trees.ensemble.tolerance,
            f"{predictor.name}: the trees as read differ from the model's own predictions by "
            f"{error:.1e} of their scale",
        )
    except Unreadable as why:
        if str(why):
            warn(f"{why}; its line means use quadrature", ExactnessWarning)
        return None
    return trees


def _with_gaps(ensemble: TreeEnsemble, levels: Levels, n_threads: int | None) -> TreeLines:
    ensemble = at_midpoints(ensemble, levels)
    categories = categories_in(ensemble, levels)
    ensemble, gaps = follow_gaps(ensemble, levels)
    return TreeLines(ensemble, (*categories, *gaps), n_threads)


def decoded_tree_lines(
    predictor: Predictor, sample: Floats, *, n_threads: int | None = None
) -> TreeLines | None:
    """Return the exact line means of trees whose rows are decoded, or None with a warning.

    The trees are compared with the model's own predictions at the rows of the ``sample``, between
    and beyond them, and with the decoded columns moved off their levels.
    """
    try:
        trees = replace(_read(predictor), n_threads=n_threads)
        error = largest_error(trees, predictor, sample)
        require(
            error <= trees.ensemble.tolerance,
            f"the trees as read differ from the model's own predictions by {error:.1e} of their "
            "scale",
        )
    except NotTrees:
        return None
    except (Unreadable, ValueError) as reason:
        # The steps, or the model, refuse a level that the table declares: an error only where
        # a line meets it.
        why = brief(reason) if isinstance(reason, ValueError) else reason
        message = f"{predictor.name}: {why}; its line means use quadrature"
        warn(message, ExactnessWarning)
        return None
    return trees


def _read(predictor: Predictor) -> TreeLines:
    """Read the trees of a pipeline as a function of the numeric matrix."""
    model = getattr(predictor.model, "best_estimator_", predictor.model)
    final = model.steps[-1][1] if isinstance(model, Pipeline) else model
    ensemble, reason = read_trees(final)
    if ensemble is None:
        raise Unreadable(reason.removeprefix(f"{type(final).__name__}: ")) if reason else NotTrees
    require(
        isinstance(model, Pipeline) and bool(active_steps(model)),
        "it takes columns with levels by itself, without an encoder whose levels could be followed",
    )
    table = predictor.table
    columns = _input_columns(model, predictor)
    sources = follow_columns(
        model[:-1], np.arange(len(columns)), np.array([_is_decoded(c, predictor) for c in columns])
    )
    require(ensemble.n_features == len(sources), "the steps' columns are not those of the trees")
    used = np.unique(ensemble.feature[ensemble.feature >= 0])
    wide = np.array([column.width > 1 for column in columns])[sources]
    positions = np.array([column.positions[0] for column in columns], dtype=np.intp)[sources]
    transform = _decoded_transform(model, predictor)
    # A row of the data: every level in it is one that the encoders know.
    base = table.matrix[0]
    for out in used:
        if columns[sources[out]].name in predictor.exact:
            _require_one_switch(ensemble, int(out), columns[sources[out]], transform, table)
    # Splits on what a category of more levels decides keep their thresholds, on columns that are
    # added to the row.
    by_level = (ensemble.feature >= 0) & wide[ensemble.feature]
    plain = replace(ensemble, feature=np.where(by_level, np.int32(-1), ensemble.feature))
    pulled = pull_back(transform, plain, positions, base)
    added = used[wide[used]]
    place = np.full(len(sources), -1, dtype=np.int32)
    place[added] = np.arange(len(base), len(base) + len(added))
    feature = np.where(by_level, place[ensemble.feature], pulled.feature)
    pulled = replace(pulled, feature=feature, n_features=len(base) + len(added))
    blocks = {block.positions[0]: block for block in predictor.levels.blocks}
    categories = []
    for source in np.unique(sources[added]):
        block = blocks[columns[source].positions[0]]
        outs = added[sources[added] == source]
        rows = np.tile(base, (len(block.observed), 1))
        rows[:, block.positions] = block.positions == block.observed[:, None]
        categories.append(one_hot_category(block, place[outs], transform(rows)[:, outs]))
    return TreeLines(pulled, tuple(categories))


def _is_decoded(column: Column, predictor: Predictor) -> bool:
    return column.positions[0] in predictor.levels.positions


def _input_columns(model: Pipeline, predictor: Predictor) -> list[Column]:
    """Return the table's column behind each column that the pipeline was fitted on."""
    columns = predictor.table.columns
    by_name = {column.name: column for column in columns}
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if names and all(name in by_name for name in names):
        return [by_name[name] for name in names]
    require(
        getattr(model, "n_features_in_", None) == len(columns),
        "its columns are not those of the table",
    )
    return list(columns)


def _decoded_transform(model: Pipeline, predictor: Predictor) -> Callable[[Floats], Floats]:
    """Return the steps before the trees as a function of rows of the numeric matrix."""
    own = type(model.steps[-1][1]).__module__.startswith("sklearn.")

    def transform(rows: Floats) -> Floats:
        frame = predictor.table.frame(rows, levels=predictor.levels)
        with warnings.catch_warnings():
            # The steps' own warnings come when the model itself predicts.
            warnings.simplefilter("ignore")
            made = model[:-1].transform(frame)
        if sparse.issparse(made):
            # Other libraries may take the zeros of a sparse matrix for missing values.
            require(own, "a model that is not scikit-learn's is given a sparse matrix")
            made = made.toarray()
        return np.asarray(made, dtype=np.float64)

    return transform


def _require_one_switch(
    ensemble: TreeEnsemble,
    out: int,
    column: Column,
    transform: Callable[[Floats], Floats],
    table: Table,
) -> None:
    """Raise where a split sends the lowest and the highest value one way, some between another."""
    position = column.positions[0]
    values = np.unique(table.matrix[:, position])
    rows = np.tile(table.matrix[0], (len(values), 1))
    rows[:, position] = values
    thresholds = np.unique(ensemble.threshold[ensemble.feature == out])
    left = transform(rows)[:, out, None] <= thresholds
    require(
        (left[1:] != left[:-1]).sum(axis=0).max(initial=0) <= 1,
        f"column {column.name!r} is encoded by value, and a split picks out some of its "
        f"{len(values)} values (two would be exact)",
    )


def largest_error(trees: TreeLines, predictor: Predictor, sample: Floats) -> float:
    """Return the largest relative error at rows, on lines through them, and off the levels."""
    moved = sample[np.linspace(0, len(sample) - 1, N_MOVED).astype(int)]
    # A fixed seed: the same model is always checked at the same points.
    rng = np.random.default_rng(1)
    for column in predictor.table.columns:
        if _is_decoded(column, predictor):
            for position in column.positions:
                observed = predictor.table.matrix[:, position]
                low, high = observed.min(), observed.max()
                moved[:, position] = low + (high - low) * rng.choice(OFF_LEVELS, size=N_MOVED)
    return max(
        verify(trees.ensemble, predictor, rows, read=trees.predict) for rows in (sample, moved)
    )
