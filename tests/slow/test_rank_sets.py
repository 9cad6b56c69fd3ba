"""Confidence sets for ranks through ``dfi.explain``, with fitted models and a fitted transport."""

import numpy as np
import pytest

import dfi

# among hundreds of samples the check of noise columns warns in some by chance
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::dfi.warnings.ImplausibleScoreWarning"),
]

SAMPLES = 200
CASES = {
    "tied": ([1.0] * 8, 500),
    "two levels": ([1.0] * 4 + [0.5] * 4, 1000),
    "near ties and nulls": ([1.0, 1.0, 0.95, 0.5, 0.3, 0.0, 0.0, 0.0], 500),
}


@pytest.mark.parametrize("case", CASES)
def test_sets_hold_all_ranks_at_once(case):
    # nominal .90, Monte-Carlo error .021. Equicorrelated normal features (.3), so those with
    # a slope of 0 have equal scores above 0: what they share with the others.
    slopes, n = np.array(CASES[case][0]), CASES[case][1]
    p = len(slopes)
    values, vectors = np.linalg.eigh(np.full((p, p), 0.3) + 0.7 * np.eye(p))
    root = (vectors * np.sqrt(values)) @ vectors.T
    true_scores = (root**2 @ (root @ slopes) ** 2).round(10)
    true = 1 + np.sum(true_scores[None, :] > true_scores[:, None], axis=1)
    held = 0
    for sample in range(SAMPLES):
        rng = np.random.default_rng([7, sample])
        x = rng.standard_normal((n, p)) @ root
        y = x @ slopes + 2.0 * rng.standard_normal(n)
        result = dfi.explain(x, y, "linear", random_state=sample)
        ranks = result.ranks(0.9).sort_values("feature")
        low, high = ranks["rank_low"].to_numpy(), ranks["rank_high"].to_numpy()
        held += bool(np.all((low <= true) & (true <= high)))
    assert held / SAMPLES >= 0.88
