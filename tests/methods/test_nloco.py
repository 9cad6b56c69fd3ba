"""nLOCO is a ratio: both of its parts are estimated, and both err."""

import numpy as np
import pytest

import dfi
from dfi.methods import NLOCO
from dfi.methods.loco import ratio_influence


def test_influence_of_a_ratio_is_its_derivative_in_the_rows_mass():
    generator = np.random.default_rng(0)
    top, bottom = generator.standard_normal((30, 2)) + 1.0, generator.uniform(0.5, 3.0, (30, 2))
    mass = generator.uniform(0.5, 2.0, 30)
    mass /= mass.sum()
    ratio = (mass @ top) / (mass @ bottom)
    found = ratio_influence(top, bottom, mass)
    np.testing.assert_allclose(mass @ found, ratio)
    for row in range(30):
        step = 1e-6
        moved = (1.0 - step) * mass
        moved[row] += step
        change = ((moved @ top) / (moved @ bottom) - ratio) / step
        np.testing.assert_allclose(found[row], ratio + change, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalize", ["outcome", "residual"])
def test_the_denominator_is_what_it_says(normalize):
    sample = dfi.datasets.m1(400, rho=0.8, d=3)
    both = dfi.compare(sample.X, sample.y, ["loco", NLOCO(normalize=normalize)], estimator="linear")
    share = both["nloco"].scores / both["loco"].scores
    expected = np.full(3, 1.0 / sample.y.var())
    if normalize == "residual":
        # 1/(R^-1)_jj: 1 - rho^2 for the correlated pair; out of fold, so to a few percent
        precision = np.linalg.inv(np.cov(sample.X.T))
        np.testing.assert_allclose(share, np.diag(precision), rtol=0.03)
    else:
        np.testing.assert_allclose(share, expected)
