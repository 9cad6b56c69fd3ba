"""Thresholds of splits in normal scores, at the knots themselves."""

import numpy as np

from dfi._estimates.margins import fit_margin


def test_a_threshold_in_scores_decides_as_in_values_at_every_knot():
    """``value(s) <= c`` exactly where ``s <= threshold(c)``: a tie must not change its side."""
    column = np.random.default_rng(0).exponential(size=200)
    margin = fit_margin(column, np.ones(200))
    scores = np.concatenate([margin.scores, [-9.0, 9.0], np.linspace(-3, 3, 101)])
    cuts = np.concatenate([margin.values, [column.min() - 1.0, column.max() + 1.0]])
    for cut, threshold in zip(cuts, margin.threshold(cuts), strict=True):
        np.testing.assert_array_equal(margin.value(scores) <= cut, scores <= threshold)
