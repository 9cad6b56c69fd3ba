"""Checks and habits of every folder, in one wording each: numbers, names, files written whole."""

from __future__ import annotations

import difflib
import numbers
import os
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Choice = TypeVar("Choice", bound=str | None)


def whole(name: str, value: object, least: int) -> int:
    """Return a whole number, or raise by the parameter's name if it is none or below ``least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of {least} or more, got {value!r}")
    return int(value)


def one_of(name: str, value: object, known: Iterable[Choice]) -> Choice:
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


def writable(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Return a path that may be written, or raise before any work is done."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already; pass overwrite=True to replace it")
    return target


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a stream whose content takes the place of a file when all of it is on disk.

    It is written under a temporary name in the same folder, flushed and moved into place, so that
    a reader never meets half a file, and a failure leaves what was there before and nothing else.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError as error:
        # a full disk does not say which file it has no room for
        error.filename = str(target)
        raise
    finally:
        temporary.unlink(missing_ok=True)
