"""Several results side by side: methods, ranks over settings, changes between two tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np

from dfi._data.frames import as_frame
from dfi._parameters import validated
from dfi.plots import style
from dfi.results import views
from dfi.results.change import change_columns, change_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dfi._types import Floats, Frame, Ints
    from dfi.results.change import Change
    from dfi.results.importance import Importance
    from dfi.results.views import Columns, ResultsByLabel

MANY_METHODS = 5
MARKERS = "osD^v<>"

SURE = 0.05
"""Adjusted p below which a change is drawn as found."""

PARTS = (("covariates", -0.24, style.ORANGE, "s"), ("concept", 0.24, style.GREEN, "D"))


def _aligned(results: Mapping[str, Importance]) -> dict[str, Columns]:
    """Return the columns of every result in the order of the first one's names."""
    names = next(iter(results.values())).names
    aligned = {}
    for label, result in results.items():
        place = {name: k for k, name in enumerate(result.names)}
        order = np.array([place[name] for name in names], dtype=np.intp)
        aligned[label] = style.take(views.unit_columns(result), order)
    return aligned


def _compared(
    results: Mapping[str, Importance], top: int | None, share: bool
) -> dict[str, Columns]:
    """Return the units that lead under the first method, for every method."""
    aligned = _aligned(results)
    if share:
        for columns in aligned.values():
            total = float(np.sum(columns["score"]))
            for key in ("score", "se", "ci_low", "ci_high"):
                columns[key] = columns[key] / (total if total > 0 else np.nan)
    order = views.leading(next(iter(aligned.values()))["score"], top)
    return {label: style.take(columns, order) for label, columns in aligned.items()}


def _ranked(results: Mapping[str, Importance], top: int | None) -> dict[str, Columns]:
    """Return scores and ranks of the units that lead under the first setting."""
    aligned = _aligned(results)
    order = views.leading(next(iter(aligned.values()))["score"], top)
    for columns in aligned.values():
        columns["rank"] = np.argsort(views.ranking(columns["score"])) + 1
    return {label: style.take(columns, order) for label, columns in aligned.items()}


def _long(
    results: Mapping[str, Importance], shown: dict[str, Columns], heading: str, *keys: str
) -> Frame:
    """Stack results in one table, with a column of labels."""
    labels = np.array(list(shown), dtype=object)
    first = next(iter(results.values()))
    columns: Columns = {heading: np.repeat(labels, len(next(iter(shown.values()))["feature"]))}
    for key in ("feature", *keys):
        columns[key] = np.concatenate([values[key] for values in shown.values()])
    return as_frame(columns, first.library)


@validated
def comparison_data(results: ResultsByLabel, *, top: int | None = 15, share: bool = False) -> Frame:
    """Return the numbers behind :func:`comparison` as a long table, one row per method and unit.

    Examples
    --------
    >>> dfi.plots.comparison_data(both, top=1)[["method", "feature", "score"]].round(1)
      method feature  score
    0    dfi      x0   16.6
    1   loco      x0    9.3
    """
    by_label = views.read_results(results)
    keys = ("score", "ci_low", "ci_high", "p_adj", "significant")
    return _long(by_label, _compared(by_label, top, share), "method", *keys)


@validated
def comparison(
    results: ResultsByLabel,
    *,
    top: int | None = 15,
    share: bool = False,
    axes: Sequence[Axes] | None = None,
) -> NDArray[np.object_]:
    """Draw methods side by side, one panel each, the features in the order of the first.

    Parameters
    ----------
    axes : sequence of Axes, optional
        One for each method; a new figure by default.

    Examples
    --------
    >>> [ax.get_title() for ax in dfi.plots.comparison(both, share=True)]
    ['dfi', 'loco']
    """
    shown = _compared(views.read_results(results), top, share)
    names = next(iter(shown.values()))["feature"]
    if axes is None:
        per_row = min(len(shown), MANY_METHODS)
        n_lines = -(-len(shown) // per_row)
        height = min(n_lines * (1.2 + style.ROW_HEIGHT * len(names)), style.MAX_HEIGHT)
        _, grid = plt.subplots(
            n_lines,
            per_row,
            figsize=(2.2 + 2.1 * per_row, height),
            layout="constrained",
            sharex=share,
            squeeze=False,
        )
        panels = list(grid.ravel())
        for spare in panels[len(shown) :]:
            spare.remove()
        panels = panels[: len(shown)]
    else:
        panels, per_row = list(axes), max(1, len(axes))
        if len(panels) != len(shown):
            raise ValueError(f"{len(shown)} methods need {len(shown)} axes, got {len(panels)}")
    rows = np.arange(len(names))
    for position, (ax, (label, values)) in enumerate(zip(panels, shown.items(), strict=True)):
        significant = values["significant"]
        ax.barh(rows, values["score"], height=0.66, color="none", edgecolor=style.GREY)
        ax.barh(rows[significant], values["score"][significant], height=0.66, color=style.BLUE)
        ax.hlines(rows, values["ci_low"], values["ci_high"], color="black", linewidth=1.2)
        style.zero_line(ax)
        ax.set_title(views.shorten(label, 22), fontsize=10, parse_math=False)
        ax.set_xlabel("share of the total" if share else "score", fontsize=9)
        ax.tick_params(axis="x", labelsize=8)
        ax.locator_params(axis="x", nbins=4)
        style.label_rows(ax, names, width=24)
        if position % per_row:
            ax.set_yticks(rows, labels=[])
        style.quiet_frame(ax)
    return np.array(panels, dtype=object)


@validated
def sensitivity_data(results: ResultsByLabel, *, top: int | None = 12) -> Frame:
    """Return the numbers behind :func:`sensitivity`: setting, feature, rank and score.

    Examples
    --------
    >>> found = dfi.sensitivity(sample.X, sample.y, epsilons=[0, 0.5], estimator="linear", cv=2)
    >>> dfi.plots.sensitivity_data(found, top=1)[["setting", "feature", "rank"]]
             setting feature  rank
    0    epsilon = 0      x0     1
    1  epsilon = 0.5      x0     1
    """
    by_label = views.read_results(results)
    return _long(by_label, _ranked(by_label, top), "setting", "rank", "score")


@validated
def sensitivity(results: ResultsByLabel, *, top: int | None = 12, ax: Axes | None = None) -> Axes:
    """Draw how the ranks of the leading features move over settings (a bump chart).

    Examples
    --------
    >>> found = dfi.sensitivity(sample.X, sample.y, epsilons=[0, 0.5], estimator="linear", cv=2)
    >>> dfi.plots.sensitivity(found).get_ylabel()
    'rank'
    """
    ranked = _ranked(views.read_results(results), top)
    labels = views.short_names(next(iter(ranked.values()))["feature"], 22)
    table: Ints = np.array([columns["rank"] for columns in ranked.values()])
    n_settings, n_shown = table.shape
    if ax is None:
        ax = style.new_axes(
            3.6 + 1.1 * n_settings, float(min(1.5 + 0.32 * n_shown, style.MAX_HEIGHT))
        )
    settings = np.arange(n_settings)
    # Ranks beyond what is shown are drawn in the last row: "further down".
    floor = n_shown + 1
    drawn = np.minimum(table, floor)
    for k, label in enumerate(labels):
        ax.plot(
            settings,
            drawn[:, k],
            color=style.CYCLE[k % len(style.CYCLE)],
            marker=MARKERS[(k // len(style.CYCLE)) % len(MARKERS)],
            linewidth=2.0,
            markersize=6,
            label=label,
        )
    ranked_labels = [f"{label}  {k + 1}" for k, label in enumerate(labels)]
    style.write_ticks(ax.yaxis, np.arange(1, n_shown + 1), ranked_labels)
    right = ax.secondary_yaxis("right")
    inside = [k for k in np.argsort(drawn[-1], kind="stable") if table[-1, k] < floor]
    places = [int(table[-1, k]) for k in inside]
    last = [f"{table[-1, k]}  {labels[k]}" for k in inside]
    style.write_ticks(right.yaxis, places, last)
    # Two settings may differ anywhere in their names: long ones are turned, not cut.
    turned = n_settings > 5 or max(map(len, ranked)) > 14
    ax.set_xticks(
        settings,
        labels=views.short_names(list(ranked), 32),
        parse_math=False,
        fontsize=9,
        rotation=30 if turned else 0,
        rotation_mode="anchor" if turned else None,
        horizontalalignment="right" if turned else "center",
    )
    ax.set_xlabel("setting", fontsize=9)
    ax.set_xlim(-0.3, n_settings - 0.7)
    ax.set_ylim(floor + 0.4 if (table >= floor).any() else n_shown + 0.5, 0.5)
    ax.set_ylabel("rank", fontsize=9)
    for spines in (ax.spines, right.spines):
        for side in spines:
            spines[side].set_visible(False)
    return ax


@style.as_table
def change_data(found: Change, *, top: int | None = 20) -> Columns:
    """Return the numbers behind :func:`change` as a table.

    Examples
    --------
    >>> dfi.plots.change_data(found, top=1)["feature"].tolist()
    ['x2']
    """
    columns = change_columns(found)
    order = change_order(found)[:top]
    whole: Columns = {"feature": np.array(found.names, dtype=object), **columns}
    return style.take(whole, order)


@validated
def change(found: Change, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw changes with their intervals, and covariates and concept if they are known.

    Examples
    --------
    >>> dfi.plots.change(found).get_xlabel()
    'change of the score, 95 % intervals'
    """
    columns = change_data.columns(found, top=top)
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
    ax.set_xlabel(f"change of the score, {100 * found.level:.4g} % intervals")
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
    ax.plot(values, at, marker, color=colour, markersize=4.5, label=label, zorder=3)
