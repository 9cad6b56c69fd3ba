"""Peak memory of one explanation: 20,000 rows, 50 columns, gradient boosting.

Run as a program it prints the peak resident memory of its own process in MiB:

    python benchmarks/memory.py [rows] [columns] [rule]
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import dfi


def explain_large(n_rows: int = 20_000, n_columns: int = 50, rule: str = "auto") -> dfi.Importance:
    """Explain a smooth function of correlated columns with cross-fitted boosting."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n_rows, n_columns))
    X += generator.standard_normal((n_rows, 1))
    y = X[:, 0] + np.sin(X[:, 1]) * X[:, 2] + generator.standard_normal(n_rows)
    learner = HistGradientBoostingRegressor(max_iter=100)
    return dfi.explain(X, y, learner, cv=2, integration=dfi.Quadrature(rule), progress=True)


def peak_mebibytes() -> float:
    """Return the largest resident size this process has had."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    start = time.perf_counter()
    sizes, rule = [int(size) for size in sys.argv[1:3]], sys.argv[3:4]
    result = explain_large(*sizes, *rule)
    print(result.diagnostics["lines"], file=sys.stderr)
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    print(f"{peak_mebibytes():.0f}")
