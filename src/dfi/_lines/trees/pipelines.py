"""Trees behind steps that act on each column alone and never reverse its order.

Such a step ``g`` maps a split ``g(x) <= c`` to ``x <= c'`` with ``c'`` the largest number that
``g`` does not take above ``c``. It is found by bisection over the floating-point numbers
themselves, with the steps' own arithmetic, so the composed model decides every row alike.
Encoders are followed where the columns they meet are decoded from numbers
(:mod:`dfi._lines.trees.model`).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from dfi._lines.trees.ensemble import TreeEnsemble, Unreadable, require
from dfi._parameters import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from sklearn.base import TransformerMixin

    from dfi._types import Bools, Floats, Ints

    Ordered = NDArray[np.int64]

SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
# Beyond any datum, yet far from where a scaler's own arithmetic overflows.
EXTREME = 1e100
CELLS_AT_ONCE = 200_000


def read_pipeline(model: Pipeline, ensemble: TreeEnsemble) -> TreeEnsemble:
    """Return the trees at the end of a pipeline in the units of its input."""
    steps = active_steps(model)
    if not steps:
        return ensemble
    require(not ensemble.rules, "categorical splits behind steps are not followed")
    n_features = _width(steps[0])
    sources = follow_columns(model[:-1], np.arange(n_features), np.zeros(n_features, dtype=bool))

    def transform(table: Floats) -> Floats:
        return _transform(model[:-1], table)

    return pull_back(transform, ensemble, sources, np.zeros(n_features))


def active_steps(model: Pipeline) -> list[TransformerMixin]:
    return [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]


def _width(step: TransformerMixin) -> int:
    require(hasattr(step, "n_features_in_"), f"{type(step).__name__} does not state its columns")
    return int(step.n_features_in_)


def follow_columns(step: object, inputs: Ints, encodable: Bools) -> Ints:
    """Return the column of the whole model's input that each output of a step comes from."""
    if isinstance(step, str):
        require(step == "passthrough", f"the step {step!r} is not supported")
        return inputs
    if isinstance(step, SCALERS):
        return inputs
    # What a fitted ColumnTransformer makes of "passthrough".
    if isinstance(step, FunctionTransformer) and step.func is None:
        return inputs
    if isinstance(step, SimpleImputer):
        require(not step.add_indicator, "SimpleImputer adds missing-value indicators")
        require(
            isinstance(step.missing_values, float) and np.isnan(step.missing_values),
            "SimpleImputer replaces values that are not missing",
        )
        empty = np.array([isinstance(s, float) and np.isnan(s) for s in step.statistics_])
        return inputs if step.keep_empty_features else inputs[~empty]
    if isinstance(step, SelectorMixin):
        support: Ints = np.asarray(step.get_support(indices=True))
        return inputs[support]
    if isinstance(step, ColumnTransformer):
        return _column_transformer_sources(step, inputs, encodable)
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            if inner not in (None, "passthrough"):
                inputs = follow_columns(inner, inputs, encodable)
        return inputs
    if isinstance(step, (OneHotEncoder, OrdinalEncoder)) and encodable[inputs].all():
        return np.repeat(inputs, _encoded_widths(step))
    raise Unreadable(f"{type(step).__name__} does not act on each column alone, in its order")


def _encoded_widths(encoder: OneHotEncoder | OrdinalEncoder) -> list[int]:
    """Return how many columns an encoder makes of each input column."""
    if isinstance(encoder, OrdinalEncoder):
        return [1] * len(encoder.categories_)
    nothing = [None] * len(encoder.categories_)
    dropped = nothing if encoder.drop_idx_ is None else encoder.drop_idx_
    rare = getattr(encoder, "infrequent_categories_", nothing)
    widths = [
        # Rare levels share one column.
        len(levels) - (0 if few is None else len(few) - 1) - (gap is not None)
        for levels, few, gap in zip(encoder.categories_, rare, dropped, strict=True)
    ]
    require(
        sum(widths) == len(encoder.get_feature_names_out()),
        "OneHotEncoder makes columns that do not match its levels",
    )
    return widths


def _column_transformer_sources(step: ColumnTransformer, inputs: Ints, encodable: Bools) -> Ints:
    names = list(getattr(step, "feature_names_in_", []))
    placed: dict[int, int] = {}
    for name, inner, columns in step.transformers_:
        if isinstance(inner, str) and inner == "drop":
            continue
        given = inputs[_column_indices(columns, names, step.n_features_in_)]
        # A part without columns is never fitted.
        outputs = follow_columns(inner, given, encodable) if len(given) else given
        where = range(step.output_indices_[name].start, step.output_indices_[name].stop)
        require(len(where) == len(outputs), f"the columns made by {name!r} are not followed")
        placed.update(zip(where, (int(source) for source in outputs), strict=True))
    return np.array([placed[k] for k in range(len(placed))], dtype=np.intp)


def _column_indices(columns: ArrayLike | slice, names: list[str], width: int) -> Ints:
    if isinstance(columns, slice):
        require(
            not isinstance(columns.start, str) and not isinstance(columns.stop, str),
            "ColumnTransformer with a range of column names",
        )
        return np.arange(width)[columns]
    chosen = np.atleast_1d(np.asarray(columns))
    if chosen.dtype == bool:
        return np.flatnonzero(chosen)
    if chosen.dtype.kind in "iu":
        return np.arange(width).take(chosen)
    return np.array([names.index(str(name)) for name in chosen], dtype=np.intp)


def pull_back(
    transform: Callable[[Floats], Floats], ensemble: TreeEnsemble, sources: Ints, base: Floats
) -> TreeEnsemble:
    """Return the trees as a function of the columns before the steps.

    A split's new threshold is the largest input value that the steps send to the same child as the
    lowest one. Where that is the right child, as behind the indicator of the lower of two levels,
    the children change places.

    ``transform`` is the steps as a function of numeric rows, ``sources`` the input column of each
    column that they return: as a function of it, every split in use must switch at most once.
    ``base`` is a row that the steps accept; one column at a time is moved away from it.
    """
    require(ensemble.n_features == len(sources), "the steps' columns are not those of the trees")
    moved = ensemble.with_columns(sources, len(base))
    inner = np.flatnonzero(ensemble.feature >= 0)
    if len(inner) == 0:
        return moved
    feature = ensemble.feature[inner]
    # Each distinct (feature, threshold) gets one cell of a table that is transformed at once.
    pairs, inverse = np.unique(
        np.stack([feature.astype(float), ensemble.threshold[inner]]), axis=1, return_inverse=True
    )
    inverse = np.ravel(inverse)
    owner = pairs[0].astype(int)
    counts = np.bincount(owner, minlength=len(sources))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank = np.arange(len(owner)) - starts[owner]
    # Two outputs may share an input column: transform one output's candidates at a time then.
    rounds = [np.flatnonzero(np.isin(owner, outs)) for outs in _rounds(sources, np.unique(owner))]

    def goes_left(candidates: Floats) -> Bools:
        outputs = np.empty(candidates.shape)
        for chosen in rounds:
            where, out = rank[chosen], owner[chosen]
            table = np.tile(base, (len(candidates), int(where.max()) + 1, 1))
            table[:, where, sources[out]] = candidates[:, chosen]
            made = transform(table.reshape(-1, len(base))).reshape(*table.shape[:2], -1)
            outputs[:, chosen] = made[:, where, out]
        return np.asarray(outputs <= pairs[1])

    low = _ordered(np.full(len(owner), -EXTREME))
    high = _ordered(np.full(len(owner), EXTREME))
    lowest_left = goes_left(_number(low)[None])[0]
    # A call of the steps costs the same for one row as for thousands.
    cells = counts.max() * max(len(base), len(sources))
    n_inside = int(np.clip(CELLS_AT_ONCE // cells, 1, 15))
    while np.any(low + 1 < high):
        inside = _between(low, high, n_inside)
        stays = (goes_left(_number(inside)) == lowest_left).sum(axis=0)
        ladder = np.concatenate([low[None], inside, high[None]])
        low = np.take_along_axis(ladder, stays[None], axis=0)[0]
        high = np.take_along_axis(ladder, stays[None] + 1, axis=0)[0]
    thresholds = ensemble.threshold.copy()
    thresholds[inner] = _number(low)[inverse]
    swap = np.zeros(len(thresholds), dtype=bool)
    swap[inner] = ~lowest_left[inverse]
    return replace(
        moved,
        threshold=thresholds,
        left=np.where(swap, ensemble.right, ensemble.left),
        right=np.where(swap, ensemble.left, ensemble.right),
    )


def _rounds(sources: Ints, used: Ints) -> list[Ints]:
    rounds: list[list[int]] = []
    seen: list[set[int]] = []
    for out in used:
        source = int(sources[out])
        for members, taken in zip(rounds, seen, strict=True):
            if source not in taken:
                members.append(int(out))
                taken.add(source)
                break
        else:
            rounds.append([int(out)])
            seen.append({source})
    return [np.array(members) for members in rounds]


def _transform(steps: Pipeline, table: Floats) -> Floats:
    given: object = table
    names = getattr(steps[0], "feature_names_in_", None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f"{TABLE} does not have valid feature names")
        if names is not None and isinstance(steps[0], ColumnTransformer):
            import pandas as pd

            given = pd.DataFrame(table, columns=names)
        return np.asarray(steps.transform(given), dtype=np.float64)


def _between(low: Ordered, high: Ordered, count: int) -> Ordered:
    """Return ``count`` increasing numbers from ``low`` to ``high``, about evenly spaced."""
    # The difference of the two ends fits into 64 bits only without a sign.
    start, span = low.view(np.uint64), high.view(np.uint64) - low.view(np.uint64)
    part = np.maximum(span // np.uint64(count + 1), np.uint64(1))
    steps = np.arange(1, count + 1, dtype=np.uint64)[:, None] * part
    inside: NDArray[np.uint64] = start + np.minimum(steps, span - np.uint64(1))
    return inside.view(np.int64)


def _ordered(numbers: Floats) -> Ordered:
    """Map floats to integers of the same order, neighbours to neighbours."""
    bits = np.ascontiguousarray(numbers).view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def _number(ordered: Ordered) -> Floats:
    bits = np.where(ordered >= 0, ordered, np.int64(-(2**63)) - ordered)
    return bits.view(np.float64)
