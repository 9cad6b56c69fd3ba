"""Tables, texts and pages show the columns of the schema, and the documentation lists them."""

import re
from pathlib import Path

import numpy as np
import pytest

import dfi
from dfi.results import columns
from dfi.results.columns import (
    CHANGES,
    INTERVALS,
    LOCAL,
    METHODS,
    OUTCOMES,
    RANKS,
    SETTINGS,
    SHARES,
    TESTS,
    UNITS,
    page_cells,
    written,
)
from dfi.results.numbers import FIGURE_SPACE

SAMPLE = dfi.datasets.m1(120, d=3)
TABLES = {
    name: schema
    for name, schema in vars(columns).items()
    if name[0].isupper() and isinstance(schema, tuple) and isinstance(schema[0], columns.Column)
}


@pytest.fixture(scope="module")
def result():
    return dfi.explain(SAMPLE.X, SAMPLE.y, "linear", cv=2, diagnose=False)


def keys(schema, place="table", leave_out=()):
    return [c.key for c in schema if place in c.shown and c.key not in leave_out]


def test_tables_have_the_columns_of_the_schema_in_its_order(result):
    assert list(result.table().columns) == keys(UNITS, leave_out=["certain"])
    assert list(result.top(2).columns) == keys(UNITS)
    assert list(result.ranks().columns) == keys(RANKS)
    assert list(result.shares().columns) == keys(SHARES)
    assert list(result.interval().columns) == keys(INTERVALS)
    assert list(result.test().columns) == keys(TESTS)
    assert list(result.local([0, 1]).table().columns) == keys(LOCAL)
    found = dfi.change(result, result)
    assert list(found.table().columns) == keys(CHANGES)


def test_tables_of_several_results_have_the_columns_of_the_schema():
    both = dfi.compare(SAMPLE.X, SAMPLE.y, ["dfi", "loco"], estimator="linear", cv=2)
    assert list(both.table().columns) == keys(METHODS)
    transports = ["gaussian", "copula"]
    options = {"estimator": "linear", "cv": 2, "diagnose": False}
    settings = dfi.sensitivity(SAMPLE.X, SAMPLE.y, transports=transports, **options)
    assert list(settings.table().columns) == keys(SETTINGS)
    grade = np.array(["a", "b", "c"])[np.digitize(SAMPLE.y, [-2, 2])]
    classes = dfi.explain(SAMPLE.X, grade, "linear", cv=2, diagnose=False)
    assert list(classes.table(by="outcome").columns) == keys(OUTCOMES)


def test_every_column_is_declared_once_in_its_table():
    for schema in TABLES.values():
        assert len(set(keys(schema))) == len(keys(schema))
        declared = {column.key for column in schema}
        assert all(end in declared for column in schema for end in column.ends)


def test_text_and_page_take_their_columns_from_the_schema(result):
    head = str(result).splitlines()[3]
    for key in keys(UNITS, "print"):
        assert re.search(rf"\b{key}\b", head)
    page = result.report().html()
    for key in keys(UNITS, "page", leave_out=["missing"]):
        assert f'data-key="{key}"' in page


def test_the_documentation_lists_every_column_with_its_meaning():
    page = (Path(__file__).parents[2] / "docs" / "columns.md").read_text(encoding="utf-8")
    for schema in TABLES.values():
        for column in schema:
            assert re.search(
                rf"^\| `{column.key}`.* \| {re.escape(column.meaning)} \|$", page, re.M
            )


ROWS = [
    {"share": 0.5, "share_low": 0.25, "share_high": 0.75, "score": 12.0, "ci_low": 6.0,
     "ci_high": 18.0, "se": 3.0, "z": -4.0, "p_adj": 0.0001, "rank_low": 1},
    {"share": None, "score": np.nan, "p_adj": 0.25},
]  # fmt: skip


def test_values_are_written_by_their_kind():
    heads, cells = page_cells(UNITS, ROWS, {"se": "error"})
    assert ("se", "error", False) in heads
    assert ("p_adj", "adjusted p", True) in heads
    assert cells[0]["share"] == "50.0 %"
    assert cells[0]["z"] == "−4.00"
    assert cells[0]["p_adj"] == "< 0.001"
    assert cells[0]["rank_low"] == "1"
    assert cells[1]["score"] == cells[1]["share"] == "–"
    assert "latent" not in cells[0]  # no row has one


def test_texts_write_intervals_behind_values():
    found = written(UNITS, ROWS, "terminal", interval="95 % interval")
    assert found["share (95 % interval)"][0] == "50.0 % (25.0 to 75.0 %)"
    assert found["score (95 % interval)"][0].split() == ["12.0", "(6.0", "to", "18.0)"]
    printed = written(UNITS, ROWS, "print", interval="95 % interval")
    assert list(printed) == ["share (95 % interval)", "score (95 % interval)", "se", "p_adj"]
    assert printed["p_adj"] == ["<0.001", "0.250"]


@pytest.mark.parametrize(("scale", "heading"), [(1e9, "score / 1e9"), (1e-9, "score / 1e-9")])
@pytest.mark.parametrize("place", ["print", "notebook", "terminal", "markdown", "page"])
def test_scores_far_from_one_are_written_in_powers_of_ten(place, scale, heading):
    rows = [
        {"score": 9.27 * scale, "ci_low": 7.2 * scale, "ci_high": 11.9 * scale, "se": 1.2 * scale},
        {"score": -0.039 * scale, "ci_low": -0.04 * scale, "ci_high": 0.02 * scale, "se": None},
    ]
    texts = {head.partition(" (")[0]: cells for head, cells in written(UNITS, rows, place).items()}
    assert texts[heading][0].replace(FIGURE_SPACE, " ").strip().startswith("9.2")
    assert "e" not in "".join(texts[heading])
    assert rows[0]["score"] == 9.27 * scale


def test_scores_of_ordinary_size_are_written_as_they_are():
    rows = [{"score": 978.0, "ci_low": 659.0, "ci_high": 1402.0, "se": 171.0}]
    assert list(written(UNITS, rows, "print")) == ["score (interval)", "se"]
    # of which most would be 0.0000 all have the decimals of the largest
    rows = [{"score": value, "se": value} for value in (0.2428, 7.36e-8, -8.17e-9)]
    found = written(UNITS, rows, "print")
    assert [cell.split()[0] for cell in found["score (interval)"]] == ["0.2428", "0.0000", "0.0000"]
    # of sizes that no power of ten brings together, each has its own
    rows = [{"score": value, "se": value} for value in (1e12, 1e-3, 2e-3)]
    assert next(iter(written(UNITS, rows, "page"))) == "score"
