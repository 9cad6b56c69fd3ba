"""``dfi change``: what it writes and prints, its threshold for pipelines, and what it refuses."""

import json

import numpy as np
import polars as pl
import pytest

import dfi
from dfi.cli.console import CHANGED, OUTPUT, REFUSED

CALL = ("change", "old.csv", "new.csv", "-y", "y", "-m", "linear", "--folds", "3")
FILES = {"change.csv", "change.parquet", "change.json", "before.dfi", "after.dfi", "report.html"}


def period(seed, slope, n=90):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, n))
    y = slope * a + b + 0.3 * rng.standard_normal(n)
    return pl.DataFrame({"a": a, "b": b, "y": y})


@pytest.fixture
def tables(place):
    """Two tables between which the slope of ``a`` rose from 1 to 3, and a third like the first."""
    found = {"old": period(0, 1.0), "new": period(1, 3.0), "like": period(2, 1.0)}
    for name, table in found.items():
        table.write_csv(place / f"{name}.csv")
    return found


def refused(done, place, message):
    """One sentence, the code of refused data, and no folder."""
    assert done.exit_code == REFUSED, done.output
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("dfi: ")] == lines[-1:]
    assert message in lines[-1]
    assert "Traceback" not in done.output
    assert not (place / "dfi-old-change").exists()


def test_what_is_written_is_what_python_says(tables, run, place):
    done = run(*CALL)
    assert done.exit_code == 0, done.output
    out = place / "dfi-old-change"
    assert {path.name for path in out.iterdir()} == FILES
    expected = dfi.change(tables["old"], tables["new"], y="y", estimator="linear", cv=3)
    table = pl.read_parquet(out / "change.parquet")
    assert table["feature"].to_list() == expected.table()["feature"].to_list() == ["a", "b"]
    np.testing.assert_allclose(table["change"], expected.table()["change"], rtol=1e-9)
    np.testing.assert_allclose(table["covariates"] + table["concept"], table["change"], atol=1e-9)
    assert pl.read_csv(out / "change.csv").columns == table.columns
    again = dfi.load(out / "after.dfi") - dfi.load(out / "before.dfi")
    np.testing.assert_allclose(
        again.scores, expected.table(sort=False)["change"].to_numpy(), rtol=1e-9
    )
    assert "What changed about y" in (out / "report.html").read_text(encoding="utf-8")
    assert done.stdout.splitlines()[1].startswith("a ")
    assert "a change was found, p" in done.stderr


def test_json_is_one_object_and_the_same_as_the_file(tables, run, place):
    done = run(*CALL, "--json", "--out", "out")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["changed"] is True
    assert found["alpha"] == 0.05
    written = json.loads((place / "out" / "change.json").read_text(encoding="utf-8"))
    assert found["features"] == written["features"]
    assert [row["feature"] for row in found["features"]] == ["a", "b"]
    assert found["any_change"]["change"]["feature"] == "a"


@pytest.mark.parametrize(
    ("after", "options", "code", "verdict"),
    [
        ("new.csv", (), 0, "a change was found"),
        ("new.csv", ("--fail-on-change",), CHANGED, "a change was found"),
        ("new.csv", ("--fail-on-change", "--least", "1"), CHANGED, "a change was found"),
        ("new.csv", ("--fail-on-change", "--least", "100"), 0, "no change was found"),
        ("new.csv", ("--fail-on-change", "--alpha", "0"), 0, "no change was found"),
        ("like.csv", ("--fail-on-change", "--alpha", "0.0001"), 0, "no change was found"),
    ],
)
def test_the_exit_code_is_a_threshold_for_pipelines(
    tables, run, place, after, options, code, verdict
):
    done = run("change", "old.csv", after, *CALL[3:], *options)
    assert done.exit_code == code, done.output
    assert verdict in done.stderr
    # a pipeline that stops wants to see what was found
    assert (place / "dfi-old-change" / "report.html").is_file()


def test_rows_in_both_files_are_told_by_their_id(tables, run, place):
    for name, first in (("old", 0), ("new", 30)):
        rows = tables[name].with_columns(who=pl.Series(range(first, first + 90)))
        rows.write_csv(place / f"{name}.csv")
    done = run(*CALL, "--id", "who", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["rows"] == "overlapping"
    assert {row["feature"] for row in found["features"]} == {"a", "b"}


@pytest.mark.parametrize(("lacks", "which"), [("new", "second"), ("old", "first")])
def test_a_column_that_one_file_lacks_is_named(tables, run, place, lacks, which):
    tables[lacks].drop("b").write_csv(place / f"{lacks}.csv")
    refused(run(*CALL), place, f"the {which} table has no column 'b'")


def test_ids_that_are_never_the_same_are_refused(tables, run, place):
    for name in ("old", "new"):
        rows = tables[name].with_columns(who=pl.Series([f"{name}{k}" for k in range(90)]))
        rows.write_csv(place / f"{name}.csv")
    refused(run(*CALL, "--id", "who"), place, "no id is in both tables")


def test_an_id_that_no_file_has_is_refused(tables, run, place):
    refused(run(*CALL, "--id", "who"), place, "--id: old.csv has no column 'who'")


def test_a_target_of_another_kind_is_refused(tables, run, place):
    classes = tables["new"].with_columns(
        y=pl.when(pl.col("y") > 0).then(pl.lit("yes")).otherwise(pl.lit("no"))
    )
    classes.write_csv(place / "new.csv")
    refused(run(*CALL), place, "explain different outcomes (kind: 'real' and 'binary')")


def test_a_file_that_is_not_there_is_an_input_that_cannot_be_read(tables, run, place):
    done = run("change", "old.csv", "none.csv", *CALL[3:])
    assert done.exit_code == 3, done.output
    assert "none.csv" in done.stderr.splitlines()[-1]
    assert not (place / "dfi-old-change").exists()


def test_outputs_are_replaced_only_when_asked(tables, run, place):
    out = place / "dfi-old-change"
    out.mkdir()
    (out / "change.csv").write_text("mine")
    (out / "notes.txt").write_text("keep")
    again = run(*CALL)
    assert again.exit_code == OUTPUT, again.output
    assert "--force" in again.stderr
    assert (out / "change.csv").read_text() == "mine"
    assert run(*CALL, "--force").exit_code == 0
    assert (out / "change.csv").read_text().startswith("feature,change,se")
    assert (out / "notes.txt").read_text() == "keep"
    # a code for a pipeline is not among what the outputs depend on
    assert run(*CALL, "--force", "--fail-on-change").exit_code == CHANGED
