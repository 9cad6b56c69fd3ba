"""Disentangled Feature Importance: which correlated features carry the signal, and how sure?"""

from __future__ import annotations

__version__ = "0.1.0"

from dfi import comparators, datasets, warnings
from dfi.compare import Comparison, compare
from dfi.estimator import DFI, explain
from dfi.result import Importance, load
from dfi.transport.gaussian import Gaussian, Semicontinuous

__all__ = [
    "DFI",
    "Comparison",
    "Gaussian",
    "Importance",
    "Semicontinuous",
    "__version__",
    "comparators",
    "compare",
    "datasets",
    "explain",
    "load",
    "warnings",
]
