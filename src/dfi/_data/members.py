"""What the units of a table contain, for readers of a result."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dfi._data.columns import Column
    from dfi._data.groups import Groups
    from dfi._data.problem import Data
    from dfi._types import Bools, Floats, Ints

MEMBERS = 30
"""Levels or columns of a unit that a result lists."""


def unit_members(data: Data, groups: Groups | None) -> dict[str, Any]:
    """Return the contents of units that are more than one number, for readers of the result.

    Of a category its levels; of a column with missing values the quarters of what is observed, and
    last what is missing; each with its share of the rows and its mean outcome. Of a group columns.
    More than :data:`MEMBERS` are pooled or counted.
    """
    table = data.table
    missing = data.missing_shares
    if groups is not None:
        return {
            name: {
                "kind": "group",
                "n_members": int(row.sum()),
                "members": [
                    {"name": table.names[k], "missing": missing.get(table.names[k])}
                    for k in np.flatnonzero(row)[:MEMBERS].tolist()
                ],
            }
            for name, row in zip(groups.names, groups.membership, strict=True)
        }
    found: dict[str, Any] = {}
    mass = data.weights.shares
    for column in table.columns:
        if column.kind != "categorical" and column.fill is None:
            continue
        names, codes = _parts(column, table.matrix, table.where_missing(column), mass)
        share = np.bincount(codes, mass, len(names))
        total = np.bincount(codes, mass * data.y, len(names))
        seen = np.argsort(-share, kind="stable")[: np.count_nonzero(share)].tolist()
        gap = [k for k in seen if column.missing and k == len(names) - 1]
        seen = gap + [k for k in seen if k not in gap]  # what is missing is never pooled
        kept = len(seen) if len(seen) <= MEMBERS else MEMBERS - 1
        parts = [(names[k], [k]) for k in sorted(seen[:kept])]
        if seen[kept:]:
            rest = (f"{len(seen) - kept} other levels", seen[kept:])
            parts.insert(len(parts) - len(gap), rest)
        found[column.name] = {
            "kind": "category" if column.fill is None else "number",
            "n_members": len(seen),
            "missing": missing.get(column.name),
            "members": [
                {
                    "name": name,
                    "share": float(share[which].sum()),
                    "mean": float(total[which].sum() / share[which].sum()),
                }
                for name, which in parts
            ],
        }
    return found


def _parts(column: Column, matrix: Floats, missing: Bools, mass: Floats) -> tuple[list[str], Ints]:
    """Return the levels of a category, or quarters of the observed numbers, and each row's."""
    if column.fill is None:
        gap = "(missing)" if "missing" in column.levels else "missing"
        names = [gap if level is None else str(level) for level in column.levels]
        return names, column.decode(matrix[:, list(column.positions)])
    values = matrix[:, column.positions[0]]
    order = np.argsort(values[~missing], kind="stable")
    below = np.cumsum(mass[~missing][order])
    at = np.searchsorted(below, np.array([0.25, 0.5, 0.75]) * below[-1:].sum() * (1 - 1e-12))
    edges = np.unique(values[~missing][order][at[: 3 * len(order)]])
    ends = [f"{edge:.4g}" for edge in edges]
    names = [f"{low} to {high}" for low, high in pairwise(ends)]
    names = [f"up to {ends[0]}", *names, f"above {ends[-1]}"] if ends else []
    codes = np.where(missing, len(names), np.searchsorted(edges, values))
    return [*names, "missing"], codes
