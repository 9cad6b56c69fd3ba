"""From latent coordinates to features: scores, weights, groups and trees."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from dfi._data.groups import read_groups
from dfi._parameters import validated
from dfi.plots import style
from dfi.results import views, words
from dfi.results.algebra import SUM_OF_COLUMNS
from dfi.results.numbers import percent
from dfi.results.tree import SHARES, SLIGHT, branches, signal_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from dfi._types import Floats, GroupsLike, Ints
    from dfi.results.importance import Importance
    from dfi.results.questions import GroupScores
    from dfi.results.views import Columns, Names

MOST_SQUARE = 8
"""Up to this many columns, cells show their numbers."""


def _latent_of(result: Importance) -> Importance:
    if views.overlaps(result):
        raise ValueError(f"latent and attributed scores are the same: {views.UNATTRIBUTED}")
    if result.latent is None:
        raise ValueError(
            f"this result ({result.space}) has no latent scores; draw the attributed result of "
            "dfi.explain"
        )
    return result.latent


@style.as_table
def latent_attributed_data(result: Importance, *, top: int | None = 20) -> Columns:
    """Return the numbers behind :func:`latent_attributed`, ordered by the larger score.

    Examples
    --------
    >>> shown = dfi.plots.latent_attributed_data(result)
    >>> shown[["feature", "latent_score", "attributed_score"]].round(1)
      feature  latent_score  attributed_score
    0      x0          19.6              16.6
    1      x1           4.5               7.5
    2      x2          -0.0              -0.0
    """
    sides = {
        "latent": views.unit_columns(_latent_of(result)),
        "attributed": views.unit_columns(result),
    }
    order = views.leading(np.fmax(sides["latent"]["score"], sides["attributed"]["score"]), top)
    columns: Columns = {"feature": sides["attributed"]["feature"][order]}
    for side, values in sides.items():
        for key in ("score", "ci_low", "ci_high", "significant"):
            columns[f"{side}_{key}"] = values[key][order]
    return columns


@validated
def latent_attributed(result: Importance, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw the latent score next to the attributed score of each feature.

    A line joins the two: to the right of its latent score, a feature receives signal from the
    features it is correlated with; to the left, it gives signal away.

    Examples
    --------
    >>> ax = dfi.plots.latent_attributed(result)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0', 'x1', 'x2']
    """
    shown = latent_attributed_data.columns(result, top=top)
    n_shown = len(shown["feature"])
    ax = style.axes_for_rows(ax, n_shown)
    rows = np.arange(n_shown)
    ax.hlines(
        rows, shown["latent_score"], shown["attributed_score"], color=style.GREY, linewidth=1.5
    )
    for side, colour, marker, shift in (
        ("latent", style.ORANGE, "D", -0.16),
        ("attributed", style.BLUE, "o", 0.16),
    ):
        ax.hlines(
            rows + shift, shown[f"{side}_ci_low"], shown[f"{side}_ci_high"], color=colour, alpha=0.6
        )
        ax.plot(shown[f"{side}_score"], rows, marker, markersize=6, color=colour, label=side)
    style.zero_line(ax)
    style.label_rows(ax, shown["feature"])
    ax.set_xlabel("importance (variance of the outcome)", fontsize=9)
    style.say_how_many(ax, n_shown, len(result.names))
    style.small_legend(ax)
    return ax


@style.as_table
def attribution_data(result: Importance, *, top: int | None = 30) -> Columns:
    """Return the weights behind :func:`attribution` as a long table: feature, latent, weight.

    Examples
    --------
    >>> dfi.plots.attribution_data(result, top=2).round(1)
      feature latent  weight
    0      x0     x0     0.8
    1      x0     x1     0.2
    2      x1     x0     0.2
    3      x1     x1     0.8
    """
    order, weights = views.clustered_weights(result, top)
    names = np.array(result.names, dtype=object)[order]
    return {
        "feature": np.repeat(names, len(names)),
        "latent": np.tile(names, len(names)),
        "weight": weights.ravel(),
    }


@validated
def attribution(result: Importance, *, top: int | None = 30, ax: Axes | None = None) -> Axes:
    r"""Draw the attribution weights :math:`W \circ W` as a heat map, similar features together.

    Row :math:`l`, column :math:`j`: the share of latent coordinate :math:`j` that is attributed
    to feature :math:`l`.

    Examples
    --------
    >>> dfi.plots.attribution(result).get_xlabel()
    'latent coordinate'
    """
    order, weights = views.clustered_weights(result, top)
    side = float(min(max(4.0, 2.4 + 0.2 * len(order)), 12.0))
    ax = style.new_axes(side + 0.8, side) if ax is None else ax
    _draw_heat_map(ax, weights, [result.names[k] for k in order], "share of the latent score")
    ax.set_xlabel("latent coordinate", fontsize=9)
    ax.set_ylabel("feature", fontsize=9)
    style.say_how_many(ax, len(order), len(result.names))
    return ax


def _draw_heat_map(ax: Axes, values: Floats, names: Names, label: str) -> None:
    texts = np.char.mod("%.2f", values) if len(names) <= MOST_SQUARE else style.NO_TEXTS
    image = style.heat_map(ax, values, max(1.0, float(np.max(values))), texts)
    style.label_square(ax, names)
    style.colour_bar(ax, image, label)


@style.as_table
def amplification_data(result: Importance) -> Columns:
    """Return the numbers behind :func:`amplification`, for all features.

    Examples
    --------
    >>> dfi.plots.amplification_data(result)["amplification"].round(1).tolist()[:2]
    [0.8, 1.7]
    """
    latent, columns = _latent_of(result).scores, views.unit_columns(result)
    ratios = {
        "feature": columns["feature"],
        "latent_score": latent,
        "attributed_score": columns["score"],
        "amplification": columns["score"] / np.where(latent > 0, latent, np.nan),
        "significant": columns["significant"],
    }
    return style.take(ratios, views.ranking(result.scores))


@validated
def amplification(result: Importance, *, top: int | None = 8, ax: Axes | None = None) -> Axes:
    r"""Draw the attributed score of each feature against its latent score.

    On the diagonal a feature keeps what its latent coordinate carries; above it, the transport
    amplifies it: it receives signal that it shares with correlated features.

    Parameters
    ----------
    top : int or None, default=8
        How many features are named; all are drawn.

    Examples
    --------
    >>> dfi.plots.amplification(result).get_xlabel()
    'latent score'
    """
    shown = amplification_data.columns(result)
    n_named = len(views.leading(result.scores, top))
    ax = style.new_axes(5.6, 5.2) if ax is None else ax
    x, y = shown["latent_score"], shown["attributed_score"]
    low = float(min(x.min(), y.min(), 0.0))
    high = float(max(x.max(), y.max())) or 1.0
    ax.axline((0.0, 0.0), slope=1.0, color=style.GREY, linestyle="--", linewidth=1.0, label="equal")
    for chosen, face, edge, marker, label in (
        (~shown["significant"], "none", style.GREY, "o", "not significant"),
        (shown["significant"], style.BLUE, style.BLUE, "D", "significant"),
    ):
        if chosen.any():
            ax.plot(
                x[chosen],
                y[chosen],
                linestyle="none",
                marker=marker,
                markersize=5,
                markerfacecolor=face,
                markeredgecolor=edge,
                label=label,
            )
    margin = 0.06 * (high - low)
    ax.set_xlim(low - margin, high + 3 * margin)
    ax.set_ylim(low - margin, high + 2 * margin)
    _name_points(ax, x, y, views.short_names(shown["feature"][:n_named], 18))
    ax.set_xlabel("latent score", fontsize=9)
    ax.set_ylabel("attributed score", fontsize=9)
    style.small_legend(ax)
    return ax


def _name_points(ax: Axes, x: Floats, y: Floats, labels: Sequence[str]) -> None:
    """Name the first points whose label does not cover one that is already written."""
    box = ax.get_window_extent()
    (x_low, x_high), (y_low, y_high) = ax.get_xlim(), ax.get_ylim()
    points = np.column_stack(
        [(x - x_low) / (x_high - x_low) * box.width, (y - y_low) / (y_high - y_low) * box.height]
    )
    scale = ax.figure.dpi / 72.0
    written: list[tuple[float, float, float, float]] = []
    for k, label in enumerate(labels):
        width, height = 5.2 * scale * len(label), 11.0 * scale
        left = points[k, 0] + width + 6 * scale > box.width
        start = points[k, 0] - width - 6 * scale if left else points[k, 0] + 6 * scale
        place = (start, points[k, 1] - height / 2, start + width, points[k, 1] + height / 2)
        if any(
            place[0] < w[2] and w[0] < place[2] and place[1] < w[3] and w[1] < place[3]
            for w in written
        ):
            continue
        written.append(place)
        ax.annotate(
            label,
            (float(x[k]), float(y[k])),
            xytext=(-6 if left else 6, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
            parse_math=False,
        )


def _by_group(result: Importance, groups: GroupsLike, how: GroupScores = "sum") -> Importance:
    if result.space != "group":
        return result.group(groups, how=how)
    if groups is not None:
        raise ValueError("this result already has groups; leave groups out")
    return result


@style.as_table
def groups_data(result: Importance, groups: GroupsLike = None, *, top: int | None = 20) -> Columns:
    """Return the numbers behind the first two panels of :func:`groups`.

    ``significant_alone`` is one test at a time, ``significant`` with Bonferroni's correction.

    Examples
    --------
    >>> shown = dfi.plots.groups_data(result, {"pair": ["x0", "x1"], "other": ["x2"]})
    >>> shown[["feature", "score", "significant"]].round(1)
      feature  score  significant
    0    pair   24.0         True
    1   other   -0.0        False
    """
    grouped = _by_group(result, groups)
    columns = views.unit_columns(grouped, adjust="bonferroni")
    columns["significant_alone"] = columns["p"] <= 1.0 - grouped.level
    return style.take(columns, views.leading(grouped.scores, top))


@validated
def groups(
    result: Importance,
    groups: GroupsLike = None,
    *,
    how: GroupScores = "sum",
    top: int | None = 20,
    correlation: ArrayLike | None = None,
    axes: Sequence[Axes] | None = None,
) -> NDArray[np.object_]:
    """Draw groups of features: scores, z statistics, dependence between groups, attribution.

    The first panel says how groups are scored: as sums of columns, jointly, or by Shapley values.
    Joint scores of groups that overlap are not attributed, and the last two panels say so.

    Parameters
    ----------
    how : {"sum", "joint", "shapley"}, default="sum"
        How groups of a result by feature are scored, see :meth:`dfi.Importance.group`.
    correlation : array-like of shape (p, p), optional
        Correlation matrix of the features. The third panel then shows the average absolute
        correlation between the members of groups, as in the paper; without it, their overlap in
        the latent space, which the result itself holds.
    axes : sequence of four Axes, optional
        Where to draw; a new figure by default.

    Examples
    --------
    >>> panels = dfi.plots.groups(result, {"pair": ["x0", "x1"], "other": ["x2"]})
    >>> len(panels)
    4
    """
    grouped = _by_group(result, groups, how)
    columns = groups_data.columns(grouped, top=top)
    names = columns["feature"]
    order = views.leading(grouped.scores, top)
    weights = None
    if not views.overlaps(grouped):
        weights = views.attribution_of(grouped)[np.ix_(order, order)]
    dependence, label = None, "overlap of latent signal"
    if correlation is not None:
        dependence = _mean_correlation(result, groups, np.asarray(correlation, dtype=float), order)
        label = "mean |correlation| of members"
    elif weights is not None:
        dependence = views.overlap(views.attribution_of(grouped))[np.ix_(order, order)]
    if axes is None:
        height = min(2 * (1.4 + 0.3 * len(names)), style.MAX_HEIGHT)
        _, grid = plt.subplots(2, 2, figsize=(12.0, max(height, 6.5)), layout="constrained")
        panels = list(grid.ravel())
    else:
        panels = list(axes)
        if len(panels) != 4:
            raise ValueError(f"the group panel needs 4 axes, got {len(panels)}")
    _draw_bars(panels[0], columns)
    label_of_score = f"importance of the group ({views.group_score(grouped) or 'score'})"
    panels[0].set_xlabel(label_of_score, fontsize=9)
    _draw_statistics(panels[1], columns, 1.0 - grouped.level, len(grouped.names))
    for ax, values, what in ((panels[2], dependence, label), (panels[3], weights, "weight")):
        if values is None:
            _say(ax, views.UNATTRIBUTED)
        else:
            _draw_heat_map(ax, values, names, what)
    told = str(grouped.spec.get("group_scores", SUM_OF_COLUMNS))
    titles = (
        f"score ({told}), one standard error", "z statistic", label, "attribution between groups"
    )  # fmt: skip
    for letter, ax, title in zip("abcd", panels, titles, strict=True):
        ax.set_title(f"({letter}) {title}", loc="left", fontsize=10)
    return np.array(panels, dtype=object)


def _say(ax: Axes, text: str) -> None:
    """Write a sentence where there is nothing to draw."""
    ax.set_axis_off()
    sentence = textwrap.fill(f"{text[0].upper()}{text[1:]}.", 44)
    ax.text(0.5, 0.5, sentence, ha="center", va="center", fontsize=9, transform=ax.transAxes)


def _draw_bars(ax: Axes, columns: Columns) -> None:
    ax.barh(
        np.arange(len(columns["score"])),
        columns["score"],
        xerr=np.nan_to_num(columns["se"]),
        height=0.66,
        color=[style.BLUE if s else "white" for s in columns["significant"]],
        edgecolor=[style.BLUE if s else style.GREY for s in columns["significant"]],
        error_kw={"linewidth": 1.2, "capsize": 2},
    )
    style.zero_line(ax)
    style.label_rows(ax, columns["feature"], width=24)
    style.quiet_frame(ax)


def _draw_statistics(ax: Axes, columns: Columns, alpha: float, n_groups: int) -> None:
    z = np.nan_to_num(columns["z"])
    rows = np.arange(len(z))
    alone, corrected = columns["significant_alone"], columns["significant"]
    ax.hlines(rows, 0.0, z, color=style.GREY, linewidth=1.2)
    for chosen, marker, colour, label in (
        (~alone, "o", style.GREY, "not significant"),
        (alone & ~corrected, "s", style.ORANGE, f"p ≤ {alpha:.3g}"),
        (corrected, "D", style.VERMILION, f"p ≤ {alpha / n_groups:.2g} (Bonferroni)"),
    ):
        if chosen.any():
            ax.plot(z[chosen], rows[chosen], marker, color=colour, label=label)
    ax.axvline(stats.norm.isf(alpha), color=style.ORANGE, linestyle="--", linewidth=1.0)
    ax.axvline(
        stats.norm.isf(alpha / n_groups), color=style.VERMILION, linestyle=":", linewidth=1.2
    )
    style.zero_line(ax)
    style.label_rows(ax, columns["feature"], width=24)
    ax.set_xlabel("z (one-sided test of a positive score)", fontsize=9)
    style.small_legend(ax)


def _mean_correlation(
    result: Importance, groups: GroupsLike, correlation: Floats, order: Ints
) -> Floats:
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


@style.as_table
def tree_data(result: Importance, *, top: int | None = 20) -> Columns:
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


@validated
def tree(result: Importance, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw the tree of features by shared signal.

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
    title = f"numbers: share of {whole}, of a feature or of a joined group"
    many = f"the {len(found.names)} largest of {len(result.names)}\n"
    ax.set_title(many * (len(found.names) < len(result.names)) + title, loc="left", fontsize=9)
    style.quiet_frame(ax)
    return ax
