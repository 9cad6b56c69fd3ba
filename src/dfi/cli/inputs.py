"""From the options of a command to the arguments of a call: the table, the model, the transport."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfi._checks import did_you_mean
from dfi._parameters import LEARNERS, LOSSES
from dfi.cli import options
from dfi.cli.console import ColumnsRefused, Console, Refused, Unreadable
from dfi.cli.options import Request, split_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from dfi._types import TransportLike
    from dfi.cli.roles import Selection

    Aside = tuple[pl.Series, str]
    """A column that is refused, and why."""

MODEL_FILES = (".joblib", ".pkl", ".pickle")


def read_arguments(
    request: Request,
    console: Console,
    doing: str,
    *,
    refits: bool = False,
    parts: bool = False,
    aside: dict[str, Aside] | None = None,
) -> dict[str, Any]:
    if request.loss not in LOSSES:
        raise _unknown("loss", request.loss, LOSSES)
    model, fitted = resolve_model(request, console)
    from dfi.cli.delimited import Spelling
    from dfi.cli.reading import read_file, read_groups_file, scan_files
    from dfi.cli.roles import select, select_lazily

    groups = None if request.groups is None else read_groups_file(request.groups)
    console.say(f"reading {'standard input' if request.data == '-' else request.data}")
    rest = {
        "estimator": model,
        "feature_groups": groups,
        "units": request.units,
        "missing": request.missing,
        "level": request.level,
        "random_state": request.seed,
        "n_jobs": request.jobs,
        "progress": console.progress,
    }
    lazy = scan_files(request.data, file_format=request.file_format) if parts else None
    if lazy is not None:
        console.say(f"{doing}: the rows are read in parts")
        return {
            "X": select_lazily(lazy, request, console),
            "y": request.target,
            **_about_outcome(request),
            "cv": "prefit" if fitted else request.folds,
            "sample_weight": request.weights,
            "frequency_weight": request.frequency_weights,
            **rest,
        }
    spelling = Spelling.of(request)
    frame = read_file(
        request.data,
        file_format=request.file_format,
        spelling=spelling,
        max_unpacked=request.max_unpacked,
        na_values=split_names(request.na_values),
        categorical=split_names(request.categorical),
    )
    rows, roles = None, set(request.roles.values())
    while rows is None:
        try:
            rows = select(frame, request, console)
        except ColumnsRefused as error:
            features = error.reasons.keys() - roles
            if aside is None or len(features) < len(error.reasons):
                raise
            aside |= {name: (frame[name], text) for name, text in error.reasons.items()}
            frame = frame.drop(features)
            if not set(frame.columns) - roles - set(split_names(request.drop)):
                raise
    if rows.blocks:
        rest |= _blocks_of_parts(rows, groups, request)
    if fitted and refits:
        raise Refused(
            f"{request.model} is fitted already, but comparing methods needs refits without "
            "features: give an unfitted model or a name"
        )
    (n, d), others = rows.features.shape, rows.others
    console.say(f"{doing}: {n} rows, {d} feature{'s' * (d != 1)}")
    return {
        "X": rows.features,
        "y": rows.target.to_frame().with_columns(others["event"])
        if "event" in others
        else rows.target,
        **_about_outcome(request),
        "cv": "prefit" if fitted else rows.cv,
        "sample_weight": others.get("weights"),
        "frequency_weight": others.get("frequency-weights"),
        "clusters": others.get("clusters"),
        **rest,
    }


def _blocks_of_parts(
    rows: Selection, groups: pl.DataFrame | dict[str, list[str]] | None, request: Request
) -> dict[str, object]:
    """Return groups in which the parts of a date are one unit, and how they are scored."""
    from dfi.cli.columns import block_groups

    if groups is None:
        return {
            "feature_groups": block_groups(rows.features.columns, rows.blocks),
            "units": "groups",
        }
    if not isinstance(groups, dict) or request.units != "groups":
        raise Refused(
            "--dates parts makes one unit of the parts of a date, but --groups adds up columns: "
            "use --dates days, or --units groups with a group for every feature"
        )
    known = {
        group: [part for name in members for part in rows.blocks.get(name, [name])]
        for group, members in groups.items()
    }
    grouped = {name for members in groups.values() for name in members}
    alone = {name: parts for name, parts in rows.blocks.items() if name not in grouped}
    return {"feature_groups": {**known, **alone}}


def _about_outcome(request: Request) -> dict[str, object]:
    said: dict[str, object] = {}
    if request.event is not None or request.horizon is not None:
        said |= {"task": "survival", "horizon": _horizons(request.horizon)}
    if request.measure is not None:
        said["target"] = request.measure
    if request.task != "auto":
        said["task"] = request.task
    if request.pos_label is not None:
        said["pos_label"] = request.pos_label
    if request.loss != "auto":
        said["loss"] = request.loss
    return said


def _horizons(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise Refused(f"--horizon {text} is not a time, or several separated by commas") from None


def _unknown(what: str, name: str, known: Sequence[str], more: str = "") -> Refused:
    hint = did_you_mean(name, known).removeprefix(";").lstrip()
    return Refused(
        f"unknown {what} {name!r}; {hint + ' ' * bool(hint)}known are {', '.join(known)}{more}"
    )


def resolve_transport(
    transport: str, epsilon: float | None, components: options.Dependence | None
) -> TransportLike:
    settings: dict[str, object] = {}
    if epsilon is not None:
        settings["epsilon"] = epsilon
    if components is not None:
        settings["components"] = "auto" if components == "auto" else None
    if not settings:
        return transport
    from dfi.transports import resolve_transport

    kind = type(resolve_transport(transport))
    known = inspect.signature(kind).parameters
    for option in settings:
        if option not in known:
            raise Refused(f"the transport {transport!r} has no --{option}")
    return kind(**settings)


def resolve_model(request: Request, console: Console) -> tuple[object, bool]:
    model = request.model
    if model in LEARNERS:
        return model, False
    if not model.lower().endswith(MODEL_FILES):
        raise _unknown("model", model, LEARNERS, ", or a .joblib file")
    if not Path(model).is_file():
        raise Unreadable(f"there is no file {model}")
    if not request.trust_model:
        raise Refused(
            f"loading {model} runs the code stored in it: if you trust whoever wrote it, "
            "add --trust-model"
        )
    console.warn(f"loading {model} runs the code that is stored in it")
    import joblib

    try:
        loaded = joblib.load(model)
    except (ImportError, AttributeError) as error:
        raise Unreadable(f"{model} needs code that is not installed here: {error}") from error
    except Exception as error:
        # bytes that are no pickle make its reader raise almost anything
        raise Unreadable(f"{model} is not a model that joblib can load ({error})") from error
    if not any(hasattr(loaded, name) for name in ("predict", "predict_proba", "run")):
        raise Refused(f"{model} holds a {type(loaded).__name__}, which has no predict")
    return loaded, _is_fitted(loaded)


def _is_fitted(model: object) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError:
        # of models of other libraries nothing is known, and they are not saved to be fitted
        return not hasattr(model, "__sklearn_tags__")
    except (TypeError, AttributeError):  # not a scikit-learn estimator
        return True
    return True
