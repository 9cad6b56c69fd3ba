"""Where the figures of pages come from: docs/records has them with command, date and commit.

A table that was measured stands in its page behind a mark, ``<!-- record: name -->``; a paragraph
is known by how it begins. ``tests/docs/test_figures.py`` compares both with the records, and finds
tables and paragraphs that have none. After a measurement, and after the page is written::

    python -m benchmarks.records take change coverage --command "python ..."

stores the table behind a mark, or with ``--paragraph "How it begins"`` the numbers of a paragraph,
with today's date and commit. Without arguments the page of all records is written again.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "records"
PAGE = DOCS / "evidence" / "records.md"
ONCE = "once"
"""The command of what was measured once, with code that was not kept."""

MARK = re.compile(r"<!-- record: ([\w-]+) -->\n")
NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?(?![\w.]*\w)")
CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
HEAD = """# Where figures come from

Figures of [coverage](../coverage.md), [nulls](../nulls.md), [benchmarks](../benchmarks.md) and [the paper](../paper/README.md) are written by their
studies. This page lists every other measured figure: the command, the date, and the commit in which it first appeared.
*Once* means that the code was not kept, or that the figure came from someone else's table and a call by hand; nobody has
repeated it. A test compares pages and records.

| page | what | command | date | commit |
|---|---|---|---|---|
"""


def path_of(page: str) -> Path:
    """Return the Markdown of a page by its name; README lies above the others."""
    return DOCS.parent / "README.md" if page == "README" else DOCS / f"{page}.md"


def read() -> dict[str, dict[str, Any]]:
    """Return all records, by page and name."""
    return {
        str(json.loads(file.read_text())["page"]): json.loads(file.read_text())["records"]
        for file in sorted(RECORDS.glob("*.json"))
    }


def tables(text: str) -> Iterator[tuple[str | None, list[list[str]]]]:
    """Yield the tables of a page with the name of the record that they are marked by."""
    lines, name, place = text.split("\n"), None, 0
    while place < len(lines):
        marked = MARK.match(lines[place] + "\n")
        if marked:
            name = marked.group(1)
        elif lines[place].startswith("|"):
            start = place
            while place < len(lines) and lines[place].startswith("|"):
                place += 1
            cells = [
                [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
                for line in lines[start:place]
            ]
            yield name, [cells[0], *cells[2:]]
            name = None
            continue
        elif lines[place].strip():
            name = None
        place += 1


def table_of(text: str, name: str) -> list[list[str]]:
    """Return the table behind a mark."""
    found = [table for mark, table in tables(text) if mark == name]
    if len(found) != 1:
        raise ValueError(f"there are {len(found)} tables behind <!-- record: {name} -->")
    return found[0]


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs and list items of a page, each on one line, without code and tables."""
    plain = re.sub(r"<!--.*?-->", "", re.sub(r"^```.*?^```", "\n", text, flags=re.S | re.M))
    plain = "\n".join("" if line.startswith(("|", "#")) else line for line in plain.split("\n"))
    found = re.split(r"\n\s*\n|\n(?=- )|\n(?=\d+\. )", plain)
    return [" ".join(each.split()) for each in found if each.strip()]


def numbers_of(text: str, beginning: str) -> list[str]:
    """Return the numbers of the paragraph that begins with some words."""
    found = [each for each in paragraphs(text) if each.startswith(beginning)]
    if len(found) != 1:
        raise ValueError(
            f"{len(found)} paragraphs begin with {beginning!r}, which docs/records tells of: take "
            "the record of the paragraph again, with --paragraph and how it begins now"
        )
    return NUMBER.findall(CODE.sub("", found[0]))


def take(page: str, name: str, command: str, paragraph: str | None = None, **when: str) -> None:
    """Store what a page says now, with today's date and commit."""
    text = path_of(page).read_text()
    entry: dict[str, Any] = {"command": command, **today(), **when}
    if paragraph is None:
        entry["table"] = table_of(text, name)
    else:
        entry |= {"paragraph": paragraph, "numbers": numbers_of(text, paragraph)}
    file = RECORDS / f"{page.replace('/', '-')}.json"
    known = json.loads(file.read_text())["records"] if file.exists() else {}
    RECORDS.mkdir(exist_ok=True)
    content = {"page": page, "records": {**known, name: entry}}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    # a row or a list of numbers on one line, so that a difference is one line too
    text = re.sub(r"\[\s+((?:\"(?:[^\"\\]|\\.)*\",?\s+)+)\]", _one_line, text)
    file.write_text(text + "\n")


def _one_line(match: re.Match[str]) -> str:
    return "[" + " ".join(line.strip() for line in match.group(1).split("\n")).strip() + "]"


def today() -> dict[str, str]:
    """Return date and commit of now."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=9", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return {"date": dt.datetime.now(dt.UTC).date().isoformat(), "commit": commit}


def page() -> str:
    """Return the page of all records."""
    lines = []
    for name, records in read().items():
        link = "../../README.md" if name == "README" else f"../{name}.md"
        target = "README" if name == "README" else f"[{name}]({link})"
        for key, entry in records.items():
            command = "once" if entry["command"] == ONCE else f"`{entry['command']}`"
            what = key.replace("-", " ")
            date = entry["date"].replace("-", "\u2011")  # hyphens at which no line ends
            lines.append(f"| {target} | {what} | {command} | {date} | {entry['commit']} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", nargs="?", choices=["take"])
    parser.add_argument("where", nargs="*", help="page and name of the record")
    parser.add_argument("--command", default=ONCE)
    parser.add_argument("--paragraph")
    options = parser.parse_args()
    if options.do == "take":
        take(*options.where, options.command, options.paragraph)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
