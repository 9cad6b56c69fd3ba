"""LOCO, CPI and PFI side by side with hidimstat, in CPU seconds of one run.

Model M1, n = 2000, a forest of 500 trees, the same two folds and the same fitted full models for
both. ``python benchmarks/comparators.py [n] [trees] [permutations]``
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi.comparators import CPI, LOCO, PFI

if TYPE_CHECKING:
    from collections.abc import Callable


def cpu_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a call and its value."""
    start = time.process_time()
    value = run()
    return time.process_time() - start, value


def hidimstat_runs(
    X: np.ndarray, y: np.ndarray, folds: Any, models: list[Any], permutations: int
) -> dict[str, Callable[[], np.ndarray]]:
    """Return hidimstat's three methods over the folds, full models already fitted."""
    import hidimstat

    def over_folds(make: Callable[[Any], Any]) -> np.ndarray:
        total = np.zeros(X.shape[1])
        for fold, model in zip(folds, models, strict=True):
            method = make(model)
            method.fit(X[fold.train], y[fold.train])
            total += len(fold.test) / len(y) * method.importance(X[fold.test], y[fold.test])
        return total

    return {
        "loco": lambda: over_folds(hidimstat.LOCO),
        "cpi": lambda: over_folds(
            lambda model: hidimstat.CFI(
                model,
                imputation_model_continuous=LinearRegression(),
                n_permutations=permutations,
                random_state=0,
            )
        ),
        "pfi": lambda: over_folds(
            lambda model: hidimstat.PFI(model, n_permutations=permutations, random_state=0)
        ),
    }


def main(n: int = 2000, trees: int = 500, permutations: int = 50) -> None:
    """Run both packages once and print a table."""
    sample = dfi.datasets.m1(n, rho=0.8)
    forest = RandomForestRegressor(trees, min_samples_leaf=5, random_state=0)
    context = dfi.comparators.prepare(sample.X, sample.y, estimator=forest, cv=2)
    seconds, _ = cpu_seconds(lambda: context.predictions)
    print(f"M1, n = {n}, forest of {trees}; reading the full models: {seconds:.1f} CPU s")
    ours = {
        "loco": LOCO(),
        "cpi": CPI(
            n_permutations=permutations, covariate_estimator=LinearRegression(), debias=False
        ),
        "pfi": PFI(n_permutations=permutations, debias=False),
    }
    models = [clone(forest).fit(sample.X[f.train], sample.y[f.train]) for f in context.folds]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = hidimstat_runs(sample.X, sample.y, context.folds, models, permutations)
        print(f"{'method':8s} {'dfi':>9s} {'hidimstat':>10s} {'ratio':>7s}   X1: dfi, hidimstat")
        for name, method in ours.items():
            mine, parts = cpu_seconds(lambda method=method: method.compute(context))  # type: ignore[misc]
            other, peer = cpu_seconds(theirs[name])
            score = parts[name].influence.mean(axis=0)[0] * (2.0 if name == "cpi" else 1.0)
            print(
                f"{name:8s} {mine:9.1f} {other:10.1f} {mine / other:7.2f}   "
                f"{score:.2f}, {peer[0]:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
