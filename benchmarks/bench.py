"""``make bench``: exact line means side by side with peers, as ratios of CPU time in one run.

Writes docs/benchmarks.md, docs/images/benchmarks.png and, unrounded, docs/benchmarks.json. Every
ratio comes from two measurements of the same run; times themselves belong to the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import classes
import dfi
import scale
from dfi._data.weights import Weights
from dfi._lines.base import Lines
from dfi._lines.quadrature import QuadratureLines
from dfi._lines.trees.model import tree_lines
from dfi._scoring.lines import Passes, latent_scores
from growth import kept_section
from measure import cpu, in_own_process, peak_growth
from peers import fdfi_scores, hidimstat_cfi, hidimstat_loco, sage_values, tree_shap
from startup import LEARNERS, start_up

DOCS = Path(__file__).parents[1] / "docs"


def ones(n: int) -> Weights:
    return Weights(np.ones(n), "frequency")


def fit_transport(X: np.ndarray) -> Any:
    return dfi.transports.Gaussian().fit_matrix(X, ones(len(X)), np.ptp(X, axis=0) == 0)


def warm_up() -> None:
    """Compile or load the kernels, which is measured elsewhere."""
    generator = np.random.default_rng(0)
    dense, rare = generator.standard_normal((60, 3)), generator.random((60, 400)) < 0.05
    for X in (dense, rare.astype(float)):  # where many directions cross a split, and where few do
        forest = RandomForestRegressor(3, random_state=0).fit(X, X.sum(axis=1))
        trees = tree_lines(forest, forest.predict, X)
        latent_scores([trees], X, X[:, 0], np.ones(60), fit_transport(X).geometry, form="loco")


def forest_case(name: str, simulate: Any, rho: float, n: int, trees: int) -> list[dict[str, Any]]:
    """Two folds, one forest each; every method explains the other half."""
    sample = simulate(n, rho=rho, random_state=1)
    halves = np.arange(n) % 2 == 0
    folds = [(halves, ~halves), (~halves, halves)]
    transport = fit_transport(sample.X)
    totals: dict[str, float] = {}
    scores: dict[str, np.ndarray] = {}

    def add(key: str, cost: Any, value: np.ndarray | None = None) -> None:
        totals[key] = totals.get(key, 0.0) + cost.cpu
        if value is not None:
            scores[key] = scores.get(key, 0.0) + value / len(folds)

    for train, test in folds:
        X, y = sample.X[test], sample.y[test]
        pair = sample.X[train], sample.y[train]
        forest = RandomForestRegressor(trees, min_samples_leaf=5, random_state=0)
        add("fit the forests", cpu(lambda f=forest, p=pair: f.fit(*p)))
        mass = np.ones(len(y))

        def ours(forest: Any = forest, X: Any = X, y: Any = y, mass: Any = mass) -> Any:
            exact = tree_lines(forest, forest.predict, X[:200])
            return latent_scores([exact], X, y, mass, transport.geometry, form="loco")

        def draws(forest: Any = forest, X: Any = X, y: Any = y, mass: Any = mass) -> Any:
            sampled = QuadratureLines(forest.predict, "draws", 50, seed=np.random.SeedSequence(0))
            return latent_scores([sampled], X, y, mass, transport.geometry, form="loco")

        cost = cpu(ours)
        add("dfi, exact", cost, cost.value.influence.mean(axis=0))
        cost = cpu(draws)
        add("50 draws and predict", cost, cost.value.influence.mean(axis=0))
        cost = cpu(lambda f=forest, p=pair, X=X, y=y: fdfi_scores(f, p[0], X, y))
        add("fdfi 0.1.0", cost, cost.value["phi_Z"])
        add("shap.TreeExplainer", cpu(lambda f=forest, X=X: tree_shap(f, X)))
        add("hidimstat CFI", cpu(lambda f=forest, p=pair, X=X, y=y: hidimstat_cfi(f, p, X, y)))
        add("hidimstat LOCO", cpu(lambda f=forest, p=pair, X=X, y=y: hidimstat_loco(f, p, X, y)))
        add("sage", cpu(lambda f=forest, X=X, y=y: sage_values(f, X, y)))
    base = totals["dfi, exact"]
    exact = scores["dfi, exact"]
    return [
        {
            "case": name,
            "method": key,
            "cpu": seconds,
            "ratio": seconds / base,
            "error": float(np.abs(scores[key] - exact).max()) if key in scores else None,
        }
        for key, seconds in totals.items()
    ]


def binary_columns(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Correlated rare 0/1 columns, more of them than rows, and a 0/1 outcome."""
    generator = np.random.default_rng(seed)
    factors = generator.standard_normal((n, 20))
    load = generator.standard_normal((20, d)) * (generator.random((20, d)) < 0.2)
    latent = factors @ load + generator.standard_normal((n, d))
    X = (latent > generator.uniform(0.2, 2.0, d) * latent.std(axis=0)).astype(float)
    signal = X[:, :12].sum(axis=1) + factors[:, 0]
    y = (signal + generator.standard_normal(n) > np.median(signal)).astype(float)
    return X, y


def wide_case(name: str, X: np.ndarray, y: np.ndarray, trees: int) -> list[dict[str, Any]]:
    """All line means of one forest, few rows and many binary columns."""
    forest = RandomForestRegressor(trees, min_samples_leaf=5, random_state=0)
    fit = cpu(lambda: forest.fit(X, y))
    transport = fit_transport(X)
    offsets, _ = transport.offsets()
    exact = tree_lines(forest, forest.predict, X)
    latent, directions = transport.encode(X), transport.geometry.directions

    def walk(shifts: np.ndarray) -> Any:
        lines = Lines(X, latent, directions, transport.reference, shifts)
        return [exact.moments(lines.take(slice(k, k + 256))).mean for k in range(0, len(X), 256)]

    single = np.zeros((1, transport.n_latent))
    seconds, memory, means = peak_growth(lambda: walk(single))
    shifted, shifted_memory, _ = peak_growth(lambda: walk(offsets))
    columns = np.linspace(0, transport.n_latent - 1, 3).astype(int)
    sampled = QuadratureLines(forest.predict, "draws", 50, seed=np.random.SeedSequence(0))
    reference = transport.reference
    part = Lines(
        X,
        latent[:, columns],
        directions[:, columns],
        type(reference)(
            reference.kind, reference.values[:, columns], reference.cumulative[:, columns]
        ),
        single[:, columns],
    )
    draw = cpu(lambda: sampled.moments(part))
    scaled = draw.cpu * transport.n_latent / len(columns)
    mean = np.concatenate(means, axis=1)[0][:, columns]
    error = float(np.sqrt(np.mean((draw.value.mean[0] - mean) ** 2)))
    rows = [
        ("fit the forest", fit.cpu, None, None),
        ("dfi, exact", seconds, None, memory),
        (f"dfi, exact, {len(offsets)} shifts of the random kernel", shifted, None, shifted_memory),
        (f"50 draws and predict (from {len(columns)} columns)", scaled, error, None),
    ]
    return [
        {"case": name, "method": m, "cpu": c, "ratio": c / seconds, "error": e, "memory": g}
        for m, c, e, g in rows
    ]


def lightgbm_case(n: int, d: int, trees: int) -> list[dict[str, Any]]:
    """A large boosted model on many rows."""
    from lightgbm import LGBMRegressor

    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d)) + generator.standard_normal((n, 1))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + generator.standard_normal(n)
    model = LGBMRegressor(n_estimators=trees, learning_rate=0.05, verbose=-1, n_jobs=1)
    fit = cpu(lambda: model.fit(X, y))
    booster = model.booster_
    exact = tree_lines(model, booster.predict, X[:200])
    transport = fit_transport(X)
    seconds, memory, _ = peak_growth(
        lambda: latent_scores(
            [exact], X, y, np.ones(n), transport.geometry, form="loco", passes=Passes(1024)
        )
    )
    rows = 1000
    sampled = QuadratureLines(booster.predict, "draws", 50, seed=np.random.SeedSequence(0))
    lines = Lines(
        X[:rows],
        transport.encode(X[:rows]),
        transport.geometry.directions,
        transport.reference,
        np.zeros((1, d)),
    )
    draw = cpu(lambda: sampled.moments(lines)).cpu * n / rows
    name = f"LightGBM, {trees} trees, n = {n}, d = {d}"
    return [
        {"case": name, "method": m, "cpu": c, "ratio": c / seconds, "error": None, "memory": g}
        for m, c, g in (
            ("fit the model", fit.cpu, None),
            ("dfi, exact", seconds, memory),
            (f"50 draws and predict (from {rows} rows)", draw, None),
        )
    ]


def growth_point(n: int, d: int, trees: int) -> tuple[float, float]:
    """CPU seconds and peak memory (GB) of the score stage, in a process of its own."""
    warm_up()
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d)) + 0.5 * generator.standard_normal((n, 1))
    y = X[:, 0] * X[:, 1] + generator.standard_normal(n)
    forest = RandomForestRegressor(trees, min_samples_leaf=5, random_state=0)
    forest.fit(X[:2000], y[:2000])
    exact = tree_lines(forest, forest.predict, X[:200])
    transport = fit_transport(X)
    seconds, memory, _ = peak_growth(
        lambda: latent_scores(
            [exact], X, y, np.ones(n), transport.geometry, form="loco", passes=Passes(1024)
        )
    )
    return seconds, memory


def growth(quick: bool) -> dict[str, list[tuple[int, float, float]]]:
    """Return (size, CPU seconds, GB) against rows, columns and trees, the others fixed."""
    base = {"rows": 1000, "columns": 10, "trees": 100}
    grid = {
        "rows": [500, 1000, 2000, 4000, 8000],
        "columns": [5, 10, 20, 40, 80, 160],
        "trees": [50, 100, 200, 400, 800],
    }
    curves: dict[str, list[tuple[int, float, float]]] = {}
    for axis, sizes in grid.items():
        for size in sizes[: 2 if quick else None]:
            point = {**base, axis: size}
            cost = in_own_process(growth_point, point["rows"], point["columns"], point["trees"])
            curves.setdefault(axis, []).append((size, *cost))
    return curves


def hiv_case(trees: int) -> list[dict[str, Any]]:
    """The paper's data, where DFI_DATA points to it."""
    folder = os.environ.get("DFI_DATA")
    path = Path(folder or "") / "hiv" / "sens50_processed_dataset.csv"
    if not folder or not path.exists():
        return []
    data = np.genfromtxt(path, delimiter=",", skip_header=1)
    X, y = data[:, 1:], data[:, 0]
    return wide_case(f"HIV-1 (sens50), {len(X)} rows, {X.shape[1]} columns", X, y, trees)


def write_page(
    rows: list[dict[str, Any]], curves: dict[str, Any], starts: dict[str, tuple[float, float]]
) -> None:
    lines = [
        "# Benchmarks",
        "",
        "`make bench` writes this page. CPU seconds of one run on one machine, peers called as their",
        "documentation does; read the ratios, not the seconds. *Error* is the largest difference of a",
        "latent score from the exact one (for the wide cases: the root mean squared error of a line",
        "mean). A method that answers another question (shap, hidimstat, sage) has no error here.",
        "*Peak* is by how much the process grew during the call: a call reuses what earlier ones left.",
        "",
    ]
    for case in dict.fromkeys(row["case"] for row in rows):
        lines += [
            f"## {case}",
            "",
            "| method | CPU s | times ours | error | peak GB |",
            "|---|---|---|---|---|",
        ]
        for row in (row for row in rows if row["case"] == case):
            error = "" if row.get("error") is None else f"{row['error']:.3g}"
            memory = "" if row.get("memory") is None else f"{row['memory']:.2f}"
            lines.append(
                f"| {row['method']} | {row['cpu']:.2f} | {row['ratio']:.1f} | {error} | {memory} |"
            )
        lines.append("")
    lines += [
        "## First call",
        "",
        "By how much the first exact call of a process exceeds the second (a forest of 20 trees):",
        "kernels are compiled once, and later processes load them from numba's cache.",
        "",
        "| first call | s | CPU s |",
        "|---|---|---|",
        *(f"| {name} | {wall:.2f} | {cpu:.2f} |" for name, (wall, cpu) in starts.items()),
        "",
        "## Growth",
        "",
        "The score stage of a random forest (1000 rows, 10 columns, 100 trees unless varied).",
        "Unrounded figures of this page: [benchmarks.json](benchmarks.json).",
        "",
        "![CPU time and memory against rows, columns and trees](images/benchmarks.png)",
        "",
        "| varied | size | CPU s | peak MB |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {axis} | {size} | {seconds:.2f} | {1000 * memory:.2f} |"
        for axis, points in curves.items()
        for size, seconds, memory in points
    ]
    page = DOCS / "benchmarks.md"
    known = page.read_text() if page.exists() else ""
    kept = "\n".join(
        filter(None, (kept_section(known), classes.kept_section(known), scale.kept_section(known)))
    )
    page.write_text("\n".join(lines) + "\n" + ("\n" + kept if kept else ""))
    raw = {"methods": rows, "first call": starts, "growth": curves}
    (DOCS / "benchmarks.json").write_text(json.dumps(raw, indent=1) + "\n")


def draw(curves: dict[str, Any]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
    for panel, (axis, points) in zip(panels, curves.items(), strict=True):
        size, seconds, memory = (np.asarray(column) for column in zip(*points, strict=True))
        panel.loglog(size, seconds, "o-", color="#0072B2", label="CPU seconds")
        # A growth of 0 (pages that were already there) has no place on a logarithmic axis.
        shown = np.where(memory > 0, 1000 * memory, np.nan)
        panel.loglog(size, shown, "s--", color="#D55E00", label="peak MB")
        panel.set_xticks(size, [f"{value:,}" for value in size])
        panel.minorticks_off()
        panel.set_xlabel(axis)
        panel.grid(alpha=0.3, which="both")
    panels[0].legend(frameon=False)
    (DOCS / "images").mkdir(exist_ok=True)
    figure.savefig(DOCS / "images" / "benchmarks.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, print only")
    quick = parser.parse_args().quick
    warnings.filterwarnings("ignore")
    trees, n = (50, 400) if quick else (500, 2000)
    warm_up()
    rows: list[dict[str, Any]] = []

    def show(new: list[dict[str, Any]]) -> None:
        rows.extend(new)
        for row in new:
            extra = "".join(
                f"  {key} {row[key]:.3g}" for key in ("error", "memory") if row.get(key) is not None
            )
            print(
                f"{row['case']:<45} {row['method']:<48} {row['cpu']:>9.2f} s "
                f"{row['ratio']:>8.1f} x{extra}",
                flush=True,
            )

    for name, simulate, rho in (("M1", dfi.datasets.m1, 0.8), ("M3", dfi.datasets.m3, 0.8)):
        show(forest_case(f"{name}, n = {n}, {trees} trees, 2 folds", simulate, rho, n, trees))
    X, y = binary_columns(200 if quick else 611, 100 if quick else 832)
    show(wide_case(f"{X.shape[1]} binary columns, {len(X)} rows, {trees} trees", X, y, trees))
    show(hiv_case(trees))
    show(lightgbm_case(2000 if quick else 20_000, 10 if quick else 50, trees))
    curves = growth(quick)
    for axis, points in curves.items():
        print(axis, *(f"{size}: {s:.2f} s, {1000 * m:.2f} MB;" for size, s, m in points))
    starts = start_up(LEARNERS[0])
    for call, (wall, seconds) in starts.items():
        print(f"first call {call}: {wall:.2f} s, {seconds:.2f} CPU s more than the second")
    if not quick:
        draw(curves)
        write_page(rows, curves, starts)


if __name__ == "__main__":
    main()
