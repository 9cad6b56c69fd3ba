"""Samples of rows from the shell."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import dfi
from dfi.cli.app import app


@pytest.fixture
def rows(tmp_path):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((900, 3))
    y = X[:, 0] + X[:, 1] + generator.standard_normal(900)
    path = tmp_path / "rows.parquet"
    columns = {f"x{k}": X[:, k] for k in range(3)}
    pl.DataFrame({**columns, "y": y}).write_parquet(path)
    return path


def run(rows, *options):
    out = rows.parent / "out"
    arguments = ["explain", str(rows), "--target", "y", "-m", "linear", "--out", str(out)]
    return CliRunner().invoke(app, [*arguments, "--json", "--force", *options]), out


def test_a_number_of_rows(rows):
    done, out = run(rows, "--explain-rows", "300")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["explained_rows"], told["explained_of"]) == (300, 900)
    assert told["why"] == "asked for"
    result = dfi.load(out / "result.dfi")
    assert result.spec["explained_rows"] == 300
    page = (out / "report.html").read_text()
    assert "300 of 900 rows explained: the requested number" in page
    assert "3 features, 300 of 900 rows, 95" in page


def test_all_rows(rows):
    done, _ = run(rows, "--explain-rows", "all")
    assert done.exit_code == 0, done.output
    assert "explained_rows" not in json.loads(done.stdout)


def test_a_word_that_is_none(rows):
    done, _ = run(rows, "--explain-rows", "most")
    assert done.exit_code != 0
    assert (
        "--explain-rows must be 'default', 'auto', a whole number of 50 or more or all"
        in done.stderr
    )


def test_a_time_limit(rows):
    done, _ = run(rows, "--max-seconds", "100000")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["why"] == "all rows"


def test_single_rows_are_in_the_page_where_they_are_asked_for(rows):
    done, out = run(rows, "--rows", "7")
    assert done.exit_code == 0, done.output
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("<option value=") == 7
    done, out = run(rows)
    assert 'id="rows"' not in (out / "report.html").read_text(encoding="utf-8")


def test_a_number_of_single_rows_that_is_none(rows):
    done, _ = run(rows, "--rows", "0")
    assert done.exit_code != 0
    assert "rows must be a whole number of 1 or more, got 0" in done.stderr


def test_pairs_and_splits_are_written_and_shown(rows):
    done, out = run(rows, "--interactions", "--split")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["interactions"]["n_tested"] == 3
    assert {row["name"] for row in told["split"]["rows"]} == {"x0", "x1", "x2"}
    pairs = pl.read_csv(out / "interactions.csv")
    assert pairs.columns[:2] == ["feature", "partner"]
    assert len(pairs) == 3
    assert pl.read_parquet(out / "split.parquet")["share"].sum() == pytest.approx(1.0)
    page = (out / "report.html").read_text()
    assert "Which features act together" in page
    assert "Shares, split" in page
