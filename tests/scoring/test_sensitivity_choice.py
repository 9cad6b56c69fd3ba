"""``transport_error="auto"``: derived where that is right, corrected by differences elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import dfi
from dfi._data.weights import Weights
from dfi._scoring.lines import LineScores
from dfi._scoring.map_error import MapInfluence, latent_terms
from dfi._scoring.sensitivity import N_GROUPS, Differences
from dfi._scoring.sensitivity_choice import choose_sensitivity

ROOT = np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4))))


def sample(function, seed, n=1000):
    generator = np.random.default_rng([seed, 17])
    X = generator.standard_normal((n, 4)) @ ROOT.T
    return X, function(X) + 0.5 * generator.standard_normal(n)


def explained(function, seed, **options):
    X, y = sample(function, seed)
    transport = dfi.transports.Gaussian(components=None)
    options = {"cv": "prefit", "diagnose": False, **options}
    return dfi.explain(X, y, function, transport=transport, **options)


def linear(rows):
    return rows @ [1.0, 2.0, 0.0, -1.0]


def third_order(rows):
    return rows[:, 0] * rows[:, 1] * rows[:, 2] + rows[:, 0]


def steps(rows):
    return 2.0 * (rows[:, 0] + rows[:, 1] > 0.3) + rows[:, 2]


@pytest.mark.parametrize("seed", range(3))
def test_linear_regressions_keep_the_short_cut(seed):
    found = explained(linear, seed).diagnostics
    assert found["sensitivity"]["used"] == "derived"
    assert len(found["sensitivity"]["changed"]) == 0
    assert found["sensitivity"]["rows"] == 250
    assert found["standard_errors"] == "transport-aware (derived)"


@pytest.mark.parametrize("function", [third_order, steps])
def test_third_order_and_large_steps_get_differences(function):
    """In most samples: the noise of a few hundred rows must not decide alone."""
    used = [explained(function, seed).diagnostics["sensitivity"]["changed"] for seed in range(6)]
    assert sum(bool(changed) for changed in used) >= 4


def test_corrected_standard_errors_are_closer_to_tilted_ones():
    """Root mean square over samples and coordinates of log ratios to tilted lines."""
    gaps = {"auto": [], "derived": []}
    for seed in range(4):
        truth = explained(third_order, seed, transport_error="finite-difference").latent.se[:3]
        for error, gap in gaps.items():
            found = explained(third_order, seed, transport_error=error)
            gap.append(np.log(found.latent.se[:3] / truth))
    size = {error: np.sqrt(np.mean(np.square(gap))) for error, gap in gaps.items()}
    assert size["auto"] < size["derived"]
    assert size["auto"] < 0.06


@pytest.mark.parametrize("error", ["derived", "finite-difference"])
def test_what_is_asked_for_is_used_and_said(error):
    result = explained(third_order, 0, transport_error=error)
    assert result.diagnostics["sensitivity"] == {"used": error}
    assert result.diagnostics["standard_errors"] == f"transport-aware ({error})"
    assert result.spec["transport_error"] == error


def test_bridge_and_random_draws_are_not_checked():
    X, y = sample(linear, 0, n=80)
    for options in (
        {"transport": dfi.transports.Gaussian(epsilon=0.5)},
        {"integration": dfi.Quadrature("draws")},
    ):
        found = dfi.explain(X, y, linear, cv="prefit", diagnose=False, **options).diagnostics
        assert found["sensitivity"] == {"used": "derived"}


def test_many_columns_for_the_rows_get_the_jackknife(monkeypatch):
    """Differences that are too noisy to use still tell that the short cut is wrong."""
    monkeypatch.setattr("dfi.transports.straight.LINE_JACKKNIFE_ROWS", 50)
    monkeypatch.setattr("dfi._scoring.sensitivity_choice._family_errors", lambda d, count: 2.0)
    generator = np.random.default_rng(2)
    X = generator.standard_normal((600, 50))
    X[:, :4] = X[:, :4] @ ROOT.T

    def cosine(rows):
        return 3.0 * np.cos(1.5 * (rows[:, 0] + rows[:, 1]))

    y = cosine(X) + 0.1 * generator.standard_normal(600)
    found = dfi.explain(
        X,
        y,
        cosine,
        transport=dfi.transports.Gaussian(components=None),
        cv="prefit",
        diagnose=False,
    )
    assert found.diagnostics["sensitivity"]["used"] == "jackknife"
    assert found.diagnostics["standard_errors"].startswith("transport jackknife (20 groups")
    assert found.diagnostics["second_order"]["subtracted"]
    assert np.all(found.se[:2] > 0)


def test_few_rows_for_the_columns_are_not_checked():
    generator = np.random.default_rng(4)
    X = generator.standard_normal((30, 20))
    design = dfi.transports.Gaussian(components=None, covariance="sample")
    with pytest.warns(dfi.warnings.InferenceWarning):
        found = dfi.explain(
            X, X[:, 0], lambda rows: rows[:, 0], transport=design, cv="prefit", diagnose=False
        ).diagnostics
    assert found["sensitivity"] == {"used": "derived"}


def known_parts(curved, noise):
    """Return a transport's influence, scores and differences with a stated part and noise."""
    generator = np.random.default_rng(3)
    X = generator.standard_normal((300, 3))
    weights = Weights(np.ones(300), "frequency")
    transport = dfi.transports.Gaussian(components=None).fit_matrix(
        X, weights, np.zeros(3, dtype=bool)
    )
    influence = MapInfluence(transport.geometry, transport.geometry.standardize(X))
    G = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.2, 0.1, 1.0]])
    zero = np.zeros((3, 3))
    values = 0.1 * generator.standard_normal((300, 3))
    scores = LineScores(values, np.zeros(300), G, np.zeros(3), zero)
    part = curved + noise * generator.standard_normal((N_GROUPS, 3, 3))
    mass = np.ones(N_GROUPS)
    off = G * (1 - np.eye(3))
    differences = Differences(part, np.tile(off, (N_GROUPS, 1, 1)), 8 * np.eye(3), mass, 300)
    return influence, scores, differences, weights


def test_a_part_enters_the_columns_where_it_matters():
    part = np.zeros((3, 3))
    part[0, 1] = 1.0
    influence, scores, differences, weights = known_parts(part, 1e-3)
    choice = choose_sensitivity(influence, scores, differences, weights)
    assert choice.changed.tolist() == [False, True, False]
    expected = scores.sensitivity.copy()
    expected[:, 1] += differences.groups()[0].mean(axis=0)[:, 1]
    assert np.allclose(choice.sensitivity, expected)
    # the change is that of the variance of u + T(G + part) against u + T(G)
    plain, moved = (
        np.std((scores.influence + latent_terms(influence, s))[:, 1])
        for s in (scores, LineScores(scores.influence, scores.prediction, expected, *[0.0] * 2))
    )
    assert choice.change[1] == pytest.approx(moved / plain - 1, abs=0.01)


def test_too_few_rows_tell_without_being_used():
    part = np.zeros((3, 3))
    part[0, 1] = 1.0
    influence, scores, differences, weights = known_parts(part, 1e-3)
    choice = choose_sensitivity(influence, scores, replace(differences, rows=20), weights)
    assert not choice.enough
    assert choice.changed.tolist() == [False, True, False]
    assert np.array_equal(choice.sensitivity, scores.sensitivity)


def test_noise_does_not_decide():
    """Parts of mean 0 whose noise would change standard errors stay out."""
    entered = 0
    for seed in range(20):
        influence, scores, differences, weights = known_parts(np.zeros((3, 3)), 0.0)
        generator = np.random.default_rng(seed)
        noise = 1.5 * generator.standard_normal((N_GROUPS, 3, 3))
        noisy = Differences(
            noise, differences.linear, differences.directions, differences.mass, 300
        )
        entered += int(choose_sensitivity(influence, scores, noisy, weights).changed.sum())
    # 60 columns, each with two tests at 2.5 errors of seven degrees of freedom
    assert entered <= 8


def test_two_models_of_trees():
    sample = dfi.datasets.m3(300, rho=0.5)
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    found = dfi.explain(sample.X, sample.y, forest, cv=2, diagnose=False).diagnostics
    assert found["sensitivity"]["rows"] == 128
    assert found["second_order"]["gradients"].startswith("trend across a quarter")
