"""The findings of a result in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dfi.report.numbers import number, p_value, percent
from dfi.results.importance import UNRELATED

if TYPE_CHECKING:
    from dfi._models.quality import Quality
    from dfi.results.importance import Importance
    from dfi.results.views import Plain

WEAK_R2 = 0.1
"""Below this out-of-fold R2 the report warns that the regression explains little."""


def leading_sentences(
    features: Sequence[Plain], level: float, target: str | None
) -> list[dict[str, str]]:
    """Return one sentence for each leading unit: its score, its interval, how sure it is."""
    return [{"name": row["name"], "text": _leading(row, level, target)} for row in features]


def _leading(row: Plain, level: float, target: str | None) -> str:
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


def quality_sentences(quality: Quality) -> Plain:
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


def alarm_sentences(result: Importance) -> list[str]:
    """Return the reasons to distrust the result, each as a sentence."""
    alarms = result.diagnostics.get("alarms")
    if not isinstance(alarms, Sequence) or isinstance(alarms, str):
        return []
    return [f"{str(text)[0].upper()}{str(text)[1:].rstrip('.')}." for text in alarms if text]


def noise_sentence(result: Importance) -> str | None:
    """Return what a column of noise scores here; None where the result does not know."""
    noise = result.diagnostics.get("noise_floor")
    if not isinstance(noise, Mapping):
        return None
    if "not_measured" in noise:
        return f"What a column of noise would score was not measured: {noise['not_measured']}."
    variance = result.quality.outcome_variance
    floor, upper = float(noise["floor"]), float(noise["upper"])
    count = len(noise["probes"])
    if upper == 0.0:
        return (
            f"A column of pure noise scores exactly 0 here: {count} of them were put beside the "
            "table, and the transport finds them independent of every feature."
        )
    share = f" ({percent(floor / variance)} of the outcome's variance)" if variance > 0 else ""
    return (
        f"A column of pure noise scores up to {number(floor)}{share} here, and at most "
        f"{number(upper)} with a confidence of 95 %: {count} of them, normal numbers and permuted "
        f"copies of features, were put beside the table and scored on {noise['n_rows']} rows."
    )


def diagnostic_sentences(result: Importance) -> list[Plain]:
    """Return what the diagnostics say; ``serious`` marks what limits the reading."""
    diagnostics = result.diagnostics
    asymptotics = str(diagnostics.get("asymptotics"))
    notes = [*_dependence(result), *_checks(result)]
    if "biased" in asymptotics or "do not hold" in asymptotics:
        notes += _note(
            "There are six rows or fewer for each column: the scores themselves are biased, large "
            "ones towards zero and small ones upwards, and standard errors do not show it.",
            serious=True,
        )
    if diagnostics.get("collinear_units"):
        notes += _note(
            "Some columns are duplicated or collinear; the signal of such columns is shared "
            "equally among them."
        )
    if diagnostics.get("standard_errors") == "fixed transport":
        notes += _note(
            "The transport was taken as known in the standard errors: intervals of scores above "
            "zero are too short.",
            serious=True,
        )
    return notes


def _note(text: str, *, serious: bool = False) -> list[Plain]:
    return [{"serious": serious, "text": text}]


def _dependence(result: Importance) -> list[Plain]:
    """Say how dependent the transport leaves latent coordinates, and whether it matters."""
    latent = result.diagnostics.get("latent")
    if not isinstance(latent, Mapping):
        return []
    value = latent.get("max_distance_correlation")
    chance = latent.get("null_distance_correlation")
    if not isinstance(value, float) or not isinstance(chance, float):
        return []
    numbers = f"distance correlation {value:.2f}, chance reaches {chance:.2f}"
    if latent.get("dependent", value > chance):
        return _note(
            f"The transport leaves dependence between latent coordinates ({numbers}): they are "
            "uncorrelated but not independent, so signal that is shared in a nonlinear way is not "
            "fully disentangled.",
            serious=True,
        )
    if value > chance:
        return _note(f"Little dependence between latent coordinates is left ({numbers}).")
    return _note(f"No dependence between latent coordinates is left beyond chance ({numbers}).")


def _checks(result: Importance) -> list[Plain]:
    """Return what the checks of noise, totals and fidelity saw, in plain words."""
    notes: list[Plain] = []
    noise, totals, fidelity = (
        result.diagnostics.get(key) for key in ("noise_floor", "totals", "fidelity")
    )
    text = noise_sentence(result)
    if text is not None and isinstance(noise, Mapping):
        probes = noise.get("probes", ())
        notes += _note(text, serious=any(probe["p_adj"] <= noise["level"] for probe in probes))
    if isinstance(totals, Mapping) and isinstance(totals.get("of_explained"), float):
        notes += _note(
            f"The scores add up to {totals['of_explained']:.2f} times the variance that the "
            f"regression explains ({totals['of_variance']:.2f} times that of the outcome): 1 is "
            "what additive regressions give, 2 what interactions of two latent coordinates can.",
            serious=bool(totals["above_variance"] or totals["doubtful"] or totals["low"]),
        )
    if isinstance(fidelity, Mapping) and fidelity:
        ratio, shift, far = (fidelity[key] for key in ("variance_ratio", "mean_shift", "far"))
        asked = "places where there are no rows" if far else "rows like those of the data"
        notes += _note(
            "Where all latent coordinates are drawn independently, predictions have "
            f"{ratio:.2f} times the variance that they have at the rows, and a mean that is "
            f"{abs(shift):.2f} standard deviations {'lower' if shift < 0 else 'higher'}: the "
            f"model was asked about {asked}.",
            serious=bool(far),
        )
    return notes
