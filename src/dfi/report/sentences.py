"""The findings of a result in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dfi.report.numbers import number, p_value, percent
from dfi.result_text import UNRELATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi.quality import Quality
    from dfi.result import Importance

WEAK_R2 = 0.1
"""Below this out-of-fold R2 the report warns that the regression explains little."""


def leading_sentences(
    features: Sequence[dict[str, Any]], level: float, target: str | None
) -> list[dict[str, str]]:
    """Return one sentence for each leading unit: its score, its interval, how sure it is."""
    return [{"name": row["name"], "text": _leading(row, level, target)} for row in features]


def _leading(row: dict[str, Any], level: float, target: str | None) -> str:
    outcome = f"the variance of {target}" if target else "the variance of the outcome"
    if row["unrelated"]:
        text = f"score exactly 0: {UNRELATED}."
        if row["ci_high"]:
            text += f" Dependence too weak to find could give it up to {number(row['ci_high'])}."
        return text
    if row["ci_low"] is None or row["ci_high"] is None:
        return (
            f"does not vary, or has no standard error: score {number(row['score'])}, no interval."
        )
    text = (
        f"score {number(row['score'])} ({percent(level)} interval {number(row['ci_low'])} to "
        f"{number(row['ci_high'])})"
    )
    if row["share"] is not None:
        text += f", {percent(row['share'])} of {outcome}"
    if row["significant"]:
        text += f"; clearly above zero (adjusted p {_p(row['p_adj'])})."
    else:
        text += f"; cannot be told apart from zero (adjusted p {_p(row['p_adj'])})."
    if row["significant"] and row["own"] is not None:
        if row["own"] > 0.95:
            text += " Nearly all of it is its own latent signal."
        else:
            text += (
                f" {percent(row['own'])} of it is its own latent signal; the rest it receives "
                "through features that it is correlated with."
            )
    return text


def _p(value: float | None) -> str:
    text = p_value(value)
    return text if text.startswith("<") else f"= {text}"


def quality_sentences(quality: Quality) -> dict[str, Any]:
    """Return how good the regression was, and a warning where it explains little."""
    spread = quality.r2_spread
    text = (
        f"On rows that it had not seen, the regression explains {percent(quality.r2)} of the "
        f"outcome's variance (R² = {quality.r2:.3f}"
    )
    text += f", standard deviation over folds {spread:.3f})." if math.isfinite(spread) else ")."
    warning = None
    if quality.r2 <= 0:
        warning = (
            "The regression explains nothing on unseen rows. The scores below describe noise: do "
            "not read them as findings. Try another model or more rows."
        )
    elif quality.r2 < WEAK_R2:
        warning = (
            f"The regression explains only {percent(quality.r2)} of the outcome's variance. Scores "
            "say which features that small part comes from, not what drives the outcome."
        )
    return {
        "r2": quality.r2,
        "r2_by_fold": [r if math.isfinite(r) else None for r in quality.r2_by_fold],
        "n_rows": quality.n_rows,
        "mse": quality.mse,
        "outcome_variance": quality.outcome_variance,
        "text": text,
        "warning": warning,
    }


def diagnostic_sentences(result: Importance) -> list[dict[str, Any]]:
    """Return what the diagnostics say; ``serious`` marks what limits the reading."""
    found = result.diagnostics
    notes: list[dict[str, Any]] = []
    latent = found.get("latent")
    if isinstance(latent, Mapping):
        value, chance = (
            latent.get("max_distance_correlation"),
            latent.get("null_distance_correlation"),
        )
        if isinstance(value, float) and isinstance(chance, float):
            if value > chance:
                notes.append(
                    {
                        "serious": True,
                        "text": "The transport leaves dependence between latent coordinates: "
                        f"distance correlation {value:.3f} where chance reaches {chance:.3f}. "
                        "The latent coordinates are uncorrelated but not independent, so signal "
                        "that is shared in a nonlinear way is not fully disentangled. Another "
                        "transport may do better.",
                    }
                )
            else:
                notes.append(
                    {
                        "serious": False,
                        "text": "No dependence between latent coordinates is left beyond chance "
                        f"(distance correlation {value:.3f}, chance reaches {chance:.3f}).",
                    }
                )
    asymptotics = found.get("asymptotics")
    if isinstance(asymptotics, str) and "do not hold" in asymptotics:
        notes.append(
            {
                "serious": True,
                "text": "There are fewer than twice as many rows as columns: read the standard "
                "errors as too small.",
            }
        )
    if found.get("collinear_units"):
        notes.append(
            {
                "serious": False,
                "text": "Some columns are duplicated or collinear; the signal of such columns is "
                "shared equally among them.",
            }
        )
    if found.get("standard_errors") == "fixed transport":
        notes.append(
            {
                "serious": True,
                "text": "The transport was taken as known in the standard errors: intervals of "
                "scores above zero are too short.",
            }
        )
    return notes
