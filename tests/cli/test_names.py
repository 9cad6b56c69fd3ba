"""Files of odd names: the one that is named is read, whatever its letters mean elsewhere."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dfi
from dfi._data import source
from dfi._streams.files import Files, find_files
from dfi.cli import reading

MEANT, OTHER = 30, 40
"""Rows of the file that is named, and of all that a pattern of its name would match."""

NAMES = {
    "d[1]": ["d1"],
    "[!x]": ["a", "b"],
    "what?": ["whats"],
    "a*": ["ab", "a"],
    "**": ["a"],
    "{a,b}": ["a", "b"],
    "~": [],
    "~root": ["root"],
    "$HOME": ["HOME"],
    "a b": ["a", "b"],
    "line\nbreak": ["line"],
    "-q": ["q"],
    "--out": [],
    "a%20b": ["a b"],
    "year=2020": [],
    "file:": [],
    "#1": [],
    "é": ["e"],
}


def rows(n):
    a, b, c = np.random.default_rng(n).standard_normal((3, n))
    return pl.DataFrame({"a": a, "b": a + b, "y": a + c})


def write(frame, path):
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as stream:
        (frame.write_csv if path.suffix == ".csv" else frame.write_parquet)(stream)


class Seen(Exception):
    """What a computation was asked: nothing is computed here."""


@pytest.fixture
def seen(run, monkeypatch):
    """Run a command and return the number of rows of each table that it explains."""
    found = []

    def look(*_, X, **__):
        found.append(X.lazy().collect().height)
        if len(found) < wanted:
            return
        raise Seen

    wanted = 1

    def run_command(command, *arguments, tables=1):
        nonlocal wanted
        wanted = tables
        found.clear()
        done = run(command, "-y", "y", "-m", "linear", "--", *arguments)
        assert isinstance(done.exception, SystemExit), done.exception
        assert "Seen" in done.stderr, done.output
        return list(found)

    for name in ("explain", "compare", "sensitivity"):
        monkeypatch.setattr(dfi, name, look)
    monkeypatch.setattr("dfi.cli.app.Run.named", lambda _, result: result)
    return run_command


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_exists_is_that_file(name, ending, seen, place):
    for other in NAMES[name]:
        write(rows(OTHER), place / f"{other}{ending}")
    write(rows(MEANT), place / f"{name}{ending}")
    assert seen("explain", f"{name}{ending}") == [MEANT]
    assert [batch.shape[0] for _, batch in Files.open(f"{name}{ending}").frames(["a"])] == [MEANT]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_every_command_reads_the_file_that_is_named(ending, seen, run, place):
    name, other = f"d[1]{ending}", f"d1{ending}"
    write(rows(OTHER), place / other)
    write(rows(MEANT), place / name)
    assert seen("compare", name) == seen("sensitivity", name) == [MEANT]
    assert seen("change", name, other, tables=2) == [MEANT, OTHER]
    done = run("doctor", name, "-y", "y", "-m", "linear")
    assert f"{MEANT} rows" in done.output
    assert f"{OTHER} rows" not in done.output


@pytest.mark.parametrize("name", NAMES)
def test_large_files_and_folders_of_odd_names(name, seen, place, monkeypatch):
    monkeypatch.setattr(reading, "STREAMED_BYTES", 0)
    monkeypatch.setattr(source, "LARGE_ROWS", 0)
    for other in NAMES[name]:
        write(rows(OTHER), place / f"{other}.parquet")
        write(rows(OTHER), place / other / "part.parquet")
    write(rows(MEANT), place / f"{name}.parquet")
    assert seen("explain", f"{name}.parquet") == [MEANT]
    write(rows(MEANT), place / name / "part[0].parquet")
    write(rows(MEANT), place / name / "part0.parquet")
    assert seen("explain", name) == [2 * MEANT]
    assert seen("explain", f"{name}/*.parquet") == [2 * MEANT]
    assert seen("explain", f"{name}/part[0].parquet") == [MEANT]
    folder = {Path(name) / "part[0].parquet", Path(name) / "part0.parquet"}
    assert set(find_files(name)) == set(find_files(f"{name}/*.parquet")) == folder


def test_a_pattern_is_one_where_no_file_has_that_name(seen, run, place):
    write(rows(MEANT), place / "d1.parquet")
    assert seen("explain", "d[1].parquet") == [MEANT]
    # a link that leads nowhere is a name, and not that of another file
    os.symlink("nowhere.parquet", place / "d[1].parquet")
    done = run("explain", "d[1].parquet", "-y", "y")
    assert done.exit_code == 3
    assert "there is no file d[1].parquet" in done.stderr


def test_outputs_are_named_after_the_file(run, place):
    write(rows(MEANT), place / "d1.csv")
    write(rows(MEANT), place / "d[1].csv")
    for name in ("d[1]", "d1"):
        done = run("explain", f"{name}.csv", "-y", "y", "-m", "linear", "-q")
        assert done.stdout.strip() == f"dfi-{name}/report.html"


def test_a_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(rows(MEANT), tmp_path / "a.parquet")
    assert find_files("~/a.parquet") == find_files("~/*.parquet") == (tmp_path / "a.parquet",)


def test_a_file_by_a_hard_link(tmp_path):
    write(rows(MEANT), tmp_path / "a.parquet")
    os.link(tmp_path / "a.parquet", tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet twice, also as .*a\.parquet"):
        find_files(tmp_path)


def test_hidden_files_are_no_part_of_a_folder(tmp_path):
    for name in ("a", ".a", ".checkpoints/a", "deep/a", "deep/.out.0123.tmp/a"):
        path = tmp_path / ".rows" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(rows(MEANT), path)
    found = {str(file.relative_to(tmp_path / ".rows")) for file in find_files(tmp_path / ".rows")}
    assert found == {"a.parquet", "deep/a.parquet"}


BYTES = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("explain", f"{BYTES}.csv", "-y", "y"), 3),
        (("compare", f"{BYTES}.csv", "-y", "y"), 3),
        (("sensitivity", f"{BYTES}.csv", "-y", "y"), 3),
        (("change", "a.csv", f"{BYTES}.csv", "-y", "y"), 3),
        (("doctor", f"{BYTES}.csv", "-y", "y"), 3),
        (("explain", "a.csv", "-y", "y", "--groups", f"{BYTES}.csv"), 3),
        (("explain", "a.csv", "-y", "y", "--out", BYTES), 5),
        (("explain", "a.csv", "-y", BYTES), 3),
        (("report", f"{BYTES}.dfi"), 3),
        (("report", "a.dfi", "--out", f"{BYTES}.html"), 5),
        (("show", f"{BYTES}.dfi"), 3),
        (("demo", "--out", BYTES), 5),
    ],
)
def test_names_that_are_not_utf8_are_refused_before_any_work(arguments, code, run, place):
    done = run(*arguments)
    assert done.exit_code == code
    assert "caf\\udce9" in done.stderr
    assert "is not UTF-8: rename it" in done.stderr
    assert list(place.iterdir()) == []


def test_files_of_a_folder_that_are_not_utf8(run, place):
    write(rows(MEANT), place / "rows" / f"{BYTES}.parquet")
    with pytest.raises(ValueError, match="is not UTF-8: rename it"):
        dfi.explain("rows", "y", "linear")
    done = run("explain", "rows", "-y", "y")
    assert done.exit_code == 3
    assert "is not UTF-8: rename it" in done.stderr
