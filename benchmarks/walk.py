"""How far a reader walks who follows one call of ``explain``, function by function.

Functions are listed in the order in which the call first enters them, in a process that has made
the same call before. A hop is a step of this list from one folder of ``src/dfi`` to another; the
modules at the top of the package are one folder. Functions of one statement, which a reader need
not open, are counted, and left out in a second figure.

Run from the repository: ``python -m benchmarks.walk [estimator] [--hops]``.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import dfi

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

ROOT = Path(dfi.__file__).parent
TOP = "top level"


@dataclass(frozen=True)
class Walk:
    """The functions of a call, as (module, name), in the order of their first calls."""

    functions: tuple[tuple[str, str], ...]
    depth: int

    @property
    def modules(self) -> set[str]:
        return {module for module, _ in self.functions}

    @property
    def hops(self) -> list[tuple[str, str]]:
        folders = [_folder(module) for module, _ in self.functions]
        return [(a, b) for a, b in pairwise(folders) if a != b]

    @property
    def without_short(self) -> Walk:
        """The walk without functions of one statement."""
        long = [(m, name) for m, name in self.functions if name not in _short(m)]
        return Walk(tuple(long), self.depth)


def walked(call: Callable[[], object]) -> Walk:
    """Return the walk of a call, which is made twice: the first time loads what it needs."""
    call()
    functions: dict[tuple[str, str], None] = {}
    depth = 0

    def enter(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        module = _module(frame.f_code)
        name = frame.f_code.co_qualname
        if event != "call" or module is None or name.rpartition(".")[2].startswith("<"):
            return
        functions.setdefault((module, name))
        below, above = 1, frame.f_back
        while above is not None:
            below += _module(above.f_code) is not None
            above = above.f_back
        depth = max(depth, below)

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Walk(tuple(functions), depth)


def explained(estimator: str = "linear") -> Walk:
    """Return the walk of ``explain`` for a small table."""
    sample = dfi.datasets.m1(300, d=4)

    def call() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dfi.explain(sample.X, sample.y, estimator)

    return walked(call)


@cache
def _short(module: str) -> set[str]:
    """Return the functions of a module that have one statement behind their docstring."""
    found = set()

    def look(node: ast.AST, above: str) -> None:
        for below in ast.iter_child_nodes(node):
            name = f"{above}{getattr(below, 'name', '')}"
            if isinstance(below, ast.FunctionDef):
                if len(below.body) - (ast.get_docstring(below) is not None) <= 1:
                    found.add(name)
                look(below, f"{name}.<locals>.")
            elif isinstance(below, ast.ClassDef):
                look(below, f"{name}.")

    look(ast.parse((ROOT / module).read_text()), "")
    return found


def _module(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else None


def _folder(module: str) -> str:
    return module.split("/")[0] if "/" in module else TOP


if __name__ == "__main__":
    names = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    walk = explained(*names)
    print(
        f"{len(walk.modules)} modules, {len(walk.functions)} functions, depth {walk.depth}, "
        f"{len(walk.hops)} folder hops, {len(walk.without_short.hops)} without short functions"
    )
    for (one, other), count in Counter(tuple(sorted(hop)) for hop in walk.hops).most_common(12):
        print(f"{count:5d}  {one} <-> {other}")
    if "--hops" in sys.argv:
        for module, name in walk.functions:
            print(f"{module}: {name}")
