"""From the summary to one self-contained HTML file that needs no network and no library."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from dfi._checks import printable
from dfi._parameters import InvalidParameterError, argument, whole, worded
from dfi.report import charts
from dfi.report.sections import check_sections, page_sections
from dfi.report.summary import class_summary, summarize, summarize_comparison
from dfi.results import views, words
from dfi.results.columns import UNITS, page_cells, written
from dfi.results.local import LocalAttributions, rows_beside, value_text
from dfi.results.numbers import aligned, number, p_value, percent
from dfi.results.text import BELOW_ZERO, missing_text
from dfi.results.views import survival_curve, unit_rows

if TYPE_CHECKING:
    from dfi._types import GroupsLike, Plain
    from dfi.results.importance import Importance
    from dfi.results.interactions import Interactions
    from dfi.results.split import Split
    from dfi.results.views import ResultsByLabel

NARROW_LABEL = 20
"""Characters of a name in the charts of a comparison."""

SHOWN_OF_EACH = 15
"""Bars of each method in a comparison."""


@cache
def templates() -> Environment:
    """Return the templates; every value is escaped where it is written."""
    found = Environment(
        loader=PackageLoader("dfi.report"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(number=number, percent=percent, p_value=p_value, in_line=_in_line)
    return found


def _in_line(rows: Sequence[Plain], *keys: str) -> list[list[str]]:
    return aligned([[row[key] for key in keys] for row in rows])


@cache
def _asset(name: str) -> str:
    return resources.files("dfi.report").joinpath("templates", name).read_text(encoding="utf-8")


def page_data(
    features: Sequence[Plain],
    columns: Sequence[tuple[str, str, bool]],
    unit: str,
    level: float,
    spec: Plain,
    file: str,
    **more: object,
) -> Plain:
    """Return what the script of a page reads."""
    heads = [["rank", "rank"], ["name", unit], *([key, label] for key, label, _ in columns)]
    return {
        "features": features, "columns": heads, "groups": [], "level": level, "spec": spec,
        "file": file, **more,
    }  # fmt: skip


def rendered(template: str, **values: object) -> str:
    """Return a page with its style and script, which is the only one that a browser may run."""
    script = _asset("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = (
        templates()
        .get_template(template)
        .render(
            style=Markup(_asset("style.css")),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            policy="default-src 'none'; base-uri 'none'; form-action 'none'; "
            f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
            **{name: _readable(value) for name, value in values.items()},
        )
    )
    return printable(page, keep="\n\t")


def _readable(value: object) -> object:
    """Return values whose texts have no marks that change their direction."""
    if isinstance(value, str):
        return value if isinstance(value, Markup) else printable(value, keep="\r\n\t")
    if isinstance(value, Mapping):
        return {_readable(key): _readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_readable, value)) if type(value) in (list, tuple) else value
    return value


def report_html(
    result: Importance,
    *,
    title: str | None = None,
    target: str | None = None,
    groups: GroupsLike = None,
    rows: int | LocalAttributions | None = None,
    sections: Sequence[Interactions | Split] = (),
) -> str:
    """Return the page of a result; it contains values of single rows only on request."""
    local = local_summary(rows_of_page(result, rows))
    further = page_sections(check_sections(result, sections))
    summary = summarize(result, title=title, target=target, groups=groups)
    features = summary["features"]
    explained = None if summary["explained"] is None else summary["explained"]["value"]
    columns, shown = page_cells(UNITS, features, {"of_null": summary["null_label"]})
    return rendered(
        "report.html",
        summary=summary,
        columns=columns,
        local=local,
        sections=further,
        shown=shown,
        charts={
            "bars": charts.bars(features, floor=summary["noise"]["floor"], explained=explained),
            "overview": charts.overview(features, explained),
            "scatter": charts.scatter(features),
            "heat": charts.heat_map(summary["weights"], features),
            "tree": charts.tree(result),
            "folds": charts.folds(summary["quality"]),
            "calibration": charts.calibration(summary["quality"]["calibration"]),
            "groups": None
            if summary["groups"] is None
            else charts.bars(summary["groups"], explained=explained),
            "latent": charts.latent_bars(result),
            "survival": charts.survival(survival_curve(result)),
            "inside": charts.inside(summary["inside"]),
        },
        data=page_data(
            features,
            columns,
            summary["unit"],
            summary["level"],
            summary["spec"],
            "importance",
            groups=summary["groups"] or [],
            null=summary["null_name"],
            whole=summary["whole"],
            **({} if local is None else {"rows": local}),
        ),
    )


def compact_html(result: Importance, *, rows: int = 10) -> str:
    """Return a small table with bars for notebooks: no script, no outside styles."""
    features = unit_rows(result)
    explained = None if result.explained is None else result.explained.value
    outcome = words.outcome_of(result.spec, result.by_outcome)
    page = (
        templates()
        .get_template("compact.html")
        .render(
            chart=charts.bars(features, rows, explained=explained),
            cells=written(
                UNITS, features[:rows], "notebook", interval=f"{percent(result.level)} interval"
            ),
            trust=result.trust,
            n_features=len(features),
            n_unrelated=sum(row["unrelated"] for row in features),
            level=result.level,
            quality=result.quality,
            fit=words.quality_text(result.quality).split(" (")[0].replace("R2", "R²"),
            outcome=None if outcome is None else outcome.text,
            target=words.name_of(result.spec),
            unit=words.unit_of(result.spec),
            shared=any(row["share"] is not None for row in features),
            by_class=None if not result.by_outcome else class_summary(result, rows),
            space=result.space,
            how=result.spec.get("group_scores"),
            missing=missing_text(result),
            below=BELOW_ZERO
            if result.nonnegative and any((row["score"] or 0.0) < 0.0 for row in features[:rows])
            else None,
        )
    )
    return printable(page, keep="\n\t")


def comparison_html(
    results: ResultsByLabel, *, title: str | None = None, target: str | None = None
) -> str:
    summary = summarize_comparison(results, title=title, target=target)
    methods: list[Plain] = summary["methods"]
    features = []
    for position, name in enumerate(summary["names"]):
        rows = [method["rows"][position] for method in methods]
        lines = [
            f"{method['label']}: {number(row['score'])} "
            f"({number(row['ci_low'])} to {number(row['ci_high'])})"
            for method, row in zip(methods, rows, strict=True)
        ]
        features.append(
            {
                "rank": position + 1,
                "name": name,
                "significant": rows[0]["significant"],
                "lines": lines,
                **{f"m{k}": row["score"] for k, row in enumerate(rows)},
            }
        )
    columns = [(f"m{k}", method["label"], False) for k, method in enumerate(methods)]
    texts = [aligned([[row["score"]] for row in method["rows"]]) for method in methods]
    named = [[key, label, label] for key, label, _ in columns]
    return rendered(
        "comparison.html",
        summary=summary,
        features=features,
        columns=columns,
        shown=[
            {f"m{k}": text for k, (text,) in enumerate(cells)} for cells in zip(*texts, strict=True)
        ],
        multiples=[
            charts.bars(method["rows"], SHOWN_OF_EACH, ticks=2, width=NARROW_LABEL)
            for method in methods
        ],
        data=page_data(
            features, columns, "feature", summary["level"], summary["specs"], "comparison"
        )
        | {"columns": [["rank", "rank"], ["name", "feature"], *named]},
    )


SHOWN_OF_ROW = 12
"""Contributions of a row that a page lists; the others are added up."""

MOST_ROWS = 500
"""Rows beyond which a page is too long."""

LABEL_WIDTH = 40
VALUE_WIDTH = 24


def rows_of_page(
    result: Importance, rows: int | LocalAttributions | None
) -> LocalAttributions | None:
    """Return the rows that a page shows: an evenly spaced number of them, or those given."""
    if rows is None:
        return rows
    if not isinstance(rows, LocalAttributions) and whole("rows", rows, 1) > MOST_ROWS:
        raise InvalidParameterError(
            f"{argument('rows', rows)} is more than the {MOST_ROWS} that a page holds",
            "rows",
            "ask for fewer" + worded(", or result.local(...).table() for all of them", ""),
        )
    return rows_beside(result, rows, same_outcome=True)


def local_summary(local: LocalAttributions | None) -> Plain | None:
    """Return the page's data on single rows, in few digits; None without any."""
    if local is None:
        return None
    found = []
    for at in range(len(local)):
        values = local.values[at]
        order = views.leading(np.abs(values), SHOWN_OF_ROW)
        others = np.setdiff1d(np.arange(len(values)), order)
        found.append(
            {
                "row": int(local.rows[at]),
                "base": _few(local.base[at]),
                "prediction": _few(local.prediction[at]),
                "higher": _few(local.higher_order[at]),
                "parts": [
                    [int(k), _few(values[k]), _few(local.spread[at, k]), _short(local, int(k), at)]
                    for k in order
                    if values[k] != 0.0
                ],
                "rest": _few(float(values[others].sum())),
            }
        )
    return {
        "names": list(local.names),
        "labels": views.short_names(local.names, LABEL_WIDTH),
        "explains": str(local.spec.get("explains")),
        "models": str(local.spec.get("models")),
        "spread": local.has_spread,
        "refined": bool(local.spec.get("refine")),
        "list": found,
    }


def _few(value: float) -> float | None:
    return None if not np.isfinite(value) else float(f"{value:.6g}")


def _short(local: LocalAttributions, unit: int, at: int) -> str:
    text = value_text(local, unit, at)
    return views.shorten(text, VALUE_WIDTH) if text else ""
