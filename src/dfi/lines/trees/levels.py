"""Trees on columns with levels: every split at the midpoint between the levels that it separates.

Libraries put thresholds anywhere between two neighbouring levels, and some put them *at* a level,
where the smallest move of a row crosses it. At the midpoint the trees decide every row as the model
decides the row with the nearest levels, so line means stay exact and cost the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dfi.lines.trees.reading import require

if TYPE_CHECKING:
    from dfi.data.levels import Levels
    from dfi.lines.trees.ensemble import TreeEnsemble


def at_midpoints(ensemble: TreeEnsemble, levels: Levels) -> TreeEnsemble:
    """Return the function of rows that decodes them to levels and asks the trees."""
    for block in levels.blocks:
        require(
            not np.isin(ensemble.feature, block.positions).any(),
            f"it splits on the levels of a category of {len(block.positions)}, decoded from "
            "several numbers (two levels would be exact)",
        )
    threshold = ensemble.threshold.copy()
    for grid in levels.grids:
        nodes = ensemble.feature == grid.position
        threshold[nodes] = grid.move(threshold[nodes])
    return replace(ensemble, threshold=threshold)
