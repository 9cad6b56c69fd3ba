r"""Do the intervals cover? Replicated simulations with the truth beside them.

Each replication draws a sample of a model with known scores, explains it, and asks of every
feature whether its interval contains the truth. The Monte-Carlo error of a coverage :math:`p`
from ``N`` replications is :math:`\sqrt{p(1-p)/N}`: 0.017 at 0.9 with 300.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

from dfi import DFI
from dfi.inference import wald_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from paper.truths import Simulation

    Floats = NDArray[np.float64]

Simulate = Callable[[int], "Simulation"]
"""Replication number to sample."""


@dataclass(frozen=True)
class CoverageStudy:
    """Estimates of replicated samples, with the truth of each unit.

    Attributes
    ----------
    truth : ndarray of shape (d,)
        True attributed scores.
    scores, se, plain_se, skewness : ndarray of shape (replications, d)
        Estimates, their transport-aware standard errors, those of a known transport, and the
        skewness of the estimates.
    scale : ndarray of shape (replications,)
        ``Var(Y) / sqrt(n)``, the unit of the expansion near the null.
    plain_scores : ndarray of shape (replications, d), optional
        Estimates that belong to ``plain_se``, where they are not ``scores``.
    """

    truth: Floats
    scores: Floats
    se: Floats
    plain_se: Floats
    skewness: Floats
    scale: Floats
    plain_scores: Floats | None = None

    def coverage(self, level: float = 0.9, *, plain: bool = False, expand: bool = False) -> Floats:
        """Return the share of replications whose interval holds each unit's truth."""
        return np.asarray(self.covered(level, plain=plain, expand=expand).mean(axis=0))

    def covered(
        self,
        level: float = 0.9,
        *,
        plain: bool = False,
        expand: bool = False,
        nonnegative: bool = True,
    ) -> NDArray[np.bool_]:
        """Return which intervals hold the truth, of shape (replications, d).

        ``plain`` takes the paper's intervals (known transport, Wald), ``expand`` adds its
        expansion near the null, ``nonnegative`` projects the endpoints on the scores' range: an
        interval below 0 then becomes the point 0.
        """
        error, skewness = (self.plain_se, None) if plain else (self.se, self.skewness)
        if expand:
            skewness = None
            error = error + self.scale[:, None] / float(stats.norm.ppf(level))
        scores = self.plain_scores if plain and self.plain_scores is not None else self.scores
        low, high = wald_interval(
            scores, error, level=level, nonnegative=nonnegative, skewness=skewness
        )
        # a score of exactly 0 has no standard error: it holds the truth where that is 0
        exact = (error == 0) & (scores == self.truth)
        return np.asarray(exact | ((low <= self.truth) & (self.truth <= high)))

    @property
    def error(self) -> float:
        """Monte-Carlo standard error of a coverage of 90 %."""
        return float(np.sqrt(0.09 / len(self.scores)))


def coverage_study(
    simulate: Simulate,
    *,
    replications: int,
    estimator: Any = None,
    n_jobs: int | None = None,
    **options: Any,
) -> CoverageStudy:
    """Explain replicated samples.

    Parameters
    ----------
    simulate : callable
        Replication number to :class:`~paper.truths.Simulation`, with its truth.
    replications : int
        Number of samples.
    estimator : optional
        The regression; None uses the true one, as a fitted model.
    n_jobs : int, optional
        Parallel replications.
    **options
        Further parameters of :class:`~dfi.DFI`.
    """
    tasks = (delayed(_replicate)(simulate, k, estimator, options) for k in range(replications))
    rows = Parallel(n_jobs=n_jobs)(tasks)
    truth = np.asarray(rows[0][0])
    return CoverageStudy(truth, *(np.asarray([row[k] for row in rows]) for k in range(1, 7)))


def _replicate(
    simulate: Simulate, number: int, estimator: Any, options: dict[str, Any]
) -> tuple[Floats | None, Floats, Floats, Floats, Floats, float, Floats]:
    sample = simulate(number)
    settings: dict[str, Any] = {"diagnose": False, "progress": False, **options}
    if estimator is None:
        settings = {"form": "loco", **settings, "estimator": sample.regression, "cv": "prefit"}
    else:
        settings |= {"estimator": estimator, "random_state": number}
    explainer = DFI(**settings).fit(sample.X, sample.y)
    result = explainer.result_
    plain = explainer.with_fixed_transport()
    scale = result.quality.outcome_variance / np.sqrt(result.quality.n_rows)
    return (
        sample.attributed,
        result.scores,
        result.se,
        plain.se,
        result.skewness,
        scale,
        plain.scores,
    )
