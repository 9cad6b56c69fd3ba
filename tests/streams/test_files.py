"""Files, lazy frames and relations: read in batches, with the numbers of the frame in memory."""

from __future__ import annotations

import os

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset

import dfi
from dfi._streams import files, lazy
from dfi._streams.read import open_stream

from .conftest import GROUPS, N

pytestmark = pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")

OPTIONS = {
    "estimator": "linear", "sample_weight": "w", "fit_rows": 1200, "explain_rows": 600,
    "diagnose": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def table(frame):
    return pl.from_pandas(frame).with_columns(pl.col("c").cast(pl.String))


@pytest.fixture(scope="module")
def whole(table):
    from dfi._data import source

    before, source.LARGE_ROWS = source.LARGE_ROWS, 500
    try:
        return dfi.explain(table, "y", **OPTIONS)
    finally:
        source.LARGE_ROWS = before


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """Three files of several groups of rows, one without rows; a text that is a dictionary."""
    path = tmp_path_factory.mktemp("parts")
    table[:1000].write_parquet(path / "a.parquet", row_group_size=300)
    table[:0].write_parquet(path / "b.parquet")
    coded = table[1000:].with_columns(pl.col("c").cast(pl.Categorical))
    coded.write_parquet(path / "c.parquet", row_group_size=700)
    table.write_ipc(path / "all.arrow")
    table.write_csv(path / "all.csv")
    return path


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(files, "BATCH_ROWS", 256)
    monkeypatch.setattr(lazy, "BATCH_ROWS", 512)


@pytest.mark.parametrize("which", ["*.parquet", "", "all.arrow", "all.csv", "list"])
def test_files(which, folder, whole, same):
    X = str(folder / which)
    if which == "list":
        X = [folder / name for name in ("a.parquet", "b.parquet", "c.parquet")]
    found = dfi.explain(X, "y", **OPTIONS)
    same(found, whole, GROUPS)
    assert found.spec["n_rows"] == N
    assert found.spec["fit_rows"] == 1200


def test_lazy_frames(table, folder, whole, same):
    same(dfi.explain(table.lazy(), "y", **OPTIONS), whole)
    scanned = nw.from_native(pl.scan_ipc(folder / "all.arrow"))
    same(dfi.explain(scanned, "y", **OPTIONS), whole)


def test_lazy_frames_without_batches(table):
    """Versions of polars that give no batches are asked for slices."""
    found = list(lazy._collected(table.lazy()))
    assert [len(part) for part in found] == [512] * 5 + [440]
    assert pl.concat(found).equals(table)


def test_relations(table, same):
    arrow = table.to_arrow()
    with duckdb.connect() as connection:
        relation = connection.from_arrow(arrow)
        same(dfi.explain(relation, "y", **OPTIONS), dfi.explain(arrow, "y", **OPTIONS))


def test_rows_are_read_in_order_and_a_few_at_a_time(folder, table):
    opened = files.Files.open(str(folder / "*.parquet"))
    parts = [frame for _, frame in opened.frames(["a", "y"])]
    assert max(len(part) for part in parts) <= 256
    assert pl.concat(parts)["y"].equals(table["y"])
    assert opened.rows() == N
    assert opened.total(None) > 0


def test_integers_that_nulls_made_floats_are_one_column(tmp_path):
    pl.DataFrame({"a": [1, 2, 3], "y": [1.0, 2.0, 4.0]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"a": [1.0, None, 3.0], "y": [1.0, 2.0, 4.0]}).write_parquet(
        tmp_path / "2.parquet"
    )
    pl.DataFrame({"a": [None, None], "y": [1.0, 2.0]}).write_parquet(tmp_path / "3.parquet")
    (column,) = open_stream(str(tmp_path), "y").columns
    assert (column.kind, column.fill) == ("real", 2.0)


def test_levels_that_only_one_part_has_are_levels(tmp_path):
    pl.DataFrame({"a": ["u", "v"] * 9, "y": range(18)}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"a": ["t", None], "y": [3, 4]}).write_parquet(tmp_path / "2.parquet")
    (column,) = open_stream(str(tmp_path), "y").columns
    assert column.levels == ("t", "u", "v", None)


def test_weights_by_the_name_of_a_column_in_memory(frame):
    table = frame.drop(columns=["c", "k"]).iloc[:300]
    named = dfi.explain(table, "y", estimator="linear", sample_weight="w", diagnose=False)
    given = dfi.explain(
        table.drop(columns="w"), "y", estimator="linear", sample_weight=table["w"], diagnose=False
    )
    assert np.array_equal(named.scores, given.scores)
    with pytest.raises(ValueError, match="sample_weight='v' names the weights' column, but X has"):
        dfi.explain(table, "y", estimator="linear", sample_weight="v")


def refused(message: str, X: object, y: object = "y", error: type = ValueError, **options: object):
    with pytest.raises(error, match=message):
        dfi.explain(X, y, **{"estimator": "linear", **options})


def test_files_that_are_not_there(tmp_path):
    refused("the pattern '.*nothing.*parquet' matches no file", str(tmp_path / "nothing*.parquet"))
    refused("there is no such file or folder", str(tmp_path / "no.parquet"))
    refused("is a folder that holds no Parquet files", tmp_path)
    refused("files are read from this machine", "s3://bucket/data.parquet")
    (tmp_path / "a.xlsx").write_bytes(b"x")
    refused("is not a table that is read in parts", tmp_path / "a.xlsx")
    (tmp_path / "b.parquet").write_bytes(b"not Parquet")
    refused(
        "b.parquet cannot be read as Parquet, it is text: name it b.csv", tmp_path / "b.parquet"
    )


OTHERS = [
    ("a.arrow", b"a,y\n1,2\n", r"cannot be read as Arrow, it is text: name it a.csv if it is CSV"),
    ("a.csv", b"PAR1\x15\x04", r"is Parquet and named as CSV: name it a.parquet"),
    ("a.parquet", b"ARROW1\0\0", r"is Arrow and named as Parquet: name it a.arrow"),
    ("a.feather", b"\xff\xff\xff\xff\0", r"is an Arrow stream, .*polars.read_ipc_stream\(path\)"),
    ("a.feather", b"FEA1\0", r"cannot be read as Arrow, it is Feather version 1"),
    ("a.arrow", b"\0\1\2", r"cannot be read as Arrow: it is something else, or damaged"),
]


@pytest.mark.parametrize(("name", "content", "message"), OTHERS)
def test_files_that_are_not_what_their_names_say(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    refused(message, tmp_path / name)


def test_folders_that_hold_a_column(tmp_path):
    os.makedirs(tmp_path / "year=2020")
    pl.DataFrame({"a": [1], "y": [2]}).write_parquet(tmp_path / "year=2020" / "a.parquet")
    refused("stores a column in folder names \\(year=2020\\)", tmp_path)


def test_a_file_twice(tmp_path):
    pl.DataFrame({"a": [1], "y": [2]}).write_parquet(tmp_path / "a.parquet")
    refused("names the file .*a.parquet twice", [tmp_path / "a.parquet", tmp_path / "a.parquet"])


def test_a_file_by_two_names(tmp_path):
    pl.DataFrame({"a": [1], "y": [2]}).write_parquet(tmp_path / "a.parquet")
    os.symlink(tmp_path / "a.parquet", tmp_path / "b.parquet")
    refused(
        "names the file .*b.parquet twice, also as .*a.parquet: name every", str(tmp_path / "*")
    )


def test_an_empty_path():
    refused("X is an empty path: pass the path of a file or folder, or a frame", "")


def test_text_of_several_lines(table, tmp_path, monkeypatch, same):
    # blocks of text end anywhere, within quotes too
    monkeypatch.setattr(files, "CSV_BYTES", 4096)
    text = table.with_columns(pl.col("c") + "\nand, more")
    text.write_csv(tmp_path / "a.csv")
    same(dfi.explain(tmp_path / "a.csv", "y", **OPTIONS), dfi.explain(text, "y", **OPTIONS))


def test_files_that_are_damaged(table, tmp_path):
    path = tmp_path / "a.parquet"
    table.write_parquet(path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[60:4000] = bytes(3940)
    path.write_bytes(content)
    refused("a.parquet cannot be read: ", path)


@pytest.mark.parametrize("rows", [2900, N])
def test_files_that_change_on_the_way(rows, table, tmp_path, monkeypatch):
    path, read = tmp_path / "a.parquet", files._batches
    table.write_parquet(path)
    passes = []

    def batches(*args):
        passes.append(args)
        if len(passes) == 2:
            table[:rows].sample(fraction=1.0, shuffle=True, seed=1).write_parquet(path)
        yield from read(*args)

    monkeypatch.setattr(files, "_batches", batches)
    refused("a.parquet changed after it was first read: do not change the data", path)


def test_datasets(table, folder, whole, same, tmp_path):
    found = dfi.explain(dataset.dataset(sorted(folder.glob("*.parquet"))), "y", **OPTIONS)
    same(found, whole, GROUPS)
    parts = table.with_columns(pl.lit("u").alias("part"))
    dataset.write_dataset(
        parts.to_arrow(), tmp_path, format="parquet", partitioning=["part"],
        partitioning_flavor="hive",
    )  # fmt: skip
    kept = dfi.explain(dataset.dataset(tmp_path, partitioning="hive"), "y", **OPTIONS)
    assert kept.names == (*whole.names, "part")


def test_lazy_tables_that_fail(table, tmp_path):
    refused(
        "X is a LazyFrame that cannot be read .*'?nope", table.lazy().with_columns(pl.col("nope"))
    )
    missing = pl.scan_parquet(tmp_path / "no.parquet")
    refused("X is a LazyFrame that cannot be read .*no.parquet", missing)
    failing = table.lazy().with_columns(pl.col("c").str.to_integer().alias("d"))
    refused(
        r"X is a LazyFrame that cannot be read \(ComputeError: .*\): check that it can", failing
    )
    con = duckdb.connect()
    con.register("t", table.to_arrow())
    relation = con.sql("select * from t")
    con.close()
    refused("X is a DuckDB relation that cannot be read .*closed", relation)
    path = tmp_path / "a.parquet"
    table.write_parquet(path)
    lost = dataset.dataset(path)
    path.unlink()
    refused("X is a pyarrow Dataset that cannot be read .*a.parquet", lost)


def test_a_lazy_frame_that_is_not_the_same_again(table):
    asked = []

    def fewer(part):
        asked.append(1)
        return part[: N - len(asked)]

    refused("X changed after it was first read", table.lazy().map_batches(fewer))


def test_numbers_of_numpy_are_numbers(table):
    options = OPTIONS | {"fit_rows": 600, "explain_rows": np.int64(900)}
    assert dfi.explain(table.lazy(), "y", **options).spec["explained_rows"] == 900


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": [1.0], "y": [1.0]}, "2.parquet has no column 'b', which .*1.parquet has"),
        ({"a": [1.0], "b": ["u"], "y": [1.0], "z": [1]}, "2.parquet has the column 'z', which"),
        ({"a": ["u"], "b": ["u"], "y": [1.0]}, "column 'a' holds numbers in .* and text in"),
    ],
)
def test_files_of_different_schemas(other, message, tmp_path):
    pl.DataFrame({"a": [1.0], "b": ["u"], "y": [1.0]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame(other).write_parquet(tmp_path / "2.parquet")
    refused(message, str(tmp_path / "*.parquet"))


def test_csv_that_changes_its_type_on_the_way(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n" + "1,2\n" * 3000 + "u,3\n")
    monkeypatch.setattr(files, "CSV_BYTES", 4096)
    refused("a.csv cannot be read in parts, because a column changes its type", path)


def test_lazy_frames_without_an_outcome(table):
    refused(
        "y is None, but X is a LazyFrame, whose rows are not in memory",
        table.lazy(),
        None,
        TypeError,
    )
    refused("y is a Series, but X is a LazyFrame", table.lazy(), table["y"], TypeError)
    refused("sample_weight is a Series", table.lazy(), "y", TypeError, sample_weight=table["w"])
    refused("y='z' names a column, but X has no such column", table.lazy(), "z")
    refused("both name the column 'y'", table.lazy(), "y", sample_weight="y")


def test_lazy_frames_of_others():
    class Other:
        def __getattr__(self, name):
            raise AttributeError(name)

    with pytest.raises(TypeError, match="which is not read in parts: pass a polars LazyFrame"):
        lazy.open_lazy(Other())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": [([0, 1], [2, 3])]}, "cv is a list of row numbers, but the rows of X are not"),
        ({"transport": "copula"}, "transport='copula' needs all rows in memory"),
        ({"transport": "auto"}, "transport='auto' needs all rows in memory"),
        ({"explain_rows": None, "fit_rows": 1000}, "explain_rows=None explains all 3000 rows"),
        ({"fit_rows": 3}, "fit_rows must be a whole number of 50 or more, got 3"),
        ({"sample_weight": "w", "frequency_weight": "w"}, "Pass sample_weight or frequency_weight"),
        ({"frequency_weight": "w"}, "frequency_weight counts repeated rows and must be whole"),
        ({"sample_weight": "a"}, "sample_weight has .* missing or infinite values, the first in"),
        ({"missing": "error"}, "X has missing .* values in 'a' \\(.* missing, first in row"),
    ],
)
def test_options_that_need_all_rows(options, message, table):
    refused(message, table.lazy(), "y", **{"fit_rows": 1000, **options})


def test_time_splits_of_a_sample(table):
    from sklearn.model_selection import TimeSeriesSplit

    refused("cv splits along time", table.lazy(), cv=TimeSeriesSplit(3), fit_rows=1000)


def test_fit_rows_in_memory_has_its_refusals(numbers):
    refused("cv='prefit' fits none", numbers, fit_rows=100, cv="prefit")
    refused("clusters keeps rows together", numbers, fit_rows=100, clusters=np.arange(N) % 9)
    refused("cv is a list of row numbers, which sets", numbers, fit_rows=100, cv=[([0, 1], [2, 3])])


def test_outcomes_and_columns_that_cannot_be_used(table):
    refused("y has 1 missing", table.with_columns(y=pl.col("y").shift(1)).lazy())
    refused("y is constant", table.with_columns(y=1.5).lazy())
    wrong = table.with_columns(a=pl.lit(float("inf")))
    refused("X has infinite values in 'a' \\(3000 infinite, first in row 0\\)", wrong.lazy())
    named = table.with_columns(c=pl.Series([f"k{row}" for row in range(N)]))
    refused("Column 'c' has 3000 different values in 3000 rows: it looks like an", named.lazy())
    refused("X has no rows", table[:0].lazy())
    refused(
        "holds dates",
        table.with_columns(y=pl.date(2020, 1, 1)).lazy(),
        "y",
        TypeError,
    )


def test_an_outcome_that_hardly_varies(numbers):
    table = numbers.assign(y=0.0)
    table.loc[0, "y"] = 1.5
    with pytest.raises(ValueError, match="y='y' has one value in all 600 rows that models would"):
        dfi.explain(pl.from_pandas(table).lazy(), "y", "linear", fit_rows=600, explain_rows=600)


def test_a_part_of_another_schema_is_named():
    from dfi._streams.schema import Roles, SchemaWork

    work = SchemaWork(Roles(("a",), "y"))
    _, one = work(pa.table({"a": [1.0, 2.0], "y": [1, 2]}), 0, "partition 0")
    _, other = work(pa.table({"a": ["u", "v"], "y": [1, 2]}), 0, "partition 1")
    with pytest.raises(ValueError, match=r"column 'a' is real .* in partition 0 and cat"):
        one.merge(other)
    with pytest.raises(ValueError, match="partition 2 has no column 'y'"):
        work(pa.table({"a": [1.0]}), 0, "partition 2")
