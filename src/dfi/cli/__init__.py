"""The command line: explain, doctor, compare, sensitivity, show, report, demo, reproduce.

Modules that ``dfi --help`` loads import no library of numbers: the commands do, when they run.
"""

from __future__ import annotations

import codecs
import gc
import importlib.util
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

NEEDED = ("typer", "rich", "polars", "pyarrow")
INSTALL = "in a clone of the repository run pip install '.[cli]'"
CODES = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}
PLAIN = {
    "\u2212": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u00d7": "x",
    "\u2026": "...",
    "\u2265": ">=",
}
"""Replacements for characters that a terminal lacks: a minus must not get lost."""
_IMPORTS = "<frozen importlib._bootstrap>"


def main() -> None:
    """Run the command line; say what to install if the extra is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(f"dfi: the command line needs {', '.join(missing)}: {INSTALL}\n")
        raise SystemExit(1)
    if threading.current_thread() is threading.main_thread():
        for number in CODES:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _answer)
    codecs.register_error("dfi-plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        # a name that the terminal cannot write is no reason to fail after all work is done
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="surrogateescape" if stream.encoding == "utf-8" else "dfi-plain"
            )
    from dfi.cli.app import app

    try:
        app(prog_name="dfi")
    finally:
        # The interpreter would look for garbage in all modules before it ends, as long as a small
        # fit takes; what is still open is closed by exit handlers all the same.
        gc.freeze()
        if threading.current_thread() is threading.main_thread():
            for number in CODES:
                signal.signal(number, _leave)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(PLAIN.get(mark, mark) for mark in error.object[error.start : error.end])
    return text.encode("ascii", "backslashreplace").decode(), error.end


def _answer(number: int, frame: FrameType | None) -> None:
    """Answer a signal by an exception, or at once where that would break an import."""
    from dfi._files import is_busy

    while frame is not None and frame.f_code.co_filename != _IMPORTS:
        frame = frame.f_back
    if not is_busy(importing=frame is not None):
        code, how = CODES[signal.Signals(number)]
        os.write(2, f"dfi: {how}: nothing was written\n".encode())
        os._exit(code)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    from dfi.cli.console import Terminated

    raise Terminated


def _leave(number: int, _frame: FrameType | None) -> None:
    """End a process that has done its work and is tidying up."""
    os._exit(CODES[signal.Signals(number)][0])
