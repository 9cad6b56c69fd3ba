"""Panels of options that commands share, each declared once as a dataclass."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfi.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Reading:
    """What a command reads."""

    data: options.Data
    target: options.Target
    groups: options.Groups = None
    drop: options.Drop = None
    weights: options.Weights = None
    weight_kind: options.WhatWeightsMean = options.WeightKind.auto
    time: options.Time = None
    cv_groups: options.RowGroups = None
    missing: options.MissingRows = options.Missing.error
    file_format: options.Format = None
    encoding: options.Encoding = "utf-8"

    @property
    def stem(self) -> str:
        """The name of the data, without folder and endings."""
        return "data" if self.data == "-" else Path(self.data).name.split(".")[0] or "data"


@dataclass(frozen=True)
class Fitting:
    """The regression, its folds and the level of what follows from it."""

    model: options.Model = "auto"
    trust_model: options.Trust = False
    folds: options.Folds = 5
    level: options.Level = 0.95
    seed: options.Seed = 0


@dataclass(frozen=True)
class Writing:
    """How a command runs, and where it writes."""

    out: options.Out = None
    jobs: options.Jobs = None
    quiet: options.Quiet = False
    as_json: options.AsJson = False
    force: options.Force = False
    debug: options.Debug = False


def with_panels(command: Callable[..., Any]) -> Callable[..., Any]:
    """Show typer the options of a panel where a command takes the panel as one argument."""
    panels: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        shown = [parameter]
        if is_dataclass(parameter.annotation):
            panels[parameter.name] = parameter.annotation
            declared = inspect.signature(panels[parameter.name], eval_str=True).parameters
            shown = list(declared.values())
        # by keyword alone: an option with a default may then stand before one without
        parameters += [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in shown]

    @functools.wraps(command)
    def flat(**given: Any) -> Any:
        for name, panel in panels.items():
            given[name] = panel(**{option.name: given.pop(option.name) for option in fields(panel)})
        return command(**given)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {part.name: part.annotation for part in parameters}
    return flat
