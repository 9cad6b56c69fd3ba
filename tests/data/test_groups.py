"""Groups of features, in every form."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dfi._data.groups import read_groups

NAMES = ("age", "s1", "s2", "bmi")
MEMBERSHIP = np.array([[False, True, True, False], [True, False, False, True]])
GROUPS = ("serum", "body")
FLAGS = {"serum": [0, 1, 1, 0], "body": [1, 0, 0, 1]}
ROWS = {"age": [0, 1], "s1": [1, 0], "s2": [1, 0], "bmi": [0, 1]}


@pytest.mark.parametrize(
    "groups",
    [
        {"serum": ["s1", "s2"], "body": ["age", "bmi"]},
        {"serum": ("s2", "s1", "s1"), "body": np.array(["age", "bmi"])},
        {"s1": "serum", "s2": "serum", "age": "body", "bmi": "body"},
        pd.DataFrame(FLAGS, index=NAMES),
        pd.DataFrame(FLAGS).astype(bool),
        pd.DataFrame({"feature": NAMES} | FLAGS),
        pl.DataFrame({"feature": NAMES} | FLAGS),
        pa.table({"feature": NAMES} | FLAGS),
        pl.DataFrame(FLAGS),
        pd.DataFrame(FLAGS, index=NAMES).iloc[[1, 3, 0, 2]],
        pl.DataFrame({"feature": NAMES} | FLAGS).sort("feature"),
        pd.DataFrame(ROWS, index=GROUPS),
        pl.DataFrame({"group": GROUPS} | ROWS),
        pl.DataFrame({"group": GROUPS} | ROWS).select("group", "bmi", "s2", "s1", "age"),
        pd.Series(["serum", "body", "serum", "body"], index=["s1", "age", "s2", "bmi"]),
    ],
)
def test_forms(groups: Any) -> None:
    read = read_groups(groups, NAMES)
    assert read.names == GROUPS
    np.testing.assert_array_equal(read.membership, MEMBERSHIP)
    assert read_groups(read, NAMES) is read


@pytest.mark.parametrize(
    "labels",
    [
        ["body", "serum", "serum", None],
        pl.Series(["body", "serum", "serum", None]),
        pd.Series(["body", "serum", "serum", None]),
        pa.array(["body", "serum", "serum", None]),
    ],
)
def test_one_label_per_feature(labels: Any) -> None:
    read = read_groups(labels, NAMES)
    assert read.names == ("body", "serum")
    np.testing.assert_array_equal(
        read.membership, [[True, False, False, False], [False, True, True, False]]
    )


NUMBERED = ("0", "1", "2")
G_AND_H = {"h": [1, 0, 0], "g": [0, 1, 1]}


@pytest.mark.parametrize(
    ("groups", "names", "h"),
    [
        (pd.Series(["h", "g", "g"], index=[2, 1, 0]), NUMBERED, 2),
        (pd.Series(["h", "g", "g"], index=[2.0, 1.0, 0.0]), NUMBERED, 2),
        (pd.Series(["h", "g", "g"], index=[2, 1, 0]), ("x0", "x1", "x2"), 2),
        (pd.Series(["h", "g", "g"]), ("2", "1", "0"), 2),
        (pd.Series(["h", "g", "g"]), ("30", "10", "20"), 0),  # a numbered index names nothing
        (pd.DataFrame(G_AND_H, index=[2, 1, 0]), NUMBERED, 2),
        (pd.DataFrame(G_AND_H, index=[10, 20, 30]), ("30", "10", "20"), 1),
        (pd.DataFrame(G_AND_H), ("30", "10", "20"), 0),
        (pd.DataFrame([[1, 0, 0], [0, 1, 1]], index=["h", "g"], columns=[2, 1, 0]), NUMBERED, 2),
    ],
)
def test_features_with_numbers_for_names_are_matched_by_name(groups, names, h) -> None:
    read = read_groups(groups, names)
    assert read.names == ("h", "g")
    np.testing.assert_array_equal(read.membership, [np.arange(3) == h, np.arange(3) != h])


def test_a_table_may_call_groups_like_features() -> None:
    flags = [[1, 0], [0, 1], [0, 1]]
    read = read_groups(pd.DataFrame(flags, columns=[0, 1], index=[2, 1, 0]), NUMBERED)
    assert read.names == ("0", "1")
    np.testing.assert_array_equal(read.membership, [[False, False, True], [True, True, False]])


@pytest.mark.parametrize(
    ("groups", "names", "text"),
    [
        (pd.Series(["h", "g", "g"]), ("1", "2", "3"), "groups names 0, which is not a feature"),
        (pd.Series(["h", "g", "g"], index=[1, 2, 9]), ("2", "1", "0"), "names 9, which is not a"),
        (pd.Series(["h", "g", "g"], index=[5, 6, 7]), NAMES[:3], "groups names 5, which is not"),
        (pd.DataFrame(G_AND_H, index=[10, 20, 40]), ("30", "10", "20"), "groups names 40, which"),
        (pd.Series(["h", "g"]), ("x0", "x1", "x2"), "groups has 2 labels for 3 features"),
        (
            pd.DataFrame(np.eye(3), columns=[2, 1, 0], index=[2, 1, 0]),
            NUMBERED,
            "groups has the features as its rows and as its columns",
        ),
    ],
)
def test_numbers_that_name_other_features_are_refused(groups, names, text) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        read_groups(groups, names)


def test_number_labels() -> None:
    assert read_groups([1, 2, 2, 1], NAMES).names == ("1", "2")
    assert read_groups(pd.Series([1, 2, 2, 1]), NAMES).names == ("1", "2")


def test_overlap_is_allowed() -> None:
    read = read_groups({"a": ["s1", "s2"], "b": ["s2", "bmi"]}, NAMES)
    np.testing.assert_array_equal(read.membership.sum(axis=0), [0, 1, 2, 1])


def test_a_series_may_name_a_feature_twice() -> None:
    read = read_groups(pd.Series(["a", "b", "b"], index=["s1", "s1", "bmi"]), NAMES)
    np.testing.assert_array_equal(
        read.membership, [[False, True, False, False], [False, True, False, True]]
    )


def test_one_column_per_group_is_understood() -> None:
    read = read_groups({"years": "age", "mass": "bmi"}, NAMES)
    assert read.names == ("years", "mass")
    np.testing.assert_array_equal(read.membership, np.eye(4, dtype=bool)[[0, 3]])
    mixed = read_groups({"serum": ["s1", "s2"], "years": "age"}, NAMES)
    np.testing.assert_array_equal(mixed.membership.sum(axis=1), [2, 1])


def test_a_group_called_like_a_column() -> None:
    read = read_groups({"age": "bmi", "s1": "bmi"}, NAMES)
    assert read.names == ("bmi",)
    np.testing.assert_array_equal(read.membership, [[True, True, False, False]])


def test_positions_stand_for_the_columns_of_an_array() -> None:
    names = ("x0", "x1", "x2")
    read = read_groups({"a": [0, np.int64(2)], "b": ["x1"]}, names)
    np.testing.assert_array_equal(read.membership, [[True, False, True], [False, True, False]])
    read = read_groups({0: "a", 1: "b", 2: "a"}, names)
    np.testing.assert_array_equal(read.membership, [[True, False, True], [False, True, False]])
    with pytest.raises(ValueError, match="Group 'a' names 3, which is not a feature"):
        read_groups({"a": [3]}, names)
    with pytest.raises(ValueError, match="Group 'a' names 0, which is not a feature"):
        read_groups({"a": [0]}, NAMES)


def test_arrays_of_flags() -> None:
    read = read_groups(MEMBERSHIP.astype(int), NAMES)
    assert read.names == ("group 0", "group 1")
    np.testing.assert_array_equal(read.membership, MEMBERSHIP)


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ({"serum": ["s1", "s22"]}, "Group 'serum' names 's22', which is not a feature. Did you "),
        ({"serum": ["qqq"]}, "The features are 'age', 's1', 's2', 'bmi'."),
        ({"agee": "body", "s1": "serum"}, "groups names 'agee', which is not a feature. Did you "),
        ({"serum": []}, "Group 'serum' is empty; give it a feature or leave it out."),
        (pd.DataFrame({"serum": [0, 0, 0, 0]}, index=NAMES), "Group 'serum' is empty"),
        ({}, "groups is empty; name at least one group."),
        ([None] * 4, "groups is empty"),
        ({1: ["s1"], "1": ["s2"]}, "Two groups are called '1'; rename one."),
        (["a", "b"], "groups has 2 labels for 4 features"),
        (pl.DataFrame({"serum": [0, 1]}), "groups has 2 rows for 4 features; name the rows"),
        (pl.DataFrame({"serum": [0, 1, 2, 0]}), "groups is a table with values other than 0 and 1"),
        (pl.DataFrame({"f": ["age", "age"], "g": [0, 1]}), "more than one row called 'age'"),
        (pl.DataFrame({"f": ["age", "agg"], "g": [0, 1]}), "groups names 'agg', which is not a"),
        (pl.DataFrame({"f": ["age", "bmi"]}), "groups has no column of 0 and 1."),
        (np.ones((2, 3)), "groups has shape (2, 3); a 0/1 array needs one row per group"),
    ],
)
def test_bad_groups(groups: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        read_groups(groups, NAMES)


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ("serum", "groups is a string; pass a dict"),
        (3, "groups is a int; pass a dict of group names"),
        ({"s1", "s2"}, "groups is a set; pass a dict of group names"),
        ([["s1"], ["s2"]], "groups is a list of lists; pass a dict"),
        (pl.LazyFrame(FLAGS), "groups is a LazyFrame: call .collect()"),
    ],
)
def test_groups_of_the_wrong_type(groups: Any, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        read_groups(groups, NAMES)
