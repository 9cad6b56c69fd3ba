r"""Influence values under the Gaussian copula, its whitening's own error included.

The normal-scores correlation has the same influence function as the correlation of the (unknown)
normal variables, :math:`IF_R = ss' - \frac12(\mathrm{diag}(s^2)R + R\,\mathrm{diag}(s^2))`, so the
terms of :mod:`dfi.inference.transport_terms` apply on the scores. With the slope weights
:math:`w_{jl}(z_{-j}) = E_t[g_l^2]`,

.. math:: IF_{X_l} = \sum_j L_{lj}^2 \{w_{jl}\,u_j + \bar w_{jl}\,T_j\}
          + 2 \sum_j L_{lj} D_{lj}\,E[w_{jl}\,u_j],

:math:`T_j` the latent transport term and :math:`\bar w` the mean weight.

Left out: how the margins' own error bends the curves beyond its linear part (location and scale
in score space are in), and the error of the slopes :math:`g_l`. Both vanish for normal margins
under a linear regression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfi.inference.transport_terms import MapInfluence, latent_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfi.data.weights import Weights
    from dfi.importance.latent import LatentScores
    from dfi.transport.copula import CopulaTransport

    Floats = NDArray[np.float64]


def copula_influence(
    scores: LatentScores,
    matrix: Floats,
    weights: Weights,
    transport: CopulaTransport,
    *,
    fixed: bool,
) -> tuple[Floats, Floats, Floats]:
    """Return latent and attributed influence values and the mean squared Jacobian.

    Parameters
    ----------
    scores : LatentScores
        Of the rows, in score space.
    matrix, weights
        The same rows and their weights.
    transport : CopulaTransport
        The fitted transport.
    fixed : bool
        Take the transport as known.
    """
    linear = transport.linear
    rows = transport.scores(matrix)
    latent = linear.encode(rows)
    terms = np.zeros_like(scores.influence)
    influence = None
    if not fixed:
        influence = MapInfluence(linear, linear.standardize(rows))
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
    return scores.influence + terms, attributed, squared * mean_weight
