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
from dfi._data.folds import Fold
from dfi._models.submodels import Submodels, least_squares_submodels
from dfi.methods import Shapley
from dfi.methods.shapley import (
    Game,
    all_coalitions,
    order_and_reverse,
    players,
    sampled_coalitions,
    walked_part,
)
from dfi.warnings import ApproximationWarning
from paper.truths import gaussian_copula


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


def lookup(d: int, values: np.ndarray) -> dict[tuple[bool, ...], float]:
    masks = all_coalitions(d).masks.tolist()
    return {tuple(mask): v for mask, v in zip(masks, values, strict=True)}


@pytest.mark.parametrize("count", [24, 60])
def test_sampled_coalitions_are_efficient_converge_and_know_their_error(count: int) -> None:
    d = 6
    full = all_coalitions(d)
    generator = np.random.default_rng(0)
    values = full.masks @ np.arange(1.0, 7.0) + 0.5 * generator.standard_normal(2**d)
    value = lookup(d, values)
    exact = full.operator @ values
    estimates, errors = [], []
    for seed in range(300):
        sample = sampled_coalitions(d, count, np.random.default_rng(seed))
        chosen = np.array([value[tuple(mask)] for mask in sample.masks.tolist()])
        found = sample.operator @ chosen
        assert found.sum() == pytest.approx(value[(True,) * d] - value[(False,) * d])
        estimates.append(found)
        errors.append(sample.monte_carlo_se(chosen))
    spread = np.std(estimates, axis=0)
    assert np.all(np.abs(np.mean(estimates, axis=0) - exact) < 5 * spread / np.sqrt(300) + 0.03)
    ratio = np.median(errors, axis=0) / spread
    # The error is that of a jackknife, which errs upwards: by half where 60 of 62 coalitions are
    # drawn, by more where 24 are.
    assert np.all((ratio > 0.75) & (ratio < (1.6 if count == 60 else 3.0))), ratio


def test_a_saturated_design_does_not_call_itself_exact() -> None:
    """As many coalitions as unknowns fit any values, so residuals of 0 say nothing."""
    d = 9
    full = all_coalitions(d)
    game = full.masks[:, :4].any(axis=1) * 15.0  # four players that share one signal
    value = lookup(d, game)
    wrong, errors = [], []
    for seed in range(50):
        sample = sampled_coalitions(d, 20, np.random.default_rng(seed))
        chosen = np.array([value[tuple(mask)] for mask in sample.masks.tolist()])
        wrong.append(np.abs(sample.operator @ chosen - full.operator @ game).max())
        errors.append(sample.monte_carlo_se(chosen).max())
    assert np.median(wrong) > 1.0
    assert np.median(errors) > 0.5 * np.median(wrong)


@settings(max_examples=20, deadline=None)
@given(d=st.integers(1, 7), seed=st.integers(0, 10_000))
def test_an_order_and_its_reverse_know_what_pairs_share(d: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    shared = generator.standard_normal((d, d))
    full = all_coalitions(d)
    game = np.einsum("mi,ij,mj->m", full.masks, shared, full.masks)
    design = order_and_reverse(d, generator)
    chosen = np.array([lookup(d, game)[tuple(mask)] for mask in design.masks.tolist()])
    np.testing.assert_allclose(design.operator @ chosen, full.operator @ game, atol=1e-12)


def test_orders_average_to_all_orders() -> None:
    d = 4
    full = all_coalitions(d)
    game = np.random.default_rng(1).standard_normal(2**d)
    found = []
    for seed in range(4000):
        design = order_and_reverse(d, np.random.default_rng(seed))
        chosen = np.array([lookup(d, game)[tuple(mask)] for mask in design.masks.tolist()])
        assert (design.operator @ chosen).sum() == pytest.approx(game[-1] - game[0])
        found.append(design.operator @ chosen)
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - full.operator @ game) < 4 * error)


@pytest.fixture(scope="module")
def every_submodel() -> tuple[Game, Any]:
    """A game of trees whose 2^6 submodels are all there, and its exact Shapley values."""
    sample = dfi.datasets.m2(250, d=6, rho=0.8)
    tree = DecisionTreeRegressor(max_depth=5, min_samples_leaf=5, random_state=0)
    kept: list[Any] = []

    class Watched(Shapley):
        def compute(self, context: Any) -> Any:
            kept.append(context)
            return super().compute(context)

    exact = dfi.compare(sample.X, sample.y, Watched(exact=True), estimator=tree)["shapley"]
    return Game(kept[0], players(kept[0])), exact


@pytest.mark.parametrize("pairs", [[2, 2, 1, 1, 1], [3, 3, 3, 3, 3]])
def test_walks_converge_and_know_their_error(
    pairs: list[int], every_submodel: tuple[Game, Any]
) -> None:
    game, exact = every_submodel
    scores, noise, total = [], [], []
    for seed in range(150):
        part = walked_part(game, pairs, np.random.SeedSequence(seed))
        scores.append(part.influence.mean(axis=0))
        noise.append(part.monte_carlo_se)
        total.append(part.influence.std(axis=0, ddof=1) / np.sqrt(len(part.influence)))
        # efficiency, for every row: the error of sampling submodels leaves the sum alone
        assert part.influence.mean(axis=0).sum() == pytest.approx(exact.scores.sum())
    spread = np.std(scores, axis=0)
    assert np.all(np.abs(np.mean(scores, axis=0) - exact.scores) < 4 * spread / np.sqrt(150))
    ratio = np.sqrt(np.mean(np.square(noise), axis=0)) / spread
    # Two folds speak for all five, whose trees differ: one unit's error may be off by half.
    low, high = (0.5, 2.0) if min(pairs) == 1 else (0.8, 1.25)
    assert np.all((ratio > low) & (ratio < high)), ratio
    assert 0.8 < np.sqrt(np.mean(np.square(noise)) / np.mean(spread**2)) < 1.25
    # the standard error counts both errors
    both = np.sqrt(exact.se**2 + spread**2)
    ratio = np.sqrt(np.mean(np.square(total), axis=0)) / both
    assert np.all((ratio > 0.9) & (ratio < 1.6)), ratio


def test_the_linear_game_takes_most_of_the_error(
    every_submodel: tuple[Game, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    game, _ = every_submodel
    pairs = [1] * 5

    def spread() -> float:
        found = [
            walked_part(game, pairs, np.random.SeedSequence(seed)).influence.mean(axis=0)
            for seed in range(60)
        ]
        return float(np.sqrt(np.mean(np.var(found, axis=0))))

    with_control = spread()
    monkeypatch.setattr(Game, "linear", lambda self, k: None)
    assert with_control < 1.05 * spread()


def test_many_features_of_one_factor_share_it_and_nulls_stay_null() -> None:
    """Twenty coalitions by weighted least squares gave these nulls -14.5 to 7.3."""
    correlation = np.eye(9)
    correlation[:4, :4] = 0.9
    np.fill_diagonal(correlation, 1.0)
    sample = gaussian_copula(500, correlation=correlation, regression=[1.0] * 4 + [0.0] * 5)
    truth = sample.comparator_truth("shapley")
    for seed in range(2):
        found = dfi.compare(sample.X, sample.y, "shapley", estimator="ridge", random_state=seed)[
            "shapley"
        ]
        assert found.diagnostics["submodels"] <= 34
        assert found.diagnostics["orders"] == 14
        assert np.all(np.abs(found.scores - truth) < 3 * found.se + 0.1)
        assert np.all(found.se[:4] < 0.35)
        assert np.all(np.abs(found.scores[4:]) < 0.1)


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
    assert fitted == [2 * 3, 2 * 4]  # in each of two folds
    assert found["shapley"].diagnostics["submodels"] == 8


def test_too_many_units_are_sampled_and_said_so() -> None:
    sample = dfi.datasets.m1(200, d=14)
    message = r"2\^14 submodels.*about 400 coalitions are used"
    with pytest.warns(ApproximationWarning, match=message):
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


@pytest.mark.filterwarnings("ignore::dfi.warnings.ApproximationWarning")
@pytest.mark.parametrize("sampling", ["auto", "coalitions"])
def test_a_chosen_number_of_coalitions_is_kept_to(sampling: Any) -> None:
    sample = dfi.datasets.m1(200, d=8)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    method = Shapley(n_coalitions=28, sampling=sampling)
    found = dfi.compare(sample.X, sample.y, method, estimator=tree, cv=2)["shapley"]
    assert 20 <= found.diagnostics["submodels"] <= 30


def test_most_of_an_error_from_sampling_is_said() -> None:
    sample = dfi.datasets.m1(200, d=8)
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    message = r"most of the error of \d of 8 scores comes from sampling them \(at worst 'x\d', "
    with pytest.warns(ApproximationWarning, match=message):
        found = dfi.compare(sample.X, sample.y, "shapley", estimator=tree)["shapley"]
    noise = np.array(found.diagnostics["monte_carlo_se"])
    assert np.all(found.se > 0.9 * noise)


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
        Shapley(n_permutations=100, sampling="coalitions")
    with pytest.raises(ValueError, match="n_permutations must be a whole number of 2"):
        Shapley(n_permutations=1, sampling="permutations")
    with pytest.raises(ValueError, match="not both"):
        Shapley(n_permutations=10, n_coalitions=10, sampling="permutations")
    with pytest.raises(ValueError, match="sampling must be"):
        Shapley(sampling="orders")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_coalitions must be a whole number of 2 or more, got 1"):
        Shapley(n_coalitions=1)
