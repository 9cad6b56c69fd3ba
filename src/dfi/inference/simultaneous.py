r"""Simultaneous bands: one critical value for all units, by multiplier bootstrap.

The bands :math:`\hat\phi_l \pm c\,\hat\sigma_l` hold for all units at once when :math:`c` is the
quantile of :math:`\max_l |\hat\phi_l - \phi_l| / \hat\sigma_l`. That law is approximated by

.. math::

    T^*_l = \frac{\sum_i g_i\, a_i (u_{il} - \bar u_l)}
                 {\bigl(\sum_i a_i^2 (u_{il} - \bar u_l)^2\bigr)^{1/2}},

with independent multipliers :math:`g_i` of mean 0 and variance 1: the same multiplier for all
units of a row, so the dependence between units is kept and correlated units cost little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from dfi.inference.intervals import Alternative, check_alternative, check_level
from dfi.inference.standard_errors import standard_errors

if TYPE_CHECKING:
    from dfi._data.weights import Weights
    from dfi._types import Floats

Multipliers = Literal["gaussian", "rademacher"]


def max_t_statistics(
    influence: Floats,
    weights: Weights,
    *,
    alternative: Alternative = "two-sided",
    multipliers: Multipliers = "gaussian",
    n_draws: int = 4000,
    random_state: int | np.random.Generator = 0,
    memory: int = 2**26,
) -> Floats:
    r"""Draw the maximum over units of the bootstrapped t statistics.

    Parameters
    ----------
    influence : ndarray of shape (n, p)
        Uncentred influence values.
    weights : Weights
        Weights of the rows. Sampling weights enter with :math:`a_i = w_i`, frequency weights
        with :math:`a_i = \sqrt{w_i}`: the sum of :math:`w_i` independent multipliers of equal
        rows has standard deviation :math:`\sqrt{w_i}`.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        Maximum of :math:`|T^*_l|`, of :math:`T^*_l` (lower bounds) or of :math:`-T^*_l` (upper
        bounds).
    multipliers : {"gaussian", "rademacher"}, default="gaussian"
        Law of :math:`g_i`: N(0, 1), or -1 and 1 with probability 1/2.
    n_draws : int, default=4000
        Number of bootstrap draws.
    random_state : int or Generator, default=0
        Seed of the multipliers.
    memory : int, default=2**26
        Bound on the bytes of multipliers held at a time. It changes the result by rounding
        only: the multipliers are one stream, however it is cut.

    Returns
    -------
    ndarray of shape (n_draws,)
        Maxima; NaN when no column varies.
    """
    alternative = check_alternative(alternative)
    if multipliers not in ("gaussian", "rademacher"):
        raise ValueError(f"multipliers must be 'gaussian' or 'rademacher', got {multipliers!r}")
    if n_draws < 1:
        raise ValueError(f"n_draws must be at least 1, got {n_draws!r}")
    values = np.asarray(weights.values, dtype=np.float64)
    scale = np.sqrt(values) if weights.kind == "frequency" else values
    centred = scale[:, None] * (influence - weights.mean(influence))
    kept = standard_errors(influence, weights) > 0.0
    if not kept.any():
        return np.full(n_draws, np.nan)
    standardised = centred[:, kept]
    standardised /= np.sqrt(np.einsum("ij,ij->j", standardised, standardised))

    generator = np.random.default_rng(random_state)
    n = len(standardised)
    chunk = int(np.clip(memory // (8 * max(n, standardised.shape[1])), 1, n_draws))
    maxima = np.empty(n_draws)
    for start in range(0, n_draws, chunk):
        stop = min(start + chunk, n_draws)
        if multipliers == "gaussian":
            g = generator.standard_normal((stop - start, n))
        else:
            # integers() draws several bits from one word and drops the rest at the end of a
            # call, so the stream would depend on the chunks; random() does not.
            g = np.where(generator.random((stop - start, n)) < 0.5, -1.0, 1.0)
        t = g @ standardised
        if alternative == "two-sided":
            np.abs(t, out=t)
        elif alternative == "less":
            np.negative(t, out=t)
        maxima[start:stop] = t.max(axis=1)
    return maxima


def max_t_critical_value(
    influence: Floats,
    weights: Weights,
    *,
    level: float = 0.95,
    alternative: Alternative = "two-sided",
    multipliers: Multipliers = "gaussian",
    n_draws: int = 4000,
    random_state: int | np.random.Generator = 0,
    memory: int = 2**26,
) -> float:
    """Return the critical value of simultaneous bands.

    The ``level`` quantile of :func:`max_t_statistics`, whose parameters are described there,
    rounded up to a drawn value. NaN when no column varies.
    """
    level = check_level(level)
    maxima = max_t_statistics(
        influence,
        weights,
        alternative=alternative,
        multipliers=multipliers,
        n_draws=n_draws,
        random_state=random_state,
        memory=memory,
    )
    return float(np.quantile(maxima, level, method="higher"))
