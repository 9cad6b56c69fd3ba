"""``dfi show`` and ``dfi report``: what can be done with a saved result."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from dfi.cli import options
from dfi.cli.console import Console, print_table
from dfi.cli.failures import INPUT, OUTPUT, REFUSED, Failure, guarded
from dfi.cli.run import print_json, read_groups_file
from dfi.report import write_report
from dfi.results.file import thaw
from dfi.results.importance import Importance, load
from dfi.results.views import SPACES, finite, unit_rows

# ruff: noqa: UP045

Result = Annotated[
    Path, typer.Argument(help="a .dfi file, or a folder with result.dfi", show_default=False)
]


class Space(StrEnum):
    """Which scores to show."""

    attributed = "attributed"
    latent = "latent"
    group = "group"


def read_result(path: Path) -> Importance:
    """Read a result file, or the one in an output folder."""
    file = path / "result.dfi" if path.is_dir() else path
    try:
        return load(file)
    except FileNotFoundError:
        raise Failure(f"there is no file {file}", INPUT) from None
    except PermissionError:
        raise Failure(f"{file} may not be read: permission denied", INPUT) from None


@guarded
def show(
    result: Result,
    space: Annotated[Space, typer.Option(help="which scores")] = Space.attributed,
    groups: options.Groups = None,
    top: options.Top = 20,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Print the scores of a saved result."""
    found = read_result(result)
    if groups is not None or space is Space.group:
        found = found.group(None if groups is None else read_groups_file(groups))
    elif space is Space.latent:
        if found.latent is None:
            raise Failure(f"{result} holds no latent scores", REFUSED)
        found = found.latent
    rows = unit_rows(found)
    if as_json:
        print_json(
            {
                "space": found.space,
                "n_rows": found.quality.n_rows,
                "r2": finite(found.quality.r2),
                "level": found.level,
                "features": rows,
                "spec": thaw(found.spec),
            }
        )
        return
    console = Console(quiet=False)
    console.say(f"{found.quality.n_rows} rows, out-of-fold R2 {found.quality.r2:.3f}")
    print_table(rows, level=found.level, top=top, unit=SPACES[found.space][0])


@guarded
def report(
    result: Result,
    out: Annotated[
        Optional[Path], typer.Option("--out", "-o", help="the page; beside the result by default")
    ] = None,
    title: Annotated[Optional[str], typer.Option(help="headline of the page")] = None,
    target: Annotated[Optional[str], typer.Option(help="name of the outcome")] = None,
    groups: options.Groups = None,
    force: options.Force = False,
    debug: options.Debug = False,
) -> None:
    """Write the report of a saved result."""
    found = read_result(result)
    if out is None:
        out = result / "report.html" if result.is_dir() else result.with_suffix(".html")
    try:
        written = write_report(
            found,
            out,
            title=title,
            target=target,
            groups=None if groups is None else read_groups_file(groups),
            overwrite=force,
        )
    except FileExistsError:
        raise Failure(f"{out} exists already; replace it with --force", OUTPUT) from None
    typer.echo(written)
