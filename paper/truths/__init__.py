"""Population scores in closed form, of every transport and comparator that has one.

:mod:`dfi.datasets` knows the scores of its simulations under the default transport. Here are the
others, and samples that only tests and the paper's examples need: see docs/datasets.md.
"""

from __future__ import annotations

from paper.truths.copula import gaussian_copula
from paper.truths.dependent import equal_features, square_and_factor
from paper.truths.gaussian import bridge_correlation
from paper.truths.simulations import Simulation, exponential, m1, m2, m3, m4

__all__ = [
    "Simulation",
    "bridge_correlation",
    "equal_features",
    "exponential",
    "gaussian_copula",
    "m1",
    "m2",
    "m3",
    "m4",
    "square_and_factor",
]
