"""The paper's simulations M1 to M4: every method's scores, beside the theory.

One replication of one model is explained by four families of methods, each a task of its own:

``exact``
    DFI with the paper's forest and folds, averages along latent lines exact.
``default``
    DFI as the library computes it without being asked for anything else.
``drawn``
    The published estimator: the same forest, 50 random replacement values, the semicontinuous
    transport at epsilon = 0.001.
``refitted``
    LOCO, nLOCO, dLOCO and Shapley values with the paper's forest and folds.

``oracle`` is DFI with the true regression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.ensemble import RandomForestRegressor

from dfi import DFI, Quadrature, compare
from dfi.methods import Shapley
from dfi.transports import Semicontinuous
from paper import truths
from paper.reproduction import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paper.reproduction import Record, Size
    from paper.truths import Simulation

MODELS: dict[str, Callable[..., Simulation]] = {
    "M1": truths.m1,
    "M2": truths.m2,
    "M3": truths.m3,
    "M4": truths.m4,
}
FAMILIES = ("exact", "default", "drawn", "refitted")
PUBLISHED_EPSILON = 1e-3
REFITTED = {"LOCO": "loco", "nLOCO": "nloco", "dLOCO": "dloco", "Shapley": "shapley"}
"""The comparators as the paper writes them, and their names here."""

SEED = 20_000
"""Samples of the studies; far from the seeds that tests and documents use."""


def sample(model: str, rho: float | None, n: int, seed: int) -> Simulation:
    """Return a sample of a model of the paper; M4 has no correlation to choose."""
    options = {} if rho is None else {"rho": rho}
    return MODELS[model](n, random_state=SEED + seed, **options)


def simulation_tasks(
    model: str, correlations: Sequence[float | None], size: Size, families: Sequence[str]
) -> list[Task]:
    """Return the tasks of a figure: replications of every family at every correlation."""
    n = 2000 if size.full else 500
    tasks: list[Task] = []
    for rho in correlations:
        for family in families:
            dear = family in ("drawn", "refitted")
            count = size.refits(quick=1, full=100) if dear else size.replications(quick=2, full=100)
            trees = size.trees(quick=100, full=500, refit=family == "refitted")
            cell = {"model": model, "rho": rho, "n": n, "family": family, "trees": trees}
            tasks += [
                Task(_key(family, rho, seed), explain_sample, {**cell, "seed": seed})
                for seed in range(count)
            ]
    return tasks


def _key(family: str, rho: float | None, seed: int) -> str:
    return f"{family}-{seed:03d}" if rho is None else f"{family}-rho-{rho}-{seed:03d}"


def explain_sample(
    model: str, rho: float | None, n: int, seed: int, family: str, trees: int
) -> Record:
    """Explain one sample by one family of methods; the record holds scores by method."""
    data = sample(model, rho, n, seed)
    forest = RandomForestRegressor(n_estimators=trees, min_samples_leaf=5)
    settings: dict[str, Any] = {"random_state": seed, "diagnose": False, "progress": False}
    cell = {"family": family, "rho": rho, "seed": seed}
    if family == "refitted":
        return {**cell, **_refitted(data, forest, seed)}
    if family == "default":
        explainer = DFI(**settings)
    elif family == "oracle":
        explainer = DFI(estimator=data.regression, cv="prefit", form="loco", **settings)
    elif family == "exact":
        explainer = DFI(estimator=forest, cv=2, form="loco", **settings)
    else:
        published = Semicontinuous(epsilon=PUBLISHED_EPSILON)
        explainer = DFI(
            estimator=forest, cv=2, form="loco", transport=published,
            integration=Quadrature("draws", nodes=50), transport_error="ignore", **settings,
        )  # fmt: skip
    result = explainer.fit(data.X, data.y).result_
    latent = result.latent
    if latent is None:
        raise RuntimeError("a transport has a latent space")
    return {
        **cell,
        "scores": {"DFI": result.scores, "DFI-Z": latent.scores},
        "se": {"DFI": result.se, "DFI-Z": latent.se},
        "weights": result.attribution,
        "r2": result.quality.r2,
    }


def _refitted(data: Simulation, forest: Any, seed: int) -> Record:
    shapley = Shapley(n_coalitions=100, sampling="coalitions") if data.X.shape[1] > 6 else Shapley()
    methods = ["loco", "nloco", "dloco", shapley]
    found = compare(
        data.X, data.y, methods=methods, estimator=forest, cv=2, random_state=seed, progress=False
    )
    return {
        "scores": {label: found[name].scores for label, name in REFITTED.items()},
        "se": {label: found[name].se for label, name in REFITTED.items()},
    }
