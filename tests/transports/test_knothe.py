"""The Knothe-Rosenblatt transport: triangular, invertible, Cholesky on Gaussian rows."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import dfi
from dfi._data.table import read_table
from dfi._data.weights import Weights
from dfi._models.crossfit import FoldModels
from dfi.datasets.simulations import correlated_gaussian, m4
from dfi.transports.curved import curve_scores
from dfi.transports.knothe import KnotheRosenblatt
from tests.scoring.tasks import task_of

pytest.importorskip("pyvinecopulib")

R = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.5], [0.3, 0.5, 1.0]])
BETA = np.array([2.0, 1.0, -1.0])


def ones(n):
    return Weights(np.ones(n), "frequency")


def fit(X, columns=None, like=None, **options):
    constant = np.zeros(X.shape[1], bool)
    return KnotheRosenblatt(**options).fit_matrix(
        X, ones(len(X)), constant, columns=columns, like=like
    )


def scores(transport, X, y, function):
    fold = FoldModels(0, np.arange(len(X)), (function,), np.random.SeedSequence(0))
    task = task_of([fold], X, y, ones(len(X)))
    return curve_scores(task, transport, latent=transport.encode(X))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_gaussian_rows_give_the_cholesky_map(order):
    """x = C z in the stated order: latents, Jacobian and both scores in closed form."""
    n = 4000
    X = correlated_gaussian(R, n, np.random.default_rng(0))
    transport = fit(X, order=order, attribution="slopes")
    order = list(order)
    root = np.zeros((3, 3))
    root[np.ix_(order, order)] = np.linalg.cholesky(R[np.ix_(order, order)])
    latent = transport.encode(X)
    exact = np.linalg.solve(root, X.T).T
    assert np.sqrt(np.mean((latent - exact) ** 2)) < 0.1
    np.testing.assert_allclose(transport.decode(latent), X, atol=1e-6)
    points = np.random.default_rng(1).standard_normal((500, 3))
    for j in range(3):
        np.testing.assert_allclose(transport.slopes(points, j).mean(axis=0), root[:, j], atol=0.06)
    result = scores(transport, X, X @ BETA, lambda X: X @ BETA)
    expected = (root.T @ BETA) ** 2
    for values, truth in (
        (result.latent, expected),
        (result.attributed, (root**2) @ expected),
    ):
        # sampling error with the map known, and 2 % of the total for the map itself
        error = 3 * values.std(axis=0) / np.sqrt(n) + 0.02 * truth.sum()
        assert (np.abs(values.mean(axis=0) - truth) < error).all()


def test_line_shares_of_gaussian_rows_are_those_of_the_cholesky_columns():
    """phi_X[l] = sum_j C_lj^2 / sum_m C_mj^2 phi_Z[j], so both add up to the same."""
    X = correlated_gaussian(R, 3000, np.random.default_rng(0))
    result = scores(fit(X), X, X @ BETA, lambda X: X @ BETA)
    root = np.linalg.cholesky(R)
    latent = (root.T @ BETA) ** 2
    truth = (root**2 / np.sum(root**2, axis=0)) @ latent
    error = 3 * result.attributed.std(axis=0) / np.sqrt(3000) + 0.02 * truth.sum()
    assert (np.abs(result.attributed.mean(axis=0) - truth) < error).all()
    np.testing.assert_allclose(result.attributed.sum(axis=1), result.latent.sum(axis=1), atol=1e-9)


def test_map_is_triangular_in_the_stated_order():
    transport = fit(m4(400, d=3).X, order=[1, 2, 0])
    points = np.random.default_rng(1).standard_normal((50, 3))
    # the last column in the order moves itself only; the first moves all
    assert np.abs(transport.slopes(points, 0)[:, [1, 2]]).max() < 1e-9
    assert np.abs(transport.slopes(points, 2)[:, 1]).max() < 1e-9
    assert np.abs(transport.slopes(points, 1)[:, 0]).max() > 0.1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_fresh_rows_of_m4_are_disentangled(order, largest_distance_correlation):
    fresh = m4(1000, d=2, random_state=2).X
    transport = fit(m4(2000, d=2, random_state=1).X, order=order)
    assert largest_distance_correlation(fresh) > 0.45
    assert largest_distance_correlation(transport.encode(fresh)) <= 0.12


def test_columns_with_levels_are_spread_over_their_jumps(largest_distance_correlation):
    def sample(n, seed):
        G = correlated_gaussian(R, n, np.random.default_rng(seed))
        return np.column_stack([G[:, 0] > 0.3, np.digitize(G[:, 1], [-1, 0, 0.5]), G[:, 2]]) * 1.0

    X, fresh = sample(3000, 0), sample(1000, 1)
    # a continuous margin ends at the values observed
    fresh = np.clip(fresh, X.min(axis=0), X.max(axis=0))
    transport = fit(X)
    latent = transport.encode(fresh, np.random.default_rng(3))
    np.testing.assert_allclose(transport.decode(latent), fresh, atol=1e-6)
    assert largest_distance_correlation(latent) < 0.12 < largest_distance_correlation(fresh)
    assert np.abs(latent.std(axis=0) - 1).max() < 0.08
    # the seed decides, and nothing else
    np.testing.assert_array_equal(latent, transport.encode(fresh, np.random.default_rng(3)))
    assert not np.array_equal(latent, transport.encode(fresh, np.random.default_rng(4)))


def test_independent_binary_column_has_slope_one():
    """phi_X = phi_Z = beta^2 p (1 - p) for an independent 0/1 column, as under whitening."""
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.random(2000) < 0.3, generator.standard_normal(2000)]) * 1.0
    transport = fit(X)
    points = generator.standard_normal((200, 2))
    np.testing.assert_allclose(transport.slopes(points, 0)[:, 0], 1.0, atol=1e-6)
    result = scores(transport, X, 5 * X[:, 0], lambda X: 5 * X[:, 0])
    variance = 25 * X[:, 0].var()
    assert result.latent.mean(axis=0)[0] == pytest.approx(variance, rel=0.03)
    assert result.attributed.mean(axis=0)[0] == pytest.approx(variance, rel=0.03)
    assert abs(result.attributed.mean(axis=0)[1]) < 0.02 * variance


def test_uniform_latents_have_the_same_latent_scores():
    X = correlated_gaussian(R, 1000, np.random.default_rng(0))
    y = X @ BETA
    normal, uniform = (fit(X, latent=kind) for kind in ("gaussian", "uniform"))
    latent = uniform.encode(X)
    assert latent.min() > 0
    assert latent.max() < 1
    np.testing.assert_allclose(uniform.decode(latent), X, atol=1e-6)
    first, second = (scores(t, X, y, lambda X: X @ BETA) for t in (normal, uniform))
    np.testing.assert_allclose(
        second.latent.mean(axis=0), first.latent.mean(axis=0), rtol=0.02, atol=0.01
    )


@pytest.mark.parametrize("j", [0, 1])
def test_mean_squared_slopes_average_what_nodes_would_sample(j):
    """Sixteen nodes and an interpolated path against 20,000 points of every line."""
    X = np.exp(0.5 * correlated_gaussian(R, 400, np.random.default_rng(0)))
    transport = fit(X)
    rows = transport.encode(X)[:12]
    nodes, weights = np.polynomial.hermite_e.hermegauss(16)
    along = np.repeat(rows, 16, axis=0)
    along[:, j] = np.tile(nodes, 12)
    found = transport.mean_squared_slopes(along, j, nodes, weights / weights.sum())
    t, step = ndtri((np.arange(20_000) + 0.5) / 20_000), 1e-4
    for i in range(12):
        line = np.repeat(rows[[i]], 20_000, axis=0)
        line[:, j] = t
        scores = ndtri(transport._joint(line))
        line[:, j] = t + step
        speed = (ndtri(transport._joint(line)) - scores) / step
        for m, margin in enumerate(transport.margins):
            edges, squares = margin.squared_slopes()
            cell = np.clip(np.searchsorted(edges, scores[:, m]) - 1, 0, len(squares) - 1)
            expected = np.mean(squares[cell] * speed[:, m] ** 2) / X[:, m].var()
            assert found[i, m] == pytest.approx(expected, rel=0.03, abs=1e-6)


def test_first_column_keeps_its_latent_score():
    """Normal columns: phi_X1 = phi_Z1. The slopes' own error would add 3 % at this size."""
    ratios = []
    for seed in range(25):
        X = correlated_gaussian(R[:2, :2], 500, np.random.default_rng([seed, 1]))
        y = X @ BETA[:2]
        found = scores(fit(X, attribution="slopes"), X, y, lambda X: X @ BETA[:2])
        ratios.append(found.attributed.mean(axis=0)[0] / found.latent.mean(axis=0)[0])
    assert np.std(ratios) / 5 < 0.006  # Monte-Carlo error
    assert abs(np.mean(ratios) - 1) < 0.015


def families(transport):
    d = transport.n_latent
    return [
        transport.vine.get_pair_copula(tree, edge).family.name
        for tree in range(d - 1)
        for edge in range(d - 1 - tree)
    ]


def test_refit_keeps_the_families():
    X = m4(400, d=3).X
    transport = fit(X)
    assert "tll" in families(transport)
    again = fit(X, like=transport)
    points = np.random.default_rng(1).standard_normal((20, 3))
    np.testing.assert_array_equal(again.decode(points), transport.decode(points))
    # rows that would not choose these families by themselves
    other = np.random.default_rng(2).standard_normal((400, 3))
    assert families(fit(other)) != families(transport)
    assert families(fit(other, like=transport)) == families(transport)
    # and the fit that was copied has not moved
    np.testing.assert_array_equal(again.decode(points), transport.decode(points))


def standard_errors(n_samples):
    """Return standard errors of phi_Z1 and phi_X1 over what theory says they are."""
    beta, n = np.array([2.0, 1.0]), 500
    slope = 2.0 + 0.6
    # noise of the rows, their squares, and the slope of X2 on X1, which the map has to find
    variance = 4 * slope**2 + 2 * slope**4 + 4 * slope**2 * (1 - 0.6**2)
    found = []
    for seed in range(n_samples):
        generator = np.random.default_rng([seed, 9])
        X = correlated_gaussian(R[:2, :2], n, generator)
        y = X @ beta + generator.standard_normal(n)
        result = dfi.explain(
            X, y, estimator=lambda X: X @ beta, cv="prefit", random_state=seed,
            transport=KnotheRosenblatt(attribution="slopes"), diagnose=False, progress=False,
        )  # fmt: skip
        found.append([result.latent.se[0], result.se[0]])
    return np.array(found) / np.sqrt(variance / n)


@pytest.mark.full
def test_standard_errors_are_those_of_theory():
    """phi_X1 too, whose slopes have no first-order error on normal columns."""
    found = standard_errors(8)
    assert (found.std(axis=0) / np.sqrt(8) < 0.08).all()  # Monte-Carlo error
    assert (np.abs(found.mean(axis=0) - 1) < [0.1, 0.25]).all()


def test_one_column_and_constant_columns():
    X = np.random.default_rng(0).exponential(size=(300, 2))
    X[:, 0] = 4.0
    transport = KnotheRosenblatt().fit_matrix(X, ones(300), np.array([True, False]))
    np.testing.assert_allclose(transport.decode(transport.encode(X)), X, atol=1e-9)


def test_null_block_scores_nothing():
    X = m4(1500, d=4).X
    result = scores(fit(X), X, X[:, 0] + X[:, 1], lambda X: X[:, 0] + X[:, 1])
    total = result.attributed.mean(axis=0)
    assert total[2:].max() < 0.01 * total[:2].max()


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["a", "q", "b"], "order names 'q', which is not a column of X"),
        (["a", "b", "a"], "order names 'a' more than once"),
        (["a", "b"], "order leaves out 'c'"),
        ([0, 1, 7], "order has the position 7; X has columns 0 to 2"),
    ],
)
def test_order_must_name_every_column_once(order, message):
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((50, 3)), columns=list("abc"))
    table = read_table(frame)
    with pytest.raises(ValueError, match=message):
        fit(table.matrix, table.columns, order=order)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("abc", "order is the string 'abc', which would be read letter by letter: pass a list"),
        ({"a", "b"}, "order must be a list of column names or positions, not set"),
        ({"a": 0}, "order must be a list of column names or positions, not dict"),
        (3, "order must be a list of column names or positions, not int"),
        (iter("ab"), "order must be a list of column names or positions, not str"),
    ],
)
def test_order_must_be_a_list(order, message):
    """Said at once, before any model is fitted; an iterator would be empty at the first refit."""
    with pytest.raises(TypeError, match=message):
        KnotheRosenblatt(order=order)
    for fine in (["a", "b"], ("b", "a"), np.array([1, 0]), pd.Index(["a", "b"])):
        KnotheRosenblatt(order=fine)


def test_categories_without_an_order_are_refused():
    frame = pd.DataFrame({"a": np.arange(60.0), "colour": ["red", "green", "blue"] * 20})
    table = read_table(frame)
    with pytest.raises(ValueError, match=r"column 'colour' has 3 categories.*transport='gaussian'"):
        fit(table.matrix, table.columns)


def test_missing_package_names_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvinecopulib", None)
    with pytest.raises(ImportError, match=r"pip install pyvinecopulib"):
        fit(np.random.default_rng(0).standard_normal((50, 2)))


def test_latent_law_must_be_known():
    with pytest.raises(ValueError, match="latent must be 'gaussian' or 'uniform'"):
        KnotheRosenblatt(latent="cauchy")
