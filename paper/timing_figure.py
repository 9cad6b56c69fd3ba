"""The figure of computing times: two panels, ratios against DFI, and what was scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from sklearn.isotonic import isotonic_regression

from paper.reproduction import Study
from paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, quiet_frame
from paper.timing import METHODS, grid, timing_tasks
from paper.writing import markdown_table, save_figure, shown, write_csv, write_page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from paper.reproduction import Record, Records, Size
    from paper.timing import Grid

NAME = "figure-time"
TITLE = "Figure of computing times"
BASE = "DFI, exact"
COLOURS = {
    "DFI, exact": BLUE,
    "DFI, 50 draws": SKY,
    "LOCO": ORANGE,
    "nLOCO": VERMILION,
    "dLOCO": PURPLE,
    "Shapley": GREEN,
    "CPI": BLACK,
    "fdfi": SKY,
    "hidimstat CFI": BLACK,
    "hidimstat LOCO": ORANGE,
    "shap.TreeExplainer": GREY,
}
OTHERS = ("fdfi", "hidimstat CFI", "hidimstat LOCO", "shap.TreeExplainer")
"""Other packages: dashed."""

BARE = ("DFI, exact", "DFI, 50 draws")
"""Methods that are drawn without the fits too: dotted."""

LABEL_GAP = 0.042
"""Between the labels of two curves, as a share of the axis' height."""

REMARKS = (
    "The paper: DFI is significantly faster than methods that account for correlation too, dLOCO "
    'and sampled Shapley values; its time "includes the estimation of transport plans and '
    'importance scores". Both readings are given here: with the fits of the full models, and '
    "without them."
)


@dataclass(frozen=True)
class Cost:
    """Seconds of a method at one size of sample, the median of the replications.

    Attributes
    ----------
    fit, scores : float
        Of the full models' fits, and of all that follows.
    scaled : bool
        Whether smaller forests were grown.
    """

    fit: float
    scores: float
    scaled: bool

    @property
    def total(self) -> float:
        """Fits and scores."""
        return self.fit + self.scores


Costs = dict[tuple[str, int, int], Cost]


def collect_costs(records: Records) -> Costs:
    """Return the costs by method, rows and columns; methods not installed are not there."""
    found: dict[tuple[str, int, int], list[Record]] = {}
    for record in records.values():
        if record["installed"]:
            found.setdefault((record["method"], record["n"], record["d"]), []).append(record)
    return {
        key: Cost(
            float(np.median([record["fit"] for record in group])),
            float(np.median([record["scores"] for record in group])),
            any(record["grown"] < record["trees"] for record in group),
        )
        for key, group in found.items()
    }


def write_timing(records: Records, folder: Path, size: Size) -> None:
    """Write the table of seconds, the figure and the page."""
    costs, points = collect_costs(records), grid(size)
    write_csv(folder / f"{NAME}.csv", [_csv_row(record) for record in records.values()])
    figure = Figure(figsize=(15.0, 6.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    d, n = points.at_columns, points.at_rows
    draw_panel(left, costs, [(rows, d) for rows in points.rows], 0, "rows $n$")
    left.set_title(f"(a) over rows, d = {d}", loc="left", fontsize=11)
    left.set_ylabel("CPU seconds")
    draw_panel(right, costs, [(n, columns) for columns in points.columns], 1, "columns $d$")
    right.set_title(f"(b) over columns, n = {n}", loc="left", fontsize=11)
    figure.canvas.draw()
    for ax in (left, right):
        _part_labels(ax)
    save_figure(figure, folder / f"{NAME}.png")
    write_page(folder / f"{NAME}.md", *_blocks(records, costs, points, size))


def draw_panel(
    ax: Axes, costs: Costs, points: Sequence[tuple[int, int]], axis: int, label: str
) -> None:
    """Draw the curve of every method, log-log, its name at its end."""
    at = [point[axis] for point in points]
    for method in METHODS:
        if (method, *points[0]) not in costs:
            continue
        curve = [costs[(method, *point)] for point in points]
        colour, scaled = COLOURS[method], any(cost.scaled for cost in curve)
        ax.plot(
            at, [cost.total for cost in curve], "--" if method in OTHERS else "-", color=colour,
            marker="o", ms=5, lw=2.4 if method == BASE else 1.5,
            markerfacecolor="white" if scaled else colour,
        )  # fmt: skip
        _end_label(ax, at[-1], curve[-1].total, method + (" †" if scaled else ""), colour)
        if method in BARE:
            ax.plot(at, [cost.scores for cost in curve], ":", color=colour, marker="o", ms=3)
            _end_label(ax, at[-1], curve[-1].scores, f"{method}, without fits", colour)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(at, [str(value) for value in at])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(label)
    ax.set_xlim(at[0] * 0.93, at[-1] * (at[-1] / at[0]) ** 0.42)
    ax.grid(axis="y", lw=0.4, color="#DDDDDD")
    quiet_frame(ax)


def _end_label(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    ax.annotate(
        text, (x, y), xytext=(12, 0), textcoords="offset points", va="center", fontsize=9,
        color=colour, annotation_clip=False,
        arrowprops={"arrowstyle": "-", "lw": 0.5, "color": colour, "shrinkA": 0, "shrinkB": 4},
    )  # fmt: skip


def _part_labels(ax: Axes) -> None:
    """Move the labels at the ends of the curves apart, as little as possible in squares.

    With a gap ``g`` between neighbours, the heights less ``0, g, 2g, ...`` need only be in order:
    an isotonic regression.
    """
    texts = sorted(ax.texts, key=lambda text: text.xy[1])  # type: ignore[attr-defined]
    height = ax.get_window_extent().height
    wanted = np.array([ax.transData.transform(text.xy)[1] for text in texts])  # type: ignore[attr-defined]
    steps = LABEL_GAP * height * np.arange(len(texts))
    placed = isotonic_regression(wanted - steps) + steps
    points = 72.0 / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    for text, value, own in zip(texts, placed, wanted, strict=True):
        text.set_position((20, (value - own) * points))


def _csv_row(record: Record) -> dict[str, object]:
    seconds = {name: record.get(name, "") for name in ("fit", "scores")}
    return {
        "method": record["method"],
        "n": record["n"],
        "d": record["d"],
        "seed": record["seed"],
        "trees": record["trees"],
        "trees_grown": record["grown"],
        "fit_seconds": seconds["fit"],
        "score_seconds": seconds["scores"],
        "total_seconds": seconds["fit"] + seconds["scores"] if record["installed"] else "",
        "status": "measured" if record["installed"] else "not installed",
    }


def _blocks(records: Records, costs: Costs, points: Grid, size: Size) -> list[str]:
    d, n = points.at_columns, points.at_rows
    over_rows = [(rows, d) for rows in points.rows]
    over_columns = [(n, columns) for columns in points.columns]
    missing = [method for method in METHODS if (method, *over_rows[0]) not in costs]
    absent = f"Not installed, so left out: {', '.join(missing)}." if missing else ""
    blocks = [f"# {TITLE}", REMARKS, f"![{TITLE}]({NAME}.png)", _caption(records, size), absent]
    blocks.append(_verdict(costs, max(over_rows), max(over_columns)))
    for title, place, sizes in (
        (f"Over rows, d = {d}", "n = {0}", over_rows),
        (f"Over columns, n = {n}", "d = {1}", over_columns),
    ):
        headings = ["method", *(place.format(*point) for point in sizes)]
        for words, part in (("with the fits", "total"), ("without the fits", "scores")):
            blocks.append(f"## {title}: {words} of the full models")
            blocks.append(markdown_table(headings, _ratio_rows(costs, sizes, part)))
    return blocks


def _caption(records: Records, size: Size) -> str:
    first = next(record for record in records.values() if record["installed"])
    trees = first["trees"]
    fewer = min(record["grown"] for record in records.values())
    replications = len({record["seed"] for record in records.values()})
    scaled = (
        f" † and open markers: methods that refit forests grew {fewer} trees in each, and their "
        f"seconds were multiplied by {shown(trees / fewer)}."
        if fewer < trees
        else ""
    )
    return (
        f"Run at {size.words}: M1 with ρ = 0.8, forests of {trees} trees with at least five rows "
        f"per leaf, two folds, {replications} replication{'s' if replications > 1 else ''}. CPU "
        "seconds of one thread, one method at a time; every method ran on a small sample first, "
        "so that neither compilation nor imports are counted. *DFI, exact* includes the standard "
        "errors that account for the estimated transport; *DFI, 50 draws* is the published "
        f"estimator with its own. Shapley values use {100 if size.full else 20} sampled "
        "coalitions; dLOCO gives each row the feature of 50 others (the paper: 1000 samples); CPI "
        "draws 50 conditional values from a regression of each feature on the others, a forest "
        "like the outcome's. fdfi draws 50 values, hidimstat's CFI 50 permutations with its own "
        "default regression of a feature, shap explains the held-out rows path-dependently. "
        "Dashed: other packages, given the same forests on the same numbers of rows. Dotted: "
        f"without the fits of the full models.{scaled} In the tables: seconds, and in parentheses "
        f"the ratio to *{BASE}*. Times belong to the machine that they were taken on; read the "
        "ratios."
    )


def _verdict(costs: Costs, *largest: tuple[int, int]) -> str:
    """Say by how much DFI was quicker at the largest sizes, or was not."""
    lines = []
    for n, d in largest:
        base = costs[(BASE, n, d)].total
        ratios = {
            method: costs[(method, n, d)].total / base
            for method in METHODS
            if method != BASE and (method, n, d) in costs
        }
        slower = sorted(ratios, key=lambda method: ratios[method])
        text = ", ".join(f"{method} {_digits(ratios[method])}" for method in slower)
        quicker = [method for method in slower if ratios[method] < 1]
        claim = f"quicker than it: {', '.join(quicker)}" if quicker else "none is quicker than it"
        lines.append(f"- At n = {n}, d = {d}, fits included, relative to {BASE}: {text}; {claim}.")
    return "\n".join(lines)


def _digits(value: float) -> str:
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def _ratio_rows(
    costs: Costs, points: Sequence[tuple[int, int]], part: str
) -> list[list[str | None]]:
    rows: list[list[str | None]] = []
    for method in METHODS:
        cells: list[str | None] = [method]
        for point in points:
            cost = costs.get((method, *point))
            if cost is None:
                cells.append("not installed")
                continue
            seconds = getattr(cost, part)
            ratio = seconds / getattr(costs[(BASE, *point)], part)
            mark = " †" if cost.scaled else ""
            cells.append(f"{_digits(seconds)}{mark} ({_digits(ratio)})")
        rows.append(cells)
    return rows


TIME = Study(NAME, TITLE, timing_tasks, write_timing)
