"""Simulations with known truth."""

from __future__ import annotations

from dfi.datasets.simulations import Simulation, exponential, linear_truth, m1, m2, m3, m4

__all__ = ["Simulation", "exponential", "linear_truth", "m1", "m2", "m3", "m4"]
