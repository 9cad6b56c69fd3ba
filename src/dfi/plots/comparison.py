"""Several results side by side: small multiples of methods, ranks over settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

from dfi.plots.columns import frame_like, ranking, result_columns
from dfi.plots.style import (
    BLUE,
    CYCLE,
    GREY,
    MAX_HEIGHT,
    ROW_HEIGHT,
    check_top,
    label_rows,
    new_axes,
    quiet_frame,
    short_names,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dfi._types import Ints
    from dfi.results.importance import Importance

MANY_METHODS = 5


def read_results(results: Any) -> dict[str, Importance]:
    """Return results by label, from a mapping or from an object that holds one.

    Raises
    ------
    ValueError
        There are none, or they are about different units.
    """
    held = results if isinstance(results, Mapping) else getattr(results, "results", None)
    if isinstance(held, tuple) and hasattr(results, "labels"):
        held = dict(zip(results.labels, held, strict=True))
    if not isinstance(held, Mapping):
        raise TypeError(
            "pass {label: result, ...} or a comparison whose .results is such a mapping, "
            f"got {type(results).__name__}"
        )
    found = {str(label): result for label, result in held.items()}
    if not found:
        raise ValueError("there are no results to draw")
    first = next(iter(found.values()))
    for label, result in found.items():
        if set(result.names) != set(first.names):
            raise ValueError(f"the result {label!r} is about other units than the first one")
    return found


def _aligned(results: Mapping[str, Importance]) -> dict[str, dict[str, Any]]:
    """Return the columns of every result in the order of the first one's names."""
    names = next(iter(results.values())).names
    aligned = {}
    for label, result in results.items():
        place = {name: k for k, name in enumerate(result.names)}
        order = np.array([place[name] for name in names], dtype=np.intp)
        aligned[label] = {key: values[order] for key, values in result_columns(result).items()}
    return aligned


def _shares(columns: dict[str, Any]) -> dict[str, Any]:
    total = float(np.sum(columns["score"]))
    scale = total if total > 0 else np.nan
    return {
        **columns,
        **{key: columns[key] / scale for key in ("score", "se", "ci_low", "ci_high")},
    }


def _compared(
    results: Mapping[str, Importance], top: int | None, share: bool
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    aligned = _aligned(results)
    if share:
        aligned = {label: _shares(columns) for label, columns in aligned.items()}
    names = next(iter(results.values())).names
    first = next(iter(aligned.values()))["score"]
    order = ranking(first)[: check_top(top, len(names))]
    chosen = {
        label: {key: values[order] for key, values in columns.items()}
        for label, columns in aligned.items()
    }
    return [names[k] for k in order], chosen


def comparison_data(results: Any, *, top: int | None = 15, share: bool = False) -> Any:
    """Return the numbers behind :func:`comparison` as a long table, one row per method and unit."""
    found = read_results(results)
    names, columns = _compared(found, top, share)
    return frame_like(
        next(iter(found.values())),
        {
            "method": np.repeat(np.array(list(columns), dtype=object), len(names)),
            "feature": np.tile(np.array(names, dtype=object), len(columns)),
            **{
                key: np.concatenate([values[key] for values in columns.values()])
                for key in ("score", "ci_low", "ci_high", "p_adj", "significant")
            },
        },
    )


def comparison(
    results: Any,
    *,
    top: int | None = 15,
    share: bool = False,
    axes: Sequence[Axes] | None = None,
) -> NDArray[Any]:
    """Draw methods side by side, one panel each, the features in the order of the first.

    Parameters
    ----------
    results : mapping of str to Importance, or a comparison
        The methods.
    top : int or None, default=15
        How many features, by the score of the first method.
    share : bool, default=False
        Draw shares of each method's total instead of scores, for methods on other scales.
    axes : sequence of Axes, optional
        One for each method; a new figure by default.

    Returns
    -------
    ndarray of Axes
    """
    found = read_results(results)
    names, columns = _compared(found, top, share)
    if axes is None:
        per_row = min(len(found), MANY_METHODS)
        n_lines = -(-len(found) // per_row)
        height = min(n_lines * (1.2 + ROW_HEIGHT * len(names)), MAX_HEIGHT)
        _, grid = plt.subplots(
            n_lines,
            per_row,
            figsize=(2.2 + 2.1 * per_row, height),
            layout="constrained",
            sharex=share,
            squeeze=False,
        )
        panels = list(grid.ravel())
        for spare in panels[len(found) :]:
            spare.remove()
        panels = panels[: len(found)]
    else:
        panels, per_row = list(axes), 1 if len(axes) == 0 else len(axes)
        if len(panels) != len(found):
            raise ValueError(f"{len(found)} methods need {len(found)} axes, got {len(panels)}")
    rows = np.arange(len(names))
    for position, (ax, (label, values)) in enumerate(zip(panels, columns.items(), strict=True)):
        significant = values["significant"]
        ax.barh(rows, values["score"], height=0.66, color="none", edgecolor=GREY)
        ax.barh(rows[significant], values["score"][significant], height=0.66, color=BLUE)
        ax.hlines(rows, values["ci_low"], values["ci_high"], color="black", linewidth=1.2)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_title(shorten(label, 22), fontsize=10, parse_math=False)
        ax.set_xlabel("share of the total" if share else "score", fontsize=9)
        ax.tick_params(axis="x", labelsize=8)
        ax.locator_params(axis="x", nbins=4)
        if position % per_row == 0:
            label_rows(ax, names, width=24)
        else:
            ax.set_yticks(rows, labels=[])
        quiet_frame(ax)
    return np.array(panels, dtype=object)


def _ranks(results: Mapping[str, Importance]) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    aligned = _aligned(results)
    names = list(next(iter(results.values())).names)
    ranks, scores = {}, {}
    for label, columns in aligned.items():
        scores[label] = columns["score"]
        ranks[label] = np.argsort(ranking(columns["score"])) + 1
    return names, ranks, scores


def sensitivity_data(results: Any, *, top: int | None = 12) -> Any:
    """Return the numbers behind :func:`sensitivity`: setting, feature, rank and score."""
    found = read_results(results)
    names, ranks, scores = _ranks(found)
    chosen = _leading(ranks, check_top(top, len(names)))
    return frame_like(
        next(iter(found.values())),
        {
            "setting": np.repeat(np.array(list(ranks), dtype=object), len(chosen)),
            "feature": np.tile(np.array(names, dtype=object)[chosen], len(ranks)),
            "rank": np.concatenate([values[chosen] for values in ranks.values()]),
            "score": np.concatenate([values[chosen] for values in scores.values()]),
        },
    )


def _leading(ranks: Mapping[str, Any], top: int) -> Ints:
    """Return the units that lead in the first setting, in its order."""
    return np.argsort(next(iter(ranks.values())), kind="stable")[:top]


def sensitivity(results: Any, *, top: int | None = 12, ax: Axes | None = None) -> Axes:
    """Draw how the ranks of the leading features move over settings (a bump chart).

    Parameters
    ----------
    results : mapping of str to Importance, or a sensitivity analysis
        One result per setting (epsilon, transport, learner, ...), in the order to draw them.
    top : int or None, default=12
        How many features, by the score under the first setting.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    found = read_results(results)
    names, ranks, _ = _ranks(found)
    chosen = _leading(ranks, check_top(top, len(names)))
    if ax is None:
        ax = new_axes(3.6 + 1.1 * len(ranks), float(min(1.5 + 0.32 * len(chosen), MAX_HEIGHT)))
    settings = np.arange(len(ranks))
    table = np.array([values[chosen] for values in ranks.values()])
    # Ranks beyond what is shown are drawn in the last row: "further down".
    floor = len(chosen) + 1
    shown = np.minimum(table, floor)
    markers = "osD^v<>"
    labels = short_names([names[unit] for unit in chosen], 22)
    for k in range(len(chosen)):
        ax.plot(
            settings,
            shown[:, k],
            color=CYCLE[k % len(CYCLE)],
            marker=markers[(k // len(CYCLE)) % len(markers)],
            linewidth=2.0,
            markersize=6,
            label=labels[k],
        )
    ticks = np.arange(1, len(chosen) + 1)
    ax.set_yticks(
        ticks,
        labels=[f"{label}  {k + 1}" for k, label in enumerate(labels)],
        parse_math=False,
        fontsize=9,
    )
    last = np.argsort(shown[-1], kind="stable")
    right = ax.secondary_yaxis("right")
    inside = [k for k in last if table[-1, k] < floor]
    right.set_yticks(
        [int(table[-1, k]) for k in inside],
        labels=[f"{table[-1, k]}  {labels[k]}" for k in inside],
        parse_math=False,
        fontsize=9,
    )
    # A setting is known by the whole of its name: rather turned than cut.
    turned = len(ranks) > 5 or max(map(len, ranks)) > 14
    ax.set_xticks(
        settings,
        labels=short_names(list(ranks), 32),
        parse_math=False,
        fontsize=9,
        rotation=30 if turned else 0,
        rotation_mode="anchor" if turned else None,
        horizontalalignment="right" if turned else "center",
    )
    ax.set_xlabel("setting", fontsize=9)
    ax.set_xlim(-0.3, len(ranks) - 0.7)
    ax.set_ylim(floor + 0.4 if (table >= floor).any() else len(chosen) + 0.5, 0.5)
    ax.set_ylabel("rank", fontsize=9)
    for spines in (ax.spines, right.spines):
        for side in spines:
            spines[side].set_visible(False)
    return ax
