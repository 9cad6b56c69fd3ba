"""Folds and repeats put together: the same numbers fold by fold, by hand."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import dfi
from dfi._lines.choose import Quadrature, line_model
from dfi._scoring import scores as scores_module
from dfi._scoring import task as task_module
from dfi._scoring.lines import latent_scores

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((70, 3)) @ GENERATOR.standard_normal((3, 3))
Y = 3 * X @ [1.0, -0.5, 0.0] + GENERATOR.standard_normal(70)
# folds of very different mass: a mean over folds is not a mean over rows
WEIGHTS = np.where(np.arange(70) < 10, 5.0, 0.5) * GENERATOR.uniform(0.5, 1.5, 70)
HALVES = [
    (np.arange(35, 70), np.arange(35)),
    (np.arange(35), np.arange(35, 70)),
    (np.arange(0, 70, 2), np.arange(1, 70, 2)),
    (np.arange(1, 70, 2), np.arange(0, 70, 2)),
]


@pytest.mark.parametrize("form", ["cross", "loco"])
def test_rows_are_averaged_over_repeats_and_folds_by_their_mass(form):
    explainer = dfi.DFI(estimator="ridge", cv=HALVES, form=form, diagnose=False)
    explainer.fit(X, Y, sample_weight=WEIGHTS)
    pooled, mass = explainer.pooled_, WEIGHTS * 70 / WEIGHTS.sum()
    influence, prediction = np.zeros((70, 3)), np.zeros(70)
    sums, sensitivity = np.zeros((2, 3)), np.zeros((3, 3))
    assert [fold.repeat for fold in explainer.models_] == [0, 0, 1, 1]
    for fold, (_, test) in zip(explainer.models_, HALVES, strict=True):
        assert np.array_equal(fold.test, test)
        models = [line_model(p, X[test], Quadrature()) for p in fold.predictors]
        assert len(models) == (2 if form == "cross" else 1)
        found = latent_scores(
            models, X[test], Y[test], mass[test], explainer.transport_.geometry, form=form
        )
        influence[test] += found.influence / 2
        prediction[test] += found.prediction / 2
        sums[fold.repeat] += mass[test] @ found.influence / 70
        sensitivity += mass[test].sum() * found.sensitivity / 140
    np.testing.assert_allclose(pooled.latent, influence)
    np.testing.assert_allclose(pooled.lines.prediction, prediction)
    np.testing.assert_allclose(pooled.latent_by_repeat, sums)
    np.testing.assert_allclose(pooled.lines.sensitivity, sensitivity)
    squared = explainer.transport_.geometry.attribution**2
    spread = (sums @ squared.T).std(axis=0, ddof=1)
    np.testing.assert_allclose(explainer.result_.spread, spread)


def test_every_model_is_read_once_for_scores_error_and_diagnosis(monkeypatch):
    read = []

    def counted(predictor, *given, **others):
        read.append(id(predictor))
        return line_model(predictor, *given, **others)

    monkeypatch.setattr(task_module, "line_model", counted)
    explainer = dfi.DFI(estimator="ridge", cv=HALVES[:2], transport_error="jackknife")
    explainer.fit(X, Y)
    models = [id(predictor) for fold in explainer.models_ for predictor in fold.predictors]
    assert sorted(read) == sorted(models)


def test_models_that_were_read_are_not_sent_with_a_task():
    readings = task_module.LineModels()
    readings._read["model"] = None, None
    assert not pickle.loads(pickle.dumps(readings))._read  # noqa: S301


def test_prediction_beside_the_scores_is_that_of_the_models():
    explainer = dfi.DFI(estimator="ridge", cv=HALVES[:2], diagnose=False).fit(X, Y)
    fold = explainer.models_[0]
    models = [line_model(p, X, Quadrature()) for p in fold.predictors]
    found = latent_scores(models, X, Y, np.ones(70), explainer.transport_.geometry, form="cross")
    expected = np.mean([predictor(X) for predictor in fold.predictors], axis=0)
    np.testing.assert_allclose(found.prediction, expected)


def test_many_rows_share_a_block_unless_blocks_have_seeds():
    explainer = dfi.DFI(estimator="ridge", cv=HALVES[:2], diagnose=False).fit(X, Y)
    whitening = explainer.transport_.geometry
    assert scores_module.rows_at_once(whitening) == 16_384
    assert scores_module.rows_at_once(replace(whitening, smoothing=0.5)) == 1024
