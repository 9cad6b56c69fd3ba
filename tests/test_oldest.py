"""The versions that `make test-oldest` installs are the oldest that pyproject.toml declares."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "tests" / "oldest.txt"


def minima(requirements: list[str]) -> dict[str, Version]:
    """Return the lower bound of each requirement that has one."""
    found = {}
    for text in requirements:
        requirement = Requirement(text)
        for bound in requirement.specifier:
            if bound.operator == ">=":
                found[canonicalize_name(requirement.name)] = Version(bound.version)
    return found


@pytest.fixture(scope="module")
def declared() -> dict[str, dict[str, Version]]:
    project = tomllib.loads(PROJECT.read_text())
    sections = {
        "build": project["build-system"]["requires"],
        "dependencies": project["project"]["dependencies"],
        **project["project"]["optional-dependencies"],
    }
    return {name: minima(requirements) for name, requirements in sections.items()}


@pytest.fixture(scope="module")
def pinned() -> dict[str, Version]:
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    pins = [re.fullmatch(r"([A-Za-z0-9-]+)==([0-9.]+)", line) for line in lines]
    assert all(pins), "only lines of the form name==version"
    names = [canonicalize_name(pin[1]) for pin in pins]
    assert len(names) == len(set(names))
    return dict(zip(names, (Version(pin[2]) for pin in pins), strict=True))


def test_every_pin_is_the_declared_minimum(declared, pinned):
    everywhere = {name: version for part in declared.values() for name, version in part.items()}
    assert pinned == {name: everywhere.get(name) for name in pinned}


@pytest.mark.parametrize("part", ["build", "dependencies", "cli", "vine", "dask"])
def test_nothing_that_users_install_is_left_to_the_newest(part, declared, pinned):
    assert declared[part].keys() <= pinned.keys()


def test_every_dependency_declares_a_minimum():
    project = tomllib.loads(PROJECT.read_text())["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    assert len(minima(required)) == len(required)


def test_parts_agree_on_the_minimum_of_a_package(declared):
    for name in {name for part in declared.values() for name in part}:
        bounds = {part[name] for part in declared.values() if name in part}
        assert len(bounds) == 1, f"{name}: {bounds}"
