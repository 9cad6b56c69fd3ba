"""What changed between two tables, with the parts that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi._parameters import validated
from dfi.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi._types import Floats
    from dfi.results.change import Change
    from dfi.results.views import Columns

SURE = 0.05
"""Adjusted p below which a change is drawn as found."""

PARTS = (("covariates", -0.24, style.ORANGE, "s"), ("concept", 0.24, style.GREEN, "D"))


def _change_data(found: Change, *, top: int | None = 20) -> Columns:
    """Return the numbers behind :func:`change` as a table.

    Examples
    --------
    >>> dfi.plots.change_data(found, top=1)["feature"].tolist()
    ['x2']
    """
    columns = found._columns()
    order = np.argsort(-np.abs(columns["change"]), kind="stable")[:top]
    whole: Columns = {"feature": np.array(found.names, dtype=object), **columns}
    return style.take(whole, order)


change_data = style.as_table(_change_data)


@validated
def change(found: Change, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw changes with their intervals; covariates and concept beside them, where they are known.

    Examples
    --------
    >>> dfi.plots.change(found).get_xlabel()
    'change of the score, 0.95 intervals'
    """
    columns = _change_data(found, top=top)
    n = len(columns["feature"])
    apart = found.covariates is not None
    ax = style.axes_for_rows(ax, n * (2 if apart else 1))
    rows = np.arange(n, dtype=np.float64)
    _draw(ax, columns, ("change", "ci_low", "ci_high"), rows, style.BLUE, "o", "change")
    if apart:
        for name, shift, colour, marker in PARTS:
            keys = (name, f"{name}_low", f"{name}_high")
            at = np.asarray(rows + shift, dtype=np.float64)
            _draw(ax, columns, keys, at, colour, marker, f"by the {name}")
    sure = np.flatnonzero(columns["p_adj"] <= SURE)
    if len(sure):
        ax.scatter(
            columns["change"][sure], sure, s=70, facecolors="none", edgecolors=style.BLACK,
            linewidths=1.0, zorder=4, label="found after adjustment",
        )  # fmt: skip
    style.zero_line(ax)
    style.label_rows(ax, columns["feature"])
    ax.set_xlabel(f"change of the score, {found.level:.4g} intervals")
    style.say_how_many(ax, n, len(found.names))
    ax.legend(frameon=False, fontsize=8, loc="best")
    style.quiet_frame(ax)
    return ax


def _draw(
    ax: Axes,
    columns: Columns,
    keys: tuple[str, str, str],
    at: Floats,
    colour: str,
    marker: str,
    label: str,
) -> None:
    values, low, high = (np.asarray(columns[key], dtype=np.float64) for key in keys)
    ax.hlines(at, low, high, color=colour, linewidth=1.4, zorder=2)
    ax.plot(
        values, at, marker, color=colour, markersize=4.5, linestyle="none", label=label, zorder=3
    )
