"""Results of results: sums over groups of units, and differences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi._parameters import argument, worded
from dfi.results import words
from dfi.results.file import Json, thaw
from dfi.results.tables import order_of
from dfi.results.trust import of_both, of_groups
from dfi.warnings import InferenceWarning, warn

if TYPE_CHECKING:
    from dfi._data.groups import Groups
    from dfi._types import Floats
    from dfi.inference.influence import Influence
    from dfi.results.importance import Importance

MUST_AGREE = ("method", "result", "loss", "unit", "target", "parameters", "group_scores")
"""Entries of a specification that must agree for a difference of scores to mean anything."""

SUM_OF_COLUMNS = "sum of columns"

MANY_COLUMNS = 50
"""With this many columns in a group, their sum collects more noise than signal."""

SHOWN_MEMBERS = 30
"""Columns of a group that a sum lists, the largest scores first."""


def warn_of_sums(result: Importance, groups: Groups) -> None:
    """Warn if sums over columns collect more noise than signal."""
    if result.difference or result.spec.get("method") != "dfi" or result.space == "group":
        return
    n, most = result.basis.n_rows, int(groups.membership.sum(axis=1).max())
    d = len(result.names) if result.components is None else max(map(len, result.components))
    if most < 2 or (2 * d <= n and most < MANY_COLUMNS):
        return
    why = (
        f"{n} rows for {d} columns that share signal"
        if 2 * d > n
        else f"a group has {most} columns"
    )
    joint = worded("result.group(groups, how='joint') or ", "")
    warn(
        f"{why}: the sum of a group's columns collects the noise of each of them and may hide the "
        f"signal of the group as a whole; {joint}{argument('units', 'groups')} scores it as one",
        InferenceWarning,
    )


def summed(result: Importance, groups: Groups) -> Importance:
    """Return one unit per group, in both spaces."""
    membership = np.asarray(groups.membership, dtype=np.float64)
    if membership.shape[1] != len(result.names):
        raise ValueError(
            f"the groups cover {membership.shape[1]} units, the result has {len(result.names)}"
        )
    attribution = None
    if result.attribution is not None:
        giving = membership / membership.sum(axis=1, keepdims=True)
        attribution = membership @ result.attribution @ giving.T
    members = {
        name: {
            "kind": "group",
            "n_members": int(row.sum()),
            "members": [
                {"name": result.names[k], "score": float(result.scores[k])}
                for k in order_of(result)
                if row[k]
            ][:SHOWN_MEMBERS],
        }
        for name, row in zip(groups.names, groups.membership, strict=True)
    }
    return replace(
        result,
        basis=result.basis.summed(membership),
        names=tuple(groups.names),
        diagnostics={**result.diagnostics, "units": members, "findings": of_groups(result, groups)},
        space="latent" if result.space == "latent" else "group",
        degenerate=~np.any(groups.membership & ~result.degenerate, axis=1),
        unrelated=np.any(groups.membership & result.unrelated, axis=1)
        & ~np.any(groups.membership & ~result.degenerate & ~result.unrelated, axis=1),
        undetected=None if result.undetected is None else membership @ result.undetected,
        spread=None,
        latent=None if result.latent is None else summed(result.latent, groups),
        attribution=attribution,
        default_groups=None,
        spec={**result.spec, "group_scores": SUM_OF_COLUMNS},
        source=None,
        totals=_totals_of(result, membership),
        parts=None if result.parts is None else result.parts.summed(_and_last(membership, 1)),
        by_outcome={name: summed(part, groups) for name, part in result.by_outcome.items()},
    )


def _totals_of(result: Importance, membership: Floats) -> Influence | None:
    """Return the totals of groups: the same, beside the moments of the groups."""
    if result.totals is None or result.totals.n_units == 2:
        return result.totals
    return result.totals.summed(_and_last(membership, 2))


def _and_last(membership: Floats, count: int) -> Floats:
    """Return which columns to sum; the last ones stay as they are."""
    g, p = membership.shape
    both = np.zeros((g + count, p + count))
    both[:g, :p], both[g:, p:] = membership, np.eye(count)
    return both


def subtracted(result: Importance, other: Importance, same_rows: bool | None) -> Importance:
    _check_comparable(result, other)
    if same_rows is None:
        same_rows = _same_table(result, other)
    latent = None
    if result.latent is not None and other.latent is not None:
        latent = result.latent.minus(other.latent, same_rows=same_rows)
    by_outcome: dict[str, Importance] = {}
    if list(result.by_outcome) == list(other.by_outcome):
        by_outcome = {
            name: part.minus(other.by_outcome[name], same_rows=same_rows)
            for name, part in result.by_outcome.items()
        }
    unrelated, undetected = result.unrelated & other.unrelated, None
    if result.undetected is not None and other.undetected is not None:
        largest = np.maximum(result.undetected, other.undetected)
        undetected = np.where(unrelated, largest, 0.0)
    noise = [r.diagnostics.get("monte_carlo_se") for r in (result, other)]
    squares = [np.square(np.array(n, dtype=float)) for n in noise if n is not None]
    return replace(
        result,
        basis=result.basis.combined(other.basis, -1.0, independent=not same_rows),
        spec=_difference_spec(result, other, "the same table" if same_rows else "two tables"),
        diagnostics={
            "findings": of_both(result, other),
            **({"monte_carlo_se": np.sqrt(sum(squares))} if squares else {}),
        },
        degenerate=result.degenerate | other.degenerate,
        unrelated=unrelated,
        undetected=undetected,
        components=result.components if result.components == other.components else None,
        spread=None,
        nonnegative=False,
        latent=latent,
        attribution=None,
        difference=True,
        source=None,
        totals=None,
        parts=None,
        by_outcome=by_outcome,
    )


def _check_comparable(first: Importance, second: Importance) -> None:
    """Raise, with the names of the keys, if a difference of two results is meaningless."""
    if first.names != second.names:
        other = set(first.names) ^ set(second.names)
        what = f"only one has {sorted(other)[0]!r}" if other else "their order differs"
        raise ValueError(f"the results are about different units: {what}")
    unlike = [] if first.space == second.space else ["space"]
    unlike += [key for key in MUST_AGREE if _entry(first, key) != _entry(second, key)]
    if None not in (ours := _class_of(first), theirs := _class_of(second)) and ours != theirs:
        unlike.append("outcome")
    if unlike:
        pairs = "; ".join(
            f"{key}: {_value(first, key)!r} and {_value(second, key)!r}" for key in unlike
        )
        raise ValueError(f"the results differ in more than a difference can mean ({pairs})")


def _entry(result: Importance, key: str) -> object:
    """Return an entry of the specification, losses by the name that they have now."""
    if key == "loss" and "loss" in result.spec:
        return words.loss_of(result.spec)
    if key == "unit" and words.unit_of(result.spec) == words.VARIANCE:
        return None  # as it is in files from before other losses
    return result.spec.get(key)


def _class_of(result: Importance) -> tuple[str | None, tuple[str, ...]] | None:
    """Return the explained class and all classes; None if unknown."""
    outcome = words.outcome_of(result.spec)
    return None if outcome is None else (outcome.positive, outcome.classes)


def _value(result: Importance, key: str) -> object:
    return result.space if key == "space" else thaw(result.spec.get(key))


def _same_table(first: Importance, second: Importance) -> bool:
    """Return whether two results are about one table, or raise if their files do not say."""
    keys = ("data_sha256", "n_rows")
    for key in keys:
        if key not in first.spec or key not in second.spec:
            raise ValueError(
                f"a spec without {key!r} does not tell whether the results are about the same "
                "rows: say so with first.minus(second, same_rows=True) or same_rows=False"
            )
    return all(first.spec[key] == second.spec[key] for key in keys)


def _difference_spec(first: Importance, second: Importance, rows: str) -> dict[str, Json]:
    """Return the entries that two specifications share, and under ``difference`` the others."""
    ours, theirs = thaw(first.spec), thaw(second.spec)
    changed = {
        key: [ours.get(key), theirs.get(key)]
        for key in {**ours, **theirs}
        if ours.get(key) != theirs.get(key)
    }
    return {
        **{key: value for key, value in ours.items() if key not in changed},
        "difference": {
            "rows": rows,
            "changed": changed,
            "r2": [first.quality.r2, second.quality.r2],
        },
    }
