"""Progress bars, only where somebody looks."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tqdm.auto import tqdm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfi._types import Advance


@contextmanager
def progress_bar(progress: bool | None, label: str, total: int) -> Iterator[Advance | None]:
    """Yield the advance of a progress bar, or None where none is wanted.

    Bars are shown where the user asks for them, and by default at a terminal only.
    """
    shown = sys.stderr.isatty() if progress is None else progress
    if not shown:
        yield None
        return
    with tqdm(total=total, desc=label, leave=False) as bar:
        yield bar.update
