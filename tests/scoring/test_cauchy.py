import numpy as np
import pytest

from dfi._scoring.map_error import cauchy_factors, cauchy_forms


def slow_forms(rows, roots, left, right):
    total = roots[:, None] + roots[None, :]
    kernel = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    return np.einsum("ia,ib,ab,ao,bo->io", rows, rows, kernel, left, right)


@pytest.mark.parametrize("d", [1, 4, 120])
@pytest.mark.parametrize("zeros", [0, 2])
def test_forms_equal_their_definition(d, zeros):
    # 120 columns take the low-rank path, 4 the direct one
    generator = np.random.default_rng(d + zeros)
    roots = 10.0 ** generator.uniform(-4, 1, d)
    roots[: min(zeros, d - 1)] = 0.0
    rows = generator.standard_normal((7, d))
    left, right = generator.standard_normal((2, d, 3))
    expected = slow_forms(rows, roots, left, right)
    found = cauchy_forms(rows, roots, left, right)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("spread", [0.0, 2.0, 5.0])
def test_few_factors_make_the_kernel(spread):
    roots = np.logspace(-spread, 0, 500)
    factors = cauchy_factors(roots)
    assert len(factors) < 60
    np.testing.assert_allclose(factors.T @ factors, 1 / (roots[:, None] + roots), rtol=1e-9)
