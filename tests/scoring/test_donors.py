"""Joint scores by donors: unbiased for any number of them, and who gives how often."""

import itertools

import numpy as np
import pytest

from dfi._lines.closed_form import LinearLines, SumLines
from dfi._scoring.donors import (
    Donors,
    Joint,
    Strata,
    canonical_order,
    draw_places,
    joint_influence,
    number_of_donors,
    replaced,
)

MEMORY = 10**6
SEED = np.random.SeedSequence


class Curve:
    """A model that is no sum: what a donor brings depends on the row."""

    def __init__(self, seed):
        self.slopes = np.random.default_rng(seed).standard_normal(4)

    def predict(self, rows):
        return np.cos(rows @ self.slopes) + rows[:, 0] * rows[:, 2] + 5.0


def law(n_donors, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((n_donors, 4))
    directions = rng.standard_normal((4, 2))
    share = rng.dirichlet(np.full(n_donors, 3.0))
    return latent, Joint(np.array([1, 3]), directions), share


@pytest.mark.parametrize("form", ["loco", "cross", "cpi"])
@pytest.mark.parametrize(
    "strata",
    [
        [range(9)] * 2,
        [range(4)] * 4,
        [range(4)] * 2 + [range(4, 8)] * 2,
        [range(4)] * 2 + [range(4, 10)] * 3,
    ],
)
def test_the_mean_over_all_draws_is_the_score_of_all_donors(form, strata):
    """Every draw there is, one after the other: no Monte-Carlo error, unbiased to rounding."""
    n_donors = max(max(stratum) for stratum in strata) + 1
    latent, joint, _ = law(n_donors)
    models = [Curve(1), Curve(2)] if form == "cross" else [Curve(1)]
    receiver = np.random.default_rng(3).standard_normal((1, 4))
    draws = np.array(list(itertools.product(*strata)))
    points = np.repeat(receiver, len(draws), axis=0)
    own = np.repeat(latent[:1] + 0.3, len(draws), axis=0)
    even = np.full(n_donors, 1.0 / n_donors)
    y = np.full(len(draws), 4.2)
    values = models[0].predict(points), models[-1].predict(points)
    donors = Donors(latent, latent, even, draws)
    found = replaced(models, points, own, donors, joint, memory=MEMORY)
    influence = joint_influence(form, y, values, found)
    rows = receiver + (latent - latent[:1] - 0.3)[:, joint.coordinates] @ joint.directions.T
    at = [model.predict(rows) for model in (models[0], models[-1])]
    lost = (4.2 - values[0][0]) * (4.2 - values[1][0])
    if form == "cpi":
        truth = (4.2 - at[0].mean()) * (values[0][0] - at[0].mean())
    else:
        truth = (4.2 - at[0].mean()) * (4.2 - at[1].mean()) - lost
    assert influence.mean() == pytest.approx(truth, rel=1e-12)
    # it is the correction that does it
    assert abs(np.mean(influence + found.excess) - truth) > 1e-3


@pytest.mark.parametrize("remainders", [False, True])
def test_a_linear_model_is_averaged_over_all_donors(remainders):
    latent, joint, share = law(40)
    rng = np.random.default_rng(4)
    if remainders:
        # two columns whose sum is all that coordinates tell
        merge = np.array([[1.0], [1.0]])
        joint = Joint(
            joint.coordinates, joint.directions, ((np.array([0, 2]), merge, merge.T / 2),)
        )
    models = [LinearLines(rng.standard_normal(4), 0.5), LinearLines(rng.standard_normal(4), -1.0)]
    points, own = rng.standard_normal((5, 4)), rng.standard_normal((5, 4))
    rows = rng.standard_normal((40, 4))
    donors = Donors(latent, rows, share, np.zeros((5, 2), dtype=np.intp))
    found = replaced(models, points, own, donors, joint, memory=MEMORY)
    for i in range(5):
        moved = points[i] + (latent - own[i])[:, joint.coordinates] @ joint.directions.T
        if remainders:
            rest = (rows - points[i])[:, [0, 2]]
            moved[:, [0, 2]] += rest - rest @ merge @ merge.T / 2
        first, last = (model.predict(moved) for model in models)
        assert found.means[0][i] == pytest.approx(share @ first, rel=1e-10)
        assert found.means[1][i] == pytest.approx(share @ last, rel=1e-10)
    assert (found.excess == 0.0).all()


def test_remainders_come_from_the_donor():
    """What coordinates leave open of a unit (which of the pooled levels) is the donor's own."""
    merge = np.array([[1.0], [1.0]])
    joint = Joint(
        np.array([0]), np.array([[0.5], [0.5]]), ((np.array([0, 1]), merge, merge.T / 2),)
    )
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    seen = []

    class Sees:
        def predict(self, points):
            seen.append(points)
            return points.sum(axis=1)

    donors = Donors(np.zeros((3, 1)), rows, np.full(3, 1 / 3), np.array([[1, 1], [0, 2], [1, 0]]))
    replaced([Sees()], rows, np.zeros((3, 1)), donors, joint, memory=MEMORY)
    np.testing.assert_allclose(seen[-1], rows[donors.chosen].reshape(-1, 2))


def test_memory_bounds_what_a_model_is_asked_at_once():
    latent, joint, share = law(50)
    donors = Donors(latent, latent, share, np.random.default_rng(0).integers(50, size=(50, 8)))
    sizes = []

    class Asked(Curve):
        def predict(self, rows):
            sizes.append(len(rows))
            return super().predict(rows)

    few = replaced([Asked(1)], latent, latent, donors, joint, memory=8 * 8 * 4 * 5)
    assert max(sizes) <= 40
    all_at_once = replaced([Curve(1)], latent, latent, donors, joint, memory=MEMORY)
    np.testing.assert_array_equal(few.means[0], all_at_once.means[0])


@pytest.mark.parametrize("count", [2, 5, 8])
def test_each_row_has_donors_of_every_stratum(count):
    """Levels in the order of their effect, coordinates within; each row gives equally often."""
    rng = np.random.default_rng(0)
    n = 80
    kind = rng.permutation(np.repeat([0, 1], n // 2))
    own = np.column_stack([np.where(kind, 1.0, -1.0), np.zeros(n)])
    effects = rng.standard_normal((n, 2))
    joints = [Joint(np.arange(2), np.eye(2)), Joint(np.arange(1), np.eye(2)[:, :1])]
    places = draw_places(count, n, SEED(2))
    strata = Strata.of(np.full(n, 1 / n), joints, effects, own, np.arange(n), places)
    if count > 2:  # or else there are more levels than strata
        expected = np.lexsort((effects.sum(axis=1), kind))
        np.testing.assert_array_equal(strata.orders[0], expected)
    assert strata.orders[1] is None
    chosen = strata.chosen(0, slice(None))
    # five cut 80 rows where a stratum has no whole number of places for each
    atol = 1 if count == 5 else 0
    np.testing.assert_allclose(np.bincount(chosen.ravel(), minlength=n), count, rtol=0, atol=atol)
    if count == 8:
        np.testing.assert_array_equal(kind[chosen].sum(axis=1), 4)


def test_few_rows_have_more_donors():
    assert [number_of_donors(None, n) for n in (20, 300, 1000, 2048, 10**6)] == [64, 56, 18, 8, 8]
    assert number_of_donors(3, 300) == 3


def test_rows_give_in_proportion_to_their_weight():
    """Also rows that weigh less than the average, and none of weight 0; 600 draws of 40 rows."""
    mass = np.r_[np.full(20, 0.3), np.zeros(5), np.full(15, 1.0 + 1 / 3)]
    nothing, joint = np.zeros((40, 2)), Joint(np.arange(2), np.eye(2))
    chosen = np.concatenate(
        [
            Strata.of(
                mass / mass.sum(),
                [joint],
                nothing,
                nothing,
                np.arange(40),
                draw_places(2, 40, seed),
            ).chosen(0, slice(None))
            for seed in map(SEED, range(300))
        ]
    )
    share = np.bincount(chosen.ravel(), minlength=40) / chosen.size
    assert (share[20:25] == 0).all()
    expected = mass / mass.sum()
    # the deviation of a systematic draw of 600 is at most .5 / sqrt(600) rows of 40
    np.testing.assert_allclose(share, expected, atol=4 * 0.5 / np.sqrt(600) / 40)


def test_ties_keep_the_order_of_the_table_and_nothing_else_does():
    rng = np.random.default_rng(2)
    norms = rng.chisquare(2.0, (300, 3))
    order = canonical_order(norms)
    turn = rng.permutation(300)
    np.testing.assert_array_equal(turn[canonical_order(norms[turn])], order)
    np.testing.assert_array_equal(canonical_order(norms[:, [2, 0, 1]]), order)
    tied = rng.integers(0, 3, (300, 3)).astype(float)
    expected = np.lexsort((np.arange(300), np.sum(tied + tied**2, axis=1)))
    np.testing.assert_array_equal(canonical_order(tied), expected)
    # rounding, whichever way it goes, is no difference
    shaken = tied * (1.0 + 1e-15 * rng.standard_normal(tied.shape))
    np.testing.assert_array_equal(canonical_order(shaken), expected)


def test_linear_members_of_a_sum_take_the_mean_of_all_donors():
    """Donors are asked about the rest alone, so the sum is the rest's mean and a known shift."""
    latent, joint, share = law(30)
    rng = np.random.default_rng(5)
    points, own = rng.standard_normal((6, 4)), rng.standard_normal((6, 4))
    donors = Donors(latent, latent, share, rng.integers(0, 30, (6, 3)))
    linear, curve = LinearLines(rng.standard_normal(4), 0.7), Curve(1)
    found = replaced(
        [SumLines((linear, curve), (2.0, 0.5), 1.0)], points, own, donors, joint, memory=MEMORY
    )
    rest = replaced([curve], points, own, donors, joint, memory=MEMORY)
    known = replaced([linear], points, own, donors, joint, memory=MEMORY)
    np.testing.assert_allclose(found.means[0], 1.0 + 2.0 * known.means[0] + 0.5 * rest.means[0])
    np.testing.assert_allclose(found.excess, 0.25 * rest.excess)
