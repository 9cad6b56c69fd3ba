"""``dfi compare``: several importances of the same table."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated

import typer

import dfi
from dfi.cli import options
from dfi.cli.console import Console
from dfi.cli.failures import REFUSED, Failure, guarded
from dfi.cli.outputs import OutputFolder
from dfi.cli.run import Request, command_text, print_json, read_inputs, write_results, write_tables
from dfi.cli.selection import split_names
from dfi.plots.columns import read_columns
from dfi.report import write_comparison_report
from dfi.report.numbers import finite
from dfi.report.summary import unit_rows

FILES = ("comparison.csv", "comparison.parquet", "report.html")


@guarded
def compare(
    context: typer.Context,
    data: options.Data,
    target: options.Target,
    methods: Annotated[
        str, typer.Option(help="all, or names separated by commas", rich_help_panel="Method")
    ] = "all",
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
    """Compute several importances on the same folds and the same models.

    Writes comparison.csv, comparison.parquet, report.html and one .dfi file per method.
    """
    started = clock.monotonic()
    console = Console(quiet)
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
    out = Path(f"dfi-{request.stem}-comparison") if out is None else out
    folder = OutputFolder(out, FILES, force=force)
    with console.warnings():
        inputs = read_inputs(request, console)
        if inputs.fitted:
            raise Failure(
                f"{model} is fitted already, but comparing methods needs refits without features: "
                "give an unfitted model or a name",
                REFUSED,
            )
        rows = inputs.rows
        shape = rows.features.shape
        console.say(f"comparing importances of {target!r}: {shape[0]} rows, {shape[1]} features")
        found = dfi.compare(
            rows.features,
            rows.target,
            "all" if methods == "all" else split_names([methods]),
            estimator=inputs.model,
            cv=rows.cv,
            groups=inputs.groups,
            sample_weight=rows.weights,
            cv_groups=rows.row_groups,
            level=level,
            n_jobs=jobs,
            random_state=seed,
            progress=console.progress,
        )
        console.say(f"writing {out}")
        with folder.filling() as stage:
            write_tables(read_columns(found.table()), stage, "comparison")
            write_comparison_report(found, stage / "report.html", target=target)
            write_results(found.results, stage, call=command_text(context), target=target)
    seconds = clock.monotonic() - started
    if as_json:
        print_json(
            {
                "outputs": {file.name: str(file) for file in sorted(out.iterdir())},
                "methods": {label: unit_rows(result) for label, result in found.results.items()},
                "r2": finite(next(iter(found.results.values())).quality.r2),
                "warnings": console.said,
                "seconds": round(seconds, 3),
            }
        )
        return
    if not quiet:
        typer.echo(repr(found))
    console.say(f"compared {len(found.results)} results ({seconds:.1f} s) -> {out}")
    typer.echo(out / "report.html")
