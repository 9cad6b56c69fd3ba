"""Numbers as people read them."""

from __future__ import annotations

import math


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
