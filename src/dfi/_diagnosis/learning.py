"""How much models have learned: scores on halves and quarters of the rows, calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._findings import Finding
from dfi._models.crossfit import split_variance
from dfi._parameters import worded
from dfi._scoring.scores import common_gain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfi._data.weights import Weights
    from dfi._scoring.scores import Scores
    from dfi._scoring.task import Task
    from dfi._types import Floats, Plain

FLAT, UNSTABLE, SURE_GAIN = 0.05, 0.2, 1.645
"""Negligible gains, errors of gains that matter, and standard errors for a sure gain."""

LATE = 0.15
"""Share of the signal that came with the second half of the training rows from which scores are too
low: parts of real tables with less cover as often as those whose curve is flat."""


def learned(
    models: Scores, smaller: Scores, membership: Floats, task: Task
) -> tuple[dict[str, object], Finding]:
    """Return what models of more rows bring: the curve of each score, and that of their sum."""
    curve = learning_curve(models.known, smaller, membership, task)
    state = learning_state(models, smaller, task.weights, task.fits.halvings)
    return {"learning_curve": curve, "learning": state}, learning(state)


def learning_curve(
    models: Scores, smaller: Scores, membership: Floats, task: Task
) -> dict[str, object]:
    """Return scores of halves and quarters of the training rows, and the second half's gain."""
    weights = task.weights.take(models.rows)
    names = task.names[: membership.shape[1]]
    halves, quarters = (weights.mean(scores.latent) @ membership for scores in (models, smaller))
    total, before = float(halves.sum()), float(quarters.sum())
    return {
        "halves": dict(zip(names, halves.tolist(), strict=True)),
        "quarters": dict(zip(names, quarters.tolist(), strict=True)),
        "gained": (total - before) / total if total > 0 else float("nan"),
    }


def learning_state(
    models: Scores, smaller: Scores, weights: Weights, halvings: Sequence[int]
) -> dict[str, object]:
    """Return whether scores still rise with the training rows: "rising", "flat" or "unstable".

    ``gained`` is the share of the sum of the scores that came with the second half of the training
    rows, ``error`` its own, that of the split included. Where that is above :data:`UNSTABLE`, where
    scores fall, or their sum is not clear of 0, nothing is known of what more rows would bring. A
    curve that is flat at two sizes may rise later.
    """
    known, mass = models.known, weights.take(models.rows)
    _, (influence,) = common_gain([(known.latent, smaller.latent, mass)])
    total, before = (float(mass.mean(it.latent).sum()) for it in (known, smaller))
    if not influence.any():
        words = "the models explain too little to say whether more rows would help"
        return {"state": "unstable", "gained": None, "error": None, "words": words}
    of_repeats = models.latent_by_repeat.sum(axis=1, keepdims=True)
    variance = mass.standard_error(influence[:, None]) ** 2
    variance = variance + split_variance(of_repeats, halvings) / total**2
    gained, error = 1.0 - before / total, float(np.sqrt(variance[0]))
    number = f"{100.0 * gained:.0f} % (± {100.0 * error:.0f})"
    came = f"{number} of the explained signal came with the second half of the training rows"
    state, words = "flat", f"scores hardly rise with more rows: {came}"
    if error > UNSTABLE or gained < -SURE_GAIN * error:
        state, words = "unstable", f"unclear whether scores still rise with more rows: {came}"
    elif gained > max(SURE_GAIN * error, FLAT):
        state, words = (
            "rising",
            (f"scores still rise with more rows, so read them as lower bounds: {came}"),
        )
    return {"state": state, "gained": gained, "error": error, "words": words}


def learning(state: Plain) -> Finding:
    """Report whether scores still rise: only a curve that clearly rises limits a result."""
    numbers = {key: state[key] for key in ("gained", "error") if state[key] is not None}
    remedy = f"Use more rows, or {worded('an estimator', 'a --model')} that suits them better"
    return Finding(
        "learning",
        "care" if state["state"] == "rising" and state["gained"] >= LATE else "note",
        state["words"],
        numbers,
        "" if state["state"] == "flat" else remedy,
    )


def calibration_of(scores: Scores, membership: Floats, task: Task) -> dict[str, object] | None:
    """Return the effect of the calibrated form on the latent scores; None for other forms."""
    calibration = scores.calibration
    if calibration is None:
        return None
    names = task.names[: membership.shape[1]]
    cross = calibration.cross @ membership
    found = task.weights.take(scores.rows).mean(scores.known.latent) @ membership
    factor = calibration.factor @ membership / np.maximum(membership.sum(axis=0), 1.0)
    # the cross form is at most the calibrated one but for noise, and a sum of noise has no share
    share = float(cross.sum() / found.sum()) if found.sum() > 0 else None
    of_found = found.sum() > 0 and cross.sum() > 0
    return {
        "factor": dict(zip(names, factor.tolist(), strict=True)),
        "cross": dict(zip(names, cross.tolist(), strict=True)),
        "calibrated": dict(zip(names, found.tolist(), strict=True)),
        "found_share": share if of_found else None,
    }


def calibration(told: Plain) -> Finding:
    """Report how much the calibrated form adds to the models' scores."""
    share, factors = told["found_share"], told["factor"]
    if share is None:
        what = "the models find no signal: there is nothing to calibrate"
        return Finding("calibration", "note", what)
    low, high = min(factors.values()), max(factors.values())
    return Finding(
        "calibration",
        "note",
        f"the models recover about {100.0 * min(share, 1.0):.0f} % of the signal: calibrated "
        f"scores add up to {1.0 / share:.2f} times those of the cross form, with factors between "
        f"{low:.2f} and {high:.2f}",
        {"found_share": share, "lowest": low, "highest": high},
    )
