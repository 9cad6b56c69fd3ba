"""Tables of Spark, Ibis and Daft have the numbers of memory: for ``make test-spark``.

Everything runs on one machine, in ``local[2]``, where a task that fails is repeated.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfi
from dfi._data import source
from dfi._streams import spark as sparks
from dfi._streams.read import open_stream

from .conftest import GROUPS, N

pytestmark = [
    pytest.mark.timeout(1200),
    # of other libraries, and not ours to mend
    pytest.mark.filterwarnings("ignore"),
]

OPTIONS = {"estimator": "linear", "diagnose": False, "fit_rows": 1200, "explain_rows": 600}
CUTS = (0, 0, 7, 400, 401, 1300, 1300, 2999, N)
"""Eight partitions, some without rows."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    pyspark = pytest.importorskip("pyspark.sql", reason="Spark is tested by make test-spark")
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder),
            "spark.network.timeout": "1000s",
        }
        builder = pyspark.SparkSession.builder.master("local[2,4]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        try:
            session = builder.getOrCreate()
        except Exception as error:
            if os.environ.get("DFI_SPARK") == "required":
                raise
            pytest.skip(f"Spark does not start here ({type(error).__name__}): is there a Java?")
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def table(frame):
    """Categories, one in one partition only; missing values; weights of which some are 0."""
    table = frame.assign(c=frame["c"].astype(str), id=np.arange(N))
    table.loc[5, "c"] = "rare"
    return table


@pytest.fixture(scope="module")
def whole(table):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "LARGE_ROWS", 500)
        return dfi.explain(table.drop(columns="id"), "y", sample_weight="w", **OPTIONS)


def in_parts(spark, table, cuts=CUTS):
    """Return a table of Spark with partitions of some sizes, rows in order."""
    schema = spark.createDataFrame(table).schema
    found = None
    for start, stop in pairwise(cuts):
        rows = table.iloc[start:stop].astype(object).where(table.iloc[start:stop].notna(), None)
        part = spark.createDataFrame(rows.values.tolist(), schema).coalesce(1)
        found = part if found is None else found.union(part)
    return found


@pytest.fixture(scope="module")
def parts(spark, table):
    return in_parts(spark, table)


def test_uneven_and_empty_partitions_in_order(parts, whole, same, monkeypatch):
    """States are merged by Spark's workers, two at a time."""
    monkeypatch.setattr(sparks, "MERGED_AT_ONCE", 2)
    found = dfi.explain(parts.drop("id"), "y", sample_weight="w", **OPTIONS)
    same(found, whole, GROUPS)
    assert "rows_known_by" not in found.spec
    assert isinstance(found.table(), pd.DataFrame)


def test_rows_that_were_moved_are_known_by_a_key(parts, whole, same):
    rows = parts.repartition(8, "few")
    found = dfi.explain(rows, "y", sample_weight="w", row_id="id", **OPTIONS)
    same(found, whole, GROUPS)
    assert found.spec["rows_known_by"] == "the column 'id'"


def rows_of(table):
    """Return the rows that a sample of a table consists of, and how they are known."""
    data = open_stream(table, "y").gathered((600, np.random.SeedSequence(1)))
    return np.column_stack([data.matrix, data.y]), data


def test_rows_that_were_moved_are_known_by_their_content(parts):
    rows = parts.drop("id", "w", "c")
    (one, data), (other, _) = (rows_of(rows.repartition(count)) for count in (5, 2))
    assert np.array_equal(one, other)
    assert data.facts == {"rows_known_by": "the content of a row"}


def test_a_worker_that_is_killed(spark, table, tmp_path):
    sign, numbers = str(tmp_path / "died"), table[["a", "b", "few", "y"]].fillna(0.0)

    def once(batches):
        for batch in batches:
            try:
                os.close(os.open(sign, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                yield batch
            else:
                os.kill(os.getpid(), signal.SIGKILL)

    rows = spark.createDataFrame(numbers)
    found, data = rows_of(rows.mapInArrow(once, rows.schema))
    assert os.path.exists(sign)
    assert np.array_equal(found, numbers.to_numpy()[data.places])


def test_a_table_that_changes_between_passes(spark, table, tmp_path, monkeypatch):
    sign, numbers = str(tmp_path / "read"), table[["a", "b", "few", "y"]].fillna(0.0)

    def shifted(batches):
        for batch in batches:
            if os.path.exists(sign):
                moved = pa.array(batch.column(0).to_numpy(zero_copy_only=False) + 1e-9)
                batch = batch.set_column(0, "a", moved)
            yield batch

    reduce = sparks.SparkParts.reduce

    def signed(self, *given, **options):
        found = reduce(self, *given, **options)
        open(sign, "w").close()
        return found

    monkeypatch.setattr(sparks.SparkParts, "reduce", signed)
    rows = spark.createDataFrame(numbers)
    with pytest.raises(ValueError, match="X changed after it was first read"):
        dfi.explain(rows.mapInArrow(shifted, rows.schema), "y", **OPTIONS)


def test_what_cannot_be_read_is_told(spark, parts):
    def refused(message, X, error=ValueError, y="y"):
        with pytest.raises(error, match=message):
            dfi.explain(X, y, **OPTIONS)

    refused("X has more than one column called 'a'; rename them", parts.select("a", "a", "y"))
    nested = parts.selectExpr("a", "array(few, few) as both", "y")
    refused("Column 'both' holds nested values", nested)
    refused("y='z' names a column, but X has no such column", parts, y="z")
    broken = parts.selectExpr("a", "y", "raise_error('the disk is gone') as d", "few")
    refused("X is a table of Spark that cannot be read .*the disk is gone", broken)


def test_methods_on_frames_gather_rows(parts, table):
    rows = parts.select("a", "b", "few", "y", "id")
    found = dfi.compare(rows, "y", ["loco"], estimator="linear", cv=2, row_id="id")["loco"]
    assert (found.spec["gathered_rows"], found.spec["gathered_of"]) == (500, N)


def test_workers_without_the_library():
    """Said by what tells of failures: here the workers have it."""
    told = "the Python workers of Spark have no dfi: install it"
    with pytest.raises(ImportError, match=told), sparks.readable():
        raise RuntimeError("ModuleNotFoundError: No module named 'dfi'")
    told = r"cannot be read \(RuntimeError: \): check that X.count"
    with pytest.raises(ValueError, match=told), sparks.readable():
        raise RuntimeError


@pytest.mark.parametrize("library", ["ibis", "daft", "duckdb"])
def test_other_engines(library, table, whole, same):
    module = pytest.importorskip(library)
    arrow = pa.Table.from_pandas(table.drop(columns="id"), preserve_index=False)
    make = {"ibis": "memtable", "daft": "from_arrow", "duckdb": "from_arrow"}[library]
    rows = getattr(module, make)(arrow)
    found = dfi.explain(rows, "y", sample_weight="w", **OPTIONS)
    same(found, whole, GROUPS)


def test_what_ibis_and_daft_give_is_read_in_parts(table):
    """Their own streams of Arrow hold all rows first."""
    ibis = pytest.importorskip("ibis")
    from dfi._streams.lazy import open_lazy

    arrow = pa.Table.from_pandas(table[["a", "y", "b"]], preserve_index=False)
    opened = open_lazy(ibis.memtable(arrow).filter(ibis._.y > 0))
    assert opened.what == "an Ibis table"
    (part,) = [part for _, part in opened.frames(["y"])]
    assert part.column_names == ["y"]
    assert part.num_rows == int((table["y"] > 0).sum())
