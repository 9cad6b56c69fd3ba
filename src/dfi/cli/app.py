"""All commands in one application, and those that read no table: show, report, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dfi
from dfi.cli import options
from dfi.cli.compute import compare, explain, sensitivity
from dfi.cli.console import (
    INPUT,
    OUTPUT,
    REFUSED,
    Console,
    Failure,
    OutputFolder,
    guarded,
    print_json,
    print_table,
)
from dfi.cli.reproduce import reproduce

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


def read_result(path: Path) -> dfi.Importance:
    """Read a result file, or the one in an output folder."""
    file = path / "result.dfi" if path.is_dir() else path
    try:
        return dfi.load(file)
    except FileNotFoundError:
        raise Failure(f"there is no file {file}", INPUT) from None
    except PermissionError:
        raise Failure(f"{file} may not be read: permission denied", INPUT) from None


def read_groups(path: str | None) -> object:
    """Return the groups of a file, or None for those of the result."""
    if path is None:
        return None
    from dfi.cli.tables import read_groups_file

    return read_groups_file(path)


@guarded
def show(
    result: options.Result,
    space: options.ScoreSpace = options.Space.attributed,
    groups: options.Groups = None,
    top: options.Top = 20,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Print the scores of a saved result."""
    scores = read_result(result)
    if groups is not None or space is options.Space.group:
        scores = scores.group(read_groups(groups))
    elif space is options.Space.latent:
        if scores.latent is None:
            raise Failure(f"{result} holds no latent scores", REFUSED)
        scores = scores.latent
    from dfi.results.file import thaw
    from dfi.results.views import SPACES, finite, unit_rows

    rows, quality = unit_rows(scores), scores.quality
    if as_json:
        print_json(
            {
                "space": scores.space,
                "n_rows": quality.n_rows,
                "r2": finite(quality.r2),
                "level": scores.level,
                "features": rows,
                "spec": thaw(scores.spec),
            }
        )
        return
    Console(quiet=False).say(f"{quality.n_rows} rows, out-of-fold R2 {quality.r2:.3f}")
    print_table(rows, level=scores.level, top=top, unit=SPACES[scores.space][0])


@guarded
def report(
    result: options.Result,
    out: options.Page = None,
    title: options.Title = None,
    target: options.OutcomeName = None,
    groups: options.Groups = None,
    force: options.Force = False,
    debug: options.Debug = False,
) -> None:
    """Write the report of a saved result."""
    loaded = read_result(result)
    if out is None:
        out = result / "report.html" if result.is_dir() else result.with_suffix(".html")
    try:
        written = dfi.report.write_report(
            loaded, out, title=title, target=target, groups=read_groups(groups), overwrite=force
        )
    except FileExistsError:
        raise Failure(f"{out} exists already; replace it with --force", OUTPUT) from None
    typer.echo(written)


@guarded
def demo(
    out: options.DemoFolder = Path("dfi-demo"),
    force: options.Force = False,
    debug: options.Debug = False,
) -> None:
    """Explain scikit-learn's bundled diabetes data."""
    from dfi.cli.demo import FILES, run

    OutputFolder(out, FILES, force=force)
    run(out)


for command in (explain, compare, sensitivity, show, report, demo, reproduce):
    app.command()(command)
