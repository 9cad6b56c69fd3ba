"""Simulations with known truth."""

from __future__ import annotations

from dfi.datasets.copula import gaussian_copula
from dfi.datasets.dependent import equal_features, square_and_factor
from dfi.datasets.simulations import Simulation, exponential, linear_truth, m1, m2, m3, m4

__all__ = [
    "Simulation",
    "equal_features",
    "exponential",
    "gaussian_copula",
    "linear_truth",
    "m1",
    "m2",
    "m3",
    "m4",
    "square_and_factor",
]
