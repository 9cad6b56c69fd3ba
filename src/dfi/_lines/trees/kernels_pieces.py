"""Lines cut into pieces on which every category keeps its level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfi._compiled import SOURCES, Kernel
from dfi._data.levels import TIE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfi._lines.trees.ensemble import Category
    from dfi._types import Floats, Ints


@dataclass(frozen=True)
class Pieces:
    """Pieces of parallel lines on which every category keeps its level, in the lines' order."""

    line: Ints
    low: Floats
    high: Floats
    levels: tuple[Ints, ...]

    def sums(self, values: Floats) -> Floats:
        """Return the sum over the pieces of each line, along the last axis."""
        starts = np.flatnonzero(np.diff(self.line, prepend=-1))
        return np.asarray(np.add.reduceat(values, starts, axis=-1))


def pieces_of(
    points: Floats,
    latent: Floats,
    direction: Floats,
    categories: Sequence[Category],
    low: float,
    high: float,
) -> Pieces:
    """Cut the lines ``points + (t - latent) direction`` where a category changes its level."""
    n = len(points)
    pieces = Pieces(np.arange(n), np.full(n, low), np.full(n, high), ())
    for category in categories:
        slope = category.scale * direction[category.positions]
        entry = category.shift + category.scale * points[:, category.positions]
        origin = entry - latent[:, None] * slope - TIE * np.arange(len(slope))
        counts = np.empty(len(pieces.line), np.int64)
        # Each level leads on one piece at most.
        start, end = np.empty((2, len(counts) * len(slope)))
        level = np.empty(len(start), np.int64)
        envelope(origin, slope, pieces.line, pieces.low, pieces.high, counts, start, end, level)
        piece = np.repeat(np.arange(len(counts)), counts)
        size = len(piece)
        pieces = Pieces(
            pieces.line[piece],
            start[:size].copy(),
            end[:size].copy(),
            (*(known[piece] for known in pieces.levels), level[:size].copy()),
        )
    return pieces


@Kernel
def envelope(
    origin: Floats,
    slope: Floats,
    line: Ints,
    low: Floats,
    high: Floats,
    counts: NDArray[np.int64],
    start: Floats,
    end: Floats,
    level: NDArray[np.int64],
    _sources: int = SOURCES,
) -> None:
    """Write on which pieces which of ``origin + slope t`` is the largest, and how many they are."""
    filled = 0
    for i in range(line.size):
        entry = origin[line[i]]
        at = low[i]
        place = 0
        for k in range(1, slope.size):
            if entry[k] + slope[k] * at > entry[place] + slope[place] * at:
                place = k
        first = filled
        overtaken = at
        while True:
            following = 0
            overtaken = np.inf
            for k in range(slope.size):
                rise = slope[k] - slope[place]
                # What rises faster overtakes where its lag is made up.
                if rise > 0.0:
                    overtaken_here = (entry[place] - entry[k]) / rise
                    if overtaken_here < overtaken:
                        overtaken = overtaken_here
                        following = k
            # Rounding must not step back.
            overtaken = max(overtaken, at)
            stop = min(overtaken, high[i])
            # A level that is met at a single point has no piece; a line has one in any case.
            if stop > at or (filled == first and overtaken >= high[i]):
                start[filled], end[filled], level[filled] = at, stop, place
                filled += 1
            if overtaken >= high[i]:
                break
            at = stop
            place = following
        counts[i] = filled - first
