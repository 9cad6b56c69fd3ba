"""A fitted model seen as a function of numeric rows, whatever table it was fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.utils.validation import check_is_fitted

from dfi.nuisance.learners import predicts_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dfi.data.table import Table

    Floats = NDArray[np.float64]

View = Literal["matrix", "frame"]
ENCODERS = (OneHotEncoder, OrdinalEncoder, TargetEncoder)


@dataclass(frozen=True)
class Predictor:
    """A fitted model as a function of rows of the numeric matrix.

    Parameters
    ----------
    model : object
        A fitted estimator, or a function of a table.
    table : Table
        The table whose columns the model knows; perturbed rows are decoded to its library,
        columns and levels.
    view : {"matrix", "frame"}
        Whether the model takes the numeric matrix or a table like the caller's.
    exact : tuple of str
        Numeric columns that the model encodes by value: perturbed values are rounded to the
        nearest one observed.
    """

    model: Any
    table: Table
    view: View
    exact: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The model's name, for messages."""
        if isinstance(self.model, Pipeline):
            return f"Pipeline({type(self.model.steps[-1][1]).__name__})"
        return getattr(self.model, "__name__", type(self.model).__name__)

    @property
    def reads_matrix(self) -> bool:
        """Whether the model's columns are the columns of the numeric matrix, one for one."""
        if self.view == "matrix":
            return True
        return not self.exact and all(column.kind != "categorical" for column in self.table.columns)

    def __call__(self, points: Floats) -> Floats:
        """Return the model's prediction of each row; probabilities of class 1 for a classifier."""
        rows = points if self.view == "matrix" else self.table.frame(points, exact=self.exact)
        try:
            value = self._evaluate(rows)
        except Exception as error:
            raise ValueError(
                f"{self.name} could not predict {len(points)} rows "
                f"({type(error).__name__}: {error}). The model is asked to predict perturbed rows: "
                "it must accept any values of its columns"
            ) from error
        return self._checked(value, len(points))

    def _evaluate(self, rows: Any) -> Any:
        if predicts_classes(self.model):
            return self.model.predict_proba(rows)[:, 1]
        if hasattr(self.model, "predict"):
            return self.model.predict(rows)
        return self.model(rows)

    def _checked(self, value: Any, n_rows: int) -> Floats:
        try:
            result = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(
                f"{self.name} must predict numbers, got {type(value).__name__}"
            ) from None
        if result.shape == (n_rows, 1):
            result = result[:, 0]
        if result.shape != (n_rows,):
            raise ValueError(
                f"{self.name} returned predictions of shape {result.shape} for {n_rows} rows: "
                "one number per row is needed"
            )
        if not np.isfinite(result).all():
            bad = int(np.sum(~np.isfinite(result)))
            raise ValueError(
                f"{self.name} predicted NaN or infinity for {bad} of {n_rows} rows: "
                "a model must give a finite prediction for every row"
            )
        return result


def predictor_for(model: Any, table: Table, *, prefit: bool) -> Predictor:
    """Decide how a fitted model reads its rows.

    A model that knows column names, a pipeline or a plain function gets a table like the
    caller's; any other gets the numeric matrix.
    """
    if prefit:
        _check_prefit(model, table)
    named = getattr(model, "feature_names_in_", None) is not None
    function = not hasattr(model, "predict")
    view: View = "matrix"
    if table.library != "numpy" and (named or function or isinstance(model, Pipeline)):
        view = "frame"
    exact = tuple(sorted(encoded_columns(model, table))) if view == "frame" else ()
    return Predictor(model, table, view, exact)


def _check_prefit(model: Any, table: Table) -> None:
    """Refuse an unfitted model, a classifier of many classes, or other columns than its own."""
    name = type(model).__name__
    if not callable(model) and not hasattr(model, "predict"):
        raise TypeError(f"cv='prefit' needs a fitted model or a function of X, got {name}")
    if hasattr(model, "fit"):
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise ValueError(
                f"cv='prefit' needs a fitted model, but this {name} is not fitted: "
                "call fit first, or leave cv as a number of folds"
            ) from None
        except TypeError:
            # not a scikit-learn estimator: its own predict will tell
            return
    if predicts_classes(model) and len(getattr(model, "classes_", [0, 1])) != 2:
        raise ValueError(
            f"this {name} has {len(model.classes_)} classes: the scores explain one probability, "
            "so a binary classifier or a regressor is needed"
        )
    known = getattr(model, "feature_names_in_", None)
    if known is not None and table.library != "numpy":
        missing = [str(label) for label in known if str(label) not in table.names]
        extra = [label for label in table.names if label not in {str(k) for k in known}]
        if missing or extra:
            raise ValueError(
                f"X does not have the columns this {name} was fitted on: "
                + "; ".join(
                    part
                    for part in (
                        f"missing {missing[:5]}" if missing else "",
                        f"not known to the model {extra[:5]}" if extra else "",
                    )
                    if part
                )
                + ". Pass the same columns"
            )
    count = getattr(model, "n_features_in_", None)
    if count is not None and known is None and count != table.matrix.shape[1]:
        raise ValueError(
            f"this {name} was fitted on {count} columns, but X has {table.matrix.shape[1]}"
            + ("" if count != len(table.columns) else " after one-hot encoding")
        )


def encoded_columns(model: Any, table: Table) -> set[str]:
    """Return the numeric columns that a fitted pipeline encodes by value.

    Integers and booleans stay real in perturbed rows, except where an encoder would meet a value
    it has never seen.
    """
    numeric = {column.name for column in table.columns if column.kind != "categorical"}
    return {name for name in _encoded(model, list(table.names)) if name in numeric}


def _encoded(step: Any, names: list[str]) -> Iterator[str]:
    if isinstance(step, ENCODERS):
        yield from names
    elif isinstance(step, Pipeline) and step.steps:
        yield from _encoded(step.steps[0][1], names)
    elif isinstance(step, ColumnTransformer) and hasattr(step, "transformers_"):
        for _, transformer, columns in step.transformers_:
            if not isinstance(transformer, str):
                yield from _encoded(transformer, _column_names(columns, names))


def _column_names(columns: Any, names: list[str]) -> list[str]:
    """Return the names behind a fitted ColumnTransformer's column specification."""
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        return names[columns]
    chosen = list(np.atleast_1d(np.asarray(columns, dtype=object)))
    if chosen and all(isinstance(item, bool | np.bool_) for item in chosen):
        return [name for name, keep in zip(names, chosen, strict=True) if keep]
    return [names[int(c)] if isinstance(c, int | np.integer) else str(c) for c in chosen]
