"""Coverage of the scores of censored times, beside those of the times themselves.

Weibull times of two of five columns; censoring by one that carries signal and one that carries
none. The truth is a sum over a grid. ``python tests/slow/test_survival_coverage.py`` prints it all.
"""

import warnings

import numpy as np
import pytest

import dfi
from dfi._learners.quadratic import QuadraticRidge

pytestmark = pytest.mark.slow

SAMPLES, ROWS, HORIZON = 100, 600, 2.0
"""Monte-Carlo error of a coverage of .90: .03."""

CORRELATION = np.eye(5)
CORRELATION[0, 1] = CORRELATION[1, 0] = CORRELATION[2, 3] = CORRELATION[3, 2] = 0.5
SLOPES = np.array([0.5, 0.0, -0.3, 0.0, 0.0])


def truth():
    """Attributed scores of E[min(T, horizon) | x], a function of one sum of columns."""
    values, vectors = np.linalg.eigh(CORRELATION)
    root = (vectors * np.sqrt(values)) @ vectors.T
    slopes = SLOPES @ root
    time, places = np.linspace(0.0, HORIZON, 2001), np.linspace(-4.0, 4.6, 400)
    curves = np.exp(-((time / np.exp(places[:, None])) ** 1.25))
    heights = np.trapezoid(curves, time, axis=1)
    nodes, mass = np.polynomial.hermite_e.hermegauss(40)
    mass /= mass.sum()
    latent = []
    for one in slopes:
        rest = np.sqrt(max(slopes @ slopes - one**2, 0.0))
        mean = np.interp(0.3 + rest * nodes[:, None] + one * nodes, places, heights)
        latent.append(mass @ (mean**2 @ mass - (mean @ mass) ** 2))
    return root**2 @ latent


def sample(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, 5)) @ np.linalg.cholesky(CORRELATION).T
    time = rng.exponential(size=ROWS) ** 0.8 * np.exp(X @ SLOPES + 0.3)
    end = 3.0 * rng.exponential(size=ROWS) * np.exp(0.4 * X[:, 0] + 0.5 * X[:, 4])
    return X, time, end


def study():
    found = {"whole": [], "censored": []}
    options = {"estimator": QuadraticRidge(), "diagnose": False, "level": 0.9}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(SAMPLES):
            X, time, end = sample(seed)
            y = np.array(
                list(zip(time <= end, np.minimum(time, end), strict=True)),
                dtype=[("event", bool), ("time", float)],
            )
            whole = dfi.explain(X, np.minimum(time, HORIZON), **options)
            censored = dfi.explain(X, y, horizon=HORIZON, **options)
            for name, result in (("whole", whole), ("censored", censored)):
                found[name].append((result.scores, result.se))
    return {name: np.array(values) for name, values in found.items()}


def summary():
    scores = truth()
    told = {}
    for name, values in study().items():
        estimate, se = values[:, 0], values[:, 1]
        told[name] = {
            "ratio": estimate.mean(axis=0)[:4] / scores[:4],
            "coverage": (np.abs(estimate - scores) < 1.645 * se).mean(axis=0),
            "rejected": (estimate > 1.645 * se).mean(axis=0)[4],
        }
    return told


def test_censored_rows_do_as_well_as_whole_ones():
    told = summary()
    whole, censored = told["whole"], told["censored"]
    assert censored["rejected"] <= 0.07 + 0.04  # and twice the error of a share of .05
    assert np.abs(censored["ratio"] - whole["ratio"]).max() < 0.06
    assert (censored["coverage"] > whole["coverage"] - 0.09).all()


if __name__ == "__main__":
    for name, numbers in summary().items():
        print(name, {key: np.round(value, 3) for key, value in numbers.items()})
