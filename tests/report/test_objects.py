"""Reports as objects: page, data and text say the same; small things are said where they are."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi.report import Report
from dfi.report.charts import bars, calibration
from dfi.report.summary import BELOW_ZERO, leading_sentence, negative_sentence
from dfi.results.numbers import aligned


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((120, 3)), columns=["a", "b|<i>", "c"])
    return X, pd.Series(X["a"] + rng.standard_normal(120), name="balance")


@pytest.fixture(scope="module")
def result(table):
    return dfi.explain(*table, "linear", cv=3)


@pytest.fixture(scope="module")
def comparison(table):
    return dfi.compare(*table, ["dfi", "loco"], estimator="linear", cv=3)


def test_a_report_is_an_object_without_a_path_and_a_file_with_one(result, tmp_path):
    report = result.report()
    assert isinstance(report, Report)
    assert report.html() == dfi.report.page.report_html(result)
    path = result.report(tmp_path / "r.html")
    assert path.read_text(encoding="utf-8") == report.html()
    with pytest.raises(FileExistsError):
        report.write(path)
    assert report.write(path, overwrite=True) == path
    assert "What explains balance?" in repr(report)
    assert report._repr_html_() == result._repr_html_()


def test_json_holds_what_the_page_shows(result, tmp_path):
    found = json.loads(result.report().json())
    assert found["title"] == "What explains balance?"
    assert found["features"][0]["name"] == "a"
    assert found["features"][0]["score"] == pytest.approx(float(result.scores[0]))
    path = result.report(target="wealth").write(tmp_path / "r.json")
    assert json.loads(path.read_text(encoding="utf-8"))["target"] == "wealth"


def test_markdown_is_the_answer_and_a_table_in_which_names_are_text(result, tmp_path):
    text = result.report(title="How *much*?").markdown()
    lines = text.splitlines()
    assert lines[0] == r"# How \*much\*?"
    (row,) = [line for line in lines if line.startswith(r"| b\|\<i\>")]
    assert row.replace(r"\|", "").count("|") == 6
    assert "| score (95 % interval) | std. error |" in text
    assert sum(line.startswith("- **") for line in lines) == 3
    assert (tmp_path / "r.md").name == result.report().write(tmp_path / "r.md").name


def test_comparisons_have_reports_too(comparison, tmp_path):
    report = comparison.report()
    assert report.html() == dfi.report.page.comparison_html(comparison)
    assert json.loads(report.json())["methods"][1]["label"] == "loco"
    text = report.markdown()
    assert "- **loco** puts first: a" in text
    assert text.count("\n| ") == 5
    assert comparison.report(tmp_path / "c.html").exists()
    assert "&lt;" in report._repr_html_()


def test_many_units_are_cut_in_markdown():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((700, 60))
    text = dfi.explain(X, X[:, 0], "ridge", cv=2, diagnose=False).report().markdown()
    assert "... and 10 more of 60." in text


def test_decimals_align():
    assert aligned([[20335.4, 5.2], [None, -39.07], [0.0, 187.0]]) == [
        ["20,335", "5"], ["–", "−39"], ["0", "187"],
    ]  # fmt: skip
    assert aligned([[0.5], [-0.00001], [0.25]]) == [["0.500"], ["0.000"], ["0.250"]]
    assert aligned([[1e9], [1.0]]) == [["1.00 billion"], ["0.00 billion"]]
    assert aligned([[1e18], [2e18]]) == [["1.00e+18"], ["2.00e+18"]]
    assert aligned([[0.0], [None]]) == [["0"], ["–"]]


ROW = {
    "name": "a", "unrelated": False, "ci_low": 0.0, "ci_high": 0.3, "share": None, "score": -0.1,
    "of_null": None, "significant": False, "p_adj": 0.7, "rank_low": None, "own": None,
    "missing": None, "latent": 0.1,
}  # fmt: skip


def test_an_estimate_below_zero_is_explained_where_it_stands():
    assert negative_sentence([ROW, ROW]) == f"2 estimates are below zero. {BELOW_ZERO}"
    assert negative_sentence([{**ROW, "score": 0.1}]) is None


def test_a_score_that_comes_through_others_alone_says_so():
    row = {**ROW, "score": 0.2, "significant": True, "p_adj": 0.001, "latent": -0.01}
    assert leading_sentence(row, None, {}).endswith("; all of it comes from correlated features.")


def test_calibration_of_a_rare_class_fills_its_chart():
    bins = [{"predicted": p, "observed": p, "n_rows": 9} for p in (0.001, 0.01, 0.04)]
    chart = calibration(bins)
    assert chart["points"][-1]["x"] > 80
    assert [tick["label"] for tick in chart["x_ticks"]][-1] == "0.04"
    full = calibration([{"predicted": 0.6, "observed": 0.5, "n_rows": 9}])
    assert [tick["label"] for tick in full["x_ticks"]][-1] == "1"


def test_charts_of_a_comparison_have_room_for_their_labels():
    rows = [{**ROW, "name": "a rather long name of a feature", "score": s} for s in (3e4, 1e4)]
    wide, narrow = bars(rows), bars(rows, ticks=2, width=20)
    assert len(narrow["ticks"]) < len(wide["ticks"])
    assert len(narrow["rows"][0]["label"]) <= 20


def test_the_name_of_the_outcome_is_said_everywhere(result):
    assert repr(result).startswith("Importance for balance: 3 features")
    page = result.report().html()
    assert "variance of balance" in page
    assert "for balance" in result._repr_html_()
    assert "variance of balance" in result.plot().get_xlabel()
    assert "The numbers behind these sentences" in page
    assert "Swipe the table sideways" in page


def test_a_result_shows_itself_in_a_notebook_without_pyplot():
    program = (
        "import sys, numpy as np, dfi\n"
        "X = np.random.default_rng(0).standard_normal((60, 2))\n"
        "result = dfi.explain(X, X[:, 0], 'linear', cv=2, diagnose=False)\n"
        "assert '<table' in result._repr_html_()\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)  # noqa: S603
