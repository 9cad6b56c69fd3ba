"""What the commands that compute have in common: read, compute, write."""

from __future__ import annotations

import io
import json
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import typer

from dfi.cli.failures import INPUT, REFUSED, Failure
from dfi.cli.models import resolve_model
from dfi.cli.selection import select, split_names
from dfi.cli.tables import read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfi.cli.console import Console
    from dfi.cli.panels import Fitting, Reading, Writing
    from dfi.cli.selection import Selection
    from dfi.results.importance import Importance


@dataclass(frozen=True)
class Inputs:
    """What was read: the rows, the groups and the model."""

    rows: Selection
    groups: pl.DataFrame | dict[str, list[str]] | None
    model: Any
    fitted: bool
    weight_kind: str = "auto"


def read_inputs(reading: Reading, fitting: Fitting, console: Console) -> Inputs:
    """Read everything that a computation needs, the cheap things first."""
    if reading.weights is None and reading.weight_kind.value != "auto":
        raise Failure(
            f"--weight-kind {reading.weight_kind.value} says what weights mean, and there are "
            "none: name their column with --weights",
            REFUSED,
        )
    model, fitted = resolve_model(fitting.model, trust=fitting.trust_model, console=console)
    groups = None if reading.groups is None else read_groups_file(reading.groups)
    console.say(f"reading {reading.data if reading.data != '-' else 'standard input'}")
    rows = select(
        read_file(reading.data, file_format=reading.file_format, encoding=reading.encoding),
        target=reading.target,
        drop=split_names(reading.drop),
        weights=reading.weights,
        time=reading.time,
        row_groups=reading.cv_groups,
        folds=fitting.folds,
        missing=reading.missing.value,
        console=console,
    )
    return Inputs(rows, groups, model, fitted, reading.weight_kind.value)


def call_arguments(
    inputs: Inputs, fitting: Fitting, writing: Writing, console: Console
) -> dict[str, Any]:
    """Return the arguments that explaining, comparing and varying the transport share."""
    rows = inputs.rows
    if inputs.fitted and rows.row_groups is not None:
        raise Failure("--cv-groups splits rows for fitting; this model is fitted already", REFUSED)
    return {
        "X": rows.features,
        "y": rows.target,
        "estimator": inputs.model,
        "groups": inputs.groups,
        "cv": "prefit" if inputs.fitted else rows.cv,
        "sample_weight": rows.weights,
        "weight_kind": inputs.weight_kind,
        "cv_groups": rows.row_groups,
        "level": fitting.level,
        "random_state": fitting.seed,
        "n_jobs": writing.jobs,
        "progress": console.progress,
    }


def read_groups_file(path: str) -> Any:
    """Return groups from a table, or from a JSON object ``{group: [features]}``."""
    if path.lower().endswith(".json"):
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}", INPUT) from None
        except ValueError as error:
            raise Failure(f"{path} is not JSON: {error}", INPUT) from None
        if not isinstance(found, dict):
            raise Failure(f"{path} must be a JSON object of groups and their features", INPUT)
        return found
    frame = read_file(path)
    text = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    if frame.width == 2 and len(text) == 2:
        # Two columns of text: features and their groups; a feature may be in several.
        members: dict[str, list[str]] = {}
        for feature, group in frame.iter_rows():
            if feature is not None and group is not None:
                members.setdefault(group, []).append(feature)
        return members
    return frame


def with_call(result: Importance, call: str, target: str) -> Importance:
    """Record the command and the outcome's name in the specification of a result."""
    spec = {**result.spec, "call": call, "target": target}
    latent = None if result.latent is None else replace(result.latent, spec=spec)
    return replace(result, spec=spec, latent=latent)


UNRECORDED = ("out", "jobs", "quiet", "as_json", "force", "debug", "top")
"""Options that do not change the numbers."""


def command_text(context: typer.Context) -> str:
    """Return the command as one would type it, files by their name only: folders are private."""
    parts = ["dfi", str(context.info_name)]
    for parameter in context.command.params:
        name = parameter.name
        source = context.get_parameter_source(name) if name else None
        if name is None or name in UNRECORDED or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        values = value if isinstance(value, (list, tuple)) else [value]
        texts = [_shown(item) for item in values]
        if parameter.param_type_name == "argument":
            parts[2:2] = texts
        elif value is True:
            parts.append(max(parameter.opts, key=len))
        else:
            for text in texts:
                parts += [max(parameter.opts, key=len), text]
    return shlex.join(parts)


def _shown(value: object) -> str:
    text = str(getattr(value, "value", value))
    return Path(text).name if "/" in text or "\\" in text else text


def write_tables(frame: Any, folder: Path, stem: str) -> None:
    """Write a table as CSV and Parquet."""
    table = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    (folder / f"{stem}.csv").write_bytes(_csv(table))
    table.write_parquet(folder / f"{stem}.parquet")


def _csv(table: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    table.write_csv(stream)
    return stream.getvalue()


def write_results(
    results: Mapping[str, Importance], folder: Path, *, call: str, target: str
) -> None:
    """Write each of several results to a file named after its label."""
    for label, result in results.items():
        name = re.sub(r"[^\w.]+", "-", label).strip("-")
        with_call(result, call, target).save(folder / f"{name}.dfi")


def print_json(summary: dict[str, Any]) -> None:
    """Print one object for machines."""
    typer.echo(json.dumps(summary, ensure_ascii=False, allow_nan=False))
