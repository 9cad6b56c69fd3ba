"""The words for outcomes, losses and shares, from the specification of a result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dfi._models.quality import skill_text
from dfi.losses import LOSSES
from dfi.results.numbers import percent

if TYPE_CHECKING:
    from dfi._models.quality import Quality
    from dfi._types import Space
    from dfi.inference.tests import Estimate

VARIANCE = "variance of the outcome"
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_UNITS: dict[Space, str] = {"attributed": "feature", "latent": "coordinate", "group": "group"}
_SHOWN_CLASSES = 6
_SQUARES = ("squared-error", "brier")


def counted(count: int, space: Space) -> str:
    """Return a number of units in words: ``3 groups``."""
    return f"{count} {_UNITS[space]}{'s' * (count != 1)}"


@dataclass(frozen=True)
class OutcomeWords:
    """The outcome: its name, kind, classes (or ``levels`` of a distribution), the explained one."""

    name: str
    kind: str
    classes: tuple[str, ...]
    positive: str | None
    levels: tuple[float, ...] = ()

    @property
    def text(self) -> str | None:
        """The explained class or classes; None for a plain quantity."""
        if self.kind == "binary" and self.positive is not None:
            return f"probability of {self.positive}"
        if self.kind == "count":
            return "expected count"
        if self.levels:
            count = len(self.levels)
            ends = f"from {self.levels[0]:.2g} to {self.levels[-1]:.2g}"
            return f"quantiles at {_NUMBERS[count] if count <= 10 else count} levels {ends}"
        if self.kind in ("classes", "several") and self.classes:
            what = "classes" if self.kind == "classes" else "outcomes"
            count = len(self.classes)
            shown = ", ".join(self.classes[:_SHOWN_CLASSES])
            more = f" and {count - _SHOWN_CLASSES} more" if count > _SHOWN_CLASSES else ""
            return f"{_NUMBERS[count] if count <= 10 else count} {what}: {shown}{more}"
        return None

    @property
    def part(self) -> str:
        if self.levels:
            return "level"
        return "outcome" if self.kind == "several" else "class"

    @property
    def parts(self) -> str:
        if self.levels:
            return "levels"
        return "outcomes" if self.kind == "several" else "classes"

    def subject(self, target: str | None) -> str:
        """Return the subject of a sentence or a title: ``the probability of Yes (default)``."""
        name = target or self.name
        if self.kind == "binary" and self.positive is not None:
            return f"{name} = {self.positive}" if name else f"the probability of {self.positive}"
        return name


def outcome_of(spec: Mapping[str, object], parts: Iterable[str] = ()) -> OutcomeWords | None:
    """Return the outcome of a specification, if it says one; ``parts`` name its classes."""
    told = spec.get("outcome")
    if not isinstance(told, Mapping):
        return None
    positive = told.get("positive")
    kind = str(told.get("kind", "real"))
    # a mass in whole grams is not a count: only its loss says that one is meant
    counted = kind != "count" or loss_of(spec) == "poisson"
    levels = told.get("distribution") if kind == "several" else None
    return OutcomeWords(
        str(told.get("name") or ""),
        kind if counted else "real",
        tuple(str(name) for name in told.get("classes") or told.get("outcomes") or parts),
        None if positive is None else str(positive),
        tuple(map(float, levels["levels"])) if isinstance(levels, Mapping) else (),
    )


def name_of(spec: Mapping[str, object]) -> str | None:
    """Return the name of the outcome; None if it has none."""
    told, outcome = spec.get("target"), outcome_of(spec)
    name = told if isinstance(told, str) else "" if outcome is None else outcome.name
    return None if name in ("", "y") else name


def is_effect(spec: Mapping[str, object]) -> bool:
    told = spec.get("outcome")
    return isinstance(told, Mapping) and "effect" in told


def loss_of(spec: Mapping[str, object]) -> str:
    return str(spec.get("loss") or "squared-error")


def is_square(spec: Mapping[str, object]) -> bool:
    return loss_of(spec) in _SQUARES


def explained_of(spec: Mapping[str, object]) -> str:
    """Return the words for the total that shares divide."""
    return "the explained variance" if is_square(spec) else "the explained loss"


def unit_of(spec: Mapping[str, object]) -> str:
    told = spec.get("unit")
    if isinstance(told, str):
        return told
    loss = loss_of(spec)
    return LOSSES[loss].unit if loss in LOSSES else f"{loss} loss"


def variance_of(spec: Mapping[str, object], target: str | None) -> str:
    """Return the unit of squared-error scores, with the outcome's name."""
    if not target:
        return VARIANCE
    return f"variance of the {target}" if is_effect(spec) else f"variance of {target}"


def null_of(spec: Mapping[str, object], target: str | None = None) -> str:
    """Return the words for the null loss, which scores could reach without interactions."""
    loss = loss_of(spec)
    if is_effect(spec):
        # most of it is noise: it is not the variance of the effect
        return "the variance of the pseudo-outcomes"
    if loss in _SQUARES:
        return f"the variance of {target}" if target else "the variance of the outcome"
    whose = f" of {target}" if target else ""
    if loss == "log-loss":
        return f"the entropy{whose or ' of the outcome'}"
    return f"the null deviance{whose}" if loss in LOSSES else f"the loss of the mean{whose}"


def null_label(spec: Mapping[str, object]) -> str:
    """Return the short form of :func:`null_of`, for the heading of a column."""
    loss = loss_of(spec)
    if loss in _SQUARES:
        return "of variance"
    return {"log-loss": "of entropy"}.get(loss, "of deviance" if loss in LOSSES else "of null loss")


def quality_text(quality: Quality) -> str:
    """Return the model's quality in one line: skill, its spread, and the area if there is one."""
    text = f"{quality.skill_name} {skill_text(quality.skill)}"
    if math.isfinite(quality.skill_spread):
        text += f" (spread over folds {skill_text(quality.skill_spread)})"
    if quality.auc is not None:
        low, high = quality.auc_interval()
        text += f", AUC {quality.auc:.3f} ({low:.3f} to {high:.3f})"
    if quality.concordance is not None:
        text += f", concordance {quality.concordance:.3f}"
    return text


_WHY = {
    "precise": "the errors are small enough",
    "asked for": "the requested number",
    "time": "the time limit was reached",
    "interrupted": "the run was interrupted",
    "all rows in memory": "all rows in memory",
    "memory": "more would exceed the memory limit of influence values",
}


def sample_text(spec: Mapping[str, object]) -> str:
    """Return how many rows were explained and why no more; empty if all were."""
    rows, of = spec.get("explained_rows"), spec.get("explained_of")
    if not (isinstance(rows, int) and isinstance(of, int)) or rows >= of:
        return ""
    why = _WHY.get(str(spec.get("why")), str(spec.get("why")))
    return f"{rows:,} of {of:,} rows explained: {why}"


def interaction_text(found: Estimate, spec: Mapping[str, object]) -> str:
    """Report the share of interactions in the explained variance."""
    if found.ci_high <= 0.0:
        return "No interactions were found."
    whole, high, level = explained_of(spec), percent(found.ci_high), percent(found.level)
    if found.value < 1.0 <= found.ci_high:
        return (
            f"Interactions: too uncertain to say (the {level} interval reaches beyond all of "
            f"{whole})."
        )
    if found.value < 0.0005:  # printed as 0.0 %
        return (
            f"Interactions: none found, but up to {high} of {whole} cannot be ruled out "
            f"({level} interval)."
        )
    if found.value >= 1.0:
        low, most = (f"{1.0 + end:.2g}" for end in (max(found.ci_low, 0.0), found.ci_high))
        return (
            f"Interactions: up to all of {whole}: the scores add up to {1.0 + found.value:.2g} "
            f"times it ({level} interval {low} to {most})."
        )
    return (
        f"Interactions: about {percent(found.value)} of {whole} ({level} interval "
        f"{percent(max(found.ci_low, 0.0))} to {high}), less if three or more act together."
    )
