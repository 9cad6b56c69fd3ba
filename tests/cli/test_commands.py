import json
import os
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from rich.console import Console as RichConsole
from typer.testing import CliRunner

import dfi
from dfi.cli import console
from dfi.cli.app import app

LINEAR = ("-m", "linear")


@pytest.fixture
def saved(table, run, place):
    (place / "g.json").write_text(json.dumps({"pair": ["a", "b"], "alone": ["c"]}))
    assert (
        run("explain", table, "-y", "y", *LINEAR, "-o", "out", "--groups", "g.json").exit_code == 0
    )
    return place / "out"


def test_show_prints_the_leading_features(saved, run):
    done = run("show", saved, "--top", "2")
    assert done.exit_code == 0
    assert "... and 1 more" in done.stdout
    assert done.stdout.splitlines()[2].startswith("a ")
    assert "R2 0.9" in done.stderr


@pytest.mark.parametrize("space", ["attributed", "latent", "group"])
def test_show_speaks_json(space, saved, run):
    found = json.loads(run("show", saved / "result.dfi", "--space", space, "--json").stdout)
    result = dfi.load(saved / "result.dfi")
    expected = {"attributed": result, "latent": result.latent, "group": result.group()}[space]
    assert {row["name"]: row["score"] for row in found["features"]} == pytest.approx(
        dict(zip(expected.names, expected.scores, strict=True))
    )


def test_show_and_report_take_other_groups(saved, run, place):
    (place / "other.csv").write_text("feature,group\na,ends\nc,ends\n")
    assert "ends" in run("show", saved, "--groups", "other.csv").stdout
    done = run("report", saved, "--groups", "other.csv", "--out", "other.html")
    assert done.exit_code == 0
    assert "ends" in (place / "other.html").read_text()


def test_report_is_not_replaced_unasked(saved, run, place):
    refused = run("report", saved)
    assert refused.exit_code == 5
    assert "--force" in refused.stderr
    done = run("report", saved, "--force", "--title", "Mine & yours")
    assert done.exit_code == 0
    assert "<h1>Mine &amp; yours</h1>" in (saved / "report.html").read_text()
    done = run("report", saved / "result.dfi", "-o", "new.html")
    assert done.stdout == "new.html\n"


def test_explain_says_which_features_are_enough(table, run, place):
    start = ("explain", table, "-y", "y", *LINEAR, "-o", "out")
    done = run(*start, "--keep", "0.9")
    assert done.exit_code == 0, done.output
    assert " 90 % of the signal (90 % confidence)" in done.stdout
    assert pl.read_parquet(place / "out" / "keep.parquet")["enough"][0]
    found = json.loads(run(*start, "--keep", "0.9", "--force", "--json").stdout)["keep"]
    assert set(found["kept"]) | set(found["dropped"]) == {"a", "b", "c"}
    again = run(*start, "--force")
    assert "keep.csv and keep.parquet in out are older" in again.stderr
    refused = run("explain", table, "-y", "y", *LINEAR, "-o", "no", "--keep", "1.5")
    assert refused.exit_code == 4
    assert "--keep must be a number strictly between 0 and 1, got 1.5" in refused.stderr


def test_compare_writes_table_report_and_results(table, run, place):
    done = run("compare", table, "-y", "y", *LINEAR, "--methods", "dfi,loco", "--folds", "3")
    assert done.exit_code == 0, done.output
    folder = place / "dfi-data-comparison"
    files = {"comparison.csv", "comparison.parquet", "report.html", "dfi.dfi", "loco.dfi"}
    assert {f.name for f in folder.iterdir()} == files
    found = pl.read_csv(folder / "comparison.csv")
    assert set(found["method"]) == {"dfi", "loco"}
    page = (folder / "report.html").read_text()
    assert "<h3>loco</h3>" in page
    assert "dfi compare data.csv --target y" in dfi.load(folder / "loco.dfi").spec["call"]
    assert run("compare", table, "-y", "y", "--methods", "dfi").exit_code == 5
    again = run(
        "compare", table, "-y", "y", *LINEAR, "--methods", "dfi", "--force", "--json", "--quiet"
    )
    found = json.loads(again.stdout)
    assert list(found["methods"]) == ["dfi"]
    # loco.dfi of the first run is still there, and none of the second's
    assert set(found["outputs"]) == files - {"loco.dfi"}
    assert (folder / "loco.dfi").exists()


def test_compare_refuses_unknown_methods(table, run):
    done = run("compare", table, "-y", "y", *LINEAR, "--methods", "lcoo")
    assert done.exit_code == 4
    assert "lcoo" in done.stderr


def test_demo_ends_with_the_path_of_the_report(place, monkeypatch):
    import dfi.cli.demo as demo

    monkeypatch.setattr(
        demo, "explain", lambda *a, **k: dfi.explain(*a, **{**k, "estimator": "linear"})
    )
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 0, done.output
    last = done.stdout.strip().splitlines()[-1]
    assert last == f"Report: {place / 'dfi-demo' / 'report.html'}"
    page = (place / "dfi-demo" / "report.html").read_text()
    assert "What explains disease progression?" in page
    assert "body mass index" in done.stdout
    assert CliRunner().invoke(app, ["demo"]).exit_code == 5


@pytest.mark.full
def test_compare_says_where_sampled_submodels_decide(run, place):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 8)) + 2.0 * rng.standard_normal((120, 1))
    y = np.abs(X[:, 0]) * X[:, 1] + 0.5 * rng.standard_normal(120)
    columns = {f"x{k}": X[:, k] for k in range(8)}
    pl.DataFrame({**columns, "y": y}).write_csv(place / "wide.csv")
    start = ("compare", "wide.csv", "-y", "y", "--model", "boosting", "--folds", "2", "--methods")
    done = run(*start, "shapley")
    assert done.exit_code == 0, done.output
    warned = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 1
    assert "Shapley values from sampled submodels: most of the error of" in warned[0]
    found = pl.read_csv(place / "dfi-wide-comparison" / "comparison.csv")
    assert (found["se"] > 0.9 * found["monte_carlo_se"]).all()
    exact = run(*start, "loco", "--out", "exact")
    assert "sampled" not in exact.stderr


def test_version(run):
    assert run("--version").stdout == f"dfi {dfi.__version__}\n"


def test_shell_completion_knows_options():
    environment = {
        **os.environ,
        "_DFI_COMPLETE": "complete_bash",
        "COMP_WORDS": "dfi explain --trans",
        "COMP_CWORD": "2",
        "_TYPER_COMPLETE_ARGS": "dfi explain --trans",
    }
    done = subprocess.run(
        [sys.executable, "-m", "dfi.cli"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "--transport" in done.stdout


def test_demo_needs_no_dataframe_library(monkeypatch):
    import dfi.cli.demo as demo

    monkeypatch.setattr(
        demo,
        "explain",
        lambda *a, **k: dfi.explain(*a, **{**k, "estimator": "linear", "diagnose": False}),
    )
    framed = demo.demo_result()
    monkeypatch.setattr(demo, "as_frame", lambda columns, library: dict(columns))
    plain = demo.demo_result()
    assert plain.names == framed.names
    assert plain.scores == pytest.approx(framed.scores)
    assert plain.group().scores == pytest.approx(framed.group().scores)


def test_sensitivity_over_epsilons(table, run, place):
    done = run("sensitivity", table, "-y", "y", *LINEAR, "--epsilons", "0,0.5", "--folds", "3")
    assert done.exit_code == 0, done.output
    plain, bridge, report = done.stdout.splitlines()
    assert plain.startswith("epsilon = 0    a ")
    assert bridge.startswith("epsilon = 0.5  a ")
    assert report == "dfi-data-sensitivity/report.html"
    folder = place / "dfi-data-sensitivity"
    found = pl.read_csv(folder / "sensitivity.csv")
    assert set(found["setting"]) == {"epsilon = 0", "epsilon = 0.5"}
    first = found.filter(pl.col("setting") == "epsilon = 0")
    assert sorted(first["rank"]) == [1, 2, 3]
    assert dfi.load(folder / "epsilon-0.5.dfi").spec["epsilon"] == 0.5
    frame = pl.read_csv(place / table)
    expected = dfi.explain(frame.drop("y"), frame["y"], "linear", cv=3)
    assert first["score"].to_list() == pytest.approx(list(expected.scores))
    assert (folder / "ranks.png").stat().st_size > 1000
    assert "depends on the transport" in (folder / "report.html").read_text()


def test_sensitivity_over_transports_and_its_refusals(table, run):
    start = ("sensitivity", table, "-y", "y", *LINEAR)
    done = run(*start, "--transports", "gaussian,semicontinuous", "--json", "--quiet")
    assert list(json.loads(done.stdout)["settings"]) == ["gaussian", "semicontinuous"]
    both = run(*start, "--transports", "gaussian", "--epsilons", "1", "-o", "b")
    assert both.exit_code == 4
    assert "not both" in both.stderr
    letters = run(*start, "--epsilons", "1,x", "-o", "b")
    assert letters.exit_code == 4
    assert "'x' is not a number" in letters.stderr


def test_sensitivity_says_once_what_it_leaves_out(frame, run, place):
    kind = pl.Series("kind", np.tile(["u", "v", "w"], 30))
    frame.select("a", "c", "y").with_columns(kind).write_csv(place / "d.csv")
    done = run(
        "sensitivity", "d.csv", "-y", "y", *LINEAR, "--transports", "gaussian,knothe-rosenblatt"
    )
    assert done.exit_code == 0, done.output
    assert done.stderr.count("knothe-rosenblatt is left out: ") == 1
    assert done.stderr.count("left out") == 1


def test_help_and_completion_know_the_names_of_the_library():
    from dfi._models.learners import LEARNERS
    from dfi.cli import options
    from dfi.transports import TRANSPORTS

    assert tuple(LEARNERS) == options.LEARNERS
    assert tuple(TRANSPORTS) == options.TRANSPORTS


@pytest.mark.parametrize(
    ("width", "left_out"), [(130, []), (80, ["before"]), (40, ["covariates (int"])]
)
def test_narrow_terminals_lose_columns_and_never_digits(width, left_out, capsys, monkeypatch):
    class Terminal(RichConsole):
        is_terminal = True

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(console, "RichConsole", Terminal)
    ends = {"ci_low": -1234.5, "ci_high": 2345.6, "p_adj": 0.0312, "significant": True}
    parts = {f"{a}{b}": 12.3 for a in ("covariates", "concept") for b in ("", "_low", "_high")}
    row = {"name": "a long name of a feature", "before": 1.0, "after": 2.0, "change": 1.0}
    console.print_changes([row | ends | parts], level=0.95, top=5)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "…" not in shown
    assert "(−1,230 to 2,350)" in shown
    assert "0.031" in shown
    assert "12.3" in shown
    assert all(heading not in shown for heading in left_out)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= max(width, 80)
    assert "a long name" in shown
