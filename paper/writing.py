"""What the pages of reproductions share: tables of numbers, Markdown, figures."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure


def write_csv(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows of numbers in full precision; the first row names the columns."""
    rows = list(rows)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(stream.getvalue(), encoding="utf-8")


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; numbers to four digits, None as a dash."""
    lines = [_line(headings), _line("---" for _ in headings)]
    lines += [_line(shown(cell) for cell in row) for row in rows]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def shown(value: object, digits: int = 4) -> str:
    """Return a number in a few digits, as a reader wants it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        if abs(value) < 0.5 * 10 ** (1 - digits):
            return "0"
        return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    return str(value)


def write_page(path: Path, *blocks: str) -> None:
    """Write paragraphs, tables and pictures, an empty line between them."""
    path.write_text("\n\n".join(block.strip() for block in blocks if block) + "\n", "utf-8")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG without the date and version that would change its bytes."""
    figure.savefig(path, dpi=110, metadata={"Software": None})
