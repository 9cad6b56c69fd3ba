"""Intervals of joint scores cover: eight units in 20 columns, 1000 rows, nominal 90 %.

Asked of every unit, latent and attributed, is .86 to .94; the Monte-Carlo error of 200 samples is
.021, and a unit passes within two of it. The mean over units must lie in the range itself.
"""

import warnings

import numpy as np
import pytest
from scipy.linalg import block_diag
from sklearn.linear_model import LinearRegression, RidgeCV

import dfi

pytestmark = pytest.mark.slow

SIZES = (1, 1, 2, 2, 3, 3, 4, 4)
PLACES = np.split(np.arange(20), np.cumsum(SIZES)[:-1])
GROUPS = {f"g{b}": [f"x{k}" for k in place] for b, place in enumerate(PLACES)}
ROWS, SAMPLES, NOMINAL = 1000, 200, 0.9
LOWEST, HIGHEST = 0.86, 0.94


def population():
    """Return the covariance (three shared factors, dependence within units) and the slopes."""
    rng = np.random.default_rng(20)
    shared = rng.normal(scale=0.5, size=(20, 3))
    within = block_diag(*(rng.normal(scale=0.6, size=(s, s)) for s in SIZES))
    covariance = shared @ shared.T + within @ within.T + 0.5 * np.eye(20)
    scale = 1.0 / np.sqrt(np.diag(covariance))
    slopes = rng.normal(size=20) * np.repeat([0.5, 0.3, 0.5, 0.2, 0.4, 0.1, 0.3, 0.0], SIZES)
    return covariance * np.outer(scale, scale), slopes


def power(matrix, exponent):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


def truths(correlation, slopes):
    """Return |gamma_b|^2, and the sum over b of that times the R2 of gamma_b'z_b on X_a."""
    within = block_diag(*(correlation[np.ix_(p, p)] for p in PLACES))
    half = power(within, -0.5)
    root = power(half @ correlation @ half, 0.5)
    gamma = root @ power(within, 0.5) @ slopes
    latent = np.array([gamma[p] @ gamma[p] for p in PLACES])
    attributed = np.array(
        [sum(np.sum((root[np.ix_(a, b)] @ gamma[b]) ** 2) for b in PLACES) for a in PLACES]
    )
    return latent, attributed


def learner(kind, slopes):
    if kind == "ridge":
        return RidgeCV(np.logspace(-2, 3, 11))
    if kind == "callable":
        return lambda table: np.asarray(table) @ slopes
    model = LinearRegression()
    model.coef_, model.intercept_ = slopes, 0.0
    model.n_features_in_ = len(slopes)
    return model


def simulate(kind, samples=SAMPLES, form="auto", seed=1, **options):
    correlation, slopes = population()
    root = np.linalg.cholesky(correlation)
    truth = np.stack(truths(correlation, slopes))
    found, errors, covered = [], [], []
    for sample in range(samples):
        rng = np.random.default_rng([seed, sample])
        X = rng.normal(size=(ROWS, 20)) @ root.T
        y = X @ slopes + rng.normal(size=ROWS)
        cv = {"cv": 5, "n_repeats": 1} if kind == "ridge" else {"cv": "prefit"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = dfi.explain(
                X, y, learner(kind, slopes), feature_groups=GROUPS, units="groups", form=form,
                diagnose=False, random_state=sample, n_jobs=1, **cv, **options,
            )  # fmt: skip
        both = [result.latent, result]
        limits = [r.interval(NOMINAL)[["ci_low", "ci_high"]].to_numpy() for r in both]
        low, high = np.moveaxis(np.stack(limits), 2, 0)
        found.append([r.scores for r in both])
        errors.append([r.se for r in both])
        covered.append((low <= truth) & (truth <= high))
    return truth, np.array(found), np.array(errors), np.array(covered)


@pytest.mark.parametrize("kind", ["linear", "callable", "ridge"])
def test_coverage_of_joint_scores(kind):
    truth, found, errors, covered = simulate(kind)
    slack = 2 * np.sqrt(NOMINAL * (1 - NOMINAL) / SAMPLES)
    for k, space in enumerate(("latent", "attributed")):
        spread, share = found[:, k].std(axis=0), covered[:, k].mean(axis=0)
        print(f"{kind}, {space}: truth {truth[k].round(3)}")
        print(f"bias / sd {((found[:, k].mean(axis=0) - truth[k]) / spread).round(2)}")
        print(f"se / sd {(errors[:, k].mean(axis=0) / spread).round(2)}")
        print(f"coverage {share.round(3)}, mean {share.mean():.3f}", flush=True)
        assert (share >= LOWEST - slack).all()
        assert (share <= HIGHEST + slack).all()
        assert LOWEST <= share.mean() <= HIGHEST
