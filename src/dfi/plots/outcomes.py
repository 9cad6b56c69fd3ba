"""Plots by outcome: scores of classes, levels of a distribution, times to an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._parameters import validated
from dfi.plots import style
from dfi.results import views, words
from dfi.results.levels import level_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi.results.importance import Importance
    from dfi.results.views import Columns

MOST_NUMBERED = 12
"""Classes up to which cells hold their numbers."""


@style.as_table
def classes_data(result: Importance, *, top: int | None = 20) -> Columns:
    """Return the numbers behind :func:`classes`, one row for each feature and class.

    Examples
    --------
    >>> classes = ["low" if y < -2 else "high" if y > 2 else "middle" for y in sample.y]
    >>> result = dfi.explain(sample.X, classes, "linear", cv=2)
    >>> len(dfi.plots.classes_data(result))
    9
    """
    return views.class_columns(result, top)


@validated
def classes(result: Importance, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw the scores of each class, or of each outcome, as a heat map.

    Rows are features, the largest of the whole at the top; columns are classes, and each row adds
    up to the feature's score. Cells hold the share of the explained variance of their class, the
    score where that is not known, and a star where the score is significant within the class.

    Examples
    --------
    >>> classes = ["low" if y < -2 else "high" if y > 2 else "middle" for y in sample.y]
    >>> result = dfi.explain(sample.X, classes, "linear", cv=2)
    >>> ax = dfi.plots.classes(result)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['high', 'low', 'middle']
    """
    shown = classes_data.columns(result, top=top)
    names = list(result.by_outcome)
    shape = (-1, len(names))
    scores, share = (shown[key].reshape(shape) for key in ("score", "share"))
    sure = np.where(shown["significant"].reshape(shape), "*", "")
    ax = style.axes_for_rows(ax, len(scores) + 2, width=4.2 + 0.75 * min(len(names), 12))
    known = np.isfinite(share)
    texts = np.where(known, np.char.mod("%.0f %%", 100 * share), np.char.mod("%.2g", scores))
    texts = np.char.add(np.char.replace(np.where(texts == "-0 %", "0 %", texts), "-", "−"), sure)
    numbered = len(names) <= MOST_NUMBERED
    highest = max(float(scores.max()), 1e-12)
    image = style.heat_map(ax, scores, highest, texts if numbered else style.NO_TEXTS)
    style.label_rows(ax, shown["feature"].reshape(shape)[:, 0], width=24)
    ax.set_ylim(len(scores) - 0.5, -0.5)
    labels = views.short_names(names, 18)
    turned = len(names) > 6 or max(map(len, labels)) > 11
    style.write_ticks(ax.xaxis, np.arange(len(names)), labels, rotation=90 if turned else 0)
    outcome = words.outcome_of(result.spec)
    what = "class" if outcome is None else outcome.part
    ax.set_xlabel(what, fontsize=9)
    whole = words.explained_of(result.spec)
    told = f"numbers: share of {whole} of the {what}"
    many = f"the {len(scores)} largest of {len(result.names)}"
    titles = [many] * (len(scores) < len(result.names)) + [told] * bool(known.any())
    ax.set_title("\n".join(titles), loc="left", fontsize=9)
    style.colour_bar(ax, image, f"score ({words.unit_of(result.spec)})")
    return ax


@style.as_table
def levels_data(result: Importance, *, top: int | None = 6) -> Columns:
    """Return the numbers behind :func:`levels`, one row for each feature and level.

    Examples
    --------
    >>> len(dfi.plots.levels_data(whole, top=2))
    18
    """
    found = level_columns(result)
    shown = len(result.names) if top is None else top
    count = len(result.by_outcome)
    return {key: values[: shown * count] for key, values in found.items()}


@validated
def levels(result: Importance, *, top: int | None = 6, ax: Axes | None = None) -> Axes:
    """Draw the scores of a distribution against its levels, a line for each feature.

    Bands are pointwise intervals. A feature that moves the mean is high in the middle; one that
    moves the spread has two humps, beside the middle.

    Examples
    --------
    >>> dfi.plots.levels(whole).get_xlabel()
    'level of the distribution'
    """
    shown, count = levels_data.columns(result, top=top), len(result.by_outcome)
    ax = style.new_axes(6.4, 4.2) if ax is None else ax
    names = list(dict.fromkeys(shown["feature"]))
    markers = "osD^vPX"
    for k, label in enumerate(views.short_names(names, 24)):
        rows = slice(k * count, (k + 1) * count)
        colour = style.CYCLE[k % len(style.CYCLE)]
        at = shown["quantile"][rows]
        ax.plot(at, shown["score"][rows], color=colour, marker=markers[k % 7], ms=4, label=label)
        low, high = (np.asarray(shown[key][rows], dtype=float) for key in ("ci_low", "ci_high"))
        ax.fill_between(at, low, high, color=colour, alpha=0.12, lw=0)
    ax.axhline(0.0, color=style.GREY, lw=0.8)
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("level of the distribution")
    ax.set_ylabel("score at that level (Brier)")
    ax.legend(loc="upper right", fontsize=8, frameon=False)
    return ax


@style.as_table
def survival_data(result: Importance) -> Columns:
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
        raise ValueError("this result does not explain times to an event: it has no survival curve")
    return {key: np.asarray(curve[key]) for key in ("time", "survival", "low", "high")}


@validated
def survival(result: Importance, *, ax: Axes | None = None) -> Axes:
    """Draw the Kaplan-Meier curve of times to an event, with the horizons.

    Examples
    --------
    >>> time = np.exp(sample.y / 9)
    >>> y = np.rec.fromarrays([time < 1.5, np.minimum(time, 1.5)], names="event, time")
    >>> result = dfi.explain(sample.X, y, "linear", horizon=1.0, cv=2)
    >>> dfi.plots.survival(result).get_xlabel()
    'time'
    """
    shown, curve = survival_data.columns(result), views.survival_curve(result) or {}
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
