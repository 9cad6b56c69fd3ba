"""Which features move the lower tail of a distribution, which the middle, which the upper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._parameters import validated
from dfi.plots import style
from dfi.results.levels import level_columns
from dfi.results.views import Columns, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi.results.importance import Importance


def _levels_data(result: Importance, *, top: int | None = 6) -> Columns:
    """Return the numbers behind :func:`levels`, one row for each feature and level.

    Examples
    --------
    >>> len(dfi.plots.levels_data(whole, top=2))
    18
    """
    found = level_columns(result)
    shown = len(result.names) if top is None else top
    count = len(result.by_outcome)
    return {key: values[: shown * count] for key, values in found.items()}


levels_data = style.as_table(_levels_data)


@validated
def levels(result: Importance, *, top: int | None = 6, ax: Axes | None = None) -> Axes:
    """Draw the scores of a distribution against its levels, a line for each feature.

    Bands are pointwise intervals. A feature that moves the mean is high in the middle; one that
    moves the spread has two humps, beside the middle.

    Examples
    --------
    >>> dfi.plots.levels(whole).get_xlabel()
    'level of the distribution'
    """
    shown, count = _levels_data(result, top=top), len(result.by_outcome)
    ax = style.new_axes(6.4, 4.2) if ax is None else ax
    names = list(dict.fromkeys(shown["feature"]))
    markers = "osD^vPX"
    for k, label in enumerate(short_names(names, 24)):
        rows = slice(k * count, (k + 1) * count)
        colour = style.CYCLE[k % len(style.CYCLE)]
        at = shown["quantile"][rows]
        ax.plot(at, shown["score"][rows], color=colour, marker=markers[k % 7], ms=4, label=label)
        low, high = (np.asarray(shown[key][rows], dtype=float) for key in ("ci_low", "ci_high"))
        ax.fill_between(at, low, high, color=colour, alpha=0.12, lw=0)
    ax.axhline(0.0, color=style.GREY, lw=0.8)
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("level of the distribution")
    ax.set_ylabel("score at that level (Brier)")
    ax.legend(loc="upper right", fontsize=8, frameon=False)
    return ax
