"""The figure of the HIV-1 analysis in its six panels, and the spread of it over random splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from scipy import stats

from paper.hiv import ALPHA, DEPENDENCE, SE_KINDS
from paper.style import BLACK, BLUE, GREY, HEAT_MAP, ORANGE, SKY, VERMILION, quiet_frame
from paper.writing import save_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from paper.reproduction import Record, Records

    Floats = NDArray[np.float64]

DRAWN_SE = SE_KINDS[1]
"""The standard errors of the figure."""


@dataclass(frozen=True)
class Splits:
    """The records of one estimator of one outcome, a row per random split.

    Attributes
    ----------
    outcome, estimator : str
        What was explained, and how.
    records : tuple of dict
        See :func:`paper.hiv.explain_table`.
    """

    outcome: str
    estimator: str
    records: tuple[Record, ...]

    @property
    def scores(self) -> Floats:
        """Attributed group scores, (splits, groups)."""
        return self._stack(lambda record: record["scores"])

    @property
    def latent(self) -> Floats:
        """Latent group scores, (splits, groups)."""
        return self._stack(lambda record: record["latent"])

    @property
    def flow(self) -> Floats:
        """Mean over splits of what latent groups (columns) give to groups (rows)."""
        return np.asarray(self._stack(lambda record: record["flow"]).mean(axis=0))

    def se(self, kind: str = DRAWN_SE) -> Floats:
        """Return standard errors of the attributed scores, (splits, groups)."""
        return self._stack(lambda record: record["se"][kind])

    def z(self, kind: str = DRAWN_SE) -> Floats:
        """Return Z-scores, (splits, groups)."""
        return self.scores / self.se(kind)

    def _stack(self, part: Callable[[Record], object]) -> Floats:
        rows = [part(record) for record in self.records]
        return np.asarray(rows, dtype=np.float64)

    @property
    def error(self) -> Floats:
        """Standard errors of the scores that are drawn, (groups,)."""
        return np.asarray(self.se().mean(axis=0))

    @property
    def order(self) -> NDArray[np.intp]:
        """Groups by their mean attributed score, the largest first."""
        return np.argsort(-self.scores.mean(axis=0), kind="stable")

    @property
    def spread(self) -> Floats:
        """Standard deviation of the attributed scores over splits; 0 with a single one."""
        if len(self.records) < 2:
            return np.zeros(self.scores.shape[1])
        return np.asarray(self.scores.std(axis=0, ddof=1))


def collect(records: Records) -> dict[tuple[str, str], Splits]:
    """Return the records by outcome and estimator, splits in order."""
    found: dict[tuple[str, str], list[Record]] = {}
    for key, record in records.items():
        if key != DEPENDENCE:
            found.setdefault((record["outcome"], record["estimator"]), []).append(record)
    return {
        (outcome, estimator): Splits(
            outcome, estimator, tuple(sorted(rows, key=lambda record: int(record["split"])))
        )
        for (outcome, estimator), rows in found.items()
    }


def critical_values(n_groups: int) -> tuple[float, float]:
    """Return the one-sided critical values at alpha alone and after Bonferroni's correction."""
    return float(stats.norm.isf(ALPHA)), float(stats.norm.isf(ALPHA / n_groups))


def stars(z: Floats) -> list[str]:
    """Return a colour for each group: significant alone, after correction, or neither."""
    alone, corrected = critical_values(len(z))
    return [VERMILION if value >= corrected else ORANGE if value >= alone else GREY for value in z]


TITLES = (
    "group scores, one standard error",
    "Z-scores, one-sided (line: range over splits)",
    "groups (number of features)",
    "mean absolute correlation between members",
    "latent against attributed score",
    "backward attribution: from latent groups (columns)",
)
AXES = (
    "attributed importance (share of the outcome's variance)",
    "Z-score of the attributed importance",
    r"latent score $\phi_Z$",
    r"attributed score $\phi_X$",
)


def draw_real_data(
    splits: Splits,
    about: Record,
    path: Path,
    titles: Sequence[str] = TITLES,
    axes: Sequence[str] = AXES,
) -> None:
    """Draw the six panels of the paper's figure.

    Parameters
    ----------
    splits : Splits
        What is drawn: means over splits.
    about : dict
        Names, descriptions, sizes and correlation of the groups.
    path : Path
        The PNG file.
    titles, axes : sequence of str
        Of the panels, and of the axes of scores, Z-scores and the two that are compared.
    """
    figure = Figure(figsize=(17.0, 11.6), layout="constrained")
    panels = figure.subplots(2, 3, width_ratios=[1.0, 1.0, 1.06])
    order = splits.order
    labels = [f"{k + 1} {about['groups'][k]}" for k in order]
    colours = stars(splits.z().mean(axis=0)[order])
    _draw_scores(panels[0, 0], splits, labels, colours)
    _draw_z(panels[0, 1], splits, labels, colours)
    _draw_descriptions(panels[0, 2], about, order, colours)
    correlation = np.asarray(about["correlation"], dtype=np.float64)[np.ix_(order, order)]
    # The square root tells the many small correlations apart.
    shades = PowerNorm(0.5, vmin=float(correlation.min()), vmax=float(correlation.max()))
    _draw_square(
        panels[1, 0], correlation, labels, "mean |correlation|", "group",
        cmap=HEAT_MAP, norm=shades,
    )  # fmt: skip
    _draw_amplification(panels[1, 1], splits, order, colours)
    flow = splits.flow[np.ix_(order, order)]
    reach = float(np.abs(flow).max()) or 1.0
    # Estimates below 0 are kept: white is 0.
    _draw_square(
        panels[1, 2], flow, labels, "score received", "latent group",
        cmap="PuOr_r", vmin=-reach, vmax=reach,
    )  # fmt: skip
    names = (panels[0, 0].set_xlabel, panels[0, 1].set_xlabel)
    for name, text in zip(
        (*names, panels[1, 1].set_xlabel, panels[1, 1].set_ylabel), axes, strict=True
    ):
        name(text)
    for letter, ax, title in zip("abcdef", panels.ravel(), titles, strict=True):
        ax.set_title(f"({letter}) {title}", loc="left", fontsize=11)
    save_figure(figure, path)


def _label_groups(ax: Axes, labels: Sequence[str]) -> None:
    ax.set_yticks(range(len(labels)), labels, fontsize=10, parse_math=False)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def _draw_scores(ax: Axes, splits: Splits, labels: Sequence[str], colours: Sequence[str]) -> None:
    order = splits.order
    rows = np.arange(len(order))
    ax.barh(
        rows, splits.scores.mean(axis=0)[order], xerr=splits.error[order], height=0.7,
        color=list(colours), error_kw={"elinewidth": 1.1, "capsize": 2.5, "ecolor": "#333333"},
    )  # fmt: skip
    ax.axvline(0.0, color=BLACK, lw=0.8)
    _label_groups(ax, labels)
    quiet_frame(ax)


def _draw_z(ax: Axes, splits: Splits, labels: Sequence[str], colours: Sequence[str]) -> None:
    z = splits.z()[:, splits.order]
    rows = np.arange(z.shape[1])
    ax.hlines(rows, z.min(axis=0), z.max(axis=0), color=GREY, lw=1.4)
    ax.scatter(z.mean(axis=0), rows, color=list(colours), s=48, zorder=3)
    alone, corrected = critical_values(z.shape[1])
    ax.axvline(alone, color=ORANGE, ls="--", lw=1.4, label="level 0.05")
    ax.axvline(corrected, color=VERMILION, ls="--", lw=1.4, label=f"level 0.05/{z.shape[1]}")
    ax.axvline(0.0, color=BLACK, lw=0.8)
    ax.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=2)
    _label_groups(ax, labels)
    quiet_frame(ax)


def _draw_descriptions(
    ax: Axes, about: Record, order: NDArray[np.intp], colours: Sequence[str]
) -> None:
    for row, (k, colour) in enumerate(zip(order, colours, strict=True)):
        text = f"{about['descriptions'][k]} ({about['sizes'][k]})"
        ax.text(0.0, row, f"{k + 1}", fontsize=10, va="center", ha="right", fontweight="bold")
        if colour != GREY:
            ax.scatter([0.035], [row], marker="*", s=90, color=colour)
        ax.text(0.07, row, _two_lines(text), fontsize=9.5, va="center", parse_math=False)
    ax.set_xlim(-0.05, 1.0)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.axis("off")


def _two_lines(text: str, width: int = 52) -> str:
    """Break a long description at the space nearest to its middle."""
    if len(text) <= width:
        return text
    spaces = [k for k, letter in enumerate(text) if letter == " "]
    middle = min(spaces, key=lambda k: abs(k - len(text) / 2))
    return f"{text[:middle]}\n{text[middle + 1 :]}"


def _draw_square(
    ax: Axes, values: Floats, labels: Sequence[str], label: str, below: str, **colours: Any
) -> None:
    picture = ax.imshow(values, aspect="auto", **colours)
    ax.set_xticks(range(len(labels)), [text.split()[0] for text in labels], fontsize=10)
    ax.set_yticks(range(len(labels)), labels, fontsize=10, parse_math=False)
    ax.set_xlabel(below)
    ax.figure.colorbar(picture, ax=ax, shrink=0.85, label=label)


def _draw_amplification(
    ax: Axes, splits: Splits, order: NDArray[np.intp], colours: Sequence[str]
) -> None:
    x = splits.latent.mean(axis=0)[order]
    y = splits.scores.mean(axis=0)[order]
    ax.axline((0.0, 0.0), slope=1.0, color=GREY, ls="--", lw=1.0)
    ax.scatter(x, y, color=list(colours), s=46, zorder=3)
    for place, k in enumerate(_placed(x, y)):
        ax.annotate(
            f"{order[place] + 1}", (x[place], y[place]), xytext=k, textcoords="offset points",
            fontsize=10, va="center", ha="center",
        )  # fmt: skip
    quiet_frame(ax)


def _placed(x: Floats, y: Floats) -> list[tuple[float, float]]:
    """Return offsets in points that keep the numbers of near points apart: eight directions."""
    # about the size of the panel in points
    wide, high = 260.0 / (float(np.ptp(x)) or 1.0), 340.0 / (float(np.ptp(y)) or 1.0)
    points = np.column_stack([x * wide, y * high])
    taken = [tuple(point) for point in points]
    offsets = []
    steps = [(r * np.cos(a), r * np.sin(a)) for r in (13, 24, 36) for a in np.arange(8) * np.pi / 4]
    for point in points:
        clear = [
            min(np.hypot(point[0] + dx - px, point[1] + dy - py) for px, py in taken)
            for dx, dy in steps
        ]
        # the nearest place that is clear, else the clearest
        best = next((k for k, gap in enumerate(clear) if gap >= 11.0), int(np.argmax(clear)))
        dx, dy = steps[best]
        taken.append((point[0] + dx, point[1] + dy))
        offsets.append((float(dx), float(dy)))
    return offsets


def draw_splits(found: Sequence[Splits], about: Record, path: Path) -> None:
    """Draw the groups' scores on every split, a panel for each outcome and estimator."""
    outcomes = list(dict.fromkeys(splits.outcome for splits in found))
    kinds = list(dict.fromkeys(splits.estimator for splits in found))
    figure = Figure(figsize=(7.5 * len(kinds), 5.2 * len(outcomes)), layout="constrained")
    grid = figure.subplots(len(outcomes), len(kinds), squeeze=False)
    for splits in found:
        ax = grid[outcomes.index(splits.outcome), kinds.index(splits.estimator)]
        order = splits.order
        rows = np.arange(len(order))
        scores = splits.scores[:, order]
        mean, error = scores.mean(axis=0), splits.se().mean(axis=0)[order]
        ax.hlines(rows, mean - error, mean + error, color=SKY, lw=6, alpha=0.55)
        for row in scores:
            ax.plot(row, rows, ls="none", marker="|", ms=9, mew=1.2, color=BLUE)
        ax.plot(mean, rows, ls="none", marker="D", ms=5, color=BLACK)
        ax.axvline(0.0, color=BLACK, lw=0.8)
        _label_groups(ax, [f"{k + 1} {about['groups'][k]}" for k in order])
        ax.set_xlabel("attributed importance: splits (|), mean (◆), one standard error (band)")
        count = f"{len(scores)} split{'s' if len(scores) > 1 else ''}"
        ax.set_title(f"{splits.outcome}, {splits.estimator}, {count}", loc="left", fontsize=11)
        quiet_frame(ax)
    save_figure(figure, path)
