"""Plots of single rows: contributions of all rows, of one, and against a feature's value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap, to_rgb

from dfi._parameters import validated
from dfi.plots import style
from dfi.results import views
from dfi.results.local import SPREAD_WORDS, LocalAttributions, value_text
from dfi.results.numbers import decimals, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi._types import Array, Floats, Ints
    from dfi.results.views import Columns

MOST_POINTS = 1000
"""Most rows in a beeswarm, evenly spaced; more would blur."""

BINS = 120
MOST_LEVELS = 4
LABEL_WIDTH = 40
NUMBERS = "fiub"


def _ink() -> str:
    """Return the colour of lines and text, which a dark style turns around."""
    return str(plt.rcParams["text.color"])


def _colours() -> ListedColormap:
    """Return the colour map of ranks, without its end that a dark or light page swallows."""
    red, green, blue = to_rgb(plt.rcParams["axes.facecolor"])
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
    ends = (0.35, 1.0) if dark else (0.0, 0.95)
    return ListedColormap(plt.get_cmap(style.HEAT_MAP)(np.linspace(*ends, 256)))


def _is_number(values: Array) -> bool:
    return values.dtype.kind in NUMBERS


def _ranks(values: Array) -> Floats:
    """Return ranks between 0 and 1, equal values alike; NaN for what is missing, or many labels."""
    found = np.full(len(values), np.nan)
    if not _is_number(values):
        levels = few_levels(values)
        at = {level: k / max(1, len(levels) - 1) for k, level in enumerate(levels)}
        return np.array([at.get(str(value), np.nan) for value in values])
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    if known.any():
        distinct, place = np.unique(numbers[known], return_inverse=True)
        found[known] = place / max(1, len(distinct) - 1)
    return found


def few_levels(values: Array) -> list[str]:
    """Return the labels of a category in the order of their colours; none if there are many."""
    levels = [] if _is_number(values) else sorted({str(v) for v in values if v is not None})
    return levels if len(levels) <= MOST_LEVELS else []


@style.as_table
def beeswarm_data(local: LocalAttributions, *, top: int | None = 20) -> Columns:
    """Return the numbers behind :func:`beeswarm`, one line for each unit and row.

    Examples
    --------
    >>> dfi.plots.beeswarm_data(local).columns.tolist()
    ['row', 'feature', 'contribution', 'value_rank']
    """
    order = views.leading(local.mean_absolute, top)
    nothing = np.full(len(local), np.nan)
    return {
        "row": np.tile(local.rows, len(order)),
        "feature": np.repeat(np.array([local.names[k] for k in order], dtype=object), len(local)),
        "contribution": local.values[:, order].T.ravel(),
        "value_rank": np.concatenate(
            [_ranks(local.features.get(local.names[k], nothing)) for k in order]
        ),
    }


@validated
def beeswarm(local: LocalAttributions, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw the contributions of all rows, a strip of points for each unit.

    The unit with the largest mean absolute contribution is at the top. Points are coloured by the
    rank of the feature's own value, those of a category with up to four labels from the first
    label that its name lists to the last; other categories, groups and missing values are grey.
    Beyond 1,000 rows evenly spaced ones are drawn.

    Examples
    --------
    >>> local = dfi.explain(sample.X, sample.y, "linear", cv=2).local()
    >>> ax = dfi.plots.beeswarm(local)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0', 'x1', 'x2']
    """
    step = -(-len(local) // MOST_POINTS)
    few = local.take(slice(None, None, step))
    shown = beeswarm_data.columns(few, top=None)
    # the order is that of all rows, not of those that are drawn
    order = [local.names[k] for k in views.leading(local.mean_absolute, top)]
    ax = style.axes_for_rows(ax, len(order))
    low, high = float(local.values.min()), float(local.values.max())
    colours = _colours()
    for place, name in enumerate(order):
        own = shown["feature"] == name
        values, rank = shown["contribution"][own], shown["value_rank"][own]
        height = place - _swarm(values, low, high)
        known = np.isfinite(rank)
        size: dict[str, Any] = {"s": 9.0, "linewidths": 0.0, "zorder": 2.0}
        ax.scatter(values[~known], height[~known], color=style.GREY, **size)
        ax.scatter(
            values[known], height[known], c=rank[known], cmap=colours, vmin=0, vmax=1, **size
        )
    ax.axvline(0.0, color=_ink(), linewidth=0.8, zorder=1)
    style.label_rows(ax, [_with_levels(name, few) for name in order], width=LABEL_WIDTH)
    ax.set_xlabel(f"contribution to {local.spec.get('explains')}", fontsize=9, parse_math=False)
    style.say_how_many(ax, len(order), len(local.names))
    style.quiet_frame(ax)
    if np.isfinite(shown["value_rank"]).any():
        mappable = plt.cm.ScalarMappable(cmap=colours)
        mappable.set_clim(0.0, 1.0)
        bar = ax.figure.colorbar(mappable, ax=ax, shrink=0.6, aspect=30, pad=0.01)
        bar.set_ticks([0.0, 1.0], labels=["low", "high"])
        bar.set_label("the feature's own value (rank)", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return ax


def _with_levels(name: str, local: LocalAttributions) -> str:
    """Return the name of a category with its labels from low to high, as points are coloured."""
    levels = few_levels(local.features.get(name, np.zeros(1)))
    if not levels:
        return name
    short = views.short_names(levels, 12)
    whole = f"{name} ({' … '.join(short)})"
    return whole if len(whole) <= LABEL_WIDTH else f"{name} ({short[0]} … {short[-1]})"


def _swarm(values: Floats, low: float, high: float) -> Floats:
    """Return how far points are moved from the middle of their strip, so they lie apart."""
    width = (high - low) or 1.0
    cell = np.minimum(((values - low) / width * BINS).astype(np.intp), BINS - 1)
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=BINS)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    place = np.empty(len(values))
    place[order] = np.arange(len(values)) - starts[cell[order]]
    away = (place - (counts[cell] - 1) / 2.0) / max(1, int(counts.max()))
    return 0.8 * away


def _chosen(local: LocalAttributions, row: int | None) -> int:
    return 0 if row is None else local.place_of(row)


@style.as_table
def waterfall_data(
    local: LocalAttributions, *, row: int | None = None, top: int | None = 12
) -> Columns:
    """Return the numbers behind :func:`waterfall`: contributions, from where and to where.

    Parameters
    ----------
    top : int or None, default=12
        How many units of their own; the others are added up.

    Examples
    --------
    >>> dfi.plots.waterfall_data(local, row=1).columns.tolist()
    ['feature', 'value', 'contribution', 'spread', 'start', 'end']
    """
    at = _chosen(local, row)
    values = local.values[at]
    order = views.leading(np.abs(values), top)
    rest = np.setdiff1d(np.arange(len(values)), order)
    names = [local.names[k] for k in order]
    told = [value_text(local, int(k), at) for k in order]
    sizes, spread = list(values[order]), list(local.spread[at][order])
    if len(rest):
        names.append(f"{len(rest)} other units")
        told.append("")
        sizes.append(values[rest].sum())
        spread.append(np.nan)
    sizes_ = np.array(sizes)
    end = local.base[at] + np.cumsum(sizes_[::-1])[::-1]
    return {
        "feature": np.array(names, dtype=object),
        "value": np.array(told, dtype=object),
        "contribution": sizes_,
        "spread": np.array(spread),
        "start": end - sizes_,
        "end": end,
    }


@validated
def waterfall(
    local: LocalAttributions,
    *,
    row: int | None = None,
    top: int | None = 12,
    ax: Axes | None = None,
) -> Axes:
    """Draw how the contributions of one row lead from the base to its prediction.

    The sum starts from the base at the bottom, the smallest contributions first, and ends at the
    prediction at the top; bars to the right raise it.
    A thin line is the spread over models fitted on disjoint halves, which is not an interval.

    Parameters
    ----------
    top : int or None, default=12
        How many units of their own; the others are added up.

    Examples
    --------
    >>> dfi.plots.waterfall(local, row=1).get_xlabel()
    'the predicted y, row 1'
    """
    shown = waterfall_data.columns(local, row=row, top=top)
    at = _chosen(local, row)
    count = len(shown["feature"])
    ax = style.axes_for_rows(ax, count + 2)
    places = np.arange(count)
    size = shown["contribution"]
    for chosen, colour, label in (
        (size > 0, style.BLUE, "raises"),
        (size < 0, style.VERMILION, "lowers"),
    ):
        if chosen.any():
            ax.barh(
                places[chosen], size[chosen], left=shown["start"][chosen], height=0.62,
                color=colour, label=label,
            )  # fmt: skip
    known = np.isfinite(shown["spread"])
    if known.any():
        ends, wide = shown["end"][known], shown["spread"][known]
        ax.hlines(
            places[known], ends - wide, ends + wide, color=_ink(), linewidth=1.2,
            label=f"± {SPREAD_WORDS}\n(not a confidence interval)",
        )  # fmt: skip
    for k in range(count - 1):
        ax.plot([shown["start"][k]] * 2, [k, k + 1], color=style.GREY, linewidth=0.7)
    middle = 0.5 * (shown["start"] + shown["end"])
    places_of = max(0, decimals(size) or 0)
    for k in range(count):
        ax.annotate(
            f"{size[k]:+,.{places_of}f}".replace("-", "−"), (middle[k], k - 0.31), ha="center",
            va="bottom", fontsize=7,
        )  # fmt: skip
    labels = [
        f"{name} = {views.shorten(value, 12)}" if value else name
        for name, value in zip(views.short_names(shown["feature"], 28), shown["value"], strict=True)
    ]
    style.label_rows(ax, labels, width=43)
    ax.set_ylim(count, -1.3)
    # as the sum goes: from the base, below, to the prediction, above
    base, prediction = float(local.base[at]), float(local.prediction[at])
    for x, height, edge, text in (
        (base, count - 0.08, "bottom", f"base {number(base)}"),
        (prediction, -1.22, "top", f"prediction {number(prediction)}"),
    ):
        ax.axvline(
            x, color=_ink() if edge == "top" else style.GREY, linewidth=0.8,
            linestyle="-" if edge == "top" else ":", zorder=0,
        )  # fmt: skip
        ax.annotate(
            text, (x, height), xytext=(3, 0), textcoords="offset points", va=edge, fontsize=8,
            fontweight="bold" if edge == "top" else "normal",
        )  # fmt: skip
    ax.margins(x=0.12)
    ax.set_xlabel(
        f"{local.spec.get('explains')}, row {local.rows[at]}", fontsize=9, parse_math=False
    )
    ax.legend(frameon=False, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    style.quiet_frame(ax)
    return ax


@style.as_table
def dependence_data(
    local: LocalAttributions, *, feature: str | None = None, color: str | None = None
) -> Columns:
    """Return the numbers behind :func:`dependence`: value and contribution of each row.

    Parameters
    ----------
    feature : str, optional
        The feature; that with the largest mean absolute contribution by default.

    Examples
    --------
    >>> dfi.plots.dependence_data(local, feature="x1").columns.tolist()
    ['row', 'value', 'contribution', 'spread']
    """
    unit = int(np.argmax(local.mean_absolute)) if feature is None else local.unit(feature)
    name = local.names[unit]
    if name not in local.features:
        raise ValueError(
            f"{name!r} is a group of columns and has no value of its own to draw contributions "
            "against: explain with units='columns'"
        )
    columns: Columns = {
        "row": local.rows,
        "value": local.features[name],
        "contribution": local.values[:, unit],
        "spread": local.spread[:, unit],
    }
    if color is not None:
        local.unit(color)
        columns["color"] = local.features.get(color, np.full(len(local), np.nan))
    return columns


@validated
def dependence(
    local: LocalAttributions,
    *,
    feature: str | None = None,
    color: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the contribution of a feature against its own value, a point for each row.

    Contributions depend on correlated features too, so points of one value differ.

    Parameters
    ----------
    feature : str, optional
        The feature; that with the largest mean absolute contribution by default.

    Examples
    --------
    >>> dfi.plots.dependence(local, feature="x1").get_xlabel()
    'x1'
    """
    shown = dependence_data.columns(local, feature=feature, color=color)
    name = local.names[int(np.argmax(local.mean_absolute))] if feature is None else feature
    ax = style.new_axes(6.4, 4.2) if ax is None else ax
    places, labels = placed_values(shown["value"])
    rank = np.full(len(local), np.nan) if color is None else _ranks(shown["color"])
    known = np.isfinite(rank)
    size: dict[str, Any] = {"s": 14.0, "linewidths": 0.0, "zorder": 2.0}
    plain = style.BLUE if color is None else style.GREY
    ax.scatter(places[~known], shown["contribution"][~known], color=plain, alpha=0.8, **size)
    if known.any():
        drawn = ax.scatter(
            places[known], shown["contribution"][known], c=rank[known], cmap=_colours(),
            vmin=0.0, vmax=1.0, **size,
        )  # fmt: skip
        bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.7, aspect=30, pad=0.01)
        bar.set_ticks([0.0, 1.0], labels=["low", "high"])
        bar.set_label(f"{views.shorten(str(color), 40)} (rank)", fontsize=8, parse_math=False)
    ax.axhline(0.0, color=_ink(), linewidth=0.8, zorder=1)
    if labels:
        turned = len(labels) > 6 or max(map(len, labels)) > 10
        style.write_ticks(ax.xaxis, np.arange(len(labels)), labels, rotation=90 if turned else 0)
    ax.set_xlabel(views.shorten(name, 60), fontsize=9, parse_math=False)
    explains = views.shorten(str(local.spec.get("explains")), 48)
    ax.set_ylabel(f"contribution to {explains}", fontsize=9, parse_math=False)
    style.quiet_frame(ax)
    return ax


def placed_values(values: Array) -> tuple[Floats, list[str]]:
    """Return positions on the axis: numbers unchanged, missing at the left; levels side by side."""
    if _is_number(values):
        numbers = values.astype(np.float64)
        known = np.isfinite(numbers)
        if not known.any():
            return np.zeros(len(values)), ["missing"]
        gap = numbers[known].min() - 0.06 * (np.ptp(numbers[known]) or 1.0)
        return np.where(known, numbers, gap), []
    levels = sorted({"missing" if value is None else str(value) for value in values})
    at = {level: k for k, level in enumerate(levels)}
    place = np.array([at["missing" if value is None else str(value)] for value in values], float)
    return place + _beside(place), views.short_names(levels, 18)


def _beside(place: Floats) -> Floats:
    """Return small shifts that lay points of one level side by side, in the order of the rows."""
    found = np.empty(len(place))
    for level in np.unique(place):
        own: Ints = np.flatnonzero(place == level)
        found[own] = 0.5 * ((np.arange(len(own)) * 0.618033988749895) % 1.0 - 0.5)
    return found
