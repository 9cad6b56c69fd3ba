"""Names for the arrays that walk through the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]
"""An array of any dtype, as it was given."""
Advance: TypeAlias = Callable[[int], object]
"""Told how many pieces of work are done, for a progress bar."""
Frame: TypeAlias = Any
"""A table of the caller's dataframe library: pandas, polars, pyarrow, or a dict of arrays."""
Native: TypeAlias = Any
"""A column, a dtype or a module of the caller's dataframe library; none is imported here."""
Estimator: TypeAlias = Any
"""A learner or a fitted model of scikit-learn's kind, or a function: none ships types."""
Space: TypeAlias = Literal["attributed", "latent", "group"]
"""What the units of a result are: features, latent coordinates, or groups of features."""
Plain: TypeAlias = dict[str, Any]
"""What a result keeps: numbers, words, and lists and dicts of these."""

TableLike: TypeAlias = Any
"""A table of any library: pandas, polars, pyarrow, numpy, scipy.sparse, a list of rows."""

VectorLike: TypeAlias = Any
"""One value per row: a list, an array, a Series of any library, a table of one column."""

EstimatorLike: TypeAlias = Any
"""The name of a learner, an estimator, or a fitted model or function; scikit-learn has no types."""

GroupsLike: TypeAlias = Any
"""Groups of columns in one of the ways that :func:`dfi._data.groups.read_groups` knows."""

SplitsLike: TypeAlias = Any
"""A number of folds, a splitter, pairs of row numbers, or "prefit"."""

TransportLike: TypeAlias = Any
"""The name of a transport, a :class:`dfi.transports.base.Transport`, or an object with ``fit``,
``encode`` and ``decode``."""
