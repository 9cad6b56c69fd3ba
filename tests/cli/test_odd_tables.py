"""Odd tables of the command line: the right answer, or one sentence and its exit code."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest

from dfi.cli.reading import read_file

N = 60
RNG = np.random.default_rng(0)
A = RNG.standard_normal((N, 3))
Y = 2 * A[:, 0] + A[:, 2] + 0.5 * RNG.standard_normal(N)
CELLS = [[f"{value:.4f}" for value in (*A[row], Y[row])] for row in range(N)]
OPTIONS = ("--model", "linear", "--folds", "2", "-o", "out")


def lines(rows=CELLS, names=("a", "b", "c", "y"), separator=",", end="\n"):
    return end.join(separator.join(row) for row in (names, *rows)) + end


def with_cell(text, column=2, row=3):
    return lines([[*r[:column], text, *r[column + 1 :]] if k == row else r
                  for k, r in enumerate(CELLS)])  # fmt: skip


def with_cells(texts, column=2):
    """Texts in the first rows of a column."""
    rows = zip(CELLS, texts, strict=False)
    first = [[*row[:column], text, *row[column + 1 :]] for row, text in rows]
    return lines([*first, *CELLS[len(texts) :]])


def with_column(make, name="k"):
    return lines([[*row, make(k)] for k, row in enumerate(CELLS)], ("a", "b", "c", "y", name))


def as_json(change=lambda _row, record: record):
    records = (dict(zip("abcy", map(float, row), strict=True)) for row in CELLS)
    return "\n".join(json.dumps(change(k, record)) for k, record in enumerate(records))


@pytest.fixture
def scores(run, place):
    """Run a command on a file, and return the scores by feature."""

    def explain(content, *arguments, name="data.csv"):
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        done = run("explain", name, "-y", "y", *OPTIONS, "--force", *arguments)
        assert done.exit_code == 0, done.stderr
        with (place / "out" / "importance.csv").open() as stream:
            return {row["feature"]: float(row["score"]) for row in csv.DictReader(stream)}

    return explain


SAME = {
    "carriage returns": (lines(end="\r"), "data.csv"),
    "quotes": (lines([[f'"{cell}"' for cell in row] for row in CELLS]), "data.csv"),
    "blanks": (lines([[f" {cell} " for cell in row] for row in CELLS]), "data.csv"),
    "strings of JSON": (as_json(lambda _, r: {k: str(v) for k, v in r.items()}), "data.jsonl"),
    "other minus signs": (
        lines([[cell.replace("-", "\u2212") for cell in row] for row in CELLS]),
        "data.csv",
    ),
    "a name of old": (as_json(), "data.json"),
}


@pytest.mark.parametrize("name", SAME)
def test_numbers_in_other_dress_are_the_same_numbers(name, scores):
    expected = scores(lines())
    found = scores(SAME[name][0], name=SAME[name][1])
    assert found == pytest.approx(expected, rel=1e-9)


def test_marks_of_missing_values(scores):
    marks = ("nan", "NaN", "None", "#N/A", "?", "-", ".", " NA ", "n/a")
    expected = scores(with_cells([""] * len(marks)))
    assert scores(with_cells(marks)) == pytest.approx(expected, rel=1e-9)
    own = with_cells(["oops", "-99"] + ["zip"] * (len(marks) - 2))
    assert scores(own, "--na-values", "oops,zip,-99") == pytest.approx(expected, rel=1e-9)


def test_words_that_are_levels_stay_levels(scores):
    words = scores(with_column(lambda row: ["none", "mild", "bad"][row % 3]))
    other = scores(with_column(lambda row: ["nihil", "mild", "bad"][row % 3]))
    assert words == pytest.approx(other, rel=1e-9)
    signs = scores(with_column(lambda row: "+-"[row % 2]))
    assert signs == pytest.approx(scores(with_column(lambda row: "ab"[row % 2])), rel=1e-9)
    digits = scores(with_column(lambda row: str(row % 3)), "--categorical", "k")
    assert digits == pytest.approx(scores(with_column(lambda row: "xyz"[row % 3])), rel=1e-9)


ODD = {
    "a word": (with_cell("x"), (), 4, "'c' is text, but 59 of its 60 values are numbers and 'x' is "
               "not: call 'x' missing with --na-values"),
    "per cent": (with_cell("17 %"), (), 4, "numbers with marks ('17 %'): read them with --numbers"),
    "a decimal comma": (with_cell('"1,5"'), (), 4, "decimal comma ('1,5')"),
    "hexadecimal": (with_cell("0x11"), (), 4, "hexadecimal number ('0x11')"),
    "a long word": (with_cell("x" * 999), (), 4, f"and '{'x' * 37}...' is not"),
    "a word as target": (with_cell("x", 3), (), 4, "the target is text, but 59 of its 60"),
    "months": (with_column(lambda row: ["Jan", "Feb", "Mar", "Apr"][row % 4]), ("--time", "k"), 4,
               "--time: column 'k' is not a column of numbers or dates (for instance 'Jan')"),
    "other dates": (with_column(lambda row: f"{1 + row % 12}/31/2020"), ("--time", "k"), 4,
                    "text has no order in time: write dates as 2024-01-31"),
    "one time": (with_column(lambda _: "1"), ("--time", "k"), 4, "'k' has one value only"),
    "time of the target": (lines(), ("--time", "y"), 4, "--time names the target 'y'"),
    "labels of the target": (lines(), ("--clusters", "y"), 4, "--clusters names the target"),
    "weights of the target": (lines(), ("--weights", "y"), 4, "--weights names the target 'y'"),
    "weights of text": (with_column(lambda row: "1" if row else "x"), ("--weights", "k"), 4,
                        "--weights: column 'k' is not a column of numbers (for instance 'x')"),
    "large numbers": (with_column(lambda row: str(2**60 + row)), (), 4, "beyond 2**53"),
    "no such category": (lines(), ("--categorical", "zz"), 4, "there is no column 'zz'"),
    "a long header": (lines(names=("a" * 200_000, "b", "c", "y")), (), 3, "line 2 cannot be read"),
    "no text": (with_cell("1\x002"), (), 3, "is not text (line 5 has NUL bytes)"),
    "a day that is none": (
        with_column(lambda row: f"2024-01-{1 + row % 28:02d}" if row else "2024-02-30"),
        ("--dates", "days"), 4, "59 of its 60 values are dates and '2024-02-30' is not: call "
        "'2024-02-30' missing with --na-values"),
    "dates in two ways": (
        with_column(lambda row: ("2024-12-13", "14.12.2024", "2024-12-15")[row % 3]),
        (), 4, "different formats, such as '2024-12-13': write all of them like 2024-01-31, "
        "leave it out with --drop"),
    "days of them": (
        with_column(lambda row: ("2024-12-13", "14.12.2024", "2024-12-15")[row % 3]),
        ("--dates", "days"), 4, "'k' has dates in different formats, such as"),
    "some thousands": (with_column(lambda row: f'"{1500 + row:,}"' if row else "1500"), (), 4,
                       "with --numbers marked, decimal commas with --decimal ','"),
    "other separators": (lines(separator=" ", names=("a", "b", "c", "y")), (), 4,
                         "the only column is 'a b c y': separate fields by commas, semicolons"),
    "blanks in names": (lines(names=("a", "b", "c", " y ")), (), 4, "did you mean ' y '?"),
    "a quote left open": (with_cell('"1.5'), (), 3, "lines 5 to 61 are one row in quotes, with 3 "
                          "fields where the header has 4: close the quote that opens in line 5"),
    "a spreadsheet": ("PK\x03\x04" + lines(), (), 3, "is a zip archive, as spreadsheets (.xlsx)"),
    "no class of a quantity": (lines(), ("--pos-label", "yes"), 4, "--pos-label yes names the"),
    "a category for a target": (lines(), ("--categorical", "y"), 4, "write it as numbers, or pass "
                                "--task classification"),
    "many rows": (lines(), ("--rows", "999"), 4, "--rows 999 is more than the 500 that a page "
                  "holds: ask for fewer"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_refused_in_one_sentence(name, run, place):
    content, arguments, code, message = ODD[name]
    (place / "data.csv").write_text(content, encoding="utf-8", newline="")
    done = run("explain", "data.csv", "-y", "y", *OPTIONS, *arguments)
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr
    assert not (place / "out").exists()


JSON = {
    "an array": (f"[{as_json()[:60]}", "is a JSON array: write one object per line"),
    "NaN": (as_json(lambda k, r: {**r, "c": float("nan")} if k == 3 else r),
            "line 4 is not JSON lines, one object per line: NaN is not JSON: write null"),
    "a half line": (as_json() + '\n{"a": 1,', "line 61 is not JSON lines"),
    "a number": (as_json() + "\n3", "one object per line: it is not an object"),
    "a name twice": (as_json().replace('"b"', '"a"'), "the column name 'a' appears more than once"),
}  # fmt: skip


@pytest.mark.parametrize("name", JSON)
def test_json_that_is_no_table(name, run, place):
    content, message = JSON[name]
    (place / "data.jsonl").write_text(content)
    done = run("explain", "data.jsonl", "-y", "y", *OPTIONS)
    assert (done.exit_code, message in done.stderr) == (3, True), done.stderr


def test_leading_zeros_are_pointed_at(run, place):
    (place / "data.csv").write_text(with_column(lambda row: f"{row % 3:05d}", "zip"))
    done = run("explain", "data.csv", "-y", "y", *OPTIONS)
    assert "column 'zip' has leading zeros ('00000'), as codes have" in " ".join(
        done.stderr.split()
    )
    done = run("explain", "data.csv", "-y", "y", *OPTIONS, "--force", "--categorical", "zip")
    assert (done.exit_code, "leading zeros" in done.stderr) == (0, False)


def test_what_is_said_while_reading_reaches_standard_error(tmp_path, monkeypatch):
    """Readers in Rust are kept from writing there; warnings of ours must come after."""
    path, muted = tmp_path / "data.csv", []
    path.write_text(with_column(lambda row: f"{row % 3:05d}", "zip"))
    nowhere = os.stat(os.devnull)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(
            warnings, "showwarning", lambda *_: muted.append(os.path.samestat(os.fstat(2), nowhere))
        )
        read_file(str(path))
    assert muted == [False]


def test_an_output_without_a_name(run, place):
    (place / "data.csv").write_text(lines())
    done = run("explain", "data.csv", "-y", "y", "--out", "")
    assert (done.exit_code, "it is empty; name a folder" in done.stderr) == (2, True), done.stderr


def test_groups_that_are_written_otherwise(run, place):
    (place / "data.csv").write_text(lines())
    (place / "groups.csv").write_text("group,feature\nfirst,a\nfirst,b\n")
    done = run("explain", "data.csv", "-y", "y", *OPTIONS, "--groups", "groups.csv")
    assert done.exit_code == 0, done.stderr
    (place / "groups.json").write_text('{"first": ["a"], "first": ["b"]}')
    done = run("explain", "data.csv", "-y", "y", *OPTIONS, "--force", "--groups", "groups.json")
    assert (done.exit_code, "has the group 'first' twice" in done.stderr) == (3, True), done.stderr


def test_one_standard_input_for_two_tables(run, place):
    done = run("change", "-", "-", "-y", "y", *OPTIONS)
    assert (done.exit_code, "name a file for the other" in done.stderr) == (3, True), done.stderr


def test_large_labels_are_told_apart(scores):
    small = scores(with_column(lambda row: str(row // 5)), "--clusters", "k")
    large = scores(with_column(lambda row: str(2**60 + row // 5)), "--clusters", "k")
    assert small == large


def test_tables_in_parts(run, place):
    """Options about values hold for tables that are not read whole, too."""
    digits = (np.arange(N) % 3).astype(str)
    table = pl.DataFrame({"a": A[:, 0], "c": np.where(np.arange(N) == 3, -99.0, A[:, 2]), "y": Y})
    (place / "parts").mkdir()
    (place / "whole").mkdir()
    table.with_columns(k=pl.Series(digits)).write_parquet(place / "parts" / "1.parquet")
    gap = table.with_columns(pl.when(pl.col("c") != -99).then("c").alias("c"))
    words = pl.Series([f"w{digit}" for digit in digits])
    gap.with_columns(k=words).write_parquet(place / "whole" / "1.parquet")
    options = ("--na-values", "-99", "--categorical", "k")
    done = run("explain", "parts", "-y", "y", *OPTIONS, *options)
    assert done.exit_code == 0, done.stderr
    assert run("explain", "whole", "-y", "y", *OPTIONS[:-1], "expected").exit_code == 0
    found, expected = (
        pl.read_parquet(place / folder / "importance.parquet") for folder in ("out", "expected")
    )
    assert found["score"].to_list() == pytest.approx(expected["score"].to_list(), rel=1e-9)
    refused = run("explain", "parts", "-y", "y", "--weights", "y", *OPTIONS[:-1], "more")
    assert (refused.exit_code, "--weights names the target 'y'" in refused.stderr) == (4, True)


@pytest.mark.full
def test_terminals_without_a_minus_sign(place):
    """The exit code is that of the command, and what is printed for machines is still JSON."""
    content = with_column(lambda row: "éu"[row % 2])
    (place / "data.csv").write_text(content, encoding="utf-8")
    command = [sys.executable, "-m", "dfi.cli", "explain", "data.csv", "-y", "y", *OPTIONS]
    done = subprocess.run(  # noqa: S603
        [*command, "--json"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode("ascii"))["n_rows"] == N
    shown = subprocess.run(
        [sys.executable, "-m", "dfi.cli", "show", "out"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert b"?" not in shown.stdout
