"""``dfi compare``: several importances of the same table."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated

import typer

import dfi
from dfi.cli.console import Console
from dfi.cli.failures import REFUSED, Failure, guarded
from dfi.cli.outputs import OutputFolder
from dfi.cli.panels import Fitting, Reading, Writing, with_panels
from dfi.cli.run import (
    call_arguments,
    command_text,
    print_json,
    read_inputs,
    write_results,
    write_tables,
)
from dfi.cli.selection import split_names
from dfi.report import write_comparison_report
from dfi.results.views import finite, unit_rows

FILES = ("comparison.csv", "comparison.parquet", "report.html")


@guarded
@with_panels
def compare(
    context: typer.Context,
    *,
    reading: Reading,
    methods: Annotated[
        str, typer.Option(help="all, or names separated by commas", rich_help_panel="Method")
    ] = "all",
    fitting: Fitting,
    writing: Writing,
) -> None:
    """Compute several importances on the same folds and the same models.

    Writes comparison.csv, comparison.parquet, report.html and one .dfi file per method.
    """
    started = clock.monotonic()
    target, console = reading.target, Console(writing.quiet)
    out = Path(f"dfi-{reading.stem}-comparison") if writing.out is None else writing.out
    folder = OutputFolder(out, FILES, force=writing.force)
    with console.warnings():
        inputs = read_inputs(reading, fitting, console)
        if inputs.fitted:
            raise Failure(
                f"{fitting.model} is fitted already, but comparing methods needs refits without "
                "features: give an unfitted model or a name",
                REFUSED,
            )
        shape = inputs.rows.features.shape
        console.say(f"comparing importances of {target!r}: {shape[0]} rows, {shape[1]} features")
        found = dfi.compare(
            methods="all" if methods == "all" else split_names([methods]),
            **call_arguments(inputs, fitting, writing, console),
        )
        console.say(f"writing {out}")
        with folder.filling() as stage:
            write_tables(found.table(), stage, "comparison")
            write_comparison_report(found, stage / "report.html", target=target)
            write_results(found.results, stage, call=command_text(context), target=target)
    seconds = clock.monotonic() - started
    if writing.as_json:
        print_json(
            {
                "outputs": folder.outputs(),
                "methods": {label: unit_rows(result) for label, result in found.results.items()},
                "r2": finite(next(iter(found.results.values())).quality.r2),
                "warnings": console.said,
                "seconds": round(seconds, 3),
            }
        )
        return
    if not writing.quiet:
        typer.echo(repr(found))
    console.say(f"compared {len(found.results)} results ({seconds:.1f} s) -> {out}")
    typer.echo(out / "report.html")
