"""What an estimate depends on, in words that a file can keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn

import dfi

LONGEST = 300


def describe(value: Any) -> str:
    """Return a setting on one line: names as they are, functions by name, the rest by ``repr``."""
    if isinstance(value, str):
        return value
    text = " ".join(repr(value).split())
    if callable(value) and not hasattr(value, "fit"):
        text = getattr(value, "__qualname__", type(value).__name__)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def versions() -> dict[str, str]:
    """Return the versions of what the numbers come from."""
    return {
        "dfi": dfi.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
