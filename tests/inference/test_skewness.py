import numpy as np
import pytest
from scipy import stats

from dfi._data.weights import Weights
from dfi.inference.influence import skewness_of_mean
from dfi.inference.intervals import hall_quantile, wald_interval


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
