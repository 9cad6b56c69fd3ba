"""Rows that are read and decoded come back as they were, in every library and dtype."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dfi._data.table import read_table

N = 30
RNG = np.random.default_rng(0)
REAL = RNG.normal(size=N)
WHOLE = RNG.integers(0, 5, N)
FLAG = RNG.random(N) < 0.5
WORDS = RNG.choice(["red", "green", "blue"], N).tolist()
SEX = RNG.choice(["m", "f"], N).tolist()
# narwhals knows half precision since a version after 2.22; before, such columns are refused
HALF = "float16" if hasattr(nw, "Float16") else "float32"


def pandas_frame() -> pd.DataFrame:
    frame = pd.DataFrame({"real": REAL, "whole": WHOLE, "flag": FLAG, "words": WORDS, "sex": SEX})
    order = pd.CategoricalDtype(["blue", "never", "red", "green"], ordered=True)
    return frame.assign(
        float32=frame.real.astype("float32"),
        float16=frame.real.astype(HALF),
        uint8=frame.whole.astype("uint8"),
        Int8=frame.whole.astype("Int8"),
        Float64=frame.real.astype("Float64"),
        boolean=frame.flag.astype("boolean"),
        string=frame.words.astype("string"),
        objects=frame.words.astype(object),
        numbers=frame.whole.astype(object),
        ordered=frame.words.astype(order),
        category=frame.whole.astype("category"),
        arrow=frame.whole.astype("int64[pyarrow]"),
        arrow_words=frame.words.astype("string[pyarrow]"),
        arrow_levels=frame.words.astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
    )


def polars_frame() -> pl.DataFrame:
    frame = pl.DataFrame({"real": REAL, "whole": WHOLE, "flag": FLAG, "words": WORDS, "sex": SEX})
    return frame.with_columns(
        pl.col("real").cast(pl.Float32).alias("float32"),
        pl.col("real").cast(pl.Decimal(10, 3)).alias("decimal"),
        pl.col("whole").cast(pl.UInt8).alias("uint8"),
        pl.col("words").cast(pl.Categorical).alias("categorical"),
        pl.col("words").cast(pl.Enum(["blue", "never", "red", "green"])).alias("enum"),
    )


def arrow_table() -> pa.Table:
    words = pa.array(WORDS)
    return pa.table(
        {
            "real": REAL,
            "whole": WHOLE,
            "flag": FLAG,
            "words": words,
            "sex": pa.array(SEX),
            "levels": words.dictionary_encode(),
            "ordered": pa.DictionaryArray.from_arrays(
                pa.array(WHOLE % 3, type=pa.int8()), pa.array(["low", "mid", "high"]), ordered=True
            ),
            "large": words.cast(pa.large_string()),
            "float32": pa.array(REAL.astype("float32")),
            "float16": pa.array(REAL.astype(HALF)),
            "decimal": pa.array([Decimal(f"{x:.2f}") for x in REAL]).cast(pa.decimal128(10, 2)),
        }
    )


def all_levels(table: Any) -> Any:
    return table.levels_with(table.names)


def same(left: Any, right: Any) -> None:
    if isinstance(left, pd.DataFrame):
        pd.testing.assert_frame_equal(left, right)
    elif isinstance(left, pl.DataFrame):
        polars.testing.assert_frame_equal(left, right)
    else:
        assert left.schema == right.schema
        assert left.equals(right)


@pytest.mark.parametrize("X", [pandas_frame(), polars_frame(), arrow_table()])
def test_exact_rows_come_back_as_they_were(X: Any) -> None:
    table = read_table(X)
    back = table.frame(table.matrix, levels=all_levels(table))
    same(back, X)
    np.testing.assert_array_equal(table.like(back).matrix, table.matrix)


@pytest.mark.parametrize("X", [pandas_frame(), polars_frame(), arrow_table()])
def test_small_perturbations_round_back(X: Any) -> None:
    table = read_table(X)
    noise = np.random.default_rng(1).uniform(-1e-9, 1e-9, table.matrix.shape)
    same(table.frame(table.matrix + noise, levels=all_levels(table)), X)


@pytest.mark.parametrize("X", [pandas_frame(), polars_frame(), arrow_table()])
def test_numbers_stay_real_and_levels_stay_levels(X: Any) -> None:
    table = read_table(X)
    moved = table.matrix + 0.25
    back = table.frame(moved)
    values = np.asarray(back["real"])
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, moved[:, table.columns[0].positions[0]])
    for name, own in (("whole", WHOLE), ("flag", FLAG)):
        values = np.asarray(back[name])
        assert values.dtype == own.dtype
        np.testing.assert_array_equal(values, own)


@pytest.mark.parametrize("X", [pandas_frame(), polars_frame(), arrow_table()])
def test_decoding_more_rows_than_were_read(X: Any) -> None:
    table = read_table(X)
    back = table.frame(np.vstack([table.matrix] * 3))
    assert len(back) == 3 * N
    assert np.asarray(back["whole"]).dtype == WHOLE.dtype
    assert list(np.asarray(back["words"]).astype(str)[:N]) == WORDS


def test_levels_win_by_the_largest_value() -> None:
    table = read_table(pd.DataFrame({"c": ["a", "b", "c"], "s": ["f", "m", "m"]}))
    rows = np.array([[0.2, 0.9, 0.3, 0.4], [-1.0, -2.0, -3.0, 0.6], [0.1, 0.1, 0.2, 0.5]])
    back = table.frame(rows)
    assert back["c"].tolist() == ["b", "a", "c"]
    assert back["s"].tolist() == ["f", "m", "f"]


def test_pandas_labels_are_kept() -> None:
    X = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=pd.Index([3, "b"], name="feature"))
    table = read_table(X)
    assert table.names == ("3", "b")
    assert table.columns[0].label == 3
    pd.testing.assert_frame_equal(table.frame(table.matrix), X)
    wide = X.set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]), axis=1)
    table = read_table(wide)
    pd.testing.assert_frame_equal(table.frame(table.matrix), wide)


def test_arrays() -> None:
    whole = np.array([[1, 2], [5, 9], [7, 1]])
    table = read_table(whole)
    back = table.frame(table.matrix + 0.4)
    assert back.dtype == whole.dtype
    np.testing.assert_array_equal(back, whole)
    real = np.random.default_rng(0).normal(size=(60, 2))
    real[:, 1] = np.round(real[:, 1])
    table = read_table(real)
    half = table.frame(table.matrix + 0.4)
    assert half.dtype == np.float64
    np.testing.assert_allclose(half, real + np.array([0.4, 0.0]))


def test_object_arrays() -> None:
    X = np.array([[1, "a", True], [2.5, "b", False], [3, "c", True]], dtype=object)
    table = read_table(X)
    back = table.frame(table.matrix, levels=all_levels(table))
    assert back.dtype == object
    np.testing.assert_array_equal(back, X)
    assert isinstance(back[0, 2], bool)


LEVELS = st.lists(st.text("abcxyz", min_size=1, max_size=3), min_size=2, max_size=12)
WHOLES = st.lists(st.integers(-(2**53), 2**53), min_size=12, max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    words=LEVELS,
    whole=WHOLES,
    real=hnp.arrays(
        np.float64, 12, elements=st.floats(allow_nan=False, allow_infinity=False, width=64)
    ),
    flag=st.lists(st.booleans(), min_size=12, max_size=12),
    library=st.sampled_from(["pandas", "polars", "pyarrow"]),
)
def test_read_then_decode_is_the_identity(
    words: list[str], whole: list[int], real: np.ndarray, flag: list[bool], library: str
) -> None:
    n = len(words)
    data = {"w": words, "k": whole[:n], "r": real[:n], "b": flag[:n]}
    build: Any = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
    X = build(data)
    table = read_table(X)
    same(table.frame(table.matrix, levels=all_levels(table)), X)


@settings(max_examples=100, deadline=None)
@given(
    observed=hnp.arrays(np.float64, 5, elements=st.floats(-1e6, 1e6)),
    asked=st.floats(-2e6, 2e6),
    step=st.integers(0, 4),
)
def test_levels_are_the_nearest_observed(observed: np.ndarray, asked: float, step: int) -> None:
    observed[step] = np.nextafter(observed[0], np.inf)
    table = read_table(observed[:, None])
    got = table.frame(np.array([[asked]]))[0, 0]
    assert got in observed
    nearest = np.min(np.abs(observed - asked))
    # a midpoint is rounded to a float
    assert abs(got - asked) <= nearest + 4 * np.spacing(np.abs(observed).max())
    np.testing.assert_array_equal(table.frame(table.matrix), table.matrix)
