"""Vectors and names in containers that people have: matrices, dates, several levels of names."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dfi._data.folds import read_row_groups
from dfi._data.problem import read_data

RNG = np.random.default_rng(0)
N = 12
TABLE = pd.DataFrame(RNG.standard_normal((N, 2)), columns=["a", "b"])
Y = RNG.standard_normal(N)
CODES = np.arange(N) // 4
DAYS = pd.date_range("2024-03-01", periods=3)[CODES]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_matrices_are_columns():
    column = np.asmatrix(Y).T
    found = read_data(np.asmatrix(TABLE.to_numpy()), column, sample_weight=np.exp(column))
    np.testing.assert_array_equal(found.y, Y)
    np.testing.assert_allclose(found.weights.values, np.exp(Y) * N / np.exp(Y).sum())
    several = read_data(TABLE, np.hstack([column, 2 * column])).outcome
    np.testing.assert_array_equal(several.members[1].values, 2 * Y)
    with pytest.raises(ValueError, match="X has 12 rows and y has 1 values"):
        read_data(TABLE, np.asmatrix(Y))


@pytest.mark.parametrize(
    "labels",
    [
        DAYS,
        pd.Series(DAYS),
        pd.Series(DAYS.tz_localize("UTC")),
        pd.Series(DAYS.to_period("D")),
        DAYS.to_numpy(),
        [day.date() for day in DAYS],
        pl.Series(DAYS.to_list()),
        pl.Series([day.date() for day in DAYS]),
        pd.Series(DAYS - DAYS[0]),
        [(str(code), code) for code in CODES],
        [dt.date(2024, 1, 1) if code == 1 else int(code) for code in CODES],
        pd.Categorical(CODES),
        CODES * 0.5,
    ],
    ids=lambda labels: f"{type(labels).__name__} of {type(labels[0]).__name__}",
)
def test_labels_of_rows_are_only_told_apart(labels):
    np.testing.assert_array_equal(read_row_groups(labels, N), CODES)


def test_labels_that_are_missing_or_no_labels():
    for missing in (pd.Series(DAYS).where(CODES != 1), DAYS.to_numpy().copy()):
        if isinstance(missing, np.ndarray):
            missing[4:8] = np.datetime64("NaT")
        with pytest.raises(ValueError, match="clusters has a missing label in row 4"):
            read_row_groups(missing, N)
    cells = np.empty(N, dtype=object)
    cells[:] = [[code] for code in CODES]
    with pytest.raises(TypeError, match="clusters holds a list in row 0, and labels must be"):
        read_row_groups(cells, N)


def test_names_of_several_levels():
    names = pd.MultiIndex.from_tuples([("a", "p"), ("a", "q"), ("b", "q"), ("w", "")])
    frame = pd.DataFrame(np.column_stack([TABLE, Y, np.ones(N)]), columns=names)
    found = read_data(frame, ("b", "q"), sample_weight=("w", ""))
    assert found.table.names == ("('a', 'p')", "('a', 'q')")
    assert found.outcome.name == "('b', 'q')"
    np.testing.assert_array_equal(found.y, Y)
    with pytest.raises(ValueError, match="names the outcome's column, but X has no such column"):
        read_data(frame, ("b", "z"))
    np.testing.assert_array_equal(read_data(frame.iloc[:, :2], tuple(Y)).y, Y)
    with pytest.raises(ValueError, match="X has 12 rows and y has 2 values"):
        read_data(TABLE, ("a", "b"))


class Dataset:
    """As xarray's: it has a length, and refuses to be an array."""

    __module__ = "xarray.core.dataset"

    def __len__(self) -> int:
        return 2

    def __array__(self, dtype=None, copy=None):
        raise TypeError("cannot directly convert an xarray.Dataset into a numpy array")


def test_datasets_are_refused_with_what_to_pass():
    with pytest.raises(TypeError, match=r"^X is a Dataset of xarray: .* X\.to_dataframe\(\)"):
        read_data(Dataset(), Y)
    with pytest.raises(TypeError, match=r"^y is a Dataset of xarray: .*y\['name'\]\.to_numpy\(\)"):
        read_data(TABLE, Dataset())
