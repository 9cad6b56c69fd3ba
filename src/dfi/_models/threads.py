"""The thread pools of the process."""

from __future__ import annotations

from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def thread_pools() -> ThreadpoolController:
    """Return the process's thread pools; looking them up takes longer than a small fit."""
    return ThreadpoolController()
