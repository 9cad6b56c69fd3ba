"""Findings about a result: each a sentence with its numbers and a remedy.

A rule looks at one thing that was measured and returns a :class:`Finding`, or None. The verdict
(:mod:`dfi.results.trust`), warnings, printed lines and the notes of a page are made of them. What
makes numbers wrong is a warning too (:data:`WARNINGS`); the rest only grades the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dfi.warnings import (
    ImplausibleScoreWarning,
    InferenceWarning,
    LeakWarning,
    OverlapWarning,
    TransportWarning,
    WeakModelWarning,
    warn,
)

Severity = Literal["note", "care", "distrust"]
"""A note limits nothing; what is graded distrust should not be reported."""

SEVERITIES: tuple[Severity, ...] = ("note", "care", "distrust")

WARNINGS: dict[str, type[Warning]] = {
    "leak": LeakWarning,
    "weak model": WeakModelWarning,
    "above variance": ImplausibleScoreWarning,
    "sum": ImplausibleScoreWarning,
    "noise": ImplausibleScoreWarning,
    "below noise": ImplausibleScoreWarning,
    "fidelity": TransportWarning,
    "rows per column": InferenceWarning,
    "censoring": OverlapWarning,
}
"""Kinds that raise a warning if graded distrust, in the order of their warnings."""


@dataclass(frozen=True)
class Finding:
    """One finding about a result.

    ``what`` is a sentence without a capital and a full stop, ``remedy`` sentences, empty where
    nothing can be done; ``about`` names features, and is empty for the whole result.
    """

    kind: str
    severity: Severity
    what: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    remedy: str = ""
    about: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.what}. {self.remedy}" if self.remedy else self.what

    @property
    def sentence(self) -> str:
        coded = "=" in self.text.partition(" ")[0]
        first = self.text[0] if coded else self.text[0].upper()
        return f"{first}{self.text[1:].rstrip('.')}."

    def __str__(self) -> str:
        return self.sentence

    def as_dict(self) -> dict[str, object]:
        numbers = {name: float(value) for name, value in self.numbers.items()}
        return {**vars(self), "numbers": numbers, "about": list(self.about)}

    @classmethod
    def read(cls, record: Mapping[str, object]) -> Finding:
        kind, what, remedy = (str(record.get(key, "")) for key in ("kind", "what", "remedy"))
        numbers, about = record.get("numbers"), record.get("about")
        told: list[Severity] = [s for s in SEVERITIES if s == record.get("severity")]
        return cls(
            kind,
            told[0] if told else "care",
            what,
            dict(numbers) if isinstance(numbers, Mapping) else {},
            remedy,
            tuple(map(str, about)) if isinstance(about, list | tuple) else (),
        )


def warn_of(findings: Iterable[Finding]) -> None:
    """Warn about wrong numbers, once for each class of warnings."""
    texts: dict[type[Warning], list[str]] = {category: [] for category in WARNINGS.values()}
    for finding in findings:
        if finding.severity == "distrust" and finding.kind in WARNINGS:
            texts[WARNINGS[finding.kind]].append(finding.text)
    for category, told in texts.items():
        if told:
            warn(". ".join([told[0], *(text[0].upper() + text[1:] for text in told[1:])]), category)


def listed(names: Sequence[str]) -> str:
    """Join names in words; only the first three of many."""
    shown = [repr(name) for name in names[:3]]
    if len(names) > 3:
        return ", ".join(shown) + f" and {len(names) - 3} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
