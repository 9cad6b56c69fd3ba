"""What fuzzing found stays found, and some changes of every kind run each time."""

from pathlib import Path

import pytest

from .targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
FOUND = sorted(path for path in CORPUS.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", FOUND, ids=[str(path.relative_to(CORPUS)) for path in FOUND])
def test_what_was_found_is_refused_or_read(path):
    function, _, _ = TARGETS[path.parent.name]
    assert function(path.read_bytes()) in ("refused", "read")


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "frames"])
def test_some_changes_of_every_kind(name):
    function, seeds, change = TARGETS[name]
    originals = seeds()
    assert {function(content) for content in originals} == {"read"}
    found = [function(change(originals[k % len(originals)], k)) for k in range(10)]
    assert set(found) <= {"refused", "read"}


def test_some_frames():
    function, _, change = TARGETS["frames"]
    assert {function(change(b"", k)) for k in range(6)} <= {"refused", "read", "no table"}
