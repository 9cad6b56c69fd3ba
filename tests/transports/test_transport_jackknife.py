"""The grouped jackknife against statistics whose influence is known, and where it is asked for."""

import numpy as np
import pytest

import dfi
from dfi._data.weights import Weights
from dfi._scoring.jackknife import deal_groups, group_influence, with_transport_error
from dfi.transports import EntropicOT

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


def test_one_group_does_not_cancel_the_error_of_all_others():
    """A row that only one refit lacks: what it moves there says nothing of the other rows."""
    generator = np.random.default_rng(2)
    weights = Weights(np.ones(200), "frequency")
    influence = generator.standard_normal((200, 1))
    influence[np.flatnonzero(GROUPS == 3)[0]] = 60.0
    psi = np.where(np.arange(10) == 3, -3.0, 0.0)[:, None]
    psi -= psi.mean(axis=0)
    whole = with_transport_error(influence, weights, GROUPS, psi)
    # what is left is the error of the other rows; 10 groups tell it to a quarter
    assert weights.standard_error(whole)[0] == pytest.approx(200**-0.5, rel=0.5)


@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_error_that_rows_do_not_show_has_its_variance_under_uneven_weights(kind):
    """The transport's part is a weighted mean itself: 1/N of counts, sum w^2 of sampling ones."""
    found = []
    for seed in range(200):
        generator = np.random.default_rng([seed, 8])
        mass = generator.integers(0, 4, 400).astype(float)
        counted, groups = np.flatnonzero(mass), np.zeros(400, int)
        groups[counted] = deal_groups(len(counted), 20, np.random.SeedSequence(seed))
        weights = Weights(mass, kind)
        hidden = generator.standard_normal(400)
        means = [np.average(hidden[groups == g], weights=mass[groups == g]) for g in range(20)]
        psi = np.array(means)[:, None] - np.mean(means)
        # rows whose own part is next to nothing
        influence = 1e-6 * generator.standard_normal((400, 1))
        whole = with_transport_error(influence, weights, groups, psi)
        variance = np.sum(mass**2) / mass.sum() ** 2 if kind == "sampling" else 1 / mass.sum()
        found.append(weights.standard_error(whole)[0] ** 2 / variance)
    # one sample has a standard deviation of about a third: the mean has 0.024
    assert np.mean(found) == pytest.approx(1.0, abs=0.08)


def forced(transport, seed, **options):
    """Return the same linear regression with derived and with jackknifed standard errors."""
    sample = dfi.datasets.m1(300, rho=0.7, d=3, random_state=seed)
    return [
        dfi.explain(
            sample.X, sample.y, "linear", transport=transport, transport_error=error,
            diagnose=False, **options,
        )
        for error in ("derived", "jackknife")
    ]  # fmt: skip


@pytest.mark.parametrize("transport", ["gaussian", "copula"])
def test_jackknife_that_is_asked_for_is_near_the_derived_errors(transport):
    """One sample has an error of 16 % (20 groups), and more where a margin's tails move."""
    ratios = []
    for seed in range(4):
        derived, jackknifed = forced(transport, seed)
        assert jackknifed.spec["transport_error"] == "jackknife"
        told = jackknifed.diagnostics
        assert told["standard_errors"] == "transport jackknife (20 groups, models kept)"
        assert told["sensitivity"] == {"used": "jackknife"}
        # it is about errors only: the scores are free of the same bias of second order
        assert told["second_order"] == derived.diagnostics["second_order"]
        np.testing.assert_allclose(jackknifed.scores, derived.scores, rtol=1e-9, atol=1e-12)
        ratios.append([jackknifed.se / derived.se, jackknifed.latent.se / derived.latent.se])
    np.testing.assert_allclose(np.mean(ratios, axis=0), 1.0, atol=0.35)


@pytest.mark.parametrize(
    ("transport", "integration"),
    [
        pytest.param(dfi.transports.Gaussian(epsilon=0.3), "auto", marks=pytest.mark.slow),
        ("gaussian", dfi.Quadrature("draws", nodes=8)),
    ],
    ids=["bridge", "draws"],
)
def test_refits_draw_the_same_numbers(transport, integration):
    """Draws of their own would enter 19 times: errors were 2 to 9 times too large."""
    ratios = []
    for seed in range(4):
        derived, jackknifed = forced(transport, seed, integration=integration)
        ratios.append([jackknifed.se / derived.se, jackknifed.latent.se / derived.latent.se])
    np.testing.assert_allclose(np.mean(ratios, axis=0)[:, :2], 1.0, atol=0.35)
    assert np.max(ratios) < 1.6


@pytest.mark.parametrize("error", ["auto", "jackknife"])
def test_curves_are_jackknifed_either_way(error):
    """Where nothing is derived, "auto" is the jackknife."""
    sample = dfi.datasets.m1(120, rho=0.7, d=2)
    found = dfi.explain(
        sample.X, sample.y, "linear", transport=EntropicOT(epsilon=5.0, min_size=1),
        transport_error=error, cv=2, diagnose=False,
    )  # fmt: skip
    assert found.diagnostics["standard_errors"].startswith("transport jackknife (20 groups")


@pytest.mark.parametrize("components", ["auto", None])
def test_a_column_may_be_constant_among_the_rows_of_a_refit(components):
    """One row differs, as in a pixel at the edge: without its group the column does not vary."""
    random = np.random.default_rng(0)
    X = np.column_stack([random.standard_normal((400, 3)), np.arange(400) == 7])
    y = X[:, 0] + random.standard_normal(400)
    transport = dfi.transports.Gaussian(components=components)
    refitted, derived = (
        dfi.explain(X, y, "ridge", transport=transport, transport_error=error, diagnose=False)
        for error in ("jackknife", "derived")
    )
    np.testing.assert_allclose(refitted.scores, derived.scores, atol=1e-12)
    np.testing.assert_allclose(refitted.se[0], derived.se[0], rtol=0.1)
    assert np.isfinite(refitted.se).all()
