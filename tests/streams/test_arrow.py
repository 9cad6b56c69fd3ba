"""Whatever gives a stream of Arrow is a table: rows in an order, or known by content or a key."""

from __future__ import annotations

import gc
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfi
from dfi._data import source
from dfi._streams import keys
from dfi._streams.lazy import open_lazy
from dfi._streams.read import is_stream

from .conftest import GROUPS, N

pytestmark = pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")

OPTIONS = {"estimator": "linear", "diagnose": False, "fit_rows": 1200, "explain_rows": 600}
SMALL = {"estimator": "linear", "diagnose": False, "cv": 2}


class Query:
    """What gives a stream of Arrow at every read, and may change what it gives."""

    def __init__(self, table, changed=None, batch=700):
        self.table, self.changed, self.batch, self.reads = table, changed, batch, 0

    @property
    def column_names(self):
        return self.table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        self.reads += 1
        table = self.table if self.changed is None else self.changed(self.table, self.reads)
        batches = table.to_batches(max_chunksize=self.batch)
        return pa.RecordBatchReader.from_batches(table.schema, batches).__arrow_c_stream__()


def shuffled(table, seed):
    return table.take(np.random.default_rng(seed).permutation(len(table)))


@pytest.fixture(scope="module")
def arrow(frame):
    table = frame.assign(c=frame["c"].astype(str), id=np.arange(N))
    return pa.Table.from_pandas(table, preserve_index=False)


@pytest.fixture(scope="module")
def whole(arrow):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "LARGE_ROWS", 500)
        return dfi.explain(arrow.drop_columns("id"), "y", sample_weight="w", **OPTIONS)


def refused(message, X, y="y", error=ValueError, **options):
    with pytest.raises(error, match=message):
        dfi.explain(X, y, **{**OPTIONS, **options})


@given(batch=st.integers(1, 2 * N), seed=st.one_of(st.none(), st.integers(0, 99)))
@settings(max_examples=5)
def test_any_cut_and_any_order_give_the_numbers_of_memory(batch, seed, arrow, whole, same):
    """Categories, missing values, weights of which some are 0."""
    table = arrow if seed is None else shuffled(arrow, seed)
    found = dfi.explain(Query(table, batch=batch), "y", sample_weight="w", row_id="id", **OPTIONS)
    same(found, whole, GROUPS)
    assert found.spec["rows_known_by"] == "the column 'id'"


def test_rows_in_order_are_known_by_their_places(arrow, whole, same):
    table = arrow.drop_columns("id")
    same(dfi.explain(Query(table), "y", sample_weight="w", **OPTIONS), whole, GROUPS)
    with duckdb.connect() as connection:
        relation = connection.from_arrow(table)
        found = dfi.explain(relation, "y", sample_weight="w", **OPTIONS)
    same(found, whole)
    assert "rows_known_by" not in found.spec


def test_rows_in_another_order_at_each_read_are_known_by_their_content(arrow, same):
    table = arrow.drop_columns("id")
    found = [
        dfi.explain(Query(shuffled(table, 7 * seed), shuffled, batch), "y", **OPTIONS)
        for seed, batch in ((0, 700), (1, 451))
    ]
    assert found[0].spec["rows_known_by"] == "the content of a row"
    same(*found)
    # the same law, another sample
    few = [dfi.explain(Query(table.slice(0, 400), shuffled), "y", **SMALL) for _ in range(2)]
    same(*few)


def test_keys_of_any_kind(arrow, same):
    named = [f"k{k}" for k in np.random.default_rng(3).permutation(N)]
    table = arrow.set_column(arrow.schema.get_field_index("id"), "id", pa.array(named))
    found = [
        dfi.explain(Query(rows), "y", row_id="id", **OPTIONS)
        for rows in (table, shuffled(table, 1))
    ]
    same(*found)
    few = table.slice(0, 400)
    same(
        dfi.explain(Query(shuffled(few, 5)), "y", row_id="id", **SMALL),
        dfi.explain(few.to_pandas(), "y", row_id="id", **SMALL),
    )
    frames = (few, pl.from_arrow(few), shuffled(few, 2).to_pandas())
    one, *others = (dfi.explain(frame, "y", row_id="id", **SMALL) for frame in frames)
    for other in others:
        same(one, other)


def test_files_and_lazy_frames_have_keys_too(arrow, same, tmp_path):
    path = tmp_path / "t.parquet"
    pl.from_arrow(shuffled(arrow, 4)).write_parquet(path)
    memory = dfi.explain(arrow.drop_columns("id"), "y", **OPTIONS)
    for table in (path, pl.scan_parquet(path)):
        same(dfi.explain(table, "y", row_id="id", **OPTIONS), memory)


@pytest.mark.parametrize("missing", ["drop", "indicator"])
def test_rows_that_are_left_out_are_not_drawn(missing, arrow, same):
    options = {**OPTIONS, "missing": missing, "row_id": "id"}
    table = arrow.drop_columns(["w", "c"])
    one, other = (dfi.explain(Query(t), "y", **options) for t in (table, shuffled(table, 1)))
    same(one, other)
    assert one.spec["n_rows"] < N if missing == "drop" else one.spec["n_rows"] == N


def test_keys_that_name_no_row(arrow):
    half = arrow.set_column(arrow.schema.get_field_index("id"), "id", pa.array(np.arange(N) // 2))
    message = "row_id='id' has the same value in several rows, but it must identify rows"
    refused(message, Query(half), row_id="id")
    refused(message, Query(half.slice(0, 300)), row_id="id")
    refused(message, half.to_pandas(), row_id="id")
    gaps = pa.array([None, *range(1, N)], pa.int64())
    missing = arrow.set_column(arrow.schema.get_field_index("id"), "id", gaps)
    refused("row_id='id' has missing values", Query(missing), row_id="id")
    refused("row_id='nope' names a column, but X has no such column", Query(arrow), row_id="nope")
    refused("y and row_id both name the column 'y'", Query(arrow), row_id="y")
    refused(
        "row_id='id' puts the rows of X in order, but y is a Series beside it: name a column",
        arrow.drop_columns("y").to_pandas(),
        arrow["y"].to_pandas(),
        TypeError,
        row_id="id",
    )


def test_rows_that_are_too_much_alike(arrow):
    table = arrow.select(["b", "few", "flag"]).append_column("y", arrow["b"])
    refused("too similar to identify by their values", Query(table, shuffled))
    found = dfi.explain(Query(table.slice(0, 400), shuffled), "y", **SMALL)
    assert found.spec["n_rows"] == 400


def test_a_few_copies_are_drawn_together(arrow):
    table = arrow.drop_columns("id")
    doubled = pa.concat_tables([table, table.slice(0, 60)])
    found = [
        dfi.explain(Query(shuffled(doubled, s), shuffled), "y", keep_rows=True, **OPTIONS)
        for s in (0, 1)
    ]
    assert found[0].scores == pytest.approx(found[1].scores, abs=1e-10 * found[0].scores.max())
    assert len(np.unique(found[0].basis.rows)) == len(found[0].basis.rows)


def test_tables_that_change_between_reads(arrow):
    def other(table, read):
        return table if read < 2 else table.set_column(0, "a", pa.array(np.zeros(N)))

    refused("X changed after it was first read", Query(arrow, other))
    refused(
        "X changed after it was first read",
        Query(arrow, lambda table, read: table.slice(0, N - read)),
    )
    refused(
        "X can be read only once, but it is read several times: pass what it is read from",
        Query(arrow, lambda table, read: table if read < 2 else table.slice(0, 0)),
    )


class Cursor:
    """A cursor of a database that gives Arrow, as those of ADBC do."""

    arraysize = 1

    def __init__(self, table):
        self.table = table

    def fetch_record_batch(self):
        return self.table.to_reader(max_chunksize=500)


@pytest.mark.parametrize("kind", [Cursor, pa.Table.to_reader])
def test_streams_that_can_be_read_once_are_kept_in_a_file(kind, arrow, whole, same):
    opened = open_lazy(kind(arrow))
    folder = Path(opened.spool.folder)
    assert [path.name for path in folder.iterdir()] == ["rows.arrow"]
    del opened
    gc.collect()
    assert not folder.exists()
    table = arrow.drop_columns("id")
    same(dfi.explain(kind(table), "y", sample_weight="w", **OPTIONS), whole)


def test_what_is_in_memory_stays_there(frame, arrow):
    for table in (frame, arrow, pl.from_arrow(arrow), arrow["a"], pl.Series([1.0]), frame["a"]):
        assert not is_stream(table)
    assert is_stream(Query(arrow))
    assert is_stream(arrow.to_reader())


def test_columns_that_cannot_be_used(arrow):
    nested = arrow.append_column("n", pa.array([[1]] * N))
    refused("Column 'n' holds nested values", Query(nested))
    twice = arrow.append_column("a", arrow["b"])
    refused("X has more than one column called 'a'; rename them", Query(twice))

    class Broken:
        column_names = ("a", "y")

        def __arrow_c_stream__(self, requested_schema=None):
            raise OSError("the server is gone")

    refused(r"X is a Broken of .* that cannot be read \(OSError: the server is gone\)", Broken())


def test_draws_do_not_depend_on_the_cut():
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 900, 5000)
    seed = np.random.SeedSequence(1)
    one = keys.Drawn.of(rows, 400, seed, 1.0)
    pieces = [keys.Drawn.of(part, 400, seed, 1.0) for part in np.array_split(rows, 7)]
    total = pieces[0]
    for piece in pieces[1:]:
        total = piece.merge(total)
    assert np.array_equal(one.keys, total.keys)
    assert np.array_equal(one.copies, total.copies)
    assert one.rows >= 400
    assert (np.bincount(rows)[one.keys] == one.copies).all()
    assert keys.unique_keys(np.array([1, 4, 4, 4, 5, 9])).tolist() == [1, 4, 5, 6, 7, 9]


# What works on frames: some rows are gathered, and the result says so.


@pytest.fixture(scope="module")
def trial(arrow):
    generator = np.random.default_rng(5)
    table = arrow.select(["a", "b", "few", "y"])
    table = table.set_column(0, "a", arrow["a"].fill_null(0.0))
    return (
        table.append_column("arm", pa.array(generator.random(N) < 0.5))
        .append_column("school", pa.array(generator.integers(0, 100, N)))
        .append_column("z", pa.array(generator.normal(size=N) + table["b"].to_numpy()))
    )


def gathered(result):
    return result.spec["gathered_rows"], result.spec["gathered_of"]


def test_comparisons_on_gathered_rows(trial):
    table = trial.select(["a", "b", "few", "y"])
    found = dfi.compare(Query(table), "y", ["dfi", "loco"], estimator="linear", cv=2)
    assert gathered(found["loco"]) == (500, N)
    (told,) = [f for f in found["loco"].findings if f.kind == "gathered rows"]
    assert told.what == f"computed on 500 of {N:,} rows, drawn at random and read into memory"
    few = table.slice(0, 300)
    one, other = (
        dfi.compare(t, "y", ["loco"], estimator="linear", cv=2)["loco"] for t in (few, Query(few))
    )
    assert np.array_equal(one.scores, other.scores)
    assert "gathered_of" not in other.spec
    several = dfi.sensitivity(Query(table), "y", "linear", epsilons=[0.0, 0.5], cv=2)
    assert gathered(several["epsilon = 0"]) == (500, N)


def test_effects_on_gathered_rows(trial):
    table = trial.select(["a", "b", "few", "y", "arm"])
    options = {"outcome_model": "linear", "propensity_model": 0.5, "cv": 2, "diagnose": False}
    found = dfi.effects(Query(table), "y", "arm", "linear", **options)
    assert gathered(found) == (500, N)
    assert found.names == ("a", "b", "few")
    few = table.slice(0, 300)
    one, other = (dfi.effects(t, "y", "arm", "linear", **options) for t in (few, Query(few)))
    assert np.array_equal(one.scores, other.scores)
    with pytest.raises(TypeError, match="treatment is a ndarray, but X is a table that is"):
        dfi.effects(Query(table), "y", np.arange(N) % 2, "linear", **options)


def test_changes_of_gathered_rows(trial):
    table = trial.select(["a", "b", "few", "y"]).append_column("id", pa.array(np.arange(N)))
    later = table.set_column(3, "y", pa.array(table["y"].to_numpy() + table["a"].to_numpy()))
    options = {"y": "y", "estimator": "linear", "cv": 2, "diagnose": False}
    found = dfi.change(Query(table), Query(shuffled(later, 1)), id="id", **options)
    assert gathered(found.before) == gathered(found.after) == (500, N)
    # both draw the same rows, so they are paired
    assert found.rows == "same"
    with pytest.raises(TypeError, match="sample_weight is a pair of vectors, but before is a"):
        dfi.change(Query(table), Query(later), sample_weight=([1], [1]), **options)


def test_clusters_are_gathered_whole(trial):
    table = trial.select(["a", "b", "few", "y", "school"])
    found = dfi.explain(Query(table), "y", clusters="school", **SMALL)
    count, total = gathered(found)
    assert 500 <= count < 500 + 60
    assert total == N
    assert found.spec["dependence"] != "independent rows"
    again = dfi.explain(Query(shuffled(table, 3)), "y", clusters="school", **SMALL)
    sizes = np.bincount(table["school"].to_numpy())
    assert gathered(again) == (count, total)
    assert found.basis.degrees == again.basis.degrees < len(sizes) - 1
    refused("clusters is a ndarray", Query(table), error=TypeError, clusters=np.arange(N) % 9)


def test_several_outcomes_by_name(trial):
    table = trial.select(["a", "b", "few", "y", "z"])
    found = dfi.explain(Query(table), ["y", "z"], **SMALL)
    assert tuple(found.by_outcome) == ("y", "z")
    assert gathered(found) == (500, N)
    few = table.slice(0, 300).to_pandas()
    whole = dfi.explain(few[["a", "b", "few"]], few[["y", "z"]], **SMALL)
    assert dfi.explain(Query(table.slice(0, 300)), ["y", "z"], **SMALL).scores == pytest.approx(
        whole.scores, rel=1e-10
    )
    refused("y='nope' names", Query(table), ["y", "nope"])


def test_pandas_is_what_pandas_is(frame):
    """A frame that also gives a stream of Arrow has the numbers that it had."""
    assert hasattr(pd.DataFrame, "__arrow_c_stream__")
    table = frame.drop(columns=["w", "c"]).iloc[:300]
    assert dfi.explain(table, "y", **SMALL).spec["n_rows"] == 300
