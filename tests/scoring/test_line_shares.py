"""Line shares: variances of straight pieces by brute force, sums that are kept, linear maps."""

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

import dfi
from dfi._scoring.line_shares import Path, Tables, line_shares, node_variance
from dfi.datasets.simulations import correlated_gaussian
from dfi.transports import Copula, EntropicOT, KnotheRosenblatt

VINE = importlib.util.find_spec("pyvinecopulib") is not None


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.floats(0.05, 3.0), st.integers(0, 1000), st.booleans())
def test_variance_of_straight_pieces_is_that_of_many_points(count, width, seed, tabulated):
    generator = np.random.default_rng(seed)
    knots = np.sort(generator.uniform(-3, 3, count)) + 0.01 * np.arange(count)
    path = Path(knots, np.cumsum(generator.exponential(size=count)))
    start = generator.uniform(-3, 3, 2000 if tabulated else 10)
    points = ndtri((np.arange(20_001) + 0.5) / 20_001)
    found = path.squared_slope(start, -width, None, Tables())[:10]
    values = np.interp(start[:10, None] - width * points, knots, path.values)
    np.testing.assert_allclose(found * width**2, values.var(axis=1), rtol=2e-3, atol=1e-5)


def test_short_lines_have_the_slope_of_where_they_are():
    path = Path(np.array([-1.0, 0.0, 2.0]), np.array([0.0, 3.0, 4.0]))
    found = path.squared_slope(np.array([-2.0, -0.5, 1.0, 3.0]), 1e-4, None, Tables())
    np.testing.assert_allclose(found, [0.0, 9.0, 0.25, 0.0])


def test_lines_that_move_nothing_have_the_shares_they_are_given():
    variance = np.array([[0.0, 0.0], [3.0, 1.0]])
    np.testing.assert_allclose(line_shares(variance, np.array([0.0, 1.0])), [[0, 1], [0.75, 0.25]])


def test_node_variance_is_the_weighted_one():
    values = np.random.default_rng(0).standard_normal((4, 5, 2))
    weights = np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    for i in range(4):
        covariance = np.cov(values[i].T, aweights=weights, bias=True)
        np.testing.assert_allclose(node_variance(values, weights)[i], np.diag(covariance))


class Bent:
    """A user's decoder that bends sharply."""

    reference = "gaussian"

    def fit(self, X):
        return self

    def encode(self, X):
        return np.column_stack([X[:, 0], X[:, 1] - 3 * np.tanh(5 * X[:, 0]), *X[:, 2:].T])

    def decode(self, Z):
        return np.column_stack([Z[:, 0], Z[:, 1] + 3 * np.tanh(5 * Z[:, 0]), *Z[:, 2:].T])


CURVED = [Copula(), EntropicOT(epsilon=5.0, n_targets=512), Bent()]
CURVED += [KnotheRosenblatt()] if VINE else []


@pytest.mark.parametrize("transport", CURVED, ids=lambda t: type(t).__name__)
@pytest.mark.parametrize("error", ["auto", "ignore"])
def test_attributed_scores_add_up_to_the_latent_ones(transport, error):
    generator = np.random.default_rng(1)
    X = np.exp(0.7 * correlated_gaussian(0.5 + 0.5 * np.eye(3), 150, generator))
    y = X[:, 0] * X[:, 1] + generator.standard_normal(150)
    result = dfi.explain(
        X, y, "ridge", transport=transport, transport_error=error, diagnose=False, cv=2
    )
    assert result.scores.sum() == pytest.approx(result.latent.scores.sum(), abs=1e-9)
    assert result.spec["attribution"] == "shares"
    np.testing.assert_allclose(result.attribution.sum(axis=0), 1.0, atol=1e-9)


def test_normal_scores_of_normal_columns_have_the_squares_of_the_map():
    """Under a linear map a share is the squared entry, up to the error of the margins."""
    X = correlated_gaussian(0.6 + 0.4 * np.eye(3), 4000, np.random.default_rng(2))
    result = dfi.explain(
        X, X[:, 0], lambda X: X[:, 0], cv="prefit", transport="copula", diagnose=False
    )
    plain = dfi.explain(X, X[:, 0], lambda X: X[:, 0], cv="prefit", diagnose=False)
    np.testing.assert_allclose(result.attribution, plain.attribution, atol=0.01)


@pytest.mark.parametrize("kind", [Copula, EntropicOT, KnotheRosenblatt])
def test_attributions_of_blocks_are_refused(kind):
    with pytest.raises(ValueError, match="attribution must be 'shares' or 'slopes'"):
        kind(attribution="direction")
