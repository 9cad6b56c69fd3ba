"""Shared by all plots: colours, labels, axes and tables."""

from __future__ import annotations

import functools
import inspect
import math
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, cast

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm

from dfi._data.frames import as_frame
from dfi._parameters import validated
from dfi.results.views import NAME_WIDTH, Columns, Names, short_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.image import AxesImage
    from numpy.typing import ArrayLike

    from dfi._types import Array, Floats, Frame, Ints


P = ParamSpec("P")

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
"""The palette of Okabe and Ito, without its yellow."""

GREY = "#8C8C8C"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK)
HEAT_MAP = "cividis"
"""A perceptually uniform colour map, also for colour-blind readers."""

ROW_HEIGHT = 0.27
MAX_HEIGHT = 40.0
LABEL_PIXELS = 11.0


class Twin(Protocol[P]):
    """The numbers behind a plot: a dataframe to callers, ``columns`` to the plot itself."""

    columns: Callable[P, Columns]

    def __call__(self, *args: P.args, **options: P.kwargs) -> Frame: ...


def as_table(columns: Callable[P, Columns]) -> Twin[P]:
    """Let a function of columns return them in the dataframe library of its first argument."""
    signature = inspect.signature(columns)

    @functools.wraps(columns)
    def table(*args: P.args, **options: P.kwargs) -> Frame:
        shown = next(iter(signature.bind(*args, **options).arguments.values()))
        return as_frame(columns(*args, **options), shown.library)

    found: Any = validated(table)
    found.columns = columns
    return cast("Twin[P]", found)


def take(columns: Columns, rows: Ints) -> Columns:
    return {name: values[rows] for name, values in columns.items()}


def new_axes(width: float = 7.0, height: float = 4.5) -> Axes:
    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def axes_for_rows(ax: Axes | None, n_rows: int, width: float = 7.0) -> Axes:
    """Return the given axes, or new ones tall enough for the labelled rows."""
    if ax is not None:
        return ax
    return new_axes(width, float(min(1.3 + ROW_HEIGHT * n_rows, MAX_HEIGHT)))


def label_rows(ax: Axes, names: Names, *, width: int = NAME_WIDTH) -> None:
    """Label the rows 0, 1, ... from the top; if labels would overlap, only every k-th."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    positions, labels = _fitting(ax, ax.get_window_extent().height, names, width)
    write_ticks(ax.yaxis, positions, labels)


def write_ticks(axis: Axis, places: ArrayLike, labels: list[str], rotation: float = 0.0) -> None:
    """Write names, which are text and not markup, at places along an axis."""
    axis.set_ticks(places, labels=labels, parse_math=False, fontsize=9, rotation=rotation)


def label_columns(ax: Axes, names: Names, *, width: int) -> None:
    """Label the columns 0, 1, ..., as :func:`label_rows` does, with upright names."""
    positions, labels = _fitting(ax, ax.get_window_extent().width, names, width)
    write_ticks(ax.xaxis, positions, labels, rotation=90)


def _fitting(ax: Axes, pixels: float, names: Names, width: int) -> tuple[Ints, list[str]]:
    points = pixels * 72.0 / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    step = max(1, math.ceil(len(names) * LABEL_PIXELS / max(points, 1.0)))
    return np.arange(0, len(names), step), short_names(names, width)[::step]


def say_how_many(ax: Axes, n_shown: int, n_units: int) -> None:
    if n_shown < n_units:
        ax.set_title(f"the {n_shown} largest of {n_units}", loc="left", fontsize=10)


NO_TEXTS = np.empty((0, 0), dtype=object)


def heat_map(ax: Axes, values: Floats, highest: float, texts: Array) -> AxesImage:
    """Draw cells with their texts; unknown ones stay empty."""
    # the square root gives the many small values a colour of their own
    image = ax.imshow(
        np.ma.masked_invalid(np.maximum(values, 0.0)),
        cmap=HEAT_MAP,
        norm=PowerNorm(0.5, vmin=0.0, vmax=highest),
    )
    ax.set_aspect("auto")
    for row, column in np.argwhere(texts != ""):
        colour = "black" if values[row, column] > 0.3 * highest else "white"
        ax.text(column, row, texts[row, column], ha="center", va="center", fontsize=8, color=colour)
    return image


def label_square(ax: Axes, names: Names) -> None:
    """Label the rows and the columns of a heat map with the same names."""
    label_rows(ax, names, width=22)
    label_columns(ax, names, width=16)
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylim(len(names) - 0.5, -0.5)


def colour_bar(ax: Axes, image: ScalarMappable, label: str) -> Colorbar:
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label(label, fontsize=9)
    return bar


def zero_line(ax: Axes) -> None:
    ax.axvline(0.0, color="black", linewidth=0.8)


def small_legend(ax: Axes) -> None:
    """Name what is drawn, at the lower right, and leave only the axes that carry numbers."""
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    quiet_frame(ax)


def quiet_frame(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
