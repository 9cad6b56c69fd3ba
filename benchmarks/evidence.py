"""What others published and can be run beside dfi: their laws, their numbers, ours.

``make evidence`` runs all of it and writes docs/evidence/how-it-compares.md. Three parts:

- ``tests``: the laws of the replicates of Sobol-CPI and of Semi-knockoffs, with the conditional
  tests that dfi has (``loco``, ``cpi``): area under the curve, power, type I error at 5 %;
- ``intervals``: packages that print an interval, each against its own truth on one law;
- parts of real tables: ``python -m benchmarks.real_parts``, whose figures are in docs/coverage.md.

``--seeds`` sets the samples of a cell. Cells are kept in the folder as they end, so an interrupted
run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.linear_model import LassoCV, LinearRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

import dfi

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "how-it-compares.md"
METHODS = ("loco", "cpi")
LEVEL = 0.05
Sample = tuple[np.ndarray, np.ndarray, np.ndarray]


def toeplitz(d: int, rho: float) -> np.ndarray:
    places = np.arange(d)
    return rho ** np.abs(places[:, None] - places)


def linear(seed: int, n: int, d: int = 100) -> Sample:
    """Sobol-CPI: 25 signals of size 1 among 100 columns, noise of half the signal's norm."""
    rng = np.random.default_rng(seed)
    X = rng.multivariate_normal(np.zeros(d), toeplitz(d, 0.6), size=n)
    signal = np.zeros(d)
    signal[rng.choice(d, d // 4, replace=False)] = 1.0
    mean, noise = X @ signal, rng.standard_normal(n)
    return X, mean + np.linalg.norm(mean) / (2 * np.linalg.norm(noise)) * noise, signal > 0


def semi_knockoff(setting: str, seed: int, n: int = 300, d: int = 50) -> Sample:
    """Return a sample of a law of Semi-knockoffs: correlations .6^|i-j| but for uniform columns."""
    rng = np.random.default_rng(seed)
    k = d // 4
    signal = np.zeros(d, dtype=bool)
    covariance = toeplitz(d, 0.6)
    if setting == "nongauss":
        X = rng.standard_t(3, size=(n, d)) @ np.linalg.cholesky(covariance).T
    elif setting == "sinusoidal":
        X = rng.uniform(0, 2 * np.pi, size=(n, d))
    else:
        X = rng.multivariate_normal(np.zeros(d), covariance, size=n)
    if setting == "adjacent":
        signal[:k] = True
        mean = X[:, :k] @ np.linspace(1, 2, k)
    elif setting == "spaced":
        signal[np.arange(0, d, 4)[:k]] = True
        mean = X[:, signal] @ rng.uniform(1, 2, k)
    elif setting == "sinusoidal":
        signal[:10] = True
        return X, np.sin(X[:, :10]).sum(axis=1) + 0.2 * rng.standard_normal(n), signal
    elif setting == "nongauss":
        signal[:k] = True
        mean = X[:, :k] @ rng.standard_normal(k)
    elif setting == "masked_corr":
        j = int(rng.integers(1, d))
        signal[j] = True
        y = X[:, j] + 0.5 * rng.standard_normal(n)
        X[:, j - 1] = X[:, j] + 0.1 * rng.standard_normal(n)
        return X, y, signal
    else:
        places = rng.choice(d, k, replace=False)
        signal[places] = True
        mean = cubic(X[:, places]) @ rng.choice([-1.0, 1.0], cubic(X[:1, places]).shape[1])
    return X, mean + rng.standard_normal(n), signal


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


CELLS: dict[str, tuple[Callable[[int], Sample], Callable[[], object]]] = {
    "linear, n = 500": (lambda seed: linear(seed, 500), lasso),
    "linear, n = 1000": (lambda seed: linear(seed, 1000), lasso),
    **{
        setting: ((lambda seed, law=setting: semi_knockoff(law, seed)), lambda: "boosting")
        for setting in ("adjacent", "spaced", "masked_corr", "nongauss", "sinusoidal", "poly")
    },
}
PUBLISHED = {
    "linear, n = 500": "CPI .954, .52, .024; Sobol-CPI(100) .905, .40, .080; LOCO .912, .45, .080",
    "linear, n = 1000": "CPI .995, .81, .018; Sobol-CPI(100) .969, .63, .038; LOCO .971, .64, .075",
    "adjacent": "Semi-KO -, .999, .049; dCRT -, .999, .042; CPI -, .645, .049; LOCO -, .277, .049",
    "spaced": "Semi-KO -, .997, .053; dCRT -, 1.0, .040; CPI -, .533, .054; LOCO -, .287, .065",
    "masked_corr": "Semi-KO -, .857, .057; dCRT -, .400, .040; CPI -, .171, .051; LOCO -, .200, .048",
    "nongauss": "Semi-KO -, .687, .052; dCRT -, .801, .030; CPI -, .449, .050; LOCO -, .318, .049",
    "sinusoidal": "Semi-KO -, .278, .044; dCRT -, 1.0, .055; CPI -, .905, .045; LOCO -, .740, .044",
    "poly": "Semi-KO -, .157, .069; dCRT -, .462, .045; CPI -, .165, .039; LOCO -, .146, .073",
}
"""What the authors' replicates give: area under the curve, power, type I error."""


def tests_of(cell: str, seed: int) -> dict[str, list[float]]:
    """Return area, power and type I error of each method in one sample."""
    draw, learner = CELLS[cell]
    X, y, signal = draw(seed)
    found = dfi.compare(X, y, list(METHODS), estimator=learner(), random_state=seed)
    answers = {}
    for method in METHODS:
        result = found[method]
        p = np.asarray(result.test(adjust="none")["p"], dtype=float)
        p = np.where(np.isfinite(p), p, 1.0)
        area = roc_auc_score(signal, result.scores)
        answers[method] = [
            area,
            float((p[signal] < LEVEL).mean()),
            float((p[~signal] < LEVEL).mean()),
        ]
    return answers


def intervals_of(seed: int, n: int = 500) -> dict[str, list[bool]]:
    """Return which nominal 90 % intervals hold their own truths, for each package that is here."""
    rng = np.random.default_rng(seed)
    R = toeplitz(5, 0.6)
    slopes = np.array([1.0, 0.5, 0.0, 0.5, 0.0])
    X = rng.multivariate_normal(np.zeros(5), R, size=n)
    y = X @ slopes + rng.standard_normal(n)
    values, vectors = np.linalg.eigh(R)
    root = vectors * np.sqrt(values) @ vectors.T
    genizi = root**2 @ (root @ slopes) ** 2
    conditional = slopes**2 / np.diag(np.linalg.inv(R))
    variance = slopes @ R @ slopes + 1.0
    answers = {}
    result = dfi.explain(X, y, "linear", level=0.9, random_state=seed)
    answers["dfi, scores"] = _held(result.interval(0.9), genizi)
    shares = result.shares(level=0.9)
    answers["dfi, shares"] = _held(shares, genizi / genizi.sum())
    loco = dfi.compare(X, y, ["loco"], estimator="linear", random_state=seed)["loco"]
    answers["dfi, loco"] = _held(loco.interval(0.9), conditional)
    answers |= _vimpy(X, y, conditional / variance, seed)
    return {name: [bool(each) for each in held] for name, held in answers.items()}


def _held(table: Any, truth: np.ndarray) -> np.ndarray:
    low, high = np.asarray(table["ci_low"], float), np.asarray(table["ci_high"], float)
    return (low <= truth + 1e-12) & (truth <= high + 1e-12)


def _vimpy(X: np.ndarray, y: np.ndarray, truth: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    try:
        import vimpy
    except ImportError:
        return {}
    held = []
    for j in range(X.shape[1]):
        np.random.seed(seed)  # noqa: NPY002
        found = vimpy.vim(y=y, x=X, s=j, pred_func=LinearRegression(), measure_type="r_squared")
        found.get_point_est()
        found.get_influence_function()
        found.get_se()
        estimate, error = float(np.squeeze(found.vimp_)), float(np.squeeze(found.se_))
        reach = stats.norm.ppf(0.95) * error
        held.append(max(estimate - reach, 0.0) <= truth[j] <= estimate + reach)
    return {"vimpy, R2 lost": np.array(held)}


def run(folder: Path, seeds: int) -> dict[str, Any]:
    """Run the cells that are not in the folder yet; return all."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "evidence.json"
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for seed in range(seeds):
        for cell in ["intervals", *CELLS]:
            done = known.setdefault(cell, {})
            if str(seed) in done:
                continue
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore")
                done[str(seed)] = (
                    intervals_of(seed) if cell == "intervals" else tests_of(cell, seed)
                )
            file.write_text(json.dumps(known))
    return known


def table_of_tests(known: dict[str, Any]) -> list[str]:
    lines = [
        "| law | samples | " + " | ".join(METHODS) + " | published |",
        "|---" * (len(METHODS) + 3) + "|",
    ]
    for cell in CELLS:
        samples = list(known.get(cell, {}).values())
        if not samples:
            continue
        shown = []
        for method in METHODS:
            mean = np.mean([sample[method] for sample in samples], axis=0)
            shown.append(", ".join(f"{value:.2f}" for value in mean))
        lines.append(
            f"| {cell} | {len(samples)} | " + " | ".join(shown) + f" | {PUBLISHED[cell]} |"
        )
    return lines


def table_of_intervals(known: dict[str, Any]) -> list[str]:
    samples = list(known.get("intervals", {}).values())
    lines = ["| package | covers, signals | covers, nulls |", "|---|---|---|"]
    null = np.array([False, False, True, False, True])
    for name in samples[0] if samples else ():
        held = np.array([sample[name] for sample in samples], dtype=float)
        own = null if name in ("dfi, loco", "vimpy, R2 lost") else np.zeros(5, dtype=bool)
        nulls = f"{held[:, own].mean():.2f}" if own.any() else "none: every column has a share"
        lines.append(f"| {name} | {held[:, ~own].mean():.2f} | {nulls} |")
    return lines


def write_page(known: dict[str, Any]) -> None:
    text = PAGE.read_text()
    for name, lines in (
        ("tests", table_of_tests(known)),
        ("intervals", table_of_intervals(known)),
    ):
        begin, end = f"<!-- {name}:begin -->\n", f"\n<!-- {name}:end -->"
        head, _, rest = text.partition(begin)
        text = head + begin + "\n".join(lines) + end + rest.partition(end)[2]
    PAGE.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where samples are kept")
    parser.add_argument("--seeds", type=int, default=20, help="samples of a cell")
    parser.add_argument("--page", action="store_true", help="write the figures into the page")
    arguments = parser.parse_args()
    known = run(arguments.folder, arguments.seeds)
    print("\n".join([*table_of_tests(known), "", *table_of_intervals(known)]))
    if arguments.page:
        write_page(known)


if __name__ == "__main__":
    main()
