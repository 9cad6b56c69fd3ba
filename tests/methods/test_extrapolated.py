"""Scores extrapolated from models of two sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import dfi
from dfi._models.fits import Cache
from dfi._models.prepare import prepare
from dfi.methods import Disentangled

SAMPLE = dfi.datasets.m1(150, d=4, rho=0.5, random_state=0)
SHRUNK = Ridge(40.0)
OPTIONS = {"estimator": SHRUNK, "random_state": 0, "diagnose": False}


class OfQuarters:
    """Fits whose halves are quarters: their cross form is that of the smaller models."""

    def __new__(cls, fits):
        found = replace(fits, cache=Cache())
        fitted = type("Fitted", (), {"folds": fits.quarters, "weights": {}})
        found.cache.halves = None, fitted
        return found


@pytest.mark.parametrize("cv", [5, 3])
def test_scores_are_twice_the_halves_less_the_quarters(cv):
    fits = prepare(SAMPLE.X, SAMPLE.y, estimator=SHRUNK, cv=cv)
    options = {"diagnose": False, "transport_error": "ignore"}
    halves = Disentangled(form="cross", **options).explain(fits).part
    quarters = Disentangled(form="cross", **options).explain(OfQuarters(fits)).scores
    found = Disentangled(form="extrapolated", **options).explain(fits).part
    expected = 2.0 * halves.influence - quarters.attributed
    np.testing.assert_allclose(found.influence, expected, rtol=0, atol=1e-10)
    latent = 2.0 * halves.latent.influence - quarters.latent
    np.testing.assert_allclose(found.latent.influence, latent, rtol=0, atol=1e-10)


def test_result_tells_of_both_sizes():
    result = dfi.explain(SAMPLE.X, SAMPLE.y, form="extrapolated", **OPTIONS)
    assert result.spec["form"] == "extrapolated"
    curve = result.diagnostics["learning_curve"]
    assert set(curve) == {"halves", "quarters", "gained", "unsettled", "words"}
    assert list(curve["halves"]) == list(curve["quarters"]) == list(result.names)
    # a penalty weighs more where rows are few
    assert sum(curve["halves"].values()) > sum(curve["quarters"].values())
    cross = dfi.explain(SAMPLE.X, SAMPLE.y, form="cross", **OPTIONS)
    assert "learning_curve" not in cross.diagnostics
    assert result.scores.sum() > cross.scores.sum()


def test_a_model_without_bias_is_moved_by_little():
    sample = dfi.datasets.m1(1500, d=4, rho=0.5, random_state=1)
    options = {"estimator": "linear", "diagnose": False}
    result = dfi.explain(sample.X, sample.y, form="extrapolated", **options)
    cross = dfi.explain(sample.X, sample.y, form="cross", **options)
    assert np.abs(result.scores - cross.scores).max() < 0.01 * cross.scores.max()


def test_a_fitted_model_is_refused_by_name():
    model = LinearRegression().fit(SAMPLE.X, SAMPLE.y)
    with pytest.raises(ValueError, match=r"form='extrapolated' multiplies two models"):
        dfi.explain(SAMPLE.X, SAMPLE.y, estimator=model, cv="prefit", form="extrapolated")


def test_what_no_model_reads_scores_exactly_0():
    generator = np.random.default_rng(2)
    rows = generator.standard_normal((200, 3))

    class First(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            super().fit(X, y, sample_weight)
            self.coef_[2] = 0.0
            return self

    y = rows[:, 0] + rows[:, 1]
    found = dfi.explain(rows, y, estimator=First(), form="extrapolated", diagnose=False)
    assert found.scores[0] > 0.5
    assert found.scores[2] == found.latent.scores[2] == 0.0
    assert not found.influence[:, 2].any()


def test_explain_and_compare_agree_with_the_default_learner():
    rows = dfi.datasets.m1(200, d=3, rho=0.5, random_state=4)
    one = dfi.explain(rows.X, rows.y, diagnose=False)
    other = dfi.compare(rows.X, rows.y, [Disentangled(diagnose=False)]).results["dfi"]
    assert one.spec["form"] == other.spec["form"] == "extrapolated"
    np.testing.assert_allclose(other.scores, one.scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.se, one.se, rtol=1e-9, atol=1e-12)
