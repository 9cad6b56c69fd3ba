"""Plots of results: Axes in, Axes out, and the numbers behind each plot as a table.

Every plot ``name`` has a twin ``name_data`` that returns what is drawn in the caller's dataframe
library. No plot calls ``show()``. The colours are those of Okabe and Ito, which readers with
colour-vision deficiencies can tell apart; significance is also told by shape, never by colour
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfi._checks import did_you_mean
from dfi._parameters import validated
from dfi.plots.attribution import (
    amplification,
    amplification_data,
    attribution,
    attribution_data,
    classes,
    classes_data,
    groups,
    groups_data,
    latent_attributed,
    latent_attributed_data,
)
from dfi.plots.change import change, change_data
from dfi.plots.comparison import comparison, comparison_data, sensitivity, sensitivity_data
from dfi.plots.interactions import interactions, interactions_data, surface, surface_data
from dfi.plots.levels import levels, levels_data
from dfi.plots.local import (
    beeswarm,
    beeswarm_data,
    dependence,
    dependence_data,
    waterfall,
    waterfall_data,
)
from dfi.plots.scores import (
    diagnostics,
    diagnostics_data,
    importance,
    importance_data,
    line_profile,
    line_profile_data,
)
from dfi.plots.split import split, split_data
from dfi.plots.survival import survival, survival_data
from dfi.plots.tree import tree, tree_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dfi.results.importance import Importance
    from dfi.results.interactions import Interactions
    from dfi.results.local import LocalAttributions

__all__ = [
    "amplification",
    "amplification_data",
    "attribution",
    "attribution_data",
    "beeswarm",
    "beeswarm_data",
    "change",
    "change_data",
    "classes",
    "classes_data",
    "comparison",
    "comparison_data",
    "dependence",
    "dependence_data",
    "diagnostics",
    "diagnostics_data",
    "groups",
    "groups_data",
    "importance",
    "importance_data",
    "interactions",
    "interactions_data",
    "latent_attributed",
    "latent_attributed_data",
    "levels",
    "levels_data",
    "line_profile",
    "line_profile_data",
    "plot_interactions",
    "plot_local",
    "plot_result",
    "sensitivity",
    "sensitivity_data",
    "split",
    "split_data",
    "surface",
    "surface_data",
    "survival",
    "survival_data",
    "tree",
    "tree_data",
    "waterfall",
    "waterfall_data",
]

_KINDS: dict[str, Callable[..., Axes | NDArray[np.object_]]] = {
    "importance": importance,
    "latent_attributed": latent_attributed,
    "attribution": attribution,
    "amplification": amplification,
    "tree": tree,
    "groups": groups,
    "classes": classes,
    "diagnostics": diagnostics,
    "survival": survival,
    "levels": levels,
}

_LOCAL_KINDS: dict[str, Callable[..., Axes]] = {
    "beeswarm": beeswarm,
    "waterfall": waterfall,
    "dependence": dependence,
}

_PAIR_KINDS: dict[str, Callable[..., Axes]] = {"interactions": interactions, "surface": surface}


@validated
def plot_local(local: LocalAttributions, kind: str = "beeswarm", **options: object) -> Axes:
    """Draw single rows with the plot of a name; what :meth:`dfi.LocalAttributions.plot` does.

    Parameters
    ----------
    kind : {"beeswarm", "waterfall", "dependence"}, default="beeswarm"
        Name of a plot of single rows.
    **options
        Those of that plot.

    Examples
    --------
    >>> dfi.plots.plot_local(local, "waterfall", row=2).get_xlabel()
    'the predicted y, row 2'
    """
    _refuse_unknown(kind, _LOCAL_KINDS)
    return _LOCAL_KINDS[kind](local, **options)


@validated
def plot_interactions(scored: Interactions, kind: str = "interactions", **options: object) -> Axes:
    """Draw pairs with the plot of a name; what :meth:`dfi.Interactions.plot` does.

    Parameters
    ----------
    kind : {"interactions", "surface"}, default="interactions"
        Name of a plot of pairs.
    **options
        Those of that plot.

    Returns
    -------
    Axes
        What was drawn on.

    Examples
    --------
    >>> import numpy as np, dfi
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> found = dfi.explain(X, X[:, 0] * X[:, 1], "linear", cv=2).interactions()
    >>> dfi.plots.plot_interactions(found, "surface", pair=("x1", "x0")).get_ylabel()
    'x0'
    """
    _refuse_unknown(kind, _PAIR_KINDS)
    return _PAIR_KINDS[kind](scored, **options)


def _refuse_unknown(kind: str, kinds: Mapping[str, object]) -> None:
    """Raise for a plot that there is not, with those that there are."""
    if kind not in kinds:
        hint = did_you_mean(kind, kinds)
        lead = f"{hint} The" if hint else "; the"
        raise ValueError(f"unknown plot {kind!r}{lead} plots are {', '.join(kinds)}.")


@validated
def plot_result(
    result: Importance, kind: str = "importance", **options: object
) -> Axes | NDArray[np.object_]:
    """Draw a result with the plot of a name; what :meth:`dfi.Importance.plot` does.

    Parameters
    ----------
    kind : str, default="importance"
        Name of a plot of a single result.
    **options
        Those of that plot.

    Examples
    --------
    >>> ax = dfi.plots.plot_result(result, "amplification")
    >>> ax.get_ylabel()
    'attributed score'
    """
    _refuse_unknown(kind, _KINDS)
    return _KINDS[kind](result, **options)
