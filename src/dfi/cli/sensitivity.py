"""``dfi sensitivity``: how the answer depends on the transport."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated, Any, Optional

import numpy as np
import typer
from matplotlib.figure import Figure

from dfi.cli import options
from dfi.cli.console import Console
from dfi.cli.explain import explain_rows, resolve
from dfi.cli.failures import REFUSED, Failure, guarded
from dfi.cli.outputs import OutputFolder
from dfi.cli.run import (
    Inputs,
    Request,
    command_text,
    print_json,
    read_inputs,
    write_results,
    write_tables,
)
from dfi.cli.selection import split_names
from dfi.plots import sensitivity as draw_ranks
from dfi.plots.columns import read_columns
from dfi.report import write_comparison_report
from dfi.report.summary import unit_rows
from dfi.result import Importance

# ruff: noqa: UP045

FILES = ("sensitivity.csv", "sensitivity.parquet", "ranks.png", "report.html")
EPSILONS = "0,0.01,0.1,0.5,1"


@guarded
def sensitivity(
    context: typer.Context,
    data: options.Data,
    target: options.Target,
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
    transport: options.Transport = "gaussian",
    groups: options.Groups = None,
    drop: options.Drop = None,
    model: options.Model = "auto",
    trust_model: options.Trust = False,
    out: options.Out = None,
    weights: options.Weights = None,
    time: options.Time = None,
    cv_groups: options.RowGroups = None,
    folds: options.Folds = 5,
    level: options.Level = 0.95,
    seed: options.Seed = 0,
    missing: options.MissingRows = options.Missing.error,
    file_format: options.Format = None,
    encoding: options.Encoding = "utf-8",
    jobs: options.Jobs = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    force: options.Force = False,
    debug: options.Debug = False,
) -> None:
    """Explain under several transports, or several epsilons of one, on the same folds.

    Writes sensitivity.csv, sensitivity.parquet, ranks.png, report.html and one .dfi file each.
    """
    started = clock.monotonic()
    console = Console(quiet)
    settings = read_settings(transports, epsilons, transport)
    request = Request(
        data=data,
        target=target,
        drop=drop,
        file_format=file_format,
        encoding=encoding,
        missing=missing.value,
        groups=groups,
        weights=weights,
        time=time,
        row_groups=cv_groups,
        model=model,
        trust=trust_model,
        folds=folds,
    )
    out = Path(f"dfi-{request.stem}-sensitivity") if out is None else out
    folder = OutputFolder(out, FILES, force=force)
    with console.warnings():
        inputs = read_inputs(request, console)
        results = explain_settings(
            inputs,
            settings,
            console,
            level=level,
            random_state=seed,
            n_jobs=jobs,
            progress=console.progress,
        )
        title = f"How the answer about {target} depends on the transport"
        with folder.filling() as stage:
            write_tables(long_table(results), stage, "sensitivity")
            figure = Figure(figsize=(4.0 + 1.1 * len(results), 5.5), layout="constrained")
            draw_ranks(results, ax=figure.subplots())
            figure.savefig(stage / "ranks.png", dpi=120)
            write_comparison_report(results, stage / "report.html", title=title, target=target)
            write_results(results, stage, call=command_text(context), target=target)
    seconds = clock.monotonic() - started
    if as_json:
        print_json(
            {
                "outputs": {file.name: str(file) for file in sorted(out.iterdir())},
                "settings": {label: unit_rows(result) for label, result in results.items()},
                "warnings": console.said,
                "seconds": round(seconds, 3),
            }
        )
        return
    console.say(f"explained under {len(results)} settings ({seconds:.1f} s) -> {out}")
    typer.echo(out / "report.html")


def read_settings(transports: str | None, epsilons: str | None, transport: str) -> dict[str, Any]:
    """Return the transports to try by their labels."""
    if transports is not None and epsilons is not None:
        raise Failure("give --transports or --epsilons, not both", REFUSED)
    if transports is not None:
        return {name: resolve(name, None) for name in split_names([transports])}
    values = []
    for text in split_names([EPSILONS if epsilons is None else epsilons]):
        try:
            values.append(float(text))
        except ValueError:
            raise Failure(f"--epsilons: {text!r} is not a number", REFUSED) from None
    return {f"epsilon {value:g}": resolve(transport, value) for value in values}


def explain_settings(
    inputs: Inputs, settings: dict[str, Any], console: Console, **options: Any
) -> dict[str, Importance]:
    """Return one result per setting: the same seed gives the same folds and the same models."""
    results = {}
    for label, transport in settings.items():
        console.say(f"explaining with {label}")
        results[label] = explain_rows(inputs, transport=transport, n_repeats=1, **options)
    return results


def long_table(results: dict[str, Importance]) -> dict[str, Any]:
    """Return all results as one long table with ranks."""
    blocks: dict[str, list[Any]] = {}
    for label, result in results.items():
        columns = read_columns(result.table())
        size = len(columns["feature"])
        rows = {"setting": np.full(size, label, dtype=object), **columns}
        rows["rank"] = np.arange(1, size + 1)
        for key, values in rows.items():
            blocks.setdefault(key, []).append(values)
    return {key: np.concatenate(parts) for key, parts in blocks.items()}
