"""The cells of the coverage study: which models, learners and sample sizes, and what is asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from paper.coverage import CoverageStudy, coverage_study
from paper.truths import Simulation, exponential, m1, m2, m3

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Cell:
    """One simulation setting with the coverage that is asked of it at nominal 90 %.

    Attributes
    ----------
    model : str
        Name of the simulation and its correlation.
    simulate : callable
        ``(n, random_state=...)`` to a sample.
    n : int
        Rows of a sample.
    learner : str
        ``"oracle"`` for the true regression, else a learner's name.
    replications : int
        Samples.
    non_null : tuple of float
        Asked range of the coverage of non-null scores.
    null : float
        Asked lower bound for null scores; 0 where the model has none.
    null_expanded : float
        The same with the expansion near the null.
    """

    model: str
    simulate: Callable[..., Simulation]
    n: int
    learner: str
    replications: int
    non_null: tuple[float, float]
    null: float = 0.0
    null_expanded: float = 0.0

    @property
    def name(self) -> str:
        """A short name, for tests and tables."""
        return f"{self.model}, n = {self.n}, {self.learner}"

    def run(self, *, replications: int | None = None, n_jobs: int | None = None) -> CoverageStudy:
        """Run the replications."""
        options: dict[str, Any] = {}
        if self.learner != "oracle":
            options["estimator"] = self.learner
        return coverage_study(
            partial(_sample, self.simulate, self.n),
            replications=replications or self.replications,
            n_jobs=n_jobs,
            **options,
        )


def _sample(simulate: Callable[..., Simulation], n: int, replication: int) -> Simulation:
    return simulate(n, random_state=1000 + replication)


def _oracle_cells() -> list[Cell]:
    models: list[tuple[str, Callable[..., Simulation], float]] = [
        ("M1, rho = .4", partial(m1, rho=0.4), 0.88),
        ("M1, rho = .8", partial(m1, rho=0.8), 0.88),
        ("M2, rho = .8", partial(m2, rho=0.8), 0.88),
        ("M3, rho = .8", partial(m3, rho=0.8), 0.0),
        ("exponential", exponential, 0.0),
    ]
    return [
        Cell(name, simulate, n, "oracle", 300, (0.86, 0.94), null)
        for n in (500, 1000)
        for name, simulate, null in models
    ]


ORACLE_CELLS = _oracle_cells()

LINEAR_CELLS = [
    Cell(f"M1, rho = {rho}", partial(m1, rho=rho), n, "linear", 300, (0.86, 0.94), 0.88)
    for n in (500, 1000)
    for rho in (0.4, 0.8)
]

LEARNED_CELLS = [
    Cell(name, partial(simulate, rho=0.8), 1000, learner, 100, (0.82, 0.96), null, expanded)
    for learner in ("boosting", "auto")
    for name, simulate, null, expanded in (
        ("M1, rho = .8", m1, 0.86, 0.0),
        ("M2, rho = .8", m2, 0.70, 0.90),
    )
]
