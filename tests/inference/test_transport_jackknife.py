"""The grouped jackknife against statistics whose influence is known."""

import numpy as np

from dfi.data.weights import Weights
from dfi.inference.transport_jackknife import deal_groups, group_influence, with_transport_error

VALUES = np.random.default_rng(0).standard_normal((200, 2)) ** 2
GROUPS = deal_groups(200, 10, np.random.SeedSequence(0))


def test_groups_have_equal_sizes():
    assert np.array_equal(np.bincount(GROUPS), np.full(10, 20))
    assert set(np.bincount(deal_groups(23, 5, np.random.SeedSequence(1)))) == {4, 5}


def test_influence_of_a_mean_is_the_groups_own_mean():
    """Leaving a group out moves a mean by minus its deviation over B - 1: no other factor fits."""
    found = group_influence(GROUPS, lambda rows: VALUES[rows].mean(axis=0), VALUES.mean(axis=0))
    means = np.stack([VALUES[g == GROUPS].mean(axis=0) for g in range(10)])
    np.testing.assert_allclose(found, means - VALUES.mean(axis=0))


def test_variance_of_the_sum_is_that_of_the_group_means():
    """Rows carry the groups' own part, and what is left of it at the size that a group has."""
    generator = np.random.default_rng(1)
    weights = Weights(np.ones(200), "frequency")
    influence = generator.standard_normal((200, 1))
    # a transport's error that the rows themselves do not show
    psi = 3.0 * generator.standard_normal((10, 1))
    psi -= psi.mean(axis=0)
    whole = with_transport_error(influence, weights, GROUPS, psi)
    np.testing.assert_allclose(whole.mean(), influence.mean())
    means = np.array([influence[g == GROUPS].mean() for g in range(10)])
    own = means - means.mean()
    slope = own @ psi[:, 0] / (own @ own)
    rest = psi[:, 0] - slope * own
    # the variance of a mean of 10 groups, with the two degrees of freedom that the line took
    expected = (1 + slope) ** 2 * influence.var() / 200 + (rest @ rest) / (8 * 10)
    covariance = 2 * (1 + slope) * np.mean((influence[:, 0] - influence.mean()) * rest[GROUPS])
    assert abs(covariance) < 1e-10
    np.testing.assert_allclose(whole.var() / 200, expected, rtol=1e-6)
