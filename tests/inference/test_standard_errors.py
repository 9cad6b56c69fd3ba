import numpy as np
import pytest

from dfi._data.weights import Weights
from dfi.inference.influence import standard_errors


def test_against_numpy():
    u = np.random.default_rng(0).standard_normal((50, 3)) * [1.0, 5.0, 0.1]
    errors = standard_errors(u, Weights(np.ones(50), "frequency"))
    np.testing.assert_allclose(errors, u.std(axis=0, ddof=1) / np.sqrt(50))


def test_rounding_noise_counts_as_no_variation():
    rng = np.random.default_rng(1)
    u = np.column_stack([rng.standard_normal(200), 1e-16 + 1e-17 * rng.standard_normal(200)])
    errors = standard_errors(u, Weights(np.ones(200), "frequency"))
    assert errors[0] > 0
    assert errors[1] == 0.0


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_small_units_are_not_rounding(scale):
    u = scale * np.random.default_rng(2).standard_normal((40, 2))
    errors = standard_errors(u, Weights(np.ones(40), "frequency"))
    assert np.all(errors > 0)


def test_constant_column_has_no_variation_even_alone():
    assert standard_errors(np.full((30, 1), 0.1), Weights(np.ones(30), "frequency"))[0] == 0.0


def test_degenerate_and_single_row_are_nan():
    u = np.zeros((30, 2))
    u[:, 0] = np.arange(30)
    errors = standard_errors(
        u, Weights(np.ones(30), "frequency"), degenerate=np.array([False, True])
    )
    assert errors[0] > 0
    assert np.isnan(errors[1])
    assert np.isnan(standard_errors(np.ones((1, 1)), Weights(np.ones(1), "frequency"))[0])
