"""The same data and the same fitted models through other packages, where they are installed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import dfi
from dfi.methods import CPI

N_TRAIN, N_TEST = 600, 400


@pytest.fixture(scope="module")
def split() -> dict[str, Any]:
    sample = dfi.datasets.m1(N_TRAIN + N_TEST, rho=0.6, d=4, random_state=2)
    train, test = np.arange(N_TRAIN), np.arange(N_TRAIN, N_TRAIN + N_TEST)
    return {"X": sample.X, "y": sample.y, "train": train, "test": test}


def test_loco_is_hidimstats_loco(split: dict[str, Any]) -> None:
    """No factor between them; theirs tests residuals, not loss differences, so no p-values here."""
    hidimstat = pytest.importorskip("hidimstat")
    X, y, train, test = split.values()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = hidimstat.LOCO(LinearRegression().fit(X[train], y[train]))
        peer.fit(X[train], y[train])
        theirs = peer.importance(X[test], y[test])
    ours = dfi.compare(X, y, "loco", estimator="linear", cv=[(train, test)])["loco"]
    np.testing.assert_allclose(ours.scores, theirs, rtol=1e-8, atol=1e-10)


def test_plain_cpi_is_half_of_hidimstats_cfi(split: dict[str, Any]) -> None:
    """Theirs has no factor 1/2, and permutes residuals at random; ours meets every held-out row."""
    hidimstat = pytest.importorskip("hidimstat")
    X, y, train, test = split.values()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = hidimstat.CFI(
            LinearRegression().fit(X[train], y[train]),
            imputation_model_continuous=LinearRegression(),
            n_permutations=200,
            random_state=0,
        )
        peer.fit(X[train], y[train])
        theirs = peer.importance(X[test], y[test])
    ours = dfi.compare(
        X, y, CPI(debias=False, n_permutations=399), estimator="linear", cv=[(train, test)]
    )["cpi"]
    np.testing.assert_allclose(2 * ours.scores[0], theirs[0], rtol=0.02)
    np.testing.assert_allclose(2 * ours.scores[1:], theirs[1:], atol=0.01)


def test_nloco_agrees_with_vimpys_r_squared(split: dict[str, Any]) -> None:
    """Their importance is ours over Var(Y), our nLOCO, with one difference.

    ``vimpy.vim`` always takes the full model's R2 on one half of the rows and the reduced model's
    on the other (each over that half's own variance), so the values agree up to its error.
    """
    vimpy = pytest.importorskip("vimpy")
    X, y, train, test = split.values()
    full = LinearRegression().fit(X[train], y[train]).predict(X[test])
    reduced = LinearRegression().fit(X[train][:, 1:], y[train]).predict(X[test][:, 1:])
    half = np.arange(N_TEST) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            peer = vimpy.vim(
                y=y[test],
                x=X[test],
                s=0,
                f=full[half == 1],
                r=reduced[half == 0],
                folds=half,
                measure_type="r_squared",
            )
            peer.get_point_est()
            peer.get_influence_function()
            peer.get_se()
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            pytest.skip(f"vimpy does not run here: {error}")
    theirs, error = float(peer.vimp_), float(np.hypot(peer.se_full_, peer.se_redu_))
    ours = dfi.compare(X, y, "nloco", estimator="linear", cv=[(train, test)])["nloco"]
    assert abs(theirs - ours.scores[0]) < 3 * np.hypot(error, ours.se[0])


def test_shapley_values_of_log_loss_are_sages() -> None:
    """Independent features: a refit without a feature is the model averaged over it, nearly."""
    sage = pytest.importorskip("sage")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3))
    y = (rng.random(2000) < 1.0 / (1.0 + np.exp(-1.5 * X[:, 0] - X[:, 1]))).astype(int)
    model = LogisticRegression(C=1e4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        imputer = sage.MarginalImputer(model.fit(X, y), X[:256])
        estimator = sage.PermutationEstimator(imputer, "cross entropy", random_state=0)
        theirs = estimator(X, y, bar=False, thresh=0.03)
    ours = dfi.compare(X, y, "shapley", estimator=model, loss="log-loss")["shapley"]
    room = 3.0 * theirs.std + 0.02 * theirs.values.max()
    assert (np.abs(ours.scores - theirs.values) < room).all()
    assert ours.scores[0] > 2 * ours.scores[1] > 0.05
