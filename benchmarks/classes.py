"""``python benchmarks/classes.py``: what classes cost beside a quantity, as ratios in one run.

Score stage only (models are fitted before the clock starts), one core. Writes its section of
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier, LGBMRegressor

import dfi
from measure import cpu
from records import take

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- classes.py writes from here -->", "<!-- classes.py writes to here -->"
COLUMNS = 10
REPEATS = 3


def simulate(n: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, COLUMNS)) + 0.7 * generator.standard_normal((n, 1))
    signal = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3]
    return X, signal + generator.standard_normal(n)


def seconds(X: np.ndarray, y: Any, model: Any, **options: Any) -> float:
    """Least CPU seconds of some runs that explain a fitted model."""

    def run() -> Any:
        return dfi.explain(X, y, model, cv="prefit", diagnose=False, progress=False, **options)

    run()
    return min(cpu(run).cpu for _ in range(REPEATS))


def rows(n: int, trees: int) -> list[tuple[str, float, str, float, float]]:
    """Return what is measured, its seconds, what beside, its seconds, and the bar."""
    X, quantity = simulate(2 * n)
    learn, held = slice(0, n), slice(n, 2 * n)
    settings = {"n_estimators": trees, "num_leaves": 15, "verbose": -1, "n_jobs": 1}
    binary = (quantity > np.median(quantity)).astype(int)
    regression = LGBMRegressor(**settings).fit(X[learn], quantity[learn])
    two = LGBMClassifier(**settings).fit(X[learn], binary[learn])
    base = seconds(X[held], quantity[held], regression)
    found = [
        (f"two classes, {loss}", seconds(X[held], binary[held], two, loss=loss), base)
        for loss in ("brier", "log-loss")
    ]
    measured = [(name, own, "a quantity", beside, 1.3) for name, own, beside in found]
    one = found[1][1]
    for k in (3, 6):
        edges = np.quantile(quantity, np.arange(1, k) / k)
        labels = np.array([f"class {c}" for c in range(k)])[np.searchsorted(edges, quantity)]
        full = LGBMClassifier(**settings).fit(X[learn], labels[learn])
        own = seconds(X[held], labels[held], full, loss="log-loss")
        name = f"{k} classes, {trees} trees each, log-loss"
        measured.append((name, own, f"{k} x two classes", k * one, 1.0))
        # as many trees in all as the model of two classes has
        each = {**settings, "n_estimators": trees // k}
        several = LGBMClassifier(**each).fit(X[learn], labels[learn])
        own = seconds(X[held], labels[held], several, loss="log-loss")
        name = f"{k} classes, {trees // k} trees each, log-loss"
        measured.append((name, own, f"{k} x two classes", k * one, 1.0))
        nodes = seconds(
            X[held],
            labels[held],
            several,
            loss="log-loss",
            integration=dfi.Quadrature("equal", nodes=32),
        )
        measured.append((name, own, "32 predictions a line and class", nodes, 1.0))
    return measured


def table(measured: list[tuple[str, float, str, float, float]]) -> list[str]:
    return [
        "<!-- record: classes -->",
        "| explained | CPU s | beside | CPU s | ratio | asked |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {own:.2f} | {other} | {beside:.2f} | {own / beside:.2f} | {bar:g} or less |"
            for name, own, other, beside, bar in measured
        ),
    ]


def kept_section(text: str) -> str:
    """Return this script's part of the page, which other scripts keep."""
    inside = text.partition(BEGIN)[2].partition(END)[0]
    return f"{BEGIN}{inside}{END}\n" if inside else ""


def write(lines: list[str]) -> None:
    page = DOCS / "benchmarks.md"
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    own = "\n".join([BEGIN, *lines, END])
    page.write_text(before.rstrip("\n") + "\n\n" + own + (after or "\n"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, print only")
    quick = parser.parse_args().quick
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.filterwarnings("ignore")
    n, trees = (200, 30) if quick else (1000, 120)
    lines = table(rows(n, trees))
    print("\n".join(lines))
    if not quick:
        head = [
            "## Classes",
            "",
            f"`python benchmarks/classes.py`: LightGBM, {trees} trees of 15 leaves, {n} held-out rows,",
            f"{COLUMNS} columns, explained as fitted with the transport's error and no diagnosis; the least of",
            f"{REPEATS} runs. A quantity has no link, so that its averages go through one tree at a time.",
            "",
        ]
        write([*head, *lines])
        take("benchmarks", "classes", "python benchmarks/classes.py")


if __name__ == "__main__":
    main()
