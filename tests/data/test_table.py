"""Reading tables: kinds, levels, names, and every bad input with its message."""

from __future__ import annotations

import datetime as dt
import pickle
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from dfi._data.columns import read_vector
from dfi._data.frames import as_frame
from dfi._data.table import read_table
from dfi.warnings import ManyLevelsWarning


def message(text: str) -> str:
    return re.escape(text)


def test_array_columns_are_called_x0_x1() -> None:
    table = read_table(np.arange(6.0).reshape(3, 2))
    assert table.names == table.matrix_names == ("x0", "x1")
    assert table.library == "numpy"
    assert (table.n_rows, table.n_columns) == (3, 2)
    assert table.matrix.dtype == np.float64


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint64", "bool", "longdouble"])
def test_numeric_array_dtypes_are_read_as_float64(dtype: str) -> None:
    X = np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype)
    table = read_table(X)
    np.testing.assert_array_equal(table.matrix, X.astype(float))
    kind = {"b": "boolean", "i": "integer", "u": "integer"}.get(X.dtype.kind, "real")
    assert {column.kind for column in table.columns} == {kind}


def test_list_of_rows_keeps_numbers_beside_words() -> None:
    table = read_table([[1, "a"], [2, "b"], [4, "a"]])
    assert [column.kind for column in table.columns] == ["integer", "categorical"]
    np.testing.assert_array_equal(table.matrix, [[1, 0], [2, 1], [4, 0]])


def test_one_column_is_enough() -> None:
    assert read_table(np.arange(4.0)[:, None]).n_columns == 1


def test_levels_one_two_and_three() -> None:
    X = pd.DataFrame(
        {
            "one": ["a"] * 4,
            "two": ["m", "f", "f", "m"],
            "three": pd.Categorical(["r", "g", "b", "r"], categories=["r", "g", "b"]),
            "real": [0.5, 1.5, 2.5, 3.5],
        }
    )
    table = read_table(X)
    assert table.units == ((0,), (1,), (2, 3, 4), (5,))
    assert table.matrix_names == ("one=a", "two=m", "three=r", "three=g", "three=b", "real")
    np.testing.assert_array_equal(
        table.matrix,
        [
            [0, 1, 1, 0, 0, 0.5],
            [0, 0, 0, 1, 0, 1.5],
            [0, 0, 0, 0, 1, 2.5],
            [0, 1, 1, 0, 0, 3.5],
        ],
    )
    np.testing.assert_array_equal(table.constant, [True] + [False] * 5)
    np.testing.assert_array_equal(table.constant_units, [True, False, False, False])


def test_declared_order_of_levels_is_kept_and_strings_are_sorted() -> None:
    words = ["b", "c", "a", "b"]
    declared = ["c", "b", "a", "never"]
    frames = [
        pd.DataFrame({"x": pd.Categorical(words, categories=declared)}),
        pl.DataFrame({"x": words}, schema={"x": pl.Enum(declared)}),
        pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([1, 0, 2, 1]), pa.array(declared))}),
    ]
    for frame in frames:
        assert read_table(frame).columns[0].levels == tuple(declared[:-1])
        assert read_table(frame).columns[0].declared == tuple(declared)
    loose = [
        pd.DataFrame({"x": words}),
        pd.DataFrame({"x": pd.Series(words, dtype=object)}),
        pl.DataFrame({"x": words}),
        pl.DataFrame({"x": words}, schema={"x": pl.Categorical}),
        pa.table({"x": words}),
        np.array(words)[:, None],
    ]
    for frame in loose:
        assert read_table(frame).columns[0].levels == ("a", "b", "c")


def test_chunks_with_different_dictionaries_share_one_set_of_levels() -> None:
    first = pa.table({"x": pa.array(["b", "a"]).dictionary_encode()})
    second = pa.table({"x": pa.array(["c", "b"]).dictionary_encode()})
    table = read_table(pa.concat_tables([first, second]))
    assert table.columns[0].levels == ("b", "a", "c")
    np.testing.assert_array_equal(table.matrix.argmax(axis=1), [0, 1, 2, 0])


def test_libraries_agree() -> None:
    data = {"a": [0.5, 1.5, 3.0, 2.0], "k": [3, 1, 2, 2], "c": ["u", "v", "w", "u"]}
    tables = [read_table(X) for X in (pd.DataFrame(data), pl.DataFrame(data), pa.table(data))]
    for table in tables:
        np.testing.assert_array_equal(table.matrix, tables[0].matrix)
        assert table.matrix_names == tables[0].matrix_names
    assert [table.library for table in tables] == ["pandas", "polars", "pyarrow"]


def test_record_batch_is_a_table() -> None:
    table = read_table(pa.RecordBatch.from_pydict({"a": [1.0, 2.0]}))
    np.testing.assert_array_equal(table.matrix, [[1.0], [2.0]])


def test_constant_is_relative_to_the_magnitude() -> None:
    rounding = 0.1 + 0.2 * np.ones(3)
    rounding[0] = 0.3
    X = np.column_stack([rounding, [0, 0, 0], [1e9, 1e9 + 1e-3, 1e9], [1e-300, 2e-300, 0]])
    np.testing.assert_array_equal(read_table(X).constant, [True, True, False, False])


def test_sparse_is_densified_within_the_bound() -> None:
    X = sparse.csr_array(np.eye(3))
    np.testing.assert_array_equal(read_table(X).matrix, np.eye(3))
    with pytest.raises(
        ValueError, match=message("X is sparse with shape 200000 x 100000 and would take 149 GiB")
    ):
        read_table(sparse.csr_array((200_000, 100_000)))
    with pytest.raises(ValueError, match="Drop or combine columns"):
        read_table(X, max_dense_bytes=71)
    assert read_table(X, max_dense_bytes=72).n_rows == 3


def test_pandas_sparse_columns() -> None:
    X = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 0.0, 1.0]), "b": [1, 2, 3]})
    np.testing.assert_array_equal(read_table(X).matrix, [[0, 1], [0, 2], [1, 3]])
    with pytest.raises(ValueError, match="X is sparse with shape 3 x 2"):
        read_table(X, max_dense_bytes=23)


def test_one_hot_block_beyond_the_bound_names_the_column() -> None:
    X = pd.DataFrame({"a": [1.0] * 40, "city": [f"c{i % 10}" for i in range(40)]})
    with pytest.raises(ValueError, match="column 'city' alone has 10 levels"):
        read_table(X, max_dense_bytes=1000)


def test_a_category_of_thousands_of_levels_is_refused_with_a_remedy_that_works():
    generator = np.random.default_rng(0)
    tail = [f"N{k}" for k in np.concatenate([np.arange(4037), generator.integers(0, 9, 15_963)])]
    X = pd.DataFrame({"tail": tail, "x": generator.standard_normal(20_000)})
    with pytest.raises(ValueError, match=r"'tail' has 4037 levels in 20000 rows.*mask\(rare"):
        read_table(X)
    rare = X["tail"].map(X["tail"].value_counts()) < 100
    X["tail"] = X["tail"].mask(rare, "other")
    assert len(read_table(X).columns[0].levels) == 10


def test_nullable_dtypes_without_missing_values() -> None:
    X = pd.DataFrame(
        {
            "i": pd.array([1, 2], dtype="Int8"),
            "b": pd.array([True, False], dtype="boolean"),
            "f": pd.array([0.5, 1.5], dtype="Float32"),
            "s": pd.array(["u", "v"], dtype="string"),
            "d": pd.Series([Decimal("1.5"), Decimal(2)]),
        }
    )
    table = read_table(X)
    np.testing.assert_array_equal(table.matrix, [[1, 1, 0.5, 0, 1.5], [2, 0, 1.5, 1, 2]])
    kinds = [column.kind for column in table.columns]
    assert kinds == ["integer", "boolean", "real", "categorical", "real"]


def test_table_survives_pickling() -> None:
    table = read_table(pl.DataFrame({"a": [1.0, 2.0], "c": ["u", "v"]}))
    again = pickle.loads(pickle.dumps(table))  # noqa: S301
    np.testing.assert_array_equal(again.matrix, table.matrix)
    assert again.columns == table.columns


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nonfinite_in_an_array_is_named(bad: float) -> None:
    X = np.zeros((5, 3))
    X[3:, 1] = bad
    words = (
        "X has missing (NaN, null) or infinite values in 'x1' (2 missing, first in row 3). Impute "
        "them, e.g. with sklearn.impute.SimpleImputer, or drop those rows or columns"
        if np.isnan(bad)
        else "X has infinite values in 'x1' (2 infinite, first in row 3). Give them finite numbers"
    )
    with pytest.raises(ValueError, match=message(words)):
        read_table(X, missing="error")


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"age": [1.0, None, 2.0], "ok": [1, 2, 3]}),
        pd.DataFrame({"age": pd.array([1, None, 2], dtype="Int64")}),
        pd.DataFrame({"age": pd.array([True, None, False], dtype="boolean")}),
        pd.DataFrame({"age": ["a", None, "b"]}),
        pd.DataFrame({"age": pd.Series(["a", np.nan, "b"], dtype=object)}),
        pd.DataFrame({"age": pd.Series([1, None, 2], dtype=object)}),
        pd.DataFrame({"age": pd.Categorical(["a", None, "b"])}),
        pl.DataFrame({"age": [1.0, None, 2.0]}),
        pl.DataFrame({"age": [1.0, float("nan"), 2.0]}),
        pl.DataFrame({"age": ["a", None, "b"]}),
        pl.DataFrame({"age": [True, None, False]}),
        pl.DataFrame({"age": ["a", None, "b"]}, schema={"age": pl.Enum(["a", "b"])}),
        pa.table({"age": [1, None, 2]}),
        pa.table({"age": ["a", None, "b"]}),
        pa.table({"age": pa.array(["a", None, "b"]).dictionary_encode()}),
        pd.DataFrame({"age": pd.array([1.0, None, 2.0], dtype="double[pyarrow]")}),
    ],
)
def test_missing_values_in_frames_are_named(X: object) -> None:
    with pytest.raises(ValueError, match=message("'age' (1 missing, first in row 1). Impute")):
        read_table(X, missing="error")


@pytest.mark.parametrize(
    "X",
    [
        pl.DataFrame({"age": [None, None]}),
        pa.table({"age": pa.nulls(2)}),
        pd.DataFrame({"age": pd.Series([None, None], dtype=object)}),
    ],
)
def test_columns_of_nothing_are_missing(X: object) -> None:
    with pytest.raises(ValueError, match=message("'age' (2 missing, first in row 0)")):
        read_table(X, missing="error")


def test_many_columns_with_gaps_are_counted() -> None:
    X = np.full((3, 8), np.nan)
    with pytest.raises(ValueError, match=message("'x4' (3 missing, first in row 0) and 3 more.")):
        read_table(X, missing="error")


def test_masked_array_counts_as_missing() -> None:
    X = np.ma.masked_array(np.ones((3, 2)), mask=[[0, 0], [0, 1], [0, 0]])
    with pytest.raises(ValueError, match=message("'x1' (1 missing, first in row 1)")):
        read_table(X, missing="error")


TIME = "Encode it as a number, e.g. days since a date, or drop it."
NESTED = "Spread its elements over columns of numbers, or drop it."
DAY = dt.datetime(2020, 1, 1)


@pytest.mark.parametrize(
    ("X", "text", "remedy"),
    [
        (pd.DataFrame({"t": [DAY.date()] * 2}), "holds dates or times (date)", "Make days of it"),
        (pl.DataFrame({"t": [DAY.date()] * 2}), "holds dates or times (Date)", "Make days of it"),
        (pl.DataFrame({"t": [DAY.time()] * 2}), "holds dates or times (Time)", "Make hours of it"),
        (pa.table({"t": [DAY] * 2}), "holds dates or times", TIME),
        (pl.DataFrame({"t": [[1], [2]]}), "holds nested values (List(Int64))", NESTED),
        (pl.DataFrame({"t": [{"a": 1}] * 2}), "holds nested values", NESTED),
        (pa.table({"t": [[1], [2]]}), "holds nested values", NESTED),
        (pd.DataFrame({"t": [[1], [2]]}), "holds nested values (list)", NESTED),
        (pd.DataFrame({"t": [1j, 2j]}), "holds complex numbers (complex128)", "Split it into"),
        (pd.DataFrame({"t": [1, "a"]}), "mixes objects of type int and str", "Make it all numbers"),
        (pd.DataFrame({"t": [object(), object()]}), "holds objects (object)", "Make it all"),
        (pl.DataFrame({"t": [b"a", b"b"]}), "has dtype Binary", "Encode it as a number"),
    ],
)
def test_unusable_columns_are_refused_by_name(X: object, text: str, remedy: str) -> None:
    with pytest.raises(TypeError, match=message(f"Column 't' {text}")) as caught:
        read_table(X)
    assert remedy in str(caught.value)


TIMES = [DAY, None, DAY + dt.timedelta(days=3, hours=6)]


@pytest.mark.parametrize(
    ("column", "first", "last"),
    [
        (pd.Series(TIMES), 0.0, 3.25),
        (pd.Series(pd.to_datetime(TIMES, utc=True)), 0.0, 3.25),
        (pd.Series([None if day is None else day - DAY for day in TIMES]), 0.0, 3.25),
        (pd.Series([None if day is None else day.date() for day in TIMES], dtype=object), 0.0, 3.0),
        (
            pd.Series([None if day is None else day.time() for day in TIMES], dtype=object),
            0.0,
            6.0,
        ),
        (
            pd.Series([None if day is None else day - DAY for day in TIMES], dtype=object),
            0.0,
            3.25,
        ),
        (pd.Series(pd.to_datetime(TIMES).to_period("D")), 0.0, 3.0),
        (pl.Series(TIMES), 0.0, 3.25),
        (pl.Series([None if day is None else day.date() for day in TIMES]), 0.0, 3.0),
        (pl.Series([None if day is None else day - DAY for day in TIMES]), 0.0, 3.25),
        (pl.Series([None if day is None else day.time() for day in TIMES]), 0.0, 6.0),
    ],
)
def test_the_line_that_is_told_makes_numbers_of_times(
    column: pd.Series, first: float, last: float
) -> None:
    X: object = pd.DataFrame({"a": [1.0, 2.0, 3.0], "the time": column})
    if isinstance(column, pl.Series):
        X = pl.DataFrame({"a": [1.0, 2.0, 3.0], "the time": column})
    with pytest.raises(TypeError, match="'the time' holds dates or times") as caught:
        read_table(X)
    found = re.search(r"e\.g\. (X.*), or drop it\.$", str(caught.value))
    assert found is not None
    names = {"X": X, "pd": pd, "pl": pl}
    exec(found[1], names)  # noqa: S102
    values = read_table(names["X"]).columns[1]
    assert values.kind in ("real", "integer")
    matrix = read_table(names["X"]).matrix
    assert matrix[[0, 2], values.positions[0]] == pytest.approx([first, last])
    assert matrix[1, values.positions[1]] == 1.0


def test_an_outcome_of_times_is_refused_in_its_own_words() -> None:
    y = pd.Series([DAY, DAY + dt.timedelta(1)])
    with pytest.raises(TypeError, match=r"^y holds dates.*e\.g\. y = \(y - y\.min\(\)\) / "):
        read_vector(y, "y")
    with pytest.raises(TypeError, match=r"^y holds dates.*days since a date, or drop it\.$"):
        read_vector(pl.Series(y), "y")


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.ones((3, 2), dtype=complex), "Column 'x0' holds complex numbers (complex128)"),
        (np.zeros((3, 2), dtype="datetime64[ns]"), "Column 'x0' holds dates or times (datetime64)"),
        (np.array([[1, "a"], ["b", "c"]], dtype=object), "Column 'x0' mixes objects of type int"),
        (np.array([[b"a"], [b"b"]]), "Column 'x0' holds objects (bytes_)"),
    ],
)
def test_unusable_arrays_are_refused(X: object, text: str) -> None:
    with pytest.raises(TypeError, match=message(text)):
        read_table(X)


def test_duplicate_names() -> None:
    text = message("X has more than one column called 'a'; rename them.")
    with pytest.raises(ValueError, match=text):
        read_table(pd.DataFrame(np.ones((3, 3)), columns=["a", "b", "a"]))
    with pytest.raises(ValueError, match=text):
        read_table(pa.table([pa.array([1, 2]), pa.array([1, 2])], names=["a", "a"]))
    with pytest.raises(ValueError, match="more than one column called '1'"):
        read_table(pd.DataFrame(np.ones((3, 2)), columns=[1, "1"]))


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.ones((0, 2)), "X has no rows."),
        (np.ones((2, 0)), "X has no columns."),
        (pd.DataFrame(), "X has no columns."),
        (pd.DataFrame({"a": []}), "X has no rows."),
        (pl.DataFrame(), "X has no columns."),
        (np.ones((1, 4)), "X has one row; an importance needs many."),
        (pl.DataFrame({"a": [1.0]}), "X has one row"),
        (np.ones(4), "X must have two dimensions and has 1: reshape it with X.reshape(-1, 1)"),
        ([1.0, 2.0], "X must have two dimensions and has 1: reshape it"),
        (np.ones((2, 2, 2)), "X must have two dimensions and has 3: reshape it to one row per"),
        ([[1, 2], [3]], "X is a list of rows of different lengths."),
    ],
)
def test_shapes_that_are_no_table(X: object, text: str) -> None:
    with pytest.raises(ValueError, match=message(text)):
        read_table(X)


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (pd.Series([1.0, 2.0]), "X is a single Series, not a table: pass X.to_frame()"),
        (pl.Series([1.0, 2.0]), "X is a single Series"),
        (pa.array([1.0, 2.0]), "X is a single Series"),
        (pl.LazyFrame({"a": [1, 2]}), "X is a LazyFrame: call .collect() first"),
        ({"a": [1, 2]}, "X is a dict; pass a numpy array, a pandas or polars DataFrame"),
        ("table.csv", "X is a str; pass"),
        (3.0, "X is a float; pass"),
        (None, "X is a NoneType; pass"),
        (np.zeros(3, dtype=[("a", float)])[:, None], "X is a structured array"),
    ],
)
def test_things_that_are_no_table(X: object, text: str) -> None:
    with pytest.raises(TypeError, match=message(text)):
        read_table(X)


def test_identifiers_are_refused_and_many_levels_warned_of() -> None:
    with pytest.raises(
        ValueError,
        match=message(
            "Column 'id' has 60 different values in 60 rows: it looks like an identifier. Drop it, "
            "or group its values into fewer levels, such as the first letters of a code: X['id'] = "
            "X['id'].str[:2]."
        ),
    ):
        read_table(pd.DataFrame({"id": [f"p{i}" for i in range(60)]}))
    with pytest.warns(ManyLevelsWarning, match="Column 'zip' has 60 levels"):
        read_table(pd.DataFrame({"zip": [f"p{i % 60}" for i in range(180)]}))
    frame = pd.DataFrame({name: [f"p{i % 60}" for i in range(180)] for name in ("zip", "shop")})
    with pytest.warns(ManyLevelsWarning) as told:
        read_table(frame)
    assert [str(one.message).split(".")[0] for one in told] == [
        "Columns with many levels: 'zip' (60), 'shop' (60)"
    ]
    read_table(pd.DataFrame({"few": [f"p{i}" for i in range(20)]}))


def test_like_reads_columns_by_name_in_any_order() -> None:
    table = read_table(pd.DataFrame({"a": [1.0, 2.0, 3.0], "c": ["u", "v", "w"]}))
    other = table.like(pl.DataFrame({"c": ["w"], "a": [7]}))
    np.testing.assert_array_equal(other.matrix, [[7, 0, 0, 1]])
    assert other.columns == table.columns
    assert other.library == "pandas"


def test_like_refuses_unseen_levels() -> None:
    table = read_table(pd.DataFrame({"colour": ["red", "blue", "red"]}))
    with pytest.raises(
        ValueError,
        match=message(
            "Column 'colour' has the unseen level 'green'; the known levels are 'blue', 'red'."
        ),
    ):
        table.like(pd.DataFrame({"colour": ["red", "green"]}))


def test_like_refuses_other_columns_and_kinds() -> None:
    table = read_table(pd.DataFrame({"age": [1.0, 2.0], "weight": [1.0, 2.0]}))
    with pytest.raises(
        ValueError,
        match=message(
            "X lacks 'weight' (did you mean 'wieght'?) and has the unknown 'wieght'; "
            "its columns must be age, weight."
        ),
    ):
        table.like(pd.DataFrame({"age": [1.0], "wieght": [1.0]}))
    with pytest.raises(ValueError, match=message("X has the unknown 'more'; its columns")):
        table.like(pd.DataFrame({"age": [1.0], "weight": [1.0], "more": [1.0]}))
    wide = read_table(pd.DataFrame(np.eye(12), columns=[f"c{k}" for k in range(12)]))
    with pytest.raises(ValueError, match=r"must be c0, c1.*, c9 and 2 more"):
        wide.like(pd.DataFrame(np.eye(12), columns=[f"c{k}" for k in range(11)] + ["d"]))
    with pytest.raises(TypeError, match="Column 'age' was real and is categorical here"):
        table.like(pd.DataFrame({"age": ["old"], "weight": [1.0]}))
    with pytest.raises(ValueError, match=message("'age' (1 missing, first in row 0)")):
        table.like(pd.DataFrame({"age": [np.nan], "weight": [1.0]}))


@pytest.mark.parametrize(
    ("library", "kind"),
    [
        ("numpy", pd.DataFrame),
        ("pandas", pd.DataFrame),
        ("polars", pl.DataFrame),
        ("pyarrow", pa.Table),
    ],
)
def test_as_frame_builds_the_callers_table(library: str, kind: type) -> None:
    columns = {"feature": np.array(["a", "b"]), "score": np.array([0.5, np.nan])}
    frame = as_frame(columns, library)
    assert isinstance(frame, kind)
    listed = frame.to_pydict() if library == "pyarrow" else frame.to_dict()
    assert list(listed["feature"] if library == "pyarrow" else frame["feature"]) == ["a", "b"]
    np.testing.assert_array_equal(np.asarray(frame["score"], dtype=float), [0.5, np.nan])


def test_as_frame_without_a_library_is_a_dict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    frame = as_frame({"score": [0.5]}, "numpy")
    assert isinstance(frame, dict)
    np.testing.assert_array_equal(frame["score"], [0.5])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.bool_])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_of_numbers_is_copied_once_and_never_shared(dtype, order):
    X = np.asarray(np.arange(12).reshape(4, 3) % 5, dtype=dtype, order=order)
    table = read_table(X)
    np.testing.assert_array_equal(table.matrix, X.astype(np.float64))
    assert table.matrix.flags.c_contiguous
    assert table.matrix.dtype == np.float64
    assert not np.shares_memory(table.matrix, X)
    X[0, 0] = 1
    assert table.matrix[0, 0] == 0.0
    # what is read of a column is a view of the matrix, not a copy beside it
    assert table.matrix.base is None


def test_missing_values_of_an_array_are_found_among_blocks_of_rows():
    X = np.zeros((40_000, 3), dtype=np.float32)
    X[:, 0] = np.arange(40_000)
    X[20_000, 1] = np.nan
    table = read_table(X)
    assert [column.width for column in table.columns] == [1, 2, 1]
    assert table.where_missing(table.columns[1]).nonzero()[0].tolist() == [20_000]
    X[39_999, 2] = np.inf
    with pytest.raises(
        ValueError, match=r"infinite values in 'x2' \(1 infinite, first in row 39999"
    ):
        read_table(X)
