"""``dfi reproduce``: the paper's figures and tables."""

from __future__ import annotations

import importlib
import sys
import time as clock
from pathlib import Path
from types import ModuleType

from dfi.cli import options
from dfi.cli.console import (
    Console,
    Failure,
    Refused,
    Terminated,
    Unwritable,
    exit_code,
    guarded,
    print_path,
)
from dfi.cli.outputs import OutputFolder

RECORDS = "records"
PAPER = "paper"
ELSEWHERE = (
    "the paper's studies are not installed with dfi: clone its repository (git clone) and run "
    "'make paper' or 'python -m paper NAME' there"
)


def find_paper() -> tuple[ModuleType, ModuleType]:
    clone = Path(__file__).resolve().parents[3]
    if (clone / PAPER / "catalogue.py").is_file() and str(clone) not in sys.path:
        # appended: nothing else of the clone may hide what is installed
        sys.path.append(str(clone))
    try:
        catalogue = importlib.import_module(f"{PAPER}.catalogue")
        return catalogue, importlib.import_module(f"{PAPER}.reproduction")
    except ModuleNotFoundError as error:
        if error.name not in (PAPER, f"{PAPER}.catalogue"):
            raise
        raise Refused(ELSEWHERE) from None


@guarded
def reproduce(
    name: options.Study,
    full: options.Full = False,
    out: options.PaperFolder = Path("dfi-paper"),
    jobs: options.Jobs = None,
    resume: options.Resume = False,
    seeds: options.Seeds = None,
    refit_seeds: options.RefitSeeds = None,
    refit_trees: options.RefitTrees = None,
    data: options.PaperData = None,
    quiet: options.Quiet = False,
    force: options.Force = False,
    debug: options.Debug = False,
) -> None:
    """Reproduce a figure or table of the paper, next to the theory.

    Writes NAME.csv, NAME.png and NAME.md; the records of finished replications stay in
    OUT/records, so an interrupted run can be resumed.
    """
    catalogue, reproduction = find_paper()
    console = Console(quiet)
    size = reproduction.Size(
        full, seeds, refit_seeds, refit_trees, None if data is None else str(data)
    )
    studies = catalogue.resolve_studies(name)
    names = [file for study in studies for file in study.files]
    folder = OutputFolder(out, names, force=force or resume)
    records = out / RECORDS
    recorded = [study.name for study in studies if (records / study.kept_in).is_dir()]
    if recorded and not (resume or force):
        raise Unwritable(
            f"{records} has records of {', '.join(recorded)}: continue with --resume, or start "
            "again with --force"
        )
    for study in studies:
        study.tasks(size)  # fail on missing data now, not after hours
    begun: set[str] = set()
    for study in studies:
        started = clock.monotonic()
        console.say(f"{study.name}: {study.title}")
        try:
            with folder.filling() as stage, console.warnings():
                reproduction.reproduce(
                    study, stage, size=size, records_folder=records, n_jobs=jobs,
                    resume=resume or study.kept_in in begun, progress=console.progress,
                )  # fmt: skip
        except (KeyboardInterrupt, Terminated) as error:
            failure = Failure(
                f"interrupted in {study.name}: finished replications are kept in {records}; the "
                "same command with --resume continues"
            )
            failure.code = exit_code(error)
            raise failure from None
        begun.add(study.kept_in)
        console.say(f"{study.name}: {clock.monotonic() - started:.0f} s")
        print_path(out / f"{study.name}.md")
