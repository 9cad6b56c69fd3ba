"""Settings shared by all tests, and processes that are waited for and never outlive their test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Two cores, several workers: threads inside numpy would only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that starts tests in the background has Ctrl-C ignored, and Python with it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "quick",
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what needs a browser to ``make test-full``: it starts slowly, and not everywhere."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.full)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start commands in sessions of their own; what is left of them at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start_command(command: list[str], **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        started.append(process)
        return process

    yield start_command
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object], subprocess.Popen[str]], None]:
    """Wait for a sign of a process, or for its end: never for a time of its own.

    How long a process takes to import and to compute says nothing on a machine that has other
    work; the limit of the whole test, which pytest knows, is the only one.
    """

    def wait(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
        while not condition():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.01)

    return wait
