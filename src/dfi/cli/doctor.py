"""``dfi doctor``: what is in a table and what ``dfi explain`` would do with it, before any fit.

Everything is read by what ``explain`` reads with, and decided by what decides there
(:func:`~dfi._models.prepare.prepare`, :meth:`~dfi.methods.Disentangled.plan`): nothing is
judged a second time.
"""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from scipy.sparse.csgraph import connected_components

from dfi._data.everyday import NOTHING, read_everyday
from dfi._data.outcome import Outcome
from dfi._data.source import LARGE_ROWS
from dfi._data.table import Table, refused_columns
from dfi._data.text import find_dates
from dfi._estimates.within_units import RARE, rare_levels
from dfi._models.crossfit import MOST_SPLITS
from dfi._models.prepare import prepare
from dfi._scoring.forms import CROSSED
from dfi.cli.columns import is_time
from dfi.cli.console import REFUSED, ColumnsRefused, Console, print_json, print_lines
from dfi.cli.inputs import read_arguments
from dfi.inference.intervals import check_level
from dfi.methods.compute import refusal
from dfi.methods.disentangled import Disentangled, Plan
from dfi.methods.expected import expected_seconds
from dfi.results.numbers import percent
from dfi.results.views import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from dfi._data.columns import Column
    from dfi._models.fits import Fits
    from dfi._types import Floats
    from dfi.cli.options import Request

STRONG = 0.8
"""Correlation from which on two features are named together."""

WIDEST = 2000
"""Matrix columns beyond which correlations are not looked at."""

DISTINCT_ROWS = 20
"""Rows from which on an integer of its own in every row looks like an identifier."""

KINDS = {"real": "number", "integer": "integer", "boolean": "boolean", "categorical": "category"}

OUTCOMES = {
    "real": "a quantity",
    "count": "a quantity in whole numbers",
    "binary": "two classes",
    "classes": "classes",
    "several": "several quantities",
}


@dataclass(frozen=True)
class ColumnReport:
    """One column: its contents, and remarks about them."""

    name: str
    kind: str
    n_values: int | None
    values: str
    missing: float
    notes: tuple[str, ...] = ()
    constant: bool = False
    duplicate_of: str | None = None
    identifier: bool = False
    pooled: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "kind": self.kind,
            "values": self.n_values,
            "missing": self.missing,
            "constant": self.constant,
            "duplicate_of": self.duplicate_of,
            "identifier_like": self.identifier,
            "pooled_levels": list(self.pooled),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class TableReport:
    """Everything known about a table before anything is fitted."""

    rows: int | None = None
    target: dict[str, object] = field(default_factory=dict)
    columns: tuple[ColumnReport, ...] = ()
    correlated: tuple[tuple[tuple[str, ...], float], ...] = ()
    plan: dict[str, object] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def examine(request: Request, console: Console, settings: dict[str, Any]) -> TableReport:
    """Read a table and say what explaining it would do; ``settings`` are those of the method."""
    aside: dict[str, tuple[pl.Series, str]] = {}
    doing = f"looking at {request.target!r}"
    try:
        arguments = read_arguments(request, console, doing, parts=True, aside=aside)
    except ColumnsRefused:
        if not aside:
            raise
        return TableReport(refused={name: text for name, (_, text) in aside.items()})
    refused = {name: text for name, (_, text) in aside.items()}
    whole = X = arguments["X"]
    everyday = NOTHING
    if not _is_lazy(X):
        X, everyday = read_everyday(X, "drop")
        found = refused_columns(X)
        refused |= found
        if len(found) == X.width:
            return TableReport(refused=refused)
        arguments["X"] = whole.drop(list(found))  # dates as they are: prepare knows them for days
        arguments["feature_groups"] = _without(arguments["feature_groups"], refused)
    fits: Fits | None = None
    try:
        check_level(arguments.pop("level"))
        fit_rows = settings.pop("fit_rows")
        repeats = settings.pop("n_repeats")
        method = Disentangled(**settings)
        method.check(prefit=arguments["cv"] == "prefit")
        fits = prepare(
            **arguments,
            fit_rows=fit_rows,
            n_repeats=repeats,
            explain_rows=method.explain_rows,
            samples=True,
            most_splits=MOST_SPLITS,
        )
        reason = refusal(method, fits)
        if reason is not None:
            refused[""] = reason
        ahead = method.plan(fits.members[0] if fits.outcome.members else fits)
    except (TypeError, ValueError) as error:
        refused[""] = " ".join(str(error).split())
        ahead = None
    if fits is None:
        return TableReport(refused=refused)
    pools = ahead is None or ahead.choice.design.disentangles_units
    seen = _with_duplicates([_seen(fits, column, pools) for column in fits.table.columns], fits)
    if not _is_lazy(X):
        known = {one.name: one for one in seen}
        known |= {name: replace(known[name], kind="date, as days") for name in everyday.days}
        seen = [
            known.get(name) or _refused(whole[name], everyday.left_out.get(name))
            for name in whole.columns
        ]
        seen += [_refused(column) for column, _ in aside.values()]
    return TableReport(
        fits.n_rows,
        _target(fits),
        tuple(seen),
        correlated(fits.table),
        {} if ahead is None else _plan(fits, ahead),
        refused,
    )


def _is_lazy(X: object) -> bool:
    return type(X).__name__ == "LazyFrame"


def _without(groups: object, refused: dict[str, str]) -> object:
    """Return groups without columns that are refused, so the rest can be looked at."""
    if not isinstance(groups, dict) or not refused:
        return groups
    kept = {g: [m for m in members if m not in refused] for g, members in groups.items()}
    return {group: members for group, members in kept.items() if members}


def _target(fits: Fits) -> dict[str, object]:
    outcome: Outcome = fits.outcome
    found: dict[str, object] = {"name": outcome.name, "kind": outcome.kind, "loss": fits.loss.name}
    if outcome.is_classes:
        numbers = np.bincount(outcome.values.astype(np.intp), minlength=outcome.n_classes)
        names = outcome.classes or ("0", "1")
        found["classes"] = dict(zip(names, numbers.tolist(), strict=True))
        if outcome.kind == "binary":
            found["explained_class"] = names[-1]
    else:
        found |= {"low": float(outcome.values.min()), "high": float(outcome.values.max())}
    return found


def _refused(column: pl.Series, identifier: str | None = None) -> ColumnReport:
    kind = "date or time" if is_time(column.dtype) else str(column.dtype).lower()
    if kind == "string":
        dates = find_dates(column.drop_nulls().to_list())
        kind = "text" if dates is None else "date or time"
    distinct = column.drop_nulls().n_unique() if kind == "text" else None
    values = "refused" if distinct is None else f"{distinct:,} different"
    notes = () if identifier is None else (f"is left out: {identifier}",)
    return ColumnReport(
        column.name, kind, distinct, values if identifier is None else "left out",
        column.null_count() / max(1, len(column)), notes, identifier=identifier is not None,
    )  # fmt: skip


def _seen(fits: Fits, column: Column, pools: bool) -> ColumnReport:
    table = fits.table
    gap = table.where_missing(column)
    missing = fits.data.missing_shares.get(column.name, 0.0)
    constant = bool(table.constant[list(column.positions)].all())
    notes = ["does not vary: its score is 0"] if constant else []
    if column.kind == "categorical":
        return _seen_category(fits, column, pools, missing, notes)
    values = table.matrix[~gap, column.positions[0]]
    distinct = np.unique(values)
    with_levels = column.positions[0] in table.levels.positions
    kind = KINDS[column.kind]
    if column.kind == "real" and with_levels:
        kind = "number, levels"
    identifier = (
        column.kind == "integer" and len(distinct) == len(values) >= DISTINCT_ROWS and not constant
    )
    if identifier:
        notes.append(
            "has its own value in every row: leave it out with --drop if it is an identifier"
        )
    if missing and not constant:
        notes.append("is scored together with its missing values")
    text = "all missing" if not len(values) else f"{short(distinct[0])} to {short(distinct[-1])}"
    if column.kind == "boolean":
        text = "true or false"
    elif with_levels and len(values):
        text = f"{len(distinct):,}: {text}"
    return ColumnReport(
        column.name, kind, len(distinct), text, missing, tuple(notes),
        constant=constant, identifier=identifier,
    )  # fmt: skip


def _seen_category(
    fits: Fits, column: Column, pools: bool, missing: float, notes: list[str]
) -> ColumnReport:
    codes = column.decode(fits.table.matrix[:, list(column.positions)])
    inside = (codes[:, None] == np.arange(len(column.levels))).astype(np.float64)
    rows = fits.rows
    shares = fits.weights.take(rows).mean(inside[rows])
    levels = tuple("missing" if level is None else str(level) for level in column.levels)
    pooled: tuple[str, ...] = ()
    if pools and column.width > 1:
        rare = rare_levels(shares, lambda: np.argmax(inside[rows] > 0, axis=0))
        pooled = tuple(levels[k] for k in rare)
    if pooled:
        notes.append(
            f"has levels below {percent(RARE)} of the rows: the transport merges them, the model "
            "does not"
        )
    known = [level for level in column.levels if level is not None]
    counted = f"{len(known):,} level{'s' * (len(known) > 1)}"
    return ColumnReport(
        column.name, KINDS["categorical"], len(known), counted, missing,
        tuple(notes), constant="does not vary" in " ".join(notes), pooled=pooled,
    )  # fmt: skip


def _with_duplicates(seen: Sequence[ColumnReport], fits: Fits) -> list[ColumnReport]:
    first: dict[bytes, str] = {}
    found = []
    for one, column in zip(seen, fits.table.columns, strict=True):
        values = fits.table.matrix[:, list(column.positions)]
        known = first.setdefault(np.ascontiguousarray(values + 0.0).tobytes(), one.name)
        if known != one.name and not one.constant:
            note = f"repeats {known!r}: their signal is divided evenly"
            one = replace(one, duplicate_of=known, notes=(*one.notes, note))
        found.append(one)
    return found


def correlated(table: Table) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Return the features that are connected by correlations of :data:`STRONG` or more."""
    varying = ~table.constant
    if table.matrix.shape[1] > WIDEST or varying.sum() < 2:
        return ()
    rows: Floats = table.matrix[:: max(1, len(table.matrix) // LARGE_ROWS)]
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.abs(np.nan_to_num(np.corrcoef(rows.T)))
    owner = np.empty(rows.shape[1], dtype=np.intp)
    for unit, column in enumerate(table.columns):
        owner[list(column.positions)] = unit
    strong = correlation * ((correlation >= STRONG) & (owner[:, None] != owner))
    largest = np.zeros((table.n_columns, table.n_columns))
    np.maximum.at(largest, (owner[:, None], owner), strong)
    count, label = connected_components(largest)
    blocks = [np.flatnonzero(label == k) for k in range(count)]
    found = [
        (tuple(table.names[unit] for unit in block), float(largest[block].max()))
        for block in blocks
        if len(block) > 1
    ]
    return tuple(sorted(found, key=lambda block: -block[1]))


def _plan(fits: Fits, ahead: Plan) -> dict[str, object]:
    sizes = fits.training_sizes(halves=ahead.form in CROSSED, quarters=ahead.extrapolates)
    return {
        "transport": ahead.choice.design.name,
        "why": list(ahead.choice.reasons),
        "form": "extrapolated" if ahead.extrapolates else ahead.form,
        "folds": len(fits.repeats[0]),
        "models": len(sizes),
        "fewest_training_rows": min(sizes, default=0),
        "most_training_rows": max(sizes, default=0),
        "explained_rows": ahead.explained(fits),
        "of": fits.n_rows,
        "until_precise": ahead.rows is not None and ahead.rows.precise,
        "units": len(fits.units.names),
        "seconds": expected_seconds(fits, ahead),
    }


def rough_time(value: float) -> str:
    for limit, words in (
        (3, "a few seconds"),
        (10, "about 5 to 10 seconds"),
        (40, "half a minute or so"),
        (100, "a minute or two"),
        (600, "some minutes"),
        (3600, "up to an hour"),
    ):
        if value < limit:
            return words
    return "hours"


def short(value: float) -> str:
    """Return a number in few characters."""
    if not math.isfinite(value):
        return "-"
    whole = float(value).is_integer() or abs(value) >= 1e4
    return f"{value:.0f}" if whole and abs(value) < 1e7 else f"{value:.4g}"


def doctor_text(examined: TableReport, request: Request, top: int, width: int) -> str:
    """Return the findings as text, in lines of at most ``width`` characters."""
    lines: list[str] = []
    if examined.rows is not None:
        lines += _facts(examined, request, width)
        lines += ["", *_column_lines(examined, top, width)]
        noted: dict[str, list[str]] = {}
        for one in examined.columns:
            for note in one.notes:
                noted.setdefault(note, []).append(one.name)
        notes = [
            f"{'each of ' * (len(names) > 1)}{_listed(names)} {note}"
            for note, names in noted.items()
        ]
        notes += [
            f"{_listed(names)} are correlated (up to {size:.2f}): their shared signal is divided "
            "among them"
            for names, size in examined.correlated
        ]
        if notes:
            lines += ["", "Worth knowing", *_items(notes, width, top)]
    if examined.plan and not examined.refused:
        lines += ["", "dfi explain will", *_items(_intentions(examined, request), width, 20)]
    if examined.refused:
        lines += ["", "dfi explain will refuse this table"]
        lines += _items(list(examined.refused.values()), width, top)
    return "\n".join(lines).lstrip("\n")


def _facts(examined: TableReport, request: Request, width: int) -> list[str]:
    target, rows = examined.target, examined.rows or 0
    kind = OUTCOMES.get(str(target["kind"]), str(target["kind"]))
    classes = target.get("classes")
    if isinstance(classes, dict):
        listed = ", ".join(f"{name} {count:,}" for name, count in list(classes.items())[:6])
        more = ", ..." if len(classes) > 6 else ""
        kind = f"{len(classes)} classes ({listed}{more})"
        if "explained_class" in target:
            kind += f"; the explained probability is that of {target['explained_class']}"
    else:
        kind += f" from {short(float(str(target['low'])))} to {short(float(str(target['high'])))}"
    facts = [
        ("target", f"{request.target}: {kind}"),
        ("loss", f"{target['loss']} (--loss changes it)"),
        ("rows", f"{rows:,} with a target"),
        ("features", f"{sum(column.values != 'left out' for column in examined.columns)}"),
    ]
    return [
        line
        for label, text in facts
        for line in textwrap.wrap(
            f"{label:10s}{text}", width, subsequent_indent=" " * 10, break_on_hyphens=False
        )
    ]


def _column_lines(examined: TableReport, top: int, width: int) -> list[str]:
    shown = examined.columns[:top]
    gaps = any(one.missing for one in shown)
    names = [shorten(one.name, max(12, width - 52)) for one in shown]
    length = max(map(len, [*names, "column"]))
    kinds = max(len(one.kind) for one in shown)
    values = max(map(len, [*(one.values for one in shown), "values"]))
    heading = f"{'column':{length}}  {'kind':{kinds}}  {'values':{values}}"
    lines = [f"{heading}  missing" if gaps else heading.rstrip()]
    for name, one in zip(names, shown, strict=True):
        line = f"{name:{length}}  {one.kind:{kinds}}  {one.values:{values}}"
        gap = f"  {percent(one.missing):>7}" if one.missing else ""
        lines.append((line + gap).rstrip())
    if len(examined.columns) > top:
        lines.append(f"... and {len(examined.columns) - top} more (--top shows them)")
    return lines


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:6])) + (f" and {len(names) - 6} more" * (len(names) > 6))


def _intentions(examined: TableReport, request: Request) -> list[str]:
    plan = examined.plan
    models, rows, of = (int(str(plan[key])) for key in ("models", "explained_rows", "of"))
    why = plan["why"]
    because = f" ({'; '.join(map(str, why))})" if isinstance(why, list) and why else ""
    learner = {"auto": "an average of ridge, a quadratic polynomial, networks and boosting"}
    said = [f"disentangle the features by the transport {plan['transport']}{because}"]
    if models:
        low, high = (int(str(plan[key])) for key in ("fewest_training_rows", "most_training_rows"))
        size = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        model = learner.get(request.model, "")
        said.append(
            f"fit {models:,} models ({request.model}{': ' + model if model else ''}) on {size} "
            f"rows each, in {plan['folds']} folds"
        )
    else:
        said.append(f"explain the fitted model {request.model} as it is")
    which = f"all {rows:,} rows" if rows >= of else f"{rows:,} of {of:,} rows, drawn at random"
    if plan["until_precise"]:
        which = f"as many of {of:,} rows as the precision requires, drawn at random"
    said.append(f"explain {which}, by the {plan['form']} form")
    known = plan["seconds"]
    if isinstance(known, float):
        said.append(f"take {rough_time(known)} on one core (a rough guess)")
    return said


def _items(texts: Sequence[str], width: int, top: int) -> list[str]:
    lines = []
    for text in texts[:top]:
        lines += textwrap.wrap(
            text, width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
        )
    if len(texts) > top:
        lines.append(f"- ... and {len(texts) - top} more")
    return lines


def run_doctor(request: Request, console: Console, settings: dict[str, Any], top: int) -> None:
    """Examine a table and print the findings; exit if it is refused."""
    with console.warnings():
        examined = examine(request, console, settings)
    runs = not examined.refused
    if request.as_json:
        print_json(
            {
                "runs": runs,
                "n_rows": examined.rows,
                "target": examined.target,
                "columns": [one.as_dict() for one in examined.columns],
                "correlated": [
                    {"columns": list(names), "correlation": round(size, 4)}
                    for names, size in examined.correlated
                ],
                "plan": examined.plan,
                "refused": [
                    {"column": name or None, "reason": text}
                    for name, text in examined.refused.items()
                ],
                "warnings": console.said,
            }
        )
    else:
        # the terminal, but no wider than people read
        width = max(40, min(100, shutil.get_terminal_size((80, 24)).columns))
        text = doctor_text(examined, request, top, width)
        encoding = sys.stdout.encoding or "utf-8"
        print_lines(text.encode(encoding, "replace").decode(encoding))
    if not runs:
        raise typer.Exit(REFUSED)
