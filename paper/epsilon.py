"""The figure of the sensitivity to epsilon: M3 under three forms of entropic transport.

``analytical``
    The closed form of the paper's appendix (:class:`~dfi.transports.Semicontinuous`).
``bridge``
    The exact Gaussian bridge between the features and ``N(0, I)``.
``oversampled``
    Entropic transport solved on the rows against more normal points than there are rows.

Each is one call of :func:`dfi.sensitivity` on the same sample and the same regression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.ensemble import RandomForestRegressor

from dfi import sensitivity
from dfi.transports import EntropicOT, Gaussian, Semicontinuous
from paper.reproduction import Task
from paper.simulated import sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper.reproduction import Record, Size

RHO = 0.5
EPSILONS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
FORMS = ("analytical", "bridge", "oversampled")
OVERSAMPLING = 4
"""Normal points for every row."""

SMALLEST_SOLVED = 0.1
"""Below, Sinkhorn's algorithm takes tens of thousands of steps to a kernel of single rows."""

TINY = 1e-9
"""Of a row: no kernel averages over fewer, so none is refused."""


def epsilon_tasks(size: Size) -> list[Task]:
    """Return the replications of every form, with the true regression and in full with a forest."""
    counts = {"true": size.replications(quick=2, full=2)}
    if size.full:
        counts["forest"] = size.refits(quick=1, full=1)
    shared = {
        "n": 2000 if size.full else 500,
        "trees": size.trees(quick=100, full=100, refit=True),
        "epsilons": list(EPSILONS),
    }
    return [
        Task(
            f"{form}-{regression}-{seed:03d}",
            explain_grid,
            {"form": form, "regression": regression, "seed": seed, **shared},
        )
        for regression, count in counts.items()
        for form in FORMS
        for seed in range(count)
    ]


def transports(form: str, n: int, epsilons: Sequence[float], **options: Any) -> list[Any]:
    """Return the transports of a form over a grid of epsilon."""
    if form == "analytical":
        return [Semicontinuous(epsilon=epsilon) for epsilon in epsilons]
    if form == "bridge":
        # every form sees the same correlations: the solved one has no components
        return [Gaussian(epsilon=epsilon, components=None) for epsilon in epsilons]
    return [
        EntropicOT(epsilon=epsilon, n_targets=OVERSAMPLING * n, attribution="slopes", **options)
        for epsilon in epsilons
    ]


def explain_grid(
    form: str, regression: str, n: int, seed: int, trees: int, epsilons: Sequence[float]
) -> Record:
    """Return the scores of one form by epsilon.

    Where the solved kernel averages over too few rows, the reason is kept, and beside it what it
    would give (``forced``).
    """
    data = sample("M3", RHO, n, seed)
    model: dict[str, Any] = {"estimator": data.regression, "cv": "prefit", "form": "loco"}
    if regression == "forest":
        forest = RandomForestRegressor(n_estimators=trees, min_samples_leaf=5)
        model = {"estimator": forest, "cv": 2, "form": "loco"}
    model |= {"transport_error": "ignore", "diagnose": False}
    model |= {"random_state": seed, "progress": False}

    def scores(designs: list[Any]) -> tuple[dict[float, Any], list[str]]:
        found = sensitivity(data.X, data.y, transports=designs, **model)
        return {float(str(r.spec["epsilon"])): r.scores for r in found.values()}, [
            *found.skipped.values()
        ]

    solved = [e for e in epsilons if form != "oversampled" or e >= SMALLEST_SOLVED]
    found, reasons = scores(transports(form, n, solved))
    refused = [epsilon for epsilon in solved if epsilon not in found]
    forced = scores(transports(form, n, refused, min_size=TINY))[0] if refused else {}
    why = dict(zip(refused, reasons, strict=True))
    return {
        "form": form,
        "regression": regression,
        "seed": seed,
        "n": n,
        "trees": trees,
        "grid": [
            {
                "epsilon": epsilon,
                "scores": found.get(epsilon),
                "forced": forced.get(epsilon),
                "refused": why.get(epsilon),
            }
            for epsilon in epsilons
        ],
    }
