"""Do the intervals of the nonlinear transports cover? One table, as Markdown.

    OMP_NUM_THREADS=1 python benchmarks/transport_coverage.py [--only copula] [--scale 1.0]

Samples of 500 rows with the true regression and noise of variance 1; nominal 90 % intervals of both
scores, as they come (transport's error included) and with the transport taken as known. "SE /
spread" is the mean standard error over the standard deviation of the estimates: 1 is right.

Truths, for columns ``x = Q(z)`` of correlated normal ones and ``mu = b'z``, with ``L`` the root of the
correlation matrix: phi_Z = (L b)^2 and phi_X = E[g^2] (L*L) phi_Z under the copula, where g is the slope
of the standardised quantile function: E[g^2] = s^2/(1 - exp(-s^2)) for log-normal columns of log-scale
s, 1 for normal ones, an integral for exponential ones. Knothe-Rosenblatt: the same with Cholesky's
root (transposed where it meets b). Entropic transport on normal columns: c^2 and c^4 times the
Gaussian ones, c = sqrt(1 + eps^2/16) - eps/4.

Nothing was chosen by coverage. The distance between knots was chosen on the mean squared slopes of
other margins than log-normal ones (exponential ones among them), no setting of Knothe-Rosenblatt's
on the correlations and margins of its second line here.

    python benchmarks/transport_coverage.py --learned 30 [--only parabola] [--keep FOLDER]

The Brenier map with the default learner, and with the true regression beside it. There is no closed
form: the truth is the mean over tables of 10,000 rows of the scores of the map fitted to each, with
the true regression and the penalty that held-out rows ask for. Normal scores are a part of the
question, and a sample may ask for them or not: it is set beside the map with the same choice. With
``--keep`` every sample is written to a file as it is finished, and those found there are not run
again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtri
from scipy.stats import norm

import dfi
from dfi.datasets.simulations import correlated_gaussian, symmetric_root
from dfi.transports import Brenier, Copula, EntropicOT, KnotheRosenblatt

N = 500
LEVEL = 0.9


@dataclass(frozen=True)
class Law:
    """A margin: values of normal scores, the way back, and E[g^2]."""

    label: str
    value: Callable[[np.ndarray], np.ndarray]
    score: Callable[[np.ndarray], np.ndarray]
    square: float


NORMAL = Law("normal", lambda z: z, lambda x: x, 1.0)
EXPONENTIAL = Law(
    "exponential",
    lambda z: -log_ndtr(-z),
    lambda x: -ndtri(np.exp(-np.maximum(x, 1e-300))),
    # the slope of -log(1 - Phi(z)) is the hazard, and the variance 1
    float(quad(lambda z: np.exp(3 * norm.logpdf(z) - 2 * norm.logsf(z)), -10, 10)[0]),
)


def log_normal(scale: float) -> Law:
    square = scale**2 / (1 - np.exp(-(scale**2)))
    label = f"log-normal, log-scale {scale:g}"
    return Law(label, lambda z: np.exp(scale * z), lambda x: np.log(x) / scale, square)


@dataclass(frozen=True)
class Setting:
    """A transport, data for it and the scores it should find."""

    label: str
    transport: Any
    correlation: np.ndarray
    beta: np.ndarray
    law: Law
    latent: np.ndarray
    attributed: np.ndarray
    replications: int

    def sample(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng([seed, 77])
        scores = correlated_gaussian(self.correlation, N, generator)
        y = scores @ self.beta + generator.standard_normal(N)
        return self.law.value(scores), y

    def regression(self) -> Callable[[np.ndarray], np.ndarray]:
        return lambda X: self.law.score(X) @ self.beta


def autoregressive(d: int) -> np.ndarray:
    return 0.6 ** np.abs(np.subtract.outer(range(d), range(d)))


def equal(d: int, correlation: float) -> np.ndarray:
    return correlation + (1 - correlation) * np.eye(d)


def monotone(
    name: str, law: Law, correlation: np.ndarray, beta: list[float], note: str, replications: int
) -> Setting:
    """Return a setting of the copula or of Knothe-Rosenblatt."""
    b = np.array(beta)
    if name == "copula":
        root, transport = symmetric_root(correlation), Copula(attribution="slopes")
    else:
        root, transport = np.linalg.cholesky(correlation), KnotheRosenblatt(attribution="slopes")
    latent = (root.T @ b) ** 2
    return Setting(
        f"{name}, {law.label}, {note}", transport, correlation, b, law,
        latent, law.square * (root**2) @ latent, replications,
    )  # fmt: skip


def entropic() -> Setting:
    correlation, beta = autoregressive(2), np.array([2.0, 1.0])
    root, shrink = symmetric_root(correlation), np.sqrt(1 + 1 / 16) - 1 / 4
    latent = shrink**2 * (root @ beta) ** 2
    return Setting(
        "entropic, epsilon = 1, normal, correlation .6",
        EntropicOT(epsilon=1.0, attribution="slopes"), correlation, beta, NORMAL, latent, shrink**2 * (root**2) @ latent, 100,
    )  # fmt: skip


def all_settings() -> list[Setting]:
    four, three = autoregressive(4), autoregressive(3)
    knothe = "Knothe-Rosenblatt"
    return [
        monotone("copula", log_normal(1.0), four, [2, 1, 0, 0], "AR(.6)", 400),
        monotone("copula", log_normal(0.5), four, [2, 1, 0, 0], "AR(.6)", 400),
        monotone("copula", NORMAL, four, [2, 1, 0, 0], "AR(.6)", 400),
        monotone("copula", EXPONENTIAL, equal(5, 0.4), [1, -1, 0.5, 0, 2], "equal .4", 400),
        monotone(knothe, NORMAL, three, [2, 1, 0], "AR(.6)", 300),
        monotone(knothe, EXPONENTIAL, equal(2, -0.4), [1, 1.5], "correlation -.4", 200),
        entropic(),
    ]


def study(setting: Setting, replications: int) -> list[str]:
    """Return the setting's lines of the table."""
    truth = {"phi_Z": setting.latent, "phi_X": setting.attributed}
    found: dict[tuple[str, bool], list[np.ndarray]] = {}
    for seed in range(replications):
        X, y = setting.sample(seed)
        for fixed in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = dfi.explain(
                    X, y, estimator=setting.regression(), cv="prefit", level=LEVEL,
                    transport=setting.transport, transport_error="ignore" if fixed else "auto",
                    diagnose=False, progress=False, random_state=seed,
                )  # fmt: skip
            for name, part in (("phi_Z", result.latent), ("phi_X", result)):
                low, high = np.asarray(part.interval())[:, -2:].astype(float).T
                inside = (low <= truth[name]) & (truth[name] <= high)
                row = np.stack([part.scores, part.se, inside])
                found.setdefault((name, fixed), []).append(row)
    error = np.sqrt(LEVEL * (1 - LEVEL) / replications)
    lines = []
    for name, values in truth.items():
        scores, se, inside = np.swapaxes(found[name, False], 0, 1)
        known = np.mean([row[2] for row in found[name, True]], axis=0)
        spread = scores.std(axis=0, ddof=1)
        lines.append(
            f"| {setting.label} | {name} | {join(values)} | {join(scores.mean(axis=0))} "
            f"| {join(se.mean(axis=0) / spread)} | {join(inside.mean(axis=0))} | {join(known)} "
            f"| {replications} ({error:.2f}) |"
        )
    return lines


@dataclass(frozen=True)
class Curved:
    """A law of dependent columns and a regression on it."""

    label: str
    draw: Callable[[int, np.random.Generator], np.ndarray]
    regression: Callable[[np.ndarray], np.ndarray]

    def sample(self, n: int, *seed: int) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng([*seed, 35])
        X = self.draw(n, generator)
        return X, self.regression(X) + generator.standard_normal(n)

    def scores(self, X: np.ndarray, y: np.ndarray, **options: Any) -> np.ndarray:
        """Return scores, lower and upper ends of intervals, (latent and attributed, 3, d)."""
        options = {"transport": "brenier", **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = dfi.explain(X, y, level=LEVEL, diagnose=False, progress=False, **options)
        return np.stack(
            [
                np.vstack([part.scores, np.asarray(part.interval())[:, -2:].astype(float).T])
                for part in (result.latent, result)
            ]
        )

    def truth(self, margins: bool) -> np.ndarray:
        """Return the scores of the map of many rows, and the error of their mean, (2, 2, d)."""
        known = {"estimator": self.regression, "cv": "prefit", "transport_error": "ignore"}
        transport = Brenier(margins=margins)
        tables = [self.sample(TABLE_ROWS, seed, 1) for seed in range(TABLES)]
        found = np.array(
            [
                self.scores(X, y, transport=transport, random_state=0, **known)[:, 0]
                for X, y in tables
            ]
        )
        return np.stack([found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(TABLES)])

    def asks_for_margins(self, seed: int) -> bool:
        """Return whether a sample asks for normal scores."""
        fitted = Brenier().fit(self.sample(N, seed, 0)[0]).fitted_
        return bool(getattr(fitted, "margins", ()))


TABLES, TABLE_ROWS = 8, 10_000


def parabola(n: int, generator: np.random.Generator) -> np.ndarray:
    x1, e2, e3 = generator.standard_normal((3, n))
    return np.column_stack([x1, x1**2 + 0.5 * e2, 0.6 * x1 + 0.8 * e3])


def spread(n: int, generator: np.random.Generator) -> np.ndarray:
    x1, e2, x3 = generator.standard_normal((3, n))
    return np.column_stack([x1, 0.5 * x1 + 0.6 * np.exp(0.7 * x1) * e2, x3])


CURVED = (
    Curved("parabola, mu = 2 x1", parabola, lambda X: 2 * X[:, 0]),
    Curved("spread that varies, mu = x2", spread, lambda X: X[:, 1]),
)


def learned(law: Curved, samples: int, folder: Path | None) -> list[str]:
    """Return the law's lines of the table of learned models."""
    kept = folder / f"{law.label}.json" if folder else None
    known = json.loads(kept.read_text()) if kept and kept.exists() else {}

    def value(name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
        if name not in known:
            known[name] = compute().tolist()
            if kept:
                kept.write_text(json.dumps(known))
        return np.array(known[name])

    bent = np.array([law.asks_for_margins(seed) for seed in range(samples)])
    plain, plain_error = value("truth, margins as they are", lambda: law.truth(False))
    truths = np.where(
        bent[:, None, None], value("truth, normal scores", lambda: law.truth(True))[0], plain
    )
    true_model = {"estimator": law.regression, "cv": "prefit"}
    error = np.sqrt(LEVEL * (1 - LEVEL) / samples)
    lines = []
    for label, options in (("true", true_model), ("default learner", {})):
        found = np.array(
            [
                value(
                    f"{label} {seed}",
                    lambda seed=seed, options=options: law.scores(
                        *law.sample(N, seed, 0), random_state=seed, **options
                    ),
                )
                for seed in range(samples)
            ]
        )
        for k, name in enumerate(("phi_Z", "phi_X")):
            score, low, high = np.swapaxes(found[:, k], 0, 1)
            inside = (low <= truths[:, k]) & (truths[:, k] <= high)
            errors = (high - low) / 2 / norm.ppf(0.5 + LEVEL / 2)
            lines.append(
                f"| {law.label} ({bent.sum()} with normal scores) | {label} | {name} "
                f"| {join(plain[k])} ({plain_error[k].max():.2f}) "
                f"| {join(score[~bent].mean(axis=0))} "
                f"| {join(errors[~bent].mean(axis=0) / score[~bent].std(axis=0, ddof=1))} "
                f"| {join(inside.mean(axis=0))} | {samples} ({error:.2f}) |"
            )
    return lines


def join(values: np.ndarray) -> str:
    return ", ".join(f"{value:.2f}" if np.isfinite(value) else "-" for value in values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="settings whose label contains this")
    parser.add_argument("--scale", type=float, default=1.0, help="times the replications")
    parser.add_argument("--learned", type=int, default=0, help="samples of Brenier's table instead")
    parser.add_argument("--keep", type=Path, help="folder for its finished samples")
    options = parser.parse_args()
    if options.learned:
        print(
            "| data | regression | score | truth (MC error) | mean estimate | width / spread "
            "| covers | samples (MC error) |\n|---|---|---|---|---|---|---|---|"
        )
        for law in CURVED:
            if options.only in law.label:
                for line in learned(law, options.learned, options.keep):
                    print(line, flush=True)
        raise SystemExit
    print(
        "| transport, data | score | truth | mean estimate | SE / spread | covers "
        "| covers, transport known | samples (MC error) |\n|---|---|---|---|---|---|---|---|"
    )
    for setting in all_settings():
        if options.only not in setting.label:
            continue
        start = time.process_time()
        for line in study(setting, max(2, round(options.scale * setting.replications))):
            print(line, flush=True)
        print(f"<!-- {time.process_time() - start:.0f} CPU s -->", flush=True)
