"""What all plots share: colours, labels that fit, axes of a fitting size, and their tables."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Concatenate, ParamSpec

import matplotlib.pyplot as plt
import numpy as np

from dfi._data import as_frame
from dfi._parameters import validated
from dfi.results.views import NAME_WIDTH, Columns, Names, short_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import ArrayLike

    from dfi._types import Frame, Ints
    from dfi.results.importance import Importance

P = ParamSpec("P")

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
"""The palette of Okabe and Ito, without its yellow."""

GREY = "#8C8C8C"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK)
HEAT_MAP = "cividis"
"""A perceptually uniform colour map that is the same to readers with and without deuteranomaly."""

ROW_HEIGHT = 0.27
MAX_HEIGHT = 40.0
LABEL_PIXELS = 11.0


def as_table(
    columns: Callable[Concatenate[Importance, P], Columns],
) -> Callable[Concatenate[Importance, P], Frame]:
    """Return the public twin of a function ``_name_data`` that gives the columns behind a plot.

    It gives them as a table of the library that the result answers in.
    """

    @functools.wraps(columns)
    def table(result: Importance, *args: P.args, **options: P.kwargs) -> Frame:
        return as_frame(columns(result, *args, **options), result.library)

    table.__name__ = table.__qualname__ = columns.__name__.lstrip("_")
    # mypy takes the parameter that Concatenate adds as one without a name
    return validated(table)  # type: ignore[return-value]


def take(columns: Columns, rows: Ints) -> Columns:
    return {name: values[rows] for name, values in columns.items()}


def new_axes(width: float = 7.0, height: float = 4.5) -> Axes:
    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def axes_for_rows(ax: Axes | None, n_rows: int, width: float = 7.0) -> Axes:
    """Return the given axes, or new ones that are high enough for a number of labelled rows."""
    if ax is not None:
        return ax
    return new_axes(width, float(min(1.3 + ROW_HEIGHT * n_rows, MAX_HEIGHT)))


def label_rows(ax: Axes, names: Names, *, width: int = NAME_WIDTH) -> None:
    """Label the rows 0, 1, ... from the top; where labels would overlap, only every k-th."""
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


def zero_line(ax: Axes) -> None:
    ax.axvline(0.0, color="black", linewidth=0.8)


def small_legend(ax: Axes) -> None:
    """Name what is drawn, at the lower right, and leave only the axes that carry numbers."""
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    quiet_frame(ax)


def quiet_frame(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
