"""Size at the null, power and coverage of the comparators, by simulation.

Run as a script it prints the table of ``docs/comparators.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dfi
from dfi.methods import LOCO, METHODS
from dfi.methods.base import CONSERVATIVE

REPLICATIONS, N = 300, 300
RHO = 0.8
# every feature that is null for the method: X2 is not where shared signal is attributed to it
X2_IS_NULL = {
    "loco", "loco split", "nloco", "dloco", "pfi", "cpi", "sobol_total", "sobol_first", "pcm",
}  # fmt: skip
FIRST = {
    "loco": 9.0,
    "loco split": 9.0,
    "nloco": 9.0 / 26.0,
    "dloco": 25.0,
    "pfi": 50.0,
    "cpi": 9.0,
    "shapley": 17.0,
    "sobol_total": 25.0,
    "sobol_first": 25.0,
    "sobol_latent_total": 20.0,
    "sobol_latent_first": 20.0,
    "r2_genizi": 17.0,
    "r2_lmg": 17.0,
    "r2_dominance": 17.0,
}


@dataclass(frozen=True)
class Replications:
    """Scores and standard errors of one result, (replications, features), and its claim."""

    scores: np.ndarray
    errors: np.ndarray
    inference: str
    null: slice

    @property
    def rejected(self) -> np.ndarray:
        return np.asarray(self.scores / self.errors > 1.6449)

    @property
    def size(self) -> tuple[float, float]:
        """Share of null features rejected at 5 %, with its Monte-Carlo error.

        Features of one replication share rows and models: replications are what is independent.
        """
        share = self.rejected[:, self.null].mean(axis=1)
        return float(share.mean()), float(share.std(ddof=1) / np.sqrt(len(share)))

    def covered(self, truth: float) -> float:
        """Share of 95 % intervals of X1 that hold the truth."""
        return float(np.mean(np.abs(self.scores[:, 0] - truth) < 1.96 * self.errors[:, 0]))


def simulate(replications: int = REPLICATIONS) -> dict[str, Replications]:
    found: dict[str, list[dfi.Importance]] = {}
    for seed in range(replications):
        sample = dfi.datasets.m1(N, rho=RHO, random_state=10_000 + seed)
        options: dict[str, Any] = {"estimator": "linear", "random_state": seed}
        results = dict(dfi.compare(sample.X, sample.y, list(METHODS), **options).results)
        split = dfi.compare(sample.X, sample.y, LOCO(sample_split=True), **options)
        results["loco split"] = split["loco"]
        for key, result in results.items():
            found.setdefault(key, []).append(result)
    return {
        key: Replications(
            np.array([result.scores for result in results]),
            np.array([result.se for result in results]),
            str(results[0].spec["inference"]),
            slice(1 if key in X2_IS_NULL else 2, None),
        )
        for key, results in found.items()
    }


@pytest.fixture(scope="module")
def replications() -> dict[str, Replications]:
    return simulate()


@pytest.mark.slow
def test_size_at_the_null(replications: dict[str, Replications]) -> None:
    for key, found in replications.items():
        share, _ = found.size
        if CONSERVATIVE in found.inference:
            assert share <= 0.05, (key, share)
        else:
            assert 0.02 <= share <= 0.08, (key, share)


@pytest.mark.slow
def test_power_of_the_signal(replications: dict[str, Replications]) -> None:
    for key, found in replications.items():
        assert found.rejected[:, 0].mean() == 1.0, key


@pytest.mark.slow
def test_coverage_of_the_signal(replications: dict[str, Replications]) -> None:
    for key, truth in FIRST.items():
        assert replications[key].covered(truth) > 0.86, (key, replications[key].covered(truth))


if __name__ == "__main__":
    print("| result | nulls rejected at 5 % | X1 rejected | 95 % intervals of X1 that cover |")
    print("|---|---|---|---|")
    for name, found in simulate().items():
        share, error = found.size
        power = 100 * found.rejected[:, 0].mean()
        cover = "no parameter"
        if name in FIRST:
            value = found.covered(FIRST[name])
            noise = np.sqrt(value * (1 - value) / len(found.scores))
            cover = f"{100 * value:.1f} (± {100 * noise:.1f})"
        print(f"| `{name}` | {100 * share:.2f} (± {100 * error:.2f}) | {power:.0f} % | {cover} |")
