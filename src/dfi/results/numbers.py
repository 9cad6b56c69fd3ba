"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


SHOWN_ROWS = 10
"""Most units that a printed result lists."""

FIGURE_SPACE = "\u2007"
"""A blank that is as wide as a digit."""


_LARGE = {6: "million", 9: "billion", 12: "trillion"}


def number(value: float | None) -> str:
    """Return a number with four significant digits, separated thousands and a true minus sign."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    power = 3 * math.floor(math.log10(size) / 3)
    if power in _LARGE:
        text = f"{value / 10.0**power:.4g} {_LARGE[power]}"
    elif power > max(_LARGE) or size < 1e-4:
        text = f"{value:.2e}"
    elif size >= 1000:
        text = f"{round(value, 3 - math.floor(math.log10(size))):,.0f}"
    else:
        text = f"{value:.4g}" if size >= 1 else f"{value:.3g}"
    return text.replace("-", "−")


TINY = 1e-4
"""Median below which numbers of one kind have no decimals that show most of them."""


def _sizes(values: Iterable[float | None]) -> tuple[float, float]:
    """Return the largest and the median absolute value of the known numbers that are not 0."""
    known = (abs(value) for value in values if value is not None and math.isfinite(value))
    sizes = sorted(size for size in known if size > 0)
    return (sizes[-1], sizes[len(sizes) // 2]) if sizes else (0.0, 0.0)


def decimals(values: Iterable[float | None]) -> int | None:
    """Return how many decimals numbers of one kind have, so their points align.

    As many as show the median of their sizes with three digits, fewer than 0 where that rounds to
    tens or hundreds, and four where the median is tiny beside the largest; None where that is not
    readable, and powers of ten are.
    """
    largest, median = _sizes(values)
    if largest == 0:
        return 0
    if largest >= 1e6 or (median < TINY and largest < 1e-2):
        return None
    return 4 if median < TINY else 2 - math.floor(math.log10(median))


def power_of_ten(values: Iterable[float | None]) -> int:
    """Return the power of 1000, as one of 10, that makes numbers readable; 0 if they are."""
    known = tuple(values)
    if decimals(known) is not None:
        return 0
    largest, median = _sizes(known)
    power = 3 * math.floor(math.log10(largest) / 3)
    return 0 if median < TINY * 10.0**power else power


def plain(value: float | None, places: int | None) -> str:
    """Return a number with a number of decimals, as text where that is None; a dash if unknown."""
    if value is None or not math.isfinite(value):
        return "–" if value is None or math.isnan(value) else f"{value:f}"
    if places is None:
        return number(value).replace("−", "-")
    text = f"{round(value, places):,.{max(places, 0)}f}"
    return text.lstrip("-") if not float(text.replace(",", "")) else text


def aligned(rows: Sequence[Sequence[float | None]]) -> list[list[str]]:
    """Return rows of numbers of one kind with equal decimals and separated thousands."""
    every = [value for row in rows for value in row]
    power = power_of_ten(every)
    unit = f" {_LARGE[power]}" if power in _LARGE else ""
    scale = 10.0**power if unit else 1.0
    places = decimals(value / scale for value in every if value is not None)

    def text(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return "–"
        return plain(value / scale, places).replace("-", "−") + unit

    return [[text(value) for value in row] for row in rows]


def with_intervals(
    values: Sequence[str],
    lows: Sequence[str],
    highs: Sequence[str],
    *,
    unit: str = "",
    blank: str = " ",
) -> list[str]:
    """Return aligned ``value (low to high)`` of every row; pages have a ``blank`` like a digit."""
    columns = []
    for texts in (values, lows, highs):
        width = max(map(len, texts), default=0)
        columns.append([text.rjust(width, blank) for text in texts])
    texts = [
        f"{value}{unit} ({low} to {high}{unit})" for value, low, high in zip(*columns, strict=True)
    ]
    unknown = [
        low.strip(blank) == high.strip(blank) == "–" for low, high in zip(*columns[1:], strict=True)
    ]
    return [
        f"{value}{unit}".ljust(len(text), blank) if nothing else text
        for value, text, nothing in zip(columns[0], texts, unknown, strict=True)
    ]


def intervals(
    values: Iterable[float | None],
    lows: Iterable[float | None],
    highs: Iterable[float | None],
    *,
    places: int | None = None,
) -> list[str]:
    """Return ``value (low to high)`` of every row as plain text with one number of decimals."""
    columns = [list(column) for column in (values, lows, highs)]
    every = [v for column in columns for v in column if v is not None and math.isfinite(v)]
    if places is None or max(map(abs, every), default=1.0) < 10.0**-places:
        places = decimals(every)
    texts = [[plain(value, places) for value in column] for column in columns]
    return with_intervals(*texts)


def bare_percent(value: float | None) -> str:
    """Return a share in percent with one decimal and no sign, for columns."""
    if value is None or not math.isfinite(value):
        return "–"
    return plain(100.0 * value, 1).replace("-", "−")


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines of text: the first column to the left, the others to the right."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        )
        for line in lines
    ]


def probability(value: float) -> str:
    """Return a p-value as plain text; very small ones are only bounded."""
    return "–" if math.isnan(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def more_text(hidden: int, whole: int) -> str:
    return f"... and {hidden} more of {whole}; .table() has all of them"


def percent(value: float | None) -> str:
    """Return a share as a percentage."""
    if value is None or not math.isfinite(value):
        return "–"
    size = 100.0 * value
    text = f"{size:.0f}" if abs(size) >= 9.95 else f"{size:.1f}"
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


def for_json(value: Any) -> Any:
    """Return a copy with null for numbers that JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): for_json(item) for key, item in value.items()}
    return [for_json(item) for item in value] if isinstance(value, list | tuple) else value
