"""The share of false discoveries among those selected is at most alpha on average."""

import warnings

import numpy as np
import pytest

import dfi

pytestmark = pytest.mark.slow

ALPHA, SAMPLES, N, D, SIGNALS = 0.1, 200, 400, 16, 5


@pytest.mark.parametrize(("method", "adjust"), [("pcm", "bh"), ("pcm", "by"), ("loco", "bh")])
def test_false_discoveries_are_controlled(method, adjust):
    correlation = 0.5 ** np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
    root = np.linalg.cholesky(correlation)
    false, found = [], []
    for seed in range(SAMPLES):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(N, D)) @ root.T
        # signals stand among nulls that they are correlated with
        slopes = np.zeros(D)
        slopes[:: D // SIGNALS][:SIGNALS] = 0.4
        y = X @ slopes + generator.normal(size=N)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen = dfi.select(
                X, y, method, estimator="linear", alpha=ALPHA, adjust=adjust, random_state=seed
            ).selected
        places = np.array([int(name[1:]) for name in chosen], dtype=int)
        false.append(np.mean(slopes[places] == 0.0) if len(places) else 0.0)
        found.append(np.mean(np.isin(np.flatnonzero(slopes), places)))
    rate, error = np.mean(false), np.std(false, ddof=1) / np.sqrt(SAMPLES)
    print(
        f"{method}, {adjust}: false discoveries {rate:.3f} (Monte-Carlo error {error:.3f}), "
        f"signals found {np.mean(found):.2f}"
    )
    assert rate <= ALPHA + 2.0 * error
    assert np.mean(found) > 0.3
