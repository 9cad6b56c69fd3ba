"""docs/dependencies.md lists what dfi needs, and under which licences.

``python tests/docs/test_dependencies.py`` writes it again.

Nothing here asks the network: licences are those of the packages that are installed.
"""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "dependencies.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOR_USERS = ("cli", "vine", "dask")
PERMISSIVE = re.compile(
    r"MIT|BSD|Apache|PSF|Python Software Foundation|ISC|Zlib|MPL-2\.0|Mozilla|HPND|Unlicense"
)
# Where the metadata say nothing that is a name, what the licence file of the package says.
TOLD = {"matplotlib": "PSF-2.0-like (Matplotlib)", "contourpy": "BSD-3-Clause"}

HEAD = """# Dependencies

What `pip install .` and its extras bring, with the oldest version that is tested
(`make test-oldest`) and the licence that the package itself states. dfi is under the
[MIT licence](../LICENSE). This page is written by `python tests/docs/test_dependencies.py`, and a
test compares it with `pyproject.toml` and with what is installed.
"""
TAIL = (
    "The extra `spark` brings `pyspark>=4.0` (Apache-2.0), which `make test-spark` installs in an "
    "environment of its own.\n\n"
    "To check the installed packages for known vulnerabilities (this needs a network): "
    "`pip install pip-audit`, then `pip-audit`."
)


def plain(name):
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", name)[0]).lower()


def declared():
    """Return the requirements of users: of all, and of each extra."""
    extras = PROJECT["optional-dependencies"]
    return {"": PROJECT["dependencies"], **{name: extras[name] for name in FOR_USERS}}


def licence(name):
    """Return the licence of an installed package in a few words; None if it is not there."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if name in TOLD:
        return TOLD[name]
    told = about.get("License-Expression") or ""
    classifiers = [
        entry.split(" :: ")[-1]
        for entry in about.get_all("Classifier", [])
        if entry.startswith("License ::") and not entry.endswith("OSI Approved")
    ]
    short = (about.get("License") or "").strip().splitlines()
    return told or ", ".join(classifiers) or (short[0][:60] if short else "not told")


def behind(names):
    """Return what the named packages need in turn, as far as it is installed here."""
    found, todo = set(), [plain(name) for name in names]
    while todo:
        name = todo.pop()
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for need in needs:
            if ";" in need and "extra ==" in need:
                continue
            other = plain(need)
            if other not in found and licence(other) is not None:
                found.add(other)
                todo.append(other)
    return found - {plain(name) for name in names}


def written():
    """Return the page."""
    lines = [HEAD]
    titles = {"": "Always", "cli": "`cli`", "vine": "`vine`", "dask": "`dask`"}
    for extra, needs in declared().items():
        lines += [
            f"## {titles[extra]}",
            "",
            "| package | from version | licence |",
            "|---|---|---|",
        ]
        for need in needs:
            low = re.search(r">=\s*([\w.]+)", need)
            lines.append(f"| {plain(need)} | {low[1] if low else 'any'} | {licence(plain(need))} |")
        lines.append("")
    everything = [need for needs in declared().values() for need in needs]
    lines += ["## Behind them", "", "What these packages need in turn:", ""]
    lines += ["| package | licence |", "|---|---|"]
    lines += [f"| {name} | {licence(name)} |" for name in sorted(behind(everything))]
    lines += ["", TAIL, ""]
    return "\n".join(lines)


def rows():
    cells = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if "|" in line]
    return {
        cell[0]: cell[1:] for cell in cells if cell[0] not in ("package",) and "---" not in cell[0]
    }


def test_every_requirement_is_listed_with_its_oldest_version():
    listed = rows()
    for needs in declared().values():
        for need in needs:
            low = re.search(r">=\s*([\w.]+)", need)
            assert listed[plain(need)][0] == (low[1] if low else "any")


def test_licences_are_those_of_what_is_installed():
    for name, cells in rows().items():
        found = licence(name)
        if found is None:
            continue  # a package of another system, or an extra that is not here
        # wordings change from one version to the next, the family must not
        families = [set(PERMISSIVE.findall(text)) for text in (cells[-1], found)]
        assert families[0], f"{name}: {cells[-1]}"
        assert families[1], f"{name}: {found}"


@pytest.mark.parametrize("folder", ["README.md", "docs", "src", "SECURITY.md", "CONTRIBUTING.md"])
def test_nobody_is_told_to_install_a_name_that_is_not_ours(folder):
    """Until the name is registered, whoever registers it would run code on readers' machines."""
    place = ROOT / folder
    files = (
        [place] if place.is_file() else [p for p in place.rglob("*") if p.suffix in (".md", ".py")]
    )
    for path in files:
        found = re.search(
            r"pip3? install (-\S+ )*[\"']?dfi\b(?!/)", path.read_text(encoding="utf-8")
        )
        assert found is None, f"{path}: {found and found[0]}"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
