"""Classifiers that have their classes in another order than the sorted one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dfi

RNG = np.random.default_rng(0)
N = 120
X = pd.DataFrame(RNG.standard_normal((N, 3)), columns=list("abc"))
CODES = (X["a"] + 0.5 * X["b"] + 0.5 * RNG.standard_normal(N) > 0.4).to_numpy().astype(int)
THREE = np.digitize(X["a"] + 0.5 * X["b"] + 0.5 * RNG.standard_normal(N), [-0.3, 0.9])


class Turned(ClassifierMixin, BaseEstimator):
    """A logistic regression with its classes turned by some places: 0 leaves them sorted."""

    def __init__(self, places: int = 0, names: str = "same") -> None:
        self.places = places
        self.names = names

    def fit(self, X, y, sample_weight=None):
        given = np.asarray(y).astype(str) if self.names == "text" else y
        self.inner_ = LogisticRegression().fit(np.asarray(X), given, sample_weight)
        self.order_ = np.roll(np.arange(len(self.inner_.classes_)), self.places)
        self.classes_ = self.inner_.classes_[self.order_]
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(np.asarray(X))[:, self.order_]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


OUTCOMES = {
    "numbers": CODES,
    "text": np.array(["no", "yes"])[CODES],
    "three": np.array(["low", "mid", "top"])[THREE],
    "eleven": pd.qcut(X["a"], 11, labels=False).to_numpy(),
}


def scores(y, model, **options):
    given = {"cv": 2, "form": "loco", "diagnose": False, "task": "classification"} | options
    return dfi.explain(X, y, model, **given).scores


@pytest.mark.filterwarnings("ignore::dfi.warnings.WeakModelWarning")
@pytest.mark.parametrize("loss", ["brier", "log-loss"])
@pytest.mark.parametrize("y", ["numbers", "text", "three"])
def test_models_that_are_fitted_here(y, loss):
    asked = {"loss": loss}
    right = scores(OUTCOMES[y], Turned(), **asked)
    np.testing.assert_allclose(scores(OUTCOMES[y], Turned(1), **asked), right, rtol=1e-9)
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), Turned(1))
    np.testing.assert_allclose(scores(OUTCOMES[y], pipeline, **asked), right, rtol=1e-6)


@pytest.mark.parametrize("y", ["numbers", "text", "three"])
def test_models_that_were_fitted_elsewhere(y):
    asked = {"cv": "prefit"}
    right = scores(OUTCOMES[y], Turned().fit(X, OUTCOMES[y]), **asked)
    found = scores(OUTCOMES[y], Turned(1).fit(X, OUTCOMES[y]), **asked)
    np.testing.assert_allclose(found, right, rtol=1e-9)
    search = GridSearchCV(Turned(), {"places": [1]}, cv=2).fit(X, OUTCOMES[y])
    np.testing.assert_allclose(scores(OUTCOMES[y], search, **asked), right, rtol=1e-9)


def test_the_other_class_and_log_odds():
    model, turned = (Turned(k).fit(X, OUTCOMES["text"]) for k in (0, 1))
    for options in ({"pos_label": "no"}, {"pos_label": "yes"}, {"scale": "margin"}):
        right = scores(OUTCOMES["text"], model, cv="prefit", **options)
        found = scores(OUTCOMES["text"], turned, cv="prefit", **options)
        np.testing.assert_allclose(found, right, rtol=1e-6)
    plain = scores(CODES, Turned().fit(X, CODES), cv="prefit", scale="margin")
    found = scores(CODES, Turned(1).fit(X, CODES), cv="prefit", scale="margin")
    np.testing.assert_allclose(found, plain, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::dfi.warnings.DFIWarning")
def test_submodels_take_the_same_column():
    for y in ("text", "three"):
        found, right = (
            dfi.compare(X, OUTCOMES[y], "loco", estimator=Turned(k), cv=2)["loco"].scores
            for k in (1, 0)
        )
        np.testing.assert_allclose(found, right, rtol=1e-9)


def test_a_classifier_that_makes_text_of_eleven_classes():
    """As text "10" comes before "2"."""
    found, right = (
        dfi.explain(
            X, OUTCOMES["eleven"], Turned(names=names), cv=[(np.arange(60), np.arange(60, N))],
            form="loco", task="classification", diagnose=False,
        ).scores
        for names in ("text", "same")
    )  # fmt: skip
    np.testing.assert_allclose(found, right, rtol=1e-9)
