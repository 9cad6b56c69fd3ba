"""The options of the commands, each declared once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_type_hints

import typer

from dfi._parameters import COMMON, LEARNERS, LOSSES, TRANSPORTS

if TYPE_CHECKING:
    from dfi.methods.stages import ExplainRows

Command = Callable[..., None]

EPSILONS = "0,0.01,0.1,0.5,1"

_reading = partial(typer.Option, rich_help_panel="Reading")
_method = partial(typer.Option, rich_help_panel="Method")
_running = partial(typer.Option, rich_help_panel="Running and writing")


def _meaning(parameter: str) -> str:
    """Return the first sentence of a parameter's description, for help."""
    text = COMMON[parameter].text.partition(". ")[0].rstrip(".")
    return text[0].lower() + text[1:]


Missing = Literal["indicator", "error", "drop"]
Dates = Literal["days", "parts", "drop"]
Numbers = Literal["plain", "marked", "text"]
Decimal = Literal[".", ","]
Dependence = Literal["auto", "none"]
UnitsKind = Literal["columns", "groups"]
ScoreForm = Literal["auto", "extrapolated", "cross", "calibrated", "loco", "cpi"]
Task = Literal["auto", "classification", "regression", "survival"]
Measure = Literal["rmst", "probability", "distribution"]
Space = Literal["attributed", "latent", "group"]


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


After = Annotated[
    str, typer.Argument(help="the later table, with the same columns", show_default=False)
]
RowId = Annotated[
    str | None,
    _reading("--id", help="column that names rows: those in both tables are the same unit"),
]
FailOnChange = Annotated[
    bool, _running("--fail-on-change", help="exit with code 6 if a change was found")
]
Alpha = Annotated[
    float, _method(min=0.0, max=1.0, help="largest p-value of any change that counts as a change")
]
LeastChange = Annotated[
    float,
    _method(
        min=0.0, help="smallest change that counts, among those with an adjusted p of at most alpha"
    ),
]
Groups = Annotated[
    str | None, _reading(help="table of groups: columns feature and group, or a 0/1 table")
]

RowsToExplain = Annotated[
    str,
    _method(
        help="rows to explain: a number, all, auto (as many as the precision requires), or "
        "default (all up to 20,000, auto beyond)"
    ),
]
MaxSeconds = Annotated[float | None, _method(help="explain no further rows after this time")]
KeepRows = Annotated[
    bool,
    _method("--keep-rows", help="keep every row's influence values of a table beyond 20,000 rows"),
]
FitRows = Annotated[
    int | None,
    _method(help="rows to fit models on; all by default, or 200,000 if files are read in parts"),
]
KeptShare = Annotated[
    float | None,
    _method(
        help="also list features that are enough for this share of the signal, e.g. 0.95, with "
        "90 % confidence"
    ),
]
Interactions = Annotated[
    bool,
    _method(
        "--interactions",
        help="show which features act together, in interactions.csv and the report",
    ),
]
Split = Annotated[
    bool,
    _method(
        "--split",
        help="decompose shares into unique, shared and interaction parts, in split.csv and the "
        "report",
    ),
]
ShownRows = Annotated[
    int | None,
    _method(
        "--rows",
        help="number of single rows in the report and the result file, with contributions; both "
        "then contain their values",
    ),
]
Methods = Annotated[str, _method(help="all, or names separated by commas")]
Transports = Annotated[
    str | None,
    _method(
        "--transports",
        help="names of transports, separated by commas; gaussian,copula,brenier by default",
    ),
]
Epsilons = Annotated[
    str | None,
    _method(help=f"values of epsilon, separated by commas; {EPSILONS} by default with --solved"),
]
Solved = Annotated[
    bool, _method("--solved", help="epsilons of entropic transport solved on the rows")
]
Transport = Annotated[
    str,
    _method(
        help=f"how features are disentangled: {', '.join(TRANSPORTS)}",
        autocompletion=_names(TRANSPORTS),
    ),
]
Epsilon = Annotated[float | None, _method(min=0.0, help="entropy weight of the transport")]
Components = Annotated[
    Dependence | None,
    _method(
        help="auto: columns without proven dependence share nothing; none: every sample "
        "correlation counts; the transport's own default otherwise"
    ),
]
Repeats = Annotated[
    int | None,
    _method(
        min=1,
        help="random splits to average scores over; by default 3 for the model auto with 5 folds "
        "and up to 5,000 rows, 5 if groups are units, otherwise 1",
    ),
]
Form = Annotated[
    ScoreForm,
    _method(
        help="estimator of the scores; auto: extrapolated for the model auto and 200 to 5,000 "
        "rows, otherwise cross; cpi for a fitted model, or loco if the loss is not a square"
    ),
]


def _folder(text: str) -> Path:
    """Return the folder of outputs; an empty name, of an unset variable, is not this folder."""
    if not text:
        raise typer.BadParameter("it is empty; name a folder, or . for this one")
    return Path(text)


Out = Annotated[
    Path | None,
    _running("--out", "-o", help="folder for the outputs", parser=_folder, metavar="<path>"),
]
Jobs = Annotated[int | None, _running("--jobs", "-j", help="parallel tasks; -1 for all cores")]
Quiet = Annotated[bool, _running("--quiet", "-q", help="print only warnings and errors")]
AsJson = Annotated[bool, _running("--json", help="print one JSON object for machines")]
Force = Annotated[bool, _running("--force", "-f", help="replace existing outputs")]
Debug = Annotated[bool, _running("--debug", help="show the traceback of an error")]

Top = Annotated[int, typer.Option(min=1, help="features to print")]
Columns = Annotated[int, typer.Option("--top", min=1, help="columns and remarks to print")]
Result = Annotated[Path, typer.Argument(help="a .dfi file, or a folder with result.dfi")]
ScoreSpace = Annotated[Space, typer.Option("--space", help="which scores")]
Page = Annotated[
    Path | None, typer.Option("--out", "-o", help="the page; by default next to the result")
]
Title = Annotated[str | None, typer.Option(help="headline of the page")]
OutcomeName = Annotated[str | None, typer.Option("--target", help="name of the outcome")]
DemoFolder = Annotated[Path, typer.Option("--out", "-o", help="folder for the report")]

Study = Annotated[str, typer.Argument(help="a figure or table, or all")]
Full = Annotated[
    bool,
    typer.Option("--full/--quick", help="the paper's sizes, or reduced ones that take minutes"),
]
PaperFolder = Annotated[
    Path, typer.Option("--out", "-o", help="folder for tables, figures and pages")
]
Resume = Annotated[bool, typer.Option("--resume", help="resume an earlier run")]
Seeds = Annotated[int | None, typer.Option(min=1, help="replications, if not the paper's number")]
RefitSeeds = Annotated[
    int | None, typer.Option(min=1, help="replications of methods that refit or draw")
]
RefitTrees = Annotated[int | None, typer.Option(min=1, help="trees of forests that are refitted")]
PaperData = Annotated[
    Path | None, typer.Option("--data", help="folder of the HIV-1 data; else DFI_DATA")
]


@dataclass(frozen=True)
class Request:
    """The options that explaining, comparing and varying the transport share."""

    data: str = typer.Argument(
        ...,
        help="CSV, TSV, Parquet, Arrow/Feather or JSON lines, also packed (gzip, bzip2, xz, zstd); "
        "- for standard input; a folder or a quoted pattern of Parquet files",
        show_default=False,
    )
    target: str = _reading(
        ...,
        "--target",
        "-y",
        "--time-to",
        help="column to explain; with --event, the time to the event",
    )
    event: str | None = _reading(
        None, help="column that says whether the event was observed or the row censored"
    )
    horizon: str | None = _reading(None, help="how far to look ahead; several separated by commas")
    measure: Measure | None = _reading(
        None, help="rmst or probability of times to an event; distribution: spread and tails too"
    )
    task: Task = _reading(
        "auto", help="whether whole numbers are classes or quantities; auto: judged by their values"
    )
    pos_label: str | None = _reading(None, help=_meaning("pos_label"))
    loss: str = _method(
        "auto",
        help=f"the loss behind the scores: {', '.join(LOSSES)}; auto: squared-error for "
        "quantities, brier for classes",
        autocompletion=_names(LOSSES),
    )
    groups: Groups = None
    units: UnitsKind = _reading(
        "columns", help="groups: each is disentangled from the others and scored as a whole"
    )
    drop: list[str] | None = _reading(None, help="columns to leave out, separated by commas")
    weights: str | None = _reading(None, help=f"column of {_meaning('sample_weight')}")
    frequency_weights: str | None = _reading(None, help=f"column of {_meaning('frequency_weight')}")
    time: str | None = _reading(
        None, help="column that orders the rows: models are fitted on the past, errors are HAC"
    )
    clusters: str | None = _reading(
        None, help="column of clusters: they stay together, errors are robust"
    )
    missing: Missing = _reading(
        "indicator",
        help="missing values of features: part of the feature, an error, or rows to leave out",
    )
    na_values: list[str] | None = _reading(
        None, help="further marks of missing values, separated by commas"
    )
    categorical: list[str] | None = _reading(
        None,
        help="columns of numbers to treat as classes, separated by commas; --numbers text does "
        "so for all text that looks like numbers",
    )
    dates: Dates | None = _reading(
        None,
        help="dates and times of features: days since 1970 (the default), their parts (year, "
        "month, ...) as one unit, or left out",
    )
    numbers: Numbers = _reading(
        "plain",
        help="numbers as text: read if there is one way to (plain), also 17,000 as 17000 (marked), "
        "or all kept as levels (text); --categorical names single columns",
    )
    decimal: Decimal = _reading(".", help="decimal mark of CSV and TSV")
    max_levels: int | None = _reading(
        None,
        min=2,
        help="number of levels to keep per category, the most frequent; the others are merged",
    )
    file_format: str | None = _reading(
        None,
        "--format",
        help="csv, tsv, parquet, arrow, feather or jsonl, if the name does not say",
    )
    encoding: str = _reading("utf-8", help="encoding of CSV, TSV and JSON lines")
    max_unpacked: int | None = _reading(
        None,
        min=1,
        help="megabytes that a packed table may take; by default 16 and 20 times its size",
    )
    model: str = _method(
        "auto",
        "--model",
        "-m",
        help=f"{', '.join(LEARNERS)}, or a .joblib file",
        autocompletion=_names(LEARNERS),
    )
    trust_model: bool = _method(
        False, "--trust-model", help="allow a .joblib file to be loaded: it runs code"
    )
    folds: int = _method(5, min=2, help="folds of cross-fitting")
    level: float = _method(0.95, help=_meaning("level"))
    seed: int = _method(0, help=_meaning("random_state"))
    out: Out = None
    jobs: Jobs = None
    quiet: Quiet = False
    as_json: AsJson = False
    force: Force = False
    debug: Debug = False

    @property
    def roles(self) -> dict[str, str | None]:
        """The columns that are not features, by the option that names them."""
        return {
            "target": self.target,
            "event": self.event,
            "weights": self.weights,
            "frequency-weights": self.frequency_weights,
            "time": self.time,
            "clusters": self.clusters,
        }


def with_request(*, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Let a command take the options of a :class:`Request`, and hand them over as one."""
    hints = get_type_hints(Request, include_extras=True)
    shared = {field.name: field for field in fields(Request) if field.name not in without}

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        taken = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[name],
            )
            for name, field in shared.items()
        ]
        taken += [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in own.items()
            if name != "request"
        ]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            request = Request(**{name: values.pop(name) for name in shared})
            command(request=request, **values)

        # typer reads both
        run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in taken}
        return run

    return decorate


def split_names(names: list[str] | None) -> list[str]:
    return [part.strip() for entry in names or [] for part in entry.split(",") if part.strip()]


def rows_to_explain(text: str) -> ExplainRows:
    """Return what ``--explain-rows`` says; other words are left for the library to refuse."""
    if text == "all":
        return None
    if text.replace(",", "").isdecimal():
        return int(text.replace(",", ""))
    return cast("ExplainRows", text)
