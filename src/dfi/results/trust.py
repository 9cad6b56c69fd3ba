"""How far to trust a result: one grade, and the findings behind it.

Findings of a method come with the result; those that any result has (its model, its clusters, its
repeated splits) are added here. A feature is as sound as the result and its own findings are. The
result is as sound as the features that hold half of its score, and is read with care where a
feature is not to be relied on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi._data.dependence import FEW_CLUSTERS
from dfi._docstrings import exemplified
from dfi._findings import SEVERITIES, Finding, Severity, listed
from dfi._models.quality import weak_model
from dfi._parameters import argument
from dfi.results import words

if TYPE_CHECKING:
    from dfi._data.groups import Groups
    from dfi.results.importance import Importance

Grade = Literal["sound", "with care", "do not rely on it"]

GRADES: dict[Severity, Grade] = {
    "note": "sound",
    "care": "with care",
    "distrust": "do not rely on it",
}
"""The grade that the most severe finding gives."""

SHOWN_REASONS = 2
"""Reasons that one line has room for."""

HALF = 0.5
"""Share of the positive scores whose findings are those of the result."""


@exemplified
@dataclass(frozen=True, eq=False)
class Trust:
    """How far a result, or one of its features, can be trusted, and why.

    It equals its grade: ``result.trust == "sound"``. ``str()`` is one line; ``reasons`` has all.

    Parameters
    ----------
    grade : {"sound", "with care", "do not rely on it"}
        The verdict.
    reasons : tuple of Finding
        What it follows from, the most severe first; empty for what is sound.
    by_feature : mapping of str to Trust
        The verdict of each feature; empty in that of a feature.

    Examples
    --------
    >>> result = dfi.explain(sample.X, sample.y, "linear")
    >>> print(result.trust)
    sound
    >>> result.trust.by_feature["x1"].grade
    'sound'
    """

    grade: Grade
    reasons: tuple[Finding, ...] = ()
    by_feature: Mapping[str, Trust] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.grade == other
        if not isinstance(other, Trust):
            return NotImplemented
        return (self.grade, self.reasons) == (other.grade, other.reasons)

    def __hash__(self) -> int:
        return hash(self.grade)

    def __str__(self) -> str:
        if not self.reasons:
            return self.grade
        shown = "; ".join(reason.what for reason in self.reasons[:SHOWN_REASONS])
        more = len(self.reasons) - SHOWN_REASONS
        return f"{self.grade} — {shown}" + (f"; and {more} more" if more > 0 else "")

    def as_dict(self) -> dict[str, object]:
        """Return it as plain values, for JSON."""
        found: dict[str, object] = {
            "grade": self.grade,
            "reasons": [reason.as_dict() for reason in self.reasons],
        }
        if self.by_feature:
            found["by_feature"] = {name: part.grade for name, part in self.by_feature.items()}
        return found


def findings_of(result: Importance) -> tuple[Finding, ...]:
    """Return all findings about a result, the most severe first."""
    rules = (_clusters,) if result.difference else RULES
    own = (rule(result) for rule in rules)
    found = [*(finding for finding in own if finding is not None), *_stored(result)]
    return tuple(sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity)))


def _stored(result: Importance) -> list[Finding]:
    """Return the findings stored with a result; older files have alarms, as text."""
    records, alarms = (result.diagnostics.get(key) for key in ("findings", "alarms"))
    return [
        *(Finding.read(each) for each in _items(records) if isinstance(each, Mapping)),
        *(Finding("alarm", "care", each) for each in _items(alarms) if isinstance(each, str)),
    ]


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def of_groups(result: Importance, groups: Groups) -> list[dict[str, object]]:
    """Return the findings of a result as those of sums over groups of its features."""
    members = {
        group: {name for name, inside in zip(result.names, row, strict=True) if inside}
        for group, row in zip(groups.names, groups.membership, strict=True)
    }
    found = []
    for finding in _stored(result):
        about = tuple(g for g, names in members.items() if names.intersection(finding.about))
        if about or not finding.about:
            found.append(replace(finding, about=about).as_dict())
    return found


def of_both(first: Importance, second: Importance) -> list[dict[str, object]]:
    """Return the findings that limit either of two results, as those of their difference."""
    found: dict[str, Finding] = {}
    for finding in (*first.findings, *second.findings):
        if finding.severity != "note" and finding.kind != "clusters":
            found.setdefault(finding.what, finding)
    return [finding.as_dict() for finding in found.values()]


def trust_of(result: Importance) -> Trust:
    findings = [finding for finding in findings_of(result) if finding.severity != "note"]
    whole = [finding for finding in findings if not finding.about]
    by_feature = {}
    for name in result.names:
        own = [finding for finding in findings if not finding.about or name in finding.about]
        by_feature[name] = Trust(_grade(_worst(own)), tuple(own))
    worst = max(_worst(whole), _of_features(result, findings))
    reasons = tuple(_no_worse(finding, worst) for finding in findings) if worst else ()
    return Trust(_grade(worst), reasons, by_feature)


def _no_worse(finding: Finding, worst: int) -> Finding:
    """Return a feature's finding in a result of a better grade."""
    severity = SEVERITIES[min(worst, SEVERITIES.index(finding.severity))]
    return replace(finding, severity=severity)


def _of_features(result: Importance, findings: Sequence[Finding]) -> int:
    own = [[f for f in findings if name in f.about] for name in result.names]
    severity = np.array([_worst(each) for each in own])
    positive = np.maximum(result.scores, 0.0)
    for level in (2, 1):
        if positive[severity >= level].sum() >= HALF * max(positive.sum(), 1e-300):
            return level
    return int((severity == 2).any())


def _worst(findings: Sequence[Finding]) -> int:
    return max((SEVERITIES.index(finding.severity) for finding in findings), default=0)


def _grade(severity: int) -> Grade:
    return GRADES[SEVERITIES[severity]]


def _model(result: Importance) -> Finding | None:
    if result.difference:
        return None
    found = weak_model(result.quality, effect=words.is_effect(result.spec))
    if found is None or found.severity != "note" or not result._learning:
        return found
    # what few rows hardly show may be large on many
    return replace(
        found,
        severity="care",
        what=f'{found.what}: read scores as "at least"',
    )


CLEAR = 2.0
"""Standard errors above 0 that make the explained variance clear."""


def _unclear(result: Importance) -> Finding | None:
    """Say that what is explained may be nothing: shares of it mean nothing."""
    explained = result.explained
    if explained is None or result.quality.skill <= 0:
        return None
    if not explained.se > 0 or explained.value > CLEAR * explained.se:
        return None
    return Finding(
        "unclear",
        "distrust",
        f"{words.explained_of(result.spec)} is not clearly above 0 "
        f"({explained.value:.3g}, standard error {explained.se:.2g})",
        {"explained": explained.value, "se": explained.se},
        "Shares mean nothing. Use more rows or another model",
    )


VARIES = 0.5
"""Spread of the skill over folds, over the skill, from which it is uncertain."""


def _folds(result: Importance) -> Finding | None:
    """Say that the model fits some folds much better than others."""
    quality = result.quality
    if not (quality.skill > 0 and quality.skill_spread > VARIES * quality.skill):
        return None
    name, skill, spread = quality.skill_name, quality.skill, quality.skill_spread
    return Finding(
        "folds",
        "note",
        f"the model fits some folds much better than others ({name} {skill:.2f}, spread over "
        f"folds {spread:.2f})",
        {"skill": skill, "spread": spread},
        "Use more rows, or a model that fits them better",
    )


FEWEST_CLUSTERS = 6
"""Clusters below which no theory holds."""


def _clusters(result: Importance) -> Finding | None:
    """Say which errors these are where rows depend on each other."""
    told, degrees = result.basis.words, result.basis.degrees
    if told == "independent rows":
        return None
    few = degrees + 1 < FEW_CLUSTERS
    what = f"rows depend on each other, and the standard errors account for it ({told})"
    if few:
        what = f"standard errors of so few clusters are rough ({told})"
    return Finding(
        "clusters",
        "note" if not few else "care" if degrees + 1 >= FEWEST_CLUSTERS else "distrust",
        what,
        {"degrees": degrees},
        f"Intervals and tests use a t distribution with {degrees:.0f} degrees of freedom"
        + ", and may still be too short" * few,
    )


SPLITS = 0.5
"""Share of a score's variance from splits above which it depends on them."""


def _splits(result: Importance) -> Finding | None:
    """Say which scores differ from one repeated split to the next as much as between samples."""
    repeats = result.spec.get("n_repeats")
    if result.spread is None or not isinstance(repeats, int) or repeats < 2:
        return None
    of_splits = result.spread**2 / repeats
    share = np.divide(of_splits, result.se**2, out=np.zeros(len(of_splits)), where=result.se > 0)
    positive = np.maximum(result.scores, 0.0)
    large = positive > 0.05 * max(float(positive.sum()), 1e-300)
    names = tuple(result.names[k] for k in np.flatnonzero((share > SPLITS) & large))
    if not names:
        return None
    several = len(names) > 1
    return Finding(
        "splits",
        "care",
        f"the score{'s' * several} of {listed(names)} {'depend' if several else 'depends'} on how "
        "rows are split into folds",
        {"share": float(share[large].max())},
        f"Raise {argument('n_repeats')}",
        names,
    )


def _errors(result: Importance) -> Finding | None:
    """Say which scores have an error that is larger than all that is explained."""
    explained = result.explained
    if explained is None or not explained.value > 0:
        return None
    names = tuple(result.names[k] for k in np.flatnonzero(result.se > explained.value))
    if not names:
        return None
    several = len(names) > 1
    return Finding(
        "errors",
        "distrust",
        f"the standard error{'s' * several} of {listed(names)} "
        f"{'exceed' if several else 'exceeds'} the whole explained variance "
        f"({result.se.max():.3g} against {explained.value:.3g})",
        {"se": float(result.se.max()), "explained": explained.value},
        "Leave out columns that are nearly copies of others, or use more rows",
        names,
    )


def _intervals(result: Importance) -> Finding | None:
    """Say that intervals leave something out."""
    if result.diagnostics.get("standard_errors") == "fixed transport":
        return Finding(
            "intervals",
            "care",
            "the standard errors ignore the transport's error: intervals of scores above 0 are "
            "too short",
        )
    if not result.spec.get("valid_intervals", True):
        method = str(result.spec.get("method"))
        return Finding("intervals", "care", f"intervals of {method!r} leave out part of the error")
    return None


def _gathered(result: Importance) -> Finding | None:
    """Say of which rows a result is where all others stayed where they are."""
    count, total = (result.spec.get(key) for key in ("gathered_rows", "gathered_of"))
    if not isinstance(count, int) or not isinstance(total, int):
        return None
    return Finding(
        "gathered rows",
        "note",
        f"computed on {count:,} of {total:,} rows, drawn at random and read into memory",
        {"rows": count, "of": total},
        "Standard errors refer to those rows",
    )


RULES = (_model, _unclear, _folds, _clusters, _splits, _errors, _intervals, _gathered)
"""The checks of any result."""
