"""The peers, each called as its own documentation does, on given models and rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np


def fdfi_scores(forest: Any, train: np.ndarray, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """The authors' package: 50 draws, LOCO-type average, the same fitted forest."""
    from fdfi.explainers import EOTExplainer

    explainer = EOTExplainer(
        forest.predict, train, nsamples=50, epsilon=1e-3, method="scpi", random_state=0
    )
    return explainer(X, y)


def tree_shap(forest: Any, X: np.ndarray) -> np.ndarray:
    """shap.TreeExplainer, path-dependent: its quickest mode."""
    import shap

    return np.asarray(shap.TreeExplainer(forest).shap_values(X, check_additivity=False))


def hidimstat_cfi(forest: Any, train: tuple, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Conditional feature importance, its default of 50 permutations."""
    from hidimstat import CFI

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = CFI(forest, random_state=0)
        explainer.fit(*train)
        return np.asarray(explainer.importance(X, y))


def hidimstat_loco(forest: Any, train: tuple, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Leave one covariate out: one refit for every feature."""
    from hidimstat import LOCO

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = LOCO(forest)
        explainer.fit(*train)
        return np.asarray(explainer.importance(X, y))


def sage_values(forest: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """SAGE with a marginal imputer of 64 background rows, stopped after 2048 permutations."""
    import sage

    imputer = sage.MarginalImputer(forest.predict, X[:64])
    estimator = sage.PermutationEstimator(imputer, "mse")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explanation = estimator(
            X, y, batch_size=64, n_permutations=2048, detect_convergence=False, bar=False
        )
    return np.asarray(explanation.values)
