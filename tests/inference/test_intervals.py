import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from dfi.inference.intervals import (
    check_alternative,
    check_level,
    expand_standard_errors,
    wald_interval,
)

SCORES = np.array([2.0, 0.1, -3.0, 0.0])
ERRORS = np.array([0.5, 0.2, 1.0, np.nan])


def test_two_sided_endpoints_by_hand():
    low, high = wald_interval(SCORES, ERRORS, level=0.9, nonnegative=False)
    np.testing.assert_allclose(low[:3], SCORES[:3] - 1.6448536269514722 * ERRORS[:3])
    np.testing.assert_allclose(high[:3], SCORES[:3] + 1.6448536269514722 * ERRORS[:3])
    assert np.isnan(low[3])
    assert np.isnan(high[3])


def test_endpoints_are_projected_not_the_score():
    low, high = wald_interval(SCORES, ERRORS, level=0.9)
    assert low[1] == 0.0
    # a negative estimate lies in its own interval, and so does 0
    assert low[2] == SCORES[2] < 0.0
    assert high[2] == 0.0
    assert low[0] == pytest.approx(2.0 - 1.6448536269514722 * 0.5)
    assert np.isnan(low[3])


def test_one_sided_bounds_use_the_one_sided_quantile():
    low, high = wald_interval(SCORES[:1], ERRORS[:1], level=0.95, alternative="greater")
    assert low[0] == pytest.approx(2.0 - 1.6448536269514722 * 0.5)
    assert high[0] == np.inf
    low, high = wald_interval(SCORES[:1], ERRORS[:1], level=0.95, alternative="less")
    assert low[0] == 0.0
    assert high[0] == pytest.approx(2.0 + 1.6448536269514722 * 0.5)
    low, _ = wald_interval(
        SCORES[:1], ERRORS[:1], level=0.95, alternative="less", nonnegative=False
    )
    assert low[0] == -np.inf


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("error", [0.0, np.nan])
def test_no_standard_error_no_interval(alternative, error):
    low, high = wald_interval([1.0], [error], alternative=alternative)
    assert np.isnan(low[0])
    assert np.isnan(high[0])


def test_coverage_of_a_normal_estimate():
    # 20,000 normal estimates at nominal 90 %: Monte Carlo error 0.002; 4 of them allowed.
    rng = np.random.default_rng(3)
    estimates = 5.0 + 0.7 * rng.standard_normal(20_000)
    for alternative in ("two-sided", "greater", "less"):
        low, high = wald_interval(
            estimates, np.full(20_000, 0.7), level=0.9, alternative=alternative
        )
        covered = np.mean((low <= 5.0) & (high >= 5.0))
        assert abs(covered - 0.9) < 0.009


def test_expansion_of_the_standard_error_moves_a_one_sided_bound_by_var_over_root_n():
    n, variance, level = 611, 4.0, 0.95
    errors = np.array([0.0, 0.3])
    wide = expand_standard_errors(
        errors, expansion="standard_error", n=n, outcome_variance=variance, level=level
    )
    plain_reach = norm.ppf(level) * errors
    np.testing.assert_allclose(norm.ppf(level) * wide, plain_reach + variance / np.sqrt(n))


def test_expansion_of_the_variance_by_hand():
    wide = expand_standard_errors(
        [0.3], expansion="variance", n=100, outcome_variance=2.0, level=0.95
    )
    assert wide[0] == pytest.approx(np.sqrt(0.09 + 4.0 * 0.1 / 1.6448536269514722))


@pytest.mark.parametrize("expansion", ["standard_error", "variance"])
@given(scale=st.floats(1e-3, 1e3), error=st.floats(0.0, 10.0), n=st.integers(2, 10**6))
def test_expansion_widens_and_has_the_units_of_the_scores(expansion, scale, error, n):
    one = expand_standard_errors([error], expansion=expansion, n=n, outcome_variance=1.7, level=0.9)
    scaled = expand_standard_errors(
        [scale * error], expansion=expansion, n=n, outcome_variance=1.7 * scale, level=0.9
    )
    assert one[0] > error
    np.testing.assert_allclose(scaled, scale * one, rtol=1e-12)


def test_no_expansion_copies():
    errors = np.array([0.3, np.nan])
    same = expand_standard_errors(errors, expansion=None, n=5, outcome_variance=np.nan, level=0.3)
    np.testing.assert_array_equal(same, errors)
    assert same is not errors


def test_expansion_keeps_nan():
    wide = expand_standard_errors(
        [np.nan], expansion="variance", n=5, outcome_variance=1.0, level=0.9
    )
    assert np.isnan(wide[0])


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 95, np.nan])
def test_level_outside_the_unit_interval(level):
    with pytest.raises(ValueError, match=f"strictly between 0 and 1, got {level!r}"):
        check_level(level)


def test_level_of_the_wrong_type():
    with pytest.raises(TypeError, match="a number strictly between 0 and 1, got 'high'"):
        check_level("high")


def test_unknown_names():
    with pytest.raises(ValueError, match="'greater', 'less' or 'two-sided', got 'larger'"):
        check_alternative("larger")
    with pytest.raises(ValueError, match="'standard_error' or 'variance', got 'both'"):
        expand_standard_errors([1.0], expansion="both", n=5, outcome_variance=1.0, level=0.9)


def test_expansion_needs_a_level_above_half_and_a_unit():
    with pytest.raises(ValueError, match=r"must exceed 0.5, got 0.5"):
        expand_standard_errors([1.0], expansion="variance", n=5, outcome_variance=1.0, level=0.5)
    with pytest.raises(ValueError, match=r"not known here: got outcome_variance=nan"):
        expand_standard_errors([1.0], expansion="variance", n=5, outcome_variance=np.nan, level=0.9)
