"""What the first exact call of a process costs on top of the second: compiling, or loading."""

from __future__ import annotations

import os
import tempfile
import time

from measure import in_own_process


def first_call() -> tuple[float, float]:
    """Return wall and CPU seconds by which the first call exceeds the second."""
    import numpy as np
    from sklearn.ensemble import RandomForestRegressor

    import dfi

    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 6))
    y = X[:, 0] + X[:, 1]
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    costs = []
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        dfi.explain(X, y, estimator=forest, cv="prefit", diagnose=False, progress=False)
        costs.append((time.perf_counter() - wall, time.process_time() - cpu))
    return costs[0][0] - costs[1][0], costs[0][1] - costs[1][1]


def start_up() -> dict[str, tuple[float, float]]:
    """Return the seconds of the process that compiles and of one that comes later."""
    before = os.environ.get("NUMBA_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        try:
            return {
                "first of all (compiles)": in_own_process(first_call),
                "of a later process": in_own_process(first_call),
            }
        finally:
            if before is None:
                del os.environ["NUMBA_CACHE_DIR"]
            else:
                os.environ["NUMBA_CACHE_DIR"] = before


if __name__ == "__main__":
    for name, (wall, cpu) in start_up().items():
        print(f"{name}: {wall:.2f} s, {cpu:.2f} CPU s more than the second call")
