"""The geometry of the report's charts, in percent of their area.

Positions in percent let a chart take any width while its text keeps its size, so the same SVG
is legible on a telephone, on a wide screen and on paper, without any script.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dfi.results.numbers import aligned, nice_ticks, number, percent
from dfi.results.tree import SLIGHT, branches, signal_tree
from dfi.results.views import latent_measures, short_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Plain
    from dfi.results.importance import Importance

    Box = tuple[float, float, float, float]

MEASURES = {"score": ("score", "ci_low", "ci_high"), "share": ("share", "share_low", "share_high")}
"""Keys of a bar's value and of the ends of its interval."""
MAX_BARS = 25
LABEL_WIDTH = 40
LEAST_SHARED = 0.1
"""Similarity that two units must have for a tree to be drawn."""
NARROW, WIDE = (290.0, 330.0), (440.0, 360.0)
"""Pixels of the scatter's area on a telephone and on a wide screen."""


class Scale:
    """A linear map of numbers to percent, with margins; ``upwards`` counts from the bottom."""

    def __init__(
        self, low: float, high: float, margin: float = 0.03, *, upwards: bool = False
    ) -> None:
        if not high > low:
            low, high = low - 0.5, high + 0.5
        pad = margin * (high - low)
        self.low, self.high = low - (pad if low < 0 else 0.0), high + pad
        self.upwards = upwards

    def __call__(self, value: float) -> float:
        """Return where a number lies."""
        at = round(100.0 * (value - self.low) / (self.high - self.low), 3)
        return round(100 - at, 3) if self.upwards else at

    def interval(self, row: Plain, measure: str = "score") -> Plain:
        """Return the position of a unit's interval; None without one."""
        low, high = (row[key] for key in MEASURES[measure][1:])
        known = low is not None and high is not None
        return {"low": self(low) if known else None, "high": self(high) if known else None}

    def ticks(self, count: int = 4, *, percents: bool = False) -> list[Plain]:
        """Return round numbers with their positions."""
        label = _short_percent if percents else _short_number
        return [
            {"at": self(value), "label": label(0.0 if abs(value) < 1e-12 else value)}
            for value in nice_ticks(self.low, self.high, count)
        ]


def _short_number(value: float) -> str:
    text = number(value)
    for word, letter in ((" million", "M"), (" billion", "B"), (" trillion", "T")):
        text = text.replace(word, letter)
    return text


def _short_percent(value: float) -> str:
    return f"{100.0 * value:.6g} %".replace("-", "−")


def _measure(rows: Sequence[Plain], explained: float | None) -> str:
    """Return the values of a chart: shares if requested and all known, else scores."""
    known = explained is not None and all(row.get("share") is not None for row in rows)
    return "share" if known else "score"


def _values(rows: Sequence[Plain], *keys: str) -> list[float]:
    return [row[key] for row in rows for key in keys if row[key] is not None]


def bars(
    rows: Sequence[Plain],
    limit: int = MAX_BARS,
    *,
    floor: float | None = None,
    explained: float | None = None,
    ticks: int = 4,
    width: int = LABEL_WIDTH,
) -> Plain:
    """Return bars with intervals for the first rows, and the position of the noise floor.

    With what is ``explained``, all are shares of it where every share is known; else scores.
    """
    shown = list(rows[:limit])
    measure = _measure(shown, explained)
    shared = measure == "share"
    if shared and floor is not None and explained is not None:
        floor /= explained
    ends = _values(shown, *MEASURES[measure])
    scale = Scale(min([0.0, *ends]), max([0.0, floor or 0.0, *ends]))
    zero = scale(0.0)
    labels = short_names([row["name"] for row in shown], width)
    if shared:
        texts = [percent(row["share"]) for row in shown]
    else:
        texts = [text for (text,) in aligned([[row["score"]] for row in shown])]
    drawn = []
    for position, (row, label) in enumerate(zip(shown, labels, strict=True)):
        end = scale(row[measure] or 0.0)
        drawn.append(
            {
                "index": position,
                "label": label,
                "name": row["name"],
                "x": min(zero, end),
                "width": round(abs(end - zero), 3),
                **scale.interval(row, measure),
                "significant": row["significant"],
                "value": texts[position],
            }
        )
    return {
        "rows": drawn,
        "shared": shared,
        "ticks": scale.ticks(ticks, percents=shared),
        "zero": zero,
        "floor": None if floor is None else scale(floor),
        "n_hidden": len(rows) - len(shown),
    }


def overview(rows: Sequence[Plain], explained: float | None = None) -> Plain | None:
    """Return every share or score by rank, as thin bars, if there are too many for a bar chart."""
    if len(rows) <= MAX_BARS:
        return None
    measure = _measure(rows, explained)
    ends = _values(rows, *MEASURES[measure])
    scale = Scale(min([0.0, *ends]), max([0.0, *ends]), upwards=True)
    step = 100.0 / len(rows)
    points = [
        {
            "index": position,
            "x": round(step * (position + 0.5), 3),
            "y": scale(row[measure] or 0.0),
            **scale.interval(row, measure),
            "significant": row["significant"],
        }
        for position, row in enumerate(rows)
    ]
    ranks = [k for k in nice_ticks(1, len(rows), 4) if k >= 1]
    return {
        "points": points,
        "ticks": scale.ticks(percents=measure == "share"),
        "ranks": [{"at": round(step * (k - 0.5), 3), "label": f"{k:.0f}"} for k in ranks],
        "zero": scale(0.0),
    }


def scatter(rows: Sequence[Plain], named: int = 12) -> Plain | None:
    """Return the attributed against the latent scores, with names that do not overlap."""
    known = [
        (k, row)
        for k, row in enumerate(rows)
        if row["latent"] is not None and row["score"] is not None
    ]
    if len(known) < 2:
        return None
    ends = _values([row for _, row in known], "latent", "score")
    across = Scale(min([0.0, *ends]), max(ends), margin=0.05)
    up = Scale(min([0.0, *ends]), max(ends), margin=0.05, upwards=True)
    points: list[Plain] = [
        {
            "index": k,
            "x": across(row["latent"]),
            "y": up(row["score"]),
            "significant": row["significant"],
        }
        for k, row in known
    ]
    return {
        "points": points,
        "names": _names(points, [row["name"] for _, row in known], named),
        "x_ticks": across.ticks(3),
        "y_ticks": up.ticks(5),
    }


def _names(points: list[Plain], names: list[str], count: int) -> list[Plain]:
    """Name the first points where the name covers no mark and no other name, narrow or wide."""
    taken = [[_box(point, size, -5, 5, 5) for point in points[:200]] for size in (NARROW, WIDE)]
    written = []
    for point, label in zip(points, short_names(names[:count], 16), strict=False):
        length = 6.6 * len(label)
        for anchor, shift in (("start", 9.0), ("end", -9.0 - length)):
            places = [_box(point, size, shift, shift + length, 7) for size in (NARROW, WIDE)]
            if all(
                place[0] >= 0 and place[2] <= size[0] and not any(_meet(place, b) for b in boxes)
                for place, size, boxes in zip(places, (NARROW, WIDE), taken, strict=True)
            ):
                for boxes, place in zip(taken, places, strict=True):
                    boxes.append(place)
                dx = 9 if anchor == "start" else -9
                at = {"x": point["x"], "y": point["y"], "dx": dx}
                written.append({**at, "anchor": anchor, "label": label})
                break
    return written


def _box(point: Plain, size: tuple[float, float], left: float, right: float, half: float) -> Box:
    """Return a box in pixels that reaches from left to right of a point and half above it."""
    x, y = point["x"] * size[0] / 100, point["y"] * size[1] / 100
    return (x + left, y - half, x + right, y + half)


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def heat_map(weights: Plain | None, rows: Sequence[Plain]) -> Plain | None:
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


def tree(result: Importance) -> Plain | None:
    """Return the tree of the leading units as brackets; None if none share signal."""
    try:
        found = signal_tree(result, MAX_BARS)
    except ValueError:
        return None
    if not (found.similarity >= LEAST_SHARED).any():
        return None
    names = [found.names[k] for k in found.order]
    step = 100.0 / len(names)

    def down(row: float) -> float:
        return round(step * (row + 0.5), 3)

    def across(similarity: float) -> float:
        return round(100.0 * (1.0 - similarity), 3)

    drawn = zip(
        branches(found), found.members, found.share, found.share_low, found.share_high, strict=True
    )
    brackets = [
        {
            "above": down(one.above),
            "below": down(one.below),
            "middle": down(0.5 * (one.above + one.below)),
            "begins": across(one.begins),
            "starts": across(one.starts),
            "at": across(one.at),
            "told": one.told,
            "similar": percent(one.at),
            "share": percent(share),
            "low": percent(low),
            "high": percent(high),
            "members": ", ".join(members),
        }
        for one, members, share, low, high in drawn
        if one.at >= SLIGHT
    ]
    return {
        "labels": [
            {"name": name, "label": label, "share": percent(found.shares[k])}
            for name, label, k in zip(names, short_names(names, 26), found.order, strict=True)
        ],
        "brackets": brackets,
        "ticks": [{"at": 100 - at, "label": f"{at} %"} for at in range(100, -1, -25)],
        "n_hidden": len(result.names) - len(names),
    }


def inside(units: Sequence[Plain]) -> Plain | None:
    """Return bars from the mean outcome to that of each level or quarter, all on one scale."""
    shown = [unit["members"] for unit in units if unit["kind"] != "group"]
    if not shown:
        return None
    middle = sum(member["share"] * member["mean"] for member in shown[0])
    ends = [member["mean"] for members in shown for member in members]
    low, high = min([middle, *ends]), max([middle, *ends])
    pad = 0.03 * (high - low) or 0.5

    def place(value: float) -> float:
        return float(round(100.0 * (value - low + pad) / (high - low + 2 * pad), 3))

    zero = place(middle)
    return {
        "mean": middle,
        "zero": zero,
        "bars": [
            [
                {"x": min(zero, end), "width": round(abs(end - zero), 3)}
                for end in (place(member["mean"]) for member in members)
            ]
            for members in shown
        ],
    }


def folds(quality: Plain) -> Plain:
    """Return the skill (R2 and its like), overall and by fold, up to 1."""
    by_fold = [value for value in quality["skill_by_fold"] if value is not None]
    skill = quality["skill"] or 0.0
    scale = Scale(min([0.0, skill, *by_fold]), 1.0, margin=0.0)
    return {
        "zero": scale(0.0),
        "skill": scale(max(min(skill, 1.0), scale.low)),
        "folds": [scale(value) for value in by_fold],
        "ticks": scale.ticks(5),
    }


def calibration(bins: Sequence[Plain]) -> Plain | None:
    """Return observed shares against mean predictions; None without classes."""
    if not bins:
        return None
    # probabilities of a rare class would crowd in a corner
    top = max(max(b["predicted"], b["observed"]) for b in bins)
    top = 1.0 if top > 0.5 else max(1.15 * top, 1e-3)
    across, up = Scale(0.0, top), Scale(0.0, top, upwards=True)
    return {
        "points": [{"x": across(b["predicted"]), "y": up(b["observed"])} for b in bins],
        "low": {"x": across(0.0), "y": up(0.0)},
        "high": {"x": across(top), "y": up(top)},
        "x_ticks": across.ticks(5),
        "y_ticks": up.ticks(5),
    }


def survival(curve: Plain | None) -> Plain | None:
    """Return a Kaplan-Meier curve as steps, its band and horizons; None without one."""
    if curve is None:
        return None
    across = Scale(0.0, max(curve["time"]), margin=0.0)
    up = Scale(0.0, 1.0, margin=0.02, upwards=True)

    def steps(heights: Sequence[float]) -> list[tuple[float, float]]:
        places = [across(time) for time in curve["time"]]
        levels = [up(height) for height in heights]
        found = [(places[0], levels[0])]
        for place, before, level in zip(places[1:], levels, levels[1:], strict=False):
            found += [(place, before), (place, level)]
        return found

    def path(points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x:g},{y:g}" for x, y in points)

    return {
        "name": curve["name"],
        "line": path(steps(curve["survival"])),
        "band": path([*steps(curve["low"]), *reversed(steps(curve["high"]))]),
        "horizons": [{"at": across(one), "label": number(one)} for one in curve["horizons"]],
        "x_ticks": across.ticks(5),
        "y_ticks": up.ticks(5),
    }


def latent_bars(result: Importance) -> list[Plain]:
    """Return the dependence that remains in latent coordinates, next to the level of chance."""
    try:
        columns = latent_measures(result)
    except ValueError:
        return []
    highest = max(float(columns["value"].max()), float(columns["chance"].max()), 0.05) * 1.05
    return [
        {
            "label": label,
            "width": round(100 * float(value) / highest, 2),
            "chance": round(100 * float(chance) / highest, 2),
            "value": f"{value:.3f}",
            "limit": f"{chance:.3f}",
            "beyond": bool(value > chance),
        }
        for label, value, chance in zip(
            columns["measure"], columns["value"], columns["chance"], strict=True
        )
    ]
