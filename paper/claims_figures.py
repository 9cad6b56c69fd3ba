"""The figures of the page "What holds and what does not"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from paper.style import BLACK, BLUE, ORANGE, VERMILION, quiet_frame
from paper.writing import save_figure

if TYPE_CHECKING:
    from pathlib import Path

    from paper.reproduction import Record


def draw_variance(record: Record, path: Path) -> None:
    """Draw the variance of Z and its correlation with X against epsilon."""
    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    epsilon = np.asarray(record["epsilon"])
    judges = record["referee"]
    for ax, published, exact, key in (
        (left, record["published_variance"], np.ones_like(epsilon), "variance"),
        (right, record["published_correlation"], record["bridge_correlation"], "correlation"),
    ):
        ax.plot(epsilon, published, "o-", color=ORANGE, label="published: s = 2/(2 + ε)")
        ax.plot(epsilon, exact, "s-", color=BLUE, label="exact bridge: s = √(1 + ε²/16) - ε/4")
        ax.plot(
            record["refereed"], [judge[key] for judge in judges],
            "x", color=BLACK, ms=9, mew=1.8, zorder=5, label="Sinkhorn on a grid",
        )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlabel("ε")
        quiet_frame(ax)
    left.set_ylim(0.7, 1.03)
    left.set_title("variance of Z, which is to be 1", loc="left", fontsize=11)
    right.set_ylim(0.0, 1.03)
    right.set_title("correlation of Z with whitened X", loc="left", fontsize=11)
    right.legend(frameon=False, loc="lower left")
    save_figure(figure, path)


def draw_drawing(record: Record, path: Path) -> None:
    """Draw the bias of drawing against the number of draws, relative to the score."""
    figure = Figure(figsize=(6.8, 4.4), layout="constrained")
    ax = figure.subplots()
    draws = np.asarray(record["draws"], dtype=float)
    bias, error = np.asarray(record["bias"]), np.asarray(record["bias_error"])
    ax.plot(draws, 1.0 / draws, color=BLACK, lw=1.0, label="theory: 1/m")
    for j, (colour, marker) in enumerate(((BLUE, "s"), (VERMILION, "o"))):
        truth = record["truth"][j]
        ax.errorbar(
            draws * (0.97 if j == 0 else 1.03), bias[:, j] / truth, yerr=error[:, j] / truth,
            color=colour, marker=marker, ls="", ms=5, label=f"latent score {j + 1} (φ = {truth:g})",
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(draws, [f"{m:g}" for m in draws])
    ax.minorticks_off()
    levels = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
    ax.set_yticks(levels, [f"{100 * level:g} %" for level in levels])
    ax.set_xlabel("draws m per line")
    ax.set_ylabel("bias of the score, in % of it")
    ax.legend(frameon=False)
    quiet_frame(ax)
    save_figure(figure, path)
