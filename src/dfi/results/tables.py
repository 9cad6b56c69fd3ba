"""The columns of a result's tables as arrays, in the order of its names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfi._checks import did_you_mean
from dfi.inference.ranks import rank_sets
from dfi.inference.shares import Shares, bounded, is_clear, on_simplex, shares_of
from dfi.inference.tests import Adjustment, Estimate, adjust_p_values, estimate_of, estimate_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Array, Floats, Ints
    from dfi.inference.influence import Influence
    from dfi.inference.intervals import Alternative, Expansion
    from dfi.results.importance import Importance

ShareOf = Literal["explained", "null", "sum"]
"""The total of a share: the explained loss, the null loss, or the sum of the scores."""

NO_SIGNAL = "{} is not clearly above 0 (less than two standard errors)"

SHARE_COLUMNS = {"share": "share", "share_low": "ci_low", "share_high": "ci_high"}
"""Columns of a table about the share of a unit, and their names beside each other alone."""


def place_of(name: object, names: Sequence[str]) -> int:
    """Return the position of a unit; raise for an unknown name, with similar ones."""
    if name in names:
        return list(names).index(str(name))
    first = f"; the first units are {', '.join(map(repr, names[:10]))}"
    raise ValueError(f"there is no unit {name!r}{did_you_mean(str(name), names, 3) or first}")


def total_estimate(result: Importance, column: int) -> Estimate | None:
    """Return the null loss (0) or what the models explain (1); None where unknown."""
    if result.totals is None:
        return None
    chosen = np.zeros((1, result.totals.n_units))
    chosen[0, result.totals.n_units - 2 + column] = 1.0
    return estimate_one(
        result.totals.summed(chosen), level=result.level, alternative="greater", nonnegative=False
    )


def headline(result: Importance) -> Influence:
    """Return what ranks units: parts of what is explained; scores where that is not above 0."""
    p = len(result.names)
    if result.parts is None or not is_clear(result.parts.summed(np.eye(p + 1)[p:])):
        return result.basis
    return result.parts.summed(np.eye(p, p + 1))


def order_of(result: Importance) -> Ints:
    """Return the units by rank, the largest first; those that score exactly 0 are the last."""
    idle = (result.scores == 0.0) & ~(result.se > 0.0)
    return np.lexsort((-headline(result).mean, idle))


def ratios(
    result: Importance, of: ShareOf, parts: Floats, *, scores: bool = False
) -> Shares | None:
    """Return combinations of units over a total; None if that is unknown.

    Of what is explained they are those of its parts, unless total effects (``scores``) are asked
    for. NaN where the total is not clearly above 0.
    """
    p = len(result.names)
    units: Influence | None = result.basis
    if of == "explained" and result.parts is not None and not scores:
        units, total = result.parts, np.eye(p + 1)[p]
        parts = np.concatenate([parts, np.zeros((len(parts), 1))], axis=1)
    elif of == "sum":
        total = np.ones(p)
    elif result.totals is None:
        return None
    else:
        units = result._beside_totals
        total = np.zeros(p + 2)
        total[p + (of == "explained")] = 1.0
        parts = np.concatenate([parts, np.zeros((len(parts), 2))], axis=1)
    if units is None:  # their values are known all the same
        size = total_estimate(result, int(of == "explained"))
        known = size is not None and size.value > 2.0 * (size.se if size.se > 0 else 0.0)
        values = parts[:, :p] @ result.scores
        return Shares(values / (size.value if size is not None and known else np.nan), None)
    if not is_clear(units.summed(total[None, :])):
        return Shares(np.full(len(parts), np.nan), None)
    learning = units is result.parts and result._learning
    return replace(shares_of(units, total, parts), learning=learning)


def has_parts(result: Importance) -> bool:
    """Return whether shares are nonnegative parts of one whole."""
    return result.parts is not None and result.nonnegative


def contrast_of(result: Importance, of: ShareOf | None, signs: Floats) -> Estimate:
    """Return a combination (1, p) of scores, or of shares of a total, with a two-sided test."""
    options: dict[str, Any] = {
        "level": result.level, "alternative": "two-sided", "nonnegative": False
    }  # fmt: skip
    if of is None:
        return estimate_one(result.basis.summed(signs), **options)
    found = ratios(result, of, signs)
    if found is None:
        raise ValueError(unknown_total(of))
    return estimate_of(found.values, found.errors, found.degrees, **options)


def unknown_total(of: ShareOf) -> str:
    """Report that a result does not hold a total."""
    return (
        f"this result does not have the total that shares of {of!r} need (differences do not): "
        "use of='sum'"
    )


def share_table(
    result: Importance,
    of: ShareOf = "explained",
    level: float | None = None,
    *,
    simultaneous: bool = False,
    expansion: Expansion | None = None,
) -> dict[str, Floats]:
    """Return share, se, ends, z, p and Holm's p_adj in the order of ``names``; or nothing."""
    found = ratios(result, of, np.eye(len(result.names)))
    if found is None:
        return {}
    total = None if of == "sum" else total_estimate(result, int(of == "explained"))
    size = result.scores.sum() if of == "sum" else np.nan if total is None else total.value
    columns = found.columns(
        result.level if level is None else level,
        nonnegative=result.nonnegative,
        simultaneous=simultaneous,
        expansion=expansion,
        null_share=result.quality.outcome_variance / size,
    )
    if of == "explained" and has_parts(result):
        columns = bounded(columns, on_simplex(found.values))
    known = result._units.known
    for key in ("se", "ci_low", "ci_high", "z", "p"):
        columns[key] = np.where(known, columns[key], np.nan)
    columns["p_adj"] = adjust_p_values(columns["p"])
    if expansion is not None:  # it widens units whose score is exactly 0 like all others
        return columns
    # a score of exactly 0 is a share of exactly 0, and ends where dependence may be missed
    end = 0.0 if result.undetected is None else result.undetected / size
    exact = result.unrelated & np.isfinite(columns["share"])
    columns["ci_low"] = np.where(exact, 0.0, columns["ci_low"])
    columns["ci_high"] = np.where(exact, end, columns["ci_high"])
    return columns


def score_table(
    result: Importance,
    *,
    level: float | None = None,
    alternative: Alternative | None = None,
    adjust: Adjustment | None = "holm",
    expansion: Expansion | None = None,
    simultaneous: bool = False,
) -> dict[str, Floats]:
    """Return the columns of :meth:`table` as arrays, in the order of ``names``."""
    return result._units.columns(
        level=result.level if level is None else level,
        alternative=result._alternative if alternative is None else alternative,
        adjust=adjust,
        expansion=expansion,
        simultaneous=simultaneous,
    )


def full_table(result: Importance, **options: Any) -> dict[str, Floats]:
    """Return the columns of :meth:`table`, the share first if it is known."""
    shares = share_table(
        result,
        level=options.get("level"),
        simultaneous=options.get("simultaneous", False),
        expansion=options.get("expansion"),
    )
    return {name: shares[key] for name, key in SHARE_COLUMNS.items() if shares} | score_table(
        result, **options
    )


def outcome_table(result: Importance, rows: Ints, **options: Any) -> dict[str, Array]:
    """Return the columns of the table by outcome: the outcomes of each of some units in turn."""
    parts = [full_table(part, **options) for part in result.by_outcome.values()]
    return {
        "feature": np.repeat(np.array(result.names, dtype=object)[rows], len(parts)),
        "outcome": np.tile(np.array(list(result.by_outcome), dtype=object), len(rows)),
        **{key: np.stack([part[key][rows] for part in parts], axis=1).ravel() for key in parts[0]},
    }


def rank_table(
    result: Importance, level: float | None = None, random_state: int = 0
) -> dict[str, Ints]:
    """Return the columns of :meth:`ranks` in the order of ``names``."""
    scale = result.quality.null_loss / result.basis.size
    undetected = None
    if result.undetected is not None:
        undetected = np.where(result.unrelated, result.undetected, 0.0)
    return rank_sets(
        headline(result),
        level=result.level if level is None else level,
        remainder=scale if np.isfinite(scale) else 0.0,
        undetected=undetected,
        # a column that varies in one of two results may differ by any amount
        unknown=result.degenerate if result.difference else None,
        nonnegative=result.nonnegative,
        random_state=random_state,
    )
