"""A fingerprint of the numbers that were explained, so that a result can be matched to its data."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dfi._types import Floats


def fingerprint(*arrays: Floats) -> str:
    """Return the SHA-256 of arrays: their shapes and their float64 values, little-endian.

    Rows, columns and values in the same order give the same fingerprint on every machine and from
    every dataframe library.
    """
    digest = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array, dtype="<f8")
        digest.update(repr(values.shape).encode())
        # adding zero turns -0.0 into 0.0; in blocks of rows, so that no second copy is made
        for start in range(0, len(values), 65536):
            digest.update((values[start : start + 65536] + 0.0).tobytes())
    return digest.hexdigest()
