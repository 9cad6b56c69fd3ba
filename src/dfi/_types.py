"""Names for the arrays that walk through the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]
Bools: TypeAlias = NDArray[np.bool_]
Advance: TypeAlias = Callable[[int], object]
"""Told how many pieces of work are done, for a progress bar."""
Frame: TypeAlias = Any
"""A table of the caller's dataframe library: pandas, polars, pyarrow, or a dict of arrays."""
Space: TypeAlias = Literal["attributed", "latent", "group"]
"""What the units of a result are: features, latent coordinates, or groups of features."""
Plain: TypeAlias = dict[str, Any]
"""What a result keeps: numbers, words, and lists and dicts of these."""
