"""Disentangled Feature Importance: which correlated features carry the signal, and how much."""

from __future__ import annotations

__version__ = "1.0.0rc1"

import importlib
from typing import TYPE_CHECKING

from dfi._loading import uncollected

if TYPE_CHECKING:
    from dfi import datasets, inference, losses, methods, plots, report, transports, warnings
    from dfi._change import change
    from dfi._data.outcome import Quantile
    from dfi._effects import effects
    from dfi._lines.choose import Quadrature
    from dfi._run import compare, explain, select, sensitivity
    from dfi._sklearn import DFI
    from dfi.results.change import Change
    from dfi.results.collection import Results
    from dfi.results.importance import Importance, load
    from dfi.results.interactions import Interactions
    from dfi.results.keep import KeepList
    from dfi.results.local import LocalAttributions
    from dfi.results.selection import Selection
    from dfi.results.split import Split
    from dfi.results.tree import SignalTree

__all__ = [
    "DFI", "Change", "Importance", "Interactions", "KeepList", "LocalAttributions", "Quadrature",
    "Quantile", "Results", "Selection", "SignalTree", "Split", "__version__", "change", "compare",
    "datasets", "effects", "explain", "inference", "load", "losses", "methods", "plots", "report",
    "select", "sensitivity", "transports", "warnings",
]  # fmt: skip

_HOMES = {
    "dfi._change": ("change",),
    "dfi._data.outcome": ("Quantile",),
    "dfi._effects": ("effects",),
    "dfi._lines.choose": ("Quadrature",),
    "dfi._run": ("compare", "explain", "select", "sensitivity"),
    "dfi._sklearn": ("DFI",),
    "dfi.results.change": ("Change",),
    "dfi.results.collection": ("Results",),
    "dfi.results.importance": ("Importance", "load"),
    "dfi.results.keep": ("KeepList",),
    "dfi.results.local": ("LocalAttributions",),
    "dfi.results.selection": ("Selection",),
    "dfi.results.tree": ("SignalTree",),
    "dfi.results.interactions": ("Interactions",),
    "dfi.results.split": ("Split",),
}
"""Where the public names are defined; names that are not here are namespaces."""

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name

    def __getattr__(name: str) -> object:
        # Names load when they are first used: `dfi --help` waits for no library of numbers.
        if name not in __all__:
            raise AttributeError(f"module 'dfi' has no attribute {name!r}")
        home = next((home for home, names in _HOMES.items() if name in names), f"dfi.{name}")
        with uncollected():
            module = importlib.import_module(home)
        if home not in _HOMES:
            return module
        globals().update({public: getattr(module, public) for public in _HOMES[home]})
        return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
