"""What a command says: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from dfi.plots.style import shorten
from dfi.report.numbers import number, p_value, percent
from dfi.results.importance import UNRELATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfi.results.importance import Importance


class Console:
    """Standard error for people, quiet where it was asked for.

    Parameters
    ----------
    quiet : bool
        Whether only warnings and errors are said.
    """

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.stderr = RichConsole(stderr=True, highlight=False, soft_wrap=True)
        self.said: list[str] = []

    @property
    def progress(self) -> bool:
        """Whether progress bars are wanted: at a terminal, unless quiet."""
        return not self.quiet and sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Say what is being done."""
        if not self.quiet:
            self.stderr.print(Text(text))

    def warn(self, text: str) -> None:
        """Say a warning once, and remember it for the summary."""
        text = " ".join(text.split())
        if text not in self.said:
            self.said.append(text)
            self.stderr.print(Text.assemble(("warning: ", "bold yellow"), text))

    def error(self, text: str) -> None:
        """Say why the command ends."""
        self.stderr.print(Text.assemble(("dfi: ", "bold red"), text))

    @contextmanager
    def warnings(self) -> Iterator[None]:
        """Say Python warnings as sentences."""

        def show(message: Warning | str, category: type[Warning], *_: Any) -> None:
            if not issubclass(category, (DeprecationWarning, PendingDeprecationWarning)):
                self.warn(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = show  # type: ignore[assignment]
            yield


def print_table(rows: list[dict[str, Any]], *, level: float, top: int | None, unit: str) -> None:
    """Print the leading units as an aligned table on standard output."""
    table = Table(box=None, pad_edge=False)
    table.add_column(unit, overflow="fold")
    for heading in ("score", "interval", "adjusted p", "of variance"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows[:top]:
        name = Text(shorten(row["name"], 48), style="bold" if row["significant"] else "")
        low, high = number(row["ci_low"]), number(row["ci_high"])
        table.add_row(
            name,
            number(row["score"]),
            f"{low} to {high}",
            p_value(row["p_adj"]),
            percent(row["share"]),
        )
    out = RichConsole(highlight=False)
    # Wide enough for the numbers even where the terminal's width is unknown.
    if not out.is_terminal:
        out = RichConsole(highlight=False, width=max(120, out.width))
    out.print(table)
    if top is not None and len(rows) > top:
        out.print(Text(f"... and {len(rows) - top} more"))
    out.print(Text(f"{percent(level)} intervals; p adjusted by Holm over all {len(rows)}"))
    unrelated = sum(row["unrelated"] for row in rows)
    if unrelated:
        out.print(Text(f"{unrelated} with a score of exactly 0: {UNRELATED}"))


def leading(rows: list[dict[str, Any]]) -> str:
    """Return the first three units with their scores and intervals on one line."""
    return "; ".join(
        f"{shorten(row['name'], 30)} {number(row['score'])} "
        f"[{number(row['ci_low'])}, {number(row['ci_high'])}]"
        for row in rows[:3]
    )


def headline(result: Importance, rows: list[dict[str, Any]], seconds: float, where: str) -> str:
    """Return the one line that a log keeps of a run."""
    return (
        f"explained {result.quality.n_rows} rows x {len(rows)} features, "
        f"R2 {result.quality.r2:.3f}: {leading(rows)} ({seconds:.1f} s) -> {where}"
    )
