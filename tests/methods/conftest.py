from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin


class Oracle(RegressorMixin, BaseEstimator):
    """A regression that knows the truth; nothing to fit."""

    def __init__(self, function: Any = None) -> None:
        self.function = function

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Oracle:
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: Any) -> Any:
        return self.function(np.asarray(X))


@pytest.fixture
def oracle() -> type[Oracle]:
    return Oracle


def gaussian_linear(
    n: int, correlation: np.ndarray, beta: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, len(beta))) @ np.linalg.cholesky(correlation).T
    return X, X @ beta + generator.standard_normal(n)


@pytest.fixture(scope="session")
def linear_sample() -> dict[str, Any]:
    correlation = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, 0.4], [0.3, 0.4, 1.0]])
    beta = np.array([2.0, -1.0, 0.5])
    X, y = gaussian_linear(4000, correlation, beta, 3)
    return {"X": X, "y": y, "correlation": correlation, "beta": beta}
