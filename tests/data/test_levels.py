"""Which columns have levels, and which level a row is decoded to."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dfi._data import levels
from dfi._data.levels import Grid, constant_columns, different_rows, extremes, read_levels
from dfi._data.table import read_table

RNG = np.random.default_rng(0)
N = 400


def names_with_levels(frame):
    table = read_table(frame)
    return {
        column.name for column in table.columns if column.positions[0] in table.levels.positions
    }


FRAME = pd.DataFrame(
    {
        "real": RNG.normal(size=N),
        "flag": RNG.random(N) < 0.5,
        "count": RNG.integers(0, 300, N),
        "whole": RNG.integers(0, 300, N).astype(float),
        "few": RNG.choice([0.5, 0.7, 2.25], N),
        "rounded": np.round(4 * RNG.normal(size=N)) / 4 + 0.05,
        "fine": np.round(RNG.normal(size=N), 2) + 0.005,
        "two": RNG.choice(["u", "v"], N),
        "three": RNG.choice(["u", "v", "w"], N),
    }
)
WITH_LEVELS = {"flag", "count", "whole", "few", "rounded", "two", "three"}


def test_columns_with_levels():
    assert FRAME["rounded"].nunique() <= N // 5 < FRAME["fine"].nunique()
    assert names_with_levels(FRAME) == WITH_LEVELS


@pytest.mark.parametrize("change", ["order", "repeated", "units", "half"])
def test_the_rule_does_not_depend_on_order_repetition_units_or_half_of_the_rows(change):
    other = {
        "order": FRAME.sample(frac=1.0, random_state=1),
        "repeated": pd.concat([FRAME] * 7),
        "units": FRAME.assign(
            real=1e6 * FRAME["real"], few=FRAME["few"] / 3, rounded=1e-9 * FRAME["rounded"]
        ),
        "half": FRAME.iloc[::2],
    }[change]
    assert names_with_levels(other) == WITH_LEVELS


def test_numbers_so_large_that_all_are_whole_have_no_levels():
    huge = pd.DataFrame({"huge": 1e18 * RNG.normal(size=N), "real": RNG.normal(size=N)})
    assert names_with_levels(huge) == set()
    assert read_table(huge).levels.nearest(huge.to_numpy()) is not None


def test_without_levels_rows_are_handed_on_untouched():
    table = read_table(RNG.normal(size=(50, 3)))
    assert not table.levels
    assert table.levels.nearest(table.matrix) is table.matrix


def test_declared_levels_that_no_row_has_are_never_decoded_to():
    frame = pd.DataFrame({"c": pd.Categorical(["a", "b", "c"] * 5, ["z", "a", "y", "b", "c", "x"])})
    table = read_table(frame)
    assert table.columns[0].levels == ("a", "b", "c")
    rows = RNG.normal(size=(200, 3))
    decoded = table.levels.nearest(rows)
    np.testing.assert_array_equal(decoded.sum(axis=1), 1.0)
    back = table.frame(rows)["c"]
    assert set(back) == {"a", "b", "c"}
    assert back.dtype == frame["c"].dtype


def test_levels_that_tie_go_to_the_first_whatever_rounding_says():
    table = read_table(pd.DataFrame({"c": list("abcabc")}))
    tied = np.array([[0.2, 0.4, 0.4], [0.2, 0.4, np.nextafter(0.4, 1)], [1, 1, 1]])
    assert table.frame(tied)["c"].tolist() == ["b", "b", "a"]


GRIDS = hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(-1e9, 1e9), unique=True).map(
    np.sort
)


@settings(max_examples=200, deadline=None)
@given(values=GRIDS, points=hnp.arrays(np.float64, 20, elements=st.floats(-2e9, 2e9)))
def test_moved_thresholds_decide_rows_as_the_old_ones_decide_levels(values, points):
    grid = Grid(0, values + 0.0)
    midpoints = grid.midpoints
    points = np.concatenate([points, values, midpoints, np.nextafter(midpoints, np.inf)])
    nearest = grid.nearest(points)
    distance = np.abs(points[:, None] - grid.values).min(axis=1)
    assert np.all(np.abs(points - nearest) <= distance + 4 * np.spacing(np.abs(values).max()))
    np.testing.assert_array_equal(grid.nearest(values), grid.values)
    thresholds = np.concatenate([values, np.nextafter(values, -np.inf), points[:5]])
    moved = grid.move(thresholds)
    np.testing.assert_array_equal(points[:, None] <= moved, nearest[:, None] <= thresholds)
    # moving twice is moving once
    np.testing.assert_array_equal(grid.move(moved), moved)


def test_a_column_can_be_given_levels_however_many_its_values_are():
    table = read_table(FRAME)
    assert table.levels_with(["real"]).positions == table.levels.positions | {0}
    assert table.levels_with(["few"]) is table.levels
    assert read_levels(table.matrix, table.columns, always=["fine"]).positions > (
        table.levels.positions
    )


def test_rows_that_do_not_count_make_no_levels():
    table = read_table(FRAME)
    absent = np.zeros(N, dtype=bool)
    assert table.without(absent) is table
    absent[FRAME["count"] > 150] = True
    thinned, kept = table.without(absent), read_table(FRAME[~absent])
    rows = table.matrix[:50] + 0.3
    np.testing.assert_array_equal(thinned.levels.nearest(rows), kept.levels.nearest(rows))


def test_different_rows_are_counted_by_hashes():
    g = np.random.default_rng(0)
    matrix = g.integers(0, 4, (3000, 5)) / 7.0
    matrix[::3, 2] = -0.0
    matrix[1::3, 2] = 0.0
    assert different_rows(matrix) == len(np.unique(matrix + 0.0, axis=0))
    present = g.random(3000) < 0.1
    assert different_rows(matrix, present) == len(np.unique(matrix[present] + 0.0, axis=0))
    # columns in another order are other rows
    assert different_rows(np.array([[0.0, 1.0], [1.0, 0.0]] * 60)) == 2


def test_levels_are_the_same_however_the_rows_are_cut(monkeypatch):
    table = read_table(FRAME)
    rows = table.matrix[:50] + 0.3
    whole = {always: table.levels_with(always) for always in ((), ("real", "fine"))}
    monkeypatch.setattr(levels, "BLOCK_ROWS", 37)
    for always, expected in whole.items():
        cut = read_levels(table.matrix, table.columns, always=always)
        np.testing.assert_array_equal(cut.nearest(rows), expected.nearest(rows))
        assert cut.positions == expected.positions


def test_extremes_and_constants_of_some_rows_are_those_of_a_copy():
    g = np.random.default_rng(0)
    matrix = g.standard_normal((40_000, 3))
    matrix[:, 1] = 4.0
    rows = np.flatnonzero(g.random(40_000) < 0.5)
    low, high = extremes(matrix, rows)
    np.testing.assert_array_equal(low, matrix[rows].min(axis=0))
    np.testing.assert_array_equal(high, matrix[rows].max(axis=0))
    assert constant_columns(matrix, rows).tolist() == [False, True, False]
