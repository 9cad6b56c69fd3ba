"""CPU seconds and peak memory of a call, measured in this process or in one of its own."""

from __future__ import annotations

import multiprocessing
import resource
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE_SIZE = resource.getpagesize()


@dataclass(frozen=True)
class Cost:
    """What a call cost; ``value`` is what it returned."""

    cpu: float
    value: Any


def cpu(function: Callable[[], Any]) -> Cost:
    """Return the CPU seconds of a call, threads included."""
    start = time.process_time()
    value = function()
    return Cost(time.process_time() - start, value)


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_SIZE


def peak_growth(function: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return CPU seconds, growth of the resident memory at its peak in GB, and the value."""
    start, top, running = resident(), [0], [True]

    def watch() -> None:
        while running[0]:
            top[0] = max(top[0], resident())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    cost = cpu(function)
    running[0] = False
    watcher.join()
    return cost.cpu, max(0, top[0] - start) / 1e9, cost.value


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a call in a fresh process, so that nothing is warm and memory starts small."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(function, arguments)
