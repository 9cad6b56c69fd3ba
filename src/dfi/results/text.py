"""The text of a printed result."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dfi._parameters import validated, worded
from dfi.results import words
from dfi.results.columns import UNITS, text_lines
from dfi.results.numbers import SHOWN_ROWS, number, percent
from dfi.results.tables import full_table, order_of
from dfi.results.trust import SHOWN_REASONS, Trust

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from dfi.report import Report
    from dfi.results.importance import Importance

UNRELATED = "independent of every feature that the model uses"
"""The meaning of a score of exactly 0, in text, table and page."""

BELOW_ZERO = "estimates below 0 are noise: the true value is 0 or a little above"
"""The note on negative estimates, below tables that show one."""

ROUNDING = 1e-9
"""Estimate below 0, relative to the largest, that is shown as 0."""

SEEN = "being missing counts as a value"
"""What the score of a column with missing values means."""


def result_text(result: Importance) -> str:
    what = "Difference" if result.difference else "Importance"
    order = order_of(result)
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
    kinds = [result.space * (result.space != "attributed"), how]
    space = ", ".join(str(kind) for kind in kinds if kind)
    name = words.name_of(result.spec)
    about = "" if name is None else f" for {name}"
    units = words.counted(len(result.names), result.space)
    lines = [
        f"{what}{about}{space and f' ({space})'}: {units}, "
        f"{result.basis.n_rows} rows, {100 * result.level:.4g} % intervals",
        *_trust_lines(result.trust),
        *([] if explained is None else [explained]),
        *filter(None, [average_effects(result)]),
        fit,
        *text_lines(UNITS, [result.names[unit] for unit in order], rows, result.level),
    ]
    together = None
    if result.space != "latent" and how != "shapley":
        together = result.interaction
    if together is not None:
        lines.append(words.interaction_text(together, result.spec))
    shown = [row.get(key, 0.0) for row in rows[:SHOWN_ROWS] for key in ("share", "score")]
    if result.nonnegative and min(shown) < -ROUNDING * max(shown):
        lines.append(BELOW_ZERO)
    unrelated = int(np.sum(result.unrelated))
    if unrelated:
        score = "scores" if unrelated == 1 else "score"
        units = words.counted(unrelated, result.space)
        lines.append(f"{units} {score} exactly 0: {UNRELATED}")
    if result.basis.words != "independent rows":
        lines.append(f"standard errors: {result.basis.words}")
    told = (missing_text(result), dependence_text(result), everyday_text(result))
    return "\n".join(filter(None, [*lines, *told, _next_text(result)]))


def average_effects(result: Importance) -> str:
    """Return the average effect, of each arm or outcome if there are several; empty if none."""
    parts = result.by_outcome or {"": result}
    found = {name: part.diagnostics.get("average effect") for name, part in parts.items()}
    told = [
        f"{name} {number(float(one['value']))} ({percent(float(one['level']))} interval "
        f"{number(float(one['ci_low']))} to {number(float(one['ci_high']))})".strip()
        for name, one in found.items()
        if isinstance(one, MappingProxyType)
    ]
    return f"Average effect{'s' * (len(told) > 1)}: {'; '.join(told)}" if told else ""


def _trust_lines(trust: Trust) -> list[str]:
    """Return the verdict, and the leading reasons below it."""
    shown = [f"- {reason.what}" for reason in trust.reasons[:SHOWN_REASONS]]
    more = len(trust.reasons) - SHOWN_REASONS
    return [f"Trust: {trust.grade}", *shown, *([f"- and {more} more"] if more > 0 else [])]


def _next_text(result: Importance) -> str | None:
    """Return what to call next; None for a difference, or without the models."""
    if result.source is None or result.space == "latent" or result.spec.get("method") != "dfi":
        return None
    calls = [
        ".trust.reasons (what to do about them)" if result.trust.reasons else "",
        ".interactions() (pairs)" if words.is_square(result.spec) else "",
        ".keep() (a short list)" if result.spec.get("cv") != "prefit" else "",
        ".report('page.html')",
    ]
    return f"next: {', '.join(call for call in calls if call)}"


def dependence_text(result: Importance) -> str | None:
    """Report latent coordinates that stay dependent, unless the verdict does."""
    for finding in result.findings:
        said = finding in result.trust.reasons
        if finding.kind == "dependence" and finding.remedy and not said:
            auc = finding.numbers["auc"]
            call = worded("dfi.sensitivity(X, y)", "dfi sensitivity")
            return f"the transport left some dependence (AUC {auc:.2f}): compare with {call}"
    return None


_READ = {
    "days": "read as days",
    "numbers": "read as numbers",
    "classes": "read as classes",
    "labels": "labels tidied",
}
_EXPLAINED = {
    "labels_apart": "labels that differ only in case kept apart",
    "renamed": "columns of one name numbered",
    "left_out": "left out",
}


def everyday_text(result: Importance) -> str | None:
    """Report what was done to the columns of a raw frame; None if nothing was."""
    done = result.spec.get("everyday")
    if not isinstance(done, MappingProxyType):
        return None
    rows = done.get("rows_without_outcome")
    parts = [f"{said}: {', '.join(done[key])}" for key, said in _READ.items() if key in done]
    parts += [
        f"{said}: {', '.join(f'{name} ({why})' for name, why in done[key].items())}"
        for key, said in _EXPLAINED.items()
        if key in done
    ]
    if rows:
        parts.append(f"{rows} row{'s' * (rows != 1)} without an outcome left out")
    return "; ".join(parts)


def missing_shares(result: Importance) -> dict[str, float]:
    """Return the share of missing rows of each column with missing values."""
    missing = result.spec.get("missing")
    found = missing.get("share") if isinstance(missing, MappingProxyType) else None
    return dict(found or {})


def missing_text(result: Importance) -> str | None:
    """Report how much is missing and what scores then mean; None if nothing is."""
    missing = result.spec.get("missing")
    if not isinstance(missing, MappingProxyType):
        return None
    if "rows" in missing:
        return f"{missing['rows']} rows with missing values were left out"
    shares = sorted(missing_shares(result).items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {percent(share)}" for name, share in shares[:5])
    more = f" and {len(shares) - 5} more" if len(shares) > 5 else ""
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
