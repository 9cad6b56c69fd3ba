"""The entropic transport: kernels, decoder, Jacobian, and the scores that come from them."""

from dataclasses import replace

import numpy as np
import pytest

import dfi
from dfi._data.weights import Weights
from dfi._models.crossfit import FoldModels
from dfi._scoring.kernel import entropic_scores, line_averages, nodes_and_weights
from dfi.datasets.simulations import correlated_gaussian, m1, m4, symmetric_root
from dfi.transports.entropic import EntropicOT, epsilon_for, kappa, normal_points
from tests.scoring.tasks import task_of

R = np.array([[1.0, 0.6], [0.6, 1.0]])
BETA = np.array([2.0, 1.0])


def ones(n):
    return Weights(np.ones(n), "frequency")


def linear(X):
    return X @ BETA


def one_fold(n, *predictors):
    return [FoldModels(0, np.arange(n), predictors, np.random.SeedSequence(0))]


def scores(design, X, y, *predictors, form="loco"):
    n = len(X)
    transport = design.fit_matrix(X, ones(n), np.zeros(X.shape[1], bool))
    halves = [(transport.without(part, 1e-6).kernel, part) for part in design.halves(n)]
    task = task_of(one_fold(n, *predictors), X, y, ones(n), form=form)
    return entropic_scores(
        task, transport.kernel, atom_rows=np.arange(n), halves=halves, slopes=transport.by_slopes
    )


@pytest.fixture(scope="module")
def small():
    X = m4(300, d=3, random_state=3).X
    return X, EntropicOT(epsilon=0.7, n_targets=512).fit_matrix(X, ones(300), np.zeros(3, bool))


def test_weights_sum_to_one_and_meet_both_margins(small):
    X, transport = small
    forward, backward = (
        transport.kernel.forward(X),
        transport.kernel.backward(transport.kernel.targets),
    )
    np.testing.assert_allclose(forward.sum(axis=1), 1.0)
    np.testing.assert_allclose(backward.sum(axis=1), 1.0)
    assert np.abs(forward.mean(axis=0) - 1 / 512).sum() < 1e-5
    assert np.abs(backward.mean(axis=0) - 1 / 300).sum() < 1e-5


def test_both_kernels_are_one_coupling(small):
    """E[h(Z) | X_i] = n E_Z[alpha_i(Z) h(Z)]."""
    X, transport = small
    h = np.sin(transport.kernel.targets).sum(axis=1)
    left = transport.kernel.forward(X) @ h
    right = 300 * transport.kernel.backward(transport.kernel.targets).T @ h / 512
    np.testing.assert_allclose(left, right, atol=1e-4)


def test_jacobian_is_the_derivative_of_the_decoder(small):
    X, transport = small
    points = np.random.default_rng(0).standard_normal((20, 3))
    jacobian, step = transport.jacobian(points), 1e-5
    for j in range(3):
        up, down = points.copy(), points.copy()
        up[:, j] += step
        down[:, j] -= step
        change = (transport.decode(up) - transport.decode(down)) / (2 * step * X.std(axis=0))
        np.testing.assert_allclose(jacobian[:, :, j], change, atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.7, 0.02])
def test_one_matrix_product_per_coordinate_is_the_naive_average(small, epsilon):
    """Also where the kernel underflows and the log domain takes over (epsilon = 0.02)."""
    X, transport = small
    transport = replace(transport, kernel=replace(transport.kernel, epsilon=epsilon))
    value = np.column_stack([X[:, 0], X[:, 1] ** 2])
    points = transport.kernel.targets[:7]
    found = line_averages([transport.kernel], [value], points, slopes=True)
    shared = line_averages([transport.kernel], [value], points).received
    nodes, weights = nodes_and_weights()
    np.testing.assert_allclose(found.eta[0], transport.kernel.backward(points) @ value, rtol=1e-9)
    for j in range(3):
        curve, slope, features = [], [], []
        for t in nodes:
            moved = points.copy()
            moved[:, j] = t
            curve.append(transport.kernel.backward(moved) @ value)
            slope.append(transport.jacobian(moved)[:, :, j])
            features.append(transport.decode(moved) / X.std(axis=0))
        mean = np.tensordot(weights, curve, axes=1)
        np.testing.assert_allclose(found.mean[0, j], mean, rtol=1e-7, atol=1e-9)
        square = np.tensordot(weights, np.square(curve), axes=1)
        np.testing.assert_allclose(found.square[0, j], square, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(
            found.received[j], np.tensordot(weights, np.square(slope), axes=1), rtol=1e-6, atol=1e-7
        )
        mean = np.tensordot(weights, features, axes=1)
        variance = np.tensordot(weights, np.square(features - mean), axes=1)
        moves = variance.sum(axis=1) > 1e-8
        assert moves.any()
        np.testing.assert_allclose(
            shared[j][moves], (variance / variance.sum(axis=1, keepdims=True))[moves], atol=1e-6
        )


def test_scores_are_averages_over_draws_of_the_latent_row(small):
    """u_i = E[(y - m(Z))^2 - (y - eta(Z))^2 | X_i], by brute force over the kernel."""
    X, transport = small
    y = X[:, 0] + 0.1 * X[:, 1]
    task = task_of(one_fold(300, lambda X: X[:, 0]), X, y, ones(300))
    result = entropic_scores(task, transport.kernel, atom_rows=np.arange(300))
    found = line_averages([transport.kernel], [X[:, :1]], transport.kernel.targets)
    eta, mean, jacobian = found.eta[0, :, 0], found.mean[0, :, :, 0], found.received
    forward = transport.kernel.forward(X[:5])
    for i in range(5):
        per_point = (y[i] - mean) ** 2 - (y[i] - eta) ** 2
        np.testing.assert_allclose(result.latent[i], per_point @ forward[i], rtol=1e-8)
        weighted = np.einsum("jm,jml->lm", per_point, jacobian)
        np.testing.assert_allclose(result.attributed[i], weighted @ forward[i], rtol=1e-8)


def test_population_values_on_gaussian_data():
    """phi_Z = c^2 (L beta)^2 and phi_X = (L*L) phi_Z by shares, c^2 times that by slopes.

    Quasi-random rows and no noise show the bias, which is asked to be below 5 % and is below 1 %.
    Independent rows would add a sampling error of 2 to 4 %, and one sample in ten would be 5 % off.
    """
    X = normal_points(4000, 2, np.random.SeedSequence(9)) @ symmetric_root(R)
    result = scores(EntropicOT(epsilon=1.0), X, linear(X), linear)
    c = np.sqrt(1 + 1 / 16) - 1 / 4
    root = symmetric_root(R)
    shared = (root @ BETA) ** 2
    np.testing.assert_allclose(result.latent.mean(axis=0), c**2 * shared, rtol=0.01)
    truth = c**2 * (root**2) @ shared
    np.testing.assert_allclose(result.attributed.mean(axis=0), truth, rtol=0.01)
    slopes = scores(EntropicOT(epsilon=1.0, attribution="slopes"), X, linear(X), linear)
    np.testing.assert_allclose(slopes.attributed.mean(axis=0), c**2 * truth, rtol=0.01)


def test_without_whitening_the_decoder_is_the_gaussian_one():
    """Standardised only: E[X | Z = z] = C z with C = (R + eps^2/16)^(1/2) - eps/4."""
    X = correlated_gaussian(R, 4000, np.random.default_rng(2))
    X = (X - X.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(X.T, bias=True))).T
    X = X @ np.linalg.cholesky(R).T
    transport = EntropicOT(epsilon=1.0, whiten=False).fit_matrix(X, ones(4000), np.zeros(2, bool))
    values, vectors = np.linalg.eigh(R)
    expected = (vectors * (np.sqrt(values + 1 / 16) - 0.25)) @ vectors.T
    points = np.random.default_rng(0).standard_normal((2000, 2))
    fitted = np.linalg.lstsq(points, transport.decode(points), rcond=None)[0].T
    np.testing.assert_allclose(fitted, expected, atol=0.03)


def test_cross_form_and_cpi_agree_with_loco_for_one_model():
    X = correlated_gaussian(R, 500, np.random.default_rng(0))
    y = linear(X)
    design = EntropicOT(epsilon=1.0, n_targets=512)
    loco = scores(design, X, y, linear)
    cross = scores(design, X, y, linear, linear, form="cross")
    np.testing.assert_allclose(loco.latent, cross.latent)
    np.testing.assert_allclose(loco.attributed, cross.attributed)
    cpi = scores(design, X, y, linear, form="cpi")
    # the CPI-type estimator has the same mean for additive regressions of independent latents
    np.testing.assert_allclose(cpi.latent.mean(axis=0), loco.latent.mean(axis=0), rtol=0.05)


def test_split_halves_remove_what_noise_adds_to_null_scores():
    X = np.random.default_rng(0).standard_normal((2000, 3))
    y = 3.0 * X[:, 0]
    whole, halves = (
        scores(EntropicOT(epsilon=0.5, n_targets=1024, split=split), X, y, lambda X: 3 * X[:, 0])
        for split in (False, True)
    )
    null = np.abs(whole.attributed.mean(axis=0)[1:]).mean()
    assert np.abs(halves.attributed.mean(axis=0)[1:]).mean() < 0.4 * null


def test_null_block_scores_nothing():
    X = np.random.default_rng(0).standard_normal((2000, 2))
    result = scores(EntropicOT(epsilon=1.0, n_targets=2048), X, 3 * X[:, 0], lambda X: 3 * X[:, 0])
    assert result.attributed.mean(axis=0)[1] < 0.02 * result.attributed.mean(axis=0)[0]


def test_draws_of_fresh_rows_are_nearly_independent_on_m4(largest_distance_correlation):
    X, fresh = m4(2000, d=2, random_state=1).X, m4(1000, d=2, random_state=2).X
    transport = EntropicOT(epsilon=0.5).fit_matrix(X, ones(2000), np.zeros(2, bool))
    drawn = transport.encode(fresh, np.random.default_rng(0))
    raw = largest_distance_correlation(transport.linear.encode(fresh))
    assert raw > 0.45
    assert largest_distance_correlation(drawn) <= 0.12
    # the conditional mean is not independent: only draws are
    mean = transport.kernel.forward(fresh) @ transport.kernel.targets
    assert largest_distance_correlation(mean) > 0.2


def test_weights_count_rows():
    X = np.random.default_rng(0).standard_normal((120, 2))
    counts = np.random.default_rng(1).integers(0, 3, 120).astype(float)
    design = EntropicOT(epsilon=1.0, n_targets=512, tol=1e-10)
    constant = np.zeros(2, bool)
    weighted = design.fit_matrix(X, Weights(counts, "frequency"), constant)
    repeated = np.repeat(X, counts.astype(int), axis=0)
    plain = design.fit_matrix(repeated, ones(len(repeated)), constant)
    points = np.random.default_rng(2).standard_normal((30, 2))
    np.testing.assert_allclose(weighted.decode(points), plain.decode(points), atol=1e-8)


@pytest.mark.parametrize(("n", "d"), [(2000, 2), (2000, 5), (1000, 3)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_rule_predicts_the_effective_size_from_below(n, d, epsilon):
    X = np.random.default_rng(0).standard_normal((n, d))
    transport = EntropicOT(epsilon=epsilon, n_targets=512).fit_matrix(X, ones(n), np.zeros(d, bool))
    measured = np.median(transport.effective_sizes(transport.kernel.targets))
    assert 0.6 < measured / (n * kappa(epsilon) ** d) < 3.0


def test_fresh_error_is_above_the_solved_one_and_small(small):
    X = m4(500, d=2).X
    transport = EntropicOT(epsilon=1.0).fit_matrix(X, ones(500), np.zeros(2, bool))
    assert transport.solution.error <= 1e-6 < transport.fresh_error() < 0.02


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
def test_epsilon_must_be_positive(epsilon):
    with pytest.raises(ValueError, match=r"epsilon > 0.*transport='gaussian'"):
        EntropicOT(epsilon=epsilon)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"n_targets": 1}, "n_targets must be a whole number of 2"),
        ({"tol": 0.0}, "tol must be"),
        ({"min_size": "30"}, "min_size must be a positive number of rows"),
        ({"min_size": -1.0}, "min_size must be a positive number of rows"),
        ({"random_state": -1}, "random_state must be a whole number of 0 or more"),
    ],
)
def test_options_are_checked_at_once(option, message):
    with pytest.raises(ValueError, match=message):
        EntropicOT(**option)


def test_too_small_epsilon_names_one_that_works():
    assert epsilon_for(1000, 2, 30) == pytest.approx(0.1)
    enough = epsilon_for(1000, 5, 30)
    assert 1000 * kappa(enough) ** 5 >= 30 > 1000 * kappa(enough - 0.1) ** 5
    assert epsilon_for(50, 40, 30) is None


@pytest.mark.parametrize("split", [False, True])
def test_cross_form_of_two_models_polarises_loco(split):
    """Both are quadratic in the model: cross(a, b) = 2 loco((a + b)/2) - (loco(a) + loco(b))/2."""
    X = correlated_gaussian(R, 400, np.random.default_rng(0))
    y = linear(X) + np.random.default_rng(1).standard_normal(400)
    design = EntropicOT(epsilon=1.0, n_targets=256, split=split)
    one, other = (lambda rows: np.sin(rows[:, 0])), (lambda rows: rows[:, 0] * rows[:, 1])
    cross = scores(design, X, y, one, other, form="cross")
    first, second, middle = (
        scores(design, X, y, model)
        for model in (one, other, lambda rows: 0.5 * (one(rows) + other(rows)))
    )
    for name in ("latent", "attributed"):
        found, a, b, c = (getattr(part, name) for part in (cross, first, second, middle))
        np.testing.assert_allclose(found, 2 * c - 0.5 * (a + b), atol=1e-8)


def test_halves_have_half_the_rows():
    sample = m1(300, d=2)
    sizes = [
        dfi.explain(
            sample.X, sample.y, estimator=sample.regression, cv="prefit", diagnose=False,
            transport=EntropicOT(epsilon=5.0, n_targets=256, split=split), transport_error="ignore",
        ).diagnostics["effective_sample_size"]
        for split in (False, True)
    ]  # fmt: skip
    assert sizes[0] > 200
    assert sizes[1] == pytest.approx(sizes[0] / 2)
