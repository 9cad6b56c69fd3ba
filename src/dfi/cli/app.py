"""All commands in one application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dfi
from dfi.cli import options
from dfi.cli.compare import compare
from dfi.cli.explain import explain
from dfi.cli.failures import guarded
from dfi.cli.outputs import OutputFolder
from dfi.cli.reproduce import reproduce
from dfi.cli.saved import report, show
from dfi.cli.sensitivity import sensitivity

app = typer.Typer(
    name="dfi",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dfi {dfi.__version__}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Say which correlated features carry the signal, and how sure that is.

    Exit codes: 0 done, 1 defect, 2 wrong usage, 3 input not readable,
    4 data or options refused, 5 output not writable, 130 interrupted,
    143 terminated.
    """


@guarded
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="folder for the report")] = Path(
        "dfi-demo"
    ),
    force: options.Force = False,
    debug: options.Debug = False,
) -> None:
    """Explain scikit-learn's bundled diabetes data."""
    from dfi.datasets.demo import FILES, run

    OutputFolder(out, FILES, force=force)
    run(out)


app.command()(explain)
app.command()(compare)
app.command()(sensitivity)
app.command()(show)
app.command()(report)
app.command()(demo)
app.command()(reproduce)
