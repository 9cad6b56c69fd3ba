"""The influence values under a copula, put together from their parts by the formula itself."""

import numpy as np

from dfi._data.weights import Weights
from dfi._lines.quadrature import QuadratureLines
from dfi._scoring.lines import latent_scores
from dfi._scoring.map_error import MapInfluence, latent_terms
from dfi.transports import Copula
from dfi.transports.copula import slope_terms, through_margins


def scored(attribution):
    """Return a copula of skewed margins, the scores of a model and the influence of its rows."""
    generator = np.random.default_rng(0)
    root = np.array([[1.0, 0.6, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 0.9]])
    matrix = np.exp(0.7 * generator.standard_normal((120, 3)) @ root)
    y = matrix @ [1.0, -0.5, 0.2] + generator.standard_normal(120)
    weights = Weights(generator.uniform(0.5, 2.0, 120), "sampling")
    transport = Copula(attribution=attribution).fit_matrix(matrix, weights, np.zeros(3, dtype=bool))
    model = QuadratureLines(lambda rows: np.log(rows[:, 0]) - 0.3 * rows[:, 1], "gauss", 8)
    rows, linear = transport.scores(matrix), transport.linear
    scores = latent_scores(
        [through_margins(model, transport)], rows, y, weights.values, linear.geometry, form="loco"
    )
    influence = MapInfluence(linear.geometry, linear.geometry.standardize(rows))
    return transport, matrix, weights, scores, influence


def test_every_part_is_in_its_place():
    r"""IF_X = sum_j L^2 (w u + mean(w) T) + 2 sum_j L D E[w u] + phi Q, on skewed margins."""
    transport, matrix, weights, scores, influence = scored("slopes")
    rows, linear = transport.scores(matrix), transport.linear
    L = linear.geometry.decoder
    aware = transport.attributed(scores, matrix, weights, influence=influence)
    latent, attributed, squared = aware.latent, aware.attributed, aware.jacobian
    fixed = transport.attributed(scores, matrix, weights)
    known, plain = fixed.latent, fixed.attributed

    terms, slopes = latent_terms(influence, scores), slope_terms(matrix, weights, transport)
    np.testing.assert_allclose(known, scores.influence)
    np.testing.assert_allclose(latent, scores.influence + terms)
    unit = np.eye(3)
    for feature in range(3):
        expected = np.zeros(120)
        transport_part, phi = np.zeros(120), 0.0
        for j in range(3):
            weight = transport.line_weights(linear.encode(rows), j)[:, feature]
            product = weight * scores.influence[:, j]
            expected += L[feature, j] ** 2 * product
            transport_part += L[feature, j] ** 2 * weights.mean(weight)[0] * terms[:, j]
            change = influence.on_decoder(unit[:, [feature]], unit[:, [j]])[:, 0]
            transport_part += 2.0 * L[feature, j] * change * weights.mean(product)[0]
            phi += L[feature, j] ** 2 * weights.mean(product)[0]
            assert np.isclose(squared[feature, j], L[feature, j] ** 2 * weights.mean(weight)[0])
        np.testing.assert_allclose(plain[:, feature], expected)
        transport_part += phi * slopes[:, feature]
        np.testing.assert_allclose(attributed[:, feature], expected + transport_part)
    # the parts matter: none of them is lost in rounding
    assert np.abs(slopes).max() > 0.5
    assert np.abs(terms).max() > 0.01


def test_line_shares_and_their_terms_are_in_their_places():
    r"""omega u + mean(omega) T, and what moves a share: the decoder's columns and the slopes."""
    transport, matrix, weights, scores, influence = scored("shares")
    L, latent = transport.geometry.decoder, transport.encode(matrix)
    aware = transport.attributed(scores, matrix, weights, influence=influence)
    fixed = transport.attributed(scores, matrix, weights)
    terms, slopes = latent_terms(influence, scores), slope_terms(matrix, weights, transport)
    u, unit, mass = scores.influence, np.eye(3), weights.values / weights.values.sum()
    omega = np.empty((120, 3, 3))
    nodes, share = np.polynomial.hermite_e.hermegauss(60)
    for j in range(3):
        # by brute force: the features decoded along the line
        moved = np.repeat(latent, 60, axis=0)
        moved[:, j] = np.tile(nodes, 120)
        features = (transport.decode(moved) / transport.deviation).reshape(120, 60, 3)
        mean = np.einsum("itl,t->il", features, share / share.sum())
        square = np.einsum("itl,t->il", (features - mean[:, None]) ** 2, share)
        omega[:, j] = square / square.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        fixed.attributed, np.einsum("ijl,ij->il", omega, u), rtol=0.02, atol=0.02 * np.abs(u).max()
    )
    omega = np.stack([transport.effective_slopes(latent, j) * L[:, j] ** 2 for j in range(3)], 1)
    omega /= omega.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(fixed.attributed, np.einsum("ijl,ij->il", omega, u))
    mean = np.einsum("i,ijl->lj", mass, omega)
    rho = np.einsum("i,ijl,ij->lj", mass, omega, u) / L
    for feature in range(3):
        expected = np.einsum("ij,ij->i", omega[:, :, feature], u) + terms @ mean[feature]
        for j in range(3):
            change = [influence.on_decoder(unit[:, [m]], unit[:, [j]])[:, 0] for m in range(3)]
            own = 2.0 * np.array(change) * rho[:, [j]]
            expected += own[feature] - mean[feature, j] * own.sum(axis=0)
            for m in range(3):
                both = mass @ (omega[:, j, feature] * ((m == feature) - omega[:, j, m]) * u[:, j])
                expected += both * slopes[:, m]
        np.testing.assert_allclose(aware.attributed[:, feature], expected)
    np.testing.assert_allclose(aware.attributed.sum(axis=1), aware.latent.sum(axis=1), atol=1e-10)
    np.testing.assert_allclose(aware.jacobian, mean)
