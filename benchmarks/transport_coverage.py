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
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtri
from scipy.stats import norm

import dfi
from dfi.datasets.simulations import correlated_gaussian, symmetric_root
from dfi.transports import Copula, EntropicOT, KnotheRosenblatt

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


def join(values: np.ndarray) -> str:
    return ", ".join(f"{value:.2f}" if np.isfinite(value) else "-" for value in values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="settings whose label contains this")
    parser.add_argument("--scale", type=float, default=1.0, help="times the replications")
    options = parser.parse_args()
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
