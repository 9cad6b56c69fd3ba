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
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from dfi._data.columns import Column
from dfi._data.levels import BEYOND, Block, Grid, Levels
from dfi._lines.trees.cache import MOMENTS, digest_of_lines, digest_of_trees, of_class
from dfi._lines.trees.ensemble import (
    OUTSIDE,
    Category,
    NotTrees,
    TreeEnsemble,
    Unreadable,
    at_midpoints,
    category_of,
    follow_gaps,
    require,
)
from dfi._lines.trees.pipelines import active_steps, follow_columns, pull_back
from dfi._lines.trees.readers import known_levels, read_trees, verify
from dfi._models.predictor import Predictor, brief, forest_values, is_plain_forest
from dfi.warnings import ExactnessWarning, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfi._data.table import Table
    from dfi._lines.base import LineMoments, Lines
    from dfi._lines.trees.engine import Kernel
    from dfi._lines.trees.kernels_blocks import Nodes
    from dfi._types import Bools, Floats

# Places between and beyond a column's lowest (0) and highest (1) value.
OFF_LEVELS = (-1.5, 0.0, 0.2, 0.5, float(np.nextafter(0.5, 1.0)), 0.7, 1.0, 2.5)
N_MOVED = 200
DIFFERS = "the trees as read differ from the model's own predictions by {:.1e} of their scale"


class ExplainedClass(TypedDict):
    """The explained part of a classifier: the class ``column``, as log-odds if ``margin``."""

    column: int
    margin: bool


@dataclass(frozen=True)
class TreeLines:
    """Exact moments of a tree ensemble along lines; ``categories`` are decoded for the trees.

    ``owner`` is the number of the model under which moments of all its classes are kept, for those
    that are asked for next (:mod:`dfi._lines.trees.cache`); without one they are not.
    """

    ensemble: TreeEnsemble
    categories: tuple[Category, ...] = ()
    n_threads: int | None = None
    kernel: Kernel | None = None
    owner: int | None = None

    @property
    def rule(self) -> str:
        n_trees = self.ensemble.n_trees
        return f"exact: {n_trees} tree{'' if n_trees == 1 else 's'}"

    @cached_property
    def _nodes(self) -> dict[int, Nodes]:
        return {}

    def nodes(self, width: int) -> Nodes:
        """Return the trees as kernels walk them, for rows of ``width`` columns, laid out once."""
        from dfi._lines.trees.kernels_blocks import lay_out

        if width not in self._nodes:
            self._nodes[width] = lay_out(self.ensemble, self.categories, width)
        return self._nodes[width]

    def __getstate__(self) -> dict[str, object]:
        # Workers lay the trees out again: what they are sent is half as large. What is kept of a
        # model's classes is kept in one process.
        state = {k: v for k, v in vars(self).items() if k not in ("_nodes", "_digest")}
        return {**state, "owner": None}

    @cached_property
    def _digest(self) -> bytes:
        return digest_of_trees(self.ensemble, self.categories)

    def predict(self, points: Floats) -> Floats:
        from dfi._lines.trees.engine import predict

        return predict(
            self.ensemble,
            points,
            categories=self.categories,
            n_threads=self.n_threads,
            nodes=self.nodes(points.shape[1]),
        )

    def moments(self, lines: Lines) -> LineMoments:
        classes = self.ensemble.classes
        if classes is None:
            return self._moments(lines)
        if self.owner is None:
            found = self._moments(lines)
        else:
            key = self.owner, self._digest, digest_of_lines(lines)
            found = MOMENTS.moments(key, lambda: self._moments(lines))
        return of_class(found, classes.explained, classes.count)

    def _moments(self, lines: Lines) -> LineMoments:
        """Return the moments; of all classes, one after the other, behind a softmax."""
        from dfi._lines.trees.engine import line_moments

        return line_moments(
            self.ensemble,
            lines,
            categories=self.categories,
            kernel=self.kernel,
            n_threads=self.n_threads,
            nodes=self.nodes(lines.points.shape[1]),
        )


def tree_lines(
    model: object,
    predict: Callable[[Floats], Floats],
    sample_points: Floats,
    *,
    levels: Levels | None = None,
    column: int = 1,
    margin: bool = False,
) -> TreeLines | None:
    """Return a fitted model's exact line means, or None if it has none."""
    ensemble, reason = read_trees(model, column=column, margin=margin)
    if ensemble is not None:
        try:
            trees = _on_matrix(ensemble, model, sample_points, levels)
            trees = replace(trees, owner=MOMENTS.owner(model))
            own = _quick(model, predict, levels)
            error = verify(ensemble, own, sample_points, read=trees.predict)
            if error <= ensemble.tolerance:
                return trees
            why = DIFFERS.format(error)
        except Unreadable as refusal:
            why = str(refusal)
        reason = f"{type(model).__name__}: {why}"
    if reason:
        warn(f"{reason}; its line means use quadrature", ExactnessWarning)
    return None


def _on_matrix(
    ensemble: TreeEnsemble, model: object, sample: Floats, levels: Levels | None
) -> TreeLines:
    """Return trees whose columns are those of the numeric matrix, rows decoded to the levels."""
    require(levels or not ensemble.rules, "a column of numbers without levels is split by level")
    if not levels:
        return TreeLines(ensemble)
    of_columns = [_levels_of(position, levels) for position in range(ensemble.n_features)]
    encode: Callable[[Floats], Floats] = levels.nearest
    if ensemble.rules:
        columns = [Column(f"x{k}", k, "real", (), (k,)) for k in range(ensemble.n_features)]
        encode = _given_codes(known_levels(model, columns), columns, levels)
    trees = LevelTrees(ensemble, of_columns, encode, sample[0], levels)
    return trees.lines(at_midpoints(trees.plain(), levels))


def _quick(
    model: object, predict: Callable[[Floats], Floats], levels: Levels | None
) -> Callable[[Floats], Floats]:
    """Return a forest's own trees in place of its own ``predict``, which is slow for few rows."""
    owner = getattr(predict, "__self__", getattr(predict, "model", None))
    if owner is not model or not is_plain_forest(model):
        return predict
    return lambda rows: forest_values(model, levels.nearest(rows) if levels else rows)


def gap_tree_lines(predictor: Predictor, sample: Floats) -> TreeLines | None:
    """Return the exact line means of trees on a table with missing values, or None with a warning.

    A model that takes NaN says at every split where it goes; for one that is given the mean of the
    observed beside an indicator, that mean does.
    """
    model, table, levels = predictor.model, predictor.table, predictor.levels
    ensemble, reason = read_trees(model, **_explained(predictor))
    if ensemble is not None and predictor.view == "matrix":
        ensemble = _filled(ensemble, levels)
    elif ensemble is not None:
        indicators = {gap.indicator for gap in levels.gaps}
        width = table.matrix.shape[1]
        ensemble = ensemble.with_columns([p for p in range(width) if p not in indicators], width)
    try:
        require(ensemble is not None, reason)
        trees = _on_matrix(ensemble, model, sample, levels)  # type: ignore[arg-type]
        trees = replace(trees, owner=MOMENTS.owner(model))
        error = verify(trees.ensemble, predictor, sample, read=trees.predict)
        require(error <= trees.ensemble.tolerance, f"{predictor.name}: {DIFFERS.format(error)}")
    except Unreadable as why:
        if str(why):
            warn(f"{why}; its line means use quadrature", ExactnessWarning)
        return None
    return trees


def levelled_trees(
    ensemble: TreeEnsemble, model: object, sample: Floats, levels: Levels
) -> TreeLines:
    """Return trees that are given the numeric matrix, maybe with further columns behind it."""
    ensemble = _filled(ensemble, levels) if levels.gaps else ensemble
    return _on_matrix(ensemble, model, sample, levels)


def _filled(ensemble: TreeEnsemble, levels: Levels) -> TreeEnsemble:
    """Return trees that send a missing value where the mean of the observed goes."""
    fill = np.full(ensemble.n_features, np.nan)
    fill[[gap.value for gap in levels.gaps]] = [gap.fill for gap in levels.gaps]
    return replace(ensemble, default_left=fill[ensemble.feature] <= ensemble.threshold)


def decoded_tree_lines(predictor: Predictor, sample: Floats) -> TreeLines | None:
    """Return the exact line means of trees whose rows are decoded, or None with a warning."""
    try:
        owner = MOMENTS.owner(predictor.model)
        trees = replace(_read(predictor), owner=owner)
        error = largest_error(trees, predictor, sample)
        require(error <= trees.ensemble.tolerance, DIFFERS.format(error))
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
    """Read the trees of a model of a table as a function of the numeric matrix."""
    model = getattr(predictor.model, "best_estimator_", predictor.model)
    final = model.steps[-1][1] if isinstance(model, Pipeline) else model
    ensemble, reason = read_trees(final, **_explained(predictor))
    if ensemble is None:
        raise Unreadable(reason.removeprefix(f"{type(final).__name__}: ")) if reason else NotTrees
    columns = _input_columns(model, predictor, ensemble.n_features)
    has_steps = isinstance(model, Pipeline) and bool(active_steps(model))
    encode: Callable[[Floats], Floats]
    if has_steps:
        if predictor.levels.gaps:
            raise NotTrees
        decoded = np.array([_is_decoded(column, predictor) for column in columns])
        sources = follow_columns(model[:-1], np.arange(len(columns)), decoded)
        columns = [columns[source] for source in sources]
        encode = _decoded_transform(model, predictor)
        require(
            ensemble.n_features == len(columns), "the steps' columns are not those of the trees"
        )
        for out in np.unique(ensemble.feature[ensemble.feature >= 0]):
            if out < len(columns) and columns[out].name in predictor.exact:
                _require_one_switch(ensemble, int(out), columns[out], encode, predictor.table)
    else:
        encode = _given_codes(known_levels(final, columns), columns, predictor.levels)
    positions = np.array([column.positions[0] for column in columns], dtype=np.intp)
    # A row of the data: every level in it is one that the encoders know.
    base = predictor.table.matrix[0]
    levels = [_levels_of(position, predictor.levels) for position in positions]
    trees = LevelTrees(ensemble, levels, encode, base, predictor.levels)
    plain = trees.plain()
    codes = {k for k, column in enumerate(columns) if column.kind == "categorical"}
    if has_steps or codes & set(plain.feature.tolist()):
        return trees.lines(pull_back(encode, plain, positions, base))
    return trees.lines(at_midpoints(plain.with_columns(positions, len(base)), predictor.levels))


def _explained(predictor: Predictor) -> ExplainedClass:
    return {"column": predictor.explained_class, "margin": predictor.scale == "margin"}


def _levels_of(position: int, levels: Levels) -> Grid | Block | None:
    """Return the levels of the column that begins at a place of the numeric matrix."""
    grids = (grid for grid in levels.grids if grid.position == position)
    blocks = (block for block in levels.blocks if position in block.positions)
    return next(grids, None) or next(blocks, None)


def _given_codes(
    known: dict[int, Sequence[object]], columns: Sequence[Column], levels: Levels
) -> Callable[[Floats], Floats]:
    """Return the input of the trees for rows of the matrix, if the model takes levels itself."""
    positions = [column.positions[0] for column in columns]

    def given(rows: Floats) -> Floats:
        decoded = levels.nearest(rows)
        made = decoded[:, positions]
        for k, column in enumerate(columns):
            found: Sequence[object] = made[:, k].tolist()
            if column.kind == "categorical":
                places = column.decode(decoded[:, list(column.positions)])
                found = [column.levels[place] for place in places]
            elif k not in known:
                continue
            numbered = column.levels if column.declared is None else column.declared
            code = {level: number for number, level in enumerate(known.get(k, numbered))}
            # what is missing has no code
            code.pop(None, None)
            made[:, k] = [code.get(level, np.nan) for level in found]
        return made

    return given


@dataclass(frozen=True)
class LevelTrees:
    """Trees of which some splits are decided by levels."""

    ensemble: TreeEnsemble
    levels: Sequence[Grid | Block | None]
    encode: Callable[[Floats], Floats]
    base: Floats
    table: Levels

    @property
    def _by_level(self) -> Bools:
        """Which nodes are decided by a level: of a category of several levels, or by a rule."""
        blocks = [isinstance(levels, Block) for levels in self.levels]
        decides = np.array([*blocks, *(True for _ in self.ensemble.rules)], dtype=bool)
        return np.asarray((self.ensemble.feature >= 0) & decides[self.ensemble.feature])

    def plain(self) -> TreeEnsemble:
        """Return the trees with those splits left out, to be written in columns of the matrix."""
        feature = np.where(self._by_level, np.int32(-1), self.ensemble.feature)
        return replace(self.ensemble, feature=feature, rules=())

    def lines(self, pulled: TreeEnsemble) -> TreeLines:
        """Return the trees, the other splits of which were ``pulled`` to columns of the matrix."""
        feature, threshold = pulled.feature.copy(), pulled.threshold.copy()
        left, right = pulled.left.copy(), pulled.right.copy()
        default = None if pulled.default_left is None else pulled.default_left.copy()
        gaps = {gap.value for gap in self.table.gaps}
        n_features, rules = self.ensemble.n_features, self.ensemble.rules
        added = _Added(len(self.base))
        codes: dict[int, Floats] = {}
        for f in np.unique(self.ensemble.feature[self._by_level]):
            nodes = self.ensemble.feature == f
            rule = rules[f - n_features] if f >= n_features else None
            out = int(f) if rule is None else rule.column
            levels = self.levels[out]
            if levels is None:
                raise Unreadable("a column of numbers without levels is split by level")
            if out not in codes:
                codes[out] = self.encode(_at_levels(self.base, levels))[:, out]
            if rule is None:
                # A level without a code is sent where missing values are.
                to_left = nodes & (default if default is not None else False)
                for own, beyond in ((to_left, -OUTSIDE), (nodes & ~to_left, OUTSIDE)):
                    if own.any():
                        values = np.where(np.isnan(codes[out]), beyond, codes[out])
                        feature[own] = added.column(levels, values)
                continue
            goes_left = rule.goes_left(codes[out])
            switches = np.flatnonzero(goes_left[1:] != goes_left[:-1])
            if isinstance(levels, Block) or len(switches) > 1:
                require(
                    isinstance(levels, Block) or levels.position not in gaps,
                    "a column of numbers some of which are missing is split by level",
                )
                feature[nodes] = added.column(levels, 1.0 - goes_left)
                continue
            # As a function of one number it is a threshold, perhaps with the children changed.
            feature[nodes] = levels.position
            threshold[nodes] = levels.midpoints[switches[0]] if len(switches) else BEYOND
            if default is not None:
                default[nodes] = rule.goes_left(np.array([np.nan]))[0] == goes_left[0]
            if not goes_left[0]:
                left[nodes], right[nodes] = right[nodes], left[nodes]
        ensemble = replace(
            pulled,
            feature=feature,
            threshold=threshold,
            left=left,
            right=right,
            default_left=default,
            n_features=added.width,
        )
        if not gaps:
            return TreeLines(ensemble, added.categories())
        ensemble, missing = follow_gaps(ensemble, self.table)
        return TreeLines(ensemble, (*added.categories(), *missing))


class _Added:
    """Columns that are added to the numeric matrix for what levels decide, equal ones once."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.found: dict[Grid | Block, dict[bytes, tuple[int, Floats]]] = {}

    def column(self, levels: Grid | Block, values: Floats) -> int:
        own = self.found.setdefault(levels, {})
        key = values.tobytes()
        if key not in own:
            own[key] = self.width, values
            self.width += 1
        return own[key][0]

    def categories(self) -> tuple[Category, ...]:
        made = []
        for levels, own in self.found.items():
            places, values = zip(*own.values(), strict=True)
            made.append(category_of(levels, np.array(places), np.stack(values, axis=1)))
        return tuple(made)


def _at_levels(base: Floats, levels: Grid | Block) -> Floats:
    """Return a row at each of the levels of one column."""
    if isinstance(levels, Grid):
        rows = np.tile(base, (len(levels.values), 1))
        rows[:, levels.position] = levels.values
        return rows
    rows = np.tile(base, (len(levels.observed), 1))
    rows[:, levels.positions] = levels.positions == levels.observed[:, None]
    return rows


def _is_decoded(column: Column, predictor: Predictor) -> bool:
    return column.positions[0] in predictor.levels.positions


def _input_columns(model: object, predictor: Predictor, n_features: int) -> list[Column]:
    """Return the table's column behind each column that the model was fitted on."""
    columns = predictor.table.columns
    by_name = {column.name: column for column in columns}
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if names and all(name in by_name for name in names):
        return [by_name[name] for name in names]
    require(
        getattr(model, "n_features_in_", n_features) == len(columns),
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
