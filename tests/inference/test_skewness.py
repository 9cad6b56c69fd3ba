import numpy as np
import pytest
from scipy import stats

from dfi._data.weights import Weights
from dfi.inference.influence import InfluenceRows, skewness_of_mean
from dfi.inference.intervals import FEWEST_DEGREES, hall_quantile, stretched, wald_interval
from dfi.inference.shares import UNLEARNED, Shares
from dfi.inference.tests import UnitInference


def test_skewness_is_that_of_the_values_over_root_n():
    values = np.random.default_rng(0).exponential(size=(400, 3))
    weights = Weights(np.ones(400), "frequency")
    expected = stats.skew(values, axis=0) / np.sqrt(400)
    np.testing.assert_allclose(skewness_of_mean(values, weights), expected)


def test_whole_weights_equal_repeated_rows():
    generator = np.random.default_rng(1)
    values, counts = generator.gamma(2.0, size=(60, 2)), generator.integers(1, 4, 60)
    repeated = np.repeat(values, counts, axis=0)
    np.testing.assert_allclose(
        skewness_of_mean(values, Weights(counts.astype(float), "frequency")),
        skewness_of_mean(repeated, Weights(np.ones(len(repeated)), "frequency")),
    )


@pytest.mark.parametrize("kind", ["frequency", "sampling"])
@pytest.mark.parametrize("level", [-1e9, 0.1, 3.0])
def test_columns_that_vary_by_rounding_have_no_skewness(level, kind):
    # one of ten values a few last digits off: taken at its word the skewness is 1 or near it
    column = np.full(10, level)
    column[0] += 4 * np.spacing(level)
    weights = Weights(np.ones(10), kind)
    assert skewness_of_mean(column[:, None], weights).tolist() == [0.0]
    real = level * np.random.default_rng(3).exponential(size=10)
    found = skewness_of_mean(np.column_stack([real, column, np.full(10, level)]), weights)
    assert found[0] == pytest.approx(skewness_of_mean(real[:, None], weights)[0])
    assert found[0] != 0
    assert found[1:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("unit", [1e-60, 1e-9, 1e60])
def test_skewness_does_not_depend_on_the_unit(unit):
    values = np.random.default_rng(4).exponential(size=(50, 2))
    weights = Weights(np.ones(50), "frequency")
    np.testing.assert_allclose(
        skewness_of_mean(unit * values, weights), skewness_of_mean(values, weights)
    )


@pytest.mark.parametrize("c", [-0.4, 1e-9, 1e-4, 0.5])
def test_quantile_inverts_the_transformation(c):
    for x in (-2.0, -0.3, 0.0, 1.6):
        t = hall_quantile(x, np.array([c]))[0]
        assert t + c * t**2 / 3 + c**2 * t**3 / 27 + c / 6 == pytest.approx(x, abs=1e-6)


def test_intervals_of_skewed_means_cover_better():
    # 2000 samples of 40 exponentials, nominal 90 %: Monte-Carlo error 0.007
    samples = np.random.default_rng(2).exponential(size=(2000, 40))
    mean, error = samples.mean(axis=1), samples.std(axis=1, ddof=1) / np.sqrt(40)
    c = stats.skew(samples, axis=1) / np.sqrt(40)
    covered, imbalance = {}, {}
    for name, skewness in (("wald", None), ("hall", c)):
        low, high = wald_interval(mean, error, level=0.9, skewness=skewness)
        covered[name] = np.mean((low <= 1.0) & (high >= 1.0))
        imbalance[name] = np.mean(high < 1.0) - np.mean(low > 1.0)
    # What is left is noise in the sample's own skewness: 0.87 where Wald has 0.85.
    assert covered["hall"] > covered["wald"] + 0.01
    assert abs(imbalance["hall"]) < 0.6 * imbalance["wald"]


def test_errors_are_stretched_by_the_degrees_of_a_gamma_law_beyond_those_of_a_normal_one():
    n, shape = 400, np.array([0.3, 2.0, 50.0])
    skewness, kurtosis = 2.0 / np.sqrt(shape), 3.0 + 6.0 / shape
    degrees = 1.0 / ((kurtosis - 1.0) / (2.0 * n) - 1.0 / n)
    found = stretched(np.ones(3), skewness / np.sqrt(n), 1.645)
    np.testing.assert_allclose(found * 1.645, stats.t.isf(stats.norm.sf(1.645), degrees))
    np.testing.assert_array_equal(found, stretched(np.ones(3), -skewness / np.sqrt(n), 1.645))
    np.testing.assert_allclose(found, stretched(np.ones(3), skewness / np.sqrt(n), -1.645))


@pytest.mark.parametrize("critical", [0.0, 1.0, 2.5])
def test_errors_are_stretched_so_far_and_not_at_all_without_skewness(critical):
    errors = np.array([0.1, np.nan])
    np.testing.assert_array_equal(stretched(errors, np.zeros(2), critical), errors)
    # standard errors of eleven clusters err more than this skewness makes them
    np.testing.assert_array_equal(stretched(errors, np.full(2, 0.1), critical, 11.0), errors)
    widest = stretched(errors, np.ones(2), critical)
    np.testing.assert_array_equal(widest, stretched(errors, np.full(2, 0.6), critical))
    quantile = stats.t.isf(stats.norm.sf(critical), FEWEST_DEGREES)
    np.testing.assert_allclose(widest * critical, errors * quantile, atol=1e-12)


def _inference(values):
    return UnitInference(
        InfluenceRows(values, Weights(np.ones(len(values)), "frequency")),
        np.zeros(values.shape[1], dtype=bool), 1.0, False, np.zeros(values.shape[1], dtype=bool),
    )  # fmt: skip


def _shifted_only(units):
    skewness = units.influence.skewness
    below, above = hall_quantile(1.645, skewness), -hall_quantile(-1.645, skewness)
    return units.scores - below * units.errors, units.scores + above * units.errors


def test_heavy_tails_are_covered_and_others_keep_their_width():
    # 1000 samples of 300 rows, nominal 90 %: Monte-Carlo error 0.01
    rng = np.random.default_rng(5)
    truth = np.exp(1.5**2 / 2)
    covered, before = np.zeros((2, 1000))
    for k in range(1000):
        units = _inference(np.exp(1.5 * rng.standard_normal((300, 1))))
        found = units.intervals(level=0.9)
        covered[k] = found["ci_low"][0] <= truth <= found["ci_high"][0]
        low, high = _shifted_only(units)
        before[k] = low[0] <= truth <= high[0]
    assert covered.mean() > before.mean() + 0.015
    squares = _inference(rng.standard_normal((300, 20)) ** 2)
    width = [
        high - low for low, high in (squares.intervals(level=0.9).values(), _shifted_only(squares))
    ]
    assert np.all(width[0] > width[1])
    assert width[0].mean() < 1.03 * width[1].mean()


def test_bands_of_skewed_scores_hold_jointly():
    # 300 samples of 150 rows of four exponential-like columns, nominal 90 %: error 0.02
    rng = np.random.default_rng(6)
    held, plain = np.zeros((2, 300))
    for k in range(300):
        units = _inference(rng.gamma(0.2, size=(150, 4)) / 0.2)
        for found, skewness in ((held, True), (plain, False)):
            band = units.intervals(level=0.9, simultaneous=True, skewness=skewness)
            found[k] = np.all((band["ci_low"] <= 1.0) & (band["ci_high"] >= 1.0))
    assert held.mean() > 0.82
    assert held.mean() > plain.mean() + 0.05


def test_shares_are_stretched_and_not_shifted():
    values = np.random.default_rng(7).gamma(0.3, size=(80, 2))
    influence = InfluenceRows(values - values.mean(axis=0), Weights(np.ones(80), "frequency"))
    shares = np.array([0.6, 0.4])
    found = Shares(shares, influence).columns(0.9, nonnegative=False)
    length = stats.t.isf(0.05, 4.0 / (3.0 * influence.skewness**2)) * influence.se
    np.testing.assert_allclose(found["ci_high"] - shares, length)
    np.testing.assert_allclose(shares - found["ci_low"], length)
    # room for late learning is a number: the more of the error it is, the nearer to normal
    small = InfluenceRows(1e-4 * influence.values, influence.weights)
    found = Shares(shares, small, learning=True).columns(0.9, nonnegative=False)
    late = stats.norm.isf(0.05) * UNLEARNED / np.sqrt(80)
    np.testing.assert_allclose(found["ci_high"] - shares, late, rtol=1e-3)
