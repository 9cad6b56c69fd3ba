"""What others published and can be run beside dfi: their laws, their numbers, ours.

``make evidence`` runs all of it and writes docs/evidence/how-it-compares.md. Two parts are here:

- the laws of the replicates of Sobol-CPI and of Semi-knockoffs, on their samples (their seeds and
  order of draws), with the conditional tests that dfi has and the lists of ``select`` and ``keep``;
- intervals of every package that prints one, each against its own truth
  (:mod:`benchmarks.intervals`).

The third, parts of real tables, is ``python -m benchmarks.real_parts``: docs/coverage.md.

``--seeds`` sets the samples of a cell, ``--quick`` takes small tables to see that everything runs.
Samples are kept in the folder as they end, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

import dfi
from benchmarks import intervals

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "how-it-compares.md"
METHODS = ("loco", "cpi", "pcm")
LEVEL, FALSE_DISCOVERIES = 0.05, 0.1
FIRST = 41
"""The authors' replicates have every law from this seed on."""
AHEAD = 1000
"""Rows that Semi-knockoffs draws for a measure of fit, behind those that are tested."""
Sample = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Size:
    """Columns of the two papers' laws, what rows are divided by, and trees of boosting."""

    linear: int = 100
    others: int = 50
    fewer: int = 1
    trees: int = 200


QUICK = Size(linear=12, others=12, fewer=4, trees=10)


def toeplitz(d: int, rho: float) -> np.ndarray:
    places = np.arange(d)
    return rho ** np.abs(places[:, None] - places)


def linear(seed: int, n: int, d: int = 100) -> Sample:
    """Sobol-CPI: a quarter of the columns has slope 1, and noise half the signal's norm."""
    rng = np.random.default_rng(seed)
    X = rng.multivariate_normal(np.zeros(d), toeplitz(d, 0.6), size=n)
    signal = np.zeros(d)
    signal[rng.choice(d, d // 4, replace=False)] = 1.0
    mean, noise = X @ signal, rng.standard_normal(n)
    return X, mean + np.linalg.norm(mean) / (2 * np.linalg.norm(noise)) * noise, signal > 0


def semi_knockoff(setting: str, seed: int, n: int = 300, d: int = 50) -> Sample:
    """Return a sample of a law of Semi-knockoffs; correlations .6^|i-j| but for uniform columns."""
    rng = np.random.default_rng(seed)
    rows, k = n + AHEAD, d // 4
    signal = np.zeros(d, dtype=bool)
    covariance = toeplitz(d, 0.6)
    if setting == "nongauss":
        X = rng.standard_t(3, size=(rows, d)) @ np.linalg.cholesky(covariance).T
    else:
        X = rng.multivariate_normal(np.zeros(d), covariance, size=rows)
    spread = 1.0
    if setting == "adjacent":
        signal[:k] = True
        mean = X[:, :k] @ np.linspace(1, 2, k)
    elif setting == "spaced":
        signal[np.arange(0, d, 4)[:k]] = True
        mean = X[:, signal] @ rng.uniform(1, 2, k)
    elif setting == "sinusoidal":
        X, spread = rng.uniform(0, 2 * np.pi, size=(rows, d)), 0.2
        signal[: min(d, 10)] = True
        mean = np.sin(X[:, signal]).sum(axis=1)
    elif setting == "nongauss":
        signal[:k] = True
        mean = X[:, :k] @ rng.standard_normal(k)
    elif setting == "masked_corr":
        j = int(rng.integers(1, d))
        signal[j], mean, spread = True, X[:, j].copy(), 0.5
    elif setting == "poly":
        places = rng.choice(d, k, replace=False)
        signal[places] = True
        terms = cubic(X[:, places])
        mean = terms @ rng.choice([-1, 1], size=terms.shape[1])
    else:
        raise ValueError(f"unknown law {setting!r}")
    y = mean + spread * rng.standard_normal(rows)
    if setting == "masked_corr":
        X[:, j - 1] = X[:, j] + 0.1 * rng.standard_normal(rows)
    return X[:n], y[:n], signal


def cubic(X: np.ndarray) -> np.ndarray:
    """Return all products of up to three columns."""
    d = X.shape[1]
    terms = [X[:, i] for i in range(d)]
    pairs = [X[:, i] * X[:, j] for i in range(d) for j in range(i, d)]
    triples = [
        X[:, i] * X[:, j] * X[:, k] for i in range(d) for j in range(i, d) for k in range(j, d)
    ]
    return np.column_stack([*terms, *pairs, *triples])


def lasso() -> LassoCV:
    return LassoCV(alphas=np.logspace(-3, 3, 10), cv=5)


def boosting(trees: int = 200) -> Any:
    """Return boosting as theirs (200 trees of depth 3, rate .1), by a library that is quicker."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(
        n_estimators=trees, learning_rate=0.1, max_depth=3, num_leaves=8, min_child_samples=1,
        min_child_weight=0.0, max_bin=511, n_jobs=1, verbose=-1,
    )  # fmt: skip


SETTINGS = ("adjacent", "spaced", "masked_corr", "nongauss", "sinusoidal", "poly")
CELLS = ("linear, n = 500", "linear, n = 1000", *SETTINGS)


def sample_of(cell: str, seed: int, size: Size) -> tuple[Sample, Any]:
    """Return a sample of a cell, and the learner that its authors take."""
    if cell.startswith("linear"):
        return linear(seed, int(cell.rpartition(" ")[2]) // size.fewer, size.linear), lasso()
    return semi_knockoff(cell, seed, 300 // size.fewer, size.others), boosting(size.trees)


def tests_of(cell: str, seed: int, size: Size) -> dict[str, Any]:
    """Return p-values and scores of each method in one sample, and which columns carry signal."""
    (X, y, signal), learner = sample_of(cell, seed, size)
    methods = ["loco", dfi.methods.CPI(covariate_estimator=lasso()), "pcm"]
    answers: dict[str, Any] = {"signal": np.flatnonzero(signal).tolist(), "columns": X.shape[1]}
    for name, method in zip(METHODS, methods, strict=True):
        begin = time.process_time()
        result = dfi.compare(X, y, [method], estimator=learner, random_state=seed)[name]
        p = np.asarray(result.test(adjust="none")["p"], dtype=float)
        answers[name] = {
            "p": np.where(np.isfinite(p), p, 1.0).round(6).tolist(),
            "score": np.asarray(result.scores).round(6).tolist(),
            "seconds": round(time.process_time() - begin, 1),
        }
    return answers


def kept_of(cell: str, seed: int, size: Size) -> dict[str, Any]:
    """Return the columns that ``keep`` takes to express 95 % of the signal."""
    (X, y, signal), learner = sample_of(cell, seed, size)
    begin = time.process_time()
    result = dfi.explain(X, y, learner, diagnose=False, random_state=seed)
    kept = [result.names.index(name) for name in result.keep().kept]
    return {
        "signal": np.flatnonzero(signal).tolist(), "columns": X.shape[1], "kept": kept,
        "seconds": round(time.process_time() - begin, 1),
    }  # fmt: skip


def figures_of(sample: Mapping[str, Any], method: str, *, by_score: bool) -> list[float]:
    """Return area under the curve, power and type I error, each counted as the authors do."""
    signal = _signal(sample)
    p = np.array(sample[method]["p"])
    order = np.array(sample[method]["score"]) if by_score else 1 - p
    return [
        float(roc_auc_score(signal, order)),
        float((p[signal] <= LEVEL).mean()),
        float((p[~signal] <= LEVEL).mean()),
    ]


def selected_of(sample: Mapping[str, Any], method: str = "pcm") -> list[int]:
    """Return what Benjamini and Hochberg's procedure selects, as ``dfi.select`` does."""
    p = np.array(sample[method]["p"])
    order = np.argsort(p)
    below = np.flatnonzero(p[order] <= FALSE_DISCOVERIES * np.arange(1, len(p) + 1) / len(p))
    return sorted(order[: below[-1] + 1].tolist()) if len(below) else []


def list_of(sample: Mapping[str, Any], chosen: Iterable[int]) -> list[float]:
    """Return the part of the signals on a list, and the part of the list that carries none."""
    signal, rows = _signal(sample), list(chosen)
    false = 1 - signal[rows].mean() if rows else 0.0
    return [float(signal[rows].sum() / signal.sum()), float(false)]


def _signal(sample: Mapping[str, Any]) -> np.ndarray:
    signal = np.zeros(sample["columns"], dtype=bool)
    signal[sample["signal"]] = True
    return signal


def run(
    file: Path, cells: Iterable[str], seeds: Iterable[int], task: Callable[[str, int], Any]
) -> dict[str, dict[str, Any]]:
    """Run what is not in the file yet, all cells of a seed before the next one; return all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    for seed in seeds:
        for cell in cells:
            done = known.setdefault(cell, {})
            if str(seed) in done:
                continue
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore")
                done[str(seed)] = task(cell, seed)
            beside = file.with_suffix(".new")
            beside.write_text(json.dumps(known))
            beside.replace(file)
    return known


# What the authors' replicates give (area under the curve, power, type I error), computed from the
# p-values in their repositories: AngelReyero/Sobol-CPI, results/csv/inference, and
# AngelReyero/loss_based_KO, results/res_csv/p_values_SETTING_GB_seed*.csv.
PUBLISHED: dict[str, dict[str, tuple[float, float, float]]] = {
    "linear, n = 500": {
        "CPI": (0.954, 0.522, 0.024), "Sobol-CPI(100)": (0.905, 0.403, 0.080),
        "LOCO": (0.912, 0.451, 0.080), "LOCO-W": (0.568, 0.134, 0.089),
    },
    "linear, n = 1000": {
        "CPI": (0.995, 0.813, 0.018), "Sobol-CPI(100)": (0.969, 0.634, 0.038),
        "LOCO": (0.971, 0.641, 0.075), "LOCO-W": (0.600, 0.146, 0.072),
    },
    "adjacent": {
        "Semi-knockoffs": (1.0, 0.999, 0.049), "dCRT": (1.0, 0.999, 0.042),
        "HRT": (0.965, 0.833, 0.052), "CPI": (0.914, 0.645, 0.049),
        "LOCO": (0.761, 0.277, 0.049), "LOCO-W": (0.601, 0.469, 0.329),
    },
    "spaced": {
        "Semi-knockoffs": (0.999, 0.997, 0.053), "dCRT": (1.0, 1.0, 0.040),
        "HRT": (0.935, 0.754, 0.059), "CPI": (0.871, 0.533, 0.054),
        "LOCO": (0.765, 0.287, 0.065), "LOCO-W": (0.583, 0.485, 0.363),
    },
    "masked_corr": {
        "Semi-knockoffs": (0.964, 0.857, 0.057), "dCRT": (0.852, 0.400, 0.040),
        "HRT": (0.747, 0.257, 0.052), "CPI": (0.698, 0.171, 0.051),
        "LOCO": (0.749, 0.200, 0.048), "LOCO-W": (0.469, 0.243, 0.347),
    },
    "nongauss": {
        "Semi-knockoffs": (0.858, 0.687, 0.052), "dCRT": (0.934, 0.801, 0.030),
        "HRT": (0.807, 0.551, 0.055), "CPI": (0.769, 0.449, 0.050),
        "LOCO": (0.714, 0.318, 0.049), "LOCO-W": (0.558, 0.399, 0.307),
    },
    "sinusoidal": {
        "Semi-knockoffs": (0.715, 0.278, 0.044), "dCRT": (1.0, 1.0, 0.055),
        "HRT": (0.997, 0.992, 0.054), "CPI": (0.984, 0.905, 0.045),
        "LOCO": (0.960, 0.740, 0.044), "LOCO-W": (0.716, 0.710, 0.397),
    },
    "poly": {
        "Semi-knockoffs": (0.604, 0.157, 0.069), "dCRT": (0.784, 0.462, 0.045),
        "HRT": (0.696, 0.268, 0.059), "CPI": (0.646, 0.165, 0.039),
        "LOCO": (0.601, 0.146, 0.073), "LOCO-W": (0.518, 0.317, 0.262),
    },
}  # fmt: skip


def table_of_tests(known: Mapping[str, Any], cells: Iterable[str]) -> list[str]:
    """Return a table of one paper: a line for each method, three figures for each law."""
    present = [cell for cell in cells if known.get(cell)]
    if not present:
        return ["(no samples yet)"]
    lines = [
        "| method | " + " | ".join(f"{cell} ({len(known[cell])})" for cell in present) + " |",
        "|---" * (len(present) + 1) + "|",
    ]
    for method in METHODS:
        shown = []
        for cell in present:
            by_score = cell.startswith("linear")
            each = [figures_of(one, method, by_score=by_score) for one in known[cell].values()]
            shown.append(_figures(np.mean(each, axis=0), _errors(each)))
        lines.append(f"| **dfi {method}** | " + " | ".join(shown) + " |")
    for method in PUBLISHED[present[0]]:
        shown = [_figures(np.array(PUBLISHED[cell][method])) for cell in present]
        lines.append(f"| {method}, published | " + " | ".join(shown) + " |")
    return lines


def table_of_lists(tests: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Return what lists of columns hold: the part of the signals, the part that is false."""
    found = {
        "select": {c: [list_of(one, selected_of(one)) for one in tests[c].values()] for c in tests},
        "keep": {c: [list_of(one, one["kept"]) for one in kept[c].values()] for c in kept},
    }
    found = {name: cells for name, cells in found.items() if any(cells.values())}
    heads = [f"samples | `{name}` finds | of it false" for name in found]
    lines = [f"| law | {' | '.join(heads)} |", "|---" * (1 + 3 * len(heads)) + "|"]
    for cell in CELLS:
        shown = []
        for cells in found.values():
            each = cells.get(cell, [])
            shown += [str(len(each)), *_pair(each)] if each else ["0", "", ""]
        lines.append(f"| {cell} | {' | '.join(shown)} |")
    return lines if found else ["(no samples yet)"]


def _pair(each: list[list[float]]) -> list[str]:
    mean, error = np.mean(each, axis=0), _errors(each)
    return [f"{value:.2f} ({spread:.2f})" for value, spread in zip(mean, error, strict=True)]


def _errors(each: list[list[float]]) -> np.ndarray:
    """Return the Monte-Carlo errors of means over samples; NaN with one sample."""
    if len(each) < 2:
        return np.full(len(each[0]), np.nan)
    return np.std(each, axis=0, ddof=1) / np.sqrt(len(each))


def _figures(mean: np.ndarray, error: np.ndarray | None = None) -> str:
    if error is None:
        return ", ".join(f"{value:.2f}" for value in mean)
    return ", ".join(f"{value:.2f} ({e:.2f})" for value, e in zip(mean, error, strict=True))


def without_samples(known: Mapping[str, Any], cells: Iterable[str]) -> list[str]:
    """Return the laws of which there is no sample."""
    return [cell for cell in cells if not known.get(cell)]


def write_page(page: Path, parts: Mapping[str, list[str]]) -> None:
    """Put tables between their marks on the page."""
    text = page.read_text()
    for name, lines in parts.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{page} has no marks of {name!r}")
        text = "\n".join([head + begin, *lines, end]) + after
    page.write_text(text)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where samples are kept")
    parser.add_argument("--seeds", type=int, default=8, help="samples of a published law")
    parser.add_argument("--keep-seeds", type=int, help="samples of `keep`; --seeds by default")
    parser.add_argument("--interval-seeds", type=int, help="samples of intervals; 5 --seeds")
    parser.add_argument("--quick", action="store_true", help="small tables; writes no page")
    parser.add_argument("--only", nargs="*", default=("tests", "keep", "intervals"))
    parser.add_argument("--page", action="store_true", help="write the figures into the page")
    given = parser.parse_args(arguments)
    size, folder = (QUICK, given.folder / "quick") if given.quick else (Size(), given.folder)
    seeds, of_keep, of_intervals = given.seeds, given.keep_seeds, given.interval_seeds
    of_keep = seeds if of_keep is None else of_keep
    of_intervals = 5 * seeds if of_intervals is None else of_intervals
    counts = {"tests": seeds, "keep": of_keep, "intervals": of_intervals}
    counts = {name: count if name in given.only else 0 for name, count in counts.items()}

    def seeds_of(name: str) -> range:
        return range(FIRST, FIRST + counts[name])

    tests = run(
        folder / "tests.json", CELLS, seeds_of("tests"), lambda c, seed: tests_of(c, seed, size)
    )
    kept = run(
        folder / "keep.json", CELLS, seeds_of("keep"), lambda c, seed: kept_of(c, seed, size)
    )
    spans = run(
        folder / "intervals.json", intervals.CELLS, seeds_of("intervals"),
        lambda cell, seed: intervals.intervals_of(cell, seed, n=120 if given.quick else 500),
    )  # fmt: skip
    lacking = {
        "sobol": without_samples(tests, CELLS[:2]),
        "semi": without_samples(tests, SETTINGS),
        "lists": without_samples(tests, CELLS) + without_samples(kept, CELLS),
        "intervals": without_samples(spans, intervals.CELLS),
    }
    parts = {
        "sobol": table_of_tests(tests, CELLS[:2]),
        "semi": table_of_tests(tests, SETTINGS),
        "lists": table_of_lists(tests, kept),
        "intervals": intervals.table_of_intervals(spans),
    }
    print("\n\n".join("\n".join(lines) for lines in parts.values()))
    if given.page and not given.quick:
        for name, cells in lacking.items():
            if cells:
                print(f"\n{name}: the page keeps its table, as there are no samples of {cells}")
        write_page(PAGE, {name: part for name, part in parts.items() if not lacking[name]})


if __name__ == "__main__":
    main()
