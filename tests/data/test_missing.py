"""Missing values: a value and an indicator, or one more level, and the way back."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfi
from dfi._data.levels import Gap
from dfi._data.problem import read_data
from dfi._data.table import read_table
from tests.data.test_round_trip import all_levels, arrow_table, pandas_frame, polars_frame, same

N = 30
GAPS = np.random.default_rng(3).random((N, 40)) < 0.3
GAPS[0] = False


def pandas_with_gaps() -> pd.DataFrame:
    frame = pandas_frame()
    frame["words_nan"] = frame["objects"].where(~GAPS[:, 30], np.nan)
    frame["flags"] = frame["flag"].astype(object)
    for place, name in enumerate(frame.columns):
        column = frame[name]
        if column.dtype.kind in "iub" and isinstance(column.dtype, np.dtype):
            continue  # numpy's integers and booleans cannot be missing
        if column.dtype == object and name != "words_nan":
            frame[name] = [
                None if gap else v for v, gap in zip(column, GAPS[:, place], strict=True)
            ]
            frame[name] = frame[name].astype(object)
        else:
            frame[name] = column.mask(pd.Series(GAPS[:, place]))
            assert frame[name].dtype == column.dtype
    return frame


def polars_with_gaps() -> pl.DataFrame:
    frame = polars_frame()
    return frame.with_columns(
        pl.when(pl.Series(~GAPS[:, place])).then(pl.col(name)).alias(name)
        for place, name in enumerate(frame.columns)
    )


def arrow_with_gaps() -> pa.Table:
    frame = arrow_table()
    columns = {}
    for place, name in enumerate(frame.column_names):
        places = [None if gap else row for row, gap in enumerate(GAPS[:, place])]
        columns[name] = frame[name].combine_chunks().take(pa.array(places, type=pa.int64()))
    return pa.table(columns)


TABLES = [pandas_with_gaps(), polars_with_gaps(), arrow_with_gaps()]
IDS = ["pandas", "polars", "pyarrow"]


@pytest.mark.parametrize("X", TABLES, ids=IDS)
def test_rows_come_back_as_they_were(X: Any) -> None:
    table = read_table(X)
    assert np.isfinite(table.matrix).all()
    same(table.frame(table.matrix, levels=all_levels(table)), X)
    np.testing.assert_array_equal(table.like(X).matrix, table.matrix)
    noise = np.random.default_rng(1).uniform(-1e-9, 1e-9, table.matrix.shape)
    same(table.frame(table.matrix + noise, levels=all_levels(table)), X)


@pytest.mark.parametrize("X", TABLES, ids=IDS)
def test_numbers_between_levels_keep_their_gaps(X: Any) -> None:
    table = read_table(X)
    back = table.frame(table.matrix)
    if isinstance(X, pd.DataFrame):
        for name in ("real", "Float64"):
            assert back[name].dtype == X[name].dtype
            pd.testing.assert_series_equal(back[name], X[name])
    elif isinstance(X, pl.DataFrame):
        assert back["real"].equals(X["real"])
        assert back["real"].null_count() == X["real"].null_count()
    else:
        assert back["real"].equals(X["real"])


def test_an_array_comes_back_with_nan() -> None:
    X = np.random.default_rng(0).normal(size=(N, 3))
    X[GAPS[:, :3]] = np.nan
    table = read_table(X)
    np.testing.assert_array_equal(table.frame(table.matrix), X)
    np.testing.assert_array_equal(table.seen(table.matrix), X)
    whole = np.round(X * 2)
    table = read_table(whole.astype(np.float32))
    back = table.frame(table.matrix + 0.2)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, whole)


def test_an_array_of_objects_keeps_what_stands_for_nothing() -> None:
    X = np.array([[1, "a"], [None, "b"], [3, None], [4, "a"], [5, "c"]], dtype=object)
    table = read_table(X)
    assert table.frame(table.matrix).tolist() == X.tolist()
    X[2, 1] = np.nan
    back = read_table(X).frame(read_table(X).matrix)
    assert back[1, 0] is None
    assert np.isnan(back[2, 1])


def test_a_masked_array_has_gaps() -> None:
    X = np.ma.masked_array(np.arange(8).reshape(4, 2), mask=np.eye(4, 2))
    table = read_table(X)
    assert [column.kind for column in table.columns] == ["integer", "integer"]
    np.testing.assert_array_equal(table.frame(table.matrix), np.ma.filled(X.astype(float), np.nan))


def test_value_and_indicator() -> None:
    frame = pd.DataFrame({"age": [1.0, np.nan, 4.0], "full": [1.0, 2.0, 3.5]})
    table = read_table(frame)
    age, full = table.columns
    assert (age.positions, full.positions) == ((0, 1), (2,))
    assert (age.fill, full.fill) == (2.5, None)
    assert (age.missing, full.missing) == (True, False)
    assert table.matrix_names == ("age", "age missing", "full")
    np.testing.assert_array_equal(table.matrix, [[1, 0, 1], [2.5, 1, 2], [4, 0, 3.5]])
    assert table.missing == (age,) == table.gaps


def test_a_category_has_one_more_level() -> None:
    frame = pd.DataFrame({"c": ["b", None, "a"], "one": ["x", "x", None]})
    table = read_table(frame)
    assert [column.levels for column in table.columns] == [("a", "b", None), ("x", None)]
    assert table.matrix_names == ("c=a", "c=b", "c=missing", "one=missing")
    np.testing.assert_array_equal(table.matrix, [[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]])
    assert table.gaps == ()
    np.testing.assert_array_equal(table.where_missing(table.columns[0]), [False, True, False])
    np.testing.assert_array_equal(table.where_missing(table.columns[1]), [False, False, True])


def test_a_level_may_be_called_missing() -> None:
    table = read_table(pd.DataFrame({"c": ["missing", None, "a"]}))
    assert table.matrix_names == ("c=a", "c=missing", "c=(missing)")


def test_unused_levels_change_nothing_but_the_dtype() -> None:
    kind = pd.CategoricalDtype(["never", "a", "b"])
    frame = pd.DataFrame({"c": pd.Series(["a", None, "b", "a"], dtype=kind)})
    table = read_table(frame)
    assert table.columns[0].levels == ("a", "b", None)
    rows = np.array([[0.4, 0.3, 0.5], [0.4, 0.3, 0.2]])
    back = table.frame(rows)["c"]
    assert back.isna().tolist() == [True, False]
    assert back[1] == "a"
    assert back.dtype == kind


def test_a_dictionary_that_holds_nothing() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), pa.array(["a", None, "b"]))
    table = read_table(pa.table({"c": column}))
    assert table.columns[0].levels == ("a", "b", None)
    assert table.frame(table.matrix)["c"].to_pylist() == ["a", None, "b", "a"]


def test_decoding_by_the_indicator() -> None:
    """(V, M) is (fill, 1) where M > 1/2, else V or its nearest observed level; the fill is none."""
    frame = pd.DataFrame(
        {"count": pd.array([0, 10, None, 0], dtype="Int64"), "real": [0.1, np.nan, 0.25, 0.7]}
    )
    table = read_table(frame)
    fill = table.columns[0].fill
    assert table.levels.gaps == (Gap(0, 1, fill), Gap(2, 3, table.columns[1].fill))
    assert fill == 10 / 3
    rows = np.array([[4.0, 0.5, 0.2, 0.51], [9.0, 0.6, 0.2, 0.4], [9.0, 0.4, 9.9, -3.0]])
    decoded = table.levels_with(["count"]).nearest(rows)
    real = table.columns[1].fill
    # few values of 'real' are levels too
    np.testing.assert_allclose(decoded, [[0.0, 0, real, 1], [fill, 1, 0.25, 0], [10, 0, 0.7, 0]])
    back = table.frame(rows)
    assert back["count"].tolist() == [0, pd.NA, 10]
    assert back["count"].dtype == "Int64"


def test_real_numbers_have_no_levels_because_of_the_fill() -> None:
    values = np.random.default_rng(0).normal(size=200)
    values[:150] = np.nan
    table = read_table(np.column_stack([values, np.arange(200.0)]))
    assert 0 not in table.levels.positions
    assert 1 in table.levels.positions
    rows = table.matrix[:2].copy()
    rows[:, 0] += [0.123, 0.123]
    rows[1, 1] = 0.2
    decoded = table.levels.nearest(rows)
    assert decoded[0, 0] == table.columns[0].fill
    assert decoded[1, 0] == rows[1, 0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-5, 5).map(float)),
        min_size=2,
        max_size=30,
    ),
    st.sampled_from(["float64", "Float64", "float32", "polars", "pyarrow", "numpy", "object"]),
)
def test_any_numbers_come_back(cells: list[float | None], kind: str) -> None:
    numbers = [np.nan if cell is None else cell for cell in cells]
    X: Any
    if kind == "polars":
        X = pl.DataFrame({"a": pl.Series(cells, dtype=pl.Float64)})
    elif kind == "pyarrow":
        X = pa.table({"a": pa.array(cells, type=pa.float64())})
    elif kind == "numpy":
        X = np.array(numbers)[:, None]
    else:
        values = cells if kind == "object" else [None if c is None else c for c in cells]
        X = pd.DataFrame({"a": pd.Series(values, dtype=kind)})
    table = read_table(X)
    back = table.frame(table.matrix, levels=all_levels(table))
    if kind == "numpy":
        np.testing.assert_array_equal(back, X)
    else:
        same(back, X)


NOTHING = [
    pd.DataFrame({"age": [np.nan] * 4, "b": [1.0, 2, 3, 4]}),
    pd.DataFrame({"age": [None] * 4, "b": [1.0, 2, 3, 4]}),
    pd.DataFrame({"age": pd.array([pd.NA] * 4, dtype="Int64"), "b": [1.0, 2, 3, 4]}),
    pd.DataFrame({"age": pd.array([pd.NA] * 4, dtype="string"), "b": [1.0, 2, 3, 4]}),
    pd.DataFrame(
        {"age": pd.Series([None] * 4, dtype=pd.CategoricalDtype(["a", "b"])), "b": [1.0, 2, 3, 4]}
    ),
    pl.DataFrame({"age": [None] * 4, "b": [1.0, 2, 3, 4]}),
    pl.DataFrame({"age": pl.Series([None] * 4, dtype=pl.String), "b": [1.0, 2, 3, 4]}),
    pl.DataFrame({"age": pl.Series([None] * 4, dtype=pl.Enum(["a"])), "b": [1.0, 2, 3, 4]}),
    pa.table({"age": pa.nulls(4), "b": [1.0, 2, 3, 4]}),
    pa.table({"age": pa.nulls(4, pa.bool_()), "b": [1.0, 2, 3, 4]}),
]


@pytest.mark.parametrize("X", NOTHING)
def test_a_wholly_missing_column_is_constant_and_named(X: Any) -> None:
    table = read_table(X)
    np.testing.assert_array_equal(table.constant, [True, True, False])
    same(table.frame(table.matrix, levels=all_levels(table)), X)
    with pytest.warns(
        dfi.warnings.ConstantColumnWarning,
        match=r"'age' \(wholly missing\) is constant: it scores 0",
    ):
        data = read_data(X, [1.0, 2.0, 3.0, 5.0])
    assert data.units.constant.tolist() == [True, False]
    assert data.missing_shares == {"age": 1.0}


def test_decimals_and_half_missing_booleans() -> None:
    X = pa.table(
        {
            "d": pa.array([Decimal("1.25"), None, Decimal("3.50")]),
            "b": pa.array([True, None, False]),
        }
    )
    table = read_table(X)
    assert [column.kind for column in table.columns] == ["real", "boolean"]
    same(table.frame(table.matrix), X)


def test_another_table() -> None:
    table = read_table(
        pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [1.0, 2.0, 3.0], "c": list("xyx")})
    )
    other = table.like(pl.DataFrame({"a": [5.0, None], "b": [1.0, 2.0], "c": ["x", "y"]}))
    np.testing.assert_array_equal(other.matrix[:, :3], [[5, 0, 1], [2, 1, 2]])
    assert table.like(pd.DataFrame({"a": [5.0], "b": [1.0], "c": ["x"]})).matrix[0, 1] == 0
    for name, cells in {"b": [None, 1.0], "c": [None, "x"]}.items():
        frame = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0], "c": ["x", "x"]})
        frame[name] = cells
        match = rf"in '{name}' \(1 missing, first in row 0\)\. They had none before"
        with pytest.raises(ValueError, match=match):
            table.like(frame)
    with pytest.raises(ValueError, match=r"X has infinite values in 'a' \(1 infinite, first in"):
        table.like(pd.DataFrame({"a": [np.inf], "b": [1.0], "c": ["x"]}))


def test_another_table_whose_category_is_wholly_missing() -> None:
    table = read_table(pd.DataFrame({"c": ["a", "b", None, "c"]}))
    np.testing.assert_array_equal(
        table.like(pd.DataFrame({"c": [None, None]})).matrix, [[0, 0, 0, 1]] * 2
    )


def test_infinite_values_are_refused_without_advice_to_impute() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan, 2.0], "b": [1.0, np.inf, 2.0]})
    with pytest.raises(
        ValueError, match=r"infinite values in 'b' \(1 infinite, first in row 1\)"
    ) as e:
        read_table(frame)
    assert "mpute" not in str(e.value)
    assert "'a'" not in str(e.value)


@pytest.mark.parametrize("X", TABLES, ids=IDS)
def test_dropped_rows_are_those_of_the_complete_table(X: Any) -> None:
    chosen = ["real", "words", "flag", "sex"]
    X = X[chosen] if isinstance(X, pd.DataFrame) else X.select(chosen)
    kept = np.array([all(is_there(row)) for row in cells_of(X)])
    assert 2 < kept.sum() < N
    complete = (
        X[kept]
        if isinstance(X, pd.DataFrame)
        else X.filter(pa.array(kept) if isinstance(X, pa.Table) else pl.Series(kept))
    )
    dropped, own = read_table(X, missing="drop"), read_table(complete)
    np.testing.assert_array_equal(dropped.matrix, own.matrix)
    assert [(c.levels, c.positions, c.kind) for c in dropped.columns] == [
        (c.levels, c.positions, c.kind) for c in own.columns
    ]
    weight, labels, y = np.arange(1.0, N + 1), list("abcde") * 6, np.arange(N) ** 2.0
    y[~kept] = np.nan  # what is dropped needs no outcome
    match = f"{N - kept.sum()} of {N} rows with missing values left out"
    with pytest.warns(dfi.warnings.MissingValuesWarning, match=match):
        data = read_data(X, y, sample_weight=weight, clusters=labels, missing="drop")
    twin = read_data(complete, y[kept], sample_weight=weight[kept], clusters=np.array(labels)[kept])
    assert data.fingerprint == twin.fingerprint
    np.testing.assert_array_equal(data.row_groups, twin.row_groups)
    assert (data.dropped, twin.dropped) == (N - kept.sum(), 0)


def cells_of(X: Any) -> Any:
    if isinstance(X, pd.DataFrame):
        return X.itertuples(index=False)
    rows = X if isinstance(X, pl.DataFrame) else pl.from_arrow(X)
    return rows.iter_rows()


def is_there(row: Any) -> Any:
    return (not pd.isna(cell) for cell in row)


def test_dropping_everything_is_refused() -> None:
    frame = pd.DataFrame({"a": [np.nan, 1.0, 2.0], "b": [None, None, "x"]})
    with pytest.raises(ValueError, match=r"leaves 1 of 3 rows of X.*\('b' has 2\)"):
        read_table(frame, missing="drop")


def test_nothing_is_dropped_from_a_complete_table() -> None:
    frame = pd.DataFrame({"a": [0.5, 1.0, 2.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_data(frame, [1.0, 2.0, 4.0], missing="drop").dropped == 0


def test_lengths_are_those_of_the_whole_table() -> None:
    frame = pd.DataFrame({"a": [0.5, 1.0, 2.0, None]})
    with pytest.raises(ValueError, match="X has 4 rows and y has 3 values"):
        read_data(frame, [1.0, 2.0, 4.0], missing="drop")
    with pytest.raises(ValueError, match="X has 4 rows and sample_weight has 3 values"):
        read_data(frame, [1.0, 2.0, 4.0, 3.0], sample_weight=[1, 1, 1], missing="drop")


def test_a_missing_outcome_is_refused() -> None:
    with pytest.raises(ValueError, match="what has no outcome cannot be explained"):
        read_data(np.ones((3, 2)) * [[1], [2], [3]], [1.0, np.nan, 2.0])
