"""A table in parts is the same table: whatever the cut, the numbers of the frame in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor

import dfi
from dfi._data.levels import constant_columns
from dfi._data.seeds import Seeds
from dfi._data.source import sampled_places, tickets
from dfi._streams.read import open_stream
from tests.streams.slices import Slices

from .conftest import GROUPS, N

pytestmark = pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")

CUTS = st.lists(st.integers(0, N), max_size=6).map(lambda cuts: tuple(sorted(cuts)))
SAMPLE = {"fit_rows": 1200, "explain_rows": 600}


@pytest.fixture(scope="module")
def in_memory(frame):
    kept: dict[str, dfi.Importance] = {}

    def explained(**options):
        key = repr(sorted(options.items()))
        if key not in kept:
            kept[key] = dfi.explain(frame, "y", **options)
        return kept[key]

    return explained


@given(cuts=CUTS, weight=st.sampled_from(["sample_weight", None]))
@settings(max_examples=6)
def test_any_partitioning_gives_the_numbers_of_memory(cuts, weight, frame, in_memory, same):
    """Categories, missing values, weights of which some are 0, empty parts."""
    options = {"estimator": "linear", "diagnose": False, **SAMPLE}
    options |= {} if weight is None else {weight: "w"}
    streamed = dfi.explain(Slices(frame, cuts), "y", **options)
    same(streamed, in_memory(**options), GROUPS)


@pytest.mark.parametrize("columns", [["a", "b", "few", "y"], None], ids=["numbers", "all"])
def test_trees_see_the_same_side_of_every_split(columns, frame, numbers, same):
    """Trees split at values of rows: rounding must not decide where these lie."""
    table = numbers if columns else frame.drop(columns="w")
    options = {
        "estimator": HistGradientBoostingRegressor(max_iter=10, random_state=0),
        "diagnose": False,
        "fit_rows": 1000,
        "explain_rows": 300,
    }
    whole = dfi.explain(table, "y", **options)
    for cuts in ((5, 5, 700), (1, 1499, 2998)):
        same(dfi.explain(Slices(table, cuts), "y", **options), whole)


def test_counts_and_named_groups(frame, same):
    table = frame.assign(w=np.arange(N) % 3)
    options = {
        "estimator": "linear", "frequency_weight": "w",
        "feature_groups": {"g": ["a", "b"], "h": ["c"]},
        "units": "groups", "n_repeats": 1, "diagnose": False, **SAMPLE,
    }  # fmt: skip
    same(
        dfi.explain(Slices(table, (100, 1100)), "y", **options), dfi.explain(table, "y", **options)
    )


@pytest.mark.parametrize("missing", ["indicator", "drop"])
def test_classes_and_missing_values(missing, frame, same):
    table = frame.drop(columns=["w", "y"])
    options = {
        "estimator": "linear", "missing": missing, "loss": "log-loss", "diagnose": False, **SAMPLE
    }  # fmt: skip
    streamed = dfi.explain(Slices(table, (1000, 1700)), "c", **options)
    whole = dfi.explain(table, "c", **options)
    same(streamed, whole)
    assert streamed.spec["outcome"] == whole.spec["outcome"]
    assert streamed.spec["prediction_shrinkage"] == pytest.approx(
        whole.spec["prediction_shrinkage"]
    )


@pytest.mark.full
def test_the_default_learner(numbers, same):
    """Its folds share models, and its members are weighed on rows that models are fitted on."""
    options = {"diagnose": False, "fit_rows": 300, "explain_rows": 500}
    whole = dfi.explain(numbers, "y", **options)
    same(dfi.explain(Slices(numbers, (1000,)), "y", **options), whole)
    assert whole.spec["fit_rows"] == 300


def test_the_sample_is_the_split_that_it_says(numbers, same):
    """Models of some rows explain all others: written out as a list of splits."""
    seeds = Seeds.of(0)
    fit = sampled_places(N, 1000, seeds.child("explained rows").sequence())
    options = {"estimator": "linear", "form": "loco", "diagnose": False, "explain_rows": 1500}
    streamed = dfi.explain(Slices(numbers, (1000, 2000)), "y", fit_rows=1000, **options)
    alone = dfi._models.prepare.prepare(numbers.iloc[fit], "y", estimator="linear")
    others = np.setdiff1d(np.arange(N), fit)
    fold = tickets(others, seeds.child("folds of other rows").sequence()) % np.uint64(5)
    splits = [
        (fit[own.train], np.concatenate([fit[own.test], others[fold == k]]))
        for k, own in enumerate(alone.repeats[0])
    ]
    same(streamed, dfi.explain(numbers, "y", cv=splits, **options))


def test_few_rows_are_gathered_whole(frame, same):
    few = frame.iloc[:400]
    options = {"estimator": "linear", "diagnose": False, "sample_weight": "w"}
    same(dfi.explain(Slices(few, (100, 100)), "y", **options), dfi.explain(few, "y", **options))


def test_a_fitted_model(numbers, same):
    model = HistGradientBoostingRegressor(max_iter=5).fit(numbers[["a", "b", "few"]], numbers["y"])
    options = {"cv": "prefit", "explain_rows": 400, "diagnose": False}
    streamed = dfi.explain(Slices(numbers, (7,)), "y", model, fit_rows=600, **options)
    same(streamed, dfi.explain(numbers, "y", model, **options))


def test_rows_are_known_by_their_places(numbers):
    options = {"estimator": "linear", "diagnose": False, "keep_rows": True, **SAMPLE}
    streamed = dfi.explain(Slices(numbers, (1700,)), "y", **options)
    whole = dfi.explain(numbers, "y", **options)
    assert np.array_equal(streamed.basis.rows, whole.basis.rows)
    assert streamed.basis.rows.max() > 1200


def test_the_automatic_sample_ends_with_the_rows_that_were_gathered(numbers):
    found = dfi.explain(
        Slices(numbers, ()), "y", estimator="linear", fit_rows=500, explain_rows="auto"
    )
    assert found.spec["explained_rows"] <= 500
    assert found.spec["explained_of"] == N


@given(cuts=CUTS)
@settings(max_examples=6)
def test_the_first_pass_reads_what_memory_reads(cuts, frame):
    """Columns, levels, constants, outcome and weights."""
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    for table in (frame, arrow):
        whole = dfi._data.problem.read_data(table, "y", sample_weight="w")
        stream = open_stream(Slices(table, cuts), "y", sample_weight="w")
        known = stream.state.known(stream.columns)
        assert [(c.name, c.kind, c.levels, c.positions) for c in stream.columns] == [
            (c.name, c.kind, c.levels, c.positions) for c in whole.table.columns
        ]
        assert np.array_equal(known.constant, whole.table.constant)
        assert np.array_equal(
            known.counted_constant,
            constant_columns(whole.matrix, np.flatnonzero(whole.weights.values)),
        )
        grids = {grid.position: grid.values.tolist() for grid in whole.table.levels.grids}
        assert {grid.position: grid.values.tolist() for grid in known.levels.grids} == grids
        some = np.array([0, 17, N - 1])
        rows, weights = stream.source.take(some)
        assert rows == pytest.approx(whole.matrix[some], abs=1e-12)
        assert weights.values == pytest.approx(whole.weights.values[some], rel=1e-12)
        assert stream.source.total == whole.weights.total
