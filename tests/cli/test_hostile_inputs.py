"""Tables that were made to do harm, and names that steer terminals, spreadsheets and pages."""

import gzip
import json
import os
import subprocess
import sys

import polars as pl
import pytest

import dfi
from dfi.cli import reading
from dfi.cli.console import Failure, sentence
from dfi.cli.outputs import plain_cell, write_tables
from dfi.cli.reading import read_file

ESCAPE = "\x1b]0;\x9b2J"
TURNED = "a\u202egnp.exe\u2066"


class PanicException(BaseException):
    """What pyo3 raises: no Exception."""


def one_sentence(done, code, text):
    assert done.exit_code == code
    assert text in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_a_small_gzip_file_cannot_fill_the_memory(run, place):
    (place / "zeros.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"0,0\n" * 6_000_000))
    done = run("explain", "zeros.csv.gz", "-y", "y")
    one_sentence(done, 3, "unpacks to more than 17,")
    assert "--max-unpacked" in done.stderr
    done = run("explain", "zeros.csv.gz", "-y", "y", "--max-unpacked", "1")
    one_sentence(done, 3, "unpacks to more than 1,000,000")
    assert read_file("zeros.csv.gz", max_unpacked=25).height == 6_000_000


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes of that kind")
def test_pipes_and_devices_are_refused_unopened(run, place):
    os.mkfifo(place / "pipe.csv")
    for path in ("pipe.csv", "/dev/zero"):
        one_sentence(run("explain", path, "-y", "y"), 3, "is a pipe or a device, not a file")
    (place / "data.csv").write_text("a,y\n1,2\n")
    os.mkfifo(place / "groups.json")
    done = run("explain", "data.csv", "-y", "y", "--groups", "groups.json")
    one_sentence(done, 3, "is a pipe or a device, not a file")


def test_groups_deeper_than_python_counts(run, place):
    (place / "data.csv").write_text("a,y\n1,2\n")
    (place / "groups.json").write_text("[" * 100_000)
    done = run("explain", "data.csv", "-y", "y", "--groups", "groups.json")
    one_sentence(done, 3, "groups.json is not JSON")


def test_a_reader_in_rust_that_gives_up(run, place, monkeypatch, capfd):
    (place / "data.arrow").write_bytes(b"ARROW1 and nothing more")

    def panic(*_):
        os.write(
            2, b"thread '<unnamed>' panicked at src/lib.rs:1:\nnote: run with RUST_BACKTRACE=1"
        )
        raise PanicException("range end index 8 out of range for slice of length 4")

    monkeypatch.setitem(reading._READERS, "arrow", panic)
    one_sentence(run("explain", "data.arrow", "-y", "y"), 3, "data.arrow cannot be read as Arrow")
    assert "panicked" not in capfd.readouterr().err


def test_a_library_in_rust_that_gives_up_elsewhere(run, place, monkeypatch):
    (place / "data.csv").write_text("a,y\n1,2\n2,3\n")

    def panic(*_, **__):
        raise PanicException("internal error: entered unreachable code")

    monkeypatch.setattr(dfi, "explain", panic)
    done = run("explain", "data.csv", "-y", "y", "-q")
    one_sentence(done, 4, "gave up on this one: internal error")


def test_interruptions_are_not_taken_for_damage(run, place, monkeypatch):
    (place / "data.csv").write_text("a,y\n1,2\n")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setitem(reading._READERS, "csv", interrupt)
    assert run("explain", "data.csv", "-y", "y").exit_code == 130


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("=cmd|'/c calc'!A0", "'=cmd|'/c calc'!A0"),
        ("@SUM(1+1)", "'@SUM(1+1)"),
        ("+1", "'+1"),
        ("-log10 p", "'-log10 p"),
        ("\t=1+1", "'\t=1+1"),
        ("  =1", "'  =1"),
        ("＝1+1", "'＝1+1"),
        ("a=b", "a=b"),
        ("größe", "größe"),
        (TURNED, "a\ufffdgnp.exe\ufffd"),
        (ESCAPE, "\ufffd]0;\ufffd2J"),
    ],
)
def test_cells_that_a_spreadsheet_would_run(name, shown):
    assert plain_cell(name) == shown


def test_tables_for_people_are_neutral_and_those_for_programs_true(tmp_path):
    table = pl.DataFrame({"feature": ["=1+1", "b"], "@score": [-1.5, 2.0]})
    write_tables(table, tmp_path, "importance")
    assert (tmp_path / "importance.csv").read_text() == "feature,'@score\n'=1+1,-1.5\nb,2.0\n"
    assert pl.read_parquet(tmp_path / "importance.parquet").equals(table)


def test_names_of_files_do_not_steer_the_terminal(run, place):
    name = f"{ESCAPE}{TURNED}.csv"
    (place / name).write_text("a,y\n")
    for done in (run("explain", name, "-y", "y"), run("explain", f"no{name}", "-y", "y")):
        assert done.exit_code == 3
        for steering in ("\x1b", "\x9b", "\u202e", "\u2066"):
            assert steering not in done.stderr
    done = run("explain", f"no{name}", "-y", "y", "--json")
    for steering in ("\x1b", "\x9b", "\u202e", "\u2066"):
        assert steering not in done.stdout
    assert name in json.loads(done.stdout)["error"]


def test_what_was_complete_when_it_was_interrupted(tmp_path):
    assert sentence(KeyboardInterrupt()) == "interrupted: nothing was written"
    told = sentence(KeyboardInterrupt(), [tmp_path])
    assert told == f"interrupted, but {tmp_path} was already complete"


def test_a_full_disk_without_a_name_is_given_one(tmp_path):
    from dfi._files import folder_filled, written_whole

    full = OSError(28, "No space left on device")
    with pytest.raises(OSError, match=r"out\.html") as caught, written_whole(tmp_path / "out.html"):
        raise full
    assert caught.value.filename == str(tmp_path / "out.html")
    with pytest.raises(OSError, match="No space") as caught, folder_filled(tmp_path / "out"):
        raise full
    assert caught.value.filename == str(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import os, signal, sys
os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))
for _ in range(10**9):  # the handler runs here
    pass
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("library", ["typer", "polars"])
def test_signals_while_libraries_are_imported(place, library, name, code):
    (place / f"{library}.py").write_text(INTERRUPTED)
    (place / "data.csv").write_text("a,y\n1,2\n")
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    paths = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", f"{start}from dfi.cli import main; main()", "explain", "data.csv",
         "-y", "y"],
        env={**os.environ, "PYTHONPATH": paths, "SIGNAL": name},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code
    how = {"SIGINT": "interrupted", "SIGTERM": "terminated"}[name]
    assert done.stderr.splitlines()[-1] == f"dfi: {how}: nothing was written"
    assert "Traceback" not in done.stderr


def test_an_ascii_terminal_is_no_reason_to_fail(place):
    (place / "data.csv").write_text("größe,y\n" + "".join(f"{k % 7},{k}\n" for k in range(60)))
    done = subprocess.run(
        [sys.executable, "-m", "dfi.cli", "explain", "data.csv", "-y", "y", "-m", "linear"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert rb"gr\xf6\xdfe" in done.stdout


def test_failures_keep_their_own_sentence(run, place):
    (place / "empty.csv").write_text("")
    with pytest.raises(Failure, match="is empty"):
        read_file("empty.csv")
