"""Write docs/coverage.md: the coverage study, every cell with its figures.

Run as ``python -m benchmarks.coverage_study [--quick] [--only NAME]``; all of it takes about an
hour on two cores. Cells already measured are kept in docs/coverage.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from paper.cells import LEARNED_CELLS, LINEAR_CELLS, ORACLE_CELLS, Cell

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
LINES = PAGE.with_suffix(".json")
CELLS = ORACLE_CELLS + LINEAR_CELLS + LEARNED_CELLS
HEAD = """# Coverage

Nominal 90 % intervals of the attributed scores, by simulation. "Ours" are the default intervals
(transport-aware influence, skewness-corrected); "plain" takes the transport as known, as the
paper does; "expanded" adds its expansion near the null. A figure is the share of samples whose
interval contains the truth; where several features play the same part, the lowest and the
highest of them. `python -m benchmarks.coverage_study` writes this page.

Asked for are 0.86 to 0.94 for non-null scores with the true regression or least squares, 0.82 to
0.96 with fitted learners; 0.88 for nulls (0.86 on M1 and 0.70 on M2 with fitted learners). At
n = 500 the heavy-tailed models (M3, exponential) sit at the lower end and some of their scores
fall below 0.86 by less than a Monte-Carlo error: their influence values have a skewness near 9,
and Hall's correction can only use the sample's own.

All rows were measured before dependence components, the second-order correction and the Hermite terms of the transport. A
check of 100 samples a cell (MC error 0.030) since, true regression, n = 500: M1 0.91, 0.90 (rho = .4) and 0.92, 0.93 (.8), M2 0.95,
0.97, M3 0.83, 0.86, 0.89, 0.83, 0.83, exponential 0.82, 0.74, 0.87. The last is below the row here; with the earlier settings
(`Gaussian(components=None)`, `transport_error="covariance"`) the same 100 samples give 0.83, 0.79, 0.87, so part of it is the draw.
Since then seeds have names, so splits and fits are drawn anew: least squares on 200 samples of M1 (MC error 0.02) before and after,
signals 0.91, 0.89 and 0.90, 0.88 (rho = .4), 0.94, 0.92 and 0.93, 0.92 (.8), nulls 0.97 and 0.96.

The M2 row of the default learner ("auto") was measured with its earlier stack of ridge, boosting and
trees, before the two networks joined it; no other row depends on it. Intervals of the nonlinear
transports are in [transports](transports.md#do-they-cover), the paper's own grid in
[its coverage table](paper/table-coverage.md).

| model | n | regression | samples (MC error) | non-null, ours (each) | non-null, plain | null, ours | null, plain | null, expanded |
|---|---|---|---|---|---|---|---|---|
"""


def span(values: np.ndarray) -> str:
    if len(values) == 0:
        return "-"
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return low if low == high else f"{low} to {high}"


def measure(cell: Cell, quick: bool) -> str:
    """Run a cell and return its line of the table."""
    study = cell.run(replications=20 if quick else None, n_jobs=2)
    signal = study.truth > 0
    ours, plain = study.coverage(), study.coverage(plain=True)
    expanded = study.coverage(expand=True)
    samples = len(study.scores)
    return (
        f"| {cell.model} | {cell.n} | {cell.learner} | {samples} ({study.error:.3f}) "
        f"| {', '.join(f'{v:.3f}' for v in ours[signal])} | {span(plain[signal])} "
        f"| {span(ours[~signal])} | {span(plain[~signal])} | {span(expanded[~signal])} |"
    )


def write_page(known: dict[str, str]) -> None:
    """Write the cells measured so far, in their order."""
    lines = [known[cell.name] for cell in CELLS if cell.name in known]
    PAGE.write_text(HEAD + "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 samples a cell, print only")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    arguments = parser.parse_args()
    known: dict[str, str] = json.loads(LINES.read_text()) if LINES.exists() else {}
    for cell in (cell for cell in CELLS if arguments.only in cell.name):
        start = time.perf_counter()
        row = measure(cell, arguments.quick)
        print(row, f"{time.perf_counter() - start:.0f} s", flush=True)
        if not arguments.quick:
            known = json.loads(LINES.read_text()) if LINES.exists() else {}
            known[cell.name] = row
            LINES.write_text(json.dumps(known, indent=1) + "\n")
            write_page(known)


if __name__ == "__main__":
    main()
