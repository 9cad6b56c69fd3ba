"""The coverage table beside the paper's: numbers, figures and what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper.coverage_table import (
    AWARE,
    AWARE_BELOW,
    AWARE_EXPANDED,
    CORRELATIONS,
    EPSILONS,
    FAMILIES,
    PLAIN,
    PLAIN_EXPANDED,
    SAMPLE_SIZES,
    coverage_tasks,
)
from paper.coverage_table_cells import BAND, NULLS_LABEL, collect, paper_coverage, select
from paper.coverage_table_figures import LEARNED, draw_grid, draw_learned
from paper.coverage_table_words import findings, replications_table
from paper.reproduction import Study
from paper.writing import markdown_table, write_csv, write_page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from paper.coverage_table_cells import Coverage
    from paper.reproduction import Records, Size

NAME = "table-coverage"


def write_table(records: Records, folder: Path, size: Size) -> None:
    """Write the numbers, the figures and the page."""
    rows = collect(records)
    write_csv(folder / f"{NAME}.csv", [_csv_row(row) for row in rows])
    draw_grid(rows, folder / f"{NAME}.png")
    draw_learned(rows, folder / f"{NAME}-learned.png")
    write_page(folder / f"{NAME}.md", *_page(rows, size))


def _csv_row(row: Coverage) -> dict[str, object]:
    return {
        "regression": FAMILIES[row.family].label,
        "method": row.method,
        "transport": row.transport,
        "epsilon": row.epsilon,
        "rho": row.rho,
        "n": row.n,
        "feature": row.feature,
        "truth": row.truth,
        "interval": row.interval,
        "coverage": row.share,
        "replications": row.replications,
        "mc_error": row.error,
        "paper": "" if row.paper is None else row.paper,
    }


def _table_of(
    rows: Sequence[Coverage], lines: Sequence[tuple[str, dict[str, Any] | tuple[str, float]]]
) -> str:
    """Return a table over the paper's grid; a line is a selection, or a line of the paper."""
    grid = [(rho, n) for rho in CORRELATIONS for n in SAMPLE_SIZES]
    body = []
    for label, wanted in lines:
        found: dict[tuple[float, int], float | None]
        if isinstance(wanted, tuple):
            found = {place: paper_coverage(*wanted, *place) for place in grid}
        else:
            found = {(row.rho, row.n): row.share for row in select(rows, **wanted)}
        shares = [found.get(place) for place in grid]
        body.append([label, *(None if share is None else f"{share:.3f}" for share in shares)])
    headings = [f"ρ {rho:g}, n {n}" for rho, n in grid]
    return markdown_table(["", *headings], body)


def _page(rows: Sequence[Coverage], size: Size) -> list[str]:
    nulls = {"feature": NULLS_LABEL, "epsilon": 0.0}
    published = [(f"paper: DFI, ε = {eps:g}", ("DFI", eps)) for eps in EPSILONS]
    ours: list[tuple[str, dict[str, Any] | tuple[str, float]]] = [
        *published,
        *(
            (
                f"{FAMILIES[family].label}: {interval}",
                {"family": family, "interval": interval, **nulls},
            )
            for family, intervals in (
                ("forest-loco", (PLAIN, PLAIN_EXPANDED, AWARE)),
                ("linear", (PLAIN, AWARE, AWARE_BELOW, AWARE_EXPANDED)),
                ("oracle", (PLAIN, AWARE)),
            )
            for interval in intervals
        ),
    ]
    for method in ("LOCO", "nLOCO"):
        ours.append((f"paper: {method}", (method, 0.0)))
        ours += [
            (
                f"{method}, least squares: {interval}",
                {"method": method, "interval": interval, **nulls},
            )
            for interval in (PLAIN, PLAIN_EXPANDED)
        ]
    blocks = [
        "# Coverage table: nulls, X1 and X2 of M1",
        f"Nominal 90 % intervals of the attributed scores, run at {size.words}. The paper's table "
        "has the null features X3 to X10 only; here X1 and X2 stand beside them (X2 is null at "
        "ρ = 0). *Plain* intervals take the transport as known and are not projected on "
        "[0, ∞): the paper's. *Transport-aware* are the library's default, with the transport's "
        "own error, the correction for skewness and t quantiles under heavy tails; their endpoints "
        "are projected, so that an interval below 0 becomes the point 0 and covers a null. *Not "
        "projected* counts it as a miss. *Expanded* adds the n^(-1/2) expansion near the null.",
        f"![Coverage over the paper's grid]({NAME}.png)",
        "Error bars are Monte-Carlo standard errors; the green band is "
        f"{BAND[0]:g} to {BAND[1]:g}, the dotted line the nominal level.",
        "## What is found",
        *findings(rows),
        "## The nulls: the paper's table and ours",
        _table_of(rows, ours),
    ]
    for feature in ("X1", "X2"):
        lines: list[tuple[str, dict[str, Any] | tuple[str, float]]] = [
            (
                f"{FAMILIES[family].label}: {interval}",
                {"family": family, "interval": interval, "feature": feature, "epsilon": 0.0},
            )
            for family in ("linear", "linear-loco", "oracle", "forest-loco")
            for interval in (PLAIN, AWARE)
        ]
        blocks += [f"## {feature}", _table_of(rows, lines)]
    blocks += [
        "## Learned regressions",
        f"![Coverage by regression and form of score]({NAME}-learned.png)",
        _learned_table(rows),
        "## The exact bridge",
        _bridge_table(rows),
        "## Samples",
        replications_table(rows),
    ]
    return blocks


def _learned_table(rows: Sequence[Coverage]) -> str:
    names = [name for name in LEARNED if name.startswith(("forest", "boosting"))]
    body = []
    for name in names:
        for rho in CORRELATIONS:
            for n in SAMPLE_SIZES:
                here = select(rows, family=name, rho=rho, n=n, epsilon=0.0)
                if here:
                    body.append([FAMILIES[name].label, f"{rho:g}", n, *_shares(here)])
    return markdown_table(
        ["regression", "ρ", "n", "samples", *_kind_headings((PLAIN, AWARE_BELOW, AWARE))], body
    )


def _bridge_table(rows: Sequence[Coverage]) -> str:
    bridge = select(rows, transport="bridge")
    body = []
    for epsilon in sorted({row.epsilon for row in bridge}):
        for rho in CORRELATIONS:
            for n in SAMPLE_SIZES:
                here = select(bridge, rho=rho, n=n, epsilon=epsilon)
                if here:
                    body.append([f"{epsilon:g}", f"{rho:g}", n, *_shares(here)])
    return markdown_table(
        ["ε", "ρ", "n", "samples", *_kind_headings((PLAIN, AWARE_BELOW, AWARE))], body
    )


def _kind_headings(kinds: Sequence[str]) -> list[str]:
    return [
        f"{feature}, {kind}"
        for feature in ("X1", "X2", "nulls")
        for kind in kinds
        if feature == "nulls" or kind != AWARE_BELOW
    ]


def _shares(here: Sequence[Coverage]) -> list[object]:
    cells: list[object] = [here[0].replications]
    for feature in ("X1", "X2", NULLS_LABEL):
        for kind in (PLAIN, AWARE_BELOW, AWARE):
            if feature == NULLS_LABEL or kind != AWARE_BELOW:
                row = select(here, feature=feature, interval=kind)[0]
                cells.append(f"{row.share:.2f}")
    return cells


COVERAGE_TABLE = Study(
    NAME,
    "The coverage table, for nulls and for X1 and X2",
    coverage_tasks,
    write_table,
    figures=("learned",),
    shared=NAME,
)
