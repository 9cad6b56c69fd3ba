"""``python benchmarks/growth.py``: how the time of line means grows with the rows, path by path.

Every row is explained under the empirical law of all rows, so a table of the law that is made anew
for every block of rows shows as an exponent near 2. Writes its section of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import dfi
from dfi._data.weights import Weights
from dfi._learners.network import BentHingeNetwork
from dfi._lines.base import LineModel
from dfi._lines.closed_form import SumLines, hinge_lines, linear_lines
from dfi._lines.quadrature import QuadratureLines
from dfi._lines.trees.model import tree_lines
from dfi._scoring.lines import Passes, latent_scores
from dfi._scoring.scores import rows_at_once
from measure import cpu
from records import take

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- growth.py writes from here -->", "<!-- to here -->"
SIZES = (5_000, 20_000, 80_000)
ASKED = 1.1
COLUMNS = 10
FITTED = 2_000
"""Rows that models are fitted on: their size must not grow with the rows that are explained."""


def simulate(n: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, COLUMNS)) + 0.7 * generator.standard_normal((n, 1))
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] + generator.standard_normal(n)
    return X, y


def paths() -> dict[str, LineModel]:
    """Return a fitted model for every way of averaging along lines."""
    X, y = simulate(FITTED)
    linear = linear_lines(LinearRegression().fit(X, y), COLUMNS)
    small, network = (
        hinge_lines(BentHingeNetwork(n_units=units, max_iter=50, random_state=0).fit(X, y))
        for units in (5, 50)
    )
    boosting = HistGradientBoostingRegressor(max_iter=50, random_state=0).fit(X, y)
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(X, y)
    trees = {
        name: tree_lines(model, model.predict, X[:200])
        for name, model in (("boosting, 50 trees", boosting), ("forest, 20 trees", forest))
    }

    def smooth(rows: np.ndarray) -> np.ndarray:
        return rows[:, 0] * rows[:, 1] + np.tanh(rows[:, 2])

    return {
        "linear": linear,
        "sum (linear, network of 5 units)": SumLines((linear, small), (0.5, 0.5)),
        "network, 50 units": network,
        **trees,
        "quadrature, 16 Gauss nodes": QuadratureLines(smooth, "gauss", 16),
    }


def seconds(model: LineModel, n: int, repeats: int) -> float:
    """Return the CPU seconds of all scores of ``n`` rows, the tables of the law included.

    Short runs are repeated more often: whoever else is at work on the machine lengthens them most.
    """
    X, y = simulate(n)
    mass = np.ones(n)

    def once() -> float:
        # A law of its own: its tables are part of the cost.
        transport = dfi.transports.Gaussian().fit_matrix(
            X, Weights(mass, "frequency"), np.zeros(COLUMNS, bool)
        )
        passes = Passes(rows_at_once(transport))
        return cpu(
            lambda: latent_scores(
                [model], X, y, mass, transport.geometry, form="loco", passes=passes
            )
        ).cpu

    return min(once() for _ in range(repeats * min(8, SIZES[-1] // n)))


def exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """Return the slope of log time against log rows."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def section(rows: list[tuple[str, list[float], float]]) -> str:
    """Return the table, between the marks that the page keeps it by."""
    lines = [
        BEGIN,
        "## Growth with the rows",
        "",
        f"`python benchmarks/growth.py`: CPU seconds of the scores of all rows ({COLUMNS} columns, one",
        "model of a fixed size, one thread, the least of a few runs) under the empirical law of the same",
        f"rows, and the exponent of the rows in them; at most {ASKED} is asked for. The tables of a large law",
        "leave the processor's cache, which networks notice most. On a machine that others used too, the",
        "exponents of four runs differed by 0.1 to 0.2.",
        "",
        "<!-- record: growth-with-the-rows -->",
        "| line means | " + " | ".join(f"{size:,} rows" for size in SIZES) + " | exponent |",
        "|---" * (len(SIZES) + 2) + "|",
        *(
            f"| {name} | " + " | ".join(f"{cost:.2f}" for cost in costs) + f" | {power:.2f} |"
            for name, costs, power in rows
        ),
        END,
    ]
    return "\n".join(lines) + "\n"


def kept_section(page: str) -> str:
    """Return this section of a page, empty where it has none."""
    start, end = page.find(BEGIN), page.find(END)
    return page[start : end + len(END)] + "\n" if 0 <= start < end else ""


def write_section(text: str) -> None:
    page = DOCS / "benchmarks.md"
    before = page.read_text()
    kept = kept_section(before)
    page.write_text(before.replace(kept, text) if kept else before.rstrip("\n") + "\n\n" + text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print-only", action="store_true", help="leave the page as it is")
    parser.add_argument("--only", default="", help="paths whose name contains this")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    one_core()
    rows = []
    for name, model in paths().items():
        if options.only not in name:
            continue
        seconds(model, SIZES[0], 1)  # loads kernels
        costs = [seconds(model, n, options.repeats) for n in SIZES]
        rows.append((name, costs, exponent(SIZES, costs)))
        print(
            f"{name:<34}", *(f"{cost:8.3f} s" for cost in costs), f"{rows[-1][2]:6.2f}", flush=True
        )
    if not options.print_only:
        write_section(section(rows))
        take("benchmarks", "growth-with-the-rows", "python benchmarks/growth.py")


def one_core() -> None:
    """Keep to one core: two that share memory would count each other's waiting as CPU time."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


if __name__ == "__main__":
    main()
