"""Plots of results: Axes in, Axes out, and the numbers behind each plot as a table.

Every plot ``name`` has a twin ``name_data`` that returns what is drawn in the caller's dataframe
library. No plot calls ``show()``. The colours are those of Okabe and Ito, which readers with
colour-vision deficiencies can tell apart; significance is also told by shape, never by colour
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfi._checks import did_you_mean
from dfi.plots.attribution import (
    amplification,
    amplification_data,
    attribution,
    attribution_data,
    groups,
    groups_data,
    latent_attributed,
    latent_attributed_data,
    tree,
    tree_data,
)
from dfi.plots.comparison import (
    change,
    change_data,
    comparison,
    comparison_data,
    sensitivity,
    sensitivity_data,
)
from dfi.plots.interactions import (
    interactions,
    interactions_data,
    split,
    split_data,
    surface,
    surface_data,
)
from dfi.plots.local import (
    beeswarm,
    beeswarm_data,
    dependence,
    dependence_data,
    waterfall,
    waterfall_data,
)
from dfi.plots.outcomes import classes, classes_data, levels, levels_data, survival, survival_data
from dfi.plots.scores import (
    diagnostics,
    diagnostics_data,
    importance,
    importance_data,
    line_profile,
    line_profile_data,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = [
    "amplification", "amplification_data", "attribution", "attribution_data", "beeswarm",
    "beeswarm_data", "change", "change_data", "classes", "classes_data", "comparison",
    "comparison_data", "dependence", "dependence_data", "diagnostics", "diagnostics_data",
    "groups", "groups_data", "importance", "importance_data", "interactions", "interactions_data",
    "latent_attributed", "latent_attributed_data", "levels", "levels_data", "line_profile",
    "line_profile_data", "sensitivity", "sensitivity_data", "split", "split_data", "surface",
    "surface_data", "survival", "survival_data", "tree", "tree_data", "waterfall",
    "waterfall_data",
]  # fmt: skip

_KINDS = {
    "Importance": (
        "importance", "latent_attributed", "attribution", "amplification", "tree", "groups",
        "classes", "diagnostics", "survival", "levels",
    ),
    "LocalAttributions": ("beeswarm", "waterfall", "dependence"),
    "Interactions": ("interactions", "surface"),
}  # fmt: skip
"""The plots of each kind of result, by name."""


def draw(shown: object, kind: str, options: Mapping[str, object]) -> Axes | NDArray[np.object_]:
    """Draw a result, single rows or pairs by the name of a plot."""
    kinds = _KINDS[type(shown).__name__]
    if kind not in kinds:
        hint = did_you_mean(kind, kinds)
        lead = f"{hint} The" if hint else "; the"
        raise ValueError(f"unknown plot {kind!r}{lead} plots are {', '.join(kinds)}.")
    drawn: Axes | NDArray[np.object_] = globals()[kind](shown, **options)
    return drawn
