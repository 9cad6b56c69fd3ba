"""Standard errors, intervals, tests, multiplicity and simultaneous bands.

A result computes its own. What is listed here makes intervals from estimates and standard errors
that come from elsewhere: averages of several results, or replicated simulations.
"""

from __future__ import annotations

from dfi.inference.intervals import expand_standard_errors, wald_interval

__all__ = ["expand_standard_errors", "wald_interval"]
