"""The geometry of the report's charts, in percent of their area.

Positions in percent let a chart take any width while its text keeps its size, so the same SVG
is legible on a telephone, on a wide screen and on paper, without any script.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dfi.plots.diagnostics import latent_measures
from dfi.plots.style import short_names
from dfi.report.numbers import nice_ticks, number, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi.results.importance import Importance

    Row = dict[str, Any]
    Box = tuple[float, float, float, float]

MAX_BARS = 25
LABEL_WIDTH = 40
NARROW, WIDE = (290.0, 330.0), (440.0, 360.0)
"""Pixels of the scatter's area on a telephone and on a wide screen."""


class Scale:
    """A linear map of numbers to percent, with a margin at both ends."""

    def __init__(self, low: float, high: float, margin: float = 0.03) -> None:
        if not high > low:
            low, high = low - 0.5, high + 0.5
        pad = margin * (high - low)
        self.low, self.high = low - (pad if low < 0 else 0.0), high + pad

    def __call__(self, value: float) -> float:
        """Return where a number lies."""
        return round(100.0 * (value - self.low) / (self.high - self.low), 3)

    def ticks(self, count: int = 4) -> list[dict[str, Any]]:
        """Return round numbers with their places."""
        return [
            {"at": self(value), "label": number(0.0 if abs(value) < 1e-12 else value)}
            for value in nice_ticks(self.low, self.high, count)
        ]


def _values(rows: Sequence[Row], *keys: str) -> list[float]:
    return [row[key] for row in rows for key in keys if row[key] is not None]


def bars(
    rows: Sequence[Row],
    limit: int = MAX_BARS,
    scale: Scale | None = None,
    *,
    floor: float | None = None,
) -> dict[str, Any]:
    """Return bars with intervals for the first rows, and where the score of noise lies."""
    shown = list(rows[:limit])
    if scale is None:
        ends = _values(shown, "score", "ci_low", "ci_high")
        scale = Scale(min([0.0, *ends]), max([0.0, floor or 0.0, *ends]))
    zero = scale(0.0)
    labels = short_names([row["name"] for row in shown], LABEL_WIDTH)
    drawn = []
    for position, (row, label) in enumerate(zip(shown, labels, strict=True)):
        end = scale(row["score"] or 0.0)
        known = row["ci_low"] is not None and row["ci_high"] is not None
        drawn.append(
            {
                "index": position,
                "label": label,
                "name": row["name"],
                "x": min(zero, end),
                "width": round(abs(end - zero), 3),
                "low": scale(row["ci_low"]) if known else None,
                "high": scale(row["ci_high"]) if known else None,
                "significant": row["significant"],
                "value": number(row["score"]),
            }
        )
    return {
        "rows": drawn,
        "ticks": scale.ticks(),
        "zero": zero,
        "floor": None if floor is None else scale(floor),
        "n_hidden": len(rows) - len(shown),
    }


def overview(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return every score by rank, where there are more than bars can show."""
    if len(rows) <= MAX_BARS:
        return None
    ends = _values(rows, "score", "ci_low", "ci_high")
    vertical = Scale(min([0.0, *ends]), max([0.0, *ends]))
    step = 100.0 / len(rows)
    points = []
    for position, row in enumerate(rows):
        known = row["ci_low"] is not None and row["ci_high"] is not None
        points.append(
            {
                "index": position,
                "x": round(step * (position + 0.5), 3),
                "y": round(100 - vertical(row["score"] or 0.0), 3),
                "low": round(100 - vertical(row["ci_low"]), 3) if known else None,
                "high": round(100 - vertical(row["ci_high"]), 3) if known else None,
                "significant": row["significant"],
            }
        )
    ranks = [k for k in nice_ticks(1, len(rows), 4) if k >= 1]
    return {
        "points": points,
        "ticks": [{**tick, "at": round(100 - tick["at"], 3)} for tick in vertical.ticks()],
        "ranks": [{"at": round(step * (k - 0.5), 3), "label": f"{k:.0f}"} for k in ranks],
        "zero": round(100 - vertical(0.0), 3),
    }


def scatter(rows: Sequence[Row], named: int = 12) -> dict[str, Any] | None:
    """Return the attributed against the latent scores, with names that do not overlap."""
    known = [(k, row) for k, row in enumerate(rows) if row["latent"] is not None]
    known = [(k, row) for k, row in known if row["score"] is not None]
    if len(known) < 2:
        return None
    ends = _values([row for _, row in known], "latent", "score")
    scale = Scale(min([0.0, *ends]), max(ends), margin=0.05)
    points = [
        {
            "index": k,
            "x": scale(row["latent"]),
            "y": round(100 - scale(row["score"]), 3),
            "significant": row["significant"],
        }
        for k, row in known
    ]
    return {
        "points": points,
        "names": _names(points, [row["name"] for _, row in known], named),
        "x_ticks": scale.ticks(3),
        "y_ticks": [{**tick, "at": round(100 - tick["at"], 3)} for tick in scale.ticks(5)],
    }


def _names(points: list[dict[str, Any]], names: list[str], count: int) -> list[dict[str, Any]]:
    """Name the first points where the name covers no mark and no other name, narrow or wide."""
    taken = [[_around(point, size) for point in points[:200]] for size in (NARROW, WIDE)]
    written = []
    for point, label in zip(points, short_names(names[:count], 16), strict=False):
        length = 6.6 * len(label)
        for anchor, shift in (("start", 9.0), ("end", -9.0 - length)):
            places = []
            for size, boxes in zip((NARROW, WIDE), taken, strict=True):
                x, y = point["x"] * size[0] / 100, point["y"] * size[1] / 100
                place = (x + shift, y - 7, x + shift + length, y + 7)
                if place[0] < 0 or place[2] > size[0] or any(_meet(place, b) for b in boxes):
                    break
                places.append(place)
            if len(places) == len(taken):
                for boxes, place in zip(taken, places, strict=True):
                    boxes.append(place)
                written.append(
                    {
                        "x": point["x"],
                        "y": point["y"],
                        "dx": 9 if anchor == "start" else -9,
                        "anchor": anchor,
                        "label": label,
                    }
                )
                break
    return written


def _around(point: dict[str, Any], size: tuple[float, float]) -> Box:
    x, y = point["x"] * size[0] / 100, point["y"] * size[1] / 100
    return (x - 5, y - 5, x + 5, y + 5)


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def heat_map(weights: dict[str, Any] | None, rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return the attribution weights as cells; the ink is the square root of the weight."""
    if weights is None:
        return None
    order = weights["rank"]
    size = round(100.0 / len(order), 4)
    highest = max(1e-12, *(value for line in weights["values"] for value in line))
    names = [rows[k]["name"] for k in order]
    cells = [
        {
            "row": order[i],
            "column": order[j],
            "x": round(size * j, 4),
            "y": round(size * i, 4),
            "ink": round(math.sqrt(max(value, 0.0) / highest), 3),
            "value": percent(value),
        }
        for i, line in enumerate(weights["values"])
        for j, value in enumerate(line)
    ]
    labels = zip(order, short_names(names, 26), short_names(names, 14), strict=True)
    return {
        "cells": cells,
        "size": size,
        "labels": [{"index": k, "row": long, "column": short} for k, long, short in labels],
        "n_hidden": len(rows) - len(order),
    }


def folds(quality: dict[str, Any]) -> dict[str, Any]:
    """Return R2, overall and by fold, between the smallest of them (or 0) and 1."""
    by_fold = [value for value in quality["r2_by_fold"] if value is not None]
    scale = Scale(min([0.0, quality["r2"], *by_fold]), 1.0, margin=0.0)
    return {
        "zero": scale(0.0),
        "r2": scale(max(min(quality["r2"], 1.0), scale.low)),
        "folds": [scale(value) for value in by_fold],
        "ticks": scale.ticks(5),
    }


def latent_bars(result: Importance) -> list[dict[str, Any]]:
    """Return what is left in the latent coordinates beside the level of chance."""
    try:
        found = latent_measures(result)
    except ValueError:
        return []
    highest = max(float(found["value"].max()), float(found["chance"].max()), 0.05) * 1.05
    return [
        {
            "label": str(label),
            "width": round(100 * float(value) / highest, 2),
            "chance": round(100 * float(chance) / highest, 2),
            "value": f"{value:.3f}",
            "limit": f"{chance:.3f}",
            "beyond": bool(value > chance),
        }
        for label, value, chance in zip(
            found["measure"], found["value"], found["chance"], strict=True
        )
    ]
