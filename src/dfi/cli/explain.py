"""``dfi explain``: a table in, scores, result file and report out."""

from __future__ import annotations

import inspect
import time as clock
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

import dfi
from dfi.cli import options
from dfi.cli.console import Console, headline, print_table
from dfi.cli.failures import REFUSED, Failure, guarded
from dfi.cli.outputs import OutputFolder
from dfi.cli.panels import Fitting, Reading, Writing, with_panels
from dfi.cli.run import (
    call_arguments,
    command_text,
    print_json,
    read_inputs,
    with_call,
    write_tables,
)
from dfi.report import write_report
from dfi.report.numbers import finite
from dfi.report.summary import unit_rows
from dfi.results.importance import Importance

FILES = ("importance.csv", "importance.parquet", "result.dfi", "report.html", "log.txt")
GROUP_FILES = ("groups.csv", "groups.parquet")


@guarded
@with_panels
def explain(
    context: typer.Context,
    *,
    reading: Reading,
    fitting: Fitting,
    transport: options.Transport = "gaussian",
    epsilon: options.Epsilon = None,
    components: options.Components = None,
    repeats: options.Repeats = 1,
    writing: Writing,
    top: options.Top = 10,
) -> None:
    """Explain a column of a table by its other columns.

    Writes importance.csv, importance.parquet, result.dfi, report.html and log.txt into a folder.
    """
    started = clock.monotonic()
    target, console = reading.target, Console(writing.quiet)
    out = Path(f"dfi-{reading.stem}") if writing.out is None else writing.out
    folder = OutputFolder(out, FILES + (GROUP_FILES if reading.groups else ()), force=writing.force)
    with console.warnings():
        inputs = read_inputs(reading, fitting, console)
        shape = inputs.rows.features.shape
        console.say(f"explaining {target!r}: {shape[0]} rows, {shape[1]} features")
        result = dfi.explain(
            transport=resolve(transport, epsilon, components),
            n_repeats=repeats,
            **call_arguments(inputs, fitting, writing, console),
        )
        result = with_call(result, command_text(context), target)
        rows = unit_rows(result)
        line = headline(result, rows, clock.monotonic() - started, str(out))
        console.say(f"writing {out}")
        with folder.filling() as stage:
            write_tables(result.table(), stage, "importance")
            if result.default_groups is not None:
                write_tables(result.group().table(), stage, "groups")
            result.save(stage / "result.dfi")
            write_report(result, stage / "report.html", target=target)
            stamp = datetime.now(UTC).isoformat(timespec="seconds")
            (stage / "log.txt").write_text(f"{stamp} {line}\n", encoding="utf-8")
    stale = [name for name in GROUP_FILES if name not in folder.written and (out / name).exists()]
    if stale:
        console.warn(f"{' and '.join(stale)} in {out} are not of this run, which has no groups")
    if writing.as_json:
        print_json(_summary(result, rows, folder, console, clock.monotonic() - started))
    else:
        if not writing.quiet:
            print_table(rows, level=fitting.level, top=top, unit="feature")
        console.say(line)
        typer.echo(out / "report.html")


def resolve(
    transport: str, epsilon: float | None, components: options.Dependence | None = None
) -> Any:
    """Return a transport by name, with its epsilon and components where they were given."""
    given: dict[str, Any] = {}
    if epsilon is not None:
        given["epsilon"] = epsilon
    if components is not None:
        given["components"] = "auto" if components is options.Dependence.auto else None
    if not given:
        return transport
    from dfi.transports import resolve_transport

    kind = type(resolve_transport(transport))
    known = inspect.signature(kind).parameters
    for option in given:
        if option not in known:
            raise Failure(f"the transport {transport!r} has no --{option}", REFUSED)
    return kind(**given)


def _summary(
    result: Importance,
    rows: list[dict[str, Any]],
    folder: OutputFolder,
    console: Console,
    seconds: float,
) -> dict[str, Any]:
    return {
        "outputs": folder.outputs(),
        "n_rows": result.quality.n_rows,
        "r2": finite(result.quality.r2),
        "level": result.level,
        "features": rows,
        "warnings": console.said,
        "seconds": round(seconds, 3),
    }
