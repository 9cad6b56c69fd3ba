"""Some rows of a table, chosen by what they hold.

What is found on a sample must not depend on the order of the rows or of the columns, on units of
measurement, or on whether a row that counts twice is written twice. So equal rows are one row with
the sum of their weights, and the rows are spread evenly over the order of a number that no renaming
or rescaling of columns changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dfi._types import Floats, Ints


@dataclass(frozen=True)
class RowSample:
    """Distinct rows in an order of their own, and what they count for.

    Attributes
    ----------
    rows : ndarray of int
        Their places in the table.
    mass : ndarray
        The sum of the weights of all rows equal to each.
    """

    rows: Ints
    mass: Floats


def row_sample(standardized: Floats, mass: Floats, count: int) -> RowSample:
    """Return at most ``count`` distinct rows of positive weight, evenly spread.

    Parameters
    ----------
    standardized : ndarray of shape (n, d)
        Columns of mean 0 and comparable spread.
    mass : ndarray of shape (n,)
        Weights.
    count : int
        How many rows to take; all distinct ones where there are no more.
    """
    held = np.flatnonzero(mass > 0)
    distinct, first, which = np.unique(
        standardized[held], axis=0, return_index=True, return_inverse=True
    )
    total = np.asarray(np.bincount(which.ravel(), mass[held]), dtype=np.float64)
    # even powers: a column counted downwards is the same column
    order = np.argsort(np.sum(distinct**2 + distinct**4, axis=1), kind="stable")
    if len(order) > count:
        order = order[(np.arange(count) * len(order)) // count]
    return RowSample(held[first[order]], total[order])
