"""Simulations with known truth, and the data of the paper's application."""

from __future__ import annotations

from dfi.datasets.hiv import HIVData, load_hiv
from dfi.datasets.simulations import (
    Linear,
    Regression,
    Simulation,
    exponential,
    linear_truth,
    m1,
    m2,
    m3,
    m4,
)

__all__ = [
    "HIVData", "Linear", "Regression", "Simulation", "exponential", "linear_truth", "load_hiv",
    "m1", "m2", "m3", "m4",
]  # fmt: skip
