"""Coverage of pairs and splits with known values, and how often pairs that are none are found."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import dfi
from dfi._learners.quadratic import QuadraticRidge

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")]

N, LEVEL, BAR = 1000, 0.9, 0.85
CORRELATION = np.array([[1, 0.6, 0, 0], [0.6, 1, 0.3, 0], [0, 0.3, 1, 0.4], [0, 0, 0.4, 1.0]])
PAIRS = list(combinations(range(4), 2))


def _root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values)) @ vectors.T


def _truth(quadratic):
    """Return attributed pairs beyond additive of x'Bx under a normal law, in closed form.

    Its projection on functions of single features is x'diag(c)x, as products of normal variables
    have no part in higher powers of one of them.
    """
    crossed = quadratic - np.diag(np.diag(quadratic))
    own = np.array([row @ crossed @ row for row in CORRELATION])
    left = crossed - np.diag(np.linalg.solve(CORRELATION**2, own))
    root = _root(CORRELATION)
    psi = 4.0 * (root @ left @ root) ** 2
    np.fill_diagonal(psi, 0.0)
    weights = root**2
    return weights @ psi @ weights.T


def _sample(seed, quadratic):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((N, 4)) @ _root(CORRELATION)
    mean = X @ [1.0, 0.0, 0.5, 0.0] + np.einsum("ni,ij,nj->n", X, quadratic, X)
    return X, mean + generator.standard_normal(N)


def _covered(learner, quadratic, samples):
    truth = _truth(quadratic)
    inside, rejected = np.zeros((2, samples, len(PAIRS)))
    for seed in range(samples):
        result = dfi.explain(*_sample(seed, quadratic), learner, level=LEVEL, diagnose=False,
                             random_state=seed)  # fmt: skip
        found = result.interactions()
        for at, (j, k) in enumerate(PAIRS):
            estimate = found[f"x{j}", f"x{k}"]
            inside[seed, at] = estimate.ci_low <= truth[j, k] <= estimate.ci_high
            rejected[seed, at] = estimate.p < 0.05
    return np.array([truth[pair] for pair in PAIRS]), inside.mean(axis=0), rejected.mean(axis=0)


@pytest.mark.parametrize(("learner", "samples"), [("auto", 60), (QuadraticRidge(), 200)])
def test_intervals_of_pairs_cover(learner, samples):
    quadratic = np.zeros((4, 4))
    quadratic[0, 2] = quadratic[2, 0] = 0.5
    quadratic[1, 1] = 0.4
    truth, covered, _ = _covered(learner, quadratic, samples)
    error = np.sqrt(BAR * (1 - BAR) / samples)
    print(f"pairs {truth.round(3)}: covered {covered.round(2)} ({error:.2f})")
    assert (covered[truth >= 0.03] >= BAR - 2.5 * error).all()
    assert covered[truth >= 0.03].mean() >= BAR - error


@pytest.mark.parametrize(("learner", "samples"), [("auto", 60), (QuadraticRidge(), 200)])
def test_curves_under_correlation_are_not_found_to_be_pairs(learner, samples):
    quadratic = np.diag([0.0, 0.5, 0.0, 0.0])
    _, _, rejected = _covered(learner, quadratic, samples)
    error = np.sqrt(0.07 * 0.93 / samples)
    print(f"rejected at 5 %: {rejected.round(3)} ({error:.3f})")
    assert (rejected <= 0.07 + 2.5 * error).all()
    assert rejected.mean() <= 0.07


def test_intervals_of_splits_cover():
    samples, rho = 200, 0.8
    truth = np.array([[0.36, 0.32], [0.0, 0.32]])
    inside = np.zeros((samples, 2, 2))
    for seed in range(samples):
        generator = np.random.default_rng(seed)
        X = generator.standard_normal((N, 2))
        X[:, 1] = rho * X[:, 0] + np.sqrt(1 - rho**2) * X[:, 1]
        y = X[:, 0] + generator.standard_normal(N)
        result = dfi.explain(X, y, "linear", level=LEVEL, diagnose=False, random_state=seed)
        table = result.split().table().set_index("feature")
        for row, name in enumerate(("x0", "x1")):
            for column, part in enumerate(("unique", "shared")):
                low, high = table.loc[name, f"{part}_low"], table.loc[name, f"{part}_high"]
                inside[seed, row, column] = low <= truth[row, column] <= high
    covered = inside.mean(axis=0)
    error = np.sqrt(BAR * (1 - BAR) / samples)
    print(f"unique and shared of x0 and x1: covered {covered.round(2)} ({error:.2f})")
    assert (covered >= BAR - 2.5 * error).all()
