"""Progress bars: how far a call is, how long it takes, what it waits for."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqdm.std import tqdm  # text everywhere: tqdm.auto asks for widgets in notebooks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfi._types import Advance

PATIENCE = 5.0
"""Calls shorter than this many seconds show no progress."""

_SHOWN: list[tqdm] = []

_EXPECTED: ContextVar[list[float] | None] = ContextVar("expected", default=None)
"""What the call is expected to take, in seconds: the last number is known best."""


@contextmanager
def expecting(seconds: float | None) -> Iterator[None]:
    """Let bars that begin meanwhile say how long the call takes, at once if that is long."""
    token = _EXPECTED.set([seconds or 0.0])
    try:
        yield
    finally:
        _EXPECTED.reset(token)


def is_watched() -> bool:
    """Return whether output is visible meanwhile, in a terminal or a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell.__class__.__name__ == "ZMQInteractiveShell" or sys.stderr.isatty()


def is_shown(progress: bool | None) -> bool:
    return is_watched() if progress is None else progress


@contextmanager
def progress_bar(
    progress: bool | None, label: str, total: int, started: float | None = None
) -> Iterator[Advance | None]:
    with telling_bar(progress, label, total, started) as bar:
        yield bar.advance


@dataclass(frozen=True)
class Bar:
    """A progress bar that can show how settled the answer is; hidden outside a terminal."""

    bar: tqdm | None
    since: float = 0.0

    @property
    def advance(self) -> Advance | None:
        return None if self.bar is None else self.bar.update

    def tell(self, text: str, total: int) -> None:
        if self.bar is not None:
            self.bar.total = total
            self.bar.set_postfix_str(text, refresh=time.monotonic() >= self.since)

    def foretell(self, seconds: float) -> None:
        if self.bar is None:
            return
        expected = _EXPECTED.get()
        if expected is not None:  # bars that follow know no better
            expected.append(seconds)
        if seconds >= PATIENCE:
            self.bar.delay = 0
        self.bar.set_postfix_str(_in_all(seconds), refresh=self.bar.delay == 0)


def _in_all(seconds: float) -> str:
    return f"about {spoken_time(seconds)} in all"


def spoken_time(seconds: float) -> str:
    """Return a rough time in one digit, or two above ten."""
    if seconds < 90:
        return f"{max(1.0, float(f'{seconds:.1g}')):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1g} h"


@contextmanager
def telling_bar(
    progress: bool | None, label: str, total: int, started: float | None = None
) -> Iterator[Bar]:
    """Yield a progress bar with a text that changes; parameters as :func:`progress_bar`."""
    if not is_shown(progress):
        yield Bar(None)
        return
    now, expected = time.monotonic(), (_EXPECTED.get() or [0.0])[-1]
    at_once = progress or expected >= PATIENCE
    since = now if at_once else PATIENCE + (now if started is None else started)
    wait = {"delay": since - now} if since > now else {}
    told = {"postfix": _in_all(expected)} if expected else {}
    with tqdm(total=total, desc=label, leave=False, **wait, **told) as bar:
        _SHOWN.append(bar)
        try:
            yield Bar(bar, since)
        finally:
            _SHOWN.remove(bar)


@contextmanager
def told_meanwhile(text: str) -> Iterator[bool]:
    """Show a text next to the current bar at once; yield whether there is one."""
    for bar in _SHOWN[-1:]:
        bar.delay, before = 0, bar.postfix
        bar.set_postfix_str(text)
        yield True
        bar.postfix = before
        return
    yield False
