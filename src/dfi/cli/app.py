"""All commands in one application: explain, compare, sensitivity and change compute."""

from __future__ import annotations

import glob
import re
import shlex
import time as clock
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dfi
from dfi._files import is_pattern
from dfi._loading import uncollected
from dfi.cli import options
from dfi.cli.console import (
    CHANGED,
    Console,
    Refused,
    Unreadable,
    Unwritable,
    guarded,
    leading,
    print_changes,
    print_json,
    print_lines,
    print_path,
    print_table,
)
from dfi.cli.inputs import read_arguments, resolve_transport
from dfi.cli.options import Request, split_names, with_request
from dfi.cli.outputs import OutputFolder, refuse_inputs
from dfi.cli.reproduce import reproduce

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

EXPLAIN_FILES = ("importance.csv", "importance.parquet", "result.dfi", "report.html", "log.txt")
OLDER = {"groups": "groups", "classes": "several classes", "keep": "keep-list"}
"""Tables that an earlier run may have left, and what this one then lacks."""
COMPARE_FILES = ("comparison.csv", "comparison.parquet", "report.html")
SENSITIVITY_FILES = ("sensitivity.csv", "sensitivity.parquet", "ranks.png", "report.html")
CHANGE_FILES = (
    "change.csv", "change.parquet", "change.json", "before.dfi", "after.dfi", "report.html",
)  # fmt: skip
RESULTS = ("*.dfi",)
"""One for each label."""
UNRECORDED = ("out", "jobs", "quiet", "as_json", "force", "debug", "top", "fail_on_change")
"""Options that do not change the numbers."""

app = typer.Typer(
    name="dfi",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def table_files(stem: str) -> tuple[str, str]:
    return f"{stem}.csv", f"{stem}.parquet"


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
    """Show which correlated features carry the signal, and how certain that is.

    Exit codes: 0 done, 1 defect, 2 wrong usage, 3 input not readable,
    4 data or options refused, 5 output not writable, 6 a change was found
    (only with change --fail-on-change), 130 interrupted, 143 terminated.
    """


class Run:
    """One command from its options to its last line."""

    def __init__(
        self,
        context: typer.Context,
        request: Request,
        ending: str,
        files: Sequence[str],
        *,
        perhaps: Sequence[str] = (),
        also: Sequence[str] = (),
    ) -> None:
        self.request, self.console = request, Console(request.quiet)
        self._context, self._started = context, clock.monotonic()
        path = Path(request.data)
        name = path.name
        if is_pattern(request.data):
            name = re.sub(r"[*?\[\]]", "", path.parent.name if glob.has_magic(name) else name)
        stem = "data" if request.data == "-" else (name.split(".")[0] or "data")
        self.out = request.out or Path(f"dfi-{stem}{ending}")
        self.folder = OutputFolder(
            self.out,
            files,
            force=request.force,
            perhaps=perhaps,
            inputs=(request.data, *also, request.groups, request.model),
        )

    @property
    def seconds(self) -> float:
        return clock.monotonic() - self._started

    def read(self, doing: str, *, refits: bool = False, parts: bool = False) -> dict[str, Any]:
        return read_arguments(self.request, self.console, doing, refits=refits, parts=parts)

    def read_table(self, data: str, row_id: str | None) -> tuple[dict[str, Any], pl.Series | None]:
        """Return the arguments of :func:`dfi.explain` for a table, and the names of its rows."""
        request = replace(self.request, data=data)
        doing = f"explaining {request.target!r} of {data}"
        arguments = read_arguments(request, self.console, doing)
        if row_id is None:
            return arguments, None
        X = arguments["X"]
        if row_id not in X.columns:
            raise Refused(f"--id: {data} has no column {row_id!r}")
        return {**arguments, "X": X.drop(row_id)}, X.get_column(row_id)

    def named(self, result: dfi.Importance) -> dfi.Importance:
        """Record the command and the outcome's name in the specification of a result."""
        spec = {**result.spec, "call": command_text(self._context), "target": self.request.target}
        latent = None if result.latent is None else replace(result.latent, spec=spec)
        return replace(result, spec=spec, latent=latent)

    def write_results(self, results: Mapping[str, dfi.Importance], folder: Path) -> None:
        for label, result in results.items():
            name = re.sub(r"[^\w.]+", "-", label).strip("-")
            self.named(result).save(folder / f"{name}.dfi")

    def end(self, findings: dict[str, object], show: Callable[[], None], line: str) -> None:
        """Print one JSON object, or the findings and the last line."""
        if self.request.as_json:
            end = {"warnings": self.console.said, "seconds": round(self.seconds, 3)}
            print_json({"outputs": self.folder.outputs(), **findings, **end})
            return
        if not self.request.quiet:
            show()
        self.console.say(line)
        print_path(self.out / "report.html")


@guarded
@with_request()
def explain(
    context: typer.Context,
    request: Request,
    transport: options.Transport = "gaussian",
    epsilon: options.Epsilon = None,
    components: options.Components = None,
    form: options.Form = "auto",
    repeats: options.Repeats = None,
    explain_rows: options.RowsToExplain = "default",
    max_seconds: options.MaxSeconds = None,
    keep_rows: options.KeepRows = False,
    fit_rows: options.FitRows = None,
    rows_shown: options.ShownRows = None,
    keep: options.KeptShare = None,
    interactions: options.Interactions = False,
    split: options.Split = False,
    top: options.Top = 10,
) -> None:
    """Explain a column of a table by its other columns.

    The target may be a quantity, a count, or labels of two or more classes. Writes importance.csv,
    importance.parquet, result.dfi, report.html and log.txt into a folder, for three classes and
    more also classes.csv and classes.parquet, with --keep, --interactions and --split a table of
    that name (.csv and .parquet).
    """
    summed = request.groups is not None and request.units == "columns"
    asked = {
        "groups": summed, "keep": keep is not None, "interactions": interactions, "split": split
    }  # fmt: skip
    files = [name for stem, wanted in asked.items() if wanted for name in table_files(stem)]
    run = Run(context, request, "", [*EXPLAIN_FILES, *files], perhaps=table_files("classes"))
    console = run.console
    with console.warnings():
        arguments = run.read(f"explaining {request.target!r}", parts=True)
        from dfi.cli.outputs import write_tables
        from dfi.methods.stages import answers_interrupts
        from dfi.report.page import rows_of_page
        from dfi.report.sections import section_summaries
        from dfi.results.text import everyday_text
        from dfi.results.views import unit_rows
        from dfi.results.words import quality_text, sample_text

        answers_interrupts.set(True)
        result = run.named(
            dfi.explain(
                transport=resolve_transport(transport, epsilon, components),
                form=form,
                n_repeats=repeats,
                explain_rows=options.rows_to_explain(explain_rows),
                max_seconds=max_seconds,
                keep_rows=keep_rows,
                fit_rows=fit_rows,
                **arguments,
            )
        )
        answers_interrupts.set(False)
        kept = None if keep is None else result.keep(keep)
        parted = result.split() if split else None
        pairs = result.interactions() if interactions else None
        sections = [section for section in (parted, pairs) if section is not None]
        rows, quality = unit_rows(result), result.quality
        unit = "group" if result.space == "group" else "feature"
        words = result.basis.words
        errors = "" if words == "independent rows" else f", {words}"
        explained = f"{quality.n_rows}"
        if sample_text(result.spec):
            explained += f" of {result.spec['explained_of']}"
            console.say(sample_text(result.spec))
        if (done := everyday_text(result)) is not None:
            console.say(done)
        line = (
            f"explained {explained} rows x {len(rows)} {unit}s, "
            f"{quality_text(quality)}{errors}: {leading(rows)} ({run.seconds:.1f} s) -> {run.out}"
        )
        tables = {"importance": result.table()}
        if result.by_outcome:
            tables["classes"] = result.table(by="outcome")
        if result.default_groups is not None:
            tables["groups"] = result.group().table()
        further = {"keep": kept, "interactions": pairs, "split": parted}
        tables |= {stem: found.table() for stem, found in further.items() if found is not None}
        console.say(f"writing {run.out}")
        with run.folder.filling() as stage:
            for stem, table in tables.items():
                write_tables(table, stage, stem)
            local = None if rows_shown is None else rows_of_page(result, rows_shown)
            result.save(stage / "result.dfi", rows=local)
            page = stage / "report.html"
            dfi.report.Report(result, target=request.target, rows=local, sections=sections).write(
                page
            )
            stamp = datetime.now(UTC).isoformat(timespec="seconds")
            (stage / "log.txt").write_text(f"{stamp} {line}\n", encoding="utf-8")
    written = run.folder.written
    for stem, what in OLDER.items():
        names = [name for name in table_files(stem) if name not in written]
        stale = [name for name in names if (run.out / name).exists()]
        if stale:
            console.warn(f"{' and '.join(stale)} in {run.out} are older: this run has no {what}")

    def show() -> None:
        print_table(result, rows, top=top)
        for answer in (kept, *sections):
            if answer is not None:
                print_lines(repr(answer))

    sampled = ("explained_rows", "explained_of", "why")
    run.end(
        {
            **result_facts(result),
            **{name: result.spec[name] for name in sampled if name in result.spec},
            "standard_errors": words,
            "features": rows,
            **({} if kept is None else {"keep": kept.as_dict()}),
            **section_summaries(sections),
        },
        show,
        line,
    )


@guarded
@with_request()
def compare(context: typer.Context, request: Request, methods: options.Methods = "all") -> None:
    """Compute several importances on the same folds and the same models.

    Writes comparison.csv, comparison.parquet, report.html and one .dfi file per method.
    """
    run = Run(context, request, "-comparison", COMPARE_FILES, perhaps=RESULTS)
    with run.console.warnings():
        arguments = run.read(f"comparing importances of {request.target!r}", refits=True)
        from dfi.cli.outputs import write_tables
        from dfi.results.views import finite, unit_rows

        comparison = dfi.compare(
            methods="all" if methods == "all" else split_names([methods]), **arguments
        )
        results = comparison.results
        run.console.say(f"writing {run.out}")
        with run.folder.filling() as stage:
            write_tables(comparison.table(), stage, "comparison")
            page = stage / "report.html"
            comparison.report(page, target=request.target)
            run.write_results(results, stage)
    r2 = finite(next(iter(results.values())).quality.r2)
    run.end(
        {"methods": {label: unit_rows(result) for label, result in results.items()}, "r2": r2},
        lambda: print_lines(repr(comparison)),
        f"compared {len(results)} results ({run.seconds:.1f} s) -> {run.out}",
    )


@guarded
@with_request()
def sensitivity(
    context: typer.Context,
    request: Request,
    transports: options.Transports = None,
    epsilons: options.Epsilons = None,
    solved: options.Solved = False,
    form: options.Form = "auto",
) -> None:
    """Explain the same fitted models under several transports, or several epsilons.

    Writes sensitivity.csv, sensitivity.parquet, ranks.png, report.html and one .dfi file each.
    """
    names, values = read_grid(transports, epsilons, solved=solved)
    run = Run(context, request, "-sensitivity", SENSITIVITY_FILES, perhaps=RESULTS)
    with run.console.warnings():
        arguments = run.read(f"explaining {request.target!r} under several transports")
        from matplotlib.figure import Figure

        from dfi.cli.outputs import write_tables
        from dfi.results.views import shorten, unit_rows

        settings = dfi.sensitivity(
            transports=names, epsilons=values, solved=solved, form=form, **arguments
        )
        results = settings.results
        title = f"How the answer about {request.target} depends on the transport"
        run.console.say(f"writing {run.out}")
        with run.folder.filling() as stage:
            write_tables(settings.table(), stage, "sensitivity")
            figure = Figure(figsize=(4.0 + 1.1 * len(results), 5.5), layout="constrained")
            dfi.plots.sensitivity(results, ax=figure.subplots())
            figure.suptitle(shorten(title, 70), fontsize=11, parse_math=False)
            figure.savefig(stage / "ranks.png", dpi=120)
            page = stage / "report.html"
            dfi.report.Report(results, title=title, target=request.target).write(page)
            run.write_results(results, stage)
    rows = {label: unit_rows(result) for label, result in results.items()}
    width = max(map(len, results))
    run.end(
        {"settings": rows, "skipped": dict(settings.skipped)},
        lambda: print_lines("\n".join(f"{k:{width}s}  {leading(v)}" for k, v in rows.items())),
        f"explained under {len(results)} settings ({run.seconds:.1f} s) -> {run.out}",
    )


@guarded
@with_request()
def change(
    context: typer.Context,
    request: Request,
    after: options.After,
    row_id: options.RowId = None,
    transport: options.Transport = "gaussian",
    components: options.Components = None,
    form: options.Form = "auto",
    repeats: options.Repeats = None,
    fail_on_change: options.FailOnChange = False,
    alpha: options.Alpha = 0.05,
    least: options.LeastChange = 0.0,
    top: options.Top = 10,
) -> None:
    """Show which features carry more or less than in an earlier table, and why.

    Writes change.csv, change.parquet, change.json, report.html, before.dfi and after.dfi into a
    folder. With --fail-on-change the exit code is 6 where a change was found.
    """
    if request.data == after == "-":
        raise Unreadable("standard input holds one table: name a file for the other")
    run = Run(context, request, "-change", CHANGE_FILES, also=(after,))
    console = run.console
    with console.warnings():
        from dfi._data.frames import ordered_like
        from dfi.cli.outputs import write_tables
        from dfi.report.change import change_rows

        (one, one_ids), (two, two_ids) = (
            run.read_table(table, row_id) for table in (request.data, after)
        )
        two["X"] = ordered_like(two["X"], one["X"])
        before, later = (
            run.named(
                dfi.explain(
                    transport=resolve_transport(transport, None, components),
                    form=form,
                    n_repeats=repeats,
                    **table,
                )
            )
            for table in (one, two)
        )
        ids = None if row_id is None else (one_ids, two_ids)
        found = dfi.change(before, later, ids=ids, rows="auto")
        rows, test = change_rows(found), found.any_change
        changed = test.p <= alpha and (
            least == 0.0
            or any(
                row["p_adj"] is not None and row["p_adj"] <= alpha and abs(row["change"]) >= least
                for row in rows
            )
        )
        if found.reason:
            console.warn(f"covariates and concept cannot be separated: {found.reason}")
        verdict = "a change was found" if changed else "no change was found"
        line = f"{verdict}, p {test.p:.3g} ({run.seconds:.1f} s) -> {run.out}"
        console.say(f"writing {run.out}")
        with run.folder.filling() as stage:
            write_tables(found.table(), stage, "change")
            found.save(stage / "change.json")
            before.save(stage / "before.dfi")
            later.save(stage / "after.dfi")
            found.report(stage / "report.html", target=request.target)
    run.end(
        {"changed": changed, "alpha": alpha, **found.as_dict()},
        lambda: print_changes(rows, level=request.level, top=top),
        line,
    )
    if changed and fail_on_change:
        raise typer.Exit(CHANGED)


def result_facts(result: dfi.Importance) -> dict[str, object]:
    from dfi.results.views import finite

    quality = result.quality
    facts: dict[str, object] = {
        "trust": result.trust.as_dict(),
        "n_rows": quality.n_rows,
        "r2": finite(quality.r2),
        "level": result.level,
        "loss": quality.loss,
        "skill": finite(quality.skill),
        "skill_name": quality.skill_name,
    }
    if quality.auc is not None:
        facts["auc"] = [finite(value) for value in (quality.auc, *quality.auc_interval())]
    return facts


def read_grid(
    transports: str | None, epsilons: str | None, *, solved: bool
) -> tuple[list[str] | None, list[float] | None]:
    if transports is not None and epsilons is not None:
        raise Refused("give --transports or --epsilons, not both")
    if transports is not None:
        return split_names([transports]), None
    if epsilons is None and not solved:
        return None, None
    values = []
    for text in split_names([options.EPSILONS if epsilons is None else epsilons]):
        try:
            values.append(float(text))
        except ValueError:
            raise Refused(f"--epsilons: {text!r} is not a number") from None
    return None, values


def command_text(context: typer.Context) -> str:
    """Return the command as typed, with file names but no folders, which are private."""
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
            parts.append(_option(parameter.opts))
        else:
            for text in texts:
                parts += [_option(parameter.opts), text]
    return shlex.join(parts)


def _option(names: list[str]) -> str:
    return next((name for name in names if name.startswith("--")), names[0])


def _shown(value: object) -> str:
    text = str(getattr(value, "value", value))
    return Path(text).name if "/" in text or "\\" in text else text


def _result_file(path: Path) -> Path:
    return path / "result.dfi" if path.is_dir() else path


def read_result(path: Path) -> dfi.Importance:
    file = _result_file(path)
    try:
        return dfi.load(file)
    except FileNotFoundError:
        raise Unreadable(f"there is no file {file}") from None
    except PermissionError:
        raise Unreadable(f"{file} may not be read: permission denied") from None


def read_groups(path: str | None) -> pl.DataFrame | dict[str, list[str]] | None:
    if path is None:
        return None
    from dfi.cli.reading import read_groups_file

    return read_groups_file(path)


@guarded
@with_request(without=("out", "jobs", "force"))
def doctor(
    request: Request,
    transport: options.Transport = "gaussian",
    epsilon: options.Epsilon = None,
    components: options.Components = None,
    form: options.Form = "auto",
    repeats: options.Repeats = None,
    explain_rows: options.RowsToExplain = "default",
    fit_rows: options.FitRows = None,
    top: options.Columns = 40,
) -> None:
    """Examine a table before anything is fitted: its contents, and what explain will do.

    Takes the options of explain, and ends with code 4 where explain would refuse the table.
    """
    with uncollected():
        from dfi.cli.doctor import run_doctor

    settings = {
        "transport": resolve_transport(transport, epsilon, components),
        "form": form,
        "explain_rows": options.rows_to_explain(explain_rows),
        "n_repeats": repeats,
        "fit_rows": fit_rows,
    }
    run_doctor(request, Console(request.quiet), settings, top)


@guarded
def show(
    result: options.Result,
    space: options.ScoreSpace = "attributed",
    groups: options.Groups = None,
    top: options.Top = 20,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Print the scores of a saved result."""
    scores = read_result(result)
    if groups is not None or space == "group":
        scores = scores.group(read_groups(groups))
    elif space == "latent":
        if scores.latent is None:
            raise Refused(f"{result} holds no latent scores")
        scores = scores.latent
    from dfi.results.file import thaw
    from dfi.results.views import unit_rows
    from dfi.results.words import outcome_of, quality_text

    rows, quality = unit_rows(scores), scores.quality
    if as_json:
        facts = {"space": scores.space, **result_facts(scores)}
        print_json({**facts, "features": rows, "spec": thaw(scores.spec)})
        return
    outcome = outcome_of(scores.spec, scores.by_outcome)
    about = "" if outcome is None or outcome.text is None else f"{outcome.text}; "
    Console(quiet=False).say(f"{about}{quality.n_rows} rows, out-of-fold {quality_text(quality)}")
    print_table(scores, rows, top=top)


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
    refuse_inputs([out], [_result_file(result), groups])
    try:
        page = dfi.report.Report(loaded, title=title, target=target, groups=read_groups(groups))
        written = page.write(out, overwrite=force)
    except FileExistsError:
        raise Unwritable(f"{out} exists already; replace it with --force") from None
    print_path(written)


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


for command in (explain, doctor, compare, sensitivity, change, show, report, demo, reproduce):
    app.command()(command)
