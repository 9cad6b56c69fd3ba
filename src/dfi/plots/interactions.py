"""Plots of pairs (a heat map, a surface) and of split shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._parameters import validated
from dfi.plots import style
from dfi.plots.local import placed_values
from dfi.results import views
from dfi.results.interactions import pair_columns
from dfi.results.split import PARTS, Split, split_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi._types import Floats
    from dfi.results.interactions import Interactions
    from dfi.results.views import Columns

_COLOURS = dict(zip(PARTS, (style.BLUE, style.SKY, style.ORANGE), strict=True))
_HATCHES = dict(zip(PARTS, ("", "//", ".."), strict=True))
_WORDS = {
    "unique": "unique to the feature",
    "shared": "shared with correlated features",
    "interaction": "interaction",
}

CELLS, FEWEST_ROWS = 24, 1.0
"""Cells along each side of a surface, and the rows needed near a drawn cell."""

MOST_NUMBERED = 9
"""Features up to which cells hold their numbers, beside the stars."""

REACH = 0.12
"""Standard width of the neighbourhood of a cell, as a share of the axis."""

OUTLYING = 0.01
"""Rows at each end of a number's values that the surface leaves out."""


@style.as_table
def interactions_data(scored: Interactions, *, top: int | None = 15) -> Columns:
    """Return the numbers behind :func:`interactions`: a row for each pair that is drawn.

    Parameters
    ----------
    top : int or None, default=15
        How many features, those of the largest pairs first.

    Examples
    --------
    >>> len(dfi.plots.interactions_data(pairs))
    3
    """
    table = pair_columns(scored, scored.level)
    chosen = _leading_units(scored, top)
    kept = [
        at
        for at, (one, other) in enumerate(scored.pairs)
        if one in set(chosen) and other in set(chosen)
    ]
    return {
        "feature": np.array([scored.pairs[at][0] for at in kept], dtype=object),
        "partner": np.array([scored.pairs[at][1] for at in kept], dtype=object),
        **{key: table[key][kept] for key in ("share", "score", "ci_low", "ci_high", "p_adj")},
    }


def _leading_units(scored: Interactions, top: int | None) -> list[str]:
    """Return the units of the largest pairs, in the order in which they first appear."""
    named = [name for pair in scored.pairs for name in pair]
    return list(dict.fromkeys(named))[: len(named) if top is None else top]


@validated
def interactions(scored: Interactions, *, top: int | None = 15, ax: Axes | None = None) -> Axes:
    """Draw the scores of pairs as a heat map; a star marks significant ones.

    Grey cells are pairs that were not asked about: screening found nothing in them.

    Parameters
    ----------
    top : int or None, default=15
        How many features, those of the largest pairs first.

    Examples
    --------
    >>> len(dfi.plots.interactions(pairs).get_yticklabels())
    3
    """
    shown = interactions_data.columns(scored, top=top)
    names = _leading_units(scored, top)
    place = {name: at for at, name in enumerate(names)}
    shared = bool(np.isfinite(shown["share"]).any())
    values = np.full((len(names), len(names)), np.nan)
    texts = np.full(values.shape, "", dtype=object)
    for one, other, value, p in zip(
        shown["feature"],
        shown["partner"],
        shown["share" if shared else "score"],
        shown["p_adj"],
        strict=True,
    ):
        text = f"{max(100 * value, 0.0):.0f}" if shared else f"{value:.2g}".replace("-", "−")
        text = (text if len(names) <= MOST_NUMBERED else "") + "*" * bool(p < views.CHANCE)
        for row, column in ((place[one], place[other]), (place[other], place[one])):
            values[row, column], texts[row, column] = value, text
    side = float(min(max(4.0, 2.4 + 0.3 * len(names)), 12.0))
    ax = style.new_axes(side + 0.8, side) if ax is None else ax
    highest = max(float(np.nanmax(values, initial=0.0)), 1e-12)
    ax.set_facecolor("#D9D9D9")
    image = style.heat_map(ax, values, highest, texts)
    style.label_square(ax, names)
    whole = "% of the explained variance" if shared else "score of the pair"
    bar = style.colour_bar(ax, image, whole)
    if shared:
        ticks = [tick for tick in bar.get_ticks() if 0.0 <= tick <= highest]
        bar.set_ticks(ticks, labels=[f"{100 * tick:.3g}" for tick in ticks])
    style.say_how_many(ax, len(names), len(scored.names))
    return ax


@style.as_table
def surface_data(scored: Interactions, *, pair: tuple[str, str] | None = None) -> Columns:
    """Return the numbers behind :func:`surface`: both values and the joint effect of each row.

    Parameters
    ----------
    pair : tuple of two str, optional
        The pair; that with the largest score by default.

    Examples
    --------
    >>> dfi.plots.surface_data(pairs, pair=("x0", "x1")).columns.tolist()
    ['row', 'first', 'second', 'effect']
    """
    at = 0 if pair is None else scored.place_of(pair)
    one, other = scored.pairs[at] if pair is None else pair
    for name in (one, other):
        if name not in scored.features:
            raise ValueError(
                f"{name!r} is a group of columns and has no value of its own to draw a surface "
                "over: explain with units='columns'"
            )
    rows = scored.basis.rows
    return {
        "row": np.arange(len(scored.effects)) if rows is None else rows,
        "first": scored.features[one],
        "second": scored.features[other],
        "effect": scored.effects[:, at],
    }


@validated
def surface(
    scored: Interactions, *, pair: tuple[str, str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a pair's joint effect on the predictions, over the values of its two features.

    Colours are means of the joint effects of the rows nearby, beyond what the two features add one
    by one; where there are no rows nothing is drawn. Points are rows.

    Parameters
    ----------
    pair : tuple of two str, optional
        The pair, its first feature along the bottom; that with the largest score by default.

    Examples
    --------
    >>> dfi.plots.surface(pairs, pair=("x1", "x0")).get_xlabel()
    'x1'
    """
    shown = surface_data.columns(scored, pair=pair)
    one, other = scored.pairs[0] if pair is None else pair
    ax = style.new_axes(6.2, 4.8) if ax is None else ax
    sides = [placed_values(shown[key]) for key in ("first", "second")]
    grids, edges, reach = zip(*(_grid(*side) for side in sides), strict=True)
    near = [
        np.exp(-0.5 * ((grid[:, None] - values) / width) ** 2)
        for grid, (values, _), width in zip(grids, sides, reach, strict=True)
    ]
    mass = near[1] @ near[0].T
    mean = np.divide(
        (near[1] * shown["effect"]) @ near[0].T,
        mass,
        out=np.full(mass.shape, np.nan),
        where=mass >= FEWEST_ROWS,
    )
    size = float(np.nanmax(np.abs(mean), initial=0.0)) or 1.0
    image = ax.pcolormesh(
        *edges, np.ma.masked_invalid(mean), cmap="PuOr_r", vmin=-size, vmax=size, rasterized=True
    )
    ax.scatter(sides[0][0], sides[1][0], s=3.0, color="black", alpha=0.25, linewidths=0.0)
    for axis, name, (_, labels), limits in (
        (ax.xaxis, one, sides[0], edges[0]),
        (ax.yaxis, other, sides[1], edges[1]),
    ):
        if labels:
            style.write_ticks(axis, np.arange(len(labels)), labels)
        axis.set_label_text(views.shorten(name, 40), fontsize=9, parse_math=False)
        (ax.set_xlim if axis is ax.xaxis else ax.set_ylim)(limits[0], limits[-1])
    style.colour_bar(ax, image, "joint effect on the prediction")
    return ax


def _grid(values: Floats, labels: list[str]) -> tuple[Floats, Floats, float]:
    """Return the middles and the edges of cells along an axis, and how far a cell reaches."""
    if labels:
        middles = np.arange(len(labels), dtype=np.float64)
        return middles, np.append(middles, len(labels)) - 0.5, 0.3
    low, high = np.quantile(values, [OUTLYING, 1.0 - OUTLYING]).tolist()
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges: Floats = np.linspace(low, high, CELLS + 1, dtype=np.float64)
    return 0.5 * (edges[1:] + edges[:-1]), edges, 0.5 * REACH * (high - low)


@style.as_table
def split_data(parted: Split, *, top: int | None = 20) -> Columns:
    """Return the numbers behind :func:`split`: share, unique, shared and interaction.

    Examples
    --------
    >>> dfi.plots.split_data(split, top=2)["feature"].tolist()
    ['x0', 'x1']
    """
    columns = split_columns(parted, parted.level)
    order = views.leading(columns["share"], top)
    shown: Columns = {"feature": np.array(parted.names, dtype=object)[order]}
    return shown | {key: values[order] for key, values in columns.items()}


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
    shown = split_data.columns(parted, top=top)
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
