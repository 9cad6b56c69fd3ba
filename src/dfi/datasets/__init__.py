"""Simulations with known truth, and the data of the paper's application."""

from __future__ import annotations

from dfi.datasets.copula import gaussian_copula
from dfi.datasets.dependent import equal_features, square_and_factor
from dfi.datasets.hiv import HIVData, load_hiv
from dfi.datasets.simulations import Simulation, exponential, linear_truth, m1, m2, m3, m4

__all__ = [
    "HIVData",
    "Simulation",
    "equal_features",
    "exponential",
    "gaussian_copula",
    "linear_truth",
    "load_hiv",
    "m1",
    "m2",
    "m3",
    "m4",
    "square_and_factor",
]
