"""Do the intervals of the nonlinear transports cover? One table, as Markdown.

    OMP_NUM_THREADS=1 python benchmarks/transport_coverage.py [--only copula] [--scale 1.0]

Samples of 500 rows with the true regression and noise of variance 1; nominal 90 % intervals of both
scores, as they come (transport's error included) and with the transport taken as known. "SE /
spread" is the mean standard error over the standard deviation of the estimates: 1 is right.

Truths, with ``L`` the root of the correlation matrix: the copula on log-normal columns with
``mu = b'log x``: phi_Z = (L b)^2 and phi_X = E[g^2] (L*L) phi_Z, where g = s exp(s t)/sd(exp(s T)) is
the slope of the standardised quantile function and E[g^2] = s^2/(1 - exp(-s^2)); Knothe-Rosenblatt
on normal columns: the same with Cholesky's root (transposed where it meets b) and g = 1; entropic
transport on normal columns: c^2 and c^4 times the Gaussian ones, c = sqrt(1 + eps^2/16) - eps/4.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dfi
from dfi.datasets.simulations import correlated_gaussian, symmetric_root
from dfi.transports import Copula, EntropicOT, KnotheRosenblatt

N = 500
LEVEL = 0.9


@dataclass(frozen=True)
class Setting:
    """A transport, data for it and the scores it should find."""

    label: str
    transport: Any
    correlation: np.ndarray
    beta: np.ndarray
    scale: float  # of the logarithm; 0 for normal columns
    latent: np.ndarray
    attributed: np.ndarray
    replications: int

    def sample(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng([seed, 77])
        rows = correlated_gaussian(self.correlation, N, generator)
        y = rows @ self.beta + generator.standard_normal(N)
        return (np.exp(self.scale * rows) if self.scale else rows), y

    def regression(self) -> Callable[[np.ndarray], np.ndarray]:
        if self.scale:
            return lambda X: np.log(X) @ self.beta / self.scale
        return lambda X: X @ self.beta


def autoregressive(d: int) -> np.ndarray:
    return 0.6 ** np.abs(np.subtract.outer(range(d), range(d)))


def copula(scale: float) -> Setting:
    correlation, beta = autoregressive(4), np.array([2.0, 1.0, 0.0, 0.0])
    root = symmetric_root(correlation)
    latent = (root @ beta) ** 2
    slope = scale**2 / (1 - np.exp(-(scale**2)))
    return Setting(
        f"copula, log-normal AR(.6), log-scale {scale:g}", Copula(), correlation, beta, scale,
        latent, slope * (root**2) @ latent, 200,
    )  # fmt: skip


def triangular() -> Setting:
    correlation, beta = autoregressive(3), np.array([2.0, 1.0, 0.0])
    root = np.linalg.cholesky(correlation)
    latent = (root.T @ beta) ** 2
    return Setting(
        "Knothe-Rosenblatt, normal AR(.6)", KnotheRosenblatt(), correlation, beta, 0.0,
        latent, (root**2) @ latent, 100,
    )  # fmt: skip


def entropic() -> Setting:
    correlation, beta = autoregressive(2), np.array([2.0, 1.0])
    root, shrink = symmetric_root(correlation), np.sqrt(1 + 1 / 16) - 1 / 4
    latent = shrink**2 * (root @ beta) ** 2
    return Setting(
        "entropic, epsilon = 1, normal, correlation .6", EntropicOT(epsilon=1.0), correlation, beta,
        0.0, latent, shrink**2 * (root**2) @ latent, 100,
    )  # fmt: skip


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
                    transport=setting.transport, fixed_transport=fixed, diagnose=False,
                    progress=False, random_state=seed,
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
    for setting in (copula(1.0), copula(0.5), triangular(), entropic()):
        if options.only not in setting.label:
            continue
        start = time.process_time()
        for line in study(setting, max(2, round(options.scale * setting.replications))):
            print(line, flush=True)
        print(f"<!-- {time.process_time() - start:.0f} CPU s -->", flush=True)
