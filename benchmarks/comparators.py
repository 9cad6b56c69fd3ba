"""LOCO, CPI and PFI side by side with hidimstat, in CPU seconds of one run.

Model M1, n = 2000, a forest of 500 trees, the same two folds and full models that are already
fitted for both. The two packages take turns; medians of the repeats are compared.
``python benchmarks/comparators.py [n] [trees] [permutations] [repeats]``
"""

from __future__ import annotations

import dataclasses
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi._models.fits import Cache
from dfi.methods import CPI, LOCO, PFI

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfi.methods import Fits, Method


def cpu_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a call and its value."""
    start = time.process_time()
    value = run()
    return time.process_time() - start, value


def our_run(fits: Fits, method: Method) -> np.ndarray:
    """Return our scores; nothing but the fitted models is kept from earlier runs."""
    fresh = dataclasses.replace(fits, cache=Cache(full=fits.full))
    return method.compute(fresh)[method.name].influence.mean(axis=0)


def hidimstat_run(fits: Fits, make: Callable[[Any], Any]) -> np.ndarray:
    """Return hidimstat's scores over the folds, with the same fitted full models."""
    X, y = fits.table.matrix, fits.outcome.values
    total = np.zeros(X.shape[1])
    for fold, models in zip(fits.folds, fits.full, strict=True):
        method = make(models.predictors[0].model)
        method.fit(X[fold.train], y[fold.train])
        total += len(fold.test) / len(y) * method.importance(X[fold.test], y[fold.test])
    return total


def main(n: int = 2000, trees: int = 500, permutations: int = 50, repeats: int = 3) -> None:
    """Let both packages take turns and print a table."""
    import hidimstat

    sample = dfi.datasets.m1(n, rho=0.8)
    forest = RandomForestRegressor(trees, min_samples_leaf=5, random_state=0)
    fits = dfi.methods.prepare(sample.X, sample.y, estimator=forest, cv=2)
    _ = fits.full  # fitted before any clock runs
    linear = LinearRegression()
    draws = {"n_permutations": permutations, "random_state": 0}
    pairs: dict[str, tuple[Method, Callable[[Any], Any]]] = {
        "pfi": (
            PFI(n_permutations=permutations, debias=False),
            lambda model: hidimstat.PFI(model, **draws),
        ),
        "cpi": (
            CPI(n_permutations=permutations, covariate_estimator=linear, debias=False),
            lambda model: hidimstat.CFI(model, imputation_model_continuous=linear, **draws),
        ),
        "loco": (LOCO(), hidimstat.LOCO),
    }
    # compiled once per machine
    our_run(dfi.methods.prepare(sample.X[:60], sample.y[:60], estimator=forest, cv=2), PFI())
    print(f"M1, n = {n}, forest of {trees}, CPU seconds, median of {repeats} (all)")
    print("| method | dfi | hidimstat | ratio | X1: dfi, hidimstat |\n|---|---|---|---|---|")
    for name, (method, make) in pairs.items():
        mine, theirs = [], []
        for _ in range(repeats):
            seconds, ours = cpu_seconds(lambda method=method: our_run(fits, method))  # type: ignore[misc]
            mine.append(seconds)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds, peer = cpu_seconds(lambda make=make: hidimstat_run(fits, make))  # type: ignore[misc]
            theirs.append(seconds)
        middle = np.median(mine), np.median(theirs)
        # their conditional importance leaves out the factor 1/2
        score = ours[0] * (2.0 if name == "cpi" else 1.0)
        shown = [f"{m:.1f} ({', '.join(f'{v:.1f}' for v in all_)})" for m, all_ in zip(middle, (mine, theirs), strict=True)]  # fmt: skip
        print(
            f"| `{name}` | {shown[0]} | {shown[1]} | {middle[0] / middle[1]:.3f} | "
            f"{score:.2f}, {peer[0]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
