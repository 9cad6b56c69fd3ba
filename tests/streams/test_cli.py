"""Files that the command line reads in parts: a folder, a pattern, a large file of Parquet."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import dfi
from dfi.cli import reading
from dfi.cli.app import app


@pytest.fixture
def folder(tmp_path):
    """Two files with a column too many, missing outcomes and a NaN."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 900))
    y = a + b + rng.standard_normal(900)
    frame = pl.DataFrame({"a": a, "b": b, "id": np.arange(900), "w": 1.0 + (a > 0), "y": y})
    frame = frame.with_columns(
        y=pl.when(pl.col("id") < 7).then(None).otherwise(pl.col("y")),
        b=pl.when(pl.col("id") == 20).then(float("nan")).otherwise(pl.col("b")),
    )
    path = tmp_path / "rows"
    path.mkdir()
    frame[:400].write_parquet(path / "one.parquet")
    frame[400:].write_parquet(path / "two.parquet")
    frame.write_parquet(tmp_path / "all.parquet")
    return path


def run(data, *options):
    out = data.parent / "out"
    given = ["explain", str(data), "-y", "y", "-m", "linear", "--drop", "id", "--weights", "w"]
    return CliRunner().invoke(app, [*given, "--out", str(out), "--json", "--force", *options]), out


def scores(done, out):
    assert done.exit_code == 0, done.output
    return dfi.load(out / "result.dfi").scores


def test_folders_patterns_and_large_files_are_read_in_parts(folder, monkeypatch):
    whole = scores(*run(folder.parent / "all.parquet", "--explain-rows", "600"))
    options = ("--explain-rows", "600", "--fit-rows", "893")
    for data in (folder, folder / "*.parquet"):
        done, out = run(data, *options)
        assert scores(done, out) == pytest.approx(whole, rel=1e-10)
        assert "7 rows without 'y' left out" in " ".join(json.loads(done.stdout)["warnings"])
    monkeypatch.setattr(reading, "STREAMED_BYTES", 100)
    done, out = run(folder.parent / "all.parquet", "--fit-rows", "300", "--explain-rows", "400")
    scores(done, out)
    spec = dfi.load(out / "result.dfi").spec
    assert (spec["fit_rows"], spec["explained_rows"], spec["n_rows"]) == (300, 400, 893)
    assert (out / "report.html").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--time", "id"), "--time needs all rows at once"),
        (("--clusters", "id"), "--clusters needs all rows at once"),
        (("--frequency-weights", "z", "--weights", ""), "--weights: there is no column ''"),
        (("--drop", "y"), "the target 'y' is also named by --drop"),
        (("--missing", "error"), "column 'y' has 7 missing values"),
        (("--drop", "a,b"), "no feature is left"),
    ],
)
def test_what_is_refused(options, message, folder):
    done, _ = run(folder, *options)
    assert done.exit_code != 0
    shown = " ".join(done.stderr.split())
    assert message in shown


def test_patterns_of_nothing_and_of_other_files(folder):
    done, _ = run(folder / "*.feather")
    assert "matches no file" in " ".join(done.stderr.split())
    (folder / "rows.csv").write_text("a,y\n1,2\n")
    done, _ = run(folder / "*.csv")
    assert "is not a Parquet file: several inputs must all be Parquet" in " ".join(
        done.stderr.split()
    )


def test_sizes_that_lie_do_not_end_the_process(tmp_path):
    # a page that says it has a negative number of values: polars asks for 2 EB, and aborts
    (damaged,) = (Path(__file__).parents[1] / "fuzz/corpus/tables.parquet").iterdir()
    folder = tmp_path / "rows"
    folder.mkdir()
    shutil.copy(damaged, folder / "part.parquet")
    # in a process of its own: what is tested would take the tests with it
    command = [sys.executable, "-m", "dfi.cli", "explain", str(folder), "-y", "y"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)  # noqa: S603
    assert done.returncode == 3
    assert f"{folder / 'part.parquet'} is damaged: Invalid page header" in done.stderr
