import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from dfi.inference.tests import p_values, z_statistics


def upper_tail(z):
    return 0.5 * math.erfc(z / math.sqrt(2.0))


def test_z_by_hand():
    z = z_statistics([2.0, 1.0, 1.0], [0.5, 0.0, np.nan], null=1.0)
    assert z[0] == 2.0
    assert np.isnan(z[1:]).all()


@given(score=st.floats(-5, 5), error=st.floats(0.1, 5), null=st.floats(-2, 2))
def test_p_values_against_the_error_function(score, error, null):
    z = (score - null) / error
    expected = {
        "greater": upper_tail(z),
        "less": upper_tail(-z),
        "two-sided": 2 * upper_tail(abs(z)),
    }
    for alternative, value in expected.items():
        p = p_values([score], [error], alternative=alternative, null=null)
        assert p[0] == pytest.approx(value, rel=1e-9)


def test_far_tail_is_not_rounded_to_zero():
    assert 0.0 < p_values([30.0], [1.0])[0] < 1e-190


def test_default_is_one_sided_against_zero():
    assert p_values([1.6448536269514722], [1.0])[0] == pytest.approx(0.05)


def test_uniform_under_the_null():
    rng = np.random.default_rng(1)
    scores = 0.3 * rng.standard_normal(5000)
    for alternative in ("greater", "less", "two-sided"):
        p = p_values(scores, np.full(5000, 0.3), alternative=alternative)
        assert kstest(p, "uniform").pvalue > 1e-4


def test_no_variation_is_no_evidence_and_no_error_is_no_hypothesis():
    for alternative in ("greater", "less", "two-sided"):
        p = p_values([0.0, 1e-18, 0.0], [0.0, 0.0, np.nan], alternative=alternative)
        assert p[0] == 1.0
        assert p[1] == 1.0
        assert np.isnan(p[2])


def test_unknown_alternative():
    with pytest.raises(ValueError, match=r"alternative must be .* got 'upper'"):
        p_values([1.0], [1.0], alternative="upper")
