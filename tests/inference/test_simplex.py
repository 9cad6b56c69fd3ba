"""Shares as they are shown: none is negative, and they add up to 1."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dfi.inference.shares import bounded, on_simplex

numbers = st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=12)


def adding_up(values):
    values = np.array(values)
    return values + (1.0 - values.sum()) / len(values)


@given(numbers)
def test_shares_are_on_the_simplex_and_keep_their_order(values):
    raw = adding_up(values)
    found = on_simplex(raw)
    assert found.min() >= 0.0
    assert abs(found.sum() - 1.0) < 1e-12
    assert np.all(np.diff(found[np.argsort(raw)]) >= 0.0)
    np.testing.assert_allclose(on_simplex(found), found, atol=1e-15)
    # the nearest point: what is left lacks the same amount, what is 0 lacked at least as much
    lacking = raw - found
    left = found > 0.0
    np.testing.assert_allclose(lacking[left], lacking[left].mean(), atol=1e-12)
    assert np.all(lacking[~left] <= lacking[left].mean() + 1e-12)


def test_it_is_the_nearest_point_that_an_optimiser_finds():
    raw = adding_up(np.random.default_rng(0).normal(size=6))
    found = minimize(
        lambda point: ((point - raw) ** 2).sum(), np.full(6, 1 / 6), bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda point: point.sum() - 1.0}, tol=1e-14,
    )  # fmt: skip
    np.testing.assert_allclose(on_simplex(raw), found.x, atol=1e-6)


def test_shares_that_are_possible_stay_to_the_bit_and_others_are_cut_off():
    known = np.array([0.1, 0.2, 0.3, 0.4])
    assert on_simplex(known).tolist() == known.tolist()
    some = np.array([-0.1, 0.2, 0.3])  # of groups that do not hold every unit
    assert on_simplex(some).tolist() == [0.0, 0.2, 0.3]
    assert np.isnan(on_simplex(np.full(3, np.nan))).all()


def test_intervals_hold_their_estimate_and_stay_between_0_and_1():
    raw = np.array([-0.1, 0.02, 1.08])
    columns = {"share": raw, "ci_low": raw - 0.05, "ci_high": raw + 0.05}
    found = bounded(columns, on_simplex(raw))
    np.testing.assert_allclose(found["share"], [0.0, 0.0, 1.0])
    np.testing.assert_allclose(found["ci_low"], [0.0, 0.0, 1.0])
    np.testing.assert_allclose(found["ci_high"], [0.0, 0.07, 1.0])
    unknown = bounded({**columns, "ci_low": np.full(3, np.nan)}, on_simplex(raw))
    assert np.isnan(unknown["ci_low"]).all()
