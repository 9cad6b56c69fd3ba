"""Further sections of a page: pairs of features, and split shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi.report import charts
from dfi.results import views
from dfi.results.columns import PAIRS, SPLITS, page_cells
from dfi.results.interactions import Interactions
from dfi.results.numbers import for_json, percent
from dfi.results.split import PARTS, Split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Plain
    from dfi.results.importance import Importance

SHOWN_PAIRS, SHOWN_UNITS, SHOWN_CELLS = 30, 20, 15
"""Most pairs in the table, features with split shares, and features in the heat map."""

LEADING = 3


def check_sections(
    result: Importance, sections: Sequence[Interactions | Split]
) -> tuple[Interactions | Split, ...]:
    """Return the sections of a page; raise for anything else, or for another result's."""
    if isinstance(sections, Interactions | Split):
        sections = (sections,)
    for section in sections:
        if not isinstance(section, Interactions | Split):
            raise TypeError(
                "sections must be results of result.interactions() or result.split(), got "
                f"{type(section).__name__}"
            )
        if section.names != result.names:
            raise ValueError(
                "a section has features that differ from the result's "
                f"({', '.join(map(repr, section.names[:5]))}): pass sections of the same result"
            )
    return tuple(sections)


def section_summaries(sections: Sequence[Interactions | Split]) -> Plain:
    """Return the content of the sections, by name."""
    return dict(
        ("interactions", pairs_summary(section))
        if isinstance(section, Interactions)
        else ("split", split_summary(section))
        for section in sections
    )


def pairs_summary(found: Interactions) -> Plain:
    """Return the page's content about pairs."""
    rows: list[Plain] = for_json(found.rows())
    for row in rows:
        row["significant"] = row["p_adj"] is not None and row["p_adj"] < views.CHANCE
    sure = [row for row in rows if row["significant"]]
    said = [
        f"{row['name']}: {percent(row['share'])} of the explained variance "
        f"({percent(row['share_low'])} to {percent(row['share_high'])})"
        for row in sure[:LEADING]
        if row["share"] is not None
    ]
    return {
        "rows": rows,
        "said": said,
        "n_sure": len(sure),
        "n_pairs": len(found),
        "n_tested": found.n_tested,
        "n_screened": found.n_tested - len(found),
        "caution": found.spec.get("caution"),
        "errors": str(found.spec.get("standard_errors", "")),
    }


def split_summary(parted: Split) -> Plain:
    """Return the page's content about split shares."""
    rows: list[Plain] = for_json(parted.rows())
    return {
        "rows": rows,
        "said": [row["text"] for row in rows[:LEADING]],
        "suppressors": [
            row["name"]
            for row in rows
            if row["shared_high"] is not None and row["shared_high"] < 0.0
        ],
        "known": bool(rows) and rows[0]["share"] is not None,
    }


def pairs_section(found: Interactions) -> Plain:
    """Return the summary of pairs with its heat map and the cells of its table."""
    summary = pairs_summary(found)
    rows = summary["rows"]
    named = list(dict.fromkeys(name for row in rows for name in (row["feature"], row["partner"])))
    names = named[:SHOWN_CELLS]
    place = {name: at for at, name in enumerate(names)}
    measure = "share" if rows and rows[0]["share"] is not None else "score"
    size = round(100.0 / max(1, len(names)), 4)
    highest = max([1e-12, *(row[measure] or 0.0 for row in rows)])
    cells = [
        {
            "x": round(size * place[column], 4),
            "y": round(size * place[line], 4),
            "ink": round(float(np.sqrt(max(row[measure] or 0.0, 0.0) / highest)), 3),
            "text": f"{row['name']}: {percent(row['share'])}"
            if measure == "share"
            else f"{row['name']}: {row['score']:.3g}",
            "significant": row["significant"],
        }
        for row in rows
        if row["feature"] in place and row["partner"] in place
        for line, column in ((row["feature"], row["partner"]), (row["partner"], row["feature"]))
    ]
    shown = rows[:SHOWN_PAIRS]
    columns, texts = page_cells(PAIRS, shown)
    labels = zip(views.short_names(names, 26), views.short_names(names, 14), strict=True)
    return summary | {
        "heat": {
            "cells": cells,
            "size": size,
            "labels": [{"row": long, "column": short} for long, short in labels],
        },
        "columns": columns,
        "cells": texts,
        "shown": [row["name"] for row in shown],
        "n_hidden": len(rows) - len(shown),
    }


def split_section(parted: Split) -> Plain:
    """Return the summary of a split with its stacked bars and the cells of its table."""
    summary = split_summary(parted)
    rows = summary["rows"][:SHOWN_UNITS]
    ends = [0.0, 0.0]
    for row in rows:
        values = [row[part] or 0.0 for part in PARTS]
        ends = [
            min(ends[0], sum(v for v in values if v < 0)),
            max(ends[1], sum(v for v in values if v > 0), row["share_high"] or 0.0),
        ]
    scale = charts.Scale(*ends)
    bars = []
    labels = views.short_names([row["name"] for row in rows], charts.LABEL_WIDTH)
    for row, label in zip(rows, labels, strict=True):
        at = {1: 0.0, -1: 0.0}
        pieces = []
        for part in PARTS:
            value = row[part] or 0.0
            sign = 1 if value > 0 else -1
            left, right = sorted((scale(at[sign]), scale(at[sign] + value)))
            at[sign] += value
            pieces.append({"part": part, "x": left, "width": round(right - left, 3)})
        bars.append(
            {
                "name": row["name"],
                "label": label,
                "pieces": pieces,
                "value": percent(row["share"]),
                "text": row["text"],
            }
        )
    columns, texts = page_cells(SPLITS, rows)
    return summary | {
        "bars": bars,
        "zero": scale(0.0),
        "ticks": scale.ticks(percents=True),
        "columns": columns,
        "cells": texts,
        "shown": [row["name"] for row in rows],
        "n_hidden": len(summary["rows"]) - len(rows),
    }


def page_sections(sections: Sequence[Interactions | Split]) -> Plain:
    """Return the sections as the page draws them; None for those that it does not have."""
    return {"interactions": None, "split": None} | dict(
        ("interactions", pairs_section(section))
        if isinstance(section, Interactions)
        else ("split", split_section(section))
        for section in sections
    )
