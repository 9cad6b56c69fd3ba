"""Fitted models of other libraries, as objects with ``predict`` or functions of rows.

A model is known by what it can do, and nothing is imported for it: whoever has one at hand has
imported its library.
"""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from dfi._parameters import TABLE

if TYPE_CHECKING:
    from dfi._types import Array, Estimator, Floats, Frame, Native


def as_model(model: Estimator) -> Estimator:
    """Return a model of XGBoost, ONNX, PyTorch, Keras or statsmodels as one that predicts rows."""
    if _made_by(model, "xgboost", "Booster"):
        return _xgboost_estimator(model)
    if all(hasattr(model, name) for name in ("run", "get_inputs", "get_outputs")):
        return OnnxFunction(model)
    if _made_by(model, "torch", "Module"):
        return TorchFunction(model)
    if hasattr(getattr(model, "model", None), "formula") and hasattr(model, "params"):
        return FormulaFunction(model)
    if not hasattr(model, "__sklearn_tags__") and _has_verbose(getattr(model, "predict", None)):
        return QuietModel(model)
    return model


def _made_by(model: object, library: str, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.split(".")[0] == library
        for base in type(model).__mro__
    )


def _has_verbose(predict: object) -> bool:
    try:
        return callable(predict) and "verbose" in inspect.signature(predict).parameters
    except (TypeError, ValueError):
        # functions of compiled code do not tell their parameters
        return False


def _xgboost_estimator(booster: Native) -> Estimator:
    library: Native = sys.modules["xgboost"]
    booster = booster.copy()
    # a Booster predicts with all of its trees, an estimator with the best of them
    booster.set_attr(best_iteration=None, best_score=None)
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    classes = objective in ("binary:logistic", "multi:softprob", "multi:softmax")
    kind = library.XGBClassifier if classes else library.XGBRegressor
    with_levels = "c" in (booster.feature_types or [])
    model = kind(enable_categorical=True) if with_levels else kind()
    model.load_model(bytearray(booster.save_raw("ubj")))
    return model


def off_device(answer: Native) -> Native:
    """Return a tensor, of PyTorch or like those, as an array; anything else as it is."""
    if not all(hasattr(answer, name) for name in ("detach", "cpu", "numpy")):
        return answer
    torch: Native = sys.modules["torch"]
    return answer.detach().cpu().to(torch.float64).numpy()


def _table_of_floats(rows: Floats | Frame, dtype: type[np.floating]) -> Array:
    """Return rows as an array of numbers; columns of text have none."""
    values = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
    return np.ascontiguousarray(np.asarray(values), dtype=dtype)


@dataclass(frozen=True, eq=False)
class QuietModel:
    """A model with ``predict(rows, verbose=...)`` that is asked not to print."""

    model: Estimator

    @property
    def __name__(self) -> str:
        return type(self.model).__name__

    def predict(self, rows: Floats | Frame) -> Native:
        return self.model.predict(rows, verbose=0)


@dataclass(frozen=True, eq=False)
class FormulaFunction:
    """Results of statsmodels whose formula names columns of a pandas frame."""

    results: Native

    @property
    def __name__(self) -> str:
        return f"the statsmodels formula {self.results.model.formula!r}"

    def __call__(self, rows: Floats | Frame) -> Array:
        if isinstance(rows, np.ndarray):
            raise TypeError("its formula names columns: pass X as a dataframe")
        frame = nw.from_native(rows, eager_only=True).to_pandas()
        return np.asarray(self.results.predict(frame), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class OnnxFunction:
    session: Native

    @property
    def __name__(self) -> str:
        return "the ONNX session"

    def __call__(self, rows: Floats | Frame) -> Native:
        inputs = list(self.session.get_inputs())
        if len(inputs) == 1:
            dtype = np.float64 if "double" in str(inputs[0].type) else np.float32
            given = {inputs[0].name: _table_of_floats(rows, dtype)}
        else:
            _check_columns(rows, [one.name for one in inputs])
            given = {one.name: _onnx_column(rows, one, k) for k, one in enumerate(inputs)}
        answers = [_onnx_answer(answer) for answer in self.session.run(None, given)]
        numbers = [answer for answer in answers if answer is not None]
        if not numbers:
            raise TypeError("the ONNX session has no output of numbers")
        return numbers[-1]


def _check_columns(rows: Floats | Frame, names: list[str]) -> None:
    if isinstance(rows, np.ndarray):
        if rows.shape[1] != len(names):
            raise ValueError(f"it has {len(names)} inputs, but {TABLE} has {rows.shape[1]} columns")
        return
    known = nw.from_native(rows, eager_only=True).columns
    absent = [name for name in names if name not in known]
    if absent:
        raise ValueError(f"it asks for the column {absent[0]!r}, which X does not have")


def _onnx_column(rows: Floats | Frame, one: Native, place: int) -> Array:
    values = rows[:, place] if isinstance(rows, np.ndarray) else np.asarray(rows[one.name])
    kind = str(one.type)
    dtype = "float64" if "double" in kind else "float32"
    dtype = "object" if "string" in kind else "int64" if "int64" in kind else dtype
    return np.asarray(values).astype(dtype).reshape(-1, 1)


def _onnx_answer(answer: Native) -> Array | None:
    """Return an output as numbers; None for labels. Probabilities may come as one dict a row."""
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return np.array([list(row.values()) for row in answer], dtype=np.float64)
    array = np.asarray(answer)
    return array if array.dtype.kind in "fiub" else None


@dataclass(frozen=True, eq=False)
class TorchFunction:
    """A module of PyTorch as a function of rows, without gradients, dropout or batch statistics."""

    module: Native

    @property
    def __name__(self) -> str:
        return type(self.module).__name__

    def __call__(self, rows: Floats | Frame) -> Array:
        """Return the module's output in evaluation mode; it is left in the mode that it was in."""
        torch: Native = sys.modules["torch"]
        first = next(iter(self.module.parameters()), None)
        options = {} if first is None else {"dtype": first.dtype, "device": first.device}
        training = bool(getattr(self.module, "training", False))
        self.module.eval()
        try:
            with torch.no_grad():
                answer = self.module(torch.as_tensor(_table_of_floats(rows, np.float64), **options))
        finally:
            self.module.train(training)
        if isinstance(answer, tuple | list | dict):
            raise TypeError(
                f"the module returns a {type(answer).__name__}, not predictions: pass a function "
                "of rows that picks them"
            )
        return np.asarray(off_device(answer), dtype=np.float64)
