"""DFI and the other importances, computed from the same fits into influence values."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dfi._checks import did_you_mean
from dfi._models.fits import Fits
from dfi._models.prepare import prepare
from dfi._parameters import LEARNERS, argument
from dfi.methods.base import Method, MethodResult
from dfi.methods.conditional import CPI
from dfi.methods.disentangled import Disentangled
from dfi.methods.loco import LOCO, NLOCO
from dfi.methods.pcm import PCM
from dfi.methods.permutation import DLOCO, PFI
from dfi.methods.r2 import R2
from dfi.methods.shapley import Shapley
from dfi.methods.sobol import Sobol

__all__ = [
    "CPI", "DLOCO", "LOCO", "METHODS", "NLOCO", "PCM", "PFI", "R2", "Disentangled", "Fits",
    "Method", "MethodResult", "Shapley", "Sobol", "prepare",
]  # fmt: skip

METHODS: dict[str, Callable[[], Method]] = {
    kind.name: kind
    for kind in (Disentangled, LOCO, NLOCO, DLOCO, PFI, CPI, Shapley, Sobol, PCM, R2)
}
"""The methods that have a name, each with its defaults.

Examples
--------
>>> from dfi.methods import METHODS
>>> METHODS["loco"]().name
'loco'
"""


def resolve_methods(methods: object) -> list[Method]:
    """Return the methods of ``"all"``, a name, an object or a list of them."""
    if isinstance(methods, str) and methods == "all":
        methods = list(METHODS)
    if isinstance(methods, (str, type, Method)):
        methods = [methods]
    if not isinstance(methods, Iterable):
        raise TypeError(
            f"methods must be 'all', names or comparators, got {type(methods).__name__}"
        )
    chosen = [_resolve(method) for method in methods]
    if not chosen:
        raise ValueError("methods is empty: name at least one, or 'all'")
    names = [method.name for method in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"method {name!r} appears twice: compare variants in two calls")
    return chosen


def _resolve(method: object) -> Method:
    if isinstance(method, str):
        if method in METHODS:
            return METHODS[method]()
        hint = did_you_mean(method, METHODS) or "."
        if method in LEARNERS:
            hint = f": it is a learner, pass {argument('estimator', method)}."
        raise ValueError(
            f"unknown method {method!r}{hint} Known names: {', '.join(map(repr, METHODS))}"
        )
    if isinstance(method, type):
        raise TypeError(
            f"a method is the class {method.__name__}, not an instance: pass {method.__name__}()"
        )
    if not isinstance(method, Method):
        raise TypeError(f"a method must be a name or a comparator, got {type(method).__name__}")
    return method
