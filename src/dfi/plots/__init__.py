"""Plots of results: Axes in, Axes out, and the numbers behind each plot as a table.

Every plot ``name`` has a twin ``name_data`` that returns what is drawn in the caller's dataframe
library. No plot calls ``show()``. The colours are those of Okabe and Ito, which readers with
colour-vision deficiencies can tell apart; significance is also told by shape, never by colour
alone.
"""

from __future__ import annotations

from dfi.plots.attribution import (
    amplification,
    amplification_data,
    attribution,
    attribution_data,
    latent_attributed,
    latent_attributed_data,
)
from dfi.plots.bars import importance, importance_data
from dfi.plots.comparison import comparison, comparison_data, sensitivity, sensitivity_data
from dfi.plots.diagnostics import diagnostics, diagnostics_data
from dfi.plots.groups import groups, groups_data
from dfi.plots.profile import line_profile, line_profile_data
from dfi.plots.result import plot_result

__all__ = [
    "amplification",
    "amplification_data",
    "attribution",
    "attribution_data",
    "comparison",
    "comparison_data",
    "diagnostics",
    "diagnostics_data",
    "groups",
    "groups_data",
    "importance",
    "importance_data",
    "latent_attributed",
    "latent_attributed_data",
    "line_profile",
    "line_profile_data",
    "plot_result",
    "sensitivity",
    "sensitivity_data",
]
