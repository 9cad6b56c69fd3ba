"""Shares taken apart, as stacked bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._parameters import validated
from dfi.plots import style
from dfi.results import views
from dfi.results.split import PARTS, Split

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi.results.views import Columns

_COLOURS = dict(zip(PARTS, (style.BLUE, style.SKY, style.ORANGE), strict=True))
_HATCHES = dict(zip(PARTS, ("", "//", ".."), strict=True))
_WORDS = {
    "unique": "unique: only it knows",
    "shared": "shared with correlated features",
    "interaction": "interaction",
}


def _split_data(parted: Split, *, top: int | None = 20) -> Columns:
    """Return the numbers behind :func:`split`: share, unique, shared and interaction.

    Examples
    --------
    >>> dfi.plots.split_data(split, top=2)["feature"].tolist()
    ['x0', 'x1']
    """
    columns = parted._columns(parted.level)
    order = views.leading(columns["share"], top)
    shown: Columns = {"feature": np.array(parted.names, dtype=object)[order]}
    return shown | {key: values[order] for key, values in columns.items()}


split_data = style.as_table(_split_data)


@validated
def split(parted: Split, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw each share as a stacked bar: unique, shared, interaction.

    Parts below 0 (suppressors) are drawn to the left of 0; a diamond marks the share itself, with
    its interval.

    Examples
    --------
    >>> [text.get_text() for text in dfi.plots.split(split, top=2).get_yticklabels()]
    ['x0', 'x1']
    """
    shown = _split_data(parted, top=top)
    count = len(shown["feature"])
    ax = style.axes_for_rows(ax, count + 2)
    rows = np.arange(count)
    ends = {1: np.zeros(count), -1: np.zeros(count)}
    for part in PARTS:
        values = np.nan_to_num(shown[part])
        for sign in (1, -1):
            own = np.where(sign * values > 0, values, 0.0)
            ax.barh(
                rows, own, left=ends[sign], height=0.66, color=_COLOURS[part], edgecolor="white",
                linewidth=0.5, hatch=_HATCHES[part], label=_WORDS[part] if sign > 0 else None,
            )  # fmt: skip
            ends[sign] = ends[sign] + own
    ax.hlines(rows, shown["share_low"], shown["share_high"], color="black", linewidth=1.2)
    ax.plot(shown["share"], rows, "D", color="black", markersize=4, label="share")
    style.zero_line(ax)
    style.label_rows(ax, shown["feature"])
    ax.set_xlabel("share of the explained variance", fontsize=9)
    style.say_how_many(ax, count, len(parted.names))
    style.small_legend(ax)
    return ax
