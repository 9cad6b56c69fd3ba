"""The site is whole: every warning and public name has its place, links lead somewhere."""

import importlib.util
import re
from pathlib import Path

import pytest

import dfi
import dfi.warnings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAMESPACES = [
    "methods", "datasets", "inference", "losses", "plots", "report", "transports", "warnings",
]  # fmt: skip
WARNINGS = [
    name
    for name, value in vars(dfi.warnings).items()
    if isinstance(value, type) and issubclass(value, dfi.warnings.DFIWarning)
]


def public(namespace):
    """Return the public names of dfi, or of one of its namespaces."""
    if namespace == "warnings":
        return WARNINGS
    home = dfi if namespace is None else getattr(dfi, namespace)
    return [name for name in home.__all__ if name not in NAMESPACES and name != "__version__"]


@pytest.mark.parametrize("namespace", [None, *NAMESPACES])
def test_reference_has_every_public_name(namespace):
    page = (DOCS / "reference" / "index.rst").read_text()
    module = "dfi" if namespace is None else f"dfi.{namespace}"
    parts = re.split(r"^\.\. (?:current)?module:: ([\w.]+)$", page, flags=re.MULTILINE)
    listed = {
        name
        for home, text in zip(parts[1::2], parts[2::2], strict=True)
        if home == module
        for name in re.findall(r"^   (\w+)$", text, re.MULTILINE)
    }
    assert listed == set(public(namespace))


def test_every_warning_has_its_advice():
    page = (DOCS / "howto" / "warnings.md").read_text()
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == set(WARNINGS)
    assert set(re.findall(r"^\| \[(\w+)\]\(#\w+\)", page, re.MULTILINE)) == set(WARNINGS)


def test_a_site_with_broken_links_or_remote_scripts_is_noticed(tmp_path):
    spec = importlib.util.spec_from_file_location("check_site", DOCS / "check_site.py")
    check_site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check_site)
    (tmp_path / "index.html").write_text(
        '<a href="other.html#there">x</a><a href="https://example.org">x</a>'
        '<a href="#top" id="top">x</a>'
    )
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1>')
    (tmp_path / "style.css").write_text("p { color: red }")
    assert check_site.problems(tmp_path) == []
    (tmp_path / "index.html").write_text(
        '<a href="gone.html">x</a><a href="other.html#nowhere">x</a>'
        '<script src="https://cdn.example.org/x.js"></script><img src="//example.org/x.png">'
        '<link rel="stylesheet" href="https://fonts.example.org/css">'
    )
    (tmp_path / "style.css").write_text("@import 'https://fonts.example.org/css';")
    assert check_site.problems(tmp_path) == [
        "index.html loads https://cdn.example.org/x.js",
        "index.html loads //example.org/x.png",
        "index.html loads https://fonts.example.org/css",
        "index.html links to gone.html, which is not there",
        "index.html links to other.html#nowhere, and there is no such place in that page",
        "style.css loads something from afar",
    ]
