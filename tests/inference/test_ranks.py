"""Confidence sets for ranks: against all pairs by rows, coverage, and what must not matter."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student

import dfi
from dfi._data.dependence import Clusters, Ordered
from dfi._data.weights import Weights
from dfi._models.quality import Quality
from dfi.inference.influence import InfluenceRows
from dfi.inference.ranks import _critical, rank_sets
from dfi.report.summary import ranks_text
from dfi.results.importance import Importance
from dfi.results.numbers import ordinal

KEYS = ("rank", "rank_low", "rank_high")


def ones(n):
    return Weights(np.ones(n), "frequency")


def rows_of(means, n=300, seed=0, weights=None):
    """Correlated normal influence values; the errors of nulls are smaller."""
    rng = np.random.default_rng(seed)
    means = np.asarray(means, dtype=float)
    spread = np.where(means > 0.0, 1.0, 0.3)
    u = means + spread * rng.standard_normal((n, len(means))) + 0.5 * rng.standard_normal((n, 1))
    return InfluenceRows(u, ones(n) if weights is None else weights)


def importance(influence, **changes):
    p = influence.n_units
    values = {
        "names": tuple(f"x{k}" for k in range(p)),
        "spec": {"method": "dfi"},
        "quality": Quality(0.5, (0.5, 0.5), 0.0, 0.5, 1.0, influence.n_rows),
        "library": "pandas",
    }
    return Importance(influence, **(values | changes))


def same(first, second):
    for key in KEYS:
        np.testing.assert_array_equal(first[key], second[key])


def all_pairs_by_rows(influence, level, n_draws, seed):
    """The definition in loops: a column of rows for each pair, one multiplier a row or a step."""
    u, weights = influence.values, influence.weights
    p = u.shape[1]
    rng = np.random.default_rng(seed)
    statistics, draws = {}, {}
    g = rng.standard_normal((n_draws, len(weights.steps(u))))
    scale = np.ones(n_draws)
    if math.isfinite(influence.degrees):
        scale = np.sqrt(rng.chisquare(influence.degrees, n_draws) / influence.degrees)
    for j in range(p):
        for k in range(j):
            column = (u[:, j] - u[:, k])[:, None]
            error = float(weights.standard_error(column)[0])
            statistics[j, k] = float(weights.mean(column)[0]) / error
            draws[j, k] = np.abs(g @ weights.steps(column)[:, 0]) / error / scale
    left, above = set(statistics), np.zeros((p, p), dtype=bool)
    while left:
        critical = np.quantile(np.max([draws[pair] for pair in left], axis=0), level)
        sure = {pair for pair in left if abs(statistics[pair]) > critical}
        if not sure:
            break
        for j, k in sure:
            above[(j, k) if statistics[j, k] > 0 else (k, j)] = True
        left -= sure
    mean = weights.mean(u)
    return {
        "rank": np.array([1 + sum(other > own for other in mean) for own in mean]),
        "rank_low": 1 + above.sum(axis=0),
        "rank_high": p - above.sum(axis=1),
    }


@pytest.mark.parametrize("kind", ["independent", "counts", "sampling", "clusters", "time"])
def test_against_all_pairs_by_rows(kind):
    rng = np.random.default_rng(3)
    n = 240
    counts = rng.integers(1, 4, n).astype(float)
    weights = {
        "independent": ones(n),
        "counts": Weights(counts, "frequency"),
        "sampling": Weights(counts / counts.mean(), "sampling"),
        "clusters": Weights(np.ones(n), "frequency", Clusters(np.repeat(np.arange(60), 4))),
        "time": Weights(np.ones(n), "frequency", Ordered(np.arange(n), bandwidth=3)),
    }[kind]
    found = 0
    for seed in range(4):
        influence = rows_of([1.4, 1.0, 0.9, 0.5, 0.1], n, seed, weights)
        # both by 20,000 draws of their own: critical values agree to about .02
        ours = rank_sets(influence, level=0.9, n_draws=20_000, random_state=seed)
        slow = all_pairs_by_rows(influence, 0.9, 20_000, seed + 100)
        same(ours, slow)
        found += int((ours["rank_high"] - ours["rank_low"] < 4).sum())
    assert found > 5


SCENARIOS = {  # means, samples: the case of all tied has no slack, its Monte-Carlo error is .007
    "tied": ([1.0] * 8, 2000),
    "two levels": ([1.0] * 4 + [0.7] * 4, 200),
    "near ties and nulls": ([1.0, 1.0, 0.95, 0.3, 0.1, 0.0, 0.0, 0.0], 200),
}


@pytest.mark.parametrize(
    "case", [pytest.param("tied", marks=pytest.mark.full), "two levels", "near ties and nulls"]
)
def test_sets_hold_all_ranks_and_are_narrower_than_overlap(case):
    means, samples = SCENARIOS[case]
    p = len(means)
    true = np.array([1 + sum(other > own for other in means) for own in means])
    held, widths, overlap_widths = 0, [], []
    z = norm.isf(0.05 / p)
    for sample in range(samples):
        influence = rows_of(means, 300, [11, sample])
        sets = rank_sets(influence, level=0.9)
        held += bool(np.all((sets["rank_low"] <= true) & (true <= sets["rank_high"])))
        widths.append(np.mean(sets["rank_high"] - sets["rank_low"]))
        low, high = influence.mean - z * influence.se, influence.mean + z * influence.se
        above = low[:, None] > high[None, :]
        overlap_widths.append(np.mean(p - above.sum(axis=1) - 1 - above.sum(axis=0)))
    assert held / samples >= 0.88
    assert np.mean(widths) < np.mean(overlap_widths)


def test_monotone_in_level_and_the_rank_lies_within():
    influence = rows_of([1.2, 1.0, 0.9, 0.6, 0.5, 0.2, 0.0], seed=4)
    before = rank_sets(influence, level=0.5)
    for level in (0.8, 0.9, 0.99, 0.9999):
        sets = rank_sets(influence, level=level)
        assert np.all(sets["rank_low"] <= before["rank_low"])
        assert np.all(sets["rank_high"] >= before["rank_high"])
        assert np.all((sets["rank_low"] <= sets["rank"]) & (sets["rank"] <= sets["rank_high"]))
        before = sets


def test_steps_tell_more_apart_than_one():
    # clear pairs leave the maximum: the last step has a smaller critical value than the first
    narrower = 0
    for seed in range(30):
        influence = rows_of([9.0, 7.0, 5.0, 3.0, 1.0, 0.82], seed=[5, seed])
        sets = rank_sets(influence, level=0.9)
        narrower += int(sets["rank_high"][4] == 5)
        assert sets["rank_high"][:4].tolist() == [1, 2, 3, 4]
    z = norm.isf(0.05)  # only the last pair is left: its power is that of a single test
    single = 0
    for seed in range(30):
        difference = rows_of([9.0, 7.0, 5.0, 3.0, 1.0, 0.82], seed=[5, seed]).summed(
            [[0, 0, 0, 0, 1, -1]]
        )
        single += bool(difference.mean[0] > z * difference.se[0])
    assert abs(narrower - single) <= 1


def test_order_scale_and_moments_do_not_matter():
    influence = rows_of([1.0, 0.95, 0.8, 0.5, 0.3, 0.1, 0.0, 0.0], seed=6)
    sets = rank_sets(influence, level=0.9)
    order = np.random.default_rng(0).permutation(8)
    moved = InfluenceRows(influence.values[:, order], influence.weights)
    same({key: sets[key][order] for key in KEYS}, rank_sets(moved, level=0.9))
    same(sets, rank_sets(InfluenceRows(1e-6 * influence.values, ones(300)), level=0.9))
    same(sets, rank_sets(influence.moments(), level=0.9))
    same(sets, rank_sets(influence, level=0.9))


@pytest.mark.parametrize("zeros", [1, 3])
def test_exact_zeros_tie_and_are_below_what_is_clear(zeros):
    values = rows_of([1.0, 0.5, 0.01]).values
    u = np.column_stack([values, np.zeros((300, zeros))])
    sets = rank_sets(InfluenceRows(u, ones(300)), level=0.9, nonnegative=True)
    last = slice(3, None)
    assert sets["rank_low"][last].tolist() == [3] * zeros
    assert sets["rank_high"][last].tolist() == [3 + zeros] * zeros
    assert len(set(sets["rank"][last])) == 1
    assert sets["rank_high"][:3].tolist() == [1, 2, 3 + zeros]


def test_zeros_alone_have_every_rank():
    sets = rank_sets(InfluenceRows(np.zeros((20, 3)), ones(20)), level=0.9)
    assert [sets[key].tolist() for key in KEYS] == [[1, 1, 1], [1, 1, 1], [3, 3, 3]]


def test_what_dependence_may_hide_keeps_a_zero_from_being_below():
    u = np.column_stack([rows_of([1.0, 0.5]).values, np.zeros(300)])
    influence = InfluenceRows(u, ones(300))
    for hidden, expected in ((0.0, [1, 2, 3]), (0.5, [1, 3, 3]), (2.0, [2, 3, 3])):
        undetected = np.array([0.0, 0.0, hidden])
        options = {"undetected": undetected, "unrelated": np.array([False, False, True])}
        ranks = importance(influence, **options).ranks(0.9)
        assert ranks["rank_high"].tolist() == expected


def test_nothing_of_exactly_zero_is_above_another_where_scores_cannot_be_negative():
    u = np.column_stack([rows_of([1.0]).values - 2.0, np.zeros(300)])
    influence = InfluenceRows(u, ones(300))
    sets = rank_sets(influence, level=0.9, nonnegative=True)
    assert sets["rank_high"].tolist() == [2, 2]
    assert rank_sets(influence, level=0.9)["rank_low"].tolist() == [2, 1]


def test_duplicates_are_never_told_apart():
    u = rows_of([1.0, 0.2]).values
    u = np.column_stack([u, u[:, 0], u[:, 0] * (1 + 1e-15)])
    sets = rank_sets(InfluenceRows(u, ones(300)), level=0.5)
    assert sets["rank_low"].tolist() == [1, 4, 1, 1]
    assert sets["rank_high"].tolist() == [3, 4, 3, 3]


def test_the_remainder_keeps_tiny_differences_of_nulls_apart_from_findings():
    rng = np.random.default_rng(1)
    tiny = 1e-5 * (rng.standard_normal((300, 2)) + np.array([1.0, -1.0]))
    u = np.column_stack([rows_of([1.0]).values, tiny])
    influence = InfluenceRows(u, ones(300))
    assert rank_sets(influence, level=0.9)["rank_high"].tolist() == [1, 2, 3]
    assert importance(influence).ranks(0.9)["rank_high"].tolist() == [1, 3, 3]


def test_units_of_which_nothing_is_known_have_every_rank():
    influence = rows_of([3.0, 2.0, 1.0])
    sets = rank_sets(influence, level=0.9, unknown=np.array([False, True, False]))
    assert sets["rank_low"].tolist() == [1, 1, 2]
    assert sets["rank_high"].tolist() == [2, 3, 3]


def test_one_unit_and_one_row():
    assert [v.tolist() for v in rank_sets(rows_of([1.0]), level=0.9).values()] == [[1], [1], [1]]
    sets = rank_sets(InfluenceRows(np.array([[2.0, 1.0]]), ones(1)), level=0.9)
    assert [sets[key].tolist() for key in KEYS] == [[1, 2], [1, 1], [2, 2]]


def test_many_units_take_fewer_draws_and_little_memory():
    sets = rank_sets(rows_of(np.linspace(5.0, 0.0, 300), 100), level=0.9)
    assert np.mean(sets["rank_high"] - sets["rank_low"]) < 100


def test_levels_beyond_what_the_draws_can_tell_are_bonferronis():
    """Sets only grow with the level, also where 4000 draws have no quantile."""
    influence = rows_of(np.linspace(1.0, 0.0, 6), 400)
    widths = [
        np.sum(rank_sets(influence, level=level)["rank_high"])
        - np.sum(rank_sets(influence, level=level)["rank_low"])
        for level in (0.9, 0.9975, 0.9976, 0.99999, 0.9999999)
    ]
    assert widths == sorted(widths)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, 95])
def test_a_level_outside_is_refused_like_that_of_intervals(level):
    result = importance(rows_of([1.0, 0.0]))
    with pytest.raises(ValueError, match="level must be a number strictly between 0 and 1"):
        result.ranks(level)
    with pytest.raises(TypeError, match="level must be a number strictly between 0 and 1"):
        result.ranks("high")


def test_a_result_gives_its_ranks_and_what_is_surely_on_top():
    means = np.array([0.2, 2.0, 1.0, 0.97])
    values = rows_of(means).values
    values = values - values.mean(axis=0) + means  # the scores are these numbers
    result = importance(InfluenceRows(values, ones(300)), level=0.9)
    ranks = result.ranks()
    assert list(ranks.columns) == ["feature", *KEYS]
    assert ranks["feature"][0] == "x1"
    assert ranks["rank"].tolist() == [1, 2, 3, 4]
    assert ranks["rank_low"].tolist() == [1, 2, 2, 4]
    assert ranks["rank_high"].tolist() == [1, 3, 3, 4]
    assert result.top(1)["certain"].tolist() == [True]
    assert result.top(2)["certain"].tolist() == [True, False]
    assert result.top(3)["certain"].tolist() == [True, True, True]
    assert result.moments().ranks().equals(ranks)
    constant = importance(result.basis, degenerate=np.array([True, False, False, False]))
    assert constant.ranks()["rank_high"].tolist() == [1, 3, 3, 4]


def test_the_order_of_columns_does_not_matter_to_a_call():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((200, 4)), columns=list("abcd"))
    y = 3 * table["a"] + table["b"] + rng.standard_normal(200)
    first, second = (
        dfi.explain(columns, y, "linear", random_state=0).ranks(0.9).set_index("feature")
        for columns in (table, table[["d", "b", "a", "c"]])
    )
    assert first["rank_high"]["a"] == 1
    pd.testing.assert_frame_equal(first.sort_index(), second.sort_index())


def test_words():
    assert ranks_text(1, 3) == "1st to 3rd"
    assert ranks_text(2, 2) == "clearly 2nd"
    assert [ordinal(k) for k in (4, 11, 12, 13, 21, 101, 111, 1022)] == [
        "4th", "11th", "12th", "13th", "21st", "101st", "111th", "1,022nd",
    ]  # fmt: skip


@pytest.mark.parametrize("degrees", [math.inf, 9.0])
def test_levels_beyond_the_draws_are_bonferronis(degrees):
    found = _critical(np.linspace(1.0, 3.0, 100), 0.9999, degrees, 7)
    law = norm if degrees == math.inf else student(degrees)
    assert 14 * law.sf(found) == pytest.approx(0.0001)
