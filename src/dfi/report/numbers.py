"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def number(value: float | None) -> str:
    """Return a number with four significant digits, thousands apart, a true minus sign."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e7 or size < 1e-4:
        text = f"{value:.2e}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.4g}" if size >= 1 else f"{value:.3g}"
    return text.replace("-", "−")


def aligned(rows: Sequence[Sequence[float | None]]) -> list[list[str]]:
    """Return rows of numbers of one kind with as many decimals each, so that points align.

    As many as show the median of their sizes with three digits. Where that is no readable number,
    as :func:`number` does.
    """
    sizes = sorted(
        abs(value) for row in rows for value in row if value is not None and math.isfinite(value)
    )
    sizes = [size for size in sizes if size > 0]
    if not sizes or sizes[-1] >= 1e7 or sizes[len(sizes) // 2] < 1e-4:
        return [[number(value) for value in row] for row in rows]
    decimals = max(0, 2 - math.floor(math.log10(sizes[len(sizes) // 2])))

    def text(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return "–"
        shown = f"{value:,.{decimals}f}"
        return (shown.lstrip("-") if not float(shown.replace(",", "")) else shown).replace("-", "−")

    return [[text(value) for value in row] for row in rows]


def percent(value: float | None) -> str:
    """Return a share as a percentage."""
    if value is None or not math.isfinite(value):
        return "–"
    size = 100.0 * value
    text = f"{size:.0f}" if abs(size) >= 10 else f"{size:.1f}"
    return f"{'0.0' if text == '-0.0' else text} %".replace("-", "−")


def p_value(value: float | None) -> str:
    """Return a p-value; very small ones are only bounded."""
    if value is None or not math.isfinite(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def ordinal(value: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, ..., 11th, ..., 21st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value:,}{'th' if value % 100 in (11, 12, 13) else ending}"


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Return about ``count`` round numbers between ``low`` and ``high``."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]
