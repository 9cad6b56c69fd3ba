"""Ctrl-C ends a call, whatever a model makes of it."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

import dfi

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = X[:, 0] + RNG.standard_normal(60)


class Swallows(RegressorMixin, BaseEstimator):
    """Hears Ctrl-C in one of its methods, and raises something else or goes on."""

    def __init__(self, where: str = "fit", instead: bool = True) -> None:
        self.where = where
        self.instead = instead

    def _interrupted(self, where: str) -> None:
        if where != self.where:
            return
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
        except KeyboardInterrupt:
            pass
        if self.instead:
            raise RuntimeError("some compiled code failed")

    def fit(self, X, y):
        self._interrupted("fit")
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        self._interrupted("predict")
        return np.asarray(X)[:, 0] + self.mean_


@pytest.mark.skipif(not hasattr(signal, "pause"), reason="Windows")
@pytest.mark.parametrize("where", ["fit", "predict"])
@pytest.mark.parametrize("instead", [True, False])
def test_an_interrupt_inside_a_model_is_one(where, instead):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        dfi.explain(X, Y, Swallows(where, instead), cv=2, diagnose=False)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_errors_stay_what_they_are():
    class Fails(Swallows):
        def fit(self, X, y):
            raise RuntimeError("no luck")

    with pytest.raises(ValueError, match=r"could not be fitted on 15 rows .*no luck"):
        dfi.explain(X, Y, Fails(), cv=2, diagnose=False)


def test_more_workers_than_machines_have():
    with pytest.raises(ValueError, match=r"^n_jobs is 1000000, more workers .* pass -1 for one on"):
        dfi.explain(X, Y, "linear", cv=2, n_jobs=10**6, diagnose=False)
