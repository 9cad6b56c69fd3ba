import gzip
import io
import json
import os
from pathlib import Path

import joblib
import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import TimeSeriesSplit

import dfi

LINEAR = ("--model", "linear")
FILES = {"importance.csv", "importance.parquet", "result.dfi", "report.html", "log.txt"}


def scores(folder):
    found = dfi.load(folder / "result.dfi")
    return dict(zip(found.names, found.scores, strict=True))


def write_stream(frame, path):
    frame.write_ipc_stream(path)


WRITERS = {
    "data.csv": lambda f, p: f.write_csv(p),
    "data.tsv": lambda f, p: f.write_csv(p, separator="\t"),
    "data.parquet": lambda f, p: f.write_parquet(p),
    "data.arrow": lambda f, p: f.write_ipc(p),
    "data.feather": lambda f, p: f.write_ipc(p),
    "stream.arrow": write_stream,
    "data.jsonl": lambda f, p: f.write_ndjson(p),
    "data.ndjson": lambda f, p: f.write_ndjson(p),
    "data.csv.gz": lambda f, p: p.write_bytes(gzip.compress(f.write_csv().encode())),
    "data.jsonl.gz": lambda f, p: p.write_bytes(gzip.compress(f.write_ndjson().encode())),
    "bom.csv": lambda f, p: p.write_bytes(b"\xef\xbb\xbf" + f.write_csv().encode()),
    "sixteen.csv": lambda f, p: p.write_bytes(f.write_csv().encode("utf-16")),
    "nameless": lambda f, p: f.write_parquet(p),
    "tabs": lambda f, p: f.write_csv(p, separator="\t"),
    "lines": lambda f, p: f.write_ndjson(p),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_result_of_the_library(name, frame, run, place):
    frame = frame.select("a", "b", "c", "y")
    WRITERS[name](frame, place / name)
    done = run("explain", name, "--target", "y", *LINEAR, "--out", "out")
    assert done.exit_code == 0, done.output
    expected = dfi.explain(frame.drop("y"), frame["y"], "linear")
    assert scores(place / "out") == pytest.approx(
        dict(zip(expected.names, expected.scores, strict=True))
    )


@pytest.mark.parametrize("name", ["data.csv", "data.parquet", "data.jsonl", "data.csv.gz"])
def test_standard_input_is_recognised_by_its_content(name, frame, run, place):
    WRITERS[name](frame.select("a", "c", "y"), place / name)
    done = run("explain", "-", "-y", "y", *LINEAR, "-o", "out", input=(place / name).read_bytes())
    assert done.exit_code == 0, done.output
    assert set(scores(place / "out")) == {"a", "c"}


def test_outputs_agree_with_each_other(table, run, place):
    done = run("explain", table, "-y", "y", *LINEAR)
    assert done.exit_code == 0
    folder = place / "dfi-data"
    assert {file.name for file in folder.iterdir()} == FILES
    assert done.stdout.strip().splitlines()[-1] == "dfi-data/report.html"
    result = dfi.load(folder / "result.dfi")
    csv, parquet = (
        pl.read_csv(folder / "importance.csv"),
        pl.read_parquet(folder / "importance.parquet"),
    )
    assert csv.columns == [
        "feature",
        "share",
        "share_low",
        "share_high",
        "score",
        "se",
        "ci_low",
        "ci_high",
        "z",
        "p",
        "p_adj",
    ]
    assert parquet.equals(result.table())
    np.testing.assert_allclose(csv["score"], parquet["score"])
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "What explains y?" in page
    assert "dfi explain data.csv --target y --model linear" in page
    log = (folder / "log.txt").read_text()
    assert "explained 90 rows x 3 features, R2 0.9" in log
    assert "a " in log
    assert [file.name for file in place.iterdir() if file.name.endswith(".tmp")] == []


def test_nothing_is_replaced_unasked(table, run, place):
    assert run("explain", table, "-y", "y", *LINEAR).exit_code == 0
    before = (place / "dfi-data" / "result.dfi").read_bytes()
    again = run("explain", table, "-y", "y", *LINEAR, "--seed", "1")
    assert again.exit_code == 5
    assert "--force" in again.stderr
    assert (place / "dfi-data" / "result.dfi").read_bytes() == before
    (place / "dfi-data" / "mine.txt").write_text("keep")
    forced = run("explain", table, "-y", "y", *LINEAR, "--seed", "1", "--force")
    assert forced.exit_code == 0
    assert (place / "dfi-data" / "result.dfi").read_bytes() != before
    assert (place / "dfi-data" / "mine.txt").read_text() == "keep"


def test_seed_and_jobs_reach_the_method(table, run, place, monkeypatch):
    for out, options in (("one", []), ("three", ["--seed", "3"])):
        assert run("explain", table, "-y", "y", *LINEAR, "-o", out, *options).exit_code == 0
    assert scores(place / "one") != scores(place / "three")
    given = {}
    explain = dfi.explain

    def spy(*arguments, **options):
        given.update(options)
        return explain(*arguments, **{**options, "n_jobs": None})

    monkeypatch.setattr("dfi.explain", spy)
    assert run("explain", table, "-y", "y", *LINEAR, "-o", "two", "--jobs", "2").exit_code == 0
    assert given["n_jobs"] == 2
    assert scores(place / "one") == scores(place / "two")


def test_json_is_one_object(table, run):
    done = run("explain", table, "-y", "y", *LINEAR, "--json", "--quiet")
    found = json.loads(done.stdout)
    assert set(found["outputs"]) == FILES
    assert found["features"][0]["name"] == "a"
    assert found["r2"] > 0.9
    assert done.stderr == ""


def test_group_files_of_an_earlier_run_are_not_outputs_of_this_one(table, run, place):
    (place / "g.csv").write_text("feature,group\na,pair\nb,pair\nc,alone\n")
    first = run("explain", table, "-y", "y", *LINEAR, "--groups", "g.csv", "--json")
    assert set(json.loads(first.stdout)["outputs"]) == FILES | {"groups.csv", "groups.parquet"}
    earlier = (place / "dfi-data" / "groups.csv").read_bytes()
    done = run("explain", table, "-y", "y", *LINEAR, "--force", "--json")
    found = json.loads(done.stdout)
    assert set(found["outputs"]) == FILES
    assert "groups.csv and groups.parquet in dfi-data are older" in found["warnings"][-1]
    assert (place / "dfi-data" / "groups.csv").read_bytes() == earlier


def test_json_tells_errors_too(run):
    done = run("explain", "nothing.csv", "-y", "y", "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout) == {"error": "there is no file nothing.csv", "exit_code": 3}


def test_quiet_prints_the_path_alone(table, run):
    done = run("explain", table, "-y", "y", *LINEAR, "--quiet")
    assert done.stdout == "dfi-data/report.html\n"
    assert done.stderr == ""


def test_drop_takes_commas_and_repeats(frame, run, place):
    frame.write_csv(place / "d.csv")
    done = run(
        "explain", "d.csv", "-y", "y", "--drop", "id,w", "--drop", "when", "--drop", "who", *LINEAR
    )
    assert done.exit_code == 0
    assert set(scores(place / "dfi-d")) == {"a", "b", "c"}


@pytest.mark.parametrize("command", ["explain", "sensitivity"])
def test_the_form_is_an_option(command, frame, run, place):
    frame.select("a", "b", "c", "y").write_csv(place / "d.csv")
    base = (command, "d.csv", "-y", "y", *LINEAR, "--form")
    base = base if command == "explain" else (*base[:-1], "--epsilons", "0", "--form")
    done = run(*base, "calibrated", "--out", "out")
    assert done.exit_code == 0, done.output
    (file,) = (place / "out").glob("*.dfi")
    assert dfi.load(file).spec["form"] == "calibrated"
    refused = run(*base, "calibrate", "--out", "other")
    assert refused.exit_code == 2


@pytest.mark.parametrize("command", ["explain", "compare", "sensitivity"])
def test_whole_numbers_are_counts_only_as_frequency_weights(command, frame, run, place):
    frame.select("a", "b", "c", "y").with_columns(w=pl.lit(40)).write_csv(place / "d.csv")
    base = (command, "d.csv", "-y", "y", *LINEAR)
    base += {"compare": ("--methods", "loco"), "sensitivity": ("--epsilons", "0")}.get(command, ())
    for kind, option in (("sampling", "--weights"), ("frequency", "--frequency-weights")):
        stated = run(*base, option, "w", "-o", kind)
        assert stated.exit_code == 0
        assert "weight" not in stated.stderr
    # the errors of forty equal rows each, and of the rows themselves
    names = {"compare": "loco.dfi", "sensitivity": None}
    name = names.get(command, "result.dfi")
    if name is not None:
        many, few = (dfi.load(place / kind / name) for kind in ("frequency", "sampling"))
        assert many.spec["weights"] == "frequency"
        assert few.spec["weights"] == "sampling"
        np.testing.assert_allclose(few.se / many.se, np.sqrt(40), rtol=0.2)
    bad = run(*base, "--frequency-weights", "y", "-o", "bad")
    assert bad.exit_code == 4
    assert "--frequency-weights" in bad.stderr


def test_weights_time_and_row_groups_by_column(frame, run, place):
    frame.drop("id").write_csv(place / "d.csv")
    X = frame.select("a", "b", "c")
    base = ("explain", "d.csv", "-y", "y", *LINEAR)
    assert run(*base, "--weights", "w", "--drop", "when,who", "-o", "w").exit_code == 0
    expected = dfi.explain(X, frame["y"], "linear", sample_weight=frame["w"])
    np.testing.assert_allclose(list(scores(place / "w").values()), expected.scores)
    assert run(*base, "--frequency-weights", "w", "--drop", "when,who", "-o", "n").exit_code == 0
    expected = dfi.explain(X, frame["y"], "linear", frequency_weight=frame["w"])
    np.testing.assert_allclose(list(scores(place / "n").values()), expected.scores)
    assert run(*base, "--clusters", "who", "--drop", "when,w", "-o", "g").exit_code == 0
    expected = dfi.explain(X, frame["y"], "linear", clusters=frame["who"])
    np.testing.assert_allclose(list(scores(place / "g").values()), expected.scores)
    words = f"cluster-robust, {frame['who'].n_unique()} clusters"
    assert dfi.load(place / "g" / "result.dfi").basis.words == words
    assert words in (place / "g" / "report.html").read_text()
    assert words in (place / "g" / "log.txt").read_text()
    done = run(*base, "--time", "when", "--drop", "w,who", "--folds", "4", "-o", "t")
    assert done.exit_code == 0
    ordered = frame.sort("when")
    expected = dfi.explain(
        ordered.select("a", "b", "c"), ordered["y"], "linear", cv=TimeSeriesSplit(n_splits=4)
    )
    np.testing.assert_allclose(list(scores(place / "t").values()), expected.scores)
    assert expected.basis.words.startswith("HAC, bandwidth ")
    assert expected.basis.words in (place / "t" / "report.html").read_text()


@pytest.mark.parametrize("kind", ["long", "wide", "json"])
def test_groups_from_a_file(kind, table, run, place):
    if kind == "long":
        file = "g.csv"
        (place / file).write_text("feature,group\na,pair\nb,pair\nc,alone\na,both\nc,both\n")
    elif kind == "wide":
        file = "g.csv"
        (place / file).write_text("group,a,b,c\npair,1,1,0\nalone,0,0,1\nboth,1,0,1\n")
    else:
        file = "g.json"
        (place / file).write_text(
            json.dumps({"pair": ["a", "b"], "alone": ["c"], "both": ["a", "c"]})
        )
    done = run("explain", table, "-y", "y", *LINEAR, "--groups", file)
    assert done.exit_code == 0, done.output
    found = pl.read_csv(place / "dfi-data" / "groups.csv")
    one = scores(place / "dfi-data")
    by_name = dict(zip(found["feature"], found["score"], strict=True))
    assert by_name == pytest.approx(
        {"pair": one["a"] + one["b"], "alone": one["c"], "both": one["a"] + one["c"]}
    )


@pytest.mark.parametrize(("word", "spec"), [("none", None), ("auto", "auto")])
def test_components_of_the_transport(word, spec, table, run, place):
    done = run("explain", table, "-y", "y", *LINEAR, "--components", word)
    assert done.exit_code == 0, done.stderr
    result = dfi.load(place / "dfi-data" / "result.dfi")
    assert result.spec["components"] == spec
    assert (result.components is None) == (spec is None)


def test_components_of_a_transport_without_them_are_refused(table, run):
    done = run("explain", table, "-y", "y", *LINEAR, "--transport", "auto", "--components", "none")
    assert done.exit_code == 4
    assert "the transport 'auto' has no --components" in done.stderr


def test_transport_with_epsilon(table, run, place):
    done = run(
        "explain", table, "-y", "y", *LINEAR, "--transport", "semicontinuous", "--epsilon", "0.5"
    )
    assert done.exit_code == 0, done.output
    assert dfi.load(place / "dfi-data" / "result.dfi").spec["epsilon"] == 0.5


def test_a_model_file_is_loaded_only_when_trusted(table, frame, run, place):
    X, y = frame.select("a", "b", "c"), frame["y"]
    model = LinearRegression().fit(X.to_pandas(), y)
    joblib.dump(model, place / "m.joblib")
    refused = run("explain", table, "-y", "y", "--model", "m.joblib")
    assert refused.exit_code == 4
    assert "--trust-model" in refused.stderr
    done = run("explain", table, "-y", "y", "--model", "m.joblib", "--trust-model")
    assert done.exit_code == 0, done.output
    assert "warning: loading m.joblib runs the code" in done.stderr
    expected = dfi.explain(X, y, model, cv="prefit")
    np.testing.assert_allclose(list(scores(place / "dfi-data").values()), expected.scores)
    joblib.dump(LinearRegression(), place / "unfitted.joblib")
    done = run("explain", table, "-y", "y", "-m", "unfitted.joblib", "--trust-model", "-o", "u")
    assert done.exit_code == 0
    expected = dfi.explain(X, y, LinearRegression())
    np.testing.assert_allclose(list(scores(place / "u").values()), expected.scores)


def test_missing_values_are_scored_refused_or_left_out(frame, run, place):
    holes = frame.select("a", "b", "c", "y").with_columns(
        pl.when(pl.col("a") > 1).then(None).otherwise(pl.col("a")).alias("a")
    )
    holes.write_csv(place / "d.csv")
    done = run("explain", "d.csv", "-y", "y", *LINEAR, "-o", "unit")
    assert done.exit_code == 0
    result = dfi.load(place / "unit" / "result.dfi")
    assert result.quality.n_rows == holes.height
    missing = result.spec["missing"]
    assert missing["share"] == {"a": pytest.approx(holes["a"].null_count() / holes.height)}
    assert (missing["how"], missing["model"]) == ("indicator", "mean and indicator")
    refused = run("explain", "d.csv", "-y", "y", *LINEAR, "--missing", "error")
    assert refused.exit_code == 4
    assert "column 'a' has" in refused.stderr
    assert "leave such rows out with --missing drop" in refused.stderr
    done = run("explain", "d.csv", "-y", "y", *LINEAR, "--missing", "drop")
    assert done.exit_code == 0
    assert "rows with missing values left out" in done.stderr
    result = dfi.load(place / "dfi-d" / "result.dfi")
    assert result.quality.n_rows == holes.drop_nulls().height
    assert result.spec["missing"] == {"how": "drop", "rows": holes["a"].null_count()}


def test_rows_without_an_outcome_are_left_out_by_name(frame, run, place):
    holes = frame.select("a", "b", "w", "y").with_columns(
        pl.when(pl.col("a") > 1).then(None).otherwise(pl.col("y")).alias("y")
    )
    count = holes["y"].null_count()
    holes.write_csv(place / "d.csv")
    done = run("explain", "d.csv", "-y", "y", *LINEAR, "--json")
    assert done.exit_code == 0
    said = f"{count} rows without 'y' left out"
    assert said in json.loads(done.stdout)["warnings"]
    assert dfi.load(place / "dfi-d" / "result.dfi").quality.n_rows == 90 - count
    refused = run("explain", "d.csv", "-y", "y", *LINEAR, "--missing", "error", "-o", "r")
    assert f"column 'y' has {count} missing values: leave" in refused.stderr
    lacking = holes.with_columns(pl.Series("w", [None, *holes["w"][1:].to_list()]))
    lacking.write_csv(place / "e.csv")
    refused = run("explain", "e.csv", "-y", "y", *LINEAR, "--weights", "w")
    assert refused.exit_code == 4
    assert "column 'w' has 1 missing value" in refused.stderr
    done = run("explain", "e.csv", "-y", "y", *LINEAR, "--weights", "w", "--missing", "drop")
    assert done.exit_code == 0
    assert "1 row without 'w' left out" in done.stderr


def test_thirty_per_cent_missing_in_every_column(run, place):
    rng = np.random.default_rng(0)
    n = 120
    a = rng.standard_normal(n)
    table = pl.DataFrame(
        {
            "number": a,
            "count": rng.integers(0, 5, n),
            "flag": rng.random(n) < 0.5,
            "word": rng.choice(["red", "green", "blue"], n),
            "one": ["always"] * n,
        }
    ).with_columns(
        pl.when(pl.Series(rng.random(n) < 0.7)).then(pl.col(name)).alias(name)
        for name in ("number", "count", "flag", "word", "one")
    )
    table = table.with_columns(
        pl.lit(None, dtype=pl.String).alias("empty"), pl.Series("y", a + rng.standard_normal(n))
    )
    table.write_csv(place / "d.csv")
    done = run("explain", "d.csv", "-y", "y", *LINEAR)
    assert done.exit_code == 0, done.output
    assert "'empty' (wholly missing) is constant: it scores 0" in done.stderr
    result = dfi.load(place / "dfi-d" / "result.dfi")
    assert result.names == ("number", "count", "flag", "word", "one", "empty")
    assert result.scores[5] == 0
    assert result.scores[0] == max(result.scores)
    assert set(result.spec["missing"]["share"]) == set(result.names)
    compared = run("compare", "d.csv", "-y", "y", *LINEAR, "--methods", "dfi,loco")
    assert compared.exit_code == 0, compared.output


@pytest.mark.skipif("DFI_DATA" not in os.environ, reason="needs the public tables in DFI_DATA")
def test_hitters_without_an_option(run, place):
    source = Path(os.environ["DFI_DATA"]) / "tables" / "Hitters.csv"
    if not source.exists():
        pytest.skip("no Hitters.csv")
    done = run("explain", source, "--target", "Salary", "-m", "ridge", "-o", "out")
    assert done.exit_code == 0, done.output
    assert "59 rows without 'Salary' left out" in done.stderr
    assert dfi.load(place / "out" / "result.dfi").quality.n_rows == 263


def test_warnings_are_sentences(frame, run, place):
    frame.select("a", "c", "y").with_columns(pl.lit(1.0).alias("flat")).write_csv(place / "d.csv")
    done = run("explain", "d.csv", "-y", "y", *LINEAR, "--json")
    assert done.exit_code == 0
    assert "warning: 'flat' is constant" in done.stderr
    assert any("flat" in text for text in json.loads(done.stdout)["warnings"])
    assert "Warning" not in done.stderr


@pytest.mark.parametrize("command", ["explain", "sensitivity"])
def test_clusters_make_the_errors_of_a_fitted_model(command, frame, run, place):
    frame.select("a", "c", "who", "y").write_csv(place / "d.csv")
    joblib.dump(LinearRegression().fit(frame.select("a", "c"), frame["y"]), place / "m.joblib")
    done = run(
        command, "d.csv", "-y", "y", "-m", "m.joblib", "--trust-model", "--clusters", "who"
    )  # fmt: skip
    assert done.exit_code == 0
    (found,) = [dfi.load(path) for path in place.glob("dfi-d*/**/*.dfi")][:1]
    assert found.spec["dependence"] == f"cluster-robust, {frame['who'].n_unique()} clusters"


def test_encoding_is_said(run, place):
    rng = np.random.default_rng(0)
    rows = "".join(f"{x:.4f},{2 * x + e:.4f}\n" for x, e in rng.standard_normal((60, 2)))
    (place / "d.csv").write_bytes(("größe,y\n" + rows).encode("latin-1"))
    assert run("explain", "d.csv", "-y", "y", *LINEAR).exit_code == 3
    done = run("explain", "d.csv", "-y", "y", *LINEAR, "--encoding", "latin-1")
    assert done.exit_code == 0
    assert set(scores(place / "dfi-d")) == {"größe"}


def test_hostile_column_name_goes_through(frame, run, place):
    name = "<script>alert(1)</script>"
    frame.select(pl.col("a").alias(name), "c", "y").write_csv(place / "d.csv")
    assert run("explain", "d.csv", "-y", "y", *LINEAR).exit_code == 0
    assert name not in (place / "dfi-d" / "report.html").read_text()
    assert (
        name
        in pl.read_csv(io.BytesIO((place / "dfi-d" / "importance.csv").read_bytes()))["feature"]
    )
