import numpy as np
import pytest
from scipy.stats import norm

from dfi._data.weights import Weights
from dfi.inference.intervals import critical_value, max_t_statistics

MULTIPLIERS = ["gaussian", "rademacher"]


def ones(n):
    return Weights(np.ones(n), "frequency")


def max_t_critical_value(u, weights, level=0.95, **options):
    return critical_value(max_t_statistics(u, weights, **options), level)


def correlated(rng, n, p, rho):
    shared = rng.standard_normal((n, 1))
    return np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.standard_normal((n, p))


def statistics_one_draw_at_a_time(u, weights, scale, draws, seed):
    """The definition, in loops: a fresh row of multipliers per draw, a sum per unit."""
    rng = np.random.default_rng(seed)
    mean = (weights @ u) / weights.sum()
    maxima = []
    for _ in range(draws):
        g = rng.standard_normal(len(u))
        t = []
        for column, centre in zip(u.T, mean, strict=True):
            part = scale * (column - centre)
            t.append(abs(float(g @ part)) / np.sqrt(float(part @ part)))
        maxima.append(max(t))
    return np.array(maxima)


@pytest.mark.parametrize("kind", ["frequency", "sampling"])
def test_against_the_definition(kind):
    rng = np.random.default_rng(4)
    u = rng.standard_normal((30, 4)) + 3.0
    values = rng.integers(1, 4, 30).astype(float)
    scale = np.sqrt(values) if kind == "frequency" else values
    expected = statistics_one_draw_at_a_time(u, values, scale, 25, 7)
    drawn = max_t_statistics(u, Weights(values, kind), n_draws=25, random_state=7)
    np.testing.assert_allclose(drawn, expected, rtol=1e-10)


@pytest.mark.parametrize("multipliers", MULTIPLIERS)
def test_one_unit_is_the_normal_quantile(multipliers):
    # standard error of the 0.95 quantile of |N(0, 1)| from 20,000 draws: 0.013
    u = np.random.default_rng(0).standard_normal((300, 1))
    options = {"n_draws": 20_000, "multipliers": multipliers}
    two = max_t_critical_value(u, ones(300), **options)
    one = max_t_critical_value(u, ones(300), alternative="greater", **options)
    assert two == pytest.approx(norm.ppf(0.975), abs=0.05)
    assert one == pytest.approx(norm.ppf(0.95), abs=0.05)


def test_independent_units_are_sidak_and_equal_units_cost_nothing():
    u = np.random.default_rng(1).standard_normal((2000, 10))
    sidak = norm.ppf((1 + 0.95 ** (1 / 10)) / 2)
    assert max_t_critical_value(u, ones(2000)) == pytest.approx(sidak, abs=0.1)
    copies = np.repeat(u[:, :1], 10, axis=1)
    assert max_t_critical_value(copies, ones(2000)) == pytest.approx(norm.ppf(0.975), abs=0.1)


@pytest.mark.parametrize("multipliers", MULTIPLIERS)
def test_chunks_do_not_matter(multipliers):
    u = np.random.default_rng(2).standard_normal((37, 5))
    whole = max_t_statistics(u, ones(37), n_draws=101, multipliers=multipliers)
    for memory in (1, 8 * 37 * 7, 8 * 37 * 50):
        cut = max_t_statistics(u, ones(37), n_draws=101, multipliers=multipliers, memory=memory)
        np.testing.assert_allclose(cut, whole, rtol=1e-12)


def test_seed_decides():
    u = np.random.default_rng(2).standard_normal((40, 5))
    first, again, other = (
        max_t_statistics(u, ones(40), n_draws=50, random_state=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_lower_and_upper_bounds_look_at_opposite_tails():
    u = np.random.default_rng(5).exponential(size=(30, 3))
    up = max_t_statistics(u, ones(30), alternative="greater", n_draws=40)
    down = max_t_statistics(u, ones(30), alternative="less", n_draws=40)
    mirrored = max_t_statistics(-u, ones(30), alternative="greater", n_draws=40)
    both = max_t_statistics(u, ones(30), n_draws=40)
    np.testing.assert_allclose(down, mirrored, rtol=1e-12)
    np.testing.assert_allclose(both, np.maximum(up, down), rtol=1e-12)


def test_units_that_do_not_vary_are_left_out():
    u = np.random.default_rng(3).standard_normal((60, 3))
    with_constant = np.column_stack([u, np.zeros(60), np.full(60, 0.3)])
    np.testing.assert_allclose(
        max_t_statistics(with_constant, ones(60), n_draws=30),
        max_t_statistics(u, ones(60), n_draws=30),
        rtol=1e-10,
    )
    assert np.isnan(max_t_critical_value(np.zeros((60, 2)), ones(60)))


def test_scale_and_shift_do_not_matter():
    u = np.random.default_rng(6).standard_normal((50, 3))
    np.testing.assert_allclose(
        max_t_statistics(u * [1.0, 1e3, 1e-3] + [0.0, 5.0, 1.0], ones(50), n_draws=20),
        max_t_statistics(u, ones(50), n_draws=20),
        rtol=1e-8,
    )


def test_frequency_weights_have_the_law_of_repeated_rows():
    # Monte Carlo error of each critical value about 0.02
    rng = np.random.default_rng(8)
    u = correlated(rng, 100, 4, 0.5)
    counts = rng.integers(1, 5, 100)
    weighted = max_t_critical_value(
        u, Weights(counts.astype(float), "frequency"), n_draws=20_000, random_state=1
    )
    repeated = max_t_critical_value(
        np.repeat(u, counts, axis=0), ones(counts.sum()), n_draws=20_000, random_state=2
    )
    assert weighted == pytest.approx(repeated, abs=0.06)


@pytest.mark.parametrize("multipliers", MULTIPLIERS)
def test_bands_cover_all_units_at_once(multipliers):
    # 400 samples at nominal 90 %: Monte Carlo error 0.015; 3 of them allowed.
    rng = np.random.default_rng(10)
    n, p, replications = 200, 8, 400
    covered = 0
    for _ in range(replications):
        u = correlated(rng, n, p, 0.4)
        critical = max_t_critical_value(
            u, ones(n), level=0.9, n_draws=400, multipliers=multipliers, random_state=rng
        )
        t = u.mean(axis=0) / (u.std(axis=0, ddof=1) / np.sqrt(n))
        covered += np.max(np.abs(t)) <= critical
    assert abs(covered / replications - 0.9) < 0.045


def test_errors():
    u = np.ones((3, 1))
    with pytest.raises(ValueError, match="'gaussian' or 'rademacher', got 'mammen'"):
        max_t_statistics(u, ones(3), multipliers="mammen")
    with pytest.raises(ValueError, match="n_draws must be at least 1, got 0"):
        max_t_statistics(u, ones(3), n_draws=0)
    with pytest.raises(ValueError, match="level must be a number strictly between 0 and 1, got 2"):
        max_t_critical_value(u, ones(3), level=2)
    with pytest.raises(ValueError, match="alternative must be"):
        max_t_statistics(u, ones(3), alternative="both")
