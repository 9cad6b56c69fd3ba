"""What pandas stores of row labels is no feature, and ISO timestamps are dates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

import dfi
from dfi._data.table import read_table
from dfi._data.text import is_date

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.standard_normal((80, 2)), columns=["a", "b"])
FRAME["y"] = FRAME["a"] + RNG.standard_normal(80)


@pytest.fixture
def path(tmp_path):
    where = tmp_path / "t.parquet"
    FRAME.sample(70, random_state=0).to_parquet(where)
    assert "__index_level_0__" in pq.read_schema(where).names
    return where


@pytest.mark.parametrize("read", [pq.read_table, pl.read_parquet, pl.scan_parquet, str])
def test_a_stored_index_is_no_feature(path, read):
    assert dfi.explain(read(path), "y", "linear", cv=2, diagnose=False).names == ("a", "b")


def test_a_stored_index_of_pandas_is_no_feature(path):
    frame = pl.read_parquet(path).to_pandas()
    table = read_table(frame)
    assert table.names == ("a", "b", "y")
    assert list(table.frame(table.matrix).columns) == ["a", "b", "y"]
    kept = read_table(frame.rename(columns={"__index_level_0__": "__index_level__"}))
    assert kept.names[-1] == "__index_level__"


@pytest.mark.parametrize(
    "text",
    ["2013-01-01T10:00:00Z", "2013-01-01T10", "20130101T100000Z", "2013-01-01T10:00:00.5+02:00"],
)
def test_iso_timestamps_are_dates(text):
    assert is_date(text)
    assert not is_date(text.replace("2013-01-01", "2013-13-01").replace("20130101", "20131301"))


def test_the_line_that_a_message_gives_reads_timestamps_with_a_zone():
    X = FRAME.assign(t=[f"2013-01-{1 + k % 28:02d}T{k % 24:02d}:00:00+02:00" for k in range(80)])
    with pytest.raises(TypeError, match="Column 't' holds dates as text") as caught:
        read_table(X)
    line = str(caught.value).split("e.g. ")[1].split(", or declare")[0]
    found = eval(line, {"X": X, "pd": pd})  # noqa: S307
    assert found[0] == pytest.approx(15705 + 22 / 24)
