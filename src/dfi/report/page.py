"""From the summary to one HTML file that needs nothing else, no network and no library."""

from __future__ import annotations

import base64
import hashlib
import os
import uuid
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from dfi.report import charts
from dfi.report.numbers import number, p_value, percent
from dfi.report.summary import summarize, unit_rows

if TYPE_CHECKING:
    from dfi.results.importance import Importance

TABLE_COLUMNS = (
    ("score", "score"),
    ("se", "std. error"),
    ("ci_low", "low"),
    ("ci_high", "high"),
    ("z", "z"),
    ("p", "p"),
    ("p_adj", "adjusted p"),
    ("share", "of variance"),
    ("latent", "latent"),
)


@cache
def environment() -> Environment:
    """Return the templates; every value is escaped where it is written."""
    found = Environment(
        loader=PackageLoader("dfi.report"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(number=number, percent=percent, p_value=p_value)
    return found


@cache
def _asset(name: str) -> str:
    return resources.files("dfi.report").joinpath("templates", name).read_text(encoding="utf-8")


def page_assets() -> dict[str, Any]:
    """Return style and script, and the policy that lets a browser run this script and no other."""
    script = _asset("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "style": Markup(_asset("style.css")),  # noqa: S704 - our own file
        "script": Markup(script),  # noqa: S704 - our own file
        "policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
    }


def report_html(
    result: Importance,
    *,
    title: str | None = None,
    target: str | None = None,
    groups: Any = None,
) -> str:
    """Return the report of a result as one HTML page.

    Parameters
    ----------
    result : Importance
        The result.
    title, target : str, optional
        Headline, and the name of the outcome.
    groups : mapping, frame or Groups, optional
        Groups to report; by default those that the result was made with.
    """
    summary = summarize(result, title=title, target=target, groups=groups)
    features = summary["features"]
    columns = [c for c in TABLE_COLUMNS if any(row[c[0]] is not None for row in features)]
    return (
        environment()
        .get_template("report.html")
        .render(
            summary=summary,
            columns=columns,
            charts={
                "bars": charts.bars(features, floor=summary["noise"]["floor"]),
                "overview": charts.overview(features),
                "scatter": charts.scatter(features),
                "heat": charts.heat_map(summary["weights"], features),
                "folds": charts.folds(summary["quality"]),
                "groups": None if summary["groups"] is None else charts.bars(summary["groups"]),
                "latent": charts.latent_bars(result),
            },
            data={
                "features": features,
                "columns": [["rank", "rank"], ["name", summary["unit"]], *map(list, columns)],
                "groups": summary["groups"] or [],
                "level": summary["level"],
                "spec": summary["spec"],
                "file": "importance",
            },
            **page_assets(),
        )
    )


def compact_html(result: Importance, *, rows: int = 10) -> str:
    """Return a small table with bars for notebooks: no script, no style outside of itself."""
    features = unit_rows(result)
    return (
        environment()
        .get_template("compact.html")
        .render(
            chart=charts.bars(features, rows),
            features=features[:rows],
            n_features=len(features),
            n_unrelated=sum(row["unrelated"] for row in features),
            level=result.level,
            quality=result.quality,
            space=result.space,
        )
    )


def write_report(
    result: Importance,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    target: str | None = None,
    groups: Any = None,
    overwrite: bool = False,
) -> Path:
    """Write the report of a result to a file, all or nothing, and return its path.

    Parameters
    ----------
    result : Importance
        The result.
    path : path-like
        Where to write; ``.html`` is the customary ending.
    title, target : str, optional
        Headline, and the name of the outcome.
    groups : mapping, frame or Groups, optional
        Groups to report; by default those that the result was made with.
    overwrite : bool, default=False
        Whether an existing file may be replaced.
    """
    refuse_existing(path, overwrite=overwrite)
    return write_page(path, report_html(result, title=title, target=target, groups=groups))


def refuse_existing(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Refuse a path that cannot or must not be written, before any work is done."""
    where = Path(path)
    if where.is_dir():
        raise IsADirectoryError(f"{where} is a folder; give the name of a file")
    if not where.parent.is_dir():
        raise FileNotFoundError(f"the folder {where.parent} does not exist; create it first")
    if where.exists() and not overwrite:
        raise FileExistsError(f"{where} exists already; pass overwrite=True to replace it")


def write_page(path: str | os.PathLike[str], page: str) -> Path:
    """Write a page under a temporary name and move it into place."""
    where = Path(path)
    temporary = where.with_name(f".{where.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(page.encode("utf-8"))
        os.replace(temporary, where)
    finally:
        temporary.unlink(missing_ok=True)
    return where
