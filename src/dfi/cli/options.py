"""The options that commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from dfi._models.learners import LEARNERS
from dfi.transports import TRANSPORTS

# typer reads these annotations at run time, where Optional is what its older versions understand
# ruff: noqa: UP045

_INPUT, _RUN, _OUTPUT = "Reading", "Method", "Running and writing"


class Missing(StrEnum):
    """What happens to rows with missing values."""

    error = "error"
    drop = "drop"


class Dependence(StrEnum):
    """How dependence components are found."""

    auto = "auto"
    none = "none"


class WeightKind(StrEnum):
    """What row weights mean."""

    auto = "auto"
    frequency = "frequency"
    sampling = "sampling"


def _models(incomplete: str) -> list[str]:
    return [name for name in LEARNERS if name.startswith(incomplete)]


def _transports(incomplete: str) -> list[str]:
    return [name for name in TRANSPORTS if name.startswith(incomplete)]


Data = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, Parquet, Arrow/Feather or JSON lines, also gzipped; - for standard input",
        show_default=False,
    ),
]
Target = Annotated[
    str,
    typer.Option("--target", "-y", help="column to explain", rich_help_panel=_INPUT),
]
Drop = Annotated[
    Optional[list[str]],
    typer.Option(help="columns to leave out, separated by commas", rich_help_panel=_INPUT),
]
Format = Annotated[
    Optional[str],
    typer.Option(
        "--format",
        help="csv, tsv, parquet, arrow, feather or jsonl, where the name does not tell",
        rich_help_panel=_INPUT,
    ),
]
Encoding = Annotated[
    str, typer.Option(help="encoding of CSV, TSV and JSON lines", rich_help_panel=_INPUT)
]
MissingRows = Annotated[
    Missing,
    typer.Option("--missing", help="rows with missing values", rich_help_panel=_INPUT),
]
Groups = Annotated[
    Optional[str],
    typer.Option(
        help="table of groups: columns feature and group, or a 0/1 table",
        rich_help_panel=_INPUT,
    ),
]
Weights = Annotated[
    Optional[str], typer.Option(help="column of row weights", rich_help_panel=_INPUT)
]
WhatWeightsMean = Annotated[
    WeightKind,
    typer.Option(
        "--weight-kind",
        help="frequency: each row stands for so many equal ones; sampling: survey weights; "
        "auto: whole numbers are counts",
        rich_help_panel=_INPUT,
    ),
]
Time = Annotated[
    Optional[str],
    typer.Option(
        help="column that orders the rows: models are fitted on the past", rich_help_panel=_INPUT
    ),
]
RowGroups = Annotated[
    Optional[str],
    typer.Option(
        "--cv-groups",
        help="column of labels: rows of one label stay together",
        rich_help_panel=_INPUT,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help=f"{', '.join(LEARNERS)}, or a .joblib file",
        autocompletion=_models,
        rich_help_panel=_RUN,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust-model",
        help="allow a .joblib file to be loaded: it runs code",
        rich_help_panel=_RUN,
    ),
]
Transport = Annotated[
    str,
    typer.Option(
        help=f"how features are disentangled: {', '.join(TRANSPORTS)}",
        autocompletion=_transports,
        rich_help_panel=_RUN,
    ),
]
Epsilon = Annotated[
    Optional[float],
    typer.Option(min=0.0, help="entropy weight of the transport", rich_help_panel=_RUN),
]
Components = Annotated[
    Optional[Dependence],
    typer.Option(
        help="auto: columns of no proven dependence share nothing; none: every sample correlation "
        "counts; the transport's own default otherwise",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]
Folds = Annotated[int, typer.Option(min=2, help="folds of cross-fitting", rich_help_panel=_RUN)]
Repeats = Annotated[int, typer.Option(min=1, help="repeated random splits", rich_help_panel=_RUN)]
Level = Annotated[float, typer.Option(help="level of the intervals", rich_help_panel=_RUN)]
Seed = Annotated[int, typer.Option(help="seed of splits, fits and draws", rich_help_panel=_RUN)]
Out = Annotated[
    Optional[Path],
    typer.Option("--out", "-o", help="folder for the outputs", rich_help_panel=_OUTPUT),
]
Jobs = Annotated[
    Optional[int],
    typer.Option("--jobs", "-j", help="parallel tasks; -1 for all cores", rich_help_panel=_OUTPUT),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="say only warnings and errors", rich_help_panel=_OUTPUT),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="print one JSON object for machines", rich_help_panel=_OUTPUT)
]
Force = Annotated[
    bool, typer.Option("--force", "-f", help="replace existing outputs", rich_help_panel=_OUTPUT)
]
Debug = Annotated[
    bool, typer.Option("--debug", help="show the traceback of an error", rich_help_panel=_OUTPUT)
]
Top = Annotated[int, typer.Option(min=1, help="features to print")]
