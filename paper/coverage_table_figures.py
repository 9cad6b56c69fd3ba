"""The figures of the coverage table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from paper.coverage_table import AWARE, AWARE_BELOW, CORRELATIONS, PLAIN, SAMPLE_SIZES
from paper.coverage_table_cells import BAND, NULLS_LABEL, paper_coverage, select
from paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILION, quiet_frame
from paper.writing import save_figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from paper.coverage_table_cells import Coverage


def _band(ax: Axes) -> None:
    ax.axhspan(*BAND, color=GREEN, alpha=0.15, lw=0)
    ax.axhline(0.9, color=BLACK, lw=0.7, ls=":")
    ax.set_ylim(-0.03, 1.04)
    quiet_frame(ax)


LINES = (
    ("linear", PLAIN, "least squares, plain", ORANGE, "o", "-"),
    ("linear", AWARE, "least squares, transport-aware", BLUE, "s", "-"),
    ("oracle", PLAIN, "true regression, plain", ORANGE, "o", "--"),
    ("oracle", AWARE, "true regression, transport-aware", BLUE, "s", "--"),
    ("forest-loco", PLAIN, "forest (the paper's setting), plain", VERMILION, "^", "-"),
)


def draw_grid(rows: Sequence[Coverage], path: Path) -> None:
    """Draw coverage against n: a row of panels per feature, a column per correlation."""
    figure = Figure(figsize=(12.5, 9.5), layout="constrained")
    grid = figure.subplots(3, len(CORRELATIONS), sharex=True, sharey=True)
    for line, feature in zip(grid, (NULLS_LABEL, "X1", "X2"), strict=True):
        for ax, rho in zip(line, CORRELATIONS, strict=True):
            _band(ax)
            here = select(rows, rho=rho, feature=feature, epsilon=0.0, method="DFI")
            for k, (family, interval, label, colour, marker, style) in enumerate(LINES):
                points = sorted(select(here, family=family, interval=interval), key=_by_size)
                if points:
                    at = np.array([row.n for row in points], dtype=float) + 5.0 * (k - 2)
                    ax.errorbar(
                        at, [row.share for row in points], yerr=[row.error for row in points],
                        color=colour, marker=marker, ls=style, ms=5, lw=1.4, label=label,
                        mfc=colour if style == "-" else "white",
                    )  # fmt: skip
            if feature == NULLS_LABEL:
                theirs = [paper_coverage("DFI", 0.0, rho, n) for n in SAMPLE_SIZES]
                ax.plot(
                    SAMPLE_SIZES,
                    theirs,
                    "x",
                    color=BLACK,
                    ms=8,
                    mew=1.6,
                    zorder=5,
                    label="the paper",
                )
            null = feature == NULLS_LABEL or (feature == "X2" and rho == 0)
            ax.set_title(
                f"{feature}{' (null)' if null else ''}, ρ = {rho:g}", loc="left", fontsize=11
            )
    for ax in grid[-1]:
        ax.set_xticks(SAMPLE_SIZES)
        ax.set_xlabel("n")
    for ax in grid[:, 0]:
        ax.set_ylabel("coverage, nominal 0.9")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    save_figure(figure, path)


def _by_size(row: Coverage) -> int:
    return row.n


LEARNED = {
    "oracle": "true regression",
    "linear-loco": "least squares, LOCO-type",
    "linear": "least squares, cross",
    "boosting-loco": "boosting, LOCO-type",
    "boosting": "boosting, cross",
    "forest-loco": "forest, LOCO-type, 2 folds",
    "forest": "forest, cross",
}


def draw_learned(rows: Sequence[Coverage], path: Path) -> None:
    """Draw the coverage of every regression and form at one sample size."""
    n = _common_size(rows)
    figure = Figure(figsize=(12.5, 4.6), layout="constrained")
    grid = figure.subplots(1, 3, sharey=True)
    places = np.arange(len(LEARNED))
    kinds = (
        (PLAIN, "plain", ORANGE, "o"),
        (AWARE_BELOW, "transport-aware, not projected", GREY, "D"),
        (AWARE, "transport-aware", BLUE, "s"),
    )
    for ax, feature in zip(grid, (NULLS_LABEL, "X1", "X2"), strict=True):
        ax.axvspan(*BAND, color=GREEN, alpha=0.15, lw=0)
        ax.axvline(0.9, color=BLACK, lw=0.7, ls=":")
        for k, (interval, label, colour, marker) in enumerate(kinds):
            if interval == AWARE_BELOW and feature != NULLS_LABEL:
                continue
            here = select(rows, rho=0.8, n=n, feature=feature, epsilon=0.0, interval=interval)
            by_family = {row.family: row for row in here if row.method == "DFI"}
            found = [by_family[name] for name in LEARNED if name in by_family]
            at = [places[list(LEARNED).index(row.family)] + 0.2 * (k - 1) for row in found]
            ax.errorbar(
                [row.share for row in found], at, xerr=[row.error for row in found],
                color=colour, marker=marker, ls="", ms=6, label=label,
            )  # fmt: skip
        ax.set_title(f"{feature}, ρ = 0.8, n = {n}", loc="left", fontsize=11)
        ax.set_xlabel("coverage, nominal 0.9")
        ax.set_xlim(-0.03, 1.04)
        quiet_frame(ax)
    grid[0].set_yticks(places, list(LEARNED.values()))
    grid[0].invert_yaxis()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    save_figure(figure, path)


def _common_size(rows: Sequence[Coverage]) -> int:
    """Return the largest sample size at which every regression was run, else its own largest."""
    sizes = [{row.n for row in select(rows, family=name)} for name in LEARNED]
    common = set.intersection(*sizes)
    return max(common or set().union(*sizes))
