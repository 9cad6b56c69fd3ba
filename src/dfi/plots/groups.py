"""Groups of features in four panels: scores, z statistics, dependence, attribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from dfi._data.groups import read_groups
from dfi.plots.attribution import attribution_of, draw_heat_map
from dfi.plots.columns import frame_like, ranking, result_columns, take
from dfi.plots.overlap import overlap
from dfi.plots.style import (
    BLUE,
    GREY,
    MAX_HEIGHT,
    ORANGE,
    VERMILION,
    check_top,
    label_rows,
    quiet_frame,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from dfi._types import Floats, Ints
    from dfi.results.importance import Importance


def _grouped(result: Importance, groups: Any, top: int | None) -> tuple[Importance, dict[str, Any]]:
    if result.space == "group":
        if groups is not None:
            raise ValueError("this result is about groups already; leave groups out")
        grouped = result
    else:
        grouped = result.group(groups)
    columns = take(
        result_columns(grouped, adjust="bonferroni"),
        ranking(grouped.scores)[: check_top(top, len(grouped.names))],
    )
    alpha = 1.0 - grouped.level
    columns["significant_alone"] = columns["p"] <= alpha
    return grouped, columns


def groups_data(result: Importance, groups: Any = None, *, top: int | None = 20) -> Any:
    """Return the numbers behind the first two panels of :func:`groups`.

    ``significant_alone`` is one test at a time, ``significant`` with Bonferroni's correction.
    """
    grouped, columns = _grouped(result, groups, top)
    return frame_like(grouped, columns)


def groups(
    result: Importance,
    groups: Any = None,
    *,
    top: int | None = 20,
    correlation: ArrayLike | None = None,
    axes: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Draw groups of features: scores, z statistics, dependence between groups, attribution.

    Parameters
    ----------
    result : Importance
        A result by feature, or by group.
    groups : mapping, frame or Groups, optional
        The groups; by default those that the result was made with.
    top : int or None, default=20
        How many groups, the largest first.
    correlation : array-like of shape (p, p), optional
        Correlation matrix of the features. The third panel then shows the average absolute
        correlation between the members of groups, as in the paper; without it, their overlap in
        the latent space, which the result itself holds.
    axes : sequence of four Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    ndarray of four Axes
    """
    grouped, columns = _grouped(result, groups, top)
    names = [str(name) for name in columns["feature"]]
    order = np.array([grouped.names.index(name) for name in names], dtype=np.intp)
    if correlation is None:
        dependence = overlap(attribution_of(grouped))[np.ix_(order, order)]
        label = "overlap of latent signal"
    else:
        dependence = _mean_correlation(result, groups, np.asarray(correlation, dtype=float), order)
        label = "mean |correlation| of members"
    weights = attribution_of(grouped)[np.ix_(order, order)]
    if axes is None:
        height = min(2 * (1.4 + 0.3 * len(names)), MAX_HEIGHT)
        _, grid = plt.subplots(2, 2, figsize=(12.0, max(height, 6.5)), layout="constrained")
        panels = list(grid.ravel())
    else:
        panels = list(axes)
        if len(panels) != 4:
            raise ValueError(f"the group panel needs 4 axes, got {len(panels)}")
    _draw_bars(panels[0], columns, names)
    _draw_statistics(panels[1], columns, names, 1.0 - grouped.level, len(grouped.names))
    draw_heat_map(panels[2], dependence, names, label)
    draw_heat_map(panels[3], weights, names, "attribution weight")
    for letter, ax, title in zip(
        "abcd",
        panels,
        ("score, one standard error", "z statistic", label, "attribution between groups"),
        strict=True,
    ):
        ax.set_title(f"({letter}) {title}", loc="left", fontsize=10)
    return np.array(panels, dtype=object)


def _draw_bars(ax: Axes, columns: dict[str, Any], names: list[str]) -> None:
    rows = np.arange(len(names))
    ax.barh(
        rows,
        columns["score"],
        xerr=np.nan_to_num(columns["se"]),
        height=0.66,
        color=[BLUE if s else "white" for s in columns["significant"]],
        edgecolor=[BLUE if s else GREY for s in columns["significant"]],
        error_kw={"linewidth": 1.2, "capsize": 2},
    )
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_ylim(len(names) - 0.4, -0.6)
    label_rows(ax, names, width=24)
    ax.set_xlabel("importance of the group", fontsize=9)
    quiet_frame(ax)


def _draw_statistics(
    ax: Axes, columns: dict[str, Any], names: list[str], alpha: float, n_groups: int
) -> None:
    rows = np.arange(len(names))
    z = np.nan_to_num(columns["z"])
    ax.hlines(rows, 0.0, z, color=GREY, linewidth=1.2)
    # One star: significant alone; two: after Bonferroni's correction.
    for chosen, marker, colour, label in (
        (~columns["significant_alone"], "o", GREY, "not significant"),
        (columns["significant_alone"] & ~columns["significant"], "s", ORANGE, f"p ≤ {alpha:.3g}"),
        (columns["significant"], "D", VERMILION, f"p ≤ {alpha / n_groups:.2g} (Bonferroni)"),
    ):
        if chosen.any():
            ax.plot(z[chosen], rows[chosen], marker, color=colour, label=label)
    ax.axvline(stats.norm.isf(alpha), color=ORANGE, linestyle="--", linewidth=1.0)
    ax.axvline(stats.norm.isf(alpha / n_groups), color=VERMILION, linestyle=":", linewidth=1.2)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_ylim(len(names) - 0.4, -0.6)
    label_rows(ax, names, width=24)
    ax.set_xlabel("z (one-sided test of a positive score)", fontsize=9)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    quiet_frame(ax)


def _mean_correlation(result: Importance, groups: Any, correlation: Floats, order: Ints) -> Floats:
    """Return the average absolute correlation of the members of each pair of groups."""
    if result.space == "group":
        raise ValueError("pass the result by feature together with correlation, not by group")
    p = len(result.names)
    if correlation.shape != (p, p):
        raise ValueError(f"correlation must have shape {(p, p)}, got {correlation.shape}")
    chosen = result.default_groups if groups is None else read_groups(groups, result.names)
    if chosen is None:
        raise ValueError("no groups were given: pass groups={'name': ['unit', ...], ...}")
    members = chosen.membership[order].astype(float)
    absolute = np.abs(np.nan_to_num(correlation))
    np.fill_diagonal(absolute, 0.0)
    pairs = np.outer(members.sum(axis=1), members.sum(axis=1)) - members @ members.T
    total = members @ absolute @ members.T
    mean = np.divide(total, pairs, out=np.ones_like(total), where=pairs > 0)
    return np.asarray(mean)
