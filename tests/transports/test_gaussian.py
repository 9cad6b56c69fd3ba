"""Linear transports: the coupling they claim to be, in every rank, unit and weighting."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

import dfi
from dfi._data.weights import Weights
from dfi.transports import TRANSPORTS, resolve_transport

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((200, 4)) @ GENERATOR.standard_normal((4, 4)) * [1, 20, 0.1, 1] + 7


def fit(design, matrix=X, mass=None, constant=None):
    mass = np.ones(len(matrix)) if mass is None else mass
    constant = np.zeros(matrix.shape[1], dtype=bool) if constant is None else constant
    return design.fit_matrix(matrix, Weights(mass, "sampling"), constant)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_latent_rows_are_white_and_decode_to_the_rows(standardize, weighted):
    mass = GENERATOR.uniform(0.1, 3, 200) if weighted else np.ones(200)
    transport = fit(dfi.transports.Gaussian(standardize=standardize), mass=mass)
    latent = transport.encode(X)
    assert np.allclose(np.average(latent, axis=0, weights=mass), 0, atol=1e-9)
    assert np.allclose((latent * mass[:, None]).T @ latent / mass.sum(), np.eye(4), atol=1e-8)
    assert np.allclose(transport.decode(latent), X, rtol=1e-9)


def test_decoder_is_the_symmetric_root_of_the_correlation():
    transport = fit(dfi.transports.Gaussian())
    assert np.allclose(transport.geometry.decoder, linalg.sqrtm(np.corrcoef(X.T)), atol=1e-10)
    assert np.allclose(transport.geometry.decoder, transport.geometry.decoder.T)
    assert np.allclose(transport.geometry.attribution, transport.geometry.decoder)


def test_directions_are_the_change_of_a_row_per_latent_unit():
    transport = fit(dfi.transports.Gaussian())
    latent = transport.encode(X[:3])
    for j in range(4):
        moved = latent.copy()
        moved[:, j] += 0.5
        step = transport.decode(moved) - transport.decode(latent)
        assert np.allclose(step, 0.5 * transport.geometry.directions[:, j], rtol=1e-8)


def test_constant_columns_have_no_latent_coordinate():
    matrix = np.insert(X, 2, 3.0, axis=1)
    transport = fit(dfi.transports.Gaussian(), matrix, constant=np.arange(5) == 2)
    assert transport.n_latent == 4
    assert np.allclose(transport.decode(transport.encode(matrix)), matrix)
    assert np.all(transport.geometry.directions[2] == 0)
    assert np.allclose(transport.geometry.decoder, fit(dfi.transports.Gaussian()).geometry.decoder)


@pytest.mark.parametrize("scale", [1.0, 1e8])
def test_random_kernel_of_a_duplicated_column_restores_the_law(scale):
    """Var(L^+ x) + the kernel's variance is 1 for every coordinate."""
    matrix = np.column_stack([X, X[:, 0] * scale])
    transport = fit(dfi.transports.Gaussian(), matrix)
    assert transport.rank == 4
    variance = transport.encode(matrix).var(axis=0)
    assert np.allclose(variance + transport.geometry.kernel_variance, 1)
    assert transport.geometry.kernel_variance[0] == pytest.approx(0.5)
    assert transport.geometry.kernel_variance[1] == 0.0
    nodes, weights = transport.geometry.offsets
    assert np.allclose(weights @ nodes**2, transport.geometry.kernel_variance)
    assert transport.geometry.kernel_loadings[4, 0] == pytest.approx(-1.0)
    assert np.isfinite(transport.diagnostics(np.arange(transport.n_latent))["condition"])


def test_more_columns_than_rows():
    matrix = GENERATOR.standard_normal((20, 35))
    transport = fit(dfi.transports.Gaussian(components=None, covariance="sample"), matrix)
    assert transport.rank == 19
    variance = transport.encode(matrix).var(axis=0) + transport.geometry.kernel_variance
    assert np.allclose(variance, 1)
    assert np.allclose(transport.decode(transport.encode(matrix)), matrix)


def test_nearly_collinear_columns_are_not_called_collinear():
    matrix = np.column_stack([X, X[:, 0] + 1e-3 * GENERATOR.standard_normal(200)])
    assert fit(dfi.transports.Gaussian(), matrix).rank == 5
    # a copy up to the last digits is a copy
    matrix[:, 4] = X[:, 0] * (1 + 1e-15)
    assert fit(dfi.transports.Gaussian(), matrix).rank == 4


@pytest.mark.parametrize("amount", [0.25, "ledoit-wolf"])
def test_shrinkage_mixes_in_the_identity(amount):
    transport = fit(dfi.transports.Gaussian(shrinkage=amount))
    share = transport.correlations.shrinkage
    assert 0 < share < 1
    shrunken = (1 - share) * np.corrcoef(X.T) + share * np.eye(4)
    assert np.allclose(transport.geometry.decoder @ transport.geometry.decoder, shrunken)
    raw = (
        transport.geometry.vectors
        @ np.diag(transport.geometry.raw_values)
        @ transport.geometry.vectors.T
    )
    assert np.allclose(raw, np.corrcoef(X.T))


def test_shrinkage_fills_the_rank():
    matrix = np.column_stack([X, X[:, 0]])
    transport = fit(dfi.transports.Gaussian(shrinkage=0.1), matrix)
    assert transport.rank == 5
    assert not transport.geometry.kernel_variance.any()


def test_reference_laws():
    assert fit(dfi.transports.Gaussian()).reference.kind == "empirical"
    assert fit(dfi.transports.Gaussian(reference="gaussian")).reference.kind == "gaussian"
    assert fit(dfi.transports.Gaussian(epsilon=0.5)).reference.kind == "gaussian"
    reference = fit(dfi.transports.Gaussian()).reference
    assert np.allclose(reference.values, np.sort(fit(dfi.transports.Gaussian()).encode(X), axis=0))
    mean, square = reference.moments(4)
    assert np.allclose(mean, 0, atol=1e-12)
    assert np.allclose(square, 1)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 2.0, 10.0])
def test_bridge_solves_the_entropic_problem(epsilon):
    """Among Gaussian couplings with correlation s the cost 2 - 2s + eps KL is least at this s."""
    s = dfi.transports.Gaussian(epsilon=epsilon).correlation()

    def cost(r):
        return 2 - 2 * r - epsilon / 2 * np.log(1 - r**2)

    assert cost(s) < min(cost(s + 1e-6), cost(s - 1e-6))
    grid = np.linspace(0.001, 0.9999, 5000)
    assert cost(s) <= cost(grid).min() + 1e-12
    assert 0 < s < 1


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 2.0])
def test_published_form_is_no_coupling_with_the_standard_normal(epsilon):
    """Its Z has variance s^2 + tau < 1, where the exact bridge has s^2 + (1 - s^2) = 1.

    The published conditional law N(s x, tau I) drops the target potential; its correlation is
    not the minimiser of the entropic cost either.
    """
    s, tau = 2 / (2 + epsilon), epsilon / (2 + epsilon)
    assert s**2 + tau < 1
    generator = np.random.default_rng(1)
    white = generator.standard_normal(200_000)
    published = s * white + np.sqrt(tau) * generator.standard_normal(200_000)
    assert published.var() == pytest.approx(s**2 + tau, rel=0.02)
    exact = dfi.transports.Gaussian(epsilon=epsilon).correlation()
    bridge = exact * white + np.sqrt(1 - exact**2) * generator.standard_normal(200_000)
    assert bridge.var() == pytest.approx(1.0, rel=0.02)
    if epsilon > 0.1:
        assert published.var() < 0.96
        assert abs(exact - s) > 0.01
    else:
        assert exact == pytest.approx(s, abs=1e-3)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 2.0])
def test_published_attribution_matrix(epsilon):
    """W = L M_w, M_w = s S (tau I + s^2 S)^-1 with S the whitened sample covariance, here I."""
    transport = fit(dfi.transports.Semicontinuous(epsilon=epsilon))
    s, tau = 2 / (2 + epsilon), epsilon / (2 + epsilon)
    white = transport.encode(X)
    covariance = white.T @ white / len(X)
    M = s * covariance @ np.linalg.inv(tau * np.eye(4) + s**2 * covariance)
    assert np.allclose(transport.geometry.attribution, transport.geometry.decoder @ M, atol=1e-8)
    assert transport.geometry.smoothing == 1.0


def test_bridge_attribution_is_s_times_the_root():
    transport = fit(dfi.transports.Gaussian(epsilon=1.0))
    assert np.allclose(
        transport.geometry.attribution, transport.geometry.smoothing * transport.geometry.decoder
    )


def test_transports_by_name():
    assert resolve_transport("gaussian") == dfi.transports.Gaussian()
    assert set(TRANSPORTS) >= {"gaussian", "semicontinuous"}
    given = dfi.transports.Gaussian(epsilon=0.3)
    assert resolve_transport(given) is given
    assert given.specification()["transport_form"] == "bridge"
