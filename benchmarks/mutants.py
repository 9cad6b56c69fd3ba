"""Which faults the tests find: single changes of the source, sampled, each against tests of its part.

    python benchmarks/mutants.py --count 12 --seed 0

A mutant is a copy of ``src`` with one operator, sign, constant or term changed. The short tests of
its part run first (``make test``), and where they all pass the long ones (``make test-full``). What
neither finds is to be judged: some changes change nothing that matters (a threshold of a warning,
a size of a block). The first row of each part is its source unchanged, which must be "missed".
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numba  # noqa: F401
import pandas  # noqa: F401, ICN001
import pytest
import scipy.stats  # noqa: F401
import sklearn.ensemble  # noqa: F401

ROOT = Path(__file__).parents[1]
PARTS = {
    "inference": (["inference/*.py"], ["inference", "test_unrelated.py"]),
    "forms": (["_scoring/forms.py", "_scoring/error.py"], ["scoring"]),
    "own error": (
        ["_scoring/map_error.py", "_scoring/sensitivity_choice.py", "_scoring/jackknife.py"],
        ["scoring/test_map_error.py", "scoring/test_second_order.py",
         "transports/test_sensitivity.py", "scoring/test_sensitivity_choice.py",
         "transports/test_copula_terms.py", "transports/test_transport_jackknife.py",
         "methods/test_row_groups.py"],
    ),
    "blocks": (
        ["transports/blocks.py", "_estimates/within_units.py"],
        ["transports/test_blocks.py", "methods/test_units.py", "transports/test_sources.py",
         "transports/test_seeds_of_donors.py", "test_change.py"],
    ),
    "streams": (["_streams/*.py", "_data/moments.py"], ["data/test_moments.py", "streams"]),
}  # fmt: skip
SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def changes(node):
    """Yield a label and a function that changes a node in place, for each change of it."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        other = SWAPS[type(node.op)]
        yield f"{type(node.op).__name__} to {other.__name__}", lambda n: setattr(n, "op", other())
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield "term dropped", lambda n: setattr(n, "right", ast.Constant(0))
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        other = SWAPS[type(node.ops[0])]
        yield f"compared by {other.__name__}", lambda n: n.ops.__setitem__(0, other())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign dropped", lambda n: setattr(n, "op", ast.UAdd())
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "constant changed", lambda n: setattr(n, "value", n.value * 2 if n.value else 1)


def is_annotation(node):
    """Whether nothing below a node is computed when a function is called."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def places(tree):
    """Return the path (numbers of nodes) and label of every change of the bodies of functions."""
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                if not is_annotation(statement):
                    found += [
                        (node, number, label)
                        for node in ast.walk(statement)
                        for number, (label, _) in enumerate(changes(node))
                    ]
    return found


def sample(count, seed):
    """Yield part, file, line, label and source: of each part one unchanged, then mutants."""
    chance = random.Random(seed)
    for part, (patterns, _) in PARTS.items():
        files = [p for name in patterns for p in sorted((ROOT / "src" / "dfi").glob(name))]
        every = []
        for file in files:
            tree = ast.parse(file.read_text())
            every += [(file, tree, *place) for place in places(tree)]
        yield part, files[0].relative_to(ROOT), 0, "unchanged", ast.unparse(every[0][1])
        for file, tree, node, number, label in chance.sample(every, count):
            before = copy.copy(node), copy.copy(getattr(node, "ops", None))
            text = ast.unparse(node)
            list(changes(node))[number][1](node)
            after, source = ast.unparse(node), ast.unparse(tree)
            node.__dict__.update(before[0].__dict__)
            if before[1] is not None:
                node.ops = before[1]
            yield part, file.relative_to(ROOT), node.lineno, f"{label}: {text} -> {after}", source


def passes(source, tests, marker, seconds):
    """Whether the tests of a part pass with a copy of the source; None if they are not done."""
    names = [str(ROOT / "tests" / name) for name in tests]
    process = os.fork()  # which spares each mutant the import of what it has in common with others
    if process == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.alarm(seconds)
        sys.path.insert(0, str(source))
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", marker]
        os._exit(pytest.main([*options, *names]))
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return None if status == -signal.SIGALRM else status in (0, 5)  # 5: none has this marker


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=12, help="mutants of each part")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--seconds", type=int, default=900, help="for the tests of one mutant")
    asked = parser.parse_args()
    for part, file, line, label, text in sample(asked.count, asked.seed):
        if asked.part and part not in asked.part:
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "src"
            shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
            (Path(folder) / file).write_text(text)
            found = "missed"
            for name, marker in (
                ("short", "not slow and not full"),
                ("full", "full and not slow"),
            ):
                passed = passes(source, PARTS[part][1], marker, asked.seconds)
                if not passed:
                    found = name if passed is False else f"{name}: out of time"
                    break
        print(f"| {part} | {found} | `{file.name}:{line}` {label.replace('|', '/')} |", flush=True)


if __name__ == "__main__":
    main()
