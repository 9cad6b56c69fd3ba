"""The Gaussian-copula generator: its law, its truths and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

import dfi
from dfi.datasets import linear_truth
from paper.truths import gaussian_copula
from paper.truths.copula import mean_squared_slope, normal_score, quantile

R = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.0], [0.3, 0.0, 1.0]])
BETA = np.array([2.0, 1.0, -1.0])
MARGINS = ["normal", stats.lognorm(0.5), "exponential"]


def test_margins_and_scores_have_the_laws_asked_for():
    sample = gaussian_copula(20_000, correlation=R, margins=MARGINS, regression=BETA, noise=0.5)
    for k, law in enumerate([stats.norm(), stats.lognorm(0.5), stats.expon()]):
        assert stats.kstest(sample.X[:, k], law.cdf).pvalue > 1e-3
    scores = np.column_stack(
        [normal_score(law, sample.X[:, k]) for k, law in enumerate(sample.regression.margins)]
    )
    assert np.allclose(np.corrcoef(scores.T), R, atol=0.03)
    assert (sample.y - scores @ BETA).var() == pytest.approx(0.5, rel=0.05)
    again = gaussian_copula(20_000, correlation=R, margins=MARGINS, regression=BETA, noise=0.5)
    assert np.array_equal(sample.y, again.y)
    copy = pickle.loads(pickle.dumps(sample.regression))  # noqa: S301
    assert np.array_equal(copy(sample.X), sample.regression(sample.X))


@pytest.mark.parametrize("law", [stats.expon(), stats.lognorm(1.0), stats.t(5), stats.norm(3, 2)])
def test_scores_and_values_are_inverse_far_into_both_tails(law):
    scores = np.linspace(-8, 8, 41)
    np.testing.assert_allclose(normal_score(law, quantile(law, scores)), scores, atol=1e-6)


def test_mean_squared_slopes_in_closed_form():
    """Lognormal: s^2 e^(s^2)/(e^(s^2) - 1); uniform: 6/(pi sqrt 3); normal: 1."""
    for sigma in (0.25, 0.5, 1.0):
        known = sigma**2 * np.exp(sigma**2) / np.expm1(sigma**2)
        assert mean_squared_slope(stats.lognorm(sigma)) == pytest.approx(known, rel=1e-9)
    assert mean_squared_slope(stats.uniform(2, 5)) == pytest.approx(6 / (np.pi * np.sqrt(3)))
    assert mean_squared_slope(stats.norm(1, 4)) == 1.0


@pytest.mark.parametrize("law", [stats.expon(), stats.laplace(), stats.t(5), stats.gamma(0.7)])
def test_mean_squared_slopes_by_differences(law):
    """An independent route: differences of the quantile function on a fine grid."""
    grid = np.linspace(-12, 12, 240_001)
    slope = np.gradient(quantile(law, grid), grid)
    known = np.trapezoid(stats.norm.pdf(grid) * slope**2, grid) / law.var()
    assert mean_squared_slope(law) == pytest.approx(known, rel=1e-3)


def test_truth_is_what_the_library_estimates():
    sample = gaussian_copula(20_000, correlation=R, margins=MARGINS, regression=BETA)
    result = dfi.explain(
        sample.X, sample.y, estimator=sample.regression, cv="prefit", diagnose=False,
        transport=dfi.transports.Copula(attribution="slopes"),
    )  # fmt: skip
    latent, attributed = linear_truth(R, BETA)
    truth = sample.truth(space="latent", transport="copula")
    np.testing.assert_allclose(truth, latent)
    assert np.all(np.abs(result.latent.scores - truth) < 3 * result.latent.se)
    truth = sample.truth(transport="copula")
    assert truth[0] == pytest.approx(attributed[0])
    assert np.all(truth[1:] > 1.05 * attributed[1:])
    assert np.all(np.abs(result.scores - truth) < 3 * result.se)


def test_normal_margins_of_any_scale_are_the_gaussian_model():
    sample = gaussian_copula(
        50, correlation=R, margins=[stats.norm(5, 2), "norm", stats.norm(0, 9)], regression=BETA
    )
    np.testing.assert_allclose(sample.truth(), linear_truth(R, BETA)[1])
    np.testing.assert_allclose(sample.comparator_truth("dloco"), BETA**2)
    assert np.isfinite(sample.truth(transport="entropic", epsilon=1.0)).all()


def test_a_function_of_the_features_has_no_known_truth():
    sample = gaussian_copula(
        50, correlation=R, margins=[stats.bernoulli(0.3), stats.poisson(4), "normal"],
        regression=lambda X: X[:, 0] * X[:, 1],
    )  # fmt: skip
    assert set(np.unique(sample.X[:, 0])) == {0.0, 1.0}
    with pytest.raises(ValueError, match="not known"):
        sample.truth()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"correlation": [1.0, 0.5]}, "square matrix"),
        ({"correlation": [[1.0, 0.5], [0.4, 1.0]]}, "symmetric with ones"),
        ({"correlation": [[1.0, 1.5], [1.5, 1.0]]}, "negative eigenvalue -0.5"),
        ({"margins": "gamma"}, "needs the parameter a"),
        ({"margins": "gausian"}, "unknown margin 'gausian'"),
        ({"margins": ["normal"] * 3}, "3 margins for 2 columns"),
        ({"margins": stats.poisson(3)}, "margin 0 .*is discrete"),
        ({"margins": stats.t(2)}, "variance inf"),
        ({"regression": [1.0]}, "one coefficient for each of the 2 columns"),
        ({"noise": -1.0}, "noise must be a variance"),
    ],
)
def test_what_is_refused(options, message):
    asked = {"correlation": np.eye(2), "regression": [1.0, 1.0], **options}
    with pytest.raises(ValueError, match=message):
        gaussian_copula(10, **asked)


def test_margins_of_another_type_and_transports_without_a_closed_form():
    with pytest.raises(TypeError, match="frozen distribution of scipy"):
        gaussian_copula(10, correlation=np.eye(2), regression=[1, 1], margins=3)
    sample = gaussian_copula(10, correlation=R, margins="expon", regression=BETA)
    with pytest.raises(ValueError, match="known are 'copula' and 'knothe-rosenblatt'"):
        sample.truth()
