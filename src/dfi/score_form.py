"""Which form of the latent scores a call asks for, and whether it can be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from dfi._scoring.forms import ScoreForm

STRAIGHT = ("gaussian", "semicontinuous", "copula", "auto")
"""Transports whose latent lines are straight, in feature or in score space."""


def resolve_form(score: ScoreForm | Literal["auto"], G: str, cv: Any, design: Any) -> ScoreForm:
    """Return the form of the scores: the cross form where models are fitted here.

    Raises
    ------
    ValueError
        The form or the sensitivity ``G`` is unknown, or does not go with the transport or with a
        fitted model.
    """
    prefit = isinstance(cv, str) and cv == "prefit"
    if score not in ("auto", "cross", "loco", "cpi"):
        raise ValueError(f"unknown score {score!r}: choose 'auto', 'cross', 'loco' or 'cpi'")
    if G not in ("auto", "hermite", "covariance", "tilt"):
        raise ValueError(f"unknown G {G!r}: choose 'auto', 'hermite', 'covariance' or 'tilt'")
    if G == "tilt" and getattr(design, "epsilon", 0.0) > 0 and design.name == "gaussian":
        raise ValueError("G='tilt' holds for epsilon = 0; leave G='auto' for the bridge")
    if G != "auto" and design.name not in STRAIGHT:
        raise ValueError(
            f"G={G!r} is about straight lines, which transport={design.name!r} does not have: "
            "leave G='auto'"
        )
    if prefit and score == "cross":
        raise ValueError(
            "score='cross' multiplies two models fitted on disjoint rows; cv='prefit' has one: "
            "use score='loco' or 'cpi', or let the models be fitted here"
        )
    if score == "auto":
        return "loco" if prefit else "cross"
    return score
