r"""The paper's HIV-1 analysis: which groups of sequence features predict resistance to VRC01.

611 viruses, 832 features in 14 overlapping groups, a forest of 500 trees, features and outcome
standardised, the transport fitted on all rows, two folds. Every random split is a task of its
own, explained by

``published``
    The paper's LOCO-type score under its semicontinuous transport at epsilon = 0.001, averages
    along latent lines exact.
``default``
    The cross form, the library's default, under the Gaussian transport with all sample
    correlations; folds and forest as in the paper.
``in-sample``
    The published score of a forest on the rows that it was fitted on, without cross-fitting. It is
    no estimate of importance: its residuals are too small. It is here for its counts of
    significant features.

The paper says "we inflate the estimated variance by :math:`n^{-1/2}/z_{1-\alpha}`", which can be
read in several ways: :data:`READINGS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy import stats
from sklearn.ensemble import RandomForestRegressor

from dfi import DFI
from dfi.datasets import load_hiv
from dfi.inference import expand_standard_errors
from dfi.transports import Gaussian, Semicontinuous
from paper.reproduction import Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dfi import Importance
    from dfi.datasets import HIVData
    from paper.reproduction import Record, Size

    Floats = NDArray[np.float64]

T = TypeVar("T")

OUTCOMES = ("sens50", "ic50.censored")
ESTIMATORS = ("published", "default", "in-sample")
ALPHA = 0.05
PUBLISHED_EPSILON = 1e-3
DEPENDENCE = "dependence"
"""Key of the task that describes the groups and their correlation."""

READINGS = {
    "none": "no inflation",
    "standard error": "se + n^(-1/2)/z",
    "variance": "se² + n^(-1/2)/z",
    "asymptotic variance": "n se² + n^(-1/2)/z, then divided by n",
    "factor": "se² (1 + n^(-1/2)/z)",
}
"""What "inflate the estimated variance by n^(-1/2)/z" may mean; the outcome has variance 1."""

SE_KINDS = ("plain", "transport-aware")
"""Standard errors that take the transport as known, as the paper does, and those that do not."""


def hiv_tasks(size: Size) -> list[Task]:
    """Return the tasks: splits of both outcomes by every estimator.

    Raises
    ------
    ValueError
        The data are not there.
    """
    check_data(size)
    trees = size.trees(quick=100, full=500)
    counts = {
        "published": size.replications(quick=2, full=20),
        "default": size.refits(quick=1, full=10),
        "in-sample": 1,
    }
    tasks = [Task(DEPENDENCE, describe_groups, {"data": size.data})]
    for outcome in OUTCOMES:
        for estimator in ESTIMATORS:
            cell = {"outcome": outcome, "estimator": estimator, "trees": trees, "data": size.data}
            tasks += [
                Task(f"{outcome}-{estimator}-{split:03d}", explain_split, {**cell, "split": split})
                for split in range(counts[estimator])
            ]
    return tasks


def check_data(size: Size) -> None:
    """Read the data once, so that a missing file is noticed before anything is fitted."""
    try:
        for outcome in OUTCOMES:
            read_hiv(outcome, size.data)
    except OSError as error:
        raise ValueError(
            f"the HIV-1 data cannot be read: {error}. Give their folder with --data, or set "
            "DFI_DATA to the folder that holds hiv/"
        ) from error


def read_hiv(outcome: str, data: str | None) -> HIVData:
    """Return the data from a folder; without one from DFI_DATA or the cache, else fetch them."""
    known: Any = outcome
    return load_hiv(known, folder=data, download=data is None, as_frame=False)


def standardized(y: Floats) -> Floats:
    """Return an outcome of mean 0 and variance 1."""
    values = np.asarray(y, dtype=np.float64)
    return np.asarray((values - values.mean()) / values.std())


def explain_split(
    outcome: str, estimator: str, split: int, trees: int, data: str | None = None
) -> Record:
    """Explain one outcome on one random split; the record holds scores of the groups."""
    hiv = read_hiv(outcome, data)
    found = explain_table(
        hiv.X, standardized(hiv.y), hiv.positions, estimator=estimator, trees=trees, seed=split
    )
    return {"outcome": outcome, "estimator": estimator, "split": split, **found}


def explain_table(
    X: Floats,
    y: Floats,
    groups: Mapping[str, Sequence[int]],
    *,
    estimator: str,
    trees: int,
    seed: int,
) -> Record:
    """Explain a table of varying numeric columns and return what its groups are given.

    Parameters
    ----------
    X, y : ndarray
        The data; ``y`` has variance 1.
    groups : mapping
        Groups to the positions of their columns.
    estimator : {"published", "default", "in-sample"}
        See the module's description.
    trees : int
        Trees of a forest.
    seed : int
        Of split and forest.

    Returns
    -------
    dict
        ``scores`` and ``latent`` of the groups, ``se`` and ``latent_se`` by kind, ``flow`` (from
        latent groups, columns, to groups, rows), ``counts`` of significant features by space, kind
        of standard error and reading, and the ``total``.
    """
    forest = RandomForestRegressor(n_estimators=trees, min_samples_leaf=5, random_state=seed)
    settings: dict[str, Any] = {
        "feature_groups": groups, "random_state": seed, "diagnose": False, "progress": False,
    }  # fmt: skip
    published = Semicontinuous(epsilon=PUBLISHED_EPSILON)
    if estimator == "default":
        # all sample correlations, as in the paper: the page compares forms, not transports
        whole = Gaussian(components=None, covariance="sample")
        explainer = DFI(estimator=forest, cv=2, transport=whole, **settings)
    elif estimator == "published":
        explainer = DFI(estimator=forest, cv=2, form="loco", transport=published, **settings)
    elif estimator == "in-sample":
        explainer = DFI(
            estimator=forest.fit(X, y), cv="prefit", form="loco", transport=published, **settings
        )
    else:
        raise ValueError(f"unknown estimator {estimator!r}: choose {', '.join(ESTIMATORS)}")
    aware = explainer.fit(X, y).result_
    plain = explainer.with_fixed_transport()
    kinds = dict(zip(SE_KINDS, (plain, aware), strict=True))
    grouped = {kind: result.group() for kind, result in kinds.items()}
    membership = members(groups, range(len(aware.names)))
    # the library's own estimate, or the paper's, which takes the transport as known
    kind = "transport-aware" if estimator == "default" else "plain"
    estimate = kinds[kind]
    return {
        "scores": grouped[kind].scores,
        "latent": _latent(grouped[kind]).scores,
        "se": {kind: result.se for kind, result in grouped.items()},
        "latent_se": {kind: _latent(result).se for kind, result in grouped.items()},
        "flow": group_flow(_attribution(estimate), _latent(estimate).scores, membership),
        "counts": {
            "latent": {kind: feature_counts(_latent(result)) for kind, result in kinds.items()},
            "attributed": {kind: feature_counts(result) for kind, result in kinds.items()},
        },
        "total": estimate.total.value,
        "total_se": {kind: result.total.se for kind, result in kinds.items()},
        "r2": aware.quality.r2,
        "n_rows": aware.quality.n_rows,
        "n_features": len(aware.names),
    }


def members(groups: Mapping[str, Iterable[T]], units: Iterable[T]) -> NDArray[np.bool_]:
    """Return which of the units each group holds, of shape (groups, units)."""
    listed = list(units)
    held = [set(group) for group in groups.values()]
    return np.array([[unit in group for unit in listed] for group in held])


def group_flow(weights: Floats, latent_scores: Floats, membership: NDArray[np.bool_]) -> Floats:
    r"""Return how much of each group's score comes from the latent coordinates of each group.

    Entry (g, h) is :math:`\sum_{l \in g} \sum_{j \in h} W_{lj}^2 \phi_{Z_j} / c_j` where
    :math:`c_j` is the number of groups that hold ``j``: a shared latent coordinate is divided
    evenly among its groups, so that rows add up to the groups' attributed scores.

    Parameters
    ----------
    weights : ndarray of shape (d, d)
        Squared attribution weights :math:`W_{lj}^2`.
    latent_scores : ndarray of shape (d,)
        Latent scores.
    membership : bool ndarray of shape (groups, d)
        Which features a group holds.
    """
    member = np.asarray(membership, dtype=np.float64)
    shared = member / np.maximum(member.sum(axis=0), 1.0)
    return np.asarray(member @ (weights * latent_scores) @ shared.T)


def inflated(se: Floats, n: int, reading: str, alpha: float = ALPHA) -> Floats:
    """Return standard errors under one of :data:`READINGS`, for an outcome of variance 1."""
    amount = n**-0.5 / float(stats.norm.isf(alpha))
    if reading == "asymptotic variance":
        return np.asarray(np.sqrt(se**2 + amount / n))
    if reading == "factor":
        return np.asarray(se * np.sqrt(1.0 + amount))
    expansions: Mapping[str, Any] = {
        "none": None,
        "standard error": "standard_error",
        "variance": "variance",
    }
    return expand_standard_errors(
        se, expansion=expansions[reading], n=n, outcome_variance=1.0, level=1.0 - alpha
    )


def count_significant(
    scores: Floats, se: Floats, n: int, *, tests: int | None = None, alpha: float = ALPHA
) -> dict[str, int]:
    """Return how many scores exceed 0 in one-sided Bonferroni tests, by reading.

    Parameters
    ----------
    scores, se : ndarray of shape (p,)
        Estimates; one without a standard error is not significant.
    n : int
        Rows.
    tests : int, optional
        Number of tests that the level is divided by; all scores by default.
    alpha : float
        Family-wise level.
    """
    critical = float(stats.norm.isf(alpha / (tests or len(scores))))
    return {
        reading: int(np.sum(scores >= critical * inflated(se, n, reading, alpha)))
        for reading in READINGS
    }


def feature_counts(result: Importance) -> dict[str, int]:
    """Return the numbers of significant features of a result."""
    return count_significant(result.scores, result.se, result.quality.n_rows)


def describe_groups(data: str | None = None) -> Record:
    """Return the groups' names, descriptions, sizes and the correlation between them."""
    hiv = read_hiv(OUTCOMES[0], data)
    membership = members(hiv.groups, hiv.names)
    return {
        "groups": list(hiv.groups),
        "descriptions": [hiv.descriptions[name] for name in hiv.groups],
        "sizes": membership.sum(axis=1),
        "correlation": mean_correlation(hiv.X, membership),
    }


def mean_correlation(matrix: Floats, membership: NDArray[np.bool_]) -> Floats:
    """Return the mean absolute correlation of pairs of different features, one of each group."""
    member = np.asarray(membership, dtype=np.float64)
    absolute = np.abs(np.corrcoef(matrix, rowvar=False))
    np.fill_diagonal(absolute, 0.0)
    pairs = np.outer(member.sum(axis=1), member.sum(axis=1)) - member @ member.T
    return np.asarray((member @ absolute @ member.T) / np.maximum(pairs, 1.0))


def _latent(result: Importance) -> Importance:
    if result.latent is None:
        raise RuntimeError("a transport has a latent space")
    return result.latent


def _attribution(result: Importance) -> Floats:
    if result.attribution is None:
        raise RuntimeError("a transport has attribution weights")
    return result.attribution
