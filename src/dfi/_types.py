"""Names for the types of arrays and arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]
"""An array of any dtype, as it was given."""
Advance: TypeAlias = Callable[[int], object]
"""Called with the number of finished pieces of work, for a progress bar."""
Frame: TypeAlias = Any
"""A table of the caller's dataframe library: pandas, polars, pyarrow, or a dict of arrays."""
Native: TypeAlias = Any
"""A column, a dtype or a module of the caller's dataframe library; none is imported here."""
Estimator: TypeAlias = Any
"""A learner or a fitted model of scikit-learn's kind, or a function: none ships types."""
Space: TypeAlias = Literal["attributed", "latent", "group"]
"""What the units of a result are: features, latent coordinates, or groups of features."""
Plain: TypeAlias = dict[str, Any]
"""What results keep and JSON and templates read: numbers, words, None, lists and dicts of these."""


class HasArray(Protocol):
    """What numpy can read: arrays, pandas, polars, pyarrow, Dask."""

    def __array__(self, /) -> Any: ...


class HasArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None, /) -> object: ...


class Sparse(Protocol):
    def tocsr(self) -> Any: ...


class LazyTable(Protocol):
    """A query that has not been collected yet: polars."""

    def collect(self) -> Any: ...


class Batches(Protocol):
    def to_batches(self) -> Any: ...


class Learner(Protocol):
    def fit(self, X: Any, y: Any, /) -> Any: ...


class FittedModel(Protocol):
    def predict(self, X: Any, /) -> Any: ...


class Splitter(Protocol):
    def split(self, X: Any, y: Any = None, groups: Any = None, /) -> Any: ...


class QuantileObject(Protocol):
    """A :class:`dfi.Quantile`."""

    @property
    def level(self) -> float: ...


class TransportObject(Protocol):
    def fit(self, X: Any, /) -> Any: ...

    def encode(self, X: Any, /) -> Any: ...

    def decode(self, Z: Any, /) -> Any: ...


TableLike: TypeAlias = (
    HasArray
    | HasArrowStream
    | Sparse
    | LazyTable
    | Batches
    | Sequence[Any]
    | Mapping[str, Any]
    | os.PathLike[str]
    | None
)
"""A table of any library, in memory or not, a list of rows or paths, the path of a file."""

VectorLike: TypeAlias = HasArray | HasArrowStream | Sequence[Any] | None
"""One value per row: a list, an array, a Series of any library; or the name of a column."""

EstimatorLike: TypeAlias = str | Learner | FittedModel | Callable[..., Any]
"""The name of a learner, a learner, or a fitted model or function."""

TargetLike: TypeAlias = str | QuantileObject | None
"""The explained part of an outcome: a name, a :class:`dfi.Quantile`, or None."""

HorizonLike: TypeAlias = float | Sequence[float] | HasArray | None
"""A time up to which events are looked at, or several."""

GroupsLike: TypeAlias = HasArray | HasArrowStream | Mapping[Any, Any] | Sequence[Any] | None
"""Groups of columns in one of the ways that :func:`dfi._data.groups.read_groups` knows."""

SplitsLike: TypeAlias = int | str | Splitter | Iterable[Any]
"""A number of folds, a splitter, pairs of row numbers, or "prefit"."""

TransportLike: TypeAlias = str | TransportObject
"""The name of a transport, a transport of :mod:`dfi.transports`, or one of the caller's."""
