"""Write docs/nulls.md: how often features that carry nothing are called significant.

A second table asks what the components cost where dependence is weak and everywhere: do intervals
still cover?

Run as ``python benchmarks/null_study.py [--quick] [--only NAME]``; all of it takes about half an
hour on two cores. Cells already measured are kept in docs/nulls.json.

Every cell explains samples of a model with the *true* regression, so that the transport is all
that is estimated: its error is what used to make noise significant. Features named null are
independent of all others and of the outcome.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import dfi

PAGE = Path(__file__).parents[1] / "docs" / "nulls.md"
FIGURES = PAGE.with_suffix(".json")
LEVEL = 0.05
WEAK_HEAD = """
## Dense weak correlation

Screening could miss dependence that is weak but widespread. Intervals would then miss shared signal.
Nominal 90 % intervals, three linear signals among equicorrelated features, the true regression: mean coverage of the signals
and of the features that only correlate with them.

| correlation | columns | n | samples (MC error of one) | signals | without | others | without |
|---|---|---|---|---|---|---|---|
"""
HEAD = """# Nulls

How features without signal fare under the true regression: how often they are rejected at 5 %
(one-sided, unadjusted), their mean score, and how often the score is exactly 0 because they belong to
no dependence component that the regression reads. "Without" keeps every sample correlation
(`Gaussian(components=None)`, and a cruder derivation of the transport's error, removed since), on the same samples; the second-order bias is
subtracted in both. `python benchmarks/null_study.py` writes this page.

| model | n | samples (MC error at 5 %) | null rejected | without | mean null score / Var(f) | without | exactly 0 |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Draw:
    """A sample with its true regression; the null features come last."""

    X: np.ndarray
    y: np.ndarray
    regression: object
    nulls: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """One model at one size.

    Attributes
    ----------
    name : str
        The model.
    n : int
        Rows of a sample.
    draw : callable
        ``(n, generator)`` to a sample.
    replications : int
        Samples.
    group : bool
        Test the sum of the null features instead of each.
    """

    name: str
    n: int
    draw: Callable[[int, np.random.Generator], Draw]
    replications: int = 150
    group: bool = False

    @property
    def key(self) -> str:
        return f"{self.name}, n = {self.n}"

    def run(self, replications: int | None = None, n_jobs: int = 2) -> dict[str, np.ndarray]:
        """Return p-values and shares of every null, now and without components, of shape (replications, k)."""
        count = replications or self.replications
        rows = Parallel(n_jobs=n_jobs)(delayed(_replicate)(self, k) for k in range(count))
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def correlated(n: int, d: int, rho: float, random: np.random.Generator) -> np.ndarray:
    """Rows of a stationary autoregression across columns: corr(j, k) = rho^|j - k|."""
    X = random.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    return X


def smooth_function(X: np.ndarray) -> np.ndarray:
    return 1.5 * np.sin(1.3 * X[:, 0]) + 0.6 * X[:, 1] ** 2 + 0.8 * X[:, 2]


def smooth(n: int, random: np.random.Generator, *, heavy: bool = False) -> Draw:
    """Four features of an autoregression, the fourth only correlated; three nulls."""
    X = np.hstack([correlated(n, 4, 0.6, random), random.standard_normal((n, 3))])
    noise = random.standard_t(3, n) / np.sqrt(3) if heavy else random.standard_normal(n)
    return Draw(X, smooth_function(X) + noise, smooth_function, (4, 5, 6))


def smooth_t3(n: int, random: np.random.Generator) -> Draw:
    return smooth(n, random, heavy=True)


def product_function(X: np.ndarray) -> np.ndarray:
    return X[:, 0] * X[:, 1] + X[:, 1] * X[:, 2] * 0.7 + X[:, 3] * X[:, 4] + 0.5 * X[:, 0]


def products(n: int, random: np.random.Generator) -> Draw:
    """Products of five correlated features; three nulls."""
    X = np.hstack([correlated(n, 5, 0.5, random), random.standard_normal((n, 3))])
    return Draw(X, product_function(X) + random.standard_normal(n), product_function, (5, 6, 7))


def step(n: int, random: np.random.Generator) -> Draw:
    """One step of height 2 as a tree, so that line means are exact; three nulls."""
    X = random.standard_normal((n, 4))
    y = 2.0 * (X[:, 0] > 0.3) + random.standard_normal(n)
    corners = np.zeros((2, 4))
    corners[:, 0] = 0.3 - 1e-3, 0.3 + 1e-3
    tree = DecisionTreeRegressor().fit(corners, [0.0, 2.0])
    return Draw(X, y, tree, (1, 2, 3))


def linear_signals(
    n: int, random: np.random.Generator, *, count: int = 20, r2: float = 0.5
) -> Draw:
    """Equal linear signals, all independent; three nulls."""
    X = random.standard_normal((n, count + 3))
    noise = np.sqrt(count * (1 - r2) / r2)
    y = X[:, :count].sum(axis=1) + noise * random.standard_normal(n)
    return Draw(
        X, y, linear_model(np.r_[np.ones(count), np.zeros(3)]), tuple(range(count, count + 3))
    )


def strong_signals(n: int, random: np.random.Generator) -> Draw:
    return linear_signals(n, random, r2=0.9)


def linear_model(coefficients: np.ndarray) -> LinearRegression:
    """Return a linear function as scikit-learn would have fitted it: its line means are exact."""
    model = LinearRegression()
    model.coef_, model.intercept_ = np.asarray(coefficients, dtype=float), 0.0
    model.n_features_in_ = len(model.coef_)
    return model


CELLS = [
    Cell("smooth", 250, smooth),
    Cell("smooth", 500, smooth),
    Cell("smooth", 2000, smooth, 60),
    Cell("smooth, sum of three nulls", 500, smooth, group=True),
    Cell("smooth, t3 noise", 500, smooth_t3),
    Cell("products of five features", 500, products),
    Cell("step", 250, step),
    Cell("step", 1000, step),
    Cell("step", 4000, step, 100),
    Cell("20 linear signals, R2 = .5", 500, linear_signals, 100),
    Cell("20 linear signals, R2 = .9", 500, strong_signals, 100),
    Cell("20 linear signals, R2 = .5", 2000, linear_signals, 50),
    Cell("20 linear signals, R2 = .9", 2000, strong_signals, 50),
]


@dataclass(frozen=True)
class WeakCell:
    """Equicorrelated features, three linear signals, and the truth in closed form.

    With ``L`` the symmetric root of the correlation matrix, the latent scores are ``(L beta)^2``
    and the attributed ones ``(L * L) (L beta)^2``.
    """

    rho: float
    d: int
    n: int
    replications: int = 200

    @property
    def key(self) -> str:
        return f"equicorrelation {self.rho}, d = {self.d}, n = {self.n}"

    def truth(self) -> np.ndarray:
        L = self.root()
        return L**2 @ (L @ self.coefficients()) ** 2

    def root(self) -> np.ndarray:
        values, vectors = np.linalg.eigh(
            np.full((self.d, self.d), self.rho) + (1 - self.rho) * np.eye(self.d)
        )
        return vectors * np.sqrt(values) @ vectors.T

    def coefficients(self) -> np.ndarray:
        return np.r_[1.0, 1.0, 0.7, np.zeros(self.d - 3)]

    def run(self, replications: int | None = None, n_jobs: int = 2) -> dict[str, np.ndarray]:
        """Return which intervals cover, now and without components, of shape (replications, d)."""
        count = replications or self.replications
        rows = Parallel(n_jobs=n_jobs)(delayed(_replicate_weak)(self, k) for k in range(count))
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _replicate_weak(cell: WeakCell, number: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng([number, cell.n, cell.d, int(100 * cell.rho)])
    X = random.standard_normal((cell.n, cell.d)) @ cell.root()
    beta, truth = cell.coefficients(), cell.truth()
    y = X @ beta + random.standard_normal(cell.n)
    found = {}
    for when, options in SETTINGS.items():
        result = dfi.explain(
            X, y, linear_model(beta), cv="prefit", diagnose=False, progress=False, level=0.9,
            **options,
        )  # fmt: skip
        table = result.interval(0.9)
        low, high = np.asarray(table["ci_low"]), np.asarray(table["ci_high"])
        found[when] = (low <= truth) & (truth <= high)
    return found


def weak_line(cell: WeakCell, found: dict[str, np.ndarray]) -> str:
    """Return a cell's line of the second table."""
    count = len(found["now"])
    signal, other = found["now"][:, :3].mean(), found["now"][:, 3:].mean()
    signal_without, other_without = found["without"][:, :3].mean(), found["without"][:, 3:].mean()
    return (
        f"| {cell.rho} | {cell.d} | {cell.n} | {count} ({np.sqrt(0.09 / count):.3f}) "
        f"| {signal:.3f} | {signal_without:.3f} | {other:.3f} | {other_without:.3f} |"
    )


WEAK_CELLS = [WeakCell(0.1, 20, 300), WeakCell(0.1, 20, 600), WeakCell(0.15, 10, 200)]
SETTINGS = {
    "now": {},
    "without": {
        "transport": dfi.transports.Gaussian(components=None),
        "transport_error": "derived",
    },
}


def _replicate(cell: Cell, number: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng([number, cell.n, sum(map(ord, cell.name))])
    sample = cell.draw(cell.n, random)
    found: dict[str, np.ndarray] = {}
    for when, options in SETTINGS.items():
        result = dfi.explain(
            sample.X, sample.y, sample.regression, cv="prefit", diagnose=False, progress=False,
            **options,
        )  # fmt: skip
        nulls = list(sample.nulls)
        if cell.group:
            result = result.group({"null": [result.names[k] for k in nulls]})
            nulls = [0]
        p = result.test(alternative="greater", adjust=None)
        order = [list(p["feature"]).index(result.names[k]) for k in nulls]
        found[f"p_{when}"] = np.asarray(p["p"])[order]
        variance = float(np.var(np.asarray(_predict(sample.regression, sample.X))))
        found[f"share_{when}"] = result.scores[nulls] / variance
    return found


def _predict(regression: object, X: np.ndarray) -> np.ndarray:
    return regression.predict(X) if hasattr(regression, "predict") else regression(X)


def line(cell: Cell, found: dict[str, np.ndarray]) -> str:
    """Return a cell's line of the table."""
    count = len(found["p_now"])
    error = np.sqrt(LEVEL * (1 - LEVEL) / found["p_now"].size)
    size = {when: np.mean(found[f"p_{when}"] < LEVEL) for when in SETTINGS}
    share = {when: np.mean(found[f"share_{when}"]) for when in SETTINGS}
    return (
        f"| {cell.name} | {cell.n} | {count} ({error:.3f}) | {size['now']:.3f} | "
        f"{size['without']:.3f} | {share['now']:.5f} | {share['without']:.5f} | "
        f"{np.mean(found['share_now'] == 0.0):.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 samples a cell, print only")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    arguments = parser.parse_args()
    known: dict[str, str] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for cell in (cell for cell in [*CELLS, *WEAK_CELLS] if arguments.only in cell.key):
        start = time.perf_counter()
        describe = line if isinstance(cell, Cell) else weak_line
        row = describe(cell, cell.run(20 if arguments.quick else None))
        print(row, f"{time.perf_counter() - start:.0f} s", flush=True)
        if not arguments.quick:
            known[cell.key] = row
            write_page(known)


def write_page(known: dict[str, str]) -> None:
    """Write the cells measured so far, in their order."""
    FIGURES.write_text(json.dumps(known, indent=1) + "\n")
    sizes = [known[cell.key] for cell in CELLS if cell.key in known]
    weak = [known[cell.key] for cell in WEAK_CELLS if cell.key in known]
    PAGE.write_text(HEAD + "\n".join(sizes) + "\n" + WEAK_HEAD + "\n".join(weak) + "\n")


if __name__ == "__main__":
    main()
