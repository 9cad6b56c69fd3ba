"""How models treat raw columns: which get them, what they encode, which levels they know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.utils import get_tags

from dfi._learners.temperature import TemperatureScaled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfi._data.table import Table
    from dfi._types import Estimator

TREE_MODULES = (
    "sklearn.ensemble._forest",
    "sklearn.ensemble._gb",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting",
    "lightgbm.sklearn",
    "xgboost.sklearn",
)

ENCODERS = (OneHotEncoder, OrdinalEncoder, TargetEncoder)
WRAPPERS = (BaseSearchCV, TransformedTargetRegressor, TemperatureScaled)


def reads_raw_columns(model: Estimator) -> bool:
    parameters = getattr(model, "get_params", None)
    nested = parameters(deep=True).values() if parameters is not None else ()
    parts = (model, *nested)
    return any(isinstance(part, Pipeline | ColumnTransformer) for part in parts) or any(
        takes_levels(part) for part in parts
    )


def takes_levels(model: Estimator) -> bool:
    """Return whether boosting was told that columns have levels; XGBoost from 3.4 on by default."""
    if not hasattr(model, "get_params") or isinstance(model, type):
        return False
    parameters = model.get_params()
    named = parameters.get("categorical_features")
    by_name = named is not None and not (isinstance(named, str) and named == "from_dtype")
    by_name = by_name or parameters.get("cat_features") is not None
    return by_name or bool(parameters.get("enable_categorical"))


def takes_missing(model: Estimator) -> bool:
    """Return whether a learner, or the one that it wraps, takes NaN, by scikit-learn's tag."""
    parameters = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    for inside in ("estimator", "regressor"):
        if isinstance(model, WRAPPERS) and inside in parameters:
            return takes_missing(parameters[inside])
    if not hasattr(model, "__sklearn_tags__"):
        return False
    return bool(get_tags(model).input_tags.allow_nan)


def encoded_columns(model: Estimator, table: Table) -> set[str]:
    """Return numeric columns that a model encodes by value, which must not take new values."""
    numeric = {column.name for column in table.columns if column.kind != "categorical"}
    found = [names for _, names in fitted_encoders(model, list(table.names))]
    found.append(_columns_with_levels(model, list(table.names)))
    return {name for names in found for name in names if name in numeric}


def _columns_with_levels(model: Estimator, names: list[str]) -> list[str]:
    if isinstance(model, TemperatureScaled):
        return _columns_with_levels(model.model_, names)
    marked = getattr(model, "is_categorical_", None)
    if marked is None and hasattr(model, "get_cat_feature_indices"):
        marked = np.isin(np.arange(len(names)), model.get_cat_feature_indices())
    if marked is None or len(marked) != len(names):
        return []
    return [name for name, is_marked in zip(names, marked, strict=True) if is_marked]


def unseen_levels(model: Estimator, table: Table) -> str | None:
    for encoder, names in fitted_encoders(model, list(table.names)):
        if getattr(encoder, "handle_unknown", None) != "error":
            continue
        for name, known in zip(names, getattr(encoder, "categories_", ()), strict=False):
            if name not in table.names:
                continue
            unseen = [level for level in observed_levels(table, name) if level not in set(known)]
            if unseen:
                return (
                    f"column {name!r} has {', '.join(map(repr, unseen[:3]))}, which its "
                    f"{type(encoder).__name__} has never seen (it knows "
                    f"{', '.join(repr(level) for level in list(known)[:5])}). Drop those rows, or "
                    "fit the model with handle_unknown='ignore' or another rule for unknown levels"
                )
    return None


def observed_levels(table: Table, name: str) -> list[object]:
    column = table.columns[table.names.index(name)]
    block = table.matrix[~table.where_missing(column)][:, list(column.positions)]
    if column.kind != "categorical":
        return [value.item() for value in np.unique(block[:, 0])]
    present = np.unique(column.decode(block))
    return [column.levels[code] for code in present]


def fitted_encoders(model: Estimator, names: list[str]) -> Iterator[tuple[Estimator, list[str]]]:
    if isinstance(model, ENCODERS):
        yield model, names
    elif isinstance(model, Pipeline):
        for _, step in model.steps:
            yield from fitted_encoders(step, names)
            if not keeps_columns(step):
                break
    elif isinstance(model, FeatureUnion):
        for _, part in model.transformer_list:
            yield from fitted_encoders(part, names)
    elif isinstance(model, ColumnTransformer):
        for _, part, columns in getattr(model, "transformers_", ()):
            if not isinstance(part, str):
                yield from fitted_encoders(part, column_names(columns, names))
    else:
        for part in _fitted_parts(model):
            yield from fitted_encoders(part, names)


def keeps_columns(step: Estimator) -> bool:
    """Return whether a step hands its columns on one for one."""
    if isinstance(step, FunctionTransformer):
        return step.func is None or step.feature_names_out == "one-to-one"
    return step is None or step == "passthrough" or isinstance(step, SimpleImputer)


def sums_trees(model: Estimator) -> bool:
    """Return whether a model is nothing but trees, whose predictions of rows are independent."""
    return type(model).__module__ in TREE_MODULES and "predict" not in vars(model)


def _fitted_parts(model: Estimator) -> Iterator[Estimator]:
    """Yield the fitted models inside a search, a transformed target, a vote or a stack."""
    if sums_trees(model):
        return
    if isinstance(model, TemperatureScaled):
        yield model.model_
    for attribute in ("best_estimator_", "regressor_", "estimators_"):
        parts = getattr(model, attribute, None)
        for part in parts if isinstance(parts, list) else [parts]:
            if isinstance(part, Pipeline | ColumnTransformer) or hasattr(part, "get_params"):
                yield part


def column_names(columns: object, names: list[str]) -> list[str]:
    """Return the names behind a specification of columns: names, places, a mask or a slice."""
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        by_name = isinstance(columns.start, str) or isinstance(columns.stop, str)
        return names[_places(columns, names) if by_name else columns]
    chosen = list(np.atleast_1d(np.asarray(columns, dtype=object)))
    if chosen and all(isinstance(item, bool | np.bool_) for item in chosen):
        return [name for name, keep in zip(names, chosen, strict=True) if keep]
    return [names[int(c)] if isinstance(c, int | np.integer) else str(c) for c in chosen]


def _places(columns: slice, names: list[str]) -> slice:
    """Return a slice of names, end included, as a slice of positions."""
    start = None if columns.start is None else names.index(columns.start)
    stop = None if columns.stop is None else names.index(columns.stop) + 1
    return slice(start, stop, columns.step)
