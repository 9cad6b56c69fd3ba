"""The figure of computing times: CPU seconds of every method over rows and over columns.

One task is one method on one sample of M1, alone on one thread. The method is run on a small sample
first, so that compilation and imports are not counted. DFI and other packages explain forests
fitted on one half of the rows by the other half, both ways round; the library's comparators take
the same forests from its cross-fitting. Methods that refit a forest for every
feature or subset spend their time on growing trees: they grow fewer of them, and their time is
scaled in proportion.
"""

from __future__ import annotations

import importlib
import time
import warnings
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

from dfi import Quadrature, explain
from dfi.datasets import m1
from dfi.methods import CPI, DLOCO, LOCO, NLOCO, Shapley, prepare
from dfi.transports import Gaussian, Semicontinuous
from paper.reproduction import Task
from paper.simulated import PUBLISHED_EPSILON, SEED

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from paper.reproduction import Record, Size

    Floats = NDArray[np.float64]

RHO = 0.8
REFITTED = ("LOCO", "nLOCO", "Shapley", "CPI", "hidimstat LOCO")
"""Methods that refit forests: run with smaller ones, and scaled."""

WARM_UP = {"n": 100, "d": 3, "trees": 3, "coalitions": 4}


@dataclass(frozen=True)
class Grid:
    """Where times are taken.

    Attributes
    ----------
    rows : tuple of int
        Sample sizes at ``d = 10`` columns.
    columns : tuple of int
        Numbers of columns at ``n = at_rows``.
    at_rows : int
        See there.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    at_rows: int
    at_columns: int = 10

    @property
    def points(self) -> list[tuple[int, int]]:
        """Every ``(n, d)``, once."""
        over_rows = [(n, self.at_columns) for n in self.rows]
        return list(dict.fromkeys([*over_rows, *((self.at_rows, d) for d in self.columns)]))


QUICK = Grid((100, 200, 400), (5, 10, 20), 200)
FULL = Grid((250, 500, 1000, 2000), (5, 10, 20, 40), 1000)


def grid(size: Size) -> Grid:
    """Return the sizes of a version."""
    return FULL if size.full else QUICK


def timing_tasks(size: Size) -> list[Task]:
    """Return one task for every method, size of sample and replication."""
    trees = size.trees(quick=50, full=500)
    fewer = min(trees, size.refit_trees or 25)
    tasks = []
    for n, d in grid(size).points:
        for method in METHODS:
            for seed in range(size.replications(quick=1, full=1)):
                settings = {
                    "method": method, "n": n, "d": d, "seed": seed, "trees": trees,
                    "grown": fewer if method in REFITTED else trees,
                    "coalitions": 100 if size.full else 20,
                }  # fmt: skip
                key = f"{method.replace(', ', '-').replace(' ', '-')}-n-{n}-d-{d}-{seed:03d}"
                tasks.append(Task(key, measure, settings, measured=True))
    return tasks


def measure(
    method: str, n: int, d: int, seed: int, trees: int, grown: int, coalitions: int
) -> Record:
    """Return the CPU seconds of a method: of the full models' fits, and of all that follows.

    ``grown`` trees are grown and ``seconds * trees / grown`` reported. A package that is not
    installed leaves a record without seconds.
    """
    cell = {"method": method, "n": n, "d": d, "seed": seed, "trees": trees, "grown": grown}
    try:
        warm_up(method)
    except ImportError:
        return {**cell, "installed": False}
    fit, scores = METHODS[method](*m1_sample(n, d, seed), forest(grown, seed), coalitions)
    scale = trees / grown
    return {**cell, "installed": True, "fit": fit * scale, "scores": scores * scale}


@cache
def warm_up(method: str) -> None:
    """Import and compile what a method needs."""
    X, y = m1_sample(WARM_UP["n"], WARM_UP["d"], 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody reads these results
        METHODS[method](X, y, forest(WARM_UP["trees"], 0), WARM_UP["coalitions"])
        if method.startswith("DFI"):
            # The exact walk has one kernel for few columns and one for many.
            METHODS[method](*m1_sample(WARM_UP["n"], 40, 0), forest(WARM_UP["trees"], 0), 2)


def m1_sample(n: int, d: int, seed: int) -> tuple[Floats, Floats]:
    """Return features and outcome of M1."""
    data = m1(n, rho=RHO, d=d, random_state=SEED + seed)
    return data.X, data.y


def forest(trees: int, seed: int) -> RandomForestRegressor:
    """Return the paper's forest on one thread."""
    return RandomForestRegressor(trees, min_samples_leaf=5, random_state=seed, n_jobs=1)


Seconds = tuple[float, float]
"""Of the full models' fits, and of the scores."""


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    value = run()
    return time.process_time() - start, value


def _halves(n: int) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Return the rows to fit on and those to score, both ways round."""
    even = np.arange(n) % 2 == 0
    return [(even, ~even), (~even, even)]


def _dfi(**options: Any) -> Callable[..., Seconds]:
    def run(X: Floats, y: Floats, learner: Any, coalitions: int) -> Seconds:
        del coalitions
        halves = _halves(len(y))
        fit, models = _timed(
            lambda: [clone(learner).fit(X[train], y[train]) for train, _ in halves]
        )
        scores, _ = _timed(
            lambda: [
                explain(
                    X[test], y[test], estimator=model, cv="prefit", form="loco", diagnose=False,
                    progress=False, **options,
                )
                for (_, test), model in zip(halves, models, strict=True)
            ]
        )  # fmt: skip
        return fit, scores

    return run


def _comparator(make: Callable[[int], Any]) -> Callable[..., Seconds]:
    def run(X: Floats, y: Floats, learner: Any, coalitions: int) -> Seconds:
        fits = prepare(X, y, estimator=learner, cv=2, progress=False)
        fit, _ = _timed(lambda: fits.full)  # models are fitted when they are first asked for
        scores, _ = _timed(lambda: make(coalitions).compute(fits))
        return fit, scores

    return run


def _peer(package: str, call: Callable[..., Any]) -> Callable[..., Seconds]:
    """Return the runs of another package: the same forests on two halves, each scored on the other.

    ``call`` takes the package, a fitted forest, the rows that it was fitted on and those that it
    was not.
    """

    def run(X: Floats, y: Floats, learner: Any, coalitions: int) -> Seconds:
        del coalitions
        module = importlib.import_module(package)
        fit = scores = 0.0
        for train, test in _halves(len(y)):
            seconds, model = _timed(partial(clone(learner).fit, X[train], y[train]))
            fit += seconds
            known, new = (X[train], y[train]), (X[test], y[test])
            scores += _timed(partial(call, module, model, known, new))[0]
        return fit, scores

    return run


Rows = tuple["Floats", "Floats"]


def _fdfi(module: Any, model: Any, known: Rows, new: Rows) -> None:
    explainer = module.EOTExplainer(
        model.predict, known[0], nsamples=50, epsilon=PUBLISHED_EPSILON, method="scpi",
        random_state=0,
    )  # fmt: skip
    explainer(*new)


def _shap(module: Any, model: Any, known: Rows, new: Rows) -> None:
    del known
    module.TreeExplainer(model).shap_values(new[0], check_additivity=False)


def _conditional(module: Any, model: Any, known: Rows, new: Rows) -> None:
    explainer = module.CFI(model, random_state=0)
    explainer.fit(*known)
    explainer.importance(*new)


def _left_out(module: Any, model: Any, known: Rows, new: Rows) -> None:
    explainer = module.LOCO(model)
    explainer.fit(*known)
    explainer.importance(*new)


METHODS: dict[str, Callable[..., Seconds]] = {
    "DFI, exact": _dfi(transport=Gaussian(components=None)),
    "DFI, 50 draws": _dfi(
        transport=Semicontinuous(epsilon=PUBLISHED_EPSILON),
        integration=Quadrature("draws", nodes=50),
        transport_error="ignore",
    ),
    "LOCO": _comparator(lambda _: LOCO()),
    "nLOCO": _comparator(lambda _: NLOCO()),
    "dLOCO": _comparator(lambda _: DLOCO()),
    "Shapley": _comparator(
        lambda coalitions: Shapley(exact=False, n_coalitions=coalitions, sampling="coalitions")
    ),
    "CPI": _comparator(lambda _: CPI()),
    "fdfi": _peer("fdfi.explainers", _fdfi),
    "hidimstat CFI": _peer("hidimstat", _conditional),
    "hidimstat LOCO": _peer("hidimstat", _left_out),
    "shap.TreeExplainer": _peer("shap", _shap),
}
"""Every method by the name that it has in the figure."""
