"""dfi doctor: what is in a table, and whether explain would take it, before any fit."""

import datetime as dt
import json

import numpy as np
import polars as pl
import pytest

import dfi
from dfi.cli.doctor import rough_time
from tests.cli.test_failures import BAD_FILES

LINEAR = ("--model", "linear", "--folds", "3")


@pytest.fixture
def everyday(place):
    rng = np.random.default_rng(0)
    n = 120
    a = rng.standard_normal(n)
    frame = pl.DataFrame(
        {
            "id": np.arange(n) + 1000,
            "income": a,
            "limit": a + 0.1 * rng.standard_normal(n),
            "again": a,
            "age": rng.integers(18, 80, n),
            "married": rng.random(n) < 0.4,
            "job": rng.choice([f"j{k}" for k in range(40)], n, p=np.r_[0.61, np.full(39, 0.01)]),
            "score": rng.choice([1.5, 2.5], n),
            "one": np.ones(n, dtype=int),
            "gap": np.where(rng.random(n) < 0.25, np.nan, rng.standard_normal(n)),
            "y": a + rng.standard_normal(n),
        }
    ).with_columns(y=pl.when(pl.int_range(n) < 3).then(None).otherwise(pl.col("y")))
    frame.write_csv("data.csv")
    return frame


def examined(run, *arguments, code=0):
    done = run("doctor", *arguments, "--json", "-q")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_what_is_in_a_table(run, everyday):
    found = examined(run, "data.csv", "-y", "y")
    assert found["runs"]
    assert found["n_rows"] == 117
    assert found["target"]["kind"] == "real"
    assert found["target"]["loss"] == "squared-error"
    columns = {column["name"]: column for column in found["columns"]}
    kinds = {name: column["kind"] for name, column in columns.items()}
    assert kinds == {
        "id": "int64", "income": "number", "limit": "number", "again": "number",
        "age": "integer", "married": "boolean", "job": "category", "score": "number, levels",
        "one": "integer", "gap": "number",
    }  # fmt: skip
    assert [name for name, column in columns.items() if column["identifier_like"]] == ["id"]
    assert columns["one"]["constant"]
    assert columns["again"]["duplicate_of"] == "income"
    assert columns["gap"]["missing"] == pytest.approx(
        everyday[3:]["gap"].is_nan().mean(), abs=1e-12
    )
    assert {"columns": ["income", "limit", "again"], "correlation": 1.0} in found["correlated"]
    assert found["warnings"][0] == "3 rows without 'y' left out"
    assert found["refused"] == []


def test_it_says_what_explain_then_does(run, everyday):
    found = examined(run, "data.csv", "-y", "y", *LINEAR)
    result = run("explain", "data.csv", "-y", "y", *LINEAR, "--json")
    done = json.loads(result.stdout)
    kept = dfi.load("dfi-data/result.dfi")
    assert found["n_rows"] == done["n_rows"]
    assert found["target"]["loss"] == done["loss"]
    assert found["plan"]["form"] == kept.spec["form"] == "cross"
    assert found["plan"]["transport"] == kept.spec["transport"]
    assert found["plan"]["models"] == 6
    pooled = kept.diagnostics["pooled_levels"]["columns"]
    assert [c["name"] for c in found["columns"] if c["pooled_levels"]] == list(pooled)
    assert {c["name"] for c in found["columns"]} == {*kept.names, "id"}
    assert list(kept.spec["everyday"]["left_out"]) == ["id"]


def test_nothing_is_fitted_and_nothing_is_written(run, everyday, place, monkeypatch):
    before = sorted(place.iterdir())
    for name in ("cross_fit", "fit_model"):
        monkeypatch.setattr(f"dfi._models.crossfit.{name}", None)
    monkeypatch.setattr("dfi._models.fits.cross_fit", None)
    assert run("doctor", "data.csv", "-y", "y").exit_code == 0
    assert sorted(place.iterdir()) == before


def test_dates_and_identifiers_are_told(run, everyday):
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=k) for k in range(120)]
    everyday.with_columns(
        when=pl.Series(days), name=pl.Series([f"n{k}" for k in range(120)])
    ).write_csv("data.csv")
    found = examined(run, "data.csv", "-y", "y")
    assert found["runs"]
    columns = {column["name"]: column for column in found["columns"]}
    assert len(columns) == 12
    assert columns["when"]["kind"] == "date, as days"
    assert columns["name"]["notes"] == ["is left out: 117 different texts in 117 rows"]
    assert "when" not in run("doctor", "data.csv", "-y", "y").stderr


def test_columns_that_cannot_be_read_are_told_together(run, everyday):
    rate = [f"{k % 7} %" if k % 2 else f"{k % 7}" for k in range(120)]
    mostly = ["oops", *map(str, range(119))]
    wrong = everyday.with_columns(
        rate=pl.Series(rate),
        price=pl.Series([f"{k + 1},{k:03d}" if k else "1500" for k in range(120)]),
        mostly=pl.Series(mostly),
    )
    wrong.write_csv("data.csv")
    found = examined(run, "data.csv", "-y", "y", code=4)
    reasons = {entry["column"]: entry["reason"] for entry in found["refused"]}
    assert list(reasons) == ["rate", "price", "mostly"]
    assert "--numbers marked" in reasons["rate"]
    assert "--categorical" in reasons["mostly"]
    assert [c["name"] for c in found["columns"]][-3:] == ["rate", "price", "mostly"]
    done = run("explain", "data.csv", "-y", "y", *LINEAR)
    assert done.exit_code == 4
    said = " ".join(done.stderr.split())
    assert "'rate' has numbers with marks" in said
    assert "(another column is refused too: dfi doctor lists each)" in said
    wrong.select("rate", "price", "y").write_csv("data.csv")
    found = examined(run, "data.csv", "-y", "y", code=4)
    assert [entry["column"] for entry in found["refused"]] == ["rate", "price"]


@pytest.mark.parametrize("name", BAD_FILES)
def test_it_ends_as_explain_does(name, run, place):
    content, code, message = BAD_FILES[name]
    (place / "data.csv").write_bytes(content)
    done = run("doctor", "data.csv", "--target", "y", "--model", "linear")
    assert done.exit_code == code, done.output
    assert message in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 0),
        (("--loss", "poisson"), 4),
        (("--task", "classification"), 4),
        (("--transport", "copula"), 0),
        (("--transport", "knothe-rosenblatt"), 4),
        (("--form", "loco"), 0),
        (("--folds", "70"), 4),
        (("--missing", "error"), 4),
        (("--missing", "drop"), 0),
        (("--weights", "age"), 0),
        (("--clusters", "job"), 0),
        (("--level", "2"), 4),
        (("--explain-rows", "60"), 0),
        (("--explain-rows", "60", "--clusters", "job"), 4),
        (("--units", "groups"), 4),
        (("--model", "nonsense"), 4),
        (("--transport", "nonsense"), 4),
    ],
)
def test_options_are_judged_as_explain_judges_them(run, everyday, options, code):
    assert run("doctor", "data.csv", "-y", "y", *LINEAR, *options).exit_code == code
    if code:
        done = run("explain", "data.csv", "-y", "y", *LINEAR, *options)
        assert done.exit_code == code


def test_it_is_text_of_80_columns_of_ascii(run, everyday, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = run("doctor", "data.csv", "-y", "y", "-q")
    assert done.stdout.isascii()
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("target    y: a quantity from ")
    for part in ("Worth knowing", "dfi explain will", "form", "missing"):
        assert any(part in line for line in lines)


def test_classes_and_a_large_table(run, everyday):
    found = examined(run, "data.csv", "-y", "job", "--drop", "y", "--folds", "2", code=4)
    assert "fewer rows than the 2 folds" in found["refused"][0]["reason"]
    found = examined(run, "data.csv", "-y", "married")
    assert found["target"]["classes"].keys() == {"False", "True"}
    assert found["target"]["explained_class"] == "True"
    rng = np.random.default_rng(1)
    pl.DataFrame(rng.standard_normal((21_000, 3)), schema=["a", "b", "y"]).write_parquet(
        "l.parquet"
    )
    found = examined(run, "l.parquet", "-y", "y", *LINEAR)
    assert found["plan"]["until_precise"]
    assert found["plan"]["form"] == "cross"


def test_files_in_parts(run, everyday, place):
    (place / "parts").mkdir()
    everyday.write_parquet(place / "parts" / "one.parquet")
    found = examined(run, "parts", "-y", "y", *LINEAR)
    assert found["n_rows"] == 117
    assert {column["name"] for column in found["columns"]} >= {"age", "gap"}


def test_rough_times_grow():
    words = [rough_time(value) for value in (1, 5, 20, 60, 300, 2000, 10_000)]
    assert len(set(words)) == len(words)


def test_timestamps_are_dates_and_a_stored_index_is_no_feature(run, place):
    rng = np.random.default_rng(0)
    times = [f"2013-01-{1 + k % 28:02d}T{k % 24:02d}:00:00+02:00" for k in range(80)]
    frame = pl.DataFrame(rng.standard_normal((80, 2)), schema=["a", "y"])
    frame = frame.with_columns(t=pl.Series(times), __index_level_0__=pl.int_range(80))
    frame.write_parquet("t.parquet")
    for options, kind in ([], "date, as days"), (["--dates", "days"], "number"):
        found = examined(run, "t.parquet", "-y", "y", *options)
        seen = {column["name"]: column["kind"] for column in found["columns"]}
        assert seen == {"a": "number", "t": kind}


def test_what_holds_for_many_columns_is_said_once(run, place):
    rng = np.random.default_rng(0)
    columns = {f"x{k}": np.where(rng.random(60) < 0.2, np.nan, rng.random(60)) for k in range(9)}
    pl.DataFrame({**columns, "y": rng.random(60)}).write_csv(place / "gaps.csv")
    told = " ".join(run("doctor", str(place / "gaps.csv"), "--target", "y").stdout.split())
    assert told.count("with its missing values") == 1
    assert "each of 'x0', 'x1', 'x2', 'x3', 'x4', 'x5' and 3 more is scored" in told
