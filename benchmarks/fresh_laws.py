"""Do intervals cover on laws that nothing was chosen on? Every default, nominal 90 %.

Seven laws of few rows: three factors behind twelve columns, a product of three, log-normal and t
columns, a parabola, a ring beside clusters, two classes with a product, counts. True scores and
shares are those of the true regression on 6 x 15,000 rows; a feature counts if its true score is at
least 1 % of their sum. ::

    python -m benchmarks.fresh_laws FOLDER --seeds 20

keeps each result in the folder, does what is missing, and prints the table of docs/coverage.md. ::

    python -m benchmarks.fresh_laws FOLDER --true 500

is for many samples with the true regression only, heavy tails above all: intervals of scores and
shares, and bands that are to hold for all scores at once.
"""

from __future__ import annotations

import argparse
import json
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats
from threadpoolctl import threadpool_limits

import dfi

Floats = np.ndarray[Any, np.dtype[np.float64]]
CONFIDENCE, COUNTS, ROWS = 0.9, 0.01, (300, 120)
BATCHES, BATCH = 6, 15_000
MANY = 60
"""Batches of the truth that many samples are compared with."""


@dataclass(frozen=True)
class TrueRegression:
    """The regression itself, as a fitted model."""

    mean: Callable[[Floats], Floats]

    def fit(self, _X: pd.DataFrame, _y: pd.Series) -> TrueRegression:
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        return self.mean(np.asarray(X, dtype=float))


class TrueProbability(TrueRegression):
    _estimator_type = "classifier"
    classes_ = np.array(["a", "b"])

    def predict_proba(self, X: pd.DataFrame) -> Floats:
        p = self.mean(np.asarray(X, dtype=float))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: pd.DataFrame) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@dataclass(frozen=True)
class Law:
    """Columns, the mean of the outcome, and the noise, or the kind of outcome."""

    columns: Callable[[int, np.random.Generator], Floats]
    mean: Callable[[Floats], Floats]
    noise: float = 0.0
    outcome: str = "number"
    options: Mapping[str, Any] = field(default_factory=dict)
    small: bool = False

    def draw(self, name: str, n: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
        rng = np.random.default_rng([zlib.crc32(name.encode()), n, seed])
        X = self.columns(n, rng)
        mean = self.mean(X)
        if self.outcome == "number":
            y = mean + self.noise * rng.standard_normal(n)
        elif self.outcome == "class":
            y = np.where(rng.random(n) < mean, "b", "a")
        else:
            y = rng.poisson(mean)
        return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])]), pd.Series(y)

    @property
    def truth(self) -> TrueRegression:
        return (TrueProbability if self.outcome == "class" else TrueRegression)(self.mean)


def _normal(n: int, R: Floats, rng: np.random.Generator) -> Floats:
    return rng.standard_normal((n, len(R))) @ np.linalg.cholesky(R).T


def _autoregressive(d: int, rho: float) -> Floats:
    places = np.arange(d)
    return np.asarray(rho ** np.abs(places[:, None] - places), dtype=float)


def _factors(n: int, rng: np.random.Generator) -> Floats:
    loadings = np.zeros((12, 3))
    for k in range(12):
        loadings[k, k // 4] = 0.8 - 0.1 * (k % 4)
    loadings[0, 1] = loadings[5, 2] = loadings[9, 0] = 0.3
    R = loadings @ loadings.T
    R = R / np.sqrt(np.outer(np.diag(R) + 0.3, np.diag(R) + 0.3))
    np.fill_diagonal(R, 1.0)
    return _normal(n, R, rng)


def _five(n: int, rng: np.random.Generator) -> Floats:
    return _normal(n, _autoregressive(5, 0.4), rng)


def _heavy(n: int, rng: np.random.Generator) -> Floats:
    z = _normal(n, _autoregressive(4, 0.5), rng)
    t = stats.t(4).ppf(stats.norm.cdf(z[:, 1]))
    return np.column_stack([np.exp(0.7 * z[:, 0]), t, np.exp(0.5 * z[:, 2]), z[:, 3]])


def _parabola(n: int, rng: np.random.Generator) -> Floats:
    a = rng.standard_normal(n)
    curve = 0.6 * (a**2 - 1.0) + 0.5 * rng.standard_normal(n)
    return np.column_stack([a, curve, rng.standard_normal(n)])


def _ring(n: int, rng: np.random.Generator) -> Floats:
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    radius = 1.5 + 0.25 * rng.standard_normal(n)
    side = 2 * rng.integers(0, 2, n) - 1
    clusters = [side + 0.4 * rng.standard_normal(n), 0.8 * side + 0.5 * rng.standard_normal(n)]
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), *clusters])


LAWS = {
    "factors, d = 12": Law(
        _factors,
        lambda X: (
            0.8 * X[:, 0] + 0.7 * np.sin(1.5 * X[:, 4]) + 0.6 * X[:, 8] + 0.4 * X[:, 0] * X[:, 5]
        ),
        1.0,
    ),
    "three-way product": Law(
        _five, lambda X: X[:, 0] * X[:, 1] * X[:, 2] + 0.7 * X[:, 3], 0.8, small=True
    ),
    "log-normal and t4": Law(
        _heavy, lambda X: 0.8 * X[:, 0] + 0.6 * X[:, 1] + 0.5 * X[:, 3], 1.0, small=True
    ),
    "parabola": Law(_parabola, lambda X: X[:, 0] + X[:, 1] + 0.7 * X[:, 2], 1.0),
    "ring and clusters": Law(
        _ring,
        lambda X: X[:, 0] * X[:, 1] + X[:, 0] + 0.8 * np.tanh(2.0 * X[:, 2]) + 0.4 * X[:, 3],
        1.0,
    ),
    "binary with product": Law(
        _five,
        lambda X: special.expit(1.2 * X[:, 0] + X[:, 1] * X[:, 2]),
        outcome="class",
        small=True,
    ),
    "counts": Law(
        _five,
        lambda X: np.exp(0.3 + 0.5 * X[:, 0] + 0.3 * X[:, 1] * (X[:, 2] > 0)),
        outcome="count",
        options={"loss": "poisson"},
    ),
}
SETTINGS: dict[str, Any] = {"cv": "prefit", "diagnose": False, "progress": False}


def truth_of(name: str, law: Law, count: int = BATCHES) -> dict[str, list[float]]:
    """Return true scores and shares: means over large samples without noise where there can be."""
    batches = []
    for batch in range(count):
        X, y = law.draw(name, BATCH, 10**6 + batch)
        if law.outcome == "number":
            y = pd.Series(law.mean(X.to_numpy()))
        result = dfi.explain(X, y, law.truth, transport_error="ignore", **SETTINGS, **law.options)
        batches.append(result.table().set_index("feature").loc[list(X.columns)])
    means = {key: sum(table[key] for table in batches) / count for key in ("score", "share")}
    return {key: mean.tolist() for key, mean in means.items()}


def covers(result: dfi.Importance, truth: Mapping[str, list[float]]) -> tuple[float, float]:
    """Return which part of the intervals of scores, and of shares, hold the truth."""
    score, share = np.array(truth["score"]), np.array(truth["share"])
    counted = score >= COUNTS * score.sum()
    names = [f"x{k}" for k in range(len(score))]
    found = result.table(level=CONFIDENCE).set_index("feature").loc[names]
    scores = (found["ci_low"] <= score) & (score <= found["ci_high"])
    shares = (found["share_low"] <= share) & (share <= found["share_high"])
    known = np.isfinite(found["share"]).to_numpy()
    return float(scores[counted].mean()), float(shares[counted].mean()) if known.all() else np.nan


def _result(folder: Path, name: str, n: int, seed: int, *, known: bool) -> dfi.Importance:
    file = folder / f"{name}-{n}-{seed}{'-true' if known else ''}.dfi"
    law = LAWS[name]
    if not file.exists():
        X, y = law.draw(name, n, seed)
        if known:
            result = dfi.explain(X, y, law.truth, **SETTINGS, **law.options)
        else:
            result = dfi.explain(X, y, random_state=seed, progress=False, **law.options)
        result.save(file)
    return dfi.load(file)


def _mean(values: list[float], digits: int = 2) -> str:
    kept = np.array(values)[np.isfinite(values)]
    error = kept.std(ddof=1) / np.sqrt(len(kept))
    return f"{kept.mean():.{digits}f} ({error:.{digits}f})"


def true_regression(file: Path, samples: int) -> None:
    """Print how often intervals, and bands, of the true regression hold the truth."""
    truths = json.loads(file.read_text()) if file.exists() else {}
    print("| law | samples | scores | shares | bands of scores | width of scores, of shares |")
    print("|---|---|---|---|---|---|")
    for name, law in LAWS.items():
        if name not in truths:
            truths[name] = truth_of(name, law, MANY)
            file.write_text(json.dumps(truths))
        held, bands, widths = [], [], []
        score = np.array(truths[name]["score"])
        for seed in range(samples):
            X, y = law.draw(name, ROWS[0], seed)
            result = dfi.explain(X, y, law.truth, **SETTINGS, **law.options)
            held.append(covers(result, truths[name]))
            band = result.interval(CONFIDENCE, simultaneous=True)
            bands.append(float(((band["ci_low"] <= score) & (score <= band["ci_high"])).all()))
            table = result.table(level=CONFIDENCE)
            widths.append(
                [
                    (table["ci_high"] - table["ci_low"]).mean() / score.mean(),
                    (table["share_high"] - table["share_low"]).mean(),
                ]
            )
        cells = [_mean([pair[k] for pair in held], 3) for k in (0, 1)]
        wide = ", ".join(f"{width:.3f}" for width in np.nanmean(widths, axis=0))
        print(
            f"| {name} | {samples} | {' | '.join(cells)} | {_mean(bands, 3)} | {wide} |", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--true", type=int, help="samples with the true regression only")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.true:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            true_regression(options.folder / "true.json", options.true)
        return
    file = options.folder / "truth.json"
    truths = json.loads(file.read_text()) if file.exists() else {}
    print("| law | n | samples | scores | shares | true regression: scores | shares | R2 |")
    print("|---|---|---|---|---|---|---|---|")
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for name, law in LAWS.items():
            if name not in truths:
                truths[name] = truth_of(name, law)
                file.write_text(json.dumps(truths))
            for n in ROWS if law.small else ROWS[:1]:
                learned, oracle, skill = [], [], []
                for seed in range(options.seeds):
                    result = _result(options.folder, name, n, seed, known=False)
                    learned.append(covers(result, truths[name]))
                    skill.append(result.quality.r2)
                    true = _result(options.folder, name, n, seed, known=True)
                    oracle.append(covers(true, truths[name]))
                cells = [
                    _mean([pair[k] for pair in kind]) for kind in (learned, oracle) for k in (0, 1)
                ]
                print(
                    f"| {name} | {n} | {len(learned)} | {' | '.join(cells)} | {np.mean(skill):.2f} |"
                )


if __name__ == "__main__":
    main()
