"""The second-order bias of the fitted transport: against loops, and against the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import dfi
from dfi._data.dependence import Clusters
from dfi._data.weights import Weights
from dfi._lines.quadrature import QuadratureLines
from dfi._scoring.map_error import (
    MapInfluence,
    SecondOrderBias,
    gradient_step,
    squared_influence,
)
from dfi._scoring.sensitivity import gradient_products
from dfi.transports.gaussian import Gaussian


def fitted(design, X, mass):
    design = replace(design, components=None)
    return design.fit_matrix(X, Weights(mass, "sampling"), np.zeros(X.shape[1], dtype=bool))


def refitted_matrices(design, X, mass, row):
    """Return D and A of a row by fitting the transport again with a little more weight on it."""
    base, step, ends = fitted(design, X, mass).geometry, 1e-5, []
    for sign in (1.0, -1.0):
        moved = mass * (1.0 - sign * step)
        moved[row] += sign * step * mass.sum()
        ends.append(fitted(design, X, moved).geometry)
    D = (ends[0].decoder - ends[1].decoder) / (2 * step)
    turned = (ends[0].directions - ends[1].directions) / (2 * step)
    return D, np.linalg.pinv(base.directions, rcond=1e-6) @ turned


def slow_squares(design, X, mass, share, gradients):
    """Return b_Z and the decoder's variances by loops over rows and pairs of coordinates."""
    n, d = X.shape
    latent, decoder = np.zeros(d), np.zeros((d, d))
    for i in range(n):
        D, A = refitted_matrices(design, X, mass, i)
        decoder += share[i] * D**2
        for j in range(d):
            for k in range(d):
                for m in range(d):
                    if j not in (k, m):
                        latent[j] += share[i] * gradients[k, m] * A[k, j] * A[m, j]
    return latent, decoder


def twin_case(name):
    generator = np.random.default_rng(3)
    X = generator.standard_normal((25, 4)) @ generator.standard_normal((4, 4)) * [1, 10, 0.1, 1]
    if name == "duplicate":
        X[:, 1] = X[:, 0] * 3
    mass = generator.integers(1, 4, 25).astype(float) if name == "weighted" else np.ones(25)
    options = {
        "raw": {"standardize": False},
        "shrunk": {"shrinkage": 0.3},
        "raw shrunk": {"shrinkage": 0.3, "standardize": False},
    }
    return X, mass, Gaussian(**options.get(name, {}))


@pytest.mark.parametrize("name", ["full", "duplicate", "raw", "shrunk", "raw shrunk", "weighted"])
@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_squares_equal_loops_over_matrices_of_refitted_transports(name, kind):
    X, mass, design = twin_case(name)
    transport = fitted(design, X, mass)
    root = np.random.default_rng(7).standard_normal((4, 4))
    influence = MapInfluence(transport.geometry, transport.geometry.standardize(X))
    found = squared_influence(influence, root @ root.T, Weights(mass, kind))
    n = mass.sum() if kind == "frequency" else len(mass)
    share = mass / (n * (n - 1)) if kind == "frequency" else mass**2 / mass.sum() ** 2 * n / (n - 1)
    latent, decoder = slow_squares(design, X, mass, share, root @ root.T)
    assert found.latent == pytest.approx(latent, rel=1e-5)
    assert found.decoder == pytest.approx(decoder, rel=1e-5, abs=1e-6 * decoder.max())
    assert found.rows == len(X)


def test_large_tables_are_sampled(monkeypatch):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((4000, 4)) @ generator.standard_normal((4, 4))
    transport = fitted(Gaussian(), X, np.ones(4000))
    influence = MapInfluence(transport.geometry, transport.geometry.standardize(X))
    weights, gradients = Weights(np.ones(4000), "frequency"), np.eye(4) + 0.5
    whole = squared_influence(influence, gradients, weights)
    monkeypatch.setattr("dfi._scoring.map_error.WORK", 800 * 4**3)
    part = squared_influence(influence, gradients, weights)
    assert (whole.rows, part.rows) == (4000, 800)
    # a square of a product of normal rows varies by some three times its mean: 0.1 with 800 rows
    assert part.latent == pytest.approx(whole.latent, rel=0.3)
    assert part.decoder == pytest.approx(whole.decoder, rel=0.3)


def two(rows):
    return np.sin(rows[:, 0]) + rows[:, 1] * rows[:, 2]


def other(rows):
    return rows[:, 0] + 0.5 * rows[:, 1] ** 2


def two_gradient(rows):
    return np.column_stack([np.cos(rows[:, 0]), rows[:, 2], rows[:, 1]])


def other_gradient(rows):
    return np.column_stack([np.ones(len(rows)), rows[:, 1], np.zeros(len(rows))])


def test_gradients_are_those_of_one_model_times_those_of_the_other():
    generator = np.random.default_rng(1)
    X = generator.standard_normal((200, 3)) @ generator.standard_normal((3, 3)) + 1.0
    mass = generator.uniform(0.5, 2.0, 200)
    transport = fitted(Gaussian(), X, mass)
    models = [QuadratureLines(two, "gauss", 8), QuadratureLines(other, "gauss", 8)]
    found = gradient_products(models, X, mass, transport.geometry, step=0.02)
    a, b = (f(X) @ transport.geometry.directions for f in (two_gradient, other_gradient))
    product = (a * mass[:, None]).T @ b / mass.sum()
    assert not found.rough
    assert found.mean() == pytest.approx(0.5 * (product + product.T), abs=1e-3 * product.max())


def test_jumps_are_seen_and_differenced_across_a_wide_step():
    """The square of a jump over the step grows as the step shrinks; the trend does not."""
    X = np.random.default_rng(2).standard_normal((400, 2))
    transport = fitted(Gaussian(), X, np.ones(400))
    jump = QuadratureLines(lambda rows: 2.0 * (rows[:, 0] > 0.1) + rows[:, 1], "equal", 8)
    found = gradient_products([jump], X, np.ones(400), transport.geometry, step=0.01)
    assert found.rough
    assert np.trace(found.mean()) < 0.3 * np.trace(found.fine) / found.mass


def explained(X, y, model, **options):
    """Explain with every sample correlation kept, as within one component."""
    options = {"transport": dfi.transports.Gaussian(components=None), **options}
    return dfi.explain(X, y, model, cv="prefit", diagnose=False, **options)


def true_coefficients(beta):
    """Return a least-squares model that holds given coefficients."""
    model = LinearRegression()
    model.coef_, model.intercept_ = np.asarray(beta, dtype=float), 0.0
    model.n_features_in_ = len(beta)
    return model


def null_scores(simulate, model, nulls, samples, before):
    """Return mean null scores of each sample, before or after the bias was subtracted."""
    means = []
    for seed in range(samples):
        X, y = simulate(np.random.default_rng([seed, 11]))
        result = explained(X, y, model, transport_error="ignore" if before else "auto")
        means.append(result.scores[nulls].mean())
    return np.array(means)


def twenty_signals(generator):
    X = generator.standard_normal((500, 23))
    return X, X[:, :20].sum(axis=1) + np.sqrt(20) * generator.standard_normal(500)


def smooth(rows):
    return 1.5 * np.sin(1.3 * rows[:, 0]) + 0.6 * rows[:, 1] ** 2 + 0.8 * rows[:, 2]


def smooth_signals(generator):
    root = np.linalg.cholesky(0.6 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4))))
    X = generator.standard_normal((300, 6))
    X[:, :4] = X[:, :4] @ root.T
    return X, smooth(X) + generator.standard_normal(300)


@pytest.mark.full
@pytest.mark.parametrize(
    ("simulate", "model", "nulls", "samples"),
    [
        (twenty_signals, true_coefficients([1.0] * 20 + [0.0] * 3), [20, 21, 22], 40),
        (smooth_signals, smooth, [4, 5], 40),
    ],
    ids=["twenty linear signals", "smooth"],
)
def test_mean_null_score_is_zero_once_the_bias_is_subtracted(simulate, model, nulls, samples):
    """True coefficients, independent nulls: all that is left is the transport's squared error."""
    left_in = null_scores(simulate, model, nulls, samples, before=True)
    subtracted = null_scores(simulate, model, nulls, samples, before=False)
    error = left_in.std(ddof=1) / np.sqrt(samples)
    assert left_in.mean() > 4 * error
    assert abs(subtracted.mean()) < 3 * error


def test_the_same_number_is_taken_from_every_row():
    X, y = smooth_signals(np.random.default_rng(3))
    aware, fixed = (
        explained(X, y, smooth, form="cpi", transport_error=error)
        for error in ("derived", "finite-difference")
    )
    told = aware.diagnostics["second_order"]
    assert told["subtracted"]
    assert told["gradients"] == "by differences"
    assert told["rows"] == 300
    assert set(told["latent"]) == set(aware.names)
    # the bias does not depend on how the standard errors are found
    assert told == fixed.diagnostics["second_order"]
    known = explained(X, y, smooth, form="cpi", transport_error="ignore")
    bias = np.array(list(told["latent"].values()))
    assert aware.latent.scores == pytest.approx(known.latent.scores - bias, rel=1e-9)
    assert aware.latent.influence.mean(axis=0) == pytest.approx(aware.latent.scores, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"transport_error": "ignore"}, "taken as known"),
        ({"transport": dfi.transports.Semicontinuous()}, "reproduce the paper"),
        (
            {"transport": dfi.transports.Gaussian(epsilon=0.5, components=None)},
            "not derived for the bridge",
        ),
    ],
)
def test_what_is_left_in_is_said(options, reason):
    X, y = smooth_signals(np.random.default_rng(4))
    told = explained(X[:80], y[:80], smooth, **options).diagnostics["second_order"]
    assert not told["subtracted"]
    assert reason in told["reason"]


def test_few_rows_for_the_columns_leave_it_in():
    generator = np.random.default_rng(5)
    X = generator.standard_normal((15, 8))
    design = Gaussian(components=None, covariance="sample")
    result = explained(X, X[:, 0], lambda rows: rows[:, 0], transport=design)
    assert "rows < 2 x columns" in result.diagnostics["second_order"]["reason"]


def test_trees_are_said_to_have_a_trend_only():
    X, y = smooth_signals(np.random.default_rng(6))
    tree = DecisionTreeRegressor(max_leaf_nodes=20, random_state=0).fit(X, smooth(X))
    told = explained(X, y, tree).diagnostics["second_order"]
    assert told["gradients"].startswith("trend across a quarter")


def test_copula_of_normal_scores_is_nearly_the_gaussian():
    """On normal columns slopes are 1, and the two transports have the same bias up to noise."""
    X, y = smooth_signals(np.random.default_rng(7))
    gaussian = explained(
        X, y, smooth, transport=dfi.transports.Gaussian(reference="gaussian", components=None)
    )
    copula = explained(X, y, smooth, transport=dfi.transports.Copula(components=None))
    first, second, attributed = (
        np.array(list(r.diagnostics["second_order"][space].values()))
        for r, space in ((gaussian, "latent"), (copula, "latent"), (copula, "attributed"))
    )
    assert second == pytest.approx(first, rel=0.35)
    # shares add up to 1 whatever the error of the map
    assert attributed.sum() == pytest.approx(second.sum())


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_coordinates_of_different_components_have_no_share_in_each_other(shrinkage, standardize):
    """Entry by entry from the contractions, which have a twin of their own."""
    design = Gaussian(
        components=[["x0", "x3"], ["x1", "x2", "x4"]], shrinkage=shrinkage, standardize=standardize
    )
    generator = np.random.default_rng(30)
    X = generator.standard_normal((40, 6)) @ generator.standard_normal((6, 6))
    weights = Weights(np.ones(40), "frequency")
    transport = design.fit_matrix(X, weights, np.zeros(6, dtype=bool))
    influence = MapInfluence(transport.geometry, transport.geometry.standardize(X))
    root = generator.standard_normal((6, 6))
    gradients, unit = root @ root.T, np.eye(6)
    found = squared_influence(influence, gradients, weights)
    on_map = {
        (k, j): influence.on_map(unit[:, [k]], unit[:, [j]])[:, 0]
        for k in range(6)
        for j in range(6)
    }
    for j in range(6):
        expected = sum(
            gradients[k, m] * (on_map[k, j] @ on_map[m, j]) / (40 * 39)
            for k in range(6)
            for m in range(6)
            if j not in (k, m)
        )
        assert found.latent[j] == pytest.approx(expected, rel=1e-8, abs=1e-14)
        for k in range(6):
            on_decoder = influence.on_decoder(unit[:, [k]], unit[:, [j]])[:, 0]
            assert found.decoder[k, j] == pytest.approx(
                on_decoder @ on_decoder / (40 * 39), rel=1e-8, abs=1e-14
            )
    between = np.not_equal.outer(transport.labels, transport.labels)
    assert np.all(found.decoder[between] == 0)


def test_independent_columns_in_components_of_their_own_have_no_bias():
    generator = np.random.default_rng(8)
    X = generator.standard_normal((200, 3))
    y = X[:, 0] + generator.standard_normal(200)
    design = dfi.transports.Gaussian(components=[["x0", "x1"]])
    result = explained(X, y, true_coefficients([1.0, 0.0, 0.0]), transport=design)
    told = result.diagnostics["second_order"]
    assert told["latent"]["x2"] == told["attributed"]["x2"] == 0.0
    assert told["attributed"]["x1"] > 0
    assert result.scores[2] == 0.0


def test_step_is_the_size_of_a_tilt():
    assert gradient_step(100) == pytest.approx(0.05)
    assert gradient_step(1e9) == 0.005


def dependent_case():
    generator = np.random.default_rng(5)
    X = generator.standard_normal((30, 3)) @ generator.standard_normal((3, 3))
    gradients = generator.standard_normal((3, 3))
    transport = fitted(Gaussian(), X, np.ones(30))
    influence = MapInfluence(transport.geometry, transport.geometry.standardize(X))
    return influence, gradients @ gradients.T


def test_rows_in_clusters_of_their_own_are_independent():
    influence, gradients = dependent_case()
    plain = squared_influence(influence, gradients, Weights(np.ones(30), "sampling"))
    alone = Weights(np.ones(30), "sampling", dependence=Clusters(np.arange(30)))
    found = squared_influence(influence, gradients, alone)
    np.testing.assert_allclose(found.latent, plain.latent, rtol=1e-10)
    np.testing.assert_allclose(found.decoder, plain.decoder, rtol=1e-10)


@pytest.mark.parametrize("factor", [None, np.array([1.0, 1.3, 0.8])])
def test_clusters_square_their_sums(factor):
    influence, gradients = dependent_case()
    labels = np.arange(30) // 3
    weights = Weights(np.ones(30), "sampling", dependence=Clusters(labels))
    found = squared_influence(influence, gradients, weights, factor)
    on_decoder, on_map = influence.matrices(np.arange(30), np.arange(3))
    latent, decoder = np.zeros(3), np.zeros((3, 3))
    for label in range(10):
        own = labels == label
        D, A = ((u - u.mean(axis=0))[own].sum(axis=0) / 30 for u in (on_decoder, on_map))
        decoder += 10 / 9 * D**2
        for j in range(3):
            for k in range(3):
                for m in range(3):
                    if j not in (k, m):
                        times = 1.0
                        if factor is not None:
                            times = factor[j] * (factor[k] + factor[m]) - factor[j] ** 2
                        latent[j] += 10 / 9 * times * gradients[k, m] * A[k, j] * A[m, j]
    np.testing.assert_allclose(found.decoder, decoder, rtol=1e-9)
    np.testing.assert_allclose(found.latent, latent, rtol=1e-9)


def test_the_bias_leaves_the_scores_of_every_repeat_too():
    result = dfi.DFI(estimator="linear", cv=2, n_repeats=2).fit(*drawn_rows())
    bias = SecondOrderBias("", np.array([1.0, 2.0]), np.array([3.0, 4.0]), {})
    before = result.scores_
    after = bias.subtracted_from(before, ("a", "b"))
    for name, own in (("latent", bias.latent), ("attributed", bias.attributed)):
        for key in (name, f"{name}_by_repeat"):
            moved = getattr(before, key) - getattr(after, key)
            np.testing.assert_allclose(moved, np.broadcast_to(own, moved.shape))
    assert after.diagnostics["second_order"]["attributed"] == {"a": 3.0, "b": 4.0}


def drawn_rows():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    return X, X[:, 0] + generator.standard_normal(60)
