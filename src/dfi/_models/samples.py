"""Which rows models are fitted on, and which are gathered of a table that is not in memory.

One random order of the rows decides both: models are fitted on the first ``fit_rows`` of it, and
explained are the first rows of the same order, as many as are asked for. It depends on the places
of the rows and on the seed, never on how the table is cut, so that a table in memory and the same
table in parts give the same samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._data.source import sampled_places
from dfi._data.streams.read import open_stream
from dfi._parameters import TABLE, InvalidParameterError, argument, name_groups, taken_by, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi._data.problem import Data
    from dfi._data.streams.parts import Watch
    from dfi._models.seeds import Seeds
    from dfi._types import SplitsLike, VectorLike

FIT_ROWS = 200_000
"""Rows that models are fitted on, and that can be explained, of a table that is not in memory."""

ORDER = "explained rows"
"""The name of the seed of the random order of the rows."""

FEWEST_FIT = 50


@dataclass(frozen=True)
class SampleSizes:
    fit_rows: int | None = None
    explain_rows: int | str | None = None
    prefit: bool = False
    samples: bool = False
    cluster: bool = False


def check_streamed(cv: SplitsLike, clusters: VectorLike) -> None:
    """Raise for options that need all rows in memory."""
    if clusters is not None:
        raise ValueError(
            f"{argument('clusters')} keeps rows together that may be in any part of {TABLE}, and "
            f"{TABLE} is not in memory: leave it out, or take a table of some of the rows"
        )
    if not isinstance(cv, int | np.integer | str) and not hasattr(cv, "split"):
        raise ValueError(
            f"{argument('cv')} is a list of row numbers, and the rows of {TABLE} are not in "
            "memory: pass a number of folds, or a splitter"
        )


def read_streamed(given: Mapping[str, Any], sizes: SampleSizes, seeds: Seeds, watch: Watch) -> Data:
    """Read a table in parts: all rows where they are few, else the first of a random order."""
    groups, units = given["feature_groups"], given["units"]
    if units == "groups" and groups is None:
        raise InvalidParameterError(
            f"{argument('units', 'groups')} makes groups the units", "feature_groups", name_groups()
        )
    stream = open_stream(**taken_by(open_stream, given), watch=watch)
    n = stream.n_rows
    fit = FIT_ROWS if sizes.fit_rows is None else whole("fit_rows", sizes.fit_rows, FEWEST_FIT)
    if not stream.large:
        data = stream.gathered(groups=groups, units=units)
        return with_fit_rows(data, sizes.fit_rows, seeds)
    if not sizes.samples:
        raise ValueError(
            f"{TABLE} has {n} rows that are not in memory, and only explain works on samples of "
            "them: take a table of some of the rows"
        )
    asked = sizes.explain_rows
    if asked is None and fit < n:
        raise ValueError(
            f"{argument('explain_rows', None)} explains all {n} rows, and {TABLE} is not in "
            f"memory: pass a number or 'auto', or {argument('fit_rows', n)} to gather them"
        )
    count = fit if asked is None or isinstance(asked, str) else max(fit, int(asked))
    if sizes.cluster:
        count = min(count, n)
    elif count >= n:
        data = stream.gathered(groups=groups, units=units)
        return with_fit_rows(data, fit, seeds)
    places = sampled_places(n, count, seeds.child(ORDER).sequence())
    data = stream.gathered(places, groups=groups, units=units)
    if sizes.prefit or sizes.cluster:
        return data
    first = sampled_places(n, fit, seeds.child(ORDER).sequence())
    return replace(data, fit=np.searchsorted(places, first))


def with_fit_rows(
    data: Data, fit_rows: int | None, seeds: Seeds, *, cv: SplitsLike = 5, prefit: bool = False
) -> Data:
    """Return a table in memory with the rows that models are fitted on: by default all."""
    if fit_rows is None:
        return data
    count = whole("fit_rows", fit_rows, FEWEST_FIT)
    if prefit:
        raise ValueError(
            f"{argument('fit_rows')} is about models that are fitted here, and "
            f"{argument('cv', 'prefit')} fits none: leave it out"
        )
    if data.row_groups is not None:
        raise ValueError(
            f"{argument('fit_rows')} takes a random sample of the rows, and "
            f"{argument('clusters')} keeps rows together: leave one of them out"
        )
    if not isinstance(cv, int | np.integer) and not hasattr(cv, "split"):
        raise ValueError(
            f"{argument('fit_rows')} takes a random sample of the rows, and {argument('cv')} is a "
            f"list of row numbers that says which are fitted on: leave {argument('fit_rows')} out"
        )
    n = data.table.n_rows
    if count >= n:
        return data
    return replace(data, fit=sampled_places(n, count, seeds.child(ORDER).sequence()))
