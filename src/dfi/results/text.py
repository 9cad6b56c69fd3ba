"""What a result says when it is printed."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dfi._parameters import validated
from dfi.results import words
from dfi.results.columns import UNITS, text_lines
from dfi.results.numbers import SHOWN_ROWS
from dfi.results.tables import full_table

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from dfi.report import Report
    from dfi.results.importance import Importance

UNRELATED = "independent of every feature that the model uses"
"""What a score of exactly 0 means, in the words of text, table and page."""

BELOW_ZERO = "estimates below 0 are noise around a score at or near 0: intervals begin at 0"
"""What a negative estimate of what cannot be negative is, below the tables that show one."""

SEEN = "being missing counts as a value"
"""What the score of a column with missing values means."""


def result_text(result: Importance) -> str:
    kind = "Difference" if result.difference else "Importance"
    order = result._ranking
    columns = {key: values[order].tolist() for key, values in full_table(result).items()}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    fit = words.quality_text(result.quality)
    outcome = words.outcome_of(result.spec, result.by_outcome)
    explained = None if outcome is None else outcome.text
    unit = words.unit_of(result.spec)
    if unit != words.VARIANCE:
        fit += f"; scores in {unit}" if " " not in unit else f"; scores are of {unit}"
    changed = result.spec.get("difference")
    if isinstance(changed, MappingProxyType):
        fit = f"{changed['rows']}; differing: {', '.join(changed['changed']) or 'nothing'}"
    how = result.spec.get("group_scores")
    space = result.space if how is None else f"{result.space}, {how}"
    name = words.name_of(result.spec)
    about = "" if name is None else f" for {name}"
    lines = [
        f"{kind}{about} ({space}): {len(result.names)} units, {result.basis.n_rows} rows, "
        f"{result.level:.4g} intervals",
        f"Trust: {result.trust}",
        *([] if explained is None else [explained]),
        fit,
        *text_lines(UNITS, [result.names[unit] for unit in order], rows, result.level),
    ]
    together = None
    if result.space != "latent" and how != "shapley":
        together = result.interaction
    if together is not None:
        lines.append(words.interaction_text(together))
    shown = [row.get(key, 0.0) for row in rows[:SHOWN_ROWS] for key in ("share", "score")]
    if result.nonnegative and min(shown) < 0.0:
        lines.append(BELOW_ZERO)
    unrelated = int(np.sum(result.unrelated))
    if unrelated:
        units = "unit scores" if unrelated == 1 else "units score"
        lines.append(f"{unrelated} {units} exactly 0: {UNRELATED}")
    if result.basis.words != "independent rows":
        lines.append(f"standard errors: {result.basis.words}")
    told = (missing_text(result), dependence_text(result), everyday_text(result))
    return "\n".join(filter(None, [*lines, *told]))


def dependence_text(result: Importance) -> str | None:
    """Say that latent coordinates stay dependent where the verdict does not."""
    for finding in result.findings:
        if finding.kind == "dependence" and finding.severity == "note" and finding.remedy:
            area = f"area under the curve {finding.numbers['auc']:.2f}"
            return f"latent coordinates stay dependent ({area}): compare transports"
    return None


def everyday_text(result: Importance) -> str | None:
    """Say what was done to the columns of a raw frame; None where nothing was."""
    done = result.spec.get("everyday")
    if not isinstance(done, MappingProxyType):
        return None
    rows = done.get("rows_without_outcome")
    out = done.get("left_out", {})
    parts = [
        f"read as days: {', '.join(done['days'])}" if "days" in done else "",
        f"read as numbers: {', '.join(done['numbers'])}" if "numbers" in done else "",
        f"left out: {', '.join(f'{name} ({why})' for name, why in out.items())}" if out else "",
        f"{rows} row{'s' * (rows != 1)} without an outcome left out" if rows else "",
    ]
    return "; ".join(part for part in parts if part)


def missing_shares(result: Importance) -> dict[str, float]:
    """Return the share of the rows in which each column with missing values is missing."""
    missing = result.spec.get("missing")
    found = missing.get("share") if isinstance(missing, MappingProxyType) else None
    return dict(found or {})


def missing_text(result: Importance) -> str | None:
    """Say how much is missing and what scores then mean; None where nothing is."""
    missing = result.spec.get("missing")
    if not isinstance(missing, MappingProxyType):
        return None
    if "rows" in missing:
        return f"{missing['rows']} rows with missing values were left out"
    shares = sorted(missing_shares(result).items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {100 * share:.2g} %" for name, share in shares[:5])
    more = f" and {len(shares) - 5} more columns" if len(shares) > 5 else ""
    return f"missing: {shown}{more}; {SEEN}"


class Reported:
    """Several results, or a change, that can be reported on a page."""

    @overload
    def report(
        self, path: None = None, *, title: str | None = ..., target: str | None = ...
    ) -> Report: ...

    @overload
    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = ...,
        target: str | None = ...,
        overwrite: bool = ...,
    ) -> Path: ...

    @validated
    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        target: str | None = None,
        overwrite: bool = False,
    ) -> Path | Report:
        """Return the report, or write it as one offline HTML page.

        Examples
        --------
        >>> both.report("comparison.html").name
        'comparison.html'
        """
        from dfi.report import Report

        about: Any = self
        found = Report(about, title=title, target=target)
        return found if path is None else found.write(path, overwrite=overwrite)
