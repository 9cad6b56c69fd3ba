"""The studies use what every user of the library can: public names, and nothing behind them."""

import ast
import importlib
from pathlib import Path

import pytest

import dfi

FOLDER = Path(__file__).parents[2] / "paper"
FILES = sorted(FOLDER.rglob("*.py"))
NAMESPACES = {name for name in dfi.__all__ if type(getattr(dfi, name)) is type(dfi)}


def names_of_dfi(tree):
    """Return (module, name) of everything that a file imports from dfi."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found += [(node.module, alias.name) for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] == "dfi"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_study_imports_public_names_only(path):
    if path.name == "__main__.py":
        # the command that the wheel installs
        assert names_of_dfi(ast.parse(path.read_text())) == [("dfi.cli", "main")]
        return
    for module, name in names_of_dfi(ast.parse(path.read_text())):
        if module == "dfi":
            assert name is None or name in dfi.__all__
        else:
            assert module.removeprefix("dfi.") in NAMESPACES
            assert name in importlib.import_module(module).__all__


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_study_looks_behind_no_underscore(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            assert own or node.attr.startswith("__"), f"line {node.lineno}: {node.attr}"
