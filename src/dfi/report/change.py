"""The page of a change: what changed, by how much, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfi.report.charts import LABEL_WIDTH, MAX_BARS, Scale
from dfi.report.page import page_data, rendered, templates
from dfi.results import words
from dfi.results.change import ROWS_TEXT, Change, change_columns, change_order
from dfi.results.columns import CHANGES, page_cells, written
from dfi.results.file import thaw
from dfi.results.numbers import aligned, number, p_value, percent
from dfi.results.views import finite, short_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import Plain
    from dfi.results.change import PartName
    from dfi.results.importance import Importance

SURE = 0.05
"""Largest adjusted p of a change that counts as found."""

SHOWN_CHANGES = 5
"""Most changes described in words."""

PARTS = ("covariates", "concept")
KEYS = {
    "change": ("change", "ci_low", "ci_high"),
    **{part: (part, f"{part}_low", f"{part}_high") for part in PARTS},
}
"""Keys of a drawn value and of the ends of its interval."""


def change_rows(found: Change) -> list[Plain]:
    """Return the units as plain values, the largest change first."""
    columns = change_columns(found)
    rows: list[Plain] = []
    for rank, k in enumerate(change_order(found).tolist()):
        row: Plain = {"rank": rank + 1, "name": found.names[k]}
        row |= {key: finite(float(values[k])) for key, values in columns.items()}
        row["significant"] = row["p_adj"] is not None and row["p_adj"] <= SURE
        row["lines"] = _lines(row)
        rows.append(row)
    return rows


def _lines(row: Plain) -> list[str]:
    """Return the text shown when the pointer is on a unit."""
    found = [
        f"before {number(row['before'])}, after {number(row['after'])}",
        f"change {number(row['change'])} ({number(row['ci_low'])} to {number(row['ci_high'])})",
        f"adjusted p {p_value(row['p_adj'])}",
    ]
    found += [
        f"by the {part} {number(row[part])} "
        f"({number(row[f'{part}_low'])} to {number(row[f'{part}_high'])})"
        for part in PARTS
        if row[part] is not None
    ]
    return found


def answers(found: Change, rows: Sequence[Plain]) -> list[str]:
    test = found.any_change
    sure = [row for row in rows if row["significant"]]
    if test.p <= SURE:
        told = [
            f"Importance changed: the largest change is {number(test.statistic)} standard errors "
            f"({test.feature}); chance alone gives one as large with probability "
            f"{_chance(test.p)}."
        ]
    else:
        told = [
            f"No change is proven: the largest is {number(test.statistic)} standard errors, and "
            f"chance alone gives one as large with probability {_chance(test.p)}. The intervals "
            "show how large a change could still be."
        ]
    told += [_sentence(row, found.level) for row in sure[:SHOWN_CHANGES]]
    if len(sure) > SHOWN_CHANGES:
        told.append(f"{len(sure) - SHOWN_CHANGES} more changed; the table has them.")
    return told


def _chance(p: float) -> str:
    return "less than 0.001" if p < 0.001 else p_value(p)


def _sentence(row: Plain, level: float) -> str:
    """Say what became of one unit, and why."""
    way = "more" if row["change"] > 0 else "less"
    text = (
        f"{row['name']} carries {way} than before: {number(row['before'])} then, "
        f"{number(row['after'])} now, a change of {number(row['change'])} "
        f"({percent(level)} interval {number(row['ci_low'])} to {number(row['ci_high'])})."
    )
    if row["covariates"] is None:
        return text
    sure = [part for part in PARTS if _clear(row, part)]
    meaning = {
        "covariates": "how the features are distributed",
        "concept": "how the outcome depends on them",
    }
    if len(sure) == 1:
        part = sure[0]
        return f"{text} It comes from {meaning[part]} ({_part(row, part)})."
    parts = "; ".join(_part(row, part) for part in PARTS)
    if not sure:
        return f"{text} Its origin is unclear ({parts}; neither clearly differs from 0)."
    return f"{text} Both {meaning['covariates']} and {meaning['concept']} changed ({parts})."


def _part(row: Plain, part: str) -> str:
    low, high = number(row[f"{part}_low"]), number(row[f"{part}_high"])
    return f"{part} {number(row[part])}, from {low} to {high}"


def _clear(row: Plain, part: str) -> bool:
    low, high = row[f"{part}_low"], row[f"{part}_high"]
    return low is not None and high is not None and (low > 0 or high < 0)


def forest(rows: Sequence[Plain], limit: int = MAX_BARS) -> Plain:
    """Return points and intervals of changes and their parts, in percent of the area."""
    shown = list(rows[:limit])
    ends = [row[key] for row in shown for keys in KEYS.values() for key in keys]
    ends = [end for end in ends if end is not None]
    scale = Scale(min([0.0, *ends]), max([0.0, *ends]))
    labels = short_names([row["name"] for row in shown], LABEL_WIDTH)
    texts = aligned([[row["change"]] for row in shown])

    def place(row: Plain, value: str, low: str, high: str) -> Plain | None:
        if row[value] is None:
            return None
        known = row[low] is not None and row[high] is not None
        return {
            "at": scale(row[value]),
            "low": scale(row[low]) if known else None,
            "high": scale(row[high]) if known else None,
        }

    drawn = [
        {
            "index": position,
            "label": label,
            "name": row["name"],
            "significant": row["significant"],
            "value": texts[position][0],
            **{part: place(row, *keys) for part, keys in KEYS.items()},
        }
        for position, (row, label) in enumerate(zip(shown, labels, strict=True))
    ]
    return {
        "rows": drawn,
        "ticks": scale.ticks(),
        "zero": scale(0.0),
        "n_hidden": len(rows) - len(shown),
    }


def summarize_change(
    found: Change, *, title: str | None = None, target: str | None = None
) -> Plain:
    """Return everything that the page shows, as plain values."""
    rows = change_rows(found)
    target = target or words.name_of(found.after.spec)
    apart = found.covariates is not None
    overlap = thaw(found.overlap)
    return {
        "title": title or (f"What changed about {target}" if target else "What changed"),
        "target": target,
        "level": found.level,
        "rows": ROWS_TEXT[found.rows],
        "n_rows": [found.before.basis.n_rows, found.after.basis.n_rows],
        "features": rows,
        "answers": answers(found, rows),
        "apart": apart,
        "reason": found.reason,
        "tests": _tests(found),
        "periods": [_period(result) for result in (found.before, found.after)],
        "overlap": overlap or None,
        "errors": found.difference.basis.words,
        "spec": {
            "before": thaw(found.before.spec),
            "after": thaw(found.after.spec),
            "overlap": overlap,
        },
    }


TESTED: dict[PartName, tuple[str, str]] = {
    "change": ("any change", "a score differs between the tables"),
    "covariates": ("any by the covariates", "the features' own distribution moved a score"),
    "concept": ("any by the concept", "the outcome's dependence on features moved one"),
}


def _tests(found: Change) -> list[Plain]:
    return [
        {"name": name, "meaning": meaning, **found.test_any(of).as_dict()}
        for of, (name, meaning) in TESTED.items()
        if of == "change" or found.covariates is not None
    ]


def _period(result: Importance) -> Plain:
    return {
        "n_rows": result.basis.n_rows,
        "fit": words.quality_text(result.quality).replace("R2", "R²"),
        "estimator": str(result.spec.get("estimator", "")),
    }


def change_html(found: Change, *, title: str | None = None, target: str | None = None) -> str:
    summary = summarize_change(found, title=title, target=target)
    features = summary["features"]
    columns, shown = page_cells(CHANGES, features)
    return rendered(
        "change.html",
        summary=summary,
        columns=columns,
        shown=shown,
        chart=forest(features),
        data=page_data(features, columns, "feature", summary["level"], summary["spec"], "change"),
    )


def compact_change_html(found: Change, *, rows: int = 10) -> str:
    """Return a small table for notebooks: no script, no outside styles."""
    features = change_rows(found)
    return (
        templates()
        .get_template("compact_change.html")
        .render(
            cells=written(
                CHANGES, features[:rows], "notebook", interval=f"{percent(found.level)} interval"
            ),
            chart=forest(features, rows),
            n_features=len(features),
            n_rows=[found.before.basis.n_rows, found.after.basis.n_rows],
            rows=ROWS_TEXT[found.rows],
            level=found.level,
            test=found.any_change,
            reason=found.reason,
        )
    )
