"""Contributions of single rows: time against shap's TreeExplainer, in one run, as ratios.

    python benchmarks/local.py [--rows 1000] [--columns 20] [--trees 300]

One fitted LightGBM of 31 leaves on correlated columns, one thread each, CPU seconds, the best of
three. ``path`` is shap's path-dependent way, which asks about no background; ``interventional`` has
100 rows of background, to which shap cuts longer ones. ``dfi`` is ``result.local()`` with its 200
rows of background: line means, main effects, reading the trees and fitting the transport included.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import lightgbm
import numpy as np
import shap

import dfi


def seconds(call, times=3):
    found = []
    for _ in range(times):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--trees", type=int, default=300)
    parser.add_argument("--leaves", type=int, default=31)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    n, d = options.rows, options.columns
    X = np.sqrt(0.5) * (rng.standard_normal((n, d)) + rng.standard_normal((n, 1)))
    y = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(X[:, 3]) + 0.5 * rng.standard_normal(n)
    model = lightgbm.LGBMRegressor(
        n_estimators=options.trees, num_leaves=options.leaves, n_jobs=1, verbose=-1
    ).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = dfi.explain(
            X,
            y,
            model,
            cv="prefit",
            diagnose=False,
            transport_error="ignore",
            progress=False,
            n_jobs=1,
        )
        result.local([0])  # compiled
        own = seconds(result.local)
        path = seconds(lambda: shap.TreeExplainer(model).shap_values(X))
        given = shap.TreeExplainer(model, X[:100], feature_perturbation="interventional")
        interventional = seconds(lambda: given.shap_values(X), times=1)
    print(
        json.dumps(
            {
                "rows": n,
                "columns": d,
                "trees": options.trees,
                "leaves": options.leaves,
                "dfi_seconds": round(own, 3),
                "path_over_dfi": round(path / own, 2),
                "interventional_over_dfi": round(interventional / own, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
