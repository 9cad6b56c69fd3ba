"""Words for every folder: the nearest name for a typo, text that steers no terminal."""

from __future__ import annotations

import difflib
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str], most: int = 1) -> str:
    """Return ``"; did you mean 'x'?"`` with the names most like this one, empty if none is."""
    close = difflib.get_close_matches(str(name), list(known), n=most)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""


def printable(text: str, *, keep: str = "") -> str:
    """Return a text without control characters or marks that change its direction."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter in keep or not _steers(letter) else " " if letter.isspace() else "\ufffd"
        for letter in text
    )


def _steers(letter: str) -> bool:
    # the two joiners are letters' own business: without them words and emoji fall apart
    return letter not in "\u200c\u200d" and (
        unicodedata.category(letter)[0] == "C" or letter in "\u2028\u2029"
    )
