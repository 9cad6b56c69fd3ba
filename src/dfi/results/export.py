"""Exports: result files, Excel, MLflow, plots and pages."""

from __future__ import annotations

import io
import math
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dfi._docstrings import exemplified
from dfi._files import writable, written_whole
from dfi._parameters import InvalidParameterError, validated
from dfi.results import words
from dfi.results.columns import OUTCOMES, UNITS
from dfi.results.file import pack, write_file
from dfi.results.local import pack_local, rows_beside
from dfi.results.numbers import decimals
from dfi.results.questions import Asked
from dfi.results.tables import full_table, order_of, outcome_table
from dfi.results.text import everyday_text, missing_text

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dfi._types import Array, GroupsLike
    from dfi.report import Report
    from dfi.results.columns import Column
    from dfi.results.importance import Importance
    from dfi.results.interactions import Interactions
    from dfi.results.local import LocalAttributions
    from dfi.results.split import Split

_FORMATS = {
    "share": "0.0%",
    "probability": '[<0.001]"<0.001";0.000',
    "rank": "0",
    "statistic": "0.00",
}
_WIDEST = 60
_LONGEST = 250
"""Characters of a metric's name that MLflow takes."""


@exemplified
class Exports(Asked):
    """The exports of an :class:`dfi.Importance`: files, runs, plots, pages."""

    @validated
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        rows: int | LocalAttributions | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the result to a file (a zip of JSON and arrays, no pickle) and return its path.

        Parameters
        ----------
        path : path-like
            Where to write; ``.dfi`` is the customary ending.
        rows : int or LocalAttributions, optional
            Rows whose contributions the file holds, so that :meth:`local` returns them after
            :func:`dfi.load`: a number to draw at random, or what :meth:`local` returned. The file
            then contains values of single rows. By default those that the result was loaded with.

        Examples
        --------
        >>> result.save("result.dfi").name
        'result.dfi'
        >>> dfi.load(result.save("rows.dfi", rows=result.local([0, 5]))).local([5]).rows
        array([5])
        """
        result = self._result
        manifest, arrays = pack(result)
        local = result.saved_local if rows is None else rows_beside(result, rows)
        if local is not None:
            manifest["local"], kept = pack_local(local)
            arrays.update(kept)
        return write_file(path, manifest, arrays, overwrite=overwrite)

    @validated
    def to_excel(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write a workbook: the table, outcomes and groups if several, what the result is about.

        Parameters
        ----------
        path : path-like
            Where to write; it must end in ``.xlsx``. It needs the package xlsxwriter.

        Examples
        --------
        >>> result.to_excel("importance.xlsx").name
        'importance.xlsx'
        """
        result = self._result
        target = writable(path, overwrite=overwrite)
        if target.suffix.lower() != ".xlsx":
            raise ValueError(f"the name of a workbook must end in .xlsx, got {target.name!r}")
        try:
            import xlsxwriter  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            raise ImportError(
                "to_excel needs the package xlsxwriter, which is not installed: run pip install "
                "xlsxwriter, or write result.table() as CSV"
            ) from error
        content = io.BytesIO()
        # names of columns are text, whatever they begin with
        plain = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        with xlsxwriter.Workbook(content, plain) as book:
            bold = book.add_format({"bold": True})
            tables = {"importance": (UNITS, _columns_of(result))}
            if result.by_outcome:
                tables["outcomes"] = (OUTCOMES, outcome_table(result, order_of(result)))
            if result.default_groups is not None:
                tables["groups"] = (UNITS, _columns_of(result.group()))
            for name, (schema, columns) in tables.items():
                sheet = book.add_worksheet(name)
                sheet.freeze_panes(1, 1)
                amounts = _amounts(schema, columns)
                shown = [column for column in schema if column.key in columns]
                for place, column in enumerate(shown):
                    text = amounts if column.kind == "amount" else _FORMATS.get(column.kind)
                    style = None if text is None else book.add_format({"num_format": text})
                    values = [_cell(value) for value in columns[column.key]]
                    sheet.write(0, place, column.key, bold)
                    for row, value in enumerate(values, start=1):
                        sheet.write(row, place, value, style)
                    named = column.kind == "name"
                    widest = max(len(str(value)) for value in values) if named else 9
                    sheet.set_column(place, place, min(_WIDEST, widest + 2))
            about = book.add_worksheet("about")
            for row, (name, told) in enumerate(_about(result).items()):
                about.write(row, 0, name, bold)
                about.write(row, 1, told)
            about.set_column(0, 0, 14)
            about.set_column(1, 1, _WIDEST)
        with written_whole(target) as stream:
            stream.write(content.getvalue())
        return target

    @validated
    def log(self, prefix: str = "dfi") -> None:
        """Log the result to the active run of MLflow: numbers, verdict, page and file.

        Shares and scores are metrics (``dfi/share/bmi``; of classes and further outcomes
        ``dfi/outcome/NAME/share/bmi``), so is the model's skill. The verdict is the tag
        ``dfi.trust``; ``report.html`` and ``result.dfi`` are artifacts in the folder ``dfi``.
        Characters that MLflow does not take become ``_``. It needs the package mlflow, which
        starts a run if none is active.

        Parameters
        ----------
        prefix : str, default="dfi"
            What the names of metrics, tag and folder begin with; parts of it may be separated by
            ``/``.

        Examples
        --------
        >>> with mlflow.start_run():  # doctest: +SKIP
        ...     result.log()
        """
        result = self._result
        parts = prefix.split("/")
        if not {"", ".", ".."}.isdisjoint(parts):
            raise InvalidParameterError(
                f"prefix must be a name such as 'dfi' or 'dfi/before', got {prefix!r}", "prefix"
            )
        prefix = "/".join(map(_known_to_mlflow, parts))
        try:
            import mlflow  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise ImportError(
                "log needs the package mlflow, which is not installed: run pip install mlflow, or "
                "write the files with save, report and table"
            ) from error
        metrics = _metrics_of(result, prefix)
        twice = [name for name, times in Counter(name for name, _ in metrics).items() if times > 1]
        if twice:
            raise ValueError(
                f"MLflow takes up to {_LONGEST} letters, digits and _-. in names and would log "
                f"several as {twice[0]!r}: rename them"
            )
        with tempfile.TemporaryDirectory() as folder:
            # files first: what cannot be written leaves nothing half logged
            result.save(Path(folder) / "result.dfi")
            result.report(Path(folder) / "report.html")
            mlflow.log_metrics({name: value for name, value in metrics if math.isfinite(value)})
            mlflow.set_tag(f"{prefix}.trust", str(result.trust.grade))
            mlflow.log_artifacts(folder, prefix)

    @validated
    def plot(self, kind: str = "importance", **options: Any) -> Axes | NDArray[np.object_]:
        """Draw the result: a function of :mod:`dfi.plots` by name; returns its Axes.

        Parameters
        ----------
        kind : str, default="importance"
            ``"importance"``, ``"latent_attributed"``, ``"attribution"``, ``"amplification"``,
            ``"tree"``, ``"groups"``, ``"classes"``, ``"diagnostics"``, ``"survival"`` or
            ``"levels"``.
        **options
            ``top``, ``ax`` and what else the function takes.

        Examples
        --------
        >>> ax = result.plot(top=2)
        >>> [label.get_text() for label in ax.get_yticklabels()]
        ['x0', 'x1']
        """
        # pyplot takes half a second to import: only those who plot pay for it
        from dfi.plots import draw

        return draw(self, kind, options)

    @overload
    def report(
        self,
        path: None = None,
        *,
        title: str | None = ...,
        target: str | None = ...,
        groups: GroupsLike = ...,
        rows: int | LocalAttributions | None = ...,
        sections: Sequence[Interactions | Split] = ...,
    ) -> Report: ...

    @overload
    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = ...,
        target: str | None = ...,
        groups: GroupsLike = ...,
        rows: int | LocalAttributions | None = ...,
        sections: Sequence[Interactions | Split] = ...,
        overwrite: bool = ...,
    ) -> Path: ...

    @validated
    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        target: str | None = None,
        groups: GroupsLike = None,
        rows: int | LocalAttributions | None = None,
        sections: Sequence[Interactions | Split] = (),
        overwrite: bool = False,
    ) -> Path | Report:
        """Return the report of the result, or write it as one offline HTML page.

        Parameters
        ----------
        rows : int or LocalAttributions, optional
            Number of single rows to explain on the page, which then contains their values.
        sections : sequence of Interactions and Split, default=()
            Results of :meth:`interactions` and :meth:`split`, each a section of the page.

        Examples
        --------
        >>> result.report("report.html").name
        'report.html'
        >>> result.report(title="What drives y?").html().startswith("<!doctype html>")
        True
        """
        from dfi.report import Report

        found = Report(
            self._result, title=title, target=target, groups=groups, rows=rows, sections=sections
        )
        return found if path is None else found.write(path, overwrite=overwrite)

    def _repr_html_(self) -> str:
        from dfi.report import Report

        return Report(self._result)._repr_html_()


def _cell(value: object) -> object:
    """Return a value for a cell, empty if unknown."""
    if isinstance(value, str):
        return value
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else None


def _columns_of(result: Importance) -> dict[str, Array]:
    """Return the columns of the table, the largest unit first."""
    columns = {"feature": np.array(result.names, dtype=object), **full_table(result)}
    order = order_of(result)
    return {key: np.asarray(values)[order] for key, values in columns.items()}


def _amounts(schema: Sequence[Column], columns: Mapping[str, Array]) -> str:
    """Return the number format of the scores of a table, the same for all of its columns."""
    keys = [column.key for column in schema if column.kind == "amount" and column.key in columns]
    places = decimals(float(value) for key in keys for value in columns[key])
    if places is None:
        return "0.00E+00"
    return f"0.{'0' * places}" if places > 0 else "0"


def _known_to_mlflow(name: str) -> str:
    """Return a name, of a feature say, that MLflow takes and that is no folder of other names."""
    found = re.sub(r"[^\w\-. ]", "_", name)
    return "_" if found in ("", ".", "..") else found


def _metrics_of(result: Importance, prefix: str) -> list[tuple[str, float]]:
    """Return names and values for MLflow, those of several outcomes after the whole."""
    table = full_table(result)
    found = [(f"{prefix}/skill", float(result.quality.skill))]
    for key in ("share", "score"):
        if key in table:
            names = [f"{prefix}/{key}/{_known_to_mlflow(name)}" for name in result.names]
            found += [
                (name[:_LONGEST], float(value))
                for name, value in zip(names, table[key], strict=True)
            ]
    for outcome, part in result.by_outcome.items():
        found += _metrics_of(part, f"{prefix}/outcome/{_known_to_mlflow(outcome)}")
    return found


def _about(result: Importance) -> dict[str, str | int]:
    """Return the remarks on a table, each with its heading."""
    outcome, unit = words.outcome_of(result.spec, result.by_outcome), words.unit_of(result.spec)
    told = {
        "outcome": words.name_of(result.spec),
        "explains": None if outcome is None else outcome.text,
        "trust": str(result.trust),
        "quality": words.quality_text(result.quality),
        "rows": result.basis.n_rows,
        "intervals": f"{100 * result.level:.4g} %",
        "scores": f"in {'units of the ' * (unit == words.VARIANCE)}{unit}",
        "raw table": everyday_text(result),
        "missing": missing_text(result),
        "method": str(result.spec.get("method", "")),
    }
    return {name: text for name, text in told.items() if text}
