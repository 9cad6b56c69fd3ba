"""Checks of every folder, in one wording each: numbers, choices, names."""

from __future__ import annotations

import difflib
import numbers
import unicodedata
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Name = TypeVar("Name", bound=str | None)


def whole(name: str, value: object, least: int) -> int:
    """Return a whole number, or raise by the parameter's name if it is none or below ``least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of {least} or more, got {value!r}")
    return int(value)


def one_of(name: str, value: object, known: Iterable[Name]) -> Name:
    """Return a choice, or raise with the list of those that exist and the one that is meant."""
    choices = tuple(known)
    for choice in choices:
        if choice == value:
            return choice
    *first, last = map(repr, choices)
    listed = f"{', '.join(first)} or {last}" if first else last
    raise ValueError(
        f"{name} must be {listed}, got {value!r}{did_you_mean(value, filter(None, choices))}"
    )


def did_you_mean(name: object, known: Iterable[str], most: int = 1) -> str:
    """Return ``"; did you mean 'x'?"`` with the names most like this one, empty if none is."""
    close = difflib.get_close_matches(str(name), list(known), n=most)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""


def printable(text: str, *, keep: str = "") -> str:
    """Return a text in which nothing steers a terminal or turns the order of letters.

    Control characters, marks of direction, lone surrogates and the like become U+FFFD, line ends
    and tabs blanks; those in ``keep`` stay.
    """
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
