"""What each class, or each of several outcomes, owes to every feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import PowerNorm

from dfi._parameters import validated
from dfi.plots import style
from dfi.results import views, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi.results.importance import Importance
    from dfi.results.views import Columns

MOST_NUMBERED = 12
"""Columns up to which cells hold their numbers."""


def _classes_data(result: Importance, *, top: int | None = 20) -> Columns:
    """Return the numbers behind :func:`classes`, one row for each feature and class.

    Examples
    --------
    >>> classes = ["low" if y < -2 else "high" if y > 2 else "middle" for y in sample.y]
    >>> result = dfi.explain(sample.X, classes, "linear", cv=2)
    >>> len(dfi.plots.classes_data(result))
    9
    """
    return views.class_columns(result, top)


classes_data = style.as_table(_classes_data)


@validated
def classes(result: Importance, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw the scores of each class, or of each outcome, as a heat map.

    Rows are features, the largest of the whole at the top; columns are classes, and each row adds
    up to the feature's score. Cells hold the share of what is explained of their class, the
    score where that is not known, and a star where the score is significant within the class.

    Examples
    --------
    >>> classes = ["low" if y < -2 else "high" if y > 2 else "middle" for y in sample.y]
    >>> result = dfi.explain(sample.X, classes, "linear", cv=2)
    >>> ax = dfi.plots.classes(result)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['high', 'low', 'middle']
    """
    shown = _classes_data(result, top=top)
    names = list(result.by_outcome)
    shape = (-1, len(names))
    scores, share, sure = (
        shown[key].reshape(shape) for key in ("score", "share", "significant")
    )  # fmt: skip
    ax = style.axes_for_rows(ax, len(scores) + 2, width=4.2 + 0.75 * min(len(names), 12))
    highest = max(float(scores.max()), 1e-12)
    # The square root gives the many small scores a colour of their own.
    image = ax.imshow(
        np.maximum(scores, 0.0), cmap=style.HEAT_MAP, norm=PowerNorm(0.5, vmin=0.0, vmax=highest)
    )
    ax.set_aspect("auto")
    style.label_rows(ax, shown["feature"].reshape(shape)[:, 0], width=24)
    ax.set_ylim(len(scores) - 0.5, -0.5)
    labels = views.short_names(names, 18)
    turned = len(names) > 6 or max(map(len, labels)) > 11
    style.write_ticks(ax.xaxis, np.arange(len(names)), labels, rotation=90 if turned else 0)
    if len(names) <= MOST_NUMBERED:
        for (row, column), score in np.ndenumerate(scores):
            part = share[row, column]
            text = f"{100 * part:.0f} %" if np.isfinite(part) else f"{score:.2g}"
            text = text.removeprefix("-") if text == "-0 %" else text
            ax.text(
                column,
                row,
                text.replace("-", "−") + ("*" if sure[row, column] else ""),
                ha="center",
                va="center",
                fontsize=8,
                color="black" if score > 0.3 * highest else "white",
            )
    outcome = words.outcome_of(result.spec)
    what = "class" if outcome is None else outcome.part
    ax.set_xlabel(what, fontsize=9)
    known = bool(np.isfinite(share).any())
    told = f"numbers: share of what is explained of the {what}" if known else ""
    many = f"the {len(scores)} largest of {len(result.names)}"
    titles = [many] * (len(scores) < len(result.names)) + [told] * known
    ax.set_title("\n".join(titles), loc="left", fontsize=9)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label(f"score ({words.unit_of(result.spec)})", fontsize=9)
    return ax
