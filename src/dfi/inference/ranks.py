r"""Ranks of scores: how much of the order is certain, for all units at once.

The rank of unit :math:`j` is :math:`1 + \#\{k: \phi_k > \phi_j\}`: ties share the better one. For
each pair :math:`t_{jk} = (\hat\phi_j - \hat\phi_k)/\hat\sigma_{jk}`, with the standard error of the
difference of the two columns of influence values,
:math:`\hat\sigma_{jk}^2 = \Sigma_{jj} + \Sigma_{kk} - 2\Sigma_{jk}`; :math:`\Sigma`, the covariance
of the scores, knows weights, clusters and time. With :math:`c` the ``level`` quantile of

.. math:: \max_{j<k} |Z_j - Z_k|/\hat\sigma_{jk}, \qquad Z \sim N(0, \Sigma),

a unit is surely above another where :math:`t_{jk} > c`. The maximum is then taken over the pairs
that are left, which lowers :math:`c`, until no pair is added (Romano and Wolf, "Exact and
approximate stepdown methods", JASA 100, 2005; for ranks Mogstad, Romano, Shaikh and Wilhelm,
"Inference for ranks", Review of Economic Studies 91, 2024). The sets

.. math:: [\,1 + \#\{k \text{ surely above } j\},\; p - \#\{k \text{ surely below } j\}\,]

hold the ranks of all units at once, in large samples with probability ``level`` or more.

**Near the null** influence values vanish to first order, and what is left of the error of a score
is of the order :math:`\operatorname{Var}(Y)/n` (of what the mean outcome loses, for other losses):
its square is added to every :math:`\hat\sigma_{jk}^2` of :math:`t_{jk}`, where it is negligible
unless both scores are near 0. The draws are divided by the error without it.

**Units that do not vary** have no error: 0 is 0. They tie with each other, and those called
unrelated are surely below another only where it clears what tests of dependence may have missed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from dfi.inference.intervals import check_level, critical_value, highest_level, studentised

if TYPE_CHECKING:
    from dfi._types import Bools, Floats, Ints
    from dfi.inference.influence import Influence

# Of the two variances: a difference that varies less is that of duplicates, up to rounding.
_ROUNDING = 1e-12
_BYTES = 2**20  # of statistics held at a time: they stay in the processor's cache


def rank_sets(
    influence: Influence,
    *,
    level: float,
    remainder: float = 0.0,
    undetected: Floats | None = None,
    unknown: Bools | None = None,
    nonnegative: bool = False,
    n_draws: int | None = None,
    random_state: int = 0,
) -> dict[str, Ints]:
    """Return ``rank``, ``rank_low`` and ``rank_high`` of every unit."""
    level = check_level(level)
    above = _surely_above(
        influence,
        level=level,
        remainder=remainder,
        undetected=np.zeros(influence.n_units) if undetected is None else undetected,
        unknown=np.zeros(influence.n_units, dtype=np.bool_) if unknown is None else unknown,
        nonnegative=nonnegative,
        n_draws=n_draws,
        random_state=random_state,
    )
    scores = influence.mean
    larger = np.searchsorted(np.sort(-scores), -scores, side="left")
    return {
        "rank": 1 + larger.astype(np.intp),
        "rank_low": 1 + above.sum(axis=0, dtype=np.intp),
        "rank_high": len(scores) - above.sum(axis=1, dtype=np.intp),
    }


def _surely_above(
    influence: Influence,
    *,
    level: float,
    remainder: float,
    undetected: Floats,
    unknown: Bools,
    nonnegative: bool,
    n_draws: int | None,
    random_state: int,
) -> Bools:
    """Return (p, p): whether the unit of the row is surely above that of the column."""
    scores, se, covariance = influence.mean, influence.se, influence.covariance
    p = len(scores)
    varies = (se > 0.0) & ~unknown
    exact = (se == 0.0) & ~unknown
    above = np.zeros((p, p), dtype=np.bool_)
    if p < 2 or not varies.any():
        return above
    # the draws of a unit must not depend on its place in the table
    chosen = np.flatnonzero(varies)
    chosen = chosen[np.lexsort((covariance[chosen].sum(axis=1), se[chosen], scores[chosen]))]
    draws = _draws(covariance, se, chosen, influence.degrees, n_draws, random_state)

    variance = np.where(varies, np.diag(covariance), 0.0)
    shared = np.where(np.outer(varies, varies), covariance, 0.0)
    both = variance[:, None] + variance[None, :]
    squared = both - 2.0 * shared
    # of two that do not vary, and of duplicates, nothing can be said
    told = (squared > _ROUNDING * both) & ~unknown[:, None] & ~unknown[None, :]
    squared = np.where(told, squared, 1.0)
    lowest = np.where(exact & nonnegative, -np.inf, scores - np.where(exact, undetected, 0.0))
    highest = scores + np.where(exact, undetected, 0.0)
    t = (lowest[:, None] - highest[None, :]) / np.sqrt(squared + remainder**2)
    t[~told] = -np.inf

    # all that do not vary are one more column of the draws, 0
    first, second = np.triu_indices(len(chosen), 1)
    one, other = chosen[first], chosen[second]
    kept = told[one, other]
    pairs = (first[kept], second[kept])
    units = (one[kept], other[kept])
    errors = np.sqrt(squared[units])
    alone = np.arange(len(chosen)) if exact.any() else np.zeros(0, dtype=np.intp)
    while True:
        open_pairs = ~(above[units] | above[units[::-1]])
        settled = above[np.ix_(chosen, exact)] | above[np.ix_(exact, chosen)].T
        open_alone = alone[~settled.all(axis=1)[alone]]
        if not open_pairs.any() and not len(open_alone):
            return above
        maxima = _maxima(
            draws,
            pairs[0][open_pairs],
            pairs[1][open_pairs],
            errors[open_pairs],
            open_alone,
            se[chosen[open_alone]],
        )
        more = t > _critical(
            maxima, level, influence.degrees, int(open_pairs.sum()) + len(open_alone)
        )
        if not (more & ~above).any():
            return above
        above |= more


def _critical(maxima: Floats, level: float, degrees: float, n_pairs: int) -> float:
    """Return the critical value of all open comparisons: Bonferroni's if draws are too few."""
    if level <= highest_level(len(maxima)):
        return critical_value(maxima, level)
    tail = (1.0 - level) / (2 * n_pairs)
    return float(norm.isf(tail) if degrees == math.inf else student.isf(tail, degrees))


def _draws(
    covariance: Floats,
    se: Floats,
    chosen: Ints,
    degrees: float,
    n_draws: int | None,
    random_state: int,
) -> Floats:
    """Return draws of the errors, (units, draws), by the symmetric root: eigenvectors may turn."""
    if n_draws is None:
        n_draws = int(np.clip(4000 * (200.0 / len(chosen)) ** 2, 1000, 4000))
    error = se[chosen]
    correlation = covariance[np.ix_(chosen, chosen)] / np.outer(error, error)
    values, vectors = np.linalg.eigh(correlation)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    generator = np.random.default_rng(random_state)
    g = generator.standard_normal((n_draws, len(chosen)))
    normal = (root * error[:, None]) @ g.T
    return np.asarray(normal * studentised(np.ones(n_draws), degrees, generator))


def _maxima(
    draws: Floats, first: Ints, second: Ints, errors: Floats, alone: Ints, se: Floats
) -> Floats:
    """Return the largest statistic of each draw, over pairs and over units against 0."""
    n_draws = draws.shape[1]
    maxima = np.zeros(n_draws)
    chunk = max(1, _BYTES // (8 * n_draws))
    for start in range(0, len(alone), chunk):
        part = slice(start, start + chunk)
        t = np.abs(draws[alone[part]]) / se[part, None]
        np.maximum(maxima, t.max(axis=0), out=maxima)
    for start in range(0, len(first), chunk):
        part = slice(start, start + chunk)
        t = draws[first[part]]
        t -= draws[second[part]]
        np.abs(t, out=t)
        t /= errors[part, None]
        np.maximum(maxima, t.max(axis=0), out=maxima)
    return maxima
