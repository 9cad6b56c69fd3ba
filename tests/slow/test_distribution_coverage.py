"""Coverage of the scores of a distribution, where one column moves the mean and one the spread.

y = x0 + exp(.5 x1) e; x2 and x3 carry nothing. The truth is a sum over a grid.
``python tests/slow/test_distribution_coverage.py`` prints it all.
"""

import warnings

import numpy as np
import pytest
from scipy.stats import norm

import dfi
from dfi._learners.quadratic import QuadraticRidge

pytestmark = pytest.mark.slow

SAMPLES, ROWS = 60, 800
"""Monte-Carlo error of a coverage of .90: .039, of a share of .05: .028."""

FIRST_SEED = 1000
"""The fit of the spread was chosen on the samples of seeds 0 to 59."""


def truth(levels):
    """Scores of x0 and x1 at quantiles of y, by quadrature over both."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(60)
    mass /= mass.sum()
    rng = np.random.default_rng(0)
    first, second, noise = rng.standard_normal((3, 400_000))
    thresholds = np.quantile(first + np.exp(0.5 * second) * noise, levels)
    found = []
    for threshold in thresholds:
        chance = norm.cdf((threshold - nodes[:, None]) / np.exp(0.5 * nodes))
        square = mass @ chance**2 @ mass
        found.append([square - mass @ (mass @ chance) ** 2, square - mass @ (chance @ mass) ** 2])
    return np.array(found)


def study():
    found = {"distribution": [], "quantile": [], "mean": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST_SEED, FIRST_SEED + SAMPLES):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((ROWS, 4))
            y = X[:, 0] + np.exp(0.5 * X[:, 1]) * rng.standard_normal(ROWS)
            targets = {"distribution": "distribution", "quantile": dfi.Quantile(0.9), "mean": None}
            for name, target in targets.items():
                result = dfi.explain(X, y, QuadraticRidge(), target=target, diagnose=False)
                found[name].append((result.scores, result.se))
    return {name: np.array(values) for name, values in found.items()}


def summary():
    told = {}
    truths = {
        "distribution": truth((np.arange(9) + 0.5) / 9).mean(axis=0),
        "quantile": truth([0.9])[0],
        "mean": np.array([1.0, 0.0]),
    }
    for name, values in study().items():
        estimate, se = values[:, 0], values[:, 1]
        both = truths[name]
        told[name] = {
            "truth": both,
            "mean": estimate.mean(axis=0),
            "coverage": (np.abs(estimate[:, :2] - both) < 1.645 * se[:, :2]).mean(axis=0),
            "rejected": (estimate > 1.645 * se).mean(axis=0),
            "error": se.mean(axis=0) / estimate.std(axis=0),
        }
    return told


def test_what_moves_the_spread_is_found_and_the_mean_does_not_see_it():
    told = summary()
    whole = told["distribution"]
    assert (whole["rejected"][:2] > 0.9).all()
    assert (whole["rejected"][2:] <= 0.07 + 0.05).all()  # and twice the error of a share of .05
    assert whole["coverage"][0] > 0.75
    assert whole["coverage"][1] > 0.7
    assert 0.85 < whole["mean"][1] / whole["truth"][1] < 1.1
    assert told["mean"]["rejected"][1] <= 0.07 + 0.05


if __name__ == "__main__":
    for name, numbers in summary().items():
        print(name, {key: np.round(value, 4) for key, value in numbers.items()})
