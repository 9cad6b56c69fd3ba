import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import false_discovery_control

from dfi.inference.tests import adjust_p_values

METHODS = ["none", "bonferroni", "holm", "bh", "by"]
many_p = arrays(np.float64, st.integers(1, 12), elements=st.floats(0.0, 1.0))


def holm_step_down(p, alpha):
    """Reject the smallest p while it is at most alpha / (hypotheses left)."""
    rejected = [False] * len(p)
    left = len(p)
    for i in sorted(range(len(p)), key=lambda i: p[i]):
        if p[i] > alpha / left:
            break
        rejected[i] = True
        left -= 1
    return rejected


@given(many_p, st.floats(0.001, 0.999))
def test_holm_rejects_what_the_step_down_procedure_rejects(p, alpha):
    adjusted = adjust_p_values(p, "holm")
    if np.any(np.abs(adjusted - alpha) < 1e-9):  # rounding decides there
        return
    assert (adjusted <= alpha).tolist() == holm_step_down(p.tolist(), alpha)


@given(many_p)
def test_bonferroni_by_hand(p):
    expected = [min(1.0, value * len(p)) for value in p]
    np.testing.assert_allclose(adjust_p_values(p, "bonferroni"), expected)


@pytest.mark.parametrize("method", ["bh", "by"])
@given(p=many_p)
def test_false_discovery_rates_against_scipy(method, p):
    expected = false_discovery_control(p, method=method)
    np.testing.assert_allclose(adjust_p_values(p, method), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("method", METHODS)
@given(p=many_p, data=st.data())
def test_nan_is_left_out(method, p, data):
    position = data.draw(st.integers(0, len(p)))
    with_nan = np.insert(p, position, np.nan)
    adjusted = adjust_p_values(with_nan, method)
    assert np.isnan(adjusted[position])
    np.testing.assert_array_equal(np.delete(adjusted, position), adjust_p_values(p, method))


@pytest.mark.parametrize("method", METHODS)
@given(p=many_p, data=st.data())
def test_order_does_not_matter(method, p, data):
    order = np.array(data.draw(st.permutations(range(len(p)))))
    np.testing.assert_array_equal(
        adjust_p_values(p[order], method), adjust_p_values(p, method)[order]
    )


@given(p=many_p)
def test_from_lenient_to_strict(p):
    none, bh, by, holm, bonferroni = (
        adjust_p_values(p, method) for method in ("none", "bh", "by", "holm", "bonferroni")
    )
    slack = 1 + 1e-12
    for lenient, strict in [(none, bh), (bh, by), (bh, holm), (holm, bonferroni)]:
        assert np.all(lenient <= strict * slack)
    assert np.all(bonferroni <= 1.0)
    assert np.all(by <= 1.0)


def test_input_is_not_changed_and_none_is_no_adjustment():
    p = np.array([0.01, 0.02, np.nan])
    kept = p.copy()
    np.testing.assert_array_equal(adjust_p_values(p, None), kept)
    adjust_p_values(p, "holm")
    np.testing.assert_array_equal(p, kept)
    assert adjust_p_values([], "holm").size == 0
    assert np.isnan(adjust_p_values([np.nan], "by")).all()


def test_errors():
    with pytest.raises(ValueError, match="unknown adjustment 'fdr'; choose one of 'none', 'bonf"):
        adjust_p_values([0.1], "fdr")
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        adjust_p_values([0.1, 1.5], "holm")
    with pytest.raises(ValueError, match=r"one-dimensional, got shape \(1, 2\)"):
        adjust_p_values([[0.1, 0.2]], "holm")
