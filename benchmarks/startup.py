"""What it costs to start: importing, asking for help, and the first call of a process.

That call loads modules, and compiles kernels or loads them, on top of what the second one costs:
for a fitted forest, and for the default learner, which needs most kernels. Bytecode is on disk
beforehand, as in any installed package.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from measure import in_own_process

SKLEARN = "import sklearn.base, sklearn.linear_model"
PROGRAMS = {
    "an empty program": ["-c", "pass"],
    SKLEARN: ["-c", SKLEARN],
    "import dfi": ["-c", "import dfi"],
    "from dfi import explain, compare, sensitivity": [
        "-c", "from dfi import explain, compare, sensitivity",
    ],
    "dfi --help": ["-m", "dfi.cli", "--help"],
    "dfi explain --help": ["-m", "dfi.cli", "explain", "--help"],
}  # fmt: skip

LEARNERS = ("a fitted forest", "the default learner")


def imports(repeats: int = 5) -> dict[str, float]:
    """Return the CPU seconds of processes that only load, the least of a few tries."""

    def seconds(arguments: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return {
        name: min(seconds(arguments) for _ in range(repeats))
        for name, arguments in PROGRAMS.items()
    }


def first_call(name: str) -> tuple[float, float]:
    """Return wall and CPU seconds by which the first call exceeds the second."""
    import numpy as np
    from sklearn.ensemble import RandomForestRegressor

    import dfi

    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 6))
    y = X[:, 0] + X[:, 1]
    options = {}
    if name == LEARNERS[0]:
        forest = RandomForestRegressor(20, random_state=0).fit(X, y)
        options = {"estimator": forest, "cv": "prefit"}
    costs = []
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        dfi.explain(X, y, **options, diagnose=False, progress=False, n_jobs=1)
        costs.append((time.perf_counter() - wall, time.process_time() - cpu))
    return costs[0][0] - costs[1][0], costs[0][1] - costs[1][1]


def start_up(name: str) -> dict[str, tuple[float, float]]:
    """Return the seconds of the process that compiles and of one that comes later."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        return {
            "first of all (compiles)": in_own_process(partial(first_call, name)),
            "of a later process": in_own_process(partial(first_call, name)),
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as bytecode:
        os.environ["PYTHONPYCACHEPREFIX"] = bytecode
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for name, cpu in imports().items():
            print(f"{name}: {cpu:.2f} CPU s")
        for learner in LEARNERS:
            run = f"from startup import first_call; first_call({learner!r})"
            subprocess.run([sys.executable, "-c", run], cwd=Path(__file__).parent, check=True)
        for learner in LEARNERS:
            for name, (wall, cpu) in start_up(learner).items():
                print(f"{learner}, {name}: {wall:.2f} s, {cpu:.2f} CPU s more than the second call")
