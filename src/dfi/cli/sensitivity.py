"""``dfi sensitivity``: how the answer depends on the transport."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from matplotlib.figure import Figure

from dfi.cli.console import Console, leading
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
from dfi.plots import sensitivity as draw_ranks
from dfi.plots.columns import read_columns
from dfi.plots.style import shorten
from dfi.report import write_comparison_report
from dfi.report.summary import unit_rows
from dfi.sensitivity import sensitivity as explain_settings

# ruff: noqa: UP045

FILES = ("sensitivity.csv", "sensitivity.parquet", "ranks.png", "report.html")
EPSILONS = "0,0.01,0.1,0.5,1"


@guarded
@with_panels
def sensitivity(
    context: typer.Context,
    *,
    reading: Reading,
    transports: Annotated[
        Optional[str],
        typer.Option(help="names of transports, separated by commas", rich_help_panel="Method"),
    ] = None,
    epsilons: Annotated[
        Optional[str],
        typer.Option(
            help=f"values of epsilon, separated by commas; {EPSILONS} by default",
            rich_help_panel="Method",
        ),
    ] = None,
    solved: Annotated[
        bool,
        typer.Option(
            "--solved",
            help="epsilons of entropic transport solved on the rows",
            rich_help_panel="Method",
        ),
    ] = False,
    fitting: Fitting,
    writing: Writing,
) -> None:
    """Explain the same fitted models under several transports, or several epsilons.

    Writes sensitivity.csv, sensitivity.parquet, ranks.png, report.html and one .dfi file each.
    """
    started = clock.monotonic()
    target, console = reading.target, Console(writing.quiet)
    grid = read_grid(transports, epsilons)
    out = Path(f"dfi-{reading.stem}-sensitivity") if writing.out is None else writing.out
    folder = OutputFolder(out, FILES, force=writing.force)
    with console.warnings():
        inputs = read_inputs(reading, fitting, console)
        shape = inputs.rows.features.shape
        console.say(f"explaining {target!r} again and again: {shape[0]} rows, {shape[1]} features")
        found = explain_settings(
            **grid, solved=solved, **call_arguments(inputs, fitting, writing, console)
        )
        results = found.results
        title = f"How the answer about {target} depends on the transport"
        console.say(f"writing {out}")
        with folder.filling() as stage:
            write_tables(read_columns(found.table()), stage, "sensitivity")
            figure = Figure(figsize=(4.0 + 1.1 * len(results), 5.5), layout="constrained")
            draw_ranks(results, ax=figure.subplots())
            figure.suptitle(shorten(title, 70), fontsize=11, parse_math=False)
            figure.savefig(stage / "ranks.png", dpi=120)
            write_comparison_report(results, stage / "report.html", title=title, target=target)
            write_results(results, stage, call=command_text(context), target=target)
    seconds = clock.monotonic() - started
    if writing.as_json:
        print_json(
            {
                "outputs": folder.outputs(),
                "settings": {label: unit_rows(result) for label, result in results.items()},
                "skipped": dict(found.skipped),
                "warnings": console.said,
                "seconds": round(seconds, 3),
            }
        )
        return
    if not writing.quiet:
        width = max(map(len, results))
        for label, result in results.items():
            typer.echo(f"{label:{width}s}  {leading(unit_rows(result))}")
    console.say(f"explained under {len(results)} settings ({seconds:.1f} s) -> {out}")
    typer.echo(out / "report.html")


def read_grid(transports: str | None, epsilons: str | None) -> dict[str, Any]:
    """Return the settings as arguments of :func:`dfi.sensitivity.sensitivity`."""
    if transports is not None and epsilons is not None:
        raise Failure("give --transports or --epsilons, not both", REFUSED)
    if transports is not None:
        return {"transports": split_names([transports])}
    values = []
    for text in split_names([EPSILONS if epsilons is None else epsilons]):
        try:
            values.append(float(text))
        except ValueError:
            raise Failure(f"--epsilons: {text!r} is not a number", REFUSED) from None
    return {"epsilons": values}
