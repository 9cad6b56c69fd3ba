"""A distribution by its levels, and its mean, spread and tails side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._parameters import argument
from dfi.inference.influence import InfluenceRows
from dfi.results.tables import score_table

if TYPE_CHECKING:
    from dfi.results.importance import Importance
    from dfi.results.views import Columns

TAILS = {"lower tail": (0.0, 1 / 3), "middle": (1 / 3, 2 / 3), "upper tail": (2 / 3, 1.0)}
"""Levels that are averaged."""

OF_SCORE = ("score", "se", "ci_low", "ci_high")


def levels_of(result: Importance) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the levels and thresholds of a distribution; raise for other results."""
    told = result.spec.get("outcome")
    known = told.get("distribution") if isinstance(told, Mapping) else None
    if not isinstance(known, Mapping) or not result.by_outcome:
        raise ValueError(
            "this result does not explain a whole distribution: use the target 'distribution'"
        )
    return tuple(known["levels"]), tuple(known["thresholds"])


def level_columns(result: Importance, level: float | None = None) -> Columns:
    """Return the score of each feature at each level, the largest feature of the whole first."""
    levels, thresholds = levels_of(result)
    parts = [score_table(part, level=level) for part in result.by_outcome.values()]
    order, count = np.argsort(-result.scores, kind="stable"), len(levels)
    found: Columns = {
        "feature": np.repeat(np.array(result.names, dtype=object)[order], count),
        "quantile": np.tile(levels, len(order)),
        "threshold": np.tile(thresholds, len(order)),
    }
    for key in (*OF_SCORE, "p"):
        # a member holds the share 1/K of its level
        scale = count if key in OF_SCORE else 1
        found[key] = scale * np.stack([part[key][order] for part in parts], axis=1).ravel()
    return found


def _tail(result: Importance, low: float, high: float) -> Importance:
    """Return the mean of the scores at the levels between two, as a result."""
    levels, _ = levels_of(result)
    chosen = [
        part
        for at, part in zip(levels, result.by_outcome.values(), strict=True)
        if low <= at < high
    ]
    if not chosen:
        raise ValueError(f"no level lies between {low:g} and {high:g}: y has too few values")
    first = chosen[0].basis
    if not isinstance(first, InfluenceRows):
        raise ValueError(  # noqa: TRY004
            "tails need the rows of each level, which this result did not keep: explain again "
            f"with {argument('keep_rows', True)}"
        )
    values = sum(part.influence for part in chosen) * (len(levels) / len(chosen))
    basis = InfluenceRows(np.asarray(values), first.weights, first.rows)
    return replace(chosen[0], basis=basis, parts=None, totals=None, latent=None, source=None)


def aspect_columns(result: Importance, level: float | None = None) -> Columns:
    """Return the scores of mean, spread and tails, one row for each feature and aspect."""
    levels_of(result)
    if result.source is None:
        raise ValueError(
            "mean and spread need the fitted models, which loaded, copied or reduced results do "
            "not have: explain again"
        )
    found = {**result.source.aspects(), **{n: _tail(result, *ends) for n, ends in TAILS.items()}}
    order = np.argsort(-result.scores, kind="stable")
    tables = [score_table(part, level=level) for part in found.values()]
    names = np.array(list(found), dtype=object)
    columns: Columns = {
        "feature": np.repeat(np.array(result.names, dtype=object)[order], len(found)),
        "aspect": np.tile(names, len(order)),
    }
    for key in (*OF_SCORE, "p"):
        columns[key] = np.stack([table[key][order] for table in tables], axis=1).ravel()
    return columns
