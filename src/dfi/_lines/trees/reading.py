"""What the readers share: how a model says that it cannot be followed."""

from __future__ import annotations


class Unreadable(Exception):
    """A model made of trees that is not followed exactly; the message says why."""


class NotTrees(Exception):
    """A model that is not made of trees at all: nothing to warn about."""


def require(condition: object, reason: str) -> None:
    """Give up on a model, with the reason, unless the condition holds."""
    if not condition:
        raise Unreadable(reason)
