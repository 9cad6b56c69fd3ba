"""What the coverage table shows, in sentences made from its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper.coverage_table import (
    AWARE,
    AWARE_BELOW,
    EPSILONS,
    FAMILIES,
    PLAIN,
    PLAIN_EXPANDED,
)
from paper.coverage_table_cells import (
    BAND,
    JUDGED_FROM,
    NULLS_LABEL,
    PAPER,
    Coverage,
    judged,
    select,
)
from paper.writing import markdown_table

if TYPE_CHECKING:
    from collections.abc import Sequence


def span(rows: Sequence[Coverage]) -> str:
    """Return the lowest and the highest coverage of some cells."""
    if not rows:
        return "-"
    low, high = min(row.share for row in rows), max(row.share for row in rows)
    return f"{low:.3f}" if high - low < 5e-4 else f"{low:.3f} to {high:.3f}"


def signal(rows: Sequence[Coverage]) -> list[Coverage]:
    """Return the cells whose truth is not 0."""
    return [row for row in rows if row.truth > 1e-12]


def findings(rows: Sequence[Coverage]) -> list[str]:
    """Return what the run shows, one paragraph each."""
    return [
        f"- {text}"
        for text in (
            verdict(rows),
            plain_words(rows),
            _learned(rows),
            _nulls(rows),
            _paper(rows),
            _epsilon(rows),
        )
        if text
    ]


def verdict(rows: Sequence[Coverage]) -> str:
    """Return whether what is asked of the intervals is found."""
    cells = judged(rows)
    if not cells:
        return ""
    low, high = BAND
    outside = [row for row in cells if row.beyond > 0]
    error = (0.09 / cells[0].replications) ** 0.5
    text = (
        "Required: transport-aware intervals of non-null scores with least squares cover "
        f"{low:g} to {high:g} in every cell with n ≥ {JUDGED_FROM}. Found: {span(cells)} over "
        f"{len(cells)} cells of {cells[0].replications} samples (Monte-Carlo error "
        f"{error:.3f} at 0.9)"
    )
    if not outside:
        return f"{text}; every cell lies in the band."
    named = "; ".join(
        f"{row.feature} at ρ = {row.rho:g}, n = {row.n}: {row.share:.3f}, "
        f"{row.beyond:.1f} Monte-Carlo errors outside"
        for row in outside
    )
    return f"{text}; {len(outside)} of them lie outside the band ({named})."


def plain_words(rows: Sequence[Coverage]) -> str:
    """Return how far intervals that take the transport as known fall short."""
    plain = signal(select(rows, family="linear", interval=PLAIN, epsilon=0.0))
    worst = min(plain, key=lambda row: row.share)
    aware = select(
        rows, family="linear", interval=AWARE, epsilon=0.0, rho=worst.rho, n=worst.n,
        feature=worst.feature,
    )[0]  # fmt: skip
    oracle = signal(select(rows, family="oracle", interval=PLAIN, epsilon=0.0))
    line = [row for row in plain if (row.feature, row.rho) == (worst.feature, worst.rho)]
    first, last = min(line, key=lambda row: row.n), max(line, key=lambda row: row.n)
    text = (
        f"Plain intervals of non-null scores cover {span(plain)} with least squares and "
        f"{span(oracle)} with the true regression. The lowest is {worst.feature} at "
        f"ρ = {worst.rho:g}, n = {worst.n}: {worst.share:.3f}, where the transport-aware one "
        f"covers {aware.share:.3f}. From n = {first.n} to n = {last.n} its plain coverage goes "
        f"from {first.share:.3f} to {last.share:.3f}"
    )
    if last.share > first.share + 2.0 * (first.error**2 + last.error**2) ** 0.5:
        return f"{text}."
    return f"{text}: more rows do not repair it, since the transport's error is of first order."


def _learned(rows: Sequence[Coverage]) -> str:
    """Return where intervals fall short because a learned regression misses part of the signal."""
    parts = []
    for name, family in FAMILIES.items():
        cells = signal(select(rows, family=name, interval=AWARE, epsilon=0.0))
        if not name.startswith(("forest", "boosting")) or not cells:
            continue
        by_n = ", ".join(
            f"{span([row for row in cells if row.n == n])} at n = {n}"
            for n in sorted({row.n for row in cells})
        )
        parts.append(f"{family.label}: {by_n}")
    if not parts:
        return ""
    return (
        "Learned regressions, transport-aware intervals of non-null scores. "
        + "; ".join(parts)
        + f". Where these are below {BAND[0]:g}, the regression has not found all of the signal: "
        "the interval is centred on too small a score, which no standard error repairs."
    )


def _nulls(rows: Sequence[Coverage]) -> str:
    nulls = select(rows, feature=NULLS_LABEL, epsilon=0.0, method="DFI")
    parts = [
        f"{FAMILIES[family].label}: plain {span(select(nulls, family=family, interval=PLAIN))}, "
        f"transport-aware {span(select(nulls, family=family, interval=AWARE))} "
        f"(not projected {span(select(nulls, family=family, interval=AWARE_BELOW))})"
        for family in FAMILIES
        if family not in ("linear-refit", "linear-bridge") and select(nulls, family=family)
    ]
    return "Nulls, over the cells that were run. " + "; ".join(parts) + "."


def _paper(rows: Sequence[Coverage]) -> str:
    forest = select(rows, family="forest-loco", feature=NULLS_LABEL, epsilon=0.0)
    plain = select(forest, interval=PLAIN)
    theirs = [row.paper for row in plain if row.paper is not None]
    if not theirs:
        return ""
    expanded = select(forest, interval=PLAIN_EXPANDED)
    return (
        f"The paper's nulls at ε = 0 cover {min(theirs):.3f} to {max(theirs):.3f} in the cells "
        f"that were run with its forests, folds and score (with {plain[0].replications} samples "
        f"a cell, fewer trees, the averages exact); here its plain intervals cover {span(plain)}, "
        f"expanded {span(expanded)}. LOCO with least squares covers "
        f"{span(select(rows, method='LOCO', interval=PLAIN, feature=NULLS_LABEL))} of the nulls "
        "plain, "
        f"{span(select(rows, method='LOCO', interval=PLAIN_EXPANDED, feature=NULLS_LABEL))} "
        "expanded. The paper's text does not say whether its table expands."
    )


def _epsilon(rows: Sequence[Coverage]) -> str:
    gap = max(
        abs(ours - theirs)
        for epsilon in EPSILONS
        for ours, theirs in zip(PAPER["DFI", 0.0], PAPER["DFI", epsilon], strict=True)
    )
    text = (
        "The published semicontinuous transport multiplies estimate, standard error and truth by "
        "one number: in every sample its intervals at ε > 0 cover exactly when those at ε = 0 do, "
        "so one line stands for all ε (the CSV file has them all). The paper's lines differ by up "
        f"to {gap:.3f}: by something else than this closed form, such as random draws."
    )
    bridge = select(rows, transport="bridge", interval=AWARE)
    if not bridge:
        return text
    return (
        f"{text} Under the exact bridge (least squares, {bridge[0].replications} samples a cell) "
        f"transport-aware intervals cover {span(signal(bridge))} of the non-null scores."
    )


def replications_table(rows: Sequence[Coverage]) -> str:
    """Return how many samples each family has, with its Monte-Carlo error."""
    body = []
    for name, family in FAMILIES.items():
        here = select(rows, family=name)
        if here:
            counts = sorted({row.replications for row in here})
            error = (0.09 / counts[0]) ** 0.5
            cells = len({(row.rho, row.n) for row in here})
            body.append([family.label, cells, counts[0], f"{error:.3f}"])
    return markdown_table(["regression", "cells", "samples a cell", "MC error at 0.9"], body)
