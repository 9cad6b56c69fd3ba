"""Reading the outcome."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dfi._data.outcome import read_outcome
from dfi.warnings import OutcomeWarning


@pytest.mark.parametrize(
    "y",
    [
        [0.5, 1.5, 3.0],
        (0.5, 1.5, 3),
        np.array([0.5, 1.5, 3.0], dtype="float32"),
        np.array([[0.5], [1.5], [3.0]]),
        pd.Series([0.5, 1.5, 3.0]),
        pd.Series([0.5, 1.5, 3.0], dtype="Float64"),
        pd.DataFrame({"y": [0.5, 1.5, 3.0]}),
        pl.Series([0.5, 1.5, 3.0]),
        pl.DataFrame({"y": [0.5, 1.5, 3.0]}),
        pa.array([0.5, 1.5, 3.0]),
        pa.chunked_array([[0.5, 1.5], [3.0]]),
        pa.table({"y": [0.5, 1.5, 3.0]}),
    ],
)
def test_every_container(y: object) -> None:
    outcome = read_outcome(y, 3)
    np.testing.assert_array_equal(outcome.values, [0.5, 1.5, 3.0])
    assert outcome.values.dtype == np.float64
    assert (outcome.name, outcome.kind) == ("y", "real")


def test_the_name_of_a_series_is_kept() -> None:
    assert read_outcome(pd.Series([0.5, 1.5], name="bmi"), 2).name == "bmi"
    assert read_outcome(pl.Series("bmi", [0.5, 1.5]), 2).name == "bmi"
    assert read_outcome(pl.DataFrame({"bmi": [0.5, 1.5]}), 2).name == "bmi"


def test_kinds() -> None:
    assert read_outcome([0, 1, 1], 3).kind == "binary"
    assert read_outcome([0.0, 1.0, 1.0], 3).kind == "binary"
    assert read_outcome(range(11), 11).kind == "real"
    assert read_outcome(range(11), 11, counted=True).kind == "count"
    prices = [212_000, 189_900, 340_000]
    assert read_outcome(prices, 3, task="regression").kind == "real"
    assert read_outcome(np.arange(-1, 10), 11).kind == "real"
    assert read_outcome([1.0, 2.0, 3.0], 3).kind == "real"


def test_an_outcome_as_wide_as_floats_go() -> None:
    assert read_outcome([-1.7e308, 1.7e308, 0.5], 3).kind == "real"


def test_no_values() -> None:
    with pytest.raises(ValueError, match="y has no values"):
        read_outcome([], 0)


def test_booleans_are_two_classes_without_a_word() -> None:
    for y in ([True, False, True], pl.Series([True, False, True]), pa.array([True, False, True])):
        outcome = read_outcome(y, 3)
        np.testing.assert_array_equal(outcome.values, [1.0, 0.0, 1.0])
        assert (outcome.kind, outcome.classes) == ("binary", ("False", "True"))
    outcome = read_outcome([True, False, True], 3, positive=False)
    np.testing.assert_array_equal(outcome.values, [0.0, 1.0, 0.0])
    assert outcome.as_dict()["positive"] == "False"


def test_few_integers_look_like_classes() -> None:
    text = re.escape("y holds integers with only 3 different values (0, 1, 2): they look like")
    with pytest.warns(OutcomeWarning, match=text) as caught:
        read_outcome(pd.Series([0, 1, 2, 0]), 4)
    assert "Pass task='classification' if they are classes" in str(caught[0].message)
    found = read_outcome(pd.Series([0, 1, 2, 0]), 4, task="classification")
    assert (found.kind, found.classes) == ("classes", ("0", "1", "2"))
    np.testing.assert_array_equal(found.members[2].values, [0.0, 0.0, 1.0, 0.0])
    assert read_outcome(pd.Series([0, 1, 2, 0]), 4, task="regression").kind == "real"
    assert read_outcome([0, 1, 1], 3, task="regression").kind == "real"
    assert read_outcome([0, 1, 1], 3, counted=True).kind == "count"
    with pytest.warns(OutcomeWarning, match="only 10 different"):
        read_outcome(range(10), 10)


@pytest.mark.parametrize("y", [[1, 2, 2], [-1, 1, 1], [1.0, 2.0, 2.0], np.array([2, 3, 2], "u1")])
def test_two_codes_of_classes_are_no_counts(y) -> None:
    low, high = sorted(set(y))
    text = re.escape(f"only 2 different values ({low:g}, {high:g}): they look like classes")
    with pytest.warns(OutcomeWarning, match=text):
        assert read_outcome(y, 3).kind == "real"
    assert read_outcome(y, 3, task="classification").kind == "binary"


@pytest.mark.parametrize(
    "y",
    [
        ["no", "yes", "no"],
        np.array(["no", "yes", "no"]),
        pd.Series(["no", "yes", "no"], dtype=object),
        pd.Series(["no", "yes", "no"], dtype="category"),
        pl.Series(["no", "yes", "no"]),
        pa.array(["no", "yes", "no"]),
    ],
)
def test_two_labels(y: object) -> None:
    outcome = read_outcome(y, 3)
    np.testing.assert_array_equal(outcome.values, [0.0, 1.0, 0.0])
    assert (outcome.kind, outcome.classes, outcome.named) == ("binary", ("no", "yes"), True)
    outcome = read_outcome(y, 3, positive="no")
    np.testing.assert_array_equal(outcome.values, [1.0, 0.0, 1.0])
    assert outcome.classes == ("yes", "no")
    with pytest.raises(TypeError, match=re.escape("y holds classes or strings ('no', 'yes') and")):
        read_outcome(y, 3, task="regression")
    with pytest.raises(
        ValueError, match=r"pos_label='yess' is not a class of y.*did you mean 'yes'"
    ):
        read_outcome(y, 3, positive="yess")


def test_three_labels() -> None:
    y = pd.Series(["b", "a", "c", "a"], name="kind")
    outcome = read_outcome(y, 4)
    assert (outcome.kind, outcome.classes, outcome.n_classes) == ("classes", ("a", "b", "c"), 3)
    assert [member.name for member in outcome.members] == ["a", "b", "c"]
    total = np.sum([member.values for member in outcome.members], axis=0)
    np.testing.assert_array_equal(total, 1.0)
    one = read_outcome(y, 4, positive="c")
    assert (one.kind, one.classes) == ("binary", ("not c", "c"))
    declared = pd.Series(["b", "a", "c", "a"], dtype=pd.CategoricalDtype(["c", "b", "a", "z"]))
    assert read_outcome(declared, 4).classes == ("c", "b", "a")


def test_numbers_of_two_classes() -> None:
    outcome = read_outcome([1, 2, 2, 1], 4, task="classification")
    assert (outcome.kind, outcome.classes, outcome.named) == ("binary", ("1", "2"), True)
    np.testing.assert_array_equal(outcome.values, [0.0, 1.0, 1.0, 0.0])
    # a label from a command line is text
    np.testing.assert_array_equal(
        read_outcome([1, 2, 2, 1], 4, task="classification", positive="1").values, [1, 0, 0, 1]
    )


def test_several_outcomes() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [3, 1, 2]})
    for y in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        outcome = read_outcome(y, 3)
        assert (outcome.kind, outcome.name) == ("several", "a + b")
        np.testing.assert_array_equal(outcome.members[1].values, [3.0, 1.0, 2.0])
        assert outcome.as_dict()["outcomes"] == ["a", "b"]
    assert read_outcome(frame.to_numpy(), 3).members[0].name == "y0"
    with pytest.raises(TypeError, match="'b' holds classes or strings"):
        read_outcome(frame.assign(b=["x", "y", "z"]), 3)
    with pytest.raises(ValueError, match="several outcomes are explained as quantities"):
        read_outcome(frame, 3, task="classification")


@pytest.mark.parametrize(
    ("y", "options", "text"),
    [
        (["a", "a", "a"], {}, "y has one class only ('a' in every row)"),
        (["a", None, "b"], {}, "y has 1 missing labels, the first in row 1"),
        ([1.5, 2.5, 3.0], {"positive": 2.5}, "pos_label=2.5 names the class that is explained"),
    ],
)
def test_bad_classes(y: object, options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        read_outcome(y, 3, **options)


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([1j, 2j], "y holds complex numbers (complex128)"),
        (pd.Series([1j, 2j]), "y holds complex numbers (complex128)"),
        ([dt.datetime(2020, 1, 1)] * 2, "y holds dates or times (datetime)"),
        (np.array(["2020", "2021"], dtype="datetime64[D]"), "y holds dates or times"),
        (pl.Series([dt.date(2020, 1, 1)] * 2), "y holds dates or times (Date)"),
        (pd.Series([1, "a"], dtype=object), "y mixes objects of type int and str"),
        ("ab", "y is of type str: pass a list, an array or a Series"),
        (None, "y is of type NoneType: pass"),
        (1.5, "y is of type float: pass"),
        (pl.LazyFrame({"y": [1.0, 2.0]}), "y is a LazyFrame: call .collect()"),
    ],
)
def test_things_that_are_no_numbers(y: object, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        read_outcome(y, 2)


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([1.0, np.nan, 2.0], "y has 1 missing (NaN, null) or infinite values, the first in row 1"),
        ([1.0, 2.0, np.inf], "y has 1 missing (NaN, null) or infinite values, the first in row 2"),
        ([None, None, 2.0], "y has 2 missing (NaN, null) or infinite values, the first in row 0"),
        (pl.Series([1, None, 2]), "y has 1 missing (NaN, null) or infinite values, the first in"),
        ([2.5, 2.5, 2.5], "y is constant (every value is 2.5): there is nothing to explain."),
        ([0.3, 0.1 + 0.2, 0.3], "y is constant"),
        ([1.0, 2.0], "X has 3 rows and y has 2 values; they must be the same rows."),
        (["time", "event"], "If these are names of columns of X: a time and its event need task="),
        (np.ones((3, 2)), "y is constant (every value is 1)"),
        ([[1.0, 2.0]] * 3, "y has 2 columns; it must have one. Explain them one at a time."),
        (
            np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
            "y has 1 missing (NaN, null) or infinite values, the first in row 1",
        ),
        ([[1.0, 2.0], [3.0], [4.0]], "y has elements of different lengths; pass one value each."),
        (np.ones((3, 1, 1)), "y has 3 dimensions; it must have one value per row."),
    ],
)
def test_bad_values(y: object, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        read_outcome(y, 3)


def test_few_whole_numbers_beside_a_classifier_are_classes():
    outcome = read_outcome([0.0, 1.0, 2.0, 1.0], 4, classified=True)
    assert outcome.kind == "classes"
    assert outcome.classes == ("0", "1", "2")
    assert read_outcome(range(11), 11, classified=True).kind == "real"
    assert read_outcome([0.5, 1.0, 2.0], 3, classified=True).kind == "real"
    assert read_outcome([0.0, 1.0, 2.0], 3, classified=True, task="regression").kind == "real"
