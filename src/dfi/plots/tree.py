"""The tree of features by the signal that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfi._parameters import validated
from dfi.plots import style
from dfi.results import words
from dfi.results.numbers import percent
from dfi.results.tree import SHARES, SLIGHT, branches, signal_tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi.results.importance import Importance
    from dfi.results.views import Columns


def _tree_data(result: Importance, *, top: int | None = 20) -> Columns:
    """Return the numbers behind :func:`tree`, one row for each join.

    Examples
    --------
    >>> dfi.plots.tree_data(result)["members"].tolist()
    ['x0, x1', 'x0, x1, x2']
    """
    found = signal_tree(result, top)
    return {
        "members": np.array([", ".join(group) for group in found.members], dtype=object),
        **{name: getattr(found, name) for name in ("similarity", *SHARES)},
    }


tree_data = style.as_table(_tree_data)


@validated
def tree(result: Importance, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw the tree of features by the signal that they share.

    Features join where they express the same signal: at the left copies, towards the right
    features that have less and less in common. The number at a join is the share of the
    explained variance that its features have together. Joins at 0 are left out.

    Examples
    --------
    >>> ax = dfi.plots.tree(result)
    >>> ax.get_xlabel()
    'signal that they share'
    """
    found = signal_tree(result, top)
    ax = style.axes_for_rows(ax, len(found.names) + 2)
    order = found.order
    style.label_rows(ax, [found.names[k] for k in order])
    told: dict[str, Any] = {
        "fontsize": 8, "textcoords": "offset points", "annotation_clip": False
    }  # fmt: skip
    for row, unit in enumerate(order):
        ax.annotate(percent(found.shares[unit]), (1.0, row), (-4, -3), ha="right", **told)
    for one, share in zip(branches(found), found.share, strict=True):
        if one.at < SLIGHT:
            continue
        rows = [one.above, one.above, one.below, one.below]
        ax.plot([one.begins, one.at, one.at, one.starts], rows, color=style.BLUE, linewidth=1.5)
        if one.told:
            middle = 0.5 * (one.above + one.below)
            ax.annotate(percent(share), (one.at, middle), (3, 2), ha="left", **told)
    ax.set_xlim(1.13, -0.12)
    ticks = np.linspace(1.0, 0.0, 6)
    style.write_ticks(ax.xaxis, ticks, [f"{100 * at:.0f} %" for at in ticks])
    ax.set_xlabel("signal that they share")
    whole = words.explained_of(result.spec)
    title = f"numbers: share of {whole}, of a feature and of those that join"
    many = f"the {len(found.names)} largest of {len(result.names)}\n"
    ax.set_title(many * (len(found.names) < len(result.names)) + title, loc="left", fontsize=9)
    style.quiet_frame(ax)
    return ax
