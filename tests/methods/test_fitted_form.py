"""The form of a fitted model: its noise drops out, predictions that shrink are stretched."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge

import dfi

QUIET = {"cv": "prefit", "diagnose": False}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((1600, 6))
X[:, 1] += X[:, 0]
MU = X[:, 0] + 0.7 * X[:, 1] - 0.5 * X[:, 2] ** 2
Y = MU + 1.5 * RNG.standard_normal(1600)
SEEN, HELD = slice(0, 800), slice(800, None)
OVERFITTED = {"max_iter": 200, "min_samples_leaf": 3, "early_stopping": False, "random_state": 0}


def explained(model, y=Y, **options):
    return dfi.explain(X[HELD], y[HELD], model, **{**QUIET, **options})


def test_an_overfitted_model_has_the_scores_of_the_regression():
    model = HistGradientBoostingRegressor(**OVERFITTED).fit(X[SEEN], Y[SEEN])
    found, loco = explained(model), explained(model, form="loco")
    truth = MU.var()
    assert found.spec["form"] == "cpi"
    assert found.diagnostics["stretch"]["factor"] == 1.0
    assert found.scores.sum() == pytest.approx(truth, rel=0.2)
    assert loco.scores.sum() < 0.9 * truth
    assert (loco.scores[3:] < 0.0).all()
    assert (found.table(sort=False)["p"][:3] < 0.01).all()
    assert (np.abs(found.scores[3:]) < 3 * found.se[3:]).all()


def test_an_overfitted_classifier_finds_its_features():
    y = (Y > 0.5).astype(int)
    model = HistGradientBoostingClassifier(**OVERFITTED).fit(X[SEEN], y[SEEN])
    found, loco = explained(model, y), explained(model, y, form="loco")
    assert found.spec["form"] == "cpi"
    assert found.scores.sum() > 0.1 > loco.scores.sum()
    assert (found.table(sort=False)["p"][:3] < 0.01).all()


def test_a_shrunken_model_is_stretched_to_what_it_would_explain():
    """For linear models scores add up to Cov(y, eta)^2 / Var(eta), whatever the shrinkage."""
    y = MU + 0.5 * X[:, 2] ** 2 + RNG.standard_normal(1600)
    model = LinearRegression().fit(X[SEEN], y[SEEN])
    eta = model.predict(X[HELD])
    whole = np.cov(y[HELD], eta, bias=True)[0, 1] ** 2 / eta.var()
    sums = []
    for share in (0.5, 0.8):
        shrunk = LinearRegression().fit(X[SEEN], share * y[SEEN])
        found = explained(shrunk, y, transport_error="ignore")
        plain = explained(shrunk, y, transport_error="ignore", form="cpi")
        factor = found.diagnostics["stretch"]["factor"]
        np.testing.assert_allclose(found.scores, factor * plain.scores, rtol=1e-9)
        assert found.explained.value == pytest.approx(whole, rel=1e-9)
        sums.append(found.scores.sum())
    np.testing.assert_allclose(sums, whole, rtol=0.02)


def test_the_factor_is_part_of_the_standard_errors():
    """Scores times a slope, by the bootstrap of the rows under a transport that is known."""
    model = Ridge(alpha=800.0).fit(X[SEEN], Y[SEEN])
    found = explained(model, transport_error="ignore")
    plain = explained(model, transport_error="ignore", form="cpi")
    eta, y, u = model.predict(X[HELD]), Y[HELD], plain.influence
    draws = np.random.default_rng(1).integers(0, len(y), (400, len(y)))
    scores = [np.cov(y[d], eta[d])[0, 1] / eta[d].var(ddof=1) * u[d].mean(axis=0) for d in draws]
    np.testing.assert_allclose(found.se[:2], np.std(scores, axis=0)[:2], rtol=0.25)


@pytest.mark.parametrize("model", ["overfitted", "linear"])
def test_the_transports_own_error_is_that_of_refits(model):
    learner = LinearRegression()
    if model == "overfitted":
        learner = HistGradientBoostingRegressor(**{**OVERFITTED, "max_iter": 60})
    fitted = learner.fit(X[SEEN], Y[SEEN])
    errors = [explained(fitted, transport_error=how).se for how in ("derived", "jackknife")]
    np.testing.assert_allclose(errors[0][:3], errors[1][:3], rtol=0.3)


def test_other_losses_and_changes_keep_loco():
    counts = RNG.poisson(np.exp(0.3 * X[:, 0]))
    model = PoissonRegressor().fit(X[SEEN], counts[SEEN])
    assert explained(model, counts, loss="poisson").spec["form"] == "loco"
    assert explained(model, counts, task="regression").spec["form"] == "cpi"
    linear = LinearRegression().fit(X[SEEN], Y[SEEN])
    periods = [(X[part], Y[part]) for part in (slice(0, 400), slice(400, 800))]
    found = dfi.change(*periods, estimator=linear, **QUIET)
    assert found.before.spec["form"] == "loco"
    assert found.covariates is not None


def test_a_model_that_predicts_one_number_is_not_stretched():
    with pytest.warns(dfi.warnings.WeakModelWarning):
        found = explained(lambda rows: np.full(len(rows), 2.0))
    assert found.diagnostics["stretch"]["factor"] == 1.0
    assert not found.scores.any()
