"""Importance bars with intervals and significance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfi.plots.columns import frame_like, ranking, result_columns, take
from dfi.plots.style import BLUE, GREY, axes_for_rows, check_top, label_rows, quiet_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi.inference.tests import Adjustment
    from dfi.results.importance import Importance

AXIS_LABEL = {
    "attributed": "importance (variance of the outcome attributed to the feature)",
    "latent": "latent importance (variance of the outcome carried by the coordinate)",
    "group": "importance of the group (sum over its features)",
}


def importance_data(
    result: Importance,
    *,
    top: int | None = 20,
    level: float | None = None,
    adjust: Adjustment | None = "holm",
    simultaneous: bool = False,
) -> Any:
    """Return the numbers behind :func:`importance`: the result's table and ``significant``."""
    return frame_like(result, _columns(result, top, level, adjust, simultaneous))


def _columns(
    result: Importance,
    top: int | None,
    level: float | None,
    adjust: Adjustment | None,
    simultaneous: bool,
) -> dict[str, Any]:
    columns = result_columns(result, level=level, adjust=adjust, simultaneous=simultaneous)
    return take(columns, ranking(result.scores)[: check_top(top, len(result.names))])


def importance(
    result: Importance,
    *,
    top: int | None = 20,
    level: float | None = None,
    adjust: Adjustment | None = "holm",
    simultaneous: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the scores as bars with their intervals, the largest at the top.

    Significant units (``p_adj <= 1 - level``) have a filled bar and a star, others a hollow one.

    Parameters
    ----------
    result : Importance
        Features, latent coordinates or groups.
    top : int or None, default=20
        How many units, the largest first; None for all. Where labels would overlap only some of
        them are written.
    level : float, optional
        Level of the intervals and of significance; that of the result by default.
    adjust : {"none", "bonferroni", "holm", "bh", "by"}, default="holm"
        Multiplicity adjustment over all units, shown or not.
    simultaneous : bool, default=False
        Whether the intervals hold for all units at once.
    ax : Axes, optional
        Where to draw; a new figure of a fitting size by default.

    Returns
    -------
    Axes
    """
    shown = _columns(result, top, level, adjust, simultaneous)
    n_shown = len(shown["score"])
    ax = axes_for_rows(ax, n_shown)
    rows = np.arange(n_shown)
    significant = shown["significant"]
    for chosen, face, label in (
        (significant, BLUE, "significant"),
        (~significant, "none", "not significant"),
    ):
        if chosen.any():
            ax.barh(
                rows[chosen],
                shown["score"][chosen],
                height=0.66,
                facecolor=face,
                edgecolor=BLUE if face == BLUE else GREY,
                linewidth=1.0,
                label=label,
            )
    known = np.isfinite(shown["ci_low"]) & np.isfinite(shown["ci_high"])
    ax.hlines(
        rows[known],
        shown["ci_low"][known],
        shown["ci_high"][known],
        color="black",
        linewidth=1.3,
        label=f"{100 * (result.level if level is None else level):.4g} % interval",
    )
    right = np.where(known, np.fmax(shown["ci_high"], shown["score"]), shown["score"])
    for row in rows[significant]:
        ax.annotate(
            "*",
            (max(float(right[row]), 0.0), row),
            xytext=(4, -5),
            textcoords="offset points",
            fontsize=12,
        )
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_ylim(n_shown - 0.4, -0.6)
    label_rows(ax, [str(name) for name in shown["feature"]])
    ax.set_xlabel(AXIS_LABEL[result.space], fontsize=9)
    if n_shown < len(result.names):
        ax.set_title(f"the {n_shown} largest of {len(result.names)}", loc="left", fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    quiet_frame(ax)
    return ax
