"""The report of several results side by side: methods, or settings of one method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dfi.plots.comparison import read_results
from dfi.report import charts
from dfi.report.numbers import number
from dfi.report.page import environment, page_assets, refuse_existing, write_page
from dfi.report.provenance import versions
from dfi.report.sentences import quality_sentences
from dfi.report.summary import SPACES, unit_rows
from dfi.results.file import thaw

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from dfi.results.importance import Importance

SHOWN = 15


def summarize_comparison(
    results: Any, *, title: str | None = None, target: str | None = None
) -> dict[str, Any]:
    """Return everything that a comparison's report shows, as plain values.

    Parameters
    ----------
    results : mapping of str to Importance, or a comparison
        The results, the one that sets the order first. A comparison's records (question, validity
        of its intervals, seconds) are shown where it has them.
    title, target : str, optional
        Headline, and the name of the outcome.
    """
    found = read_results(results)
    first = next(iter(found.values()))
    records = _records(results)
    names = [row["name"] for row in unit_rows(first)]
    by_name = {label: {row["name"]: row for row in unit_rows(r)} for label, r in found.items()}
    scores = {label: [rows[name]["score"] for name in names] for label, rows in by_name.items()}
    leading = next(iter(scores.values()))
    methods = [
        {
            "label": label,
            "rows": [by_name[label][name] for name in names],
            "agreement": _agreement(leading, scores[label]),
            "leaders": _leaders(list(by_name[label].values())),
            **records.get(label, _NO_RECORD),
        }
        for label in found
    ]
    return {
        "title": title or f"{len(found)} answers side by side",
        "target": target,
        "unit": SPACES[first.space][0],
        "units": SPACES[first.space][1],
        "level": first.level,
        "names": names,
        "methods": methods,
        "skipped": _skipped(results),
        "quality": quality_sentences(first.quality),
        "versions": versions(thaw(first.spec)),
        "specs": {label: thaw(result.spec) for label, result in found.items()},
    }


_NO_RECORD: dict[str, Any] = {"question": None, "inference": None, "valid": True, "seconds": None}


def _records(results: Any) -> dict[str, dict[str, Any]]:
    """Return what a comparison knows about its methods, by the labels of their results."""
    records = {}
    for record in getattr(results, "methods", ()):
        for label in record.results:
            records[label] = {
                "question": record.question,
                "inference": record.inference,
                "valid": record.valid_intervals,
                "seconds": record.seconds,
            }
    return records


def _skipped(results: Any) -> list[str]:
    return [
        f"{record.name}: {record.skipped}"
        for record in getattr(results, "methods", ())
        if record.skipped is not None
    ]


def _agreement(first: list[float], other: list[float]) -> float | None:
    """Return Spearman's rank correlation, None where it does not exist."""
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(other) == 0:
        return None
    return float(stats.spearmanr(first, other).statistic)


def _leaders(rows: list[dict[str, Any]]) -> str:
    ordered = sorted(rows, key=lambda row: row["rank"])
    return ", ".join(f"{row['name']} ({number(row['score'])})" for row in ordered[:3])


def comparison_html(results: Any, *, title: str | None = None, target: str | None = None) -> str:
    """Return the report of several results as one HTML page."""
    summary = summarize_comparison(results, title=title, target=target)
    methods = summary["methods"]
    features = []
    for position, name in enumerate(summary["names"]):
        rows = [method["rows"][position] for method in methods]
        lines = [
            f"{method['label']}: {number(row['score'])} "
            f"({number(row['ci_low'])} to {number(row['ci_high'])})"
            for method, row in zip(methods, rows, strict=True)
        ]
        scores = {f"m{k}": row["score"] for k, row in enumerate(rows)}
        features.append(
            {
                "rank": position + 1,
                "name": name,
                "significant": rows[0]["significant"],
                "lines": lines,
                **scores,
            }
        )
    columns = [(f"m{k}", method["label"]) for k, method in enumerate(methods)]
    return (
        environment()
        .get_template("comparison.html")
        .render(
            summary=summary,
            features=features,
            columns=columns,
            multiples=[charts.bars(method["rows"], SHOWN) for method in methods],
            data={
                "features": features,
                "columns": [
                    ["rank", "rank"],
                    ["name", "feature"],
                    *([k, v, v] for k, v in columns),
                ],
                "groups": [],
                "level": summary["level"],
                "spec": summary["specs"],
                "file": "comparison",
            },
            **page_assets(),
        )
    )


def write_comparison_report(
    results: dict[str, Importance] | Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    target: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the report of several results to a file, all or nothing, and return its path.

    Parameters
    ----------
    results : mapping of str to Importance, or a comparison
        The results.
    path : path-like
        Where to write.
    title, target : str, optional
        Headline, and the name of the outcome.
    overwrite : bool, default=False
        Whether an existing file may be replaced.
    """
    refuse_existing(path, overwrite=overwrite)
    return write_page(path, comparison_html(results, title=title, target=target))
