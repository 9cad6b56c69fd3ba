r"""Influence values under the Gaussian copula, its whitening's own error included.

The normal-scores correlation has the same influence function as the correlation of the (unknown)
normal variables, :math:`IF_R = ss' - \frac12(\mathrm{diag}(s^2)R + R\,\mathrm{diag}(s^2))`, so the
terms of :mod:`dfi.inference.transport_terms` apply on the scores. With the slope weights
:math:`w_{jl}(z_{-j}) = E_t[g_l^2]`,

.. math:: IF_{X_l} = \sum_j L_{lj}^2 \{w_{jl}\,u_j + \bar w_{jl}\,T_j\}
          + 2 \sum_j L_{lj} D_{lj}\,E[w_{jl}\,u_j] + \phi_{X_l} Q_l,

:math:`T_j` the latent transport term, :math:`\bar w` the mean weight and :math:`Q_l` the relative
error of the squared slopes (:func:`slope_terms`).

The second-order bias is that of :mod:`dfi.inference.second_order` with the slopes in their places,
:math:`b_{X_l} = \sum_j L_{lj}^2 \bar w_{jl}\, b_{Z_j} + \frac1n \sum_j \overline{D_{lj}^2}\,
E[w_{jl} u_j]`.

Left out: how the margins' own error bends the curves beyond its linear part (location and scale
in score space are in). It vanishes for normal margins under a linear regression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from dfi.inference.transport_terms import MapInfluence, latent_terms

if TYPE_CHECKING:
    from dfi._data.weights import Weights
    from dfi._scoring.lines import LineScores
    from dfi._types import Floats
    from dfi.inference.second_order import SquaredInfluence
    from dfi.transports.copula import CopulaTransport

EXTREME = np.pi / (2.0 * np.sqrt(6.0))
r"""Share of the outermost row in its own quantile. With it the largest of ``n`` values moves by
:math:`\frac{\pi}{\sqrt 6}(1 - p)/\varphi(s)` at its mid-rank :math:`p = 1 - 1/(2n)`, the spread of
a Gumbel variable, where one half (as for other rows) would leave its randomness out."""


@dataclass(frozen=True)
class CopulaInfluence:
    """Influence values under a copula.

    Attributes
    ----------
    latent, attributed : ndarray of shape (n, d)
        Uncentred influence values.
    jacobian : ndarray of shape (d, d)
        Mean squared Jacobian, feature by latent coordinate.
    bias : ndarray of shape (d,) or None
        Second-order bias of the attributed scores, where it was asked for.
    """

    latent: Floats
    attributed: Floats
    jacobian: Floats
    bias: Floats | None = None


def copula_influence(
    scores: LineScores,
    matrix: Floats,
    weights: Weights,
    transport: CopulaTransport,
    *,
    influence: MapInfluence | None,
    squares: SquaredInfluence | None = None,
) -> CopulaInfluence:
    """Return latent and attributed influence values and the mean squared Jacobian.

    Parameters
    ----------
    scores : LineScores
        Of the rows, in score space.
    matrix, weights
        The same rows and their weights.
    transport : CopulaTransport
        The fitted transport.
    influence : MapInfluence or None
        Of the same rows on the whitening of their scores (:func:`score_influence`); None takes
        the transport as known.
    squares : SquaredInfluence, optional
        Return the second-order bias that it causes.
    """
    linear = transport.linear
    latent = linear.encode(transport.scores(matrix))
    terms = np.zeros_like(scores.influence)
    if influence is not None:
        terms = latent_terms(influence, scores)
    squared = linear.decoder**2
    attributed = np.zeros_like(scores.influence)
    mean_weight, mean_product = np.empty_like(squared), np.empty_like(squared)
    for j in range(transport.n_latent):
        slope = transport.line_weights(latent, j)
        product = slope * scores.influence[:, [j]]
        mean_weight[:, j] = weights.mean(slope)
        mean_product[:, j] = weights.mean(product)
        attributed += squared[:, j] * (product + mean_weight[:, j] * terms[:, [j]])
    if influence is not None:
        identity = np.eye(transport.n_latent)
        attributed += 2.0 * influence.on_decoder(identity, (linear.decoder * mean_product).T)
        phi = np.sum(squared * mean_product, axis=1)
        attributed += phi * slope_terms(matrix, weights, transport)
    found = CopulaInfluence(scores.influence + terms, attributed, squared * mean_weight)
    if squares is None:
        return found
    bias = found.jacobian @ squares.latent + np.sum(squares.decoder * mean_product, axis=1)
    return replace(found, bias=bias)


def score_influence(matrix: Floats, transport: CopulaTransport) -> MapInfluence:
    """Return the rows' influence on the whitening of their normal scores."""
    linear = transport.linear
    return MapInfluence(linear, linear.standardize(transport.scores(matrix)))


def slope_terms(matrix: Floats, weights: Weights, transport: CopulaTransport) -> Floats:
    r"""Return the influence of rows on each margin's mean squared slope, relative to it, (n, d).

    The slope between knots :math:`s_k < s_{k+1}` is a difference of two quantiles over the
    column's standard deviation. A row moves the quantile at score ``s`` by
    :math:`J_i(s) = \{\Phi(s) - 1(x_i \le Q(s))\}\, g(s)/\varphi(s)`, and so

    .. math:: Q_i = \frac{2 \sum_k p_k\, g_k\, \{J_i(s_{k+1}) - J_i(s_k)\}/(s_{k+1} - s_k)}
              {\sum_k p_k g_k^2} - \Big\{\frac{(x_i - \bar x)^2}{\hat\sigma^2} - 1\Big\},

    :math:`p_k` the normal probability of the cell times :math:`m_k/(m_k + 1)`, the share of the
    squared slope that is not error. The cells' weights are taken as unrelated to the
    latent scores, which is exact for additive regressions. Zero for normal margins; columns with
    levels, whose slopes are between levels, are left at zero.
    """
    terms = np.zeros((len(matrix), transport.n_latent))
    for m, column in enumerate(transport.active):
        margin = transport.margins[column]
        if margin is None or margin.discrete:
            continue
        values, knots = matrix[:, column], margin.scores
        slopes = margin.slopes()
        at_knots = np.concatenate([slopes[:1], 0.5 * (slopes[1:] + slopes[:-1]), slopes[-1:]])
        below = 0.5 * (values[:, None] < margin.values) + 0.5 * (values[:, None] <= margin.values)
        below[values <= margin.values[0], 0] = EXTREME
        below[values >= margin.values[-1], -1] = 1.0 - EXTREME
        shift = (ndtr(knots) - below) * at_knots * np.sqrt(2 * np.pi) * np.exp(0.5 * knots**2)
        probability = np.diff(ndtr(margin.squared_slopes()[0])) * margin.shrink()
        change = np.diff(shift, axis=1) / np.diff(knots) @ (probability * slopes)
        standardized = (values - transport.center[column]) / transport.deviation[column]
        terms[:, m] = 2.0 * change / (probability @ slopes**2) - (standardized**2 - 1.0)
    return np.asarray(terms - weights.mean(terms))
