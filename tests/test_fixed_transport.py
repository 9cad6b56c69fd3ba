"""Standard errors of a known transport without a second fit: those of transport_error="ignore"."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import dfi
from dfi.transports import Gaussian, Semicontinuous


def table(n=150):
    """Numbers, a category of three levels and a constant column; every other row counts twice."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, n))
    frame = pd.DataFrame(
        {
            "a": a,
            "b": 0.7 * a + b,
            "kind": pd.Categorical(rng.choice(["x", "y", "z"], n)),
            "same": 1.0,
        }
    )
    y = 2 * a + b**2 + 0.5 * (frame["kind"] == "x") + rng.standard_normal(n)
    return frame, y.to_numpy()


@pytest.mark.filterwarnings("ignore::dfi.warnings.ConstantColumnWarning")
@pytest.mark.parametrize(
    "transport",
    [Gaussian(), Gaussian(epsilon=0.5), Gaussian(standardize=False), Semicontinuous(epsilon=0.3)],
    ids=["gaussian", "bridge", "raw units", "semicontinuous"],
)
@pytest.mark.parametrize("form", ["loco", "cross"])
def test_it_is_the_result_of_a_run_with_a_fixed_transport(transport, form):
    X, y = table()
    weight = 1.0 + np.arange(len(y)) % 2
    settings = {"estimator": "linear", "transport": transport, "form": form, "diagnose": False}
    aware = dfi.DFI(**settings).fit(X, y, frequency_weight=weight)
    known = dfi.DFI(**settings, transport_error="ignore").fit(X, y, frequency_weight=weight)
    found, expected = aware.with_fixed_transport(), known.result_
    for ours, theirs in ((found, expected), (found.latent, expected.latent)):
        np.testing.assert_allclose(ours.influence, theirs.influence, rtol=1e-12, atol=1e-12)
        assert ours.spec == theirs.spec
        assert ours.diagnostics == theirs.diagnostics
        np.testing.assert_array_equal(ours.degenerate, theirs.degenerate)
    np.testing.assert_array_equal(known.with_fixed_transport().influence, expected.influence)
    assert not np.allclose(aware.result_.se, expected.se, equal_nan=True)


def test_what_no_model_reads_stays_at_exactly_0():
    sample = dfi.datasets.m1(300, rho=0.8, d=4)
    settings = {"estimator": sample.regression, "cv": "prefit", "diagnose": False}
    aware = dfi.DFI(**settings).fit(sample.X, sample.y)
    known = dfi.DFI(**settings, transport_error="ignore").fit(sample.X, sample.y).result_
    found = aware.with_fixed_transport()
    np.testing.assert_array_equal(found.unrelated, [False, False, True, True])
    np.testing.assert_array_equal(found.influence[:, 2:], 0.0)
    np.testing.assert_allclose(found.influence, known.influence, rtol=1e-12, atol=1e-12)


def test_other_transports_are_told_to_fit_again():
    X = np.random.default_rng(0).standard_normal((80, 2))
    explainer = dfi.DFI(estimator="linear", transport="copula", diagnose=False).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"linear transport.*'copula': fit again with transport_"):
        explainer.with_fixed_transport()
    with pytest.raises(NotFittedError):
        dfi.DFI().with_fixed_transport()


def test_skewness_is_what_intervals_are_corrected_for():
    sample = dfi.datasets.m1(200, random_state=1)
    result = dfi.explain(sample.X, sample.y, "linear")
    low, high = dfi.inference.wald_interval(
        result.scores, result.se, level=0.9, skewness=result.skewness
    )
    own = result.interval(0.9)
    np.testing.assert_array_equal((low, high), (own["ci_low"], own["ci_high"]))
    u = result.influence - result.influence.mean(axis=0)
    slow = (u**3).sum(axis=0) / (u**2).sum(axis=0) ** 1.5
    np.testing.assert_allclose(result.skewness, slow, rtol=1e-10)
    assert not result.skewness.flags.writeable
