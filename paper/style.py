"""The look of the figures: the palette of Okabe and Ito, and axes without a box."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
GREY = "#8C8C8C"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK)
HEAT_MAP = "cividis"
"""A perceptually uniform colour map that is the same to readers with and without deuteranomaly."""


def quiet_frame(ax: Axes) -> None:
    """Leave only the axes that carry numbers."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
