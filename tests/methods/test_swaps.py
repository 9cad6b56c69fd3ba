"""PFI and dLOCO against slow twins, and their standard errors against simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dfi
from dfi.methods import DLOCO, PFI
from dfi.methods.permutation import as_donors, choose_shifts, donor_rows


def test_donors_are_balanced_and_never_the_row_itself() -> None:
    order, shifts = choose_shifts(11, 4, np.random.default_rng(0))
    donors = donor_rows(order, shifts)
    assert donors.shape == (11, 4)
    assert not np.any(donors == np.arange(11)[:, None])
    np.testing.assert_array_equal(np.bincount(donors.ravel()), np.full(11, 4))
    assert all(len(set(row)) == 4 for row in donors)
    values = np.arange(44.0).reshape(11, 4)
    given = as_donors(values, np.ones(11), donors)
    assert given[3] == pytest.approx(values[donors == 3].mean())


def test_one_row_has_no_donor() -> None:
    with pytest.raises(ValueError, match="use fewer folds"):
        choose_shifts(1, 5, np.random.default_rng(0))


def product(X: np.ndarray) -> np.ndarray:
    return X[:, 0] * X[:, 1] + np.sin(X[:, 2])


def test_dloco_and_pfi_match_their_slow_twins(oracle: Any) -> None:
    generator = np.random.default_rng(1)
    X = generator.standard_normal((40, 3))
    y = product(X) + generator.standard_normal(40)
    halves = [(np.arange(20, 40), np.arange(20)), (np.arange(20), np.arange(20, 40))]
    found = dfi.compare(
        X,
        y,
        [DLOCO(n_partners=99, debias=False), PFI(n_permutations=99, debias=False)],
        estimator=oracle(product),
        cv=halves,
    )
    variances, losses = [], []
    for _, test in halves:
        for i in test:
            others = [b for b in test if b != i]
            swapped = np.repeat(X[[i]], len(others), axis=0)
            swapped[:, 0] = X[others, 0]
            values = product(swapped)
            variances.append(values.var(ddof=1))
            losses.append(np.mean((y[i] - values) ** 2) - (y[i] - product(X[[i]])[0]) ** 2)
    assert found["dloco"].scores[0] == pytest.approx(np.mean(variances), rel=1e-10)
    assert found["pfi"].scores[0] == pytest.approx(np.mean(losses), rel=1e-10)
    # every pair was met: nothing is left to Monte Carlo
    assert max(found["dloco"].diagnostics["monte_carlo_se"]) < 1e-12


def interaction(X: np.ndarray) -> np.ndarray:
    return X[:, 0] + X[:, 0] * X[:, 1] + 0.5 * X[:, 1] ** 2


@pytest.mark.full
def test_standard_errors_of_u_statistics_by_simulation(oracle: Any) -> None:
    """Oracle regression, dependent features: the Hoeffding projection is all there is."""
    scores: dict[str, list[Any]] = {"dloco": [], "pfi": [], "sobol_total": [], "sobol_first": []}
    errors: dict[str, list[Any]] = {key: [] for key in scores}
    for seed in range(40):
        generator = np.random.default_rng(seed)
        X = generator.standard_normal((300, 2))
        X[:, 1] = 0.5 * X[:, 0] + np.sqrt(0.75) * X[:, 1]
        y = interaction(X) + 0.1 * generator.standard_normal(300)
        found = dfi.compare(
            X, y, ["dloco", "pfi", "sobol"], estimator=oracle(interaction), cv=2, random_state=seed
        )
        for key in scores:
            scores[key].append(found[key].scores)
            errors[key].append(found[key].se)
    # X1: (1 + X2)^2 Var(X1) = 2; X2: E Var(X1 X2 + X2^2/2 | X1) = E[X1^2] + 1/2 = 1.5
    for key in ("dloco", "sobol_total"):
        mean, se = np.mean(scores[key], axis=0), np.std(scores[key], axis=0) / np.sqrt(40)
        assert np.all(np.abs(mean - [2.0, 1.5]) < 4 * se + 0.02), key
    for key in scores:
        ratio = np.mean(errors[key], axis=0) / np.std(scores[key], axis=0)
        assert np.all((ratio > 0.65) & (ratio < 1.5)), (key, ratio)


def test_the_correction_takes_out_the_shrinkage_of_a_regression(oracle: Any) -> None:
    generator = np.random.default_rng(5)
    X = generator.standard_normal((3000, 2))
    y = 2 * X[:, 0] + X[:, 1] + generator.standard_normal(3000)

    def shrunken(rows: np.ndarray) -> np.ndarray:
        return 0.8 * (2 * rows[:, 0] + np.tanh(rows[:, 1]))

    plain = dfi.compare(X, y, DLOCO(debias=False), estimator=oracle(shrunken), cv=2)["dloco"]
    corrected = dfi.compare(X, y, DLOCO(), estimator=oracle(shrunken), cv=2)["dloco"]
    assert abs(plain.scores[0] - 4.0) > 1.0
    # second order is left: 4 - (2 - 1.6)^2 = 3.84
    assert abs(corrected.scores[0] - 4.0) < 0.3


def test_counts_are_checked() -> None:
    with pytest.raises(ValueError, match="n_partners must be a whole number of 2"):
        DLOCO(n_partners=1)
    with pytest.raises(ValueError, match="n_permutations must be a whole number of 2"):
        PFI(n_permutations=1)
    X = np.random.default_rng(0).standard_normal((6, 2))
    y = X[:, 0] + 0.01 * X[:, 1]
    with pytest.raises(ValueError, match="at least three held-out rows"):
        dfi.compare(X, y, "dloco", estimator="linear", cv=3)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_count_as_receivers_and_as_donors(oracle: Any, weighted: bool) -> None:
    """Hoeffding's projection pair by pair; without noise the regression's error adds nothing."""
    generator = np.random.default_rng(2)
    X = generator.standard_normal((30, 3))
    y = product(X)
    mass = generator.uniform(0.5, 2.0, 30) if weighted else np.ones(30)
    halves = [(np.arange(15, 30), np.arange(15)), (np.arange(15), np.arange(15, 30))]
    found = dfi.compare(
        X,
        y,
        [DLOCO(n_partners=99), PFI(n_permutations=99)],
        estimator=oracle(product),
        cv=halves,
        sample_weight=mass if weighted else None,
    )
    expected = {"dloco": np.zeros(30), "pfi": np.zeros(30)}
    for _, test in halves:
        kernels = {key: np.zeros((15, 15)) for key in expected}
        share = np.zeros((15, 15))
        for a, i in enumerate(test):
            swapped = np.repeat(X[[i]], 15, axis=0)
            swapped[:, 0] = X[test, 0]
            values = product(swapped)
            share[a] = np.where(test == i, 0.0, mass[test])
            share[a] /= share[a].sum()
            kernels["pfi"][a] = (y[i] - values) ** 2
            kernels["dloco"][a] = (values - share[a] @ values) ** 2 / (1.0 - share[a] @ share[a])
        for key, kernel in kernels.items():
            received = np.sum(share * kernel, axis=1)
            giving = mass[test][:, None] * (share > 0)
            given = np.sum(giving * kernel, axis=0) / giving.sum(axis=0)
            expected[key][test] = received + given - np.average(given, weights=mass[test])
    for key, values in expected.items():
        np.testing.assert_allclose(found[key].influence[:, 0], values, atol=1e-8)
