"""Trees behind steps that act on each column alone and never turn its order around.

Such a step ``g`` maps a split ``g(x) <= c`` to ``x <= c'`` with ``c'`` the largest number that
``g`` does not take above ``c``. It is found by bisection over the floating-point numbers
themselves, with the steps' own arithmetic, so that the composed model decides every row alike.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from dfi.lines.trees.reading import Unreadable, require

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfi.lines.trees.ensemble import TreeEnsemble

    Floats = NDArray[np.float64]
    Indices = NDArray[np.intp]

SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
# Beyond any datum, yet far from where a scaler's own arithmetic overflows.
EXTREME = 1e100


def read_pipeline(
    model: Pipeline, column: int, read: Callable[[Any, int], TreeEnsemble]
) -> TreeEnsemble:
    """Read the trees at the end of a pipeline in the units of its input."""
    ensemble = read(model.steps[-1][1], column)
    steps = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
    if not steps:
        return ensemble
    n_features = _width(steps[0])
    sources = np.arange(n_features)
    for step in steps:
        sources = sources[_sources(step, len(sources))]
    thresholds = _pull_back(model[:-1], ensemble, sources, n_features)
    return replace(ensemble, threshold=thresholds).with_columns(sources, n_features)


def _width(step: Any) -> int:
    require(hasattr(step, "n_features_in_"), f"{type(step).__name__} does not tell its columns")
    return int(step.n_features_in_)


def _sources(step: Any, width: int) -> Indices:
    """Return the input column that each output column of a step comes from."""
    if isinstance(step, str):
        require(step == "passthrough", f"the step {step!r} is not followed")
        return np.arange(width)
    if isinstance(step, SCALERS):
        return np.arange(width)
    # What a fitted ColumnTransformer makes of "passthrough".
    if isinstance(step, FunctionTransformer) and step.func is None:
        return np.arange(width)
    if isinstance(step, SimpleImputer):
        require(not step.add_indicator, "SimpleImputer adds missing-value indicators")
        require(
            isinstance(step.missing_values, float) and np.isnan(step.missing_values),
            "SimpleImputer replaces values that are not missing",
        )
        empty = np.array([isinstance(s, float) and np.isnan(s) for s in step.statistics_])
        kept = np.ones(width, dtype=bool) if step.keep_empty_features else ~empty
        return np.flatnonzero(kept)
    if isinstance(step, SelectorMixin):
        support: Indices = np.asarray(step.get_support(indices=True))
        return support
    if isinstance(step, ColumnTransformer):
        return _column_transformer_sources(step)
    if isinstance(step, Pipeline):
        sources = np.arange(width)
        for _, inner in step.steps:
            if inner not in (None, "passthrough"):
                sources = sources[_sources(inner, len(sources))]
        return sources
    raise Unreadable(f"{type(step).__name__} does not act on each column alone, in its order")


def _column_transformer_sources(step: Any) -> Indices:
    names = list(getattr(step, "feature_names_in_", []))
    placed: dict[int, int] = {}
    for name, inner, columns in step.transformers_:
        if isinstance(inner, str) and inner == "drop":
            continue
        inputs = _column_indices(columns, names, step.n_features_in_)
        inner_sources = inputs[_sources(inner, len(inputs))]
        where = range(step.output_indices_[name].start, step.output_indices_[name].stop)
        placed.update(zip(where, (int(source) for source in inner_sources), strict=True))
    return np.array([placed[k] for k in range(len(placed))], dtype=np.intp)


def _column_indices(columns: Any, names: list[str], width: int) -> Indices:
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


def _pull_back(steps: Any, ensemble: TreeEnsemble, sources: Indices, n_features: int) -> Floats:
    """Return for every split the largest input value that the steps keep at or below it."""
    inner = np.flatnonzero(ensemble.feature >= 0)
    feature = ensemble.feature[inner]
    # Each distinct (feature, threshold) gets one cell of a table that is transformed at once.
    pairs, inverse = np.unique(
        np.stack([feature.astype(float), ensemble.threshold[inner]]), axis=1, return_inverse=True
    )
    owner = pairs[0].astype(int)
    counts = np.bincount(owner, minlength=len(sources))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank = np.arange(len(owner)) - starts[owner]
    low = _ordered(np.full(len(owner), -EXTREME))
    high = _ordered(np.full(len(owner), EXTREME))
    table = np.zeros((int(counts.max(initial=0)), n_features))
    outputs = np.empty(len(owner))
    # Two outputs may share an input column: transform one output's candidates at a time then.
    rounds = _rounds(sources, np.unique(owner))
    # The difference of the two ends would not fit into 64 bits.
    while np.any(low + 1 < high):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        candidate = _number(middle)
        for outs in rounds:
            chosen = np.isin(owner, outs)
            table[rank[chosen], sources[owner[chosen]]] = candidate[chosen]
            outputs[chosen] = _transform(steps, table)[rank[chosen], owner[chosen]]
        stays = outputs <= pairs[1]
        low = np.where(stays, middle, low)
        high = np.where(stays, high, middle)
    thresholds = ensemble.threshold.copy()
    thresholds[inner] = _number(low)[np.ravel(inverse)]
    return thresholds


def _rounds(sources: Indices, used: Indices) -> list[Indices]:
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


def _transform(steps: Any, table: Floats) -> Floats:
    given: Any = table
    names = getattr(steps[0], "feature_names_in_", None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        if names is not None and isinstance(steps[0], ColumnTransformer):
            import pandas as pd

            given = pd.DataFrame(table, columns=names)
        return np.asarray(steps.transform(given), dtype=np.float64)


def _ordered(numbers: Floats) -> NDArray[np.int64]:
    """Map floats to integers of the same order, neighbours to neighbours."""
    bits = np.ascontiguousarray(numbers).view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def _number(ordered: NDArray[np.int64]) -> Floats:
    bits = np.where(ordered >= 0, ordered, np.int64(-(2**63)) - ordered)
    return bits.view(np.float64)
