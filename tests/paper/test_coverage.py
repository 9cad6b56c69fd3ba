"""Which intervals are counted as covering: those that a result itself would give."""

import numpy as np
import pytest

from dfi.inference.intervals import expand_standard_errors, wald_interval
from paper.coverage import CoverageStudy

GENERATOR = np.random.default_rng(0)
N, VARIANCE = 400, 3.0
STUDY = CoverageStudy(
    truth=np.array([0.0, 1.0]),
    scores=GENERATOR.normal([0.0, 1.0], 0.3, (200, 2)),
    se=GENERATOR.uniform(0.05, 0.3, (200, 2)),
    plain_se=GENERATOR.uniform(0.02, 0.1, (200, 2)),
    skewness=GENERATOR.uniform(-0.3, 0.6, (200, 2)),
    scale=np.full(200, VARIANCE / np.sqrt(N)),
)


@pytest.mark.parametrize("level", [0.8, 0.9])
@pytest.mark.parametrize("plain", [False, True])
def test_expanded_intervals_are_those_of_a_result(level, plain):
    errors = expand_standard_errors(
        STUDY.plain_se if plain else STUDY.se,
        expansion="standard_error", n=N, outcome_variance=VARIANCE, level=level,
    )  # fmt: skip
    low, high = wald_interval(STUDY.scores, errors, level=level)
    expected = (low <= STUDY.truth) & (STUDY.truth <= high)
    found = STUDY.covered(level, plain=plain, expand=True)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(
        STUDY.coverage(level, plain=plain, expand=True), expected.mean(axis=0)
    )
    assert 0.3 < expected[:, 1].mean() < 1.0


def test_intervals_are_skewed_unless_plain():
    low, high = wald_interval(STUDY.scores, STUDY.se, level=0.9, skewness=STUDY.skewness)
    expected = (low <= STUDY.truth) & (STUDY.truth <= high)
    np.testing.assert_array_equal(STUDY.covered(0.9), expected)
    low, high = wald_interval(STUDY.scores, STUDY.plain_se, level=0.9)
    expected = (low <= STUDY.truth) & (STUDY.truth <= high)
    np.testing.assert_array_equal(STUDY.covered(0.9, plain=True), expected)
