"""Disentangled Feature Importance: which correlated features carry the signal, how surely."""

from __future__ import annotations

__version__ = "0.1.0"

import importlib
from typing import Any

from dfi import datasets, inference, methods, transports, warnings
from dfi.compare import compare
from dfi.estimator import DFI, explain
from dfi.results.collection import Results
from dfi.results.importance import Importance, load
from dfi.sensitivity import sensitivity
from dfi.transports.gaussian import Gaussian, Semicontinuous

__all__ = [
    "DFI",
    "Gaussian",
    "Importance",
    "Results",
    "Semicontinuous",
    "__version__",
    "compare",
    "datasets",
    "explain",
    "inference",
    "load",
    "methods",
    "plots",
    "report",
    "sensitivity",
    "transports",
    "warnings",
]


def __getattr__(name: str) -> Any:
    # drawing and reporting come last: they load matplotlib and jinja2 when first asked for
    if name in ("plots", "report"):
        return importlib.import_module(f"dfi.{name}")
    raise AttributeError(f"module 'dfi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
