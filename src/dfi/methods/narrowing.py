"""A learner that names its columns, rewritten for a table that lacks some of them.

``ColumnTransformer([("levels", OneHotEncoder(), ["region"])])`` cannot be fitted without the column
``region``, which is what every refit without it asks for. What is left out of the table is left out
of the learner; what remains is what its author would have written for the smaller table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from dfi._models.encoders import column_names, keeps_columns, takes_levels

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class NoColumns(Exception):
    """Nothing that the learner reads is left."""


def narrowed(learner: Any, names: Sequence[str], kept: Collection[str]) -> Any:
    """Return an unfitted learner for some of the columns.

    Parameters
    ----------
    learner : estimator
        Written for a table with columns ``names``.
    names : sequence of str
        The columns of that table, in order.
    kept : collection of str
        The columns that are left.

    Raises
    ------
    NoColumns
        The learner reads none of the columns that are left.
    """
    return _narrow(clone(learner), list(names), frozenset(kept))


def _narrow(model: Any, names: list[str], kept: frozenset[str]) -> Any:
    if isinstance(model, Pipeline):
        for k, (name, step) in enumerate(model.steps):
            model.steps[k] = (name, _narrow(step, names, kept))
            if not keeps_columns(step):
                break
    elif isinstance(model, FeatureUnion):
        model.transformer_list = _readable(model.transformer_list, names, kept)
    elif isinstance(model, ColumnTransformer):
        _narrow_transformer(model, names, kept)
    elif takes_levels(model):
        _narrow_levels(model, names, kept)
    elif hasattr(model, "get_params") and not isinstance(model, type):
        # A search, a vote, a stack, a transformed target: the models inside get the same table.
        for key, value in model.get_params(deep=False).items():
            if hasattr(value, "get_params"):
                model.set_params(**{key: _narrow(value, names, kept)})
            elif key == "estimators" and isinstance(value, list):
                model.set_params(estimators=_readable(value, names, kept))
    return model


def _readable(
    parts: list[tuple[str, Any]], names: list[str], kept: frozenset[str]
) -> list[tuple[str, Any]]:
    """Return the parts that still have something to read."""
    found = []
    for name, part in parts:
        try:
            found.append((name, _narrow(part, names, kept)))
        except NoColumns:
            continue
    if not found:
        raise NoColumns
    return found


def _narrow_transformer(
    transformer: ColumnTransformer, names: list[str], kept: frozenset[str]
) -> None:
    left = [name for name in names if name in kept]
    spoken_for: set[str] = set()
    parts = []
    chooses = False
    for name, part, columns in transformer.transformers:
        if callable(columns):
            # It chooses among the columns of the table that it is given.
            chooses = True
            parts.append((name, part, columns))
            continue
        read = column_names(columns, names)
        spoken_for.update(read)
        remaining = [column for column in read if column in kept]
        if remaining:
            narrow = part if isinstance(part, str) else _narrow(part, read, kept)
            parts.append((name, narrow, _as_written(columns, remaining, left)))
    rest = [name for name in names if name not in spoken_for]
    if transformer.remainder not in ("drop", "passthrough") and set(rest) & kept and not chooses:
        transformer.remainder = _narrow(transformer.remainder, rest, kept)
    if not parts and (transformer.remainder == "drop" or not set(rest) & kept):
        raise NoColumns
    transformer.transformers = parts


def _as_written(columns: Any, remaining: list[str], left: list[str]) -> Any:
    """Return columns by name or by place, as they were given."""
    if isinstance(columns, str):
        return columns
    if isinstance(columns, int | np.integer):
        return left.index(remaining[0])
    by_name = not isinstance(columns, slice) and all(isinstance(item, str) for item in columns)
    return remaining if by_name else [left.index(name) for name in remaining]


def _narrow_levels(model: Any, names: list[str], kept: frozenset[str]) -> None:
    columns = model.get_params().get("categorical_features")
    if columns is None:  # XGBoost goes by the columns' types
        return
    remaining = [column for column in column_names(columns, names) if column in kept]
    left = [name for name in names if name in kept]
    written = _as_written(columns, remaining, left) if remaining else None
    model.set_params(categorical_features=written)
