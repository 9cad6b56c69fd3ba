"""What fuzzing found stays found, and some changes of every kind run each time."""

from pathlib import Path

import pytest

from .generated import LIBRARIES, explained
from .targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
FOUND = sorted(path for path in CORPUS.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", FOUND, ids=[str(path.relative_to(CORPUS)) for path in FOUND])
def test_what_was_found_is_refused_or_read(path):
    function, _, _ = TARGETS[path.parent.name]
    assert function(path.read_bytes()) in ("refused", "read")


@pytest.mark.parametrize("name", TARGETS)
def test_some_changes_of_every_kind(name):
    function, seeds, change = TARGETS[name]
    originals = seeds()
    assert {function(content) for content in originals} == {"read"}
    found = [function(change(originals[k % len(originals)], k)) for k in range(10)]
    assert set(found) <= {"refused", "read"}


NUMBERS = [-1.5, 0.25, 3.0, 2.0, -0.5, 1.0, 4.5] * 4
LEVELS = ["u", "v", "w", "v"] * 7


def test_some_frames():
    """Those that hypothesis makes up are for `make fuzz`: they differ from version to version."""
    for library in LIBRARIES:
        columns = [("a", NUMBERS), ("\u202e", NUMBERS[::-1])]
        assert explained((columns, NUMBERS[3:] + NUMBERS[:3], None, library)) == "read"
        columns = [("a", [None] * 28), ("", LEVELS)]
        assert explained((columns, LEVELS, NUMBERS, library)) in ("refused", "no table")
