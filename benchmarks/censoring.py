"""Ways to complete censored times, compared by the scores that come of them.

Weibull times of two of five columns, n = 600, censored by a column that carries signal and by one
that carries none (the law of ``tests/slow/test_survival_coverage.py``). Each way makes an outcome
of the rows, which the same regression then explains:

- the time itself, which nobody has in practice;
- the augmented outcome (AIPCW) of ``dfi.explain``, and with a censoring or an event regression
  that sees no column;
- pseudo-values, the jackknife of the area under the Kaplan-Meier curve;
- observed rows weighted by the inverse chance to be observed (IPCW), by Kaplan-Meier or Cox.

``python -m benchmarks.censoring [samples]`` prints a line for each.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
from sklearn.model_selection import KFold

import dfi
from dfi._data.survival import Times
from dfi._learners.cox import Cox
from dfi._learners.quadratic import QuadraticRidge
from dfi._models.censoring import Hazards, kaplan_meier
from tests.slow.test_survival_coverage import HORIZON, sample, truth

if TYPE_CHECKING:
    from dfi._types import Floats

SAMPLES = 60
FIRST_SEED = 5000


def area(times: Times) -> float:
    """Return the area under the Kaplan-Meier curve up to the horizon."""
    at, heights, _ = kaplan_meier(times, np.ones(len(times.time)))
    inside = at < HORIZON
    edges = np.concatenate([[0.0], at[inside], [HORIZON]])
    return float(np.diff(edges) @ np.concatenate([[1.0], heights[inside]]))


def pseudo_values(times: Times) -> Floats:
    n, whole = len(times.time), area(times)
    every = np.arange(n)
    without = np.array([area(times.take(every != i)) for i in every])
    return np.asarray(n * whole - (n - 1) * without)


def weighted(X: Floats, times: Times) -> Floats:
    """Return what was observed over the chance to observe it, 0 where nothing was."""
    late = np.where(times.event, times.time, np.nextafter(times.time, np.inf))
    model = Cox.fit(X, late, ~times.event)
    end = np.minimum(times.time, HORIZON)
    free = np.exp(-model.risk(X) * model.baseline(end, before=True))
    return np.asarray(times.known(HORIZON) * end / np.maximum(free, 0.05))


def augmented(X: Floats, times: Times, blind: str) -> Floats:
    """Return augmented outcomes by held-out regressions, of which one sees no column."""
    found = np.empty(len(X))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        parts = {
            name: Hazards.fit(rows[train], times.take(train), np.ones(len(train)))
            for name, rows in (("seeing", X), ("blind", np.zeros_like(X)))
        }
        hazards = Hazards(
            parts["blind" if blind == "event" else "seeing"].event,
            parts["blind" if blind == "censoring" else "seeing"].censoring,
        )
        found[test] = hazards.outcomes(X[test], times.take(test), HORIZON, "rmst")
    return found


def explained(seed: int) -> dict[str, tuple[Floats, Floats]]:
    """Return scores and standard errors of one sample, by way."""
    X, time, end = sample(seed)
    times = Times(np.minimum(time, end), time <= end)
    ways = {
        "the time itself": np.minimum(time, HORIZON),
        "AIPCW, as `dfi.explain`": None,
        "AIPCW, censoring blind": augmented(X, times, "censoring"),
        "AIPCW, events blind": augmented(X, times, "event"),
        "pseudo-values": pseudo_values(times),
        "IPCW by Kaplan-Meier": weighted(np.zeros_like(X), times),
        "IPCW by Cox": weighted(X, times),
    }
    found = {}
    for name, y in ways.items():
        options = {"horizon": HORIZON} if y is None else {}
        result = dfi.explain(
            X, times if y is None else y, QuadraticRidge(), diagnose=False, **options
        )
        found[name] = result.scores, result.se
    return found


def main(samples: int = SAMPLES) -> None:
    warnings.simplefilter("ignore")
    scores = truth()
    every = [explained(FIRST_SEED + k) for k in range(samples)]
    print("signals over truth | coverage of five scores | null rejected | sd of the first, of ours")
    ours = np.std([one["AIPCW, as `dfi.explain`"][0][0] for one in every])
    for name in every[0]:
        estimate, se = (np.array([one[name][k] for one in every]) for k in range(2))
        ratio = estimate.mean(axis=0)[:4] / scores[:4]
        cover = (np.abs(estimate - scores) < 1.645 * se).mean(axis=0)
        null = (estimate > 1.645 * se).mean(axis=0)[4]
        print(
            f"{name} | {ratio.min():.2f} to {ratio.max():.2f} | {cover.min():.2f} to "
            f"{cover.max():.2f} | {null:.2f} | {estimate[:, 0].std() / ours:.2f}"
        )


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
