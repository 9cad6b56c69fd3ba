"""From latent coordinates to features: two scores per unit, the weights between, amplification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import PowerNorm

from dfi.plots.columns import frame_like, ranking, result_columns, take
from dfi.plots.overlap import clustered_order, overlap
from dfi.plots.style import (
    BLUE,
    GREY,
    HEAT_MAP,
    ORANGE,
    axes_for_rows,
    check_top,
    label_rows,
    new_axes,
    quiet_frame,
    short_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dfi._types import Floats, Ints
    from dfi.results.importance import Importance


def latent_of(result: Importance) -> Importance:
    """Return the latent side of a result, or say that it has none."""
    if result.latent is None:
        raise ValueError(
            f"this result ({result.space}) has no latent scores beside it; "
            "draw the attributed result of dfi.explain"
        )
    return result.latent


def attribution_of(result: Importance) -> Floats:
    """Return the attribution weights of a result, or say that it has none."""
    if result.attribution is None:
        raise ValueError(
            f"this result ({result.space}) has no attribution weights; "
            "draw the attributed result of dfi.explain"
        )
    return result.attribution


def _both(result: Importance, top: int | None) -> dict[str, Any]:
    """Return both scores of the leading units, ordered by the larger of the two."""
    latent = result_columns(latent_of(result))
    attributed = result_columns(result)
    order = ranking(np.fmax(latent["score"], attributed["score"]))
    order = order[: check_top(top, len(result.names))]
    columns: dict[str, Any] = {"feature": attributed["feature"][order]}
    for side, values in (("latent", latent), ("attributed", attributed)):
        for key in ("score", "ci_low", "ci_high"):
            columns[f"{side}_{key}"] = values[key][order]
        columns[f"{side}_significant"] = values["significant"][order]
    return columns


def latent_attributed_data(result: Importance, *, top: int | None = 20) -> Any:
    """Return the numbers behind :func:`latent_attributed`."""
    return frame_like(result, _both(result, top))


def latent_attributed(result: Importance, *, top: int | None = 20, ax: Axes | None = None) -> Axes:
    """Draw, for each feature, its latent score beside its attributed score.

    A line joins the two: to the right of its latent score, a feature receives signal from the
    features it is correlated with; to the left, it gives signal away.

    Parameters
    ----------
    result : Importance
        A result with its latent side.
    top : int or None, default=20
        How many features, by the larger of the two scores.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    shown = _both(result, top)
    n_shown = len(shown["feature"])
    ax = axes_for_rows(ax, n_shown)
    rows = np.arange(n_shown)
    ax.hlines(rows, shown["latent_score"], shown["attributed_score"], color=GREY, linewidth=1.5)
    for side, colour, marker, shift in (
        ("latent", ORANGE, "D", -0.16),
        ("attributed", BLUE, "o", 0.16),
    ):
        ax.hlines(
            rows + shift, shown[f"{side}_ci_low"], shown[f"{side}_ci_high"], color=colour, alpha=0.6
        )
        ax.plot(
            shown[f"{side}_score"],
            rows,
            linestyle="none",
            marker=marker,
            markersize=6,
            color=colour,
            label=side,
        )
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_ylim(n_shown - 0.4, -0.6)
    label_rows(ax, [str(name) for name in shown["feature"]])
    ax.set_xlabel("importance (variance of the outcome)", fontsize=9)
    if n_shown < len(result.names):
        ax.set_title(f"the {n_shown} largest of {len(result.names)}", loc="left", fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    quiet_frame(ax)
    return ax


def clustered_weights(result: Importance, top: int | None) -> tuple[Ints, Floats]:
    """Return the leading units, similar ones together, and the weights among them."""
    weights = attribution_of(result)
    chosen = np.sort(ranking(result.scores)[: check_top(top, len(result.names))])
    order = chosen[clustered_order(overlap(weights)[np.ix_(chosen, chosen)])]
    return order, weights[np.ix_(order, order)]


def attribution_data(result: Importance, *, top: int | None = 30) -> Any:
    """Return the weights behind :func:`attribution` as a long table: feature, latent, weight."""
    order, weights = clustered_weights(result, top)
    names = np.array(result.names, dtype=object)[order]
    return frame_like(
        result,
        {
            "feature": np.repeat(names, len(names)),
            "latent": np.tile(names, len(names)),
            "weight": weights.ravel(),
        },
    )


def attribution(result: Importance, *, top: int | None = 30, ax: Axes | None = None) -> Axes:
    r"""Draw the attribution weights :math:`W \circ W` as a heat map, similar features together.

    Row :math:`l`, column :math:`j`: the share of latent coordinate :math:`j` that is attributed
    to feature :math:`l`.

    Parameters
    ----------
    result : Importance
        A result with attribution weights.
    top : int or None, default=30
        How many features, the largest scores first. With None and hundreds of features only some
        labels are written; the pattern stays legible.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    order, weights = clustered_weights(result, top)
    side = float(min(max(4.0, 2.4 + 0.2 * len(order)), 12.0))
    ax = new_axes(side + 0.8, side) if ax is None else ax
    draw_heat_map(ax, weights, [result.names[k] for k in order], "share of the latent score")
    ax.set_xlabel("latent coordinate", fontsize=9)
    ax.set_ylabel("feature", fontsize=9)
    if len(order) < len(result.names):
        ax.set_title(f"the {len(order)} largest of {len(result.names)}", loc="left", fontsize=10)
    return ax


def draw_heat_map(ax: Axes, values: Floats, names: list[str], label: str) -> None:
    """Draw a labelled square heat map with values in [0, 1] where there is room for them."""
    # The square root gives the many small weights a colour of their own.
    highest = max(1.0, float(np.max(values)))
    image = ax.imshow(values, cmap=HEAT_MAP, norm=PowerNorm(0.5, vmin=0.0, vmax=highest))
    ax.set_aspect("auto")
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylim(len(names) - 0.5, -0.5)
    label_rows(ax, names, width=22)
    label_rows(ax, names, axis="x", width=16, rotation=90)
    if len(names) <= 8:
        for (row, column), value in np.ndenumerate(values):
            ax.text(
                column,
                row,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color="black" if value > 0.3 * highest else "white",
            )
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label(label, fontsize=9)


def _amplification(result: Importance) -> dict[str, Any]:
    latent = latent_of(result)
    columns = result_columns(result)
    latent_score = np.asarray(latent.scores)
    safe = np.where(latent_score > 0, latent_score, np.nan)
    found = {
        "feature": columns["feature"],
        "latent_score": latent_score,
        "attributed_score": columns["score"],
        "amplification": columns["score"] / safe,
        "significant": columns["significant"],
    }
    return take(found, ranking(result.scores))


def amplification_data(result: Importance) -> Any:
    """Return the numbers behind :func:`amplification`, for all features."""
    return frame_like(result, _amplification(result))


def amplification(result: Importance, *, top: int | None = 8, ax: Axes | None = None) -> Axes:
    r"""Draw the attributed score of each feature against its latent score.

    On the diagonal a feature keeps what its latent coordinate carries; above it, the transport
    amplifies it: it receives signal that it shares with correlated features.

    Parameters
    ----------
    result : Importance
        A result with its latent side.
    top : int or None, default=8
        How many features are named; all are drawn.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    shown = _amplification(result)
    ax = new_axes(5.6, 5.2) if ax is None else ax
    x, y = shown["latent_score"], shown["attributed_score"]
    low = float(min(x.min(), y.min(), 0.0))
    high = float(max(x.max(), y.max())) or 1.0
    ax.axline((0.0, 0.0), slope=1.0, color=GREY, linestyle="--", linewidth=1.0, label="equal")
    for chosen, colour, marker, label in (
        (~shown["significant"], GREY, "o", "not significant"),
        (shown["significant"], BLUE, "D", "significant"),
    ):
        if chosen.any():
            ax.plot(
                x[chosen],
                y[chosen],
                linestyle="none",
                marker=marker,
                markersize=5,
                markerfacecolor=colour if label == "significant" else "none",
                markeredgecolor=colour,
                label=label,
            )
    margin = 0.06 * (high - low)
    ax.set_xlim(low - margin, high + 3 * margin)
    ax.set_ylim(low - margin, high + 2 * margin)
    _name_points(ax, x, y, shown["feature"], check_top(top, len(x)))
    ax.set_xlabel("latent score", fontsize=9)
    ax.set_ylabel("attributed score", fontsize=9)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    quiet_frame(ax)
    return ax


def _name_points(ax: Axes, x: Floats, y: Floats, names: Any, count: int) -> None:
    """Name the first points whose label does not cover one that is already written."""
    box = ax.get_window_extent()
    (x_low, x_high), (y_low, y_high) = ax.get_xlim(), ax.get_ylim()
    points = np.column_stack(
        [(x - x_low) / (x_high - x_low) * box.width, (y - y_low) / (y_high - y_low) * box.height]
    )
    scale = ax.figure.dpi / 72.0
    labels = short_names([str(name) for name in names[:count]], 18)
    written: list[tuple[float, float, float, float]] = []
    for k in range(count):
        text = labels[k]
        width, height = 5.2 * scale * len(text), 11.0 * scale
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
            text,
            (float(x[k]), float(y[k])),
            xytext=(-6 if left else 6, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
            parse_math=False,
        )
