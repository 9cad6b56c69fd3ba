"""The transport's own error: against loops, and against first principles.

First principles means the infinitesimal jackknife. The sample is a product Gauss-Hermite grid of
latent points with its weights, so the coordinates are exactly independent and all moments
are exactly normal; then the derivative of a score with respect to the weight of one row *is* the
influence function, and the formulas must agree with it to the accuracy of a finite difference.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import linalg

from dfi._data import source
from dfi._data.weights import Weights
from dfi._lines.quadrature import QuadratureLines
from dfi._scoring.lines import LineScores, Passes, latent_scores, tilt_sensitivity
from dfi._scoring.map_error import MapInfluence, attributed_influence, latent_terms
from dfi.transports.gaussian import Gaussian

CORRELATION = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]])
DUPLICATE = np.array([[1.0, 1.0, 0.3], [1.0, 1.0, 0.3], [0.3, 0.3, 1.0]])


def collinear_correlation():
    """Return the correlation of x0, x1, x0 + x1 and a fourth column that leans on both."""
    loadings = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.5, 0.2, 1.0]])
    covariance = loadings @ loadings.T
    deviation = np.sqrt(np.diag(covariance))
    return covariance / np.outer(deviation, deviation)


def normal_grid(correlation, n_nodes, mean=0.0, deviation=1.0):
    """Return rows and weights of a product Gauss-Hermite rule for N(0, correlation)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    weights = weights / weights.sum()
    values, vectors = np.linalg.eigh(correlation)
    kept = values > 1e-9
    root = vectors[:, kept] * np.sqrt(values[kept])
    latent = np.array(list(itertools.product(nodes, repeat=int(kept.sum()))))
    mass = np.prod(np.array(list(itertools.product(weights, repeat=int(kept.sum())))), axis=1)
    return (latent @ root.T) * deviation + mean, mass


def fitted(design, X, mass):
    # every entry of the correlation matrix is estimated: components have tests of their own below
    design = replace(design, components=None)
    return design.fit_matrix(X, Weights(mass, "sampling"), np.zeros(X.shape[1], dtype=bool))


def scores_of(design, X, y, mass, function):
    """Return both scores of a known regression at given row weights."""
    transport = fitted(design, X, mass)
    model = QuadratureLines(function, "gauss", 12)
    found = latent_scores([model], X, y, mass, transport.geometry, form="loco")
    latent = mass @ found.influence / mass.sum()
    return latent, (transport.geometry.attribution**2) @ latent


def influence_of(design, X, y, mass, function, G):
    transport = fitted(design, X, mass)
    model = QuadratureLines(function, "gauss", 12)
    found = latent_scores([model], X, y, mass, transport.geometry, form="loco")
    if G == "tilt":
        sensitivity = tilt_sensitivity([model], X, y, mass, transport.geometry)
        np.fill_diagonal(sensitivity, np.diag(found.sensitivity))
        found = replace(found, sensitivity=sensitivity)
    scores = mass @ found.influence / mass.sum()
    on_map = MapInfluence(transport.geometry, transport.geometry.standardize(X))
    latent = found.influence + latent_terms(on_map, found)
    attributed = attributed_influence(latent, scores, transport.geometry, on_map)
    return latent - scores, attributed - (transport.geometry.attribution**2) @ scores


def weight_derivative(function_of_mass, mass, row):
    """Return the derivative of a functional along the law moved towards one row."""
    step = min(1e-5, mass[row] / 2)
    ends = []
    for sign in (1.0, -1.0):
        moved = mass * (1.0 - sign * step)
        moved[row] += sign * step
        ends.append(function_of_mass(moved))
    return [(up - down) / (2 * step) for up, down in zip(*ends, strict=True)]


def worst_errors(function_of_mass, influence, mass, n_rows=6):
    """Return the largest error of influence values, relative to the largest derivative."""
    rows = np.random.default_rng(0).choice(
        np.flatnonzero(mass > 1e-4 * mass.max()), n_rows, replace=False
    )
    derivatives = [weight_derivative(function_of_mass, mass, row) for row in rows]
    worst = []
    for space in range(2):
        truth = np.array([values[space] for values in derivatives])
        worst.append(np.abs(truth - influence[space][rows]).max() / np.abs(truth).max())
    return worst


def linear(X):
    return X @ np.resize([2.0, -1.0, 0.5], X.shape[1])


def product(X):
    return X[:, 0] * X[:, 1] + X[:, 2]


def cosines(X):
    return 3 * np.cos(X[:, 0]) + np.cos(X[:, 1])


def exponential(X):
    return np.exp(0.5 * X[:, 0] + 0.3 * X[:, 1]) + X[:, 2]


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("reference", ["gaussian", "empirical"])
@pytest.mark.parametrize("function", [linear, product])
def test_influence_is_the_infinitesimal_jackknife(function, reference, standardize):
    X, mass = normal_grid(CORRELATION, 8, np.array([0.0, 1.0, -2.0]), np.array([1.0, 2.0, 0.5]))
    design = Gaussian(reference=reference, standardize=standardize)
    y = function(X)
    influence = influence_of(design, X, y, mass, function, "hermite")
    worst = worst_errors(lambda w: scores_of(design, X, y, w, function), influence, mass)
    assert max(worst) < 1e-7


@pytest.mark.parametrize("function", [product, cosines, exponential])
def test_tilted_influence_is_the_infinitesimal_jackknife_of_any_model(function):
    """The central difference has a step of 0.1: its own error is some thousandths."""
    X, mass = normal_grid(CORRELATION, 12)
    y = function(X)
    influence = influence_of(Gaussian(), X, y, mass, function, "tilt")
    worst = worst_errors(lambda w: scores_of(Gaussian(), X, y, w, function), influence, mass)
    assert max(worst) < 5e-3


def m2(X):
    return 5 * np.cos(X[:, 0]) + 5 * np.cos(X[:, 1])


def exponential_of_sum(X):
    return np.exp(0.4 * X.sum(axis=1))


def logit(X):
    return 1 / (1 + np.exp(-1.5 * X[:, 0] - X[:, 2]))


PAIR = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    ("function", "correlation"),
    [(m2, PAIR[:2, :2]), (exponential_of_sum, PAIR), (logit, PAIR)],
    ids=["M2", "exponential", "logit"],
)
def test_hermite_terms_are_close_to_the_numerical_derivative(function, correlation):
    """What the transport adds, by derivatives in row weights less the row's own share.

    The bound is the accuracy that was promised for the short cut.
    """
    X, mass = normal_grid(correlation, 12)
    y = function(X)
    transport = fitted(Gaussian(), X, mass)
    found = latent_scores(
        [QuadratureLines(function, "gauss", 12)], X, y, mass, transport.geometry, form="loco"
    )
    scores = mass @ found.influence / mass.sum()
    heavy = np.flatnonzero(mass > 1e-3 * mass.max())
    rows = np.random.default_rng(1).choice(heavy, min(30, len(heavy)), replace=False)
    truth = np.array(
        [
            weight_derivative(lambda w: scores_of(Gaussian(), X, y, w, function), mass, row)[0]
            for row in rows
        ]
    ) - (found.influence[rows] - scores)
    latent, _ = influence_of(Gaussian(), X, y, mass, function, "hermite")
    terms = latent[rows] - (found.influence[rows] - scores)
    assert np.sqrt(np.mean((terms - truth) ** 2) / np.mean(truth**2)) < 0.12


def curved_product(X):
    return X[:, 0] * X[:, 1] + 0.5 * X[:, 1] ** 2 + X[:, 2]


@pytest.mark.parametrize("G", ["hermite", "tilt"])
def test_influence_of_a_quadratic_under_a_duplicated_column(G):
    """Products of a random kernel's parts: h, m and the latent rows all have one."""
    X, mass = normal_grid(DUPLICATE, 8)
    y = curved_product(X)
    design = Gaussian(covariance="sample", reference="gaussian")
    influence = influence_of(design, X, y, mass, curved_product, G)
    worst = worst_errors(lambda w: scores_of(design, X, y, w, curved_product), influence, mass)
    assert max(worst) < 5e-3


@pytest.mark.parametrize("G", ["hermite", "tilt"])
@pytest.mark.parametrize(
    ("correlation", "design"),
    [
        (DUPLICATE, Gaussian(covariance="sample", reference="gaussian")),
        (DUPLICATE, Gaussian(covariance="sample", reference="empirical")),
        (DUPLICATE, Gaussian(covariance="sample", reference="gaussian", standardize=False)),
        (collinear_correlation(), Gaussian(reference="gaussian")),
        (
            collinear_correlation(),
            Gaussian(covariance="sample", reference="gaussian", standardize=False),
        ),
    ],
    ids=["duplicate", "duplicate-empirical", "duplicate-raw", "sum", "sum-raw"],
)
def test_influence_under_collinear_columns(correlation, design, G):
    """A collinear column gives the kernel a random part, which moves with the transport too."""
    X, mass = normal_grid(correlation, 6)
    y = linear(X)
    influence = influence_of(design, X, y, mass, linear, G)
    worst = worst_errors(lambda w: scores_of(design, X, y, w, linear), influence, mass)
    assert max(worst) < 1e-7


class QuadraticBridge:
    """The bridge for a quadratic regression, with every expectation in closed form.

    With ``mu(center + T v) = a + b'v + v'Mv`` the latent regression is
    ``a + s b'z + s^2 z'Mz + c^2 tr M``, and its line mean puts ``E t = 0``, ``E t^2 = 1``.
    """

    slope = np.array([2.0, -1.0, 0.5])

    def __init__(self, curved, epsilon, standardize):
        self.curve = curved * np.array([[0.3, 0.4, 0.0], [0.4, -0.2, 0.1], [0.0, 0.1, 0.25]])
        self.design = Gaussian(epsilon=epsilon, standardize=standardize)
        self.X, self.mass = normal_grid(
            CORRELATION, 6, np.array([0.0, 0.5, -0.2]), np.array([1.0, 2.0, 0.5])
        )
        self.y = self.regression(self.X)
        self.noise, self.noise_mass = normal_grid(np.eye(3), 4)

    def regression(self, X):
        return 5.0 + X @ self.slope + np.einsum("ia,ab,ib->i", X, self.curve, X)

    def coefficients(self, transport):
        directions, center = transport.geometry.directions, transport.geometry.center
        b = directions.T @ (self.slope + 2 * self.curve @ center)
        return self.regression(center[None])[0], b, directions.T @ self.curve @ directions

    def latent_values(self, mass):
        """Return the transport and the expected influence values of each row at known map."""
        transport = fitted(self.design, self.X, mass)
        s = transport.geometry.smoothing
        c = np.sqrt(1 - s**2)
        a, b, M = self.coefficients(transport)
        a = a + c**2 * np.trace(M)
        Z = s * transport.encode(self.X)[:, None, :] + c * self.noise[None]
        eta = a + s * Z @ b + s**2 * np.einsum("ipa,ab,ipb->ip", Z, M, Z)
        values = np.empty((len(self.X), 3))
        y = self.y[:, None]
        for j in range(3):
            k = np.arange(3) != j
            rest = np.einsum("ipa,ab,ipb->ip", Z[..., k], M[np.ix_(k, k)], Z[..., k])
            line_mean = a + s * Z[..., k] @ b[k] + s**2 * (rest + M[j, j])
            values[:, j] = ((y - line_mean) ** 2 - (y - eta) ** 2) @ self.noise_mass
        return transport, values

    def scores(self, mass):
        transport, values = self.latent_values(mass)
        latent = mass @ values / mass.sum()
        return latent, (transport.geometry.attribution**2) @ latent

    def exact_moments(self, transport, values):
        s = transport.geometry.smoothing
        _, b, M = self.coefficients(transport)
        G = np.zeros((3, 3))
        for j in range(3):
            k = np.arange(3) != j
            G[:, j] = s * b[j] * b + 4 * s**3 * M[:, k] @ M[j, k]
        return LineScores(values, self.y, G, s * b, 2 * s**2 * M)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("curved", [0.0, 1.0])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_bridge_influence_is_the_infinitesimal_jackknife(epsilon, curved, standardize):
    bridge = QuadraticBridge(curved, epsilon, standardize)
    transport, values = bridge.latent_values(bridge.mass)
    found = bridge.exact_moments(transport, values)
    scores = bridge.mass @ values / bridge.mass.sum()
    on_map = MapInfluence(transport.geometry, transport.geometry.standardize(bridge.X))
    latent = values + latent_terms(on_map, found)
    attributed = attributed_influence(latent, scores, transport.geometry, on_map)
    influence = latent - scores, attributed - (transport.geometry.attribution**2) @ scores
    assert max(worst_errors(bridge.scores, influence, bridge.mass)) < 1e-7


@pytest.mark.full
def test_bridge_moments_come_out_of_the_rows():
    """Hermite coefficients and G by simulation, unmoved by a large intercept."""
    bridge = QuadraticBridge(1.0, 0.5, standardize=True)
    generator = np.random.default_rng(1)
    root = np.linalg.cholesky(CORRELATION)
    X = generator.standard_normal((4000, 3)) @ root.T
    bridge.X, bridge.y = X, bridge.regression(X)
    transport = fitted(bridge.design, X, np.ones(len(X)))
    exact = bridge.exact_moments(transport, np.zeros((len(X), 3)))
    for intercept in (0.0, 1e4):
        model = QuadratureLines(lambda rows, a=intercept: a + bridge.regression(rows), "gauss", 8)
        found = latent_scores(
            [model], X, bridge.y + intercept, np.ones(len(X)), transport.geometry,
            form="loco", passes=Passes(n_draws=4, n_smoothing=32),
        )  # fmt: skip
        off_diagonal = ~np.eye(3, dtype=bool)
        scale = np.abs(exact.sensitivity).max()
        assert np.allclose(found.gradient, exact.gradient, atol=0.1)
        assert np.allclose(found.curvature, exact.curvature, atol=0.15)
        assert np.allclose(
            found.sensitivity[off_diagonal], exact.sensitivity[off_diagonal], atol=0.1 * scale
        )


# --- the slow twin: explicit n x d x d matrices, the Sylvester equation row by row ---------------


def slow_matrices(transport, x):
    """Return D and A of one standardised row by the definitions, matrix by matrix."""
    L, R = transport.geometry.decoder, None
    d = len(x)
    w, V = transport.geometry.raw_values, transport.geometry.vectors
    R = V @ np.diag(w) @ V.T
    square = np.diag(x**2)
    if transport.geometry.standardized:
        on_correlation = np.outer(x, x) - 0.5 * (square @ R + R @ square)
    else:
        on_correlation = np.outer(x, x) - R
    a = transport.correlations.shrinkage
    change = (1 - a) * on_correlation + a * np.trace(on_correlation) / d * np.eye(d)
    if transport.rank == d:
        D = linalg.solve_sylvester(L, L, change)
    else:
        roots = np.sqrt(transport.geometry.values)
        rotated = V.T @ change @ V
        for p, q in itertools.product(range(d), repeat=2):
            total = roots[p] + roots[q]
            rotated[p, q] = rotated[p, q] / total if total > 0 else 0.0
        D = V @ rotated @ V.T
    inverse = np.linalg.pinv(L, rcond=1e-6)
    A = inverse @ D
    if transport.geometry.standardized:
        A = A + 0.5 * inverse @ (square - np.eye(d)) @ L
    return D, A


def slow_influence(transport, rows, values, scores, G):
    """Return both influence matrices by loops over rows and coordinates."""
    n, d = rows.shape
    latent, attributed = np.array(values), np.zeros((n, d))
    W = transport.geometry.attribution
    P = transport.geometry.decoder @ np.linalg.pinv(transport.geometry.decoder, rcond=1e-6)
    for i in range(n):
        D, A = slow_matrices(transport, rows[i])
        turn = 0 * A
        if transport.geometry.standardized:
            turn = -0.5 * (np.eye(d) - P) @ np.diag(rows[i] ** 2) @ P
        for j in range(d):
            latent[i, j] += 2 * sum(A[k, j] * G[k, j] for k in range(d) if k != j)
            latent[i, j] += 2 * turn[j, j] * G[j, j]
        for unit in range(d):
            for j in range(d):
                attributed[i, unit] += W[unit, j] ** 2 * latent[i, j]
                attributed[i, unit] += (
                    2 * W[unit, j] * transport.geometry.weight_factor * D[unit, j] * scores[j]
                )
    return latent, attributed


def twin_case(name):
    generator = np.random.default_rng(3)
    X = generator.standard_normal((25, 4)) @ generator.standard_normal((4, 4)) * [1, 10, 0.1, 1]
    mass = np.ones(25)
    design = Gaussian()
    if name == "duplicate":
        X[:, 1] = X[:, 0] * 3
    if name == "sum":
        X[:, 3] = X[:, 0] + X[:, 1]
    if name == "raw":
        design = Gaussian(standardize=False)
    if name == "shrunk":
        design = Gaussian(shrinkage=0.3)
    if name == "ledoit-wolf":
        design = Gaussian(shrinkage="ledoit-wolf")
    if name == "raw shrunk":
        design = Gaussian(shrinkage=0.3, standardize=False)
    if name == "weighted":
        mass = generator.uniform(0.2, 3.0, 25)
    return X, mass, design


@pytest.mark.parametrize(
    "name",
    ["full", "duplicate", "sum", "raw", "shrunk", "raw shrunk", "ledoit-wolf", "weighted"],
)
def test_contractions_equal_loops_over_explicit_matrices(name):
    X, mass, design = twin_case(name)
    transport = fitted(design, X, mass)
    generator = np.random.default_rng(4)
    values, G = generator.standard_normal(X.shape), generator.standard_normal((4, 4))
    scores = mass @ values / mass.sum()
    rows = transport.geometry.standardize(X)
    on_map = MapInfluence(transport.geometry, rows)
    latent = values + latent_terms(
        on_map, LineScores(values, np.zeros(len(X)), G, np.zeros(4), np.zeros((4, 4)))
    )
    attributed = attributed_influence(latent, scores, transport.geometry, on_map)
    slow_latent, slow_attributed = slow_influence(transport, rows, values, scores, G)
    assert np.allclose(latent, slow_latent, rtol=1e-10, atol=1e-10 * np.abs(slow_latent).max())
    assert np.allclose(
        attributed, slow_attributed, rtol=1e-10, atol=1e-10 * np.abs(slow_attributed).max()
    )


def test_fixed_transport_leaves_the_plain_influence_values():
    X, mass, design = twin_case("full")
    transport = fitted(design, X, mass)
    values = np.random.default_rng(5).standard_normal(X.shape)
    plain = attributed_influence(values, values.mean(axis=0), transport.geometry, None)
    assert np.allclose(plain, values @ (transport.geometry.decoder**2).T, rtol=1e-12)


def test_terms_have_mean_zero():
    """The terms move standard errors, never scores."""
    X, mass, design = twin_case("weighted")
    transport = fitted(design, X, mass)
    G = np.random.default_rng(6).standard_normal((4, 4))
    on_map = MapInfluence(transport.geometry, transport.geometry.standardize(X))
    zero = LineScores(np.zeros(X.shape), np.zeros(len(X)), G, np.zeros(4), np.zeros((4, 4)))
    terms = latent_terms(on_map, zero)
    assert np.abs(mass @ terms / mass.sum()).max() < 1e-12 * np.abs(terms).max()


# dependence components: entries between them are known to be 0, and have no influence

BLOCKS = [["x0", "x3"], ["x1", "x2", "x4"]]


def component_designs():
    options = {"components": BLOCKS}
    return [
        Gaussian(**options),
        Gaussian(standardize=False, **options),
        Gaussian(shrinkage=0.3, **options),
        Gaussian(shrinkage=0.3, standardize=False, **options),
        Gaussian(epsilon=1.0, **options),
        Gaussian(components=[["x0", "x5"]], standardize=False, shrinkage=0.2),
    ]


@pytest.mark.parametrize("design", component_designs(), ids=repr)
@pytest.mark.parametrize("collinear", [False, True])
def test_contractions_are_those_of_the_masked_influence(design, collinear):
    """A twin that builds the masked influence on R of every row and solves for D in full."""
    g = np.random.default_rng(30)
    X = g.standard_normal((40, 6)) @ g.standard_normal((6, 6)) * [1, 3, 0.5, 1, 1, 2]
    if collinear:
        X[:, 3] = 2 * X[:, 0]
        X[:, 4] = X[:, 1] - X[:, 2]
    transport = design.fit_matrix(X, Weights(np.ones(40), "frequency"), np.zeros(6, dtype=bool))
    rows = transport.geometry.standardize(X)
    mask = transport.labels[:, None] == transport.labels[None, :]
    raw = np.where(mask, rows.T @ rows / 40, 0.0)
    product = rows[:, :, None] * rows[:, None, :]
    if transport.geometry.standardized:
        square = rows[:, :, None] ** 2
        change = product - 0.5 * (square * raw + raw * square.transpose(0, 2, 1))
    else:
        change = product - raw
    change = np.where(mask, change, 0.0)
    a = transport.correlations.shrinkage
    identity = np.eye(6) * np.trace(change, axis1=1, axis2=2)[:, None, None] / 6
    change = (1 - a) * change + a * (0.0 if transport.geometry.standardized else 1.0) * identity
    values, vectors = np.linalg.eigh(transport.geometry.decoder)
    values = np.where(values > 1e-9, values, 0.0)
    total = values[:, None] + values[None, :]
    kernel = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    D = vectors @ ((vectors.T @ change @ vectors) * kernel) @ vectors.T
    A = transport.geometry.encoder @ D
    if transport.geometry.standardized:
        scaled = (rows**2 - 1)[:, :, None] * transport.geometry.decoder
        A = A + 0.5 * transport.geometry.encoder @ scaled
    left, right = g.standard_normal((2, 6, 4))
    influence = MapInfluence(transport.geometry, rows)
    expected = np.einsum("iab,ao,bo->io", D, left, right)
    assert np.allclose(influence.on_decoder(left, right), expected, atol=1e-8)
    expected = np.einsum("iab,ao,bo->io", A, left, right)
    assert np.allclose(influence.on_map(left, right), expected, atol=1e-8)
    assert np.all(np.abs(np.where(mask, 0.0, D)) < 1e-12)


@pytest.mark.parametrize("design", component_designs(), ids=repr)
def test_contractions_are_derivatives_of_the_fitted_map(design):
    """Decoder and directions fitted again at other row weights, the components held fixed."""
    g = np.random.default_rng(31)
    X = g.standard_normal((30, 6)) @ g.standard_normal((6, 6)) * [1, 3, 0.5, 1, 1, 2]
    mass = g.uniform(0.5, 2.0, 30)
    constant = np.zeros(6, dtype=bool)
    transport = design.fit_matrix(X, Weights(mass, "sampling"), constant)

    def maps(w):
        fitted = design.fit_matrix(X, Weights(w, "sampling"), constant, like=transport)
        return fitted.geometry.decoder, fitted.geometry.directions

    mass = mass / mass.sum()
    influence = MapInfluence(transport.geometry, transport.geometry.standardize(X))
    first, second = (part.ravel() for part in np.indices((6, 6)))
    units = np.eye(6)
    on_decoder = influence.on_decoder(units[:, first], units[:, second]).reshape(-1, 6, 6)
    on_map = influence.on_map(units[:, first], units[:, second]).reshape(-1, 6, 6)
    for row in (0, 7, 21):
        decoder, directions = weight_derivative(maps, mass, row)
        assert np.allclose(on_decoder[row], decoder, atol=1e-6 * np.abs(decoder).max())
        change = np.linalg.solve(transport.geometry.directions, directions)
        assert np.allclose(on_map[row], change, atol=1e-6 * np.abs(change).max())


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("reference", ["gaussian", "empirical"])
def test_influence_within_components_is_the_infinitesimal_jackknife(reference, standardize):
    """Between components the grid is independent, and the components are held fixed."""
    correlation = np.eye(4)
    correlation[0, 2] = correlation[2, 0] = 0.6
    X, mass = normal_grid(correlation, 6, np.array([0.0, 1.0, -2.0, 3.0]), np.array([1, 2, 0.5, 1]))
    design = Gaussian(
        reference=reference,
        standardize=standardize,
        components=[["x0", "x2"]],
    )

    def function(rows):
        return rows[:, 0] * rows[:, 1] + rows[:, 2] - 0.5 * rows[:, 1]

    y = function(X)

    def fit(w):
        return design.fit_matrix(X, Weights(w, "sampling"), np.zeros(4, dtype=bool))

    def scores(w):
        transport = fit(w)
        model = QuadratureLines(function, "gauss", 12)
        found = latent_scores([model], X, y, w, transport.geometry, form="loco")
        latent = w @ found.influence / w.sum()
        return latent, (transport.geometry.attribution**2) @ latent

    transport = fit(mass)
    model = QuadratureLines(function, "gauss", 12)
    found = latent_scores([model], X, y, mass, transport.geometry, form="loco")
    tilted = tilt_sensitivity([model], X, y, mass, transport.geometry)
    np.fill_diagonal(tilted, np.diag(found.sensitivity))
    found = replace(found, sensitivity=tilted)
    phi = mass @ found.influence / mass.sum()
    on_map = MapInfluence(transport.geometry, transport.geometry.standardize(X))
    latent = found.influence + latent_terms(on_map, found)
    attributed = attributed_influence(latent, phi, transport.geometry, on_map)
    centred = latent - phi, attributed - (transport.geometry.attribution**2) @ phi
    assert max(worst_errors(scores, centred, mass)) < 1e-7


@pytest.mark.parametrize("options", [{}, {"standardize": False, "shrinkage": 0.1}])
def test_many_rows_are_contracted_in_parts(options, monkeypatch):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((500, 4)) @ generator.standard_normal((4, 4))
    fitted = Gaussian(**options).fit_matrix(
        X, Weights(np.ones(500), "frequency"), np.zeros(4, bool)
    )
    influence = MapInfluence(fitted.geometry, fitted.geometry.standardize(X))
    left, right = generator.standard_normal((2, 4, 3))
    at_once = influence.on_map(left, right), influence.on_decoder(left, right)
    monkeypatch.setattr(source, "LARGE_ROWS", 100)
    monkeypatch.setattr(source, "BLOCK_ROWS", 130)
    np.testing.assert_allclose(influence.on_map(left, right), at_once[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        influence.on_decoder(left, right), at_once[1], rtol=1e-10, atol=1e-12
    )
