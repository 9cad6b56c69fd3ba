"""Row labels of pandas that contradict the positions by which rows are matched."""

import numpy as np
import pandas as pd
import pytest

from dfi._data.problem import read_data

N = 12
TABLE = pd.DataFrame(np.random.default_rng(0).standard_normal((N, 2)), columns=["a", "b"])
Y = pd.Series(np.arange(N, dtype=float), name="y")
DRAWN = [7, 3, 40, 11, 0, 25, 8, 13, 31, 2, 19, 5]


def read(X, y, **options):
    given = {
        "feature_groups": None,
        "units": "columns",
        "missing": "indicator",
        "sample_weight": None,
    }
    given |= {"sample_weight": None, "frequency_weight": None, "clusters": None, "task": "auto"}
    return read_data(X, y, **{**given, **options, "counted": False})


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.arange(N), np.arange(4, N + 4)),
        (np.arange(1, N + 1), np.arange(N)),
        (DRAWN, [*DRAWN[:-1], 99]),
        (pd.date_range("2020-01-01", periods=N), pd.date_range("2020-01-02", periods=N)),
        (list("abcdefghijkl"), list("bcdefghijklm")),
        # without some rows, and without others
        ([*range(8), *range(9, N + 1)], np.arange(N)),
        ([1, *range(3, N + 2)], np.arange(N)),
        ([*range(N - 4, 0, -1), 20, 21, 22, 23], [*range(N - 4, 0, -1), 24, 25, 26, 27]),
        ([*range(N, 5, -1), *range(4, -1, -1)], np.arange(N)),
        ([*range(9), 30, 9, 20], np.arange(N)),
    ],
)
def test_labels_that_are_shared_in_part_are_refused(X, y):
    """A lag, or tables that were filtered differently: pairs are not those of the labels."""
    message = r"^y and X share only \d+ row labels of 12, .*pd\.concat\(\[X, y\].* y\.to_numpy\(\)"
    with pytest.raises(ValueError, match=message):
        read(TABLE.set_axis(X), Y.set_axis(y))
    with pytest.raises(ValueError, match=r"^sample_weight and X share only"):
        read(TABLE.set_axis(X), Y.to_numpy(), sample_weight=(Y + 1.0).set_axis(y))


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.arange(N), DRAWN),  # the drawn rows of a table, scaled and numbered anew
        (DRAWN, np.arange(N)),
        (np.arange(N), np.arange(100, 100 + N)),
        (list("abcdefghijkl"), np.arange(N)),
        (np.repeat([0, 1, 2], 4), np.repeat([0, 1, 2], 4)),
        (np.repeat([0, 1, 2], 4), np.arange(N)),
        ([*range(8), *range(4)], np.arange(N)),  # two tables put one under the other
    ],
)
def test_rows_that_were_numbered_anew_are_matched_by_position(X, y):
    found = read(TABLE.set_axis(X), Y.set_axis(y))
    np.testing.assert_array_equal(found.outcome.values, Y)


def test_vectors_are_compared_with_each_other_too():
    """Both were drawn, X was numbered anew: y and the weights are of other rows."""
    weight = pd.Series(np.arange(1.0, N + 1.0), index=DRAWN[::-1])
    with pytest.raises(ValueError, match=r"^sample_weight has the row labels of y in another"):
        read(TABLE, Y.set_axis(DRAWN), sample_weight=weight)
    with pytest.raises(ValueError, match=r"^clusters and y share only 11 row labels of 12"):
        read(TABLE, Y.set_axis(DRAWN), clusters=weight.set_axis([*DRAWN[1:], 99]))
