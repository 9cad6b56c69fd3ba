"""Dask: partitions stay on their workers, and the numbers are those of memory."""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client, LocalCluster

import dfi
from dfi._streams.read import open_stream

from .conftest import GROUPS, N

if TYPE_CHECKING:
    import pandas as pd

pytestmark = [
    pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning"),
    # sockets and loops of clusters are closed by their own threads
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

OPTIONS = {"estimator": "linear", "fit_rows": 1200, "explain_rows": 600, "diagnose": False}


@contextlib.contextmanager
def workers(count: int):
    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        yield client


@pytest.fixture(scope="class", params=[1, 2])
def client(request):
    with workers(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def whole(frame):
    from dfi._data import source

    before, source.LARGE_ROWS = source.LARGE_ROWS, 500
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dfi.explain(frame, "y", sample_weight="w", **OPTIONS)
    finally:
        source.LARGE_ROWS = before


def parts_of(frame: pd.DataFrame, cuts: list[int]) -> dd.DataFrame:
    ends = [0, *cuts, len(frame)]
    return parts_like(frame, [frame.iloc[a:b] for a, b in pairwise(ends)])


def parts_like(frame: pd.DataFrame, pieces: list[pd.DataFrame]) -> dd.DataFrame:
    delayed = [dask.delayed(piece) for piece in pieces]
    return dd.from_delayed(delayed, meta=frame.iloc[:0], verify_meta=False)


@pytest.mark.full
class TestOnWorkers:
    """Each in a process of its own; the cluster is gone before other tests begin."""

    def test_a_table_of_the_caller(self, client, frame, whole, same):
        table = dd.from_pandas(frame, npartitions=5)
        same(dfi.explain(table, "y", sample_weight="w", **OPTIONS), whole, GROUPS)

    def test_partitions_that_live_there(self, client, frame, whole, same):
        table = dd.from_pandas(frame, npartitions=3).persist()
        features = table.drop(columns=["y", "w"])
        found = dfi.explain(features, table["y"], sample_weight=table["w"], **OPTIONS)
        same(found, whole)


def test_without_a_cluster(frame, whole, same, capsys):
    """Dask's own scheduler, empty partitions, a bar for who watches."""
    table = parts_of(frame, [0, 10, 10, 2000])
    found = dfi.explain(table, "y", sample_weight="w", progress=True, **OPTIONS)
    same(found, whole, GROUPS)
    assert "reading columns" in capsys.readouterr().err


def test_arrays(numbers, same):
    matrix, y = numbers[["a", "b", "few"]].to_numpy(), numbers["y"].to_numpy()
    found = dfi.explain(
        da.from_array(matrix, chunks=(700, 2)), da.from_array(y, chunks=500), **OPTIONS
    )
    same(found, dfi.explain(matrix, y, **OPTIONS))


@pytest.mark.slow  # tests/models/test_clusters.py kills one in every run
def test_a_worker_that_is_killed(frame, whole, same, tmp_path):
    """The first task of the second pass takes its worker with it; Dask does it again."""
    sign = tmp_path / "killed"

    def once(part: pd.DataFrame) -> pd.DataFrame:
        if len(part) and part["y"].iloc[0] == frame["y"].iloc[0] and (tmp_path / "armed").exists():
            with contextlib.suppress(FileExistsError):
                os.close(os.open(sign, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        return part

    with workers(2):
        table = dd.from_pandas(frame, npartitions=6).map_partitions(once, meta=frame.iloc[:0])
        stream = open_stream(table, "y", sample_weight="w")
        (tmp_path / "armed").touch()
        rows = stream.source._at(np.arange(0, N, 7))
        assert sign.exists()
        assert rows.y == pytest.approx(frame["y"].to_numpy()[::7])
        sign.unlink()
        same(dfi.explain(table, "y", sample_weight="w", **OPTIONS), whole, GROUPS)
        assert sign.exists()


def test_levels_that_one_partition_has_alone(frame, same):
    table = frame.drop(columns=["w", "c"]).assign(c=frame["c"].astype(str))
    table.loc[table.index[-40:], "c"] = "rare"
    parts = parts_of(table, [1000, N - 40])
    same(dfi.explain(parts, "y", **OPTIONS), dfi.explain(table, "y", **OPTIONS))


def test_a_partition_of_another_schema(frame):
    table = frame[["a", "b", "y"]]
    other = parts_like(table, [table.iloc[:900], table.iloc[900:].assign(a="text")])
    message = r"column 'a' is real .* in partition 0 and categorical .* in partition 1"
    with pytest.raises(ValueError, match=message):
        dfi.explain(other, "y", **OPTIONS)
    lacking = parts_like(table, [table.iloc[:900], table.iloc[900:][["a", "y"]]])
    with pytest.raises(ValueError, match="partition 1 has no column 'b', which other parts of X"):
        dfi.explain(lacking, "y", **OPTIONS)


def test_a_client_that_is_closed(frame):
    table = dd.from_pandas(frame, npartitions=2)
    with workers(1) as client:
        kept = table.persist()
        len(kept)
    with (
        client.as_current(),
        pytest.raises(ValueError, match="the Client of Dask is closed: open a new one"),
    ):
        dfi.explain(table, "y", **OPTIONS)
    with pytest.raises(ValueError, match="Dask Client that holds the partitions of X is closed"):
        dfi.explain(kept, "y", **OPTIONS)


@pytest.mark.parametrize(
    ("y", "options", "error", "message"),
    [
        (None, {}, ValueError, "DFI requires y to be passed: a column of X by name, or one of"),
        ([1.0], {}, TypeError, "X is a Dask table, but y is a list: pass the name of a column"),
        ("z", {}, ValueError, "y='z' names a column, but X has no such column"),
        ("y", {"sample_weight": np.ones(3)}, TypeError, "but sample_weight is a ndarray: pass"),
    ],
)
def test_what_cannot_be_read(y, options, error, message, frame):
    with pytest.raises(error, match=message):
        dfi.explain(dd.from_pandas(frame, npartitions=2), y, **OPTIONS, **options)


def test_columns_of_other_partitions(frame):
    table = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(ValueError, match="y has 2 partitions and X has 3: give them the same"):
        dfi.explain(table[["a", "b"]], dd.from_pandas(frame["y"], npartitions=2), **OPTIONS)


def test_arrays_that_cannot_be_read(numbers):
    array = da.from_array(numbers.to_numpy(), chunks=(700, 4))
    with pytest.raises(TypeError, match="X is a dask array, but y is a str: pass a dask"):
        dfi.explain(array, "y", **OPTIONS)
    with pytest.raises(ValueError, match="X must have two dimensions and has 1"):
        dfi.explain(array[:, 0], array[:, 1], **OPTIONS)
    with pytest.raises(ValueError, match="y has 2900 rows and X has 3000: pass one value per row"):
        dfi.explain(array[:, :3], array[:2900, 3], **OPTIONS)
    some = array[array[:, 0] > -9]
    with pytest.raises(ValueError, match="unknown lengths, so y cannot be aligned"):
        dfi.explain(some[:, :3], array[:, 3], **OPTIONS)


def test_arrays_of_chunks_with_unknown_lengths(numbers, same):
    array = da.from_array(numbers.to_numpy(), chunks=(700, 4))
    some = array[array[:, 0] > 0]
    rows = numbers.to_numpy()[numbers["a"] > 0]
    same(
        dfi.explain(some[:, :3], some[:, 3], **OPTIONS),
        dfi.explain(rows[:, :3], rows[:, 3], **OPTIONS),
    )


def test_columns_without_divisions(frame):
    table = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(ValueError, match="the divisions of y are not known and the other's are"):
        dfi.explain(table[["a", "b"]], table["y"].clear_divisions(), **OPTIONS)


def test_what_is_no_table(frame):
    with pytest.raises(TypeError, match=r"X is a Delayed.* of Dask, not a table: pass a"):
        dfi.explain(dask.delayed(frame), "y", **OPTIONS)


def test_a_partition_that_cannot_be_computed(numbers):
    def lost(part):
        raise FileNotFoundError("no such part")

    table = dd.from_pandas(numbers, npartitions=3)
    table = table.map_partitions(lost, meta=table._meta)
    with pytest.raises(ValueError, match=r"cannot be computed \(FileNotFoundError: no such part\)"):
        dfi.explain(table, "y", **OPTIONS)


def test_partitions_that_are_not_the_same_again(numbers):
    seen = []

    def other(part):
        seen.append(len(part))
        return part if len(seen) < 5 else part.iloc[:-1]

    table = dd.from_pandas(numbers, npartitions=3)
    table = table.map_partitions(other, meta=table._meta)
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(ValueError, match="X changed after it was first read: do not change"),
    ):
        dfi.explain(table, "y", **OPTIONS)
