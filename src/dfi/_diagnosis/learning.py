"""How much models have learned: scores on halves and quarters of the rows, calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._findings import Finding
from dfi._parameters import worded

if TYPE_CHECKING:
    from dfi._scoring.scores import Scores, Task
    from dfi._types import Floats, Plain

LATE = 0.15
"""Share of the signal that came with the second half of the training rows from which scores are too
low: parts of real tables with less cover as often as those whose curve is flat."""


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


def learning(state: Plain) -> Finding:
    """Report whether scores still rise: only a curve that surely rises by much limits a result."""
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
