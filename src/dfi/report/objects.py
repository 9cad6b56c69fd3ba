"""A report as an object: a page, data, and text for other documents."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from dfi._checks import printable
from dfi._docstrings import exemplified
from dfi._files import writable, written_whole
from dfi._parameters import validated, validated_fields
from dfi.report.change import change_html, compact_change_html, summarize_change
from dfi.report.page import compact_html, comparison_html, report_html
from dfi.report.sections import check_sections, section_summaries
from dfi.report.summary import summarize, summarize_comparison
from dfi.results.change import Change
from dfi.results.columns import CHANGES, UNITS, Column, written
from dfi.results.importance import Importance
from dfi.results.numbers import aligned, for_json, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._types import GroupsLike, Plain
    from dfi.results.interactions import Interactions
    from dfi.results.local import LocalAttributions
    from dfi.results.split import Split
    from dfi.results.views import ResultsByLabel

SHOWN = 50
"""Units in the table of a text."""

NO_PAGES = (".pdf", ".png", ".svg", ".jpg", ".docx", ".csv", ".xlsx")
"""File endings that promise another format."""


@exemplified
@validated_fields
@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The report of a result, of several side by side, or of a change.

    Parameters
    ----------
    result : Importance, mapping of str to Importance, or Change
        What it is about.
    groups : mapping, frame or Groups, optional
        Groups of features to report, of a single result.
    rows : int or LocalAttributions, optional
        Single rows that the page of a single result explains too, whose values it then holds.
    sections : sequence of Interactions and Split, default=()
        Further answers about a single result, each as a section.

    Examples
    --------
    >>> sample = dfi.datasets.m1(200, rho=0.8)
    >>> report = dfi.explain(sample.X, sample.y, estimator="linear").report()
    >>> report.html().startswith("<!doctype html>")
    True
    >>> print(report.markdown().splitlines()[0])
    # What explains y?
    """

    result: Importance | ResultsByLabel | Change
    title: str | None = None
    target: str | None = None
    groups: GroupsLike = None
    rows: int | LocalAttributions | None = None
    sections: Sequence[Interactions | Split] = ()

    def summary(self) -> Plain:
        """Return everything that the page shows as plain dicts, lists, strings and numbers.

        Examples
        --------
        >>> result.report().summary()["n_features"]
        3
        """
        if isinstance(self.result, Importance):
            found = summarize(self.result, title=self.title, target=self.target, groups=self.groups)
            return found | section_summaries(check_sections(self.result, self.sections))
        if isinstance(self.result, Change):
            return summarize_change(self.result, title=self.title, target=self.target)
        return summarize_comparison(self.result, title=self.title, target=self.target)

    def html(self) -> str:
        """Return one self-contained page that needs no network and no library.

        Examples
        --------
        >>> result.report().html().startswith("<!doctype html>")
        True
        """
        if isinstance(self.result, Importance):
            return report_html(
                self.result,
                title=self.title,
                target=self.target,
                groups=self.groups,
                rows=self.rows,
                sections=self.sections,
            )
        if isinstance(self.result, Change):
            return change_html(self.result, title=self.title, target=self.target)
        return comparison_html(self.result, title=self.title, target=self.target)

    @validated
    def json(self, *, indent: int | None = None) -> str:
        """Return :meth:`summary` as JSON, null for what is not known.

        Parameters
        ----------
        indent : int, optional
            Spaces by which each level is moved in; one line by default.

        Examples
        --------
        >>> import json
        >>> json.loads(result.report().json())["features"][0]["name"]
        'x0'
        """
        return json.dumps(for_json(self.summary()), ensure_ascii=False, indent=indent)

    def markdown(self) -> str:
        """Return the answer and the table as Markdown, to paste into an issue or a paper.

        Examples
        --------
        >>> print(result.report(target="the price").markdown().splitlines()[0])
        # What explains the price?
        """
        about = _about_several
        if isinstance(self.result, Importance | Change):
            about = _about_one if isinstance(self.result, Importance) else _about_change
        lines = about(self.summary())
        return printable("\n".join(lines) + "\n", keep="\n")

    @validated
    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write it to a file, all or nothing, and return its path.

        Parameters
        ----------
        path : path-like
            ``.json`` and ``.md`` are written as such, every other ending as a page; those of
            images, documents and tables (``.pdf``, ``.png``, ``.csv``, ...) are refused.

        Examples
        --------
        >>> result.report().write("report.md").name
        'report.md'
        """
        kinds = {".json": self.json, ".md": self.markdown}
        ending = Path(os.fspath(path)).suffix.lower()
        if ending in NO_PAGES:
            raise ValueError(
                f"a report is a page and cannot be written as {ending[1:].upper()}: name it "
                ".html, .json or .md; a browser prints the page as PDF"
            )
        content = kinds.get(ending, self.html)
        place = writable(path, overwrite=overwrite)
        with written_whole(place) as file:
            file.write(content().encode("utf-8", "replace"))
        return place

    def _repr_html_(self) -> str:
        if isinstance(self.result, Importance):
            return compact_html(self.result)
        if isinstance(self.result, Change):
            return compact_change_html(self.result)
        return f"<pre>{escape(repr(self.result), quote=False)}</pre>"

    def __repr__(self) -> str:
        return f"Report ({self.summary()['title']}): .html(), .json(), .markdown(), .write(path)"


def _about_one(summary: Plain) -> list[str]:
    features: list[Plain] = summary["features"]
    lines = [f"# {_cell(summary['title'])}", ""]
    rows = f"{summary['quality']['n_rows']} rows"
    told = f"{summary['n_features']} {summary['units']}, {rows}, {percent(summary['level'])}"
    trust = summary["trust"]
    verdict = " ".join([f"**Trust: {trust['grade']}.**", *map(_cell, trust["sentences"])])
    lines += [f"> {verdict}", "", f"{told} intervals. {_cell(summary['quality']['text'])}", ""]
    lines += [f"- **{_cell(item['name'])}**: {_cell(item['text'])}" for item in summary["leading"]]
    shown = features[:SHOWN]
    lines += ["", *_unit_table(UNITS, shown, summary["unit"], summary["level"])]
    if len(features) > SHOWN:
        lines += ["", f"... and {len(features) - SHOWN} more of {len(features)}."]
    negative = summary["negative"]
    lines += ["", negative] if negative else []
    for key, heading in (("split", "Shares, split"), ("interactions", "Pairs")):
        said = summary.get(key, {}).get("said")
        if said:
            lines += ["", f"## {heading}", "", *(f"- {_cell(text)}" for text in said)]
    return lines


def _about_change(summary: Plain) -> list[str]:
    features: list[Plain] = summary["features"]
    before, after = summary["n_rows"]
    told = f"{len(features)} features, {before} rows before and {after} after ({summary['rows']})"
    lines = [f"# {_cell(summary['title'])}", "", f"{told}.", ""]
    lines += [f"- {_cell(text)}" for text in summary["answers"]]
    if summary["reason"]:
        lines += ["", f"> Covariates and concept cannot be separated: {_cell(summary['reason'])}."]
    shown = features[:SHOWN]
    lines += ["", *_unit_table(CHANGES, shown, "feature", summary["level"])]
    more = len(features) - SHOWN
    return [*lines, "", f"... and {more} more of {len(features)}."] if more > 0 else lines


def _unit_table(schema: Sequence[Column], rows: list[Plain], unit: str, level: float) -> list[str]:
    cells = {unit: [_cell(row["name"]) for row in rows]}
    cells |= written(schema, rows, "markdown", interval=f"{percent(level)} interval")
    return _table(list(cells), list(zip(*cells.values(), strict=True)))


def _about_several(summary: Plain) -> list[str]:
    methods: list[Plain] = summary["methods"]
    lines = [f"# {_cell(summary['title'])}", "", _cell(summary["quality"]["text"]), ""]
    lines += [f"- **{_cell(m['label'])}** puts first: {_cell(m['leaders'])}." for m in methods]
    names = summary["names"][:SHOWN]
    columns = [aligned([[row["score"]] for row in m["rows"][: len(names)]]) for m in methods]
    body = [[_cell(name), *(column[k][0] for column in columns)] for k, name in enumerate(names)]
    return [*lines, "", *_table([summary["unit"], *(_cell(m["label"]) for m in methods)], body)]


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *body)]


def _cell(text: str) -> str:
    """Escape a text for Markdown, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(text.split()))
