"""Peak memory, measured in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("20000", "50"), ("3000", "50", "equal")],
    ids=["exact trees, 20,000 rows", "quadrature"],
)
def test_peak_memory_is_below_one_gigabyte_and_the_bar_moves(arguments):
    run = subprocess.run(  # noqa: S603
        [sys.executable, str(BENCHMARK), *arguments], capture_output=True, text=True, check=True
    )
    assert float(run.stdout) < 1000
    shown = re.findall(r"explaining rows: +(\d+)%", run.stderr)
    assert len(set(shown)) >= 3, run.stderr[-500:]
