r"""The paper's coverage table on M1, for the null features and for X1 and X2.

A task is a block of replications of one family at one correlation and sample size; its record
counts how often each kind of interval held the truth. Families are a regression with a form of
score:

================  ===========================================================================
``linear``        least squares, the library's cross form
``linear-loco``   least squares, LOCO-type scores
``linear-bridge`` least squares, cross form, under the exact Gaussian bridge
``linear-refit``  LOCO and nLOCO with least squares
``oracle``        the true regression, LOCO-type scores
``forest-loco``   forests, LOCO-type scores on the paper's two folds: what the paper ran
``forest``        forests, cross form
``boosting-loco`` gradient boosting, LOCO-type scores
``boosting``      gradient boosting, cross form
================  ===========================================================================

The published semicontinuous transport is whitening with attributed scores multiplied by
:math:`c^2`, :math:`c = \sigma/(\tau + \sigma^2)`: estimate, standard error and truth alike. Its
intervals cover what those at epsilon = 0 cover, sample by sample, and one run answers for the
whole column of epsilons; only an expanded interval, whose expansion is not multiplied, differs.
The library's default transport besides sets correlations between unrelated columns to 0 and
subtracts a second-order bias: its coverage is in docs/coverage.md.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from dfi import compare
from dfi.transports import Gaussian, Semicontinuous
from paper.coverage import CoverageStudy, coverage_study
from paper.reproduction import Task
from paper.simulated import sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dfi import Importance
    from paper.reproduction import Record, Size
    from paper.truths import Simulation

    Floats = NDArray[np.float64]

SAMPLE_SIZES = (100, 250, 500, 750)
CORRELATIONS = (0.0, 0.4, 0.8)
EPSILONS = (0.0, 0.001, 0.01, 0.1, 1.0)
BRIDGE_EPSILONS = (0.1, 1.0)
LEVEL = 0.9
WHITENING = Semicontinuous(epsilon=0.0)
"""The paper's: every sample correlation as it is, and the second-order bias left in."""

SEEDS_PER_CELL = 10_000
NULLS = slice(2, None)
"""X3 to X10, which the paper pools."""

PLAIN, PLAIN_EXPANDED = "plain", "plain, expanded"
AWARE, AWARE_BELOW, AWARE_EXPANDED = (
    "transport-aware", "transport-aware, not projected", "transport-aware, expanded",
)  # fmt: skip
INTERVALS: Mapping[str, dict[str, bool]] = {
    PLAIN: {"plain": True, "nonnegative": False},
    PLAIN_EXPANDED: {"plain": True, "expand": True, "nonnegative": False},
    AWARE: {},
    AWARE_BELOW: {"nonnegative": False},
    AWARE_EXPANDED: {"expand": True},
}
"""Kinds of intervals with the options of :meth:`CoverageStudy.covered`.

The paper's may lie below 0, where they miss a null; the library's endpoints are projected.
"""


@dataclass(frozen=True)
class Family:
    """A regression with a form of score, and how much of the grid it is run on.

    Attributes
    ----------
    label : str
        What pages call it.
    quick, full : int
        Replications of a cell.
    sizes, correlations : tuple
        The cells.
    quick_sizes : tuple, optional
        The sample sizes of the quick version, where they are fewer.
    options : mapping
        Parameters of :class:`dfi.DFI`.
    block : int
        Replications of a task: what an interruption may lose.
    """

    label: str
    quick: int
    full: int
    sizes: tuple[int, ...] = SAMPLE_SIZES
    correlations: tuple[float, ...] = CORRELATIONS
    quick_sizes: tuple[int, ...] | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    block: int = 50


REDUCED: dict[str, Any] = {
    "sizes": (500, 750),
    "quick_sizes": (500,),
    "correlations": (0.0, 0.8),
    "block": 10,
}
LOCO_TYPE = {"form": "loco"}
STRAIGHT = {"transport_error": "derived"}
"""Of linear regressions the short cut is exact, and checking it would double the time."""

FAMILIES: Mapping[str, Family] = {
    "linear": Family("least squares, cross form", 50, 700, options=STRAIGHT),
    "linear-loco": Family("least squares, LOCO-type", 10, 200, options={**LOCO_TYPE, **STRAIGHT}),
    "linear-bridge": Family(
        "least squares, cross form, exact bridge", 4, 100, sizes=(500,), correlations=(0.4, 0.8)
    ),
    "linear-refit": Family("least squares, refitted", 10, 200),
    "oracle": Family("true regression, LOCO-type", 20, 300, options=STRAIGHT),
    "forest-loco": Family(
        "forest, LOCO-type, 2 folds",
        2,
        40,
        quick_sizes=(500,),
        options={**LOCO_TYPE, "cv": 2},
        block=10,
    ),
    "forest": Family("forest, cross form", 2, 32, **REDUCED),
    "boosting-loco": Family("boosting, LOCO-type", 2, 40, options=LOCO_TYPE, **REDUCED),
    "boosting": Family("boosting, cross form", 2, 40, **REDUCED),
}


def coverage_tasks(size: Size) -> list[Task]:
    """Return blocks of replications of every family over its part of the grid."""
    tasks: list[Task] = []
    for name, family in FAMILIES.items():
        learned = name.startswith(("forest", "boosting"))
        count = size.refits if learned else size.replications
        replications = count(quick=family.quick, full=family.full)
        sizes = family.sizes if size.full else family.quick_sizes or family.sizes
        cell: dict[str, object] = {"family": name, "trees": size.trees(quick=50, full=100)}
        tasks += [
            Task(
                f"{name}-rho-{rho}-n-{n}-{first:04d}",
                cover_block,
                {
                    **cell, "rho": rho, "n": n, "first": first,
                    "count": min(family.block, replications - first),
                },
            )
            for rho in family.correlations
            for n in sizes
            for first in range(0, replications, family.block)
        ]  # fmt: skip
    return tasks


def published_factor(epsilon: float) -> float:
    r"""Return :math:`c^2`, what the published transport multiplies attributed scores by."""
    share, tau = 2.0 / (2.0 + epsilon), epsilon / (2.0 + epsilon)
    return float((share / (tau + share**2)) ** 2)


def cover_block(family: str, rho: float, n: int, first: int, count: int, trees: int) -> Record:
    """Explain a block of samples; the record counts the intervals that hold the truth."""
    cells = []
    for (method, transport), studies in _studies(family, rho, n, first, count, trees).items():
        for epsilon, study in studies.items():
            cells += [
                {
                    "method": method,
                    "transport": transport,
                    "epsilon": epsilon,
                    "interval": interval,
                    "truth": study.truth,
                    **_counts(study.covered(LEVEL, **options)),
                }
                for interval, options in INTERVALS.items()
                if method == "DFI" or "plain" in options
            ]
    return {"family": family, "rho": rho, "n": n, "count": count, "cells": cells}


def _counts(covered: NDArray[np.bool_]) -> Record:
    """Count replications; nulls are pooled within each, so that their error can be told."""
    shares = covered[:, NULLS].mean(axis=1)
    return {
        "hits": covered.sum(axis=0),
        "null_shares": float(shares.sum()),
        "null_squares": float((shares**2).sum()),
    }


Studies = dict[tuple[str, str], dict[float, CoverageStudy]]
"""Method and transport to epsilon to estimates."""


def _studies(family: str, rho: float, n: int, first: int, count: int, trees: int) -> Studies:
    simulate = partial(_sample, rho, n, first)
    if family == "linear-refit":
        return _refitted(simulate, count)
    learners: dict[str, Any] = {
        "linear": LinearRegression(),
        "forest": RandomForestRegressor(n_estimators=trees, min_samples_leaf=5),
        "boosting": "boosting",
        "oracle": None,
    }
    estimator = learners[family.split("-")[0]]
    options = dict(FAMILIES[family].options)
    if family == "linear-bridge":
        bridges = {}
        for epsilon in BRIDGE_EPSILONS:
            study = coverage_study(
                simulate, replications=count, estimator=estimator,
                transport=Gaussian(epsilon=epsilon, components=None), **options,
            )  # fmt: skip
            truth = simulate(0).truth(transport="gaussian", epsilon=epsilon)
            bridges[epsilon] = dataclasses.replace(study, truth=truth)
        return {("DFI", "bridge"): bridges}
    study = coverage_study(
        simulate, replications=count, estimator=estimator, transport=WHITENING, **options
    )
    return {("DFI", "semicontinuous"): {eps: _multiplied(study, eps) for eps in EPSILONS}}


def _multiplied(study: CoverageStudy, epsilon: float) -> CoverageStudy:
    """Return the estimates under the published transport, from those of whitening."""
    factor = published_factor(epsilon)
    return dataclasses.replace(
        study,
        truth=factor * study.truth,
        scores=factor * study.scores,
        se=factor * study.se,
        plain_se=factor * study.plain_se,
        plain_scores=None if study.plain_scores is None else factor * study.plain_scores,
    )


def _sample(rho: float, n: int, first: int, replication: int) -> Simulation:
    # A seed gives the same noise at any correlation: each cell has its own, to be independent.
    cell = len(SAMPLE_SIZES) * CORRELATIONS.index(rho) + SAMPLE_SIZES.index(n)
    data = sample("M1", rho, n, SEEDS_PER_CELL * cell + first + replication)
    # As a fitted model: lines of a linear one are taken in closed form, of a function by nodes.
    oracle = LinearRegression().fit(data.X[:2], np.zeros(2))
    oracle.coef_, oracle.intercept_ = data.regression.beta, 0.0  # type: ignore[attr-defined]
    return dataclasses.replace(data, regression=oracle)


def _refitted(simulate: Any, count: int) -> Studies:
    """Return LOCO and nLOCO, whose intervals know of no transport: the plain ones."""
    samples = [simulate(k) for k in range(count)]
    found = [
        compare(
            data.X, data.y, ["loco", "nloco"], estimator=LinearRegression(),
            random_state=k, progress=False,
        )
        for k, data in enumerate(samples)
    ]  # fmt: skip
    studies: Studies = {}
    for label, name in (("LOCO", "loco"), ("nLOCO", "nloco")):
        results = [comparison[name] for comparison in found]
        errors = np.array([result.se for result in results])
        study = CoverageStudy(
            truth=samples[0].comparator_truth(name),
            scores=np.array([result.scores for result in results]),
            se=errors,
            plain_se=errors,
            skewness=np.array([result.skewness for result in results]),
            scale=np.array([_scale(name, result) for result in results]),
        )
        studies[label, ""] = {0.0: study}
    return studies


def _scale(name: str, result: Importance) -> float:
    """Return the unit of the expansion: nLOCO is a share of the outcome's variance."""
    unit = 1.0 if name == "nloco" else result.quality.outcome_variance
    return float(unit / np.sqrt(result.quality.n_rows))
