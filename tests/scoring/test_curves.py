"""Curves under a linear map are lines: every number of theirs must come out of both ways."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import dfi

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((90, 3)) @ GENERATOR.standard_normal((3, 3))
Y = X @ [1.0, -0.5, 0.0] + GENERATOR.standard_normal(90)
WEIGHTS = GENERATOR.uniform(0.5, 2.0, 90)


class Whitening:
    """The Gaussian transport as a user's own."""

    reference = "gaussian"

    def fit(self, rows, sample_weight):
        share = sample_weight / sample_weight.sum()
        self.center = share @ rows
        self.scale = np.sqrt(share @ (rows - self.center) ** 2)
        standard = (rows - self.center) / self.scale
        values, vectors = np.linalg.eigh((standard * share[:, None]).T @ standard)
        self.root = (vectors * np.sqrt(values)) @ vectors.T
        return self

    def encode(self, X):
        return (X - self.center) / self.scale @ np.linalg.inv(self.root)

    def decode(self, Z):
        return self.center + (Z @ self.root) * self.scale

    def jacobian(self, Z):
        return np.broadcast_to(self.scale[:, None] * self.root, (len(Z), 3, 3))


@pytest.mark.parametrize("form", ["cross", "loco", "cpi"])
def test_curves_of_a_linear_map_are_its_lines(form):
    """Folds, repeats, weights and both models of the cross form find their own rows."""
    straight, curved = (
        dfi.explain(
            X, Y, estimator=LinearRegression(), transport=transport, cv=3, n_repeats=2, form=form,
            sample_weight=WEIGHTS, transport_error="ignore", diagnose=False,
            integration=dfi.Quadrature("gauss"),
        )
        for transport in (dfi.transports.Gaussian(reference="gaussian"), Whitening())
    )  # fmt: skip
    np.testing.assert_allclose(curved.influence, straight.influence, atol=1e-9)
    np.testing.assert_allclose(curved.latent.influence, straight.latent.influence, atol=1e-9)
    np.testing.assert_allclose(curved.spread, straight.spread, atol=1e-9)
    np.testing.assert_allclose(curved.latent.spread, straight.latent.spread, atol=1e-9)
    np.testing.assert_allclose(curved.attribution, straight.attribution, atol=1e-9)
    assert curved.quality == straight.quality


def test_mean_squared_slopes_are_weighted():
    """Rows count in the attribution matrix as much as they weigh."""

    class Cubic:
        attribution = "slopes"

        def fit(self, X, sample_weight):
            return self

        def encode(self, X):
            return np.cbrt(X)

        def decode(self, Z):
            return Z**3

        def jacobian(self, Z):
            # of the second feature along the first coordinate, so it varies between rows
            result = np.zeros((len(Z), 2, 2))
            result[:, 1, 0] = Z[:, 1]
            return result

    rows = GENERATOR.standard_normal((60, 2)) ** 3
    weights = GENERATOR.uniform(0.5, 4.0, 60)
    result = dfi.explain(
        rows, rows[:, 0] + GENERATOR.standard_normal(60), estimator=LinearRegression(),
        transport=Cubic(), cv=3, sample_weight=weights, transport_error="ignore", diagnose=False,
    )  # fmt: skip
    center = np.average(rows[:, 1], weights=weights)
    variance = np.average((rows[:, 1] - center) ** 2, weights=weights)
    expected = np.average(np.cbrt(rows[:, 1]) ** 2, weights=weights) / variance
    assert result.attribution[1, 0] == pytest.approx(expected)
