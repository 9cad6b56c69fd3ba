"""Latent scores: each form against its definition, blocks, kernels, sensitivities."""

from __future__ import annotations

import numpy as np
import pytest

import dfi
from dfi._data.weights import Weights
from dfi._lines.base import Lines
from dfi._lines.closed_form import LinearLines
from dfi._lines.quadrature import QuadratureLines
from dfi._scoring.lines import Passes, latent_scores, smoothing_points, tilt_sensitivity
from paper.truths import m2

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((90, 3)) @ GENERATOR.standard_normal((3, 3))
Y = X[:, 0] * X[:, 1] + GENERATOR.standard_normal(90)
MASS = GENERATOR.uniform(0.5, 2.0, 90)


def first(rows):
    return rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2])


def second(rows):
    return 0.8 * rows[:, 0] * rows[:, 1] + rows[:, 2]


def fitted(design, matrix=X):
    return design.fit_matrix(
        matrix, Weights(np.ones(len(matrix)), "frequency"), np.zeros(3, dtype=bool)
    )


MODELS = [QuadratureLines(first, "gauss", 12), QuadratureLines(second, "gauss", 12)]


def test_cross_form_multiplies_the_errors_of_two_models():
    transport = fitted(dfi.transports.Gaussian())
    found = latent_scores(MODELS, X, Y, MASS, transport.geometry, form="cross")
    offsets = np.zeros((1, 3))
    lines = Lines(
        X, transport.encode(X), transport.geometry.directions, transport.reference, offsets
    )
    errors, line_errors = [], []
    for model in MODELS:
        errors.append(Y - model.predict(X))
        line_errors.append(Y[:, None] - model.moments(lines).mean[0])
    expected = line_errors[0] * line_errors[1] - (errors[0] * errors[1])[:, None]
    assert np.allclose(found.influence, expected)
    delta = [line - error[:, None] for line, error in zip(line_errors, errors, strict=True)]
    expanded = errors[0][:, None] * delta[1] + errors[1][:, None] * delta[0] + delta[0] * delta[1]
    assert np.allclose(found.influence, expanded)
    assert np.allclose(found.prediction, (first(X) + second(X)) / 2)


def test_cross_form_of_one_model_twice_is_loco():
    transport = fitted(dfi.transports.Gaussian())
    twice = latent_scores([MODELS[0]] * 2, X, Y, MASS, transport.geometry, form="cross")
    loco = latent_scores(MODELS[:1], X, Y, MASS, transport.geometry, form="loco")
    assert np.allclose(twice.influence, loco.influence)
    assert np.allclose(twice.sensitivity, loco.sensitivity)


@pytest.mark.parametrize("form", ["cross", "loco", "cpi"])
def test_blocks_of_rows_do_not_matter(form):
    transport = fitted(dfi.transports.Gaussian())
    models = MODELS if form == "cross" else MODELS[:1]
    steps = []
    whole = latent_scores(models, X, Y, MASS, transport.geometry, form=form)
    parts = latent_scores(
        models, X, Y, MASS, transport.geometry, form=form, passes=Passes(20, advance=steps.append)
    )
    assert np.allclose(whole.influence, parts.influence)
    assert np.allclose(whole.sensitivity, parts.sensitivity)
    assert steps == [20, 20, 20, 20, 10]


def test_cpi_and_loco_agree_in_the_population():
    """E_t (y - eta(t))^2 = (y - m)^2 + Var_t eta: half of both differences is the same score."""
    generator = np.random.default_rng(1)
    big = generator.standard_normal((20_000, 3))
    y = first(big) + generator.standard_normal(20_000)
    transport = fitted(dfi.transports.Gaussian(reference="gaussian"), big)
    loco, cpi = (
        latent_scores(MODELS[:1], big, y, np.ones(20_000), transport.geometry, form=form)
        for form in ("loco", "cpi")
    )
    assert np.allclose(loco.influence.mean(axis=0), cpi.influence.mean(axis=0), rtol=0.05)


def test_random_kernel_averages_over_the_random_part():
    """With a duplicated column, u is the mean over nu_j ~ N(0, 1/2), here by fine quadrature."""
    twin = np.column_stack([X[:, 0], X[:, 0], X[:, 2]])
    transport = fitted(dfi.transports.Gaussian(reference="gaussian"), twin)
    model = QuadratureLines(lambda rows: np.sin(rows[:, 0]) + rows[:, 1], "gauss", 24)
    found = latent_scores([model], twin, Y, MASS, transport.geometry, form="loco")
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    offsets = nodes[:, None] * np.sqrt(transport.geometry.kernel_variance)
    lines = Lines(
        twin, transport.encode(twin), transport.geometry.directions, transport.reference, offsets
    )
    squares = (Y[:, None] - model.moments(lines).mean) ** 2
    expected = np.tensordot(weights / weights.sum(), squares, axes=1)
    expected = expected - (Y - model.predict(twin))[:, None] ** 2
    assert np.allclose(found.influence, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("d", [2, 5])
def test_smoothing_points_are_antithetic_and_normal(d):
    points = smoothing_points(256, d)
    assert points.shape == (256, d)
    assert np.allclose(points.mean(axis=0), 0)
    assert np.allclose(points.T @ points / 256, np.eye(d), atol=0.08)


def test_bridge_of_a_linear_model_row_by_row():
    """Averaged over many draws, u tends to its closed form in the whitened row."""
    slope, transport = np.array([1.0, -2.0, 0.5]), fitted(dfi.transports.Gaussian(epsilon=1.0))
    found = latent_scores(
        [LinearLines(slope, 3.0)], X, Y, MASS, transport.geometry, form="loco",
        passes=Passes(n_draws=4000, n_smoothing=2, seed=np.random.SeedSequence(0)),
    )  # fmt: skip
    s = transport.geometry.smoothing
    c2 = 1 - s**2
    b, white = slope @ transport.geometry.directions, transport.encode(X)
    level = 3.0 + slope @ transport.geometry.center
    eta_error = Y[:, None] - level - s**2 * (white @ b)[:, None]
    expected = 2 * s**2 * b * white * eta_error - 2 * s**2 * c2 * b**2
    expected += s**2 * b**2 * (s**2 * white**2 + c2)
    assert np.abs(found.influence - expected).max() < 0.1 * np.abs(expected).max()
    assert np.allclose(found.influence.mean(axis=0), expected.mean(axis=0), atol=0.05)


@pytest.mark.parametrize(
    ("function", "tolerance"),
    [
        (lambda rows: rows @ [1.0, -2.0, 0.5], 1e-9),
        (lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], 0.02),
        # neither additive nor bilinear in z: the covariance form is an approximation there, off
        # by up to a third for cosines of columns with correlation .7
        (lambda rows: 2 * np.cos(rows[:, 0]) + np.cos(rows[:, 1]), 0.35),
        (lambda rows: np.exp(0.4 * rows[:, 0] + 0.3 * rows[:, 1]) + rows[:, 2], 0.15),
    ],
    ids=["linear", "product", "cosine", "exponential"],
)
def test_both_ways_to_the_sensitivity(function, tolerance):
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    mass = np.einsum("a,b,c->abc", weights, weights, weights).ravel()
    root = np.array([[0.9, 0.4, 0.0], [0.4, 0.9, 0.1], [0.0, 0.1, 1.0]])
    rows = grid @ (root / np.sqrt((root**2).sum(axis=1, keepdims=True))).T
    # a grid of few effective rows, of a correlation that is known
    design = dfi.transports.Gaussian(components=None)
    transport = design.fit_matrix(rows, Weights(mass, "sampling"), np.zeros(3, dtype=bool))
    model = QuadratureLines(function, "gauss", 12)
    y = function(rows)
    covariance = latent_scores([model], rows, y, mass, transport.geometry, form="loco").sensitivity
    tilt = tilt_sensitivity([model], rows, y, mass, transport.geometry)
    np.fill_diagonal(covariance, 0.0)
    assert np.abs(covariance - tilt).max() < tolerance * np.abs(tilt).max()


@pytest.mark.parametrize(("count", "d"), [(32, 4), (32, 8), (64, 10), (32, 20)])
def test_smoothing_points_have_the_moments_of_the_normal_law(count, d):
    points = smoothing_points(count, d)
    moments = points.T @ points / len(points)
    assert points.mean(axis=0) == pytest.approx(np.zeros(d), abs=1e-12)
    assert np.diag(moments) == pytest.approx(np.ones(d))
    if 4 * d <= count:
        assert moments == pytest.approx(np.eye(d), abs=1e-10)


@pytest.mark.slow
def test_bridge_in_many_dimensions_is_not_lowered_by_its_smoothing():
    found = []
    for seed in range(12):
        sample = m2(600, rho=0.8, d=12, random_state=seed)
        explainer = dfi.DFI(
            estimator=sample.regression,
            cv="prefit",
            transport=dfi.transports.Gaussian(epsilon=2.0, n_smoothing=8),
            diagnose=False,
            transport_error="ignore",
        )
        found.append(explainer.fit(sample.X, sample.y).result_.latent.scores.sum())
    truth = sample.truth(space="latent", epsilon=2.0).sum()
    assert abs(np.mean(found) - truth) < 3 * np.std(found, ddof=1) / np.sqrt(len(found))


def test_cpi_form_row_by_row():
    """What is left of the outcome by the mean over replacement values, times what that changes."""
    transport = fitted(dfi.transports.Gaussian(reference="gaussian"))
    found = latent_scores(MODELS[:1], X, Y, MASS, transport.geometry, form="cpi")
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    latent = transport.encode(X)
    for j in range(3):
        mean = np.zeros(len(X))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            moved = latent.copy()
            moved[:, j] = node
            mean += weight * first(transport.decode(moved))
        assert np.allclose(found.influence[:, j], (Y - mean) * (first(X) - mean))


def pair_of_moments(transport):
    latent, offsets = transport.encode(X), np.zeros((1, 3))
    lines = Lines(X, latent, transport.geometry.directions, transport.reference, offsets)
    return latent, [model.moments(lines) for model in MODELS]


@pytest.mark.parametrize("rows_at_once", [1000, 17])
def test_hermite_short_cut_entry_by_entry(rows_at_once):
    """hbar_j E[z_k m_j] + sum_l a_lj E[z_k z_l m_j], m centred, h and m of different models."""
    transport = fitted(dfi.transports.Gaussian())
    found = latent_scores(
        MODELS, X, Y, MASS, transport.geometry, form="cross", passes=Passes(rows_at_once)
    ).sensitivity
    latent, pair = pair_of_moments(transport)
    share = MASS / MASS.sum()
    for k, j in [(0, 1), (1, 0), (2, 0), (1, 2)]:
        expected = 0.0
        for a, b in (pair, pair[::-1]):
            h, m = a.hermite[0, :, j], b.mean[0, :, j]
            level, centred = share @ h, m - share @ m
            expected += 0.5 * level * (share @ (latent[:, k] * centred))
            for other in range(3):
                if other != j:
                    slope = share @ (latent[:, other] * (h - level))
                    expected += 0.5 * slope * (share @ (latent[:, k] * latent[:, other] * centred))
        assert found[k, j] == pytest.approx(expected)
    for j in range(3):
        stretched = share @ (pair[0].hermite * pair[1].hermite)[0, :, j]
        assert found[j, j] == pytest.approx(stretched)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_rows_without_weight_do_not_count(epsilon):
    transport = fitted(dfi.transports.Gaussian(epsilon=epsilon))
    mass = np.where(np.arange(len(X)) < 60, MASS, 0.0)
    other = np.where(mass[:, None] > 0, X, 7.0)
    plain, moved = (
        latent_scores(
            MODELS, rows, Y, mass, transport.geometry, form="cross",
            passes=Passes(n_draws=2, n_smoothing=8, seed=np.random.SeedSequence(0)),
        )
        for rows in (X, other)
    )  # fmt: skip
    assert not np.allclose(plain.influence[60:], moved.influence[60:])
    assert np.allclose(plain.influence[:60], moved.influence[:60])
    for name in ("sensitivity", "gradient", "curvature"):
        assert np.allclose(getattr(plain, name), getattr(moved, name)), name
