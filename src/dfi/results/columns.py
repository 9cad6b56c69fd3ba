"""The columns of every table: key, meaning, how values are written, and where they are shown.

Results compute values under these keys. ``table()``, files, printed text, notebooks, the terminal,
Markdown, pages and the documentation take order, headings and formats from here: to add a column,
write it into its table here and compute it.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from dfi._data.frames import as_frame
from dfi.results.numbers import (
    FIGURE_SPACE,
    SHOWN_ROWS,
    aligned,
    bare_percent,
    decimals,
    intervals,
    more_text,
    number,
    p_value,
    plain,
    power_of_ten,
    probability,
    text_table,
    with_intervals,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dfi._types import Array, Frame, Ints

    Row = Mapping[str, object]

F = TypeVar("F", bound="Callable[..., Any]")

Kind = Literal["name", "share", "amount", "statistic", "probability", "rank", "flag"]
"""How values are written; an amount is in units of the loss."""

Place = Literal["table", "print", "notebook", "terminal", "markdown", "page"]
TABLE: tuple[Place, ...] = ("table",)
PAGE: tuple[Place, ...] = ("page",)
TEXTS: tuple[Place, ...] = ("print", "notebook", "terminal", "markdown")
EVERYWHERE = (*TABLE, *TEXTS, *PAGE)


@dataclass(frozen=True)
class Column:
    """A column; if it has ``ends``, texts write that interval after the value.

    ``label`` is the heading for people where the key is none. A page sorts a column upward first
    where small values matter most.
    """

    key: str
    meaning: str
    kind: Kind = "amount"
    shown: tuple[Place, ...] = EVERYWHERE
    label: str = ""
    ends: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        return self.label or self.key

    @property
    def upward(self) -> bool:
        """Whether small values matter most."""
        return self.kind in ("name", "probability", "rank")


FEATURE = Column("feature", "Name of the unit.", "name", TABLE)
P_ADJ = Column("p_adj", "p-value adjusted for multiple testing.", "probability", label="adjusted p")
DETAIL = (*TABLE, *PAGE)


def _ends(
    key: str, of: str, label: str = "", kind: Kind = "amount", shown: tuple[Place, ...] = DETAIL
) -> tuple[Column, ...]:
    """Return the two columns of an interval."""
    return tuple(
        Column(
            f"{key}_{end}", f"{side} end of {of} interval.", kind, shown, label and f"{label} {end}"
        )
        for end, side in (("low", "Lower"), ("high", "Upper"))
    )


UNITS = (
    FEATURE,
    Column(
        "share",
        "Share of the explained variance or loss; shares add up to 1.",
        "share",
        ends=("share_low", "share_high"),
    ),
    Column("rank_low", "Best rank that the unit may have.", "rank", PAGE, "rank from"),
    Column("rank_high", "Worst rank that the unit may have.", "rank", PAGE, "rank to"),
    *_ends("share", "the share's", "share", "share"),
    Column("score", "Total effect, in units of the loss.", ends=("ci_low", "ci_high")),
    Column(
        "se",
        "Standard error of the score.",
        shown=("table", "print", "markdown", "page"),
        label="std. error",
    ),
    *_ends("ci", "the score's", "score"),
    Column("z", "Score over its standard error.", "statistic", DETAIL),
    Column("p", "p-value of the score: one-sided, that it is above 0.", "probability", DETAIL),
    P_ADJ,
    Column("of_null", "Score over the null loss.", "share", ("terminal", "page"), "of null loss"),
    Column("latent", "Score of the unit's own latent coordinate.", shown=PAGE),
    Column("missing", "Share of the rows without a value.", "share", ("terminal", "page")),
    Column("certain", "Whether it is among the first k with confidence.", "flag", TABLE),
)
"""Units of a result: ``result.table()`` and ``result.top(k)``, and further columns of pages."""

RANKS = (
    FEATURE,
    Column("rank", "Rank of the share; ties share a rank.", "rank", TABLE),
    Column("rank_low", "Best rank that the unit may have.", "rank", TABLE),
    Column("rank_high", "Worst rank that the unit may have.", "rank", TABLE),
)
"""``result.ranks()``."""

_BY_KEY = {column.key: column for column in UNITS}
_OF_UNITS = {column.key: replace(column, shown=TABLE, ends=()) for column in UNITS}

SHARES = (
    FEATURE,
    Column("share", "Share of the chosen total.", "share", TABLE),
    Column("se", "Standard error of the share.", "share", TABLE),
    *_ends("ci", "the share's", kind="share", shown=TABLE),
    Column("z", "Share over its standard error.", "statistic", TABLE),
    Column("p", "p-value of the share: one-sided, that it is above 0.", "probability", TABLE),
    replace(P_ADJ, shown=TABLE),
)
"""``result.shares()``."""

INTERVALS = tuple(_OF_UNITS[key] for key in ("feature", "ci_low", "ci_high"))
"""``result.interval()``."""

TESTS = tuple(_OF_UNITS[key] for key in ("feature", "score", "z", "p", "p_adj"))
"""``result.test()``."""

OUTCOMES = (
    FEATURE,
    Column("outcome", "Name of the class or the outcome.", "name", TABLE),
    *(column for column in UNITS[1:] if column.key != "certain"),
)
"""``result.table(by="outcome")``."""

_AT_LEVEL = tuple(_OF_UNITS[key] for key in ("score", "se", "ci_low", "ci_high", "p"))

LEVELS = (
    FEATURE,
    Column("quantile", "Level of the distribution, between 0 and 1.", "statistic", TABLE),
    Column("threshold", "The outcome's quantile at that level.", shown=TABLE),
    *_AT_LEVEL,
)
"""``result.by_level()``."""

ASPECTS = (
    FEATURE,
    Column("aspect", "Mean, spread, lower tail, middle or upper tail.", "name", TABLE),
    *_AT_LEVEL,
)
"""``result.aspects()``."""

METHODS = (
    Column("method", "Name of the method.", "name", TABLE),
    *(column for column in UNITS if column.key != "certain"),
    Column("monte_carlo_se", "Error of the score from random draws, not in se.", shown=TABLE),
)
"""``results.table()`` of a comparison of methods."""

SETTINGS = (
    Column("setting", "The transport, or its epsilon.", "name", TABLE),
    FEATURE,
    _OF_UNITS["score"],
    _OF_UNITS["se"],
    Column("share", "Share of the sum of the scores.", "share", TABLE),
    Column("rank", "Rank of the score.", "rank", TABLE),
    Column("latent_score", "Score of the unit's own latent coordinate.", shown=TABLE),
)
"""``results.table()`` of a comparison of settings."""

CHANGES = (
    FEATURE,
    Column("change", "Score after minus score before.", ends=("ci_low", "ci_high")),
    Column("se", "Standard error of the change.", shown=DETAIL, label="std. error"),
    *_ends("ci", "the change's", "change"),
    Column("p", "p-value of the change, two-sided.", "probability", DETAIL),
    P_ADJ,
    Column(
        "covariates",
        "Part due to the distribution of the features.",
        ends=("covariates_low", "covariates_high"),
    ),
    Column(
        "concept",
        "Part due to how the outcome depends on them.",
        ends=("concept_low", "concept_high"),
    ),
    *(
        column
        for part in ("covariates", "concept")
        for column in (
            Column(f"{part}_se", f"Standard error of {part}.", "amount", DETAIL, f"{part} error"),
            *_ends(part, f"{part}'" + "s" * (part == "concept"), part),
        )
    ),
    Column("before", "Score before.", shown=("table", "terminal", "page")),
    Column("after", "Score after.", shown=("table", "terminal", "page")),
)
"""``change.table()``."""

LOCAL = (
    Column("row", "Position of the row in the table.", "rank", TABLE),
    FEATURE,
    Column("contribution", "What the unit adds to the row's prediction.", shown=TABLE),
    Column("spread", "Spread of the contribution over models of disjoint halves.", shown=TABLE),
    Column("total", "Total effect of the unit on the prediction.", shown=TABLE),
    Column("base", "Mean prediction.", shown=TABLE),
    Column("prediction", "Prediction of the row.", shown=TABLE),
    Column(
        "higher_order", "Interactions of three and more, in sd of the predictions.", shown=TABLE
    ),
)
"""``local.table()``."""

KEPT = (
    Column("units", "How many units are left.", "rank", TABLE),
    Column("without", "The unit that is left out next.", "name", TABLE),
    Column("lost", "Share of the signal that is lost.", "share", TABLE),
    Column("se", "Standard error of the loss.", "share", TABLE),
    Column("at_most", "Upper end of the loss, one-sided.", "share", TABLE),
    Column("enough", "Whether the set keeps the required share of the signal.", "flag", TABLE),
)
"""``result.keep().table()``."""

JOINS = (
    Column("members", "The units of the group.", "name", TABLE),
    Column("similarity", "Smallest part of their signal that any two share.", "share", TABLE),
    Column("share", "Their combined share of the explained variance.", "share", TABLE),
    *(_OF_UNITS[key] for key in ("share_low", "share_high")),
)
"""``result.tree().table()``."""

SELECTED = (*TESTS, Column("selected", "Whether the unit is selected.", "flag", TABLE))
"""``dfi.select(...).table()``."""
PAIRS = (
    FEATURE,
    Column("partner", "Name of the other unit of the pair.", "name", TABLE),
    replace(_BY_KEY["share"], meaning="Score of the pair over the explained variance."),
    *(_BY_KEY[key] for key in ("share_low", "share_high")),
    replace(
        _BY_KEY["score"], meaning="Joint effect of the pair beyond additive, in units of the loss."
    ),
    *(_BY_KEY[key] for key in ("se", "ci_low", "ci_high")),
    *(_OF_UNITS[key] for key in ("z", "p")),
    replace(P_ADJ, meaning="p-value adjusted for all pairs of the table (Holm)."),
    Column("latent", "Score of the pair of latent coordinates.", shown=DETAIL),
    Column("whole", "Score that also counts curves seen through correlation.", shown=DETAIL),
)
"""``interactions.table()``."""

_PARTS: dict[str, tuple[str, str]] = {
    "share": ("Share of the explained variance: the sum of the three parts.", "the share's"),
    "unique": ("Signal that only this unit carries.", "the unique part's"),
    "shared": (
        "Signal that correlated units carry too; below 0 for suppressors.",
        "the shared part's",
    ),
    "interaction": ("The unit's part of all interactions.", "the interaction part's"),
}

SPLITS = (
    FEATURE,
    *(
        column
        for part, (meaning, of) in _PARTS.items()
        for column in (
            Column(part, meaning, "share", ends=(f"{part}_low", f"{part}_high")),
            *_ends(part, of, part, "share"),
        )
    ),
    *(
        column
        for k, which in ((1, "most"), (2, "second most"), (3, "third most"))
        for column in (
            Column(f"partner_{k}", f"The unit that it shares {which} with.", "name", TABLE),
            Column(f"amount_{k}", f"How much it shares with partner_{k}.", "share", TABLE),
        )
    ),
)
"""``split.table()``."""


def lists(schema: Sequence[Column]) -> Callable[[F], F]:
    """Let the docstring of a function that returns a table list its columns."""
    keys = ", ".join(column.key for column in schema if "table" in column.shown)
    listed = textwrap.fill(f"Columns {keys}.", 90, initial_indent="    ", subsequent_indent="    ")

    def documented(function: F) -> F:
        text = inspect.cleandoc(function.__doc__ or "")
        place = re.search(r"^(?:Raises|Warns|Notes|Examples)\n-+\n", text, re.MULTILINE)
        at = len(text) if place is None else place.start()
        function.__doc__ = f"{text[:at]}Returns\n-------\nframe\n{listed}\n\n{text[at:]}"
        return function

    return documented


def frame_of(
    schema: Sequence[Column], values: Mapping[str, Array], library: str, order: Ints | None = None
) -> Frame:
    """Return the columns of a table that are known, in the schema's order and one of the rows."""
    keys = [column.key for column in schema if "table" in column.shown and column.key in values]
    rows = slice(None) if order is None else order
    return as_frame({key: np.array(values[key][rows]) for key in keys}, library)


def known(schema: Sequence[Column], rows: Sequence[Row], place: Place) -> list[Column]:
    """Return the columns of a place in which some row has a value."""
    return [
        column
        for column in schema
        if place in column.shown
        and column.kind != "name"
        and any(_number(row, column.key) is not None for row in rows)
    ]


def written(
    schema: Sequence[Column],
    rows: Sequence[Row],
    place: Place,
    *,
    interval: str = "interval",
    headings: Mapping[str, str] | None = None,
) -> dict[str, list[str]]:
    """Return the texts of each column under its heading; large amounts in powers of ten."""
    found: dict[str, list[str]] = {}
    columns = known(schema, rows, place)
    amounts = [key for c in columns if c.kind == "amount" for key in (c.key, *c.ends)]
    power = power_of_ten(_number(row, key) for row in rows for key in amounts)
    if power:
        rows = [row | {key: _scaled(row, key, power) for key in amounts} for row in map(dict, rows)]
    in_print = place == "print"
    for column in columns:
        heading = column.key if in_print else (headings or {}).get(column.key, column.heading)
        if power and column.kind == "amount":
            heading = f"{heading} / 1e{power}"
        if column.ends and place != "page":
            heading = f"{heading} ({interval})"
            found[heading] = _with_ends(column, rows, place)
        elif in_print:
            found[heading] = _printed(column, columns, rows)
        else:
            found[heading] = _cells(column, columns, rows)
    return found


def _number(row: Row, key: str) -> float | None:
    value = row.get(key)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _scaled(row: Row, key: str, power: int) -> float | None:
    value = _number(row, key)
    return None if value is None else value / 10.0**power


def _values(rows: Sequence[Row], key: str) -> list[float | None]:
    return [_number(row, key) for row in rows]


def _with_ends(column: Column, rows: Sequence[Row], place: Place) -> list[str]:
    triples = [_values(rows, key) for key in (column.key, *column.ends)]
    share = column.kind == "share"
    if place == "print":
        return intervals(*triples, places=3 if share else None)
    texts = [
        [list(map(bare_percent, row)) for row in zip(*triples, strict=True)]
        if share
        else aligned(list(zip(*triples, strict=True)))
    ][0]
    columns = [[row[k] for row in texts] for k in range(3)]
    blank = FIGURE_SPACE if place == "notebook" else " "
    return with_intervals(*columns, unit=" %" if share else "", blank=blank)


def _printed(column: Column, columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    values = _values(rows, column.key)
    if column.kind == "probability":
        return [probability(float("nan") if value is None else value) for value in values]
    leading = [c for c in columns if c.ends and c.kind == column.kind]
    shown = [v for c in leading for key in (c.key, *c.ends) for v in _values(rows, key)]
    places = decimals(shown or values)
    return [plain(value, places) for value in values]


def _cells(column: Column, columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    values = _values(rows, column.key)
    if column.kind == "share":
        return ["–" if value is None else f"{bare_percent(value)} %" for value in values]
    if column.kind == "probability":
        return list(map(p_value, values))
    if column.kind == "statistic":
        return ["–" if v is None else f"{v:.2f}".replace("-", "−") for v in values]
    if column.kind != "amount":
        return list(map(number, values))
    keys = [key for c in columns if c.kind == "amount" for key in (c.key, *c.ends)]
    keys = list(dict.fromkeys(keys))
    texts = aligned([[_number(row, key) for key in keys] for row in rows])
    return [row[keys.index(column.key)] for row in texts]


def text_lines(
    schema: Sequence[Column],
    names: Sequence[str],
    rows: Sequence[Row],
    level: float,
    heading: str = "feature",
) -> list[str]:
    """Return the leading units as the lines of a printed table."""
    shown = rows[:SHOWN_ROWS]
    cells = {heading: list(names[:SHOWN_ROWS])}
    cells |= written(schema, shown, "print", interval=f"{100.0 * level:.4g} % interval")
    lines = text_table(list(cells), list(zip(*cells.values(), strict=True)))
    if len(rows) > SHOWN_ROWS:
        lines.append(more_text(len(rows) - SHOWN_ROWS, len(rows)))
    return lines


def page_cells(
    schema: Sequence[Column], rows: Sequence[Row], headings: Mapping[str, str] | None = None
) -> tuple[list[tuple[str, str, bool]], list[dict[str, str]]]:
    """Return key, heading and direction of each column of a page, and the cells of each row."""
    columns = known(schema, rows, "page")
    texts = written(schema, rows, "page", headings=headings)
    heads = [
        (column.key, heading, column.upward) for column, heading in zip(columns, texts, strict=True)
    ]
    keys = [column.key for column in columns]
    return heads, [dict(zip(keys, row, strict=True)) for row in zip(*texts.values(), strict=True)]
