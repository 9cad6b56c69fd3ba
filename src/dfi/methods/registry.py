"""Comparators by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from dfi.methods.base import Comparator
from dfi.methods.cpi import CPI
from dfi.methods.disentangled import Disentangled
from dfi.methods.dloco import DLOCO
from dfi.methods.loco import LOCO
from dfi.methods.nloco import NLOCO
from dfi.methods.pcm import PCM
from dfi.methods.pfi import PFI
from dfi.methods.r2 import R2
from dfi.methods.shapley import Shapley
from dfi.methods.sobol import Sobol

COMPARATORS: dict[str, Callable[[], Comparator]] = {
    "loco": LOCO,
    "nloco": NLOCO,
    "dloco": DLOCO,
    "pfi": PFI,
    "cpi": CPI,
    "shapley": Shapley,
    "sobol": Sobol,
    "pcm": PCM,
    "r2": R2,
}


METHODS: dict[str, Callable[[], Comparator]] = {"dfi": Disentangled, **COMPARATORS}


def resolve_comparators(methods: Any, disentangled: Disentangled | None = None) -> list[Comparator]:
    """Return the methods of ``"all"``, a name, an object or a list of them.

    Parameters
    ----------
    methods : str, Comparator or iterable of these
        What the user asked for.
    disentangled : Disentangled, optional
        What ``"dfi"`` stands for.
    """
    if isinstance(methods, str) and methods == "all":
        methods = list(METHODS)
    if isinstance(methods, (str, type, Comparator)):
        methods = [methods]
    if not isinstance(methods, Iterable):
        raise TypeError(
            f"methods must be 'all', names or comparators, got {type(methods).__name__}"
        )
    chosen: list[Comparator] = []
    for method in methods:
        if isinstance(method, str):
            if method not in METHODS:
                close = difflib.get_close_matches(method, METHODS, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else "."
                known = ", ".join(map(repr, METHODS))
                raise ValueError(f"unknown method {method!r}{hint} Known names: {known}")
            given = disentangled if method == Disentangled.name else None
            chosen.append(given or METHODS[method]())
        elif isinstance(method, type):
            raise TypeError(
                f"a method is the class {method.__name__}, not an instance: pass "
                f"{method.__name__}()"
            )
        elif isinstance(method, Comparator):
            chosen.append(method)
        else:
            raise TypeError(f"a method must be a name or a comparator, got {type(method).__name__}")
    if not chosen:
        raise ValueError("methods is empty: name at least one, or 'all'")
    names = [method.name for method in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"method {name!r} is asked for twice: compare variants in two calls")
    return chosen
