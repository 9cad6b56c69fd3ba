"""Exit codes, and how anything that goes wrong becomes one sentence and one of them.

==== ==============================================================================
0    done
1    a defect in dfi or in a model: something that nobody foresaw
2    the command was written wrongly (an unknown option, a missing argument)
3    an input could not be read: missing, no permission, empty, ragged, wrong encoding
4    the data or the options were refused: no such column, text where numbers are needed
5    an output could not be written: it exists already, no permission, disk full
130  interrupted (Ctrl-C); 143 terminated
==== ==============================================================================
"""

from __future__ import annotations

import functools
import json
import signal
import threading
from typing import TYPE_CHECKING, Any

import typer

from dfi.cli.console import Console
from dfi.results.file import FileFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

DEFECT, INPUT, REFUSED, OUTPUT, INTERRUPTED, TERMINATED = 1, 3, 4, 5, 130, 143


class Failure(Exception):
    """A foreseen failure: a sentence and an exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Terminated(BaseException):
    """The process was asked to end; unwinding removes what is half-written."""


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated


def exit_code(error: BaseException) -> int:
    """Return the exit code of an exception."""
    if isinstance(error, Failure):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, Terminated):
        return TERMINATED
    if isinstance(error, FileFormatError):
        return INPUT
    if isinstance(error, OSError):
        return OUTPUT
    return REFUSED if isinstance(error, (ValueError, TypeError)) else DEFECT


def sentence(error: BaseException) -> str:
    """Return what an exception says, on one line."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted: nothing was written"
    if isinstance(error, Terminated):
        return "terminated: nothing was written"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this table"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}"
    text = " ".join(str(error).split())
    if exit_code(error) == DEFECT:
        kind = type(error).__name__
        return f"unexpected {kind}: {text} (run again with --debug and report it)"
    return text


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command end with one sentence and its exit code, or with a traceback under --debug."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _terminate)
        try:
            return command(*arguments, **options)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt, Terminated) as error:
            if options.get("debug"):
                raise
            code = exit_code(error)
            if options.get("as_json"):
                typer.echo(json.dumps({"error": sentence(error), "exit_code": code}))
            Console(quiet=False).error(sentence(error))
            raise typer.Exit(code) from None

    return run
