"""Coverage of the scores of treatment effects, by doubly robust pseudo-outcomes and by a plug-in.

Five correlated features, effects that are linear or have an interaction and a square, and nuisances
that are right, or of which one is wrong: a straight line for a quadratic outcome, or a constant for
the propensity. The truths are closed forms.
"""

import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import dfi

pytestmark = pytest.mark.slow

SAMPLES, ROWS, D = 200, 1000, 5
"""Monte-Carlo error of a coverage of .90: .021."""

CORRELATION = 0.5 ** np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
STRAIGHT = np.array([1.0, 0.6, 0.0, 0.0, 0.0])
NONE = np.zeros((D, D))
BENT = np.zeros((D, D))
BENT[0, 1] = BENT[1, 0] = BENT[3, 3] = 0.4


def quadratic():
    return make_pipeline(PolynomialFeatures(2, include_bias=False), LinearRegression())


CASES = {
    "linear": (STRAIGHT, NONE, False, "linear", "linear"),
    "nonlinear": (np.array([0.8, 0.0, 0.0, 0.0, 0.0]), BENT, False, quadratic(), "linear"),
    "outcome wrong": (STRAIGHT, NONE, True, "linear", "linear"),
    "propensity wrong": (STRAIGHT, NONE, False, "linear", None),
}
"""Slopes and curvature of the effect, whether outcomes are curved, outcome model, propensity."""


def truth(slopes, curvature):
    """Latent and attributed scores of a quadratic effect of Gaussian features."""
    values, vectors = np.linalg.eigh(CORRELATION)
    root = (vectors * np.sqrt(values)) @ vectors.T
    g, H = root @ slopes, root @ curvature @ root
    off = H - np.diag(np.diag(H))
    latent = g**2 + 4.0 * (off**2).sum(axis=1) + 2.0 * np.diag(H) ** 2
    return latent, root**2 @ latent


def sample(slopes, curvature, curved, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, D)) @ np.linalg.cholesky(CORRELATION).T
    arm = rng.random(ROWS) < expit(0.5 * X[:, 0] - 0.5 * X[:, 2])
    effect = 1.0 + X @ slopes + np.einsum("ia,ab,ib->i", X, curvature, X)
    base = X[:, 0] + 0.5 * X[:, 2] + curved * 0.5 * (X[:, 0] ** 2 - 1.0)
    return X, arm, base + arm * effect + rng.standard_normal(ROWS)


def plug_in(X, y, arm, model, seed):
    """Explain the difference of two regressions: what effects refuses."""
    fold = np.random.default_rng(seed).permutation(ROWS) % 5
    values = np.zeros(ROWS)
    for k in range(5):
        test, train = fold == k, fold != k
        for side, sign in ((True, 1.0), (False, -1.0)):
            rows = train & (arm == side)
            fitted = model.fit(X[rows], y[rows])
            values[test] += sign * fitted.predict(X[test])
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    return dfi.explain(
        X, values, model, cv=splits, form="cross", diagnose=False, random_state=seed, level=0.9
    )


def coverage(name, samples=SAMPLES):
    """Return how often 90 % intervals cover, and the mean scores, by way and space."""
    slopes, curvature, curved, model, propensity = CASES[name]
    truths = truth(slopes, curvature)
    covered = np.zeros((2, 2, D))
    means = np.zeros((2, 2, D))
    for seed in range(samples):
        X, arm, y = sample(slopes, curvature, curved, [17, seed])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dfi.warnings.DFIWarning)
            ways = (
                dfi.effects(
                    X, y, arm, model, outcome_model=model,
                    propensity_model=float(arm.mean()) if propensity is None else propensity,
                    diagnose=False, random_state=seed, level=0.9,
                ),
                plug_in(
                    X, y, arm, LinearRegression() if model == "linear" else quadratic(), seed
                ),
            )  # fmt: skip
        for way, found in enumerate(ways):
            for space, result in enumerate((found.latent, found)):
                interval = result.interval()
                low, high = interval["ci_low"].to_numpy(), interval["ci_high"].to_numpy()
                covered[way, space] += (low <= truths[space]) & (truths[space] <= high)
                means[way, space] += result.scores
    return covered / samples, means / samples, truths


@pytest.mark.parametrize("name", CASES)
def test_intervals_of_effects_cover_and_those_of_a_plug_in_do_not(name):
    """The bound is .80, less one Monte-Carlo error of so many samples.

    Seen: .82 to .91 (linear), .86 to .90 (nonlinear), .83 to .94 (outcome wrong), .795 to .91
    (propensity wrong; attributed scores .82 to .91); plug-in .00 to .67. The .795 is of a latent
    score of .009, and in 600 samples it is .795 too (Monte-Carlo error .016): not above .80.
    """
    covered, _, _ = coverage(name)
    robust, plugged = covered
    assert robust.min() >= 0.80 - 0.03
    assert robust[1].min() >= 0.80
    assert plugged.min() <= 0.75
