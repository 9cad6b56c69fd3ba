"""Coverage and size where rows depend on each other: in clusters, and along time.

Three features with correlation .5 and slopes 2, 1 and 0, a null feature that depends on nothing,
and an error, each with the same dependence between rows: 50 clusters of 10 rows that share half of
the variance, or 500 rows of an AR(.7) series. The truth is closed: with S the root of the
correlation matrix, the latent scores are (S b)^2, the attributed ones S^2 (elementwise) times
these.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit

import dfi
from dfi.inference.influence import InfluenceRows

pytestmark = pytest.mark.slow

SAMPLES = 200
"""Monte-Carlo error of a coverage of .85: .025; of a size of .05: .015."""

SLOPES = np.array([2.0, 1.0, 0.0, 0.0])
CORRELATION = np.eye(4)
CORRELATION[:3, :3] += 0.5 * (1.0 - np.eye(3))
LABELS = np.repeat(np.arange(50), 10)


def truth():
    values, vectors = np.linalg.eigh(CORRELATION)
    root = (vectors * np.sqrt(values)) @ vectors.T
    return root**2 @ (root @ SLOPES) ** 2


def in_clusters(rng):
    shared, own = rng.standard_normal((50, 5))[LABELS], rng.standard_normal((500, 5))
    return np.sqrt(0.5) * (shared + own)


def in_time(rng):
    values = rng.standard_normal((500, 5))
    for t in range(1, 500):
        values[t] = 0.7 * values[t - 1] + np.sqrt(1 - 0.7**2) * values[t]
    return values


def rates(draw, samples=SAMPLES, **options):
    """Return coverage of 90 % intervals (three features) and size at 5 % (the null one).

    Also the same with the errors of independent rows.
    """
    covered, rejected = [], []
    root = np.linalg.cholesky(CORRELATION)
    for seed in range(samples):
        values = draw(np.random.default_rng(seed))
        X = values[:, :4] @ root.T
        result = dfi.explain(
            X,
            X @ SLOPES + values[:, 4],
            "linear",
            # every feature is given a score, also those that tests of dependence would set to 0
            transport=dfi.transports.Gaussian(components=None),
            level=0.9,
            random_state=seed,
            diagnose=False,
            **options,
        )
        weights = replace(result.weights, dependence=None)
        plain = replace(result, basis=InfluenceRows(result.influence, weights))
        both = [r.interval() for r in (result, plain)]
        covered.append([(i["ci_low"] <= truth()) & (truth() <= i["ci_high"]) for i in both])
        rejected.append([r.test(adjust="none")["p"][3] <= 0.05 for r in (result, plain)])
    return np.mean(covered, axis=0)[:, :3], np.mean(rejected, axis=0)


def test_clusters_are_covered():
    (coverage, unaware), (size, _) = rates(in_clusters, clusters=LABELS)
    assert coverage.min() >= 0.83
    assert size <= 0.07
    assert unaware.max() < 0.75  # what the errors of independent rows do


def test_series_are_covered():
    (coverage, unaware), (size, _) = rates(in_time, cv=TimeSeriesSplit(5))
    assert coverage.min() >= 0.80
    assert size <= 0.07
    assert unaware.max() < coverage.min()
