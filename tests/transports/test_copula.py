"""Margins, the copula transport and its scores."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from sklearn.ensemble import RandomForestRegressor

from dfi._data.table import read_table
from dfi._data.weights import Weights
from dfi._estimates.margins import fit_margin, knot_scores
from dfi._lines.choose import Quadrature, line_model
from dfi._lines.trees.model import TreeLines
from dfi._models.crossfit import FoldModels
from dfi._models.predictor import predictor_for
from dfi.datasets.simulations import correlated_gaussian, symmetric_root
from dfi.transports.copula import Cells, Copula, Tables, slope_terms, through_margins
from dfi.transports.curved import curve_scores
from tests.scoring.tasks import task_of

AR = 0.6 ** np.abs(np.subtract.outer(range(4), range(4)))


def ones(n):
    return Weights(np.ones(n), "frequency")


def log_normal(n, seed):
    return np.exp(correlated_gaussian(AR, n, np.random.default_rng(seed)))


def columns(kind, n, generator):
    return {
        "normal": lambda: generator.standard_normal(n),
        "skewed": lambda: generator.exponential(size=n) ** 2,
        "levels": lambda: generator.integers(0, 4, n).astype(float),
        "binary": lambda: (generator.random(n) < 0.2).astype(float),
        "zeros": lambda: np.where(generator.random(n) < 0.4, 0.0, generator.exponential(size=n)),
        "few": lambda: generator.standard_normal(n)[np.arange(n) // 3],
    }[kind]()


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["normal", "skewed", "levels", "binary", "zeros", "few"]),
    st.integers(5, 400),
    st.integers(0, 1000),
)
def test_margin_is_increasing_and_returns_every_row(kind, n, seed):
    column = columns(kind, n, np.random.default_rng(seed))
    column[:2] = column.min(), column.max() + 1.0
    margin = fit_margin(column, np.ones(n))
    assert (np.diff(margin.scores) > 0).all()
    assert (np.diff(margin.values) > 0).all()
    np.testing.assert_allclose(
        margin.value(margin.score(column)), column, atol=1e-9 * np.ptp(column)
    )
    # a split x <= c is the split score <= threshold(c), for rows and for any score
    for c in np.quantile(column, [0.0, 0.3, 0.5, 0.9, 1.0]) + 0.01:
        t = margin.threshold(np.array([c]))[0]
        np.testing.assert_array_equal(margin.score(column) <= t, column <= c)


def test_mid_ranks_of_levels():
    column = np.repeat([1.0, 2.0, 5.0], [20, 50, 30])
    margin = fit_margin(column, np.ones(100))
    assert margin.discrete
    np.testing.assert_allclose(margin.score(np.array([1.0, 2.0, 5.0])), ndtri([0.1, 0.45, 0.85]))
    # counts are the same as repeated rows
    weighted = fit_margin(np.array([1.0, 2.0, 5.0]), np.array([20.0, 50.0, 30.0]))
    np.testing.assert_allclose(weighted.scores[1:-1], margin.scores[1:-1])


LAWS = {
    # E[g^2]/Var with g the slope of the quantile function in the normal score
    "normal": (lambda g, n: g.standard_normal(n), 1.0),
    "log-normal, log-scale 0.3": (
        lambda g, n: np.exp(0.3 * g.standard_normal(n)),
        0.09 / (1 - np.exp(-0.09)),
    ),
    "uniform": (lambda g, n: g.random(n), 12 / (2 * np.pi * np.sqrt(3))),
}


@pytest.mark.parametrize("law", LAWS)
def test_squared_slopes_are_not_inflated_by_spacings(law):
    """Between neighbouring rows their mean would be twice too large, between knots 3 to 5 %."""
    draw, truth = LAWS[law]
    found, plain = [], []
    for seed in range(60):
        column = draw(np.random.default_rng(seed), 1000)
        margin = fit_margin(column, np.ones(1000))
        edges, squares = margin.squared_slopes()
        found.append(np.diff(ndtr(edges)) @ squares / column.var() / truth)
        plain.append(np.diff(ndtr(edges)) @ margin.slopes() ** 2 / column.var() / truth)
    error = np.std(found) / np.sqrt(len(found))
    assert error < 0.004
    assert abs(np.mean(found) - 1) < 0.01
    assert np.mean(plain) > 1.02


def test_square_of_a_spacing_is_taken_back_to_that_of_its_mean():
    """Exponential spacings: (m + 1)/m times the square of the mean, exactly."""
    m, gaps = 4, np.random.default_rng(0).exponential(size=(200_000, 4)).sum(axis=1)
    assert np.mean(gaps**2) * m / (m + 1) == pytest.approx(m**2, rel=0.01)
    margin = fit_margin(np.random.default_rng(0).standard_normal(300), np.ones(300))
    np.testing.assert_allclose(margin.shrink(), margin.rows / (margin.rows + 1))
    np.testing.assert_allclose(margin.rows, 300 * np.diff(ndtr(margin.scores)))


def test_gaps_between_levels_are_known_and_rows_at_a_level_end_the_slope():
    generator = np.random.default_rng(0)
    column = columns("zeros", 500, generator)
    margin = fit_margin(column, np.ones(500))
    assert margin.open_ends == (False, True)
    assert np.isinf(margin.rows[0])
    assert np.isfinite(margin.rows[1:]).all()
    edges, squares = margin.squared_slopes()
    assert np.isfinite(edges[0])
    assert np.isposinf(edges[-1])
    assert squares[0] == margin.slopes()[0] ** 2
    levels = fit_margin(columns("levels", 500, generator), np.ones(500))
    np.testing.assert_array_equal(levels.squared_slopes()[1], levels.slopes() ** 2)


def test_mean_squares_integrate_the_steps():
    margin = fit_margin(np.random.default_rng(0).exponential(size=300), np.ones(300))
    edges, squares = margin.squared_slopes()
    for low, high in ((-0.31, 0.94), (1.7, 9.0), (-8.0, -3.5), (0.2, 0.2)):
        points = low + (high - low) * (np.arange(100_000) + 0.5) / 100_000
        expected = squares[np.searchsorted(edges, points) - 1].mean()
        for pair in ((low, high), (high, low)):
            found = margin.mean_squares(*(np.array([end]) for end in pair))
            assert found[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("tilt", [1.0, -0.3, 0.05, 0.004])
def test_mean_squares_of_many_rows_are_interpolated_closely(tilt):
    """A row's mean does not depend on which other rows there are, far ones or many."""
    generator = np.random.default_rng(0)
    margin = fit_margin(generator.exponential(size=1000), np.ones(1000))
    cells = Cells(*margin.squared_slopes())
    start = generator.standard_normal(5000)
    many = cells.mean(np.concatenate([start, [-40.0, 40.0]]), tilt, None)
    few = np.concatenate([cells.mean(part, tilt, None) for part in np.split(start, 20)])
    # what a mean over a narrow line is off by, it is weighed with the square of its width
    assert np.abs(many[:-2] - few).max() * tilt**2 < 1e-5 * few.mean()
    assert abs(np.mean(many[:-2] - few)) * tilt**2 < 1e-8 * few.mean()
    np.testing.assert_allclose(many[-2:], cells.squares[[0, -1]])
    # and a single one is the normal integral itself
    nodes = ndtri((np.arange(200_000) + 0.5) / 200_000)
    expected = np.mean(cells(start[0] + tilt * nodes))
    assert few[0] == pytest.approx(expected, rel=1e-3)


def test_tables_are_the_same_made_once_or_each_time():
    generator = np.random.default_rng(0)
    cells = Cells(*fit_margin(generator.exponential(size=1000), np.ones(1000)).squared_slopes())
    start, tables = generator.standard_normal(5000), Tables()
    for tilt in (0.3, 0.7, 0.3, -0.7):
        once = cells.mean(start, tilt, None, tables)
        np.testing.assert_array_equal(once, cells.mean(start, tilt, None))
    again = pickle.loads(pickle.dumps(tables))  # noqa: S301
    np.testing.assert_array_equal(cells.mean(start, 0.3, None, again), cells.mean(start, 0.3, None))


@pytest.mark.parametrize("kind", ["normal", "skewed", "zeros", "few"])
def test_slope_terms_of_many_rows_are_those_of_their_places(kind, monkeypatch):
    """Rows on a knot, at the ends, and beyond what the margin was fitted to are among them."""
    generator = np.random.default_rng(3)
    column = columns(kind, 600, generator)
    transport = Copula().fit_matrix(column[:, None], ones(600), np.zeros(1, bool))
    knots = transport.margins[0].values
    rows = np.concatenate([column, knots, [knots[0] - 1.0, knots[-1] + 1.0]])[:, None]
    direct = slope_terms(rows, ones(len(rows)), transport)
    monkeypatch.setattr("dfi._data.source.LARGE_ROWS", 100)
    placed = slope_terms(rows, ones(len(rows)), transport)
    np.testing.assert_allclose(placed, direct, rtol=1e-12, atol=1e-12 * np.abs(direct).max())


def test_knots_depend_on_the_number_of_rows_only():
    """So a refit without some rows differs by those rows, not by where the knots fell."""
    generator = np.random.default_rng(0)
    first, second = (
        fit_margin(draw(size=400), np.ones(400))
        for draw in (generator.standard_normal, generator.exponential)
    )
    np.testing.assert_allclose(first.scores, second.scores, atol=1e-12)
    np.testing.assert_allclose(first.scores, -first.scores[::-1], atol=1e-12)
    # 200 rows that count twice are 400 rows; what they stand for in sampling are 200
    column = generator.standard_normal(200)
    weighted = fit_margin(column, np.full(200, 2.0))
    repeated = fit_margin(np.repeat(column, 2), np.ones(400))
    np.testing.assert_allclose(weighted.scores, repeated.scores, atol=1e-12)
    counts = [Weights(np.full(200, 2.0), kind).effective for kind in ("frequency", "sampling")]
    np.testing.assert_allclose(counts, [400.0, 200.0])
    assert Weights(np.array([3.0, 1.0, 0.0]), "sampling").effective == pytest.approx(1.6)
    fewer = knot_scores(380.0)
    assert np.abs(knot_scores(381.0)[-5:] - fewer[-5:]).max() < 0.01


def test_fresh_log_normal_rows_are_disentangled(largest_distance_correlation):
    transport = Copula().fit_matrix(log_normal(4000, 0), ones(4000), np.zeros(4, bool))
    fresh = log_normal(2000, 1)
    assert largest_distance_correlation(transport.encode(fresh)) <= 0.07
    linear = np.linalg.solve(symmetric_root(np.cov(fresh.T)), (fresh - fresh.mean(axis=0)).T).T
    assert largest_distance_correlation(linear) > 0.15


def test_round_trip_and_jacobian():
    X = log_normal(500, 0)
    transport = Copula().fit_matrix(X, ones(500), np.zeros(4, bool))
    latent = transport.encode(X)
    np.testing.assert_allclose(transport.decode(latent), X, rtol=1e-9)
    points = np.random.default_rng(1).standard_normal((500, 4))
    jacobian, step = transport.jacobian(points), 1e-7
    for j in range(4):
        up = points.copy()
        up[:, j] += step
        change = (transport.decode(up) - transport.decode(points)) / step / X.std(axis=0)
        np.testing.assert_allclose(jacobian[:, :, j], change, atol=1e-5)


def fold_of(model, X, seed=0):
    predictor = predictor_for(model, read_table(X), prefit=True)
    return [FoldModels(0, np.arange(len(X)), (predictor,), np.random.SeedSequence(seed))]


def copula_scores(X, y, model, *, fixed=True, attribution="shares"):
    n, d = X.shape
    transport = Copula(attribution=attribution).fit_matrix(X, ones(n), np.zeros(d, bool))
    pooled = transport._pooled(task_of(fold_of(model, X), X, y, ones(n)))
    influence = None if fixed else transport.influence(X)
    found = transport.attributed(pooled.lines, X, ones(n), influence=influence)
    return transport, pooled, (found.latent, found.attributed, found.jacobian)


@pytest.mark.parametrize("kind", ["skewed", "levels", "zeros"])
def test_trees_are_exact_in_score_space(kind):
    """Moved thresholds give the same predictions, and the line means of brute force."""
    generator = np.random.default_rng(0)
    X = np.column_stack([columns(kind, 400, generator), generator.standard_normal(400)])
    X[:, 1] += 0.5 * X[:, 0]
    y = X[:, 0] + X[:, 1] ** 2
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    transport = Copula(reference="gaussian").fit_matrix(X, ones(400), np.zeros(2, bool))
    predictor = predictor_for(forest, read_table(X), prefit=True)
    plain = line_model(predictor, X[:50], Quadrature())
    assert isinstance(plain, TreeLines)
    moved = through_margins(plain, transport)
    np.testing.assert_allclose(moved.predict(transport.scores(X)), forest.predict(X), rtol=1e-9)
    latent = transport.encode(X)[:5]
    pooled = transport._pooled(task_of(fold_of(forest, X), X, y, ones(400)))
    assert pooled.rule.startswith("exact")
    t = ndtri((np.arange(20_000) + 0.5) / 20_000)
    for i in range(5):
        for j in range(2):
            rows = np.repeat(latent[[i]], len(t), axis=0)
            rows[:, j] = t
            mean = forest.predict(transport.decode(rows)).mean()
            expected = (y[i] - mean) ** 2 - (y[i] - forest.predict(X[[i]])[0]) ** 2
            assert pooled.latent[i, j] == pytest.approx(expected, abs=2e-3 * np.var(y))


@pytest.mark.parametrize("attribution", ["shares", "slopes"])
def test_exact_scores_agree_with_curves(attribution):
    """The general scoring of any decoder is an independent twin of the score-space one."""
    X = log_normal(300, 3)
    y = np.log(X[:, 0]) + 0.1 * X[:, 1]
    model = RandomForestRegressor(5, min_samples_leaf=20, random_state=0).fit(X, y)
    transport, _, (latent, attributed, squared) = copula_scores(
        X, y, model, attribution=attribution
    )
    task = task_of(fold_of(model, X), X, y, ones(300), options=Quadrature("equal", 256))
    twin = curve_scores(task, transport, latent=transport.encode(X))
    scale = np.abs(latent).max()
    np.testing.assert_allclose(latent, twin.latent, atol=0.02 * scale)
    np.testing.assert_allclose(attributed.mean(axis=0), twin.attributed.mean(axis=0), rtol=0.03)
    np.testing.assert_allclose(squared, twin.attribution, rtol=0.02, atol=1e-3)


def linear_function(X):
    return 2.0 * X[:, 0] + X[:, 1]


def test_gaussian_data_have_the_closed_form():
    X = correlated_gaussian(AR, 4000, np.random.default_rng(5))
    y = linear_function(X)
    _, _, (latent, attributed, _) = copula_scores(X, y, linear_function, fixed=False)
    root = symmetric_root(AR)
    expected = (root @ np.array([2.0, 1.0, 0.0, 0.0])) ** 2
    for values, truth in ((latent, expected), (attributed, (root**2) @ expected)):
        error = values.std(axis=0) / np.sqrt(4000)
        assert (np.abs(values.mean(axis=0) - truth) < 3 * error).all()


def test_monotone_margins_do_not_change_latent_scores():
    """exp of Gaussian columns with the regression taken of their logarithms: the same phi_Z."""
    X = correlated_gaussian(AR, 2000, np.random.default_rng(6))
    y = linear_function(X)
    plain = copula_scores(X, y, linear_function)[2][0].mean(axis=0)
    bent = copula_scores(np.exp(X), y, lambda E: linear_function(np.log(E)))[2][0].mean(axis=0)
    np.testing.assert_allclose(bent, plain, rtol=0.03, atol=0.01)


@pytest.mark.full
def test_transport_terms_account_for_the_fitted_copula():
    """Their spread is that of the bootstrap, which fits the copula again each time."""
    n = 400
    X = np.exp(0.5 * correlated_gaussian(AR[:2, :2], n, np.random.default_rng(7)))
    function = lambda E: 2 * np.log(E[:, 0]) + np.log(E[:, 1])  # noqa: E731
    y = function(X)
    aware = copula_scores(X, y, function, fixed=False)[2]
    fixed = copula_scores(X, y, function)[2]
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(300):
        rows = generator.integers(0, n, n)
        found = copula_scores(X[rows], y[rows], function)[2]
        drawn.append(np.stack([part.mean(axis=0) for part in found[:2]]))
    for space, spread in enumerate(np.std(drawn, axis=0)):
        np.testing.assert_allclose(aware[space].std(axis=0) / np.sqrt(n), spread, rtol=0.2)
        assert (np.abs(fixed[space].std(axis=0) / np.sqrt(n) / spread - 1) > 0.2).any()


def test_two_levels_are_the_linear_transport():
    """0/1 columns have affine scores: the copula is then whitening itself."""
    from dfi.transports.gaussian import Gaussian

    generator = np.random.default_rng(0)
    first = (generator.random(500) < 0.3).astype(float)
    X = np.column_stack([first, np.where(generator.random(500) < 0.7, first, 1 - first)])
    copula = Copula().fit_matrix(X, ones(500), np.zeros(2, bool))
    linear = Gaussian().fit_matrix(X, ones(500), np.zeros(2, bool))
    np.testing.assert_allclose(copula.encode(X), linear.encode(X), atol=1e-9)
    assert copula.reference.kind == "empirical"
    np.testing.assert_allclose(copula.line_weights(linear.encode(X), 0), 1.0)


def test_collinear_columns_and_constant_columns():
    generator = np.random.default_rng(0)
    u = generator.exponential(size=600)
    X = np.column_stack([u, u, np.full(600, 7.0)])
    y = 3.0 * np.log(u)
    n = len(X)
    transport = Copula().fit_matrix(X, ones(n), np.array([False, False, True]))
    assert np.sum(transport.geometry.values > 0) == 1
    np.testing.assert_allclose(transport.decode(transport.encode(X)), X, rtol=1e-9)
    function = lambda X: 3.0 * np.log(X[:, 0])  # noqa: E731
    pooled = transport._pooled(task_of(fold_of(function, X), X, y, ones(n)))
    latent = transport.attributed(pooled.lines, X, ones(n)).latent.mean(axis=0)
    # equal columns share the signal equally
    assert latent[0] == pytest.approx(latent[1], rel=1e-6)


def test_error_of_the_slopes_vanishes_for_normal_margins_and_matches_the_spread_for_others():
    """Mean squared slopes of log-normal columns, over fresh samples and by their influence."""
    n, found, errors = 500, [], []
    for seed in range(150):
        X = np.exp(0.5 * np.random.default_rng([seed, 3]).standard_normal((n, 2)))
        transport = Copula().fit_matrix(X, ones(n), np.zeros(2, bool))
        margin = transport.margins[0]
        edges, squares = margin.squared_slopes()
        found.append(np.log(np.diff(ndtr(edges)) @ squares / X[:, 0].var()))
        errors.append(slope_terms(X, ones(n), transport)[:, 0].std() / np.sqrt(n))
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.35)
    normal = np.random.default_rng(0).standard_normal((4000, 2))
    transport = Copula().fit_matrix(normal, ones(4000), np.zeros(2, bool))
    assert slope_terms(normal, ones(4000), transport).std() < 0.5 * np.sqrt(n) * np.mean(errors)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"shrinkage": 1.5}, r"shrinkage must be a number in \[0, 1\) or 'ledoit-wolf', got 1.5"),
        ({"shrinkage": "lw"}, "shrinkage must be a number"),
        ({"reference": "normal"}, "reference must be 'auto', .* got 'normal'"),
    ],
)
def test_options_are_checked_at_once(option, message):
    with pytest.raises(ValueError, match=message):
        Copula(**option)
