"""Who may import whom: the order that CONTRIBUTING.md draws is the one that `make lint` checks."""

import ast
import re
import tomllib
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = sorted((ROOT / "src" / "dfi").rglob("*.py"))


def contract(name):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    return next(entry for entry in contracts if entry["name"] == name)


def imported(path):
    """Return the full names of what a file imports, wherever it does."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def test_the_order_that_is_checked_is_the_one_that_is_described():
    layers = [re.findall(r"\w+", layer) for layer in contract("imports point one way")["layers"]]
    height = {module: -place for place, layer in enumerate(layers) for module in layer}
    table = (ROOT / "CONTRIBUTING.md").read_text().split("| folder |")[1].split("\n\n")[0]
    rows = [re.findall(r"`(\w+)(?:/|\.py)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    assert sorted(name for row in rows for name in row) == sorted(height)
    for lower, upper in pairwise(rows):
        assert max(height[name] for name in lower) < min(height[name] for name in upper)


def test_every_module_has_its_place_in_the_order():
    layers = contract("imports point one way")["layers"]
    listed = {name for layer in layers for name in re.findall(r"\w+", layer)}
    found = {path.relative_to(ROOT / "src" / "dfi").parts[0].removesuffix(".py") for path in SOURCE}
    assert listed == found - {"__init__"}


def test_scoring_knows_no_transport_not_even_its_type():
    """Scores are taken in a geometry that a transport hands over; it is not called back."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert not settings["exclude_type_checking_imports"]
    for path in (ROOT / "src" / "dfi" / "_scoring").glob("*.py"):
        assert not [name for name in imported(path) if name.startswith("dfi.transports")], path


def test_nobody_asks_a_transport_what_kind_it_is():
    """What differs between transports is a method of theirs, also where it is only looked up."""
    folder = ROOT / "src" / "dfi" / "transports"
    trees = [ast.parse(path.read_text()) for path in folder.glob("*.py")]
    kinds = {
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    assert {"Transport", "FittedTransport", "LinearTransport", "Gaussian", "Auto"} <= kinds
    for path in [*SOURCE, *sorted((ROOT / "paper").rglob("*.py"))]:
        if folder in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            where = f"{path}:{node.lineno}"
            if node.func.id in ("isinstance", "issubclass"):
                asked = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                asked |= {
                    part.attr for part in ast.walk(node.args[1]) if isinstance(part, ast.Attribute)
                }
                assert not asked & kinds, where
            if node.func.id in ("getattr", "hasattr"):
                of = ast.unparse(node.args[0])
                assert not re.search(r"transport|design|linear\b", of), where


def test_the_library_never_imports_the_paper():
    for path in SOURCE:
        assert not [name for name in imported(path) if name.split(".")[0] == "paper"], path
    mentions = [path for path in SOURCE if '"paper"' in path.read_text()]
    assert [path.name for path in mentions] == ["reproduce.py"]


def test_the_wheel_holds_the_library_alone_and_the_source_archive_the_studies_too():
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert targets["targets"]["wheel"]["packages"] == ["src/dfi"]
    assert {"src", "paper", "tests", "docs"} <= set(targets["targets"]["sdist"]["include"])
    assert not (ROOT / "src" / "dfi" / "studies").exists()
