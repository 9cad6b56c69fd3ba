"""Standard errors of a sample of the rows against the truth, by simulation.

The transport is fitted on all n = 4000 rows, line means are taken for m of them. Ratios of the mean
standard error to the deviation of the scores over 300 samples; their Monte-Carlo error is .04.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dfi
from dfi._data import source

pytestmark = pytest.mark.slow

SAMPLES = 300
N = 4000
BETA = np.array([2.0, 1.0, 0.0, 0.0, 1.0])


def regression(X):
    return np.asarray(X)[:, :5].astype(float) @ BETA


def sample(generator, kind):
    correlation = 0.6 ** np.abs(np.subtract.outer(range(5), range(5)))
    X = generator.standard_normal((N, 5)) @ np.linalg.cholesky(correlation).T
    if kind == "skewed":
        X = np.exp(0.5 * X)
    y = X @ BETA + generator.standard_normal(N)
    if kind != "categories":
        return X, y
    frame = pd.DataFrame(X, columns=list("abcde"))
    near = X[:, 4] + generator.standard_normal(N) > 0.3
    frame["k"] = np.where(near, "u", np.where(generator.random(N) < 0.5, "v", "w"))
    return frame, y


@pytest.mark.parametrize("kind", ["normal", "skewed", "categories"])
@pytest.mark.parametrize("m", [200, 1000])
def test_errors_of_a_sample(monkeypatch, kind, m):
    monkeypatch.setattr(source, "LARGE_ROWS", 1000)
    generator = np.random.default_rng([m, len(kind)])
    scores, errors = [], []
    for _ in range(SAMPLES):
        X, y = sample(generator, kind)
        found = dfi.explain(X, y, regression, cv="prefit", explain_rows=m, diagnose=False)
        scores.append(found.scores)
        errors.append(found.se)
    ratio = np.mean(errors, axis=0) / np.std(scores, axis=0)
    print(f"{kind}, m = {m}: se / sd {np.round(ratio, 2)}")
    assert np.all(ratio > 0.85)
    assert np.all(ratio < 1.2)
