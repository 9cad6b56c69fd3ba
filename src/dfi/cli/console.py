"""Messages of a command, its exit, and where it writes.

Results go to standard output, everything else to standard error. Whatever goes wrong becomes one
sentence and one exit code:

==== ==============================================================================
0    done
1    a defect in dfi or in a model: something that nobody foresaw
2    the command was written wrongly (an unknown option, a missing argument)
3    an input could not be read: missing, no permission, empty, ragged, wrong encoding
4    the data or the options were refused: no such column, text where numbers are needed
5    an output could not be written: it exists already, no permission, disk full
6    a change was found, and ``dfi change --fail-on-change`` asked for this code
130  interrupted (Ctrl-C); 143 terminated
==== ==============================================================================
"""

from __future__ import annotations

import functools
import json
import re
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import typer
from rich.console import Console as RichConsole
from rich.text import Text

from dfi._checks import printable
from dfi._files import outputs_noted, refuse_other_letters
from dfi._parameters import messages_name_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from dfi._types import Plain
    from dfi.results.importance import Importance

    Rows = Sequence[Plain]

P = ParamSpec("P")

# beyond ASCII's, which JSON escapes anyway: C1, marks of direction, line ends, surrogates
_STEERING = r"[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"

NAME_WIDTH = 48
"""Characters of a name that a printed table shows."""

READABLE = 14
"""Characters of a name in a narrow terminal, at the cost of columns."""

DEFECT, INPUT, REFUSED, OUTPUT, CHANGED, INTERRUPTED, TERMINATED = 1, 3, 4, 5, 6, 130, 143


class Failure(Exception):
    """A foreseen failure: a sentence and an exit code."""

    code = DEFECT


class Unreadable(Failure):
    code = INPUT


class Refused(Failure):
    code = REFUSED


class Unwritable(Failure):
    code = OUTPUT


class ColumnsRefused(Refused):
    """Refused columns, each with its message; a command ends with the first."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        sentence, *others = self.reasons.values()
        if others:
            what = "another column is" if len(others) == 1 else f"{len(others)} more columns are"
            sentence += f" ({what} refused too: dfi doctor lists each)"
        super().__init__(sentence)


class Refusals:
    """Why columns are refused, collected one by one and raised together."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        try:
            yield
        except Failure as error:
            self.reasons[name] = str(error)

    def raise_any(self) -> None:
        if self.reasons:
            raise ColumnsRefused(self.reasons)


class Terminated(BaseException):
    """The process received a signal to end; unwinding removes half-written files."""


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated


LEAST_MEMORY = 2**31
"""Bytes of addresses without which a command is not begun: a small table takes 1.8 GB of them on
two processors, most of which no memory is ever behind."""


def exit_code(error: BaseException) -> int:
    if isinstance(error, Failure):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, Terminated):
        return TERMINATED
    if is_panic(error):
        return REFUSED
    if isinstance(error, OSError):
        return OUTPUT
    if isinstance(error, ValueError):
        from dfi.results.file import FileFormatError

        return INPUT if isinstance(error, FileFormatError) else REFUSED
    return REFUSED if isinstance(error, TypeError) else DEFECT


def is_panic(error: BaseException) -> bool:
    """Return whether a library written in Rust panicked: such errors are not an ``Exception``."""
    return type(error).__name__ == "PanicException"


def sentence(error: BaseException, written: Sequence[Path] = ()) -> str:
    """Return the message of an exception, on one line; ``written`` is what is in its place."""
    if isinstance(error, (KeyboardInterrupt, Terminated)):
        how = "terminated" if isinstance(error, Terminated) else "interrupted"
        if not written:
            return f"{how}: nothing was written"
        return f"{how}, but {', '.join(map(str, written))} was already complete"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this table"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}"
    text = " ".join(str(error).split())
    if is_panic(error):
        return f"a library that reads tables gave up on this one: {text}"
    if exit_code(error) == DEFECT:
        kind = type(error).__name__
        return f"unexpected {kind}: {text} (run again with --debug and report it)"
    return text


def refuse_small_limit() -> None:
    """Raise if the memory limit is too small to load libraries, some of which then hang."""
    if sys.platform == "win32":
        return
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed != resource.RLIM_INFINITY and allowed < LEAST_MEMORY:
        raise Refused(
            f"a process may take {allowed / 2**30:.2g} GB of addresses here, but the numerical "
            f"libraries need {LEAST_MEMORY / 2**30:.2g}: raise the limit with ulimit -v unlimited"
        )


def _refuse_other_letters(options: Mapping[str, object]) -> None:
    """Raise before any work for an option, the name of a file above all, that is not UTF-8."""
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str | Path):
                try:
                    refuse_other_letters(str(item))
                except ValueError as error:
                    raise (Unwritable if name == "out" else Unreadable)(str(error)) from None


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Let a command end with one sentence and its exit code, or with a traceback under --debug."""

    @functools.wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminate)
        with messages_name_options(), outputs_noted() as written:
            try:
                _refuse_other_letters(options)
                refuse_small_limit()
                command(*arguments, **options)
            except (typer.Exit, typer.Abort, typer.BadParameter, SystemExit, GeneratorExit):
                raise
            except BaseException as error:
                if options.get("debug"):
                    raise
                code, text = exit_code(error), sentence(error, written)
                if options.get("as_json"):
                    print_json({"error": text, "exit_code": code})
                Console(quiet=False).error(text)
                raise typer.Exit(code) from None

    return run


class Console:
    """Standard error for people; in quiet mode, only warnings and errors."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.stderr = RichConsole(stderr=True, highlight=False, soft_wrap=True)
        self.said: list[str] = []

    @property
    def progress(self) -> bool | None:
        """Whether progress bars are wanted: None, for long runs at a terminal, unless quiet."""
        return None if not self.quiet and sys.stderr.isatty() else False

    def say(self, text: str) -> None:
        if not self.quiet:
            self.stderr.print(Text(printable(text, keep="\n")))

    def warn(self, text: str) -> None:
        """Print a warning once, and remember it for the summary."""
        text = " ".join(printable(text).split())
        if text not in self.said:
            self.said.append(text)
            self.stderr.print(Text.assemble(("warning: ", "bold yellow"), text))

    def error(self, text: str) -> None:
        self.stderr.print(Text.assemble(("dfi: ", "bold red"), printable(text)))

    @contextmanager
    def warnings(self) -> Iterator[None]:
        def show(message: Warning | str, category: type[Warning], *_: object) -> None:
            if not issubclass(category, (DeprecationWarning, PendingDeprecationWarning)):
                self.warn(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = show  # type: ignore[assignment]
            yield


def print_json(summary: Mapping[str, object]) -> None:
    """Print one object as JSON, with control characters escaped."""
    whole = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    text = json.dumps(summary, ensure_ascii=not whole, allow_nan=False)
    typer.echo(re.sub(_STEERING, lambda found: json.dumps(found[0])[1:-1], text))


def print_path(path: Path) -> None:
    """Print a path as it is for programs, and cleaned at a terminal."""
    typer.echo(printable(str(path)) if sys.stdout.isatty() else path)


def print_lines(text: str) -> None:
    typer.echo(printable(text, keep="\n"))


def print_table(result: Importance, rows: Rows, *, top: int) -> None:
    from dfi.results.columns import UNITS, written
    from dfi.results.text import BELOW_ZERO, SEEN, UNRELATED
    from dfi.results.views import SPACES
    from dfi.results.words import explained_of, null_label

    out = RichConsole(highlight=False, soft_wrap=True)
    out.print(Text(printable(f"Trust: {result.trust}")))
    shown, null = list(rows[:top]), null_label(result.spec)
    columns = written(UNITS, shown, "terminal", headings={"of_null": null})
    gaps, shared = "missing" in columns, any(row["share"] is not None for row in rows)
    _print_fitting(SPACES[result.space][0], shown, [columns, _without(columns, null)])
    share = f"share of {explained_of(result.spec)}, " if shared else ""
    _print_end(len(rows), top, share, result.level)
    if any(row["score"] is not None and row["score"] < 0 <= (row["ci_low"] or 0) for row in shown):
        out.print(Text(BELOW_ZERO))
    if gaps:
        out.print(Text(SEEN))
    unrelated = sum(row["unrelated"] for row in rows)
    if unrelated:
        out.print(Text(f"{unrelated} with a score of exactly 0: {UNRELATED}"))


def _print_end(count: int, top: int, share: str, level: float) -> None:
    from dfi.results.numbers import percent

    out = RichConsole(highlight=False, soft_wrap=True)
    if count > top:
        out.print(Text(f"... and {count - top} more (--top {count} shows all)"))
    out.print(Text(f"{share}{percent(level)} intervals; p adjusted by Holm over all {count}"))


def print_changes(rows: Rows, *, level: float, top: int) -> None:
    from dfi.results.columns import CHANGES, written

    shown = list(rows[:top])
    columns = written(CHANGES, shown, "terminal")
    narrow = _without(columns, "before", "after")
    whole = [replace(c, ends=()) if c.key in ("covariates", "concept") else c for c in CHANGES]
    bare = _without(written(whole, shown, "terminal"), "before", "after")
    _print_fitting("feature", shown, [columns, narrow, bare])
    _print_end(len(rows), top, "", level)


def _without(columns: Mapping[str, list[str]], *names: str) -> dict[str, list[str]]:
    return {name: texts for name, texts in columns.items() if name not in names}


def _print_fitting(unit: str, rows: Rows, choices: Sequence[Mapping[str, list[str]]]) -> None:
    """Print the first choice of columns that fits a terminal, else the last, whole."""
    from rich.table import Table

    from dfi.results.views import shorten

    out = RichConsole(highlight=False)
    # wide enough for numbers even where the width is not known
    width = out.width if out.is_terminal else max(120, out.width)
    names = [shorten(row["name"], NAME_WIDTH) for row in rows]
    room = min(READABLE, max(map(len, [unit, *names])))
    for columns in choices:
        needed = room + sum(
            2 + max(map(len, [heading, *texts])) for heading, texts in columns.items()
        )
        if needed <= width:
            break
    table = Table(box=None, pad_edge=False)
    table.add_column(unit, overflow="fold", min_width=room)
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for k, (row, name) in enumerate(zip(rows, names, strict=True)):
        style = "bold" if row["significant"] else ""
        table.add_row(Text(name, style=style), *(texts[k] for texts in columns.values()))
    RichConsole(highlight=False, width=max(width, needed)).print(table)


def _share_of(row: Plain) -> str:
    from dfi.results.numbers import percent

    if row["share"] is None:
        return ""
    return (
        f"{percent(row['share'])} ({percent(row['share_low'])} to {percent(row['share_high'])}), "
        "score "
    )


def leading(rows: Rows) -> str:
    from dfi.results.numbers import number
    from dfi.results.views import shorten

    return "; ".join(
        f"{shorten(row['name'], 30)} {_share_of(row)}{number(row['score'])} "
        f"({number(row['ci_low'])} to {number(row['ci_high'])})"
        for row in rows[:3]
    )
