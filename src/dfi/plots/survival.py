"""How many rows are still without the event, and up to which horizon that is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._parameters import validated
from dfi.plots import style
from dfi.results import views

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi.results.importance import Importance
    from dfi.results.views import Columns


def _survival_data(result: Importance) -> Columns:
    """Return the numbers behind :func:`survival`, one row for each step of the curve.

    Examples
    --------
    >>> time = np.exp(sample.y / 9)
    >>> y = np.rec.fromarrays([time < 1.5, np.minimum(time, 1.5)], names="event, time")
    >>> result = dfi.explain(sample.X, y, "linear", horizon=1.0, cv=2)
    >>> dfi.plots.survival_data(result).shape[1]
    4
    """
    curve = views.survival_curve(result)
    if curve is None:
        raise ValueError("this result is not of times to an event: there is no survival curve")
    return {key: np.asarray(curve[key]) for key in ("time", "survival", "low", "high")}


survival_data = style.as_table(_survival_data)


@validated
def survival(result: Importance, *, ax: Axes | None = None) -> Axes:
    """Draw the Kaplan-Meier curve of a result of times to an event, with its horizons.

    Examples
    --------
    >>> time = np.exp(sample.y / 9)
    >>> y = np.rec.fromarrays([time < 1.5, np.minimum(time, 1.5)], names="event, time")
    >>> result = dfi.explain(sample.X, y, "linear", horizon=1.0, cv=2)
    >>> dfi.plots.survival(result).get_xlabel()
    'time'
    """
    shown, curve = _survival_data(result), views.survival_curve(result) or {}
    ax = style.new_axes(6.0, 3.6) if ax is None else ax
    ax.fill_between(
        shown["time"], shown["low"], shown["high"], step="post", alpha=0.2, color=style.BLUE, lw=0
    )
    ax.step(shown["time"], shown["survival"], where="post", color=style.BLUE)
    for horizon in curve["horizons"]:
        ax.axvline(horizon, color=style.GREY, ls="--", lw=1)
        ax.annotate(f"{horizon:g}", (horizon, 1.0), xytext=(3, -2), textcoords="offset points",
                    va="top", fontsize=8)  # fmt: skip
    ax.set_ylim(0.0, 1.02)
    ax.set_xlim(left=0.0)
    ax.set_xlabel(curve["name"])
    ax.set_ylabel("share without the event")
    return ax
