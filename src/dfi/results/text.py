"""A result as a few lines of text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfi._models.quality import Quality
    from dfi._types import Floats

UNRELATED = "unrelated to everything that the model uses"
"""What a score of exactly 0 means, in the words of text, table and page."""

_SHOWN = ("score", "se", "ci_low", "ci_high", "p_adj")


def describe(
    headline: str,
    quality: Quality,
    names: Sequence[str],
    columns: Mapping[str, Floats],
    *,
    rows: int = 10,
    unrelated: int = 0,
) -> str:
    """Return a headline, the fit of the regression and the first units as an aligned table.

    Parameters
    ----------
    headline : str
        First line.
    quality : Quality
        Fit of the regression.
    names : sequence of str
        Names of the units, in the order to show them.
    columns : mapping of str to ndarray
        The columns of the result's table, in the same order.
    rows : int, default=10
        How many units to show.
    unrelated : int, default=0
        How many of them are unrelated to everything that the model reads.
    """
    fit = f"R2 {quality.r2:.3f}"
    if math.isfinite(quality.r2_spread):
        fit += f" (spread over folds {quality.r2_spread:.3f})"
    table = [["feature", *_SHOWN]]
    for position, name in enumerate(names[:rows]):
        table.append([name, *(f"{columns[key][position]:.4g}" for key in _SHOWN)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [headline, fit]
    for label, *cells in table:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([label.ljust(widths[0]), *numbers]))
    if len(names) > rows:
        lines.append(f"... and {len(names) - rows} more")
    if unrelated:
        units = "unit scores" if unrelated == 1 else "units score"
        lines.append(f"{unrelated} {units} exactly 0: {UNRELATED}")
    return "\n".join(lines)
