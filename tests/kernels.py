"""Compile the kernels of trees and hinges and keep them, before several workers ask for them."""

import warnings

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

import dfi

ROWS = 150


def main():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, 3))
    y = X @ [1.0, 0.5, 0.0] + rng.standard_normal(ROWS)
    two, three = y > 0, np.array(["low", "middle", "high"])[np.digitize(y, [-1, 1])]
    forest = RandomForestRegressor(3, max_leaf_nodes=8, random_state=0)
    boosting = GradientBoostingClassifier(n_estimators=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for outcome, estimator in ((y, forest), (two, boosting), (three, boosting)):
            for transport in ("gaussian", "copula"):
                dfi.explain(X, outcome, estimator, transport=transport, cv=2)
        for outcome in (y, two):
            dfi.explain(X, outcome, cv=2, n_repeats=1)


if __name__ == "__main__":
    main()
