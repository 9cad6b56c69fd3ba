"""Shapley operators against the definition, sampling against all submodels."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import dfi
from dfi.comparators import Shapley
from dfi.comparators.coalitions import all_coalitions, sampled_coalitions
from dfi.comparators.refit import Submodels, least_squares_submodels
from dfi.data.folds import Fold
from dfi.warnings import ApproximationWarning


def by_orders(masks: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The other definition: average increments over all orders."""
    d = masks.shape[1]
    value = {tuple(mask): v for mask, v in zip(masks.tolist(), values, strict=True)}
    total = np.zeros(d)
    orders = list(permutations(range(d)))
    for order in orders:
        mask = [False] * d
        for player in order:
            before = value[tuple(mask)]
            mask[player] = True
            total[player] += value[tuple(mask)] - before
    return total / len(orders)


@settings(max_examples=20, deadline=None)
@given(d=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_operator_equals_the_average_over_orders(d: int, seed: int) -> None:
    coalitions = all_coalitions(d)
    values = np.random.default_rng(seed).standard_normal(2**d)
    found = coalitions.operator @ values
    np.testing.assert_allclose(found, by_orders(coalitions.masks, values), atol=1e-12)


@pytest.mark.parametrize("sampling", ["coalitions", "permutations"])
def test_sampled_values_are_efficient_and_converge(sampling: Any) -> None:
    d = 6
    full = all_coalitions(d)
    generator = np.random.default_rng(0)
    values = full.masks @ np.arange(1.0, 7.0) + 0.5 * generator.standard_normal(2**d)
    lookup = {tuple(mask): v for mask, v in zip(full.masks.tolist(), values, strict=True)}
    exact = full.operator @ values
    estimates, errors = [], []
    for seed in range(200):
        sample = sampled_coalitions(d, 60, np.random.default_rng(seed), sampling)
        chosen = np.array([lookup[tuple(mask)] for mask in sample.masks.tolist()])
        found = sample.operator @ chosen
        ends = lookup[(True,) * d] - lookup[(False,) * d]
        assert found.sum() == pytest.approx(ends)
        estimates.append(found)
        errors.append(sample.monte_carlo_se(chosen))
    spread = np.std(estimates, axis=0)
    assert np.all(np.abs(np.mean(estimates, axis=0) - exact) < 5 * spread / np.sqrt(200) + 0.03)
    ratio = np.mean(errors, axis=0) / spread
    assert np.all((ratio > 0.6) & (ratio < 1.4)), ratio


def test_closed_form_submodels_are_refits() -> None:
    generator = np.random.default_rng(2)
    X = generator.standard_normal((60, 4)) * [1.0, 0.1, 100.0, 1.0]
    X[:, 3] = X[:, 0] + X[:, 1]  # collinear
    y = X @ [1.0, 5.0, 0.01, 0.0] + generator.standard_normal(60)
    mass = generator.integers(1, 4, 60).astype(float)
    fold = Fold(np.arange(40), np.arange(40, 60))
    subsets = [list(s) for size in range(5) for s in combinations(range(4), size)]
    found = least_squares_submodels(X, y, mass, fold, subsets)
    for k, subset in enumerate(subsets):
        if not subset:
            expected = np.full(20, np.average(y[:40], weights=mass[:40]))
        else:
            model = LinearRegression().fit(X[:40][:, subset], y[:40], sample_weight=mass[:40])
            expected = model.predict(X[40:][:, subset])
        np.testing.assert_allclose(found[:, k], expected, rtol=1e-6, atol=1e-6)


def test_refits_are_shared_between_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[int] = []
    fit = Submodels._fit

    def counted(self: Submodels, missing: Any, label: str) -> Any:
        fitted.append(len(missing))
        return fit(self, missing, label)

    monkeypatch.setattr(Submodels, "_fit", counted)
    sample = dfi.datasets.m1(60, d=3)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    found = dfi.compare(sample.X, sample.y, ["loco", "shapley"], estimator=tree, cv=2)
    # LOCO refits three submodels; Shapley needs 8, of which those three and the full one exist
    assert fitted == [3, 4]
    assert found["shapley"].diagnostics["submodels"] == 8


def test_too_many_units_are_sampled_and_said_so() -> None:
    sample = dfi.datasets.m1(200, d=14)
    with pytest.warns(ApproximationWarning, match=r"2\^14 submodels.*sampled coalitions are used"):
        found = dfi.compare(
            sample.X, sample.y, Shapley(exact=True, n_coalitions=400), estimator="linear"
        )["shapley"]
    assert found.diagnostics["approximation"] == "sampled submodels"
    noise = np.array(found.diagnostics["monte_carlo_se"])
    assert np.all(noise > 0)
    assert np.all(noise < found.se[0])
    with pytest.warns(ApproximationWarning):
        by_order = dfi.compare(
            sample.X,
            sample.y,
            Shapley(sampling="permutations", n_coalitions=400),
            estimator="linear",
        )["shapley"]
    np.testing.assert_allclose(by_order.scores, found.scores, atol=6 * noise.max() + 0.2)


def test_a_chosen_number_of_coalitions_is_kept_to() -> None:
    sample = dfi.datasets.m1(200, d=8)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    found = dfi.compare(sample.X, sample.y, Shapley(n_coalitions=20), estimator=tree, cv=2)
    assert found["shapley"].diagnostics["submodels"] <= 22


def test_a_stated_number_of_orders_is_walked_along() -> None:
    sample = dfi.datasets.m1(120, d=5)
    method = Shapley(sampling="permutations", n_permutations=6)
    found = dfi.compare(sample.X, sample.y, method, estimator="linear")["shapley"]
    # the ends, and at most four submodels between them on each of six walks
    assert 8 <= found.diagnostics["submodels"] <= 2 + 6 * 4
    assert found.diagnostics["approximation"] == "sampled submodels"
    assert found.spec["parameters"]["n_permutations"] == 6
    assert found.scores.sum() == pytest.approx(
        dfi.compare(sample.X, sample.y, "shapley", estimator="linear")["shapley"].scores.sum()
    )


def test_parameters_are_checked() -> None:
    with pytest.raises(ValueError, match="n_permutations needs sampling='permutations'"):
        Shapley(n_permutations=100)
    with pytest.raises(ValueError, match="n_permutations must be at least 2"):
        Shapley(n_permutations=1, sampling="permutations")
    with pytest.raises(ValueError, match="not both"):
        Shapley(n_permutations=10, n_coalitions=10, sampling="permutations")
    with pytest.raises(ValueError, match="sampling must be"):
        Shapley(sampling="orders")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_coalitions must be at least 2"):
        Shapley(n_coalitions=1)
