"""What all plots share: colours, labels that fit, and axes of a fitting size."""

from __future__ import annotations

import math
import unicodedata
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
"""The palette of Okabe and Ito."""

GREY = "#8C8C8C"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK)
HEAT_MAP = "cividis"
"""A perceptually uniform colour map that is the same to readers with and without deuteranomaly."""

NAME_WIDTH = 28
ROW_HEIGHT = 0.27
MAX_HEIGHT = 40.0
LABEL_PIXELS = 11.0


def shorten(name: str, width: int = NAME_WIDTH) -> str:
    """Return a name on one line, cut in the middle where it is too long.

    Both ends are kept: the names of derived features often differ only at their end.
    """
    printable = "".join(" " if unicodedata.category(c).startswith("C") else c for c in name)
    flat = " ".join(printable.split()) or "(no name)"
    if len(flat) <= width:
        return flat
    head = math.ceil((width - 1) * 0.6)
    return f"{flat[:head]}…{flat[len(flat) - (width - 1 - head) :]}"


def short_names(names: Sequence[str], width: int = NAME_WIDTH) -> list[str]:
    """Shorten many names and keep different names different.

    Names that would be cut to the same label are cut around the place where they first differ;
    where that does not help, they are numbered.
    """
    labels = [shorten(name, width) for name in names]
    for again in (_around_difference, _numbered):
        alike: dict[str, list[int]] = {}
        for position, label in enumerate(labels):
            alike.setdefault(label, []).append(position)
        for positions in alike.values():
            if len(positions) > 1:
                found = again([names[k] for k in positions], width)
                for position, label in zip(positions, found, strict=True):
                    labels[position] = label
    return labels


def _around_difference(names: Sequence[str], width: int) -> list[str]:
    flat = [shorten(name, len(name) + 1) for name in names]
    first, last = min(flat), max(flat)
    different = (k for k, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1])
    start = max(next(different, len(first)) - 2, 0)
    return [shorten(f"{name[:4]}…{name[start : start + width - 6]}", width) for name in flat]


def _numbered(names: Sequence[str], width: int) -> list[str]:
    ends = [f" ({k})" for k in range(1, len(names) + 1)]
    return [shorten(n, width - len(end)) + end for n, end in zip(names, ends, strict=True)]


def new_axes(width: float = 7.0, height: float = 4.5) -> Axes:
    """Return the axes of a new figure."""
    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def axes_for_rows(ax: Axes | None, n_rows: int, width: float = 7.0) -> Axes:
    """Return the given axes, or new ones that are high enough for a number of labelled rows."""
    if ax is not None:
        return ax
    return new_axes(width, float(min(1.3 + ROW_HEIGHT * n_rows, MAX_HEIGHT)))


def label_rows(
    ax: Axes, names: Sequence[str], *, axis: str = "y", width: int = NAME_WIDTH, **text: Any
) -> None:
    """Label the positions 0, 1, ... with names; where they would overlap, only every k-th.

    Names are text, not markup: a dollar sign stays a dollar sign.
    """
    box = ax.get_window_extent()
    pixels = (box.height if axis == "y" else box.width) * 72.0 / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    step = max(1, math.ceil(len(names) * LABEL_PIXELS / max(pixels, 1.0)))
    positions = np.arange(0, len(names), step)
    labels = short_names(names, width)[::step]
    place = ax.set_yticks if axis == "y" else ax.set_xticks
    place(positions, labels=labels, parse_math=False, fontsize=9, **text)


def check_top(top: int | None, available: int) -> int:
    """Return how many units to show."""
    if top is None:
        return available
    if isinstance(top, bool) or not isinstance(top, (int, np.integer)) or top < 1:
        raise ValueError(f"top must be a positive whole number or None, got {top!r}")
    return int(min(top, available))


def quiet_frame(ax: Axes) -> None:
    """Leave only the axes that carry numbers."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
