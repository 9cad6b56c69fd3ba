"""Scores, standard errors and p-values of many calls are the ones that were written down.

A change of the code that is not about numbers changes none. ``golden.json`` is read by people in
a review: full digits, one list a line. Two classes of tolerance (docs/reproducibility.md), relative
to the largest number of a list: "exact", closed forms and trees, 1e-10 on any processor;
"iterative", searches that stop at a tolerance, 5e-3.

``DFI_GOLDEN=exact`` asks for the same bits. They hold on one machine, with one set of versions: on
another than the one that wrote the file, write it again before a refactoring starts, compare while
it goes on, and take the committed file back at its end::

    python -m tests.golden.test_golden
    DFI_GOLDEN=exact python -m pytest tests/golden
    git checkout tests/golden/golden.json

A change of numbers that is meant writes the file with the first of these lines (with names of calls
behind it only those are written), and says in the commit message why they changed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.golden.calls import CALLS, run

FILE = Path(__file__).with_name("golden.json")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "lightgbm", "numba", "pyvinecopulib")
"""Their learners, draws and roundings are in the numbers."""

NUMBERS = ("scores", "se", "latent_scores", "latent_se", "p")
TOLERANCE = {
    "exact": dict.fromkeys(NUMBERS, 1e-10),
    # as documented: standard errors move by 0.8 %, scores by 0.03 of them
    "iterative": {"scores": 5e-3, "se": 1e-2, "latent_scores": 5e-3, "latent_se": 1e-2, "p": 0.02},
}


def versions():
    """Return the installed versions of what computes, without patches."""
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = ".".join(importlib.metadata.version(library).split(".")[:2])
        except importlib.metadata.PackageNotFoundError:
            found[library] = None
    return found


def listed(values):
    """Return numbers as JSON knows them; it has none that is missing."""
    return [None if np.isnan(value) else float(value) for value in np.asarray(values, dtype=float)]


def numbers(result):
    """Return what is frozen of one result."""
    found = {
        "names": list(result.names),
        "scores": listed(result.scores),
        "se": listed(result.se),
    }
    if result.latent is not None:
        found["latent_scores"] = listed(result.latent.scores)
        found["latent_se"] = listed(result.latent.se)
    return {**found, "p": listed(result.test()["p"])}


def computed(name):
    # the Sinkhorn iterations round differently with other numbers of threads
    with threadpool_limits(limits=1):
        return {key: numbers(result) for key, result in run(name).items()}


def difference(now, frozen, tolerance):
    """Return a line for every list that is not the frozen one; none, where all are."""
    if list(now) != list(frozen):
        return [f"results {list(now)}, frozen {list(frozen)}"]
    lines = []
    for key in now:
        if now[key].keys() != frozen[key].keys() or now[key]["names"] != frozen[key]["names"]:
            lines.append(f"{key}: {now[key]}, frozen {frozen[key]}")
            continue
        for field in (name for name in NUMBERS if name in now[key]):
            if now[key][field] == frozen[key][field]:
                continue
            here, there = (np.array(side[key][field], dtype=float) for side in (now, frozen))
            scale = 1.0 if field == "p" else np.nanmax(np.abs(there))
            missing = (np.isnan(here) != np.isnan(there)).any()
            away = np.nanmax(np.abs(here - there))
            bound = 0.0 if tolerance is None else tolerance[field] * scale
            if missing or away > bound:
                lines.append(
                    f"{key}, {field}: {away:.3g} away, {bound:.3g} allowed\n"
                    f"  now    {now[key][field]}\n  frozen {frozen[key][field]}"
                )
    return lines


def text(calls, recorded):
    """Return the file: one list a line."""

    def block(mapping, indent, render):
        inner = ",\n".join(f"{indent}  {json.dumps(k)}: {render(v)}" for k, v in mapping.items())
        return f"{{\n{inner}\n{indent}}}"

    def fields(result):
        return block(result, "      ", json.dumps)

    def results(by_key):
        return block(by_key, "    ", fields)

    parts = {"versions": json.dumps(recorded), "calls": block(calls, "  ", results)}
    return block(parts, "", str) + "\n"


@pytest.fixture(scope="module")
def golden():
    return json.loads(FILE.read_text(encoding="utf-8"))


LONG = ("draws, bridge", "bridge, boosting", "sensitivity to solved epsilon")
"""Calls of which others share every line that another does not have a test of its own for."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full) if name in LONG else name for name in CALLS],
)
def test_numbers_are_the_frozen_ones(name, golden):
    call = CALLS[name]
    if call.needs is not None:
        pytest.importorskip(call.needs)
    exact = os.environ.get("DFI_GOLDEN") == "exact"
    tolerance = None if exact else TOLERANCE[call.tolerance]
    lines = difference(computed(name), golden["calls"][name], tolerance)
    here = versions()
    others = [
        f"{library} {there}, not {here[library]}"
        for library, there in golden["versions"].items()
        if there != here[library]
    ]
    if lines and others and not exact:
        pytest.skip(f"differs, but was written with {', '.join(others)}: write it again")
    assert not lines, "\n".join([f"{name!r} changed its numbers", *lines])


def test_every_call_is_in_the_file_and_no_other(golden):
    assert list(golden["calls"]) == list(CALLS)


def test_a_call_that_is_not_exact_says_why():
    assert all((call.tolerance == "iterative") == bool(call.reason) for call in CALLS.values())


def write(names):
    """Write the numbers of some calls again, of all where none is named."""
    old = json.loads(FILE.read_text(encoding="utf-8"))["calls"] if names else {}
    calls = {name: computed(name) if name in (names or CALLS) else old[name] for name in CALLS}
    FILE.write_text(text(calls, versions()), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
